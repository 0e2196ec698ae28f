/* The table of block formats, and a function that widens blocks of any format. */
#include <string.h>

#define SPLIT_LANES 1
#include "kernels/block_split.h"

static const attn_block_format formats[] = {
    {.name = "F32", .type = 0, .dtype = ATTN_F32, .values = 1, .bytes = 4},
    {.name = "F16", .type = 1, .dtype = ATTN_F16, .values = 1, .bytes = 2},
    {.name = "BF16", .type = 30, .dtype = ATTN_BF16, .values = 1, .bytes = 2},
#define ROW(name, type, values, bytes, group, d, dmin, subtracts, split)                           \
    {name, type, ATTN_F32, values, bytes, group, d, dmin, subtracts, split},
    ATTN_WORD_FORMATS(ROW) ATTN_SPLIT_FORMATS(ROW)
#undef ROW
};
enum { FORMATS = sizeof formats / sizeof *formats };

const attn_block_format *attn_block_format_of(uint32_t type) {
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

const attn_block_format *attn_block_format_named(const char *name) {
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static float half_at(const uint8_t *at) {
    uint16_t half;
    float x;
    memcpy(&half, at, sizeof half);
    attn_widen_f32(&x, &half, ATTN_F16, 1, 1);
    return x;
}

/* Widens numbers that may be unaligned, PIECE at a time. */
static void widen_numbers(float *to, const attn_block_format *f, const char *from, size_t count) {
    enum { PIECE = 64 };
    float piece[PIECE];
    for (size_t i = 0; i < count; i += PIECE) {
        const size_t n = count - i < PIECE ? count - i : PIECE;
        memcpy(piece, from + i * f->bytes, n * f->bytes);
        attn_widen_f32(to + i, piece, f->dtype, 1, n);
    }
}

static void widen_block(float *to, const attn_block_format *f, const uint8_t *block) {
    int8_t q[ATTN_BLOCK_MOST], scales[16] = {1}, mins[16] = {1};
    f->split(q, scales, mins, block);
    const float d = half_at(block + f->d), sign = f->subtracts ? -1.0f : 1.0f;
    for (size_t i = 0; i < f->values; i++) {
        const size_t g = i / f->group;
        const float min = f->dmin ? sign * half_at(block + f->dmin) * (float)mins[g] : -0.0f;
        to[i] = d * (float)scales[g] * (float)q[i] + min;
    }
}

void attn_blocks_widen(float *to, const attn_block_format *format, const void *blocks,
                       size_t count) {
    if (!format->split) {
        widen_numbers(to, format, blocks, count);
        return;
    }
    const uint8_t *at = blocks;
    for (size_t i = 0; i < count; i += format->values, at += format->bytes)
        widen_block(to + i, format, at);
}
