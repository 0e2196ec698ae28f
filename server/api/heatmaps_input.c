/* The field table of POST /v1/heatmaps, and the shapes that follow from a body. */
#include <stddef.h>

#include "api/form_input.h"
#include "api/heatmaps_call.h"
#include "request/shared.h"

#define AT(member) offsetof(srv_heatmaps_body, member)

const srv_field srv_heatmaps_fields[] = {
    {.name = "weights",
     .kind = SRV_TENSOR,
     .offset = AT(weights),
     .accepts = SRV_T_REAL,
     .required = true,
     .doc = "[L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S] (with more batch axes behind "
            "the layers): row = query, column = key."},
    {.name = "labels",
     .kind = SRV_OBJECT,
     .offset = AT(labels),
     .fields = srv_label_fields,
     .doc = "Names of rows and columns."},
    {.name = "titles",
     .kind = SRV_STRINGS,
     .offset = AT(titles),
     .doc = "One title a head, for pictures and text."},
    {.name = "heatmap",
     .kind = SRV_OBJECT,
     .offset = AT(heatmap),
     .fields = srv_heat_fields,
     .init = srv_heat_init,
     .doc = "What the heatmaps hold."},
    {.name = "figure",
     .kind = SRV_OBJECT,
     .offset = AT(figure),
     .fields = srv_figure_fields,
     .init = srv_figure_init,
     .doc = "What a picture says around the heatmaps and looks like."},
    {.name = "decimals",
     .kind = SRV_INT,
     .offset = AT(decimals),
     .min = 0,
     .max = 17,
     .doc = "Round the numbers of the answer to so many decimals; default: their shortest text."},
    {.name = "dry_run",
     .kind = SRV_BOOL,
     .offset = AT(dry_run),
     .doc = "Draw nothing: answer the shapes and what the heatmaps would cost."},
    {.name = "timeout_ms",
     .kind = SRV_INT,
     .offset = AT(timeout_ms),
     .min = 1,
     .max = 86400000,
     .doc = "Give up after this time, if that is sooner than the service would."},
    {0},
};

static bool read_dims(srv_heatmaps_call *call, const srv_scope *scope) {
    const attn_tensor *w = &call->body.weights;
    attn_attention_dims *d = &call->dims;
    if (w->rank < 2)
        return srv_refuse(
            scope, SRV_SHAPE, "weights",
            "expected [L, S], [H, L, S], [B, H, L, S] or [layers, B, H, L, S], found rank %d",
            w->rank);
    d->L = w->dims[w->rank - 2];
    d->S = w->dims[w->rank - 1];
    d->Hq = w->rank > 2 ? w->dims[w->rank - 3] : 1;
    d->B = 1;
    for (int axis = 0; axis < w->rank - 3; axis++)
        d->B *= w->dims[axis]; /* its elements were decoded, so this cannot overflow but for 0 */
    return true;
}

bool srv_heatmaps_prepare(srv_heatmaps_call *call) {
    const srv_heatmaps_body *body = &call->body;
    const srv_scope scope = {call->req, srv_heatmaps_fields, body, ""};
    const attn_attention_dims *d = &call->dims;
    attn_tensor same;
    size_t count = 0;
    attn_error err = {0};
    if (!srv_parameter_read(&scope, "weights", &body->weights, false, &same, &count) ||
        !read_dims(call, &scope) || !srv_labels_check(&scope, &body->labels, d->L, d->S))
        return false;
    if (srv_given(&scope, "titles") && body->titles.count != d->Hq)
        return srv_refuse(&scope, SRV_SHAPE, "titles",
                          "expected %zu title%s (one a head), found %zu", d->Hq,
                          d->Hq == 1 ? "" : "s", body->titles.count);
    if (!srv_heat_options(call->req, &body->heatmap, d, &call->options) ||
        !srv_figure_check(call->req, &body->figure))
        return false;
    if (!attn_heatmap_cost(&call->options, d->B, d->Hq, d->L, d->S,
                           attn_pool_slots(call->req->app->pool), &call->cost, &err))
        return true;
    srv_heat_problem(call->req, &err);
    return false;
}
