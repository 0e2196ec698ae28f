/* A vocabulary maps words to numbers: 0 padding, 1 begin, 2 end, 3 unknown, then the words of a
 * corpus from the most frequent to the rarest. The file also splits texts into words. */
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

attn_vocabulary *attn_vocabulary_new(void);    /* NULL: out of memory */
void attn_vocabulary_free(attn_vocabulary *v); /* NULL is fine */

/* Counts one occurrence of a word of n bytes. Errors: ATTN_ENOMEM; ATTN_EVALUE: the word is empty
 * or has a line break or a NUL; ATTN_EARG: the vocabulary is settled. */
attn_status attn_vocabulary_add(attn_vocabulary *v, const char *word, size_t n, attn_error *err);
/* Settles the vocabulary: numbers the words that occurred at least `minimum` times, by falling
 * count, then by their bytes, and at most `most` of them (0: all). No word can be added
 * afterwards. */
attn_status attn_vocabulary_settle(attn_vocabulary *v, size_t minimum, size_t most,
                                   attn_error *err);

/* These functions need a settled vocabulary. Any thread may call them. */
size_t attn_vocabulary_size(const attn_vocabulary *v); /* counts the special words too */
/* Returns the number of a word, or ATTN_UNKNOWN if the vocabulary lacks it. */
int32_t attn_vocabulary_id(const attn_vocabulary *v, const char *word, size_t n);
/* Returns "<pad>", "<bos>", "<eos>", "<unk>" or the word of a number; NULL: no such number. */
const char *attn_vocabulary_word(const attn_vocabulary *v, int32_t id);

/* Writes all words in the order of their numbers, one line each, NUL-terminated, into the arena. */
attn_status attn_vocabulary_write(const attn_vocabulary *v, attn_arena *arena, const char **text,
                                  attn_error *err);
/* Makes a settled vocabulary from the text of attn_vocabulary_write. Errors: ATTN_EVALUE (wrong
 * special words, a repeated word, a NUL, an empty line; err->text names the line), ATTN_ENOMEM. */
attn_status attn_vocabulary_read(const char *text, size_t size, attn_vocabulary **out,
                                 attn_error *err);

/* ---- words of a text ---- */
typedef enum attn_language { ATTN_ENGLISH = 0, ATTN_FRENCH } attn_language;

typedef struct attn_token {
    const char *text;  /* NFC, lower case, NUL-terminated */
    size_t size;       /* bytes of `text` */
    size_t begin, end; /* bytes of the original text */
} attn_token;

/* Splits UTF-8 text into words. A word is a run of letters, marks and digits with single hyphens
 * and apostrophes inside; every other visible character is a word of its own. In French an
 * apostrophe ends a word ("l'eau" gives "l'" and "eau", but "aujourd'hui" stays whole). The tokens
 * are in the arena. Errors: ATTN_EVALUE at a byte that is not UTF-8, ATTN_EARG at "language",
 * ATTN_ENOMEM. */
attn_status attn_words_split(const char *text, size_t size, attn_language language,
                             attn_arena *arena, attn_token **tokens, size_t *count,
                             attn_error *err);
/* Joins words with blanks, but with no blank after an apostrophe or before . , ; : ! ? ). NULL: out
 * of memory. */
const char *attn_words_join(const char *const *words, size_t count, attn_arena *arena);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
