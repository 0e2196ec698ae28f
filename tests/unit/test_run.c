/* Stored runs: whatever shaped the scores, a run that was opened from its image gives the bits of
 * the full matrix: cells, tiles of every level, rows computed alone, keys hidden afterwards. */
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

static size_t pick(trial *t, size_t n) {
    return (size_t)(attn_rng_bits(t->seed++, 0) % n);
}

static attn_tensor normal(trial *t, int rank, const size_t *dims) {
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

static void add_layer(trial *t, attn_mask_layer layer) {
    t->in.mask.layers[t->in.mask.count++] = layer;
}

static attn_tensor bools(trial *t, int rank, const size_t *dims) {
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

static attn_tensor integers(trial *t, size_t n, size_t most) {
    int64_t *data = attn_arena_zeroed(t->arena, n + 1, sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = (int64_t)pick(t, most);
    return attn_tensor_dense(data, ATTN_I64, 1, &n);
}

static void add_masks(trial *t) {
    static const attn_pattern patterns[] = {{.kind = ATTN_PATTERN_STRIDED, .stride = 3, .local = 2},
                                            {.kind = ATTN_PATTERN_BLOCK, .size = 16},
                                            {.kind = ATTN_PATTERN_LOCAL, .radius = 9},
                                            {.kind = ATTN_PATTERN_GLOBAL, .keys = 2, .local = 5}};
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
                                       .pattern = patterns[pick(t, 4)]});
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

static void add_score(trial *t) {
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

static void add_position(trial *t) {
    attn_position *p = &t->in.position;
    const bool product = t->in.score.kind <= ATTN_SCORE_dot;
    p->kind = (attn_position_kind)pick(t, product ? 6 : 4);
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
    case ATTN_POSITION_ROTARY:
        p->rotary = pick(t, 2) ? ATTN_ROTARY_HALVES : ATTN_ROTARY_INTERLEAVED;
        break;
    default:
        break;
    }
}

static trial begin(uint64_t seed) {
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

static void fail_on(attn_status status, const attn_error *err) {
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

static void label(labelled *l, const trial *t, const char *const *query, const char *const *key,
                  size_t entries) {
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
static void join(trial *t) {
    t->image = attn_arena_take(t->arena, t->pieces.size);
    char *to = t->image;
    for (size_t i = 0; i < t->pieces.count; i++) {
        memcpy(to, t->pieces.pieces[i].data, t->pieces.pieces[i].size);
        to += t->pieces.pieces[i].size;
    }
    assert_int_equal(to - (char *)t->image, t->pieces.size);
}

static void store_labelled(trial *t, const char *const *query_labels, const char *const *key_labels,
                           size_t entries) {
    attn_error err = {ATTN_OK, "", ""};
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

static void store(trial *t, const char *const *query_labels, const char *const *key_labels) {
    store_labelled(t, query_labels, key_labels, 1);
}

static size_t elem(const trial *t) {
    return t->wide ? sizeof(double) : sizeof(float);
}

static const char *weight_at(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    return (const char *)t->out.weights.data + (((b * t->Hq + h) * t->L + i) * t->S + j) * elem(t);
}

static double weight(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const void *at = weight_at(t, b, h, i, j);
    return t->wide ? *(const double *)at : (double)*(const float *)at;
}

/* The whole matrix of the opened run is that of the run. */
static void check_cells(trial *t) {
    const attn_attention *op = attn_run_attention(t->run);
    attn_cells_scratch *scratch = attn_cells_scratch_new(op, t->arena);
    char *got = attn_arena_take(t->arena, t->L * t->S * elem(t));
    attn_error err = {ATTN_OK, "", ""};
    for (size_t n = 0; n < t->B * t->Hq; n++) {
        const attn_range all = {n / t->Hq, n % t->Hq, 0, t->L, 0, t->S};
        fail_on(attn_attention_cells(op, attn_run_stats(t->run), &all, ATTN_STAGE_PROBS, got, t->S,
                                     scratch, &err),
                &err);
        assert_memory_equal(got, weight_at(t, all.batch, all.head, 0, 0), t->L * t->S * elem(t));
    }
}

static bool visible(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_mask *mask = attn_attention_mask(t->a);
    uint8_t keep;
    attn_mask_keep(mask, b, h, i, j, 1, &keep);
    return keep || attn_mask_fills(mask);
}

/* One cell of a level, from the full matrix. */
static void expect_cell(const trial *t, const attn_run_place *at, size_t y, size_t x, float max,
                        float mean) {
    const size_t side = (size_t)1 << at->level;
    double sum = 0;
    float most = -INFINITY;
    size_t count = 0;
    for (size_t i = y * side; i < (y + 1) * side && i < t->L; i++)
        for (size_t j = x * side; j < (x + 1) * side && j < t->S; j++) {
            const float w = (float)weight(t, at->batch, at->head, i, j);
            if (!visible(t, at->batch, at->head, i, j))
                continue;
            count++;
            sum += (double)w;
            most = w > most ? w : most;
        }
    assert_memory_equal(&max, &most, sizeof max);
    if (count)
        assert_true(fabs((double)mean - sum / (double)count) <= 1e-7 * fabs(sum / (double)count));
    else
        assert_true(mean == -INFINITY);
}

/* Every tile of every level of one head. */
static void check_tiles(trial *t, size_t b, size_t h, attn_pool *pool) {
    attn_run_place at = {.batch = b, .head = h};
    attn_error err = {ATTN_OK, "", ""};
    for (; at.level < attn_run_levels(t->run); at.level++) {
        size_t whole[2], seen = 0;
        attn_run_level_shape(t->run, at.level, whole);
        for (at.y = 0; at.y * ATTN_RUN_TILE < whole[0]; at.y++)
            for (at.x = 0; at.x * ATTN_RUN_TILE < whole[1]; at.x++) {
                attn_run_tile tile;
                fail_on(attn_run_tile_make(t->run, &at, pool, NULL, t->arena, &tile, &err), &err);
                bool hidden = true;
                for (size_t c = 0; c < tile.shape[0] * tile.shape[1]; c++) {
                    expect_cell(t, &at, at.y * ATTN_RUN_TILE + c / tile.shape[1],
                                at.x * ATTN_RUN_TILE + c % tile.shape[1], tile.max[c],
                                tile.mean[c]);
                    hidden &= tile.max[c] == -INFINITY;
                    assert_true(tile.max[c] <= tile.range[1]);
                }
                assert_int_equal(hidden, tile.hidden);
                seen += tile.shape[0] * tile.shape[1];
            }
        assert_int_equal(seen, whole[0] * whole[1]);
    }
    assert_int_equal(attn_run_tile_shape(t->run, &at, (size_t[2]){0, 0}, &err), ATTN_EARG);
    assert_string_equal(err.where, "level");
}

static void check_explanation(trial *t) {
    const size_t b = pick(t, t->B), h = pick(t, t->Hq), i = pick(t, t->L), j = pick(t, t->S);
    attn_error err = {ATTN_OK, "", ""};
    attn_run_cell c;
    fail_on(attn_run_explain(t->run, b, h, i, j, t->arena, &c, &err), &err);
    double sum = c.relative;
    size_t rank = 1, of = 0;
    for (size_t e = 0; e < c.width; e++)
        sum += c.products[e];
    assert_true(fabs(sum - c.raw) <= 1e-4 * (1 + fabs(sum)));
    assert_true(fabs(c.scaled - c.raw * c.scale) <= 1e-5 * (1 + fabs(c.scaled)));
    if (c.softcap > 0)
        assert_true(fabs(c.softcapped - c.softcap * tanh(c.scaled / c.softcap)) <=
                    1e-5 * c.softcap);
    assert_true(c.weight == weight(t, b, h, i, j));
    assert_int_equal(c.visible, visible(t, b, h, i, j));
    for (size_t k = 0; k < t->S; k++) {
        const double w = weight(t, b, h, i, k);
        if (!visible(t, b, h, i, k))
            continue;
        of++;
        rank += w > c.weight || (w == c.weight && k < j);
    }
    assert_int_equal(c.of, of);
    assert_int_equal(c.rank, c.visible ? rank : 0);
    assert_int_equal(c.hidden_count > 0, c.filled || !c.visible);
    if (!c.visible) {
        assert_true(c.biased == -INFINITY && c.weight == 0);
    } else if (!c.filled) {
        assert_true(fabs(c.biased - (c.softcapped + c.mask_bias + c.position_bias)) <=
                    1e-5 * (1 + fabs(c.biased)));
        assert_true(fabs(log(c.weight) - (c.biased - c.logsumexp)) <= 1e-4 || c.weight < 1e-30);
    }
}

/* Some rows alone, and with keys hidden, equal the run and a run with that mask. */
static void check_rows(trial *t) {
    attn_range rows = {.batch = pick(t, t->B), .head = pick(t, t->Hq), .row = pick(t, t->L)};
    rows.rows = 1 + pick(t, t->L - rows.row);
    int64_t hide[3] = {(int64_t)pick(t, t->S), 0, (int64_t)t->S - 1};
    const unsigned want = ATTN_WANT_WEIGHTS | ATTN_WANT_OUTPUT;
    attn_inputs part;
    attn_attention *op;
    attn_results got, all;
    attn_error err = {ATTN_OK, "", ""};
    fail_on(attn_run_rows_inputs(t->run, &rows, NULL, 0, t->arena, &part, &err), &err);
    fail_on(attn_attention_new(&part, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &got, &err), &err);
    assert_memory_equal(got.weights.data, weight_at(t, rows.batch, rows.head, rows.row, 0),
                        rows.rows * t->S * elem(t));
    const size_t row = (rows.batch * t->Hq + rows.head) * t->L + rows.row;
    assert_memory_equal(got.output.data, (char *)t->out.output.data + row * t->Ev * elem(t),
                        rows.rows * t->Ev * elem(t));
    if (t->in.mask.fill != ATTN_FILL_HIDE)
        return;
    uint8_t *keys = attn_arena_zeroed(t->arena, t->S, 1);
    for (int k = 0; k < 3; k++)
        keys[hide[k]] = 1;
    attn_inputs direct = t->in;
    direct.mask.layers[direct.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                          .where = "hide",
                          .semantics = ATTN_SEM_HIDE,
                          .values = attn_tensor_dense(keys, ATTN_BOOL, 1, &t->S)};
    fail_on(attn_attention_new(&direct, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &all, &err), &err);
    fail_on(attn_run_rows_inputs(t->run, &rows, hide, 3, t->arena, &part, &err), &err);
    fail_on(attn_attention_new(&part, t->arena, &op, &err), &err);
    fail_on(attn_attention_run(op, want, ATTN_STAGE_RAW, NULL, NULL, t->arena, &got, &err), &err);
    assert_memory_equal(got.weights.data, (char *)all.weights.data + row * t->S * elem(t),
                        rows.rows * t->S * elem(t));
    assert_memory_equal(got.output.data, (char *)all.output.data + row * t->Ev * elem(t),
                        rows.rows * t->Ev * elem(t));
}

/* The mass of some keys and the best rows of each key are those of the full matrix. */
static void check_columns(trial *t) {
    enum { K = 4 };
    attn_range rows = {.batch = pick(t, t->B), .head = pick(t, t->Hq), .row = pick(t, t->L)};
    rows.rows = 1 + pick(t, t->L - rows.row);
    rows.cols = t->S;
    const int64_t keys[3] = {(int64_t)pick(t, t->S), 0, (int64_t)t->S - 1};
    double *mass = attn_arena_zeroed(t->arena, rows.rows, sizeof *mass);
    attn_edge *edges;
    size_t count, at = 0;
    attn_error err = {ATTN_OK, "", ""};
    fail_on(attn_run_mass(t->run, &rows, keys, 3, NULL, NULL, t->arena, mass, &err), &err);
    fail_on(attn_run_columns(t->run, &rows, 1, K, NULL, NULL, t->arena, &edges, &count, &err),
            &err);
    for (size_t r = 0; r < rows.rows; r++) {
        double sum = 0;
        for (size_t j = 0; j < t->S; j++)
            if ((int64_t)j == keys[0] || j == 0 || j == t->S - 1)
                sum += weight(t, rows.batch, rows.head, rows.row + r, j);
        assert_true(mass[r] == sum);
    }
    for (size_t j = 0; j < t->S; j++) {
        float last = INFINITY;
        for (size_t n = 0; n < K && at < count && edges[at].col == j; n++, at++) {
            const size_t r = edges[at].row;
            assert_true(r >= rows.row && r < rows.row + rows.rows && edges[at].weight <= last);
            assert_true(edges[at].weight == (float)weight(t, rows.batch, rows.head, r, j));
            last = edges[at].weight;
        }
    }
    assert_int_equal(at, count);
    assert_int_equal(
        attn_run_mass(t->run, &rows, &(int64_t){-1}, 1, NULL, NULL, t->arena, mass, &err),
        ATTN_EARG);
    assert_int_equal(
        attn_run_columns(t->run, &rows, 1, 0, NULL, NULL, t->arena, &edges, &count, &err), ATTN_OK);
    assert_int_equal(count, 0);
}

static void test_runs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial t = begin(seed);
        store(&t, NULL, NULL);
        check_cells(&t);
        check_tiles(&t, t.B - 1, t.Hq - 1, NULL);
        for (int n = 0; n < 8; n++)
            check_explanation(&t);
        check_rows(&t);
        check_columns(&t);
        attn_arena_free(t.arena);
    }
}

/* A run without statistics computes them as rows are looked at, in any order. On "ref" the sums of a
 * row depend on how many rows are computed together, so its weights differ in the last bits. */
static void check_without_stats(trial *t) {
    attn_error err = {ATTN_OK, "", ""};
    labelled l;
    const bool bits = strcmp(attn_attention_kernel(t->a), "ref") != 0;
    label(&l, t, NULL, NULL, 1);
    l.site.stats = NULL;
    fail_on(attn_run_image_new(&l.source, NULL, NULL, t->arena, &t->pieces, &err), &err);
    join(t);
    fail_on(attn_run_open(t->image, t->pieces.size, NULL, t->arena, &t->whole, &err), &err);
    fail_on(attn_run_site_open(t->whole, 0, &t->run, &err), &err);
    if (bits) {
        check_cells(t);
        return;
    }
    attn_cells_scratch *scratch = attn_cells_scratch_new(attn_run_attention(t->run), t->arena);
    double *row = attn_arena_take(t->arena, t->S * sizeof *row);
    for (size_t n = t->B * t->Hq * t->L; n-- > 0;) {
        const size_t b = n / t->L / t->Hq, h = n / t->L % t->Hq, i = n % t->L;
        const attn_range at = {b, h, i, 1, 0, t->S};
        fail_on(attn_attention_cells(attn_run_attention(t->run), attn_run_stats(t->run), &at,
                                     ATTN_STAGE_PROBS, row, t->S, scratch, &err),
                &err);
        for (size_t j = 0; j < t->S; j++) {
            const double got = t->wide ? row[j] : (double)((const float *)(const void *)row)[j];
            assert_true(fabs(got - weight(t, b, h, i, j)) <= 1e-6);
        }
    }
}

static void test_runs_without_statistics(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        trial t = begin(seed);
        store(&t, NULL, NULL);
        check_without_stats(&t);
        attn_arena_free(t.arena);
    }
}

/* Two sites that share queries and a mask: the file has each tensor once. */
static void test_shared_tensors(void **state) {
    (void)state;
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 5, .B = 2, .Hq = 4, .Hkv = 2, .L = 9, .S = 7};
    attn_error err = {ATTN_OK, "", ""};
    const char *tokens[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    const attn_run_text text = {.count = 9, .tokens = tokens, .text = "abcdefghi"};
    const size_t number = 0;
    t.E = t.Ev = 5;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
    add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                    .where = "attn_mask",
                                    .values = BOOLS(&t, t.L, t.S)});
    store(&t, NULL, NULL);
    attn_run_site_source sites[2] = {{.op = t.a}, {.op = t.a}};
    sites[0].info = (attn_run_site_info){.name = "first", .kind = ATTN_RUN_ENCODER};
    sites[1].info = (attn_run_site_info){.kind = ATTN_RUN_CROSS,
                                         .layer = 3,
                                         .call = 1,
                                         .key_start = 2,
                                         .query_texts = &number,
                                         .key_texts = &number,
                                         .query_text_count = 1,
                                         .key_text_count = 1};
    const attn_run_source source = {
        .sites = sites, .site_count = 2, .texts = &text, .text_count = 1, .model = "two"};
    fail_on(attn_run_image_new(&source, NULL, NULL, t.arena, &t.pieces, &err), &err);
    assert_int_equal(t.pieces.count, 1 + 4); /* header, query, key, value, mask */
    join(&t);
    fail_on(attn_run_open(t.image, t.pieces.size, NULL, t.arena, &t.whole, &err), &err);
    assert_int_equal(attn_run_version(t.whole), 2);
    assert_string_equal(attn_run_model(t.whole), "two");
    assert_int_equal(attn_run_site_count(t.whole), 2);
    for (size_t i = 0; i < 2; i++) {
        fail_on(attn_run_site_open(t.whole, i, &t.run, &err), &err);
        if (strcmp(attn_attention_kernel(t.a), "ref") != 0)
            check_cells(&t);
    }
    const attn_run_site_info *info = attn_run_site_info_of(t.whole, 1);
    assert_string_equal(info->name, "sites.1");
    assert_int_equal(info->kind, ATTN_RUN_CROSS);
    assert_int_equal(info->layer, 3);
    assert_int_equal(info->call, 1);
    assert_string_equal(attn_run_key_labels(t.run, 1)[6], "i");
    assert_string_equal(attn_run_query_labels(t.run, 0)[6], "g");
    attn_arena_free(t.arena);
}

/* Long enough for an overview: levels 0 to 4, of which 3 and 4 are kept. */
static void test_overview(void **state) {
    (void)state;
    attn_pool *pool = attn_pool_new(3);
    for (int causal = 0; causal < 2; causal++) {
        trial t = {.arena = attn_arena_new(LIMIT), .seed = 7};
        t.B = 1, t.Hq = t.Hkv = 1, t.L = 700, t.S = 2100, t.E = 8, t.Ev = 4;
        t.in = attn_attention_defaults();
        t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
        t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
        t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
        if (causal)
            add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"});
        store(&t, NULL, NULL);
        assert_int_equal(attn_run_levels(t.run), 5);
        assert_int_equal(attn_run_overview_level(t.run), 3);
        check_tiles(&t, 0, 0, pool);
        attn_arena_free(t.arena);
    }
    attn_pool_free(pool);
}

static void test_labels(void **state) {
    (void)state;
    const char *query[] = {"a", "",
                           "Stra\xc3\x9f"
                           "e"},
               *key[] = {"x", "y"};
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 9, .B = 1, .Hq = 1, .Hkv = 1, .L = 3, .S = 2};
    t.E = t.Ev = 4;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.L, t.E);
    t.in.key = NORMAL(&t, t.S, t.E);
    t.in.value = NORMAL(&t, t.S, t.Ev);
    store(&t, query, key);
    for (size_t i = 0; i < t.L; i++)
        assert_string_equal(attn_run_query_labels(t.run, 0)[i], query[i]);
    for (size_t i = 0; i < t.S; i++)
        assert_string_equal(attn_run_key_labels(t.run, 0)[i], key[i]);
    assert_int_equal(attn_run_label_entries(t.run), 1);
    attn_arena_free(t.arena);
}

static void test_labels_of_entries(void **state) {
    const char *query[] = {"a", "b", "c", "d", "e", "f"}, *key[] = {"u", "v", "w", "x"};
    trial t = {
        .arena = attn_arena_new(LIMIT), .seed = 9, .B = 2, .Hq = 1, .Hkv = 1, .L = 3, .S = 2};
    (void)state;
    t.E = t.Ev = 4;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.S, t.Ev);
    store(&t, query, key);
    for (size_t b = 0; b < t.B; b++)
        assert_string_equal(attn_run_key_labels(t.run, b)[1], "v");
    store_labelled(&t, query, key, 2);
    assert_int_equal(attn_run_label_entries(t.run), 2);
    for (size_t b = 0; b < t.B; b++) {
        for (size_t i = 0; i < t.L; i++)
            assert_string_equal(attn_run_query_labels(t.run, b)[i], query[b * t.L + i]);
        for (size_t i = 0; i < t.S; i++)
            assert_string_equal(attn_run_key_labels(t.run, b)[i], key[b * t.S + i]);
    }
    store(&t, NULL, NULL);
    assert_int_equal(attn_run_label_entries(t.run), 0);
    labelled l;
    attn_error err;
    label(&l, &t, query, key, 2);
    l.site.info.key_text_count = 3;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_ESHAPE);
    assert_string_equal(err.where, "sites/0/key_text");
    label(&l, &t, query, key, 1);
    l.texts[1].count = 1;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_ESHAPE);
    attn_arena_free(t.arena);
}

/* Names that a reader could not tell from ours, or from each other. */
static void test_metadata(void **state) {
    static const attn_metadata ours = {"run.kernel", "x"}, twice[2] = {{"a", "1"}, {"a", "2"}};
    attn_metadata many[ATTN_RUN_METADATA + 1];
    char names[ATTN_RUN_METADATA + 1][8];
    (void)state;
    trial t = begin(12);
    attn_error err;
    store(&t, NULL, NULL);
    for (size_t i = 0; i <= ATTN_RUN_METADATA; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        many[i] = (attn_metadata){names[i], ""};
    }
    labelled l;
    label(&l, &t, NULL, NULL, 1);
    l.source.metadata = many, l.source.metadata_count = ATTN_RUN_METADATA;
    fail_on(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err), &err);
    l.source.metadata_count++;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    l.source.metadata = twice, l.source.metadata_count = 2;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    l.source.metadata = &ours, l.source.metadata_count = 1;
    assert_int_equal(attn_run_image_new(&l.source, NULL, NULL, t.arena, &t.pieces, &err),
                     ATTN_EARG);
    attn_arena_free(t.arena);
}

/* An image is outside data: cut short or with any byte of its header changed it is refused or makes
 * a run that can be looked at; never more. */
static void test_damage(void **state) {
    (void)state;
    trial t = begin(12);
    store(&t, NULL, NULL);
    unsigned char *copy = attn_arena_take(t.arena, t.pieces.size);
    attn_error err;
    attn_run *run;
    for (size_t cut = 0; cut < t.pieces.size; cut += 1 + t.pieces.size / 300) {
        attn_arena *arena = attn_arena_new(LIMIT);
        assert_int_not_equal(attn_run_open(t.image, cut, NULL, arena, &run, &err), ATTN_OK);
        attn_arena_free(arena);
    }
    const size_t header = t.pieces.pieces[0].size;
    for (size_t at = 0; at < header; at++) {
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_run_tile tile;
        memcpy(copy, t.image, t.pieces.size);
        copy[at] = (unsigned char)(copy[at] ^ (1u << at % 7));
        const attn_run_site *site;
        if (attn_run_open(copy, t.pieces.size, NULL, arena, &run, &err) == ATTN_OK &&
            attn_run_site_open(run, 0, &site, &err) == ATTN_OK)
            attn_run_tile_make(site, &(attn_run_place){.level = 0}, NULL, NULL, arena, &tile, &err);
        attn_arena_free(arena);
    }
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),           cmocka_unit_test(test_runs_without_statistics),
        cmocka_unit_test(test_shared_tensors), cmocka_unit_test(test_overview),
        cmocka_unit_test(test_labels),         cmocka_unit_test(test_labels_of_entries),
        cmocka_unit_test(test_metadata),       cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
