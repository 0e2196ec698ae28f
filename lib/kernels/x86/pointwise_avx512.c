/* The row functions of pointwise_body.h, compiled for AVX-512. */
#define NAME(x) x##_avx512
#include "kernels/pointwise_body.h"
