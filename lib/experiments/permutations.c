/* Experiment: self-attention over permuted words. With f for self-attention, x for the words and P
 * for a permutation, the experiment compares f(Px) with P f(x). All numbers are double. If
 * f(Px) = P f(x) in exact arithmetic, the computed results differ by rounding only. */
#include <math.h>
#include <string.h>

#include "attn/attention.h"
#include "attn/positions.h"
#include "attn/rng.h"
#include "experiments/lab.h"

/* MAX_DISTANCE: largest distance in the tables of relative positions. */
enum { WORDS = 12, MAX_DISTANCE = WORDS };

static const attn_setting settings[] = {
    {"num_words", 12, 12, 3, WORDS, true, "words of the sentence"},
    {"width", 16, 64, 4, 512, true, "width d of words, queries, keys and values; even"},
    {"num_permutations", 20, 200, 1, 10000, true, "random orders"},
    {"seed", 1, 1, 0, 9e15, true, "of words, projections, tables and orders"},
};

static const attn_column columns[] = {
    {"positions", "", -1, false},
    {"f(Px) beside P f(x)", "", 6, false},
    {"mean of f(Px) beside mean of f(x)", "", 6, false},
    {"score of two words, spread", "", 6, false},
    {"so f is", "", -1, false},
};

typedef enum form { NONE, SINUSOIDAL, LEARNED, RELATIVE, SHAW, ALIBI, ROTARY, CAUSAL, FORMS } form;

static const char *const forms[FORMS] = {"none",           "sinusoidal, added",
                                         "learned, added", "relative bias",
                                         "Shaw",           "ALiBi (distance to either side)",
                                         "rotary",         "none, causal mask"};

/* Random inputs of all passes: words x [N, D], projections w[i] [D, D] of queries, keys and values,
 * and tables of positions. */
typedef struct setup {
    size_t N, D;
    double *x, *w[3], *sinusoids, *learned, *relative, *shaw;
} setup;

/* Results of a pass. Rows are in the order of the words in the pass. */
typedef struct view {
    double *output;                 /* [N, D] */
    const double *weights, *scores; /* [N, N] */
} view;

static size_t bytes(const attn_experiment *about, const double *values) {
    const double D = attn_setting_value(about, values, "width");
    return (size_t)(8 * (3 * D * D + 80 * WORDS * D)) + ((size_t)24 << 20);
}

static const attn_setting_rule rules[] = {{"width", ATTN_IS_MULTIPLE, NULL, 2}, {0}};

static double *draw_normal(attn_lab *lab, uint64_t stream, size_t n, double deviation) {
    double *x = attn_lab_take(lab, n, sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        x[i] = deviation * attn_rng_normal(attn_rng_bits(attn_lab_seed(lab), stream), i);
    return x;
}

static bool open_setup(attn_lab *lab, setup *s) {
    const size_t N = attn_lab_size(lab, "num_words"), D = attn_lab_size(lab, "width");
    s->N = N, s->D = D;
    s->x = draw_normal(lab, 0, N * D, 1);
    for (uint64_t i = 0; i < 3; i++)
        s->w[i] = draw_normal(lab, 1 + i, D * D, 1 / sqrt((double)D));
    s->learned = draw_normal(lab, 4, N * D, 0.5);
    s->relative = draw_normal(lab, 5, 2 * MAX_DISTANCE + 1, 1);
    s->shaw = draw_normal(lab, 6, (2 * MAX_DISTANCE + 1) * D, 0.5);
    s->sinusoids = attn_lab_take(lab, N * D, sizeof *s->sinusoids);
    return !lab->status &&
           attn_lab_ok(lab, attn_sinusoidal(s->sinusoids, NULL, N, D, ATTN_ENCODING_INTERLEAVED,
                                            lab->hooks->control, lab->err));
}

/* Computes y = x W^T for x, y [N, D] and W [D, D]. */
static void project(double *y, const double *x, const double *w, size_t N, size_t D) {
    for (size_t i = 0; i < N; i++)
        for (size_t o = 0; o < D; o++) {
            double sum = 0;
            for (size_t k = 0; k < D; k++)
                sum += x[i * D + k] * w[o * D + k];
            y[i * D + o] = sum;
        }
}

static attn_position position_of(const setup *s, form f) {
    const size_t reach = 2 * MAX_DISTANCE + 1;
    switch (f) {
    case RELATIVE:
        return (attn_position){
            .kind = ATTN_POSITION_RELATIVE,
            .table = attn_tensor_dense(s->relative, ATTN_F64, 2, (size_t[]){1, reach})};
    case SHAW:
        return (attn_position){
            .kind = ATTN_POSITION_SHAW,
            .key_table = attn_tensor_dense(s->shaw, ATTN_F64, 2, (size_t[]){reach, s->D})};
    case ALIBI:
        return (attn_position){.kind = ATTN_POSITION_ALIBI};
    case ROTARY:
        return (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_INTERLEAVED};
    default:
        return (attn_position){.kind = ATTN_POSITION_NONE};
    }
}

/* Runs self-attention over the words in the order `at`: word at[i] is at place i. The scores are
 * those that enter softmax, so the score of a masked cell is -infinity. */
static bool run_attention(attn_lab *lab, const setup *s, form f, const size_t *at, view *out) {
    const size_t N = s->N, D = s->D, dims[2] = {N, D};
    const double *added = f == SINUSOIDAL ? s->sinusoids : f == LEARNED ? s->learned : NULL;
    double *x = attn_arena_zeroed(lab->scratch, 4 * N * D, sizeof *x);
    attn_inputs in = attn_attention_defaults();
    attn_results results;
    if (!x)
        return attn_lab_no_memory(lab) != NULL;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < D; k++)
            x[i * D + k] = s->x[at[i] * D + k] + (added ? added[i * D + k] : 0);
    attn_tensor *const parts[] = {&in.query, &in.key, &in.value};
    for (size_t p = 0; p < 3; p++) {
        double *y = x + (p + 1) * N * D;
        project(y, x, s->w[p], N, D);
        *parts[p] = attn_tensor_dense(y, ATTN_F64, 2, dims);
    }
    in.position = position_of(s, f);
    if (f == CAUSAL)
        in.mask.layers[in.mask.count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "causal"};
    if (!attn_lab_attend(lab, &in, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_SCORES,
                         ATTN_STAGE_BIASED, &results))
        return false;
    *out = (view){results.output.data, results.weights.data, results.scores.data};
    return true;
}

/* Makes a random permutation of 0 … N - 1 by Fisher and Yates. */
static void shuffle(size_t *at, size_t N, uint64_t seed) {
    for (size_t i = 0; i < N; i++)
        at[i] = i;
    for (size_t i = N - 1; i > 0; i--) {
        const size_t j = attn_rng_bits(seed, i) % (i + 1), held = at[i];
        at[i] = at[j], at[j] = held;
    }
}

static size_t place_of(const size_t *at, size_t word) {
    size_t i = 0;
    while (at[i] != word)
        i++;
    return i;
}

/* Computes two relative distances |moved - plain| / |plain|: between the outputs of both passes,
 * word by word, and between the means of the outputs over all places. *each is raised to the first
 * distance, *mean to the second, if they are smaller. */
static void compare_outputs(const setup *s, const view *plain, const view *moved, const size_t *at,
                            double *each, double *mean) {
    double apart = 0, size = 0, mean_apart = 0, mean_size = 0;
    for (size_t k = 0; k < s->D; k++) {
        double sums[2] = {0, 0};
        for (size_t i = 0; i < s->N; i++) {
            const double b = plain->output[at[i] * s->D + k], a = moved->output[i * s->D + k];
            apart += (a - b) * (a - b), size += b * b;
            sums[0] += a, sums[1] += b;
        }
        mean_apart += (sums[0] - sums[1]) * (sums[0] - sums[1]), mean_size += sums[1] * sums[1];
    }
    *each = fmax(*each, sqrt(apart / size));
    *mean = fmax(*mean, sqrt(mean_apart / mean_size));
}

/* Extends `range` by the score of query word 0 on key word 1, unless this cell is masked. */
static void follow_score(const setup *s, const view *v, const size_t *at, double range[2]) {
    const double score = v->scores[place_of(at, 0) * s->N + place_of(at, 1)];
    if (isfinite(score))
        range[0] = fmin(range[0], score), range[1] = fmax(range[1], score);
}

static void try_form(attn_lab *lab, const setup *s, form f, attn_table *table, double *error) {
    const size_t count = attn_lab_size(lab, "num_permutations");
    double each = 0, mean = 0, range[2] = {INFINITY, -INFINITY};
    size_t order[WORDS], at[WORDS];
    for (size_t i = 0; i < s->N; i++)
        order[i] = i;
    for (size_t p = 0; p < count; p++) {
        view plain, moved;
        attn_lab_scratch(lab);
        shuffle(at, s->N, attn_rng_bits(attn_rng_bits(attn_lab_seed(lab), 7), p));
        if (!attn_lab_done(lab, (double)p / (double)count) ||
            !run_attention(lab, s, f, order, &plain) || !run_attention(lab, s, f, at, &moved))
            return;
        compare_outputs(s, &plain, &moved, at, &each, &mean);
        follow_score(s, &plain, order, range);
        follow_score(s, &moved, at, range);
    }
    *error = each;
    attn_lab_row(table, forms[f], each, mean, range[1] - range[0],
                 each < 1e-9 ? "permutation-equivariant" : "aware of order");
}

/* Draws the weights of the words in plain order and in reverse order. The rows and columns of the
 * reversed words' weights are put back in plain order. */
static void draw_pair(attn_lab *lab, const setup *s, form f, attn_picture *p, size_t panel,
                      const char *const titles[2]) {
    float cells[WORDS * WORDS];
    size_t at[WORDS];
    for (size_t moved = 0; moved < 2; moved++) {
        view v;
        for (size_t i = 0; i < s->N; i++)
            at[i] = moved ? s->N - 1 - i : i;
        attn_lab_scratch(lab);
        if (lab->status || !run_attention(lab, s, f, at, &v))
            return;
        for (size_t i = 0; i < s->N; i++)
            for (size_t j = 0; j < s->N; j++)
                cells[at[i] * s->N + at[j]] = (float)v.weights[i * s->N + j];
        attn_lab_heatmap(lab, p, panel + moved, titles[moved], cells, s->N);
    }
}

static void draw_weights(attn_lab *lab, const setup *s) {
    static const char *const words[WORDS] = {"the", "cat", "sat",  "on",  "a",   "mat",
                                             "and", "saw", "many", "red", "old", "doors"};
    static const char *const titles[2][2] = {
        {"no positions, in order", "no positions, read backwards"},
        {"sinusoidal, in order", "sinusoidal, read backwards"}};
    attn_picture *p = attn_lab_heatmaps(
        lab, "weights", "Weights of the same words in order and backwards, put back in order", 4,
        s->N, s->N);
    if (!p)
        return;
    p->options.columns = 2, p->options.vmax = (double)NAN;
    attn_lab_labels(lab, p, words, words);
    draw_pair(lab, s, NONE, p, 0, titles[0]);
    draw_pair(lab, s, SINUSOIDAL, p, 2, titles[1]);
}

static void run(attn_lab *lab) {
    setup s;
    double error[FORMS] = {0};
    attn_table *table = ATTN_LAB_TABLE(
        lab, "Self-attention of the same words in other orders: largest differences, relative",
        columns, FORMS);
    if (!open_setup(lab, &s))
        return;
    for (form f = NONE; f < FORMS; f++) {
        attn_lab_part(lab, (double)f / FORMS, (double)(f + 1) / FORMS, "positions: %s", forms[f]);
        try_form(lab, &s, f, table, &error[f]);
    }
    draw_weights(lab, &s);
    attn_lab_close(
        lab,
        "Without positions f(Px) is P f(x) up to rounding (%.1e): self-attention is "
        "permutation-equivariant, and what is summed over its places invariant. With sinusoidal "
        "positions the outputs differ by %.0f %%, with a relative bias by %.0f %%, with a causal "
        "mask alone by %.0f %%.",
        error[NONE], 100 * error[SINUSOIDAL], 100 * error[RELATIVE], 100 * error[CAUSAL]);
}

const attn_experiment_row attn_experiment_permutation = {
    .about = {"permutation", "Permutation equivariance",
              "Without positions self-attention gives the same words in another order the same "
              "outputs in that order. Positions end this, except that a bias by distance alone "
              "(ALiBi) gives a reversed sentence the reversed outputs.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .rules = rules,
};
