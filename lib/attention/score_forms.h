/* Score forms: each describes a score of query and key as maps of their rows and one tile kernel.
 */
#ifndef ATTN_SCORE_FORMS_H
#define ATTN_SCORE_FORMS_H

#include <attn/attention.h>

/* How a form computes scores: its maps are applied to the rows, then the mapped rows are scored
 * tile by tile. */
typedef struct attn_score_plan {
    size_t width;                   /* width of mapped queries and keys */
    attn_tensor query_map, key_map; /* [width, Eq], [width, Ek]; rank 0: rows stay unchanged */
    attn_tensor query_bias;         /* [width], added to mapped queries; rank 0: none */
    attn_tensor v;                  /* [width]: the score is v . tanh(q + k); rank 0: it is q . k */
    /* The parameters of which the maps are columns, and the first of these columns. The gradients
     * of the maps are added there. */
    const attn_tensor *query_from, *key_from;
    size_t query_column, key_column;
} attn_score_plan;

typedef struct attn_score_form {
    bool unit_scale; /* the default scale is 1 instead of 1/sqrt(E) */
    attn_status (*plan)(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                        attn_error *err);
} attn_score_form;

const attn_score_form *attn_score_form_of(attn_score_kind kind);

#endif
