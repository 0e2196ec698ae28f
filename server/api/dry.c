/* Predicts times for dry_run: measures two rates of this machine, derives the time from them, and
 * writes the answer as JSON or text. */
#include "api/dry.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/text_reply.h"
#include "request/shared.h"

/* --- the two rates: seconds for an operation, seconds for a byte --- */

#define TRIES      4
#define PROBE_ROOM (64u << 20)
/* The measured attention has PROBE_ROWS queries and keys of PROBE_WIDTH. The measured text has
 * PROBE_NUMBERS numbers. */
enum { PROBE_ROWS = 512, PROBE_WIDTH = 64, PROBE_NUMBERS = 65536 };
/* Time that every request takes whatever its size, in seconds. */
#define REQUEST_SECONDS 1e-5
/* Cost of a byte of new memory as a fraction of the cost of a byte of text. */
#define MEMORY_SHARE 0.15

struct srv_predictor {
    pthread_mutex_t lock;
    atomic_bool ready;
    double operation; /* seconds for an operation on one slot of a busy pool */
    double byte;      /* seconds for a byte of text */
};

/* Makes a float32 tensor of random numbers. false: out of memory. */
static bool draw(attn_arena *arena, int rank, const size_t *dims, attn_tensor *out) {
    size_t n;
    *out = attn_tensor_dense(NULL, ATTN_F32, rank, dims);
    if (!attn_tensor_count(out, &n) || !(out->data = attn_arena_take(arena, n * sizeof(float))))
        return false;
    for (size_t i = 0; i < n; i++)
        ((float *)out->data)[i] = (float)(attn_rng_uniform(1, i) - 0.5);
    return true;
}

/* Measures the seconds for one operation: runs self-attention with one head for each slot of the
 * pool. */
static double measure_operation(attn_arena *arena, attn_pool *pool) {
    const size_t dims[4] = {1, attn_pool_slots(pool), PROBE_ROWS, PROBE_WIDTH};
    const double cells = (double)PROBE_ROWS * PROBE_ROWS;
    attn_inputs in = attn_attention_defaults();
    attn_attention *op;
    attn_results results;
    if (!draw(arena, 4, dims, &in.query) || attn_attention_new(&in, arena, &op, NULL))
        return INFINITY;
    const int64_t start = attn_now_ns();
    if (attn_attention_run(op, ATTN_WANT_OUTPUT, ATTN_STAGE_BIASED, pool, NULL, arena, &results,
                           NULL))
        return INFINITY;
    return 1e-9 * (double)(attn_now_ns() - start) /
           (cells * (4 * PROBE_WIDTH + SRV_CELL_OPERATIONS));
}

/* Measures the seconds for one byte of text: writes numbers as JSON. */
static double measure_byte(attn_arena *arena) {
    srv_request req = {.arena = arena};
    const size_t dims[2] = {PROBE_NUMBERS / 64, 64};
    attn_tensor t;
    srv_json j;
    if (!draw(arena, 2, dims, &t))
        return INFINITY;
    const int64_t start = attn_now_ns();
    srv_json_begin(&j, &req);
    srv_json_tensor(&j, &t);
    srv_json_end(&j);
    return req.reply.status == 200 ? 1e-9 * (double)(attn_now_ns() - start) / (double)req.reply.size
                                   : INFINITY;
}

static bool measure(srv_predictor *p, attn_pool *pool) {
    p->operation = p->byte = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        attn_arena *arena = attn_arena_new(PROBE_ROOM);
        if (arena) {
            p->operation = fmin(p->operation, measure_operation(arena, pool));
            p->byte = fmin(p->byte, measure_byte(arena));
        }
        attn_arena_free(arena);
    }
    return isfinite(p->operation) && isfinite(p->byte);
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

/* Predicts the seconds of a run. NAN: there is no memory to measure the rates. */
static double predict(srv_predictor *p, attn_pool *pool, const srv_load *load) {
    const double lanes = fmax(1, fmin((double)attn_pool_slots(pool), load->pieces));
    pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->ready))
        atomic_store(&p->ready, measure(p, pool));
    pthread_mutex_unlock(&p->lock);
    if (!atomic_load(&p->ready))
        return NAN;
    return REQUEST_SECONDS + p->operation * (load->operations / lanes + load->alone) +
           p->byte * (load->text + MEMORY_SHARE * load->memory);
}

/* --- the answer --- */

void srv_dry_shape(srv_dry *dry, const char *name, int rank, const size_t *dims) {
    srv_shape *shape = &dry->shapes[dry->shape_count++];
    *shape = (srv_shape){.name = name, .rank = rank};
    memcpy(shape->dims, dims, (size_t)rank * sizeof *dims);
}

static void put(srv_json *j, const char *name, double value) {
    srv_json_key(j, name);
    srv_json_real(j, value);
}

static void write_shapes(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "shapes");
    srv_json_object(j);
    for (size_t i = 0; i < dry->shape_count; i++) {
        srv_json_key(j, dry->shapes[i].name);
        srv_json_array(j);
        for (int axis = 0; axis < dry->shapes[i].rank; axis++)
            srv_json_size(j, dry->shapes[i].dims[axis]);
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
}

static void write_bytes(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "bytes");
    srv_json_object(j);
    if (dry->with_weights > 0) {
        put(j, "with_weights", dry->with_weights);
        put(j, "without_weights", dry->without_weights);
    }
    put(j, "result", dry->result);
    put(j, "work", dry->work);
    srv_json_object_end(j);
}

static void write_rnn(srv_json *j, const srv_dry *dry) {
    srv_json_key(j, "rnn");
    srv_json_object(j);
    put(j, "operations", dry->rnn_operations);
    put(j, "score_operations", dry->rnn_products);
    put(j, "path_length", dry->rnn_steps);
    srv_json_object_end(j);
    put(j, "path_length", 1);
}

static void dry_json(srv_request *req, const srv_dry *dry, double ms) {
    srv_json j;
    srv_json_begin(&j, req);
    srv_json_object(&j);
    srv_json_key(&j, "dry_run");
    srv_json_object(&j);
    write_shapes(&j, dry);
    if (dry->mask) {
        srv_json_key(&j, "mask");
        srv_json_string(&j, dry->mask);
    }
    put(&j, "cells", dry->cells);
    put(&j, "operations", dry->operations);
    write_bytes(&j, dry);
    srv_json_key(&j, "fits");
    srv_json_bool(&j, dry->fits);
    if (dry->learns) {
        srv_json_key(&j, "parameters");
        srv_json_size(&j, dry->parameters);
    }
    if (dry->rnn_steps > 0)
        write_rnn(&j, dry);
    put(&j, "predicted_ms", ms);
    srv_json_object_end(&j);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void dry_text(srv_request *req, const srv_dry *dry, double ms) {
    char shape[128];
    attn_text t = srv_text_begin(req);
    for (size_t i = 0; i < dry->shape_count; i++)
        attn_text_add(
            &t, "%s: %s\n", dry->shapes[i].name,
            attn_shape_text(dry->shapes[i].dims, dry->shapes[i].rank, shape, sizeof shape));
    if (dry->mask)
        attn_text_add(&t, "mask: %s\n", dry->mask);
    attn_text_add(&t, "cost: %.6g cells, %.6g operations, about %.3g ms\n", dry->cells,
                  dry->operations, ms);
    attn_text_add(&t, "bytes: %.0f of results, %.0f of scratch%s\n", dry->result, dry->work,
                  dry->fits ? "" : "; more than this service allows");
    if (dry->with_weights > 0)
        attn_text_add(&t, "results: %.0f bytes with weights, %.0f without\n", dry->with_weights,
                      dry->without_weights);
    if (dry->learns)
        attn_text_add(&t, "parameters: %zu\n", dry->parameters);
    if (dry->rnn_steps > 0)
        attn_text_add(&t,
                      "beside a recurrent layer of this width: %.6g multiply-adds of scores "
                      "instead of %.6g, paths of length 1 instead of %.0f\n",
                      dry->rnn_products, dry->rnn_operations, dry->rnn_steps);
    srv_text_end(req, &t);
}

srv_outcome srv_dry_reply(srv_request *req, const srv_dry *dry) {
    /* On the HTTP thread a request has less memory than the run would have on a worker. Therefore
     * only a worker can say that a run does not fit. */
    if (req->in_place && (!srv_predictor_ready(req->app->predictor) || !dry->fits))
        return SRV_DEFER;
    /* The run would decode as long as this request did. */
    double ms = 1e3 * predict(req->app->predictor, req->app->pool, &dry->load) +
                1e-6 * (double)req->decode_ns;
    ms = round(ms * 1e4) / 1e4;
    if (srv_reads_text(req))
        dry_text(req, dry, ms);
    else
        dry_json(req, dry, ms);
    return SRV_DONE;
}
