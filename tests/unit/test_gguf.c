/* GGUF: a file that PyPI's gguf wrote (tests/tools/gguf-cases), and the same file damaged. */
#include <attn/gguf.h>
#include <attn/memory.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/blocks.h"

enum { MOST = 4096, USED = 1152 + 210 /* end of the last tensor of a type that is read */ };

static unsigned char file[MOST];
static size_t file_size;
static attn_arena *arena;

static attn_gguf read_file(void) {
    attn_gguf g;
    attn_error err = {0};
    attn_arena_reset(arena);
    if (attn_gguf_read(file, file_size, arena, &g, &err))
        fail_msg("%s: %s", err.where, err.text);
    return g;
}

static double number(const attn_gguf *g, const char *key, size_t i) {
    double x = 0;
    assert_true(attn_gguf_number(attn_gguf_find(g, key), i, &x));
    return x;
}

static void test_values(void **state) {
    const attn_gguf g = read_file();
    size_t count;
    double x;
    attn_gguf_text text;
    (void)state;
    assert_int_equal(g.version, 3);
    assert_int_equal(g.alignment, 64);
    assert_true(number(&g, "small.u8", 0) == 200 && number(&g, "small.i8", 0) == -100);
    assert_true(number(&g, "small.u16", 0) == 60000 && number(&g, "small.i16", 0) == -30000);
    assert_true(number(&g, "small.u32", 0) == 4e9 && number(&g, "small.i32", 0) == -2e9);
    assert_true(number(&g, "small.f32", 0) == 1.5 && number(&g, "small.f64", 0) == 0.1);
    assert_true(number(&g, "small.bool", 0) == 1);
    assert_true(number(&g, "small.u64", 0) == 0x1p63 && number(&g, "small.i64", 0) == -0x1p62);
    assert_true(attn_gguf_count(attn_gguf_find(&g, "small.u64"), 0, &count));
    assert_true(count == ((size_t)1 << 63) + 1);
    assert_false(attn_gguf_count(attn_gguf_find(&g, "small.i8"), 0, &count));
    assert_false(attn_gguf_count(attn_gguf_find(&g, "small.f32"), 0, &count));
    assert_false(attn_gguf_number(attn_gguf_find(&g, "small.text"), 0, &x));
    assert_false(attn_gguf_number(attn_gguf_find(&g, "small.none"), 0, &x));
    assert_true(attn_gguf_text_of(attn_gguf_find(&g, "small.text"), &text));
    assert_int_equal(text.size, 6);
    assert_memory_equal(text.at, "na\xc3\xafve", 6);
    assert_false(attn_gguf_text_of(attn_gguf_find(&g, "list.texts"), &text));
}

static void test_lists(void **state) {
    const attn_gguf g = read_file();
    const attn_gguf_value *texts = attn_gguf_find(&g, "list.texts");
    double x;
    (void)state;
    assert_true(number(&g, "list.numbers", 0) == 3 && number(&g, "list.numbers", 1) == -1);
    assert_false(attn_gguf_number(attn_gguf_find(&g, "list.numbers"), 3, &x));
    assert_true(number(&g, "list.floats", 1) == 2);
    assert_int_equal(texts->count, 3);
    assert_int_equal(texts->texts[1].size, 0);
    assert_memory_equal(texts->texts[2].at, "ccc", 3);
}

static void test_tensors(void **state) {
    const attn_gguf g = read_file();
    static const char *const types[] = {"F32", "Q4_1", "Q8_0", "Q6_K"};
    float x[6];
    (void)state;
    assert_int_equal(g.count, 4);
    for (size_t i = 0; i < g.count; i++) {
        assert_string_equal(g.tensors[i].type, types[i]);
        assert_ptr_equal(g.tensors[i].format, attn_block_format_named(types[i]));
    }
    assert_int_equal(g.tensors[0].rank, 2);
    assert_int_equal(g.tensors[0].dims[0], 2);
    assert_int_equal(g.tensors[0].dims[1], 3);
    attn_gguf_widen(x, &g.tensors[0], 1, 5);
    for (int i = 0; i < 5; i++)
        assert_true(x[i] == (float)(i + 1));
    assert_int_equal(g.tensors[1].bytes, 2 * 2 * 20);
    assert_ptr_equal(g.tensors[3].data, file + 1152);
    assert_int_equal(g.unusable_count, 1);
    assert_string_equal(g.unusable[0].name, "numbers");
    assert_non_null(strstr(g.unusable[0].reason, "I32"));
}

/* --- damaged files --- */

/* Returns the first byte behind this text in the file. */
static unsigned char *behind(const char *text) {
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= file_size; i++)
        if (memcmp(file + i, text, n) == 0)
            return file + i + n;
    fail_msg("no %s in the file", text);
    return NULL;
}

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Reads a copy of the first `size` bytes, which ends where its memory ends. */
static attn_status read_copy(size_t size, attn_error *err) {
    attn_gguf g;
    void *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, file, size);
    attn_arena_reset(arena);
    const attn_status status = attn_gguf_read(copy, size, arena, &g, err);
    free(copy);
    return status;
}

static void refused(const char *what, attn_status code, const char *where, const char *text) {
    attn_error err = {0};
    const attn_status status = read_copy(file_size, &err);
    if (status != code || strcmp(err.where, where) != 0 || !strstr(err.text, text))
        fail_msg("%s: %s, %s: %s", what, attn_status_name(status), err.where, err.text);
}

/* Puts a number in place of the old one, reads, and restores the old one. */
static void damaged(unsigned char *at, uint64_t value, int bytes, attn_status code,
                    const char *where, const char *text) {
    unsigned char old[8];
    char what[64];
    snprintf(what, sizeof what, "%d bytes at %zu", bytes, (size_t)(at - file));
    memcpy(old, at, (size_t)bytes);
    put(at, value, bytes);
    refused(what, code, where, text);
    memcpy(at, old, (size_t)bytes);
}

static void test_truncated(void **state) {
    (void)state;
    for (size_t size = 0; size < USED; size++) {
        attn_error err = {0};
        assert_int_not_equal(read_copy(size, &err), ATTN_OK);
        assert_true(err.text[0] != 0);
    }
    assert_int_equal(read_copy(file_size, NULL), ATTN_OK);
}

static void test_damaged_head(void **state) {
    (void)state;
    damaged(file, 'g', 1, ATTN_EARG, "", "\"GGUF\"");
    damaged(file + 4, 1, 4, ATTN_EUNSUPPORTED, "", "found 1");
    damaged(file + 4, 0x03000000, 4, ATTN_EUNSUPPORTED, "", "big-endian");
    damaged(file + 8, 1000000000, 8, ATTN_EARG, "", "found 1000000000");
    damaged(file + 8, UINT64_MAX, 8, ATTN_EARG, "", "number of tensors");
    damaged(file + 16, 1000000000, 8, ATTN_EARG, "", "metadata values");
}

static void test_damaged_values(void **state) {
    unsigned char *text = behind("small.text"), *list = behind("list.numbers");
    (void)state;
    damaged(text + 4, (uint64_t)1 << 60, 8, ATTN_EARG, "small.text", "length of a text");
    damaged(text - 10 - 8, UINT64_MAX, 8, ATTN_EARG, "", "length of a text");
    damaged(text - 10, 0, 1, ATTN_EARG, "", "none of them 0");
    damaged(text - 10, 0xff, 1, ATTN_EARG, "", "UTF-8");
    damaged(text, 13, 4, ATTN_EARG, "small.text", "0 to 12");
    damaged(list + 4, ATTN_GGUF_ARRAY, 4, ATTN_EUNSUPPORTED, "list.numbers", "arrays of arrays");
    damaged(list + 8, (uint64_t)1 << 61, 8, ATTN_EARG, "list.numbers", "number of elements");
    damaged(behind("small.bool") + 4, 2, 1, ATTN_EARG, "small.bool", "0 or 1");
    damaged(behind("small.i8") - 2, 'u', 1, ATTN_EARG, "small.u8", "two values");
    damaged(behind("general.alignment") + 4, 48, 4, ATTN_EARG, "general.alignment", "power of two");
    damaged(behind("general.alignment") + 4, 0, 4, ATTN_EARG, "general.alignment", "power of two");
}

static void test_damaged_tensors(void **state) {
    unsigned char *plain = behind("plain"), *quarter = behind("quarter"), *byte = behind("byte");
    enum { AXES = 4, TYPE = 20, OFFSET = 24 }; /* of a tensor with two axes */
    (void)state;
    damaged(plain, 0, 4, ATTN_ESHAPE, "plain", "found 0");
    damaged(plain, 9, 4, ATTN_ESHAPE, "plain", "found 9");
    damaged(plain + AXES, 0, 8, ATTN_ESHAPE, "plain", "at least one");
    damaged(plain + AXES, (uint64_t)1 << 62, 8, ATTN_ESHAPE, "plain", "counted");
    damaged(plain + AXES + 8, UINT64_MAX, 8, ATTN_ESHAPE, "plain", "counted");
    damaged(plain + AXES, 1000000000, 8, ATTN_EARG, "plain", "truncated");
    damaged(quarter + AXES, 63, 8, ATTN_ESHAPE, "quarter", "multiple of 32");
    damaged(quarter + OFFSET, 65, 8, ATTN_EARG, "quarter", "multiple of 64");
    damaged(quarter + OFFSET, (uint64_t)1 << 63, 8, ATTN_EARG, "quarter", "truncated");
    damaged(byte + OFFSET, 64, 8, ATTN_EARG, "byte", "overlaps the tensor quarter");
    memcpy(quarter - 7, "numbers", 7);
    refused("a name twice", ATTN_EARG, "numbers", "two tensors");
    memcpy(quarter - 7, "quarter", 7);
}

/* A type without a name is listed, and the rest is read. */
static void test_unknown_type(void **state) {
    unsigned char *type = behind("quarter") + 20;
    (void)state;
    put(type, 99, 4);
    const attn_gguf g = read_file();
    put(type, 3, 4);
    assert_int_equal(g.count, 3);
    assert_int_equal(g.unusable_count, 2);
    assert_non_null(strstr(g.unusable[0].reason, "99"));
}

/* Every limit of the arena but a sufficient one is an error, and never a fault. */
static void test_memory(void **state) {
    attn_gguf g;
    attn_status status = ATTN_ENOMEM;
    size_t limit = 0, failed = 0;
    (void)state;
    for (; status == ATTN_ENOMEM; limit += 64, failed++) {
        attn_arena *small = attn_arena_new(limit);
        assert_non_null(small);
        status = attn_gguf_read(file, file_size, small, &g, NULL);
        attn_arena_free(small);
    }
    assert_int_equal(status, ATTN_OK);
    assert_in_range(failed, 10, 1000);
}

static int open_file(void **state) {
    FILE *f = fopen("tests/unit/cases.gguf", "rb");
    (void)state;
    arena = attn_arena_new(1 << 20);
    if (!f || !arena)
        return -1;
    file_size = fread(file, 1, sizeof file, f);
    fclose(f);
    return 0;
}

static int close_file(void **state) {
    (void)state;
    attn_arena_free(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),          cmocka_unit_test(test_lists),
        cmocka_unit_test(test_tensors),         cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_damaged_head),    cmocka_unit_test(test_damaged_values),
        cmocka_unit_test(test_damaged_tensors), cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
