/* The steps of a search as events, and the alternatives of its steps. */
#include "api/models/models_steps.h"

#include <math.h>
#include <string.h>

/* --- alternatives --- */

static void put_token(attn_json_text *j, const char *word, int32_t id, double log_probability) {
    attn_json_key_string(j, "token", word);
    attn_json_key_int(j, "id", id);
    attn_json_key_float(j, "probability", (float)exp(log_probability));
}

/* Writes the member "alternatives", a list of {"token", "id", "probability"}. false: a problem is
 * set. */
static bool put_alternatives(attn_json_text *j, const srv_model *model,
                             const attn_alternatives *all) {
    srv_sequence names;
    if (!srv_models_name(srv_json_request(j), model, SRV_TARGET, all->ids, all->count, &names))
        return false;
    attn_json_key_array(j, "alternatives");
    for (size_t i = 0; i < all->count; i++) {
        attn_json_object(j);
        put_token(j, names.tokens[i], all->ids[i], all->log_probabilities[i]);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
    return true;
}

bool srv_steps_put(attn_json_text *j, const srv_model *model, const attn_generated *made,
                   const srv_sequence *names) {
    attn_json_key_array(j, "steps");
    for (size_t t = 0; t < names->length; t++) {
        attn_json_object(j);
        put_token(j, names->tokens[t], names->ids[t], made->log_probabilities[t]);
        if (!put_alternatives(j, model, &made->alternatives[t]))
            return false;
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
    return true;
}

bool srv_steps_text(attn_text *t, srv_request *req, const srv_model *model,
                    const attn_generated *made, const srv_sequence *names) {
    for (size_t i = 0; i < names->length; i++) {
        const attn_alternatives *all = &made->alternatives[i];
        srv_sequence words;
        if (!srv_models_name(req, model, SRV_TARGET, all->ids, all->count, &words))
            return false;
        attn_text_add(t, "%s %.3g:", names->tokens[i], exp(made->log_probabilities[i]));
        for (size_t k = 0; k < all->count; k++)
            attn_text_add(t, "%s %s %.3g", k ? "," : "", words.tokens[k],
                          exp(all->log_probabilities[k]));
        attn_text_add(t, "\n");
    }
    return true;
}

/* --- events --- */

/* Returns the text that the step's token appends to the text so far, with a space if one belongs
 * before it. A token that ends the sequence appends nothing. NULL: memory ran out. */
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

/* Writes the attention of the step, one row for each requested head. false: a problem is
 * set. */
static bool put_step_attention(attn_json_text *j, const srv_told_steps *s,
                               const attn_generated_token *made) {
    const srv_model_weights what = {.weights = made->weights,
                                    .heads = made->heads,
                                    .head_stride = made->stride,
                                    .stride = made->stride,
                                    .rows = 1,
                                    .cols = made->columns};
    srv_heat_input in = {0};
    srv_model_heatmaps maps;
    in.heads = s->heatmap->heads;
    in.max_cells = (int64_t)(what.heads * what.cols);
    if (!srv_models_heatmaps(srv_json_request(j), &what, &in, &maps))
        return false;
    attn_json_key_array(j, "attention");
    for (size_t i = 0; i < maps.maps.count; i++) {
        const attn_heatmap *map = &maps.maps.items[i];
        attn_json_object(j);
        attn_json_key(j, "head");
        if (map->head == SIZE_MAX)
            attn_json_string(j, "mean");
        else
            attn_json_size(j, map->head);
        attn_json_key(j, "weights");
        srv_json_floats(j, map->max, map->shape[1]);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
    return true;
}

static bool put_step(attn_json_text *j, srv_told_steps *s, const attn_generated_token *made) {
    srv_sequence token;
    const int32_t id = made->id;
    if (!srv_models_name(srv_json_request(j), s->model, SRV_TARGET, &id, 1, &token))
        return false;
    attn_json_object(j);
    attn_json_key_size(j, "index", s->index);
    attn_json_key_string(j, "token", token.tokens[0]);
    attn_json_key_int(j, "id", id);
    if (attn_tokenizer_has_texts(s->model->target)) {
        s->ids[s->index] = id;
        const char *text = text_of(s, made->ends, j->arena);
        j->failed |= !text;
        attn_json_key_string(j, "text", text);
    }
    attn_json_key_float(j, "log_probability", (float)made->log_probability);
    if (made->alternatives.count && !put_alternatives(j, s->model, &made->alternatives))
        return false;
    if (s->heatmap && made->weights && !put_step_attention(j, s, made))
        return false;
    return srv_json_object_end(j);
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
