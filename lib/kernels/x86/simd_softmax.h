/* The float kernels for rows of scores: edits, softmax with running maxima and sums, and the
 * merging of two states of the same rows over different keys. simd_body.h includes this file;
 * kernels.h describes the functions. */

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

static void NAME(k_edit)(void *row, size_t n, const attn_edit *edit) {
    float *s = row;
    if (edit->softcap != 0 || edit->bias || edit->keep || edit->lo > 0 || edit->hi < n ||
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
    _Alignas(64) float most[ATTN_MOST_ROWS]; /* tables of bf16 tiles have more rows than ROWS */
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

static void NAME(k_softmax)(void *tile, size_t rows, size_t n, void *max, void *sum, void *factor) {
    FLUSHED(softmax_rows(false, tile, rows, n, max, sum, factor));
}
static void NAME(k_softmax_coarse)(void *tile, size_t rows, size_t n, void *max, void *sum,
                                   void *factor) {
    FLUSHED(softmax_rows(true, tile, rows, n, max, sum, factor));
}

static void NAME(k_merge)(const attn_partial *into, const attn_partial *from, size_t rows,
                          size_t Ev) {
    const size_t ld = NAME(k_acc_room)(Ev);
    for (size_t r = 0; r < rows; r++) {
        float *m = (float *)into->max + r, *l = (float *)into->sum + r * LANES;
        float *acc = (float *)into->acc + r * ld;
        const float other = ((const float *)from->max)[r];
        const float *l2 = (const float *)from->sum + r * LANES;
        const float *acc2 = (const float *)from->acc + r * ld;
        if (other == -INFINITY) /* then the row's sums in `from` are undefined */
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
