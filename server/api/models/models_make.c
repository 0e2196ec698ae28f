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

typedef struct body {
    uint64_t given;
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

static const char *const origins[] = {"embedded", "file", "made"};

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

/* Writes the number of parameters, in total and of each part. The part of a parameter is its name
 * up to the first dot. */
static void put_parameters(attn_json_text *j, const srv_model *m) {
    const attn_parameters *set = attn_model_parameters(m->model);
    char last[ATTN_PARAMETER_NAME] = "";
    attn_json_key_object(j, "num_parameters");
    attn_json_key_size(j, "total", attn_parameters_count(set, ""));
    attn_json_key_object(j, "parts");
    for (size_t i = 0; i < attn_parameters_length(set); i++) {
        char part[ATTN_PARAMETER_NAME];
        const char *name = attn_parameters_at(set, i)->name;
        snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "."), name);
        if (strcmp(part, last) != 0)
            attn_json_key_size(j, part, attn_parameters_count(set, part));
        memcpy(last, part, sizeof last);
    }
    attn_json_object_end(j);
    attn_json_object_end(j);
}

static void put_side(attn_json_text *j, const char *name, const attn_tokenizer *t) {
    attn_json_key_object(j, name);
    attn_json_key_size(j, "vocabulary", attn_tokenizer_size(t));
    attn_json_key_bool(j, "words", attn_tokenizer_has_texts(t));
    if (attn_tokenizer_kind_of(t) == ATTN_TOKENS_SUBWORDS)
        attn_json_key_bool(j, "subwords", true);
    attn_json_key_string(j, "language", attn_language_names[attn_tokenizer_language(t)]);
    attn_json_object_end(j);
}

/* Writes one entry for each kind of attention site: its number of layers, and the heads of a
 * layer. */
static void put_sites(attn_json_text *j, const attn_model *model) {
    size_t count;
    const attn_site *sites = attn_model_sites(model, &count);
    attn_json_key_array(j, "sites");
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && sites[i + 1].kind == sites[i].kind)
            continue;
        attn_json_object(j);
        attn_json_key_string(j, "kind", srv_model_site_kinds[sites[i].kind]);
        attn_json_key_size(j, "num_layers", sites[i].layer + 1);
        attn_json_key_size(j, "num_heads", sites[i].heads);
        attn_json_object_end(j);
    }
    attn_json_array_end(j);
}

static void put_setting(attn_json_text *j, const attn_model_setting *s,
                        const attn_model_config *c) {
    const void *at = (const char *)c + s->offset;
    attn_json_key(j, s->name);
    if (s->kind == ATTN_SETTING_WORD)
        attn_json_string(j, s->words[*(const int *)at]);
    else if (s->kind == ATTN_SETTING_FLAG)
        attn_json_bool(j, *(const bool *)at);
    else if (s->kind == ATTN_SETTING_SIZE)
        attn_json_size(j, *(const size_t *)at);
    else
        attn_json_real(j, *(const double *)at);
}

/* Writes the settings that the model has. An object for each side stands for its vocabulary. The
 * dropout of attention weights is left out if it is that of all. */
static void put_settings(attn_json_text *j, const srv_model *m) {
    const attn_model_config *c = attn_model_configuration(m->model);
    const bool other =
        c->attention_dropout_p < c->dropout_p || c->attention_dropout_p > c->dropout_p;
    for (const attn_model_setting *s = attn_model_settings; s->name; s++)
        if (!attn_model_has_setting(c, s))
            continue;
        else if (s->offset == offsetof(attn_model_config, source_vocabulary))
            put_side(j, "source", m->source);
        else if (s->offset == offsetof(attn_model_config, target_vocabulary))
            put_side(j, "target", m->target);
        else if (other || s->offset != offsetof(attn_model_config, attention_dropout_p))
            put_setting(j, s, c);
}

static void put_model(attn_json_text *j, const srv_model *m) {
    attn_json_object(j);
    attn_json_key_string(j, "origin", origins[m->origin]);
    attn_json_key_string(j, "id", m->id);
    if (*m->owner)
        attn_json_key_string(j, "owner", m->owner);
    if (m->durable)
        attn_json_key_bool(j, "durable", true);
    if (m->has_file)
        attn_json_key_bool(j, "checksums", m->sealed);
    put_settings(j, m);
    put_sites(j, m->model);
    attn_json_key_size(j, "bytes", m->bytes);
    put_parameters(j, m);
    attn_json_object_end(j);
}

static int by_id(const void *a, const void *b) {
    const srv_model *const *x = a, *const *y = b;
    return strcmp((*x)->id, (*y)->id);
}

srv_outcome srv_models_list(srv_request *req) {
    size_t count, first = 0;
    srv_listing listing;
    if (req->in_place && !srv_models_is_read(req, NULL))
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
    if (req->in_place && !srv_models_is_read(req, req->params[0]))
        return SRV_DEFER;
    const srv_model *model = srv_models_hold(req, req->params[0]);
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

static bool check_words(const srv_scope *scope, const char *name, const srv_strings *words) {
    char at[64];
    for (size_t i = 0; i < words->count; i++) {
        snprintf(at, sizeof at, "%s/%zu", name, i);
        if (!*words->values[i] || strchr(words->values[i], '\n'))
            return srv_refuse(scope, SRV_VALUE, at,
                              "expected a word that is neither empty nor has line breaks");
    }
    return true;
}

/* Makes the tokenizer of source or target: of its words or, without words, of `size` ids (0: not
 * given). */
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
    if (!check_words(scope, words_name, words))
        return false;
    if (!attn_tokenizer_of(words->values, words->count, (attn_language)language, out, &err))
        return true;
    return srv_problem_error_at(scope->req, &err,
                                (const srv_renamed[]){{err.where, words_name}, {NULL, NULL}});
}

/* Reads words and size of the source, which a decoder alone does not have. */
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
