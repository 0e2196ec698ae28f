/* The `heatmap` object of a request, and the heatmap in an answer. */
#ifndef SRV_HEAT_INPUT_H
#define SRV_HEAT_INPUT_H

#include "api/labels.h"

typedef enum srv_encoding {
    SRV_CELLS_JSON,
    SRV_CELLS_U8,
    SRV_CELLS_F16,
    SRV_CELLS_F32
} srv_encoding;

typedef struct srv_heat_input {
    uint64_t given;
    srv_union heads; /* "all", "mean" or a list */
    srv_ints batch, rows, cols;
    int64_t max_cells; /* 0 = the default */
    int pool;          /* attn_pooling */
    int encoding;      /* srv_encoding */
    int transform;     /* attn_transform */
    int64_t top_k;
    double top_p;
} srv_heat_input;

extern const srv_field srv_heat_fields[];
void srv_heat_init(void *input); /* defaults, a srv_heat_input */

/* Check the object against the shapes and turn it into the library's options, which point into it.
 */
bool srv_heat_options(srv_request *req, const srv_heat_input *in, const attn_attention_dims *dims,
                      attn_heatmap_options *out);
/* A library error about the options: its place lies inside /heatmap. */
void srv_heat_problem(srv_request *req, const attn_error *err);

/* The answer's `heatmap` (heat_answer.c). */
void srv_heat_write(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                    const srv_labels *labels);
/* Its members, inside of an object that is open. */
void srv_heat_members(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                      const srv_labels *labels);
/* The same for a terminal; titles: one a head, or NULL. */
void srv_heat_text(attn_text *t, const attn_heatmaps *maps, const srv_labels *labels,
                   const srv_strings *titles);

#endif
