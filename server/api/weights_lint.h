/* Warnings about weights that a caller sends. */
#ifndef SRV_WEIGHTS_LINT_H
#define SRV_WEIGHTS_LINT_H

#include "api/scope.h"
#include "request/request.h"

typedef struct srv_weights_lint {
    srv_request *req;
    const char *where; /* the field of the weights */
    const attn_tensor *weights;
    const attn_attention_dims *dims; /* B, Hq, L and S */
    const srv_labels *labels;        /* that may show padding, or NULL */
    attn_warnings *warnings;
} srv_weights_lint;

/* Warn of what is odd about them: legal to draw and to measure, but probably not meant. Fails with
 * ATTN_ENOMEM, or as attn_control_check does. */
attn_status srv_weights_look(const srv_weights_lint *lint, attn_error *err);

#endif
