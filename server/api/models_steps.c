/* The steps of a greedy search as events: each is put together in an arena of its own, and its text
 * alone is kept. */
#include <string.h>

#include "api/models_call.h"

/* What the token adds to the text of those before it; NULL: no memory. The end adds nothing. */
static const char *text_of(const srv_steps *s, int32_t id, const char *word, attn_arena *arena) {
    const char *words[2] = {s->index ? s->word : "", word};
    const size_t before = strlen(words[0]);
    if (id == attn_model_configuration(s->model->model)->end)
        return "";
    const char *text = before ? attn_words_join(words, 2, arena) : word;
    return text ? text + before : NULL;
}

/* Where the step looked, a row a head that was asked for. false: a problem is set. */
static bool put_attention(srv_json *j, const srv_steps *s, const float *weights) {
    const srv_look what = {.weights = weights,
                           .heads = srv_models_cross_heads(s->model),
                           .head_stride = s->source->length,
                           .stride = s->source->length,
                           .rows = 1,
                           .cols = s->source->length};
    srv_heat_input in;
    srv_looked looked;
    srv_heat_init(&in);
    in.heads = s->heatmap->heads;
    in.max_cells = (int64_t)(what.heads * what.cols);
    if (!srv_models_look(j->req, &what, &in, &looked))
        return false;
    srv_json_key(j, "attention");
    srv_json_array(j);
    for (size_t i = 0; i < looked.maps.count; i++) {
        const attn_heatmap *map = &looked.maps.items[i];
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

static bool put_step(srv_json *j, srv_steps *s, int32_t id, double log_probability,
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
        const char *text = text_of(s, id, token.tokens[0], j->req->arena);
        j->failed |= !text;
        srv_json_key(j, "text");
        srv_json_string(j, text);
        s->word = attn_vocabulary_word(s->model->target, id);
    }
    srv_json_key(j, "log_probability");
    srv_json_float(j, (float)log_probability);
    if (s->heatmap && weights && !put_attention(j, s, weights))
        return false;
    srv_json_object_end(j);
    return srv_json_end(j);
}

/* The reply that was made in a step's arena into the request's. */
static bool keep(srv_request *req) {
    const srv_reply *r = &req->reply;
    const char *text = attn_arena_text(req->arena, r->body, r->size);
    if (text)
        srv_reply_set(req, r->status, r->type, text, r->size);
    else
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for a step's event is left");
    return text && req->reply.status < 400;
}

int srv_models_step(void *steps, int32_t id, double log_probability, const float *weights) {
    srv_steps *s = steps;
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
    const bool kept = step && keep(req);
    attn_arena_free(step);
    s->index++;
    if (kept && srv_events_add(s->events, "token", req->reply.body, req->reply.size))
        return 0;
    if (req->reply.status < 400)
        srv_problem(req, SRV_MEMORY_BUDGET, NULL, "no memory for a step's event is left");
    s->failed = true;
    return 1;
}
