/* Experiments that train models with different attention alike and compare their results: copying
 * sequences, and translation with each kind of score. */
#include "experiments/lesson.h"

/* ---- copying sequences of symbols, with and without attention ---- */
static const attn_setting copy_settings[] = {
    ATTN_LESSON_SETTINGS(48, 3000, 10000, 0.004, 10000, 30, 60),
    {"num_symbols", 20, 50, 2, 1000, true, "different symbols"},
};

static const attn_column copy_columns[] = {
    {"attention", "", -1, false},     {"parameters", "", 0, false},
    {"right symbols", "%", 1, false}, {"exact sequences", "%", 1, false},
    {"BLEU", "", 1, false},           {"alignment error", "%", 1, false},
    {"training", "s", 1, true},       {"speed", "words/s", 0, true},
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
    ATTN_CONTEST_COLUMNS_OF(copy_columns),
    .shown = {ATTN_RESULT_PARAMETERS, ATTN_RESULT_RIGHT, ATTN_RESULT_EXACT, ATTN_RESULT_BLEU,
              ATTN_RESULT_ALIGNMENT_ERROR, ATTN_RESULT_SECONDS, ATTN_RESULT_SPEED},
    .learning = "Learning to copy",
    .right = "validation symbols predicted right, %",
    .looking = "Where the decoder looks while it copies",
    .words = 10,
};

static void run_copying(attn_lab *lab) {
    double found[COPIERS][ATTN_RESULTS] = {{0}};
    attn_lesson_contest(lab, &copying, found);
    attn_lab_close(
        lab,
        "Of held-out sequences of %zu to %zu symbols %.1f %% are copied without a fault with "
        "multi-head attention, %.1f %% with a dot product, %.1f %% through one fixed vector: with "
        "attention a decoder looks up the next symbol on the diagonal, without it all of them must "
        "be remembered.",
        attn_lab_size(lab, "shortest"), attn_lab_size(lab, "longest"), found[0][ATTN_RESULT_EXACT],
        found[1][ATTN_RESULT_EXACT], found[2][ATTN_RESULT_EXACT]);
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

static const attn_column score_columns[] = {
    {"attention", "", -1, false},
    {"its parameters", "", 0, false},
    {"validation loss", "nats", 3, false},
    {"BLEU", "", 2, false},
    {"exact", "%", 1, false},
    {"alignment error", "%", 1, false},
    {"training", "s", 1, true},
    {"speed", "words/s", 0, true},
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
    ATTN_CONTEST_COLUMNS_OF(score_columns),
    .shown = {ATTN_RESULT_CROSS_PARAMETERS, ATTN_RESULT_LOSS, ATTN_RESULT_BLEU, ATTN_RESULT_EXACT,
              ATTN_RESULT_ALIGNMENT_ERROR, ATTN_RESULT_SECONDS, ATTN_RESULT_SPEED},
    .learning = "Learning to translate",
    .right = "validation words predicted right, %",
    .looking = "Where the decoder looks",
    .words = 9,
    .gold = true,
};

/* The closing sentence contains no times, so equal settings give equal sentences. */
static void run_translating(attn_lab *lab) {
    double found[SCORE_KINDS][ATTN_RESULTS] = {{0}};
    size_t best = 0, clear = 0;
    attn_lesson_contest(lab, &translating, found);
    for (size_t k = 1; k < SCORE_KINDS; k++) {
        best = found[k][ATTN_RESULT_BLEU] > found[best][ATTN_RESULT_BLEU] ? k : best;
        clear = found[k][ATTN_RESULT_ALIGNMENT_ERROR] < found[clear][ATTN_RESULT_ALIGNMENT_ERROR]
                    ? k
                    : clear;
    }
    attn_lab_close(
        lab,
        "After %zu steps the best BLEU on held-out sentences is %.1f (%s; dot %.1f, additive %.1f, "
        "general %.1f), the smallest alignment error %.1f %% (%s). What each costs in training "
        "stands in the table.",
        attn_lab_size(lab, "num_steps"), found[best][ATTN_RESULT_BLEU], score_kinds[best].name,
        found[0][ATTN_RESULT_BLEU], found[1][ATTN_RESULT_BLEU], found[2][ATTN_RESULT_BLEU],
        found[clear][ATTN_RESULT_ALIGNMENT_ERROR], score_kinds[clear].name);
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
