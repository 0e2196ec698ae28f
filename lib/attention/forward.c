/* The run: keys and values are packed, blocks of query rows go over the pool. */
#include "attention/forward.h"
#include "attention/cells.h"

static attn_status run_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    attn_forward *f = ctx;
    const size_t head = index / f->pieces_a_head, Hq = f->a->dims.Hq;
    const size_t first = index % f->pieces_a_head * f->blocks_a_piece;
    const size_t left = f->row_blocks - first;
    const size_t count = left < f->blocks_a_piece ? left : f->blocks_a_piece;
    return attn_forward_blocks(f, head / Hq, head % Hq, first, first + count, f->packed,
                               &f->lanes[lane], err);
}

attn_status attn_forward_check(unsigned want, attn_stage stage, attn_error *err) {
    const unsigned known = ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP |
                           ATTN_WANT_SCORES | ATTN_WANT_PRESENT | ATTN_WANT_WEIGHTS_DROPPED |
                           ATTN_WANT_CELLS;
    if (want & ~known)
        return attn_fail(err, ATTN_EARG, "want", "the bits 0x%x want nothing", want & ~known);
    if (want & ATTN_WANT_SCORES && (unsigned)stage > ATTN_STAGE_PROBS)
        return attn_fail(err, ATTN_EARG, "stage", "there is no stage of the number %d", (int)stage);
    return ATTN_OK;
}

/* --- results --- */

static bool allocate_tensor(attn_arena *arena, attn_dtype dtype, int rank, const size_t *dims,
                            attn_tensor *out) {
    size_t count;
    attn_tensor t = attn_tensor_dense(NULL, dtype, rank, dims);
    if (!attn_tensor_count(&t, &count) || !attn_size_mul(count, attn_dtype_size(dtype), &count))
        return false;
    t.data = attn_arena_take(arena, count);
    *out = t;
    return t.data != NULL;
}

static attn_status allocate_results(const attn_attention *a, unsigned want, attn_arena *arena,
                                    attn_results *out, attn_error *err) {
    const attn_attention_dims *d = &a->dims;
    const size_t rows = d->B * d->Hq * d->L;
    *out = (attn_results){.hidden_rows = 0};
    double *stats = attn_arena_zeroed(arena, rows, 2 * sizeof(double) + 1);
    bool ok = stats != NULL;
    if (ok)
        out->stats = (attn_stats){stats, stats + rows, (uint8_t *)(stats + 2 * rows)};
    if (want & ATTN_WANT_OUTPUT)
        ok = ok && allocate_tensor(arena, d->result, d->output_rank, d->output, &out->output);
    if (want & ATTN_WANT_WEIGHTS)
        ok = ok && allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->weights);
    if (want & ATTN_WANT_WEIGHTS_DROPPED)
        ok = ok &&
             allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->weights_dropped);
    if (want & ATTN_WANT_LOGSUMEXP)
        ok = ok && allocate_tensor(arena, d->result, d->rows_rank, d->rows, &out->logsumexp);
    if (want & ATTN_WANT_SCORES)
        ok = ok && allocate_tensor(arena, d->result, d->weights_rank, d->weights, &out->scores);
    return ok ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "", "no memory left for the results");
}

/* Without packed keys the group's heads share the first one's packed tile. */
static void place_runs(const attn_attention *a, size_t rows, size_t kept, char *area,
                       attn_block_run *runs, size_t count) {
    for (size_t g = 0; g < count; g++) {
        attn_block_work *w = &runs[g].work;
        area += attn_block_work_place(w, a->kernels, rows, &a->dims, area);
        w->packed_key = runs->work.packed_key;
        w->packed_value = runs->work.packed_value;
        runs[g].maxima = w->maxima;
        runs[g].kept = kept ? area : NULL;
        area += kept;
    }
}

/* What is large is taken from the system in one piece, as each has its cost. */
static bool lane_init(const attn_forward *f, attn_forward_lane *l, size_t runs, attn_arena *arena) {
    const attn_attention *a = f->a;
    const attn_attention_dims *d = &a->dims;
    const attn_kernels *k = a->kernels, *ref = attn_kernels_of(ATTN_ISA_REF);
    const size_t rows = d->L < k->rows ? d->L : k->rows;
    const size_t kept =
        attn_forward_keeps(f) && f->parts == 1 ? attn_block_kept_bytes(k, rows, d) : 0;
    size_t table, careful, bytes;
    l->runs = attn_arena_zeroed(arena, runs, sizeof *l->runs + sizeof *l->streams);
    if (!l->runs || !attn_block_work_bytes(k, rows, d, &table) ||
        !attn_block_work_bytes(ref, 1, d, &careful) || !attn_size_mul(runs, table + kept, &bytes) ||
        !attn_size_add(bytes, careful, &bytes) || !attn_arena_reserve(arena, bytes + f->head_bytes))
        return false;
    char *area = attn_arena_take(arena, bytes);
    if (!area || (f->head_bytes && !(l->head = attn_pack_head_new(a, arena))))
        return false;
    l->streams = (attn_stream *)(l->runs + runs);
    l->careful = area;
    place_runs(a, rows, kept, area + careful, l->runs, runs);
    return true;
}

static attn_status allocate_lanes(attn_forward *f, size_t slots, attn_arena *arena,
                                  attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t runs = d->L <= ATTN_FEW_QUERIES ? attn_group(d) : f->abreast;
    f->lanes = attn_arena_zeroed(arena, slots, sizeof *f->lanes);
    for (size_t s = 0; s < slots; s++)
        if (!f->lanes || !lane_init(f, &f->lanes[s], runs, arena))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
    return ATTN_OK;
}

/* Of a piece whose blocks go abreast, at most: 20 to 60 ms of float arithmetic. */
#define ABREAST_OPERATIONS (50 * ATTN_PIECE_OPERATIONS)

/* Which blocks of rows are one piece's work, and how many of them go abreast. */
static void plan_pieces(attn_forward *f, size_t slots) {
    const attn_attention_dims *d = &f->a->dims;
    const size_t rows = f->a->kernels->rows;
    const double block = attn_forward_operations(d, (double)rows) + 1;
    f->row_blocks = (d->L + rows - 1) / rows;
    f->abreast = attn_forward_abreast(d, f->a->kernels, f->want);
    while (f->abreast > 1 && ((double)f->abreast * block > ABREAST_OPERATIONS ||
                              d->B * d->Hq * f->row_blocks < 2 * f->abreast * slots))
        f->abreast /= 2; /* pieces stay short, and every slot has work */
    f->part = f->abreast > 1 ? attn_forward_part(f->a) : d->S;
    f->blocks_a_piece = block < ATTN_PIECE_OPERATIONS ? (size_t)(ATTN_PIECE_OPERATIONS / block) : 1;
    if (f->blocks_a_piece < f->abreast)
        f->blocks_a_piece = f->abreast;
    if (f->blocks_a_piece > f->row_blocks)
        f->blocks_a_piece = f->row_blocks ? f->row_blocks : 1;
    f->pieces_a_head = (f->row_blocks + f->blocks_a_piece - 1) / f->blocks_a_piece;
}

attn_status attn_forward_open(attn_forward *f, const attn_attention *a, unsigned want, size_t slots,
                              const attn_control *control, attn_arena *arena, attn_results *out,
                              attn_error *err) {
    *f = (attn_forward){.a = a,
                        .want = want,
                        .control = control,
                        .out = out,
                        .elem = attn_dtype_size(a->dims.result),
                        .head_bytes = a->sets == a->dims.B
                                          ? attn_forward_head_bytes(&a->dims, a->kernels, want)
                                          : 0,
                        .parts = attn_forward_parts(&a->dims)};
    attn_status status = allocate_results(a, want, arena, out, err);
    if (status != ATTN_OK)
        return status;
    plan_pieces(f, slots);
    return allocate_lanes(f, slots, arena, err);
}

static attn_status run_rows(attn_forward *f, attn_pool *pool, attn_arena *arena, attn_error *err) {
    const attn_attention_dims *d = &f->a->dims;
    f->pool = pool;
    if (f->packed)
        return attn_pool_run(pool, d->B * d->Hq * f->pieces_a_head, run_piece, f, f->control, err);
    if (f->head_bytes)
        return attn_forward_heads(f, pool, err);
    return attn_forward_groups(f, pool, arena, err);
}

/* The run over packed keys and values. */
static attn_status run_packed(attn_attention *a, attn_forward *f, attn_pool *pool,
                              attn_arena *arena, attn_error *err) {
    attn_packed *packed;
    attn_status status = attn_pack(a, pool, f->control, arena, &packed, err);
    if (status != ATTN_OK)
        return status;
    a->packed = f->packed = packed;
    f->hidden_rows = 0;
    return run_rows(f, pool, arena, err);
}

attn_status attn_forward_finish(attn_forward *f, attn_stage stage, attn_pool *pool,
                                attn_arena *arena, attn_error *err) {
    const attn_attention *a = f->a;
    const attn_control *control = f->control;
    attn_results *out = f->out;
    attn_status status = ATTN_OK;
    out->hidden_rows = f->hidden_rows;
    if (f->want & ATTN_WANT_SCORES)
        status =
            attn_cells_fill(a, &out->stats, stage, false, pool, control, arena, &out->scores, err);
    if (status == ATTN_OK && (f->want & ATTN_WANT_WEIGHTS))
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, attn_forward_keeps(f), pool,
                                 control, arena, &out->weights, err);
    if (status == ATTN_OK && (f->want & ATTN_WANT_WEIGHTS_DROPPED)) {
        status = attn_cells_fill(a, &out->stats, ATTN_STAGE_PROBS, false, pool, control, arena,
                                 &out->weights_dropped, err);
        if (status == ATTN_OK)
            attn_drop_weights(a, &out->weights_dropped);
    }
    if (status == ATTN_OK && (f->want & ATTN_WANT_PRESENT))
        status = attn_present(a, arena, out, err);
    return status;
}

attn_status attn_attention_run(attn_attention *a, unsigned want, attn_stage stage, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_results *out,
                               attn_error *err) {
    attn_results results;
    attn_forward f;
    attn_status status = attn_forward_check(want, stage, err);
    if (status != ATTN_OK)
        return status;
    a->packed = NULL; /* its arena may be gone */
    status = attn_forward_open(&f, a, want, attn_pool_slots(pool), control, arena, &results, err);
    const bool pieces_pack = f.head_bytes || a->dims.L <= ATTN_FEW_QUERIES;
    if (status == ATTN_OK && pieces_pack)
        status = run_rows(&f, pool, arena, err);
    if (status == ATTN_OK && (!pieces_pack || f.not_finite))
        status = run_packed(a, &f, pool, arena, err);
    if (status == ATTN_OK)
        status = attn_forward_finish(&f, stage, pool, arena, err);
    if (status != ATTN_OK || !(want & ATTN_WANT_CELLS))
        a->packed = NULL;
    if (status == ATTN_OK)
        *out = results;
    return status;
}
