/* Experiment: why scores are divided by sqrt(d). For growing widths d the experiment draws normal
 * queries and keys, and measures softmax and the gradient of the scores with and without the
 * scale. */
#include <math.h>
#include <stdlib.h>

#include "attn/gradients.h"
#include "experiments/lab.h"

enum {
    VALUE_WIDTH = 64,
    SHOWN = 512,  /* the picture shows the weights of the largest width up to this bound */
    WIDTHS = 16,  /* largest number of widths */
    ROWS = 24,    /* largest number of queries in the picture */
    COLUMNS = 64, /* largest number of keys in the picture */
};

static const attn_setting settings[] = {
    {"widest", 1024, 8192, 8, 16384, true, "largest width d of a head; from 4 on it doubles"},
    {"num_keys", 64, 256, 2, 4096, true, "keys"},
    {"num_queries", 256, 1024, 1, 4096, true, "queries"},
    {"seed", 1, 1, 0, 9e15, true, "of queries, keys, values and the gradient of the output"},
};

static const attn_column columns[] = {
    {"d", "", 0, false},
    {"scale", "", -1, false},
    {"deviation of scores", "", 3, false},
    {"largest weight", "", 3, false},
    {"saturated rows", "%", 1, false},
    {"effective keys", "", 2, false},
    {"gradient, mean", "", 4, false},
    {"gradient, median", "", 4, false},
};

/* Measurements at one width with one scale; units as in `columns`. `mean` and `median` are taken of
 * the norms of the gradient's rows. */
typedef struct reading {
    double deviation, largest, saturated, effective, mean, median;
} reading;

/* The inputs: query [L, d], key [S, d], value [S, VALUE_WIDTH], upstream (the gradient of the
 * output) [L, VALUE_WIDTH], bias [L, S]. The arrays are allocated for the largest d; a smaller d
 * uses the beginnings of the arrays. */
typedef struct inputs {
    size_t L, S;
    float *query, *key, *value, *upstream, *bias;
} inputs;

static size_t bytes(const attn_experiment *about, const double *values) {
    const double L = attn_setting_value(about, values, "num_queries");
    const double S = attn_setting_value(about, values, "num_keys");
    const double d = attn_setting_value(about, values, "widest");
    /* 6 arrays of L + S rows: inputs, packed copies and gradients. 10 arrays of L x S: scores,
     * weights, bias, gradient of the bias, and intermediate results. 32 MiB: the constant part of
     * an operation. */
    return (size_t)(4 * (6 * (L + S) * (d + VALUE_WIDTH) + 10 * L * S)) + ((size_t)32 << 20);
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computes the measurements from scores, weights and the gradient of the scores, all [L, S].
 * `norms` [L] is working memory. */
static void read_rows(const inputs *in, const float *scores, const float *weights,
                      const float *gradient, double *norms, reading *out) {
    const size_t L = in->L, S = in->S;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < L; i++) {
        double largest = 0, entropy = 0, norm = 0;
        for (size_t j = i * S; j < (i + 1) * S; j++) {
            const double p = weights[j];
            sum += scores[j], squares += (double)scores[j] * scores[j];
            largest = fmax(largest, p);
            entropy -= p > 0 ? p * log(p) : 0;
            norm += (double)gradient[j] * gradient[j];
        }
        norms[i] = sqrt(norm);
        out->largest += largest / (double)L;
        out->saturated += largest >= 0.99 ? 100 / (double)L : 0;
        out->effective += exp(entropy) / (double)L;
        out->mean += norms[i] / (double)L;
    }
    const double n = (double)(L * S);
    out->deviation = sqrt(squares / n - sum / n * (sum / n));
    qsort(norms, L, sizeof *norms, rising);
    out->median = (norms[(L - 1) / 2] + norms[L / 2]) / 2;
}

/* Runs a forward and a backward pass at width d. The operation adds a bias of zeros to the scores,
 * because the gradient of this bias is the gradient of the scores. */
static void measure_gradients(attn_lab *lab, const inputs *in, size_t d, double scale, reading *out,
                              const float **weights) {
    attn_inputs op = attn_attention_defaults();
    const size_t q[] = {in->L, d}, k[] = {in->S, d}, v[] = {in->S, VALUE_WIDTH},
                 s[] = {in->L, in->S}, o[] = {in->L, VALUE_WIDTH};
    const attn_tensor upstream = attn_tensor_dense(in->upstream, ATTN_F32, 2, o);
    attn_results results;
    attn_gradients gradients;
    op.query = attn_tensor_dense(in->query, ATTN_F32, 2, q);
    op.key = attn_tensor_dense(in->key, ATTN_F32, 2, k);
    op.value = attn_tensor_dense(in->value, ATTN_F32, 2, v);
    op.scale = scale;
    op.mask.layers[op.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_BIAS,
                          .where = "bias",
                          .values = attn_tensor_dense(in->bias, ATTN_F32, 2, s)};
    double *norms = lab->status ? NULL : attn_arena_zeroed(lab->scratch, in->L, sizeof *norms);
    if (!norms)
        attn_lab_no_memory(lab);
    attn_attention *run =
        attn_lab_attend(lab, &op, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_SCORES,
                        ATTN_STAGE_SCALED, &results);
    if (!run || !attn_lab_ok(lab, attn_attention_backward(run, &results, &upstream,
                                                          lab->hooks->pool, lab->hooks->control,
                                                          lab->scratch, &gradients, lab->err)))
        return;
    *out = (reading){0};
    *weights = results.weights.data;
    read_rows(in, results.scores.data, *weights, gradients.bias[0].data, norms, out);
}

static bool open_inputs(attn_lab *lab, size_t d, inputs *in) {
    in->L = attn_lab_size(lab, "num_queries"), in->S = attn_lab_size(lab, "num_keys");
    in->query = attn_lab_normal(lab, 0, in->L * d);
    in->key = attn_lab_normal(lab, 1, in->S * d);
    in->value = attn_lab_normal(lab, 2, in->S * VALUE_WIDTH);
    in->upstream = attn_lab_normal(lab, 3, in->L * VALUE_WIDTH);
    in->bias = attn_lab_take(lab, in->L * in->S, sizeof *in->bias);
    return !lab->status;
}

static attn_picture *open_curves(attn_lab *lab) {
    static const char *const titles[] = {
        "Largest weight of a row", "Rows with a weight of 0.99 and more, share",
        "Effective keys, share of all", "Gradient in the scores, median, beside that at d = 4"};
    return attn_lab_curves(lab, "curves", "Scores with and without the scale 1/sqrt(d)",
                           "log2 of the width d", NULL, 4, titles, 8);
}

static void draw_curves(attn_lab *lab, attn_picture *p, const double *log2d,
                        const reading (*found)[WIDTHS], size_t n) {
    static const char *const names[] = {"scores as they are", "divided by sqrt(d)"};
    for (size_t s = 0; s < 2; s++) {
        double y[4][WIDTHS];
        for (size_t i = 0; i < n; i++) {
            y[0][i] = found[s][i].largest, y[1][i] = found[s][i].saturated / 100;
            y[2][i] = found[s][i].effective / attn_lab_number(lab, "num_keys");
            y[3][i] = found[s][i].median / found[s][0].median;
        }
        for (size_t panel = 0; panel < 4; panel++)
            attn_lab_curve(lab, p, panel, names[s], log2d, y[panel], n);
    }
}

static void close_up(attn_lab *lab, size_t widest, const reading (*found)[WIDTHS], size_t n) {
    const reading *plain = found[0], *scaled = found[1];
    attn_lab_close(
        lab,
        "Without the scale the scores' deviation grows as sqrt(d), to %.1f at d = %zu: %.0f %% of "
        "the rows put 99 %% and more on one key, and the gradient that reaches the scores falls "
        "from %.3g at d = 4 to %.3g in the mean and %.3g in the median. Divided by sqrt(d) the "
        "deviation is %.2f and the gradient %.3g in the mean.",
        plain[n - 1].deviation, widest, plain[n - 1].saturated, plain[0].mean, plain[n - 1].mean,
        plain[n - 1].median, scaled[n - 1].deviation, scaled[n - 1].mean);
}

/* Measures both scales at width d. If `shown` is not NULL, sets the panels of this picture to the
 * weights. */
static void measure_width(attn_lab *lab, const inputs *in, size_t d, reading (*found)[WIDTHS],
                          size_t at, attn_table *table, attn_picture *shown) {
    static const char *const words[] = {"1", "1/sqrt(d)"};
    for (size_t s = 0; s < 2 && !lab->status; s++) {
        const float *weights = NULL;
        reading *r = &found[s][at];
        attn_lab_scratch(lab);
        measure_gradients(lab, in, d, s ? 1 / sqrt((double)d) : 1, r, &weights);
        if (lab->status)
            return;
        attn_lab_row(table, (double)d, words[s], r->deviation, r->largest, r->saturated,
                     r->effective, r->mean, r->median);
        if (shown)
            attn_lab_heatmap(lab, shown, s, s ? "divided by sqrt(d)" : "scores as they are",
                             weights, in->S);
    }
}

static void run(attn_lab *lab) {
    const size_t widest = attn_lab_size(lab, "widest");
    reading found[2][WIDTHS] = {{{0}}};
    inputs in;
    size_t n = 0, shown = 0, widths = 0;
    for (size_t d = 4; d <= widest; d *= 2, widths++)
        shown = d <= SHOWN ? d : shown;
    double *log2d = attn_lab_keep(lab, widths, sizeof *log2d);
    if (!open_inputs(lab, (size_t)2 << widths, &in))
        return;
    attn_table *table =
        ATTN_LAB_TABLE(lab, "Scores, weights and gradients by width", columns, 2 * widths);
    attn_picture *curves = open_curves(lab);
    attn_picture *heat = attn_lab_heatmaps(
        lab, "weights", attn_lab_say(lab, "Weights of the first queries at d = %zu", shown), 2,
        in.L < ROWS ? in.L : ROWS, in.S < COLUMNS ? in.S : COLUMNS);
    if (heat)
        heat->options.x_label = "key", heat->options.y_label = "query";
    for (size_t d = 4; d <= widest; d *= 2, n++) {
        attn_lab_part(lab, (double)n / (double)widths, (double)(n + 1) / (double)widths,
                      "width %zu", d);
        if (!attn_lab_done(lab, 0))
            return;
        log2d[n] = log2((double)d);
        measure_width(lab, &in, d, found, n, table, d == shown ? heat : NULL);
    }
    draw_curves(lab, curves, log2d, (const reading(*)[WIDTHS])found, n);
    close_up(lab, (size_t)1 << (n + 1), (const reading(*)[WIDTHS])found, n);
}

const attn_experiment_row attn_experiment_scale = {
    .about = {"scale", "Scale and gradients",
              "Why scores are divided by sqrt(d): without it softmax saturates as the width of a "
              "head grows, and its gradient vanishes.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
};
