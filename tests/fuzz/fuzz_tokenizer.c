/* Any bytes as a tokenizer.json, and a text: no file is read beyond its end, and a tokenizer that is
 * accepted encodes each text that is UTF-8 into tokens that exist, whose byte ranges rise within the
 * text, and decodes them. The input is a byte, the file, NUL, text. The byte chooses one of the
 * files below, into which the input's own is put, or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/tokens.h"
#include "tokens/words.h"

#define BYTES                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"1\":4,"      \
    "\"\xc3\x83\":5,\"\xc2\xa9\":6,\"\xc3\x83\xc2\xa9\":7,\"\xc4\xa0"                              \
    "ab\":8,\"u\":9},"                                                                             \
    "\"merges\":[\"a b\",\"\xc4\xa0 ab\",\"\xc3\x83 \xc2\xa9\"],\"unk_token\":\"u\"}"
#define PIECES                                                                                     \
    "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0,\"##b\":1,\"e\":2,\"U\":3,\"##\xcc\x81"  \
    "\":4,\"ab\":5},\"unk_token\":\"U\"}"
#define SCORES                                                                                     \
    "\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"u\",0],[\"\xe2\x96\x81\",-1],[\"a\",-1.5],"     \
    "[\"ab\",-2],[\"b\",-3],[\"<0xC3>\",-9]],\"unk_id\":0,\"byte_fallback\":true}"
#define ADDED                                                                                      \
    ",\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"single_word\":true,\"lstrip\":true,"         \
    "\"rstrip\":true,\"normalized\":false,\"special\":false}]"

static const char *const files[][2] = {{"", ""},
                                       {"{" BYTES ADDED ",", "}"},
                                       {"{" PIECES ADDED ",", "}"},
                                       {"{" SCORES ",", "}"},
                                       {"{" BYTES ",\"normalizer\":", "}"},
                                       {"{" PIECES ",\"normalizer\":", "}"},
                                       {"{" SCORES ",\"normalizer\":", "}"},
                                       {"{" BYTES ",\"pre_tokenizer\":", "}"},
                                       {"{" SCORES ",\"pre_tokenizer\":", "}"},
                                       {"{" BYTES ",\"post_processor\":", "}"},
                                       {"{" BYTES ",\"decoder\":", "}"},
                                       {"{\"model\":", "}"},
                                       {"{" BYTES ",\"added_tokens\":", "}"}};

static void check_tokens(const attn_tokenizer *t, const attn_token *tokens, size_t count,
                         size_t size, attn_arena *arena) {
    int32_t *ids = attn_arena_zeroed(arena, count + 1, sizeof *ids);
    attn_token *words;
    size_t word_count;
    attn_error err;
    for (size_t i = 0; i < count; i++) {
        ids[i] = tokens[i].id;
        const char *text = attn_tokenizer_token(t, ids[i]);
        if (!text || text != tokens[i].text || strlen(text) != tokens[i].size ||
            tokens[i].begin > tokens[i].end || tokens[i].end > size)
            abort();
    }
    const char *text = attn_tokenizer_decode(t, ids, count, size % 2, arena);
    if (text && attn_words_split(text, strlen(text), ATTN_FRENCH, arena, &words, &word_count, &err))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    const char *const *file = files[*data % (sizeof files / sizeof *files)];
    const uint8_t *own = data + 1, *stop = memchr(own, 0, size - 1);
    const size_t own_size = stop ? (size_t)(stop - own) : size - 1;
    const size_t whole = strlen(file[0]) + own_size + strlen(file[1]);
    char *text = malloc(whole + 1);
    memcpy(text, file[0], strlen(file[0]));
    memcpy(text + strlen(file[0]), own, own_size);
    memcpy(text + strlen(file[0]) + own_size, file[1], strlen(file[1]));
    attn_arena *arena = attn_arena_new(64 << 20);
    attn_tokenizer *t = NULL;
    attn_error err;
    if (!attn_tokenizer_read_json(text, whole, &t, &err)) {
        const size_t rest = size - 1 - own_size - (stop != NULL);
        /* A copy, so that the sanitizer sees a byte that is read behind the text. */
        char *copy = malloc(rest + !rest);
        memcpy(copy, data + size - rest, rest);
        const attn_string texts[2] = {{copy, rest}, {copy, rest / 2}};
        attn_token *tokens;
        size_t count;
        if (!attn_tokenizer_encode_pair(t, texts[0], NULL, rest % 3, arena, &tokens, &count, &err))
            check_tokens(t, tokens, count, rest, arena);
        if (!attn_tokenizer_encode_pair(t, texts[0], &texts[1], rest % 3, arena, &tokens, &count,
                                        &err))
            check_tokens(t, tokens, count, rest, arena);
        free(copy);
    }
    attn_tokenizer_free(t);
    attn_arena_free(arena);
    free(text);
    return 0;
}
