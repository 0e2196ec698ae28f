/* The number of an owner is a hash of its name. */
#include "config/owner.h"

#include <string.h>

#include "number/hash.h"

srv_owner srv_owner_of(const char *name) {
    const srv_owner hash = name ? attn_hash(ATTN_HASH_START, name, strlen(name)) : 0;
    return name && !hash ? 1 : hash;
}
