/* Lists the states of a pass: the hidden vectors between its blocks (attn/models.h). */
#include "models/model_private.h"

const char *attn_state_step_name(attn_state_step step) {
#define NAME(name, text) [ATTN_STATE_##name] = text,
    static const char *const names[] = {ATTN_STATE_STEP_LIST(NAME)};
#undef NAME
    return (unsigned)step < ATTN_STATE_STEPS ? names[step] : NULL;
}

/* The states of one side, appended to `states`. half is NULL while there is no pass. */
typedef struct listing {
    const attn_model *model;
    const model_stack *stack;
    const model_half *half;
    attn_model_side side;
    attn_model_state *states;
    size_t count;
} listing;

static attn_model_state *add(listing *l, attn_state_step step, const float *values) {
    attn_model_state *state = &l->states[l->count++];
    *state = (attn_model_state){.side = l->side, .step = step, .values = values};
    return state;
}

static attn_model_state *add_of_layer(listing *l, attn_state_step step, size_t layer,
                                      const float *values) {
    attn_model_state *state = add(l, step, values);
    state->has_layer = true;
    state->layer = layer;
    return state;
}

/* Adds the states with which the layers of a decoder start, if the encoder hands them over. */
static void add_start(listing *l) {
    const attn_model_config *c = &l->model->config;
    const size_t n = l->half ? l->half->B * c->width : 0;
    if (!l->model->hands)
        return;
    for (size_t k = 0; k < c->num_layers; k++) {
        const float *h = l->half ? l->half->initial.h + k * n : NULL;
        const float *cell = l->half ? l->half->initial.c + k * n : NULL;
        add_of_layer(l, ATTN_STATE_START_HIDDEN, k, h)->single = true;
        add_of_layer(l, ATTN_STATE_START_CELL, k, cell)->single = true;
    }
}

static void add_embedding(listing *l) {
    const float *embedded = l->half ? l->half->embedded : NULL;
    if (attn_models_position_table(l->model)) {
        add(l, ATTN_STATE_EMBEDDING, l->half ? l->half->unplaced : NULL);
        add(l, ATTN_STATE_POSITIONS, embedded);
    } else {
        add(l, ATTN_STATE_EMBEDDING, embedded);
    }
}

/* Returns the layer of a block: how many earlier blocks have its operation. */
static size_t layer_of(const model_stack *stack, size_t i) {
    size_t layer = 0;
    for (size_t k = 0; k < i; k++)
        layer += stack->blocks[k].operation == stack->blocks[i].operation;
    return layer;
}

static void add_block(listing *l, size_t i) {
    static const model_trace none = {0};
    const model_block *block = &l->stack->blocks[i];
    const model_operation *operation = block->operation;
    const model_trace *t = l->half ? &l->half->traces[i] : &none;
    const size_t layer = layer_of(l->stack, i);
    switch (block->wrap) {
    case WRAP_NONE:
        for (size_t k = 0; operation == &attn_models_lstm && k < block->lstm.layers; k++)
            add_of_layer(l, operation->step, k, t->lstm.outputs[k]);
        if (operation != &attn_models_lstm)
            add(l, operation->step, t->out);
        break;
    case WRAP_BEFORE:
        add_of_layer(l, operation->norm_step, layer, t->inner);
        add_of_layer(l, operation->step, layer, t->out);
        break;
    case WRAP_AFTER:
        add_of_layer(l, operation->step, layer, t->sum);
        add_of_layer(l, operation->norm_step, layer, t->out);
        break;
    }
}

size_t attn_models_list_states(const attn_model *model, const model_walk *walk,
                               attn_model_state *states) {
    listing l = {.model = model, .states = states};
    for (int side = ATTN_SIDE_SOURCE; side <= ATTN_SIDE_TARGET; side++) {
        const bool source = side == ATTN_SIDE_SOURCE;
        l.side = (attn_model_side)side;
        l.stack = source ? &model->encoder : &model->decoder;
        l.half = !walk ? NULL : source ? &walk->encoder : &walk->decoder;
        if (!source)
            add_start(&l);
        add_embedding(&l);
        for (size_t i = 0; i < l.stack->count; i++)
            add_block(&l, i);
    }
    return l.count;
}

size_t attn_model_states(const attn_model *model, attn_model_state states[ATTN_MODEL_STATES]) {
    return attn_models_list_states(model, NULL, states);
}
