/* The JSON text of a run (FORMAT.md). */
#ifndef ATTN_RUN_FORMAT_H
#define ATTN_RUN_FORMAT_H

#include "runs/members.h"

/* Reads the JSON text into run->model, run->texts and run->sites. Of each site, sets the members
 * that do not depend on elements of tensors. */
attn_status attn_run_read_format(attn_run *run, const char *text, const attn_run_limits *limits,
                                 attn_error *err);
/* Writes name, kind, stack, layer, call, starts, lengths, texts and axes of a site with B batch
 * entries into the JSON object that the caller has begun. */
void attn_run_write_info(attn_json_text *t, const attn_run_site_info *info, size_t B);

#endif
