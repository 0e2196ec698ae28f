/* GET /v1/runs/{id}/tiles: 256 x 256 pooled cells of a stored run as binary data, the maxima, then the
 * means. */
#include <math.h>

#include "api/handlers.h"
#include "api/heatmap_object.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "request/shared.h"

static const char *const tile_encodings[] = {"u8", "f32", NULL};

typedef struct tile_query {
    uint64_t given;
    srv_run_spot spot;
    int64_t level, y, x;
    int encoding, transform;
} tile_query;

enum { U8, F32 };

const srv_field srv_run_tiles_query[] = {
    SRV_RUN_SPOT_ROWS(tile_query),
    SRV_INT_ROW(
        tile_query, level, 0, 63,
        "A cell covers 2^level x 2^level weights; the default 0 gives the weights themselves."),
    SRV_INT_ROW(tile_query, y, 0, 4294967296, "Row of tiles, from the first query; default 0."),
    SRV_INT_ROW(tile_query, x, 0, 4294967296, "Column of tiles, from the first key; default 0."),
    SRV_ENUM_ROW(tile_query, encoding, tile_encodings,
                 "u8 (default): 0 = hidden, else round(255 t), at least 1, with t from 0 to 1 over "
                 "the plane's range; f32 (little-endian): the values, -infinity = hidden."),
    SRV_ENUM_ROW(tile_query, transform, srv_transforms,
                 "The transform that quantises u8 cells: linear (default), sqrt, or log (ln(1 + "
                 "255 t) / ln 256)."),
    {0},
};

/* Quantises visible cells to 1 … 255 and hidden cells to 0. */
static void quantise(uint8_t *to, const float *cells, size_t n, const float range[2],
                     attn_transform transform) {
    attn_heatmap_quantise(to, cells, n, range, transform, false);
    for (size_t i = 0; i < n; i++)
        to[i] = cells[i] == -INFINITY ? 0 : to[i] ? to[i] : 1;
}

static bool encode(srv_request *req, const tile_query *q, const attn_run_tile *tile) {
    const size_t n = tile->shape[0] * tile->shape[1];
    const attn_transform transform = (attn_transform)q->transform;
    if (q->encoding == F32) { /* the max and mean planes are adjacent in memory */
        srv_reply_set(req, 200, SRV_OCTETS, (const char *)tile->max, 2 * n * sizeof(float));
        return true;
    }
    uint8_t *bytes = attn_arena_take(req->arena, 2 * n);
    if (!bytes)
        return false;
    quantise(bytes, tile->max, n, tile->range, transform);
    quantise(bytes + n, tile->mean, n, tile->mean_range, transform);
    srv_reply_set(req, 200, SRV_OCTETS, (const char *)bytes, 2 * n);
    return true;
}

static void put_header(srv_request *req, const char *name, attn_text *t) {
    if (!t->failed)
        srv_reply_header(req, name, t->data);
}

static void put_range(srv_request *req, const char *name, const float range[2]) {
    attn_text t = {.arena = req->arena};
    attn_text_add(&t, "%.9g,%.9g", (double)range[0], (double)range[1]);
    put_header(req, name, &t);
}

static void describe_tile(srv_request *req, const tile_query *q, const attn_run_tile *tile) {
    attn_text shape = {.arena = req->arena}, encoding = {.arena = req->arena};
    attn_text_add(&shape, "%zu,%zu", tile->shape[0], tile->shape[1]);
    attn_text_add(&encoding, "%s%s%s", tile_encodings[q->encoding], q->encoding == U8 ? ", " : "",
                  q->encoding == U8 ? srv_transforms[q->transform] : "");
    put_header(req, "X-Tile-Shape", &shape);
    put_header(req, "X-Tile-Encoding", &encoding);
    srv_reply_header(req, "X-Tile-Pooling", "max,mean");
    srv_reply_header(req, "X-Tile-Hidden",
                     tile->hidden         ? "all"
                     : q->encoding == F32 ? "-Infinity"
                                          : "0");
    put_range(req, "X-Tile-Max-Range", tile->range);
    put_range(req, "X-Tile-Mean-Range", tile->mean_range);
}

static bool make_tile(srv_request *req, const srv_run_view *run, const tile_query *q,
                      attn_run_tile *tile) {
    const attn_run_place at = {(size_t)q->spot.batch, (size_t)q->spot.head, (size_t)q->level,
                               (size_t)q->y, (size_t)q->x};
    /* For level 0 and 1 the work is so small that several threads would not save time. */
    attn_pool *pool = q->level > 1 ? srv_request_pool(req) : NULL;
    attn_cost cost;
    attn_error err = {0};
    attn_status status = attn_run_tile_cost(run->site, &at, attn_pool_slots(pool), &cost, &err);
    if (!status &&
        !srv_run_admit(req, cost.cells, (double)cost.work_bytes + 2 * (double)cost.result_bytes))
        return false;
    const int64_t start = attn_now_ns();
    if (!status)
        status = attn_run_tile_make(run->site, &at, pool, &req->control, req->arena, tile, &err);
    req->compute_ns = attn_now_ns() - start;
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

/* Replies with a tile. false: a problem is set. */
static bool answer_tile(srv_request *req, const srv_run_view *run, const tile_query *q) {
    attn_run_tile tile;
    if (!make_tile(req, run, q, &tile))
        return false;
    if (tile.hidden) {
        srv_reply_set(req, 204, NULL, "", 0);
    } else if (!encode(req, q, &tile)) {
        srv_problem_memory(req, NULL, "no memory is left for the tile");
        return false;
    }
    describe_tile(req, q, &tile);
    srv_run_tagged(req, run, tile_encodings[q->encoding]);
    return true;
}

srv_outcome srv_runs_tiles(srv_request *req) {
    tile_query q = {.encoding = U8};
    const srv_run_view *run = srv_run_begin(req, srv_run_tiles_query, &q, &q.spot);
    const bool ok =
        run && (srv_run_tagged(req, run, tile_encodings[q.encoding]) || answer_tile(req, run, &q));
    return srv_run_end(req, run, ok);
}
