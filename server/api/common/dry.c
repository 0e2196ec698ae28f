/* Predicts times for dry_run: measures rates of this machine, derives the time from them, and
 * writes the answer as JSON or text. */
#include "api/common/dry.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/common/text_reply.h"
#include "load/admission.h"
#include "request/shared.h"

/* --- the rates --- */

#define TRIES      4
#define PROBE_ROOM (64u << 20)
/* Rates are measured by self-attentions of width PROBE_WIDTH. The numbers of queries are such that
 * each attention takes about a millisecond: ROWS in float32, DOUBLE_ROWS in double, TANH_ROWS with
 * additive scores. */
enum { PROBE_WIDTH = 64, ROWS = 512, DOUBLE_ROWS = 128, TANH_ROWS = 128 };
/* The rate of text is measured by writing this many numbers. */
enum { PROBE_NUMBERS = 65536 };
/* Time in seconds that every request takes, besides its work. */
#define REQUEST_SECONDS 1e-5
/* Cost of a byte of new memory, relative to the cost of a byte of text. */
#define MEMORY_SHARE 0.15

typedef struct rates {
    /* Seconds for one unit of work while all threads of the pool are busy: */
    double operation; /* an operation of a float32 kernel */
    double tanh;      /* a tanh of an additive score */
    double plain;     /* an operation in double */
    double byte;      /* a byte of text */
    double alone; /* factor on these times while other threads are idle; below 1 on shared cores */
} rates;

struct srv_predictor {
    pthread_mutex_t lock;
    atomic_bool ready;
    rates rates;
};

/* Makes a tensor of random numbers between -1/2 and 1/2. false: out of memory. */
static bool random_tensor(attn_arena *arena, attn_dtype dtype, int rank, const size_t *dims,
                          attn_tensor *out) {
    size_t n;
    *out = attn_tensor_dense(NULL, dtype, rank, dims);
    if (!attn_tensor_count(out, &n) ||
        !(out->data = attn_arena_take(arena, n * attn_dtype_size(dtype))))
        return false;
    for (size_t i = 0; i < n; i++) {
        const double x = attn_rng_uniform(1, i) - 0.5;
        if (dtype == ATTN_F64)
            ((double *)out->data)[i] = x;
        else
            ((float *)out->data)[i] = (float)x;
    }
    return true;
}

/* Runs a self-attention [heads, rows, PROBE_WIDTH] and returns its seconds. Infinity: it failed. */
static double measure_attention(attn_arena *arena, attn_pool *pool, attn_dtype dtype, size_t heads,
                                size_t rows, attn_score_kind score) {
    const size_t dims[4] = {1, heads, rows, PROBE_WIDTH};
    const size_t map[2] = {PROBE_WIDTH, PROBE_WIDTH};
    attn_inputs in = attn_attention_defaults();
    attn_attention *op;
    attn_results results;
    in.score.kind = score;
    if (!random_tensor(arena, dtype, 4, dims, &in.query) ||
        (score == ATTN_SCORE_additive && (!random_tensor(arena, dtype, 2, map, &in.score.w_q) ||
                                          !random_tensor(arena, dtype, 2, map, &in.score.w_k) ||
                                          !random_tensor(arena, dtype, 1, map, &in.score.v))) ||
        attn_attention_new(&in, arena, &op, NULL))
        return INFINITY;
    const int64_t start = attn_now_ns();
    if (attn_attention_run(op, ATTN_WANT_OUTPUT, ATTN_STAGE_BIASED, pool, NULL, arena, &results,
                           NULL))
        return INFINITY;
    return 1e-9 * (double)(attn_now_ns() - start);
}

/* Returns the seconds that a byte of text takes, measured by writing numbers as JSON. */
static double measure_byte(attn_arena *arena) {
    srv_request req = {.arena = arena};
    const size_t dims[2] = {PROBE_NUMBERS / 64, 64};
    attn_tensor t;
    attn_json_text j;
    if (!random_tensor(arena, ATTN_F32, 2, dims, &t))
        return INFINITY;
    const int64_t start = attn_now_ns();
    srv_json_begin(&j, &req);
    srv_json_tensor(&j, &t);
    srv_json_end(&j);
    return req.reply.status == 200 ? 1e-9 * (double)(attn_now_ns() - start) / (double)req.reply.size
                                   : INFINITY;
}

/* Returns the number of operations of one head of a measured attention, as srv_load counts them.
 * Operations of cells count always, operations of rows only in float32 (`wide` is false). */
static double probe_operations(double rows, bool wide) {
    return rows * rows * (4 * PROBE_WIDTH + SRV_CELL_OPERATIONS) +
           (wide ? 0 : 4 * PROBE_WIDTH * SRV_ROW_OPERATIONS * rows);
}

/* Runs each measurement TRIES times, keeps the shortest time and computes the rates from these
 * times. The attentions have one head for each thread of the pool, except `idle`, which has one
 * head and so leaves the other threads idle. false: out of memory. */
static bool measure(rates *out, attn_pool *pool) {
    const size_t slots = attn_pool_slots(pool);
    const double tanhs = (double)TANH_ROWS * TANH_ROWS * PROBE_WIDTH;
    double busy = INFINITY, idle = INFINITY, wide = INFINITY, additive = INFINITY, byte = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        attn_arena *arena = attn_arena_new(PROBE_ROOM);
        if (!arena)
            return false;
        busy = fmin(busy,
                    measure_attention(arena, pool, ATTN_F32, slots, ROWS, ATTN_SCORE_scaled_dot));
        idle = fmin(idle, measure_attention(arena, pool, ATTN_F32, 1, ROWS, ATTN_SCORE_scaled_dot));
        wide = fmin(wide, measure_attention(arena, pool, ATTN_F64, slots, DOUBLE_ROWS,
                                            ATTN_SCORE_scaled_dot));
        additive = fmin(additive, measure_attention(arena, pool, ATTN_F32, slots, TANH_ROWS,
                                                    ATTN_SCORE_additive));
        byte = fmin(byte, measure_byte(arena));
        attn_arena_free(arena);
    }
    *out = (rates){.operation = busy / probe_operations(ROWS, false),
                   .plain = wide / probe_operations(DOUBLE_ROWS, true),
                   .tanh = additive / tanhs,
                   .byte = byte,
                   .alone = fmin(1, idle / busy)};
    return isfinite(busy + idle + wide + additive + byte);
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

/* Predicts the seconds of a run. NAN: memory to measure the rates ran out. */
static double predict(const srv_request *req, const srv_load *load) {
    srv_predictor *p = req->app->predictor;
    attn_pool *pool = req->app->pool;
    const double lanes = fmax(1, fmin((double)attn_pool_slots(pool), load->pieces));
    const rates *r = &p->rates;
    pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->ready))
        atomic_store(&p->ready, measure(&p->rates, pool));
    pthread_mutex_unlock(&p->lock);
    if (!atomic_load(&p->ready))
        return NAN;
    const double shared =
        r->operation * load->operations + r->tanh * load->tanh + r->plain * load->plain;
    return REQUEST_SECONDS + srv_admission_seconds(req, load->weighted, lanes) +
           (lanes > 1 ? shared / lanes : r->alone * shared) + r->alone * r->plain * load->alone +
           r->byte * (load->text + MEMORY_SHARE * load->memory);
}

/* --- the answer --- */

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims) {
    if (!dry->shapes)
        dry->shapes = dry->few;
    srv_shape *shape = &dry->shapes[dry->shape_count++];
    *shape = (srv_shape){.name = name, .rank = rank};
    memcpy(shape->dims, dims, (size_t)rank * sizeof *dims);
}

static void put_shapes(attn_json_text *j, const void *place) {
    const srv_dry *dry = place;
    attn_json_object(j);
    for (size_t i = 0; i < dry->shape_count; i++)
        attn_json_key_sizes(j, dry->shapes[i].name, dry->shapes[i].dims,
                            (size_t)dry->shapes[i].rank);
    attn_json_object_end(j);
}

/* Writes the path length of attention beside that of a recurrent layer. */
static void put_path_length(attn_json_text *j, const void *place) {
    if (((const srv_dry *)place)->has_rnn)
        attn_json_size(j, 1);
}

#define WEIGHTS .type = "integer+", .when = offsetof(srv_dry, has_weights)

static const srv_field byte_rows[] = {
    SRV_IF_KNOWN("with_weights", SRV_REAL, srv_dry, with_weights, NULL, WEIGHTS),
    SRV_IF_KNOWN("without_weights", SRV_REAL, srv_dry, without_weights, NULL, WEIGHTS),
    SRV_ALWAYS("result", SRV_REAL, srv_dry, result, NULL, .type = "integer+"),
    SRV_ALWAYS("work", SRV_REAL, srv_dry, work, NULL, .type = "integer+"),
    {0},
};

static const srv_field limit_rows[] = {
    SRV_ALWAYS("value", SRV_REAL, srv_dry, limit, NULL),
    SRV_IF_KNOWN("setting", SRV_STRING, srv_dry, setting, NULL),
    {0},
};

static const srv_field rnn_rows[] = {
    SRV_IF_KNOWN("num_operations", SRV_REAL, srv_dry, rnn_operations, NULL),
    SRV_IF_KNOWN("num_score_operations", SRV_REAL, srv_dry, rnn_products, NULL),
    SRV_IF_KNOWN("path_length", SRV_REAL, srv_dry, rnn_steps, NULL),
    {0},
};

static const srv_field dry_rows[] = {
    SRV_WRITTEN("shapes", "{[integer+]}", put_shapes, "The shape of each tensor of the answer.",
                .always = true),
    SRV_IF_KNOWN("mask", SRV_STRING, srv_dry, mask, "The mask in words."),
    SRV_ALWAYS("num_cells", SRV_REAL, srv_dry, cells, "All cells of the weights."),
    SRV_IF_KNOWN("num_computed_cells", SRV_REAL, srv_dry, computed,
                 "With pattern, window, any_of and masks by a table: the cells that the pass "
                 "computes. It skips the "
                 "others, and num_operations does not count them.",
                 .when = offsetof(srv_dry, has_computed)),
    SRV_ALWAYS("num_operations", SRV_REAL, srv_dry, operations,
               "Floating-point operations of the pass and of what is returned: products, "
               "projections, matrices and tanh of a score form. A multiply-add counts as two, a "
               "tanh as one, and an element that gets an encoding of its position as 32."),
    SRV_GROUP("bytes", byte_rows,
              "result: the exact size of the tensors, gradients and heatmaps of the answer; "
              "with_weights and without_weights: the same with and without the weights; work: the "
              "scratch memory of the planned pass, with upper bounds for masks and conversions and "
              "without the fallback for NaN and infinity.",
              .always = true),
    SRV_ALWAYS("fits", SRV_BOOL, srv_dry, fits,
               "true if the request is within the limits of this service."),
    SRV_GROUP("limit", limit_rows,
              "If fits is false: the exceeded limit and, if one raises it, the setting, as in the "
              "problem that the request would get.",
              .when = offsetof(srv_dry, exceeds)),
    SRV_IF_KNOWN("num_parameters", SRV_INT, srv_dry, parameters,
                 "Numbers that are learned, in the request.", .when = offsetof(srv_dry, learns)),
    SRV_GROUP("rnn", rnn_rows,
              "The multiply-adds of a recurrent layer of the same width, beside those of the "
              "scores; here a multiply-add counts as one. path_length is the number of its steps, "
              "one a query.",
              .when = offsetof(srv_dry, has_rnn)),
    SRV_WRITTEN("path_length", "integer+1", put_path_length,
                "The steps between any two positions of attention.", .max = 1),
    SRV_ALWAYS("predicted_ms", SRV_REAL, srv_dry, predicted_ms,
               "The predicted time to decode, compute and encode. It follows from rates of this "
               "machine, which the daemon measures at the first dry run, so it differs a little "
               "from answer to answer.",
               .type = "number?"),
    {0},
};

static const srv_field answer_rows[] = {SRV_GROUP("dry_run", dry_rows, NULL, .always = true), {0}};

const srv_field srv_dry_answers[] = {
    SRV_GROUP("DryRun", dry_rows, "Shapes and cost of the request."),
    {0},
};

static void dry_text(srv_request *req, const srv_dry *dry) {
    char shape[128];
    attn_text t = srv_text_begin(req);
    for (size_t i = 0; i < dry->shape_count; i++)
        attn_text_add(
            &t, "%s: %s\n", dry->shapes[i].name,
            attn_shape_text(dry->shapes[i].dims, dry->shapes[i].rank, shape, sizeof shape));
    if (dry->mask)
        attn_text_add(&t, "mask: %s\n", dry->mask);
    attn_text_add(&t, "cost: %.6g cells", dry->cells);
    if (dry->has_computed)
        attn_text_add(&t, ", of which %.6g are computed", dry->computed);
    attn_text_add(&t, ", %.6g operations, about %.3g ms\n", dry->operations, dry->predicted_ms);
    attn_text_add(&t, "bytes: %.0f of results, %.0f of scratch\n", dry->result, dry->work);
    if (!dry->fits)
        attn_text_add(&t, "more than this service allows: the limit is %.17g%s%s\n", dry->limit,
                      dry->setting ? ", the setting " : "", dry->setting ? dry->setting : "");
    if (dry->has_weights)
        attn_text_add(&t, "results: %.0f bytes with weights, %.0f without\n", dry->with_weights,
                      dry->without_weights);
    if (dry->learns)
        attn_text_add(&t, "parameters: %zu\n", dry->parameters);
    if (dry->has_rnn)
        attn_text_add(&t,
                      "beside a recurrent layer of this width: %.6g multiply-adds of scores "
                      "instead of %.6g, paths of length 1 instead of %.0f\n",
                      dry->rnn_products, dry->rnn_operations, dry->rnn_steps);
    srv_text_end(req, &t);
}

srv_outcome srv_dry_reply(srv_request *req, srv_dry *dry) {
    /* On the HTTP thread a request has a smaller arena than on a request thread. Therefore only a
     * request thread can decide that a run does not fit. */
    if (req->in_place && !dry->fits)
        return SRV_DEFER;
    /* A request without dry_run also decodes its body and draws its random elements. So the
     * prediction includes these times. */
    const double decode_ns = (double)req->decode_ns + srv_draw_random_ns(req);
    const double ms = 1e3 * predict(req, &dry->load) + 1e-6 * decode_ns;
    dry->predicted_ms = round(ms * 1e4) / 1e4;
    dry->has_weights = dry->with_weights > 0;
    dry->has_rnn = dry->rnn_steps > 0;
    dry->exceeds = !dry->fits;
    dry->limit = req->reply.limit;
    dry->setting = req->reply.setting;
    req->accept &= ~(unsigned)SRV_ACCEPT_NPY; /* an npy file cannot hold this answer */
    if (srv_reads_text(req))
        dry_text(req, dry);
    else
        srv_answer_reply(req, answer_rows, dry);
    return SRV_DONE;
}
