/* Reads GGUF files. A file may come from anywhere, so nothing in it is trusted: every length is
 * compared with the bytes that are left before it is used. A count is compared with the smallest
 * size of its items before memory is taken for them. */
#include "attn/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "kernels/blocks.h"
#include "number/print_small.h"

enum {
    MOST_NAME = 65535, /* longest key that the format allows; also the limit for names of tensors */
    MOST_AXES = 4,     /* largest number of axes that the format allows */
    ALIGNMENT = 32,    /* alignment if the metadata state none */
    LEAST_VALUE = 13,  /* smallest size of a value: length of the key, type, one byte */
    /* smallest size of a tensor: length of the name, number of axes, type, offset */
    LEAST_TENSOR = 24,
    LEAST_TEXT = 8 /* smallest size of a text: its length */
};

/* Bytes of a number of each type; 0: the type is no number. */
static const unsigned char widths[] = {
    [ATTN_GGUF_U8] = 1,   [ATTN_GGUF_I8] = 1,  [ATTN_GGUF_U16] = 2, [ATTN_GGUF_I16] = 2,
    [ATTN_GGUF_U32] = 4,  [ATTN_GGUF_I32] = 4, [ATTN_GGUF_F32] = 4, [ATTN_GGUF_BOOL] = 1,
    [ATTN_GGUF_TEXT] = 0, [ATTN_GGUF_U64] = 8, [ATTN_GGUF_I64] = 8, [ATTN_GGUF_F64] = 8};
enum { TYPES = sizeof widths };

/* Types of tensors that are not read, by ggml's number. */
static const char *const unread[] = {
    [9] = "Q8_1",   [15] = "Q8_K",   [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
    [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",   [22] = "IQ2_S",  [23] = "IQ4_XS",
    [24] = "I8",    [25] = "I16",    [26] = "I32",     [27] = "I64",    [28] = "F64",
    [29] = "IQ1_M", [34] = "TQ1_0",  [35] = "TQ2_0",   [39] = "MXFP4",  [40] = "NVFP4",
    [41] = "Q1_0"};
enum { UNREAD = sizeof unread / sizeof *unread };

typedef struct reader {
    const unsigned char *begin, *at, *end;
    attn_arena *arena;
    attn_error *err;
    const char *where; /* the key or the tensor that is being read */
} reader;

/* A tensor as the file describes it. */
typedef struct entry {
    attn_gguf_tensor tensor;
    uint32_t type;
    uint64_t offset;
} entry;

static attn_status malformed(const reader *r, const char *expected) {
    return attn_fail(r->err, ATTN_EARG, r->where, "at byte %zu: expected %s",
                     (size_t)(r->at - r->begin), expected);
}

static size_t left(const reader *r) {
    return (size_t)(r->end - r->at);
}

/* Reads a number of `bytes` bytes. */
static attn_status read_number(reader *r, size_t bytes, const char *what, uint64_t *out) {
    if (left(r) < bytes)
        return malformed(r, what);
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)r->at[i] << 8 * i;
    r->at += bytes;
    return ATTN_OK;
}

static attn_status read_u32(reader *r, const char *what, uint32_t *out) {
    uint64_t wide = 0;
    ATTN_TRY(read_number(r, sizeof *out, what, &wide));
    *out = (uint32_t)wide;
    return ATTN_OK;
}

/* Reads the number of items that follow, each of at least `least` bytes. */
static attn_status read_count(reader *r, size_t least, const char *what, size_t *out) {
    uint64_t count = 0;
    ATTN_TRY(read_number(r, sizeof count, what, &count));
    if (count > left(r) / least)
        return attn_fail(r->err, ATTN_EARG, r->where,
                         "at byte %zu: expected %s, found %" PRIu64 ", but only %zu bytes are left",
                         (size_t)(r->at - r->begin) - sizeof count, what, count, left(r));
    *out = (size_t)count;
    return ATTN_OK;
}

static attn_status read_text(reader *r, attn_gguf_text *out) {
    size_t size;
    ATTN_TRY(read_count(r, 1, "the length of a text", &size));
    *out = (attn_gguf_text){(const char *)r->at, size};
    r->at += size;
    return ATTN_OK;
}

/* Reads a key or a name, which becomes r->where. */
static attn_status read_name(reader *r, const char **out) {
    attn_gguf_text text;
    r->where = "";
    ATTN_TRY(read_text(r, &text));
    if (text.size == 0 || text.size > MOST_NAME || memchr(text.at, 0, text.size))
        return malformed(r, "a name of 1 to 65535 bytes before it, none of them 0");
    char *copy = attn_arena_text(r->arena, text.at, text.size);
    ATTN_TAKEN(copy, "the names of a GGUF file", r->err);
    if (!attn_is_utf8(copy))
        return malformed(r, "a name in UTF-8 before it");
    *out = r->where = copy;
    return ATTN_OK;
}

/* --- metadata --- */

static attn_status read_elements(reader *r, attn_gguf_value *v) {
    if (v->type != ATTN_GGUF_TEXT) {
        const size_t width = widths[v->type];
        if (v->count > left(r) / width)
            return malformed(r, "the elements of a value");
        v->numbers = r->at;
        for (size_t i = 0; v->type == ATTN_GGUF_BOOL && i < v->count; i++)
            if (r->at[i] > 1)
                return malformed(r, "bools of 0 or 1");
        r->at += v->count * width;
        return ATTN_OK;
    }
    attn_gguf_text *texts = attn_arena_array(r->arena, v->count + 1, sizeof *texts);
    ATTN_TAKEN(texts, "the texts of a GGUF file", r->err);
    for (size_t i = 0; i < v->count; i++)
        ATTN_TRY(read_text(r, &texts[i]));
    v->texts = texts;
    return ATTN_OK;
}

static attn_status read_type(reader *r, attn_gguf_type *out) {
    uint32_t type;
    ATTN_TRY(read_u32(r, "the type of a value", &type));
    if (type >= TYPES) {
        r->at -= sizeof type;
        return malformed(r, "a type of a value, 0 to 12");
    }
    *out = (attn_gguf_type)type;
    return ATTN_OK;
}

static attn_status read_value(reader *r, attn_gguf_value *v) {
    ATTN_TRY(read_name(r, &v->key));
    ATTN_TRY(read_type(r, &v->type));
    v->count = 1;
    v->array = v->type == ATTN_GGUF_ARRAY;
    if (v->array) {
        ATTN_TRY(read_type(r, &v->type));
        if (v->type == ATTN_GGUF_ARRAY)
            return attn_fail(r->err, ATTN_EUNSUPPORTED, v->key, "arrays of arrays are not read");
        ATTN_TRY(read_count(r, v->type == ATTN_GGUF_TEXT ? LEAST_TEXT : widths[v->type],
                            "the number of elements", &v->count));
    }
    return read_elements(r, v);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the texts differ, and sorts them. `what` is "values" or "tensors". */
static attn_status check_names(const char **names, size_t count, const char *what,
                               attn_error *err) {
    if (count > 1)
        qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return attn_fail(err, ATTN_EARG, names[i], "two %s have this name", what);
    return ATTN_OK;
}

static attn_status read_values(reader *r, attn_gguf *out) {
    const char **keys = attn_arena_array(r->arena, out->value_count + 1, sizeof *keys);
    out->values = attn_arena_zeroed(r->arena, out->value_count + 1, sizeof *out->values);
    ATTN_TAKEN(keys && out->values, "the metadata of a GGUF file", r->err);
    for (size_t i = 0; i < out->value_count; i++) {
        ATTN_TRY(read_value(r, &out->values[i]));
        keys[i] = out->values[i].key;
    }
    return check_names(keys, out->value_count, "values", r->err);
}

static attn_status read_alignment(attn_gguf *out, attn_error *err) {
    static const char key[] = "general.alignment";
    const attn_gguf_value *value = attn_gguf_find(out, key);
    out->alignment = ALIGNMENT;
    if (value && (!attn_gguf_count(value, 0, &out->alignment) || value->array || !out->alignment ||
                  out->alignment & (out->alignment - 1)))
        return attn_fail(err, ATTN_EARG, key, "expected a power of two");
    return ATTN_OK;
}

/* --- tensors --- */

static attn_status read_axes(reader *r, attn_gguf_tensor *t) {
    uint32_t rank;
    ATTN_TRY(read_u32(r, "the number of axes", &rank));
    if (rank < 1 || rank > MOST_AXES)
        return attn_fail(r->err, ATTN_ESHAPE, t->name, "expected 1 to %d axes, found %" PRIu32,
                         MOST_AXES, rank);
    t->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t size = 0;
        ATTN_TRY(read_number(r, sizeof size, "the length of an axis", &size));
        if (size == 0 || size > SIZE_MAX)
            return attn_fail(r->err, ATTN_ESHAPE, t->name,
                             "expected axes of at least one value, found %" PRIu64, size);
        t->dims[rank - 1 - i] = (size_t)size;
    }
    return ATTN_OK;
}

/* Computes the bytes of a tensor from its axes. */
static attn_status count_bytes(attn_gguf_tensor *t, attn_error *err) {
    const attn_block_format *f = t->format;
    const size_t row = t->dims[t->rank - 1];
    char shape[128];
    if (row % f->values)
        return attn_fail(err, ATTN_ESHAPE, t->name,
                         "expected rows of a multiple of %zu values for %s, found %zu", f->values,
                         f->name, row);
    bool fits = attn_size_mul(row / f->values, f->bytes, &t->bytes);
    size_t values = row; /* the number of values must not overflow either */
    for (int i = 0; i < t->rank - 1; i++)
        fits = fits && attn_size_mul(t->bytes, t->dims[i], &t->bytes) &&
               attn_size_mul(values, t->dims[i], &values);
    if (!fits || t->bytes > SIZE_MAX / 2)
        return attn_fail(err, ATTN_ESHAPE, t->name, "shape %s is beyond what can be counted",
                         attn_shape_text(t->dims, t->rank, shape, sizeof shape));
    return ATTN_OK;
}

static attn_status read_tensor(reader *r, entry *e) {
    attn_gguf_tensor *t = &e->tensor;
    ATTN_TRY(read_name(r, &t->name));
    ATTN_TRY(read_axes(r, t));
    ATTN_TRY(read_u32(r, "the type of a tensor", &e->type));
    ATTN_TRY(read_number(r, sizeof e->offset, "the offset of a tensor", &e->offset));
    t->format = attn_block_format_of(e->type);
    if (!t->format)
        return ATTN_OK;
    t->type = t->format->name;
    return count_bytes(t, r->err);
}

static attn_status read_tensors(reader *r, entry *entries, size_t count) {
    const char **names = attn_arena_array(r->arena, count + 1, sizeof *names);
    ATTN_TAKEN(names, "the tensors of a GGUF file", r->err);
    for (size_t i = 0; i < count; i++) {
        ATTN_TRY(read_tensor(r, &entries[i]));
        names[i] = entries[i].tensor.name;
    }
    r->where = "";
    return check_names(names, count, "tensors", r->err);
}

/* Finds the data of a tensor. r->at is where the data of all tensors begin. */
static attn_status place(const reader *r, entry *e, size_t alignment) {
    attn_gguf_tensor *t = &e->tensor;
    if (e->offset % alignment)
        return attn_fail(r->err, ATTN_EARG, t->name,
                         "expected an offset at a multiple of %zu, found %" PRIu64, alignment,
                         e->offset);
    if (e->offset > left(r) || t->bytes > left(r) - (size_t)e->offset)
        return attn_fail(r->err, ATTN_EARG, t->name,
                         "%zu bytes at offset %" PRIu64 " are beyond the %zu bytes of data; the "
                         "file may be truncated",
                         t->bytes, e->offset, left(r));
    t->data = r->at + e->offset;
    return ATTN_OK;
}

static int by_place(const void *a, const void *b) {
    const attn_gguf_tensor *x = *(const attn_gguf_tensor *const *)a,
                           *y = *(const attn_gguf_tensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static attn_status check_overlaps(const attn_gguf *file, attn_arena *arena, attn_error *err) {
    const attn_gguf_tensor **sorted = attn_arena_array(arena, file->count + 1, sizeof *sorted);
    ATTN_TAKEN(sorted, "the tensors of a GGUF file", err);
    for (size_t i = 0; i < file->count; i++)
        sorted[i] = &file->tensors[i];
    if (file->count > 1)
        qsort(sorted, file->count, sizeof *sorted, by_place);
    for (size_t i = 1; i < file->count; i++)
        if ((const char *)sorted[i - 1]->data + sorted[i - 1]->bytes >
            (const char *)sorted[i]->data)
            return attn_fail(err, ATTN_EARG, sorted[i]->name, "it overlaps the tensor %.64s",
                             sorted[i - 1]->name);
    return ATTN_OK;
}

static attn_status note_unusable(attn_gguf *out, const entry *e, attn_arena *arena,
                                 attn_error *err) {
    char reason[128];
    const char *name = e->type < UNREAD ? unread[e->type] : NULL;
    if (name)
        snprintf(reason, sizeof reason, "tensors of type %s are not read", name);
    else
        snprintf(reason, sizeof reason, "there is no type of tensors %" PRIu32 " that is known",
                 e->type);
    char *kept = attn_arena_text(arena, reason, strlen(reason));
    ATTN_TAKEN(kept, "the tensors of a GGUF file", err);
    out->unusable[out->unusable_count++] =
        (attn_unusable_tensor){e->tensor.name, ATTN_EDTYPE, kept};
    return ATTN_OK;
}

/* Reads the descriptions of `count` tensors and the places of their data. */
static attn_status read_all_tensors(reader *r, attn_gguf *out, size_t count) {
    entry *entries = attn_arena_zeroed(r->arena, count + 1, sizeof *entries);
    out->tensors = attn_arena_zeroed(r->arena, count + 1, sizeof *out->tensors);
    out->unusable = attn_arena_zeroed(r->arena, count + 1, sizeof *out->unusable);
    ATTN_TAKEN(entries && out->tensors && out->unusable, "the tensors of a GGUF file", r->err);
    ATTN_TRY(read_tensors(r, entries, count));
    const size_t header = (size_t)(r->at - r->begin),
                 pad = (out->alignment - header % out->alignment) % out->alignment;
    if (count && pad > left(r))
        return malformed(r, "the data of the tensors; the file may be truncated");
    r->at += count ? pad : 0;
    for (size_t i = 0; i < count; i++) {
        ATTN_TRY(place(r, &entries[i], out->alignment));
        if (entries[i].tensor.format)
            out->tensors[out->count++] = entries[i].tensor;
        else
            ATTN_TRY(note_unusable(out, &entries[i], r->arena, r->err));
    }
    return check_overlaps(out, r->arena, r->err);
}

bool attn_is_gguf(const void *data, size_t size) {
    return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

attn_status attn_gguf_read(const void *data, size_t size, attn_arena *arena, attn_gguf *out,
                           attn_error *err) {
    const unsigned char *bytes = data;
    attn_gguf found = {0};
    size_t count;
    reader r = {bytes, bytes, bytes + size, arena, err, ""};
    if (!attn_is_gguf(data, size))
        return malformed(&r, "\"GGUF\"");
    r.at += 4;
    uint32_t version;
    ATTN_TRY(read_u32(&r, "the version", &version));
    if (version != 2 && version != 3)
        return attn_fail(err, ATTN_EUNSUPPORTED, "", "expected version 2 or 3, found %s%" PRIu32,
                         version & 0xffff ? "" : "a big-endian file or ", version);
    found.version = (unsigned)version;
    ATTN_TRY(read_count(&r, LEAST_TENSOR, "the number of tensors", &count));
    ATTN_TRY(read_count(&r, LEAST_VALUE, "the number of metadata values", &found.value_count));
    ATTN_TRY(read_values(&r, &found));
    ATTN_TRY(read_alignment(&found, err));
    ATTN_TRY(read_all_tensors(&r, &found, count));
    *out = found;
    return ATTN_OK;
}

/* --- access --- */

const attn_gguf_value *attn_gguf_find(const attn_gguf *file, const char *key) {
    for (size_t i = 0; i < file->value_count; i++)
        if (strcmp(file->values[i].key, key) == 0)
            return &file->values[i];
    return NULL;
}

static uint64_t bits_at(const attn_gguf_value *v, size_t i) {
    const size_t width = widths[v->type];
    const unsigned char *at = (const unsigned char *)v->numbers + i * width;
    uint64_t bits = 0;
    for (size_t k = 0; k < width; k++)
        bits |= (uint64_t)at[k] << 8 * k;
    return bits;
}

static bool is_signed(attn_gguf_type type) {
    return type == ATTN_GGUF_I8 || type == ATTN_GGUF_I16 || type == ATTN_GGUF_I32 ||
           type == ATTN_GGUF_I64;
}

/* Returns an integer of a signed type, and extends its sign to 64 bits. */
static int64_t signed_at(const attn_gguf_value *v, size_t i) {
    const int above = 64 - 8 * widths[v->type];
    return (int64_t)(bits_at(v, i) << above) >> above;
}

bool attn_gguf_number(const attn_gguf_value *v, size_t i, double *out) {
    if (!v || !v->numbers || i >= v->count)
        return false;
    const uint64_t bits = bits_at(v, i);
    if (v->type == ATTN_GGUF_F32) {
        const uint32_t half = (uint32_t)bits;
        float x;
        memcpy(&x, &half, sizeof x);
        *out = (double)x;
    } else if (v->type == ATTN_GGUF_F64) {
        memcpy(out, &bits, sizeof *out);
    } else {
        *out = is_signed(v->type) ? (double)signed_at(v, i) : (double)bits;
    }
    return true;
}

bool attn_gguf_count(const attn_gguf_value *v, size_t i, size_t *out) {
    if (!v || !v->numbers || i >= v->count || v->type == ATTN_GGUF_F32 ||
        v->type == ATTN_GGUF_F64 || v->type == ATTN_GGUF_BOOL)
        return false;
    if ((is_signed(v->type) && signed_at(v, i) < 0) || bits_at(v, i) > SIZE_MAX)
        return false;
    *out = (size_t)bits_at(v, i);
    return true;
}

bool attn_gguf_text_of(const attn_gguf_value *v, attn_gguf_text *out) {
    if (!v || !v->texts || v->array)
        return false;
    *out = v->texts[0];
    return true;
}

void attn_gguf_widen(float *to, const attn_gguf_tensor *t, size_t first, size_t count) {
    attn_blocks_widen(to, t->format,
                      (const char *)t->data + first / t->format->values * t->format->bytes, count);
}
