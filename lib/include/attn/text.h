/* Figures for a terminal: tensors as NumPy prints them, heatmaps in Unicode blocks. */
#ifndef ATTN_TEXT_H
#define ATTN_TEXT_H

#include "heatmap.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A growing UTF-8 text in an arena. When memory runs out, `failed` is set and later calls do
 * nothing. */
typedef struct attn_text {
    attn_arena *arena;
    char *data; /* NUL-terminated after the first addition */
    size_t size, room;
    bool failed;
} attn_text;

void attn_text_add(attn_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the tensor as numpy.array_str does (precision 8, suppress off, threshold 1000 with "...",
 * line width 75):
 *
 *   [[0.         1.         0.        ]
 *    [0.84967455 0.15032545 0.84967455]]
 *
 * float32 and float64 values have their own shortest digits, booleans are True and False. */
void attn_text_tensor(attn_text *t, const attn_tensor *tensor);

/* Prints one heatmap with labels at the left and above (NULL = indices) and a scale below. A cell
 * is two columns wide and shaded in Unicode blocks by value / range. Hidden cells have middle dots,
 * which differ from zero. Wide labels are cut. At most `width` columns (0 = 100) are drawn, and a
 * line states how many are left out. */
void attn_text_heatmap(attn_text *t, const attn_heatmap *map, const char *const *row_labels,
                       size_t row_count, const char *const *col_labels, size_t col_count,
                       size_t width);

/* Prints visibility, keep [rows, cols]: one line for each query, "✓" for visible and "✗" for
 * hidden, and a legend. */
void attn_text_mask(attn_text *t, const uint8_t *keep, size_t rows, size_t cols);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
