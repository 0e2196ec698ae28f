/* The API keys of keys_file, with their rights and the number of requests that each may run at a
 * time. Keys are kept as digests only. Any thread may call these functions.
 *
 * A line of the file is [NAME:]KEY [admin] [concurrency=N]. Blank lines and comments after # are
 * skipped. KEY has 16 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = (RFC 6750). NAME has 1 to 64
 * characters of A-Z a-z 0-9 - . _, and the log calls the key by it. A key without a name is called
 * after its line. */
#ifndef SRV_KEYS_H
#define SRV_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

typedef struct srv_keys srv_keys;
typedef struct srv_key srv_key;

srv_keys *srv_keys_new(void);       /* holds no key yet; NULL: no memory or no random numbers */
void srv_keys_free(srv_keys *keys); /* NULL is fine; no key may be held */

/* Replaces the keys by those of the file. A key that stays keeps its count of running requests, and
 * a key that is gone is refused from now on. false: nothing has changed, and *err states what was
 * expected, what was found and on which line, but never the key. */
bool srv_keys_load(srv_keys *keys, const char *path, srv_config_error *err);
size_t srv_keys_count(srv_keys *keys);

/* Finds the key with this text and holds it until srv_keys_release. *admin tells whether it has the
 * right "admin". NULL: there is no such key. */
srv_key *srv_keys_find(srv_keys *keys, const char *text, size_t size, bool *admin);
/* Counts one more running request of a held key. false: the key already has as many as it may,
 * which *limit then holds: `most` (0: any number), or the concurrency of its line. */
bool srv_keys_start(srv_keys *keys, srv_key *key, size_t most, size_t *limit);
void srv_keys_finish(srv_keys *keys, srv_key *key); /* a counted request has ended */
void srv_keys_release(srv_keys *keys, srv_key *key);

const char *srv_key_name(const srv_key *key); /* of a held key */

#endif
