/* Views of a stored run that do not hold every weight:
 *
 *   GET /v1/runs/{id}/heatmaps   heatmaps as in POST /v1/attention
 *   GET /v1/runs/{id}/top-k      the largest weights of each row, limited by number or by sum */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/common/heatmap_object.h"
#include "api/common/route_fields.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"
#include "wire/answer.h"

/* --- heatmap --- */

typedef struct heatmap_query {
    srv_given_bits given;
    srv_run_spot spot;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals;
} heatmap_query;

const srv_field srv_run_heatmaps_query[] = {
    SRV_RUN_SITE_ROWS(heatmap_query),
    SRV_HEATMAP_ROW(heatmap_query, "Content of the heatmap."),
    SRV_FIGURE_ROW(heatmap_query, "Title, labels and style of the picture."),
    SRV_DECIMALS_ROW(heatmap_query, "."),
    {0},
};

/* Makes a source of weights times the norms of their values. The projection w_o is not included,
 * because the run does not store it. */
static attn_status weigh_values(srv_request *req, const srv_run_view *run,
                                const attn_weight_source *weights, attn_weight_source *out,
                                attn_error *err) {
    const double *norms;
    attn_status status =
        attn_value_norms(attn_run_attention(run->site), NULL, srv_request_pool(req), &req->control,
                         req->arena, &norms, err);
    return status ? status : attn_value_norm_source(weights, norms, req->arena, out, err);
}

/* The inputs for computing the heatmaps of a run. */
typedef struct map_build {
    srv_request *req;
    const srv_run_view *run;
    bool norms; /* the heatmaps show weights times the norms of values */
    /* Sets the problem for an error of the library about the options. */
    bool (*problem)(srv_request *, const attn_error *);
} map_build;

/* Sets *cost to the cost of the heatmaps and of the norms of values. false: a problem is set. */
static bool count_heatmaps(const map_build *m, const attn_heatmap_options *options,
                           attn_cost *cost) {
    const attn_attention_dims *d = attn_run_dims(m->run->site);
    const size_t slots = attn_pool_slots(srv_request_pool(m->req));
    attn_cost values = {0};
    attn_error err = {0};
    attn_status status = attn_heatmap_cost(options, d->B, d->Ho, d->L, d->S, slots, cost, &err);
    if (!status && m->norms)
        status = attn_value_norms_cost(d, NULL, slots, &values, &err);
    if (status)
        return m->problem(m->req, &err);
    cost->work_bytes += values.work_bytes + values.result_bytes;
    return true;
}

/* Computes heatmaps. Their memory must have been reserved. false: a problem is set. */
static bool build_heatmaps(const map_build *m, const attn_heatmap_options *options,
                           attn_heatmaps *out) {
    srv_request *req = m->req;
    attn_pool *pool = srv_request_pool(req);
    attn_weight_source weights, weighed;
    attn_error err = {0};
    attn_status status =
        attn_run_source_of(m->run->site, attn_pool_slots(pool), req->arena, &weights, &err);
    if (!status && m->norms)
        status = weigh_values(req, m->run, &weights, &weighed, &err);
    if (!status)
        status = attn_heatmap_build(m->norms ? &weighed : &weights, options, pool, &req->control,
                                    req->arena, out, &err);
    return !status || m->problem(req, &err);
}

/* If the request names a layer of the site's axis of layers, changes the batch entries in the
 * options from entries of that layer to entries of the site. false: a problem is set. */
static bool select_entries(const srv_scope *scope, const srv_run_view *run,
                           attn_heatmap_options *o) {
    const bool all = !o->batch_list;
    if (run->entries == attn_run_dims(run->site)->B)
        return true;
    const size_t count = all ? run->entries : o->batch_count;
    int64_t *list = attn_arena_zeroed(scope->req->arena, count, sizeof *list);
    if (!list)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the batch entries");
    for (size_t i = 0; i < count; i++) {
        list[i] = all ? (int64_t)i : o->batch_list[i];
        if ((uint64_t)list[i] >= run->entries)
            return srv_refuse(scope, SRV_VALUE, "batch",
                              "a layer has %zu batch entr%s, counted from 0; found %lld",
                              run->entries, attn_plural_y(run->entries), (long long)list[i]);
        list[i] += (int64_t)run->first_entry;
    }
    o->batch_list = list;
    o->batch_count = count;
    return true;
}

/* If the site has an axis of layers, sets maps->layer_batches to the number of batch entries in a
 * layer. */
static void tell_layers(const srv_run_view *run, attn_heatmaps *maps) {
    if (attn_run_site_layers(run->held->run, run->index))
        maps->layer_batches = attn_run_site_entries(run->held->run, run->index);
}

typedef struct heatmaps_look {
    SRV_LOOK;
    heatmap_query q;
    map_build build;
    attn_heatmap_options options;
    attn_heatmaps maps;
    srv_labels labels;
} heatmaps_look;

static bool prepare_heatmaps(void *data) {
    heatmaps_look *c = data;
    attn_attention_dims dims;
    attn_cost cost;
    if (!srv_run_spot_check(&c->scope, c->run, &c->q.spot))
        return false;
    dims = attn_attention_map_dims(attn_run_dims(c->run->site));
    dims.B = c->run->entries;
    const bool is_mixed = attn_run_dims(c->run->site)->factors > 0;
    c->q.heatmap.values = srv_run_valued(c->run->site) != NULL;
    c->build = (map_build){c->req, c->run, c->q.heatmap.of == SRV_OF_VALUE_NORM, srv_heat_problem};
    if (!srv_figure_check(c->req, &c->q.figure) ||
        !srv_heat_options(c->req, &c->q.heatmap, &dims, &c->options) ||
        !select_entries(&c->scope, c->run, &c->options) ||
        !count_heatmaps(&c->build, &c->options, &cost))
        return false;
    c->options.signed_values = is_mixed;
    srv_look_needs(&c->look, cost.cells, cost.operations,
                   (double)cost.work_bytes + (1 + SRV_HEAT_TEXT) * (double)cost.result_bytes +
                       srv_run_cells_work(c->req, c->run));
    return true;
}

static bool compute_heatmaps(void *data) {
    heatmaps_look *c = data;
    return build_heatmaps(&c->build, &c->options, &c->maps) &&
           srv_run_labels(c->req, c->run->site, &c->labels);
}

static void answer_heatmaps(void *data) {
    heatmaps_look *c = data;
    const srv_heat_answer all = {.maps = &c->maps,
                                 .in = &c->q.heatmap,
                                 .labels = &c->labels,
                                 .figure = &c->q.figure,
                                 .decimals = (int)c->q.decimals};
    tell_layers(c->run, &c->maps);
    srv_heat_reply(c->req, &all);
}

srv_outcome srv_runs_heatmaps(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(heatmaps_look, srv_run_heatmaps_query),
        .unit_ns = 0.8,
        .prepare = prepare_heatmaps,
        .compute = compute_heatmaps,
        .reply = answer_heatmaps,
    };
    heatmaps_look c = {.look.call.req = req, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, srv_runs_heatmaps);
}

/* --- top-k --- */

static const char *const top_axes[] = {"query", "key", NULL};
enum { OF_QUERIES, OF_KEYS };

typedef struct top_query {
    srv_given_bits given;
    srv_run_spot spot;
    srv_union heads;
    srv_ranges rows, cols;
    int axis;
    int64_t top_k, decimals;
    double top_p;
} top_query;

const srv_field srv_run_top_query[] = {
    SRV_RUN_SPOT_ROWS(top_query),
    SRV_RUN_HEADS_ROW(top_query),
    SRV_RUN_ROWS_ROW(top_query),
    SRV_RUN_COLS_ROW(top_query),
    SRV_ENUM_ROW(top_query, axis, top_axes,
                 "query (default): the strongest keys of each row. key: the rows with the largest "
                 "weights on each key, which tells who looks at a token; the answer is ordered by "
                 "key.",
                 .standard = "\"query\""),
    SRV_INT_ROW(top_query, top_k, 1, 1048576,
                "So many largest weights of each row, or of each key; default 10, without top_p."),
    SRV_REAL_ROW(top_query, top_p, 0, 1,
                 "The fewest keys of each row whose weights sum to at least top_p; not with "
                 "axis=key."),
    SRV_DECIMALS_ROW(top_query, "."),
    {0},
};

enum { DEFAULT_K = 10, MOST_EDGES = 1 << 20 };
#define TEXT_OF_EDGES 5.0

/* The edges of one head, which are its strongest weights. They are from one range of rows or, with
 * axis=key, from all rows. */
typedef struct edge_list {
    size_t head;
    const attn_edge *edges;
    size_t count;
} edge_list;

typedef struct top_call {
    SRV_LOOK;
    top_query q;
    srv_run_part part;
    edge_list *lists; /* [list_count] */
    size_t list_count;
    map_build build; /* with axis=query: computes the heatmaps that hold the edges */
    attn_heatmap_options options;
    size_t room;        /* upper bound of the number of edges in several ranges; 0: one range */
    attn_range *ranges; /* [part.range_count] with axis=key: the ranges of rows */
} top_call;

static bool refuse_memory(srv_request *req) {
    return srv_problem_memory(req, NULL, "no memory is left for the edges");
}

/* Writes columns of equal length: head (if the request has `heads`), row, col and weight. */
static void answer_edges(void *data, attn_json_text *j) {
    const top_call *c = data;
    srv_request *req = c->req;
    size_t n = 0, at = 0;
    for (size_t l = 0; l < c->list_count; l++)
        n += c->lists[l].count;
    int64_t *head = attn_arena_zeroed(req->arena, n, sizeof *head);
    int64_t *row = attn_arena_zeroed(req->arena, n, sizeof *row);
    int64_t *col = attn_arena_zeroed(req->arena, n, sizeof *col);
    float *weight = attn_arena_zeroed(req->arena, n, sizeof *weight);
    j->failed |= !head || !row || !col || !weight;
    for (size_t l = 0; l < c->list_count && !j->failed; l++)
        for (size_t i = 0; i < c->lists[l].count; i++, at++) {
            head[at] = (int64_t)c->lists[l].head;
            row[at] = (int64_t)c->lists[l].edges[i].row;
            col[at] = (int64_t)c->lists[l].edges[i].col;
            weight[at] = c->lists[l].edges[i].weight;
        }
    const attn_tensor columns[] = {
        attn_tensor_dense(head, ATTN_I64, 1, &n), attn_tensor_dense(row, ATTN_I64, 1, &n),
        attn_tensor_dense(col, ATTN_I64, 1, &n), attn_tensor_dense(weight, ATTN_F32, 1, &n)};
    static const char *const names[] = {"head", "row", "col", "weight"};
    for (size_t i = c->part.many ? 0 : 1; i < 4 && !j->failed; i++)
        srv_json_key_tensor(j, names[i], &columns[i]);
}

static attn_heatmap_options options_of(const top_call *c) {
    const srv_run_part *part = &c->part;
    attn_heatmap_options o = attn_heatmap_defaults();
    o.heads = ATTN_HEADS_LIST;
    o.head_list = part->heads;
    o.head_count = part->head_count;
    o.batch_list = &c->q.spot.batch;
    o.batch_count = 1;
    o.col_from = part->col;
    o.col_to = part->col + part->cols;
    o.max_cells = part->head_count;
    o.top_p = c->q.top_p;
    o.top_k = c->q.top_k ? (size_t)c->q.top_k : srv_given(&c->scope, "top_p") ? 0 : DEFAULT_K;
    return o;
}

/* Makes the list of edges for one head and one range of rows from their heatmap `map`. If `store`
 * is not NULL, appends the edges to the *used edges of `store`, so that the memory of the heatmap
 * can be used again. false: a problem is set. */
static bool keep_edges(top_call *c, const attn_heatmap *map, edge_list *list, attn_edge *store,
                       size_t *used) {
    *list = (edge_list){map->head, map->edges, map->edge_count};
    if (!store)
        return true;
    if (map->edge_count > MOST_EDGES - *used)
        return srv_problem(c->req, SRV_TOO_LARGE, "/rows",
                           "the rows have more than %d edges: choose fewer rows, heads or edges",
                           MOST_EDGES);
    if (map->edge_count)
        memcpy(store + *used, map->edges, map->edge_count * sizeof *store);
    list->edges = store + *used;
    *used += map->edge_count;
    return true;
}

static void choose_rows(attn_heatmap_options *o, const srv_run_part *part, size_t range) {
    o->row_from = (size_t)part->ranges[range].from;
    o->row_to = (size_t)part->ranges[range].to;
}

/* Sets the cost. It is the cost of the heatmaps of all ranges of rows, which are computed one after
 * the other, and of the kept edges. false: a problem is set. */
static bool count_of_queries(top_call *c) {
    const srv_run_part *part = &c->part;
    c->build = (map_build){c->req, c->run, false, srv_problem_error};
    c->options = options_of(c);
    const size_t k = c->options.top_k;
    const double each = (double)(k && k < part->cols ? k : part->cols);
    const double edges = each * (double)part->rows * (double)part->head_count;
    double cells = 0, build = 0, most = 0;
    c->room = part->range_count < 2 ? 0 : edges < MOST_EDGES ? (size_t)edges : MOST_EDGES;
    const double store = (double)c->room * (double)sizeof(attn_edge);
    for (size_t i = 0; i < part->range_count; i++) {
        attn_cost cost;
        choose_rows(&c->options, part, i);
        if (!count_heatmaps(&c->build, &c->options, &cost))
            return false;
        cells += cost.cells;
        build = fmax(build, (double)cost.work_bytes + (double)cost.result_bytes);
        most = fmax(most, (double)cost.result_bytes);
    }
    srv_look_needs(&c->look, cells, cells,
                   build + store + TEXT_OF_EDGES * (c->room ? store : most) +
                       srv_run_cells_work(c->req, c->run));
    return true;
}

/* Finds the strongest keys of each row. They are the edges of a heatmap for each head and each
 * range of rows. false: a problem is set. */
static bool find_of_queries(top_call *c) {
    const srv_run_part *part = &c->part;
    const size_t n = part->range_count;
    attn_arena *arena = c->req->arena;
    size_t used = 0;
    attn_edge *store = n > 1 ? attn_arena_take(arena, c->room * sizeof *store) : NULL;
    if (n > 1 && !store)
        return refuse_memory(c->req);
    for (size_t i = 0; i < n; i++) {
        const attn_arena_mark mark = attn_arena_here(arena);
        attn_heatmaps maps;
        choose_rows(&c->options, part, i);
        if (!build_heatmaps(&c->build, &c->options, &maps))
            return false;
        for (size_t h = 0; h < part->head_count; h++)
            if (!keep_edges(c, &maps.items[h], &c->lists[h * n + i], store, &used))
                return false;
        if (store)
            attn_arena_rewind(arena, &mark);
    }
    return true;
}

static size_t most_rows(const top_call *c) {
    return c->q.top_k ? (size_t)c->q.top_k : DEFAULT_K;
}

/* Lists the ranges of rows, and sets the cost for all heads. false: a problem is set. */
static bool count_of_keys(top_call *c) {
    srv_request *req = c->req;
    const srv_run_part *part = &c->part;
    const size_t n = part->range_count;
    const double heads = (double)part->head_count;
    attn_cost cost;
    attn_error err = {0};
    c->ranges = attn_arena_zeroed(req->arena, n, sizeof *c->ranges);
    if (!c->ranges)
        return refuse_memory(req);
    for (size_t i = 0; i < n; i++)
        c->ranges[i] = (attn_range){.batch = part->batch,
                                    .row = (size_t)part->ranges[i].from,
                                    .rows = (size_t)(part->ranges[i].to - part->ranges[i].from),
                                    .col = part->col,
                                    .cols = part->cols};
    if (attn_run_columns_cost(c->run->site, c->ranges, n, most_rows(c),
                              attn_pool_slots(srv_request_pool(req)), &cost, &err))
        return srv_problem_error(req, &err);
    srv_look_needs(&c->look, heads * cost.cells, heads * cost.cells,
                   (double)cost.work_bytes +
                       heads * (1 + TEXT_OF_EDGES) * (double)cost.result_bytes);
    return true;
}

/* Finds the rows with the largest weights on each key, head by head. */
static bool find_of_keys(top_call *c) {
    srv_request *req = c->req;
    const srv_run_part *part = &c->part;
    const size_t n = part->range_count;
    attn_error err = {0};
    attn_status status = ATTN_OK;
    for (size_t h = 0; h < part->head_count && !status; h++) {
        attn_edge *edges = NULL;
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            c->ranges[i].head = (size_t)part->heads[h];
        status = attn_run_columns(c->run->site, c->ranges, n, most_rows(c), srv_request_pool(req),
                                  &req->control, req->arena, &edges, &count, &err);
        c->lists[h] = (edge_list){(size_t)part->heads[h], edges, count};
    }
    return !status || srv_problem_error(req, &err);
}

static bool prepare_edges(void *data) {
    top_call *c = data;
    if (!srv_run_spot_check(&c->scope, c->run, &c->q.spot) ||
        !srv_run_select(&c->scope, c->run, &c->q.spot, &c->q.heads, &c->q.rows, &c->q.cols,
                        &c->part))
        return false;
    c->list_count = c->part.head_count * (c->q.axis == OF_KEYS ? 1 : c->part.range_count);
    c->lists = attn_arena_zeroed(c->req->arena, c->list_count, sizeof *c->lists);
    if (!c->lists)
        return refuse_memory(c->req);
    if (c->q.axis == OF_QUERIES)
        return count_of_queries(c);
    return srv_given(&c->scope, "top_p")
               ? srv_refuse(&c->scope, SRV_VALUE, "top_p",
                            "the weights on a key do not sum to 1, so top_p has no meaning with "
                            "axis=key: give top_k")
               : count_of_keys(c);
}

static bool find_edges(void *data) {
    top_call *c = data;
    return c->q.axis == OF_QUERIES ? find_of_queries(c) : find_of_keys(c);
}

srv_outcome srv_runs_top(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(top_call, srv_run_top_query),
        .prepare = prepare_edges,
        .compute = find_edges,
        .json = answer_edges,
    };
    top_call c = {.look.call.req = req, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, NULL);
}

static const srv_field edge_rows[] = {
    SRV_WRITTEN("head", "[integer+]", NULL, "With heads: the head."),
    SRV_WRITTEN("row", "[integer+]", NULL, "The query.", .always = true),
    SRV_WRITTEN("col", "[integer+]", NULL, "The key.", .always = true),
    SRV_WRITTEN("weight", "[number?]", NULL, "In float32, for runs of float64 too.",
                .always = true),
    {0},
};

const srv_field srv_run_top_answers[] = {
    SRV_GROUP("RunEdges", edge_rows,
              "Columns of equal length, best first within a row, or within a key with axis=key; "
              "head is present with heads."),
    {0},
};
