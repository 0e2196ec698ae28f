/* Names the attention pattern of a head, by rules on its measures. Specific rules are tried before
 * general ones. Most rules need a measure that is clearly higher than under uniform attention with
 * the same mask. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/diagnose.h"
#include "base/try.h"

/* The head, and the name and sentence found for it. */
typedef struct naming {
    const attn_head_measures *head;
    const attn_measure_options *options;
    attn_sentence text;
    char name[64];
} naming;

static double value_of(const naming *n, attn_measure m) {
    double v = n->head->values[m];
    return isnan(v) ? 0 : v;
}

static double uniform_value(const naming *n, attn_measure m) {
    double v = n->head->uniform[m];
    return isnan(v) ? 0 : v;
}

/* Tells whether a measure is at least `least`, and at least `lift` times its value under uniform
 * attention. */
static bool stands_out(const naming *n, attn_measure m, double least, double lift) {
    return value_of(n, m) >= least && value_of(n, m) >= lift * uniform_value(n, m);
}

static bool set_name(naming *n, const char *name) {
    strncpy(n->name, name, sizeof n->name - 1);
    return true;
}

static bool name_uniform(naming *n) {
    if (!(value_of(n, ATTN_NORMALIZED_ENTROPY) > ATTN_UNIFORM_ENTROPY))
        return false;
    attn_analysis_say(&n->text,
                      "spreads its weight evenly: entropy is %.1f %% of the most that "
                      "the mask allows",
                      100 * value_of(n, ATTN_NORMALIZED_ENTROPY));
    return set_name(n, "uniform");
}

/* Tells whether the weights of cross-attention lie near the line from the first query and key to
 * the last. */
static bool is_near_the_line(const naming *n) {
    const attn_head_measures *h = n->head;
    return h->across && h->aligned >= 0.6 && h->aligned >= 1.5 * h->aligned_uniform;
}

/* Tells whether the largest weights of cross-attention are in order and hold most of the weight.
 * This rule also holds for short sequences. The rule of the line does not: with three keys, most
 * weights are near the line in any case. */
static bool is_in_order(const naming *n) {
    const attn_head_measures *h = n->head;
    return h->ordered && value_of(n, ATTN_CONFIDENCE) >= (h->exchanges ? 0.85 : 0.8);
}

static bool is_aligned(const naming *n) {
    return is_near_the_line(n) || is_in_order(n);
}

static bool name_alignment(naming *n) {
    const size_t exchanges = n->head->exchanges;
    if (!is_aligned(n))
        return false;
    if (!is_near_the_line(n)) {
        attn_analysis_say(&n->text,
                          "goes through the keys as the queries go on: the key of the largest "
                          "weight never steps back");
        if (exchanges)
            attn_analysis_say(&n->text, ", but for %zu exchange%s of neighbours", exchanges,
                              attn_plural(exchanges));
        attn_analysis_say(&n->text, ", and this key holds %.0f %% of a row's weight",
                          100 * value_of(n, ATTN_CONFIDENCE));
        return set_name(n, "alignment");
    }
    attn_analysis_say(&n->text,
                      "goes through the keys as the queries go on: %.0f %% of the weight lies near "
                      "the line from the first query and key to the last, %.3g times as much as "
                      "evenly spread weight",
                      100 * n->head->aligned, n->head->aligned / n->head->aligned_uniform);
    return set_name(n, "alignment");
}

static bool name_repeats(naming *n) {
    if (n->head->across)
        return false;
    if (stands_out(n, ATTN_INDUCTION, 0.4, ATTN_LIFT)) {
        attn_analysis_say(&n->text,
                          "looks at what followed the same token before: %.0f %% of the "
                          "weight of rows that have such a key",
                          100 * value_of(n, ATTN_INDUCTION));
        return set_name(n, "induction");
    }
    if (!stands_out(n, ATTN_DUPLICATE_TOKEN, 0.4, ATTN_LIFT))
        return false;
    attn_analysis_say(&n->text,
                      "looks at earlier copies of its own token: %.0f %% of the weight "
                      "of rows that have one",
                      100 * value_of(n, ATTN_DUPLICATE_TOKEN));
    return set_name(n, "duplicate token");
}

static bool name_positional(naming *n) {
    double k = value_of(n, ATTN_POSITIONAL_OFFSET);
    if (!(value_of(n, ATTN_POSITIONAL_SHARE) >= ATTN_POSITIONAL &&
          value_of(n, ATTN_POSITIONAL_MASS) >= 0.5))
        return false;
    if (k == 0 || fabs(k) == 1)
        set_name(n, k == 0 ? "current token" : k < 0 ? "previous token" : "next token");
    else
        snprintf(n->name, sizeof n->name, "offset %+.0f", k);
    attn_analysis_say(&n->text,
                      "looks at the %s: the largest weight of %.0f %% of the rows lies "
                      "there; rows that have this key give it %.0f %% of their weight",
                      k == 0 || fabs(k) == 1 ? n->name : "same distance everywhere",
                      100 * value_of(n, ATTN_POSITIONAL_SHARE),
                      100 * value_of(n, ATTN_POSITIONAL_MASS));
    return true;
}

static double class_lift(const attn_head_measures *h, size_t c) {
    return h->class_uniform[c] > 0 ? h->class_mass[c] / h->class_uniform[c] : 0;
}

/* Returns the class of keys with the highest lift among the classes with at least half of the mass,
 * or SIZE_MAX if no class stands out. The lift is the mass divided by the mass under uniform
 * attention. */
static size_t best_class(const naming *n) {
    const attn_head_measures *h = n->head;
    size_t best = SIZE_MAX;
    for (size_t c = 0; c < n->options->class_count; c++)
        if (h->class_mass[c] >= 0.5 && class_lift(h, c) >= ATTN_LIFT &&
            (best == SIZE_MAX || class_lift(h, c) > class_lift(h, best)))
            best = c;
    return best;
}

static bool name_class(naming *n) {
    size_t c = best_class(n);
    if (c == SIZE_MAX)
        return false;
    attn_analysis_say(&n->text,
                      "looks at %s: %.0f %% of its weight, %.3g times their share of the "
                      "keys",
                      n->options->classes[c].name, 100 * n->head->class_mass[c],
                      class_lift(n->head, c));
    return set_name(n, n->options->classes[c].name);
}

static double nearby_mass(const naming *n) {
    double sum = value_of(n, ATTN_PREVIOUS_TOKEN) + value_of(n, ATTN_CURRENT_TOKEN) +
                 value_of(n, ATTN_NEXT_TOKEN);
    return sum < 1 ? sum : 1;
}

static double nearby_uniform_mass(const naming *n) {
    return uniform_value(n, ATTN_PREVIOUS_TOKEN) + uniform_value(n, ATTN_CURRENT_TOKEN) +
           uniform_value(n, ATTN_NEXT_TOKEN);
}

static bool name_structural(naming *n) {
    if (n->head->across || !stands_out(n, ATTN_SAME_KIND, 0.3, ATTN_LIFT))
        return false;
    attn_analysis_say(&n->text,
                      "connects tokens of one kind: rows with another of their kind give "
                      "it %.0f %%, %.3g times its share",
                      100 * value_of(n, ATTN_SAME_KIND),
                      value_of(n, ATTN_SAME_KIND) / uniform_value(n, ATTN_SAME_KIND));
    return set_name(n, "structural");
}

static bool name_adjacent(naming *n) {
    if (!(nearby_mass(n) >= 0.8 && nearby_mass(n) >= 1.5 * nearby_uniform_mass(n)))
        return false;
    attn_analysis_say(&n->text,
                      "looks at neighbours: %.0f %% on the previous token, %.0f %% on its "
                      "own, %.0f %% on the next, each a mean over the rows that have such a key",
                      100 * value_of(n, ATTN_PREVIOUS_TOKEN), 100 * value_of(n, ATTN_CURRENT_TOKEN),
                      100 * value_of(n, ATTN_NEXT_TOKEN));
    return set_name(n, "adjacent");
}

static bool name_vertical(naming *n) {
    if (!stands_out(n, ATTN_SINK, 0.5, ATTN_LIFT))
        return false;
    double key = value_of(n, ATTN_SINK_KEY);
    attn_analysis_say(&n->text,
                      "looks at key %.0f whatever the query: %.0f %% of the weight of the "
                      "rows that see it",
                      key, 100 * value_of(n, ATTN_SINK));
    return set_name(n, key == 0 ? "first token" : "single key");
}

static bool name_blocks(naming *n) {
    if (stands_out(n, ATTN_BLOCK_MASS, 0.8, 1.5)) {
        attn_analysis_say(&n->text, "stays in its own segment: %.0f %% of its weight",
                          100 * value_of(n, ATTN_BLOCK_MASS));
        return set_name(n, "block");
    }
    if (!stands_out(n, ATTN_LOCAL_MASS, 0.8, 1.5))
        return false;
    attn_analysis_say(&n->text, "stays within %zu token%s: %.0f %% of its weight",
                      n->options->radius, attn_plural(n->options->radius),
                      100 * value_of(n, ATTN_LOCAL_MASS));
    return set_name(n, "local");
}

/* Names a head "nearly uniform", the grade below "uniform". This name is tried after all other
 * rules, since such a head may still fit one of them. */
static bool name_nearly_uniform(naming *n) {
    if (!(value_of(n, ATTN_NORMALIZED_ENTROPY) > ATTN_NEARLY_UNIFORM_ENTROPY))
        return false;
    attn_analysis_say(&n->text,
                      "spreads its weight nearly evenly: entropy is %.1f %% of the most that the "
                      "mask allows (uniform: above %.0f %%), and the largest weight of a row holds "
                      "%.0f %%",
                      100 * value_of(n, ATTN_NORMALIZED_ENTROPY), 100 * ATTN_UNIFORM_ENTROPY,
                      100 * value_of(n, ATTN_CONFIDENCE));
    return set_name(n, "nearly uniform");
}

static void name_rest(naming *n) {
    if (n->head->rows == 0) {
        attn_analysis_say(&n->text, "sees nothing");
        set_name(n, "none");
        return;
    }
    attn_analysis_say(&n->text,
                      "follows no rule that is known here: %.3g tokens share its weight, "
                      "the largest holds %.0f %%",
                      value_of(n, ATTN_EFFECTIVE_TOKENS), 100 * value_of(n, ATTN_CONFIDENCE));
    set_name(n, "heterogeneous");
}

/* Returns the shape of a head, a category of Kovaleva et al. 2019. They sorted heads by eye, so
 * these rules are our own. */
static const char *shape_of(const naming *n) {
    if (is_aligned(n))
        return "diagonal";
    size_t c = best_class(n);
    double vertical = c == SIZE_MAX ? 0 : n->head->class_mass[c];
    if (stands_out(n, ATTN_SINK, 0.2, ATTN_LIFT))
        vertical = fmax(vertical, value_of(n, ATTN_SINK));
    double diagonal = nearby_mass(n) >= 1.5 * nearby_uniform_mass(n) ? nearby_mass(n) : 0;
    if (value_of(n, ATTN_POSITIONAL_SHARE) >= ATTN_POSITIONAL)
        diagonal = fmax(diagonal, value_of(n, ATTN_POSITIONAL_MASS));
    if (vertical >= 0.2 && diagonal >= 0.2 && vertical + diagonal >= 0.7 &&
        fmax(vertical, diagonal) < 0.8)
        return "vertical+diagonal";
    if (diagonal >= 0.6 && diagonal >= vertical)
        return "diagonal";
    if (vertical >= 0.5)
        return "vertical";
    return stands_out(n, ATTN_BLOCK_MASS, 0.8, 1.5) ? "block" : "heterogeneous";
}

attn_status attn_name_pattern(const attn_head_measures *head, const attn_measure_options *options,
                              attn_arena *arena, attn_pattern_name *out, attn_error *err) {
    naming n = {.head = head, .options = options};
    if (!(name_uniform(&n) || name_alignment(&n) || name_repeats(&n) || name_positional(&n) ||
          name_class(&n) || name_structural(&n) || name_adjacent(&n) || name_vertical(&n) ||
          name_blocks(&n) || name_nearly_uniform(&n)))
        name_rest(&n);
    attn_pattern_name p = {.name = attn_arena_text(arena, n.name, strlen(n.name)),
                           .shape = shape_of(&n),
                           .text = attn_arena_text(arena, n.text.text, n.text.used)};
    ATTN_TAKEN(p.name && p.text, "the names of patterns", err);
    *out = p;
    return ATTN_OK;
}
