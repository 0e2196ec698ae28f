/* Sums the measures over one block of rows of a head. The block is fetched, and the visible keys of
 * each row are found. Each row is then added twice: with its weights, and as uniform attention over
 * its visible keys. Keys with equal tokens are linked beforehand, by sorting, so that a row follows
 * these links instead of comparing all tokens. */
#include <math.h>
#include <stdlib.h>

#include "analysis/heatmap_private.h"
#include "analysis/measure_private.h"
#include "analysis/sums.h"
#include "base/try.h"

static int by_token(const void *x, const void *y) {
    const attn_token_place *a = x, *b = y;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void sort_tokens(const int64_t *keys, size_t S, attn_token_place *all) {
    for (size_t j = 0; j < S; j++)
        all[j] = (attn_token_place){keys[j], j};
    if (S > 1)
        qsort(all, S, sizeof *all, by_token);
}

/* Returns the number of entries of the sorted list that are before (token, key). */
static size_t rank_of(const attn_token_place *all, size_t n, int64_t token, size_t key) {
    const attn_token_place wanted = {token, key};
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_token(&all[mid], &wanted) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void attn_analysis_link_equals(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                               int64_t offset, attn_token_place *all, attn_links *out) {
    sort_tokens(keys, S, all);
    for (size_t r = 0; r < S; r++)
        out->next[all[r].key] =
            r > 0 && all[r - 1].token == all[r].token ? all[r - 1].key : SIZE_MAX;
    for (size_t i = 0; i < L; i++) {
        int64_t at = (int64_t)i + offset;
        size_t r = at > 0 ? rank_of(all, S, queries[i], (size_t)at) : 0;
        out->entry[i] = r > 0 && all[r - 1].token == queries[i] ? all[r - 1].key : SIZE_MAX;
    }
}

void attn_analysis_link_kin(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                            attn_token_place *all, attn_links *out) {
    sort_tokens(keys, S, all);
    for (size_t from = 0, to; from < S; from = to) {
        for (to = from + 1; to < S && all[to].token == all[from].token;)
            to++;
        for (size_t r = from; r < to; r++)
            out->next[all[r].key] = all[r + 1 < to ? r + 1 : from].key;
    }
    for (size_t i = 0; i < L; i++) {
        size_t r = rank_of(all, S, queries[i], 0);
        bool found = queries[i] >= 0 && r < S && all[r].token == queries[i];
        out->entry[i] = found ? all[r].key : SIZE_MAX;
    }
}

/* Returns whether batch entries b and b modulo `entries` read the same set of options, if there are
 * `batches` such sets. */
static bool repeats(size_t batches, size_t entries) {
    return batches <= 1 || batches == entries;
}

size_t attn_analysis_uniform_of(const attn_measure_work *w, size_t batch, size_t head) {
    const attn_measure_options *o = w->plan->options;
    const attn_mask *mask = o->mask;
    if (o->value_norms || (!mask && w->source->has_logits))
        return batch * w->plan->H + head;
    size_t entries = mask ? attn_mask_batches(mask) : 1;
    const bool batches = !w->source->padding &&
                         repeats(o->query_tokens ? o->token_batches : 1, entries) &&
                         repeats(o->kind_batches, entries) && repeats(o->class_batches, entries);
    return (batches ? attn_repeated_entry(batch, entries) : batch) * w->plan->H +
           (!mask || attn_mask_same_heads(mask) ? 0 : head);
}

#define SATURATED 0.99
#define ROUNDED   1e-6 /* rounding error of float32: without a sink, 1 - s_i is below this */

static void add_to_mean(attn_mean *m, double value) {
    m->sum += value;
    m->count++;
}

static size_t clamp(int64_t at, size_t n) {
    return at < 0 ? 0 : (uint64_t)at > n ? n : (size_t)at;
}

static void add_offsets(const attn_measure_line *line, size_t S, size_t best,
                        attn_measure_sums *sums) {
    int64_t from = line->at - ATTN_OFFSETS;
    for (int64_t k = from < 0 ? -from : 0; k < ATTN_DIAGONALS && from + k < (int64_t)S; k++)
        if (!line->padding || !line->padding[from + k])
            add_to_mean(&sums->diagonal[k], line->p[from + k]);
    int64_t diagonal = (int64_t)best - from;
    if (line->peaks && diagonal >= 0 && diagonal < ATTN_DIAGONALS)
        sums->peak[diagonal]++;
}

static void add_local(const attn_measure_line *line, size_t S, size_t radius,
                      attn_measure_sums *sums) {
    int64_t most = radius < S ? (int64_t)radius : (int64_t)S;
    size_t from = clamp(line->at - most, S), to = clamp(line->at + most + 1, S);
    add_to_mean(&sums->means[ATTN_LOCAL_MASS], attn_sum(line->p + from, to - from));
}

/* Adds the mass near the line from the first query and key to the last
 * (attn_head_measures.aligned). */
static void add_alignment(const attn_measure_entry *e, const attn_measure_line *line,
                          attn_measure_sums *sums) {
    const size_t keys = e->key_end - e->key;
    const double S = (double)keys, reach = fmax(1, S / 8);
    if (e->row_end - e->row < 2)
        return;
    const double at = (double)(line->index - e->row) * (S - 1) / (double)(e->row_end - e->row - 1);
    const size_t from = clamp((int64_t)ceil(at - reach), keys);
    const size_t to = clamp((int64_t)floor(at + reach) + 1, keys);
    add_to_mean(&sums->aligned, attn_sum(line->p + e->key + from, to - from));
}

static void add_tokens(const attn_measure_work *w, size_t batch, const attn_measure_line *line,
                       attn_measure_sums *sums) {
    const attn_measure_options *o = w->plan->options;
    const attn_links *kin = w->kin ? &w->kin[attn_repeated_entry(batch, o->kind_batches)] : NULL;
    if (w->equals) {
        const attn_links *e = &w->equals[attn_repeated_entry(batch, o->token_batches)];
        double same = 0, after = 0;
        for (size_t j = e->entry[line->index]; j != SIZE_MAX; j = e->next[j]) {
            same += line->p[j];
            after += j + 1 < w->plan->S ? line->p[j + 1] : 0;
        }
        if (e->entry[line->index] != SIZE_MAX) {
            add_to_mean(&sums->means[ATTN_DUPLICATE_TOKEN], same);
            add_to_mean(&sums->means[ATTN_INDUCTION], after);
        }
    }
    if (kin && kin->entry[line->index] != SIZE_MAX) {
        size_t first = kin->entry[line->index], j = first, others = 0;
        double mass = 0;
        do {
            bool other = (int64_t)j != line->at && !(line->padding && line->padding[j]);
            others += other;
            mass += other ? line->p[j] : 0;
            j = kin->next[j];
        } while (j != first);
        if (others > 0)
            add_to_mean(&sums->means[ATTN_SAME_KIND], mass);
    }
}

static void add_classes(const attn_measure_plan *plan, size_t batch, const attn_measure_line *line,
                        attn_measure_sums *sums) {
    const attn_measure_options *o = plan->options;
    const size_t set = attn_repeated_entry(batch, o->class_batches);
    const attn_key_class *classes = o->class_count ? o->classes + set * o->class_count : NULL;
    for (size_t c = 0; c < o->class_count; c++)
        for (size_t k = 0; k < classes[c].count; k++)
            sums->class_mass[c] += line->p[classes[c].keys[k]];
    if (o->segment_count == 0)
        return;
    size_t own = o->query_segments[line->index];
    double row[ATTN_SEGMENTS_MOST] = {0};
    for (size_t j = line->from; j < line->to; j++)
        row[o->key_segments[j]] += line->p[j];
    for (size_t s = 0; s < o->segment_count; s++)
        sums->blocks[own * o->segment_count + s] += row[s];
    sums->segment_rows[own]++;
    add_to_mean(&sums->means[ATTN_BLOCK_MASS], row[own]);
}

/* Adds the measures of the weights multiplied by the norms of their values. */
static void add_values(const attn_measure_line *line, attn_measure_sums *sums) {
    double sum = 0, logs = 0;
    for (size_t j = line->from; j < line->to; j++)
        if (line->p[j] > 0) { /* skips hidden keys, whose values may be infinite */
            const double c = line->p[j] * line->norms[j];
            sum += c;
            logs += c > 0 ? c * log(c) : 0;
        }
    add_to_mean(&sums->means[ATTN_VALUE_NORM], sum);
    if (!(sum > 0) || isinf(sum))
        return;
    add_to_mean(&sums->means[ATTN_VALUE_ENTROPY], fmax(0, log(sum) - logs / sum));
    if (line->at > (int64_t)line->first)
        add_to_mean(&sums->means[ATTN_VALUE_FIRST_TOKEN],
                    line->p[line->first] > 0 ? line->p[line->first] * line->norms[line->first] / sum
                                             : 0);
}

/* Adds a row to the sums of its head, and returns the key of its largest weight. */
static size_t add_line(const attn_measure_work *w, size_t batch, const attn_measure_line *line,
                       attn_measure_sums *sums) {
    const attn_measure_plan *plan = w->plan;
    const size_t S = plan->S;
    const size_t n = line->to - line->from;
    const attn_pointwise *rows = attn_pointwise_current();
    const size_t best = line->from + rows->find_double(line->p + line->from, n, line->scan.most);
    const double mass = line->scan.mass, top = line->p[best], share = top / mass;
    sums->rows++;
    sums->mass += mass;
    sums->weighted += line->scan.reach;
    sums->looked -= line->scan.ramp;
    add_to_mean(&sums->means[ATTN_ENTROPY], line->entropy);
    add_to_mean(&sums->means[ATTN_EFFECTIVE_TOKENS], exp(line->entropy));
    add_to_mean(&sums->means[ATTN_PARTICIPATION], mass * mass / line->scan.squares);
    add_to_mean(&sums->means[ATTN_CONFIDENCE], top);
    add_to_mean(&sums->means[ATTN_SINK_LOGIT_MASS], 1 - mass > ROUNDED ? 1 - mass : 0);
    if (line->seen > 1) {
        add_to_mean(&sums->means[ATTN_NORMALIZED_ENTROPY], line->entropy / log((double)line->seen));
        add_to_mean(&sums->means[ATTN_SATURATED_ROWS], share >= SATURATED);
    }
    if (line->at > (int64_t)line->first && line->first < S)
        add_to_mean(&sums->means[ATTN_FIRST_TOKEN], line->p[line->first]);
    add_offsets(line, S, best, sums);
    add_local(line, S, plan->options->radius, sums);
    add_tokens(w, batch, line, sums);
    if (w->entries[batch].across)
        add_alignment(&w->entries[batch], line, sums);
    add_classes(plan, batch, line, sums);
    if (line->norms)
        add_values(line, sums);
    rows->tally(sums->received + line->from, sums->seen_by + line->from, line->p + line->from,
                line->visible + line->from, n);
    return best;
}

/* Adds the standard deviation and the maximum of the scores of the visible keys of a row. */
static void add_scores(const float *logits, size_t n, const attn_logit_scan *scan,
                       attn_measure_sums *sums) {
    const double seen = (double)scan->seen;
    sums->score_max = fmax(sums->score_max, (double)scan->most);
    if (scan->seen > 1)
        add_to_mean(&sums->means[ATTN_MEASURE_SCORE_SPREAD],
                    sqrt(attn_pointwise_current()->spread(logits, n, scan->total / seen) / seen));
}

/* Finds the visible keys of a row and returns their number. Scans the logits, if there are any. */
static size_t find_visible(const attn_measure_work *w, const attn_measure_lane *lane,
                           const float *logits, const attn_range *at, attn_logit_scan *scan) {
    const size_t S = w->plan->S;
    size_t seen = 0;
    attn_find_visible(w->source, w->plan->options->mask, logits, at, S, lane->visible);
    if (logits) {
        *scan = attn_pointwise_current()->scan_logits(logits, S);
        return scan->seen;
    }
    for (size_t j = 0; j < S; j++)
        seen += lane->visible[j];
    return seen;
}

/* Adds a row with its weights to the sums, and stores the key of its largest weight in *peak.
 * Returns false if the row has no weight. */
static bool add_weights(const attn_measure_work *w, attn_measure_part *part, size_t batch,
                        const float *weights, const float *logits, attn_measure_line *line,
                        size_t *peak) {
    const size_t from = line->from, n = line->to - from;
    const double mass = line->scan.mass;
    if (line->seen == 0 || !(mass > 0) || isinf(mass))
        return false;
    if (!logits || w->source->not_softmax ||
        !attn_analysis_logit_entropy(weights + from, logits + from, n, line->scores.most,
                                     &line->entropy))
        line->entropy = log(mass) - attn_sum_xlnx(line->p + from, n) / mass;
    if (line->entropy < 0)
        line->entropy = 0; /* rounding can make the entropy negative if one key has all weight */
    *peak = add_line(w, batch, line, &part->weights);
    if (logits)
        add_scores(logits + from, n, &line->scores, &part->weights);
    return true;
}

/* Computes the sums of a scan over the keys [line->from, line->to) of p [S]. */
static attn_weight_scan scan_doubles(const double *p, size_t S, const attn_measure_line *line) {
    const size_t n = line->to - line->from;
    const size_t split = attn_within(clamp(line->at, S), line->from, line->to) - line->from;
    const double *x = p + line->from, start = (double)line->from - (double)line->at;
    const double before = attn_ramp(x, split, start);
    const double behind = attn_ramp(x + split, n - split, start + (double)split);
    return (attn_weight_scan){.mass = attn_sum(x, n),
                              .squares = attn_dot(x, x, n),
                              .ramp = before + behind,
                              .reach = behind - before,
                              .most = n ? x[attn_pointwise_current()->largest(x, n)] : 0};
}

static void add_uniform(const attn_measure_work *w, attn_measure_part *part, size_t batch,
                        double *row, attn_measure_line *line) {
    const double even = 1 / (double)line->seen;
    for (size_t j = 0; j < w->plan->S; j++)
        row[j] = line->visible[j] ? even : 0;
    line->p = row;
    line->scan = scan_doubles(row, w->plan->S, line);
    line->scan.mass = 1;
    line->entropy = log((double)line->seen);
    line->peaks = false;
    add_line(w, batch, line, &part->uniform);
}

/* Widens the weights of a row to lane->p and scans those in [line->from, line->to). Returns whether
 * a hidden key has weight. */
static bool scan_weights(const attn_measure_lane *lane, const float *weights, size_t S,
                         attn_measure_line *line) {
    const attn_pointwise *rows = attn_pointwise_current();
    const size_t from = line->from, to = line->to;
    const uint8_t *visible = lane->visible;
    double *p = lane->p;
    if (line->seen < to - from || line->seen == 0) {
        const bool hidden = rows->widen_visible(p, weights, visible, S);
        line->scan = scan_doubles(p, S, line);
        return hidden;
    }
    line->scan =
        rows->scan_weights(p + from, weights + from, to - from, (double)from - (double)line->at);
    const bool before = rows->widen_visible(p, weights, visible, from);
    return rows->widen_visible(p + to, weights + to, visible + to, S - to) || before;
}

static void add_row(const attn_measure_work *w, attn_measure_part *part,
                    const attn_measure_lane *lane, const attn_range *at, size_t r) {
    const attn_mask *mask = w->plan->options->mask;
    const size_t S = w->plan->S, i = at->row + r;
    part->peaks[r] = SIZE_MAX;
    if (attn_row_is_padding(w->source, at->batch, i))
        return;
    const float *weights = lane->weights + r * S;
    const float *logits = w->source->has_logits ? lane->logits + r * S : NULL;
    attn_measure_line line = {.p = lane->p,
                              .visible = lane->visible,
                              .index = i,
                              .at = (int64_t)i,
                              .first = w->entries[at->batch].key,
                              .peaks = true};
    if (w->source->padding)
        line.padding = w->source->padding[at->batch].cols;
    if (w->plan->options->value_norms)
        line.norms = w->plan->options->value_norms + (at->batch * w->plan->H + at->head) * S;
    const attn_range row = {.batch = at->batch, .head = at->head, .row = i};
    line.seen = find_visible(w, lane, logits, &row, &line.scores);
    if (mask)
        line.at += attn_mask_repeated_offset(mask, at->batch);
    attn_find_span(lane->visible, S, &line.from, &line.to);
    if (scan_weights(lane, weights, S, &line))
        for (size_t j = 0; j < S; j++)
            part->hidden += lane->visible[j] ? 0 : (double)weights[j];
    if (!add_weights(w, part, at->batch, weights, logits, &line, &part->peaks[r]))
        part->blind++;
    if (line.seen > 0 &&
        attn_analysis_uniform_of(w, at->batch, at->head) == at->batch * w->plan->H + at->head)
        add_uniform(w, part, at->batch, lane->uniform, &line);
}

attn_status attn_analysis_measure_piece(void *work, size_t index, size_t lane_index,
                                        attn_error *err) {
    attn_measure_work *w = work;
    const attn_measure_plan *plan = w->plan;
    const attn_measure_lane *lane = &w->lanes[lane_index];
    const size_t map = index / plan->pieces, row = index % plan->pieces * plan->block;
    attn_range range = {.batch = map / plan->H,
                        .head = map % plan->H,
                        .row = row,
                        .rows = plan->L - row < plan->block ? plan->L - row : plan->block,
                        .cols = plan->S};
    ATTN_TRY(
        w->source->fetch(w->source->ctx, lane_index, &range, lane->weights, lane->logits, err));
    attn_drop_negative(w->source, lane->weights, range.rows * range.cols);
    for (size_t r = 0; r < range.rows; r++)
        add_row(w, &w->parts[index % plan->wave], lane, &range, r);
    return ATTN_OK;
}
