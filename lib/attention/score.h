/* Score forms: how a query and a key become a score, as maps of their rows and one tile kernel. */
#ifndef ATTN_SCORE_H
#define ATTN_SCORE_H

#include <attn/attention.h>

/* What a form wants done. Rows are first mapped, then scored tile by tile. */
typedef struct attn_score_plan {
    size_t width;                   /* of mapped queries and keys */
    attn_tensor query_map, key_map; /* [width, Eq], [width, Ek]; rank 0 = rows as they are */
    attn_tensor query_bias;         /* [width], added to mapped queries; rank 0 = none */
    attn_tensor v;                  /* [width]: the score is v . tanh(q + k); rank 0: it is q . k */
    /* Where gradients of the maps go: the parameters they were cut from, from which column on. */
    const attn_tensor *query_from, *key_from;
    size_t query_column, key_column;
} attn_score_plan;

typedef struct attn_score_form {
    bool unit_scale; /* default scale 1 instead of 1/sqrt(width) */
    attn_status (*plan)(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err);
} attn_score_form;

const attn_score_form *attn_score_form_of(attn_score_kind kind);

/* Is parameter `t` there with this shape? Errors are named "score/<name>". A dimension of SIZE_MAX
 * fits anything. */
attn_status attn_score_parameter(const attn_tensor *t, const char *name, int rank, size_t rows,
                                 size_t cols, attn_error *err);
/* Queries and keys of equal width, as a product of them needs. */
attn_status attn_score_equal_widths(size_t Eq, size_t Ek, attn_error *err);

#endif
