/* The float kernels for the end of rows: they compute the final statistics of a row and divide its
 * accumulated values and its numerators by its sum. simd_body.h includes this file; kernels.h
 * describes the functions. */

/* Computes the total of each of n <= LANES rows: the sum in double of its LANES partial sums, added
 * from lane 0 up. */
INLINE void total_rows(const float *sum, const size_t n, double *total) {
    vf row[LANES], column[LANES];
    double chain[LANES] = {0};
    for (size_t i = 0; i < LANES; i++)
        row[i] = i < n ? vload(sum + i * LANES) : vset(0.0f);
    transpose(row, column);
    for (size_t c = 0; c < LANES; c++) {
        _Alignas(64) float lane[LANES];
        vstore(lane, column[c]);
        for (size_t i = 0; i < LANES; i++)
            chain[i] += (double)lane[i];
    }
    memcpy(total, chain, n * sizeof *chain);
}

static void NAME(k_statistics)(const void *max, const void *sum, size_t rows, double *most,
                               double *total) {
    const float *sums = sum;
    size_t r = 0;
    for (size_t i = 0; i < rows; i++)
        most[i] = (double)((const float *)max)[i];
    for (; rows - r >= LANES; r += LANES)
        total_rows(sums + r * LANES, LANES, total + r);
    if (r < rows)
        total_rows(sums + r * LANES, rows - r, total + r);
}

/* Computes e / l with an error of at most 1 ulp. `inverse` is 1 / l, rounded. */
INLINE vf quotient(vf e, vf l, vf inverse) {
    const vf q = vmul(e, inverse);
    return vfma(vfnma(q, l, e), inverse, q);
}

static void NAME(k_divide)(void *dst, size_t ld, const void *acc, size_t rows, size_t n,
                           const double *sum) {
    const size_t lda = NAME(k_acc_room)(n);
    for (size_t r = 0; r < rows; r++) {
        float *to = (float *)dst + r * ld;
        const float *from = (const float *)acc + r * lda;
        const vf l = vset((float)sum[r]), inverse = vset(1 / (float)sum[r]);
        if (sum[r] == 0) {
            memset(to, 0, n * sizeof *to);
            continue;
        }
        size_t i = 0;
        for (; n - i >= LANES; i += LANES)
            vstore_n(to + i, quotient(vload(from + i), l, inverse), LANES);
        if (i < n)
            vstore_n(to + i, quotient(vload(from + i), l, inverse), n - i);
    }
}

OUT_OF_LINE void weight_row(const bool coarse, float *dst, const float *scores, size_t n, float max,
                            float sum) {
    const vf l = vset(sum), inverse = vset(1 / sum), shift = row_exponent(vset(max));
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j < LANES ? n - j : LANES;
        const vf e = numerator(coarse, vload_n(scores + j, left), shift);
        vstore_n(dst + j, quotient(e, l, inverse), left);
    }
}

static void NAME(k_weights)(void *dst, const void *scores, size_t n, double max, double sum) {
    FLUSHED(weight_row(false, dst, scores, n, (float)max, (float)sum));
}
static void NAME(k_weights_coarse)(void *dst, const void *scores, size_t n, double max,
                                   double sum) {
    FLUSHED(weight_row(true, dst, scores, n, (float)max, (float)sum));
}

/* Writes the weights e * factor / l of n cells of one tile to dst. e has the numerators that
 * softmax left, and `factor` is the power of two that lowers them to the final maximum of the row.
 * `past`: the weights are stored bypassing the caches. */
INLINE void finish_cells(float *dst, const float *e, size_t n, bool past, vf factor, vf l,
                         vf inverse) {
    const size_t off = (uintptr_t)dst % sizeof(vf) / sizeof *dst;
    size_t j = !past || !off ? 0 : LANES - off < n ? LANES - off : n;
    if (j)
        vstore_n(dst, quotient(vmul(vload_n(e, j), factor), l, inverse), j);
    for (; past && j + LANES <= n; j += LANES)
        vstream(dst + j, quotient(vmul(vload_n(e + j, LANES), factor), l, inverse));
    for (; j < n; j += LANES)
        vstore_n(dst + j, quotient(vmul(vload_n(e + j, n - j), factor), l, inverse), n - j);
}

/* Writes the weights of cells [from, to) of row r to dst, from the numerators e. */
INLINE void finish_row(float *dst, const float *e, size_t r, size_t from, size_t to,
                       const attn_finish *how) {
    const float sum = (float)how->sum[r], *maxima = (const float *)how->maxima + r * how->ld_maxima;
    const vf l = vset(sum), inverse = vset(1 / sum), shift = row_exponent(vset((float)how->max[r]));
    for (size_t j = from, end; j < to; j = end) {
        end = j - j % KEYS + KEYS < to ? j - j % KEYS + KEYS : to;
        const vf factor = vscale(vset(1.0f), vsub(row_exponent(vset(maxima[j / KEYS])), shift));
        finish_cells(dst + j, e + j, end - j, how->past_caches, factor, l, inverse);
    }
}

OUT_OF_LINE void finish_rows_of_weights(float *dst, const float *e, const attn_finish *how) {
    for (size_t r = 0; r < how->rows; r++, dst += how->n, e += how->n) {
        const bool any = how->sum[r] != 0;
        const size_t from = any && how->from ? how->from[r] : 0;
        const size_t to = !any ? 0 : how->to ? how->to[r] : how->n;
        if (from)
            memset(dst, 0, from * sizeof *dst);
        finish_row(dst, e, r, from, to, how);
        if (to < how->n)
            memset(dst + to, 0, (how->n - to) * sizeof *dst);
    }
}

static void NAME(k_finish_weights)(void *dst, const void *numerators, const attn_finish *how) {
    FLUSHED(finish_rows_of_weights(dst, numerators, how));
}

static double NAME(k_logsumexp)(double max, double sum) {
    float exponent;
    vstore_n(&exponent, row_exponent(vset((float)max)), 1);
    return (double)exponent * 0.693147180559945309417 + log(sum);
}
