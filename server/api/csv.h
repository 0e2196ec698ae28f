/* Tables as CSV (RFC 4180): a header line, commas, CRLF. */
#ifndef SRV_CSV_H
#define SRV_CSV_H

#include "request/request.h"

/* A table that is being written. When `text.failed` is set, memory or time has run out, and the
 * rest may be left out. */
typedef struct srv_csv {
    srv_request *req;
    attn_text text;
    size_t fields;
    attn_error err; /* why it failed, unless memory ran out */
} srv_csv;

srv_csv srv_csv_begin(srv_request *req);
/* Writes one field and the comma in front of it, and quotes it where it must be. */
void srv_csv_text(srv_csv *t, bool first, const char *text);
/* Writes a number, rounded when `decimals` is not negative. A number that is not finite becomes an
 * empty field. */
void srv_csv_number(srv_csv *t, bool first, double value, bool single, int decimals);
void srv_csv_index(srv_csv *t, bool first, size_t value);
void srv_csv_line(srv_csv *t);
/* Sets the reply 200 text/csv, or a problem when memory or time has run out. */
void srv_csv_end(const srv_csv *t);

#endif
