/* Heatmaps -> the answer: cells as numbers or base64, what they mean beside them. */
#include <math.h>
#include <stdio.h>

#include "api/heat_input.h"

static const char *const pools[] = {"max", "mean", "both"};
static const char *const encodings[] = {"json", "u8", "f16", "f32"};
static const char *const transforms[] = {"linear", "sqrt", "log"};

static void write_pair(srv_json *j, const char *name, const size_t pair[2]) {
    srv_json_key(j, name);
    srv_json_array(j);
    srv_json_size(j, pair[0]);
    srv_json_size(j, pair[1]);
    srv_json_array_end(j);
}

static void write_range(srv_json *j, const char *name, const float value[2]) {
    srv_json_key(j, name);
    srv_json_floats(j, value, 2);
}

/* Little-endian, as the machines that this runs on are. */
static void write_packed(srv_json *j, const attn_heatmap *map, const float *cells,
                         const float value[2], const srv_heat_input *in) {
    const size_t n = map->shape[0] * map->shape[1];
    if (in->encoding == SRV_CELLS_F32) {
        srv_json_base64(j, cells, n * sizeof *cells);
        return;
    }
    size_t each = in->encoding == SRV_CELLS_F16 ? sizeof(uint16_t) : 1;
    void *packed = attn_arena_take(j->req->arena, n * each);
    if (!packed) {
        j->failed = true;
        return;
    }
    if (in->encoding == SRV_CELLS_F16)
        attn_narrow_f16(packed, cells, n);
    else
        attn_heatmap_quantise(packed, cells, n, value, (attn_transform)in->transform,
                              map->signed_values);
    srv_json_base64(j, packed, n * each);
}

static void write_cells(srv_json *j, const char *name, const attn_heatmap *map, float *cells,
                        const float value[2], const srv_heat_input *in) {
    if (!cells)
        return;
    srv_json_key(j, name);
    if (in->encoding != SRV_CELLS_JSON) {
        write_packed(j, map, cells, value, in);
        return;
    }
    attn_tensor grid = attn_tensor_dense(cells, ATTN_F32, 2, map->shape);
    srv_json_tensor(j, &grid);
}

static void write_hidden(srv_json *j, const attn_heatmap *map) {
    srv_json_key(j, "hidden");
    srv_json_array(j);
    for (size_t i = 0; i < map->hidden_count; i++) {
        srv_json_array(j);
        srv_json_size(j, map->hidden[i].row);
        srv_json_size(j, map->hidden[i].from);
        srv_json_size(j, map->hidden[i].to);
        srv_json_array_end(j);
    }
    srv_json_array_end(j);
}

static void write_edges(srv_json *j, const attn_heatmap *map) {
    srv_json_key(j, "top");
    srv_json_array(j);
    for (size_t i = 0; i < map->edge_count; i++) {
        srv_json_array(j);
        srv_json_size(j, map->edges[i].row);
        srv_json_size(j, map->edges[i].col);
        srv_json_float(j, map->edges[i].weight);
        srv_json_array_end(j);
    }
    srv_json_array_end(j);
}

static void write_map(srv_json *j, const attn_heatmap *map, size_t layer_batches,
                      const srv_heat_input *in) {
    srv_json_object(j);
    if (layer_batches > 0) {
        srv_json_key(j, "layer");
        srv_json_size(j, map->batch / layer_batches);
    }
    srv_json_key(j, "batch");
    srv_json_size(j, layer_batches > 0 ? map->batch % layer_batches : map->batch);
    srv_json_key(j, "head");
    if (map->head == SIZE_MAX)
        srv_json_string(j, "mean");
    else
        srv_json_size(j, map->head);
    write_pair(j, "shape", map->shape);
    write_pair(j, "origin", map->origin);
    write_pair(j, "step", map->step);
    write_range(j, "range", map->range);
    if (map->max && map->mean)
        write_range(j, "mean_range", map->mean_range);
    write_cells(j, "max", map, map->max, map->range, in);
    write_cells(j, "mean", map, map->mean, map->mean_range, in);
    write_hidden(j, map);
    srv_json_key(j, "row_entropy");
    srv_json_floats(j, map->row_entropy, map->shape[0]);
    srv_json_key(j, "received");
    srv_json_floats(j, map->received, map->shape[1]);
    if (in->top_k > 0 || in->top_p > 0)
        write_edges(j, map);
    srv_json_object_end(j);
}

void srv_heat_members(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                      const srv_labels *labels) {
    srv_json_key(j, "heads");
    srv_json_array(j);
    for (size_t i = 0; i < maps->count; i++)
        write_map(j, &maps->items[i], maps->layer_batches, in);
    srv_json_array_end(j);
    if (labels->given) {
        srv_json_key(j, "labels");
        srv_labels_write(j, labels);
    }
    srv_json_key(j, "pool");
    srv_json_string(j, pools[in->pool]);
    srv_json_key(j, "transform");
    srv_json_string(j, transforms[in->transform]);
    srv_json_key(j, "encoding");
    srv_json_string(j, encodings[in->encoding]);
}

void srv_heat_write(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                    const srv_labels *labels) {
    srv_json_object(j);
    srv_heat_members(j, maps, in, labels);
    srv_json_object_end(j);
}

void srv_heat_text(attn_text *t, const attn_heatmaps *maps, const srv_labels *labels,
                   const srv_strings *titles) {
    for (size_t i = 0; i < maps->count; i++) {
        const attn_heatmap *map = &maps->items[i];
        char head[32];
        snprintf(head, sizeof head, "%zu", map->head);
        const bool titled = titles && map->head < titles->count;
        attn_text_add(t, "heatmap, ");
        if (maps->layer_batches > 0)
            attn_text_add(t, "layer %zu, ", map->batch / maps->layer_batches);
        attn_text_add(t, "batch %zu, head %s:%s%s\n",
                      maps->layer_batches > 0 ? map->batch % maps->layer_batches : map->batch,
                      map->head == SIZE_MAX ? "mean" : head, titled ? " " : "",
                      titled ? titles->values[map->head] : "");
        attn_text_heatmap(t, map, labels->query.values, labels->query.count, labels->key.values,
                          labels->key.count, 0);
        attn_text_add(t, "\n");
    }
}
