/* The memory of the backward pass: takes its arrays from an area, which counts or places them
 * (base/area.h). */
#include "attention/backward.h"

#include <string.h>

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void place_lane(attn_area *area, const attn_backward_plan *p, attn_backward_lane *l) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const size_t E = d->score_width, Ev = d->value_width, elem = k->elem, tile = k->rows * k->keys;
    const size_t key_values = larger(attn_value_room(k, E), attn_value_room(p->scores, E)) * elem;
    const size_t value_keys = attn_key_room(p->scores, Ev) * elem;
    *l = (attn_backward_lane){.key_bytes = attn_align_up(key_values)};
    l->tile_bytes = l->key_bytes + attn_align_up(value_keys);
    attn_block_work_place(area, &l->work, p->scores, k->rows, d);
    l->out = attn_area_take(area, k->rows * elem, Ev);
    l->weights = attn_area_take(area, tile, elem);
    l->dropped = attn_area_take(area, tile, elem);
    l->grad = attn_area_take(area, tile, elem);
    l->capped = attn_area_take(area, tile, elem);
    l->raw = d->scales ? attn_area_take(area, tile, elem) : NULL;
    l->source = attn_area_take(area, k->keys * elem, larger(E, Ev));
    l->ones = attn_area_take(area, k->rows, elem);
    l->keep = attn_area_take(area, k->keys, 1);
    l->terms = attn_area_take(area, d->relative, sizeof(double));
    if (d->tanh_score)
        l->dkey_tanh = attn_area_take(area, k->keys * elem, E);
    if (p->by_heads) {
        l->head = attn_packed_place(area, d, p->scores, 1);
        l->kept = attn_area_take(area, k->rows * elem, d->S);
    }
    l->tiles = attn_area_take(area, p->by_heads ? p->tiles : 1, l->tile_bytes);
    if (!area->base)
        return;
    l->key_values = l->tiles;
    l->value_keys = l->tiles + l->key_bytes;
    attn_elements_fill(l->ones, elem, 1, k->rows);
    if (p->by_heads)
        l->head->one_head = true;
}

/* Takes memory for the packed rows of `blocks` blocks from an area. */
static attn_backward_rows place_rows(attn_area *area, const attn_backward_plan *p, size_t width,
                                     size_t blocks) {
    const attn_kernels *k = p->kernels, *scores = p->scores;
    attn_backward_rows rows = {
        .value_bytes = k->rows * attn_acc_room(k, width) * k->elem,
        .query_bytes = scores->pack_query ? attn_query_room(scores, k->rows, width) * k->elem : 0,
    };
    rows.values = attn_area_take(area, blocks, rows.value_bytes);
    rows.queries = attn_area_take(area, blocks, rows.query_bytes);
    return rows;
}

/* Takes memory for one piece's sums for the gradient of a table of vectors by distance. `tables` is
 * the number of such tables: 0, 1, or one for each head. */
static double *place_vectors(attn_area *area, const attn_attention_dims *d, size_t tables,
                             size_t width) {
    return tables ? attn_area_take_3(area, tables > 1 ? attn_group(d) : 1, d->relative, width,
                                     sizeof(double))
                  : NULL;
}

/* Takes memory for the sums of one piece. */
static void place_sums(attn_area *area, const attn_attention_dims *d, attn_backward_sums *s) {
    *s = (attn_backward_sums){0};
    if (d->entries)
        s->entries = attn_area_take(area, attn_group(d) * sizeof(double), d->entries);
    if (d->normalizer_bias)
        s->normalizer = attn_area_take(area, attn_group(d), sizeof(double));
    if (d->tanh_score)
        s->v = attn_area_take(area, d->score_width, sizeof(double));
    s->keys = place_vectors(area, d, d->relative_keys, d->score_width);
    s->queries = place_vectors(area, d, d->relative_queries, d->score_width);
    s->values = place_vectors(area, d, d->relative_values, d->Ev);
}

/* Takes all arrays of *g from an area, and zeroes those that must start at 0. */
static void place_pass(attn_area *area, const attn_backward_plan *p, attn_backward *g) {
    const attn_attention_dims *d = p->dims;
    const attn_kernels *k = p->kernels;
    const size_t E = d->score_width, heads = d->B * d->Hq, rows = heads * d->L;
    const size_t pieces = d->B * d->Hkv * p->chunks;
    size_t keys = 0, blocks = 0;
    if (!attn_size_mul(d->B * d->Hkv, d->S, &keys) ||
        !attn_size_mul(p->lane_homes ? p->slots * attn_group(d) : heads, p->blocks, &blocks))
        area->overflow = true;
    g->dot = attn_area_take(area, rows, sizeof(double));
    g->scales = d->scales ? attn_area_take(area, p->chunks * rows, sizeof(double)) : NULL;
    g->out_magnitude = attn_area_take(area, blocks, sizeof(double));
    g->dquery = attn_area_take(area, p->chunks * rows * k->elem, attn_acc_room(k, E));
    g->dkey = attn_area_take(area, keys * k->elem, attn_acc_room(k, E));
    g->dvalue = attn_area_take(area, keys * k->elem, attn_acc_room(k, d->value_width));
    g->queries = place_rows(area, p, E, blocks);
    g->outs = place_rows(area, p, d->value_width, blocks);
    g->lanes = attn_area_take(area, p->slots, sizeof *g->lanes);
    g->sums = attn_area_take(area, pieces, sizeof *g->sums);
    for (size_t s = 0; s < p->slots; s++) {
        attn_backward_lane lane;
        place_lane(area, p, &lane);
        if (area->base)
            g->lanes[s] = lane;
    }
    const size_t first = area->used;
    for (size_t n = 0; n < pieces; n++) {
        attn_backward_sums sums;
        place_sums(area, d, &sums);
        if (area->base)
            g->sums[n] = sums;
    }
    if (!area->base)
        return;
    memset(area->base + first, 0, area->used - first);
    memset(g->dot, 0, rows * sizeof *g->dot);
    if (g->scales)
        memset(g->scales, 0, p->chunks * rows * sizeof *g->scales);
}

bool attn_backward_allocate(attn_backward *g, attn_arena *arena) {
    attn_area counted = {0}, area;
    place_pass(&counted, &g->plan, g);
    if (!attn_area_open(&area, &counted, arena))
        return false;
    place_pass(&area, &g->plan, g);
    for (size_t s = 0; s < g->plan.slots && !(g->a->in.dropout_p > 0); s++)
        g->lanes[s].dropped = g->lanes[s].weights;
    return true;
}

/* --- cost --- */

/* Counts an upper bound of the memory that backward_results.c takes beside the results: angles of
 * rotations, operands and gradients of score maps, sums for bias tensors, and arrays with an
 * element for each batch entry. */
static void count_conversion(attn_area *area, const attn_backward_plan *p, size_t bias_elements) {
    const attn_attention_dims *d = p->dims;
    const size_t rows = d->B * d->Hq * d->L, keys = d->B * d->Hkv * d->S, elem = p->kernels->elem;
    if (d->transforms)
        attn_area_take(area, 2 * d->score_width + 1, 2 * sizeof(double));
    if (d->query_map || d->key_map) {
        attn_area_take(area, rows, 2 * d->E * elem);
        attn_area_take(area, keys, 2 * d->Ek * elem);
        attn_area_take(area, d->query_map + d->key_map, 2 * elem);
    }
    if (d->mixed) {
        attn_area_take(area, rows, 2 * d->E * elem);
        attn_area_take(area, keys, d->E * elem);
        attn_area_take(area, d->mixed, sizeof(double));
    }
    if (d->factors) {
        attn_area_take_3(area, rows, d->value_width, 1, attn_dtype_size(d->result));
        attn_area_take_3(area, d->B * d->Hv, d->S, d->Ev, elem);
        attn_area_take(area, d->factors, sizeof(double));
    }
    attn_area_take(area, bias_elements, sizeof(double));
    attn_area_take(area, d->by_row, sizeof(double));
    if (d->grad_logsumexp)
        attn_area_take(area, rows, sizeof(double));
    if (d->encoded)
        attn_area_take(area, d->positions, sizeof(double));
    attn_area_take(area, d->B, (ATTN_MASK_LAYERS + 8) * sizeof(ptrdiff_t));
    attn_area_take(area, ATTN_MASK_LAYERS + 8, ATTN_ALIGN);
}

/* Counts an upper bound of the memory of the gradients themselves. */
static void count_results(attn_area *area, const attn_attention_dims *d, size_t bias_elements) {
    const size_t elem = attn_dtype_size(d->result);
    const size_t counts[][2] = {{d->B * d->Hq * d->L, d->E},
                                {d->B * d->Hkv * d->S, d->Ek},
                                {d->B * d->Hv * d->S, d->Ev},
                                {bias_elements, 1},
                                {d->positions, 1},
                                {d->normalizer_bias, 1},
                                {d->mixed, 1},
                                {d->factors, 1},
                                {d->query_map + d->key_map, 1},
                                {2 * d->score_width, 1},
                                {d->by_row, 1}};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t row;
        if (!attn_size_mul(counts[c][1], elem, &row))
            area->overflow = true;
        else
            attn_area_take(area, counts[c][0], row);
    }
}

/* Returns whether the run before the backward pass leaves its packed keys and values. */
static bool finds_packed(const attn_attention_dims *d, unsigned want, size_t slots) {
    attn_plan run;
    attn_plan_make(d, want, slots, &run);
    return want && (run.main == ATTN_STEP_BLOCKS || run.main == ATTN_STEP_NORMALIZED);
}

/* Counts the memory of one attempt at the backward pass: packed keys and values unless they are
 * `packed` already, the pass itself, and the conversion of its sums to results. */
static void count_attempt(attn_area *area, const attn_backward_plan *p, bool packed,
                          size_t bias_elements) {
    attn_backward g;
    if (!p->by_heads && !packed)
        attn_pack_count(area, p->dims,
                        attn_kernels_with(p->dims->isa, p->dims->precision, p->dims->tanh_score),
                        p->slots);
    place_pass(area, p, &g);
    count_conversion(area, p, bias_elements);
}

attn_status attn_gradients_cost(const attn_attention_dims *d, unsigned want, size_t bias_elements,
                                size_t slots, attn_cost *out, attn_error *err) {
    const size_t rows = d->B * d->Hq * d->L;
    const bool packed = finds_packed(d, want, slots);
    attn_area work = {0}, separate = {0}, reference = {0}, results = {0};
    attn_backward_plan plan;
    attn_cost c = {.cells = (double)rows * (double)d->S};
    attn_backward_plan_make(d, NULL, want, bias_elements > 0, slots, &plan);
    count_attempt(&work, &plan, packed, bias_elements);
    attn_backward_plan_make(d, NULL, 0, bias_elements > 0, slots, &plan);
    count_attempt(&separate, &plan, packed, bias_elements);
    attn_backward_plan_make(d, &attn_kernels_ref, 0, bias_elements > 0, slots, &plan);
    count_attempt(&reference, &plan, packed, bias_elements);
    attn_area_take(&reference, rows, 2 * sizeof(double)); /* the arrays of read_statistics */
    count_results(&results, d, bias_elements);
    if (work.overflow || separate.overflow || reference.overflow || results.overflow)
        return attn_fail(err, ATTN_ELIMIT, "grad_output", "more bytes than can be counted");
    const size_t most = larger(work.used, larger(separate.used, reference.used));
    c.operations = c.cells * 2 * (3 * (double)d->score_width + 2 * (double)d->value_width) +
                   3 * attn_vector_operations(d) +
                   (d->relative_queries ? c.cells * 6 * (double)d->score_width : 0);
    c.work_bytes = work.used;
    c.result_bytes = results.used;
    c.fallback_bytes = most - work.used;
    *out = c;
    return ATTN_OK;
}
