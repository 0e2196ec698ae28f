/* Headers of safetensors: what is written can be read, and what cannot be read is not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "attn/safetensors.h"
#include "io/seal.h"

enum { LIMIT = 1 << 20, ROOM = 4096 };

static float numbers[24];

static attn_tensor dense(attn_dtype dtype, int rank) {
    static const size_t dims[ATTN_MAX_RANK] = {2, 3, 1, 1, 1, 1, 1, 1};
    return attn_tensor_dense(numbers, dtype, rank, dims);
}

/* The header of such tensors and texts, read again with zeros behind it. */
static attn_status write_and_read(attn_named_tensor *tensors, size_t count, attn_metadata *metadata,
                                  size_t metadata_count, attn_error *err) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_safetensors file = {.tensors = tensors,
                             .count = count,
                             .metadata = metadata,
                             .metadata_count = metadata_count},
                     back;
    const void *header;
    size_t size, bytes = 0;
    attn_status status = attn_safetensors_header(&file, arena, &header, &size, err);
    if (!status) {
        char *all = attn_arena_zeroed(arena, size + ROOM, 1);
        memcpy(all, header, size);
        for (size_t i = 0; i < count; i++) {
            size_t n;
            assert_true(attn_tensor_count(&tensors[i].tensor, &n));
            bytes += n * attn_dtype_size(tensors[i].tensor.dtype);
        }
        assert_int_equal(attn_safetensors_read(all, size + bytes, arena, &back, err), ATTN_OK);
        assert_int_equal(back.count, count);
        assert_int_equal(back.metadata_count, metadata_count);
        for (size_t i = 0; i < count; i++)
            assert_string_equal(back.tensors[i].name, tensors[i].name);
    }
    attn_arena_free(arena);
    return status;
}

static void test_what_is_written_can_be_read(void **state) {
    attn_named_tensor tensors[] = {{"", dense(ATTN_U8, 1)},
                                   {"na\"me\n\x1f", dense(ATTN_F64, 2)},
                                   {"é𝄞", dense(ATTN_BF16, ATTN_MAX_RANK)},
                                   {"empty", dense(ATTN_F32, 2)}};
    attn_metadata metadata[] = {{"a", "\t"}, {"", ""}};
    attn_error err;
    (void)state;
    tensors[3].tensor.dims[1] = 0;
    assert_int_equal(write_and_read(tensors, 4, metadata, 2, &err), ATTN_OK);
    assert_int_equal(write_and_read(tensors, 0, metadata, 0, &err), ATTN_OK);
}

/* One of two tensors is not as it should be. */
static void test_faulty_tensors_are_refused(void **state) {
    attn_tensor gaps = dense(ATTN_F32, 2), turned = dense(ATTN_F32, 2), none = {.rank = 0},
                huge = dense(ATTN_F32, 2), untyped = dense(ATTN_F32, 2), deep = dense(ATTN_F32, 2);
    const attn_tensor whole = dense(ATTN_F32, 2);
    (void)state;
    gaps.strides[0] = 4;
    turned.strides[0] = 1, turned.strides[1] = 2;
    huge.dims[0] = SIZE_MAX / 2, huge.strides[0] = 3;
    untyped.dtype = (attn_dtype)8;
    deep.rank = ATTN_MAX_RANK + 1;
    const struct {
        attn_named_tensor tensor;
        attn_status status;
        const char *where;
    } faulty[] = {{{"good", whole}, ATTN_EARG, "good"},
                  {{"__metadata__", whole}, ATTN_EARG, "__metadata__"},
                  {{"\xff", whole}, ATTN_EARG, ""},
                  {{"gaps", gaps}, ATTN_EARG, "gaps"},
                  {{"turned", turned}, ATTN_EARG, "turned"},
                  {{"none", none}, ATTN_ESHAPE, "none"},
                  {{"deep", deep}, ATTN_ESHAPE, "deep"},
                  {{"huge", huge}, ATTN_ELIMIT, "huge"},
                  {{"untyped", untyped}, ATTN_EDTYPE, "untyped"}};
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        attn_named_tensor tensors[] = {{"good", whole}, faulty[i].tensor};
        attn_error err;
        assert_int_equal(write_and_read(tensors, 2, NULL, 0, &err), faulty[i].status);
        assert_string_equal(err.where, faulty[i].where);
    }
}

static void test_faulty_metadata_is_refused(void **state) {
    enum { MOST = 64 };
    attn_metadata many[MOST + 1], twice[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
    attn_metadata bytes[] = {{"a", "\xc3"}};
    char keys[MOST + 1][8];
    attn_error err;
    (void)state;
    for (int i = 0; i <= MOST; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        many[i] = (attn_metadata){keys[i], "text"};
    }
    assert_int_equal(write_and_read(NULL, 0, many, MOST, &err), ATTN_OK);
    assert_int_equal(write_and_read(NULL, 0, many, MOST + 1, &err), ATTN_EARG);
    assert_int_equal(write_and_read(NULL, 0, bytes, 1, &err), ATTN_EARG);
    assert_int_equal(write_and_read(NULL, 0, twice, 3, &err), ATTN_EARG);
    assert_string_equal(err.where, "__metadata__");
}

/* --- seals --- */

enum { SEALED = 3000000 }; /* bytes of the large tensor below: it has three blocks */

/* A container with tensors of three sizes, as a file would hold it. Returns its bytes. */
static char *sealed_file(size_t version, attn_arena *arena, size_t *size) {
    static float large[SEALED / 4];
    const size_t dims[1] = {SEALED / 4}, none[1] = {0};
    attn_named_tensor tensors[] = {{"bytes", dense(ATTN_U8, 2)},
                                   {"large", attn_tensor_dense(large, ATTN_F32, 1, dims)},
                                   {"wide", dense(ATTN_F64, 2)},
                                   {"empty", attn_tensor_dense(NULL, ATTN_F64, 1, none)}};
    attn_metadata metadata[] = {{"format", "pt"}, {"x\"seal.header", "11111111"}};
    attn_safetensors what = {
        .tensors = tensors, .count = 4, .metadata = metadata, .metadata_count = 2};
    const void *header;
    attn_error err;
    for (size_t i = 0; i < SEALED / 4; i++)
        large[i] = (float)i;
    assert_int_equal(attn_safetensors_sealed_header(&what, version, arena, &header, size, &err),
                     ATTN_OK);
    assert_ptr_equal(what.metadata, metadata);
    char *all = attn_arena_take(arena, *size + SEALED + ROOM), *p = all + *size;
    memcpy(all, header, *size);
    for (size_t i = 0; i < 4; i++) {
        size_t n;
        assert_true(attn_tensor_count(&tensors[i].tensor, &n));
        n *= attn_dtype_size(tensors[i].tensor.dtype);
        if (n)
            memcpy(p, tensors[i].tensor.data, n);
        p += n;
    }
    *size = (size_t)(p - all);
    return all;
}

/* Reads the container and checks all of it; *version is that of its seal. */
static attn_status open_sealed(const char *all, size_t size, size_t newest, size_t *version,
                               attn_error *err) {
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_safetensors back;
    attn_seal seal;
    attn_status status = attn_safetensors_read(all, size, arena, &back, err);
    if (!status)
        status = attn_safetensors_seal(all, size, &back, newest, arena, &seal, err);
    if (!status) {
        *version = seal.version;
        status = attn_checksums_check(&seal.checksums, seal.bytes, 0, seal.checksums.size, err);
    }
    attn_arena_free(arena);
    return status;
}

static void test_a_sealed_container_is_read(void **state) {
    attn_arena *arena = attn_arena_new(16 << 20);
    size_t size, version = 0;
    attn_error err;
    (void)state;
    const char *all = sealed_file(7, arena, &size);
    assert_int_equal(open_sealed(all, size, 7, &version, &err), ATTN_OK);
    assert_int_equal(version, 7);
    assert_int_equal(open_sealed(all, size, 6, &version, &err), ATTN_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "version 7"));
    assert_non_null(strstr(err.text, "up to 6"));
    attn_arena_free(arena);
}

static uint64_t header_size(const char *all) {
    uint64_t n;
    memcpy(&n, all, sizeof n);
    return n + 8;
}

static void test_each_flipped_bit_is_found(void **state) {
    attn_arena *arena = attn_arena_new(16 << 20);
    size_t size, version;
    attn_error err;
    (void)state;
    char *all = sealed_file(2, arena, &size);
    const size_t header = header_size(all);
    for (size_t bit = 0; bit < 8 * header; bit++) {
        all[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_not_equal(open_sealed(all, size, 2, &version, &err), ATTN_OK);
        all[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (uint64_t i = 0; i < 500; i++) {
        const size_t bit = 8 * header + attn_rng_bits(3, i) % (8 * (size - header));
        all[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(open_sealed(all, size, 2, &version, &err), ATTN_EVALUE);
        assert_string_equal(err.where, "checksums");
        all[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(open_sealed(all, size, 2, &version, &err), ATTN_OK);
    attn_arena_free(arena);
}

static void test_each_cut_is_found(void **state) {
    attn_arena *arena = attn_arena_new(16 << 20);
    size_t size, version;
    attn_error err;
    (void)state;
    const char *all = sealed_file(2, arena, &size);
    const size_t header = header_size(all);
    for (size_t cut = 0; cut < header + 300; cut++)
        assert_int_not_equal(open_sealed(all, cut, 2, &version, &err), ATTN_OK);
    for (uint64_t i = 0; i < 300; i++)
        assert_int_not_equal(open_sealed(all, attn_rng_bits(4, i) % size, 2, &version, &err),
                             ATTN_OK);
    attn_arena_free(arena);
}

static void test_a_seal_is_whole_or_absent(void **state) {
    static const char *const keys[] = {ATTN_SEAL_VERSION, ATTN_SEAL_HEADER, ATTN_SEAL_CHECKSUMS};
    attn_error err;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        attn_metadata metadata[] = {{keys[i], "1"}};
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_safetensors what = {.metadata = metadata, .metadata_count = 1};
        const void *header;
        size_t size, version;
        assert_int_equal(attn_safetensors_header(&what, arena, &header, &size, &err), ATTN_OK);
        assert_int_equal(open_sealed(header, size, 2, &version, &err), ATTN_EVALUE);
        assert_int_equal(attn_safetensors_sealed_header(&what, 1, arena, &header, &size, &err),
                         ATTN_EARG);
        what.metadata_count = 0;
        assert_int_equal(attn_safetensors_header(&what, arena, &header, &size, &err), ATTN_OK);
        assert_int_equal(open_sealed(header, size, 2, &version, &err), ATTN_OK);
        assert_int_equal(version, 0);
        assert_int_equal(attn_safetensors_sealed_header(&what, 0, arena, &header, &size, &err),
                         ATTN_EARG);
        attn_arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_can_be_read),
        cmocka_unit_test(test_faulty_tensors_are_refused),
        cmocka_unit_test(test_faulty_metadata_is_refused),
        cmocka_unit_test(test_a_sealed_container_is_read),
        cmocka_unit_test(test_each_flipped_bit_is_found),
        cmocka_unit_test(test_each_cut_is_found),
        cmocka_unit_test(test_a_seal_is_whole_or_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
