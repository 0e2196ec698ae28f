/* What a run of a model's attention sites says beside their operations: which tokens stand at rows
 * and keys. Requests and jobs make such runs. */
#ifndef SRV_RUN_PLAN_H
#define SRV_RUN_PLAN_H

#include <attn/attn.h>

/* A run of B sequences. Text b is that of source b, and text B + b that of target b. */
typedef struct srv_run_plan {
    const char *model; /* the id of the model */
    size_t B;
    attn_run_text *texts; /* [text_count] of the sources, then of the targets, B of each */
    size_t text_count;
    size_t *source, *target; /* [B] the numbers of the texts */
    int64_t *source_lengths; /* [B] tokens of each source */
    /* [B] rows of each target in decoder and cross, and tokens that its decoder reads */
    int64_t *rows, *read;
    size_t start; /* the token in the text of a target after which row 0 is named */
} srv_run_plan;

/* Allocates the lists in the arena and numbers the texts of the sides that the model reads. false:
 * out of memory. */
bool srv_run_plan_new(srv_run_plan *plan, const char *model, const attn_model_config *config,
                      size_t B, attn_arena *arena);
/* Allocates a text of n tokens with ids and marks of special tokens, which the caller fills in.
 * false: out of memory. */
bool srv_run_plan_text(size_t n, attn_arena *arena, attn_run_text *out, const char ***tokens,
                       int64_t **ids);
/* Sets the marks of the text: tokens with the ids of padding, begin and end are special. */
void srv_run_plan_mark(const attn_model_config *model, attn_run_text *text);
/* Returns whether an id is that of padding, begin or end. */
bool srv_run_plan_special(const attn_model_config *model, int64_t id);
/* Describes the run of these sites, which have their operations, without metadata. false: out of
 * memory. */
bool srv_run_plan_source(const srv_run_plan *plan, const attn_site *sites, size_t count,
                         attn_arena *arena, attn_run_source *out);

#endif
