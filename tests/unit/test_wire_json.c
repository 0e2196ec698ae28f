/* The JSON writer against jansson, and the problem bodies. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "app.h"
#include "request/problem_codes.h"
#include "unit/wire_body.h"
#include "wire/json_out.h"

static json_t *finish(attn_json_text *j) {
    json_error_t error;
    assert_true(srv_json_end(j));
    const srv_reply *reply = &srv_json_request(j)->reply;
    assert_int_equal(reply->status, 200);
    assert_string_equal(reply->type, "application/json");
    assert_int_equal(reply->body[reply->size - 1], '\n');
    json_t *root = json_loadb(reply->body, reply->size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s: %.*s", error.text, (int)reply->size, reply->body);
    return root;
}

static void test_structure(void **state) {
    (void)state;
    srv_request req;
    attn_json_text j;
    wire_open(&req, "", 0, 1 << 20);
    srv_json_begin(&j, &req);
    attn_json_object(&j);
    attn_json_key(&j, "text");
    attn_json_string(&j, "a\"\\\b\f\n\r\t\x01/\x7F\xC3\xA9\xF0\x9F\x98\x80");
    attn_json_key(&j, "broken");
    attn_json_string(&j, "\xC3(\xED\xA0\x80\xFF");
    attn_json_key(&j, "none");
    attn_json_string(&j, NULL);
    attn_json_key(&j, "list");
    attn_json_array(&j);
    attn_json_bool(&j, true);
    attn_json_int(&j, INT64_MIN);
    attn_json_size(&j, 268435456);
    attn_json_real(&j, 0.1);
    attn_json_real(&j, NAN);
    attn_json_float(&j, 0.1f);
    attn_json_float(&j, -INFINITY);
    attn_json_raw(&j, "{\"x\":1}", 7);
    attn_json_array(&j);
    attn_json_array_end(&j);
    attn_json_object(&j);
    attn_json_object_end(&j);
    srv_json_floats(&j, (float[]){1, 0.5f}, 2);
    attn_json_base64(&j, "foob", 4);
    attn_json_array_end(&j);
    attn_json_object_end(&j);
    json_decref(finish(&j));
    static const char expected[] =
        "{\"text\":\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001/\x7F\xC3\xA9\xF0\x9F\x98\x80\","
        "\"broken\":\"\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\",\"none\":"
        "null,"
        "\"list\":[true,-9223372036854775808,268435456,0.1,null,0.1,null,{\"x\":1},[],{},"
        "[1,0.5],\"Zm9vYg==\"]}\n";
    assert_int_equal(req.reply.size, sizeof expected - 1);
    assert_memory_equal(req.reply.body, expected, sizeof expected - 1);
    wire_close(&req);
}

static void tensor_is(const attn_tensor *t, int decimals, const char *expected) {
    srv_request req;
    attn_json_text j;
    wire_open(&req, "", 0, 1 << 20);
    srv_json_begin(&j, &req);
    j.decimals = decimals;
    attn_json_array(&j);
    srv_json_tensor(&j, t);
    srv_json_tensor(&j, t);
    attn_json_array_end(&j);
    json_decref(finish(&j));
    char both[512];
    int n = snprintf(both, sizeof both, "[%s,%s]\n", expected, expected);
    if ((size_t)n != req.reply.size || memcmp(both, req.reply.body, (size_t)n) != 0)
        fail_msg("%.*s is not %s", (int)req.reply.size, req.reply.body, both);
    wire_close(&req);
}

static void test_tensors(void **state) {
    (void)state;
    float f[] = {1, 0.84967455f, -INFINITY, 1e-7f, NAN, 6};
    attn_tensor t = attn_tensor_dense(f, ATTN_F32, 2, (size_t[]){2, 3});
    tensor_is(&t, -1, "[[1,0.8496745,null],[1e-7,null,6]]");
    tensor_is(&t, 2, "[[1,0.85,null],[0,null,6]]");
    t.strides[0] = 1; /* transposed */
    t.strides[1] = 3;
    t.dims[0] = 3;
    t.dims[1] = 2;
    tensor_is(&t, -1, "[[1,1e-7],[0.8496745,null],[null,6]]");
    t.strides[0] = 0; /* broadcast */
    tensor_is(&t, -1, "[[1,1e-7],[1,1e-7],[1,1e-7]]");
    double d[] = {0.1, 1e300};
    t = attn_tensor_dense(d, ATTN_F64, 3, (size_t[]){1, 2, 1});
    tensor_is(&t, -1, "[[[0.1],[1e300]]]");
    int64_t l[] = {INT64_MAX, -1};
    t = attn_tensor_dense(l, ATTN_I64, 1, (size_t[]){2});
    tensor_is(&t, 3, "[9223372036854775807,-1]");
    int32_t i[] = {INT32_MIN, 7};
    t = attn_tensor_dense(i, ATTN_I32, 1, (size_t[]){2});
    tensor_is(&t, -1, "[-2147483648,7]");
    uint8_t b[] = {0, 1, 255};
    t = attn_tensor_dense(b, ATTN_U8, 1, (size_t[]){3});
    tensor_is(&t, -1, "[0,1,255]");
    t = attn_tensor_dense(b, ATTN_BOOL, 2, (size_t[]){1, 2});
    tensor_is(&t, -1, "[[false,true]]");
    uint16_t h[] = {0x3C00, 0xFC00};
    t = attn_tensor_dense(h, ATTN_F16, 1, (size_t[]){2});
    tensor_is(&t, -1, "[1,null]");
    uint16_t bf[] = {0x3DCD};
    t = attn_tensor_dense(bf, ATTN_BF16, 1, (size_t[]){1});
    tensor_is(&t, -1, "[0.100097656]");
    t = attn_tensor_dense(f, ATTN_F32, 3, (size_t[]){2, 0, 3});
    tensor_is(&t, -1, "[[],[]]");
    t = attn_tensor_dense(f, ATTN_F32, 1, (size_t[]){0});
    tensor_is(&t, -1, "[]");
    t = (attn_tensor){0};
    tensor_is(&t, -1, "null");
}

/* A large tensor through the writer and back through the reader is the same, bit for bit. */
static void test_round_trip(void **state) {
    (void)state;
    typedef struct answer {
        srv_given_bits given;
        attn_tensor t;
    } answer;
    static const srv_field fields[] = {
        {.name = "t", .kind = SRV_TENSOR, .offset = offsetof(answer, t), .accepts = SRV_T_REAL},
        {0}};
    enum { N = 30000 };
    static float values[N];
    uint64_t seed = 21;
    for (size_t i = 0; i < N; i++)
        do {
            uint32_t bits = (uint32_t)wire_random(&seed);
            memcpy(&values[i], &bits, sizeof bits);
        } while (!isfinite(values[i]));
    srv_request req, back;
    attn_json_text j;
    wire_open(&req, "", 0, 4 << 20);
    srv_json_begin(&j, &req);
    attn_json_object(&j);
    attn_json_key(&j, "t");
    attn_tensor t = attn_tensor_dense(values, ATTN_F32, 3, (size_t[]){10, 300, 10});
    srv_json_tensor(&j, &t);
    attn_json_object_end(&j);
    json_decref(finish(&j));
    wire_open(&back, req.reply.body, req.reply.size, 4 << 20);
    answer got = {0};
    assert_true(srv_decode(&back, fields, &got));
    assert_int_equal(got.t.rank, 3);
    assert_int_equal(got.t.dims[1], 300);
    assert_memory_equal(got.t.data, values, sizeof values);
    wire_close(&back);
    wire_close(&req);
}

/* At every arena limit: the whole answer or a problem, never a part. */
static void test_memory(void **state) {
    (void)state;
    float values[64] = {0.123456789f};
    attn_tensor t = attn_tensor_dense(values, ATTN_F32, 2, (size_t[]){8, 8});
    size_t answered = 0, refused = 0;
    for (size_t limit = 0; limit < 24000; limit += 97) {
        srv_request req;
        attn_json_text j;
        wire_open(&req, "", 0, limit);
        srv_json_begin(&j, &req);
        attn_json_object(&j);
        for (int i = 0; i < 9; i++) {
            char key[16];
            snprintf(key, sizeof key, "t%d", i);
            attn_json_key(&j, key);
            srv_json_tensor(&j, &t);
        }
        attn_json_key(&j, "b");
        attn_json_base64(&j, values, sizeof values);
        attn_json_object_end(&j);
        if (srv_json_end(&j)) {
            json_t *root = json_loadb(req.reply.body, req.reply.size, 0, NULL);
            assert_int_equal(json_object_size(root), 10);
            json_decref(root);
            answered++;
        } else {
            wire_problem(&req, 413, "too_large", NULL, "");
            refused++;
        }
        wire_close(&req);
    }
    assert_true(answered > 10 && refused > 10);
}

/* The text of one tensor, from test_malloc; NULL: beyond the limit. */
static char *tensor_text(const attn_tensor *t, int decimals, attn_pool *pool, size_t limit) {
    srv_app app = {.pool = pool};
    srv_request req;
    attn_json_text j;
    wire_open(&req, "", 0, limit);
    req.app = &app;
    srv_json_begin(&j, &req);
    j.decimals = decimals;
    srv_json_tensor(&j, t);
    char *copy = NULL;
    if (srv_json_end(&j)) {
        copy = test_malloc(req.reply.size + 1);
        memcpy(copy, req.reply.body, req.reply.size);
        copy[req.reply.size] = 0;
    }
    wire_close(&req);
    return copy;
}

/* Tensors of many pieces have the same bytes from one worker and from several, whatever their
 * shape; pieces begin and end within rows, between them and behind the last. */
static void test_pieces(void **state) {
    (void)state;
    enum { COUNT = 150000 };
    static const struct {
        int rank;
        size_t dims[4];
        attn_dtype dtype;
        int decimals;
    } cases[] = {
        {1, {COUNT}, ATTN_F32, -1},          {2, {COUNT, 1}, ATTN_F32, -1},
        {4, {1, 2, 3, 25000}, ATTN_F32, -1}, {4, {5, 4096, 7, 1}, ATTN_F32, -1},
        {3, {16, 2, 4096}, ATTN_F32, -1},    {3, {1, 65536, 1}, ATTN_F32, 3},
        {3, {41, 43, 85}, ATTN_I64, -1},     {4, {3, 1, 129, 257}, ATTN_F64, -1},
        {2, {257, 256}, ATTN_BOOL, -1},      {2, {2, 32767}, ATTN_F32, -1},
    };
    float *values = test_malloc(2 * COUNT * sizeof *values);
    attn_rng_fill_normal(values, 2 * COUNT, 5, 0);
    values[4095] = INFINITY;
    attn_pool *pool = attn_pool_new(3);
    assert_non_null(pool);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_tensor t = attn_tensor_dense(values, cases[i].dtype, cases[i].rank, cases[i].dims);
        for (int turned = 0; turned < 2; turned++) {
            char *one = tensor_text(&t, cases[i].decimals, NULL, 1 << 24);
            char *many = tensor_text(&t, cases[i].decimals, pool, 1 << 24);
            assert_non_null(one);
            assert_non_null(many);
            if (strcmp(one, many) != 0)
                fail_msg("case %zu differs", i);
            test_free(one);
            test_free(many);
            size_t n = t.dims[0]; /* and with its first and last axis exchanged */
            ptrdiff_t step = t.strides[0];
            t.dims[0] = t.dims[t.rank - 1];
            t.strides[0] = t.strides[t.rank - 1];
            t.dims[t.rank - 1] = n;
            t.strides[t.rank - 1] = step;
        }
    }
    attn_tensor t = attn_tensor_dense(values, ATTN_F32, 2, (size_t[]){COUNT / 100, 100});
    for (size_t limit = 1 << 20; limit < 6 << 20; limit += 99991) { /* scratch, but no text; .. */
        char *one = tensor_text(&t, -1, NULL, limit), *many = tensor_text(&t, -1, pool, limit);
        assert_true(!one || many);
        test_free(one);
        test_free(many);
    }
    attn_pool_free(pool);
    test_free(values);
}

/* Text that fits what was reserved stays where it is. */
static void test_reserve(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static float values[COUNT];
    srv_request req;
    attn_json_text j;
    wire_open(&req, "", 0, 16 * COUNT + 16384);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = -1.2345678e-21f;
    srv_json_begin(&j, &req);
    attn_json_reserve(&j, 16 * COUNT);
    const char *data = j.data;
    const size_t used = attn_arena_used(req.arena);
    srv_json_floats(&j, values, COUNT);
    assert_ptr_equal(j.data, data);
    assert_int_equal(attn_arena_used(req.arena), used);
    json_t *root = finish(&j);
    assert_int_equal(json_array_size(root), COUNT);
    json_decref(root);
    wire_close(&req);
    wire_open(&req, "", 0, 4096);
    srv_json_begin(&j, &req);
    attn_json_reserve(&j, 1 << 20);
    attn_json_array(&j);
    attn_json_string(&j, "little is asked of it");
    attn_json_array_end(&j);
    json_decref(finish(&j));
    wire_close(&req);
}

static void test_problem_body(void **state) {
    (void)state;
    srv_request req;
    wire_open(&req, "", 0, 1 << 20);
    srv_problem(&req, SRV_VALUE, "/a/0", "expected %d, found \"%s\"", 3, "\x80\n");
    static const char expected[] = "{\"type\":\"/problems/invalid_value\",\"title\":\"A value "
                                   "outside its range\",\"status\":422,"
                                   "\"detail\":\"expected 3, found "
                                   "\\\"\xEF\xBF\xBD\\n\\\"\",\"instance\":\"urn:request:test-1\","
                                   "\"code\":\"invalid_value\",\"pointer\":\"/a/0\"}\n";
    assert_int_equal(req.reply.size, sizeof expected - 1);
    assert_memory_equal(req.reply.body, expected, sizeof expected - 1);
    assert_int_equal(req.reply.header_count, 0);
    req.path = "/v2/models/x/infer"; /* the protocol has the text as `error` */
    srv_problem(&req, SRV_VALUE, NULL, "expected %d", 3);
    static const char end[] = "\"code\":\"invalid_value\",\"error\":\"expected 3\"}\n";
    assert_string_equal(req.reply.body + req.reply.size - (sizeof end - 1), end);
    req.path = "/v22";
    srv_problem(&req, SRV_VALUE, NULL, "expected %d", 3);
    assert_null(strstr(req.reply.body, "\"error\""));
    srv_problem_limit(&req, SRV_QUEUE_FULL, NULL, 256, "queue_length", "full");
    wire_problem(&req, 503, "queue_full", NULL, "full");
    json_t *root = json_loadb(req.reply.body, req.reply.size, 0, NULL);
    json_t *limit = json_object_get(root, "limit");
    assert_int_equal(json_integer_value(json_object_get(limit, "value")), 256);
    assert_string_equal(json_string_value(json_object_get(limit, "setting")), "queue_length");
    json_decref(root);
    assert_int_equal(req.reply.header_count, 1);
    assert_string_equal(req.reply.headers[0].name, "Retry-After");
    assert_true(atoi(req.reply.headers[0].value) >= 1);
    wire_close(&req);
}

/* Each code has a name of its own, an error status, and a constant body for when there is no
 * memory. */
static void test_problem_codes(void **state) {
    (void)state;
    char huge[5000];
    memset(huge, '\x01', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    for (int code = 0; code < SRV_CODE_COUNT; code++) {
        srv_request req;
        wire_open(&req, "", 0, 0);
        assert_in_range(srv_problem_row_of((srv_code)code)->status, 400, 599);
        for (int other = 0; other < code; other++)
            assert_string_not_equal(srv_code_name((srv_code)code), srv_code_name((srv_code)other));
        srv_problem(&req, (srv_code)code, "/x", "%s", huge);
        wire_problem(&req, srv_problem_row_of((srv_code)code)->status,
                     srv_code_name((srv_code)code), NULL, "");
        attn_arena_set_limit(req.arena, 1 << 20);
        req.id = huge;
        srv_problem(&req, (srv_code)code, huge, "%s", huge);
        wire_problem(&req, srv_problem_row_of((srv_code)code)->status,
                     srv_code_name((srv_code)code), "*", "\x01");
        wire_close(&req);
    }
    assert_int_equal(srv_problem_row_of(SRV_INTERNAL)->status, 500);
    assert_int_equal(srv_problem_row_of(SRV_DEADLINE)->status, 504);
}

/* A long answer ends with the request's deadline, a short one is sent all the same; with width 0
 * there are brackets and nothing else. */
static void test_deadline(void **state) {
    (void)state;
    static float zeros[1 << 16];
    const size_t shapes[][2] = {{1 << 16, 1}, {1, 1 << 16}, {1 << 17, 0}, {100, 10}};
    for (size_t i = 0; i < 4; i++) {
        srv_request req;
        attn_json_text j;
        wire_open(&req, "", 0, 8 << 20);
        req.control.deadline_ns = attn_now_ns() - 1;
        attn_tensor t = attn_tensor_dense(zeros, ATTN_F32, 2, shapes[i]);
        srv_json_begin(&j, &req);
        srv_json_tensor(&j, &t);
        assert_int_equal(srv_json_end(&j), i == 3);
        if (i < 3)
            wire_problem(&req, 504, "deadline_exceeded", NULL, "deadline");
        wire_close(&req);
    }
}

static void test_library_errors(void **state) {
    (void)state;
    static const struct {
        attn_status status;
        int http;
        const char *code;
    } rows[] = {{ATTN_ENOMEM, 413, "too_large"},
                {ATTN_EARG, 422, "invalid_value"},
                {ATTN_ESHAPE, 422, "shape_mismatch"},
                {ATTN_EDTYPE, 422, "unsupported_dtype"},
                {ATTN_EVALUE, 422, "invalid_value"},
                {ATTN_ENONFINITE, 422, "nonfinite_value"},
                {ATTN_ESEMANTICS, 422, "mask_semantics"},
                {ATTN_ELIMIT, 413, "too_large"},
                {ATTN_EDEADLINE, 504, "deadline_exceeded"},
                {ATTN_EUNSUPPORTED, 501, "not_supported"},
                {ATTN_ECANCELED, 408, "request_timeout"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_request req;
        attn_error err = {.code = rows[i].status, .where = "key/0/3", .text = "expected this"};
        wire_open(&req, "", 0, 1 << 16);
        srv_problem_error(&req, &err);
        wire_problem(&req, rows[i].http, rows[i].code, "/key/0/3", "expected this");
        err.where[0] = 0;
        srv_problem_error(&req, &err);
        wire_problem(&req, rows[i].http, rows[i].code, NULL, "expected this");
        wire_close(&req);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure),      cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_pieces),         cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_problem_body),   cmocka_unit_test(test_problem_codes),
        cmocka_unit_test(test_library_errors), cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests_name("wire_json", tests, NULL, NULL);
}
