/* The JSON text of a run (FORMAT.md). */
#ifndef ATTN_RUN_FORMAT_H
#define ATTN_RUN_FORMAT_H

#include "runs/members.h"

/* Reads the text: texts, and run->sites with what does not depend on elements. */
attn_status attn_run_read_format(attn_run *run, const char *text, const attn_run_limits *limits,
                                 attn_error *err);
/* Writes the members of a site that say where it is, into the object that the caller has begun. */
void attn_run_write_info(attn_json_text *t, const attn_run_site_info *info, size_t B);

#endif
