/* Makes the tokenizer of a GGUF file from its arrays: byte pairs over bytes, with a pattern that the
 * file names. */
#include <string.h>

#include "base/try.h"
#include "tokens/character.h"
#include "tokens/pipeline.h"

enum { UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4 }; /* types of tokens in the file */

/* The patterns that a file can name. */
static const struct {
    const char *name;
    bool digits; /* each digit is a word */
    attn_scanner *scan;
    size_t most_digits;
    bool whole_first;
    bool composed; /* texts are put into NFC */
} patterns[] = {{"smollm", true, attn_scan_gpt2, 0, false, false},
                {"gpt-2", false, attn_scan_gpt2, 0, false, false},
                {"llama-bpe", false, attn_scan_llama3, 3, true, false},
                {"qwen2", false, attn_scan_llama3, 1, false, true}};

static bool is(attn_string text, const char *name) {
    return text.text && text.size == strlen(name) && !memcmp(text.text, name, text.size);
}

static attn_status set_steps(attn_tokenizer *t, attn_string pre, attn_error *err) {
    attn_pipeline *p = t->pipeline;
    p->normalisers = attn_arena_zeroed(p->arena, 1, sizeof *p->normalisers);
    p->splitters = attn_arena_zeroed(p->arena, 2, sizeof *p->splitters);
    ATTN_TAKEN(p->normalisers && p->splitters, "a tokenizer", err);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!is(pre, patterns[i].name))
            continue;
        if (patterns[i].composed)
            p->normalisers[p->normaliser_count++] =
                (attn_step){.apply = attn_step_form, .compose = true};
        if (patterns[i].digits)
            p->splitters[p->splitter_count++] = (attn_step){.apply = attn_step_split,
                                                            .scan = attn_scan_class,
                                                            .classes = ATTN_IS_NUMERIC,
                                                            .behaviour = ATTN_SPLIT_ISOLATED};
        p->splitters[p->splitter_count++] = (attn_step){.apply = attn_step_split,
                                                        .scan = patterns[i].scan,
                                                        .most_digits = patterns[i].most_digits,
                                                        .behaviour = ATTN_SPLIT_ISOLATED};
        p->pairs.whole_first = patterns[i].whole_first;
        return ATTN_OK;
    }
    return attn_fail(err, ATTN_EVALUE, "tokenizer.ggml.pre",
                     "expected smollm, gpt-2, llama-bpe or qwen2, found %.*s",
                     (int)(pre.size < 60 ? pre.size : 60), pre.text ? pre.text : "");
}

static attn_status set_tokens(attn_tokenizer *t, const attn_tokenizer_arrays *a, bool *raw,
                              attn_error *err) {
    attn_pipeline *p = t->pipeline;
    p->added = attn_arena_zeroed(p->arena, a->token_count + 1, sizeof *p->added);
    ATTN_TAKEN(p->added, "the tokens of a tokenizer", err);
    for (size_t i = 0; i < a->token_count; i++) {
        const int32_t type = a->types ? a->types[i] : 1;
        ATTN_TRY(attn_pipeline_token(t, a->tokens[i].text, a->tokens[i].size, err));
        if (type != UNKNOWN && type != CONTROL && type != USER_DEFINED)
            continue;
        raw[p->added_count] = true;
        p->added[p->added_count++] =
            (attn_added){.id = (int32_t)i, .special = type != USER_DEFINED};
    }
    return ATTN_OK;
}

static attn_status set_merges(attn_tokenizer *t, const attn_tokenizer_arrays *a, attn_arena *arena,
                              attn_error *err) {
    attn_string(*pairs)[2] = attn_arena_array(arena, a->merge_count + 1, sizeof *pairs);
    ATTN_TAKEN(pairs, "the merges of a tokenizer", err);
    for (size_t i = 0; i < a->merge_count; i++) {
        const attn_string merge = a->merges[i];
        const char *blank = merge.size ? memchr(merge.text, ' ', merge.size) : NULL;
        if (!blank)
            return attn_fail(err, ATTN_EVALUE, "merges",
                             "expected two tokens with a blank between them at index %zu", i);
        const size_t left = (size_t)(blank - merge.text);
        pairs[i][0] = (attn_string){merge.text, left};
        pairs[i][1] = (attn_string){blank + 1, merge.size - left - 1};
    }
    return attn_pipeline_merges(t, (const attn_string(*)[2])pairs, a->merge_count, err);
}

static attn_status set_specials(attn_tokenizer *t, const attn_tokenizer_arrays *a,
                                attn_error *err) {
    for (int i = 0; i < ATTN_SPECIALS; i++) {
        if (a->specials[i] < -1 || a->specials[i] >= (int64_t)t->length)
            return attn_fail(err, ATTN_EVALUE, "specials",
                             "the id of \"%s\" is %d, expected one of %zu tokens",
                             attn_special_names[i], (int)a->specials[i], t->length);
        t->specials[i] = a->specials[i];
    }
    return ATTN_OK;
}

/* Appends an item to both templates. */
static attn_status add_item(attn_tokenizer *t, attn_template_item *items[2], size_t counts[2],
                            attn_special special, attn_error *err) {
    if (t->specials[special] < 0)
        return attn_fail(err, ATTN_EVALUE, "specials",
                         "the template needs the token \"%s\", which has no id",
                         attn_special_names[special]);
    for (int i = 0; i < 2; i++)
        items[i][counts[i]++] = (attn_template_item){ATTN_PART_TOKEN, t->specials[special], 0};
    return ATTN_OK;
}

static attn_status set_template(attn_tokenizer *t, const attn_tokenizer_arrays *a,
                                attn_error *err) {
    attn_pipeline *p = t->pipeline;
    attn_template_item *items[2];
    size_t counts[2] = {0};
    for (int i = 0; i < 2; i++) {
        items[i] = attn_arena_zeroed(p->arena, 4, sizeof *items[i]);
        ATTN_TAKEN(items[i], "a tokenizer", err);
    }
    if (a->add_begin)
        ATTN_TRY(add_item(t, items, counts, ATTN_SPECIAL_BEGIN, err));
    for (int i = 0; i < 2; i++)
        items[i][counts[i]++] = (attn_template_item){ATTN_PART_FIRST, 0, 0};
    items[1][counts[1]++] = (attn_template_item){ATTN_PART_SECOND, 0, 1};
    if (a->add_end)
        ATTN_TRY(add_item(t, items, counts, ATTN_SPECIAL_END, err));
    p->one = (attn_template){items[0], counts[0]};
    p->two = (attn_template){items[1], counts[1]};
    return ATTN_OK;
}

static attn_status fill(attn_tokenizer *t, const attn_tokenizer_arrays *a, attn_arena *arena,
                        attn_error *err) {
    attn_pipeline *p = t->pipeline;
    bool *raw = attn_arena_zeroed(arena, a->token_count + 1, sizeof *raw);
    p->decoders = attn_arena_zeroed(p->arena, 1, sizeof *p->decoders);
    ATTN_TAKEN(raw && p->decoders, "a tokenizer", err);
    p->decoders[p->decoder_count++].apply = attn_decode_bytes;
    p->pairs.of_bytes = true;
    ATTN_TRY(set_steps(t, a->pre, err));
    ATTN_TRY(set_tokens(t, a, raw, err));
    ATTN_TRY(set_merges(t, a, arena, err));
    ATTN_TRY(attn_pipeline_finish(t, raw, err));
    ATTN_TRY(set_specials(t, a, err));
    return set_template(t, a, err);
}

attn_status attn_tokenizer_read_arrays(const attn_tokenizer_arrays *arrays, attn_tokenizer **out,
                                       attn_error *err) {
    if (!is(arrays->model, "gpt2"))
        return attn_fail(err, ATTN_EVALUE, "tokenizer.ggml.model", "expected gpt2, found %.*s",
                         (int)(arrays->model.size < 60 ? arrays->model.size : 60),
                         arrays->model.text ? arrays->model.text : "");
    if (arrays->token_count > INT32_MAX / 2)
        return attn_fail(err, ATTN_EVALUE, "tokens", "expected at most 2^30 tokens");
    attn_arena *arena = attn_arena_new(SIZE_MAX / 2);
    attn_tokenizer *t = arena ? attn_pipeline_new(ATTN_TOKENS_BYTE_PAIRS) : NULL;
    const attn_status status = t ? fill(t, arrays, arena, err) : attn_no_memory(err, "a tokenizer");
    attn_arena_free(arena);
    if (status)
        attn_tokenizer_free(t);
    else
        *out = t;
    return status;
}
