/* Marian: BART with sines as positions, and no norm of embeddings. Junczys-Dowmunt et al. 2018. */
#include "models/families/family.h"

static const family_key keys[] = {
    /* equal to vocab_size, since embeddings are shared */
    ROW("decoder_vocab_size", "source_vocabulary"),
    ROW("share_encoder_decoder_embeddings", .standard = "true"),
    ROW("normalize_embedding", .standard = "false"),
    ALWAYS("positions", "sinusoidal"),
    ALWAYS("sinusoid_halves", "true"),
    END,
};

static const family_tensor sinusoids[] = {
    TENSOR("model.encoder.embed_positions.weight"), /* not used: the model computes the sines */
    TENSOR("model.decoder.embed_positions.weight"),
    END,
};

const attn_family attn_family_marian = {
    .name = "marian",
    .types = {"marian"},
    .prefix = "model.",
    .head = "final_logits_bias",
    .folder = {KEYS(attn_keys_seq2seq, attn_keys_bart, keys),
               TENSORS(attn_tensors_bart, sinusoids)},
};
