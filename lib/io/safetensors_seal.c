/* Seals of safetensors containers (attn/safetensors.h). The header is first made with zeros in the
 * place of all digits. The digits are then computed and written over them. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "io/safetensors_layout.h"
#include "io/seal.h"
#include "number/digits.h"

enum { DIGITS = 8, TEXTS = 3 };
static const char ZEROS[DIGITS + 1] = "00000000";

/* The beginnings of two texts of the seal, up to their first digits. In a sealed container these
 * bytes occur first in the seal, because it is at the beginning of the metadata. */
static const char HEADER_LEAD[] = "\"" ATTN_SEAL_HEADER "\":\"";
static const char CHECKSUMS_LEAD[] = "\"" ATTN_SEAL_CHECKSUMS "\":\"";

/* Returns the position behind the first `lead` in the header. NULL: the header has no `lead`, or
 * fewer than `room` bytes follow it. */
static char *behind(const char *header, size_t size, const char *lead, size_t room) {
    const size_t n = strlen(lead);
    char *at = memmem(header, size, lead, n);
    return at && (size_t)(header + size - at) - n >= room ? at + n : NULL;
}

/* Returns the checksum of the header, its length included. `digits` is the position of the digits
 * of this checksum in the header; they count as zeros. */
static uint32_t header_sum(const char *header, size_t size, const char *digits) {
    const size_t before = (size_t)(digits - header), after = before + DIGITS;
    uint32_t sum = attn_crc32c(0, header, before);
    sum = attn_crc32c(sum, ZEROS, DIGITS);
    return attn_crc32c(sum, digits + DIGITS, size - after);
}

static const char *text_of(const attn_safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++)
        if (!strcmp(file->metadata[i].key, key))
            return file->metadata[i].text;
    return NULL;
}

/* --- writing --- */

bool attn_io_tensor_bytes(const attn_tensor *t, size_t *bytes) {
    size_t count;
    return attn_tensor_count(t, &count) && attn_size_mul(count, attn_dtype_size(t->dtype), bytes);
}

static attn_status count_all(const attn_safetensors *what, size_t *all, attn_error *err) {
    *all = 0;
    for (size_t i = 0; i < what->count; i++) {
        size_t bytes;
        if (!attn_io_tensor_bytes(&what->tensors[i].tensor, &bytes) ||
            !attn_size_add(*all, bytes, all) || *all > SIZE_MAX / 2)
            return attn_fail(err, ATTN_ELIMIT, what->tensors[i].name, "it cannot be counted");
    }
    return ATTN_OK;
}

/* Makes a header with a seal whose digits are zeros. `bytes` is the size of all tensors. */
static attn_status make_header(attn_safetensors *what, size_t version, size_t bytes,
                               attn_arena *arena, const void **header, size_t *size,
                               attn_error *err) {
    const size_t n = attn_checksums_text_size(bytes);
    if (!version)
        return attn_fail(err, ATTN_EARG, ATTN_SEAL_VERSION, "versions begin with 1");
    char number[24], *zeros = attn_arena_take(arena, n + 1);
    attn_metadata *texts = attn_arena_zeroed(arena, TEXTS + what->metadata_count, sizeof *texts);
    ATTN_TAKEN(zeros && texts, "the checksums of the tensors", err);
    memset(zeros, '0', n);
    zeros[n] = 0;
    snprintf(number, sizeof number, "%zu", version);
    texts[0] = (attn_metadata){ATTN_SEAL_VERSION, number};
    texts[1] = (attn_metadata){ATTN_SEAL_HEADER, ZEROS};
    texts[2] = (attn_metadata){ATTN_SEAL_CHECKSUMS, zeros};
    if (what->metadata_count)
        memcpy(texts + TEXTS, what->metadata, what->metadata_count * sizeof *texts);
    attn_safetensors sealed = {.tensors = what->tensors,
                               .count = what->count,
                               .metadata = texts,
                               .metadata_count = TEXTS + what->metadata_count};
    return attn_safetensors_header(&sealed, arena, header, size, err);
}

/* Writes the digits of the seal into the header. */
static attn_status write_seal(const attn_checksums *table, const void *header, size_t size,
                              attn_arena *arena, attn_error *err) {
    const size_t n = attn_checksums_text_size(table->size);
    char *text = attn_arena_take(arena, n + 1);
    char *sums = behind(header, size, CHECKSUMS_LEAD, n),
         *digits = behind(header, size, HEADER_LEAD, DIGITS);
    ATTN_TAKEN(text && sums && digits, "the checksums of the tensors", err);
    attn_checksums_write(table, text);
    memcpy(sums, text, n);
    attn_put_hex(digits, header_sum(header, size, digits), DIGITS);
    return ATTN_OK;
}

attn_status attn_safetensors_sealed_header(attn_safetensors *what, size_t version,
                                           attn_arena *arena, const void **header, size_t *size,
                                           attn_error *err) {
    attn_checksums table;
    size_t bytes;
    ATTN_TRY(count_all(what, &bytes, err));
    ATTN_TRY(make_header(what, version, bytes, arena, header, size, err));
    ATTN_TRY(attn_checksums_begin(bytes, arena, &table, err));
    for (size_t i = 0; i < what->count; i++) { /* the tensors are in the order of the header */
        size_t n;
        if (attn_io_tensor_bytes(&what->tensors[i].tensor, &n) && n)
            attn_checksums_add(&table, what->tensors[i].tensor.data, n);
    }
    return write_seal(&table, *header, *size, arena, err);
}

/* --- reading --- */

static attn_status check_header(const char *data, size_t size, const char *text, attn_error *err) {
    const char *digits = behind(data, size, HEADER_LEAD, DIGITS);
    char right[DIGITS + 1] = "";
    if (digits)
        attn_put_hex(right, header_sum(data, size, digits), DIGITS);
    if (digits && !strcmp(right, text) && !memcmp(digits, text, DIGITS))
        return ATTN_OK;
    return attn_fail(err, ATTN_EVALUE, ATTN_SEAL_HEADER,
                     "the header is not as it was written: its checksum is \"%.16s\", not that of "
                     "its bytes",
                     text);
}

static attn_status read_version(const char *text, size_t newest, size_t *out, attn_error *err) {
    const size_t n = strlen(text);
    size_t version = 0;
    if (!n || n > 18 || strspn(text, "0123456789") != n || *text == '0')
        return attn_fail(err, ATTN_EVALUE, ATTN_SEAL_VERSION,
                         "expected a number from 1 on, found \"%.32s\"", text);
    for (; *text; text++)
        version = 10 * version + (size_t)(*text - '0');
    if (version > newest)
        return attn_fail(err, ATTN_EUNSUPPORTED, ATTN_SEAL_VERSION,
                         "a newer program wrote this: it is of version %zu, and this program reads "
                         "versions up to %zu",
                         version, newest);
    *out = version;
    return ATTN_OK;
}

attn_status attn_safetensors_seal(const void *data, size_t size, const attn_safetensors *file,
                                  size_t newest, attn_arena *arena, attn_seal *out,
                                  attn_error *err) {
    const char *keys[TEXTS] = {ATTN_SEAL_VERSION, ATTN_SEAL_HEADER, ATTN_SEAL_CHECKSUMS},
               *all = data;
    const char *texts[TEXTS];
    size_t header = 0, found = 0;
    for (int i = 0; i < TEXTS; i++)
        found += (texts[i] = text_of(file, keys[i])) != NULL;
    if (!found) {
        *out = (attn_seal){0};
        return ATTN_OK;
    }
    for (int i = 0; i < TEXTS; i++)
        if (!texts[i])
            return attn_fail(err, ATTN_EVALUE, keys[i],
                             "the header is not as it was written: it lacks this part of its seal");
    for (int i = 7; i >= 0; i--)
        header = header << 8 | (unsigned char)all[i];
    header += 8; /* attn_safetensors_read has checked that the header ends within `size` */
    attn_seal seal = {.bytes = all + header};
    ATTN_TRY(check_header(all, header, texts[1], err));
    ATTN_TRY(read_version(texts[0], newest, &seal.version, err));
    ATTN_TRY(attn_checksums_read(texts[2], size - header, arena, &seal.checksums, err));
    *out = seal;
    return ATTN_OK;
}
