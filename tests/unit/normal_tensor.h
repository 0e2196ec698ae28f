/* Tensors of random numbers. */
#ifndef NORMAL_TENSOR_H
#define NORMAL_TENSOR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <attn/attn.h>

#define DIMS(...) ((const size_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof(DIMS(__VA_ARGS__)) / sizeof(size_t)))

/* float32, dense, in the arena: the first numbers of attn_rng_normal's row `seed`. */
static inline attn_tensor normal_tensor(attn_arena *arena, uint64_t seed, int rank,
                                        const size_t *dims) {
    attn_tensor x = attn_tensor_dense(NULL, ATTN_F32, rank, dims);
    size_t count;
    assert_true(attn_tensor_count(&x, &count));
    x.data = attn_arena_zeroed(arena, count, sizeof(float));
    assert_non_null(x.data);
    attn_rng_fill_normal(x.data, count, seed, 0);
    return x;
}

#define NORMAL_TENSOR(arena, seed, ...)                                                            \
    normal_tensor(arena, seed, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

#endif
