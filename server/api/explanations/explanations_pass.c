/* Reads results of the pass and tokens of the vocabulary for the answers of POST
 * /v1/models/{id}/explain. */
#include <math.h>

#include "api/explanations/explanations_call.h"

void *srv_explain_take(srv_explain *c, size_t count, size_t size) {
    void *taken = attn_arena_zeroed(c->pass.req->arena, count + 1, size);
    if (!taken)
        srv_problem_memory(c->pass.req, NULL, "no memory for the explanation is left");
    return taken;
}

bool srv_explain_name(const srv_explain *c, const int32_t *ids, size_t count,
                      const char *const **to) {
    srv_sequence words;
    if (!srv_models_name(c->pass.req, c->pass.model, SRV_TARGET, ids, count, &words))
        return false;
    *to = words.tokens;
    return true;
}

const float *srv_explain_logits(const srv_explain *c, size_t sequence, size_t position) {
    const size_t *d = c->out.logits.dims;
    return (const float *)c->out.logits.data + (sequence * d[1] + position) * d[2];
}

bool srv_explain_loss(srv_explain *c, size_t sequence, const srv_sequence *read, double *loss) {
    const size_t n = read->length - 1,
                 V = attn_model_configuration(c->pass.model->model)->target_vocabulary;
    *loss = (double)NAN;
    if (!srv_models_reads(c->pass.model, SRV_TARGET) || !n)
        return true;
    float *scratch = srv_explain_take(c, V, sizeof *scratch);
    double *logs = srv_explain_take(c, n, sizeof *logs), sum = 0;
    if (!scratch || !logs)
        return false;
    attn_log_probabilities(srv_explain_logits(c, sequence, 0), read->ids + 1, n, V, scratch, logs);
    for (size_t i = 0; i < n; i++)
        sum -= logs[i];
    *loss = sum / (double)n;
    return true;
}

const char *srv_explain_shown(const srv_explain *c, const char *token) {
    const int side = srv_models_text_side(c->pass.model);
    const char *text =
        attn_tokenizer_shown(srv_models_tokenizer(c->pass.model, side), token, c->pass.req->arena);
    return text ? text : token;
}
