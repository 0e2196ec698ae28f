/* Products with quantised blocks (kernels/blocks.h) for the float kernels. simd_body.h includes
 * this file. simd_words.h has the simplest formats. For the other formats, one block of each of
 * LANES rows is handled at a time, and rows become lanes:
 *
 *   transpose   bytes of the blocks [LANES][bytes] -> [bytes][LANES]
 *   split       -> q [values][LANES], and vectors of a scale and a min for each group
 *   widen       LANES numbers q -> a vector of weights, scale * q + min
 *
 * The weights then have the layout that pack_columns gives to widened rows. They are stored to a
 * panel, or multiplied by few rows of x while they are in registers. */

#include "kernels/x86/simd_words.h"

/* PIECE: bytes that are transposed at a time. MOST_BYTES: bytes of the largest block. */
enum { PIECE = 16, MOST_BYTES = 210 };

typedef struct split_rows {
    _Alignas(64) int8_t q[ATTN_BLOCK_MOST * LANES];
    _Alignas(64) float scale[16][LANES], min[16][LANES]; /* [group][lane] */
} split_rows;

/* Transposes a block of each of LANES rows, and prefetches the rows that come PW rows later. The
 * last piece overlaps the one before it. */
INLINE void transpose_blocks(uint8_t *to, const uint8_t *rows, size_t ld, size_t bytes) {
    for (size_t j = 0; j < LANES; j++)
        __builtin_prefetch(rows + (PW + j) * ld, 0, 2);
    for (size_t i = 0; i < bytes; i += PIECE) {
        const size_t at = bytes - i < PIECE ? bytes - PIECE : i;
        transpose_bytes(to + at * LANES, rows + at, ld);
    }
}

/* Splits one block of each of n rows. If n < LANES, the last row also fills the remaining lanes. */
INLINE void split_lanes(split_rows *to, const uint8_t *blocks, size_t ld, size_t n,
                        const attn_block_format *f,
                        void (*split)(int8_t *, int8_t *, int8_t *, const uint8_t *)) {
    _Alignas(64) uint8_t rows[LANES * MOST_BYTES], block[MOST_BYTES * LANES];
    _Alignas(64) int8_t scales[16 * LANES], mins[16 * LANES];
    for (size_t j = 0; n < LANES && j < LANES; j++)
        memcpy(rows + j * f->bytes, blocks + (j < n ? j : n - 1) * ld, f->bytes);
    if (n < LANES)
        transpose_blocks(block, rows, f->bytes, f->bytes);
    else
        transpose_blocks(block, blocks, ld, f->bytes);
    split(to->q, scales, mins, block);
    const vf d = vwiden_pairs(block + f->d * LANES), zero = vset(-0.0f),
             dmin = f->dmin ? vwiden_pairs(block + f->dmin * LANES) : zero,
             sign = f->subtracts ? vset(-1.0f) : vset(1.0f);
    for (size_t g = 0; g < f->values / f->group; g++) {
        const bool one = f->group == f->values;
        vstore(to->scale[g], one ? d : vmul(d, vwiden_bytes(scales + g * LANES)));
        vstore(to->min[g], !f->dmin ? zero
                           : one    ? dmin
                                    : vmul(vmul(sign, dmin), vwiden_bytes(mins + g * LANES)));
    }
}

#define SPLIT_ROWS(name, type, values, bytes, group, d, dmin, subtracts, split)                    \
    static void NAME(split##_rows)(split_rows * to, const uint8_t *blocks, size_t ld, size_t n) {  \
        const attn_block_format f = {name,  type, ATTN_F32, values,    bytes,                      \
                                     group, d,    dmin,     subtracts, NULL};                      \
        split_lanes(to, blocks, ld, n, &f, split);                                                 \
    }
ATTN_SPLIT_FORMATS(SPLIT_ROWS)
#undef SPLIT_ROWS

typedef void (*row_splitter)(split_rows *to, const uint8_t *blocks, size_t ld, size_t n);

static row_splitter NAME(splitter_of)(const attn_block_format *format) {
    switch (format->type) {
#define SPLITTER(name, type, values, bytes, group, d, dmin, subtracts, split)                      \
    case type:                                                                                     \
        return NAME(split##_rows);
        ATTN_SPLIT_FORMATS(SPLITTER)
#undef SPLITTER
    default:
        return NULL;
    }
}

/* Goes over at most PW rows of blocks in pieces of PIECE values. */
typedef struct panel_walk {
    const attn_block_format *format;
    row_splitter split;
    const uint8_t *blocks;
    size_t ld, n;
    split_rows *rows;      /* [NV] */
    const int8_t *q[NV];   /* q of the current piece */
    vf scale[NV], min[NV]; /* scale and min of the current piece */
} panel_walk;

/* Goes to the piece whose first value is e. */
INLINE void walk_to(panel_walk *w, const int nv, size_t e) {
    const attn_block_format *f = w->format;
    const size_t within = e % f->values, group = within / f->group;
    for (size_t v = 0; v < (size_t)nv; v++) {
        if (within == 0)
            w->split(&w->rows[v], w->blocks + e / f->values * f->bytes + v * LANES * w->ld, w->ld,
                     w->n - v * LANES);
        w->q[v] = w->rows[v].q + within * LANES;
        w->scale[v] = vload(w->rows[v].scale[group]);
        w->min[v] = vload(w->rows[v].min[group]);
    }
}

INLINE vf walk_weights(const panel_walk *w, size_t v, size_t e) {
    return vfma(w->scale[v], vwiden_bytes(w->q[v] + e * LANES), w->min[v]);
}

INLINE void score_block_panel(const int nr, const int nv, float *const *tile, const float *const *x,
                              panel_walk *w, size_t depth) {
    const size_t half = second_chain(false, depth);
    vf one[ATTN_BLOCK_ROWS][NV], acc[ATTN_BLOCK_ROWS][NV];
    for (int r = 0; r < nr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = one[r][v] = vset(0.0f);
    for (size_t e = 0; e < depth; e += PIECE) {
        for (int r = 0; e == half && r < nr; r++)
            for (int v = 0; v < nv; v++) {
                one[r][v] = acc[r][v];
                acc[r][v] = vset(0.0f);
            }
        walk_to(w, nv, e);
        for (size_t i = 0; i < PIECE; i++)
            for (size_t v = 0; v < (size_t)nv; v++) {
                const vf weights = walk_weights(w, v, i);
                for (int r = 0; r < nr; r++)
                    acc[r][v] = vfma(vset(x[r][e + i]), weights, acc[r][v]);
            }
    }
    for (int r = 0; r < nr; r++)
        for (int v = 0; v < nv; v++)
            vstore(tile[r] + v * LANES, vadd(one[r][v], acc[r][v]));
}

static void NAME(score_split)(float *const *tile, const float *const *x, size_t rows,
                              const attn_block_format *format, const void *blocks, size_t ld,
                              size_t n, size_t depth) {
    split_rows split[NV];
    panel_walk w = {.format = format, .split = NAME(splitter_of)(format), .ld = ld, .rows = split};
    for (size_t j = 0; j < n; j += PW) {
        float *to[ATTN_BLOCK_ROWS];
        columns_from(to, tile, rows, j);
        w.blocks = (const uint8_t *)blocks + j * ld;
        w.n = n - j;
#define FEW(nr, nv) score_block_panel(nr, nv, to, x, &w, depth)
#define CALL(nv)    EACH_FEW(FEW, rows, nv)
        EACH_VECTORS(CALL, n - j)
#undef CALL
#undef FEW
    }
}

INLINE void pack_block_panel(const int nv, float *to, panel_walk *w, size_t depth) {
    for (size_t e = 0; e < depth; e += PIECE) {
        walk_to(w, nv, e);
        for (size_t i = 0; i < PIECE; i++, to += PW)
            for (size_t v = 0; v < (size_t)nv; v++)
                vstore(to + v * LANES, walk_weights(w, v, i));
    }
}

static void NAME(pack_split)(float *packed, const attn_block_format *format, const void *blocks,
                             size_t ld, size_t n, size_t depth) {
    split_rows split[NV];
    panel_walk w = {.format = format, .split = NAME(splitter_of)(format), .ld = ld, .rows = split};
    for (size_t j = 0; j < n; j += PW) {
        w.blocks = (const uint8_t *)blocks + j * ld;
        w.n = n - j;
#define CALL(nv) pack_block_panel(nv, packed + j * depth, &w, depth)
        EACH_VECTORS(CALL, n - j)
#undef CALL
    }
}

static void NAME(k_score_blocks)(float *const *tile, const float *const *x, size_t rows,
                                 const attn_block_format *format, const void *blocks, size_t ld,
                                 size_t n, size_t depth) {
    switch (format->type) {
#define SCORE(name, type, values, bytes, group, d, dmin, subtracts, split)                         \
    case type:                                                                                     \
        NAME(split##_score)(tile, x, rows, blocks, ld, n, depth);                                  \
        break;
        ATTN_WORD_FORMATS(SCORE)
#undef SCORE
    default:
        NAME(score_split)(tile, x, rows, format, blocks, ld, n, depth);
    }
}

static void NAME(k_pack_blocks)(float *packed, const attn_block_format *format, const void *blocks,
                                size_t ld, size_t n, size_t depth) {
    switch (format->type) {
#define PACK(name, type, values, bytes, group, d, dmin, subtracts, split)                          \
    case type:                                                                                     \
        NAME(split##_pack)(packed, blocks, ld, n, depth);                                          \
        break;
        ATTN_WORD_FORMATS(PACK)
#undef PACK
    default:
        NAME(pack_split)(packed, format, blocks, ld, n, depth);
    }
}

static void NAME(k_widen_halves)(float *to, attn_dtype dtype, const void *from, size_t n) {
    const char *at = from;
    uint16_t rest[LANES];
    for (; dtype == ATTN_F16 && n >= LANES; n -= LANES, to += LANES, at += sizeof rest)
        vstore_n(to, vwiden_halves(at), LANES);
    for (; dtype == ATTN_BF16 && n >= LANES; n -= LANES, to += LANES, at += sizeof rest)
        vstore_n(to, vwiden_bf16(at), LANES);
    memcpy(rest, at, n * sizeof *rest);
    attn_widen_f32(to, rest, dtype, 1, n);
}

#if SPLIT_LANES == 16
#include "kernels/x86/simd_tile_columns.h"
#define COLUMNS NAME(k_block_columns)
#else
#define COLUMNS NULL
#endif

const attn_block_kernels NAME(attn_block_kernels) = {
    NAME(k_score_blocks), NAME(k_multiply), NAME(k_pack_blocks), NAME(k_widen_halves), COLUMNS};
