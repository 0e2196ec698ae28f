/* The order of the keys with the largest weights in the rows of a head. */
#include "analysis/order.h"

enum { LEAST = 3 }; /* fewest rows and keys; peaks of fewer would often be in order by chance */

/* The rows that have been visited. Their peaks are in order. */
typedef struct walk {
    size_t first, last; /* the lowest and the highest key so far */
    size_t keys;        /* different keys so far */
} walk;

/* Adds a row with this peak. Returns false if the peak is before the last one. */
static bool step(walk *w, size_t key) {
    if (w->keys && key < w->last)
        return false;
    if (!w->keys)
        w->first = key;
    w->keys += !w->keys || key > w->last;
    w->last = key;
    return true;
}

/* Returns whether the first two of the n >= 2 rows at `peaks` exchange two keys. */
static bool is_exchange(const walk *w, const size_t *peaks, size_t n, size_t reach) {
    const size_t late = peaks[0], early = peaks[1];
    return early < late && late - early <= reach && (!w->keys || w->last < early) &&
           (n == 2 || peaks[2] >= late);
}

bool attn_analysis_order(const size_t *peaks, size_t n, size_t from, size_t to, size_t *exchanges) {
    const size_t S = to - from, reach = S / 8 > 1 ? S / 8 : 1;
    walk w = {.keys = 0};
    *exchanges = 0;
    if (n < LEAST || S < LEAST)
        return false;
    for (size_t i = 0; i < n; i++) {
        const bool exchange = i + 1 < n && is_exchange(&w, peaks + i, n - i, reach);
        if (!step(&w, peaks[i + exchange]) || (exchange && !step(&w, peaks[i])))
            return false;
        *exchanges += exchange;
        i += exchange;
    }
    const size_t most = n < S ? n : S, near = (S - 1) / 4;
    return w.first - from <= near && to - 1 - w.last <= near && 5 * w.keys >= 4 * most &&
           *exchanges <= (n + 3) / 4;
}
