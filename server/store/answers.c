#include "store/answers.h"

#include <stdint.h>
#include <string.h>

static const char MAGIC[8] = {'a', 't', 't', 'n', 'k', 'e', 'p', 't'};

enum { VERSION = 2, SIZES = 3 };

/* An answer in an image. */
typedef struct entry {
    const char *key, *type, *body; /* without NULs */
    uint32_t sizes[SIZES];         /* sizes of key, type and body in bytes */
    size_t bytes;                  /* size of the whole entry */
} entry;

/* Reads the entry that begins at `at`. The image has `left` bytes from there on. false: the entry
 * needs more. */
static bool read_entry(const char *at, size_t left, entry *out) {
    if (left < sizeof out->sizes)
        return false;
    memcpy(out->sizes, at, sizeof out->sizes);
    out->bytes = sizeof out->sizes;
    for (size_t i = 0; i < SIZES; i++) {
        if (out->sizes[i] > left - out->bytes)
            return false;
        out->bytes += out->sizes[i];
    }
    out->key = at + sizeof out->sizes;
    out->type = out->key + out->sizes[0];
    out->body = out->type + out->sizes[1];
    return true;
}

static bool has_key(const entry *e, const char *key) {
    return strlen(key) == e->sizes[0] && !memcmp(e->key, key, e->sizes[0]);
}

/* Returns the checksum of the answers, `size` bytes from `at` on, of a run with this `print`. */
static uint32_t checksum_of(uint64_t print, const char *at, size_t size) {
    return attn_crc32c(attn_crc32c(0, &print, sizeof print), at, size);
}

bool srv_answers_are_whole(const void *image, size_t size, uint64_t print) {
    const char *at = image;
    uint32_t head[2];
    entry e;
    if (size < SRV_ANSWERS_HEAD || size > SRV_RUN_ANSWERS || memcmp(at, MAGIC, sizeof MAGIC) != 0)
        return false;
    memcpy(head, at + sizeof MAGIC, sizeof head);
    if (head[0] != VERSION ||
        head[1] != checksum_of(print, at + SRV_ANSWERS_HEAD, size - SRV_ANSWERS_HEAD))
        return false;
    for (size_t i = SRV_ANSWERS_HEAD; i < size; i += e.bytes)
        if (!read_entry(at + i, size - i, &e))
            return false;
    return true;
}

bool srv_answers_find(const void *image, size_t size, const char *key, srv_run_answer *out) {
    const char *at = image;
    entry e;
    for (size_t i = SRV_ANSWERS_HEAD; image && i < size; i += e.bytes) {
        if (!read_entry(at + i, size - i, &e))
            return false;
        if (!has_key(&e, key))
            continue;
        *out = (srv_run_answer){e.type, e.sizes[1], e.body, e.sizes[2]};
        return true;
    }
    return false;
}

/* Returns the size in bytes of the entry for an answer; 0: the answer is too large for an image. */
static size_t entry_bytes(const char *key, const srv_run_answer *a) {
    size_t bytes = SIZES * sizeof(uint32_t);
    const size_t sizes[SIZES] = {strlen(key), a->type_size, a->size};
    for (size_t i = 0; i < SIZES; i++) {
        if (sizes[i] > SRV_RUN_ANSWERS - SRV_ANSWERS_HEAD - bytes)
            return 0;
        bytes += sizes[i];
    }
    return bytes;
}

static char *put_bytes(char *to, const void *data, size_t size) {
    if (size)
        memcpy(to, data, size);
    return to + size;
}

static char *put_entry(char *to, const char *key, const srv_run_answer *a) {
    const uint32_t sizes[SIZES] = {(uint32_t)strlen(key), (uint32_t)a->type_size,
                                   (uint32_t)a->size};
    to = put_bytes(to, sizes, sizeof sizes);
    to = put_bytes(to, key, sizes[0]);
    to = put_bytes(to, a->type, sizes[1]);
    return put_bytes(to, a->body, sizes[2]);
}

/* Copies entries of an image to `to`, as many as fit into `room` bytes, but not the entry with the
 * key `key`. Returns the size of the copied entries in bytes. `to` NULL: copies nothing and only
 * returns the size. */
static size_t copy_others(const char *image, size_t size, const char *key, size_t room, char *to) {
    size_t used = 0;
    entry e;
    for (size_t i = SRV_ANSWERS_HEAD; image && i < size; i += e.bytes) {
        if (!read_entry(image + i, size - i, &e))
            break;
        if (has_key(&e, key))
            continue;
        if (e.bytes > room - used)
            break;
        if (to)
            memcpy(to + used, image + i, e.bytes);
        used += e.bytes;
    }
    return used;
}

void *srv_answers_add(const void *image, size_t size, uint64_t print, const char *key,
                      const srv_run_answer *answer, size_t *out_size) {
    const size_t own = entry_bytes(key, answer);
    if (!own)
        return NULL;
    const size_t room = SRV_RUN_ANSWERS - SRV_ANSWERS_HEAD - own;
    const size_t others = copy_others(image, size, key, room, NULL);
    char *made = attn_alloc(SRV_ANSWERS_HEAD + own + others);
    if (!made)
        return NULL;
    char *rest = put_entry(made + SRV_ANSWERS_HEAD, key, answer);
    copy_others(image, size, key, room, rest);
    const uint32_t head[2] = {VERSION, checksum_of(print, made + SRV_ANSWERS_HEAD, own + others)};
    put_bytes(put_bytes(made, MAGIC, sizeof MAGIC), head, sizeof head);
    *out_size = SRV_ANSWERS_HEAD + own + others;
    return made;
}
