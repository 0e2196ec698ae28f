/* Declarations that the files of head_scores.h share: texts as tokens, and the pass over a
 * batch. */
#ifndef ATTN_MODELS_HEAD_BATCH_H
#define ATTN_MODELS_HEAD_BATCH_H

#include "attn/head_scores.h"
#include "attn/heatmap.h"

/* A text as tokens. */
typedef struct attn_head_reading {
    const attn_tokenizer *tokenizer;
    const char *text;
    attn_token *tokens; /* [count], special tokens of a template included */
    size_t count;
    bool begins; /* the begin token of the model stands before the tokens */
} attn_head_reading;

/* Divides a text into tokens. Errors as attn_head_texts, without err->where. */
attn_status attn_models_read_text(const attn_head_subject *s, const char *text, attn_arena *arena,
                                  attn_head_reading *out, attn_error *err);
/* Makes a batch of texts that were read, [count]. */
attn_status attn_models_place_texts(const attn_head_subject *s, const attn_head_reading *r,
                                    size_t count, attn_arena *arena, attn_head_batch *out,
                                    attn_error *err);

/* Runs the model over the batch, keeping its operations. */
attn_status attn_models_head_pass(const attn_head_subject *s, const attn_head_batch *batch,
                                  attn_arena *arena, attn_pool *pool, const attn_control *control,
                                  attn_model_outputs *out, attn_error *err);
/* Makes the source of a site's weights, with the padding of the batch, for `lanes` threads. */
attn_status attn_models_head_source(const attn_head_batch *batch, const attn_site *site,
                                    size_t lanes, attn_arena *arena, attn_weight_source *out,
                                    attn_error *err);
/* Return the tokens of a site's queries, and of its keys. */
const attn_head_side *attn_models_head_queries(const attn_head_batch *batch, const attn_site *site);
const attn_head_side *attn_models_head_keys(const attn_head_batch *batch, const attn_site *site);
/* Returns whether the site is scored with this batch. */
static inline bool attn_models_head_is_scored(const attn_head_batch *batch, const attn_site *site) {
    return !batch->encoder_only || site->kind == ATTN_SITE_ENCODER;
}

#endif
