/* Lists of float32 between text and bits: what the fast loops do equals the one-number functions
 * (which test_number.c holds against the C library), at every distance from the ends of the text.
 * tests/bench/sweep_numbers.c does the same over all values. */
#include <math.h>
#include <stdio.h>

#include "number/number.h"
#include "unit/wire_body.h"

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_write_as_one_by_one(void **state) {
    (void)state;
    static float values[1024];
    static char text[1024 * (ATTN_NUMBER_TEXT + 1)];
    uint64_t seed = 11;
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < 1024; i++) {
            uint32_t bits = (uint32_t)wire_random(&seed);
            if (round % 2) /* the sizes of attention data */
                bits = (bits & 0x807FFFFF) | (105 + (bits >> 24) % 32) << 23;
            if (round % 20 == 3) /* few digits: ties and short texts */
                bits &= 0xFFF80000;
            values[i] = float_of(bits);
        }
        char *end = attn_write_singles(text, values, 1024), *p = text;
        for (int i = 0; i < 1024; i++) {
            char one[ATTN_NUMBER_TEXT + 1] = "null";
            size_t n = 4;
            if (isfinite(values[i]))
                n = (size_t)(attn_write_f32(one, values[i]) - one);
            if (memcmp(p, one, n) != 0 || p[n] != ',')
                fail_msg("%a: %.20s, expected %.*s", (double)values[i], p, (int)n, one);
            p += n + 1;
        }
        assert_ptr_equal(p, end);
    }
}

/* Each row is as it would be alone, whatever its width; between two of them stands "],[". */
static void test_write_rows(void **state) {
    (void)state;
    enum { MOST = 70, ROWS = 9 };
    static float values[ROWS * MOST];
    static char text[ROWS * MOST * (ATTN_NUMBER_TEXT + 1)], row[MOST * (ATTN_NUMBER_TEXT + 1)];
    uint64_t seed = 13;
    for (size_t width = 1; width <= MOST; width++)
        for (size_t rows = 1; rows <= ROWS; rows++) {
            for (size_t i = 0; i < rows * width; i++) {
                uint32_t bits = (uint32_t)wire_random(&seed);
                values[i] = float_of(bits % 5 ? (bits & 0x807FFFFF) | 125u << 23 : bits);
            }
            char *end = attn_write_single_rows(text, values, rows, width), *p = text;
            for (size_t i = 0; i < rows; i++) {
                size_t n = (size_t)(attn_write_singles(row, values + i * width, width) - row) - 1;
                assert_memory_equal(p, row, n);
                assert_memory_equal(p + n, "],[", 3);
                p += n + 3;
            }
            assert_ptr_equal(p, end);
        }
}

/* Read the list `text` (of numbers, without a bracket) from a block of exactly its size. */
static size_t read_list(const char *text, float *out, size_t room, size_t *stopped, bool *comma) {
    size_t size = strlen(text), count = 0;
    char *block = test_malloc(size + 1);
    assert_non_null(block);
    memcpy(block, text, size + 1);
    const char *end = attn_read_singles(block, block, block + size, out, room, &count, comma);
    *stopped = (size_t)(end - block);
    test_free(block);
    return count;
}

static void test_read_beside_strtof(void **state) {
    (void)state;
    static const char *const forms[] = {"%.8g",  "%.9g",  "%.17g", "%.3f", "%.7f",
                                        "%.12f", "%.19f", "%.25f", "%.0f", "%.20e"};
    uint64_t seed = 12;
    for (int i = 0; i < 60000; i++) {
        char text[400] = "";
        float right[5], got[5];
        size_t used = 0, stopped, n = 1 + (size_t)i % 5;
        bool comma;
        for (size_t k = 0; k < n; k++) {
            uint64_t r = wire_random(&seed);
            double value = ldexp((double)(int64_t)r, -63 + (int)(r % 12) - 2);
            if (r % 7 == 0) /* the middle of two floats, or nearly */
                value = (1 + ((double)(r >> 41 << 1) + 1) * 0x1p-24) * (double)(r % 3 ? 1 : 16);
            int length = snprintf(text + used, 64, forms[(r >> 20) % 10], value);
            right[k] = strtof(text + used, NULL);
            used += (size_t)length;
            if (k + 1 < n)
                used += (size_t)sprintf(text + used, r % 2 ? "," : ", ");
        }
        if (read_list(text, got, 5, &stopped, &comma) != n)
            fail_msg("%s: stopped at %zu", text, stopped);
        if (memcmp(right, got, n * sizeof *got) != 0)
            fail_msg("%s", text);
        assert_int_equal(stopped, used);
        assert_false(comma);
    }
}

/* Every form behind, before and between others, so that each path of the reader meets it. */
static void test_read_grammar(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",    "-",    "+1.5", ".5",   "1.",     "01.5",   "-01.5",  "00.5",  "1e",          "1.e5",
        "--1", "NaN",  "1..5", "1.5.", "-.5",    "0x1.8",  "1.5-",   "1-.5",  "1,.5",        "12.",
        "1/5", "1:.5", "1.:5", "1./5", "100.5a", "1.5e39", "-1e400", "999.x", "3.4028236e38"};
    static const char *const right[] = {"0",      "-0",      "-0.0",     "7",       "-7.25",
                                        "12.5",   "-123.25", "1234.5",   "999.999", "1e-5",
                                        "1.5E+3", "0.1e1",   "16777217", "0.000001"};
    static const char *const before[] = {"", "1.25,", "0.5,0.25,0.125,1.5, 2.5,"};
    static const char *const behind[] = {"", "]", ",1.5", ",0.5,0.25,0.125,0.0625,0.03125,0.5]"};
    char text[300];
    float got[16];
    size_t stopped;
    bool comma;
    for (size_t b = 0; b < 3; b++)
        for (size_t e = 0; e < 4; e++) {
            size_t first = b == 0 ? 0 : b == 1 ? 1 : 5;
            for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                snprintf(text, sizeof text, "%s%s%s", before[b], wrong[i], behind[e]);
                size_t n = read_list(text, got, 16, &stopped, &comma);
                /* "1.5-" is a number and then something else: it stops behind the number */
                bool is_start = strspn(wrong[i], "0123456789") > 0 && n == first + 1;
                if (n != first && !(is_start && text[stopped] != ']' && text[stopped] != '\0') &&
                    strcmp(wrong[i], "1,.5") != 0)
                    fail_msg("%s: %zu numbers", text, n);
            }
            for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
                snprintf(text, sizeof text, "%s%s%s", before[b], right[i], behind[e]);
                float value = strtof(right[i], NULL);
                assert_true(read_list(text, got, 16, &stopped, &comma) >= first + 1);
                assert_memory_equal(&got[first], &value, sizeof value);
            }
        }
}

static void test_read_room(void **state) {
    (void)state;
    float got[4] = {0, 0, 0, 9};
    size_t stopped;
    bool comma;
    assert_int_equal(read_list("0.5,0.25,0.125,0.0625,0.03125]", got, 3, &stopped, &comma), 3);
    assert_true(comma);
    assert_true(got[2] == 0.125f && got[3] == 9);
    assert_int_equal(stopped, 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_as_one_by_one), cmocka_unit_test(test_write_rows),
        cmocka_unit_test(test_read_beside_strtof),  cmocka_unit_test(test_read_grammar),
        cmocka_unit_test(test_read_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
