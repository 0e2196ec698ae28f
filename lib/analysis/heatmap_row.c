/* Measures of one row of weights: its entropy, its strongest edges. */
#include <math.h>

#include "analysis/heatmap_private.h"

enum { WAYS = 8 }; /* independent sums, so that additions need not wait for each other */

typedef struct row_sums {
    double mass[WAYS]; /* sum p */
    double fall[WAYS]; /* sum p (m - s) */
} row_sums;

static bool is_hidden(const float *logits, size_t j) {
    return logits && logits[j] == -INFINITY;
}

static double join(const double sums[WAYS]) {
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* Key k of a group of at most WAYS: its own sums. Weights that are not above 0 add nothing. */
static inline void add_key(row_sums *r, size_t k, float weight, float logit, float m) {
    double p = weight > 0 ? (double)weight : 0;
    double d = weight > 0 ? (double)m - (double)logit : 0;
    r->mass[k] += p;
    r->fall[k] += p * d;
}

static void add_keys(row_sums *r, const float *weights, const float *logits, size_t n, float m) {
    size_t j = 0;
    for (; j + WAYS <= n; j += WAYS)
        for (size_t k = 0; k < WAYS; k++)
            add_key(r, k, weights[j + k], logits[j + k], m);
    for (size_t k = 0; j + k < n; k++)
        add_key(r, k, weights[j + k], logits[j + k], m);
}

/* The key with the largest logit; n when every key is hidden. */
static size_t best_key(const float *logits, size_t n) {
    size_t best = n;
    for (size_t j = 0; j < n; j++)
        if (logits[j] > (best == n ? -INFINITY : logits[best]))
            best = j;
    return best;
}

/* With p = e^(s-m)/l the row's entropy is ln l - sum p (s - m). l is 1/p at the largest logit,
 * taken as 1 + (what the other keys hold)/p, which keeps all digits when one key holds almost
 * everything. Both terms are divided by the row's sum: they are a distribution over the keys also
 * where a sink holds part of the mass. */
static bool entropy_of_logits(const float *weights, const float *logits, size_t n,
                              double *entropy) {
    row_sums r = {{0}, {0}};
    size_t best = best_key(logits, n);
    if (best == n)
        return false;
    double top = weights[best];
    add_keys(&r, weights, logits, best, logits[best]);
    add_keys(&r, weights + best + 1, logits + best + 1, n - best - 1, logits[best]);
    double rest = join(r.mass);
    *entropy = log1p(rest / top) + join(r.fall) / (top + rest);
    return true;
}

static bool entropy_of_weights(const float *weights, size_t n, double *entropy) {
    double sum = 0;
    bool any = false;
    for (size_t j = 0; j < n; j++)
        if (weights[j] > 0) {
            sum -= (double)weights[j] * log((double)weights[j]);
            any = true;
        }
    *entropy = sum;
    return any;
}

bool attn_analysis_row_entropy(const float *weights, const float *logits, size_t n,
                               double *entropy) {
    return logits ? entropy_of_logits(weights, logits, n, entropy)
                  : entropy_of_weights(weights, n, entropy);
}

/* --- edges: a heap with the worst edge on top, sorted at the end --- */

static bool worse(const attn_edge *a, const attn_edge *b) {
    return a->weight < b->weight || (a->weight == b->weight && a->col > b->col);
}

static void sink_edge(attn_edge *heap, size_t count, size_t at) {
    attn_edge moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && worse(&heap[child + 1], &heap[child]))
            child++;
        if (!worse(&heap[child], &moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void sort_edges(attn_edge *heap, size_t count) {
    while (count > 1) {
        attn_edge worst = heap[0];
        heap[0] = heap[--count];
        heap[count] = worst;
        sink_edge(heap, count, 0);
    }
}

attn_status attn_analysis_row_edges(const attn_heatmap_plan *plan, const attn_heatmap_line *line,
                                    attn_edge *edges, size_t *count, attn_error *err) {
    size_t n = 0, seen = 0, end = plan->col0 + plan->cols;
    for (size_t j = plan->col0; j < end; j++) {
        float w = line->weights[j];
        if (is_hidden(line->logits, j) || isnan(w))
            continue;
        seen++;
        attn_edge edge = {.row = line->row, .col = j, .weight = w};
        if (n < plan->edge_room) {
            edges[n++] = edge;
            if (n == plan->edge_room)
                for (size_t i = n / 2; i-- > 0;)
                    sink_edge(edges, n, i);
        } else if (w > edges[0].weight) { /* ties stay with the lower key, which came first */
            edges[0] = edge;
            sink_edge(edges, n, 0);
        }
    }
    if (n < plan->edge_room)
        for (size_t i = n / 2; i-- > 0;)
            sink_edge(edges, n, i);
    sort_edges(edges, n);
    *count = n;
    if (plan->options->top_p == 0)
        return ATTN_OK;
    double mass = 0;
    *count = 0;
    for (size_t i = 0; i < n && edges[i].weight > 0; i++) {
        mass += edges[i].weight;
        *count = i + 1;
        if (mass >= plan->options->top_p)
            return ATTN_OK;
    }
    if (n < seen && !plan->options->top_k && *count == n)
        return attn_fail(err, ATTN_ELIMIT, "top_p",
                         "row %zu needs more than the %zu edges that there is room for: choose "
                         "fewer rows or heads, a smaller top_p, or give top_k",
                         line->row, n);
    return ATTN_OK;
}
