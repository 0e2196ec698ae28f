/* A model's parts, and the walk through them. */
#ifndef ATTN_MODEL_PRIVATE_H
#define ATTN_MODEL_PRIVATE_H

#include <attn/models.h>

enum { MODEL_WIDTH_MOST = 4096 };

struct attn_model {
    attn_model_config config;
    attn_parameters *set;
    float *sinusoids; /* [max_length, D], or NULL */
    attn_embedding source, target, positions;
    attn_lstm encoder_lstm, decoder_lstm;
    attn_attend encoder_attention, cross_attention;
    attn_norm encoder_norm, cross_norm;
    attn_linear projection;
};

/* A half of the model on its way: what its backward needs. `sum` is what the norm reads. */
typedef struct model_half {
    const int32_t *ids;
    size_t B, T, first; /* first: position of step 0 */
    float *embedded, *states, *sum, *out, *stats;
    uint64_t embedding_seed, attention_seed;
    attn_lstm_saved lstm;
    attn_attend_saved attend;
} model_half;

typedef struct model_walk {
    const attn_model *model;
    attn_pass pass;
    const int64_t *lengths; /* of the sources */
    model_half encoder, decoder;
    attn_lstm_state handed; /* attention none: [layers, B, D], what the decoder starts from */
    float *logits;          /* [B, T, V] */
} model_walk;

bool attn_models_attends(const attn_model *model); /* false: attention none */

/* Sources [B, S] to walk->encoder.out (and walk->handed). */
attn_status attn_models_encode(model_walk *walk, const int32_t *source, const int64_t *lengths,
                               size_t B, size_t S, bool want_weights, attn_error *err);

/* What a step of the decoder goes on from. */
typedef struct model_decoding {
    const float *memory; /* [B, S, D] */
    size_t S;
    attn_lstm_state *initial;       /* NULL: zeros */
    const attn_lstm_state *last;    /* out, or NULL */
    const attn_attend_saved *ready; /* keys and values of the memory, or NULL */
    bool want_weights;
} model_decoding;

/* Targets [B, T] whose step 0 is at position `first`, to walk->logits. */
attn_status attn_models_decode(model_walk *walk, const int32_t *target, size_t B, size_t T,
                               size_t first, const model_decoding *from, attn_error *err);

/* From the gradients of the logits to those of all parameters. */
attn_status attn_models_backward(model_walk *walk, const float *dlogits, attn_error *err);

attn_status attn_models_check_config(const attn_model_config *config, attn_error *err);
/* Ids, lengths and sizes of a batch's sources, and of its targets. */
attn_status attn_models_check_source(const attn_model *model, const int32_t *source,
                                     const int64_t *lengths, size_t B, size_t S, attn_error *err);
attn_status attn_models_check_target(const attn_model *model, const int32_t *target, size_t B,
                                     size_t T, const char *name, attn_error *err);

#endif
