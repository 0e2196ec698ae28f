/* The row functions of pointwise_body.h, compiled for any processor. */
#define NAME(x) x##_ref
#include "kernels/pointwise_body.h"
