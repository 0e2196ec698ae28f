/* Checks interventions before a pass (attn/interventions.h). */
#include <math.h>
#include <stdio.h>

#include "models/model_private.h"

static const char *const kind_names[] = {
    [ATTN_SITE_ENCODER] = "encoder", [ATTN_SITE_DECODER] = "decoder", [ATTN_SITE_CROSS] = "cross"};

/* The operation after which each part of the stream is, in encoder and decoder. */
static const model_operation *const part_operations[][2] = {
    [ATTN_STREAM_SELF_ATTENTION] = {&attn_models_self, &attn_models_causal},
    [ATTN_STREAM_CROSS_ATTENTION] = {NULL, &attn_models_cross},
    [ATTN_STREAM_FEED_FORWARD] = {&attn_models_feed, &attn_models_feed}};

/* A check of one intervention. */
typedef struct check {
    const attn_model *model;
    const attn_intervention *item;
    const attn_batch *batch; /* NULL: the pass is a search */
    size_t index;
    attn_error *err;
} check;

static attn_status refuse(const check *c, attn_status status, const char *member,
                          const char *text) {
    char where[64];
    snprintf(where, sizeof where, "interventions/%zu/%s", c->index, member);
    return attn_fail(c->err, status, where, "%s", text);
}

/* Checks a number that must be below `end`, or may also be ATTN_EVERY. */
static attn_status check_number(const check *c, const char *member, size_t found, size_t end,
                                bool every) {
    char text[80];
    if (found < end || (every && found == ATTN_EVERY))
        return ATTN_OK;
    snprintf(text, sizeof text, "expected 0 to %zu, found %zu", end ? end - 1 : 0, found);
    return refuse(c, ATTN_EVALUE, member, text);
}

static attn_status check_head(const check *c) {
    const attn_intervention *v = c->item;
    size_t layers = 0, heads = 0;
    char text[80];
    for (size_t i = 0; i < c->model->site_count; i++)
        if (c->model->sites[i].kind == v->site) {
            layers++;
            heads = c->model->sites[i].heads;
        }
    if (!layers) {
        snprintf(text, sizeof text, "the model has no attention \"%s\"",
                 v->site <= ATTN_SITE_CROSS ? kind_names[v->site] : "?");
        return refuse(c, ATTN_EARG, "site", text);
    }
    const attn_status status = check_number(c, "layer", v->layer, layers, false);
    return status ? status : check_number(c, "head", v->head, heads, true);
}

static attn_status check_stream(const check *c) {
    const attn_intervention *v = c->item;
    const bool decodes = v->site == ATTN_SITE_DECODER;
    const model_stack *stack = decodes ? &c->model->decoder : &c->model->encoder;
    if (c->model->config.architecture == ATTN_MODEL_SEQ2SEQ)
        return refuse(c, ATTN_EARG, "kind", "a seq2seq model has no residual stream");
    if (v->site > ATTN_SITE_DECODER || !stack->count)
        return refuse(c, ATTN_EARG, "site", "the model has no such stack");
    if (v->part == ATTN_STREAM_INPUT)
        return ATTN_OK;
    const model_operation *operation =
        v->part <= ATTN_STREAM_FEED_FORWARD ? part_operations[v->part][decodes] : NULL;
    const size_t last = operation ? attn_models_last_block(stack, operation) : stack->count;
    if (last == stack->count)
        return refuse(c, ATTN_EARG, "part", "the layers of the model have no such part");
    return check_number(c, "layer", v->layer, attn_models_layer_of(stack, last) + 1, false);
}

static attn_status check_in_search(const check *c) {
    const attn_intervention *v = c->item;
    if (v->kind != ATTN_ABLATE_ZERO && v->kind != ATTN_SCALE_HEAD)
        return refuse(c, ATTN_EARG, "kind",
                      "a search goes token by token and knows no sequence as a whole: heads can be "
                      "set to 0 or scaled");
    if (v->sequence != ATTN_EVERY || v->position != ATTN_EVERY)
        return refuse(c, ATTN_EARG, "position", "a search changes all sequences and positions");
    return ATTN_OK;
}

static attn_status check_tokens(const check *c) {
    const attn_intervention *v = c->item;
    const size_t B = c->batch->B;
    const size_t T = v->site == ATTN_SITE_ENCODER ? c->batch->S : c->batch->T;
    const bool patches = v->kind >= ATTN_PATCH_HEAD;
    attn_status status = check_number(c, "sequence", v->sequence, B, true);
    if (!status)
        status = check_number(c, "position", v->position, T, true);
    if (!status && (patches || (v->kind == ATTN_ABLATE_MEAN && v->from_count)))
        status = check_number(c, "from", v->from, B, false);
    if (!status && patches)
        status = check_number(c, "from_position", v->from_position, T, true);
    if (!status && v->kind == ATTN_ABLATE_MEAN && v->from_count)
        status = check_number(c, "from_count", v->from_count, B - v->from + 1, false);
    return status;
}

attn_status attn_models_check_interventions(const attn_model *model, const attn_intervention *list,
                                            size_t count, const attn_batch *batch,
                                            attn_error *err) {
    for (size_t i = 0; i < count; i++) {
        const check c = {model, &list[i], batch, i, err};
        attn_status status = list[i].kind > ATTN_PATCH_STREAM
                                 ? refuse(&c, ATTN_EARG, "kind", "there is no such intervention")
                             : list[i].kind == ATTN_PATCH_STREAM ? check_stream(&c)
                                                                 : check_head(&c);
        if (!status && list[i].kind == ATTN_SCALE_HEAD && !isfinite(list[i].factor))
            status = refuse(&c, ATTN_EVALUE, "factor", "expected a finite number");
        if (!status)
            status = batch ? check_tokens(&c) : check_in_search(&c);
        if (status)
            return status;
    }
    return ATTN_OK;
}
