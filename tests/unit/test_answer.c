/* Answers by tables of rows: the JSON of each kind, what is absent, and the schemas. */
#include <math.h>
#include <stdio.h>

#include "api/service/schema.h"
#include "app.h"
#include "unit/wire_body.h"
#include "wire/answer.h"
#include "wire/json_out.h"

typedef struct inner {
    int64_t whole;
    double real;
} inner;

typedef struct outer {
    bool yes, told;
    int64_t whole;
    double real;
    const char *text;
    char chars[8];
    int choice;
    srv_strings strings;
    srv_ints ints;
    attn_tensor tensor;
    inner in;
    const inner *pointer;
    srv_objects list;
} outer;

static void put_twice(attn_json_text *j, const void *place) {
    const int64_t whole = *(const int64_t *)place;
    if (whole >= 0)
        attn_json_int(j, 2 * whole);
}

static const char *const names[] = {"first", "second", NULL};
static const srv_field inner_rows[] = {SRV_IF_KNOWN("whole", SRV_INT, inner, whole, "An integer."),
                                       SRV_IF_KNOWN("real", SRV_REAL, inner, real, NULL),
                                       {0}};
static const srv_field always_rows[] = {
    SRV_ALWAYS("whole", SRV_INT, inner, whole, NULL, .type = "integer"),
    SRV_ALWAYS("real", SRV_REAL, inner, real, NULL, .type = "number?"),
    {0}};
static const srv_field outer_rows[] = {
    SRV_IF_KNOWN("yes", SRV_BOOL, outer, yes, NULL, .when = offsetof(outer, told)),
    SRV_IF_KNOWN("whole", SRV_INT, outer, whole, NULL),
    SRV_IF_KNOWN("real", SRV_REAL, outer, real, NULL, .max = 1),
    SRV_IF_KNOWN("text", SRV_STRING, outer, text, NULL, .type = "string:uri"),
    SRV_IF_KNOWN("chars", SRV_CHARS, outer, chars, NULL),
    SRV_ALWAYS("choice", SRV_ENUM, outer, choice, NULL, .choices = names, .first = 1),
    SRV_IF_KNOWN("strings", SRV_STRINGS, outer, strings, NULL),
    SRV_IF_KNOWN("ints", SRV_INTS, outer, ints, NULL, .type = "[integer+1 2]"),
    SRV_IF_KNOWN("tensor", SRV_TENSOR, outer, tensor, NULL),
    SRV_IF_KNOWN("in", SRV_OBJECT, outer, in, NULL, .fields = inner_rows),
    SRV_IF_KNOWN("", SRV_OBJECT, outer, pointer, NULL, .fields = always_rows,
                 .accepts = SRV_O_POINTER),
    SRV_IF_KNOWN("list", SRV_OBJECTS, outer, list, NULL, .fields = inner_rows,
                 .size = sizeof(inner)),
    {"twice", SRV_PUT, offsetof(outer, whole), NULL, .put = put_twice, .type = "Names|[Names]?"},
    SRV_WRITTEN("elsewhere", "{[number?]}", NULL, NULL, .always = true),
    {0}};

static void expect(const outer *object, const char *json) {
    srv_request req;
    wire_open(&req, "", 0, 1 << 20);
    assert_true(srv_answer_reply(&req, outer_rows, object));
    assert_int_equal(req.reply.size, strlen(json) + 1);
    assert_memory_equal(req.reply.body, json, strlen(json));
    wire_close(&req);
}

static void test_what_is_unknown_is_absent(void **state) {
    (void)state;
    expect(&(outer){.whole = -1, .real = NAN, .choice = 2, .in = {-1, INFINITY}},
           "{\"choice\":\"second\"}");
}

static void test_every_kind_is_written(void **state) {
    (void)state;
    const char *strings[] = {"a", "\""};
    int64_t ints[] = {-1, 7};
    float numbers[] = {0.5f, NAN};
    inner list[] = {{1, NAN}, {-1, 2}, {-1, NAN}};
    const size_t two = 2;
    expect(&(outer){.told = true,
                    .whole = 3,
                    .real = 0.25,
                    .text = "",
                    .chars = "c",
                    .choice = 1,
                    .strings = {strings, 2},
                    .ints = {ints, 2},
                    .tensor = attn_tensor_dense(numbers, ATTN_F32, 1, &two),
                    .in = {-1, 0},
                    .pointer = &(inner){4, NAN},
                    .list = {.items = list, .count = 3}},
           "{\"yes\":false,\"whole\":3,\"real\":0.25,\"text\":\"\",\"chars\":\"c\",\"choice\":"
           "\"first\",\"strings\":[\"a\",\"\\\"\"],\"ints\":[-1,7],\"tensor\":[0.5,null],"
           "\"in\":{\"real\":0},\"whole\":4,\"real\":null,"
           "\"list\":[{\"whole\":1},{\"real\":2},{}],\"twice\":6}");
}

static void test_schemas_follow_the_notation(void **state) {
    (void)state;
    static const srv_field schemas[] = {
        SRV_GROUP("Outer", outer_rows, "A struct."),
        SRV_WRITTEN("Open", "*", NULL, NULL, .fields = inner_rows, .accepts = SRV_O_OPEN),
        SRV_WRITTEN("Text", "<any>", NULL, NULL),
        SRV_WRITTEN("Raw", "{\"type\":\"null\"}", NULL, NULL),
        {0}};
    static const char expected[] =
        "{\"Outer\":{\"description\":\"A struct.\",\"additionalProperties\":false,"
        "\"required\":[\"choice\",\"elsewhere\"],\"properties\":{"
        "\"yes\":{\"type\":\"boolean\"},\"whole\":{\"minimum\":0,\"type\":\"integer\"},"
        "\"real\":{\"minimum\":0,\"maximum\":1,\"type\":\"number\"},"
        "\"text\":{\"format\":\"uri\",\"type\":\"string\"},\"chars\":{\"type\":\"string\"},"
        "\"choice\":{\"enum\":[\"first\",\"second\"],\"type\":\"string\"},"
        "\"strings\":{\"items\":{\"type\":\"string\"},\"type\":\"array\"},"
        "\"ints\":{\"items\":{\"minimum\":1,\"type\":\"integer\"},\"minItems\":2,"
        "\"maxItems\":2,\"type\":\"array\"},"
        "\"tensor\":{\"$ref\":\"#/components/schemas/Numbers\"},"
        "\"in\":{\"additionalProperties\":false,\"properties\":{"
        "\"whole\":{\"description\":\"An integer.\",\"minimum\":0,\"type\":\"integer\"},"
        "\"real\":{\"type\":\"number\"}},\"type\":\"object\"},"
        "\"whole\":{\"type\":\"integer\"},\"real\":{\"type\":[\"number\",\"null\"]},"
        "\"list\":{\"items\":{\"additionalProperties\":false,\"properties\":{"
        "\"whole\":{\"description\":\"An integer.\",\"minimum\":0,\"type\":\"integer\"},"
        "\"real\":{\"type\":\"number\"}},\"type\":\"object\"},\"type\":\"array\"},"
        "\"twice\":{\"anyOf\":[{\"$ref\":\"#/components/schemas/Names\"},"
        "{\"items\":{\"$ref\":\"#/components/schemas/Names\"},\"type\":[\"array\",\"null\"]}]},"
        "\"elsewhere\":{\"additionalProperties\":{\"items\":{\"type\":[\"number\",\"null\"]},"
        "\"type\":\"array\"},\"type\":\"object\"}},\"type\":\"object\"},"
        "\"Open\":{\"properties\":{"
        "\"whole\":{\"description\":\"An integer.\",\"minimum\":0,\"type\":\"integer\"},"
        "\"real\":{\"type\":\"number\"}},\"type\":\"object\"},"
        "\"Text\":{\"contentMediaType\":\"application/json\",\"contentSchema\":{},"
        "\"type\":\"string\"},\"Raw\":{\"type\":\"null\"}}\n";
    srv_request req;
    wire_open(&req, "", 0, 1 << 20);
    attn_json_text j = srv_json_object(&req);
    srv_schema_answers(&j, schemas);
    assert_true(srv_json_object_end(&j));
    assert_int_equal(req.reply.size, strlen(expected));
    assert_memory_equal(req.reply.body, expected, strlen(expected));
    wire_close(&req);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_unknown_is_absent),
                                       cmocka_unit_test(test_every_kind_is_written),
                                       cmocka_unit_test(test_schemas_follow_the_notation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
