/* What an image of format 2 (FORMAT.md) is made of, site by site: the tensors of the file and its
 * text. */
#ifndef ATTN_RUN_BUILDER_H
#define ATTN_RUN_BUILDER_H

#include "io/growing_list.h"
#include "runs/private.h"
#include "json/json_tree.h"
#include "json/json_write.h"

/* Members that are set by the caller come first. */
typedef struct attn_run_builder {
    const attn_run_text *texts; /* [text_count] */
    size_t text_count;
    attn_pool *pool;
    const attn_control *control;
    attn_arena *arena; /* lists, names and the text of the file */
    attn_arena *work;  /* copies of tensors, packed masks, the overview; may be the same */
    attn_error *err;
    /* Every tensor begins at a multiple of ATTN_ALIGN bytes behind the first one: behind others a
     * tensor "pad.N" of zeros fills up. */
    bool padded;

    attn_io_list tensors; /* of attn_named_tensor: the file's, in the order of the sites */
    attn_io_list given;   /* those that later sites may share, as the caller has them */
    attn_io_list masks;   /* masks that were packed */
    size_t site, keys;    /* number of the site, and its S */
    size_t pads;
    attn_json_text text;
    attn_status status; /* the first error; the functions below then do nothing */
} attn_run_builder;

/* Checks the texts of the caller: ATTN_EARG at "metadata". */
attn_status attn_run_check_metadata(const attn_metadata *metadata, size_t count, attn_error *err);

/* Begins the text up to the list of sites. `model` may be NULL. */
void attn_run_builder_begin(attn_run_builder *b, const char *model);
/* Adds a site: its text, and the tensors that the file does not have yet. */
void attn_run_builder_site(attn_run_builder *b, const attn_run_site_source *site);
/* Ends the text and sets *out to the whole file. `metadata` are further texts. */
void attn_run_builder_end(attn_run_builder *b, const attn_metadata *metadata, size_t count,
                          attn_safetensors *out);

#endif
