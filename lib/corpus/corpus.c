/* Finds the sentence pair at an index of a split. Candidates are drawn, each from a random stream
 * of its own, until one has an allowed length and belongs to the split.
 *
 * The tasks copy, reverse and sort draw sequences of symbols instead of sentences. Their held-out
 * pairs of words are a symbol and the next one in the source sequence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "corpus/grammar.h"
#include "corpus/sentence.h"

struct attn_corpus {
    attn_corpus_options options;
    attn_lexicon words;
    const char **symbols; /* texts of the symbols: "0", "1", … */
};

/* --- the tasks copy, reverse and sort --- */

/* Makes the texts of the symbols. Returns how many were made before memory ran out. */
static size_t make_symbols(attn_corpus *c, attn_arena *arena) {
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

/* Puts the drawn symbols into the order of the target. drawn[i] is a symbol and its source index.
 * Equal symbols keep their order, so each target symbol has one source. */
static void order_symbols(const attn_corpus *c, size_t (*drawn)[2], size_t n) {
    if (c->options.task == ATTN_SORT)
        qsort(drawn, n, sizeof *drawn, by_symbol);
    for (size_t i = 0; c->options.task == ATTN_REVERSE && i < n / 2; i++)
        for (size_t k = 0; k < 2; k++) {
            size_t kept = drawn[i][k];
            drawn[i][k] = drawn[n - 1 - i][k];
            drawn[n - 1 - i][k] = kept;
        }
}

/* Draws a source sequence of s->wanted symbols and makes the pair. */
static void draw_symbols(const attn_corpus *c, attn_sentence *s, attn_pair *out) {
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
    order_symbols(c, drawn, n);
    out->source_count = out->target_count = out->link_count = n;
    for (size_t i = 0; i < n; i++) {
        out->target[i] = c->symbols[drawn[i][0]];
        out->links[i] = (attn_link){(uint16_t)drawn[i][1], (uint16_t)i, true};
    }
}

/* --- the corpus --- */

/* At most MOST_CANDIDATES sentences are drawn to find one that has an allowed length and belongs to
 * the split. Held-out sentences of three words are the rarest, and need about thirty draws. */
enum { MOST_CANDIDATES = 20000, LONGEST = 60, MOST_SYMBOLS = 1000 };

const char *const attn_task_names[] = {"en-fr",      "copy",         "reverse", "sort",
                                       "en-fr-text", "word-classes", NULL};
const char *const attn_split_names[] = {"train", "validation", "held-out", NULL};

static bool is_translation(attn_task task) {
    return task == ATTN_EN_FR || task == ATTN_EN_FR_TEXT;
}

/* Tells whether the sources are sentences of the grammar. */
static bool has_grammar(attn_task task) {
    return is_translation(task) || task == ATTN_WORD_CLASSES;
}

void attn_task_languages(attn_task task, attn_language out[2]) {
    out[0] = ATTN_ENGLISH;
    out[1] = is_translation(task) ? ATTN_FRENCH : ATTN_ENGLISH;
}

bool attn_task_parse(const char *name, attn_task *out) {
    for (size_t i = 0; attn_task_names[i]; i++)
        if (!strcmp(name, attn_task_names[i])) {
            *out = (attn_task)i;
            return true;
        }
    return false;
}

attn_corpus_options attn_corpus_defaults(void) {
    return (attn_corpus_options){.shortest = 3, .longest = LONGEST, .skew = 1, .symbols = 50};
}

static attn_status check_options(const attn_corpus_options *o, attn_error *err) {
    if (o->task < ATTN_EN_FR || o->task > ATTN_WORD_CLASSES)
        return attn_fail(err, ATTN_EVALUE, "task",
                         "is none of en-fr, copy, reverse, sort, en-fr-text, word-classes");
    if (o->shortest < 1 || o->longest > LONGEST || o->shortest > o->longest)
        return attn_fail(err, ATTN_EVALUE, "longest",
                         "lengths must be 1 to %d with shortest <= longest, found %zu to %zu",
                         LONGEST, o->shortest, o->longest);
    if (has_grammar(o->task) && o->longest < 3)
        return attn_fail(err, ATTN_EVALUE, "longest", "the shortest sentence has 3 words");
    if (!(o->skew > 0 && o->skew <= 100))
        return attn_fail(err, ATTN_EVALUE, "skew", "must be above 0, at most 100, found %g",
                         o->skew);
    if (o->symbols < 2 || o->symbols > MOST_SYMBOLS)
        return attn_fail(err, ATTN_EVALUE, "num_symbols", "must be 2 to %d, found %zu",
                         MOST_SYMBOLS, o->symbols);
    return ATTN_OK;
}

attn_status attn_corpus_new(const attn_corpus_options *options, attn_arena *arena,
                            attn_corpus **out, attn_error *err) {
    ATTN_TRY(check_options(options, err));
    attn_corpus *c = attn_arena_zeroed(arena, 1, sizeof *c);
    ATTN_TAKEN(c, "a corpus", err);
    c->options = *options;
    if (has_grammar(options->task))
        ATTN_TRY(attn_lexicon_read(&c->words, attn_lexicon_text,
                                   options->task == ATTN_EN_FR_TEXT ? ATTN_TEXT_LEXICON
                                   : options->large                 ? ATTN_LARGE_LEXICON
                                                                    : ATTN_SMALL_LEXICON,
                                   arena, err));
    else if (make_symbols(c, arena) < options->symbols)
        return attn_fail(err, ATTN_ENOMEM, "num_symbols", "no memory for %zu", options->symbols);
    *out = c;
    return ATTN_OK;
}

/* Tells whether the sentence belongs to validation: one source sentence in sixteen, by a hash. */
static bool is_for_validation(const attn_pair *p) {
    uint64_t hash = 0;
    for (size_t i = 0; i < p->source_count; i++)
        for (const char *c = p->source[i];; c++) {
            hash = attn_rng_bits(hash, (unsigned char)*c);
            if (!*c)
                break;
        }
    return hash % 16 == 0;
}

/* Draws how the pair is typed: most sentences begin with a capital letter, many have contractions,
 * and a few have a blank before their marks or curly apostrophes. The indices of these random
 * numbers are far above those of all others, so the other draws do not depend on them. */
static void draw_style(attn_sentence *s, attn_pair *out) {
    const uint64_t first = (uint64_t)1 << 41;
    out->capital = attn_rng_uniform(s->seed, first) < 0.85;
    out->spaced = attn_rng_uniform(s->seed, first + 1) < 0.06;
    s->contracts = attn_rng_uniform(s->seed, first + 2) < 0.6;
    out->curly = attn_rng_uniform(s->seed, first + 3) < 0.1;
}

static void draw_pair(const attn_corpus *c, attn_sentence *s, attn_pair *out) {
    const attn_corpus_options *o = &c->options;
    double u = pow(attn_rng_uniform(s->seed, s->drawn++), o->skew);
    s->wanted = o->shortest + (size_t)((double)(o->longest - o->shortest + 1) * u);
    out->capital = out->spaced = out->curly = false;
    if (c->words.text)
        draw_style(s, out);
    if (has_grammar(o->task)) {
        attn_whole_sentence(s);
        attn_sentence_finish(s, o->task == ATTN_WORD_CLASSES, out);
    } else {
        draw_symbols(c, s, out);
    }
}

static bool fits_split(const attn_corpus *c, const attn_sentence *s, const attn_pair *p) {
    size_t n = p->source_count;
    if (s->failed || n < c->options.shortest || n > c->options.longest)
        return false;
    if (s->split == ATTN_HELD_OUT)
        return s->held_out;
    if (c->words.text && attn_is_textbook(p))
        return false;
    return is_for_validation(p) == (s->split == ATTN_VALIDATION);
}

attn_status attn_corpus_pair(const attn_corpus *corpus, attn_split split, uint64_t index,
                             attn_pair *out, attn_error *err) {
    uint64_t stream = attn_rng_bits(attn_rng_bits(corpus->options.seed, split), index);
    attn_sentence s = {.words = &corpus->words, .split = split};
    if ((unsigned)split > ATTN_HELD_OUT)
        return attn_fail(err, ATTN_EVALUE, "split", "is none of train, validation, held-out");
    for (uint64_t i = 0; i < MOST_CANDIDATES; i++) {
        s.seed = attn_rng_bits(stream, i);
        s.drawn = s.english_count = s.french_count = 0;
        s.held_out = s.failed = s.contracts = s.told = false;
        s.asked = NO_WORD;
        draw_pair(corpus, &s, out);
        if (fits_split(corpus, &s, out))
            return ATTN_OK;
    }
    return attn_fail(err, ATTN_EVALUE, "longest", "no %s sentence of %zu to %zu words was found",
                     attn_split_names[split], corpus->options.shortest, corpus->options.longest);
}
