/* GET /v1/runs/{id}/tiles: 256 x 256 pooled cells of a stored run as binary data or as a PNG. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/common/figure_input.h"
#include "api/common/heatmap_object.h"
#include "api/runs/runs_api.h"
#include "api/runs/runs_map.h"
#include "api/runs/tile_codes.h"
#include "load/admission.h"
#include "request/shared.h"

static const char *const encodings[] = {"u8", "f32", "png", NULL};
static const char *const range_owners[] = {"tile", "head", "head_from_0", NULL};
static const char *const head_words[] = {"mean", NULL};
static const char *const normalizations[] = {"row_max", "uniform", NULL};
static const char *const plane_headers[] = {"X-Tile-Max-Range", "X-Tile-Mean-Range"};

enum { U8, F32, PNG };
enum { MAX = ATTN_POOL_MAX, MEAN = ATTN_POOL_MEAN, PLANES };
enum { OF_TILE, OF_HEAD, OF_HEAD_FROM_0 };

typedef struct tile_query {
    srv_given_bits given;
    srv_run_spot spot; /* `head` sets the head of the spot */
    srv_union head;
    int64_t level, y, x;
    int pool, encoding, transform, normalize, colormap, range_of;
    double vmin, vmax;
    const char *against;
} tile_query;

const srv_field srv_run_tiles_query[] = {
    SRV_RUN_SITE_ROWS(tile_query),
    SRV_RUN_PLACE_ROW(tile_query, batch, 4294967296, "The batch entry, from 0.", .standard = "0"),
    SRV_FIELD_ROW(tile_query, head, SRV_UNION,
                  "Query head (default 0), or mean: the mean of the weights over all heads.",
                  .accepts = SRV_U_INT | SRV_U_STRING, .choices = head_words, .max = 4294967296),
    SRV_INT_ROW(tile_query, level, 0, 63,
                "A cell covers 2^level x 2^level weights; 0 gives the weights themselves.",
                .standard = "0"),
    SRV_INT_ROW(tile_query, y, 0, 4294967296, "Row of tiles, from the first query.",
                .standard = "0"),
    SRV_INT_ROW(tile_query, x, 0, 4294967296, "Column of tiles, from the first key.",
                .standard = "0"),
    SRV_ENUM_ROW(tile_query, pool, srv_pools,
                 "The planes of the answer: max, mean, or both (default; for a PNG max). The max "
                 "plane comes first."),
    SRV_ENUM_ROW(tile_query, encoding, encodings,
                 "u8 (default): a byte a cell, 0 = hidden, else 1 to 255 over the range. f32: the "
                 "values, little-endian, -infinity = hidden. png (default if Accept asks for it): "
                 "a picture of one plane, a pixel a cell, hidden cells transparent."),
    SRV_ENUM_ROW(tile_query, transform, srv_tile_transforms,
                 "How u8 and png go from 0 to 255: linear (default), sqrt, log (ln(1 + 255 t) / "
                 "ln 256), or decades: the last six powers of ten below the range's end in equal "
                 "steps of 5.6 %.",
                 .standard = "\"linear\""),
    SRV_REAL_ROW(tile_query, vmin, 0, 0,
                 "The start of the scale of u8 and png, with vmax. Values below count as vmin."),
    SRV_REAL_ROW(tile_query, vmax, 0, 0,
                 "The end of the scale of u8 and png, with vmin. Values above count as vmax."),
    SRV_ENUM_ROW(tile_query, range_of, range_owners,
                 "The scale of u8 and png without vmin and vmax, plane by plane: the range of the "
                 "tile (default), that of the head's topmost tile, or from 0 to the end of that, "
                 "so that a weight of 0 alone is the start of the scale."),
    SRV_ENUM_ROW(tile_query, normalize, normalizations,
                 "row_max: each weight divided by the largest of its row. uniform: each weight "
                 "times the number of keys that its row sees, so that 1 is uniform attention. "
                 "Before pooling."),
    SRV_FIELD_ROW(
        tile_query, against, SRV_STRING,
        "The id of another run of the same shape: the tile shows this run minus that one. The "
        "max plane has the difference of largest magnitude, with its sign."),
    SRV_ENUM_ROW(tile_query, colormap, srv_colormaps,
                 "For png: auto (default) is Blues, or RdBu with against."),
    {0},
};

/* A request for a tile: the run, the decoded query, and the map that tiles are copied from. */
typedef struct tile_call {
    srv_request *req;
    srv_run_view *run;     /* held; NULL: not yet found */
    srv_run_view *against; /* held view of the run `against`; NULL: cells are no differences */
    tile_query q;
    attn_run_place at;
    srv_map *map; /* held; NULL: none */
} tile_call;

/* --- what is asked for --- */

/* Checks vmin, vmax and range_of. false: a problem is set. */
static bool check_scale(const srv_scope *scope, const tile_query *q) {
    const float low = (float)q->vmin, high = (float)q->vmax;
    const char *given = srv_given(scope, "vmin")   ? "vmin"
                        : srv_given(scope, "vmax") ? "vmax"
                                                   : "range_of";
    if (!srv_given(scope, given))
        return true;
    if (q->encoding == F32)
        return srv_refuse(scope, SRV_VALUE, given,
                          "f32 has the values themselves: a range is for u8 and png");
    if (!srv_needs(scope, "vmin", "vmax", "a range has two ends") ||
        !srv_needs(scope, "vmax", "vmin", "a range has two ends") ||
        !srv_excludes(scope, "range_of", "vmin", "a scale has one range"))
        return false;
    if (!srv_given(scope, "vmin"))
        return true;
    if (isinf(low) || isinf(high) || !(low < high))
        return srv_refuse(scope, SRV_VALUE, "vmin",
                          "expected float32 numbers, vmin below vmax, found %g and %g", q->vmin,
                          q->vmax);
    if (q->against && (low < -high || low > -high))
        return srv_refuse(scope, SRV_VALUE, "vmin",
                          "differences have a range around 0: expected vmin = -vmax, found %g and "
                          "%g",
                          q->vmin, q->vmax);
    return q->against || high > 0 ||
           srv_refuse(scope, SRV_VALUE, "vmax",
                      "weights are 0 or more: expected vmax above 0, found %g", q->vmax);
}

/* Checks the fields that exclude each other. false: a problem is set. */
static bool check_fields(const srv_scope *scope, const tile_query *q) {
    const char *encoding = encodings[q->encoding];
    if (q->encoding != PNG && srv_given(scope, "colormap"))
        return srv_refuse(scope, SRV_VALUE, "colormap", "colours are for png, not for %s",
                          encoding);
    if (q->encoding == PNG && q->pool == ATTN_POOL_BOTH)
        return srv_refuse(scope, SRV_VALUE, "pool",
                          "a PNG has one plane: expected max or mean, found both");
    if (q->encoding == F32 && q->transform == SRV_TILE_DECADES)
        return srv_refuse(scope, SRV_VALUE, "transform",
                          "f32 has the values themselves: decades are for u8 and png");
    if (q->against && q->transform == SRV_TILE_DECADES)
        return srv_refuse(scope, SRV_VALUE, "transform",
                          "differences can be 0 and negative, which has no logarithm: expected "
                          "linear, sqrt or log with against");
    return check_scale(scope, q);
}

/* Holds the runs of the request and finds their sites. false: a problem is set. */
static bool find_runs(const srv_scope *scope, tile_call *c) {
    tile_query *q = &c->q;
    q->spot.all_heads = q->head.is == SRV_U_STRING;
    q->spot.head = q->spot.all_heads ? 0 : q->head.integer;
    srv_run_spot other = q->spot;
    if (!srv_run_spot_check(scope, c->run, &q->spot))
        return false;
    if (!q->against)
        return true;
    c->against = srv_run_look(c->req, q->against);
    if (!c->against || !srv_run_spot_check(scope, c->against, &other))
        return false;
    return other.batch == q->spot.batch ||
           srv_refuse(scope, SRV_VALUE, "against",
                      "the layer begins at batch entry %zu of the site in that run, and at %zu in "
                      "this one; they have to be the same",
                      c->against->first_entry, c->run->first_entry);
}

/* Holds the run and reads the query into `c`. The default of `pool` depends on the encoding. false:
 * a problem is set. */
static bool read_query(tile_call *c) {
    tile_query *q = &c->q;
    const srv_scope scope = {c->req, srv_run_tiles_query, &q->given, ""};
    if (!(c->run = srv_run_of(c->req)) || !srv_read_query(c->req, srv_run_tiles_query, q))
        return false;
    if (!srv_given(&scope, "encoding") && (c->req->accept & SRV_ACCEPT_PNG))
        q->encoding = PNG;
    if (!srv_given(&scope, "pool"))
        q->pool = q->encoding == PNG ? ATTN_POOL_MAX : ATTN_POOL_BOTH;
    if (!check_fields(&scope, q) || !find_runs(&scope, c))
        return false;
    c->at = (attn_run_place){.batch = (size_t)q->spot.batch,
                             .head = (size_t)q->spot.head,
                             .level = (size_t)q->level,
                             .y = (size_t)q->y,
                             .x = (size_t)q->x,
                             .view = {.normalize = srv_given(&scope, "normalize")
                                                       ? (attn_run_normalize)(q->normalize + 1)
                                                       : ATTN_RUN_AS_IS,
                                      .mean_heads = q->spot.all_heads,
                                      .against = c->against ? c->against->site : NULL}};
    return true;
}

/* --- tiles --- */

/* Computes a tile of the head, or copies it from the head's map. false: a problem is set, or the
 * request has to wait (req->later). */
static bool make_tile(tile_call *c, attn_run_place at, attn_run_tile *tile) {
    srv_request *req = c->req;
    size_t shape[2];
    attn_cost cost;
    attn_error err = {0};
    if (attn_run_tile_shape(c->run->site, &at, shape, &err))
        return srv_problem_error(c->req, &err);
    if (at.level >= srv_run_mapped_level(c->run->site, &c->at.view)) {
        const srv_run_mapping m = {req, c->run, c->against, c->at};
        if (!c->map && !srv_run_map_hold(&m, true, &c->map))
            return false;
        at.map = srv_map_cells(c->map);
    }
    if (attn_run_tile_cost(c->run->site, &at, 1, &cost, &err))
        return srv_problem_error(c->req, &err);
    /* For little work, several threads would not save time. */
    attn_pool *pool = cost.cells > (1 << 18) ? srv_request_pool(req) : NULL;
    if (attn_run_tile_cost(c->run->site, &at, attn_pool_slots(pool), &cost, &err))
        return srv_problem_error(c->req, &err);
    return srv_run_admit_cost(req, &cost,
                              (double)cost.work_bytes + 3 * (double)cost.result_bytes) &&
           (!attn_run_tile_make(c->run->site, &at, pool, &req->control, req->arena, tile, &err) ||
            srv_problem_error(c->req, &err));
}

/* Makes the requested *tile, and sets *of to the tile whose range is the scale. This is *tile or,
 * if range_of names the head, the topmost tile of the head. The topmost tile is made first, because
 * the request may have to wait for it. false: a problem is set, or the request has to wait
 * (req->later). */
static bool make_tiles(tile_call *c, attn_run_tile *tile, attn_run_tile *of) {
    const bool head = c->q.range_of != OF_TILE;
    attn_run_place top = c->at;
    top.level = attn_run_levels(c->run->site) - 1, top.y = top.x = 0;
    if ((head && !make_tile(c, top, of)) || !make_tile(c, c->at, tile))
        return false;
    *of = head ? *of : *tile;
    return true;
}

/* Sets the scales of both planes to the ranges of the tile `of`, or to vmin and vmax of the
 * request. */
static void set_scales(const tile_call *c, const attn_run_tile *of, srv_tile_scale scales[PLANES]) {
    const tile_query *q = &c->q;
    const bool given = q->vmin < q->vmax; /* if absent, vmin and vmax are both 0 */
    for (size_t p = 0; p < PLANES; p++) {
        const float *range = p == MAX ? of->range : of->mean_range;
        const float most = fmaxf(fabsf(range[0]), fabsf(range[1]));
        scales[p] = (srv_tile_scale){.range = {range[0], range[1]},
                                     .transform = (srv_tile_transform)q->transform,
                                     .differs = c->against != NULL};
        if (given)
            scales[p].range[0] = (float)q->vmin, scales[p].range[1] = (float)q->vmax;
        else if (c->against && q->encoding != F32)
            scales[p].range[0] = -most, scales[p].range[1] = most;
        else if (q->range_of == OF_HEAD_FROM_0)
            scales[p].range[0] = fminf(range[0], 0);
    }
}

/* --- answers --- */

static bool has_plane(const tile_call *c, size_t plane) {
    return c->q.pool == ATTN_POOL_BOTH || c->q.pool == (int)plane;
}

static const float *cells_of(const attn_run_tile *tile, size_t plane) {
    return plane == MAX ? tile->max : tile->mean;
}

/* Sets the body of the reply to the planes of the tile. false: out of memory. */
static bool encode_tile(const tile_call *c, const attn_run_tile *tile,
                        const srv_tile_scale scales[PLANES]) {
    const size_t n = tile->shape[0] * tile->shape[1];
    const size_t first = has_plane(c, MAX) ? MAX : MEAN,
                 count = has_plane(c, MAX) + (size_t)has_plane(c, MEAN);
    srv_request *req = c->req;
    const void *png;
    size_t size;
    if (c->q.encoding == F32) { /* the max and mean planes are adjacent in memory */
        srv_reply_set(req, 200, SRV_OCTETS, (const char *)cells_of(tile, first),
                      count * n * sizeof(float));
        return true;
    }
    uint8_t *codes = attn_arena_take(req->arena, count * n);
    if (!codes)
        return false;
    for (size_t p = first; p < first + count; p++)
        srv_tile_codes(codes + (p - first) * n, cells_of(tile, p), n, &scales[p]);
    if (c->q.encoding == U8) {
        srv_reply_set(req, 200, SRV_OCTETS, (const char *)codes, count * n);
        return true;
    }
    attn_error err;
    if (srv_tile_png(codes, tile->shape, &scales[first], (attn_colormap)c->q.colormap, req->arena,
                     &png, &size, &err))
        return false;
    srv_reply_set(req, 200, "image/png", png, size);
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

static void describe_tile(const tile_call *c, const attn_run_tile *tile,
                          const srv_tile_scale scales[PLANES]) {
    srv_request *req = c->req;
    const int encoding = c->q.encoding;
    attn_text shape = {.arena = req->arena}, how = {.arena = req->arena};
    attn_text_add(&shape, "%zu,%zu", tile->shape[0], tile->shape[1]);
    attn_text_add(&how, "%s%s%s", encodings[encoding], encoding == F32 ? "" : ", ",
                  encoding == F32 ? "" : srv_tile_transforms[c->q.transform]);
    put_header(req, "X-Tile-Shape", &shape);
    put_header(req, "X-Tile-Encoding", &how);
    srv_reply_header(req, "X-Tile-Pooling", srv_pools[c->q.pool]);
    srv_reply_header(req, "X-Tile-Hidden",
                     tile->hidden      ? "all"
                     : encoding == F32 ? "-Infinity"
                                       : "0");
    for (size_t p = 0; p < PLANES; p++)
        if (has_plane(c, p))
            put_range(req, plane_headers[p], scales[p].range);
}

/* Returns the view of the run that may still change the answer. This is `against` if its run is
 * still open, else the run of the path. */
static const srv_run_view *changing(const tile_call *c) {
    return c->against && c->against->held->open ? c->against : c->run;
}

/* Replies with a tile. A tile without visible cells has no body, except as a PNG, because viewers
 * expect a picture. false: a problem is set, or the request has to wait (req->later). */
static bool answer_tile(tile_call *c) {
    srv_request *req = c->req;
    srv_tile_scale scales[PLANES];
    attn_run_tile tile, of;
    const int64_t start = attn_now_ns();
    if (!make_tiles(c, &tile, &of))
        return false;
    set_scales(c, &of, scales);
    req->compute_ns = attn_now_ns() - start;
    if (tile.hidden && c->q.encoding != PNG) {
        srv_reply_set(req, 204, NULL, "", 0);
    } else if (!encode_tile(c, &tile, scales)) {
        return srv_problem_memory(req, NULL, "no memory is left for the tile");
    }
    describe_tile(c, &tile, scales);
    srv_run_tagged(req, changing(c), encodings[c->q.encoding]);
    return true;
}

srv_outcome srv_runs_tiles(srv_request *req) {
    tile_call c = {.req = req};
    bool ok = read_query(&c);
    ok = ok && (srv_run_tagged(req, changing(&c), encodings[c.q.encoding]) || answer_tile(&c)) &&
         (!c.against || srv_run_is_whole(req, c.against->held)) &&
         srv_run_is_whole(req, c.run->held);
    if (ok)
        srv_run_keep(req, changing(&c)->held);
    srv_map_release(req->app->maps, c.map);
    srv_run_leave(req, c.against);
    srv_run_leave(req, c.run);
    return SRV_DONE;
}
