/* Formulas: layers that show keys by the position of the query and the position of the key alone
 * (causal, window, pattern), or by the position of the key alone (prefix, lengths). A head may have
 * a window or a pattern of its own. Positions are indices, or numbers that the caller gives
 * (attn_mask.placed). */
#ifndef ATTN_MASK_FORMULA_H
#define ATTN_MASK_FORMULA_H

#include "mask/rule.h"

/* Rows i … i + rows - 1 of head h and batch entry b. */
typedef struct attn_rule_block {
    const attn_mask *m;
    size_t b, h, i, rows;
    int64_t first, last; /* the indices i + offset of the first and of the last row */
    /* With positions of the caller: the smallest and the largest position of the rows that have
     * one. `some`: at least one row has a position. `free`: at least one row has none. */
    int64_t least, most;
    bool some, free;
} attn_rule_block;

attn_rule_block attn_rule_block_at(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows);

/* The smallest and the largest position of some consecutive keys. */
struct attn_key_run {
    int64_t least, most; /* least > most: no key has a position */
    bool free;           /* at least one key has no position */
};

/* Reads the positions of a specification into a mask whose shape and offsets are set. Errors:
 * ATTN_ESHAPE, ATTN_EDTYPE, ATTN_EVALUE, ATTN_ENOMEM. */
attn_status attn_formula_positions(attn_mask *m, const attn_mask_spec *spec, attn_arena *arena,
                                   attn_error *err);

/* Checks the window or pattern of a layer, or the windows or patterns of its heads. Clears
 * m->same_heads if heads differ. Errors: ATTN_EARG, ATTN_ESHAPE. */
attn_status attn_formula_check(attn_mask *m, const attn_mask_layer *layer, attn_error *err);
/* Returns whether a layer of this kind is a formula. */
bool attn_is_formula(attn_layer_kind kind);
/* Sets keep[j - j0] to 1 if the formula shows key j to the only row of the block, else to 0. */
void attn_formula_keep(const attn_rule *r, const attn_rule_block *row, size_t j0, size_t n,
                       uint8_t *keep);
/* Returns an interval with all keys of `keys` that a row of the block sees. `keys` is not empty. */
attn_interval attn_formula_hull(const attn_rule *r, const attn_rule_block *at, attn_interval keys);
/* Returns keys of `keys` that all rows of the block see. `keys` is not empty. */
attn_interval attn_formula_common(const attn_rule *r, const attn_rule_block *at,
                                  attn_interval keys);

#endif
