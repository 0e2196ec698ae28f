/* Writes the answer of an analysis: the measures of each head next to those that uniform attention
 * would have, distances between pairs of heads, diagnoses, and a legend that says what each number
 * means. */
#include <math.h>

#include "api/analyses/analyses_call.h"

/* The items that every analysis has, in the order of the bits SRV_AN_*. */
#define ITEMS                                                                                      \
    "entropy", "confidence", "distance", "positional", "local", "sink", "received", "duplicate",   \
        "induction", "structure", "blocks", "scores", "classes", "patterns", "pairs", "diagnoses", \
        "all", "value_norm"

const char *const srv_analysis_items[] = {ITEMS, "rollout", "gradient", NULL};
const char *const srv_analysis_items_model[] = {ITEMS, "rollout", NULL};
const char *const srv_analysis_items_run[] = {ITEMS, NULL};

/* Returns the item of `analysis` (SRV_AN_*) that includes the measure. */
static unsigned item_of(attn_measure m) {
    static const unsigned items[ATTN_MEASURES] = {
        [ATTN_ENTROPY] = SRV_AN_ENTROPY,
        [ATTN_NORMALIZED_ENTROPY] = SRV_AN_ENTROPY,
        [ATTN_EFFECTIVE_TOKENS] = SRV_AN_ENTROPY,
        [ATTN_PARTICIPATION] = SRV_AN_ENTROPY,
        [ATTN_CONFIDENCE] = SRV_AN_CONFIDENCE,
        [ATTN_SATURATED_ROWS] = SRV_AN_CONFIDENCE,
        [ATTN_DISTANCE] = SRV_AN_DISTANCE,
        [ATTN_SIGNED_DISTANCE] = SRV_AN_DISTANCE,
        [ATTN_RELATIVE_DISTANCE] = SRV_AN_DISTANCE,
        [ATTN_PREVIOUS_TOKEN] = SRV_AN_POSITIONAL,
        [ATTN_CURRENT_TOKEN] = SRV_AN_POSITIONAL,
        [ATTN_NEXT_TOKEN] = SRV_AN_POSITIONAL,
        [ATTN_POSITIONAL_OFFSET] = SRV_AN_POSITIONAL,
        [ATTN_POSITIONAL_SHARE] = SRV_AN_POSITIONAL,
        [ATTN_POSITIONAL_MASS] = SRV_AN_POSITIONAL,
        [ATTN_LOCAL_MASS] = SRV_AN_LOCAL,
        [ATTN_FIRST_TOKEN] = SRV_AN_SINK,
        [ATTN_SINK] = SRV_AN_SINK,
        [ATTN_SINK_KEY] = SRV_AN_SINK,
        [ATTN_SINK_LOGIT_MASS] = SRV_AN_SINK,
        [ATTN_TOP_SHARE] = SRV_AN_RECEIVED,
        [ATTN_GINI] = SRV_AN_RECEIVED,
        [ATTN_DUPLICATE_TOKEN] = SRV_AN_DUPLICATE,
        [ATTN_INDUCTION] = SRV_AN_INDUCTION,
        [ATTN_SAME_KIND] = SRV_AN_STRUCTURE,
        [ATTN_BLOCK_MASS] = SRV_AN_BLOCKS,
        [ATTN_MEASURE_SCORE_SPREAD] = SRV_AN_SCORES,
        [ATTN_MEASURE_SCORE_MAX] = SRV_AN_SCORES,
        [ATTN_VALUE_NORM] = SRV_AN_VALUE_NORM,
        [ATTN_VALUE_ENTROPY] = SRV_AN_VALUE_NORM,
        [ATTN_VALUE_FIRST_TOKEN] = SRV_AN_VALUE_NORM,
    };
    return items[m];
}

/* Items that measure something else than shares of attention. */
#define UNSHARED (SRV_AN_SCORES | SRV_AN_VALUE_NORM)

/* Returns a description of the input that the item needs and that the request lacks. NULL: the item
 * can be computed. */
static const char *lacks(const srv_analysis *an, unsigned item) {
    if (an->unshared && !(item & UNSHARED))
        return "shares of attention: weights that are not negative, in rows that sum to at most 1";
    switch (item) {
    case SRV_AN_DUPLICATE:
    case SRV_AN_INDUCTION:
        return an->options.query_tokens ? NULL : "a label of each key, or ids (POST /v1/analyses)";
    case SRV_AN_STRUCTURE:
        return an->options.query_kinds ? NULL
                                       : "a label of each key, or classes (POST /v1/analyses)";
    case SRV_AN_CLASSES:
        return an->options.class_count ? NULL
                                       : "labels with punctuation or special tokens among them, or "
                                         "classes (POST /v1/analyses)";
    case SRV_AN_BLOCKS:
        return an->options.segment_count ? NULL : "segments (POST /v1/analyses)";
    case SRV_AN_SCORES:
        return an->source.has_logits ? NULL : "query and key, or a stored run: weights have none";
    case SRV_AN_VALUE_NORM:
        return an->value_norms ? NULL : "values (POST /v1/attention, or a run that has them)";
    case SRV_AN_PAIRS:
        return an->pairs ? NULL : "two heads";
    default:
        return NULL;
    }
}

/* Returns whether the request names the item although the item cannot be computed. */
static bool is_omitted(const srv_analysis *an, unsigned item) {
    const bool named =
        !(an->items & SRV_AN_ALL) || item > SRV_AN_ALL || (an->unshared && !(item & UNSHARED));
    return named && (an->items & item) && lacks(an, item);
}

bool srv_analysis_has(const srv_analysis *an, unsigned item) {
    return (an->items & item) && !lacks(an, item);
}

bool srv_analysis_shows(const srv_analysis *an, attn_measure m) {
    return srv_analysis_has(an, item_of(m));
}

bool srv_analysis_has_uniform(attn_measure m) {
    return m != ATTN_POSITIONAL_OFFSET && m != ATTN_POSITIONAL_SHARE && m != ATTN_POSITIONAL_MASS &&
           m != ATTN_MEASURE_SCORE_SPREAD && m != ATTN_MEASURE_SCORE_MAX &&
           m != ATTN_SINK_LOGIT_MASS;
}

void srv_analysis_place(attn_json_text *j, const srv_analysis *an, size_t batch, size_t head) {
    size_t batches = an->layers ? an->B / an->layers : an->B;
    if (an->layered)
        attn_json_key_size(j, "layer", batch / batches);
    attn_json_key_size(j, "batch", an->layered ? batch % batches : batch);
    if (head == SIZE_MAX)
        return;
    attn_json_key_size(j, "head", head);
}

/* Whole numbers are written in full, because a count may be too large for float32 to hold exactly. */
void srv_analysis_number(attn_json_text *j, const char *name, double value) {
    attn_json_key(j, name);
    if (value == rint(value))
        attn_json_real(j, value);
    else
        attn_json_float(j, (float)value);
}

static void write_measures(attn_json_text *j, const srv_analysis *an, const char *name,
                           const double values[ATTN_MEASURES], bool uniform) {
    attn_json_key_object(j, name);
    for (attn_measure m = 0; m < ATTN_MEASURES; m++)
        if (srv_analysis_shows(an, m) && (!uniform || srv_analysis_has_uniform(m)))
            srv_analysis_number(j, attn_measure_about(m)->name, values[m]);
    attn_json_object_end(j);
}

static void write_classes(attn_json_text *j, const srv_analysis *an, const attn_head_measures *h) {
    attn_json_key_array(j, "classes");
    for (size_t c = 0; c < an->options.class_count; c++) {
        attn_json_object(j);
        attn_json_key_string(j, "name", an->options.classes[c].name);
        srv_analysis_number(j, "mass", h->class_mass[c]);
        srv_analysis_number(j, "uniform", h->class_uniform[c]);
        srv_analysis_number(j, "lift",
                            h->class_uniform[c] > 0 ? h->class_mass[c] / h->class_uniform[c] : NAN);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void write_top(attn_json_text *j, const srv_analysis *an, const attn_head_measures *h) {
    const srv_strings *labels = &srv_labels_of(an->labels, h->batch)->key;
    attn_json_key_array(j, "top_keys");
    for (size_t i = 0; i < h->top_count; i++) {
        attn_json_object(j);
        attn_json_key_size(j, "key", h->top[i].key);
        if (h->top[i].key < labels->count)
            attn_json_key_string(j, "label", labels->values[h->top[i].key]);
        srv_analysis_number(j, "mass", h->top[i].mass);
        srv_analysis_number(j, "mean", h->top[i].mean);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void write_square(attn_json_text *j, const char *name, const double *values, size_t rows,
                         size_t cols) {
    attn_json_key_array(j, name);
    for (size_t r = 0; r < rows; r++) {
        attn_json_array(j);
        for (size_t c = 0; c < cols; c++)
            attn_json_float(j, (float)values[r * cols + c]);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

void srv_analysis_pattern(attn_json_text *j, const attn_pattern_name *p) {
    attn_json_key_object(j, "pattern");
    attn_json_key_string(j, "name", p->name);
    attn_json_key_string(j, "shape", p->shape);
    attn_json_key_string(j, "text", p->text);
    attn_json_object_end(j);
}

static void write_head(attn_json_text *j, const srv_analysis *an, size_t i) {
    const attn_head_measures *h = &an->measures.items[i];
    const size_t G = an->options.segment_count;
    attn_json_object(j);
    srv_analysis_place(j, an, h->batch, h->head);
    if (!an->as_tensors)
        attn_json_key_size(j, "num_rows", h->rows);
    if (an->patterns)
        srv_analysis_pattern(j, &an->patterns[i]);
    if (!an->as_tensors) {
        write_measures(j, an, "measures", h->values, false);
        write_measures(j, an, "uniform", h->uniform, true);
    }
    if (srv_analysis_has(an, SRV_AN_CLASSES))
        write_classes(j, an, h);
    if (srv_analysis_has(an, SRV_AN_RECEIVED))
        write_top(j, an, h);
    if (srv_analysis_has(an, SRV_AN_BLOCKS) && !an->as_tensors)
        write_square(j, "blocks", h->blocks, G, G);
    attn_json_object_end(j);
}

static void write_pairs(attn_json_text *j, const srv_analysis *an) {
    attn_json_key_array(j, "pairs");
    for (size_t b = 0; b < an->B; b++) {
        const attn_head_distances *d = &an->pairs[b];
        attn_json_object(j);
        srv_analysis_place(j, an, d->batch, SIZE_MAX);
        srv_analysis_number(j, "mean_js", d->mean_js);
        srv_analysis_number(j, "mean_cosine", d->mean_cosine);
        srv_analysis_number(j, "mean_centered_cosine", d->mean_centered);
        if (!an->as_tensors) {
            write_square(j, "js", d->js, d->rows, d->cols);
            write_square(j, "cosine", d->cosine, d->rows, d->cols);
            write_square(j, "centered_cosine", d->centered, d->rows, d->cols);
        }
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void write_diagnosis(attn_json_text *j, const srv_analysis *an, const attn_diagnosis *d) {
    attn_json_object(j);
    attn_json_key_string(j, "code", d->code);
    attn_json_key_string(j, "text", d->text);
    attn_json_key_object(j, "numbers");
    for (size_t i = 0; i < d->number_count; i++)
        srv_analysis_number(j, d->numbers[i].name, d->numbers[i].value);
    attn_json_object_end(j);
    attn_json_key_array(j, "heads");
    for (size_t i = 0; i < d->head_count; i++) {
        const attn_head_measures *h = &an->measures.items[d->heads[i]];
        attn_json_object(j);
        srv_analysis_place(j, an, h->batch, h->head);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
    attn_json_object_end(j);
}

void srv_analysis_legend(attn_json_text *j, const attn_measure_info *about) {
    attn_json_key_object(j, about->name);
    attn_json_key_string(j, "formula", about->formula);
    attn_json_key_string(j, "range", about->range);
    if (about->paper[0])
        attn_json_key_string(j, "paper", about->paper);
    attn_json_object_end(j);
}

/* Returns whether a head has queries and keys of different sequences. */
static bool any_across(const srv_analysis *an) {
    for (size_t i = 0; i < an->measures.count; i++)
        if (an->measures.items[i].across)
            return true;
    return false;
}

static void write_legend(attn_json_text *j, const srv_analysis *an) {
    static const attn_measure_info others[] = {
        {"num_rows", "rows that see a key and have weight; means are over these rows", "0 to L",
         ""},
        {"uniform",
         "the same measure if every row spreads its weight evenly over its visible keys, which "
         "shows the effect of the mask alone",
         "", ""},
        {"classes",
         "mass: mean of the sum of p_ij over keys j of the class; lift: mass / its value "
         "under uniform attention",
         "mass 0 to 1", "Clark et al. 2019, arXiv:1906.04341"},
        {"top_keys", "mass: sum over rows of p_ij; mean: over the rows that see the key",
         "mean 0 to 1", "Zhang et al. 2023, arXiv:2306.14048"},
        {"blocks", "[a][b]: mean over rows of segment a of the mass on keys of segment b", "0 to 1",
         "Kovaleva et al. 2019, arXiv:1908.08593"},
        {"js", "mean over rows of H((q + r)/2) - (H(q) + H(r))/2 of two heads' rows", "0 to ln 2",
         "Clark et al. 2019, arXiv:1906.04341"},
        {"cosine", "cosine of two heads' matrices as vectors", "-1 to 1",
         "Li et al. 2018, arXiv:1810.10183"},
        {"centered_cosine",
         "the same after the uniform attention of the mask is subtracted from both", "-1 to 1", ""},
        {"alignment",
         "a pattern of cross-attention. Either the mass within max(1, S / 8) keys of the line from "
         "the first query and key to the last is at least 0.6 and 1.5 times its uniform value. Or "
         "the keys of the largest weights never step back, except that two neighbouring rows may "
         "exchange two near keys (once in four rows), they go from the first quarter of the keys "
         "to "
         "the last on 0.8 of the keys, and the mean largest weight is at least 0.8 (0.85 with "
         "exchanges); rows of special tokens do not count",
         "", ""},
    };
    const bool uses[] = {true,
                         true,
                         srv_analysis_has(an, SRV_AN_CLASSES),
                         srv_analysis_has(an, SRV_AN_RECEIVED),
                         srv_analysis_has(an, SRV_AN_BLOCKS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PATTERNS) && any_across(an)};
    attn_json_key_object(j, "legend");
    for (attn_measure m = 0; m < ATTN_MEASURES; m++)
        if (srv_analysis_shows(an, m))
            srv_analysis_legend(j, attn_measure_about(m));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (uses[i])
            srv_analysis_legend(j, &others[i]);
    attn_json_object_end(j);
}

static void write_omitted(attn_json_text *j, const srv_analysis *an) {
    bool any = false;
    for (unsigned i = 0; 1u << i <= SRV_AN_ROLLOUT; i++) {
        if (1u << i == SRV_AN_ALL || !is_omitted(an, 1u << i))
            continue;
        if (!any)
            attn_json_key_object(j, "omitted");
        any = true;
        attn_json_key_string(j, srv_analysis_items[i], lacks(an, 1u << i));
    }
    if (any)
        attn_json_object_end(j);
}

void srv_analysis_members(attn_json_text *j, const srv_analysis *an) {
    attn_json_key_array(j, "heads");
    for (size_t i = 0; i < an->measures.count; i++)
        write_head(j, an, i);
    attn_json_array_end(j);
    if (srv_analysis_has(an, SRV_AN_PAIRS))
        write_pairs(j, an);
    if (srv_analysis_has(an, SRV_AN_DIAGNOSES)) {
        attn_json_key_array(j, "diagnoses");
        for (size_t i = 0; i < an->diagnoses.count; i++)
            write_diagnosis(j, an, &an->diagnoses.items[i]);
        attn_json_array_end(j);
    }
    write_omitted(j, an);
    write_legend(j, an);
    attn_json_key_string(j, "caveat", attn_analysis_caveat());
}

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
        if (1u << i != SRV_AN_ALL && is_omitted(an, 1u << i))
            attn_text_add(t, "\n%s is left out: it needs %s\n", srv_analysis_items[i],
                          lacks(an, 1u << i));
    attn_text_add(t, "\n%s\n", attn_analysis_caveat());
}
