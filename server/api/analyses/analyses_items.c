/* The items of an analysis: their names, the measures of each item, and the inputs that items
 * need. */
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
    static const struct {
        attn_measure last; /* the last measure of the item; measures of an item are adjacent */
        unsigned item;
    } items[] = {
        {ATTN_PARTICIPATION, SRV_AN_ENTROPY},
        {ATTN_SATURATED_ROWS, SRV_AN_CONFIDENCE},
        {ATTN_RELATIVE_DISTANCE, SRV_AN_DISTANCE},
        {ATTN_POSITIONAL_MASS, SRV_AN_POSITIONAL},
        {ATTN_LOCAL_MASS, SRV_AN_LOCAL},
        {ATTN_SINK_LOGIT_MASS, SRV_AN_SINK},
        {ATTN_GINI, SRV_AN_RECEIVED},
        {ATTN_DUPLICATE_TOKEN, SRV_AN_DUPLICATE},
        {ATTN_INDUCTION, SRV_AN_INDUCTION},
        {ATTN_SAME_KIND, SRV_AN_STRUCTURE},
        {ATTN_BLOCK_MASS, SRV_AN_BLOCKS},
        {ATTN_MEASURE_SCORE_MAX, SRV_AN_SCORES},
        {ATTN_VALUE_FIRST_TOKEN, SRV_AN_VALUE_NORM},
    };
    size_t i = 0;
    while (m > items[i].last)
        i++;
    return items[i].item;
}

/* Items that do not measure shares of attention. */
#define UNSHARED (SRV_AN_SCORES | SRV_AN_VALUE_NORM)

/* Returns a description of the input that the item needs and that the request lacks. NULL: the item
 * can be computed. */
static const char *missing_input(const srv_analysis *an, unsigned item) {
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
        return an->source.has_negative ? "the scores of one head: mixed weights are of several"
               : an->source.has_logits ? NULL
                                       : "query and key, or a stored run: weights have none";
    case SRV_AN_VALUE_NORM:
        return an->value_norms ? NULL : "values (POST /v1/attention, or a run that has them)";
    case SRV_AN_PAIRS:
        return an->pairs ? NULL : "two heads";
    default:
        return NULL;
    }
}

const char *srv_analysis_omits(const srv_analysis *an, unsigned item) {
    const bool named =
        !(an->items & SRV_AN_ALL) || item > SRV_AN_ALL || (an->unshared && !(item & UNSHARED));
    return item != SRV_AN_ALL && named && (an->items & item) ? missing_input(an, item) : NULL;
}

bool srv_analysis_has(const srv_analysis *an, unsigned item) {
    return (an->items & item) && !missing_input(an, item);
}

bool srv_analysis_shows(const srv_analysis *an, attn_measure m) {
    return srv_analysis_has(an, item_of(m));
}

bool srv_analysis_has_uniform(attn_measure m) {
    return m != ATTN_POSITIONAL_OFFSET && m != ATTN_POSITIONAL_SHARE && m != ATTN_POSITIONAL_MASS &&
           m != ATTN_MEASURE_SCORE_SPREAD && m != ATTN_MEASURE_SCORE_MAX &&
           m != ATTN_SINK_LOGIT_MASS;
}
