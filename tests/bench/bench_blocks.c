/* Products with weights in blocks beside OpenBLAS's product of the widened weights, on one thread:
 * milliseconds, and bytes of weights a second. A sweep goes over copies of a matrix that together
 * do not fit the caches, as the matrices of a model do. */
#include <attn/attn.h>
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/blocks.h"

enum { SWEEPS = 5, OUT_OF_CACHE = 96 << 20 };

/* Time of the thread on a processor, which other programs do not lengthen. */
static int64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *take(size_t bytes) {
    void *p = attn_alloc(bytes);
    if (!p)
        exit(1);
    return p;
}

static size_t copies_of(size_t bytes) {
    return bytes < OUT_OF_CACHE ? OUT_OF_CACHE / bytes : 1;
}

/* Milliseconds of one product, the best of some sweeps over all copies. */
static double time_blocks(float *y, const float *x, size_t rows, const attn_block_matrix *w,
                          size_t bytes) {
    const size_t copies = copies_of(bytes);
    char *blocks = take(copies * bytes);
    double best = 1e9;
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (char)(attn_rng_bits(1, i) & (i % 2 ? 0x3b : 0xff));
    for (size_t c = 1; c < copies; c++)
        memcpy(blocks + c * bytes, blocks, bytes);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const int64_t start = thread_ns();
        for (size_t c = 0; c < copies; c++) {
            const attn_block_matrix one = {w->format, blocks + c * bytes, w->out, w->in};
            attn_blocks_product(y, w->out, x, w->in, rows, &one, 0, w->out, 0);
        }
        const double ms = (double)(thread_ns() - start) / 1e6 / (double)copies;
        best = ms < best ? ms : best;
    }
    attn_free(blocks);
    return best;
}

static double time_floats(float *y, const float *x, size_t rows, size_t out, size_t in) {
    const size_t copies = copies_of(out * in * sizeof *x);
    float *weights = take(copies * out * in * sizeof *weights);
    double best = 1e9;
    attn_rng_fill_normal(weights, out * in, 3, 0);
    for (size_t c = 1; c < copies; c++)
        memcpy(weights + c * out * in, weights, out * in * sizeof *weights);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const int64_t start = thread_ns();
        for (size_t c = 0; c < copies; c++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows, (blasint)out,
                        (blasint)in, 1, x, (blasint)in, weights + c * out * in, (blasint)in, 0, y,
                        (blasint)out);
        const double ms = (double)(thread_ns() - start) / 1e6 / (double)copies;
        best = ms < best ? ms : best;
    }
    attn_free(weights);
    return best;
}

static void bench(const char *name, size_t out, size_t in, const size_t *rows, size_t count) {
    const attn_block_format *f = attn_block_format_named(name);
    const attn_block_matrix w = {f, NULL, out, in};
    const size_t bytes = out * (in / f->values) * f->bytes;
    for (size_t r = 0; r < count; r++) {
        float *x = take(rows[r] * in * sizeof *x), *y = take(rows[r] * out * sizeof *y);
        attn_rng_fill_normal(x, rows[r] * in, 2, 0);
        const double ms = time_blocks(y, x, rows[r], &w, bytes),
                     floats = time_floats(y, x, rows[r], out, in);
        printf("%-5s %5zu x %4zu, %3zu rows: %8.3f ms, %5.1f GB/s, %6.1f GFLOP/s;  sgemm %8.3f ms, "
               "%.2f times\n",
               name, out, in, rows[r], ms, (double)bytes / ms / 1e6,
               2e-6 * (double)(rows[r] * out * in) / ms, floats, floats / ms);
        fflush(stdout);
        attn_free(x), attn_free(y);
    }
}

/* bench_blocks [FORMAT OUT IN ROWS] */
int main(int argc, char **argv) {
    static const size_t rows[] = {1, 2, 8, 128, 512};
    enum { COUNT = sizeof rows / sizeof *rows };
    openblas_set_num_threads(1);
    printf("%s, %s\n", attn_isa_name(attn_isa_current()), openblas_get_config());
    if (argc == 5) {
        const size_t wanted = strtoul(argv[4], NULL, 10);
        bench(argv[1], strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), &wanted, 1);
        return 0;
    }
    bench("Q4_1", 576, 576, rows, COUNT);
    bench("Q4_1", 1536, 576, rows, COUNT);
    bench("Q4_1", 576, 1536, rows, COUNT);
    bench("Q8_0", 49152, 576, rows, COUNT);
    return 0;
}
