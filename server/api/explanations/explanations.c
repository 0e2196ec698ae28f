/* POST /v1/models/{id}/explain runs a model on a text with and without interventions. The answer
 * has the effect of the interventions, the prediction of each layer (the logit lens), and the
 * contribution of each head to a logit. */
#include "api/explanations/explanations_call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/common/route_fields.h"
#include "api/explanations/explanations_api.h"
#include "request/shared.h"

static const char *const returns[] = {"change", "lens", "contributions", NULL};
enum { POSITIONS = 256, LOGITS = 64 };

const srv_field srv_models_explain_fields[] = {
    SRV_SIDE_ROWS(srv_explain_body, source, "", "token_ids", "The text, a single one"),
    SRV_SIDE_ROWS(srv_explain_body, target, "target_", "target_token_ids",
                  "For a model with encoder and decoder: the target, which is needed"),
    SRV_ABLATE_ROWS(srv_explain_body, interventions),
    SRV_PATCH_ROW(srv_explain_body, interventions),
    SRV_SIDE_ROWS(srv_explain_body, other, "other_", "other_token_ids",
                  "The other text, from which patch takes activations, with the same target"),
    SRV_SIDE_ROWS(
        srv_explain_body, reference, "reference_", "reference_token_ids",
        "Texts, with the same target, over whose tokens means of ablate are taken, one or "
        "a list (default: the text itself)"),
    SRV_FIELD_ROW(srv_explain_body, against, SRV_OBJECT,
                  "A second text, other interventions or both, with which the text is compared: "
                  "the answer says how the weights of each head, the loss and the logits differ.",
                  .fields = srv_explain_against_fields),
    SRV_FIELD_ROW(srv_explain_body, positions, SRV_INTS,
                  "The tokens at which the answer looks, from 0 among the tokens that the model "
                  "reads, a begin token included; of a decoder the logits there predict the next "
                  "token. Default the last one.",
                  .max = POSITIONS),
    SRV_FIELD_ROW(srv_explain_body, logit_ids, SRV_INTS,
                  "Ids of the logits whose contributions are answered; default the most probable "
                  "token of each position.",
                  .max = LOGITS),
    SRV_NAMED_ROW(
        srv_explain_body, "return", returns, SRV_FLAGS,
        "The parts of the answer: change (default with interventions: loss and logits "
        "without and with them), lens (default without these and without against: the most "
        "probable tokens after each layer), contributions (of each head, feed-forward, embedding "
        "and the biases to a logit). With interventions, lens and contributions are those of the "
        "changed pass.",
        .choices = returns),
    SRV_INT_ROW(srv_explain_body, top_k, 1, ATTN_ALTERNATIVES_MOST,
                "How many of the most probable tokens are answered at each place; default 5."),
    SRV_DECIMALS_ROW(srv_explain_body, SRV_SHORTEST),
    SRV_DRY_RUN_ROW(srv_explain_body, "Compute nothing: return the cost of the request."),
    SRV_TIMEOUT_ROW(srv_explain_body),
    {0},
};

/* Refuses models without a residual stream or without logits of tokens. */
static bool check_model(const srv_explain *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const char *id = c->pass.model->id;
    if (m->architecture == ATTN_MODEL_SEQ2SEQ)
        return srv_problem(c->pass.req, SRV_VALUE, NULL,
                           "the model \"%s\" is a seq2seq model, whose LSTMs have no residual "
                           "stream: only transformers, encoders and decoders can be explained",
                           id);
    if (m->headless || m->head == ATTN_MODEL_POOLED)
        return srv_problem(c->pass.req, SRV_VALUE, NULL,
                           "the model \"%s\" has no logits of tokens, which explanations are about",
                           id);
    if ((c->body.returns & SRV_EXPLAIN_CONTRIBUTIONS) && m->head == ATTN_MODEL_MASKED)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "return",
                          "the head of masked words of the model \"%s\" has an activation, so that "
                          "its logits are no sums of contributions",
                          id);
    return true;
}

/* --- texts --- */

/* Returns the scope of the object `against`. Its fields have the same names as fields of the
 * body. */
static srv_scope against_scope(const srv_explain *c) {
    return (srv_scope){c->pass.req, srv_explain_against_fields, &c->body.against.given, "/against"};
}

/* Reads the sequences of a side (encoder or decoder) from the fields `names`. out->count stays 0 if
 * none of them was given. */
static bool read_side(srv_explain *c, const srv_scope *scope, const srv_side *side,
                      const char *const names[3], int which, srv_sequences *out) {
    const size_t longest = attn_model_configuration(c->pass.model->model)->max_length;
    const bool begins = which == SRV_TARGET && c->begins;
    const srv_reading r = {.req = c->pass.req,
                           .model = c->pass.model,
                           .scope = scope,
                           .which = which,
                           .names = {names[0], names[1], names[2]},
                           .most = longest - begins,
                           .adds_begin = begins,
                           .warnings = &c->warnings};
    return srv_models_read(&r, side, out);
}

/* Reads a side as read_side does, and refuses more than one sequence. */
static bool read_one(srv_explain *c, const srv_scope *scope, const srv_side *side,
                     const char *const names[3], int which, srv_sequences *out) {
    return read_side(c, scope, side, names, which, out) &&
           (out->count < 2 ||
            srv_refuse(scope, SRV_SHAPE, names[0], "expected one text, found %zu", out->count));
}

/* Appends a sequence to the sequences of one side of the batch. */
static void add(srv_sequences *to, const srv_sequence *s) {
    to->items[to->count++] = *s;
    to->longest = s->length > to->longest ? s->length : to->longest;
}

/* Adds a batch entry. `text` goes to the side that reads the text of the request. If the model has
 * encoder and decoder, `target` goes to the decoder. */
static void add_sequence(srv_explain *c, const srv_sequence *text, const srv_sequence *target) {
    const bool encodes = srv_models_reads(c->pass.model, SRV_SOURCE);
    add(encodes ? &c->sources : &c->targets, text);
    if (encodes && srv_models_reads(c->pass.model, SRV_TARGET))
        add(&c->targets, target);
    c->B++;
}

/* The texts of a request. A text that was not sent has count 0. */
typedef struct texts {
    srv_sequences text, against, target, other, reference;
} texts;

static const char *const text_names[] = {"text", "tokens", "token_ids"},
                         *const target_names[] = {"target_text", "target_tokens",
                                                  "target_token_ids"},
                         *const other_names[] = {"other_text", "other_tokens", "other_token_ids"},
                         *const reference_names[] = {"reference_text", "reference_tokens",
                                                     "reference_token_ids"};

static bool changes(const srv_interventions *in) {
    return in->ablate.count || in->scale.count || in->patch.count;
}

static bool check_other(const srv_explain *c, const srv_sequences *other) {
    const srv_interventions *in = &c->body.interventions, *against = &c->body.against.interventions;
    const srv_scope inside = against_scope(c);
    const bool patches = in->patch.count || against->patch.count;
    if (patches && !other->count)
        return srv_refuse(
            in->patch.count ? &c->pass.scope : &inside, SRV_VALUE, "patch",
            "patch takes activations from another text: send other_text, other_tokens "
            "or other_token_ids");
    for (size_t i = 0; other->count && !patches && i < 3; i++)
        if (srv_given(&c->pass.scope, other_names[i]))
            return srv_refuse(&c->pass.scope, SRV_VALUE, other_names[i],
                              "only patch reads the other text, and it is not in this request");
    return true;
}

/* Checks that the request has a target if the model has encoder and decoder, and none for other
 * models. */
static bool check_target(const srv_explain *c, const texts *t) {
    const bool both =
        srv_models_reads(c->pass.model, SRV_SOURCE) && srv_models_reads(c->pass.model, SRV_TARGET);
    for (size_t i = 0; !both && i < 3; i++)
        if (srv_given(&c->pass.scope, target_names[i]))
            return srv_refuse(&c->pass.scope, SRV_VALUE, target_names[i],
                              "the model \"%s\" has no target beside its text", c->pass.model->id);
    return !both || t->target.count ||
           srv_refuse(&c->pass.scope, SRV_VALUE, "target_text",
                      "send target_text, target_tokens or target_token_ids: what the decoder reads "
                      "is explained");
}

static bool takes_mean(const srv_objects *ablate) {
    const srv_intervention *items = ablate->items;
    bool takes = false;
    for (size_t i = 0; i < ablate->count; i++)
        takes = takes || items[i].how == 1;
    return takes;
}

/* Refuses reference texts if no intervention takes a mean. */
static bool check_reference(const srv_explain *c, const srv_sequences *reference) {
    const bool takes = takes_mean(&c->body.interventions.ablate) ||
                       takes_mean(&c->body.against.interventions.ablate);
    for (size_t i = 0; reference->count && !takes && i < 3; i++)
        if (srv_given(&c->pass.scope, reference_names[i]))
            return srv_refuse(&c->pass.scope, SRV_VALUE, reference_names[i],
                              "means are taken over references: no element of ablate has \"how\": "
                              "\"mean\"");
    return true;
}

/* Reads the texts of the request. false: a problem is set. */
static bool read_texts(srv_explain *c, texts *t) {
    const int which = srv_models_text_side(c->pass.model);
    *t = (texts){0};
    const srv_scope *scope = &c->pass.scope, inside = against_scope(c);
    if (!read_one(c, scope, &c->body.source, text_names, which, &t->text) ||
        !read_one(c, &inside, &c->body.against.source, text_names, which, &t->against) ||
        !read_one(c, scope, &c->body.target, target_names, SRV_TARGET, &t->target) ||
        !read_one(c, scope, &c->body.other, other_names, which, &t->other))
        return false;
    if (!t->text.count)
        return srv_refuse(scope, SRV_VALUE, "text", "send text, tokens or token_ids");
    return check_target(c, t) && check_other(c, &t->other) &&
           read_side(c, scope, &c->body.reference, reference_names, which, &t->reference) &&
           check_reference(c, &t->reference);
}

/* Adds a batch entry for a text and, if interventions change it, a second entry for the changed
 * text. Sets *plain to the first entry and *last to the last one. */
static void add_texts(srv_explain *c, const srv_sequence *text, const srv_sequence *target,
                      bool changed, size_t *plain, size_t *last) {
    *plain = c->B;
    add_sequence(c, text, target);
    if (changed)
        add_sequence(c, text, target);
    *last = c->B - 1;
}

/* Makes the batch from the texts of the request. false: a problem is set. */
static bool place_texts(srv_explain *c) {
    const srv_explain_body *body = &c->body;
    size_t first;
    texts t;
    c->compares = srv_given(&c->pass.scope, "against");
    if (!read_texts(c, &t))
        return false;
    const size_t most = 5 + t.reference.count;
    c->num_references = t.reference.count;
    c->sources.items = attn_arena_zeroed(c->pass.req->arena, most, sizeof *c->sources.items);
    c->targets.items = attn_arena_zeroed(c->pass.req->arena, most, sizeof *c->targets.items);
    if (!c->sources.items || !c->targets.items)
        return srv_problem_memory(c->pass.req, NULL, "no memory for the texts is left");
    add_texts(c, t.text.items, t.target.items, changes(&body->interventions), &first,
              &c->explained);
    const bool changed = changes(&body->against.interventions);
    if (c->compares && !t.against.count && !changed && !c->explained)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "against",
                          "against is the text itself: send another text, interventions or both");
    if (t.against.count)
        add_texts(c, t.against.items, t.target.items, changed, &c->against_text, &c->against);
    else if (changed) {
        c->against = c->B;
        add_sequence(c, t.text.items, t.target.items);
    }
    if (t.other.count)
        add_sequence(c, t.other.items, t.target.items);
    for (size_t i = 0; i < t.reference.count; i++)
        add_sequence(c, &t.reference.items[i], t.target.items);
    return true;
}

/* Sets *to to the tokens of a sequence as the stack with the logits reads them, including the begin
 * token. */
static bool name_read(srv_explain *c, size_t sequence, srv_sequence *to) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const bool decodes = srv_models_reads(c->pass.model, SRV_TARGET);
    const srv_sequence *s = (decodes ? c->targets : c->sources).items + sequence;
    srv_sequence begin;
    *to = *s;
    if (!decodes || !c->begins)
        return true;
    *to = (srv_sequence){.unknown = s->unknown, .length = s->length + 1};
    to->ids = attn_arena_zeroed(c->pass.req->arena, to->length, sizeof *to->ids);
    to->tokens = attn_arena_zeroed(c->pass.req->arena, to->length, sizeof *to->tokens);
    if (!to->ids || !to->tokens)
        return srv_problem_memory(c->pass.req, NULL, "no memory for the tokens is left");
    if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->begin, 1, &begin))
        return false;
    to->ids[0] = m->begin;
    to->tokens[0] = begin.tokens[0];
    memcpy(to->ids + 1, s->ids, s->length * sizeof *s->ids);
    memcpy(to->tokens + 1, s->tokens, s->length * sizeof *s->tokens);
    return true;
}

/* --- checks --- */

/* Sets rows to the numbers of tokens that the encoder (rows[0]) and the decoder (rows[1]) read in a
 * sequence. */
static void rows_of(const srv_explain *c, size_t sequence, size_t rows[2]) {
    rows[0] = c->sources.count ? c->sources.items[sequence].length : 0;
    rows[1] = c->targets.count ? c->targets.items[sequence].length + c->begins : 0;
}

/* Reads the interventions that change one sequence. If there are no reference texts, means are
 * taken over the sequence `plain`. */
static bool read_list(srv_explain *c, const srv_scope *scope, const srv_interventions *in,
                      size_t sequence, size_t plain, attn_intervention **out, size_t *count) {
    const size_t referred = c->num_references;
    srv_intervened of = {.sequence = sequence,
                         .other = c->B - 1 - referred, /* the references come after it */
                         .references = referred ? c->B - referred : plain,
                         .num_references = referred ? referred : 1};
    rows_of(c, sequence, of.rows);
    rows_of(c, of.other, of.other_rows);
    return srv_interventions_read(scope, c->pass.model, in, &of, out, count);
}

static bool read_interventions(srv_explain *c) {
    const srv_scope inside = against_scope(c);
    attn_intervention *lists[2];
    size_t counts[2];
    if (!read_list(c, &c->pass.scope, &c->body.interventions, c->explained, 0, &lists[0],
                   &counts[0]) ||
        !read_list(c, &inside, &c->body.against.interventions, c->against, c->against_text,
                   &lists[1], &counts[1]))
        return false;
    c->intervention_count = counts[0] + counts[1];
    c->interventions =
        attn_arena_zeroed(c->pass.req->arena, c->intervention_count + 1, sizeof *c->interventions);
    if (!c->interventions)
        return srv_problem_memory(c->pass.req, NULL, "no memory for the interventions is left");
    for (size_t i = 0; i < c->intervention_count; i++)
        c->interventions[i] = i < counts[0] ? lists[0][i] : lists[1][i - counts[0]];
    return true;
}

/* Sets the places: the requested positions of the explained sequence. */
static bool read_positions(srv_explain *c) {
    const srv_ints *list = &c->body.positions;
    if (!list->count && srv_given(&c->pass.scope, "positions"))
        return srv_refuse(&c->pass.scope, SRV_VALUE, "positions",
                          "expected at least one, found an empty list");
    if (!c->read.length || (c->compares && !c->against_read.length))
        return srv_refuse(&c->pass.scope, SRV_VALUE, c->read.length ? "against/text" : "text",
                          "expected at least one token");
    c->place_count = list->count ? list->count : 1;
    c->places = attn_arena_zeroed(c->pass.req->arena, c->place_count, sizeof *c->places);
    if (!c->places)
        return srv_problem_memory(c->pass.req, NULL, "no memory for the positions is left");
    c->places[0] = (attn_place){c->explained, c->read.length - 1};
    for (size_t i = 0; i < list->count; i++) {
        char at[32];
        snprintf(at, sizeof at, "positions/%zu", i);
        if (list->values[i] < 0 || (uint64_t)list->values[i] >= c->read.length)
            return srv_refuse(&c->pass.scope, SRV_VALUE, at,
                              "the model reads the tokens 0 to %zu, found %" PRId64,
                              c->read.length - 1, list->values[i]);
        if (c->compares && (uint64_t)list->values[i] >= c->against_read.length)
            return srv_refuse(&c->pass.scope, SRV_VALUE, at,
                              "of against the model reads the tokens 0 to %zu, found %" PRId64,
                              c->against_read.length - 1, list->values[i]);
        c->places[i] = (attn_place){c->explained, (size_t)list->values[i]};
    }
    return true;
}

static bool check_ids(const srv_explain *c) {
    const size_t V = attn_model_configuration(c->pass.model->model)->target_vocabulary;
    const srv_ints *list = &c->body.logit_ids;
    for (size_t i = 0; i < list->count; i++) {
        char at[32];
        snprintf(at, sizeof at, "logit_ids/%zu", i);
        if (list->values[i] < 0 || (uint64_t)list->values[i] >= V)
            return srv_refuse(&c->pass.scope, SRV_VALUE, at,
                              "expected an id from 0 to %zu, found %" PRId64, V - 1,
                              list->values[i]);
    }
    return true;
}

static bool check_return(srv_explain *c) {
    srv_explain_body *b = &c->body;
    if (!srv_given(&c->pass.scope, "return"))
        b->returns = c->explained ? SRV_EXPLAIN_CHANGE : c->compares ? 0 : SRV_EXPLAIN_LENS;
    if ((b->returns & SRV_EXPLAIN_CHANGE) && !c->explained)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "return",
                          "change needs interventions: send ablate, scale or patch");
    if (!(b->returns & SRV_EXPLAIN_CONTRIBUTIONS) && srv_given(&c->pass.scope, "logit_ids"))
        return srv_refuse(&c->pass.scope, SRV_VALUE, "logit_ids",
                          "only contributions are those of logits: ask for them by return");
    return b->returns || c->compares ||
           srv_refuse(&c->pass.scope, SRV_VALUE, "return",
                      "expected at least one, found an empty list");
}

static size_t longest_of(const srv_explain *c, int side) {
    return side == SRV_SOURCE ? c->sources.longest : c->targets.longest + c->begins;
}

static attn_model_cost cost_of(const srv_explain *c) {
    const attn_model *model = c->pass.model->model;
    const size_t logits = c->place_count * (c->body.logit_ids.count ? c->body.logit_ids.count : 1);
    const attn_model_pass pass = {.B = c->sources.count,
                                  .S = longest_of(c, SRV_SOURCE),
                                  .rows = c->targets.count,
                                  .T = c->targets.count ? longest_of(c, SRV_TARGET) : 0,
                                  .beams = 1,
                                  .places = c->place_count};
    attn_model_cost cost = srv_models_cost(&c->pass, &pass);
    const attn_model_cost more[] = {
        c->body.returns & SRV_EXPLAIN_LENS
            ? attn_model_lens_cost(model, c->place_count, (size_t)c->body.top_k)
            : (attn_model_cost){0},
        c->body.returns & SRV_EXPLAIN_CONTRIBUTIONS ? attn_model_contributions_cost(model, logits)
                                                    : (attn_model_cost){0}};
    for (int i = 0; i < 2; i++) {
        cost.operations += more[i].operations;
        cost.bytes += more[i].bytes;
    }
    if (c->compares)
        srv_explain_against_cost(c, &cost);
    return cost;
}

/* --- the row of the route --- */

static bool prepare(void *data) {
    srv_explain *c = data;
    /* The files of a known decoder-only model say how a text begins. Every other decoder reads the
     * begin token first. */
    c->begins = srv_models_reads(c->pass.model, SRV_TARGET) &&
                (!c->pass.model->known || srv_models_reads(c->pass.model, SRV_SOURCE));
    if (!c->body.top_k)
        c->body.top_k = 5;
    if (!check_model(c) || !place_texts(c) || !check_return(c) || !name_read(c, 0, &c->read) ||
        !name_read(c, c->against_text, &c->against_read) || !read_interventions(c) ||
        !read_positions(c) || !check_ids(c))
        return false;
    const attn_model_cost cost = cost_of(c);
    srv_models_bill(&c->pass, &cost, srv_explain_bytes(c));
    return true;
}

static bool add_shapes(void *data, srv_dry *dry) {
    const srv_explain *c = data;
    srv_models_dry(&c->pass, dry);
    return true;
}

static bool run_pass(srv_explain *c) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    srv_request *req = c->pass.req;
    attn_error err = {0};
    int64_t *lengths;
    attn_batch batch = {.B = c->B, .S = longest_of(c, SRV_SOURCE), .T = longest_of(c, SRV_TARGET)};
    const bool looks = c->body.returns & (SRV_EXPLAIN_LENS | SRV_EXPLAIN_CONTRIBUTIONS);
    const attn_forward_options options = {.keep = c->compares ? ATTN_KEEP_OPERATIONS : 0,
                                          .interventions = c->interventions,
                                          .intervention_count = c->intervention_count,
                                          .places = c->places,
                                          .place_count = looks ? c->place_count : 0};
    if (c->sources.count) {
        batch.source = srv_models_pad(req, &c->sources, batch.S, -1, &lengths);
        batch.source_lengths = lengths;
        if (!batch.source)
            return false;
    }
    if (c->targets.count) {
        batch.target =
            srv_models_pad(req, &c->targets, batch.T, c->begins ? m->begin : -1, &lengths);
        if (!batch.target)
            return false;
        for (size_t b = 0; b < c->B; b++)
            lengths[b] = (int64_t)(c->targets.items[b].length + c->begins);
        batch.target_lengths = lengths;
    }
    return !attn_model_forward(c->pass.model->model, &batch, &options, req->arena,
                               srv_request_pool(req), &req->control, &c->out, &err) ||
           srv_problem_error(req, &err);
}

static bool compute(void *data) {
    return run_pass(data) && srv_explain_results(data);
}

srv_outcome srv_models_explain(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_models_explain_fields,
        SRV_BODY_OF(srv_explain),
        SRV_MODEL_STEPS,
        .prepare = prepare,
        .dry = add_shapes,
        .compute = compute,
        .json = srv_explain_json,
        .text = srv_explain_text,
    };
    srv_explain c = {.pass.call.req = req,
                     .body = {.decimals = -1},
                     .loss_before = (double)NAN,
                     .loss_after = (double)NAN};
    req->control.progress = NULL; /* each attention of the model would report its own progress */
    return srv_models_run(&c.pass, &steps);
}
