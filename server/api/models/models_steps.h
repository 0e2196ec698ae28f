/* The steps of a search in answers: each step as a server-sent event, and the lists of the tokens
 * that each step could take. */
#ifndef SRV_MODELS_STEPS_H
#define SRV_MODELS_STEPS_H

#include "api/models/models_call.h"

/* The state of a search that is answered by events. Each event is written in an arena of its own.
 * Only the texts of the events are kept in the request's arena, which must hold all of them. */
typedef struct srv_told_steps {
    srv_events *events;
    const srv_model *model;
    const srv_sequence *source;
    const srv_heat_input *heatmap; /* selects the heads in events; NULL: events have no weights */
    int decimals;
    size_t index; /* number of the next step, from 0 */
    int32_t *ids; /* [largest number of steps + 1] ids of the tokens so far */
    size_t told;  /* number of bytes of the text that events have sent so far */
    bool started; /* the first event is sent */
    bool failed;  /* an event has failed and set a problem */
} srv_told_steps;

enum { SRV_STOPS = 256 }; /* largest number of words, and of ids, that end a sequence */
/* Sets the ids that end a sequence: the words and ids of the request, and the end tokens in the
 * files of a known model. false: a problem is set. */
bool srv_stops_read(const srv_pass *pass, const srv_strings *words, const srv_ints *ids,
                    attn_generate_options *options);

/* Sends the first event, "start", with the source, unless it was sent before. false: a problem is
 * set. */
bool srv_step_start(srv_told_steps *s);
/* Sends the event "token" of one step. Before the first step, also sends the event "start". This is
 * the callback attn_generate_options.token; `ctx` is a srv_told_steps. Returns 0, or 1 if a problem
 * is set, which ends the search. */
int srv_step_say(void *ctx, const attn_generated_token *token);

/* Writes the list "steps": the tokens of a generated sequence with their probabilities and
 * alternatives. `names` has the tokens, including the end token. false: a problem is set. */
bool srv_steps_put(attn_json_text *j, const srv_model *model, const attn_generated *made,
                   const srv_sequence *names);
/* Prints one line for each token, with the probabilities of the token and of its alternatives.
 * false: a problem is set. */
bool srv_steps_text(attn_text *t, srv_request *req, const srv_model *model,
                    const attn_generated *made, const srv_sequence *names);

#endif
