/* Descriptions of stored runs: GET /v1/runs, GET and DELETE /v1/runs/{id}. */
#include <time.h>

#include "api/common/form_input.h"
#include "api/common/listing.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"
#include "system/clock.h"

enum { RANGES_MOST = 4096 }; /* most heads of a run whose ranges are told */

static void put_tiles(attn_json_text *j, const attn_run_site *site) {
    const size_t levels = attn_run_levels(site), overview = attn_run_overview_level(site);
    attn_json_key_object(j, "tiles");
    attn_json_key_size(j, "size", ATTN_RUN_TILE);
    attn_json_key_array(j, "levels");
    for (size_t level = 0; level < levels; level++) {
        size_t shape[2];
        attn_run_level_shape(site, level, shape);
        attn_json_array(j);
        attn_json_size(j, shape[0]);
        attn_json_size(j, shape[1]);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
    attn_json_key(j, "overview_level");
    if (overview == SIZE_MAX)
        attn_json_null(j);
    else
        attn_json_size(j, overview);
    attn_json_object_end(j);
}

/* Returns whether the answer has room for the ranges of all heads of the run. */
static bool has_few_heads(const attn_run *run) {
    double heads = 0;
    for (size_t i = 0; i < attn_run_site_count(run); i++) {
        const attn_attention_dims *d = attn_run_site_shape(run, i);
        heads += (double)d->B * (double)d->Hq;
    }
    return heads <= RANGES_MOST;
}

/* Writes the ranges of the topmost tiles, if they are wanted and known without computing weights. */
static void put_ranges(attn_json_text *j, const srv_run *run, const attn_run_site *site,
                       bool wanted) {
    const attn_attention_dims *d = attn_run_dims(site);
    const int decimals = j->decimals;
    const float *ranges = NULL;
    size_t bytes;
    const void *tops = attn_run_tops(site, &bytes);
    if (tops && wanted && srv_run_is_right(run, tops, bytes))
        ranges = attn_run_ranges(site);
    attn_json_key(j, "ranges");
    if (!ranges) {
        attn_json_null(j);
        return;
    }
    j->decimals = -1; /* `decimals` of a request that stores the run is for its results */
    attn_json_array(j);
    for (size_t h = 0; h < d->B * d->Hq; h++)
        srv_json_floats(j, ranges + 2 * h, 2);
    attn_json_array_end(j);
    j->decimals = decimals;
}

static void put_shapes(attn_json_text *j, const attn_attention_dims *d) {
    attn_json_key_size(j, "num_batches", d->B);
    attn_json_key_size(j, "num_heads", d->Hq);
    attn_json_key_size(j, "num_kv_heads", d->Hkv);
    attn_json_key_size(j, "num_queries", d->L);
    attn_json_key_size(j, "num_keys", d->S);
    attn_json_key_size(j, "num_past_keys", d->past);
    attn_json_key_size(j, "width", d->E);
    attn_json_key_size(j, "value_width", d->Ev);
    attn_json_key_sizes(j, "weights_shape", d->weights, (size_t)d->weights_rank);
}

/* Writes when the run expires, in milliseconds of Unix time. */
static void put_expiry(attn_json_text *j, int64_t ends_ns) {
    const int64_t left_ns = ends_ns - attn_now_ns();
    attn_json_key_int(j, "expires_ms", (srv_clock_ns(CLOCK_REALTIME) + left_ns) / 1000000);
}

static void put_list(attn_json_text *j, const char *name, const int64_t *values, size_t n) {
    if (!values)
        return;
    attn_json_key_ints(j, name, values, n);
}

/* Writes the number of a side's text, or a list with one for each batch entry. */
static void put_text_number(attn_json_text *j, const char *name, const size_t *numbers,
                            size_t count) {
    if (count == 1)
        attn_json_key_size(j, name, *numbers);
    else
        put_list(j, name, (const int64_t *)numbers, count);
}

/* Writes what is known of a site without opening it. */
static void put_info(attn_json_text *j, const attn_run_site_info *info,
                     const attn_attention_dims *d, size_t index) {
    attn_json_key_size(j, "site", index);
    attn_json_key_string(j, "name", info->name);
    attn_json_key_string(j, "kind", attn_run_kind_name(info->kind));
    if (info->stack)
        attn_json_key_string(j, "stack", info->stack);
    attn_json_key_size(j, "layer", info->layer);
    attn_json_key_size(j, "call", info->call);
    attn_json_key_size(j, "query_start", info->query_start);
    attn_json_key_size(j, "key_start", info->key_start);
    put_list(j, "query_lengths", info->query_lengths, d->B);
    put_list(j, "key_lengths", info->key_lengths, d->B);
    put_text_number(j, "query_text", info->query_texts, info->query_text_count);
    put_text_number(j, "key_text", info->key_texts, info->key_text_count);
    attn_json_key_strings(j, "axes", info->axes, info->axis_count);
    put_shapes(j, d);
}

static void put_operation(attn_json_text *j, const attn_run_site *site) {
    const attn_attention_dims *d = attn_run_dims(site);
    const attn_inputs *in = attn_run_inputs(site);
    attn_json_key_string(j, "dtype", attn_dtype_name(d->result));
    attn_json_key_string(j, "score", attn_score_name(in->score.kind));
    attn_json_key_string(j, "position", attn_position_words[in->position.kind]);
    attn_json_key_real(j, "scale", attn_attention_scale(attn_run_attention(site)));
    attn_json_key_real(j, "softcap", in->softcap);
    attn_json_key_real(j, "dropout_p", in->dropout_p);
    attn_json_key_string(j, "mask", attn_run_words(site));
    attn_json_key_string(j, "kernel", attn_attention_kernel(attn_run_attention(site)));
    attn_json_key_string(j, "precision", attn_precision_name(d->precision));
    attn_json_key_bool(j, "exact", attn_run_is_exact(site));
}

/* Writes a site. If it cannot be opened, `problem` says why, and the other sites stay usable. */
static void put_site(attn_json_text *j, const srv_run *held, size_t index, bool ranges) {
    const attn_run *run = held->run;
    const attn_run_site *site;
    attn_error err = {0};
    attn_json_object(j);
    put_info(j, attn_run_site_info_of(run, index), attn_run_site_shape(run, index), index);
    if (attn_run_site_open(run, index, &site, &err)) {
        attn_text why = {.arena = j->arena};
        attn_text_add(&why, "%s%s%s", err.where, *err.where ? ": " : "", err.text);
        attn_json_key_string(j, "problem", why.failed ? err.text : why.data);
    } else {
        put_operation(j, site);
        put_tiles(j, site);
        put_ranges(j, held, site, ranges);
    }
    attn_json_object_end(j);
}

/* Writes a text. The members that it lacks are absent. */
static void put_run_text(attn_json_text *j, const attn_run_text *text) {
    attn_json_object(j);
    attn_json_key_strings(j, "tokens", text->tokens, text->count);
    put_list(j, "ids", text->ids, text->count);
    if (text->text)
        attn_json_key_string(j, "text", text->text);
    for (size_t i = 0; text->offsets && i < text->count; i++) {
        if (i == 0)
            attn_json_key_array(j, "offsets");
        attn_json_array(j);
        attn_json_size(j, text->offsets[i][0]);
        attn_json_size(j, text->offsets[i][1]);
        attn_json_array_end(j);
        if (i + 1 == text->count)
            attn_json_array_end(j);
    }
    if (text->special) {
        attn_json_key_array(j, "special");
        for (size_t i = 0; i < text->count; i++)
            if (text->special[i])
                attn_json_size(j, i);
        attn_json_array_end(j);
    }
    attn_json_object_end(j);
}

void srv_run_write(attn_json_text *j, const srv_run *run) {
    srv_run_write_warned(j, run, &(srv_warnings){0});
}

void srv_run_write_warned(attn_json_text *j, const srv_run *run, const srv_warnings *warnings) {
    const size_t sites = attn_run_site_count(run->run);
    const bool ranges = has_few_heads(run->run);
    size_t texts;
    const attn_run_text *text = attn_run_texts(run->run, &texts);
    attn_json_object(j);
    attn_json_key_string(j, "id", run->id);
    attn_json_key_string(j, "state", run->open ? "open" : "closed");
    if (run->rows)
        attn_json_key_size(j, "num_rows", run->rows);
    attn_json_key_size(j, "bytes", run->bytes);
    put_expiry(j, run->ends_ns);
    if (run->read_token && srv_json_request(j)->owner && !srv_json_request(j)->read_token)
        attn_json_key_string(j, "read_token", run->read_token);
    attn_json_key_size(j, "format", ATTN_RUN_FORMAT);
    if (attn_run_model(run->run))
        attn_json_key_string(j, "model", attn_run_model(run->run));
    attn_json_key_array(j, "texts");
    for (size_t i = 0; i < texts; i++)
        put_run_text(j, &text[i]);
    attn_json_array_end(j);
    attn_json_key_array(j, "sites");
    for (size_t i = 0; i < sites; i++)
        put_site(j, run, i, ranges);
    attn_json_array_end(j);
    srv_warnings_write(j, warnings);
    attn_json_object_end(j);
}

void srv_run_member(attn_json_text *j, const srv_run *run) {
    attn_json_key(j, "run");
    srv_run_write(j, run);
}

void srv_run_print(attn_text *t, const srv_run *run) {
    if (run)
        attn_text_add(t, "run: %s (%zu bytes)\n", run->id, run->bytes);
}

static void describe(srv_request *req, const srv_run *run) {
    attn_json_text j;
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

static void put_listed(attn_json_text *j, const srv_run_listed *run) {
    attn_json_object(j);
    attn_json_key_string(j, "id", run->id);
    attn_json_key_size(j, "bytes", run->bytes);
    put_expiry(j, run->ends_ns);
    attn_json_object_end(j);
}

srv_outcome srv_runs_all(srv_request *req) {
    srv_listing listing;
    if (!srv_listing_read(req, &listing))
        return SRV_DONE;
    const size_t limit = (size_t)listing.limit;
    srv_run_listed *page = attn_arena_zeroed(req->arena, limit + 1, sizeof *page);
    if (!page) {
        srv_problem_memory(req, NULL, "no memory is left for the list");
        return SRV_DONE;
    }
    const size_t found = srv_runs_list_page(req, listing.after, page, limit + 1);
    attn_json_text j = srv_listing_begin(req, "runs");
    for (size_t i = 0; i < found && i < limit; i++)
        put_listed(&j, &page[i]);
    srv_listing_end(&j, found > limit ? page[limit - 1].id : NULL);
    return SRV_DONE;
}
