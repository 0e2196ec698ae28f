/* Byte-pair encoding (Sennrich, Haddow and Birch 2016) by ranked merges. Of all pairs of neighbours
 * in a word, the pair with the lowest rank becomes one symbol; of pairs with equal ranks, the
 * first. This goes on until no pair has a merge. With a heap of pairs, it takes n log n steps for a
 * word of n symbols. */
#include "tokens/character.h"
#include "tokens/pipeline.h"
#include "json/json_scan.h"

typedef struct symbol {
    size_t begin, end;
    int32_t id;
    uint32_t before, after; /* neighbours; NONE at the ends */
    bool gone;              /* the symbol has become part of the symbol before it */
} symbol;

typedef struct candidate {
    uint32_t rank, left; /* rank of the merge, and index of its left symbol */
} candidate;

enum { NONE = UINT32_MAX };

typedef struct word {
    const attn_tokenizer *t;
    symbol *symbols;
    size_t count;
    candidate *heap;
    size_t heap_size;
} word;

/* --- the heap --- */

static bool is_before(candidate a, candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.left < b.left;
}

static void push(word *w, candidate c) {
    size_t at = w->heap_size++;
    for (; at && is_before(c, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = c;
}

static candidate pop(word *w) {
    const candidate top = w->heap[0], last = w->heap[--w->heap_size];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->heap_size; at = child) {
        if (child + 1 < w->heap_size && is_before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!is_before(w->heap[child], last))
            break;
        w->heap[at] = w->heap[child];
    }
    w->heap[at] = last;
    return top;
}

/* --- merging --- */

/* Pushes the pair of symbol `left` and the symbol behind it, if the pair has a merge. */
static void offer(word *w, uint32_t left) {
    const attn_merges *m = w->t->merges;
    if (left == NONE || w->symbols[left].after == NONE)
        return;
    const attn_merge *merge =
        attn_merges_find(m, w->symbols[left].id, w->symbols[w->symbols[left].after].id);
    if (merge)
        push(w, (candidate){(uint32_t)(merge - m->items), left});
}

static void merge_all(word *w) {
    const attn_merge *merges = w->t->merges->items;
    for (uint32_t i = 0; i < w->count; i++)
        offer(w, i);
    while (w->heap_size) {
        const candidate c = pop(w);
        symbol *left = &w->symbols[c.left];
        if (left->gone || left->after == NONE)
            continue;
        symbol *right = &w->symbols[left->after];
        if (left->id != merges[c.rank].left || right->id != merges[c.rank].right)
            continue; /* one of the two symbols has been merged since the pair was pushed */
        left->id = merges[c.rank].made;
        left->end = right->end;
        left->after = right->after;
        right->gone = true;
        if (left->after != NONE)
            w->symbols[left->after].before = c.left;
        offer(w, left->before);
        offer(w, c.left);
    }
}

/* --- the symbols that a word begins with --- */

static void add_symbol(word *w, int32_t id, size_t begin, size_t end) {
    const uint32_t i = (uint32_t)w->count++;
    w->symbols[i] = (symbol){begin, end, id, i ? i - 1 : NONE, NONE, false};
    if (i)
        w->symbols[i - 1].after = i;
}

/* Adds the bytes of a character. Returns false if one of them has no token. */
static bool add_bytes(word *w, const char *text, size_t begin, size_t n) {
    const int32_t *bytes = w->t->pipeline->bytes;
    for (size_t i = 0; i < n; i++)
        if (bytes[(unsigned char)text[begin + i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        add_symbol(w, bytes[(unsigned char)text[begin + i]], begin + i, begin + i + 1);
    return true;
}

/* Adds an unknown unit, or extends the unknown unit before it. */
static void add_unknown(word *w, size_t begin, size_t end, bool *after_unknown) {
    const attn_pipeline *p = w->t->pipeline;
    if (p->unknown < 0)
        return;
    if (*after_unknown && p->pairs.fuse_unknown)
        w->symbols[w->count - 1].end = end;
    else
        add_symbol(w, p->unknown, begin, end);
    *after_unknown = true;
}

static void add_symbols(word *w, const char *text, size_t size) {
    const attn_byte_pairs *pairs = &w->t->pipeline->pairs;
    bool after_unknown = false;
    for (size_t at = 0, n = 1; at < size; at += n) {
        if (!pairs->of_bytes)
            attn_character_read(text + at, &n);
        const int32_t id = pairs->of_bytes ? w->t->pipeline->bytes[(unsigned char)text[at]]
                                           : attn_tokenizer_find(w->t, text + at, n);
        if (id >= 0) {
            add_symbol(w, id, at, at + n);
            after_unknown = false;
        } else if (!pairs->byte_fallback || !add_bytes(w, text, at, n)) {
            add_unknown(w, at, at + n, &after_unknown);
        }
    }
}

/* Returns the token that is the whole word; -1: there is none. */
static int32_t whole(const attn_tokenizer *t, const char *text, size_t size, attn_arena *arena) {
    if (!t->pipeline->pairs.of_bytes)
        return attn_tokenizer_find(t, text, size);
    if (size > t->pipeline->longest)
        return -1;
    const attn_arena_mark mark = attn_arena_here(arena);
    char *name = attn_arena_take(arena, 2 * size), *end = name;
    for (size_t i = 0; name && i < size; i++)
        end = attn_put_utf8(end, (uint32_t)attn_byte_character((unsigned char)text[i]));
    const int32_t id = name ? attn_tokenizer_find(t, name, (size_t)(end - name)) : -1;
    attn_arena_rewind(arena, &mark);
    return id;
}

bool attn_pairs_divide(const attn_tokenizer *t, const char *text, size_t size,
                       attn_found_list *found) {
    const int32_t id = t->pipeline->pairs.whole_first ? whole(t, text, size, found->arena) : -1;
    if (id >= 0)
        return attn_found_add(found, id, 0, size);
    if (!attn_found_reserve(found, size))
        return false;
    const attn_arena_mark mark = attn_arena_here(found->arena);
    word w = {.t = t,
              .symbols = attn_arena_array(found->arena, size, sizeof(symbol)),
              /* a merge removes a symbol and pushes at most two pairs, so 3 n pairs are enough */
              .heap = attn_arena_array(found->arena, size, 3 * sizeof(candidate))};
    if (!w.symbols || !w.heap)
        return false;
    add_symbols(&w, text, size);
    merge_all(&w);
    for (size_t i = 0; i < w.count; i++)
        if (!w.symbols[i].gone)
            attn_found_add(found, w.symbols[i].id, w.symbols[i].begin, w.symbols[i].end);
    attn_arena_rewind(found->arena, &mark);
    return true;
}
