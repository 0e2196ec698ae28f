/* Masks. A caller states a mask in one of many forms. The library compiles all of them to one
 * meaning: each cell of the weights is visible or hidden, and has an additive part.
 *
 * Sizes: B batch entries (all batch axes together), H query heads, L queries, S keys (cached ones
 * included). A mask is a list of layers, and a layer may have parts. A cell is visible if every
 * layer that is not a part shows it. Additive parts are summed; a part of -infinity hides the cell.
 * i is a query, j a key, and `offset` is the key position of query 0. */
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

#define ATTN_MASK_LAYERS 16        /* most layers of a mask */
#define ATTN_NO_POSITION INT64_MIN /* the position of a query or key that has none */

typedef enum attn_layer_kind {
    ATTN_LAYER_CAUSAL, /* key j is visible to query i if j <= i + offset */
    ATTN_LAYER_WINDOW, /* visible: i + offset - left <= j <= i + offset + right; -1: no bound */
    /* A tensor that broadcasts to the shape of the weights by NumPy's rules. Weights without a head
     * axis take [batch.., 1, L, S], and weights of one head [batch.., L, S]. Booleans may be packed
     * (ATTN_BITS); they are read where they lie, and bits behind the last key must be 0. */
    ATTN_LAYER_VALUES,
    ATTN_LAYER_BIAS,    /* a tensor as in VALUES that is always additive */
    ATTN_LAYER_PADDING, /* [B, S] or [S]: tells for each key whether it is real or padding */
    ATTN_LAYER_LENGTHS, /* [B]: the first lengths[b] keys are real */
    ATTN_LAYER_PATTERN, /* a formula: see attn_pattern */
    ATTN_LAYER_TOKENS,  /* [B, S] or [S] token ids: a key is padding if its id is pad_id */
    /* uint8 [.., L, ceil(S / 8)]; all axes but the last broadcast to the weights. Key j is visible
     * if bit j % 8 of byte j / 8 is 1, or with HIDE if it is 0. Bits behind the last key are not
     * read. */
    ATTN_LAYER_BITS,
    /* [B], or [1] for all: the first prefix[b] keys are visible. Beside CAUSAL in an ANY_OF this is
     * the mask of a prefix language model (Raffel et al. 2020, section 3.2). */
    ATTN_LAYER_PREFIX,
    /* [B, S] or [S] numbers of documents: a query sees the keys of the document of its own key
     * i + offset, and no key if there is no such key. */
    ATTN_LAYER_DOCUMENTS,
    /* [B, S] or [S]: the parent of each key in a forest, -1 for a root. A query sees its own key
     * i + offset and the ancestors of this key (Miao et al. 2024, "SpecInfer"). */
    ATTN_LAYER_TREE,
    /* int [.., L, k]; all axes but the last broadcast to the weights: the keys that a query sees;
     * -1 is no key. DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1. */
    ATTN_LAYER_TOP_K,
    /* These combine the `parts` layers that follow them, each with the layers of its own. ANY_OF
     * shows a key if any part shows it, ALL_OF if all parts do, NOT if its one part does not. Parts
     * show or hide keys; they add no numbers. */
    ATTN_LAYER_ANY_OF,
    ATTN_LAYER_ALL_OF,
    ATTN_LAYER_NOT,
} attn_layer_kind;

/* Patterns show a key j by its distance from p = i + offset. Cells on keys that no row of a block
 * of rows sees are not computed (attn_attention_visited counts the computed cells). */
typedef enum attn_pattern_kind {
    ATTN_PATTERN_LOCAL, /* |j - p| <= radius */
    /* (p - j) mod stride = 0, or |j - p| <= local. Child et al. 2019, section 4.2. */
    ATTN_PATTERN_STRIDED,
    ATTN_PATTERN_BLOCK, /* floor(p / size) = floor(j / size) */
    /* j < num_keys, 0 <= p < num_keys, or |j - p| <= local. Beltagy, Peters and Cohan 2020. */
    ATTN_PATTERN_GLOBAL,
    /* floor(j / size) <= floor(p / size): the own block and those before it. Arriola et al. 2025,
     * "Block Diffusion". */
    ATTN_PATTERN_BLOCK_CAUSAL,
    ATTN_PATTERN_FULL, /* every key; for heads without a pattern, if other heads have one */
} attn_pattern_kind;

typedef struct attn_pattern {
    attn_pattern_kind kind;
    int64_t radius, stride, size, num_keys, local; /* stride and size >= 1, the others >= 0 */
} attn_pattern;

/* The meaning of the elements of a layer. It must be stated for numbers 0 and 1, and for PADDING
 * also for booleans. A boolean true in VALUES means visible. */
typedef enum attn_semantics {
    ATTN_SEM_UNSTATED = 0,
    ATTN_SEM_KEEP,     /* 1 or true: visible */
    ATTN_SEM_HIDE,     /* 1 or true: hidden */
    ATTN_SEM_ADDITIVE, /* the number is added to the score */
    /* VALUES: as ADDITIVE, but a number of at most ATTN_FINITE_MIN hides the key. Programs that
     * avoid -infinity send the smallest number of a type (float16: -65504), -1e9 or -1e4
     * instead. */
    ATTN_SEM_FINITE_MIN,
    /* VALUES: every number but 0 means visible, as in numpy.where(mask, scores, -1e9). -infinity is
     * not 0, so it means visible, too. */
    ATTN_SEM_NONZERO,
} attn_semantics;
#define ATTN_FINITE_MIN (-1e4)

/* The keys that a WINDOW or PATTERN layer shows to the queries of one head, as members of
 * attn_mask_layer. */
typedef struct attn_head_keys {
    int64_t window[2];
    attn_pattern pattern;
} attn_head_keys;

/* One layer of a mask. */
typedef struct attn_mask_layer {
    attn_layer_kind kind;
    const char *where;  /* name in errors, such as "attn_mask" or "masks/1/values"; NULL: "mask" */
    attn_tensor values; /* the tensor, for kinds that have one (attn_layer_has_values) */
    attn_semantics semantics;
    int64_t window[2];    /* WINDOW: left, right; -1: no bound */
    int64_t pad_id;       /* TOKENS: the id of padding */
    attn_pattern pattern; /* PATTERN: which keys are visible */
    /* WINDOW and PATTERN: [head_count], one for each query head (or one for all), in place of
     * `window` and `pattern`. NULL: none. Heads of different reach: Xiao et al. 2024,
     * "DuoAttention", section 2; Jiang et al. 2024, "MInference 1.0", section 3. */
    const attn_head_keys *by_head;
    size_t head_count;
    size_t parts; /* ANY_OF and ALL_OF: 1 or more; NOT: 1; how many layers after it are its parts */
} attn_mask_layer;

/* Tell whether layers of this kind have a tensor `values`, and whether they have parts. */
bool attn_layer_has_values(attn_layer_kind kind);
bool attn_layer_has_parts(attn_layer_kind kind);
/* Returns the largest number of bytes that the compiled mask keeps for each element of `values`. */
size_t attn_layer_value_bytes(const attn_mask_layer *layer);

/* Returns whether the layer is a floating-point tensor that is added to the scores, and so has a
 * gradient: BIAS, and VALUES whose meaning is UNSTATED, ADDITIVE or FINITE_MIN. */
bool attn_layer_is_added(const attn_mask_layer *layer);

/* What a hidden score becomes: -infinity (HIDE), score + fill_value (ADD), or fill_value
 * (REPLACE). */
typedef enum attn_fill { ATTN_FILL_HIDE = 0, ATTN_FILL_ADD, ATTN_FILL_REPLACE } attn_fill;
/* The key position of query 0: the number of cached keys (DEFAULT), `offsets` (GIVEN), or S - L
 * (END). If the mask has a layer of lengths, END uses the length of each batch entry in place of
 * S. */
typedef enum attn_offset {
    ATTN_OFFSET_DEFAULT = 0,
    ATTN_OFFSET_GIVEN,
    ATTN_OFFSET_END
} attn_offset;

/* A mask as a caller states it. */
typedef struct attn_mask_spec {
    attn_mask_layer layers[ATTN_MASK_LAYERS]; /* the parts of a layer stand behind it */
    size_t count;
    attn_offset offset;     /* key position of query 0 */
    const int64_t *offsets; /* GIVEN: [offset_count], one for all batch entries or one for each */
    size_t offset_count;
    /* Positions of queries, [L], [1, L] or [B, L], and of keys, [S], [1, S] or [B, S], as in
     * attn_inputs. If one of the two is given, CAUSAL, WINDOW, PATTERN and PREFIX compare positions:
     * i + offset becomes the position of query i, and j that of key j; the first prefix[b] keys are
     * those at positions below prefix[b]. A key without a position (ATTN_NO_POSITION), such as a
     * sink, is visible to every query, and a query without one, such as a register, sees every key.
     * Rank 0: query i has the position i + offset, and key j the position j. */
    attn_tensor query_positions, key_positions;
    /* What a hidden score becomes. Finite fills are for comparisons with other programs. */
    attn_fill fill;
    double fill_value;
} attn_mask_spec;

/* Returns whether the mask compares positions that the caller gives. */
static inline bool attn_mask_spec_placed(const attn_mask_spec *spec) {
    return spec->query_positions.rank || spec->key_positions.rank;
}
/* Returns how many numbers of 8 bytes a compiled mask of B batch entries and S keys keeps for the
 * positions of the specification; SIZE_MAX on overflow. */
size_t attn_mask_position_numbers(const attn_mask_spec *spec, size_t B, size_t S);
/* Returns the index behind layer i and its parts; at most spec->count. */
size_t attn_mask_spec_next(const attn_mask_spec *spec, size_t i);

/* The shape of the weights: batch axes, heads, queries, keys. If has_heads is false, the weights
 * have no head axis (query of rank 2 or 3), and H is 1. */
typedef struct attn_mask_shape {
    int batch_rank;
    size_t batch[ATTN_MAX_RANK];
    bool has_heads;
    size_t H, L, S;
    size_t past; /* how many of the S keys are cached */
} attn_mask_shape;

typedef struct attn_mask attn_mask;

/* Checks and compiles a mask. The mask is in the arena; its tensors must outlive it. Errors:
 *
 *   ATTN_ESHAPE      a tensor does not broadcast; the text has both shapes and the axis
 *   ATTN_ESEMANTICS  the meaning of 0 and 1 or of padding is not stated
 *   ATTN_ENONFINITE  NaN or +infinity
 *   ATTN_EVALUE      a number other than 0 and 1 in a KEEP or HIDE layer, a length, parent, index or
 *                    position out of range, or parents that run in a circle
 *   ATTN_EDTYPE      positions that are no integers
 *   ATTN_EARG        an unknown number of an enum, a wrong number of parts, or a part that adds
 *   ATTN_ENOMEM      the arena is full */
attn_status attn_mask_new(const attn_mask_spec *spec, const attn_mask_shape *shape,
                          attn_arena *arena, attn_mask **out, attn_error *err);

/* Properties of a mask. All functions on a compiled mask may be called by any number of threads. */
size_t attn_mask_batches(const attn_mask *m); /* number of batch entries B */
/* Returns the offset of batch entry b: query i has the key position i + offset. */
int64_t attn_mask_offset(const attn_mask *m, size_t b);
/* Returns the offset of entry b of a batch that repeats the batch entries of the mask
 * (attn_repeated_entry); 0 if m is NULL or the mask has no batch entries. */
int64_t attn_mask_repeated_offset(const attn_mask *m, size_t b);
/* Returns whether hidden scores get a finite value, so that softmax gives them weight. */
bool attn_mask_fills(const attn_mask *m);

/* Stores the interval [*lo, *hi) of keys that causal, window, length and pattern layers can show to
 * query i. All keys outside are hidden (with a finite fill: filled). Takes constant time. */
void attn_mask_interval(const attn_mask *m, size_t b, size_t i, size_t *lo, size_t *hi);
/* Sets keep[j - j0] for the keys j0 … j0 + n - 1 to 1 if the key is visible to query i, else to 0.
 * A hidden key gets 0 even if a finite fill gives it a finite score. */
void attn_mask_keep(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *keep);
/* Sets add[j - j0] to the sum of the additive parts of the cell: -infinity if one of them hides it,
 * 0 if there are none. */
void attn_mask_additive(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        double *add);
/* Sets add[j - j0] to the number by which the whole mask changes the score of the cell: the sum of
 * the additive parts. For a cell that another layer hides, the number is -infinity or, with a
 * finite fill, the sum plus the fill (ADD) or the fill alone (REPLACE). `keep` is scratch of n
 * bytes. */
void attn_mask_numbers(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                       uint8_t *keep, double *add);
/* Counts the visible cells among all B x H x L x S. Heads or batch entries that share all layers
 * are computed once. Errors from `control` (NULL: none): ATTN_ECANCELED, ATTN_EDEADLINE. */
attn_status attn_mask_visible(const attn_mask *m, const attn_control *control, uint64_t *out,
                              attn_error *err);

/* Returns whether a layer holds numbers that are added to the scores. */
bool attn_mask_adds(const attn_mask *m);
/* Tell whether all heads, or all batch entries, have the same visible cells because no layer has an
 * axis of heads, or of batch entries. */
bool attn_mask_same_heads(const attn_mask *m);
bool attn_mask_same_batches(const attn_mask *m);

/* Describes the mask in words, one sentence for each layer that is not a part, such as "causal:
 * query i sees keys 0 to i + 2". Returns "" if the arena is full; else the text is in the arena and
 * not empty. */
const char *attn_mask_words(const attn_mask *m, attn_arena *arena);

/* Warns about properties of the mask that are legal but probably not intended (warning.h). The
 * warnings are in the arena; they point to layers of the mask, so the mask must outlive them.
 * Error: ATTN_ENOMEM. */
attn_status attn_mask_lint(const attn_mask *m, attn_arena *arena, attn_warnings *out,
                           attn_error *err);

/* Checks how the mask goes with an encoding that gives query i the position i + offset and key j
 * the position j. `absolute`: the encoding depends on positions and not on distances alone. Memory
 * and errors are as for attn_mask_lint. */
attn_status attn_mask_lint_position(const attn_mask *m, bool absolute, attn_arena *arena,
                                    attn_warnings *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
