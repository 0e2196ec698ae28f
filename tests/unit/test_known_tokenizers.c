/* Tokenizers of known models beside PyPI `tokenizers`, whose results tests/tools/tokenizer-cases has
 * written to tokenizer_cases.json; and files that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/text.h"
#include "attn/tokens.h"
#include "json/json_tree.h"

static attn_arena *arena;
static attn_json *cases;

static int open_cases(void **state) {
    (void)state;
    FILE *f = fopen("tests/unit/tokenizer_cases.json", "rb");
    arena = attn_arena_new(1u << 30);
    assert_non_null(f);
    char *text = attn_arena_take(arena, 1 << 20);
    const size_t size = fread(text, 1, 1 << 20, f);
    assert_true(size > 0 && size < 1 << 20);
    fclose(f);
    assert_int_equal(attn_json_read(text, size, arena, &cases, NULL), ATTN_OK);
    return 0;
}

static int close_cases(void **state) {
    (void)state;
    attn_arena_free(arena);
    return 0;
}

static attn_tokenizer *read(const char *text) {
    attn_tokenizer *t = NULL;
    attn_error err = {0};
    if (attn_tokenizer_read_json(text, strlen(text), &t, &err))
        fail_msg("%s: %s", err.where, err.text);
    return t;
}

/* Returns the file of the case with this name. */
static const char *file_of(const char *name) {
    for (attn_json *c = cases->first; c; c = c->next)
        if (!strcmp(attn_json_member(c, "name")->text, name))
            return attn_json_member(c, "file")->text;
    fail_msg("there is no case %s", name);
    return NULL;
}

static int64_t number_at(attn_json *text, const char *member, size_t at) {
    const attn_json *x = attn_json_member(text, member)->first;
    while (at--)
        x = x->next;
    return (int64_t)x->number;
}

static void check_tokens(const char *name, attn_json *text, const attn_token *tokens,
                         size_t count) {
    const char *first = attn_json_member(text, "first")->text;
    const size_t wanted = attn_json_member(text, "ids")->count;
    for (size_t i = 0; i < wanted && i < count; i++) {
        const attn_token *t = &tokens[i];
        if (t->id != number_at(text, "ids", i) ||
            (int64_t)t->begin != number_at(text, "begins", i) ||
            (int64_t)t->end != number_at(text, "ends", i) ||
            t->word != number_at(text, "words", i) || t->segment != number_at(text, "segments", i))
            fail_msg("%s, \"%s\", token %zu: id %d [%zu, %zu) word %d segment %d", name, first, i,
                     (int)t->id, t->begin, t->end, (int)t->word, (int)t->segment);
        assert_int_equal(strlen(t->text), t->size);
    }
    if (count != wanted)
        fail_msg("%s, \"%s\": %zu tokens, expected %zu", name, first, count, wanted);
}

/* What is decoded of a growing list of ids grows: nothing of it is taken back. */
static void check_decoding(const char *name, const attn_tokenizer *t, attn_json *text,
                           const attn_token *tokens, size_t count) {
    int32_t *ids = attn_arena_zeroed(arena, count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = tokens[i].id;
    const char *all = attn_tokenizer_decode(t, ids, count, false, arena);
    if (strcmp(all, attn_json_member(text, "decoded")->text))
        fail_msg("%s: decoded \"%s\"", name, all);
    for (size_t i = 0; i <= count; i++) {
        const char *some = attn_tokenizer_decode(t, ids, i, true, arena);
        if (strncmp(all, some, strlen(some)))
            fail_msg("%s: \"%s\" does not begin with \"%s\"", name, all, some);
    }
}

static void check_text(const char *name, const attn_tokenizer *t, attn_json *text) {
    const attn_json *first = attn_json_member(text, "first");
    const attn_json *second = attn_json_member(text, "second");
    const attn_string texts[2] = {{first->text, strlen(first->text)},
                                  {second ? second->text : "", second ? strlen(second->text) : 0}};
    attn_token *tokens;
    size_t count;
    assert_int_equal(attn_tokenizer_encode_pair(t, texts[0], second ? &texts[1] : NULL,
                                                attn_json_member(text, "specials")->truth, arena,
                                                &tokens, &count, NULL),
                     ATTN_OK);
    check_tokens(name, text, tokens, count);
    check_decoding(name, t, text, tokens, count);
}

static void test_texts_are_those_of_the_reference(void **state) {
    (void)state;
    for (attn_json *c = cases->first; c; c = c->next) {
        const char *name = attn_json_member(c, "name")->text;
        attn_tokenizer *t = read(attn_json_member(c, "file")->text);
        for (attn_json *x = attn_json_member(c, "texts")->first; x; x = x->next) {
            const attn_arena_mark mark = attn_arena_here(arena);
            check_text(name, t, x);
            attn_arena_rewind(arena, &mark);
        }
        attn_tokenizer_free(t);
    }
}

static void test_kinds_and_specials(void **state) {
    (void)state;
    attn_tokenizer *bert = read(file_of("bert"));
    assert_int_equal(attn_tokenizer_kind_of(bert), ATTN_TOKENS_WORDPIECE);
    assert_int_equal(attn_tokenizer_special(bert, ATTN_SPECIAL_BEGIN), 2);
    assert_int_equal(attn_tokenizer_special(bert, ATTN_SPECIAL_END), 3);
    assert_int_equal(attn_tokenizer_special(bert, ATTN_SPECIAL_UNKNOWN), 1);
    assert_int_equal(attn_tokenizer_special(bert, ATTN_SPECIAL_PAD), -1);
    attn_tokenizer_set_special(bert, ATTN_SPECIAL_PAD, 0);
    assert_int_equal(attn_tokenizer_special(bert, ATTN_SPECIAL_PAD), 0);
    assert_string_equal(attn_tokenizer_token(bert, 3), "[SEP]");
    assert_int_equal(attn_tokenizer_id(bert, "no such token", 13), 1);
    attn_tokenizer_free(bert);
    attn_tokenizer *gpt2 = read(file_of("gpt2"));
    assert_int_equal(attn_tokenizer_kind_of(gpt2), ATTN_TOKENS_BYTE_PAIRS);
    for (int i = 0; i < ATTN_SPECIALS; i++)
        assert_int_equal(attn_tokenizer_special(gpt2, (attn_special)i), -1);
    assert_int_equal(attn_tokenizer_id(gpt2, "no such token", 13), -1);
    attn_tokenizer_free(gpt2);
}

static void test_faulty_texts_are_refused(void **state) {
    (void)state;
    attn_tokenizer *t = read(file_of("gpt2"));
    attn_token *tokens;
    attn_error err;
    size_t count;
    assert_int_equal(attn_tokenizer_encode(t, "ab\xff", 3, arena, &tokens, &count, &err),
                     ATTN_EVALUE);
    assert_string_equal(err.where, "text");
    assert_string_equal(err.text, "expected UTF-8, byte 2 is not");
    const int32_t unknown[] = {1 << 20, -1};
    assert_string_equal(attn_tokenizer_decode(t, unknown, 2, false, arena), "");
    attn_tokenizer_free(t);
}

/* A word of many symbols takes n log n steps; with n * n it would take hours. */
static void test_long_words(void **state) {
    (void)state;
    const size_t size = 1 << 20;
    char *text = attn_arena_take(arena, size);
    memset(text, 'x', size);
    for (attn_json *c = cases->first; c; c = c->next) {
        attn_tokenizer *t = read(attn_json_member(c, "file")->text);
        const attn_arena_mark mark = attn_arena_here(arena);
        attn_token *tokens;
        size_t count;
        assert_int_equal(attn_tokenizer_encode(t, text, size, arena, &tokens, &count, NULL),
                         ATTN_OK);
        assert_true(count > 0);
        assert_int_equal(tokens[count - 1].end, size);
        attn_arena_rewind(arena, &mark);
        attn_tokenizer_free(t);
    }
}

/* --- files --- */

#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void test_files_are_refused_by_name(void **state) {
    static const struct {
        const char *file, *where, *text;
    } refused[] = {
        {"[]", "", "expected an object, found a list"},
        {"{}", "model", "expected an object, found nothing"},
        {"{\"model\":{\"type\":\"WordLevel\"}}", "model/type",
         "expected BPE, WordPiece or Unigram, found WordLevel"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]}}", "model/vocab",
         "expected the ids 0 to 1, each once; that of b is none of them"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "model/vocab",
         "expected the ids 0 to 1, each once; that of b is none of them"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\":0},\"merges\":[]}}", "model/tokens/0",
         "expected a token that is not empty"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}",
         "model/merges/0", "the vocabulary lacks the join of \"a\" \"a\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a "
         "a\",[\"a\",\"a\"]]}}",
         "model/merges/1", "repeats the merge \"a\" \"a\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "model/merges",
         "expected two tokens with a blank between them at index 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}",
         "model", "the option dropout is not supported"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"novel\":1}}", "model",
         "the member novel is not supported"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}",
         "model/unk_token", "the vocabulary lacks this token: u"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "model/unk_token",
         "expected the token of what is unknown in the vocabulary"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "model/vocab",
         "expected a token and its score at index 0"},
        {"{" BPE ",\"normalizer\":{\"type\":\"ByteLevel\"}}", "normalizer",
         "ByteLevel is not supported"},
        {"{" BPE ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},"
         "\"content\":\"\"}}",
         "normalizer", "the pattern x+ is none of those that are supported"},
        {"{" BPE ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}",
         "normalizer/precompiled_charsmap",
         "expected the size of the trie in its first four bytes"},
        {"{" BPE ",\"normalizer\":{\"type\":\"NFC\",\"form\":\"D\"}}", "normalizer",
         "the member form is not supported"},
        {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
         "\"pattern\":{\"Regex\":\"[a-z&&[^c]]+\"},\"behavior\":\"Isolated\",\"invert\":false}]}}",
         "pre_tokenizer", "the pattern [a-z&&[^c]]+ is none of those that are supported"},
        {"{" BPE ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "pre_tokenizer",
         "UnicodeScripts is not supported"},
        {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},"
         "\"behavior\":\"Isolated\",\"invert\":false}}",
         "pre_tokenizer", "String: expected a text that is not empty"},
        {"{" BPE ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":"
         "[{\"SpecialToken\":{\"id\":\"x\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}}",
         "post_processor", "special_tokens lacks x"},
        {"{" BPE ",\"decoder\":{\"type\":\"CTC\"}}", "decoder", "CTC is not supported"},
        {"{" BPE ",\"added_tokens\":[{\"id\":7,\"content\":\"x\",\"single_word\":false,\"lstrip\":"
         "false,\"rstrip\":false,\"normalized\":false,\"special\":true}]}",
         "added_tokens", "x has the id 7, expected 3"},
        {"{" BPE ",\"surprise\":1}", "", "the member surprise is not supported"}};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        attn_tokenizer *t = NULL;
        attn_error err = {0};
        assert_int_equal(
            attn_tokenizer_read_json(refused[i].file, strlen(refused[i].file), &t, &err),
            ATTN_EVALUE);
        assert_string_equal(err.where, refused[i].where);
        assert_string_equal(err.text, refused[i].text);
        assert_null(t);
    }
}

/* A normaliser that doubles a text, thirty times over, would fill the memory with an added token. */
static void test_texts_that_explode_are_refused(void **state) {
    (void)state;
    attn_text file = {.arena = arena};
    attn_tokenizer *t = NULL;
    attn_text_add(&file, "{" BPE ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 30; i++)
        attn_text_add(&file,
                      "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}",
                      i ? "," : "");
    attn_text_add(&file,
                  "]},\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"single_word\":false,"
                  "\"lstrip\":false,\"rstrip\":false,\"normalized\":true,\"special\":false}]}");
    assert_int_equal(attn_tokenizer_read_json(file.data, file.size, &t, NULL), ATTN_ENOMEM);
    assert_null(t);
}

static void test_truncated_files_are_refused(void **state) {
    (void)state;
    const char *file = file_of("bert");
    const size_t size = strlen(file);
    for (size_t n = 0; n < size; n += 7) {
        attn_tokenizer *t = NULL;
        assert_int_equal(attn_tokenizer_read_json(file, n, &t, NULL), ATTN_EARG);
        assert_null(t);
    }
}

/* --- arrays --- */

#define S(text)                                                                                    \
    { text, sizeof text - 1 }

static attn_status read_arrays(const char *model, const char *pre, bool add, attn_tokenizer **t,
                               attn_error *err) {
    static const attn_string tokens[] = {S("<|s|>"),
                                         S("a"),
                                         S("b"),
                                         S("1"),
                                         S("\xc4\xa0"),
                                         S("ab"),
                                         S("11"),
                                         S("\xc4\xa0"
                                           "ab"),
                                         S("e"),
                                         S("\xc3\x83"),
                                         S("\xc2\xa9"),
                                         S("<u>")};
    static const int32_t types[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4};
    static const attn_string merges[] = {S("a b"), S("\xc4\xa0 ab"), S("1 1")};
    const attn_tokenizer_arrays arrays = {.model = {model, strlen(model)},
                                          .pre = {pre, strlen(pre)},
                                          .tokens = tokens,
                                          .token_count = sizeof tokens / sizeof *tokens,
                                          .types = types,
                                          .merges = merges,
                                          .merge_count = sizeof merges / sizeof *merges,
                                          .specials = {-1, 0, -1, -1},
                                          .add_begin = add};
    return attn_tokenizer_read_arrays(&arrays, t, err);
}

static void check_ids(const attn_tokenizer *t, const char *text, const int32_t *ids, size_t count) {
    attn_token *tokens;
    size_t found;
    assert_int_equal(attn_tokenizer_encode_pair(t, (attn_string){text, strlen(text)}, NULL, true,
                                                arena, &tokens, &found, NULL),
                     ATTN_OK);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tokens[i].id, ids[i]);
}

static void test_arrays_of_gguf(void **state) {
    (void)state;
    attn_tokenizer *t;
    assert_int_equal(read_arrays("gpt2", "smollm", false, &t, NULL), ATTN_OK);
    check_ids(t, "ab ab11<|s|>a<u>", (int32_t[]){5, 7, 3, 3, 0, 1, 11}, 7);
    assert_string_equal(attn_tokenizer_decode(t, (int32_t[]){0, 7, 9, 10, 11}, 5, false, arena),
                        " ab\xc3\xa9<u>");
    assert_string_equal(attn_tokenizer_shown(t,
                                             "\xc4\xa0"
                                             "ab\xc3\x83\xc2\xa9",
                                             arena),
                        " ab\xc3\xa9");
    assert_string_equal(attn_tokenizer_shown(t, "\xc3\x83", arena), "\xc3\x83"); /* half of é */
    assert_string_equal(attn_tokenizer_shown(t, "\xc4\x8a", arena), "\xc4\x8a"); /* a new line */
    attn_tokenizer_free(t);
    t = read(file_of("bert"));
    assert_string_equal(attn_tokenizer_shown(t,
                                             "\xc4\xa0"
                                             "ab",
                                             arena),
                        "\xc4\xa0"
                        "ab");
    attn_tokenizer_free(t);
    assert_int_equal(read_arrays("gpt2", "gpt-2", true, &t, NULL), ATTN_OK);
    check_ids(t, "ab ab11", (int32_t[]){0, 5, 7, 6}, 4);
    attn_tokenizer_free(t);
    assert_int_equal(read_arrays("gpt2", "qwen2", false, &t, NULL), ATTN_OK);
    check_ids(t, "11e\xcc\x81", (int32_t[]){3, 3, 9, 10}, 4); /* digits singly, NFC */
    attn_tokenizer_free(t);
    assert_int_equal(read_arrays("gpt2", "llama-bpe", false, &t, NULL), ATTN_OK);
    check_ids(t, "1111", (int32_t[]){6, 3, 3}, 3); /* three digits at most */
    attn_tokenizer_free(t);
}

static void test_unknown_arrays_are_refused(void **state) {
    (void)state;
    attn_tokenizer *t = NULL;
    attn_error err;
    assert_int_equal(read_arrays("gpt2", "chameleon", false, &t, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "tokenizer.ggml.pre");
    assert_string_equal(err.text, "expected smollm, gpt-2, llama-bpe or qwen2, found chameleon");
    assert_int_equal(read_arrays("llama", "smollm", false, &t, &err), ATTN_EVALUE);
    assert_string_equal(err.where, "tokenizer.ggml.model");
    assert_string_equal(err.text, "expected gpt2, found llama");
    assert_null(t);
}

/* --- memory --- */

static size_t left; /* allocations until one fails */

static void *take_some(size_t size) {
    return left && left-- ? attn_block_take(size) : NULL;
}

static void test_memory_runs_out_at_any_time(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "bert", "unigram_mapped"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *file = file_of(names[i]);
        attn_status status = ATTN_ENOMEM;
        for (size_t n = 0; status; n++) {
            attn_tokenizer *t = NULL;
            left = n;
            attn_set_allocator(take_some, attn_block_give);
            status = attn_tokenizer_read_json(file, strlen(file), &t, NULL);
            attn_set_allocator(NULL, NULL);
            assert_true(status == ATTN_OK || status == ATTN_ENOMEM);
            attn_tokenizer_free(t);
        }
    }
}

static void test_arenas_run_out_at_any_time(void **state) {
    (void)state;
    static const char text[] = "The e\xcc\x81t\xc3\xa9 12 \xe6\x97\xa5\xe6\x9c\xac cats";
    for (attn_json *c = cases->first; c; c = c->next) {
        attn_tokenizer *t = read(attn_json_member(c, "file")->text);
        attn_status status = ATTN_ENOMEM;
        for (size_t limit = 64; status; limit += 64) {
            attn_arena *small = attn_arena_new(limit);
            attn_token *tokens;
            size_t count;
            status = attn_tokenizer_encode(t, text, sizeof text - 1, small, &tokens, &count, NULL);
            assert_true(status == ATTN_OK || status == ATTN_ENOMEM);
            attn_arena_free(small);
        }
        attn_tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_those_of_the_reference),
        cmocka_unit_test(test_kinds_and_specials),
        cmocka_unit_test(test_faulty_texts_are_refused),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_files_are_refused_by_name),
        cmocka_unit_test(test_texts_that_explode_are_refused),
        cmocka_unit_test(test_truncated_files_are_refused),
        cmocka_unit_test(test_arrays_of_gguf),
        cmocka_unit_test(test_unknown_arrays_are_refused),
        cmocka_unit_test(test_memory_runs_out_at_any_time),
        cmocka_unit_test(test_arenas_run_out_at_any_time),
    };
    return cmocka_run_group_tests(tests, open_cases, close_cases);
}
