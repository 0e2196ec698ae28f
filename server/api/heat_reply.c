/* Heatmaps -> a reply in the type that the client reads. */
#include "api/heat_reply.h"

#include <stdio.h>
#include <string.h>

#include "api/csv.h"
#include "load/admission.h"

#define LAYER_HEADS 16 /* heads of a layer that a row of panels holds */

bool srv_draws(const srv_request *req) {
    return (req->accept & SRV_DRAWN) != 0;
}

static void no_memory(srv_request *req) {
    attn_error err;
    attn_fail(&err, ATTN_ENOMEM, "", "the picture needs more memory than a request may use");
    srv_problem_error(req, &err);
}

void srv_figure_reply(srv_request *req, const srv_figure_input *figure, attn_text *svg) {
    const double scale = (double)figure->scale;
    const void *png;
    size_t size;
    attn_error err = {0};
    if (!(req->accept & SRV_ACCEPT_PNG)) {
        srv_reply_set(req, 200, "image/svg+xml", svg->data, svg->size);
        return;
    }
    if (attn_figure_png_cost(svg, scale, &size, &err)) {
        srv_figure_problem(req, &err);
        return;
    }
    if (!srv_admission_work(req, 0, (double)size))
        return;
    /* What librsvg has begun it ends, in up to some seconds. */
    if (attn_control_check(&req->control, &err))
        srv_problem_error(req, &err);
    else if (attn_figure_png(svg, scale, req->arena, &png, &size, &err))
        srv_figure_problem(req, &err);
    else
        srv_reply_set(req, 200, "image/png", png, size);
}

/* Where the panels of an answer differ. */
typedef struct differences {
    bool layers, batches, heads;
} differences;

/* What tells the panels apart: "batch 1", "layer 0, head 3"; or what the caller calls the head. */
static const char *title_of(srv_request *req, const srv_heat_answer *a, size_t i,
                            const differences *differ) {
    const attn_heatmap *map = &a->maps->items[i];
    const size_t apart = a->maps->layer_batches ? a->maps->layer_batches : SIZE_MAX;
    const bool called = map->head != SIZE_MAX && a->titles && map->head < a->titles->count;
    const bool head = differ->heads || called || !(differ->layers || differ->batches);
    attn_text t = {.arena = req->arena};
    if (differ->layers)
        attn_text_add(&t, "layer %zu%s", map->batch / apart, differ->batches || head ? ", " : "");
    if (differ->batches)
        attn_text_add(&t, "batch %zu%s", map->batch % apart, head ? ", " : "");
    if (called)
        attn_text_add(&t, "%s", a->titles->values[map->head]);
    else if (head && map->head == SIZE_MAX)
        attn_text_add(&t, "mean of the heads");
    else if (head)
        attn_text_add(&t, "head %zu", map->head);
    return t.failed ? NULL : t.data;
}

static differences compare(const attn_heatmaps *maps) {
    const attn_heatmap *first = maps->items;
    const size_t apart = maps->layer_batches ? maps->layer_batches : SIZE_MAX;
    differences d = {false, false, false};
    for (size_t i = 1; i < maps->count; i++) {
        const attn_heatmap *map = &maps->items[i];
        d.layers = d.layers || map->batch / apart != first->batch / apart;
        d.batches = d.batches || map->batch % apart != first->batch % apart;
        d.heads = d.heads || map->head != first->head;
    }
    return d;
}

static const char **titles_of(srv_request *req, const srv_heat_answer *a) {
    const char **titles = attn_arena_zeroed(req->arena, a->maps->count + 1, sizeof *titles);
    const differences differ = compare(a->maps);
    for (size_t i = 0; titles && i < a->maps->count; i++)
        titles[i] = title_of(req, a, i, &differ);
    return titles;
}

/* A row of the figure a layer, when its heads fit side by side. */
static size_t columns_of(const attn_heatmaps *maps) {
    size_t n = 1;
    while (n < maps->count && maps->items[n].batch == maps->items[0].batch)
        n++;
    return compare(maps).layers && n > 1 && n <= LAYER_HEADS ? n : 0;
}

static void reply_figure(srv_request *req, const srv_heat_answer *a) {
    const srv_labels *l = a->labels;
    const bool named = a->maps->count > 1 || (a->titles && a->titles->count > 0);
    attn_figure_heat data = {.maps = a->maps->items,
                             .count = a->maps->count,
                             .titles = named ? titles_of(req, a) : NULL,
                             .row_labels = l->query.values,
                             .row_count = l->query.count,
                             .col_labels = l->key.values,
                             .col_count = l->key.count};
    srv_figure_input figure = *a->figure;
    figure.x_label = figure.x_label ? figure.x_label : "key";
    figure.y_label = figure.y_label ? figure.y_label : "query";
    figure.value_label = figure.value_label ? figure.value_label : "weight";
    attn_figure_options options = srv_figure_options(&figure, a->in->transform);
    attn_text svg = {.arena = req->arena};
    attn_error err = {0};
    options.marks = a->marks;
    options.columns = options.columns ? options.columns : columns_of(a->maps);
    if (data.count > SRV_PANELS)
        srv_problem(req, SRV_VALUE, "/heatmap/heads",
                    "%zu heatmaps; a picture has at most %d panels: choose heads or batch entries",
                    data.count, SRV_PANELS);
    else if (named && !data.titles)
        no_memory(req);
    else if (attn_figure_heatmaps(&svg, &data, &options, &err))
        srv_figure_problem(req, &err);
    else
        srv_figure_reply(req, a->figure, &svg);
}

void srv_heat_npy(srv_request *req, const srv_heat_answer *a) {
    static const size_t none[2] = {0, 0};
    const size_t *grid = a->maps->count > 0 ? a->maps->items->shape : none;
    const size_t n = grid[0] * grid[1], shape[3] = {a->maps->count, grid[0], grid[1]};
    float *cells = attn_arena_zeroed(req->arena, a->maps->count * n, sizeof *cells);
    if (!cells) {
        no_memory(req);
        return;
    }
    for (size_t i = 0; i < a->maps->count; i++) {
        const attn_heatmap *map = &a->maps->items[i];
        memcpy(cells + i * n, map->max ? map->max : map->mean, n * sizeof *cells);
    }
    const int lead = a->maps->count == 1;
    const attn_tensor t = attn_tensor_dense(cells, ATTN_F32, 3 - lead, shape + lead);
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_json_key(&j, "heatmap");
    srv_json_tensor(&j, &t);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

void srv_heat_draw(srv_request *req, const srv_heat_answer *answer) {
    if (req->accept & SRV_ACCEPT_CSV)
        srv_heat_csv(req, answer);
    else
        reply_figure(req, answer);
}

static void reply_text(srv_request *req, const srv_heat_answer *a) {
    const srv_figure_input *f = a->figure;
    attn_text t = srv_plain_begin(req);
    if (f->title)
        attn_text_add(&t, "%s\n\n", f->title);
    srv_heat_text(&t, a->maps, a->labels, a->titles);
    if (f->y_label || f->x_label)
        attn_text_add(&t, "rows: %s, columns: %s\n", f->y_label ? f->y_label : "queries",
                      f->x_label ? f->x_label : "keys");
    if (a->warnings)
        srv_warnings_text(&t, a->warnings);
    srv_plain_end(req, &t);
}

static void reply_json(srv_request *req, const srv_heat_answer *a) {
    srv_json j;
    srv_json_begin(&j, req);
    j.decimals = a->decimals;
    srv_json_object(&j);
    srv_heat_members(&j, a->maps, a->in, a->labels);
    if (a->warnings)
        srv_warnings_write(&j, a->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

void srv_heat_reply(srv_request *req, const srv_heat_answer *answer) {
    if (srv_draws(req))
        srv_heat_draw(req, answer);
    else if (req->accept & SRV_ACCEPT_NPY)
        srv_heat_npy(req, answer);
    else if (srv_plain(req))
        reply_text(req, answer);
    else
        reply_json(req, answer);
}
