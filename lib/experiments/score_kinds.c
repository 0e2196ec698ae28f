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

static const struct {
    attn_model_attention attention;
    size_t heads;
    const char *name;
} kinds[] = {{ATTN_MODEL_DOT, 1, "dot (Luong)"},
             {ATTN_MODEL_ADDITIVE, 1, "additive (Bahdanau)"},
             {ATTN_MODEL_GENERAL, 1, "general (Luong)"},
             {ATTN_MODEL_CONCAT, 1, "concat (Luong)"},
             {ATTN_MODEL_MULTIHEAD, 4, "multi-head, 4 heads"}};
/* WORDS: bound of the vocabularies. SPECIMEN: source words of the example in pictures, at least. */
enum { KINDS = sizeof kinds / sizeof *kinds, WORDS = 1200, SPECIMEN = 9 };

/* The table and pictures of a run, and the results that the closing sentence names. */
typedef struct sheet {
    attn_table *table;
    attn_picture *curves, *heatmaps;
    attn_specimen specimen;
    double bleu[KINDS], error[KINDS], speed[KINDS];
} sheet;

static size_t bytes(const attn_experiment *about, const double *values) {
    return attn_lesson_bytes(about, values, WORDS);
}

static bool open_sheet(attn_lab *lab, const attn_lesson *lesson, sheet *s) {
    const size_t longest = attn_lab_size(lab, "longest");
    s->table = attn_lab_table(lab, "Held-out sentences, translated greedily", columns,
                              sizeof columns / sizeof *columns, KINDS);
    s->curves = attn_lab_curves(lab, "curves", "Learning to translate", "steps",
                                "validation words predicted right, %", 1, NULL, KINDS);
    if (!attn_lesson_specimen(lab, lesson, longest < SPECIMEN ? longest : SPECIMEN, &s->specimen))
        return false;
    s->heatmaps =
        attn_lesson_picture(lab, "weights", "Where the decoder looks", KINDS + 1, &s->specimen);
    const float *gold = attn_lesson_gold(lab, &s->specimen);
    if (gold && s->heatmaps)
        attn_lab_heatmap(lab, s->heatmaps, KINDS, "what belongs together", gold, s->specimen.S);
    return !lab->status;
}

static void try_kind(attn_lab *lab, const attn_lesson *lesson, size_t k, sheet *s) {
    attn_model_config config = attn_lesson_config(lab, lesson);
    attn_model_scores scores;
    attn_pupil pupil;
    config.attention = kinds[k].attention, config.num_heads = kinds[k].heads;
    attn_lab_part(lab, (double)k / KINDS, (double)(k + 1) / KINDS, "attention: %s", kinds[k].name);
    if (!attn_lesson_teach(lab, lesson, &config, &pupil))
        return;
    if (attn_lesson_score(lab, lesson, pupil.model, 0, 0, &scores)) {
        s->bleu[k] = attn_bleu_score(&scores.bleu, false);
        s->error[k] = 100 * attn_lesson_alignment(&scores), s->speed[k] = pupil.words_per_second;
        attn_lab_row(
            s->table, kinds[k].name,
            (double)attn_parameters_count(attn_model_parameters(pupil.model), "cross_attention"),
            pupil.loss, s->bleu[k], 100 * (double)scores.bleu.exact / (double)scores.bleu.sentences,
            s->error[k], pupil.seconds, pupil.words_per_second);
        attn_lab_curve(lab, s->curves, 0, kinds[k].name, pupil.steps, pupil.right, pupil.count);
        const float *look = attn_lesson_look(lab, lesson, pupil.model, &s->specimen);
        if (look)
            attn_lab_heatmap(lab, s->heatmaps, k, kinds[k].name, look, s->specimen.S);
    }
    attn_model_free(pupil.model);
}

/* Writes the closing sentence. It contains no times, so equal settings give equal sentences. */
static void close_up(attn_lab *lab, const sheet *s) {
    size_t best = 0, clear = 0;
    for (size_t k = 1; k < KINDS; k++) {
        best = s->bleu[k] > s->bleu[best] ? k : best;
        clear = s->error[k] < s->error[clear] ? k : clear;
    }
    lab->out->closing = attn_lab_say(
        lab,
        "After %zu steps the best BLEU on held-out sentences is %.1f (%s; dot %.1f, additive %.1f, "
        "general %.1f), the smallest alignment error %.1f %% (%s). What each costs in training "
        "stands in the table.",
        attn_lab_size(lab, "num_steps"), s->bleu[best], kinds[best].name, s->bleu[0], s->bleu[1],
        s->bleu[2], s->error[clear], kinds[clear].name);
}

static void run(attn_lab *lab) {
    attn_lesson lesson;
    sheet s = {0};
    attn_lab_part(lab, 0, 0, "a corpus of %zu sentence pairs", attn_lab_size(lab, "num_pairs"));
    if (attn_lesson_open(lab, ATTN_EN_FR, &lesson) && open_sheet(lab, &lesson, &s))
        for (size_t k = 0; k < KINDS && !lab->status; k++)
            try_kind(lab, &lesson, k, &s);
    attn_lesson_close(&lesson);
    close_up(lab, &s);
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
