/* The run of a generation: it grows with every step, and other requests can look at it meanwhile if
 * its id is told in an event. */
#ifndef SRV_MODELS_GROWING_H
#define SRV_MODELS_GROWING_H

#include "api/models/models_run.h"
#include "api/models/models_steps.h"

typedef struct srv_growing {
    srv_model_run run;
    attn_metadata metadata[3];    /* owner and read token, then the number of rows at the end */
    size_t metadata_count;        /* of the former */
    size_t most;                  /* most steps */
    const srv_sequences *prompts; /* NULL: the model has an encoder */
    srv_told_steps *told; /* where the id is told; NULL: the run is not seen before its end */
    attn_arena *arena;    /* holds `growth`, until `open` owns both */
    attn_run_growth *growth;
    srv_open_run *open;
    bool failed; /* a step has failed and set a problem */
} srv_growing;

/* Adds the cost of the run of a greedy search, as srv_model_run_cost. false: a problem is set. */
bool srv_growing_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t most,
                      attn_model_cost *cost, double *text);
/* Prepares the run of a search over these sources. false: a problem is set. */
bool srv_growing_begin(srv_growing *g, srv_request *req, const srv_model *model,
                       const srv_sequences *source, size_t most, srv_told_steps *told);
/* Adds a step. This is the callback attn_generate_options.step; `ctx` is a srv_growing. */
int srv_growing_step(void *ctx, const attn_generated_step *step);
/* Stores the run of all steps and holds it in *out; NULL: somebody has deleted it. false: a problem
 * is set. */
bool srv_growing_close(srv_growing *g, const attn_generated *made, const srv_run **out);
/* Frees what is left. A run that is not closed is discarded. */
void srv_growing_end(srv_growing *g);

#endif
