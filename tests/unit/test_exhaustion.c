/* The library when memory runs out: for n = 1, 2, … the n-th allocation fails, once alone and once
 * with all after it, until none is left to fail. Each time the answer is ATTN_ENOMEM, or the result
 * is the same as ever; and nothing stays allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "heatmap_source.h"
#include "io/seal.h"

static atomic_size_t taken, live, first, last, failed;

static void *take(size_t size) {
    size_t n = atomic_fetch_add(&taken, 1) + 1;
    if (n >= first && n <= last) {
        atomic_fetch_add(&failed, 1);
        return NULL;
    }
    void *p = aligned_alloc(ATTN_ALIGN, (size + ATTN_ALIGN) / ATTN_ALIGN * ATTN_ALIGN);
    atomic_fetch_add(&live, p != NULL);
    return p;
}

static void give(void *p) {
    atomic_fetch_sub(&live, 1);
    free(p);
}

/* One piece of work; on ATTN_OK *sum tells its result. */
typedef attn_status work(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err);

static attn_status attempt(work *run, size_t from, size_t to, attn_pool *pool, double *sum) {
    attn_error err = {0};
    taken = failed = 0;
    last = to;
    first = from;
    attn_arena *arena = attn_arena_new(64 << 20);
    attn_status status = arena ? run(arena, pool, sum, &err) : ATTN_ENOMEM;
    attn_arena_free(arena);
    first = SIZE_MAX;
    return status;
}

static void sweep(work *run, bool with_pool) {
    double wanted = 0, sum;
    attn_pool *pool = with_pool ? attn_pool_new(2) : NULL;
    attn_set_allocator(take, give);
    assert_int_equal(attempt(run, SIZE_MAX, SIZE_MAX, pool, &wanted), ATTN_OK);
    for (int on = 0; on < 2; on++)
        for (size_t n = 1;; n++) {
            sum = 0;
            attn_status status = attempt(run, n, on ? SIZE_MAX : n, pool, &sum);
            if (live)
                fail_msg("allocation %zu: %zu blocks are left", n, (size_t)live);
            if (status == ATTN_OK ? sum != wanted : status != ATTN_ENOMEM || !failed)
                fail_msg("allocation %zu: status %d, %g, not %g", n, (int)status, sum, wanted);
            if (!failed)
                break;
        }
    attn_set_allocator(NULL, NULL);
    attn_pool_free(pool);
}

static double sum_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] == x[i] ? x[i] : 0;
    return sum;
}

enum { H = 8, L = 40, S = 50, E = 8 };
static float q[H * L * E], k[H * S * E], v[H * S * E];

static attn_inputs inputs(void) {
    static const size_t left[] = {1, H, L, E}, right[] = {1, H, S, E};
    attn_inputs in = attn_attention_defaults();
    in.query = attn_tensor_dense(q, ATTN_F32, 4, left);
    in.key = attn_tensor_dense(k, ATTN_F32, 4, right);
    in.value = attn_tensor_dense(v, ATTN_F32, 4, right);
    in.mask.layers[in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    return in;
}

static attn_status run_attention(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err) {
    attn_inputs in = inputs();
    attn_attention *a;
    attn_results out;
    attn_status status = attn_attention_new(&in, arena, &a, err);
    status = status
                 ? status
                 : attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP,
                                      ATTN_STAGE_RAW, pool, NULL, arena, &out, err);
    if (!status)
        *sum = sum_of(out.output.data, H * L * E) + sum_of(out.weights.data, H * L * S);
    return status;
}

static attn_status run_cells(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err) {
    attn_inputs in = inputs();
    attn_attention *a;
    attn_results out;
    attn_verification found;
    float cells[4 * 5];
    const attn_range part = {.head = 1, .row = 20, .rows = 4, .col = 3, .cols = 5};
    attn_status status = attn_attention_new(&in, arena, &a, err);
    status = status ? status
                    : attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP, ATTN_STAGE_RAW,
                                         pool, NULL, arena, &out, err);
    if (status)
        return status;
    attn_cells_scratch *scratch = attn_cells_scratch_new(a, arena);
    if (!scratch)
        return ATTN_ENOMEM;
    status = attn_attention_cells(a, &out.stats, &part, ATTN_STAGE_PROBS, cells, 5, scratch, err);
    status = status ? status : attn_attention_verify(a, &out, 3, 7, NULL, arena, &found, err);
    if (!status)
        *sum = sum_of(cells, 20) + found.output_error;
    return status;
}

static attn_status run_gradients(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err) {
    attn_inputs in = inputs();
    attn_attention *a;
    attn_results out;
    attn_gradients grads;
    attn_status status = attn_attention_new(&in, arena, &a, err);
    status = status ? status
                    : attn_attention_run(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, pool, NULL, arena,
                                         &out, err);
    status = status ? status
                    : attn_attention_backward(a, &out, &in.query, pool, NULL, arena, &grads, err);
    if (!status)
        *sum = sum_of(grads.query.data, H * L * E) + sum_of(grads.key.data, H * S * E);
    return status;
}

static attn_status run_with_gradients(attn_arena *arena, attn_pool *pool, double *sum,
                                      attn_error *err) {
    attn_inputs in = inputs();
    attn_attention *a;
    attn_results out;
    attn_gradients grads;
    attn_status status = attn_attention_new(&in, arena, &a, err);
    status = status ? status
                    : attn_attention_run_backward(a, ATTN_WANT_OUTPUT, ATTN_STAGE_RAW, &in.query,
                                                  pool, NULL, arena, &out, &grads, err);
    if (!status)
        *sum = sum_of(out.output.data, H * L * E) + sum_of(grads.key.data, H * S * E);
    return status;
}

static attn_status run_heatmap(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err) {
    matrix m = matrix_new(1, H, L, S, 0.2, 5);
    attn_weight_source source = source_of(&m);
    attn_heatmap_options options = attn_heatmap_defaults();
    attn_heatmaps maps;
    options.max_cells = 64;
    options.top_k = 2;
    attn_status status = attn_heatmap_build(&source, &options, pool, NULL, arena, &maps, err);
    if (!status)
        *sum = sum_of(maps.items[1].max, maps.items[1].shape[0] * maps.items[1].shape[1]);
    free(m.weights);
    free(m.logits);
    return status;
}

static attn_status run_files(attn_arena *arena, attn_pool *pool, double *sum, attn_error *err) {
    attn_inputs in = inputs();
    attn_named_tensor tensors[] = {{"query", in.query}, {"a.b", in.key}};
    attn_metadata metadata[] = {{"request", "{\"is_causal\":true}"}};
    attn_safetensors whole = {.tensors = tensors,
                              .count = 2,
                              .metadata = metadata,
                              .metadata_count = 1},
                     back;
    const void *header;
    size_t size, bytes = sizeof q + sizeof k;
    (void)pool;
    attn_seal seal;
    attn_status status = attn_safetensors_sealed_header(&whole, 1, arena, &header, &size, err);
    char *file = status ? NULL : attn_arena_take(arena, size + bytes);
    if (!file)
        return status ? status : ATTN_ENOMEM;
    memcpy(file, header, size);
    memcpy(file + size, q, sizeof q);
    memcpy(file + size + sizeof q, k, sizeof k);
    status = attn_safetensors_read(file, size + bytes, arena, &back, err);
    if (!status)
        status = attn_safetensors_seal(file, size + bytes, &back, 1, arena, &seal, err);
    if (!status)
        status = attn_checksums_check(&seal.checksums, seal.bytes, 0, bytes, err);
    if (!status)
        *sum = sum_of(back.tensors[1].tensor.data, H * S * E) + (double)back.metadata_count;
    return status;
}

static int fill(void **state) {
    (void)state;
    attn_rng_fill_normal(q, H * L * E, 1, 0);
    attn_rng_fill_normal(k, H * S * E, 2, 0);
    attn_rng_fill_normal(v, H * S * E, 3, 0);
    return 0;
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        sweep(run_##name, false);                                                                  \
        sweep(run_##name, true);                                                                   \
    }
TEST(attention)
TEST(cells)
TEST(gradients)
TEST(with_gradients)
TEST(heatmap)
TEST(files)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_cells),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_with_gradients),
        cmocka_unit_test(test_heatmap),   cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, fill, NULL);
}
