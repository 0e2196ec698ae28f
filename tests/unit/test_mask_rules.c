/* Rules of masks (mask/rule.c) against their definition, which is evaluated cell by cell: random trees of
 * any_of, all_of and not over layers of every kind, with windows and patterns by head, and with positions of
 * the caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "mask/mask_private.h"

enum { TRIALS = 400, LIMIT = 1 << 28, K = 3 };

typedef struct trial {
    attn_arena *arena;
    attn_mask_spec spec;
    attn_mask_shape shape;
    size_t B;
    int64_t offsets[3];
    uint64_t seed;
    attn_mask *mask;
} trial;

static size_t pick(trial *t, size_t n) {
    return (size_t)(attn_rng_bits(t->seed++, 0) % n);
}

/* A tensor of integers from `least` on, `n` different ones. */
static attn_tensor integers(trial *t, int rank, const size_t *dims, int64_t least, size_t n) {
    size_t count = 1;
    for (int a = 0; a < rank; a++)
        count *= dims[a];
    int64_t *data = attn_arena_zeroed(t->arena, count + 1, sizeof *data);
    for (size_t k = 0; k < count; k++)
        data[k] = least + (int64_t)pick(t, n);
    return attn_tensor_dense(data, ATTN_I64, rank, dims);
}

/* The same numbers, 0 and 1, as packed booleans. */
static attn_tensor packed(trial *t, const attn_tensor *x) {
    const size_t width = x->dims[x->rank - 1], bytes = (width + 7) / 8;
    size_t count = 0;
    attn_tensor_count(x, &count);
    uint8_t *data = attn_arena_zeroed(t->arena, count / width * bytes + 1, 1);
    for (size_t k = 0; k < count; k++)
        if (((const int64_t *)x->data)[k])
            data[k / width * bytes + k % width / 8] |= (uint8_t)(1u << k % width % 8);
    return attn_tensor_bits(data, x->rank, x->dims);
}

/* Parents whose order is neither that of the keys nor its reverse. */
static attn_tensor parents(trial *t, size_t B, size_t S) {
    const size_t dims[] = {B, S};
    attn_tensor x = integers(t, 2, dims, 0, 1);
    size_t *order = attn_arena_zeroed(t->arena, S, sizeof *order);
    for (size_t b = 0; b < B; b++) {
        for (size_t k = 0; k < S; k++) {
            const size_t at = pick(t, k + 1);
            order[k] = order[at];
            order[at] = k;
        }
        for (size_t k = 0; k < S; k++)
            ((int64_t *)x.data)[b * S + order[k]] =
                k && pick(t, 6) ? (int64_t)order[pick(t, k)] : -1;
    }
    return x;
}

static attn_pattern pattern(trial *t) {
    const int64_t size = 1 + (int64_t)pick(t, 9);
    return (attn_pattern){.kind = (attn_pattern_kind)pick(t, ATTN_PATTERN_FULL + 1),
                          .radius = size,
                          .stride = size,
                          .size = size,
                          .num_keys = size,
                          .local = (int64_t)pick(t, 4)};
}

/* Gives a window or pattern to each head, or one to all. */
static void draw_heads(trial *t, attn_mask_layer *l) {
    attn_head_keys *own = attn_arena_zeroed(t->arena, t->shape.H, sizeof *own);
    l->by_head = own;
    l->head_count = pick(t, 4) ? t->shape.H : 1;
    for (size_t h = 0; h < l->head_count; h++) {
        own[h].window[0] = (int64_t)pick(t, 9) - 1;
        own[h].window[1] = (int64_t)pick(t, 9) - 1;
        own[h].pattern = pattern(t);
    }
}

/* Positions of `rows` rows: ascending, any, or with repeats, and sometimes none for some of them. */
static attn_tensor positions(trial *t, size_t rows) {
    const size_t dims[2] = {pick(t, 2) ? t->B : 1, rows}, way = pick(t, 3), none = pick(t, 3);
    attn_tensor x = integers(t, 2, dims, -5, way == 1 ? rows + 9 : 9);
    int64_t *at = x.data;
    for (size_t k = 0; k < dims[0] * rows; k++) {
        if (way == 2 && k % rows && at[k - 1] != ATTN_NO_POSITION)
            at[k] = at[k - 1] + (int64_t)pick(t, 3);
        if (none == 1 && k % rows >= 4 && !pick(t, 9))
            at[k] = ATTN_NO_POSITION;
    }
    for (size_t k = 0; none == 2 && k < dims[0] * rows; k++) /* sinks or registers in front */
        at[k] = k % rows < 2 ? ATTN_NO_POSITION : at[k];
    return x;
}

static size_t add(trial *t, attn_mask_layer layer) {
    t->spec.layers[t->spec.count] = layer;
    return t->spec.count++;
}

/* Adds a random layer with its parts. `depth` bounds how deep they are nested. */
static void add_random(trial *t, size_t depth) {
    static const attn_layer_kind kinds[] = {
        ATTN_LAYER_CAUSAL,  ATTN_LAYER_WINDOW, ATTN_LAYER_PATTERN,   ATTN_LAYER_VALUES,
        ATTN_LAYER_LENGTHS, ATTN_LAYER_PREFIX, ATTN_LAYER_DOCUMENTS, ATTN_LAYER_TREE,
        ATTN_LAYER_TOP_K,   ATTN_LAYER_TOKENS, ATTN_LAYER_ANY_OF,    ATTN_LAYER_ALL_OF,
        ATTN_LAYER_NOT};
    const attn_mask_shape *s = &t->shape;
    const size_t B = pick(t, 2) ? t->B : 1, H = pick(t, 2) ? s->H : 1;
    const size_t keys[] = {B, s->S}, lists[] = {B, H, s->L, K}, cells[] = {B, H, s->L, s->S};
    const bool composed = depth && t->spec.count + 6 < ATTN_MASK_LAYERS && pick(t, 2);
    attn_mask_layer l = {.kind = composed ? kinds[10 + pick(t, 3)] : kinds[pick(t, 10)]};
    switch (l.kind) {
    case ATTN_LAYER_WINDOW:
        l.window[0] = (int64_t)pick(t, 9) - 1;
        l.window[1] = (int64_t)pick(t, 9) - 1;
        if (pick(t, 2))
            draw_heads(t, &l);
        break;
    case ATTN_LAYER_PATTERN:
        l.pattern = pattern(t);
        if (pick(t, 2))
            draw_heads(t, &l);
        break;
    case ATTN_LAYER_VALUES:
        l.values = integers(t, 4, cells, 0, 2);
        l.semantics = pick(t, 2) ? ATTN_SEM_KEEP : ATTN_SEM_HIDE;
        if (pick(t, 2))
            l.values = packed(t, &l.values);
        break;
    case ATTN_LAYER_LENGTHS:
    case ATTN_LAYER_PREFIX:
        l.values = integers(t, 1, &B, 0, s->S + 1);
        break;
    case ATTN_LAYER_DOCUMENTS:
        l.values = integers(t, 2, keys, INT64_MAX - 4, 4);
        for (size_t k = 1; pick(t, 3) && k < B * s->S; k++) /* runs */
            if (k % 5)
                ((int64_t *)l.values.data)[k] = ((int64_t *)l.values.data)[k - 1];
        break;
    case ATTN_LAYER_TREE:
        l.values = parents(t, B, s->S);
        break;
    case ATTN_LAYER_TOP_K:
        l.values = integers(t, 4, lists, -1, s->S + 1);
        break;
    case ATTN_LAYER_TOKENS:
        l.values = integers(t, 2, keys, 0, 3);
        break;
    default:
        l.parts = composed ? l.kind == ATTN_LAYER_NOT ? 1 : 1 + pick(t, 2) : 0;
    }
    add(t, l);
    for (size_t p = 0; p < l.parts; p++)
        add_random(t, depth - 1);
}

static int64_t element(const attn_tensor *t, size_t b, size_t h, size_t i, size_t j) {
    const size_t at[4] = {b, h, i, j};
    const bool bits = t->dtype == ATTN_BITS;
    size_t k = 0;
    for (int a = 0; a < t->rank; a++) {
        const size_t index = t->rank == 4 ? at[a] : a ? j : b;
        if (bits && a == 3)
            return ((const uint8_t *)t->data)[k * ((t->dims[3] + 7) / 8) + j / 8] >> j % 8 & 1;
        k = k * t->dims[a] + (t->dims[a] == 1 ? 0 : index);
    }
    return ((const int64_t *)t->data)[k];
}

/* The definition: whether the layer *at shows the cell. Moves *at behind the layer and its parts. */
static bool shows(const trial *t, size_t *at, size_t b, size_t h, size_t i, size_t j) {
    const attn_mask_layer *l = &t->spec.layers[(*at)++];
    const int64_t p = (int64_t)i + t->offsets[b], key = (int64_t)j, S = (int64_t)t->shape.S;
    const attn_tensor *q = &t->spec.query_positions, *k = &t->spec.key_positions;
    const int64_t from = q->rank ? element(q, b, 0, 0, i) : p;
    const int64_t to = k->rank ? element(k, b, 0, 0, j) : key;
    const bool formula = l->kind == ATTN_LAYER_CAUSAL || l->kind == ATTN_LAYER_WINDOW ||
                         l->kind == ATTN_LAYER_PATTERN || l->kind == ATTN_LAYER_PREFIX;
    const attn_head_keys *own = l->by_head ? &l->by_head[l->head_count == 1 ? 0 : h] : NULL;
    const int64_t *window = own ? own->window : l->window;
    size_t shown = 0;
    if (formula && (from == ATTN_NO_POSITION || to == ATTN_NO_POSITION))
        return true;
    for (size_t n = 0; n < l->parts; n++)
        shown += shows(t, at, b, h, i, j);
    switch (l->kind) {
    case ATTN_LAYER_CAUSAL:
        return to <= from;
    case ATTN_LAYER_WINDOW:
        return (window[0] < 0 || to >= from - window[0]) &&
               (window[1] < 0 || to <= from + window[1]);
    case ATTN_LAYER_PATTERN:
        return attn_pattern_sees(own ? &own->pattern : &l->pattern, from, to);
    case ATTN_LAYER_VALUES:
        return element(&l->values, b, h, i, j) == (l->semantics == ATTN_SEM_KEEP);
    case ATTN_LAYER_LENGTHS:
        return key < element(&l->values, b, 0, 0, 0);
    case ATTN_LAYER_PREFIX:
        return to < element(&l->values, b, 0, 0, 0);
    case ATTN_LAYER_TOKENS:
        return element(&l->values, b, 0, 0, j) != 0;
    case ATTN_LAYER_DOCUMENTS:
        return p >= 0 && p < S &&
               element(&l->values, b, 0, 0, (size_t)p) == element(&l->values, b, 0, 0, j);
    case ATTN_LAYER_TREE:
        for (int64_t up = p >= 0 && p < S ? p : -1; up >= 0;
             up = element(&l->values, b, 0, 0, (size_t)up))
            if (up == key)
                return true;
        return false;
    case ATTN_LAYER_TOP_K:
        for (size_t k = 0; k < K; k++)
            if (element(&l->values, b, h, i, k) == key)
                return true;
        return false;
    case ATTN_LAYER_ANY_OF:
        return shown > 0;
    case ATTN_LAYER_ALL_OF:
        return shown == l->parts;
    default:
        return !shown;
    }
}

static bool visible(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    bool all = true;
    for (size_t at = 0; at < t->spec.count;)
        all &= shows(t, &at, b, h, i, j);
    return all;
}

static trial begin(uint64_t seed) {
    trial t = {.arena = attn_arena_new(LIMIT), .seed = seed * 1000};
    attn_error err = {0};
    t.B = 1 + pick(&t, 3);
    t.shape = (attn_mask_shape){.batch_rank = 1,
                                .batch = {t.B},
                                .has_heads = true,
                                .H = 1 + pick(&t, 3),
                                .L = 1 + pick(&t, 40),
                                .S = 1 + pick(&t, pick(&t, 8) ? 40 : 600)};
    for (size_t b = 0; b < t.B; b++)
        t.offsets[b] = (int64_t)pick(&t, 12) - 5;
    t.spec.offset = ATTN_OFFSET_GIVEN;
    t.spec.offsets = t.offsets;
    t.spec.offset_count = t.B;
    if (pick(&t, 2)) {
        const size_t given = pick(&t, 3); /* both, or one */
        if (given != 1)
            t.spec.query_positions = positions(&t, t.shape.L);
        if (given != 2)
            t.spec.key_positions = positions(&t, t.shape.S);
    }
    for (size_t n = 1 + pick(&t, 2); n > 0; n--)
        add_random(&t, 3);
    if (attn_mask_new(&t.spec, &t.shape, t.arena, &t.mask, &err))
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, err.where, err.text);
    return t;
}

/* The visible keys of each row, in one piece and in pieces. */
static void test_cells(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        trial t = begin(seed);
        uint8_t keep[640], piece[640], scratch[640];
        uint64_t count, seen = 0;
        attn_error err;
        attn_edit edit;
        for (size_t n = 0; n < t.B * t.shape.H * t.shape.L; n++) {
            const size_t i = n % t.shape.L, h = n / t.shape.L % t.shape.H,
                         b = n / t.shape.L / t.shape.H, j0 = pick(&t, t.shape.S);
            attn_mask_keep(t.mask, b, h, i, 0, t.shape.S, keep);
            attn_mask_keep(t.mask, b, h, i, j0, t.shape.S - j0, piece);
            attn_mask_edit(t.mask, b, h, i, j0, t.shape.S - j0, 4, NULL, scratch, &edit);
            for (size_t j = 0; j < t.shape.S; j++) {
                const size_t k = j - j0;
                assert_int_equal(keep[j], visible(&t, b, h, i, j));
                seen += keep[j];
                if (j < j0)
                    continue;
                assert_int_equal(piece[k], keep[j]);
                assert_int_equal(k >= edit.lo && k < edit.hi && (!edit.keep || edit.keep[k]),
                                 keep[j]);
            }
        }
        assert_int_equal(attn_mask_visible(t.mask, NULL, &count, &err), ATTN_OK);
        assert_int_equal(count, seen);
        attn_arena_free(t.arena);
    }
}

/* No key that a row of a block sees is skipped, and keys that count as common are seen by all. */
static void test_blocks(void **state) {
    size_t skipped = 0, common = 0;
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        trial t = begin(seed);
        for (size_t n = 0; n < 20; n++) {
            const size_t b = pick(&t, t.B), h = pick(&t, t.shape.H), i = pick(&t, t.shape.L),
                         rows = 1 + pick(&t, t.shape.L - i), first = pick(&t, t.shape.S);
            size_t from = first, to = first + 1 + pick(&t, t.shape.S - first);
            const size_t end = to;
            size_t all_from, all_to;
            attn_mask_narrow(t.mask, b, h, i, rows, &from, &to);
            attn_mask_common(t.mask, b, h, i, rows, &all_from, &all_to);
            assert_true(from <= to && from >= first && to <= end);
            skipped += end - first - (to - from);
            common += all_from < all_to ? all_to - all_from : 0;
            for (size_t cell = 0; cell < rows * t.shape.S; cell++) {
                const size_t j = cell % t.shape.S, row = i + cell / t.shape.S;
                const bool seen = visible(&t, b, h, row, j);
                if (j >= first && j < end && seen)
                    assert_true(j >= from && j < to);
                if (j >= all_from && j < all_to)
                    assert_true(seen);
            }
        }
        attn_arena_free(t.arena);
    }
    assert_true(skipped > 0 && common > 0);
}

/* Documents that stand in order are skipped but for their own tiles; inside one all rows see all
 * keys. */
static void test_documents_are_ranges(void **state) {
    enum { S = 1024, EACH = 256 };
    int64_t ids[S];
    const size_t dims[] = {S};
    attn_arena *arena = attn_arena_new(LIMIT);
    const attn_mask_shape shape = {.H = 1, .L = S, .S = S};
    attn_mask_spec spec = {.count = 1, .layers = {{.kind = ATTN_LAYER_DOCUMENTS}}};
    attn_mask *mask;
    attn_error err;
    (void)state;
    for (size_t j = 0; j < S; j++)
        ids[j] = -(int64_t)(j / EACH);
    spec.layers[0].values = attn_tensor_dense(ids, ATTN_I64, 1, dims);
    assert_int_equal(attn_mask_new(&spec, &shape, arena, &mask, &err), ATTN_OK);
    for (size_t i = 0; i < S; i += 64) {
        size_t from = 0, to = S, all_from, all_to;
        attn_mask_narrow(mask, 0, 0, i, 64, &from, &to);
        attn_mask_common(mask, 0, 0, i, 64, &all_from, &all_to);
        assert_true(from == i / EACH * EACH && to == from + EACH);
        assert_true(all_from == from && all_to == to);
    }
    attn_arena_free(arena);
}

/* Positions that ascend are skipped as indices are: sinks in front, a cache whose first keys were
 * dropped, and a window. */
static void test_positions_are_ranges(void **state) {
    enum { S = 1024, L = 512, SINKS = 4, DROPPED = 3000 };
    int64_t keys[S], queries[L];
    const size_t dims[] = {S}, rows[] = {L};
    attn_arena *arena = attn_arena_new(LIMIT);
    const attn_mask_shape shape = {.H = 1, .L = L, .S = S};
    attn_mask_spec spec = {.count = 1,
                           .layers = {{.kind = ATTN_LAYER_WINDOW, .window = {63, 0}}},
                           .query_positions = attn_tensor_dense(queries, ATTN_I64, 1, rows),
                           .key_positions = attn_tensor_dense(keys, ATTN_I64, 1, dims)};
    attn_mask *mask;
    attn_error err;
    (void)state;
    for (size_t j = 0; j < S; j++)
        keys[j] = j < SINKS ? ATTN_NO_POSITION : (int64_t)(DROPPED + j);
    for (size_t i = 0; i < L; i++)
        queries[i] = (int64_t)(DROPPED + S - L + i);
    assert_int_equal(attn_mask_new(&spec, &shape, arena, &mask, &err), ATTN_OK);
    for (size_t i = 0; i < L; i += 64) {
        size_t from = 256, to = S, all_from, all_to, sinks = 0, end = 256;
        attn_mask_narrow(mask, 0, 0, i, 64, &from, &to);
        attn_mask_narrow(mask, 0, 0, i, 64, &sinks, &end);
        attn_mask_common(mask, 0, 0, i, 1, &all_from, &all_to);
        assert_true(from == S - L + i - 63 && to == S - L + i + 64);
        assert_true(sinks == 0 && end == SINKS);
        assert_true(all_from == from && all_to == from + 64);
    }
    attn_arena_free(arena);
}

/* Heads with small windows do not pay for a head that sees all keys before it. */
static void test_heads_skip_apart(void **state) {
    enum { N = 2048, H = 4 };
    const attn_head_keys heads[H] = {
        {.window = {-1, 0}}, {.window = {63, 0}}, {.window = {63, 0}}, {.window = {63, 0}}};
    const size_t dims[] = {1, H, N, 8};
    float *data = calloc(H * N * 8, sizeof *data);
    attn_inputs in = attn_attention_defaults();
    attn_attention_dims d;
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_mask *mask;
    attn_error err = {0};
    double cells[2];
    (void)state;
    assert_non_null(data);
    in.query = attn_tensor_dense(data, ATTN_F32, 4, dims);
    in.mask.count = 1;
    for (size_t k = 0; k < 2; k++) {
        in.mask.layers[0] = (attn_mask_layer){.kind = ATTN_LAYER_WINDOW,
                                              .window = {-1, 0},
                                              .by_head = k ? heads : NULL,
                                              .head_count = k ? H : 0};
        assert_int_equal(attn_attention_shape(&in, &d, &err), ATTN_OK);
        assert_int_equal(attn_attention_mask_new(&in.mask, &d, arena, &mask, &err), ATTN_OK);
        cells[k] = attn_attention_visited(&d, mask).cells;
    }
    assert_true(cells[1] > cells[0] / H && cells[1] < cells[0] / H + 3.0 * N * 256);
    free(data);
    attn_arena_free(arena);
}

static void assert_refused(const attn_mask_spec *spec, attn_status status, const char *where) {
    const attn_mask_shape shape = {.batch_rank = 1, .batch = {1}, .H = 1, .L = 2, .S = 4};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_mask *mask;
    attn_error err = {0};
    assert_int_equal(attn_mask_new(spec, &shape, arena, &mask, &err), status);
    assert_string_equal(err.where, where);
    attn_arena_free(arena);
}

static void test_refusals(void **state) {
    int64_t circle[] = {-1, 2, 3, 1}, itself[] = {-1, 1, 1, 1}, far[] = {-1, 4, 0, 0},
            list[] = {0, 4, -1, -2};
    double half[] = {0, 1, 1.5, 2};
    const size_t keys[] = {4}, lists[] = {2, 2};
    attn_mask_spec spec = {.count = 1, .layers = {{.kind = ATTN_LAYER_TREE, .where = "parents"}}};
    attn_mask_layer *l = spec.layers;
    (void)state;
    l->values = attn_tensor_dense(circle, ATTN_I64, 1, keys);
    assert_refused(&spec, ATTN_EVALUE, "parents/1");
    l->values.data = itself;
    assert_refused(&spec, ATTN_EVALUE, "parents/1");
    l->values.data = far;
    assert_refused(&spec, ATTN_EVALUE, "parents/1");
    *l = (attn_mask_layer){.kind = ATTN_LAYER_TOP_K, .where = "top"};
    l->values = attn_tensor_dense(list, ATTN_I64, 2, lists);
    assert_refused(&spec, ATTN_EVALUE, "top/0/1");
    *l = (attn_mask_layer){.kind = ATTN_LAYER_DOCUMENTS, .where = "documents"};
    l->values = attn_tensor_dense(half, ATTN_F64, 1, keys);
    assert_refused(&spec, ATTN_EVALUE, "documents/2");
    l->values = attn_tensor_dense(circle, ATTN_I64, 1, lists);
    assert_refused(&spec, ATTN_ESHAPE, "documents");
    *l = (attn_mask_layer){.kind = ATTN_LAYER_ANY_OF, .where = "any_of"};
    assert_refused(&spec, ATTN_EARG, "any_of"); /* no parts */
    l->parts = 1;
    assert_refused(&spec, ATTN_EARG, "any_of"); /* no layer after it */
    l->parts = SIZE_MAX;
    assert_refused(&spec, ATTN_EARG, "any_of");
    const attn_head_keys heads[2] = {{.window = {1, 1}}, {.window = {1, -2}}};
    *l = (attn_mask_layer){
        .kind = ATTN_LAYER_WINDOW, .where = "window", .by_head = heads, .head_count = 2};
    assert_refused(&spec, ATTN_ESHAPE, "window"); /* one head */
    *l = (attn_mask_layer){
        .kind = ATTN_LAYER_WINDOW, .where = "window", .by_head = heads + 1, .head_count = 1};
    assert_refused(&spec, ATTN_EARG, "window/0");
    l->by_head = heads;
    spec.key_positions = attn_tensor_dense(list, ATTN_I64, 1, lists);
    assert_refused(&spec, ATTN_ESHAPE, "key_positions");
    spec.key_positions = attn_tensor_dense(half, ATTN_F64, 1, keys);
    assert_refused(&spec, ATTN_EDTYPE, "key_positions");
    list[3] = INT64_MAX;
    spec.key_positions = attn_tensor_dense(list, ATTN_I64, 1, keys);
    assert_refused(&spec, ATTN_EVALUE, "key_positions/3");
    spec.key_positions.rank = 0;
    *l = (attn_mask_layer){.kind = ATTN_LAYER_NOT, .where = "not", .parts = 1};
    l[1] = (attn_mask_layer){.kind = ATTN_LAYER_BIAS, .where = "bias"};
    l[1].values = attn_tensor_dense(half, ATTN_F64, 1, keys);
    spec.count = 2;
    assert_refused(&spec, ATTN_EARG, "bias");
    l->parts = 2;
    spec.count = 3;
    l[1] = l[2] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL};
    assert_refused(&spec, ATTN_EARG, "not");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_documents_are_ranges),
        cmocka_unit_test(test_positions_are_ranges),
        cmocka_unit_test(test_heads_skip_apart),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
