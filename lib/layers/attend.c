/* Attention layers: projections, and one operation of attn/attention.h over the whole batch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/rotary.h"
#include "base/try.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"

/* Bytes of the statistics of a row: its maximum, its sum and its kind. */
#define STATS_OF_A_ROW (2 * sizeof(double) + 1)

static void declare_matrix(attn_parameters *set, const char *name, const char *what, size_t rows,
                           size_t cols, attn_weight *weight) {
    const attn_init init = {.kind = ATTN_INIT_UNIFORM, .amount = 1 / sqrt((double)cols)};
    attn_layers_add(set, name, what, 2, (size_t[]){rows, cols}, init, weight);
}

static void declare_linear(attn_parameters *set, const char *name, const char *what, size_t in,
                           size_t out, bool bias, attn_linear *linear) {
    char full[2 * ATTN_PARAMETER_NAME];
    snprintf(full, sizeof full, "%s.%s", name, what);
    attn_linear_declare(linear, set, full, in, out, bias);
}

static size_t head_width(const attn_attend *a) {
    return a->head_width ? a->head_width : a->width / a->heads;
}

size_t attn_attend_query_width(const attn_attend *a) {
    return a->kind == ATTN_SCORE_scaled_dot ? head_width(a) * a->heads : a->width;
}

size_t attn_attend_key_width(const attn_attend *a) {
    return a->kv_heads ? head_width(a) * a->kv_heads : attn_attend_query_width(a);
}

/* Declares the packed projections with the initial values of torch.nn.MultiheadAttention: the
 * Xavier bound counts all three input projections as one matrix, and biases are 0. */
static void declare_packed(attn_attend *a, attn_parameters *set, const char *name) {
    const size_t D = a->width, Q = attn_attend_query_width(a);
    const size_t all = Q + 2 * attn_attend_key_width(a);
    const attn_init xavier = {.kind = ATTN_INIT_UNIFORM, .amount = sqrt(6.0 / (double)(all + D))};
    const attn_init zero = {.amount = 0};
    attn_layers_add(set, name, "in_proj_weight", 2, (size_t[]){all, D}, xavier, &a->in_proj);
    if (!a->unbiased)
        attn_layers_add(set, name, "in_proj_bias", 1, &all, zero, &a->in_bias);
    a->o = (attn_linear){.in = Q, .out = D};
    declare_matrix(set, name, "out_proj.weight", D, Q, &a->o.weight);
    if (!a->output_unbiased)
        attn_layers_add(set, name, "out_proj.bias", 1, &D, zero, &a->o.bias);
}

static void declare_norm(attn_norm *norm, attn_parameters *set, const char *name,
                         const char *what) {
    char full[2 * ATTN_PARAMETER_NAME];
    snprintf(full, sizeof full, "%s.%s", name, what);
    if (norm->width)
        attn_norm_declare(norm, set, full);
}

static void declare_positions(attn_attend *a, attn_parameters *set, const char *name) {
    const size_t distances = 2 * a->max_distance + 1, E = head_width(a);
    const attn_init zero = {.amount = 0}, normal = {.kind = ATTN_INIT_NORMAL, .amount = 0.02};
    if (a->position == ATTN_POSITION_RELATIVE)
        attn_layers_add(set, name, "relative.weight", 2, (size_t[]){a->heads, distances}, zero,
                        &a->relative);
    if (a->position == ATTN_POSITION_SHAW) {
        const size_t dims[2] = {distances, E};
        attn_layers_add(set, name, "key_table.weight", 2, dims, normal, &a->key_table);
        attn_layers_add(set, name, "value_table.weight", 2, dims, normal, &a->value_table);
    }
}

void attn_attend_declare(attn_attend *a, attn_parameters *set, const char *name) {
    const size_t D = a->width, A = a->score_width;
    const size_t Q = attn_attend_query_width(a), K = attn_attend_key_width(a);
    declare_norm(&a->query_norm, set, name, "q_norm");
    declare_norm(&a->key_norm, set, name, "k_norm");
    switch (a->kind) {
    case ATTN_SCORE_scaled_dot:
        if (a->packed) {
            declare_packed(a, set, name);
            break;
        }
        declare_linear(set, name, "W_q", D, Q, !a->unbiased, &a->q);
        declare_linear(set, name, "W_k", D, K, !a->unbiased, &a->k);
        declare_linear(set, name, "W_v", D, K, !a->unbiased, &a->v);
        declare_linear(set, name, "W_o", Q, D, !a->output_unbiased, &a->o);
        break;
    case ATTN_SCORE_additive:
        declare_matrix(set, name, "W1.weight", A, D, &a->w1);
        declare_matrix(set, name, "W2.weight", A, D, &a->w2);
        declare_matrix(set, name, "v.weight", 1, A, &a->score);
        break;
    case ATTN_SCORE_general:
        declare_matrix(set, name, "W.weight", D, D, &a->w);
        break;
    case ATTN_SCORE_concat:
        declare_matrix(set, name, "W.weight", A, 2 * D, &a->w);
        declare_matrix(set, name, "v.weight", 1, A, &a->score);
        break;
    default: /* dot has no parameters; models have no other forms */
        break;
    }
    declare_positions(a, set, name);
}

/* Returns the elements of a packed tensor from `offset` on as a weight. The weight has values, or a
 * gradient, only if the tensor has them. */
static attn_weight part_of(const attn_weight *w, size_t offset) {
    return (attn_weight){.value = w->value ? w->value + offset : NULL,
                         .gradient = w->gradient ? w->gradient + offset : NULL};
}

/* Returns the projection of queries (part 0), keys (1) or values (2). */
static attn_linear projection(const attn_attend *a, int part) {
    const size_t D = a->width, Q = attn_attend_query_width(a), K = attn_attend_key_width(a);
    const size_t at = part == 0 ? 0 : part == 1 ? Q : Q + K;
    if (!a->packed)
        return part == 0 ? a->q : part == 1 ? a->k : a->v;
    return (attn_linear){.weight = part_of(&a->in_proj, at * D),
                         .bias = part_of(&a->in_bias, at),
                         .in = D,
                         .out = part == 0 ? Q : K};
}

static attn_tensor matrix(const attn_weight *w, size_t rows, size_t cols) {
    return attn_tensor_dense(w->value, ATTN_F32, 2, (size_t[]){rows, cols});
}

static attn_tensor vector(const attn_weight *w, size_t n) {
    return attn_tensor_dense(w->value, ATTN_F32, 1, &n);
}

static attn_score score_of(const attn_attend *a) {
    const size_t D = a->width, A = a->score_width;
    attn_score score = {.kind = a->kind};
    if (a->kind == ATTN_SCORE_additive) {
        score.w_q = matrix(&a->w2, A, D);
        score.w_k = matrix(&a->w1, A, D);
    } else if (a->kind == ATTN_SCORE_general) {
        score.w = matrix(&a->w, D, D);
    } else if (a->kind == ATTN_SCORE_concat) {
        score.w = matrix(&a->w, A, 2 * D);
    }
    if (a->kind == ATTN_SCORE_additive || a->kind == ATTN_SCORE_concat)
        score.v = attn_tensor_dense(a->score.value, ATTN_F32, 1, &A);
    return score;
}

static attn_position position_of(const attn_attend *a) {
    const size_t distances = 2 * a->max_distance + 1, E = head_width(a);
    attn_position position = {.kind = a->position};
    if (a->position == ATTN_POSITION_ROTARY) {
        position = a->rotary;
        position.kind = ATTN_POSITION_ROTARY;
        if (!position.rotary)
            position.rotary = ATTN_ROTARY_HALVES;
        const size_t pairs = (position.dims ? (size_t)position.dims : E) / 2;
        if (a->short_factor) {
            position.scaling.short_factor = vector(a->short_factor, pairs);
            position.scaling.long_factor = vector(a->long_factor, pairs);
        }
    }
    if (a->position == ATTN_POSITION_T5) {
        position.table = matrix(a->buckets, a->num_buckets, a->heads);
        position.max_distance = a->bucket_distance;
        position.unidirectional = a->unidirectional;
    }
    if (a->position == ATTN_POSITION_RELATIVE)
        position.table = matrix(&a->relative, a->heads, distances);
    if (a->position == ATTN_POSITION_SHAW) {
        position.key_table = matrix(&a->key_table, distances, E);
        position.value_table = matrix(&a->value_table, distances, E);
    }
    return position;
}

static void add_masks(attn_inputs *in, const attn_attend *a, const attn_attend_saved *s,
                      const attn_attend_sight *sight) {
    attn_mask_spec *mask = &in->mask;
    if (sight && sight->lengths)
        mask->layers[mask->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_LENGTHS,
            .where = "lengths",
            .values = attn_tensor_dense((void *)(uintptr_t)sight->lengths, ATTN_I64, 1, &s->B)};
    if (sight && sight->keep)
        mask->layers[mask->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                              .where = "keep",
                              .semantics = ATTN_SEM_KEEP,
                              .values = attn_tensor_dense((void *)(uintptr_t)sight->keep, ATTN_BOOL,
                                                          2, (size_t[]){s->B, s->S})};
    if (a->causal)
        mask->layers[mask->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "causal"};
    if (a->has_pattern)
        mask->layers[mask->count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_PATTERN, .where = "pattern", .pattern = a->pattern};
    if (a->has_window)
        mask->layers[mask->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_WINDOW,
                              .where = "window",
                              .window = {(int64_t)a->window, a->causal ? -1 : (int64_t)a->window}};
    if (s->first) {
        mask->offset = ATTN_OFFSET_GIVEN;
        mask->offsets = &s->first;
        mask->offset_count = 1;
    }
}

/* Returns whether attention layers support this kind of position. */
static bool has_position(attn_position_kind kind) {
    return kind == ATTN_POSITION_NONE || kind == ATTN_POSITION_ALIBI ||
           kind == ATTN_POSITION_RELATIVE || kind == ATTN_POSITION_SHAW ||
           kind == ATTN_POSITION_ROTARY || kind == ATTN_POSITION_T5;
}

/* Returns whether the layer rotates queries and keys itself, so that no operation copies them. It
 * does not in training, since the backward pass starts from queries and keys before the rotation.
 * It does not with dynamic scaling and longrope, since their angles depend on the number of keys,
 * so the angles of cached keys may change with the next token. */
static bool rotates(const attn_attend *a, bool training) {
    const attn_scaling_kind kind = a->rotary.scaling.kind;
    return a->position == ATTN_POSITION_ROTARY && !training && kind != ATTN_SCALING_DYNAMIC &&
           kind != ATTN_SCALING_LONGROPE;
}

/* Rotates the heads of x [B, T, width] in place; token t has the position first + t. */
static attn_status rotate(float *x, size_t B, size_t T, size_t width, size_t first,
                          const attn_attend *a, attn_pass *pass, attn_error *err) {
    const attn_position position = position_of(a);
    const size_t E = head_width(a);
    attn_rotary_rule rule;
    ATTN_TRY(attn_rotary_new(&position, E, (double)(first + T), pass->arena, &rule, err));
    double *angles = attn_arena_array(pass->arena, E, 2 * sizeof *angles);
    ATTN_TAKEN(angles, "the angles of positions", err);
    for (size_t t = 0; t < T; t++) {
        const double at = (double)(first + t);
        attn_rotary_angles(&rule, &at, angles, angles + E);
        for (size_t b = 0; b < B; b++)
            for (size_t e = 0; e < width; e += E)
                attn_rotary_rotate(&rule, x + (b * T + t) * width + e, sizeof *x, angles,
                                   angles + E);
    }
    return ATTN_OK;
}

/* Stores the projection of x [rows, D] in `to`, after the norm of queries or keys if there is
 * one. */
static void project_part(const attn_attend *a, int part, float *to, const float *x, size_t rows) {
    const attn_linear linear = projection(a, part);
    const attn_norm *norm = part == 0 ? &a->query_norm : &a->key_norm;
    attn_linear_forward(to, x, rows, &linear);
    if (part < 2 && norm->width)
        attn_norm_forward(to, NULL, to, rows * (linear.out / norm->width), norm);
}

/* Sets the queries, keys and values of *s. Kinds without projections use x as the queries and
 * `memory` as keys and values. With scaled_dot, keys and values are taken from `ready`, unless it
 * is NULL. */
static attn_status project(const attn_attend *a, attn_attend_saved *s,
                           const attn_attend_saved *ready, attn_pass *pass, attn_error *err) {
    const size_t keys = ready ? 0 : s->B * s->S;
    if (!attn_score_name(a->kind) || !has_position(a->position))
        return attn_fail(err, ATTN_EARG, "kind", "there is no layer of kind %d and position %d",
                         (int)a->kind, (int)a->position);
    if (a->kind != ATTN_SCORE_scaled_dot) {
        s->q = s->x;
        s->k = s->v = s->memory;
        return ATTN_OK;
    }
    float *q = attn_layers_take(pass, s->B * s->L, attn_attend_query_width(a), err);
    float *k = attn_layers_take(pass, keys, attn_attend_key_width(a), err);
    float *v = attn_layers_take(pass, keys, attn_attend_key_width(a), err);
    if (!q || !k || !v)
        return ATTN_ENOMEM;
    project_part(a, 0, q, s->x, s->B * s->L);
    s->q = q;
    s->step = ready ? ready->step : 0;
    s->k = ready ? ready->k : k;
    s->v = ready ? ready->v : v;
    if (!ready) {
        project_part(a, 1, k, s->memory, keys);
        project_part(a, 2, v, s->memory, keys);
    }
    if (!rotates(a, pass->training))
        return ATTN_OK;
    ATTN_TRY(rotate(q, s->B, s->L, attn_attend_query_width(a), (size_t)s->first, a, pass, err));
    return ready ? ATTN_OK : rotate(k, s->B, s->S, attn_attend_key_width(a), 0, a, pass, err);
}

attn_status attn_attend_ready(const float *memory, size_t B, size_t S, const attn_attend *layer,
                              attn_attend_saved *ready, attn_pass *pass, attn_error *err) {
    *ready = (attn_attend_saved){.memory = memory, .B = B, .S = S};
    return project(layer, ready, NULL, pass, err);
}

attn_status attn_attend_append(attn_attend_saved *ready, const float *x, size_t n, size_t at,
                               const attn_attend *layer, attn_pass *pass, attn_error *err) {
    const size_t D = attn_attend_key_width(layer);
    float *of = attn_layers_take(pass, ready->B * n, D, err);
    for (int part = 1; of && part <= 2; part++) {
        float *to = (float *)(uintptr_t)(part == 1 ? ready->k : ready->v) + at * D;
        project_part(layer, part, of, x, ready->B * n);
        if (part == 1 && rotates(layer, pass->training))
            ATTN_TRY(rotate(of, ready->B, n, D, at, layer, pass, err));
        for (size_t b = 0; b < ready->B; b++)
            memcpy(to + b * ready->step * D, of + b * n * D, n * D * sizeof *to);
    }
    return of ? ATTN_OK : ATTN_ENOMEM;
}

static attn_tensor sequences(const float *data, size_t B, size_t T, size_t D) {
    return attn_tensor_dense((void *)(uintptr_t)data, ATTN_F32, 3, (size_t[]){B, T, D});
}

/* Returns the inputs of the operation. `rotated`: queries and keys are rotated already. */
static attn_inputs inputs_of(const attn_attend *a, const attn_attend_saved *s,
                             const attn_attend_sight *sight, bool rotated, attn_pass *pass) {
    const uint64_t seed = attn_dropout_seed(pass);
    const size_t K = attn_attend_key_width(a);
    const double p = a->kind == ATTN_SCORE_scaled_dot ? attn_dropout_of(pass, a->dropout) : 0;
    attn_inputs in = attn_attention_defaults();
    in.query = sequences(s->q, s->B, s->L, attn_attend_query_width(a));
    in.key = sequences(s->k, s->B, s->S, K);
    in.value = sequences(s->v, s->B, s->S, K);
    if (s->step)
        in.key.strides[0] = in.value.strides[0] = (ptrdiff_t)(s->step * K);
    in.layout = ATTN_BLD;
    in.num_heads = a->heads;
    in.num_kv_heads = a->kv_heads;
    in.score = score_of(a);
    if (!rotated)
        in.position = position_of(a);
    if (a->scale != 0)
        in.scale = a->scale;
    in.softcap = a->softcap;
    if (p > 0) {
        in.dropout_p = p;
        in.dropout_seed = seed;
    }
    add_masks(&in, a, s, sight);
    return in;
}

static void put_output(float *out, const attn_attend *a, const attn_attend_saved *s,
                       const attn_attend_sight *sight) {
    if (sight && sight->heads)
        sight->heads(sight->ctx, s->results.output.data);
    if (a->kind == ATTN_SCORE_scaled_dot)
        attn_linear_forward(out, s->results.output.data, s->B * s->L, &a->o);
    else
        memcpy(out, s->results.output.data, s->B * s->L * a->width * sizeof *out);
}

/* Runs the operation, and gives back all its memory except the statistics of the rows. */
static attn_status run_lean(float *out, const attn_attend *a, attn_attend_saved *s,
                            const attn_attend_sight *sight, attn_pass *pass, attn_error *err) {
    const size_t rows = s->B * s->L * a->heads;
    double *kept = attn_arena_array(pass->arena, rows, STATS_OF_A_ROW);
    ATTN_TAKEN(kept, "the statistics of rows", err);
    const attn_arena_mark mark = attn_arena_here(pass->arena);
    ATTN_TRY(attn_attention_run(s->operation, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, pass->pool,
                                pass->control, pass->arena, &s->results, err));
    put_output(out, a, s, sight);
    const attn_stats found = s->results.stats;
    const size_t hidden = s->results.hidden_rows;
    memcpy(kept, found.max, rows * sizeof *kept);
    memcpy(kept + rows, found.sum, rows * sizeof *kept);
    memcpy(kept + 2 * rows, found.kind, rows);
    s->results = (attn_results){.stats = {kept, kept + rows, (uint8_t *)(kept + 2 * rows)},
                                .hidden_rows = hidden};
    attn_arena_rewind(pass->arena, &mark);
    return ATTN_OK;
}

attn_status attn_attend_forward(float *out, const float *x, const float *memory, size_t B, size_t L,
                                size_t S, const attn_attend_sight *sight, bool want_weights,
                                const attn_attend *layer, attn_attend_saved *saved, attn_pass *pass,
                                attn_error *err) {
    const unsigned want = ATTN_WANT_OUTPUT | (want_weights ? (unsigned)ATTN_WANT_WEIGHTS : 0u) |
                          (pass->training ? (unsigned)ATTN_WANT_CELLS : 0u);
    *saved = (attn_attend_saved){.x = x, .memory = memory, .B = B, .L = L, .S = S};
    if (sight)
        saved->first = (int64_t)sight->first;
    ATTN_TRY(project(layer, saved, sight ? sight->ready : NULL, pass, err));
    saved->in = inputs_of(layer, saved, sight, rotates(layer, pass->training), pass);
    ATTN_TRY(attn_attention_new(&saved->in, pass->arena, &saved->operation, err));
    if (pass->lean && !want_weights)
        return run_lean(out, layer, saved, sight, pass, err);
    ATTN_TRY(attn_attention_run(saved->operation, want, ATTN_STAGE_RAW, pass->pool, pass->control,
                                pass->arena, &saved->results, err));
    put_output(out, layer, saved, sight);
    return ATTN_OK;
}

static void add_gradient(const attn_weight *weight, const attn_tensor *gradient) {
    size_t n;
    if (weight->gradient && gradient->rank && attn_tensor_count(gradient, &n))
        attn_pointwise_current()->add(weight->gradient, gradient->data, n);
}

static void parameters_back(const attn_attend *a, const attn_gradients *g) {
    if (a->buckets)
        add_gradient(a->buckets, &g->table);
    add_gradient(&a->relative, &g->table);
    add_gradient(&a->key_table, &g->key_table);
    add_gradient(&a->value_table, &g->value_table);
    add_gradient(&a->w1, &g->score.w_k);
    add_gradient(&a->w2, &g->score.w_q);
    add_gradient(&a->w, &g->score.w);
    add_gradient(&a->score, &g->score.v);
}

/* Adds the gradients of x, of the memory and of the projections. *g has the gradients of queries,
 * keys and values. */
static void inputs_back(const attn_attend *a, const attn_attend_saved *s, const attn_gradients *g,
                        float *dx, float *dmemory) {
    const size_t queries = s->B * s->L, keys = s->B * s->S;
    const attn_tensor *grads[3] = {&g->query, &g->key, &g->value};
    for (int part = 0; part < 3; part++) {
        float *into = part ? dmemory : dx;
        const size_t rows = part ? keys : queries;
        if (!grads[part]->rank)
            continue;
        if (a->kind == ATTN_SCORE_scaled_dot) {
            const attn_linear layer = projection(a, part);
            attn_linear_backward(into, grads[part]->data, part ? s->memory : s->x, rows, &layer);
        } else if (into) {
            attn_pointwise_current()->add(into, grads[part]->data, rows * a->width);
        }
    }
}

attn_status attn_attend_backward(float *dx, float *dmemory, const float *dout,
                                 const attn_attend *layer, attn_attend_saved *s, attn_pass *pass,
                                 attn_error *err) {
    const size_t rows = s->B * s->L;
    const float *dcontext = dout;
    if (layer->kind == ATTN_SCORE_scaled_dot) {
        float *through = attn_layers_zeroed(pass, rows, attn_attend_query_width(layer), err);
        if (!through)
            return ATTN_ENOMEM;
        attn_linear_backward(through, dout, s->results.output.data, rows, &layer->o);
        dcontext = through;
    }
    const attn_tensor grad = sequences(dcontext, s->B, s->L, attn_attend_query_width(layer));
    attn_gradients g;
    ATTN_TRY(attn_attention_backward(s->operation, &s->results, &grad, pass->pool, pass->control,
                                     pass->arena, &g, err));
    parameters_back(layer, &g);
    inputs_back(layer, s, &g, dx, dmemory);
    return ATTN_OK;
}

/* Runs attention again with an identity matrix as the values of each head. The output then equals
 * the weights, so dweights is the gradient of the output. */
attn_status attn_attend_weights_backward(float *dx, float *dmemory, const float *dweights,
                                         const attn_attend *a, const attn_attend_saved *s,
                                         attn_pass *pass, attn_error *err) {
    const size_t H = a->heads, K = a->kv_heads ? a->kv_heads : H, L = s->L, S = s->S;
    float *identity = attn_layers_zeroed(pass, S * K, S, err);
    float *grad = attn_layers_take(pass, s->B * L * H, S, err);
    if (!identity || !grad)
        return ATTN_ENOMEM;
    for (size_t i = 0; i < S * K; i++)
        identity[i * S + i / K] = 1;
    for (size_t i = 0; i < s->B * H * L; i++) {
        const size_t b = i / (H * L), h = i / L % H, row = i % L;
        memcpy(grad + ((b * L + row) * H + h) * S, dweights + i * S, S * sizeof *grad);
    }
    attn_inputs in = s->in;
    attn_attention *operation;
    attn_results results;
    attn_gradients g;
    in.value = sequences(identity, 1, S, K * S);
    in.dropout_p = 0;
    const attn_tensor wanted = sequences(grad, s->B, L, H * S);
    ATTN_TRY(attn_attention_new(&in, pass->arena, &operation, err));
    ATTN_TRY(attn_attention_run_backward(operation, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, &wanted,
                                         pass->pool, pass->control, pass->arena, &results, &g,
                                         err));
    g.value.rank = 0; /* the identity matrix needs no gradient */
    parameters_back(a, &g);
    inputs_back(a, s, &g, dx, dmemory);
    return ATTN_OK;
}

/* --- cost --- */

/* Adds the cost of an operation that runs with `want` and, in training, of its backward pass. */
static void count_operation(const attn_inputs *in, unsigned want, const attn_pass_use *use,
                            attn_layer_cost *cost) {
    attn_attention_dims dims;
    attn_cost forward, back = {0};
    if (attn_attention_shape(in, &dims, NULL) ||
        attn_attention_cost(&dims, want, use->slots, &forward, NULL) ||
        (use->training && attn_gradients_cost(&dims, want, 0, use->slots, &back, NULL))) {
        cost->bytes = (double)INFINITY;
        return;
    }
    cost->cells += forward.cells;
    cost->operations += forward.operations + back.operations;
    const double bytes = (double)forward.work_bytes + (double)forward.result_bytes +
                         (double)back.work_bytes + (double)back.result_bytes;
    const bool lean = use->lean && !(want & ATTN_WANT_WEIGHTS);
    const double kept = lean ? (double)forward.operation_bytes : bytes;
    if (lean)
        attn_cost_bytes(cost, (double)(dims.B * dims.Hq * dims.L) * STATS_OF_A_ROW);
    cost->bytes += kept;
    cost->passing += bytes - kept;
    cost->fallback_bytes += (double)forward.fallback_bytes + (double)back.fallback_bytes;
}

/* Adds the memory of the compiled masks of B sequences of S keys: lengths, offsets and, if `hides`,
 * visible keys. */
static void count_masks(size_t B, size_t S, bool hides, attn_layer_cost *cost) {
    attn_cost_bytes(cost, (double)B * sizeof(int64_t));
    attn_cost_bytes(cost, (double)B * sizeof(int64_t));
    attn_cost_bytes(cost, hides ? (double)B * (double)S : 0);
}

/* Returns the layer's inputs with their shapes but without data, to compute a cost. */
static attn_inputs sizes_of(const attn_attend *a, size_t B, size_t L, size_t S, bool training) {
    const attn_attend_saved none = {.B = B, .L = L, .S = S};
    attn_pass pass = {.seed = 0};
    return inputs_of(a, &none, NULL, rotates(a, training), &pass);
}

static void count_projection(const attn_attend *a, int part, double rows, bool training,
                             attn_layer_cost *cost) {
    const attn_linear linear = projection(a, part);
    if (a->kind != ATTN_SCORE_scaled_dot)
        return;
    attn_cost_floats(cost, rows * (double)linear.out);
    attn_linear_cost(&linear, rows, training, cost);
}

/* Adds the memory that `rotate` takes. */
static void count_angles(const attn_attend *a, attn_layer_cost *cost) {
    attn_cost_bytes(cost, (double)(head_width(a) / 2 * sizeof(double)));
    attn_cost_bytes(cost, (double)(head_width(a) * 2 * sizeof(double)));
}

void attn_attend_ready_cost(const attn_attend *a, size_t B, size_t S, attn_layer_cost *cost) {
    for (int part = 1; part <= 2; part++)
        count_projection(a, part, (double)B * (double)S, false, cost);
    if (rotates(a, false))
        count_angles(a, cost);
}

void attn_attend_cost(const attn_attend *a, size_t B, size_t L, size_t S, const attn_pass_use *use,
                      attn_layer_cost *cost) {
    const attn_inputs in = sizes_of(a, B, L, S, use->training);
    const double queries = (double)B * (double)L, keys = use->ready ? 0 : (double)B * (double)S;
    const unsigned want = ATTN_WANT_OUTPUT |
                          (use->want_weights ? (unsigned)ATTN_WANT_WEIGHTS : 0u) |
                          (use->training ? (unsigned)ATTN_WANT_CELLS : 0u);
    for (int part = 0; part <= 2; part++)
        count_projection(a, part, part ? keys : queries, use->training, cost);
    for (int part = 0; rotates(a, use->training) && part < 2; part++)
        count_angles(a, cost);
    count_masks(B, S, use->hides, cost);
    count_operation(&in, want, use, cost);
    if (a->kind != ATTN_SCORE_scaled_dot)
        return;
    attn_linear_cost(&a->o, queries, use->training, cost);
    attn_cost_floats(cost, use->training ? queries * (double)attn_attend_query_width(a) : 0);
}

void attn_attend_weights_cost(const attn_attend *a, size_t B, size_t L, size_t S,
                              const attn_pass_use *use, attn_layer_cost *cost) {
    const size_t K = a->kv_heads ? a->kv_heads : a->heads;
    attn_inputs in = sizes_of(a, B, L, S, use->training);
    in.value = sequences(NULL, 1, S, K * S);
    attn_cost_floats(cost, (double)S * (double)K * (double)S);
    attn_cost_floats(cost, (double)B * (double)L * (double)a->heads * (double)S);
    count_masks(B, S, use->hides, cost);
    count_operation(&in, ATTN_WANT_OUTPUT, use, cost);
}
