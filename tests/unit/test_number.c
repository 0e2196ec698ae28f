/* Numbers against the C library (which rounds correctly): seeded samples over all bit patterns,
 * ties, long texts, grammar, and another locale. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "number/number.h"
#include "unit/wire_body.h"

static void check_f32(const char *text) {
    float expected = strtof(text, NULL), got = NAN;
    const char *end = text + strlen(text);
    const char *after = attn_read_f32(text, end, &got);
    if (after != end || memcmp(&got, &expected, sizeof got) != 0)
        fail_msg("f32 %s: %a, expected %a", text, (double)got, (double)expected);
}

static void check_f64(const char *text) {
    double expected = strtod(text, NULL), got = NAN;
    const char *end = text + strlen(text);
    const char *after = attn_read_f64(text, end, &got);
    if (after != end || memcmp(&got, &expected, sizeof got) != 0)
        fail_msg("f64 %s: %a, expected %a", text, got, expected);
}

static void check_both(const char *text) {
    check_f32(text);
    check_f64(text);
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_read_sample(void **state) {
    (void)state;
    uint64_t seed = 1;
    char text[64];
    for (int i = 0; i < 200000; i++) {
        uint64_t r = wire_random(&seed);
        float f = float_of((uint32_t)r);
        double d = double_of(wire_random(&seed));
        if (isfinite(f)) {
            snprintf(text, sizeof text, "%.*e", (int)(r >> 32) % 25, (double)f);
            check_both(text);
        }
        if (isfinite(d)) {
            snprintf(text, sizeof text, "%.*e", (int)(r >> 32) % 25, d);
            check_both(text);
        }
        snprintf(text, sizeof text, "%llu.%lluE%d", (unsigned long long)(r >> (r & 63)),
                 (unsigned long long)wire_random(&seed), (int)(r % 700) - 350);
        check_both(text);
        snprintf(text, sizeof text, "-%.*f", (int)(r >> 40) % 12, (double)(r >> 44) * 1e-4);
        check_both(text);
    }
}

/* Every subnormal exponent, and the text exactly between two neighbours, one step up and one down.
 */
static void test_read_halfway(void **state) {
    (void)state;
    uint64_t seed = 2;
    char text[512];
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)wire_random(&seed) & 0x7FFFFFFF;
        if (i % 3 == 0)
            bits &= 0x007FFFFF; /* subnormal */
        if (i % 3 == 1)
            bits = (bits & 0x007FFFFF) | (uint32_t)(100 + i % 60) << 23; /* near 1 */
        if (bits >= 0x7F7FFFFF)
            continue;
        double middle = ((double)float_of(bits) + (double)float_of(bits + 1)) / 2;
        snprintf(text, sizeof text, "%.160e", middle); /* exact: at most 112 digits */
        check_both(text);
        char *e = strchr(text, 'e');
        char tail[16];
        snprintf(tail, sizeof tail, "%s", e);
        snprintf(e, 32, "1%s", tail);
        check_both(text);
        snprintf(text, sizeof text, "%.30e", middle);
        check_both(text);
        snprintf(text, sizeof text, "%.17g", middle);
        check_both(text);
    }
}

static void test_read_special(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        "-0.0e5",
        "1",
        "-1",
        "16777217",
        "16777219",
        "33554435",
        "9007199254740993",
        "0.1",
        "1e10",
        "1e-10",
        "3.4028235e38",
        "3.4028234663852886e38",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "3.4028236e38",
        "1e39",
        "1e400",
        "-1e400",
        "1e-400",
        "1e-46",
        "7.0064923216240853546186479164495806564013097093825788587853e-46",
        "7.006492321624086e-46",
        "7.0064923216240861e-46",
        "1.401298464324817e-45",
        "1.1754943508222875e-38",
        "1.1754942e-38",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "123456789012345678901234567890",
        "0.000000000000000000000000000001",
        "1.00000005960464477539062500000000000000000000000000000000000",
        "1.00000005960464477539062500000000000000000000000000000000001",
        "1.00000005960464477539062499999999999999999999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999",
        "1e0000000000000000001",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "0e99999999999999999999",
        "0.84967455",
        "0.15032543",
        "-1.2345678",
        "1.000000000000000000000000000000000000000000e+2",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_both(texts[i]);
    char text[3000];
    memset(text, '0', sizeof text); /* 0.000…01e2000 and 1000…0e-2000 */
    text[1] = '.';
    memcpy(text + 2001, "1e2001", 7);
    check_both(text);
    memset(text, '0', sizeof text);
    text[0] = '7';
    memcpy(text + 2001, "e-2040", 7);
    check_both(text);
}

static void test_read_grammar(void **state) {
    (void)state;
    static const char *const wrong[] = {"",     "-",        "+1",  ".5",  "1.",  "01",
                                        "-01",  "1e",       "1e+", "1.e", "--1", "NaN",
                                        "-Inf", "Infinity", "x",   "00"};
    float f;
    double d;
    int64_t n;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *end = wrong[i] + strlen(wrong[i]);
        assert_null(attn_read_f32(wrong[i], end, &f));
        assert_null(attn_read_f64(wrong[i], end, &d));
        assert_null(attn_read_i64(wrong[i], end, &n));
    }
    const char *text = "12345678901234567"; /* the end counts, not the next byte */
    for (int size = 1; size <= 17; size++) {
        assert_ptr_equal(attn_read_i64(text, text + size, &n), text + size);
        char cut[20];
        snprintf(cut, sizeof cut, "%.*s", size, text);
        assert_int_equal(n, atoll(cut));
    }
}

static void test_read_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } right[] = {{"0", 0},
                 {"-0", 0},
                 {"3.0", 3},
                 {"1e3", 1000},
                 {"1.50e1", 15},
                 {"120e-1", 12},
                 {"0e-99", 0},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN},
                 {"1e18", 1000000000000000000},
                 {"9223372036854775807.000000000000000000000", INT64_MAX},
                 {"0.0000000000000000000000000000001e31", 1}};
    static const char *const wrong[] = {
        "3.5",  "1e-1", "9223372036854775808", "-9223372036854775809", "1e19",
        "1e99", "0.1",  "99999999999999999999"};
    int64_t n;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_non_null(attn_read_i64(right[i].text, right[i].text + strlen(right[i].text), &n));
        assert_true(n == right[i].value);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(attn_read_i64(wrong[i], wrong[i] + strlen(wrong[i]), &n));
}

/* Significant digits of a decimal text. */
static int digits_in(const char *p) {
    int digits = 0, zeros = 0;
    for (; *p && *p != 'e'; p++) {
        if (*p < '0' || *p > '9' || (digits == 0 && *p == '0'))
            continue;
        digits++;
        zeros = *p == '0' ? zeros + 1 : 0;
    }
    return digits - zeros;
}

static void check_shortest_f32(float value) {
    char text[ATTN_NUMBER_TEXT + 1], other[64];
    *attn_write_f32(text, value) = 0;
    float back = strtof(text, NULL);
    if (memcmp(&back, &value, sizeof back) != 0)
        fail_msg("%a became %s", (double)value, text);
    int n = 1;
    for (; n < 9; n++) {
        snprintf(other, sizeof other, "%.*e", n - 1, (double)value);
        if (strtof(other, NULL) == value)
            break;
    }
    /* %.*e rounds the exact value, so that it is the nearest text of n digits */
    if (digits_in(text) > n)
        fail_msg("%s is longer than %s", text, other);
    if (digits_in(text) == n &&
        fabs(strtod(text, NULL) - (double)value) > fabs(strtod(other, NULL) - (double)value))
        fail_msg("%s is farther than %s", text, other);
}

static void test_write_f32(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 300000; i++) {
        float value = float_of((uint32_t)wire_random(&seed));
        if (isfinite(value))
            check_shortest_f32(value);
    }
    for (uint32_t exponent = 0; exponent < 255; exponent++) /* uneven neighbours, and their own */
        for (int step = -2; step <= 2; step++)
            check_shortest_f32(float_of((exponent << 23) + (uint32_t)step + (exponent ? 0 : 2)));
}

static void test_write_f64(void **state) {
    (void)state;
    uint64_t seed = 4;
    char text[ATTN_NUMBER_TEXT + 1], other[64];
    for (int i = 0; i < 300000; i++) {
        double value = double_of(wire_random(&seed));
        if (i % 2)
            value = (double)(int64_t)wire_random(&seed) * pow(10, -(i % 40));
        if (i % 16 == 5)
            value = double_of((wire_random(&seed) & 2047) << 52); /* powers of two */
        if (!isfinite(value))
            continue;
        *attn_write_f64(text, value) = 0;
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof back) != 0)
            fail_msg("%a became %s", value, text);
        int n = 1;
        for (; n < 17; n++) {
            snprintf(other, sizeof other, "%.*e", n - 1, value);
            if (strtod(other, NULL) == value)
                break;
        }
        if (digits_in(text) > n)
            fail_msg("%s is longer than %s", text, other);
    }
}

static void test_write_form(void **state) {
    (void)state;
    static const struct {
        float value;
        const char *text;
    } singles[] = {{0, "0"},
                   {-0.0f, "-0.0"},
                   {1, "1"},
                   {-1, "-1"},
                   {0.5f, "0.5"},
                   {0.84967455f, "0.8496745"},
                   {16777216, "16777216"},
                   {1e-5f, "0.00001"},
                   {1e-7f, "1e-7"},
                   {1.5e-7f, "1.5e-7"},
                   {1e15f, "1000000000000000"},
                   {1e16f, "1e16"},
                   {-1.2345678f, "-1.2345678"},
                   {FLT_MAX, "3.4028235e38"},
                   {FLT_MIN, "1.1754944e-38"},
                   {1e-45f, "1e-45"},
                   {1200, "1200"},
                   {123.25f, "123.25"}};
    static const struct {
        double value;
        const char *text;
    } doubles[] = {{0.1, "0.1"},
                   {1e20, "100000000000000000000"},
                   {1e21, "1e21"},
                   {5e-324, "5e-324"},
                   {DBL_MAX, "1.7976931348623157e308"},
                   {268435456, "268435456"},
                   {9007199254740993.0, "9007199254740992"},
                   {-0.0, "-0.0"},
                   {0.00001, "0.00001"},
                   {0.0000099, "9.9e-6"}};
    char text[ATTN_NUMBER_TEXT + 1];
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        *attn_write_f32(text, singles[i].value) = 0;
        assert_string_equal(text, singles[i].text);
    }
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        *attn_write_f64(text, doubles[i].value) = 0;
        assert_string_equal(text, doubles[i].text);
    }
    *attn_write_i64(text, INT64_MIN) = 0;
    assert_string_equal(text, "-9223372036854775808");
    *attn_write_i64(text, 100000000) = 0;
    assert_string_equal(text, "100000000");
}

/* printf's %.*f rounds the exact value, ties to even. */
static void test_write_decimals(void **state) {
    (void)state;
    uint64_t seed = 5;
    char text[ATTN_NUMBER_TEXT + 1], other[400];
    for (int i = 0; i < 300000; i++) {
        int decimals = (int)(wire_random(&seed) % 18);
        double value =
            ldexp((double)(int64_t)wire_random(&seed), -10 - (int)(wire_random(&seed) % 90));
        if (i % 4 == 0)
            value = (double)((int64_t)(wire_random(&seed) % 4000) - 2000) / 16; /* ties */
        char *end = attn_write_decimals(text, value, decimals);
        assert_true(end - text <= ATTN_NUMBER_TEXT);
        *end = 0;
        snprintf(other, sizeof other, "%.*f", decimals, value);
        char *last = other + strlen(other);
        if (decimals > 0) {
            while (last[-1] == '0')
                last--;
            last -= last[-1] == '.';
        }
        *last = 0;
        assert_string_equal(text, strcmp(other, "-0") == 0 ? "0" : other);
    }
    *attn_write_decimals(text, 1e300, 3) = 0;
    assert_string_equal(text, "1e300");
    *attn_write_decimals(text, 0.125, 2) = 0;
    assert_string_equal(text, "0.12");
    *attn_write_decimals(text, 0.375, 2) = 0;
    assert_string_equal(text, "0.38");
}

/* In a locale with a decimal comma, long texts go the slow way through the C library. Such a locale
 * is compiled when the machine has none. */
static void test_locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8",
                                        "nl_NL.utf8"};
    const char *chosen = NULL;
    for (size_t i = 0; !chosen && i < sizeof names / sizeof *names; i++)
        chosen = setlocale(LC_ALL, names[i]);
    char folder[] = "/tmp/attn-locale-XXXXXX", command[200];
    bool made = !chosen && mkdtemp(folder);
    if (made) {
        snprintf(command, sizeof command,
                 "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
        if (system(command) == 0 && setenv("LOCPATH", folder, 1) == 0)
            chosen = setlocale(LC_ALL, "de_DE.UTF-8");
    }
    char comma[32];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    float f = 0;
    double d = 0;
    const char *text = "1.000000059604644775390625000000000000000000000000000001";
    assert_non_null(attn_read_f32(text, text + strlen(text), &f));
    assert_non_null(attn_read_f64(text, text + strlen(text), &d));
    char out[ATTN_NUMBER_TEXT + 1], rounded[ATTN_NUMBER_TEXT + 1];
    *attn_write_f64(out, 0.1) = 0;
    *attn_write_decimals(rounded, 0.26, 1) = 0;
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    if (made) {
        snprintf(command, sizeof command, "rm -rf %s", folder);
        assert_int_equal(system(command), 0);
    }
    if (!chosen)
        skip();
    assert_string_equal(comma, "0,5");
    assert_true(f == 1.00000011920928955078125f);
    assert_true(d == 1.0000000596046448);
    assert_string_equal(out, "0.1");
    assert_string_equal(rounded, "0.3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_sample),    cmocka_unit_test(test_read_halfway),
        cmocka_unit_test(test_read_special),   cmocka_unit_test(test_read_grammar),
        cmocka_unit_test(test_read_integers),  cmocka_unit_test(test_write_f32),
        cmocka_unit_test(test_write_f64),      cmocka_unit_test(test_write_form),
        cmocka_unit_test(test_write_decimals), cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
