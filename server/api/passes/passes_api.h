/* The model and the steps that the routes of /v1/models/{id} share. */
#ifndef SRV_PASSES_API_H
#define SRV_PASSES_API_H

#include "api/common/compute.h"
#include "api/sequences/sequences_api.h"
#include "store/model_registry.h"

/* A request to a model. The first member of a route's own struct is a srv_pass. */
typedef struct srv_pass {
    SRV_CALL;
    const srv_model *model; /* held until the request ends */
} srv_pass;

/* Members of srv_steps (compute.h) that are equal on all these routes. */
#define SRV_MODEL_STEPS                                                                            \
    .unit_ns = 0.5, .limits = {.cells = {.what = "attention cells"},                               \
                               .operations = {.what = "operations"},                               \
                               .bytes = {.what = "the pass and its answer need up to"}}

/* Returns the cost of a pass or search of this extent on the worker pool. The bytes of the cost
 * include those for computing attention again in double. */
attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent);
/* Sets the cost of the request: the cost of a pass and of an answer of `result` bytes. */
void srv_models_bill(srv_pass *pass, const attn_model_cost *cost, double result);
/* Adds the data that all these routes answer to a dry run, such as the model's number of
 * parameters. */
void srv_models_dry(const srv_pass *pass, srv_dry *dry);

/* Handles a request: holds the model that the path names, and calls the steps. On the HTTP thread
 * it returns SRV_DEFER if the model is not in memory yet. */
srv_outcome srv_models_run(srv_pass *pass, const srv_steps *steps);
/* Upper bound, in bytes, of the memory of a float of an answer: the number and its JSON. */
#define SRV_MODEL_TEXT 20.0
/* "encoder", "decoder", "cross"; indexed by attn_site_kind, ended by NULL. */
extern const char *const srv_model_site_kinds[];

#endif
