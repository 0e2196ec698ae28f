/* Answers for a terminal (Accept: text/plain), and warnings in either form. */
#ifndef SRV_TEXT_REPLY_H
#define SRV_TEXT_REPLY_H

#include "wire/json_out.h"

/* Does the client read text rather than JSON? */
bool srv_reads_text(const srv_request *req);
/* An empty text in the request's arena. */
attn_text srv_text_begin(srv_request *req);
/* Sets the reply 200 text/plain, or a problem when memory ran out. */
void srv_text_end(srv_request *req, const attn_text *t);

/* Prints a tensor under its name, rounded when `decimals` is not negative; rank 0 prints nothing.
 */
void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, int decimals);

/* Adds a warning. `where` and `code` outlive the request. false: memory ran out. */
bool srv_warnings_add(attn_warnings *warnings, attn_arena *arena, const char *code,
                      const char *where, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Writes the member `warnings`, or prints one line for each; nothing when there are none. */
void srv_warnings_write(srv_json *j, const attn_warnings *warnings);
void srv_warnings_text(attn_text *t, const attn_warnings *warnings);

#endif
