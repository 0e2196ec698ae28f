/* The terminal's heatmaps and masks, as they look, and that no line is wider than was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "attn/print.h"
#include "attn/rng.h"
#include "draw/draw.h"

static const char *const words[] = {"L'", "accord", "zone", "\n"};
static const char *const keys[] = {"the", "我", "e\xcc\x81t", "internationalization"};

static void looks_like(const attn_heatmap *map, bool labels, size_t width, const char *expected) {
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_text text = {.arena = arena};
    attn_text_heatmap(&text, map, labels ? words : NULL, 4, labels ? keys : NULL, 4, width);
    assert_false(text.failed);
    assert_string_equal(text.data, expected);
    attn_arena_free(arena);
}

static void test_shades_and_hidden_cells(void **state) {
    (void)state;
    float max[12] = {0.8f, 0, 0, 0.1f, 0.09f, 0.31f, 0, 0, 0.6f, 0.65f, NAN, 0.71f};
    attn_hidden_run hidden[2] = {{0, 1, 3}, {1, 2, 4}};
    attn_heatmap map = {.shape = {3, 4},
                        .step = {1, 1},
                        .range = {0, 0.8f},
                        .max = max,
                        .hidden = hidden,
                        .hidden_count = 2};
    looks_like(&map, false, 0,
               "   0 1 2 3\n"
               "  ┌────────┐\n"
               "0 │██····░░│\n"
               "1 │  ▒▒····│\n"
               "2 │▓▓▓▓??██│\n"
               "  └────────┘\n"
               "scale: blank 0  ░░ 0.2  ▒▒ 0.4  ▓▓ 0.6  ██ 0.8  ·· hidden  ?? not a number"
               "   (values 0 to 0.8)\n");
}

static void test_labels(void **state) {
    (void)state;
    float mean[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    attn_heatmap map = {.shape = {4, 4}, .step = {1, 1}, .range = {0, 1}, .mean = mean};
    looks_like(&map, true, 0,
               "              i \n"
               "              n \n"
               "              t \n"
               "              e \n"
               "              r \n"
               "              n \n"
               "              a \n"
               "              t \n"
               "              i \n"
               "        t     o \n"
               "        h   e\xcc\x81 n \n"
               "        e 我t … \n"
               "       ┌────────┐\n"
               "    L' │██      │\n"
               "accord │  ██    │\n"
               "  zone │    ██  │\n"
               "     \xef\xbf\xbd │      ██│\n"
               "       └────────┘\n"
               "scale: blank 0  ░░ 0.25  ▒▒ 0.5  ▓▓ 0.75  ██ 1   (values 0 to 1)\n");
}

static void test_pooled_and_cut(void **state) {
    (void)state;
    float max[30] = {0};
    max[0] = 1;
    attn_heatmap map = {
        .shape = {1, 30}, .origin = {8, 100}, .step = {2, 3}, .range = {0, 1}, .max = max};
    looks_like(&map, false, 24,
               "   100 106 112 118 124\n"
               "  ┌────────────────────┐\n"
               "8 │██                  │\n"
               "  └────────────────────┘\n"
               "scale: blank 0  ░░ 0.25  ▒▒ 0.5  ▓▓ 0.75  ██ 1   (values 0 to 1)\n"
               "pooled: a cell is the largest of 2 queries x 3 keys; labels name the first\n"
               "cut: 10 of 30 columns of cells are drawn\n");
}

static void test_nothing_to_draw(void **state) {
    (void)state;
    attn_heatmap map = {.shape = {3, 0}, .step = {1, 1}};
    looks_like(&map, false, 0, "(no cells: 3 rows, 0 columns)\n");
}

/* Uniform weights are dark (they equal the largest), an all-hidden map is dots. */
static void test_flat_maps(void **state) {
    (void)state;
    float max[2] = {0.5f, 0.5f}, none[2] = {0, 0};
    attn_hidden_run all = {0, 0, 2};
    attn_heatmap map = {.shape = {1, 2}, .step = {1, 1}, .range = {0.5f, 0.5f}, .max = max};
    looks_like(&map, false, 0,
               "   0 1\n  ┌────┐\n0 │████│\n  └────┘\n"
               "scale: blank 0  ░░ 0.125  ▒▒ 0.25  ▓▓ 0.375  ██ 0.5   (values 0.5 to 0.5)\n");
    map = (attn_heatmap){
        .shape = {1, 2}, .step = {1, 1}, .max = none, .hidden = &all, .hidden_count = 1};
    looks_like(&map, false, 0,
               "   0 1\n  ┌────┐\n0 │····│\n  └────┘\n"
               "scale: blank 0  ·· hidden   (values 0 to 0)\n");
}

static void test_no_line_is_too_wide(void **state) {
    (void)state;
    static float cells[200 * 200];
    for (size_t i = 0; i < 200 * 200; i++)
        cells[i] = (float)attn_rng_uniform(1, i);
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t R = attn_rng_bits(seed, 0) % 40 + 1, C = attn_rng_bits(seed, 1) % 200 + 1;
        size_t width = 30 + attn_rng_bits(seed, 2) % 100;
        attn_heatmap map = {.shape = {R, C},
                            .step = {1, 1},
                            .range = {0, 1},
                            .max = cells,
                            .origin = {seed * 37, seed * 1001}};
        attn_arena *arena = attn_arena_new(SIZE_MAX);
        attn_text text = {.arena = arena};
        attn_text_heatmap(&text, &map, NULL, 0, NULL, 0, width);
        size_t lines = 0;
        for (char *line = text.data, *end; strncmp(line, "scale", 5); line = end + 1, lines++) {
            end = strchr(line, '\n');
            *end = '\0';
            assert_true(attn_draw_width(line) <= width);
        }
        assert_int_equal(lines, R + 3);
        attn_arena_free(arena);
    }
}

static void test_mask(void **state) {
    (void)state;
    static const uint8_t keep[6] = {1, 0, 0, 1, 1, 0};
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_text text = {.arena = arena};
    attn_text_mask(&text, keep, 2, 3);
    assert_string_equal(text.data, "✓ ✗ ✗\n✓ ✓ ✗\n"
                                   "a line is a query, a column a key: ✓ visible, ✗ hidden\n");
    attn_arena_free(arena);
}

static void test_columns(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t width;
    } known[] = {
        {"", 0},         {"abc", 3}, {"é", 1},           {"e\xcc\x81", 1}, {"我们", 4},
        {"한글", 4},     {"👍", 2},   {"👍\U0001f3fd", 2}, {"\x1b[31m", 5},  {"\xff\xfe", 2},
        {"\xe6\x88", 2}, {"שָ", 1},   {"ｱ", 1},           {"Ａ", 2},        {"\xf4\x90\x80\x80", 4},
        {"\xc0\xaf", 2}, {"…", 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(attn_draw_width(known[i].text), known[i].width);
    static const struct {
        const char *text, *cut;
        size_t width;
    } cuts[] = {
        {"abcdef", "abcdef", 6},
        {"abcdef", "abcd…", 5},
        {"我们是", "我…", 4},
        {"我们是", "我们…", 5},
        {"e\xcc\x81tudes", "e\xcc\x81t…", 3},
        {"a\x1b[2J", "a\xef\xbf\xbd[2J", 9},
        {"ab", "", 0},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        attn_arena *arena = attn_arena_new(SIZE_MAX);
        attn_text text = {.arena = arena};
        attn_draw_cut(&text, cuts[i].text, cuts[i].width);
        assert_string_equal(text.data ? text.data : "", cuts[i].cut);
        attn_arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shades_and_hidden_cells),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_pooled_and_cut),
        cmocka_unit_test(test_nothing_to_draw),
        cmocka_unit_test(test_flat_maps),
        cmocka_unit_test(test_no_line_is_too_wide),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
