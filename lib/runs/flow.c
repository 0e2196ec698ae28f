/* Attention flow of some rows through the layers of a run (Abnar and Zuidema 2020, section 3.2).
 * Tokens of layers are the nodes of a graph, and the weight from token i of a layer to token j of
 * the layer below is the capacity of the edge between these tokens. The result is the maximum flow
 * from a token of the top level to a token of the bottom level, for each pair separately
 * (max_flow.c).
 *
 * First the capacities of all layers are computed, in blocks of rows, for the tokens that the asked
 * rows reach. Then each pair is a piece of work. A flow changes a copy of the capacities. If the
 * copies of all threads would need more than COPY_BYTES, only as many threads work at a time as
 * have copies. */
#include <stdatomic.h>
#include <string.h>

#include "analysis/sums.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "runs/max_flow.h"
#include "runs/private.h"

enum {
    BLOCK_ROWS = 64,        /* rows of a block, as in lazy statistics (stats.c) */
    COPY_BYTES = 256 << 20, /* limit of the bytes of all copies, unless there is only one */
};

/* Measured: a pair takes about this number of operations for each token of a level and each edge.
 * The time of a request is predicted from it until the service has measured the route. */
#define PAIR_OPERATIONS 40.0

/* The memory of one thread that computes capacities. */
typedef struct lane {
    attn_run_lane *any; /* scratch memory for weights of any layer */
    void *cells;        /* [BLOCK_ROWS, tokens] weights of one head, of the widest type */
    double *layer;      /* [BLOCK_ROWS, tokens] rows of a layer */
} lane;

typedef struct flow_work {
    const attn_run_rollout *r;
    const size_t *rows; /* [count] the asked rows: tokens on top */
    size_t count;
    size_t base; /* first token that the rows reach; it is token 0 of the graph */
    attn_flow_graph graph;
    lane *lanes;            /* [slots] */
    attn_flow_lane **flows; /* [copies] */
    size_t slots;           /* number of threads */
    size_t copies;          /* number of copies of the capacities, at most one for each thread */
    double *out;            /* [count, S] */
    attn_pool *pool;
    const attn_control *control;
    atomic_size_t done; /* number of pairs that have been computed */
} flow_work;

/* --- the shape of the graph --- */

/* Goes through the layers from the top. Sets graph.edges to the number of edges, and graph.rows to
 * the edges of each token, unless graph.rows is NULL. Adds cells and operations of the weights to
 * *cost. Sets [*from, *to) to the tokens that the asked rows reach; stops early if there are more
 * than ATTN_RUN_FLOW_TOKENS of them. */
static void trace_graph(flow_work *w, size_t *from, size_t *to, attn_cost *cost) {
    const attn_run_layers *l = w->r->layers;
    attn_flow_graph *g = &w->graph;
    *from = SIZE_MAX, *to = 0;
    for (size_t i = 0; i < w->count; i++) {
        *from = w->rows[i] < *from ? w->rows[i] : *from;
        *to = w->rows[i] + 1 > *to ? w->rows[i] + 1 : *to;
    }
    g->edges = 0;
    for (size_t n = l->count; n-- > 0 && *to - *from <= ATTN_RUN_FLOW_TOKENS;) {
        const attn_attention_dims *d = l->items[n].site->dims;
        const double heads = (double)(w->r->heads.list ? w->r->heads.count : d->Ho);
        size_t first = *from, last = *to, lo, hi;
        for (size_t i = *from; i < *to; i++) {
            attn_run_step_keys(w->r, &l->items[n], i, 1, &lo, &hi);
            if (g->rows)
                g->rows[n * g->tokens + i - w->base] =
                    (attn_flow_row){lo - w->base, hi - w->base, g->edges};
            g->edges += hi - lo;
            first = lo < first ? lo : first;
            last = hi > last ? hi : last;
        }
        const double cells = heads * (double)(*to - *from) * (double)(last - first);
        cost->cells += cells;
        cost->operations += cells * 2 * (double)d->score_width;
        *from = first;
        *to = last;
    }
}

/* Computes the size of the graph and the cost. The graph has no rows yet. */
static attn_status measure_graph(flow_work *w, attn_cost *cost, attn_error *err) {
    attn_flow_graph *g = &w->graph;
    size_t from, to, nodes;
    *g = (attn_flow_graph){.layers = w->r->layers->count};
    *cost = (attn_cost){0};
    trace_graph(w, &from, &to, cost);
    w->base = from;
    g->tokens = to - from;
    if (g->tokens > ATTN_RUN_FLOW_TOKENS)
        return attn_fail_limit(
            err, "rows", ATTN_RUN_FLOW_TOKENS,
            "flow goes through at most %d tokens (ATTN_RUN_FLOW_TOKENS), and %zu or more "
            "lie between the first and the last that these rows reach: ask for "
            "earlier rows, if they see no later keys, or for fewer layers",
            ATTN_RUN_FLOW_TOKENS, g->tokens);
    if (!attn_size_mul(g->layers + 1, g->tokens, &nodes) || nodes > ATTN_FLOW_NODES)
        return attn_fail(err, ATTN_ELIMIT, "rows", "more tokens in all layers than can be counted");
    cost->operations += PAIR_OPERATIONS * (double)w->count * (double)g->tokens * (double)g->edges;
    return ATTN_OK;
}

static void place_flow_lane(const void *work, attn_area *area, void *to) {
    const flow_work *w = work;
    lane *l = to;
    l->any = attn_run_lane_place(area, w->r->layers);
    l->cells = attn_area_take_3(area, BLOCK_ROWS, w->graph.tokens, 1, sizeof(double));
    l->layer = attn_area_take_3(area, BLOCK_ROWS, w->graph.tokens, 1, sizeof *l->layer);
}

static void place_flow(void *work, attn_area *area) {
    flow_work *w = work;
    attn_flow_graph *g = &w->graph;
    attn_area copy = {0};
    attn_flow_lane_place(g, &copy);
    w->copies = attn_within(COPY_BYTES / (copy.used | 1), 1, w->slots);
    attn_flow_row *rows = attn_area_take_3(area, g->layers, g->tokens, 1, sizeof *rows);
    double *capacity = attn_area_take(area, g->edges, sizeof *capacity);
    w->flows = attn_area_take(area, w->copies, sizeof *w->flows);
    for (size_t c = 0; c < w->copies; c++) {
        attn_flow_lane *flow = attn_flow_lane_place(g, area);
        if (area->base)
            w->flows[c] = flow;
    }
    if (area->base) {
        g->rows = rows;
        g->capacity = capacity;
    }
}

/* --- capacities --- */

static size_t blocks_of(const flow_work *w) {
    return (w->base + w->graph.tokens - 1) / BLOCK_ROWS - w->base / BLOCK_ROWS + 1;
}

/* Computes the capacities of the edges from a block of tokens of a layer. */
static attn_status compute_capacities(void *work, size_t index, size_t slot, attn_error *err) {
    flow_work *w = work;
    const lane *own = &w->lanes[slot];
    const size_t n = index / blocks_of(w), b = w->base / BLOCK_ROWS + index % blocks_of(w);
    const attn_run_layer *layer = &w->r->layers->items[n];
    const attn_flow_row *rows = w->graph.rows + n * w->graph.tokens;
    size_t from = b * BLOCK_ROWS, to = from + BLOCK_ROWS, lo, hi;
    from = from > w->base ? from : w->base;
    to = to < w->base + w->graph.tokens ? to : w->base + w->graph.tokens;
    while (from < to && rows[from - w->base].hi == 0) /* skip tokens that are not reached */
        from++;
    while (to > from && rows[to - 1 - w->base].hi == 0)
        to--;
    if (from == to)
        return ATTN_OK;
    attn_run_step_keys(w->r, layer, from, to - from, &lo, &hi);
    const attn_range at = {.row = from, .rows = to - from, .col = lo, .cols = hi - lo};
    ATTN_TRY(attn_run_step_rows(w->r, layer, &at, own->any, own->cells, own->layer, err));
    for (size_t i = 0; i < at.rows; i++) {
        const attn_flow_row *row = &rows[from + i - w->base];
        memcpy(w->graph.capacity + row->first, own->layer + i * at.cols + row->lo + w->base - lo,
               (row->hi - row->lo) * sizeof *w->graph.capacity);
    }
    return ATTN_OK;
}

/* --- flows --- */

/* Computes the flow from asked row number index / tokens to token index % tokens at the bottom. */
static attn_status compute_pair(void *work, size_t index, size_t slot, attn_error *err) {
    flow_work *w = work;
    const size_t tokens = w->graph.tokens, row = index / tokens, sink = index % tokens;
    attn_flow_lane *copy = w->flows[w->copies < w->slots ? index % w->copies : slot];
    ATTN_TRY(attn_flow_compute(&w->graph, copy, w->rows[row] - w->base, sink, w->pool, w->control,
                               &w->out[row * w->r->layers->cols + w->base + sink], err));
    attn_control_tell(w->control, atomic_fetch_add(&w->done, 1) + 1, w->count * tokens);
    return ATTN_OK;
}

static const attn_sweep capacity_sweep = {sizeof(lane), place_flow_lane, place_flow,
                                          compute_capacities, NULL};
static const attn_sweep pair_sweep = {.piece = compute_pair};

static attn_status compute_flows(flow_work *w, attn_error *err) {
    const size_t wave = w->copies < w->slots ? w->copies : 0;
    ATTN_TRY(attn_sweep_run(&capacity_sweep, w, w->graph.layers * blocks_of(w), 0, w->pool,
                            w->control, err));
    return attn_sweep_run(&pair_sweep, w, w->count * w->graph.tokens, wave, w->pool, w->control,
                          err);
}

attn_status attn_run_flow_cost(const attn_run_rollout *r, const size_t *rows, size_t count,
                               size_t slots, attn_cost *out, attn_error *err) {
    flow_work w = {.r = r, .rows = rows, .count = count, .slots = slots};
    ATTN_TRY(measure_graph(&w, out, err));
    const attn_area counted = attn_sweep_count(&capacity_sweep, &w, slots);
    if (counted.overflow)
        return attn_fail(err, ATTN_ELIMIT, "rows", "more bytes than can be counted");
    out->work_bytes = counted.used;
    out->result_bytes = count * r->layers->cols * sizeof(double);
    return ATTN_OK;
}

attn_status attn_run_flow_rows(const attn_run_rollout *r, const size_t *rows, size_t count,
                               attn_pool *pool, const attn_control *control, attn_arena *arena,
                               double *out, attn_error *err) {
    flow_work w = {.r = r,
                   .rows = rows,
                   .count = count,
                   .slots = attn_pool_slots(pool),
                   .out = out,
                   .pool = pool,
                   .control = control};
    attn_cost cost;
    size_t from, to;
    ATTN_TRY(measure_graph(&w, &cost, err));
    w.lanes = attn_sweep_open(&capacity_sweep, &w, w.slots, arena);
    ATTN_TAKEN(w.lanes, "the capacities of a flow", err);
    memset(w.graph.rows, 0, w.graph.layers * w.graph.tokens * sizeof *w.graph.rows);
    memset(out, 0, count * r->layers->cols * sizeof *out);
    trace_graph(&w, &from, &to, &cost);
    return compute_flows(&w, err);
}
