/* The float kernels for rows of scores. simd_body.h includes this file; kernels.h describes the
 * functions. In this order:
 *
 *   edit          scale, softcap, bias and hidden cells
 *   softmax       scores become numerators, with running maxima and sums
 *   merge         combines two states of the same rows over different keys
 *   end of rows   final statistics; sums and numerators are divided by the sum of the row */

/* Returns a mask of the lanes whose cells lie in [lo, hi). Lane 0 is cell j. */
INLINE vm lanes_within(size_t j, size_t lo, size_t hi) {
    return vfirst_lanes_between(lo > j ? lo - j : 0, hi > j ? hi - j : 0);
}

INLINE vf hide_lanes(vf x, vm visible, const attn_edit *edit) {
    vf hidden = vset(-INFINITY);
    if (edit->fill == ATTN_EDIT_ADD)
        hidden = vadd(x, vset((float)edit->fill_value));
    else if (edit->fill == ATTN_EDIT_REPLACE)
        hidden = vset((float)edit->fill_value);
    return vselect(visible, x, hidden);
}

static void edit_slowly(float *s, size_t n, const attn_edit *edit) {
    const vf scale = vset((float)edit->scale), cap = vset((float)edit->softcap);
    const float *bias = edit->bias;
    for (size_t j = 0; j < n; j += LANES) {
        size_t left = n - j < LANES ? n - j : LANES;
        vf x = vmul(vload(s + j), scale);
        if (edit->softcap != 0)
            x = vmul(cap, tanh_lanes(vdiv(x, cap)));
        if (bias) {
            vf b = vload_n(bias + j, left);
            x = vselect(vless(vset(-INFINITY), b), vadd(x, b), vset(-INFINITY));
        }
        vm visible = lanes_within(j, edit->lo, edit->hi);
        if (edit->keep)
            visible = vand(visible, vkeep(edit->keep + j, left));
        x = hide_lanes(x, visible, edit);
        vstore(s + j, vselect(lanes_within(0, 0, left), x, vset(-INFINITY)));
    }
}

/* Hides the cells outside [lo, hi) of a row of n cells, and pads the row. Vectors
 * of cells that are all in [lo, hi) stay as they are. */
static void hide_ends(float *s, size_t n, size_t lo, size_t hi) {
    const vf hidden = vset(-INFINITY);
    size_t j = 0;
    hi = hi < n ? hi : n;
    for (; j < lo && j < n; j += LANES)
        vstore(s + j, vselect(lanes_within(j, lo, hi), vload(s + j), hidden));
    for (j = j < hi ? hi - hi % LANES : j; j < n; j += LANES)
        vstore(s + j, vselect(lanes_within(j, lo, hi), vload(s + j), hidden));
}

static void NAME(k_edit)(void *row, size_t n, const attn_edit *edit) {
    float *s = row;
    const bool only_hides = edit->softcap == 0 && !edit->bias && !edit->keep && edit->scale == 1;
    if (only_hides && (edit->fill == ATTN_EDIT_HIDE || (edit->lo == 0 && edit->hi >= n))) {
        hide_ends(s, n, edit->lo, edit->hi);
    } else if (edit->softcap != 0 || edit->bias || edit->keep || edit->lo > 0 || edit->hi < n ||
               n % LANES) {
        edit_slowly(s, n, edit);
    } else if (edit->scale != 1) {
        const vf scale = vset((float)edit->scale);
        for (size_t j = 0; j < n; j += LANES)
            vstore(s + j, vmul(vload(s + j), scale));
    }
}

/* Returns the maximum of the first n cells of a padded row. */
INLINE float row_maximum(const float *p, size_t n) {
    vf most = vload(p);
    for (size_t j = LANES; j < n; j += LANES)
        most = vmax(most, vload(p + j));
    return vhmax(most);
}

/* Turns the n scores of a row into numerators in place. `shift` is the exponent of the row's
 * maximum. Returns the sum of the numerators of each lane. */
INLINE vf row_numerators(const bool coarse, float *row, const size_t n, vf shift) {
    vf sum = vset(0.0f);
#pragma GCC unroll 8
    for (size_t j = 0; j < n; j += LANES) {
        const vf e = numerator(coarse, vload(row + j), shift);
        vstore(row + j, e);
        sum = vadd(sum, e);
    }
    return sum;
}

/* Turns the scores of a tile into numerators. m, l and factor have the maxima, sums and factors of
 * the rows (softmax in kernels.h). The maxima of all rows are computed before the first
 * exponential. An exponential is a long sequence of dependent operations, and the processor
 * overlaps the exponentials of neighbouring cells only if no maximum is computed between them. */
OUT_OF_LINE void softmax_rows(const bool coarse, float *p, size_t rows, size_t n, float *m,
                              float *l, float *factor) {
    /* ATTN_MOST_ROWS and not ROWS, since tables of bf16 tiles have more rows */
    _Alignas(64) float most[ATTN_MOST_ROWS];
    _Alignas(64) float exponent[ATTN_MOST_ROWS];
    for (size_t r = 0; r < rows; r++)
        most[r] = row_maximum(p + r * KEYS, n);
    for (size_t r = 0; r < rows; r += LANES) {
        const vf old = vload_n(m + r, rows - r), now = vmax(vload(most + r), old);
        const vf shift = row_exponent(now);
        vstore_n(m + r, now, rows - r);
        vstore_n(factor + r, vscale(vset(1.0f), vsub(row_exponent(old), shift)), rows - r);
        vstore(exponent + r, shift);
    }
    for (size_t r = 0; r < rows; r++) {
        float *row = p + r * KEYS;
        if (most[r] == -INFINITY) {
            memset(row, 0, n * sizeof *row);
            continue;
        }
        const vf shift = vset(exponent[r]);
        const vf part = n == KEYS ? row_numerators(coarse, row, KEYS, shift)
                                  : row_numerators(coarse, row, n, shift);
        vstore(l + r * LANES, vfma(vload(l + r * LANES), vset(factor[r]), part));
    }
}

BOTH_PRECISIONS(void, k_softmax,
                (void *tile, size_t rows, size_t n, void *max, void *sum, void *factor),
                FLUSHED(softmax_rows(coarse, tile, rows, n, max, sum, factor)))

static void NAME(k_merge)(const attn_partial *into, const attn_partial *from, size_t rows,
                          size_t Ev) {
    const size_t ld = attn_round_up(Ev, PW);
    for (size_t r = 0; r < rows; r++) {
        float *m = (float *)into->max + r, *l = (float *)into->sum + r * LANES;
        float *acc = (float *)into->acc + r * ld;
        const float other = ((const float *)from->max)[r];
        const float *l2 = (const float *)from->sum + r * LANES;
        const float *acc2 = (const float *)from->acc + r * ld;
        if (other == -INFINITY) /* the row's sums in `from` are undefined then */
            continue;
        if (*m == -INFINITY) {
            *m = other;
            memcpy(l, l2, LANES * sizeof *l);
            memcpy(acc, acc2, ld * sizeof *acc);
            continue;
        }
        const vf before = row_exponent(vset(*m)), after = row_exponent(vset(other));
        const vf most = vmax(before, after), one = vset(1.0f);
        const vf f = vscale(one, vsub(before, most)), f2 = vscale(one, vsub(after, most));
        *m = other > *m ? other : *m;
        vstore(l, vfma(vload(l), f, vmul(vload(l2), f2)));
        for (size_t e = 0; e < ld; e += LANES)
            vstore(acc + e, vfma(vload(acc + e), f, vmul(vload(acc2 + e), f2)));
    }
}

/* --- the end of rows --- */

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
    const size_t lda = attn_round_up(n, PW);
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

BOTH_PRECISIONS(void, k_weights, (void *dst, const void *scores, size_t n, double max, double sum),
                FLUSHED(weight_row(coarse, dst, scores, n, (float)max, (float)sum)))

/* Writes the weights e * factor / l of n cells of one tile to dst. e has the numerators that
 * softmax left, and `factor` is the power of two that lowers them to the final maximum of the row.
 * If `past`, the weights are stored past the caches. */
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
