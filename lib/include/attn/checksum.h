/* Checksums of files: CRC32C, the cyclic redundancy check with the Castagnoli polynomial
 * 0x1EDC6F41, bits reflected, as RFC 3720 (appendix B.4) defines it. It detects every change of up
 * to 32 neighbouring bits, every change of at most 3 bits in a block of 1 MiB, and all but one in
 * 2^32 of the other changes.
 *
 * A table of checksums has a checksum for each block of 1 MiB, so that a part of a large file can
 * be checked without reading all of it. Its text is
 *
 *   crc32c:1048576:e3069283…   eight lower-case hexadecimal digits a block, without separators
 *
 * where the last block may be shorter than 1 MiB. */
#ifndef ATTN_CHECKSUM_H
#define ATTN_CHECKSUM_H

#include "memory.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Returns the CRC32C of a sequence of bytes that ends with the `n` bytes at `data`. `before` is the
 * CRC32C of all bytes in front of these, or 0 if there are none. */
uint32_t attn_crc32c(uint32_t before, const void *data, size_t n);

enum { ATTN_CHECKSUM_BLOCK = 1 << 20 }; /* bytes of a block */

/* The checksums of `size` bytes: sums[i] is the checksum of the block that begins at byte i *
 * ATTN_CHECKSUM_BLOCK. */
typedef struct attn_checksums {
    uint32_t *sums; /* [attn_checksums_count(size)] */
    size_t size;    /* number of bytes that the checksums cover */
    size_t added;   /* bytes that were added so far */
} attn_checksums;

/* Returns the number of blocks of `size` bytes. */
static inline size_t attn_checksums_count(size_t size) {
    return size / ATTN_CHECKSUM_BLOCK + (size % ATTN_CHECKSUM_BLOCK > 0);
}

/* Begins a table for `size` bytes, in the arena. Add them with attn_checksums_add, in order and in
 * pieces of any size. ATTN_ENOMEM: the arena is full. */
attn_status attn_checksums_begin(size_t size, attn_arena *arena, attn_checksums *out,
                                 attn_error *err);
/* Adds the next n bytes. Bytes beyond the size of the table are ignored. */
void attn_checksums_add(attn_checksums *table, const void *data, size_t n);

/* Returns the length in bytes, without a NUL, of the text of a table for `size` bytes. */
size_t attn_checksums_text_size(size_t size);
/* Writes the text and a NUL to `text`, which has space for attn_checksums_text_size(size) + 1
 * bytes. */
void attn_checksums_write(const attn_checksums *table, char *text);
/* Reads the text of a table for `size` bytes. ATTN_EVALUE: the text is no table, or a table of
 * another number of blocks. ATTN_ENOMEM: the arena is full. */
attn_status attn_checksums_read(const char *text, size_t size, attn_arena *arena,
                                attn_checksums *out, attn_error *err);

/* Returns whether block number `block`, below attn_checksums_count(size), has the checksum that the
 * table states. `bytes` points to the first byte that the table covers. */
bool attn_checksums_block_is_right(const attn_checksums *table, const void *bytes, size_t block);
/* Checks all blocks that have a byte in [begin, end); `end` is at most the size of the table.
 * `bytes` as above. ATTN_EVALUE: a block has another checksum; err->text names the block. */
attn_status attn_checksums_check(const attn_checksums *table, const void *bytes, size_t begin,
                                 size_t end, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
