/* Colour maps as they were published. */
#ifndef ATTN_DRAW_COLOUR_TABLES_H
#define ATTN_DRAW_COLOUR_TABLES_H

#include <stddef.h>

typedef struct attn_draw_table {
    size_t count;
    const char *hex;
} attn_draw_table;

extern const attn_draw_table attn_draw_blues, attn_draw_greys, attn_draw_rdbu, attn_draw_viridis,
    attn_draw_cividis;

#endif
