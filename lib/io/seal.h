/* Seals of containers (safetensors_seal.c): files of models and of runs have one. */
#ifndef ATTN_SEAL_H
#define ATTN_SEAL_H

#include "attn/checksum.h"
#include "attn/safetensors.h"

/* A sealed container can tell whether any of its bytes has changed since it was written. Its
 * metadata begin with three texts:
 *
 *   "seal.version"    the version of the contents of the container, a decimal number from 1 on.
 *                     Each kind of container counts its own versions
 *   "seal.header"     the CRC32C of the header and its length, as eight hexadecimal digits. In the
 *                     header that is summed, these digits are "00000000"
 *   "seal.checksums"  the checksums of all bytes behind the header (checksum.h)
 *
 * A program that changes the container must leave out all three. */
#define ATTN_SEAL_VERSION   "seal.version"
#define ATTN_SEAL_HEADER    "seal.header"
#define ATTN_SEAL_CHECKSUMS "seal.checksums"

/* Makes a header as attn_safetensors_header does, with a seal. It reads the bytes of the tensors,
 * so the caller must write the same bytes. It also returns ATTN_EARG if `what` has a seal already
 * or more than 61 texts, or if `version` is 0. */
attn_status attn_safetensors_sealed_header(attn_safetensors *what, size_t version,
                                           attn_arena *arena, const void **header, size_t *size,
                                           attn_error *err);

typedef struct attn_seal {
    size_t version;           /* 0: the container has no seal, and the rest is empty */
    const void *bytes;        /* the first byte behind the header */
    attn_checksums checksums; /* checksums of all bytes from `bytes` on */
} attn_seal;

/* Reads the seal of the container of `size` bytes at `data`, which attn_safetensors_read has read
 * as `file`, and checks the header against the seal. The caller must check the bytes of the tensors
 * before it uses them, all at once or by block:
 *
 *     attn_checksums_check(&seal.checksums, seal.bytes, 0, seal.checksums.size, err)
 *
 *   ATTN_EVALUE        the header has changed since it was written, or lacks a part of the seal
 *   ATTN_EUNSUPPORTED  the version is above `newest`, the latest that the caller knows
 *   ATTN_ENOMEM        the arena is full */
attn_status attn_safetensors_seal(const void *data, size_t size, const attn_safetensors *file,
                                  size_t newest, attn_arena *arena, attn_seal *out,
                                  attn_error *err);

#endif
