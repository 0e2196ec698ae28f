/* Buckets of distances for T5 and for disentangled attention (position_rule.h). */
#include <math.h>

#include "attention/position_rule.h"
#include "attention/resolved.h"

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

int64_t attn_t5_distance(const attn_position *p) {
    return p->max_distance ? p->max_distance : 128;
}

/* Returns the bucket of u >= 0 in the tables of disentangled attention with 2m rows, before
 * clipping. This is DeBERTa's make_log_bucket_position. Rounding may compute a quotient of
 * logarithms that is a whole number as slightly more, so 1e-9 is subtracted. */
static size_t disentangled_bucket(int64_t u, size_t m, int64_t most) {
    const double n = (double)(m / 2);
    if (u <= (int64_t)(m / 2))
        return (size_t)u;
    const double steps = log((double)u / n) / log((double)(most - 1) / n) * (n - 1);
    return m / 2 + (size_t)ceil(steps - 1e-9);
}

/* Returns the bucket of the distance -n, n >= 0. */
static size_t bucket_of(const attn_attention *a, int64_t n) {
    const attn_position *p = attn_score_position(&a->in);
    return p->kind == ATTN_POSITION_T5
               ? attn_t5_bucket(-n, p->table.dims[0], attn_t5_distance(p), p->unidirectional)
               : disentangled_bucket(n, a->dims.relative / 2, p->max_distance);
}

/* Bucket numbers grow with |distance|. The last bucket of T5, and of disentangled attention, begins
 * at or before max_distance. A bucket without any distance gets the smallest |distance| of the next
 * bucket. The function searches each smallest |distance| by doubling steps and then by
 * bisection. */
bool attn_position_nearest(attn_attention *a, size_t side, attn_arena *arena) {
    const attn_position *p = attn_score_position(&a->in);
    const int64_t most = p->kind == ATTN_POSITION_T5 ? attn_t5_distance(p) : p->max_distance;
    int64_t *nearest = attn_arena_zeroed(arena, side, sizeof *nearest);
    for (size_t s = 1; nearest && s < side; s++) {
        int64_t below = nearest[s - 1] - 1, at = nearest[s - 1], step = 1;
        while (bucket_of(a, at) < s) {
            below = at;
            at = most - at < step ? most : at + step;
            step *= 2;
        }
        while (at - below > 1) {
            const int64_t middle = below + (at - below) / 2;
            if (bucket_of(a, middle) < s)
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

size_t attn_position_bucket(const attn_position_rule *rule, int64_t n) {
    size_t low = 0, high = rule->side;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (rule->nearest[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    return low;
}
