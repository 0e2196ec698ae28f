/* Computes the cost of a pass through a model from its sizes alone. Each parameter costs a
 * multiply-add for each token that its layer reads; the cells of attention are added. The constants
 * for bytes were measured and have a margin, so that the bytes are an upper bound. */
#include "models/model_private.h"

/* seq2seq: floats for each token of encoder or decoder, as multiples of the width, and how many
 * more for each LSTM layer. They are the inputs, gates and states of LSTMs, projections and
 * sums. */
#define TOKEN_WIDTHS 24.0
#define LAYER_WIDTHS 16.0
/* Transformer: the same for each layer, without the hidden layer of feed-forward. */
#define SUBLAYER_WIDTHS 20.0
#define SCORES          3.0 /* floats for each cell of a score matrix */
/* bytes for each layer of a transformer, or once: arenas, and rounding of block sizes */
#define STEP_BYTES 65536.0
/* bytes for each target and step of a search: at most three blocks of 64 */
#define STEP_ROW_BYTES 192.0
/* bytes for each alternative of a step: id and log probability, with rounding */
#define ALTERNATIVE_BYTES 32.0
/* Scratch bytes of the attention operation: for each head of each sequence; for each slot of the
 * pool; for each slot and element of a query vector. */
#define HEAD_BYTES  32768.0
#define SLOT_BYTES  98304.0
#define QUERY_BYTES 5120.0
/* Operations of a score cell for each element of a query vector: a multiply-add with the key and
 * one with the value. For additive scores the first is a tanh and a sum instead. */
#define DOT_OPERATIONS  4.0
#define TANH_OPERATIONS 16.0

static double parameters(const attn_model *model, const char *part) {
    return (double)attn_parameters_count(model->set, part);
}

/* Returns whether the model has layers of self-attention and feed-forward, and no LSTM. */
static bool is_transformer(const attn_model *model) {
    return model->config.architecture != ATTN_MODEL_SEQ2SEQ;
}

/* Returns cells, operations and scratch bytes of all attention layers. */
static attn_model_cost attention_cost(const attn_model *model, const attn_model_pass *p,
                                      size_t slots) {
    const attn_model_config *c = &model->config;
    const bool tanh = c->attention == ATTN_MODEL_ADDITIVE || c->attention == ATTN_MODEL_CONCAT;
    const double D = (double)c->width;
    const size_t count = model->site_count;
    const attn_site *sites = model->sites;
    attn_model_cost cost = {0};
    for (size_t i = 0; i < count; i++) {
        const bool encodes = sites[i].kind == ATTN_SITE_ENCODER;
        const double heads = (double)sites[i].heads, sequences = encodes ? p->B : p->rows;
        const double pairs = sequences * (encodes ? p->S : p->T) *
                             (sites[i].kind == ATTN_SITE_DECODER ? p->T : p->S);
        cost.cells += heads * pairs;
        cost.operations +=
            (tanh && sites[i].kind == ATTN_SITE_CROSS ? TANH_OPERATIONS : DOT_OPERATIONS) * D *
            pairs;
        cost.bytes += HEAD_BYTES * heads * sequences;
        /* Both attention layers of a seq2seq model use the same scratch of a slot. */
        if (is_transformer(model) || i + 1 == count)
            cost.bytes += (double)slots * (SLOT_BYTES + QUERY_BYTES * D / heads);
    }
    return cost;
}

/* Returns the floats of a pass for each token, as a multiple of the width. */
static double token_widths(const attn_model *model) {
    const attn_model_config *c = &model->config;
    const double layers = (double)c->num_layers;
    const double hidden = 1 + (c->activation != ATTN_MODEL_RELU || c->gated) + c->gated;
    if (is_transformer(model))
        return TOKEN_WIDTHS + 2 * c->embedding_norm +
               layers * (SUBLAYER_WIDTHS + hidden * (double)c->feed_forward / (double)c->width);
    return TOKEN_WIDTHS + LAYER_WIDTHS * layers;
}

/* Returns the bytes of the packed matrices of a stack's LSTMs for this number of sequences. */
static double packed(const model_stack *stack, double sequences) {
    double bytes = 0;
    for (size_t i = 0; i < stack->count; i++)
        if (stack->blocks[i].operation == &attn_models_lstm)
            bytes += attn_lstm_pack_bytes(sequences, &stack->blocks[i].lstm);
    return bytes;
}

attn_model_cost attn_model_pass_cost(const attn_model *model, const attn_model_pass *p,
                                     size_t slots) {
    const attn_model_config *c = &model->config;
    const double D = (double)c->width, layers = is_transformer(model) ? (double)c->num_layers : 1;
    const double head = parameters(model, "pooler") + parameters(model, "output_projection") +
                        (c->tied ? D * (double)c->target_vocabulary : 0);
    const double once = parameters(model, "encoder_lstm") + parameters(model, "encoder_attention") +
                        parameters(model, "encoder") + (model->decoder.count ? 0 : head);
    const double step = parameters(model, "decoder_lstm") + parameters(model, "cross_attention") +
                        parameters(model, "decoder") + head;
    /* In a search, only one token of each target is in memory at a time. */
    const double held = p->searches ? p->rows : p->rows * p->T;
    const double logits = model->decoder.count ? held : p->B * p->S;
    const attn_site *sites = model->sites;
    attn_model_cost cost = attention_cost(model, p, slots);
    cost.operations += 2 * (p->B * p->S * once + p->rows * p->T * step);
    cost.bytes += sizeof(float) * (token_widths(model) * D * (p->B * p->S + held) +
                                   (double)c->target_vocabulary * logits + SCORES * cost.cells) +
                  STEP_BYTES * layers + packed(&model->encoder, p->B) +
                  packed(&model->decoder, p->rows);
    /* A search frees the scratch of each step. Keys, values, tokens and weights stay. */
    if (p->searches)
        cost.bytes +=
            3 * sizeof(float) * D * p->rows * layers * (p->S + (is_transformer(model) ? p->T : 0)) +
            STEP_ROW_BYTES * p->rows * p->T;
    if (p->keeps_states) /* embeddings without positions; a pass holds all other states anyway */
        cost.bytes += sizeof(float) * D * (p->B * p->S + p->rows * p->T);
    for (size_t i = 0; p->keeps_inputs && i < model->site_count; i++) {
        const bool encodes = sites[i].kind == ATTN_SITE_ENCODER;
        const double L = encodes ? p->S : p->T,
                     S = sites[i].kind == ATTN_SITE_DECODER ? p->T : p->S;
        cost.bytes += sizeof(float) * D * (encodes ? p->B : p->rows) * (L + 2 * S);
    }
    if (p->drops) /* the inputs of the layers of LSTMs, after dropout */
        cost.bytes +=
            sizeof(float) * D * ((double)c->num_layers - 1) * (p->B * p->S + p->rows * p->T);
    if (p->hides) /* which tokens are visible: copied for each beam, and compiled for each layer */
        cost.bytes += p->rows * p->S * (2 + layers) + p->B * p->S * layers;
    if (p->alternatives > 0)
        cost.bytes += ALTERNATIVE_BYTES * (p->rows + p->B) * p->T * (p->alternatives + 2);
    return cost;
}
