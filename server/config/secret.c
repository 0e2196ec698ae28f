/* The time of a comparison must not reveal a key to clients. Therefore digests are compared instead
 * of keys. The digests depend on a random number (the salt) that only this process knows.
 *
 * The text of a file of keys is overwritten after it is read. The API key in a request is not
 * overwritten: it is in a buffer of libmicrohttpd, which frees the buffer as it is. */
#include "config/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/files.h"

#define SECRET_MOST ((size_t)1 << 20) /* largest file in bytes */

bool srv_secret_salt(srv_digest *salt) {
    return gnutls_rnd(GNUTLS_RND_KEY, salt->bytes, sizeof salt->bytes) == 0;
}

bool srv_secret_digest(const srv_digest *salt, const char *text, size_t size, srv_digest *out) {
    return gnutls_hmac_fast(GNUTLS_MAC_SHA256, salt->bytes, sizeof salt->bytes, text, size,
                            out->bytes) == 0;
}

bool srv_secret_equal(const srv_digest *a, const srv_digest *b) {
    return gnutls_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* Checks type, mode and size of the open file. It checks the descriptor and not the path, because
 * another file may get the path between the check and the read. false: *err has the reason. */
static bool check_secret_file(int fd, const char *setting, const char *path,
                              srv_config_error *err) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info))
        return srv_config_refuse(err, "%s: cannot read %.200s: %s", setting, path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return srv_config_refuse(err, "%s: %.200s is not a regular file", setting, path);
    if (info.st_mode & (S_IRWXO | S_IWGRP))
        return srv_config_refuse(
            err,
            "%s: %.200s has mode %04o: only its owner and group may read it, and only its "
            "owner may write it; set its mode to 600 or 640",
            setting, path, (unsigned)(info.st_mode & 07777));
    if (info.st_size > (off_t)SECRET_MOST)
        return srv_config_refuse(err, "%s: %.200s has %lld bytes, but may have at most %zu",
                                 setting, path, (long long)info.st_size, SECRET_MOST);
    return true;
}

bool srv_secret_read(const char *setting, const char *path, char **text, size_t *size,
                     srv_config_error *err) {
    char *data = NULL;
    size_t used = 0;
    bool ok = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (!check_secret_file(fd, setting, path, err))
        goto out;
    data = malloc(SECRET_MOST + 1);
    if (!data) {
        srv_config_short(err, "read a file of secrets");
        goto out;
    }
    const int failed = srv_file_fill(fd, data, SECRET_MOST, &used);
    ok = !failed ||
         srv_config_refuse(err, "%s: cannot read %.200s: %s", setting, path, strerror(failed));
out:
    if (fd >= 0)
        close(fd);
    if (!ok) {
        srv_secret_free(data, used);
        return false;
    }
    data[used] = 0;
    *text = data;
    *size = used;
    return true;
}

void srv_secret_free(char *text, size_t size) {
    if (text)
        explicit_bzero(text, size);
    free(text);
}
