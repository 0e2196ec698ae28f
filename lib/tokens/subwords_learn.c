/* Learns byte-pair encoding (Sennrich, Haddow and Birch 2016) from units: the texts that
 * attn_tokenizer_count has counted. Each round counts the pairs of neighbouring symbols in all
 * units and merges the most frequent pair. */
#include <string.h>

#include "base/try.h"
#include "tokens/tokenizer.h"

/* A unit as symbols, and how often it occurs. */
typedef struct unit {
    int32_t *symbols;
    size_t length, count;
} unit;

/* Counts of pairs in a hash table. */
typedef struct pair_count {
    int32_t left, right;
    size_t count; /* 0: free */
} pair_count;

typedef struct learner {
    attn_tokenizer *v; /* the tokenizer that gets the symbols */
    attn_arena *arena;
    unit *units;
    size_t unit_count;
    pair_count *pairs; /* [slot_count], a power of two */
    size_t slot_count;
} learner;

static bool put_symbol(attn_tokenizer *v, const char *character, size_t n, bool last, int32_t *id) {
    char name[ATTN_SYMBOL_NAME];
    size_t place;
    const size_t size = attn_symbol_name(character, n, last, name);
    if (!attn_tokenizer_put(v, name, size, &place))
        return false;
    *id = (int32_t)place;
    return true;
}

/* Adds the symbols of all printable ASCII characters, because the counted units may lack some of
 * them. Characters without a symbol would be encoded as bytes. */
static bool put_ascii(attn_tokenizer *v) {
    bool made = true;
    int32_t id;
    for (char c = ' '; made && c < 0x7f; c++)
        if (attn_symbol_can_be(&c, 1))
            made = put_symbol(v, &c, 1, false, &id) && put_symbol(v, &c, 1, true, &id);
    return made;
}

/* Makes the symbols of a unit's first ATTN_CHUNK characters. Stops at the first character that
 * cannot be a symbol: it is encoded as bytes, which never merge. */
static bool read_unit(learner *l, const attn_entry *from, unit *out) {
    out->count = from->count;
    out->symbols = attn_arena_zeroed(l->arena, from->size, sizeof *out->symbols);
    if (!out->symbols)
        return false;
    size_t size;
    for (size_t at = 0, i = 0; at < from->size && i < ATTN_CHUNK; at += size, i++) {
        const char *character = from->word + at;
        int32_t other;
        size = attn_character_size(character);
        if (!attn_symbol_can_be(character, size))
            break;
        const bool last = at + size == from->size;
        if (!put_symbol(l->v, character, size, last, &out->symbols[out->length++]) ||
            !put_symbol(l->v, character, size, !last, &other))
            return false;
    }
    return true;
}

static bool read_units(learner *l, const attn_tokenizer *counted) {
    l->unit_count = counted->length - ATTN_SPECIALS;
    l->units = attn_arena_zeroed(l->arena, l->unit_count + 1, sizeof *l->units);
    bool read = l->units != NULL;
    size_t symbols = 0;
    for (size_t i = 0; read && i < l->unit_count; i++) {
        read = read_unit(l, &counted->entries[ATTN_SPECIALS + i], &l->units[i]);
        symbols += l->units[i].length;
    }
    for (l->slot_count = 64; l->slot_count < 2 * symbols;)
        l->slot_count *= 2;
    l->pairs = read ? attn_arena_zeroed(l->arena, l->slot_count, sizeof *l->pairs) : NULL;
    return l->pairs != NULL;
}

static void count_pair(learner *l, int32_t left, int32_t right, size_t count) {
    size_t at = attn_symbols_hash(left, right) & (l->slot_count - 1);
    while (l->pairs[at].count && (l->pairs[at].left != left || l->pairs[at].right != right))
        at = (at + 1) & (l->slot_count - 1);
    l->pairs[at].left = left, l->pairs[at].right = right;
    l->pairs[at].count += count;
}

static bool is_better(const pair_count *a, const pair_count *b) {
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

/* Returns the most frequent pair. Its count is 0 if there is no pair. */
static pair_count most_frequent(learner *l) {
    pair_count best = {0};
    memset(l->pairs, 0, l->slot_count * sizeof *l->pairs);
    for (size_t i = 0; i < l->unit_count; i++)
        for (size_t k = 0; k + 1 < l->units[i].length; k++)
            count_pair(l, l->units[i].symbols[k], l->units[i].symbols[k + 1], l->units[i].count);
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->pairs[i].count && (!best.count || is_better(&l->pairs[i], &best)))
            best = l->pairs[i];
    return best;
}

static void merge_units(learner *l, const attn_merge *merge) {
    for (size_t i = 0; i < l->unit_count; i++) {
        unit *u = &l->units[i];
        size_t kept = 0;
        for (size_t k = 0; k < u->length; k++) {
            const bool both = k + 1 < u->length && u->symbols[k] == merge->left &&
                              u->symbols[k + 1] == merge->right;
            u->symbols[kept++] = both ? merge->made : u->symbols[k];
            k += both;
        }
        u->length = kept;
    }
}

static attn_status learn_merges(learner *l, size_t merges, attn_error *err) {
    ATTN_TRY(attn_merges_new(l->v, merges, err));
    while (l->v->merges->count < merges) {
        const pair_count best = most_frequent(l);
        char name[ATTN_SYMBOL_MOST];
        size_t place, size = 0;
        if (best.count > 1)
            size = attn_symbol_join(l->v->entries[best.left].word, l->v->entries[best.right].word,
                                    name);
        if (!size)
            break;
        ATTN_TAKEN(attn_tokenizer_put(l->v, name, size, &place), "the sub-words of a vocabulary",
                   err);
        const attn_merge merge = {best.left, best.right, (int32_t)place};
        attn_merges_add(l->v->merges, merge.left, merge.right, merge.made);
        merge_units(l, &merge);
    }
    return ATTN_OK;
}

/* Exchanges the contents of two tokenizers. */
static void swap_contents(attn_tokenizer *a, attn_tokenizer *b) {
    const attn_tokenizer kept = *a;
    *a = *b;
    *b = kept;
}

attn_status attn_tokenizer_settle_subwords(attn_tokenizer *v, size_t merges, attn_error *err) {
    /* attn_tokenizer_settle sorts the units, so ids do not depend on the order of the corpus. */
    attn_status status = attn_tokenizer_settle(v, 1, 0, err);
    learner l = {.v = attn_tokenizer_new(v->language), .arena = attn_arena_new(SIZE_MAX >> 1)};
    if (!status &&
        (!l.v || !l.arena || !attn_subword_symbols(l.v) || !put_ascii(l.v) || !read_units(&l, v)))
        status = attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory for sub-words");
    if (!status)
        status = learn_merges(&l, merges, err);
    if (!status) {
        l.v->settled = true;
        swap_contents(v, l.v);
    }
    attn_tokenizer_free(l.v);
    attn_arena_free(l.arena);
    return status;
}
