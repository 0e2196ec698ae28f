/* Model files that are changed while they are read. */
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

#include "store/model_file.h"
#include "system/files.h"

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
    assert_int_equal(srv_model_write(path, model, NULL, NULL, NULL, NULL, NULL, &err), ATTN_OK);
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
        srv_model_file file;
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
        srv_model_close(&file);
    }
}

static void test_without_checksums_the_times_tell(void **state) {
    srv_model_file file;
    attn_error err;
    (void)state;
    put_model(false);
    assert_int_equal(srv_model_open(path, false, &file, NULL, &err), ATTN_OK);
    assert_int_equal(file.version, 1);
    assert_int_equal(srv_model_recheck(&file, &err), ATTN_OK);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(srv_model_recheck(&file, &err), ATTN_EARG);
    srv_model_close(&file);
}

static void test_trouble_is_no_verdict(void **state) {
    srv_model_file file;
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
        cmocka_unit_test(test_a_change_during_the_read_is_noticed),
        cmocka_unit_test(test_without_checksums_the_times_tell),
        cmocka_unit_test(test_trouble_is_no_verdict),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
