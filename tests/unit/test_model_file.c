/* Model files: what is saved is opened; files that are changed while they are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model_disk.h"
#include "system/files.h"
#include "system/mapped.h"

static char folder[] = "/tmp/attnd-model-XXXXXX";
static char path[64];

/* Writes a model of version 2, or one of version 1, without checksums. */
static void put_model(bool sealed) {
    attn_model_config config = attn_model_defaults();
    attn_model *model;
    attn_error err;
    config.source_vocabulary = config.target_vocabulary = 8;
    config.width = 8;
    assert_int_equal(attn_model_new(&config, 1, false, &model, &err), ATTN_OK);
    attn_tokenizer *source = attn_tokenizer_numbers(config.source_vocabulary, ATTN_ENGLISH),
                   *target = attn_tokenizer_numbers(config.target_vocabulary, ATTN_FRENCH);
    const attn_model_contents contents = {.model = model, .source = source, .target = target};
    assert_int_equal(srv_model_write(path, &contents, NULL, &err), ATTN_OK);
    attn_tokenizer_free(source);
    attn_tokenizer_free(target);
    attn_model_free(model);
    if (sealed)
        return;
    static const char *const keys[] = {"seal.version", "seal.header", "seal.checksums"};
    const int fd = open(path, O_RDWR);
    static char text[1 << 16];
    const ssize_t size = pread(fd, text, sizeof text, 0);
    for (size_t i = 0; i < 3; i++) /* keys of the same length that mean nothing */
        memcpy(memmem(text, (size_t)size, keys[i], strlen(keys[i])), "xxxx", 4);
    assert_int_equal(pwrite(fd, text, (size_t)size, 0), size);
    close(fd);
}

static void flip_byte(off_t from_end) {
    struct stat about;
    char byte;
    const int fd = open(path, O_RDWR);
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(pread(fd, &byte, 1, about.st_size - from_end), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, about.st_size - from_end), 1);
    /* as cp -p and rsync -t leave it */
    const struct timespec times[2] = {about.st_atim, about.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* Loads the model at `path` with the library alone, and returns its logits for a small batch. */
static attn_tensor logits_of_file(attn_arena *arena) {
    static const int32_t ids[] = {4, 5, 6};
    static const int64_t length = 3;
    const attn_batch batch = {
        .source = ids, .source_lengths = &length, .target = ids, .B = 1, .S = 3, .T = 3};
    attn_model_file file;
    attn_model_outputs out;
    attn_error err;
    assert_int_equal(attn_model_open(path, false, &file, &err), ATTN_OK);
    assert_int_equal(attn_model_forward(file.model, &batch, &(attn_forward_options){0}, arena, NULL,
                                        NULL, &out, &err),
                     ATTN_OK);
    assert_string_equal(attn_model_file_text(&file, "a.remark"), "kept");
    if (attn_model_has_encoder(attn_model_configuration(file.model)))
        assert_int_equal(attn_tokenizer_kind_of(file.source), ATTN_TOKENS_NUMBERS);
    else
        assert_null(file.source);
    assert_int_equal(attn_tokenizer_size(file.target), 8);
    assert_int_equal(attn_tokenizer_language(file.target), ATTN_FRENCH);
    attn_model_file_close(&file);
    return out.logits;
}

static void test_the_library_opens_what_it_saves(void **state) {
    const attn_metadata remark = {"a.remark", "kept"};
    attn_arena *arena = attn_arena_new((size_t)1 << 26);
    attn_tokenizer *source = attn_tokenizer_numbers(8, ATTN_ENGLISH),
                   *target = attn_tokenizer_numbers(8, ATTN_FRENCH);
    attn_model_file file;
    attn_error err;
    (void)state;
    for (int i = 0; i < ATTN_MODEL_ARCHITECTURES; i++) {
        attn_model_config config = attn_model_defaults();
        attn_model_contents contents = {
            .source = source, .target = target, .metadata = &remark, .metadata_count = 1};
        config.architecture = (attn_model_architecture)i;
        config.source_vocabulary = config.target_vocabulary = config.width = 8;
        if (i >= ATTN_MODEL_ENCODER) {
            config.activation = ATTN_MODEL_SILU;
            config.norm_kind = ATTN_MODEL_RMS_NORM;
            config.norm_epsilon = 1e-6;
            config.num_kv_heads = 2;
            config.gated = config.tied = true;
            config.bias = false;
        }
        assert_int_equal(attn_model_new(&config, 1, false, &contents.model, &err), ATTN_OK);
        assert_int_equal(attn_model_save(path, &contents, &err), ATTN_OK);
        const attn_tensor saved = logits_of_file(arena);
        assert_int_equal(srv_model_write(path, &contents, NULL, &err), ATTN_OK);
        const attn_tensor written = logits_of_file(arena);
        assert_memory_equal(saved.data, written.data, 3 * 8 * sizeof(float));
        attn_model_free(contents.model);
    }
    attn_tokenizer_free(source);
    attn_tokenizer_free(target);
    flip_byte(1);
    assert_int_equal(attn_model_open(path, false, &file, &err), ATTN_EVALUE);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(attn_model_open(path, false, &file, &err), ATTN_EARG);
    assert_int_equal(attn_model_open("/nowhere/a", false, &file, &err), ATTN_EARG);
    assert_non_null(strstr(err.text, "No such file"));
    attn_arena_free(arena);
}

static int begin(void **state) {
    (void)state;
    srv_mapped_start();
    return !mkdtemp(folder) || !strcat(strcpy(path, folder), "/a.safetensors");
}

static int end(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void test_a_change_during_the_read_is_noticed(void **state) {
    static const off_t places[] = {1, 100, 1000}; /* the last one is in the header */
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        attn_model_file file;
        attn_error err;
        int failed;
        put_model(true);
        assert_int_equal(srv_model_open(path, false, &file, &failed, &err), ATTN_OK);
        assert_int_equal(srv_model_recheck(&file, &err), ATTN_OK);
        flip_byte(places[i]);
        assert_int_equal(srv_model_recheck(&file, &err), ATTN_EARG);
        assert_non_null(strstr(err.text, "changed while it was read"));
        flip_byte(places[i]);
        assert_int_equal(srv_model_recheck(&file, &err), ATTN_OK);
        attn_model_file_close(&file);
    }
}

static void test_without_checksums_the_times_tell(void **state) {
    attn_model_file file;
    attn_error err;
    (void)state;
    put_model(false);
    assert_int_equal(srv_model_open(path, false, &file, NULL, &err), ATTN_OK);
    assert_false(file.sealed);
    assert_int_equal(srv_model_recheck(&file, &err), ATTN_OK);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(srv_model_recheck(&file, &err), ATTN_EARG);
    attn_model_file_close(&file);
}

static void test_trouble_is_no_verdict(void **state) {
    attn_model_file file;
    attn_error err;
    int failed;
    (void)state;
    put_model(true);
    flip_byte(1);
    assert_int_equal(srv_model_open(path, false, &file, &failed, &err), ATTN_EARG);
    assert_int_equal(failed, 0);
    assert_int_equal(srv_model_open("/", false, &file, &failed, &err), ATTN_EARG);
    assert_int_equal(failed, 0);
    assert_int_equal(srv_file_judge(ENOENT), SRV_FILE_ABSENT);
    assert_int_equal(srv_file_judge(EBADMSG), SRV_FILE_WRONG);
    static const int troubles[] = {EMFILE, ENFILE, EIO, EACCES, ENOMEM, EINTR, EAGAIN, ESTALE};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        assert_int_equal(srv_file_judge(troubles[i]), SRV_FILE_TROUBLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_library_opens_what_it_saves),
        cmocka_unit_test(test_a_change_during_the_read_is_noticed),
        cmocka_unit_test(test_without_checksums_the_times_tell),
        cmocka_unit_test(test_trouble_is_no_verdict),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
