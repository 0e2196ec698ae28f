/* Block formats: the values of random blocks are those of PyPI's gguf, bit for bit
 * (tests/tools/block-cases). */
#include "kernels/blocks.h"

#include <attn/memory.h>
#include <attn/safetensors.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static attn_safetensors recorded;
static void *bytes;

static const attn_tensor *find(const char *format, const char *what) {
    char name[32];
    snprintf(name, sizeof name, "%s/%s", format, what);
    for (size_t i = 0; i < recorded.count; i++)
        if (strcmp(recorded.tensors[i].name, name) == 0)
            return &recorded.tensors[i].tensor;
    fail_msg("no %s among the recorded blocks", name);
    return NULL;
}

/* NaN is NaN, whichever bits it has. */
static bool same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check(const char *name) {
    const attn_block_format *f = attn_block_format_named(name);
    const attn_tensor *blocks = find(name, "blocks"), *values = find(name, "values");
    assert_non_null(f);
    assert_ptr_equal(attn_block_format_of(f->type), f);
    assert_int_equal(blocks->dims[1], f->bytes);
    assert_int_equal(values->dims[1], f->values);
    const size_t count = values->dims[0] * values->dims[1];
    float *widened = attn_alloc(count * sizeof *widened);
    assert_non_null(widened);
    attn_blocks_widen(widened, f, blocks->data, count);
    for (size_t i = 0; i < count; i++) {
        const float wanted = ((const float *)values->data)[i];
        if (!same(widened[i], wanted))
            fail_msg("%s: value %zu is %a, not %a", name, i, (double)widened[i], (double)wanted);
    }
    attn_free(widened);
}

static void test_recorded(void **state) {
    static const char *const names[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                        "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(names[i]);
    (void)state;
}

/* Numbers of types that are not read, and one that no type has. */
static void test_unknown(void **state) {
    assert_null(attn_block_format_of(9)); /* Q8_1 */
    assert_null(attn_block_format_of(UINT32_MAX));
    assert_null(attn_block_format_named("Q4_2"));
    (void)state;
}

static int read_recorded(void **state) {
    const char *path = getenv("ATTN_BLOCK_CASES");
    FILE *f = fopen(path ? path : "tests/unit/blocks_gguf.safetensors", "rb");
    attn_arena *arena = attn_arena_new(1 << 20);
    if (!f || !arena || fseek(f, 0, SEEK_END))
        return -1;
    const size_t size = (size_t)ftell(f);
    bytes = attn_alloc(size);
    if (!bytes || fseek(f, 0, SEEK_SET) || fread(bytes, 1, size, f) != size)
        return -1;
    fclose(f);
    *state = arena;
    return attn_safetensors_read(bytes, size, arena, &recorded, NULL) == ATTN_OK ? 0 : -1;
}

static int forget_recorded(void **state) {
    attn_arena_free(*state);
    attn_free(bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
