/* Divides pieces at the matches of scanners. A scanner stands for a regular expression. It is tried
 * at each byte behind the last match, so it only has to handle alternatives, greed and lookahead
 * within a match. */
#include <string.h>

#include "tokens/character.h"
#include "tokens/steps.h"

/* --- scanners --- */

/* Returns the classes of the character at byte `at` and stores its size; 0 at the end. */
static unsigned classes_at(const char *text, size_t size, size_t at, size_t *n) {
    *n = 0;
    return at < size ? attn_character_classes(attn_character_read(text + at, n)) : 0;
}

/* Returns the end of the run of characters from byte `at` on that have one of the classes, or, if
 * `none`, that have none of them. */
static size_t run_end(const char *text, size_t size, size_t at, unsigned classes, bool none) {
    size_t n;
    while (at < size && !(classes_at(text, size, at, &n) & classes) == none)
        at += n;
    return at;
}

size_t attn_scan_class(const attn_step *step, const char *text, size_t size, size_t at) {
    size_t n;
    return classes_at(text, size, at, &n) & step->classes ? n : 0;
}

size_t attn_scan_literal(const attn_step *step, const char *text, size_t size, size_t at) {
    const bool found =
        size - at >= step->find_size && !memcmp(text + at, step->find, step->find_size);
    return found ? step->find_size : 0;
}

size_t attn_scan_blanks(const attn_step *step, const char *text, size_t size, size_t at) {
    size_t n = 0;
    (void)step;
    while (at + n < size && text[at + n] == ' ')
        n++;
    return n >= 2 ? n : 0;
}

size_t attn_scan_words(const attn_step *step, const char *text, size_t size, size_t at) {
    (void)step;
    const size_t word = run_end(text, size, at, ATTN_IS_WORD, false);
    return (word > at ? word : run_end(text, size, at, ATTN_IS_WORD | ATTN_IS_WORD_SPACE, true)) -
           at;
}

/* Matches 's|'t|'re|'ve|'m|'ll|'d, in any case if `fold`; a long s (U+017F) then counts as an s,
 * too. */
static size_t contraction(const char *text, size_t size, size_t at, bool fold) {
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (text[at] != '\'')
        return 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        size_t same = 0;
        while (same < n && at + 1 + same < size &&
               (char)(text[at + 1 + same] | (fold ? 0x20 : 0)) == ends[i][same])
            same++;
        if (same == n)
            return 1 + n;
    }
    return fold && size - at >= 3 && !memcmp(text + at + 1, "\xc5\xbf", 2) ? 3 : 0;
}

/* Matches \s+(?!\S)|\s+: all spaces of a run, but not the last one if something follows. */
static size_t spaces(const char *text, size_t size, size_t at) {
    const size_t end = run_end(text, size, at, ATTN_IS_SPACE, false);
    if (end == size || end == at)
        return end - at;
    const size_t last = attn_character_before(text, end);
    return (last > at ? last : end) - at;
}

enum { NEITHER = ATTN_IS_SPACE | ATTN_IS_LETTER | ATTN_IS_NUMBER };

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t attn_scan_gpt2(const attn_step *step, const char *text, size_t size, size_t at) {
    (void)step;
    size_t n = contraction(text, size, at, false);
    if (n)
        return n;
    const size_t begin = at + (text[at] == ' ');
    const unsigned classes = classes_at(text, size, begin, &n);
    for (unsigned of = ATTN_IS_LETTER; of <= ATTN_IS_NUMBER; of <<= 1)
        if (classes & of)
            return run_end(text, size, begin, of, false) - at;
    if (n && !(classes & NEITHER))
        return run_end(text, size, begin, NEITHER, true) - at;
    return spaces(text, size, at);
}

static bool is_break(char c) {
    return c == '\r' || c == '\n';
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static size_t letters(const char *text, size_t size, size_t at) {
    size_t n;
    const unsigned first = classes_at(text, size, at, &n);
    const bool other = !(first & (ATTN_IS_LETTER | ATTN_IS_NUMBER)) && !is_break(text[at]);
    const size_t begin = at + (other ? n : 0),
                 end = run_end(text, size, begin, ATTN_IS_LETTER, false);
    return end > begin ? end - at : 0;
}

/* \p{N}{1,most} */
static size_t digits(const char *text, size_t size, size_t at, size_t most) {
    size_t end = at, n;
    for (size_t i = 0; i < most && classes_at(text, size, end, &n) & ATTN_IS_NUMBER; i++)
        end += n;
    return end - at;
}

/*  ?[^\s\p{L}\p{N}]+[\r\n]* */
static size_t signs(const char *text, size_t size, size_t at) {
    const size_t begin = at + (text[at] == ' ');
    size_t end = run_end(text, size, begin, NEITHER, true);
    if (end == begin)
        return 0;
    while (end < size && is_break(text[end]))
        end++;
    return end - at;
}

/* \s*[\r\n]+ */
static size_t breaks(const char *text, size_t size, size_t at) {
    size_t end = run_end(text, size, at, ATTN_IS_SPACE, false);
    while (end > at && !is_break(text[end - 1]))
        end--;
    return end - at;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
size_t attn_scan_llama3(const attn_step *step, const char *text, size_t size, size_t at) {
    size_t n = contraction(text, size, at, true);
    n = n ? n : letters(text, size, at);
    n = n ? n : digits(text, size, at, step->most_digits);
    n = n ? n : signs(text, size, at);
    n = n ? n : breaks(text, size, at);
    return n ? n : spaces(text, size, at);
}

/* --- splitting --- */

/* A match, or the text between two matches. It is kept until the next part is known, because they
 * may be joined. */
typedef struct part {
    size_t begin, end;
    bool match, there;
} part;

static bool joins(attn_behaviour behaviour, const part *last, bool match) {
    switch (behaviour) {
    case ATTN_SPLIT_CONTIGUOUS:
        return last->match == match;
    case ATTN_SPLIT_MERGED_WITH_PREVIOUS:
        return match && !last->match;
    case ATTN_SPLIT_MERGED_WITH_NEXT:
        return !match && last->match;
    default:
        return false;
    }
}

static bool emit(attn_aligned *a, const attn_step *step, const part *last) {
    const bool removed = step->behaviour == ATTN_SPLIT_REMOVED && last->match;
    return !last->there || removed || attn_aligned_piece(a, last->begin, last->end, -1);
}

/* Joins the next part to the part that is kept, or emits the kept part and keeps the next one. */
static bool add(attn_aligned *a, const attn_step *step, part *last, size_t begin, size_t end,
                bool found) {
    const bool match = found != step->invert;
    if (begin == end)
        return true;
    if (last->there && joins(step->behaviour, last, match)) {
        last->end = end;
        last->match = match;
        return true;
    }
    if (!emit(a, step, last))
        return false;
    *last = (part){begin, end, match, true};
    return true;
}

static bool split_piece(attn_aligned *a, size_t begin, size_t end, const void *with) {
    const attn_step *step = with;
    const char *text = a->text + begin;
    const size_t size = end - begin;
    size_t passed = 0; /* the end of the last match */
    part last = {.there = false};
    for (size_t at = 0, n; at < size; at += n) {
        n = step->scan(step, text, size, at);
        if (!n) {
            attn_character_read(text + at, &n);
            continue;
        }
        if (!add(a, step, &last, begin + passed, begin + at, false) ||
            !add(a, step, &last, begin + at, begin + at + n, true))
            return false;
        passed = at + n;
    }
    return add(a, step, &last, begin + passed, end, false) && emit(a, step, &last);
}

bool attn_step_split(const attn_step *step, attn_aligned *a) {
    return attn_aligned_divide(a, split_piece, step);
}
