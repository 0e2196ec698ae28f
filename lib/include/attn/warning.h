/* Warnings about masks and weights that are legal but probably not intended. A warning is a code
 * and numbers; programs word their own advice. attn_mask_lint makes them. */
#ifndef ATTN_WARNING_H
#define ATTN_WARNING_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* All warnings, each with the sentence that attn_warning_text returns. The comment before a warning
 * names the members of attn_warning that it sets besides code. Letters are those of mask.h. */
#define ATTN_WARNINGS(W)                                                                             \
    /* layer */                                                                                      \
    W(MASK_OR_PADDING, "a mask of rank 2 is read as [L, S] and not as [B, S]; B equals L")           \
    /* layer */                                                                                      \
    W(MASK_OR_BATCHES, "a mask of rank 3 is read as [H, L, S] and not as [B, L, S]; B equals H")     \
    /* layer */                                                                                      \
    W(MASK_INVERTED, "a query sees only keys after its own position, so the mask may be inverted")   \
    /* layer */                                                                                      \
    W(MASK_TRANSPOSED, "a query sees the keys from its own position on, so the mask may be a "       \
                       "transposed causal mask")                                                     \
    /* layer */                                                                                      \
    W(MASK_AT_START, "a causal mask that is not square places the first query at the first key")     \
    /* layer */                                                                                      \
    W(CAUSAL_AT_START, "a causal layer with more keys than queries and no stated offset places "     \
                       "the first query at the first key")                                           \
    /* layer */                                                                                      \
    W(MASK_OF_QUERIES, "the last axis of the mask is 1, so it hides whole queries and no key")       \
    /* layer, batch, keys: hidden from every query, queries: see no key */                           \
    W(PADDING_OF_QUERIES, "padding keys are hidden from every query, and some queries see no key")   \
    /* layer, batch, key, queries: from which it is hidden, query: the first that sees it */         \
    W(PADDING_SEEN, "a key that is hidden from most queries is visible to a few")                    \
    /* layer, batch, key */                                                                          \
    W(PADDING_GAP, "a padding key stands between real keys")                                         \
    /* value: the fill */                                                                            \
    W(FILL_LEAKS, "masked keys still receive weight, since the fill is not far below the scores")    \
    /* queries: rows that see no key, rows_read, partial, rows, row_count, all_batches, all_heads  \
     */ \
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
    const struct attn_mask_layer *layer; /* the layer of the mask that it is about; NULL: none */
    size_t batch, head, query, key;      /* where it was found */
    size_t queries, keys;                /* how many it is about */
    double value;
    const attn_warning_row *rows; /* [row_count]: the first of the rows that it is about */
    size_t row_count;
    size_t rows_read; /* how many rows were checked */
    bool partial;     /* the check ended before the last row */
    bool all_batches; /* the same holds in all batch entries, and only the first was checked */
    bool all_heads;   /* likewise */
} attn_warning;

typedef struct attn_warnings {
    attn_warning *items;
    size_t count;
    size_t B, H, L, S; /* of the mask or weights that they are about */
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
