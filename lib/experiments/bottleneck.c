/* Experiment: the bottleneck of a fixed vector. It trains a translation model with attention and
 * one in which a single vector connects encoder and decoder, and compares their BLEU by the length
 * of the source. */
#include <math.h>

#include "experiments/lesson.h"

static const attn_setting settings[] = {
    ATTN_LESSON_SETTINGS(64, 2500, 12000, 0.004, 10000, 40, 60),
};

enum {
    BUCKETS = 12, /* largest number of ranges of lengths */
    QUOTED = 6,   /* points of a quoted curve */
    VARIANTS = 2,
    /* Smallest BLEU on short sentences of a model that has learnt to translate. If a model has a
     * smaller BLEU, the fall of its BLEU with the length says nothing. */
    LEARNT = 5,
};

static const attn_column columns[] = {
    {"source words", "", -1, false},
    {"BLEU without attention", "", 2, false},
    {"BLEU with attention", "", 2, false},
    {"difference", "", 2, false},
};
static const attn_column quoted_columns[] = {
    {"source words", "", 0, false},
    {"BLEU without attention", "", 0, false},
    {"BLEU with attention", "", 0, false},
};
/* The curves that textbooks show as "approximate BLEU scores from research papers". */
static const double quoted_lengths[QUOTED] = {10, 20, 30, 40, 50, 60},
                    quoted[VARIANTS][QUOTED] = {{35, 32, 28, 22, 16, 12}, {38, 37, 36, 35, 34, 33}};
static const attn_variant variants[VARIANTS] = {{"without attention", ATTN_MODEL_NONE, 0},
                                                {"with attention", ATTN_MODEL_MULTIHEAD, 0}};

/* BLEU by source length. Bucket i has the lengths middle[i] - 2 … middle[i] + 2 that are within
 * 1 … 60. The middles are the multiples of 5 from the setting "shortest" to the setting "longest",
 * or "longest" alone if there is no such multiple. */
typedef struct buckets {
    size_t count;
    double middle[BUCKETS], bleu[VARIANTS][BUCKETS];
} buckets;

static buckets choose_buckets(const attn_lab *lab) {
    const size_t shortest = attn_lab_size(lab, "shortest"), longest = attn_lab_size(lab, "longest");
    buckets b = {0};
    for (size_t middle = 5; middle <= longest && b.count < BUCKETS; middle += 5)
        if (middle >= shortest)
            b.middle[b.count++] = (double)middle;
    if (!b.count)
        b.middle[b.count++] = (double)longest;
    return b;
}

static size_t from_of(double middle) {
    return middle > 4 ? (size_t)middle - 2 : 1;
}

static size_t to_of(double middle) {
    return middle > 58 ? 60 : (size_t)middle + 2;
}

static bool score_lengths(attn_lab *lab, const attn_lesson *lesson, size_t v,
                          const attn_model *model, attn_result *out, void *ctx) {
    buckets *b = ctx;
    (void)out;
    for (size_t i = 0; i < b->count; i++) {
        attn_model_scores scores;
        if (!attn_lab_done(lab, 1) || !attn_lesson_score(lab, lesson, model, from_of(b->middle[i]),
                                                         to_of(b->middle[i]), &scores))
            return false;
        b->bleu[v][i] = attn_bleu_score(&scores.bleu, false);
    }
    return true;
}

static void add_tables(attn_lab *lab, const buckets *b) {
    attn_table *t = ATTN_LAB_TABLE(lab, "Held-out sentences by length", columns, b->count),
               *q = ATTN_LAB_TABLE(lab, "The curve that textbooks quote, approximate",
                                   quoted_columns, QUOTED);
    for (size_t i = 0; i < b->count; i++)
        attn_lab_row(t, attn_lab_say(lab, "%zu to %zu", from_of(b->middle[i]), to_of(b->middle[i])),
                     b->bleu[0][i], b->bleu[1][i], b->bleu[1][i] - b->bleu[0][i]);
    for (size_t i = 0; i < QUOTED; i++)
        attn_lab_row(q, quoted_lengths[i], quoted[0][i], quoted[1][i]);
}

static void draw_curves(attn_lab *lab, const buckets *b) {
    static const char *const titles[] = {"measured, on our corpus",
                                         "as textbooks quote it, of real text"};
    attn_picture *p = attn_lab_curves(lab, "curves", "BLEU by the length of the source",
                                      "source words", "BLEU", 2, titles, 2 * VARIANTS);
    for (size_t v = 0; v < VARIANTS; v++)
        attn_lab_curve(lab, p, 0, variants[v].name, b->middle, b->bleu[v], b->count);
    for (size_t v = 0; v < VARIANTS; v++)
        attn_lab_curve(lab, p, 1, variants[v].name, quoted_lengths, quoted[v], QUOTED);
    if (p && !lab->status)
        p->options.vmin = 0;
}

static void run(attn_lab *lab) {
    buckets b = choose_buckets(lab);
    attn_result results[VARIANTS] = {{0}};
    attn_lesson_contest(lab,
                        &(attn_contest){.task = ATTN_EN_FR,
                                        .variants = variants,
                                        .count = VARIANTS,
                                        .title = "Both models, trained alike",
                                        .shown = {"parameters", "loss", "seconds", "speed"},
                                        .ctx = &b,
                                        .score = score_lengths},
                        results);
    add_tables(lab, &b);
    draw_curves(lab, &b);
    const size_t last = b.count - 1, first = b.count > 1 ? 1 : 0;
    if (fmin(b.bleu[0][first], b.bleu[1][first]) < LEARNT) {
        attn_lab_close(
            lab,
            "Sentences of about %.0f words have a BLEU of %.1f without attention and %.1f with it: "
            "the models have not learned to translate yet, so their fall with the length says "
            "nothing. Train for more steps.",
            b.middle[first], b.bleu[0][first], b.bleu[1][first]);
        return;
    }
    attn_lab_close(
        lab,
        "From sentences of about %.0f words to those of %.0f BLEU falls from %.1f to %.1f without "
        "attention (by %.0f %%) and from %.1f to %.1f with it (by %.0f %%). Quoted for real text, "
        "10 to 60 words: from 35 to 12 without (by 66 %%), from 38 to 33 with it (by 13 %%).",
        b.middle[first], b.middle[last], b.bleu[0][first], b.bleu[0][last],
        100 * (1 - b.bleu[0][last] / fmax(b.bleu[0][first], 1e-9)), b.bleu[1][first],
        b.bleu[1][last], 100 * (1 - b.bleu[1][last] / fmax(b.bleu[1][first], 1e-9)));
}

const attn_experiment_row attn_experiment_bottleneck = {
    .about =
        {"bottleneck", "The bottleneck",
         "Translation quality by sentence length: a decoder that gets one fixed vector against "
         "one that looks back, beside the curve that textbooks quote.",
         settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = attn_lesson_bytes,
    .rules = attn_lesson_rules,
};
