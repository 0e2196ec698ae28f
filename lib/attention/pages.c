/* Gathers the keys and values of a page cache, and adds their gradients up to those of the cache. */
#include <attn/pages.h>

#include <attn/text.h>
#include <stdio.h>
#include <string.h>

#include "base/element.h"
#include "base/try.h"

/* Rows of a batch entry that a piece gathers. */
enum { ROWS_A_PIECE = 64 };

/* --- checks --- */

static attn_status check_integers(const attn_tensor *t, const char *name, attn_error *err) {
    return t->dtype == ATTN_I32 || t->dtype == ATTN_I64
               ? ATTN_OK
               : attn_fail(err, ATTN_EDTYPE, name, "expected integers, found %s",
                           attn_dtype_name(t->dtype));
}

static attn_status check_pool(const attn_tensor *pool, const attn_pages *p, const char *name,
                              attn_error *err) {
    return pool->rank == 4
               ? ATTN_OK
               : attn_fail(err, ATTN_ESHAPE, name,
                           "block_table needs a pool of blocks [num_blocks, %s, E], found %s",
                           p->layout == ATTN_HND ? "Hkv, block_size" : "block_size, Hkv",
                           attn_rank_text(pool));
}

static attn_status check_pools(const attn_inputs *in, const attn_pages *p, attn_error *err) {
    const size_t *key = in->key.dims, *value = in->value.dims;
    char have[128];
    ATTN_TRY(check_pool(&in->key, p, "key", err));
    if (!in->value.rank)
        return ATTN_OK;
    ATTN_TRY(check_pool(&in->value, p, "value", err));
    if (memcmp(key, value, 3 * sizeof *key) == 0)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "value",
                     "expected blocks like those of key, [%zu, %zu, %zu, Ev], found %s", key[0],
                     key[1], key[2], attn_found_text(&in->value, have, sizeof have));
}

static attn_status check_table(const attn_inputs *in, const attn_pages *p, attn_error *err) {
    const size_t B = in->query.dims[0];
    char have[128];
    if (p->table.rank != 2 || p->table.dims[0] != B)
        return attn_fail(err, ATTN_ESHAPE, "block_table",
                         "expected [%zu, max_blocks], a row for each batch entry, found %s", B,
                         attn_found_text(&p->table, have, sizeof have));
    ATTN_TRY(check_integers(&p->table, "block_table", err));
    if (p->lengths.rank != 1 || p->lengths.dims[0] != B)
        return attn_fail(err, ATTN_ESHAPE, "key_lengths",
                         "expected [%zu], the number of keys of each batch entry, found %s", B,
                         attn_found_text(&p->lengths, have, sizeof have));
    return check_integers(&p->lengths, "key_lengths", err);
}

static attn_status check_inputs(const attn_inputs *in, const attn_pages *p, attn_error *err) {
    if (in->layout == ATTN_BLD)
        return attn_fail(err, ATTN_EARG, "layout",
                         "block_table goes with the layouts BHLE and BLHE: the blocks have an axis "
                         "of heads");
    if (in->past_key.rank)
        return attn_fail(err, ATTN_EARG, "past_key",
                         "block_table goes without past_key: the blocks hold all keys");
    if (in->query.rank != 4)
        return attn_fail(err, ATTN_ESHAPE, "query",
                         "block_table needs a query with the axes of batch and heads, found %s",
                         attn_rank_text(&in->query));
    ATTN_TRY(check_pools(in, p, err));
    return check_table(in, p, err);
}

/* Checks the length of batch entry b and the pages that hold its keys, and returns the length in
 * *length. */
static attn_status check_entry(const attn_tensor *keys, const attn_pages *p, size_t b,
                               size_t *length, attn_error *err) {
    const size_t pages = keys->dims[0], T = keys->dims[1], N = p->table.dims[1];
    const double found = attn_tensor_number(&p->lengths, b, 0);
    char path[96];
    size_t most;
    if (!attn_size_mul(N, T, &most))
        return attn_fail(err, ATTN_ELIMIT, "block_table", "more keys than can be counted");
    if (!(found >= 0 && found <= (double)most)) {
        snprintf(path, sizeof path, "key_lengths/%zu", b);
        return attn_fail(err, ATTN_EVALUE, path,
                         "expected 0 to %zu keys, which %zu blocks of %zu hold, found %.0f", most,
                         N, T, found);
    }
    *length = (size_t)found;
    for (size_t n = 0; n * T < *length; n++) {
        const double page = attn_tensor_number(&p->table, b, n);
        if (page >= 0 && page < (double)pages)
            continue;
        snprintf(path, sizeof path, "block_table/%zu/%zu", b, n);
        return attn_fail(err, ATTN_EVALUE, path,
                         "expected one of the %zu blocks, because the entry has %zu keys in blocks "
                         "of %zu, found %.0f",
                         pages, *length, T, page);
    }
    return ATTN_OK;
}

/* --- shapes --- */

/* Returns the pool as [pages, T, Hkv, E]. */
static attn_tensor by_rows(const attn_tensor *pool, const attn_pages *p) {
    attn_tensor t = *pool;
    for (int axis = 1; p->layout == ATTN_HND && axis < 3; axis++) {
        t.dims[axis] = pool->dims[3 - axis];
        t.strides[axis] = pool->strides[3 - axis];
    }
    return t;
}

/* Returns a tensor [B, Hkv, S, E] of the layout without data, for a pool [pages, T, Hkv, E]. */
static attn_tensor gathered(const attn_tensor *pool, attn_layout layout, size_t B, size_t S) {
    const bool heads_first = layout == ATTN_BHLE;
    const size_t H = pool->dims[2];
    return attn_tensor_dense(
        NULL, pool->dtype, 4,
        (size_t[]){B, heads_first ? H : S, heads_first ? S : H, pool->dims[3]});
}

/* Adds the size of a tensor to *bytes. Returns false if it overflows. */
static bool add_bytes(const attn_tensor *t, size_t *bytes) {
    size_t n;
    return !t->rank ||
           (attn_tensor_count(t, &n) && attn_size_mul(n, attn_dtype_size(t->dtype), &n) &&
            attn_size_add(*bytes, n, bytes));
}

attn_status attn_pages_shape(const attn_inputs *in, const attn_pages *p, attn_inputs *out,
                             size_t *bytes, attn_error *err) {
    attn_inputs shaped = *in;
    size_t S = 0, all = 0;
    ATTN_TRY(check_inputs(in, p, err));
    const attn_tensor keys = by_rows(&in->key, p), values = by_rows(&in->value, p);
    const size_t B = in->query.dims[0];
    for (size_t b = 0; b < B; b++) {
        size_t length = 0;
        ATTN_TRY(check_entry(&keys, p, b, &length, err));
        S = length > S ? length : S;
    }
    shaped.key = gathered(&keys, in->layout, B, S);
    if (in->value.rank)
        shaped.value = gathered(&values, in->layout, B, S);
    if (!add_bytes(&shaped.key, &all) || !add_bytes(&shaped.value, &all))
        return attn_fail(err, ATTN_ELIMIT, "block_table", "more bytes than can be counted");
    if (bytes)
        *bytes = all;
    *out = shaped;
    return ATTN_OK;
}

const char *attn_pages_words(const attn_inputs *in, const attn_pages *p, attn_arena *arena) {
    const size_t B = in->query.dims[0], T = by_rows(&in->key, p).dims[1];
    attn_text t = {.arena = arena};
    size_t blocks = 0;
    for (size_t b = 0; b < B; b++)
        blocks += ((size_t)attn_tensor_number(&p->lengths, b, 0) + T - 1) / (T ? T : 1);
    attn_text_add(&t, "%zu block%s of %zu keys, gathered for %zu batch entr%s", blocks,
                  attn_plural(blocks), T, B, B == 1 ? "y" : "ies");
    return t.failed ? NULL : t.data;
}

/* --- gathering --- */

typedef struct gathering {
    attn_tensor pools[2]; /* the pools of keys and of values, [pages, T, Hkv, E]; rank 0: none */
    const attn_tensor *gathered[2];
    const attn_pages *pages;
    attn_layout layout;
    size_t pieces_an_entry;
} gathering;

/* Returns the page of key j of batch entry b. */
static size_t page_of(const gathering *g, size_t b, size_t j) {
    return (size_t)attn_tensor_number(&g->pages->table, b, j / g->pools[0].dims[1]);
}

/* Copies row `row` of a page to row j of batch entry b, for all heads. */
static void copy_row(const attn_tensor *pool, size_t page, size_t row, const attn_tensor *to,
                     attn_layout layout, size_t b, size_t j) {
    const size_t size = attn_dtype_size(pool->dtype), E = pool->dims[3];
    const int head = layout == ATTN_BHLE ? 1 : 2, key = 3 - head;
    for (size_t h = 0; h < pool->dims[2]; h++) {
        const ptrdiff_t source = (ptrdiff_t)page * pool->strides[0] +
                                 (ptrdiff_t)row * pool->strides[1] +
                                 (ptrdiff_t)h * pool->strides[2];
        const ptrdiff_t target = (ptrdiff_t)b * to->strides[0] + (ptrdiff_t)h * to->strides[head] +
                                 (ptrdiff_t)j * to->strides[key];
        const char *from = (const char *)pool->data + source * (ptrdiff_t)size;
        char *at = (char *)to->data + target * (ptrdiff_t)size;
        if (pool->strides[3] == 1)
            memcpy(at, from, E * size);
        else
            for (size_t e = 0; e < E; e++)
                memcpy(at + e * size, from + (ptrdiff_t)(e * size) * pool->strides[3], size);
    }
}

static attn_status gather_rows(void *work, size_t index, size_t lane, attn_error *err) {
    const gathering *g = work;
    const size_t T = g->pools[0].dims[1], b = index / g->pieces_an_entry;
    const size_t first = index % g->pieces_an_entry * ROWS_A_PIECE;
    const size_t length = (size_t)attn_tensor_number(&g->pages->lengths, b, 0);
    (void)lane;
    (void)err;
    for (size_t j = first; j < first + ROWS_A_PIECE && j < length; j++)
        for (size_t i = 0; i < 2; i++)
            if (g->pools[i].rank)
                copy_row(&g->pools[i], page_of(g, b, j), j % T, g->gathered[i], g->layout, b, j);
    return ATTN_OK;
}

/* Takes zeroed memory for a tensor that has a shape. */
static attn_status take(attn_tensor *t, const char *what, attn_arena *arena, attn_error *err) {
    size_t n = 0;
    if (!t->rank)
        return ATTN_OK;
    t->data = attn_tensor_count(t, &n)
                  ? attn_arena_zeroed(arena, n ? n : 1, attn_dtype_size(t->dtype))
                  : NULL;
    ATTN_TAKEN(t->data, what, err);
    return ATTN_OK;
}

attn_status attn_pages_gather(const attn_inputs *in, const attn_pages *pages, attn_pool *pool,
                              const attn_control *control, attn_arena *arena, attn_inputs *out,
                              attn_error *err) {
    attn_inputs shaped;
    ATTN_TRY(attn_pages_shape(in, pages, &shaped, NULL, err));
    ATTN_TRY(take(&shaped.key, "gathered keys", arena, err));
    ATTN_TRY(take(&shaped.value, "gathered values", arena, err));
    gathering g = {.pools = {by_rows(&in->key, pages), by_rows(&in->value, pages)},
                   .gathered = {&shaped.key, &shaped.value},
                   .pages = pages,
                   .layout = in->layout};
    const size_t S = shaped.key.dims[in->layout == ATTN_BHLE ? 2 : 1];
    g.pieces_an_entry = (S + ROWS_A_PIECE - 1) / ROWS_A_PIECE;
    ATTN_TRY(
        attn_pool_run(pool, in->query.dims[0] * g.pieces_an_entry, gather_rows, &g, control, err));
    *out = shaped;
    return ATTN_OK;
}

/* --- gradients --- */

/* Adds the gradients of the keys, or values, of a head to the rows of the pool that they come
 * from. */
static attn_status add_head(void *work, size_t index, size_t lane, attn_error *err) {
    const gathering *g = work;
    const attn_tensor *pool = &g->pools[index % 2], *from = g->gathered[index % 2];
    const size_t h = index / 2, B = g->pages->lengths.dims[0];
    const int head = g->layout == ATTN_BHLE ? 1 : 2, key = 3 - head;
    (void)lane;
    (void)err;
    for (size_t b = 0; pool->rank && b < B; b++) {
        const size_t length = (size_t)attn_tensor_number(&g->pages->lengths, b, 0);
        for (size_t j = 0; j < length; j++) {
            const size_t elem = attn_dtype_size(from->dtype), T = pool->dims[1];
            const ptrdiff_t to = (ptrdiff_t)page_of(g, b, j) * pool->strides[0] +
                                 (ptrdiff_t)(j % T) * pool->strides[1] +
                                 (ptrdiff_t)h * pool->strides[2];
            const ptrdiff_t at = (ptrdiff_t)b * from->strides[0] +
                                 (ptrdiff_t)h * from->strides[head] +
                                 (ptrdiff_t)j * from->strides[key];
            attn_elements_add((char *)pool->data + to * (ptrdiff_t)elem,
                              (const char *)from->data + at * (ptrdiff_t)elem, elem, pool->dims[3]);
        }
    }
    return ATTN_OK;
}

attn_status attn_pages_backward(const attn_inputs *in, const attn_pages *pages,
                                const attn_gradients *gathered, attn_pool *pool,
                                const attn_control *control, attn_arena *arena, attn_gradients *out,
                                attn_error *err) {
    attn_inputs shaped;
    attn_gradients all = *gathered;
    ATTN_TRY(attn_pages_shape(in, pages, &shaped, NULL, err));
    all.key = attn_tensor_dense(NULL, gathered->key.dtype, 4, in->key.dims);
    all.value = (attn_tensor){0};
    if (gathered->value.rank)
        all.value = attn_tensor_dense(NULL, gathered->value.dtype, 4, in->value.dims);
    ATTN_TRY(take(&all.key, "gradients of the pool of keys", arena, err));
    ATTN_TRY(take(&all.value, "gradients of the pool of values", arena, err));
    gathering g = {.pools = {by_rows(&all.key, pages), by_rows(&all.value, pages)},
                   .gathered = {&gathered->key, &gathered->value},
                   .pages = pages,
                   .layout = in->layout};
    ATTN_TRY(attn_pool_run(pool, 2 * g.pools[0].dims[2], add_head, &g, control, err));
    *out = all;
    return ATTN_OK;
}
