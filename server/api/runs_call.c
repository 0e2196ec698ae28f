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
const char *const srv_run_head_words[] = {"all", NULL};

enum { PIECE_ROWS = 64, LANE_BYTES = 1 << 20 };

const srv_run *srv_run_of(srv_request *req) {
    return srv_run_hold(req, req->params[0]);
}

const attn_attention_dims *srv_run_valued(const attn_run *run) {
    const attn_inputs *in = attn_run_inputs(run);
    const attn_attention_dims *d = attn_run_dims(run);
    const bool keys_alone = in->key.rank && !in->value.rank;
    return keys_alone || d->relative_values ? NULL : d;
}

bool srv_run_labels(srv_request *req, const attn_run *run, srv_labels *out) {
    const attn_attention_dims *d = attn_run_dims(run);
    const size_t entries = attn_run_label_entries(run);
    srv_names *names = attn_arena_zeroed(req->arena, entries + 1, sizeof *names);
    for (size_t b = 0; names && b < entries; b++) {
        const char *const *rows = attn_run_query_labels(run, b);
        const char *const *cols = attn_run_key_labels(run, b);
        names[b] = (srv_names){.given = rows || cols,
                               .query = {(const char **)rows, rows ? d->L : 0},
                               .key = {(const char **)cols, cols ? d->S : 0}};
    }
    *out = (srv_labels){names, entries, entries == 1};
    if (!names)
        srv_problem_memory(req, NULL, "no memory is left for the labels of the run");
    return names != NULL;
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

/* --- the part of the weights that a request selects --- */

/* Stores the heads of the list in the part, or all `count` heads if `list` is NULL. */
static bool set_heads(const srv_scope *scope, const srv_ints *list, size_t count,
                      srv_run_part *out) {
    out->head_count = list ? list->count : count;
    out->heads = attn_arena_zeroed(scope->req->arena, out->head_count, sizeof *out->heads);
    if (!out->heads) {
        srv_problem_memory(scope->req, NULL, "no memory is left for the heads");
        return false;
    }
    for (size_t i = 0; i < out->head_count; i++) {
        char place[32];
        snprintf(place, sizeof place, "heads/%zu", i);
        out->heads[i] = list ? list->values[i] : (int64_t)i;
        if (!within(scope, place, "heads", out->heads[i], count))
            return false;
    }
    return out->head_count > 0 ||
           srv_refuse(scope, SRV_VALUE, "heads", "expected at least one head, found an empty list");
}

static bool select_heads(const srv_scope *scope, const srv_run *run, const srv_run_spot *spot,
                         const srv_union *heads, srv_run_part *out) {
    const srv_ints one = {(int64_t *)&spot->head, 1};
    out->many = heads->is != 0;
    if (out->many &&
        !srv_excludes(scope, "heads", "head", "both select heads, and heads may name only one"))
        return false;
    return set_heads(scope,
                     !out->many                ? &one
                     : heads->is == SRV_U_INTS ? &heads->ints
                                               : NULL,
                     attn_run_dims(run->run)->Hq, out);
}

static bool select_rows(const srv_scope *scope, const srv_ranges *rows, size_t L,
                        srv_run_part *out) {
    srv_bounds *all = attn_arena_small(scope->req->arena, sizeof *all);
    if (!all) {
        srv_problem_memory(scope->req, NULL, "no memory is left for the rows");
        return false;
    }
    *all = (srv_bounds){0, (int64_t)L};
    out->ranges = all;
    out->range_count = 1;
    if (srv_given(scope, "rows")) {
        if (!srv_ranges_check(scope, "rows", rows, L))
            return false;
        out->ranges = rows->items;
        out->range_count = rows->count;
    }
    for (size_t i = 0; i < out->range_count; i++)
        out->rows += (size_t)(out->ranges[i].to - out->ranges[i].from);
    return true;
}

bool srv_run_select(const srv_scope *scope, const srv_run *run, const srv_run_spot *spot,
                    const srv_union *heads, const srv_ranges *rows, const srv_ranges *cols,
                    srv_run_part *out) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    size_t to = d->S;
    *out = (srv_run_part){.batch = (size_t)spot->batch};
    if (!select_heads(scope, run, spot, heads, out) || !select_rows(scope, rows, d->L, out) ||
        (cols && !srv_range(scope, "cols", cols, d->S, &out->col, &to)))
        return false;
    out->cols = to - out->col;
    return true;
}

int srv_run_part_dims(const srv_run_part *part, size_t width, size_t dims[3]) {
    int rank = 0;
    if (part->many)
        dims[rank++] = part->head_count;
    dims[rank++] = part->rows;
    dims[rank++] = width;
    return rank;
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

/* Some rows of one head. Their cells begin with row number `at` of dst, counted over all heads. */
typedef struct piece {
    size_t head, row, rows, at;
} piece;

typedef struct filler {
    const srv_run *run;
    const srv_run_part *part;
    attn_stage stage;
    char *dst;
    attn_cells_scratch **lanes;
    piece *pieces;
    size_t count;
} filler;

static attn_status fill_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const filler *f = ctx;
    const piece *p = &f->pieces[index];
    const size_t cols = f->part->cols, elem = attn_dtype_size(attn_run_dims(f->run->run)->result);
    const attn_range range = {.batch = f->part->batch,
                              .head = p->head,
                              .row = p->row,
                              .rows = p->rows,
                              .col = f->part->col,
                              .cols = cols};
    return attn_attention_cells(attn_run_attention(f->run->run), attn_run_stats(f->run->run),
                                &range, f->stage, f->dst + p->at * cols * elem, cols,
                                f->lanes[lane], err);
}

/* Divides the rows of the part into pieces. false: memory ran out. */
static bool divide(srv_request *req, filler *f) {
    const srv_run_part *part = f->part;
    size_t most = 0, at = 0;
    for (size_t i = 0; i < part->range_count; i++)
        most += (size_t)(part->ranges[i].to - part->ranges[i].from) / PIECE_ROWS + 1;
    if (!attn_size_mul(most, part->head_count, &most) ||
        !(f->pieces = attn_arena_zeroed(req->arena, most, sizeof *f->pieces)))
        return false;
    for (size_t h = 0; h < part->head_count; h++)
        for (size_t i = 0; i < part->range_count; i++) {
            const size_t to = (size_t)part->ranges[i].to;
            for (size_t row = (size_t)part->ranges[i].from, n; row < to; row += n, at += n) {
                n = to - row < PIECE_ROWS ? to - row : PIECE_ROWS;
                f->pieces[f->count++] = (piece){(size_t)part->heads[h], row, n, at};
            }
        }
    return true;
}

attn_status srv_run_cells(srv_request *req, const srv_run *run, const srv_run_part *part,
                          attn_stage stage, void *dst, attn_error *err) {
    attn_pool *pool = srv_request_pool(req);
    const size_t slots = attn_pool_slots(pool);
    filler f = {.run = run, .part = part, .stage = stage, .dst = dst};
    f.lanes = attn_arena_zeroed(req->arena, slots, sizeof *f.lanes);
    bool ok = f.lanes && divide(req, &f);
    for (size_t s = 0; s < slots && ok; s++)
        ok = (f.lanes[s] = attn_cells_scratch_new(attn_run_attention(run->run), req->arena));
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for scratch");
    return attn_pool_run(pool, f.count, fill_piece, &f, &req->control, err);
}

double srv_run_cells_work(const srv_request *req, const srv_run *run) {
    const attn_attention_dims *d = attn_run_dims(run->run);
    const double widest = (double)(d->score_width > d->Ev ? d->score_width : d->Ev);
    return (double)attn_pool_slots(srv_request_pool(req)) * (LANE_BYTES + 16384 * widest);
}
