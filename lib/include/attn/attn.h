/* The whole attention library: includes all public headers. Link with -lattn. */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include "analysis.h"
#include "attention.h"
#include "checksum.h"
#include "figure.h"
#include "forms.h"
#include "gguf.h"
#include "gradients.h"
#include "head_scores.h"
#include "heatmap.h"
#include "input_rows.h"
#include "interpret.h"
#include "interventions.h"
#include "isa.h"
#include "known_model.h"
#include "mask.h"
#include "memory.h"
#include "model_config.h"
#include "model_file.h"
#include "models.h"
#include "npy.h"
#include "pages.h"
#include "parameters.h"
#include "pool.h"
#include "positions.h"
#include "print.h"
#include "projections.h"
#include "rng.h"
#include "run.h"
#include "run_growth.h"
#include "safetensors.h"
#include "status.h"
#include "tensor.h"
#include "text.h"
#include "tokens.h"
#include "warning.h"

#define ATTN_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
/* Returns the version of the loaded library, such as "0.1.0". */
const char *attn_version(void);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
