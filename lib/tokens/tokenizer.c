/* Calls the functions that encode and decode for the kind of a tokenizer. */
#include "tokens/tokenizer.h"

/* The functions of each kind of tokenizer. */
static const struct {
    attn_status (*encode)(const attn_tokenizer *t, const char *text, size_t size, attn_arena *arena,
                          attn_token **tokens, size_t *count, attn_error *err);
    const char *(*decode)(const attn_tokenizer *t, const int32_t *ids, size_t count, bool open,
                          attn_arena *arena);
} kinds[] = {[ATTN_TOKENS_NUMBERS] = {NULL, NULL},
             [ATTN_TOKENS_WORDS] = {attn_words_encode, attn_words_decode},
             [ATTN_TOKENS_SUBWORDS] = {attn_subwords_encode, attn_subwords_decode}};

attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size,
                                  attn_arena *arena, attn_token **tokens, size_t *count,
                                  attn_error *err) {
    if (!kinds[t->kind].encode)
        return attn_fail(err, ATTN_EARG, "tokenizer", "its ids are numbers without texts");
    return kinds[t->kind].encode(t, text, size, arena, tokens, count, err);
}

const char *attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                  bool open, attn_arena *arena) {
    for (size_t i = 0; i < count; i++)
        if (!attn_tokenizer_token(t, ids[i]))
            return NULL;
    return kinds[t->kind].decode ? kinds[t->kind].decode(t, ids, count, open, arena) : NULL;
}
