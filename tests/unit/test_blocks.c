/* Blocks of memory: freed ones are kept and serve again, large ones grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

/* The largest block that is kept, given back and taken twice over: its class is the last one. */
static void test_the_largest_kept_block(void **state) {
    (void)state;
    const size_t sizes[] = {31u << 20, 32u << 20};
    for (size_t i = 0; i < 4; i++) {
        char *p = attn_alloc(sizes[i % 2]), *small = attn_alloc(1 << 15);
        assert_non_null(p);
        assert_non_null(small);
        memset(p, 1, sizes[i % 2]);
        memset(small, 2, 1 << 15);
        assert_int_equal(p[sizes[i % 2] - 1], 1);
        attn_free(p);
        attn_free(small);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void assert_numbers(const uint32_t *at, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (at[i] != (uint32_t)(i * 2654435761u))
            fail_msg("number %zu of %zu is another", i, count);
}
#endif

/* What is in a block is there behind each step; a small one stays what it was. */
static void test_blocks_grow(void **state) {
    (void)state;
    const size_t sizes[] = {300000, 300001, 1 << 20, 5000000, 33 << 20, (33 << 20) + 1, 170 << 20};
    uint32_t *p = attn_block_take(200000);
    assert_null(attn_block_grow(p, 300000));
    assert_null(attn_block_grow(p, SIZE_MAX));
    attn_block_give(p);
    size_t count = 262144 / sizeof *p;
    p = attn_block_take(count * sizeof *p);
    for (size_t i = 0; i < count; i++)
        p[i] = (uint32_t)(i * 2654435761u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_null(attn_block_grow(p, SIZE_MAX));
    assert_null(attn_block_grow(p, (size_t)1 << 60)); /* no such address space: p is as it was */
    assert_numbers(p, count);
    for (size_t step = 0; step < sizeof sizes / sizeof *sizes; step++) {
        p = attn_block_grow(p, sizes[step]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % ATTN_ALIGN, 0);
        assert_true(attn_block_size(p) >= sizes[step]);
        assert_numbers(p, count);
        assert_ptr_equal(attn_block_grow(p, 1), p);
        for (; count < attn_block_size(p) / sizeof *p; count++)
            p[count] = (uint32_t)(count * 2654435761u);
    }
#else
    assert_null(attn_block_grow(p, sizes[0]));
#endif
    attn_block_give(p);
    attn_block_trim(0);
}

/* What is in a block of at most 2 MiB goes into a kept one; pages of a larger one move. */
static void test_blocks_grow_into_kept_ones(void **state) {
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const size_t room = 5000000;
    for (size_t first = 1 << 20; first <= 4 << 20; first *= 4) {
        char *kept = attn_block_take(room);
        uint32_t *p = attn_block_take(first);
        const size_t count = first / sizeof *p;
        attn_block_give(kept);
        for (size_t i = 0; i < count; i++)
            p[i] = (uint32_t)(i * 2654435761u);
        uint32_t *grown = attn_block_grow(p, room);
        assert_non_null(grown);
        assert_int_equal((char *)grown == kept, first <= 2 << 20);
        assert_numbers(grown, count);
        attn_block_give(grown);
        attn_block_trim(0);
    }
#endif
}

/* A freed block serves the next request of about its size, unless a sanitizer watches. */
static void test_blocks_are_kept(void **state) {
    (void)state;
    attn_block_trim(0);
    const size_t sizes[] = {0, 1, 64, 16383, 16384, 16385, 100000, 1 << 20, (1 << 25) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = attn_block_take(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % ATTN_ALIGN, 0);
        assert_true(attn_block_size(p) >= sizes[i]);
        assert_true(attn_block_size(p) <= sizes[i] + sizes[i] / 8 + ATTN_ALIGN);
        memset(p, 1, attn_block_size(p));
        attn_block_give(p);
    }
    attn_block_give(NULL);
    assert_null(attn_block_take(SIZE_MAX));
    attn_block_trim(0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    for (size_t size = (size_t)1 << 13; size <= (size_t)1 << 28; size *= 2) /* around each class */
        for (size_t more = 0; more <= 1; more++) {
            char *p = attn_block_take(size + more), *again;
            assert_non_null(p);
            attn_block_give(p);
            again = attn_block_take(size + more);
            if (size >= 1 << 14 && size + more <= (160 << 20))
                assert_ptr_equal(again, p);
            attn_block_give(again);
        }
    char *first = attn_block_take(100000), *second = attn_block_take(100000);
    attn_block_give(first);
    attn_block_give(second);
    assert_ptr_equal(attn_block_take(99000), second);
    assert_ptr_equal(attn_block_take(99000), first);
    attn_block_give(first);
    attn_block_give(second);
    attn_block_trim((int64_t)3600e9); /* not kept for so long yet */
    assert_ptr_equal(attn_block_take(100000), second);
    attn_block_give(second);
    attn_block_trim(0);
    char *third = attn_block_take(100000), *fourth = attn_block_take(100000);
    first = attn_block_take(100000), second = attn_block_take(100000);
    const size_t step = attn_block_size(first);
    attn_block_limit(3 * step);
    attn_block_give(second), attn_block_give(third), attn_block_give(fourth);
    assert_ptr_equal(attn_block_take(step), fourth);
    attn_block_give(fourth);
    char *large = attn_block_take(2 * step); /* nothing fits beside it */
    memset(large, 1, 2 * step);
    attn_block_give(first), attn_block_give(large);
    assert_ptr_equal(attn_block_take(2 * step), large);
    attn_block_give(large);
    attn_block_limit(SIZE_MAX);
    attn_block_trim(0);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_kept_block),
        cmocka_unit_test(test_blocks_grow),
        cmocka_unit_test(test_blocks_grow_into_kept_ones),
        cmocka_unit_test(test_blocks_are_kept),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
