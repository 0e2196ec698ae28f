/* The API keys of keys_file: who may come in, with which rights, and how many requests at a time.
 * Keys are kept as digests only. Every function may be called from any thread.
 *
 * The file: one key a line, [NAME:]KEY [admin] [concurrency=N]; blank lines and what follows a #
 * are not read. KEY has 16 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = (RFC 6750), NAME 1 to 64
 * of A-Z a-z 0-9 - . _ and is how the log calls the key; without one it is called after its line.
 */
#ifndef SRV_KEYS_H
#define SRV_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

typedef struct srv_keys srv_keys;
typedef struct srv_key srv_key;

srv_keys *srv_keys_new(void);       /* holds no key yet; NULL: no memory or no random numbers */
void srv_keys_free(srv_keys *keys); /* NULL is fine; no key may be held */

/* Take the keys of the file instead of those that are there. A key that stays keeps its count of
 * running requests; one that goes is refused from now on. false: *err says what was expected, what
 * was found and on which line, but never the key; nothing has changed. */
bool srv_keys_load(srv_keys *keys, const char *path, srv_config_error *err);
size_t srv_keys_count(srv_keys *keys);

/* The key with this text, held until srv_keys_release, and whether it has the right "admin"; NULL:
 * there is none. */
srv_key *srv_keys_find(srv_keys *keys, const char *text, size_t size, bool *admin);
/* One more request of a held key is running; false: it already has `most` (0: any number), or as
 * many as its line of the file says, which then stands in *limit. */
bool srv_keys_start(srv_keys *keys, srv_key *key, size_t most, size_t *limit);
void srv_keys_finish(srv_keys *keys, srv_key *key); /* a request that was started is over */
void srv_keys_release(srv_keys *keys, srv_key *key);

const char *srv_key_name(const srv_key *key); /* of a held key */

#endif
