/* Findings of an experiment as files. */
#ifndef SRV_EXPERIMENT_FILES_H
#define SRV_EXPERIMENT_FILES_H

#include <stdio.h>

#include "attn/attn.h"

/* NAME.json, the first picture as NAME.svg and NAME.png, the others as NAME-PICTURE.svg and .png,
 * in `folder`, which is made if it is missing. What was written is told to `say` (NULL: to nobody);
 * without librsvg there are no PNG files. ATTN_EARG with the system's reason, ATTN_ENOMEM. */
attn_status srv_experiment_write(const char *folder, const attn_findings *findings, FILE *say,
                                 attn_error *err);

#endif
