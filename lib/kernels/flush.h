/* Arithmetic without denormal results. */
#ifndef ATTN_FLUSH_H
#define ATTN_FLUSH_H

#include <xmmintrin.h>

#define INLINE      static inline __attribute__((always_inline))
#define OUT_OF_LINE static __attribute__((noinline))

/* Runs `call` with results below the normal range flushed to 0. So a numerator that is later scaled
 * down by a power of two equals, bit for bit, the numerator computed from the larger maximum. The
 * call is out of line, so that the compiler moves no arithmetic across it. */
#define FLUSHED(call)                                                                              \
    do {                                                                                           \
        const unsigned mode = _mm_getcsr();                                                        \
        _mm_setcsr(mode | _MM_FLUSH_ZERO_ON);                                                      \
        call;                                                                                      \
        _mm_setcsr(mode);                                                                          \
    } while (0)

#endif
