/* Tensors in JSON bodies: jansson as the oracle on random documents, every written form, and every
 * refusal with its pointer. */
#include <math.h>
#include <stdio.h>

#include "app.h"
#include "number/base64.h"
#include "unit/wire_tensors.h"

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
    assert_int_equal(in.given.words[0], 1 | 4 | 8 | 16);
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
        cmocka_unit_test(test_refused_lists),
        cmocka_unit_test(test_random_documents),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests_name("wire_tensor", tests, NULL, NULL);
}
