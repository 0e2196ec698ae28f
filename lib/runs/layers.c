/* Lists the layers of a model in a run, and makes an attn_weight_source that has the weights of all
 * layers. A site is one attention operation of a run (attn/run.h). A site is one layer or, if its
 * first axis counts layers, several layers: one for each index of that axis. */
#include <attn/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cells.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "runs/private.h"

/* --- which layers there are --- */

static int by_number(const void *a, const void *b) {
    const attn_run_layer *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Checks that a layer has the shape of the first layer. */
static attn_status check_shape(const attn_run_layers *l, const attn_run_layer *layer,
                               size_t batches, attn_error *err) {
    const attn_attention_dims *d = layer->site->dims;
    if (batches == l->batches && d->L == l->rows && d->S == l->cols)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "site",
                     "layer %zu (\"%.48s\") has %zu batch entr%s, %zu quer%s and %zu key%s, and "
                     "layer %zu (\"%.48s\") %zu, %zu and %zu",
                     layer->number, layer->site->info.name, batches, attn_plural_y(batches), d->L,
                     attn_plural_y(d->L), d->S, attn_plural(d->S), l->items[0].number,
                     l->items[0].site->info.name, l->batches, l->rows, l->cols);
}

static attn_status check_order(const attn_run_layers *l, attn_error *err) {
    for (size_t i = 1; i < l->count; i++)
        if (l->items[i].number == l->items[i - 1].number)
            return attn_fail(err, ATTN_EARG, "site",
                             "\"%.48s\" and \"%.48s\" are both layer %zu: choose one of them",
                             l->items[i - 1].site->info.name, l->items[i].site->info.name,
                             l->items[i].number);
    return ATTN_OK;
}

/* Opens a site and adds its layers. */
static attn_status add_site(const attn_run *run, size_t index, attn_run_layers *l,
                            attn_error *err) {
    const attn_run_site *site;
    const size_t axis = attn_run_site_layers(run, index);
    const size_t batches = attn_run_site_entries(run, index);
    ATTN_TRY(attn_run_site_open(run, index, &site, err));
    if (l->count == 0) {
        l->batches = batches;
        l->rows = site->dims->L;
        l->cols = site->dims->S;
        l->heads = site->dims->Ho;
    }
    l->heads = l->heads == site->dims->Ho ? l->heads : 0;
    l->named = l->named || axis || l->count;
    for (size_t n = 0; n < (axis ? axis : 1); n++) {
        l->items[l->count] = (attn_run_layer){site, site->info.layer + n, n * batches};
        ATTN_TRY(check_shape(l, &l->items[l->count++], batches, err));
    }
    return ATTN_OK;
}

attn_status attn_run_layers_of(const attn_run *run, const size_t *sites, size_t count,
                               attn_arena *arena, attn_run_layers *out, attn_error *err) {
    attn_run_layers l = {0};
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (!attn_size_add(most, attn_run_site_layers(run, sites[i]) | 1, &most))
            return attn_fail(err, ATTN_ELIMIT, "", "too many layers to count");
    l.items = attn_arena_zeroed(arena, most + 1, sizeof *l.items);
    ATTN_TAKEN(l.items, "the layers", err);
    for (size_t i = 0; i < count; i++)
        ATTN_TRY(add_site(run, sites[i], &l, err));
    if (l.count > 1)
        qsort(l.items, l.count, sizeof *l.items, by_number);
    ATTN_TRY(check_order(&l, err));
    *out = l;
    return ATTN_OK;
}

/* --- their weights --- */

/* The memory of a thread that computes weights of any layer. `block` is large enough for each
 * layer. When the thread goes from one operation to another, `block` is divided into scratch memory
 * again. */
struct attn_run_lane {
    void *block;
    const attn_attention *op; /* the operation for which `scratch` is divided */
    attn_cells_scratch *scratch;
    double *wide; /* [cols] a row of float64 weights */
};

attn_run_lane *attn_run_lane_place(attn_area *area, const attn_run_layers *l) {
    attn_run_lane *at = attn_area_take(area, 1, sizeof *at), lane = {0};
    size_t most = 0;
    for (size_t i = 0; i < l->count; i++) {
        attn_area scratch = {0};
        attn_run_scratch_place(&scratch, l->items[i].site->dims);
        area->overflow = area->overflow || scratch.overflow;
        most = scratch.used > most ? scratch.used : most;
    }
    lane.block = attn_area_take(area, most, 1);
    lane.wide = attn_area_take(area, l->cols, sizeof *lane.wide);
    if (area->base)
        *at = lane;
    return at;
}

attn_cells_scratch *attn_run_lane_scratch(attn_run_lane *lane, const attn_run_site *site) {
    if (lane->op != site->op) {
        attn_area area = {.base = lane->block};
        lane->scratch = attn_cells_place(&area, &site->op->dims, site->op->kernels);
        lane->op = site->op;
    }
    return lane->scratch;
}

typedef struct stack {
    const attn_run_layers *layers;
    attn_run_lane **lanes;
    attn_padding *padding; /* [layers, batches] */
} stack;

/* Fetches rows of float64 weights one by one, rounded to float32. */
static attn_status fetch_wide(const attn_run_site *site, attn_run_lane *lane,
                              const attn_range *rows, float *weights, float *logits,
                              attn_error *err) {
    for (size_t r = 0; r < rows->rows; r++) {
        attn_range one = *rows;
        one.row += r;
        one.rows = 1;
        ATTN_TRY(attn_cells_with_logits(site->op, &site->stats, &one, lane->wide,
                                        logits + r * rows->cols, lane->scratch, err));
        attn_widen_f32(weights + r * rows->cols, lane->wide, ATTN_F64, 1, rows->cols);
    }
    return ATTN_OK;
}

/* Implements attn_weight_source.fetch. Batch entry l * batches + b of the source is entry b of
 * layer l. */
static attn_status fetch_layer(void *ctx, size_t lane_index, const attn_range *rows, float *weights,
                               float *logits, attn_error *err) {
    const stack *s = ctx;
    const attn_run_layer *layer = &s->layers->items[rows->batch / s->layers->batches];
    attn_run_lane *lane = s->lanes[lane_index];
    attn_range at = *rows;
    at.batch = layer->first + rows->batch % s->layers->batches;
    attn_cells_scratch *scratch = attn_run_lane_scratch(lane, layer->site);
    if (layer->site->dims->result == ATTN_F64)
        return fetch_wide(layer->site, lane, &at, weights, logits, err);
    return attn_cells_with_logits(layer->site->op, &layer->site->stats, &at, weights, logits,
                                  scratch, err);
}

static void place_layer_lane(const void *work, attn_area *area, void *to) {
    *(attn_run_lane **)to = attn_run_lane_place(area, ((const stack *)work)->layers);
}

static void place_padding(void *work, attn_area *area) {
    stack *s = work;
    s->padding =
        attn_area_take_3(area, s->layers->count, s->layers->batches, 1, sizeof *s->padding);
}

static const attn_sweep stack_memory = {
    .lane_size = sizeof(attn_run_lane *), .place_lane = place_layer_lane, .place = place_padding};

attn_status attn_run_layers_source(const attn_run_layers *layers, size_t lanes, attn_arena *arena,
                                   attn_weight_source *out, attn_error *err) {
    stack *s = attn_arena_small(arena, sizeof *s);
    const size_t batches = layers->count * layers->batches;
    bool pads = false, not_softmax = false, has_negative = false;
    if (s) {
        *s = (stack){.layers = layers};
        s->lanes = attn_sweep_open(&stack_memory, s, lanes, arena);
    }
    ATTN_TAKEN(s && s->lanes, "the layers", err);
    for (size_t b = 0; b < batches; b++) {
        const attn_run_layer *layer = &layers->items[b / layers->batches];
        const attn_padding *of = layer->site->padding;
        s->padding[b] = of ? of[layer->first + b % layers->batches] : (attn_padding){0};
        pads = pads || of;
        has_negative |= layer->site->dims->factors > 0;
        not_softmax |= layer->site->dims->normalizer || layer->site->dims->factors;
    }
    *out = (attn_weight_source){.batches = batches,
                                .heads = layers->heads,
                                .rows = layers->rows,
                                .cols = layers->cols,
                                .has_logits = true,
                                .not_softmax = not_softmax,
                                .has_negative = has_negative,
                                .fetch = fetch_layer,
                                .ctx = s,
                                .padding = pads ? s->padding : NULL};
    return ATTN_OK;
}
