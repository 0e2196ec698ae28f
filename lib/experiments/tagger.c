/* Forward and backward pass of the small causal encoder (tagger.h). */
#include "experiments/tagger.h"

#include <math.h>
#include <stdio.h>

#include "attn/positions.h"

/* Results of a layer that the backward pass reads: [rows, D] each, but hidden and active
 * [rows, 4 D], and stats of the layer norms [rows, 2]. */
typedef struct kept {
    float *x, *attended, *middle, *hidden, *active, *sum, *y, *stats[2];
    attn_attend_saved saved;
} kept;

static void declare(attn_tagger *t) {
    static const attn_position_kind kinds[ATTN_TAGGER_POSITIONS] = {
        [ATTN_TAGGER_RELATIVE] = ATTN_POSITION_RELATIVE,
        [ATTN_TAGGER_SHAW] = ATTN_POSITION_SHAW,
        [ATTN_TAGGER_ALIBI] = ATTN_POSITION_ALIBI};
    const size_t D = t->width;
    attn_embedding_declare(&t->words, t->set, "words", t->symbols, D, 1, 0, -1);
    if (t->positions == ATTN_TAGGER_LEARNED)
        attn_positions_declare(&t->places, t->set, "places", t->longest, D);
    for (size_t i = 0; i < ATTN_TAGGER_LAYERS; i++) {
        char name[5][32];
        static const char *const parts[] = {"attention", "between", "up", "down", "behind"};
        for (size_t p = 0; p < 5; p++)
            snprintf(name[p], sizeof name[p], "layers.%zu.%s", i, parts[p]);
        t->attend[i] = (attn_attend){.position = kinds[t->positions],
                                     .width = D,
                                     .heads = t->heads,
                                     .max_distance = t->max_distance,
                                     .causal = true};
        attn_attend_declare(&t->attend[i], t->set, name[0]);
        attn_norm_declare(&t->between[i], t->set, name[1], D);
        attn_linear_declare(&t->up[i], t->set, name[2], D, 4 * D, true);
        attn_linear_declare(&t->down[i], t->set, name[3], 4 * D, D, true);
        attn_norm_declare(&t->behind[i], t->set, name[4], D);
    }
    attn_linear_declare(&t->out, t->set, "out", D, t->symbols, true);
}

static bool make_sinusoids(attn_lab *lab, attn_tagger *t) {
    const size_t n = t->longest * t->width;
    double *table = attn_lab_take(lab, n, sizeof *table);
    float *single = attn_lab_take(lab, n, sizeof *single);
    if (lab->status ||
        !attn_lab_ok(lab, attn_sinusoidal(table, t->longest, t->width, ATTN_ENCODING_INTERLEAVED,
                                          lab->hooks->control, lab->err)))
        return false;
    for (size_t i = 0; i < n; i++)
        single[i] = (float)table[i];
    t->sinusoids = single;
    return true;
}

bool attn_tagger_open(attn_lab *lab, attn_tagger *t) {
    t->set = attn_parameters_new();
    if (!t->set)
        return attn_lab_no_memory(lab) != NULL;
    declare(t);
    if (t->positions == ATTN_TAGGER_SINUSOIDAL && !make_sinusoids(lab, t))
        return false;
    if (!attn_lab_ok(lab, attn_parameters_seal(t->set, true, lab->err)))
        return false;
    attn_parameters_init(t->set, attn_lab_seed(lab));
    return true;
}

static float *take(attn_lab *lab, size_t count, size_t width) {
    float *p = lab->status ? NULL : attn_arena_zeroed(lab->scratch, count * width, sizeof *p);
    return p ? p : attn_lab_no_memory(lab);
}

static void add(float *to, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

static bool forward(attn_lab *lab, const attn_tagger *t, size_t layer, float *x, size_t B, size_t T,
                    kept *k, attn_pass *pass) {
    const size_t rows = B * T, D = t->width;
    *k = (kept){.x = x};
    k->attended = take(lab, rows, D), k->middle = take(lab, rows, D), k->sum = take(lab, rows, D);
    k->hidden = take(lab, rows, 4 * D), k->active = take(lab, rows, 4 * D);
    k->y = take(lab, rows, D), k->stats[0] = take(lab, rows, 2), k->stats[1] = take(lab, rows, 2);
    if (lab->status ||
        !attn_lab_ok(lab, attn_attend_forward(k->attended, x, x, B, T, T, NULL, false,
                                              &t->attend[layer], &k->saved, pass, lab->err)))
        return false;
    add(k->attended, k->attended, x, rows * D);
    attn_norm_forward(k->middle, k->stats[0], k->attended, rows, &t->between[layer]);
    attn_linear_forward(k->hidden, k->middle, rows, &t->up[layer]);
    attn_activation_forward(k->active, k->hidden, rows * 4 * D, ATTN_RELU);
    attn_linear_forward(k->sum, k->active, rows, &t->down[layer]);
    add(k->sum, k->sum, k->middle, rows * D);
    attn_norm_forward(k->y, k->stats[1], k->sum, rows, &t->behind[layer]);
    return true;
}

/* Runs the backward pass of a layer. dy [rows, D] is the gradient of its output; the gradient of
 * its input is added to dx [rows, D]. */
static bool backward(attn_lab *lab, const attn_tagger *t, size_t layer, float *dx, const float *dy,
                     size_t rows, kept *k, attn_pass *pass) {
    const size_t D = t->width;
    float *dsum = take(lab, rows, D), *dactive = take(lab, rows, 4 * D),
          *dhidden = take(lab, rows, 4 * D), *dattended = take(lab, rows, D);
    if (lab->status)
        return false;
    attn_norm_backward(dsum, dy, k->sum, k->stats[1], rows, &t->behind[layer]);
    attn_linear_backward(dactive, dsum, k->active, rows, &t->down[layer]);
    attn_activation_backward(dhidden, dactive, k->hidden, rows * 4 * D, ATTN_RELU);
    attn_linear_backward(dsum, dhidden, k->middle, rows, &t->up[layer]);
    attn_norm_backward(dattended, dsum, k->attended, k->stats[0], rows, &t->between[layer]);
    add(dx, dx, dattended, rows * D);
    return attn_lab_ok(
        lab, attn_attend_backward(dx, dx, dattended, &t->attend[layer], &k->saved, pass, lab->err));
}

static void embed(const attn_tagger *t, float *x, const int32_t *ids, size_t B, size_t T) {
    attn_embedding_forward(x, ids, B * T, &t->words);
    if (t->positions == ATTN_TAGGER_SINUSOIDAL)
        attn_positions_add(x, B, T, t->width, t->sinusoids, 0);
    if (t->positions == ATTN_TAGGER_LEARNED)
        attn_positions_add(x, B, T, t->width, t->places.weight.value, 0);
}

static bool learn_from(attn_lab *lab, attn_tagger *t, const int32_t *ids, const float *dlogits,
                       size_t B, size_t T, kept *layers, attn_pass *pass) {
    float *dy = take(lab, B * T, t->width);
    if (lab->status)
        return false;
    attn_linear_backward(dy, dlogits, layers[ATTN_TAGGER_LAYERS - 1].y, B * T, &t->out);
    for (size_t i = ATTN_TAGGER_LAYERS; i-- > 0;) {
        float *dx = take(lab, B * T, t->width);
        if (lab->status || !backward(lab, t, i, dx, dy, B * T, &layers[i], pass))
            return false;
        dy = dx;
    }
    attn_embedding_backward(dy, ids, B * T, &t->words);
    if (t->positions == ATTN_TAGGER_LEARNED)
        attn_positions_backward(dy, B, T, 0, &t->places);
    return true;
}

bool attn_tagger_pass(attn_lab *lab, attn_tagger *t, const int32_t *ids, const int32_t *wanted,
                      size_t B, size_t T, bool learn, attn_cross_entropy_loss *loss,
                      const float **logits) {
    attn_pass pass = {.arena = lab->scratch,
                      .pool = lab->hooks->pool,
                      .control = lab->hooks->control,
                      .training = learn};
    kept layers[ATTN_TAGGER_LAYERS];
    float *x = take(lab, B * T, t->width), *scores = take(lab, B * T, t->symbols),
          *dscores = take(lab, B * T, t->symbols);
    if (lab->status)
        return false;
    embed(t, x, ids, B, T);
    for (size_t i = 0; i < ATTN_TAGGER_LAYERS; i++) {
        if (!forward(lab, t, i, x, B, T, &layers[i], &pass))
            return false;
        x = layers[i].y;
    }
    attn_linear_forward(scores, x, B * T, &t->out);
    loss->loss = attn_cross_entropy(dscores, scores, wanted, B * T, t->symbols, -1, 0, &loss->rows,
                                    &loss->right);
    if (logits)
        *logits = scores;
    return !learn || learn_from(lab, t, ids, dscores, B, T, layers, &pass);
}
