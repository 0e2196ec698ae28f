/* Tensors in JSON bodies: jansson as the oracle on random documents, every written form, and every
 * refusal with its pointer. */
#include <math.h>
#include <stdio.h>

#include "app.h"
#include "number/base64.h"
#include "unit/wire_body.h"

typedef struct input {
    uint64_t given;
    attn_tensor real, mask, ids, flags, bias;
} input;

static const srv_field fields[] = {
    {.name = "real", .kind = SRV_TENSOR, .offset = offsetof(input, real), .accepts = SRV_T_REAL},
    {.name = "mask",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, mask),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF},
    {.name = "ids", .kind = SRV_TENSOR, .offset = offsetof(input, ids), .accepts = SRV_T_INT},
    {.name = "flags", .kind = SRV_TENSOR, .offset = offsetof(input, flags), .accepts = SRV_T_BOOL},
    {.name = "bias",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, bias),
     .accepts = SRV_T_REAL | SRV_T_NEGINF},
    {0},
};

enum { LIMIT = 1 << 20 };

static void refuse(const char *body, int status, const char *code, const char *pointer,
                   const char *detail) {
    srv_request req;
    input in = {0};
    wire_open(&req, body, strlen(body), LIMIT);
    if (srv_decode(&req, fields, &in))
        fail_msg("accepted: %s", body);
    wire_problem(&req, status, code, pointer, detail);
    wire_close(&req);
}

static void accept(srv_request *req, input *in, const char *body) {
    *in = (input){0};
    wire_open(req, body, strlen(body), LIMIT);
    if (!srv_decode(req, fields, in))
        fail_msg("%s refused: %.*s", body, (int)req->reply.size, req->reply.body);
}

static void shape_is(const attn_tensor *t, attn_dtype dtype, int rank, const size_t *dims) {
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(t->dims[i], dims[i]);
    assert_true(attn_tensor_is_dense(t));
}

#define SHAPE(t, dtype, ...)                                                                       \
    shape_is(t, dtype, (int)(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)),                    \
             (const size_t[]){__VA_ARGS__})

static void test_lists(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in,
           "{\"real\": [[1, 2.5 ,-3e2],\n\t[0.1,1e-3, 7]],\"ids\":[[9007199254740993],[3.0]],"
           "\"flags\":[true,false,true],\"bias\":[null,-1,null],\"mask\":null}");
    SHAPE(&in.real, ATTN_F32, 2, 3);
    assert_memory_equal(in.real.data, ((float[]){1, 2.5f, -300, 0.1f, 1e-3f, 7}), 24);
    SHAPE(&in.ids, ATTN_I64, 2, 1);
    assert_memory_equal(in.ids.data, ((int64_t[]){9007199254740993, 3}), 16);
    SHAPE(&in.flags, ATTN_BOOL, 3);
    assert_memory_equal(in.flags.data, "\1\0\1", 3);
    SHAPE(&in.bias, ATTN_F32, 3);
    assert_memory_equal(in.bias.data, ((float[]){-INFINITY, -1, -INFINITY}), 12);
    assert_int_equal(in.mask.rank, 0);
    assert_int_equal(in.given, 1 | 4 | 8 | 16);
    wire_close(&req);
    accept(&req, &in, "{\"mask\":[[true],[false]],\"real\":[],\"bias\":[[],[]],\"flags\":[[[]]]}");
    SHAPE(&in.mask, ATTN_BOOL, 2, 1);
    SHAPE(&in.real, ATTN_F32, 0);
    SHAPE(&in.bias, ATTN_F32, 2, 0);
    SHAPE(&in.flags, ATTN_BOOL, 1, 1, 0);
    wire_close(&req);
    accept(&req, &in, "{\"mask\":[[null,0]],\"real\":[[[[[[[[4]]]]]]]]}");
    SHAPE(&in.mask, ATTN_F32, 1, 2);
    SHAPE(&in.real, ATTN_F32, 1, 1, 1, 1, 1, 1, 1, 1);
    wire_close(&req);
}

static void test_objects(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in,
           "{\"real\":{\"data\":[1,2,3,4,5,6],\"shape\":[2,3]},"
           "\"mask\":{\"shape\":[2],\"dtype\":\"float64\",\"data\":[1e300,null]},"
           "\"ids\":{\"dtype\":\"int32\",\"data\":[-2147483648],\"shape\":[1]},"
           "\"bias\":{\"shape\":[2],\"dtype\":\"float16\",\"data\":[0.1,65519]},"
           "\"flags\":{\"shape\":[0,3],\"data\":[ ]}}");
    SHAPE(&in.real, ATTN_F32, 2, 3);
    assert_memory_equal(in.real.data, ((float[]){1, 2, 3, 4, 5, 6}), 24);
    SHAPE(&in.mask, ATTN_F64, 2);
    assert_memory_equal(in.mask.data, ((double[]){1e300, -INFINITY}), 16);
    SHAPE(&in.ids, ATTN_I32, 1);
    assert_int_equal(*(int32_t *)in.ids.data, INT32_MIN);
    SHAPE(&in.bias, ATTN_F16, 2);
    assert_memory_equal(in.bias.data, ((uint16_t[]){0x2E66, 0x7BFF}), 4);
    SHAPE(&in.flags, ATTN_BOOL, 0, 3);
    wire_close(&req);
    /* AACAPwAAAEA= is 1.0f, 2.0f; the slash may be escaped, keys too */
    accept(&req, &in,
           "{\"real\":{\"sh\\u0061pe\":[1,2],\"base64\":\"AACAPwAAAEA=\"},"
           "\"mask\":{\"shape\":[3],\"dtype\":\"bool\",\"base64\":\"AQAB\"},"
           "\"ids\":{\"shape\":[3],\"dtype\":\"uint8\",\"base64\":\"\\/\\/\\u002f\\/\"},"
           "\"bias\":{\"shape\":[2],\"dtype\":\"bfloat16\",\"data\":[1,-0.1]}}");
    assert_memory_equal(in.real.data, ((float[]){1, 2}), 8);
    assert_memory_equal(in.mask.data, "\1\0\1", 3);
    assert_memory_equal(in.ids.data, "\xFF\xFF\xFF", 3);
    assert_memory_equal(in.bias.data, ((uint16_t[]){0x3F80, 0xBDCD}), 4);
    wire_close(&req);
}

#define OF_MASK 3684193252u /* CRC-32 of "/mask", the seed of a tensor at this place */

static void test_literals(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in,
           "{\"real\":{\"shape\":[2,3],\"random\":\"normal\",\"seed\":7},"
           "\"mask\":{\"shape\":[5],\"random\":\"uniform\",\"dtype\":\"float64\"},"
           "\"bias\":{\"shape\":[2,2,3],\"fill\":\"eye\"},"
           "\"ids\":{\"shape\":[2,2],\"fill\":\"arange\"},"
           "\"flags\":{\"shape\":[2],\"fill\":\"ones\"}}");
    float normal[6];
    attn_rng_fill_normal(normal, 6, 7, 0);
    assert_memory_equal(in.real.data, normal, sizeof normal);
    for (uint64_t i = 0; i < 5; i++)
        assert_true(((double *)in.mask.data)[i] == attn_rng_uniform(OF_MASK, i));
    assert_memory_equal(in.bias.data, ((float[]){1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0}), 48);
    assert_memory_equal(in.ids.data, ((int64_t[]){0, 1, 2, 3}), 32);
    assert_memory_equal(in.flags.data, "\1\1", 2);
    wire_close(&req);
    accept(&req, &in,
           "{\"real\":{\"shape\":[700],\"random\":\"normal\",\"seed\":-1,\"dtype\":\"bfloat16\"},"
           "\"bias\":{\"shape\":[3],\"fill\":\"zeros\",\"dtype\":\"float16\"}}");
    uint64_t seed = UINT64_MAX; /* -1 modulo 2^64 */
    for (uint64_t i = 0; i < 700; i++) {
        uint32_t bits = (uint32_t)((uint16_t *)in.real.data)[i] << 16;
        float got;
        memcpy(&got, &bits, sizeof got);
        double exact = attn_rng_normal(seed, i);
        assert_true(fabs((double)got - exact) <= fabs(exact) / 256);
    }
    assert_memory_equal(in.bias.data, "\0\0\0\0\0", 6);
    wire_close(&req);
}

/* Elements of random literals with std and of initial values, by their formulas. */
static void test_spread(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool normal;
        double amount; /* standard deviation, or bound around 0 */
    } cases[] = {
        {"\"random\":\"normal\",\"std\":0.02", true, 0.02},
        {"\"random\":\"uniform\",\"std\":0.5", false, 0.5 * 1.7320508075688772},
        {"\"random\":\"normal\",\"std\":0", true, 0},
        {"\"init\":\"xavier_uniform\"", false, 0.7071067811865476},         /* sqrt(6 / 12) */
        {"\"init\":\"xavier_normal\"", true, 0.408248290463863},            /* sqrt(2 / 12) */
        {"\"init\":\"kaiming_uniform\"", false, 0.5},                       /* 1 / sqrt(4) */
        {"\"init\":\"kaiming_normal\"", true, 0.28867513459481287},         /* sqrt(1 / 12) */
        {"\"init\":\"kaiming_uniform\",\"a\":0", false, 1.224744871391589}, /* sqrt(6 / 4) */
        {"\"init\":\"kaiming_normal\",\"a\":1", true, 0.5},
        {"\"fan_in\":256,\"init\":\"kaiming_uniform\"", false, 0.0625}, /* 1 / sqrt(256) */
        {"\"init\":\"kaiming_uniform\",\"a\":0,\"fan_in\":24", false, 0.5},
        {"\"init\":\"kaiming_normal\",\"fan_in\":3", true, 0.3333333333333333},
        {"\"init\":\"xavier_uniform\",\"fan_in\":64", false, 0.25}, /* sqrt(6 / (64 + 32)) */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char body[160];
        srv_request req;
        input in;
        const char *shape = strstr(cases[c].text, "fan_in") ? "32" : "8,4";
        snprintf(body, sizeof body,
                 "{\"bias\":{%s,\"shape\":[%s],\"seed\":5,\"dtype\":\"float64\"}}", cases[c].text,
                 shape);
        accept(&req, &in, body);
        for (size_t i = 0; i < 32; i++) {
            const double draw =
                cases[c].normal ? attn_rng_normal(5, i) : 2 * attn_rng_uniform(5, i) - 1;
            assert_true(fabs(((double *)in.bias.data)[i] - cases[c].amount * draw) < 1e-15);
        }
        wire_close(&req);
    }
}

/* Tensors of several pieces, on one thread and over a pool: every element is where it belongs. */
static void check_pieces(srv_app *app) {
    srv_request req;
    input in = {0};
    const char *body = "{\"real\":{\"shape\":[3,66000],\"random\":\"normal\",\"seed\":9},"
                       "\"mask\":{\"shape\":[70000],\"random\":\"uniform\",\"dtype\":\"float64\"},"
                       "\"bias\":{\"shape\":[3,211,317],\"fill\":\"eye\"},"
                       "\"ids\":{\"shape\":[131073],\"fill\":\"arange\"},"
                       "\"flags\":{\"shape\":[65537],\"fill\":\"ones\"}}";
    wire_open(&req, body, strlen(body), 8 * LIMIT);
    req.app = app;
    assert_true(srv_decode(&req, fields, &in));
    for (size_t i = 0; i < 3 * 66000; i++)
        assert_true(((float *)in.real.data)[i] == (float)attn_rng_normal(9, i));
    for (size_t i = 0; i < 70000; i++)
        assert_true(((double *)in.mask.data)[i] == attn_rng_uniform(OF_MASK, i));
    for (size_t i = 0; i < 3 * 211 * 317; i++)
        assert_true(((float *)in.bias.data)[i] == (i / 317 % 211 == i % 317));
    for (size_t i = 0; i < 131073; i++)
        assert_true(((int64_t *)in.ids.data)[i] == (int64_t)i);
    for (size_t i = 0; i < 65537; i++)
        assert_true(((uint8_t *)in.flags.data)[i] == 1);
    wire_close(&req);
}

static void test_literals_in_pieces(void **state) {
    (void)state;
    srv_app app = {.pool = attn_pool_new(3)};
    assert_non_null(app.pool);
    check_pieces(NULL);
    check_pieces(&app);
    attn_pool_free(app.pool);
}

static void test_literals_obey_the_control(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"real\":{\"shape\":[100000],\"random\":\"normal\"}}",
        "{\"mask\":{\"shape\":[100000],\"random\":\"uniform\",\"dtype\":\"float16\"}}",
        "{\"bias\":{\"shape\":[300,300],\"fill\":\"eye\"}}",
        "{\"ids\":{\"shape\":[100000],\"fill\":\"zeros\"}}",
    };
    for (size_t i = 0; i < 2 * sizeof bodies / sizeof *bodies; i++) {
        srv_request req;
        input in = {0};
        wire_open(&req, bodies[i / 2], strlen(bodies[i / 2]), LIMIT);
        atomic_init(&req.cancel, i % 2 == 0);
        req.control = (attn_control){.deadline_ns = i % 2 ? 1 : 0, .cancel = &req.cancel};
        assert_false(srv_decode(&req, fields, &in));
        wire_problem(&req, i % 2 ? 504 : 408, i % 2 ? "deadline_exceeded" : "request_timeout", NULL,
                     "");
        wire_close(&req);
    }
}

static void test_refused_lists(void **state) {
    (void)state;
    refuse("{\"real\":[[1,2,3,4],[1,2,3]]}", 422, "shape_mismatch", "/real/1",
           "3 numbers, expected 4");
    refuse("{\"real\":[[1,2],[1]]}", 422, "shape_mismatch", "/real/1", "1 number, expected 2");
    refuse("{\"flags\":[[[true],[true]],[[true]]]}", 422, "shape_mismatch", "/flags/1",
           "1 list, expected 2");
    refuse("{\"real\":[[[1,2],[3,4]],[[1,2],[3,4],[5,6]]]}", 422, "shape_mismatch", "/real/1",
           "3 lists, expected 2");
    refuse("{\"real\":[[1,2],3]}", 422, "shape_mismatch", "/real/1", "found the number 3");
    refuse("{\"real\":[1,[2]]}", 422, "shape_mismatch", "/real/1", "found a list");
    refuse("{\"real\":[[1],[]]}", 422, "shape_mismatch", "/real/1", "0 numbers, expected 1");
    refuse("{\"real\":[[],[1]]}", 422, "shape_mismatch", "/real/1", "1 number, expected 0");
    refuse("{\"real\":[[[[[[[[[1]]]]]]]]]}", 422, "shape_mismatch", "/real", "at most 8 axes");
    refuse("{\"real\":[1,1e39]}", 422, "nonfinite_value", "/real/1", "1e39");
    refuse("{\"real\":[[0,1],[2,-3.5e38]]}", 422, "nonfinite_value", "/real/1/1", "-3.5e38");
    refuse("{\"real\":[1,null]}", 422, "wrong_type", "/real/1", "found null");
    refuse("{\"real\":[1,true]}", 422, "wrong_type", "/real/1", "found true");
    refuse("{\"mask\":[true,1]}", 422, "wrong_type", "/mask/1", "the number 1");
    refuse("{\"mask\":[1,true]}", 422, "wrong_type", "/mask/1", "found true");
    refuse("{\"mask\":[true,null]}", 422, "wrong_type", "/mask/1", "found null");
    refuse("{\"real\":[1,\"2\"]}", 422, "wrong_type", "/real/1", "a string");
    refuse("{\"real\":[1,{}]}", 422, "wrong_type", "/real/1", "an object");
    refuse("{\"ids\":[1,1.5]}", 422, "invalid_value", "/ids/1", "1.5");
    refuse("{\"ids\":[9223372036854775808]}", 422, "invalid_value", "/ids/0", "int64");
    refuse("{\"ids\":[true]}", 422, "wrong_type", "/ids/0", "an integer");
    refuse("{\"flags\":[1]}", 422, "wrong_type", "/flags/0", "true or false");
    refuse("{\"real\":5}", 422, "wrong_type", "/real", "nested lists");
    refuse("{\"real\":\"x\"}", 422, "wrong_type", "/real", "a string");
    refuse("{\"real\":[NaN]}", 400, "malformed_json", "/real/0",
           "Line 1, column 10: NaN is not JSON");
    refuse("{\n\"mask\": [0,\n Infinity]}", 400, "malformed_json", "/mask/1",
           "Line 3, column 2: Infinity is not JSON");
    refuse("{\"real\":[1,2,]}", 400, "malformed_json", "/real/2", "found ']'");
    refuse("{\"real\":[,1]}", 400, "malformed_json", "/real/0", "found ','");
    refuse("{\"real\":[1 2]}", 400, "malformed_json", "/real/1", "expected ',' or ']'");
    refuse("{\"real\":[1,2", 400, "malformed_json", "/real/2", "the end of the body");
    refuse("{\"real\":[[1],", 400, "malformed_json", "/real/1", "the end of the body");
    refuse("{\"real\":[[1]", 400, "malformed_json", "/real/1", "the end of the body");
    refuse("{\"real\":[01]}", 400, "malformed_json", "/real/0", "found the number 01");
    refuse("{\"real\":[1.]}", 400, "malformed_json", "/real/0", "1.");
    refuse("{\"real\":[+1]}", 400, "malformed_json", "/real/0", "+1");
    refuse("{\"real\":[-]}", 400, "malformed_json", "/real/0", "expected");
    refuse("{\"real\":[1}", 400, "malformed_json", "/real/1", "found '}'");
    refuse("{\"real\":nul}", 400, "malformed_json", "/real", "found nul");
    char deep[200] = "{\"real\":";
    memset(deep + 8, '[', 60);
    refuse(deep, 400, "malformed_json", "/real", "more than 32 deep");
}

/* Objects with nested data and without shape are the same tensors as the lists alone. */
static void test_nested_data(void **state) {
    (void)state;
    static const char *const orders[] = {
        "{\"real\":{\"data\":[[1,0.1,0],[0,1,-2e-3]],\"dtype\":\"float64\"}}",
        "{\"real\":{\"dtype\":\"float64\",\"data\":[[1,0.1,0],[0,1,-2e-3]]}}",
        "{\"real\": { \"dtype\" : \"float64\" , \"data\" : [ [ 1,0.1 , 0 ]\n, [0,1,-2e-3]\t] } }",
    };
    srv_request req;
    input in;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const double want[] = {1, 0.1, 0, 0, 1, -2e-3};
        accept(&req, &in, orders[i]);
        SHAPE(&in.real, ATTN_F64, 2, 3);
        assert_memory_equal(in.real.data, want, sizeof want);
        wire_close(&req);
    }
    accept(
        &req, &in,
        "{\"mask\":{\"data\":[[[true]],[[false]]]},\"ids\":{\"data\":[[5,-6]],\"dtype\":\"int32\"},"
        "\"bias\":{\"data\":[null,-Infinity,2]},\"flags\":{\"data\":[]},\"real\":{\"data\":[[],[]]}"
        "}");
    SHAPE(&in.mask, ATTN_BOOL, 2, 1, 1);
    SHAPE(&in.ids, ATTN_I32, 1, 2);
    SHAPE(&in.bias, ATTN_F32, 3);
    SHAPE(&in.flags, ATTN_BOOL, 0);
    SHAPE(&in.real, ATTN_F32, 2, 0);
    assert_int_equal(((int32_t *)in.ids.data)[1], -6);
    assert_true(((uint8_t *)in.mask.data)[0] == 1 && ((uint8_t *)in.mask.data)[1] == 0);
    assert_true(((float *)in.bias.data)[1] == -INFINITY && ((float *)in.bias.data)[2] == 2);
    wire_close(&req);
}

static void test_refused_nested_data(void **state) {
    (void)state;
    refuse("{\"real\":{\"data\":[[1,2],[3]]}}", 422, "shape_mismatch", "/real/data/1",
           "has 1 number, expected 2");
    refuse("{\"real\":{\"data\":[[1,2],[]]}}", 422, "shape_mismatch", "/real/data/1", "has 0");
    refuse("{\"real\":{\"data\":[[1,2],3]}}", 422, "shape_mismatch", "/real/data/1", "a list");
    refuse("{\"real\":{\"data\":[1,[2]]}}", 422, "shape_mismatch", "/real/data/1", "found a list");
    refuse("{\"real\":{\"data\":[[1,\"]\"]]}}", 422, "wrong_type", "/real/data", "string");
    refuse("{\"real\":{\"data\":[[1],[{}]]}}", 422, "wrong_type", "/real/data/1/0", "an object");
    refuse("{\"real\":{\"data\":[[1],[true]]}}", 422, "wrong_type", "/real/data/1/0", "true");
    refuse("{\"real\":{\"data\":[[1,2,],[1,2]]}}", 400, "malformed_json", "/real/data/0/2", "']'");
    refuse("{\"real\":{\"data\":[[1,2],]}}", 400, "malformed_json", "/real/data/1", "']'");
    refuse("{\"real\":{\"data\":[[1,2]}}", 400, "malformed_json", "/real/data", "not closed");
    refuse("{\"real\":{\"data\":[[1,2]]]}}", 400, "malformed_json", "/real", "']'");
    refuse("{\"real\":{\"data\":[[1,1e39]]}}", 422, "nonfinite_value", "/real/data/0/1", "1e39");
    refuse("{\"real\":{\"data\":[[1],[1e5]],\"dtype\":\"float16\"}}", 422, "nonfinite_value",
           "/real/data/1/0", "float16");
    refuse("{\"real\":{\"data\":[[1]],\"shape\":[1,1]}}", 422, "shape_mismatch", "/real/data",
           "without \"shape\"");
    refuse("{\"real\":{\"data\":[[1]],\"seed\":1}}", 422, "invalid_value", "/real", "\"seed\"");
    refuse("{\"real\":{\"data\":[[1]],\"data\":[[1]]}}", 400, "malformed_json", "/real/data",
           "twice");
    refuse("{\"real\":{\"data\":[[[[[[[[[1]]]]]]]]]}}", 422, "shape_mismatch", "/real/data",
           "at most 8 axes");
    char deep[160] = "{\"real\":{\"data\":", *end = deep + strlen(deep);
    for (int depth = 30; depth <= 31; depth++) {
        memset(end, '[', (size_t)depth);
        memset(end + depth, ']', (size_t)depth);
        strcpy(end + 2 * depth, "}}");
        refuse(deep, depth == 30 ? 422 : 400, depth == 30 ? "shape_mismatch" : "malformed_json",
               "/real/data", depth == 30 ? "at most 8 axes" : "more than 32 deep");
    }
}

static void test_refused_objects(void **state) {
    (void)state;
    refuse("{\"real\":{\"dtype\":\"float32\"}}", 422, "shape_mismatch", "/real", "\"shape\"");
    refuse("{\"real\":{\"fill\":\"ones\"}}", 422, "shape_mismatch", "/real", "\"shape\"");
    refuse("{\"real\":{\"data\":[1],\"fill\":\"ones\"}}", 422, "invalid_value", "/real", "found 2");
    refuse("{\"real\":{\"shape\":[1]}}", 422, "invalid_value", "/real", "one of data");
    refuse("{\"real\":{\"shape\":[1],\"data\":[1],\"fill\":\"ones\"}}", 422, "invalid_value",
           "/real", "found 2");
    refuse("{\"real\":{\"shape\":[1],\"fill\":\"ones\",\"seed\":1}}", 422, "invalid_value", "/real",
           "random");
    refuse("{\"real\":{\"shape\":[2,3],\"data\":[1,2,3,4,5]}}", 422, "shape_mismatch", "/real/data",
           "needs 6 elements, data has 5");
    refuse("{\"real\":{\"shape\":[2],\"data\":[1,2,]}}", 422, "shape_mismatch", "/real/data",
           "data has 3");
    refuse("{\"real\":{\"shape\":[3],\"data\":[1,2,]}}", 400, "malformed_json", "/real/data/2",
           "']'");
    refuse("{\"real\":{\"shape\":[2],\"data\":[[1,2]]}}", 422, "shape_mismatch", "/real/data",
           "one flat list");
    refuse("{\"real\":{\"shape\":[2],\"data\":[1,\"]\"]}}", 422, "wrong_type", "/real/data",
           "string");
    refuse("{\"real\":{\"shape\":[2],\"data\":[1,x]}}", 400, "malformed_json", "/real/data/1",
           "'x'");
    refuse("{\"real\":{\"shape\":[2],\"data\":[1,1e39]}}", 422, "nonfinite_value", "/real/data/1",
           "1e39");
    refuse("{\"real\":{\"shape\":[1],\"dtype\":\"float16\",\"data\":[65520]}}", 422,
           "nonfinite_value", "/real/data/0", "float16");
    refuse("{\"real\":{\"shape\":[1],\"dtype\":\"bool\",\"data\":[true]}}", 422,
           "unsupported_dtype", "/real/dtype", "found \"bool\"");
    refuse("{\"ids\":{\"shape\":[1],\"dtype\":\"float32\",\"data\":[1]}}", 422, "unsupported_dtype",
           "/ids/dtype", "int64");
    refuse("{\"ids\":{\"shape\":[1],\"dtype\":\"uint8\",\"data\":[256]}}", 422, "invalid_value",
           "/ids/data/0", "uint8");
    refuse("{\"real\":{\"shape\":[],\"data\":[]}}", 422, "shape_mismatch", "/real/shape", "1 to 8");
    refuse("{\"real\":{\"shape\":[1,1,1,1,1,1,1,1,1],\"data\":[1]}}", 422, "shape_mismatch",
           "/real/shape", "more");
    refuse("{\"real\":{\"shape\":[-1],\"data\":[]}}", 422, "wrong_type", "/real/shape/0", "-1");
    refuse("{\"real\":{\"shape\":[1.5],\"data\":[]}}", 422, "wrong_type", "/real/shape/0", "1.5");
    refuse("{\"real\":{\"shape\":3,\"data\":[]}}", 422, "wrong_type", "/real/shape", "sizes");
    refuse("{\"real\":{\"shape\":[4294967296,4294967296],\"fill\":\"ones\"}}", 413, "too_large",
           "/real", "memory");
    refuse("{\"real\":{\"shape\":[1000,1000],\"fill\":\"ones\"}}", 413, "too_large", "/real",
           "memory");
    refuse("{\"real\":{\"shape\":[1000000000,0],\"data\":[]}}", 413, "too_large", "/real",
           "memory");
    refuse("{\"real\":{\"shape\":[1],\"random\":\"gauss\"}}", 422, "invalid_value", "/real/random",
           "gauss");
    refuse("{\"real\":{\"shape\":[1],\"random\":\"normal\",\"std\":-1}}", 422, "wrong_type",
           "/real/std", "0 or more, found the number -1");
    refuse("{\"real\":{\"shape\":[1],\"random\":\"normal\",\"std\":1e999}}", 422, "wrong_type",
           "/real/std", "standard deviation");
    refuse("{\"real\":{\"shape\":[1],\"fill\":\"ones\",\"std\":1}}", 422, "invalid_value", "/real",
           "\"std\" belongs to \"random\"");
    refuse("{\"real\":{\"shape\":[1],\"random\":\"normal\",\"a\":1}}", 422, "invalid_value",
           "/real", "\"a\" belongs to \"init\"");
    refuse("{\"real\":{\"shape\":[1,1],\"init\":\"xavier_normal\",\"a\":1}}", 422, "invalid_value",
           "/real/a", "kaiming_uniform and kaiming_normal");
    refuse("{\"real\":{\"shape\":[3],\"init\":\"xavier_normal\"}}", 422, "shape_mismatch",
           "/real/init", "[fan_out, fan_in]");
    refuse("{\"real\":{\"shape\":[3],\"init\":\"kaiming_uniform\"}}", 422, "shape_mismatch",
           "/real/init", "the member fan_in");
    refuse("{\"real\":{\"shape\":[3,4],\"init\":\"kaiming_uniform\",\"fan_in\":4}}", 422,
           "invalid_value", "/real/fan_in", "it is the second, 4");
    refuse("{\"real\":{\"shape\":[3,4,5],\"init\":\"kaiming_uniform\",\"fan_in\":4}}", 422,
           "shape_mismatch", "/real/init", "found 3");
    refuse("{\"real\":{\"shape\":[3],\"init\":\"kaiming_uniform\",\"fan_in\":0}}", 422,
           "wrong_type", "/real/fan_in", "1 or more, found the number 0");
    refuse("{\"real\":{\"shape\":[3],\"init\":\"kaiming_uniform\",\"fan_in\":1.5}}", 422,
           "wrong_type", "/real/fan_in", "integer");
    refuse("{\"real\":{\"shape\":[3],\"random\":\"normal\",\"fan_in\":4}}", 422, "invalid_value",
           "/real", "\"fan_in\" belongs to \"init\"");
    refuse("{\"real\":{\"shape\":[3,3],\"init\":\"he\"}}", 422, "invalid_value", "/real/init",
           "kaiming_uniform");
    refuse("{\"ids\":{\"shape\":[1,1],\"init\":\"xavier_normal\"}}", 422, "unsupported_dtype",
           "/ids/init", "int64");
    refuse("{\"ids\":{\"shape\":[1],\"random\":\"normal\"}}", 422, "unsupported_dtype",
           "/ids/random", "int64");
    refuse("{\"real\":{\"shape\":[3],\"fill\":\"eye\"}}", 422, "shape_mismatch", "/real/fill",
           "2 axes");
    refuse("{\"real\":{\"shape\":[3000],\"fill\":\"arange\",\"dtype\":\"float16\"}}", 422,
           "invalid_value", "/real/fill", "2049");
    refuse("{\"real\":{\"shape\":[1],\"fil\":\"ones\"}}", 422, "unknown_field", "/real/fil",
           "did you mean \"fill\"");
    refuse("{\"real\":{\"shape\":[1],\"shape\":[1],\"data\":[1]}}", 400, "malformed_json",
           "/real/shape", "twice");
    refuse("{\"real\":{\"shape\":[1],\"sh\\u0061pe\":[1],\"data\":[1]}}", 400, "malformed_json",
           "/real/shape", "twice");
    refuse("{\"real\":{\"shape\":[1],}}", 400, "malformed_json", "/real", "found '}'");
    refuse("{\"real\":{}}", 422, "shape_mismatch", "/real", "shape");
    refuse("{\"real\":{\"shape\":[2],\"base64\":\"AACAPwAAAEA\"}}", 422, "invalid_value",
           "/real/base64", "multiple of 4");
    refuse("{\"real\":{\"shape\":[3],\"base64\":\"AACAPwAAAEA=\"}}", 422, "shape_mismatch",
           "/real/base64", "needs 12 bytes, base64 has 8");
    refuse("{\"real\":{\"shape\":[2],\"base64\":\"AACAPwAA EA=\"}}", 422, "invalid_value",
           "/real/base64", "character 8");
    refuse("{\"real\":{\"shape\":[2],\"base64\":\"AACAPwAAAEB=\"}}", 422, "invalid_value",
           "/real/base64", "character 10");
    refuse("{\"mask\":{\"shape\":[3],\"dtype\":\"bool\",\"base64\":\"AQIB\"}}", 422,
           "invalid_value", "/mask/base64", "found 2 at index 1");
}

/* Random nested documents in random spacing: dims, values and refusals as jansson has them. */
typedef struct text {
    char data[1 << 16];
    size_t size;
    uint64_t seed;
} text;

static void add(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->data + t->size, sizeof t->data - t->size, format, args);
    va_end(args);
}

static void add_space(text *t) {
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t ", "  "};
    add(t, "%s", spaces[wire_random(&t->seed) % 7]);
}

static void add_number(text *t) {
    uint64_t r = wire_random(&t->seed);
    double value = (double)(int64_t)wire_random(&t->seed) * pow(10, -(double)(r % 30));
    static const char *const formats[] = {"%.0f", "%.3f", "%.8g", "%.17g", "%.3e", "%.12E"};
    add(t, formats[(r >> 20) % 6], value);
}

static void add_lists(text *t, const size_t *dims, int rank) {
    add(t, "[");
    for (size_t i = 0; i < dims[0]; i++) {
        add_space(t);
        if (rank > 1)
            add_lists(t, dims + 1, rank - 1);
        else
            add_number(t);
        add_space(t);
        add(t, i + 1 < dims[0] ? "," : "");
    }
    add(t, "]");
}

static void compare(const json_t *v, const attn_tensor *t, int axis, const float **next) {
    assert_int_equal(json_array_size(v), t->dims[axis]);
    for (size_t i = 0; i < t->dims[axis]; i++) {
        const json_t *item = json_array_get(v, i);
        if (axis + 1 < t->rank) {
            compare(item, t, axis + 1, next);
            continue;
        }
        double exact = json_number_value(item), got = (double)*(*next)++;
        assert_true(fabs(got - exact) <= fabs(exact) * 0x1p-24 + 0x1p-150);
    }
}

static void test_random_documents(void **state) {
    (void)state;
    static text t;
    t.seed = 11;
    for (int round = 0; round < 3000; round++) {
        size_t dims[3];
        int rank = 1 + (int)(wire_random(&t.seed) % 3);
        for (int i = 0; i < rank; i++)
            dims[i] = 1 + wire_random(&t.seed) % 6;
        t.size = 0;
        add(&t, "{\"real\":");
        add_lists(&t, dims, rank);
        add(&t, "}");
        json_t *root = json_loadb(t.data, t.size, JSON_DECODE_INT_AS_REAL, NULL);
        assert_non_null(root);
        srv_request req;
        input in;
        accept(&req, &in, t.data);
        shape_is(&in.real, ATTN_F32, rank, dims);
        const float *next = in.real.data;
        compare(json_object_get(root, "real"), &in.real, 0, &next);
        wire_close(&req);
        json_decref(root);
    }
}

/* One byte changed, put in or left out: accepted only if jansson accepts, and the same shape. */
static void test_random_damage(void **state) {
    (void)state;
    static text t;
    t.seed = 12;
    size_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        size_t dims[2] = {1 + wire_random(&t.seed) % 3, 1 + wire_random(&t.seed) % 3};
        t.size = 0;
        add(&t, "{\"real\":");
        add_lists(&t, dims, 2);
        add(&t, "}");
        static const char bytes[] = "[]{},:\"0123456789-+.eEnulltruefase \\\x80\x01";
        size_t at = 8 + wire_random(&t.seed) % (t.size - 8);
        char byte = bytes[wire_random(&t.seed) % (sizeof bytes - 1)];
        if (round % 3 == 0) {
            t.data[at] = byte;
        } else if (round % 3 == 1) {
            memmove(t.data + at + 1, t.data + at, t.size - at);
            t.data[at] = byte;
            t.size++;
        } else {
            memmove(t.data + at, t.data + at + 1, t.size - at - 1);
            t.size--;
        }
        json_t *root =
            json_loadb(t.data, t.size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
        srv_request req;
        input in = {0};
        wire_open(&req, t.data, t.size, LIMIT);
        bool ok = srv_decode(&req, fields, &in);
        if (ok && !root)
            fail_msg("accepted: %.*s", (int)t.size, t.data);
        if (ok && in.real.rank > 0 && json_is_array(json_object_get(root, "real"))) {
            const float *next = in.real.data;
            compare(json_object_get(root, "real"), &in.real, 0, &next);
            accepted++;
        }
        if (!ok && !root)
            assert_true(req.reply.status == 400 || req.reply.status == 422);
        if (!ok && root)
            assert_int_equal(req.reply.status, 422);
        json_decref(root);
        wire_close(&req);
    }
    assert_in_range(accepted, 2000, 20000);
}

/* Memory is bounded by the arena: a body that wants more is told so, at any limit. */
static void test_memory(void **state) {
    (void)state;
    const char *body = "{\"real\":[[1,2,3],[4,5,6]],\"ids\":{\"shape\":[64],\"fill\":\"ones\"}}";
    bool fits = false;
    for (size_t limit = 0; limit < 8192 && !fits; limit += 64) {
        srv_request req;
        input in = {0};
        wire_open(&req, body, strlen(body), limit);
        fits = srv_decode(&req, fields, &in);
        if (!fits)
            wire_problem(&req, 413, "too_large", req.reply.size > 200 ? "*" : NULL, "");
        wire_close(&req);
    }
    assert_true(fits);
}

static void test_base64(void **state) {
    (void)state;
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {
        "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"}; /* RFC 4648, section 10 */
    for (size_t i = 0; i < 7; i++) {
        char text[16], back[16];
        size_t n = strlen(plain[i]), size = 99;
        char *end = attn_base64_encode(text, plain[i], n);
        assert_int_equal(end - text, attn_base64_length(n));
        *end = 0;
        assert_string_equal(text, coded[i]);
        assert_true(attn_base64_size(text, strlen(text), &size));
        assert_int_equal(size, n);
        assert_int_equal(attn_base64_decode(back, text, strlen(text)), strlen(text));
        assert_memory_equal(back, plain[i], n);
    }
    static const struct {
        const char *text;
        size_t bad;
    } wrong[] = {{"Zg=v", 2}, {"Z===", 1},     {"====", 0},     {"Zh==", 1}, {"Zm9=", 2},
                 {"Zm 9", 2}, {"Zg==Zg==", 2}, {"Zm9vYg-=", 6}, {"Zm9", 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char out[16];
        assert_int_equal(attn_base64_decode(out, wrong[i].text, strlen(wrong[i].text)),
                         wrong[i].bad);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_refused_lists),
        cmocka_unit_test(test_nested_data),
        cmocka_unit_test(test_refused_nested_data),
        cmocka_unit_test(test_refused_objects),
        cmocka_unit_test(test_random_documents),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_literals_in_pieces),
        cmocka_unit_test(test_literals_obey_the_control),
    };
    return cmocka_run_group_tests_name("wire_tensor", tests, NULL, NULL);
}
