/* Makes the PNG of a whole figure, which librsvg draws from the SVG. No other file uses librsvg,
 * which depends on cairo, Pango and GLib. librsvg is loaded when the first PNG is drawn (library.h).
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
#include "draw/emoji.h"
#include "draw/library.h"

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
