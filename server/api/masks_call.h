/* One POST /v1/masks on its way: decoded body -> compiled mask -> answer. */
#ifndef SRV_MASKS_CALL_H
#define SRV_MASKS_CALL_H

#include "api/heatmap_object.h"
#include "api/mask_input.h"
#include "api/route_fields.h"

/* Largest mask that is answered cell by cell; beyond it, as runs of visible keys. */
#define SRV_MASK_CELLS 65536
/* Bytes that a batch entry takes: its offset and length, and a run of the answer. */
#define SRV_MASK_ENTRY 64.0

typedef struct srv_masks_item {
    uint64_t given;
    int kind;
    srv_mask_input mask;
} srv_masks_item;

typedef struct srv_masks_body {
    uint64_t given;
    srv_objects masks; /* srv_masks_item */
    srv_ints shape;
    attn_tensor token_ids;
    int64_t pad_id, timeout_ms;
    srv_union query_offset;
    int combine;
    bool dry_run;
    srv_labels labels;
    srv_figure_input figure;
} srv_masks_body;

typedef struct srv_masks_call {
    srv_request *req;
    srv_masks_body body;
    attn_mask_spec spec;
    attn_mask_shape shape;
    size_t dims[ATTN_MAX_RANK]; /* the weights' shape */
    int rank;
    size_t B;
    double kept;         /* share of the cells that are visible */
    double cells, bound; /* bound: the cells, or what it takes to say that there are none */
    attn_mask *mask;
    attn_warnings warnings;
} srv_masks_call;

double srv_masks_batches(const srv_masks_call *call);
/* Memory to compile it, and for the answer to a small one; that to a large one is counted once its
 * mask is known (masks_answer.c). false: a problem is set. */
bool srv_masks_admit(srv_masks_call *call);
/* Mask -> reply (masks_answer.c). */
void srv_masks_json(srv_masks_call *call);
void srv_masks_text(srv_masks_call *call);
void srv_masks_picture(srv_masks_call *call);

#endif
