/* The fields of a decoded object that were in the body: a bit for each row of its field table. */
#ifndef SRV_GIVEN_H
#define SRV_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SRV_FIELDS_MOST = 128 }; /* most rows of a table: the number of bits */

/* Bit i % 64 of word i / 64 stands for row i. */
typedef struct srv_given_bits {
    uint64_t words[SRV_FIELDS_MOST / 64];
} srv_given_bits;

static inline bool srv_given_has(const srv_given_bits *given, size_t row) {
    return given->words[row / 64] >> row % 64 & 1;
}

static inline void srv_given_add(srv_given_bits *given, size_t row) {
    given->words[row / 64] |= (uint64_t)1 << row % 64;
}

static inline void srv_given_drop(srv_given_bits *given, size_t row) {
    given->words[row / 64] &= ~((uint64_t)1 << row % 64);
}

static inline bool srv_given_any(const srv_given_bits *given) {
    return (given->words[0] | given->words[1]) != 0;
}

#endif
