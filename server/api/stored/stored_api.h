/* Code that the routes of stored runs share: fields that select sites, layers and heads of a run;
 * functions that hold a run and compute cells of its weights; headers that let clients cache
 * answers; and looks, which are requests about a run that may take long. */
#ifndef SRV_STORED_API_H
#define SRV_STORED_API_H

#include <stddef.h>

#include "api/common/compute.h"
#include "api/common/scope.h"
#include "api/common/warnings.h"
#include "store/runs.h"
#include "wire/decode.h"
#include "wire/json_out.h"

/* Selects a site of a run and one head of it. */
typedef struct srv_run_spot {
    const char *site;  /* name or number of the site; NULL: not given */
    int kind;          /* index into srv_run_kinds; not read if `kind` was not given */
    const char *stack; /* NULL: not given */
    int64_t batch, layer, head;
    bool all_heads; /* selects all heads of the batch entry; `head` is then not read */
    bool of_scores; /* set before the check: heads are score heads, not weight heads */
} srv_run_spot;

extern const char *const srv_run_kinds[]; /* the names of attn_run_kind */

#define SRV_RUN_SITE_ROWS(T)                                                                       \
    SRV_NAMED_ROW(T, "site", spot.site, SRV_STRING,                                                \
                  "The attention site of the run: its name, or its number in the list of sites. "  \
                  "Not needed if the run has one site, or if layer and kind select one.",          \
                  .example = "\"0\""),                                                             \
        SRV_RUN_PLACE_ROW(                                                                         \
            T, layer, 1048576,                                                                     \
            "Selects sites by their layer, instead of site. In a site with an axis of layers it "  \
            "selects the layer, and batch counts the entries of that layer."),                     \
        SRV_NAMED_ROW(T, "kind", spot.kind, SRV_ENUM,                                              \
                      "Selects sites by their kind, beside layer.", .choices = srv_run_kinds),     \
        SRV_RUN_STACK_ROW(T, spot.stack)
/* The field that selects one stack of layers. */
#define SRV_RUN_STACK_ROW(T, member)                                                               \
    SRV_NAMED_ROW(T, "stack", member, SRV_STRING,                                                  \
                  "Selects sites by their stack, if the model has several stacks of one kind.",    \
                  .example = "\"text\"")
#define SRV_RUN_SPOT_ROWS(T)                                                                       \
    SRV_RUN_SITE_ROWS(T),                                                                          \
        SRV_RUN_PLACE_ROW(T, batch, 4294967296, "The batch entry, from 0.", .standard = "0"),      \
        SRV_RUN_PLACE_ROW(T, head, 4294967296, "Query head; default 0.")
#define SRV_RUN_PLACE_ROW(T, member, most, text, ...)                                              \
    SRV_NAMED_ROW(T, #member, spot.member, SRV_INT, text, .max = most, __VA_ARGS__)
/* The field `heads`, which replaces `head` and adds an axis of heads to the answer. */
#define SRV_RUN_HEADS_ROW(T)                                                                       \
    SRV_FIELD_ROW(T, heads, SRV_UNION,                                                             \
                  "Several query heads instead of head: a list of numbers, or \"all\". The "       \
                  "answer then has one more axis in front, the heads in this order.",              \
                  .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_head_words,             \
                  .example = "\"all\"")
/* The field `heads` with the additional word "mean", for routes that answer the mean of the
 * heads. */
#define SRV_RUN_HEADS_OR_MEAN_ROW(T)                                                               \
    SRV_FIELD_ROW(T, heads, SRV_UNION,                                                             \
                  "Several query heads instead of head: a list of numbers, or \"all\". The "       \
                  "answer then has one more axis in front, the heads in this order. \"mean\" "     \
                  "gives the mean of the weights over all heads, without such an axis.",           \
                  .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_mean_words,             \
                  .example = "\"all\"")
/* The fields `rows`, which may have several ranges, and `cols`. */
#define SRV_RUN_ROWS_ROW(T)                                                                        \
    SRV_FIELD_ROW(T, rows, SRV_RANGES,                                                             \
                  "Queries: an index, from:to without the end, or a list of these, in the order "  \
                  "of the answer; default all.",                                                   \
                  .accepts = SRV_R_MANY, .example = "\"5,9,100:104\"")
#define SRV_RUN_COLS_ROW(T)                                                                        \
    SRV_FIELD_ROW(T, cols, SRV_RANGES, "Keys: an index, or from:to without the end; default all.", \
                  .example = "\"0:256\"")
extern const char *const srv_run_head_words[], *const srv_run_mean_words[];

/* A held run, and the site that the request selects in it. */
typedef struct srv_run_view {
    const srv_run *held;
    const attn_run_site *site;
    size_t index; /* index of the site */
    /* The batch entries that the request selects. These are all batch entries of the site or, if
     * the request names a layer of the site's axis of layers, the entries of this layer. */
    size_t first_entry, entries;
} srv_run_view;

/* The part of a site's weights that a request selects: the cells heads x rows x cols. The rows are
 * the rows of all `ranges`, one range after the other. */
typedef struct srv_run_part {
    size_t batch;
    int64_t *heads; /* [head_count] */
    size_t head_count;
    bool many; /* the request has `heads`, so tensors have an axis of heads */
    bool mean; /* the mean of all heads is selected: `heads` lists all; no axis of heads */
    const srv_bounds *ranges; /* [range_count] */
    size_t range_count;
    size_t rows;      /* number of rows in all ranges together */
    size_t col, cols; /* the first key and the number of keys */
} srv_run_part;
/* Returns a view that holds the run with this id. The member `site` of the view is NULL until a
 * site is selected. Returns NULL if a problem is set. */
srv_run_view *srv_run_look(srv_request *req, const char *id);
/* Does the same as srv_run_look, for the run that the path names. */
srv_run_view *srv_run_of(srv_request *req);
/* Releases the run. `run` may be NULL. */
void srv_run_leave(srv_request *req, const srv_run_view *run);
/* Sets *out to the labels of the site. The lists of *out are in the arena of the request. false: a
 * problem is set. */
bool srv_run_labels(srv_request *req, const attn_run_site *site, srv_labels *out);
/* Returns the dims of the site if its output can be computed from its weights and the values in the
 * run. Returns NULL if the site was stored with keys but without values, or if it uses Shaw's table
 * of values. */
const attn_attention_dims *srv_run_valued(const attn_run_site *site);
/* Sets run->site to the site that `spot` selects. `spot` is a member of the decoded struct of
 * `scope`. Checks that the site has the head, and verifies the stored bytes of the head
 * (srv_run_touch). If spot->layer selects a layer of the site's axis of layers, spot->batch counts
 * the entries of that layer, and is changed to count the entries of the site. false: a problem is
 * set. */
bool srv_run_spot_check(const srv_scope *scope, srv_run_view *run, srv_run_spot *spot);
/* Verifies the bytes of the run's file that a head of the site is computed from. If `batch` or
 * `head` is SIZE_MAX, verifies those of all batch entries or heads. false: a problem is set. */
bool srv_run_touch(srv_request *req, const srv_run_view *run, size_t batch, size_t head);
/* Sets *out to the part that `spot`, `heads`, `rows` and `cols` select, and verifies the stored
 * bytes of its heads. These four arguments are members of the decoded struct of `scope`. `cols` may
 * be NULL, for all keys. false: a problem is set. */
bool srv_run_select(const srv_scope *scope, const srv_run_view *run, const srv_run_spot *spot,
                    const srv_union *heads, const srv_ranges *rows, const srv_ranges *cols,
                    srv_run_part *out);
/* Checks the cells of the cost against max_cells, and reserves `bytes` of memory in the request's
 * arena. false: a problem is set. */
bool srv_run_admit_cost(srv_request *req, const attn_cost *cost, double bytes);
/* Adds Cache-Control to the reply, which must be set. The client may cache the answer until the run
 * expires, but not while the run is open (it grows). Does nothing for a POST or an error. */
void srv_run_keep(srv_request *req, const srv_run *run);
/* Adds an ETag to the reply, made from the run, `kind` and the query string. Returns true if the
 * request's If-None-Match has this ETag, and sets the reply to 304. Answers about an open run have
 * no ETag. */
bool srv_run_tagged(srv_request *req, const srv_run_view *run, const char *kind);

/* Releases a run that the request has stored, and tells the client its id in the header X-Run-Id.
 * If the answer is a problem, the run is removed from the store instead, because the client does
 * not learn the id. The reply must be set. */
void srv_run_tell(srv_request *req, const srv_run *run);

/* Computes the exact cells of a part on the pool. Writes [heads, rows, cols] elements of the run's
 * result type to dst. */
attn_status srv_run_cells(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                          attn_stage stage, void *dst, attn_error *err);
/* Computes the mean over all heads of the cells of a part. Writes [rows, cols] elements of the
 * run's result type to dst. */
attn_status srv_run_mean(srv_request *req, const srv_run_view *run, const srv_run_part *part,
                         void *dst, attn_error *err);
/* Returns the number of bytes that srv_run_mean needs. */
double srv_run_mean_work(const srv_request *req, const srv_run_view *run, const srv_run_part *part);
/* Sets `dims` to the shape of a tensor with `width` numbers for each row of the part, and returns
 * its rank: [heads, rows, width] if part->many, otherwise [rows, width]. */
int srv_run_part_dims(const srv_run_part *part, size_t width, size_t dims[3]);
/* Returns the number of bytes of scratch that srv_run_cells needs. In addition, it needs
 * SRV_RUN_ROW_WORK bytes for each row of each head. */
double srv_run_cells_work(const srv_request *req, const srv_run_view *run);
#define SRV_RUN_ROW_WORK 192.0
/* Upper bound of the bytes of JSON for each byte of a tensor. */
#define SRV_RUN_TEXT 4.0

/* --- sites and layers --- */

/* Returns the number of the site with the name `text` or, if no site has this name, with the number
 * `text`. SIZE_MAX: there is no such site. */
size_t srv_run_site_named(const attn_run *run, const char *text);
/* Returns whether layer, kind and stack of the request select the site. `spot` is a member of the
 * decoded struct of `scope`. A site with an axis of layers is selected if `layer` is the number of
 * one of its layers. */
bool srv_run_site_selected(const srv_scope *scope, const attn_run *run, size_t index,
                           const srv_run_spot *spot);
/* Refuses the field `name`, whose `text` names no site of the run. Returns false. */
bool srv_run_no_site(const srv_scope *scope, const attn_run *run, const char *name,
                     const char *text);
/* Lists the sites that site, layer, kind and stack of the request select. The list has at least one
 * entry, and is in the arena of the request. false: a problem is set. */
bool srv_run_sites(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                   size_t **out, size_t *count);
/* Returns the name of the most specific given field that selects sites: "layer", else "stack", else
 * "kind". */
const char *srv_run_selector(const srv_scope *scope);
/* Checks that the sites are of one kind and stack, because only such sites have consecutive layers.
 * false: a problem is set. */
bool srv_run_one_stack(const srv_scope *scope, const attn_run *run, const size_t *sites,
                       size_t count);
/* Collects the layers of the selected sites, which must be of one kind and stack. If the request
 * has `layer`, collects only this layer. false: a problem is set. */
bool srv_run_layers(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                    attn_run_layers *out);
/* Returns whether the layers of the run are known. They are not if the run has a single site
 * without an axis of layers and with several batch entries, because a client may have stored layers
 * as batch entries. */
bool srv_run_layers_are_known(const attn_run *run, const attn_run_layers *layers);
/* Verifies the bytes of the run's file that the layers are computed from. false: a problem is
 * set. */
bool srv_run_touch_layers(srv_request *req, const srv_run_view *run, const attn_run_layers *layers);

/* --- heads of many sites --- */

/* The fields of a request about heads of many sites. */
typedef struct srv_heads_query {
    srv_strings sites;
    srv_run_spot spot; /* only kind, stack, layer and batch are read */
    srv_union heads;
} srv_heads_query;

#define SRV_RUN_MANY_HEADS_ROWS(T)                                                                 \
    SRV_NAMED_ROW(T, "sites", heads.sites, SRV_STRINGS,                                            \
                  "Attention sites by name or number, in the order of the answer; default all.",   \
                  .example = "\"0,3\""),                                                           \
        SRV_NAMED_ROW(T, "kind", heads.spot.kind, SRV_ENUM, "Only sites of this kind.",            \
                      .choices = srv_run_kinds),                                                   \
        SRV_RUN_STACK_ROW(T, heads.spot.stack),                                                    \
        SRV_NAMED_ROW(                                                                             \
            T, "layer", heads.spot.layer, SRV_INT,                                                 \
            "Only this layer: sites of this number, or this layer of an axis of layers.",          \
            .max = 1048576),                                                                       \
        SRV_NAMED_ROW(T, "batch", heads.spot.batch, SRV_INT,                                       \
                      "Only this batch entry of each layer; default all.", .max = 4294967296),     \
        SRV_NAMED_ROW(T, "heads", heads.heads, SRV_UNION,                                          \
                      "Query heads of each site: a list of numbers, or all (default).",            \
                      .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_head_words,         \
                      .example = "\"0,3\"")

typedef struct srv_run_head {
    const attn_run_site *site;
    size_t index; /* index of the site */
    size_t layer;
    size_t batch; /* index of the batch entry in the layer */
    size_t entry; /* index of the same entry in the site */
    size_t head;
} srv_run_head;

/* Heads in the order of sites, layers, batch entries and heads. */
typedef struct srv_run_heads {
    srv_run_head *items; /* [count] */
    size_t count;
} srv_run_heads;

/* Opens the selected sites, lists their heads, and verifies the stored bytes of the heads. The list
 * is in the arena of the request. `query` is a member of the decoded struct of `scope`. false: a
 * problem is set. */
bool srv_run_find_heads(const srv_scope *scope, srv_run_view *run, const srv_heads_query *query,
                        srv_run_heads *out);
/* Returns the size of the list `items` in bytes. */
double srv_run_heads_bytes(const srv_run_heads *heads);
/* The rows of a srv_run_head in answers: site, layer, batch and head. */
extern const srv_field srv_run_head_rows[];

/* --- looks --- */

/* A look is a request about a run that may take long: GET …/analyses, …/heatmaps, …/atlas, …/heads,
 * …/rollout and …/flow. The answers of looks are kept with the run (store/runs.h). If a request has
 * the header "Prefer: respond-async" (RFC 7240), a long look is computed by a job. The job makes a
 * new request and calls the same handler with it. */

/* The state of a look. The route's own struct begins with a srv_look. */
typedef struct srv_look {
    SRV_CALL;
    srv_run_view *run; /* held until the look ends; run->site is still NULL */
} srv_look;

/* The first member of the own struct of a look's route: a srv_look with the name `look`. The
 * members of the srv_look can also be used as members of the route's struct. */
#define SRV_LOOK                                                                                   \
    union {                                                                                        \
        srv_look look;                                                                             \
        struct {                                                                                   \
            SRV_CALL;                                                                              \
            srv_run_view *run;                                                                     \
        };                                                                                         \
    }

/* The limits that most looks have. */
#define SRV_LOOK_LIMITS                                                                            \
    {                                                                                              \
        .cells = {.what = "score cells have to be computed" }                                      \
    }
/* Members of the srv_steps of a look with a query string. The query string is decoded into the
 * member q of the route's own struct T. */
#define SRV_LOOK_STEPS(T, query)                                                                   \
    .fields = query, .body = offsetof(T, q), .decimals = offsetof(T, q.decimals),                  \
    .limits = SRV_LOOK_LIMITS

/* Answers the look `data` (a srv_look) at the run that the path names. The answer is the kept
 * answer, a job that calls `handler`, or the result of the steps, which is then kept. If `handler`
 * is NULL, the look is short: no job computes it, and its answer is not kept. */
srv_outcome srv_look_run(void *data, const srv_steps *steps, srv_outcome (*handler)(srv_request *));
/* Sets the cost of the look. `bytes` of memory will be reserved. */
void srv_look_needs(srv_look *look, double cells, double operations, double bytes);

#endif
