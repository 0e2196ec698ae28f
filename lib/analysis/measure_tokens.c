/* Which keys hold equal tokens, found once a batch entry by sorting: rows then walk from one equal
 * key to the next instead of comparing all. */
#include <stdlib.h>

#include "analysis/measure_private.h"

typedef struct place {
    int64_t token;
    size_t key;
} place;

static int by_token(const void *x, const void *y) {
    const place *a = x, *b = y;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static place *sorted(const int64_t *keys, size_t S, attn_arena *arena) {
    place *all = attn_arena_zeroed(arena, S, sizeof *all);
    for (size_t j = 0; all && j < S; j++)
        all[j] = (place){keys[j], j};
    if (all && S > 1)
        qsort(all, S, sizeof *all, by_token);
    return all;
}

/* How many places come before (token, key). */
static size_t rank_of(const place *all, size_t n, int64_t token, size_t key) {
    const place wanted = {token, key};
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

bool attn_analysis_equals(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                          int64_t offset, attn_arena *arena, attn_equals *out) {
    place *all = sorted(keys, S, arena);
    out->before = attn_arena_zeroed(arena, S, sizeof *out->before);
    out->last = attn_arena_zeroed(arena, L, sizeof *out->last);
    if (!all || !out->before || !out->last)
        return false;
    for (size_t r = 0; r < S; r++)
        out->before[all[r].key] =
            r > 0 && all[r - 1].token == all[r].token ? all[r - 1].key : SIZE_MAX;
    for (size_t i = 0; i < L; i++) {
        int64_t at = (int64_t)i + offset;
        size_t r = at > 0 ? rank_of(all, S, queries[i], (size_t)at) : 0;
        out->last[i] = r > 0 && all[r - 1].token == queries[i] ? all[r - 1].key : SIZE_MAX;
    }
    return true;
}

bool attn_analysis_kin(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                       attn_arena *arena, attn_kin *out) {
    place *all = sorted(keys, S, arena);
    out->next = attn_arena_zeroed(arena, S, sizeof *out->next);
    out->entry = attn_arena_zeroed(arena, L, sizeof *out->entry);
    if (!all || !out->next || !out->entry)
        return false;
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
    return true;
}
