/* Answers as text for a terminal (Accept: text/plain), and warnings as text or as JSON. */
#ifndef SRV_TEXT_REPLY_H
#define SRV_TEXT_REPLY_H

#include "wire/json_out.h"

/* Returns an empty text in the request's arena. */
attn_text srv_text_begin(srv_request *req);
/* Sets the reply 200 text/plain, or a problem if memory ran out. */
void srv_text_end(srv_request *req, const attn_text *t);

/* Prints the name and the elements of a tensor. decimals >= 0: rounded to that many decimals. A
 * tensor of rank 0 is not printed. */
void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, int decimals);

/* Adds a warning. `where` and `code` must outlive the request. false: memory ran out. */
bool srv_warnings_add(attn_warnings *warnings, attn_arena *arena, const char *code,
                      const char *where, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* srv_warnings_write writes the member `warnings`; srv_warnings_text prints a line for each
 * warning. If there are none, both write nothing. */
void srv_warnings_write(srv_json *j, const attn_warnings *warnings);
void srv_warnings_text(attn_text *t, const attn_warnings *warnings);

#endif
