/* The body without its tensors: one pass checks the JSON grammar, decodes what the route's table
 * calls tensors (by path, not by looks) and writes a small document in which each of them is a
 * number, its place in a side table. Only what the table places there can be such a number, so that
 * a body cannot name a tensor that is not its own. Tensors and values that stand for themselves
 * (leaf.h) of the outermost object go into the decoded body at once where there is one; the
 * document is without them. */
#ifndef SRV_ENVELOPE_H
#define SRV_ENVELOPE_H

#include "wire/container.h"
#include "wire/fields.h"

typedef struct srv_cut {
    const char *pointer; /* where the tensor was */
    attn_tensor tensor;
} srv_cut;

typedef struct srv_envelope {
    char *text; /* compact JSON, one object */
    size_t size, room;
    srv_cut *cuts;
    size_t cut_count, cut_room;
    size_t values, containers; /* in text: what a tree of it would cost */
    uint64_t given;            /* rows of the table that are in the decoded body */
    srv_beyond beyond;
} srv_envelope;

typedef struct srv_bounds {
    size_t depth; /* of lists and objects */
    size_t bytes; /* of what is no tensor; a fifth of it values, a 64th lists and objects */
} srv_bounds;

/* Read a JSON text that is followed by a NUL byte. `body`: the struct of the fields, or NULL when
 * all of them shall stand in the document. false: the problem is set. */
bool srv_envelope_read(srv_request *req, const char *text, size_t size, const srv_field *fields,
                       const srv_bounds *bounds, void *body, srv_envelope *out);
/* Put a tensor into the side table. Returns its number, or -1: out of memory. */
int64_t srv_envelope_add(srv_envelope *e, attn_arena *arena, const char *pointer,
                         const attn_tensor *t);

/* The tensor that stands at `pointer` as number `index`, or NULL when there is none. */
const attn_tensor *srv_envelope_tensor(const srv_envelope *e, int64_t index, const char *pointer);

/* The problem of a field that is in no table, naming the nearest that is. */
void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields);

#endif
