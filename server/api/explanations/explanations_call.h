/* A request to POST /v1/models/{id}/explain. explanations.c reads it and runs the pass,
 * explanations_answer.c makes and writes the answer, explanations_against.c the comparison in it, of
 * what explanations_pass.c reads. */
#ifndef SRV_EXPLANATIONS_CALL_H
#define SRV_EXPLANATIONS_CALL_H

#include <attn/interpret.h>

#include "api/interventions/interventions_api.h"

/* Bits of the field `return`. */
enum { SRV_EXPLAIN_CHANGE = 1, SRV_EXPLAIN_LENS = 2, SRV_EXPLAIN_CONTRIBUTIONS = 4 };

/* With what the text is compared. */
typedef struct srv_explain_against {
    srv_given_bits given;
    srv_side source;
    srv_interventions interventions;
} srv_explain_against;

typedef struct srv_explain_body {
    srv_given_bits given;
    srv_side source, target, other, reference;
    srv_interventions interventions;
    srv_explain_against against;
    srv_ints positions, logit_ids;
    unsigned returns;
    int64_t top_k, decimals, timeout_ms;
    bool dry_run;
} srv_explain_body;

typedef struct srv_explain {
    srv_pass pass;
    srv_explain_body body;
    /* The sequences of the batch: the text, then with interventions the text that they change, then
     * those of against in the same way (its text only if it has one), then the other text, then the
     * references. targets: what the decoder reads, the begin token excluded */
    srv_sequences sources, targets;
    srv_sequence read; /* the tokens of the stack that is explained, as it reads them */
    size_t B, num_references;
    bool begins;      /* the decoder reads a begin token first */
    size_t explained; /* the sequence of lens and contributions: 1 with interventions, else 0 */
    bool compares;    /* against is given */
    size_t against_text, against; /* the sequences of against without and with its interventions */
    srv_sequence against_read;    /* what the stack reads of against */
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
    struct srv_explain_comparison *comparison; /* NULL: there is none */
} srv_explain;

/* --- explanations_pass.c --- */

/* Return memory for `count` elements, the words of ids in the vocabulary, or the row of logits of a
 * sequence at a position. NULL or false: a problem is set. */
void *srv_explain_take(srv_explain *c, size_t count, size_t size);
bool srv_explain_name(const srv_explain *c, const int32_t *ids, size_t count,
                      const char *const **to);
const float *srv_explain_logits(const srv_explain *c, size_t sequence, size_t position);
/* Sets *loss to the mean cross entropy of the next tokens of a sequence that reads `read`, NaN if
 * the model predicts none. false: a problem is set. */
bool srv_explain_loss(srv_explain *c, size_t sequence, const srv_sequence *read, double *loss);
/* Returns a token as people read it. */
const char *srv_explain_shown(const srv_explain *c, const char *token);

/* Computes what the answer has of the pass. false: a problem is set. */
bool srv_explain_results(srv_explain *c);
/* Returns an upper bound of the memory of the answer in bytes. */
double srv_explain_bytes(const srv_explain *c);

/* --- explanations_against.c --- */

extern const srv_field srv_explain_against_fields[], srv_explain_comparison_rows[];
/* Adds the cost of the comparison. */
void srv_explain_against_cost(const srv_explain *c, attn_model_cost *cost);
/* Returns an upper bound of the memory of the comparison in the answer in bytes. */
double srv_explain_against_bytes(const srv_explain *c);
/* Compares the text with against. false: a problem is set. */
bool srv_explain_compare(srv_explain *c);
/* Writes the comparison of a srv_explain as a value, if there is one, and as text. */
void srv_explain_put_comparison(attn_json_text *j, const void *explain);
void srv_explain_print_comparison(attn_text *t, const srv_explain *c);

/* The answers (compute.h). */
void srv_explain_json(void *data, attn_json_text *j);
void srv_explain_text(void *data, attn_text *t);

#endif
