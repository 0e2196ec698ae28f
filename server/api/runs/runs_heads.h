/* The heads of a run that a request for many of them selects: those of all sites, or of some. */
#ifndef SRV_RUNS_HEADS_H
#define SRV_RUNS_HEADS_H

#include "api/runs/runs_layers.h"

/* The fields of such a request. */
typedef struct srv_heads_query {
    srv_strings sites;
    srv_run_spot spot; /* only kind, stack, layer and batch */
    srv_union heads;
} srv_heads_query;

#define SRV_RUN_MANY_HEADS_ROWS(T)                                                                 \
    {.name = "sites",                                                                              \
     .kind = SRV_STRINGS,                                                                          \
     .offset = offsetof(T, heads.sites),                                                           \
     .example = "\"0,3\"",                                                                         \
     .doc = "Attention sites by name or number, in the order of the answer; default all."},        \
        {.name = "kind",                                                                           \
         .kind = SRV_ENUM,                                                                         \
         .offset = offsetof(T, heads.spot.kind),                                                   \
         .choices = srv_run_kinds,                                                                 \
         .doc = "Only sites of this kind."},                                                       \
        SRV_RUN_STACK_ROW(T, heads.spot.stack),                                                    \
        {.name = "layer",                                                                          \
         .kind = SRV_INT,                                                                          \
         .offset = offsetof(T, heads.spot.layer),                                                  \
         .max = 1048576,                                                                           \
         .doc = "Only this layer: sites of this number, or this layer of an axis of layers."},     \
        {.name = "batch",                                                                          \
         .kind = SRV_INT,                                                                          \
         .offset = offsetof(T, heads.spot.batch),                                                  \
         .max = 4294967296,                                                                        \
         .doc = "Only this batch entry of each layer; default all."},                              \
    {                                                                                              \
        .name = "heads", .kind = SRV_UNION, .offset = offsetof(T, heads.heads),                    \
        .accepts = SRV_U_STRING | SRV_U_INTS, .choices = srv_run_head_words, .example = "\"0,3\"", \
        .doc = "Query heads of each site: a list of numbers, or all (default)."                    \
    }

/* A head: `entry` is the batch entry of the site, and `batch` that of the layer. */
typedef struct srv_run_head {
    const attn_run_site *site;
    size_t index, layer, batch, entry, head; /* index: number of the site */
} srv_run_head;

/* Heads in the order of sites, layers, batch entries and heads. */
typedef struct srv_run_heads {
    srv_run_head *items; /* [count] */
    size_t count;
} srv_run_heads;

/* Opens the selected sites, lists their heads, and checks the bytes that they are computed from.
 * The list is in the arena. `query` is a member of the decoded struct of `scope`. false: a problem
 * is set. */
bool srv_run_find_heads(const srv_scope *scope, srv_run_view *run, const srv_heads_query *query,
                        srv_run_heads *out);
/* Returns the bytes of the list. */
double srv_run_heads_bytes(const srv_run_heads *heads);
/* Writes the members site, layer, batch and head into an object that the caller has begun. */
void srv_run_head_write(attn_json_text *j, const srv_run_head *head);

#endif
