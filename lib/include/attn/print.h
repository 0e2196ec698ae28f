/* Prints for a terminal: tensors as NumPy does, heatmaps in Unicode blocks, masks as check
 * marks. */
#ifndef ATTN_PRINT_H
#define ATTN_PRINT_H

#include "heatmap.h"
#include "text.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How a tensor is printed; bits of `print`. */
enum {
    /* Small numbers are printed with decimals, so 8.4e-26 becomes 0. Without this bit, they make
     * the notation of all numbers scientific. suppress=True of numpy.array_str does the same. */
    ATTN_PRINT_SUPPRESS = 1,
    /* all elements are printed, even if there are more than 1000; else only the ends of axes */
    ATTN_PRINT_FULL = 2,
};
/* Appends a tensor as numpy.array_str prints it with its default options (precision 8, threshold
 * 1000, line width 75), apart from the bits of `print`:
 *
 *   [[0.         1.         0.        ]
 *    [0.84967455 0.15032545 0.84967455]]
 *
 * float32 and float64 values have the shortest digits of their own type. Booleans are True and
 * False. */
void attn_text_tensor(attn_text *t, const attn_tensor *tensor, unsigned print);

/* Appends a heatmap with row labels at the left, column labels above and a scale below. A cell is
 * two characters wide. Its value v is its maximum, or its mean if the heatmap has no maxima; its
 * shade shows (v - low) / (high - low), where low = min(0, range[0]) and high = range[1]. Hidden
 * cells are middle dots, so they differ from cells of value 0. row_labels [row_count] and
 * col_labels [col_count] name the rows and columns of the matrix; NULL means that their indices are
 * shown. Long labels are cut. A line has at most `width` terminal columns (0 = 100). If columns of
 * cells are left out for this, a last line states how many. */
void attn_text_heatmap(attn_text *t, const attn_heatmap *map, const char *const *row_labels,
                       size_t row_count, const char *const *col_labels, size_t col_count,
                       size_t width);

/* Appends a mask, keep [rows, cols] (0 = hidden): one line for each query with "✓" for visible and
 * "✗" for hidden keys, and a legend. */
void attn_text_mask(attn_text *t, const uint8_t *keep, size_t rows, size_t cols);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
