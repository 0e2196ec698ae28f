/* Tokenizers: texts to ids and back.
 *
 * A tokenizer has ids 0 … size - 1. Some of them are special: they stand for padding, the begin and
 * the end of a sequence, and text that the tokenizer does not know. Which ids these are is data of
 * the tokenizer (attn_tokenizer_special); one of a known model may lack any of them. Kinds:
 *
 *   numbers     ids without texts: there is nothing to encode
 *   words       a token is a word, in lower case; words that were not learnt are unknown
 *   sub-words   a token is a piece of a word, by byte-pair encoding; no text is unknown
 *
 * and, of known models, by the rules of the model's own files:
 *
 *   byte pairs  ranked merges of symbols, which are bytes or characters
 *   wordpiece   the longest tokens of a word, from its beginning on
 *   unigram     the most likely tokens of a word
 *
 * Words. A word consists of letters, marks and digits, and may have single hyphens and apostrophes
 * inside. Every other visible character is a word of its own. In French an apostrophe ends a word:
 * "l'eau" gives "l'" and "eau"; only "aujourd'hui" stays whole. Tokens of whole words are in NFC
 * and lower case, with ' for U+2019. Decoding joins them with blanks, except after an apostrophe
 * and before . , ; : ! ? ).
 *
 * Sub-words (Sennrich, Haddow and Birch 2016). A text is divided into units: words as above but in
 * the spelling of the text, other visible characters, and runs of blanks that deviate from the rule
 * below. A unit begins as a sequence of characters. Merges, in the order in which they were learnt,
 * join two neighbouring symbols into one. A symbol that does not end its unit has "@@" behind it:
 * "pizza" may be "piz@@" "za". Merges are applied within 64 characters, so longer words are divided
 * there. A character that was not learnt becomes its bytes, each a symbol such as "<0xC3>", and
 * "</w>" ends a unit after a byte. So every UTF-8 text has symbols, and decoding gives exactly this
 * text back.
 *
 * Rule for blanks: a blank is between two units unless the left unit ends with an apostrophe or
 * "(", or the right unit begins with . , or ) or in English also with ; : ! ?. "<join>" says that a
 * blank of the rule is missing. Blanks against the rule are a unit of their own, in which "␣" is a
 * space.
 *
 * Known models. A text passes through the members of a `tokenizer.json`: added tokens are found in
 * it, normalisers rewrite it, added tokens are found in what they make, splitters divide it into
 * words, the model divides words into tokens, and a template puts special tokens around them. The
 * reference is the library of that format, PyPI `tokenizers` 0.23: ids, byte ranges and words are
 * the same for every text. Models:
 *   - Byte pairs (Sennrich et al. 2016): of all neighbours in a word the pair whose merge is the
 *     first one in the list becomes one symbol, until none has a merge. GPT-2's are over bytes, each
 *     written as a character (Radford et al. 2019), and its words follow a pattern. Llama 3 and
 *     Qwen 2 have other patterns; SmolLM takes digits one by one before GPT-2's.
 *   - WordPiece (Schuster and Nakajima 2012), as BERT applies it: a word of which some part is no
 *     token is unknown as a whole.
 *   - Unigram (Kudo 2018): the division of a word whose scores have the largest sum. */
#ifndef ATTN_TOKENS_H
#define ATTN_TOKENS_H

#include "memory.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct attn_tokenizer attn_tokenizer;

typedef enum attn_tokenizer_kind {
    ATTN_TOKENS_NUMBERS = 0,
    ATTN_TOKENS_WORDS,
    ATTN_TOKENS_SUBWORDS,
    ATTN_TOKENS_BYTE_PAIRS,
    ATTN_TOKENS_WORDPIECE,
    ATTN_TOKENS_UNIGRAM
} attn_tokenizer_kind;

/* The rules by which texts are divided into words. */
typedef enum attn_language { ATTN_ENGLISH = 0, ATTN_FRENCH } attn_language;
extern const char *const attn_language_names[]; /* "english", "french", then NULL */
/* Finds a language by its name. Returns false if there is no such name. */
bool attn_language_parse(const char *name, attn_language *out);

/* The purposes of special ids. */
typedef enum attn_special {
    ATTN_SPECIAL_PAD = 0,
    ATTN_SPECIAL_BEGIN,
    ATTN_SPECIAL_END,
    ATTN_SPECIAL_UNKNOWN
} attn_special;
enum { ATTN_SPECIALS = ATTN_SPECIAL_UNKNOWN + 1 };
extern const char *const attn_special_names[ATTN_SPECIALS]; /* "pad", "begin", "end", "unknown" */

/* A token of a text. */
typedef struct attn_token {
    const char *text;  /* the tokenizer's text for it, NUL-terminated */
    size_t size;       /* bytes of `text`, without the NUL */
    size_t begin, end; /* byte range [begin, end) in the original text */
    int32_t id;
    int32_t word; /* index of the word of its text, or of the unit; -1: a token of a template */
    /* for a known model: the segment that its template states; else 0 in the first text of a pair
     * and 1 in the second one */
    int32_t segment;
} attn_token;

/* ---- making ---- */

/* attn_tokenizer_new makes a tokenizer that only has special tokens and is to learn words
 * (attn_tokenizer_count). Only one thread at a time may use a tokenizer that learns.
 * attn_tokenizer_numbers makes a tokenizer of numbers, with `size` ids, special ones included.
 * NULL: out of memory, or there is no such language. */
attn_tokenizer *attn_tokenizer_new(attn_language language);
attn_tokenizer *attn_tokenizer_numbers(size_t size, attn_language language);
/* Makes a tokenizer of the given words, whose ids follow the special ones in this order. Errors:
 * ATTN_EVALUE (an empty or repeated word, a special token or a line break; err->where is the index
 * of the word), ATTN_ENOMEM. */
attn_status attn_tokenizer_of(const char *const *words, size_t count, attn_language language,
                              attn_tokenizer **out, attn_error *err);
void attn_tokenizer_free(attn_tokenizer *t); /* t may be NULL */

/* Count one occurrence of a word of n bytes, or of each unit of a text (for sub-words). Errors:
 * ATTN_ENOMEM; ATTN_EVALUE if a word is empty or contains a line break or a NUL, or at "text" (not
 * UTF-8); ATTN_EARG if the tokenizer no longer learns. */
attn_status attn_tokenizer_count(attn_tokenizer *t, const char *word, size_t n, attn_error *err);
attn_status attn_tokenizer_count_text(attn_tokenizer *t, const char *text, size_t size,
                                      attn_error *err);
/* End learning. No word can be counted afterwards. Error: ATTN_ENOMEM.
 *
 * attn_tokenizer_settle makes a tokenizer of words: gives ids to the words that were counted at
 * least `minimum` times. Ids follow falling counts; words of equal count are ordered by their
 * bytes. At most `most` words get ids (0: no limit), and the others are dropped.
 *
 * attn_tokenizer_settle_subwords makes one of sub-words: learns at most `merges` merges from the
 * counted units. Each merge joins the pair of symbols that is the most frequent at that time; among
 * equally frequent pairs, it joins the pair with the lowest ids. Learning ends early when no pair
 * occurs twice. Ids: special tokens, "</w>", "<join>", 256 bytes, characters, then the symbols that
 * merges make. */
attn_status attn_tokenizer_settle(attn_tokenizer *t, size_t minimum, size_t most, attn_error *err);
attn_status attn_tokenizer_settle_subwords(attn_tokenizer *t, size_t merges, attn_error *err);

/* ---- as text ---- */

/* Writes all tokens in the order of their ids, each followed by a line break. For sub-words it also
 * writes the merges, each as a line "left right"; else *merges is NULL. Both are NUL-terminated and
 * in the arena. Errors: ATTN_EARG (a tokenizer of numbers has no texts), ATTN_ENOMEM. */
attn_status attn_tokenizer_write(const attn_tokenizer *t, attn_arena *arena, const char **tokens,
                                 const char **merges, attn_error *err);
/* attn_tokenizer_read makes a tokenizer of words from `size` bytes of tokens, as
 * attn_tokenizer_write writes them. The caller frees the tokenizer. attn_tokenizer_read_merges
 * turns a tokenizer of words into one of sub-words, with `size` bytes of merges; on an error the
 * tokenizer stays as it was. Errors: ATTN_EVALUE (tokens: wrong special tokens, a repeated token, a
 * NUL or an empty line; merges: a token that a merge needs is missing, or a line is no merge;
 * err->text names the line), ATTN_ENOMEM. */
attn_status attn_tokenizer_read(const char *tokens, size_t size, attn_language language,
                                attn_tokenizer **out, attn_error *err);
attn_status attn_tokenizer_read_merges(attn_tokenizer *t, const char *merges, size_t size,
                                       attn_error *err);

/* ---- known models. The caller frees the tokenizer ---- */

/* Reads a `tokenizer.json` of `size` bytes. Its truncation and padding are ignored. Errors:
 * ATTN_EARG (no JSON), ATTN_EVALUE (err->where is the member: a part that this library does not
 * know, or a known part with an option that changes ids and that it lacks; ids that are missing,
 * repeated or not those that the reference would give), ATTN_ENOMEM. */
attn_status attn_tokenizer_read_json(const char *text, size_t size, attn_tokenizer **out,
                                     attn_error *err);

/* A text of `size` bytes, without a NUL. */
typedef struct attn_string {
    const char *text;
    size_t size;
} attn_string;

/* A tokenizer as a GGUF file has it: its arrays, and its members "tokenizer.ggml.…". */
typedef struct attn_tokenizer_arrays {
    attn_string model;         /* "gpt2"; others are refused */
    attn_string pre;           /* the pattern: "smollm", "gpt-2", "llama-bpe" or "qwen2" */
    const attn_string *tokens; /* [token_count] by id */
    size_t token_count;
    const int32_t *types; /* [token_count] 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
                             6 byte; NULL: all are normal */
    const attn_string *merges; /* [merge_count] "left right" */
    size_t merge_count;
    int32_t specials[4];     /* ids by attn_special; -1: none */
    bool add_begin, add_end; /* whether the template puts them around a text */
} attn_tokenizer_arrays;

/* Makes a tokenizer of byte pairs of the arrays, which it copies. Control and user-defined tokens
 * are found in texts, as the reference finds added tokens. "smollm" takes digits singly, then the
 * pattern of GPT-2; "llama-bpe" takes a word that is a token as it is; "qwen2" puts texts into NFC.
 * Errors: as attn_tokenizer_read_json. */
attn_status attn_tokenizer_read_arrays(const attn_tokenizer_arrays *arrays, attn_tokenizer **out,
                                       attn_error *err);
/* Sets the id that stands for `special`; -1: none does. No other thread may use the tokenizer. */
void attn_tokenizer_set_special(attn_tokenizer *t, attn_special special, int32_t id);

/* ---- use. The tokenizer must not learn any more; any number of threads may call these ---- */

attn_tokenizer_kind attn_tokenizer_kind_of(const attn_tokenizer *t);
bool attn_tokenizer_has_texts(const attn_tokenizer *t); /* false: its ids are numbers */
attn_language attn_tokenizer_language(const attn_tokenizer *t);
size_t attn_tokenizer_size(const attn_tokenizer *t);  /* number of ids, special ones included */
size_t attn_tokenizer_bytes(const attn_tokenizer *t); /* bytes of memory that it takes */
/* Returns the id that stands for `special`; -1: the tokenizer of a known model has none. */
int32_t attn_tokenizer_special(const attn_tokenizer *t, attn_special special);
/* Returns the id of a token of n bytes. If the tokenizer lacks the token, returns the id of
 * ATTN_SPECIAL_UNKNOWN, which may be -1. */
int32_t attn_tokenizer_id(const attn_tokenizer *t, const char *token, size_t n);
/* Returns the text of an id ("<pad>", "<bos>", "<eos>" and "<unk>" for special ones that are not of
 * a known model; byte-level tokens have a character for each byte); NULL if there
 * is no such id, or if the ids are numbers. The text lives as long as the tokenizer. */
const char *attn_tokenizer_token(const attn_tokenizer *t, int32_t id);

/* Divides `size` bytes of UTF-8 into tokens; *tokens [*count] are in the arena. The byte range of
 * "<join>" and "</w>" is empty. If a character becomes bytes, the first byte has the range of the
 * character, and the others have empty ranges behind it. With a known model every token has the
 * range of all characters that it has a part of, and no special tokens are put around the text.
 * Errors: ATTN_EVALUE at "text" (not UTF-8), ATTN_ELIMIT (a text of 2 GiB or more, for a known
 * model), ATTN_EARG (a tokenizer of numbers), ATTN_ENOMEM. */
attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size,
                                  attn_arena *arena, attn_token **tokens, size_t *count,
                                  attn_error *err);
/* Does the same with two texts, or with one if `second` is NULL. `with_specials` adds the special
 * tokens of the model's template; their byte range is [0, 0). Words are counted in each text. */
attn_status attn_tokenizer_encode_pair(const attn_tokenizer *t, attn_string first,
                                       const attn_string *second, bool with_specials,
                                       attn_arena *arena, attn_token **tokens, size_t *count,
                                       attn_error *err);
/* Joins ids to a text in the arena. A tokenizer of sub-words or of a known model leaves special ids
 * out, and one of a known model also the ids that it does not have. Bytes that are not UTF-8 become
 * U+FFFD. With `open`, bytes at the end that may begin a character are left out, so that the text of
 * these ids followed by more ids begins with the text that is returned. NULL: memory ran out, the
 * ids are numbers, or a tokenizer of words or sub-words does not have an id. */
const char *attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                  bool open, attn_arena *arena);
/* Returns a token as people read it, for labels: byte-level tokenizers (GPT-2) write the bytes of a
 * text as characters, "Ġcafé" for " café". Returns `token` itself if it is no such token,
 * is part of a character, or has control characters. NULL: memory ran out. */
const char *attn_tokenizer_shown(const attn_tokenizer *t, const char *token, attn_arena *arena);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
