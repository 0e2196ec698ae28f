/* Checksums of bytes and tables of them (attn/checksum.h). */
#include "attn/checksum.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "io/checksum.h"
#include "number/digits.h"

/* --- CRC32C --- */

enum { SLICES = 8 };

/* slices[k][b] is the register after byte b and k zero bytes, starting from 0. */
static uint32_t slices[SLICES][256];
/* NULL: this processor has no such instruction, and the tables are used */
static attn_crc32c_function *native;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t state = b;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? ATTN_CRC32C_POLYNOMIAL : 0);
        slices[0][b] = state;
    }
    for (int k = 1; k < SLICES; k++)
        for (uint32_t b = 0; b < 256; b++)
            slices[k][b] = slices[k - 1][b] >> 8 ^ slices[0][slices[k - 1][b] & 255];
    native = attn_crc32c_native();
}

static uint32_t four_bytes(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t attn_crc32c_tables(uint32_t state, const unsigned char *p, size_t n) {
    pthread_once(&prepared, prepare);
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t a = state ^ four_bytes(p), b = four_bytes(p + 4);
        state = slices[7][a & 255] ^ slices[6][a >> 8 & 255] ^ slices[5][a >> 16 & 255] ^
                slices[4][a >> 24] ^ slices[3][b & 255] ^ slices[2][b >> 8 & 255] ^
                slices[1][b >> 16 & 255] ^ slices[0][b >> 24];
    }
    for (; n; n--)
        state = state >> 8 ^ slices[0][(state ^ *p++) & 255];
    return state;
}

uint32_t attn_crc32c(uint32_t before, const void *data, size_t n) {
    pthread_once(&prepared, prepare);
    return ~(native ? native : attn_crc32c_tables)(~before, data, n);
}

/* --- tables of checksums --- */

static const char LEAD[] = "crc32c:1048576:";
enum { DIGITS = 8, BLOCK = ATTN_CHECKSUM_BLOCK };

attn_status attn_checksums_begin(size_t size, attn_arena *arena, attn_checksums *out,
                                 attn_error *err) {
    const size_t count = attn_checksums_count(size);
    uint32_t *sums = attn_arena_zeroed(arena, count ? count : 1, sizeof *sums);
    ATTN_TAKEN(sums, "the checksums", err);
    *out = (attn_checksums){.sums = sums, .size = size};
    return ATTN_OK;
}

void attn_checksums_add(attn_checksums *table, const void *data, size_t n) {
    const unsigned char *p = data;
    if (n > table->size - table->added)
        n = table->size - table->added;
    while (n) {
        const size_t rest = BLOCK - table->added % BLOCK, piece = n < rest ? n : rest;
        uint32_t *sum = &table->sums[table->added / BLOCK];
        *sum = attn_crc32c(*sum, p, piece);
        table->added += piece;
        p += piece;
        n -= piece;
    }
}

size_t attn_checksums_text_size(size_t size) {
    return sizeof LEAD - 1 + DIGITS * attn_checksums_count(size);
}

void attn_checksums_write(const attn_checksums *table, char *text) {
    memcpy(text, LEAD, sizeof LEAD - 1);
    text += sizeof LEAD - 1;
    for (size_t i = 0; i < attn_checksums_count(table->size); i++)
        text = attn_put_hex(text, table->sums[i], DIGITS);
    *text = 0;
}

attn_status attn_checksums_read(const char *text, size_t size, attn_arena *arena,
                                attn_checksums *out, attn_error *err) {
    const size_t count = attn_checksums_count(size);
    attn_checksums table;
    if (strncmp(text, LEAD, sizeof LEAD - 1))
        return attn_fail(err, ATTN_EVALUE, "checksums", "expected %s and digits, found \"%.32s\"",
                         LEAD, text);
    if (strlen(text) != attn_checksums_text_size(size))
        return attn_fail(err, ATTN_EVALUE, "checksums",
                         "expected %zu checksums for %zu bytes, found %zu digits", count, size,
                         strlen(text) - (sizeof LEAD - 1));
    ATTN_TRY(attn_checksums_begin(size, arena, &table, err));
    text += sizeof LEAD - 1;
    if (strspn(text, "0123456789abcdef") != DIGITS * count)
        return attn_fail(err, ATTN_EVALUE, "checksums",
                         "expected hexadecimal digits 0 … 9 and a … f only");
    for (size_t i = 0; i < DIGITS * count; i++)
        table.sums[i / DIGITS] = table.sums[i / DIGITS] << 4 | (uint32_t)attn_hex_digit(text[i]);
    table.added = size;
    *out = table;
    return ATTN_OK;
}

bool attn_checksums_block_is_right(const attn_checksums *table, const void *bytes, size_t block) {
    const size_t begin = block * BLOCK, rest = table->size - begin;
    return attn_crc32c(0, (const char *)bytes + begin, rest < BLOCK ? rest : BLOCK) ==
           table->sums[block];
}

attn_status attn_checksums_check(const attn_checksums *table, const void *bytes, size_t begin,
                                 size_t end, attn_error *err) {
    for (size_t i = begin / BLOCK; begin < end && i <= (end - 1) / BLOCK; i++)
        if (!attn_checksums_block_is_right(table, bytes, i))
            return attn_fail(err, ATTN_EVALUE, "checksums",
                             "the bytes of block %zu, of 1 MiB each, are not those that were "
                             "written: its checksum differs",
                             i);
    return ATTN_OK;
}
