/* Any bytes as a stored run: opening it, its sites and parts of them may neither crash nor look
 * outside of the image nor take more memory than the arenas have. An input that begins with '{' is
 * the text of a run (lib/runs/FORMAT.md) whose tensors are the ones below; any other is an image. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <attn/attn.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SITES = 4, ARENA = 8 << 20 };
#define MOST_OPERATIONS 2e6

/* The tensors of a text; their elements are small numbers, visible and hidden cells. */
static const struct {
    const char *name;
    attn_dtype dtype;
    int rank;
    size_t dims[5];
} tensors[] = {{"sites.0.query", ATTN_F32, 4, {2, 4, 3, 2}},
               {"sites.0.key", ATTN_F32, 4, {2, 2, 5, 2}},
               {"v", ATTN_F16, 4, {2, 2, 5, 3}},
               {"d", ATTN_F64, 4, {2, 4, 3, 2}},
               {"m", ATTN_BOOL, 4, {2, 1, 3, 5}},
               {"a", ATTN_F32, 2, {3, 5}},
               {"h", ATTN_F32, 1, {4}},
               {"t", ATTN_F32, 2, {4, 3}},
               {"u", ATTN_BF16, 2, {3, 2}},
               {"w", ATTN_F32, 2, {2, 2}},
               {"o", ATTN_F32, 1, {2}},
               {"c", ATTN_F32, 2, {2, 4}},
               {"l", ATTN_F32, 5, {2, 1, 2, 3, 2}},
               {"e", ATTN_F32, 4, {2, 4, 0, 2}},
               {"s", ATTN_F32, 2, {8, 4}},
               {"p", ATTN_BOOL, 2, {2, 5}},
               {"i", ATTN_I64, 2, {2, 5}},
               {"n", ATTN_I64, 1, {2}},
               {"f", ATTN_F32, 4, {4, 2, 2, 2}}, /* a pool of blocks, whose table is i */
               {"b", ATTN_U8, 4, {2, 1, 3, 1}},
               {"sites.0.stats.max", ATTN_F64, 3, {2, 4, 3}},
               {"sites.0.stats.sum", ATTN_F64, 3, {2, 4, 3}},
               {"sites.0.stats.kind", ATTN_U8, 3, {2, 4, 3}}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static void fill(attn_dtype dtype, size_t index, void *to) {
    const float one = 0.25f * (float)(index % 7) - 0.5f;
    const double two = (double)one;
    uint32_t bits;
    memcpy(&bits, &one, sizeof bits);
    const uint16_t upper = (uint16_t)(bits >> 16), half = (uint16_t)(0x3800 + index % 5 * 64);
    const uint8_t shown = index % 3 != 1;
    const int64_t integer = (int64_t)(index % 4);
    const void *from = dtype == ATTN_F32    ? (const void *)&one
                       : dtype == ATTN_F64  ? (const void *)&two
                       : dtype == ATTN_BF16 ? (const void *)&upper
                       : dtype == ATTN_F16  ? (const void *)&half
                       : dtype == ATTN_I64  ? (const void *)&integer
                                            : (const void *)&shown;
    memcpy(to, from, attn_dtype_size(dtype));
}

/* Makes the image of a text in a block of its own; NULL: it cannot be one. */
static void *image_of_text(const char *text, attn_arena *arena, size_t *size) {
    attn_named_tensor named[TENSORS];
    const attn_metadata run = {"run", text};
    attn_safetensors file = {.tensors = named,
                             .count = TENSORS,
                             .metadata = (attn_metadata *)(uintptr_t)&run,
                             .metadata_count = 1};
    const void *header;
    size_t lead, count;
    for (size_t i = 0; i < TENSORS; i++)
        named[i] = (attn_named_tensor){
            tensors[i].name,
            attn_tensor_dense(NULL, tensors[i].dtype, tensors[i].rank, tensors[i].dims)};
    if (attn_safetensors_header(&file, arena, &header, &lead, NULL))
        return NULL; /* not UTF-8 */
    *size = lead;
    for (size_t i = 0; i < TENSORS && attn_tensor_count(&named[i].tensor, &count); i++)
        *size += count * attn_dtype_size(named[i].tensor.dtype);
    char *image = aligned_alloc(ATTN_ALIGN, attn_align_up(*size)), *p = image + lead;
    memcpy(image, header, lead);
    for (size_t i = 0; i < TENSORS && attn_tensor_count(&named[i].tensor, &count); i++)
        for (size_t k = 0; k < count; k++, p += attn_dtype_size(named[i].tensor.dtype))
            fill(named[i].tensor.dtype, k, p);
    return image;
}

/* --- what is looked at --- */

static void check_error(attn_status status, const attn_error *err) {
    if (status && (!err->text[0] || !memchr(err->text, 0, sizeof err->text) ||
                   !memchr(err->where, 0, sizeof err->where))) {
        fprintf(stderr, "status %d without a text\n", (int)status);
        abort();
    }
}

static void look_at_tile(const attn_run_site *site, size_t level) {
    const attn_attention_dims *d = attn_run_dims(site);
    const attn_run_place at = {d->B - 1, d->Hq - 1, level, 0, 0};
    attn_arena *arena = attn_arena_new(ARENA);
    attn_error err = {0};
    attn_run_tile tile;
    attn_cost cost;
    attn_status status = attn_run_tile_cost(site, &at, 1, &cost, &err);
    check_error(status, &err);
    if (!status && cost.operations + cost.cells < MOST_OPERATIONS) {
        status = attn_run_tile_make(site, &at, NULL, NULL, arena, &tile, &err);
        check_error(status, &err);
        for (size_t i = 0; !status && i < tile.shape[0] * tile.shape[1]; i++)
            if (tile.max[i] > 1.0001f || tile.max[i] < tile.mean[i] - 0.0001f)
                abort();
    }
    attn_arena_free(arena);
}

static void look_at_cell(const attn_run_site *site) {
    const attn_attention_dims *d = attn_run_dims(site);
    attn_arena *arena = attn_arena_new(ARENA);
    attn_error err = {0};
    attn_run_cell cell;
    attn_status status =
        attn_run_explain(site, d->B - 1, d->Hq - 1, d->L - 1, d->S - 1, arena, &cell, &err);
    check_error(status, &err);
    if (!status && (cell.weight < 0 || cell.weight > 1.0001 || cell.rank > cell.of))
        abort();
    attn_arena_free(arena);
}

static void look_at_labels(const attn_run_site *site) {
    const attn_attention_dims *d = attn_run_dims(site);
    volatile size_t sum = 0;
    for (size_t b = 0; b < attn_run_label_entries(site); b++) {
        const char *const *query = attn_run_query_labels(site, b);
        const char *const *key = attn_run_key_labels(site, b);
        for (size_t i = 0; query && i < d->L; i++)
            sum += strlen(query[i]);
        for (size_t i = 0; key && i < d->S; i++)
            sum += strlen(key[i]);
    }
    if (!attn_run_words(site))
        abort();
}

static void look_at_site(const attn_run *run, size_t index) {
    const attn_attention_dims *shape = attn_run_site_shape(run, index);
    const attn_run_site_info *info = attn_run_site_info_of(run, index);
    const attn_run_site *site;
    attn_error err = {0};
    if (!info->name || !*info->name || info->kind >= ATTN_RUN_KINDS)
        abort();
    attn_status status = attn_run_site_open(run, index, &site, &err);
    check_error(status, &err);
    if (status)
        return;
    const attn_attention_dims *d = attn_run_dims(site);
    if (d->B != shape->B || d->Hq != shape->Hq || d->L != shape->L || d->S != shape->S)
        abort();
    look_at_labels(site);
    if (!d->B || !d->Hq || !d->L || !d->S || (double)d->S * (double)d->E > MOST_OPERATIONS)
        return;
    look_at_cell(site);
    look_at_tile(site, 0);
    look_at_tile(site, attn_run_levels(site) - 1);
}

static void look(const void *image, size_t size) {
    attn_arena *arena = attn_arena_new(ARENA);
    attn_error err = {0};
    attn_run *run;
    attn_status status = attn_run_open(image, size, NULL, arena, &run, &err);
    check_error(status, &err);
    for (size_t i = 0; !status && i < attn_run_site_count(run) && i < SITES; i++)
        look_at_site(run, i);
    attn_arena_free(arena);
}

/* The block ends where the image ends, so that reading past it is seen. */
static void *copy_of(const uint8_t *data, size_t size) {
    void *copy = NULL;
    if (posix_memalign(&copy, ATTN_ALIGN, size ? size : 1))
        abort();
    memcpy(copy, data, size);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    attn_arena *arena = attn_arena_new(ARENA);
    void *image;
    if (size > 1 && data[0] == '{' && data[1]) {
        char *text = malloc(size + 1);
        memcpy(text, data, size);
        text[size] = 0;
        image = image_of_text(text, arena, &size);
        free(text);
    } else {
        image = copy_of(data, size);
    }
    if (image)
        look(image, size);
    free(image);
    attn_arena_free(arena);
    return 0;
}
