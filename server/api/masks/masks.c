/* POST /v1/masks builds, combines, explains and lints masks. It computes no attention. This file
 * holds the field table, the checks that the table cannot express (which fields a kind of mask has,
 * which shape the masks must fit), and the handler. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/common/route_fields.h"
#include "api/masks/masks_api.h"
#include "api/masks/masks_call.h"
#include "request/shared.h"

static const char *const combinations[] = {"and", NULL};

const srv_field srv_masks_fields[] = {
    /* Each mask is one layer of the library. `.max` leaves one layer free for the token_ids of the
     * body. */
    SRV_ITEMS_ROW(srv_masks_body, "masks", masks,
                  "The masks to combine; an empty list leaves all keys visible.",
                  .example = "[{\"kind\": \"causal\"}]"),
    SRV_ITEMS_ROW(srv_masks_body, "against", against,
                  "Masks to compare with, of the same shape and positions: the answer counts the "
                  "cells that only masks or only against shows, and says both in words. Numbers "
                  "that are added to scores are not compared.",
                  .example = "[{\"kind\": \"causal\"}]"),
    SRV_FIELD_ROW(srv_masks_body, shape, SRV_INTS,
                  "The weights' shape: [L, S], [B, L, S], [B, H, L, S] or with more batch axes in "
                  "front. Without shape and token_ids it is that of self-attention, [S, S] or [B, "
                  "S, S], with the sizes of the padding masks (token_ids, key_padding_mask), or "
                  "else the shape to which the masks of values with two axes or more broadcast.",
                  .max = ATTN_MAX_RANK),
    SRV_TENSOR_ROW(srv_masks_body, token_ids, SRV_T_INT,
                   "[S] or [B, S], instead of shape: the mask is for self-attention over these "
                   "tokens, and padding keys are hidden.",
                   .ragged = "pad the sequences to one length with pad_id"),
    SRV_FIELD_ROW(srv_masks_body, pad_id, SRV_INT, "The id of the padding token in token_ids."),
    SRV_OFFSET_ROW(srv_masks_body, query_offset),
    SRV_PLACES_ROWS(srv_masks_body, spec),
    SRV_ENUM_ROW(srv_masks_body, combine, combinations,
                 "and: a key is visible if it is visible in every mask; float parts are summed."),
    SRV_ENUM_ROW(srv_masks_body, as, srv_masks_forms,
                 "How the cells are written, which is also the name of the tensor of the answer: "
                 "keep (default; true = attend, as text ✓), keep_numbers (1 = attend, 0 = hidden), "
                 "hide_numbers (1 = hidden, 0 = attend), additive (the number that is added to "
                 "the score: 0 = attend, null = -infinity, as text -inf) or, with against, "
                 "difference (1 = only masks shows the cell, -1 = only against does, 0 = the "
                 "same)."),
    SRV_FILL_ROW(srv_masks_body, spec, fill_given,
                 "With as additive: a finite number that hidden cells hold instead of null. A "
                 "number alone, such as -1e9, is added to what the masks add to the cell."),
    SRV_FULL_ROW(srv_masks_body),
    SRV_LABELS_ROW(srv_masks_body, "Names of queries and keys, which the answer repeats"),
    SRV_FIGURE_ROW(srv_masks_body, "Title, labels and style of the picture."),
    SRV_DRY_RUN_ROW(srv_masks_body,
                    "Resolve nothing: return the shape, the mask in words and the cost."),
    SRV_TIMEOUT_ROW(srv_masks_body),
    {0},
};

static bool shape_of_tokens(srv_masks_call *call, const srv_scope *scope) {
    const attn_tensor *ids = &call->body.token_ids;
    if (ids->rank != 1 && ids->rank != 2) {
        char text[128];
        return srv_refuse(scope, SRV_SHAPE, "token_ids",
                          "token_ids must be [S] or [B, S], found %s",
                          attn_found_text(ids, text, sizeof text));
    }
    size_t S = ids->dims[ids->rank - 1];
    call->rank = ids->rank + 1;
    call->dims[0] = ids->dims[0];
    call->dims[call->rank - 2] = call->dims[call->rank - 1] = S;
    call->body.spec.layers[call->body.spec.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_TOKENS,
                          .where = "token_ids",
                          .values = *ids,
                          .pad_id = call->body.pad_id};
    return true;
}

/* Returns the tensor token_ids or key_padding_mask of a padding mask. The shape of the tensor, [S]
 * or [B, S], has the number of keys. Sets *name to the name of the field. NULL: the mask has
 * neither field. */
static const attn_tensor *padding_of(const srv_scope *item, const srv_mask_item *mask,
                                     const char **name) {
    const bool ids = srv_given(item, "token_ids");
    *name = ids ? "token_ids" : "key_padding_mask";
    if (mask->kind != SRV_ITEM_PADDING || !srv_given(item, *name))
        return NULL;
    return ids ? &mask->mask.token_ids : &mask->mask.key_padding_mask;
}

/* Combines the shape of the padding mask t, [S] or [B, S], with that of the padding masks before t.
 * A batch axis of length 1 broadcasts. `name` is the field of t. `first` is the field of the first
 * padding mask, for the problem that shapes differ; NULL: t is the first. false: a problem is
 * set. */
static bool add_padding_shape(srv_masks_call *call, const srv_scope *item, const char *name,
                              const attn_tensor *t, const char *first) {
    char text[128];
    if (t->rank != 1 && t->rank != 2)
        return srv_refuse(item, SRV_SHAPE, name,
                          "without shape, which would say what the weights' shape is, %s must be "
                          "[S] or [B, S], found %s",
                          name, attn_found_text(t, text, sizeof text));
    const size_t S = t->dims[t->rank - 1], B = t->rank == 2 ? t->dims[0] : 1;
    const size_t had = call->rank == 3 ? call->dims[0] : 1;
    if (first && call->dims[call->rank - 1] != S)
        return srv_refuse(item, SRV_SHAPE, name,
                          "%s has %zu key%s, but %s has %zu: send one number of keys, or shape",
                          name, S, attn_plural(S), first, call->dims[call->rank - 1]);
    if (first && had != B && had != 1 && B != 1)
        return srv_refuse(item, SRV_SHAPE, name,
                          "%s has %zu batch entries, but the masks before it have %zu: send one "
                          "number of batch entries, or shape",
                          name, B, had);
    call->rank = call->rank == 3 || t->rank == 2 ? 3 : 2;
    call->dims[0] = had == 1 ? B : had;
    call->dims[call->rank - 2] = call->dims[call->rank - 1] = S;
    return true;
}

/* Derives the shape of self-attention, [S, S] or [B, S, S], from the padding masks. Sets *found to
 * true if a padding mask has a shape. false: a problem is set. */
static bool shape_of_padding(srv_masks_call *call, const srv_scope *body, bool *found) {
    const srv_mask_item *items = call->body.masks.items;
    const char *first = NULL, *name;
    for (size_t i = 0; i < call->body.masks.count; i++) {
        char at[256];
        srv_scope item;
        srv_mask_item_scope(body, "masks", &call->body.masks, i, &item, at);
        const attn_tensor *t = padding_of(&item, &items[i], &name);
        if (t && !add_padding_shape(call, &item, name, t, first))
            return false;
        if (t && !first)
            first = srv_where(&item, name);
    }
    *found = first != NULL;
    return true;
}

/* Sets the shape of the call (dims, rank) to the broadcast shape (as in NumPy) of all masks of kind
 * "values" with at least two axes. Sets *found to true if there is such a mask. */
static void shape_of_values(srv_masks_call *call, bool *found) {
    const srv_mask_item *items = call->body.masks.items;
    for (size_t i = 0; i < call->body.masks.count; i++) {
        const attn_tensor *t = &items[i].mask.attn_mask;
        if (items[i].kind != SRV_ITEM_VALUES || t->rank < 2)
            continue;
        const int more = t->rank > call->rank ? t->rank - call->rank : 0;
        memmove(call->dims + more, call->dims, (size_t)call->rank * sizeof *call->dims);
        for (int a = 0; a < more; a++)
            call->dims[a] = 1;
        call->rank += more;
        for (int a = 1; a <= t->rank; a++)
            if (call->dims[call->rank - a] == 1)
                call->dims[call->rank - a] = t->dims[t->rank - a];
        *found = true;
    }
}

static bool shape_of_list(srv_masks_call *call, const srv_scope *scope) {
    const srv_ints *list = &call->body.shape;
    if (list->count < 2)
        return srv_refuse(scope, SRV_SHAPE, "shape",
                          "shape must be the weights' shape, [L, S] or longer, found %zu number%s",
                          list->count, attn_plural(list->count));
    call->rank = (int)list->count;
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] < 0) {
            char place[32];
            snprintf(place, sizeof place, "shape/%zu", i);
            return srv_refuse(scope, SRV_VALUE, place, "a size cannot be negative, found %" PRId64,
                              list->values[i]);
        }
        call->dims[i] = (size_t)list->values[i];
    }
    return true;
}

/* Computes batch axes, heads, L, S and the number of cells from call->dims. A shape of rank 2 or 3
 * has no head axis. */
static void split_shape(srv_masks_call *call) {
    attn_mask_shape *shape = &call->shape;
    int rank = call->rank;
    shape->has_heads = rank >= 4;
    shape->batch_rank = shape->has_heads ? rank - 3 : rank - 2;
    shape->H = shape->has_heads ? call->dims[rank - 3] : 1;
    shape->L = call->dims[rank - 2];
    shape->S = call->dims[rank - 1];
    call->cells = call->bound = 1;
    for (int i = 0; i < rank; i++) {
        call->cells *= (double)call->dims[i];
        call->bound *= call->dims[i] > 0 ? (double)call->dims[i] : 1;
    }
    memcpy(shape->batch, call->dims, (size_t)shape->batch_rank * sizeof shape->batch[0]);
}

/* Returns the number of batch entries; SIZE_MAX: the number overflows. */
static size_t entries(const srv_masks_call *call) {
    size_t count = 1;
    for (int i = 0; i < call->shape.batch_rank; i++)
        if (!attn_size_mul(count, call->dims[i], &count))
            return SIZE_MAX;
    return count;
}

static bool check_fill(const srv_masks_call *call, const srv_scope *scope) {
    const double fill = call->body.spec.fill_value;
    if (!srv_given(scope, "mask_fill"))
        return true;
    if (call->body.as != SRV_MASKS_ADDITIVE)
        return srv_refuse(scope, SRV_VALUE, "mask_fill",
                          "mask_fill is a number that is added to scores: it needs \"as\": "
                          "\"additive\", and \"%s\" has no such numbers",
                          srv_masks_forms[call->body.as]);
    if (fabs(fill) > FLT_MAX)
        return srv_refuse(scope, SRV_VALUE, "mask_fill",
                          "the cells are float32: expected a number that float32 holds, found %g",
                          fill);
    return true;
}

/* Reads the body into spec and shape. false: a problem is set. */
static bool read_body(srv_masks_call *call) {
    const srv_scope scope = {call->req, srv_masks_fields, &call->body.given, ""};
    if (!srv_needs(&scope, "token_ids", "pad_id", "pad_id says which of the ids is padding") ||
        !srv_needs(&scope, "pad_id", "token_ids", "it says which of token_ids is padding") ||
        !srv_excludes(&scope, "shape", "token_ids", "both say how many keys there are") ||
        !check_fill(call, &scope))
        return false;
    const bool compares = srv_given(&scope, "against");
    if (call->body.as == SRV_MASKS_DIFFERENCE && !compares)
        return srv_refuse(&scope, SRV_VALUE, "as",
                          "\"difference\" needs against, the masks to compare with");
    const bool tokens = srv_given(&scope, "token_ids"), list = srv_given(&scope, "shape");
    bool found = tokens || list;
    if (!found && !shape_of_padding(call, &scope, &found))
        return false;
    if (!found)
        shape_of_values(call, &found);
    if (!found)
        return srv_refuse(
            &scope, SRV_VALUE, "shape",
            "send shape ([L, S], [B, L, S] or [B, H, L, S]), token_ids with pad_id, "
            "a padding mask of token_ids or key_padding_mask, or an attn_mask [L, S], "
            "which say how many keys there are");
    if ((tokens && !shape_of_tokens(call, &scope)) || (list && !shape_of_list(call, &scope)))
        return false;
    split_shape(call);
    srv_mask_offset(&call->body.query_offset, &call->body.spec);
    call->against_spec = call->body.spec;
    return srv_labels_check(call->req, &call->body.labels, entries(call), call->shape.L,
                            call->shape.S) &&
           srv_figure_check(call->req, &call->body.figure) &&
           srv_mask_items(&scope, "masks", &call->body.masks, &call->body.spec) &&
           (!compares ||
            srv_mask_items(&scope, "against", &call->body.against, &call->against_spec));
}

/* --- the row of the route --- */

/* Upper bound of the bytes of a boolean and its comma as text: "false,". */
#define TEXT_OF_FLAG 6.0

static srv_cost cost_of(const srv_masks_call *call) {
    const bool cells = srv_masks_cells(call),
               text = !(call->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY));
    const double each = call->body.as == SRV_MASKS_KEEP ? 1.0 : sizeof(float);
    const double result = cells ? each * call->cells : 0, memory = srv_masks_memory(call);
    /* Memory for cells in a file is reserved after the mask is compiled. A dry run ends before
     * that. */
    const bool at_once = call->call.dry_run && !text;
    return (srv_cost){.cells = call->bound,
                      .operations = (call->body.against.count ? 3 : 1) * call->cells,
                      .weighted = call->bound,
                      .result = result,
                      .work = memory,
                      .text = cells && text ? TEXT_OF_FLAG * call->cells : 0,
                      .reserved = memory + (at_once ? result : 0)};
}

static void explain(void *data, srv_limits *limits) {
    const srv_masks_call *call = data;
    char shape[128];
    attn_text cells = {.arena = call->req->arena}, bytes = cells;
    attn_shape_text(call->dims, call->rank, shape, sizeof shape);
    attn_text_add(&cells, "a mask of shape %s has ", shape);
    attn_text_add(&bytes, "a mask of shape %s with %.4g batch entries needs up to", shape,
                  srv_masks_batches(call));
    if (cells.failed || bytes.failed)
        return;
    limits->cells.before = cells.data;
    limits->bytes.what = bytes.data;
}

static bool prepare(void *data) {
    srv_masks_call *call = data;
    if (!read_body(call))
        return false;
    call->call.cost = cost_of(call);
    return true;
}

static bool compile_one(srv_masks_call *call, const attn_mask_spec *spec, attn_mask **out) {
    srv_request *req = call->req;
    attn_error err = {0};
    if (attn_mask_new(spec, &call->shape, req->arena, out, &err))
        return srv_problem_error(req, &err);
    call->B = attn_mask_batches(*out);
    return !srv_warnings_of_mask(&call->warnings, req->arena, *out, &err) ||
           srv_problem_error(req, &err);
}

static bool compile(srv_masks_call *call) {
    const srv_scope scope = {call->req, srv_masks_fields, &call->body.given, ""};
    return compile_one(call, &call->body.spec, &call->mask) &&
           (!srv_given(&scope, "against") ||
            compile_one(call, &call->against_spec, &call->against));
}

/* Completes a dry run with a description of the mask in words, which is made from the compiled
 * mask. A mask beyond the limits has no words, because there is no memory to compile it. */
static bool describe(void *data, srv_dry *dry) {
    srv_masks_call *call = data;
    if (dry->fits && !compile(call))
        return false;
    dry->mask = dry->fits ? attn_mask_words(call->mask, call->req->arena) : NULL;
    dry->cells = call->cells;
    srv_dry_shape(dry, srv_masks_forms[call->body.as], call->rank, call->dims);
    return true;
}

static bool compute(void *data) {
    srv_masks_call *call = data;
    return compile(call) && (srv_draws(call->req) ||
                             (srv_mask_kept(call->req, call->mask, call->cells, &call->kept) &&
                              (!call->against || srv_masks_compare(call))));
}

srv_outcome srv_masks(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_masks_fields,
        .body = offsetof(srv_masks_call, body),
        .timeout = offsetof(srv_masks_call, body.timeout_ms),
        .dry_run = offsetof(srv_masks_call, body.dry_run),
        .unit_ns = 1,
        .limits = {.cells = {.before = "the mask has ", .what = "cells"}},
        .explain = explain,
        .prepare = prepare,
        .dry = describe,
        .compute = compute,
        .json = srv_masks_json,
        .text = srv_masks_text,
        .picture = srv_masks_picture,
    };
    srv_masks_call call = {.call.req = req, .body.figure = SRV_FIGURE_DEFAULTS};
    return srv_compute(&call, &steps);
}
