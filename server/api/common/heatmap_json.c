/* Heatmaps as JSON: the rows of their members. */
#include <stddef.h>

#include "api/common/dry.h"
#include "api/common/heatmap_object.h"

const char *const srv_heat_subjects[] = {"weights", "value_norm", NULL};
const char *const srv_encodings[] = {"json", "u8", "f16", "f32", NULL};
const char *const srv_pools[] = {"max", "mean", "both", NULL};
const char *const srv_transforms[] = {"linear", "sqrt", "log", NULL};

const char *srv_heat_title(const srv_strings *titles, const attn_heatmap *map) {
    return titles && map->head < titles->count ? titles->values[map->head] : NULL;
}

void srv_heat_pair(attn_json_text *j, const void *pair) {
    const size_t *sizes = pair;
    attn_json_array(j);
    attn_json_size(j, sizes[0]);
    attn_json_size(j, sizes[1]);
    attn_json_array_end(j);
}

static void put_range(attn_json_text *j, const void *range) {
    srv_json_floats(j, range, 2);
}

/* Writes cells as a base64 text of little-endian numbers. The bytes are copied in memory order,
 * because this program supports only little-endian machines. */
static void put_packed(attn_json_text *j, const attn_heatmap *map, const float *cells,
                       const float value[2], const srv_heat_input *in) {
    const size_t n = map->shape[0] * map->shape[1];
    if (in->encoding == SRV_CELLS_F32) {
        attn_json_base64(j, cells, n * sizeof *cells);
        return;
    }
    size_t each = in->encoding == SRV_CELLS_F16 ? sizeof(uint16_t) : 1;
    void *packed = attn_arena_take(j->arena, n * each);
    if (!packed) {
        j->failed = true;
        return;
    }
    if (in->encoding == SRV_CELLS_F16)
        attn_narrow_f16(packed, cells, n);
    else
        attn_heatmap_quantise(packed, cells, n, value, (attn_transform)in->transform,
                              map->signed_values);
    attn_json_base64(j, packed, n * each);
}

/* A heatmap and the data that its members in the answer need. */
typedef struct head_map {
    attn_heatmap map;
    srv_heat_place place;
    const char *title; /* NULL: none */
    const srv_heat_input *in;
    bool has_mean_range, has_top;
} head_map;

static void put_cells(attn_json_text *j, const head_map *head, float *cells, const float range[2]) {
    const attn_tensor grid = attn_tensor_dense(cells, ATTN_F32, 2, head->map.shape);
    if (cells && head->in->encoding == SRV_CELLS_JSON)
        srv_json_tensor(j, &grid);
    else if (cells)
        put_packed(j, &head->map, cells, range, head->in);
}

static void put_max(attn_json_text *j, const void *place) {
    const head_map *head = place;
    put_cells(j, head, head->map.max, head->map.range);
}

static void put_mean(attn_json_text *j, const void *place) {
    const head_map *head = place;
    put_cells(j, head, head->map.mean, head->map.mean_range);
}

static void put_hidden(attn_json_text *j, const void *place) {
    const attn_heatmap *map = place;
    attn_json_array(j);
    for (size_t i = 0; i < map->hidden_count; i++) {
        attn_json_array(j);
        attn_json_size(j, map->hidden[i].row);
        attn_json_size(j, map->hidden[i].from);
        attn_json_size(j, map->hidden[i].to);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

static void put_row_entropy(attn_json_text *j, const void *place) {
    const attn_heatmap *map = place;
    srv_json_floats(j, map->row_entropy, map->shape[0]);
}

static void put_received(attn_json_text *j, const void *place) {
    const attn_heatmap *map = place;
    srv_json_floats(j, map->received, map->shape[1]);
}

static void put_edges(attn_json_text *j, const attn_heatmap *map) {
    attn_json_array(j);
    for (size_t i = 0; i < map->edge_count; i++) {
        attn_json_array(j);
        attn_json_size(j, map->edges[i].row);
        attn_json_size(j, map->edges[i].col);
        attn_json_float(j, map->edges[i].weight);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

static void put_top(attn_json_text *j, const void *place) {
    const head_map *head = place;
    if (head->has_top)
        put_edges(j, &head->map);
}

static void put_head(attn_json_text *j, const void *place) {
    const size_t head = *(const size_t *)place;
    if (head == SIZE_MAX)
        attn_json_string(j, "mean");
    else
        attn_json_size(j, head);
}

srv_heat_place srv_heat_place_of(const attn_heatmap *map, size_t layer_batches) {
    return layer_batches == 0 ? (srv_heat_place){-1, map->batch, map->head}
                              : (srv_heat_place){(int64_t)(map->batch / layer_batches),
                                                 map->batch % layer_batches, map->head};
}

static const char *const mean_word[] = {"mean", NULL};
const srv_field srv_heat_place_rows[] = {
    SRV_IF_KNOWN("layer", SRV_INT, srv_heat_place, layer,
                 "The layer, of weights with an axis of layers."),
    SRV_ALWAYS("batch", SRV_INT, srv_heat_place, batch, "The batch entry."),
    SRV_WRITTEN_AT("head", "integer+|string", put_head, srv_heat_place, head,
                   "The head, or the mean of the heads.", .choices = mean_word, .always = true),
    {0},
};

#define PLANE "[[number?]]|string"

static const srv_field head_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, head_map, place, NULL, .fields = srv_heat_place_rows),
    SRV_IF_KNOWN("title", SRV_STRING, head_map, title,
                 "The title of the head that titles of POST /v1/heatmaps gives."),
    SRV_WRITTEN_AT("shape", "[integer 2]", srv_heat_pair, head_map, map.shape,
                   "Rows and columns of cells.", .always = true),
    SRV_WRITTEN_AT("origin", "[integer 2]", srv_heat_pair, head_map, map.origin,
                   "The first row and the first key.", .always = true),
    SRV_WRITTEN_AT("step", "[integer 2]", srv_heat_pair, head_map, map.step,
                   "The rows and the keys of a cell: cell (r, c) begins at row origin[0] + r * "
                   "step[0].",
                   .always = true),
    SRV_WRITTEN_AT("range", "[number?]", put_range, head_map, map.range,
                   "The smallest and the largest cell; of differences [-m, m], and a u8 cell of 0 "
                   "is the byte 128.",
                   .always = true),
    SRV_WRITTEN_AT("mean_range", "[number?]", put_range, head_map, map.mean_range,
                   "The range of mean, beside a max plane.",
                   .when = offsetof(head_map, has_mean_range)),
    SRV_WRITTEN("max", PLANE, put_max, "Nested numbers [R][C], or base64 of row-major cells."),
    SRV_WRITTEN("mean", PLANE, put_mean, "Nested numbers [R][C], or base64 of row-major cells."),
    SRV_WRITTEN_AT("hidden", "[[integer+ 3]]", put_hidden, head_map, map,
                   "Runs [row, from, to) of cells without a visible weight. A visible weight of "
                   "zero is not hidden.",
                   .always = true),
    SRV_WRITTEN_AT("row_entropy", "[number?]", put_row_entropy, head_map, map,
                   "The entropy of each row, in nats.", .always = true),
    SRV_WRITTEN_AT("received", "[number?]", put_received, head_map, map,
                   "The mass that the keys of a column receive from the rows.", .always = true),
    SRV_WRITTEN("top", "[[number 3]]", put_top,
                "The strongest keys of each row, [row, col, weight] each."),
    {0},
};

static void put_heads(attn_json_text *j, const void *place) {
    const srv_heat_answer *a = place;
    attn_json_array(j);
    for (size_t i = 0; i < a->maps->count; i++) {
        const attn_heatmap *map = &a->maps->items[i];
        srv_answer_object(j, head_rows,
                          &(head_map){.map = *map,
                                      .place = srv_heat_place_of(map, a->maps->layer_batches),
                                      .title = srv_heat_title(a->titles, map),
                                      .in = a->in,
                                      .has_mean_range = map->max && map->mean,
                                      .has_top = a->in->top_k > 0 || a->in->top_p > 0});
    }
    attn_json_array_end(j);
}

static const srv_field input_rows[] = {
    SRV_ALWAYS("pool", SRV_ENUM, srv_heat_input, pool, "The value of a cell of several weights.",
               .choices = srv_pools),
    SRV_ALWAYS("transform", SRV_ENUM, srv_heat_input, transform, "How u8 cells are quantised.",
               .choices = srv_transforms),
    SRV_ALWAYS("encoding", SRV_ENUM, srv_heat_input, encoding, "How cells are written.",
               .choices = srv_encodings),
    SRV_IF_KNOWN("of", SRV_ENUM, srv_heat_input, of,
                 "The cells are norms of weight times value; without this member they are weights.",
                 .choices = srv_heat_subjects + SRV_OF_VALUE_NORM, .first = SRV_OF_VALUE_NORM),
    {0},
};

static const srv_field heat_rows[] = {
    SRV_WRITTEN("heads", "[HeatmapOfHead]", put_heads, "A heatmap for each head.", .always = true),
    SRV_LABELS_MEMBER(srv_heat_answer, labels, .accepts = SRV_O_POINTER),
    SRV_ALWAYS("", SRV_OBJECT, srv_heat_answer, in, NULL, .fields = input_rows,
               .accepts = SRV_O_POINTER),
    {0},
};

/* The rows of an answer that consists of heatmaps alone. */
static const srv_field answer_rows[] = {
    SRV_GROUP("", heat_rows, NULL),
    SRV_WARNINGS_MEMBER(srv_heat_answer, warnings, .accepts = SRV_O_POINTER),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_heat_answers[] = {
    SRV_GROUP("HeatmapOfHead", head_rows,
              "Cell (r, c) covers rows origin[0] + r * step[0] and keys origin[1] + c * step[1] "
              "onwards; hidden lists runs [row, from, to) of cells without a visible weight; top "
              "lists [row, col, weight]."),
    SRV_GROUP("Heatmap", heat_rows, NULL),
    SRV_GROUP("Heatmaps", answer_rows, NULL),
    {0},
};

void srv_heat_put(attn_json_text *j, const attn_heatmaps *maps, const srv_heat_input *in,
                  const srv_labels *labels) {
    srv_answer_object(j, heat_rows, &(srv_heat_answer){.maps = maps, .in = in, .labels = labels});
}

void srv_heat_write(attn_json_text *j, const char *name, const attn_heatmaps *maps,
                    const srv_heat_input *in, const srv_labels *labels) {
    attn_json_key(j, name);
    srv_heat_put(j, maps, in, labels);
}

void srv_heat_json(srv_request *req, const srv_heat_answer *a) {
    attn_json_text j = srv_json_object(req);
    j.decimals = a->decimals;
    srv_answer_members(&j, answer_rows, a);
    srv_json_object_end(&j);
}
