/* POST /v1/models/{id}/heads scores every head of a model in three ways: on probes of random
 * tokens, on texts of the request, and by the pairs of words that the head connects in template
 * sentences. The service ships with the templates in config/head-templates.json. */
#include "api/heads/heads_call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/heads/heads_api.h"
#include "base/try.h"
#include "request/shared.h"
#include "system/embedded.h"
#include "wire/decode_value.h"

/* --- the request --- */

#define SHIPPED "head-templates.json"
enum { TEMPLATES = 32, SENTENCES = 256, TEXTS = 256 }; /* largest numbers in a request */

static const char *const parts[] = {"probes", "texts", "templates", "ids", NULL};

typedef struct sentence {
    srv_given_bits given;
    const char *text, *from, *to;
} sentence;

typedef struct relation {
    srv_given_bits given;
    const char *does;
    srv_objects sentences;
} relation;

static const srv_field sentence_fields[] = {
    SRV_FIELD_ROW(sentence, text, SRV_STRING, "The sentence.", .required = true),
    SRV_FIELD_ROW(sentence, from, SRV_STRING,
                  "The word whose row of weights is read, such as a pronoun: its last occurrence.",
                  .required = true),
    SRV_FIELD_ROW(sentence, to, SRV_STRING,
                  "The word on which its largest weight is to lie, such as the noun: its first "
                  "occurrence, but not the first token.",
                  .required = true),
    {0},
};

static const srv_field relation_fields[] = {
    SRV_FIELD_ROW(relation, does, SRV_STRING,
                  "What connects the words, such as \"pronoun to its noun\".", .required = true),
    SRV_FIELD_ROW(relation, sentences, SRV_OBJECTS, "Sentences with the two words of each.",
                  .required = true, .fields = sentence_fields, .size = sizeof(sentence),
                  .max = SENTENCES),
    {0},
};

const srv_field srv_heads_fields[] = {
    SRV_INT_ROW(srv_heads_body, probes, 1, 64,
                "Number of probes over which scores are averaged. Default 4."),
    SRV_INT_ROW(srv_heads_body, length, 1, 4096,
                "Number n of random tokens of a probe, which are then repeated. Default 48, or as "
                "many as the model reads and has, if these are fewer."),
    SRV_INT_ROW(srv_heads_body, seed, 0, 9007199254740991.0,
                "Seed of the random tokens: the same seed, the same probes. Default 0."),
    SRV_FIELD_ROW(srv_heads_body, text, SRV_TEXTS,
                  "Texts over which heads are scored, too, one or a list. The encoder reads them "
                  "if the model has one.",
                  .max = TEXTS),
    SRV_NAMED_ROW(srv_heads_body, "templates", relations, SRV_OBJECTS,
                  "Sentence templates of the request, in addition to those of the service.",
                  .fields = relation_fields, .size = sizeof(relation), .max = TEMPLATES),
    SRV_BOOL_ROW(srv_heads_body, shipped,
                 "Whether the templates of the service are used: pronouns and nouns, verbs and "
                 "subjects, closing and opening quotes and brackets, repeated names, items of "
                 "lists. Their sentences are English; those that the model cannot read are left "
                 "out. Default true."),
    SRV_NAMED_ROW(srv_heads_body, "return", returns, SRV_FLAGS,
                  "The parts of the answer: probes, texts (scores over the texts of the request), "
                  "templates (what heads connect), ids (those of the probes). Default probes, "
                  "templates if the model has words, and texts if there are any.",
                  .choices = parts),
    SRV_FIELD_ROW(srv_heads_body, sites, SRV_FLAGS,
                  "The attention sites: encoder, decoder, cross; default all that the model has.",
                  .choices = srv_model_site_kinds),
    SRV_FIELD_ROW(srv_heads_body, scores, SRV_FLAGS, "The scores; default all.",
                  .choices = srv_head_scores),
    SRV_ENUM_ROW(srv_heads_body, score, srv_head_scores,
                 "The score by which heads are sorted, the largest one first, and that a picture "
                 "shows as layers x heads: that of probes, or of texts if there are no probes. "
                 "Default induction, or the first of scores."),
    SRV_INT_ROW(srv_heads_body, top, 1, 1024,
                "Largest number of heads in the answer for each template. Default 5."),
    SRV_FIGURE_ROW(srv_heads_body, "Title, labels and style of the picture."),
    SRV_DECIMALS_ROW(srv_heads_body, SRV_SHORTEST),
    SRV_DRY_RUN_ROW(srv_heads_body, "Compute nothing: return the cost of the request."),
    SRV_TIMEOUT_ROW(srv_heads_body),
    {0},
};

static bool no_memory(const srv_heads_pass *c) {
    return srv_problem_memory(c->pass.req, NULL, "no memory is left for the scores of heads");
}

/* --- relations --- */

/* Reads the templates that ship with the service. They have the form of the templates in a
 * request. */
static bool read_shipped(const srv_heads_pass *c, srv_objects *out) {
    static const srv_field *rows = srv_heads_fields;
    srv_heads_body *file = attn_arena_zeroed(c->pass.req->arena, 1, sizeof *file);
    const srv_file *f = srv_embedded;
    srv_decoder d;
    while (f->name && strcmp(f->name, SHIPPED))
        f++;
    if (!file)
        return no_memory(c);
    srv_decode_begin(&d, c->pass.req);
    d.s.start = d.s.p = f->data;
    d.s.end = f->data + f->size;
    if (!srv_decode_document(&d, rows, file))
        return false;
    *out = file->relations;
    return true;
}

/* Appends templates to `to`, which has *n elements, and raises *n by their number. */
static bool add_relations(const srv_heads_pass *c, const srv_objects *templates, bool lenient,
                          attn_head_relation *to, size_t *n) {
    for (size_t r = 0; r < templates->count; r++) {
        const relation *in = (const relation *)templates->items + r;
        attn_head_sentence *list =
            attn_arena_array(c->pass.req->arena, in->sentences.count + 1, sizeof *list);
        if (!list)
            return no_memory(c);
        for (size_t i = 0; i < in->sentences.count; i++) {
            const sentence *s = (const sentence *)in->sentences.items + i;
            list[i] = (attn_head_sentence){s->text, s->from, s->to};
        }
        to[(*n)++] = (attn_head_relation){in->does, list, in->sentences.count, lenient};
    }
    return true;
}

/* Sets the problem for an error of the library. The path of the error is relative to the member
 * `name`. */
static bool refuse(const srv_heads_pass *c, const char *name, attn_error *err) {
    if (err->code == ATTN_ENOMEM)
        return no_memory(c);
    if (*name)
        attn_error_within(err->code, name, err);
    return srv_problem_error(c->pass.req, err);
}

/* Reads the templates of the request and, if they are wanted, those of the service. */
static bool read_relations(srv_heads_pass *c) {
    attn_arena *arena = c->pass.req->arena;
    srv_objects shipped = {0};
    attn_error err = {0};
    if (c->body.shipped && !read_shipped(c, &shipped))
        return false;
    const size_t most = c->body.relations.count + shipped.count;
    attn_head_relation *all = attn_arena_array(arena, most + 1, sizeof *all);
    c->relations = all;
    if (!all)
        return no_memory(c);
    if (!add_relations(c, &c->body.relations, false, all, &c->relation_count) ||
        !add_relations(c, &shipped, true, all, &c->relation_count))
        return false;
    return !attn_head_sentences(&c->subject, all, c->relation_count, arena, &c->words, &err) ||
           refuse(c, "templates", &err);
}

/* --- probes and texts --- */

/* Draws the probes. Without the field `length`, they have the greatest length that the model
 * allows. */
static bool draw(srv_heads_pass *c) {
    attn_arena *arena = c->pass.req->arena;
    attn_head_probes probes = {(size_t)c->body.probes, (size_t)c->body.length,
                               (uint64_t)c->body.seed};
    attn_error err = {0};
    attn_status status = ATTN_OK;
    if (!srv_given(&c->pass.scope, "length"))
        status = attn_head_probe_length(&c->subject, probes.length, arena, &probes.length, &err);
    if (!status)
        status = attn_head_draw(&c->subject, &probes, arena, &c->repeated, &c->separated, &err);
    c->body.length = (int64_t)probes.length;
    return !status || refuse(c, "", &err);
}

static bool read_texts(srv_heads_pass *c) {
    const srv_strings *text = &c->body.text;
    attn_error err = {0};
    if (!text->count)
        return srv_refuse(&c->pass.scope, SRV_VALUE, "text", "expected at least one text");
    if (!attn_head_texts(&c->subject, text->values, text->count, c->pass.req->arena, &c->texts,
                         &err))
        return true;
    if (text->count == 1)
        err.where[0] = 0;
    return refuse(c, "text", &err);
}

/* --- checks --- */

static bool has_words(const srv_heads_pass *c) {
    const attn_tokenizer *t =
        srv_models_tokenizer(c->pass.model, srv_models_text_side(c->pass.model));
    return t && attn_tokenizer_has_texts(t);
}

/* Completes `return`, the list of the parts of the answer, and checks it. false: a problem is
 * set. */
static bool settle_parts(srv_heads_pass *c) {
    const srv_scope *scope = &c->pass.scope;
    srv_heads_body *b = &c->body;
    const bool texts = srv_given(scope, "text"), templates = srv_given(scope, "templates");
    if (!srv_given(scope, "return"))
        b->returns = SRV_HEADS_PROBES | (texts ? (unsigned)SRV_HEADS_TEXTS : 0u) |
                     (has_words(c) ? (unsigned)SRV_HEADS_RELATIONS : 0u);
    if (srv_draws(c->pass.req)) /* a picture shows only scores */
        b->returns &= b->returns & SRV_HEADS_PROBES ? (unsigned)SRV_HEADS_PROBES : ~0u;
    if ((texts || templates || (b->returns & (SRV_HEADS_TEXTS | SRV_HEADS_RELATIONS))) &&
        !has_words(c))
        return srv_refuse(scope, SRV_VALUE,
                          texts       ? "text"
                          : templates ? "templates"
                                      : "return",
                          "the model \"%s\" has no words: its tokens are numbers",
                          c->pass.model->id);
    if ((b->returns & SRV_HEADS_TEXTS) && !texts)
        return srv_refuse(scope, SRV_VALUE, "return", "texts needs the field text");
    if (!b->returns)
        return srv_refuse(scope, SRV_VALUE, "return", "expected at least one, found an empty list");
    return true;
}

static bool has_site(const srv_heads_pass *c, unsigned kind) {
    size_t count;
    const attn_site *sites = attn_model_sites(c->pass.model->model, &count);
    for (size_t i = 0; i < count; i++)
        if ((unsigned)sites[i].kind == kind)
            return true;
    return false;
}

/* Checks the sites and the scores. */
static bool check_choices(srv_heads_pass *c) {
    const srv_scope *scope = &c->pass.scope;
    srv_heads_body *b = &c->body;
    if (!srv_models_attends(c->pass.model))
        return srv_refuse(scope, SRV_VALUE, "", "the model \"%s\" has no attention",
                          c->pass.model->id);
    for (unsigned kind = 0; kind <= ATTN_SITE_CROSS; kind++)
        if ((b->sites & 1u << kind) && !has_site(c, kind))
            return srv_refuse(scope, SRV_VALUE, "sites", "the model \"%s\" has no site %s",
                              c->pass.model->id, srv_model_site_kinds[kind]);
    if (srv_given(scope, "scores") && !b->scores)
        return srv_refuse(scope, SRV_VALUE, "scores", "expected at least one, found an empty list");
    c->wanted = b->scores ? b->scores : (1u << ATTN_HEAD_SCORES) - 1;
    if (!srv_given(scope, "score"))
        while (!(c->wanted & 1u << b->score))
            b->score++;
    if (!(c->wanted & 1u << b->score))
        return srv_refuse(scope, SRV_VALUE, "score", "%s is not among the scores of the request",
                          srv_head_scores[b->score]);
    return true;
}

/* --- cost --- */

/* Upper bounds in bytes: the text of a head without its scores, and of each of its scores. */
#define HEAD_TEXT  96.0
#define SCORE_TEXT 112.0

/* Adds the cost of a batch. The bytes are the maximum over the batches, because the memory of a
 * batch is released before the next one. */
static void add_batch(const srv_heads_pass *c, const attn_head_batch *batch,
                      attn_model_cost *cost) {
    const size_t slots = attn_pool_slots(c->pass.req->app->pool);
    if (!batch->count)
        return;
    const attn_model_cost one = attn_head_cost(&c->subject, batch, slots);
    cost->cells += one.cells;
    cost->operations += one.operations;
    cost->bytes = fmax(cost->bytes, one.bytes + one.fallback_bytes);
}

static void count_cost(srv_heads_pass *c) {
    attn_model_cost cost = {0};
    const double heads = (double)attn_head_count(c->subject.model, false);
    const double relations = (double)c->relation_count;
    const double listed = fmin(heads * relations, (double)c->body.top * relations);
    const double ids = (double)c->repeated.count *
                       (double)(c->repeated.source.longest + c->repeated.target.longest);
    add_batch(c, &c->repeated, &cost);
    add_batch(c, &c->separated, &cost);
    add_batch(c, &c->texts, &cost);
    add_batch(c, &c->words.batch, &cost);
    cost.bytes += heads * (2 * sizeof *c->by_probes + sizeof *c->heads) +
                  heads * relations * sizeof *c->related;
    srv_models_bill(&c->pass, &cost,
                    heads * (HEAD_TEXT + 2 * SCORE_TEXT * ATTN_HEAD_SCORES) + 512 * listed +
                        2 * 12 * ids);
}

static bool prepare(void *data) {
    srv_heads_pass *c = data;
    const srv_model *m = c->pass.model;
    c->subject = (attn_head_subject){.model = m->model,
                                     .source = srv_models_reads(m, SRV_SOURCE) ? m->source : NULL,
                                     .target = srv_models_reads(m, SRV_TARGET) ? m->target : NULL};
    if (!srv_figure_check(c->pass.req, &c->body.figure) || !settle_parts(c) || !check_choices(c))
        return false;
    const unsigned returns = c->body.returns;
    if (((returns & (SRV_HEADS_PROBES | SRV_HEADS_IDS)) && !draw(c)) ||
        ((returns & SRV_HEADS_TEXTS) && !read_texts(c)) ||
        ((returns & SRV_HEADS_RELATIONS) && !read_relations(c)))
        return false;
    count_cost(c);
    return true;
}

static bool add_shapes(void *data, srv_dry *dry) {
    const srv_heads_pass *c = data;
    srv_models_dry(&c->pass, dry);
    return true;
}

/* --- the computation --- */

/* Returns all heads of the model, with scores that are NaN. NULL: memory ran out. */
static attn_scored_head *make_heads(const srv_heads_pass *c) {
    const size_t count = attn_head_count(c->subject.model, false);
    attn_scored_head *heads = attn_arena_zeroed(c->pass.req->arena, count, sizeof *heads);
    for (size_t i = 0; heads && i < count; i++)
        for (int k = 0; k < ATTN_HEAD_SCORES; k++)
            heads[i].scores[k] = (attn_head_mean){0, NAN, NAN};
    return heads;
}

/* Computes the wanted scores of a batch and stores them in *heads. Makes *heads first if it is
 * NULL. */
static attn_status score(srv_heads_pass *c, const attn_head_batch *batch, unsigned wanted,
                         attn_scored_head **heads, attn_error *err) {
    srv_request *req = c->pass.req;
    if (!batch->count || !wanted)
        return ATTN_OK;
    if (!*heads)
        *heads = make_heads(c);
    ATTN_TAKEN(*heads, "the scores of heads", err);
    return attn_head_score_all(&c->subject, batch, wanted, req->arena, srv_request_pool(req),
                               &req->control, *heads, err);
}

/* Keeps the first `top` heads of each relation. Drops heads of other sites than the requested ones,
 * and heads without a hit. */
static attn_status keep_best(const srv_heads_pass *c, attn_related_head *list, size_t *count,
                             attn_error *err) {
    size_t kept = 0,
           *counts = attn_arena_zeroed(c->pass.req->arena, c->relation_count + 1, sizeof *counts);
    ATTN_TAKEN(counts, "what heads connect", err);
    for (size_t i = 0; i < *count; i++) {
        const bool wanted = !c->body.sites || (c->body.sites & 1u << list[i].kind);
        if (wanted && list[i].hits && counts[list[i].relation]++ < (size_t)c->body.top)
            list[kept++] = list[i];
    }
    *count = kept;
    return ATTN_OK;
}

/* Makes the answer from the kept heads of the relations, with a sentence about each. */
static attn_status tell_best(srv_heads_pass *c, const attn_related_head *list, size_t count,
                             attn_error *err) {
    srv_related_answer *all = attn_arena_zeroed(c->pass.req->arena, count + 1, sizeof *all);
    ATTN_TAKEN(all, "what heads connect", err);
    for (size_t i = 0; i < count; i++) {
        const attn_related_head *h = &list[i];
        const char *does = c->relations[h->relation].does;
        attn_text text = {.arena = c->pass.req->arena};
        if (c->subject.source && c->subject.target)
            attn_text_add(&text, "%s ", srv_model_site_kinds[h->kind]);
        attn_text_add(&text, "layer %zu, head %zu: %s, %zu of %zu sentence%s", h->layer, h->head,
                      does, h->hits, h->of, attn_plural(h->of));
        all[i] = (srv_related_answer){.site = (int)h->kind,
                                      .layer = h->layer,
                                      .head = h->head,
                                      .does = does,
                                      .hits = h->hits,
                                      .of = h->of,
                                      .weight = h->weight,
                                      .text = text.failed ? NULL : text.data};
        ATTN_TAKEN(all[i].text, "what heads connect", err);
    }
    c->related = all;
    c->related_count = count;
    return ATTN_OK;
}

static attn_status relate(srv_heads_pass *c, attn_error *err) {
    srv_request *req = c->pass.req;
    attn_related_head *list;
    size_t count;
    if (!(c->body.returns & SRV_HEADS_RELATIONS))
        return ATTN_OK;
    ATTN_TRY(attn_head_relate(&c->subject, &c->words, req->arena, srv_request_pool(req),
                              &req->control, &list, &count, err));
    ATTN_TRY(keep_best(c, list, &count, err));
    return tell_best(c, list, count, err);
}

/* Returns the score by which the head is sorted. NaN becomes the lowest value. */
static double sorted_by(const srv_head_answer *head) {
    const double x = srv_head_first(head)->scores[head->sorts].mean;
    return isnan(x) ? -INFINITY : x;
}

static int by_score(const void *a, const void *b) {
    const srv_head_answer *x = a, *y = b;
    const double left = sorted_by(x), right = sorted_by(y);
    if (left < right || left > right)
        return left > right ? -1 : 1;
    const attn_scored_head *p = srv_head_first(x), *q = srv_head_first(y);
    return p < q ? -1 : p > q; /* equal scores: by site, layer and head */
}

/* Lists the heads of the requested sites, sorted by their scores. If only the encoder reads the
 * texts, the heads of the decoder have no scores on texts. */
static bool list_heads(srv_heads_pass *c) {
    const size_t all = attn_head_count(c->subject.model, !c->by_probes && c->texts.encoder_only);
    const size_t read = attn_head_count(c->subject.model, c->texts.encoder_only);
    c->heads = attn_arena_zeroed(c->pass.req->arena, all + 1, sizeof *c->heads);
    if (!c->heads)
        return no_memory(c);
    if (!c->by_probes && !c->by_texts)
        return true;
    for (size_t i = 0; i < all; i++) {
        const attn_scored_head *own = c->by_probes ? c->by_probes + i : c->by_texts + i;
        if (!c->body.sites || (c->body.sites & 1u << own->kind))
            c->heads[c->head_count++] =
                (srv_head_answer){.site = (int)own->kind,
                                  .layer = own->layer,
                                  .head = own->head,
                                  .probes = c->by_probes ? own : NULL,
                                  .texts = c->by_texts && i < read ? c->by_texts + i : NULL,
                                  .sorts = (attn_head_score)c->body.score};
    }
    qsort(c->heads, c->head_count, sizeof *c->heads, by_score);
    return true;
}

static bool compute(void *data) {
    srv_heads_pass *c = data;
    const unsigned separator = 1u << ATTN_HEAD_SEPARATOR;
    const bool probes = c->body.returns & SRV_HEADS_PROBES;
    attn_error err = {0};
    attn_status status = ATTN_OK;
    if (probes)
        status = score(c, &c->repeated, c->wanted & ~separator, &c->by_probes, &err);
    if (!status && probes)
        status = score(c, &c->separated, c->wanted & separator, &c->by_probes, &err);
    if (!status)
        status = score(c, &c->texts, c->wanted, &c->by_texts, &err);
    if (!status)
        status = relate(c, &err);
    return status ? srv_problem_error(c->pass.req, &err) : list_heads(c);
}

srv_outcome srv_heads(srv_request *req) {
    static const srv_steps steps = {
        .fields = srv_heads_fields,
        SRV_BODY_OF(srv_heads_pass),
        SRV_MODEL_STEPS,
        .prepare = prepare,
        .dry = add_shapes,
        .compute = compute,
        .json = srv_heads_json,
        .text = srv_heads_text,
        .picture = srv_heads_picture,
    };
    srv_heads_pass c = {.pass.call.req = req,
                        .body = {.probes = 4,
                                 .length = 48,
                                 .top = 5,
                                 .shipped = true,
                                 .decimals = -1,
                                 .figure = SRV_FIGURE_DEFAULTS}};
    req->control.progress = NULL; /* each measure of a site would report its own progress */
    return srv_models_run(&c.pass, &steps);
}
