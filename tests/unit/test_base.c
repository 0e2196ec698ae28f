/* The base room: status, sizes, arena, views and element types. Pool: test_pool.c. Blocks:
 * test_blocks.c. */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "base/fill.h"

static void test_fail(void **state) {
    attn_error err;
    (void)state;
    assert_int_equal(attn_fail(&err, ATTN_ESHAPE, "query", "%d axes", 3), ATTN_ESHAPE);
    assert_string_equal(err.where, "query");
    assert_string_equal(err.text, "3 axes");
    assert_int_equal(attn_fail(NULL, ATTN_ENOMEM, "", "x"), ATTN_ENOMEM);
    for (int code = 0; code <= ATTN_ENONFINITE; code++)
        assert_string_not_equal(attn_status_name((attn_status)code), "unknown");
}

static void test_sizes(void **state) {
    size_t n = 7;
    (void)state;
    assert_false(attn_size_mul(SIZE_MAX / 2, 3, &n));
    assert_false(attn_size_add(SIZE_MAX, 1, &n));
    assert_int_equal(n, 7);
    assert_true(attn_size_mul(6, 7, &n) && n == 42);
}

static void test_arena(void **state) {
    attn_arena *arena = attn_arena_new(1 << 20);
    (void)state;
    assert_non_null(arena);
    for (size_t i = 1; i < 3000; i += 37) {
        char *p = attn_arena_take(arena, i), *s = attn_arena_small(arena, i);
        assert_int_equal((uintptr_t)p % ATTN_ALIGN, 0);
        assert_int_equal((uintptr_t)s % 16, 0);
        memset(p, 1, i);
        memset(s, 2, i);
        assert_int_equal(p[i - 1], 1);
    }
    assert_string_equal(attn_arena_text(arena, "query", 3), "que");
    size_t used = attn_arena_used(arena);
    char *big = attn_arena_take(arena, 300000);
    assert_non_null(big);
    attn_arena_shrink(arena, big, 1000);
    assert_int_equal(attn_arena_used(arena), used + 1000);
    char *first = attn_arena_small(arena, 64), *second = attn_arena_small(arena, 64);
    attn_arena_shrink(arena, first, 16); /* no longer the last: nothing happens */
    assert_int_equal(attn_arena_used(arena), used + 1128);
    attn_arena_shrink(arena, second, 32);
    assert_int_equal(attn_arena_used(arena), used + 1096);
    assert_null(attn_arena_take(arena, 1 << 20));
    assert_null(attn_arena_take(arena, SIZE_MAX));
    assert_null(attn_arena_zeroed(arena, SIZE_MAX / 2, 3));
    attn_arena_set_limit(arena, 4 << 20);
    assert_non_null(attn_arena_take(arena, 1 << 20));
    attn_arena_free(arena);
}

static int takes;
static void *counting_take(size_t size) {
    takes++;
    return aligned_alloc(ATTN_ALIGN, (size + 63) / 64 * 64);
}

/* Bytes of all blocks. */
static size_t held;
static void *sum_take(size_t size) {
    size_t *p = aligned_alloc(ATTN_ALIGN, (size + ATTN_ALIGN + 63) / 64 * 64);
    if (!p)
        return NULL;
    *p = size;
    held += size;
    return (char *)p + ATTN_ALIGN;
}
static void sum_give(void *block) {
    size_t *p = (size_t *)(void *)((char *)block - ATTN_ALIGN);
    held -= *p;
    free(p);
}

static void test_arena_reserve(void **state) {
    (void)state;
    attn_set_allocator(counting_take, free);
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(arena);
    memset(attn_arena_small(arena, 100), 1, 100);
    assert_true(attn_arena_reserve(arena, 600000));
    size_t used = attn_arena_used(arena);
    assert_int_equal(used, 100);
    takes = 0;
    for (int i = 0; i < 6; i++)
        memset(attn_arena_take(arena, 99968), i, 99968);
    assert_true(attn_arena_reserve(arena, 0));
    assert_int_equal(takes, 0);
    assert_null(attn_arena_take(arena, 1 << 20)); /* the limit holds as before */
    assert_false(attn_arena_reserve(arena, SIZE_MAX));
    assert_non_null(attn_arena_take(arena, 300000));
    assert_int_equal(takes, 1);
    attn_arena_free(arena);
    attn_set_allocator(NULL, NULL);
}

/* An empty arena does not keep memory that is too small beside the memory that is reserved. */
static void test_arena_reserve_empty(void **state) {
    (void)state;
    attn_set_allocator(sum_take, sum_give);
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(arena);
    assert_non_null(attn_arena_take(arena, 300000));
    attn_arena_reset(arena);
    assert_true(attn_arena_reserve(arena, 400000));
    assert_in_range(held, 400000, 420000);
    assert_non_null(attn_arena_take(arena, 390000));
    assert_in_range(held, 400000, 420000);
    attn_arena_free(arena);
    assert_int_equal(held, 0);
    attn_set_allocator(NULL, NULL);
}

/* What was taken before the mark stays as it is; the rest can be taken again, and no more. */
static void test_arena_rewind(void **state) {
    (void)state;
    for (size_t before = 0; before < 3; before++) {
        attn_arena *arena = attn_arena_new(1 << 20);
        assert_non_null(arena);
        char *kept = before ? attn_arena_take(arena, before * 9000) : NULL;
        if (before)
            memset(kept, 7, before * 9000);
        const attn_arena_mark mark = attn_arena_here(arena);
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < 40; i++)
                memset(attn_arena_take(arena, i * 640), round, i * 640);
            assert_null(attn_arena_take(arena, 1 << 20));
            attn_arena_rewind(arena, &mark);
            assert_int_equal(attn_arena_used(arena), before * 9000);
        }
        for (size_t i = 0; i < before * 9000; i++)
            assert_int_equal(kept[i], 7);
        assert_non_null(attn_arena_take(arena, (1 << 20) - before * 9000));
        attn_arena_free(arena);
    }
}

/* The place before the next aligned block is no room. */
static void test_arena_reserve_aligned(void **state) {
    (void)state;
    attn_set_allocator(counting_take, free);
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(arena);
    assert_non_null(attn_arena_small(arena, 16));
    assert_true(attn_arena_reserve(arena, 16384 - 16));
    const int before = takes;
    assert_non_null(attn_arena_take(arena, 16384 - 16));
    assert_int_equal(takes, before);
    attn_arena_free(arena);
    attn_set_allocator(NULL, NULL);
}

/* A second round after a reset takes nothing, however the first was made up, and the limit holds.
 */
static void test_arena_reset(void **state) {
    (void)state;
    attn_set_allocator(counting_take, free);
    attn_arena *arena = attn_arena_new(1 << 20);
    assert_non_null(arena);
    attn_arena_reset(arena);
    for (int round = 0; round < 4; round++) {
        takes = 0;
        for (size_t i = 1; i < 40; i++)
            memset(attn_arena_take(arena, i * 640), round, i * 640);
        assert_int_equal(attn_arena_used(arena), 640 * 780);
        assert_null(attn_arena_take(arena, 1 << 20));
        assert_true(round == 0 ? takes > 3 : takes == 0);
        attn_arena_reset(arena);
        assert_int_equal(attn_arena_used(arena), 0);
    }
    attn_arena_free(arena);
    attn_set_allocator(NULL, NULL);
}

static int takes_left;
static void *failing_take(size_t size) {
    return takes_left-- > 0 ? aligned_alloc(ATTN_ALIGN, (size + 63) / 64 * 64) : NULL;
}

/* Fail the n-th allocation of a whole attention run, for n = 0, 1, … until none fails. */
static void test_every_allocation_fails_once(void **state) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    size_t dims[] = {2, 3};
    int n = 0;
    attn_status status = ATTN_ENOMEM;
    (void)state;
    for (; status != ATTN_OK && n < 1000; n++) {
        attn_error err;
        attn_attention *a;
        attn_results out;
        attn_inputs in = attn_attention_defaults();
        in.query = attn_tensor_dense(x, ATTN_F32, 2, dims);
        takes_left = n;
        attn_set_allocator(failing_take, free);
        attn_arena *arena = attn_arena_new(1 << 24);
        status = ATTN_ENOMEM;
        if (arena && (status = attn_attention_new(&in, arena, &a, &err)) == ATTN_OK)
            status = attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS, ATTN_STAGE_PROBS,
                                        NULL, NULL, arena, &out, &err);
        assert_true(status == ATTN_OK || status == ATTN_ENOMEM);
        attn_arena_free(arena);
        attn_set_allocator(NULL, NULL);
    }
    assert_int_equal(status, ATTN_OK);
    assert_true(n > 3);
}

static void test_shapes(void **state) {
    size_t dims[] = {2, 0, 4}, n;
    char text[128];
    attn_dtype dtype;
    (void)state;
    attn_tensor t = attn_tensor_dense(NULL, ATTN_F32, 3, dims);
    assert_true(attn_tensor_count(&t, &n) && n == 0);
    assert_true(attn_tensor_is_dense(&t));
    t = attn_tensor_dense(NULL, ATTN_F32, 3, (size_t[]){0, (size_t)1 << 40, (size_t)1 << 40});
    assert_true(attn_tensor_is_dense(&t)); /* also where strides wrap (UBSan) */
    t = attn_tensor_dense(NULL, ATTN_F32, 3, dims);
    t.dims[1] = 3;
    t.strides[0] = 0;
    assert_false(attn_tensor_is_dense(&t));
    assert_string_equal(attn_shape_text(dims, 3, text, sizeof text), "[2, 0, 4]");
    assert_string_equal(attn_shape_text(dims, 0, text, sizeof text), "[]");
    assert_string_equal(attn_shape_text(dims, 3, text, 4), "[2,");
    assert_true(attn_dtype_parse("bfloat16", &dtype) && dtype == ATTN_BF16);
    assert_false(attn_dtype_parse("float", &dtype));
    t.dims[0] = t.dims[1] = t.dims[2] = SIZE_MAX / 2;
    assert_false(attn_tensor_count(&t, &n));
}

/* All 65,536 halves survive a round trip; widening agrees with the definition of the format. */
static void test_halves(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h, back;
        float f;
        attn_widen_f32(&f, &half, ATTN_F16, 1, 1);
        int exponent = (int)(h >> 10 & 31);
        double fraction = (h & 1023) / 1024.0;
        double value = exponent == 0 ? ldexp(fraction, -14) : ldexp(1 + fraction, exponent - 15);
        if (exponent == 31)
            assert_true(fraction == 0 ? isinf(f) : isnan(f));
        else
            assert_true((double)f == (h & 0x8000 ? -value : value));
        attn_narrow_f16(&back, &f, 1);
        if (!isnan(f))
            assert_int_equal(back, half);
    }
    const float cases[] = {65519.0f,   65520.0f,       0x1p-25f,
                           0x1.8p-25f, 1.00048828125f, 1.00146484375f};
    const uint16_t halves[] = {0x7bff, 0x7c00, 0, 1, 0x3c00, 0x3c02};
    uint16_t got[6];
    attn_narrow_f16(got, cases, 6);
    assert_memory_equal(got, halves, sizeof got);
}

static void test_widen(void **state) {
    int64_t i64[] = {1, -2, 3};
    uint16_t bf16[] = {0x3f80, 0xc000};
    double d[3];
    float f[3];
    (void)state;
    attn_widen_f64(d, i64, ATTN_I64, 2, 2);
    assert_true(d[0] == 1 && d[1] == 3);
    attn_widen_f32(f, bf16, ATTN_BF16, 1, 2);
    assert_true(f[0] == 1 && f[1] == -2);
    attn_widen_f32(f, i64, ATTN_I64, 0, 3);
    assert_true(f[2] == 1);
}

/* With ATTN_FILL, memory that an arena hands out again is new as well. */
static void test_new_memory_is_filled(void **state) {
    (void)state;
    const int before = attn_fill_byte;
    attn_arena *arena = attn_arena_new(1 << 20);
    const attn_arena_mark mark = attn_arena_here(arena);
    for (attn_fill_byte = 7; attn_fill_byte < 9; attn_fill_byte++) {
        unsigned char *p = attn_arena_take(arena, 100), *block = attn_alloc(5000);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(p[i], attn_fill_byte);
        for (size_t i = 0; i < 5000; i++)
            assert_int_equal(block[i], attn_fill_byte);
        memset(p, 1, 100);
        attn_free(block);
        attn_arena_rewind(arena, &mark);
    }
    attn_fill_byte = before;
    attn_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_memory_is_filled),
        cmocka_unit_test(test_arena_reset),
        cmocka_unit_test(test_arena_rewind),
        cmocka_unit_test(test_arena_reserve_aligned),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_reserve),
        cmocka_unit_test(test_arena_reserve_empty),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_widen),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
