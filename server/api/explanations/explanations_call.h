/* A request to POST /v1/models/{id}/explain. explanations.c reads it and runs the pass,
 * explanations_answer.c makes and writes the answer. */
#ifndef SRV_EXPLANATIONS_CALL_H
#define SRV_EXPLANATIONS_CALL_H

#include <attn/interpret.h>

#include "api/interventions/interventions_api.h"

/* Bits of the field `return`. */
enum { SRV_EXPLAIN_CHANGE = 1, SRV_EXPLAIN_LENS = 2, SRV_EXPLAIN_CONTRIBUTIONS = 4 };

typedef struct srv_explain_body {
    srv_given_bits given;
    srv_side source, target, other, reference;
    srv_interventions interventions;
    srv_ints positions, logit_ids;
    unsigned returns;
    int64_t top_k, decimals, timeout_ms;
    bool dry_run;
} srv_explain_body;

typedef struct srv_explain {
    srv_pass pass;
    srv_explain_body body;
    /* The sequences of the batch: the text, then with interventions the text that they change, then
     * the other text, then the references. targets: what the decoder reads, the begin token excluded
     */
    srv_sequences sources, targets;
    srv_sequence read; /* the tokens of the stack that is explained, as it reads them */
    size_t B, num_references;
    bool begins;      /* the decoder reads a begin token first */
    size_t explained; /* the sequence of lens and contributions: 1 with interventions, else 0 */
    attn_intervention *interventions;
    size_t intervention_count;
    attn_place *places; /* [place_count] */
    size_t place_count;
    srv_warnings warnings;
    attn_model_outputs out;
    /* What the answer has, as its rows describe it (explanations_answer.c) */
    srv_objects changes, lenses, contributions;
    double loss_before, loss_after; /* NaN: the model does not predict the next token */
    size_t num_predicted;
} srv_explain;

/* Computes what the answer has of the pass. false: a problem is set. */
bool srv_explain_results(srv_explain *c);
/* Returns an upper bound of the memory of the answer in bytes. */
double srv_explain_bytes(const srv_explain *c);
/* The answers (compute.h). */
void srv_explain_json(void *data, attn_json_text *j);
void srv_explain_text(void *data, attn_text *t);

#endif
