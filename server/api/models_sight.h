/* Which tokens of the source a model may attend to: the fields hide and source_mask. */
#ifndef SRV_MODELS_SIGHT_H
#define SRV_MODELS_SIGHT_H

#include "api/models_input.h"

typedef struct srv_sight_input {
    srv_int_lists hide;
    attn_tensor source_mask;
} srv_sight_input;

/* Rows of a field table for the fields. `member` of T is a srv_sight_input. */
#define SRV_SIGHT_ROWS(T, member)                                                                  \
    {.name = "hide",                                                                               \
     .kind = SRV_LISTS,                                                                            \
     .offset = offsetof(T, member.hide),                                                           \
     .doc = "Positions of source tokens that no attention of the model sees, a list, or for a "    \
            "batch a list of lists. The LSTM of a seq2seq encoder still reads them."},             \
    {                                                                                              \
        .name = "source_mask", .kind = SRV_TENSOR, .offset = offsetof(T, member.source_mask),      \
        .accepts = SRV_T_BOOL,                                                                     \
        .doc = "Key padding of the source, [S] or [B, S]: true where the model may attend to the " \
               "token. Axes of 1 between B and S are allowed. hide may hide more."                 \
    }

/* Sets `keep` of the sequences from the fields, and warns if a source has no visible token. false:
 * a problem is set. */
bool srv_models_hide(const srv_scope *scope, const srv_sight_input *in, const srv_model *model,
                     srv_sequences *source, srv_warnings *warnings);
/* Returns whether a token of the sequences is hidden. */
bool srv_models_hides(const srv_sequences *s);
/* Sets *keep to an array [count, longest] for attn_batch.source_keep, or to NULL if nothing is
 * hidden. false: a problem is set. */
bool srv_models_keep(srv_request *req, const srv_sequences *s, const uint8_t **keep);

#endif
