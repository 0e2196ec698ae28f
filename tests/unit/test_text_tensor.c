/* Tensors as text: every case that NumPy printed (tests/oracle/text_cases.py), strides, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "attn/print.h"

typedef struct text_case {
    attn_dtype dtype;
    int rank;
    size_t dims[ATTN_MAX_RANK];
    size_t elements;
    const char *bytes;
    const char *expected;
    unsigned print;
} text_case;

static const text_case cases[] = {
#include "unit/text_tensor_cases.inc"
};

static void check_case(const text_case *c) {
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_tensor t = attn_tensor_dense(NULL, c->dtype, c->rank, c->dims);
    size_t count, size = attn_dtype_size(c->dtype);
    assert_true(attn_tensor_count(&t, &count));
    char *data = malloc(count * size + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(data + i * size, c->bytes + i % c->elements * size, size);
    t.data = data;
    attn_text text = {.arena = arena};
    attn_text_tensor(&text, &t, c->print);
    assert_false(text.failed);
    assert_string_equal(text.data, c->expected);
    assert_int_equal(text.size, strlen(c->expected));
    free(data);
    attn_arena_free(arena);
}

static void test_prints_as_numpy(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

static void test_strides(void **state) {
    (void)state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    size_t dims[2] = {3, 2};
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_tensor t = attn_tensor_dense(data, ATTN_F32, 2, dims);
    attn_text text = {.arena = arena};
    t.strides[0] = 1, t.strides[1] = 3; /* the transpose of [2, 3] */
    attn_text_tensor(&text, &t, 0);
    assert_string_equal(text.data, "[[1. 4.]\n [2. 5.]\n [3. 6.]]");
    text = (attn_text){.arena = arena};
    t.strides[0] = 0, t.strides[1] = 0, t.data = &data[5];
    attn_text_tensor(&text, &t, 0);
    assert_string_equal(text.data, "[[6. 6.]\n [6. 6.]\n [6. 6.]]");
    attn_arena_free(arena);
}

static void test_bfloat16_prints_its_own_digits(void **state) {
    (void)state;
    uint16_t data[3] = {0x3dcd, 0x4049, 0x3f80}; /* next to 0.1, pi, 1 */
    size_t dims[1] = {3};
    attn_arena *arena = attn_arena_new(SIZE_MAX);
    attn_tensor t = attn_tensor_dense(data, ATTN_BF16, 1, dims);
    attn_text text = {.arena = arena};
    attn_text_tensor(&text, &t, 0);
    assert_string_equal(text.data, "[0.1  3.14 1.  ]");
    attn_arena_free(arena);
}

/* Out of memory is said once and stays said; nothing is written beyond the room. */
static void test_out_of_memory(void **state) {
    (void)state;
    float data[900] = {0};
    size_t dims[2] = {90, 10}, need = SIZE_MAX;
    attn_tensor t = attn_tensor_dense(data, ATTN_F32, 2, dims);
    for (int step = -1; step < 30; step++) {
        attn_arena *arena = attn_arena_new(step < 0 ? SIZE_MAX : (size_t)step * 512);
        attn_text text = {.arena = arena};
        attn_text_tensor(&text, &t, 0);
        attn_text_add(&text, "%s", "more");
        assert_int_equal(text.failed, step >= 0 && attn_arena_limit(arena) < need);
        assert_true(!text.data || strlen(text.data) == text.size);
        if (step < 0)
            need = attn_arena_used(arena);
        attn_arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prints_as_numpy),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_bfloat16_prints_its_own_digits),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
