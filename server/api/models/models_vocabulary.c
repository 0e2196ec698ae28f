/* GET /v1/models/{id}/vocabulary answers the words of a model in the order of their ids. */
#include "api/common/text_reply.h"
#include "api/models/models_api.h"
#include "api/models/models_call.h"

enum { WORDS_UNASKED = 65536 }; /* most words of a side in an answer whose request has no range */

typedef struct query {
    uint64_t given;
    unsigned sides; /* bits 1 << SRV_SOURCE and 1 << SRV_TARGET */
    srv_ranges ids;
} query;

static const char *const side_names[] = {"source", "target", NULL};

const srv_field srv_models_vocabulary_query[] = {
    SRV_NAMED_ROW(query, "side", sides, SRV_FLAGS, "The side: source, target or both (default).",
                  .choices = side_names),
    SRV_FIELD_ROW(
        query, ids, SRV_RANGES,
        "Range of ids, from:to or one id; default the first 65,536. A side that has fewer ids "
        "ends earlier.",
        .example = "\"0:256\""),
    {0},
};

typedef struct call {
    srv_request *req;
    const srv_model *model;
    query query;
    size_t from, to; /* range of ids */
} call;

static const attn_tokenizer *tokenizer(const call *c, int side) {
    return srv_models_tokenizer(c->model, side);
}

/* Tells whether the answer has the side: an encoder alone has its classes as target words, a decoder
 * alone has no source. */
static bool wants(const call *c, int side) {
    return tokenizer(c, side) && (!c->query.sides || (c->query.sides & 1u << side));
}

/* Sets the range of ids that the side has. */
static void range_of(const call *c, int side, size_t *from, size_t *to) {
    const size_t size = attn_tokenizer_size(tokenizer(c, side));
    *from = c->from < size ? c->from : size;
    *to = c->to < size ? c->to : size;
}

static bool decode(call *c) {
    const srv_scope scope = {c->req, srv_models_vocabulary_query, &c->query.given, ""};
    size_t most = 0;
    if (!srv_read_query(c->req, srv_models_vocabulary_query, &c->query))
        return false;
    for (int side = SRV_SOURCE; side <= SRV_TARGET; side++)
        if (wants(c, side) && attn_tokenizer_size(tokenizer(c, side)) > most)
            most = attn_tokenizer_size(tokenizer(c, side));
    c->to = most < WORDS_UNASKED ? most : WORDS_UNASKED;
    return srv_range(&scope, "ids", &c->query.ids, most, &c->from, &c->to);
}

static void put_side(attn_json_text *j, const call *c, int side) {
    size_t from, to;
    range_of(c, side, &from, &to);
    attn_json_key_object(j, side_names[side]);
    attn_json_key_size(j, "vocabulary", attn_tokenizer_size(tokenizer(c, side)));
    attn_json_key_array(j, "ids");
    attn_json_size(j, from);
    attn_json_size(j, to);
    attn_json_array_end(j);
    if (attn_tokenizer_has_texts(tokenizer(c, side))) {
        attn_json_key_array(j, "words");
        for (size_t id = from; id < to; id++)
            attn_json_string(j, attn_tokenizer_token(tokenizer(c, side), (int32_t)id));
        attn_json_array_end(j);
    }
    attn_json_object_end(j);
}

static void answer_json(const call *c) {
    attn_json_text j = srv_json_object(c->req);
    attn_json_key_object(&j, "special");
    for (int i = 0; i < ATTN_SPECIALS; i++)
        attn_json_key_int(&j, attn_special_names[i],
                          attn_tokenizer_special(c->model->target, (attn_special)i));
    attn_json_object_end(&j);
    for (int side = SRV_SOURCE; side <= SRV_TARGET; side++)
        if (wants(c, side))
            put_side(&j, c, side);
    srv_json_object_end(&j);
}

static void answer_text(const call *c) {
    attn_text t = srv_text_begin(c->req);
    for (int side = SRV_SOURCE; side <= SRV_TARGET; side++) {
        size_t from, to;
        if (!wants(c, side))
            continue;
        range_of(c, side, &from, &to);
        attn_text_add(&t, "%s: %zu ids%s\n", side_names[side],
                      attn_tokenizer_size(tokenizer(c, side)),
                      attn_tokenizer_has_texts(tokenizer(c, side)) ? "" : " without words");
        for (size_t id = from; attn_tokenizer_has_texts(tokenizer(c, side)) && id < to; id++)
            attn_text_add(&t, "%zu\t%s\n", id,
                          attn_tokenizer_token(tokenizer(c, side), (int32_t)id));
    }
    srv_text_end(c->req, &t);
}

srv_outcome srv_models_vocabulary(srv_request *req) {
    call c = {.req = req};
    if (req->in_place && !srv_models_is_read(req, req->params[0]))
        return SRV_DEFER;
    c.model = srv_models_hold(req, req->params[0]);
    if (c.model && decode(&c)) {
        if (srv_reads_text(req))
            answer_text(&c);
        else
            answer_json(&c);
    }
    srv_models_release(req, c.model);
    return SRV_DONE;
}
