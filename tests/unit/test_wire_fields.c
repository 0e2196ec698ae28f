/* Bodies into structs: every kind of row, defaults and given bits, every refusal with its pointer,
 * and bodies that try to pass something off as a tensor. */
#include <stdio.h>

#include "config/nearest.h"
#include "unit/wire_body.h"
#include "wire/container.h"

typedef struct point {
    srv_given_bits given;
    attn_tensor values;
    int64_t weight;
} point;

typedef struct style {
    srv_given_bits given;
    const char *title;
    attn_tensor values;
    double size;
} style;

typedef struct shape {
    srv_given_bits given;
    int kind;
    attn_tensor values;
} shape;

/* A struct of another library: it has no given bits. */
typedef enum stage { STAGE_NONE, STAGE_PADDING, STAGE_WINDOW } stage;
typedef struct foreign {
    attn_tensor values;
    stage stage;
    size_t heads;
    bool closed;
} foreign;

typedef struct input {
    srv_given_bits given;
    bool on;
    int64_t count, free_count;
    double scale;
    const char *name;
    int kind;
    unsigned parts;
    attn_tensor query, mask;
    srv_ints ids;
    srv_ranges range, ranges;
    srv_strings words;
    style look;
    srv_objects points;
    srv_union offset, window;
    shape form;
    srv_strings all_words;
    srv_objects all_points;
    srv_given_bits foreign_given;
    foreign foreign;
} input;

static void init_point(void *item) {
    ((point *)item)->weight = 7;
}

static const char *const kinds[] = {"causal", "padding", "window", NULL};
static const char *const stops[] = {"end", NULL};

#define ROW(k, n, type)                                                                            \
    .name = n, .kind = k, .offset = offsetof(input, type), .doc = "Doc of " n "."

static const srv_field point_fields[] = {
    {.name = "values",
     .kind = SRV_TENSOR,
     .offset = offsetof(point, values),
     .accepts = SRV_T_REAL,
     .required = true},
    {.name = "weight", .kind = SRV_INT, .offset = offsetof(point, weight)},
    {0},
};
static const srv_field look_fields[] = {
    {.name = "title", .kind = SRV_STRING, .offset = offsetof(style, title)},
    {.name = "values", .kind = SRV_TENSOR, .offset = offsetof(style, values), .accepts = SRV_T_INT},
    {.name = "size", .kind = SRV_REAL, .offset = offsetof(style, size), .min = 0.5, .max = 72},
    {0},
};
static const srv_field shape_fields[] = {
    {.name = "kind",
     .kind = SRV_ENUM,
     .offset = offsetof(shape, kind),
     .choices = kinds,
     .required = true},
    {.name = "values",
     .kind = SRV_TENSOR,
     .offset = offsetof(shape, values),
     .accepts = SRV_T_REAL},
    {0},
};
static const srv_field foreign_fields[] = {
    {.name = "stage",
     .kind = SRV_ENUM,
     .offset = offsetof(foreign, stage),
     .choices = kinds + 1,
     .first = STAGE_PADDING,
     .required = true},
    {.name = "heads", .kind = SRV_INT, .offset = offsetof(foreign, heads)},
    {.name = "open", .kind = SRV_BOOL, .offset = offsetof(foreign, closed), .accepts = SRV_B_NOT},
    {.name = "values",
     .kind = SRV_TENSOR,
     .offset = offsetof(foreign, values),
     .accepts = SRV_T_REAL},
    {0},
};
static const srv_field fields[] = {
    {ROW(SRV_BOOL, "on", on)},
    {ROW(SRV_INT, "count", count), .min = 1, .max = 10},
    {ROW(SRV_INT, "free_count", free_count)},
    {ROW(SRV_REAL, "scale", scale)},
    {ROW(SRV_STRING, "name", name)},
    {ROW(SRV_ENUM, "kind", kind), .choices = kinds},
    {ROW(SRV_FLAGS, "parts", parts), .choices = kinds},
    {ROW(SRV_TENSOR, "query", query), .accepts = SRV_T_REAL, .required = true},
    {ROW(SRV_TENSOR, "attn_mask", mask), .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF},
    {ROW(SRV_INTS, "ids", ids), .max = 4},
    {ROW(SRV_STRINGS, "words", words), .max = 3},
    {ROW(SRV_OBJECT, "look", look), .fields = look_fields},
    {ROW(SRV_OBJECTS, "points", points), .fields = point_fields, .size = sizeof(point),
     .init = init_point, .max = 5},
    {ROW(SRV_UNION, "offset", offset), .accepts = SRV_U_INT | SRV_U_INTS | SRV_U_STRING,
     .choices = stops},
    {ROW(SRV_UNION, "either", window), .accepts = SRV_U_FALSE | SRV_U_NUMBER},
    {ROW(SRV_OBJECT, "form", form), .accepts = SRV_O_NAME, .fields = shape_fields},
    {ROW(SRV_STRINGS, "all_words", all_words)},
    {ROW(SRV_OBJECTS, "all_points", all_points), .fields = point_fields, .size = sizeof(point)},
    {ROW(SRV_OBJECT, "foreign", foreign), .accepts = SRV_O_NAME, .fields = foreign_fields,
     .given = offsetof(input, foreign_given)},
    {ROW(SRV_RANGES, "range", range)},
    {ROW(SRV_RANGES, "ranges", ranges), .accepts = SRV_R_MANY},
    {0},
};

enum { LIMIT = 8 << 20 };

static bool decode(srv_request *req, input *in, const char *body, size_t size) {
    *in = (input){.count = 3, .scale = 0.5, .kind = 2};
    wire_open(req, body, size, LIMIT);
    return srv_decode(req, fields, in);
}

static void accept(srv_request *req, input *in, const char *body) {
    if (!decode(req, in, body, strlen(body)))
        fail_msg("%s refused: %.*s", body, (int)req->reply.size, req->reply.body);
}

static void refuse_bytes(const char *body, size_t size, int status, const char *code,
                         const char *pointer, const char *detail) {
    srv_request req;
    input in;
    if (decode(&req, &in, body, size))
        fail_msg("accepted: %s", body);
    wire_problem(&req, status, code, pointer, detail);
    wire_close(&req);
}

static void refuse(const char *body, int status, const char *code, const char *pointer,
                   const char *detail) {
    refuse_bytes(body, strlen(body), status, code, pointer, detail);
}

/* With the required field in front. */
static void refuse_member(const char *member, int status, const char *code, const char *pointer,
                          const char *detail) {
    char body[400];
    snprintf(body, sizeof body, "{\"query\":[1],%s}", member);
    refuse(body, status, code, pointer, detail);
}

static void test_defaults(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in, " { \"query\" : [ 1 ] , \"count\" : null, \"attn_mask\":null } \n");
    assert_int_equal(in.count, 3);
    assert_true(in.scale == 0.5);
    assert_int_equal(in.kind, 2);
    assert_int_equal(in.given.words[0], 1 << 7);
    assert_int_equal(in.mask.rank, 0);
    assert_int_equal(in.offset.is, 0);
    wire_close(&req);
}

static void test_kinds(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in,
           "{\"on\":true,\"count\":4.0,\"free_count\":-9223372036854775808,\"scale\":-2e-3,"
           "\"name\":\"\\u00e9\\n\\ud83d\\ude00\",\"kind\":\"padding\",\"parts\":[\"window\","
           "\"causal\"],"
           "\"query\":[[1,2]],\"attn_mask\":[true],\"ids\":[1,-2,3.0],\"words\":[\"a\",\"\"],"
           "\"look\":{\"title\":\"t\",\"size\":0.5},\"points\":[{\"values\":[1]},"
           "{\"weight\":1,\"values\":[[2,3]]}],\"offset\":\"end\",\"either\":false}");
    assert_int_equal(in.given.words[0], (1 << 15) - 1);
    assert_true(in.on);
    assert_int_equal(in.count, 4);
    assert_true(in.free_count == INT64_MIN);
    assert_true(in.scale == -2e-3);
    assert_string_equal(in.name, "\xC3\xA9\n\xF0\x9F\x98\x80");
    assert_int_equal(in.kind, 1);
    assert_int_equal(in.parts, 5);
    assert_int_equal(in.query.dims[1], 2);
    assert_int_equal(in.ids.count, 3);
    assert_int_equal(in.ids.values[2], 3);
    assert_int_equal(in.words.count, 2);
    assert_string_equal(in.words.values[1], "");
    assert_int_equal(in.look.given.words[0], 1 | 4);
    assert_string_equal(in.look.title, "t");
    assert_int_equal(in.points.count, 2);
    const point *points = in.points.items;
    assert_int_equal(points[0].weight, 7);
    assert_int_equal(points[0].given.words[0], 1);
    assert_int_equal(points[1].weight, 1);
    assert_int_equal(points[1].given.words[0], 3);
    assert_memory_equal(points[1].values.data, ((float[]){2, 3}), 8);
    assert_int_equal(in.offset.is, SRV_U_STRING);
    assert_int_equal(in.window.is, SRV_U_FALSE);
    wire_close(&req);
    accept(&req, &in, "{\"query\":[1],\"parts\":\"window\",\"offset\":[1,2],\"either\":2}");
    assert_int_equal(in.parts, 4);
    assert_int_equal(in.offset.is, SRV_U_INTS);
    assert_int_equal(in.offset.ints.values[1], 2);
    assert_int_equal(in.window.is, SRV_U_NUMBER);
    wire_close(&req);
    accept(&req, &in, "{\"query\":[1],\"offset\":-3.0,\"parts\":[],\"points\":[]}");
    assert_int_equal(in.offset.is, SRV_U_INT);
    assert_int_equal(in.offset.integer, -3);
    assert_true(in.offset.number == -3);
    assert_int_equal(in.parts, 0);
    wire_close(&req);
}

static void test_ranges(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in, "{\"query\":[1],\"range\":\"5:9\",\"ranges\":\"7,0:3,100:104\"}");
    assert_int_equal(in.range.count, 1);
    assert_true(in.range.items[0].from == 5 && in.range.items[0].to == 9);
    assert_string_equal(in.ranges.text, "7,0:3,100:104");
    assert_int_equal(in.ranges.count, 3);
    assert_true(in.ranges.items[0].from == 7 && in.ranges.items[0].to == 8);
    assert_true(in.ranges.items[2].from == 100 && in.ranges.items[2].to == 104);
    wire_close(&req);
    accept(&req, &in, "{\"query\":[1],\"range\":4,\"ranges\":[3, 2]}");
    assert_true(in.range.items[0].from == 4 && in.range.items[0].to == 5);
    assert_true(in.ranges.items[0].from == 3 && in.ranges.items[0].to == 2);
    assert_string_equal(in.ranges.text, "[3, 2]");
    wire_close(&req);
    refuse_member("\"range\":\"5,9\"", 422, "invalid_value", "/range", "\"5:9\"");
    refuse_member("\"ranges\":\"5,,9\"", 422, "invalid_value", "/ranges", "5,,9");
    refuse_member("\"ranges\":\"\"", 422, "invalid_value", "/ranges", "\"\"");
    refuse_member("\"ranges\":\"01\"", 422, "invalid_value", "/ranges", "01");
    refuse_member("\"ranges\":\"1234567890123456\"", 422, "invalid_value", "/ranges", "12345");
    refuse_member("\"ranges\":\"-1\"", 422, "invalid_value", "/ranges", "-1");
    refuse_member("\"ranges\":[1,2,3]", 422, "invalid_value", "/ranges", "at most 2");
    refuse_member("\"ranges\":true", 422, "wrong_type", "/ranges", "true");
}

/* Objects of structs that have no given bits, from the JSON and from tensors beside it. */
static void test_foreign_structs(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in,
           "{\"query\":[1],\"foreign\":{\"stage\":\"window\",\"heads\":3,\"open\":true}}");
    assert_int_equal(in.foreign_given.words[0], 7);
    assert_int_equal(in.foreign.stage, STAGE_WINDOW);
    assert_int_equal(in.foreign.heads, 3);
    assert_false(in.foreign.closed);
    assert_int_equal(in.foreign.values.rank, 0);
    wire_close(&req);
    accept(&req, &in,
           "{\"query\":[1],\"foreign\":{\"open\":false,\"stage\":\"padding\",\"values\":[2]}}");
    assert_int_equal(in.foreign_given.words[0], 1 | 4 | 8);
    assert_int_equal(in.foreign.stage, STAGE_PADDING);
    assert_true(in.foreign.closed);
    wire_close(&req);
    accept(&req, &in, "{\"query\":[1],\"foreign\":\"window\"}");
    assert_int_equal(in.foreign_given.words[0], 1);
    assert_int_equal(in.foreign.stage, STAGE_WINDOW);
    wire_close(&req);
    refuse_member("\"foreign\":{\"heads\":1}", 422, "invalid_value", "/foreign", "\"stage\"");
    refuse_member("\"foreign\":\"causal\"", 422, "invalid_value", "/foreign", "\"padding\"");

    float numbers[] = {5, 6};
    const size_t dims[] = {2};
    const attn_named_tensor beside = {"foreign.values",
                                      attn_tensor_dense(numbers, ATTN_F32, 1, dims)};
    const char *text = "{\"query\":[1],\"foreign\":{\"stage\":\"window\"}}";
    const srv_decoded_body body = {
        .text = text, .size = strlen(text), .tensors = &beside, .count = 1};
    wire_open(&req, "", 0, LIMIT);
    req.decoded_body = &body;
    in = (input){0};
    assert_true(srv_decode(&req, fields, &in));
    assert_int_equal(in.foreign_given.words[0], 1 | 8);
    assert_ptr_equal(in.foreign.values.data, numbers);
    wire_close(&req);
}

static void test_refused_values(void **state) {
    (void)state;
    refuse_member("\"on\":1", 422, "wrong_type", "/on", "expected true or false, found 1");
    refuse_member("\"count\":0", 422, "invalid_value", "/count", "from 1 to 10, found 0");
    refuse_member("\"count\":1.5", 422, "wrong_type", "/count", "an integer, found 1.5");
    refuse_member("\"count\":\"2\"", 422, "wrong_type", "/count", "found \"2\"");
    refuse_member("\"free_count\":9223372036854775808", 422, "invalid_value", "/free_count",
                  "64 bits");
    refuse_member("\"scale\":1e400", 422, "invalid_value", "/scale", "1e400");
    refuse_member("\"scale\":[]", 422, "wrong_type", "/scale", "a list of 0");
    refuse_member("\"scale\":NaN", 400, "malformed_json", "/scale", "NaN is not JSON");
    refuse_member("\"name\":{}", 422, "wrong_type", "/name", "an object");
    refuse_member("\"kind\":\"casual\"", 422, "invalid_value", "/kind", "did you mean \"causal\"");
    refuse_member("\"kind\":3", 422, "wrong_type", "/kind", "\"padding\"");
    refuse_member("\"parts\":[\"causal\",\"x\"]", 422, "invalid_value", "/parts/1", "\"x\"");
    refuse_member("\"parts\":[null]", 422, "wrong_type", "/parts/0", "null");
    refuse_member("\"ids\":[1,2,3,4,5]", 422, "invalid_value", "/ids",
                  "at most 4, found a list of 5");
    refuse_member("\"ids\":[1,2,3,4,]", 400, "malformed_json", "/ids/4", "a value, found ']'");
    refuse_member("\"ids\":[1,true]", 422, "wrong_type", "/ids/1", "true");
    refuse_member("\"words\":[1]", 422, "wrong_type", "/words/0", "a string");
    refuse_member("\"words\":\"a\"", 422, "wrong_type", "/words", "a list of strings");
    refuse_member("\"look\":[]", 422, "wrong_type", "/look", "an object");
    refuse_member("\"look\":{\"size\":0.4}", 422, "invalid_value", "/look/size", "from 0.5 to 72");
    refuse_member("\"points\":{}", 422, "wrong_type", "/points", "a list of objects");
    refuse_member("\"points\":[1]", 422, "wrong_type", "/points/0", "an object");
    refuse_member("\"points\":[{\"values\":[1]},{}]", 422, "invalid_value", "/points/1",
                  "\"values\"");
    refuse_member("\"points\":[{\"values\":[1]},{\"values\":[[1],[2,3]]}]", 422, "shape_mismatch",
                  "/points/1/values/1", "2 numbers");
    refuse_member("\"points\":[null]", 422, "wrong_type", "/points/0", "null");
    refuse_member("\"offset\":1.5", 422, "wrong_type", "/offset", "an integer");
    refuse_member("\"offset\":\"start\"", 422, "invalid_value", "/offset", "\"end\"");
    refuse_member("\"offset\":true", 422, "wrong_type", "/offset", "true");
    refuse_member("\"either\":true", 422, "wrong_type", "/either",
                  "expected a number or false, found true");
    refuse_member("\"either\":\"x\"", 422, "wrong_type", "/either",
                  "expected a number or false, found \"x\"");
    refuse_member("\"offset\":{}", 422, "wrong_type", "/offset",
                  "expected an integer, a list of integers, or \"end\", found an object");
    refuse("{}", 422, "invalid_value", "", "\"query\" is required");
    refuse("{\"query\":null}", 422, "invalid_value", "", "\"query\" is required");
}

static void test_unknown_fields(void **state) {
    (void)state;
    refuse("{\"qeury\":[[1]]}", 422, "unknown_field", "/qeury", "did you mean \"query\"");
    refuse("{\"mask\":[[1]]}", 422, "unknown_field", "/mask", "here it is called \"attn_mask\"");
    refuse("{\"zzzzzz\":1}", 422, "unknown_field", "/zzzzzz", "not a field");
    refuse("{\"\":1}", 422, "unknown_field", "/", "not a field");
    refuse("{\"a/b~c\":1}", 422, "unknown_field", "/a~1b~0c", "not a field");
    refuse_member("\"look\":{\"Title\":1}", 422, "unknown_field", "/look/Title", "\"title\"");
    refuse_member("\"points\":[{\"valeus\":1}]", 422, "unknown_field", "/points/0/valeus",
                  "values");
    char body[2000] = "{\"";
    memset(body + 2, 'k', 1500);
    strcpy(body + 1502, "\":1}");
    refuse(body, 422, "unknown_field", "*", "not a field");
    static const char *const names[] = {"query", "key", "value"};
    assert_string_equal(srv_nearest("Key", names, 3), "key");
    assert_string_equal(srv_nearest("vlaue", names, 3), "value");
    assert_null(srv_nearest("temperature", names, 3));
    assert_null(srv_nearest("", names, 3));
}

static void test_malformed(void **state) {
    (void)state;
    refuse("", 400, "malformed_json", "", "\"query\": ..");
    refuse(" \n", 400, "malformed_json", "", "is empty");
    refuse("[1]", 422, "wrong_type", "", "an object");
    refuse("nonsense", 400, "malformed_json", "", "Line 1, column 1");
    refuse("\xEF\xBB\xBF{}", 400, "malformed_json", "", "byte order mark");
    refuse("{\"query\":[1]", 400, "malformed_json", "", "the end of the body");
    refuse("{\"query\":[1],}", 400, "malformed_json", "", "field name");
    refuse("{\"query\":[1]}}", 400, "malformed_json", "",
           "expected the end of the body, found '}'");
    refuse("{\"query\" [1]}", 400, "malformed_json", "/query", "':'");
    refuse("{query:[1]}", 400, "malformed_json", "", "in double quotes");
    refuse("{\"query\":[1],\n\"on\":tru}", 400, "malformed_json", "/on", "Line 2, column 6");
    refuse("{\"query\":[1],\"name\":\"a\nb\"}", 400, "malformed_json", "/name", "\\u000a");
    refuse("{\"query\":[1],\"name\":\"a\\x\"}", 400, "malformed_json", "/name", "escape");
    refuse("{\"query\":[1],\"name\":\"\\u0000\"}", 400, "malformed_json", "/name", "escape");
    refuse("{\"query\":[1],\"name\":\"\\ud800\"}", 400, "malformed_json", "/name", "surrogates");
    refuse("{\"query\":[1],\"name\":\"\xC0\xAF\"}", 400, "malformed_json", "/name", "UTF-8");
    refuse("{\"query\":[1],\"name\":\"abc", 400, "malformed_json", "/name", "not closed");
    refuse("{\"query\":[1],\"name\":\"abc\\", 400, "malformed_json", "/name", "escape");
    refuse("{\"query\":[1],\"count\":01}", 400, "malformed_json", "/count", "01");
    refuse("{\"query\":[1],\"query\":[2]}", 400, "malformed_json", "/query", "twice");
    refuse("{\"query\":[1],\"name\":\"a\",\"n\\u0061me\":\"b\"}", 400, "malformed_json", "/name",
           "twice");
    refuse("{\"query\":[1],\"look\":{\"title\":\"a\",\"t\\u0069tle\":\"b\"}}", 400,
           "malformed_json", "/look/title", "twice");
    refuse_bytes("{\"query\":[1]}\0", 14, 400, "malformed_json", "", "NUL");
    refuse_bytes("{\"query\":[1\0,2]}", 16, 400, "malformed_json", "", "column 12");
    char deep[400] = "{\"query\":[1],\"name\":";
    size_t at = strlen(deep);
    memset(deep + at, '[', 32);
    memset(deep + at + 32, ']', 32);
    strcpy(deep + at + 64, "}");
    refuse(deep, 422, "wrong_type", "/name", "a string");
    memset(deep, ' ', at);
    memcpy(deep, "{\"query\":", 9);
    refuse(deep, 400, "malformed_json", "*", "more than 32 deep");
}

/* Escapes in names mean what they mean; nothing but the table's own places yields a tensor. */
static void test_forging(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in, "{\"qu\\u0065ry\":[5,6]}");
    assert_memory_equal(in.query.data, ((float[]){5, 6}), 8);
    wire_close(&req);
    refuse("{\"query\":0}", 422, "wrong_type", "/query", "found the number 0");
    refuse("{\"query\\u0000\":[1]}", 400, "malformed_json", "", "escape");
    refuse_member("\"qu\\u0065ry\":0", 400, "malformed_json", "/query", "twice");
    refuse_member("\"attn_mask\":0", 422, "wrong_type", "/attn_mask", "nested lists");
    refuse_member("\"points\":[{\"values\":0}]", 422, "wrong_type", "/points/0/values", "nested");
    refuse_member("\"points\":[[{\"values\":[1]}]]", 422, "wrong_type", "/points/0", "an object");
    refuse_member("\"points\":{\"values\":[1]}", 422, "wrong_type", "/points", "a list of objects");
    refuse_member("\"look\":[{\"values\":[1]}]", 422, "wrong_type", "/look", "an object");
    refuse_member("\"name\":{\"query\":[1]}", 422, "wrong_type", "/name", "an object");
    refuse_member("\"count\":{\"shape\":[1],\"data\":[1]}", 422, "wrong_type", "/count",
                  "an object");
}

/* Bodies whose fields would take a multiple of their size. */
static void refuse_repeated(const char *field, const char *unit, size_t count) {
    size_t unit_size = strlen(unit), size = 0;
    char *body = malloc(count * unit_size + 80);
    assert_non_null(body);
    size += (size_t)sprintf(body, "{\"query\":[1],\"%s\":[", field);
    for (size_t i = 0; i < count; i++, size += unit_size)
        memcpy(body + size, unit, unit_size);
    size = size - 1 + (size_t)sprintf(body + size - 1, "]}");
    refuse_bytes(body, size, 413, "too_large", "*", "Beside its tensors");
    free(body);
}

static void test_amplification(void **state) {
    (void)state;
    refuse_repeated("all_points", "{},", 100000);
    refuse_repeated("all_words", "\"\",", 300000);
    refuse_repeated("offset", "1,", 300000);
    refuse_repeated("all_words",
                    "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",", 50000);
    /* tensors and white space do not count */
    size_t room = 3 << 20, size = 0;
    char *body = malloc(room);
    assert_non_null(body);
    size += (size_t)sprintf(body, "{\"query\":[");
    while (size < room - 100)
        size += (size_t)sprintf(body + size, "1, \n");
    size += (size_t)sprintf(body + size, "1]}");
    srv_request req;
    input in;
    bool fits = decode(&req, &in, body, size);
    wire_close(&req);
    free(body);
    assert_true(fits);
}

/* A string stands for an object of its first field alone. */
static void test_names(void **state) {
    (void)state;
    srv_request req;
    input in;
    accept(&req, &in, "{\"query\":[1],\"form\":\"window\"}");
    assert_int_equal(in.form.kind, 2);
    assert_int_equal(in.form.given.words[0], 1);
    assert_int_equal(in.form.values.rank, 0);
    wire_close(&req);
    accept(&req, &in, "{\"query\":[1],\"form\":{\"values\":[[3]],\"kind\":\"padding\"}}");
    assert_int_equal(in.form.kind, 1);
    assert_int_equal(in.form.given.words[0], 3);
    assert_int_equal(in.form.values.rank, 2);
    wire_close(&req);
    refuse_member("\"form\":\"windw\"", 422, "invalid_value", "/form", "did you mean \"window\"");
    refuse_member("\"form\":3", 422, "wrong_type", "/form",
                  "a name or an object with \"kind\", \"values\", found 3");
    refuse_member("\"form\":{\"values\":[1]}", 422, "invalid_value", "/form", "kind");
    refuse_member("\"form\":[\"window\"]", 422, "wrong_type", "/form", "a list of 1");
    refuse_member("\"look\":\"t\"", 422, "wrong_type", "/look", "an object with ");
}

/* The same value in its usual and in an unusual spelling. */
static void same(const char *usual, const char *unusual) {
    char body[400];
    srv_request req;
    input a, b;
    snprintf(body, sizeof body, "{%s,\"query\":[1]}", usual);
    accept(&req, &a, body);
    wire_close(&req);
    snprintf(body, sizeof body, "{\"name\":\"n\",%s,\"scale\":2 , \"query\":[1]}", unusual);
    accept(&req, &b, body);
    assert_string_equal(b.name, "n");
    assert_true(b.scale == 2);
    wire_close(&req);
    const uint64_t others = 1 << 3 | 1 << 4; /* scale and name */
    assert_int_equal(a.given.words[0] | others, b.given.words[0]);
    assert_int_equal(a.given.words[0] & others, 0);
    assert_int_equal(a.on, b.on);
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.free_count, b.free_count);
    assert_int_equal(a.kind, b.kind);
    assert_int_equal(a.parts, b.parts);
}

static void test_spellings(void **state) {
    (void)state;
    same("\"on\":true", "\"on\" : true ");
    same("\"on\":false,\"count\":10", "\"on\":false,\"count\":1.0e1");
    same("\"count\":4", "\"count\":4.0");
    same("\"free_count\":-7", "\"free_count\":-70e-1");
    same("\"kind\":\"padding\"", "\"kind\":\"p\\u0061dding\"");
    same("\"parts\":\"window\"", "\"parts\":[\"windo\\u0077\"]");
    same("\"parts\":[]", "\"parts\":[ ]");
    same("\"parts\":[\"causal\",\"window\"]", "\"parts\" : [ \"windo\\u0077\" , \"causal\" ]");
    same("\"parts\":[\"causal\"]",
         "\"parts\":[\"causal\",\"causal\",\"causal\",\"causal\",\"causal\",\"causal\",\"causal\","
         "\"causal\",\"causal\",\"causal\",\"causal\",\"causal\",\"causal\",\"causal\",\"causal\","
         "\"causal\",\"causal\"]");
    same("\"on\":true", "\"kind\":null,\"on\":true,\"count\":null");
    refuse_member("\"on\":true,\"on\":true", 400, "malformed_json", "/on", "twice");
    refuse_member("\"on\":truee", 400, "malformed_json", "/on", "found truee");
    refuse_member("\"on\":true:", 400, "malformed_json", "*", "','");
    refuse_member("\"count\":04", 400, "malformed_json", "*", "the number 04");
    refuse_member("\"count\":4,\"count\":5", 400, "malformed_json", "/count", "twice");
    refuse_member("\"count\":11", 422, "invalid_value", "/count", "from 1 to 10, found 11");
    refuse_member("\"kind\":\"causa\"", 422, "invalid_value", "/kind", "did you mean \"causal\"");
    refuse_member("\"parts\":[\"causal\",]", 400, "malformed_json", "*", "a value");
    refuse_member("\"parts\":[,\"causal\"]", 400, "malformed_json", "*", "a value");
    refuse_member("\"parts\":[\"causal\" \"window\"]", 400, "malformed_json", "*", "','");
    refuse("{\"on\":true,\"count\":2}", 422, "invalid_value", "", "\"query\" is required");
    refuse("{\"on\":true,\"query\":[1],\"query\":[1]}", 400, "malformed_json", "/query", "twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_ranges),         cmocka_unit_test(test_foreign_structs),
        cmocka_unit_test(test_refused_values), cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_malformed),      cmocka_unit_test(test_forging),
        cmocka_unit_test(test_amplification),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_spellings),
    };
    return cmocka_run_group_tests_name("wire_fields", tests, NULL, NULL);
}
