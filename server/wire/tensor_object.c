/* Reads a tensor that is written as an object with shape, dtype and a source of elements
 * (tensor_read.h). The members may come in any order. Therefore the whole object is read first, and
 * the elements afterwards, when shape and dtype are known. */
#include <float.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "config/nearest.h"
#include "number/base64.h"
#include "number/number.h"
#include "wire/tensor_read.h"

enum {
    SHAPE,
    DTYPE,
    DATA,
    BASE64,
    RANDOM,
    INIT,
    FILL,
    RUNS,
    SEED,
    STD,
    SLOPE,
    FAN_IN,
    ENCODING,
    KEYS
};

static const char *const keys[KEYS] = {"shape", "dtype",  "data",    "base64", "random",
                                       "init",  "fill",   "runs",    "seed",   "std",
                                       "a",     "fan_in", "encoding"};

/* The members of the object. */
typedef struct description {
    unsigned given; /* bit 1 << SHAPE, …: the member is there */
    int rank;
    size_t dims[ATTN_MAX_RANK];
    attn_dtype dtype;
    const char *data, *data_end; /* positions of '[' and ']' of the list in the member data */
    bool nested;                 /* the member data holds lists */
    const char *from, *to;       /* the text of the member base64 between its quotes */
    bool escaped;                /* the text of base64 has JSON escapes */
    const char *runs;            /* position of '[' of the list in the member runs */
    srv_literal literal;         /* the members random, init and fill */
} description;

static bool has(const description *d, int key) {
    return d->given & (1u << key);
}

static bool refuse_type(attn_scan *s, const char *expected) {
    return srv_scan_unexpected(s, SRV_TYPE, expected);
}

static bool read_shape(attn_scan *s, description *d) {
    if (*s->p != '[')
        return refuse_type(s, "a list of sizes");
    bool more;
    if (!srv_scan_open(s, ']', &more))
        return false;
    do {
        if (d->rank == ATTN_MAX_RANK || !more)
            return srv_scan_refuse(s, SRV_SHAPE, "expected 1 to %d axes, found %s", ATTN_MAX_RANK,
                                   d->rank ? "more" : "none");
        size_t mark = attn_path_index(&s->path, (size_t)d->rank);
        int64_t size;
        if (!srv_scan_integer(s, 0, INT64_MAX, SRV_TYPE, "a size, an integer of 0 or more", &size))
            return false;
        attn_path_back(&s->path, mark);
        d->dims[d->rank++] = (size_t)size;
        if (!attn_scan_more(s, ']', &more))
            return false;
    } while (more);
    return true;
}

static bool read_text(attn_scan *s, attn_name *name) {
    return *s->p == '"' ? attn_scan_name(s, name) : refuse_type(s, "a string");
}

static bool accepted(attn_dtype dtype, unsigned accepts) {
    bool whole = dtype == ATTN_I32 || dtype == ATTN_I64 || dtype == ATTN_U8;
    if (dtype == ATTN_BOOL)
        return accepts & SRV_T_BOOL;
    return (accepts & SRV_T_REAL) || (whole && (accepts & SRV_T_INT));
}

static bool read_dtype(attn_scan *s, unsigned accepts, description *d) {
    attn_name name;
    if (!read_text(s, &name))
        return false;
    if (strlen(name.text) == name.size && attn_dtype_parse(name.text, &d->dtype) &&
        accepted(d->dtype, accepts))
        return true;
    return srv_scan_refuse(s, SRV_DTYPE, "expected %s%s%s%s, found \"%s\"",
                           accepts & SRV_T_REAL ? "float32, float16, bfloat16, float64" : "",
                           accepts & SRV_T_REAL ? ", " : "",
                           accepts & (SRV_T_REAL | SRV_T_INT) ? "int32, int64, uint8" : "",
                           !(accepts & SRV_T_BOOL)              ? ""
                           : accepts & (SRV_T_REAL | SRV_T_INT) ? " or bool"
                                                                : "bool",
                           name.text);
}

/* Notes where the list at the cursor begins and ends and whether it holds lists, and moves the
 * cursor behind it. Finds the end of the list by counting brackets. No bracket can be hidden in a
 * string, because a tensor has no strings. */
static bool skip_data(attn_scan *s, description *d) {
    if (*s->p != '[')
        return refuse_type(s, "a list of elements");
    d->data = s->p;
    size_t open = 0;
    do {
        const char *close = memchr(s->p, ']', (size_t)(s->end - s->p));
        if (!close)
            return attn_scan_fail(s, ATTN_EARG, d->data, "this list is not closed");
        const size_t before = (size_t)(close - s->p);
        if (memchr(s->p, '"', before))
            return srv_scan_refuse(s, SRV_TYPE, "expected numbers, found a string among them");
        for (const char *p = s->p; (p = memchr(p, '[', (size_t)(close - p))); p++)
            open++;
        d->nested |= open > 1;
        d->data_end = close;
        s->p = close + 1;
    } while (--open > 0);
    return true;
}

static bool read_base64(attn_scan *s, description *d) {
    if (*s->p != '"')
        return refuse_type(s, "a string of base64");
    return attn_scan_string(s, &d->from, &d->to, &d->escaped);
}

static bool read_number(attn_scan *s, double least, const char *expected, double *out) {
    double v;
    const char *p = attn_read_f64(s->p, s->end, &v);
    if (!p || !isfinite(v) || v < least)
        return refuse_type(s, expected);
    *out = v;
    s->p = p;
    return true;
}

static bool read_encoding(attn_scan *s, unsigned accepts) {
    attn_name name;
    if (!read_text(s, &name))
        return false;
    if (!attn_name_is(&name, "bits"))
        return srv_scan_refuse(s, SRV_VALUE, "expected \"bits\", found \"%.40s\"", name.text);
    return (accepts & SRV_T_BOOL) ||
           srv_scan_refuse(s, SRV_DTYPE,
                           "bits are booleans: this tensor has numbers and no encoding");
}

static bool read_member(attn_scan *s, int key, unsigned accepts, description *d) {
    switch (key) {
    case SHAPE:
        return read_shape(s, d);
    case DTYPE:
        return read_dtype(s, accepts, d);
    case DATA:
        return skip_data(s, d);
    case BASE64:
        return read_base64(s, d);
    case RUNS:
        d->runs = s->p;
        return srv_tensor_skip_runs(s);
    case ENCODING:
        return read_encoding(s, accepts);
    case SEED:
        return srv_scan_integer(s, INT64_MIN, INT64_MAX, SRV_TYPE, "an integer of 64 bits",
                                &d->literal.seed);
    case STD:
        d->literal.has_std = true;
        return read_number(s, 0, "a standard deviation, a number of 0 or more", &d->literal.std);
    case FAN_IN:
        return srv_scan_integer(s, 1, INT64_MAX, SRV_TYPE,
                                "a number of inputs, an integer of 1 or more", &d->literal.fan_in);
    case SLOPE:
        d->literal.has_a = true;
        return read_number(s, -DBL_MAX, "a number", &d->literal.a);
    default:
        return read_text(s, &d->literal.what);
    }
}

static bool find_key(attn_scan *s, const attn_name *name, int *key) {
    for (*key = 0; *key < KEYS; ++*key)
        if (attn_name_is(name, keys[*key]))
            return true;
    const char *near = srv_nearest(name->text, keys, KEYS);
    attn_path_key(&s->path, name->text, name->size);
    return srv_scan_refuse(
        s, SRV_UNKNOWN_FIELD,
        "\"%s\" is no field of a tensor%s%s%s: it has shape, dtype and one of data, base64, "
        "random (with seed and std), init (with seed, a and fan_in), fill, runs (of booleans), and "
        "encoding beside base64",
        name->text, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static bool read_members(attn_scan *s, unsigned accepts, description *d) {
    bool more;
    if (!srv_scan_open(s, '}', &more))
        return false;
    while (more) {
        attn_name name;
        int key;
        if (*s->p != '"')
            return attn_scan_expected(s, "a field name in double quotes");
        const char *start = s->p;
        if (!attn_scan_name(s, &name) || !find_key(s, &name, &key))
            return false;
        size_t mark = attn_path_key(&s->path, name.text, name.size);
        if (has(d, key))
            return attn_scan_fail(s, ATTN_EARG, start, "the field \"%s\" is there twice",
                                  name.text);
        d->given |= 1u << key;
        if (!attn_scan_mark(s, ':', "':'") || !read_member(s, key, accepts, d))
            return false;
        attn_path_back(&s->path, mark);
        if (!attn_scan_more(s, '}', &more))
            return false;
    }
    return true;
}

/* Checks the members of the object. It must have exactly one source of elements. It must have a
 * shape, unless the source is "data". It may have seed, std, a and fan_in only if the source uses
 * them. */
static bool check_members(attn_scan *s, const description *d) {
    int sources =
        has(d, DATA) + has(d, BASE64) + has(d, RANDOM) + has(d, INIT) + has(d, FILL) + has(d, RUNS);
    if (!has(d, SHAPE) && !has(d, DATA))
        return srv_scan_refuse(
            s, SRV_SHAPE, "expected \"shape\" in a tensor written as an object without \"data\"");
    if (has(d, ENCODING) && (sources > has(d, BASE64) || (has(d, DTYPE) && d->dtype != ATTN_BOOL)))
        return srv_scan_refuse(
            s, SRV_VALUE,
            "\"encoding\": \"bits\" stands beside shape and base64; the dtype is bool");
    if (sources != 1 && !has(d, ENCODING))
        return srv_scan_refuse(
            s, SRV_VALUE, "expected one of data, base64, random, init, fill and runs%s, found %d",
            has(d, SHAPE) ? " beside shape" : "", sources);
    if (has(d, SEED) && !has(d, RANDOM) && !has(d, INIT))
        return srv_scan_refuse(s, SRV_VALUE, "\"seed\" belongs to \"random\" and \"init\"");
    if (has(d, STD) && !has(d, RANDOM))
        return srv_scan_refuse(s, SRV_VALUE, "\"std\" belongs to \"random\"");
    if (has(d, SLOPE) && !has(d, INIT))
        return srv_scan_refuse(s, SRV_VALUE, "\"a\" belongs to \"init\"");
    if (has(d, FAN_IN) && !has(d, INIT))
        return srv_scan_refuse(s, SRV_VALUE, "\"fan_in\" belongs to \"init\"");
    return true;
}

/* Reads the member data of an object without shape: nested lists, which give the shape. In the body
 * the lists are nested one level deeper than the object. */
static bool load_lists(attn_scan *s, unsigned accepts, const description *d, attn_dtype dtype,
                       attn_tensor *out) {
    const char *after = s->p;
    const size_t mark = attn_path_key(&s->path, "data", 4);
    s->p = d->data;
    s->depth++;
    if (!srv_tensor_nested(s, accepts, dtype, out, NULL))
        return false;
    s->depth--;
    attn_path_back(&s->path, mark);
    s->p = after;
    return true;
}

/* Reads the elements of the member data. Their number must be the number that the shape needs. */
static bool load_data(attn_scan *s, unsigned accepts, const description *d, attn_tensor *t,
                      size_t count) {
    const char *after = s->p;
    char shape[128];
    size_t n = 0, mark = attn_path_key(&s->path, "data", 4);
    if (d->nested)
        return srv_scan_refuse(
            s, SRV_SHAPE,
            "expected one flat list beside \"shape\", found lists in it: nested lists "
            "have a shape of their own, so send them without \"shape\"");
    s->p = d->data + 1;
    attn_scan_space(s);
    if (s->p < d->data_end)
        n = srv_tensor_room(d->data, d->data_end);
    if (n != count)
        return srv_scan_refuse(s, SRV_SHAPE, "shape %s needs %zu element%s, data has %zu",
                               attn_shape_text(d->dims, d->rank, shape, sizeof shape), count,
                               attn_plural(count), n);
    if (!srv_tensor_row(s, accepts, t->dtype, count, &t->data))
        return false;
    attn_path_back(&s->path, mark);
    s->p = after;
    return true;
}

/* Sets *text and *n to the base64 text without JSON escapes. (Some writers escape "/" as "\/".) A
 * text without escapes is not copied. */
static bool plain_base64(attn_scan *s, const description *d, const char **text, size_t *n) {
    *text = d->from;
    *n = (size_t)(d->to - d->from);
    if (!d->escaped)
        return true;
    char *copy = attn_arena_take(s->arena, *n);
    if (!copy)
        return srv_scan_memory(s);
    *n = attn_unescape(copy, d->from, d->to);
    *text = copy;
    return true;
}

static bool load_base64(attn_scan *s, const description *d, attn_tensor *t, size_t count) {
    char shape[128];
    const char *text;
    size_t n, bytes = 0, need = count * attn_dtype_size(t->dtype);
    attn_path_key(&s->path, "base64", 6);
    if (!plain_base64(s, d, &text, &n))
        return false;
    bool whole = attn_base64_size(text, n, &bytes);
    if (whole && bytes != need)
        return srv_scan_refuse(s, SRV_SHAPE, "shape %s of %s needs %zu byte%s, base64 has %zu",
                               attn_shape_text(d->dims, d->rank, shape, sizeof shape),
                               attn_dtype_name(t->dtype), need, attn_plural(need), bytes);
    t->data = whole ? srv_tensor_take(s, t->dtype, count) : NULL;
    if (whole && !t->data)
        return false;
    size_t bad = whole ? attn_base64_decode(t->data, text, n) : n;
    if (!whole || bad < n)
        return srv_scan_refuse(
            s, SRV_VALUE,
            whole ? "expected padded base64 (RFC 4648) without white space, found something "
                    "else at character %zu"
                  : "expected a multiple of 4 characters of base64, found %zu",
            whole ? bad : n);
    for (size_t i = 0; t->dtype == ATTN_BOOL && i < count; i++)
        if (((const uint8_t *)t->data)[i] > 1)
            return srv_scan_refuse(s, SRV_VALUE,
                                   "expected bytes 0 and 1 for bool, found %u at index %zu",
                                   ((const uint8_t *)t->data)[i], i);
    return true;
}

/* Reads the tensor of bits that the members describe. For a row without SRV_T_BITS, unpacks it to
 * booleans. `mark` is the path of the tensor. */
static bool load_bits(attn_scan *s, unsigned accepts, const description *d, size_t mark,
                      attn_tensor *out) {
    attn_tensor t = attn_tensor_bits(NULL, d->rank, d->dims), bytes = t;
    size_t count;
    bytes.dims[d->rank - 1] = d->dims[d->rank - 1] / 8 + (d->dims[d->rank - 1] % 8 != 0);
    if (!srv_tensor_fits(s->arena, &bytes) || !attn_tensor_count(&bytes, &count))
        return srv_scan_memory(s);
    if (has(d, BASE64) && !load_base64(s, d, &t, count))
        return false;
    attn_path_back(&s->path, mark);
    *out = t;
    return !has(d, BASE64) || (accepts & SRV_T_BITS) ||
           srv_tensor_unpack(srv_scan_of(s)->req, s->path.text, out);
}

/* --- the object --- */

/* Returns the default seed of a tensor, which is made from the JSON pointer of the tensor.
 * Therefore query and key get different numbers, as from two calls of torch.randn, and equal
 * requests get equal numbers. */
static int64_t seed_of_place(const attn_scan *s) {
    return (int64_t)crc32_z(0, (const Bytef *)s->path.text, s->path.size);
}

/* Reads the tensor at the cursor, which is written as an object. false: a problem is set. */
static bool read_object(attn_scan *s, unsigned accepts, attn_tensor *out) {
    description d = {0};
    size_t mark = s->path.size, count;
    if (!read_members(s, accepts, &d) || !check_members(s, &d))
        return false;
    attn_dtype dtype = has(&d, DTYPE)  ? d.dtype
                       : has(&d, RUNS) ? ATTN_BOOL
                                       : srv_tensor_dtype(d.data ? d.data : "", accepts);
    attn_tensor t = {.dtype = dtype, .rank = d.rank};
    memcpy(t.dims, d.dims, sizeof t.dims);
    if (has(&d, RUNS) && (dtype != ATTN_BOOL || !(accepts & SRV_T_BOOL))) {
        attn_path_key(&s->path, "runs", 4);
        return srv_scan_refuse(s, SRV_DTYPE, "runs are booleans, expected %s",
                               accepts & SRV_T_BOOL ? "the dtype bool" : "a tensor of numbers");
    }
    if (!has(&d, SHAPE))
        return load_lists(s, accepts, &d, dtype, out);
    if (has(&d, ENCODING))
        return load_bits(s, accepts, &d, mark, out);
    if (!srv_tensor_fits(s->arena, &t) || !attn_tensor_count(&t, &count))
        return srv_scan_memory(s);
    bool ok = has(&d, DATA)     ? load_data(s, accepts, &d, &t, count)
              : has(&d, BASE64) ? load_base64(s, &d, &t, count)
                                : (t.data = srv_tensor_take(s, dtype, count)) != NULL;
    t = attn_tensor_dense(t.data, dtype, d.rank, d.dims);
    if (!has(&d, SEED))
        d.literal.seed = seed_of_place(s);
    if (ok && has(&d, RANDOM))
        ok = srv_tensor_random(s, &d.literal, accepts & SRV_T_LATE, &t);
    if (ok && has(&d, INIT))
        ok = srv_tensor_init(s, &d.literal, accepts & SRV_T_LATE, &t);
    if (ok && has(&d, RUNS))
        ok = srv_tensor_runs(s, d.runs, &t);
    if (ok && has(&d, FILL))
        ok = srv_tensor_fill(s, &d.literal, &t);
    if (!ok)
        return false;
    attn_path_back(&s->path, mark);
    *out = t;
    return true;
}

/* Reads one number as a tensor [1]. */
static bool read_single(attn_scan *s, attn_tensor *out) {
    const size_t one = 1;
    double value = 0;
    if (!read_number(s, -DBL_MAX, "a number", &value))
        return false;
    if (fabs(value) > FLT_MAX)
        return srv_scan_refuse(s, SRV_NONFINITE, "expected a number that float32 holds, found %g",
                               value);
    void *data = srv_tensor_take(s, ATTN_F32, one);
    if (data)
        srv_tensor_store(data, ATTN_F32, 0, value);
    *out = attn_tensor_dense(data, ATTN_F32, 1, &one);
    return data != NULL;
}

bool srv_tensor_object(attn_scan *s, unsigned accepts, attn_tensor *out) {
    if (*s->p == '{')
        return read_object(s, accepts, out);
    if ((accepts & SRV_T_NUMBER) && attn_scan_is_number(s))
        return read_single(s, out);
    if (!attn_scan_is_value(s))
        return attn_scan_expected(s, "a tensor");
    return refuse_type(s,
                       "nested lists or {\"shape\": [..], \"data\" or \"base64\" or \"random\" or "
                       "\"fill\": ..}");
}
