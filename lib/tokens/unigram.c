/* The unigram model (Kudo 2018): Viterbi's algorithm in float64 finds the division of a word into
 * tokens whose scores have the largest sum. A character that is no token costs PENALTY more than
 * the least likely token. */
#include <string.h>

#include "tokens/character.h"
#include "tokens/pipeline.h"

static const double PENALTY = 10.0;

/* The best division that ends at a byte. */
typedef struct node {
    double score;
    size_t from; /* where the last token of this division begins; SIZE_MAX: no division ends here */
    int32_t id;
} node;

static void offer(node *to, double score, size_t from, int32_t id) {
    if (to->from == SIZE_MAX || score > to->score)
        *to = (node){score, from, id};
}

static void find_best(const attn_tokenizer *t, const char *text, size_t size, node *nodes) {
    const attn_unigram *u = &t->pipeline->unigram;
    for (size_t i = 0; i <= size; i++)
        nodes[i] = (node){0, SIZE_MAX, 0};
    for (size_t at = 0, n; at < size; at += n) {
        attn_prefix_walk walk = {0};
        bool single = false;
        attn_character_read(text + at, &n);
        for (const attn_prefix *x;
             (x = attn_prefixes_next(&u->tokens, &walk, text + at, size - at));) {
            offer(&nodes[at + x->size], u->scores[x->index] + nodes[at].score, at,
                  (int32_t)x->index);
            single = single || x->size == n;
        }
        if (!single)
            offer(&nodes[at + n], u->least - PENALTY + nodes[at].score, at, t->pipeline->unknown);
    }
}

/* Adds the token of the bytes [begin, end). If they are no token, adds the tokens of the single
 * bytes or the unknown token. */
static void add(const attn_tokenizer *t, const char *text, size_t begin, size_t end,
                attn_found_list *found) {
    const attn_pipeline *p = t->pipeline;
    const int32_t id = attn_tokenizer_find(t, text + begin, end - begin);
    bool bytes = id < 0 && p->unigram.byte_fallback;
    for (size_t i = begin; bytes && i < end; i++)
        bytes = p->bytes[(unsigned char)text[i]] >= 0;
    if (!bytes)
        attn_found_add(found, id >= 0 ? id : p->unknown, begin, end);
    for (size_t i = begin; bytes && i < end; i++)
        attn_found_add(found, p->bytes[(unsigned char)text[i]], begin, end);
}

bool attn_unigram_divide(const attn_tokenizer *t, const char *word, size_t size,
                         attn_found_list *found) {
    const int32_t unknown = t->pipeline->unknown;
    if (!attn_found_reserve(found, size))
        return false;
    const attn_arena_mark mark = attn_arena_here(found->arena);
    node *nodes = attn_arena_array(found->arena, size + 1, sizeof *nodes);
    if (!nodes)
        return false;
    find_best(t, word, size, nodes);
    /* Follows the path backwards: `from` becomes the end of the token that begins there.
     * Neighbouring unknown tokens become one. */
    size_t next = size;
    for (size_t end = size, begin; end; end = begin) {
        const int32_t id = nodes[end].id;
        begin = nodes[end].from;
        while (id == unknown && begin && nodes[begin].id == unknown)
            begin = nodes[begin].from;
        nodes[end].from = next;
        next = end;
        if (!begin)
            break;
    }
    for (size_t begin = 0, end = next; begin < size; begin = end, end = nodes[end].from)
        add(t, word, begin, end, found);
    attn_arena_rewind(found->arena, &mark);
    return true;
}
