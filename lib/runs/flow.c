/* Attention flow of some rows through the layers of a run (Abnar and Zuidema 2020, section 3.2).
 * Tokens of layers are the nodes of a graph, and the weight from token i of a layer to token j of
 * the layer below is the capacity of that edge. A number is the maximum flow from a token on top to
 * a token at the bottom, computed for each pair by itself (max_flow.c).
 *
 * The capacities of all layers are computed once, in blocks of rows, for the tokens that the rows
 * reach. Then each pair is a piece of work. A flow changes a copy of the capacities. If all threads
 * together would need too many bytes for their copies, only some of them work at a time. */
#include <stdatomic.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/area.h"
#include "runs/max_flow.h"
#include "runs/private.h"

enum {
    BLOCK_ROWS = 64,             /* rows of a block, which are also those of lazy statistics */
    COPY_BYTES = 256 << 20,      /* most bytes of all copies, if that is one of them */
    LANE_BYTES = 8 * ATTN_ALIGN, /* rounding of the blocks of a thread */
};

/* Operations that a pair is expected to take for each edge (measured), so that the predicted time
 * of a request is about right before its route has been measured. */
#define PAIR_OPERATIONS 40.0

typedef struct lane {
    attn_run_lane *any;
    void *cells;   /* [BLOCK_ROWS, tokens] weights of one head, of the widest type */
    double *layer; /* [BLOCK_ROWS, tokens] rows of a layer */
} lane;

typedef struct flower {
    const attn_run_rollout *r;
    const size_t *rows; /* [count] */
    size_t count;
    size_t base; /* the first token that the rows reach; the graph counts from it */
    attn_flow_graph graph;
    lane *lanes;            /* [slots] */
    attn_flow_lane **flows; /* [copies] */
    size_t slots, copies;
    size_t first; /* pair of the wave */
    double *out;  /* [count, S] */
    attn_pool *pool;
    const attn_control *control;
    atomic_size_t done; /* pairs */
} flower;

/* --- the shape of the graph --- */

/* Goes through the layers from the top and stores the edges of each row in graph.rows, if it is not
 * NULL. Counts them, and adds cells and operations of the weights to *cost. Returns the tokens
 * [*from, *to) that are reached; it stops when they are too many. */
static void trace(flower *w, size_t *from, size_t *to, attn_cost *cost) {
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
        const double heads = (double)(w->r->heads.list ? w->r->heads.count : d->Hq);
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

/* Measures the graph, which has no rows yet. */
static attn_status measure(flower *w, attn_cost *cost, attn_error *err) {
    attn_flow_graph *g = &w->graph;
    size_t from, to, nodes;
    *g = (attn_flow_graph){.layers = w->r->layers->count};
    *cost = (attn_cost){0};
    trace(w, &from, &to, cost);
    w->base = from;
    g->tokens = to - from;
    if (g->tokens > ATTN_RUN_FLOW_TOKENS)
        return attn_fail(
            err, ATTN_ELIMIT, "rows",
            "flow goes through at most %d tokens (ATTN_RUN_FLOW_TOKENS), and %zu or more "
            "lie between the first and the last that these rows reach: ask for "
            "earlier rows, if they see no later keys, or for fewer layers",
            ATTN_RUN_FLOW_TOKENS, g->tokens);
    if (!attn_size_mul(g->layers + 1, g->tokens, &nodes) || nodes > ATTN_FLOW_NODES)
        return attn_fail(err, ATTN_ELIMIT, "rows", "more tokens in all layers than can be counted");
    cost->operations += PAIR_OPERATIONS * (double)w->count * (double)g->tokens * (double)g->edges;
    return ATTN_OK;
}

/* Takes the arrays from an area. */
static void place(flower *w, attn_area *a) {
    attn_flow_graph *g = &w->graph;
    attn_area copy = {0};
    attn_flow_lane_place(g, &copy);
    w->copies = COPY_BYTES / (copy.used | 1);
    w->copies = w->copies < 1 ? 1 : w->copies > w->slots ? w->slots : w->copies;
    attn_flow_row *rows = attn_area_take(a, g->layers * g->tokens, sizeof *rows);
    double *capacity = attn_area_take(a, g->edges, sizeof *capacity);
    w->lanes = attn_area_take(a, w->slots, sizeof *w->lanes);
    w->flows = attn_area_take(a, w->copies, sizeof *w->flows);
    for (size_t s = 0; s < w->slots; s++) {
        void *cells = attn_area_take(a, BLOCK_ROWS * g->tokens, sizeof(double));
        double *layer = attn_area_take(a, BLOCK_ROWS * g->tokens, sizeof *layer);
        if (a->base)
            w->lanes[s] = (lane){NULL, cells, layer};
    }
    for (size_t c = 0; c < w->copies; c++) {
        attn_flow_lane *flow = attn_flow_lane_place(g, a);
        if (a->base)
            w->flows[c] = flow;
    }
    if (a->base) {
        g->rows = rows;
        g->capacity = capacity;
    }
}

/* --- capacities --- */

static size_t blocks_of(const flower *w) {
    return (w->base + w->graph.tokens - 1) / BLOCK_ROWS - w->base / BLOCK_ROWS + 1;
}

/* Computes the capacities of the edges from a block of tokens of a layer. */
static attn_status weigh(void *ctx, size_t index, size_t slot, attn_error *err) {
    flower *w = ctx;
    const lane *own = &w->lanes[slot];
    const size_t n = index / blocks_of(w), b = w->base / BLOCK_ROWS + index % blocks_of(w);
    const attn_run_layer *layer = &w->r->layers->items[n];
    const attn_flow_row *rows = w->graph.rows + n * w->graph.tokens;
    size_t from = b * BLOCK_ROWS, to = from + BLOCK_ROWS, lo, hi;
    from = from > w->base ? from : w->base;
    to = to < w->base + w->graph.tokens ? to : w->base + w->graph.tokens;
    while (from < to && rows[from - w->base].hi == 0) /* not reached */
        from++;
    while (to > from && rows[to - 1 - w->base].hi == 0)
        to--;
    if (from == to)
        return ATTN_OK;
    attn_run_step_keys(w->r, layer, from, to - from, &lo, &hi);
    const attn_range at = {.row = from, .rows = to - from, .col = lo, .cols = hi - lo};
    attn_status status =
        attn_run_step_rows(w->r, layer, &at, own->any, own->cells, own->layer, err);
    for (size_t i = 0; i < at.rows && !status; i++) {
        const attn_flow_row *row = &rows[from + i - w->base];
        memcpy(w->graph.capacity + row->first, own->layer + i * at.cols + row->lo + w->base - lo,
               (row->hi - row->lo) * sizeof *w->graph.capacity);
    }
    return status;
}

/* --- flows --- */

/* Computes a pair: pair p is of row p / tokens and token p % tokens. */
static attn_status pair(void *ctx, size_t index, size_t slot, attn_error *err) {
    flower *w = ctx;
    const size_t tokens = w->graph.tokens, p = w->first + index;
    const size_t row = p / tokens, sink = p % tokens;
    attn_flow_lane *copy = w->flows[w->copies < w->slots ? index : slot];
    attn_status status =
        attn_flow_compute(&w->graph, copy, w->rows[row] - w->base, sink, w->pool, w->control,
                          &w->out[row * w->r->layers->cols + w->base + sink], err);
    attn_control_tell(w->control, atomic_fetch_add(&w->done, 1) + 1, w->count * tokens);
    return status;
}

static attn_status compute(flower *w, attn_error *err) {
    const size_t pairs = w->count * w->graph.tokens;
    const size_t wave = w->copies < w->slots ? w->copies : pairs;
    attn_status status =
        attn_pool_run(w->pool, w->graph.layers * blocks_of(w), weigh, w, w->control, err);
    for (; w->first < pairs && !status; w->first += wave) {
        const size_t left = pairs - w->first;
        status = attn_pool_run(w->pool, left < wave ? left : wave, pair, w, w->control, err);
    }
    return status;
}

attn_status attn_run_flow_cost(const attn_run_rollout *r, const size_t *rows, size_t count,
                               size_t slots, attn_cost *out, attn_error *err) {
    flower w = {.r = r, .rows = rows, .count = count, .slots = slots};
    attn_area counted = {0};
    size_t work;
    attn_status status = measure(&w, out, err);
    if (status)
        return status;
    place(&w, &counted);
    if (counted.overflow ||
        !attn_size_mul(slots, attn_run_layers_work(r->layers) + LANE_BYTES, &work) ||
        !attn_size_add(work, counted.used, &work))
        return attn_fail(err, ATTN_ELIMIT, "rows", "more bytes than can be counted");
    out->work_bytes = work;
    out->result_bytes = count * r->layers->cols * sizeof(double);
    return ATTN_OK;
}

attn_status attn_run_flow_rows(const attn_run_rollout *r, const size_t *rows, size_t count,
                               attn_pool *pool, const attn_control *control, attn_arena *arena,
                               double *out, attn_error *err) {
    flower w = {.r = r,
                .rows = rows,
                .count = count,
                .slots = attn_pool_slots(pool),
                .out = out,
                .pool = pool,
                .control = control};
    attn_area counted = {0}, area;
    attn_cost cost;
    size_t from, to;
    attn_status status = measure(&w, &cost, err);
    if (status)
        return status;
    place(&w, &counted);
    bool ok = !counted.overflow && attn_area_open(&area, &counted, arena);
    if (ok)
        place(&w, &area);
    for (size_t s = 0; s < w.slots && ok; s++)
        ok = (w.lanes[s].any = attn_run_lane_new(r->layers, arena)) != NULL;
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the capacities of a flow");
    memset(w.graph.rows, 0, w.graph.layers * w.graph.tokens * sizeof *w.graph.rows);
    memset(out, 0, count * r->layers->cols * sizeof *out);
    trace(&w, &from, &to, &cost);
    return compute(&w, err);
}
