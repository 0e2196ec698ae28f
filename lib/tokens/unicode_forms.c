/* Unicode's normalisation forms (UAX 15), with the origin of each character. utf8proc has a later
 * version of Unicode than the reference, so characters without ATTN_IS_NORMALISED do not change. By
 * Unicode's stability policy, both versions agree on all characters that they have in common. */
#include <string.h>
#include <utf8proc.h>

#include "tokens/character.h"
#include "tokens/steps.h"

enum { MOST = 18 }; /* length of the longest decomposition, that of U+FDFA */

static int class_of(int32_t c) {
    return attn_character_classes(c) & ATTN_IS_NORMALISED
               ? utf8proc_get_property(c)->combining_class
               : 0;
}

/* Writes the decomposition of a character and returns its length. */
static size_t decompose(int32_t c, bool compatible, int32_t out[MOST]) {
    const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    out[0] = c;
    if (!(attn_character_classes(c) & ATTN_IS_NORMALISED))
        return 1;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(c, out, MOST, (utf8proc_option_t)options, NULL);
    return n > 0 && n <= MOST ? (size_t)n : 1;
}

/* Returns the character into which two characters compose; 0: there is none. */
static int32_t compose(int32_t left, int32_t right) {
    int32_t pair[2] = {left, right};
    if (!(attn_character_classes(right) & ATTN_IS_NORMALISED))
        return 0;
    const utf8proc_ssize_t n =
        utf8proc_normalize_utf32(pair, 2, (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    return n == 1 && attn_character_classes(pair[0]) & ATTN_IS_NORMALISED ? pair[0] : 0;
}

/* Sorts consecutive characters whose combining class is not 0 by their classes. Characters with
 * equal classes keep their order. `spare` has room for all of them. */
static void order_run(attn_change *run, size_t count, attn_change *spare) {
    size_t ends[256] = {0};
    bool sorted = true;
    for (size_t i = 1; i < count; i++)
        sorted = sorted && class_of(run[i - 1].c) <= class_of(run[i].c);
    if (sorted)
        return;
    for (size_t i = 0; i < count; i++)
        ends[class_of(run[i].c)]++;
    for (int class = 1; class < 256; class ++)
        ends[class] += ends[class - 1];
    for (size_t i = count; i--;)
        spare[--ends[class_of(run[i].c)]] = run[i];
    memcpy(run, spare, count * sizeof *run);
}

static void order(attn_change *list, size_t count, attn_change *spare) {
    for (size_t begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && class_of(list[end].c);)
            end++;
        if (end - begin > 1)
            order_run(list + begin, end - begin, spare);
    }
}

/* Composes a decomposed list in place and returns its new length. */
static size_t compose_list(attn_change *list, size_t count) {
    size_t length = 0, starter = SIZE_MAX;
    int before = 0; /* the class of the last character behind the starter; 0: there is none */
    for (size_t i = 0; i < count; i++) {
        const attn_change next = list[i];
        const int class = class_of(next.c);
        const bool blocked = before && before >= class;
        const int32_t made = starter == SIZE_MAX || blocked ? 0 : compose(list[starter].c, next.c);
        if (made) {
            list[starter].c = made;
            list[starter].change += next.change - 1;
            continue;
        }
        if (!class)
            starter = length;
        before = class;
        list[length++] = next;
    }
    return length;
}

/* Decomposes a piece. Returns the length of its decomposition, which it writes unless `list` is
 * NULL. */
static size_t decompose_piece(const attn_aligned *from, const attn_piece *piece, bool compatible,
                              attn_change *list) {
    size_t count = 0, n;
    for (size_t at = piece->begin; at < piece->end; at += n) {
        int32_t parts[MOST];
        const int32_t c = attn_character_read(from->text + at, &n);
        const size_t length = decompose(c, compatible, parts);
        for (size_t i = 0; list && i < length; i++)
            list[count + i] = (attn_change){parts[i], i > 0};
        count += length;
    }
    return count;
}

static bool is_plain(const attn_aligned *from, const attn_piece *piece) {
    for (size_t at = piece->begin, n; at < piece->end; at += n)
        if (attn_character_classes(attn_character_read(from->text + at, &n)) & ATTN_IS_NORMALISED)
            return false;
    return true;
}

static bool rewrite_form(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                         const void *with) {
    const attn_step *step = with;
    if (is_plain(from, piece))
        return attn_aligned_copy(to, from, piece->begin, piece->end);
    size_t count = decompose_piece(from, piece, step->compatible, NULL);
    attn_change *list = attn_arena_array(to->arena, count, sizeof *list);
    attn_change *spare = attn_arena_array(to->arena, count, sizeof *spare);
    if (!list || !spare)
        return false;
    decompose_piece(from, piece, step->compatible, list);
    order(list, count, spare);
    if (step->compose)
        count = compose_list(list, count);
    return attn_aligned_changes(to, from, piece, list, count);
}

bool attn_step_form(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_form, step);
}
