/* The answer of POST /v1/analyses as safetensors: measures, distances and matrices of cells are
 * tensors, and the rest of the answer is JSON beside them. */
#include <string.h>

#include "api/analyses/analyses_call.h"

/* Axes of a tensor with numbers for each head: [B, H, …], or [layers, B, H, …] if the weights have
 * a layer axis. */
enum { AXES_MOST = 5 };
typedef struct axes {
    size_t dims[AXES_MOST];
    int rank;
} axes;

static void add_axis(axes *a, size_t size) {
    a->dims[a->rank++] = size;
}

/* Returns the axes of `batches` batch entries: [layers, entries of a layer] if these are all
 * entries of weights with a layer axis, else [batches]. */
static axes batch_axes(const srv_analysis *an, size_t batches) {
    axes a = {.rank = 0};
    const bool layered = an->layered && an->layers > 0 && batches == an->B;
    if (layered)
        add_axis(&a, an->layers);
    add_axis(&a, layered ? batches / an->layers : batches);
    return a;
}

/* Allocates a tensor of this type for the answer. The data of the tensor is NULL if memory ran
 * out. */
static attn_tensor take_tensor(attn_json_text *j, const axes *a, attn_dtype dtype) {
    size_t count = 1;
    bool ok = true;
    for (int i = 0; i < a->rank && ok; i++)
        ok = attn_size_mul(count, a->dims[i], &count);
    void *data = ok ? attn_arena_zeroed(j->arena, count, attn_dtype_size(dtype)) : NULL;
    j->failed = j->failed || !data;
    return attn_tensor_dense(data, dtype, a->rank, a->dims);
}

static void put_tensor(attn_json_text *j, const char *name, const attn_tensor *t) {
    if (!t->data)
        return;
    srv_json_key_tensor(j, name, t);
}

/* --- heads --- */

/* Writes a measure of each head, or its value under uniform attention. */
static void put_measure(attn_json_text *j, const srv_analysis *an, attn_measure m, bool uniform) {
    axes a = batch_axes(an, an->B);
    add_axis(&a, an->H);
    const attn_tensor t = take_tensor(j, &a, ATTN_F64);
    attn_text name = {.arena = j->arena};
    attn_text_add(&name, "%s.%s", uniform ? "uniform" : "measures", attn_measure_about(m)->name);
    j->failed = j->failed || name.failed;
    if (j->failed)
        return;
    for (size_t i = 0; i < an->measures.count; i++)
        ((double *)t.data)[i] =
            uniform ? an->measures.items[i].uniform[m] : an->measures.items[i].values[m];
    put_tensor(j, name.data, &t);
}

static void put_rows(attn_json_text *j, const srv_analysis *an) {
    axes a = batch_axes(an, an->B);
    add_axis(&a, an->H);
    const attn_tensor t = take_tensor(j, &a, ATTN_I64);
    for (size_t i = 0; t.data && i < an->measures.count; i++)
        ((int64_t *)t.data)[i] = (int64_t)an->measures.items[i].rows;
    put_tensor(j, "num_rows", &t);
}

static void put_blocks(attn_json_text *j, const srv_analysis *an) {
    const size_t G = an->options.segment_count;
    axes a = batch_axes(an, an->B);
    add_axis(&a, an->H);
    add_axis(&a, G);
    add_axis(&a, G);
    const attn_tensor t = take_tensor(j, &a, ATTN_F64);
    for (size_t i = 0; t.data && G && i < an->measures.count; i++)
        memcpy((double *)t.data + i * G * G, an->measures.items[i].blocks, G * G * sizeof(double));
    put_tensor(j, "blocks", &t);
}

void srv_analysis_distances(attn_json_text *j, const srv_analysis *an, const char *const names[3],
                            const attn_head_distances *all) {
    for (int which = 0; which < 3 && an->B > 0; which++) {
        const size_t rows = all->rows, cols = all->cols;
        axes a = batch_axes(an, an->B);
        add_axis(&a, rows);
        add_axis(&a, cols);
        const attn_tensor t = take_tensor(j, &a, ATTN_F64);
        for (size_t b = 0; t.data && rows && cols && b < an->B; b++)
            memcpy((double *)t.data + b * rows * cols,
                   which == 0   ? all[b].js
                   : which == 1 ? all[b].cosine
                                : all[b].centered,
                   rows * cols * sizeof(double));
        put_tensor(j, names[which], &t);
    }
}

void srv_analysis_tensors(attn_json_text *j, const srv_analysis *an) {
    static const char *const pairs[] = {"pairs.js", "pairs.cosine", "pairs.centered_cosine"};
    put_rows(j, an);
    for (attn_measure m = 0; m < ATTN_MEASURES && !j->failed; m++)
        if (srv_analysis_shows(an, m)) {
            put_measure(j, an, m, false);
            if (srv_analysis_has_uniform(m))
                put_measure(j, an, m, true);
        }
    if (srv_analysis_has(an, SRV_AN_BLOCKS))
        put_blocks(j, an);
    if (srv_analysis_has(an, SRV_AN_PAIRS))
        srv_analysis_distances(j, an, pairs, an->pairs);
}

/* --- matrices of cells --- */

/* Describes the cells of a tensor: the heads of its matrices, and the size of a cell in weights. */
static void describe_cells(attn_json_text *j, const srv_analyses_call *call, const char *name,
                           const attn_heatmaps *maps) {
    attn_json_key_object(j, name);
    attn_json_key_array(j, "heads");
    for (size_t i = 0; i < maps->count; i++) {
        const srv_heat_place place = srv_heat_place_of(&maps->items[i], maps->layer_batches);
        srv_answer_object(j, srv_heat_place_rows, &place);
    }
    attn_json_array_end(j);
    if (maps->count > 0) {
        attn_json_key(j, "origin");
        srv_heat_pair(j, maps->items->origin);
        attn_json_key(j, "step");
        srv_heat_pair(j, maps->items->step);
    }
    attn_json_key_string(j, "pool", srv_pools[call->body.heatmap.pool]);
    attn_json_object_end(j);
}

/* Writes a plane of all heatmaps of a view, [.., rows, columns]. */
static void put_plane(attn_json_text *j, const srv_analyses_call *call, srv_view view,
                      const char *name, bool mean) {
    const attn_heatmaps *maps = &call->maps[view];
    const size_t none[2] = {0, 0}, *grid = maps->count ? maps->items->shape : none;
    const size_t batches = call->heat.batch_list      ? call->heat.batch_count
                           : view == SRV_VIEW_ROLLOUT ? call->entries
                                                      : call->first.dims.B;
    axes a = batch_axes(&call->analysis, batches);
    if (view == SRV_VIEW_ROLLOUT)
        a = (axes){.dims = {batches}, .rank = 1};
    else
        add_axis(&a, batches ? maps->count / batches : 0);
    add_axis(&a, grid[0]);
    add_axis(&a, grid[1]);
    const attn_tensor t = take_tensor(j, &a, ATTN_F32);
    const size_t n = grid[0] * grid[1];
    for (size_t i = 0; t.data && n && i < maps->count; i++)
        memcpy((float *)t.data + i * n, mean ? maps->items[i].mean : maps->items[i].max,
               n * sizeof(float));
    put_tensor(j, name, &t);
}

void srv_analyses_cells(attn_json_text *j, const srv_analyses_call *call) {
    static const char *const names[SRV_VIEWS][2] = {{"heatmap", "heatmap.mean"},
                                                    {"difference", "difference.mean"},
                                                    {"rollout", "rollout.mean"},
                                                    {"gradient", "gradient.mean"}};
    for (srv_view v = 0; v < SRV_VIEWS; v++) {
        const int pool = (int)call->heat.pool;
        if (!call->views[v])
            continue;
        if (pool != ATTN_POOL_MEAN)
            put_plane(j, call, v, names[v][0], false);
        if (pool != ATTN_POOL_MAX)
            put_plane(j, call, v, names[v][pool == ATTN_POOL_BOTH], true);
    }
    attn_json_key_object(j, "cells");
    for (srv_view v = 0; v < SRV_VIEWS; v++)
        if (call->views[v])
            describe_cells(j, call, names[v][0], &call->maps[v]);
    attn_json_object_end(j);
}
