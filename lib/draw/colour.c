/* Maps values to positions t in [0, 1] on a colour map, and positions to colours. Also chooses text
 * colours and has the colours of the themes. The tables of the colour maps are published ones:
 * evenly spaced colours, six hexadecimal digits (RRGGBB) each. Between two entries, colours are
 * interpolated in sRGB, as the programs that published the tables do. */
#include <math.h>

#include "draw/colour.h"
#include "number/digits.h"

typedef struct colour_table {
    size_t count;
    const char *hex;
} colour_table;

/* ColorBrewer 2.0 (colorbrewer2.org): Blues and Greys of 9 classes, RdBu of 11. */
static const colour_table blues = {9, "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"};
static const colour_table greys = {9, "fffffff0f0f0d9d9d9bdbdbd969696737373525252252525000000"};
static const colour_table rdbu = {
    11, "67001fb2182bd6604df4a582fddbc7f7f7f7d1e5f092c5de4393c32166ac053061"};

/* S. van der Walt and N. Smith, mpl colormaps (CC0). */
static const colour_table viridis = {
    256, "44015444025645045745055946075a46085c460a5d460b5e470d60470e61471063471164471365481467"
         "48166848176948186a481a6c481b6d481c6e481d6f481f70482071482173482374482475482576482677"
         "482878482979472a7a472c7a472d7b472e7c472f7d46307e46327e46337f463480453581453781453882"
         "443983443a83443b84433d84433e85423f854240864241864142874144874045884046883f47883f4889"
         "3e49893e4a893e4c8a3d4d8a3d4e8a3c4f8a3c508b3b518b3b528b3a538b3a548c39558c39568c38588c"
         "38598c375a8c375b8d365c8d365d8d355e8d355f8d34608d34618d33628d33638d32648e32658e31668e"
         "31678e31688e30698e306a8e2f6b8e2f6c8e2e6d8e2e6e8e2e6f8e2d708e2d718e2c718e2c728e2c738e"
         "2b748e2b758e2a768e2a778e2a788e29798e297a8e297b8e287c8e287d8e277e8e277f8e27808e26818e"
         "26828e26828e25838e25848e25858e24868e24878e23888e23898e238a8d228b8d228c8d228d8d218e8d"
         "218f8d21908d21918c20928c20928c20938c1f948c1f958b1f968b1f978b1f988b1f998a1f9a8a1e9b8a"
         "1e9c891e9d891f9e891f9f881fa0881fa1881fa1871fa28720a38620a48621a58521a68522a78522a884"
         "23a98324aa8325ab8225ac8226ad8127ad8128ae8029af7f2ab07f2cb17e2db27d2eb37c2fb47c31b57b"
         "32b67a34b67935b77937b87838b9773aba763bbb753dbc743fbc7340bd7242be7144bf7046c06f48c16e"
         "4ac16d4cc26c4ec36b50c46a52c56954c56856c66758c7655ac8645cc8635ec96260ca6063cb5f65cb5e"
         "67cc5c69cd5b6ccd5a6ece5870cf5773d05675d05477d1537ad1517cd2507fd34e81d34d84d44b86d549"
         "89d5488bd6468ed64590d74393d74195d84098d83e9bd93c9dd93ba0da39a2da37a5db36a8db34aadc32"
         "addc30b0dd2fb2dd2db5de2bb8de29bade28bddf26c0df25c2df23c5e021c8e020cae11fcde11dd0e11c"
         "d2e21bd5e21ad8e219dae319dde318dfe318e2e418e5e419e7e419eae51aece51befe51cf1e51df4e61e"
         "f6e620f8e621fbe723fde725"};

/* J. R. Nunez, C. R. Anderton, R. S. Renslow, PLOS ONE 13(7), 2018. */
static const colour_table cividis = {
    256, "00224e00234f00245100255300255400265600275800285900285b00295d002a5f002a61002b62002c64"
         "002c66002d68002e6a002e6c002f6d00306f0030700031700031710132710533710833700c34700f3570"
         "12357014367016377018376f1a386f1c396f1e3a6f203a6f213b6e233c6e243c6e263d6e273e6e293f6e"
         "2a3f6d2b406d2d416d2e416d2f426d31436d32436d33446d34456c35456c36466c38476c39486c3a486c"
         "3b496c3c4a6c3d4a6c3e4b6c3f4c6c404c6c414d6c424e6c434e6c444f6c45506c46516c47516c48526c"
         "49536c4a536c4b546c4c556c4d556c4e566c4f576c50576c51586d52596d535a6d545a6d555b6d555c6d"
         "565c6d575d6d585e6d595e6e5a5f6e5b606e5c616e5d616e5e626e5e636f5f636f60646f61656f62656f"
         "636670646770656870656870666970676a71686a71696b716a6c716b6d726c6d726c6e726d6f726e6f73"
         "6f70737071737172747272747273747374757474757575757676767777767777777878777979777a7a78"
         "7b7a787c7b787d7c787e7c787e7d787f7e78807f78817f78828079838179848279858279868379878478"
         "8885788985788a86788b87788c88788d88788e89788f8a78908b78918b78928c78928d78938e78948e77"
         "958f779690779791779892779992779a93769b94769c95769d95769e96769f9775a09875a19975a29975"
         "a39a74a49b74a59c74a69c74a79d73a89e73a99f73aaa073aba072aca172ada272aea371afa471b0a571"
         "b1a570b3a670b4a76fb5a86fb6a96fb7a96eb8aa6eb9ab6dbaac6dbbad6dbcae6cbdae6cbeaf6bbfb06b"
         "c0b16ac1b26ac2b369c3b369c4b468c5b568c6b667c7b767c8b866c9b965cbb965ccba64cdbb63cebc63"
         "cfbd62d0be62d1bf61d2c060d3c05fd4c15fd5c25ed6c35dd7c45cd9c55cdac65bdbc75adcc859ddc858"
         "dec958dfca57e0cb56e1cc55e2cd54e4ce53e5cf52e6d051e7d150e8d24fe9d34eead34cebd44bedd54a"
         "eed649efd748f0d846f1d945f2da44f3db42f5dc41f6dd3ff7de3ef8df3cf9e03afbe138fce236fde334"
         "fee434fee535fee636fee838"};

/* ATTN_LOG maps t to ln(1 + 255 t) / ln 256, as attn_heatmap_quantise does */
#define LOG_STEPS 255.0

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

/* --- positions t on a colour map --- */

static double apply_transform(attn_transform transform, double t) {
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

static double undo_transform(attn_transform transform, double t) {
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

static bool has_two_sides(const attn_draw_scale *s) {
    return s->map == ATTN_COLORMAP_RDBU && s->low < 0 && s->high > 0;
}

double attn_draw_place(const attn_draw_scale *s, double value) {
    if (has_two_sides(s)) {
        double side = value < 0 ? clip(value / s->low) : clip(value / s->high);
        return 0.5 + copysign(0.5 * apply_transform(s->transform, side), value);
    }
    if (s->high <= s->low)
        return value > 0 ? 1 : 0;
    return apply_transform(s->transform, clip((value - s->low) / (s->high - s->low)));
}

double attn_draw_value(const attn_draw_scale *s, double t) {
    if (has_two_sides(s))
        return (t < 0.5 ? s->low : s->high) * undo_transform(s->transform, fabs(2 * t - 1));
    return s->low + (s->high - s->low) * undo_transform(s->transform, t);
}

/* --- colours --- */

static attn_rgb table_colour(const colour_table *table, size_t i) {
    const char *p = table->hex + 6 * i;
    return (attn_rgb){(uint8_t)(attn_hex_digit(p[0]) * 16 + attn_hex_digit(p[1])),
                      (uint8_t)(attn_hex_digit(p[2]) * 16 + attn_hex_digit(p[3])),
                      (uint8_t)(attn_hex_digit(p[4]) * 16 + attn_hex_digit(p[5]))};
}

static uint8_t blend(uint8_t a, uint8_t b, double part) {
    return (uint8_t)lrint(a + (b - a) * part);
}

static attn_rgb mix_colours(attn_rgb a, attn_rgb b, double part) {
    return (attn_rgb){blend(a.r, b.r, part), blend(a.g, b.g, part), blend(a.b, b.b, part)};
}

static attn_rgb look_up(const colour_table *table, double t) {
    double at = clip(t) * (double)(table->count - 1);
    size_t i = (size_t)at;
    if (i + 1 >= table->count)
        return table_colour(table, table->count - 1);
    return mix_colours(table_colour(table, i), table_colour(table, i + 1), at - (double)i);
}

/* Returns the colour of RdBu in the dark theme at t: dark grey at the centre, pale at both ends.
 * For this, each half of the table is read in reverse order. */
static attn_rgb dark_diverging(double t) {
    static const attn_rgb centre = {38, 41, 46};
    const colour_table *table = &rdbu;
    /* distance from the centre: 0 is the centre, 1 … 5 the five colours of a half */
    double side = fabs(2 * clip(t) - 1) * 5;
    size_t i = (size_t)fmin(side, 4);
    size_t outer = i, inner = i > 0 ? i - 1 : 0; /* table indices, counted from the pale end */
    if (t > 0.5) {
        outer = table->count - 1 - outer;
        inner = table->count - 1 - inner;
    }
    return mix_colours(i == 0 ? centre : table_colour(table, inner), table_colour(table, outer),
                       side - (double)i);
}

attn_rgb attn_draw_colour(const attn_draw_scale *s, double t) {
    const bool dark = s->theme == ATTN_THEME_DARK;
    switch (s->map) {
    case ATTN_COLORMAP_GREYS:
        return look_up(&greys, dark ? 1 - t : t);
    case ATTN_COLORMAP_RDBU:
        return dark ? dark_diverging(t) : look_up(&rdbu, t);
    case ATTN_COLORMAP_VIRIDIS:
        return look_up(&viridis, t);
    case ATTN_COLORMAP_CIVIDIS:
        return look_up(&cividis, t);
    case ATTN_COLORMAP_AUTO:
    case ATTN_COLORMAP_BLUES:
        break;
    }
    return look_up(&blues, dark ? 1 - t : t);
}

static double linear_channel(uint8_t c) {
    double v = c / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

double attn_draw_luminance(attn_rgb c) {
    return 0.2126 * linear_channel(c.r) + 0.7152 * linear_channel(c.g) +
           0.0722 * linear_channel(c.b);
}

/* Black and white have equal contrast to a background of the luminance L = 0.1791, at which
 * (L + 0.05) / 0.05 = 1.05 / (L + 0.05). */
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
