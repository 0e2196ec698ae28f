/* The float kernels of the backward pass. simd_body.h includes this file; kernels.h describes the
 * functions.
 *
 *   P, dP   weights and their gradients; dot = dO . O of a row
 *   dZ      gradients of the edited scores:   dZ = P (dP - dot)
 *   dS      gradients of the raw scores:      dS = dZ scale (1 - (u / c)^2), where u is the score
 *           after the softcap c
 *
 * The sums over queries, dK and dV, use the micro-kernel of simd_body.h. Its A is the transposed
 * tile of weights or of gradients, which needs no copy: each step broadcasts MR neighbours of a row
 * of the tile.
 *
 *                      packed rows of queries (or of dO): rows x PW
 *   tile^T: MR x rows  [ MR x NV accumulators, added to acc ]
 *
 * A tile has at most 48 rows, so that its columns, whose cells are 512 bytes apart, stay in the
 * first-level cache. */

INLINE void accumulate_backward_rows(const int mr, const int nv, float *to, bool begins, size_t ld,
                                     const float *tile, const float *panel, size_t rows) {
    vf acc[MR][NV];
    product(mr, nv, tile, 1, KEYS, panel, rows, acc);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++) {
            float *cell = to + (size_t)r * ld + (size_t)v * LANES;
            vstore(cell, begins ? acc[r][v] : vadd(vload(cell), acc[r][v]));
        }
}

INLINE void accumulate_backward_panel(const int nv, float *acc, bool begins, size_t ld,
                                      const float *tile, size_t n, const float *panel,
                                      size_t rows) {
#define CALL(mr, nv_)                                                                              \
    accumulate_backward_rows(mr, nv_, acc + j * ld, begins, ld, tile + j, panel, rows)
    for (size_t j = 0; j < n; j += MR)
        EACH_ROWS(CALL, n - j, nv)
#undef CALL
}

static void NAME(k_accumulate_backward)(void *acc, bool begins, const void *tile, size_t rows,
                                        size_t n, const void *packed, size_t width) {
    const size_t ld = attn_round_up(width, PW);
    for (size_t c = 0; c < width; c += PW) {
        float *to = (float *)acc + c;
        const float *panel = (const float *)packed + c * rows;
#define CALL(nv) accumulate_backward_panel(nv, to, begins, ld, tile, n, panel, rows)
        EACH_VECTORS(CALL, width - c)
#undef CALL
    }
}

/* Computes the weights and dZ of n cells of one row. `inverse` is the inverse of the row's sum.
 * With `kept`, `from` holds the numerators that softmax left, and the weights are from * factor *
 * inverse. Else `from` holds scores, and the numerators are computed from these and from `shift`,
 * the exponent of the row's maximum. */
INLINE void weight_backward_row(const bool kept, float *weights, float *dz, const float *from,
                                size_t n, vf shift, vf factor, vf inverse, vf dot, vf scale) {
    const vf zero = vset(0.0f);
    for (size_t j = 0; j < n; j += LANES) {
        const vf e = kept ? vmul(vload_n(from + j, n - j), factor)
                          : numerator(false, vload(from + j), shift);
        const vf p = vmul(e, inverse);
        const vf x = vmul(p, vsub(vload(dz + j), dot));
        vstore(weights + j, p);
        vstore(dz + j, vselect(vless(zero, p), vmul(x, scale), zero));
    }
}

OUT_OF_LINE void weight_backward_rows(float *weights, float *dz, const float *scores, size_t rows,
                                      size_t n, const attn_weight_backward *back) {
    const vf scale = vset((float)back->scale);
    const float *kept = back->kept, *maxima = back->maxima;
    for (size_t r = 0; r < rows; r++, weights += KEYS, dz += KEYS) {
        if (back->sum[r] == 0) {
            memset(weights, 0, n * sizeof *weights);
            memset(dz, 0, n * sizeof *dz);
            continue;
        }
        const vf inverse = vset(1 / (float)back->sum[r]), dot = vset((float)back->dot[r]);
        const vf shift = row_exponent(vset((float)back->max[r]));
        if (!kept) {
            weight_backward_row(false, weights, dz, scores + r * KEYS, n, shift, shift, inverse,
                                dot, scale);
            continue;
        }
        const vf then = row_exponent(vset(maxima[r * back->ld_maxima]));
        weight_backward_row(true, weights, dz, kept + r * back->ld_kept, n, shift,
                            vscale(vset(1.0f), vsub(then, shift)), inverse, dot, scale);
    }
}

static void NAME(k_weight_backward)(void *weights, void *dz, const void *scores, size_t rows,
                                    size_t n, const attn_weight_backward *back) {
    FLUSHED(weight_backward_rows(weights, dz, scores, rows, n, back));
}

static void NAME(k_edit_backward)(void *ds, size_t n, const attn_edit_backward *edit) {
    float *s = ds;
    const float *capped = edit->capped;
    const vf scale = vset((float)edit->scale), one = vset(1.0f);
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j < LANES ? n - j : LANES;
        vf x = vmul(vload_n(s + j, left), scale);
        if (capped) {
            vf t = vdiv(vload_n(capped + j, left), vset((float)edit->softcap));
            /* replaces NaN, which hidden cells may hold */
            t = vselect(vless(vabs(t), vset(2.0f)), t, vset(0.0f));
            x = vmul(x, vsub(one, vmul(t, t)));
        }
        vstore_n(s + j, x, left);
    }
}

/* Returns the sum of the lanes, added from lane 0 up. */
INLINE float lane_sum(vf x) {
    float lanes[LANES], sum = 0;
    vstore_n(lanes, x, LANES);
    for (size_t i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

static void NAME(k_score_tanh_backward)(const attn_tanh_backward *b, const void *tile, size_t rows,
                                        size_t n) {
    for (size_t r = 0; r < rows; r++) {
        const float *g = (const float *)tile + r * KEYS, *q = (const float *)b->q + r * b->ldq;
        for (size_t a = 0; a < b->width; a++) {
            const vf x = vset(q[a]), v = vset(((const float *)b->v)[a]);
            vf dq = vset(0.0f), dv = vset(0.0f);
            for (size_t j = 0; j < n; j += LANES) {
                const size_t left = n - j < LANES ? n - j : LANES;
                const float *key = (const float *)b->packed_key + j / PW * PW * b->width + j % PW;
                float *dkey = (float *)b->dkey + a * KEYS + j;
                const vf t = tanh_lanes(vadd(x, vload(key + a * PW))), d = vload_n(g + j, left);
                const vf inner = vmul(vmul(d, v), vsub(vset(1.0f), vmul(t, t)));
                dq = vadd(dq, inner);
                dv = vfma(d, t, dv);
                vstore(dkey, vadd(vload(dkey), inner));
            }
            ((float *)b->dq)[r * b->lddq + a] += lane_sum(dq);
            ((double *)b->dv)[a] += (double)lane_sum(dv);
        }
    }
}
