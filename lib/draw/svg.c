/* Writes SVG. Presentation attributes are used instead of style sheets, because every SVG reader
 * supports presentation attributes. The second half of the file makes characters of labels visible,
 * measures widths and cuts texts. Widths come from a table and not from a font engine, so a figure
 * has the same layout on every machine. */
#include <math.h>
#include <string.h>

#include "draw/svg.h"

#define FAMILY "'DejaVu Sans',Verdana,'Noto Sans','WenQuanYi Micro Hei',Helvetica,Arial,sans-serif"
/* Height of the middle of lower-case letters above the base line, in ems. */
#define MIDDLE 0.35
/* Coordinates are clamped to [-FAR, FAR], far beyond the size of any figure. */
#define FAR 1e9

void attn_svg_put(attn_svg *s, const char *text) {
    attn_text_bytes(s->t, text, strlen(text));
}

void attn_svg_number(attn_svg *s, double value) {
    long long hundredths = isnan(value) ? 0 : llround(fmin(fmax(value, -FAR), FAR) * 100);
    if (hundredths < 0) {
        attn_svg_put(s, "-");
        hundredths = -hundredths;
    }
    attn_text_add(s->t, "%lld", hundredths / 100);
    int rest = (int)(hundredths % 100);
    if (rest % 10)
        attn_text_add(s->t, ".%02d", rest);
    else if (rest)
        attn_text_add(s->t, ".%d", rest / 10);
}

void attn_svg_at(attn_svg *s, const char *name, double value) {
    attn_text_add(s->t, " %s=\"", name);
    attn_svg_number(s, value);
    attn_svg_put(s, "\"");
}

void attn_svg_point(attn_svg *s, const char *before, double x, double y) {
    attn_svg_put(s, before);
    attn_svg_number(s, x);
    attn_svg_put(s, " ");
    attn_svg_number(s, y);
}

void attn_svg_box(attn_svg *s, double x, double y, double width, double height) {
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", y);
    attn_svg_at(s, "width", width);
    attn_svg_at(s, "height", height);
}

void attn_svg_fill(attn_svg *s, attn_rgb c) {
    attn_text_add(s->t, " fill=\"#%02x%02x%02x\"", c.r, c.g, c.b);
}

void attn_svg_stroke(attn_svg *s, attn_rgb c, double width) {
    attn_text_add(s->t, " stroke=\"#%02x%02x%02x\"", c.r, c.g, c.b);
    attn_svg_at(s, "stroke-width", width);
}

/* Writes character data: escapes it and replaces characters that XML forbids. If `text` is NULL,
 * because its maker ran out of memory, sets s->t->failed. */
static void put_escaped(attn_svg *s, const char *text) {
    size_t size;
    s->t->failed = s->t->failed || !text;
    for (const char *p = text ? text : ""; *p; p += size) {
        unsigned code = attn_draw_decode(p, &size);
        if (code == '<')
            attn_svg_put(s, "&lt;");
        else if (code == '>')
            attn_svg_put(s, "&gt;");
        else if (code == '&')
            attn_svg_put(s, "&amp;");
        else if (code == '"')
            attn_svg_put(s, "&quot;");
        else
            attn_draw_character(s->t, code == 0xfffe || code == 0xffff ? 0xfffd : code, p, size);
    }
}

void attn_svg_open(attn_svg *s, double width, double height, const char *title,
                   const char *description) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    attn_svg_put(s, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    attn_svg_at(s, "width", width);
    attn_svg_at(s, "height", height);
    attn_svg_point(s, " viewBox=\"0 0 ", width, height);
    attn_svg_put(s, "\" role=\"img\" aria-labelledby=\"title desc\" font-family=\"" FAMILY
                    "\" xml:space=\"preserve\">\n<title id=\"title\">");
    put_escaped(s, title);
    attn_svg_put(s, "</title>\n<desc id=\"desc\">");
    put_escaped(s, description);
    attn_svg_put(s, "</desc>\n");
    attn_svg_rect(s, 0, 0, width, height);
    attn_svg_fill(s, p->ground);
    attn_svg_end(s);
}

void attn_svg_close(attn_svg *s) {
    attn_svg_put(s, "</svg>\n");
}

void attn_svg_rect(attn_svg *s, double x, double y, double width, double height) {
    attn_svg_put(s, "<rect");
    attn_svg_box(s, x, y, width, height);
}

void attn_svg_end(attn_svg *s) {
    attn_svg_put(s, "/>\n");
}

void attn_svg_line(attn_svg *s, double x1, double y1, double x2, double y2, attn_rgb colour,
                   double width) {
    attn_svg_put(s, "<line");
    attn_svg_at(s, "x1", x1);
    attn_svg_at(s, "y1", y1);
    attn_svg_at(s, "x2", x2);
    attn_svg_at(s, "y2", y2);
    attn_svg_stroke(s, colour, width);
    attn_svg_end(s);
}

void attn_svg_text(attn_svg *s, double x, double y, const attn_svg_face *face, const char *text) {
    static const char *const anchors[] = {NULL, "middle", "end"};
    double base = y + MIDDLE * face->size;
    attn_svg_put(s, "<text");
    if (face->turn != 0) {
        /* rotate around (x, y), so that the middle of the letters stays at the anchor */
        attn_svg_point(s, " transform=\"translate(", x, y);
        attn_svg_put(s, ") rotate(");
        attn_svg_number(s, face->turn);
        attn_svg_put(s, ")\"");
        x = 0;
        base = MIDDLE * face->size;
    }
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", base);
    attn_svg_at(s, "font-size", face->size);
    if (face->bold)
        attn_svg_put(s, " font-weight=\"bold\"");
    if (anchors[face->anchor])
        attn_text_add(s->t, " text-anchor=\"%s\"", anchors[face->anchor]);
    attn_svg_fill(s, face->fill);
    attn_svg_put(s, ">");
    put_escaped(s, text);
    attn_svg_put(s, "</text>\n");
}

#define ELLIPSIS "…"
/* Widths in ems of characters that are not in the table. NARROW is for characters of one terminal
 * column (about the width of DejaVu's wide letters), WIDE for characters of two (a square). */
#define NARROW 0.66
#define WIDE   1.0
/* width of DejaVu Sans Bold divided by that of DejaVu Sans, for lower-case letters */
#define BOLD 1.13

/* Advance widths of DejaVu Sans 2.37, U+0020 to U+007E, in 1/2048 em. */
static const unsigned short advances[] = {
    651,  821,  942,  1716, 1303, 1946, 1597, 563,  799,  799,  1024, 1716, 651,  739,  651,  690,
    1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 690,  690,  1716, 1716, 1716, 1087,
    2048, 1401, 1405, 1430, 1577, 1294, 1178, 1587, 1540, 604,  604,  1343, 1141, 1767, 1532, 1612,
    1235, 1612, 1423, 1300, 1251, 1499, 1401, 2025, 1403, 1251, 1403, 799,  690,  799,  1716, 1024,
    1024, 1255, 1300, 1126, 1300, 1260, 721,  1300, 1298, 569,  569,  1186, 569,  1995, 1298, 1253,
    1300, 1300, 842,  1067, 803,  1298, 1212, 1675, 1212, 1212, 1075, 1303, 690,  1303, 1716};

static double width_in_ems(unsigned code) {
    if (code >= 0x20 && code < 0x7f)
        return advances[code - 0x20] / 2048.0;
    size_t columns = attn_draw_columns(code);
    return columns == 0 ? 0 : columns == 1 ? (code >= 0x2000 ? 0.9 : NARROW) : WIDE;
}

double attn_svg_width(const char *text, double size, bool bold) {
    double width = 0;
    size_t bytes;
    for (; *text; text += bytes)
        width += width_in_ems(attn_draw_decode(text, &bytes));
    return width * size * (bold ? BOLD : 1);
}

/* --- visible characters --- */

static bool is_blank(unsigned code) {
    return code == ' ' || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}

/* Tells whether a character is invisible and affects the direction or the line breaks of the text.
 * Joiners (U+200C, U+200D) do not count, because they are part of words. */
static bool is_format(unsigned code) {
    return code == 0xad || code == 0x200b || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || code == 0x61c;
}

/* Returns the text to show instead of a character, or NULL if the character itself is shown.
 * `at_end`: only blanks precede the character, or only blanks follow it. `token`: the text is a
 * token and not a title. */
static const char *shown_instead(unsigned code, bool at_end, bool token) {
    if (!token)
        return code == '\n' || code == '\t' || is_blank(code)   ? " "
               : is_format(code) || code < 0x20 || code == 0x7f ? "\xef\xbf\xbd"
                                                                : NULL;
    if (code == '\n')
        return "↵";
    if (code == '\t')
        return "⇥";
    if (is_blank(code))
        return at_end ? "␣" : " ";
    return is_format(code) ? "\xef\xbf\xbd" : NULL;
}

/* Returns the code point at p. attn_draw_decode replaces control characters; this function keeps
 * line ends and tabs. */
static unsigned decode_raw(const char *p, size_t *size) {
    unsigned code = attn_draw_decode(p, size);
    return *p == '\n' || *p == '\t' ? (unsigned)*p : code;
}

/* Returns the end of the last character that is not a blank, or NULL if all are blanks. */
static const char *last_ink(const char *text) {
    const char *end = NULL;
    size_t size;
    for (const char *p = text; *p; p += size)
        if (!is_blank(decode_raw(p, &size)))
            end = p + size;
    return end;
}

static const char *make_visible(attn_arena *arena, const char *text, bool token) {
    attn_text t = {.arena = arena};
    const char *end = last_ink(text);
    bool begun = false;
    size_t size;
    for (const char *p = text; *p; p += size) {
        unsigned code = decode_raw(p, &size);
        begun = begun || !is_blank(code);
        const char *glyph = shown_instead(code, !begun || p >= end, token);
        if (glyph)
            attn_text_bytes(&t, glyph, strlen(glyph));
        else
            attn_draw_character(&t, code, p, size);
    }
    if (!t.size && token)
        attn_text_bytes(&t, "∅", strlen("∅"));
    return t.failed ? NULL : t.data ? t.data : "";
}

const char *attn_svg_title(attn_arena *arena, const char *text) {
    return make_visible(arena, text, false);
}

/* --- cutting --- */

/* Returns the text if it is at most `width` pixels wide. Else returns its longest beginning that
 * fits together with a final "…". Combining marks have no width and stay with their letter. */
static const char *cut_to_width(attn_arena *arena, const char *text, const attn_svg_face *face,
                                double width) {
    if (attn_svg_width(text, face->size, face->bold) <= width)
        return text;
    double unit = face->size * (face->bold ? BOLD : 1), used = width_in_ems(0x2026) * unit;
    const char *p = text;
    size_t size;
    for (; *p; p += size) {
        used += width_in_ems(attn_draw_decode(p, &size)) * unit;
        if (used > width)
            break;
    }
    attn_text t = {.arena = arena};
    attn_text_bytes(&t, text, (size_t)(p - text));
    attn_text_bytes(&t, ELLIPSIS, strlen(ELLIPSIS));
    return t.failed ? NULL : t.data;
}

const char *attn_svg_label(attn_arena *arena, const char *token, double size, double width) {
    const attn_svg_face face = {.size = size};
    const char *shown = token ? make_visible(arena, token, true) : NULL;
    return shown ? cut_to_width(arena, shown, &face, width) : NULL;
}

const char *attn_svg_name(attn_arena *arena, const char *text, double size, double width) {
    return attn_svg_label(arena, attn_svg_title(arena, text), size, width);
}

/* Returns the end of a line that begins at p and fits into `width` pixels. The line ends at the
 * last blank that fits, or within a word if there is no blank. */
static const char *line_end(const char *p, const attn_svg_face *face, double width) {
    double unit = face->size * (face->bold ? BOLD : 1), used = 0;
    const char *blank = NULL;
    size_t size;
    for (const char *q = p; *q; q += size) {
        if (*q == ' ')
            blank = q;
        used += width_in_ems(attn_draw_decode(q, &size)) * unit;
        if (used > width)
            return blank ? blank : q > p ? q : q + size;
    }
    return p + strlen(p);
}

/* Breaks one line of a title at blanks, and stores the parts in lines[count] and the elements
 * behind it, up to `most` elements in all. Returns the new count, or -1 if memory runs out. */
static int break_line(attn_arena *arena, const char *text, const attn_svg_face *face, double width,
                      const char **lines, int count, int most) {
    const char *p = attn_svg_title(arena, text);
    while (p && *p && count < most) {
        const char *end = line_end(p, face, width);
        lines[count] = count + 1 == most ? cut_to_width(arena, p, face, width)
                                         : attn_arena_text(arena, p, (size_t)(end - p));
        if (!lines[count++])
            return -1;
        p = end + (*end == ' ');
    }
    return p ? count : -1;
}

int attn_svg_lines(attn_arena *arena, const char *text, const attn_svg_face *face, double width,
                   const char **lines, int most) {
    int count = 0;
    text += strspn(text, "\n");
    while (*text && count >= 0 && count < most) {
        const size_t size = strcspn(text, "\n");
        /* the last line gets the rest of the title, and is cut */
        const bool last = count + 1 == most || !text[size];
        const char *line = last ? text : attn_arena_text(arena, text, size);
        count = line ? break_line(arena, line, face, width, lines, count, most) : -1;
        text += last ? strlen(text) : size;
        text += strspn(text, "\n");
    }
    return count;
}
