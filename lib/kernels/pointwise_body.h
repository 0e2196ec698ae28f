/* The row functions of pointwise.h. A .c file defines NAME(x), which appends a suffix, and includes
 * this file. The compiler flags of the .c file select the instructions. The loops are written so
 * that gcc vectorises them: they have no branches and no calls, and a sum is kept in an array of
 * lanes, which are added in a fixed order at the end:
 *
 *   x [ 0 … 15 | 16 … 31 | … ]    lane i sums x[i], x[16 + i], …
 *
 * Most functions read and write each element once, so blocking or packing would gain nothing. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "kernels/row_scan.h"
#include "kernels/row_sums.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Computes e^x, for x limited to -87 … 88. x = n ln 2 + r, with ln 2 in two parts (Cody and Waite),
 * so e^x = 2^n e^r. e^r is the polynomial of Cephes' expf. Adding 1.5 * 2^23 to x log2(e) rounds
 * this number to n and leaves n in the low bits of the sum. These bits are then shifted to the
 * place of an exponent. */
INLINE float exp_one(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float t = x * 0x1.715476p+0f + 0x1.8p23f, n = t - 0x1.8p23f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r * r + r) + 1.0f;
    return p * from_bits((to_bits(t) + 127u) << 23);
}

INLINE float sigmoid_one(float x) {
    return 1.0f / (1.0f + exp_one(-x));
}

/* Computes tanh: by the odd polynomial of Cephes' tanhf for |x| < 0.625, and by
 * 1 - 2 / (e^2|x| + 1) for larger |x|. */
INLINE float tanh_one(float x) {
    const float z = x * x, a = fabsf(x);
    float q = -5.70498872745e-3f;
    q = q * z + 2.06390887954e-2f;
    q = q * z - 5.37397155531e-2f;
    q = q * z + 1.33314422036e-1f;
    q = q * z - 3.33332819422e-1f;
    const float small = q * z * x + x;
    const float large = copysignf(1.0f - 2.0f / (exp_one(a + a) + 1.0f), x);
    return a < 0.625f ? small : large;
}

/* Computes x Phi(x) = x (1 + erf(z)) / 2 with z = x / sqrt(2): by a polynomial of erf(z) / z for
 * |z| < 1, and by erfc(|z|) = e^-p for larger |z|, which avoids cancellation far below 0. Both
 * polynomials are minimax fits with errors of at most 2e-9 in erf. For |z| > 4, erfc is below half
 * a unit in the last place of 1, so it is taken as 0. */
INLINE float gelu_one(float x) {
    const float z = x * 0.707106781f, a = fabsf(z), s = z * z;
    float q = 7.85385769e-5f;
    q = q * s - 8.01019252e-4f;
    q = q * s + 5.18832756e-3f;
    q = q * s - 2.68538119e-2f;
    q = q * s + 1.12835851e-1f;
    q = q * s - 3.76126258e-1f;
    q = q * s + 1.28379166e-1f;
    float p = -1.85574893e-4f;
    p = p * a + 2.93961573e-3f;
    p = p * a - 2.18053511e-2f;
    p = p * a + 1.03037435e-1f;
    p = p * a + 6.38225602e-1f;
    p = p * a + 1.12704008f;
    p = p * a + 3.53708932e-4f;
    const float e = a > 4.0f ? 0.0f : exp_one(-p), far = x < 0.0f ? e : 2.0f - e;
    return 0.5f * x * (a < 1.0f ? q * z + z + 1.0f : far);
}

/* Computes x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
INLINE float gelu_tanh_one(float x) {
    return 0.5f * x * (1.0f + tanh_one(0.79788456f * (x + 0.044715f * x * x * x)));
}

INLINE float total(const float *lanes) {
    float sum[POINTWISE_LANES];
    memcpy(sum, lanes, sizeof sum);
    for (size_t half = POINTWISE_LANES / 2; half; half /= 2)
        for (size_t l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

static void NAME(p_tanh)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = tanh_one(x[i]);
}

static void NAME(p_sigmoid)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = sigmoid_one(x[i]);
}

static void NAME(p_gelu)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = gelu_one(x[i]);
}

static void NAME(p_gelu_tanh)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = gelu_tanh_one(x[i]);
}

/* There are two loops, because gcc's code for a single loop takes seven times as long. */
static void NAME(p_silu)(float *y, const float *x, size_t n) {
    enum { SHORT = 256 };
    float shares[SHORT];
    for (size_t i = 0; i < n; i += SHORT) {
        const size_t m = n - i < SHORT ? n - i : SHORT;
        for (size_t j = 0; j < m; j++)
            shares[j] = sigmoid_one(x[i + j]);
        for (size_t j = 0; j < m; j++)
            y[i + j] = x[i + j] * shares[j];
    }
}

static void NAME(p_lstm_forward)(const attn_lstm_row *row, size_t H) {
    float *restrict gates = row->gates, *restrict c = row->c, *restrict h = row->h;
    const float *restrict in = gates, *restrict forget = gates + H, *restrict cell = gates + 2 * H,
                          *restrict out = gates + 3 * H, *restrict before = row->before;
    for (size_t j = 0; j < 2 * H; j++)
        gates[j] = sigmoid_one(gates[j]);
    for (size_t j = 2 * H; j < 3 * H; j++)
        gates[j] = tanh_one(gates[j]);
    for (size_t j = 3 * H; j < 4 * H; j++)
        gates[j] = sigmoid_one(gates[j]);
    if (before)
        for (size_t j = 0; j < H; j++)
            c[j] = forget[j] * before[j] + in[j] * cell[j];
    else
        for (size_t j = 0; j < H; j++)
            c[j] = in[j] * cell[j];
    for (size_t j = 0; j < H; j++)
        h[j] = out[j] * tanh_one(c[j]);
}

/* Computes the backward pass of an LSTM step. `first` is true if c_(t-1) is zero. It is a constant
 * at each call, so that the loop has no branch. */
INLINE void lstm_back(const attn_lstm_row *row, size_t H, int first) {
    float *restrict in = row->gates, *restrict forget = in + H, *restrict cell = in + 2 * H,
                    *restrict out = in + 3 * H, *restrict dc = row->dc;
    const float *restrict c = row->c, *restrict dh = row->dh, *restrict before = row->before;
    _Pragma("GCC ivdep") for (size_t j = 0; j < H; j++) {
        const float i = in[j], f = forget[j], g = cell[j], o = out[j], t = tanh_one(c[j]);
        const float was = first ? 0.0f : before[j];
        const float d = dc[j] + dh[j] * o * (1.0f - t * t);
        in[j] = d * g * i * (1.0f - i);
        forget[j] = d * was * f * (1.0f - f);
        cell[j] = d * i * (1.0f - g * g);
        out[j] = dh[j] * t * o * (1.0f - o);
        dc[j] = d * f;
    }
}

static void NAME(p_lstm_backward)(const attn_lstm_row *row, size_t H) {
    if (row->before)
        lstm_back(row, H, 0);
    else
        lstm_back(row, H, 1);
}

INLINE float largest(const float *x, size_t n) {
    float lanes[POINTWISE_LANES], max = x[0];
    size_t i = 0;
    for (size_t l = 0; l < POINTWISE_LANES; l++)
        lanes[l] = max;
    for (; i + POINTWISE_LANES <= n; i += POINTWISE_LANES)
        for (size_t l = 0; l < POINTWISE_LANES; l++)
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t l = 0; l < POINTWISE_LANES; l++)
        max = lanes[l] > max ? lanes[l] : max;
    return max;
}

static float NAME(p_exponentials)(float *p, const float *x, size_t n, float *max) {
    float lanes[POINTWISE_LANES] = {0};
    const float top = largest(x, n);
    size_t i = 0;
    for (; i + POINTWISE_LANES <= n; i += POINTWISE_LANES)
        for (size_t l = 0; l < POINTWISE_LANES; l++) {
            const float e = exp_one(x[i + l] - top);
            p[i + l] = e;
            lanes[l] += e;
        }
    for (size_t l = 0; i < n; i++, l++)
        lanes[l] += p[i] = exp_one(x[i] - top);
    *max = top;
    return total(lanes);
}

/* Sets *plain to the sum of a[i], and *product to the sum of a[i] * b[i]. */
INLINE void sums(const float *restrict a, const float *restrict b, size_t n, float *plain,
                 float *product) {
    float one[POINTWISE_LANES] = {0}, two[POINTWISE_LANES] = {0};
    size_t i = 0;
    for (; i + POINTWISE_LANES <= n; i += POINTWISE_LANES)
        for (size_t l = 0; l < POINTWISE_LANES; l++) {
            one[l] += a[i + l];
            two[l] += a[i + l] * b[i + l];
        }
    for (size_t l = 0; i < n; i++, l++) {
        one[l] += a[i];
        two[l] += a[i] * b[i];
    }
    *plain = total(one);
    *product = total(two);
}

static void NAME(p_norm_forward)(float *y, attn_norm_row *row, const float *restrict bias,
                                 float epsilon, size_t n) {
    const float *x = row->x, *restrict weight = row->weight;
    float sum, ignored, squares;
    sums(x, x, n, &sum, &ignored);
    const float mean = row->uncentred ? 0 : sum / (float)n;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - mean;
    sums(y, y, n, &ignored, &squares);
    const float scale = 1.0f / sqrtf(squares / (float)n + epsilon);
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] * scale * weight[i];
    if (bias)
        for (size_t i = 0; i < n; i++)
            y[i] += bias[i];
    row->mean = mean;
    row->scale = scale;
}

/* With u = (x - mean) * scale and g = dy * weight, the gradient of x is
 *   scale * (g - mean(g) - u * mean(g * u)) */
static void NAME(p_norm_backward)(float *restrict dx, float *restrict dweight,
                                  float *restrict dbias, const float *restrict dy,
                                  const attn_norm_row *row, size_t n) {
    const float *restrict x = row->x, *restrict weight = row->weight;
    const float mean = row->mean, scale = row->scale;
    float plain[POINTWISE_LANES] = {0}, product[POINTWISE_LANES] = {0};
    for (size_t i = 0; i < n; i += POINTWISE_LANES) {
        const size_t end = n - i < POINTWISE_LANES ? n - i : POINTWISE_LANES;
        for (size_t l = 0; l < end; l++) {
            const float g = dy[i + l] * weight[i + l];
            plain[l] += g;
            product[l] += g * ((x[i + l] - mean) * scale);
        }
    }
    const float a = row->uncentred ? 0 : total(plain) / (float)n, b = total(product) / (float)n;
    if (dx)
        for (size_t i = 0; i < n; i++)
            dx[i] += scale * (dy[i] * weight[i] - a - (x[i] - mean) * scale * b);
    if (dweight)
        for (size_t i = 0; i < n; i++)
            dweight[i] += dy[i] * ((x[i] - mean) * scale);
    if (dbias)
        for (size_t i = 0; i < n; i++)
            dbias[i] += dy[i];
}

/* Computes attn_rng_bits. The code is repeated here so that the compiler can vectorise it. */
INLINE uint64_t bits_at(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void NAME(p_dropout)(float *x, size_t n, uint64_t threshold, float factor, uint64_t seed,
                            uint64_t first) {
    for (size_t i = 0; i < n; i += POINTWISE_LANES) {
        const size_t end = n - i < POINTWISE_LANES ? n - i : POINTWISE_LANES;
        /* The sign bit of threshold - 1 - bits: 1 keeps an element and 0 drops it. */
        int32_t kept[POINTWISE_LANES];
        for (size_t l = 0; l < POINTWISE_LANES; l++)
            kept[l] = (int32_t)((threshold - 1 - (bits_at(seed, first + i + l) >> 11)) >> 63);
        for (size_t l = 0; l < end; l++)
            x[i + l] *= (float)kept[l] * factor;
    }
}

static void NAME(p_add)(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void NAME(p_multiply)(float *restrict y, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void NAME(p_add_scaled)(float *restrict y, const float *restrict x, float a, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void NAME(p_scale)(float *x, float a, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

static double NAME(p_dot)(const float *x, const float *y, size_t n) {
    double lanes[POINTWISE_LANES] = {0};
    size_t i = 0;
    for (; i + POINTWISE_LANES <= n; i += POINTWISE_LANES)
        for (size_t l = 0; l < POINTWISE_LANES; l++)
            lanes[l] += (double)x[i + l] * (double)y[i + l];
    for (size_t l = 0; i < n; i++, l++)
        lanes[l] += (double)x[i] * (double)y[i];
    for (size_t half = POINTWISE_LANES / 2; half; half /= 2)
        for (size_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

/* Vectors of the lanes of a cell. They are explicit, since gcc does not vectorise loops over float
 * and double together. */
typedef double lane_sums
    __attribute__((vector_size(POOL_LANES * sizeof(double)), aligned(8), may_alias));
typedef float lane_cells
    __attribute__((vector_size(POOL_LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t lane_bits __attribute__((vector_size(POOL_LANES * sizeof(int32_t))));

static void NAME(p_pool)(attn_pool_lanes *lanes, const float *x, size_t cells, size_t width) {
    for (size_t c = 0; c < cells; c++, x += width) {
        lane_sums sum = *(lane_sums *)lanes[c].sum;
        lane_cells max = *(lane_cells *)lanes[c].max;
        for (size_t i = 0; i < width; i += POOL_LANES) {
            const lane_cells v = *(const lane_cells *)(x + i);
            const lane_bits larger = v > max;
            sum += __builtin_convertvector(v, lane_sums);
            max = (lane_cells)((larger & (lane_bits)v) | (~larger & (lane_bits)max));
        }
        *(lane_sums *)lanes[c].sum = sum;
        *(lane_cells *)lanes[c].max = max;
    }
}

static void NAME(p_adam)(float *restrict values, const float *restrict gradients,
                         float *restrict first, float *restrict second, size_t n,
                         const attn_adam_row *step) {
    const attn_adam_row k = *step;
    for (size_t i = 0; i < n; i++) {
        const float value = values[i] * k.shrink;
        const float gradient = gradients[i] + k.decay * value;
        const float m = first[i] + k.keep * (gradient - first[i]);
        const float v = k.fade * second[i] + k.fresh * gradient * gradient;
        first[i] = m;
        second[i] = v;
        values[i] = value - k.step * (m / (sqrtf(v) / k.root + k.epsilon));
    }
}

/* A vector of half a row of a panel, which may be at any address. */
typedef float half_row
    __attribute__((vector_size(POINTWISE_LANES / 2 * sizeof(float)), aligned(4), may_alias));

INLINE void add_half(float *y, half_row sum, size_t n) {
    for (size_t l = 0; l < POINTWISE_LANES / 2 && l < n; l++)
        y[l] += sum[l];
}

INLINE void add_row(float *y, half_row low, half_row high, size_t n) {
    enum { HALF = POINTWISE_LANES / 2 };
    if (n == POINTWISE_LANES) {
        *(half_row *)y += low;
        *(half_row *)(y + HALF) += high;
    } else {
        add_half(y, low, n);
        add_half(y + HALF, high, n < HALF ? 0 : n - HALF);
    }
}

/* Adds the products of four rows of x with one panel, of which n columns are used, to four rows of
 * y. Each sum is a variable of its own, so that it stays in a register. */
INLINE void four_rows(float *y, size_t ldy, const float *x, size_t ldx, const float *panel,
                      size_t n, size_t K) {
    const float *x1 = x + ldx, *x2 = x1 + ldx, *x3 = x2 + ldx;
    half_row low0 = {0}, low1 = {0}, low2 = {0}, low3 = {0};
    half_row high0 = {0}, high1 = {0}, high2 = {0}, high3 = {0};
    for (size_t k = 0; k < K; k++, panel += POINTWISE_LANES) {
        const half_row low = *(const half_row *)panel;
        const half_row high = *(const half_row *)(panel + POINTWISE_LANES / 2);
        low0 += low * x[k];
        high0 += high * x[k];
        low1 += low * x1[k];
        high1 += high * x1[k];
        low2 += low * x2[k];
        high2 += high * x2[k];
        low3 += low * x3[k];
        high3 += high * x3[k];
    }
    add_row(y, low0, high0, n);
    add_row(y + ldy, low1, high1, n);
    add_row(y + 2 * ldy, low2, high2, n);
    add_row(y + 3 * ldy, low3, high3, n);
}

INLINE void one_row(float *y, const float *x, const float *panel, size_t n, size_t K) {
    half_row low = {0}, high = {0};
    for (size_t k = 0; k < K; k++, panel += POINTWISE_LANES) {
        low += *(const half_row *)panel * x[k];
        high += *(const half_row *)(panel + POINTWISE_LANES / 2) * x[k];
    }
    add_row(y, low, high, n);
}

static void NAME(p_product)(float *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                            const float *panels, size_t N, size_t K) {
    for (size_t j = 0; j < N; j += POINTWISE_LANES) {
        const size_t n = N - j < POINTWISE_LANES ? N - j : POINTWISE_LANES;
        const float *panel = panels + j * K;
        size_t r = 0;
        for (; r + 4 <= rows; r += 4)
            four_rows(y + r * ldy + j, ldy, x + r * ldx, ldx, panel, n, K);
        for (; r < rows; r++)
            one_row(y + r * ldy + j, x + r * ldx, panel, n, K);
    }
}

static bool NAME(p_widen_visible)(double *restrict p, const float *restrict weights,
                                  const uint8_t *restrict visible, size_t n) {
    uint32_t hidden = 0;
    for (size_t j = 0; j < n; j++) {
        const uint32_t keep = 0u - visible[j], bits = to_bits(weights[j]);
        hidden |= bits & ~keep;
        p[j] = (double)from_bits(bits & keep);
    }
    return hidden << 1 != 0; /* the shift makes -0 equal 0 */
}

static void NAME(p_centre)(double *restrict centered, double *restrict q, const double *restrict p,
                           const uint8_t *restrict visible, double uniform, double mass, size_t n) {
    for (size_t j = 0; j < n; j++)
        centered[j] = visible[j] ? p[j] - uniform : 0;
    for (size_t j = 0; j < n; j++)
        q[j] = p[j] / mass;
}

static void NAME(p_tally)(double *restrict received, uint64_t *restrict seen,
                          const double *restrict p, const uint8_t *restrict visible, size_t n) {
    for (size_t j = 0; j < n; j++)
        received[j] += p[j];
    for (size_t j = 0; j < n; j++)
        seen[j] += visible[j];
}

static size_t NAME(p_largest)(const double *x, size_t n) {
    double lanes[ATTN_PARTIAL_SUMS], most = x[0];
    size_t j = 0;
    for (size_t k = 0; k < ATTN_PARTIAL_SUMS; k++)
        lanes[k] = x[0];
    for (; j + ATTN_PARTIAL_SUMS <= n; j += ATTN_PARTIAL_SUMS)
        for (size_t k = 0; k < ATTN_PARTIAL_SUMS; k++)
            lanes[k] = x[j + k] > lanes[k] ? x[j + k] : lanes[k];
    for (size_t k = 0; k < ATTN_PARTIAL_SUMS; k++)
        most = lanes[k] > most ? lanes[k] : most;
    for (; j < n; j++)
        most = x[j] > most ? x[j] : most;
    return attn_find_double_here(x, n, most);
}

const attn_pointwise NAME(attn_pointwise) = {
    .tanh = NAME(p_tanh),
    .sigmoid = NAME(p_sigmoid),
    .gelu = NAME(p_gelu),
    .gelu_tanh = NAME(p_gelu_tanh),
    .silu = NAME(p_silu),
    .lstm_forward = NAME(p_lstm_forward),
    .lstm_backward = NAME(p_lstm_backward),
    .exponentials = NAME(p_exponentials),
    .norm_forward = NAME(p_norm_forward),
    .norm_backward = NAME(p_norm_backward),
    .dropout = NAME(p_dropout),
    .add = NAME(p_add),
    .multiply = NAME(p_multiply),
    .add_scaled = NAME(p_add_scaled),
    .scale = NAME(p_scale),
    .dot = NAME(p_dot),
    .pool = NAME(p_pool),
    .adam = NAME(p_adam),
    .product = NAME(p_product),
    .sum = attn_sum_here,
    .products = attn_dot_here,
    .ramp = attn_ramp_here,
    .xlnx = attn_sum_xlnx_here,
    .mix_xlnx = attn_mix_xlnx_here,
    .widen_visible = NAME(p_widen_visible),
    .centre = NAME(p_centre),
    .tally = NAME(p_tally),
    .largest = NAME(p_largest),
    .scan_logits = attn_scan_logits_here,
    .spread = attn_spread_here,
    .add_fall = attn_add_fall_here,
    .scan_weights = attn_scan_weights_here,
    .find_double = attn_find_double_here,
    .find_float = attn_find_float_here,
};
