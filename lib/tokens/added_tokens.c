/* Finds added tokens in a text: searches from left to right, and takes the longest token at each
 * place. */
#include "tokens/character.h"
#include "tokens/pipeline.h"

static unsigned classes_before(const char *text, size_t at) {
    size_t n;
    return at ? attn_character_classes(
                    attn_character_read(text + attn_character_before(text, at), &n))
              : 0;
}

static unsigned classes_behind(const char *text, size_t size, size_t at, size_t *n) {
    return at < size ? attn_character_classes(attn_character_read(text + at, n)) : 0;
}

static const attn_prefix *longest_at(const attn_prefixes *set, const char *text, size_t size) {
    attn_prefix_walk walk = {0};
    const attn_prefix *longest = NULL, *found;
    while ((found = attn_prefixes_next(set, &walk, text, size)))
        longest = found;
    return longest;
}

/* A set of added tokens, and the pipeline that has them. */
typedef struct finder {
    const attn_pipeline *pipeline;
    const attn_prefixes *set;
} finder;

static bool find_in(attn_aligned *a, size_t shift, size_t stop, const void *with) {
    const finder *f = with;
    const size_t size = stop - shift;
    const char *text = a->text + shift;
    size_t passed = 0, n = 0; /* the end of the last token */
    for (size_t at = 0; at < size; at += n) {
        const attn_prefix *match = longest_at(f->set, text + at, size - at);
        if (!match) {
            n = 1;
            continue;
        }
        const attn_added *token = &f->pipeline->added[match->index];
        size_t begin = at, end = at + match->size, more;
        n = match->size;
        if (token->single_word && ((classes_before(text, begin) & ATTN_IS_WORD) ||
                                   (classes_behind(text, size, end, &more) & ATTN_IS_WORD)))
            continue;
        while (token->left && begin > passed && classes_before(text, begin) & ATTN_IS_WORD_SPACE)
            begin = attn_character_before(text, begin);
        while (token->right && classes_behind(text, size, end, &more) & ATTN_IS_WORD_SPACE)
            end += more;
        if (begin < passed)
            begin = passed; /* the token before has taken this white space */
        if (!attn_aligned_piece(a, shift + passed, shift + begin, -1) ||
            !attn_aligned_piece(a, shift + begin, shift + end, token->id))
            return false;
        passed = end;
    }
    return passed >= size || attn_aligned_piece(a, shift + passed, shift + size, -1);
}

bool attn_added_find(const attn_pipeline *p, const attn_prefixes *set, attn_aligned *a) {
    const finder f = {p, set};
    return !set->count || attn_aligned_divide(a, find_in, &f);
}

const attn_added *attn_added_of(const attn_pipeline *p, int32_t id) {
    size_t low = 0, high = p->added_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (p->added[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->added_count && p->added[low].id == id ? &p->added[low] : NULL;
}
