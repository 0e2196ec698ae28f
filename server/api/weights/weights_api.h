/* Attention weights that a client sends: an attn_weight_source that reads them, and warnings about
 * them. The functions srv_padding_… also check weights that the service has computed. */
#ifndef SRV_WEIGHTS_API_H
#define SRV_WEIGHTS_API_H

#include "api/common/scope.h"
#include "api/common/warnings.h"

/* Makes a source of the caller's weights [.., H, L, S]. `weights` and `dims` (with B, Hq, L and S)
 * must outlive the source. */
attn_status srv_weights_source(const attn_tensor *weights, const attn_attention_dims *dims,
                               attn_arena *arena, attn_weight_source *out, attn_error *err);

/* Reads the shape of `weights`, which may have 2 to `most` axes: sets B, Hq, L and S of *dims,
 * *layers to the number of layers, and *entries to the number of batch entries of one layer. With 5
 * or more axes, the first axis counts the layers. Other axes in front of the heads are batch axes.
 * false: a problem is set. */
bool srv_weights_shape(const srv_scope *scope, const char *name, const attn_tensor *weights,
                       int most, attn_attention_dims *dims, size_t *layers, size_t *entries);

typedef struct srv_weights_lint {
    srv_request *req;
    const char *where; /* name of the field that holds the weights */
    const attn_tensor *weights;
    const attn_attention_dims *dims; /* only B, Hq, L and S are read */
    const srv_labels *labels;        /* labels that may name padding tokens; NULL: none */
    srv_warnings *warnings;
} srv_weights_lint;

/* Adds warnings about the weights. Sets *unshared to true if a weight is negative or a row sums to
 * more than 1. Such weights are not shares of 1, and measures such as the entropy have no meaning
 * for them. Errors: ATTN_ENOMEM, and those of attn_control_check. */
attn_status srv_weights_warn(const srv_weights_lint *lint, bool *unshared, attn_error *err);

/* The state of a check for weights on padding. A key whose label is a padding token ("<pad>",
 * "[PAD]") should get no weight. Queries that are padding are not checked. For each batch entry,
 * the caller calls srv_padding_entry, then for each head srv_padding_row for all its rows and
 * srv_padding_head. */
typedef struct srv_padding {
    attn_arena *arena;
    const srv_labels *labels;
    bool any; /* some batch entry has padding keys */
    /* The current batch entry: its index, its names, and the indices of its padding keys in
     * ascending order. If key_count is 0, nothing is checked. `keys` has memory for any batch
     * entry. */
    size_t batch;
    const srv_names *names;
    size_t *keys, key_count;
    srv_warnings *to;
    bool many;              /* warnings name batch entry and head, because there are several */
    size_t heads_told;      /* number of heads that have had a warning of their own */
    size_t heads_left;      /* number of heads with weight on padding but without a warning */
    attn_padding_mass head; /* weights on padding keys in the current head */
} srv_padding;

/* Begins a check: finds out whether any batch entry has padding keys. false: out of memory. */
bool srv_padding_begin(srv_padding *p, attn_arena *arena, const srv_labels *labels, bool many,
                       srv_warnings *to);
/* Begins a batch entry: finds its padding keys. `batch` may count the entries of all layers. */
void srv_padding_entry(srv_padding *p, size_t batch);
/* Returns whether query `i` is checked. Queries that are padding are not. */
bool srv_padding_counts(const srv_padding *p, size_t i);
/* Adds the weights of query `i` on the padding keys, in the order of p->keys. */
void srv_padding_row(srv_padding *p, size_t i, const double *weights);
/* Ends a head after all its rows. false: out of memory. */
bool srv_padding_head(srv_padding *p, size_t head);
/* Ends the check after all heads. false: out of memory. */
bool srv_padding_end(srv_padding *p);

#endif
