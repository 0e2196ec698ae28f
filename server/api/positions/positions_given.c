/* Reads the positions that a request gives for the rows and columns of the tables. They replace the
 * positions 0, 1, 2, … */
#include <inttypes.h>
#include <stdio.h>

#include "api/positions/positions_call.h"
#include "base/try.h"
#include "request/shared.h"

#define FARTHEST ATTN_INPUT_FARTHEST
#define LEARNED  1073741824.0 /* 2^30: then a table has few enough elements to count */

/* Returns the positions as int64, and sets *count. NULL: a problem is set. */
static const int64_t *read_list(srv_positions_call *call, const char *name, const attn_tensor *t,
                                size_t *count) {
    const bool learned = call->body.kind == SRV_POSITIONS_LEARNED;
    const double least = learned ? 0 : -FARTHEST, most = learned ? LEARNED - 1 : FARTHEST;
    char place[64];
    *count = t->dims[0];
    if (t->rank != 1) {
        srv_refuse(&call->scope, SRV_SHAPE, name, "expected a list of positions, found %s",
                   attn_rank_text(t));
        return NULL;
    }
    int64_t *list = attn_arena_array(call->req->arena, *count + 1, sizeof *list);
    if (!list) {
        srv_problem_memory(call->req, NULL, "no memory is left for the positions");
        return NULL;
    }
    for (size_t i = 0; i < *count; i++) {
        list[i] = t->dtype == ATTN_I64   ? ((const int64_t *)t->data)[i]
                  : t->dtype == ATTN_I32 ? ((const int32_t *)t->data)[i]
                                         : ((const uint8_t *)t->data)[i];
        if (list[i] == ATTN_NO_POSITION || ((double)list[i] >= least && (double)list[i] <= most))
            continue;
        snprintf(place, sizeof place, "%s/%zu", name, i);
        srv_refuse(&call->scope, SRV_VALUE, place,
                   "expected a position from %.0f to %.0f, found %" PRId64, least, most, list[i]);
        return NULL;
    }
    return list;
}

bool srv_positions_given(const srv_positions_call *call) {
    return srv_given(&call->scope, "positions") || srv_given(&call->scope, "query_positions") ||
           srv_given(&call->scope, "axes");
}

static bool read_axes(srv_positions_call *call) {
    srv_positions_body *body = &call->body;
    attn_rotary_axes *axes = &body->position.axes;
    if (!srv_axes_read(&call->scope, &body->axes, axes))
        return false;
    if (axes->query_positions.rank != 2)
        return srv_refuse(&call->scope, SRV_SHAPE, "axes",
                          "expected a list of positions on each axis: a table is that of one "
                          "sequence");
    if ((size_t)body->width != 2 * axes->pairs.dims[0])
        return srv_refuse(&call->scope, SRV_VALUE, "width",
                          "expected %zu, twice the number of pairs of all axes, found %" PRId64,
                          2 * axes->pairs.dims[0], body->width);
    axes->key_positions = axes->query_positions;
    body->length = (int64_t)axes->query_positions.dims[1];
    return true;
}

bool srv_positions_read(srv_positions_call *call) {
    srv_positions_body *body = &call->body;
    const srv_scope *scope = &call->scope;
    const char *rows = srv_given(scope, "positions") ? "positions" : "query_positions";
    const char *lengths[] = {"length", "query_offset", "num_keys", "dims"};
    const char *instead[] = {rows, "query_positions", "key_positions", "query_positions"};
    size_t count;
    if (srv_given(scope, "axes"))
        return srv_excludes(scope, "axes", "positions", "each axis has positions") &&
               srv_excludes(scope, "axes", "length", "each axis has positions") && read_axes(call);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (!srv_excludes(scope, lengths[i], instead[i],
                          i < 3 ? "positions take its place"
                                : "curves are over all distances of positions in order"))
            return false;
    if (!srv_excludes(scope, "dims", "key_positions",
                      "curves are over all distances of positions in order"))
        return false;
    if (srv_given(scope, rows)) {
        const attn_tensor *t = *rows == 'p' ? &body->positions : &body->query_positions;
        if (!(call->rows = read_list(call, rows, t, &count)))
            return false;
        body->length = (int64_t)count;
    }
    if (srv_given(scope, "key_positions")) {
        if (!(call->columns = read_list(call, "key_positions", &body->key_positions, &count)))
            return false;
        call->keys = count;
    }
    return true;
}
