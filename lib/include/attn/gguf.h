/* The GGUF container of language models, versions 2 and 3
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Its parts, all numbers little-endian:
 *
 *   24 bytes   "GGUF", the version (u32), the number of tensors and of metadata values (u64 each)
 *   metadata   a key, a type and a value each; a value may be an array of numbers or of texts
 *   tensors    a name, the sizes of the axes, the innermost first, a type and an offset each
 *   data       after padding to the alignment: the tensors, each at a multiple of the alignment
 *
 * Reading copies neither tensors nor numbers nor texts: all are views of the caller's memory. Any
 * thread may call these functions. */
#ifndef ATTN_GGUF_H
#define ATTN_GGUF_H

#include "memory.h"
#include "safetensors.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Types of metadata, with the numbers of the file. */
typedef enum attn_gguf_type {
    ATTN_GGUF_U8 = 0,
    ATTN_GGUF_I8,
    ATTN_GGUF_U16,
    ATTN_GGUF_I16,
    ATTN_GGUF_U32,
    ATTN_GGUF_I32,
    ATTN_GGUF_F32,
    ATTN_GGUF_BOOL,
    ATTN_GGUF_TEXT,
    /* of an array in the file; attn_gguf_value then has the type of its elements, and `array`
     * set */
    ATTN_GGUF_ARRAY,
    ATTN_GGUF_U64,
    ATTN_GGUF_I64,
    ATTN_GGUF_F64,
} attn_gguf_type;

/* A text: `size` bytes without a NUL behind them. Texts are any bytes, not always UTF-8. */
typedef struct attn_gguf_text {
    const char *at;
    size_t size;
} attn_gguf_text;

typedef struct attn_gguf_value {
    const char *key;     /* UTF-8, such as "llama.block_count" */
    attn_gguf_type type; /* type of the value, or of the elements of an array */
    bool array;
    size_t count;                /* elements of an array; else 1 */
    const void *numbers;         /* [count], unaligned; NULL for texts */
    const attn_gguf_text *texts; /* [count]; NULL for numbers */
} attn_gguf_value;

typedef struct attn_gguf_tensor {
    const char *name; /* UTF-8, such as "blk.0.attn_q.weight" */
    int rank;
    size_t dims[ATTN_MAX_RANK]; /* the innermost last, as everywhere in this library */
    const char *type;           /* "F32", "Q4_1", … */
    const struct attn_block_format
        *format;      /* format of the blocks, for attn_gguf_widen and the library's products */
    const void *data; /* row-major, whole rows of blocks */
    size_t bytes;     /* size of data */
} attn_gguf_tensor;

/* The contents of a file. */
typedef struct attn_gguf {
    unsigned version;
    size_t alignment;
    attn_gguf_value *values; /* [value_count], in the order of the file */
    size_t value_count;
    attn_gguf_tensor *tensors; /* [count], in the order of the file */
    size_t count;
    attn_unusable_tensor *unusable; /* [unusable_count], tensors of types that are not read */
    size_t unusable_count;
} attn_gguf;

/* Reads a file of `size` bytes at `data`, which must outlive *out. Names and lists are in the
 * arena. Everything is checked: lengths and counts against the bytes that are left, repeated keys
 * and names, sizes against blocks, alignment, the end of the file, and that no two tensors overlap.
 * Tensors of types that are not read are listed in out->unusable with the name of their type; of
 * these only alignment and begin are checked. On an error *out stays unchanged, and err->where
 * names the key or the tensor:
 *
 *   ATTN_EARG          malformed
 *   ATTN_ESHAPE        no axes or above 4, an axis of length 0, rows that are no whole blocks
 *   ATTN_EUNSUPPORTED  another version, big-endian, or an array of arrays
 *   ATTN_ENOMEM        the arena is full */
attn_status attn_gguf_read(const void *data, size_t size, attn_arena *arena, attn_gguf *out,
                           attn_error *err);

/* Returns whether `size` bytes at `data` begin as a GGUF file does. */
bool attn_is_gguf(const void *data, size_t size);

/* Finds a value by its key. NULL: there is none. */
const attn_gguf_value *attn_gguf_find(const attn_gguf *file, const char *key);

/* Gives element i < value->count of a number or bool. attn_gguf_count accepts only integers from 0
 * to SIZE_MAX. Both return false if `value` is of another kind, or NULL. */
bool attn_gguf_number(const attn_gguf_value *value, size_t i, double *out);
bool attn_gguf_count(const attn_gguf_value *value, size_t i, size_t *out);
/* Gives the text of a value that is no array. Returns false if the value is of another kind, or
 * NULL. */
bool attn_gguf_text_of(const attn_gguf_value *value, attn_gguf_text *out);

/* Widens `count` values of a tensor to float32, beginning with value `first` in row-major order.
 * Both are multiples of the values of a block: 1 for F32, F16 and BF16, 256 for types that end in
 * _K, else 32. */
void attn_gguf_widen(float *to, const attn_gguf_tensor *tensor, size_t first, size_t count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
