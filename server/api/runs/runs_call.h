/* What the routes of /v1/runs/{id} share: fields that select a head, holding the run, computing
 * cells, and headers that let clients keep answers. */
#ifndef SRV_RUNS_CALL_H
#define SRV_RUNS_CALL_H

#include <stddef.h>

#include "api/common/route_fields.h"
#include "api/common/scope.h"
#include "api/common/warnings.h"
#include "store/runs.h"
#include "wire/decode.h"
#include "wire/json_out.h"

/* Selects a site of a run and one head of it. */
typedef struct srv_run_spot {
    const char *site;  /* its name or its number; NULL: not given */
    int kind;          /* index into srv_run_kinds; not read unless it is given */
    const char *stack; /* NULL: not given */
    int64_t batch, layer, head;
    bool all_heads; /* all heads of the batch entry, and `head` is not read */
} srv_run_spot;

extern const char *const srv_run_kinds[]; /* the names of attn_run_kind */

#define SRV_RUN_SITE_ROWS(T)                                                                       \
    {.name = "site",                                                                               \
     .kind = SRV_STRING,                                                                           \
     .offset = offsetof(T, spot.site),                                                             \
     .example = "\"0\"",                                                                           \
     .doc = "The attention site of the run: its name, or its number in the list of sites. Not "    \
            "needed if the run has one site, or if layer and kind select one."},                   \
        SRV_RUN_PLACE_ROW(                                                                         \
            T, layer, 1048576,                                                                     \
            "Selects sites by their layer, instead of site. In a site with an axis of layers it "  \
            "selects the layer, and batch counts the entries of that layer."),                     \
        {.name = "kind",                                                                           \
         .kind = SRV_ENUM,                                                                         \
         .offset = offsetof(T, spot.kind),                                                         \
         .choices = srv_run_kinds,                                                                 \
         .doc = "Selects sites by their kind, beside layer."},                                     \
        SRV_RUN_STACK_ROW(T, spot.stack)
/* The field that tells stacks of layers apart. */
#define SRV_RUN_STACK_ROW(T, member)                                                               \
    {                                                                                              \
        .name = "stack", .kind = SRV_STRING, .offset = offsetof(T, member), .example = "\"text\"", \
        .doc = "Selects sites by their stack, if the model has several stacks of one kind."        \
    }
#define SRV_RUN_SPOT_ROWS(T)                                                                       \
    SRV_RUN_SITE_ROWS(T),                                                                          \
        SRV_RUN_PLACE_ROW(T, batch, 4294967296, "The batch entry, from 0.", .standard = "0"),      \
        SRV_RUN_PLACE_ROW(T, head, 4294967296, "Query head; default 0.")
#define SRV_RUN_PLACE_ROW(T, member, most, text, ...)                                              \
    {                                                                                              \
        .name = #member, .kind = SRV_INT, .offset = offsetof(T, spot.member), .min = 0,            \
        .max = most, .doc = text, __VA_ARGS__                                                      \
    }
/* The field `heads`, which replaces `head` and adds an axis of heads to the answer. */
#define SRV_RUN_HEADS_ROW(T)                                                                       \
    {                                                                                              \
        .name = "heads", .kind = SRV_UNION, .offset = offsetof(T, heads),                          \
        .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_head_words, .example = "\"all\"", \
        .doc = "Several query heads instead of head: a list of numbers, or \"all\". The answer "   \
               "then has one more axis in front, the heads in this order."                         \
    }
/* The same with one more word, "mean", for routes that answer the mean of the heads. */
#define SRV_RUN_HEADS_OR_MEAN_ROW(T)                                                               \
    {                                                                                              \
        .name = "heads", .kind = SRV_UNION, .offset = offsetof(T, heads),                          \
        .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_mean_words, .example = "\"all\"", \
        .doc = "Several query heads instead of head: a list of numbers, or \"all\". The answer "   \
               "then has one more axis in front, the heads in this order. \"mean\" gives the "     \
               "mean of the weights over all heads, without such an axis."                         \
    }
/* The fields `rows`, which may be several ranges, and `cols`. */
#define SRV_RUN_ROWS_ROW(T)                                                                        \
    {                                                                                              \
        .name = "rows", .kind = SRV_RANGES, .offset = offsetof(T, rows), .accepts = SRV_R_MANY,    \
        .example = "\"5,9,100:104\"",                                                              \
        .doc = "Queries: an index, from:to without the end, or a list of these, in the order of "  \
               "the answer; default all."                                                          \
    }
#define SRV_RUN_COLS_ROW(T)                                                                        \
    {                                                                                              \
        .name = "cols", .kind = SRV_RANGES, .offset = offsetof(T, cols), .example = "\"0:256\"",   \
        .doc = "Keys: an index, or from:to without the end; default all."                          \
    }
extern const char *const srv_run_head_words[], *const srv_run_mean_words[];

/* A run that is held, and the site of it that the request selects. */
typedef struct srv_run_view {
    const srv_run *held;
    const attn_run_site *site;
    size_t index; /* number of the site */
    /* The batch entries that the request is about: all of the site, or those of the layer that it
     * names in the site's axis of layers. */
    size_t first_entry, entries;
} srv_run_view;

/* The part of a run's weights that a request selects: the cells of `heads` x rows x cols, where
 * rows are those of `ranges`, one range after the other. */
typedef struct srv_run_part {
    size_t batch;
    int64_t *heads; /* [head_count] */
    size_t head_count;
    bool many;                /* the request has `heads`, so tensors have an axis of heads */
    bool mean;                /* of all heads, which `heads` lists; tensors have no axis of heads */
    const srv_bounds *ranges; /* [range_count] */
    size_t range_count, rows; /* rows: of all ranges together */
    size_t col, cols;
} srv_run_part;
/* Holds the run with this id. `site` is NULL until one is selected. NULL: a problem is set. */
srv_run_view *srv_run_look(srv_request *req, const char *id);
/* The same for the run that the path names. */
srv_run_view *srv_run_of(srv_request *req);
/* Releases the run. NULL is fine. */
void srv_run_leave(srv_request *req, const srv_run_view *run);
/* Reads the labels of the run. Their lists are in the arena of the request. false: a problem is
 * set. */
bool srv_run_labels(srv_request *req, const attn_run_site *site, srv_labels *out);
/* Returns the dims of the run if its weights multiply values of their own: it was stored with
 * values, and Shaw's positions add nothing to them. Else NULL. */
const attn_attention_dims *srv_run_valued(const attn_run_site *site);
/* Sets run->site to the site that `spot`, a member of the decoded struct of `scope`, selects, and
 * checks that it has the head. If `layer` selects a layer of the site's axis of layers, `batch`
 * counts the entries of that layer; it becomes a batch entry of the site here. false: a problem is
 * set. */
bool srv_run_spot_check(const srv_scope *scope, srv_run_view *run, srv_run_spot *spot);
/* Checks the bytes of the run's file that a head of the site is computed from; SIZE_MAX: all batch
 * entries, or all heads. false: a problem is set. */
bool srv_run_touch(srv_request *req, const srv_run_view *run, size_t batch, size_t head);
/* Reads the fields that select a part; their structs are members of the decoded struct of `scope`.
 * `cols` NULL: all keys. false: a problem is set. */
bool srv_run_select(const srv_scope *scope, const srv_run_view *run, const srv_run_spot *spot,
                    const srv_union *heads, const srv_ranges *rows, const srv_ranges *cols,
                    srv_run_part *out);
/* Checks the number of cells against max_cells, and reserves `bytes` of memory in the request's
 * arena. false: a problem is set. */
bool srv_run_admit(srv_request *req, double cells, double bytes);
/* The check of srv_run_admit alone. */
bool srv_run_fits(srv_request *req, double cells);
/* The same for the cells and operations of a cost. */
bool srv_run_admit_cost(srv_request *req, const attn_cost *cost, double bytes);
/* Holds the run that the path names, reads the query string into `query`, and checks `spot`, a
 * member of `query`. NULL: a problem is set. */
srv_run_view *srv_run_begin(srv_request *req, const srv_field *fields, void *query,
                            srv_run_spot *spot);
/* Releases the run, which may be NULL. If `answered`, first checks that the run's file is intact
 * and adds headers that let the client keep the answer. */
srv_outcome srv_run_end(srv_request *req, const srv_run_view *run, bool answered);
/* Adds the headers that let the client keep the answer, which does not change while the run exists,
 * unless the run is open. The reply must be set. */
void srv_run_keep(srv_request *req, const srv_run *run);
/* Adds an ETag to the reply, made from the run's id, `kind` and the query string. Returns true if
 * the request's If-None-Match has this ETag; the reply is then 304. Answers about an open run have
 * no ETag. */
bool srv_run_tagged(srv_request *req, const srv_run_view *run, const char *kind);

/* Writes the description of a run, which GET /v1/runs/{id} answers. */
void srv_run_write(attn_json_text *j, const srv_run *run);
/* The same with the member `warnings`, if there are any. */
void srv_run_write_warned(attn_json_text *j, const srv_run *run, const srv_warnings *warnings);
/* Prints the id of a run that the request has stored; NULL: nothing. */
void srv_run_print(attn_text *t, const srv_run *run);
/* Releases a run that the request has stored, and tells the client its id in the header X-Run-Id.
 * If the answer is a problem, the run is removed from the store instead, because the client does
 * not learn the id. The reply must be set. */
void srv_run_tell(srv_request *req, const srv_run *run);

/* Computes the exact cells of a part on the pool. Writes them to dst, [heads, rows, cols] elements
 * of the run's result type. */
attn_status srv_run_cells(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                          attn_stage stage, void *dst, attn_error *err);
/* Computes the mean over all heads of the cells of a part, [rows, cols] of the run's result type. */
attn_status srv_run_mean(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                         void *dst, attn_error *err);
/* Returns the bytes that srv_run_mean needs. */
double srv_run_mean_work(const srv_request *req, const srv_run_view *run, const srv_run_part *part);
/* Returns the dimensions of a tensor with `width` numbers for each row of the part in dims[3], and
 * its rank: [heads, rows, width] with `heads`, otherwise [rows, width]. */
int srv_run_part_dims(const srv_run_part *part, size_t width, size_t dims[3]);
/* Returns the bytes of scratch that srv_run_cells needs, besides SRV_RUN_ROW_WORK bytes for each
 * row of each head. */
double srv_run_cells_work(const srv_request *req, const srv_run_view *run);
#define SRV_RUN_ROW_WORK 192.0
/* Upper bound of the bytes of JSON for each byte of a tensor. */
#define SRV_RUN_TEXT 4.0

#endif
