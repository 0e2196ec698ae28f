/* Headers of safetensors for tensors that are written one by one, before all of them are known: the
 * bytes are there already, in a fixed order, behind a header that is written last. */
#ifndef ATTN_IO_SAFETENSORS_LAYOUT_H
#define ATTN_IO_SAFETENSORS_LAYOUT_H

#include "attn/safetensors.h"

#define ATTN_IO_HEADER_MOST 100000000 /* bytes of a header; the format's own limit */

/* Computes the bytes of a dense tensor. Returns false if they cannot be counted. */
bool attn_io_tensor_bytes(const attn_tensor *tensor, size_t *bytes);

/* Makes a header as attn_safetensors_header does. room 0: just that. Else the tensors keep their
 * order, whatever their element sizes, and length and header are padded to `room` bytes.
 * ATTN_ELIMIT also: they need more. */
attn_status attn_io_header(attn_safetensors *what, size_t room, attn_arena *arena,
                           const void **header, size_t *size, attn_error *err);

/* Makes a header of `room` bytes, more than 0, with a seal. `table` has the checksums of all bytes
 * of the tensors, whose data is not read. Errors as attn_io_header and
 * attn_safetensors_sealed_header. */
attn_status attn_io_sealed_header(attn_safetensors *what, size_t version,
                                  const attn_checksums *table, size_t room, attn_arena *arena,
                                  const void **header, attn_error *err);

#endif
