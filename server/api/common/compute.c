#include "api/common/compute.h"

#include "api/common/later.h"
#include "api/common/text_reply.h"
#include "load/admission.h"
#include "request/shared.h"

/* --- limits --- */

static const char *or_none(const char *text) {
    return text ? text : "";
}

/* Checks that `value` is at most `most`, the limit of the setting `setting`. `limit` has the texts
 * of the problem. false: the problem is set. */
static bool is_within(srv_request *req, const srv_limit *limit, double value, double most,
                      const char *setting) {
    if (!limit->what || value <= most)
        return true;
    return srv_problem_limit(req, SRV_TOO_LARGE, limit->pointer, most, setting,
                             "%s%.4g %s; at most %.4g are allowed%s", or_none(limit->before), value,
                             limit->what, most, or_none(limit->advice));
}

static double bytes_of(const srv_cost *cost) {
    return cost->reserved ? cost->reserved : cost->result + cost->work + cost->text;
}

/* Checks the cost against the limits of the service. false: a problem is set. */
static bool fits(srv_call *call, const srv_steps *steps) {
    srv_request *req = call->req;
    const srv_config *config = req->app->config;
    const srv_cost *cost = &call->cost;
    const double need = (double)attn_arena_used(req->arena) + bytes_of(cost);
    const double room = (double)attn_arena_limit(req->arena);
    if (cost->cells <= config->max_cells && cost->operations <= config->max_operations &&
        need <= room)
        return true;
    srv_limits limits = steps->limits;
    if (steps->explain)
        steps->explain(call, &limits);
    if (!is_within(req, &limits.cells, cost->cells, config->max_cells, "max_cells") ||
        !is_within(req, &limits.operations, cost->operations, config->max_operations,
                   "max_operations"))
        return false;
    if (!limits.bytes.what || need <= room)
        return true;
    return srv_problem_limit(req, SRV_TOO_LARGE, limits.bytes.pointer, room, "max_request_bytes",
                             "%s %.0f bytes; a request may use %.0f%s", limits.bytes.what, need,
                             room, or_none(limits.bytes.advice));
}

/* --- the steps --- */

static bool prepare(srv_call *call, const srv_steps *steps) {
    char *all = (char *)call;
    call->scope = (srv_scope){call->req, steps->fields, (const void *)(all + steps->body), ""};
    if (steps->timeout ? !srv_read_body(call->req, steps->fields, all + steps->body,
                                        (const int64_t *)(void *)(all + steps->timeout))
                       : !srv_read_query(call->req, steps->fields, all + steps->body))
        return false;
    call->dry_run = steps->dry_run && *(const bool *)(all + steps->dry_run);
    return steps->prepare(call);
}

static srv_outcome answer_dry(srv_call *call, const srv_steps *steps) {
    srv_request *req = call->req;
    const srv_cost *cost = &call->cost;
    if (req->in_place && !srv_predictor_ready(req->app->predictor))
        return SRV_DEFER;
    srv_dry dry = {.cells = cost->cells,
                   .operations = cost->operations,
                   .result = cost->result,
                   .work = cost->work,
                   .fits = !cost->exceeds && fits(call, steps) &&
                           srv_admission_fits(req, bytes_of(cost)),
                   .load = {.weighted = cost->weighted,
                            .text = cost->text / 2,
                            .memory = cost->result + cost->work,
                            .pieces = 1}};
    return steps->dry(call, &dry) ? srv_dry_reply(req, &dry) : SRV_DONE;
}

static bool is_brief(const srv_call *call) {
    return !call->needs_thread && !srv_draws(call->req) &&
           srv_admission_is_brief(call->req, call->cost.weighted, call->cost.text);
}

/* Gives the work to a job, if the client prefers a job and the work is predicted to take long.
 * Returns true if the reply is set, either to the job or to a problem. */
static bool is_left(srv_call *call, const srv_steps *steps) {
    srv_job_order *job = &call->job;
    if (!srv_later_is_due(call->req, call->cost.weighted) ||
        (job->stores && !srv_admission_may_keep(call->req->app->admission, call->req->body_size)) ||
        !(job->query = srv_later_query(call->req)))
        return false;
    if ((steps->as_job && !steps->as_job(call)) || !fits(call, steps))
        return true;
    job->bytes = bytes_of(&call->cost);
    srv_later_reply(call->req, job);
    return true;
}

/* --- the answer --- */

static void answer_json(srv_call *call, const srv_steps *steps) {
    attn_json_text j = srv_json_object(call->req);
    if (steps->decimals)
        j.decimals = (int)*(const int64_t *)(void *)((char *)call + steps->decimals);
    steps->json(call, &j);
    if (!call->req->reply.status)
        srv_json_object_end(&j);
}

static void answer_text(srv_call *call, const srv_steps *steps) {
    attn_text t = srv_text_begin(call->req);
    steps->text(call, &t);
    if (!call->req->reply.status)
        srv_text_end(call->req, &t);
}

static void answer_csv(srv_call *call, const srv_steps *steps) {
    srv_csv t = srv_csv_begin(call->req);
    steps->csv(call, &t);
    srv_csv_end(&t);
}

static void answer(srv_call *call, const srv_steps *steps) {
    srv_request *req = call->req;
    req->reply.status = 0; /* an event of a stream may have set a status */
    if (req->is_job && call->job.stores)
        srv_later_stored(req);
    else if (steps->reply)
        steps->reply(call);
    else if (steps->csv && (req->accept & SRV_ACCEPT_CSV))
        answer_csv(call, steps);
    else if (steps->picture && srv_draws(req))
        steps->picture(call);
    else if (steps->text && srv_reads_text(req))
        answer_text(call, steps);
    else
        answer_json(call, steps);
}

/* --- all steps --- */

static void compute(srv_call *call, const srv_steps *steps) {
    const int64_t before = attn_now_ns();
    bool ok = srv_draw_random(call->req);
    const int64_t start = attn_now_ns();
    call->req->decode_ns += start - before;
    ok = ok && steps->compute(call);
    const int64_t computed = attn_now_ns();
    call->req->compute_ns = computed - start; /* not req: `compute` may have replaced call->req */
    if (ok)
        answer(call, steps);
    if (call->job.run)
        srv_later_advise(call->req);
    call->req->encode_ns = attn_now_ns() - computed;
}

void srv_progress_part(srv_request *req, double from, double to) {
    attn_progress *progress = req->control.progress;
    if (progress)
        progress->from = from, progress->to = to;
}

srv_outcome srv_compute(void *data, const srv_steps *steps) {
    srv_call *call = data;
    srv_request *req = call->req;
    const srv_cost *cost = &call->cost;
    const int64_t start = attn_now_ns();
    req->unit_ns = steps->unit_ns;
    const bool ok = prepare(call, steps);
    req->decode_ns = attn_now_ns() - start;
    if (!ok)
        return call->defers ? SRV_DEFER : SRV_DONE;
    if (call->dry_run)
        return answer_dry(call, steps);
    if (req->in_place && !is_brief(call))
        return SRV_DEFER;
    if (!(call->job.run && is_left(call, steps)) && fits(call, steps) &&
        srv_admission_work(req, cost->weighted, bytes_of(cost)))
        compute(call, steps);
    return SRV_DONE;
}
