/* States of a model in the answer of POST /v1/models/{id}/attention: the hidden vectors between
 * the steps of a pass. */
#include "api/models/models_sites.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/answer.h"

static const char *const sides[] = {"source", "target", NULL};

#define STEP_NAME(name, text) text,
const char *const srv_model_steps[] = {ATTN_STATE_STEP_LIST(STEP_NAME) NULL};
#undef STEP_NAME

/* The shapes of states. States of the source or the target have the shape [B, L, width]. States of
 * a whole sequence have the shape [B, width]. */
enum { OF_SOURCE = ATTN_SIDE_SOURCE, OF_TARGET = ATTN_SIDE_TARGET, OF_SEQUENCES, SHAPES };

static int shape_of(const attn_model_state *s) {
    return s->single ? OF_SEQUENCES : (int)s->side;
}

/* Returns whether the field `sites` selects states of this side. `encoder` selects states of the
 * source, `decoder` and `cross` those of the target. */
static bool on_wanted_side(const srv_sites_pass *c, attn_model_side side) {
    const unsigned target = 1u << ATTN_SITE_DECODER | 1u << ATTN_SITE_CROSS;
    const unsigned of_side = side == ATTN_SIDE_SOURCE ? 1u << ATTN_SITE_ENCODER : target;
    return !c->body.sites || (c->body.sites & of_side);
}

static bool is_wanted(const srv_sites_pass *c, const attn_model_state *s) {
    const srv_ints *layers = &c->body.layers;
    bool in_layer = !layers->count;
    for (size_t i = 0; s->has_layer && i < layers->count; i++)
        in_layer = in_layer || layers->values[i] == (int64_t)s->layer;
    return in_layer && on_wanted_side(c, s->side) &&
           (!c->body.steps || (c->body.steps & 1u << s->step));
}

static bool check_layers(const srv_sites_pass *c, const srv_scope *scope) {
    const size_t most = attn_model_configuration(c->pass.model->model)->num_layers;
    const srv_ints *layers = &c->body.layers;
    for (size_t i = 0; i < layers->count; i++) {
        char at[32];
        snprintf(at, sizeof at, "layers/%zu", i);
        if (layers->values[i] < 0 || (uint64_t)layers->values[i] >= most)
            return srv_refuse(scope, SRV_VALUE, at,
                              "the model \"%s\" has the layers 0 to %zu, found %" PRId64,
                              c->pass.model->id, most - 1, layers->values[i]);
    }
    return true;
}

bool srv_sites_states_check(srv_sites_pass *c, const srv_scope *scope) {
    size_t count;
    const attn_model_state *states = attn_model_states(c->pass.model->model, &count);
    unsigned found = 0;
    if (srv_given(scope, "steps") && !(c->body.returns & SRV_SITES_STATES))
        return srv_refuse(scope, SRV_VALUE, "steps",
                          "steps choose among the states: name \"states\" in return, too");
    if ((c->body.returns & SRV_SITES_STATES) && !check_layers(c, scope))
        return false;
    for (size_t i = 0; i < count; i++) {
        found |= 1u << states[i].step;
        c->states[shape_of(&states[i])] += is_wanted(c, &states[i]);
    }
    for (unsigned step = 0; step < ATTN_STATE_STEPS; step++)
        if (c->body.steps & ~found & 1u << step)
            return srv_refuse(scope, SRV_VALUE, "steps", "the model \"%s\" has no step %s",
                              c->pass.model->id, srv_model_steps[step]);
    return true;
}

/* Sets dims to the shape of the states, [B, L, width] or [B, width]. Returns its rank. */
static int dims_of(const srv_sites_pass *c, int shape, size_t dims[3]) {
    const size_t D = attn_model_configuration(c->pass.model->model)->width;
    int rank = 0;
    dims[rank++] = c->B;
    if (shape != OF_SEQUENCES)
        dims[rank++] = shape == OF_SOURCE ? c->source.longest : c->T;
    dims[rank++] = D;
    return rank;
}

double srv_sites_states_numbers(const srv_sites_pass *c) {
    double numbers = 0;
    for (int shape = 0; shape < SHAPES; shape++) {
        size_t d[3];
        double one = 1;
        const int rank = dims_of(c, shape, d);
        for (int i = 0; i < rank; i++)
            one *= (double)d[i];
        numbers += (double)c->states[shape] * one;
    }
    return c->body.returns & SRV_SITES_STATES ? numbers : 0;
}

void srv_sites_states_shapes(srv_dry *dry, const srv_sites_pass *c) {
    static const char *const names[] = {"states.source", "states.target", "states.start"};
    for (int shape = 0; shape < SHAPES; shape++) {
        size_t d[4] = {c->states[shape], 0, 0, 0};
        const int rank = dims_of(c, shape, d + 1);
        if ((c->body.returns & SRV_SITES_STATES) && d[0])
            srv_dry_shape(dry, names[shape], rank + 1, d);
    }
}

/* Writes the name of the state as a tensor to `name`, such as "states.source.0.lstm" or
 * "states.target.norm". */
static void name_state(const attn_model_state *s, char name[64]) {
    if (s->has_layer)
        snprintf(name, 64, "states.%s.%zu.%s", sides[s->side], s->layer, srv_model_steps[s->step]);
    else
        snprintf(name, 64, "states.%s.%s", sides[s->side], srv_model_steps[s->step]);
}

static attn_tensor tensor_of(const srv_sites_pass *c, const attn_model_state *s) {
    size_t d[3];
    const int rank = dims_of(c, shape_of(s), d);
    return attn_tensor_dense((void *)(uintptr_t)s->values, ATTN_F32, rank, d);
}

/* A state in an answer. */
typedef struct state_answer {
    int side, step;
    int64_t layer; /* -1: the state belongs to no layer */
} state_answer;

const srv_field srv_sites_state_rows[] = {
    SRV_ALWAYS("side", SRV_ENUM, state_answer, side,
               "Whether it is a state of the source or the target.", .choices = sides),
    SRV_IF_KNOWN("layer", SRV_INT, state_answer, layer, "Absent if the step belongs to no layer."),
    SRV_ALWAYS("step", SRV_ENUM, state_answer, step, "The step of the pass.",
               .choices = srv_model_steps),
    SRV_WRITTEN("values", "Numbers", NULL, "The vectors."),
    {0},
};

static void put_state(attn_json_text *j, const srv_sites_pass *c, const attn_model_state *s) {
    const state_answer answer = {(int)s->side, (int)s->step, s->has_layer ? (int64_t)s->layer : -1};
    const attn_tensor values = tensor_of(c, s);
    char name[64];
    name_state(s, name);
    attn_json_object(j);
    srv_answer_members(j, srv_sites_state_rows, &answer);
    srv_sites_put_tensor(j, "values", name, &values);
    attn_json_object_end(j);
}

void srv_sites_states_write(attn_json_text *j, const srv_sites_pass *c) {
    if (!(c->body.returns & SRV_SITES_STATES))
        return;
    if (!j->aside) /* reserves the memory at once, so that the text is not copied as it grows */
        attn_json_reserve(j, (size_t)(SRV_MODEL_TEXT * srv_sites_states_numbers(c)));
    attn_json_key_array(j, "states");
    for (size_t i = 0; i < c->out.state_count; i++)
        if (is_wanted(c, &c->out.states[i]))
            put_state(j, c, &c->out.states[i]);
    attn_json_array_end(j);
}

void srv_sites_states_text(attn_text *t, const srv_sites_pass *c) {
    for (size_t i = 0; i < c->out.state_count; i++) {
        const attn_model_state *s = &c->out.states[i];
        const attn_tensor values = tensor_of(c, s);
        char name[64];
        name_state(s, name);
        if (is_wanted(c, s))
            srv_text_tensor(t, name, &values, (srv_print){(int)c->body.decimals, false});
    }
}
