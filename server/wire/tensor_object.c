/* Reads a tensor that is written as an object with shape, dtype and a source of elements
 * (tensor_read.h). The members may come in any order. Therefore the whole object is read first, and
 * the elements afterwards, when shape and dtype are known. */
#include <string.h>

#include "config/nearest.h"
#include "number/base64.h"
#include "number/number.h"
#include "wire/tensor_read.h"

enum { SHAPE, DTYPE, DATA, BASE64, RANDOM, FILL, SEED, KEYS };

static const char *const keys[KEYS] = {"shape",  "dtype", "data", "base64",
                                       "random", "fill",  "seed"};

/* What the members of the object say. */
typedef struct description {
    unsigned given; /* bit 1 << SHAPE, …: the member is there */
    int rank;
    size_t dims[ATTN_MAX_RANK];
    attn_dtype dtype;
    const char *data, *data_end; /* where the list of the member data has its '[' and its ']' */
    const char *from, *to;       /* the text of base64 between its quotes */
    bool escaped;                /* this text has JSON escapes */
    srv_name what;               /* the value of random or fill */
    int64_t seed;
} description;

static bool has(const description *d, int key) {
    return d->given & (1u << key);
}

/* Refuses what stands at the cursor: a value of another type than `expected` with 422, malformed
 * JSON with 400. */
static bool refuse_type(srv_scan *s, const char *expected) {
    char found[SRV_FOUND_ROOM];
    if (!srv_scan_is_value(s->p))
        return srv_scan_expected(s, expected);
    srv_problem(s->req, SRV_TYPE, s->path.text, "expected %s, found %s", expected,
                srv_scan_found(s, s->p, found));
    return false;
}

static bool read_dim(srv_scan *s, size_t *out) {
    int64_t v;
    const char *p = attn_read_i64(s->p, s->end, &v);
    if (!p || v < 0)
        return refuse_type(s, "a size, an integer of 0 or more");
    *out = (size_t)v;
    s->p = p;
    return true;
}

static bool read_shape(srv_scan *s, description *d) {
    if (*s->p != '[')
        return refuse_type(s, "a list of sizes");
    s->p++;
    srv_scan_space(s);
    for (bool more = true; more;) {
        if (d->rank == ATTN_MAX_RANK || (d->rank == 0 && *s->p == ']')) {
            srv_problem(s->req, SRV_SHAPE, s->path.text, "expected 1 to %d axes, found %s",
                        ATTN_MAX_RANK, d->rank ? "more" : "none");
            return false;
        }
        size_t mark = srv_path_index(&s->path, (size_t)d->rank);
        if (!read_dim(s, &d->dims[d->rank]))
            return false;
        srv_path_back(&s->path, mark);
        d->rank++;
        if (!srv_scan_more(s, ']', &more))
            return false;
    }
    return true;
}

static bool read_text(srv_scan *s, srv_name *name) {
    return *s->p == '"' ? srv_scan_name(s, name) : refuse_type(s, "a string");
}

static bool accepted(attn_dtype dtype, unsigned accepts) {
    bool whole = dtype == ATTN_I32 || dtype == ATTN_I64 || dtype == ATTN_U8;
    if (dtype == ATTN_BOOL)
        return accepts & SRV_T_BOOL;
    return (accepts & SRV_T_REAL) || (whole && (accepts & SRV_T_INT));
}

static bool read_dtype(srv_scan *s, unsigned accepts, description *d) {
    srv_name name;
    if (!read_text(s, &name))
        return false;
    if (strlen(name.text) == name.size && attn_dtype_parse(name.text, &d->dtype) &&
        accepted(d->dtype, accepts))
        return true;
    srv_problem(s->req, SRV_DTYPE, s->path.text, "expected %s%s%s%s, found \"%s\"",
                accepts & SRV_T_REAL ? "float32, float16, bfloat16, float64" : "",
                accepts & SRV_T_REAL ? ", " : "",
                accepts & (SRV_T_REAL | SRV_T_INT) ? "int32, int64, uint8" : "",
                !(accepts & SRV_T_BOOL)              ? ""
                : accepts & (SRV_T_REAL | SRV_T_INT) ? " or bool"
                                                     : "bool",
                name.text);
    return false;
}

/* Notes where the flat list at the cursor begins and ends, and moves the cursor behind it. Refuses
 * a list with a string or another list in it, so it ends at the next ']'. */
static bool skip_data(srv_scan *s, description *d) {
    if (*s->p != '[')
        return refuse_type(s, "a flat list of elements");
    d->data = s->p;
    const char *close = memchr(s->p, ']', (size_t)(s->end - s->p));
    if (!close)
        return srv_scan_malformed(s, s->p, "this list is not closed");
    size_t inside = (size_t)(close - s->p - 1);
    if (memchr(s->p + 1, '[', inside)) {
        srv_problem(s->req, SRV_SHAPE, s->path.text,
                    "expected one flat list beside \"shape\", found lists in it: nested lists are "
                    "written without \"shape\"");
        return false;
    }
    const char *quote = memchr(s->p + 1, '"', inside);
    if (quote) {
        srv_problem(s->req, SRV_TYPE, s->path.text, "expected numbers, found a string among them");
        return false;
    }
    d->data_end = close;
    s->p = close + 1;
    return true;
}

static bool read_base64(srv_scan *s, description *d) {
    if (*s->p != '"')
        return refuse_type(s, "a string of base64");
    return srv_scan_string(s, &d->from, &d->to, &d->escaped);
}

static bool read_seed(srv_scan *s, description *d) {
    const char *p = attn_read_i64(s->p, s->end, &d->seed);
    if (!p)
        return refuse_type(s, "an integer of 64 bits");
    s->p = p;
    return true;
}

static bool read_member(srv_scan *s, int key, unsigned accepts, description *d) {
    switch (key) {
    case SHAPE:
        return read_shape(s, d);
    case DTYPE:
        return read_dtype(s, accepts, d);
    case DATA:
        return skip_data(s, d);
    case BASE64:
        return read_base64(s, d);
    case SEED:
        return read_seed(s, d);
    default:
        return read_text(s, &d->what);
    }
}

static bool find_key(srv_scan *s, const srv_name *name, int *key) {
    for (*key = 0; *key < KEYS; ++*key)
        if (srv_name_is(name, keys[*key]))
            return true;
    const char *near = srv_nearest(name->text, keys, KEYS);
    srv_path_key(&s->path, name->text, name->size);
    srv_problem(
        s->req, SRV_UNKNOWN_FIELD, s->path.text,
        "\"%s\" is no field of a tensor%s%s%s: it has shape, dtype and one of data, base64, "
        "random (with seed), fill",
        name->text, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return false;
}

static bool read_members(srv_scan *s, unsigned accepts, description *d) {
    bool more;
    s->p++;
    srv_scan_open(s, '}', &more);
    while (more) {
        srv_name name;
        int key;
        if (*s->p != '"')
            return srv_scan_expected(s, "a field name in double quotes");
        const char *start = s->p;
        if (!srv_scan_name(s, &name) || !find_key(s, &name, &key))
            return false;
        size_t mark = srv_path_key(&s->path, name.text, name.size);
        if (has(d, key))
            return srv_scan_malformed(s, start, "the field \"%s\" is there twice", name.text);
        d->given |= 1u << key;
        if (!srv_scan_mark(s, ':', "':'") || !read_member(s, key, accepts, d))
            return false;
        srv_path_back(&s->path, mark);
        if (!srv_scan_more(s, '}', &more))
            return false;
    }
    return true;
}

/* Checks that the object has a shape and exactly one source of elements. */
static bool check_members(srv_scan *s, const description *d) {
    int sources = has(d, DATA) + has(d, BASE64) + has(d, RANDOM) + has(d, FILL);
    if (!has(d, SHAPE))
        srv_problem(s->req, SRV_SHAPE, s->path.text,
                    "expected \"shape\" in a tensor written as an object");
    else if (sources != 1)
        srv_problem(s->req, SRV_VALUE, s->path.text,
                    "expected one of data, base64, random and fill beside shape, found %d",
                    sources);
    else if (has(d, SEED) && !has(d, RANDOM))
        srv_problem(s->req, SRV_VALUE, s->path.text, "\"seed\" belongs to \"random\"");
    else
        return true;
    return false;
}

/* Reads the elements of the member data, which must be as many as the shape needs. */
static bool load_data(srv_scan *s, unsigned accepts, const description *d, attn_tensor *t,
                      size_t count) {
    const char *after = s->p;
    char shape[128];
    size_t n = 0, mark = srv_path_key(&s->path, "data", 4);
    s->p = d->data + 1;
    srv_scan_space(s);
    if (s->p < d->data_end)
        n = srv_tensor_room(d->data, d->data_end);
    if (n != count) {
        srv_problem(s->req, SRV_SHAPE, s->path.text, "shape %s needs %zu element%s, data has %zu",
                    attn_shape_text(d->dims, d->rank, shape, sizeof shape), count,
                    count == 1 ? "" : "s", n);
        return false;
    }
    if (!srv_tensor_row(s, accepts, t->dtype, count, &t->data))
        return false;
    srv_path_back(&s->path, mark);
    s->p = after;
    return true;
}

/* Sets *text and *n to the base64 text without JSON escapes. (Some writers escape "/" as "\/".) A
 * text without escapes is not copied. */
static bool plain_base64(srv_scan *s, const description *d, const char **text, size_t *n) {
    *text = d->from;
    *n = (size_t)(d->to - d->from);
    if (!d->escaped)
        return true;
    char *copy = attn_arena_take(s->req->arena, *n);
    if (!copy)
        return srv_scan_memory(s);
    *n = srv_unescape(copy, d->from, d->to);
    *text = copy;
    return true;
}

static bool load_base64(srv_scan *s, const description *d, attn_tensor *t, size_t count) {
    char shape[128];
    const char *text;
    size_t n, bytes = 0, need = count * attn_dtype_size(t->dtype);
    srv_path_key(&s->path, "base64", 6);
    if (!plain_base64(s, d, &text, &n))
        return false;
    bool whole = attn_base64_size(text, n, &bytes);
    if (whole && bytes != need) {
        srv_problem(s->req, SRV_SHAPE, s->path.text,
                    "shape %s of %s needs %zu byte%s, base64 has %zu",
                    attn_shape_text(d->dims, d->rank, shape, sizeof shape),
                    attn_dtype_name(t->dtype), need, need == 1 ? "" : "s", bytes);
        return false;
    }
    t->data = whole ? srv_tensor_take(s, t->dtype, count) : NULL;
    if (whole && !t->data)
        return false;
    size_t bad = whole ? attn_base64_decode(t->data, text, n) : n;
    if (!whole || bad < n) {
        srv_problem(s->req, SRV_VALUE, s->path.text,
                    whole
                        ? "expected padded base64 (RFC 4648) without white space, found something "
                          "else at character %zu"
                        : "expected a multiple of 4 characters of base64, found %zu",
                    whole ? bad : n);
        return false;
    }
    for (size_t i = 0; t->dtype == ATTN_BOOL && i < count; i++)
        if (((const uint8_t *)t->data)[i] > 1) {
            srv_problem(s->req, SRV_VALUE, s->path.text,
                        "expected bytes 0 and 1 for bool, found %u at index %zu",
                        ((const uint8_t *)t->data)[i], i);
            return false;
        }
    return true;
}

/* --- random and fill ---
 *
 * A few bytes of text can ask for gigabytes of elements. Therefore the workers of the pool write
 * the elements in pieces. Between two pieces the pool checks the deadline and the cancel flag, and
 * works for other requests. */

static bool refuse_name(srv_scan *s, const char *field, const char *expected,
                        const srv_name *found) {
    srv_path_key(&s->path, field, strlen(field));
    srv_problem(s->req, SRV_VALUE, s->path.text, "expected %s, found \"%s\"", expected,
                found->text);
    return false;
}

/* How to compute the elements. Element i depends only on i, so pieces can be written in any order.
 */
typedef struct filling {
    const attn_tensor *t;
    size_t count;  /* number of elements */
    uint64_t seed; /* of random elements */
    bool normal;   /* random elements are normally distributed; false: uniformly */
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

static bool fill_all(srv_scan *s, filling *f) {
    attn_error err;
    size_t pieces = f->count / PIECE + (f->count % PIECE != 0);
    if (!attn_pool_run(srv_request_pool(s->req), pieces, fill_piece, f, &s->req->control, &err))
        return true;
    srv_problem_error(s->req, &err);
    return false;
}

static void fill_random(const filling *f, size_t first, size_t n) {
    void (*fill)(float *, size_t, uint64_t, uint64_t) =
        f->normal ? attn_rng_fill_normal : attn_rng_fill_uniform;
    double (*number)(uint64_t, uint64_t) = f->normal ? attn_rng_normal : attn_rng_uniform;
    float run[256];
    if (f->t->dtype == ATTN_F32) {
        fill((float *)f->t->data + first, n, f->seed, first);
        return;
    }
    for (size_t i = first, end = first + n; i < end; i += 256) {
        size_t some = end - i < 256 ? end - i : 256;
        if (f->t->dtype != ATTN_F64) {
            fill(run, some, f->seed, i);
            srv_tensor_narrow(f->t->data, f->t->dtype, i, run, some);
            continue;
        }
        for (size_t k = 0; k < some; k++)
            ((double *)f->t->data)[i + k] = number(f->seed, i + k);
    }
}

static bool load_random(srv_scan *s, const srv_name *what, int64_t seed, attn_tensor *t) {
    filling f = {
        .t = t, .seed = (uint64_t)seed, .normal = srv_name_is(what, "normal"), .fill = fill_random};
    attn_tensor_count(t, &f.count);
    if (!f.normal && !srv_name_is(what, "uniform"))
        return refuse_name(s, "random", "\"normal\" or \"uniform\"", what);
    if (t->dtype == ATTN_F32 || t->dtype == ATTN_F16 || t->dtype == ATTN_BF16 ||
        t->dtype == ATTN_F64)
        return fill_all(s, &f);
    srv_path_key(&s->path, "random", 6);
    srv_problem(s->req, SRV_DTYPE, s->path.text,
                "expected float32, float16, bfloat16 or float64 for random elements, found %s",
                attn_dtype_name(t->dtype));
    return false;
}

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
    size_t size = attn_dtype_size(f->t->dtype);
    memset((char *)f->t->data + first * size, 0, n * size);
}

static void fill_ones(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t->data, f->t->dtype, i, 1);
}

static void fill_arange(const filling *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        srv_tensor_store(f->t->data, f->t->dtype, i, (double)i);
}

/* Element (r, r) of matrix m is number m * rows * cols + r * (cols + 1). */
static void fill_eye(const filling *f, size_t first, size_t n) {
    const attn_tensor *t = f->t;
    size_t rows = t->dims[t->rank - 2], cols = t->dims[t->rank - 1];
    size_t size = rows * cols, diagonal = rows < cols ? rows : cols, end = first + n;
    fill_zeros(f, first, n);
    for (size_t start = first - first % size; start < end; start += size) {
        size_t r = first > start ? (first - start + cols) / (cols + 1) : 0;
        for (; r < diagonal && start + r * (cols + 1) < end; r++)
            srv_tensor_store(t->data, t->dtype, start + r * (cols + 1), 1);
    }
}

static bool check_arange(srv_scan *s, const attn_tensor *t, size_t count) {
    if (count == 0 || (double)(count - 1) <= last_exact(t->dtype))
        return true;
    srv_path_key(&s->path, "fill", 4);
    srv_problem(s->req, SRV_VALUE, s->path.text,
                "expected at most %.0f elements, of which %s holds each index, found %zu",
                last_exact(t->dtype) + 1, attn_dtype_name(t->dtype), count);
    return false;
}

static bool check_eye(srv_scan *s, const attn_tensor *t) {
    if (t->rank >= 2)
        return true;
    srv_path_key(&s->path, "fill", 4);
    srv_problem(s->req, SRV_SHAPE, s->path.text, "expected 2 axes or more for \"eye\", found 1");
    return false;
}

static bool load_fill(srv_scan *s, const srv_name *what, attn_tensor *t) {
    filling f = {.t = t};
    attn_tensor_count(t, &f.count);
    if (srv_name_is(what, "arange"))
        f.fill = fill_arange;
    else if (srv_name_is(what, "eye"))
        f.fill = fill_eye;
    else if (srv_name_is(what, "zeros"))
        f.fill = fill_zeros;
    else if (srv_name_is(what, "ones"))
        f.fill = fill_ones;
    else
        return refuse_name(s, "fill", "\"zeros\", \"ones\", \"eye\" or \"arange\"", what);
    if (f.fill == fill_arange && !check_arange(s, t, f.count))
        return false;
    return (f.fill != fill_eye || check_eye(s, t)) && fill_all(s, &f);
}

/* --- the object --- */

/* Sets *count to the number of elements, and checks that a tensor of this shape would fit into the
 * request's arena. For this check an axis of 0 counts as 1: a tensor of shape [1e12, 0] has no
 * elements, but loops over its first axis would run 1e12 times. */
static bool count_elements(srv_scan *s, const description *d, attn_dtype dtype, size_t *count) {
    size_t bound = attn_dtype_size(dtype);
    *count = 1;
    for (int i = 0; i < d->rank; i++) {
        *count *= d->dims[i];
        if (!attn_size_mul(bound, d->dims[i] ? d->dims[i] : 1, &bound))
            return srv_scan_memory(s);
    }
    return bound <= attn_arena_limit(s->req->arena) || srv_scan_memory(s);
}

bool srv_tensor_object(srv_scan *s, unsigned accepts, attn_tensor *out) {
    description d = {0};
    size_t mark = s->path.size, count;
    if (!read_members(s, accepts, &d) || !check_members(s, &d))
        return false;
    attn_dtype dtype = has(&d, DTYPE) ? d.dtype : srv_tensor_dtype(d.data ? d.data : "", accepts);
    attn_tensor t = {.dtype = dtype};
    if (!count_elements(s, &d, dtype, &count))
        return false;
    bool ok = has(&d, DATA)     ? load_data(s, accepts, &d, &t, count)
              : has(&d, BASE64) ? load_base64(s, &d, &t, count)
                                : (t.data = srv_tensor_take(s, dtype, count)) != NULL;
    t = attn_tensor_dense(t.data, dtype, d.rank, d.dims);
    if (ok && has(&d, RANDOM))
        ok = load_random(s, &d.what, d.seed, &t);
    if (ok && has(&d, FILL))
        ok = load_fill(s, &d.what, &t);
    if (!ok)
        return false;
    srv_path_back(&s->path, mark);
    *out = t;
    return true;
}
