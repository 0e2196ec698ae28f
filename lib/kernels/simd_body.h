/* The float kernels, written once for any vector width. An instruction set's .c file defines the
 * vocabulary (vf: a vector of LANES floats, vm: a mask of lanes, v…: operations), the sizes
 * (LANES, NV vectors a panel, MR rows of registers, ROWS, KEYS, KEY_PLACES) and a suffix NAME(x),
 * then includes this file and fills its table. Contract: kernels.h; what each must equal: ref.c.
 *
 * Data layout, PW = LANES * NV columns a panel:
 *
 *   packed keys    panel 0: [E][PW]   panel 1: [E][PW] …     column = key
 *   packed values  panel 0: [n][PW]   panel 1: [n][PW] …     column = value dimension
 *   tile           [rows][KEYS]       accumulator [rows][panels * PW]
 *
 * Both products are one micro-kernel: MR rows of A (broadcast) by a panel of B,
 *
 *        B: depth x PW  ->  NV registers          registers: MR * NV accumulators + NV + 1
 *   A: MR x depth           MR x NV accumulators
 *
 * and each cell is a sum of chains of fused multiply-adds over the depth, from 0 up: a pure
 * function of its row of A and its column of B. */

#include "kernels/simd_exp.h"

#define PW (LANES * NV)

/* tanh: odd minimax polynomial below 0.625, 1 - 2 / (e^2x + 1) above; within 2 ulp. */
INLINE vf tanh_lanes(vf x) {
    vf z = vmul(x, x), a = vmin(vabs(x), vset(20.0f));
    vf q = vset(-0.005659989f);
    q = vfma(q, z, vset(0.02059098841f));
    q = vfma(q, z, vset(-0.05372106802f));
    q = vfma(q, z, vset(0.1333112754f));
    q = vfma(q, z, vset(-0.3333326053f));
    vf small = vfma(vmul(q, z), x, x);
    vf e = numerator(false, vadd(a, a), vset(0.0f));
    vf large = vsub(vset(1.0f), vdiv(vset(2.0f), vadd(e, vset(1.0f))));
    return vselect(vless(a, vset(0.625f)), small, vcopysign(large, x));
}

/* --- packing --- */

static size_t NAME(k_key_room)(size_t E) {
    return KEYS * E;
}
static size_t NAME(k_acc_room)(size_t Ev) {
    return (Ev + PW - 1) / PW * PW;
}
static size_t NAME(k_value_room)(size_t Ev) {
    return KEYS * NAME(k_acc_room)(Ev);
}

/* A running reach, from its lanes' largest magnitudes by bit pattern: NaN stands above infinity. */
INLINE double lane_reach(vf most) {
    const vf above = vset(INFINITY);
    return (double)vhmax(vselect(vless(most, above), most, above));
}

/* Are the `ahead` rows behind row j of a tile's n of use soon? A whole tile has others behind it.
 */
INLINE bool worth_fetching(size_t j, size_t ahead, size_t n) {
    return n == KEYS || j + ahead < n;
}

/* n rows of the source, `width` of each, become columns of a panel; missing rows become zeros.
 * Memory is read in an order that no processor foresees, so the LANES rows that follow are fetched
 * meanwhile. */
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

/* Up to LANES rows become columns, LANES elements of each at a time. */
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
    return lane_reach(most);
}

enum { AHEAD = 16 }; /* rows of values that are fetched meanwhile */

/* `width` columns of n values become a panel of PW. */
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
    return lane_reach(most);
}

static double NAME(k_reach)(const void *src, size_t n) {
    const float *x = src;
    vf most = vset(0.0f);
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        most = vlarger_bits(most, vabs(vload_n(x + i, LANES)));
    if (i < n)
        most = vlarger_bits(most, vabs(vload_n(x + i, n - i)));
    return lane_reach(most);
}

/* --- the micro-kernel --- */

/* acc[r][v] = sum over d of a[r * row + d * step] * b[d][v]. mr, nv and one of row and step are
 * constants at every call. */
INLINE void product(const int mr, const int nv, const float *a, size_t row, size_t step,
                    const float *b, size_t depth, vf acc[MR][NV]) {
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            acc[r][v] = vset(0.0f);
#pragma GCC unroll 4
    for (size_t d = 0; d < depth; d++) {
        vf column[NV];
        for (int v = 0; v < nv; v++)
            column[v] = vload(b + d * PW + (size_t)v * LANES);
        for (int r = 0; r < mr; r++) {
            vf x = vset(a[(size_t)r * row + d * step]);
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(x, column[v], acc[r][v]);
        }
    }
}

/* A score is two chains, as the error of a chain grows with its length. Where the second begins: */
INLINE size_t second_chain(size_t E) {
    const size_t half = (E / 2 + LANES - 1) / LANES * LANES;
    return half < E ? half : E;
}

INLINE void score_rows(const int mr, const int nv, float *tile, const float *q, size_t ldq,
                       const float *panel, size_t E, vf scale) {
    const size_t half = second_chain(E);
    vf one[MR][NV], two[MR][NV];
    product(mr, nv, q, ldq, 1, panel, half, one);
    product(mr, nv, q + half, ldq, 1, panel + half * PW, E - half, two);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            vstore(tile + (size_t)r * KEYS + (size_t)v * LANES,
                   vmul(vadd(one[r][v], two[r][v]), scale));
}

/* Values are summed in chains of at most CHAIN keys, which begin at multiples of CHAIN in the
 * packed tile: the error of a chain grows with its length, and a tile entered later keeps the
 * others' order. */
enum { CHAIN = 32 };

/* What a factor of 0 drops may be anything. */
INLINE void go_on(float *acc, float factor, vf sum) {
    vstore(acc, factor == 0 ? sum : vfma(vload(acc), vset(factor), sum));
}

INLINE void accumulate_rows(const int mr, const int nv, float *acc_to, size_t lda, const float *p,
                            const float *panel, size_t first, size_t n, const float *factor) {
    vf total[MR][NV];
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            total[r][v] = vset(0.0f);
    for (size_t d = 0, end; d < n; d = end) {
        end = d + CHAIN - (first + d) % CHAIN;
        end = end < n ? end : n;
        vf acc[MR][NV];
        product(mr, nv, p + d, KEYS, 1, panel + d * PW, end - d, acc);
        for (int r = 0; r < mr; r++)
            for (int v = 0; v < nv; v++)
                total[r][v] = vadd(total[r][v], acc[r][v]);
    }
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++)
            go_on(acc_to + (size_t)r * lda + (size_t)v * LANES, factor[r], total[r][v]);
}

/* Call rows(mr, nv, …) with constants for what is left of the rows and the panel. */
#define ROWS_CASE(call, mr, nv)                                                                    \
    case mr:                                                                                       \
        call(mr, nv);                                                                              \
        break;
#define EACH_ROWS(call, left, nv)                                                                  \
    switch (left) {                                                                                \
        ROWS_CASE(call, 1, nv)                                                                     \
        ROWS_CASE(call, 2, nv)                                                                     \
        ROWS_CASE(call, 3, nv)                                                                     \
        ROWS_CASE(call, 4, nv)                                                                     \
        ROWS_CASE(call, 5, nv)                                                                     \
    default:                                                                                       \
        call(MR, nv);                                                                              \
    }

INLINE void score_panel(const int nv, float *tile, const float *q, size_t ldq, size_t rows,
                        const float *panel, size_t E, vf scale) {
#define CALL(mr, nv_) score_rows(mr, nv_, tile + r * KEYS, q + r * ldq, ldq, panel, E, scale)
    for (size_t r = 0; r < rows; r += MR)
        EACH_ROWS(CALL, rows - r, nv)
#undef CALL
}

INLINE void accumulate_panel(const int nv, float *acc, size_t lda, const float *tile, size_t rows,
                             const float *panel, size_t first, size_t n, const float *factor) {
#define CALL(mr, nv_)                                                                              \
    accumulate_rows(mr, nv_, acc + r * lda, lda, tile + r * KEYS, panel, first, n, factor + r)
    for (size_t r = 0; r < rows; r += MR)
        EACH_ROWS(CALL, rows - r, nv)
#undef CALL
}

/* Vectors that `left` columns of a panel need. */
static size_t panel_vectors(size_t left) {
    return left >= PW ? NV : (left + LANES - 1) / LANES;
}

static void NAME(k_score)(void *tile, const void *q, size_t ldq, size_t rows,
                          const void *packed_key, size_t n, size_t E, double factor) {
    const vf scale = vset((float)factor);
    for (size_t j = 0; j < n; j += PW) {
        float *to = (float *)tile + j;
        const float *panel = (const float *)packed_key + j * E;
        switch (panel_vectors(n - j)) {
        case 1:
            score_panel(1, to, q, ldq, rows, panel, E, scale);
            break;
        case 2:
            score_panel(2, to, q, ldq, rows, panel, E, scale);
            break;
#if NV > 2
        case 3:
            score_panel(3, to, q, ldq, rows, panel, E, scale);
            break;
        default:
            score_panel(4, to, q, ldq, rows, panel, E, scale);
#endif
        }
    }
}

/* Terms from … to of the sum over A for one vector of keys. */
INLINE vf tanh_terms(const float *a, const float *column, const float *v, size_t from, size_t to) {
    vf sum = vset(0.0f);
    for (size_t c = from; c < to; c++)
        sum = vfma(vset(v[c]), tanh_lanes(vadd(vset(a[c]), vload(column + c * PW))), sum);
    return sum;
}

/* Sums of TERMS terms are added up: the error of a long chain grows with its length. */
enum { TERMS = 16 };

static void NAME(k_score_tanh)(void *tile, const void *q, size_t ldq, size_t rows,
                               const void *packed_key, size_t n, size_t A, const void *v) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j += LANES) {
            const float *a = (const float *)q + r * ldq;
            const float *column = (const float *)packed_key + j / PW * PW * A + j % PW;
            vf sum = vset(0.0f);
            for (size_t c = 0; c < A; c += TERMS)
                sum = vadd(sum, tanh_terms(a, column, v, c, A - c < TERMS ? A : c + TERMS));
            vstore((float *)tile + r * KEYS + j, sum);
        }
}

static void NAME(k_accumulate)(void *acc, const void *tile, size_t rows, const void *packed_value,
                               size_t first, size_t n, size_t packed, size_t Ev,
                               const void *factor) {
    size_t lda = NAME(k_acc_room)(Ev);
    for (size_t c = 0; c < Ev; c += PW) {
        float *to = (float *)acc + c;
        const float *panel = (const float *)packed_value + c * packed + first * PW;
        switch (panel_vectors(Ev - c)) {
        case 1:
            accumulate_panel(1, to, lda, tile, rows, panel, first, n, factor);
            break;
        case 2:
            accumulate_panel(2, to, lda, tile, rows, panel, first, n, factor);
            break;
#if NV > 2
        case 3:
            accumulate_panel(3, to, lda, tile, rows, panel, first, n, factor);
            break;
        default:
            accumulate_panel(4, to, lda, tile, rows, panel, first, n, factor);
#endif
        }
    }
}

/* --- one row of scores --- */

/* Lanes of the vector at cell j that lie in [lo, hi). */
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

/* Maximum of the first n cells of a padded row. */
INLINE float row_maximum(const float *p, size_t n) {
    vf most = vload(p);
    for (size_t j = LANES; j < n; j += LANES)
        most = vmax(most, vload(p + j));
    return vhmax(most);
}

/* In place; the result is their lanes' sums. */
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

/* Exponentials by themselves, because they are a long chain of operations that only overlaps with
 * its neighbours when nothing waits for a maximum in between. */
OUT_OF_LINE void softmax_rows(const bool coarse, float *p, size_t rows, size_t n, float *m,
                              float *l, float *fall) {
    _Alignas(64) float most[ATTN_MOST_ROWS]; /* tables of tiles give more than ROWS */
    _Alignas(64) float exponent[ATTN_MOST_ROWS];
    for (size_t r = 0; r < rows; r++)
        most[r] = row_maximum(p + r * KEYS, n);
    for (size_t r = 0; r < rows; r += LANES) {
        const vf old = vload_n(m + r, rows - r), now = vmax(vload(most + r), old);
        const vf shift = row_exponent(now);
        vstore_n(m + r, now, rows - r);
        vstore_n(fall + r, vscale(vset(1.0f), vsub(row_exponent(old), shift)), rows - r);
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
        vstore(l + r * LANES, vfma(vload(l + r * LANES), vset(fall[r]), part));
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
        if (other == -INFINITY) /* its sums are undefined */
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

/* In this order: the way back divides as the ends of rows do. */
#include "kernels/simd_end.h"

#include "kernels/simd_back.h"
#include "kernels/simd_few.h"

const attn_kernels NAME(attn_kernels) = {
    .isa = ISA,
    .name = ISA_NAME,
    .elem = sizeof(float),
    .rows = ROWS,
    .keys = KEYS,
    .panel = PW > CHAIN ? PW : CHAIN,
    .lanes = LANES,
    .key_room = NAME(k_key_room),
    .value_room = NAME(k_value_room),
    .acc_room = NAME(k_acc_room),
    .pack_key = NAME(k_pack_key),
    .pack_value = NAME(k_pack_value),
    .reach = NAME(k_reach),
    .score = NAME(k_score),
    .score_few = NAME(k_score_few),
    .score_tanh = NAME(k_score_tanh),
    .edit = NAME(k_edit),
    .softmax = NAME(k_softmax),
    .accumulate = NAME(k_accumulate),
    .accumulate_few = NAME(k_accumulate_few),
    .merge = NAME(k_merge),
    .statistics = NAME(k_statistics),
    .divide = NAME(k_divide),
    .weights = NAME(k_weights),
    .settle = NAME(k_settle),
    .logsumexp = NAME(k_logsumexp),
    .accumulate_back = NAME(k_accumulate_back),
    .weight_back = NAME(k_weight_back),
    .edit_back = NAME(k_edit_back),
    .score_tanh_back = NAME(k_score_tanh_back),
};

void NAME(attn_kernels_coarse)(attn_kernels *k) {
    k->precision = ATTN_PRECISION_FAST;
    k->softmax = NAME(k_softmax_coarse);
    k->weights = NAME(k_weights_coarse);
}
