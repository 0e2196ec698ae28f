/* Values -> places on a colour map -> colours; what can be read on them. Colours between those of a
 * table are mixed in sRGB, as the programs do that the tables come from. */
#include "draw/colour.h"

#include <math.h>

#include "draw/colour_tables.h"

#define LOG_STEPS 255.0 /* as u8 cells: ln(1 + 255 t) / ln 256 */

const attn_draw_palette *attn_draw_palette_of(attn_theme theme) {
    static const attn_draw_palette light = {.ground = {255, 255, 255},
                                            .text = {32, 33, 36},
                                            .muted = {88, 93, 99},
                                            .rule = {226, 228, 231},
                                            .frame = {176, 181, 188},
                                            .hatch_ground = {241, 242, 244},
                                            .hatch = {182, 187, 193},
                                            .nan = {217, 70, 160}};
    static const attn_draw_palette dark = {.ground = {22, 24, 28},
                                           .text = {232, 234, 237},
                                           .muted = {160, 166, 173},
                                           .rule = {48, 52, 58},
                                           .frame = {86, 92, 100},
                                           .hatch_ground = {34, 37, 42},
                                           .hatch = {92, 98, 106},
                                           .nan = {240, 98, 180}};
    return theme == ATTN_THEME_DARK ? &dark : &light;
}

/* --- places --- */

static double bend(attn_transform transform, double t) {
    switch (transform) {
    case ATTN_SQRT:
        return sqrt(t);
    case ATTN_LOG:
        return log1p(LOG_STEPS * t) / log1p(LOG_STEPS);
    case ATTN_LINEAR:
        break;
    }
    return t;
}

static double unbend(attn_transform transform, double t) {
    switch (transform) {
    case ATTN_SQRT:
        return t * t;
    case ATTN_LOG:
        return expm1(t * log1p(LOG_STEPS)) / LOG_STEPS;
    case ATTN_LINEAR:
        break;
    }
    return t;
}

static double clip(double t) {
    return t > 0 ? fmin(t, 1) : 0;
}

static bool two_sided(const attn_draw_scale *s) {
    return s->map == ATTN_COLORMAP_RDBU && s->low < 0 && s->high > 0;
}

double attn_draw_place(const attn_draw_scale *s, double value) {
    if (two_sided(s)) {
        double side = value < 0 ? clip(value / s->low) : clip(value / s->high);
        return 0.5 + copysign(0.5 * bend(s->transform, side), value);
    }
    if (s->high <= s->low)
        return value > 0 ? 1 : 0;
    return bend(s->transform, clip((value - s->low) / (s->high - s->low)));
}

double attn_draw_value(const attn_draw_scale *s, double t) {
    if (two_sided(s))
        return (t < 0.5 ? s->low : s->high) * unbend(s->transform, fabs(2 * t - 1));
    return s->low + (s->high - s->low) * unbend(s->transform, t);
}

/* --- colours --- */

static unsigned digit(char c) {
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static attn_rgb entry(const attn_draw_table *table, size_t i) {
    const char *p = table->hex + 6 * i;
    return (attn_rgb){(uint8_t)(digit(p[0]) * 16 + digit(p[1])),
                      (uint8_t)(digit(p[2]) * 16 + digit(p[3])),
                      (uint8_t)(digit(p[4]) * 16 + digit(p[5]))};
}

static uint8_t blend(uint8_t a, uint8_t b, double part) {
    return (uint8_t)lrint(a + (b - a) * part);
}

static attn_rgb mix(attn_rgb a, attn_rgb b, double part) {
    return (attn_rgb){blend(a.r, b.r, part), blend(a.g, b.g, part), blend(a.b, b.b, part)};
}

static attn_rgb look_up(const attn_draw_table *table, double t) {
    double at = clip(t) * (double)(table->count - 1);
    size_t i = (size_t)at;
    if (i + 1 >= table->count)
        return entry(table, table->count - 1);
    return mix(entry(table, i), entry(table, i + 1), at - (double)i);
}

/* The halves of RdBu turned inside out around a dark grey: pale at the ends, saturated between. */
static attn_rgb dark_diverging(double t) {
    static const attn_rgb centre = {38, 41, 46};
    const attn_draw_table *table = &attn_draw_rdbu;
    double side = fabs(2 * clip(t) - 1) * 5; /* 0: the centre, then five colours */
    size_t i = (size_t)fmin(side, 4);
    size_t outer = i, inner = i > 0 ? i - 1 : 0; /* from the pale end inwards */
    if (t > 0.5) {
        outer = table->count - 1 - outer;
        inner = table->count - 1 - inner;
    }
    return mix(i == 0 ? centre : entry(table, inner), entry(table, outer), side - (double)i);
}

attn_rgb attn_draw_colour(const attn_draw_scale *s, double t) {
    const bool dark = s->theme == ATTN_THEME_DARK;
    switch (s->map) {
    case ATTN_COLORMAP_GREYS:
        return look_up(&attn_draw_greys, dark ? 1 - t : t);
    case ATTN_COLORMAP_RDBU:
        return dark ? dark_diverging(t) : look_up(&attn_draw_rdbu, t);
    case ATTN_COLORMAP_VIRIDIS:
        return look_up(&attn_draw_viridis, t);
    case ATTN_COLORMAP_CIVIDIS:
        return look_up(&attn_draw_cividis, t);
    case ATTN_COLORMAP_AUTO:
    case ATTN_COLORMAP_BLUES:
        break;
    }
    return look_up(&attn_draw_blues, dark ? 1 - t : t);
}

static double linear(uint8_t c) {
    double v = c / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

double attn_draw_luminance(attn_rgb c) {
    return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

/* (L + 0.05) / 0.05 = 1.05 / (L + 0.05) at L = 0.1791. */
attn_rgb attn_draw_ink(attn_rgb ground) {
    double l = attn_draw_luminance(ground) + 0.05;
    return l * l > 1.05 * 0.05 ? (attn_rgb){0, 0, 0} : (attn_rgb){255, 255, 255};
}

attn_rgb attn_draw_curve_colour(attn_theme theme, size_t i) {
    static const attn_rgb light[] = {{0, 114, 178},  {213, 94, 0}, {0, 128, 96},
                                     {176, 88, 140}, {32, 33, 36}, {150, 110, 0}};
    static const attn_rgb dark[] = {{86, 180, 233},  {230, 159, 0},  {0, 190, 140},
                                    {222, 150, 190}, {240, 228, 66}, {213, 120, 60}};
    const size_t count = sizeof light / sizeof light[0];
    return theme == ATTN_THEME_DARK ? dark[i % count] : light[i % count];
}
