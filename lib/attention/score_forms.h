/* Score forms. A form describes the score of a query and a key in two steps: linear maps of the
 * query and of the key, and then a product, q . k or v . tanh(q + k), that a kernel computes. */
#ifndef ATTN_SCORE_FORMS_H
#define ATTN_SCORE_FORMS_H

#include <attn/attention.h>

/* How the scores of an operation are computed. A tensor has rank 0 if the form has no such
 * tensor. */
typedef struct attn_score_plan {
    size_t width;           /* score width: the width of mapped queries and keys */
    attn_tensor query_map;  /* [width, Eq]: q becomes query_map q; rank 0: q stays as it is */
    attn_tensor key_map;    /* [width, Ek]: k becomes key_map k; rank 0: k stays as it is */
    attn_tensor query_bias; /* [width], added to mapped queries */
    attn_tensor v;          /* [width]: the score is v . tanh(q + k); rank 0: the score is q . k */
    /* For gradients: query_map is columns query_column, query_column + 1, … of the parameter
     * *query_from, a member of attn_score. key_from and key_column locate key_map in the same
     * way. */
    const attn_tensor *query_from, *key_from;
    size_t query_column, key_column;
} attn_score_plan;

typedef struct attn_score_form {
    bool unit_scale; /* the default scale is 1 instead of 1/sqrt(E) */
    /* Checks the parameters of a score for queries of width Eq and keys of width Ek, and fills
     * *out, which points into *score. */
    attn_status (*plan)(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err);
} attn_score_form;

/* Returns the form of a kind, which must be below ATTN_SCORE_COUNT. */
const attn_score_form *attn_score_form_of(attn_score_kind kind);

#endif
