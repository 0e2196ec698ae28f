/* The table of block formats, and widening of blocks of any of them. */
#include <string.h>

#include "kernels/block_split.h"
#include "kernels/blocks.h"

static const attn_block_format formats[] = {
    {"F32", 0, ATTN_F32, 1, 4, 1, NULL},
    {"F16", 1, ATTN_F16, 1, 2, 1, NULL},
    {"BF16", 30, ATTN_BF16, 1, 2, 1, NULL},
    {"Q4_0", 2, ATTN_F32, 32, 18, 32, split_q4_0},
    {"Q4_1", 3, ATTN_F32, 32, 20, 32, split_q4_1},
    {"Q5_0", 6, ATTN_F32, 32, 22, 32, split_q5_0},
    {"Q5_1", 7, ATTN_F32, 32, 24, 32, split_q5_1},
    {"Q8_0", 8, ATTN_F32, 32, 34, 32, split_q8_0},
    {"Q2_K", 10, ATTN_F32, 256, 84, 16, split_q2_k},
    {"Q3_K", 11, ATTN_F32, 256, 110, 16, split_q3_k},
    {"Q4_K", 12, ATTN_F32, 256, 144, 32, split_q4_k},
    {"Q5_K", 13, ATTN_F32, 256, 176, 32, split_q5_k},
    {"Q6_K", 14, ATTN_F32, 256, 210, 16, split_q6_k},
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

static void widen_block(float *to, const attn_block_format *format, const void *block) {
    int8_t q[ATTN_BLOCK_MOST];
    attn_block_head head;
    format->split(q, &head, block);
    float d[2]; /* d and dmin */
    attn_widen_f32(d, &head.d, ATTN_F16, 1, 1);
    attn_widen_f32(d + 1, &head.dmin, ATTN_F16, 1, 1);
    const size_t group = format->group;
    for (size_t g = 0; g < format->values / group; g++) {
        const float scale = d[0] * (float)head.scale[g], min = d[1] * (float)head.min[g];
        for (size_t i = g * group; i < (g + 1) * group; i++)
            to[i] = scale * (float)q[i] + min;
    }
}

void attn_blocks_widen(float *to, const attn_block_format *format, const void *blocks,
                       size_t count) {
    if (!format->split) {
        attn_widen_f32(to, blocks, format->dtype, 1, count);
        return;
    }
    const char *at = blocks;
    for (size_t i = 0; i < count; i += format->values, at += format->bytes)
        widen_block(to + i, format, at);
}
