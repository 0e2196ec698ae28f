/* The operation of a site as JSON (FORMAT.md), in both directions. */
#ifndef ATTN_RUN_INPUTS_H
#define ATTN_RUN_INPUTS_H

#include "runs/members.h"

/* Reads the operation of the site, except its masks, into site->in, and sets site->shape. */
void attn_run_read_operation(attn_run_reader *r, attn_json *object);
/* Reads block_table and block_layout, if the site has them. Checks the table with its lengths, and
 * gives key and value of site->in the shapes that they have after they are gathered, when the site
 * is opened. The caller has read query, key and value (run_blocks.c). */
void attn_run_read_blocks(attn_run_reader *r, attn_json *object);
/* Reads whether the masks compare the positions that the site gives, which have been read into
 * site->in (masks.c). */
void attn_run_read_mask_positions(attn_run_reader *r, attn_json *object);
/* Reads the masks into site->in (masks.c). The caller has read shape, starts and lengths of the
 * site. */
void attn_run_read_masks(attn_run_reader *r, attn_json *object);
/* Refuses a site if its number of sequences, its number of heads or its width is 0 and the file
 * has no row statistics for it. The tensors of such a site are empty, so a small file could state
 * any L and S, and the size of the file would not bound the memory that is allocated for them. */
void attn_run_check_axes(attn_run_reader *r);

/* Write the members of the operation and of its masks into the JSON object that the caller has
 * begun. */
void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in);
void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec);

#endif
