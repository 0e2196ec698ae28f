/* The functions that attn_crc32c calls. They take and return `state`, the CRC register, which is
 * the bitwise complement of the checksum. */
#ifndef ATTN_IO_CHECKSUM_H
#define ATTN_IO_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t attn_crc32c_function(uint32_t state, const unsigned char *p, size_t n);

/* The polynomial with reflected bits: bit 31 is the coefficient of x^0. */
#define ATTN_CRC32C_POLYNOMIAL UINT32_C(0x82F63B78)

/* Uses tables, on any processor. */
attn_crc32c_function attn_crc32c_tables;
/* Returns the function that uses the processor's own instruction; NULL: the processor has none. The
 * Makefile selects x86/checksum_sse42.c or checksum_other.c. */
attn_crc32c_function *attn_crc32c_native(void);

#endif
