/* Answers as text for a terminal (Accept: text/plain). */
#ifndef SRV_TEXT_REPLY_H
#define SRV_TEXT_REPLY_H

#include "wire/json_out.h"

/* Returns an empty text in the request's arena. */
attn_text srv_text_begin(srv_request *req);
/* Sets the reply 200 text/plain, or a problem if memory ran out. */
void srv_text_end(srv_request *req, const attn_text *t);

/* How a route prints the numbers of its tensors. */
typedef struct srv_print {
    int decimals; /* decimals of numbers; negative: 8, so that tiny numbers are printed as 0 */
    bool full;    /* long axes are printed in full */
} srv_print;
/* Prints the name, the shape and the elements of a tensor. A tensor of rank 0 is not printed. */
void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, srv_print print);

#endif
