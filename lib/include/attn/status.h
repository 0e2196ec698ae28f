/* Status codes and the caller-owned error record of every fallible function.
 *
 * A fallible function returns an attn_status and, when `err` is not NULL, fills the caller's
 * attn_error on failure. Results go to out-parameters, which are untouched on failure. */
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_ENOMEM,       /* an allocation failed or an arena's limit was reached */
    ATTN_EARG,         /* an argument contradicts another or is outside its range */
    ATTN_ESHAPE,       /* shapes do not fit together */
    ATTN_EDTYPE,       /* a tensor has an element type that is not accepted here */
    ATTN_EVALUE,       /* a value is outside its set or range: a mask value, a length, … */
    ATTN_ELIMIT,       /* a size is beyond what can be represented or allowed */
    ATTN_ECANCELED,    /* the caller's cancel flag was raised */
    ATTN_EDEADLINE,    /* the caller's deadline passed */
    ATTN_EUNSUPPORTED, /* the processor or build lacks it */
    ATTN_ESEMANTICS,   /* a 0/1 mask whose meaning is not declared */
    ATTN_ENONFINITE,   /* NaN or infinity in an input, or scores that overflow */
} attn_status;

typedef struct attn_error {
    attn_status code;
    char where[96]; /* the argument, with indices: "attn_mask", "query/0/3"; "" if none */
    char text[512]; /* what was expected, what was found; UTF-8, no trailing newline */
} attn_error;

/* Returns a short English name that never changes, such as "shape"; never NULL. */
const char *attn_status_name(attn_status code);

/* Fills *err (NULL allowed) and returns `code`, so that a caller can fail in one statement. */
attn_status attn_fail(attn_error *err, attn_status code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
