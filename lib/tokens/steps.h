/* The steps by which a tokenizer of a known model prepares a text: normalisers rewrite it,
 * splitters divide it into words. Each step takes an aligned text and changes the pieces that are
 * not tokens. */
#ifndef ATTN_STEPS_H
#define ATTN_STEPS_H

#include "tokens/aligned.h"
#include "tokens/charsmap.h"

/* What happens to the matches of a splitter (here of "-" in "a-b--c"). */
typedef enum attn_behaviour {
    ATTN_SPLIT_REMOVED = 0,          /* a b c */
    ATTN_SPLIT_ISOLATED,             /* a - b - - c */
    ATTN_SPLIT_MERGED_WITH_PREVIOUS, /* a- b- - c */
    ATTN_SPLIT_MERGED_WITH_NEXT,     /* a -b - -c */
    ATTN_SPLIT_CONTIGUOUS            /* a - b -- c */
} attn_behaviour;

typedef struct attn_step attn_step;
/* Returns the size in bytes of the match that begins at byte `at` of a text; 0: there is none. */
typedef size_t attn_scanner(const attn_step *step, const char *text, size_t size, size_t at);

struct attn_step {
    /* Returns false if memory runs out. */
    bool (*apply)(const attn_step *step, attn_aligned *a);
    /* The members that `apply` reads: */
    attn_scanner *scan;
    unsigned classes; /* classes of the characters to match (character.h) */
    attn_behaviour behaviour;
    bool invert;      /* the text between two matches counts as the match */
    const char *find; /* literal text to find, UTF-8, not empty */
    size_t find_size;
    const char *with; /* literal text that replaces it, UTF-8 */
    size_t with_size;
    size_t most_digits; /* largest number of digits in one match of a pattern */
    bool left, right;   /* Strip: at which ends */
    /* Unicode forms: `compatible` for NFKD and NFKC, `compose` for NFC and NFKC */
    bool compatible, compose;
    bool first_only; /* prefixes: only at the beginning of the original text */
    const attn_charsmap *charsmap;
};

/* Runs steps one after the other. Returns false if memory runs out. */
static inline bool attn_steps_apply(const attn_step *steps, size_t count, attn_aligned *a) {
    for (size_t i = 0; i < count; i++)
        if (!steps[i].apply(&steps[i], a))
            return false;
    return true;
}

/* Normalisers. */
/* BERT: removes control characters and replaces blanks */
bool attn_step_clean(const attn_step *step, attn_aligned *a);
/* BERT: puts blanks around CJK characters */
bool attn_step_apart(const attn_step *step, attn_aligned *a);
/* removes characters of `classes` */
bool attn_step_without(const attn_step *step, attn_aligned *a);
bool attn_step_lower(const attn_step *step, attn_aligned *a);
bool attn_step_nmt(const attn_step *step, attn_aligned *a);
bool attn_step_strip(const attn_step *step, attn_aligned *a);
/* replaces matches of `scan` by `with` */
bool attn_step_replace(const attn_step *step, attn_aligned *a);
bool attn_step_prepend(const attn_step *step, attn_aligned *a); /* puts `with` before any text */
bool attn_step_form(const attn_step *step, attn_aligned *a);
bool attn_step_charsmap(const attn_step *step, attn_aligned *a);

/* Splitters. */
bool attn_step_split(const attn_step *step, attn_aligned *a); /* splits at the matches of `scan` */
/* Puts `with` before pieces that do not begin with it. */
bool attn_step_prefix(const attn_step *step, attn_aligned *a);

/* Scanners. */
size_t attn_scan_class(const attn_step *step, const char *text, size_t size, size_t at);
size_t attn_scan_literal(const attn_step *step, const char *text, size_t size, size_t at);
/* Matches two blanks or more: " {2,}". */
size_t attn_scan_blanks(const attn_step *step, const char *text, size_t size, size_t at);
/* Matches "\w+|[^\w\s]+". */
size_t attn_scan_words(const attn_step *step, const char *text, size_t size, size_t at);
/* Matches the pattern of GPT-2 (Radford et al. 2019). */
size_t attn_scan_gpt2(const attn_step *step, const char *text, size_t size, size_t at);
/* Matches the pattern of Llama 3 if most_digits is 3, or of Qwen 2 if it is 1. */
size_t attn_scan_llama3(const attn_step *step, const char *text, size_t size, size_t at);

#endif
