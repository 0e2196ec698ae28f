/* Transforms queries and keys: by the maps of the score form (score_forms.h), and by the rotations
 * of rotary positions (positions.c). The scores are products of transformed rows.
 *
 * Each row is transformed alone and in a fixed order of operations, so a score still depends only
 * on its query and key. The transformed rows are in the arena, as elements of the kernel table's
 * type. */
#include <stdint.h>
#include <string.h>

#include "attention/mix.h"
#include "attention/operands.h"
#include "base/try.h"

/* The queries, or the keys, to transform: [sets, heads, rows, width_in] -> [sets, heads, rows,
 * width]. */
typedef struct side {
    const attn_view *past, *view; /* the first past_rows rows are in `past` */
    size_t past_rows, heads, rows, width_in;
    size_t sets;             /* batch entries, or 1 if all of them share the rows */
    const attn_tensor *map;  /* [width, width_in]; rank 0: the identity */
    const attn_tensor *bias; /* [width]; rank 0: none */
    bool query;
} side;

typedef struct preparer {
    attn_attention *a;
    attn_arena *arena;
    const attn_kernels *k; /* the table of plain products, which computes the maps */
    size_t width;          /* width of a transformed row: the score width before heads are mixed */
} preparer;

static void widen(const attn_kernels *k, void *to, const attn_tensor *t, size_t row, size_t n) {
    const ptrdiff_t last = t->strides[t->rank - 1];
    const char *from = (const char *)t->data + (ptrdiff_t)row * (t->rank > 1 ? t->strides[0] : 0) *
                                                   (ptrdiff_t)attn_dtype_size(t->dtype);
    attn_elements_widen(to, k->elem, from, t->dtype, last, n);
}

/* Packs the rows of the map as if they were keys. Then the kernel `score` maps rows: the "score" of
 * a row and row c of the map is element c of the mapped row. *tile_bytes is the size of a packed
 * tile. NULL: out of memory. */
static char *pack_map(const preparer *p, const side *s, size_t *tile_bytes) {
    const attn_kernels *k = p->k;
    const size_t tiles = attn_key_tiles(k, p->width);
    *tile_bytes = attn_key_room(k, s->width_in) * k->elem;
    char *packed = attn_arena_array(p->arena, tiles, *tile_bytes);
    char *rows = attn_arena_array(p->arena, k->keys * k->elem, s->width_in);
    if (!packed || !rows)
        return NULL;
    for (size_t t = 0; t < tiles; t++) {
        const size_t first = t * k->keys;
        const size_t n = p->width - first < k->keys ? p->width - first : k->keys;
        for (size_t r = 0; r < n; r++)
            widen(k, rows + r * s->width_in * k->elem, s->map, first + r, s->width_in);
        k->pack_key(packed + t * *tile_bytes, rows, s->width_in, n, s->width_in);
    }
    return packed;
}

/* The map and scratch memory for transform_rows. */
typedef struct mapper {
    char *packed; /* the map, packed by pack_map; NULL: the identity */
    char *rows;   /* [k->rows, width_in]: rows after conversion */
    char *tile;   /* [k->rows, k->keys]: results of the kernel `score` */
    char *bias;   /* [width]; NULL: none */
    size_t tile_bytes;
} mapper;

static bool mapper_init(const preparer *p, const side *s, mapper *m) {
    const attn_kernels *k = p->k;
    m->rows = attn_arena_array(p->arena, k->rows * k->elem, s->width_in);
    m->tile = attn_arena_take(p->arena, k->rows * k->keys * k->elem);
    m->bias = s->bias->rank ? attn_arena_array(p->arena, k->elem, p->width) : NULL;
    m->packed = s->map->rank ? pack_map(p, s, &m->tile_bytes) : NULL;
    if (m->bias)
        widen(k, m->bias, s->bias, 0, p->width);
    return m->rows && m->tile && (m->bias || !s->bias->rank) && (m->packed || !s->map->rank);
}

/* Maps rows first … first + n - 1 of head (b, h), n <= k->rows, and adds the bias. `to` is
 * [n, width]. */
static void transform_rows(const preparer *p, const side *s, const mapper *m, size_t b, size_t h,
                           size_t first, size_t n, char *to) {
    const attn_kernels *k = p->k;
    size_t ld;
    const char *rows = attn_view_rows(s->past, s->past_rows, s->view, b, h, first, n, s->width_in,
                                      k->elem, m->rows, &ld);
    for (size_t r = 0; r < n && !m->packed; r++)
        memcpy(to + r * p->width * k->elem, rows + r * ld * k->elem, p->width * k->elem);
    for (size_t c = 0; m->packed && c < p->width; c += k->keys) {
        const size_t cols = p->width - c < k->keys ? p->width - c : k->keys;
        k->score(m->tile, rows, ld, n, m->packed + c / k->keys * m->tile_bytes, cols, s->width_in,
                 1);
        for (size_t r = 0; r < n; r++)
            memcpy(to + (r * p->width + c) * k->elem, m->tile + r * k->keys * k->elem,
                   cols * k->elem);
    }
    for (size_t r = 0; m->bias && r < n; r++)
        attn_elements_add(to + r * p->width * k->elem, m->bias, k->elem, p->width);
}

/* Rotates rows first … rows - 1 of all heads of batch entry b by their positions; a row without a
 * position stays as it is. A cache may already hold rotated rows: then `first` is the number of
 * cached rows. `angles` is scratch of 2 * width doubles. */
static void rotate_rows(const preparer *p, const side *s, size_t first, size_t b, double *angles,
                        char *batch) {
    const attn_rotary_rule *rule = &p->a->rule.rotary;
    const size_t row_bytes = p->width * p->k->elem;
    for (size_t i = first; i < s->rows; i++) {
        double at[ATTN_ROTARY_AXES];
        if (!attn_rotary_row(p->a, s->query, b, i, at))
            continue;
        attn_rotary_angles(rule, at, angles, angles + p->width);
        for (size_t h = 0; h < s->heads; h++)
            attn_rotary_rotate(rule, batch + (h * s->rows + i) * row_bytes, p->k->elem, angles,
                               angles + p->width);
    }
}

static bool transform_side(const preparer *p, const side *s, attn_view *out) {
    const attn_kernels *k = p->k;
    const bool rotary = p->a->in.position.kind == ATTN_POSITION_ROTARY;
    size_t head_bytes, batch_bytes;
    mapper m = {0};
    if (!attn_size_mul(s->rows, p->width * k->elem, &head_bytes) ||
        !attn_size_mul(s->heads, head_bytes, &batch_bytes))
        return false;
    char *to = attn_arena_array(p->arena, s->sets, batch_bytes);
    double *angles = attn_arena_array(p->arena, p->width, 2 * sizeof *angles);
    ptrdiff_t *offsets = attn_arena_zeroed(p->arena, p->a->dims.B, sizeof *offsets);
    if (!to || !angles || !offsets || !mapper_init(p, s, &m))
        return false;
    for (size_t b = 0; b < s->sets; b++) {
        char *batch = to + b * batch_bytes;
        for (size_t h = 0; h < s->heads; h++)
            for (size_t i = 0; i < s->rows; i += k->rows)
                transform_rows(p, s, &m, b, h, i, s->rows - i < k->rows ? s->rows - i : k->rows,
                               batch + h * head_bytes + i * p->width * k->elem);
        if (rotary)
            rotate_rows(p, s, attn_rotated_from(p->a, s->past_rows), b, angles, batch);
    }
    for (size_t b = 0; b < p->a->dims.B; b++)
        offsets[b] = s->sets == 1 ? 0 : (ptrdiff_t)(b * s->heads * s->rows * p->width);
    *out = (attn_view){.data = to,
                       .dtype = attn_element_dtype(k->elem),
                       .batch = offsets,
                       .head = (ptrdiff_t)(s->rows * p->width),
                       .row = (ptrdiff_t)p->width,
                       .col = 1};
    return true;
}

/* Makes a->score_v and a->score_v_wide from the score plan's v, if it has one. */
static bool read_weight(preparer *p) {
    const attn_tensor *v = &p->a->plan.v;
    if (!v->rank)
        return true;
    void *copy = attn_arena_array(p->arena, p->width, p->k->elem);
    double *wide = attn_arena_array(p->arena, p->width, sizeof *wide);
    if (!copy || !wide)
        return false;
    widen(p->k, copy, v, 0, p->width);
    attn_widen_f64(wide, v->data, v->dtype, v->strides[0], p->width);
    p->a->score_v = copy;
    p->a->score_v_wide = wide;
    return true;
}

attn_status attn_score_rows_new(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const attn_score_plan *plan = &a->plan;
    const attn_tensor none = {.rank = 0};
    preparer p = {a, arena, attn_kernels_plain(a->kernels), plan->width};
    side q = {.view = &a->query,
              .heads = d->Hq,
              .rows = d->L,
              .width_in = d->E,
              .sets = d->B,
              .map = &plan->query_map,
              .bias = &plan->query_bias,
              .query = true};
    side k = {.past = &a->past_key,
              .view = &a->key,
              .past_rows = d->past,
              .heads = d->Hkv,
              .rows = d->S,
              .width_in = d->Ek,
              .sets = d->sets,
              .map = &plan->key_map,
              .bias = &none};
    const bool rotary = a->in.position.kind == ATTN_POSITION_ROTARY;
    bool ok = read_weight(&p);
    if (ok && (rotary || plan->query_map.rank))
        ok = transform_side(&p, &q, &a->score_query);
    if (ok && (rotary || plan->key_map.rank)) {
        ok = transform_side(&p, &k, &a->score_key);
        a->score_past = 0;
    }
    a->turned_query = a->score_query;
    a->turned_key = a->score_key;
    a->turned_past = a->score_past;
    ATTN_TAKEN(ok, "transformed queries and keys", err);
    return d->mixed ? attn_mix_rows(a, arena, err) : ATTN_OK;
}

bool attn_score_rows_bytes(const attn_attention_dims *d, const attn_kernels *k, size_t *bytes) {
    const size_t widest = d->E > d->Ek ? d->E : d->Ek;
    const size_t tiles = attn_key_tiles(k, d->score_width);
    size_t queries, keys, n;
    k = attn_kernels_plain(k);
    if (!attn_size_mul(d->B * d->Hq, d->L, &queries) ||
        !attn_size_mul(d->B * d->Hkv, d->S, &keys) || !attn_size_add(queries, keys, &n) ||
        !attn_size_mul(n, d->score_width * k->elem, &n) ||
        !attn_size_add(n, 2 * (k->rows + k->keys) * widest * k->elem, &n) ||
        !attn_size_add(n, 2 * tiles * attn_key_room(k, widest) * k->elem, &n) ||
        !attn_size_add(n, 2 * k->rows * k->keys * k->elem + 8 * sizeof(double) * d->score_width,
                       &n) ||
        !attn_size_add(n, 16 * d->B + 16 * ATTN_ALIGN, &n) || !attn_mix_bytes(d, &n))
        return false;
    *bytes = n;
    return true;
}
