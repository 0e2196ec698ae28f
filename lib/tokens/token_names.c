/* Names of tokens for people. */
#include "tokens/token_names.h"

#include <string.h>

#include "attn/text.h"
#include "tokens/character.h"
#include "tokens/pipeline.h"
#include "tokens/words.h"

static const char blank_mark[] = "▁", word_end[] = "</w>";

static bool begins(const char *token, const char *with) {
    return token && strncmp(token, with, strlen(with)) == 0;
}

/* Returns whether the token is a special one by its form, such as <s> and [SEP]. */
static bool is_named(const char *token) {
    const size_t size = strlen(token);
    return size > 1 &&
           ((*token == '<' && token[size - 1] == '>') || (*token == '[' && token[size - 1] == ']'));
}

/* Whether the token begins with a blank or the end of a line, as byte-level vocabularies write them. */
static bool begins_letters(const char *token) {
    return begins(token, "Ġ") || begins(token, "Ċ");
}

/* Whether the tokens of a text without a blank are byte-level: their bytes have characters of several bytes,
 * and all are whole, but for those at the ends, where a text may be cut. */
static bool are_letters(const char *const *tokens, size_t count) {
    size_t missing = 0, wide = 0, strays = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t size = tokens[i] && !is_named(tokens[i]) ? strlen(tokens[i]) : 0;
        for (size_t at = 0, n; at < size; at += n, done++) {
            if (!(n = attn_character_at(tokens[i], size, at)))
                return false;
            const int byte = attn_character_byte(attn_character_read(tokens[i] + at, &n));
            const bool goes_on = byte >= 0 && (byte & 0xc0) == 0x80;
            if (byte < 0 || byte > 0xf4 || (missing > 0) != goes_on) {
                if (!goes_on || done != strays++ || strays > 3)
                    return false;
                continue;
            }
            missing = goes_on       ? missing - 1
                      : byte < 0xc2 ? 0
                      : byte < 0xe0 ? 1
                      : byte < 0xf0 ? 2
                                    : 3;
            wide += goes_on && !missing;
        }
    }
    return wide > 0;
}

attn_token_marks attn_token_marks_of(const char *const *tokens, size_t count) {
    attn_token_marks marks = ATTN_NO_MARKS;
    for (size_t i = 0; i < count; i++) {
        const size_t size = tokens[i] ? strlen(tokens[i]) : 0;
        /* the marks of subword-nmt and WordPiece are shown */
        if (size && (strcmp(tokens[i], word_end) == 0 || (size > 2 && begins(tokens[i], "##")) ||
                     (size > 2 && strcmp(tokens[i] + size - 2, "@@") == 0)))
            return ATTN_NO_MARKS;
        if (begins_letters(tokens[i]))
            marks = ATTN_BYTE_MARKS;
        else if (marks == ATTN_NO_MARKS && begins(tokens[i], blank_mark))
            marks = ATTN_BLANK_MARKS;
    }
    return marks == ATTN_NO_MARKS && are_letters(tokens, count) ? ATTN_BYTE_MARKS : marks;
}

/* Returns the text of a byte-level token. */
static const char *text_of_bytes(const char *token, attn_arena *arena) {
    const attn_string written = {token, strlen(token)};
    char *text = attn_arena_small(arena, written.size + 1);
    if (!text)
        return NULL;
    const size_t size = attn_bytes_of(&written, text);
    text[size] = 0;
    size_t at = 0;
    for (size_t n; at < size && (n = attn_character_at(text, size, at)); at += n)
        ;
    if (at == size)
        return text;
    attn_text bytes = {.arena = arena};
    for (size_t i = 0; i < size; i++)
        attn_text_add(&bytes, "<0x%02X>", (unsigned)(unsigned char)text[i]);
    return bytes.failed ? NULL : bytes.data;
}

/* Returns the token with blanks for their marks. */
static const char *text_of(attn_token_marks marks, const char *token, attn_arena *arena) {
    if (marks == ATTN_BYTE_MARKS)
        return text_of_bytes(token, arena);
    attn_text t = {.arena = arena};
    for (const char *p = token, *mark; *p; p = mark) {
        mark = strstr(p, blank_mark);
        attn_text_bytes(&t, p, mark ? (size_t)(mark - p) : strlen(p));
        if (!mark)
            break;
        attn_text_bytes(&t, " ", 1);
        mark += strlen(blank_mark);
    }
    return t.failed ? NULL : t.data ? t.data : "";
}

/* Scripts without blanks between words: a piece is a word there. Pairs of first and last characters. */
static const int32_t unspaced[][2] = {{0x0e00, 0x0eff}, {0x1000, 0x109f}, {0x1780, 0x17ff},
                                      {0x2e80, 0x30ff}, {0x31f0, 0x31ff}, {0x3400, 0x4dbf},
                                      {0x4e00, 0x9fff}, {0xa9e0, 0xa9ff}, {0xaa60, 0xaa7f},
                                      {0xf900, 0xfaff}, {0xff01, 0xff65}, {0x20000, 0x3ffff}};

static bool is_unspaced(int32_t c) {
    for (size_t i = 0; i < sizeof unspaced / sizeof *unspaced; i++)
        if (c >= unspaced[i][0] && c <= unspaced[i][1])
            return true;
    return false;
}

static bool is_blank_text(const char *text) {
    return *text && text[strspn(text, " \t\r\n")] == 0;
}

/* Whether tokens[at] continues the word of the token before it. */
static bool continues(attn_token_marks marks, const char *const *tokens, size_t count, size_t at,
                      attn_arena *arena) {
    const char *before = at && at < count ? tokens[at - 1] : NULL;
    const char *token = before ? tokens[at] : NULL;
    if (!token || is_named(before) || is_named(token) || begins(token, "Ġ") ||
        begins(token, blank_mark))
        return false;
    const char *text = text_of(marks, token, arena), *old = text_of(marks, before, arena);
    if (!text || !old || !*text || !*old || strpbrk(old, "\n") ||
        (is_blank_text(text) && strcmp(text, " ") != 0) ||
        (is_blank_text(old) && strcmp(old, " ") != 0))
        return false;
    size_t n;
    return strcmp(old, " ") == 0 ||
           (!is_unspaced(attn_character_read(text, &n)) &&
            !is_unspaced(attn_character_read(old + attn_character_before(old, strlen(old)), &n)));
}

const char *attn_token_name(attn_token_marks marks, const char *const *tokens, size_t count,
                            size_t at, attn_arena *arena) {
    if (marks == ATTN_NO_MARKS || !tokens[at])
        return tokens[at];
    const char *text = text_of(marks, tokens[at], arena);
    const bool is_word = !continues(marks, tokens, count, at, arena) &&
                         !continues(marks, tokens, count, at + 1, arena);
    /* the blank in front of a whole word only divides it from the word before */
    return text && is_word && *text == ' ' && text[1] && text[1] != ' ' ? text + 1 : text;
}
