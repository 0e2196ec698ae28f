/* Tables as CSV (RFC 4180): a header line, commas, CRLF. */
#ifndef SRV_CSV_H
#define SRV_CSV_H

#include "request/request.h"

/* A table that is being written. `text.failed`: memory ran out or time did, and the rest may be
 * left out. */
typedef struct srv_csv {
    srv_request *req;
    attn_text text;
    size_t fields;
    attn_error err; /* why, if not for want of memory */
} srv_csv;

srv_csv srv_csv_begin(srv_request *req);
/* One field, with what separates it from the field before; quoted where it must be. */
void srv_csv_text(srv_csv *t, bool first, const char *text);
/* A number, rounded when decimals is not negative; nothing where it is not finite. */
void srv_csv_number(srv_csv *t, bool first, double value, bool single, int decimals);
void srv_csv_index(srv_csv *t, bool first, size_t value);
void srv_csv_line(srv_csv *t);
/* The reply 200 text/csv, or a problem when memory or time ran out. */
void srv_csv_end(const srv_csv *t);

#endif
