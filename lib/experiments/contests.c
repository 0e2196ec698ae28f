/* Experiments that train models with different attention alike and compare their results: copying
 * sequences, and translation with each kind of score. */
#include "experiments/lesson.h"

/* ---- copying sequences of symbols, with and without attention ---- */
static const attn_setting copy_settings[] = {
    ATTN_LESSON_SETTINGS(48, 3000, 10000, 0.004, 10000, 30, 60),
    {"num_symbols", 20, 50, 2, 1000, true, "different symbols"},
};

static const attn_variant copiers[] = {{"multi-head, 4 heads", ATTN_MODEL_MULTIHEAD, 4},
                                       {"dot product", ATTN_MODEL_DOT, 1},
                                       {"none: one fixed vector", ATTN_MODEL_NONE, 1}};
enum { COPIERS = sizeof copiers / sizeof *copiers };

static const attn_contest copying = {
    .task = ATTN_COPY,
    .variants = copiers,
    .count = COPIERS,
    .title = "Held-out sequences, copied greedily",
    .shown = {"parameters", "right", "exact", "bleu", "alignment_error", "seconds", "speed"},
    .learning = "Learning to copy",
    .right = "validation symbols predicted right, %",
    .looking = "Where the decoder looks while it copies",
    .words = 10,
};

static void run_copying(attn_lab *lab) {
    attn_result found[COPIERS] = {{0}};
    attn_lesson_contest(lab, &copying, found);
    attn_lab_close(
        lab,
        "Of held-out sequences of %zu to %zu symbols %.1f %% are copied without a fault with "
        "multi-head attention, %.1f %% with a dot product, %.1f %% through one fixed vector: with "
        "attention a decoder looks up the next symbol on the diagonal, without it all of them must "
        "be remembered.",
        attn_lab_size(lab, "shortest"), attn_lab_size(lab, "longest"), found[0].exact,
        found[1].exact, found[2].exact);
}

const attn_experiment_row attn_experiment_copy = {
    .about = {"copy", "Copying sequences",
              "A decoder with attention learns to copy sequences by looking along a diagonal; one "
              "that gets a fixed vector has to remember them.",
              copy_settings, sizeof copy_settings / sizeof *copy_settings, false},
    .run = run_copying,
    .bytes = attn_lesson_bytes,
    .rules = attn_lesson_rules,
};

/* ---- translation with dot-product, additive and multiplicative attention ---- */
static const attn_setting score_settings[] = {
    ATTN_LESSON_SETTINGS(64, 1500, 8000, 0.004, 10000, 12, 20),
};

static const attn_variant score_kinds[] = {{"dot (Luong)", ATTN_MODEL_DOT, 1},
                                           {"additive (Bahdanau)", ATTN_MODEL_ADDITIVE, 1},
                                           {"general (Luong)", ATTN_MODEL_GENERAL, 1},
                                           {"concat (Luong)", ATTN_MODEL_CONCAT, 1},
                                           {"multi-head, 4 heads", ATTN_MODEL_MULTIHEAD, 4}};
enum { SCORE_KINDS = sizeof score_kinds / sizeof *score_kinds };

static const attn_contest translating = {
    .task = ATTN_EN_FR,
    .variants = score_kinds,
    .count = SCORE_KINDS,
    .title = "Held-out sentences, translated greedily",
    .shown = {"cross_parameters", "loss", "bleu", "exact", "alignment_error", "seconds", "speed"},
    .learning = "Learning to translate",
    .right = "validation words predicted right, %",
    .looking = "Where the decoder looks",
    .words = 9,
    .gold = true,
};

/* The closing sentence contains no times, so equal settings give equal sentences. */
static void run_translating(attn_lab *lab) {
    attn_result found[SCORE_KINDS] = {{0}};
    size_t best = 0, clear = 0;
    attn_lesson_contest(lab, &translating, found);
    for (size_t k = 1; k < SCORE_KINDS; k++) {
        best = found[k].bleu > found[best].bleu ? k : best;
        clear = found[k].alignment_error < found[clear].alignment_error ? k : clear;
    }
    attn_lab_close(
        lab,
        "After %zu steps the best BLEU on held-out sentences is %.1f (%s; dot %.1f, additive %.1f, "
        "general %.1f), the smallest alignment error %.1f %% (%s). What each costs in training "
        "stands in the table.",
        attn_lab_size(lab, "num_steps"), found[best].bleu, score_kinds[best].name, found[0].bleu,
        found[1].bleu, found[2].bleu, found[clear].alignment_error, score_kinds[clear].name);
}

const attn_experiment_row attn_experiment_attentions = {
    .about = {"attentions", "Dot, additive and multiplicative attention",
              "The same translation model with each kind of score: how fast it trains, what BLEU "
              "it reaches, how well its weights fit the gold alignments.",
              score_settings, sizeof score_settings / sizeof *score_settings, false},
    .run = run_translating,
    .bytes = attn_lesson_bytes,
    .rules = attn_lesson_rules,
};
