#include "config/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 48 }; /* longer words and names are not compared */

/* Returns the fewest insertions, deletions, substitutions and swaps of neighbouring characters that
 * turn a into b (optimal string alignment), ignoring case. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (strncasecmp(a + i - 1, b + j - 1, 1) != 0);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && strncasecmp(a + i - 1, b + j - 2, 1) == 0 &&
                strncasecmp(a + i - 2, b + j - 1, 1) == 0 && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[m];
}

/* Returns whether `longer` contains `word`, which has n characters. For example, "mask" counts as
 * similar to "attn_mask", although it is five edits away. */
static bool contains(const char *longer, const char *word, size_t n) {
    return n >= 3 && strcasestr(longer, word) != NULL;
}

/* Returns the largest number of edits after which a word of n characters is still recognisable: 1
 * for a short word, about a third of a longer one. */
static size_t most_edits(size_t n) {
    return n <= 3 ? 1 : 1 + n / 3;
}

size_t srv_edits(const char *word, const char *name) {
    const size_t n = strlen(word), m = strlen(name);
    if (n == 0 || n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    const size_t d = distance(word, n, name, m), most = most_edits(n < m ? n : m);
    if (d > most)
        return contains(name, word, n) ? most : SIZE_MAX;
    return d;
}

const char *srv_nearest(const char *word, const char *const *names, size_t count) {
    size_t best = SIZE_MAX;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t d = srv_edits(word, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}
