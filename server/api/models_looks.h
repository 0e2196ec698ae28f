/* POST /v1/models/{id}/attention on its way: what was asked, what the pass found. */
#ifndef SRV_MODELS_LOOKS_H
#define SRV_MODELS_LOOKS_H

#include "api/models_call.h"

/* Of `returns`. */
enum { SRV_LOOKS_WEIGHTS = 1, SRV_LOOKS_HEATMAP = 2, SRV_LOOKS_LOGITS = 4 };

typedef struct srv_looks_body {
    uint64_t given;
    srv_side source, target;
    unsigned sites, returns;
    srv_ints layers, heads;
    srv_heat_input heatmap;
    srv_figure_input figure;
    int64_t decimals, timeout_ms;
    bool dry_run;
} srv_looks_body;

typedef struct srv_looks {
    srv_pass pass;
    srv_looks_body body;
    srv_sequences source, target;
    srv_sequences read; /* the target as the decoder reads it: behind the begin */
    /* Steps of the longest target, the end among them; expected ones before it is known. */
    size_t T;
    attn_site sites[ATTN_MODEL_SITES]; /* that the model has, without weights */
    bool wanted[ATTN_MODEL_SITES];
    size_t site_count;
    bool unasked; /* `return` is the default */
    attn_warnings warnings;
    attn_model_outputs out;
} srv_looks;

/* Heads of a site that were asked for. */
size_t srv_looks_heads(const srv_looks *c, const attn_site *site);
/* Numbers of all weights that were asked for. */
double srv_looks_weights(const srv_looks *c);
/* Too many to be answered unasked? */
bool srv_looks_omit(const srv_looks *c);
/* The reply as JSON, text or a picture, after the pass. */
void srv_looks_answer(const srv_looks *c);

#endif
