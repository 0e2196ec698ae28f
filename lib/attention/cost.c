/* The cost of an operation, from its shapes alone, and the cells that its forward pass visits. */
#include "attention/encodings.h"
#include "attention/forward.h"
#include "attention/mix_weights.h"
#include "base/try.h"

/* Largest number of arrays that attn_attention_new takes from the arena. Each of them is aligned to
 * ATTN_ALIGN. */
enum { OPERATION_PIECES = 16 };

/* Counts an upper bound of the memory that attn_attention_new takes, except for the tensors of
 * masks: the operation and its mask, OFFSETS arrays with an element for each batch entry, numbers
 * for rows, the normaliser's bias, tables of positions, and transformed queries and keys. */
static bool count_operation(const attn_attention_dims *d, const attn_kernels *k, attn_area *area) {
    enum { OFFSETS = 16 };
    size_t transformed = 0;
    attn_area_take(area, 1, sizeof(attn_attention) + ATTN_MASK_BYTES);
    attn_area_take(area, d->B, OFFSETS * sizeof(ptrdiff_t));
    attn_area_take(area, d->by_row, sizeof(double));
    attn_area_take(area, d->normalizer_bias ? d->Hq : 0, sizeof(double));
    attn_area_take(area, d->positions, sizeof(double));
    if (d->encoded) {
        attn_area_take(area, d->encoded, attn_dtype_size(d->result));
        attn_area_take(area, 9 * sizeof(double), d->Hq * (d->E + d->Ek + d->Ev)); /* scratch */
    }
    attn_area_take(area, 1, OPERATION_PIECES * ATTN_ALIGN);
    if ((d->transforms && !attn_score_rows_bytes(d, k, &transformed)) ||
        (d->factors && !attn_mix_values_bytes(d, &transformed)))
        return false;
    attn_area_take(area, 1, transformed);
    return true;
}

double attn_attention_cell_operations(const attn_attention_dims *d) {
    /* A tanh score also has an addition and a tanh for each element of the product. */
    const double score = (d->tanh_score ? 4 : 2) * (double)d->score_width + d->softcap;
    const double query_vectors = d->relative_queries ? 2 * (double)d->score_width : 0;
    return score + query_vectors + 2 * (double)d->value_width;
}

/* Returns the operations that mix outputs, plus those of wanted mixed weights, whose cells are
 * computed again for each output head. */
static double mix_operations(const attn_attention_dims *d, unsigned want) {
    const double rows = d->factors ? (double)d->B * (double)d->L * (double)d->factors : 0;
    const double matrices = (double)((want & ATTN_WANT_WEIGHTS) != 0) +
                            (double)((want & ATTN_WANT_WEIGHTS_DROPPED) != 0);
    return rows * (2 * (double)d->Ev + matrices * (double)d->S * (2 + 2 * (double)d->score_width));
}

attn_status attn_attention_cost(const attn_attention_dims *d, unsigned want, size_t slots,
                                attn_cost *out, attn_error *err) {
    attn_plan plan;
    attn_forward_bytes bytes;
    attn_area operation = {0};
    attn_cost c = {.cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S};
    ATTN_TRY(attn_plan_check(want, ATTN_STAGE_RAW, err));
    attn_plan_make(d, want, slots, &plan);
    if (!attn_forward_count(&plan, &bytes) || !count_operation(d, plan.kernels, &operation) ||
        operation.overflow || !attn_size_add(bytes.work, operation.used, &c.work_bytes))
        return attn_fail(err, ATTN_ELIMIT, "query", "more bytes than can be counted");
    const double queries = (double)d->B * (double)d->Hq * (double)d->L;
    const double keys = (double)d->B * (double)d->Hkv * (double)d->S;
    c.operations = c.cells * attn_attention_cell_operations(d) + attn_vector_operations(d) +
                   2 * (queries * (double)d->query_map + keys * (double)d->key_map) +
                   ATTN_ENCODING_OPERATIONS * (double)d->encoded +
                   (d->mixed ? 2 * queries * (double)d->Hq * (double)d->E : 0) +
                   mix_operations(d, want);
    c.operation_bytes = operation.used;
    c.result_bytes = bytes.results;
    c.fallback_bytes = bytes.fallback;
    *out = c;
    return ATTN_OK;
}

/* Counts the cells that the passes (attn_stream) of all blocks of batch entry b visit. */
static attn_visits stream_visits(const attn_attention *a, const attn_plan *p, size_t b) {
    const attn_attention_dims *d = &a->dims;
    attn_visits visits = {0, 0};
    const bool apart = !attn_mask_same_heads(a->mask) && attn_mask_narrows(a->mask);
    const size_t heads = apart || !d->Hq ? d->Hq : 1;
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0, rows; i < d->L; i += rows) {
            rows = attn_plan_block(p, a->mask, b, i);
            const attn_block block = {b, h, i, rows};
            size_t edited;
            const size_t keys = attn_block_keys(a, &block, p->kernels, &edited);
            visits.cells += (double)rows * (double)keys;
            visits.edited += (double)rows * (double)edited;
        }
    const double times = heads ? (double)d->Hq / (double)heads : 0;
    return (attn_visits){times * visits.cells, times * visits.edited};
}

attn_visits attn_attention_visited(const attn_attention_dims *dims, const attn_mask *mask) {
    attn_mask read = dims->stride ? attn_mask_near(mask, dims->near) : *mask;
    attn_attention a = {.dims = *dims, .mask = &read};
    attn_plan plan;
    attn_visits all = {0, 0};
    attn_plan_make(dims, ATTN_WANT_OUTPUT, 1, &plan);
    const size_t entries = attn_mask_same_batches(mask) && dims->B > 1 ? 1 : dims->B;
    const double times = entries ? (double)dims->B / (double)entries : 0;
    for (size_t b = 0; b < entries; b++) {
        const attn_visits near = stream_visits(&a, &plan, b);
        const double strided = dims->stride ? attn_forward_strided_cells(&a, &plan, b) : 0;
        all.cells += times * (near.cells + strided);
        all.edited += times * (near.edited + strided);
    }
    return all;
}
