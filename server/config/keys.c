/* The API keys are one list under one lock. When the file is read again, the keys that the file
 * still has stay marked as `listed`, and new ones are added. A key that is not listed cannot be
 * found any more and is freed when the last request releases it. */
#include "config/keys.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/owner.h"
#include "config/secret.h"

enum { KEY_LEAST = 16, KEY_MOST = 256 }; /* length of a key in characters */
enum { KEYS_MOST = 1000 };               /* largest number of keys in a file */
enum { NAME_DIGITS = 16 };               /* digits in the name "key-…" of a key without a name */

#define NAME_CHARACTERS                                                                            \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"                                         \
    "0123456789-._"
#define KEY_CHARACTERS NAME_CHARACTERS "~+/="
#define BLANKS         " \t\r"
#define BY_DIGEST      "key-"
#define BY_LINE        "line-" /* older versions named a key without a name by its line */

struct srv_key {
    srv_key *next;
    srv_digest digest;
    char name[SRV_OWNER_NAME + 1];
    bool admin;
    bool listed;        /* true: the file had this key when it was last read */
    size_t concurrency; /* limit of requests at a time; 0: the setting key_requests applies */
    size_t running;     /* number of requests that srv_keys_start has counted */
    size_t held;        /* number of requests that hold the key; then it must not be freed */
    size_t line;        /* number of the key's line in the file, from 1 */
};

struct srv_keys {
    pthread_mutex_t lock;
    srv_digest salt; /* key of the digests, random for each process */
    srv_key *first;
    size_t count; /* number of keys with `listed` */
};

/* The state while a keys_file is read. */
typedef struct reading {
    const srv_digest *salt;
    const char *path;
    srv_key *first; /* the keys in reverse order of their lines */
    size_t count;   /* number of keys read so far */
    size_t line;    /* number of the present line, from 1 */
    srv_config_error *err;
} reading;

static bool refuse_line(reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse_line(reading *r, const char *format, ...) {
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return srv_config_refuse(r->err, "keys_file: %.200s:%zu: %s", r->path, r->line, why);
}

static void free_list(srv_key *key) {
    while (key) {
        srv_key *next = key->next;
        free(key);
        key = next;
    }
}

/* Reads a word that follows the key: "admin" or "concurrency=N". */
static bool read_option(reading *r, srv_key *key, const char *word, size_t size) {
    static const char prefix[] = "concurrency=";
    size_t lead = sizeof prefix - 1;
    if (size == 5 && !memcmp(word, "admin", 5)) {
        key->admin = true;
        return true;
    }
    if (size > lead && size <= lead + 6 && !memcmp(word, prefix, lead) &&
        strspn(word + lead, "0123456789") >= size - lead) {
        key->concurrency = strtoul(word + lead, NULL, 10);
        if (key->concurrency)
            return true;
    }
    return refuse_line(
        r, "after the key only admin and concurrency=N (N from 1 to 999999) may follow; "
           "this line has another word");
}

/* Sets the name of a key that the file does not name. The name is made from a digest of the key's
 * text. */
static bool name_by_digest(reading *r, srv_key *key, const char *text, size_t size) {
    static const srv_digest owners = {"owners of attnd"}; /* the same in every process */
    srv_digest digest;
    if (!srv_secret_digest(&owners, text, size, &digest))
        return srv_config_short(r->err, "read the API keys");
    memcpy(key->name, BY_DIGEST, sizeof BY_DIGEST);
    for (size_t i = 0; i < NAME_DIGITS / 2; i++)
        snprintf(key->name + sizeof BY_DIGEST - 1 + 2 * i, 3, "%02x", digest.bytes[i]);
    return true;
}

/* Returns whether this version or an older one may have made this name for a key without a name. */
static bool is_automatic_name(const char *name) {
    const size_t by_digest = sizeof BY_DIGEST - 1, by_line = sizeof BY_LINE - 1;
    const char *digits = name + by_digest, *number = name + by_line;
    return (!strncmp(name, BY_DIGEST, by_digest) && strlen(digits) == NAME_DIGITS &&
            strspn(digits, "0123456789abcdef") == NAME_DIGITS) ||
           (!strncmp(name, BY_LINE, by_line) && *number && !number[strspn(number, "0123456789")]);
}

/* Reads the word [NAME:]KEY of `size` bytes. Error texts never quote the word, because in a
 * mistyped line any part of it may be the key. */
static bool read_key(reading *r, srv_key *key, const char *word, size_t size) {
    const char *colon = memchr(word, ':', size);
    size_t name = colon ? (size_t)(colon - word) : 0;
    const char *text = colon ? colon + 1 : word;
    size_t length = size - (size_t)(text - word);
    if (colon && (!name || name > SRV_OWNER_NAME || strspn(word, NAME_CHARACTERS) < name))
        return refuse_line(
            r, "a name has 1 to %d characters of A-Z a-z 0-9 - . _; this one %s", SRV_OWNER_NAME,
            name && name <= SRV_OWNER_NAME ? "has other characters" : "is empty or longer");
    if (length < KEY_LEAST || length > KEY_MOST)
        return refuse_line(r, "a key has %d to %d characters, found %zu", KEY_LEAST, KEY_MOST,
                           length);
    if (strspn(text, KEY_CHARACTERS) < length)
        return refuse_line(
            r, "a key consists of A-Z a-z 0-9 - . _ ~ + / =; its character %zu is another one",
            strspn(text, KEY_CHARACTERS) + 1);
    if (!srv_secret_digest(r->salt, text, length, &key->digest))
        return srv_config_short(r->err, "read the API keys");
    if (!colon && !name_by_digest(r, key, text, length))
        return false;
    if (colon)
        memcpy(key->name, word, name);
    if (colon && is_automatic_name(key->name))
        return refuse_line(r,
                           "the names line-N and key-… (16 hexadecimal digits) are those of keys "
                           "without a name; this key needs another one");
    for (const srv_key *other = r->first; other; other = other->next)
        if (srv_secret_equal(&other->digest, &key->digest))
            return refuse_line(r, "this key is the same as that of line %zu", other->line);
    return true;
}

/* Reads the line from `line` to `end` and adds its key to r->first. A blank line adds none. */
static bool read_line(reading *r, const char *line, const char *end) {
    bool ok = true, seen = false;
    srv_key *key = calloc(1, sizeof *key);
    if (!key)
        return srv_config_short(r->err, "read the API keys");
    key->listed = true;
    key->line = r->line;
    while (ok) {
        line += strspn(line, BLANKS);
        size_t size = strcspn(line, BLANKS "\n#");
        if (line >= end || !size)
            break;
        ok = seen ? read_option(r, key, line, size) : read_key(r, key, line, size);
        seen = true;
        line += size;
    }
    if (ok && seen && r->count == KEYS_MOST)
        ok = refuse_line(r, "more than %d keys", KEYS_MOST);
    if (ok && seen) {
        key->next = r->first;
        r->first = key;
        r->count++;
    } else {
        free(key);
    }
    return ok;
}

static bool read_keys(reading *r, const char *text, size_t size) {
    const char *end = text + size;
    if (memchr(text, 0, size))
        return refuse_line(r, "the file holds a NUL byte");
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        r->line++;
        if (!read_line(r, line, stop))
            return false;
        line = stop + 1;
    }
    return r->count || refuse_line(r, "the file holds no key");
}

/* Frees the keys that are not listed and that no request holds. The caller has the lock. */
static void free_unused_keys(srv_keys *keys) {
    for (srv_key **at = &keys->first; *at;) {
        srv_key *key = *at;
        if (key->listed || key->held) {
            at = &key->next;
        } else {
            *at = key->next;
            free(key);
        }
    }
}

/* Returns the key with the digest, listed or not; NULL: there is none. The caller has the lock. */
static srv_key *find_key(srv_keys *keys, const srv_digest *digest) {
    srv_key *found = NULL;
    /* The loop compares all keys, so that its time does not tell which key matches. */
    for (srv_key *key = keys->first; key; key = key->next)
        if (srv_secret_equal(&key->digest, digest) && !(found && found->listed))
            found = key;
    return found;
}

/* Replaces the keys by the `count` keys of the list `fresh`, and takes ownership of this list. A
 * key that is in both lists keeps its old entry, unless its name has changed and a request holds
 * it. The caller has the lock. */
static void replace_keys(srv_keys *keys, srv_key *fresh, size_t count) {
    for (srv_key *key = keys->first; key; key = key->next)
        key->listed = false;
    while (fresh) {
        srv_key *next = fresh->next, *old = find_key(keys, &fresh->digest);
        /* Requests read the name of a held key without the lock, so it does not change. */
        if (old && (!old->held || !strcmp(old->name, fresh->name))) {
            memcpy(old->name, fresh->name, sizeof old->name);
            old->admin = fresh->admin;
            old->concurrency = fresh->concurrency;
            old->listed = true;
            free(fresh);
        } else {
            fresh->next = keys->first;
            keys->first = fresh;
        }
        fresh = next;
    }
    keys->count = count;
    free_unused_keys(keys);
}

srv_keys *srv_keys_new(void) {
    srv_keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return NULL;
    if (!srv_secret_salt(&keys->salt)) {
        free(keys);
        return NULL;
    }
    pthread_mutex_init(&keys->lock, NULL);
    return keys;
}

void srv_keys_free(srv_keys *keys) {
    if (!keys)
        return;
    free_list(keys->first);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

bool srv_keys_load(srv_keys *keys, const char *path, srv_config_error *err) {
    char *text;
    size_t size;
    reading r = {.salt = &keys->salt, .path = path, .err = err};
    if (!srv_secret_read("keys_file", path, &text, &size, err))
        return false;
    bool ok = read_keys(&r, text, size);
    srv_secret_free(text, size);
    if (!ok) {
        free_list(r.first);
        return false;
    }
    pthread_mutex_lock(&keys->lock);
    replace_keys(keys, r.first, r.count);
    pthread_mutex_unlock(&keys->lock);
    return true;
}

size_t srv_keys_count(srv_keys *keys) {
    pthread_mutex_lock(&keys->lock);
    size_t count = keys->count;
    pthread_mutex_unlock(&keys->lock);
    return count;
}

srv_key *srv_keys_find(srv_keys *keys, const char *text, size_t size, bool *admin) {
    srv_digest digest;
    if (size < KEY_LEAST || size > KEY_MOST || !srv_secret_digest(&keys->salt, text, size, &digest))
        return NULL;
    pthread_mutex_lock(&keys->lock);
    srv_key *key = find_key(keys, &digest);
    if (key && !key->listed)
        key = NULL;
    if (key) {
        key->held++;
        *admin = key->admin;
    }
    pthread_mutex_unlock(&keys->lock);
    return key;
}

bool srv_keys_start(srv_keys *keys, srv_key *key, size_t most, size_t *limit) {
    pthread_mutex_lock(&keys->lock);
    *limit = key->concurrency ? key->concurrency : most;
    bool ok = !*limit || key->running < *limit;
    key->running += ok;
    pthread_mutex_unlock(&keys->lock);
    return ok;
}

void srv_keys_finish(srv_keys *keys, srv_key *key) {
    pthread_mutex_lock(&keys->lock);
    key->running--;
    pthread_mutex_unlock(&keys->lock);
}

void srv_keys_release(srv_keys *keys, srv_key *key) {
    pthread_mutex_lock(&keys->lock);
    if (!--key->held && !key->listed)
        free_unused_keys(keys);
    pthread_mutex_unlock(&keys->lock);
}

const char *srv_key_name(const srv_key *key) {
    return key->name;
}
