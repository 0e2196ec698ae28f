/* The heatmap object: its field table, and the options that follow from it. */
#include "api/heat_reply.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The library's default keeps one plane of cells under 1 MB as JSON (lib/analysis/heatmap.c):
 * 65,536 cells, less what the frames of many heatmaps take. Two planes of numbers get half of that.
 */
#define BOTH_CELLS 32768
#define BOTH_FRAME 64
#define BOTH_MAPS  512

static const char *const head_words[] = {"all", "mean", NULL};
static const char *const pools[] = {"max", "mean", "both", NULL};
static const char *const encodings[] = {"json", "u8", "f16", "f32", NULL};
static const char *const transforms[] = {"linear", "sqrt", "log", NULL};

const srv_field srv_heat_fields[] = {
    {.name = "heads",
     .kind = SRV_UNION,
     .offset = offsetof(srv_heat_input, heads),
     .accepts = SRV_U_STRING | SRV_U_INTS,
     .choices = head_words,
     .doc = "\"all\" (default), \"mean\" (one heatmap, the mean over the heads) or a list of head "
            "numbers."},
    {.name = "batch",
     .kind = SRV_INTS,
     .offset = offsetof(srv_heat_input, batch),
     .doc = "Which batch entries; default all."},
    {.name = "rows",
     .kind = SRV_INTS,
     .offset = offsetof(srv_heat_input, rows),
     .max = 2,
     .doc = "[from, to): which queries; default all."},
    {.name = "cols",
     .kind = SRV_INTS,
     .offset = offsetof(srv_heat_input, cols),
     .max = 2,
     .doc = "[from, to): which keys; default all."},
    {.name = "max_cells",
     .kind = SRV_INT,
     .offset = offsetof(srv_heat_input, max_cells),
     .min = 1,
     .max = 16777216,
     .doc =
         "Most cells of all heatmaps together; beyond it several weights are pooled into a cell. "
         "The default keeps the answer under 1 MB: 40,960 as JSON, 65,536 in the other "
         "encodings, half of that with pool \"both\"."},
    {.name = "pool",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_heat_input, pool),
     .choices = pools,
     .doc = "What a cell holds when it covers several weights: their max (default; of values with "
            "signs the largest magnitude), their mean, or both."},
    {.name = "encoding",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_heat_input, encoding),
     .choices = encodings,
     .doc = "Cells as nested JSON numbers (default), or as base64 of row-major u8, f16 or f32 "
            "(little-endian)."},
    {.name = "transform",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_heat_input, transform),
     .choices = transforms,
     .doc = "How u8 cells are quantised over `range` and values coloured in pictures: linear "
            "(default), sqrt, or log (ln(1 + 255 t) / ln 256)."},
    {.name = "top_k",
     .kind = SRV_INT,
     .offset = offsetof(srv_heat_input, top_k),
     .min = 1,
     .max = 1048576,
     .doc = "Also list the k largest weights of each row."},
    {.name = "top_p",
     .kind = SRV_REAL,
     .offset = offsetof(srv_heat_input, top_p),
     .min = 0,
     .max = 1,
     .doc = "Also list, for each row, the fewest keys whose weights sum to at least p."},
    {0},
};

void srv_heat_init(void *input) {
    *(srv_heat_input *)input = (srv_heat_input){.pool = ATTN_POOL_MAX, .encoding = SRV_CELLS_JSON};
}

/* 0 leaves the choice to the library. */
static size_t default_cells(const srv_heat_input *in, size_t batches, size_t heads) {
    size_t maps;
    if (in->pool != ATTN_POOL_BOTH || in->encoding != SRV_CELLS_JSON ||
        !attn_size_mul(batches, heads, &maps) || maps > BOTH_MAPS)
        return 0;
    return BOTH_CELLS - BOTH_FRAME * (maps > 0 ? maps - 1 : 0);
}

static bool lists(const srv_scope *scope, const srv_heat_input *in) {
    if (in->heads.is == SRV_U_INTS && in->heads.ints.count == 0)
        return srv_refuse(scope, SRV_VALUE, "heads",
                          "expected at least one head, found an empty list");
    if (srv_given(scope, "batch") && in->batch.count == 0)
        return srv_refuse(scope, SRV_VALUE, "batch",
                          "expected at least one batch entry, found an empty list");
    if (srv_given(scope, "transform") && in->transform != ATTN_LINEAR &&
        in->encoding != SRV_CELLS_U8 && !srv_draws(scope->req))
        return srv_refuse(
            scope, SRV_VALUE, "transform",
            "transform shapes u8 cells and pictures only: add \"encoding\": \"u8\", accept "
            "an image or leave it out");
    return true;
}

bool srv_heat_options(srv_request *req, const srv_heat_input *in, const attn_attention_dims *dims,
                      attn_heatmap_options *out) {
    size_t batches = dims->B, heads = dims->Hq;
    const srv_scope scope = {req, srv_heat_fields, in, "/heatmap"};
    attn_heatmap_options o = attn_heatmap_defaults();
    if (!lists(&scope, in) ||
        !srv_range(&scope, "rows", &in->rows, dims->L, &o.row_from, &o.row_to) ||
        !srv_range(&scope, "cols", &in->cols, dims->S, &o.col_from, &o.col_to))
        return false;
    if (in->heads.is == SRV_U_INTS) {
        o.heads = ATTN_HEADS_LIST;
        o.head_list = in->heads.ints.values;
        o.head_count = heads = in->heads.ints.count;
    } else if (in->heads.is == SRV_U_STRING) {
        o.heads = in->heads.choice == 1 ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
        heads = in->heads.choice == 1 ? 1 : heads;
    }
    if (in->batch.count > 0) {
        o.batch_list = in->batch.values;
        o.batch_count = batches = in->batch.count;
    }
    o.max_cells = in->max_cells > 0 ? (size_t)in->max_cells : default_cells(in, batches, heads);
    o.pool = (attn_pooling)in->pool;
    o.top_k = (size_t)in->top_k;
    o.top_p = in->top_p;
    *out = o;
    return true;
}

void srv_heat_problem(srv_request *req, const attn_error *err) {
    static const char *const own[] = {"heads",     "batch", "rows", "cols",
                                      "max_cells", "top_k", "top_p"};
    attn_error inside = *err;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        size_t n = strlen(own[i]);
        if (strncmp(err->where, own[i], n) == 0 && (err->where[n] == '\0' || err->where[n] == '/'))
            snprintf(inside.where, sizeof inside.where, "heatmap/%.80s", err->where);
    }
    srv_problem_error(req, &inside);
}
