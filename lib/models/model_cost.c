/* Computes the cost of a pass through a model from sizes alone, as the sum of the costs of
 * embeddings, blocks and head. The bytes must cover the memory that walk.c, model.c and generate.c
 * allocate; a unit test compares both. */
#include <math.h>

#include "models/model_private.h"

/* Adds the cost of a stack's embeddings: the memory that embed and embed_back (walk.c) allocate,
 * and the operations of the norm of the embeddings. */
static void add_embedding(const attn_model *m, const model_stack *stack, const model_extent *e,
                          bool keeps_states, attn_layer_cost *cost) {
    const double n = (double)e->B * (double)e->T;
    const double numbers = n * (double)stack->embedding.tokens.width;
    const attn_norm *norm = &stack->embedding.norm;
    const attn_linear *projection = &stack->embedding.projection;
    attn_cost_floats(cost, numbers);
    attn_cost_floats(cost, projection->out ? n * (double)m->config.width : 0);
    if (projection->out)
        attn_linear_cost(projection, n, false, cost);
    attn_cost_floats(cost, stack->embedding.segments.rows ? n : 0);
    attn_cost_floats(cost, keeps_states && attn_models_adds_embeddings(m, stack) ? numbers : 0);
    if (!norm->width)
        return;
    for (int i = 0; i < 1 + e->use.training; i++)
        attn_cost_floats(cost, numbers);
    attn_cost_floats(cost, 2 * n);
    attn_norm_cost(norm, n, e->use.training, cost);
}

/* Adds the memory of the buffers that the blocks of a lean pass share. */
static void add_shared_buffers(const model_stack *stack, const model_extent *e, size_t width,
                               attn_layer_cost *cost) {
    const model_shared count = attn_models_shared(stack);
    const double n = (double)e->B * (double)e->T;
    for (size_t i = 0; i < count.outputs + count.inners + count.sums; i++)
        attn_cost_floats(cost, n * (double)width);
    for (size_t i = 0; i < count.outputs; i++)
        attn_cost_floats(cost, 2 * n);
}

/* Adds the cost of a block with its wrap. */
static void add_block(const model_block *block, const model_extent *e, size_t width,
                      attn_layer_cost *cost) {
    const double n = (double)e->B * (double)e->T;
    for (int i = 0;
         !e->use.lean && i < 2 + (block->wrap == WRAP_AROUND) - (block->wrap == WRAP_NONE); i++)
        attn_cost_floats(cost, n * (double)width);
    attn_cost_floats(cost, e->use.lean ? 0 : 2 * n);
    if (block->norm.width)
        attn_norm_cost(&block->norm, n, e->use.training, cost);
    if (block->second.width)
        attn_norm_cost(&block->second, n, e->use.training, cost);
    if (block->operation->cost)
        block->operation->cost(block, e, cost);
}

/* Returns whether two blocks have the same cost. Blocks of a stack with the same operation have the
 * same sizes. */
static bool costs_alike(const model_block *a, const model_block *b) {
    return a->operation == b->operation && a->norm.width == b->norm.width &&
           (!a->operation->has_site || (a->attend.position == b->attend.position &&
                                        a->attend.has_window == b->attend.has_window));
}

/* Returns how many blocks of a stack cost as much as block i. Returns 0 if an earlier block costs
 * as much, since all these blocks were then counted at the earlier one. */
static double count_alike(const model_stack *stack, size_t i) {
    double count = 0;
    for (size_t k = 0; k < stack->count; k++) {
        const bool alike = costs_alike(&stack->blocks[k], &stack->blocks[i]);
        if (alike && k < i)
            return 0;
        count += alike;
    }
    return count;
}

static void add_times(attn_layer_cost *to, const attn_layer_cost *cost, double times) {
    to->cells += times * cost->cells;
    to->operations += times * cost->operations;
    to->bytes += times * cost->bytes;
    to->passing = fmax(to->passing, cost->passing);
    to->fallback_bytes += times * cost->fallback_bytes;
}

/* Returns the cost of a stack: its embeddings, its blocks, and the gradients between blocks. */
static attn_layer_cost stack_cost(const attn_model *m, const model_stack *stack,
                                  const model_extent *e, bool keeps_states) {
    const double numbers = (double)e->B * (double)e->T * (double)m->config.width;
    attn_layer_cost cost = {0};
    if (!stack->count)
        return cost;
    add_embedding(m, stack, e, keeps_states, &cost);
    attn_cost_bytes(&cost, (double)(stack->count * sizeof(model_trace)));
    for (int i = 0; e->use.training && i < 3; i++)
        attn_cost_floats(&cost, numbers);
    if (e->use.lean)
        add_shared_buffers(stack, e, m->config.width, &cost);
    for (size_t i = 0; i < stack->count; i++) {
        const double count = count_alike(stack, i);
        attn_layer_cost one = {0};
        if (count > 0)
            add_block(&stack->blocks[i], e, m->config.width, &one);
        add_times(&cost, &one, count);
    }
    cost.bytes += cost.passing;
    return cost;
}

/* Adds the memory of the encoder's LSTM states from which the decoder starts, and of the gradients
 * of these states. */
static void add_handed(const attn_model *m, size_t B, bool training, attn_layer_cost *cost) {
    const double numbers = (double)(m->config.num_layers * B * m->config.width);
    for (int i = 0; m->hands && i < (training ? 8 : 4); i++)
        attn_cost_floats(cost, numbers);
}

/* Adds the cost of the head. The gradient of the logits needs no memory of its own, because it
 * overwrites the logits. */
static void add_head(const attn_model *m, const model_extent *e, attn_layer_cost *cost) {
    const model_head *head = &m->head;
    const bool pools = head->pooler.out > 0, training = e->use.training;
    const double rows = (double)e->B * (pools ? 1 : (double)e->T);
    if (!head->projection.out)
        return;
    for (int i = 0; head->dense.out && i < 2; i++)
        attn_cost_floats(cost, rows * (double)head->dense.out);
    if (head->dense.out)
        attn_linear_cost(&head->dense, rows, false, cost);
    for (int i = 0; pools && i < (training ? 4 : 2); i++)
        attn_cost_floats(cost, rows * (double)m->config.width);
    if (pools)
        attn_linear_cost(&head->pooler, rows, training, cost);
    attn_cost_floats(cost, rows * (double)head->projection.out);
    attn_linear_cost(&head->projection, rows, training, cost);
}

/* Adds the cost of the losses on the weights of the last cross-attention. */
static void add_weight_losses(const attn_model *m, const model_extent *e, attn_layer_cost *cost) {
    const size_t i = attn_models_last_block(&m->decoder, &attn_models_cross);
    const model_block *block = &m->decoder.blocks[i];
    if (i == m->decoder.count)
        return;
    attn_cost_bytes(cost, (double)e->B * sizeof(int64_t));
    attn_cost_floats(cost,
                     (double)e->B * (double)block->attend.heads * (double)e->T * (double)e->S);
    attn_attend_weights_cost(&block->attend, e->B, e->T, e->S, &e->use, cost);
}

/* Adds the memory of the lists of sites and states, and of the sites' queries, keys and values. */
static void add_lists(const attn_model *m, const attn_model_pass *p, attn_layer_cost *cost) {
    attn_cost_bytes(cost, (double)((m->site_count + 1) * sizeof *m->sites));
    if (p->keeps_states)
        attn_cost_bytes(cost, (double)(m->state_count * sizeof *m->states));
    for (size_t i = 0; p->keeps_inputs && i < m->site_count; i++) {
        const bool encodes = m->sites[i].kind == ATTN_SITE_ENCODER;
        const double L = (double)(encodes ? p->S : p->T);
        const double S = (double)(m->sites[i].kind == ATTN_SITE_DECODER ? p->T : p->S);
        const model_stack *stack = encodes ? &m->encoder : &m->decoder;
        const attn_attend *attend = &stack->blocks[m->site_blocks[i]].attend;
        const double width =
            (double)(encodes ? p->B : p->rows) * (double)attn_attend_query_width(attend);
        attn_cost_floats(cost, width * L);
        attn_cost_floats(cost, width * S);
        attn_cost_floats(cost, width * S);
        for (int k = 0; k < 2 && attend->kv_heads; k++)
            attn_cost_floats(cost, (double)(encodes ? p->B : p->rows) * S *
                                       (double)attn_attend_key_width(attend));
    }
}

/* Adds the cost of a search: the operations of all steps, the memory of the last step (no other
 * step needs more) or of the tokens of a prompt that are read together, the caches, and the cost
 * that attn_models_search_cost adds. */
static void add_search(const attn_model *m, const attn_model_pass *p, const model_extent *e,
                       attn_layer_cost *cost) {
    const model_rows rows = {.rows = p->rows, .beams = p->beams, .most = p->T};
    const double V = (double)m->config.target_vocabulary;
    const size_t prompted = m->encoder.count ? 0 : p->S,
                 together = prompted < ATTN_MODELS_TOGETHER ? prompted : ATTN_MODELS_TOGETHER;
    model_extent all = *e, last = *e, prompt = *e;
    all.use.ready = last.use.ready = true;
    last.T = p->T > 0;
    last.earlier = p->T - last.T;
    prompt.use.ready = true;
    prompt.use.want_weights = false;
    prompt.T = together;
    prompt.earlier = prompted - together;
    attn_layer_cost steps = stack_cost(m, &m->decoder, &all, false),
                    step = stack_cost(m, &m->decoder, &last, false),
                    read = stack_cost(m, &m->decoder, &prompt, false);
    add_head(m, &all, &steps);
    add_head(m, &last, &step);
    add_lists(m, p, &step);
    attn_cost_floats(&step, V);
    for (size_t b = 0; p->samples && b < p->rows; b++)
        attn_models_draw_cost(&m->config, &step);
    for (size_t b = 0; p->penalises && b < p->rows; b++)
        attn_models_penalty_cost(&m->config, p->T, &step);
    cost->cells += steps.cells;
    cost->operations += steps.operations;
    attn_cost_bytes(&read, (double)(p->rows * together) * sizeof(int32_t));
    cost->bytes += fmax(step.bytes, read.bytes);
    cost->fallback_bytes += fmax(step.fallback_bytes, read.fallback_bytes);
    for (size_t i = 0; i < m->decoder.count; i++)
        if (m->decoder.blocks[i].operation->start_cost)
            m->decoder.blocks[i].operation->start_cost(&m->decoder.blocks[i], &rows, p->S, cost);
    attn_cost_bytes(cost, (double)(m->decoder.count * sizeof(model_cache)));
    attn_models_search_cost(m, p, cost);
}

attn_model_cost attn_model_pass_cost(const attn_model *m, const attn_model_pass *p, size_t slots) {
    const attn_pass_use use = {.training = p->trains,
                               .lean = !p->trains && !p->keeps_states && attn_models_may_be_lean(m),
                               .drops = p->drops || p->trains,
                               .want_weights = p->keeps_weights || p->guides,
                               .hides = p->hides,
                               .slots = slots};
    model_extent encoder = {.B = p->B, .T = p->S, .use = use};
    const model_extent decoder = {.B = p->rows, .T = p->T, .S = p->S, .use = use};
    encoder.use.want_weights = use.want_weights && !p->searches;
    attn_layer_cost cost = stack_cost(m, &m->encoder, &encoder, p->keeps_states);
    add_handed(m, p->B, p->trains, &cost);
    if (p->searches) {
        add_search(m, p, &decoder, &cost);
    } else {
        attn_layer_cost decoded = stack_cost(m, &m->decoder, &decoder, p->keeps_states);
        if (!p->no_logits)
            add_head(m, m->decoder.count ? &decoder : &encoder, &decoded);
        add_times(&cost, &decoded, 1);
        add_lists(m, p, &cost);
        attn_models_activations_cost(m, p->places, &cost);
    }
    if (p->guides)
        add_weight_losses(m, &decoder, &cost);
    return (attn_model_cost){cost.cells, cost.operations, cost.bytes, cost.fallback_bytes};
}
