/* A random operation with masks, a score form and positions, which has run and is stored as an image
 * (attn/run.h). For the tests of stored runs. */
#ifndef TEST_RUN_CASE_H
#define TEST_RUN_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "runs/private.h"

enum { TRIALS = 60, LIMIT = 1 << 29 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_results out;
    size_t B, Hq, Hkv, L, S, past, E, Ev;
    bool wide;
    uint64_t seed;
    void *image;
    attn_run_image pieces;
    attn_run *whole;
    const attn_run_site *run; /* its only site */
} trial;

static inline size_t pick(trial *t, size_t n) {
    return (size_t)(attn_rng_bits(t->seed++, 0) % n);
}

static inline attn_tensor normal(trial *t, int rank, const size_t *dims) {
    const attn_dtype dtype = t->wide ? ATTN_F64 : ATTN_F32;
    size_t count = 1;
    for (int a = 0; a < rank; a++)
        count *= dims[a];
    char *data = attn_arena_zeroed(t->arena, count + 1, attn_dtype_size(dtype));
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        const double x = attn_rng_normal(t->seed, i);
        if (t->wide)
            ((double *)(void *)data)[i] = x;
        else
            ((float *)(void *)data)[i] = (float)x;
    }
    t->seed++;
    return attn_tensor_dense(data, dtype, rank, dims);
}

#define DIMS(...)      ((const size_t[]){__VA_ARGS__})
#define RANK(...)      (sizeof(DIMS(__VA_ARGS__)) / sizeof(size_t))
#define NORMAL(t, ...) normal(t, (int)RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static inline void add_layer(trial *t, attn_mask_layer layer) {
    t->in.mask.layers[t->in.mask.count++] = layer;
}

static inline attn_tensor bools(trial *t, int rank, const size_t *dims) {
    size_t count = 1;
    for (int a = 0; a < rank; a++)
        count *= dims[a];
    uint8_t *data = attn_arena_zeroed(t->arena, count + 1, 1);
    for (size_t i = 0; i < count; i++)
        data[i] = attn_rng_uniform(t->seed, i) < 0.7;
    t->seed++;
    return attn_tensor_dense(data, ATTN_BOOL, rank, dims);
}

#define BOOLS(t, ...) bools(t, (int)RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

static inline attn_tensor integers(trial *t, size_t n, size_t most) {
    int64_t *data = attn_arena_zeroed(t->arena, n + 1, sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = (int64_t)pick(t, most);
    return attn_tensor_dense(data, ATTN_I64, 1, &n);
}

/* any_of(attn_mask, all_of(documents, not(causal))), a prefix, lists of keys and a tree. */
static inline void add_rules(trial *t) {
    const size_t lists[] = {t->Hq, t->L, 3};
    if (pick(t, 3) == 0) {
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_ANY_OF, .where = "any_of", .parts = 3});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                       .where = "any_of/0/attn_mask",
                                       .values = BOOLS(t, t->L, t->S)});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_ALL_OF, .where = "all_of", .parts = 2});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_DOCUMENTS,
                                       .where = "document_ids",
                                       .values = integers(t, t->S, 3)});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_NOT, .where = "not", .parts = 1});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "causal"});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_PREFIX,
                                       .where = "prefix_lengths",
                                       .values = integers(t, t->B, t->S + 1)});
    }
    if (pick(t, 4) == 0) {
        attn_tensor keys = integers(t, t->Hq * t->L * 3, t->S);
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_NOT, .where = "not", .parts = 1});
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_TOP_K,
                                       .where = "top_k_indices",
                                       .values = attn_tensor_dense(keys.data, ATTN_I64, 3, lists)});
    }
    if (pick(t, 4) == 0) {
        attn_tensor parents = integers(t, t->S, 2);
        for (size_t j = 0; j < t->S; j++) /* a chain with leaves */
            ((int64_t *)parents.data)[j] = (int64_t)j - 1 - (j > 1 && j % 3 == 0);
        add_layer(
            t, (attn_mask_layer){.kind = ATTN_LAYER_TREE, .where = "parents", .values = parents});
    }
}

static inline void add_masks(trial *t) {
    static const attn_pattern patterns[] = {
        {.kind = ATTN_PATTERN_STRIDED, .stride = 3, .local = 2},
        {.kind = ATTN_PATTERN_BLOCK, .size = 16},
        {.kind = ATTN_PATTERN_BLOCK_CAUSAL, .size = 7},
        {.kind = ATTN_PATTERN_LOCAL, .radius = 9},
        {.kind = ATTN_PATTERN_GLOBAL, .num_keys = 2, .local = 5}};
    static int64_t offsets[2] = {1, -2};
    if (pick(t, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"});
    if (pick(t, 4) == 0)
        add_layer(
            t, (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window", .window = {20, 7}});
    if (pick(t, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                       .where = "attn_mask",
                                       .semantics = pick(t, 2) ? ATTN_SEM_HIDE : ATTN_SEM_UNSTATED,
                                       .values = pick(t, 2) ? BOOLS(t, t->B, 1, t->L, t->S)
                                                            : BOOLS(t, t->Hq, 1, t->S)});
    if (pick(t, 4) == 0)
        add_layer(t, (attn_mask_layer){
                         .kind = ATTN_LAYER_VALUES, .where = "rows", .values = BOOLS(t, t->L, 1)});
    if (pick(t, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                                       .where = "attn_bias",
                                       .values = NORMAL(t, t->Hq, t->L, t->S)});
    if (pick(t, 4) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                                       .where = "key_padding_mask",
                                       .semantics = ATTN_SEM_KEEP,
                                       .values = BOOLS(t, t->B, t->S)});
    if (pick(t, 5) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_LENGTHS,
                                       .where = "key_lengths",
                                       .values = integers(t, t->B, t->S + 1)});
    if (pick(t, 5) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_TOKENS,
                                       .where = "token_ids",
                                       .pad_id = 1,
                                       .values = integers(t, t->S, 5)});
    if (pick(t, 3) == 0)
        add_layer(t, (attn_mask_layer){.kind = ATTN_LAYER_PATTERN,
                                       .where = "pattern",
                                       .pattern = patterns[pick(t, 5)]});
    if (pick(t, 3) == 0 && t->in.mask.count + 10 <= ATTN_MASK_LAYERS)
        add_rules(t);
    switch (pick(t, 4)) {
    case 0:
        t->in.mask.offset = ATTN_OFFSET_END;
        break;
    case 1:
        t->in.mask.offset = ATTN_OFFSET_GIVEN;
        t->in.mask.offsets = offsets;
        t->in.mask.offset_count = t->B;
        break;
    }
    if (pick(t, 8) == 0) {
        t->in.mask.fill = pick(t, 2) ? ATTN_FILL_ADD : ATTN_FILL_REPLACE;
        t->in.mask.fill_value = -3;
    }
}

static inline void add_score(trial *t) {
    attn_score *s = &t->in.score;
    s->kind = (attn_score_kind)pick(t, ATTN_SCORE_COUNT);
    if (s->kind == ATTN_SCORE_additive) {
        s->w_q = NORMAL(t, 6, t->E);
        s->w_k = NORMAL(t, 6, t->E);
        s->v = NORMAL(t, 6);
    } else if (s->kind == ATTN_SCORE_general) {
        s->w = NORMAL(t, t->E, t->E);
    } else if (s->kind == ATTN_SCORE_concat) {
        s->w = NORMAL(t, 5, 2 * t->E);
        s->v = NORMAL(t, 5);
    }
}

static inline void add_position(trial *t) {
    attn_position *p = &t->in.position;
    const bool product = t->in.score.kind <= ATTN_SCORE_dot;
    p->kind = (attn_position_kind)pick(t, product ? 7 : 4);
    switch (p->kind) {
    case ATTN_POSITION_T5:
        p->table = NORMAL(t, 8, t->Hq);
        p->max_distance = 20;
        break;
    case ATTN_POSITION_RELATIVE:
        p->table = NORMAL(t, t->Hq, 9);
        break;
    case ATTN_POSITION_SHAW:
        p->key_table = NORMAL(t, 7, t->E);
        p->value_table = NORMAL(t, 7, t->Ev);
        break;
    case ATTN_POSITION_DISENTANGLED:
        p->key_table = NORMAL(t, t->Hq, 8, t->E);
        p->query_table = NORMAL(t, 8, t->E);
        p->max_distance = pick(t, 2) ? 9 : 0;
        break;
    case ATTN_POSITION_ROTARY:
        p->rotary = pick(t, 2) ? ATTN_ROTARY_HALVES : ATTN_ROTARY_INTERLEAVED;
        break;
    default:
        break;
    }
}

static inline trial begin(uint64_t seed) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed * 1000};
    assert_non_null(t.arena);
    t.wide = pick(&t, 4) == 0;
    t.B = 1 + pick(&t, 2), t.Hkv = 1 + pick(&t, 2), t.Hq = t.Hkv * (1 + pick(&t, 2));
    t.L = 1 + pick(&t, 90), t.S = 1 + pick(&t, 300), t.past = pick(&t, 3) ? 0 : pick(&t, t.S);
    t.E = 2 * (1 + pick(&t, 20)), t.Ev = 1 + pick(&t, 20);
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S - t.past, t.E);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S - t.past, t.Ev);
    if (t.past) {
        t.in.past_key = NORMAL(&t, t.B, t.Hkv, t.past, t.E);
        t.in.past_value = NORMAL(&t, t.B, t.Hkv, t.past, t.Ev);
    }
    add_masks(&t);
    add_score(&t);
    add_position(&t);
    if (pick(&t, 3) == 0)
        t.in.sinks = NORMAL(&t, t.Hq);
    if (pick(&t, 4) == 0)
        t.in.softcap = 4;
    if (pick(&t, 4) == 0)
        t.in.scale = 0.3;
    return t;
}

static inline void fail_on(attn_status status, const attn_error *err) {
    if (status != ATTN_OK)
        print_error("%s: %s\n", err->where, err->text);
    assert_int_equal(status, ATTN_OK);
}

/* The labels of queries and keys as texts: for all batch entries, or for each of them. */
typedef struct labelled {
    attn_run_text texts[4];
    size_t query[2], key[2];
    attn_run_site_source site;
    attn_run_source source;
} labelled;

static inline void label(labelled *l, const trial *t, const char *const *query,
                         const char *const *key, size_t entries) {
    *l = (labelled){.site = {.op = t->a, .stats = &t->out.stats}};
    for (size_t b = 0; b < entries; b++) {
        l->query[b] = 2 * b;
        l->key[b] = 2 * b + 1;
        l->texts[2 * b] = (attn_run_text){.count = t->L, .tokens = query ? query + b * t->L : key};
        l->texts[2 * b + 1] =
            (attn_run_text){.count = t->S, .tokens = key ? key + b * t->S : query};
    }
    l->site.info = (attn_run_site_info){.query_texts = query ? l->query : NULL,
                                        .key_texts = key ? l->key : NULL,
                                        .query_text_count = query ? entries : 0,
                                        .key_text_count = key ? entries : 0};
    l->source = (attn_run_source){.sites = &l->site,
                                  .site_count = 1,
                                  .texts = l->texts,
                                  .text_count = query && key ? 2 * entries : 0};
}

/* Copies the pieces of the image together. */
static inline void join(trial *t) {
    t->image = attn_arena_take(t->arena, t->pieces.size);
    char *to = t->image;
    for (size_t i = 0; i < t->pieces.count; i++) {
        memcpy(to, t->pieces.pieces[i].data, t->pieces.pieces[i].size);
        to += t->pieces.pieces[i].size;
    }
    assert_int_equal(to - (char *)t->image, t->pieces.size);
}

static inline void store_labelled(trial *t, const char *const *query_labels,
                                  const char *const *key_labels, size_t entries) {
    attn_error err = {.code = ATTN_OK};
    const unsigned want = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP;
    const attn_metadata text = {"note", "of the caller"};
    fail_on(attn_attention_new(&t->in, t->arena, &t->a, &err), &err);
    fail_on(attn_attention_run(t->a, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &t->out, &err),
            &err);
    labelled l;
    label(&l, t, query_labels, key_labels, entries);
    l.source.metadata = &text;
    l.source.metadata_count = 1;
    fail_on(attn_run_image_new(&l.source, NULL, NULL, t->arena, &t->pieces, &err), &err);
    join(t);
    fail_on(attn_run_open(t->image, t->pieces.size, NULL, t->arena, &t->whole, &err), &err);
    assert_int_equal(attn_run_site_count(t->whole), 1);
    fail_on(attn_run_site_open(t->whole, 0, &t->run, &err), &err);
    assert_true(attn_run_is_exact(t->run));
    assert_string_equal(attn_run_metadata(t->whole, "note"), "of the caller");
    assert_string_equal(attn_run_words(t->run),
                        attn_mask_words(attn_attention_mask(t->a), t->arena));
}

static inline void store(trial *t, const char *const *query_labels, const char *const *key_labels) {
    store_labelled(t, query_labels, key_labels, 1);
}

static inline size_t elem(const trial *t) {
    return t->wide ? sizeof(double) : sizeof(float);
}

static inline const char *weight_at(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    return (const char *)t->out.weights.data + (((b * t->Hq + h) * t->L + i) * t->S + j) * elem(t);
}

static inline double weight(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const void *at = weight_at(t, b, h, i, j);
    return t->wide ? *(const double *)at : (double)*(const float *)at;
}

/* The whole matrix of the opened run is that of the run. */
static inline void check_cells(trial *t) {
    const attn_attention *op = attn_run_attention(t->run);
    attn_cells_scratch *scratch = attn_cells_scratch_new(op, t->arena);
    char *got = attn_arena_take(t->arena, t->L * t->S * elem(t));
    attn_error err = {.code = ATTN_OK};
    for (size_t n = 0; n < t->B * t->Hq; n++) {
        const attn_range all = {n / t->Hq, n % t->Hq, 0, t->L, 0, t->S};
        fail_on(attn_attention_cells(op, &t->run->stats, &all, ATTN_STAGE_PROBS, got, t->S, scratch,
                                     &err),
                &err);
        assert_memory_equal(got, weight_at(t, all.batch, all.head, 0, 0), t->L * t->S * elem(t));
    }
}

#endif
