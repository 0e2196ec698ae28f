/* The row functions of pointwise_body.h, compiled for AVX2. */
#define NAME(x) x##_avx2
#include "kernels/pointwise_body.h"
