/* Weights that a caller sends: the source made from them, and warnings about them. The check for
 * weights on padding also serves computed weights. */
#ifndef SRV_WEIGHTS_INPUT_H
#define SRV_WEIGHTS_INPUT_H

#include "api/scope.h"
#include "api/warnings.h"

/* Makes a source of the caller's weights [.., H, L, S]. `weights` and `dims` (with B, Hq, L and S)
 * must outlive the source. */
attn_status srv_weights_source(const attn_tensor *weights, const attn_attention_dims *dims,
                               attn_arena *arena, attn_weight_source *out, attn_error *err);

typedef struct srv_weights_lint {
    srv_request *req;
    const char *where; /* name of the field that holds the weights */
    const attn_tensor *weights;
    const attn_attention_dims *dims; /* only B, Hq, L and S are read */
    const srv_labels *labels;        /* labels that may show padding; or NULL */
    srv_warnings *warnings;
} srv_weights_lint;

/* Adds warnings about the weights. Fails with ATTN_ENOMEM or with an error of
 * attn_control_check. */
attn_status srv_weights_warn(const srv_weights_lint *lint, attn_error *err);

/* Looks for weights on padding, as far as labels show it: a key whose label is a padding token
 * ("<pad>", "[PAD]") should get no weight. Queries that are padding themselves are ignored. */
typedef struct srv_padding {
    attn_arena *arena;
    const srv_labels *labels;
    size_t *keys, key_count; /* padding keys, ascending; key_count 0: there are none, so nothing is
                                checked */
    srv_warnings *to;
    bool many;         /* true: warnings name batch entry and head, because there are several */
    size_t heads_told; /* heads that got a warning of their own; heads_left counts the others */
    size_t heads_left;
    double mass, most; /* of the current head: the sum of weights; the largest weight, at [row,
                          key] */
    size_t rows, row, key;
} srv_padding;

/* Finds the padding keys. false: out of memory. */
bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       srv_warnings *to);
/* Returns whether query `i` is checked; padding queries are not. */
bool srv_padding_counts(const srv_padding *p, size_t i);
/* Takes the weights of query `i` on the padding keys, in the order of p->keys. */
void srv_padding_row(srv_padding *p, size_t i, const double *weights);
/* Ends a head after all its rows. false: out of memory. */
bool srv_padding_head(srv_padding *p, size_t batch, size_t head);
/* Ends the check after all heads. false: out of memory. */
bool srv_padding_end(srv_padding *p);

#endif
