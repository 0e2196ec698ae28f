/* The texts of a run (FORMAT.md), and the labels of sites, which are tokens of texts. */
#ifndef ATTN_RUN_TEXTS_H
#define ATTN_RUN_TEXTS_H

#include "runs/members.h"

/* Reads the member `texts` into run->texts. `list` NULL: the run has no texts. */
void attn_run_read_texts(attn_run_reader *r, const attn_json *list);
/* Writes the member `texts`. */
void attn_run_write_text_list(attn_json_text *t, const attn_run_text *texts, size_t count);
/* Checks that the texts which the info of site `index` names exist and have enough tokens for its
 * shape and lengths. */
attn_status attn_run_check_info(const attn_run_site_info *info, const attn_attention_dims *d,
                                const attn_run_text *texts, size_t text_count, size_t index,
                                attn_error *err);
/* Makes the labels of an opened site. */
attn_status attn_run_labels_make(attn_run_site *site, attn_error *err);

#endif
