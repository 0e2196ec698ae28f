/* Experiment: the heads of a trained model. The experiment collects the weights of each head over
 * many sentences, names the head's pattern (attn/analysis.h), and shows how the head differs
 * between kinds of sentences. */
#include <math.h>
#include <string.h>

#include "attn/analysis.h"
#include "experiments/lesson.h"

static const attn_setting settings[] = {
    {"num_sentences", 200, 2000, 5, 100000, true, "held-out sentences to look at"},
    {"specimen", 10, 10, 3, 40, true, "source words at least of the sentence that is drawn"},
};

enum {
    KINDS = 6,                    /* kinds of sentences */
    MAX_OFFSET = 8,               /* distances key - query are clipped to +-MAX_OFFSET */
    OFFSETS = 2 * MAX_OFFSET + 1, /* number of clipped distances */
    NAMES = 24,                   /* largest number of pattern names that a head is given */
    HEADS = 96,                   /* largest number of heads */
};

static const attn_column head_columns[] = {
    {"attention", "", -1, false},
    {"head", "", 0, false},
    {"normalized entropy", "", 3, false},
    {"largest weight", "", 3, false},
    {"previous", "", 2, false},
    {"current", "", 2, false},
    {"next", "", 2, false},
    {"distance", "words", 2, false},
    {"alignment error", "%", 1, false},
    {"pattern", "", -1, false},
    {"of the sentences", "%", 0, false},
    {"reading", "", -1, false},
};
static const attn_column kind_columns[] = {
    {"attention", "", -1, false},         {"head", "", 0, false},
    {"sentences", "", -1, false},         {"count", "", 0, false},
    {"normalized entropy", "", 3, false}, {"largest weight", "", 3, false},
    {"distance", "words", 2, false},      {"alignment error", "%", 1, false},
    {"apart from all", "nats", 4, false},
};
static const char *const kind_names[KINDS] = {"all",     "short",           "long",
                                              "negated", "relative clause", "plain"};
static const char *const site_names[] = {"encoder", "decoder", "cross"};

/* The measures of a head that are averaged, in the order of the tables' columns. */
enum { ENTROPY, LARGEST, PREVIOUS, CURRENT, NEXT, DISTANCE, MEASURES };
static const size_t measured[MEASURES] = {ATTN_NORMALIZED_ENTROPY, ATTN_CONFIDENCE,
                                          ATTN_PREVIOUS_TOKEN,     ATTN_CURRENT_TOKEN,
                                          ATTN_NEXT_TOKEN,         ATTN_DISTANCE};

/* Sums over `count` sentences: the measures of a head, and the share of the head's weights at each
 * clipped distance. */
typedef struct tally {
    double count, sums[MEASURES], offsets[OFFSETS];
    attn_alignment alignment;
} tally;

/* The measurements of a head. The head has the pattern names[i] on votes[i] sentences. */
typedef struct head {
    attn_site_kind site;
    size_t layer, number;
    tally kinds[KINDS];
    const char *names[NAMES];
    size_t votes[NAMES];
} head;

/* The state of the collection. */
typedef struct survey {
    attn_lesson lesson;
    head *heads;
    size_t count;
    attn_pair *pair;
    bool is[KINDS]; /* is[k]: the current sentence is of kind k */
} survey;

static size_t bytes(const attn_experiment *about, const double *values) {
    (void)about, (void)values;
    return (size_t)256 << 20;
}

/* Tells whether a source word ends with `ending`. With `whole`, a word must be equal to
 * `ending`. */
static bool has_word(const attn_pair *pair, const char *ending, bool whole) {
    const size_t m = strlen(ending);
    for (size_t i = 0; i < pair->source_count; i++) {
        const size_t n = strlen(pair->source[i]);
        if (n >= m && (!whole || n == m) && !strcmp(pair->source[i] + n - m, ending))
            return true;
    }
    return false;
}

static void find_kinds(survey *s, const attn_corpus_options *options) {
    const size_t n = s->pair->source_count, third = (options->longest - options->shortest) / 3;
    s->is[0] = true;
    s->is[1] = n <= options->shortest + third;
    s->is[2] = n + third >= options->longest;
    s->is[3] = has_word(s->pair, "not", true) || has_word(s->pair, "never", true) ||
               has_word(s->pair, "n't", false);
    s->is[4] = has_word(s->pair, "that", true) || has_word(s->pair, "who", true);
    s->is[5] = !s->is[3] && !s->is[4];
}

/* ---- collecting ---- */
/* Stores rows of weights, as attn_weight_source asks. `ctx` is a tensor [1, heads, L, S] with the
 * weights of one attention site for one sentence. */
static attn_status fetch(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const attn_tensor *t = ctx;
    const size_t L = t->dims[2], S = t->dims[3];
    (void)lane, (void)logits, (void)err;
    memcpy(weights, (const float *)t->data + (rows->head * L + rows->row) * S,
           rows->rows * S * sizeof *weights);
    return ATTN_OK;
}

static size_t layer_of(const attn_model_outputs *out, size_t site) {
    size_t layer = 0;
    for (size_t i = 0; i < site; i++)
        layer += out->sites[i].kind == out->sites[site].kind;
    return layer;
}

static head *head_of(attn_lab *lab, survey *s, attn_site_kind site, size_t layer, size_t number) {
    for (size_t i = 0; i < s->count; i++)
        if (s->heads[i].site == site && s->heads[i].layer == layer && s->heads[i].number == number)
            return &s->heads[i];
    if (s->count == HEADS) {
        attn_lab_ok(lab, attn_fail(lab->err, ATTN_ELIMIT, "model",
                                   "has more than %d heads to look into", HEADS));
        return NULL;
    }
    s->heads[s->count] = (head){.site = site, .layer = layer, .number = number};
    return &s->heads[s->count++];
}

static void count_pattern(attn_lab *lab, head *h, const char *name) {
    size_t i = 0;
    while (i < NAMES - 1 && h->names[i] && strcmp(h->names[i], name))
        i++;
    if (!h->names[i])
        h->names[i] = attn_lab_say(lab, "%s", name);
    h->votes[i]++;
}

/* Adds the share of the weights at each clipped distance to t->offsets. For cross-attention, also
 * adds the alignment in which each target word belongs to the source word of its largest weight. */
static void add_weights(const survey *s, const head *h, const float *weights, size_t L, size_t S,
                        tally *t) {
    size_t chosen[ATTN_PAIR_WORDS];
    for (size_t i = 0; i < L; i++) {
        size_t best = 0;
        for (size_t j = 0; j < S; j++) {
            const double far = fmax(-MAX_OFFSET, fmin(MAX_OFFSET, (double)j - (double)i));
            t->offsets[(size_t)(far + MAX_OFFSET)] += weights[i * S + j] / (double)L;
            best = weights[i * S + j] > weights[i * S + best] ? j : best;
        }
        if (i < s->pair->target_count)
            chosen[i] = best;
    }
    if (h->site == ATTN_SITE_CROSS)
        attn_alignment_add(&t->alignment, s->pair, chosen);
}

static void add_head(survey *s, head *h, const attn_head_measures *m, const float *weights,
                     size_t L, size_t S) {
    for (size_t k = 0; k < KINDS; k++) {
        tally *t = &h->kinds[k];
        if (!s->is[k])
            continue;
        t->count++;
        for (size_t i = 0; i < MEASURES; i++)
            t->sums[i] += isfinite(m->values[measured[i]]) ? m->values[measured[i]] : 0;
        add_weights(s, h, weights, L, S, t);
    }
}

static void survey_site(attn_lab *lab, survey *s, const attn_model_outputs *out, size_t at) {
    attn_tensor weights = out->sites[at].weights;
    const size_t H = weights.dims[1], L = weights.dims[2], S = weights.dims[3];
    const attn_weight_source source = {
        .batches = 1, .heads = H, .rows = L, .cols = S, .fetch = fetch, .ctx = &weights};
    attn_measure_options options = attn_measure_defaults();
    attn_measures measures;
    options.across = out->sites[at].kind == ATTN_SITE_CROSS;
    if (lab->status ||
        !attn_lab_ok(lab, attn_measure_heads(&source, &options, NULL, lab->hooks->control,
                                             lab->scratch, &measures, lab->err)))
        return;
    for (size_t i = 0; i < H; i++) {
        attn_pattern_name name;
        head *h = head_of(lab, s, out->sites[at].kind, layer_of(out, at), i);
        if (!h || !attn_lab_ok(lab, attn_name_pattern(&measures.items[i], &options, lab->scratch,
                                                      &name, lab->err)))
            return;
        count_pattern(lab, h, name.name);
        add_head(s, h, &measures.items[i], (const float *)weights.data + i * L * S, L, S);
    }
}

static void survey_all(attn_lab *lab, survey *s) {
    const size_t sentences = attn_lab_size(lab, "num_sentences");
    attn_lab_part(lab, 0, 0.95, "%zu held-out sentences", sentences);
    for (size_t i = 0; i < sentences && attn_lab_done(lab, (double)i / (double)sentences); i++) {
        attn_model_outputs out;
        attn_lab_scratch(lab);
        if (!attn_lesson_pair(lab, &s->lesson, i, s->pair) ||
            !attn_lesson_forward(lab, &s->lesson, lab->hooks->model, s->pair, &out))
            return;
        find_kinds(s, &lab->hooks->corpus);
        for (size_t at = 0; at < out.site_count; at++)
            survey_site(lab, s, &out, at);
    }
}

/* ---- results ---- */
static const char *site_of(attn_lab *lab, const head *h) {
    return h->layer ? attn_lab_say(lab, "%s %zu", site_names[h->site], h->layer)
                    : site_names[h->site];
}

static double mean_of(const tally *t, size_t measure) {
    return t->sums[measure] / t->count;
}

static double error_of(const head *h, size_t kind) {
    return h->site == ATTN_SITE_CROSS ? 100 * attn_alignment_error(&h->kinds[kind].alignment)
                                      : (double)NAN;
}

static size_t most_voted(const head *h) {
    size_t best = 0;
    for (size_t i = 1; i < NAMES; i++)
        best = h->votes[i] > h->votes[best] ? i : best;
    return best;
}

/* Tells how a head can be read: it aligns words (alignment error at most 30 %), or it has the same
 * pattern on at least half of the sentences, and this pattern is not one of the nameless ones. */
static const char *reading_of(const head *h) {
    const size_t best = most_voted(h);
    const bool nameless =
        !strcmp(h->names[best], "heterogeneous") || !strcmp(h->names[best], "uniform") ||
        !strcmp(h->names[best], "nearly uniform") || !strcmp(h->names[best], "none");
    if (h->site == ATTN_SITE_CROSS && error_of(h, 0) <= 30)
        return "aligns words";
    if (!nameless && (double)h->votes[best] >= 0.5 * h->kinds[0].count)
        return "by its pattern";
    return "not by these measures";
}

/* Returns the Jensen-Shannon divergence, in nats, between the distributions of a's and of b's
 * weights over the clipped distances. */
static double divergence_of(const tally *a, const tally *b) {
    double js = 0;
    for (size_t i = 0; i < OFFSETS; i++) {
        const double p = a->offsets[i] / a->count, q = b->offsets[i] / b->count, m = (p + q) / 2;
        js += p > 0 ? p * log(p / m) / 2 : 0;
        js += q > 0 ? q * log(q / m) / 2 : 0;
    }
    return fmax(js, 0);
}

static void add_tables(attn_lab *lab, const survey *s) {
    attn_table *heads = ATTN_LAB_TABLE(lab, "Heads over all sentences", head_columns, s->count),
               *kinds = ATTN_LAB_TABLE(lab, "Heads by the kind of sentence", kind_columns,
                                       s->count * KINDS);
    for (size_t i = 0; i < s->count && !lab->status; i++) {
        const head *h = &s->heads[i];
        const tally *t = &h->kinds[0];
        const size_t best = most_voted(h);
        attn_lab_row(heads, site_of(lab, h), (double)h->number, mean_of(t, ENTROPY),
                     mean_of(t, LARGEST), mean_of(t, PREVIOUS), mean_of(t, CURRENT),
                     mean_of(t, NEXT), mean_of(t, DISTANCE), error_of(h, 0), h->names[best],
                     100 * (double)h->votes[best] / t->count, reading_of(h));
        for (size_t k = 0; k < KINDS; k++) {
            const tally *of = &h->kinds[k];
            if (of->count)
                attn_lab_row(kinds, site_of(lab, h), (double)h->number, kind_names[k], of->count,
                             mean_of(of, ENTROPY), mean_of(of, LARGEST), mean_of(of, DISTANCE),
                             error_of(h, k), divergence_of(of, t));
        }
    }
}

/* ---- pictures ---- */
/* Draws all heads of a site side by side, and then each head alone. */
static void draw_site(attn_lab *lab, const attn_specimen *specimen, const attn_model_outputs *out,
                      size_t at) {
    const attn_tensor *w = &out->sites[at].weights;
    const size_t H = w->dims[1], L = w->dims[2], S = w->dims[3], layer = layer_of(out, at);
    const char *site = site_names[out->sites[at].kind];
    const bool cross = out->sites[at].kind == ATTN_SITE_CROSS,
               encoder = out->sites[at].kind == ATTN_SITE_ENCODER;
    for (size_t one = 0; one <= H && !lab->status; one++) {
        const size_t panels = one ? 1 : H;
        attn_picture *p = attn_lab_heatmaps(
            lab,
            one ? attn_lab_say(lab, "%s-%zu-%zu", site, layer, one - 1)
                : attn_lab_say(lab, "%s-%zu", site, layer),
            one ? attn_lab_say(lab, "Attention: %s, layer %zu, head %zu", site, layer, one - 1)
                : attn_lab_say(lab, "Attention: %s, layer %zu, all heads", site, layer),
            panels, L, S);
        for (size_t i = 0; i < panels && !lab->status; i++)
            attn_lab_heatmap(lab, p, i, one ? "" : attn_lab_say(lab, "head %zu", i),
                             (const float *)w->data + (one ? one - 1 : i) * L * S, S);
        if (lab->status)
            return;
        p->options.annotate = one ? NULL : "";
        p->options.x_label = cross || encoder ? "source" : "target";
        p->options.y_label = encoder ? "source" : "target";
        attn_lab_labels(lab, p, encoder ? specimen->sources : specimen->targets,
                        cross || encoder ? specimen->sources : specimen->targets);
    }
}

/* Draws a heatmap with a row for each head and a column for each kind of sentence. A cell is the
 * divergence between the head's weights on this kind of sentences and on all sentences
 * (divergence_of). */
static void draw_kinds(attn_lab *lab, const survey *s) {
    float *cells = attn_lab_take(lab, s->count * (KINDS - 1), sizeof *cells);
    const char **rows = attn_lab_keep(lab, s->count, sizeof *rows);
    attn_picture *p = attn_lab_heatmaps(lab, "kinds", "How heads change with the kind of sentence",
                                        1, s->count, KINDS - 1);
    for (size_t i = 0; i < s->count && !lab->status; i++) {
        rows[i] = attn_lab_say(lab, "%s, head %zu", site_of(lab, &s->heads[i]), s->heads[i].number);
        for (size_t k = 1; k < KINDS; k++)
            cells[i * (KINDS - 1) + k - 1] =
                s->heads[i].kinds[k].count
                    ? (float)divergence_of(&s->heads[i].kinds[k], &s->heads[i].kinds[0])
                    : NAN;
    }
    if (lab->status)
        return;
    attn_lab_heatmap(lab, p, 0, "", cells, KINDS - 1);
    p->options.vmax = (double)NAN, p->options.annotate = ".3f";
    p->options.value_label = "distance from all sentences, nats";
    attn_lab_labels(lab, p, rows, kind_names + 1);
}

static void draw_pictures(attn_lab *lab, const survey *s) {
    attn_specimen specimen;
    attn_model_outputs out;
    const size_t longest = lab->hooks->corpus.longest, wanted = attn_lab_size(lab, "specimen");
    if (!attn_lesson_specimen(lab, &s->lesson, longest < wanted ? longest : wanted, &specimen))
        return;
    attn_lab_scratch(lab);
    if (!attn_lesson_forward(lab, &s->lesson, lab->hooks->model, specimen.pair, &out))
        return;
    /* The first picture of the findings is the main one. It must show cross-attention, which is the
     * last site, so the sites are drawn in reverse order. */
    for (size_t at = out.site_count; at-- > 0;)
        draw_site(lab, &specimen, &out, at);
    draw_kinds(lab, s);
}

static void close_up(attn_lab *lab, const survey *s) {
    size_t aligned = 0, patterned = 0, far = 0, far_kind = 1;
    double most = -1;
    for (size_t i = 0; i < s->count; i++) {
        const char *reading = reading_of(&s->heads[i]);
        aligned += !strcmp(reading, "aligns words");
        patterned += !strcmp(reading, "by its pattern");
        for (size_t k = 1; k < KINDS; k++)
            if (s->heads[i].kinds[k].count &&
                divergence_of(&s->heads[i].kinds[k], &s->heads[i].kinds[0]) > most)
                most = divergence_of(&s->heads[i].kinds[k], &s->heads[i].kinds[0]), far = i,
                far_kind = k;
    }
    attn_lab_close(
        lab,
        "Of %zu heads, over %.0f sentences, %zu align words (at most 30 %% wrong) and %zu more are "
        "named by one pattern on most sentences; the others cannot be read by these measures. "
        "Previous, current and next are shares of the weight in the rows that have such a key, so "
        "that they need not add to 1. The head that changes most with the kind of sentence is %s "
        "%zu (%s: %.3f nats). %s",
        s->count, attn_lab_number(lab, "num_sentences"), aligned, patterned,
        site_of(lab, &s->heads[far]), s->heads[far].number, kind_names[far_kind], most,
        attn_analysis_caveat());
}

static void run(attn_lab *lab) {
    const attn_experiment_hooks *hooks = lab->hooks;
    survey s = {
        .lesson = {.source = hooks->source, .target = hooks->target, .options = hooks->corpus}};
    s.heads = attn_lab_take(lab, HEADS, sizeof *s.heads);
    s.pair = attn_lab_take(lab, 1, sizeof *s.pair);
    if (lab->status ||
        !attn_lab_ok(lab, attn_corpus_new(&hooks->corpus, lab->work, &s.lesson.corpus, lab->err)))
        return;
    survey_all(lab, &s);
    if (!lab->status && !s.count)
        attn_lab_ok(lab, attn_fail(lab->err, ATTN_EARG, "model", "has no attention to look into"));
    if (lab->status)
        return;
    attn_lab_part(lab, 0.95, 1, "drawing");
    add_tables(lab, &s);
    draw_pictures(lab, &s);
    close_up(lab, &s);
}

const attn_experiment_row attn_experiment_heads = {
    .about = {"heads", "Heads of a trained model",
              "What each head of a trained translation model looks at over many sentences, which "
              "can be read, and how they change with the kind of sentence.",
              settings, sizeof settings / sizeof *settings, true},
    .run = run,
    .bytes = bytes,
};
