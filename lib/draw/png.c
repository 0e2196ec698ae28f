/* SVG -> PNG by librsvg, the only file that knows it. The library, which brings cairo, Pango and
 * GLib, is looked up when a PNG is asked for (library.h). Its own memory does not go through the
 * allocator's hook, so a share of the arena is set aside for it before it starts. */
#include <dlfcn.h>
#include <librsvg/rsvg.h>
#include <stdio.h>
#include <string.h>

#include "attn/figure.h"
#include "draw/draw.h"
#include "draw/emoji.h"
#include "draw/library.h"

#define LIBRARY "librsvg-2.so.2"
/* Bytes that a parsed document takes for each byte of SVG: an element of 60 bytes takes 2.5 KB. */
#define PARSED_BYTES 48
/* Bytes of the copy of the SVG without its lines of emoji (emoji.h), for each byte of it. */
#define COPIED_BYTES 1
#define PIXEL_BYTES  4
/* Bytes of the PNG that a pixel takes as a rule. */
#define PACKED_BYTES 1

/* What is called, with the types of the library's own headers. */
typedef struct renderer {
    __typeof__(rsvg_handle_new_from_data) *parse;
    __typeof__(rsvg_handle_get_intrinsic_size_in_pixels) *measure;
    __typeof__(rsvg_handle_render_document) *render;
    __typeof__(cairo_image_surface_create_for_data) *surface;
    __typeof__(cairo_surface_destroy) *surface_free;
    __typeof__(cairo_surface_write_to_png_stream) *write;
    __typeof__(cairo_create) *context;
    __typeof__(cairo_destroy) *context_free;
    __typeof__(g_object_unref) *unref;
    __typeof__(g_error_free) *error_free;
} renderer;

static attn_status load(renderer *r, attn_error *err) {
    const attn_symbol symbols[] = {
        {"rsvg_handle_new_from_data", &r->parse},
        {"rsvg_handle_get_intrinsic_size_in_pixels", &r->measure},
        {"rsvg_handle_render_document", &r->render},
        {"cairo_image_surface_create_for_data", &r->surface},
        {"cairo_surface_destroy", &r->surface_free},
        {"cairo_surface_write_to_png_stream", &r->write},
        {"cairo_create", &r->context},
        {"cairo_destroy", &r->context_free},
        {"g_object_unref", &r->unref},
        {"g_error_free", &r->error_free},
    };
    if (attn_library_load(LIBRARY, symbols, sizeof symbols / sizeof symbols[0]))
        return ATTN_OK;
    const char *why = dlerror();
    return attn_fail(err, ATTN_EUNSUPPORTED, "",
                     "image/png is drawn by librsvg 2.52 or later, which cannot be loaded here "
                     "(%.200s); image/svg+xml needs no library",
                     why ? why : LIBRARY);
}

/* Cairo hands the PNG over in parts, which go to the end of the text. */
static cairo_status_t keep(void *closure, const unsigned char *bytes, unsigned int n) {
    attn_text *t = closure;
    attn_draw_bytes(t, (const char *)bytes, n);
    return t->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the pixels of a picture");
}

static attn_status failed(const renderer *r, GError *why, attn_error *err) {
    attn_fail(err, ATTN_EUNSUPPORTED, "", "librsvg cannot draw the picture: %.300s",
              why ? why->message : "it does not say why");
    if (why)
        r->error_free(why);
    return ATTN_EUNSUPPORTED;
}

/* Is the scale above 0, and is the picture within ATTN_PNG_PIXELS? */
static attn_status check(double width, double height, double scale, attn_error *err) {
    if (!(scale > 0))
        return attn_fail(err, ATTN_EARG, "scale", "expected a scale above 0, found %g", scale);
    if (width * scale * height * scale > ATTN_PNG_PIXELS)
        return attn_fail(err, ATTN_ELIMIT, "scale",
                         "%.0f x %.0f at scale %g are %.3g pixels; at most %.3g are drawn: choose "
                         "a smaller scale, fewer cells or fewer panels",
                         width, height, scale, width * scale * height * scale, ATTN_PNG_PIXELS);
    return ATTN_OK;
}

attn_status attn_figure_png_cost(const attn_text *svg, double scale, size_t *bytes,
                                 attn_error *err) {
    double width, height; /* attn_svg_open writes them first */
    if (sscanf(svg->data, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lf\" height=\"%lf\"",
               &width, &height) != 2)
        return attn_fail(err, ATTN_EARG, "", "this is no SVG of a figure");
    attn_status status = check(width, height, scale, err);
    if (!status)
        *bytes =
            svg->size * (PARSED_BYTES + COPIED_BYTES) +
            (size_t)((PIXEL_BYTES + PACKED_BYTES) * (width * scale + 1) * (height * scale + 1));
    return status;
}

/* The picture's width and height in pixels, which check() has passed. */
static attn_status measure(const renderer *r, RsvgHandle *handle, double scale, size_t size[2],
                           attn_error *err) {
    double width = 0, height = 0;
    if (!r->measure(handle, &width, &height) || !(width > 0) || !(height > 0))
        return failed(r, NULL, err);
    attn_status status = check(width, height, scale, err);
    if (status)
        return status;
    size[0] = (size_t)(width * scale + 0.5);
    size[1] = (size_t)(height * scale + 0.5);
    return ATTN_OK;
}

static attn_status paint(const renderer *r, RsvgHandle *handle, const size_t size[2],
                         const attn_emoji_line *lines, double scale, attn_arena *arena,
                         attn_text *png, attn_error *err) {
    const int width = (int)size[0], height = (int)size[1];
    const RsvgRectangle page = {0, 0, width, height};
    GError *why = NULL;
    attn_status status = ATTN_OK;
    /* Cairo wants rows that begin at multiples of 4 bytes: those of whole pixels do. */
    unsigned char *pixels = attn_arena_zeroed(arena, size[0] * size[1], PIXEL_BYTES);
    if (!pixels)
        return no_memory(err);
    cairo_surface_t *surface =
        r->surface(pixels, CAIRO_FORMAT_RGB24, width, height, PIXEL_BYTES * width);
    cairo_t *context = r->context(surface);
    if (!r->render(handle, context, &page, &why))
        status = failed(r, why, err);
    if (!status)
        attn_emoji_draw(lines, context, scale);
    if (!status && r->write(surface, keep, png) != CAIRO_STATUS_SUCCESS)
        status = no_memory(err);
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
    attn_status status = load(&r, err);
    if (status)
        return status;
    /* What librsvg allocates does not come from the arena: its share is only kept free there. */
    void *reserved =
        attn_size_mul(svg->size, PARSED_BYTES, &parsed) ? attn_arena_take(arena, parsed) : NULL;
    attn_emoji_line *lines = attn_emoji_take(svg, arena, &rest);
    if (!reserved || rest.failed)
        return no_memory(err);
    handle = r.parse((const guint8 *)rest.data, rest.size, &why);
    if (!handle)
        return failed(&r, why, err);
    status = measure(&r, handle, scale, size, err);
    if (!status)
        status = paint(&r, handle, size, lines, scale, arena, &out, err);
    r.unref(handle);
    if (status)
        return status;
    *png = out.data;
    *bytes = out.size;
    return ATTN_OK;
}
