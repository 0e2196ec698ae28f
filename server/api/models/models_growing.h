/* The stored run of a generation. It grows with every step of the search. If the answer is a
 * stream, an event has the id of the run, and other requests can read the run while it grows. */
#ifndef SRV_MODELS_GROWING_H
#define SRV_MODELS_GROWING_H

#include "api/models/models_run.h"
#include "api/models/models_steps.h"

typedef struct srv_growing {
    srv_model_run run;
    /* Owner and read token, if the run has an owner. srv_growing_close adds the entry SRV_RUN_ROWS,
     * the number of rows of the run. */
    attn_metadata metadata[3];
    /* Number of entries that srv_growing_begin has set: 2 if the run has an owner, else 0. */
    size_t metadata_count;
    size_t most;                  /* largest number of steps */
    const srv_sequences *prompts; /* NULL: the model has an encoder */
    bool bare;                    /* the decoder reads no begin token in front of a prompt */
    srv_told_steps *told;         /* the stream that sends the id; NULL: the answer is no stream */
    /* Holds `growth`. When `open` is set, `open` owns the arena and `growth`, and this is NULL. */
    attn_arena *arena;
    attn_run_growth *growth;
    srv_open_run *open; /* the run as other requests read it; NULL: it is not open to them */
    bool failed;        /* a step has failed and set a problem */
} srv_growing;

/* Adds the cost of the growing run of a greedy search to *cost and *text, as srv_model_run_cost
 * does for the run of a pass. The search has at most `most` steps. false: a problem is set. */
bool srv_growing_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t most,
                      attn_model_cost *cost, double *text);
/* Prepares the run of a search over the sequences `source`. false: a problem is set. */
bool srv_growing_begin(srv_growing *g, srv_request *req, const srv_model *model,
                       const srv_sequences *source, size_t most, srv_told_steps *told);
/* Adds a step. This is the callback attn_generate_options.step; `ctx` is a srv_growing. */
int srv_growing_step(void *ctx, const attn_generated_step *step);
/* Stores the run of all steps. Sets *out to the stored run, held, or to NULL if a request has
 * deleted the run while it grew. false: a problem is set. */
bool srv_growing_close(srv_growing *g, const attn_generated *made, const srv_run **out);
/* Frees what *g owns. A run that was not closed is discarded. */
void srv_growing_end(srv_growing *g);

#endif
