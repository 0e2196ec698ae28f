/* What the logits of a pass say of the tokens of its texts: how probable each token was, and which
 * words fit into a mask. Also the mean of the last states of a text, its embedding. */
#ifndef SRV_PREDICTIONS_API_H
#define SRV_PREDICTIONS_API_H

#include "api/sequences/sequences_api.h"
#include "wire/answer.h"

/* A token that is predicted, in an answer. */
typedef struct srv_choice {
    const char *token;
    int64_t id;
    double log_probability;
} srv_choice;
extern const srv_field srv_choice_rows[];

/* How many tokens are answered for each mask. */
#define SRV_MASKS_ROW(T, most)                                                                     \
    SRV_INT_ROW(T, num_alternatives, 1, most,                                                      \
                "With masks in return: how many of the most probable tokens are answered for "     \
                "each mask; default 5.")

/* Computes the logarithms of the probabilities of the tokens of `s`, [B, L], from logits [B, L, V].
 * The logits of a token are those of its row or, with `ahead`, of the row before; the first token
 * then has NaN. Padding is NaN, too. false: a problem is set. */
bool srv_log_probabilities(srv_request *req, const attn_tensor *logits, const srv_sequences *s,
                           bool ahead, attn_tensor *out);
/* Computes the means [B, D] of the states [B, S, D] of the tokens of each sequence that are not
 * hidden. false: a problem is set. */
bool srv_pooled(srv_request *req, const attn_tensor *states, const srv_sequences *s,
                attn_tensor *out);
/* Returns how many tokens of all sequences are masks; 0 also if the model has no mask. */
size_t srv_masks_count(const srv_model *model, const srv_sequences *s);
/* Writes a list with a list for each sequence: the place of each mask and the `count` most probable
 * tokens there, by logits [B, S, V]. */
void srv_masks_put(attn_json_text *j, const srv_model *model, const attn_tensor *logits,
                   const srv_sequences *s, size_t count);
/* Upper bound, in bytes, of the text of an alternative. */
#define SRV_CHOICE_TEXT 192.0

/* The schemas ModelAlternative and ModelMask. */
extern const srv_field srv_predictions_answers[];

#endif
