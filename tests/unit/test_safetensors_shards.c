/* Safetensors in several files: the index, and what does not agree with it. */
#include <attn/memory.h>
#include <attn/safetensors.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ONE "model-00001-of-00002.safetensors"
#define TWO "model-00002-of-00002.safetensors"

static attn_arena *arena;
static float numbers[4] = {1, 2, 3, 4};

static attn_named_tensor named(const char *name, size_t n) {
    return (attn_named_tensor){name, attn_tensor_dense(numbers, ATTN_F32, 1, &n)};
}

static attn_shard_index read_index(const char *text) {
    attn_shard_index index;
    attn_error err = {0};
    if (attn_shard_index_read(text, strlen(text), arena, &index, &err))
        fail_msg("%s: %s", err.where, err.text);
    return index;
}

static void test_joined(void **state) {
    attn_named_tensor first[] = {named("b", 2), named("a", 3)}, second[] = {named("c", 4)};
    attn_unusable_tensor strange = {"d", ATTN_EDTYPE, "F8"};
    const attn_safetensors parts[] = {
        {.tensors = first, .count = 2},
        {.tensors = second, .count = 1, .unusable = &strange, .unusable_count = 1}};
    const attn_shard_index index = read_index(
        "{\"metadata\": {\"total_size\": 36, \"more\": [1, {\"x\": null}]}, \"weight_map\": "
        "{\"b\": \"" ONE "\", \"c\": \"" TWO "\", \"a\": \"" ONE "\", \"d\": \"" TWO "\"}}");
    attn_safetensors all;
    (void)state;
    assert_int_equal(index.file_count, 2);
    assert_string_equal(index.files[0], ONE);
    assert_string_equal(index.files[1], TWO);
    assert_int_equal(attn_shards_join(&index, parts, arena, &all, NULL), ATTN_OK);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.tensors[2].name, "c");
    assert_int_equal(all.tensors[2].tensor.dims[0], 4);
    assert_int_equal(all.unusable_count, 1);
}

static void refused_join(const char *text, const attn_safetensors *parts, const char *where,
                         const char *says) {
    const attn_shard_index index = read_index(text);
    attn_safetensors all;
    attn_error err = {0};
    assert_int_equal(attn_shards_join(&index, parts, arena, &all, &err), ATTN_EARG);
    assert_string_equal(err.where, where);
    if (!strstr(err.text, says))
        fail_msg("%s: %s", where, err.text);
}

static void test_contradictions(void **state) {
    attn_named_tensor first[] = {named("a", 2)}, second[] = {named("b", 3)};
    const attn_safetensors parts[] = {{.tensors = first, .count = 1},
                                      {.tensors = second, .count = 1}};
    (void)state;
    refused_join("{\"weight_map\": {\"a\": \"" ONE "\", \"b\": \"" TWO "\", \"c\": \"" ONE "\"}}",
                 parts, "c", ONE " does not have it");
    refused_join("{\"weight_map\": {\"a\": \"" ONE "\", \"c\": \"" TWO "\"}}", parts, "b",
                 TWO " has it");
    refused_join("{\"weight_map\": {\"x\": \"" ONE "\", \"a\": \"" TWO "\", \"b\": \"" TWO "\"}}",
                 parts, "a", "is in " TWO);
}

static void test_malformed(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "'{'"},
        {"[]", "'{'"},
        {"{}", "weight_map"},
        {"{\"weight_map\": 3}", "'{'"},
        {"{\"weight_map\": {\"a\": 3}}", "string"},
        {"{\"weight_map\": {\"a\": \"../" ONE "\"}}", "same folder"},
        {"{\"weight_map\": {\"a\": \"x/y.safetensors\"}}", "same folder"},
        {"{\"weight_map\": {\"a\": \".safetensors\"}}", "same folder"},
        {"{\"weight_map\": {\"a\": \"pytorch_model.bin\"}}", "same folder"},
        {"{\"weight_map\": {\"a\": \"" ONE "\", \"a\": \"" TWO "\"}}", "twice"},
        {"{\"weight_map\": {}, \"weight_map\": {}}", "once"},
        {"{\"weight_map\": {}} x", "end"},
        {"{\"weight_map\": {\"a\": \"" ONE, ""},
        {"{\"x\": [[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]], \"weight_map\": {}}", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_shard_index index;
        attn_error err = {0};
        assert_int_not_equal(
            attn_shard_index_read(cases[i].text, strlen(cases[i].text), arena, &index, &err),
            ATTN_OK);
        if (!strstr(err.text, cases[i].says) || !err.text[0])
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

static int take_arena(void **state) {
    (void)state;
    arena = attn_arena_new(1 << 20);
    return arena ? 0 : -1;
}

static int give_arena(void **state) {
    (void)state;
    attn_arena_free(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, take_arena, give_arena);
}
