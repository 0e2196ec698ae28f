/* Warnings about masks that are legal but probably not intended. A warning is a code
 * and numbers; programs word their own advice. attn_mask_lint makes them. */
#ifndef ATTN_WARNING_H
#define ATTN_WARNING_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* All warnings, each with the sentence that attn_warning_text returns. Besides `code` a warning
 * sets these members of attn_warning (letters as in mask.h):
 *   MASK_…, CAUSAL_AT_START   layer
 *   PADDING_OF_QUERIES        layer, batch, keys (hidden from every query), queries (see no key)
 *   PADDING_SEEN              layer, batch, key, queries (the key is hidden from them), query (the
 *                             first query that sees the key)
 *   PADDING_GAP               layer, batch, key
 *   FILL_LEAKS                value (the fill)
 *   FILL_UNUSED               layer (whose numbers are added)
 *   LOW_NUMBERS               layer, value (the smallest number)
 *   ONLY_BITS                 layer
 *   POSITION_OFFSET           batch, value (the offset), keys (number of cached keys)
 *   POSITION_PADDING          layer, batch, key (the first one that is not padding)
 *   POSITION_TREE             layer, query (its row), key (the sibling before it, which the query
 *                             does not see)
 *   SUMS_HIDE                 value (the lowest sum)
 *   HIDDEN_ROWS               queries (rows that see no key), rows, row_count, rows_read,
 *                             partial, all_batches, all_heads */
#define ATTN_WARNINGS(W)                                                                           \
    W(MASK_OR_PADDING, "a mask of rank 2 is read as [L, S] and not as [B, S]; B equals L")         \
    W(MASK_OR_BATCHES, "a mask of rank 3 is read as [H, L, S] and not as [B, L, S]; B equals H")   \
    W(MASK_INVERTED, "a query sees only keys after its own position, so the mask may be inverted") \
    W(MASK_TRANSPOSED, "a query sees the keys from its own position on, so the mask may be a "     \
                       "transposed causal mask")                                                   \
    W(MASK_AT_START, "a causal mask that is not square places the first query at the first key")   \
    W(CAUSAL_AT_START, "a causal layer with more keys than queries and no stated offset places "   \
                       "the first query at the first key")                                         \
    W(MASK_OF_QUERIES, "the last axis of the mask is 1, so it hides whole queries and no key")     \
    W(PADDING_OF_QUERIES, "padding keys are hidden from every query, and some queries see no key") \
    W(PADDING_SEEN, "a key that is hidden from most queries is visible to a few")                  \
    W(PADDING_GAP, "a padding key stands between real keys")                                       \
    W(FILL_LEAKS, "masked keys still receive weight, since the fill is not far below the scores")  \
    W(FILL_UNUSED,                                                                                 \
      "the fill has no effect, since nothing is hidden: the mask's numbers are added")             \
    W(LOW_NUMBERS, "low numbers of an additive mask take the weight of keys in rows that have "    \
                   "higher ones, but the keys count as visible")                                   \
    W(ONLY_BITS, "all numbers of an additive mask are 0 or 1, so no key is hidden")                \
    W(SUMS_HIDE, "sums of several additive masks are below the range of float32 and hide the key") \
    W(POSITION_START, "queries are encoded from position 0 on, though there are not as many keys") \
    W(POSITION_OFFSET,                                                                             \
      "the offset moves the positions of queries, but not of the keys beside them")                \
    W(POSITION_PADDING, "padding on the left has positions, so real tokens do not begin at 0")     \
    W(POSITION_TREE, "siblings of a tree are encoded at successive positions")                     \
    W(HIDDEN_ROWS, "some rows see no key, so their output and weights are 0")

#define ATTN_WARNING_NUMBER(name, text) ATTN_WARN_##name,
typedef enum attn_warning_code {
    ATTN_WARNINGS(ATTN_WARNING_NUMBER) ATTN_WARNING_COUNT
} attn_warning_code;
#undef ATTN_WARNING_NUMBER

typedef struct attn_warning_row {
    size_t batch, head, query;
} attn_warning_row;

typedef struct attn_warning {
    attn_warning_code code;
    const struct attn_mask_layer *layer; /* layer of the mask that the warning is about; or NULL */
    size_t batch, query, key;            /* batch entry, query and key that it is about */
    size_t queries, keys;                /* numbers of queries and of keys that it is about */
    double value;
    const attn_warning_row *rows; /* [row_count]: the first rows of those that were found */
    size_t row_count;
    size_t rows_read; /* number of rows that were checked */
    bool partial;     /* the check ended before the last row, because it has a limit */
    bool all_batches; /* all batch entries have the same mask, so only the first was checked */
    bool all_heads;   /* all heads have the same mask, so only the first was checked */
} attn_warning;

typedef struct attn_warnings {
    attn_warning *items;
    size_t count;
    size_t B, H, L, S; /* shape of the weights that the mask belongs to */
    bool has_heads;    /* these weights have a head axis */
} attn_warnings;

/* Returns the sentence of a warning, such as "a padding key stands between real keys"; NULL if
 * there is no such code. */
const char *attn_warning_text(attn_warning_code code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
