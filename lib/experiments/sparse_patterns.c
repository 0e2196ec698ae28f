/* Experiment: full against local and sparse attention. The experiment measures memory and time of
 * the operation, and the quality of translation models whose decoder sees only some source
 * words. */
#include <math.h>

#include "attn/attention.h"
#include "experiments/lesson.h"

static const attn_setting settings[] = {
    ATTN_LESSON_SETTINGS(64, 1500, 8000, 0.004, 10000, 20, 40),
    {"tokens", 4096, 16384, 64, 65536, true, "longest sequence of the operation alone"},
    {"radius", 4, 4, 1, 64, true, "of the local model, in words on either side"},
};

enum {
    HEADS = 4,
    HEAD_WIDTH = 64,
    RUNS = 3, /* runs of each measurement of time; the fastest run counts */
    PATTERNS = 5,
    VARIANTS = 3,
};

static const attn_column cost_columns[] = {
    {"tokens", "", 0, false},
    {"pattern", "", -1, false},
    {"kept", "%", 2, false},
    {"weights, full", "MiB", 1, false},
    {"weights, kept", "MiB", 2, false},
    {"pass without weights", "MiB", 2, false},
    {"time", "ms", 2, true},
    {"beside full", "x", 2, true},
};

static const struct {
    const char *name;
    attn_pattern pattern;
} patterns[PATTERNS] = {
    {"full", {.kind = ATTN_PATTERN_LOCAL}},
    {"local, 64 on either side", {.kind = ATTN_PATTERN_LOCAL, .radius = 64}},
    {"strided, every 64th and 16 near", {.kind = ATTN_PATTERN_STRIDED, .stride = 64, .local = 16}},
    {"blocks of 128", {.kind = ATTN_PATTERN_BLOCK, .size = 128}},
    {"global, 16 keys and 64 near", {.kind = ATTN_PATTERN_GLOBAL, .num_keys = 16, .local = 64}},
};

static const attn_variant variants[VARIANTS] = {{"full", ATTN_MODEL_MULTIHEAD, 0},
                                                {"local", ATTN_MODEL_LOCAL, 0},
                                                {"strided", ATTN_MODEL_STRIDED, 0}};

/* Inputs of the operation, HEADS x tokens x HEAD_WIDTH floats each, and the time of full attention
 * at the current length. */
typedef struct operation {
    float *query, *key, *value;
    double full_ms;
} operation;

static size_t bytes(const attn_experiment *about, const double *values) {
    const double n = attn_setting_value(about, values, "tokens");
    return attn_lesson_bytes(about, values) + (size_t)(4 * 12 * n * HEADS * HEAD_WIDTH) +
           ((size_t)32 << 20);
}

static attn_inputs inputs_of(const operation *op, size_t n, size_t pattern) {
    const size_t dims[] = {HEADS, n, HEAD_WIDTH}, four[] = {1, dims[0], dims[1], dims[2]};
    attn_inputs in = attn_attention_defaults();
    in.query = attn_tensor_dense(op->query, ATTN_F32, 4, four);
    in.key = attn_tensor_dense(op->key, ATTN_F32, 4, four);
    in.value = attn_tensor_dense(op->value, ATTN_F32, 4, four);
    if (pattern)
        in.mask.layers[in.mask.count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_PATTERN, .where = "pattern", .pattern = patterns[pattern].pattern};
    return in;
}

/* Measures one operation. *ms is the time of the fastest run, *kept the share (0 … 1) of visible
 * cells, *megabytes the memory of a run in MiB. Returns false if the lab has failed. */
static bool measure_operation(attn_lab *lab, const attn_inputs *in, double *ms, double *kept,
                              double *megabytes) {
    attn_attention *run;
    attn_results results;
    attn_cost cost;
    *ms = INFINITY;
    for (int r = 0; r < RUNS; r++) {
        attn_lab_scratch(lab);
        const double began = attn_lab_clock(lab);
        if (!attn_lab_done(lab, 0.5) ||
            !(run = attn_lab_attend(lab, in, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, &results)))
            return false;
        *ms = fmin(*ms, 1e3 * (attn_lab_clock(lab) - began));
    }
    const attn_attention_dims *d = attn_attention_dims_of(run);
    uint64_t visible = 0;
    if (!attn_lab_ok(lab, attn_mask_visible(attn_attention_mask(run), lab->hooks->control, &visible,
                                            lab->err)))
        return false;
    *kept = (double)visible / ((double)d->Hq * (double)d->L * (double)d->S);
    if (!attn_lab_ok(lab, attn_attention_cost(d, ATTN_WANT_OUTPUT,
                                              attn_pool_slots(lab->hooks->pool), &cost, lab->err)))
        return false;
    *megabytes = (double)(cost.work_bytes + cost.result_bytes) / (1 << 20);
    return true;
}

/* Measures all patterns at two lengths: a quarter of the setting "tokens", and the whole
 * setting. */
static void measure_costs(attn_lab *lab) {
    const size_t most = attn_lab_size(lab, "tokens"), all = most * HEADS * HEAD_WIDTH;
    const size_t lengths[2] = {most / 4 > 0 ? most / 4 : most, most};
    attn_table *t = ATTN_LAB_TABLE(lab, "The operation: 4 heads of width 64, one sequence",
                                   cost_columns, 2 * PATTERNS);
    operation op = {attn_lab_normal(lab, 0, all), attn_lab_normal(lab, 1, all),
                    attn_lab_normal(lab, 2, all), 0};
    for (size_t i = 0; i < 2; i++)
        for (size_t p = 0; p < PATTERNS && !lab->status; p++) {
            const double n = (double)lengths[i], weights = 4 * HEADS * n * n / (1 << 20);
            const attn_inputs in = inputs_of(&op, lengths[i], p);
            double ms, kept, megabytes;
            if (!measure_operation(lab, &in, &ms, &kept, &megabytes))
                return;
            op.full_ms = p ? op.full_ms : ms;
            attn_lab_row(t, n, patterns[p].name, 100 * kept, weights, weights * kept, megabytes, ms,
                         op.full_ms / ms);
        }
}

/* ---- quality ---- */
/* Tells whether the cross-attention of a model lets target word i see source word j. */
static bool is_visible(const attn_model_config *config, size_t i, size_t j) {
    const size_t far = i > j ? i - j : j - i;
    return config->attention == ATTN_MODEL_MULTIHEAD || far <= config->radius ||
           (config->attention == ATTN_MODEL_STRIDED && far % config->stride == 0);
}

/* Returns the percentage of the cells of cross-attention that are visible for a pair whose source
 * and target have as many words as the setting "longest". */
static double percent_visible(const attn_lab *lab, const attn_model_config *config) {
    const size_t n = attn_lab_size(lab, "longest");
    double count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            count += is_visible(config, i, j);
    return 100 * count / (double)(n * n);
}

static void hide_unseen(attn_lab *lab, const attn_model_config *config, attn_picture *picture,
                        size_t v, const attn_specimen *example) {
    const size_t T = example->T, S = example->S;
    uint8_t *cells = attn_lab_take(lab, T * S, sizeof *cells);
    for (size_t i = 0; cells && i < T * S; i++)
        cells[i] = is_visible(config, i / S, i % S);
    if (cells)
        attn_lab_hide(lab, picture, v, cells);
}

static void configure(attn_lab *lab, attn_model_config *config) {
    config->radius = config->attention == ATTN_MODEL_STRIDED ? 1 : attn_lab_size(lab, "radius");
}

static bool score(attn_lab *lab, const attn_lesson *lesson, size_t v, const attn_model *model,
                  attn_result *out, void *ctx) {
    const size_t shortest = attn_lab_size(lab, "shortest"), longest = attn_lab_size(lab, "longest"),
                 half = (shortest + longest) / 2, middle = half > 6 || half == longest ? half : 6;
    attn_model_scores below, above;
    (void)v, (void)ctx;
    if (!attn_lesson_score(lab, lesson, model, shortest, middle, &below) ||
        !attn_lesson_score(lab, lesson, model, middle, longest, &above))
        return false;
    out->keys_seen = percent_visible(lab, attn_model_configuration(model));
    out->short_bleu = attn_bleu_score(&below.bleu, false);
    out->long_bleu = attn_bleu_score(&above.bleu, false);
    out->alignment_error = 100 * attn_lesson_alignment(&above);
    return true;
}

static const attn_contest contest = {
    .task = ATTN_EN_FR,
    .variants = variants,
    .count = VARIANTS,
    .title = "Translation with fewer keys, held-out sentences",
    .shown = {"keys_seen", "loss", "short_bleu", "long_bleu", "alignment_error", "speed"},
    .learning = "Learning to translate with fewer keys",
    .right = "validation words predicted right, %",
    .looking = "Where the decoder looks",
    .words = 12,
    .gold = true,
    .from = 0.1,
    .configure = configure,
    .score = score,
    .look = hide_unseen,
};

static void run(attn_lab *lab) {
    attn_result found[VARIANTS] = {{0}};
    attn_lab_part(lab, 0, 0.1, "the operation over %zu tokens", attn_lab_size(lab, "tokens"));
    measure_costs(lab);
    attn_lesson_contest(lab, &contest, found);
    if (lab->status)
        return;
    const attn_entry *local = lab->out->tables[0].entries + 8 * (PATTERNS + 1);
    attn_lab_close(
        lab,
        "Over %.0f tokens a window of 64 on either side keeps %.1f %% of the keys: %.1f instead of "
        "%.0f MiB of weights. A translation model that sees %zu words on either side reaches BLEU "
        "%.1f on short and %.1f on long sentences, strided %.1f and %.1f, full attention %.1f and "
        "%.1f.",
        local[0].number, local[2].number, local[4].number, local[3].number,
        attn_lab_size(lab, "radius"), found[1].short_bleu, found[1].long_bleu, found[2].short_bleu,
        found[2].long_bleu, found[0].short_bleu, found[0].long_bleu);
}

const attn_experiment_row attn_experiment_sparse = {
    .about = {"sparse", "Full, local and sparse attention",
              "Memory and time of the operation when most keys are hidden, and what a translation "
              "model loses that sees some keys only.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .rules = attn_lesson_rules,
};
