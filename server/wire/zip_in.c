/* A zip archive (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT) ends with a record
 * that says where its directory is. The directory has an entry for each member: its name, method,
 * sizes, CRC-32, and the offset of its local header. The member's bytes follow the local header.
 * Name and extra field of the local header may have other lengths than in the directory. All
 * numbers are little-endian. */
#include "wire/zip_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "request/shared.h"

#define DIRECTORY_END 0x06054b50u
#define ENTRY         0x02014b50u
#define LOCAL         0x04034b50u

enum {
    END_SIZE = 22,
    ENTRY_SIZE = 46,
    LOCAL_SIZE = 30,
    COMMENT_MOST = 65535,
    NAME_MOST = 255,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,         /* bit of an entry's flags */
    ZIP64_SIZES = 1,       /* id of the extra field with sizes of 64 bits */
    FREE_OUTPUT = 1 << 20, /* max_inflate_ratio does not bound archives that decode to less */
};
#define NARROW 0xFFFFFFFFu /* a size with this value is in the extra field, with 64 bits */

/* An entry of the directory. */
typedef struct entry {
    const char *name;
    unsigned flags, method;
    uint32_t crc;
    size_t packed; /* bytes of the member in the archive */
    size_t size;   /* bytes of the decoded member */
    size_t local;  /* offset of its local header in the archive */
} entry;

typedef struct archive {
    srv_request *req;
    const unsigned char *data;
    size_t size;      /* bytes of the archive */
    size_t directory; /* offset of its directory */
} archive;

static bool refuse(srv_request *req, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(srv_request *req, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return srv_problem(req, SRV_MALFORMED, NULL, "npz: %s", text);
}

static bool refuse_memory(srv_request *req) {
    return srv_problem_memory(req, NULL,
                              "The memory of one request does not suffice for the archive");
}

static size_t number(const unsigned char *p, int bytes) {
    size_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | p[bytes];
    return value;
}

/* Finds the record at the end of the archive. Only the comment of the archive may follow the
 * record. NULL: a problem is set. */
static const unsigned char *find_end(const archive *a) {
    for (size_t comment = 0; comment <= COMMENT_MOST && comment + END_SIZE <= a->size; comment++) {
        const unsigned char *p = a->data + a->size - END_SIZE - comment;
        if (number(p, 4) == DIRECTORY_END && number(p + 20, 2) == comment)
            return p;
    }
    refuse(a->req, "this is no zip archive, or its end is missing");
    return NULL;
}

/* Finds the directory. Sets *count to the number of its entries. */
static bool find_directory(archive *a, size_t *count) {
    const unsigned char *end = find_end(a);
    if (!end)
        return false;
    const size_t bytes = number(end + 12, 4), before = (size_t)(end - a->data);
    a->directory = number(end + 16, 4);
    *count = number(end + 10, 2);
    if (a->directory == NARROW || bytes == NARROW || *count == 0xFFFF)
        return refuse(a->req, "directories in the zip64 format are not read");
    if (number(end + 4, 2) != 0 || number(end + 6, 2) != 0 || number(end + 8, 2) != *count)
        return refuse(a->req, "archives of several files are not read");
    if (*count > SRV_ZIP_MEMBERS)
        return refuse(a->req, "expected at most %d members, found %zu", SRV_ZIP_MEMBERS, *count);
    return (a->directory <= before && bytes == before - a->directory) ||
           refuse(a->req, "the directory does not end where the record of the end begins");
}

/* Replaces each size that is NARROW by the size in the extra field, which has the sizes in a fixed
 * order. */
static bool widen(const archive *a, entry *e, const unsigned char *extra, size_t size) {
    size_t *const wide[] = {&e->size, &e->packed, &e->local};
    while (size >= 4) {
        const size_t id = number(extra, 2), n = number(extra + 2, 2);
        if (n > size - 4)
            break;
        size_t used = 0;
        for (size_t i = 0; id == ZIP64_SIZES && i < 3; i++)
            if (*wide[i] == NARROW && used + 8 <= n) {
                *wide[i] = number(extra + 4 + used, 8);
                used += 8;
            }
        extra += 4 + n;
        size -= 4 + n;
    }
    return size == 0 || refuse(a->req, "the extra field of \"%.100s\" is malformed", e->name);
}

/* Reads the entry at *at, and moves *at behind it. */
static bool read_entry(const archive *a, size_t *at, size_t end, entry *e) {
    const unsigned char *p = a->data + *at;
    if (end - *at < ENTRY_SIZE || number(p, 4) != ENTRY)
        return refuse(a->req, "an entry of the directory is missing");
    const size_t name = number(p + 28, 2), extra = number(p + 30, 2), note = number(p + 32, 2);
    if (name + extra + note > end - *at - ENTRY_SIZE)
        return refuse(a->req, "an entry reaches beyond the directory");
    *e = (entry){.flags = (unsigned)number(p + 8, 2),
                 .method = (unsigned)number(p + 10, 2),
                 .crc = (uint32_t)number(p + 16, 4),
                 .packed = number(p + 20, 4),
                 .size = number(p + 24, 4),
                 .local = number(p + 42, 4)};
    e->name = attn_arena_text(a->req->arena, (const char *)p + ENTRY_SIZE, name);
    if (!e->name)
        return refuse_memory(a->req);
    if (name == 0 || name > NAME_MOST || strlen(e->name) != name)
        return refuse(a->req, "expected names of 1 to %d bytes without NUL", NAME_MOST);
    *at += ENTRY_SIZE + name + extra + note;
    return widen(a, e, p + ENTRY_SIZE + name, extra);
}

/* Finds the bytes of the member. NULL: a problem is set. */
static const unsigned char *bytes_of(const archive *a, const entry *e) {
    const unsigned char *p = e->local <= a->directory ? a->data + e->local : NULL;
    if (!p || a->directory - e->local < LOCAL_SIZE || number(p, 4) != LOCAL) {
        refuse(a->req, "\"%.100s\" has no local header", e->name);
        return NULL;
    }
    const size_t name = number(p + 26, 2), lead = LOCAL_SIZE + name + number(p + 28, 2);
    const size_t left = a->directory - e->local;
    if (name != strlen(e->name) || lead > left || memcmp(p + LOCAL_SIZE, e->name, name) != 0 ||
        number(p + 8, 2) != e->method) {
        refuse(a->req, "the local header of \"%.100s\" differs from the directory", e->name);
        return NULL;
    }
    if (e->packed > left - lead) {
        refuse(a->req, "\"%.100s\" reaches into the directory", e->name);
        return NULL;
    }
    return p + lead;
}

/* Inflates the member, which must have exactly the size that the directory says. */
static bool inflate_member(const archive *a, const entry *e, const unsigned char *from, char *to) {
    z_stream z = {0};
    if (e->packed > UINT32_MAX || e->size > UINT32_MAX)
        return refuse(a->req, "\"%.100s\" has more than 4 GiB", e->name);
    z.next_in = (Bytef *)(uintptr_t)from;
    z.avail_in = (uInt)e->packed;
    z.next_out = (Bytef *)to;
    z.avail_out = (uInt)e->size;
    if (inflateInit2(&z, -15) != Z_OK) /* raw deflate, without a header */
        return refuse_memory(a->req);
    const int result = inflate(&z, Z_FINISH);
    const bool whole = result == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
    inflateEnd(&z);
    if (result == Z_MEM_ERROR)
        return refuse_memory(a->req);
    return whole || refuse(a->req, "\"%.100s\" does not inflate to the %zu bytes of its entry",
                           e->name, e->size);
}

static uint32_t crc_of(const char *data, size_t size) {
    uLong crc = crc32(0, NULL, 0);
    for (size_t n; size > 0; size -= n, data += n) {
        n = size < 1 << 30 ? size : 1 << 30;
        crc = crc32(crc, (const Bytef *)data, (uInt)n);
    }
    return (uint32_t)crc;
}

static bool decode(const archive *a, const entry *e, srv_zip_member *out) {
    if (e->flags & ENCRYPTED)
        return refuse(a->req, "\"%.100s\" is encrypted", e->name);
    if (e->method != STORED && e->method != DEFLATED)
        return refuse(a->req, "\"%.100s\" has the method %u; expected stored or deflated", e->name,
                      e->method);
    if (e->method == STORED && e->packed != e->size)
        return refuse(a->req, "\"%.100s\" is stored and has two sizes", e->name);
    const unsigned char *from = bytes_of(a, e);
    if (!from)
        return false;
    *out = (srv_zip_member){e->name, (const char *)from, e->size};
    if (e->method == DEFLATED) {
        char *to = attn_arena_take(a->req->arena, e->size);
        if (!to)
            return refuse_memory(a->req);
        if (!inflate_member(a, e, from, to))
            return false;
        out->data = to;
    }
    return crc_of(out->data, e->size) == e->crc ||
           refuse(a->req, "the CRC-32 of \"%.100s\" is wrong", e->name);
}

/* Checks the total size of the decoded members before any of them is decoded. */
static bool check_sizes(const archive *a, const entry *entries, size_t count) {
    const srv_config *config = a->req->app ? a->req->app->config : NULL;
    const double ratio = config ? (double)config->max_inflate_ratio : 100;
    const double most = config ? (double)config->max_body_bytes : 1 << 28;
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += (double)entries[i].size;
    if (total > most)
        return srv_problem_limit(a->req, SRV_TOO_LARGE, NULL, most, "max_body_bytes",
                                 "the archive decodes to %.0f bytes, more than %.0f", total, most);
    if (total > FREE_OUTPUT && total > ratio * (double)a->size)
        return srv_problem_limit(a->req, SRV_TOO_LARGE, NULL, ratio, "max_inflate_ratio",
                                 "the archive decodes to more than %.0f times its size", ratio);
    return true;
}

static bool check_names(const archive *a, const entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(entries[i].name, entries[k].name) == 0)
                return refuse(a->req, "\"%.100s\" is there twice", entries[i].name);
    return true;
}

bool srv_zip_read(srv_request *req, srv_zip_member **members, size_t *count) {
    archive a = {.req = req, .data = (const unsigned char *)req->body, .size = req->body_size};
    if (!find_directory(&a, count))
        return false;
    entry *entries = attn_arena_zeroed(req->arena, *count, sizeof *entries);
    *members = attn_arena_zeroed(req->arena, *count, sizeof **members);
    if (!entries || !*members)
        return refuse_memory(req);
    size_t at = a.directory;
    const size_t end = (size_t)(find_end(&a) - a.data);
    for (size_t i = 0; i < *count; i++)
        if (!read_entry(&a, &at, end, &entries[i]))
            return false;
    if (at != end)
        return refuse(req, "the directory has more bytes than its entries");
    if (!check_names(&a, entries, *count) || !check_sizes(&a, entries, *count))
        return false;
    for (size_t i = 0; i < *count; i++)
        if (!decode(&a, &entries[i], &(*members)[i]))
            return false;
    return true;
}
