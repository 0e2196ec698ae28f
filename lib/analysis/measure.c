/* Computes the measures of heads. A piece of work sums a block of rows (measure_rows.c). The pool
 * computes a wave of several blocks; then their sums are merged in block order, so results do not
 * depend on threads. Memory holds the sums of one wave only, whatever the number of heads. The
 * measures of a head are computed from its sums. */
#include <attn/text.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/measure_private.h"
#include "analysis/order.h"
#include "analysis/sums.h"
#include "base/sweep.h"
#include "base/try.h"

static double mean_of(const attn_mean *m) {
    return m->count ? m->sum / (double)m->count : NAN;
}

static double ratio_of(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}

static int compare_doubles(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Returns the n-th offset of 0, -1, 1, -2, 2, …. A search in this order that keeps the first
 * maximum finds the offset nearest to 0. Of two equally near offsets it finds the negative one. */
static int64_t nth_offset(int64_t n) {
    return n % 2 ? -(n + 1) / 2 : n / 2;
}

static void finish_offsets(const attn_measure_sums *sums, double *values) {
    int64_t best = 0;
    for (int64_t n = 1; n < ATTN_DIAGONALS; n++)
        if (sums->peak[ATTN_OFFSETS + nth_offset(n)] > sums->peak[ATTN_OFFSETS + best])
            best = nth_offset(n);
    bool any = sums->peak[ATTN_OFFSETS + best] > 0;
    values[ATTN_PREVIOUS_TOKEN] = mean_of(&sums->diagonal[ATTN_OFFSETS - 1]);
    values[ATTN_CURRENT_TOKEN] = mean_of(&sums->diagonal[ATTN_OFFSETS]);
    values[ATTN_NEXT_TOKEN] = mean_of(&sums->diagonal[ATTN_OFFSETS + 1]);
    values[ATTN_POSITIONAL_OFFSET] = any ? (double)best : NAN;
    values[ATTN_POSITIONAL_SHARE] =
        any ? ratio_of((double)sums->peak[ATTN_OFFSETS + best], (double)sums->rows) : NAN;
    values[ATTN_POSITIONAL_MASS] = any ? mean_of(&sums->diagonal[ATTN_OFFSETS + best]) : NAN;
}

static double alpha_of_key(const attn_measure_sums *sums, size_t key) {
    return ratio_of(sums->received[key], (double)sums->seen_by[key]);
}

static void finish_sink(const attn_measure_plan *plan, const attn_measure_sums *sums,
                        double *values) {
    values[ATTN_SINK] = values[ATTN_SINK_KEY] = NAN;
    for (size_t k = 0; k < plan->S; k++) {
        bool counts = sums->seen_by[k] > 0 && 2 * sums->seen_by[k] >= sums->rows;
        if (counts && !(alpha_of_key(sums, k) <= values[ATTN_SINK])) {
            values[ATTN_SINK] = alpha_of_key(sums, k);
            values[ATTN_SINK_KEY] = (double)k;
        }
    }
}

/* Computes top_share and gini. `keys` is the number of keys that are no padding, `sorted` [S]
 * working memory. */
static void finish_received(const attn_measure_plan *plan, const attn_measure_sums *sums,
                            size_t keys, double *sorted, double *values) {
    size_t n = 0, heavy = keys / 5 + (keys % 5 != 0);
    double top = 0, ranked = 0, all;
    for (size_t j = 0; j < plan->S; j++)
        if (sums->seen_by[j] > 0)
            sorted[n++] = sums->received[j];
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, compare_doubles);
    all = attn_sum(sorted, n);
    for (size_t r = n > heavy ? n - heavy : 0; r < n; r++)
        top += sorted[r];
    for (size_t r = 0; r < n; r++)
        ranked += (2 * (double)(r + 1) - (double)n - 1) * sorted[r];
    values[ATTN_TOP_SHARE] = ratio_of(top, all);
    values[ATTN_GINI] = ratio_of(ranked, all * (double)n);
}

/* Computes the measures of a head from its sums. `keys` is the number of keys that are no padding,
 * `sorted` [S] working memory. */
static void finish_sums(const attn_measure_plan *plan, const attn_measure_sums *sums, size_t keys,
                        double *sorted, double values[ATTN_MEASURES]) {
    for (size_t m = 0; m < ATTN_MEASURES; m++)
        values[m] = mean_of(&sums->means[m]);
    if (sums->rows == 0)
        return;
    values[ATTN_DISTANCE] = ratio_of(sums->weighted, sums->mass);
    values[ATTN_SIGNED_DISTANCE] = ratio_of(sums->looked, sums->mass);
    values[ATTN_MEASURE_SCORE_MAX] = isfinite(sums->score_max) ? sums->score_max : NAN;
    finish_offsets(sums, values);
    finish_sink(plan, sums, values);
    finish_received(plan, sums, keys, sorted, values);
}

/* Stores the keys with the most mass in out [options->top_keys], and returns the number of these
 * keys. */
static size_t find_top_keys(const attn_measure_plan *plan, const attn_measure_sums *sums,
                            attn_key_mass *out) {
    size_t most = plan->options->top_keys, n = 0;
    for (size_t j = 0; j < plan->S && most > 0; j++) {
        double mass = sums->received[j];
        if (sums->seen_by[j] == 0 || (n == most && mass <= out[n - 1].mass))
            continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && out[at - 1].mass < mass; at--)
            out[at] = out[at - 1];
        out[at] = (attn_key_mass){j, mass, alpha_of_key(sums, j)};
    }
    return n;
}

enum {
    PIECE_WEIGHTS = 1 << 18, /* weights that a piece of work reads: a few milliseconds */
    WAVE_BYTES = 8 << 20,    /* bytes that the sums of a wave may take */
    WAVE_LEAST = 8,          /* smallest number of blocks in a wave; enough for several threads */
    WAVE_MOST = 256,         /* largest number of blocks in a wave */
    BLOCK_LEAST = 16,        /* fewest rows in a block; a merge takes the time of several rows */
};

attn_measure_options attn_measure_defaults(void) {
    return (attn_measure_options){.radius = 2, .top_keys = 5};
}

static attn_status check_segments(const uint32_t *segments, size_t n, size_t count,
                                  attn_error *err) {
    for (size_t i = 0; i < n; i++)
        if (segments[i] >= count)
            return attn_fail(err, ATTN_EARG, "segments",
                             "segment %" PRIu32 " is outside the %zu segment%s, counted from 0",
                             segments[i], count, attn_plural(count));
    return ATTN_OK;
}

static attn_status check_options(const attn_measure_options *o, size_t L, size_t S,
                                 attn_error *err) {
    if (o->class_count > ATTN_CLASSES_MOST)
        return attn_fail(err, ATTN_EARG, "classes", "at most %d classes, found %zu",
                         ATTN_CLASSES_MOST, o->class_count);
    if (o->segment_count > ATTN_SEGMENTS_MOST)
        return attn_fail(err, ATTN_EARG, "segments", "at most %d segments, found %zu",
                         ATTN_SEGMENTS_MOST, o->segment_count);
    for (size_t c = 0; c < o->class_count * attn_measure_batches(o->class_batches); c++)
        for (size_t k = 0; k < o->classes[c].count; k++)
            if (o->classes[c].keys[k] >= S)
                return attn_fail(err, ATTN_EARG, "classes",
                                 "key %zu of \"%.40s\" is outside the %zu key%s, counted from 0",
                                 o->classes[c].keys[k], o->classes[c].name, S, attn_plural(S));
    if (o->segment_count == 0)
        return ATTN_OK;
    ATTN_TRY(check_segments(o->query_segments, L, o->segment_count, err));
    return check_segments(o->key_segments, S, o->segment_count, err);
}

/* --- memory --- */

static void place_sums(attn_area *area, const attn_measure_plan *p, attn_measure_sums *sums) {
    sums->received = attn_area_take(area, p->S, sizeof *sums->received);
    sums->seen_by = attn_area_take(area, p->S, sizeof *sums->seen_by);
}

static void place_part(attn_area *area, const attn_measure_plan *p, size_t rows,
                       attn_measure_part *part) {
    part->peaks = attn_area_take(area, rows, sizeof *part->peaks);
    place_sums(area, p, &part->weights);
    place_sums(area, p, &part->uniform);
}

static void place_measure_lane(const void *work, attn_area *area, void *to) {
    const attn_measure_plan *p = ((const attn_measure_work *)work)->plan;
    attn_measure_lane *lane = to;
    lane->weights = attn_area_take_3(area, p->block, p->S, 1, sizeof *lane->weights);
    lane->logits = attn_area_take_3(area, p->block, p->S, 1, sizeof *lane->logits);
    lane->p = attn_area_take(area, p->S, sizeof *lane->p);
    lane->uniform = attn_area_take(area, p->S, sizeof *lane->uniform);
    lane->visible = attn_area_take(area, p->S, 1);
}

static attn_links *place_links(attn_area *area, const attn_measure_plan *p, size_t sets) {
    attn_links *all = attn_area_take(area, sets, sizeof *all);
    for (size_t i = 0; i < sets; i++) {
        size_t *next = attn_area_take(area, p->S, sizeof *next);
        size_t *entry = attn_area_take(area, p->L, sizeof *entry);
        if (area->base)
            all[i] = (attn_links){next, entry};
    }
    return all;
}

static void place_result(attn_measure_work *w, attn_area *area) {
    const attn_measure_plan *p = w->plan;
    const size_t C = p->options->class_count, G = p->options->segment_count;
    const size_t heads = p->B * p->H;
    attn_head_measures *items = attn_area_take(area, heads, sizeof *items);
    double *numbers = attn_area_take_3(area, heads, 2 * C + G * G, 1, sizeof *numbers);
    attn_key_mass *top = attn_area_take_3(area, heads, p->options->top_keys, 1, sizeof *top);
    w->out = (attn_measures){.items = items, .count = heads, .batches = p->B, .heads = p->H};
    for (size_t i = 0; area->base && i < heads; i++, numbers += 2 * C + G * G)
        items[i] = (attn_head_measures){.batch = i / p->H,
                                        .head = i % p->H,
                                        .class_mass = numbers,
                                        .class_uniform = numbers + C,
                                        .blocks = numbers + 2 * C,
                                        .top = top + i * p->options->top_keys};
}

static void place_measures(void *work, attn_area *area) {
    attn_measure_work *w = work;
    const attn_measure_plan *p = w->plan;
    const attn_measure_options *o = p->options;
    w->parts = attn_area_take(area, p->wave + 1, sizeof *w->parts);
    for (size_t i = 0; i <= p->wave; i++) {
        attn_measure_part part;
        place_part(area, p, i < p->wave ? p->block : p->L, area->base ? &w->parts[i] : &part);
    }
    w->received = attn_area_take(area, p->S, sizeof *w->received);
    w->entries = attn_area_take(area, p->B, sizeof *w->entries);
    w->sorted = attn_area_take(area, p->S, sizeof *w->sorted);
    w->equals = o->query_tokens ? place_links(area, p, o->token_batches) : NULL;
    w->kin = o->query_kinds ? place_links(area, p, attn_measure_batches(o->kind_batches)) : NULL;
    place_result(w, area);
}

/* --- the rows and keys of a batch entry --- */

static void clear_sums(attn_measure_sums *sums, size_t S) {
    double *received = sums->received;
    uint64_t *seen_by = sums->seen_by;
    memset(received, 0, S * sizeof *received);
    memset(seen_by, 0, S * sizeof *seen_by);
    *sums = (attn_measure_sums){.received = received, .seen_by = seen_by, .score_max = -INFINITY};
}

static void clear_part(attn_measure_part *part, size_t S) {
    clear_sums(&part->weights, S);
    clear_sums(&part->uniform, S);
    part->blind = 0;
    part->hidden = 0;
}

static void link_tokens(attn_measure_work *w) {
    const attn_measure_plan *p = w->plan;
    const attn_measure_options *o = p->options;
    for (size_t b = 0; w->equals && b < o->token_batches; b++)
        attn_analysis_link_equals(o->query_tokens + b * p->L, p->L, o->key_tokens + b * p->S, p->S,
                                  attn_mask_repeated_offset(o->mask, b), w->sorted, &w->equals[b]);
    for (size_t b = 0; w->kin && b < attn_measure_batches(o->kind_batches); b++)
        attn_analysis_link_kin(o->query_kinds + b * p->L, p->L, o->key_kinds + b * p->S, p->S,
                               w->sorted, &w->kin[b]);
}

/* Sets [*from, *to) to the smallest interval with all rows, or keys, that are no padding, and
 * *count to their number. `padding` NULL: there is no padding. */
static void find_real(const uint8_t *padding, size_t n, size_t *from, size_t *to, size_t *count) {
    *from = *count = 0;
    *to = n;
    for (size_t i = 0; i < n; i++)
        *count += !(padding && padding[i]);
    while (padding && *to > 0 && padding[*to - 1])
        --*to;
    while (padding && *from < *to && padding[*from])
        ++*from;
}

/* Returns whether, for at least one query i that is no padding, key t_i has another token or does
 * not exist. */
static bool tokens_differ(const attn_measure_work *w, size_t batch, int64_t offset) {
    const attn_measure_plan *p = w->plan;
    const attn_measure_options *o = p->options;
    const size_t set = o->query_tokens ? attn_repeated_entry(batch, o->token_batches) : 0;
    for (size_t i = 0; o->query_tokens && i < p->L; i++) {
        const int64_t at = (int64_t)i + offset;
        if (!attn_row_is_padding(w->source, batch, i) &&
            (at < 0 || (uint64_t)at >= p->S ||
             o->query_tokens[set * p->L + i] != o->key_tokens[set * p->S + (size_t)at]))
            return true;
    }
    return false;
}

/* Returns whether queries and keys are different sequences (attn_measure_options.across). */
static bool is_across(const attn_measure_work *w, size_t batch, const attn_measure_entry *e) {
    const attn_measure_options *o = w->plan->options;
    const size_t entries = o->mask ? attn_mask_batches(o->mask) : 0;
    const int64_t offset = attn_mask_repeated_offset(o->mask, batch);
    size_t lo[2] = {0, 0}, hi[2] = {0, 0};
    if (o->across || e->row == e->row_end || e->key == e->key_end)
        return o->across;
    if (o->query_tokens)
        return tokens_differ(w, batch, offset);
    for (size_t end = 0; entries && end < 2; end++)
        attn_mask_interval(o->mask, attn_repeated_entry(batch, entries),
                           end ? e->row_end - 1 : e->row, &lo[end], &hi[end]);
    return e->row_end - e->row != e->key_end - e->key && offset == 0 && lo[0] == lo[1] &&
           hi[0] == hi[1];
}

static void find_entries(attn_measure_work *w) {
    const attn_measure_plan *p = w->plan;
    for (size_t b = 0; b < p->B; b++) {
        const attn_padding none = {0},
                           *padding = w->source->padding ? &w->source->padding[b] : &none;
        attn_measure_entry *e = &w->entries[b];
        size_t rows;
        find_real(padding->rows, p->L, &e->row, &e->row_end, &rows);
        find_real(padding->cols, p->S, &e->key, &e->key_end, &e->keys);
        e->across = is_across(w, b, e);
    }
    for (size_t i = 0; i < w->out.count; i++)
        w->out.items[i].across = w->entries[w->out.items[i].batch].across;
}

/* --- merging --- */

static void merge_mean(attn_mean *to, const attn_mean *from) {
    to->sum += from->sum;
    to->count += from->count;
}

static void merge_sums(const attn_measure_plan *p, attn_measure_sums *to,
                       const attn_measure_sums *from) {
    const size_t G = p->options->segment_count;
    to->rows += from->rows;
    to->mass += from->mass;
    to->weighted += from->weighted;
    to->looked += from->looked;
    to->score_max = fmax(to->score_max, from->score_max);
    for (size_t m = 0; m < ATTN_MEASURES; m++)
        merge_mean(&to->means[m], &from->means[m]);
    merge_mean(&to->aligned, &from->aligned);
    for (size_t k = 0; k < ATTN_DIAGONALS; k++) {
        merge_mean(&to->diagonal[k], &from->diagonal[k]);
        to->peak[k] += from->peak[k];
    }
    for (size_t c = 0; c < p->options->class_count; c++)
        to->class_mass[c] += from->class_mass[c];
    for (size_t i = 0; i < G * G; i++)
        to->blocks[i] += from->blocks[i];
    for (size_t i = 0; i < G; i++)
        to->segment_rows[i] += from->segment_rows[i];
    for (size_t j = 0; j < p->S; j++) {
        to->received[j] += from->received[j];
        to->seen_by[j] += from->seen_by[j];
    }
}

/* Finds out whether the peaks of the rows are in order (attn_head_measures.ordered). Rows without
 * weight and rows of special tokens do not count. */
static void find_order(const attn_measure_plan *p, const attn_measure_part *all,
                       attn_head_measures *out) {
    const uint64_t *seen_by = all->weights.seen_by;
    const attn_measure_options *o = p->options;
    const size_t entry = attn_repeated_entry(out->batch, o->special_batches);
    const uint8_t *special = o->query_special ? o->query_special + entry * p->L : NULL;
    size_t n = 0, from = 0, to = p->S;
    for (size_t i = 0; i < p->L; i++)
        if (all->peaks[i] != SIZE_MAX && !(special && special[i]))
            all->peaks[n++] = all->peaks[i];
    while (to > 0 && !seen_by[to - 1])
        to--;
    while (from < to && !seen_by[from])
        from++;
    out->ordered = out->across && attn_analysis_order(all->peaks, n, from, to, &out->exchanges);
}

/* Computes the measures of a head from its sums. `base` is a head with the same uniform attention
 * (attn_analysis_uniform_of), or `out` itself. */
static void finish_head(const attn_measure_work *work, const attn_head_measures *base,
                        attn_head_measures *out) {
    const attn_measure_plan *p = work->plan;
    const attn_measure_part *all = &work->parts[p->wave];
    const size_t keys = work->entries[out->batch].keys;
    const attn_measure_sums *w = &all->weights, *u = &all->uniform;
    const size_t C = p->options->class_count, G = p->options->segment_count;
    out->rows = w->rows;
    out->blind = all->blind;
    out->hidden_mass = p->L ? all->hidden / (double)p->L : 0;
    finish_sums(p, w, keys, work->received, out->values);
    if (base == out)
        finish_sums(p, u, keys, work->received, out->uniform);
    else
        memcpy(out->uniform, base->uniform, sizeof out->uniform);
    out->values[ATTN_RELATIVE_DISTANCE] =
        out->uniform[ATTN_DISTANCE] > 0 ? out->values[ATTN_DISTANCE] / out->uniform[ATTN_DISTANCE]
                                        : NAN;
    out->uniform[ATTN_RELATIVE_DISTANCE] = out->uniform[ATTN_DISTANCE] > 0 ? 1 : NAN;
    for (size_t c = 0; c < C; c++) {
        out->class_mass[c] = w->class_mass[c] / (double)w->rows;
        out->class_uniform[c] =
            base == out ? u->class_mass[c] / (double)u->rows : base->class_uniform[c];
    }
    for (size_t i = 0; i < G * G; i++)
        out->blocks[i] = w->blocks[i] / (double)w->segment_rows[i / G];
    out->aligned = mean_of(&w->aligned);
    out->aligned_uniform = base == out ? mean_of(&u->aligned) : base->aligned_uniform;
    find_order(p, all, out);
    out->top_count = find_top_keys(p, w, out->top);
}

static void merge_wave(void *work, size_t first, size_t count) {
    const attn_measure_work *w = work;
    const attn_measure_plan *p = w->plan;
    attn_measure_part *all = &w->parts[p->wave];
    for (size_t i = 0; i < count; i++) {
        const size_t map = (first + i) / p->pieces, row = (first + i) % p->pieces * p->block;
        attn_measure_part *part = &w->parts[i];
        merge_sums(p, &all->weights, &part->weights);
        merge_sums(p, &all->uniform, &part->uniform);
        all->blind += part->blind;
        all->hidden += part->hidden;
        memcpy(all->peaks + row, part->peaks,
               (p->L - row < p->block ? p->L - row : p->block) * sizeof *all->peaks);
        clear_part(part, p->S);
        if ((first + i + 1) % p->pieces)
            continue;
        const size_t base = attn_analysis_uniform_of(w, map / p->H, map % p->H);
        finish_head(w, &w->out.items[base], &w->out.items[map]);
        clear_part(all, p->S);
    }
    attn_control_tell(w->control, first + count, w->out.count * p->pieces);
}

/* --- the sweep --- */

static const attn_sweep measure_sweep = {
    sizeof(attn_measure_lane),   place_measure_lane, place_measures,
    attn_analysis_measure_piece, merge_wave,
};

static attn_status make_plan(const attn_measure_options *options, size_t B, size_t H, size_t L,
                             size_t S, size_t slots, attn_measure_plan *out, attn_error *err) {
    attn_measure_plan p = {.options = options, .B = B, .H = H, .L = L, .S = S};
    attn_measure_work work = {.plan = &p};
    attn_measure_part part;
    attn_area one = {0}, result = {0};
    size_t heads;
    if (!attn_size_mul(B, H, &heads))
        return attn_fail(err, ATTN_ELIMIT, "", "too many heads to count");
    p.block = attn_within(PIECE_WEIGHTS / (S ? S : 1), BLOCK_LEAST, L ? L : 1);
    p.block = attn_within(p.block, 1, L ? L : 1);
    p.pieces = L / p.block + (L % p.block != 0);
    place_part(&one, &p, p.block, &part);
    p.wave = attn_within(WAVE_BYTES / (one.used + sizeof part), WAVE_LEAST, WAVE_MOST);
    p.wave = attn_within(p.wave, 1, heads * p.pieces > 0 ? heads * p.pieces : 1);
    const attn_area all = attn_sweep_count(&measure_sweep, &work, slots);
    place_result(&work, &result);
    p.result_bytes = result.content;
    p.work_bytes = all.used - result.content;
    if (all.overflow)
        return attn_fail(err, ATTN_ELIMIT, "", "measures of %zu x %zu weights are too large", p.L,
                         S);
    *out = p;
    return ATTN_OK;
}

attn_status attn_measure_cost(const attn_measure_options *options, size_t B, size_t H, size_t L,
                              size_t S, size_t slots, attn_cost *out, attn_error *err) {
    attn_measure_plan p = {.options = options};
    ATTN_TRY(make_plan(options, B, H, L, S, slots, &p, err));
    double cells = (double)B * (double)H * (double)L * (double)S;
    *out = (attn_cost){.cells = cells,
                       /* 30 operations of each cell: sums, squares, moments, a logarithm, sums of
                        * columns */
                       .operations = 30 * cells,
                       .work_bytes = p.work_bytes,
                       .result_bytes = p.result_bytes};
    return ATTN_OK;
}

attn_status attn_measure_heads(const attn_weight_source *source,
                               const attn_measure_options *options, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_measures *out,
                               attn_error *err) {
    attn_measure_plan plan;
    attn_measure_work work = {.plan = &plan, .source = source, .control = control};
    const size_t slots = attn_pool_slots(pool);
    ATTN_TRY(check_options(options, source->rows, source->cols, err));
    ATTN_TRY(make_plan(options, source->batches, source->heads, source->rows, source->cols, slots,
                       &plan, err));
    work.lanes = attn_sweep_open(&measure_sweep, &work, slots, arena);
    ATTN_TAKEN(work.lanes, "the measures of heads", err);
    for (size_t i = 0; i <= plan.wave; i++)
        clear_part(&work.parts[i], plan.S);
    link_tokens(&work);
    find_entries(&work);
    ATTN_TRY(attn_sweep_run(&measure_sweep, &work, work.out.count * plan.pieces, plan.wave, pool,
                            control, err));
    for (size_t i = 0; plan.pieces == 0 && i < work.out.count; i++)
        finish_head(&work, &work.out.items[i], &work.out.items[i]);
    *out = work.out;
    return ATTN_OK;
}
