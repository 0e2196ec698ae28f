/* Patterns, in which positions alone decide whether a query sees a key (attn/mask.h has their
 * formulas). There are functions for one query and one key, for one query and a range of keys, and
 * for ranges of both, so that keys that no query of a block sees are skipped. */
#include "mask/pattern.h"

#include <string.h>

#include "mask/interval.h"

static int64_t distance(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

/* Returns floor(a / d) for d > 0. */
static int64_t floor_div(int64_t a, int64_t d) {
    return a / d - (a % d < 0);
}
/* Returns a - d floor(a / d) for d > 0. */
static int64_t floor_mod(int64_t a, int64_t d) {
    return a % d + (a % d < 0 ? d : 0);
}
static bool divides(int64_t d, int64_t a) {
    return a % d == 0;
}
attn_status attn_pattern_check(const attn_pattern *pattern, const char *where, attn_error *err) {
    const struct {
        const char *name;
        int64_t value, least;
        bool used;
    } sizes[] = {
        {"radius", pattern->radius, 0, pattern->kind == ATTN_PATTERN_LOCAL},
        {"stride", pattern->stride, 1, pattern->kind == ATTN_PATTERN_STRIDED},
        {"size", pattern->size, 1,
         pattern->kind == ATTN_PATTERN_BLOCK || pattern->kind == ATTN_PATTERN_BLOCK_CAUSAL},
        {"num_keys", pattern->num_keys, 0, pattern->kind == ATTN_PATTERN_GLOBAL},
        {"local", pattern->local, 0,
         pattern->kind == ATTN_PATTERN_STRIDED || pattern->kind == ATTN_PATTERN_GLOBAL},
    };
    const long long most = 1LL << 40;
    if ((unsigned)pattern->kind > ATTN_PATTERN_FULL)
        return attn_fail(err, ATTN_EARG, where, "there is no pattern of the number %d",
                         (int)pattern->kind);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].used && (sizes[i].value < sizes[i].least || sizes[i].value > most))
            return attn_fail(err, ATTN_EARG, where, "%s must be between %lld and %lld, found %lld",
                             sizes[i].name, (long long)sizes[i].least, most,
                             (long long)sizes[i].value);
    return ATTN_OK;
}

/* Returns whether position p is one of the first num_keys positions of a GLOBAL pattern. Positions
 * below 0, which padding rows may have, are not global. */
static bool is_global(const attn_pattern *pattern, int64_t p) {
    return p >= 0 && p < pattern->num_keys;
}

/* Returns the first key behind the block of position p. */
static int64_t block_end(const attn_pattern *pattern, int64_t p) {
    return (floor_div(p, pattern->size) + 1) * pattern->size;
}

bool attn_pattern_sees(const attn_pattern *pattern, int64_t p, int64_t j) {
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        return distance(p, j) <= pattern->radius;
    case ATTN_PATTERN_STRIDED:
        return divides(pattern->stride, p - j) || distance(p, j) <= pattern->local;
    case ATTN_PATTERN_BLOCK:
        return floor_div(p, pattern->size) == floor_div(j, pattern->size);
    case ATTN_PATTERN_BLOCK_CAUSAL:
        return j < block_end(pattern, p);
    case ATTN_PATTERN_GLOBAL:
        return is_global(pattern, j) || is_global(pattern, p) || distance(p, j) <= pattern->local;
    case ATTN_PATTERN_FULL:
        return true;
    }
    return false;
}

/* A range of keys [j0, j0 + n) and their bytes of visibility. */
typedef struct key_bytes {
    int64_t j0, n;
    uint8_t *keep;
} key_bytes;

/* Zeroes the bytes of the keys [from, to) that are in the range. */
static void hide(const key_bytes *k, int64_t from, int64_t to) {
    from = attn_key_larger(from, k->j0);
    to = attn_key_smaller(to, k->j0 + k->n);
    if (from < to)
        memset(k->keep + (from - k->j0), 0, (size_t)(to - from));
}

/* Hides the keys [from, to) that are more than `local` away from the position p. */
static void hide_far(const key_bytes *k, int64_t p, int64_t local, int64_t from, int64_t to) {
    hide(k, from, attn_key_smaller(to, p - local));
    hide(k, attn_key_larger(from, p + local + 1), to);
}

void attn_pattern_hide(const attn_pattern *pattern, int64_t p, int64_t j0, int64_t n,
                       uint8_t *keep) {
    const key_bytes k = {j0, n, keep};
    const int64_t end = j0 + n, size = pattern->size, stride = pattern->stride;
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        hide_far(&k, p, pattern->radius, j0, end);
        return;
    case ATTN_PATTERN_STRIDED: /* hides the keys between neighbouring keys of the stride */
        for (int64_t j = j0 - floor_mod(j0 - p, stride); j < end; j += stride)
            hide_far(&k, p, pattern->local, j + 1, j + stride);
        return;
    case ATTN_PATTERN_BLOCK:
        hide(&k, j0, floor_div(p, size) * size);
        hide(&k, block_end(pattern, p), end);
        return;
    case ATTN_PATTERN_BLOCK_CAUSAL:
        hide(&k, block_end(pattern, p), end);
        return;
    case ATTN_PATTERN_GLOBAL:
        if (!is_global(pattern, p))
            hide_far(&k, p, pattern->local, pattern->num_keys, end);
        return;
    case ATTN_PATTERN_FULL:
        return;
    }
}

/* Returns the part of `keys` from the first to the last key whose distance from a position p0 … p1
 * is a multiple of the stride. */
static attn_interval strided(attn_interval keys, int64_t stride, int64_t p0, int64_t p1) {
    const int64_t more = floor_mod(p1 - keys.from, stride) - (p1 - p0);
    const int64_t less = floor_mod(keys.to - 1 - p0, stride) - (p1 - p0);
    return (attn_interval){keys.from + attn_key_larger(more, 0),
                           keys.to - attn_key_larger(less, 0)};
}

void attn_pattern_narrow(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t *from,
                         int64_t *to) {
    const int64_t size = pattern->size;
    const attn_interval all = {*from, *to}, first = {0, pattern->num_keys};
    const attn_interval near = {p0 - pattern->local, p1 + pattern->local + 1};
    attn_interval seen = all;
    if (*from >= *to)
        return;
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        seen =
            attn_intersection(all, (attn_interval){p0 - pattern->radius, p1 + pattern->radius + 1});
        break;
    case ATTN_PATTERN_STRIDED:
        seen = attn_hull(strided(all, pattern->stride, p0, p1), attn_intersection(all, near));
        break;
    case ATTN_PATTERN_BLOCK: {
        const int64_t begin = p0 - floor_mod(p0, size);
        const int64_t end = (p1 - begin < size ? begin : p1 - floor_mod(p1, size)) + size;
        seen = attn_intersection(all, (attn_interval){begin, end});
        break;
    }
    case ATTN_PATTERN_BLOCK_CAUSAL:
        seen.to = attn_key_smaller(all.to, block_end(pattern, p1));
        break;
    case ATTN_PATTERN_GLOBAL:
        if (p0 >= pattern->num_keys || p1 < 0)
            seen = attn_hull(attn_intersection(all, first), attn_intersection(all, near));
        break;
    case ATTN_PATTERN_FULL:
        break;
    }
    *from = seen.from < seen.to ? seen.from : *to;
    *to = seen.from < seen.to ? seen.to : *to;
}

void attn_pattern_common(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t *from,
                         int64_t *to) {
    const int64_t size = pattern->size, keys = pattern->num_keys;
    attn_interval seen = {p1 - pattern->local, p0 + pattern->local + 1};
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        seen = (attn_interval){p1 - pattern->radius, p0 + pattern->radius + 1};
        break;
    case ATTN_PATTERN_STRIDED:
        break;
    case ATTN_PATTERN_BLOCK:
        seen = (attn_interval){floor_div(p1, size) * size, block_end(pattern, p0)};
        break;
    case ATTN_PATTERN_BLOCK_CAUSAL:
        seen = (attn_interval){*from, block_end(pattern, p0)};
        break;
    case ATTN_PATTERN_GLOBAL:
        if (is_global(pattern, p0) && is_global(pattern, p1))
            return;
        if (seen.from >= seen.to)
            seen = (attn_interval){0, keys};
        else if (seen.from <= keys)
            seen.from = 0;
        break;
    case ATTN_PATTERN_FULL:
        return;
    }
    *from = attn_key_larger(*from, seen.from);
    *to = attn_key_larger(*from, attn_key_smaller(*to, seen.to));
}

bool attn_pattern_sees_between(const attn_pattern *pattern, int64_t p, int64_t from, int64_t to) {
    const int64_t near = p - pattern->local;
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
    case ATTN_PATTERN_BLOCK:
    case ATTN_PATTERN_BLOCK_CAUSAL:
    case ATTN_PATTERN_FULL:
        return true;
    case ATTN_PATTERN_STRIDED:
        return pattern->stride == 1 || (from >= near && to - 1 <= p + pattern->local);
    case ATTN_PATTERN_GLOBAL:
        return is_global(pattern, p) || to <= pattern->num_keys || from >= near ||
               near <= pattern->num_keys;
    }
    return false;
}
