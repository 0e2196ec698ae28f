/* POST /v1/models/{id}/generate generates tokens by greedy search, beam search or sampling. The
 * answer also has the attention of each step in the last layer: the cross-attention or, for a model
 * without an encoder, the self-attention. A search with one beam can be answered as server-sent
 * events, one for each step. */
#include <string.h>

#include "api/interventions/interventions_api.h"
#include "api/models/models_api.h"
#include "api/models/models_call.h"
#include "api/models/models_growing.h"
#include "api/models/models_sampling.h"
#include "api/models/models_steps.h"
#include "api/runs/runs_api.h"
#include "api/sequences/sequences_api.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"
#include "request/stream.h"
#include "wire/answer.h"

/* --- the request --- */

enum { WEIGHTS = 1, HEATMAP = 2 };
enum { EVENT = 1024 }; /* upper bound, in bytes, of the text of an event without its weights */
enum { CHOICE = 192 }; /* upper bound, in bytes, of the text of an alternative, token included */
static const char *const returns[] = {"weights", "heatmap", NULL};

typedef struct body {
    srv_given_bits given;
    srv_side source;
    srv_sight_input sight;
    int offset_unit;
    int64_t num_beams, max_length, num_alternatives, decimals, timeout_ms;
    attn_generate_options search; /* the fields that the request writes into them */
    srv_strings stop_tokens;
    srv_ints stop_token_ids;
    srv_interventions interventions;
    unsigned returns;
    srv_heat_input heatmap;
    srv_figure_input figure;
    bool dry_run, stream, store;
} body;

/* A generated sequence. */
typedef struct made {
    srv_sequence tokens; /* the generated tokens without the end token */
    srv_sequence rows; /* names of the rows of weights: `tokens` and, if generated, the end token */
    srv_sequence cols; /* names of the columns of weights */
    const char *text;  /* text of `tokens`; NULL: the model has no words */
} made;

typedef struct call {
    srv_pass pass;
    body body;
    srv_sequences source;
    size_t most; /* largest number of new tokens, the end token included */
    size_t read; /* largest number of tokens that the decoder reads */
    srv_warnings warnings;
    attn_intervention *interventions;
    size_t intervention_count;
    attn_generated *out;  /* [B] */
    made *made;           /* [B] */
    srv_told_steps steps; /* used if the answer is a stream */
    srv_growing growing;  /* used if the run is stored */
    const srv_run *run;   /* the stored run, held until the answer; NULL: not stored */
    double run_text;      /* upper bound of the bytes of the run's description */
    bool streams;         /* the answer is a stream */
} call;

const srv_field srv_models_generate_fields[] = {
    SRV_SIDE_ROWS(body, source, "", "token_ids", "The source"),
    SRV_SIGHT_ROWS(body, sight),
    SRV_OFFSET_UNIT_ROW(body),
    SRV_INT_ROW(body, num_beams, 1, 64, "Number of beams; 1 (default) is greedy search."),
    SRV_INT_ROW(body, max_length, 1, 65536,
                "Most tokens to generate, the end included; default 2 x source length + 10, at "
                "most the max_length of the model, which a decoder alone shares with its text."),
    SRV_NAMED_ROW(
        body, "length_penalty", search.length_penalty, SRV_REAL,
        "With beams, scores are divided by ((5 + length) / 6)^length_penalty; default 0.6.",
        .min = -10, .max = 10),
    SRV_SAMPLING_ROWS(body, search),
    SRV_FIELD_ROW(body, stop_tokens, SRV_STRINGS,
                  "Words of the vocabulary that end a sequence as <eos> does, such as [\".\"].",
                  .max = SRV_STOPS),
    SRV_FIELD_ROW(body, stop_token_ids, SRV_INTS, "Ids that end a sequence, like stop_tokens.",
                  .max = SRV_STOPS),
    SRV_ABLATE_ROWS(body, interventions),
    SRV_INT_ROW(body, num_alternatives, 1, ATTN_ALTERNATIVES_MOST,
                "For each step also answer this many of its most probable tokens, with their "
                "probabilities; events of a stream have them, too."),
    SRV_NAMED_ROW(body, "return", returns, SRV_FLAGS,
                  "The parts of the attention to return: heatmap (default), weights [heads, rows, "
                  "S]; [] for neither. It is the cross attention of the last layer; of a decoder "
                  "alone it is the self-attention of the last layer, [heads, rows, tokens read].",
                  .choices = returns),
    SRV_BOOL_ROW(body, stream,
                 "Answer with server-sent events during the search of one sequence: start "
                 "with the source, token for each step, then done with the whole answer, or error "
                 "with a problem. With store the second event is run, with the id of the run, "
                 "which grows with every step."),
    SRV_MODEL_STORE_ROW(body, "a search with one beam"),
    SRV_MODEL_COMMON_ROWS(body),
    {0},
};

/* Returns whether the model continues its text, because it has no encoder. */
static bool continues(const call *c) {
    return !srv_models_reads(c->pass.model, SRV_SOURCE);
}

/* Returns whether the decoder reads the text without a begin token of this service. A known model's
 * own files say which token begins a text, if any does. */
static bool reads_bare(const call *c) {
    return continues(c) && c->pass.model->known;
}

static bool decode(call *c) {
    srv_request *req = c->pass.req;
    body *b = &c->body;
    const size_t longest = attn_model_configuration(c->pass.model->model)->max_length;
    srv_reading source = {.req = req,
                          .model = c->pass.model,
                          .scope = &c->pass.scope,
                          .which = srv_models_text_side(c->pass.model),
                          .names = {"text", "tokens", "token_ids"},
                          .most = longest,
                          .adds_begin = continues(c) && !reads_bare(c),
                          .warnings = &c->warnings};
    if (!srv_figure_check(req, &b->figure))
        return false;
    if (!srv_models_reads(c->pass.model, SRV_TARGET))
        return srv_problem(req, SRV_VALUE, NULL,
                           "the model \"%s\" is an encoder, which generates no tokens: ask "
                           "/v1/models/%s/attention for its logits",
                           c->pass.model->id, c->pass.model->id);
    if (!srv_sampling_check(&c->pass.scope, b->num_beams))
        return false;
    source.unit = (srv_offset_unit)b->offset_unit;
    if (!srv_models_read(&source, &b->source, &c->source))
        return false;
    if (!c->source.count)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "text", "send text, tokens or token_ids");
    if (!srv_models_hide(&c->pass.scope, &b->sight, c->pass.model, &c->source, &c->warnings))
        return false;
    if (!srv_interventions_of_search(&c->pass.scope, c->pass.model, &b->interventions,
                                     &c->interventions, &c->intervention_count))
        return false;
    if (b->max_length > (int64_t)longest)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "max_length",
                          "the model writes at most %zu token%s, found %lld", longest,
                          attn_plural(longest), (long long)b->max_length);
    if (!srv_given(&c->pass.scope, "return"))
        b->returns = HEATMAP;
    c->most = b->max_length ? (size_t)b->max_length : 2 * c->source.longest + 10;
    c->most = c->most < longest ? c->most : longest;
    c->read = c->most + (continues(c) ? c->source.longest : 0);
    c->read = c->read < longest ? c->read : longest;
    return true;
}

/* Sets c->streams: the answer is a stream if the field `stream` or the header Accept asks for one.
 * Checks that the other fields allow a stream. false: a problem is set. */
static bool check_stream(call *c) {
    const body *b = &c->body;
    const unsigned accept = c->pass.req->accept;
    c->streams = b->stream || accept == SRV_ACCEPT_EVENTS;
    if (!c->streams)
        return true;
    if (accept != SRV_ACCEPT_EVENTS && accept != SRV_ACCEPT_JSON)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "stream",
                          "a stream is text/event-stream, which Accept does not prefer");
    if (b->num_beams > 1)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "num_beams",
                          "only a greedy search (1) is streamed: which tokens the best of several "
                          "hypotheses has is known at the end, found %lld",
                          (long long)b->num_beams);
    if (c->source.count > 1)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "stream",
                          "one sequence is streamed, found %zu", c->source.count);
    return true;
}

/* Checks that the search is greedy if the run is to be stored. */
static bool check_store(call *c) {
    const body *b = &c->body;
    if (b->store && b->num_beams > 1)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "store",
                          "only a greedy search (\"num_beams\": 1) is stored: hypotheses of a beam "
                          "search have no common rows, found %lld beams",
                          (long long)b->num_beams);
    return srv_model_run_check(&c->pass.scope, c->pass.model, b->store);
}

static double result_bytes(const call *c) {
    const double B = (double)c->source.count, most = (double)c->most;
    const double weights = B * (double)srv_models_heads(c->pass.model) * most *
                           (double)(continues(c) ? c->read : c->source.longest);
    double numbers = 3 * weights; /* the rows of weights, and a heatmap of them */
    numbers += c->body.returns & WEIGHTS ? weights : 0;
    numbers += c->streams ? weights : 0; /* the rows in the events */
    const double choices = c->body.num_alternatives ? 1 + (double)c->body.num_alternatives : 0;
    const double step = c->streams ? EVENT + CHOICE * choices : 0;
    const double start = c->streams ? EVENT + 64 * (double)c->source.longest : 0;
    return SRV_MODEL_TEXT * numbers + 64 * B * ((double)c->source.longest + most) +
           CHOICE * choices * B * most + start + step * most + c->run_text;
}

/* Returns whether the answer has the attention of the last layer. */
static bool shows_weights(const call *c) {
    return c->body.returns || srv_draws(c->pass.req) || srv_reads_text(c->pass.req);
}

/* Returns the cost of the search, without that of a stored run. */
static attn_model_cost cost_of(const call *c) {
    const size_t B = c->source.count, beams = (size_t)c->body.num_beams;
    const attn_model_pass extent = {.B = B,
                                    .S = c->source.longest,
                                    .rows = B * beams,
                                    .T = c->read,
                                    .searches = true,
                                    .samples = srv_given(&c->pass.scope, "seed"),
                                    .penalises = srv_sampling_penalty(&c->pass.scope) != NULL,
                                    .beams = beams,
                                    .hides = srv_models_hides(&c->source),
                                    .keeps_weights = shows_weights(c) || c->streams,
                                    .alternatives = (size_t)c->body.num_alternatives};
    return srv_models_cost(&c->pass, &extent);
}

static bool add_shapes(void *data, srv_dry *dry) {
    const call *c = data;
    const size_t B = c->source.count;
    srv_dry_shape(dry, "ids", 2, (size_t[2]){B, c->most});
    if (srv_models_attends(c->pass.model) && (c->body.returns & WEIGHTS))
        srv_dry_shape(dry, continues(c) ? "decoder" : "cross", 4,
                      (size_t[4]){B, srv_models_heads(c->pass.model), c->most,
                                  continues(c) ? c->read : c->source.longest});
    srv_models_dry(&c->pass, dry);
    return true;
}

/* --- the search --- */

/* Sets the names of the columns of the weights of sequence b. With an encoder, these are the source
 * tokens. Without an encoder, these are the begin token (if the decoder reads one), the text, and
 * the generated tokens except the last. */
static bool name_columns(call *c, size_t b) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const srv_sequence *text = &c->source.items[b], *rows = &c->made[b].rows;
    srv_sequence *to = &c->made[b].cols, begin;
    *to = *text;
    if (!continues(c))
        return true;
    const bool begins = !reads_bare(c);
    const size_t read = rows->length ? rows->length - 1 : 0; /* all but the last token */
    *to = (srv_sequence){.length = begins + text->length + read};
    to->tokens = attn_arena_zeroed(c->pass.req->arena, to->length + 1, sizeof *to->tokens);
    to->ids = attn_arena_zeroed(c->pass.req->arena, to->length + 1, sizeof *to->ids);
    if (!to->tokens || !to->ids)
        return srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL,
                           "no memory for the tokens is left");
    if (begins && !srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, &m->begin, 1, &begin))
        return false;
    if (begins) {
        to->tokens[0] = begin.tokens[0];
        to->ids[0] = begin.ids[0];
    }
    memcpy(to->tokens + begins, text->tokens, text->length * sizeof *to->tokens);
    memcpy(to->ids + begins, text->ids, text->length * sizeof *to->ids);
    if (read) {
        memcpy(to->tokens + begins + text->length, rows->tokens, read * sizeof *to->tokens);
        memcpy(to->ids + begins + text->length, rows->ids, read * sizeof *to->ids);
    }
    return true;
}

/* Sets made[b]: tokens, names of rows and columns, and text. false: a problem is set. */
static bool name(call *c, size_t b) {
    const attn_generated *g = &c->out[b];
    const size_t rows = g->length + g->ended;
    const attn_tokenizer *target = c->pass.model->target;
    made *to = &c->made[b];
    int32_t *ids = attn_arena_zeroed(c->pass.req->arena, rows + 1, sizeof *ids);
    if (ids) {
        memcpy(ids, g->ids, g->length * sizeof *ids);
        ids[g->length] = g->end;
        if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, ids, rows, &to->rows))
            return false;
        to->tokens = to->rows;
        to->tokens.length = g->length;
        to->text = attn_tokenizer_decode(target, g->ids, g->length, false, c->pass.req->arena);
    }
    if (ids && (to->text || !attn_tokenizer_has_texts(target)))
        return name_columns(c, b);
    return srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
}

/* Begins the stream of events, and replaces c->pass.req by the request of srv_events_request.
 * false: a problem is set. */
static bool begin_events(call *c, attn_generate_options *options) {
    srv_events *events = srv_events_new(c->pass.req);
    if (!events)
        return false;
    c->pass.req = srv_events_request(events);
    c->steps = (srv_told_steps){
        .events = events,
        .model = c->pass.model,
        .source = &c->source.items[0],
        .heatmap = c->body.returns ? &c->body.heatmap : NULL,
        .decimals = (int)c->body.decimals,
        .ids = attn_arena_zeroed(c->pass.req->arena, c->most + 1, sizeof *c->steps.ids)};
    if (!c->steps.ids)
        return srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL,
                           "no memory for the tokens is left");
    options->token = srv_step_say;
    options->ctx = &c->steps;
    return true;
}

static bool compute(void *data) {
    call *c = data;
    const size_t B = c->source.count;
    attn_generate_options options = c->body.search;
    attn_error err = {0};
    int64_t *lengths;
    if (c->streams && !begin_events(c, &options))
        return false;
    srv_request *req = c->pass.req;
    const int32_t *source = srv_models_pad(req, &c->source, c->source.longest, -1, &lengths);
    if (!source || !srv_models_keep(req, &c->source, &options.source_keep) ||
        !srv_stops_read(&c->pass, &c->body.stop_tokens, &c->body.stop_token_ids, &options))
        return false;
    options.bare = reads_bare(c);
    if (c->body.store) {
        if (!srv_growing_begin(&c->growing, req, c->pass.model, &c->source, c->read,
                               c->steps.events ? &c->steps : NULL))
            return false;
        options.step = srv_growing_step;
        options.step_ctx = &c->growing;
    }
    c->out = attn_arena_zeroed(req->arena, B, sizeof *c->out);
    c->made = attn_arena_zeroed(req->arena, B, sizeof *c->made);
    options.beams = (size_t)c->body.num_beams;
    options.most = c->most;
    options.interventions = c->interventions;
    options.intervention_count = c->intervention_count;
    options.alternatives = (size_t)c->body.num_alternatives;
    options.samples = srv_given(&c->pass.scope, "seed");
    options.want_weights = shows_weights(c);
    attn_status status =
        c->out && c->made
            ? attn_model_generate(c->pass.model->model, source, lengths, B, c->source.longest,
                                  &options, req->arena, srv_request_pool(req), &req->control,
                                  c->out, &err)
            : attn_fail(&err, ATTN_ENOMEM, "", "no memory for the generated sequences");
    if (status && !c->steps.failed && !c->growing.failed)
        srv_problem_error(req, &err);
    for (size_t b = 0; !status && b < B; b++)
        if (!name(c, b))
            return false;
    return !status && (!c->body.store || srv_growing_close(&c->growing, c->out, &c->run));
}

/* --- the answer --- */

/* Returns whether the search kept weights of sequence b. */
static bool has_weights(const call *c, size_t b) {
    return c->out[b].weights && c->made[b].rows.length > 0;
}

static bool heatmaps_of(const call *c, size_t b, srv_model_heatmaps *out) {
    const attn_generated *g = &c->out[b];
    const srv_sequence *rows = &c->made[b].rows, *cols = &c->made[b].cols;
    const char **row_names = srv_models_shown(c->pass.req, c->pass.model, SRV_TARGET, rows),
               **col_names = srv_models_shown(c->pass.req, c->pass.model,
                                              continues(c) ? SRV_TARGET : SRV_SOURCE, cols);
    if (!row_names || !col_names)
        return false;
    const srv_model_weights what = {.weights = g->weights,
                                    .heads = g->heads,
                                    .head_stride = rows->length * g->columns,
                                    .stride = g->columns,
                                    .rows = rows->length,
                                    .cols = cols->length,
                                    .batch = b,
                                    .row_names = row_names,
                                    .col_names = col_names};
    return srv_models_heatmaps(c->pass.req, &what, &c->body.heatmap, out);
}

/* Sequence b of the answer. */
typedef struct sequence_answer {
    const call *call;
    size_t b;
    const char *text;
    bool ended, has_steps, has_heatmap;
    double score;
    attn_tensor weights;
} sequence_answer;

static void put_source(attn_json_text *j, const void *place) {
    const sequence_answer *a = place;
    srv_models_put(j, &a->call->source.items[a->b]);
}

static void put_target(attn_json_text *j, const void *place) {
    const sequence_answer *a = place;
    srv_models_put(j, &a->call->made[a->b].rows);
}

static void put_score(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)*(const double *)place);
}

static void put_steps(attn_json_text *j, const void *place) {
    const sequence_answer *a = place;
    const call *c = a->call;
    if (!srv_steps_put(j, c->pass.model, &c->out[a->b], &c->made[a->b].rows))
        j->failed = true;
}

static void put_heatmap(attn_json_text *j, const void *place) {
    const sequence_answer *a = place;
    srv_model_heatmaps maps;
    if (heatmaps_of(a->call, a->b, &maps))
        srv_heat_put(j, &maps.maps, &a->call->body.heatmap, &maps.labels);
    else
        j->failed = true;
}

static const srv_field sequence_rows[] = {
    SRV_WRITTEN("source", "ModelTokens", put_source, "The source with its tokens.", .always = true),
    SRV_IF_KNOWN("text", SRV_STRING, sequence_answer, text,
                 "What was generated, without the token that ended it."),
    SRV_WRITTEN("target", "ModelTokens", put_target, "What was generated, with its tokens.",
                .always = true),
    SRV_ALWAYS("ended", SRV_BOOL, sequence_answer, ended,
               "Whether a token ended it, which is then the last of target."),
    SRV_WRITTEN_AT("score", "number?", put_score, sequence_answer, score,
                   "The sum of log probabilities, divided by the length penalty if num_beams is "
                   "above 1.",
                   .always = true),
    SRV_WRITTEN("steps", "[ModelStep]", put_steps,
                "With num_alternatives: the probability of each token and the most probable ones "
                "of its step.",
                .when = offsetof(sequence_answer, has_steps)),
    SRV_IF_KNOWN("weights", SRV_TENSOR, sequence_answer, weights,
                 "Weights of the last layer: cross attention; of a decoder alone self-attention."),
    SRV_WRITTEN("heatmap", "Heatmap", put_heatmap, "The same as a heatmap.",
                .when = offsetof(sequence_answer, has_heatmap)),
    {0},
};

static const srv_field generation_rows[] = {
    SRV_WRITTEN("sequences", "[*]", NULL, "One for each source.", .fields = sequence_rows),
    SRV_WRITTEN("run", "Run", NULL, "The stored run, with store."),
    SRV_WARNINGS_MEMBER(call, warnings),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_models_generation_answers[] = {
    SRV_GROUP("ModelGeneration", generation_rows, NULL),
    {0},
};

/* Writes sequence b. false: a problem is set. */
static bool put_sequence(attn_json_text *j, const call *c, size_t b) {
    const bool weighs = has_weights(c, b);
    sequence_answer a = {.call = c,
                         .b = b,
                         .text = c->made[b].text,
                         .ended = c->out[b].ended,
                         .score = c->out[b].score,
                         .has_steps = c->out[b].alternatives,
                         .has_heatmap = weighs && (c->body.returns & HEATMAP)};
    if (weighs && (c->body.returns & WEIGHTS))
        a.weights = attn_tensor_dense(
            c->out[b].weights, ATTN_F32, 3,
            (size_t[3]){c->out[b].heads, c->made[b].rows.length, c->out[b].columns});
    srv_answer_object(j, sequence_rows, &a);
    return c->pass.req->reply.status < 400;
}

static void answer_json(void *data, attn_json_text *j) {
    const call *c = data;
    attn_json_key_array(j, "sequences");
    for (size_t b = 0; b < c->source.count; b++)
        if (!put_sequence(j, c, b))
            return;
    attn_json_array_end(j);
    if (c->run)
        srv_run_member(j, c->run);
    srv_warnings_write(j, &c->warnings);
}

static void answer_text(void *data, attn_text *t) {
    const call *c = data;
    for (size_t b = 0; b < c->source.count; b++) {
        const srv_sequence *tokens = &c->made[b].tokens;
        srv_model_heatmaps maps;
        if (c->made[b].text)
            attn_text_add(t, "%s", c->made[b].text);
        for (size_t i = 0; !c->made[b].text && i < tokens->length; i++)
            attn_text_add(t, "%s%s", i ? " " : "", tokens->tokens[i]);
        attn_text_add(t, "\n");
        if (c->out[b].alternatives &&
            !srv_steps_text(t, c->pass.req, c->pass.model, &c->out[b], &c->made[b].rows))
            return;
        if (!(c->body.returns & HEATMAP) || !has_weights(c, b))
            continue;
        if (!heatmaps_of(c, b, &maps))
            return;
        srv_heat_text(t, &maps.maps, &maps.labels, NULL);
    }
    srv_run_print(t, c->run);
    srv_warnings_text(t, &c->warnings);
}

static void answer_picture(void *data) {
    const call *c = data;
    srv_model_heatmaps maps;
    if (heatmaps_of(c, 0, &maps))
        srv_models_draw(c->pass.req, &maps, &c->body.heatmap, &c->body.figure, c->body.decimals);
}

/* --- the row of the route --- */

static bool prepare(void *data) {
    call *c = data;
    if (!decode(c) || !check_stream(c) || !check_store(c) ||
        !srv_models_may_draw(&c->pass, c->source.count))
        return false;
    c->pass.call.needs_thread = c->streams || c->body.store;
    attn_model_cost cost = cost_of(c);
    if (c->body.store &&
        !srv_growing_cost(c->pass.req, c->pass.model, c->source.count,
                          continues(c) ? 0 : c->source.longest, c->read, &cost, &c->run_text))
        return false;
    srv_models_bill(&c->pass, &cost, result_bytes(c));
    return true;
}

srv_outcome srv_models_generate(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_models_generate_fields,
        SRV_BODY_OF(call),
        SRV_MODEL_STEPS,
        .prepare = prepare,
        .dry = add_shapes,
        .compute = compute,
        .json = answer_json,
        .text = answer_text,
        .picture = answer_picture,
    };
    call c = {.pass.call.req = req,
              .body = {.num_beams = 1,
                       .decimals = -1,
                       .search = attn_generate_defaults(),
                       .figure = SRV_FIGURE_DEFAULTS}};
    const srv_outcome outcome = srv_models_run(&c.pass, &steps);
    srv_growing_end(&c.growing);
    if (c.run)
        srv_run_tell(c.pass.req, c.run);
    if (c.steps.events)
        srv_events_end(c.steps.events);
    return outcome;
}
