/* GET and POST /v1/models, GET and DELETE /v1/models/{id}: the field table of a new model, and the
 * description, creation and deletion of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common/listing.h"
#include "api/models/models_api.h"
#include "api/models/models_call.h"
#include "jobs/jobs.h"
#include "request/shared.h"
#include "store/model_fields.h"
#include "wire/answer.h"

typedef struct body {
    srv_given_bits given;
    attn_model_config config;
    int source_language, target_language;
    int64_t seed;
    bool shared;
    srv_strings source_words, target_words;
} body;

#define SETTING_NEW(...)  SRV_MODEL_ROW(body, config, __VA_ARGS__)
#define SETTING_BOTH(...) SRV_MODEL_ROW(body, config, __VA_ARGS__)
#define SETTING_TRAIN(...)
#define SETTING_NONE(...)
#define SETTING(member, kind, words, least, most, use, of, sentence)                               \
    SETTING_##use(member, kind, words, least, most, sentence)

static const char *const origins[] = {"embedded", "file", "made", NULL};

const srv_field srv_models_fields[] = {
    ATTN_MODEL_SETTING_LIST(SETTING) SRV_FIELD_ROW(
        body, source_words, SRV_STRINGS,
        "Words of the source, from id 4 on. With them requests can send text and tokens.",
        .max = 1048572),
    SRV_FIELD_ROW(body, target_words, SRV_STRINGS,
                  "Words of the target, from id 4 on; for an encoder the names of its classes.",
                  .max = 1048572),
    SRV_ENUM_ROW(body, source_language, attn_language_names,
                 "Language rules that split source text into words: english (default), or french, "
                 "where an apostrophe ends a word."),
    SRV_ENUM_ROW(body, target_language, attn_language_names,
                 "Language rules of the target, like source_language."),
    SRV_INT_ROW(body, seed, 0, 9007199254740991.0, "Seed of the initial values; default 0."),
    SRV_BOOL_ROW(body, shared,
                 "The model belongs to everyone: all lists show it, and an admin deletes it."),
    {0},
};

/* --- description --- */

/* The layers of one kind of attention site, in the description of a model. */
typedef struct kind_answer {
    int kind;
    size_t layers, heads;
} kind_answer;

/* The description of a model in an answer. */
typedef struct model_answer {
    const srv_model *model;
    const srv_known *known; /* NULL: no other program wrote its files */
    bool is_known, loaded;  /* loaded: a known model that is in memory */
    attn_model_config config;
    struct {
#define HAS(member, ...) bool member;
        ATTN_MODEL_SETTING_LIST(HAS)
#undef HAS
    } has; /* which settings the model has */
    kind_answer kinds[ATTN_SITE_CROSS + 1];
    srv_objects sites; /* the entries at the front of `kinds`: the kinds that the model has */
} model_answer;

/* The vocabulary of source or target. */
typedef struct side_answer {
    size_t vocabulary;
    bool words, subwords;
    bool has_language;
    int language;
} side_answer;

static const srv_field side_rows[] = {
    SRV_ALWAYS("vocabulary", SRV_INT, side_answer, vocabulary, "Number of ids.",
               .type = "integer+4"),
    SRV_ALWAYS("words", SRV_BOOL, side_answer, words,
               "Whether text and tokens can be sent, not only ids."),
    SRV_IF_KNOWN("subwords", SRV_BOOL, side_answer, subwords,
                 "true: texts are split into sub-words, so no word is unknown. Absent for models "
                 "of whole words.",
                 .when = offsetof(side_answer, subwords)),
    SRV_IF_KNOWN("language", SRV_ENUM, side_answer, language,
                 "The rules that split its texts into words; absent if the model's files have "
                 "rules of their own.",
                 .choices = attn_language_names, .when = offsetof(side_answer, has_language)),
    {0},
};

static void put_side(attn_json_text *j, const model_answer *m, bool reads,
                     const attn_tokenizer *t) {
    side_answer side = {0};
    if (m->known && reads)
        side = (side_answer){.vocabulary = m->known->vocabulary,
                             .words = m->known->has_words,
                             .subwords = m->known->has_words};
    else if (!m->known && t)
        side = (side_answer){
            .vocabulary = attn_tokenizer_size(t),
            .words = attn_tokenizer_has_texts(t),
            .subwords = attn_tokenizer_kind_of(t) == ATTN_TOKENS_SUBWORDS,
            .has_language = true,
            .language = (int)attn_tokenizer_language(t),
        };
    if (side.vocabulary)
        srv_answer_object(j, side_rows, &side);
}

static void put_source(attn_json_text *j, const void *place) {
    const model_answer *m = place;
    put_side(j, m, attn_model_has_encoder(&m->config), m->known ? NULL : m->model->source);
}

static void put_target(attn_json_text *j, const void *place) {
    const model_answer *m = place;
    put_side(j, m, true, m->known ? NULL : m->model->target);
}

/* Writes the number of parameters of each part of the model. The name of a part is the name of its
 * parameters up to the first dot. */
static void put_parts(attn_json_text *j, const void *place) {
    const model_answer *m = place;
    const attn_parameters *set = attn_model_parameters(srv_models_shape(m->model));
    char last[ATTN_PARAMETER_NAME] = "";
    attn_json_object(j);
    for (size_t i = 0; i < attn_parameters_length(set); i++) {
        char part[ATTN_PARAMETER_NAME];
        const char *name = attn_parameters_at(set, i)->name;
        snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "."), name);
        if (strcmp(part, last) != 0)
            attn_json_key_size(j, part, attn_parameters_count(set, part));
        memcpy(last, part, sizeof last);
    }
    attn_json_object_end(j);
}

static void put_total(attn_json_text *j, const void *place) {
    const model_answer *m = place;
    attn_json_size(j, attn_parameters_count(attn_model_parameters(srv_models_shape(m->model)), ""));
}

static const srv_field kind_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, kind_answer, kind, "The kind.", .choices = srv_model_site_kinds),
    SRV_ALWAYS("num_layers", SRV_INT, kind_answer, layers, "Its layers.", .type = "integer+1"),
    SRV_ALWAYS("num_heads", SRV_INT, kind_answer, heads, "The heads of each layer.",
               .type = "integer+1"),
    {0},
};

static const srv_field parameter_rows[] = {
    SRV_WRITTEN("total", "integer+1", put_total, "All of them.", .always = true),
    SRV_WRITTEN("parts", "{integer+1}", put_parts, "Those of each part.", .always = true),
    {0},
};

static const srv_field registry_rows[] = {
    SRV_ALWAYS("origin", SRV_ENUM, srv_model, origin,
               "embedded: part of the program; file: a file of models_dir; made: by POST "
               "/v1/models or a job.",
               .choices = origins),
    SRV_ALWAYS("id", SRV_CHARS, srv_model, id, "The id in paths."),
    SRV_IF_KNOWN("owner", SRV_CHARS, srv_model, owner,
                 "The API key that it belongs to; absent if it is shared."),
    SRV_IF_KNOWN(
        "durable", SRV_BOOL, srv_model, durable,
        "Whether a model that was made over HTTP is a file of models_dir, which survives a "
        "restart; else absent.",
        .when = offsetof(srv_model, durable)),
    SRV_IF_KNOWN("checksums", SRV_BOOL, srv_model, sealed,
                 "Whether the file of the model has checksums, so that a changed one is refused. "
                 "Absent if it has no file.",
                 .when = offsetof(srv_model, has_file)),
    {0},
};

static const srv_field bytes_rows[] = {
    SRV_ALWAYS("bytes", SRV_INT, srv_model, bytes,
               "Of values and tables of positions; of a file of another program with its words."),
    {0},
};

static const srv_field known_rows[] = {
    SRV_ALWAYS("family", SRV_STRING, srv_known, family,
               "The family of a model whose files another program wrote, such as llama or bert; "
               "other models have none."),
    SRV_ALWAYS("file", SRV_CHARS, srv_known, file, "Its file or folder in models_dir."),
    {0},
};

/* Makes the row of a setting (ATTN_MODEL_SETTING_LIST) in the description of a model. A setting of
 * ALL models is in every description, but a setting that acts only in training (TRAIN) only if it
 * has an effect on the model. A setting of NONE is in no description. Any other setting is in the
 * descriptions of the models that have it. */
#define IS_TRAIN  true
#define IS_NEW    false
#define IS_BOTH   false
#define IS_NONE   false
#define TYPE_WORD NULL
#define TYPE_SIZE NULL
#define TYPE_REAL "number+"
#define TYPE_FLAG NULL
/* The words of `attention` have a schema of their own, AttentionOfModel. Without it, generators of
 * clients would name the enum ModelAttention, which is the name of another schema. TYPE_OF picks
 * its second argument: NAMED_attention gives two, and any other NAMED_x is no macro and gives one,
 * so that TYPE_<kind> is the second. */
#define NAMED_attention         0, "AttentionOfModel"
#define SECOND(first, two, ...) two
#define PICK(...)               SECOND(__VA_ARGS__)
#define TYPE_OF(member, what)   PICK(NAMED_##member, TYPE_##what, 0)
#define MEMBER(member, what, words, low, everyone, sentence)                                       \
    {.name = #member,                                                                              \
     .kind = SRV_MODEL_##what,                                                                     \
     .offset = offsetof(model_answer, config.member),                                              \
     .choices = words,                                                                             \
     .doc = sentence,                                                                              \
     .type = TYPE_OF(member, what),                                                                \
     .min = low,                                                                                   \
     .always = everyone,                                                                           \
     .when = offsetof(model_answer, has.member)},
#define MEMBER_ALL(member, what, words, low, use, sentence)                                        \
    MEMBER(member, what, words, low, !IS_##use, sentence)
#define MEMBER_SOME(member, what, words, low, use, sentence)                                       \
    MEMBER(member, what, words, low, false, sentence)
#define MEMBER_CHANGED      MEMBER_SOME
#define MEMBER_TRANSFORMERS MEMBER_SOME
#define MEMBER_SEQ2SEQ      MEMBER_SOME
#define MEMBER_BLOCK        MEMBER_SOME
#define MEMBER_GLOBAL       MEMBER_SOME
#define MEMBER_NONE(...)
#define MEMBER_KNOWN(...)
#define MEMBER_FIXED(...)
#define SETTING_MEMBER(member, what, words, low, high, use, of, sentence)                          \
    MEMBER_##of(member, what, words, low, use, sentence)

static const srv_field model_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, model_answer, model, NULL, .fields = registry_rows,
               .accepts = SRV_O_POINTER),
    SRV_IF_KNOWN("", SRV_OBJECT, model_answer, known, NULL, .fields = known_rows,
                 .accepts = SRV_O_POINTER),
    SRV_IF_KNOWN("loaded", SRV_BOOL, model_answer, loaded,
                 "Of such a model: whether it is in memory. The first request that needs it reads "
                 "it, and models_bytes bounds how many stay.",
                 .when = offsetof(model_answer, is_known)),
    ATTN_MODEL_FORM_LIST(SETTING_MEMBER) SRV_WRITTEN(
        "source", "ModelSide", put_source, "The words it reads; a decoder alone has none."),
    SRV_WRITTEN("target", "ModelSide", put_target, "The words or classes of the logits.",
                .always = true),
    ATTN_MODEL_SIZE_LIST(SETTING_MEMBER)
        SRV_ALWAYS("sites", SRV_OBJECTS, model_answer, sites,
                   "Layers of each kind of site, and heads of each layer.", .fields = kind_rows,
                   .size = sizeof(kind_answer)),
    SRV_ALWAYS("", SRV_OBJECT, model_answer, model, NULL, .fields = bytes_rows,
               .accepts = SRV_O_POINTER),
    SRV_GROUP("num_parameters", parameter_rows, "All learned numbers, and those of each part.",
              .always = true),
    {0},
};

static const srv_field models_rows[] = {SRV_LISTING_ROWS("models", "Model", "The models.")};

const srv_field srv_models_answers[] = {
    SRV_GROUP("Models", models_rows, NULL),
    SRV_GROUP("Model", model_rows,
              "A model. Settings of models without LSTMs are absent for seq2seq, as is padding for "
              "others; block_size and num_global_keys belong to the attention block and global; "
              "activation to head are absent where they have their defaults."),
    SRV_GROUP("ModelSide", side_rows, NULL),
    SRV_WRITTEN("AttentionOfModel", "string", NULL, "The attention of a model.",
                .choices = attn_model_attentions),
    {0},
};

/* Lists the kinds of attention sites that the model has, each with its number of layers and the
 * heads of a layer. */
static void list_kinds(model_answer *out) {
    size_t count;
    const attn_site *sites = attn_model_sites(srv_models_shape(out->model), &count);
    out->sites.items = out->kinds;
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || sites[i + 1].kind != sites[i].kind)
            out->kinds[out->sites.count++] =
                (kind_answer){(int)sites[i].kind, sites[i].layer + 1, sites[i].heads};
}

/* Writes the description of a model. attention_dropout_p is left out if it equals dropout_p. */
static void put_model(attn_json_text *j, const srv_model *model) {
    model_answer m = {.model = model,
                      .known = model->known,
                      .is_known = model->known,
                      .loaded = srv_models_is_loaded(srv_json_request(j), model),
                      .config = *attn_model_configuration(srv_models_shape(model))};
    const attn_model_config *c = &m.config;
    bool *has = (bool *)&m.has;
    for (size_t i = 0; attn_model_settings[i].name; i++)
        has[i] = attn_model_has_setting(c, &attn_model_settings[i]);
    m.has.attention_dropout_p =
        c->attention_dropout_p < c->dropout_p || c->attention_dropout_p > c->dropout_p;
    list_kinds(&m);
    srv_answer_object(j, model_rows, &m);
}

static int by_id(const void *a, const void *b) {
    const srv_model *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

srv_outcome srv_models_list(srv_request *req) {
    size_t count, first = 0;
    srv_listing listing;
    if (req->in_place && !srv_models_is_read(req, NULL, true))
        return SRV_DEFER;
    const srv_model **all = srv_listing_read(req, &listing) ? srv_models_all(req, &count) : NULL;
    if (!all)
        return SRV_DONE;
    qsort(all, count, sizeof *all, by_id);
    while (listing.after && first < count && strcmp(all[first]->id, listing.after) <= 0)
        first++;
    const size_t left = count - first, limit = (size_t)listing.limit,
                 end = first + (left < limit ? left : limit);
    attn_json_text j = srv_listing_begin(req, "models");
    for (size_t i = first; i < end; i++)
        put_model(&j, all[i]);
    srv_listing_end(&j, end < count ? all[end - 1]->id : NULL);
    for (size_t i = 0; i < count; i++)
        srv_models_release(req, all[i]);
    return SRV_DONE;
}

static bool describe_model(srv_request *req, const srv_model *model) {
    attn_json_text j;
    srv_json_begin(&j, req);
    put_model(&j, model);
    if (!srv_json_end(&j))
        return false;
    srv_reply_header(req, "Cache-Control", "no-store");
    return true;
}

srv_outcome srv_models_describe(srv_request *req) {
    if (req->in_place && !srv_models_is_read(req, req->params[0], true))
        return SRV_DEFER;
    const srv_model *model = srv_models_look(req, req->params[0]);
    if (model)
        describe_model(req, model);
    srv_models_release(req, model);
    return SRV_DONE;
}

srv_outcome srv_models_remove(srv_request *req) {
    if (srv_models_delete(req, req->params[0], srv_jobs_forget_model))
        srv_reply_set(req, 204, NULL, "", 0);
    return SRV_DONE;
}

/* --- creation --- */

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, NULL, "no memory for the words of the model");
}

/* Makes the tokenizer of source or target: from `words` or, if the request has no words, from the
 * number of ids `size`. A `size` of 0 says that the request does not have this number. false: a
 * problem is set. */
static bool read_side(const srv_scope *scope, const char *words_name, const char *size_name,
                      const srv_strings *words, size_t size, int language, attn_tokenizer **out) {
    attn_error err = {0};
    if (!srv_given(scope, words_name)) {
        if (!size)
            return srv_refuse(scope, SRV_VALUE, size_name,
                              "send %s, or %s: how many ids there are, the %d special ones "
                              "among them",
                              words_name, size_name, ATTN_SPECIALS);
        *out = attn_tokenizer_numbers(size, (attn_language)language);
        return *out || no_memory(scope->req);
    }
    if (size && size != words->count + ATTN_SPECIALS)
        return srv_refuse(scope, SRV_VALUE, size_name,
                          "expected %zu, the words and %d special ones, found %zu",
                          words->count + ATTN_SPECIALS, ATTN_SPECIALS, size);
    if (!attn_tokenizer_of(words->values, words->count, (attn_language)language, out, &err))
        return true;
    return srv_problem_error_at(scope->req, &err,
                                (const srv_renamed[]){{"", words_name}, {NULL, NULL}});
}

/* Makes the tokenizer of the source. For a decoder alone, which has no source, refuses the fields
 * of the source. false: a problem is set. */
static bool read_source(const srv_scope *scope, const body *b, attn_tokenizer **out) {
    static const char *const names[] = {"source_words", "source_vocabulary", "source_language"};
    if (attn_model_has_encoder(&b->config))
        return read_side(scope, "source_words", "source_vocabulary", &b->source_words,
                         b->config.source_vocabulary, b->source_language, out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (srv_given(scope, names[i]))
            return srv_refuse(scope, SRV_VALUE, names[i],
                              "a decoder alone has no source: send target_words, or "
                              "target_vocabulary");
    return true;
}

static void answer_made(srv_request *req, const srv_model *model) {
    attn_text location = {.arena = req->arena};
    attn_text_add(&location, "/v1/models/%s", model->id);
    if (location.failed)
        no_memory(req);
    else if (describe_model(req, model)) {
        req->reply.status = 201;
        srv_reply_header(req, "Location", location.data);
        return;
    }
    srv_models_discard(req, model);
}

srv_outcome srv_models_create(srv_request *req) {
    attn_tokenizer *source = NULL, *target = NULL;
    body b = {.config = attn_model_defaults()};
    const srv_scope scope = {req, srv_models_fields, &b.given, ""};
    if (!srv_decode(req, srv_models_fields, &b))
        return SRV_DONE;
    if (!read_source(&scope, &b, &source) ||
        !read_side(&scope, "target_words", "target_vocabulary", &b.target_words,
                   b.config.target_vocabulary, b.target_language, &target)) {
        attn_tokenizer_free(source);
        return SRV_DONE;
    }
    b.config.source_vocabulary = source ? attn_tokenizer_size(source) : 0;
    b.config.target_vocabulary = attn_tokenizer_size(target);
    const int64_t start = attn_now_ns();
    const srv_model *made =
        srv_models_make(req, &b.config, (uint64_t)b.seed, source, target, b.shared);
    req->compute_ns = attn_now_ns() - start;
    if (made)
        answer_made(req, made);
    srv_models_release(req, made);
    return SRV_DONE;
}
