/* The operation of a site as JSON (FORMAT.md), in both directions. */
#ifndef ATTN_RUN_INPUTS_H
#define ATTN_RUN_INPUTS_H

#include "runs/members.h"

/* Reads the operation of the site, except its masks, into site->in, and sets site->shape. */
void attn_run_read_operation(attn_run_reader *r, attn_json *object);
/* Reads the masks into site->in (masks.c). The caller has read shape, starts and lengths of the
 * site. */
void attn_run_read_masks(attn_run_reader *r, attn_json *object);
/* Refuses a site without statistics that has no sequence, head or width: its other axes need no
 * bytes in the file, so the file would not bound the memory that they take. */
void attn_run_check_axes(attn_run_reader *r);

/* Write the members of the operation into the object that the caller has begun. */
void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in);
void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec);

#endif
