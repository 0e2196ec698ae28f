/* FNV-1a, 64 bits: a hash for hash tables and the names of clients. It does not resist
 * inputs that are chosen to collide. */
#ifndef ATTN_HASH_H
#define ATTN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define ATTN_HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash` over n bytes and returns the new hash. The first call gets ATTN_HASH_START. */
static inline uint64_t attn_hash(uint64_t hash, const void *bytes, size_t n) {
    for (const unsigned char *p = bytes, *end = p + n; p < end; p++)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
