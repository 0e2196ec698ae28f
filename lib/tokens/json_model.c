/* Reads the model of a tokenizer.json: its vocabulary, merges and options. */
#include <string.h>

#include "base/try.h"
#include "tokens/json_reader.h"

static const char MODEL[] = "model";

/* --- vocabularies --- */

/* Reads {"token": id, …}. The ids must be 0, 1, …, each once. */
static attn_status read_vocabulary(const attn_json_reader *r, attn_json *model) {
    const attn_json *vocab = attn_json_member(model, "vocab");
    if (!vocab || vocab->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, "model/vocab", "expected an object, found %s",
                         vocab ? attn_json_kind_name(vocab) : "nothing");
    const char **by_id = attn_arena_zeroed(r->arena, vocab->count + 1, sizeof *by_id);
    ATTN_TAKEN(by_id, "the vocabulary of a tokenizer", r->err);
    for (const attn_json *x = vocab->first; x; x = x->next) {
        int64_t id;
        if (!attn_json_integer(x, 0, (int64_t)vocab->count - 1, &id) || by_id[id])
            return attn_fail(r->err, ATTN_EVALUE, "model/vocab",
                             "expected the ids 0 to %zu, each once; that of %.60s is none of them",
                             vocab->count - 1, x->key);
        by_id[id] = x->key;
    }
    for (size_t i = 0; i < vocab->count; i++)
        ATTN_TRY(attn_error_within(attn_pipeline_token(r->t, by_id[i], strlen(by_id[i]), r->err),
                                   MODEL, r->err));
    return ATTN_OK;
}

/* Reads [["token", score], …]. */
static attn_status read_scores(const attn_json_reader *r, attn_json *model) {
    attn_unigram *u = &r->t->pipeline->unigram;
    const attn_json *vocab = attn_json_member(model, "vocab");
    if (!vocab || vocab->kind != ATTN_JSON_LIST)
        return attn_fail(r->err, ATTN_EVALUE, "model/vocab", "expected a list, found %s",
                         vocab ? attn_json_kind_name(vocab) : "nothing");
    attn_arena *arena = r->t->pipeline->arena;
    double *scores = attn_arena_array(arena, vocab->count + 1, sizeof *scores);
    attn_prefix *items = attn_arena_array(arena, vocab->count + 1, sizeof *items);
    ATTN_TAKEN(scores && items, "the vocabulary of a tokenizer", r->err);
    size_t i = 0;
    for (const attn_json *x = vocab->first; x; x = x->next, i++) {
        const attn_json *token = x->kind == ATTN_JSON_LIST && x->count == 2 ? x->first : NULL;
        if (!token || token->kind != ATTN_JSON_STRING || token->next->kind != ATTN_JSON_NUMBER)
            return attn_fail(r->err, ATTN_EVALUE, "model/vocab",
                             "expected a token and its score at index %zu", i);
        ATTN_TRY(attn_error_within(
            attn_pipeline_token(r->t, token->text, strlen(token->text), r->err), MODEL, r->err));
        scores[i] = token->next->number;
        u->least = !i || scores[i] < u->least ? scores[i] : u->least;
        items[i] = (attn_prefix){r->t->entries[i].word, r->t->entries[i].size, i};
    }
    u->scores = scores;
    attn_prefixes_sort(&u->tokens, items, i);
    return ATTN_OK;
}

/* --- merges --- */

/* Reads a merge: "left right" or ["left", "right"]. */
static bool read_merge(const attn_json *x, attn_string pair[2]) {
    if (x->kind == ATTN_JSON_STRING) {
        const char *blank = strchr(x->text, ' ');
        if (!blank || strchr(blank + 1, ' '))
            return false;
        pair[0] = (attn_string){x->text, (size_t)(blank - x->text)};
        pair[1] = (attn_string){blank + 1, strlen(blank + 1)};
        return true;
    }
    if (x->kind != ATTN_JSON_LIST || x->count != 2 || x->first->kind != ATTN_JSON_STRING ||
        x->first->next->kind != ATTN_JSON_STRING)
        return false;
    pair[0] = (attn_string){x->first->text, strlen(x->first->text)};
    pair[1] = (attn_string){x->first->next->text, strlen(x->first->next->text)};
    return true;
}

static attn_status read_merges(const attn_json_reader *r, attn_json *model) {
    const attn_json *merges = attn_json_member(model, "merges");
    if (!merges || merges->kind != ATTN_JSON_LIST)
        return attn_fail(r->err, ATTN_EVALUE, "model/merges", "expected a list, found %s",
                         merges ? attn_json_kind_name(merges) : "nothing");
    attn_string(*pairs)[2] = attn_arena_array(r->arena, merges->count + 1, sizeof *pairs);
    ATTN_TAKEN(pairs, "the merges of a tokenizer", r->err);
    size_t i = 0;
    for (const attn_json *x = merges->first; x; x = x->next, i++)
        if (!read_merge(x, pairs[i]))
            return attn_fail(r->err, ATTN_EVALUE, "model/merges",
                             "expected two tokens with a blank between them at index %zu", i);
    return attn_error_within(attn_pipeline_merges(r->t, (const attn_string(*)[2])pairs, i, r->err),
                             MODEL, r->err);
}

/* --- options --- */

/* Reads the token for unknown text. If the member is missing or null, there is none. */
static attn_status read_unknown(const attn_json_reader *r, attn_json *model) {
    attn_string unknown = {NULL, 0};
    ATTN_TRY(attn_member_text(r, model, MODEL, "unk_token", false, &unknown));
    if (!unknown.text)
        return ATTN_OK;
    r->t->pipeline->unknown = attn_reader_id(r, unknown);
    return r->t->pipeline->unknown >= 0
               ? ATTN_OK
               : attn_fail(r->err, ATTN_EVALUE, "model/unk_token",
                           "the vocabulary lacks this token: %.60s", unknown.text);
}

/* Checks that an option which this library lacks has the value that changes nothing. */
static attn_status read_idle(const attn_json_reader *r, attn_json *model, const char *key) {
    const attn_json *x = attn_json_member(model, key);
    const bool idle = !x || (x->kind == ATTN_JSON_STRING && !*x->text) ||
                      (x->kind == ATTN_JSON_NUMBER && x->number == 0);
    return idle ? ATTN_OK
                : attn_fail(r->err, ATTN_EVALUE, MODEL, "the option %s is not supported", key);
}

static attn_status read_pairs(const attn_json_reader *r, attn_json *model) {
    attn_byte_pairs *pairs = &r->t->pipeline->pairs;
    ATTN_TRY(read_vocabulary(r, model));
    ATTN_TRY(read_merges(r, model));
    ATTN_TRY(read_unknown(r, model));
    ATTN_TRY(read_idle(r, model, "dropout"));
    ATTN_TRY(read_idle(r, model, "continuing_subword_prefix"));
    ATTN_TRY(read_idle(r, model, "end_of_word_suffix"));
    ATTN_TRY(attn_member_bool(r, model, MODEL, "fuse_unk", false, &pairs->fuse_unknown));
    ATTN_TRY(attn_member_bool(r, model, MODEL, "byte_fallback", false, &pairs->byte_fallback));
    ATTN_TRY(attn_member_bool(r, model, MODEL, "ignore_merges", false, &pairs->whole_first));
    if (pairs->of_bytes && pairs->byte_fallback)
        return attn_fail(r->err, ATTN_EVALUE, MODEL,
                         "byte_fallback is not supported together with ByteLevel");
    return ATTN_OK;
}

static attn_status read_wordpiece(const attn_json_reader *r, attn_json *model) {
    attn_pipeline *p = r->t->pipeline;
    attn_string prefix = {"##", 2};
    int64_t most = 100;
    ATTN_TRY(read_vocabulary(r, model));
    ATTN_TRY(read_unknown(r, model));
    ATTN_TRY(attn_member_text(r, model, MODEL, "continuing_subword_prefix", false, &prefix));
    ATTN_TRY(
        attn_member_count(r, model, MODEL, "max_input_chars_per_word", false, INT32_MAX, &most));
    p->wordpiece.prefix = attn_pipeline_text(r, prefix);
    p->wordpiece.prefix_size = prefix.size;
    p->wordpiece.most = (size_t)most;
    ATTN_TAKEN(p->wordpiece.prefix, "a tokenizer", r->err);
    return ATTN_OK;
}

static attn_status read_unigram(const attn_json_reader *r, attn_json *model) {
    attn_pipeline *p = r->t->pipeline;
    int64_t unknown = -1;
    ATTN_TRY(read_scores(r, model));
    ATTN_TRY(
        attn_member_count(r, model, MODEL, "unk_id", false, (int64_t)r->t->length - 1, &unknown));
    p->unknown = (int32_t)unknown;
    return attn_member_bool(r, model, MODEL, "byte_fallback", false, &p->unigram.byte_fallback);
}

attn_status attn_read_model(const attn_json_reader *r, attn_json *model) {
    switch (r->t->kind) {
    case ATTN_TOKENS_WORDPIECE:
        ATTN_TRY(read_wordpiece(r, model));
        break;
    case ATTN_TOKENS_UNIGRAM:
        ATTN_TRY(read_unigram(r, model));
        break;
    default:
        ATTN_TRY(read_pairs(r, model));
    }
    if (r->t->length > INT32_MAX / 2)
        return attn_fail(r->err, ATTN_EVALUE, MODEL, "expected at most 2^30 tokens");
    return attn_members_known(r, model, MODEL);
}
