/* Writes tables as CSV (RFC 4180): a header line, commas, CRLF. */
#ifndef SRV_CSV_H
#define SRV_CSV_H

#include "request/request.h"

/* A table while it is written. `text.failed` is set when memory or time has run out; the caller may
 * then skip the remaining fields. */
typedef struct srv_csv {
    srv_request *req;
    attn_text text;
    size_t fields;  /* number of fields written so far */
    attn_error err; /* the error, if the deadline has set text.failed */
} srv_csv;

srv_csv srv_csv_begin(srv_request *req);
/* Writes one field, quoted if necessary, after a comma unless it is the first. */
void srv_csv_text(srv_csv *t, bool first, const char *text);
/* Writes a number, rounded to `decimals` decimals. If `decimals` is negative, writes the fewest
 * digits that read back as the same number, a float32 if `single`, else a double. NaN and
 * infinities become empty fields. */
void srv_csv_number(srv_csv *t, bool first, double value, bool single, int decimals);
void srv_csv_index(srv_csv *t, bool first, size_t value);
void srv_csv_line(srv_csv *t); /* ends the line */
/* Sets the reply 200 text/csv, or a problem if memory or time has run out. */
void srv_csv_end(const srv_csv *t);

#endif
