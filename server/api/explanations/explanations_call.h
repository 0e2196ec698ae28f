/* The state of a request to POST /v1/models/{id}/explain. explanations.c reads the request and runs
 * the pass. explanations_answer.c makes and writes the answer. explanations_against.c makes the
 * comparison in the answer. Both read the results of the pass with the functions of
 * explanations_pass.c. */
#ifndef SRV_EXPLANATIONS_CALL_H
#define SRV_EXPLANATIONS_CALL_H

#include <attn/interpret.h>

#include "api/interventions/interventions_api.h"

/* Bits of the field `return`. */
enum { SRV_EXPLAIN_CHANGE = 1, SRV_EXPLAIN_LENS = 2, SRV_EXPLAIN_CONTRIBUTIONS = 4 };

/* The object `against`, with which the text is compared. */
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
    /* The sequences of the batch, in this order:
     *
     *   the text; with interventions, also the changed text
     *   the text of `against`, if it has one; with interventions there, also the changed text
     *   the other text
     *   the reference texts
     *
     * `targets` has the sequences of the decoder, without the begin token. */
    srv_sequences sources, targets;
    srv_sequence read; /* the tokens of the explained stack, as it reads them */
    size_t B, num_references;
    bool begins;      /* the decoder reads a begin token first */
    size_t explained; /* sequence of lens and contributions: 1 with interventions, else 0 */
    bool compares;    /* the request has `against` */
    size_t against_text, against; /* the sequences of against without and with its interventions */
    srv_sequence against_read;    /* the tokens of `against`, as the explained stack reads them */
    attn_intervention *interventions;
    size_t intervention_count;
    attn_place *places; /* [place_count] */
    size_t place_count;
    srv_warnings warnings;
    attn_model_outputs out;
    /* The parts of the answer. explanations_answer.c has the types of their items. */
    srv_objects changes, lenses, contributions;
    double loss_before, loss_after; /* NaN: the model does not predict the next token */
    size_t num_predicted;
    struct srv_explain_comparison *comparison; /* NULL: there is none */
} srv_explain;

/* --- explanations_pass.c --- */

/* srv_explain_take allocates `count` zeroed elements. srv_explain_name sets *to to the texts of ids
 * in the vocabulary. srv_explain_logits returns the row of logits of a sequence at a position. NULL
 * or false: a problem is set. */
void *srv_explain_take(srv_explain *c, size_t count, size_t size);
bool srv_explain_name(const srv_explain *c, const int32_t *ids, size_t count,
                      const char *const **to);
const float *srv_explain_logits(const srv_explain *c, size_t sequence, size_t position);
/* Sets *loss to the mean cross entropy of the next tokens in `read`, the tokens of the sequence.
 * NaN: the model predicts no next token. false: a problem is set. */
bool srv_explain_loss(srv_explain *c, size_t sequence, const srv_sequence *read, double *loss);
/* Returns the token as text for people, such as " café" for "Ġcafé". */
const char *srv_explain_shown(const srv_explain *c, const char *token);

/* Computes the parts of the answer from the results of the pass. false: a problem is set. */
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
/* Write the comparison of a srv_explain, if there is one, as a JSON value and as text. */
void srv_explain_put_comparison(attn_json_text *j, const void *explain);
void srv_explain_print_comparison(attn_text *t, const srv_explain *c);

/* The answers (compute.h). */
void srv_explain_json(void *data, attn_json_text *j);
void srv_explain_text(void *data, attn_text *t);

#endif
