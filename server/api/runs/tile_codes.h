/* Converts the cells of tiles to bytes and to PNG. server/wire/README.md has the formulas for
 * clients. */
#ifndef SRV_TILE_CODES_H
#define SRV_TILE_CODES_H

#include <attn/attn.h>

/* The transforms from cells to codes. The first three are those of attn_transform. */
typedef enum srv_tile_transform {
    SRV_TILE_LINEAR,
    SRV_TILE_SQRT,
    SRV_TILE_LOG,
    SRV_TILE_DECADES
} srv_tile_transform;
extern const char *const srv_tile_transforms[]; /* the names of the transforms */

/* The scale of a plane. `range` is [-m, m] for differences. */
typedef struct srv_tile_scale {
    float range[2];
    srv_tile_transform transform; /* differences never have DECADES */
    bool differs;                 /* the cells are differences */
} srv_tile_scale;

/* Converts n cells to codes: 0 for a hidden cell (-infinity), 1 … 255 for a visible cell. */
void srv_tile_codes(uint8_t *to, const float *cells, size_t n, const srv_tile_scale *scale);
/* Makes a PNG of codes [shape], with one pixel for each code. Hidden cells are transparent. Error:
 * ATTN_ENOMEM. */
attn_status srv_tile_png(const uint8_t *codes, const size_t shape[2], const srv_tile_scale *scale,
                         attn_colormap map, attn_arena *arena, const void **png, size_t *bytes,
                         attn_error *err);

#endif
