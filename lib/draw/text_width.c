/* The width of UTF-8 text in terminal columns. */
#include <string.h>

#include "draw/draw.h"

unsigned attn_draw_decode(const char *p, size_t *size) {
    const unsigned char *b = (const unsigned char *)p;
    static const unsigned smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = b[0] < 0x80 ? 1 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : b[0] >= 0xc0 ? 2 : 0;
    unsigned code = n == 1 ? b[0] : n ? b[0] & (0xffu >> (n + 1)) : 0;
    *size = 1;
    if (!n || b[0] > 0xf7)
        return 0xfffd;
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0xfffd;
        code = code << 6 | (b[i] & 0x3f);
    }
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
    if (n > 1 && (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
        return 0xfffd;
    *size = n;
    return control ? 0xfffd : code;
}

void attn_draw_character(attn_text *t, unsigned code, const char *p, size_t size) {
    if (code == 0xfffd)
        attn_text_bytes(t, "\xef\xbf\xbd", 3);
    else
        attn_text_bytes(t, p, size);
}

typedef struct code_range {
    unsigned first, last;
} code_range;

/* Combining marks, joiners, direction marks and variation selectors: 0 columns. */
static const code_range combining[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489},   {0x0591, 0x05bd},   {0x05bf, 0x05c7}, {0x0610, 0x061a},
    {0x064b, 0x065f}, {0x0670, 0x0670},   {0x06d6, 0x06dc},   {0x06df, 0x06e4}, {0x06e7, 0x06e8},
    {0x06ea, 0x06ed}, {0x0900, 0x0902},   {0x093a, 0x093a},   {0x093c, 0x093c}, {0x0941, 0x0948},
    {0x094d, 0x094d}, {0x0e31, 0x0e31},   {0x0e34, 0x0e3a},   {0x0e47, 0x0e4e}, {0x1160, 0x11ff},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x200b, 0x200f},   {0x202a, 0x202e}, {0x2060, 0x2069},
    {0x20d0, 0x20f0}, {0x302a, 0x302d},   {0x3099, 0x309a},   {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0001, 0xe01ef},
};
/* East Asian wide and full-width characters, and emoji: 2 columns in terminals. */
static const code_range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
    {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x274c, 0x274c},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
    {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97c},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff}, {0x1f200, 0x1f64f}, {0x1f680, 0x1f6ff},
    {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

static bool within(const code_range *ranges, size_t count, unsigned code) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low].first;
}

size_t attn_draw_columns(unsigned code) {
    if (within(combining, sizeof combining / sizeof *combining, code))
        return 0;
    return within(wide, sizeof wide / sizeof *wide, code) ? 2 : 1;
}

size_t attn_draw_width(const char *text) {
    size_t width = 0;
    for (size_t size; *text; text += size)
        width += attn_draw_columns(attn_draw_decode(text, &size));
    return width;
}

void attn_draw_cut(attn_text *t, const char *text, size_t width) {
    bool whole = attn_draw_width(text) <= width;
    size_t room = whole ? width : width ? width - 1 : 0, used = 0;
    for (size_t size; *text; text += size) {
        unsigned code = attn_draw_decode(text, &size);
        used += attn_draw_columns(code);
        if (used > room)
            break;
        attn_draw_character(t, code, text, size);
    }
    if (!whole && width)
        attn_text_bytes(t, "…", strlen("…"));
}
