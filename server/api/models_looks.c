/* What POST /v1/models/{id}/attention answers. */
#include <string.h>

#include "api/models_looks.h"

static const srv_sequence *queries_of(const srv_looks *c, const attn_site *site, size_t b) {
    return site->kind == ATTN_SITE_ENCODER ? &c->source.items[b] : &c->target.items[b];
}

static bool look(const srv_looks *c, const attn_site *site, size_t b, srv_looked *out) {
    const size_t *d = site->weights.dims;
    const srv_sequence *rows = queries_of(c, site, b);
    const srv_sequence *cols =
        site->kind == ATTN_SITE_DECODER ? &c->read.items[b] : &c->source.items[b];
    srv_heat_input in = c->body.heatmap;
    const srv_look what = {.weights = (const float *)site->weights.data + b * d[1] * d[2] * d[3],
                           .heads = d[1],
                           .head_stride = d[2] * d[3],
                           .stride = d[3],
                           .rows = rows->length,
                           .cols = cols->length,
                           .batch = b,
                           .row_names = rows->tokens,
                           .col_names = cols->tokens};
    if (!in.heads.is && c->body.heads.count)
        in.heads = (srv_union){.is = SRV_U_INTS, .ints = c->body.heads};
    return srv_models_look(c->pass.req, &what, &in, out);
}

/* The weights of the chosen heads, [B, heads, L, S]; data NULL: no memory. */
static attn_tensor choose_heads(const srv_looks *c, const attn_tensor *all) {
    const size_t *d = all->dims, n = c->body.heads.count, matrix = d[2] * d[3];
    if (!n)
        return *all;
    float *to = attn_arena_zeroed(c->pass.req->arena, d[0] * n * matrix, sizeof *to);
    for (size_t i = 0; to && i < d[0] * n; i++) {
        const size_t head = (size_t)c->body.heads.values[i % n];
        memcpy(to + i * matrix, (const float *)all->data + (i / n * d[1] + head) * matrix,
               matrix * sizeof *to);
    }
    return attn_tensor_dense(to, ATTN_F32, 4, (size_t[4]){d[0], n, d[2], d[3]});
}

/* Rows behind the end of a shorter sequence look somewhere, which means nothing. */
static void clear_padding(const srv_looks *c, const attn_site *site, const attn_tensor *weights) {
    const size_t *d = weights->dims;
    for (size_t b = 0; b < d[0]; b++) {
        const size_t length = queries_of(c, site, b)->length;
        for (size_t h = 0; length < d[2] && h < d[1]; h++)
            memset((float *)weights->data + ((b * d[1] + h) * d[2] + length) * d[3], 0,
                   (d[2] - length) * d[3] * sizeof(float));
    }
}

static void put_heads(srv_json *j, const srv_looks *c, const attn_site *site) {
    srv_json_key(j, "heads");
    srv_json_array(j);
    for (size_t h = 0; h < srv_looks_heads(c, site); h++)
        srv_json_int(j, c->body.heads.count ? c->body.heads.values[h] : (int64_t)h);
    srv_json_array_end(j);
}

/* false: a problem is set. */
static bool put_site(srv_json *j, const srv_looks *c, const attn_site *site) {
    srv_json_object(j);
    srv_json_key(j, "kind");
    srv_json_string(j, srv_model_site_kinds[site->kind]);
    srv_json_key(j, "layer");
    srv_json_size(j, site->layer);
    put_heads(j, c, site);
    if ((c->body.returns & SRV_LOOKS_WEIGHTS) && !srv_looks_omit(c)) {
        const attn_tensor weights = choose_heads(c, &site->weights);
        j->failed = j->failed || !weights.data;
        srv_json_key(j, "weights");
        if (!j->failed) {
            clear_padding(c, site, &weights);
            srv_json_tensor(j, &weights);
        }
    }
    if (c->body.returns & SRV_LOOKS_HEATMAP) {
        srv_json_key(j, "heatmaps");
        srv_json_array(j);
        for (size_t b = 0; b < c->source.count; b++) {
            srv_looked looked;
            if (!look(c, site, b, &looked))
                return false;
            srv_heat_write(j, &looked.maps, &c->body.heatmap, &looked.labels);
        }
        srv_json_array_end(j);
    }
    srv_json_object_end(j);
    return true;
}

static void put_sequences(srv_json *j, const char *name, const srv_sequences *s) {
    srv_json_key(j, name);
    srv_json_array(j);
    for (size_t b = 0; b < s->count; b++)
        srv_models_put(j, &s->items[b]);
    srv_json_array_end(j);
}

static void put_omitted(srv_json *j, const srv_looks *c) {
    srv_json_key(j, "omitted");
    srv_json_object(j);
    srv_json_key(j, "weights");
    srv_json_object(j);
    srv_json_key(j, "values");
    srv_json_real(j, srv_looks_weights(c));
    srv_json_key(j, "how");
    srv_json_string(j, "ask by \"return\": \"weights\", or for a heatmap");
    srv_json_object_end(j);
    srv_json_object_end(j);
}

static void answer_json(const srv_looks *c) {
    srv_json j;
    srv_json_begin(&j, c->pass.req);
    j.decimals = (int)c->body.decimals;
    srv_json_object(&j);
    put_sequences(&j, "source", &c->source);
    put_sequences(&j, "target", &c->target);
    srv_json_key(&j, "sites");
    srv_json_array(&j);
    for (size_t i = 0; i < c->out.site_count; i++)
        if (c->wanted[i] && !put_site(&j, c, &c->out.sites[i]))
            return;
    srv_json_array_end(&j);
    if (c->body.returns & SRV_LOOKS_LOGITS) {
        srv_json_key(&j, "logits");
        srv_json_tensor(&j, &c->out.logits);
    }
    if (srv_looks_omit(c))
        put_omitted(&j, c);
    srv_warnings_write(&j, &c->warnings);
    srv_json_object_end(&j);
    srv_json_end(&j);
}

static void answer_text(const srv_looks *c) {
    attn_text t = srv_plain_begin(c->pass.req);
    for (size_t i = 0; i < c->out.site_count; i++)
        for (size_t b = 0; c->wanted[i] && b < c->source.count; b++) {
            srv_looked looked;
            if (!look(c, &c->out.sites[i], b, &looked))
                return;
            attn_text_add(&t, "%s", srv_model_site_kinds[c->out.sites[i].kind]);
            if (attn_model_configuration(c->pass.model->model)->architecture == ATTN_TRANSFORMER)
                attn_text_add(&t, ", layer %zu", c->out.sites[i].layer);
            attn_text_add(&t, "\n");
            srv_heat_text(&t, &looked.maps, &looked.labels, NULL);
        }
    srv_warnings_text(&t, &c->warnings);
    srv_plain_end(c->pass.req, &t);
}

/* One site as a picture: the last one of those that were asked for, by default the last layer's
 * attention across. */
static void answer_picture(const srv_looks *c) {
    srv_looked looked;
    const attn_site *site = NULL;
    for (size_t i = 0; i < c->out.site_count; i++)
        if (c->wanted[i])
            site = &c->out.sites[i];
    if (site && look(c, site, 0, &looked))
        srv_models_draw(c->pass.req, &looked, &c->body.heatmap, &c->body.figure, c->body.decimals);
}

void srv_looks_answer(const srv_looks *c) {
    if (srv_draws(c->pass.req))
        answer_picture(c);
    else if (srv_plain(c->pass.req))
        answer_text(c);
    else
        answer_json(c);
}
