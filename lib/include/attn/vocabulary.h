/* A vocabulary maps words to ids: 0 padding, 1 begin, 2 end, 3 unknown, then the words of a corpus
 * from the most frequent to the rarest. A vocabulary of sub-words maps pieces of words instead, and
 * no text is unknown to it. This header also splits texts into words. */
#ifndef ATTN_VOCABULARY_H
#define ATTN_VOCABULARY_H

#include "memory.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { ATTN_PAD = 0, ATTN_BEGIN = 1, ATTN_END = 2, ATTN_UNKNOWN = 3, ATTN_SPECIALS = 4 };

typedef struct attn_vocabulary attn_vocabulary;

/* Make an empty vocabulary with the four special words, and free it. Only one thread at a time may
 * use a vocabulary that is not settled. */
attn_vocabulary *attn_vocabulary_new(void);    /* NULL: out of memory */
void attn_vocabulary_free(attn_vocabulary *v); /* v may be NULL */

/* Counts one occurrence of a word of n bytes. Errors: ATTN_ENOMEM; ATTN_EVALUE if the word is empty
 * or contains a line break or a NUL; ATTN_EARG if the vocabulary is settled. */
attn_status attn_vocabulary_add(attn_vocabulary *v, const char *word, size_t n, attn_error *err);
/* Settles the vocabulary: gives ids to the words that were added at least `minimum` times. Ids
 * follow falling counts; words of equal count are ordered by their bytes. At most `most` words get
 * ids (0: no limit), and the others are dropped. No word can be added afterwards. ATTN_ENOMEM. */
attn_status attn_vocabulary_settle(attn_vocabulary *v, size_t minimum, size_t most,
                                   attn_error *err);

/* The following functions need a settled vocabulary. Any number of threads may call them. */
size_t attn_vocabulary_size(const attn_vocabulary *v); /* number of ids, special words included */
/* Returns the id of a word of n bytes, or ATTN_UNKNOWN if the vocabulary lacks it. */
int32_t attn_vocabulary_id(const attn_vocabulary *v, const char *word, size_t n);
/* Returns the word of an id ("<pad>", "<bos>", "<eos>" and "<unk>" for special ones); NULL if there
 * is no such id. The text lives as long as the vocabulary. */
const char *attn_vocabulary_word(const attn_vocabulary *v, int32_t id);

/* Writes all words in the order of their ids, each followed by a line break, as a NUL-terminated
 * text in the arena. ATTN_ENOMEM. */
attn_status attn_vocabulary_write(const attn_vocabulary *v, attn_arena *arena, const char **text,
                                  attn_error *err);
/* Makes a settled vocabulary from `size` bytes that attn_vocabulary_write made. The caller frees
 * it. Errors: ATTN_EVALUE (wrong special words, a repeated word, a NUL or an empty line; err->text
 * names the line), ATTN_ENOMEM. */
attn_status attn_vocabulary_read(const char *text, size_t size, attn_vocabulary **out,
                                 attn_error *err);

/* ---- words of a text ---- */
typedef enum attn_language { ATTN_ENGLISH = 0, ATTN_FRENCH } attn_language;

/* A word of a text, as the vocabulary knows it, and its place in the text. */
typedef struct attn_token {
    const char *text;  /* in NFC and lower case, with ' for U+2019, NUL-terminated */
    size_t size;       /* bytes of `text`, without the NUL */
    size_t begin, end; /* byte range [begin, end) in the original text */
} attn_token;

/* Splits `size` bytes of UTF-8 into words. A word consists of letters, marks and digits, and may
 * have single hyphens and apostrophes inside. Every other visible character is a word of its own.
 * In French an apostrophe ends a word: "l'eau" gives "l'" and "eau"; only "aujourd'hui" stays
 * whole. *tokens [*count] are in the arena. Errors: ATTN_EVALUE (not UTF-8), ATTN_EARG at
 * "language", ATTN_ENOMEM. Any thread may call it. */
attn_status attn_words_split(const char *text, size_t size, attn_language language,
                             attn_arena *arena, attn_token **tokens, size_t *count,
                             attn_error *err);
/* Joins words with blanks, except after an apostrophe and before . , ; : ! ? ). The text is in the
 * arena; NULL if memory runs out. */
const char *attn_words_join(const char *const *words, size_t count, attn_arena *arena);

/* ---- sub-words: byte-pair encoding (Sennrich, Haddow and Birch 2016) ----
 *
 * A text is divided into units: words as above but in the spelling of the text, other visible
 * characters, and runs of blanks that deviate from the rule below. A unit begins as a sequence of
 * characters. Merges, in the order in which they were learnt, join two neighbouring symbols into
 * one. A symbol that does not end its unit has "@@" behind it: "pizza" may be "piz@@" "za". Merges
 * are applied within 64 characters, so longer words are divided there.
 *
 * A character that was not learnt becomes its bytes, each a symbol such as "<0xC3>", and "</w>"
 * ends a unit after a byte. So every UTF-8 text has symbols, and attn_vocabulary_join gives exactly
 * this text back.
 *
 * Rule for blanks: one is between two units unless the left one ends with an apostrophe or "(", or
 * the right one begins with . , or ) or in English also with ; : ! ?. "<join>" says that a blank of
 * the rule is missing. Blanks against the rule are a unit of their own, in which "␣" is a space. */

/* Counts the units of a text for attn_vocabulary_settle_subwords. Errors: those of
 * attn_vocabulary_add; ATTN_EVALUE at "text" (not UTF-8). */
attn_status attn_vocabulary_add_text(attn_vocabulary *v, const char *text, size_t size,
                                     attn_language language, attn_error *err);
/* Settles the vocabulary as one of sub-words: learns at most `merges` merges from the counted
 * units. Each merge joins the pair of symbols that is then the most frequent; among equals that
 * with the lowest ids. It ends early when no pair occurs twice. Ids: special words, "</w>",
 * "<join>", 256 bytes, characters, then the symbols that merges make. ATTN_ENOMEM. */
attn_status attn_vocabulary_settle_subwords(attn_vocabulary *v, size_t merges, attn_error *err);
/* Tells whether the vocabulary has sub-words. */
bool attn_vocabulary_has_subwords(const attn_vocabulary *v);
/* attn_vocabulary_write_merges writes the merges, one "left right" in a line, as a NUL-terminated
 * text in the arena. attn_vocabulary_read_merges makes a settled vocabulary without merges one of
 * sub-words, with the merges of such a text of `size` bytes. On an error the vocabulary stays as it
 * was. Errors: ATTN_EVALUE (the vocabulary lacks a symbol, or a line is no merge; err->text names
 * the line), ATTN_ENOMEM. */
attn_status attn_vocabulary_write_merges(const attn_vocabulary *v, attn_arena *arena,
                                         const char **text, attn_error *err);
attn_status attn_vocabulary_read_merges(attn_vocabulary *v, const char *text, size_t size,
                                        attn_error *err);

/* Splits a text as the vocabulary does: into sub-words or, as attn_words_split, into words. The
 * texts of sub-words are names of symbols. The byte range of "<join>" and "</w>" is empty. The
 * first byte of a character has the range of the character, its other bytes have empty ones behind
 * it. Errors as attn_words_split. */
attn_status attn_vocabulary_split(const attn_vocabulary *v, const char *text, size_t size,
                                  attn_language language, attn_arena *arena, attn_token **tokens,
                                  size_t *count, attn_error *err);
/* Joins ids to a text: words as attn_words_join, sub-words as described above. Special ids of
 * sub-words are left out. Bytes that are not UTF-8 become U+FFFD; with `open` those at the end that
 * may begin a character are left out, so the text of more ids begins with this text. NULL: memory
 * ran out or an id does not exist. */
const char *attn_vocabulary_join(const attn_vocabulary *v, const int32_t *ids, size_t count,
                                 attn_language language, bool open, attn_arena *arena);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
