/* Sizes in files of safetensors. */
#ifndef ATTN_IO_SAFETENSORS_LAYOUT_H
#define ATTN_IO_SAFETENSORS_LAYOUT_H

#include "attn/safetensors.h"

#define ATTN_IO_HEADER_MOST 100000000 /* largest size of a header in bytes, by the format */

/* Computes the size of a dense tensor in bytes. Returns false if the size exceeds SIZE_MAX. */
bool attn_io_tensor_bytes(const attn_tensor *tensor, size_t *bytes);

#endif
