/* Makes the PNG of an image of cells, inside an SVG or alone: palette indices in stored
 * (uncompressed) deflate blocks (W3C PNG third edition, 2025; RFC 1950 and 1951). The HTTP reply
 * may compress it as a whole. */
#include <math.h>
#include <string.h>

#include "attn/figure.h"
#include "base/try.h"
#include "draw/draw.h"
#include "draw/figure_parts.h"
#include "number/base64.h"

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
