/* The positions of queries and keys. Query i has the position i + offset of its batch entry, and key
 * j the position j, unless the caller gives positions of their own. */
#ifndef ATTN_MASK_ROW_POSITIONS_H
#define ATTN_MASK_ROW_POSITIONS_H

#include <attn/mask.h>
#include <attn/memory.h>
#include <attn/status.h>
#include <attn/tensor.h>

/* The positions of all queries, or of all keys (cached ones included). */
typedef struct attn_sequence_positions {
    /* The position of row i of batch entry b is given[b * entry + i]; ATTN_NO_POSITION: it has
     * none. If `given` is NULL, it is i + offsets[b]. */
    const int64_t *given;
    size_t entry;           /* number of rows, or 0 if all batch entries share the positions */
    const int64_t *offsets; /* NULL: zeros */
} attn_sequence_positions;

/* Returns the position of row i of batch entry b, or ATTN_NO_POSITION. */
static inline int64_t attn_position_at(const attn_sequence_positions *p, size_t b, size_t i) {
    return p->given     ? p->given[b * p->entry + i]
           : p->offsets ? p->offsets[b] + (int64_t)i
                        : (int64_t)i;
}

/* Checks that t has integers and the shape [rows], [1, rows] or [B, rows]. In errors, `where` is
 * its name, and `what` the name of its rows, such as "queries". Errors: ATTN_ESHAPE,
 * ATTN_EDTYPE. */
attn_status attn_row_positions_check(const attn_tensor *t, const char *where, const char *what,
                                     size_t rows, size_t B, attn_error *err);
/* Reads the tensor t [rows], [1, rows] or [B, rows] into *out. Rank 0: there are no positions.
 * `where` names it in errors. Errors: ATTN_EVALUE (beyond ±2^40), ATTN_ENOMEM. */
attn_status attn_sequence_positions_read(const attn_tensor *t, const char *where,
                                         const int64_t *offsets, attn_arena *arena,
                                         attn_sequence_positions *out, attn_error *err);

#endif
