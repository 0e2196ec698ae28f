/* Copy, reverse and sort: sequences of numbers. A held-out pair is a number with its successor. */
#include <stdio.h>
#include <stdlib.h>

#include "text/corpus_private.h"

size_t attn_symbols_new(attn_corpus *c, attn_arena *arena) {
    char text[16];
    c->symbols = attn_arena_zeroed(arena, c->options.symbols, sizeof *c->symbols);
    for (size_t i = 0; c->symbols && i < c->options.symbols; i++) {
        int n = snprintf(text, sizeof text, "%zu", i);
        c->symbols[i] = attn_arena_text(arena, text, (size_t)n);
        if (!c->symbols[i])
            return i;
    }
    return c->symbols ? c->options.symbols : 0;
}

static int by_symbol(const void *a, const void *b) {
    const size_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Equal numbers keep their order, so that alignments are one to one. */
static void order(const attn_corpus *c, size_t (*drawn)[2], size_t n) {
    if (c->options.task == ATTN_SORT)
        qsort(drawn, n, sizeof *drawn, by_symbol);
    for (size_t i = 0; c->options.task == ATTN_REVERSE && i < n / 2; i++)
        for (size_t k = 0; k < 2; k++) {
            size_t kept = drawn[i][k];
            drawn[i][k] = drawn[n - 1 - i][k];
            drawn[n - 1 - i][k] = kept;
        }
}

void attn_symbols_draw(const attn_corpus *c, attn_sentence *s, attn_pair *out) {
    size_t drawn[ATTN_PAIR_WORDS][2], n = s->wanted;
    for (size_t i = 0; i < n && !s->failed; i++) {
        drawn[i][0] = attn_pick(s, c->options.symbols), drawn[i][1] = i;
        for (int tries = 0;
             i && !attn_may_meet(s, (uint32_t)drawn[i - 1][0] + 1, (uint32_t)drawn[i][0] + 1);
             tries++) {
            drawn[i][0] = attn_pick(s, c->options.symbols);
            s->failed |= tries == 1000;
            if (s->failed)
                return;
        }
        out->source[i] = c->symbols[drawn[i][0]];
    }
    order(c, drawn, n);
    out->source_count = out->target_count = out->link_count = n;
    for (size_t i = 0; i < n; i++) {
        out->target[i] = c->symbols[drawn[i][0]];
        out->links[i] = (attn_link){(uint16_t)drawn[i][1], (uint16_t)i, true};
    }
}
