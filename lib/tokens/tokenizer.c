/* Encodes and decodes by calling the functions for the kind of a tokenizer. */
#include "base/try.h"
#include "tokens/pipeline.h"

static attn_status encode_known(const attn_tokenizer *t, const char *text, size_t size,
                                attn_arena *arena, attn_token **tokens, size_t *count,
                                attn_error *err) {
    const attn_string texts[2] = {{text, size}};
    return attn_pipeline_encode(t, texts, false, arena, tokens, count, err);
}

/* The functions of each kind of tokenizer. */
static const struct {
    attn_status (*encode)(const attn_tokenizer *t, const char *text, size_t size, attn_arena *arena,
                          attn_token **tokens, size_t *count, attn_error *err);
    const char *(*decode)(const attn_tokenizer *t, const int32_t *ids, size_t count, bool open,
                          attn_arena *arena);
} kinds[] = {[ATTN_TOKENS_NUMBERS] = {NULL, NULL},
             [ATTN_TOKENS_WORDS] = {attn_words_encode, attn_words_decode},
             [ATTN_TOKENS_SUBWORDS] = {attn_subwords_encode, attn_subwords_decode},
             [ATTN_TOKENS_BYTE_PAIRS] = {encode_known, attn_pipeline_decode},
             [ATTN_TOKENS_WORDPIECE] = {encode_known, attn_pipeline_decode},
             [ATTN_TOKENS_UNIGRAM] = {encode_known, attn_pipeline_decode}};

attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size,
                                  attn_arena *arena, attn_token **tokens, size_t *count,
                                  attn_error *err) {
    if (!kinds[t->kind].encode)
        return attn_fail(err, ATTN_EARG, "tokenizer", "its ids are numbers without texts");
    return kinds[t->kind].encode(t, text, size, arena, tokens, count, err);
}

/* Encodes two texts with a tokenizer without a template. */
static attn_status encode_both(const attn_tokenizer *t, attn_string first, attn_string second,
                               attn_arena *arena, attn_token **tokens, size_t *count,
                               attn_error *err) {
    attn_token *lists[2];
    size_t counts[2];
    ATTN_TRY(attn_tokenizer_encode(t, first.text, first.size, arena, &lists[0], &counts[0], err));
    ATTN_TRY(attn_tokenizer_encode(t, second.text, second.size, arena, &lists[1], &counts[1], err));
    attn_token *both = attn_arena_array(arena, counts[0] + counts[1] + 1, sizeof *both);
    ATTN_TAKEN(both, "the tokens of two texts", err);
    for (size_t i = 0; i < counts[0]; i++)
        both[i] = lists[0][i];
    for (size_t i = 0; i < counts[1]; i++) {
        both[counts[0] + i] = lists[1][i];
        both[counts[0] + i].segment = 1;
    }
    *tokens = both;
    *count = counts[0] + counts[1];
    return ATTN_OK;
}

attn_status attn_tokenizer_encode_pair(const attn_tokenizer *t, attn_string first,
                                       const attn_string *second, bool with_specials,
                                       attn_arena *arena, attn_token **tokens, size_t *count,
                                       attn_error *err) {
    if (!t->pipeline)
        return second ? encode_both(t, first, *second, arena, tokens, count, err)
                      : attn_tokenizer_encode(t, first.text, first.size, arena, tokens, count, err);
    const attn_string texts[2] = {first, second ? *second : (attn_string){NULL, 0}};
    return attn_pipeline_encode(t, texts, with_specials, arena, tokens, count, err);
}

const char *attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count,
                                  bool open, attn_arena *arena) {
    for (size_t i = 0; i < count && !t->pipeline; i++)
        if (!attn_tokenizer_token(t, ids[i]))
            return NULL;
    return kinds[t->kind].decode ? kinds[t->kind].decode(t, ids, count, open, arena) : NULL;
}
