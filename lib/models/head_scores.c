/* Scores of heads (head_scores.h): a pass over a batch, then the measures of each site, and the
 * divergences between the rows of neighbouring sequences. */
#include "attn/head_scores.h"

#include <math.h>
#include <string.h>

#include "attn/analysis.h"
#include "base/try.h"
#include "models/head_batch.h"
#include "models/model_private.h"

#define SCORE_NAME(name, text, ...) text,
static const char *const names[] = {ATTN_HEAD_SCORE_LIST(SCORE_NAME)};
#undef SCORE_NAME

/* The measure (analysis.h) that each score is; ATTN_MEASURES: the score is no measure. */
static const attn_measure measures[ATTN_HEAD_SCORES] = {
    [ATTN_HEAD_INDUCTION] = ATTN_INDUCTION,
    [ATTN_HEAD_DUPLICATE] = ATTN_DUPLICATE_TOKEN,
    [ATTN_HEAD_PREVIOUS] = ATTN_PREVIOUS_TOKEN,
    [ATTN_HEAD_CURRENT] = ATTN_CURRENT_TOKEN,
    [ATTN_HEAD_NEXT] = ATTN_NEXT_TOKEN,
    [ATTN_HEAD_FIRST] = ATTN_FIRST_TOKEN,
    [ATTN_HEAD_SEPARATOR] = ATTN_MEASURES,
    [ATTN_HEAD_POSITIONAL] = ATTN_MEASURES,
    [ATTN_HEAD_ENTROPY] = ATTN_ENTROPY,
    [ATTN_HEAD_NORMALIZED_ENTROPY] = ATTN_NORMALIZED_ENTROPY,
};

const char *attn_head_score_name(attn_head_score score) {
    return score < ATTN_HEAD_SCORES ? names[score] : NULL;
}

size_t attn_head_count(const attn_model *model, bool encoder_only) {
    const attn_head_batch batch = {.encoder_only = encoder_only};
    size_t heads = 0;
    for (size_t i = 0; i < model->site_count; i++)
        heads += attn_models_head_is_scored(&batch, &model->sites[i]) ? model->sites[i].heads : 0;
    return heads;
}

/* --- the pass --- */

const attn_head_side *attn_models_head_queries(const attn_head_batch *batch,
                                               const attn_site *site) {
    return site->kind == ATTN_SITE_ENCODER ? &batch->source : &batch->target;
}

const attn_head_side *attn_models_head_keys(const attn_head_batch *batch, const attn_site *site) {
    return site->kind == ATTN_SITE_DECODER ? &batch->target : &batch->source;
}

attn_status attn_models_head_pass(const attn_head_subject *s, const attn_head_batch *batch,
                                  attn_arena *arena, attn_pool *pool, const attn_control *control,
                                  attn_model_outputs *out, attn_error *err) {
    const attn_forward_options options = {.keep = ATTN_KEEP_OPERATIONS, .no_logits = true};
    const attn_batch all = {.B = batch->count,
                            .S = batch->source.longest,
                            .T = batch->target.longest,
                            .source = batch->source.ids,
                            .source_lengths = batch->source.lengths,
                            .target = batch->target.ids};
    return attn_model_forward(s->model, &all, &options, arena, pool, control, out, err);
}

/* Returns which tokens of a side are padding, [count, longest]; NULL: memory ran out. */
static uint8_t *find_padding(const attn_head_side *side, size_t count, attn_arena *arena) {
    uint8_t *pads = attn_arena_zeroed(arena, count * side->longest, 1);
    for (size_t b = 0; pads && b < count; b++)
        for (size_t i = (size_t)side->lengths[b]; i < side->longest; i++)
            pads[b * side->longest + i] = 1;
    return pads;
}

attn_status attn_models_head_source(const attn_head_batch *batch, const attn_site *site,
                                    size_t lanes, attn_arena *arena, attn_weight_source *out,
                                    attn_error *err) {
    const attn_head_side *queries = attn_models_head_queries(batch, site),
                         *keys = attn_models_head_keys(batch, site);
    attn_padding *padding = attn_arena_zeroed(arena, batch->count, sizeof *padding);
    const uint8_t *rows = find_padding(queries, batch->count, arena),
                  *cols = find_padding(keys, batch->count, arena);
    ATTN_TAKEN(padding && rows && cols, "the padding of a batch", err);
    for (size_t b = 0; b < batch->count; b++)
        padding[b] = (attn_padding){rows + b * queries->longest, cols + b * keys->longest};
    ATTN_TRY(attn_attention_source(site->operation, site->stats, ATTN_STAGE_PROBS, lanes, arena,
                                   out, err));
    out->padding = padding;
    return ATTN_OK;
}

/* --- measures of a site --- */

/* Widens the ids of a side; NULL: memory ran out. */
static int64_t *widen(const attn_head_side *side, size_t count, attn_arena *arena) {
    const size_t n = count * side->longest;
    int64_t *ids = attn_arena_array(arena, n, sizeof *ids);
    for (size_t i = 0; ids && i < n; i++)
        ids[i] = side->ids[i];
    return ids;
}

/* Makes the class of separators of each sequence; NULL: memory ran out. */
static attn_key_class *find_separators(const attn_head_side *keys, size_t count,
                                       attn_arena *arena) {
    attn_key_class *classes = attn_arena_zeroed(arena, count, sizeof *classes);
    for (size_t b = 0; classes && b < count; b++) {
        size_t *list = attn_arena_array(arena, keys->longest, sizeof *list);
        classes[b] = (attn_key_class){names[ATTN_HEAD_SEPARATOR], list, 0};
        for (size_t j = 0; list && j < (size_t)keys->lengths[b]; j++)
            if (keys->separators[b * keys->longest + j])
                list[classes[b].count++] = j;
        if (!list)
            return NULL;
    }
    return classes;
}

/* Returns the options of the measures. If `arena` is NULL, they have no tokens and classes. */
static attn_status measure_options(const attn_head_batch *batch, const attn_site *site,
                                   attn_arena *arena, attn_measure_options *out, attn_error *err) {
    const attn_head_side *keys = attn_models_head_keys(batch, site);
    *out = attn_measure_defaults();
    out->across = site->kind == ATTN_SITE_CROSS;
    out->class_batches = batch->count;
    out->class_count = 1;
    out->classes = find_separators(keys, batch->count, arena);
    ATTN_TAKEN(out->classes, "the separators of a batch", err);
    if (out->across)
        return ATTN_OK;
    out->query_tokens = out->key_tokens = widen(keys, batch->count, arena);
    out->token_batches = batch->count;
    ATTN_TAKEN(out->query_tokens, "the tokens of a batch", err);
    return ATTN_OK;
}

/* Sets *to to the mean of n values, `step` elements apart. NaN values are left out. */
static void average(const double *values, size_t n, size_t step, attn_head_mean *to) {
    double sum = 0, square = 0;
    *to = (attn_head_mean){.mean = NAN, .spread = NAN};
    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i * step])) {
            sum += values[i * step];
            to->count++;
        }
    if (to->count)
        to->mean = sum / (double)to->count;
    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i * step]))
            square += (values[i * step] - to->mean) * (values[i * step] - to->mean);
    if (to->count > 1)
        to->spread = sqrt(square / (double)(to->count - 1));
}

/* Returns whether a sequence has a separator. */
static bool has_separator(const attn_head_side *keys, size_t b) {
    return memchr(keys->separators + b * keys->longest, 1, (size_t)keys->lengths[b]);
}

static double value_of(const attn_head_measures *m, attn_head_score score,
                       const attn_head_side *keys) {
    if (score == ATTN_HEAD_SEPARATOR)
        return has_separator(keys, m->batch) ? m->class_mass[0] : NAN;
    return m->values[measures[score]];
}

/* Measures the heads of a site, and sets the wanted scores that are measures. */
static attn_status measure(const attn_head_batch *batch, const attn_site *site,
                           const attn_weight_source *source, unsigned wanted, attn_arena *arena,
                           attn_pool *pool, const attn_control *control, attn_scored_head *heads,
                           attn_error *err) {
    attn_measure_options options;
    attn_measures found;
    const size_t B = batch->count, H = source->heads;
    double *values = attn_arena_array(arena, B, sizeof *values);
    ATTN_TAKEN(values, "the scores of a head", err);
    ATTN_TRY(measure_options(batch, site, arena, &options, err));
    ATTN_TRY(attn_measure_heads(source, &options, pool, control, arena, &found, err));
    for (size_t h = 0; h < H; h++)
        for (unsigned score = 0; score < ATTN_HEAD_SCORES; score++) {
            if (score == ATTN_HEAD_POSITIONAL || !(wanted & 1u << score))
                continue;
            for (size_t b = 0; b < B; b++)
                values[b] =
                    value_of(&found.items[b * H + h], score, attn_models_head_keys(batch, site));
            average(values, B, 1, &heads[h].scores[score]);
        }
    return ATTN_OK;
}

/* --- how much the position alone decides --- */

/* The heads of sequences `first` and later as batch entries with one head each: entry i is head i % H
 * of sequence first + i / H. */
typedef struct single_heads {
    const attn_weight_source *all;
    size_t first;
} single_heads;

static attn_status fetch_single(void *ctx, size_t lane, const attn_range *range, float *weights,
                                float *logits, attn_error *err) {
    const single_heads *s = ctx;
    attn_range inner = *range;
    inner.head = range->batch % s->all->heads;
    inner.batch = s->first + range->batch / s->all->heads;
    return s->all->fetch(s->all->ctx, lane, &inner, weights, logits, err);
}

static attn_status single_out(const attn_weight_source *all, single_heads *s, attn_arena *arena,
                              attn_weight_source *out, attn_error *err) {
    const size_t entries = (all->batches - 1) * all->heads;
    attn_padding *padding = attn_arena_array(arena, entries, sizeof *padding);
    ATTN_TAKEN(padding, "the padding of a batch", err);
    for (size_t i = 0; i < entries; i++)
        padding[i] = all->padding[s->first + i / all->heads];
    *out = *all;
    out->batches = entries;
    out->heads = 1;
    out->fetch = fetch_single;
    out->ctx = s;
    out->padding = padding;
    return ATTN_OK;
}

/* Compares each sequence with the one before it. */
static attn_status compare_positions(const attn_weight_source *all, attn_arena *arena,
                                     attn_pool *pool, const attn_control *control,
                                     attn_scored_head *heads, attn_error *err) {
    single_heads before = {all, 0}, after = {all, 1};
    attn_weight_source a, b;
    attn_head_distances *found;
    const size_t H = all->heads, pairs = all->batches - 1;
    double *scores = attn_arena_array(arena, pairs * H, sizeof *scores);
    ATTN_TAKEN(scores, "the scores of heads", err);
    if (pairs) {
        ATTN_TRY(single_out(all, &before, arena, &a, err));
        ATTN_TRY(single_out(all, &after, arena, &b, err));
        ATTN_TRY(
            attn_head_distances_measure(&a, NULL, &b, NULL, pool, control, arena, &found, err));
    }
    for (size_t i = 0; i < pairs * H; i++)
        scores[i] = 1 - found[i].js[0] / log(2);
    for (size_t h = 0; h < H; h++)
        average(scores + h, pairs, H, &heads[h].scores[ATTN_HEAD_POSITIONAL]);
    return ATTN_OK;
}

/* --- all sites --- */

static attn_status score_site(const attn_head_batch *batch, const attn_site *site, unsigned wanted,
                              attn_arena *arena, attn_pool *pool, const attn_control *control,
                              attn_scored_head *heads, attn_error *err) {
    attn_weight_source source;
    for (size_t h = 0; h < site->heads; h++) {
        heads[h].kind = site->kind;
        heads[h].layer = site->layer;
        heads[h].head = h;
    }
    ATTN_TRY(attn_models_head_source(batch, site, attn_pool_slots(pool), arena, &source, err));
    ATTN_TRY(measure(batch, site, &source, wanted, arena, pool, control, heads, err));
    return wanted & 1u << ATTN_HEAD_POSITIONAL
               ? compare_positions(&source, arena, pool, control, heads, err)
               : ATTN_OK;
}

attn_status attn_head_score_all(const attn_head_subject *subject, const attn_head_batch *batch,
                                unsigned wanted, attn_arena *arena, attn_pool *pool,
                                const attn_control *control, attn_scored_head *heads,
                                attn_error *err) {
    const attn_arena_mark start = attn_arena_here(arena);
    attn_model_outputs out;
    attn_status status = attn_models_head_pass(subject, batch, arena, pool, control, &out, err);
    for (size_t i = 0; !status && i < out.site_count; i++) {
        const attn_arena_mark mark = attn_arena_here(arena);
        if (!attn_models_head_is_scored(batch, &out.sites[i]))
            continue;
        status = score_site(batch, &out.sites[i], wanted, arena, pool, control, heads, err);
        heads += out.sites[i].heads;
        attn_arena_rewind(arena, &mark);
    }
    attn_arena_rewind(arena, &start);
    return status;
}

/* --- cost --- */

/* Adds the cost of the measures of a site. Their memory is given back before the next site, so
 * *most is the largest. */
static void add_site(const attn_head_batch *batch, const attn_site *site, size_t slots,
                     attn_model_cost *cost, double *most) {
    const double B = (double)batch->count, H = (double)site->heads;
    const size_t L = attn_models_head_queries(batch, site)->longest,
                 S = attn_models_head_keys(batch, site)->longest;
    attn_measure_options options = attn_measure_defaults();
    attn_cost measured = {0}, compared = {0};
    options.class_count = 1;
    options.class_batches = batch->count;
    if (attn_measure_cost(&options, batch->count, site->heads, L, S, slots, &measured, NULL) ||
        attn_head_distances_cost(batch->count * site->heads, 1, 1, L, S, slots, &compared, NULL))
        cost->bytes = INFINITY;
    const double lanes = (double)slots * (4096.0 * (double)S + (4 << 20));
    const double lists = B * (32 * ((double)L + (double)S) + 16 * H * sizeof(attn_padding));
    cost->cells += measured.cells + compared.cells;
    cost->operations += measured.operations + compared.operations;
    *most =
        fmax(*most, lanes + lists + (double)measured.work_bytes + (double)measured.result_bytes +
                        (double)compared.work_bytes + (double)compared.result_bytes);
}

attn_model_cost attn_head_cost(const attn_head_subject *subject, const attn_head_batch *batch,
                               size_t slots) {
    const attn_model *m = subject->model;
    const attn_model_pass pass = {.B = batch->source.longest ? batch->count : 0,
                                  .S = batch->source.longest,
                                  .rows = batch->target.longest ? batch->count : 0,
                                  .T = batch->target.longest,
                                  .no_logits = true};
    attn_model_cost cost = attn_model_pass_cost(m, &pass, slots);
    double most = 0;
    for (size_t i = 0; i < m->site_count; i++)
        if (attn_models_head_is_scored(batch, &m->sites[i]))
            add_site(batch, &m->sites[i], slots, &cost, &most);
    cost.bytes += most;
    return cost;
}
