/* Weights that a caller sends: as a source, and warnings about them. Weights on padding are also
 * looked for in what an operation has computed. */
#ifndef SRV_WEIGHTS_INPUT_H
#define SRV_WEIGHTS_INPUT_H

#include "api/scope.h"

/* The caller's [.., H, L, S] as a source; `weights` and `dims` (B, Hq, L and S) outlive it. */
attn_status srv_weights_source(const attn_tensor *weights, const attn_attention_dims *dims,
                               attn_arena *arena, attn_weight_source *out, attn_error *err);

typedef struct srv_weights_lint {
    srv_request *req;
    const char *where; /* the field of the weights */
    const attn_tensor *weights;
    const attn_attention_dims *dims; /* B, Hq, L and S */
    const srv_labels *labels;        /* that may show padding, or NULL */
    attn_warnings *warnings;
} srv_weights_lint;

/* Adds warnings about the weights. Fails with ATTN_ENOMEM, or as attn_control_check does. */
attn_status srv_weights_warn(const srv_weights_lint *lint, attn_error *err);

/* Weights on padding, as far as labels tell: a key whose label is a padding token ("<pad>",
 * "[PAD]") should receive none. Queries that are padding themselves do not count. */
typedef struct srv_padding {
    attn_arena *arena;
    const srv_labels *labels;
    size_t *keys, key_count; /* ascending; key_count 0: there is nothing to look for */
    attn_warnings *to;
    bool many;         /* there are several heads or batch entries, which warnings name */
    size_t heads_told; /* warnings that were made, and heads beyond them */
    size_t heads_left;
    double mass, most; /* of the current head: the sum, the largest weight and where it is */
    size_t rows, row, key;
} srv_padding;

/* false: out of memory. */
bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       attn_warnings *to);
/* Is the weight of query `i` on padding of interest? */
bool srv_padding_counts(const srv_padding *p, size_t i);
/* Takes the weights of one such row on the padding keys, in their order. */
void srv_padding_row(srv_padding *p, size_t i, const double *weights);
/* Ends a head whose rows were all taken. false: out of memory. */
bool srv_padding_head(srv_padding *p, size_t batch, size_t head);
/* Ends after all heads. false: out of memory. */
bool srv_padding_end(srv_padding *p);

#endif
