/* Reads files with secrets (API keys, the TLS key) and computes keyed digests of API keys, so that
 * the keys themselves need not stay in memory. Only secret.c uses the digest functions of GnuTLS.
 */
#ifndef SRV_SECRET_H
#define SRV_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum { SRV_DIGEST_SIZE = 32 };

typedef struct srv_digest {
    unsigned char bytes[SRV_DIGEST_SIZE];
} srv_digest;

/* Makes the random key (salt) for the digests of this process. false: there is no source of random
 * numbers. */
bool srv_secret_salt(srv_digest *salt);
/* Computes HMAC-SHA-256 of the text with the salt as its key. */
bool srv_secret_digest(const srv_digest *salt, const char *text, size_t size, srv_digest *out);
/* Compares two digests. The time does not depend on the place where they differ. */
bool srv_secret_equal(const srv_digest *a, const srv_digest *b);

/* Reads a whole regular file of at most 1 MiB and adds a NUL at its end. Refuses a file that is
 * accessible to others than its owner and its group, or writable by the group. (Secrets that
 * Kubernetes mounts are readable by a group.) The caller frees the text with srv_secret_free.
 * false: *err has the reason; its text begins with `setting`, the name of the setting that names
 * the file. */
bool srv_secret_read(const char *setting, const char *path, char **text, size_t *size,
                     srv_config_error *err);
void srv_secret_free(char *text, size_t size); /* wipes the text first; NULL is allowed */

#endif
