/* Any bytes as symbols and merges of a tokenizer of sub-words, and a text: what is accepted splits
 * each text that is UTF-8 into symbols that join to the same text, and any ids join to UTF-8. The
 * input is symbols, NUL, merges, NUL, text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/tokens.h"
#include "tokens/words.h"

/* Writes the special words and the symbols that each tokenizer has, and then `more`. */
static size_t write_words(char *to, const uint8_t *more, size_t size) {
    size_t n = (size_t)sprintf(to, "<pad>\n<bos>\n<eos>\n<unk>\n</w>\n<join>\n");
    for (int b = 0; b < 256; b++)
        n += (size_t)sprintf(to + n, "<0x%02X>\n", b);
    memcpy(to + n, more, size);
    return n + size;
}

/* Returns the bytes before the next NUL and moves *data behind it. */
static size_t part(const uint8_t **data, size_t *size, const uint8_t **out) {
    const uint8_t *stop = memchr(*data, 0, *size);
    const size_t n = stop ? (size_t)(stop - *data) : *size, used = n + (stop != NULL);
    *out = *data;
    *data += used;
    *size -= used;
    return n;
}

static void check_text(const attn_tokenizer *v, const char *text, size_t size, attn_arena *arena) {
    attn_token *tokens;
    attn_error err;
    size_t count;
    if (memchr(text, 0, size) || attn_tokenizer_encode(v, text, size, arena, &tokens, &count, &err))
        return;
    int32_t *ids = attn_arena_zeroed(arena, count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        ids[i] = attn_tokenizer_id(v, tokens[i].text, tokens[i].size);
        if (ids[i] != tokens[i].id || ids[i] == attn_tokenizer_special(v, ATTN_SPECIAL_UNKNOWN) ||
            tokens[i].begin > tokens[i].end || tokens[i].end > size)
            abort();
    }
    const char *again = attn_tokenizer_decode(v, ids, count, false, arena);
    if (strlen(again) != size || memcmp(again, text, size))
        abort();
}

static void check_ids(const attn_tokenizer *v, const uint8_t *data, size_t size,
                      attn_arena *arena) {
    attn_token *tokens;
    attn_error err;
    size_t count;
    int32_t *ids = attn_arena_zeroed(arena, size + 1, sizeof *ids);
    for (size_t i = 0; i < size; i++)
        ids[i] = (int32_t)((size_t)data[i] * 2 % attn_tokenizer_size(v));
    const char *text = attn_tokenizer_decode(v, ids, size, size % 2, arena);
    if (attn_words_split(text, strlen(text), ATTN_FRENCH, arena, &tokens, &count, &err))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *words, *merges;
    const size_t word_size = part(&data, &size, &words), merge_size = part(&data, &size, &merges);
    char *text = malloc(4096 + word_size);
    attn_arena *arena = attn_arena_new(16 << 20);
    attn_tokenizer *v = NULL;
    attn_error err;
    if (!attn_tokenizer_read(text, write_words(text, words, word_size),
                             size % 2 ? ATTN_FRENCH : ATTN_ENGLISH, &v, &err) &&
        !attn_tokenizer_read_merges(v, (const char *)merges, merge_size, &err)) {
        check_text(v, (const char *)data, size, arena);
        check_ids(v, data, size, arena);
    }
    attn_tokenizer_free(v);
    attn_arena_free(arena);
    free(text);
    return 0;
}
