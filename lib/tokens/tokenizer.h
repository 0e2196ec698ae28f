/* The struct of a tokenizer: its tokens, and the data that its kind needs. */
#ifndef ATTN_TOKENS_TOKENIZER_H
#define ATTN_TOKENS_TOKENIZER_H

#include "attn/tokens.h"

typedef struct attn_entry {
    char *word;
    size_t size;  /* size of the word in bytes */
    size_t count; /* how often attn_tokenizer_count counted the word */
} attn_entry;

/* The symbols `left` and `right` become the symbol `made`; all three are ids. */
typedef struct attn_merge {
    int32_t left, right, made;
} attn_merge;

/* The merges in the order in which they are applied, and a hash table that finds the merge of two
 * symbols. */
typedef struct attn_merges {
    attn_merge *items; /* [count] */
    size_t count;
    uint32_t *slots; /* [slot_count] 1 + the index in `items`; 0: free. At least half are free */
    size_t slot_count;
    int32_t word_end, no_blank; /* ids of "</w>" and "<join>" */
    int32_t first_byte;         /* id of "<0x00>"; the other bytes follow */
} attn_merges;

typedef struct attn_pipeline attn_pipeline; /* see pipeline.h */

struct attn_tokenizer {
    attn_tokenizer_kind kind;
    attn_language language;
    int32_t specials[ATTN_SPECIALS]; /* ids by attn_special; -1: none */
    attn_entry *entries; /* [length], [room] allocated; once settled, the index is the id. NULL:
                            ids are numbers without texts */
    size_t length, room;
    uint32_t *slots; /* [slot_count] 1 + the index in `entries`; 0: free. At least half are free */
    size_t slot_count;
    bool settled;            /* the ids are fixed, and no token can be added */
    attn_merges *merges;     /* NULL, unless tokens are sub-words or byte pairs */
    attn_pipeline *pipeline; /* NULL, unless the tokenizer is that of a known model */
    attn_arena *arena;       /* holds the pipeline; NULL without one */
};

/* Finds a word and stores its index in *place. Adds the word if it is new. Returns false if memory
 * runs out. */
bool attn_tokenizer_put(attn_tokenizer *t, const char *word, size_t n, size_t *place);
/* Returns the id of a token; -1 if the tokenizer lacks it. */
int32_t attn_tokenizer_find(const attn_tokenizer *t, const char *token, size_t n);
bool attn_tokenizer_is_special(const attn_tokenizer *t, int32_t id);

/* Encode and decode with tokenizers of one kind (tokens.h). Each id to decode must exist. */
attn_status attn_words_encode(const attn_tokenizer *t, const char *text, size_t size,
                              attn_arena *arena, attn_token **tokens, size_t *count,
                              attn_error *err);
const char *attn_words_decode(const attn_tokenizer *t, const int32_t *ids, size_t count, bool open,
                              attn_arena *arena);
attn_status attn_subwords_encode(const attn_tokenizer *t, const char *text, size_t size,
                                 attn_arena *arena, attn_token **tokens, size_t *count,
                                 attn_error *err);
const char *attn_subwords_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                 bool open, attn_arena *arena);

void attn_merges_free(attn_merges *m); /* m may be NULL */
/* Makes a tokenizer without tokens. NULL: out of memory, or no such language. */
attn_tokenizer *attn_tokenizer_empty(attn_tokenizer_kind kind, attn_language language);
/* Turns a tokenizer of words into a tokenizer of sub-words without merges, and allocates `count`
 * merges. The tokenizer must have the symbols of attn_subword_symbols. Errors: ATTN_EVALUE (a
 * symbol is missing), ATTN_ENOMEM. */
attn_status attn_merges_new(attn_tokenizer *v, size_t count, attn_error *err);
/* Appends a merge. Fewer merges than attn_merges_new allocated must exist. Returns false if the two
 * symbols have a merge already. */
bool attn_merges_add(attn_merges *m, int32_t left, int32_t right, int32_t made);
/* Makes room for `count` merges. NULL: out of memory. */
attn_merges *attn_merges_room(size_t count);
/* Returns the merge of two symbols; NULL: none. */
const attn_merge *attn_merges_find(const attn_merges *m, int32_t left, int32_t right);
/* Adds the symbols that every tokenizer of sub-words has: "</w>" for the end of a word, "<join>"
 * for a missing blank, and all bytes. Returns false if memory runs out. */
bool attn_subword_symbols(attn_tokenizer *v);

/* ---- symbols ---- */
/* Words are cut into chunks of at most this number of characters. Merges never join characters of
 * two chunks. */
enum { ATTN_CHUNK = 64 };

/* Writes the name of the symbol for a character of n bytes to `name`. The name is the character, or
 * "␣" for a blank. If the character is not the last one of its word, "@@" follows. Returns the size
 * of the name in bytes. */
enum { ATTN_SYMBOL_NAME = 16 };
size_t attn_symbol_name(const char *character, size_t n, bool last, char name[ATTN_SYMBOL_NAME]);
/* Returns whether a character of n bytes can be a symbol. "<", "@" and "␣" cannot, since names of
 * symbols have them, nor can control characters. A character that cannot be a symbol is encoded as
 * bytes. */
bool attn_symbol_can_be(const char *character, size_t n);
/* Joins the names of two symbols: "ca@@" and "t@@" give "cat@@". `left` must end with "@@". Returns
 * the size of the new name in bytes, or 0 if `made` is too small. */
enum { ATTN_SYMBOL_MOST = 512 };
size_t attn_symbol_join(const char *left, const char *right, char made[ATTN_SYMBOL_MOST]);
/* Returns a hash of two symbols, for tables of pairs (Knuth's multiplicative method). */
static inline size_t attn_symbols_hash(int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}
/* Returns the size of the character at `text` in bytes. The text must be valid UTF-8. */
size_t attn_character_size(const char *text);

#endif
