/* Figures: numbers and labels of the writer, colours and contrast, what is refused, and that no
 * allocation that fails does more than end in ATTN_ENOMEM. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draw/figure_parts.h"

#define LIMIT (64u << 20)

/* --- the writer --- */

static void test_numbers(void **state) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "0"},
                {-0.0, "0"},
                {12, "12"},
                {0.5, "0.5"},
                {-0.004, "0"},
                {-0.005, "-0.01"},
                {1.005, "1"},
                {3.14159, "3.14"},
                {99.999, "100"},
                {-7.1, "-7.1"},
                {0.05, "0.05"},
                {NAN, "0"},
                {INFINITY, "1000000000"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_text t = {.arena = arena};
        attn_svg s = {&t, ATTN_THEME_LIGHT};
        attn_svg_number(&s, rows[i].value);
        assert_string_equal(t.data, rows[i].text);
        attn_arena_free(arena);
    }
}

static void test_labels(void **state) {
    static const struct {
        const char *token, *seen;
    } rows[] = {{"cat", "cat"},
                {" cat", "␣cat"},
                {"cat  ", "cat␣␣"},
                {"two words", "two words"},
                {"   ", "␣␣␣"},
                {"\n", "↵"},
                {"\t", "⇥"},
                {"", "∅"},
                {"\x01", "\xef\xbf\xbd"},
                {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xc2\xa0x", "␣x"},
                {"\xe2\x80\xae", "\xef\xbf\xbd"},
                {"e\xcc\x81", "e\xcc\x81"}};
    (void)state;
    attn_arena *arena = attn_arena_new(LIMIT);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(attn_svg_label(arena, rows[i].token, 11, 500), rows[i].seen);
    /* cut so that it fits, with its mark of the cut */
    const char *cut = attn_svg_label(arena, "representation", 11, 40);
    assert_true(attn_svg_width(cut, 11, false) <= 40);
    assert_non_null(strstr(cut, "…"));
    attn_arena_free(arena);
}

static void test_title_lines(void **state) {
    const attn_svg_face face = {.size = 10};
    const char *lines[3];
    (void)state;
    attn_arena *arena = attn_arena_new(LIMIT);
    assert_int_equal(attn_svg_lines(arena, "", &face, 100, lines, 3), 0);
    assert_int_equal(attn_svg_lines(arena, "one", &face, 100, lines, 3), 1);
    assert_int_equal(attn_svg_lines(arena, "one two three four five", &face, 60, lines, 3), 3);
    assert_string_equal(lines[0], "one two");
    assert_int_equal(attn_svg_lines(arena, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                    &face, 60, lines, 3),
                     3);
    for (int i = 0; i < 3; i++)
        assert_true(attn_svg_width(lines[i], 10, false) <= 60);
    assert_int_equal(attn_svg_lines(arena, "\none two\n\nthree\n", &face, 60, lines, 3), 2);
    assert_string_equal(lines[0], "one two");
    assert_string_equal(lines[1], "three");
    assert_int_equal(attn_svg_lines(arena, "a\nb\nc\nd", &face, 60, lines, 3), 3);
    assert_string_equal(lines[2], "c d");
    attn_arena_free(arena);
}

static void test_ticks(void **state) {
    static const double ranges[][2] = {{0, 1},   {-1, 1},      {0, 99},
                                       {12, 38}, {1e-9, 3e-9}, {-1e6, 5e7}};
    double ticks[ATTN_TICKS];
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const double low = ranges[i][0], high = ranges[i][1], slack = (high - low) * 1e-6;
        size_t n = attn_figure_ticks(low, high, 7, ticks);
        assert_true(n >= 2 && n <= 7);
        char last[32] = "", text[32];
        for (size_t k = 0; k < n; k++) {
            assert_true(ticks[k] >= low - slack && ticks[k] <= high + slack);
            attn_figure_tick_text(ticks[k], ticks[1] - ticks[0], text);
            assert_string_not_equal(text, last);
            memcpy(last, text, sizeof last);
        }
    }
    assert_int_equal(attn_figure_ticks(3, 3, 7, ticks), 1);
}

/* --- colours --- */

static double contrast(attn_rgb a, attn_rgb b) {
    double x = attn_draw_luminance(a) + 0.05, y = attn_draw_luminance(b) + 0.05;
    return x > y ? x / y : y / x;
}

static void test_ink_is_readable_on_any_colour(void **state) {
    (void)state;
    for (unsigned r = 0; r < 256; r += 5)
        for (unsigned g = 0; g < 256; g += 5)
            for (unsigned b = 0; b < 256; b += 5) {
                attn_rgb ground = {(uint8_t)r, (uint8_t)g, (uint8_t)b};
                assert_true(contrast(ground, attn_draw_ink(ground)) >= 4.5);
            }
}

static void test_themes_are_readable(void **state) {
    (void)state;
    for (int theme = 0; theme <= ATTN_THEME_DARK; theme++) {
        const attn_draw_palette *p = attn_draw_palette_of((attn_theme)theme);
        assert_true(contrast(p->text, p->ground) >= 7);
        assert_true(contrast(p->muted, p->ground) >= 4.5);
        assert_true(contrast(p->text, p->hatch_ground) >= 4.5); /* ✗ between the lines */
        for (size_t i = 0; i < 6; i++)
            assert_true(contrast(attn_draw_curve_colour((attn_theme)theme, i), p->ground) >= 3);
    }
}

static void test_places(void **state) {
    (void)state;
    for (int map = ATTN_COLORMAP_BLUES; map <= ATTN_COLORMAP_CIVIDIS; map++)
        for (int transform = ATTN_LINEAR; transform <= ATTN_LOG; transform++) {
            const attn_draw_scale s = {-2, 4, (attn_transform)transform, (attn_colormap)map,
                                       ATTN_THEME_LIGHT};
            double last = -1;
            for (double v = -3; v <= 5; v += 0.01) {
                double t = attn_draw_place(&s, v);
                assert_true(t >= last && t >= 0 && t <= 1);
                if (v >= -2 && v <= 4)
                    assert_true(fabs(attn_draw_value(&s, t) - v) < 1e-9);
                last = t;
            }
            if (map == ATTN_COLORMAP_RDBU)
                assert_true(attn_draw_place(&s, 0) == 0.5);
        }
}

/* --- figures --- */

static float cells[12] = {0, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 1, NAN};
static attn_hidden_run hidden[1] = {{1, 2, 4}};
static const char *const names[4] = {"a", " b", "<c>", "d"};

static attn_heatmap a_map(void) {
    return (attn_heatmap){
        .shape = {3, 4}, .step = {1, 1}, .max = cells, .hidden = hidden, .hidden_count = 1};
}

static attn_status draw(attn_arena *arena, const attn_figure_options *options, bool png,
                        attn_error *err) {
    const attn_heatmap maps[2] = {a_map(), a_map()};
    const char *const titles[2] = {"one", "two"};
    const attn_figure_heat data = {
        .maps = maps, .count = 2, .titles = titles, .col_labels = names, .col_count = 4};
    attn_text svg = {.arena = arena};
    const void *bytes;
    size_t size;
    attn_status status = attn_figure_heatmaps(&svg, &data, options, err);
    if (!status && png)
        status = attn_figure_png(&svg, 1, arena, &bytes, &size, err);
    return status;
}

static attn_status draw_lines(attn_arena *arena, attn_error *err) {
    static const double y[3] = {1, NAN, 3};
    const attn_figure_curve curve = {.name = "curve", .y = y, .n = 3};
    const char *const titles[1] = {"panel"};
    const attn_figure_curves data = {&curve, 1, titles, 1, true};
    attn_figure_options options = attn_figure_defaults();
    attn_text svg = {.arena = arena};
    options.title = "Curves";
    options.x_label = options.y_label = "axis";
    return attn_figure_lines(&svg, &data, &options, err);
}

static void test_refused(void **state) {
    attn_figure_options o = attn_figure_defaults();
    attn_error err;
    (void)state;
    attn_arena *arena = attn_arena_new(LIMIT);
    assert_int_equal(draw(arena, &o, false, &err), ATTN_OK);
    o.annotate = "%d";
    assert_int_equal(draw(arena, &o, false, &err), ATTN_EARG);
    assert_string_equal(err.where, "annotate");
    o = attn_figure_defaults();
    o.vmin = o.vmax = 1;
    assert_int_equal(draw(arena, &o, false, &err), ATTN_EARG);
    assert_string_equal(err.where, "vmin");
    o = attn_figure_defaults();
    o.tick_rotation = 91;
    assert_int_equal(draw(arena, &o, false, &err), ATTN_EARG);
    static const double sizes[] = {-1, NAN, INFINITY, ATTN_FIGURE_MOST + 1, 30};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        o = attn_figure_defaults();
        o.width = sizes[i];
        assert_int_equal(draw(arena, &o, false, &err), ATTN_EARG);
        assert_string_equal(err.where, "width");
        o.width = 500;
        o.height = sizes[i];
        assert_int_equal(draw(arena, &o, false, &err), ATTN_EARG);
        assert_string_equal(err.where, "height");
    }
    attn_heatmap maps[2] = {a_map(), a_map()};
    attn_figure_heat data = {.maps = maps, .count = 2};
    attn_text svg = {.arena = arena};
    o = attn_figure_defaults();
    maps[1].shape[0] = 2;
    assert_int_equal(attn_figure_heatmaps(&svg, &data, &o, &err), ATTN_ESHAPE);
    data.count = 0;
    assert_int_equal(attn_figure_heatmaps(&svg, &data, &o, &err), ATTN_ESHAPE);
    const double y[] = {1, 2};
    const attn_figure_curve curve = {.name = "a", .y = y, .n = 2, .panel = 1};
    const attn_figure_curves curves = {.items = &curve, .count = 1, .panels = 1};
    assert_int_equal(attn_figure_lines(&svg, &curves, &o, &err), ATTN_EARG);
    assert_string_equal(err.where, "panel");
    attn_arena_free(arena);
}

static void test_pixels_have_a_bound(void **state) {
    const attn_heatmap map = a_map();
    const attn_figure_heat data = {.maps = &map, .count = 1};
    const attn_figure_options o = attn_figure_defaults();
    const void *png;
    size_t size;
    attn_error err;
    (void)state;
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_text svg = {.arena = arena};
    assert_int_equal(attn_figure_heatmaps(&svg, &data, &o, &err), ATTN_OK);
    assert_int_equal(attn_figure_png(&svg, 1, arena, &png, &size, &err), ATTN_OK);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(attn_figure_png(&svg, 1000, arena, &png, &size, &err), ATTN_ELIMIT);
    assert_string_equal(err.where, "scale");
    /* the pixels are taken from the arena, so that its limit is theirs */
    assert_int_equal(attn_figure_png(&svg, 15, arena, &png, &size, &err), ATTN_ENOMEM);
    attn_arena_free(arena);
}

static long left; /* allocations that still succeed */

static void *take(size_t size) {
    return left-- > 0 ? aligned_alloc(ATTN_ALIGN, (size + ATTN_ALIGN) / ATTN_ALIGN * ATTN_ALIGN)
                      : NULL;
}

/* Arenas of a few KB a block, so that their allocations fail in all places. */
static void test_every_allocation_may_fail(void **state) {
    attn_figure_options o = attn_figure_defaults();
    attn_error err;
    (void)state;
    o.title = "A title";
    o.x_label = o.y_label = o.value_label = "axis";
    o.transpose = true;
    for (int what = 0; what < 4; what++) {
        size_t most = 0;
        o.width = o.height = what == 3 ? 400 : 0;
        attn_status status = ATTN_ENOMEM;
        for (; status == ATTN_ENOMEM && most < LIMIT; most += 64 + most / 16) {
            attn_arena *arena = attn_arena_new(most);
            assert_non_null(arena);
            status = what == 2 ? draw_lines(arena, &err) : draw(arena, &o, what == 1, &err);
            assert_true(status == ATTN_OK || (status == ATTN_ENOMEM && err.code == ATTN_ENOMEM));
            attn_arena_free(arena);
        }
        assert_int_equal(status, ATTN_OK);
    }
    attn_set_allocator(take, free);
    attn_status status = ATTN_ENOMEM;
    for (long n = 1; status == ATTN_ENOMEM && n < 10000; n++) {
        left = n;
        attn_arena *arena = attn_arena_new(LIMIT);
        status = arena ? draw(arena, &o, false, &err) : ATTN_ENOMEM;
        attn_arena_free(arena);
    }
    attn_set_allocator(NULL, NULL);
    assert_int_equal(status, ATTN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_title_lines),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_ink_is_readable_on_any_colour),
        cmocka_unit_test(test_themes_are_readable),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_pixels_have_a_bound),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
