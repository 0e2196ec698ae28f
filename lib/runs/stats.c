/* Statistics of rows for runs whose files have none, because other programs wrote them. Statistics
 * are computed on first use, in blocks of rows: the operation of a block alone gives the same bits
 * as the whole operation on the same kernel table. (The table "ref" is an exception: its sums
 * depend on the number of rows, within its accuracy.) If a block sees a number that is not finite,
 * its rows are computed one by one, so that only rows that see this number are refused. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "runs/private.h"

enum {
    BLOCK = 64, /* rows of a block */
    /* Number of blocks that are computed together if many rows are needed. Keys are then packed
     * once for four blocks. The bits are those of single blocks. */
    TOGETHER = 4,
};
/* Values of `known`. AHEAD: a thread is computing the block together with an earlier one. */
enum { UNKNOWN, KNOWN, AHEAD };

typedef struct lazy_stats {
    attn_run_site *site;
    size_t blocks;          /* number of blocks of each head */
    _Atomic uint8_t *known; /* [B, Hq, blocks] the state of each block */
    _Atomic uint8_t *alone; /* [B, Hq, L] KNOWN for rows computed alone because their block fails */
    pthread_mutex_t lock;   /* held while statistics are written */
} lazy_stats;

/* Copies the statistics of consecutive blocks, or of one row, to site->stats. Leaves out blocks
 * that another thread has stored already. `known` has the state of each block, or of the row. */
static void store_stats(lazy_stats *z, const attn_range *rows, const attn_stats *from,
                        _Atomic uint8_t *known) {
    const attn_stats *to = &z->site->stats;
    const size_t at = attn_row_index(z->site->op, rows->batch, rows->head, rows->row);
    pthread_mutex_lock(&z->lock);
    for (size_t i = 0; i < rows->rows; i += BLOCK, known++) {
        const size_t n = rows->rows - i < BLOCK ? rows->rows - i : BLOCK;
        if (atomic_load(known) == KNOWN)
            continue;
        memcpy(to->max + at + i, from->max + i, n * sizeof *to->max);
        memcpy(to->sum + at + i, from->sum + i, n * sizeof *to->sum);
        memcpy(to->kind + at + i, from->kind + i, n);
        atomic_store(known, KNOWN);
    }
    pthread_mutex_unlock(&z->lock);
}

/* Computes and stores the statistics of some rows. Each call has an arena of its own, because
 * several threads may call this function at a time. */
static attn_status compute_rows(lazy_stats *z, const attn_range *rows, _Atomic uint8_t *known,
                                attn_error *err) {
    attn_arena *arena = attn_arena_new(SIZE_MAX / 2);
    attn_inputs in;
    attn_attention *op;
    attn_results out;
    ATTN_TAKEN(arena, "the statistics of rows", err);
    attn_status status = attn_run_rows_inputs(z->site, rows, NULL, 0, arena, &in, err);
    if (!status)
        status = attn_attention_new(&in, arena, &op, err);
    if (!status)
        status = attn_attention_run(op, ATTN_WANT_LOGSUMEXP, ATTN_STAGE_PROBS, NULL, NULL, arena,
                                    &out, err);
    if (!status)
        store_stats(z, rows, &out.stats, known);
    attn_arena_free(arena);
    return status;
}

/* Fails with the error `from` of the operation of one row. This operation has one sequence and one
 * head, so the place of the error is changed to the place in the site. */
static attn_status refuse_row(const lazy_stats *z, const attn_range *row, const attn_error *from,
                              attn_error *err) {
    const attn_attention_dims *d = z->site->dims;
    /* the text goes on with advice on requests, which is cut off */
    const int length = (int)strcspn(from->text, ";");
    char where[sizeof from->where];
    size_t i, e;
    snprintf(where, sizeof where, "%s", from->where);
    if (from->code != ATTN_ENONFINITE)
        return attn_fail(err, from->code, where, "%s", from->text);
    if (sscanf(where, "query/0/0/%zu/%zu", &i, &e) == 2)
        snprintf(where, sizeof where, "query/%zu/%zu/%zu/%zu", row->batch, row->head, row->row, e);
    else if (sscanf(where, "key/0/0/%zu/%zu", &i, &e) == 2)
        snprintf(where, sizeof where, "key/%zu/%zu/%zu/%zu", row->batch,
                 row->head / (d->Hq / d->Hkv), i, e);
    attn_fail(err, from->code, where, "row %zu: %.*s; rows that do not see it are answered",
              row->row, length, from->text);
    attn_run_at_site(z->site, err);
    return from->code;
}

/* Computes, one by one, the wanted rows `rows` that are in the block that begins at row `first`. */
static attn_status compute_alone(lazy_stats *z, const attn_range *rows, size_t first,
                                 attn_error *err) {
    const attn_attention_dims *d = z->site->dims;
    const size_t end = rows->row + rows->rows, stop = end < first + BLOCK ? end : first + BLOCK;
    for (size_t i = rows->row > first ? rows->row : first; i < stop; i++) {
        const attn_range row = {.batch = rows->batch, .head = rows->head, .row = i, .rows = 1};
        _Atomic uint8_t *known = &z->alone[(rows->batch * d->Hq + rows->head) * d->L + i];
        attn_error inner = {0};
        if (atomic_load(known) != KNOWN && compute_rows(z, &row, known, &inner))
            return refuse_row(z, &row, &inner, err);
    }
    return ATTN_OK;
}

/* Marks the unknown blocks that follow block known[0] as AHEAD, so that no other thread takes them.
 * Returns the number of blocks to compute, the first one included, at most `most`. */
static size_t take_ahead(_Atomic uint8_t *known, size_t most) {
    size_t n = 1;
    for (; n < most; n++) {
        uint8_t unknown = UNKNOWN;
        if (!atomic_compare_exchange_strong(&known[n], &unknown, AHEAD))
            break;
    }
    return n;
}

/* Computes block b of a head and, if `ahead`, the unknown blocks that follow it. An error is that
 * of block b; errors of the other blocks are ignored. */
static attn_status compute_blocks(lazy_stats *z, const attn_range *rows, size_t b, bool ahead,
                                  attn_error *err) {
    const size_t L = z->site->dims->L, row = b * BLOCK, left = z->blocks - b;
    _Atomic uint8_t *known =
        &z->known[(rows->batch * z->site->dims->Hq + rows->head) * z->blocks + b];
    if (atomic_load(known) == KNOWN)
        return ATTN_OK;
    const size_t n = ahead ? take_ahead(known, left < TOGETHER ? left : TOGETHER) : 1;
    const size_t most = n * BLOCK;
    const attn_range all = {.batch = rows->batch,
                            .head = rows->head,
                            .row = row,
                            .rows = L - row < most ? L - row : most};
    attn_status status = compute_rows(z, &all, known, err);
    for (size_t i = 1; i < n && status; i++) {
        uint8_t mine = AHEAD;
        atomic_compare_exchange_strong(&known[i], &mine, UNKNOWN);
    }
    return status && n > 1 ? compute_blocks(z, rows, b, false, err) : status;
}

static attn_status need_rows(void *ctx, const attn_range *rows, attn_error *err) {
    lazy_stats *z = ctx;
    const bool many = rows->rows >= BLOCK / 2;
    attn_status status = ATTN_OK;
    if (rows->rows == 0)
        return ATTN_OK;
    for (size_t b = rows->row / BLOCK; b <= (rows->row + rows->rows - 1) / BLOCK && !status; b++) {
        status = compute_blocks(z, rows, b, many, err);
        if (status == ATTN_ENONFINITE)
            status = compute_alone(z, rows, b * BLOCK, err);
    }
    return status;
}

attn_status attn_run_stats_new(attn_run_site *site, attn_error *err) {
    const attn_attention_dims *d = site->dims;
    attn_arena *arena = site->run->arena;
    lazy_stats *z = attn_arena_zeroed(arena, 1, sizeof *z);
    size_t heads, rows, known;
    ATTN_TAKEN(z && attn_size_mul(d->B, d->Hq, &heads) && attn_size_mul(heads, d->L, &rows),
               "the statistics of rows", err);
    z->site = site;
    z->blocks = (d->L + BLOCK - 1) / BLOCK;
    pthread_mutex_init(&z->lock, NULL);
    known = heads * z->blocks;
    z->known = attn_arena_zeroed(arena, known + 1, sizeof *z->known);
    z->alone = attn_arena_zeroed(arena, rows + 1, sizeof *z->alone);
    site->stats = (attn_stats){.max = attn_arena_zeroed(arena, rows + 1, sizeof(double)),
                               .sum = attn_arena_zeroed(arena, rows + 1, sizeof(double)),
                               .kind = attn_arena_zeroed(arena, rows + 1, 1),
                               .need = need_rows,
                               .ctx = z};
    return z->known && z->alone && site->stats.max && site->stats.sum && site->stats.kind
               ? ATTN_OK
               : attn_no_memory(err, "the statistics of rows");
}
