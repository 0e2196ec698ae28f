/* Weights on padding, as far as labels tell: a key whose label is a padding token ("<pad>",
 * "[PAD]") should receive none. Queries that are padding themselves do not count. */
#ifndef SRV_PADDING_H
#define SRV_PADDING_H

#include "api/scope.h"

typedef struct srv_padding {
    attn_arena *arena;
    const srv_labels *labels;
    size_t *keys, key_count; /* ascending; none: nothing to look for */
    attn_warnings *to;
    bool many;         /* heads or batches: warnings name them */
    size_t heads_told; /* warnings made, and heads beyond them */
    size_t heads_left;
    double mass, most; /* of the head under way: sum, largest weight and where it is */
    size_t rows, row, key;
} srv_padding;

bool srv_label_is_padding(const char *label);

/* false: out of memory. */
bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       attn_warnings *to);
/* Is row `i` looked at? */
bool srv_padding_looks(const srv_padding *p, size_t i);
/* The weights of one row that is looked at, on the padding keys in their order. */
void srv_padding_row(srv_padding *p, size_t i, const double *weights);
/* All rows of a head were there. false: out of memory. */
bool srv_padding_head(srv_padding *p, size_t batch, size_t head);
/* All heads were there. */
bool srv_padding_end(srv_padding *p);

#endif
