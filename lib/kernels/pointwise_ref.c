/* The row functions for any processor. */
#define NAME(x) x##_ref
#include "kernels/pointwise_body.h"
