/* The axes of rotary positions in a request: a list of objects, which is read into the tensors of
 * attn_rotary_axes. */
#ifndef SRV_AXES_INPUT_H
#define SRV_AXES_INPUT_H

#include <attn/attention.h>

#include "api/common/scope.h"

/* The positions of a ragged batch, one tensor for each entry. */
typedef struct srv_axis_entries {
    srv_entries positions, query_positions, key_positions;
} srv_axis_entries;

typedef struct srv_axis {
    srv_given_bits given;
    attn_tensor positions, query_positions, key_positions;
    srv_axis_entries entries;
    size_t num_pairs;
    bool interleaved;
    double base;
} srv_axis;

extern const srv_field srv_axis_fields[];
#define SRV_AXES_ROW(T, member)                                                                    \
    SRV_NAMED_ROW(T, "axes", member, SRV_OBJECTS,                                                  \
                  "rotary: positions on several axes (2-D, axial, 3-D, M-RoPE), at most 16, each " \
                  "with the pairs that turn by it, instead of query_positions and key_positions. " \
                  "Frequencies and angles are float32, as in transformers.",                       \
                  .fields = srv_axis_fields, .size = sizeof(srv_axis), .max = ATTN_ROTARY_AXES)

/* Reads the list, the field `axes` of the scope's object, into *out. false: a problem is set. */
bool srv_axes_read(const srv_scope *scope, const srv_objects *list, attn_rotary_axes *out);
/* Changes err->where, which names a tensor of the library, to name the field of the axis in the
 * request. `at` is the path of the axes. */
void srv_axes_where(const srv_objects *list, const char *at, attn_error *err);

#endif
