/* Declares the blocks of both architectures (attn/models.h). */
#include <math.h>
#include <stdio.h>

#include "models/model_private.h"

enum { NAME = ATTN_PARAMETER_NAME };

/* Where a block of a transformer is declared. Its parameters are "<name>.layers.<layer>.<what>". */
typedef struct place {
    attn_model *model;
    model_stack *stack;
    const char *name;
    size_t layer;
} place;

/* Takes memory for the blocks of a stack, which are declared one after another. */
static bool take_blocks(attn_model *m, model_stack *stack, size_t blocks) {
    stack->blocks = attn_arena_zeroed(m->arena, blocks, sizeof *stack->blocks);
    return stack->blocks != NULL;
}

static void full_name(char name[NAME], const place *p, const char *what) {
    snprintf(name, NAME, "%s.layers.%zu.%s", p->name, p->layer, what);
}

static model_block *add(const place *p, const model_operation *operation, const char *norm) {
    char name[NAME];
    model_block *block = &p->stack->blocks[p->stack->count++];
    block->operation = operation;
    block->wrap = p->model->config.norm_after ? WRAP_AFTER : WRAP_BEFORE;
    full_name(name, p, norm);
    attn_norm_declare(&block->norm, p->model->set, name, p->model->config.width);
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

static void add_feed(const place *p, const char *norm) {
    const attn_model_config *c = &p->model->config;
    char name[NAME];
    model_feed *feed = &add(p, &attn_models_feed, norm)->feed;
    feed->dropout = c->dropout_p;
    full_name(name, p, "linear1");
    attn_linear_declare(&feed->linear1, p->model->set, name, c->width, c->feed_forward, true);
    full_name(name, p, "linear2");
    attn_linear_declare(&feed->linear2, p->model->set, name, c->feed_forward, c->width, true);
}

static void add_last_norm(attn_model *m, model_stack *stack, const char *name) {
    model_block *block = &stack->blocks[stack->count++];
    block->operation = &attn_models_norm;
    attn_norm_declare(&block->norm, m->set, name, m->config.width);
}

bool attn_models_declare_transformer(attn_model *m) {
    const attn_model_config *c = &m->config;
    const float scale = (float)sqrt((double)c->width);
    if (!take_blocks(m, &m->encoder, 2 * c->num_layers + 1) ||
        !take_blocks(m, &m->decoder, 3 * c->num_layers + 1))
        return false;
    attn_embedding_declare(&m->encoder.embedding, m->set, "src_embedding", c->source_vocabulary,
                           c->width, scale, c->embedding_std, -1);
    attn_embedding_declare(&m->decoder.embedding, m->set, "tgt_embedding", c->target_vocabulary,
                           c->width, scale, c->embedding_std, -1);
    if (c->positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               c->max_length, c->width);
    for (size_t l = 0; l < c->num_layers; l++) {
        const place p = {m, &m->encoder, "encoder", l};
        add_attention(&p, &attn_models_self, "self_attn", "norm1");
        add_feed(&p, "norm2");
    }
    add_last_norm(m, &m->encoder, "encoder.norm");
    for (size_t l = 0; l < c->num_layers; l++) {
        const place p = {m, &m->decoder, "decoder", l};
        add_attention(&p, &attn_models_causal, "self_attn", "norm1");
        add_attention(&p, &attn_models_cross, "multihead_attn", "norm2");
        add_feed(&p, "norm3");
    }
    add_last_norm(m, &m->decoder, "decoder.norm");
    attn_linear_declare(&m->projection, m->set, "output_projection", c->width, c->target_vocabulary,
                        true);
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
    attn_norm_declare(&block->norm, m->set, norm, m->config.width);
}

/* Declares the seq2seq model. Order and names of parameters are those of the textbooks' state
 * dict. */
bool attn_models_declare_seq2seq(attn_model *m) {
    const attn_model_config *c = &m->config;
    const size_t D = c->width;
    const float scale = (float)sqrt((double)D);
    if (!take_blocks(m, &m->encoder, 2) || !take_blocks(m, &m->decoder, 2))
        return false;
    m->hands = c->attention == ATTN_MODEL_NONE;
    m->reads_padding = c->read_padding;
    attn_embedding_declare(&m->encoder.embedding, m->set, "src_embedding", c->source_vocabulary, D,
                           scale, c->embedding_std, -1);
    attn_embedding_declare(&m->decoder.embedding, m->set, "tgt_embedding", c->target_vocabulary, D,
                           scale, c->embedding_std, -1);
    if (c->positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               c->max_length, D);
    add_lstm(&m->encoder, m, "encoder_lstm", D / 2, true);
    if (!m->hands)
        add_wrapped_attention(&m->encoder, m, "encoder_attention", "encoder_norm", false);
    add_lstm(&m->decoder, m, "decoder_lstm", D, false);
    if (!m->hands)
        add_wrapped_attention(&m->decoder, m, "cross_attention", "cross_norm", true);
    else
        attn_norm_declare(&add_block(&m->decoder, &attn_models_norm, WRAP_NONE)->norm, m->set,
                          "cross_norm", D);
    attn_linear_declare(&m->projection, m->set, "output_projection", D, c->target_vocabulary, true);
    return true;
}
