/* Masks. Callers state masks in many forms, and the library compiles all of them to one meaning:
 * each cell is visible or hidden, and has an additive part.
 *
 * Letters: B flattened batch, H query heads, L queries, S keys (cached ones included). A mask is a
 * list of layers. Boolean parts are combined by logical AND, float parts are summed; a float part
 * of -infinity hides. */
#ifndef ATTN_MASK_H
#define ATTN_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "pool.h"
#include "status.h"
#include "tensor.h"
#include "warning.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define ATTN_MASK_LAYERS 16

typedef enum attn_layer_kind {
    ATTN_LAYER_CAUSAL,  /* key j is visible to query i when j <= i + offset */
    ATTN_LAYER_WINDOW,  /* i + offset - left <= j <= i + offset + right, -1 = open */
    ATTN_LAYER_VALUES,  /* a tensor that broadcasts to the shape of the weights by NumPy's rules */
    ATTN_LAYER_BIAS,    /* as VALUES, always additive */
    ATTN_LAYER_PADDING, /* [B, S] or [S]: which keys are real */
    ATTN_LAYER_LENGTHS, /* [B]: the first length keys are real */
    ATTN_LAYER_PATTERN, /* attn_pattern: local, strided, block, global */
    ATTN_LAYER_TOKENS,  /* token ids [B, S] or [S]: a key is real when its id is not pad_id */
    ATTN_LAYER_BITS,    /* uint8 [.., L, ceil(S / 8)]; all axes but the last broadcast to the
                           weights. Bit j % 8 of byte j / 8 is 1 if key j is visible */
} attn_layer_kind;

/* Patterns hide keys by position p = i + offset. Tiles that they hide are skipped, not computed. */
typedef enum attn_pattern_kind {
    ATTN_PATTERN_LOCAL,   /* |j - p| <= radius */
    ATTN_PATTERN_STRIDED, /* (p - j) mod stride = 0, or |j - p| <= local.  Child et al. 2019,
                             section 4.2 */
    ATTN_PATTERN_BLOCK,   /* floor(p / size) = floor(j / size) */
    ATTN_PATTERN_GLOBAL,  /* j < keys, p < keys, or |j - p| <= local.      Beltagy, Peters and Cohan
                             2020 */
} attn_pattern_kind;

typedef struct attn_pattern {
    attn_pattern_kind kind;
    int64_t radius, stride, size, keys, local; /* sizes and strides >= 1, the others >= 0 */
} attn_pattern;

/* The meaning of 0 and 1, and for padding also of booleans. In VALUES the boolean true means
 * attend. */
typedef enum attn_semantics {
    ATTN_SEM_UNSTATED = 0,
    ATTN_SEM_KEEP,     /* 1 or true = attend */
    ATTN_SEM_HIDE,     /* 1 or true = hidden */
    ATTN_SEM_ADDITIVE, /* added to the score */
} attn_semantics;

typedef struct attn_mask_layer {
    attn_layer_kind kind;
    const char *where;  /* its name in errors: "attn_mask", "masks/1/values"; NULL = "mask" */
    attn_tensor values; /* VALUES, BIAS, PADDING, LENGTHS, TOKENS, BITS */
    attn_semantics semantics;
    int64_t window[2];    /* WINDOW: left, right; -1 = open */
    int64_t pad_id;       /* TOKENS */
    attn_pattern pattern; /* PATTERN */
} attn_mask_layer;

typedef enum attn_fill { ATTN_FILL_HIDE = 0, ATTN_FILL_ADD, ATTN_FILL_REPLACE } attn_fill;
typedef enum attn_offset {
    ATTN_OFFSET_DEFAULT = 0,
    ATTN_OFFSET_GIVEN,
    ATTN_OFFSET_END
} attn_offset;

typedef struct attn_mask_spec {
    attn_mask_layer layers[ATTN_MASK_LAYERS];
    size_t count;
    attn_offset offset;     /* default: the number of cached keys; END: S - L, or length_b - L */
    const int64_t *offsets; /* GIVEN: one, or one a batch entry */
    size_t offset_count;
    attn_fill fill; /* HIDE: -infinity. ADD, REPLACE: a finite value, as other programs use */
    double fill_value;
} attn_mask_spec;

/* The shape of the weights: batch axes, then heads, queries, keys. Without `has_heads` the weights
 * have no head axis (query of rank 2 or 3), and H is 1. */
typedef struct attn_mask_shape {
    int batch_rank;
    size_t batch[ATTN_MAX_RANK];
    bool has_heads;
    size_t H, L, S;
    size_t past; /* how many of the S keys are cached */
} attn_mask_shape;

typedef struct attn_mask attn_mask;

/* Checks and compiles a mask. It lives in the arena, and the tensors must outlive it. Errors:
 * ATTN_ESHAPE (the text has both shapes and the axis), ATTN_ESEMANTICS (a 0/1 mask or a padding
 * mask has no declared meaning), ATTN_ENONFINITE (NaN, +infinity), ATTN_EVALUE (a number other than
 * 0 and 1 for keep and hide), ATTN_EARG (a number that its enum lacks), ATTN_ENOMEM. */
attn_status attn_mask_new(const attn_mask_spec *spec, const attn_mask_shape *shape,
                          attn_arena *arena, attn_mask **out, attn_error *err);

size_t attn_mask_batches(const attn_mask *m); /* B */
int64_t attn_mask_offset(const attn_mask *m,
                         size_t b);          /* the position of row i is key i + offset */
bool attn_mask_is_plain(const attn_mask *m); /* hides nothing and adds nothing */
bool attn_mask_fills(const attn_mask *m);    /* has a finite fill: no cell is hidden */

/* Gives the interval [*lo, *hi) of keys outside of which causal, window, lengths and patterns hide
 * all cells of row i, also with a finite fill. O(1). */
void attn_mask_interval(const attn_mask *m, size_t b, size_t i, size_t *lo, size_t *hi);
/* Sets keep[j - j0] to 1 if key j is visible to query i, for j0 <= j < j0 + n. A finite fill is
 * ignored. */
void attn_mask_keep(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *keep);
/* Gives the sum of the additive parts of each cell: -infinity if one of them hides it, 0 without
 * any. */
void attn_mask_additive(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        double *add);
/* Counts the visible cells of all B x H x L x S. It computes heads and batch entries that share
 * their layers once. ATTN_ECANCELED, ATTN_EDEADLINE by `control` (NULL: never). */
attn_status attn_mask_visible(const attn_mask *m, const attn_control *control, uint64_t *out,
                              attn_error *err);

/* Tell whether all heads, or all batch entries, have the same visibility, because no layer has that
 * axis. */
bool attn_mask_same_heads(const attn_mask *m);
bool attn_mask_same_batches(const attn_mask *m);

/* Describes the mask in words, one sentence for each layer: "causal: query i sees keys 0 to i + 2".
 * The text is in the arena. */
const char *attn_mask_words(const attn_mask *m, attn_arena *arena);

/* Checks the mask for what is legal but probably not intended (warning.h). The warnings and the
 * layers to which they point are in the arena and in the mask. ATTN_ENOMEM. */
attn_status attn_mask_lint(const attn_mask *m, attn_arena *arena, attn_warnings *out,
                           attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
