/* A side of a sentence pair as text, and the tokens of this text. */
#include <string.h>

#include "base/try.h"
#include "corpus/corpus.h"
#include "tokens/words.h"

/* The words of a side of a pair. */
typedef struct side {
    const char *const *words;
    size_t count;
} side;

static side side_of(const attn_pair *pair, bool target) {
    return target ? (side){pair->target, pair->target_count}
                  : (side){pair->source, pair->source_count};
}

/* Returns a word with its apostrophes as U+2019. NULL: memory ran out. */
static const char *curl_apostrophes(const char *word, attn_arena *arena) {
    static const char curly[] = "\xe2\x80\x99";
    char *out = attn_arena_take(arena, 3 * strlen(word) + 1), *at = out;
    for (; out && *word; word++) {
        const size_t n = *word == '\'' ? 3 : 1;
        memcpy(at, n == 3 ? curly : word, n);
        at += n;
    }
    if (out)
        *at = 0;
    return out;
}

/* Returns an English word as the pair is typed: with curly apostrophes if pair->curly, and "I" as
 * "i" unless pair->capital. NULL: memory ran out. */
static const char *as_typed(const attn_pair *pair, const char *word, attn_arena *arena) {
    if (!pair->capital && *word == 'I' && (!word[1] || word[1] == '\'')) {
        char *small = attn_arena_text(arena, word, strlen(word));
        if (small)
            *small = 'i';
        word = small;
    }
    return word && pair->curly && strchr(word, '\'') ? curl_apostrophes(word, arena) : word;
}

/* Returns the words of a side as they are written in a text. The first word has a capital letter if
 * pair->capital. NULL: memory ran out. */
static const char **words_of(const attn_pair *pair, bool target, attn_arena *arena) {
    const side from = side_of(pair, target);
    const char **words = attn_arena_zeroed(arena, from.count + 1, sizeof *words);
    bool complete = words != NULL;
    for (size_t i = 0; complete && i < from.count; i++) {
        words[i] = i || !pair->capital ? from.words[i] : attn_word_capital(from.words[i], arena);
        if (words[i] && !target)
            words[i] = as_typed(pair, words[i], arena);
        complete = words[i] != NULL;
    }
    return complete ? words : NULL;
}

/* Tells whether a blank is between two words of a text. French has a blank before "?", "!", ";" and
 * ":". */
static bool is_apart(const attn_pair *pair, const char *left, const char *right, bool french) {
    if (left[strlen(left) - 1] == '\'')
        return false;
    return pair->spaced || !strchr(french ? ".,)" : ".,)?!;:", *right);
}

/* Joins words to a text and stores in ends [count] at which byte each word ends. NULL: memory ran
 * out. */
static const char *join_words(const attn_pair *pair, const char *const *words, size_t count,
                              bool french, size_t *ends, attn_arena *arena) {
    size_t size = 1;
    for (size_t i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    char *text = attn_arena_take(arena, size), *at = text;
    for (size_t i = 0; text && i < count; i++) {
        const size_t n = strlen(words[i]);
        if (i && is_apart(pair, words[i - 1], words[i], french))
            *at++ = ' ';
        memcpy(at, words[i], n);
        at += n;
        ends[i] = (size_t)(at - text);
    }
    if (text)
        *at = 0;
    return text;
}

const char *attn_pair_text(const attn_pair *pair, bool target, attn_language language,
                           attn_arena *arena) {
    size_t ends[ATTN_PAIR_WORDS];
    const char **words = words_of(pair, target, arena);
    return words ? join_words(pair, words, side_of(pair, target).count, language == ATTN_FRENCH,
                              ends, arena)
                 : NULL;
}

attn_status attn_pair_count(const attn_pair *pair, bool target, attn_tokenizer *to,
                            attn_error *err) {
    const side from = side_of(pair, target);
    for (size_t i = 0; i < from.count; i++)
        ATTN_TRY(attn_tokenizer_count(to, from.words[i], strlen(from.words[i]), err));
    return ATTN_OK;
}

attn_status attn_corpus_count(const attn_corpus *corpus, size_t pairs, attn_tokenizer *const to[2],
                              attn_pair *pair, attn_error *err) {
    for (size_t i = 0; i < pairs; i++) {
        ATTN_TRY(attn_corpus_pair(corpus, ATTN_TRAIN, i, pair, err));
        ATTN_TRY(attn_pair_count(pair, false, to[0], err));
        ATTN_TRY(attn_pair_count(pair, true, to[1], err));
    }
    return ATTN_OK;
}

/* Allocates `count` tokens. */
static attn_status make_tokens(attn_pair_tokens *out, size_t count, attn_arena *arena,
                               attn_error *err) {
    *out = (attn_pair_tokens){.ids = attn_arena_zeroed(arena, count + 1, sizeof *out->ids),
                              .words = attn_arena_zeroed(arena, count + 1, sizeof *out->words),
                              .count = count};
    return out->ids && out->words
               ? ATTN_OK
               : attn_fail(err, ATTN_ENOMEM, "pair", "no memory for %zu tokens", count);
}

/* Makes each word of a side a token. */
static attn_status take_words(const side *from, const attn_tokenizer *t, attn_arena *arena,
                              attn_pair_tokens *out, attn_error *err) {
    ATTN_TRY(make_tokens(out, from->count, arena, err));
    for (size_t i = 0; i < from->count; i++) {
        out->ids[i] = attn_tokenizer_id(t, from->words[i], strlen(from->words[i]));
        out->words[i] = i;
    }
    return ATTN_OK;
}

attn_status attn_pair_read(const attn_pair *pair, bool target, const attn_tokenizer *t,
                           attn_arena *arena, attn_pair_tokens *out, attn_error *err) {
    const side from = side_of(pair, target);
    size_t ends[ATTN_PAIR_WORDS], count;
    attn_token *tokens;
    if (attn_tokenizer_kind_of(t) != ATTN_TOKENS_SUBWORDS)
        return take_words(&from, t, arena, out, err);
    const char **words = words_of(pair, target, arena);
    const bool french = attn_tokenizer_language(t) == ATTN_FRENCH;
    const char *text = words ? join_words(pair, words, from.count, french, ends, arena) : NULL;
    if (!text)
        return attn_fail(err, ATTN_ENOMEM, "pair", "no memory for %zu words", from.count);
    ATTN_TRY(attn_tokenizer_encode(t, text, strlen(text), arena, &tokens, &count, err));
    ATTN_TRY(make_tokens(out, count, arena, err));
    for (size_t i = 0, word = 0; i < count; i++) {
        while (word + 1 < from.count && tokens[i].end > ends[word])
            word++;
        out->ids[i] = tokens[i].id;
        out->words[i] = word;
    }
    return ATTN_OK;
}
