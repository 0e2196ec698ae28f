/* Code that the routes of /v1/runs/{id} share: the run that the path names, the checks of a query
 * string, the headers that let clients keep answers, and exact cells computed on the pool. */
#include "api/runs_call.h"
#include "api/route_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load/admission.h"
#include "number/hash.h"
#include "request/shared.h"

const char *const srv_run_sites[] = {"attention", NULL};

enum { PIECE_ROWS = 64, LANE_BYTES = 1 << 20 };

const srv_run *srv_run_of(srv_request *req) {
    return srv_run_hold(req, req->params[0]);
}

srv_labels srv_run_labels(const attn_run *run) {
    const attn_attention_dims *d = attn_run_dims(run);
    const char *const *rows = attn_run_query_labels(run), *const *cols = attn_run_key_labels(run);
    return (srv_labels){.given = rows || cols,
                        .query = {(const char **)rows, rows ? d->L : 0},
                        .key = {(const char **)cols, cols ? d->S : 0}};
}

static bool within(const srv_scope *scope, const char *name, const char *what, int64_t found,
                   size_t count) {
    if ((uint64_t)found < count)
        return true;
    return srv_refuse(scope, SRV_VALUE, name, "the run has %zu %s, counted from 0; found %" PRId64,
                      count, what, found);
}

bool srv_run_spot_check(const srv_scope *scope, const srv_run *run, const srv_run_spot *spot) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    return within(scope, "layer", "layer", spot->layer, 1) &&
           within(scope, "batch", "batch entries", spot->batch, d->B) &&
           within(scope, "head", "heads", spot->head, d->Hq);
}

bool srv_run_range(const srv_scope *scope, const char *name, const srv_ints *list, size_t size,
                   size_t *from, size_t *count) {
    size_t to = size;
    *from = 0;
    const bool ok = srv_range(scope, name, list, size, from, &to);
    *count = to - *from;
    return ok;
}

bool srv_run_admit(srv_request *req, double cells, double bytes) {
    const double most = req->app->config->max_cells;
    if (cells <= most)
        return srv_admission_work(req, cells, bytes);
    srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                      "%.4g score cells have to be computed; at most %.4g are allowed", cells,
                      most);
    return false;
}

void srv_run_keep(srv_request *req, const srv_run *run) {
    attn_text t = {.arena = req->arena};
    const int64_t left = (run->ends_ns - attn_now_ns()) / 1000000000;
    attn_text_add(&t, "private, max-age=%" PRId64 ", immutable", left > 0 ? left : 0);
    if (req->reply.status != 200 && req->reply.status != 204 && req->reply.status != 304)
        return;
    srv_reply_header(req, "Cache-Control", t.failed ? "no-store" : t.data);
}

const srv_run *srv_run_begin(srv_request *req, const srv_field *fields, void *query,
                             const srv_run_spot *spot) {
    const srv_scope scope = {req, fields, query, ""};
    const srv_run *run = srv_run_of(req);
    if (!run || (srv_decode_query(req, fields, query) && srv_run_spot_check(&scope, run, spot)))
        return run;
    srv_run_release(req, run);
    return NULL;
}

srv_outcome srv_run_end(srv_request *req, const srv_run *run, bool answered) {
    if (answered && srv_run_is_whole(req, run))
        srv_run_keep(req, run);
    srv_run_release(req, run);
    return SRV_DONE;
}

bool srv_run_tagged(srv_request *req, const srv_run *run, const char *kind) {
    uint64_t hash = attn_hash(ATTN_HASH_START, run->id, strlen(run->id));
    attn_text t = {.arena = req->arena};
    hash = attn_hash(hash, kind, strlen(kind));
    hash = attn_hash(hash, req->query, strlen(req->query));
    attn_text_add(&t, "W/\"%s-%016" PRIx64 "\"", kind, hash);
    if (t.failed)
        return false;
    const char *tag = t.data + 2, *asked = req->if_none_match ? req->if_none_match : "";
    const bool known = strcmp(asked, "*") == 0 || strstr(asked, tag);
    if (known)
        srv_reply_set(req, 304, NULL, "", 0);
    /* A compressed answer has a weak ETag (http/coding.c). If the client sends that one, it gets
     * the same one back. */
    srv_reply_header(req, "ETag", strstr(asked, t.data) ? t.data : tag);
    return known;
}

/* --- cells, computed on the pool --- */

typedef struct filler {
    const srv_run *run;
    attn_range range;
    attn_stage stage;
    char *dst;
    attn_cells_scratch **lanes;
} filler;

static attn_status fill_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const filler *f = ctx;
    attn_range part = f->range;
    const size_t first = index * PIECE_ROWS, left = f->range.rows - first;
    const size_t elem = attn_dtype_size(attn_run_dims(f->run->run)->result);
    part.row += first;
    part.rows = left < PIECE_ROWS ? left : PIECE_ROWS;
    return attn_attention_cells(attn_run_attention(f->run->run), attn_run_stats(f->run->run), &part,
                                f->stage, f->dst + first * f->range.cols * elem, f->range.cols,
                                f->lanes[lane], err);
}

attn_status srv_run_cells(srv_request *req, const srv_run *run, const attn_range *range,
                          attn_stage stage, void *dst, attn_error *err) {
    attn_pool *pool = srv_request_pool(req);
    const size_t slots = attn_pool_slots(pool);
    filler f = {run, *range, stage, dst, attn_arena_zeroed(req->arena, slots, sizeof *f.lanes)};
    for (size_t s = 0; s < slots; s++)
        if (!f.lanes ||
            !(f.lanes[s] = attn_cells_scratch_new(attn_run_attention(run->run), req->arena)))
            return attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
    return attn_pool_run(pool, (range->rows + PIECE_ROWS - 1) / PIECE_ROWS, fill_piece, &f,
                         &req->control, err);
}

double srv_run_cells_work(const srv_request *req, const srv_run *run) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    const double widest = (double)(d->score_width > d->Ev ? d->score_width : d->Ev);
    return (double)attn_pool_slots(srv_request_pool(req)) * (LANE_BYTES + 16384 * widest);
}
