/* Predictions from the results of a pass: the probability of each token of a text, the most
 * probable tokens for each mask, and the embedding of a text, which is the mean of its last
 * states. */
#ifndef SRV_PREDICTIONS_API_H
#define SRV_PREDICTIONS_API_H

#include "api/sequences/sequences_api.h"
#include "wire/answer.h"

/* A predicted token in an answer. */
typedef struct srv_choice {
    const char *token;
    int64_t id;
    double log_probability;
} srv_choice;
extern const srv_field srv_choice_rows[];

/* The row of the number of tokens that are answered for each mask. */
#define SRV_MASKS_ROW(T, most)                                                                     \
    SRV_INT_ROW(T, num_alternatives, 1, most,                                                      \
                "With masks in return: how many of the most probable tokens are answered for "     \
                "each mask; default 5.")

/* Computes the log-probabilities [B, L] of the tokens of `s` from logits [B, L, V]. The logits of a
 * token are in its own row or, if `ahead`, in the row before it. With `ahead`, the first token gets
 * NaN. Padding also gets NaN. false: a problem is set. */
bool srv_log_probabilities(srv_request *req, const attn_tensor *logits, const srv_sequences *s,
                           bool ahead, attn_tensor *out);
/* Computes the mean state of each sequence, [B, D], over its tokens that are not hidden. `states`
 * are [B, S, D]. false: a problem is set. */
bool srv_pooled(srv_request *req, const attn_tensor *states, const srv_sequences *s,
                attn_tensor *out);
/* Returns the number of mask tokens in all sequences. It is 0 if the model has no mask token. */
size_t srv_masks_count(const srv_model *model, const srv_sequences *s);
/* Writes a list with a list for each sequence. An element describes one mask: its position, and the
 * `count` most probable tokens there by the logits [B, S, V]. */
void srv_masks_put(attn_json_text *j, const srv_model *model, const attn_tensor *logits,
                   const srv_sequences *s, size_t count);
/* Upper bound, in bytes, of the text of an alternative. */
#define SRV_CHOICE_TEXT 192.0

/* The schemas ModelAlternative and ModelMask. */
extern const srv_field srv_predictions_answers[];

#endif
