/* Keys and values of a site that lie in a pool of blocks (attn/pages.h). The table of blocks is
 * checked when the run is opened, because the number of keys follows from it. Keys and values are
 * gathered when the site is opened. */
#include <stddef.h>

#include "base/try.h"
#include "runs/inputs.h"

/* Rows leave out their last members where these are zero. Without this line GCC would warn. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const attn_input rows[] = {
    {"", "block_table", ATTN_INPUT_INTEGERS, offsetof(attn_run_site, blocks.pages.table), 0, 0, 0,
     NULL, 0},
    {"", "block_layout", ATTN_INPUT_WORD, offsetof(attn_run_site, blocks.pages.layout), 0, 0, 0,
     attn_block_words, 0},
    {.name = NULL},
};

/* Reads key_lengths, a list of a number for each sequence. */
static attn_tensor read_lengths(attn_run_reader *r, attn_json *object) {
    const attn_json *list = attn_json_member(object, "key_lengths");
    const size_t B = r->site->in.query.dims[0];
    if (!list)
        attn_run_refuse(
            r, ATTN_EARG, "block_table",
            "expected key_lengths, too: how many keys the blocks of each sequence hold");
    return attn_tensor_dense(list ? attn_run_read_integers(r, list, "key_lengths", B, 0, INT64_MAX)
                                  : NULL,
                             ATTN_I64, 1, &B);
}

/* Adds the bytes of a site to those that the run gathers. */
static void count(attn_run_reader *r, size_t bytes) {
    const size_t most = attn_arena_limit(r->run->arena);
    if (!attn_size_add(r->run->gathered, bytes, &r->run->gathered) || r->run->gathered > most)
        attn_run_refuse(r, ATTN_ENOMEM, "block_table",
                        "the keys and values that the sites up to this one gather have more than "
                        "%zu bytes",
                        most);
}

void attn_run_read_blocks(attn_run_reader *r, attn_json *object) {
    attn_run_blocks *blocks = &r->site->blocks;
    attn_inputs *in = &r->site->in, shaped;
    attn_error inner = {0};
    size_t bytes = 0;
    attn_run_read_rows(r, object, "", rows, r->site);
    if (!blocks->pages.table.rank) {
        if (attn_json_member(object, "block_layout"))
            attn_run_refuse(r, ATTN_EARG, "block_layout",
                            "expected block_table, too: it is the order of axes in its blocks");
        return;
    }
    if (!r->status)
        blocks->pages.lengths = read_lengths(r, object);
    if (r->status)
        return;
    if (attn_pages_shape(in, &blocks->pages, &shaped, &bytes, &inner))
        attn_run_refuse_error(r, &inner);
    else
        count(r, bytes);
    if (r->status)
        return;
    blocks->pools[0] = in->key;
    blocks->pools[1] = in->value;
    blocks->words = attn_pages_words(in, &blocks->pages, r->run->arena);
    if (!blocks->words)
        r->status = attn_no_memory(r->err, "the stored run");
    *in = shaped;
}

attn_status attn_run_gather(attn_run_site *site, attn_error *err) {
    attn_inputs in = site->in;
    if (!site->blocks.pages.table.rank)
        return ATTN_OK;
    in.key = site->blocks.pools[0];
    in.value = site->blocks.pools[1];
    return attn_pages_gather(&in, &site->blocks.pages, NULL, NULL, site->run->arena, &site->in,
                             err);
}
