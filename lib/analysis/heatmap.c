/* Heatmaps: the plan is made, memory is taken from the arena, the pool runs pieces of rows, and
 * what they left is merged in the order of the pieces. The result lives in the arena, and so does
 * the scratch, which is why attn_heatmap_cost counts both. */
#include <math.h>
#include <string.h>

#include "analysis/heatmap_private.h"

attn_heatmap_options attn_heatmap_defaults(void) {
    return (attn_heatmap_options){.heads = ATTN_HEADS_ALL, .pool = ATTN_POOL_MAX};
}

attn_status attn_heatmap_shape(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                               size_t S, size_t *maps, size_t shape[2], attn_error *err) {
    attn_heatmap_plan plan;
    attn_status status = attn_analysis_plan(options, B, H, L, S, 1, &plan, err);
    if (status)
        return status;
    *maps = plan.maps;
    shape[0] = plan.shape[0];
    shape[1] = plan.shape[1];
    return ATTN_OK;
}

attn_status attn_heatmap_cost(const attn_heatmap_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err) {
    attn_heatmap_plan plan;
    attn_status status = attn_analysis_plan(options, B, H, L, S, slots, &plan, err);
    if (status)
        return status;
    double cells = (double)plan.maps * (double)plan.merged * (double)plan.rows * (double)S;
    /* a cell: the entropy's product and two sums, the pool's comparison and sum */
    *out = (attn_cost){.cells = cells,
                       .operations = 5 * cells,
                       .work_bytes = plan.work_bytes,
                       .result_bytes = plan.result_bytes};
    return ATTN_OK;
}

static bool take_lanes(attn_heatmap_work *w, size_t slots, attn_arena *arena) {
    const attn_heatmap_plan *p = w->plan;
    w->lanes = attn_arena_zeroed(arena, slots, sizeof *w->lanes);
    for (size_t i = 0; w->lanes && i < slots; i++) {
        char *at = attn_arena_take(arena, p->lane_bytes);
        if (!at)
            return false;
        attn_heatmap_lane *lane = &w->lanes[i];
        size_t keys = p->block * p->S;
        lane->cells = (void *)at;
        lane->rows = (void *)(lane->cells + p->shape[1]);
        lane->sum = (void *)(lane->rows + p->block);
        lane->weights = (void *)(lane->sum + (p->merged > 1 ? keys : 0));
        lane->logits = lane->weights + keys;
        lane->visible = (void *)(lane->logits + keys);
    }
    return w->lanes != NULL;
}

static bool take_parts(attn_heatmap_work *w, attn_arena *arena) {
    const attn_heatmap_plan *p = w->plan;
    size_t count = p->maps * p->pieces, C = p->shape[1];
    w->parts = attn_arena_zeroed(arena, count, sizeof *w->parts);
    double *received = attn_arena_zeroed(arena, count * C, sizeof *received);
    w->run_counts = attn_arena_zeroed(arena, p->maps * p->shape[0], sizeof *w->run_counts);
    if (p->edge_room)
        w->edge_counts = attn_arena_zeroed(arena, p->maps * p->rows, sizeof *w->edge_counts);
    if (!w->parts || !received || !w->run_counts || (p->edge_room && !w->edge_counts))
        return false;
    for (size_t i = 0; i < count; i++)
        w->parts[i] =
            (attn_heatmap_part){received + i * C, {INFINITY, -INFINITY}, {INFINITY, -INFINITY}};
    return true;
}

static float *take_floats(attn_arena *arena, size_t maps, size_t each) {
    return attn_arena_zeroed(arena, maps * each, sizeof(float));
}

/* The heatmaps and their arrays. Runs and edges are taken last, to give back what they do not fill.
 */
static bool take_maps(attn_heatmap_work *w, attn_arena *arena) {
    const attn_heatmap_plan *p = w->plan;
    size_t R = p->shape[0], C = p->shape[1];
    bool wants_max = p->options->pool != ATTN_POOL_MEAN;
    bool wants_mean = p->options->pool != ATTN_POOL_MAX;
    w->maps = attn_arena_zeroed(arena, p->maps, sizeof *w->maps);
    float *max = wants_max ? take_floats(arena, p->maps, R * C) : NULL;
    float *mean = wants_mean ? take_floats(arena, p->maps, R * C) : NULL;
    float *entropy = take_floats(arena, p->maps, R);
    float *received = take_floats(arena, p->maps, C);
    if (!w->maps || (wants_max && !max) || (wants_mean && !mean) || !entropy || !received)
        return false;
    for (size_t i = 0; i < p->maps; i++)
        w->maps[i] = (attn_heatmap){
            .batch = attn_analysis_map_batch(p, i),
            .head = attn_analysis_map_head(p, i),
            .shape = {R, C},
            .origin = {p->row0, p->col0},
            .step = {p->step[0], p->step[1]},
            .signed_values = p->options->signed_values,
            .max = max ? max + i * R * C : NULL,
            .mean = mean ? mean + i * R * C : NULL,
            .row_entropy = entropy + i * R,
            .received = received + i * C,
        };
    w->runs = attn_arena_take(arena, p->maps * R * p->run_room * sizeof *w->runs);
    if (w->runs && p->edge_room)
        w->edges = attn_arena_take(arena, p->maps * p->rows * p->edge_room * sizeof *w->edges);
    return w->runs && (!p->edge_room || w->edges);
}

/* A range of nothing is [0, 0]. */
static void finish_range(float out[2], const float found[2], bool signed_values) {
    const bool any = found[0] <= found[1];
    const float low = any ? found[0] : 0, high = any ? found[1] : 0;
    const float most = fmaxf(fabsf(low), fabsf(high));
    out[0] = signed_values ? 0 - most : low; /* never -0 */
    out[1] = signed_values ? most : high;
}

/* Sums and ranges of a heatmap from those of its pieces, in their order. */
static void merge_parts(const attn_heatmap_work *w, size_t map) {
    const attn_heatmap_plan *p = w->plan;
    attn_heatmap *m = &w->maps[map];
    attn_heatmap_part *all = &w->parts[map * p->pieces];
    if (!p->pieces)
        return;
    for (size_t i = 1; i < p->pieces; i++) {
        for (size_t c = 0; c < p->shape[1]; c++)
            all->received[c] += all[i].received[c];
        attn_analysis_widen(all->range, all[i].range[0], all[i].range[1]);
        attn_analysis_widen(all->mean, all[i].mean[0], all[i].mean[1]);
    }
    for (size_t c = 0; c < p->shape[1]; c++)
        m->received[c] = (float)all->received[c];
    finish_range(m->range, all->range, m->signed_values);
    finish_range(m->mean_range, all->mean, m->signed_values);
}

/* Closes the gaps that rows with few runs or edges left, in place: targets never pass their source.
 */
static void close_gaps(attn_heatmap_work *w, attn_arena *arena) {
    const attn_heatmap_plan *p = w->plan;
    size_t runs = 0, edges = 0, R = p->shape[0];
    for (size_t map = 0; map < p->maps; map++) {
        attn_heatmap *m = &w->maps[map];
        m->hidden = w->runs + runs;
        for (size_t i = map * R; i < (map + 1) * R; i++) {
            memmove(w->runs + runs, w->runs + i * p->run_room, w->run_counts[i] * sizeof *w->runs);
            runs += w->run_counts[i];
        }
        m->hidden_count = (size_t)(w->runs + runs - m->hidden);
        if (!p->edge_room)
            continue;
        m->edges = w->edges + edges;
        for (size_t i = map * p->rows; i < (map + 1) * p->rows; i++) {
            memmove(w->edges + edges, w->edges + i * p->edge_room,
                    w->edge_counts[i] * sizeof *w->edges);
            edges += w->edge_counts[i];
        }
        m->edge_count = (size_t)(w->edges + edges - m->edges);
    }
    if (p->edge_room)
        attn_arena_shrink(arena, w->edges, edges * sizeof *w->edges);
    else
        attn_arena_shrink(arena, w->runs, runs * sizeof *w->runs);
}

attn_status attn_heatmap_build(const attn_weight_source *source,
                               const attn_heatmap_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_heatmaps *out,
                               attn_error *err) {
    attn_heatmap_plan plan;
    size_t slots = attn_pool_slots(pool);
    attn_status status = attn_analysis_plan(options, source->batches, source->heads, source->rows,
                                            source->cols, slots, &plan, err);
    if (status)
        return status;
    attn_heatmap_work work = {.plan = &plan, .source = source, .control = control};
    if (!take_lanes(&work, slots, arena) || !take_parts(&work, arena) || !take_maps(&work, arena))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for %zu heatmaps of %zu x %zu cells",
                         plan.maps, plan.shape[0], plan.shape[1]);
    status = attn_pool_run(pool, plan.maps * plan.pieces, attn_analysis_heatmap_piece, &work,
                           control, err);
    if (status)
        return status;
    for (size_t i = 0; i < plan.maps; i++)
        merge_parts(&work, i);
    close_gaps(&work, arena);
    *out = (attn_heatmaps){.items = work.maps, .count = plan.maps};
    return ATTN_OK;
}
