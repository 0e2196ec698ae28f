/* GET /v1/models/{id}/vocabulary answers the words of a model in the order of their ids. */
#include "api/common/text_reply.h"
#include "api/sequences/sequences_api.h"
#include "api/vocabulary/vocabulary_api.h"
#include "wire/answer.h"

/* The largest number of words of a side in an answer to a request without a range. */
enum { WORDS_UNASKED = 65536 };

typedef struct query {
    srv_given_bits given;
    unsigned sides; /* bits 1 << SRV_SOURCE and 1 << SRV_TARGET */
    srv_ranges ids;
} query;

static const char *const side_names[] = {"source", "target", NULL};

const srv_field srv_models_vocabulary_query[] = {
    SRV_NAMED_ROW(query, "side", sides, SRV_FLAGS, "The side, source or target; both without it.",
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

/* Returns whether the answer has the side. A model with only an encoder has a target side, whose
 * words are the classes. A model with only a decoder has no source. */
static bool wants(const call *c, int side) {
    return tokenizer(c, side) && (!c->query.sides || (c->query.sides & 1u << side));
}

/* Sets [*from, *to) to the part of the requested range of ids that the side has. */
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

/* --- the answer --- */

/* The words of a side in a range of ids. */
typedef struct words_answer {
    const attn_tokenizer *tokens;
    size_t size, range[2];
} words_answer;

static void put_range(attn_json_text *j, const void *place) {
    const size_t *range = place;
    attn_json_array(j);
    attn_json_size(j, range[0]);
    attn_json_size(j, range[1]);
    attn_json_array_end(j);
}

static void put_words(attn_json_text *j, const void *place) {
    const words_answer *w = place;
    if (!attn_tokenizer_has_texts(w->tokens))
        return;
    attn_json_array(j);
    for (size_t id = w->range[0]; id < w->range[1]; id++)
        attn_json_string(j, attn_tokenizer_token(w->tokens, (int32_t)id));
    attn_json_array_end(j);
}

static const srv_field words_rows[] = {
    SRV_ALWAYS("vocabulary", SRV_INT, words_answer, size, "Number of ids.", .type = "integer+4"),
    SRV_WRITTEN_AT("ids", "[integer+ 2]", put_range, words_answer, range, "[from, to) of the ids.",
                   .always = true),
    SRV_WRITTEN("words", "[string]", put_words,
                "Their words; absent if the model has none on this side."),
    {0},
};

static void put_side(attn_json_text *j, const call *c, int side) {
    words_answer w = {.tokens = tokenizer(c, side)};
    if (!wants(c, side))
        return;
    w.size = attn_tokenizer_size(w.tokens);
    range_of(c, side, &w.range[0], &w.range[1]);
    srv_answer_object(j, words_rows, &w);
}

static void put_source(attn_json_text *j, const void *place) {
    put_side(j, place, SRV_SOURCE);
}

static void put_target(attn_json_text *j, const void *place) {
    put_side(j, place, SRV_TARGET);
}

static int64_t special_id(const void *place, attn_special which) {
    return attn_tokenizer_special(((const call *)place)->model->target, which);
}

#define SPECIAL(what, which)                                                                       \
    static void put_##what(attn_json_text *j, const void *place) {                                 \
        attn_json_int(j, special_id(place, which));                                                \
    }
SPECIAL(pad, ATTN_SPECIAL_PAD)
SPECIAL(begin, ATTN_SPECIAL_BEGIN)
SPECIAL(end, ATTN_SPECIAL_END)
SPECIAL(unknown, ATTN_SPECIAL_UNKNOWN)

static const srv_field special_rows[] = {
    SRV_WRITTEN("pad", "integer", put_pad, "Of padding.", .always = true),
    SRV_WRITTEN("begin", "integer", put_begin, "Before a target.", .always = true),
    SRV_WRITTEN("end", "integer", put_end, "After a target.", .always = true),
    SRV_WRITTEN("unknown", "integer", put_unknown, "Of words that the vocabulary lacks.",
                .always = true),
    {0},
};

static const srv_field vocabulary_rows[] = {
    SRV_GROUP("special", special_rows, "The ids of <pad>, <bos>, <eos> and <unk>, on both sides.",
              .always = true),
    SRV_WRITTEN("source", "ModelWords", put_source, "The words of the source."),
    SRV_WRITTEN("target", "ModelWords", put_target, "The words of the target."),
    {0},
};

const srv_field srv_vocabulary_answers[] = {
    SRV_GROUP("ModelVocabulary", vocabulary_rows, NULL),
    SRV_GROUP("ModelWords", words_rows, NULL),
    {0},
};

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
    if (req->in_place && !srv_models_is_read(req, req->params[0], false))
        return SRV_DEFER;
    c.model = srv_models_hold(req, req->params[0]);
    if (c.model && decode(&c)) {
        if (srv_reads_text(req))
            answer_text(&c);
        else
            srv_answer_reply(req, vocabulary_rows, &c);
    }
    srv_models_release(req, c.model);
    return SRV_DONE;
}
