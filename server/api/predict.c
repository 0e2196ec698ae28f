/* The cost of each unit, measured with the library and the writer themselves: each probe runs one
 * kind of work, the best of some tries counts, and what earlier probes explain is taken off. */
#include "api/predict.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json_out.h"

#define TRIES      4
#define PROBE_ROOM (64u << 20)
#define VALUES     4096 /* numbers that probes work on */

struct srv_predictor {
    pthread_mutex_t lock;
    atomic_bool ready;
    double seconds[SRV_UNITS];
    double spread; /* time of one piece a slot, all at once, over that of one alone */
};

/* One attention of random numbers. */
typedef struct probe {
    size_t H, L, S, E, A; /* A > 0: additive score */
    attn_dtype dtype;
    bool biased;
    unsigned want;
    bool drawn;
    size_t verified;
} probe;

/* n normal numbers as a tensor of the given shape, in both types that probes use. */
static bool numbers(attn_arena *arena, attn_dtype dtype, int rank, const size_t *dims,
                    attn_tensor *out) {
    size_t n;
    *out = attn_tensor_dense(NULL, dtype, rank, dims);
    if (!attn_tensor_count(out, &n) || !(out->data = attn_arena_zeroed(arena, n, sizeof(double))))
        return false;
    for (size_t i = 0; i < n; i++) {
        double x = attn_rng_uniform(1, i) - 0.5;
        if (dtype == ATTN_F64)
            ((double *)out->data)[i] = x;
        else
            ((float *)out->data)[i] = (float)x;
    }
    return true;
}

static bool probe_inputs(const probe *p, attn_arena *arena, attn_inputs *in) {
    const size_t q[4] = {1, p->H, p->L, p->E}, k[4] = {1, p->H, p->S, p->E}, w[2] = {p->A, p->E};
    *in = attn_attention_defaults();
    if (p->biased)
        in->position.kind = ATTN_POSITION_ALIBI;
    if (p->A)
        in->score.kind = ATTN_SCORE_additive;
    return numbers(arena, p->dtype, 4, q, &in->query) && numbers(arena, p->dtype, 4, k, &in->key) &&
           numbers(arena, p->dtype, 4, k, &in->value) &&
           (!p->A || (numbers(arena, ATTN_F32, 2, w, &in->score.w_q) &&
                      numbers(arena, ATTN_F32, 2, w, &in->score.w_k) &&
                      numbers(arena, ATTN_F32, 1, w, &in->score.v)));
}

static bool draw(const attn_attention *op, const attn_results *r, attn_pool *pool,
                 attn_arena *arena) {
    attn_weight_source source;
    attn_heatmaps maps;
    const attn_heatmap_options options = attn_heatmap_defaults();
    return !attn_attention_source(op, &r->stats, attn_pool_slots(pool), arena, &source, NULL) &&
           !attn_heatmap_build(&source, &options, pool, NULL, arena, &maps, NULL);
}

/* Seconds of one run; infinity when it failed. */
static double run_once(const probe *p, attn_pool *pool) {
    attn_arena *arena = attn_arena_new(PROBE_ROOM);
    attn_inputs in;
    attn_attention *op;
    attn_results results;
    attn_warnings warnings;
    attn_verification verification;
    double seconds = INFINITY;
    if (arena && probe_inputs(p, arena, &in)) {
        int64_t start = attn_now_ns();
        if (!attn_attention_new(&in, arena, &op, NULL) &&
            !attn_mask_lint(attn_attention_mask(op), arena, &warnings, NULL) &&
            !attn_attention_run(op, p->want, ATTN_STAGE_BIASED, pool, NULL, arena, &results,
                                NULL) &&
            (!p->drawn || draw(op, &results, pool, arena)) &&
            (!p->verified || !attn_attention_verify(op, &results, p->verified, 1, NULL, arena,
                                                    &verification, NULL)))
            seconds = (double)(attn_now_ns() - start) * 1e-9;
    }
    attn_arena_free(arena);
    return seconds;
}

static double run(const probe *p, attn_pool *pool) {
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++)
        best = fmin(best, run_once(p, pool));
    return best;
}

/* --- what is not attention --- */

typedef double (*task)(attn_arena *arena);

static double since(int64_t start) {
    return (double)(attn_now_ns() - start) * 1e-9;
}

static double write_numbers(attn_arena *arena, attn_dtype dtype, float size) {
    srv_request req = {.arena = arena};
    const size_t dims[2] = {VALUES / 64, 64};
    attn_tensor t;
    srv_json j;
    if (!numbers(arena, dtype, 2, dims, &t))
        return INFINITY;
    for (size_t i = 0; dtype == ATTN_F32 && i < VALUES; i++)
        ((float *)t.data)[i] *= size;
    int64_t start = attn_now_ns();
    srv_json_begin(&j, &req);
    srv_json_tensor(&j, &t);
    return j.failed ? INFINITY : since(start);
}

static double write_singles(attn_arena *arena) {
    return write_numbers(arena, ATTN_F32, 1);
}

static double write_shares(attn_arena *arena) {
    return write_numbers(arena, ATTN_F32, 0.01f);
}

static double write_doubles(attn_arena *arena) {
    return write_numbers(arena, ATTN_F64, 1);
}

static double write_flags(attn_arena *arena) {
    srv_request req = {.arena = arena};
    const size_t dims[1] = {VALUES};
    attn_tensor t = attn_tensor_dense(attn_arena_zeroed(arena, VALUES, 1), ATTN_BOOL, 1, dims);
    srv_json j;
    if (!t.data)
        return INFINITY;
    int64_t start = attn_now_ns();
    srv_json_begin(&j, &req);
    srv_json_tensor(&j, &t);
    return j.failed ? INFINITY : since(start);
}

static double take_memory(attn_arena *arena) {
    int64_t start = attn_now_ns();
    return attn_arena_zeroed(arena, 1024 * VALUES, 1) ? since(start) : INFINITY;
}

static double resolve_mask(attn_arena *arena) {
    const attn_mask_shape shape = {.H = 1, .L = 16, .S = VALUES / 16};
    attn_mask_spec spec = {.count = 1};
    const size_t dims[2] = {shape.L, shape.S};
    attn_mask *mask;
    uint8_t keep[VALUES / 16];
    spec.layers[0] = (attn_mask_layer){.kind = ATTN_LAYER_VALUES, .where = "mask"};
    if (!numbers(arena, ATTN_F32, 2, dims, &spec.layers[0].values))
        return INFINITY;
    int64_t start = attn_now_ns();
    if (attn_mask_new(&spec, &shape, arena, &mask, NULL))
        return INFINITY;
    for (size_t i = 0; i < shape.L; i++)
        attn_mask_keep(mask, 0, 0, i, 0, shape.S, keep);
    return since(start);
}

static double make_sines(attn_arena *arena) {
    double *table = attn_arena_zeroed(arena, VALUES, sizeof *table);
    int64_t start = attn_now_ns();
    if (!table || attn_sinusoidal(table, VALUES / 64, 64, ATTN_ENCODING_HALVES, NULL, NULL))
        return INFINITY;
    return since(start);
}

static double make_normals(attn_arena *arena) {
    double *table = attn_arena_zeroed(arena, VALUES, sizeof *table);
    int64_t start = attn_now_ns();
    if (!table || attn_learned(table, VALUES / 64, 64, 1, 1, NULL, NULL))
        return INFINITY;
    return since(start);
}

static double project(attn_arena *arena) {
    const size_t x[2] = {64, 256}, w[2] = {256, 256};
    attn_inputs in = attn_attention_defaults(), out;
    attn_projections p = {.num_heads = 1};
    if (!numbers(arena, ATTN_F32, 2, x, &in.query) || !numbers(arena, ATTN_F32, 2, w, &p.w_q))
        return INFINITY;
    int64_t start = attn_now_ns();
    return attn_projections_apply(&in, &p, NULL, NULL, arena, &out, NULL) ? INFINITY : since(start);
}

static double best_of(task what) {
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        attn_arena *arena = attn_arena_new(PROBE_ROOM);
        if (arena)
            best = fmin(best, what(arena));
        attn_arena_free(arena);
    }
    return best;
}

/* --- the units --- */

/* Seconds a unit, of what is left when the known part is taken off; noise must not make it free. */
static double rest(double seconds, double known, double units) {
    return fmax(seconds - known, 0.02 * seconds) / units;
}

/* Packing, from a step of a decoder; then a cell and a multiply-add, told apart by two widths. */
static void measure_cells(double *s) {
    const probe step = {.H = 1, .L = 1, .S = 1024, .E = 64, .want = ATTN_WANT_OUTPUT};
    const double cells = 512 * 512, pack = 512 * 2;
    probe slim = {.H = 1, .L = 512, .S = 512, .E = 16, .want = ATTN_WANT_OUTPUT}, wide = slim;
    wide.E = 128;
    s[SRV_UNIT_PACK] = rest(run(&step, NULL), s[SRV_UNIT_REQUEST], 1024 * 128);
    const double a = run(&slim, NULL) - pack * 16 * s[SRV_UNIT_PACK];
    const double b = run(&wide, NULL) - pack * 128 * s[SRV_UNIT_PACK];
    s[SRV_UNIT_PRODUCT] = rest(b, a, cells * 2 * 112);
    s[SRV_UNIT_CELL] = rest(a, cells * 32 * s[SRV_UNIT_PRODUCT], cells);
    slim.dtype = wide.dtype = ATTN_F64;
    slim.L = wide.L = 16;
    slim.S = wide.S = 128;
    const double c = run(&slim, NULL), d = run(&wide, NULL);
    s[SRV_UNIT_PRODUCT64] = rest(d, c, 16 * 128 * 2 * 112);
    s[SRV_UNIT_CELL64] = rest(c, 16 * 128 * 32 * s[SRV_UNIT_PRODUCT64], 16 * 128);
}

/* What forms and answers add to the plain pass. */
static void measure_additions(double *s) {
    const double cells = 256 * 512, few = 64 * 128;
    const probe plain = {.H = 1, .L = 256, .S = 512, .E = 16, .want = ATTN_WANT_OUTPUT};
    const double known = run(&plain, NULL);
    const double again = cells * (s[SRV_UNIT_CELL] + 16 * s[SRV_UNIT_PRODUCT]);
    probe weights = plain, biased = plain, drawn = plain, verified = plain;
    weights.want |= ATTN_WANT_WEIGHTS;
    biased.biased = true;
    drawn.drawn = true;
    verified.verified = 16;
    s[SRV_UNIT_WEIGHT] = rest(run(&weights, NULL), known, cells);
    s[SRV_UNIT_EDIT] = rest(run(&biased, NULL), known, cells);
    s[SRV_UNIT_HEATMAP] = rest(run(&drawn, NULL), known + again, cells);
    s[SRV_UNIT_CHECK] = rest(run(&verified, NULL), known, 16 * 512 * 32);
    const probe learned = {.H = 1, .L = 64, .S = 128, .E = 16, .A = 16, .want = ATTN_WANT_OUTPUT};
    s[SRV_UNIT_TANH] =
        rest(run(&learned, NULL), few * (s[SRV_UNIT_CELL] + 16 * s[SRV_UNIT_PRODUCT]), few * 16);
}

/* Pieces of a millisecond, as many as there are slots, against one alone. */
static double measure_spread(attn_pool *pool) {
    const size_t slots = attn_pool_slots(pool);
    probe p = {.H = 1, .L = 512, .S = 512, .E = 64, .want = ATTN_WANT_OUTPUT};
    const double alone = run(&p, NULL);
    p.H = slots;
    const double together = run(&p, pool);
    return fmin(fmax(together / alone, 1), (double)slots);
}

static bool measure(srv_predictor *p, attn_pool *pool) {
    double *s = p->seconds;
    const probe one = {.H = 1, .L = 1, .S = 1, .E = 1, .want = ATTN_WANT_OUTPUT};
    s[SRV_UNIT_REQUEST] = run(&one, NULL);
    measure_cells(s);
    measure_additions(s);
    s[SRV_UNIT_GEMM] = best_of(project) / (64 * 256 * 256);
    s[SRV_UNIT_BYTE] = best_of(take_memory) / (1024 * VALUES);
    s[SRV_UNIT_NUMBER] = best_of(write_singles) / VALUES;
    s[SRV_UNIT_SHARE] = best_of(write_shares) / VALUES;
    s[SRV_UNIT_NUMBER64] = best_of(write_doubles) / VALUES;
    s[SRV_UNIT_FLAG] = best_of(write_flags) / VALUES;
    s[SRV_UNIT_KEEP] = best_of(resolve_mask) / VALUES;
    s[SRV_UNIT_SINE] = best_of(make_sines) / VALUES;
    s[SRV_UNIT_NORMAL] = best_of(make_normals) / VALUES;
    p->spread = measure_spread(pool);
    for (int i = 0; i < SRV_UNITS; i++)
        if (!isfinite(s[i]))
            return false;
    return isfinite(p->spread);
}

srv_predictor *srv_predictor_new(void) {
    srv_predictor *p = calloc(1, sizeof *p);
    if (p && pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return NULL;
    }
    return p;
}

void srv_predictor_free(srv_predictor *p) {
    if (p)
        pthread_mutex_destroy(&p->lock);
    free(p);
}

bool srv_predictor_ready(srv_predictor *p) {
    return atomic_load(&p->ready);
}

double srv_predict(srv_predictor *p, attn_pool *pool, const srv_load *load) {
    pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->ready))
        atomic_store(&p->ready, measure(p, pool));
    pthread_mutex_unlock(&p->lock);
    if (!atomic_load(&p->ready))
        return -1;
    double shared = 0, alone = 0, lanes = fmin((double)attn_pool_slots(pool), load->pieces);
    for (int i = 0; i <= SRV_UNIT_HEATMAP; i++)
        shared += load->units[i] * p->seconds[i];
    for (int i = SRV_UNIT_HEATMAP + 1; i < SRV_UNITS; i++)
        alone += load->units[i] * p->seconds[i];
    return alone + (lanes > 1 ? shared / lanes * p->spread : shared);
}
