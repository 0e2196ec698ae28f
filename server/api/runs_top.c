/* GET /v1/runs/{id}/top-k: the strongest edges of rows, by number or by the mass that they hold. */
#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "request/shared.h"

typedef struct query {
    uint64_t given;
    srv_run_spot spot;
    srv_ints rows, cols;
    int64_t k, decimals;
    double p;
} query;

const srv_field srv_run_top_query[] = {
    SRV_RUN_SPOT_ROWS(query),
    SRV_RUN_RANGE_ROW(query, rows, "queries"),
    SRV_RUN_RANGE_ROW(query, cols, "keys take part"),
    {.name = "k",
     .kind = SRV_INT,
     .offset = offsetof(query, k),
     .min = 1,
     .max = 1048576,
     .doc = "The k largest weights of each row; default 10, without p."},
    {.name = "p",
     .kind = SRV_REAL,
     .offset = offsetof(query, p),
     .min = 0,
     .max = 1,
     .doc = "The fewest keys of each row whose weights sum to at least p."},
    SRV_RUN_DECIMALS_ROW(query),
    {0},
};

enum { DEFAULT_K = 10 };
#define TEXT_OF_EDGES 5.0

/* Columns of equal length: row, key, weight; best first within a row. */
static void answer(srv_request *req, const query *q, const attn_heatmap *map) {
    const size_t n = map->edge_count;
    int64_t *row = attn_arena_zeroed(req->arena, n, sizeof *row);
    int64_t *key = attn_arena_zeroed(req->arena, n, sizeof *key);
    float *weight = attn_arena_zeroed(req->arena, n, sizeof *weight);
    srv_json j;
    srv_json_begin(&j, req);
    j.failed = !row || !key || !weight;
    for (size_t i = 0; i < n && !j.failed; i++) {
        row[i] = (int64_t)map->edges[i].row;
        key[i] = (int64_t)map->edges[i].col;
        weight[i] = map->edges[i].weight;
    }
    const attn_tensor columns[] = {attn_tensor_dense(row, ATTN_I64, 1, &n),
                                   attn_tensor_dense(key, ATTN_I64, 1, &n),
                                   attn_tensor_dense(weight, ATTN_F32, 1, &n)};
    static const char *const names[] = {"row", "key", "weight"};
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    for (size_t i = 0; i < 3 && !j.failed; i++) {
        srv_json_key(&j, names[i]);
        srv_json_tensor(&j, &columns[i]);
    }
    srv_json_object_end(&j);
    srv_json_end(&j);
}

/* false: a problem is set. */
static bool options_of(const srv_scope *scope, const query *q, const srv_run *run,
                       attn_heatmap_options *o) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    size_t rows, cols;
    *o = attn_heatmap_defaults();
    if (!srv_run_range(scope, "rows", &q->rows, d->L, &o->row_from, &rows) ||
        !srv_run_range(scope, "cols", &q->cols, d->S, &o->col_from, &cols))
        return false;
    o->heads = ATTN_HEADS_LIST;
    o->head_list = &q->spot.head;
    o->batch_list = &q->spot.batch;
    o->head_count = o->batch_count = 1;
    o->row_to = o->row_from + rows;
    o->col_to = o->col_from + cols;
    o->max_cells = 1;
    o->top_p = q->p;
    o->top_k = q->k ? (size_t)q->k : srv_given(scope, "p") ? 0 : DEFAULT_K;
    return true;
}

srv_outcome srv_runs_top(srv_request *req) {
    query q = {.decimals = -1};
    const srv_scope scope = {req, srv_run_top_query, &q, ""};
    const srv_run *run = srv_run_begin(&scope, &q, &q.spot);
    attn_heatmap_options o;
    attn_heatmaps maps;
    const bool ok = run && options_of(&scope, &q, run, &o) &&
                    srv_run_heatmaps(req, run, &o, TEXT_OF_EDGES, srv_problem_error, &maps);
    if (ok)
        answer(req, &q, &maps.items[0]);
    return srv_run_end(req, run, ok);
}
