/* The sentences that stay out of the training data of en-fr-text. */
#include <string.h>

#include "corpus/sentence.h"

static const char *const english[] = {
    "the cat sat on the mat",
    "the quick brown fox jumps over the lazy dog",
    "the animal didn't cross the street because it was too tired",
    "the animal did not cross the street because it was too tired",
};
static const char *const french[] = {
    "le chat était assis sur le tapis",
    "le rapide renard brun saute par-dessus le chien paresseux",
    "l' animal n' a pas traversé la rue parce qu' il était trop fatigué",
};

/* Tells whether the words, without a full stop at their end, are those of `text`, whose words are
 * separated by blanks. ASCII capitals in `words` equal the small letters of `text`. */
static bool equals(const char *const *words, size_t count, const char *text) {
    count -= count && !strcmp(words[count - 1], ".");
    for (size_t i = 0; i < count; i++) {
        for (const char *c = words[i]; *c; c++, text++)
            if (*c != *text && !(*c >= 'A' && *c <= 'Z' && (*c | 0x20) == *text))
                return false;
        if (*text == ' ' && i + 1 < count)
            text++;
        else if (*text || i + 1 < count)
            return false;
    }
    return count && !*text;
}

bool attn_is_textbook(const attn_pair *pair) {
    for (size_t i = 0; i < sizeof english / sizeof *english; i++)
        if (equals(pair->source, pair->source_count, english[i]))
            return true;
    for (size_t i = 0; i < sizeof french / sizeof *french; i++)
        if (equals(pair->target, pair->target_count, french[i]))
            return true;
    return false;
}
