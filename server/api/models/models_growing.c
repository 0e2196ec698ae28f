#include "api/models/models_growing.h"

#include <stdio.h>
#include <string.h>

#include "api/models/models_call.h"
#include "request/shared.h"

/* Upper bound in bytes of the memory that a generated token takes in the arenas of the request and
 * of the run. */
enum { TOKEN = 256 };

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, "/store", "no memory is left for the run");
}

/* --- cost --- */

/* Returns an upper bound of the bytes of a site's matrices and of its tables of positions. */
static double operands(const attn_model_config *m) {
    const double D = (double)m->width, distances = 2 * (double)m->reach + 1;
    return sizeof(float) * (3 * D * D + distances * (2 * D + (double)m->num_heads));
}

static bool add_site(srv_request *req, const attn_attention_dims *d, size_t slots,
                     attn_model_cost *cost) {
    attn_cost run;
    size_t rows;
    attn_error err = {0};
    if (attn_run_growth_bytes(d, &rows, &err) ||
        attn_attention_cost(d, ATTN_WANT_LOGSUMEXP, slots, &run, &err))
        return srv_problem_error(req, &err);
    cost->cells += run.cells; /* closing the run computes the rows of all steps again */
    cost->operations += run.operations;
    /* If there are several sequences, storing the run copies their rows. */
    cost->bytes +=
        (d->B > 1 ? 2.0 : 1.0) * (double)rows + (double)run.work_bytes + (double)run.result_bytes;
    return true;
}

bool srv_growing_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t most,
                      attn_model_cost *cost, double *text) {
    const attn_model_config *m = attn_model_configuration(model->model);
    size_t count;
    const attn_site *sites = attn_model_sites(model->model, &count);
    for (size_t i = 0; i < count; i++) {
        attn_attention_dims d;
        if (!srv_model_run_dims(req, m, &sites[i], B, S, most, &d) ||
            !add_site(req, &d, attn_pool_slots(req->app->pool), cost))
            return false;
        cost->bytes += operands(m) + 2 * (double)B * (double)S;
    }
    cost->bytes += (double)B * TOKEN * ((double)most + (double)S);
    return srv_model_run_cost(req, model, B, S, most, cost, text);
}

/* --- steps --- */

bool srv_growing_begin(srv_growing *g, srv_request *req, const srv_model *model,
                       const srv_sequences *source, size_t most, srv_told_steps *told) {
    *g = (srv_growing){
        .most = most, .told = told, .prompts = srv_models_reads(model, SRV_SOURCE) ? NULL : source};
    if (!srv_model_run_begin(&g->run, req, model, source->count, source) ||
        !srv_run_metadata(req, g->metadata, &g->metadata_count))
        return false;
    g->bare = g->prompts && model->known;
    for (size_t b = 0; b < source->count; b++)
        if (!srv_model_run_start(&g->run, b,
                                 g->bare ? source->items[b].ids[0]
                                         : attn_model_configuration(model->model)->begin))
            return false;
    return true;
}

/* Makes the growing run from the operations of the first step. */
static bool make(srv_growing *g, const attn_generated_step *step) {
    srv_request *req = g->run.req;
    attn_run_source first;
    attn_error err = {0};
    if (!srv_run_plan_source(&g->run.plan, step->sites, step->site_count, req->arena, &first))
        return no_memory(req);
    first.metadata = g->metadata;
    first.metadata_count = g->metadata_count;
    if (!(g->arena = attn_arena_new(attn_arena_limit(req->arena))))
        return no_memory(req);
    return !attn_run_growth_new(&first, g->run.plan.B, g->most, g->arena, &g->growth, &err) ||
           srv_problem_error(req, &err);
}

static bool add(srv_growing *g, const attn_generated_step *step) {
    srv_request *req = g->run.req;
    const attn_model_config *m = attn_model_configuration(g->run.model->model);
    const attn_attention **ops = attn_arena_zeroed(req->arena, step->site_count, sizeof *ops);
    attn_run_token *tokens = attn_arena_zeroed(req->arena, g->run.plan.B, sizeof *tokens);
    srv_sequence names;
    attn_error err = {0};
    if (!ops || !tokens)
        return no_memory(req);
    if (!srv_models_name(req, g->run.model, SRV_TARGET, step->ids, g->run.plan.B, &names))
        return false;
    for (size_t b = 0; b < g->run.plan.B; b++)
        tokens[b] = (attn_run_token){.text = names.tokens[b],
                                     .id = step->ids[b],
                                     .special = srv_run_plan_special(m, step->ids[b])};
    for (size_t i = 0; i < step->site_count; i++)
        ops[i] = step->sites[i].operation;
    return !attn_run_growth_add(g->growth, ops, tokens, &err) || srv_problem_error(req, &err);
}

/* Opens the run for other requests. Sends its id and read token in the event "run", which follows
 * the first event, "start". */
static bool show(srv_growing *g) {
    srv_request *req = g->run.req;
    attn_text t = {.arena = req->arena};
    attn_arena *arena = g->arena;
    g->arena = NULL;
    if (!(g->open = srv_run_open(req, arena, g->growth))) {
        g->growth = NULL;
        return false;
    }
    attn_text_add(&t, "{\"id\":\"%s\"", srv_open_run_id(g->open));
    if (g->metadata_count > 0) /* the token is hexadecimal and needs no escapes */
        attn_text_add(&t, ",\"%s\":\"%s\"", SRV_RUN_TOKEN, g->metadata[g->metadata_count - 1].text);
    attn_text_add(&t, "}\n");
    if (!srv_step_start(g->told))
        return false;
    return (!t.failed && srv_events_add(g->told->events, "run", t.data, t.size)) || no_memory(req);
}

int srv_growing_step(void *ctx, const attn_generated_step *step) {
    srv_growing *g = ctx;
    const bool ok = (step->index > 0 || make(g, step)) && add(g, step) &&
                    (step->index > 0 || !g->told || show(g));
    g->failed = !ok;
    return !ok;
}

/* --- the end --- */

bool srv_growing_close(srv_growing *g, const attn_generated *made, const srv_run **out) {
    srv_request *req = g->run.req;
    char rows[24];
    int64_t *lengths = attn_arena_zeroed(req->arena, g->run.plan.B, sizeof *lengths);
    attn_run_image image;
    attn_error err = {0};
    *out = NULL;
    if (!lengths)
        return no_memory(req);
    for (size_t b = 0; b < g->run.plan.B; b++)
        lengths[b] = (int64_t)(made[b].length + made[b].ended +
                               (g->prompts ? g->prompts->items[b].length - g->bare : 0));
    snprintf(rows, sizeof rows, "%zu", attn_run_growth_rows(g->growth));
    g->metadata[g->metadata_count] = (attn_metadata){SRV_RUN_ROWS, rows};
    if (attn_run_growth_image(g->growth, lengths, g->metadata, g->metadata_count + 1,
                              srv_request_pool(req), &req->control, req->arena, &image, &err))
        return srv_problem_error(req, &err);
    if (g->open)
        return srv_run_close(req, g->open, &image, out);
    return (*out = srv_run_store(req, &image));
}

void srv_growing_end(srv_growing *g) {
    if (g->run.req)
        srv_run_abandon(g->run.req, g->open);
    attn_arena_free(g->arena);
    *g = (srv_growing){.open = NULL};
}
