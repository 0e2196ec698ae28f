/* Functions of rows: every table of this processor gives the bytes of the plain one at odd sizes,
 * writes nothing behind the row, and is within its promise of libm in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attn/rng.h"
#include "kernels/kernels.h"
#include "kernels/pointwise.h"

enum { MOST = 133, ROOM = 4 * MOST + 8 };

typedef struct work {
    float x[ROOM], y[ROOM], z[ROOM], u[ROOM], v[ROOM];
} work;

static void fill(work *w) {
    float *all = (float *)w;
    for (size_t i = 0; i < sizeof *w / sizeof *all; i++)
        all[i] = (float)(3 * attn_rng_normal(4, i));
}

/* Everything of one table on rows of n. */
static void use(const attn_pointwise *p, work *w, size_t n) {
    float max;
    fill(w);
    attn_lstm_row row = {.gates = w->x,
                         .before = w->y,
                         .c = w->y + MOST,
                         .h = w->y + 2 * MOST,
                         .dh = w->z,
                         .dc = w->u};
    p->lstm_forward(&row, n);
    p->lstm_backward(&row, n);
    row.before = NULL;
    p->lstm_forward(&row, n);
    p->lstm_backward(&row, n);
    p->tanh(w->v, w->v, n);
    p->sigmoid(w->v + MOST, w->z, n);
    w->u[ROOM - 1] = p->exponentials(w->v + 2 * MOST, w->z, n, &max);
    w->u[ROOM - 2] = max;
    attn_norm_row norm = {.x = w->z, .weight = w->z + MOST};
    p->norm_forward(w->z + 2 * MOST, &norm, w->z + 3 * MOST, 1e-5f, n);
    p->norm_backward(w->u + MOST, w->u + 2 * MOST, w->u + 3 * MOST, w->v, &norm, n);
    p->dropout(w->v + 3 * MOST, n, UINT64_C(1) << 51, 1.5f, 9, 12345);
    p->add(w->y, w->z, n);
    p->add_scaled(w->y, w->u, 0.3f, n);
    p->scale(w->y, 1.7f, n);
}

static void test_tables(void **state) {
    static work plain, other;
    for (size_t n = 1; n <= MOST; n += n < 40 ? 1 : 31) {
        use(&attn_pointwise_ref, &plain, n);
        for (int isa = ATTN_ISA_REF; isa <= ATTN_ISA_AVX512; isa++)
            if (attn_isa_available((attn_isa)isa)) {
                use(attn_pointwise_of((attn_isa)isa), &other, n);
                assert_memory_equal(&plain, &other, sizeof plain);
            }
    }
    (void)state;
}

static void near(double got, double want) {
    const double most = 3 * 0x1p-23 * fmax(fabs(want), 0.125);
    if (!(fabs(got - want) <= most))
        fail_msg("%.9g, expected %.9g", got, want);
}

static void test_accuracy(void **state) {
    enum { N = 40001 };
    static float x[N], y[N];
    const attn_pointwise *p = attn_pointwise_current();
    float max;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 1000;
    p->tanh(y, x, N);
    for (int i = 0; i < N; i++)
        near(y[i], tanh(x[i]));
    p->sigmoid(y, x, N);
    for (int i = 0; i < N; i++)
        near(y[i], 1 / (1 + exp(-(double)x[i])));
    double sum = 0;
    const float got = p->exponentials(y, x, N, &max);
    for (int i = 0; i < N; i++) {
        near(y[i], exp((double)x[i] - max));
        sum += exp((double)x[i] - max);
    }
    assert_true(max == x[N - 1] && fabs(got / sum - 1) < 1e-6);
    (void)state;
}

/* Beyond every range: no NaN from numbers, and a NaN stays one. */
static void test_extremes(void **state) {
    float x[5] = {-INFINITY, -1e30f, 1e30f, INFINITY, NAN}, y[5];
    const attn_pointwise *p = attn_pointwise_current();
    p->tanh(y, x, 5);
    assert_true(y[0] == -1 && y[1] == -1 && y[2] == 1 && y[3] == 1 && isnan(y[4]));
    p->sigmoid(y, x, 5);
    assert_true(y[0] < 1e-37f && y[1] < 1e-37f && y[2] == 1 && y[3] == 1 && isnan(y[4]));
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
