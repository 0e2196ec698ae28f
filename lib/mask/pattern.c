/* Patterns, in which positions alone decide whether a query sees a key (attn/mask.h has their
 * formulas). One function answers this for one query and one key, and another for ranges of both,
 * so that tiles without a visible cell are skipped. */
#include "mask/pattern.h"

static int64_t distance(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

/* Returns floor(a / d) for d > 0. */
static int64_t floor_div(int64_t a, int64_t d) {
    return a / d - (a % d < 0);
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
        {"size", pattern->size, 1, pattern->kind == ATTN_PATTERN_BLOCK},
        {"keys", pattern->keys, 0, pattern->kind == ATTN_PATTERN_GLOBAL},
        {"local", pattern->local, 0,
         pattern->kind == ATTN_PATTERN_STRIDED || pattern->kind == ATTN_PATTERN_GLOBAL},
    };
    const long long most = 1LL << 40;
    if ((unsigned)pattern->kind > ATTN_PATTERN_GLOBAL)
        return attn_fail(err, ATTN_EARG, where, "there is no pattern of the number %d",
                         (int)pattern->kind);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].used && (sizes[i].value < sizes[i].least || sizes[i].value > most))
            return attn_fail(err, ATTN_EARG, where, "%s must be between %lld and %lld, found %lld",
                             sizes[i].name, (long long)sizes[i].least, most,
                             (long long)sizes[i].value);
    return ATTN_OK;
}

bool attn_pattern_sees(const attn_pattern *pattern, int64_t p, int64_t j) {
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        return distance(p, j) <= pattern->radius;
    case ATTN_PATTERN_STRIDED:
        return divides(pattern->stride, p - j) || distance(p, j) <= pattern->local;
    case ATTN_PATTERN_BLOCK:
        return floor_div(p, pattern->size) == floor_div(j, pattern->size);
    case ATTN_PATTERN_GLOBAL:
        return j < pattern->keys || p < pattern->keys || distance(p, j) <= pattern->local;
    }
    return false;
}

/* Returns whether any position in [p0, p1] and any key in [j0, j1] are at most `reach` apart. */
static bool near(int64_t reach, int64_t p0, int64_t p1, int64_t j0, int64_t j1) {
    return j0 - p1 <= reach && p0 - j1 <= reach;
}

bool attn_pattern_touches(const attn_pattern *pattern, int64_t p0, int64_t p1, int64_t j0,
                          int64_t j1) {
    switch (pattern->kind) {
    case ATTN_PATTERN_LOCAL:
        return near(pattern->radius, p0, p1, j0, j1);
    case ATTN_PATTERN_STRIDED:
        return near(pattern->local, p0, p1, j0, j1) ||
               floor_div(p1 - j0, pattern->stride) * pattern->stride >= p0 - j1;
    case ATTN_PATTERN_BLOCK:
        return floor_div(p0, pattern->size) <= floor_div(j1, pattern->size) &&
               floor_div(j0, pattern->size) <= floor_div(p1, pattern->size);
    case ATTN_PATTERN_GLOBAL:
        return j0 < pattern->keys || p0 < pattern->keys || near(pattern->local, p0, p1, j0, j1);
    }
    return true;
}
