/* Tensors that a JSON body writes as objects: every source of elements, and every refusal with its
 * pointer. */
#include <math.h>
#include <stdio.h>

#include "app.h"
#include "unit/wire_tensors.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_nested_data),
        cmocka_unit_test(test_refused_nested_data),
        cmocka_unit_test(test_refused_objects),
        cmocka_unit_test(test_literals_in_pieces),
        cmocka_unit_test(test_literals_obey_the_control),
    };
    return cmocka_run_group_tests_name("wire_objects", tests, NULL, NULL);
}
