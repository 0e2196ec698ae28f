/* How a function passes failures on.
 *
 * ATTN_TRY(call): if the call fails, the function that contains ATTN_TRY returns the status of the
 * call. A function that must free or close something before it returns does not use ATTN_TRY. */
#ifndef ATTN_TRY_H
#define ATTN_TRY_H

#include <attn/status.h>

#define ATTN_TRY(call)                                                                             \
    do {                                                                                           \
        const attn_status attn_try_status = (call);                                                \
        if (attn_try_status != ATTN_OK)                                                            \
            return attn_try_status;                                                                \
    } while (0)

/* Fails with ATTN_ENOMEM: "no memory left for WHAT". */
attn_status attn_no_memory(attn_error *err, const char *what);

/* ATTN_TAKEN(memory, what, err): if `memory` is false, the function that contains ATTN_TAKEN fails
 * with attn_no_memory(err, what). `memory` is a new pointer, several pointers joined by &&, or the
 * success of a call that takes memory. */
#define ATTN_TAKEN(memory, what, err)                                                              \
    do {                                                                                           \
        if (!(memory))                                                                             \
            return attn_no_memory((err), (what));                                                  \
    } while (0)

/* Passes on the status of a call whose arguments are parts of `outer`. If the call has failed, puts
 * `outer` in front of err->where: "scale" becomes "sites/3/scale". */
attn_status attn_error_within(attn_status status, const char *outer, attn_error *err);

#endif
