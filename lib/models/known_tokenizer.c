/* Makes the tokenizer of a model that people know (attn/known_model.h). */
#include <attn/known_model.h>
#include <string.h>

#include "base/try.h"

#define MOST_LISTS (SIZE_MAX >> 1) /* limit in bytes of the lists of tokens and merges */

static attn_status wrong_kind(const char *key, const char *expected, attn_error *err) {
    return attn_fail(err, ATTN_EARG, key, "expected %s", expected);
}

/* Sets *out to a text of the metadata, or to no text if the key is missing. */
static attn_status text_at(const attn_gguf *g, const char *key, attn_string *out, attn_error *err) {
    const attn_gguf_value *v = attn_gguf_find(g, key);
    attn_gguf_text text = {NULL, 0};
    if (v && !attn_gguf_text_of(v, &text))
        return wrong_kind(key, "a text", err);
    *out = (attn_string){text.at, text.size};
    return ATTN_OK;
}

/* Sets *out to a list of texts of the metadata, or to no list if the key is missing. */
static attn_status texts_at(const attn_gguf *g, const char *key, attn_arena *arena,
                            const attn_string **out, size_t *count, attn_error *err) {
    const attn_gguf_value *v = attn_gguf_find(g, key);
    if (v && (!v->array || !v->texts))
        return wrong_kind(key, "an array of texts", err);
    attn_string *list = attn_arena_array(arena, (v ? v->count : 0) + 1, sizeof *list);
    ATTN_TAKEN(list, "the tokens of a model", err);
    *count = v ? v->count : 0;
    for (size_t i = 0; i < *count; i++)
        list[i] = (attn_string){v->texts[i].at, v->texts[i].size};
    *out = list;
    return ATTN_OK;
}

static attn_status types_at(const attn_gguf *g, size_t tokens, attn_arena *arena,
                            const int32_t **out, attn_error *err) {
    static const char key[] = "tokenizer.ggml.token_type";
    const attn_gguf_value *v = attn_gguf_find(g, key);
    *out = NULL;
    if (!v)
        return ATTN_OK;
    int32_t *types = attn_arena_array(arena, tokens + 1, sizeof *types);
    ATTN_TAKEN(types, "the tokens of a model", err);
    if (!v->array || v->count != tokens)
        return wrong_kind(key, "an array with a number for each token", err);
    for (size_t i = 0; i < tokens; i++) {
        double number;
        if (!attn_gguf_number(v, i, &number) || !(number >= 0 && number <= 1000))
            return wrong_kind(key, "an array of the numbers of types", err);
        types[i] = (int32_t)number;
    }
    *out = types;
    return ATTN_OK;
}

/* Sets the special ids. An id that is no token is left out, as other readers of such files do. */
static void set_specials(const attn_gguf *g, attn_tokenizer_arrays *a) {
    static const char *const keys[ATTN_SPECIALS] = {
        [ATTN_SPECIAL_PAD] = "tokenizer.ggml.padding_token_id",
        [ATTN_SPECIAL_BEGIN] = "tokenizer.ggml.bos_token_id",
        [ATTN_SPECIAL_END] = "tokenizer.ggml.eos_token_id",
        [ATTN_SPECIAL_UNKNOWN] = "tokenizer.ggml.unknown_token_id"};
    for (int i = 0; i < ATTN_SPECIALS; i++) {
        size_t id;
        const attn_gguf_value *v = attn_gguf_find(g, keys[i]);
        const bool has = v && !v->array && attn_gguf_count(v, 0, &id) && id < a->token_count;
        a->specials[i] = has ? (int32_t)id : -1;
    }
}

static bool flag_at(const attn_gguf *g, const char *key) {
    const attn_gguf_value *v = attn_gguf_find(g, key);
    double number;
    return v && !v->array && attn_gguf_number(v, 0, &number) && number > 0;
}

static attn_status read_arrays(const attn_gguf *g, attn_arena *arena, attn_tokenizer **out,
                               attn_error *err) {
    attn_tokenizer_arrays a = {0};
    ATTN_TRY(text_at(g, "tokenizer.ggml.model", &a.model, err));
    *out = NULL;
    if (!a.model.text)
        return ATTN_OK;
    ATTN_TRY(text_at(g, "tokenizer.ggml.pre", &a.pre, err));
    if (!a.pre.text && a.model.size == 4 && !memcmp(a.model.text, "gpt2", 4))
        return ATTN_OK; /* older files do not say how texts are split */
    ATTN_TRY(texts_at(g, "tokenizer.ggml.tokens", arena, &a.tokens, &a.token_count, err));
    ATTN_TRY(texts_at(g, "tokenizer.ggml.merges", arena, &a.merges, &a.merge_count, err));
    ATTN_TRY(types_at(g, a.token_count, arena, &a.types, err));
    set_specials(g, &a);
    a.add_begin = flag_at(g, "tokenizer.ggml.add_bos_token");
    a.add_end = flag_at(g, "tokenizer.ggml.add_eos_token");
    return attn_tokenizer_read_arrays(&a, out, err);
}

attn_status attn_known_tokenizer(const attn_known_files *files, attn_tokenizer **out,
                                 attn_error *err) {
    if (!files->gguf && files->tokenizer.text)
        return attn_tokenizer_read_json(files->tokenizer.text, files->tokenizer.size, out, err);
    *out = NULL;
    if (!files->gguf)
        return ATTN_OK;
    attn_arena *arena = attn_arena_new(MOST_LISTS);
    ATTN_TAKEN(arena, "the tokens of a model", err);
    const attn_status status = read_arrays(files->gguf, arena, out, err);
    attn_arena_free(arena);
    return status;
}
