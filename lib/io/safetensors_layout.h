/* Sizes in files of safetensors. */
#ifndef ATTN_IO_SAFETENSORS_LAYOUT_H
#define ATTN_IO_SAFETENSORS_LAYOUT_H

#include "attn/safetensors.h"

#define ATTN_IO_HEADER_MOST 100000000 /* bytes of a header; the format's own limit */

/* Computes the bytes of a dense tensor. Returns false if the number exceeds SIZE_MAX. */
bool attn_io_tensor_bytes(const attn_tensor *tensor, size_t *bytes);

#endif
