/* Runs the pass of POST /v1/models/{id}/attention, and computes predictions from its logits and
 * states. */
#include <string.h>

#include "api/models/models_sites.h"
#include "api/predictions/predictions_api.h"
#include "base/try.h"
#include "request/shared.h"

bool srv_sites_needs_logits(const srv_sites_pass *c) {
    const unsigned of_logits = SRV_SITES_LOGITS | SRV_SITES_PROBABILITIES | SRV_SITES_MASKS;
    return !c->pass.model->known || (c->body.returns & of_logits);
}

bool srv_sites_generates(const srv_sites_pass *c) {
    return !c->target.count && srv_models_reads(c->pass.model, SRV_TARGET);
}

bool srv_sites_interventions(srv_sites_pass *c) {
    const srv_intervened of = {.sequence = ATTN_EVERY, .rows = {c->source.longest, c->T}};
    return srv_interventions_read(&c->pass.scope, c->pass.model, &c->body.interventions, &of,
                                  &c->interventions, &c->intervention_count);
}

static attn_status generate(srv_sites_pass *c, const int32_t *source, const int64_t *lengths,
                            const uint8_t *keep, attn_error *err) {
    srv_request *req = c->pass.req;
    const size_t B = c->source.count;
    attn_generate_options options = attn_generate_defaults();
    attn_generated *all = attn_arena_zeroed(req->arena, B, sizeof *all);
    c->target.items = attn_arena_zeroed(req->arena, B, sizeof *c->target.items);
    options.most = c->T > 1 ? c->T - 1 : 1;
    options.source_keep = keep;
    ATTN_TAKEN(all && c->target.items, "the generated targets", err);
    ATTN_TRY(attn_model_generate(c->pass.model->model, source, lengths, B, c->source.longest,
                                 &options, req->arena, srv_request_pool(req), &req->control, all,
                                 err));
    c->target.count = B;
    for (size_t b = 0; b < B; b++) {
        ATTN_TAKEN(srv_models_name(req, c->pass.model, SRV_TARGET, all[b].ids, all[b].length,
                                   &c->target.items[b]),
                   "the generated targets", err);
        if (all[b].length > c->target.longest)
            c->target.longest = all[b].length;
    }
    return ATTN_OK;
}

/* If the model reads a source, sets the source of the batch. false: a problem is set. */
static bool place_source(srv_sites_pass *c, attn_batch *batch) {
    srv_request *req = c->pass.req;
    int64_t *lengths;
    batch->B = c->B;
    batch->S = c->source.longest;
    if (!srv_models_reads(c->pass.model, SRV_SOURCE))
        return true;
    batch->source = srv_models_pad(req, &c->source, c->source.longest, -1, &lengths);
    batch->source_lengths = lengths;
    return batch->source && srv_models_keep(req, &c->source, &batch->source_keep) &&
           srv_models_segments(req, &c->source, &batch->source_segments);
}

/* If the model reads a target, sets the target of the batch. false: a problem is set. */
static bool place_target(srv_sites_pass *c, attn_batch *batch) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    int64_t *lengths;
    c->T = c->target.longest + c->body.target_end;
    batch->T = c->T;
    if (!srv_models_reads(c->pass.model, SRV_TARGET))
        return true;
    batch->target = srv_models_pad(c->pass.req, &c->target, c->T,
                                   c->body.target_begin ? m->begin : -1, &lengths);
    for (size_t b = 0; batch->target && b < c->B; b++)
        lengths[b] = (int64_t)c->target.items[b].length + c->body.target_end;
    batch->target_lengths = lengths;
    return batch->target;
}

/* Sets the batch. If the request has no target, the model generates one. false: a problem is
 * set. */
static bool place(srv_sites_pass *c, attn_batch *batch) {
    attn_error err = {0};
    const bool generates = srv_sites_generates(c);
    if (!place_source(c, batch))
        return false;
    if (generates && generate(c, batch->source, batch->source_lengths, batch->source_keep, &err))
        return srv_problem_error(c->pass.req, &err);
    return place_target(c, batch) && (!generates || srv_sites_interventions(c));
}

static bool run_pass(srv_sites_pass *c) {
    srv_request *req = c->pass.req;
    attn_error err = {0};
    attn_batch batch = {0};
    if (!place(c, &batch))
        return false;
    const attn_forward_options options = {
        .keep =
            (c->pass.model->known ? (unsigned)ATTN_KEEP_OPERATIONS : (unsigned)ATTN_KEEP_WEIGHTS) |
            (c->body.returns & SRV_SITES_STATES ? (unsigned)ATTN_KEEP_STATES : 0u) |
            (c->body.returns & SRV_SITES_INPUTS ? (unsigned)ATTN_KEEP_INPUTS : 0u) |
            (c->body.store ? (unsigned)ATTN_KEEP_OPERATIONS : 0u),
        .no_logits = !srv_sites_needs_logits(c),
        .dropout_p = c->body.dropout_p,
        .seed = (uint64_t)c->body.seed,
        .interventions = c->interventions,
        .intervention_count = c->intervention_count};
    return !attn_model_forward(c->pass.model->model, &batch, &options, req->arena,
                               srv_request_pool(req), &req->control, &c->out, &err) ||
           srv_problem_error(req, &err);
}

/* Copies sequence `s` and adds the token of `one`, at the front if `first` is true, else at the
 * end. false: a problem is set. */
static bool lengthen(const srv_sites_pass *c, const srv_sequence *s, const srv_sequence *one,
                     bool first, srv_sequence *out) {
    attn_arena *arena = c->pass.req->arena;
    *out = (srv_sequence){.unknown = s->unknown, .length = s->length + 1};
    if (!first) { /* the empty range at the end of the text becomes the range of the added token */
        out->offsets = s->offsets;
        out->spans = s->spans;
        out->text = s->text;
    }
    out->ids = attn_arena_zeroed(arena, out->length, sizeof *out->ids);
    out->tokens = attn_arena_zeroed(arena, out->length, sizeof *out->tokens);
    if (!out->ids || !out->tokens)
        return srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL,
                           "no memory for the tokens is left");
    memcpy(out->ids + first, s->ids, s->length * sizeof *s->ids);
    memcpy(out->tokens + first, s->tokens, s->length * sizeof *s->tokens);
    out->ids[first ? 0 : s->length] = one->ids[0];
    out->tokens[first ? 0 : s->length] = one->tokens[0];
    return true;
}

/* Names rows and columns of the decoder's weights. A row has the name of the token that it
 * predicts, so the last row is named after the end token if the model adds one. A column has the
 * name of a token that the decoder reads, so the first column is named after the begin token. If
 * the decoder reads only the target (target_begin is false), the request does not have the token
 * that the last row predicts. In that case rows, like columns, are named after the tokens that the
 * decoder reads. */
static bool name_rows(srv_sites_pass *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const size_t B = c->target.count;
    srv_sequence begin, end, longer;
    if (!c->body.target_begin) {
        c->read = c->target;
        return true;
    }
    c->read = (srv_sequences){.count = B, .longest = c->T};
    c->read.items = attn_arena_zeroed(c->pass.req->arena, B, sizeof *c->read.items);
    if (!c->read.items)
        return srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL,
                           "no memory for the tokens is left");
    if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->begin, 1, &begin) ||
        !srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->end, 1, &end))
        return false;
    for (size_t b = 0; b < B; b++) {
        srv_sequence *s = &c->target.items[b], before = *s;
        before.length -= !c->body.target_end; /* the last token is only predicted, not read */
        if (!lengthen(c, &before, &begin, true, &c->read.items[b]) ||
            (c->body.target_end && !lengthen(c, s, &end, false, &longer)))
            return false;
        if (c->body.target_end)
            *s = longer;
    }
    return true;
}

/* Computes the requested results other than attention, from the logits and states. */
static bool predict(srv_sites_pass *c) {
    const unsigned wanted = c->body.returns;
    return (!(wanted & SRV_SITES_PROBABILITIES) ||
            srv_log_probabilities(c->pass.req, &c->out.logits, &c->target, !c->body.target_begin,
                                  &c->probabilities)) &&
           (!(wanted & SRV_SITES_POOLED) ||
            srv_pooled(c->pass.req, &c->out.encoder, &c->source, &c->pooled));
}

bool srv_sites_run(srv_sites_pass *c) {
    return run_pass(c) && name_rows(c) && predict(c);
}
