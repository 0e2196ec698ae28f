#include "api/predictions/predictions_api.h"

#include <math.h>
#include <string.h>

#include "request/shared.h"

static void put_probability(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)exp(*(const double *)place));
}

const srv_field srv_choice_rows[] = {
    SRV_ALWAYS("token", SRV_STRING, srv_choice, token, "The token."),
    SRV_ALWAYS("id", SRV_INT, srv_choice, id, "Its id."),
    SRV_WRITTEN_AT("probability", "number+?", put_probability, srv_choice, log_probability,
                   "The probability that the step gave it.", .max = 1, .always = true),
    {0},
};

/* --- how probable the tokens are --- */

/* Returns the logarithm of the sum of e^z over the V logits of a row. */
static double log_sum(const float *z, size_t V) {
    double max = -INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++)
        max = z[v] > max ? z[v] : max;
    for (size_t v = 0; v < V; v++)
        sum += exp((double)z[v] - max);
    return max + log(sum);
}

typedef struct token_rows {
    const attn_tensor *logits;
    const srv_sequences *sequences;
    bool ahead;
    float *out;
} token_rows;

/* Computes the log-probability of one token. `index` counts the tokens of padded sequences. */
static attn_status compute_row(void *ctx, size_t index, size_t lane, attn_error *err) {
    const token_rows *r = ctx;
    const size_t L = r->sequences->longest, T = r->logits->dims[1], V = r->logits->dims[2];
    const size_t b = index / L, t = index % L;
    const srv_sequence *s = &r->sequences->items[b];
    (void)lane, (void)err;
    r->out[index] = NAN;
    if (t >= s->length || (r->ahead && !t))
        return ATTN_OK;
    const float *z = (const float *)r->logits->data + (b * T + t - r->ahead) * V;
    r->out[index] = (float)((double)z[s->ids[t]] - log_sum(z, V));
    return ATTN_OK;
}

bool srv_log_probabilities(srv_request *req, const attn_tensor *logits, const srv_sequences *s,
                           bool ahead, attn_tensor *out) {
    const size_t n = s->count * s->longest;
    token_rows r = {logits, s, ahead, attn_arena_zeroed(req->arena, n, sizeof(float))};
    attn_error err = {0};
    if (!r.out)
        return srv_problem_memory(req, NULL, "no memory is left for the log probabilities");
    *out = attn_tensor_dense(r.out, ATTN_F32, 2, (size_t[2]){s->count, s->longest});
    return !attn_pool_run(srv_request_pool(req), n, compute_row, &r, &req->control, &err) ||
           srv_problem_error(req, &err);
}

/* --- embeddings --- */

bool srv_pooled(srv_request *req, const attn_tensor *states, const srv_sequences *s,
                attn_tensor *out) {
    const size_t B = states->dims[0], S = states->dims[1], D = states->dims[2];
    float *means = attn_arena_zeroed(req->arena, B * D, sizeof *means);
    double *sums = attn_arena_zeroed(req->arena, D, sizeof *sums);
    if (!means || !sums)
        return srv_problem_memory(req, NULL, "no memory is left for the means of the states");
    for (size_t b = 0; b < B; b++) {
        const srv_sequence *one = &s->items[b];
        size_t count = 0;
        memset(sums, 0, D * sizeof *sums);
        for (size_t t = 0; t < one->length; t++) {
            const float *x = (const float *)states->data + (b * S + t) * D;
            if (one->keep && !one->keep[t])
                continue;
            count++;
            for (size_t d = 0; d < D; d++)
                sums[d] += (double)x[d];
        }
        for (size_t d = 0; count && d < D; d++)
            means[b * D + d] = (float)(sums[d] / (double)count);
    }
    *out = attn_tensor_dense(means, ATTN_F32, 2, (size_t[2]){B, D});
    return true;
}

/* --- masks --- */

static bool is_mask(const srv_model *model, int32_t id) {
    return model->known && model->known->mask >= 0 && id == model->known->mask;
}

size_t srv_masks_count(const srv_model *model, const srv_sequences *s) {
    size_t count = 0;
    for (size_t b = 0; b < s->count; b++)
        for (size_t t = 0; t < s->items[b].length; t++)
            count += is_mask(model, s->items[b].ids[t]);
    return count;
}

/* Sets ids to the `most` ids with the largest logits, in falling order. Of equal logits, the
 * smaller id comes first. Returns the number of ids. */
static size_t find_largest(const float *z, size_t V, size_t most, int32_t *ids) {
    size_t count = 0;
    for (size_t v = 0; v < V; v++) {
        size_t at = count;
        if (at == most && !(z[v] > z[ids[at - 1]]))
            continue;
        count += at < most;
        at -= at == most;
        for (; at && z[v] > z[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = (int32_t)v;
    }
    return count;
}

/* A mask in an answer. */
typedef struct mask_answer {
    const srv_model *model;
    const float *logits;
    size_t position, vocabulary, most;
} mask_answer;

static void put_alternatives(attn_json_text *j, const void *place) {
    const mask_answer *m = place;
    const double sum = log_sum(m->logits, m->vocabulary);
    int32_t ids[ATTN_ALTERNATIVES_MOST];
    srv_sequence names;
    const size_t count = find_largest(m->logits, m->vocabulary, m->most, ids);
    attn_json_array(j);
    if (!srv_models_name(srv_json_request(j), m->model, SRV_TARGET, ids, count, &names))
        j->failed = true;
    for (size_t i = 0; !j->failed && i < count; i++)
        srv_answer_object(j, srv_choice_rows,
                          &(srv_choice){names.tokens[i], ids[i], (double)m->logits[ids[i]] - sum});
    attn_json_array_end(j);
}

static const srv_field mask_rows[] = {
    SRV_ALWAYS("position", SRV_INT, mask_answer, position, "The number of the token."),
    SRV_WRITTEN("alternatives", "[ModelAlternative]", put_alternatives,
                "The most probable tokens there, first the most probable.", .always = true),
    {0},
};

void srv_masks_put(attn_json_text *j, const srv_model *model, const attn_tensor *logits,
                   const srv_sequences *s, size_t count) {
    const size_t S = logits->dims[1], V = logits->dims[2];
    attn_json_array(j);
    for (size_t b = 0; b < s->count; b++) {
        attn_json_array(j);
        for (size_t t = 0; t < s->items[b].length; t++)
            if (is_mask(model, s->items[b].ids[t]))
                srv_answer_object(j, mask_rows,
                                  &(mask_answer){model,
                                                 (const float *)logits->data + (b * S + t) * V, t,
                                                 V, count});
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

const srv_field srv_predictions_answers[] = {
    SRV_GROUP("ModelAlternative", srv_choice_rows, NULL),
    SRV_GROUP("ModelMask", mask_rows, "A masked word and what may stand there."),
    {0},
};
