/* Experiment: copying. It trains models with and without attention to copy sequences of symbols. */
#include <math.h>

#include "experiments/lesson.h"

static const attn_setting settings[] = {
    ATTN_LESSON_SETTINGS(48, 3000, 10000, 0.004, 10000, 30, 60),
    {"num_symbols", 20, 50, 2, 1000, true, "different symbols"},
};

static const attn_column columns[] = {
    {"attention", "", -1, false},     {"parameters", "", 0, false},
    {"right symbols", "%", 1, false}, {"exact sequences", "%", 1, false},
    {"BLEU", "", 1, false},           {"alignment error", "%", 1, false},
    {"training", "s", 1, true},       {"speed", "words/s", 0, true},
};

static const attn_variant variants[] = {{"multi-head, 4 heads", ATTN_MODEL_MULTIHEAD, 4},
                                        {"dot product", ATTN_MODEL_DOT, 1},
                                        {"none: one fixed vector", ATTN_MODEL_NONE, 1}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static size_t bytes(const attn_experiment *about, const double *values) {
    return attn_lesson_bytes(about, values,
                             2 * (size_t)attn_setting_value(about, values, "num_symbols"));
}

/* The table of a run, and the percentages of sequences without a fault. */
typedef struct result {
    attn_table *table;
    double exact[VARIANTS];
} result;

static bool score(attn_lab *lab, const attn_lesson *lesson, size_t v, const attn_pupil *pupil,
                  void *ctx) {
    result *r = ctx;
    attn_model_scores scores;
    if (!attn_lesson_score(lab, lesson, pupil->model, 0, 0, &scores))
        return false;
    r->exact[v] = 100 * (double)scores.bleu.exact / (double)scores.bleu.sentences;
    attn_lab_row(r->table, variants[v].name,
                 (double)attn_parameters_count(attn_model_parameters(pupil->model), ""),
                 pupil->right[pupil->count - 1], r->exact[v], attn_bleu_score(&scores.bleu, false),
                 100 * attn_lesson_alignment(&scores), pupil->seconds, pupil->words_per_second);
    return true;
}

static void run(attn_lab *lab) {
    result r = {.table =
                    ATTN_LAB_TABLE(lab, "Held-out sequences, copied greedily", columns, VARIANTS)};
    attn_lab_part(lab, 0, 0, "sequences of %zu symbols", attn_lab_size(lab, "num_symbols"));
    attn_lesson_contest(lab, &(attn_contest){
                                 .task = ATTN_COPY,
                                 .variants = variants,
                                 .count = VARIANTS,
                                 .learning = "Learning to copy",
                                 .right = "validation symbols predicted right, %",
                                 .looking = "Where the decoder looks while it copies",
                                 .words = 10,
                                 .ctx = &r,
                                 .score = score,
                             });
    lab->out->closing = attn_lab_say(
        lab,
        "Of held-out sequences of %zu to %zu symbols %.1f %% are copied without a fault with "
        "multi-head attention, %.1f %% with a dot product, %.1f %% through one fixed vector: with "
        "attention a decoder looks up the next symbol on the diagonal, without it all of them must "
        "be remembered.",
        attn_lab_size(lab, "shortest"), attn_lab_size(lab, "longest"), r.exact[0], r.exact[1],
        r.exact[2]);
}

const attn_experiment_row attn_experiment_copy = {
    .about = {"copy", "Copying sequences",
              "A decoder with attention learns to copy sequences by looking along a diagonal; one "
              "that gets a fixed vector has to remember them.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .check = attn_lesson_check,
};
