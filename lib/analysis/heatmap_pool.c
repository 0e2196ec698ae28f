/* Computes one piece of a heatmap: a block of its rows of cells. The piece fetches rows of weights,
 * averages them over heads if the plan says so, computes entropies and edges, and pools the weights
 * into cells. A row of cells belongs to a single piece, so no sum depends on threads. */
#include <math.h>
#include <string.h>

#include "analysis/edges.h"
#include "analysis/heatmap_private.h"
#include "analysis/sums.h"
#include "base/try.h"

size_t attn_analysis_map_batch(const attn_heatmap_plan *plan, size_t map) {
    size_t i = map / plan->maps_a_batch;
    return plan->options->batch_list ? (size_t)plan->options->batch_list[i] : i;
}

size_t attn_analysis_map_head(const attn_heatmap_plan *plan, size_t map) {
    size_t i = map % plan->maps_a_batch;
    switch (plan->options->heads) {
    case ATTN_HEADS_LIST:
        return (size_t)plan->options->head_list[i];
    case ATTN_HEADS_MEAN:
        return SIZE_MAX;
    default:
        return i;
    }
}

static bool is_hidden(const float *logits, size_t j) {
    return logits && logits[j] == -INFINITY;
}

/* Let m be the maximum of the logits s, and p = e^(s-m) / l the weights. Then the entropy is ln l -
 * sum p (s - m). l is 1 / p at the largest logit; it is computed as 1 + (weight of the other keys)
 * / p, which keeps all digits if one key has almost all weight. Weights are divided by their sum,
 * so that they are a distribution over the keys even if a sink logit takes a part. */
bool attn_analysis_logit_entropy(const float *weights, const float *logits, size_t n, float most,
                                 double *entropy) {
    const attn_pointwise *rows = attn_pointwise_current();
    attn_fall_sums sums = {{0}, {0}};
    if (most == -INFINITY)
        return false;
    const size_t best = rows->find_float(logits, n, most), after = best + 1;
    const double top = weights[best];
    rows->add_fall(&sums, weights, logits, best, most);
    rows->add_fall(&sums, weights + after, logits + after, n - after, most);
    const double rest = attn_join(sums.mass);
    *entropy = log1p(rest / top) + attn_join(sums.fall) / (top + rest);
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

/* Computes the entropy of the weights above 0 without logits. The weights are divided by their
 * sum. */
static bool entropy_of_shares(const float *weights, size_t n, double *entropy) {
    double mass = 0;
    if (!entropy_of_weights(weights, n, entropy))
        return false;
    for (size_t j = 0; j < n; j++)
        mass += weights[j] > 0 ? (double)weights[j] : 0;
    *entropy = log(mass) + *entropy / mass;
    return true;
}

/* Computes the entropy of n weights of a row, in nats. logits may be NULL. Returns false if no key
 * is visible. */
static bool row_entropy(const attn_weight_source *source, const float *weights, const float *logits,
                        size_t n, double *entropy) {
    if (source->not_softmax)
        return entropy_of_shares(weights, n, entropy);
    if (!logits)
        return entropy_of_weights(weights, n, entropy);
    const float most = attn_pointwise_current()->scan_logits(logits, n).most;
    return attn_analysis_logit_entropy(weights, logits, n, most, entropy);
}

/* --- edges --- */

/* Stores the edges of a row, largest weight first, in `edges` [plan->edge_room], and their number
 * in *count. */
static attn_status find_edges(const attn_heatmap_plan *plan, const attn_heatmap_line *line,
                              attn_edge *edges, size_t *count, attn_error *err) {
    size_t n = 0, seen = 0, end = plan->col0 + plan->cols;
    for (size_t j = plan->col0; j < end; j++) {
        float w = line->weights[j];
        if (is_hidden(line->logits, j) || isnan(w))
            continue;
        seen++;
        /* of edges with equal weights, the heap keeps those of lower keys */
        if (n < plan->edge_room || w > edges[0].weight)
            attn_edges_add(edges, &n, plan->edge_room, (attn_edge){line->row, j, w});
    }
    attn_edges_sort(edges, n);
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
        return attn_fail_limit(
            err, "top_p", (double)n,
            "row %zu needs more than the %zu edges that there is room for: choose "
            "fewer rows or heads, a smaller top_p, or give top_k",
            line->row, n);
    return ATTN_OK;
}

static const attn_heatmap_cell empty_cell = {.max = -INFINITY};

/* Adds the entropies of the fetched rows of one head to the sums over heads. */
static void measure_rows(const attn_heatmap_work *w, attn_heatmap_lane *lane, size_t rows) {
    size_t S = w->plan->S;
    for (size_t i = 0; i < rows; i++) {
        double entropy;
        const float *logits = w->source->has_logits ? lane->logits + i * S : NULL;
        if (row_entropy(w->source, lane->weights + i * S, logits, S, &entropy) &&
            isfinite(entropy)) {
            lane->rows[i].entropy += entropy;
            lane->rows[i].alive++;
        }
    }
}

/* Adds the n fetched weights of one head to the sums over heads. A weight counts as visible if it
 * is visible in any head. */
static void merge_head(const attn_heatmap_work *w, attn_heatmap_lane *lane, size_t n, bool first) {
    for (size_t j = 0; j < n; j++)
        lane->sum[j] = (first ? 0.0 : lane->sum[j]) + lane->weights[j];
    if (!w->source->has_logits)
        return;
    for (size_t j = 0; j < n; j++) {
        bool before = !first && lane->visible[j];
        lane->visible[j] = before || lane->logits[j] != -INFINITY;
    }
}

/* Replaces lane->weights by the mean over heads, and lane->logits by 0 (visible) or -infinity. */
static void finish_mean(const attn_heatmap_work *w, attn_heatmap_lane *lane, size_t n) {
    for (size_t j = 0; j < n; j++)
        lane->weights[j] = (float)(lane->sum[j] / (double)w->plan->merged);
    if (!w->source->has_logits)
        return;
    for (size_t j = 0; j < n; j++)
        lane->logits[j] = lane->visible[j] ? 0.0f : -INFINITY;
}

static attn_status load_rows(const attn_heatmap_work *w, size_t map, size_t lane_index, size_t row,
                             size_t rows, attn_error *err) {
    const attn_heatmap_plan *p = w->plan;
    attn_heatmap_lane *lane = &w->lanes[lane_index];
    size_t head = attn_analysis_map_head(p, map);
    bool mean = head == SIZE_MAX;
    memset(lane->rows, 0, rows * sizeof *lane->rows);
    for (size_t h = 0; h < p->merged; h++) {
        attn_range range = {.batch = attn_analysis_map_batch(p, map),
                            .head = mean ? h : head,
                            .row = row,
                            .rows = rows,
                            .col = 0,
                            .cols = p->S};
        ATTN_TRY(
            w->source->fetch(w->source->ctx, lane_index, &range, lane->weights, lane->logits, err));
        measure_rows(w, lane, rows);
        if (p->merged > 1)
            merge_head(w, lane, rows * p->S, h == 0);
    }
    if (p->merged > 1)
        finish_mean(w, lane, rows * p->S);
    return ATTN_OK;
}

/* Tells whether v replaces `than` as the maximum of a cell. With by_magnitude the magnitudes are
 * compared, and of equal magnitudes the positive value is the larger one. `than` is -infinity if
 * the cell is empty. */
static bool replaces_maximum(float v, float than, bool by_magnitude) {
    if (!by_magnitude || than == -INFINITY)
        return v > than;
    return fabsf(v) > fabsf(than) || (v > than && fabsf(v) == fabsf(than));
}

static void pool_row(const attn_heatmap_plan *p, const attn_heatmap_line *line,
                     attn_heatmap_cell *cells) {
    size_t end = p->col0 + p->cols;
    for (size_t c = 0, from = p->col0; c < p->shape[1]; c++, from += p->step[1]) {
        size_t to = end - from < p->step[1] ? end : from + p->step[1];
        attn_heatmap_cell cell = cells[c];
        for (size_t j = from; j < to; j++) {
            float v = line->weights[j];
            if (line->logits && line->logits[j] == -INFINITY)
                continue;
            if (isnan(v)) {
                cell.nan = true;
                continue;
            }
            cell.count++;
            cell.sum += (double)v;
            cell.max = replaces_maximum(v, cell.max, p->options->signed_values) ? v : cell.max;
        }
        cells[c] = cell;
    }
}

/* Adds the visible weights of a row to `received` of their cells. */
static void add_received(const attn_heatmap_plan *p, const attn_heatmap_line *line,
                         attn_heatmap_cell *cells) {
    for (size_t j = 0; j < p->cols; j++) {
        const size_t key = p->col0 + j;
        const bool hidden = line->logits && line->logits[key] == -INFINITY;
        if (!hidden && !isnan(line->weights[key]))
            cells[j / p->step[1]].received += (double)line->weights[key];
    }
}

/* Writes a finished row of cells to the heatmap, lists its hidden cells, and adds it to the piece's
 * results. The cells are empty afterwards. */
static void flush_cells(attn_heatmap_work *w, size_t map, size_t r, attn_heatmap_cell *cells,
                        attn_heatmap_part *part) {
    const attn_heatmap_plan *p = w->plan;
    const attn_heatmap *m = &w->maps[map];
    size_t C = p->shape[1], grid_row = map * p->shape[0] + r, count = 0;
    attn_hidden_run *runs = w->runs + grid_row * p->run_room;
    for (size_t c = 0; c < C; c++) {
        const attn_heatmap_cell *cell = &cells[c];
        bool hidden = !cell->count && !cell->nan;
        float none = cell->nan ? NAN : 0.0f;
        float max = cell->count ? cell->max : none;
        float mean = cell->count ? (float)(cell->sum / (double)cell->count) : none;
        if (m->max)
            m->max[r * C + c] = max;
        if (m->mean)
            m->mean[r * C + c] = mean;
        part->received[c] += w->source->padding ? cell->received : cell->sum;
        const float shown = m->max ? max : mean;
        if (!hidden && isfinite(shown))
            attn_analysis_widen(part->range, shown, shown);
        if (!hidden && isfinite(mean))
            attn_analysis_widen(part->mean, mean, mean);
        if (hidden && count && runs[count - 1].to == c)
            runs[count - 1].to = c + 1;
        else if (hidden)
            runs[count++] = (attn_hidden_run){.row = r, .from = c, .to = c + 1};
        cells[c] = empty_cell;
    }
    w->run_counts[grid_row] = count;
}

/* Sum of the entropies of the rows in a row of cells. */
typedef struct entropy_sum {
    double sum;
    size_t rows;
} entropy_sum;

/* Adds row i of the chosen rows to its cells and to the entropy, and finds its edges. The row is
 * row `in_block` of the fetched rows. */
static attn_status pool_line(attn_heatmap_work *w, size_t map, size_t i, size_t in_block,
                             attn_heatmap_lane *lane, entropy_sum *entropy, attn_error *err) {
    const attn_heatmap_plan *p = w->plan;
    attn_heatmap_line line = {
        .weights = lane->weights + in_block * p->S,
        .logits = w->source->has_logits ? lane->logits + in_block * p->S : NULL,
        .row = p->row0 + i,
    };
    const attn_heatmap_row *row = &lane->rows[in_block];
    if (row->alive) {
        entropy->sum += row->entropy / (double)row->alive;
        entropy->rows++;
    }
    pool_row(p, &line, lane->cells);
    if (w->source->padding && !attn_row_is_padding(w->source, w->maps[map].batch, line.row))
        add_received(p, &line, lane->cells);
    if (!p->edge_room)
        return ATTN_OK;
    size_t at = map * p->rows + i;
    return find_edges(p, &line, w->edges + at * p->edge_room, &w->edge_counts[at], err);
}

attn_status attn_analysis_heatmap_piece(void *work, size_t index, size_t lane_index,
                                        attn_error *err) {
    attn_heatmap_work *w = work;
    const attn_heatmap_plan *p = w->plan;
    attn_heatmap_lane *lane = &w->lanes[lane_index];
    attn_heatmap_part *part = &w->parts[index];
    size_t map = index / p->pieces, lines = p->piece_rows * p->step[0];
    size_t from = index % p->pieces * lines;
    size_t to = p->rows - from < lines ? p->rows : from + lines;
    entropy_sum entropy = {0};
    for (size_t c = 0; c < p->shape[1]; c++)
        lane->cells[c] = empty_cell;
    for (size_t at = from; at < to; at += p->block) {
        size_t rows = to - at < p->block ? to - at : p->block;
        ATTN_TRY(attn_control_check(w->control, err));
        ATTN_TRY(load_rows(w, map, lane_index, p->row0 + at, rows, err));
        for (size_t i = at; i < at + rows; i++) {
            ATTN_TRY(pool_line(w, map, i, i - at, lane, &entropy, err));
            size_t r = i / p->step[0];
            if (i + 1 < p->rows && (i + 1) / p->step[0] == r)
                continue;
            w->maps[map].row_entropy[r] = entropy.rows && !p->options->signed_values
                                              ? (float)(entropy.sum / (double)entropy.rows)
                                              : NAN;
            flush_cells(w, map, r, lane->cells, part);
            entropy = (entropy_sum){0};
        }
    }
    attn_control_tell(w->control, atomic_fetch_add(&w->done, 1) + 1, p->maps * p->pieces);
    return ATTN_OK;
}
