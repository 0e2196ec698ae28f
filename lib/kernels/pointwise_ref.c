/* Functions of rows for any x86-64. */
#define NAME(x) x##_ref
#include "kernels/pointwise_body.h"
