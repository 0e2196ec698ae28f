/* What the tests of kernels share: random numbers flush against a page that must not be touched,
 * and a turn for each table. A table that the processor lacks is said, not passed over silently. */
#ifndef TESTS_ROUNDS_H
#define TESTS_ROUNDS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "kernels/processor.h"
#include "kernels/x86/tiles.h"
#ifdef __x86_64__
#include "kernels/x86/vectors.h"
#endif

enum { ROUNDS = 60 };

static const attn_kernels *const ref = &attn_kernels_ref;

/* Memory of n bytes whose last byte is the last of its page; the next page is inaccessible. Before
 * that page ATTN_GUARD_SLACK bytes are left: qemu reads all lanes of a masked load. */
typedef struct guarded {
    char *base;
    size_t total;
    void *data;
} guarded;

static inline guarded guarded_new(size_t n) {
    const char *slack_text = getenv("ATTN_GUARD_SLACK");
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (n + page - 1) / page * page + page;
    size_t slack = slack_text ? strtoul(slack_text, NULL, 10) : 0;
    guarded g = {.total = used + page};
    g.base = mmap(NULL, g.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.base != MAP_FAILED);
    assert_int_equal(mprotect(g.base + used, page, PROT_NONE), 0);
    g.data = g.base + used - n - slack;
    return g;
}

static inline void guarded_free(guarded *g) {
    munmap(g->base, g->total);
}

/* The same random numbers as floats (guarded) and doubles. */
typedef struct numbers {
    guarded f;
    double *d;
    size_t n;
} numbers;

static inline numbers numbers_new(size_t n, uint64_t seed, double gain) {
    numbers x = {guarded_new(n * sizeof(float)), attn_alloc((n + 1) * sizeof(double)), n};
    assert_non_null(x.d);
    for (size_t i = 0; i < n; i++) {
        ((float *)x.f.data)[i] = (float)(gain * attn_rng_normal(seed, i));
        x.d[i] = (double)((float *)x.f.data)[i];
    }
    return x;
}

static inline void numbers_free(numbers *x) {
    guarded_free(&x->f);
    attn_free(x->d);
}

static inline size_t pick(uint64_t seed, uint64_t at, size_t n) {
    return (size_t)(attn_rng_bits(seed, at) % n);
}

static inline void *tile_of(const attn_kernels *k, size_t rows) {
    void *p = attn_alloc(rows * k->keys * k->elem);
    assert_non_null(p);
    return p;
}

/* How much further off the weight of a score may be where exponentials are coarse (simd_exp.h). */
static inline double coarse_error(const attn_kernels *k, double score) {
    return k->precision == ATTN_PRECISION_FP32 ? 0 : 2.9e-6 + 1.4e-8 * fabs(score);
}

static inline void near(double got, double want, double scale, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fmax(scale, fabs(want)))) {
        print_error("got %.9g, want %.9g\n", got, want);
        fail();
    }
}

#ifdef __x86_64__
/* The tables of three-part tile products, of float32's accuracy. */
static inline void each_tile_table(void (*round)(const attn_kernels *, uint64_t)) {
    void (*const fill[])(attn_kernels *, attn_precision) = {
        attn_kernels_tiles_plain, attn_kernels_tiles_avx512bf16, attn_kernels_tiles_amx};
    const bool runs[] = {attn_kernels_vector() != NULL,
                         attn_isa_available(ATTN_ISA_AVX512) &&
                             __builtin_cpu_supports("avx512bf16"),
                         attn_isa_available(ATTN_ISA_AMX)};
    for (int i = 0; i < 3; i++) {
        if (!runs[i]) {
            printf("not run: %s\n",
                   (const char *[]){"plain tiles", "avx512_bf16 tiles", "amx tiles"}[i]);
            continue;
        }
        attn_kernels k = *attn_kernels_vector();
        fill[i](&k, ATTN_PRECISION_FP32);
        for (uint64_t seed = 0; seed < ROUNDS; seed++)
            round(&k, seed * 100);
    }
}
#endif

static inline void each_table(void (*round)(const attn_kernels *, uint64_t)) {
    for (int isa = ATTN_ISA_AVX2; isa < ATTN_ISA_AMX; isa++) {
        if (!attn_isa_available((attn_isa)isa)) {
            printf("not run: %s\n", attn_isa_name((attn_isa)isa));
            continue;
        }
        for (uint64_t seed = 0; seed < ROUNDS; seed++) {
            round(attn_kernels_of((attn_isa)isa), seed * 100);
            round(attn_kernels_with((attn_isa)isa, ATTN_PRECISION_FAST, false), seed * 100);
        }
    }
#ifdef __x86_64__
    each_tile_table(round);
#endif
}

#define OVER_TABLES(name, round)                                                                   \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        each_table(round);                                                                         \
    }

#endif
