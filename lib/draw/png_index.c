/* A PNG of palette indices for the image inside of an SVG, in stored (not compressed) blocks: the
 * format's third edition (W3C 2025), RFC 1950 and 1951. Whoever sends the SVG compresses it. */
#include <string.h>

#include "draw/figure_parts.h"

#define STORED_MOST 65535 /* bytes of a stored block */

/* Bytes as base64 on their way: PNG's checksum of the open chunk, and what is left of three. */
typedef struct writer {
    attn_text *t;
    uint32_t crc, adler_a, adler_b;
    unsigned held, count;
} writer;

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_byte(writer *w, unsigned byte) {
    w->crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        w->crc = w->crc >> 1 ^ (0xedb88320u & (0u - (w->crc & 1)));
    w->held = w->held << 8 | byte;
    if (++w->count < 3)
        return;
    const char four[4] = {digits[w->held >> 18 & 63], digits[w->held >> 12 & 63],
                          digits[w->held >> 6 & 63], digits[w->held & 63]};
    attn_draw_bytes(w->t, four, 4);
    w->held = w->count = 0;
}

static void put_end(writer *w) {
    if (w->count == 0)
        return;
    const unsigned held = w->held << (w->count == 1 ? 16 : 8);
    const char four[4] = {digits[held >> 18 & 63], digits[held >> 12 & 63],
                          w->count == 2 ? digits[held >> 6 & 63] : '=', '='};
    attn_draw_bytes(w->t, four, 4);
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

/* A byte of the image, which Adler's checksum counts. */
static void put_data(writer *w, unsigned byte) {
    w->adler_a = (w->adler_a + byte) % 65521;
    w->adler_b = (w->adler_b + w->adler_a) % 65521;
    put_byte(w, byte);
}

/* A filter byte of 0 in front of each row; blocks end where they are full. */
static void put_rows(writer *w, const uint8_t *pixels, size_t R, size_t C) {
    const size_t total = R * (C + 1);
    size_t left = 0, done = 0;
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c <= C; c++, left--, done++) {
            if (left == 0) {
                left = total - done < STORED_MOST ? total - done : STORED_MOST;
                put_byte(w, left == total - done); /* the last block's mark */
                put_byte(w, left & 255);
                put_byte(w, (unsigned)(left >> 8));
                put_byte(w, ~(unsigned)left & 255);
                put_byte(w, (~(unsigned)left >> 8) & 255);
            }
            put_data(w, c == 0 ? 0 : pixels[r * C + c - 1]);
        }
}

void attn_png_index(attn_text *t, const uint8_t *pixels, size_t R, size_t C,
                    const attn_rgb palette[256], const uint8_t alpha[256]) {
    static const unsigned char signature[] = {137, 'P', 'N', 'G', '\r', '\n', 26, '\n'};
    const size_t data = R * (C + 1), blocks = (data + STORED_MOST - 1) / STORED_MOST;
    writer w = {.t = t, .adler_a = 1};
    for (size_t i = 0; i < sizeof signature; i++)
        put_byte(&w, signature[i]);
    open_chunk(&w, 13, "IHDR");
    put_word(&w, (uint32_t)C);
    put_word(&w, (uint32_t)R);
    put_word(&w, 0x08030000u); /* 8 bits of palette, the only compression and filters, */
    put_byte(&w, 0);           /* not interlaced */
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
    put_byte(&w, 0x78); /* zlib: deflate, */
    put_byte(&w, 0x01); /* fastest, no dictionary */
    put_rows(&w, pixels, R, C);
    put_word(&w, w.adler_b << 16 | w.adler_a);
    close_chunk(&w);
    open_chunk(&w, 0, "IEND");
    close_chunk(&w);
    put_end(&w);
}
