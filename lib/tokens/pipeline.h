/* The pipeline of a tokenizer of a known model: added tokens, normalisers, splitters, the model
 * that divides words into tokens, a template around texts, and decoders. A reader fills it
 * (tokenizer_json.c, tokenizer_arrays.c). Nothing changes it afterwards.
 *
 * encode.c runs it. The text passes through the members in the order of this header. */
#ifndef ATTN_PIPELINE_H
#define ATTN_PIPELINE_H

#include "tokens/prefixes.h"
#include "tokens/steps.h"
#include "tokens/tokenizer.h"

/* A token that is found in a text before the text is divided into words. */
typedef struct attn_added {
    int32_t id;
    bool single_word;  /* found only if no letter or digit stands beside it */
    bool left, right;  /* the token includes the white space on this side */
    bool special;      /* decoding leaves it out */
    const char *match; /* the text that is found; decoding writes it */
    size_t match_size;
} attn_added;

typedef struct attn_byte_pairs {
    bool of_bytes;      /* symbols are bytes, and a token's text has one character for each byte */
    bool whole_first;   /* a word that is a token stays one token, whatever the merges are */
    bool byte_fallback; /* a character without a token becomes the tokens of its bytes */
    bool fuse_unknown;
} attn_byte_pairs;

typedef struct attn_wordpiece {
    const char *prefix; /* prefix of tokens that do not begin a word */
    size_t prefix_size;
    size_t most; /* largest number of characters in a word; longer words are unknown */
} attn_wordpiece;

typedef struct attn_unigram {
    attn_prefixes tokens; /* the index of an item is its id */
    const double *scores; /* logarithms of probabilities, by id */
    double least;         /* the smallest score */
    bool byte_fallback;
} attn_unigram;

/* The items of a template around one text or two texts. */
typedef enum attn_template_part {
    ATTN_PART_TOKEN = 0,
    ATTN_PART_FIRST,
    ATTN_PART_SECOND
} attn_template_part;
typedef struct attn_template_item {
    attn_template_part part;
    int32_t id; /* only for ATTN_PART_TOKEN */
    int32_t segment;
} attn_template_item;
typedef struct attn_template {
    const attn_template_item *items; /* [count]; NULL: the texts alone, in segments 0 and 1 */
    size_t count;
} attn_template;

/* A decoder rewrites a list of texts. After the last decoder, the list is joined. */
typedef struct attn_decoder attn_decoder;
struct attn_decoder {
    /* Returns false if memory runs out. `open`: more texts may follow. */
    bool (*apply)(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                  attn_arena *arena);
    attn_string find, with;
    bool drop_first;    /* Metaspace: a mark at the beginning of the first text becomes no blank */
    bool cleanup;       /* WordPiece: removes blanks before punctuation */
    size_t start, stop; /* Strip: number of characters to remove at each end */
};

typedef struct attn_pipeline {
    /* the arena of the tokenizer, which holds the pipeline and all that it points to */
    attn_arena *arena;

    attn_added *added; /* [added_count], by id */
    size_t added_count;
    attn_prefixes raw;        /* added tokens found before normalisation; index into `added` */
    attn_prefixes normalised; /* added tokens that are found after normalisation */

    attn_step *normalisers, *splitters;
    size_t normaliser_count, splitter_count;

    attn_byte_pairs pairs;
    attn_wordpiece wordpiece;
    attn_unigram unigram;
    size_t longest;     /* size in bytes of the longest token */
    int32_t unknown;    /* id for unknown text; -1: there is none */
    int32_t bytes[256]; /* id of the token of each byte; -1: none */

    bool trim;         /* byte ranges leave out blanks at the ends of a token … */
    bool keeps_prefix; /* … but not the blank that was put before the text */
    attn_template one, two;

    attn_decoder *decoders;
    size_t decoder_count;
    bool joins_with_blanks; /* there are no decoders */
} attn_pipeline;

/* The token of a part of an aligned text. */
typedef struct attn_found {
    size_t begin, end; /* bytes of the aligned text */
    int32_t id, word;
    bool added; /* it is an added token */
} attn_found;

typedef struct attn_found_list {
    attn_arena *arena;
    attn_found *items;
    size_t count, room;
    int32_t word;  /* word of the tokens that are added to the list */
    size_t offset; /* number that is added to their byte positions */
} attn_found_list;

/* attn_found_reserve makes room for `more` tokens, so that adding them needs no memory. Both
 * functions return false if memory runs out. */
bool attn_found_reserve(attn_found_list *list, size_t more);
bool attn_found_add(attn_found_list *list, int32_t id, size_t begin, size_t end);

/* Divide a word of `size` bytes into tokens. Return false if memory runs out. */
bool attn_pairs_divide(const attn_tokenizer *t, const char *word, size_t size,
                       attn_found_list *found);
bool attn_wordpiece_divide(const attn_tokenizer *t, const char *word, size_t size,
                           attn_found_list *found);
bool attn_unigram_divide(const attn_tokenizer *t, const char *word, size_t size,
                         attn_found_list *found);

/* Makes a piece of each added token of one set that occurs in an aligned text. */
bool attn_added_find(const attn_pipeline *p, const attn_prefixes *set, attn_aligned *a);
/* Returns the added token with this id; NULL: none. */
const attn_added *attn_added_of(const attn_pipeline *p, int32_t id);

/* attn_pipeline_encode encodes a text, and a second one if its text is not NULL (tokens.h).
 * attn_pipeline_decode decodes. */
attn_status attn_pipeline_encode(const attn_tokenizer *t, const attn_string texts[2],
                                 bool with_specials, attn_arena *arena, attn_token **tokens,
                                 size_t *count, attn_error *err);
const char *attn_pipeline_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                 bool open, attn_arena *arena);

/* Decoders. */
bool attn_decode_bytes(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                       attn_arena *arena);
bool attn_decode_wordpiece(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                           attn_arena *arena);
bool attn_decode_metaspace(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                           attn_arena *arena);
bool attn_decode_fallback(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                          attn_arena *arena);
bool attn_decode_fuse(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                      attn_arena *arena);
bool attn_decode_strip(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                       attn_arena *arena);
bool attn_decode_replace(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                         attn_arena *arena);
bool attn_decode_suffix(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                        attn_arena *arena);

/* In byte-level tokens each byte is written as a character: visible characters of Latin-1 stand for
 * themselves, and the other bytes are U+0100 and on (Radford et al. 2019). */
int32_t attn_byte_character(unsigned byte);
int attn_character_byte(int32_t c); /* -1: the character stands for no byte */
/* Writes the bytes that the characters of a token stand for. If one of the characters stands for no
 * byte, writes the text of the token. Returns the number of bytes. */
size_t attn_bytes_of(const attn_string *token, char *out);

/* ---- for readers ---- */

/* Makes a tokenizer of this kind with an empty pipeline. NULL: out of memory. */
attn_tokenizer *attn_pipeline_new(attn_tokenizer_kind kind);
/* Adds a token to the vocabulary, with the next id. Errors: ATTN_EVALUE (it is empty, repeats
 * another one, has a NUL or is no UTF-8), ATTN_ENOMEM. */
attn_status attn_pipeline_token(attn_tokenizer *t, const char *text, size_t size, attn_error *err);
/* Adds `count` merges; texts[i] is "left right". Errors: ATTN_EVALUE at "merges/i". */
attn_status attn_pipeline_merges(attn_tokenizer *t, const attn_string (*pairs)[2], size_t count,
                                 attn_error *err);
/* Finishes the pipeline once its vocabulary, added tokens and normalisers are there: sorts the
 * added tokens (raw[i]: found before normalisation) and finds the tokens of bytes. */
attn_status attn_pipeline_finish(attn_tokenizer *t, const bool *raw, attn_error *err);

#endif
