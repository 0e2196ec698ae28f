/* The texts of a stored run of a model's attention sites: they say which tokens belong to rows and
 * keys. Requests and jobs make such runs. */
#ifndef SRV_RUN_PLAN_H
#define SRV_RUN_PLAN_H

#include <attn/attn.h>

/* A run of B sequences. If the model reads both sides, text b is the text of source b, and text B +
 * b that of target b. If it reads only one side, the run has only the texts of that side. */
typedef struct srv_run_plan {
    const char *model; /* the id of the model */
    size_t B;
    attn_run_text *texts; /* [text_count] B texts of sources, then B texts of targets */
    size_t text_count;
    size_t *source, *target; /* [B] each: index in `texts` of the text of each sequence */
    int64_t *source_lengths; /* [B] number of tokens of each source */
    int64_t *rows;           /* [B] number of rows of each target in decoder and cross sites */
    int64_t *read;           /* [B] number of tokens of each target that the decoder reads */
    size_t start;            /* index in a target's text of the token after which row 0 is named */
} srv_run_plan;

/* Allocates the lists in the arena and numbers the texts of the sides that the model reads. false:
 * out of memory. */
bool srv_run_plan_new(srv_run_plan *plan, const char *model, const attn_model_config *config,
                      size_t B, attn_arena *arena);
/* Allocates a text of n tokens with ids and marks of special tokens, which the caller fills in.
 * false: out of memory. */
bool srv_run_plan_text(size_t n, attn_arena *arena, attn_run_text *out, const char ***tokens,
                       int64_t **ids);
/* Marks the special tokens of the text: those with the ids of padding, begin and end. */
void srv_run_plan_mark(const attn_model_config *model, attn_run_text *text);
/* Returns whether the id is the id of padding, begin or end. */
bool srv_run_plan_special(const attn_model_config *model, int64_t id);
/* Sets *out to the description of a run of these sites, without metadata. A pass has filled the
 * sites. false: out of memory. */
bool srv_run_plan_source(const srv_run_plan *plan, const attn_site *sites, size_t count,
                         attn_arena *arena, attn_run_source *out);

#endif
