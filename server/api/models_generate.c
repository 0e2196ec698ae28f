/* POST /v1/models/{id}/generate answers a greedy or beam search and the cross-attention of its
 * steps. A greedy search can be answered as server-sent events, one for each step. */
#include <math.h>
#include <string.h>

#include "api/handlers.h"
#include "api/models_call.h"
#include "api/route_fields.h"
#include "request/shared.h"
#include "request/stream.h"

/* --- the steps of a greedy search as events --- */

/* The state of a search that is answered by events. Each event is written in an arena of its own,
 * and only its text is kept in the request's arena, which must hold all events. */
typedef struct told_steps {
    srv_events *events;
    const srv_model *model;
    const srv_sequence *source;
    const srv_heat_input *heatmap; /* which heads the events have; NULL: events have no weights */
    int decimals;
    size_t index; /* number of the next step, from 0 */
    int32_t *ids; /* ids of the steps so far; room for all steps */
    bool failed;  /* a step has failed and set a problem */
} told_steps;

/* Returns the text that the step's token appends to the text so far, with a space if one belongs
 * before it. The end token appends nothing. NULL: memory ran out. */
static const char *text_of(const told_steps *s, attn_arena *arena) {
    const attn_vocabulary *v = s->model->target;
    const attn_language language = s->model->languages[SRV_TARGET];
    if (s->ids[s->index] == attn_model_configuration(s->model->model)->end)
        return "";
    const char *before = attn_vocabulary_join(v, s->ids, s->index, language, true, arena),
               *text = attn_vocabulary_join(v, s->ids, s->index + 1, language, true, arena);
    return before && text ? text + strlen(before) : NULL;
}

/* Writes the cross-attention of the step, one row for each requested head. false: a problem is
 * set. */
static bool put_step_attention(srv_json *j, const told_steps *s, const float *weights) {
    const srv_model_weights what = {.weights = weights,
                                    .heads = srv_models_cross_heads(s->model),
                                    .head_stride = s->source->length,
                                    .stride = s->source->length,
                                    .rows = 1,
                                    .cols = s->source->length};
    srv_heat_input in = {0};
    srv_model_heatmaps maps;
    in.heads = s->heatmap->heads;
    in.max_cells = (int64_t)(what.heads * what.cols);
    if (!srv_models_heatmaps(j->req, &what, &in, &maps))
        return false;
    srv_json_key(j, "attention");
    srv_json_array(j);
    for (size_t i = 0; i < maps.maps.count; i++) {
        const attn_heatmap *map = &maps.maps.items[i];
        srv_json_object(j);
        srv_json_key(j, "head");
        if (map->head == SIZE_MAX)
            srv_json_string(j, "mean");
        else
            srv_json_size(j, map->head);
        srv_json_key(j, "weights");
        srv_json_floats(j, map->max, map->shape[1]);
        srv_json_object_end(j);
    }
    srv_json_array_end(j);
    return true;
}

static bool put_step(srv_json *j, told_steps *s, int32_t id, double log_probability,
                     const float *weights) {
    srv_sequence token;
    if (!srv_models_name(j->req, s->model, SRV_TARGET, &id, 1, &token))
        return false;
    srv_json_object(j);
    srv_json_key(j, "index");
    srv_json_size(j, s->index);
    srv_json_key(j, "token");
    srv_json_string(j, token.tokens[0]);
    srv_json_key(j, "id");
    srv_json_int(j, id);
    if (s->model->target) {
        s->ids[s->index] = id;
        const char *text = text_of(s, j->req->arena);
        j->failed |= !text;
        srv_json_key(j, "text");
        srv_json_string(j, text);
    }
    srv_json_key(j, "log_probability");
    srv_json_float(j, (float)log_probability);
    if (s->heatmap && weights && !put_step_attention(j, s, weights))
        return false;
    srv_json_object_end(j);
    return srv_json_end(j);
}

/* Copies the reply from the arena of the step into the arena of the request. */
static bool keep_event(srv_request *req) {
    const srv_reply *r = &req->reply;
    const char *text = attn_arena_text(req->arena, r->body, r->size);
    if (text)
        srv_reply_set(req, r->status, r->type, text, r->size);
    else
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for a step's event is left");
    return text && req->reply.status < 400;
}

/* Sends the event of one step. This is the callback attn_generate_options.token. */
static int say_step(void *ctx, int32_t id, double log_probability, const float *weights) {
    told_steps *s = ctx;
    srv_request *req = srv_events_request(s->events);
    attn_arena *all = req->arena;
    srv_json j;
    req->arena = attn_arena_new(attn_arena_limit(all) - attn_arena_used(all));
    if (req->arena) {
        srv_json_begin(&j, req);
        j.decimals = s->decimals;
        put_step(&j, s, id, log_probability, weights);
    }
    attn_arena *step = req->arena;
    req->arena = all;
    const bool kept = step && keep_event(req);
    attn_arena_free(step);
    s->index++;
    if (kept && srv_events_add(s->events, "token", req->reply.body, req->reply.size))
        return 0;
    if (req->reply.status < 400)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for a step's event is left");
    s->failed = true;
    return 1;
}

/* --- the request --- */

enum { WEIGHTS = 1, HEATMAP = 2 };
enum { EVENT = 1024 }; /* upper bound of the text of an event without its weights, in bytes */
static const char *const returns[] = {"weights", "heatmap", NULL};

typedef struct body {
    uint64_t given;
    srv_side source;
    int64_t beams, max_length, decimals, timeout_ms;
    double length_penalty;
    unsigned returns;
    srv_heat_input heatmap;
    srv_figure_input figure;
    bool dry_run, stream;
} body;

/* A generated sequence. `rows` names the rows of its weights: the tokens and, if the search has
 * reached it, the end token. */
typedef struct made {
    srv_sequence tokens, rows;
    const char *text; /* NULL: the model has no vocabulary */
} made;

typedef struct call {
    srv_pass pass;
    body body;
    srv_sequences source;
    size_t most; /* most tokens, the end token included */
    srv_warnings warnings;
    attn_generated *out; /* [B], one for each sequence */
    made *made;          /* [B], one for each sequence */
    told_steps steps;    /* used if the answer is a stream */
} call;

const srv_field srv_models_generate_fields[] = {
    SRV_SIDE_ROWS(body, source, "", "token_ids", "The source"),
    SRV_INT_ROW(body, beams, 1, 64, "Number of beams; 1 (default) is greedy search."),
    SRV_INT_ROW(body, max_length, 1, 65536,
                "Most tokens to generate, the end included; default 2 x source length + 10, at "
                "most the max_length of the model."),
    SRV_REAL_ROW(
        body, length_penalty, -10, 10,
        "With beams, scores are divided by ((5 + length) / 6)^length_penalty; default 0.6."),
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = offsetof(body, returns),
     .choices = returns,
     .doc = "The parts of the cross attention to return: heatmap (default), weights [heads, rows, "
            "S]; [] for neither."},
    SRV_BOOL_ROW(body, stream,
                 "Answer with server-sent events during the greedy search of one sequence: token "
                 "for each step, then done with the whole answer, or error with a problem."),
    SRV_MODEL_COMMON_ROWS(body),
    {0},
};

static bool decode(call *c) {
    srv_request *req = c->pass.req;
    body *b = &c->body;
    const srv_scope scope = {req, srv_models_generate_fields, &b->given, ""};
    const size_t longest = attn_model_configuration(c->pass.model->model)->max_length;
    const srv_reading source = {
        req,     c->pass.model, &scope, SRV_SOURCE, {"text", "tokens", "token_ids"},
        longest, &c->warnings};
    *b = (body){.beams = 1, .decimals = -1, .length_penalty = 0.6, .figure = SRV_FIGURE_DEFAULTS};
    if (!srv_read_body(req, srv_models_generate_fields, b, &b->timeout_ms) ||
        !srv_figure_check(req, &b->figure) || !srv_models_read(&source, &b->source, &c->source))
        return false;
    if (!c->source.count)
        return srv_refuse(&scope, SRV_VALUE, "text", "send text, tokens or token_ids");
    if (b->max_length > (int64_t)longest)
        return srv_refuse(&scope, SRV_VALUE, "max_length",
                          "the model writes at most %zu tokens, found %lld", longest,
                          (long long)b->max_length);
    if (!srv_given(&scope, "return"))
        b->returns = HEATMAP;
    c->most = b->max_length ? (size_t)b->max_length : 2 * c->source.longest + 10;
    c->most = c->most < longest ? c->most : longest;
    return true;
}

/* Decides whether the answer is a stream, which the field `stream` or Accept asks for, and checks
 * that the request allows one. */
static bool check_stream(call *c) {
    const body *b = &c->body;
    const unsigned accept = c->pass.req->accept;
    const srv_scope scope = {c->pass.req, srv_models_generate_fields, &b->given, ""};
    c->pass.streams = b->stream || accept == SRV_ACCEPT_EVENTS;
    if (!c->pass.streams)
        return true;
    if (accept != SRV_ACCEPT_EVENTS && accept != SRV_ACCEPT_JSON)
        return srv_refuse(&scope, SRV_VALUE, "stream",
                          "a stream is text/event-stream, which Accept does not prefer");
    if (b->beams > 1)
        return srv_refuse(&scope, SRV_VALUE, "beams",
                          "only a greedy search (1) is streamed: which tokens the best of several "
                          "hypotheses has is known at the end, found %lld",
                          (long long)b->beams);
    if (c->source.count > 1)
        return srv_refuse(&scope, SRV_VALUE, "stream", "one sequence is streamed, found %zu",
                          c->source.count);
    return true;
}

static double result_bytes(const call *c) {
    const double B = (double)c->source.count, most = (double)c->most;
    const double weights =
        B * (double)srv_models_cross_heads(c->pass.model) * most * (double)c->source.longest;
    double numbers = 3 * weights; /* the rows of weights, and a heatmap of them */
    numbers += c->body.returns & WEIGHTS ? weights : 0;
    numbers += c->pass.streams ? weights : 0; /* the rows in the events */
    const double step = c->pass.streams ? EVENT : 0;
    return SRV_MODEL_TEXT * numbers + 64 * B * ((double)c->source.longest + most) + step * most;
}

static srv_outcome predict(const call *c, const attn_model_cost *cost) {
    const size_t B = c->source.count;
    srv_dry dry = {.learns = true,
                   .parameters =
                       attn_parameters_count(attn_model_parameters(c->pass.model->model), "")};
    srv_dry_shape(&dry, "ids", 2, (size_t[2]){B, c->most});
    if (srv_models_attends(c->pass.model))
        srv_dry_shape(
            &dry, "cross", 4,
            (size_t[4]){B, srv_models_cross_heads(c->pass.model), c->most, c->source.longest});
    return srv_models_dry(c->pass.req, &dry, cost, result_bytes(c));
}

/* --- the search --- */

/* Names the tokens and the rows of sequence b and joins its text. false: a problem is set. */
static bool name(call *c, size_t b) {
    const attn_generated *g = &c->out[b];
    const size_t rows = g->length + g->ended;
    attn_arena *arena = c->pass.req->arena;
    made *to = &c->made[b];
    int32_t *ids = attn_arena_zeroed(arena, rows + 1, sizeof *ids);
    if (ids) {
        memcpy(ids, g->ids, g->length * sizeof *ids);
        ids[g->length] = attn_model_configuration(c->pass.model->model)->end;
        if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, ids, rows, &to->rows))
            return false;
        to->tokens = to->rows;
        to->tokens.length = g->length;
        to->text = c->pass.model->target
                       ? attn_vocabulary_join(c->pass.model->target, g->ids, g->length,
                                              c->pass.model->languages[SRV_TARGET], false, arena)
                       : NULL;
    }
    if (ids && (to->text || !c->pass.model->target))
        return true;
    srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
    return false;
}

/* Begins the stream of events. From now on c->pass.req is the request of srv_events_request. false:
 * a problem is set. */
static bool begin_events(call *c, attn_generate_options *options) {
    srv_events *events = srv_events_new(c->pass.req);
    if (!events)
        return false;
    c->pass.req = srv_events_request(events);
    c->steps = (told_steps){
        .events = events,
        .model = c->pass.model,
        .source = &c->source.items[0],
        .heatmap = c->body.returns ? &c->body.heatmap : NULL,
        .decimals = (int)c->body.decimals,
        .ids = attn_arena_zeroed(c->pass.req->arena, c->most + 1, sizeof *c->steps.ids)};
    if (!c->steps.ids) {
        srv_problem(c->pass.req, SRV_MEMORY_BUDGET, NULL, "no memory for the tokens is left");
        return false;
    }
    options->token = say_step;
    options->ctx = &c->steps;
    return true;
}

static bool compute(call *c) {
    const size_t B = c->source.count;
    attn_generate_options options = attn_generate_defaults();
    attn_error err = {0};
    int64_t *lengths;
    if (c->pass.streams && !begin_events(c, &options))
        return false;
    srv_request *req = c->pass.req;
    const int32_t *source = srv_models_pad(req, &c->source, c->source.longest, -1, &lengths);
    if (!source)
        return false;
    c->out = attn_arena_zeroed(req->arena, B, sizeof *c->out);
    c->made = attn_arena_zeroed(req->arena, B, sizeof *c->made);
    options.beams = (size_t)c->body.beams;
    options.most = c->most;
    options.length_penalty = c->body.length_penalty;
    options.want_weights = c->body.returns || srv_draws(req) || srv_reads_text(req);
    attn_status status =
        c->out && c->made
            ? attn_model_generate(c->pass.model->model, source, lengths, B, c->source.longest,
                                  &options, req->arena, srv_request_pool(req), &req->control,
                                  c->out, &err)
            : attn_fail(&err, ATTN_ENOMEM, "", "no memory for the generated sequences");
    if (status && !c->steps.failed)
        srv_problem_error(req, &err);
    for (size_t b = 0; !status && b < B; b++)
        if (!name(c, b))
            return false;
    return !status;
}

/* --- the answer --- */

/* Returns whether the search kept weights of sequence b. */
static bool has_weights(const call *c, size_t b) {
    return c->out[b].weights && c->made[b].rows.length > 0;
}

static bool heatmaps_of(const call *c, size_t b, srv_model_heatmaps *out) {
    const attn_generated *g = &c->out[b];
    const srv_sequence *rows = &c->made[b].rows, *cols = &c->source.items[b];
    const srv_model_weights what = {.weights = g->weights,
                                    .heads = g->heads,
                                    .head_stride = rows->length * c->source.longest,
                                    .stride = c->source.longest,
                                    .rows = rows->length,
                                    .cols = cols->length,
                                    .batch = b,
                                    .row_names = rows->tokens,
                                    .col_names = cols->tokens};
    return srv_models_heatmaps(c->pass.req, &what, &c->body.heatmap, out);
}

/* Writes weights and heatmap of sequence b. false: a problem is set. */
static bool put_attention(srv_json *j, const call *c, size_t b) {
    srv_model_heatmaps maps;
    if (!has_weights(c, b))
        return true;
    if (c->body.returns & WEIGHTS) {
        const size_t dims[3] = {c->out[b].heads, c->made[b].rows.length, c->source.longest};
        const attn_tensor weights = attn_tensor_dense(c->out[b].weights, ATTN_F32, 3, dims);
        srv_json_key(j, "weights");
        srv_json_tensor(j, &weights);
    }
    if (!(c->body.returns & HEATMAP))
        return true;
    if (!heatmaps_of(c, b, &maps))
        return false;
    srv_json_key(j, "heatmap");
    srv_heat_write(j, &maps.maps, &c->body.heatmap, &maps.labels);
    return true;
}

static bool put_sequence(srv_json *j, const call *c, size_t b) {
    const made *m = &c->made[b];
    srv_json_object(j);
    srv_json_key(j, "source");
    srv_models_put(j, &c->source.items[b]);
    if (m->text) {
        srv_json_key(j, "text");
        srv_json_string(j, m->text);
    }
    srv_json_key(j, "target");
    srv_models_put(j, &m->tokens);
    srv_json_key(j, "ended");
    srv_json_bool(j, c->out[b].ended);
    srv_json_key(j, "score");
    srv_json_float(j, (float)c->out[b].score);
    if (!put_attention(j, c, b))
        return false;
    srv_json_object_end(j);
    return true;
}

static void answer_json(const call *c) {
    srv_json j;
    srv_json_begin(&j, c->pass.req);
    j.decimals = (int)c->body.decimals;
    srv_json_object(&j);
    srv_json_key(&j, "sequences");
    srv_json_array(&j);
    for (size_t b = 0; b < c->source.count; b++)
        if (!put_sequence(&j, c, b))
            return;
    srv_json_array_end(&j);
    srv_warnings_write(&j, &c->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_text(const call *c) {
    attn_text t = srv_text_begin(c->pass.req);
    for (size_t b = 0; b < c->source.count; b++) {
        const srv_sequence *tokens = &c->made[b].tokens;
        srv_model_heatmaps maps;
        if (c->made[b].text)
            attn_text_add(&t, "%s", c->made[b].text);
        for (size_t i = 0; !c->made[b].text && i < tokens->length; i++)
            attn_text_add(&t, "%s%s", i ? " " : "", tokens->tokens[i]);
        attn_text_add(&t, "\n");
        if (!(c->body.returns & HEATMAP) || !has_weights(c, b))
            continue;
        if (!heatmaps_of(c, b, &maps))
            return;
        srv_heat_text(&t, &maps.maps, &maps.labels, NULL);
    }
    srv_warnings_text(&t, &c->warnings);
    srv_text_end(c->pass.req, &t);
}

static void answer_picture(const call *c) {
    srv_model_heatmaps maps;
    if (heatmaps_of(c, 0, &maps))
        srv_models_draw(c->pass.req, &maps, &c->body.heatmap, &c->body.figure, c->body.decimals);
}

static void answer(const call *c) {
    if (srv_draws(c->pass.req))
        answer_picture(c);
    else if (srv_reads_text(c->pass.req))
        answer_text(c);
    else
        answer_json(c);
}

/* --- the steps of srv_pass_steps --- */

static call *of(srv_pass *pass) {
    return (call *)pass;
}
static const call *in(const srv_pass *pass) {
    return (const call *)pass;
}

static bool step_decode(srv_pass *pass) {
    if (!decode(of(pass)) || !check_stream(of(pass)) ||
        !srv_models_may_draw(pass, of(pass)->source.count))
        return false;
    pass->dry_run = of(pass)->body.dry_run;
    return true;
}

static attn_model_cost step_cost(const srv_pass *pass) {
    const call *c = in(pass);
    const double B = (double)c->source.count;
    return srv_models_cost(pass,
                           &(attn_model_pass){B, (double)c->source.longest,
                                              B * (double)c->body.beams, (double)c->most, true});
}

static double step_result(const srv_pass *pass) {
    return result_bytes(in(pass));
}

static srv_outcome step_predict(const srv_pass *pass, const attn_model_cost *cost) {
    return predict(in(pass), cost);
}

static bool step_compute(srv_pass *pass) {
    return compute(of(pass));
}

static void step_answer(const srv_pass *pass) {
    answer(in(pass));
}

srv_outcome srv_models_generate(srv_request *req) {
    static const srv_pass_steps steps = {step_decode,  step_cost,    step_result,
                                         step_predict, step_compute, step_answer};
    call c = {.pass = {.req = req}};
    const srv_outcome outcome = srv_models_run(&c.pass, &steps);
    if (c.steps.events)
        srv_events_end(c.steps.events);
    return outcome;
}
