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

static const struct {
    attn_model_attention attention;
    size_t heads;
    const char *name;
} variants[] = {{ATTN_MODEL_MULTIHEAD, 4, "multi-head, 4 heads"},
                {ATTN_MODEL_DOT, 1, "dot product"},
                {ATTN_MODEL_NONE, 1, "none: one fixed vector"}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static size_t bytes(const attn_experiment *about, const double *values) {
    return attn_lesson_bytes(about, values,
                             2 * (size_t)attn_setting_value(about, values, "num_symbols"));
}

/* The table and pictures of a run, and the example that the pictures show. */
typedef struct sheet {
    attn_table *table;
    attn_picture *curves, *heatmaps;
    attn_specimen specimen;
    double exact[VARIANTS]; /* percent of the sequences without a fault */
} sheet;

static bool open_sheet(attn_lab *lab, const attn_lesson *lesson, sheet *s) {
    s->table = attn_lab_table(lab, "Held-out sequences, copied greedily", columns,
                              sizeof columns / sizeof *columns, VARIANTS);
    s->curves = attn_lab_curves(lab, "curves", "Learning to copy", "steps",
                                "validation symbols predicted right, %", 1, NULL, VARIANTS);
    const size_t longest = attn_lab_size(lab, "longest");
    if (!attn_lesson_specimen(lab, lesson, longest < 10 ? longest : 10, &s->specimen))
        return false;
    s->heatmaps = attn_lesson_picture(lab, "weights", "Where the decoder looks while it copies", 2,
                                      &s->specimen);
    return s->heatmaps != NULL;
}

static void try_variant(attn_lab *lab, const attn_lesson *lesson, size_t v, sheet *s) {
    attn_model_config config = attn_lesson_config(lab, lesson);
    attn_model_scores scores;
    attn_pupil pupil;
    config.attention = variants[v].attention, config.num_heads = variants[v].heads;
    attn_lab_part(lab, (double)v / VARIANTS, (double)(v + 1) / VARIANTS, "attention: %s",
                  variants[v].name);
    if (!attn_lesson_teach(lab, lesson, &config, &pupil))
        return;
    if (attn_lesson_score(lab, lesson, pupil.model, 0, 0, &scores)) {
        s->exact[v] = 100 * (double)scores.bleu.exact / (double)scores.bleu.sentences;
        attn_lab_row(s->table, variants[v].name,
                     (double)attn_parameters_count(attn_model_parameters(pupil.model), ""),
                     pupil.right[pupil.count - 1], s->exact[v],
                     attn_bleu_score(&scores.bleu, false), 100 * attn_lesson_alignment(&scores),
                     pupil.seconds, pupil.words_per_second);
        attn_lab_curve(lab, s->curves, 0, variants[v].name, pupil.steps, pupil.right, pupil.count);
        const float *look = attn_lesson_look(lab, lesson, pupil.model, &s->specimen);
        if (look)
            attn_lab_heatmap(lab, s->heatmaps, v, variants[v].name, look, s->specimen.S);
    }
    attn_model_free(pupil.model);
}

static void run(attn_lab *lab) {
    attn_lesson lesson;
    sheet s = {0};
    attn_lab_part(lab, 0, 0, "sequences of %zu symbols", attn_lab_size(lab, "num_symbols"));
    if (attn_lesson_open(lab, ATTN_COPY, &lesson) && open_sheet(lab, &lesson, &s))
        for (size_t v = 0; v < VARIANTS && !lab->status; v++)
            try_variant(lab, &lesson, v, &s);
    attn_lesson_close(&lesson);
    lab->out->closing = attn_lab_say(
        lab,
        "Of held-out sequences of %zu to %zu symbols %.1f %% are copied without a fault with "
        "multi-head attention, %.1f %% with a dot product, %.1f %% through one fixed vector: with "
        "attention a decoder looks up the next symbol on the diagonal, without it all of them must "
        "be remembered.",
        attn_lab_size(lab, "shortest"), attn_lab_size(lab, "longest"), s.exact[0], s.exact[1],
        s.exact[2]);
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
