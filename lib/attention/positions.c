/* Positions inside the operation (position_rule.h): checks and compiles their parameters, and
 * computes biases by distance (ALiBi, T5, relative tables). Tables of vectors are in
 * distance_vectors.c, and rotary positions in rotary.c. */
#include "attention/position_rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/position_checks.h"
#include "attention/resolved.h"
#include "base/try.h"

void attn_alibi_slopes(size_t H, double *slopes) {
    size_t n = 1;
    while (n * 2 <= H)
        n *= 2;
    for (size_t h = 0; h < H; h++)
        slopes[h] = h < n ? exp2(-8.0 * (double)(h + 1) / (double)n)
                          : exp2(-4.0 * (double)(2 * (h - n) + 1) / (double)n);
}

static attn_status new_alibi(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &attn_score_position(&a->in)->slopes;
    const size_t H = a->dims.Hq;
    double *slopes = attn_arena_zeroed(arena, H, sizeof *slopes);
    ATTN_TAKEN(slopes, "positions", err);
    attn_alibi_slopes(H, slopes);
    if (t->rank) {
        ATTN_TRY(attn_position_check(t, "position/slopes", 1, 0, H, "", err));
        for (size_t h = 0; h < H; h++)
            slopes[h] = attn_tensor_number(t, h, 0);
    }
    a->rule.biases = true;
    a->rule.slopes = slopes;
    return ATTN_OK;
}

/* Makes rule.table [Hq, entries] from the position's table. That table has the same shape or, with
 * head_columns, the shape [entries, Hq]. */
static attn_status new_table(attn_attention *a, attn_arena *arena, size_t entries,
                             bool head_columns, attn_error *err) {
    const attn_tensor *t = &attn_score_position(&a->in)->table;
    size_t count;
    double *table = NULL;
    if (attn_tensor_count(t, &count))
        table = attn_arena_zeroed(arena, count, sizeof *table);
    ATTN_TAKEN(table, "positions", err);
    for (size_t h = 0; h < a->dims.Hq; h++)
        for (size_t e = 0; e < entries; e++)
            table[h * entries + e] =
                head_columns ? attn_tensor_number(t, e, h) : attn_tensor_number(t, h, e);
    a->rule.biases = true;
    a->rule.table = table;
    a->rule.entries = entries;
    return ATTN_OK;
}

static attn_status new_t5(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_position *p = attn_score_position(&a->in);
    ATTN_TRY(attn_position_check(&p->table, "position/table", 2, 1, a->dims.Hq, "buckets", err));
    const size_t buckets = p->table.dims[0], side = p->unidirectional ? buckets : buckets / 2;
    if (side < 2 || (!p->unidirectional && buckets % 2))
        return attn_fail(err, ATTN_EARG, "position/table",
                         "T5 positions need at least 2 buckets a side, found %zu in all", buckets);
    if (attn_t5_distance(p) <= (int64_t)(side / 2) || attn_t5_distance(p) > 1 << 20)
        return attn_fail(err, ATTN_EARG, "position/max_distance",
                         "expected a distance beyond half of the %zu buckets a side and at most "
                         "1,048,576, found %lld",
                         side, (long long)attn_t5_distance(p));
    return attn_position_nearest(a, side, arena) ? new_table(a, arena, buckets, true, err)
                                                 : attn_no_memory(err, "positions");
}

static attn_status new_relative(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &attn_score_position(&a->in)->table;
    ATTN_TRY(attn_position_check(t, "position/table", 2, 0, a->dims.Hq,
                                 "2m + 1 (distances -m to m)", err));
    ATTN_TRY(attn_position_check_odd(t, "position/table", 1, err));
    a->rule.max_distance = (int64_t)(t->dims[1] / 2);
    return new_table(a, arena, t->dims[1], false, err);
}

/* Returns the largest position of a key + 1, or 0 if no key has one. */
static double length_of_keys(const attn_attention *a) {
    const attn_sequence_positions *p = &a->key_positions;
    const size_t n = (p->entry ? a->dims.B : 1) * a->dims.S;
    int64_t last = -1;
    for (size_t i = 0; p->given && i < n; i++)
        last = p->given[i] > last ? p->given[i] : last;
    return p->given ? (double)last + 1 : (double)a->dims.S;
}

static attn_status new_position(attn_attention *a, attn_position_kind kind, attn_arena *arena,
                                attn_error *err) {
    const attn_score_plan *plan = &a->plan;
    if ((kind == ATTN_POSITION_SHAW || kind == ATTN_POSITION_DISENTANGLED ||
         kind == ATTN_POSITION_ROTARY) &&
        (plan->query_map.rank || plan->key_map.rank || plan->v.rank))
        return attn_fail(
            err, ATTN_EARG, "position/kind",
            "these positions are defined for the dot product of query and key; use the "
            "score scaled_dot or dot");
    switch (kind) {
    case ATTN_POSITION_NONE:
        return ATTN_OK;
    case ATTN_POSITION_ALIBI:
        return new_alibi(a, arena, err);
    case ATTN_POSITION_T5:
        return new_t5(a, arena, err);
    case ATTN_POSITION_RELATIVE:
        return new_relative(a, arena, err);
    case ATTN_POSITION_SHAW:
    case ATTN_POSITION_DISENTANGLED:
        return attn_vectors_new(a, arena, err);
    case ATTN_POSITION_ROTARY:
        return attn_rotary_new(&a->in.position, a->dims.E, length_of_keys(a), arena,
                               &a->rule.rotary, err);
    case ATTN_POSITION_SINUSOIDAL:
        return ATTN_OK;
    case ATTN_POSITION_LEARNED:
        return attn_position_check_finite(&a->in.position.table, "position/table", err);
    }
    return attn_fail(err, ATTN_EARG, "position/kind", "unknown kind of position");
}

attn_status attn_position_new(attn_attention *a, attn_arena *arena, attn_error *err) {
    ATTN_TRY(new_position(a, a->in.position.kind, arena, err));
    const attn_status status = new_position(a, a->in.score_position.kind, arena, err);
    char where[sizeof err->where];
    if (status && strncmp(err->where, "position/", 9) == 0) {
        snprintf(where, sizeof where, "score_%.*s", (int)sizeof where - 7, err->where);
        memcpy(err->where, where, sizeof where);
    }
    return status;
}

attn_status attn_position_pair_check(const attn_inputs *in, attn_error *err) {
    if (!in->score_position.kind)
        return ATTN_OK;
    if (!attn_position_scores(in->score_position.kind))
        return attn_fail(err, ATTN_EARG, "score_position/kind",
                         "expected a kind that changes scores: alibi, t5, relative, shaw or "
                         "disentangled");
    if (attn_position_scores(in->position.kind))
        return attn_fail(err, ATTN_EARG, "score_position/kind",
                         "position changes the scores, too: one of two kinds changes queries and "
                         "keys (rotary, sinusoidal, learned)");
    return ATTN_OK;
}

size_t attn_position_doubles(const attn_position *p, size_t H) {
    const attn_tensor *tables[] = {&p->table, &p->key_table, &p->value_table, &p->query_table};
    size_t all = H, n; /* a slope for each head */
    if (!attn_size_add(all, p->table.rank ? p->table.dims[0] : 0, &all) ||
        !attn_size_add(all, p->kind == ATTN_POSITION_DISENTANGLED ? attn_vector_rows(p) : 0, &all))
        return SIZE_MAX;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        if (!attn_tensor_count(tables[t], &n) || !attn_size_add(all, n, &all))
            return SIZE_MAX;
    return all;
}

/* --- biases by distance --- */

/* Computes attn_position_entry for T5, among the buckets for distances of the same sign. */
static size_t t5_entry(const attn_position_rule *rule, int64_t distance, int64_t *last) {
    const bool ahead = distance > 0, both = rule->side < rule->entries;
    const int64_t n = !ahead ? -distance : both ? distance : 0;
    const size_t low = attn_position_bucket(rule, n);
    if (!ahead)
        *last = -rule->nearest[low];
    else
        *last = both && low + 1 < rule->side ? rule->nearest[low + 1] - 1 : INT64_MAX;
    return low + (ahead && both ? rule->side : 0);
}

size_t attn_position_entry(const attn_position_rule *rule, int64_t distance, int64_t *last) {
    if (rule->nearest)
        return t5_entry(rule, distance, last);
    *last = distance < -rule->max_distance  ? -rule->max_distance
            : distance < rule->max_distance ? distance
                                            : INT64_MAX;
    return distance < -rule->max_distance  ? 0
           : distance > rule->max_distance ? rule->entries - 1
                                           : (size_t)(distance + rule->max_distance);
}

void attn_position_biases(const attn_position_rule *rule, size_t h, int64_t first, size_t n,
                          double *to) {
    int64_t last = first - 1;
    double bias = 0;
    for (size_t j = 0; j < n; j++) {
        const int64_t distance = first + (int64_t)j;
        if (rule->slopes)
            bias = -rule->slopes[h] * (double)(distance < 0 ? -distance : distance);
        else if (distance > last)
            bias = rule->table[h * rule->entries + attn_position_entry(rule, distance, &last)];
        to[j] = bias;
    }
}

double attn_position_bias_at(const attn_position_rule *rule, size_t h, int64_t distance) {
    double bias;
    attn_position_biases(rule, h, distance, 1, &bias);
    return bias;
}

/* Computes the biases of n distances, which need not be consecutive. A cell without a distance has
 * the bias 0. */
static void biases_of(const attn_position_rule *rule, size_t h, const int64_t *distances, size_t n,
                      double *to) {
    for (size_t j = 0; j < n; j++)
        to[j] = distances[j] == ATTN_NO_POSITION ? 0 : attn_position_bias_at(rule, h, distances[j]);
}

void attn_position_bias(const attn_attention *a, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        size_t elem, const void *from, void *to) {
    enum { AT_ONCE = 64 };
    const bool given = attn_positions_given(a);
    const int64_t first = (int64_t)j0 - (int64_t)i - attn_mask_offset(a->mask, b);
    double biases[AT_ONCE];
    int64_t distances[AT_ONCE];
    for (size_t j = 0; j < n; j++) {
        const size_t k = j % AT_ONCE, some = n - j < AT_ONCE ? n - j : AT_ONCE;
        if (k == 0 && given) {
            attn_distances(a, b, i, j0 + j, some, distances);
            biases_of(&a->rule, h, distances, some, biases);
        } else if (k == 0) {
            attn_position_biases(&a->rule, h, first + (int64_t)j, some, biases);
        }
        if (elem == sizeof(float))
            ((float *)to)[j] = (from ? ((const float *)from)[j] : 0) + (float)biases[k];
        else
            ((double *)to)[j] = (from ? ((const double *)from)[j] : 0) + biases[k];
    }
}
