/* Page caches, on the chosen table: gathered keys and values give the bytes of those that lie in
 * one piece, in both layouts and with any pool; what is out of range is refused by its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

#include "unit/normal_tensor.h"

enum { B = 3, HQ = 4, HKV = 2, L = 5, T = 16, PAGES = 20, N = 12, E = 8, EV = 6 };

typedef struct trial {
    attn_arena *arena;
    attn_inputs in;
    attn_pages pages;
    int32_t table[B * N];
    int64_t lengths[B];
} trial;

/* Entry 1 is a hundred times as long as entry 0. Entries 1 and 2 share their first pages. */
static trial *begin(attn_layout layout) {
    attn_arena *arena = attn_arena_new(1 << 24);
    trial *t = attn_arena_zeroed(arena, 1, sizeof *t);
    *t = (trial){.arena = arena, .in = attn_attention_defaults(), .lengths = {1, 100, 33}};
    t->in.layout = layout;
    t->in.query = layout == ATTN_BHLE ? NORMAL_TENSOR(arena, 1, B, HQ, L, E)
                                      : NORMAL_TENSOR(arena, 1, B, L, HQ, E);
    t->in.key = NORMAL_TENSOR(arena, 2, PAGES, T, HKV, E);
    t->in.value = NORMAL_TENSOR(arena, 3, PAGES, T, HKV, EV);
    for (size_t i = 0; i < B * N; i++) {
        const size_t b = i / N, n = i % N;
        const bool used = n * T < (size_t)t->lengths[b];
        t->table[i] = !used ? -1 : n < 2 ? (int32_t)(PAGES - 1 - n) : (int32_t)((7 * i) % PAGES);
    }
    t->pages.table = attn_tensor_dense(t->table, ATTN_I32, 2, DIMS(B, N));
    t->pages.lengths = attn_tensor_dense(t->lengths, ATTN_I64, 1, DIMS(B));
    return t;
}

static void check_tensor(const trial *t, const attn_tensor *pool, const attn_tensor *found) {
    const int head = t->in.layout == ATTN_BHLE ? 1 : 2, key = 3 - head;
    const size_t width = pool->dims[3];
    static const float zeros[E];
    assert_true(found->dims[0] == B && found->dims[head] == HKV && found->dims[key] == 100);
    for (size_t i = 0; i < (size_t)B * HKV * 100; i++) {
        const size_t b = i / (HKV * 100), h = i / 100 % HKV, j = i % 100;
        const ptrdiff_t at = (ptrdiff_t)b * found->strides[0] +
                             (ptrdiff_t)h * found->strides[head] +
                             (ptrdiff_t)j * found->strides[key];
        const float *want = zeros;
        if (j < (size_t)t->lengths[b])
            want = (const float *)pool->data +
                   (((size_t)t->table[b * N + j / T] * T + j % T) * HKV + h) * width;
        assert_memory_equal((const float *)found->data + at, want, width * sizeof(float));
    }
}

static void test_gathered(void **state) {
    attn_pool *pool = attn_pool_new(3);
    (void)state;
    for (int layout = ATTN_BHLE; layout <= ATTN_BLHE; layout++)
        for (int threads = 0; threads < 2; threads++) {
            trial *t = begin((attn_layout)layout);
            attn_inputs shaped, out;
            attn_error err;
            size_t bytes;
            assert_int_equal(attn_pages_shape(&t->in, &t->pages, &shaped, &bytes, &err), ATTN_OK);
            assert_int_equal(bytes, B * HKV * 100 * (E + EV) * sizeof(float));
            assert_int_equal(attn_pages_gather(&t->in, &t->pages, threads ? pool : NULL, NULL,
                                               t->arena, &out, &err),
                             ATTN_OK);
            assert_memory_equal(out.key.dims, shaped.key.dims, 4 * sizeof(size_t));
            check_tensor(t, &t->in.key, &out.key);
            check_tensor(t, &t->in.value, &out.value);
            attn_arena_free(t->arena);
        }
    attn_pool_free(pool);
}

/* The gradients of pools in both orders of axes, on one thread and on several: each row has the sum
 * over the keys that read it, which are whole numbers here, so that no order rounds them. */
static void test_backward(void **state) {
    attn_pool *pool = attn_pool_new(3);
    (void)state;
    for (int way = 0; way < 8; way++) {
        trial *t = begin(way & 1 ? ATTN_BLHE : ATTN_BHLE);
        const bool turned = way & 2;
        const size_t S = 100;
        attn_gradients grads = {0}, out;
        attn_error err;
        double *want = attn_arena_zeroed(t->arena, PAGES * T * HKV, sizeof *want);
        t->pages.layout = turned ? ATTN_HND : ATTN_NHD;
        t->in.key.dims[1] = turned ? HKV : T, t->in.key.dims[2] = turned ? T : HKV;
        t->in.key = attn_tensor_dense(t->in.key.data, ATTN_F32, 4, t->in.key.dims);
        t->in.value = (attn_tensor){0};
        grads.key = way & 1 ? NORMAL_TENSOR(t->arena, 5, B, S, HKV, E)
                            : NORMAL_TENSOR(t->arena, 5, B, HKV, S, E);
        for (size_t b = 0; b < B; b++)
            for (size_t h = 0; h < HKV; h++)
                for (size_t j = 0; j < S; j++) {
                    float *row = (float *)grads.key.data +
                                 (way & 1 ? (b * S + j) * HKV + h : (b * HKV + h) * S + j) * E;
                    for (size_t e = 0; e < E; e++)
                        row[e] = (float)((b + 2 * h + 3 * j) % 17 + e);
                    const size_t page = (size_t)t->table[b * N + j / T];
                    if (j < (size_t)t->lengths[b])
                        want[(page * T + j % T) * HKV + h] += (double)((b + 2 * h + 3 * j) % 17);
                }
        assert_int_equal(attn_pages_backward(&t->in, &t->pages, &grads, way & 4 ? pool : NULL, NULL,
                                             t->arena, &out, &err),
                         ATTN_OK);
        assert_memory_equal(out.key.dims, t->in.key.dims, 4 * sizeof(size_t));
        assert_int_equal(out.value.rank, 0);
        for (size_t i = 0; i < PAGES * T * HKV; i++) {
            const size_t page = i / (T * HKV), row = i / HKV % T, h = i % HKV;
            const size_t at = turned ? (page * HKV + h) * T + row : i;
            assert_true((double)((const float *)out.key.data)[at * E] == want[i]);
        }
        attn_arena_free(t->arena);
    }
    attn_pool_free(pool);
}

/* Elements of a pool whose last axis is not dense are copied one by one. */
static void test_strides(void **state) {
    (void)state;
    trial *t = begin(ATTN_BHLE);
    attn_inputs out;
    attn_error err;
    attn_tensor *k = &t->in.key;
    k->dims[3] = 4;
    k->strides[3] = 2;
    assert_int_equal(attn_pages_gather(&t->in, &t->pages, NULL, NULL, t->arena, &out, &err),
                     ATTN_OK);
    const float *page = (const float *)k->data + (size_t)t->table[N] * T * HKV * E;
    const float *row = (const float *)out.key.data + (size_t)HKV * 100 * 4;
    for (size_t e = 0; e < 4; e++)
        assert_true(row[e] == page[2 * e]);
    attn_arena_free(t->arena);
}

static void refused(trial *t, attn_status status, const char *where) {
    attn_inputs out;
    attn_error err = {0};
    assert_int_equal(attn_pages_shape(&t->in, &t->pages, &out, NULL, &err), status);
    assert_string_equal(err.where, where);
    attn_arena_free(t->arena);
}

static void test_refused(void **state) {
    (void)state;
    trial *t = begin(ATTN_BHLE);
    t->table[N + 3] = -1; /* entry 1 has keys there */
    refused(t, ATTN_EVALUE, "block_table/1/3");
    t = begin(ATTN_BHLE);
    t->table[2 * N + 2] = PAGES;
    refused(t, ATTN_EVALUE, "block_table/2/2");
    t = begin(ATTN_BHLE);
    t->lengths[2] = N * T + 1;
    refused(t, ATTN_EVALUE, "key_lengths/2");
    t = begin(ATTN_BHLE);
    t->lengths[0] = -1;
    refused(t, ATTN_EVALUE, "key_lengths/0");
    t = begin(ATTN_BHLE);
    t->pages.lengths.dims[0] = 2;
    refused(t, ATTN_ESHAPE, "key_lengths");
    t = begin(ATTN_BHLE);
    t->pages.table.dtype = ATTN_F32;
    refused(t, ATTN_EDTYPE, "block_table");
    t = begin(ATTN_BHLE);
    t->pages.table.dims[0] = 2;
    refused(t, ATTN_ESHAPE, "block_table");
    t = begin(ATTN_BHLE);
    t->in.value.dims[1] = T - 1;
    refused(t, ATTN_ESHAPE, "value");
    t = begin(ATTN_BHLE);
    t->in.key.rank = 3;
    refused(t, ATTN_ESHAPE, "key");
    t = begin(ATTN_BHLE);
    t->in.query.rank = 3;
    refused(t, ATTN_ESHAPE, "query");
    t = begin(ATTN_BHLE);
    t->in.past_key = t->in.query;
    refused(t, ATTN_EARG, "past_key");
    t = begin(ATTN_BLD);
    refused(t, ATTN_EARG, "layout");
    t = begin(ATTN_BHLE);
    t->pages.table.dims[1] = SIZE_MAX / 2;
    refused(t, ATTN_ELIMIT, "block_table");
}

/* What is behind the last key is not read: entries of the table, and pages without rows. */
static void test_unused(void **state) {
    (void)state;
    trial *t = begin(ATTN_BHLE);
    attn_inputs out;
    attn_error err;
    t->table[1] = 1 << 30;
    assert_int_equal(attn_pages_shape(&t->in, &t->pages, &out, NULL, &err), ATTN_OK);
    memset(t->lengths, 0, sizeof t->lengths);
    t->in.key.dims[1] = t->in.value.dims[1] = 0;
    assert_int_equal(attn_pages_gather(&t->in, &t->pages, NULL, NULL, t->arena, &out, &err),
                     ATTN_OK);
    assert_int_equal(out.key.dims[2], 0);
    attn_arena_free(t->arena);
}

static void test_no_memory(void **state) {
    (void)state;
    trial *t = begin(ATTN_BHLE);
    attn_inputs out;
    attn_error err;
    for (size_t limit = 1; limit < 1 << 16; limit *= 4) {
        attn_arena *small = attn_arena_new(limit);
        const attn_status status =
            attn_pages_gather(&t->in, &t->pages, NULL, NULL, small, &out, &err);
        assert_true(status == ATTN_ENOMEM || (status == ATTN_OK && limit >= 33600));
        attn_arena_free(small);
    }
    attn_arena_free(t->arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathered), cmocka_unit_test(test_backward),
        cmocka_unit_test(test_strides),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unused),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
