/* Arithmetic without denormal results. */
#ifndef ATTN_FLUSH_H
#define ATTN_FLUSH_H

#include <xmmintrin.h>

#define INLINE      static inline __attribute__((always_inline))
#define OUT_OF_LINE static __attribute__((noinline))

/* What is below the normal range becomes 0 in `call`, so that a numerator scaled down later by a
 * power of two is, bit for bit, the one computed from the larger maximum. The call is out of line:
 * nothing moves across. */
#define FLUSHED(call)                                                                              \
    do {                                                                                           \
        const unsigned mode = _mm_getcsr();                                                        \
        _mm_setcsr(mode | _MM_FLUSH_ZERO_ON);                                                      \
        call;                                                                                      \
        _mm_setcsr(mode);                                                                          \
    } while (0)

#endif
