/* Interventions: changes of a pass through a model that show what a part of it does. A head may be
 * ablated or scaled, and what a pass computes for one sequence may be put in the place of what it
 * computes for another (activation patching, Vig et al. 2020; Meng et al. 2022).
 *
 * The output of a head is its weighted sum of values, before the output matrix W_o. The residual
 * stream is what each block of a model without LSTMs adds to: the input of the first layer, then the
 * output of each attention and of each feed-forward. */
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

/* The parts of a layer of which a block of the residual stream consists. */
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
    ATTN_PATCH_HEAD,  /* the output of a head becomes that for the reference */
    ATTN_PATCH_STREAM /* the residual stream becomes that of the reference */
} attn_intervention_kind;

/* All heads, sequences or positions. */
#define ATTN_EVERY SIZE_MAX

/* One change. References are sequences of the same batch. ATTN_ABLATE_MEAN has the mean over the
 * tokens that are no padding of the sequences `from` … from + from_count - 1, which the caller
 * chooses as the reference distribution (Wang et al. 2023); with from_count 0 over those of the whole
 * batch. A patch reads sequence `from` at the same place of the same pass, with the changes before it
 * in the list. */
typedef struct attn_intervention {
    attn_intervention_kind kind;
    attn_site_kind site;       /* of a head; ATTN_PATCH_STREAM: ENCODER or DECODER is the stack */
    attn_stream_part part;     /* ATTN_PATCH_STREAM */
    size_t layer;              /* among the layers of its kind, from 0; not of ATTN_STREAM_INPUT */
    size_t head;               /* of a head, or ATTN_EVERY */
    size_t sequence, position; /* which tokens change; ATTN_EVERY: of all, or all of them */
    double factor;             /* ATTN_SCALE_HEAD, finite */
    size_t from, from_count;   /* the references; from_count: ATTN_ABLATE_MEAN */
    /* A patch reads this position; ATTN_EVERY: the position that changes. */
    size_t from_position;
} attn_intervention;

#ifdef __cplusplus
}
#endif
#endif
