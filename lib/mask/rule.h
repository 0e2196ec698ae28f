/* Rules: layers that combine other layers (any_of, all_of, not), layers whose tables decide which
 * keys a query sees (prefix, documents, tree, top_k), and formulas that differ by head or compare
 * the caller's positions (formula.h). A rule and its parts are consecutive nodes in
 * attn_mask.rules, each before its parts. Rules are read for one row and a range of keys at a time;
 * no function makes a matrix. */
#ifndef ATTN_MASK_RULE_H
#define ATTN_MASK_RULE_H

#include "mask/interval.h"
#include "mask/mask_private.h"

/* The entry of a rule's table for one key: the keys that a query at the position of this key
 * sees. */
typedef struct attn_rule_key {
    size_t from, to; /* the first key that this query sees, and the one behind the last */
    /* DOCUMENTS: `enter` is `from`, and `leave` is `from` plus the number of keys of the document.
     * TREE: numbers of a walk through the tree, parents first. A query sees key j if j's enter <=
     * its own enter < j's leave. */
    size_t enter, leave;
} attn_rule_key;

struct attn_rule {
    const attn_mask_layer *layer;
    size_t nodes;              /* the rule and all parts below it */
    attn_mask_part part;       /* visibility of tensors, padding, tokens and bits */
    const int64_t *lengths;    /* PREFIX and LENGTHS: [B] */
    const attn_rule_key *keys; /* DOCUMENTS and TREE: [B, S], or [S] if one_entry */
    bool one_entry;
    /* DOCUMENTS and TREE: the numbers of the layer; TOP_K: sorted rows of width k */
    attn_view view;
    size_t width;
};

/* Returns the number of layers that layer i and its parts take. */
static inline size_t attn_mask_nodes(const attn_mask *m, size_t i) {
    return m->rules && m->rules[i].layer ? m->rules[i].nodes : 1;
}

/* Makes the tables of a rule of kind DOCUMENTS, TREE or TOP_K. */
attn_status attn_rule_documents(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err);
attn_status attn_rule_tree(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err);
attn_status attn_rule_top_k(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err);

/* Returns whether a layer that is not a part is compiled to a rule. `placed`: formulas compare
 * positions of the caller. */
bool attn_layer_is_rule(const attn_mask_layer *layer, bool placed);
/* Returns whether a rule hides cell (b, h, i, j), without the other layers. */
bool attn_rule_hides(const attn_mask *m, const attn_rule *r, size_t b, size_t h, size_t i,
                     size_t j);
/* Sets keep[j - j0] to 0 for the keys j0 … j0 + n - 1 that one of the mask's rules hides from
 * row i. */
void attn_rules_and(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *keep);
/* Narrows *keys to an interval that contains all of its keys that the mask's rules show to any of
 * the rows i … i + rows - 1 of head h. */
void attn_rules_narrow(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows,
                       attn_interval *keys);
/* Narrows *keys to an interval of keys that the rules show to all of these rows. It may be shorter
 * than possible, or empty. */
void attn_rules_common(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows,
                       attn_interval *keys);

#endif
