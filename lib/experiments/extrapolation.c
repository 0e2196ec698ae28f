/* Experiment: positions on longer sequences. For each kind of positions a small causal model, a
 * decoder alone, learns to predict at each place of a sequence the symbol some places before. It is
 * then tested on sequences up to 16 times as long as in training. Only attention connects places,
 * so the success depends on the positions alone. ("Positions" are encodings, "places" are
 * indices.) */
#include <math.h>
#include <string.h>

#include "attn/forms.h"
#include "attn/rng.h"
#include "experiments/lab.h"
#include "layers/layers.h"
#include "train/training.h"

enum {
    TIMES = 5,   /* tested lengths: 1, 2, 4, 8 and 16 times that of training */
    BATCHES = 8, /* batches of each test */
    HEADS = 16,  /* largest number of heads */
    LAYERS = 2,
    FIRST = 3, /* id of the first symbol; 0, 1 and 2 are the ids of padding, begin and end */
};

static const attn_setting settings[] = {
    {"trained", 24, 32, 8, 512, true, "longest sequence in training"},
    {"back", 3, 3, 1, 8, true, "places to look back"},
    {"num_symbols", 12, 12, 2, 1000, true, "different symbols"},
    {"width", 32, 64, 8, 512, true, "width of the decoder; a multiple of 8"},
    {"num_heads", 4, 4, 1, HEADS, true, "divide the width"},
    {"reach", 16, 16, 1, 512, true, "largest distance of the relative tables"},
    {"num_steps", 800, 4000, 1, 1e6, true, "batches that each learns from"},
    {"rate", 0.002, 0.002, 1e-6, 1, false, "learning rate"},
    {"batch_tokens", 1024, 2048, 64, 65536, true, "symbols of a batch"},
    {"seed", 1, 1, 0, 9e15, true, "of parameters and sequences"},
};

static const attn_column columns[] = {
    {"positions", "", -1, false},        {"parameters", "", 0, false},
    {"training loss", "nats", 4, false}, {"as trained", "% right", 1, false},
    {"2 times", "% right", 1, false},    {"4 times", "% right", 1, false},
    {"8 times", "% right", 1, false},    {"16 times", "% right", 1, false},
};

static const struct {
    const char *name;
    attn_model_positions positions;
} kinds[] = {{"none (causal mask alone)", ATTN_MODEL_NO_POSITIONS},
             {"sinusoidal", ATTN_MODEL_SINUSOIDAL},
             {"learned", ATTN_MODEL_LEARNED},
             {"relative bias", ATTN_MODEL_RELATIVE},
             {"Shaw", ATTN_MODEL_SHAW},
             {"ALiBi", ATTN_MODEL_ALIBI}};
enum { NONE, SINUSOIDAL, LEARNED, RELATIVE, SHAW, ALIBI, KINDS };

/* Percentages of right answers at the trained length and at 8 times that length. */
typedef struct score {
    double trained, far;
} score;

/* A model that gives fewer right answers than this percentage at the trained length has not learnt
 * the task. */
#define LEARNT 90.0

static size_t bytes(const attn_experiment *about, const double *values) {
    const double D = attn_setting_value(about, values, "width");
    const double V = attn_setting_value(about, values, "num_symbols") + FIRST + 1;
    const double longest = 16 * attn_setting_value(about, values, "trained");
    const double tokens = fmax(attn_setting_value(about, values, "batch_tokens"), longest);
    /* Each token has 120 D floats of intermediate results and 4 V floats for its logits. The
     * position tables take 16 longest D floats. A parameter takes 16 bytes: value, gradient and two
     * moments. For each token, each head of a layer has a row of weights and 6 rows of queries,
     * keys, values and their gradients; kernels pad these 6 rows to at least 64 floats. Kernels
     * also pad sequences to 64 places; the shortest sequences in training have trained / 2
     * places. */
    const double heads = attn_setting_value(about, values, "num_heads"),
                 padded = fmax(1, 2 * 64 / attn_setting_value(about, values, "trained"));
    return (size_t)(4 * (tokens * (120 * D + 4 * V) + 16 * longest * D) +
                    4 * LAYERS * tokens * heads * (longest + 6 * 64 * padded) +
                    16 * (30 * D * D + 2 * V * D)) +
           ((size_t)48 << 20);
}

static const attn_setting_rule rules[] = {
    {"width", ATTN_IS_MULTIPLE, NULL, 8}, {"width", ATTN_IS_MULTIPLE, "num_heads", 0}, {0}};

/* Makes a model whose positions are `kind`. NULL: the lab has failed. */
static attn_model *make_model(attn_lab *lab, attn_model_positions kind) {
    attn_model_config c = attn_model_defaults();
    attn_model *model = NULL;
    c.architecture = ATTN_MODEL_DECODER;
    c.positions = kind;
    c.target_vocabulary = attn_lab_size(lab, "num_symbols") + FIRST + 1;
    c.width = attn_lab_size(lab, "width");
    c.num_heads = attn_lab_size(lab, "num_heads");
    c.num_layers = LAYERS;
    c.max_length = 16 * attn_lab_size(lab, "trained");
    c.reach = attn_lab_size(lab, "reach");
    c.norm = ATTN_MODEL_NORM_AFTER;
    c.embedding_scale = 1;
    c.dropout_p = 0;
    attn_lab_ok(lab, attn_model_new(&c, attn_lab_seed(lab), true, &model, lab->err));
    return model;
}

/* Draws sequences of T symbols. The expected symbol at place t is the symbol at place t - back. If
 * t < back, it is the id FIRST + num_symbols, which is no symbol. `stream` and `number` select the
 * random numbers. */
static bool make_batch(attn_lab *lab, uint64_t stream, uint64_t number, size_t T, attn_batch *b) {
    const size_t tokens = attn_lab_size(lab, "batch_tokens"), back = attn_lab_size(lab, "back"),
                 symbols = attn_lab_size(lab, "num_symbols"), B = tokens / T > 0 ? tokens / T : 1;
    const uint64_t seed = attn_rng_bits(attn_rng_bits(attn_lab_seed(lab), stream), number);
    int32_t *ids = attn_arena_zeroed(lab->scratch, B * T, sizeof *ids);
    int32_t *expected = attn_arena_zeroed(lab->scratch, B * T, sizeof *expected);
    if (!ids || !expected)
        return attn_lab_no_memory(lab) != NULL;
    for (size_t i = 0; i < B * T; i++)
        ids[i] = (int32_t)(FIRST + attn_rng_bits(seed, i + 1) % symbols);
    for (size_t i = 0; i < B * T; i++)
        expected[i] = i % T >= back ? ids[i - back] : (int32_t)(FIRST + symbols);
    *b = (attn_batch){.B = B, .T = T, .target = ids, .expected = expected};
    return true;
}

/* Draws the length of a training batch: half the longest length … the longest. */
static size_t draw_length(const attn_lab *lab, uint64_t step) {
    const size_t most = attn_lab_size(lab, "trained"), least = most / 2;
    return least + attn_rng_bits(attn_rng_bits(attn_lab_seed(lab), 1), step) % (most - least + 1);
}

static bool train_model(attn_lab *lab, attn_model *model, float *first, float *second,
                        double *last) {
    const uint64_t steps = attn_lab_size(lab, "num_steps"),
                   warmup = steps / 10 < 100 ? steps / 10 : 100;
    const attn_step_options options = {.seed = 0};
    const attn_adam adam = attn_training_defaults().adam;
    const double rate = attn_lab_number(lab, "rate");
    attn_parameters *set = attn_model_parameters(model);
    const size_t n = attn_parameters_size(set);
    for (uint64_t step = 1; step <= steps; step++) {
        attn_cross_entropy_loss loss;
        attn_batch b;
        attn_lab_scratch(lab);
        attn_parameters_zero_gradients(set);
        if (!attn_lab_done(lab, 0.8 * (double)step / (double)steps) ||
            !make_batch(lab, 2, step, draw_length(lab, step), &b) ||
            !attn_lab_ok(lab, attn_model_step(model, &b, &options, lab->scratch, lab->hooks->pool,
                                              lab->hooks->control, &loss, lab->err)))
            return false;
        attn_clip_gradients(attn_parameters_gradients(set), n, 1);
        attn_adam_step(attn_parameters_values(set), attn_parameters_gradients(set), first, second,
                       n, step, attn_schedule_rate(ATTN_COSINE, rate, step, warmup, steps), &adam);
        *last = step == 1 ? loss.loss : *last + 0.05 * (loss.loss - *last);
    }
    return true;
}

static size_t largest(const float *row, size_t n) {
    size_t best = 0;
    for (size_t v = 1; v < n; v++)
        best = row[v] > row[best] ? v : best;
    return best;
}

/* Tests the model on new sequences of length T. Sets *share to the percentage of right answers. If
 * by_place [T] is not NULL, adds to each of its entries the percentage of right answers at that
 * place. */
static bool test_model(attn_lab *lab, const attn_model *model, size_t T, double *share,
                       double *by_place) {
    const size_t V = attn_model_configuration(model)->target_vocabulary;
    size_t right = 0, all = 0;
    for (uint64_t n = 0; n < BATCHES; n++) {
        attn_model_outputs out;
        attn_batch b;
        attn_lab_scratch(lab);
        if (!attn_lab_done(lab, 0.9) || !make_batch(lab, 3, n, T, &b) ||
            !attn_lab_ok(lab,
                         attn_model_forward(model, &b, &(attn_forward_options){0}, lab->scratch,
                                            lab->hooks->pool, lab->hooks->control, &out, lab->err)))
            return false;
        for (size_t i = 0; i < b.B * T; i++) {
            const bool is_right =
                largest((const float *)out.logits.data + i * V, V) == (size_t)b.expected[i];
            right += is_right, all++;
            if (by_place && is_right)
                by_place[i % T] += 100.0 / (double)(BATCHES * b.B);
        }
    }
    *share = 100 * (double)right / (double)all;
    return true;
}

/* Adds a curve of the right answers by place. Each point is a mean over as many places as an eighth
 * of the trained length. */
static void add_places(attn_lab *lab, attn_picture *p, const char *name, const double *by_place,
                       size_t T) {
    const size_t window = attn_lab_size(lab, "trained") / 8, count = T / window;
    double *x = attn_lab_keep(lab, count, sizeof *x), *y = attn_lab_keep(lab, count, sizeof *y);
    for (size_t i = 0; i < count && !lab->status; i++) {
        x[i] = (double)(i * window) + (double)window / 2;
        for (size_t k = 0; k < window; k++)
            y[i] += by_place[i * window + k] / (double)window;
    }
    attn_lab_curve(lab, p, 0, name, x, y, count);
}

static void try_positions(attn_lab *lab, size_t kind, attn_table *table, attn_picture *by_length,
                          attn_picture *by_place, score *found) {
    const size_t trained = attn_lab_size(lab, "trained");
    double loss = 0, x[TIMES] = {0}, y[TIMES] = {0},
           *places = attn_lab_take(lab, 4 * trained, sizeof *places);
    attn_model *model = lab->status ? NULL : make_model(lab, kinds[kind].positions);
    if (model) {
        attn_parameters *set = attn_model_parameters(model);
        const size_t n = attn_parameters_size(set);
        float *first = attn_lab_take(lab, n, sizeof *first),
              *second = attn_lab_take(lab, n, sizeof *second);
        bool ok = !lab->status && train_model(lab, model, first, second, &loss);
        for (size_t i = 0; ok && i < TIMES; i++) {
            x[i] = (double)i;
            ok = test_model(lab, model, trained << i, &y[i], i == 2 ? places : NULL);
        }
        if (ok)
            attn_lab_row(table, kinds[kind].name, (double)attn_parameters_count(set, ""), loss,
                         y[0], y[1], y[2], y[3], y[4]);
    }
    attn_model_free(model);
    attn_lab_curve(lab, by_length, 0, kinds[kind].name, x, y, TIMES);
    if (!lab->status)
        add_places(lab, by_place, kinds[kind].name, places, 4 * trained);
    if (!lab->status)
        *found = (score){y[0], y[3]};
}

/* Returns how many percent of its right answers a model keeps at 8 times the trained length. */
static double percent_kept(const score *s) {
    return s->trained > 0 ? 100 * s->far / s->trained : 0;
}

/* Explains why ALiBi has not learnt the task. Returns "" if it has learnt the task. In a long
 * sequence whose scores consist of the penalty alone, a head of slope m gives the place d places
 * back the weight (1 - exp(-m)) exp(-m d). */
static const char *explain_alibi(attn_lab *lab, const score *alibi, const score *none) {
    const size_t heads = attn_lab_size(lab, "num_heads");
    const double back = attn_lab_number(lab, "back");
    double slopes[HEADS], there = 0, own = 0;
    if (alibi->trained >= LEARNT)
        return "";
    attn_alibi_slopes(heads, slopes);
    for (size_t h = 0; h < heads; h++) {
        const double first = 1 - exp(-slopes[h]), weight = first * exp(-slopes[h] * back);
        if (weight > there)
            there = weight, own = first;
    }
    return attn_lab_say(
        lab,
        " ALiBi does not learn the task: its penalty only grows with the distance, so that it "
        "prefers every nearer place to the place %.0f back, and random symbols do not show where "
        "that is. By the penalty alone it gets at most %.1f %% of a head's weight, and the own "
        "place %.1f %%. At the trained length %.1f %% are right (without positions %.1f %%), but 8 "
        "times that length keeps %.0f %% of them (without positions %.0f %%).",
        back, 100 * there, 100 * own, alibi->trained, none->trained, percent_kept(alibi),
        percent_kept(none));
}

static void run(attn_lab *lab) {
    const size_t trained = attn_lab_size(lab, "trained");
    score found[KINDS] = {{0, 0}};
    attn_table *table = ATTN_LAB_TABLE(
        lab, attn_lab_say(lab, "Right answers by length; trained on up to %zu places", trained),
        columns, KINDS);
    attn_picture *by_length = attn_lab_curves(
        lab, "curves", attn_lab_say(lab, "Longer sequences than trained (%zu places)", trained),
        "log2 of the length, beside the trained one", "right answers, %", 1, NULL, KINDS);
    attn_picture *by_place = attn_lab_curves(
        lab, "places", attn_lab_say(lab, "By place, in sequences 4 times as long as trained"),
        "place", "right answers, %", 1, NULL, KINDS);
    for (size_t p = 0; p < KINDS && !lab->status; p++) {
        attn_lab_part(lab, (double)p / KINDS, (double)(p + 1) / KINDS, "positions: %s",
                      kinds[p].name);
        try_positions(lab, p, table, by_length, by_place, &found[p]);
    }
    size_t best = 0;
    for (size_t p = 1; p < KINDS; p++)
        best = found[p].far > found[best].far ? p : best;
    attn_lab_close(
        lab,
        "Sequences 8 times as long as in training are answered rightly at %.1f %% of the places "
        "with sinusoidal positions, %.1f %% with learned ones, %.1f %% with a relative bias, "
        "%.1f %% with Shaw's, %.1f %% with ALiBi, %.1f %% with none; by guessing at %.1f %%. What "
        "carries farthest here: %s.%s",
        found[SINUSOIDAL].far, found[LEARNED].far, found[RELATIVE].far, found[SHAW].far,
        found[ALIBI].far, found[NONE].far, 100 / attn_lab_number(lab, "num_symbols"),
        kinds[best].name, lab->status ? "" : explain_alibi(lab, &found[ALIBI], &found[NONE]));
}

const attn_experiment_row attn_experiment_extrapolation = {
    .about = {"extrapolation", "Positions on longer sequences than trained",
              "A decoder that learnt to look a few places back meets sequences up to 16 times as "
              "long: sinusoidal, learned, relative, Shaw's and ALiBi's positions.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .rules = rules,
};
