/* Finds which pairs of words heads connect (head_scores.h). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "models/head_batch.h"
#include "models/model_private.h"

enum { FROM, TO, OTHERS }; /* numbers of words; all other words have numbers from OTHERS on */

/* --- words in a text --- */

/* A range of bytes [begin, end) of a text. */
typedef struct span {
    size_t begin, end;
} span;

static bool is_letter(char c) {
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Returns whether `word`, which begins at `at`, is not a part of a longer word. */
static bool stands_alone(const char *text, size_t at, const char *word, size_t n) {
    return (!at || !is_letter(word[0]) || !is_letter(text[at - 1])) &&
           (!text[at + n] || !is_letter(word[n - 1]) || !is_letter(text[at + n]));
}

/* Finds the first or the last occurrence of a word. false: there is none. */
static bool find_word(const char *text, const char *word, bool last, span *out) {
    const size_t n = strlen(word);
    bool found = false;
    for (const char *p = text; n && (last || !found) && (p = strstr(p, word)); p++)
        if (stands_alone(text, (size_t)(p - text), word, n)) {
            *out = (span){(size_t)(p - text), (size_t)(p - text) + n};
            found = true;
        }
    return found;
}

/* --- sentences as tokens --- */

static bool overlaps(const attn_token *token, const span *s) {
    return token->begin < s->end && token->end > s->begin;
}

/* A sentence and its tokens. */
typedef struct reading {
    const attn_head_sentence *sentence;
    const attn_head_reading *tokens;
    span from, to;
    int32_t *words;
    bool causal;
} reading;

/* Sets the number of each token's word. On an error, returns the member of the sentence that is
 * wrong, and writes a message to `text`. NULL: no error. */
static const char *number_words(const reading *r, char text[160]) {
    size_t counts[OTHERS] = {0};
    int32_t other = OTHERS, last = -1;
    if (r->tokens->begins)
        r->words[0] = -1;
    for (size_t i = 0; i < r->tokens->count; i++) {
        const attn_token *token = &r->tokens->tokens[i];
        const size_t at = i + r->tokens->begins;
        const bool from = overlaps(token, &r->from), to = overlaps(token, &r->to);
        if (from && to) {
            snprintf(text, 160, "the token \"%.60s\" holds parts of both words", token->text);
            return "to";
        }
        if (to && !at) {
            snprintf(text, 160,
                     "expected another word than the first one, whose column does not "
                     "count");
            return "to";
        }
        other += last >= 0 && token->word != last;
        last = token->word;
        r->words[at] = token->word < 0 || (!at && !from) ? -1 : from ? FROM : to ? TO : other;
        counts[FROM] += from;
        counts[TO] += to;
    }
    if (counts[FROM] && counts[TO])
        return NULL;
    snprintf(text, 160, "the tokenizer makes no token of this word");
    return counts[FROM] ? "to" : "from";
}

/* Finds the two words of a sentence. The result is that of number_words. */
static const char *find_words(reading *r, char text[160]) {
    const attn_head_sentence *s = r->sentence;
    if (!find_word(s->text, s->from, true, &r->from)) {
        snprintf(text, 160, "expected a word of the sentence, found \"%.60s\"", s->from);
        return "from";
    }
    if (!find_word(s->text, s->to, false, &r->to)) {
        snprintf(text, 160, "expected a word of the sentence, found \"%.60s\"", s->to);
        return "to";
    }
    if (r->from.begin < r->to.end && r->to.begin < r->from.end) {
        snprintf(text, 160, "expected another occurrence than that of `from`, found the same");
        return "to";
    }
    if (r->causal && r->to.begin > r->from.begin) {
        snprintf(text, 160,
                 "the model reads from left to right: expected a word before `from`, found one "
                 "behind it");
        return "to";
    }
    return number_words(r, text);
}

/* Reads a sentence: its tokens, and the numbers of their words. err->where is the member of the
 * sentence. */
static attn_status read_sentence(const attn_head_subject *s, const attn_head_sentence *sentence,
                                 attn_arena *arena, attn_head_reading *tokens, int32_t **words,
                                 attn_error *err) {
    char text[160];
    reading r = {.sentence = sentence,
                 .tokens = tokens,
                 .causal = !attn_model_has_encoder(attn_model_configuration(s->model))};
    const attn_status status = attn_models_read_text(s, sentence->text, arena, tokens, err);
    if (status && err)
        snprintf(err->where, sizeof err->where, "text");
    if (status)
        return status;
    *words = r.words = attn_arena_array(arena, tokens->count + 1, sizeof **words);
    ATTN_TAKEN(r.words, "the words of sentences", err);
    const char *member = find_words(&r, text);
    return member ? attn_fail(err, ATTN_EVALUE, member, "%s", text) : ATTN_OK;
}

/* Places the words of all sentences in one array. */
static attn_status place_words(const attn_head_reading *tokens, int32_t *const *words,
                               attn_arena *arena, attn_head_words *out, attn_error *err) {
    const attn_head_side *side =
        out->batch.source.longest ? &out->batch.source : &out->batch.target;
    size_t n;
    out->words = attn_size_mul(out->batch.count, side->longest, &n)
                     ? attn_arena_array(arena, n, sizeof *out->words)
                     : NULL;
    ATTN_TAKEN(out->words, "the words of sentences", err);
    for (size_t i = 0; i < n; i++)
        out->words[i] = -1;
    for (size_t b = 0; b < out->batch.count; b++)
        memcpy(out->words + b * side->longest, words[b],
               (tokens[b].count + tokens[b].begins) * sizeof **words);
    return ATTN_OK;
}

attn_status attn_head_sentences(const attn_head_subject *subject,
                                const attn_head_relation *relations, size_t count,
                                attn_arena *arena, attn_head_words *out, attn_error *err) {
    size_t n = 0, kept = 0;
    for (size_t r = 0; r < count; r++)
        n += relations[r].count;
    attn_head_reading *tokens = attn_arena_zeroed(arena, n + 1, sizeof *tokens);
    int32_t **words = attn_arena_zeroed(arena, n + 1, sizeof *words);
    *out = (attn_head_words){.relation_count = count};
    out->relations = attn_arena_array(arena, n + 1, sizeof *out->relations);
    ATTN_TAKEN(tokens && words && out->relations, "the sentences of relations", err);
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < relations[r].count; i++) {
            const attn_status status = read_sentence(subject, &relations[r].sentences[i], arena,
                                                     &tokens[kept], &words[kept], err);
            char place[64];
            snprintf(place, sizeof place, "%zu/sentences/%zu", r, i);
            if (status && !(status == ATTN_EVALUE && relations[r].lenient))
                return attn_error_within(status, place, err);
            out->relations[kept] = r;
            kept += !status;
        }
    ATTN_TRY(attn_models_place_texts(subject, tokens, kept, arena, &out->batch, err));
    return place_words(tokens, words, arena, out, err);
}

/* --- what heads connect --- */

/* Computes the row of weights of the word `from` of a sentence: the mean of the rows of its tokens.
 * Adds up the columns of each word into sums [longest + OTHERS]. `row` [longest] is scratch
 * memory. */
static attn_status sum_words(const attn_weight_source *source, const int32_t *words, size_t batch,
                             size_t head, float *row, double *sums, attn_error *err) {
    size_t rows = 0;
    const size_t n = source->cols;
    float *logits = row + n;
    memset(sums, 0, (n + OTHERS) * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        const attn_range range = {
            .batch = batch, .head = head, .row = i, .rows = 1, .col = 0, .cols = n};
        if (words[i] != FROM)
            continue;
        ATTN_TRY(source->fetch(source->ctx, 0, &range, row, logits, err));
        for (size_t j = i ? 0 : 1; j < n; j++)
            if (words[j] >= 0)
                sums[words[j]] += (double)row[j];
        rows++;
    }
    for (size_t j = 0; j < n + OTHERS; j++)
        sums[j] /= (double)rows;
    return ATTN_OK;
}

static bool is_largest(const double *sums, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (i != TO && !(sums[i] < sums[TO]))
            return false;
    return true;
}

/* Adds the result of a sentence to the hits of a head. */
static void count_hit(const double *sums, size_t n, attn_related_head *to) {
    to->hits += is_largest(sums, n);
    to->weight += sums[TO];
    to->of++;
}

/* Fills `to` [heads, relation_count] of one site. */
static attn_status relate_site(const attn_head_words *w, const attn_site *site, attn_arena *arena,
                               const attn_control *control, attn_related_head *to,
                               attn_error *err) {
    attn_weight_source source;
    ATTN_TRY(attn_models_head_source(&w->batch, site, 1, arena, &source, err));
    const size_t n = source.cols, relations = w->relation_count;
    float *row = attn_arena_array(arena, 2 * n, sizeof *row);
    double *sums = attn_arena_array(arena, n + OTHERS, sizeof *sums);
    ATTN_TAKEN(row && sums, "rows of weights", err);
    for (size_t h = 0; h < site->heads; h++)
        for (size_t r = 0; r < relations; r++)
            to[h * relations + r] = (attn_related_head){site->kind, site->layer, h, r, 0, 0, 0};
    for (size_t b = 0; b < w->batch.count; b++) {
        ATTN_TRY(attn_control_check(control, err));
        for (size_t h = 0; h < site->heads; h++) {
            ATTN_TRY(sum_words(&source, w->words + b * n, b, h, row, sums, err));
            count_hit(sums, n + OTHERS, &to[h * relations + w->relations[b]]);
        }
    }
    return ATTN_OK;
}

static int by_hits(const void *a, const void *b) {
    const attn_related_head *x = a, *y = b;
    const size_t left = x->hits * y->of, right = y->hits * x->of;
    if (left != right)
        return left > right ? -1 : 1;
    if (x->weight < y->weight || x->weight > y->weight)
        return x->weight > y->weight ? -1 : 1;
    const size_t places[][2] = {
        {x->relation, y->relation}, {x->kind, y->kind}, {x->layer, y->layer}, {x->head, y->head}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i][0] != places[i][1])
            return places[i][0] < places[i][1] ? -1 : 1;
    return 0;
}

attn_status attn_head_relate(const attn_head_subject *subject, const attn_head_words *words,
                             attn_arena *arena, attn_pool *pool, const attn_control *control,
                             attn_related_head **out, size_t *count, attn_error *err) {
    const size_t relations = words->relation_count;
    const size_t all = attn_head_count(subject->model, words->batch.encoder_only) * relations;
    attn_related_head *list = attn_arena_zeroed(arena, all, sizeof *list), *to = list;
    attn_model_outputs pass;
    ATTN_TAKEN(list, "what heads connect", err);
    if (!words->batch.count) {
        *out = list;
        *count = 0;
        return ATTN_OK;
    }
    const attn_arena_mark start = attn_arena_here(arena);
    attn_status status =
        attn_models_head_pass(subject, &words->batch, arena, pool, control, &pass, err);
    for (size_t i = 0; !status && i < pass.site_count; i++) {
        const attn_arena_mark mark = attn_arena_here(arena);
        if (!attn_models_head_is_scored(&words->batch, &pass.sites[i]))
            continue;
        status = relate_site(words, &pass.sites[i], arena, control, to, err);
        to += pass.sites[i].heads * relations;
        attn_arena_rewind(arena, &mark);
    }
    attn_arena_rewind(arena, &start);
    for (size_t i = 0; i < all; i++)
        list[i].weight = list[i].of ? list[i].weight / (double)list[i].of : 0;
    qsort(list, all, sizeof *list, by_hits);
    *out = list;
    *count = all;
    return status;
}
