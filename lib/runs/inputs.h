/* The operation of a site as JSON (FORMAT.md), in both directions. Tensors are named; the names
 * are looked up in the file, or chosen by the writer. */
#ifndef ATTN_RUN_OPERATION_H
#define ATTN_RUN_OPERATION_H

#include "runs/private.h"
#include "json/json_tree.h"
#include "json/json_write.h"

/* The member of a request or a file that holds a tensor of attn_inputs, or of one of its parts. The
 * tables end with the name NULL. */
typedef struct attn_run_member {
    const char *name;
    size_t offset; /* in attn_inputs */
} attn_run_member;

/* A reader of one site. */
typedef struct attn_run_reader {
    const attn_run *run;
    attn_run_site *site;
    size_t index; /* number of the site */
    attn_error *err;
} attn_run_reader;

/* Fails at a member of the site: "sites/3/scale". */
attn_status attn_run_refuse(const attn_run_reader *r, attn_status status, const char *member,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Refuses the first member of the object that the reader does not know. `where` is its name in the
 * site, or "". */
attn_status attn_run_refuse_unknown(const attn_run_reader *r, const attn_json *object,
                                    const char *where);
/* Refuses the name of a tensor, given by the member at `place`: the file has none, or one that no
 * attn_tensor can be a view of. */
attn_status attn_run_no_tensor(const attn_run_reader *r, const char *place, const char *name);
/* Finds the tensor that the member names. If the member is absent, the tensor sites.N.MEMBER; if
 * there is none either, *out stays as it is. */
attn_status attn_run_read_tensor(const attn_run_reader *r, attn_json *object, const char *where,
                                 const char *member, attn_tensor *out);
/* Reads a list of `count` integers from least to most into the run's arena. */
attn_status attn_run_read_integers(const attn_run_reader *r, const attn_json *list,
                                   const char *member, size_t count, int64_t least, int64_t most,
                                   int64_t **out);
/* Reads the operation of the site without its masks: site->in and site->shape. */
attn_status attn_run_read_operation(const attn_run_reader *r, attn_json *object);
/* Checks the shapes of sinks and of the tables of positions (tables.c). */
attn_status attn_run_check_tables(const attn_run_reader *r);
/* Refuses a site without statistics that has no sequence, head or width: its other axes need no
 * bytes in the file, so the file would not bound the memory that they take. */
attn_status attn_run_check_axes(const attn_run_reader *r);
/* Reads the masks into site->in (masks.c). Shape, starts and lengths of the site are known. */
attn_status attn_run_read_masks(const attn_run_reader *r, attn_json *object);

/* A writer of one site. */
typedef struct attn_run_naming {
    attn_json_text *text;
    /* Adds a tensor to the file, which may have it already, and returns its name there. `member` is
     * what it is called in the site. Fails into ctx. */
    const char *(*tensor)(void *ctx, const char *member, const attn_tensor *tensor);
    /* The same for the tensor of a mask, if the layer has one; a boolean mask may be packed to bits
     * first. Sets kind and semantics to those in the file. */
    const char *(*mask)(void *ctx, const char *member, attn_mask_layer *layer);
    void *ctx;
} attn_run_naming;
/* Write the members of the operation into the object that the caller has begun. */
void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in);
void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec);

#endif
