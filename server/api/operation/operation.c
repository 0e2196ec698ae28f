/* Reads the operation of a request. Refuses combinations of fields that a field table cannot
 * express. Computes the inputs and the shapes that depend on several fields. */
#include "api/operation/operation_api.h"

#include <stdio.h>
#include <string.h>

#include "request/shared.h"

_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(attn_precision) == sizeof(int),
               "SRV_ENUM stores an int");

const char srv_ragged_rows[] = "only batch entries differ in length; all vectors have one width";

void srv_operation_init(srv_operation *o) {
    o->in = attn_attention_defaults();
}

/* --- checks of fields against each other --- */

bool srv_operation_lacks_value(const srv_scope *scope) {
    return srv_given(scope, "key") && !srv_given(scope, "value") &&
           !srv_given(scope, "projections");
}

static bool check_company(const srv_scope *scope) {
    return srv_needs(scope, "value", "key", "send both, or neither for self-attention") &&
           srv_needs(scope, "past_key", "past_value", "a cache has keys and values") &&
           srv_needs(scope, "past_value", "past_key", "a cache has keys and values") &&
           srv_needs(scope, "num_kv_heads", "num_heads", "heads of queries come first");
}

static bool check_heads(const srv_scope *scope, const srv_operation *o) {
    if (srv_given(scope, "projections"))
        return srv_excludes(scope, "num_heads", "projections",
                            "projections have a num_heads of their own");
    if (o->in.layout == ATTN_BLD && !srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "layout",
            "layout BLD needs num_heads, which is not in this request: it says how the "
            "last axis is split");
    if (o->in.layout != ATTN_BLD && srv_given(scope, "num_heads"))
        return srv_refuse(
            scope, SRV_VALUE, "num_heads",
            "num_heads goes with layout BLD; in layout %s the shapes say how many heads "
            "there are",
            attn_layout_words[o->in.layout]);
    return true;
}

/* Checks the fields that block_table needs or excludes. */
static bool check_pages(const srv_scope *scope) {
    return srv_needs(scope, "block_table", "key", "key and value are the pools of blocks") &&
           srv_needs(scope, "block_table", "key_lengths",
                     "it says how many keys the blocks of each batch entry hold") &&
           srv_excludes(scope, "block_table", "past_key", "the blocks hold all keys") &&
           srv_excludes(scope, "block_table", "projections", "the blocks hold projected keys") &&
           srv_needs(scope, "block_layout", "block_table", "it is the order of axes in blocks");
}

bool srv_operation_check(const srv_operation *o, const srv_scope *scope) {
    return check_company(scope) && check_heads(scope, o) && check_pages(scope);
}

/* --- from the fields to inputs --- */

static void read_scale(srv_operation *o) {
    if (o->scale.is == SRV_U_NUMBER)
        o->in.scale = o->scale.number;
    else if (o->scale.is == SRV_U_TENSOR)
        o->in.scales = o->scale.tensor;
    else if (o->scale.is == SRV_U_FALSE)
        o->in.scale = 1;
}

static bool read_mask(srv_operation *o, const srv_scope *scope) {
    attn_mask_spec *spec = &o->in.mask;
    if (o->mask_positions) {
        spec->query_positions = o->in.query_positions;
        spec->key_positions = o->in.key_positions;
        if (!attn_mask_spec_placed(spec))
            return srv_refuse(scope, SRV_VALUE, "mask_positions",
                              "mask_positions needs query_positions, key_positions or both, which "
                              "are not in this request: masks then compare them");
    }
    if (o->is_causal)
        spec->layers[spec->count++] =
            (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (srv_given_inside(scope, (size_t)((const char *)&o->mask - (const char *)scope->given),
                         sizeof o->mask) &&
        !srv_mask_layers(scope, &o->mask, spec))
        return false;
    if (srv_given(scope, "attn_bias") &&
        !srv_mask_add(scope, spec, "attn_bias",
                      (attn_mask_layer){.kind = ATTN_LAYER_BIAS, .values = o->attn_bias}))
        return false;
    if (o->query_offset.is)
        srv_mask_offset(&o->query_offset, spec);
    return true;
}

static bool check_dropout(const srv_operation *o, const srv_scope *scope) {
    if (o->in.dropout_p > 0 && !srv_given(scope, "seed"))
        return srv_refuse(scope, SRV_VALUE, "dropout_p",
                          "dropout_p needs seed, which is not in this request: the same seed drops "
                          "the same weights");
    if (srv_given(scope, "seed") && !srv_given(scope, "dropout_p") && !srv_given(scope, "verify"))
        return srv_refuse(scope, SRV_VALUE, "seed",
                          "seed needs dropout_p or verify, which are not in this request");
    return true;
}

/* Returns whether a kind of position changes the scores. The other kinds change queries and
 * keys. */
static bool changes_scores(attn_position_kind kind) {
    return kind == ATTN_POSITION_ALIBI || kind == ATTN_POSITION_T5 ||
           kind == ATTN_POSITION_RELATIVE || kind == ATTN_POSITION_SHAW ||
           kind == ATTN_POSITION_DISENTANGLED;
}

/* Checks the kinds of position, and stores the positions in the inputs. If there are two,
 * in.score_position gets the one that changes scores. */
static bool read_positions(srv_operation *o, const srv_scope *scope) {
    srv_position_item *items = o->position.items;
    const size_t count = o->position.count;
    char at[32] = "/position";
    if (!count)
        return srv_refuse(scope, SRV_VALUE, "position", "expected one kind or two");
    for (size_t i = 0; i < count; i++) {
        if (!o->position.single)
            snprintf(at, sizeof at, "/position/%zu", i);
        if (!srv_position_check(scope, at, &items[i], o->in.allow_nonfinite, &o->parameters))
            return false;
    }
    const bool first_scores = changes_scores(items[0].position.kind);
    if (count == 2 && first_scores == changes_scores(items[1].position.kind))
        return srv_refuse(scope, SRV_VALUE, "position/1/kind",
                          "of two kinds one changes queries and keys (rotary, sinusoidal, learned) "
                          "and one the scores (alibi, t5, relative, shaw, "
                          "disentangled); found %s and %s",
                          attn_position_words[items[0].position.kind],
                          attn_position_words[items[1].position.kind]);
    o->position_item = count == 2 && first_scores;
    o->score_item = 1 - o->position_item;
    o->in.position = items[o->position_item].position;
    if (count == 2)
        o->in.score_position = items[o->score_item].position;
    return true;
}

void srv_operation_where(const srv_operation *o, attn_error *err) {
    static const char position[] = "position/", score[] = "score_position/";
    const bool second = strncmp(err->where, score, sizeof score - 1) == 0;
    const srv_position_item *items = o->position.items;
    if (!items || (!second && strncmp(err->where, position, sizeof position - 1) != 0))
        return;
    if (items[o->position_item].axes.count)
        srv_axes_where(&items[o->position_item].axes, "position/axes", err);
    const char *rest = strchr(err->where, '/');
    char where[sizeof err->where];
    if (o->position.single || !rest)
        return;
    snprintf(where, sizeof where, "position/%zu%.64s", second ? o->score_item : o->position_item,
             rest);
    memcpy(err->where, where, sizeof where);
}

static bool check_forms(srv_operation *o, const srv_scope *scope) {
    const attn_inputs *in = &o->in;
    const bool any = in->allow_nonfinite;
    size_t *n = &o->parameters;
    o->projections.allow_nonfinite = any;
    return (!srv_given(scope, "score") ||
            srv_score_check(scope, &in->score, &o->score_given, any, n)) &&
           (!srv_given(scope, "position") || read_positions(o, scope)) &&
           (!srv_given(scope, "normalizer") ||
            srv_normalizer_check(scope, &in->normalizer, &o->normalizer_given, any, n)) &&
           (!srv_given(scope, "mix") || srv_mix_check(scope, &in->mix, &o->mix_given, any, n)) &&
           (!srv_given(scope, "subtract") ||
            srv_subtract_check(scope, &in->subtract, &o->subtract_given, any, n)) &&
           (!srv_given(scope, "sinks") ||
            srv_parameter_check(scope, "sinks", &in->sinks, any, n)) &&
           /* the library checks the values of scales: rows without keys may have any */
           (!in->scales.rank || srv_parameter_check(scope, "scale", &in->scales, true, n)) &&
           (!srv_given(scope, "projections") ||
            srv_projections_check(scope, &o->projections, &o->projections_given, any, n));
}

/* Inserts an axis of length 1 in front of the last axis of a tensor [.., N]. */
static void add_axis(attn_tensor *t) {
    const int last = t->rank++;
    t->dims[last] = t->dims[last - 1];
    t->strides[last] = t->strides[last - 1];
    t->dims[last - 1] = 1;
}

/* If the query was sent without the axis L, adds this axis with length 1. A query without L is the
 * state [B, E] of a decoder, and the keys are the states [B, S, E] of an encoder. All scores except
 * scaled_dot were made for such a query (Bahdanau et al. 2015, Luong et al. 2015). If attn_bias,
 * attn_mask, grad_output and grad_logsumexp were sent without the axis, it is added to them,
 * too. */
static void read_one_query(srv_operation *o) {
    attn_inputs *in = &o->in;
    const struct {
        attn_tensor *t;
        bool *lacks; /* set to true if the tensor was sent without the axis; NULL: not needed */
    } others[] = {{&o->grad_output, NULL},
                  {&o->attn_bias, &o->bias_axis},
                  {&o->mask.attn_mask, &o->mask_axis}};
    bool leading =
        in->layout == ATTN_BHLE && in->key.rank >= 3 && in->query.rank == in->key.rank - 1;
    for (int a = 0; leading && a < in->query.rank - 1; a++)
        leading = in->query.dims[a] == in->key.dims[a];
    in->one_query = leading;
    if (!leading)
        return;
    if (in->grad_logsumexp.rank == in->query.rank - 1)
        in->grad_logsumexp.dims[in->grad_logsumexp.rank++] = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const bool lacks = others[i].t->rank >= 2 && others[i].t->rank <= in->query.rank;
        if (others[i].lacks)
            *others[i].lacks = lacks;
        if (lacks)
            add_axis(others[i].t);
    }
    add_axis(&in->query);
}

/* Returns the number of axes of length 1 in front of the last `rank` axes of the tensor. */
static int axes_in_front(const attn_tensor *t, int rank) {
    int count = t->rank > rank ? t->rank - rank : 0;
    for (int a = 0; a < count; a++)
        if (t->dims[a] != 1)
            return 0;
    return count;
}

/* Removes the `extra` axes of length 1 in front of the last `rank` axes, if the tensor has them. */
static void drop_axes_in_front(attn_tensor *t, int rank, int extra) {
    if (!extra || axes_in_front(t, rank) != extra)
        return;
    memmove(t->dims, t->dims + extra, (size_t)rank * sizeof *t->dims);
    memmove(t->strides, t->strides + extra, (size_t)rank * sizeof *t->strides);
    t->rank = rank;
}

/* Sets o->extra_axes, the number of axes of length 1 that a mask or bias adds in front of the
 * results: 1 if the scores are [L, S] and the mask is [1, L, S]. NumPy and PyTorch broadcast in the
 * same way. grad_output and grad_logsumexp may have these axes, too. */
static void read_extra_axes(srv_operation *o) {
    const int of_mask = axes_in_front(&o->mask.attn_mask, 2);
    const int of_bias = axes_in_front(&o->attn_bias, 2);
    if (o->in.layout != ATTN_BHLE || o->in.query.rank != 2 || o->projections.num_heads)
        return;
    o->extra_axes = of_mask > of_bias ? of_mask : of_bias;
    drop_axes_in_front(&o->grad_output, 2, o->extra_axes);
    drop_axes_in_front(&o->in.grad_logsumexp, 1, o->extra_axes);
}

/* If the request asks for projections by a seed, sets their shapes. Their values are drawn later,
 * by srv_operation_open. false: a problem is set. */
static bool read_projections(srv_operation *o, const srv_scope *scope) {
    const srv_scope inside = {scope->req, srv_projections_fields, &o->projections_given,
                              "projections"};
    attn_inputs shapes;
    attn_error err = {0};
    size_t made;
    if (!srv_given(&inside, "seed"))
        return true;
    if (attn_projections_declare(&o->in, &o->projections, &err) ||
        attn_projections_shape(&o->in, &o->projections, &shapes, &made, &err)) {
        srv_operation_where(o, &err);
        return srv_problem_error(scope->req, &err);
    }
    o->seeded = true;
    o->parameters += made;
    return true;
}

/* Returns whether the operation is so small that the kernel table `ref` computes it, which takes a
 * few microseconds. `ref` computes in double and rounds only the results to float32. Therefore
 * small answers agree with a calculation by hand and are equal on all processors. */
static bool is_small(const attn_inputs *in, const attn_attention_dims *d) {
    enum { SMALL = 8192 }; /* number of multiply-adds */
    const double cells = (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
    return !attn_isa_forced() && in->precision == ATTN_PRECISION_FP32 &&
           cells * (double)(d->score_width + d->value_width) <= SMALL;
}

attn_pages srv_operation_pages(const srv_operation *o) {
    return (attn_pages){
        .table = o->block_table, .lengths = o->mask.key_lengths, .layout = o->block_layout};
}

/* Makes an error of a cache or of blocks name the entry of a ragged batch: its only batch entry is
 * number 0 in the library. */
static void name_entry(const srv_operation *o, attn_error *err) {
    static const char *const fields[] = {"past_key", "past_value", "block_table", "key_lengths"};
    const char *rest;
    char where[sizeof err->where];
    for (size_t i = 0; o->is_entry && i < sizeof fields / sizeof *fields; i++) {
        const size_t n = strlen(fields[i]);
        if (strncmp(err->where, fields[i], n) || !strchr("/", err->where[n]))
            continue;
        rest = err->where[n] ? strchr(err->where + n + 1, '/') : NULL;
        snprintf(where, sizeof where, "%s/%zu%.64s", fields[i], o->entry, rest ? rest : "");
        memcpy(err->where, where, sizeof where);
        return;
    }
}

/* Sets o->shaped to the inputs, with the shapes that they have after projections and with gathered
 * keys. Chooses the kernel table `ref` for a small operation, and sets o->dims. Computes no
 * element. false: a problem is set. */
static bool read_shapes(srv_operation *o, srv_request *req) {
    attn_error err = {0};
    attn_status status = ATTN_OK;
    const bool projects = o->projections.num_heads > 0;
    o->shaped = &o->in;
    if (projects || o->block_table.rank) {
        const attn_pages pages = srv_operation_pages(o);
        o->shaped = attn_arena_take(req->arena, sizeof *o->shaped);
        status = !o->shaped ? attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the inputs")
                 : projects ? attn_projections_shape(&o->in, &o->projections, o->shaped, NULL, &err)
                            : attn_pages_shape(&o->in, &pages, o->shaped, &o->gathered, &err);
    }
    if (!status)
        status = attn_attention_shape(o->shaped, &o->dims, &err);
    if (!status && is_small(o->shaped, &o->dims)) {
        o->in.kernel = o->shaped->kernel = attn_isa_name(ATTN_ISA_REF);
        status = attn_attention_shape(o->shaped, &o->dims, &err);
    }
    if (status) {
        srv_operation_where(o, &err);
        name_entry(o, &err);
    }
    return !status || srv_problem_error(req, &err);
}

bool srv_operation_is_packed(const srv_operation *o) {
    return o->query_lengths.rank || o->cu_seqlens.rank;
}

bool srv_operation_is_ragged(const srv_operation *o) {
    return o->query_entries.count || o->key_entries.count || o->value_entries.count ||
           o->grad_output_entries.count || o->grad_logsumexp_entries.count ||
           o->past_key_entries.count || o->past_value_entries.count || srv_operation_is_packed(o);
}

bool srv_operation_settle(srv_operation *o, const srv_scope *scope) {
    o->valueless = srv_operation_lacks_value(scope);
    if (o->scale.is)
        read_scale(o);
    if (o->in.score.kind != ATTN_SCORE_scaled_dot)
        read_one_query(o);
    if (o->mask.attn_mask.rank > 2 || o->attn_bias.rank > 2)
        read_extra_axes(o);
    const bool seeds = o->in.dropout_p > 0 || srv_given(scope, "seed");
    return read_mask(o, scope) && (!seeds || check_dropout(o, scope)) && check_forms(o, scope) &&
           (!srv_given(scope, "projections") || read_projections(o, scope)) &&
           read_shapes(o, scope->req);
}

/* --- the operation of the library --- */

attn_status srv_operation_open(srv_operation *o, srv_request *req, srv_warnings *warnings,
                               attn_attention **out, attn_error *err) {
    attn_pool *pool = srv_request_pool(req);
    attn_status status = ATTN_OK;
    if (o->seeded)
        status = attn_projections_draw(&o->projections, pool, &req->control, req->arena, err);
    if (!status && o->projections.num_heads)
        status = attn_projections_apply(&o->in, &o->projections, pool, &req->control, req->arena,
                                        o->shaped, err);
    if (!status && o->block_table.rank) {
        const attn_pages pages = srv_operation_pages(o);
        status = attn_pages_gather(&o->in, &pages, pool, &req->control, req->arena, o->shaped, err);
    }
    o->shaped->pool = pool;
    o->shaped->control = &req->control;
    if (!status)
        status = attn_attention_new(o->shaped, req->arena, out, err);
    if (!status && o->shaped->mask.count > 0)
        status = srv_warnings_of_mask(warnings, req->arena, attn_attention_mask(*out), err);
    if (status)
        srv_operation_where(o, err);
    const bool given =
        o->in.query_positions.rank || o->in.key_positions.rank || o->in.position.axes.pairs.rank;
    return status || given || o->in.position.kind == ATTN_POSITION_NONE
               ? status
               : srv_warnings_of_position(warnings, req->arena, attn_attention_mask(*out),
                                          o->in.position.kind, err);
}
