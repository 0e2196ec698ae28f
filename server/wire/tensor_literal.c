/* Tensors whose elements are not sent but described (tensor_read.h): random numbers, initial values
 * of weights, and constants.
 *
 * A few bytes of text can ask for gigabytes of elements. Therefore the workers of the pool write
 * the elements in pieces. Between two pieces the pool checks the deadline and the cancel flag, and
 * works for other requests. */
#include <math.h>
#include <string.h>

#include "wire/tensor_read.h"

static bool refuse_name(attn_scan *s, const char *field, const char *expected,
                        const attn_name *found) {
    attn_path_key(&s->path, field, strlen(field));
    return srv_scan_refuse(s, SRV_VALUE, "expected %s, found \"%s\"", expected, found->text);
}

/* The rule by which elements are computed. Element i depends only on i, so pieces can be written in
 * any order. */
typedef struct filling {
    attn_tensor t;
    size_t count;  /* number of elements */
    uint64_t seed; /* random element i is factor * (draw(seed, i) - centre) */
    double (*draw)(uint64_t, uint64_t);
    double centre, factor;
    void (*fill)(const struct filling *f, size_t first, size_t n); /* writes n elements */
} filling;

enum { PIECE = 65536 }; /* elements of a piece */

static attn_status fill_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const filling *f = ctx;
    size_t first = index * PIECE, left = f->count - first;
    (void)lane;
    (void)err;
    f->fill(f, first, left < PIECE ? left : PIECE);
    return ATTN_OK;
}

static bool fill_all(srv_request *req, filling *f) {
    attn_error err;
    size_t pieces = f->count / PIECE + (f->count % PIECE != 0);
    return !attn_pool_run(srv_request_pool(req), pieces, fill_piece, f, &req->control, &err) ||
           srv_problem_error(req, &err);
}

/* --- random numbers --- */

static double random_element(const filling *f, size_t i) {
    return f->factor * (f->draw(f->seed, i) - f->centre);
}

static void fill_random(const filling *f, size_t first, size_t n) {
    float run[256];
    for (size_t i = first, end = first + n; i < end; i += 256) {
        const size_t some = end - i < 256 ? end - i : 256;
        for (size_t k = 0; f->t.dtype == ATTN_F64 && k < some; k++)
            ((double *)f->t.data)[i + k] = random_element(f, i + k);
        if (f->t.dtype == ATTN_F64)
            continue;
        float *to = f->t.dtype == ATTN_F32 ? (float *)f->t.data + i : run;
        for (size_t k = 0; k < some; k++)
            to[k] = (float)random_element(f, i + k);
        if (to == run)
            srv_tensor_narrow(f->t.data, f->t.dtype, i, run, some);
    }
}

/* Chooses the distribution of random elements: normal, or uniform around 0, with the standard
 * deviation `std`. */
static void set_distribution(filling *f, bool normal, double std) {
    f->draw = normal ? attn_rng_normal : attn_rng_uniform;
    f->centre = normal ? 0 : 0.5;
    f->factor = normal ? std : 2 * sqrt(3) * std;
}

struct srv_undrawn {
    filling filling;
    srv_undrawn *next;
};

static bool fill_late(attn_scan *s, const filling *f) {
    srv_request *req = srv_scan_of(s)->req;
    srv_undrawn *undrawn = attn_arena_take(req->arena, sizeof *undrawn);
    if (!undrawn)
        return srv_scan_memory(s);
    *undrawn = (srv_undrawn){*f, req->undrawn};
    req->undrawn = undrawn;
    return true;
}

bool srv_draw_random(srv_request *req) {
    bool ok = true;
    for (srv_undrawn *u = req->undrawn; u && ok; u = u->next)
        ok = fill_all(req, &u->filling);
    return ok;
}

double srv_draw_random_ns(const srv_request *req) {
    const size_t slots = attn_pool_slots(srv_request_pool(req));
    double ns = 0;
    for (const srv_undrawn *u = req->undrawn; u; u = u->next) {
        const filling *f = &u->filling;
        const size_t some = f->count < PIECE ? f->count : PIECE;
        const int64_t start = attn_now_ns();
        f->fill(f, 0, some);
        const double pieces = (double)f->count / PIECE,
                     lanes = fmax(1, fmin(pieces, (double)slots));
        ns += (double)(attn_now_ns() - start) * fmax(1, pieces) / lanes;
    }
    return ns;
}

static bool fill_with_random(attn_scan *s, const char *field, bool late, filling *f) {
    const attn_dtype dtype = f->t.dtype;
    attn_tensor_count(&f->t, &f->count);
    f->fill = fill_random;
    if (dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16 || dtype == ATTN_F64)
        return late ? fill_late(s, f) : fill_all(srv_scan_of(s)->req, f);
    attn_path_key(&s->path, field, strlen(field));
    return srv_scan_refuse(
        s, SRV_DTYPE,
        "expected float32, float16, bfloat16 or float64 for random elements, found %s",
        attn_dtype_name(dtype));
}

bool srv_tensor_random(attn_scan *s, const srv_literal *l, bool late, attn_tensor *t) {
    const bool normal = attn_name_is(&l->what, "normal");
    filling f = {.t = *t, .seed = (uint64_t)l->seed, .draw = attn_rng_uniform, .factor = 1};
    if (!normal && !attn_name_is(&l->what, "uniform"))
        return refuse_name(s, "random", "\"normal\" or \"uniform\"", &l->what);
    if (normal || l->has_std)
        set_distribution(&f, normal, l->has_std ? l->std : 1);
    return fill_with_random(s, "random", late, &f);
}

/* Sets *in and *out to fan_in and fan_out, the numbers of inputs and outputs of the layer to which
 * the tensor of initial values belongs. The tensor is a weight [fan_out, fan_in], or a bias
 * [fan_out], for which the client sends the member fan_in. false: a problem is set. */
static bool find_fans(attn_scan *s, const srv_literal *l, const attn_tensor *t, double *in,
                      double *out) {
    const bool bias = t->rank == 1 && l->fan_in, weight = t->rank == 2 && !l->fan_in;
    *out = (double)t->dims[0];
    *in = bias ? (double)l->fan_in : weight ? (double)t->dims[1] : 0;
    if (bias || weight)
        return true;
    if (t->rank == 2) {
        attn_path_key(&s->path, "fan_in", 6);
        return srv_scan_refuse(
            s, SRV_VALUE,
            "fan_in belongs to a bias, with 1 axis; of 2 axes, [fan_out, fan_in], it is "
            "the second, %zu",
            t->dims[1]);
    }
    attn_path_key(&s->path, "init", 4);
    if (t->rank == 1)
        return srv_scan_refuse(
            s, SRV_SHAPE,
            "expected 2 axes, [fan_out, fan_in] as of torch.nn.Linear.weight, or beside 1 "
            "axis, a bias [fan_out], the member fan_in: the inputs of its layer");
    return srv_scan_refuse(
        s, SRV_SHAPE, "expected 2 axes, [fan_out, fan_in] as of torch.nn.Linear.weight, found %d",
        t->rank);
}

/* Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
 * 2010, eq. 16: the variance is 2 / (fan_in + fan_out). He et al., "Delving deep into rectifiers",
 * 2015, eq. 14: it is 2 / ((1 + a^2) fan_in). A uniform number of variance v lies within
 * ±sqrt(3 v). */
bool srv_tensor_init(attn_scan *s, const srv_literal *l, bool late, attn_tensor *t) {
    static const char *const names[] = {"xavier_uniform", "xavier_normal", "kaiming_uniform",
                                        "kaiming_normal"};
    size_t kind = 0;
    double in, out;
    while (kind < 4 && !attn_name_is(&l->what, names[kind]))
        kind++;
    if (kind == 4)
        return refuse_name(
            s, "init",
            "\"xavier_uniform\", \"xavier_normal\", \"kaiming_uniform\" or \"kaiming_normal\"",
            &l->what);
    if (l->has_a && kind < 2) {
        attn_path_key(&s->path, "a", 1);
        return srv_scan_refuse(
            s, SRV_VALUE, "\"a\" belongs to kaiming_uniform and kaiming_normal, found init \"%s\"",
            names[kind]);
    }
    if (!find_fans(s, l, t, &in, &out))
        return false;
    const double squared = l->has_a ? l->a * l->a : 5; /* torch.nn.Linear has a = sqrt(5) */
    filling f = {.t = *t, .seed = (uint64_t)l->seed};
    set_distribution(&f, kind % 2 == 1, sqrt(kind < 2 ? 2 / (in + out) : 2 / ((1 + squared) * in)));
    return fill_with_random(s, "init", late, &f);
}

/* --- constants --- */

/* Returns the largest integer up to which the type represents every integer from 0 on. */
static double last_exact(attn_dtype dtype) {
    switch (dtype) {
    case ATTN_F32:
        return 16777216;
    case ATTN_F16:
        return 2048;
    case ATTN_BF16:
        return 256;
    case ATTN_I32:
        return INT32_MAX;
    case ATTN_U8:
        return UINT8_MAX;
    case ATTN_BOOL:
        return 1;
    default:
        return 9007199254740992.0; /* 2^53 */
    }
}

static void fill_zeros(const filling *f, size_t first, size_t n) {
    size_t size = attn_dtype_size(f->t.dtype);
    memset((char *)f->t.data + first * size, 0, n * size);
}

static void fill_ones(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t.data, f->t.dtype, i, 1);
}

static void fill_arange(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t.data, f->t.dtype, i, (double)i);
}

/* Element (r, r) of matrix m is number m * rows * cols + r * (cols + 1). */
static void fill_eye(const filling *f, size_t first, size_t n) {
    const attn_tensor *t = &f->t;
    size_t rows = t->dims[t->rank - 2], cols = t->dims[t->rank - 1];
    size_t size = rows * cols, diagonal = rows < cols ? rows : cols, end = first + n;
    fill_zeros(f, first, n);
    for (size_t start = first - first % size; start < end; start += size) {
        size_t r = first > start ? (first - start + cols) / (cols + 1) : 0;
        for (; r < diagonal && start + r * (cols + 1) < end; r++)
            srv_tensor_store(t->data, t->dtype, start + r * (cols + 1), 1);
    }
}

static bool check_arange(attn_scan *s, const attn_tensor *t, size_t count) {
    if (count == 0 || (double)(count - 1) <= last_exact(t->dtype))
        return true;
    attn_path_key(&s->path, "fill", 4);
    return srv_scan_refuse(
        s, SRV_VALUE, "expected at most %.0f elements, of which %s holds each index, found %zu",
        last_exact(t->dtype) + 1, attn_dtype_name(t->dtype), count);
}

static bool check_eye(attn_scan *s, const attn_tensor *t) {
    if (t->rank >= 2)
        return true;
    attn_path_key(&s->path, "fill", 4);
    return srv_scan_refuse(s, SRV_SHAPE, "expected 2 axes or more for \"eye\", found 1");
}

bool srv_tensor_fill(attn_scan *s, const srv_literal *l, attn_tensor *t) {
    const attn_name *what = &l->what;
    filling f = {.t = *t};
    attn_tensor_count(t, &f.count);
    if (attn_name_is(what, "arange"))
        f.fill = fill_arange;
    else if (attn_name_is(what, "eye"))
        f.fill = fill_eye;
    else if (attn_name_is(what, "zeros"))
        f.fill = fill_zeros;
    else if (attn_name_is(what, "ones"))
        f.fill = fill_ones;
    else
        return refuse_name(s, "fill", "\"zeros\", \"ones\", \"eye\" or \"arange\"", what);
    if (f.fill == fill_arange && !check_arange(s, t, f.count))
        return false;
    return (f.fill != fill_eye || check_eye(s, t)) && fill_all(srv_scan_of(s)->req, &f);
}
