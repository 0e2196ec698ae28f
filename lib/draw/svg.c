/* The SVG writer. Presentation attributes instead of style sheets: every program that reads SVG
 * knows them. */
#include "draw/svg.h"

#include <math.h>
#include <string.h>

#define FAMILY "'DejaVu Sans',Verdana,'Noto Sans','WenQuanYi Micro Hei',Helvetica,Arial,sans-serif"
/* The middle of lower-case letters above the base line, in ems. */
#define MIDDLE 0.35
/* Coordinates beyond this are cut: nothing drawn is that large. */
#define FAR 1e9

static void put(attn_svg *s, const char *text) {
    attn_draw_bytes(s->t, text, strlen(text));
}

void attn_svg_number(attn_svg *s, double value) {
    long long hundredths = isnan(value) ? 0 : llround(fmin(fmax(value, -FAR), FAR) * 100);
    if (hundredths < 0) {
        put(s, "-");
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
    put(s, "\"");
}

void attn_svg_fill(attn_svg *s, attn_rgb c) {
    attn_text_add(s->t, " fill=\"#%02x%02x%02x\"", c.r, c.g, c.b);
}

void attn_svg_stroke(attn_svg *s, attn_rgb c, double width) {
    attn_text_add(s->t, " stroke=\"#%02x%02x%02x\"", c.r, c.g, c.b);
    attn_svg_at(s, "stroke-width", width);
}

void attn_svg_escaped(attn_svg *s, const char *text) {
    size_t size;
    s->t->failed = s->t->failed || !text;
    for (const char *p = text ? text : ""; *p; p += size) {
        unsigned code = attn_draw_decode(p, &size);
        if (code == '<')
            put(s, "&lt;");
        else if (code == '>')
            put(s, "&gt;");
        else if (code == '&')
            put(s, "&amp;");
        else if (code == '"')
            put(s, "&quot;");
        else if (code == 0xfffd || code == 0xfffe || code == 0xffff)
            put(s, "\xef\xbf\xbd");
        else
            attn_draw_bytes(s->t, p, size);
    }
}

void attn_svg_open(attn_svg *s, double width, double height, const char *title,
                   const char *description) {
    const attn_draw_palette *p = attn_draw_palette_of(s->theme);
    put(s, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    attn_svg_at(s, "width", width);
    attn_svg_at(s, "height", height);
    put(s, " viewBox=\"0 0 ");
    attn_svg_number(s, width);
    put(s, " ");
    attn_svg_number(s, height);
    put(s, "\" role=\"img\" aria-labelledby=\"title desc\" font-family=\"" FAMILY
           "\" xml:space=\"preserve\">\n<title id=\"title\">");
    attn_svg_escaped(s, title);
    put(s, "</title>\n<desc id=\"desc\">");
    attn_svg_escaped(s, description);
    put(s, "</desc>\n");
    attn_svg_rect(s, 0, 0, width, height);
    attn_svg_fill(s, p->ground);
    attn_svg_end(s);
}

void attn_svg_close(attn_svg *s) {
    put(s, "</svg>\n");
}

void attn_svg_rect(attn_svg *s, double x, double y, double width, double height) {
    put(s, "<rect");
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", y);
    attn_svg_at(s, "width", width);
    attn_svg_at(s, "height", height);
}

void attn_svg_end(attn_svg *s) {
    put(s, "/>\n");
}

void attn_svg_line(attn_svg *s, double x1, double y1, double x2, double y2, attn_rgb colour,
                   double width) {
    put(s, "<line");
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
    put(s, "<text");
    if (face->turn != 0) {
        /* turned around (x, y), so that the middle of the line stays on the anchor */
        put(s, " transform=\"translate(");
        attn_svg_number(s, x);
        put(s, " ");
        attn_svg_number(s, y);
        put(s, ") rotate(");
        attn_svg_number(s, face->turn);
        put(s, ")\"");
        x = 0;
        base = MIDDLE * face->size;
    }
    attn_svg_at(s, "x", x);
    attn_svg_at(s, "y", base);
    attn_svg_at(s, "font-size", face->size);
    if (face->bold)
        put(s, " font-weight=\"bold\"");
    if (anchors[face->anchor])
        attn_text_add(s->t, " text-anchor=\"%s\"", anchors[face->anchor]);
    attn_svg_fill(s, face->fill);
    put(s, ">");
    attn_svg_escaped(s, text);
    put(s, "</text>\n");
}
