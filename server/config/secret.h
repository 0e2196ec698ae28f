/* Secrets: reads files that only the service may read, and computes keyed digests of their
 * contents, so that no secret has to be kept. This is the only user of the digests of GnuTLS. */
#ifndef SRV_SECRET_H
#define SRV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum { SRV_DIGEST_SIZE = 32 };

typedef struct srv_digest {
    unsigned char bytes[SRV_DIGEST_SIZE];
} srv_digest;

/* Makes a random key for the digests of this process. false: there is no source of random
 * numbers. */
bool srv_secret_salt(srv_digest *salt);
/* HMAC-SHA-256 of text under the salt. */
bool srv_secret_digest(const srv_digest *salt, const char *text, size_t size, srv_digest *out);
/* Compares in a time that does not depend on where the digests differ. */
bool srv_secret_equal(const srv_digest *a, const srv_digest *b);

/* Reads a whole regular file of at most 1 MiB and ends it with a NUL. Only owner and group may have
 * the right to read it (mounted secrets need the group), and only the owner the right to write it.
 * The caller frees the text with srv_secret_free. false: *err has the reason and calls the file by
 * `setting`. */
bool srv_secret_read(const char *setting, const char *path, char **text, size_t *size,
                     srv_config_error *err);
void srv_secret_free(char *text, size_t size); /* wiped first; NULL is fine */

#endif
