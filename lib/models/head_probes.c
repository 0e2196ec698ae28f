/* Sequences for the scores of heads (head_scores.h): probes of random tokens, and texts. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <attn/rng.h>

#include "base/try.h"
#include "models/head_batch.h"
#include "models/model_private.h"
#include "tokens/tokenizer.h"

enum {
    /* largest number of special tokens of a template before, or after, a text */
    EDGE_MOST = 8,
    SEPARATORS_MOST = 9, /* largest number of separators of probes */
    SEPARATED_BY = 8,    /* every SEPARATED_BY-th token of a probe is a separator */
};

/* The tokens from which the sequences of one side are made. */
typedef struct alphabet {
    const attn_tokenizer *tokenizer; /* NULL: ids have no texts */
    const attn_model_config *config;
    size_t size; /* number of ids */
    int32_t before[EDGE_MOST], after[EDGE_MOST];
    size_t before_count, after_count;
    int32_t separators[SEPARATORS_MOST];
    size_t separator_count;
} alphabet;

/* --- the special tokens of a side --- */

static bool is_of_known_model(const attn_tokenizer *t) {
    return t && t->pipeline;
}

/* Finds the special tokens that a template puts around a text. */
static attn_status find_template(alphabet *a, attn_arena *arena, attn_error *err) {
    attn_token *tokens;
    size_t count;
    const attn_string letter = {"a", 1};
    ATTN_TRY(
        attn_tokenizer_encode_pair(a->tokenizer, letter, NULL, true, arena, &tokens, &count, err));
    bool behind = false;
    for (size_t i = 0; i < count; i++) {
        int32_t *list = behind ? a->after : a->before;
        size_t *n = behind ? &a->after_count : &a->before_count;
        behind = behind || tokens[i].word >= 0;
        if (tokens[i].word < 0 && *n < EDGE_MOST)
            list[(*n)++] = tokens[i].id;
    }
    return ATTN_OK;
}

static void add_separator(alphabet *a, int32_t id) {
    for (size_t i = 0; i < a->separator_count; i++)
        if (a->separators[i] == id)
            return;
    if (id >= 0 && (size_t)id < a->size)
        a->separators[a->separator_count++] = id;
}

/* Finds the separators of probes. In byte-level tokenizers, a line break is "Ċ" (U+010A). */
static void find_separators(alphabet *a) {
    static const char *const texts[] = {".", ",", ";", ":", "!", "?", "\xc4\x8a"};
    for (size_t i = 0; a->tokenizer && i < sizeof texts / sizeof *texts; i++)
        add_separator(a, attn_tokenizer_find(a->tokenizer, texts[i], strlen(texts[i])));
    if (a->tokenizer)
        add_separator(a, attn_tokenizer_special(a->tokenizer, ATTN_SPECIAL_END));
    if (a->after_count)
        add_separator(a, a->after[0]);
}

static attn_status open_alphabet(const attn_head_subject *s, attn_model_side side,
                                 attn_arena *arena, alphabet *a, attn_error *err) {
    const attn_model_config *c = attn_model_configuration(s->model);
    const bool target = side == ATTN_SIDE_TARGET;
    *a = (alphabet){.tokenizer = target ? s->target : s->source,
                    .config = c,
                    .size = target ? c->target_vocabulary : c->source_vocabulary};
    if (a->tokenizer && attn_tokenizer_size(a->tokenizer) < a->size)
        a->size = attn_tokenizer_size(a->tokenizer);
    const bool reads_source = attn_model_has_encoder(c);
    if (is_of_known_model(a->tokenizer) && !(target && reads_source))
        ATTN_TRY(find_template(a, arena, err));
    const int32_t begin = is_of_known_model(a->tokenizer) && !reads_source
                              ? attn_tokenizer_special(a->tokenizer, ATTN_SPECIAL_BEGIN)
                              : c->begin;
    if (target && !a->before_count && begin >= 0)
        a->before[a->before_count++] = begin;
    find_separators(a);
    return ATTN_OK;
}

/* --- a batch --- */

/* Takes the memory of a side, filled with padding. */
static attn_status take_side(const attn_model_config *c, size_t count, size_t longest,
                             attn_arena *arena, attn_head_side *out, attn_error *err) {
    size_t n;
    *out = (attn_head_side){.longest = longest};
    ATTN_TAKEN(attn_size_mul(count, longest, &n), "the sequences that heads are scored on", err);
    out->ids = attn_arena_array(arena, n, sizeof *out->ids);
    out->lengths = attn_arena_zeroed(arena, count, sizeof *out->lengths);
    out->separators = attn_arena_zeroed(arena, n, 1);
    ATTN_TAKEN(out->ids && out->lengths && out->separators,
               "the sequences that heads are scored on", err);
    for (size_t i = 0; i < n; i++)
        out->ids[i] = c->pad > 0 ? c->pad : 0;
    return ATTN_OK;
}

/* --- probes --- */

attn_head_probes attn_head_probes_defaults(void) {
    return (attn_head_probes){.count = 4, .length = 48};
}

static bool is_separator(const alphabet *a, int32_t id) {
    for (size_t i = 0; i < a->separator_count; i++)
        if (a->separators[i] == id)
            return true;
    return false;
}

/* Returns whether an id may be drawn for a probe. */
static bool may_draw(const alphabet *a, int32_t id) {
    const attn_model_config *c = a->config;
    if (a->tokenizer ? attn_tokenizer_is_special(a->tokenizer, id)
                     : id == c->pad || id == c->begin || id == c->end)
        return false;
    return !is_separator(a, id);
}

/* Shuffles all ids and moves the first `most` that may be drawn to the front of `ids` [a->size].
 * Returns their number, which is lower if there are not as many. */
static size_t draw(const alphabet *a, uint64_t seed, size_t most, int32_t *ids) {
    size_t found = 0;
    for (size_t i = 0; i < a->size; i++)
        ids[i] = (int32_t)i;
    for (size_t i = 0; i < a->size && found < most; i++) {
        const size_t k = i + attn_rng_bits(seed, i) % (a->size - i);
        const int32_t id = ids[k];
        ids[k] = ids[i];
        ids[i] = id;
        if (may_draw(a, id))
            ids[found++] = id;
    }
    return found;
}

/* Writes a probe of 2 n tokens to row b of the side: the first m of `ids`, repeated. */
static void place_probe(const alphabet *a, const int32_t *ids, size_t m, size_t n, bool separated,
                        size_t b, attn_head_side *side) {
    int32_t *to = side->ids + b * side->longest;
    uint8_t *marks = side->separators + b * side->longest;
    size_t at = 0;
    for (size_t i = 0; i < a->before_count; i++)
        to[at++] = a->before[i];
    for (size_t i = 0; i < 2 * n; i++, at++) {
        marks[at] = separated && i % SEPARATED_BY == SEPARATED_BY - 1;
        to[at] = marks[at] ? a->separators[i / SEPARATED_BY % a->separator_count] : ids[i % m];
    }
    for (size_t i = 0; i < a->after_count; i++, at++) {
        marks[at] = 1;
        to[at] = a->after[i];
    }
    side->lengths[b] = (int64_t)at;
}

/* Draws the probes of one side. `kind` is 0 for repeated ones, 1 for separated ones. */
static attn_status draw_side(const attn_head_subject *s, attn_model_side which,
                             const attn_head_probes *probes, unsigned kind, attn_arena *arena,
                             attn_head_side *out, attn_error *err) {
    alphabet a;
    const size_t n = probes->length;
    ATTN_TRY(open_alphabet(s, which, arena, &a, err));
    const size_t edges = a.before_count + a.after_count, most = a.config->max_length;
    *out = (attn_head_side){0};
    if (kind && !a.separator_count)
        return ATTN_OK;
    if (most < edges + 2 * n)
        return attn_fail(err, ATTN_EVALUE, "length",
                         "a probe of twice %zu tokens and %zu special ones is longer than the %zu "
                         "tokens that the model reads",
                         n, edges, most);
    ATTN_TRY(take_side(a.config, probes->count, edges + 2 * n, arena, out, err));
    int32_t *ids = attn_arena_array(arena, a.size + 1, sizeof *ids);
    ATTN_TAKEN(ids, "the tokens of probes", err);
    for (size_t b = 0; b < probes->count; b++) {
        const uint64_t seed = attn_rng_bits(probes->seed, 4 * b + 2 * kind + (unsigned)which);
        const size_t m = draw(&a, seed, kind ? 2 * n : n, ids);
        if (m < n)
            return attn_fail(err, ATTN_EVALUE, "length",
                             "the model has %zu different tokens for a probe, expected at least "
                             "%zu",
                             m, n);
        place_probe(&a, ids, m, n, kind, b, out);
    }
    return ATTN_OK;
}

/* Lowers *length to the largest length that probes of one side can have. */
static attn_status limit_length(const attn_head_subject *s, attn_model_side side, attn_arena *arena,
                                size_t *length, attn_error *err) {
    alphabet a;
    size_t ids = 0;
    ATTN_TRY(open_alphabet(s, side, arena, &a, err));
    const size_t edges = a.before_count + a.after_count, most = a.config->max_length;
    const size_t room = most > edges ? (most - edges) / 2 : 0;
    for (size_t i = 0; i < a.size && ids < *length; i++)
        ids += may_draw(&a, (int32_t)i);
    *length = ids < room ? ids : room;
    *length += !*length;
    return ATTN_OK;
}

attn_status attn_head_probe_length(const attn_head_subject *subject, size_t most, attn_arena *arena,
                                   size_t *length, attn_error *err) {
    const attn_model_config *c = attn_model_configuration(subject->model);
    *length = most;
    if (attn_model_has_encoder(c))
        ATTN_TRY(limit_length(subject, ATTN_SIDE_SOURCE, arena, length, err));
    return attn_model_has_decoder(c) ? limit_length(subject, ATTN_SIDE_TARGET, arena, length, err)
                                     : ATTN_OK;
}

static attn_status draw_batch(const attn_head_subject *s, const attn_head_probes *probes,
                              unsigned kind, attn_arena *arena, attn_head_batch *out,
                              attn_error *err) {
    const attn_model_config *c = attn_model_configuration(s->model);
    const bool encodes = attn_model_has_encoder(c), decodes = attn_model_has_decoder(c);
    *out = (attn_head_batch){.count = probes->count};
    if (encodes)
        ATTN_TRY(draw_side(s, ATTN_SIDE_SOURCE, probes, kind, arena, &out->source, err));
    if (decodes)
        ATTN_TRY(draw_side(s, ATTN_SIDE_TARGET, probes, kind, arena, &out->target, err));
    if ((encodes && !out->source.longest) || (decodes && !out->target.longest))
        out->count = 0;
    return ATTN_OK;
}

attn_status attn_head_draw(const attn_head_subject *subject, const attn_head_probes *probes,
                           attn_arena *arena, attn_head_batch *repeated, attn_head_batch *separated,
                           attn_error *err) {
    if (!probes->count)
        return attn_fail(err, ATTN_EARG, "count", "expected at least one probe");
    if (!probes->length)
        return attn_fail(err, ATTN_EVALUE, "length", "expected at least one token");
    ATTN_TRY(draw_batch(subject, probes, 0, arena, repeated, err));
    return draw_batch(subject, probes, 1, arena, separated, err);
}

/* --- texts --- */

/* Returns whether a token is a separator: a special token, or punctuation and white space that
 * contain a punctuation mark or a line break. */
static bool separates(const attn_tokenizer *t, const char *text, const attn_token *token) {
    bool mark = false;
    if (token->word < 0 || attn_tokenizer_is_special(t, token->id))
        return true;
    for (size_t i = token->begin; i < token->end; i++) {
        const unsigned char c = (unsigned char)text[i];
        mark = mark || ispunct(c) || c == '\n';
        if (!ispunct(c) && !isspace(c))
            return false;
    }
    return mark;
}

attn_status attn_models_read_text(const attn_head_subject *s, const char *text, attn_arena *arena,
                                  attn_head_reading *out, attn_error *err) {
    const attn_model_config *c = attn_model_configuration(s->model);
    const bool encodes = attn_model_has_encoder(c);
    const attn_string all = {text, strlen(text)};
    out->tokenizer = encodes ? s->source : s->target;
    out->text = text;
    if (!out->tokenizer || !attn_tokenizer_has_texts(out->tokenizer))
        return attn_fail(err, ATTN_EARG, "", "the model has no words: its tokens are numbers");
    ATTN_TRY(attn_tokenizer_encode_pair(out->tokenizer, all, NULL, true, arena, &out->tokens,
                                        &out->count, err));
    out->begins = !encodes && !is_of_known_model(out->tokenizer);
    const size_t length = out->count + out->begins;
    if (!out->count)
        return attn_fail(err, ATTN_EVALUE, "", "expected at least one token, found none");
    if (length > c->max_length)
        return attn_fail(err, ATTN_EVALUE, "", "the model reads at most %zu tokens, found %zu",
                         c->max_length, length);
    return ATTN_OK;
}

static void place_text(const attn_model_config *c, const attn_head_reading *r, size_t b,
                       attn_head_side *side) {
    int32_t *to = side->ids + b * side->longest;
    uint8_t *marks = side->separators + b * side->longest;
    size_t at = 0;
    if (r->begins)
        to[at++] = c->begin;
    for (size_t i = 0; i < r->count; i++, at++) {
        to[at] = r->tokens[i].id;
        marks[at] = at > 0 && separates(r->tokenizer, r->text, &r->tokens[i]);
    }
    side->lengths[b] = (int64_t)at;
}

attn_status attn_models_place_texts(const attn_head_subject *s, const attn_head_reading *r,
                                    size_t count, attn_arena *arena, attn_head_batch *out,
                                    attn_error *err) {
    const attn_model_config *c = attn_model_configuration(s->model);
    const bool encodes = attn_model_has_encoder(c);
    attn_head_side *side = encodes ? &out->source : &out->target;
    size_t longest = 0;
    *out = (attn_head_batch){.count = count};
    for (size_t b = 0; b < count; b++)
        longest = r[b].count + r[b].begins > longest ? r[b].count + r[b].begins : longest;
    ATTN_TRY(take_side(c, count, longest, arena, side, err));
    for (size_t b = 0; b < count; b++)
        place_text(c, &r[b], b, side);
    if (!encodes || !attn_model_has_decoder(c))
        return ATTN_OK;
    out->encoder_only = true; /* the target is one token, since a pass needs a target */
    ATTN_TRY(take_side(c, count, 1, arena, &out->target, err));
    for (size_t b = 0; b < count; b++) {
        out->target.ids[b] = c->begin;
        out->target.lengths[b] = 1;
    }
    return ATTN_OK;
}

attn_status attn_head_texts(const attn_head_subject *subject, const char *const *texts,
                            size_t count, attn_arena *arena, attn_head_batch *out,
                            attn_error *err) {
    attn_head_reading *readings = attn_arena_zeroed(arena, count, sizeof *readings);
    ATTN_TAKEN(readings, "the texts that heads are scored on", err);
    for (size_t b = 0; b < count; b++) {
        const attn_status status =
            attn_models_read_text(subject, texts[b], arena, &readings[b], err);
        if (status && err)
            snprintf(err->where, sizeof err->where, "%zu", b);
        if (status)
            return status;
    }
    return attn_models_place_texts(subject, readings, count, arena, out, err);
}
