/* What the routes of /v1/runs/{id} share: fields that select a head, holding the run, computing
 * cells, and headers that let clients keep answers. */
#ifndef SRV_RUNS_CALL_H
#define SRV_RUNS_CALL_H

#include <stddef.h>

#include "api/route_fields.h"
#include "api/scope.h"
#include "store/runs.h"
#include "wire/decode.h"
#include "wire/json_out.h"

/* Selects one head of a run. A run of /v1/attention has only one site and one layer. */
typedef struct srv_run_spot {
    int site; /* index into srv_run_sites */
    int64_t batch, layer, head;
} srv_run_spot;

extern const char *const srv_run_sites[];

#define SRV_RUN_SITE_ROWS(T)                                                                       \
    {.name = "site",                                                                               \
     .kind = SRV_ENUM,                                                                             \
     .offset = offsetof(T, spot.site),                                                             \
     .choices = srv_run_sites,                                                                     \
     .doc = "The attention of the run; the default is its only one."},                             \
        SRV_RUN_PLACE_ROW(T, layer, 1048576, "Layer; default 0.")
#define SRV_RUN_SPOT_ROWS(T)                                                                       \
    SRV_RUN_SITE_ROWS(T), SRV_RUN_PLACE_ROW(T, batch, 4294967296, "Batch entry; default 0."),      \
        SRV_RUN_PLACE_ROW(T, head, 4294967296, "Query head; default 0.")
#define SRV_RUN_PLACE_ROW(T, member, most, text)                                                   \
    {                                                                                              \
        .name = #member, .kind = SRV_INT, .offset = offsetof(T, spot.member), .min = 0,            \
        .max = most, .doc = text                                                                   \
    }
/* The field `rows` or `cols`. */
#define SRV_RUN_RANGE_ROW(T, member, which)                                                        \
    {                                                                                              \
        .name = #member, .kind = SRV_INTS, .offset = offsetof(T, member), .max = 2,                \
        .doc = "from:to, range of " which "; default all."                                         \
    }
/* Returns the run that the path names, held until srv_run_release. NULL: a problem is set. */
const srv_run *srv_run_of(srv_request *req);
srv_labels srv_run_labels(const attn_run *run);
/* Checks that the run has the head that `spot` selects. false: a problem is set. */
bool srv_run_spot_check(const srv_scope *scope, const srv_run *run, const srv_run_spot *spot);
/* Reads a range [from, to) within 0 … size from a list field. Without the field, the range is
 * everything. false: a problem is set. */
bool srv_run_range(const srv_scope *scope, const char *name, const srv_ints *list, size_t size,
                   size_t *from, size_t *count);
/* Checks the number of cells against max_cells, and reserves `bytes` of memory in the request's
 * arena. false: a problem is set. */
bool srv_run_admit(srv_request *req, double cells, double bytes);
/* Holds the run that the path names, reads the query string into `query`, and checks `spot`, a
 * member of `query`. NULL: a problem is set. */
const srv_run *srv_run_begin(srv_request *req, const srv_field *fields, void *query,
                             const srv_run_spot *spot);
/* Releases the run, which may be NULL. If `answered`, first checks that the run's file is intact
 * and adds headers that let the client keep the answer. */
srv_outcome srv_run_end(srv_request *req, const srv_run *run, bool answered);
/* Adds the headers that let the client keep the answer, which does not change while the run exists.
 * The reply must be set. */
void srv_run_keep(srv_request *req, const srv_run *run);
/* Adds an ETag to the reply, made from the run's id, `kind` and the query string. Returns true if
 * the request's If-None-Match has this ETag; the reply is then 304. */
bool srv_run_tagged(srv_request *req, const srv_run *run, const char *kind);

/* Computes the exact cells of a range on the pool. Writes them to dst, [rows, cols] elements of the
 * run's result type. */
attn_status srv_run_cells(srv_request *req, const srv_run *run, const attn_range *range,
                          attn_stage stage, void *dst, attn_error *err);
/* Returns the bytes of scratch that srv_run_cells needs. */
double srv_run_cells_work(const srv_request *req, const srv_run *run);
/* Upper bound of the bytes of JSON for each byte of a tensor. */
#define SRV_RUN_TEXT 4.0

#endif
