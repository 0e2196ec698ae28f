/* Runs that grow. A generation computes one query of each site of a decoder with every step. Such a
 * run begins with the operations of the first step, and each step adds a row: one query to every
 * site of the kinds DECODER and CROSS, and one key and value to every site of the kind DECODER.
 * Sites of other kinds are whole from the beginning.
 *
 * One thread adds steps. Meanwhile any number of threads may look: each gets a run over the steps
 * so far, which is complete in itself and does not change when more steps are added. At the end the
 * image of all steps is that of one causal pass over the whole sequence. */
#ifndef ATTN_RUN_GROWTH_H
#define ATTN_RUN_GROWTH_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct attn_run_growth attn_run_growth;

/* A token that a step adds to a text. */
typedef struct attn_run_token {
    const char *text; /* UTF-8 */
    int64_t id;
    bool special;
} attn_run_token;

/* Computes an upper bound of the bytes that attn_run_growth_new takes for a site with these dims,
 * and attn_run_growth_add for all its steps. The dims are those of the last step, with all rows and
 * keys. Score matrices, tables and texts are not counted. ATTN_ELIMIT: the size overflows. */
attn_status attn_run_growth_bytes(const attn_attention_dims *dims, size_t *out, attn_error *err);
/* Makes a growing run without rows for at most `most` steps. `first` has the operations of the
 * first step. They, their operands, texts and metadata are copied into the arena, except names of
 * masks and axes, which must be static. The last `growing` texts grow with each step, one for each
 * batch entry; the label of row i of a site is token query_start + i. The statistics of `first` are
 * not read. Errors:
 *
 *   ATTN_EARG    an operation is not of the kind that attention layers run: layout BLD, float32,
 *                rank 3, no cache; at "sites/N"
 *   ATTN_ENOMEM  the arena is full */
attn_status attn_run_growth_new(const attn_run_source *first, size_t growing, size_t most,
                                attn_arena *arena, attn_run_growth **out, attn_error *err);
/* Adds a step: the last query of each growing site, and the last key and value of each site whose
 * keys grow. They are read from the operations `ops` [sites]; the operations of sites that do not
 * grow are not read. `tokens` [growing] are added to the texts. Errors: ATTN_EARG (there are `most`
 * rows, or an operation does not have the shape of this step), ATTN_ENOMEM. After an error the rows
 * so far are unchanged. */
attn_status attn_run_growth_add(attn_run_growth *g, const attn_attention *const *ops,
                                const attn_run_token *tokens, attn_error *err);
/* Returns the number of steps so far. Any thread may call it. */
size_t attn_run_growth_rows(const attn_run_growth *g);
/* Makes a run over the steps so far (there must be one) and sets *rows to their number. The run
 * uses `arena` as that of attn_run_open does, and must not outlive the growing run. Its statistics
 * are computed when rows are read. Any thread may call it. Errors: ATTN_EARG (there is no step
 * yet), ATTN_ENOMEM. */
attn_status attn_run_growth_look(const attn_run_growth *g, attn_arena *arena, attn_run **run,
                                 size_t *rows, attn_error *err);
/* Makes the image of all steps, with the statistics of each row. lengths[b] rows of batch entry b
 * are real; NULL: all rows are. `metadata` replaces that of `first`. The image refers to the
 * growing run. Only for the thread that adds steps. Errors as attn_run_image_new, and those of
 * attn_attention_run. */
attn_status attn_run_growth_image(const attn_run_growth *g, const int64_t *lengths,
                                  const attn_metadata *metadata, size_t metadata_count,
                                  attn_pool *pool, const attn_control *control, attn_arena *arena,
                                  attn_run_image *out, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
