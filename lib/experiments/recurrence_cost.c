/* Experiment: an LSTM against self-attention. The experiment compares path length, operations,
 * time, and how much of a gradient at the last place of a sequence arrives at its first place. */
#include <math.h>

#include "attn/rng.h"
#include "experiments/lab.h"
#include "layers/layers.h"

enum {
    LENGTHS = 16, /* largest number of sequence lengths */
    RUNS = 3,     /* runs of each measurement of time; the fastest run counts */
};

static const attn_setting settings[] = {
    {"width", 256, 512, 8, 2048, true, "width d of both layers"},
    {"shortest", 8, 8, 2, 65536, true, "sequence length n; it doubles"},
    {"longest", 2048, 8192, 2, 65536, true, "longest sequence"},
    {"seed", 1, 1, 0, 9e15, true, "of parameters and inputs"},
};

static const attn_column columns[] = {
    {"n", "", 0, false},
    {"LSTM path", "steps", 0, false},
    {"attention path", "steps", 0, false},
    {"LSTM multiply-adds", "million", 1, false},
    {"attention multiply-adds", "million", 1, false},
    {"LSTM time", "ms", 2, true},
    {"attention time", "ms", 2, true},
    {"LSTM gradient at first", "", 4, false},
    {"attention gradient at first", "", 4, false},
};
static const attn_column quoted_columns[] = {
    {"n", "", 0, false},
    {"d", "", 0, false},
    {"RNN, n d^2", "", 0, false},
    {"attention, n^2 d", "", 0, false},
};

/* Both layers, in one parameter set. */
typedef struct pair {
    attn_parameters *set;
    attn_lstm lstm;
    attn_attend attend;
    size_t D;
} pair;

/* Measurements of a layer at one length. */
typedef struct reading {
    double ms;    /* time of a forward pass in milliseconds */
    double first; /* share_of_first of the gradient */
} reading;

static size_t bytes(const attn_experiment *about, const double *values) {
    const double D = attn_setting_value(about, values, "width");
    const double n = attn_setting_value(about, values, "longest");
    return (size_t)(4 * (16 * D * D + 60 * n * D)) + ((size_t)32 << 20);
}

static const attn_setting_rule rules[] = {{"shortest", ATTN_IS_AT_MOST, "longest", 0}, {0}};

static bool open_pair(attn_lab *lab, pair *p) {
    p->D = attn_lab_size(lab, "width");
    p->set = attn_parameters_new();
    if (!p->set)
        return attn_lab_no_memory(lab) != NULL;
    p->attend = (attn_attend){.width = p->D, .heads = 1};
    attn_lstm_declare(&p->lstm, p->set, "lstm", p->D, p->D, 1, false, 0);
    attn_attend_declare(&p->attend, p->set, "attention");
    if (!attn_lab_ok(lab, attn_parameters_seal(p->set, true, lab->err)))
        return false;
    attn_parameters_init(p->set, attn_lab_seed(lab));
    return true;
}

/* Returns the norm of the first row of dx [n, D] divided by the root mean square of the norms of
 * all n rows. dx is the gradient of the input. */
static double share_of_first(const float *dx, size_t n, size_t D) {
    double first = 0, all = 0;
    for (size_t i = 0; i < n * D; i++) {
        all += (double)dx[i] * dx[i];
        if (i < D)
            first += (double)dx[i] * dx[i];
    }
    return all > 0 ? sqrt(first / (all / (double)n)) : 0;
}

/* Runs a forward pass over x [n, D]. If dx [n, D] is not NULL, runs a backward pass too: dy [n, D]
 * is the gradient of the output, and the gradient of x is added to dx. */
static bool pass_through(attn_lab *lab, const pair *p, bool attention, const float *x, size_t n,
                         float *dx, float *dy) {
    attn_pass pass = {.arena = lab->scratch,
                      .pool = lab->hooks->pool,
                      .control = lab->hooks->control,
                      .training = dx != NULL};
    attn_lstm_saved lstm;
    attn_attend_saved attend;
    float *y = attn_arena_zeroed(lab->scratch, n * p->D, sizeof *y);
    if (!y)
        return attn_lab_no_memory(lab) != NULL;
    if (!attn_lab_ok(lab, attention ? attn_attend_forward(y, x, x, 1, n, n, NULL, false, &p->attend,
                                                          &attend, &pass, lab->err)
                                    : attn_lstm_forward(y, NULL, x, NULL, NULL, NULL, 1, n,
                                                        &p->lstm, &lstm, &pass, lab->err)))
        return false;
    if (!dx)
        return true;
    return attn_lab_ok(
        lab, attention ? attn_attend_backward(dx, dx, dy, &p->attend, &attend, &pass, lab->err)
                       : attn_lstm_backward(dx, NULL, dy, NULL, &p->lstm, &lstm, &pass, lab->err));
}

static void measure_layer(attn_lab *lab, const pair *p, bool attention, const float *x, size_t n,
                          reading *out) {
    out->ms = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        attn_lab_scratch(lab);
        const double began = attn_lab_clock(lab);
        if (!attn_lab_done(lab, 0.5) || !pass_through(lab, p, attention, x, n, NULL, NULL))
            return;
        out->ms = fmin(out->ms, 1e3 * (attn_lab_clock(lab) - began));
    }
    attn_lab_scratch(lab);
    float *dx = attn_arena_zeroed(lab->scratch, n * p->D, sizeof *dx),
          *dy = attn_arena_zeroed(lab->scratch, n * p->D, sizeof *dy);
    if (!dx || !dy) {
        attn_lab_no_memory(lab);
        return;
    }
    attn_rng_fill_normal(dy + (n - 1) * p->D, p->D, attn_rng_bits(attn_lab_seed(lab), 1), 0);
    if (pass_through(lab, p, attention, x, n, dx, dy))
        out->first = share_of_first(dx, n, p->D);
}

/* Return the number of multiply-adds of a layer for n places of width d. An LSTM computes four
 * gates from the input and four from the state. Self-attention computes four projections, then
 * scores and weighted sums. */
static double lstm_operations(double n, double d) {
    return 8 * n * d * d;
}

static double attention_operations(double n, double d) {
    return 4 * n * d * d + 2 * n * n * d;
}

static void add_textbook_counts(attn_lab *lab) {
    attn_table *t =
        ATTN_LAB_TABLE(lab, "As textbooks count, without constant factors", quoted_columns, 2);
    const double d = attn_lab_number(lab, "width"), n = attn_lab_number(lab, "longest");
    attn_lab_row(t, 1000.0, 512.0, 1000.0 * 512 * 512, 1000.0 * 1000 * 512);
    attn_lab_row(t, n, d, n * d * d, n * n * d);
}

static void draw_curves(attn_lab *lab, const double *lengths, reading (*found)[LENGTHS],
                        size_t count) {
    static const char *const names[] = {"LSTM", "self-attention"},
                             *const titles[] = {"Time (measured), log10 of ms",
                                                "Gradient at the first place, log10 (at least -8)"};
    attn_picture *p = attn_lab_curves(lab, "curves", "An LSTM against self-attention, as measured",
                                      "log2 of the length n", NULL, 2, titles, 4);
    double x[LENGTHS], y[LENGTHS];
    if (p)
        p->measured = true;
    for (size_t panel = 0; panel < 2; panel++)
        for (size_t k = 0; k < 2; k++) {
            for (size_t i = 0; i < count; i++) {
                x[i] = log2(lengths[i]);
                y[i] = log10(panel ? fmax(found[k][i].first, 1e-8) : found[k][i].ms);
            }
            attn_lab_curve(lab, p, panel, names[k], x, y, count);
        }
}

static void close_up(attn_lab *lab, double n, double d, double lstm, double attention) {
    const char *left = lstm > 0 ? attn_lab_say(lab, "only %.1e", lstm) : "nothing";
    attn_lab_close(
        lab,
        "Over %.0f places a signal takes %.0f steps through the LSTM and one through attention. Of "
        "the gradient at the last place, beside a mean place's share, %s arrives at the first "
        "through an LSTM with its initial values, %.2f through attention. Attention needs fewer "
        "multiply-adds up to n = 2 d = %.0f, and %.1f times the LSTM's at n = %.0f.",
        n, n - 1, left, attention, 2 * d, attention_operations(n, d) / lstm_operations(n, d), n);
}

static void measure_lengths(attn_lab *lab, const pair *p) {
    const size_t longest = attn_lab_size(lab, "longest");
    reading found[2][LENGTHS] = {0};
    double lengths[LENGTHS];
    size_t count = 0;
    attn_table *t = ATTN_LAB_TABLE(lab, "One layer of each, one sequence", columns, LENGTHS);
    const float *x = attn_lab_normal(lab, 0, longest * p->D);
    for (size_t n = attn_lab_size(lab, "shortest"); n <= longest && count < LENGTHS; n *= 2) {
        /* A length takes about twice as long as the length before, so about as long as all shorter
         * lengths together. So it gets the second half of the progress up to its end. */
        attn_lab_part(lab, (double)n / (double)longest / 2, (double)n / (double)longest,
                      "%zu places", n);
        for (size_t k = 0; k < 2 && !lab->status; k++)
            measure_layer(lab, p, k, x, n, &found[k][count]);
        const double N = (double)n, D = (double)p->D;
        attn_lab_row(t, N, N - 1, 1.0, lstm_operations(N, D) / 1e6,
                     attention_operations(N, D) / 1e6, found[0][count].ms, found[1][count].ms,
                     found[0][count].first, found[1][count].first);
        lengths[count++] = N;
    }
    if (lab->status)
        return;
    add_textbook_counts(lab);
    draw_curves(lab, lengths, found, count);
    close_up(lab, lengths[count - 1], (double)p->D, found[0][count - 1].first,
             found[1][count - 1].first);
}

static void run(attn_lab *lab) {
    pair p = {0};
    if (open_pair(lab, &p))
        measure_lengths(lab, &p);
    attn_parameters_free(p.set);
}

const attn_experiment_row attn_experiment_cost = {
    .about = {"cost", "An LSTM against self-attention",
              "Path length, operations and measured time of one layer of each by sequence length, "
              "and how much of the gradient reaches the first place.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .rules = rules,
};
