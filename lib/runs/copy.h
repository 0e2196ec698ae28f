/* Copies of what a run is made of, for runs that outlive those who made them. */
#ifndef ATTN_RUN_COPY_H
#define ATTN_RUN_COPY_H

#include <attn/run.h>

/* Replaces the tensor by a dense copy in the arena. A tensor of rank 0 stays as it is. false: there
 * is no memory. */
bool attn_run_copy_tensor(attn_tensor *t, attn_arena *arena);
/* Does the same for all operands of an operation but query, key, value and cache: those of score
 * form, position and masks, and the sinks. */
bool attn_run_copy_operands(attn_inputs *in, attn_arena *arena);
/* Sets *to to a copy of `count` elements of `size` bytes. `from` NULL: *to becomes NULL. */
bool attn_run_copy_list(const void *from, size_t count, size_t size, attn_arena *arena,
                        const void **to);
/* The same for a text and its NUL. */
bool attn_run_copy_string(const char *from, attn_arena *arena, const char **to);
/* Copies the text, with room for `more` tokens behind those that it has. Without ids or marks of
 * special tokens they are NULL in the copy, too. */
bool attn_run_copy_text(const attn_run_text *from, size_t more, attn_arena *arena,
                        attn_run_text *to);
/* Copies what the info of a site with B batch entries refers to, except the names of axes. */
bool attn_run_copy_info(attn_run_site_info *info, size_t B, attn_arena *arena);

#endif
