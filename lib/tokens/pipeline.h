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

/* A token that is found in the text before words are. */
typedef struct attn_added {
    int32_t id;
    bool single_word;  /* not beside a letter or a digit */
    bool left, right;  /* it takes the white space on this side with it */
    bool special;      /* decoding leaves it out */
    const char *match; /* what is found in the text; decoding writes it */
    size_t match_size;
} attn_added;

typedef struct attn_byte_pairs {
    bool of_bytes;      /* words are bytes, and a token's text has a character for each byte */
    bool whole_first;   /* a word that is a token is that token, whatever the merges say */
    bool byte_fallback; /* characters without a token are the tokens of their bytes */
    bool fuse_unknown;
} attn_byte_pairs;

typedef struct attn_wordpiece {
    const char *prefix; /* of tokens that do not begin a word */
    size_t prefix_size;
    size_t most; /* characters of a word; longer ones are unknown */
} attn_wordpiece;

typedef struct attn_unigram {
    attn_prefixes tokens; /* index: the id */
    const double *scores; /* by id: logarithms of probabilities */
    double least;         /* of all scores */
    bool byte_fallback;
} attn_unigram;

/* What stands around one text or around two. */
typedef enum attn_template_part {
    ATTN_PART_TOKEN = 0,
    ATTN_PART_FIRST,
    ATTN_PART_SECOND
} attn_template_part;
typedef struct attn_template_item {
    attn_template_part part;
    int32_t id; /* of ATTN_PART_TOKEN */
    int32_t segment;
} attn_template_item;
typedef struct attn_template {
    const attn_template_item *items; /* [count]; NULL: the texts alone, in segments 0 and 1 */
    size_t count;
} attn_template;

/* A decoder rewrites a list of texts; what remains is joined. */
typedef struct attn_decoder attn_decoder;
struct attn_decoder {
    /* Returns false if memory runs out. `open`: more texts may follow. */
    bool (*apply)(const attn_decoder *d, attn_string *list, size_t *count, bool open,
                  attn_arena *arena);
    attn_string find, with;
    bool drop_first;    /* Metaspace: a mark in the first text is no blank */
    bool cleanup;       /* WordPiece: no blanks before punctuation */
    size_t start, stop; /* Strip: how many at each end */
};

typedef struct attn_pipeline {
    attn_arena *arena; /* the tokenizer's; holds the pipeline and all that it points to */

    attn_added *added; /* [added_count], by id */
    size_t added_count;
    attn_prefixes raw;        /* added tokens found before normalisation; index into `added` */
    attn_prefixes normalised; /* those found after it */

    attn_step *normalisers, *splitters;
    size_t normaliser_count, splitter_count;

    attn_byte_pairs pairs;
    attn_wordpiece wordpiece;
    attn_unigram unigram;
    size_t longest;     /* bytes of the longest token */
    int32_t unknown;    /* -1: what is unknown has no token */
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
    bool added; /* it was found as an added token */
} attn_found;

typedef struct attn_found_list {
    attn_arena *arena;
    attn_found *items;
    size_t count, room;
    int32_t word;  /* of tokens that are added */
    size_t offset; /* is added to their bytes */
} attn_found_list;

/* Makes room for `more` tokens, so that the next ones need no memory. Both return false if memory
 * runs out. */
bool attn_found_reserve(attn_found_list *list, size_t more);
bool attn_found_add(attn_found_list *list, int32_t id, size_t begin, size_t end);

/* Divide a word of `size` bytes into tokens. Return false if memory runs out. */
bool attn_pairs_divide(const attn_tokenizer *t, const char *word, size_t size,
                       attn_found_list *found);
bool attn_wordpiece_divide(const attn_tokenizer *t, const char *word, size_t size,
                           attn_found_list *found);
bool attn_unigram_divide(const attn_tokenizer *t, const char *word, size_t size,
                         attn_found_list *found);

/* Makes pieces of the added tokens of one set that an aligned text contains. */
bool attn_added_find(const attn_pipeline *p, const attn_prefixes *set, attn_aligned *a);
/* Returns the added token with this id; NULL: none. */
const attn_added *attn_added_of(const attn_pipeline *p, int32_t id);

/* Encode a text, and a second one unless it is NULL (tokens.h); decode. */
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

/* Byte-level tokens write each byte as a character: visible ones of Latin-1 as they are, the others
 * as U+0100 and on (Radford et al. 2019). */
int32_t attn_byte_character(unsigned byte);
int attn_character_byte(int32_t c); /* -1: the character stands for no byte */

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
