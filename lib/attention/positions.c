/* Positions inside the operation (position_rule.h): checks and compiles their parameters, and
 * computes biases by distance (ALiBi, T5, relative tables) and the terms of Shaw's positions.
 * rotary.c has rotary positions. */
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

size_t attn_t5_bucket(int64_t distance, size_t buckets, int64_t max_distance, bool unidirectional) {
    size_t first = 0;
    uint64_t n = distance < 0 ? 0 - (uint64_t)distance : (uint64_t)distance;
    if (!unidirectional) {
        buckets /= 2;
        first = distance > 0 ? buckets : 0;
    } else if (distance > 0) {
        n = 0;
    }
    const size_t exact = buckets / 2;
    if (n < exact)
        return first + (size_t)n;
    double steps = log((double)n / (double)exact) / log((double)max_distance / (double)exact);
    double bucket = (double)exact + floor(steps * (double)(buckets - exact));
    return first + (bucket < (double)(buckets - 1) ? (size_t)bucket : buckets - 1);
}

static attn_status check_is_odd(const attn_tensor *t, const char *where, int axis,
                                attn_error *err) {
    if (t->dims[axis] % 2 == 1)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, where,
                     "a relative table holds 2m + 1 distances, an odd number; found %zu",
                     t->dims[axis]);
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

/* Makes rule.table [Hq, entries] from the position's table, which has the same shape, or with
 * head_columns the shape [entries, Hq]. */
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

static int64_t t5_distance(const attn_position *p) {
    return p->max_distance ? p->max_distance : 128;
}

/* Makes rule.nearest: for each bucket of distances <= 0, the smallest |distance| in it. The number
 * of the bucket grows with |distance|, and the last bucket begins at or before max_distance. A
 * bucket without any distance gets the number that the next bucket gets. The function searches for
 * each smallest |distance| by doubling steps and then by bisection. Returns false if there is not
 * enough memory. */
static bool find_nearest_distances(attn_attention *a, size_t side, attn_arena *arena) {
    const attn_position *p = attn_score_position(&a->in);
    const size_t buckets = p->table.dims[0];
    const int64_t most = t5_distance(p);
    int64_t *nearest = attn_arena_zeroed(arena, side, sizeof *nearest);
    for (size_t s = 1; nearest && s < side; s++) {
        int64_t below = nearest[s - 1] - 1, at = nearest[s - 1], step = 1;
        while (attn_t5_bucket(-at, buckets, most, p->unidirectional) < s) {
            below = at;
            at = most - at < step ? most : at + step;
            step *= 2;
        }
        while (at - below > 1) {
            const int64_t middle = below + (at - below) / 2;
            if (attn_t5_bucket(-middle, buckets, most, p->unidirectional) < s)
                below = middle;
            else
                at = middle;
        }
        nearest[s] = at;
    }
    a->rule.nearest = nearest;
    a->rule.side = side;
    return nearest != NULL;
}

static attn_status new_t5(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_position *p = attn_score_position(&a->in);
    ATTN_TRY(attn_position_check(&p->table, "position/table", 2, 1, a->dims.Hq, "buckets", err));
    const size_t buckets = p->table.dims[0], side = p->unidirectional ? buckets : buckets / 2;
    if (side < 2 || (!p->unidirectional && buckets % 2))
        return attn_fail(err, ATTN_EARG, "position/table",
                         "T5 positions need at least 2 buckets a side, found %zu in all", buckets);
    if (t5_distance(p) <= (int64_t)(side / 2) || t5_distance(p) > 1 << 20)
        return attn_fail(err, ATTN_EARG, "position/max_distance",
                         "expected a distance beyond half of the %zu buckets a side and at most "
                         "1,048,576, found %lld",
                         side, (long long)t5_distance(p));
    return find_nearest_distances(a, side, arena) ? new_table(a, arena, buckets, true, err)
                                                  : attn_no_memory(err, "positions");
}

static attn_status new_relative(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &attn_score_position(&a->in)->table;
    ATTN_TRY(attn_position_check(t, "position/table", 2, 0, a->dims.Hq,
                                 "2m + 1 (distances -m to m)", err));
    ATTN_TRY(check_is_odd(t, "position/table", 1, err));
    a->rule.max_distance = (int64_t)(t->dims[1] / 2);
    return new_table(a, arena, t->dims[1], false, err);
}

/* Returns a dense copy of a matrix as doubles, in the arena. NULL: out of memory. */
static const double *copy_as_doubles(const attn_tensor *t, attn_arena *arena) {
    size_t count;
    double *copy = NULL;
    if (attn_tensor_count(t, &count))
        copy = attn_arena_zeroed(arena, count, sizeof *copy);
    for (size_t i = 0; copy && i < t->dims[0]; i++)
        for (size_t j = 0; j < t->dims[1]; j++)
            copy[i * t->dims[1] + j] = attn_tensor_number(t, i, j);
    return copy;
}

static attn_status new_shaw(attn_attention *a, attn_arena *arena, attn_error *err) {
    const attn_position *p = attn_score_position(&a->in);
    const char *rows = "2m + 1 (distances -m to m)";
    ATTN_TRY(attn_position_check(&p->key_table, "position/key_table", 2, 1, a->dims.score_width,
                                 rows, err));
    ATTN_TRY(check_is_odd(&p->key_table, "position/key_table", 0, err));
    if (p->value_table.rank) {
        ATTN_TRY(attn_position_check(&p->value_table, "position/value_table", 2, 1, a->dims.Ev,
                                     rows, err));
        if (p->value_table.dims[0] != p->key_table.dims[0])
            return attn_fail(err, ATTN_ESHAPE, "position/value_table",
                             "expected as many rows as key_table has, %zu; found %zu",
                             p->key_table.dims[0], p->value_table.dims[0]);
    }
    a->rule.relative = p->key_table.dims[0];
    a->rule.max_distance = (int64_t)(a->rule.relative / 2);
    a->rule.keys = copy_as_doubles(&p->key_table, arena);
    a->rule.values = p->value_table.rank ? copy_as_doubles(&p->value_table, arena) : NULL;
    for (size_t i = 0; a->rule.values && i < a->rule.relative * a->dims.Ev; i++)
        a->rule.value_magnitude = fmax(a->rule.value_magnitude, fabs(a->rule.values[i]));
    return a->rule.keys && (a->rule.values || !p->value_table.rank)
               ? ATTN_OK
               : attn_no_memory(err, "positions");
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
    if ((kind == ATTN_POSITION_SHAW || kind == ATTN_POSITION_ROTARY) &&
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
        return new_shaw(a, arena, err);
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
                         "expected a kind that changes scores: alibi, t5, relative or shaw");
    if (attn_position_scores(in->position.kind))
        return attn_fail(err, ATTN_EARG, "score_position/kind",
                         "position changes the scores, too: one of two kinds changes queries and "
                         "keys (rotary, sinusoidal, learned)");
    return ATTN_OK;
}

size_t attn_position_doubles(const attn_position *p, size_t H) {
    const attn_tensor *tables[] = {&p->table, &p->key_table, &p->value_table};
    size_t all = H, n; /* a slope for each head */
    if (!attn_size_add(all, p->table.rank ? p->table.dims[0] : 0, &all))
        return SIZE_MAX;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        if (!attn_tensor_count(tables[t], &n) || !attn_size_add(all, n, &all))
            return SIZE_MAX;
    return all;
}

/* --- biases by distance --- */

/* Computes attn_position_entry for T5. Among the buckets for distances of its sign, a distance is
 * in the last bucket that begins at or before |distance|. */
static size_t t5_entry(const attn_position_rule *rule, int64_t distance, int64_t *last) {
    const bool ahead = distance > 0, both = rule->side < rule->entries;
    const int64_t n = !ahead ? -distance : both ? distance : 0;
    size_t low = 0, high = rule->side;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (rule->nearest[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    if (!ahead)
        *last = -rule->nearest[low];
    else
        *last = both && high < rule->side ? rule->nearest[high] - 1 : INT64_MAX;
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

/* --- Shaw's relative positions ---
 *
 * Shaw, Uszkoreit and Vaswani, "Self-attention with relative position representations", 2018.
 * Equation 4: e_ij = q_i . (k_j + a^K_{j-i}); equation 3: the output adds sum_j w_ij a^V_{j-i}.
 * There are few distances. So the products of a query with the key table are computed once for all
 * keys, and the weights of a row are summed by distance before they multiply the value table. */

size_t attn_shaw_row(const attn_attention *a, size_t b, size_t i, size_t j) {
    const int64_t most = a->rule.max_distance;
    const int64_t d = attn_distance(attn_position_at(&a->query_positions, b, i),
                                    attn_position_at(&a->key_positions, b, j));
    if (d == ATTN_NO_POSITION)
        return SIZE_MAX;
    return (size_t)((d < -most ? -most : d > most ? most : d) + most);
}

void attn_shaw_terms(const attn_attention *a, const void *q, size_t elem, void *terms) {
    const size_t E = a->dims.score_width;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double *key = a->rule.keys + t * E;
        double sum = 0;
        for (size_t e = 0; e < E; e++)
            sum += attn_element(q, elem, e) * key[e];
        attn_element_set(terms, elem, t, sum);
    }
}

void attn_shaw_add(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, size_t elem,
                   const void *terms, void *scores) {
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_shaw_row(a, b, i, j0 + j);
        if (t != SIZE_MAX)
            attn_element_add(scores, elem, j, attn_element(terms, elem, t));
    }
}

void attn_shaw_collect(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n,
                       size_t elem, const void *weights, double factor, void *sums) {
    for (size_t t = 0; t < a->rule.relative; t++)
        if (elem == sizeof(float))
            ((float *)sums)[t] *= (float)factor;
        else
            ((double *)sums)[t] *= factor;
    for (size_t j = 0; j < n; j++) {
        const size_t t = attn_shaw_row(a, b, i, j0 + j);
        if (t != SIZE_MAX)
            attn_element_add(sums, elem, t, attn_element(weights, elem, j));
    }
}

void attn_shaw_values(const attn_attention *a, size_t elem, const void *sums, void *acc) {
    const size_t Ev = a->dims.Ev;
    for (size_t t = 0; t < a->rule.relative; t++) {
        const double w = attn_element(sums, elem, t);
        const double *value = a->rule.values + t * Ev;
        for (size_t e = 0; w != 0 && e < Ev; e++)
            attn_element_add(acc, elem, e, w * value[e]);
    }
}
