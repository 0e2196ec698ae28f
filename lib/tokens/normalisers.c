/* Normalisers of texts. Unicode's forms (unicode_forms.c) and the characters map of SentencePiece
 * (charsmap.c) have files of their own. */
#include <string.h>

#include "tokens/character.h"
#include "tokens/steps.h"

/* Runs the body for each character of a piece. `c` is the character, n its size in bytes, and `at`
 * its first byte. */
#define EACH_CHARACTER(from, piece)                                                                \
    size_t at = (piece)->begin, n;                                                                 \
    for (int32_t c; at < (piece)->end && (c = attn_character_read((from)->text + at, &n), true);   \
         at += n)

/* A character_map returns the character that replaces a character, or 0 to remove it. */
typedef int32_t character_map(int32_t c, unsigned classes);
typedef struct mapping {
    character_map *map;
    unsigned classes;
} mapping;

static bool rewrite_mapped(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                           const void *with) {
    const mapping *m = with;
    EACH_CHARACTER(from, piece) {
        const int32_t made = m->map(c, m->classes);
        if (made && !attn_aligned_put(to, made, from->origins[at]))
            return false;
    }
    return true;
}

static bool apply_map(attn_aligned *a, character_map *map, unsigned classes) {
    const mapping m = {map, classes};
    return attn_aligned_rewrite(a, rewrite_mapped, &m);
}

static int32_t clean(int32_t c, unsigned classes) {
    (void)classes;
    const unsigned of = attn_character_classes(c);
    return of & ATTN_IS_DROPPED ? 0 : of & ATTN_IS_BLANK ? ' ' : c;
}

bool attn_step_clean(const attn_step *step, attn_aligned *a) {
    (void)step;
    return apply_map(a, clean, 0);
}

static int32_t without(int32_t c, unsigned classes) {
    return attn_character_classes(c) & classes ? 0 : c;
}

bool attn_step_without(const attn_step *step, attn_aligned *a) {
    return apply_map(a, without, step->classes);
}

static bool is_any_of(int32_t c, const int32_t (*ranges)[2], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* The rules of SentencePiece for machine translation: they remove control characters and replace
 * blanks. */
static int32_t nmt(int32_t c, unsigned classes) {
    static const int32_t dropped[][2] = {{1, 8},       {0xb, 0xb},   {0xe, 0x1f},
                                         {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
    static const int32_t blanks[][2] = {{9, 0xa},         {0xc, 0xd},       {0x1680, 0x1680},
                                        {0x200b, 0x200f}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                        {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
    (void)classes;
    if (is_any_of(c, dropped, sizeof dropped / sizeof *dropped))
        return 0;
    return is_any_of(c, blanks, sizeof blanks / sizeof *blanks) ? ' ' : c;
}

bool attn_step_nmt(const attn_step *step, attn_aligned *a) {
    (void)step;
    return apply_map(a, nmt, 0);
}

static bool rewrite_apart(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                          const void *with) {
    /* BERT's own list: its fifth block begins at 2B920, and the last blocks are the compatibility
     * ideographs. */
    static const int32_t cjk[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                     {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                     {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    (void)with;
    EACH_CHARACTER(from, piece) {
        const attn_origin origin = from->origins[at];
        const bool apart = c >= 0x3400 && is_any_of(c, cjk, sizeof cjk / sizeof *cjk);
        if ((apart && !attn_aligned_put(to, ' ', origin)) || !attn_aligned_put(to, c, origin) ||
            (apart && !attn_aligned_put(to, ' ', origin)))
            return false;
    }
    return true;
}

bool attn_step_apart(const attn_step *step, attn_aligned *a) {
    (void)step;
    return attn_aligned_rewrite(a, rewrite_apart, NULL);
}

static bool rewrite_lower(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                          const void *with) {
    (void)with;
    EACH_CHARACTER(from, piece) {
        /* I with a dot is the only character whose lower case is two characters */
        const bool dotted = c == 0x130;
        if (!attn_aligned_put(to, dotted ? 'i' : attn_character_lower(c), from->origins[at]) ||
            (dotted && !attn_aligned_put(to, 0x307, from->origins[at])))
            return false;
    }
    return true;
}

bool attn_step_lower(const attn_step *step, attn_aligned *a) {
    (void)step;
    return attn_aligned_rewrite(a, rewrite_lower, NULL);
}

static bool rewrite_stripped(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                             const void *with) {
    const attn_step *step = with;
    size_t begin = piece->begin, end = piece->end, n;
    while (step->left && begin < end &&
           attn_character_classes(attn_character_read(from->text + begin, &n)) & ATTN_IS_WHITE)
        begin += n;
    while (step->right && begin < end) {
        const size_t last = attn_character_before(from->text, end);
        if (!(attn_character_classes(attn_character_read(from->text + last, &n)) & ATTN_IS_WHITE))
            break;
        end = last;
    }
    return attn_aligned_copy(to, from, begin, end);
}

bool attn_step_strip(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_stripped, step);
}

static bool rewrite_replaced(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                             const void *with) {
    const attn_step *step = with;
    const char *text = from->text + piece->begin;
    const size_t size = piece->end - piece->begin;
    for (size_t at = 0, n; at < size; at += n) {
        n = step->scan(step, text, size, at);
        const size_t begin = piece->begin + at;
        if (n) {
            if (!attn_aligned_bytes(to, step->with, step->with_size, from->origins[begin + n - 1]))
                return false;
            continue;
        }
        attn_character_read(text + at, &n);
        if (!attn_aligned_copy(to, from, begin, begin + n))
            return false;
    }
    return true;
}

bool attn_step_replace(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_replaced, step);
}

static bool rewrite_prepended(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                              const void *with) {
    const attn_step *step = with;
    return attn_aligned_bytes(to, step->with, step->with_size, from->origins[piece->begin]) &&
           attn_aligned_copy(to, from, piece->begin, piece->end);
}

bool attn_step_prepend(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_prepended, step);
}

static bool rewrite_prefixed(attn_aligned *to, const attn_aligned *from, const attn_piece *piece,
                             const void *with) {
    const attn_step *step = with;
    const bool there = piece->end - piece->begin >= step->with_size &&
                       !memcmp(from->text + piece->begin, step->with, step->with_size);
    if (there || (step->first_only && from->origins[piece->begin].begin))
        return attn_aligned_copy(to, from, piece->begin, piece->end);
    return rewrite_prepended(to, from, piece, with);
}

bool attn_step_prefix(const attn_step *step, attn_aligned *a) {
    return attn_aligned_rewrite(a, rewrite_prefixed, step);
}
