/* Descriptions of a stored run: GET and DELETE /v1/runs/{id}, and GET /v1/runs/{id}/metrics, which
 * answers the analysis that POST /v1/attention offers. */
#include <time.h>

#include "api/analyses_call.h"
#include "api/form_input.h"
#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/runs_call.h"
#include "api/text_reply.h"
#include "request/shared.h"

static void put_size(srv_json *j, const char *name, size_t value) {
    srv_json_key(j, name);
    srv_json_size(j, value);
}

static void put_text(srv_json *j, const char *name, const char *value) {
    srv_json_key(j, name);
    srv_json_string(j, value);
}

static void put_tiles(srv_json *j, const attn_run_site *site) {
    const size_t levels = attn_run_levels(site), overview = attn_run_overview_level(site);
    srv_json_key(j, "tiles");
    srv_json_object(j);
    put_size(j, "size", ATTN_RUN_TILE);
    srv_json_key(j, "levels");
    srv_json_array(j);
    for (size_t level = 0; level < levels; level++) {
        size_t shape[2];
        attn_run_level_shape(site, level, shape);
        srv_json_array(j);
        srv_json_size(j, shape[0]);
        srv_json_size(j, shape[1]);
        srv_json_array_end(j);
    }
    srv_json_array_end(j);
    srv_json_key(j, "overview_level");
    if (overview == SIZE_MAX)
        srv_json_null(j);
    else
        srv_json_size(j, overview);
    srv_json_object_end(j);
}

static void put_shapes(srv_json *j, const attn_attention_dims *d) {
    put_size(j, "batches", d->B);
    put_size(j, "heads", d->Hq);
    put_size(j, "kv_heads", d->Hkv);
    put_size(j, "queries", d->L);
    put_size(j, "keys", d->S);
    put_size(j, "past", d->past);
    put_size(j, "width", d->E);
    put_size(j, "value_width", d->Ev);
    srv_json_key(j, "weights_shape");
    srv_json_array(j);
    for (int i = 0; i < d->weights_rank; i++)
        srv_json_size(j, d->weights[i]);
    srv_json_array_end(j);
}

static void put_expiry(srv_json *j, int64_t ends_ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t wall_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    const time_t seconds = (time_t)((wall_ns + ends_ns - attn_now_ns()) / 1000000000);
    char text[32] = "";
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    put_text(j, "expires", text);
}

static void put_list(srv_json *j, const char *name, const int64_t *values, size_t n) {
    if (!values)
        return;
    srv_json_key(j, name);
    srv_json_array(j);
    for (size_t i = 0; i < n; i++)
        srv_json_int(j, values[i]);
    srv_json_array_end(j);
}

/* Writes the number of a side's text, or a list with one for each batch entry. */
static void put_text_number(srv_json *j, const char *name, const size_t *numbers, size_t count) {
    if (count == 1)
        put_size(j, name, *numbers);
    else
        put_list(j, name, (const int64_t *)numbers, count);
}

/* Writes what is known of a site without opening it. */
static void put_info(srv_json *j, const attn_run_site_info *info, const attn_attention_dims *d,
                     size_t index) {
    put_size(j, "site", index);
    put_text(j, "name", info->name);
    put_text(j, "kind", attn_run_kind_name(info->kind));
    put_size(j, "layer", info->layer);
    put_size(j, "call", info->call);
    put_size(j, "query_start", info->query_start);
    put_size(j, "key_start", info->key_start);
    put_list(j, "query_lengths", info->query_lengths, d->B);
    put_list(j, "key_lengths", info->key_lengths, d->B);
    put_text_number(j, "query_text", info->query_texts, info->query_text_count);
    put_text_number(j, "key_text", info->key_texts, info->key_text_count);
    srv_json_key(j, "axes");
    srv_json_array(j);
    for (size_t i = 0; i < info->axis_count; i++)
        srv_json_string(j, info->axes[i]);
    srv_json_array_end(j);
    put_shapes(j, d);
}

static void put_operation(srv_json *j, const attn_run_site *site) {
    const attn_attention_dims *d = attn_run_dims(site);
    const attn_inputs *in = attn_run_inputs(site);
    put_text(j, "dtype", attn_dtype_name(d->result));
    put_text(j, "score", attn_score_name(in->score.kind));
    put_text(j, "position", srv_position_names[in->position.kind]);
    srv_json_key(j, "scale");
    srv_json_real(j, attn_attention_scale(attn_run_attention(site)));
    srv_json_key(j, "softcap");
    srv_json_real(j, in->softcap);
    srv_json_key(j, "dropout_p");
    srv_json_real(j, in->dropout_p);
    put_text(j, "mask", attn_run_words(site));
    put_text(j, "kernel", attn_attention_kernel(attn_run_attention(site)));
    put_text(j, "precision", attn_precision_name(d->precision));
    srv_json_key(j, "exact");
    srv_json_bool(j, attn_run_is_exact(site));
}

/* Writes a site. If it cannot be opened, `problem` says why, and the other sites stay usable. */
static void put_site(srv_json *j, const attn_run *run, size_t index) {
    const attn_run_site *site;
    attn_error err = {0};
    srv_labels labels;
    srv_json_object(j);
    put_info(j, attn_run_site_info_of(run, index), attn_run_site_shape(run, index), index);
    if (attn_run_site_open(run, index, &site, &err)) {
        put_text(j, "problem", err.text);
    } else {
        put_operation(j, site);
        j->failed = j->failed || !srv_run_labels(j->req, site, &labels);
        if (!j->failed && labels.count > 0) {
            srv_json_key(j, "labels");
            srv_labels_write(j, &labels);
        }
        put_tiles(j, site);
    }
    srv_json_object_end(j);
}

/* Writes a text. The members that it lacks are absent. */
static void put_run_text(srv_json *j, const attn_run_text *text) {
    srv_json_object(j);
    srv_json_key(j, "tokens");
    srv_json_array(j);
    for (size_t i = 0; i < text->count; i++)
        srv_json_string(j, text->tokens[i]);
    srv_json_array_end(j);
    put_list(j, "ids", text->ids, text->count);
    if (text->text)
        put_text(j, "text", text->text);
    for (size_t i = 0; text->offsets && i < text->count; i++) {
        if (i == 0) {
            srv_json_key(j, "offsets");
            srv_json_array(j);
        }
        srv_json_array(j);
        srv_json_size(j, text->offsets[i][0]);
        srv_json_size(j, text->offsets[i][1]);
        srv_json_array_end(j);
        if (i + 1 == text->count)
            srv_json_array_end(j);
    }
    if (text->special) {
        srv_json_key(j, "special");
        srv_json_array(j);
        for (size_t i = 0; i < text->count; i++)
            if (text->special[i])
                srv_json_size(j, i);
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
}

void srv_run_write(srv_json *j, const srv_run *run) {
    const size_t sites = attn_run_site_count(run->run);
    size_t texts;
    const attn_run_text *text = attn_run_texts(run->run, &texts);
    srv_json_object(j);
    put_text(j, "id", run->id);
    put_size(j, "bytes", run->bytes);
    put_expiry(j, run->ends_ns);
    put_size(j, "format", (size_t)attn_run_version(run->run));
    if (attn_run_model(run->run))
        put_text(j, "model", attn_run_model(run->run));
    srv_json_key(j, "texts");
    srv_json_array(j);
    for (size_t i = 0; i < texts; i++)
        put_run_text(j, &text[i]);
    srv_json_array_end(j);
    srv_json_key(j, "sites");
    srv_json_array(j);
    for (size_t i = 0; i < sites; i++)
        put_site(j, run->run, i);
    srv_json_array_end(j);
    srv_json_object_end(j);
}

static void describe(srv_request *req, const srv_run *run) {
    srv_json j;
    srv_json_begin(&j, req);
    srv_run_write(&j, run);
    srv_json_end(&j);
}

srv_outcome srv_runs_describe(srv_request *req) {
    const srv_run *run = srv_run_hold(req, req->params[0]);
    if (run) {
        describe(req, run);
        if (srv_run_is_whole(req, run))
            srv_run_keep(req, run);
    }
    srv_run_release(req, run);
    return SRV_DONE;
}

srv_outcome srv_runs_delete(srv_request *req) {
    if (srv_run_delete(req, req->params[0]))
        srv_reply_set(req, 204, NULL, "", 0);
    return SRV_DONE;
}

/* --- metrics --- */

typedef struct metrics_query {
    uint64_t given;
    srv_run_spot spot;
    unsigned items;
    int64_t radius, top_keys, decimals;
} metrics_query;

const srv_field srv_run_metrics_query[] = {
    SRV_RUN_SITE_ROWS(metrics_query),
    {.name = "analysis",
     .kind = SRV_FLAGS,
     .offset = offsetof(metrics_query, items),
     .choices = srv_analysis_items_run,
     .doc = "The parts of the answer, named as in analysis of POST /v1/attention; default all."},
    {.name = "radius",
     .kind = SRV_INT,
     .offset = offsetof(metrics_query, radius),
     .max = 1048576,
     .doc = "For local_mass: largest distance between key and query; default 2."},
    {.name = "top_keys",
     .kind = SRV_INT,
     .offset = offsetof(metrics_query, top_keys),
     .max = 1024,
     .doc = "Number of most attended keys to list; default 5."},
    SRV_DECIMALS_ROW(metrics_query, "."),
    {0},
};

static srv_analysis analysis_of(srv_request *req, const attn_run_site *site, const metrics_query *q,
                                const srv_labels *labels) {
    const attn_attention_dims *d = attn_run_dims(site);
    srv_analysis an = {.req = req,
                       .items = q->items,
                       .B = d->B,
                       .H = d->Hq,
                       .L = d->L,
                       .S = d->S,
                       .layers = 1,
                       .run = attn_run_attention(site),
                       .valued = srv_run_valued(site),
                       .mask = attn_attention_mask(attn_run_attention(site)),
                       .labels = labels,
                       .options = attn_measure_defaults()};
    if (an.items == 0 || (an.items & SRV_AN_ALL))
        an.items |= SRV_AN_ALL | SRV_AN_EVERY;
    an.options.radius = (size_t)q->radius;
    an.options.top_keys = (size_t)q->top_keys;
    return an;
}

static bool run_analysis(srv_analysis *an, const srv_run_view *run) {
    srv_request *req = an->req;
    attn_pool *pool = srv_request_pool(req);
    const size_t slots = attn_pool_slots(pool);
    attn_cost cost;
    double text;
    attn_error err = {0};
    if (!srv_analysis_cost(an, slots, &cost, &text) ||
        !srv_run_admit(req, cost.cells,
                       (double)cost.work_bytes + (double)cost.result_bytes + text +
                           srv_run_cells_work(req, run)))
        return false;
    const int64_t start = attn_now_ns();
    attn_status status = attn_attention_source(an->run, attn_run_stats(run->site), ATTN_STAGE_PROBS,
                                               slots, req->arena, &an->source, &err);
    if (!status)
        status = srv_analysis_run(an, pool, &err);
    req->compute_ns = attn_now_ns() - start;
    if (status)
        srv_problem_error(req, &err);
    return !status;
}

static void answer_metrics(srv_request *req, const srv_analysis *an, const metrics_query *q) {
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_analysis_text(&t, an);
        srv_text_end(req, &t);
        return;
    }
    srv_json j;
    srv_json_begin(&j, req);
    j.decimals = (int)q->decimals;
    srv_json_object(&j);
    srv_analysis_members(&j, an);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

srv_outcome srv_runs_metrics(srv_request *req) {
    metrics_query q = {.decimals = -1, .radius = 2, .top_keys = 5};
    const srv_run_view *run = srv_run_begin(req, srv_run_metrics_query, &q, &q.spot);
    if (!run)
        return SRV_DONE;
    srv_labels labels;
    bool ok = srv_run_labels(req, run->site, &labels);
    srv_analysis an = analysis_of(req, run->site, &q, &labels);
    ok = ok && run_analysis(&an, run);
    if (ok)
        answer_metrics(req, &an, &q);
    return srv_run_end(req, run, ok);
}
