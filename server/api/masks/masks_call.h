/* The state of a POST /v1/masks: the decoded body, the compiled mask, and other data of the
 * answer. */
#ifndef SRV_MASKS_CALL_H
#define SRV_MASKS_CALL_H

#include "api/common/compute.h"
#include "api/common/heatmap_object.h"
#include "api/common/mask_input.h"

/* The largest number of cells of a mask that is answered cell by cell. A larger mask is answered as
 * runs (ranges) of visible keys. */
#define SRV_MASK_CELLS 65536
/* Upper bound of the memory in bytes for each batch entry: the query offset, the length of the
 * keys, and a run of the answer. */
#define SRV_MASK_ENTRY 64.0

/* How the cells of a mask are written: booleans for KEEP, else float32. */
typedef enum srv_masks_form {
    SRV_MASKS_KEEP,         /* true: visible */
    SRV_MASKS_KEEP_NUMBERS, /* 1: visible, 0: hidden */
    SRV_MASKS_HIDE_NUMBERS, /* 1: hidden, 0: visible */
    SRV_MASKS_ADDITIVE,     /* the number that is added to the score; without mask_fill -infinity
                               in hidden cells */
    SRV_MASKS_DIFFERENCE,   /* 1: only masks shows the cell, -1: only against, 0: both or none */
} srv_masks_form;
/* The names of the forms, which are also the names of the tensors in answers. */
extern const char *const srv_masks_forms[];

typedef struct srv_masks_body {
    srv_given_bits given;
    srv_objects masks, against; /* arrays of srv_mask_item */
    srv_ints shape;
    attn_tensor token_ids;
    int64_t pad_id, timeout_ms;
    srv_union query_offset;
    int combine;
    bool dry_run, full;
    srv_masks_form as;
    attn_mask_spec spec; /* the mask of the library that the fields of the body describe */
    srv_given_bits fill_given;
    srv_labels labels;
    srv_figure_input figure;
} srv_masks_body;

/* The differences between the mask and the mask `against`. */
typedef struct srv_masks_difference {
    double kept; /* share of the cells that against leaves visible */
    int64_t num_different, num_only_masks, num_only_against;
    size_t first[4]; /* batch entry, head, query and key of the first cell that differs */
} srv_masks_difference;

typedef struct srv_masks_call {
    SRV_CALL;
    srv_masks_body body;
    attn_mask_shape shape;
    size_t dims[ATTN_MAX_RANK]; /* shape of the weights */
    int rank;                   /* number of axes in `dims` */
    size_t B;                   /* number of batch entries */
    double kept;                /* share of the cells that are visible, 0 … 1 */
    double cells;               /* number of cells */
    double bound;               /* number of cells, with axes of length 0 counted as 1 */
    attn_mask *mask, *against;  /* `against` is NULL if the request does not have it */
    attn_mask_spec against_spec;
    srv_masks_difference difference;
    srv_warnings warnings;
} srv_masks_call;

double srv_masks_batches(const srv_masks_call *call);
/* Returns whether the answer holds all cells, as tensors or text, and no runs. Files of tensors
 * always hold all cells. */
bool srv_masks_cells(const srv_masks_call *call);
/* Returns the number of bytes to reserve for compiling the mask and, if the mask is small, for
 * writing the answer. For a large mask, memory for the answer is reserved later, when the mask is
 * compiled. */
double srv_masks_memory(const srv_masks_call *call);
/* Return whether all batch entries (or all heads) are equal in the mask and in `against`. */
bool srv_masks_same_batches(const srv_masks_call *call);
bool srv_masks_same_heads(const srv_masks_call *call);
/* Writes the visible cells of a row of `against` to `other`, and their differences from the cells
 * `keep` of the mask to `difference`, as numbers of the form DIFFERENCE. */
void srv_masks_keep_against(const attn_mask *against, const attn_range *row, const uint8_t *keep,
                            uint8_t *other, double *difference);
/* Compares the mask with `against`, and sets call->difference. false: a problem is set. */
bool srv_masks_compare(srv_masks_call *call);
/* The member `against` of the answer, and its lines of text. */
extern const srv_field srv_masks_against_rows[];
void srv_masks_against_text(attn_text *t, const srv_masks_call *call);

/* The answers of a srv_masks_call: the steps json, text and picture (compute.h). */
void srv_masks_json(void *data, attn_json_text *j);
void srv_masks_text(void *data, attn_text *t);
void srv_masks_picture(void *data);

#endif
