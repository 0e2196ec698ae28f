#include "store/run_plan.h"

#include <stdio.h>

enum { NAME = 32 }; /* size of a site's name in bytes, with the NUL */

bool srv_run_plan_new(srv_run_plan *plan, const char *model, const attn_model_config *config,
                      size_t B, attn_arena *arena) {
    const size_t sources = attn_model_has_encoder(config) ? B : 0;
    const size_t texts = sources + (attn_model_has_decoder(config) ? B : 0);
    *plan = (srv_run_plan){.model = model,
                           .B = B,
                           .text_count = texts,
                           .texts = attn_arena_zeroed(arena, texts, sizeof *plan->texts),
                           .source = attn_arena_zeroed(arena, B, sizeof *plan->source),
                           .target = attn_arena_zeroed(arena, B, sizeof *plan->target),
                           .source_lengths = attn_arena_zeroed(arena, B, sizeof(int64_t)),
                           .rows = attn_arena_zeroed(arena, B, sizeof(int64_t)),
                           .read = attn_arena_zeroed(arena, B, sizeof(int64_t))};
    if (!plan->texts || !plan->source || !plan->target || !plan->source_lengths || !plan->rows ||
        !plan->read)
        return false;
    for (size_t b = 0; b < B; b++) {
        plan->source[b] = b;
        plan->target[b] = sources + b;
    }
    return true;
}

bool srv_run_plan_text(size_t n, attn_arena *arena, attn_run_text *out, const char ***tokens,
                       int64_t **ids) {
    *tokens = attn_arena_zeroed(arena, n + 1, sizeof **tokens);
    *ids = attn_arena_zeroed(arena, n + 1, sizeof **ids);
    *out = (attn_run_text){
        .count = n, .tokens = *tokens, .ids = *ids, .special = attn_arena_zeroed(arena, n + 1, 1)};
    return *tokens && *ids && out->special;
}

bool srv_run_plan_special(const attn_model_config *m, int64_t id) {
    return id == m->pad || id == m->begin || id == m->end;
}

void srv_run_plan_mark(const attn_model_config *model, attn_run_text *text) {
    for (size_t i = 0; i < text->count; i++)
        ((uint8_t *)(uintptr_t)text->special)[i] = srv_run_plan_special(model, text->ids[i]);
}

static const attn_run_kind kinds[] = {[ATTN_SITE_ENCODER] = ATTN_RUN_ENCODER,
                                      [ATTN_SITE_DECODER] = ATTN_RUN_DECODER,
                                      [ATTN_SITE_CROSS] = ATTN_RUN_CROSS};

/* Returns `lengths`, or NULL if none of them is less than `longest`. */
static const int64_t *ragged(const srv_run_plan *p, const int64_t *lengths, size_t longest) {
    bool shorter = false;
    for (size_t b = 0; b < p->B; b++)
        shorter = shorter || (size_t)lengths[b] < longest;
    return shorter ? lengths : NULL;
}

/* Describes a site of the run in *out. false: out of memory. */
static bool describe_site(const srv_run_plan *p, const attn_site *site, attn_arena *arena,
                          attn_run_site_source *out) {
    const attn_attention_dims *d = attn_attention_dims_of(site->operation);
    const bool encodes = site->kind == ATTN_SITE_ENCODER, itself = site->kind == ATTN_SITE_DECODER;
    char name[NAME];
    const int n =
        snprintf(name, sizeof name, "%s.%zu", attn_run_kind_name(kinds[site->kind]), site->layer);
    *out = (attn_run_site_source){
        .op = site->operation,
        .stats = site->stats,
        .info = {.name = attn_arena_text(arena, name, (size_t)n),
                 .kind = kinds[site->kind],
                 .layer = site->layer,
                 .query_start = encodes ? 0 : p->start,
                 .query_texts = encodes ? p->source : p->target,
                 .query_text_count = p->B,
                 .query_lengths = ragged(p, encodes ? p->source_lengths : p->rows, d->L),
                 .key_texts = itself ? p->target : p->source,
                 .key_text_count = p->B,
                 .key_lengths = ragged(p, itself ? p->read : p->source_lengths, d->S)}};
    return out->info.name;
}

bool srv_run_plan_source(const srv_run_plan *plan, const attn_site *sites, size_t count,
                         attn_arena *arena, attn_run_source *out) {
    attn_run_site_source *all = attn_arena_zeroed(arena, count + 1, sizeof *all);
    bool ok = all;
    for (size_t i = 0; ok && i < count; i++)
        ok = describe_site(plan, &sites[i], arena, &all[i]);
    *out = (attn_run_source){.sites = all,
                             .site_count = count,
                             .texts = plan->texts,
                             .text_count = plan->text_count,
                             .model = plan->model};
    return ok;
}
