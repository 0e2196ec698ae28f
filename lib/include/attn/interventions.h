/* Interventions: changes of a pass through a model that show what a part of it does. A head may be
 * ablated or scaled, and what a pass computes for one sequence may be put in the place of what it
 * computes for another (activation patching, Vig et al. 2020; Meng et al. 2022).
 *
 * The output of a head is its weighted sum of values, before the output matrix W_o. The residual
 * stream of a model without LSTMs is the sum to which each block adds: it begins as the input of
 * the first layer, and each attention and each feed-forward adds its output. */
#ifndef ATTN_INTERVENTIONS_H
#define ATTN_INTERVENTIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where an attention layer is: self-attention of encoder or decoder, or attention of the decoder to
 * the encoder. */
typedef enum attn_site_kind {
    ATTN_SITE_ENCODER,
    ATTN_SITE_DECODER,
    ATTN_SITE_CROSS
} attn_site_kind;

/* The places in a layer at which the residual stream can be patched. */
typedef enum attn_stream_part {
    ATTN_STREAM_INPUT,          /* the input of the first layer; it has no layer */
    ATTN_STREAM_SELF_ATTENTION, /* after self-attention */
    ATTN_STREAM_CROSS_ATTENTION,
    ATTN_STREAM_FEED_FORWARD /* the output of a layer */
} attn_stream_part;

typedef enum attn_intervention_kind {
    ATTN_ABLATE_ZERO, /* the output of a head becomes 0 */
    ATTN_ABLATE_MEAN, /* the output of a head becomes its mean over the tokens of the references */
    ATTN_SCALE_HEAD,  /* the output of a head is multiplied by `factor` */
    ATTN_PATCH_HEAD,  /* the output of a head becomes that of the reference */
    ATTN_PATCH_STREAM /* the residual stream becomes that of the reference */
} attn_intervention_kind;

/* All heads, sequences or positions. */
#define ATTN_EVERY SIZE_MAX

/* One change. References are sequences of the same batch. ATTN_ABLATE_MEAN takes the mean over the
 * tokens of the sequences from … from + from_count - 1, without padding; from_count 0 means the
 * whole batch. The caller chooses these sequences as the reference distribution (Wang et al. 2023).
 * A patch reads sequence `from` at the same place of the same pass, after the changes that stand
 * before it in the list. */
typedef struct attn_intervention {
    attn_intervention_kind kind;
    /* site of the head; with ATTN_PATCH_STREAM, ENCODER or DECODER means the stack */
    attn_site_kind site;
    attn_stream_part part; /* only with ATTN_PATCH_STREAM */
    /* number among the layers of its kind, from 0; not read with ATTN_STREAM_INPUT */
    size_t layer;
    size_t head; /* number of the head, or ATTN_EVERY */
    /* the token that changes; ATTN_EVERY: in all sequences, at all positions */
    size_t sequence, position;
    double factor;           /* only with ATTN_SCALE_HEAD; finite */
    size_t from, from_count; /* the references; only ATTN_ABLATE_MEAN reads from_count */
    /* A patch reads this position; ATTN_EVERY: the position that changes. */
    size_t from_position;
} attn_intervention;

#ifdef __cplusplus
}
#endif
#endif
