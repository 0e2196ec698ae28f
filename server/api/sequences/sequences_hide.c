/* Reads the fields hide and token_mask. */
#include "api/sequences/sequences_api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, NULL, "no memory is left for the visible tokens");
}

static bool take(srv_request *req, srv_sequences *s) {
    for (size_t b = 0; b < s->count; b++) {
        srv_sequence *one = &s->items[b];
        if (!(one->keep = attn_arena_zeroed(req->arena, one->length, 1)))
            return no_memory(req);
        memset(one->keep, 1, one->length);
    }
    return true;
}

static bool hide_positions(const srv_scope *scope, const srv_int_lists *hide, srv_sequences *s) {
    if (hide->count != s->count)
        return srv_refuse(scope, SRV_SHAPE, "hide",
                          "expected %zu list%s of positions, one a source, found %zu", s->count,
                          attn_plural(s->count), hide->count);
    for (size_t b = 0; b < s->count; b++)
        for (size_t i = 0; i < hide->lists[b].count; i++) {
            const int64_t at = hide->lists[b].values[i];
            char name[64];
            if (at >= 0 && (uint64_t)at < s->items[b].length) {
                s->items[b].keep[at] = 0;
                continue;
            }
            if (s->count > 1)
                snprintf(name, sizeof name, "hide/%zu/%zu", b, i);
            else
                snprintf(name, sizeof name, "hide/%zu", i);
            return srv_refuse(scope, SRV_VALUE, name,
                              "the source has the positions 0 to %zu, found %" PRId64,
                              s->items[b].length - 1, at);
        }
    return true;
}

static bool apply_mask(const srv_scope *scope, const attn_tensor *mask, srv_sequences *s) {
    const int rank = mask->rank;
    if (mask->dtype == ATTN_BITS)
        return srv_refuse(scope, SRV_VALUE, "token_mask", SRV_BITS_MISSING);
    bool fits = mask->dims[rank - 1] == s->longest && (rank > 1 || s->count == 1) &&
                (rank < 2 || mask->dims[0] == s->count);
    for (int d = 1; d + 1 < rank; d++)
        fits = fits && mask->dims[d] == 1;
    if (!fits)
        return srv_refuse(scope, SRV_SHAPE, "token_mask",
                          "expected [%zu, %zu], one row a source and one element a token%s",
                          s->count, s->longest, s->count == 1 ? ", or one row alone" : "");
    for (size_t b = 0; b < s->count; b++)
        for (size_t i = 0; i < s->items[b].length; i++)
            if (!((const uint8_t *)mask->data)[b * s->longest + i])
                s->items[b].keep[i] = 0;
    return true;
}

static bool warn_of_blind(const srv_scope *scope, const srv_sequences *s, srv_warnings *warnings) {
    const char *name = srv_given(scope, "hide") ? "hide" : "token_mask";
    for (size_t b = 0; b < s->count; b++) {
        if (memchr(s->items[b].keep, 1, s->items[b].length))
            continue;
        const char *where = srv_where(scope, name);
        if (!where ||
            !srv_warnings_add(warnings, scope->req->arena, "nothing_visible", where,
                              "all tokens of source %zu are hidden: its weights are 0", b))
            return no_memory(scope->req);
    }
    return true;
}

bool srv_models_hide(const srv_scope *scope, const srv_sight_input *in, const srv_model *model,
                     srv_sequences *source, srv_warnings *warnings) {
    const bool hides = srv_given(scope, "hide"), masked = srv_given(scope, "token_mask");
    if (!hides && !masked)
        return true;
    if (!srv_models_reads(model, SRV_SOURCE))
        return srv_refuse(scope, SRV_VALUE, hides ? "hide" : "token_mask",
                          "the model \"%s\" has no source whose tokens could be hidden", model->id);
    if (!srv_models_attends(model))
        return srv_refuse(scope, SRV_VALUE, hides ? "hide" : "token_mask",
                          "the model \"%s\" has no attention from which tokens could be hidden",
                          model->id);
    return take(scope->req, source) && (!hides || hide_positions(scope, &in->hide, source)) &&
           (!masked || apply_mask(scope, &in->token_mask, source)) &&
           warn_of_blind(scope, source, warnings);
}

bool srv_models_hides(const srv_sequences *s) {
    return s->count && s->items[0].keep;
}

bool srv_models_keep(srv_request *req, const srv_sequences *s, const uint8_t **out) {
    *out = NULL;
    if (!srv_models_hides(s))
        return true;
    uint8_t *keep = attn_arena_zeroed(req->arena, s->count, s->longest);
    if (!keep)
        return no_memory(req);
    for (size_t b = 0; b < s->count; b++)
        memcpy(keep + b * s->longest, s->items[b].keep, s->items[b].length);
    *out = keep;
    return true;
}
