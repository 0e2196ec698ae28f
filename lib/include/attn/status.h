/* Status codes and error records.
 *
 * A function that can fail returns an attn_status. On failure it also fills the attn_error of its
 * caller, if `err` is not NULL. Results go to out-parameters, which keep their values on
 * failure. */
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_ENOMEM,       /* an allocation failed or an arena's limit was reached */
    ATTN_EARG,         /* an argument is outside of its range or contradicts another */
    ATTN_ESHAPE,       /* shapes do not fit together */
    ATTN_EDTYPE,       /* the element type of a tensor is not accepted here */
    ATTN_EVALUE,       /* a value in the data is not allowed: in a mask, a length, … */
    ATTN_ELIMIT,       /* a size cannot be represented or is above a limit */
    ATTN_ECANCELED,    /* the caller's cancel flag was set */
    ATTN_EDEADLINE,    /* the caller's deadline has passed */
    ATTN_EUNSUPPORTED, /* the processor or this build cannot do it */
    ATTN_ESEMANTICS,   /* a mask of 0 and 1 without a statement which one means visible */
    ATTN_ENONFINITE,   /* NaN or infinity in an input, or scores that overflow */
} attn_status;

/* What went wrong, in words. */
typedef struct attn_error {
    attn_status code;
    /* The argument, with indices if it is a tensor: "attn_mask", "query/0/3". "" if it is no
     * argument. */
    char where[96];
    char text[512]; /* what was expected and what was found; UTF-8, no line break */
    double limit;   /* with ATTN_ELIMIT: the limit that is exceeded; 0: it is not stated */
} attn_error;

/* Returns a short English name that never changes, such as "shape", for the logs of programs that
 * use the library. It is never NULL. */
const char *attn_status_name(attn_status code);

/* Fills *err (which may be NULL) from `where` and the printf format, and returns `code`: "return
 * attn_fail(…);". */
attn_status attn_fail(attn_error *err, attn_status code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Does what attn_fail does, with ATTN_ELIMIT and err->limit = `limit`. */
attn_status attn_fail_limit(attn_error *err, const char *where, double limit, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
