/* Characters: their UTF-8, their classes and their lower case, as PyPI `tokenizers`, the reference
 * implementation of tokenizer.json, defines them. tests/tools/character-classes makes the tables. */
#ifndef ATTN_CHARACTER_H
#define ATTN_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes of characters, in the order of the bits of character_classes.inc. Parts of the reference
 * differ in what they count as a space, so there are four classes of spaces. */
enum {
    ATTN_IS_LETTER = 1 << 0,      /* \p{L} of regular expressions */
    ATTN_IS_NUMBER = 1 << 1,      /* \p{N} of regular expressions */
    ATTN_IS_SPACE = 1 << 2,       /* \s of regular expressions */
    ATTN_IS_WHITE = 1 << 3,       /* white space of splitters and of Strip */
    ATTN_IS_NUMERIC = 1 << 4,     /* numbers of the splitter Digits */
    ATTN_IS_PUNCTUATION = 1 << 5, /* punctuation of BERT and of the splitter Punctuation */
    ATTN_IS_WORD = 1 << 6,        /* \w of the splitter Whitespace and of added tokens */
    ATTN_IS_WORD_SPACE = 1 << 7,  /* \s of the splitter Whitespace and of added tokens */
    ATTN_IS_DROPPED = 1 << 8,     /* BERT removes the character */
    ATTN_IS_BLANK = 1 << 9,       /* BERT replaces the character by a blank */
    ATTN_IS_ACCENT = 1 << 10,     /* a nonspacing mark, which BERT removes */
    ATTN_IS_COMBINING = 1 << 11,  /* a mark, which StripAccents removes */
    /* Unicode normalisation may change the character or the one before it */
    ATTN_IS_NORMALISED = 1 << 12
};

/* Returns the classes of a character, joined by |. */
unsigned attn_character_classes(int32_t c);
/* Returns the lower case of a character. The lower case of U+0130 is two characters; the function
 * returns U+0130 itself. */
int32_t attn_character_lower(int32_t c);

/* Reads the character at `text`, which is valid UTF-8, and stores its size in bytes in *n. */
static inline int32_t attn_character_read(const char *text, size_t *n) {
    const unsigned char *t = (const unsigned char *)text;
    if (t[0] < 0x80) {
        *n = 1;
        return t[0];
    }
    if (t[0] < 0xe0) {
        *n = 2;
        return (t[0] & 0x1f) << 6 | (t[1] & 0x3f);
    }
    if (t[0] < 0xf0) {
        *n = 3;
        return (t[0] & 0x0f) << 12 | (t[1] & 0x3f) << 6 | (t[2] & 0x3f);
    }
    *n = 4;
    return (t[0] & 0x07) << 18 | (t[1] & 0x3f) << 12 | (t[2] & 0x3f) << 6 | (t[3] & 0x3f);
}

/* Returns the beginning of the character that ends before `at`, which is not the first byte. */
static inline size_t attn_character_before(const char *text, size_t at) {
    do
        at--;
    while (at && (text[at] & 0xc0) == 0x80);
    return at;
}

#endif
