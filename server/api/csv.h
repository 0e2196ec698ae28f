/* Tables as CSV (RFC 4180): a header line, commas, CRLF. */
#ifndef SRV_CSV_H
#define SRV_CSV_H

#include "heat_reply.h"

/* One field, with what separates it from the field before; quoted where it must be. */
void srv_csv_text(attn_text *t, bool first, const char *text);
/* A number, rounded when decimals is not negative; nothing where it is not finite. */
void srv_csv_number(attn_text *t, bool first, double value, bool single, int decimals);
void srv_csv_index(attn_text *t, bool first, size_t value);
void srv_csv_line(attn_text *t);
/* The reply 200 text/csv, or a problem when memory ran out. */
void srv_csv_end(srv_request *req, const attn_text *t);

/* Cells of heatmaps, one line a row of cells: layer (where there are
 * layers), batch, head, query, then a column a key; hidden ones
 * are empty. */
void srv_heat_csv(srv_request *req, const srv_heat_answer *answer);

#endif
