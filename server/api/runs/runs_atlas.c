/* GET /v1/runs/{id}/atlas: thumbnails of many heads of a run at once, as u8 cells. */
#include <math.h>
#include <string.h>

#include "api/common/heatmap_object.h"
#include "api/runs/runs_api.h"
#include "api/runs/runs_map.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"
#include "wire/answer.h"

enum { MAX_SIDE_MOST = 128 };
#define TEXT_OF_HEAD 256.0 /* upper bound of the bytes of a head's description */

typedef struct atlas_query {
    srv_given_bits given;
    srv_heads_query heads;
    int64_t max_side;
    int pool, transform;
} atlas_query;

const srv_field srv_run_atlas_query[] = {
    SRV_RUN_MANY_HEADS_ROWS(atlas_query),
    SRV_INT_ROW(atlas_query, max_side, 8, MAX_SIDE_MOST,
                "Most rows and columns of cells of a thumbnail. Larger matrices are "
                "pooled to the first level that has at most so many; smaller ones stay as they "
                "are.",
                .standard = "64"),
    SRV_ENUM_ROW(atlas_query, pool, srv_pools,
                 "What a cell says of its visible weights: max (default), mean, or both.",
                 .standard = "\"max\""),
    SRV_ENUM_ROW(atlas_query, transform, srv_transforms,
                 "The transform that quantises cells: linear, sqrt, or log (ln(1 + 255 "
                 "t) / ln 256).",
                 .standard = "\"linear\""),
    {0},
};

typedef struct atlas_call {
    SRV_LOOK;
    atlas_query q;
    srv_run_heads heads;
    size_t side;         /* largest number of rows, and of columns, of a thumbnail */
    size_t planes;       /* number of planes (max, mean) of a thumbnail: 1 or 2 */
    uint8_t *bytes;      /* [heads, planes, side, side] */
    float *ranges;       /* [heads, planes, 2] */
    size_t (*shapes)[3]; /* [heads] rows, columns and level */
} atlas_call;

/* --- cost --- */

static bool has_plane(const atlas_call *c, attn_pooling plane) {
    return c->q.pool == ATTN_POOL_BOTH || c->q.pool == (int)plane;
}

static srv_run_mapping mapping_of(const atlas_call *c, srv_run_view *view,
                                  const srv_run_head *head) {
    *view = *c->run;
    view->site = head->site;
    return (srv_run_mapping){c->req, view, NULL, {.batch = head->entry, .head = head->head}};
}

/* Returns whether the cells of the head's thumbnail are copied from a map of the head. */
static bool is_mapped(const srv_run_head *head) {
    return srv_run_mapped_level(head->site, &(attn_run_view){0}) != SIZE_MAX;
}

/* Returns whether a complete map of the head is kept, so that no weights have to be computed. */
static bool has_map(const atlas_call *c, const srv_run_head *head) {
    srv_run_view view;
    const srv_run_mapping m = mapping_of(c, &view, head);
    srv_map *map = is_mapped(head) ? srv_run_map_find(&m) : NULL;
    srv_map_release(c->req->app->maps, map);
    return map;
}

/* Sets *cost to the cost of the thumbnail of a head, with the scratch memory that the map of the
 * head needs. false: a problem is set. */
static bool count_head(const atlas_call *c, const srv_run_head *head, attn_cost *cost) {
    const size_t slots = attn_pool_slots(srv_request_pool(c->req));
    const attn_run_place at = {.batch = head->entry, .head = head->head};
    attn_cost map = {0};
    attn_error err = {0};
    attn_status status = attn_run_thumbnail_cost(head->site, slots, cost, &err);
    if (!status && is_mapped(head))
        status = attn_run_map_cost(head->site, &at, slots, &map, &err);
    cost->work_bytes += map.work_bytes;
    return !status || srv_problem_error(c->req, &err);
}

/* Sets the cost of the whole atlas. false: a problem is set. */
static bool count_atlas(atlas_call *c) {
    const double n = (double)c->heads.count, cells = (double)c->side * (double)c->side;
    double all = 0, operations = 0, work = 0;
    attn_cost one = {0};
    for (size_t i = 0; i < c->heads.count; i++) {
        if (i == 0 || c->heads.items[i].site != c->heads.items[i - 1].site) {
            if (!count_head(c, &c->heads.items[i], &one))
                return false;
            srv_run_view view = *c->run;
            view.site = c->heads.items[i].site;
            work = fmax(work, (double)one.work_bytes + (double)one.result_bytes +
                                  srv_run_cells_work(c->req, &view));
        }
        if (has_map(c, &c->heads.items[i]))
            continue;
        all += one.cells;
        operations += one.operations;
    }
    const double planes = n * (double)c->planes * (cells + 2 * sizeof(float));
    const bool binary = c->req->accept & SRV_ACCEPT_SAFETENSORS;
    srv_look_needs(&c->look, all, operations,
                   work + (binary ? 1 : 3) * planes + n * (TEXT_OF_HEAD + sizeof *c->shapes) +
                       srv_run_heads_bytes(&c->heads));
    return true;
}

/* --- the thumbnails --- */

/* Quantises the cells [shape] of a thumbnail as in tiles: visible cells to 1 … 255, hidden cells to
 * 0. The other bytes of [side, side] stay 0, like hidden cells. */
static void put_plane(const atlas_call *c, size_t head, size_t plane, const float *cells,
                      const size_t shape[2], const float range[2]) {
    uint8_t *to = c->bytes + (head * c->planes + plane) * c->side * c->side;
    memcpy(c->ranges + 2 * (head * c->planes + plane), range, 2 * sizeof *range);
    for (size_t r = 0; r < shape[0]; r++) {
        const float *from = cells + r * shape[1];
        uint8_t *line = to + r * c->side;
        attn_heatmap_quantise(line, from, shape[1], range, (attn_transform)c->q.transform, false);
        for (size_t i = 0; i < shape[1]; i++)
            line[i] = from[i] == -INFINITY ? 0 : line[i] ? line[i] : 1;
    }
}

static void keep_thumbnail(const atlas_call *c, size_t i, const attn_run_thumbnail *t) {
    size_t plane = 0;
    if (has_plane(c, ATTN_POOL_MAX))
        put_plane(c, i, plane++, t->max, t->shape, t->range);
    if (has_plane(c, ATTN_POOL_MEAN))
        put_plane(c, i, plane, t->mean, t->shape, t->mean_range);
    c->shapes[i][0] = t->shape[0];
    c->shapes[i][1] = t->shape[1];
    c->shapes[i][2] = t->level;
}

/* Makes the thumbnail of head i of the list. false: a problem is set, or the request has to wait
 * (req->later). */
static bool make_head(atlas_call *c, size_t i, attn_run_counts *counts) {
    srv_request *req = c->req;
    const srv_run_head *h = &c->heads.items[i];
    attn_run_place at = {.batch = h->entry, .head = h->head};
    srv_run_view view;
    const srv_run_mapping m = mapping_of(c, &view, h);
    srv_map *map = NULL;
    attn_run_thumbnail t;
    attn_error err = {0};
    srv_progress_part(req, (double)i / (double)c->heads.count,
                      (double)(i + 1) / (double)c->heads.count);
    bool made = !is_mapped(h) || srv_run_map_hold(&m, false, &map);
    srv_progress_part(req, 0, 1);
    at.map = made && map ? srv_map_cells(map) : NULL;
    if (made && attn_run_thumbnail_make(h->site, &at, c->side, counts, srv_request_pool(req),
                                        &req->control, req->arena, &t, &err)) {
        srv_problem_error(req, &err);
        made = false;
    }
    srv_map_release(req->app->maps, map);
    if (made)
        keep_thumbnail(c, i, &t);
    return made;
}

/* Makes the thumbnails of the heads first … end - 1, which are of one site. false: a problem is
 * set, or the request has to wait (req->later). */
static bool make_site(atlas_call *c, size_t first, size_t end) {
    srv_request *req = c->req;
    const attn_run_site *site = c->heads.items[first].site;
    const attn_arena_mark before = attn_arena_here(req->arena);
    attn_run_counts *counts =
        has_plane(c, ATTN_POOL_MEAN) ? attn_run_counts_new(site, req->arena) : NULL;
    const attn_arena_mark mark = attn_arena_here(req->arena);
    bool made = counts || !has_plane(c, ATTN_POOL_MEAN);
    if (!made)
        srv_problem_memory(req, NULL, "no memory is left for the thumbnails");
    for (size_t i = first; i < end && made; i++) {
        made = make_head(c, i, counts);
        attn_control_tell(&req->control, i + 1, c->heads.count);
        attn_arena_rewind(req->arena, &mark);
    }
    attn_arena_rewind(req->arena, &before);
    return made;
}

static bool take_planes(atlas_call *c) {
    attn_arena *arena = c->req->arena;
    const size_t n = c->heads.count * c->planes;
    c->bytes = attn_arena_zeroed(arena, n + 1, c->side * c->side);
    c->ranges = attn_arena_zeroed(arena, 2 * n + 1, sizeof *c->ranges);
    c->shapes = attn_arena_zeroed(arena, c->heads.count + 1, sizeof *c->shapes);
    return c->bytes && c->ranges && c->shapes;
}

static bool compute_atlas(void *data) {
    atlas_call *c = data;
    bool made = take_planes(c);
    if (!made)
        srv_problem_memory(c->req, NULL, "no memory is left for the thumbnails");
    for (size_t i = 0, end; i < c->heads.count && made; i = end) {
        end = i + 1;
        while (end < c->heads.count && c->heads.items[end].site == c->heads.items[i].site)
            end++;
        made = make_site(c, i, end);
    }
    return made;
}

/* --- the answer --- */

/* Writes the range of a plane of thumbnail i, and its cells in base64. A plane is stored as side x
 * side cells; only the rows and columns of the thumbnail's shape are written. */
static void put_cells(attn_json_text *j, const atlas_call *c, size_t i, size_t plane,
                      const char *name, const char *range) {
    const size_t rows = c->shapes[i][0], cols = c->shapes[i][1], at = i * c->planes + plane;
    const uint8_t *from = c->bytes + at * c->side * c->side;
    uint8_t cells[MAX_SIDE_MOST * MAX_SIDE_MOST];
    for (size_t r = 0; r < rows; r++)
        memcpy(cells + r * cols, from + r * c->side, cols);
    attn_json_key(j, range);
    srv_json_floats(j, c->ranges + 2 * at, 2);
    attn_json_key(j, name);
    attn_json_base64(j, cells, rows * cols);
}

static void put_thumbnail(attn_json_text *j, const atlas_call *c, size_t i) {
    size_t plane = 0;
    attn_json_object(j);
    srv_answer_members(j, srv_run_head_rows, &c->heads.items[i]);
    attn_json_key_array(j, "shape");
    attn_json_size(j, c->shapes[i][0]);
    attn_json_size(j, c->shapes[i][1]);
    attn_json_array_end(j);
    attn_json_key_size(j, "level", c->shapes[i][2]);
    if (!j->aside && has_plane(c, ATTN_POOL_MAX))
        put_cells(j, c, i, plane++, "max", "range");
    if (!j->aside && has_plane(c, ATTN_POOL_MEAN))
        put_cells(j, c, i, plane, "mean", has_plane(c, ATTN_POOL_MAX) ? "mean_range" : "range");
    attn_json_object_end(j);
}

/* Writes the tensors `cells` [heads, side, side] and `ranges` [heads, 2]. With two planes, both
 * tensors have an axis of planes after the axis of heads. */
static void put_tensors(attn_json_text *j, const atlas_call *c) {
    const size_t n = c->heads.count, side = c->side;
    const int rank = c->planes > 1;
    const size_t one[] = {n, side, side}, two[] = {n, c->planes, side, side};
    const size_t range[] = {n, 2}, ranges[] = {n, c->planes, 2};
    const attn_tensor cells =
        attn_tensor_dense(c->bytes, ATTN_U8, 3 + rank, c->planes > 1 ? two : one);
    const attn_tensor limits =
        attn_tensor_dense(c->ranges, ATTN_F32, 2 + rank, c->planes > 1 ? ranges : range);
    srv_json_key_tensor(j, "cells", &cells);
    srv_json_key_tensor(j, "ranges", &limits);
}

static void put_thumbnails(attn_json_text *j, const void *place) {
    const atlas_call *c = place;
    attn_json_array(j);
    for (size_t i = 0; i < c->heads.count && !j->failed; i++)
        put_thumbnail(j, c, i);
    attn_json_array_end(j);
}

static const srv_field thumbnail_rows[] = {
    SRV_GROUP("", srv_run_head_rows, NULL, .always = true),
    SRV_WRITTEN("shape", "[integer+ 2]", NULL, "Rows and columns of cells.", .always = true,
                .max = MAX_SIDE_MOST),
    SRV_WRITTEN("level", "integer+", NULL,
                "The level of the pyramid of tiles: a cell covers 2^level x 2^level weights.",
                .always = true),
    SRV_WRITTEN("range", "[number 2]", NULL, "The range of the plane, or of max."),
    SRV_WRITTEN("max", "base64", NULL, "The cells, of the only plane or the max plane."),
    SRV_WRITTEN("mean_range", "[number 2]", NULL, "The range of mean."),
    SRV_WRITTEN("mean", "base64", NULL, "The cells of the mean plane."),
    {0},
};

static const srv_field atlas_rows[] = {
    SRV_ALWAYS("max_side", SRV_INT, atlas_call, side, "Most rows and columns of a thumbnail.",
               .type = "integer+8", .max = MAX_SIDE_MOST),
    SRV_ALWAYS("pool", SRV_ENUM, atlas_call, q.pool, "What a cell says of its visible weights.",
               .choices = srv_pools),
    SRV_ALWAYS("transform", SRV_ENUM, atlas_call, q.transform, "How cells go over the range.",
               .choices = srv_transforms),
    SRV_WRITTEN("thumbnails", "[*]", put_thumbnails, "One for each head.", .always = true,
                .fields = thumbnail_rows),
    {0},
};

const srv_field srv_run_atlas_answers[] = {
    SRV_GROUP("RunAtlas", atlas_rows,
              "Thumbnails in the order of sites, layers, batch entries and heads. max and mean are "
              "shape[0] x shape[1] bytes in base64: 0 is hidden, 1 to 255 the cell over its range, "
              "transformed. range is that of the only plane or of max. A cell of a level covers "
              "2^level x 2^level weights. As safetensors max and mean are the tensor cells, U8 "
              "[heads, max_side, max_side], or [heads, 2, max_side, max_side] for both, with "
              "hidden cells behind each shape, and the ranges are the tensor ranges, F32 [heads, "
              "2] or [heads, 2, 2]."),
    {0},
};

static void answer_atlas(void *data, attn_json_text *j) {
    const atlas_call *c = data;
    if (j->aside)
        put_tensors(j, c);
    srv_answer_members(j, atlas_rows, c);
}

static bool prepare_atlas(void *data) {
    atlas_call *c = data;
    c->planes = c->q.pool == ATTN_POOL_BOTH ? 2 : 1;
    c->side = (size_t)c->q.max_side;
    return srv_run_find_heads(&c->scope, c->run, &c->q.heads, &c->heads) && count_atlas(c);
}

static void explain_atlas(void *data, srv_limits *limits) {
    const atlas_call *c = data;
    attn_text t = {.arena = c->req->arena};
    attn_text_add(&t,
                  "weights have to be computed for the thumbnails of %zu head%s, since there "
                  "is no overview",
                  c->heads.count, attn_plural(c->heads.count));
    if (!t.failed)
        limits->cells.what = t.data;
}

srv_outcome srv_runs_atlas(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_run_atlas_query,
        .body = offsetof(atlas_call, q),
        .limits = {.cells = {.pointer = "/sites",
                             .what = "weights have to be computed for the thumbnails",
                             .advice = ": ask for fewer sites or heads"}},
        .explain = explain_atlas,
        .prepare = prepare_atlas,
        .compute = compute_atlas,
        .json = answer_atlas,
    };
    atlas_call c = {.look.call.req = req};
    return srv_look_run(&c, &steps, srv_runs_atlas);
}
