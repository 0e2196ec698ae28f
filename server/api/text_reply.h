/* Answers for a terminal (Accept: text/plain), and warnings in either form. */
#ifndef SRV_TEXT_REPLY_H
#define SRV_TEXT_REPLY_H

#include "wire/json_out.h"

/* Does the client read text and not JSON? */
bool srv_reads_text(const srv_request *req);
/* An empty text in the request's arena. */
attn_text srv_text_begin(srv_request *req);
/* The reply 200 text/plain, or a problem when memory ran out. */
void srv_text_end(srv_request *req, const attn_text *t);

/* A tensor under its name, rounded when `decimals` is not negative; nothing for rank 0. */
void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, int decimals);

/* One more warning; false when memory ran out. `where` and `code` outlive the request. */
bool srv_warnings_add(attn_warnings *warnings, attn_arena *arena, const char *code,
                      const char *where, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The key `warnings` with its list, resp. one line each; nothing when there are none. */
void srv_warnings_write(srv_json *j, const attn_warnings *warnings);
void srv_warnings_text(attn_text *t, const attn_warnings *warnings);

#endif
