/* CRC32C beside its definition bit by bit, and tables of checksums by block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/checksum.h"
#include "attn/rng.h"
#include "io/checksum.h"

enum { MIB = ATTN_CHECKSUM_BLOCK, SIZE = 3 * MIB + 5000 };

static unsigned char *bytes;

static int make_bytes(void **state) {
    (void)state;
    bytes = malloc(SIZE);
    for (size_t i = 0; bytes && i < SIZE; i++)
        bytes[i] = (unsigned char)attn_rng_bits(7, i);
    return bytes ? 0 : -1;
}

static int free_bytes(void **state) {
    (void)state;
    free(bytes);
    return 0;
}

/* The definition: one bit at a time. */
static uint32_t slow(uint32_t state, const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        state ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? UINT32_C(0x82F63B78) : 0);
    }
    return state;
}

/* The check value of the catalogues, and the examples of RFC 3720, appendix B.4. */
static void test_known_values(void **state) {
    unsigned char zeros[32] = {0}, ones[32], rising[32], falling[32];
    (void)state;
    for (unsigned char i = 0; i < 32; i++) {
        ones[i] = 255;
        rising[i] = i;
        falling[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(attn_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(attn_crc32c(0, zeros, 32), 0x8A9136AA);
    assert_int_equal(attn_crc32c(0, ones, 32), 0x62A8AB43);
    assert_int_equal(attn_crc32c(0, rising, 32), 0x46DD794E);
    assert_int_equal(attn_crc32c(0, falling, 32), 0x113FDB5C);
    assert_int_equal(attn_crc32c(0, NULL, 0), 0);
}

static void compare(attn_crc32c_function *function) {
    for (size_t n = 0; n < 40; n++)
        for (size_t at = 0; at < 9; at++)
            assert_int_equal(function(~0u, bytes + at, n), slow(~0u, bytes + at, n));
    const size_t sizes[] = {4096, 12287, 12288, 12289, 24576, 65537, 100003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(function(12345, bytes + i, sizes[i]), slow(12345, bytes + i, sizes[i]));
}

static void test_both_functions_follow_the_definition(void **state) {
    (void)state;
    compare(attn_crc32c_tables);
    if (attn_crc32c_native())
        compare(attn_crc32c_native());
}

static void test_pieces_add_up(void **state) {
    const uint32_t all = attn_crc32c(0, bytes, 50000);
    (void)state;
    for (size_t cut = 0; cut <= 50000; cut += 1237)
        assert_int_equal(attn_crc32c(attn_crc32c(0, bytes, cut), bytes + cut, 50000 - cut), all);
}

/* The table of the first `size` bytes, added in pieces of about `piece` bytes. */
static attn_checksums table_of(size_t size, size_t piece, attn_arena *arena) {
    attn_checksums table;
    attn_error err;
    assert_int_equal(attn_checksums_begin(size, arena, &table, &err), ATTN_OK);
    for (size_t at = 0; at < size; at += piece)
        attn_checksums_add(&table, bytes + at, size - at < piece ? size - at : piece);
    assert_int_equal(table.added, size);
    return table;
}

static void test_a_table_does_not_depend_on_pieces(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    const size_t pieces[] = {SIZE, MIB, MIB - 1, MIB + 1, 100001, 2 * MIB};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const attn_checksums table = table_of(SIZE, pieces[i], arena);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(table.sums[k],
                             attn_crc32c(0, bytes + k * MIB, k < 3 ? MIB : SIZE - 3 * MIB));
        assert_int_equal(attn_checksums_check(&table, bytes, 0, SIZE, NULL), ATTN_OK);
    }
    attn_arena_free(arena);
}

static void test_text_and_back(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    const size_t sizes[] = {0, 1, 9, MIB - 1, MIB, MIB + 1, 2 * MIB, SIZE};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const attn_checksums table = table_of(sizes[i], 77777, arena);
        attn_checksums back;
        attn_error err;
        char text[64];
        assert_true(attn_checksums_text_size(sizes[i]) < sizeof text);
        attn_checksums_write(&table, text);
        assert_int_equal(strlen(text), attn_checksums_text_size(sizes[i]));
        assert_int_equal(attn_checksums_read(text, sizes[i], arena, &back, &err), ATTN_OK);
        assert_int_equal(back.size, sizes[i]);
        assert_memory_equal(back.sums, table.sums,
                            attn_checksums_count(sizes[i]) * sizeof *back.sums);
    }
    memcpy(bytes, "123456789", 9);
    const attn_checksums table = table_of(9, 4, arena);
    char text[32];
    attn_checksums_write(&table, text);
    assert_string_equal(text, "crc32c:1048576:e3069283");
    attn_arena_free(arena);
}

static void test_other_texts_are_refused(void **state) {
    static const char *const texts[] = {"",
                                        "crc32c:1048576:",
                                        "crc32c:1048576:e306928",
                                        "crc32c:1048576:e30692833",
                                        "crc32c:1048576:e3069283e3069283",
                                        "crc32c:1048576:E3069283",
                                        "crc32c:1048576:e306928g",
                                        "crc32c:1048576:e306928 ",
                                        "crc32c:1048576: e306928",
                                        "crc32c:2097152:e3069283",
                                        "crc32c:01048576:e306928",
                                        "crc32:1048576:e3069283",
                                        "sha256:1048576:e3069283"};
    attn_arena *arena = attn_arena_new(1 << 20);
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        attn_checksums table;
        attn_error err;
        assert_int_equal(attn_checksums_read(texts[i], 9, arena, &table, &err), ATTN_EVALUE);
        assert_string_equal(err.where, "checksums");
    }
    attn_arena_free(arena);
}

static void test_a_changed_byte_is_found_in_its_block_only(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    const attn_checksums table = table_of(SIZE, SIZE, arena);
    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        const size_t at = attn_rng_bits(8, i) % SIZE, block = at / MIB;
        const unsigned char flip = (unsigned char)(1 << attn_rng_bits(9, i) % 8);
        attn_error err;
        bytes[at] ^= flip;
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(attn_checksums_block_is_right(&table, bytes, k), k != block);
        assert_int_equal(attn_checksums_check(&table, bytes, at, at + 1, &err), ATTN_EVALUE);
        assert_int_equal(attn_checksums_check(&table, bytes, 0, SIZE, &err), ATTN_EVALUE);
        assert_int_equal(attn_checksums_check(&table, bytes, 0, block * MIB, &err), ATTN_OK);
        assert_int_equal(attn_checksums_check(&table, bytes, at, at, &err), ATTN_OK);
        bytes[at] ^= flip;
    }
    attn_arena_free(arena);
}

static void test_no_memory(void **state) {
    attn_arena *arena = attn_arena_new(64);
    attn_checksums table;
    attn_error err;
    (void)state;
    assert_int_equal(attn_checksums_begin((size_t)1 << 40, arena, &table, &err), ATTN_ENOMEM);
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_both_functions_follow_the_definition),
        cmocka_unit_test(test_pieces_add_up),
        cmocka_unit_test(test_a_table_does_not_depend_on_pieces),
        cmocka_unit_test(test_text_and_back),
        cmocka_unit_test(test_other_texts_are_refused),
        cmocka_unit_test(test_a_changed_byte_is_found_in_its_block_only),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_bytes, free_bytes);
}
