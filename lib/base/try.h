/* How a function passes failures on.
 *
 * ATTN_TRY(call): returns the status of a call from the function that contains it, unless the call
 * succeeds. A function that must give something back before it returns does not use it. */
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

/* ATTN_TAKEN(memory, what, err): if `memory` is false, returns this failure from the function that
 * contains it. `memory` is a new pointer, several joined by &&, or the success of a call that takes
 * memory. */
#define ATTN_TAKEN(memory, what, err)                                                              \
    do {                                                                                           \
        if (!(memory))                                                                             \
            return attn_no_memory((err), (what));                                                  \
    } while (0)

/* Passes on the status of a call whose arguments are parts of `outer`. If the call has failed, puts
 * `outer` in front of err->where: "scale" becomes "sites/3/scale". */
attn_status attn_error_within(attn_status status, const char *outer, attn_error *err);

#endif
