/* Interventions in a pass or a search of a model: the request fields `ablate` and `scale`, and the
 * field `patch` of /v1/models/{id}/explain (attn/interventions.h). */
#ifndef SRV_INTERVENTIONS_API_H
#define SRV_INTERVENTIONS_API_H

#include "api/passes/passes_api.h"

/* An element of one of the lists. */
typedef struct srv_intervention {
    srv_given_bits given;
    int site, how, part;
    int64_t layer, head, position, other_position; /* -1: absent */
    double factor;
} srv_intervention;

typedef struct srv_interventions {
    srv_objects ablate, scale, patch;
} srv_interventions;

enum { SRV_INTERVENTIONS_MOST = 256 }; /* largest number of elements in each list */

extern const srv_field srv_ablate_fields[], srv_scale_fields[], srv_patch_fields[];
void srv_intervention_init(void *item);

#define SRV_INTERVENTIONS_ROW(T, name, member, rows, text)                                         \
    SRV_NAMED_ROW(T, name, member, SRV_OBJECTS, text, .fields = rows,                              \
                  .size = sizeof(srv_intervention), .init = srv_intervention_init,                 \
                  .max = SRV_INTERVENTIONS_MOST)
#define SRV_ABLATE_ROWS(T, member)                                                                 \
    SRV_INTERVENTIONS_ROW(T, "ablate", member.ablate, srv_ablate_fields,                           \
                          "Heads whose output, before the output matrix, becomes 0 or a mean: a "  \
                          "list of {layer, head, how, site, position}."),                          \
        SRV_INTERVENTIONS_ROW(T, "scale", member.scale, srv_scale_fields,                          \
                              "Heads whose output, before the output matrix, is multiplied by a "  \
                              "factor: a list of {layer, head, factor, site, position}.")
#define SRV_PATCH_ROW(T, member)                                                                   \
    SRV_INTERVENTIONS_ROW(T, "patch", member.patch, srv_patch_fields,                              \
                          "Places at which the activation of the other text replaces that of the " \
                          "text: a list of {layer, head, part, site, position, other_position}. "  \
                          "Without head it is the residual stream.")

/* The sequences of a batch that the interventions change or read. */
typedef struct srv_intervened {
    size_t sequence;                   /* the changed sequence, or ATTN_EVERY */
    size_t other;                      /* the sequence from which a patch reads */
    size_t references, num_references; /* the sequences over which means are taken */
    size_t rows[2], other_rows[2];     /* tokens of encoder and decoder; 0: any position */
} srv_intervened;

/* Checks the lists, and sets *out [*count] to the interventions: ablate, then scale, then patch.
 * false: a problem is set. */
bool srv_interventions_read(const srv_scope *scope, const srv_model *model,
                            const srv_interventions *in, const srv_intervened *of,
                            attn_intervention **out, size_t *count);
/* Reads the lists for a search. Its interventions change all sequences. Refuses means and single
 * positions, which a search does not support. false: a problem is set. */
bool srv_interventions_of_search(const srv_scope *scope, const srv_model *model,
                                 const srv_interventions *in, attn_intervention **out,
                                 size_t *count);

#endif
