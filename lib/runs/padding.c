/* The padding of a site (FORMAT.md): the queries and keys of each batch entry that are no tokens of
 * the entry's text. Measures read the padding from attn_weight_source.padding. */
#include "attention/resolved.h"
#include "base/try.h"
#include "mask/mask_private.h"
#include "runs/private.h"

/* Returns whether the tensor of a layer has one value for all heads and queries. */
static bool is_of_keys(const attn_mask_layer *layer, bool has_heads) {
    const attn_tensor *t = &layer->values;
    return (layer->kind == ATTN_LAYER_VALUES || layer->kind == ATTN_LAYER_BIAS ||
            layer->kind == ATTN_LAYER_BITS) &&
           (t->rank < 2 || t->dims[t->rank - 2] == 1) &&
           (t->rank < 3 || !has_heads || t->dims[t->rank - 3] == 1);
}

/* Compiles, for one query, the masks of a capture that are the same for all heads and queries. Sets
 * *out to NULL if there are no such masks. */
static attn_status compile_masks(const attn_run_site *site, attn_arena *arena, attn_mask **out,
                                 attn_error *err) {
    const attn_attention_dims *d = site->dims;
    const attn_mask_spec *all = &site->in.mask;
    attn_mask_shape shape = {
        .batch_rank = d->batch_rank, .has_heads = d->has_heads, .H = d->Hq, .L = 1, .S = d->S};
    attn_mask_spec *spec = attn_arena_zeroed(arena, 1, sizeof *spec);
    *out = NULL;
    ATTN_TAKEN(spec, "the padding of a site", err);
    for (int i = 0; i < d->batch_rank; i++)
        shape.batch[i] = d->batch[i];
    for (size_t i = 0; i < all->count && site->captured; i = attn_mask_spec_next(all, i))
        if (is_of_keys(&all->layers[i], d->has_heads))
            spec->layers[spec->count++] = all->layers[i];
    return spec->count ? attn_mask_new(spec, &shape, arena, out, err) : ATTN_OK;
}

/* Marks the keys of an entry that are behind its length or hidden by `mask`. Returns whether a key
 * is marked. */
static bool mark_keys(const attn_run_site *site, size_t b, const attn_mask *mask, uint8_t *cols) {
    const size_t S = site->dims->S;
    const int64_t *lengths = site->info.key_lengths;
    bool any = false;
    if (mask)
        attn_mask_keep(mask, b, 0, 0, 0, S, cols);
    for (size_t j = 0; j < S; j++) {
        cols[j] = (mask && !cols[j]) || (lengths && j >= (size_t)lengths[b]);
        any = any || cols[j];
    }
    return any;
}

static size_t text_of(const size_t *texts, size_t count, size_t b) {
    return count ? texts[count == 1 ? 0 : b] : SIZE_MAX;
}

/* Returns whether queries and keys of an entry are tokens of the same text (self-attention). */
static bool is_of_itself(const attn_run_site *site, size_t b) {
    const attn_run_site_info *info = &site->info;
    const size_t query = text_of(info->query_texts, info->query_text_count, b);
    const size_t key = text_of(info->key_texts, info->key_text_count, b);
    const bool aligned = site->dims->L == site->dims->S && info->query_start == info->key_start;
    return info->kind != ATTN_RUN_CROSS && query == key && (query != SIZE_MAX || aligned);
}

/* Marks the queries of an entry behind its length. If the site has no query lengths, a query in
 * self-attention of a capture is marked if its own key is padding. Returns whether a query is
 * marked. */
static bool mark_rows(const attn_run_site *site, size_t b, const uint8_t *cols, uint8_t *rows) {
    const attn_run_site_info *info = &site->info;
    const bool itself = site->captured && is_of_itself(site, b);
    bool any = false;
    for (size_t i = 0; i < site->dims->L; i++) {
        const size_t at = info->query_start + i;
        const bool own = itself && at >= info->key_start && at - info->key_start < site->dims->S;
        rows[i] = info->query_lengths ? i >= (size_t)info->query_lengths[b]
                                      : own && cols[at - info->key_start];
        any = any || rows[i];
    }
    return any;
}

attn_status attn_run_padding_new(attn_run_site *site, attn_error *err) {
    const attn_attention_dims *d = site->dims;
    attn_arena *arena = site->run->arena;
    attn_padding *all = NULL;
    attn_mask *mask;
    attn_status status = compile_masks(site, arena, &mask, err);
    if (status || (!mask && !site->info.key_lengths && !site->info.query_lengths))
        return status;
    bool any = false, ok = (all = attn_arena_zeroed(arena, d->B, sizeof *all)) != NULL;
    for (size_t b = 0; b < d->B && ok; b++) {
        uint8_t *rows = attn_arena_zeroed(arena, d->L, 1);
        uint8_t *cols = attn_arena_zeroed(arena, d->S, 1);
        if (!(ok = rows && cols))
            break;
        all[b].cols = mark_keys(site, b, mask, cols) ? cols : NULL;
        all[b].rows = mark_rows(site, b, cols, rows) ? rows : NULL;
        any = any || all[b].rows || all[b].cols;
    }
    site->padding = any ? all : NULL;
    return ok ? ATTN_OK : attn_no_memory(err, "the padding of a site");
}

attn_status attn_run_lint(const attn_run_site *site, attn_arena *arena, attn_warnings *out,
                          attn_error *err) {
    *out = (attn_warnings){0};
    return site->captured && !site->stated ? attn_mask_lint_numbers(site->op->mask, arena, out, err)
                                           : ATTN_OK;
}

attn_status attn_run_source_of(const attn_run_site *site, size_t lanes, attn_arena *arena,
                               attn_weight_source *out, attn_error *err) {
    const attn_status status =
        attn_attention_source(site->op, &site->stats, ATTN_STAGE_PROBS, lanes, arena, out, err);
    if (!status)
        out->padding = site->padding;
    return status;
}
