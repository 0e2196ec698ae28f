/* A request to POST /v1/models/{id}/attention. models_attention.c reads the request and runs the
 * pass. models_sites.c writes the answer, and models_states.c writes its states. models_analysis.c
 * computes and writes the analyses: for each kind of site and each sequence, one analysis of all
 * layers and heads. */
#ifndef SRV_MODELS_SITES_H
#define SRV_MODELS_SITES_H

#include "api/analyses/analyses_api.h"
#include "api/interventions/interventions_api.h"
#include "api/models/models_call.h"
#include "api/models/models_run.h"

/* Bits of the field `return`. */
enum {
    SRV_SITES_WEIGHTS = 1,
    SRV_SITES_HEATMAP = 2,
    SRV_SITES_LOGITS = 4,
    SRV_SITES_ENCODER = 8,
    SRV_SITES_STATES = 16,
    SRV_SITES_INPUTS = 32,
    SRV_SITES_PROBABILITIES = 64,
    SRV_SITES_POOLED = 128,
    SRV_SITES_MASKS = 256,
};

typedef struct srv_sites_body {
    srv_given_bits given;
    srv_side source, target;
    srv_strings pairs;
    srv_sight_input sight;
    srv_interventions interventions;
    int offset_unit;
    unsigned sites;    /* bits 1 << attn_site_kind; 0: all kinds that the model has */
    unsigned returns;  /* bits SRV_SITES_* */
    unsigned analysis; /* bits SRV_AN_* */
    unsigned steps;    /* bits 1 << attn_state_step; 0: all steps */
    srv_ints layers;
    srv_union heads; /* a list of heads, or a word of srv_run_mean_words; heads.is = 0: all heads */
    srv_heat_input heatmap;
    srv_figure_input figure;
    double dropout_p;
    int64_t decimals, timeout_ms, seed, num_alternatives;
    bool dry_run, target_begin, target_end, store, words;
} srv_sites_body;

/* An analysis of the layers of one kind of site, for one sequence. */
typedef struct srv_sites_analysis {
    attn_site_kind kind;
    size_t sequence;
    srv_labels labels;
    srv_analysis analysis;
    bool rolls;            /* the analysis has a rollout */
    attn_heatmaps rollout; /* through all layers of the encoder */
} srv_sites_analysis;

typedef struct srv_sites_pass {
    srv_pass pass;
    srv_sites_body body;
    size_t B; /* number of sources or, for a model without an encoder, of targets */
    srv_sequences source, target;
    /* The tokens that the decoder reads: the begin token if the model adds one, then tokens of the
     * target. */
    srv_sequences read;
    /* Number of decoder steps for the longest target, end token included if the model adds one.
     * Before the targets are generated, this is an upper bound. */
    size_t T;
    const attn_site *sites; /* all attention sites of the model, without their weights */
    size_t site_count;
    /* The numbers of requested states by their shape. states[0] counts states with a vector for
     * each source token, states[1] those with a vector for each target token, and states[2] those
     * with one vector for a whole sequence. */
    size_t states[3];
    bool unasked; /* `return` was not sent: the answer has weights unless there are too many */
    /* With the field `words`, after the pass: the words of `source`, `target` and `read`. Weights
     * of tokens are merged to weights of words, and rows and columns are named after the words. */
    srv_sequences word_source, word_target;
    bool merged;
    attn_tensor probabilities, pooled;
    srv_warnings warnings;
    attn_intervention *interventions;
    size_t intervention_count;
    attn_model_outputs out;
    double analysis_text;         /* upper bound of the bytes of the text of the analyses */
    const srv_run *run;           /* the stored run, held until the answer; NULL: not stored */
    double run_text;              /* upper bound of the bytes of the run's description */
    srv_sites_analysis *analyses; /* [analysis_count] by kind of site, then by sequence */
    size_t analysis_count;
} srv_sites_pass;

/* Returns whether the request asks for site i. */
bool srv_sites_wants(const srv_sites_pass *c, size_t i);
/* Returns whether the answer has the mean over the heads instead of single heads. */
bool srv_sites_mean(const srv_sites_pass *c);
/* Sets the shape [heads, L, S] that the site has in the answer; if the answer has the mean, `heads`
 * is 1. */
void srv_sites_dims(const srv_sites_pass *c, const attn_site *site, size_t dims[3]);
/* Return the tokens of sequence b that are the queries (or the keys) of the site. */
const srv_sequence *srv_sites_queries(const srv_sites_pass *c, const attn_site *site, size_t b);
const srv_sequence *srv_sites_keys(const srv_sites_pass *c, const attn_site *site, size_t b);
/* Returns the number of weights that are requested. */
double srv_sites_weights(const srv_sites_pass *c);
/* Sets the shapes [heads, rows, width] that queries and keys of the site have in the answer. Values
 * have the shape of keys. */
void srv_sites_inputs_dims(const srv_sites_pass *c, const attn_site *site, size_t query[3],
                           size_t key[3]);
/* Returns the number of floats in the requested queries, keys and values. */
double srv_sites_inputs(const srv_sites_pass *c);
/* Returns whether the answer has the weights as numbers. */
bool srv_sites_has_weights(const srv_sites_pass *c);
/* Returns whether an answer as text has heatmaps. */
bool srv_sites_prints_heatmaps(const srv_sites_pass *c);
/* --- models_pass.c --- */
/* Reads the interventions. Positions are checked against the longest sequence. Means are taken over
 * all sequences of the request. false: a problem is set. */
bool srv_sites_interventions(srv_sites_pass *c);

/* Returns whether the pass computes logits. Known models have large vocabularies, so their logits
 * are computed only if the answer needs them. */
bool srv_sites_needs_logits(const srv_sites_pass *c);
/* Returns whether the pass reads a target that the model must generate first. */
bool srv_sites_generates(const srv_sites_pass *c);
/* Runs the pass, names its rows, and computes the requested results from logits and states. false:
 * a problem is set. */
bool srv_sites_run(srv_sites_pass *c);

/* --- models_weights.c --- */

/* Checks that the field `words` is possible for this model and request. false: a problem is set. */
bool srv_sites_words_check(const srv_sites_pass *c, const srv_scope *scope);
/* Adds the cost of srv_sites_weigh to *cost. */
void srv_sites_weigh_cost(const srv_sites_pass *c, attn_model_cost *cost);
/* Computes the weights of the sites that the answer or an analysis needs, from the operations of
 * the pass. Only known models need this, because the pass of other models keeps the weights. false:
 * a problem is set. */
bool srv_sites_weigh(srv_sites_pass *c);
/* With the field `words`, merges the weights of the tokens of each word: the rows of a word are
 * averaged, and its columns are added. false: a problem is set. */
bool srv_sites_merge(srv_sites_pass *c);

/* The answers of a srv_sites_pass: the steps json, text and picture (compute.h). */
void srv_sites_json(void *data, attn_json_text *j);
void srv_sites_text(void *data, attn_text *t);
void srv_sites_picture(void *data);

/* Writes a tensor under `key` or, if tensors of the answer are collected as parts (j->aside), adds
 * it to the parts under `name`. srv_json_tensor does not collect tensors of objects in lists, such
 * as these. */
void srv_sites_put_tensor(attn_json_text *j, const char *key, const char *name,
                          const attn_tensor *t);

/* The fields of a state, and of an analysis, in an answer. */
extern const srv_field srv_sites_state_rows[], srv_sites_analysis_rows[];

/* The names of attn_state_step, ended by NULL. */
extern const char *const srv_model_steps[];
/* Checks `steps`, and `layers` if states are requested, and counts the requested states. false: a
 * problem is set. */
bool srv_sites_states_check(srv_sites_pass *c, const srv_scope *scope);
/* Returns the number of floats in the requested states. */
double srv_sites_states_numbers(const srv_sites_pass *c);
/* Adds the shapes of the requested states to a dry run: [states, B, L, width] for each side, and
 * [states, B, width] for the states from which a decoder starts. */
void srv_sites_states_shapes(srv_dry *dry, const srv_sites_pass *c);
/* Write the member "states" as JSON, or print the states as text. */
void srv_sites_states_write(attn_json_text *j, const srv_sites_pass *c);
void srv_sites_states_text(attn_text *t, const srv_sites_pass *c);

/* Checks that the model can have the requested analyses, adds their cost to *cost, and sets *text
 * to an upper bound of the bytes of their text. Adds nothing if no analysis is requested. false: a
 * problem is set. */
bool srv_sites_analysis_cost(const srv_sites_pass *c, attn_model_cost *cost, double *text);
/* Computes the analyses of the pass. false: a problem is set. */
bool srv_sites_analyse(srv_sites_pass *c);
/* Write the member "analyses" as JSON, or print the analyses as text. */
void srv_sites_analyses_write(attn_json_text *j, const srv_sites_pass *c);
void srv_sites_analyses_text(attn_text *t, const srv_sites_pass *c);

#endif
