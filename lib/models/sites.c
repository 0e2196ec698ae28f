/* Lists the attention sites of a model and of a pass through it (attn/models.h). */
#include <string.h>

#include "base/try.h"
#include "models/model_private.h"

/* Appends the sites of one kind in a stack to m->sites, or only counts them if m->sites is NULL. */
static void add_kind(attn_model *m, const model_stack *stack, attn_site_kind kind) {
    size_t layer = 0;
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        if (!block->operation->has_site || block->operation->site != kind)
            continue;
        if (m->sites) {
            m->sites[m->site_count] =
                (attn_site){.kind = kind, .layer = layer++, .heads = block->attend.heads};
            m->site_blocks[m->site_count] = i;
        }
        m->site_count++;
    }
}

static void add_all(attn_model *m) {
    m->site_count = 0;
    add_kind(m, &m->encoder, ATTN_SITE_ENCODER);
    add_kind(m, &m->decoder, ATTN_SITE_DECODER);
    add_kind(m, &m->decoder, ATTN_SITE_CROSS);
}

attn_status attn_models_list_sites(attn_model *m, attn_error *err) {
    add_all(m);
    m->sites = attn_arena_zeroed(m->arena, m->site_count + 1, sizeof *m->sites);
    m->site_blocks = attn_arena_zeroed(m->arena, m->site_count + 1, sizeof *m->site_blocks);
    ATTN_TAKEN(m->sites && m->site_blocks, "the attention layers", err);
    add_all(m);
    return ATTN_OK;
}

const attn_site *attn_model_sites(const attn_model *model, size_t *count) {
    *count = model->site_count;
    return model->sites;
}

/* Returns the `saved` struct of the attention layer of site i in the pass. */
static const attn_attend_saved *saved_of(const model_walk *w, size_t i) {
    const model_half *half =
        w->model->sites[i].kind == ATTN_SITE_ENCODER ? &w->encoder : &w->decoder;
    return &half->traces[w->model->site_blocks[i]].attend;
}

attn_site *attn_models_sites_of(const model_walk *w, attn_error *err) {
    const attn_model *m = w->model;
    attn_site *sites = attn_arena_zeroed(w->pass.arena, m->site_count + 1, sizeof *sites);
    if (!sites) {
        attn_fail(err, ATTN_ENOMEM, "", "no memory for %zu attention layers", m->site_count);
        return NULL;
    }
    for (size_t i = 0; i < m->site_count; i++) {
        const attn_attend_saved *s = saved_of(w, i);
        sites[i] = m->sites[i];
        sites[i].operation = s->operation;
        sites[i].stats = &s->results.stats;
        if (s->results.weights.rank)
            sites[i].weights = attn_tensor_dense(s->results.weights.data, ATTN_F32, 4,
                                                 (size_t[4]){s->B, sites[i].heads, s->L, s->S});
    }
    return sites;
}

/* Reshapes an operand to [B, heads, rows, columns]. An operand with a single head lacks the axis of
 * heads before. */
static void add_head_axis(attn_tensor *t, size_t B, size_t heads) {
    *t = attn_tensor_dense(t->data, ATTN_F32, 4,
                           (size_t[4]){B, heads, t->dims[t->rank - 2], t->dims[t->rank - 1]});
}

/* Repeats each head of keys or values for the heads of queries that share it. */
static attn_status repeat_heads(attn_tensor *t, size_t B, size_t kv_heads, size_t heads,
                                attn_arena *arena, attn_error *err) {
    const size_t n = t->dims[t->rank - 2] * t->dims[t->rank - 1];
    float *to = attn_arena_array(arena, B * heads, n * sizeof *to);
    ATTN_TAKEN(to, "keys and values of all heads", err);
    for (size_t i = 0; i < B * heads; i++) {
        const size_t head = i % heads / (heads / kv_heads);
        memcpy(to + i * n, (float *)t->data + (i / heads * kv_heads + head) * n, n * sizeof *to);
    }
    t->data = to;
    return ATTN_OK;
}

attn_status attn_models_site_inputs(const model_walk *w, attn_site *sites, attn_error *err) {
    for (size_t i = 0; i < w->model->site_count; i++) {
        attn_site *s = &sites[i];
        attn_tensor *all[3] = {&s->query, &s->key, &s->value};
        ATTN_TRY(attn_attention_operands(s->operation, w->pass.arena, all[0], all[1], all[2], err));
        const size_t B = saved_of(w, i)->B, kv_heads = saved_of(w, i)->in.num_kv_heads;
        for (int k = 1; k < 3 && kv_heads; k++)
            ATTN_TRY(repeat_heads(all[k], B, kv_heads, s->heads, w->pass.arena, err));
        for (int k = 0; k < 3; k++)
            add_head_axis(all[k], B, s->heads);
    }
    return ATTN_OK;
}
