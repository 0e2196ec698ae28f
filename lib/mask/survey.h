/* Reads the tensor of a mask layer row by row, to find out which kinds of values it has. */
#ifndef ATTN_MASK_SURVEY_H
#define ATTN_MASK_SURVEY_H

#include <attn/mask.h>

enum { ATTN_SURVEY_STEP = 64 }; /* elements that are converted at a time */

/* The kinds of values in a tensor, and where they were first found. */
typedef struct attn_survey {
    bool ones;      /* a value is 1 */
    bool only_bits; /* all values are 0 or 1; else `other` is the first other value */
    bool bad;       /* a value is NaN or +infinity; `worst` is the first such value */
    size_t other_row, other_col, bad_row, bad_col;
    double other, worst;
    double lowest; /* the smallest finite value, or 0 if all are above 0 */
} attn_survey;

/* Returns the number of rows of a tensor, or 0 if the rows are empty. */
size_t attn_survey_rows(const attn_tensor *t);
/* Writes the path of element j of a row of the layer's tensor for errors, such as
 * "attn_mask/0/3". */
void attn_survey_path(const attn_mask_layer *layer, size_t row, size_t j, char path[96]);
/* Finds the kinds of a tensor's values. The function stops at the first value that is NaN or
 * +infinity. */
attn_survey attn_survey_of(const attn_tensor *t);

#endif
