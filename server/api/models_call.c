/* What the routes of /v1/models/{id} share: sequences made from texts, tokens or ids; the steps of
 * a request with the limits of the service; and heatmaps of weights that a model has computed. */
#include "api/models_call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "load/admission.h"
#include "request/shared.h"

/* --- sequences --- */

enum { MOST_WARNINGS = 16 }; /* most warnings about words that the vocabulary lacks */

static bool no_memory(srv_request *req) {
    attn_error err = {0};
    attn_fail(&err, ATTN_ENOMEM, "", "the tokens need more memory than a request may use");
    srv_problem_error(req, &err);
    return false;
}

static const attn_vocabulary *vocabulary(const srv_model *model, int which) {
    return which == SRV_SOURCE ? model->source : model->target;
}

static size_t vocabulary_size(const srv_model *model, int which) {
    const attn_model_config *c = attn_model_configuration(model->model);
    return which == SRV_SOURCE ? c->source_vocabulary : c->target_vocabulary;
}

/* Writes the name of the field of sequence b into `text`, with the index b if there are several
 * sequences. */
static const char *place(char text[96], const char *name, size_t b, size_t count) {
    if (count > 1)
        snprintf(text, 96, "%s/%zu", name, b);
    else
        snprintf(text, 96, "%s", name);
    return text;
}

static bool take(const srv_reading *r, size_t length, bool offsets, srv_sequence *out) {
    attn_arena *arena = r->req->arena;
    *out = (srv_sequence){.length = length};
    out->ids = attn_arena_zeroed(arena, length, sizeof *out->ids);
    out->tokens = attn_arena_zeroed(arena, length, sizeof *out->tokens);
    out->offsets = offsets ? attn_arena_zeroed(arena, length + 1, 2 * sizeof *out->offsets) : NULL;
    return (out->ids && out->tokens && (!offsets || out->offsets)) || no_memory(r->req);
}

static bool check_length(const srv_reading *r, const char *name, size_t length) {
    if (!length)
        return srv_refuse(r->scope, SRV_VALUE, name, "expected at least one token, found none");
    if (length <= r->most)
        return true;
    return srv_refuse(r->scope, SRV_VALUE, name,
                      "the model reads at most %zu tokens here (max_length), found %zu", r->most,
                      length);
}

static bool look_up(const srv_reading *r, const char *name, srv_sequence *s) {
    const attn_vocabulary *v = vocabulary(r->model, r->which);
    for (size_t i = 0; i < s->length; i++) {
        s->ids[i] = attn_vocabulary_id(v, s->tokens[i], strlen(s->tokens[i]));
        if (s->ids[i] != ATTN_UNKNOWN || r->warnings->count >= MOST_WARNINGS)
            continue;
        const char *where = srv_where(r->scope, name);
        if (!where || !srv_warnings_add(r->warnings, r->req->arena, "unknown_word", where,
                                        "\"%.60s\" is not in the model's vocabulary: read as <unk>",
                                        s->tokens[i]))
            return no_memory(r->req);
    }
    return true;
}

static bool read_text(const srv_reading *r, const char *text, const char *name, srv_sequence *out) {
    attn_token *tokens;
    size_t count;
    attn_error err = {0};
    if (attn_vocabulary_split(vocabulary(r->model, r->which), text, strlen(text),
                              r->model->languages[r->which], r->req->arena, &tokens, &count,
                              &err)) {
        snprintf(err.where, sizeof err.where, "%s", name);
        srv_problem_error(r->req, &err);
        return false;
    }
    if (!check_length(r, name, count) || !take(r, count, true, out))
        return false;
    for (size_t i = 0; i < count; i++) {
        out->tokens[i] = tokens[i].text;
        out->offsets[2 * i] = tokens[i].begin;
        out->offsets[2 * i + 1] = tokens[i].end;
    }
    out->offsets[2 * count] = out->offsets[2 * count + 1] = strlen(text);
    return look_up(r, name, out);
}

static bool read_tokens(const srv_reading *r, const srv_strings *list, const char *name,
                        srv_sequence *out) {
    if (!check_length(r, name, list->count) || !take(r, list->count, false, out))
        return false;
    memcpy(out->tokens, list->values, list->count * sizeof *list->values);
    return look_up(r, name, out);
}

static int64_t id_at(const attn_tensor *ids, size_t i) {
    return ids->dtype == ATTN_I64   ? ((const int64_t *)ids->data)[i]
           : ids->dtype == ATTN_I32 ? ((const int32_t *)ids->data)[i]
                                    : ((const uint8_t *)ids->data)[i];
}

bool srv_models_name(srv_request *req, const srv_model *model, int which, const int32_t *ids,
                     size_t length, srv_sequence *out) {
    const srv_reading r = {.req = req, .model = model};
    const attn_vocabulary *v = vocabulary(model, which);
    if (!take(&r, length, false, out))
        return false;
    for (size_t i = 0; i < length; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)ids[i]);
        out->ids[i] = ids[i];
        out->tokens[i] = v ? attn_vocabulary_word(v, ids[i]) : NULL;
        if (!out->tokens[i] &&
            !(out->tokens[i] = attn_arena_text(req->arena, number, strlen(number))))
            return no_memory(req);
    }
    return true;
}

static bool read_ids(const srv_reading *r, const attn_tensor *t, size_t b, const char *name,
                     srv_sequence *out) {
    const size_t width = t->dims[t->rank - 1];
    const size_t size = vocabulary_size(r->model, r->which);
    const int64_t pad = attn_model_configuration(r->model->model)->pad;
    size_t length = width;
    while (length && id_at(t, b * width + length - 1) == pad)
        length--;
    int32_t *ids = attn_arena_zeroed(r->req->arena, length + 1, sizeof *ids);
    if (!ids)
        return no_memory(r->req);
    if (!check_length(r, name, length))
        return false;
    for (size_t i = 0; i < length; i++) {
        const int64_t id = id_at(t, b * width + i);
        char at[128];
        snprintf(at, sizeof at, "%s/%zu", name, i);
        if (id < 0 || (uint64_t)id >= size)
            return srv_refuse(r->scope, SRV_VALUE, at,
                              "the model knows the ids 0 to %zu, found %" PRId64, size - 1, id);
        ids[i] = (int32_t)id;
    }
    return srv_models_name(r->req, r->model, r->which, ids, length, out);
}

/* Returns the index of the field (text, tokens or ids) that was given; 3: none was given; 4: a
 * problem is set, because several were given or the model has no words. */
static int which_field(const srv_reading *r) {
    int found = 3;
    for (int i = 0; i < 3; i++) {
        if (!srv_given(r->scope, r->names[i]))
            continue;
        if (found < 3) {
            srv_excludes(r->scope, r->names[i], r->names[found], "both are the same sequences");
            return 4;
        }
        found = i;
    }
    if (found < 2 && !vocabulary(r->model, r->which)) {
        srv_refuse(r->scope, SRV_VALUE, r->names[found],
                   "the model \"%s\" has no words on this side: send %s", r->model->id,
                   r->names[2]);
        return 4;
    }
    return found;
}

static bool read_one(const srv_reading *r, const srv_side *side, int field, size_t b, size_t count,
                     srv_sequence *out) {
    char at[96];
    const bool listed = field == 2 && side->ids.rank == 2;
    place(at, r->names[field], b, listed ? 2 : count);
    switch (field) {
    case 0:
        return read_text(r, side->texts.values[b], at, out);
    case 1:
        return read_tokens(r, &side->tokens.lists[b], at, out);
    default:
        return read_ids(r, &side->ids, b, at, out);
    }
}

bool srv_models_read(const srv_reading *r, const srv_side *side, srv_sequences *out) {
    const int field = which_field(r);
    *out = (srv_sequences){0};
    if (field > 2)
        return field == 3;
    if (field == 2 && side->ids.rank != 1 && side->ids.rank != 2)
        return srv_refuse(r->scope, SRV_SHAPE, r->names[2], "expected [S] or [B, S], found rank %d",
                          side->ids.rank);
    const size_t count = field == 0            ? side->texts.count
                         : field == 1          ? side->tokens.count
                         : side->ids.rank == 2 ? side->ids.dims[0]
                                               : 1;
    if (!count)
        return srv_refuse(r->scope, SRV_VALUE, r->names[field], "expected at least one sequence");
    out->count = count;
    out->items = attn_arena_zeroed(r->req->arena, count, sizeof *out->items);
    if (!out->items)
        return no_memory(r->req);
    for (size_t b = 0; b < count; b++) {
        if (!read_one(r, side, field, b, count, &out->items[b]))
            return false;
        if (out->items[b].length > out->longest)
            out->longest = out->items[b].length;
    }
    return true;
}

int32_t *srv_models_pad(srv_request *req, const srv_sequences *s, size_t width, int32_t before,
                        int64_t **lengths) {
    const size_t first = before >= 0;
    int32_t *ids = attn_arena_zeroed(req->arena, s->count * width, sizeof *ids);
    *lengths = attn_arena_zeroed(req->arena, s->count, sizeof **lengths);
    if (!ids || !*lengths) {
        no_memory(req);
        return NULL;
    }
    for (size_t b = 0; b < s->count; b++) {
        if (first)
            ids[b * width] = before;
        memcpy(ids + b * width + first, s->items[b].ids, s->items[b].length * sizeof *ids);
        (*lengths)[b] = (int64_t)s->items[b].length;
    }
    return ids;
}

void srv_models_put(srv_json *j, const srv_sequence *s) {
    srv_json_object(j);
    srv_json_key(j, "tokens");
    srv_json_array(j);
    for (size_t i = 0; i < s->length; i++)
        srv_json_string(j, s->tokens[i]);
    srv_json_array_end(j);
    srv_json_key(j, "ids");
    srv_json_array(j);
    for (size_t i = 0; i < s->length; i++)
        srv_json_int(j, s->ids[i]);
    srv_json_array_end(j);
    if (s->offsets) {
        srv_json_key(j, "offsets");
        srv_json_array(j);
        for (size_t i = 0; i < s->length; i++) {
            srv_json_array(j);
            srv_json_size(j, s->offsets[2 * i]);
            srv_json_size(j, s->offsets[2 * i + 1]);
            srv_json_array_end(j);
        }
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
}

/* --- the steps of a request --- */

/* Most operations of a request that the HTTP thread computes itself, well below 1 ms of work. */
#define IN_PLACE_OPERATIONS 2e5

const char *const srv_model_site_kinds[] = {"encoder", "decoder", "cross", NULL};

bool srv_models_attends(const srv_model *model) {
    return srv_models_cross_heads(model) > 0;
}

bool srv_models_may_draw(const srv_pass *pass, size_t sequences) {
    if (!srv_draws(pass->req))
        return true;
    if (!srv_models_attends(pass->model))
        srv_problem(pass->req, SRV_VALUE, NULL,
                    "the model \"%s\" has no attention that could be drawn", pass->model->id);
    else if (sequences > 1)
        srv_problem(pass->req, SRV_VALUE, NULL, "pictures and CSV show one sequence, found %zu",
                    sequences);
    else
        return true;
    return false;
}

size_t srv_models_cross_heads(const srv_model *model) {
    attn_site sites[ATTN_MODEL_SITES];
    const size_t count = attn_model_sites(model->model, sites);
    return count ? sites[count - 1].heads : 0;
}

attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent) {
    return attn_model_pass_cost(pass->model->model, extent, attn_pool_slots(pass->req->app->pool));
}

bool srv_models_fits(srv_request *req, const attn_model_cost *cost, double result, bool quiet) {
    const srv_config *config = req->app->config;
    const double need = (double)attn_arena_used(req->arena) + cost->bytes + result;
    const double limit = (double)attn_arena_limit(req->arena);
    const bool fits = cost->cells <= config->max_cells &&
                      cost->operations <= config->max_operations && need <= limit;
    if (fits || quiet)
        return fits;
    if (cost->cells > config->max_cells)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, config->max_cells, "max_cells",
                          "%.4g attention cells; at most %.4g are allowed", cost->cells,
                          config->max_cells);
    else if (cost->operations > config->max_operations)
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, config->max_operations, "max_operations",
                          "%.4g operations; at most %.4g are allowed", cost->operations,
                          config->max_operations);
    else
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                          "the pass and its answer need up to %.0f bytes; a request may use %.0f",
                          need, limit);
    return false;
}

srv_outcome srv_models_dry(srv_request *req, srv_dry *dry, const attn_model_cost *cost,
                           double result) {
    dry->cells = cost->cells;
    dry->operations = cost->operations;
    dry->work = cost->bytes;
    dry->result = result;
    dry->fits = srv_models_fits(req, cost, result, true);
    dry->load.operations = cost->operations + SRV_CELL_OPERATIONS * cost->cells;
    dry->load.text = result;
    dry->load.memory = cost->bytes;
    dry->load.pieces = 1;
    return srv_dry_reply(req, dry);
}

static srv_outcome run(srv_pass *pass, const srv_pass_steps *steps) {
    srv_request *req = pass->req;
    const int64_t start = attn_now_ns();
    const bool ok = steps->decode(pass);
    req->decode_ns = attn_now_ns() - start;
    if (!ok)
        return SRV_DONE;
    const attn_model_cost cost = steps->cost(pass);
    if (pass->dry_run)
        return steps->predict(pass, &cost);
    if (req->in_place && (pass->streams || cost.operations > IN_PLACE_OPERATIONS || srv_draws(req)))
        return SRV_DEFER;
    const double result = steps->result(pass);
    if (!srv_models_fits(req, &cost, result, false) ||
        !srv_admission_work(req, cost.operations, cost.bytes + result))
        return SRV_DONE;
    const int64_t begun = attn_now_ns();
    const bool done = steps->compute(pass);
    const int64_t computed = attn_now_ns();
    pass->req->compute_ns = computed - begun; /* not the old request: `compute` may replace it */
    if (done)
        steps->answer(pass);
    pass->req->encode_ns = attn_now_ns() - computed;
    return SRV_DONE;
}

srv_outcome srv_models_run(srv_pass *pass, const srv_pass_steps *steps) {
    srv_request *req = pass->req;
    if (req->in_place && !srv_models_is_read(req, req->params[0]))
        return SRV_DEFER;
    pass->model = srv_models_hold(req, req->params[0]);
    const srv_outcome outcome = pass->model ? run(pass, steps) : SRV_DONE;
    srv_models_release(req, pass->model);
    return outcome;
}

/* --- heatmaps --- */

/* The `fetch` of a source of weights: copies rows of one sequence's weights. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *range, float *weights,
                         float *logits, attn_error *err) {
    const srv_model_weights *all = ctx;
    (void)lane, (void)logits, (void)err;
    for (size_t r = 0; r < range->rows; r++)
        memcpy(weights + r * range->cols,
               all->weights + range->head * all->head_stride + (range->row + r) * all->stride +
                   range->col,
               range->cols * sizeof *weights);
    return ATTN_OK;
}

bool srv_models_heatmaps(srv_request *req, const srv_model_weights *weights,
                         const srv_heat_input *in, srv_model_heatmaps *out) {
    const attn_attention_dims dims = {
        .B = 1, .Hq = weights->heads, .L = weights->rows, .S = weights->cols};
    srv_model_weights own = *weights;
    const attn_weight_source source = {.batches = 1,
                                       .heads = weights->heads,
                                       .rows = weights->rows,
                                       .cols = weights->cols,
                                       .fetch = fetch,
                                       .ctx = &own};
    attn_heatmap_options options;
    attn_error err = {0};
    if (!srv_heat_options(req, in, &dims, &options))
        return false;
    if (attn_heatmap_build(&source, &options, srv_request_pool(req), &req->control, req->arena,
                           &out->maps, &err)) {
        srv_heat_problem(req, &err);
        return false;
    }
    for (size_t i = 0; i < out->maps.count; i++)
        out->maps.items[i].batch = weights->batch;
    out->labels = (srv_labels){.given = 3,
                               .query = {weights->row_names, weights->rows},
                               .key = {weights->col_names, weights->cols}};
    return true;
}

void srv_models_draw(srv_request *req, const srv_model_heatmaps *maps, const srv_heat_input *in,
                     const srv_figure_input *figure, int64_t decimals) {
    const srv_heat_answer all = {.maps = &maps->maps,
                                 .in = in,
                                 .labels = &maps->labels,
                                 .figure = figure,
                                 .decimals = (int)decimals};
    srv_heat_draw(req, &all);
}
