/* Reads and writes the header of a safetensors container. A header may come from anywhere, so
 * nothing in it is trusted. It is read once from start to end. Then its tensors are sorted by their
 * first byte to find overlaps and gaps. */
#include "attn/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "io/growing_list.h"
#include "io/safetensors_layout.h"
#include "number/print_small.h"
#include "json/json_scan.h"
#include "json/json_write.h"

#define MOST_METADATA 64
#define PAD           64 /* the size of a header is a multiple of this */
#define METADATA      "__metadata__"
#define EXPECTED_AXES "expected 1 to 8 axes, found "
_Static_assert(ATTN_MAX_RANK == 8, "the text says so");

static const struct {
    const char *name;
    attn_dtype dtype;
} types[] = {{"F32", ATTN_F32}, {"F16", ATTN_F16}, {"BF16", ATTN_BF16}, {"F64", ATTN_F64},
             {"I32", ATTN_I32}, {"I64", ATTN_I64}, {"U8", ATTN_U8},     {"BOOL", ATTN_BOOL}};
enum { TYPES = sizeof types / sizeof *types };

/* A tensor as the header describes it, before its offsets are checked. */
typedef struct entry {
    const char *name;
    attn_dtype dtype;
    int rank;
    size_t dims[ATTN_MAX_RANK], begin, end;
    size_t order; /* its position in the header, counted from 0 */
    /* The reason why no attn_tensor can be a view of this tensor; ATTN_OK and NULL if one can
     * be. */
    attn_status code;
    const char *reason;
} entry;

/* Notes the reason why no attn_tensor can be a view of the tensor. An earlier reason stays. */
static bool note_unusable(attn_scan *s, entry *e, attn_status code, const char *reason) {
    if (!e->code) {
        e->reason = attn_arena_text(s->arena, reason, strlen(reason));
        e->code = code;
    }
    return e->reason || attn_scan_memory(s);
}

static bool read_dtype(attn_scan *s, entry *e) {
    const char *name;
    if (!attn_scan_text(s, &name))
        return false;
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            e->dtype = types[i].dtype;
            return true;
        }
    char reason[128];
    snprintf(reason, sizeof reason,
             "expected F32, F16, BF16, F64, I32, I64, U8 or BOOL, found \"%.32s\"", name);
    return note_unusable(s, e, ATTN_EDTYPE, reason);
}

static bool read_shape(attn_scan *s, entry *e) {
    if (!attn_scan_mark(s, '[', "'[' and the sizes"))
        return false;
    if (attn_scan_take(s, ']'))
        return note_unusable(s, e, ATTN_ESHAPE, EXPECTED_AXES "none");
    do {
        size_t beyond, *to = e->rank < ATTN_MAX_RANK ? &e->dims[e->rank++] : &beyond;
        if (!attn_scan_count(s, to) ||
            (to == &beyond && !note_unusable(s, e, ATTN_ESHAPE, EXPECTED_AXES "more")))
            return false;
    } while (attn_scan_take(s, ','));
    return attn_scan_mark(s, ']', "',' or ']'");
}

static bool read_offsets(attn_scan *s, entry *e) {
    return attn_scan_mark(s, '[', "'[' and two offsets") && attn_scan_count(s, &e->begin) &&
           attn_scan_mark(s, ',', "','") && attn_scan_count(s, &e->end) &&
           attn_scan_mark(s, ']', "']'");
}

static bool read_key(attn_scan *s, const char **key) {
    return attn_scan_text(s, key) && attn_scan_mark(s, ':', "':'");
}

static bool read_entry(attn_scan *s, entry *e) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    bool (*const readers[])(attn_scan *, entry *) = {read_dtype, read_shape, read_offsets};
    unsigned seen = 0;
    if (!attn_scan_mark(s, '{', "'{' and a tensor's dtype, shape and data_offsets"))
        return false;
    do {
        const char *key;
        unsigned i = 0;
        if (!read_key(s, &key))
            return false;
        while (i < 3 && strcmp(names[i], key) != 0)
            i++;
        if (i == 3 || seen & 1u << i)
            return attn_scan_expected(s, "dtype, shape and data_offsets, each once");
        seen |= 1u << i;
        if (!readers[i](s, e))
            return false;
    } while (attn_scan_take(s, ','));
    return attn_scan_mark(s, '}', "',' or '}'") &&
           (seen == 7 || attn_scan_expected(s, "dtype, shape and data_offsets"));
}

static bool read_metadata(attn_scan *s, attn_io_list *metadata) {
    if (!attn_scan_mark(s, '{', "'{' and texts by name"))
        return false;
    if (attn_scan_take(s, '}'))
        return true;
    do {
        attn_metadata *m = attn_io_append(metadata, s->arena);
        if (!m)
            return attn_scan_memory(s);
        if (!read_key(s, &m->key) || !attn_scan_text(s, &m->text))
            return false;
        for (size_t i = 0; i + 1 < metadata->count; i++)
            if (strcmp(((attn_metadata *)metadata->items)[i].key, m->key) == 0)
                return attn_scan_expected(s, "each name of the metadata once");
    } while (metadata->count < MOST_METADATA && attn_scan_take(s, ','));
    return attn_scan_mark(s, '}', "',' or '}' (at most 64 texts)");
}

static bool read_member(attn_scan *s, attn_io_list *entries, attn_io_list *metadata, bool *seen) {
    const char *name;
    if (!read_key(s, &name))
        return false;
    if (strcmp(name, METADATA) == 0) {
        if (*seen)
            return attn_scan_expected(s, METADATA " once");
        *seen = true;
        return read_metadata(s, metadata);
    }
    entry *e = attn_io_append(entries, s->arena);
    if (!e)
        return attn_scan_memory(s);
    e->name = name;
    e->order = entries->count - 1;
    return read_entry(s, e);
}

static bool read_header(attn_scan *s, attn_io_list *entries, attn_io_list *metadata) {
    bool seen = false, more;
    attn_scan_space(s);
    if (attn_scan_peek(s) != '{')
        return attn_scan_expected(s, "'{'");
    if (!attn_scan_open(s, '}', &more))
        return false;
    while (more)
        if (!read_member(s, entries, metadata, &seen) || !attn_scan_more(s, '}', &more))
            return false;
    return attn_scan_end(s);
}

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_order(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Computes the size of a tensor in bytes. Returns false if the size exceeds SIZE_MAX / 2. */
static bool count_bytes(attn_dtype dtype, int rank, const size_t *dims, size_t *bytes) {
    size_t need = attn_dtype_size(dtype), bound = need;
    for (int k = 0; k < rank; k++) {
        /* An axis of length 0 counts as 1 in `bound`, so that the other axes are checked for
         * overflow too. */
        if (!attn_size_mul(bound, dims[k] ? dims[k] : 1, &bound) || bound > SIZE_MAX / 2)
            return false;
        need *= dims[k];
    }
    *bytes = need;
    return true;
}

static attn_status check_sizes(const entry *e, size_t count, attn_error *err) {
    char shape[128];
    for (size_t i = 0; i < count; i++, e++) {
        size_t need;
        if (e->code) {
            if (e->end < e->begin)
                return attn_fail(err, ATTN_EARG, e->name, "data_offsets [%zu, %zu] go backwards",
                                 e->begin, e->end);
            continue;
        }
        if (!count_bytes(e->dtype, e->rank, e->dims, &need))
            return attn_fail(err, ATTN_ESHAPE, e->name, "shape %s is beyond what can be counted",
                             attn_shape_text(e->dims, e->rank, shape, sizeof shape));
        if (e->end < e->begin || e->end - e->begin != need)
            return attn_fail(err, ATTN_ESHAPE, e->name,
                             "shape %s of %s needs %zu bytes, data_offsets [%zu, %zu]",
                             attn_shape_text(e->dims, e->rank, shape, sizeof shape),
                             attn_dtype_name(e->dtype), need, e->begin, e->end);
    }
    return ATTN_OK;
}

/* Checks that all names differ, and that the tensors fill all `bytes` bytes without overlap or gap.
 * It leaves the entries sorted by their first byte. */
static attn_status check_places(entry *e, size_t count, size_t bytes, attn_error *err) {
    size_t at = 0;
    if (count == 0)
        return bytes ? attn_fail(err, ATTN_EARG, "", "%zu bytes belong to no tensor", bytes)
                     : ATTN_OK;
    qsort(e, count, sizeof *e, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(e[i - 1].name, e[i].name) == 0)
            return attn_fail(err, ATTN_EARG, e[i].name, "two tensors have this name");
    qsort(e, count, sizeof *e, by_place);
    for (size_t i = 0; i < count; i++) {
        if (e[i].begin != at)
            return attn_fail(err, ATTN_EARG, e[i].name,
                             "expected its bytes to begin at %zu, behind the tensor before it, "
                             "found data_offsets [%zu, %zu]",
                             at, e[i].begin, e[i].end);
        at = e[i].end;
    }
    return at == bytes ? ATTN_OK
                       : attn_fail(err, ATTN_EARG, e[count - 1].name,
                                   "the tensors end at byte %zu of %zu", at, bytes);
}

static attn_status make_views(entry *e, size_t count, const char *bytes, attn_arena *arena,
                              attn_safetensors *out, attn_error *err) {
    out->tensors = attn_arena_zeroed(arena, count ? count : 1, sizeof *out->tensors);
    out->unusable = attn_arena_zeroed(arena, count ? count : 1, sizeof *out->unusable);
    ATTN_TAKEN(out->tensors && out->unusable, "the header of the tensors", err);
    if (count > 1)
        qsort(e, count, sizeof *e, by_order);
    for (size_t i = 0; i < count; i++) {
        void *data = (void *)(uintptr_t)(bytes + e[i].begin);
        if (e[i].code)
            out->unusable[out->unusable_count++] =
                (attn_unusable_tensor){e[i].name, e[i].code, e[i].reason};
        else
            out->tensors[out->count++] = (attn_named_tensor){
                e[i].name, attn_tensor_dense(data, e[i].dtype, e[i].rank, e[i].dims)};
    }
    return ATTN_OK;
}

attn_status attn_safetensors_read(const void *data, size_t size, attn_arena *arena,
                                  attn_safetensors *out, attn_error *err) {
    attn_safetensors found;
    ATTN_TRY(attn_safetensors_read_usable(data, size, arena, &found, err));
    if (found.unusable_count)
        return attn_fail(err, found.unusable->code, found.unusable->name, "%s",
                         found.unusable->reason);
    *out = found;
    return ATTN_OK;
}

attn_status attn_safetensors_read_usable(const void *data, size_t size, attn_arena *arena,
                                         attn_safetensors *out, attn_error *err) {
    const unsigned char *bytes = data;
    uint64_t length = 0;
    attn_error ignored;
    err = err ? err : &ignored;
    if (size < 8)
        return attn_fail(err, ATTN_EARG, "", "expected 8 bytes of header length, found %zu", size);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if ((length > ATTN_IO_HEADER_MOST || length > size - 8) && (size == 8 || bytes[8] != '{'))
        return attn_fail(
            err, ATTN_EARG, "",
            "expected the length of the header in 8 bytes, and then the header, a JSON "
            "object: this is no safetensors file");
    if (length > ATTN_IO_HEADER_MOST || length > size - 8)
        return attn_fail(err, ATTN_EARG, "",
                         "the header is said to have %llu bytes; %zu follow its length, and more "
                         "than %d are never allowed",
                         (unsigned long long)length, size - 8, ATTN_IO_HEADER_MOST);
    const char *start = (const char *)data + 8, *end = start + length;
    attn_scan scan = {
        .start = start, .p = start, .end = end, .arena = arena, .of = "the header", .err = err};
    attn_io_list entries = {.each = sizeof(entry)}, metadata = {.each = sizeof(attn_metadata)};
    if (!read_header(&scan, &entries, &metadata))
        return scan.status;
    attn_safetensors found = {.metadata = metadata.items, .metadata_count = metadata.count};
    ATTN_TRY(check_sizes(entries.items, entries.count, err));
    ATTN_TRY(check_places(entries.items, entries.count, size - 8 - (size_t)length, err));
    ATTN_TRY(make_views(entries.items, entries.count, end, arena, &found, err));
    *out = found;
    return ATTN_OK;
}

bool attn_tensor_is_aligned(const attn_tensor *tensor) {
    return (uintptr_t)tensor->data % attn_dtype_size(tensor->dtype) == 0;
}

/* --- writing --- */

/* Sorts tensors by element size, largest first. Tensors of equal element size keep their order. */
static void sort_by_size(attn_named_tensor *t, size_t count) {
    for (size_t i = 1; i < count; i++) {
        attn_named_tensor moved = t[i];
        size_t k = i;
        for (;
             k > 0 && attn_dtype_size(t[k - 1].tensor.dtype) < attn_dtype_size(moved.tensor.dtype);
             k--)
            t[k] = t[k - 1];
        t[k] = moved;
    }
}

/* Returns the name of an element type in the container's header, or NULL if the format lacks it. */
static const char *type_name(attn_dtype dtype) {
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return NULL;
}

/* Checks a tensor to be written, so that attn_safetensors_read will accept it. */
static attn_status check_tensor(const attn_safetensors *what, size_t index, attn_error *err) {
    const char *name = what->tensors[index].name;
    const attn_tensor *t = &what->tensors[index].tensor;
    if (!attn_is_utf8(name))
        return attn_fail(err, ATTN_EARG, "", "the name of tensor %zu is not UTF-8", index);
    if (strcmp(name, METADATA) == 0)
        return attn_fail(err, ATTN_EARG, name, "no tensor can have the metadata's name");
    if (!type_name(t->dtype))
        return attn_fail(err, ATTN_EDTYPE, name, "%d is no element type", (int)t->dtype);
    if (t->rank < 1 || t->rank > ATTN_MAX_RANK)
        return attn_fail(err, ATTN_ESHAPE, name, "expected 1 to %d axes, found %d", ATTN_MAX_RANK,
                         t->rank);
    size_t elements = 1; /* if the number of elements overflows, it stays 1 and is refused later */
    attn_tensor_count(t, &elements);
    if (elements && !attn_tensor_is_dense(t))
        return attn_fail(err, ATTN_EARG, name, "expected a row-major tensor without gaps");
    return ATTN_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that all names differ. */
static attn_status check_names(const attn_safetensors *what, attn_arena *arena, attn_error *err) {
    const attn_arena_mark mark = attn_arena_here(arena);
    const char **names = attn_arena_zeroed(arena, what->count + 1, sizeof *names);
    attn_status status = ATTN_OK;
    ATTN_TAKEN(names, "the header of the tensors", err);
    for (size_t i = 0; i < what->count; i++)
        names[i] = what->tensors[i].name;
    qsort(names, what->count, sizeof *names, by_text);
    for (size_t i = 1; i < what->count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = attn_fail(err, ATTN_EARG, names[i], "two tensors have this name");
    attn_arena_rewind(arena, &mark);
    return status;
}

static attn_status check_metadata(const attn_metadata *m, size_t count, attn_error *err) {
    if (count > MOST_METADATA)
        return attn_fail(err, ATTN_EARG, METADATA, "expected at most %d texts, found %zu",
                         MOST_METADATA, count);
    for (size_t i = 0; i < count; i++) {
        if (!attn_is_utf8(m[i].key) || !attn_is_utf8(m[i].text))
            return attn_fail(err, ATTN_EARG, METADATA, "text %zu is not UTF-8", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(m[k].key, m[i].key) == 0)
                return attn_fail(err, ATTN_EARG, METADATA, "two texts are called %.64s", m[i].key);
    }
    return ATTN_OK;
}

static void put_entry(attn_json_text *j, const attn_named_tensor *t, size_t begin, size_t end) {
    attn_json_key_object(j, t->name);
    attn_json_key_string(j, "dtype", type_name(t->tensor.dtype));
    attn_json_key_sizes(j, "shape", t->tensor.dims, (size_t)t->tensor.rank);
    attn_json_key_sizes(j, "data_offsets", (size_t[]){begin, end}, 2);
    attn_json_object_end(j);
}

static void put_metadata(attn_json_text *j, const attn_safetensors *what) {
    attn_json_key_object(j, METADATA);
    for (size_t i = 0; i < what->metadata_count; i++)
        attn_json_key_string(j, what->metadata[i].key, what->metadata[i].text);
    attn_json_object_end(j);
}

/* Checks everything that is to be written. */
static attn_status check_all(const attn_safetensors *what, attn_arena *arena, attn_error *err) {
    ATTN_TRY(check_metadata(what->metadata, what->metadata_count, err));
    for (size_t i = 0; i < what->count; i++)
        ATTN_TRY(check_tensor(what, i, err));
    return check_names(what, arena, err);
}

/* Appends blanks, so that the size of the text is a multiple of PAD. */
static attn_status pad(attn_json_text *j, attn_error *err) {
    const size_t size = j->size, padded = (size + PAD - 1) / PAD * PAD;
    char *blanks = attn_json_room(j, padded - size);
    ATTN_TAKEN(blanks, "the header of the tensors", err);
    memset(blanks, ' ', padded - size);
    j->size = padded;
    return ATTN_OK;
}

/* Writes the header without its length. */
static attn_status put_header(attn_json_text *j, const attn_safetensors *what, attn_error *err) {
    size_t at = 0;
    attn_json_object(j);
    if (what->metadata_count)
        put_metadata(j, what);
    for (size_t i = 0; i < what->count; i++) {
        const attn_tensor *t = &what->tensors[i].tensor;
        size_t bytes, end;
        if (!count_bytes(t->dtype, t->rank, t->dims, &bytes) || !attn_size_add(at, bytes, &end) ||
            end > SIZE_MAX / 2)
            return attn_fail(err, ATTN_ELIMIT, what->tensors[i].name, "it cannot be counted");
        put_entry(j, &what->tensors[i], at, end);
        at = end;
    }
    attn_json_object_end(j);
    ATTN_TAKEN(!j->failed, "the header of the tensors", err);
    return ATTN_OK;
}

attn_status attn_safetensors_header(attn_safetensors *what, attn_arena *arena, const void **header,
                                    size_t *size, attn_error *err) {
    attn_json_text j = {.arena = arena};
    ATTN_TRY(check_all(what, arena, err));
    sort_by_size(what->tensors, what->count);
    attn_json_put(&j, "\0\0\0\0\0\0\0", 8); /* room for the length of the header */
    ATTN_TRY(put_header(&j, what, err));
    ATTN_TRY(pad(&j, err));
    const uint64_t length = (uint64_t)(j.size - 8);
    if (length > ATTN_IO_HEADER_MOST)
        return attn_fail(err, ATTN_ELIMIT, "", "a header has at most %d bytes, this one %llu",
                         ATTN_IO_HEADER_MOST, (unsigned long long)length);
    for (int i = 0; i < 8; i++)
        j.data[i] = (char)(unsigned char)(length >> 8 * i);
    *header = j.data;
    *size = j.size;
    return ATTN_OK;
}
