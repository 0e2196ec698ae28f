/* The compiled mask: an interval of keys for each row, layers of visibility bytes, layers of
 * numbers that are added to scores, patterns, and rules (rule.h). Indices: b batch entry, h head, i
 * query (row), j key. */
#ifndef ATTN_MASK_PRIVATE_H
#define ATTN_MASK_PRIVATE_H

#include <attn/mask.h>

#include "base/view.h"
#include "kernels/kernels.h"
#include "mask/pattern.h"
#include "mask/row_positions.h"

/* The compiled form of one layer: visibility bytes or bits, or numbers to add. */
typedef struct attn_mask_part {
    attn_view view;               /* broadcasts to the weights; see `bits` */
    const attn_mask_layer *layer; /* the layer in attn_mask.layers */
    /* one bit for each key. attn_view_at returns the byte of key 0 of a row; bit j % 8 of byte j /
     * 8 from there on belongs to key j */
    bool bits;
    bool flipped;   /* a bit of 1 hides its key */
    double lowest;  /* the smallest finite number to add, or 0 if all are above 0 */
    bool only_bits; /* all numbers to add are 0 or 1, and some are 1 */
} attn_mask_part;

/* Upper limit of offsets and windows, longer than any sequence. Sums of a few such numbers fit into
 * an int64_t. */
#define ATTN_MASK_FARTHEST (INT64_C(1) << 40)

typedef struct attn_rule attn_rule;       /* see rule.h */
typedef struct attn_key_run attn_key_run; /* see formula.h */

struct attn_mask {
    attn_mask_layer *layers; /* a copy of the layers of the specification */
    attn_mask_part *keep;    /* visibility: 1 = visible, 0 = hidden */
    attn_mask_part *bias;    /* numbers to add to scores; -infinity hides the key */
    /* [layer_count]: the patterns. The first pattern_count entries can hide keys inside the
     * interval of a row. The last block_count entries have the kind BLOCK, and only bound this
     * interval. */
    const attn_pattern **patterns;
    size_t layer_count, keep_count, bias_count, pattern_count, block_count;
    /* [layer_count]: rules[i] is the compiled form of layer i if this layer is a rule or a part of
     * one. rule_at [rule_count]: the indices of the rules that are not parts of others. Both are
     * NULL without rules. */
    attn_rule *rules;
    size_t *rule_at, rule_count;
    attn_offset stated_offset; /* attn_mask_spec.offset, for warnings */
    attn_fill fill;            /* what happens to hidden scores (attn_mask_spec) */
    double fill_value;
    attn_mask_shape shape;
    size_t B;               /* product of the batch axes */
    const int64_t *offset;  /* [B]: row i stands at key position i + offset[b] */
    const int64_t *lengths; /* [B], or NULL: keys from lengths[b] on are hidden */
    /* placed: formulas compare positions that the caller gives; `queries` and `keys` are copies of
     * them. key_runs has the smallest and the largest position of each run of keys: [B, runs], or
     * [runs] if all batch entries share the positions. */
    bool placed;
    attn_sequence_positions queries, keys;
    const attn_key_run *key_runs;
    size_t runs;
    /* A row sees at most `left` keys before its position and `right` keys after it. INT64_MAX: no
     * limit. */
    int64_t left, right;
    bool same_heads;   /* all heads see the same keys, since no layer differs by head */
    bool same_batches; /* all batch entries see the same keys */
    /* The sum of the numbers of several layers may be below the range of float32, and no layer is
     * float64. Such a sum hides its key. */
    bool sums_hide;
};

/* ATTN_MASK_LAYER_BYTES is the size of the entries of one layer in layers, keep, bias and patterns.
 * ATTN_MASK_BYTES is an upper bound of the memory of a compiled mask without its tensors and
 * rules. */
enum {
    ATTN_MASK_LAYER_BYTES =
        sizeof(attn_mask_layer) + 2 * sizeof(attn_mask_part) + sizeof(const attn_pattern *),
    ATTN_MASK_BYTES = sizeof(attn_mask) + ATTN_MASK_LAYERS * ATTN_MASK_LAYER_BYTES
};

/* Returns the window and pattern of head h in a layer with by_head. */
static inline const attn_head_keys *attn_keys_of_head(const attn_mask_layer *layer, size_t h) {
    return &layer->by_head[layer->head_count > 1 ? h : 0];
}

/* Clamps the index of a key to j0 … j0 + n and returns it relative to j0. */
size_t attn_mask_within(size_t key, size_t j0, size_t n);

/* Returns the compiled form of layer number `i`. It is NULL for layers that only bound the interval
 * of a row (causal, window, lengths), for patterns, and for the kinds of layers of rule.h. */
const attn_mask_part *attn_mask_part_of(const attn_mask *m, size_t i);
/* Returns layer number `i`, reduced to rows row … row + rows - 1 of head h and batch entry b. Its
 * tensor is a view of the compiled form: visibility or numbers to add, [rows, S]. An axis that
 * broadcasts has length 1. The rows keep their positions only if the caller adds `row` to the
 * offset. */
attn_mask_layer attn_mask_layer_rows(const attn_mask *m, size_t i, size_t b, size_t h, size_t row,
                                     size_t rows);
/* Returns whether the layer hides cell (b, h, i, j). A number to add hides its cell if it is at
 * most `floor`. -INFINITY as `floor` is the exact test. A large negative number, such as -1e4, also
 * finds numbers that hide a cell in practice. */
bool attn_mask_part_hides(const attn_mask_part *part, double floor, size_t b, size_t h, size_t i,
                          size_t j);

/* Zeroes keep[j - j0] for the keys j0 … j0 + n - 1 that a part of visibility hides from row i. */
void attn_mask_part_and(const attn_mask_part *part, size_t b, size_t h, size_t i, size_t j0,
                        size_t n, uint8_t *keep);

/* Describes in *edit how the mask changes cells j0 … j0 + n - 1 of row i. It sets the members bias,
 * keep, lo, hi, fill and fill_value.
 *   edit->bias  NULL without additive layers. It points into the tensor of the layer if there is
 *               only one and its elements need no conversion. Else it is the caller's scratch
 *               `bias` with the sums: n elements of elem bytes (4: float, 8: double).
 *   edit->keep  NULL without visibility layers and patterns. It points into the tensor of the layer
 *               if there is only one, of bytes, and no pattern. Else it is the caller's scratch
 *               `keep` of n bytes. */
void attn_mask_edit(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    size_t elem, void *bias, uint8_t *keep, attn_edit *edit);

/* Returns whether any layer can hide a key inside the interval of a row: by a byte or bit, a number
 * of -infinity, a pattern, or a rule. */
bool attn_mask_hides_cells(const attn_mask *m);
/* Returns whether the interval of every row contains all keys. */
bool attn_mask_is_open(const attn_mask *m);
/* Returns whether no cell is hidden and nothing is added to a score. */
bool attn_mask_is_plain(const attn_mask *m);

/* Sets seen[j - j0] to 1 if key j, j0 <= j < j0 + n, gets a finite score in row i, else to 0.
 * Without a finite fill these are the visible keys (attn_mask_keep). A finite fill gives hidden
 * keys a finite score, too. */
void attn_mask_seen(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *seen);
/* Returns whether row i has a key with a finite score. */
bool attn_mask_sees_any(const attn_mask *m, size_t b, size_t h, size_t i);

/* Returns a mask that shows the keys of m at most `most` positions from the query, without its
 * patterns of kinds other than BLOCK. The result points into the memory of m. */
attn_mask attn_mask_near(const attn_mask *m, int64_t most);
/* Finds an interval of keys [*from, *to) that all rows i … i + rows - 1 of head h see, with nothing
 * added to their scores. The interval may be shorter than possible, or empty (*from >= *to). */
void attn_mask_common(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows, size_t *from,
                      size_t *to);
/* Returns whether attn_mask_narrow can narrow anything. */
bool attn_mask_narrows(const attn_mask *m);
/* Narrows the keys [*from, *to) to the range from the first to the last key that the patterns and
 * rules can show to any of the rows i … i + rows - 1 of head h. The other keys need not be
 * computed. If they show no key, *from = *to afterwards. With a finite fill nothing changes, since
 * hidden keys then get weight. */
void attn_mask_narrow(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows, size_t *from,
                      size_t *to);

/* Warns only about the numbers that a mask adds, which have been read when the mask was compiled.
 * The codes are LOW_NUMBERS and ONLY_BITS. attn_mask_lint never warns of ONLY_BITS, since its masks
 * state that 0 and 1 are added. */
attn_status attn_mask_lint_numbers(const attn_mask *m, attn_arena *arena, attn_warnings *out,
                                   attn_error *err);

#endif
