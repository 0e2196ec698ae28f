/* Packing for the float kernels: keys are transposed in registers, and values are copied row by
 * row. simd_body.h includes this file and shows the layouts; kernels.h describes the functions. */

/* Returns the largest lane of `most`, or infinity if a lane is NaN. The lanes hold the largest
 * magnitudes, compared as bit patterns. In this order NaN is above infinity. */
INLINE double lane_max(vf most) {
    const vf above = vset(INFINITY);
    return (double)vhmax(vselect(vless(most, above), most, above));
}

/* Returns whether it is useful to prefetch row j + ahead while row j of a tile of n rows is packed.
 * A whole tile is followed by the rows of the next tile. */
INLINE bool worth_fetching(size_t j, size_t ahead, size_t n) {
    return n == KEYS || j + ahead < n;
}

/* Transposes `width` elements of each of n rows into n columns of a panel; the columns up to LANES
 * become zeros. With `fetch` the next LANES rows are prefetched, too, since a processor does not
 * predict this order of reads. Returns `most`, raised to the magnitudes of the elements. */
INLINE vf pack_block(float *to, const float *from, size_t ld, const size_t n, const size_t width,
                     bool fetch, vf most) {
    vf row[LANES], column[LANES];
    for (size_t j = 0; j < LANES; j++) {
        row[j] = j < n ? vload_n(from + j * ld, width) : vset(0.0f);
        if (fetch)
            __builtin_prefetch(from + (j + LANES) * ld);
        most = vlarger_bits(most, vabs(row[j]));
    }
    transpose(row, column);
    for (size_t k = 0; k < width; k++)
        vstore(to + k * PW, column[k]);
    return most;
}

/* Transposes n <= LANES rows of E elements into columns of a panel, LANES elements of each row at a
 * time. */
INLINE vf pack_columns(float *to, const float *from, size_t ld, size_t n, size_t E, bool fetch,
                       vf most) {
    size_t e = 0;
    for (; n >= LANES && E - e >= LANES; e += LANES)
        most = pack_block(to + e * PW, from + e, ld, LANES, LANES, fetch, most);
    for (; e < E; e += LANES)
        most = pack_block(to + e * PW, from + e, ld, n, E - e < LANES ? E - e : LANES, fetch, most);
    return most;
}

static double NAME(k_pack_key)(void *dst, const void *src, size_t ld, size_t n, size_t E) {
    vf most = vset(0.0f);
    for (size_t j = 0; j < n; j += LANES)
        most =
            pack_columns((float *)dst + j / PW * PW * E + j % PW, (const float *)src + j * ld, ld,
                         n - j < LANES ? n - j : LANES, E, worth_fetching(j, LANES, n), most);
    return lane_max(most);
}

enum { AHEAD = 16 }; /* how many rows ahead values are prefetched */

/* Packs `width` columns of n rows of values as a panel [n][PW]. Missing columns become zeros. */
INLINE vf pack_panel(float *to, const float *from, size_t ld, size_t n, const size_t width,
                     vf most) {
    for (size_t j = 0; j < n; j++, to += PW, from += ld) {
        const bool fetch = worth_fetching(j, AHEAD, n);
        for (size_t c = 0; c < PW; c += LANES) {
            const vf x = c < width ? vload_n(from + c, width - c) : vset(0.0f);
            if (fetch)
                __builtin_prefetch(from + AHEAD * ld + c);
            most = vlarger_bits(most, vabs(x));
            vstore(to + c, x);
        }
    }
    return most;
}

static double NAME(k_pack_value)(void *dst, const void *src, size_t ld, size_t n, size_t Ev) {
    float *to = dst;
    const float *from = src;
    vf most = vset(0.0f);
    size_t panel = 0;
    for (; Ev - panel >= PW; panel += PW, to += n * PW)
        most = pack_panel(to, from + panel, ld, n, PW, most);
    if (panel < Ev)
        most = pack_panel(to, from + panel, ld, n, Ev - panel, most);
    return lane_max(most);
}

static double NAME(k_max_magnitude)(const void *src, size_t n) {
    const float *x = src;
    vf most = vset(0.0f);
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        most = vlarger_bits(most, vabs(vload_n(x + i, LANES)));
    if (i < n)
        most = vlarger_bits(most, vabs(vload_n(x + i, n - i)));
    return lane_max(most);
}
