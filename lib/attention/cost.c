/* What a run costs, from shapes alone: the same sums as forward.c and pack.c allocate. */
#include "attention/forward.h"

/* bytes += a * b * c, checked. */
static bool add_product(size_t *bytes, size_t a, size_t b, size_t c) {
    size_t n;
    return attn_size_mul(a, b, &n) && attn_size_mul(n, c, &n) && attn_size_add(*bytes, n, bytes) &&
           attn_size_add(*bytes, ATTN_ALIGN, bytes);
}

static bool result_bytes(const attn_attention_dims *d, unsigned want, size_t *bytes) {
    const size_t elem = attn_dtype_size(d->result), rows = d->B * d->Hq * d->L;
    const size_t keys = d->B * d->Hkv * d->S;
    *bytes = 0;
    return add_product(bytes, rows, 2 * sizeof(double) + 1, 1) &&
           (!(want & ATTN_WANT_OUTPUT) || add_product(bytes, rows, d->Ev, elem)) &&
           (!(want & ATTN_WANT_WEIGHTS) || add_product(bytes, rows, d->S, elem)) &&
           (!(want & ATTN_WANT_WEIGHTS_DROPPED) || add_product(bytes, rows, d->S, elem)) &&
           (!(want & ATTN_WANT_SCORES) || add_product(bytes, rows, d->S, elem)) &&
           (!(want & ATTN_WANT_LOGSUMEXP) || add_product(bytes, rows, 1, elem)) &&
           (!(want & ATTN_WANT_PRESENT) ||
            (add_product(bytes, keys, d->Ek, elem) && add_product(bytes, keys, d->Ev, elem)));
}

/* The operation itself, its offsets by batch entry, its sinks. */
static size_t operation_bytes(const attn_attention_dims *d) {
    enum { OFFSETS = 16 };
    return sizeof(attn_attention) + ATTN_MASK_BYTES + d->B * OFFSETS * sizeof(ptrdiff_t) +
           d->Hq * sizeof(double);
}

static bool work_bytes(const attn_attention_dims *d, unsigned want, size_t slots, size_t *bytes) {
    const attn_kernels *k = attn_kernels_with(d->isa, d->precision, d->tanh_score);
    const size_t rows = d->L < k->rows ? d->L : k->rows, E = d->score_width,
                 widest = E > d->Ev ? E : d->Ev;
    const size_t runs = d->L <= ATTN_FEW_QUERIES ? attn_group(d) : attn_forward_abreast(d, k, want);
    const unsigned fills = ATTN_WANT_WEIGHTS | ATTN_WANT_SCORES | ATTN_WANT_WEIGHTS_DROPPED;
    const size_t filled = (size_t)__builtin_popcount(want & fills);
    const size_t kept = want & ATTN_WANT_WEIGHTS ? attn_block_kept_bytes(k, rows, d) : 0;
    const size_t head = attn_forward_head_bytes(d, k, want);
    size_t table, reference, prepared, parts;
    *bytes = 0;
    return attn_forward_parts_bytes(d, k, &parts) && attn_pack_bytes(d, k, d->B, bytes) &&
           attn_transform_bytes(d, k, &prepared) && attn_size_add(*bytes, prepared, bytes) &&
           attn_size_add(*bytes, parts, bytes) &&
           attn_block_work_bytes(k, rows ? rows : 1, d, &table) &&
           attn_block_work_bytes(attn_kernels_of(ATTN_ISA_REF), 1, d, &reference) &&
           add_product(bytes, slots, runs + filled, table) &&
           add_product(bytes, slots, 1 + filled, reference) &&
           add_product(bytes, slots, runs, sizeof(attn_block_run) + sizeof(attn_stream)) &&
           add_product(bytes, slots, k->keys * widest, k->elem) &&
           add_product(bytes, slots, runs, kept) && add_product(bytes, slots, head, 1) &&
           add_product(bytes, d->positions, sizeof(double), 1) &&
           add_product(bytes, slots, 4096, 1) && add_product(bytes, 1, operation_bytes(d), 1);
}

attn_status attn_attention_cost(const attn_attention_dims *dims, unsigned want, size_t slots,
                                attn_cost *out, attn_error *err) {
    attn_status status = attn_forward_check(want, ATTN_STAGE_RAW, err);
    if (status != ATTN_OK)
        return status;
    attn_cost c = {.cells = (double)dims->B * (double)dims->Hq * (double)dims->L * (double)dims->S};
    c.operations = c.cells * 2 * ((double)dims->score_width + (double)dims->Ev);
    if (!result_bytes(dims, want, &c.result_bytes) || !work_bytes(dims, want, slots, &c.work_bytes))
        return attn_fail(err, ATTN_ELIMIT, "query", "more bytes than can be counted");
    *out = c;
    return ATTN_OK;
}
