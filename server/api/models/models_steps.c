/* Writes the steps of a search as events, and the alternatives to the token of each step. */
#include "api/models/models_steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/models/models_api.h"
#include "api/predictions/predictions_api.h"
#include "request/shared.h"
#include "wire/answer.h"

/* --- the end --- */

bool srv_stops_read(const srv_pass *pass, const srv_strings *words, const srv_ints *ids,
                    attn_generate_options *options) {
    const srv_known *known = pass->model->known;
    const attn_tokenizer *tokens = srv_models_tokenizer(pass->model, SRV_TARGET);
    const int32_t unknown = attn_tokenizer_special(tokens, ATTN_SPECIAL_UNKNOWN);
    const size_t size = attn_tokenizer_size(tokens), most = 2 * SRV_STOPS + ATTN_KNOWN_STOPS;
    int32_t *stops = attn_arena_zeroed(pass->req->arena, most, sizeof *stops);
    size_t n = 0;
    char at[64];
    if (!stops)
        return srv_problem_memory(pass->req, NULL, "no memory for the tokens that end a sequence");
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->values[i];
        stops[n] = attn_tokenizer_id(tokens, word, strlen(word));
        snprintf(at, sizeof at, "stop_tokens/%zu", i);
        if (stops[n++] == unknown)
            return srv_refuse(&pass->scope, SRV_VALUE, at,
                              "\"%.60s\" is not in the model's vocabulary", word);
    }
    for (size_t i = 0; i < ids->count; i++) {
        const int64_t id = ids->values[i];
        snprintf(at, sizeof at, "stop_token_ids/%zu", i);
        if (id < 0 || (size_t)id >= size)
            return srv_refuse(&pass->scope, SRV_VALUE, at,
                              "expected an id from 0 to %zu, found %" PRId64, size - 1, id);
        stops[n++] = (int32_t)id;
    }
    for (size_t i = 0; known && i < known->stop_count; i++)
        stops[n++] = known->stops[i];
    options->stop = stops;
    options->stop_count = n;
    return true;
}

/* --- alternatives --- */

/* A token that a step took or could take. */
typedef struct choice_answer {
    srv_choice choice;
    const attn_alternatives *all; /* alternatives of the step; NULL: not wanted */
    const srv_sequence *names;    /* the alternatives as tokens; NULL: not wanted */
} choice_answer;

static void put_alternatives(attn_json_text *j, const void *place) {
    const choice_answer *of = place;
    attn_json_array(j);
    for (size_t i = 0; i < of->all->count; i++)
        srv_answer_object(j, srv_choice_rows,
                          &(srv_choice){.token = of->names->tokens[i],
                                        .id = of->all->ids[i],
                                        .log_probability = of->all->log_probabilities[i]});
    attn_json_array_end(j);
}

static const srv_field step_rows[] = {
    SRV_GROUP("", srv_choice_rows, NULL, .always = true),
    SRV_WRITTEN("alternatives", "[ModelAlternative]", put_alternatives,
                "The most probable tokens of the step, first the most probable.", .always = true),
    {0},
};

bool srv_steps_put(attn_json_text *j, const srv_model *model, const attn_generated *made,
                   const srv_sequence *names) {
    attn_json_array(j);
    for (size_t t = 0; t < names->length; t++) {
        const attn_alternatives *all = &made->alternatives[t];
        srv_sequence words;
        if (!srv_models_name(srv_json_request(j), model, SRV_TARGET, all->ids, all->count, &words))
            return false;
        srv_answer_object(
            j, step_rows,
            &(choice_answer){.choice = {.token = names->tokens[t],
                                        .id = names->ids[t],
                                        .log_probability = made->log_probabilities[t]},
                             .all = all,
                             .names = &words});
    }
    attn_json_array_end(j);
    return true;
}

bool srv_steps_text(attn_text *t, srv_request *req, const srv_model *model,
                    const attn_generated *made, const srv_sequence *names) {
    const char **taken = srv_models_shown(req, model, SRV_TARGET, names);
    for (size_t i = 0; taken && i < names->length; i++) {
        const attn_alternatives *all = &made->alternatives[i];
        srv_sequence words;
        const char **shown;
        if (!srv_models_name(req, model, SRV_TARGET, all->ids, all->count, &words) ||
            !(shown = srv_models_shown(req, model, SRV_TARGET, &words)))
            return false;
        attn_text_add(t, "%s %.3g:", taken[i], exp(made->log_probabilities[i]));
        for (size_t k = 0; k < all->count; k++)
            attn_text_add(t, "%s %s %.3g", k ? "," : "", shown[k], exp(all->log_probabilities[k]));
        attn_text_add(t, "\n");
    }
    return taken;
}

/* --- events --- */

/* Returns the text that the step's token adds to the text so far. The text begins with a space if a
 * space belongs between the two words. A token that ends the sequence adds nothing. NULL: out of
 * memory. */
static const char *text_of(srv_told_steps *s, bool ends, attn_arena *arena) {
    const size_t told = s->told;
    if (ends)
        return "";
    const char *text = attn_tokenizer_decode(s->model->target, s->ids, s->index + 1, true, arena);
    if (!text)
        return NULL;
    s->told = strlen(text);
    return text + told;
}

/* A step in an event. */
typedef struct step_answer {
    size_t index;
    const char *token;
    const char *text; /* the text that the token adds; NULL: the model has no words */
    int64_t id;
    double log_probability;
    choice_answer choice; /* the alternatives of the step */
    bool has_choices, has_attention;
    srv_model_heatmaps maps; /* one row for each requested head */
} step_answer;

static void put_log_probability(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)*(const double *)place);
}

static void put_head(attn_json_text *j, const void *place) {
    const attn_heatmap *map = place;
    if (map->head == SIZE_MAX)
        attn_json_string(j, "mean");
    else
        attn_json_size(j, map->head);
}

static void put_row(attn_json_text *j, const void *place) {
    const attn_heatmap *map = place;
    srv_json_floats(j, map->max, map->shape[1]);
}

static const char *const mean_word[] = {"mean", NULL};

static const srv_field attention_rows[] = {
    SRV_WRITTEN("head", "integer+|string", put_head, "Its number, or the mean of all.",
                .choices = mean_word, .always = true),
    SRV_WRITTEN("weights", "[number?]", put_row, "The row.", .always = true),
    {0},
};

static void put_attention(attn_json_text *j, const void *place) {
    const attn_heatmaps *maps = &((const step_answer *)place)->maps.maps;
    attn_json_array(j);
    for (size_t i = 0; i < maps->count; i++)
        srv_answer_object(j, attention_rows, &maps->items[i]);
    attn_json_array_end(j);
}

static const srv_field token_event_rows[] = {
    SRV_ALWAYS("index", SRV_INT, step_answer, index, "The number of the step, from 0."),
    SRV_ALWAYS("token", SRV_STRING, step_answer, token, "The token."),
    SRV_ALWAYS("id", SRV_INT, step_answer, id, "Its id."),
    SRV_IF_KNOWN("text", SRV_STRING, step_answer, text,
                 "The text that it adds, with a space if one belongs before it."),
    SRV_WRITTEN_AT("log_probability", "number?", put_log_probability, step_answer, log_probability,
                   "The logarithm of its probability.", .always = true),
    SRV_WRITTEN_AT("alternatives", "[ModelAlternative]", put_alternatives, step_answer, choice,
                   "With num_alternatives: the most probable tokens of the step.",
                   .when = offsetof(step_answer, has_choices)),
    SRV_WRITTEN("attention", "[*]", put_attention,
                "A row of attention for each of heatmap.heads, unless return is [].",
                .fields = attention_rows, .when = offsetof(step_answer, has_attention)),
    {0},
};

static const srv_field start_event_rows[] = {
    SRV_WRITTEN("source", "ModelTokens", NULL,
                "The source with its tokens, which the columns of attention are.", .always = true),
    {0},
};

static const srv_field run_event_rows[] = {
    SRV_WRITTEN("id", "string", NULL,
                "The id under /v1/runs of the run, which grows with each step.", .always = true),
    {0},
};

static const char *const events[] = {"start", "run", "token", "done", "error", NULL};

static const srv_field event_rows[] = {
    SRV_WRITTEN("event", "string", NULL, "The kind of the event.", .choices = events,
                .always = true),
    SRV_WRITTEN("data",
                "<GenerationStartEvent|GenerationRunEvent|GenerationTokenEvent|ModelGeneration|"
                "Problem>",
                NULL, "JSON, one type for each kind.", .always = true),
    {0},
};

const srv_field srv_models_step_answers[] = {
    SRV_GROUP(
        "ModelGenerationEvents", event_rows,
        "One event of the stream. data is JSON: of start GenerationStartEvent, of run "
        "GenerationRunEvent, of token GenerationTokenEvent, of done ModelGeneration, of error "
        "Problem.",
        .accepts = SRV_O_OPEN),
    SRV_GROUP(
        "ModelStep", step_rows,
        "A token of target and the tokens that its step could take; <pad> and <bos> are never "
        "taken."),
    SRV_GROUP("GenerationStartEvent", start_event_rows, "The first event."),
    SRV_GROUP("GenerationRunEvent", run_event_rows, "With store: the second event."),
    SRV_GROUP("GenerationTokenEvent", token_event_rows, "One step."),
    {0},
};

/* Builds the heatmaps of the step, one row for each requested head. false: a problem is set. */
static bool map_step(srv_request *req, const srv_told_steps *s, const attn_generated_token *made,
                     srv_model_heatmaps *out) {
    const srv_model_weights what = {.weights = made->weights,
                                    .heads = made->heads,
                                    .head_stride = made->stride,
                                    .stride = made->stride,
                                    .rows = 1,
                                    .cols = made->columns};
    srv_heat_input in = {0};
    in.heads = s->heatmap->heads;
    in.max_cells = (int64_t)(what.heads * what.cols);
    return srv_models_heatmaps(req, &what, &in, out);
}

/* Writes the step as JSON into the reply. false: a problem is set, or memory ran out. */
static bool put_step(attn_json_text *j, srv_told_steps *s, const attn_generated_token *made) {
    srv_request *req = srv_json_request(j);
    srv_sequence token, names;
    const int32_t id = made->id;
    step_answer a = {.index = s->index,
                     .id = id,
                     .log_probability = made->log_probability,
                     .choice = {.all = &made->alternatives, .names = &names},
                     .has_choices = made->alternatives.count > 0,
                     .has_attention = s->heatmap && made->weights};
    if (!srv_models_name(req, s->model, SRV_TARGET, &id, 1, &token) ||
        (a.has_choices && !srv_models_name(req, s->model, SRV_TARGET, made->alternatives.ids,
                                           made->alternatives.count, &names)) ||
        (a.has_attention && !map_step(req, s, made, &a.maps)))
        return false;
    a.token = token.tokens[0];
    if (attn_tokenizer_has_texts(s->model->target)) {
        s->ids[s->index] = id;
        a.text = text_of(s, made->ends, j->arena);
        j->failed |= !a.text;
    }
    srv_answer_object(j, token_event_rows, &a);
    return srv_json_end(j);
}

static bool refuse_memory(srv_told_steps *s) {
    srv_request *req = srv_events_request(s->events);
    if (req->reply.status < 400)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for an event is left");
    s->failed = true;
    return false;
}

bool srv_step_start(srv_told_steps *s) {
    srv_request *req = srv_events_request(s->events);
    if (s->started)
        return true;
    s->started = true;
    attn_json_text j = srv_json_object(req);
    attn_json_key(&j, "source");
    srv_models_put(&j, s->source);
    return (srv_json_object_end(&j) &&
            srv_events_add(s->events, "start", req->reply.body, req->reply.size)) ||
           refuse_memory(s);
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

int srv_step_say(void *ctx, const attn_generated_token *token) {
    srv_told_steps *s = ctx;
    srv_request *req = srv_events_request(s->events);
    attn_arena *all = req->arena;
    attn_json_text j;
    req->arena = attn_arena_new(attn_arena_limit(all) - attn_arena_used(all));
    if (req->arena) {
        srv_json_begin(&j, req);
        j.decimals = s->decimals;
        put_step(&j, s, token);
    }
    attn_arena *step = req->arena;
    req->arena = all;
    const bool kept = step && keep_event(req);
    attn_arena_free(step);
    s->index++;
    const srv_reply token_event = req->reply;
    if (kept && !srv_step_start(s))
        return 1;
    if (kept && srv_events_add(s->events, "token", token_event.body, token_event.size))
        return 0;
    return !refuse_memory(s);
}
