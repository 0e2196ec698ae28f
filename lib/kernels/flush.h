/* Arithmetic in which results below the normal range (subnormal numbers) become 0. */
#ifndef ATTN_FLUSH_H
#define ATTN_FLUSH_H

#include <xmmintrin.h>

#define INLINE      static inline __attribute__((always_inline))
#define OUT_OF_LINE static __attribute__((noinline))

/* Makes a call in the mode in which subnormal results are 0. A numerator that is later scaled down
 * by a power of two must equal the numerator that is computed from the larger maximum. If subnormal
 * numbers were kept, one of the two would be rounded and the other not. The called function must be
 * OUT_OF_LINE, so that the compiler moves no arithmetic out of it. */
#define FLUSHED(call)                                                                              \
    do {                                                                                           \
        const unsigned mode = _mm_getcsr();                                                        \
        _mm_setcsr(mode | _MM_FLUSH_ZERO_ON);                                                      \
        call;                                                                                      \
        _mm_setcsr(mode);                                                                          \
    } while (0)

#endif
