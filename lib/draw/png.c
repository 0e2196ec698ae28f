/* Makes PNGs in two ways.
 *
 * An image of cells, inside an SVG or alone, is written by this file: palette indices in stored
 * (uncompressed) deflate blocks (W3C PNG third edition, 2025; RFC 1950 and 1951). The HTTP reply
 * may compress it as a whole.
 *
 * The PNG of a whole figure is drawn by librsvg from the SVG. No other file uses librsvg, which
 * depends on cairo, Pango and GLib. librsvg is loaded when the first PNG is drawn (library.h).
 * librsvg does not allocate from the arena. So a block as large as the memory of librsvg is
 * reserved in the arena, whose limit then includes this memory. */
#include <dlfcn.h>
#include <fontconfig/fontconfig.h>
#include <librsvg/rsvg.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/figure.h"
#include "base/try.h"
#include "draw/draw.h"
#include "draw/emoji.h"
#include "draw/figure_parts.h"
#include "draw/library.h"
#include "number/base64.h"

/* --- an image of cells --- */

#define STORED_MOST 65535 /* largest stored block of deflate, bytes */

/* State while an image is written. `held` has `count` bytes that are not yet written. If `base64`,
 * bytes are written as base64. `crc` is the checksum of the current PNG chunk; adler_a and adler_b
 * are the checksum of the zlib data. */
typedef struct writer {
    attn_text *t;
    uint32_t crc, adler_a, adler_b;
    uint8_t held[3];
    size_t count;
    bool base64;
} writer;

static void put_held(writer *w) {
    char four[4];
    if (!w->base64)
        attn_text_bytes(w->t, (const char *)w->held, w->count);
    else
        attn_text_bytes(w->t, four, (size_t)(attn_base64_encode(four, w->held, w->count) - four));
    w->count = 0;
}

static void put_byte(writer *w, unsigned byte) {
    w->crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        w->crc = w->crc >> 1 ^ (0xedb88320u & (0u - (w->crc & 1)));
    w->held[w->count++] = (uint8_t)byte;
    if (w->count == sizeof w->held)
        put_held(w);
}

static void put_word(writer *w, uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(w, word >> shift & 255);
}

static void open_chunk(writer *w, size_t size, const char *name) {
    put_word(w, (uint32_t)size);
    w->crc = 0xffffffffu;
    for (int i = 0; i < 4; i++)
        put_byte(w, (unsigned char)name[i]);
}

static void close_chunk(writer *w) {
    put_word(w, ~w->crc);
}

/* Writes a byte of image data and adds it to the Adler-32 checksum. */
static void put_data(writer *w, unsigned byte) {
    w->adler_a = (w->adler_a + byte) % 65521;
    w->adler_b = (w->adler_b + w->adler_a) % 65521;
    put_byte(w, byte);
}

/* Writes the image data in stored blocks of at most STORED_MOST bytes. Each row begins with a byte
 * 0, the filter type of rows without a filter. */
static void put_rows(writer *w, const uint8_t *pixels, size_t R, size_t C) {
    const size_t total = R * (C + 1);
    size_t left = 0, done = 0;
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c <= C; c++, left--, done++) {
            if (left == 0) {
                left = total - done < STORED_MOST ? total - done : STORED_MOST;
                put_byte(w, left == total - done); /* 1 marks the last block */
                put_byte(w, left & 255);
                put_byte(w, (unsigned)(left >> 8));
                put_byte(w, ~(unsigned)left & 255);
                put_byte(w, (~(unsigned)left >> 8) & 255);
            }
            put_data(w, c == 0 ? 0 : pixels[r * C + c - 1]);
        }
}

static void write_image(writer w, const uint8_t *pixels, size_t R, size_t C,
                        const attn_rgb palette[256], const uint8_t alpha[256]) {
    static const unsigned char signature[] = {137, 'P', 'N', 'G', '\r', '\n', 26, '\n'};
    const size_t data = R * (C + 1), blocks = (data + STORED_MOST - 1) / STORED_MOST;
    for (size_t i = 0; i < sizeof signature; i++)
        put_byte(&w, signature[i]);
    open_chunk(&w, 13, "IHDR");
    put_word(&w, (uint32_t)C);
    put_word(&w, (uint32_t)R);
    put_word(&w, 0x08030000u); /* bit depth 8, colour type 3 (palette), compression 0, filter 0 */
    put_byte(&w, 0);           /* interlace 0 (none) */
    close_chunk(&w);
    open_chunk(&w, 768, "PLTE");
    for (size_t i = 0; i < 256; i++) {
        put_byte(&w, palette[i].r);
        put_byte(&w, palette[i].g);
        put_byte(&w, palette[i].b);
    }
    close_chunk(&w);
    open_chunk(&w, 256, "tRNS");
    for (size_t i = 0; i < 256; i++)
        put_byte(&w, alpha[i]);
    close_chunk(&w);
    open_chunk(&w, 2 + 5 * blocks + data + 4, "IDAT");
    put_byte(&w, 0x78); /* zlib header: deflate with a 32 KB window */
    put_byte(&w, 0x01); /* fastest level, no dictionary; the two bytes must be a multiple of 31 */
    put_rows(&w, pixels, R, C);
    put_word(&w, w.adler_b << 16 | w.adler_a);
    close_chunk(&w);
    open_chunk(&w, 0, "IEND");
    close_chunk(&w);
    put_held(&w);
}

void attn_png_index(attn_text *t, const uint8_t *pixels, size_t R, size_t C,
                    const attn_rgb palette[256], const uint8_t alpha[256]) {
    write_image((writer){.t = t, .adler_a = 1, .base64 = true}, pixels, R, C, palette, alpha);
}

attn_status attn_figure_cells_png(const uint8_t *codes, size_t rows, size_t cols,
                                  const double places[256], attn_colormap map, attn_arena *arena,
                                  const void **png, size_t *bytes, attn_error *err) {
    const attn_draw_scale scale = {.map = map == ATTN_COLORMAP_AUTO ? ATTN_COLORMAP_BLUES : map};
    attn_text text = {.arena = arena};
    attn_rgb palette[256];
    uint8_t alpha[256];
    for (size_t i = 0; i < 256; i++) {
        const bool seen = !isnan(places[i]);
        palette[i] = seen ? attn_draw_colour(&scale, places[i]) : (attn_rgb){0, 0, 0};
        alpha[i] = seen ? 255 : 0;
    }
    write_image((writer){.t = &text, .adler_a = 1}, codes, rows, cols, palette, alpha);
    ATTN_TAKEN(!text.failed, "the picture", err);
    *png = text.data;
    *bytes = text.size;
    return ATTN_OK;
}

/* --- a whole figure as a PNG --- */

#define LIBRARY "librsvg-2.so.2"
/* Memory of librsvg for a parsed document, in bytes for each byte of SVG. Measured: 2.5 KB for an
 * element of 60 bytes. */
#define PARSED_BYTES 48
/* Memory of the copy without emoji lines (emoji.h), in bytes for each byte of SVG. */
#define COPIED_BYTES 1
#define PIXEL_BYTES  4
/* Typical bytes of the compressed PNG for each pixel. */
#define PACKED_BYTES 1

/* The functions of librsvg and cairo that this file calls. */
#define FUNCTIONS(ITEM)                                                                            \
    ITEM(parse, rsvg_handle_new_from_data)                                                         \
    ITEM(measure, rsvg_handle_get_intrinsic_size_in_pixels)                                        \
    ITEM(render, rsvg_handle_render_document)                                                      \
    ITEM(surface, cairo_image_surface_create_for_data)                                             \
    ITEM(surface_free, cairo_surface_destroy)                                                      \
    ITEM(write, cairo_surface_write_to_png_stream)                                                 \
    ITEM(context, cairo_create)                                                                    \
    ITEM(context_free, cairo_destroy)                                                              \
    ITEM(unref, g_object_unref)                                                                    \
    ITEM(error_free, g_error_free)

typedef struct renderer {
    FUNCTIONS(ATTN_LIBRARY_MEMBER)
} renderer;

static attn_status load(renderer *to, attn_error *err) {
    const attn_symbol symbols[] = {FUNCTIONS(ATTN_LIBRARY_SYMBOL)};
    if (attn_library_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0]))
        return ATTN_OK;
    const char *why = dlerror();
    return attn_fail(err, ATTN_EUNSUPPORTED, "",
                     "image/png is drawn by librsvg 2.52 or later, which cannot be loaded here "
                     "(%.200s); image/svg+xml needs no library",
                     why ? why : LIBRARY);
}

bool attn_figure_has_fonts(void) {
    __typeof__(FcConfigGetFonts) *fonts;
    const attn_symbol symbol = {"FcConfigGetFonts", &fonts}; /* librsvg depends on fontconfig */
    if (!attn_library_load(LIBRARY, &symbol, 1))
        return true;
    const FcFontSet *system = fonts(NULL, FcSetSystem), *program = fonts(NULL, FcSetApplication);
    return (system && system->nfont) || (program && program->nfont);
}

/* Called by cairo for each part of the PNG: appends the bytes to the text `closure`. */
static cairo_status_t append_png(void *closure, const unsigned char *bytes, unsigned int n) {
    attn_text *t = closure;
    attn_text_bytes(t, (const char *)bytes, n);
    return t->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static attn_status fail_drawing(const renderer *r, GError *why, attn_error *err) {
    attn_fail(err, ATTN_EUNSUPPORTED, "", "librsvg cannot draw the picture: %.300s",
              why ? why->message : "it does not say why");
    if (why)
        r->error_free(why);
    return ATTN_EUNSUPPORTED;
}

/* Checks that `scale` is above 0 and that the picture has at most ATTN_PNG_PIXELS pixels. width and
 * height are in units of the SVG. */
static attn_status check_scale(double width, double height, double scale, attn_error *err) {
    if (!(scale > 0))
        return attn_fail(err, ATTN_EARG, "scale", "expected a scale above 0, found %g", scale);
    if (width * scale * height * scale > ATTN_PNG_PIXELS)
        return attn_fail_limit(
            err, "scale", ATTN_PNG_PIXELS,
            "%.0f x %.0f at scale %g are %.3g pixels; at most %.3g are drawn: choose "
            "a smaller scale, fewer cells or fewer panels",
            width, height, scale, width * scale * height * scale, ATTN_PNG_PIXELS);
    return ATTN_OK;
}

attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err) {
    /* in units of the SVG; attn_svg_open writes both at the start of the SVG */
    double width, height;
    if (sscanf(svg->data, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lf\" height=\"%lf\"",
               &width, &height) != 2)
        return attn_fail(err, ATTN_EARG, "", "this is no SVG of a figure");
    attn_status status = check_scale(width, height, scale, err);
    if (!status)
        *bytes =
            svg->size * (PARSED_BYTES + COPIED_BYTES) +
            (size_t)((PIXEL_BYTES + PACKED_BYTES) * (width * scale + 1) * (height * scale + 1));
    return status;
}

/* Checks the scale (check_scale) and stores the width and height of the picture in pixels in
 * `size`. */
static attn_status measure_pixels(const renderer *r, RsvgHandle *handle, double scale,
                                  size_t size[2], attn_error *err) {
    double width = 0, height = 0;
    if (!r->measure(handle, &width, &height) || !(width > 0) || !(height > 0))
        return fail_drawing(r, NULL, err);
    ATTN_TRY(check_scale(width, height, scale, err));
    size[0] = (size_t)(width * scale + 0.5);
    size[1] = (size_t)(height * scale + 0.5);
    return ATTN_OK;
}

static attn_status paint_picture(const renderer *r, RsvgHandle *handle, const size_t size[2],
                                 const attn_emoji_line *lines, double scale, attn_arena *arena,
                                 attn_text *png, attn_error *err) {
    const int width = (int)size[0], height = (int)size[1];
    const RsvgRectangle page = {0, 0, width, height};
    GError *why = NULL;
    attn_status status = ATTN_OK;
    /* Cairo needs rows that begin at multiples of 4 bytes, which rows of 4-byte pixels do. */
    unsigned char *pixels = attn_arena_zeroed(arena, size[0] * size[1], PIXEL_BYTES);
    ATTN_TAKEN(pixels, "the pixels of a picture", err);
    cairo_surface_t *surface =
        r->surface(pixels, CAIRO_FORMAT_RGB24, width, height, PIXEL_BYTES * width);
    cairo_t *context = r->context(surface);
    if (!r->render(handle, context, &page, &why))
        status = fail_drawing(r, why, err);
    if (!status)
        attn_emoji_draw(lines, context, scale);
    if (!status && r->write(surface, append_png, png) != CAIRO_STATUS_SUCCESS)
        status = attn_no_memory(err, "the pixels of a picture");
    r->context_free(context);
    r->surface_free(surface);
    return status;
}

attn_status attn_figure_png(const attn_text *svg, double scale, attn_arena *arena, const void **png,
                            size_t *bytes, attn_error *err) {
    renderer r;
    RsvgHandle *handle = NULL;
    GError *why = NULL;
    size_t size[2] = {0, 0}, parsed;
    attn_text out = {.arena = arena}, rest;
    ATTN_TRY(load(&r, err));
    /* This block is not used. It is as large as the memory of librsvg, which does not allocate from
     * the arena. */
    void *reserved =
        attn_size_mul(svg->size, PARSED_BYTES, &parsed) ? attn_arena_take(arena, parsed) : NULL;
    attn_emoji_line *lines = attn_emoji_take(svg, arena, &rest);
    ATTN_TAKEN(reserved && !rest.failed, "the pixels of a picture", err);
    handle = r.parse((const guint8 *)rest.data, rest.size, &why);
    if (!handle)
        return fail_drawing(&r, why, err);
    attn_status status = measure_pixels(&r, handle, scale, size, err);
    if (!status)
        status = paint_picture(&r, handle, size, lines, scale, arena, &out, err);
    r.unref(handle);
    if (status)
        return status;
    *png = out.data;
    *bytes = out.size;
    return ATTN_OK;
}
