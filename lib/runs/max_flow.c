/* Dinic's algorithm (1970) for maximum flows, on a graph of layers. A phase labels the nodes with
 * their distance to the sink over edges with a residual capacity, and then finds a blocking flow
 * along edges that lower the distance. Every phase makes the distance of the source longer, so
 * there are fewer phases than nodes, even with rounding errors.
 *
 * An edge that carries flow is also an edge upwards, over which flow can be sent back. In the first
 * phase no edge carries flow, so all edges lead downwards and the distance of a node is its level.
 *
 * A blocking flow is found depth first. A node that has to send some flow to the sink divides it
 * among its edges, as far as they can carry it. The array `frames` replaces recursive calls,
 * because a path may be too long for the stack of a thread. An edge that can carry no more is
 * skipped for the rest of the phase. */
#include "runs/max_flow.h"

#include <math.h>
#include <string.h>

#define UNSEEN UINT32_MAX
#define SPENT  UINT32_MAX /* next_edge of a node that has no edge left in this phase */

enum { CHECKED = 1 << 18 }; /* steps between two checks of cancellation and deadline */

/* The tokens of a level that lie between source and sink. */
typedef struct span {
    size_t from, to;
} span;

/* The nodes of a level that have a distance: entries 0 … count - 1 of the level's list, in the
 * order of distances. Entries first … last - 1 have the present distance, entries last … count - 1
 * the next distance. */
typedef struct found {
    size_t first, last, count;
} found;

/* A node on the path from the source. */
typedef struct frame {
    size_t level, token;
    double want; /* the flow that the node has to send to the sink */
    double got;  /* the flow that the node has sent to the sink so far */
} frame;

struct attn_flow_lane {
    double *rest;                   /* [edges] residual capacities */
    uint32_t *distance, *next_edge; /* [layers + 1, tokens] */
    uint32_t *list;                 /* [layers + 1, tokens] the tokens of `found` */
    frame *frames;                  /* [nodes + 1] */
    span *spans;                    /* [layers + 1] */
    found *found;                   /* [layers + 1] */
    size_t source, sink;
    bool flows; /* some edge carries flow */
};

attn_flow_lane *attn_flow_lane_place(const attn_flow_graph *g, attn_area *a) {
    const size_t levels = g->layers + 1, nodes = levels * g->tokens;
    attn_flow_lane *lane = attn_area_take(a, 1, sizeof *lane);
    double *rest = attn_area_take(a, g->edges, sizeof *rest);
    uint32_t *distance = attn_area_take(a, nodes, sizeof *distance);
    uint32_t *next_edge = attn_area_take(a, nodes, sizeof *next_edge);
    uint32_t *list = attn_area_take(a, nodes, sizeof *list);
    frame *frames = attn_area_take(a, nodes + 1, sizeof *frames);
    span *spans = attn_area_take(a, levels, sizeof *spans);
    found *of = attn_area_take(a, levels, sizeof *of);
    if (!a->base)
        return NULL;
    *lane = (attn_flow_lane){rest, distance, next_edge, list, frames, spans, of, 0, 0, false};
    return lane;
}

/* --- what lies between source and sink --- */

static bool is_some(span s) {
    return s.from < s.to;
}

static const attn_flow_row *row_of(const attn_flow_graph *g, size_t level, size_t token) {
    return &g->rows[(level - 1) * g->tokens + token];
}

/* Returns the columns of a row that lie between source and sink. */
static span columns(const attn_flow_graph *g, const attn_flow_lane *f, size_t level, size_t token) {
    const attn_flow_row *row = row_of(g, level, token);
    const span *below = &f->spans[level - 1];
    const span s = {row->lo > below->from ? row->lo : below->from,
                    row->hi < below->to ? row->hi : below->to};
    return is_some(s) ? s : (span){row->lo, row->lo};
}

/* Sets the spans to the nodes that the source reaches, then limits them to the nodes that reach the
 * sink. Returns false if the source does not reach the sink. */
static bool find_spans(const attn_flow_graph *g, attn_flow_lane *f) {
    span *s = f->spans;
    s[g->layers] = (span){f->source, f->source + 1};
    for (size_t k = g->layers; k-- > 0;) {
        s[k] = (span){g->tokens, 0};
        for (size_t i = s[k + 1].from; i < s[k + 1].to; i++) {
            const attn_flow_row *row = row_of(g, k + 1, i);
            s[k].from = row->lo < s[k].from ? row->lo : s[k].from;
            s[k].to = row->hi > s[k].to ? row->hi : s[k].to;
        }
    }
    if (f->sink < s[0].from || f->sink >= s[0].to)
        return false;
    s[0] = (span){f->sink, f->sink + 1};
    for (size_t k = 1; k <= g->layers; k++) {
        const span reached = s[k];
        s[k] = (span){g->tokens, 0};
        for (size_t i = reached.from; i < reached.to; i++)
            if (is_some(columns(g, f, k, i))) {
                s[k].from = i < s[k].from ? i : s[k].from;
                s[k].to = i + 1;
            }
        if (!is_some(s[k]))
            return false;
    }
    return true;
}

/* Sets the residual capacities between source and sink. Returns false if one of them is NaN. */
static bool fill(const attn_flow_graph *g, attn_flow_lane *f) {
    for (size_t k = 1; k <= g->layers; k++)
        for (size_t i = f->spans[k].from; i < f->spans[k].to; i++) {
            const attn_flow_row *row = row_of(g, k, i);
            const span s = columns(g, f, k, i);
            const size_t at = row->first + (s.from - row->lo);
            if (!is_some(s))
                continue;
            if (isnan(g->capacity[at]))
                return false;
            memcpy(f->rest + at, g->capacity + at, (s.to - s.from) * sizeof *f->rest);
        }
    return true;
}

/* --- distances --- */

static void add(const attn_flow_graph *g, attn_flow_lane *f, size_t level, size_t token,
                uint32_t distance) {
    f->distance[level * g->tokens + token] = distance;
    f->list[level * g->tokens + f->found[level].count++] = (uint32_t)token;
}

/* Gives the distance d + 1 to nodes of the level above that have none yet and have a residual edge
 * to a node with distance d. */
static void label_above(const attn_flow_graph *g, attn_flow_lane *f, size_t level, uint32_t d) {
    const span above = f->spans[level + 1];
    const found *at = &f->found[level];
    const uint32_t *list = f->list + level * g->tokens;
    for (size_t i = above.from; i < above.to; i++) {
        const attn_flow_row *row = row_of(g, level + 1, i);
        const double *rest = f->rest + row->first;
        if (f->distance[(level + 1) * g->tokens + i] != UNSEEN)
            continue;
        size_t n = at->first;
        while (n < at->last && (list[n] < row->lo || list[n] >= row->hi ||
                                rest[list[n] - row->lo] <= ATTN_FLOW_TOLERANCE))
            n++;
        if (n < at->last)
            add(g, f, level + 1, i, d + 1);
    }
}

/* Gives the distance d + 1 to nodes of the level below that have none yet and receive flow from a
 * node with distance d, because they can send this flow back. */
static void label_below(const attn_flow_graph *g, attn_flow_lane *f, size_t level, uint32_t d) {
    const found *at = &f->found[level];
    const size_t below = (level - 1) * g->tokens;
    const span *all = &f->spans[level - 1];
    for (size_t n = at->first; n < at->last && f->found[level - 1].count < all->to - all->from;
         n++) {
        const size_t i = f->list[level * g->tokens + n];
        const attn_flow_row *row = row_of(g, level, i);
        const span s = columns(g, f, level, i);
        for (size_t j = s.from; j < s.to; j++) {
            const size_t cell = row->first + (j - row->lo);
            if (f->distance[below + j] == UNSEEN &&
                g->capacity[cell] - f->rest[cell] > ATTN_FLOW_TOLERANCE)
                add(g, f, level - 1, j, d + 1);
        }
    }
}

/* Returns whether an edge from the source can carry more. */
static bool can_start(const attn_flow_graph *g, const attn_flow_lane *f) {
    const attn_flow_row *row = row_of(g, g->layers, f->source);
    const span s = columns(g, f, g->layers, f->source);
    bool any = false;
    for (size_t j = s.from; j < s.to && !any; j++)
        any = f->rest[row->first + (j - row->lo)] > ATTN_FLOW_TOLERANCE;
    return any;
}

/* Labels nodes with their distances to the sink, up to the distance of the source. Returns false if
 * no path leads from the source to the sink. */
static bool label(const attn_flow_graph *g, attn_flow_lane *f) {
    const uint32_t *source = &f->distance[g->layers * g->tokens + f->source];
    for (size_t k = 0; k <= g->layers; k++) {
        f->found[k] = (found){0, 0, 0};
        for (size_t i = f->spans[k].from; i < f->spans[k].to; i++)
            f->distance[k * g->tokens + i] = UNSEEN;
    }
    add(g, f, 0, f->sink, 0);
    bool any = true;
    for (uint32_t d = 0; any && *source == UNSEEN; d++) {
        for (size_t k = 0; k <= g->layers; k++) {
            f->found[k].first = f->found[k].last;
            f->found[k].last = f->found[k].count;
        }
        any = false;
        for (size_t k = 0; k <= g->layers; k++) {
            if (f->found[k].first == f->found[k].last)
                continue;
            any = true;
            if (k < g->layers)
                label_above(g, f, k, d);
            if (k > 0 && f->flows)
                label_below(g, f, k, d);
        }
    }
    return *source != UNSEEN;
}

/* --- a blocking flow --- */

/* Finds the next edge of a node that leads nearer to the sink, and sets *to to the frame of the
 * edge's other end. If there is no such edge, marks the node as SPENT and returns false. */
static bool descend(const attn_flow_graph *g, attn_flow_lane *f, const frame *at, frame *to) {
    const size_t n = g->tokens, level = at->level, node = level * n + at->token;
    const uint32_t nearer = f->distance[node] - 1;
    const double want = at->want - at->got;
    size_t edge = f->next_edge[node], down = 0;
    if (edge == SPENT)
        return false;
    if (level > 0) {
        const span s = columns(g, f, level, at->token);
        const attn_flow_row *row = row_of(g, level, at->token);
        const double *rest = f->rest + row->first + (s.from - row->lo);
        const uint32_t *distance = f->distance + (level - 1) * n + s.from;
        for (down = s.to - s.from; edge < down; edge++)
            if (distance[edge] == nearer && rest[edge] > ATTN_FLOW_TOLERANCE) {
                f->next_edge[node] = (uint32_t)edge;
                *to = (frame){level - 1, s.from + edge, want < rest[edge] ? want : rest[edge], 0};
                return true;
            }
    }
    /* An edge upwards must lead to a node of the distance `nearer`. Nodes of the level above have
     * at least the distance level + 1, so a smaller `nearer` excludes all edges upwards. */
    const span up = nearer > level && level < g->layers ? f->spans[level + 1] : (span){0, 0};
    for (; edge - down < up.to - up.from; edge++) {
        const size_t i = up.from + (edge - down);
        const attn_flow_row *row = row_of(g, level + 1, i);
        const size_t cell = row->first + (at->token - row->lo);
        if (f->distance[(level + 1) * n + i] != nearer || at->token < row->lo ||
            at->token >= row->hi)
            continue;
        const double carried = g->capacity[cell] - f->rest[cell];
        if (carried > ATTN_FLOW_TOLERANCE) {
            f->next_edge[node] = (uint32_t)edge;
            *to = (frame){level + 1, i, want < carried ? want : carried, 0};
            return true;
        }
    }
    f->next_edge[node] = SPENT;
    f->distance[node] = UNSEEN; /* then no edge leads to this node any more in this phase */
    return false;
}

/* Adds the flow that `from` has sent to the flow of `at`, the node before it on the path. Goes on
 * to the next edge of `at` if the present edge can carry no more, or if `from` is SPENT. */
static void ascend(const attn_flow_graph *g, attn_flow_lane *f, frame *at, const frame *from) {
    const bool down = from->level < at->level;
    const frame *upper = down ? at : from, *lower = down ? from : at;
    const attn_flow_row *row = row_of(g, upper->level, upper->token);
    const size_t cell = row->first + (lower->token - row->lo);
    double left;
    if (down)
        left = f->rest[cell] -= from->got;
    else
        left = g->capacity[cell] - (f->rest[cell] += from->got);
    at->got += from->got;
    if (left <= ATTN_FLOW_TOLERANCE || f->next_edge[from->level * g->tokens + from->token] == SPENT)
        f->next_edge[at->level * g->tokens + at->token]++;
}

/* Adds a blocking flow to *flow. */
static attn_status block(const attn_flow_graph *g, attn_flow_lane *f, attn_pool *pool,
                         const attn_control *control, double *flow, attn_error *err) {
    size_t depth = 0, steps = 0;
    attn_status status = ATTN_OK;
    for (size_t k = 0; k <= g->layers; k++)
        memset(f->next_edge + k * g->tokens + f->spans[k].from, 0,
               (f->spans[k].to - f->spans[k].from) * sizeof *f->next_edge);
    f->frames[0] = (frame){g->layers, f->source, INFINITY, 0};
    for (bool ended = false; !ended && !status;) {
        frame *at = &f->frames[depth];
        if (++steps % CHECKED == 0) {
            attn_pool_yield(pool);
            status = attn_control_check(control, err);
        }
        if (at->level == 0 && at->token == f->sink)
            at->got = at->want;
        else if (at->want - at->got > ATTN_FLOW_TOLERANCE && descend(g, f, at, at + 1)) {
            depth++;
            continue;
        }
        if (depth > 0)
            ascend(g, f, at - 1, at);
        ended = depth == 0;
        depth -= !ended;
    }
    f->flows = true;
    *flow += f->frames[0].got;
    return status;
}

attn_status attn_flow_compute(const attn_flow_graph *g, attn_flow_lane *f, size_t source,
                              size_t sink, attn_pool *pool, const attn_control *control,
                              double *flow, attn_error *err) {
    attn_status status = ATTN_OK;
    *flow = 0;
    f->source = source;
    f->sink = sink;
    f->flows = false;
    if (!find_spans(g, f))
        return ATTN_OK;
    if (!fill(g, f)) {
        *flow = NAN;
        return ATTN_OK;
    }
    while (!status && can_start(g, f) && label(g, f)) {
        status = block(g, f, pool, control, flow, err);
        attn_pool_yield(pool);
        if (!status)
            status = attn_control_check(control, err);
    }
    return status;
}
