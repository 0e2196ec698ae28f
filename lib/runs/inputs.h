/* The operation of a site as JSON (FORMAT.md), in both directions. */
#ifndef ATTN_RUN_INPUTS_H
#define ATTN_RUN_INPUTS_H

#include "runs/members.h"

/* Reads the operation of the site, except its masks, into site->in, and sets site->shape. */
void attn_run_read_operation(attn_run_reader *r, attn_json *object);
/* Reads the masks into site->in (masks.c). The caller has read shape, starts and lengths of the
 * site. */
void attn_run_read_masks(attn_run_reader *r, attn_json *object);
/* Refuses a site without statistics whose number of sequences, number of heads or width is 0. Such
 * a site can have any L and S without a byte in the file, so the size of the file would not bound
 * the memory that is allocated for L and S. */
void attn_run_check_axes(attn_run_reader *r);

/* Write the members of the operation and of its masks into the JSON object that the caller has
 * begun. */
void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in);
void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec);

#endif
