/* The base room: status, sizes, arena, views, element types, pool. Blocks: test_blocks.c. */
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

/* --- pool --- */

typedef struct job {
    atomic_int *runs;
    atomic_int lane_busy[64];
    size_t fail_from;
} job;

static attn_status piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    job *j = ctx;
    assert_int_equal(atomic_fetch_add(&j->lane_busy[lane], 1), 0);
    atomic_fetch_add(&j->runs[index], 1);
    for (volatile int spin = 0; spin < 2000; spin++)
        ;
    atomic_fetch_sub(&j->lane_busy[lane], 1);
    if (index >= j->fail_from)
        return attn_fail(err, ATTN_EVALUE, "", "piece %zu", index);
    return ATTN_OK;
}

static void test_pool_runs_each_piece_once(void **state) {
    (void)state;
    for (size_t slots = 1; slots <= 5; slots++) {
        attn_pool *pool = attn_pool_new(slots);
        assert_non_null(pool);
        for (size_t pieces = 0; pieces < 200; pieces += 33) {
            atomic_int runs[200] = {0};
            job j = {.runs = runs, .fail_from = SIZE_MAX};
            assert_int_equal(attn_pool_run(pool, pieces, piece, &j, NULL, NULL), ATTN_OK);
            for (size_t i = 0; i < 200; i++)
                assert_int_equal(runs[i], i < pieces);
        }
        attn_pool_free(pool);
    }
}

static pthread_t caller_thread;
static atomic_size_t helper_stack;

static attn_status stack_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    pthread_attr_t attributes;
    size_t size = 0;
    (void)ctx, (void)index, (void)lane, (void)err;
    if (pthread_equal(pthread_self(), caller_thread)) {
        usleep(100);
        return ATTN_OK;
    }
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstacksize(&attributes, &size), 0);
    pthread_attr_destroy(&attributes);
    atomic_store(&helper_stack, size);
    return ATTN_OK;
}

/* Helpers have the stack that is promised where the process gives its threads less. */
static void test_pool_gives_helpers_their_stack(void **state) {
    pthread_attr_t usual, small;
    (void)state;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    attn_pool *pool = attn_pool_new(2);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&usual);
    assert_non_null(pool);
    caller_thread = pthread_self();
    for (int i = 0; i < 1000 && !helper_stack; i++) /* until the helper has had a piece */
        assert_int_equal(attn_pool_run(pool, 50, stack_piece, NULL, NULL, NULL), ATTN_OK);
    assert_int_equal(helper_stack, ATTN_POOL_STACK);
    attn_pool_free(pool);
}

static void test_pool_reports_lowest_failure(void **state) {
    attn_pool *pool = attn_pool_new(4);
    (void)state;
    for (int round = 0; round < 50; round++) {
        atomic_int runs[200] = {0};
        job j = {.runs = runs, .fail_from = 20};
        attn_error err;
        assert_int_equal(attn_pool_run(pool, 200, piece, &j, NULL, &err), ATTN_EVALUE);
        assert_string_equal(err.text, "piece 20");
    }
    attn_pool_free(pool);
}

static void test_control(void **state) {
    atomic_int cancel = 1, runs[4] = {0};
    attn_control control = {.cancel = &cancel};
    attn_pool *pool = attn_pool_new(2);
    job j = {.runs = runs, .fail_from = SIZE_MAX};
    attn_error err;
    (void)state;
    assert_int_equal(attn_pool_run(pool, 4, piece, &j, &control, &err), ATTN_ECANCELED);
    control = (attn_control){.deadline_ns = attn_now_ns() - 1};
    assert_int_equal(attn_pool_run(pool, 4, piece, &j, &control, &err), ATTN_EDEADLINE);
    assert_int_equal(attn_pool_run(NULL, 4, piece, &j, &control, &err), ATTN_EDEADLINE);
    assert_int_equal(runs[0] + runs[1] + runs[2] + runs[3], 0);
    attn_pool_free(pool);
}

typedef struct caller {
    attn_pool *pool;
    atomic_int *total;
} caller;

static attn_status count_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)index, (void)lane, (void)err;
    atomic_fetch_add((atomic_int *)ctx, 1);
    return ATTN_OK;
}

static void *call_often(void *arg) {
    caller *c = arg;
    for (int i = 0; i < 100; i++) {
        attn_pool_enter(c->pool);
        if (attn_pool_run(c->pool, 17, count_piece, (void *)c->total, NULL, NULL) != ATTN_OK)
            abort();
        attn_pool_leave(c->pool);
    }
    return NULL;
}

/* More callers than slots, all at once: no deadlock, nothing lost. */
static void test_pool_many_callers(void **state) {
    enum { CALLERS = 12 };
    pthread_t threads[CALLERS];
    atomic_int total = 0;
    caller c = {attn_pool_new(2), &total};
    (void)state;
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(total, CALLERS * 100 * 17);
    attn_pool_free(c.pool);
}

/* Threads that ask for slots again and again, and use each for a while. */
typedef struct queuer {
    attn_pool *pool;
    atomic_int *stop;
    int64_t use_ns, used_ns;
    bool patient, crowded;
} queuer;

static void spin(int64_t ns) {
    const int64_t start = attn_now_ns();
    while (attn_now_ns() - start < ns)
        ;
}

static void *queue_again(void *arg) {
    queuer *q = arg;
    attn_pool_be_patient(q->patient ? 1 : 0);
    attn_pool_be_crowded(q->crowded);
    while (!atomic_load(q->stop)) {
        attn_pool_enter(q->pool);
        const int64_t begun = attn_now_ns();
        spin(q->use_ns);
        q->used_ns += attn_now_ns() - begun;
        attn_pool_leave(q->pool);
    }
    return NULL;
}

/* The part of the time of one slot that patient or crowded threads have beside prompt ones: so many
 * of these that one waits at any time, also where the machine lets few of them run. */
static double share_of_work(bool patient, int64_t turn_ns) {
    enum { LESS = 2, ALL = 12, SPAN_US = 300000 };
    attn_pool *pool = attn_pool_new(1);
    atomic_int stop = 0;
    queuer q[ALL];
    pthread_t threads[ALL];
    double less = 0, all = 0;
    for (int i = 0; i < ALL; i++) {
        q[i] = (queuer){pool,
                        &stop,
                        i < LESS ? turn_ns : 1000000,
                        0,
                        i < LESS && patient,
                        i < LESS && !patient};
        assert_int_equal(pthread_create(&threads[i], NULL, queue_again, &q[i]), 0);
    }
    usleep(SPAN_US);
    atomic_store(&stop, 1);
    for (int i = 0; i < ALL; i++) {
        pthread_join(threads[i], NULL);
        less += i < LESS ? (double)q[i].used_ns : 0;
        all += (double)q[i].used_ns;
    }
    attn_pool_free(pool);
    return less / all;
}

/* A quarter; with turns in order of asking, five times as long as the others, it would be half. */
static void test_pool_less_pressing_work_has_a_share(void **state) {
    (void)state;
    for (int patient = 0; patient < 2; patient++) {
        double share = 0;
        /* again where the machine had other work */
        for (int i = 0; i < 20 && (share < 0.15 || share > 0.38); i++)
            share = share_of_work(patient, 5000000);
        assert_true(share > 0.15 && share < 0.38);
    }
}

static atomic_int long_steps;

static attn_status long_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)index, (void)lane, (void)err;
    for (int i = 0; i < 50; i++) {
        spin(1000000);
        atomic_fetch_add(&long_steps, 1);
        attn_pool_yield(ctx);
    }
    return ATTN_OK;
}

static void *run_patiently(void *arg) {
    queuer *q = arg;
    attn_pool_be_patient(1);
    while (!atomic_load(q->stop))
        if (attn_pool_run(q->pool, 4, long_piece, q->pool, NULL, NULL) != ATTN_OK)
            abort();
    return NULL;
}

static attn_status short_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)ctx, (void)index, (void)lane, (void)err;
    spin(500000);
    return ATTN_OK;
}

/* Prompt work waits until a piece of patient work yields, not for its end, and is not interrupted:
 * while twelve milliseconds of it run, patient work makes few steps of a millisecond, where a piece
 * has fifty. */
static void test_pool_prompt_work_waits_for_a_yield(void **state) {
    attn_pool *pool = attn_pool_new(1);
    atomic_int stop = 0;
    queuer q[2] = {{.pool = pool, .stop = &stop}, {.pool = pool, .stop = &stop}};
    pthread_t threads[2];
    int least = INT_MAX;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_patiently, &q[i]), 0);
    for (int i = 0; i < 20; i++) { /* the machine has other work, too */
        usleep(20000);
        const int before = atomic_load(&long_steps);
        assert_int_equal(attn_pool_run(pool, 24, short_piece, NULL, NULL, NULL), ATTN_OK);
        const int steps = atomic_load(&long_steps) - before;
        least = steps < least ? steps : least;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(least <= 4);
    attn_pool_free(pool);
}

/* A thread that takes a slot of each pool once. */
typedef struct visitor {
    attn_pool *pools[2];
    atomic_int visits;
} visitor;

static void *visit(void *arg) {
    visitor *v = arg;
    for (int i = 0; i < 2; i++) {
        attn_pool_enter(v->pools[i]);
        atomic_fetch_add(&v->visits, 1);
        attn_pool_leave(v->pools[i]);
    }
    return NULL;
}

/* A thread inside two pools holds a slot of each, and gives back those that it took, in any order.
 */
static void test_pool_slots_are_held_by_pool(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        visitor v = {.pools = {attn_pool_new(1), attn_pool_new(1)}};
        pthread_t thread;
        attn_pool_enter(v.pools[0]);
        attn_pool_enter(v.pools[1]);
        attn_pool_enter(v.pools[1]);
        attn_pool_leave(v.pools[1]);
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        usleep(20000);
        assert_int_equal(v.visits, 0);
        attn_pool_leave(v.pools[first]);
        usleep(20000);
        assert_int_equal(v.visits <= (first == 0), 1);
        attn_pool_leave(v.pools[!first]);
        pthread_join(thread, NULL);
        assert_int_equal(v.visits, 2);
        /* each has one slot again */
        v.visits = 0;
        attn_pool_enter(v.pools[first]);
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        usleep(20000);
        assert_int_equal(v.visits <= first, 1);
        attn_pool_leave(v.pools[first]);
        pthread_join(thread, NULL);
        attn_pool_free(v.pools[0]);
        attn_pool_free(v.pools[1]);
    }
}

/* A thread inside more pools than it can hold slots of computes its pieces on its own. */
static void test_pool_many_pools_at_once(void **state) {
    enum { POOLS = 12 };
    attn_pool *pools[POOLS];
    atomic_int total = 0;
    (void)state;
    for (int i = 0; i < POOLS; i++) {
        pools[i] = attn_pool_new(2);
        attn_pool_enter(pools[i]);
    }
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(attn_pool_run(pools[i], 17, count_piece, &total, NULL, NULL), ATTN_OK);
    for (int i = 0; i < POOLS; i++)
        attn_pool_leave(pools[i]);
    for (int i = 0; i < POOLS; i++) {
        assert_int_equal(attn_pool_run(pools[i], 17, count_piece, &total, NULL, NULL), ATTN_OK);
        attn_pool_free(pools[i]);
    }
    assert_int_equal(total, 2 * POOLS * 17);
}

static atomic_llong spun_ns;

static attn_status spin_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    (void)ctx, (void)index, (void)lane, (void)err;
    const int64_t start = attn_now_ns();
    while (attn_now_ns() - start < 200000)
        ;
    atomic_fetch_add(&spun_ns, attn_now_ns() - start);
    return ATTN_OK;
}

/* What helpers did for a run is known to its thread afterwards; alone there is none. */
static void test_pool_counts_help(void **state) {
    (void)state;
    for (size_t slots = 1; slots <= 2; slots++) {
        attn_pool *pool = attn_pool_new(slots);
        const int64_t before = attn_pool_helped_ns();
        int64_t helped = 0;
        spun_ns = 0;
        /* again where the helper was too late to help */
        for (int i = 0; i < 50 && (!i || (slots > 1 && !helped)); i++) {
            assert_int_equal(attn_pool_run(pool, 50, spin_piece, NULL, NULL, NULL), ATTN_OK);
            helped = attn_pool_helped_ns() - before;
        }
        assert_true(slots > 1 ? helped >= 200000 : helped == 0);
        assert_true(helped < spun_ns + 50000000);
        attn_pool_free(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_reset),
        cmocka_unit_test(test_arena_rewind),
        cmocka_unit_test(test_arena_reserve_aligned),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_reserve),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_widen),
        cmocka_unit_test(test_pool_runs_each_piece_once),
        cmocka_unit_test(test_pool_gives_helpers_their_stack),
        cmocka_unit_test(test_pool_reports_lowest_failure),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_pool_many_callers),
        cmocka_unit_test(test_pool_less_pressing_work_has_a_share),
        cmocka_unit_test(test_pool_prompt_work_waits_for_a_yield),
        cmocka_unit_test(test_pool_slots_are_held_by_pool),
        cmocka_unit_test(test_pool_many_pools_at_once),
        cmocka_unit_test(test_pool_counts_help),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
