/* The float kernels of gradients, for simd_body.h, whose vocabulary they use. Contract: kernels.h.
 *
 *   weights P, their gradients dP        dZ = P (dP - dot)
 *   edited scores, u after the softcap   dS = dZ scale (1 - (u / c)^2)
 *
 * A tile turned on its side lets the micro-kernel sum over queries as it sums over keys. */

static void NAME(k_flip)(void *dst, const void *tile, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r += LANES)
        for (size_t j = 0; j < n; j += LANES) {
            vf row[LANES], column[LANES];
            for (size_t i = 0; i < LANES; i++)
                row[i] = r + i < rows ? vload((const float *)tile + (r + i) * KEYS + j) : vset(0);
            transpose(row, column);
            for (size_t i = 0; i < LANES; i++)
                vstore((float *)dst + (j + i) * KEYS + r, column[i]);
        }
}

static void NAME(k_weight_back)(void *dz, const void *weights, size_t n, double dot) {
    float *to = dz;
    const vf d = vset((float)dot), zero = vset(0.0f);
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j < LANES ? n - j : LANES;
        const vf p = vload_n((const float *)weights + j, left);
        vf x = vmul(p, vsub(vload_n(to + j, left), d));
        vstore_n(to + j, vselect(vless(zero, p), x, zero), left);
    }
}

static void NAME(k_edit_back)(void *ds, size_t n, const attn_edit_back *edit) {
    float *s = ds;
    const float *capped = edit->capped;
    const vf scale = vset((float)edit->scale), one = vset(1.0f);
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j < LANES ? n - j : LANES;
        vf x = vmul(vload_n(s + j, left), scale);
        if (capped) {
            const vf t = vdiv(vload_n(capped + j, left), vset((float)edit->softcap));
            x = vmul(x, vsub(one, vmul(t, t)));
        }
        vstore_n(s + j, x, left);
    }
}

/* Sum of the lanes, in their order. */
INLINE float lane_sum(vf x) {
    float lanes[LANES], sum = 0;
    vstore_n(lanes, x, LANES);
    for (size_t i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

static void NAME(k_score_tanh_back)(const attn_tanh_back *b, const void *tile, size_t rows,
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
