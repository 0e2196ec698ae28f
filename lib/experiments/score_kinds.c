/* Experiment: kinds of scores. It trains translation models with dot-product, additive and
 * multiplicative attention. */
#include <math.h>

#include "experiments/lesson.h"

static const attn_setting settings[] = {
    ATTN_LESSON_SETTINGS(64, 1500, 8000, 0.004, 10000, 12, 20),
};

static const attn_column columns[] = {
    {"attention", "", -1, false},
    {"its parameters", "", 0, false},
    {"validation loss", "nats", 3, false},
    {"BLEU", "", 2, false},
    {"exact", "%", 1, false},
    {"alignment error", "%", 1, false},
    {"training", "s", 1, true},
    {"speed", "words/s", 0, true},
};

static const attn_variant kinds[] = {{"dot (Luong)", ATTN_MODEL_DOT, 1},
                                     {"additive (Bahdanau)", ATTN_MODEL_ADDITIVE, 1},
                                     {"general (Luong)", ATTN_MODEL_GENERAL, 1},
                                     {"concat (Luong)", ATTN_MODEL_CONCAT, 1},
                                     {"multi-head, 4 heads", ATTN_MODEL_MULTIHEAD, 4}};
enum { KINDS = sizeof kinds / sizeof *kinds, WORDS = 1200 }; /* WORDS: bound of the vocabularies */

/* The table of a run, and the results that the closing sentence names. */
typedef struct result {
    attn_table *table;
    double bleu[KINDS], error[KINDS];
} result;

static size_t bytes(const attn_experiment *about, const double *values) {
    return attn_lesson_bytes(about, values, WORDS);
}

static bool score(attn_lab *lab, const attn_lesson *lesson, size_t k, const attn_pupil *pupil,
                  void *ctx) {
    result *r = ctx;
    attn_model_scores scores;
    if (!attn_lesson_score(lab, lesson, pupil->model, 0, 0, &scores))
        return false;
    r->bleu[k] = attn_bleu_score(&scores.bleu, false);
    r->error[k] = 100 * attn_lesson_alignment(&scores);
    attn_lab_row(
        r->table, kinds[k].name,
        (double)attn_parameters_count(attn_model_parameters(pupil->model), "cross_attention"),
        pupil->loss, r->bleu[k], 100 * (double)scores.bleu.exact / (double)scores.bleu.sentences,
        r->error[k], pupil->seconds, pupil->words_per_second);
    return true;
}

/* Writes the closing sentence. It contains no times, so equal settings give equal sentences. */
static void close_up(attn_lab *lab, const result *r) {
    size_t best = 0, clear = 0;
    for (size_t k = 1; k < KINDS; k++) {
        best = r->bleu[k] > r->bleu[best] ? k : best;
        clear = r->error[k] < r->error[clear] ? k : clear;
    }
    lab->out->closing = attn_lab_say(
        lab,
        "After %zu steps the best BLEU on held-out sentences is %.1f (%s; dot %.1f, additive %.1f, "
        "general %.1f), the smallest alignment error %.1f %% (%s). What each costs in training "
        "stands in the table.",
        attn_lab_size(lab, "num_steps"), r->bleu[best], kinds[best].name, r->bleu[0], r->bleu[1],
        r->bleu[2], r->error[clear], kinds[clear].name);
}

static void run(attn_lab *lab) {
    result r = {.table =
                    ATTN_LAB_TABLE(lab, "Held-out sentences, translated greedily", columns, KINDS)};
    attn_lab_part(lab, 0, 0, "a corpus of %zu sentence pairs", attn_lab_size(lab, "num_pairs"));
    attn_lesson_contest(lab, &(attn_contest){
                                 .task = ATTN_EN_FR,
                                 .variants = kinds,
                                 .count = KINDS,
                                 .learning = "Learning to translate",
                                 .right = "validation words predicted right, %",
                                 .looking = "Where the decoder looks",
                                 .words = 9,
                                 .gold = true,
                                 .ctx = &r,
                                 .score = score,
                             });
    close_up(lab, &r);
}

const attn_experiment_row attn_experiment_attentions = {
    .about = {"attentions", "Dot, additive and multiplicative attention",
              "The same translation model with each kind of score: how fast it trains, what BLEU "
              "it reaches, how well its weights fit the gold alignments.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .check = attn_lesson_check,
};
