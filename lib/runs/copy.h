/* Copies the contents of a run, for runs that outlive their sources. */
#ifndef ATTN_RUN_COPY_H
#define ATTN_RUN_COPY_H

#include <attn/run.h>

/* The destination of copies. If memory runs out, `failed` is set, and later copies are not valid.
 * The caller checks `failed` after the last copy. */
typedef struct attn_run_copier {
    attn_arena *arena;
    bool failed;
} attn_run_copier;

/* Replaces the tensor by a dense copy. A tensor of rank 0 stays as it is. */
void attn_run_copy_tensor(attn_run_copier *c, attn_tensor *t);
/* Replaces the operands of score form, position and masks, and the sinks, by dense copies. Query,
 * key, value and cache stay as they are. */
void attn_run_copy_operands(attn_run_copier *c, attn_inputs *in);
/* Returns a copy of `count` elements of `size` bytes, or NULL if `from` is NULL or memory runs
 * out. */
void *attn_run_copy_list(attn_run_copier *c, const void *from, size_t count, size_t size);
/* Returns a copy of a string and its NUL, or NULL if `from` is NULL or memory runs out. */
const char *attn_run_copy_string(attn_run_copier *c, const char *from);
/* Replaces all that the text points to by copies. The copies of the arrays tokens, ids and special
 * are `more` elements longer, for tokens that are added later. */
void attn_run_copy_text(attn_run_copier *c, size_t more, attn_run_text *text);
/* Replaces all that the info of a site with B batch entries points to by copies, except the names
 * in the list of axes. */
void attn_run_copy_info(attn_run_copier *c, attn_run_site_info *info, size_t B);

#endif
