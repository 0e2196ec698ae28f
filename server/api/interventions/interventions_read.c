/* Reads interventions of requests. */
#include "api/interventions/interventions_api.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const hows[] = {"zero", "mean", NULL};
static const char *const parts[] = {"input", "self_attention", "cross_attention", "feed_forward",
                                    NULL};

#define PLACE_ROWS                                                                                 \
    SRV_INT_ROW(srv_intervention, layer, 0, 1048576, "The layer of the site, from 0."),            \
        SRV_ENUM_ROW(                                                                              \
            srv_intervention, site, srv_model_site_kinds,                                          \
            "encoder, decoder or cross; default the only one, or decoder of a model with "         \
            "encoder and decoder."),                                                               \
        SRV_INT_ROW(srv_intervention, position, 0, 1048576,                                        \
                    "The token that changes, counted from 0 among those that the encoder or the "  \
                    "decoder reads, a begin token included; default all.")

const srv_field srv_ablate_fields[] = {
    PLACE_ROWS,
    SRV_INT_ROW(srv_intervention, head, 0, 1048576, "The head; default all of the layer."),
    SRV_ENUM_ROW(srv_intervention, how, hows,
                 "zero (default), or mean: the mean of the head's output over the tokens of all "
                 "texts of the request; of /explain over those of the text without interventions, "
                 "or of its references."),
    {0},
};
const srv_field srv_scale_fields[] = {
    PLACE_ROWS,
    SRV_INT_ROW(srv_intervention, head, 0, 1048576, "The head; default all of the layer."),
    SRV_REAL_ROW(srv_intervention, factor, -1e6, 1e6, "The factor.", .required = true),
    {0},
};
const srv_field srv_patch_fields[] = {
    PLACE_ROWS,
    SRV_INT_ROW(srv_intervention, head, 0, 1048576,
                "The head whose output is replaced; default the residual stream."),
    SRV_ENUM_ROW(srv_intervention, part, parts,
                 "Without head: the residual stream after this part of the layer; default "
                 "feed_forward, the output of the layer. input, which has no layer, is what the "
                 "first layer reads."),
    SRV_INT_ROW(srv_intervention, other_position, 0, 1048576,
                "The token of the other text; default position."),
    {0},
};

void srv_intervention_init(void *item) {
    *(srv_intervention *)item = (srv_intervention){
        .site = -1, .part = -1, .layer = -1, .head = -1, .position = -1, .other_position = -1};
}

/* The element of a list that is being read. */
typedef struct reading {
    const srv_scope *scope;
    const srv_model *model;
    const srv_intervened *of;
    const char *list;
    size_t index;
    const srv_intervention *item;
} reading;

static bool refuse(const reading *r, const char *name, const char *what, int64_t end,
                   int64_t found) {
    char at[64];
    snprintf(at, sizeof at, "%s/%zu/%s", r->list, r->index, name);
    if (found < 0)
        return srv_refuse(r->scope, SRV_VALUE, at, "expected %s from 0 to %" PRId64, what, end - 1);
    return srv_refuse(r->scope, SRV_VALUE, at, "expected %s from 0 to %" PRId64 ", found %" PRId64,
                      what, end - 1, found);
}

static bool refuse_word(const reading *r, const char *name, const char *text) {
    char at[64];
    snprintf(at, sizeof at, "%s/%zu/%s", r->list, r->index, name);
    return srv_refuse(r->scope, SRV_VALUE, at, text, r->model->id);
}

/* Sets the site, and checks layer and head. false: a problem is set. */
static bool read_site(const reading *r, attn_intervention *out) {
    const srv_intervention *in = r->item;
    size_t count, layers = 0, heads = 0;
    const attn_site *sites = attn_model_sites(r->model->model, &count);
    out->site = in->site >= 0                            ? (attn_site_kind)in->site
                : srv_models_reads(r->model, SRV_TARGET) ? ATTN_SITE_DECODER
                                                         : ATTN_SITE_ENCODER;
    for (size_t i = 0; i < count; i++)
        if (sites[i].kind == out->site) {
            layers++;
            heads = sites[i].heads;
        }
    if (!layers)
        return refuse_word(r, "site", "the model \"%s\" has no such attention: name its site");
    out->layer = in->layer < 0 ? 0 : (size_t)in->layer;
    out->head = in->head < 0 ? ATTN_EVERY : (size_t)in->head;
    if (out->part != ATTN_STREAM_INPUT && (in->layer < 0 || (size_t)in->layer >= layers))
        return refuse(r, "layer", "a layer", (int64_t)layers, in->layer);
    return in->head < (int64_t)heads || refuse(r, "head", "a head", (int64_t)heads, in->head);
}

static bool read_positions(const reading *r, attn_intervention *out) {
    const srv_intervention *in = r->item;
    const int side = out->site != ATTN_SITE_ENCODER;
    const size_t rows = r->of->rows[side], others = r->of->other_rows[side];
    const int64_t other = in->other_position < 0 ? in->position : in->other_position;
    if (rows && in->position >= (int64_t)rows)
        return refuse(r, "position", "a token", (int64_t)rows, in->position);
    out->position = in->position < 0 ? ATTN_EVERY : (size_t)in->position;
    out->from_position = in->other_position < 0 ? ATTN_EVERY : (size_t)in->other_position;
    if (out->kind < ATTN_PATCH_HEAD)
        return true;
    if (other >= (int64_t)others)
        return refuse(r, in->other_position < 0 ? "position" : "other_position",
                      "a token of the other text", (int64_t)others, other);
    if (other < 0 && rows != others)
        return refuse_word(r, "position",
                           "all tokens are patched only if both texts have the same number of "
                           "tokens: give the position");
    return true;
}

static bool read_item(const reading *r, attn_intervention_kind kind, attn_intervention *out) {
    const srv_intervention *in = r->item;
    *out = (attn_intervention){.kind = kind,
                               .part = ATTN_STREAM_FEED_FORWARD,
                               .sequence = r->of->sequence,
                               .factor = in->factor,
                               .from = r->of->other};
    if (kind == ATTN_ABLATE_ZERO && in->how == 1) {
        out->kind = ATTN_ABLATE_MEAN;
        out->from = r->of->references;
        out->from_count = r->of->num_references;
    }
    if (kind == ATTN_PATCH_HEAD && in->head < 0) {
        out->kind = ATTN_PATCH_STREAM;
        if (in->part >= 0)
            out->part = (attn_stream_part)in->part;
    }
    if (!read_site(r, out) || !read_positions(r, out))
        return false;
    if (kind == ATTN_PATCH_HEAD && in->head >= 0 && in->part >= 0)
        return refuse_word(r, "part", "part belongs to the residual stream: leave head out");
    if (out->kind == ATTN_PATCH_STREAM && out->site == ATTN_SITE_CROSS)
        return refuse_word(r, "site",
                           "the residual stream after cross attention is that of the decoder: give "
                           "site decoder and part cross_attention");
    if (out->kind == ATTN_PATCH_STREAM && out->part == ATTN_STREAM_CROSS_ATTENTION &&
        !(srv_models_reads(r->model, SRV_SOURCE) && out->site == ATTN_SITE_DECODER))
        return refuse_word(r, "part", "the model \"%s\" has no cross attention there");
    return true;
}

bool srv_interventions_read(const srv_scope *scope, const srv_model *model,
                            const srv_interventions *in, const srv_intervened *of,
                            attn_intervention **out, size_t *count) {
    const struct {
        const char *name;
        const srv_objects *list;
        attn_intervention_kind kind;
    } lists[] = {{"ablate", &in->ablate, ATTN_ABLATE_ZERO},
                 {"scale", &in->scale, ATTN_SCALE_HEAD},
                 {"patch", &in->patch, ATTN_PATCH_HEAD}};
    const size_t all = in->ablate.count + in->scale.count + in->patch.count;
    *count = 0;
    *out = attn_arena_zeroed(scope->req->arena, all + 1, sizeof **out);
    if (!*out)
        return srv_problem_memory(scope->req, NULL, "no memory for the interventions is left");
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l].list->count; i++) {
            const srv_intervention *items = lists[l].list->items;
            const reading r = {scope, model, of, lists[l].name, i, &items[i]};
            if (!read_item(&r, lists[l].kind, &(*out)[*count]))
                return false;
            ++*count;
        }
    return true;
}

bool srv_interventions_of_search(const srv_scope *scope, const srv_model *model,
                                 const srv_interventions *in, attn_intervention **out,
                                 size_t *count) {
    const srv_intervened of = {.sequence = ATTN_EVERY};
    for (int l = 0; l < 2; l++) {
        const srv_objects *list = l ? &in->scale : &in->ablate;
        const srv_intervention *items = list->items;
        for (size_t i = 0; i < list->count; i++) {
            char at[64];
            snprintf(at, sizeof at, "%s/%zu/%s", l ? "scale" : "ablate", i,
                     items[i].position < 0 ? "how" : "position");
            if (items[i].position >= 0 || (!l && items[i].how == 1))
                return srv_refuse(scope, SRV_VALUE, at,
                                  "tokens are generated one by one, so heads are set to zero or "
                                  "scaled at all positions: ask /explain for single positions and "
                                  "means");
        }
    }
    return srv_interventions_read(scope, model, in, &of, out, count);
}
