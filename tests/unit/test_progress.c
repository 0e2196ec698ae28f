/* The progress that a pass and the image of a run tell: it stays in the range of the caller, and it
 * reaches the end, whatever way the plan takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include <attn/attn.h>
#include <attn/run.h>

enum { LIMIT = 1 << 30 };
static const double from = 0.25, to = 0.75;

/* What was told. */
typedef struct told {
    pthread_mutex_t lock;
    size_t count;
    double least, most;
} told;

static void tell(void *ctx, double done) {
    told *t = ctx;
    pthread_mutex_lock(&t->lock);
    t->count++;
    t->least = done < t->least ? done : t->least;
    t->most = done > t->most ? done : t->most;
    pthread_mutex_unlock(&t->lock);
}

static attn_tensor random_tensor(attn_arena *arena, const size_t dims[4]) {
    const size_t n = dims[0] * dims[1] * dims[2] * dims[3];
    float *data = attn_arena_zeroed(arena, n, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (float)(attn_rng_bits(1, i) >> 40) * 0x1p-24f - 0.5f;
    return attn_tensor_dense(data, ATTN_F32, 4, dims);
}

static void check(const told *t, bool in_parts) {
    assert_true(t->count > in_parts);
    assert_true(t->least > from && (t->least < to || !in_parts));
    assert_float_equal(t->most, to, 1e-12);
}

typedef struct shape {
    size_t heads, queries, keys, stride; /* stride 0: no pattern */
    int64_t radius;                      /* of a local pattern; 0: none */
} shape;

static const shape shapes[] = {
    {2, 3000, 3000, 0, 0},    /* packed */
    {16, 100, 100, 0, 0},     /* heads */
    {8, 2, 500, 0, 0},        /* groups */
    {1, 1, 60000, 0, 0},      /* a group in ranges */
    {1, 20000, 20000, 0, 16}, /* windows */
    {1, 4096, 4096, 64, 0},   /* a strided pattern */
};

static void run_shape(const shape *s, size_t slots, attn_pool *pool) {
    const size_t q[] = {1, s->heads, s->queries, 8}, k[] = {1, s->heads, s->keys, 8};
    told pass = {PTHREAD_MUTEX_INITIALIZER, 0, 2, -1}, image = pass;
    attn_progress progress = {tell, &pass, from, to};
    const attn_control control = {.progress = &progress};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_inputs in = attn_attention_defaults();
    attn_attention *op;
    attn_results out;
    attn_run_image run;
    attn_error err = {0};
    in.query = random_tensor(arena, q);
    in.key = random_tensor(arena, k);
    in.value = random_tensor(arena, k);
    if (s->stride || s->radius)
        in.mask.layers[in.mask.count++] = (attn_mask_layer){
            .kind = ATTN_LAYER_PATTERN,
            .where = "pattern",
            .pattern = s->stride ? (attn_pattern){.kind = ATTN_PATTERN_STRIDED, .stride = s->stride}
                                 : (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = s->radius}};
    assert_int_equal(attn_attention_new(&in, arena, &op, &err), ATTN_OK);
    assert_int_equal(
        attn_attention_run(op, ATTN_WANT_CELLS, ATTN_STAGE_RAW, pool, &control, arena, &out, &err),
        ATTN_OK);
    check(&pass, slots > 1 || s->queries * s->heads > 1);
    progress.ctx = &image;
    const attn_run_site_source site = {
        .op = op, .stats = &out.stats, .info = {.name = "attention"}};
    const attn_run_source source = {.sites = &site, .site_count = 1};
    assert_int_equal(attn_run_image_new(&source, pool, &control, arena, &run, &err), ATTN_OK);
    if (s->queries > 1024 || s->keys > 1024) /* it has an overview */
        check(&image, s->queries > 1);
    attn_arena_free(arena);
}

static void test_told(void **state) {
    (void)state;
    for (size_t slots = 1; slots < 4; slots += 2) {
        attn_pool *pool = attn_pool_new(slots);
        assert_non_null(pool);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            run_shape(&shapes[i], slots, pool);
        attn_pool_free(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told)};
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
