/* Stored runs of a model. A run holds all attention sites of a pass and the tokens of its
 * sequences. */
#ifndef SRV_MODELS_RUN_H
#define SRV_MODELS_RUN_H

#include "api/sequences/sequences_api.h"
#include "store/run_plan.h"
#include "store/runs.h"

#define SRV_MODEL_STORE_ROW(T, what)                                                               \
    SRV_BOOL_ROW(T, store,                                                                         \
                 "Store " what " as a run with all attention sites of the model, whatever else "   \
                 "the answer has, so that /v1/runs/{id} can return any part of the exact "         \
                 "weights later. The field run of the answer holds the id.")

/* A run to be made. */
typedef struct srv_model_run {
    srv_request *req;
    const srv_model *model;
    srv_run_plan plan;
} srv_model_run;

/* Refuses `store` for a model without attention. false: a problem is set. */
bool srv_model_run_check(const srv_scope *scope, const srv_model *model, bool store);
/* Adds the cost of storing the run of a pass over B sequences of S source and T target tokens to
 * *cost, and the bytes of the run's description to *text. false: a problem is set. */
bool srv_model_run_cost(srv_request *req, const srv_model *model, size_t B, size_t S, size_t T,
                        attn_model_cost *cost, double *text);

/* Sets *out to the sizes of a site's attention operation in a pass over B sequences of S source and
 * T target tokens. false: a problem is set. */
bool srv_model_run_dims(srv_request *req, const attn_model_config *m, const attn_site *site,
                        size_t B, size_t S, size_t T, attn_attention_dims *out);

/* Prepares a run of B sequences. If the model reads sources, also makes their texts. false: a
 * problem is set. */
bool srv_model_run_begin(srv_model_run *r, srv_request *req, const srv_model *model, size_t B,
                         const srv_sequences *source);
/* Makes the text of target b. Its rows of weights are named after the tokens `rows`. If `begins` is
 * true, the decoder reads the begin token first, and the text has this token in front of `rows`.
 * `read` is the number of tokens that the decoder reads. false: a problem is set. */
bool srv_model_run_target(srv_model_run *r, size_t b, bool begins, const srv_sequence *rows,
                          size_t read);
/* Makes the text of target b before the first step of a generation. It has one token, `first`,
 * which the decoder reads first. false: a problem is set. */
bool srv_model_run_start(srv_model_run *r, size_t b, int32_t first);
/* Stores `sites`, the sites of a pass, as a run. Their member `operation` must be set. Returns the
 * run, which the caller then holds. NULL: a problem is set. */
const srv_run *srv_model_run_store(const srv_model_run *r, const attn_site *sites, size_t count);

#endif
