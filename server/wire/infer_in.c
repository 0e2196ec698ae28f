/* Reads requests of the Open Inference Protocol. Their JSON is decoded by field tables, as the JSON
 * of all requests is (decode.h), with two exceptions:
 *
 *   The data of an input may stand before its datatype and shape. Therefore the decoder only notes
 *   where the data begins. The elements are read afterwards from the JSON into their final buffer.
 *   If they are binary data behind the JSON, the tensor points to that data instead.
 *
 *   Parameters that the protocol does not define are copied as text into srv_infer.fields or
 *   srv_infer.own. The decoder of the operation checks them later. */
#include <float.h>
#include <string.h>

#include "number/number.h"
#include "wire/decode_value.h"
#include "wire/infer.h"
#include "wire/tensor_read.h"

typedef struct binary_output {
    srv_given_bits given;
    bool binary;
} binary_output;

typedef struct infer_output {
    srv_given_bits given;
    const char *name;
    binary_output parameters;
} infer_output;

typedef struct binary_input {
    srv_given_bits given;
    int64_t size;
} binary_input;

typedef struct infer_input {
    srv_given_bits given;
    const char *name, *datatype;
    srv_ints shape;
    binary_input parameters;
    const char *data; /* begin of the elements in the JSON; NULL: they are binary */
    /* The following members are set after decoding. */
    const struct datatype *type;
    size_t dims[ATTN_MAX_RANK];
    size_t count; /* number of elements */
    int rank;
} infer_input;

typedef struct infer_parameters {
    srv_given_bits given;
    int64_t timeout_us, priority;
    bool binary;
} infer_parameters;

typedef struct infer_body {
    srv_given_bits given;
    const char *id;
    infer_parameters parameters;
    srv_objects inputs, outputs;
} infer_body;

static const srv_field output_parameters[] = {
    SRV_NAMED_ROW(binary_output, "binary_data", binary, SRV_BOOL, NULL),
    {0},
};
static const srv_field output_fields[] = {
    SRV_FIELD_ROW(infer_output, name, SRV_STRING, "The name of an output of the model.",
                  .required = true),
    SRV_FIELD_ROW(infer_output, parameters, SRV_OBJECT, NULL, .fields = output_parameters),
    {0},
};
static const srv_field input_parameters[] = {
    SRV_NAMED_ROW(binary_input, "binary_data_size", size, SRV_INT, NULL, .max = DBL_MAX),
    {0},
};
static const srv_field input_fields[] = {
    SRV_FIELD_ROW(infer_input, name, SRV_STRING, "The name of an input of the model.",
                  .required = true),
    SRV_FIELD_ROW(infer_input, shape, SRV_INTS, "The size of each axis.", .required = true),
    SRV_FIELD_ROW(infer_input, datatype, SRV_STRING, "The type of the elements, such as FP32.",
                  .required = true),
    SRV_FIELD_ROW(infer_input, parameters, SRV_OBJECT, NULL, .fields = input_parameters),
    SRV_FIELD_ROW(infer_input, data, SRV_RAW, NULL),
    {0},
};
static const srv_field parameters[] = {
    SRV_NAMED_ROW(infer_parameters, "timeout", timeout_us, SRV_INT, NULL, .min = 1, .max = DBL_MAX),
    SRV_INT_ROW(infer_parameters, priority, 0, DBL_MAX, NULL),
    SRV_NAMED_ROW(infer_parameters, "binary_data_output", binary, SRV_BOOL, NULL),
    {0},
};
static const srv_field infer_fields[] = {
    SRV_FIELD_ROW(infer_body, id, SRV_STRING, NULL),
    SRV_FIELD_ROW(infer_body, parameters, SRV_OBJECT, NULL, .fields = parameters),
    SRV_FIELD_ROW(infer_body, inputs, SRV_OBJECTS, "The tensors that the model reads.",
                  .fields = input_fields, .size = sizeof(infer_input), .max = SRV_INFER_INPUTS,
                  .required = true),
    SRV_FIELD_ROW(infer_body, outputs, SRV_OBJECTS, NULL, .fields = output_fields,
                  .size = sizeof(infer_output), .max = SRV_INFER_OUTPUTS),
    {0},
};

typedef struct reader {
    srv_decoder d; /* must be the first member, because read_parameter casts it to reader */
    srv_infer *out;
    const srv_field *own;
    const char *blob, *blob_end; /* the binary data that no input has used yet */
} reader;

static bool refuse(reader *r, srv_code code, const char *text) {
    return srv_scan_refuse(&r->d.s, code, "%s", text);
}

/* --- parameters --- */

/* Appends n bytes of text to f. false: memory ran out, and a problem is set. */
static bool add_bytes(reader *r, attn_text *f, const char *text, size_t n) {
    attn_text_bytes(f, text, n);
    return !f->failed || srv_scan_memory(&r->d.s);
}

/* Returns the text to which the parameter with this name is appended: out->own or out->fields. */
static attn_text *fields_of(reader *r, const attn_name *name) {
    for (const srv_field *f = r->own; f && f->name; f++)
        if (f->kind != SRV_TENSOR && attn_name_is(name, f->name))
            return &r->out->own;
    return &r->out->fields;
}

static bool check_value(reader *r);

static bool check_key(reader *r) {
    const char *from, *to;
    bool escaped;
    if (*r->d.s.p != '"')
        return attn_scan_expected(&r->d.s, "a field name in double quotes");
    return attn_scan_string(&r->d.s, &from, &to, &escaped) && attn_scan_mark(&r->d.s, ':', "':'");
}

/* Checks the grammar of the list or object at the cursor, and moves the cursor behind it. */
static bool check_members(reader *r) {
    attn_scan *s = &r->d.s;
    const char close = *s->p == '{' ? '}' : ']';
    bool more;
    if (!srv_scan_open(s, close, &more))
        return false;
    while (more)
        if ((close == '}' && !check_key(r)) || !check_value(r) || !attn_scan_more(s, close, &more))
            return false;
    return true;
}

static bool check_value(reader *r) {
    attn_scan *s = &r->d.s;
    const char *from, *to;
    bool escaped;
    double number;
    if (*s->p == '{' || *s->p == '[')
        return check_members(r);
    if (*s->p == '"')
        return attn_scan_string(s, &from, &to, &escaped);
    const char *after = attn_read_f64(s->p, s->end, &number);
    if (after)
        s->p = after;
    return after || attn_scan_word(s, "true") || attn_scan_word(s, "false") ||
           attn_scan_word(s, "null") || attn_scan_expected(s, "a value");
}

/* Checks that the text of a parameter is exactly one JSON value. The text is copied into the JSON
 * of the decoded body, where anything behind the value would become further members. */
static bool is_json(const reader *r, const char *text) {
    reader inner = *r;
    attn_scan *s = &inner.d.s;
    s->of = "this text";
    s->start = s->p = text;
    s->end = text + strlen(text);
    s->depth = 1; /* the value will be a member of an object */
    if (!check_value(&inner))
        return false;
    return attn_scan_end(s);
}

/* Reads the value of a parameter and appends "name":value to `to`. `name` is the text of the name
 * with its quotes, `size` bytes. The protocol allows strings, numbers and booleans only, so a list
 * or an object is given as a string with JSON, such as "[2,0]". */
static bool read_field(reader *r, attn_text *to, const char *name, size_t size) {
    const char *from = r->d.s.p, *text;
    double number;
    if (!add_bytes(r, to, ",", 1) || !add_bytes(r, to, name, size) || !add_bytes(r, to, ":", 1))
        return false;
    if (*from == '"') {
        if (!srv_read_string(&r->d, NULL, &text))
            return false;
        if (*text == '[' || *text == '{')
            return is_json(r, text) && add_bytes(r, to, text, strlen(text));
        return add_bytes(r, to, from, (size_t)(r->d.s.p - from));
    }
    const char *after = attn_read_f64(from, r->d.s.end, &number);
    if (after)
        r->d.s.p = after;
    else if (!attn_scan_word(&r->d.s, "true") && !attn_scan_word(&r->d.s, "false"))
        return attn_scan_is_value(&r->d.s)
                   ? refuse(r, SRV_TYPE, "expected a string, a number or a boolean")
                   : attn_scan_expected(&r->d.s, "a string, a number or a boolean");
    return add_bytes(r, to, from, (size_t)(r->d.s.p - from));
}

/* The `other` of the decoder: reads a parameter that the protocol does not define. */
static bool read_parameter(srv_decoder *d, const attn_name *name, const char *text) {
    reader *r = (reader *)d;
    const size_t size = (size_t)(d->s.p - text);
    if (!attn_scan_mark(&d->s, ':', "':'"))
        return false;
    if (strncmp(name->text, "triton_", 7) == 0)
        return refuse(r, SRV_VALUE, "names that begin with \"triton_\" are reserved");
    if (attn_name_is(name, "return"))
        return refuse(r, SRV_VALUE, "\"outputs\" says what to return");
    if (attn_name_is(name, "dry_run"))
        return refuse(r, SRV_VALUE, "a dry run has no outputs: ask /v1/attention");
    return read_field(r, fields_of(r, name), text, size);
}

/* --- inputs --- */

typedef struct datatype {
    const char *name;
    attn_dtype dtype; /* element type of the tensor in memory */
    int bytes;        /* size of an element in binary data; 0: the datatype is not supported */
    bool is_signed;   /* matters for integers that widen_integers converts to int64 */
} datatype;

static const datatype datatypes[] = {
    {"FP32", ATTN_F32, 4, false},   {"FP16", ATTN_F16, 2, false},   {"BF16", ATTN_BF16, 2, false},
    {"FP64", ATTN_F64, 8, false},   {"BOOL", ATTN_BOOL, 1, false},  {"UINT8", ATTN_U8, 1, false},
    {"INT32", ATTN_I32, 4, true},   {"INT64", ATTN_I64, 8, true},   {"INT8", ATTN_I64, 1, true},
    {"INT16", ATTN_I64, 2, true},   {"UINT16", ATTN_I64, 2, false}, {"UINT32", ATTN_I64, 4, false},
    {"UINT64", ATTN_I64, 8, false}, {"BYTES", ATTN_U8, 0, false},
};
#define DATATYPES (sizeof datatypes / sizeof *datatypes)

const char *srv_infer_datatype(attn_dtype dtype) {
    for (size_t i = 0; i < DATATYPES; i++)
        if (datatypes[i].dtype == dtype)
            return datatypes[i].name;
    return "";
}

static bool find_shape(reader *r, infer_input *in) {
    if (in->shape.count == 0 || in->shape.count > ATTN_MAX_RANK)
        return refuse(r, SRV_SHAPE,
                      in->shape.count ? "expected at most 8 axes, found more"
                                      : "expected 1 to 8 axes, found none");
    for (; in->rank < (int)in->shape.count; in->rank++) {
        if (in->shape.values[in->rank] < 0)
            return refuse(r, SRV_TYPE, "expected an integer of 0 or more");
        in->dims[in->rank] = (size_t)in->shape.values[in->rank];
    }
    return true;
}

static bool find_type(reader *r, infer_input *in) {
    for (size_t i = 0; i < DATATYPES; i++)
        if (strcmp(datatypes[i].name, in->datatype) == 0 && datatypes[i].bytes) {
            in->type = &datatypes[i];
            return true;
        }
    return srv_scan_refuse(
        &r->d.s, SRV_DTYPE,
        "expected BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32 or FP64, found "
        "\"%.40s\"",
        in->datatype);
}

/* Sets in->count to the number of elements, and checks that a tensor of this shape would fit into
 * the request's arena; for this check an axis of 0 counts as 1 (srv_tensor_fits). */
static bool count_elements(reader *r, infer_input *in) {
    size_t bound = attn_dtype_size(in->type->dtype);
    in->count = 1;
    for (int i = 0; i < in->rank; i++) {
        in->count *= in->dims[i];
        if (!attn_size_mul(bound, in->dims[i] ? in->dims[i] : 1, &bound))
            return refuse(r, SRV_SHAPE, "the shape has more elements than can be counted");
    }
    return bound <= attn_arena_limit(r->d.s.arena) || srv_scan_memory(&r->d.s);
}

/* Reads the elements of an input from the JSON: one flat list, or nested lists of the input's
 * shape. */
static bool load_json(reader *r, infer_input *in, attn_tensor *t) {
    attn_scan *s = &r->d.s;
    char shape[128], found[128];
    const char *after = s->p;
    if (in->type->dtype == ATTN_F16 || in->type->dtype == ATTN_BF16)
        return refuse(r, SRV_DTYPE, "16-bit floats have no form in JSON: send them as binary data");
    size_t mark = attn_path_key(&s->path, "data", 4);
    s->p = in->data;
    if (!srv_tensor_list(s, in->type->dtype, t))
        return false;
    r->out->beyond = r->d.own.beyond;
    s->p = after;
    size_t count = 0;
    attn_tensor_count(t, &count);
    bool same =
        t->rank == in->rank && memcmp(t->dims, in->dims, sizeof(size_t) * (size_t)t->rank) == 0;
    if (!same && (t->rank != 1 || count != in->count))
        return srv_scan_refuse(
            s, SRV_SHAPE,
            "expected %zu element%s, in one list or in lists of shape %s, found lists of "
            "shape %s",
            in->count, attn_plural(in->count),
            attn_shape_text(in->dims, in->rank, shape, sizeof shape),
            attn_shape_text(t->dims, t->rank, found, sizeof found));
    attn_path_back(&s->path, mark);
    return true;
}

/* Copies integers of a datatype that the library lacks, such as INT16 or UINT64, into a buffer of
 * int64. */
static bool widen_integers(reader *r, const infer_input *in, const char *from, attn_tensor *t) {
    int64_t *to = attn_arena_take(r->d.s.arena, in->count * sizeof *to);
    int bytes = in->type->bytes;
    if (!to)
        return srv_scan_memory(&r->d.s);
    for (size_t i = 0; i < in->count; i++, from += bytes) {
        uint64_t value = 0;
        memcpy(&value, from, (size_t)bytes);
        if (bytes == 8 && value > INT64_MAX)
            return refuse(r, SRV_VALUE, "an integer is beyond 64 bits with sign");
        int unused = 64 - 8 * bytes;
        to[i] = in->type->is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
    }
    t->data = to;
    return true;
}

/* Takes the elements of an input from the binary data. They are not copied if the library has the
 * datatype. */
static bool load_binary(reader *r, const infer_input *in, attn_tensor *t) {
    char shape[128];
    size_t size = in->count * (size_t)in->type->bytes, left = (size_t)(r->blob_end - r->blob);
    if ((uint64_t)in->parameters.size != size)
        return srv_scan_refuse(&r->d.s, SRV_SHAPE,
                               "shape %s of %s needs %zu bytes, binary_data_size is %lld",
                               attn_shape_text(in->dims, in->rank, shape, sizeof shape),
                               in->type->name, size, (long long)in->parameters.size);
    if (size > left)
        return srv_scan_refuse(&r->d.s, SRV_MALFORMED,
                               "expected %zu more bytes of binary data behind the JSON, found %zu",
                               size, left);
    const char *from = r->blob;
    r->blob += size;
    t->data = (void *)(uintptr_t)from;
    bool widens = (size_t)in->type->bytes != attn_dtype_size(in->type->dtype) ||
                  (in->type->bytes == 8 && in->type->dtype == ATTN_I64 && !in->type->is_signed);
    return !widens || widen_integers(r, in, from, t);
}

/* Calls `check` for one member of an input, so that its problems point to the member. */
static bool check_member(reader *r, infer_input *in, const char *name,
                         bool (*check)(reader *r, infer_input *in)) {
    const size_t mark = attn_path_key(&r->d.s.path, name, strlen(name));
    if (!check(r, in))
        return false;
    attn_path_back(&r->d.s.path, mark);
    return true;
}

static bool read_input(reader *r, infer_input *in, attn_named_tensor *out) {
    attn_tensor t = {0};
    if (!check_member(r, in, "shape", find_shape) || !check_member(r, in, "datatype", find_type))
        return false;
    if ((in->data != NULL) == srv_given_any(&in->parameters.given))
        return refuse(r, SRV_VALUE, "an input has either data or binary_data_size");
    if (!count_elements(r, in) || !(in->data ? load_json(r, in, &t) : load_binary(r, in, &t)))
        return false;
    *out = (attn_named_tensor){in->name,
                               attn_tensor_dense(t.data, in->type->dtype, in->rank, in->dims)};
    return srv_tensor_settle(r->d.own.req, out);
}

static bool read_inputs(reader *r, const srv_objects *inputs) {
    srv_infer *o = r->out;
    infer_input *in = inputs->items;
    attn_path *path = &r->d.s.path;
    attn_path_back(path, 0);
    attn_path_key(path, "inputs", 6);
    if (inputs->count == 0)
        return refuse(r, SRV_VALUE, "expected at least one input");
    o->inputs = attn_arena_zeroed(r->d.s.arena, inputs->count, sizeof *o->inputs);
    if (!o->inputs)
        return srv_scan_memory(&r->d.s);
    for (size_t i = 0; i < inputs->count; i++, o->input_count++) {
        const size_t mark = attn_path_index(path, i);
        if (!read_input(r, &in[i], &o->inputs[i]))
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(in[k].name, in[i].name) == 0)
                return refuse(r, SRV_VALUE, "an input of this name is there already");
        o->types[i] = in[i].type->name;
        attn_path_back(path, mark);
    }
    o->beyond = r->d.own.beyond;
    return true;
}

static bool read_outputs(reader *r, const srv_objects *outputs) {
    const infer_output *from = outputs->items;
    srv_infer *o = r->out;
    attn_path *path = &r->d.s.path;
    attn_path_back(path, 0);
    attn_path_key(path, "outputs", 7);
    for (size_t i = 0; i < outputs->count; i++) {
        const size_t mark = attn_path_index(path, i);
        const int binary =
            srv_given_any(&from[i].parameters.given) ? from[i].parameters.binary : -1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(from[k].name, from[i].name) == 0)
                return refuse(r, SRV_VALUE, "this output is asked for twice");
        o->outputs[o->output_count++] = (srv_infer_output){from[i].name, binary};
        attn_path_back(path, mark);
    }
    return true;
}

/* --- the request --- */

bool srv_infer_lead(const char *text, size_t *out) {
    size_t value = 0, digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] || digits > 18)
        return false;
    for (; *text; text++)
        value = value * 10 + (size_t)(*text - '0');
    *out = value;
    return true;
}

/* Splits the body into JSON and binary data. If there is binary data, the JSON is copied, because a
 * NUL must follow it. */
static bool split_body(reader *r) {
    srv_request *req = r->d.own.req;
    size_t size = req->body_size;
    r->d.s.start = req->body;
    if (req->infer_header && (!srv_infer_lead(req->infer_header, &size) || size > req->body_size))
        return srv_problem(
            req, SRV_BAD_REQUEST, NULL,
            "Inference-Header-Content-Length must be a number of bytes within the body of "
            "%zu, found \"%.40s\"",
            req->body_size, req->infer_header);
    if (req->infer_header && size == 0)
        return srv_problem(
            req, SRV_BAD_REQUEST, NULL,
            "a body without JSON (Inference-Header-Content-Length: 0) does not say what its "
            "tensors are");
    if (size < req->body_size && !(r->d.s.start = attn_arena_text(req->arena, req->body, size)))
        return srv_scan_memory(&r->d.s);
    r->d.s.p = r->d.s.start;
    r->d.s.end = r->d.s.start + size;
    r->blob = req->body + size;
    r->blob_end = req->body + req->body_size;
    return true;
}

bool srv_infer_read(srv_request *req, size_t max_depth, const srv_field *own, srv_infer *out) {
    reader r = {.out = out, .own = own};
    infer_body body = {0};
    *out = (srv_infer){.fields = {.arena = req->arena}, .own = {.arena = req->arena}};
    srv_decode_begin(&r.d, req);
    r.d.s.max_depth = max_depth;
    r.d.open = parameters;
    r.d.other = read_parameter;
    if (!split_body(&r) || !srv_decode_document(&r.d, infer_fields, &body) ||
        !srv_decode_required(&r.d, infer_fields, &body) || !read_inputs(&r, &body.inputs) ||
        !read_outputs(&r, &body.outputs))
        return false;
    out->id = body.id;
    out->binary = body.parameters.binary;
    out->timeout_us = body.parameters.timeout_us;
    if (r.blob != r.blob_end)
        return srv_problem(req, SRV_MALFORMED, NULL, "%zu bytes behind the last binary tensor",
                           (size_t)(r.blob_end - r.blob));
    return true;
}
