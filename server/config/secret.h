/* Secrets: reads files that only the service may read, and computes keyed digests of their
 * contents, so that no secret has to be kept. No other code uses the digests of GnuTLS. */
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
/* Compares two digests in a time that does not depend on where they differ. */
bool srv_secret_equal(const srv_digest *a, const srv_digest *b);

/* Reads a whole regular file of at most 1 MiB and adds a NUL at its end. Only owner and group may
 * have the right to read the file (mounted secrets need the group); only the owner may have the
 * right to write it. The caller frees the text with srv_secret_free. false: *err has the reason and
 * refers to the file by `setting`. */
bool srv_secret_read(const char *setting, const char *path, char **text, size_t *size,
                     srv_config_error *err);
void srv_secret_free(char *text, size_t size); /* wipes the text first; NULL is allowed */

#endif
