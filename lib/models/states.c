/* Lists the states of a pass: the hidden vectors between its blocks (attn/models.h). */
#include "models/model_private.h"

/* A list of states. The functions below add the states of one side to it. */
typedef struct listing {
    const attn_model *model;
    const model_stack *stack;
    const model_half *half; /* the pass with the values of the states; NULL: no values */
    attn_model_side side;
    attn_model_state *states; /* [count]; NULL: the states are only counted */
    size_t count;
} listing;

static void add(listing *l, attn_model_state state) {
    state.side = l->side;
    if (l->states)
        l->states[l->count] = state;
    l->count++;
}

static void add_of_layer(listing *l, attn_state_step step, size_t layer, const float *values) {
    add(l, (attn_model_state){.step = step, .has_layer = true, .layer = layer, .values = values});
}

static void add_whole(listing *l, attn_state_step step, const float *values) {
    add(l, (attn_model_state){.step = step, .values = values});
}

static void add_single(listing *l, attn_state_step step, size_t layer, const float *values) {
    add(l, (attn_model_state){
               .step = step, .has_layer = true, .layer = layer, .single = true, .values = values});
}

/* Adds the states from which the LSTM layers of a decoder start, if they are the encoder's last
 * states (attn_model.hands). */
static void add_start(listing *l) {
    const attn_model_config *c = &l->model->config;
    const size_t n = l->half ? l->half->B * c->width : 0;
    if (!l->model->hands)
        return;
    for (size_t k = 0; k < c->num_layers; k++) {
        const float *h = l->half ? l->half->initial.h + k * n : NULL;
        const float *cell = l->half ? l->half->initial.c + k * n : NULL;
        add_single(l, ATTN_STATE_START_HIDDEN, k, h);
        add_single(l, ATTN_STATE_START_CELL, k, cell);
    }
}

static void add_embedding(listing *l) {
    const float *embedded = l->half ? l->half->embedded : NULL;
    const bool norms = l->stack->embedding.norm.width > 0;
    const float *summed = l->half && norms ? l->half->summed : embedded;
    /* the earlier states have another width and are not listed */
    if (l->stack->embedding.projection.out) {
        add_whole(l, ATTN_STATE_EMBEDDING, embedded);
        return;
    }
    if (attn_models_adds_embeddings(l->model, l->stack)) {
        add_whole(l, ATTN_STATE_EMBEDDING, l->half ? l->half->unplaced : NULL);
        add_whole(l, ATTN_STATE_POSITIONS, summed);
    } else {
        add_whole(l, ATTN_STATE_EMBEDDING, summed);
    }
    if (norms)
        add_whole(l, ATTN_STATE_EMBEDDING_NORM, embedded);
}

static void add_block(listing *l, size_t i) {
    static const model_trace none = {0};
    const model_block *block = &l->stack->blocks[i];
    const model_operation *operation = block->operation;
    const model_trace *t = l->half ? &l->half->traces[i] : &none;
    const size_t layer = attn_models_layer_of(l->stack, i);
    switch (block->wrap) {
    case WRAP_NONE:
        for (size_t k = 0; operation == &attn_models_lstm && k < block->lstm.layers; k++)
            add_of_layer(l, operation->step, k, t->lstm.outputs[k]);
        if (operation != &attn_models_lstm)
            add_whole(l, operation->step, t->out);
        break;
    case WRAP_BEFORE:
    case WRAP_AROUND:
        add_of_layer(l, operation->norm_step, layer, t->inner);
        add_of_layer(l, operation->step, layer, t->out);
        break;
    case WRAP_INSIDE:
        add_of_layer(l, operation->step, layer, t->out);
        break;
    case WRAP_AFTER:
        add_of_layer(l, operation->step, layer, t->sum);
        add_of_layer(l, operation->norm_step, layer, t->out);
        break;
    }
}

/* Returns the number of states of a model. If `states` is not NULL, lists the states in it, with
 * their values if `walk` is not NULL. */
static size_t list_all(const attn_model *model, const model_walk *walk, attn_model_state *states) {
    listing l = {.model = model, .states = states};
    for (int side = ATTN_SIDE_SOURCE; side <= ATTN_SIDE_TARGET; side++) {
        const bool source = side == ATTN_SIDE_SOURCE;
        l.side = (attn_model_side)side;
        l.stack = source ? &model->encoder : &model->decoder;
        l.half = !walk ? NULL : source ? &walk->encoder : &walk->decoder;
        if (!l.stack->count)
            continue;
        if (!source)
            add_start(&l);
        add_embedding(&l);
        for (size_t i = 0; i < l.stack->count; i++)
            add_block(&l, i);
    }
    return l.count;
}

/* Returns the list of list_all, in the arena. NULL: out of memory, and *err is ATTN_ENOMEM. */
static attn_model_state *states_in(attn_arena *arena, const attn_model *model,
                                   const model_walk *walk, attn_error *err) {
    const size_t count = list_all(model, NULL, NULL);
    attn_model_state *states = attn_arena_zeroed(arena, count, sizeof *states);
    if (states)
        list_all(model, walk, states);
    else
        attn_fail(err, ATTN_ENOMEM, "", "no memory for %zu states", count);
    return states;
}

attn_status attn_models_list_states(attn_model *model, attn_error *err) {
    model->state_count = list_all(model, NULL, NULL);
    model->states = states_in(model->arena, model, NULL, err);
    return model->states ? ATTN_OK : ATTN_ENOMEM;
}

attn_model_state *attn_models_states_of(const model_walk *walk, attn_error *err) {
    return states_in(walk->pass.arena, walk->model, walk, err);
}

const attn_model_state *attn_model_states(const attn_model *model, size_t *count) {
    *count = model->state_count;
    return model->states;
}
