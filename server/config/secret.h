/* What must not leak: files that only the service may read, and keyed digests of what is in them,
 * so that no secret has to be kept. Behind GnuTLS. */
#ifndef SRV_SECRET_H
#define SRV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum { SRV_DIGEST_SIZE = 32 };

typedef struct srv_digest {
    unsigned char bytes[SRV_DIGEST_SIZE];
} srv_digest;

/* A random key for digests of this process. false: no source of random numbers. */
bool srv_secret_salt(srv_digest *salt);
/* HMAC-SHA-256 of text under the salt. */
bool srv_secret_digest(const srv_digest *salt, const char *text, size_t size, srv_digest *out);
/* In a time that does not depend on where they differ. */
bool srv_secret_equal(const srv_digest *a, const srv_digest *b);

/* A whole regular file (at most 1 MiB), NUL-terminated, which neither everybody may read nor anyone
 * but its owner may write; owner and group may read it, as mounted secrets need. The caller gives
 * it to srv_secret_free. false: *err says why; `setting` is how it calls the file. */
bool srv_secret_read(const char *setting, const char *path, char **text, size_t *size,
                     srv_config_error *err);
void srv_secret_free(char *text, size_t size); /* wiped first; NULL is fine */

#endif
