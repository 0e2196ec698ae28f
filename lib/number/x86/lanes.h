/* Vector operations for number_lists_read_body.h and number_lists_write_body.h whose intrinsics
 * differ only in a prefix between AVX2 and AVX-512. The file that includes this one defines LANES,
 * the number of 64-bit lanes of a vector; `vector`, the type of vectors in intrinsics; and
 * SIMD(name), the intrinsic of that name with the prefix. Operators such as + and >> work on lanes
 * as they are; shifts by a constant are logical. */
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));
typedef double reals __attribute__((vector_size(8 * LANES)));
typedef uint16_t shorts __attribute__((vector_size(8 * LANES)));

#define ALL(x) ((lanes){0} + (uint64_t)(x))

/* Return the first or the second 8 bytes of each 16 bytes. The bytes from a are in lanes 0, 2, …,
 * the bytes from b in lanes 1, 3, … */
static inline lanes first_halves(lanes a, lanes b) {
    return (lanes)SIMD(unpacklo_epi64)((vector)a, (vector)b);
}

static inline lanes second_halves(lanes a, lanes b) {
    return (lanes)SIMD(unpackhi_epi64)((vector)a, (vector)b);
}

/* Multiplies the lower 32 bits of each lane, with results of 64 bits. */
static inline lanes times(lanes a, lanes b) {
    return (lanes)SIMD(mul_epu32)((vector)a, (vector)b);
}

/* Shift by n bits. A shift by 64 bits or more gives 0. */
static inline lanes shift_up(lanes x, lanes n) {
    return (lanes)SIMD(sllv_epi64)((vector)x, (vector)n);
}

static inline lanes shift_down(lanes x, lanes n) {
    return (lanes)SIMD(srlv_epi64)((vector)x, (vector)n);
}

/* Returns the upper 16 bits of the products of unsigned elements of 16 bits. */
static inline shorts high_products(shorts x, short n) {
    return (shorts)SIMD(mulhi_epu16)((vector)x, SIMD(set1_epi16)(n));
}

/* Converts bytes 0 … 9 to integers of four digits, 32 bits each. */
static inline lanes join_fours(vector digits) {
    vector pairs = SIMD(maddubs_epi16)(digits, SIMD(set1_epi16)(10 | 1 << 8));
    return (lanes)SIMD(madd_epi16)(pairs, SIMD(set1_epi32)(100 | 1 << 16));
}

/* Joins pairs of integers of four digits to integers of eight digits. Even lanes get those of
 * `even`, and odd lanes those of `odd`. */
static inline lanes join_eights(lanes even, lanes odd) {
    return (lanes)SIMD(madd_epi16)(SIMD(packus_epi32)((vector)even, (vector)odd),
                                   SIMD(set1_epi32)(10000 | 1 << 16));
}
