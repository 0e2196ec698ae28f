/* Copies the contents of a run, for runs that outlive their sources. */
#ifndef ATTN_RUN_COPY_H
#define ATTN_RUN_COPY_H

#include <attn/run.h>

/* Where copies go. If memory runs out, `failed` is set, and later copies are not valid. Look at `failed`
 * after the last copy. */
typedef struct attn_run_copier {
    attn_arena *arena;
    bool failed;
} attn_run_copier;

/* Replaces the tensor by a dense copy. A tensor of rank 0 stays as it is. */
void attn_run_copy_tensor(attn_run_copier *c, attn_tensor *t);
/* Does the same for all operands of an operation but query, key, value and cache: those of score
 * form, position and masks, and the sinks. */
void attn_run_copy_operands(attn_run_copier *c, attn_inputs *in);
/* Returns a copy of `count` elements of `size` bytes; of NULL it is NULL. */
void *attn_run_copy_list(attn_run_copier *c, const void *from, size_t count, size_t size);
/* The same for a text and its NUL. */
const char *attn_run_copy_string(attn_run_copier *c, const char *from);
/* Replaces what the text refers to by copies, with room for `more` tokens behind those that it
 * has. */
void attn_run_copy_text(attn_run_copier *c, size_t more, attn_run_text *text);
/* Replaces what the info of a site with B batch entries refers to, except the names of axes. */
void attn_run_copy_info(attn_run_copier *c, attn_run_site_info *info, size_t B);

#endif
