/* Kernels for few query rows against unpacked keys and values. With few rows each key and value is
 * used so few times that packing would cost more than the products. The orders of summation are
 * those of simd_body.h, which includes this file; kernels.h describes the functions.
 *
 *   LANES keys, LANES elements of E at a time, in registers:
 *       row [key][e]  ->  transposed: column [e][key]
 *       scores of at most FEW rows:   acc[r] += q[r][e] * column[e]
 *   one key at a time, PW columns of its value, for at most FEW_VALUES rows:
 *       acc[r][v] += tile[r][key] * value[key][v]
 *
 * Registers for scores: LANES for the transposition and FEW accumulators. Registers for values:
 * FEW_VALUES x NV accumulators and NV for the value. If there is only one row, it uses WIDE
 * accumulators for WIDE * LANES columns, since fewer chains would leave the arithmetic units idle.
 *
 * While n rows of keys (or values) are used, the n rows after them are prefetched. The prefetched
 * rows are divided into PLACES runs of neighbouring rows (for keys: KEY_PLACES), and the prefetches
 * take one row of each run in turn:
 *
 *   [ n rows in use | run 0: fetched as 0, PLACES, … | run 1: as 1, PLACES + 1, … | … ]
 *
 * The reason is that the processor's own prefetcher follows only one page at a time. Without these
 * prefetches, the reads reach only two thirds of the memory bandwidth. (A Zen 5 reads keys 1.25
 * times as fast with four runs as with sixteen.) */

enum { FEW = 8, FEW_VALUES = 4, WIDE = 8, PLACES = 16 };
enum { LINE = 16 }; /* floats in a cache line, which is the unit of prefetching */

/* The LANES rows that are prefetched while LANES keys are used: the same number of rows from each
 * of KEY_PLACES runs. */
typedef struct unpacked_ahead {
    const float *rows; /* the first of these rows in the first run */
    size_t ld;         /* elements between neighbouring rows */
    size_t place;      /* elements between neighbouring runs */
} unpacked_ahead;

/* Adds terms to the sums acc[r] of LANES keys, of which n exist: columns [0, width) of `keys` times
 * columns e … e + width - 1 of the queries. nr is a constant at each call. n and width are
 * constants, except at the last keys and columns. Returns `most`, raised to the magnitudes of the
 * keys. */
INLINE vf unpacked_columns(const int nr, const void *const *q, size_t e, const float *keys,
                           size_t ld, size_t n, size_t width, unpacked_ahead next, vf acc[FEW],
                           vf most) {
    vf row[LANES], column[LANES];
    for (size_t j = 0; j < LANES; j++) {
        row[j] = j < n ? vload_n(keys + j * ld, width) : vset(0.0f);
        if (e % LINE == 0)
            __builtin_prefetch(
                next.rows + j % KEY_PLACES * next.place + j / KEY_PLACES * next.ld + e, 0, 2);
        most = vlarger_bits(most, vabs(row[j]));
    }
    transpose(row, column);
    for (size_t k = 0; k < LANES; k++)
        for (int r = 0; k < width && r < nr; r++)
            acc[r] = vfma(vset(((const float *)q[r])[e + k]), column[k], acc[r]);
    return most;
}

/* Computes acc[r] of LANES keys, of which n exist, as one chain over columns [e, end). */
INLINE vf unpacked_chain(const int nr, const void *const *q, size_t e, size_t end,
                         const float *keys, size_t ld, size_t n, unpacked_ahead next, vf acc[FEW],
                         vf most) {
    for (int r = 0; r < nr; r++)
        acc[r] = vset(0.0f);
    for (; n >= LANES && e + LANES <= end; e += LANES)
        most = unpacked_columns(nr, q, e, keys + e, ld, LANES, LANES, next, acc, most);
    for (; e < end; e += LANES)
        most = unpacked_columns(nr, q, e, keys + e, ld, n, end - e < LANES ? end - e : LANES, next,
                                acc, most);
    return most;
}

INLINE vf unpacked_rows(const bool coarse, const int nr, void *const *tile, const void *const *q,
                        const float *keys, size_t ld, size_t n, size_t E, vf scale, vf most) {
    const size_t half = second_chain(coarse, E);
    for (size_t j = 0; j < n; j += LANES) {
        vf one[FEW], two[FEW];
        const unpacked_ahead next = {keys + (n + j / KEY_PLACES) * ld, ld, n / KEY_PLACES * ld};
        most = unpacked_chain(nr, q, 0, half, keys + j * ld, ld, n - j, next, one, most);
        if (!coarse)
            most = unpacked_chain(nr, q, half, E, keys + j * ld, ld, n - j, next, two, most);
        for (int r = 0; r < nr; r++)
            vstore((float *)tile[r] + j, vmul(coarse ? one[r] : vadd(one[r], two[r]), scale));
    }
    return most;
}

INLINE double unpacked_scores(const bool coarse, void *const *tile, const void *const *q,
                              size_t rows, const void *keys, size_t ld, size_t n, size_t E,
                              vf scale) {
    vf most = vset(0.0f);
    size_t r = 0;
#define CALL(nr) most = unpacked_rows(coarse, nr, tile + r, q + r, keys, ld, n, E, scale, most)
    for (; rows - r >= 8; r += 8)
        CALL(8);
    for (; rows - r >= 4; r += 4)
        CALL(4);
    for (; r < rows; r++)
        CALL(1);
#undef CALL
    return lane_max(most);
}

BOTH_PRECISIONS(double, k_score_unpacked,
                (void *const *tile, const void *const *q, size_t rows, const void *keys, size_t ld,
                 size_t n, size_t E, double scale),
                return unpacked_scores(coarse, tile, q, rows, keys, ld, n, E, vset((float)scale)))

/* Computes acc[r] of nr rows for columns [0, width) of the values, as one chain over rows [from,
 * end) of the n rows of values. `whole` means that width fills all nv vectors. */
INLINE vf unpacked_value_chain(const int nr, const int nv, const bool whole,
                               const void *const *tile, const float *values, size_t ld, size_t from,
                               size_t end, size_t n, size_t width, vf acc[FEW_VALUES][WIDE],
                               vf most) {
    for (int r = 0; r < nr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = vset(0.0f);
    for (size_t j = from; j < end; j++) {
        const float *now = values + j * ld,
                    *next = values + (n + j % PLACES * (n / PLACES) + j / PLACES) * ld;
        vf x[WIDE];
        for (size_t v = 0; v < (size_t)nv; v++) {
            x[v] = whole               ? vload_n(now + v * LANES, LANES)
                   : v * LANES < width ? vload_n(now + v * LANES, width - v * LANES)
                                       : vset(0.0f);
            if (v * LANES % LINE == 0)
                __builtin_prefetch(next + v * LANES, 0, 2);
            most = vlarger_bits(most, vabs(x[v]));
        }
        for (int r = 0; r < nr; r++) {
            const vf p = vset(((const float *)tile[r])[j]);
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(p, x[v], acc[r][v]);
        }
    }
    return most;
}

/* Sets acc = acc * factor + weights times values for nr rows and columns [0, width) of the values,
 * in the same chains as accumulate_rows. */
INLINE vf unpacked_values(const bool coarse, const int nr, const int nv, const bool whole,
                          void *const *acc_to, const void *const *tile, const float *values,
                          size_t ld, size_t n, size_t width, const void *const *factor, vf most) {
    vf total[FEW_VALUES][WIDE];
    size_t end = coarse || n < CHAIN ? n : CHAIN;
    most = unpacked_value_chain(nr, nv, whole, tile, values, ld, 0, end, n, width, total, most);
    for (size_t d = end; !coarse && d < n; d = end) {
        vf acc[FEW_VALUES][WIDE];
        end = n - d < CHAIN ? n : d + CHAIN;
        most = unpacked_value_chain(nr, nv, whole, tile, values, ld, d, end, n, width, acc, most);
        for (int r = 0; r < nr; r++)
            for (int v = 0; v < nv; v++)
                total[r][v] = vadd(total[r][v], acc[r][v]);
    }
    for (int r = 0; r < nr; r++)
        for (size_t v = 0; v < (size_t)nv; v++)
            continue_sum((float *)acc_to[r] + v * LANES, *(const float *)factor[r], total[r][v]);
    return most;
}

INLINE vf unpacked_panels(const bool coarse, const int nr, void *const *acc,
                          const void *const *tile, const float *values, size_t ld, size_t n,
                          size_t Ev, const void *const *factor, vf most) {
    size_t width;
    for (size_t c = 0; c < Ev; c += width) {
        void *to[FEW_VALUES];
        for (int r = 0; r < nr; r++)
            to[r] = (float *)acc[r] + c;
        width = nr == 1 && Ev - c >= WIDE * LANES ? WIDE * LANES : PW;
        if (width > PW)
            most = unpacked_values(coarse, nr, WIDE, true, to, tile, values + c, ld, n, width,
                                   factor, most);
        else if (Ev - c >= PW)
            most = unpacked_values(coarse, nr, NV, true, to, tile, values + c, ld, n, PW, factor,
                                   most);
        else
            most = unpacked_values(coarse, nr, NV, false, to, tile, values + c, ld, n, Ev - c,
                                   factor, most);
    }
    return most;
}

INLINE double unpacked_sums(const bool coarse, void *const *acc, const void *const *tile,
                            size_t rows, const void *values, size_t ld, size_t n, size_t Ev,
                            const void *const *factor) {
    vf most = vset(0.0f);
    size_t r = 0;
#define CALL(nr)                                                                                   \
    most = unpacked_panels(coarse, nr, acc + r, tile + r, values, ld, n, Ev, factor + r, most)
    for (; rows - r >= FEW_VALUES; r += FEW_VALUES)
        CALL(FEW_VALUES);
    for (; r < rows; r++)
        CALL(1);
#undef CALL
    return lane_max(most);
}

BOTH_PRECISIONS(double, k_accumulate_unpacked,
                (void *const *acc, const void *const *tile, size_t rows, const void *values,
                 size_t ld, size_t n, size_t Ev, const void *const *factor),
                return unpacked_sums(coarse, acc, tile, rows, values, ld, n, Ev, factor))
