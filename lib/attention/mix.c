#include "attention/mix.h"

#include <string.h>

#include <attn/input_rows.h>

#include "attention/operands.h"
#include "base/try.h"

/* --- checks --- */

attn_status attn_mix_resolve(const attn_inputs *in, attn_attention_dims *d, attn_error *err) {
    const attn_tensor *m = &in->mix.logits;
    char found[128];
    if (in->score.kind != ATTN_SCORE_scaled_dot && in->score.kind != ATTN_SCORE_dot)
        return attn_fail(err, ATTN_EARG, "mix",
                         "only the scores scaled_dot and dot can be mixed, the score is %s",
                         attn_score_name(in->score.kind));
    const attn_position_kind position = attn_score_position(in)->kind;
    if (position == ATTN_POSITION_SHAW || position == ATTN_POSITION_DISENTANGLED)
        return attn_fail(err, ATTN_EARG, "mix",
                         "scores with the position %s cannot be mixed: its vectors belong to the "
                         "keys of each head",
                         attn_position_words[position]);
    if (m->rank != 2 || m->dims[0] != d->Hq || m->dims[1] != d->Hq)
        return attn_fail(err, ATTN_ESHAPE, "mix/logits",
                         "expected one row and one column a query head, shape [%zu, %zu], found %s",
                         d->Hq, d->Hq, attn_found_text(m, found, sizeof found));
    if (m->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, "mix/logits",
                         "expected floating-point numbers, found %s", attn_dtype_name(m->dtype));
    if (!attn_size_mul(d->Hq, d->Hq, &d->mixed) || !attn_size_mul(d->Hkv, d->E, &d->score_width))
        return attn_fail(err, ATTN_ELIMIT, "mix", "too many heads");
    d->transforms = true;
    return ATTN_OK;
}

#define LOGITS_WORDS "logits: the raw score of a head is a sum over all heads, each with its factor"
#define WEIGHTS_WORDS                                                                              \
    "weights: the weight of an output head is a sum over all heads, each with its factor"
#define PAIR_WORDS(pair)                                                                           \
    "subtract: the weight of output head g is that of head " pair " times lambda"

const char *attn_mix_words(const attn_attention_dims *d) {
    static const char *const words[2][4] = {
        {NULL, WEIGHTS_WORDS, PAIR_WORDS("2g less that of head 2g + 1"),
         PAIR_WORDS("g less that of head g + H/2")},
        {LOGITS_WORDS, LOGITS_WORDS "; " WEIGHTS_WORDS,
         LOGITS_WORDS "; " PAIR_WORDS("2g less that of head 2g + 1"),
         LOGITS_WORDS "; " PAIR_WORDS("g less that of head g + H/2")}};
    return words[d->mixed != 0][!d->factors ? 0 : 1 + (int)d->pairs];
}

/* --- wide rows --- */

/* The rows that attn_mix_rows makes. */
typedef struct wide_rows {
    const attn_attention *a;
    void *queries, *keys;
    double *mix;
    ptrdiff_t *query_batch, *key_batch;
} wide_rows;

/* Computes elements e … e + n - 1 of part j of the wide query of mixed head g: the sum of row i of
 * the heads that use key head j, times their factors. */
static void mix_query_part(const attn_attention *a, size_t b, size_t g, size_t i, size_t j,
                           size_t e, size_t n, double *sums) {
    const attn_attention_dims *d = &a->dims;
    const attn_view *v = &a->turned_query;
    const size_t group = attn_group(d);
    double row[ATTN_MIX_TOGETHER];
    memset(sums, 0, n * sizeof *sums);
    for (size_t h = j * group; h < (j + 1) * group; h++) {
        const double factor = a->mix[g * d->Hq + h];
        attn_widen_f64(row, attn_view_at(v, b, h, i, e), v->dtype, v->col, n);
        for (size_t c = 0; c < n; c++)
            sums[c] += factor * row[c];
    }
}

static void store_numbers(void *to, size_t elem, size_t at, size_t n, const double *from) {
    for (size_t c = 0; c < n; c++)
        attn_element_set(to, elem, at + c, from[c]);
}

/* Piece: mixes some rows of queries of all heads of a batch entry into w->queries
 * [B, Hq, L, score width]. */
static attn_status query_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const wide_rows *w = work;
    const attn_attention *a = w->a;
    const attn_attention_dims *d = &a->dims;
    const attn_mix_piece p = attn_mix_piece_of(index, d->L);
    const size_t elem = attn_dtype_size(d->result);
    double sums[ATTN_MIX_TOGETHER];
    (void)lane, (void)err;
    for (size_t i = p.first; i < p.end; i++)
        for (size_t g = 0; g < d->Hq; g++)
            for (size_t part = 0; part < d->Hkv; part++)
                for (size_t e = 0, n; e < d->E; e += n) {
                    n = d->E - e < ATTN_MIX_TOGETHER ? d->E - e : ATTN_MIX_TOGETHER;
                    mix_query_part(a, p.b, g, i, part, e, n, sums);
                    store_numbers(w->queries, elem,
                                  attn_row_index(a, p.b, g, i) * d->score_width + part * d->E + e,
                                  n, sums);
                }
    return ATTN_OK;
}

/* Piece: joins some keys of all heads in w->keys [sets, S, score width]. */
static attn_status key_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const wide_rows *w = work;
    const attn_attention *a = w->a;
    const attn_attention_dims *d = &a->dims;
    const attn_mix_piece p = attn_mix_piece_of(index, d->S);
    const size_t elem = attn_dtype_size(d->result);
    (void)lane, (void)err;
    for (size_t j = p.first; j < p.end; j++)
        for (size_t part = 0; part < d->Hkv; part++) {
            const bool cached = j < a->turned_past;
            const attn_view *v = cached ? &a->past_key : &a->turned_key;
            char *to = (char *)w->keys + ((p.b * d->S + j) * d->score_width + part * d->E) * elem;
            attn_elements_widen(to, elem,
                                attn_view_at(v, p.b, part, cached ? j : j - a->turned_past, 0),
                                v->dtype, v->col, d->E);
        }
    return ATTN_OK;
}

static attn_view wide_view(const attn_attention *a, const void *data, const ptrdiff_t *batch,
                           size_t head_rows) {
    const ptrdiff_t width = (ptrdiff_t)a->dims.score_width;
    return (attn_view){.data = data,
                       .dtype = a->dims.result,
                       .batch = batch,
                       .head = (ptrdiff_t)head_rows * width,
                       .row = width,
                       .col = 1};
}

static void place_rows(attn_area *area, const attn_attention_dims *d, wide_rows *w) {
    const size_t elem = attn_dtype_size(d->result);
    size_t queries = 0;
    if (!attn_size_mul(d->B * d->Hq, d->L, &queries))
        area->overflow = true;
    w->queries = attn_area_take_3(area, queries, d->score_width, 1, elem);
    w->keys = attn_area_take_3(area, d->sets, d->S, d->score_width, elem);
    w->mix = attn_area_take(area, d->mixed, sizeof *w->mix);
    w->query_batch = attn_area_take(area, d->B, sizeof *w->query_batch);
    w->key_batch = attn_area_take(area, d->B, sizeof *w->key_batch);
}

attn_status attn_mix_rows(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const attn_control *control = a->in.control;
    attn_area counted = {0}, area;
    wide_rows w = {.a = a};
    place_rows(&counted, d, &w);
    ATTN_TAKEN(attn_area_open(&area, &counted, arena), "mixed queries and keys", err);
    place_rows(&area, d, &w);
    for (size_t g = 0; g < d->Hq; g++)
        for (size_t h = 0; h < d->Hq; h++)
            w.mix[g * d->Hq + h] = attn_tensor_number(&a->in.mix.logits, g, h);
    for (size_t b = 0; b < d->B; b++) {
        w.query_batch[b] = (ptrdiff_t)(b * d->Hq * d->L * d->score_width);
        w.key_batch[b] = d->sets == 1 ? 0 : (ptrdiff_t)(b * d->S * d->score_width);
    }
    a->mix = w.mix;
    ATTN_TRY(attn_pool_run(a->in.pool, attn_mix_pieces(d->B, d->L), query_piece, &w, control, err));
    ATTN_TRY(
        attn_pool_run(a->in.pool, attn_mix_pieces(d->sets, d->S), key_piece, &w, control, err));
    a->score_query = wide_view(a, w.queries, w.query_batch, d->L);
    a->score_key = wide_view(a, w.keys, w.key_batch, 0);
    a->score_past = 0;
    return ATTN_OK;
}

bool attn_mix_bytes(const attn_attention_dims *d, size_t *bytes) {
    attn_area counted = {0};
    wide_rows w;
    if (!d->mixed)
        return true;
    place_rows(&counted, d, &w);
    return attn_mix_area_bytes(&counted, bytes);
}

/* --- backward --- */

/* Piece: computes the gradients of the queries of head `index`, and of the column of the matrix
 * that belongs to this head. */
static attn_status query_back_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_mix_back *m = work;
    const attn_attention *a = m->a;
    const attn_attention_dims *d = &a->dims;
    const size_t h = index, part = attn_kv_head(a, h) * d->E;
    (void)lane;
    for (size_t b = 0; b < d->B; b++)
        for (size_t i = 0; i < d->L; i++) {
            const size_t at = attn_row_index(a, b, h, i) * d->E;
            ATTN_TRY(attn_control_check(m->control, err));
            for (size_t g = 0; g < d->Hq; g++) {
                const size_t from = attn_row_index(a, b, g, i) * d->score_width + part;
                for (size_t e = 0; e < d->E; e++) {
                    const double grad = attn_element(m->wide_queries, m->elem, from + e);
                    m->sums[g * d->Hq + h] += grad * attn_element(m->queries, m->elem, at + e);
                    attn_element_add(m->dquery, m->elem, at + e, a->mix[g * d->Hq + h] * grad);
                }
            }
        }
    return ATTN_OK;
}

/* Piece: computes the gradients of one key head of a batch entry, number `index` modulo Hkv. They
 * are sums over the copies of this head in the wide keys of all key heads. */
static attn_status key_back_piece(void *work, size_t index, size_t lane, attn_error *err) {
    const attn_mix_back *m = work;
    const attn_attention_dims *d = &m->a->dims;
    const size_t b = index / d->Hkv, part = index % d->Hkv * d->E;
    (void)lane;
    for (size_t j = 0; j < d->S; j++) {
        ATTN_TRY(attn_control_check(m->control, err));
        for (size_t e = 0; e < d->E; e++) {
            double sum = 0;
            for (size_t copy = 0; copy < d->Hkv; copy++)
                sum += attn_element(m->wide_keys, m->elem,
                                    ((b * d->Hkv + copy) * d->S + j) * d->score_width + part + e);
            attn_element_set(m->dkey, m->elem, (index * d->S + j) * d->E + e, sum);
        }
    }
    return ATTN_OK;
}

attn_status attn_mix_rows_back(attn_mix_back *m, attn_pool *pool, attn_error *err) {
    const attn_attention_dims *d = &m->a->dims;
    ATTN_TRY(attn_pool_run(pool, d->Hq, query_back_piece, m, m->control, err));
    return attn_pool_run(pool, d->B * d->Hkv, key_back_piece, m, m->control, err);
}
