/* Figures for a terminal: tensors as NumPy prints them, heatmaps in Unicode blocks. */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include "heatmap.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A growing UTF-8 text in an arena. `failed` is set when memory ran out; later calls do nothing. */
typedef struct attn_text {
    attn_arena *arena;
    char *data; /* NUL-terminated once anything was added */
    size_t size, room;
    bool failed;
} attn_text;

void attn_text_add(attn_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The tensor as numpy.array_str prints it (precision 8, suppress off, threshold 1000 with "...",
 * line width 75): "[[0.         1.         0.        ]\n [0.84967455 0.15032545 0.84967455]]".
 * float32 and float64 values print their own shortest digits; booleans True/False; integers plain.
 */
void attn_text_tensor(attn_text *t, const attn_tensor *tensor);

/* One heatmap: labels at the left and above (NULL = indices), one cell two columns wide, shaded in
 * Unicode blocks by value / range, hidden cells as a middle dot pattern distinct from zero, a scale
 * line below. Wide labels are cut; at most `width` columns (0 = 100): the rest is said, not drawn.
 */
void attn_text_heatmap(attn_text *t, const attn_heatmap *map, const char *const *row_labels,
                       size_t row_count, const char *const *col_labels, size_t col_count,
                       size_t width);

/* A boolean picture of visibility: one line a query, "✓" visible and "✗" hidden, with a legend.
 * keep [rows, cols]. */
void attn_text_mask(attn_text *t, const uint8_t *keep, size_t rows, size_t cols);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
