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

attn_activation attn_models_activation(attn_model_activation activation) {
    static const attn_activation activations[ATTN_MODEL_ACTIVATIONS] = {
        [ATTN_MODEL_RELU] = ATTN_RELU,
        [ATTN_MODEL_GELU] = ATTN_GELU,
        [ATTN_MODEL_GELU_TANH] = ATTN_GELU_TANH,
        [ATTN_MODEL_SILU] = ATTN_SILU};
    return activations[activation];
}

static attn_norm norm_as_wide(const attn_model_config *c, size_t width) {
    return (attn_norm){.width = width,
                       .epsilon = (float)c->norm_epsilon,
                       .rms = c->norm_kind == ATTN_MODEL_RMS_NORM,
                       .unbiased = !attn_models_has_bias(c->norm_bias, c->bias)};
}

static attn_norm norm_of(const attn_model_config *c) {
    return norm_as_wide(c, c->width);
}

static void add_norm(const place *p, const char *what, attn_norm *norm) {
    char name[NAME];
    *norm = norm_of(&p->model->config);
    full_name(name, p, what);
    attn_norm_declare(norm, p->model->set, name);
}

/* Adds a block with its wrap. `norm` is the name of its norm, and "<norm>_out" the name of its
 * second norm. */
static model_block *add(const place *p, const model_operation *operation, const char *norm) {
    static const model_wrap wraps[] = {[ATTN_MODEL_NORM_BEFORE] = WRAP_BEFORE,
                                       [ATTN_MODEL_NORM_AFTER] = WRAP_AFTER,
                                       [ATTN_MODEL_NORM_AROUND] = WRAP_AROUND,
                                       [ATTN_MODEL_NORM_INSIDE] = WRAP_INSIDE};
    const attn_model_config *c = &p->model->config;
    const bool feeds = operation == &attn_models_feed;
    char second[32];
    model_block *block = &p->stack->blocks[p->stack->count];
    block->like = p->stack->count++;
    block->operation = operation;
    block->wrap = wraps[c->norm];
    block->residual_scale = (float)c->residual_scale;
    block->parallel = feeds && c->parallel;
    block->shares_norm = feeds && c->parallel == ATTN_MODEL_ONE_NORM;
    if (!block->shares_norm && !(c->skips_first_norm && !block->like))
        add_norm(p, norm, &block->norm);
    snprintf(second, sizeof second, "%s_out", norm);
    if (block->wrap == WRAP_AROUND)
        add_norm(p, second, &block->second);
    return block;
}

/* Sets the options of self-attention that depend on the layer: positions and window. */
static void set_layer_options(const place *p, attn_attend *a) {
    const attn_model_config *c = &p->model->config;
    const bool windowed = c->window && attn_model_layers_have(&c->windowed_layers, p->layer);
    const bool local = windowed && c->local_rotary_base > 0;
    a->position = attn_models_relative(c);
    if (a->position == ATTN_POSITION_ROTARY &&
        attn_model_layers_have(&c->unplaced_layers, p->layer))
        a->position = ATTN_POSITION_NONE;
    a->has_window = windowed;
    a->window = c->window;
    a->rotary = attn_models_rotary(c, local);
    if (c->rotary_scaling == ATTN_MODEL_LONGROPE) {
        a->short_factor = &p->model->short_factor;
        a->long_factor = &p->model->long_factor;
    }
    if (c->positions != ATTN_MODEL_T5 && !c->bucket_bias)
        return;
    a->position = ATTN_POSITION_T5;
    a->buckets = &p->stack->buckets;
    a->num_buckets = c->num_buckets;
    a->bucket_distance = (int64_t)c->bucket_distance;
    a->unidirectional = a->causal;
}

static void set_query_norms(const attn_model_config *c, attn_attend *a) {
    const bool all = c->query_norm == ATTN_MODEL_NORM_OF_ALL;
    const size_t E = attn_attend_query_width(a) / a->heads;
    if (!c->query_norm)
        return;
    a->query_norm = norm_as_wide(c, all ? attn_attend_query_width(a) : E);
    a->key_norm = norm_as_wide(c, all ? attn_attend_key_width(a) : E);
}

static void add_attention(const place *p, const model_operation *operation, const char *what,
                          const char *norm) {
    const attn_model_config *c = &p->model->config;
    const bool across = operation == &attn_models_cross;
    char name[NAME];
    model_block *block = add(p, operation, norm);
    block->attend = attn_models_attend(c, across);
    block->attend.packed = block->attend.kind == ATTN_SCORE_scaled_dot && !c->separate;
    block->attend.causal = operation == &attn_models_causal;
    if (!across)
        set_layer_options(p, &block->attend);
    set_query_norms(c, &block->attend);
    full_name(name, p, what);
    attn_attend_declare(&block->attend, p->model->set, name);
}

static void add_linear(const place *p, const char *what, size_t in, size_t out,
                       attn_linear *linear) {
    char name[NAME];
    full_name(name, p, what);
    attn_linear_declare(
        linear, p->model->set, name, in, out,
        attn_models_has_bias(p->model->config.feed_forward_bias, p->model->config.bias));
}

static void add_feed(const place *p, const char *norm) {
    const attn_model_config *c = &p->model->config;
    model_feed *feed = &add(p, &attn_models_feed, norm)->feed;
    feed->dropout = c->dropout_p;
    feed->activation = attn_models_activation(c->activation);
    feed->gated = c->gated;
    add_linear(p, "linear1", c->width, c->feed_forward, &feed->linear1);
    if (c->gated)
        add_linear(p, "linear_gate", c->width, c->feed_forward, &feed->gate);
    add_linear(p, "linear2", c->feed_forward, c->width, &feed->linear2);
}

/* Adds the norm at the end of a stack. The configuration decides whether there is one, or else
 * `usual` does. */
static void add_last_norm(attn_model *m, model_stack *stack, const char *name, bool usual) {
    if (!attn_models_has_bias(m->config.stack_norm, usual))
        return;
    model_block *block = &stack->blocks[stack->count];
    block->like = stack->count++;
    block->operation = &attn_models_norm;
    block->norm = norm_of(&m->config);
    attn_norm_declare(&block->norm, m->set, name);
}

static size_t table_width(const attn_model_config *c) {
    return c->embedding_width ? c->embedding_width : c->width;
}

static void add_tokens(attn_model *m, model_stack *stack, const char *name, size_t vocabulary) {
    const attn_model_config *c = &m->config;
    const double scale = c->embedding_scale > 0 ? c->embedding_scale : sqrt((double)c->width);
    attn_embedding_declare(&stack->embedding.tokens, m->set, name, vocabulary, table_width(c),
                           (float)scale, c->embedding_std, -1);
}

/* Declares the parameters of positions that both stacks share: the tables added to embeddings, and
 * the factors of longrope. */
static void add_positions(attn_model *m) {
    const attn_model_config *c = &m->config;
    const attn_init one = {.kind = ATTN_INIT_CONSTANT, .amount = 1};
    const size_t E = c->head_width ? c->head_width : c->width / c->num_heads;
    const size_t pairs = (c->rotary_dims ? c->rotary_dims : E) / 2;
    if (c->positions == ATTN_MODEL_LEARNED && !c->own_positions)
        attn_positions_declare(&m->positions, m->set, "pos_encoding.position_embeddings",
                               c->position_offset + c->max_length, table_width(c));
    if (c->positions != ATTN_MODEL_ROTARY || c->rotary_scaling != ATTN_MODEL_LONGROPE)
        return;
    attn_layers_add(m->set, "rotary", "short_factor", 1, &pairs, one, &m->short_factor);
    attn_layers_add(m->set, "rotary", "long_factor", 1, &pairs, one, &m->long_factor);
}

/* Declares the tables and layers that a stack has besides the table of its tokens, as far as the
 * configuration asks for them. Their names begin with `side`, which is the name of the token table
 * without "_embedding". The table of segments has the initial values of a table of positions. */
static void add_other_embeddings(attn_model *m, model_stack *stack, const char *side) {
    const attn_model_config *c = &m->config;
    model_embedding *e = &stack->embedding;
    const size_t width = table_width(c);
    char name[NAME];
    snprintf(name, NAME, "%s_pos_encoding", side);
    if (c->own_positions && c->positions == ATTN_MODEL_LEARNED)
        attn_positions_declare(&e->positions, m->set, name, c->position_offset + c->max_length,
                               width);
    if (c->num_segments && stack == &m->encoder)
        attn_positions_declare(&e->segments, m->set, "seg_embedding", c->num_segments, width);
    snprintf(name, NAME, "%s_embedding_norm", side);
    if (c->embedding_norm) {
        e->norm = norm_as_wide(c, width);
        attn_norm_declare(&e->norm, m->set, name);
    }
    snprintf(name, NAME, "%s_embedding_projection", side);
    if (c->embedding_width)
        attn_linear_declare(&e->projection, m->set, name, width, c->width, true);
    snprintf(name, NAME, "%s_position_bias", side);
    if (c->positions == ATTN_MODEL_T5 || c->bucket_bias)
        attn_layers_add(m->set, name, "weight", 2, (size_t[]){c->num_buckets, c->num_heads},
                        (attn_init){.amount = 0}, &stack->buckets);
}

static void add_head(attn_model *m) {
    const attn_model_config *c = &m->config;
    attn_linear *projection = &m->head.projection;
    const bool bias = attn_models_has_bias(c->logits_bias, c->bias && !c->tied);
    const attn_init zero = {.amount = 0};
    size_t width = c->width;
    if (c->headless)
        return;
    if (c->head == ATTN_MODEL_POOLED)
        attn_linear_declare(&m->head.pooler, m->set, "pooler", c->width, c->width, true);
    if (c->head == ATTN_MODEL_MASKED) {
        width = table_width(c);
        m->head.activation = attn_models_activation(c->head_activation);
        m->head.norm = norm_as_wide(c, width);
        attn_linear_declare(&m->head.dense, m->set, "head_dense", c->width, width, c->bias);
        attn_norm_declare(&m->head.norm, m->set, "head_norm");
    }
    if (!c->tied) {
        attn_linear_declare(projection, m->set, "output_projection", width, c->target_vocabulary,
                            bias);
        return;
    }
    *projection = (attn_linear){.in = width, .out = c->target_vocabulary};
    if (bias)
        attn_layers_add(m->set, "output_projection", "bias", 1, &projection->out, zero,
                        &projection->bias);
}

/* The operations of a layer. A NULL ends the list. */
typedef struct layer_part {
    const model_operation *operation;
    const char *name, *norm;
} layer_part;

static const layer_part encoder_parts[] = {{&attn_models_self, "self_attn", "norm1"},
                                           {&attn_models_feed, "", "norm2"},
                                           {0}},
                        decoder_parts[] = {{&attn_models_causal, "self_attn", "norm1"},
                                           {&attn_models_feed, "", "norm2"},
                                           {0}},
                        both_parts[] = {{&attn_models_causal, "self_attn", "norm1"},
                                        {&attn_models_cross, "multihead_attn", "norm2"},
                                        {&attn_models_feed, "", "norm3"},
                                        {0}};

/* Adds the layers of a stack. If a group of layers shares parameters, the first layer of the group
 * declares them, under the number of the group. */
static void add_layers(attn_model *m, model_stack *stack, const char *name, const layer_part *parts,
                       size_t layers) {
    const size_t groups = m->config.num_layer_groups ? m->config.num_layer_groups : layers;
    size_t a_layer = 0;
    while (parts[a_layer].operation)
        a_layer++;
    for (size_t l = 0; l < layers; l++) {
        const size_t group = l * groups / layers, first = (group * layers + groups - 1) / groups;
        const place p = {m, stack, name, group};
        for (const layer_part *part = parts; part->operation; part++) {
            model_block *block = &stack->blocks[stack->count];
            if (l > first) {
                *block = stack->blocks[stack->count - (l - first) * a_layer];
                stack->count++;
            } else if (part->operation == &attn_models_feed) {
                add_feed(&p, part->norm);
            } else {
                add_attention(&p, part->operation, part->name, part->norm);
            }
        }
    }
}

/* Replaces each block that shares parameters by a copy of the block that has them. */
static void share_blocks(model_stack *stack) {
    for (size_t i = 0; i < stack->count; i++)
        stack->blocks[i] = stack->blocks[stack->blocks[i].like];
}

void attn_models_share_blocks(attn_model *model) {
    share_blocks(&model->encoder);
    share_blocks(&model->decoder);
}

bool attn_models_declare_transformer(attn_model *m) {
    const attn_model_config *c = &m->config;
    const size_t layers = c->num_decoder_layers ? c->num_decoder_layers : c->num_layers;
    if (!take_blocks(m, &m->encoder, 2 * c->num_layers + 1) ||
        !take_blocks(m, &m->decoder, 3 * layers + 1))
        return false;
    add_tokens(m, &m->encoder, "src_embedding", c->source_vocabulary);
    add_tokens(m, &m->decoder, "tgt_embedding", c->target_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->encoder, "src");
    add_other_embeddings(m, &m->decoder, "tgt");
    add_layers(m, &m->encoder, "encoder", encoder_parts, c->num_layers);
    add_last_norm(m, &m->encoder, "encoder.norm", true);
    add_layers(m, &m->decoder, "decoder", both_parts, layers);
    add_last_norm(m, &m->decoder, "decoder.norm", true);
    add_head(m);
    return true;
}

bool attn_models_declare_encoder(attn_model *m) {
    const attn_model_config *c = &m->config;
    if (!take_blocks(m, &m->encoder, 2 * c->num_layers + 1))
        return false;
    add_tokens(m, &m->encoder, "src_embedding", c->source_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->encoder, "src");
    add_layers(m, &m->encoder, "encoder", encoder_parts, c->num_layers);
    add_last_norm(m, &m->encoder, "encoder.norm", c->norm != ATTN_MODEL_NORM_AFTER);
    add_head(m);
    return true;
}

bool attn_models_declare_decoder(attn_model *m) {
    const attn_model_config *c = &m->config;
    if (!take_blocks(m, &m->decoder, 2 * c->num_layers + 1))
        return false;
    add_tokens(m, &m->decoder, "tgt_embedding", c->target_vocabulary);
    add_positions(m);
    add_other_embeddings(m, &m->decoder, "tgt");
    add_layers(m, &m->decoder, "decoder", decoder_parts, c->num_layers);
    add_last_norm(m, &m->decoder, "decoder.norm", c->norm != ATTN_MODEL_NORM_AFTER);
    add_head(m);
    return true;
}

static model_block *add_block(model_stack *stack, const model_operation *operation,
                              model_wrap wrap) {
    model_block *block = &stack->blocks[stack->count];
    block->like = stack->count++;
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
        add_last_norm(m, &m->decoder, "cross_norm", true);
    add_head(m);
    return true;
}
