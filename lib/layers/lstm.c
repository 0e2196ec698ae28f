/* LSTMs. Arrays are batch-major: [B, T, ..].
 *
 * Forward: one product computes the input part of the gates of all steps. Each step then adds the
 * product with the previous state, and applies the activations in place. Backward: step by step,
 * the gates are replaced by their gradients. Three products over all steps then give the gradients
 * of inputs and weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "kernels/gemm.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"

/* One direction of one layer, over all steps. */
typedef struct direction {
    const attn_lstm_cell *cell;
    const float *in; /* [B, T, D] */
    float *gates;    /* [B, T, 4H] */
    float *c;        /* [B, T, H] cell states */
    float *out;      /* [B, T, width]: this direction has H columns, and width = directions * H */
    const float *h0, *c0; /* [B, H] initial states; NULL: zeros */
    const int64_t *lengths;
    size_t B, T, D, H, width;
    bool reverse;
    /* W_hh packed by attn_layers_pack; NULL: not packed, and BLAS computes the product */
    float *panels;
} direction;

/* W_hh is packed only for batches of at most FEW_ROWS sequences, and for the backward pass only if
 * they have at least FEW_STEPS steps. The forward pass packs it for any number of steps, so that a
 * step of a search gives the same bits as a pass over the whole sequence. */
enum { FEW_ROWS = 16, FEW_STEPS = 4 };

static size_t directions(const attn_lstm *layer) {
    return layer->bidirectional ? 2 : 1;
}

static size_t input_of(const attn_lstm *layer, size_t l) {
    return l ? directions(layer) * layer->hidden : layer->input;
}

static void declare_cell(attn_lstm_cell *cell, attn_parameters *set, const char *name,
                         const char *suffix, size_t D, size_t H) {
    const attn_init init = {.kind = ATTN_INIT_UNIFORM, .amount = 1 / sqrt((double)H)};
    const size_t gates = 4 * H;
    char what[64];
    snprintf(what, sizeof what, "weight_ih_%s", suffix);
    attn_layers_add(set, name, what, 2, (size_t[]){gates, D}, init, &cell->weight_ih);
    snprintf(what, sizeof what, "weight_hh_%s", suffix);
    attn_layers_add(set, name, what, 2, (size_t[]){gates, H}, init, &cell->weight_hh);
    snprintf(what, sizeof what, "bias_ih_%s", suffix);
    attn_layers_add(set, name, what, 1, &gates, init, &cell->bias_ih);
    snprintf(what, sizeof what, "bias_hh_%s", suffix);
    attn_layers_add(set, name, what, 1, &gates, init, &cell->bias_hh);
}

void attn_lstm_declare(attn_lstm *layer, attn_parameters *set, const char *name, size_t input,
                       size_t hidden, size_t layers, bool bidirectional, double dropout) {
    char suffix[32];
    *layer = (attn_lstm){.input = input,
                         .hidden = hidden,
                         .layers = layers,
                         .bidirectional = bidirectional,
                         .dropout = dropout};
    for (size_t l = 0; l < layers; l++)
        for (size_t d = 0; d < directions(layer); d++) {
            snprintf(suffix, sizeof suffix, "l%zu%s", l, d ? "_reverse" : "");
            declare_cell(&layer->cells[l * directions(layer) + d], set, name, suffix,
                         input_of(layer, l), hidden);
        }
}

/* time_of returns the time (index in T) of step s. time_before returns the time whose state enters
 * time t, or T if the initial state enters time t. */
static size_t time_of(const direction *w, size_t s) {
    return w->reverse ? w->T - 1 - s : s;
}

static size_t time_before(const direction *w, size_t t) {
    if (w->reverse)
        return t + 1;
    return t ? t - 1 : w->T;
}

static bool is_real(const direction *w, size_t b, size_t t) {
    return !w->lengths || t < (size_t)w->lengths[b];
}

static size_t last_time(const direction *w, size_t b) {
    if (w->reverse)
        return 0;
    return (w->lengths ? (size_t)w->lengths[b] : w->T) - 1;
}

/* Returns the cell state [H] of sequence b that enters time t; NULL: zeros. */
static const float *state_before(const direction *w, size_t b, size_t t) {
    const size_t before = time_before(w, t);
    if (before < w->T)
        return w->c + (b * w->T + before) * w->H;
    return w->c0 ? w->c0 + b * w->H : NULL;
}

/* Packs W_hh, because the product would pack it again in each step. The packed matrix is W_hh^T
 * [H, 4H] for the forward pass and W_hh [4H, H] for the backward pass. NULL: out of memory. */
static float *pack_cell(const attn_lstm_cell *cell, size_t H, bool back, attn_pass *pass,
                        attn_error *err) {
    const size_t K = back ? 4 * H : H, N = back ? H : 4 * H;
    float *panels = attn_layers_take(pass, 1, attn_layers_panel_floats(K, N), err);
    if (panels)
        attn_layers_pack(panels, cell->weight_hh.value, K, N, !back);
    return panels;
}

attn_status attn_lstm_pack(attn_lstm_panels *panels, size_t B, const attn_lstm *layer,
                           attn_pass *pass, attn_error *err) {
    *panels = (attn_lstm_panels){{NULL}};
    for (size_t i = 0; B <= FEW_ROWS && i < layer->layers * directions(layer); i++)
        if (!(panels->cells[i] = pack_cell(&layer->cells[i], layer->hidden, false, pass, err)))
            return ATTN_ENOMEM;
    return ATTN_OK;
}

void attn_lstm_pack_cost(const attn_lstm *layer, size_t B, attn_layer_cost *cost) {
    for (size_t i = 0; B <= FEW_ROWS && i < layer->layers * directions(layer); i++)
        attn_cost_floats(cost, (double)attn_layers_panel_floats(layer->hidden, 4 * layer->hidden));
}

/* Adds W_hh h to the gates at time t for all sequences, where h is the state that enters time t. */
static void recur(const direction *w, size_t t) {
    const size_t before = time_before(w, t), H = w->H;
    const float *h = before < w->T ? w->out + before * w->width : w->h0;
    const attn_gemm_dims dims = {.M = w->B,
                                 .N = 4 * H,
                                 .K = H,
                                 .lda = before < w->T ? w->T * w->width : H,
                                 .ldb = H,
                                 .ldc = w->T * 4 * H,
                                 .transpose_b = true};
    if (h && w->panels)
        attn_pointwise_current()->product(w->gates + t * 4 * H, dims.ldc, h, dims.lda, w->B,
                                          w->panels, 4 * H, H);
    else if (h)
        attn_kernels_gemm(w->gates + t * 4 * H, h, w->cell->weight_hh.value, &dims, 1);
}

static void activate(const direction *w, size_t t) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t H = w->H;
    for (size_t b = 0; b < w->B; b++) {
        const size_t at = b * w->T + t;
        const attn_lstm_row row = {.gates = w->gates + at * 4 * H,
                                   .before = state_before(w, b, t),
                                   .c = w->c + at * H,
                                   .h = w->out + at * w->width};
        if (is_real(w, b, t)) {
            p->lstm_forward(&row, H);
        } else {
            memset(row.gates, 0, 4 * H * sizeof(float));
            memset(row.c, 0, H * sizeof(float));
            memset(row.h, 0, H * sizeof(float));
        }
    }
}

static void direction_forward(const direction *w) {
    const size_t rows = w->B * w->T, gates = 4 * w->H;
    memcpy(w->gates, w->cell->bias_ih.value, gates * sizeof(float));
    attn_pointwise_current()->add(w->gates, w->cell->bias_hh.value, gates);
    attn_layers_fill_rows(w->gates + gates, rows - 1, w->gates, gates);
    attn_layers_product(w->gates, w->in, rows, &w->cell->weight_ih, w->D, gates, 1);
    for (size_t s = 0; s < w->T; s++) {
        recur(w, time_of(w, s));
        activate(w, time_of(w, s));
    }
}

static void copy_last(const direction *w, const attn_lstm_state *last, size_t index) {
    const size_t H = w->H;
    for (size_t b = 0; b < w->B; b++) {
        const size_t at = b * w->T + last_time(w, b), to = (index * w->B + b) * H;
        if (last->h)
            memcpy(last->h + to, w->out + at * w->width, H * sizeof(float));
        if (last->c)
            memcpy(last->c + to, w->c + at * H, H * sizeof(float));
    }
}

static direction direction_of(const attn_lstm *layer, const attn_lstm_saved *saved, size_t l,
                              size_t d) {
    const size_t index = l * directions(layer) + d, H = layer->hidden;
    const float *h0 = saved->initial.h, *c0 = saved->initial.c;
    return (direction){.cell = &layer->cells[index],
                       .in = saved->inputs[l],
                       .gates = saved->gates[index],
                       .c = saved->states[index],
                       .out = saved->outputs[l] + d * H,
                       .h0 = h0 ? h0 + index * saved->B * H : NULL,
                       .c0 = c0 ? c0 + index * saved->B * H : NULL,
                       .lengths = saved->lengths,
                       .B = saved->B,
                       .T = saved->T,
                       .D = input_of(layer, l),
                       .H = H,
                       .width = directions(layer) * H,
                       .reverse = d == 1};
}

/* Returns the input of layer l > 0: the outputs of layer l - 1, after dropout. */
static const float *layer_input(const attn_lstm *layer, attn_lstm_saved *saved, size_t l,
                                attn_pass *pass, attn_error *err) {
    const size_t n = saved->B * saved->T, width = input_of(layer, l);
    saved->seeds[l] = attn_dropout_seed(pass);
    const double p = attn_dropout_of(pass, layer->dropout);
    if (!(p > 0))
        return saved->outputs[l - 1];
    float *dropped = attn_layers_take(pass, n, width, err);
    if (dropped) {
        memcpy(dropped, saved->outputs[l - 1], n * width * sizeof(float));
        attn_dropout(dropped, n * width, 0, p, saved->seeds[l]);
    }
    return dropped;
}

static attn_status layer_forward(const attn_lstm_state *last, const attn_lstm_panels *panels,
                                 const attn_lstm *layer, attn_lstm_saved *saved, size_t l,
                                 attn_pass *pass, attn_error *err) {
    const size_t n = saved->B * saved->T, H = layer->hidden;
    ATTN_TRY(attn_control_check(pass->control, err));
    if (l && !(saved->inputs[l] = layer_input(layer, saved, l, pass, err)))
        return ATTN_ENOMEM;
    for (size_t d = 0; d < directions(layer); d++) {
        const size_t index = l * directions(layer) + d;
        if (!(saved->gates[index] = attn_layers_take(pass, n, 4 * H, err)) ||
            !(saved->states[index] = attn_layers_take(pass, n, H, err)))
            return ATTN_ENOMEM;
        direction w = direction_of(layer, saved, l, d);
        w.panels = panels->cells[index];
        direction_forward(&w);
        if (last)
            copy_last(&w, last, index);
    }
    return ATTN_OK;
}

attn_status attn_lstm_forward(float *y, const attn_lstm_state *last, const float *x,
                              const attn_lstm_state *initial, const int64_t *lengths,
                              const attn_lstm_panels *panels, size_t B, size_t T,
                              const attn_lstm *layer, attn_lstm_saved *saved, attn_pass *pass,
                              attn_error *err) {
    attn_lstm_panels own;
    *saved = (attn_lstm_saved){.inputs = {x}, .lengths = lengths, .B = B, .T = T};
    if (initial)
        saved->initial = *initial;
    if (initial && lengths && layer->bidirectional)
        return attn_fail(err, ATTN_EARG, "initial",
                         "a bidirectional LSTM of sequences with lengths starts from zeros");
    if (!panels)
        ATTN_TRY(attn_lstm_pack(&own, B, layer, pass, err));
    for (size_t l = 0; l < layer->layers; l++) {
        saved->outputs[l] =
            l + 1 == layer->layers
                ? y
                : attn_layers_take(pass, B * T, directions(layer) * layer->hidden, err);
        if (!saved->outputs[l])
            return ATTN_ENOMEM;
        ATTN_TRY(layer_forward(last, panels ? panels : &own, layer, saved, l, pass, err));
    }
    return ATTN_OK;
}

/* Gradients during the backward pass of one direction. */
typedef struct back {
    const float *dout;              /* [B, T, width], the gradient of `out` */
    float *dh, *dc;                 /* [B, H] gradients of h and c at the current time */
    const float *dh_last, *dc_last; /* gradients of the final states h and c; NULL: zeros */
} back;

/* Adds the gradients of the gates at time t, times W_hh, to dh [B, H]. */
static void recur_back(const direction *w, float *dh, size_t t) {
    const size_t H = w->H;
    const attn_gemm_dims dims = {
        .M = w->B, .N = H, .K = 4 * H, .lda = w->T * 4 * H, .ldb = H, .ldc = H};
    if (w->panels)
        attn_pointwise_current()->product(dh, H, w->gates + t * 4 * H, dims.lda, w->B, w->panels, H,
                                          4 * H);
    else
        attn_kernels_gemm(dh, w->gates + t * 4 * H, w->cell->weight_hh.value, &dims, 1);
}

static void step_back(const direction *w, const back *k, size_t t, bool last_step) {
    const attn_pointwise *p = attn_pointwise_current();
    const size_t H = w->H, later = w->reverse ? t - 1 : t + 1;
    for (size_t b = 0; b < w->B; b++)
        memcpy(k->dh + b * H, k->dout + (b * w->T + t) * w->width, H * sizeof(float));
    if (!last_step)
        recur_back(w, k->dh, later);
    for (size_t b = 0; b < w->B; b++) {
        const size_t at = b * w->T + t;
        float *dh = k->dh + b * H, *dc = k->dc + b * H;
        if (!is_real(w, b, t))
            continue;
        if (k->dh_last && t == last_time(w, b))
            p->add(dh, k->dh_last + b * H, H);
        if (k->dc_last && t == last_time(w, b))
            p->add(dc, k->dc_last + b * H, H);
        const attn_lstm_row row = {.gates = w->gates + at * 4 * H,
                                   .before = state_before(w, b, t),
                                   .c = w->c + at * H,
                                   .dh = dh,
                                   .dc = dc};
        p->lstm_backward(&row, H);
    }
}

/* Copies the states h that enter each time to before [B, T, H]. */
static void gather_before(const direction *w, float *before) {
    const size_t H = w->H;
    for (size_t b = 0; b < w->B; b++)
        for (size_t t = 0; t < w->T; t++) {
            const size_t was = time_before(w, t);
            const float *h = was < w->T ? w->out + (b * w->T + was) * w->width
                             : w->h0    ? w->h0 + b * H
                                        : NULL;
            float *to = before + (b * w->T + t) * H;
            if (h)
                memcpy(to, h, H * sizeof(float));
            else
                memset(to, 0, H * sizeof(float));
        }
}

/* Adds the gradients of weights and biases. The gradients of the gates must be known. */
static attn_status weights_back(const direction *w, attn_pass *pass, attn_error *err) {
    const size_t rows = w->B * w->T, gates = 4 * w->H;
    const attn_lstm_cell *cell = w->cell;
    if (!cell->weight_ih.gradient)
        return ATTN_OK;
    float *before = attn_layers_take(pass, rows, w->H, err);
    if (!before)
        return ATTN_ENOMEM;
    gather_before(w, before);
    attn_layers_weight_back(cell->weight_hh.gradient, w->gates, before, rows, w->H, gates);
    attn_layers_weight_back(cell->weight_ih.gradient, w->gates, w->in, rows, w->D, gates);
    attn_layers_sum_rows(cell->bias_ih.gradient, w->gates, rows, gates);
    attn_layers_sum_rows(cell->bias_hh.gradient, w->gates, rows, gates);
    return ATTN_OK;
}

static attn_status direction_backward(const direction *w, float *din, const float *dout,
                                      const attn_lstm_state *dinitial, const attn_lstm_state *dlast,
                                      size_t index, attn_pass *pass, attn_error *err) {
    const size_t state = w->B * w->H, offset = index * state;
    back k = {.dout = dout,
              .dh = attn_layers_take(pass, w->B, w->H, err),
              .dc = attn_layers_zeroed(pass, w->B, w->H, err),
              .dh_last = dlast && dlast->h ? dlast->h + offset : NULL,
              .dc_last = dlast && dlast->c ? dlast->c + offset : NULL};
    if (!k.dh || !k.dc)
        return ATTN_ENOMEM;
    for (size_t s = w->T; s-- > 0;)
        step_back(w, &k, time_of(w, s), s + 1 == w->T);
    if (dinitial && dinitial->h)
        recur_back(w, dinitial->h + offset, time_of(w, 0));
    if (dinitial && dinitial->c)
        attn_pointwise_current()->add(dinitial->c + offset, k.dc, state);
    if (din)
        attn_layers_product_back(din, w->gates, w->B * w->T, w->cell->weight_ih.value, w->D,
                                 4 * w->H);
    return weights_back(w, pass, err);
}

attn_status attn_lstm_backward(float *dx, const attn_lstm_state *dinitial, const float *dy,
                               const attn_lstm_state *dlast, const attn_lstm *layer,
                               attn_lstm_saved *saved, attn_pass *pass, attn_error *err) {
    const size_t n = saved->B * saved->T, H = layer->hidden;
    const float *dout = dy;
    for (size_t l = layer->layers; l-- > 0;) {
        ATTN_TRY(attn_control_check(pass->control, err));
        float *din = l ? attn_layers_zeroed(pass, n, input_of(layer, l), err) : dx;
        if (l && !din)
            return ATTN_ENOMEM;
        for (size_t d = 0; d < directions(layer); d++) {
            direction w = direction_of(layer, saved, l, d);
            const bool few = w.B <= FEW_ROWS && w.T >= FEW_STEPS;
            if (few && !(w.panels = pack_cell(w.cell, w.H, true, pass, err)))
                return ATTN_ENOMEM;
            ATTN_TRY(direction_backward(&w, din, dout + d * H, dinitial, dlast,
                                        l * directions(layer) + d, pass, err));
        }
        if (l)
            attn_dropout(din, n * input_of(layer, l), 0, attn_dropout_of(pass, layer->dropout),
                         saved->seeds[l]);
        dout = din;
    }
    return ATTN_OK;
}

/* Adds the memory that the backward pass of layer l takes. */
static void count_backward(const attn_lstm *layer, size_t B, size_t T, size_t l,
                           attn_layer_cost *cost) {
    const double n = (double)B * (double)T, H = (double)layer->hidden;
    attn_cost_floats(cost, l ? n * (double)input_of(layer, l) : 0);
    for (size_t d = 0; d < directions(layer); d++) {
        if (B <= FEW_ROWS && T >= FEW_STEPS)
            attn_cost_floats(cost,
                             (double)attn_layers_panel_floats(4 * layer->hidden, layer->hidden));
        attn_cost_floats(cost, (double)B * H); /* array dh */
        attn_cost_floats(cost, (double)B * H); /* array dc */
        attn_cost_floats(cost, n * H);         /* copy of the states before each time */
    }
}

void attn_lstm_cost(const attn_lstm *layer, size_t B, size_t T, const attn_pass_use *use,
                    attn_layer_cost *cost) {
    const double n = (double)B * (double)T, H = (double)layer->hidden;
    const double D = (double)directions(layer);
    if (!use->ready)
        attn_lstm_pack_cost(layer, B, cost);
    for (size_t l = 0; l < layer->layers; l++) {
        if (l) /* the outputs of the layer below, and their copy after dropout */
            for (int i = 0; i < 1 + use->drops; i++)
                attn_cost_floats(cost, n * D * H);
        for (size_t d = 0; d < directions(layer); d++) {
            attn_cost_floats(cost, n * 4 * H);
            attn_cost_floats(cost, n * H);
        }
        attn_cost_products(cost, n * D * 4 * H * ((double)input_of(layer, l) + H + 2),
                           use->training);
        if (use->training)
            count_backward(layer, B, T, l, cost);
    }
}
