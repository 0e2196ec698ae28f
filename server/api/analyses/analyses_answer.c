/* Writes the answer of an analysis: the measures of each head beside their values for uniform
 * attention, distances between pairs of heads, diagnoses, and a legend of all numbers. */
#include <math.h>

#include "api/analyses/analyses_call.h"
#include "wire/answer.h"

srv_head_place srv_analysis_place(const srv_analysis *an, size_t batch, size_t head) {
    const size_t batches = an->layers ? an->B / an->layers : an->B;
    return (srv_head_place){.layer = an->layered ? (int64_t)(batch / batches) : -1,
                            .batch = an->layered ? batch % batches : batch,
                            .head = head};
}

const srv_field srv_head_place_rows[] = {
    SRV_IF_KNOWN("layer", SRV_INT, srv_head_place, layer, "The layer, of weights with layers."),
    SRV_ALWAYS("batch", SRV_INT, srv_head_place, batch, "The batch entry."),
    SRV_ALWAYS("head", SRV_INT, srv_head_place, head, "The head."),
    {0},
};

/* Whole numbers are written in full, because a count may be too large for float32 to hold
 * exactly. */
void srv_analysis_put_number(attn_json_text *j, const void *place) {
    const double value = *(const double *)place;
    if (value == rint(value))
        attn_json_real(j, value);
    else
        attn_json_float(j, (float)value);
}

void srv_analysis_number(attn_json_text *j, const char *name, double value) {
    attn_json_key(j, name);
    srv_analysis_put_number(j, &value);
}

/* --- heads --- */

/* A head in an answer. */
typedef struct head_facts {
    const srv_analysis *an;
    const attn_head_measures *head;
    srv_head_place place;
    const attn_pattern_name *pattern; /* NULL: none is wanted */
} head_facts;

static void put_rows(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    if (!f->an->as_tensors)
        attn_json_size(j, f->head->rows);
}

static void write_measures(attn_json_text *j, const srv_analysis *an,
                           const double values[ATTN_MEASURES], bool uniform) {
    if (an->as_tensors)
        return;
    attn_json_object(j);
    for (attn_measure m = 0; m < ATTN_MEASURES; m++)
        if (srv_analysis_shows(an, m) && (!uniform || srv_analysis_has_uniform(m)))
            srv_analysis_number(j, attn_measure_about(m)->name, values[m]);
    attn_json_object_end(j);
}

static void put_measures(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    write_measures(j, f->an, f->head->values, false);
}

static void put_uniform(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    write_measures(j, f->an, f->head->uniform, true);
}

typedef struct class_facts {
    const char *name;
    double mass, uniform, lift;
} class_facts;

static const srv_field class_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, class_facts, name,
               "punctuation, special tokens, or the name of a class of the request."),
    SRV_ANALYSIS_NUMBER("mass", class_facts, mass,
                        "Mean weight of a row on the keys of the class."),
    SRV_ANALYSIS_NUMBER("uniform", class_facts, uniform, "The same under uniform attention."),
    SRV_ANALYSIS_NUMBER("lift", class_facts, lift, "mass divided by uniform."),
    {0},
};

static void put_classes(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    const attn_measure_options *o = &f->an->options;
    if (!srv_analysis_has(f->an, SRV_AN_CLASSES))
        return;
    attn_json_array(j);
    for (size_t c = 0; c < o->class_count; c++) {
        class_facts facts = {o->classes[c].name, f->head->class_mass[c], f->head->class_uniform[c],
                             NAN};
        if (facts.uniform > 0)
            facts.lift = facts.mass / facts.uniform;
        srv_answer_object(j, class_rows, &facts);
    }
    attn_json_array_end(j);
}

typedef struct key_facts {
    size_t key;
    const char *label; /* NULL: the keys have no labels */
    double mass, mean;
} key_facts;

static const srv_field key_rows[] = {
    SRV_ALWAYS("key", SRV_INT, key_facts, key, "The key."),
    SRV_IF_KNOWN("label", SRV_STRING, key_facts, label, "Its label."),
    SRV_ANALYSIS_NUMBER("mass", key_facts, mass, "The sum of its weights over the rows."),
    SRV_ANALYSIS_NUMBER("mean", key_facts, mean, "Their mean over the rows that see it."),
    {0},
};

static void put_top_keys(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    const srv_strings *labels = &srv_labels_of(f->an->labels, f->head->batch)->key;
    if (!srv_analysis_has(f->an, SRV_AN_RECEIVED))
        return;
    attn_json_array(j);
    for (size_t i = 0; i < f->head->top_count; i++) {
        const attn_key_mass *top = &f->head->top[i];
        const char *label = top->key < labels->count ? labels->values[top->key] : NULL;
        srv_answer_object(j, key_rows, &(key_facts){top->key, label, top->mass, top->mean});
    }
    attn_json_array_end(j);
}

static void write_square(attn_json_text *j, const double *values, size_t rows, size_t cols) {
    attn_json_array(j);
    for (size_t r = 0; r < rows; r++) {
        attn_json_array(j);
        for (size_t c = 0; c < cols; c++)
            attn_json_float(j, (float)values[r * cols + c]);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

static void put_blocks(attn_json_text *j, const void *place) {
    const head_facts *f = place;
    const size_t G = f->an->options.segment_count;
    if (srv_analysis_has(f->an, SRV_AN_BLOCKS) && !f->an->as_tensors)
        write_square(j, f->head->blocks, G, G);
}

static const char *const shapes[] = {"vertical", "diagonal",      "vertical+diagonal",
                                     "block",    "heterogeneous", NULL};

const srv_field srv_pattern_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, attn_pattern_name, name,
               "The name of the pattern, such as previous token."),
    SRV_ALWAYS("shape", SRV_STRING, attn_pattern_name, shape,
               "The shape of the weights (Kovaleva et al. 2019).", .choices = shapes),
    SRV_ALWAYS("text", SRV_STRING, attn_pattern_name, text,
               "The pattern in words, with its numbers."),
    {0},
};

static const srv_field head_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, head_facts, place, NULL, .fields = srv_head_place_rows),
    SRV_WRITTEN("num_rows", "integer+", put_rows, "Rows that are measured: those that see a key.",
                .always = true),
    SRV_IF_KNOWN("pattern", SRV_OBJECT, head_facts, pattern,
                 "A name for what the head looks at, the shape of Kovaleva et al., and a sentence.",
                 .fields = srv_pattern_rows, .accepts = SRV_O_POINTER),
    SRV_WRITTEN("measures", "{number?}", put_measures, "The measures by name, means over rows.",
                .always = true),
    SRV_WRITTEN("uniform", "{number?}", put_uniform,
                "The same of uniform attention with the same mask.", .always = true),
    SRV_WRITTEN("classes", "[*]", put_classes,
                "Weight on each class of keys, that of uniform attention, and their ratio.",
                .fields = class_rows),
    SRV_WRITTEN("top_keys", "[*]", put_top_keys,
                "The keys with most weight, with sum and mean over the rows that see them.",
                .fields = key_rows),
    SRV_WRITTEN("blocks", "[[number?]]", put_blocks,
                "Weight from the queries of a segment to the keys of another."),
    {0},
};

static void put_heads(attn_json_text *j, const void *place) {
    const srv_analysis *an = place;
    attn_json_array(j);
    for (size_t i = 0; i < an->measures.count; i++) {
        const attn_head_measures *h = &an->measures.items[i];
        const head_facts facts = {an, h, srv_analysis_place(an, h->batch, h->head),
                                  an->patterns ? &an->patterns[i] : NULL};
        srv_answer_object(j, head_rows, &facts);
    }
    attn_json_array_end(j);
}

/* --- pairs of heads --- */

typedef struct pair_facts {
    srv_head_place place; /* only layer and batch are answered */
    const attn_head_distances *distances;
    bool as_tensors;
    double mean_js, mean_cosine, mean_centered;
} pair_facts;

static void put_distances(attn_json_text *j, const pair_facts *f, const double *values) {
    if (!f->as_tensors)
        write_square(j, values, f->distances->rows, f->distances->cols);
}
static void put_js(attn_json_text *j, const void *place) {
    put_distances(j, place, ((const pair_facts *)place)->distances->js);
}
static void put_cosine(attn_json_text *j, const void *place) {
    put_distances(j, place, ((const pair_facts *)place)->distances->cosine);
}
static void put_centered(attn_json_text *j, const void *place) {
    put_distances(j, place, ((const pair_facts *)place)->distances->centered);
}

static const srv_field pair_rows[] = {
    SRV_IF_KNOWN("layer", SRV_INT, pair_facts, place.layer, "The layer, of weights with layers."),
    SRV_ALWAYS("batch", SRV_INT, pair_facts, place.batch, "The batch entry."),
    SRV_ANALYSIS_NUMBER("mean_js", pair_facts, mean_js, "The mean of js."),
    SRV_ANALYSIS_NUMBER("mean_cosine", pair_facts, mean_cosine, "The mean of cosine."),
    SRV_ANALYSIS_NUMBER("mean_centered_cosine", pair_facts, mean_centered,
                        "The mean of centered_cosine."),
    SRV_WRITTEN("js", "[[number?]]", put_js, "Jensen-Shannon divergences in nats.", .always = true),
    SRV_WRITTEN("cosine", "[[number?]]", put_cosine, "Cosines of the weights.", .always = true),
    SRV_WRITTEN("centered_cosine", "[[number?]]", put_centered,
                "Cosines without the share of the mask.", .always = true),
    {0},
};

static void put_pairs(attn_json_text *j, const void *place) {
    const srv_analysis *an = place;
    if (!srv_analysis_has(an, SRV_AN_PAIRS))
        return;
    attn_json_array(j);
    for (size_t b = 0; b < an->B; b++) {
        const attn_head_distances *d = &an->pairs[b];
        const pair_facts facts = {srv_analysis_place(an, d->batch, 0),
                                  d,
                                  an->as_tensors,
                                  d->mean_js,
                                  d->mean_cosine,
                                  d->mean_centered};
        srv_answer_object(j, pair_rows, &facts);
    }
    attn_json_array_end(j);
}

/* --- diagnoses --- */

typedef struct diagnosis_facts {
    const srv_analysis *an;
    const attn_diagnosis *found;
    const char *code, *text;
} diagnosis_facts;

static void put_numbers(attn_json_text *j, const void *place) {
    const attn_diagnosis *d = ((const diagnosis_facts *)place)->found;
    attn_json_object(j);
    for (size_t i = 0; i < d->number_count; i++)
        srv_analysis_number(j, d->numbers[i].name, d->numbers[i].value);
    attn_json_object_end(j);
}

static void put_places(attn_json_text *j, const void *place) {
    const diagnosis_facts *f = place;
    attn_json_array(j);
    for (size_t i = 0; i < f->found->head_count; i++) {
        const attn_head_measures *h = &f->an->measures.items[f->found->heads[i]];
        const srv_head_place at = srv_analysis_place(f->an, h->batch, h->head);
        srv_answer_object(j, srv_head_place_rows, &at);
    }
    attn_json_array_end(j);
}

static const srv_field diagnosis_rows[] = {
    SRV_ALWAYS("code", SRV_STRING, diagnosis_facts, code, "A stable name."),
    SRV_ALWAYS("text", SRV_STRING, diagnosis_facts, text, "The diagnosis in words."),
    SRV_WRITTEN("numbers", "{number?}", put_numbers, "The numbers that led to it, by name.",
                .always = true),
    SRV_WRITTEN("heads", "[*]", put_places, "The heads that it is about.", .always = true,
                .fields = srv_head_place_rows),
    {0},
};

static void put_diagnoses(attn_json_text *j, const void *place) {
    const srv_analysis *an = place;
    if (!srv_analysis_has(an, SRV_AN_DIAGNOSES))
        return;
    attn_json_array(j);
    for (size_t i = 0; i < an->diagnoses.count; i++) {
        const attn_diagnosis *d = &an->diagnoses.items[i];
        srv_answer_object(j, diagnosis_rows, &(diagnosis_facts){an, d, d->code, d->text});
    }
    attn_json_array_end(j);
}

/* --- the answer --- */

static void put_omitted(attn_json_text *j, const void *place) {
    const srv_analysis *an = place;
    bool any = false;
    for (unsigned i = 0; 1u << i <= SRV_AN_ROLLOUT; i++) {
        const char *needed = srv_analysis_omits(an, 1u << i);
        if (!needed)
            continue;
        if (!any)
            attn_json_object(j);
        any = true;
        attn_json_key_string(j, srv_analysis_items[i], needed);
    }
    if (any)
        attn_json_object_end(j);
}

void srv_analysis_put_caveat(attn_json_text *j, const void *place) {
    (void)place;
    attn_json_string(j, attn_analysis_caveat());
}

/* The members of an analysis. All are always there, except that dry runs of POST /v1/analyses have
 * none of them. */
#define ANALYSIS_ROWS(...)                                                                         \
    SRV_WRITTEN("heads", "[HeadAnalysis]", put_heads, "The measures of each head.", __VA_ARGS__),  \
        SRV_WRITTEN("pairs", "[HeadPairs]", put_pairs,                                             \
                    "The distances between heads, for each batch entry."),                         \
        SRV_WRITTEN("diagnoses", "[Diagnosis]", put_diagnoses, "What is unusual."),                \
        SRV_WRITTEN("omitted", "AnalysisOmitted", put_omitted,                                     \
                    "The items that lack an input, and which."),                                   \
        SRV_WRITTEN("legend", "AnalysisLegend", srv_analysis_put_legend,                           \
                    "Formula, range and paper of each measure.", __VA_ARGS__),                     \
        SRV_WRITTEN("caveat", "string", srv_analysis_put_caveat, "What weights do not say.",       \
                    __VA_ARGS__)

static const srv_field analysis_rows[] = {ANALYSIS_ROWS(.always = true), {0}};

void srv_analysis_members(attn_json_text *j, const srv_analysis *an) {
    srv_answer_members(j, analysis_rows, an);
}

static const srv_field rollout_rows[] = {
    SRV_WRITTEN("heatmap", "Heatmap", NULL, "The rollout.", .always = true),
    SRV_WRITTEN("legend", "string", NULL, "How it is computed.", .always = true),
    {0},
};

static const srv_field analyses_rows[] = {
    ANALYSIS_ROWS(.always = false),
    SRV_WRITTEN("heatmap", "Heatmap", NULL, "The weights."),
    SRV_WRITTEN("comparison", "Comparison", NULL, "With a second operand: how the two differ."),
    SRV_WRITTEN("rollout", "Rollout", NULL, "Attention through all layers."),
    SRV_WRITTEN("gradient", "GradientAnalysis", NULL,
                "Gradient x attention, with grad_output and value."),
    SRV_WRITTEN("warnings", "[Warning]", NULL, NULL),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_analysis_answers[] = {
    SRV_GROUP("HeadAnalysis", head_rows,
              "Measures of one head, and the same measures of uniform attention under the same "
              "mask; legend defines them. null: the measure is not defined for this head."),
    SRV_GROUP("HeadPairs", pair_rows,
              "Distances of the heads of one batch entry, row and column = head; means go over "
              "pairs of different heads."),
    SRV_GROUP("Diagnosis", diagnosis_rows,
              "Unusual properties of the heads in words, with their numbers."),
    SRV_WRITTEN("AnalysisLegend", "{*}", NULL, NULL, .fields = srv_legend_rows),
    SRV_WRITTEN("AnalysisOmitted", "{string 1+}", NULL,
                "Items that were requested by name and are missing, with the input that each of "
                "them needs."),
    SRV_GROUP("Analysis", analysis_rows, NULL),
    SRV_GROUP("Rollout", rollout_rows, NULL),
    SRV_GROUP("Analyses", analyses_rows, NULL),
    {0},
};

/* --- text for a terminal: one line for each head, then the diagnoses --- */

static void text_of_head(attn_text *t, const srv_analysis *an, size_t i) {
    const attn_head_measures *h = &an->measures.items[i];
    size_t batches = an->layers ? an->B / an->layers : an->B;
    if (an->layered)
        attn_text_add(t, "layer %zu, ", h->batch / batches);
    if (batches > 1)
        attn_text_add(t, "batch %zu, ", an->layered ? h->batch % batches : h->batch);
    attn_text_add(t, "head %zu:", h->head);
    if (an->patterns)
        attn_text_add(t, " %s (%s): %s", an->patterns[i].name, an->patterns[i].shape,
                      an->patterns[i].text);
    attn_text_add(t, "\n");
    for (attn_measure m = 0; m < ATTN_MEASURES; m++) {
        if (!srv_analysis_shows(an, m) || isnan(h->values[m]))
            continue;
        attn_text_add(t, "  %-18s %10.4g", attn_measure_about(m)->name, h->values[m]);
        if (srv_analysis_has_uniform(m) && !isnan(h->uniform[m]))
            attn_text_add(t, "   uniform %10.4g", h->uniform[m]);
        attn_text_add(t, "\n");
    }
    for (size_t c = 0; srv_analysis_has(an, SRV_AN_CLASSES) && c < an->options.class_count; c++)
        attn_text_add(t, "  on %-15s %10.4g   uniform %10.4g\n", an->options.classes[c].name,
                      h->class_mass[c], h->class_uniform[c]);
}

/* Prints the mean distances of pairs of heads. A mean that is NaN is left out; mean_centered is NaN
 * if all heads have uniform attention. */
static void text_of_pairs(attn_text *t, size_t batch, const attn_head_distances *d) {
    attn_text_add(t, "pairs of heads, batch %zu: mean Jensen-Shannon distance %.4g", batch,
                  d->mean_js);
    if (!isnan(d->mean_cosine))
        attn_text_add(t, ", cosine %.4g", d->mean_cosine);
    if (!isnan(d->mean_centered))
        attn_text_add(t, ", without the mask's share %.4g", d->mean_centered);
    attn_text_add(t, "\n");
}

void srv_rollout_write(attn_json_text *j, const attn_heatmaps *maps, const srv_heat_input *in,
                       const srv_labels *labels) {
    attn_json_key_object(j, "rollout");
    if (maps)
        srv_heat_write(j, "heatmap", maps, in, labels);
    attn_json_key_string(j, "legend",
                         "R_0 = I, R_l = N(mean_h A_l + I) R_(l-1), N divides rows by their sums "
                         "(Abnar and Zuidema 2020, arXiv:2005.00928)");
    attn_json_object_end(j);
}

void srv_analysis_text(attn_text *t, const srv_analysis *an) {
    for (size_t i = 0; i < an->measures.count; i++)
        text_of_head(t, an, i);
    for (size_t b = 0; srv_analysis_has(an, SRV_AN_PAIRS) && b < an->B; b++)
        text_of_pairs(t, b, &an->pairs[b]);
    for (size_t i = 0; srv_analysis_has(an, SRV_AN_DIAGNOSES) && i < an->diagnoses.count; i++)
        attn_text_add(t, "\n%s: %s\n", an->diagnoses.items[i].code, an->diagnoses.items[i].text);
    for (unsigned i = 0; 1u << i <= SRV_AN_ROLLOUT; i++)
        if (srv_analysis_omits(an, 1u << i))
            attn_text_add(t, "\n%s is left out: it needs %s\n", srv_analysis_items[i],
                          srv_analysis_omits(an, 1u << i));
    attn_text_add(t, "\n%s\n", attn_analysis_caveat());
}
