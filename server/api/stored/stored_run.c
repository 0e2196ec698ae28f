/* Code that the routes of /v1/runs/{id} share: holds the run that the path names, checks the fields
 * that select a part, adds the headers that let clients cache answers, and computes exact cells on
 * the pool. */
#include "api/stored/stored_api.h"
#include "base/try.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "load/admission.h"
#include "number/hash.h"
#include "request/shared.h"

const char *const srv_run_kinds[] = {"self", "encoder", "decoder", "cross", NULL};
const char *const srv_run_head_words[] = {"all", NULL};
const char *const srv_run_mean_words[] = {"all", "mean", NULL};

enum { LANE_BYTES = 1 << 20 };
enum { ALL, MEAN }; /* the words of srv_run_mean_words */

srv_run_view *srv_run_look(srv_request *req, const char *id) {
    srv_run_view *view = attn_arena_small(req->arena, sizeof *view);
    if (!view) {
        srv_problem_memory(req, NULL, "no memory is left for the run");
        return NULL;
    }
    *view = (srv_run_view){.held = srv_run_hold(req, id)};
    return view->held ? view : NULL;
}

srv_run_view *srv_run_of(srv_request *req) {
    return srv_run_look(req, req->params[0]);
}

void srv_run_leave(srv_request *req, const srv_run_view *run) {
    if (run)
        srv_run_release(req, run->held);
}

const attn_attention_dims *srv_run_valued(const attn_run_site *site) {
    const attn_inputs *in = attn_run_inputs(site);
    const attn_attention_dims *d = attn_run_dims(site);
    const bool keys_alone = in->key.rank && !in->value.rank;
    return keys_alone || d->relative_values ? NULL : d;
}

bool srv_run_labels(srv_request *req, const attn_run_site *site, srv_labels *out) {
    const attn_attention_dims *d = attn_run_dims(site);
    const size_t entries = attn_run_label_entries(site);
    srv_names *names = attn_arena_zeroed(req->arena, entries + 1, sizeof *names);
    for (size_t b = 0; names && b < entries; b++) {
        const char *const *rows = attn_run_query_labels(site, b);
        const char *const *cols = attn_run_key_labels(site, b);
        names[b] = (srv_names){.given = {{rows || cols}},
                               .query = {(const char **)rows, rows ? d->L : 0},
                               .key = {(const char **)cols, cols ? d->S : 0},
                               .query_special = attn_run_query_special(site, b),
                               .key_special = attn_run_key_special(site, b)};
    }
    *out = (srv_labels){names, entries, entries == 1};
    return names || srv_problem_memory(req, NULL, "no memory is left for the labels of the run");
}

static bool check_below(const srv_scope *scope, const char *name, const char *what, int64_t found,
                        size_t count) {
    if ((uint64_t)found < count)
        return true;
    if (count == 1)
        return srv_refuse(scope, SRV_VALUE, name,
                          "expected 0, the only one in the run, found %" PRId64, found);
    return srv_refuse(scope, SRV_VALUE, name, "the run has %zu %s, counted from 0; found %" PRId64,
                      count, what, found);
}

/* --- the site --- */

/* Sets *out to the index of the selected site. false: a problem is set. */
static bool find_site(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                      size_t *out) {
    size_t *sites, found;
    if (!srv_run_sites(scope, run, spot, &sites, &found))
        return false;
    *out = sites[0];
    return found == 1 ||
           srv_refuse(scope, SRV_VALUE, "site",
                      "%zu of the run's %zu sites are selected: choose one by its name or its "
                      "number as site, or by layer and kind",
                      found, attn_run_site_count(run));
}

/* Returns whether the route has the field `head`. Requests to other routes are about all heads. */
static bool has_head(const srv_field *fields) {
    while (fields->name && strcmp(fields->name, "head") != 0)
        fields++;
    return fields->name != NULL;
}

/* Sets run->first_entry and run->entries. They cover all batch entries of the site or, if the site
 * has an axis of layers and the request names a layer, the entries of that layer. false: a problem
 * is set. */
static bool find_entries(const srv_scope *scope, srv_run_view *run, size_t site,
                         const srv_run_spot *spot) {
    const attn_run_site_info *info = attn_run_site_info_of(run->held->run, site);
    const size_t layers = attn_run_site_layers(run->held->run, site);
    const size_t each = attn_run_site_entries(run->held->run, site);
    run->first_entry = 0;
    run->entries = attn_run_dims(run->site)->B;
    if (!layers || !srv_given(scope, "layer"))
        return true;
    const size_t layer = (size_t)spot->layer - info->layer; /* huge for a layer below the first */
    if (layer >= layers)
        return srv_refuse(scope, SRV_VALUE, "layer",
                          "the site has the layers %zu to %zu, found %" PRId64, info->layer,
                          info->layer + layers - 1, spot->layer);
    run->first_entry = layer * each;
    run->entries = each;
    return true;
}

/* Returns the number of heads among which the request chooses. */
static size_t count_heads(const srv_run_view *run, const srv_run_spot *spot) {
    const attn_attention_dims *d = attn_run_dims(run->site);
    return spot->of_scores ? d->Hq : d->Ho;
}

/* Verifies the stored bytes that a head is computed from. If the site mixes heads, its score heads
 * are not its weight heads. In that case a request about scores verifies all heads. */
static bool touch_head(const srv_scope *scope, const srv_run_view *run, const srv_run_spot *spot,
                       size_t head) {
    const bool other = spot->of_scores && attn_run_dims(run->site)->factors;
    return srv_run_touch(scope->req, run, (size_t)spot->batch, other ? SIZE_MAX : head);
}

bool srv_run_spot_check(const srv_scope *scope, srv_run_view *run, srv_run_spot *spot) {
    size_t site = 0;
    attn_error err = {0};
    if (!find_site(scope, run->held->run, spot, &site))
        return false;
    if (attn_run_site_open(run->held->run, site, &run->site, &err))
        return srv_problem_error(scope->req, &err);
    run->index = site;
    const bool one = has_head(scope->fields);
    if (!find_entries(scope, run, site, spot) ||
        !check_below(scope, "batch", "batch entries", spot->batch, run->entries) ||
        !(spot->all_heads ||
          check_below(scope, "head", "heads", spot->head, count_heads(run, spot))))
        return false;
    spot->batch += (int64_t)run->first_entry;
    return one ? touch_head(scope, run, spot, spot->all_heads ? SIZE_MAX : (size_t)spot->head)
               : srv_run_touch(scope->req, run, SIZE_MAX, SIZE_MAX);
}

/* --- the part of the weights that a request selects --- */

/* Stores the heads of the list in the part, or all `count` heads if `list` is NULL. */
static bool set_heads(const srv_scope *scope, const srv_ints *list, size_t count,
                      srv_run_part *out) {
    out->head_count = list ? list->count : count;
    out->heads = attn_arena_zeroed(scope->req->arena, out->head_count, sizeof *out->heads);
    if (!out->heads)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the heads");
    for (size_t i = 0; i < out->head_count; i++) {
        char place[32];
        snprintf(place, sizeof place, "heads/%zu", i);
        out->heads[i] = list ? list->values[i] : (int64_t)i;
        if (!check_below(scope, place, "heads", out->heads[i], count))
            return false;
    }
    return out->head_count > 0 ||
           srv_refuse(scope, SRV_VALUE, "heads", "expected at least one head, found an empty list");
}

static bool select_heads(const srv_scope *scope, const srv_run_view *run, const srv_run_spot *spot,
                         const srv_union *heads, srv_run_part *out) {
    const srv_ints one = {(int64_t *)&spot->head, 1};
    out->mean = heads->is == SRV_U_STRING && heads->choice == MEAN;
    out->many = heads->is != 0 && !out->mean;
    if (heads->is &&
        !srv_excludes(scope, "heads", "head", "both select heads, and heads may name only one"))
        return false;
    return set_heads(scope,
                     !heads->is                ? &one
                     : heads->is == SRV_U_INTS ? &heads->ints
                                               : NULL,
                     count_heads(run, spot), out);
}

static bool select_rows(const srv_scope *scope, const srv_ranges *rows, size_t L,
                        srv_run_part *out) {
    srv_bounds *all = attn_arena_small(scope->req->arena, sizeof *all);
    if (!all)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the rows");
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

bool srv_run_select(const srv_scope *scope, const srv_run_view *run, const srv_run_spot *spot,
                    const srv_union *heads, const srv_ranges *rows, const srv_ranges *cols,
                    srv_run_part *out) {
    const attn_attention_dims *d = attn_run_dims(run->site);
    size_t to = d->S;
    *out = (srv_run_part){.batch = (size_t)spot->batch};
    if (!select_heads(scope, run, spot, heads, out) || !select_rows(scope, rows, d->L, out) ||
        (cols && !srv_range(scope, "cols", cols, d->S, &out->col, &to)))
        return false;
    out->cols = to - out->col;
    for (size_t h = 0; out->many && h < out->head_count; h++)
        if (!touch_head(scope, run, spot, (size_t)out->heads[h]))
            return false;
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

bool srv_run_admit_cost(srv_request *req, const attn_cost *cost, double bytes) {
    const double most = req->app->config->max_cells;
    if (cost->cells <= most)
        return srv_admission_work(req, cost->operations, bytes);
    return srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                             "%.4g score cells have to be computed; at most %.4g are allowed",
                             cost->cells, most);
}

void srv_run_keep(srv_request *req, const srv_run *run) {
    attn_text t = {.arena = req->arena};
    const int64_t left = (run->ends_ns - attn_now_ns()) / 1000000000;
    if (run->open)
        attn_text_add(&t, "no-store");
    else
        attn_text_add(&t, "private, max-age=%" PRId64 ", immutable", left > 0 ? left : 0);
    if (srv_is_post(req) ||
        (req->reply.status != 200 && req->reply.status != 204 && req->reply.status != 304))
        return;
    srv_reply_header(req, "Cache-Control", t.failed ? "no-store" : t.data);
}

void srv_run_tell(srv_request *req, const srv_run *run) {
    const char *id = attn_arena_text(req->arena, run->id, SRV_RUN_ID);
    if (req->reply.status >= 400)
        srv_run_discard(req, run);
    else if (id) /* a header, because a picture has no field for the id */
        srv_reply_header(req, "X-Run-Id", id);
    srv_run_release(req, run);
}

bool srv_run_tagged(srv_request *req, const srv_run_view *run, const char *kind) {
    if (run->held->open)
        return false;
    uint64_t hash = attn_hash(ATTN_HASH_START, run->held->id, strlen(run->held->id));
    attn_text t = {.arena = req->arena};
    hash = attn_hash(hash, &run->held->print, sizeof run->held->print);
    hash = attn_hash(hash, kind, strlen(kind));
    hash = attn_hash(hash, req->query, strlen(req->query));
    attn_text_add(&t, "W/\"%s-%016" PRIx64 "\"", kind, hash);
    if (t.failed)
        return false;
    const char *tag = t.data + 2, *asked = req->if_none_match ? req->if_none_match : "";
    const bool known = strcmp(asked, "*") == 0 || strstr(asked, tag);
    if (known)
        srv_reply_set(req, 304, NULL, "", 0);
    /* An answer that is compressed gets a weak ETag (http/coding.c). If the client sent the weak
     * ETag, the reply has it, too. */
    srv_reply_header(req, "ETag", strstr(asked, t.data) ? t.data : tag);
    return known;
}

/* --- cells, computed on the pool --- */

/* Lists the ranges of rows of the part for each of its first `heads` heads or, if part->mean, once
 * for head 0. NULL: out of memory. */
static attn_range *list_ranges(srv_request *req, const srv_run_part *part, size_t heads) {
    size_t n;
    attn_range *ranges = attn_size_mul(heads, part->range_count, &n)
                             ? attn_arena_zeroed(req->arena, n, sizeof *ranges)
                             : NULL;
    for (size_t i = 0; ranges && i < n; i++) {
        const size_t h = i / part->range_count, r = i % part->range_count;
        ranges[i] = (attn_range){.batch = part->batch,
                                 .head = part->mean ? 0 : (size_t)part->heads[h],
                                 .row = (size_t)part->ranges[r].from,
                                 .rows = (size_t)(part->ranges[r].to - part->ranges[r].from),
                                 .col = part->col,
                                 .cols = part->cols};
    }
    return ranges;
}

attn_status srv_run_cells(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                          attn_stage stage, void *dst, attn_error *err) {
    attn_range *ranges = list_ranges(req, part, part->head_count);
    ATTN_TAKEN(ranges, "the rows", err);
    return attn_run_cells(run->site, ranges, part->head_count * part->range_count, stage,
                          srv_request_pool(req), &req->control, req->arena, dst, err);
}

double srv_run_cells_work(const srv_request *req, const srv_run_view *run) {
    const attn_attention_dims *d = attn_run_dims(run->site);
    const double widest =
        (double)(d->score_width > d->value_width ? d->score_width : d->value_width);
    return (double)attn_pool_slots(srv_request_pool(req)) * (LANE_BYTES + 16384 * widest);
}

/* --- the mean of the heads --- */

attn_status srv_run_mean(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                         void *dst, attn_error *err) {
    attn_range *ranges = list_ranges(req, part, 1);
    ATTN_TAKEN(ranges, "the rows", err);
    return attn_run_mean(run->site, ranges, part->range_count, srv_request_pool(req), &req->control,
                         req->arena, dst, err);
}

double srv_run_mean_work(const srv_request *req, const srv_run_view *run,
                         const srv_run_part *part) {
    const size_t slots = attn_pool_slots(srv_request_pool(req));
    return (double)attn_run_mean_work(run->site, slots) +
           (double)part->rows * (ATTN_RUN_MEAN_ROW + (double)sizeof(attn_range));
}
