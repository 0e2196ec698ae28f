/* The textbook's sequence-to-sequence model as blocks: LSTM, then attention with a residual and
 * layer norm, in both halves. Without attention the decoder starts from the encoder's last state.
 */
#include <math.h>

#include "models/model_private.h"

static model_block *add(model_stack *stack, const model_operation *operation, model_wrap wrap) {
    model_block *block = &stack->blocks[stack->count++];
    block->operation = operation;
    block->wrap = wrap;
    return block;
}

static void add_lstm(model_stack *stack, attn_model *m, const char *name, size_t hidden,
                     bool bidirectional) {
    const attn_model_config *c = &m->config;
    attn_lstm_declare(&add(stack, &attn_models_lstm, WRAP_NONE)->lstm, m->set, name, c->width,
                      hidden, c->layers, bidirectional, c->dropout);
}

static void add_attention(model_stack *stack, attn_model *m, const char *name, const char *norm,
                          bool across) {
    model_block *block = add(stack, across ? &attn_models_cross : &attn_models_self, WRAP_AFTER);
    block->attend = attn_models_attend(&m->config, across);
    if (!across)
        block->attend.position = attn_models_relative(&m->config);
    attn_attend_declare(&block->attend, m->set, name);
    attn_norm_declare(&block->norm, m->set, norm, m->config.width);
}

/* In the order and under the names of the textbook's state dict. */
void attn_models_declare_seq2seq(attn_model *m) {
    const attn_model_config *c = &m->config;
    const size_t D = c->width;
    const float scale = (float)sqrt((double)D);
    m->hands = c->attention == ATTN_MODEL_NONE;
    m->reads_padding = c->read_padding;
    attn_embedding_declare(&m->encoder.embedding, m->set, "src_embedding", c->source_vocabulary, D,
                           scale, -1);
    attn_embedding_declare(&m->decoder.embedding, m->set, "tgt_embedding", c->target_vocabulary, D,
                           scale, -1);
    if (c->positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               c->max_length, D);
    add_lstm(&m->encoder, m, "encoder_lstm", D / 2, true);
    if (!m->hands)
        add_attention(&m->encoder, m, "encoder_attention", "encoder_norm", false);
    add_lstm(&m->decoder, m, "decoder_lstm", D, false);
    if (!m->hands)
        add_attention(&m->decoder, m, "cross_attention", "cross_norm", true);
    else
        attn_norm_declare(&add(&m->decoder, &attn_models_norm, WRAP_NONE)->norm, m->set,
                          "cross_norm", D);
    attn_linear_declare(&m->projection, m->set, "output_projection", D, c->target_vocabulary, true);
}
