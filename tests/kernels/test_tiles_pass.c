/* The pass over tiles by AMX (tiles_pass.c) beside the same steps one by one: by the tile registers
 * of a processor that has them, and on any other with AVX-512 by the same text over registers in
 * memory. */
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,amx-tile,amx-bf16")
#define attn_kernels_pass_amx pass_in_memory
#include "memory_tiles.h"

#include "kernels/x86/tiles_pass.c"
#undef attn_kernels_pass_amx
#pragma GCC pop_options

#include "kernels/rounds.h"

void attn_kernels_pass_amx(attn_kernels *k);

/* What a way over tiles has and leaves. */
typedef struct walk {
    float *query, *keys, *values, *max, *sum, *acc, *kept, *maxima;
} walk;

enum { TILES = 4, WIDEST = 100 };

static void walk_begin(walk *w, const attn_kernels *k, const attn_tile_pass *p, uint64_t seed) {
    float *x = attn_alloc(k->keys * WIDEST * sizeof *x);
    const size_t room = attn_acc_room(k, p->Ev);
    w->query = attn_alloc(attn_query_room(k, p->rows, p->E) * sizeof(float));
    w->keys = attn_alloc(TILES * attn_key_room(k, p->E) * sizeof(float));
    w->values = attn_alloc(TILES * attn_value_room(k, p->Ev) * sizeof(float));
    w->max = attn_alloc(p->rows * sizeof(float));
    w->sum = attn_alloc(p->rows * k->lanes * sizeof(float));
    w->acc = attn_alloc(p->rows * room * sizeof(float));
    w->kept = attn_alloc(p->rows * TILES * k->keys * sizeof(float));
    w->maxima = attn_alloc(p->rows * TILES * sizeof(float));
    memset(w->sum, 0, p->rows * k->lanes * sizeof(float));
    memset(w->acc, 0, p->rows * room * sizeof(float));
    for (size_t r = 0; r < p->rows; r++)
        w->max[r] = -INFINITY;
    for (size_t t = 0; t <= TILES; t++) {
        for (size_t i = 0; i < k->keys * WIDEST; i++)
            x[i] = (float)attn_rng_normal(seed + t, i) * (seed % 3 ? 1 : 9);
        if (t == TILES) {
            k->pack_query(w->query, x, WIDEST, p->rows, p->E);
            break;
        }
        k->pack_key(w->keys + t * attn_key_room(k, p->E), x, WIDEST, k->keys, p->E);
        k->pack_value(w->values + t * attn_value_room(k, p->Ev), x, WIDEST, k->keys, p->Ev);
    }
    attn_free(x);
}

static void walk_end(walk *w) {
    float *const all[] = {w->query, w->keys, w->values, w->max, w->sum, w->acc, w->kept, w->maxima};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        attn_free(all[i]);
}

/* What `pass` stands for. */
static void step_by_step(const attn_kernels *k, const attn_tile_pass *p, walk *w) {
    float *tile = attn_alloc(k->rows * k->keys * sizeof *tile), factor[64];
    for (size_t t = 0; t < p->tiles; t++) {
        k->score(tile, w->query, p->E, p->rows, w->keys + t * attn_key_room(k, p->E), k->keys, p->E,
                 p->scale);
        k->softmax(tile, p->rows, k->keys, w->max, w->sum, factor);
        for (size_t r = 0; r < p->rows; r++) {
            memcpy(w->kept + r * p->ld_kept + t * k->keys, tile + r * k->keys,
                   k->keys * sizeof *tile);
            w->maxima[r * p->ld_maxima + t] = w->max[r];
        }
        k->accumulate(w->acc, tile, p->rows, w->values + t * attn_value_room(k, p->Ev), 0, k->keys,
                      k->keys, p->Ev, factor);
    }
    attn_free(tile);
}

static void check_pass(const attn_kernels *k, uint64_t seed) {
    walk want, got;
    attn_tile_pass p = {.rows = 1 + attn_rng_bits(seed, 0) % k->rows,
                        .E = 1 + attn_rng_bits(seed, 1) % WIDEST,
                        .Ev = 1 + attn_rng_bits(seed, 2) % WIDEST,
                        .tiles = 1 + attn_rng_bits(seed, 3) % TILES,
                        .scale = seed % 2 ? 0.125 : 0.3,
                        .max_score = seed % 5 ? 1e5 : INFINITY,
                        .ld_kept = TILES * k->keys,
                        .ld_maxima = TILES};
    const bool keeps = seed % 4 != 0;
    const size_t room = attn_acc_room(k, p.Ev);
    p.key_bytes = attn_key_room(k, p.E) * sizeof(float);
    p.value_bytes = attn_value_room(k, p.Ev) * sizeof(float);
    walk_begin(&want, k, &p, seed);
    walk_begin(&got, k, &p, seed);
    step_by_step(k, &p, &want);
    p.query = got.query, p.keys = (char *)got.keys, p.values = (char *)got.values;
    p.max = got.max, p.sum = got.sum, p.acc = got.acc;
    p.kept = keeps ? got.kept : NULL, p.maxima = keeps ? got.maxima : NULL;
    k->pass(&p);
    assert_memory_equal(got.max, want.max, p.rows * sizeof(float));
    assert_memory_equal(got.sum, want.sum, p.rows * k->lanes * sizeof(float));
    for (size_t r = 0; r < p.rows; r++) {
        assert_memory_equal(got.acc + r * room, want.acc + r * room, p.Ev * sizeof(float));
        for (size_t t = 0; keeps && t < p.tiles; t++)
            assert_float_equal(got.maxima[r * TILES + t], want.maxima[r * TILES + t], 0);
        if (keeps)
            assert_memory_equal(got.kept + r * p.ld_kept, want.kept + r * p.ld_kept,
                                p.tiles * k->keys * sizeof(float));
    }
    walk_end(&want);
    walk_end(&got);
}

/* Tiles taken at once are, bit for bit, those taken one by one. */
static void each_precision(void (*give_pass)(attn_kernels *), uint64_t rounds) {
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
        attn_kernels k = *attn_kernels_with(ATTN_ISA_AMX, (attn_precision)p, false);
        give_pass(&k);
        for (uint64_t seed = 0; seed < rounds; seed++)
            check_pass(&k, 11 * seed);
    }
}

static void test_pass(void **state) {
    (void)state;
    if (!attn_isa_available(ATTN_ISA_AMX)) {
        printf("not run: a pass over amx tiles\n");
        return;
    }
    each_precision(attn_kernels_pass_amx, 200);
}

static void test_pass_in_memory(void **state) {
    (void)state;
    if (!attn_isa_available(ATTN_ISA_AVX512) || !__builtin_cpu_supports("avx512bf16")) {
        printf("not run: a pass over tiles in memory\n");
        return;
    }
    each_precision(pass_in_memory, ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pass),
        cmocka_unit_test(test_pass_in_memory),
    };
    return cmocka_run_group_tests_name("pass over tiles", tests, NULL, NULL);
}
