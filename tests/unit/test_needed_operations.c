/* Admission predicts the time of a request from the operations of the cells that its pass computes,
 * and not from those that a pattern, a window or a causal mask skips (srv_attention_needed). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/attention/attention_call.h"
#include "unit/normal_tensor.h"

enum { L = 2048, E = 16, LIMIT = 1 << 26 };

/* Returns the operations for self-attention of one head with the layers of a mask, as a share of
 * those of all cells. */
static double share(const attn_mask_layer *layers, size_t count) {
    srv_request req = {.arena = attn_arena_new(LIMIT)};
    attn_inputs in = attn_attention_defaults();
    srv_attention_call call = {.call.req = &req, .body.operation.shaped = &in};
    attn_error err;
    assert_non_null(req.arena);
    in.query = in.key = in.value = NORMAL_TENSOR(req.arena, 1, L, E);
    for (size_t i = 0; i < count; i++)
        in.mask.layers[in.mask.count++] = layers[i];
    assert_int_equal(attn_attention_shape(&in, &call.body.operation.dims, &err), ATTN_OK);
    const double cells = (double)L * L, all = cells * 4 * E;
    const srv_attention_bill bill = {.cells = cells, .operations = all};
    const double needed = srv_attention_needed(&call, &bill);
    attn_arena_free(req.arena);
    return needed / all;
}

static void test_what_is_skipped(void **state) {
    const attn_mask_layer causal = {.kind = ATTN_LAYER_CAUSAL};
    const attn_mask_layer block = {.kind = ATTN_LAYER_PATTERN,
                                   .pattern = {.kind = ATTN_PATTERN_BLOCK, .size = 256}};
    const attn_mask_layer global = {
        .kind = ATTN_LAYER_PATTERN,
        .pattern = {.kind = ATTN_PATTERN_GLOBAL, .num_keys = 16, .local = 64}};
    const attn_mask_layer strided = {
        .kind = ATTN_LAYER_PATTERN,
        .pattern = {.kind = ATTN_PATTERN_STRIDED, .stride = 64, .local = 8}};
    uint8_t real[L] = {0};
    const attn_mask_layer padding = {
        .kind = ATTN_LAYER_PADDING,
        .values = {.data = real, .dtype = ATTN_BOOL, .rank = 1, .dims = {L}, .strides = {1}},
        .semantics = ATTN_SEM_KEEP};
    (void)state;
    assert_true(share(NULL, 0) == 1);
    assert_true(share(&padding, 1) == 1); /* the pass looks at padded keys */
    assert_in_range((uintmax_t)(1000 * share(&causal, 1)), 500, 520);
    assert_in_range((uintmax_t)(1000 * share(&block, 1)), 125, 190); /* 256 of 2048 keys */
    assert_in_range((uintmax_t)(1000 * share(&global, 1)), 70, 150); /* 145 keys */
    assert_in_range((uintmax_t)(1000 * share(&strided, 1)), 23, 85); /* 48 keys */
    const attn_mask_layer both[] = {padding, block};
    assert_true(share(both, 2) == share(&block, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
