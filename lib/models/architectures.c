/* Declares the embeddings, blocks and heads of all architectures (attn/models.h). */
#include <math.h>
#include <stdio.h>

#include "models/model_private.h"

enum { NAME = ATTN_PARAMETER_NAME };

/* The place of a block of a transformer. The parameters of the block are
 * "<name>.layers.<layer>.<what>". */
typedef struct place {
    attn_model *model;
    model_stack *stack;
    const char *name;
    size_t layer;
} place;

/* Allocates `blocks` blocks of a stack and declares none of them. Returns false if memory runs
 * out. */
static bool take_blocks(attn_model *m, model_stack *stack, size_t blocks) {
    stack->blocks = attn_arena_zeroed(m->arena, blocks, sizeof *stack->blocks);
    return stack->blocks != NULL;
}

static void full_name(char name[NAME], const place *p, const char *what) {
    snprintf(name, NAME, "%s.layers.%zu.%s", p->name, p->layer, what);
}

static attn_norm norm_of(const attn_model_config *c) {
    return (attn_norm){.width = c->width,
                       .epsilon = (float)c->norm_epsilon,
                       .rms = c->norm_kind == ATTN_MODEL_RMS_NORM,
                       .unbiased = !c->bias};
}

static model_block *add(const place *p, const model_operation *operation, const char *norm) {
    char name[NAME];
    model_block *block = &p->stack->blocks[p->stack->count++];
    block->operation = operation;
    block->wrap = p->model->config.norm == ATTN_MODEL_NORM_AFTER ? WRAP_AFTER : WRAP_BEFORE;
    block->norm = norm_of(&p->model->config);
    full_name(name, p, norm);
    attn_norm_declare(&block->norm, p->model->set, name);
    return block;
}

static void add_attention(const place *p, const model_operation *operation, const char *what,
                          const char *norm) {
    const attn_model_config *c = &p->model->config;
    const bool across = operation == &attn_models_cross;
    char name[NAME];
    model_block *block = add(p, operation, norm);
    block->attend = attn_models_attend(c, across);
    block->attend.packed = block->attend.kind == ATTN_SCORE_scaled_dot;
    block->attend.causal = operation == &attn_models_causal;
    if (!across)
        block->attend.position = attn_models_relative(c);
    full_name(name, p, what);
    attn_attend_declare(&block->attend, p->model->set, name);
}

static void add_linear(const place *p, const char *what, size_t in, size_t out,
                       attn_linear *linear) {
    char name[NAME];
    full_name(name, p, what);
    attn_linear_declare(linear, p->model->set, name, in, out, p->model->config.bias);
}

static void add_feed(const place *p, const char *norm) {
    static const attn_activation activations[ATTN_MODEL_ACTIVATIONS] = {
        [ATTN_MODEL_RELU] = ATTN_RELU,
        [ATTN_MODEL_GELU] = ATTN_GELU,
        [ATTN_MODEL_GELU_TANH] = ATTN_GELU_TANH,
        [ATTN_MODEL_SILU] = ATTN_SILU};
    const attn_model_config *c = &p->model->config;
    model_feed *feed = &add(p, &attn_models_feed, norm)->feed;
    feed->dropout = c->dropout_p;
    feed->activation = activations[c->activation];
    feed->gated = c->gated;
    add_linear(p, "linear1", c->width, c->feed_forward, &feed->linear1);
    if (c->gated)
        add_linear(p, "linear_gate", c->width, c->feed_forward, &feed->gate);
    add_linear(p, "linear2", c->feed_forward, c->width, &feed->linear2);
}

static void add_last_norm(attn_model *m, model_stack *stack, const char *name) {
    model_block *block = &stack->blocks[stack->count++];
    block->operation = &attn_models_norm;
    block->norm = norm_of(&m->config);
    attn_norm_declare(&block->norm, m->set, name);
}

static void add_tokens(attn_model *m, model_stack *stack, const char *name, size_t vocabulary) {
    const attn_model_config *c = &m->config;
    const double scale = c->embedding_scale > 0 ? c->embedding_scale : sqrt((double)c->width);
    attn_embedding_declare(&stack->embedding.tokens, m->set, name, vocabulary, c->width,
                           (float)scale, c->embedding_std, -1);
}

static void add_positions(attn_model *m) {
    if (m->config.positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               m->config.max_length, m->config.width);
}

/* Declares the table of segments and, under the name `norm`, the norm of the embeddings, if the
 * configuration has them. The table has the initial values of a table of positions. */
static void add_other_embeddings(attn_model *m, model_stack *stack, const char *norm) {
    const attn_model_config *c = &m->config;
    if (c->num_segments && stack == &m->encoder)
        attn_positions_declare(&stack->embedding.segments, m->set, "seg_embedding", c->num_segments,
                               c->width);
    if (!c->embedding_norm)
        return;
    stack->embedding.norm = norm_of(c);
    attn_norm_declare(&stack->embedding.norm, m->set, norm);
}

static void add_head(attn_model *m) {
    const attn_model_config *c = &m->config;
    attn_linear *projection = &m->head.projection;
    if (c->head == ATTN_MODEL_POOLED)
        attn_linear_declare(&m->head.pooler, m->set, "pooler", c->width, c->width, true);
    if (c->tied)
        *projection = (attn_linear){.in = c->width, .out = c->target_vocabulary};
    else
        attn_linear_declare(projection, m->set, "output_projection", c->width, c->target_vocabulary,
                            c->bias);
}

static void add_encoder_layers(attn_model *m) {
    for (size_t l = 0; l < m->config.num_layers; l++) {
        const place p = {m, &m->encoder, "encoder", l};
        add_attention(&p, &attn_models_self, "self_attn", "norm1");
        add_feed(&p, "norm2");
    }
}

bool attn_models_declare_transformer(attn_model *m) {
    const attn_model_config *c = &m->config;
    if (!take_blocks(m, &m->encoder, 2 * c->num_layers + 1) ||
        !take_blocks(m, &m->decoder, 3 * c->num_layers + 1))
        return false;
    add_tokens(m, &m->encoder, "src_embedding", c->source_vocabulary);
    add_tokens(m, &m->decoder, "tgt_embedding", c->target_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->encoder, "src_embedding_norm");
    add_other_embeddings(m, &m->decoder, "tgt_embedding_norm");
    add_encoder_layers(m);
    add_last_norm(m, &m->encoder, "encoder.norm");
    for (size_t l = 0; l < c->num_layers; l++) {
        const place p = {m, &m->decoder, "decoder", l};
        add_attention(&p, &attn_models_causal, "self_attn", "norm1");
        add_attention(&p, &attn_models_cross, "multihead_attn", "norm2");
        add_feed(&p, "norm3");
    }
    add_last_norm(m, &m->decoder, "decoder.norm");
    add_head(m);
    return true;
}

bool attn_models_declare_encoder(attn_model *m) {
    const attn_model_config *c = &m->config;
    if (!take_blocks(m, &m->encoder, 2 * c->num_layers + 1))
        return false;
    add_tokens(m, &m->encoder, "src_embedding", c->source_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->encoder, "src_embedding_norm");
    add_encoder_layers(m);
    if (c->norm == ATTN_MODEL_NORM_BEFORE)
        add_last_norm(m, &m->encoder, "encoder.norm");
    add_head(m);
    return true;
}

bool attn_models_declare_decoder(attn_model *m) {
    const attn_model_config *c = &m->config;
    if (!take_blocks(m, &m->decoder, 2 * c->num_layers + 1))
        return false;
    add_tokens(m, &m->decoder, "tgt_embedding", c->target_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->decoder, "tgt_embedding_norm");
    for (size_t l = 0; l < c->num_layers; l++) {
        const place p = {m, &m->decoder, "decoder", l};
        add_attention(&p, &attn_models_causal, "self_attn", "norm1");
        add_feed(&p, "norm2");
    }
    if (c->norm == ATTN_MODEL_NORM_BEFORE)
        add_last_norm(m, &m->decoder, "decoder.norm");
    add_head(m);
    return true;
}

static model_block *add_block(model_stack *stack, const model_operation *operation,
                              model_wrap wrap) {
    model_block *block = &stack->blocks[stack->count++];
    block->operation = operation;
    block->wrap = wrap;
    return block;
}

static void add_lstm(model_stack *stack, attn_model *m, const char *name, size_t hidden,
                     bool bidirectional) {
    const attn_model_config *c = &m->config;
    attn_lstm_declare(&add_block(stack, &attn_models_lstm, WRAP_NONE)->lstm, m->set, name, c->width,
                      hidden, c->num_layers, bidirectional, c->dropout_p);
}

static void add_wrapped_attention(model_stack *stack, attn_model *m, const char *name,
                                  const char *norm, bool across) {
    model_block *block =
        add_block(stack, across ? &attn_models_cross : &attn_models_self, WRAP_AFTER);
    block->attend = attn_models_attend(&m->config, across);
    if (!across)
        block->attend.position = attn_models_relative(&m->config);
    attn_attend_declare(&block->attend, m->set, name);
    block->norm = norm_of(&m->config);
    attn_norm_declare(&block->norm, m->set, norm);
}

/* Declares the seq2seq model. Its parameters have the order and the names of the state dict of
 * the model in PyTorch's textbook form (README.md of this folder). */
bool attn_models_declare_seq2seq(attn_model *m) {
    const attn_model_config *c = &m->config;
    const size_t D = c->width;
    if (!take_blocks(m, &m->encoder, 2) || !take_blocks(m, &m->decoder, 2))
        return false;
    m->hands = c->attention == ATTN_MODEL_NONE;
    m->reads_padding = c->padding == ATTN_MODEL_READ_PADDING;
    add_tokens(m, &m->encoder, "src_embedding", c->source_vocabulary);
    add_tokens(m, &m->decoder, "tgt_embedding", c->target_vocabulary);
    add_positions(m);
    add_lstm(&m->encoder, m, "encoder_lstm", D / 2, true);
    if (!m->hands)
        add_wrapped_attention(&m->encoder, m, "encoder_attention", "encoder_norm", false);
    add_lstm(&m->decoder, m, "decoder_lstm", D, false);
    if (!m->hands)
        add_wrapped_attention(&m->decoder, m, "cross_attention", "cross_norm", true);
    else
        add_last_norm(m, &m->decoder, "cross_norm");
    add_head(m);
    return true;
}
