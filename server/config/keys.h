/* The API keys of the setting keys_file, with their rights and the number of requests that each may
 * run at a time. Only digests of keys are kept in memory. Any thread may call these functions.
 *
 * A line of the file is [NAME:]KEY [admin] [concurrency=N]. Blank lines and comments after # are
 * skipped. KEY has 16 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = (RFC 6750). NAME has 1 to 64
 * characters of A-Z a-z 0-9 - . _; the log shows it in place of the key, and it is the owner of
 * what the key makes. A key without a name is called "key-" and 16 hexadecimal digits of a digest
 * of the key. Therefore it still owns its objects after its line has moved. Such names, and
 * "line-N", which older versions used, cannot be given to a key. */
#ifndef SRV_KEYS_H
#define SRV_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

typedef struct srv_keys srv_keys;
typedef struct srv_key srv_key;

/* Makes an empty list of keys. NULL: out of memory, or the system has no random numbers. */
srv_keys *srv_keys_new(void);
void srv_keys_free(srv_keys *keys); /* NULL is allowed; no key may be held */

/* Replaces the keys by those of the file. A key that the file still has keeps its count of running
 * requests; a key that the file no longer has is refused from now on. false: no key has changed,
 * and *err states what was expected, what was found and on which line. The error text never
 * contains a key. */
bool srv_keys_load(srv_keys *keys, const char *path, srv_config_error *err);
size_t srv_keys_count(srv_keys *keys);

/* Finds the key with the given text and holds it until srv_keys_release. *admin says whether the
 * key has the right "admin". NULL: there is no such key. */
srv_key *srv_keys_find(srv_keys *keys, const char *text, size_t size, bool *admin);
/* Counts one more running request of a held key. Sets *limit to the number of requests that the key
 * may run at a time: the concurrency=N of its line or, if the line has none, `most`. 0: no limit.
 * false: the key already runs *limit requests, and the new one is not counted. */
bool srv_keys_start(srv_keys *keys, srv_key *key, size_t most, size_t *limit);
void srv_keys_finish(srv_keys *keys, srv_key *key); /* ends a request that srv_keys_start counted */
void srv_keys_release(srv_keys *keys, srv_key *key);

const char *srv_key_name(const srv_key *key); /* the key must be held */

#endif
