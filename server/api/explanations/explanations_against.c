/* Compares the text of POST /v1/models/{id}/explain with `against`: the weights of each head, the
 * loss, and the logits. */
#include <math.h>

#include "api/explanations/explanations_call.h"
#include "base/try.h"
#include "request/shared.h"

enum { HEADS_PRINTED = 10 };
/* Upper bounds in bytes. TOKEN and HEAD: a token or a head of the answer in memory and as text.
 * SCRATCH: the scratch memory in which a thread computes the cells of a site and their differences,
 * except the memory of a row. */
enum { TOKEN = 384, HEAD = 384, SCRATCH = 5 << 20 };

const srv_field srv_explain_against_fields[] = {
    SRV_SIDE_ROWS(srv_explain_against, source, "", "token_ids",
                  "The second text, a single one, with the same target (default: the text itself)"),
    SRV_ABLATE_ROWS(srv_explain_against, interventions),
    SRV_PATCH_ROW(srv_explain_against, interventions),
    {0},
};

/* --- what is answered --- */

typedef struct compared_token {
    const char *token;
    int64_t id;
    double text, against, log_text, log_against;
} compared_token;

typedef struct compared_place {
    size_t position, position_against;
    const char *token, *token_against;
    srv_objects logits; /* array of compared_token */
} compared_place;

typedef struct compared_head {
    int kind;
    size_t layer, head, query, key;
    double total_variation, largest;
} compared_head;

typedef struct srv_explain_comparison {
    const srv_explain *call;
    srv_objects positions, heads; /* arrays of compared_place and compared_head */
    double loss_text, loss_against;
    size_t predicted_text, predicted_against;
} srv_explain_comparison;

/* --- weights --- */

/* One batch entry of a source, which is read as a source of its own without padding. */
typedef struct entry {
    const attn_weight_source *from;
    size_t batch;
} entry;

static attn_status fetch_entry(void *ctx, size_t lane, const attn_range *rows, float *weights,
                               float *logits, attn_error *err) {
    const entry *e = ctx;
    attn_range at = *rows;
    at.batch = e->batch;
    return e->from->fetch(e->from->ctx, lane, &at, weights, logits, err);
}

/* Returns whether the queries (or, if `keys` is true, the keys) of sites of this kind are tokens of
 * the decoder. */
static bool decodes(int kind, bool keys) {
    return kind == ATTN_SITE_DECODER || (kind == ATTN_SITE_CROSS && !keys);
}

/* Returns the number of queries (or, if `keys` is true, of keys) that a site has for a sequence. */
static size_t tokens_of(const srv_explain *c, const attn_site *site, size_t sequence, bool keys) {
    return decodes((int)site->kind, keys) ? c->targets.items[sequence].length + c->begins
                                          : c->sources.items[sequence].length;
}

static bool comparable(const srv_explain *c, const attn_site *site) {
    return tokens_of(c, site, 0, false) == tokens_of(c, site, c->against_text, false) &&
           tokens_of(c, site, 0, true) == tokens_of(c, site, c->against_text, true);
}

/* Compares the heads of a site. Writes the results to out [site->heads]. */
static attn_status compare_site(srv_explain *c, const attn_site *site, compared_head *out,
                                attn_error *err) {
    srv_request *req = c->pass.req;
    attn_pool *pool = srv_request_pool(req);
    const size_t lanes = attn_pool_slots(pool);
    attn_weight_source all, difference, sides[2];
    attn_head_sum *sums;
    ATTN_TRY(attn_attention_source(site->operation, site->stats, ATTN_STAGE_PROBS, lanes,
                                   req->arena, &all, err));
    entry entries[2] = {{&all, c->explained}, {&all, c->against}};
    for (int i = 0; i < 2; i++) {
        sides[i] = all;
        sides[i].batches = 1;
        sides[i].rows = tokens_of(c, site, 0, false);
        sides[i].cols = tokens_of(c, site, 0, true);
        sides[i].padding = NULL;
        sides[i].fetch = fetch_entry;
        sides[i].ctx = &entries[i];
    }
    ATTN_TRY(attn_difference_source(&sides[0], &sides[1], lanes, req->arena, &difference, err));
    ATTN_TRY(attn_head_sums(&difference, pool, &req->control, req->arena, &sums, err));
    for (size_t h = 0; h < site->heads; h++)
        out[h] = (compared_head){
            (int)site->kind, site->layer, h,
            sums[h].row,     sums[h].col, sums[h].magnitude / (2 * (double)sums[h].rows),
            sums[h].largest};
    return ATTN_OK;
}

static bool compare_heads(srv_explain *c, srv_explain_comparison *to) {
    size_t count = 0;
    attn_error err = {0};
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < c->out.site_count; i++)
        count += c->out.sites[i].heads;
    compared_head *heads = srv_explain_take(c, count, sizeof *heads);
    if (!heads)
        return false;
    to->heads = (srv_objects){heads, 0, false};
    for (size_t i = 0; !status && i < c->out.site_count; i++) {
        const attn_site *site = &c->out.sites[i];
        const attn_arena_mark mark = attn_arena_here(c->pass.req->arena);
        if (!comparable(c, site))
            continue;
        status = compare_site(c, site, heads + to->heads.count, &err);
        to->heads.count += site->heads;
        attn_arena_rewind(c->pass.req->arena, &mark);
    }
    if (status)
        return srv_problem_error(c->pass.req, &err);
    return to->heads.count == count ||
           srv_warnings_add(&c->warnings, c->pass.req->arena, "lengths_differ", "against",
                            "the text has %zu tokens and that of against has %zu, so heads whose "
                            "queries or keys they are cannot be compared cell by cell",
                            c->read.length, c->against_read.length) ||
           srv_problem_memory(c->pass.req, NULL, "no memory for the warnings is left");
}

/* --- logits --- */

/* Finds the tokens whose probabilities differ most at a place. */
static bool compare_at(srv_explain *c, size_t place, compared_place *out) {
    const size_t k = (size_t)c->body.top_k, V = c->out.logits.dims[2],
                 at = c->places[place].position,
                 other = c->body.positions.count ? at : c->against_read.length - 1;
    const float *rows[2] = {srv_explain_logits(c, c->explained, at),
                            srv_explain_logits(c, c->against, other)};
    float *scratch = srv_explain_take(c, V, 2 * sizeof *scratch), *differ = scratch + V;
    int32_t *ids = srv_explain_take(c, k, sizeof *ids);
    double *logs = srv_explain_take(c, k, sizeof *logs), all[2];
    compared_token *tokens = srv_explain_take(c, k, sizeof *tokens);
    attn_alternatives top = {.ids = ids, .log_probabilities = logs};
    const char *const *words;
    if (!scratch || !ids || !logs || !tokens)
        return false;
    for (int i = 0; i < 2; i++)
        attn_top_tokens(rows[i], V, 0, scratch, &top, &all[i]);
    for (size_t v = 0; v < V; v++)
        differ[v] =
            (float)fabs(exp((double)rows[0][v] - all[0]) - exp((double)rows[1][v] - all[1]));
    attn_top_tokens(differ, V, k, scratch, &top, NULL);
    if (!srv_explain_name(c, ids, top.count, &words))
        return false;
    for (size_t i = 0; i < top.count; i++) {
        const double text = (double)rows[0][ids[i]], against = (double)rows[1][ids[i]];
        tokens[i] =
            (compared_token){words[i], ids[i], text, against, text - all[0], against - all[1]};
    }
    *out = (compared_place){
        at, other, c->read.tokens[at], c->against_read.tokens[other], {tokens, top.count, false}};
    return true;
}

static bool compare_logits(srv_explain *c, srv_explain_comparison *to) {
    const bool predicts = srv_models_reads(c->pass.model, SRV_TARGET);
    compared_place *places = srv_explain_take(c, c->place_count, sizeof *places);
    if (!places)
        return false;
    for (size_t i = 0; i < c->place_count; i++)
        if (!compare_at(c, i, &places[i]))
            return false;
    to->positions = (srv_objects){places, c->place_count, false};
    to->predicted_text = predicts ? c->read.length - 1 : 0;
    to->predicted_against = predicts ? c->against_read.length - 1 : 0;
    return srv_explain_loss(c, c->explained, &c->read, &to->loss_text) &&
           srv_explain_loss(c, c->against, &c->against_read, &to->loss_against);
}

bool srv_explain_compare(srv_explain *c) {
    srv_explain_comparison *to = srv_explain_take(c, 1, sizeof *to);
    if (!to)
        return false;
    to->call = c;
    c->comparison = to;
    return compare_logits(c, to) && compare_heads(c, to);
}

/* --- cost --- */

void srv_explain_against_cost(const srv_explain *c, attn_model_cost *cost) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    size_t count;
    double widest = 0;
    const attn_site *sites = attn_model_sites(c->pass.model->model, &count);
    for (size_t i = 0; i < count; i++) {
        const size_t width = m->head_width ? m->head_width : m->width / sites[i].heads;
        const double keys = (double)tokens_of(c, &sites[i], 0, true);
        const double cells =
            (double)sites[i].heads * (double)tokens_of(c, &sites[i], 0, false) * keys;
        if (!comparable(c, &sites[i]))
            continue;
        cost->cells += 2 * cells;
        cost->operations += 4 * (double)width * cells;
        widest = keys > widest ? keys : widest;
    }
    cost->bytes += (SCRATCH + 32 * widest) * (double)attn_pool_slots(c->pass.req->app->pool);
}

double srv_explain_against_bytes(const srv_explain *c) {
    size_t count, heads = 0;
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const attn_site *sites = attn_model_sites(c->pass.model->model, &count);
    for (size_t i = 0; i < count; i++)
        heads += sites[i].heads;
    return (double)heads * HEAD + (double)c->against_read.length * TOKEN +
           (double)c->place_count *
               (TOKEN + 2 * (double)c->body.top_k * TOKEN + 8 * (double)m->target_vocabulary) +
           16 * (double)(c->read.length + c->against_read.length) +
           8 * (double)m->target_vocabulary + 4096;
}

/* --- JSON --- */

static void put_number(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)*(const double *)place);
}

#define NUMBER(name, T, member, text)                                                              \
    SRV_WRITTEN_AT(name, "number", put_number, T, member, text, .always = true)

static void put_tokens(attn_json_text *j, const void *place) {
    srv_models_put(j, &((const srv_explain_comparison *)place)->call->against_read);
}

static const srv_field loss_rows[] = {
    NUMBER("text", srv_explain_comparison, loss_text, "Of the text, in nats."),
    NUMBER("against", srv_explain_comparison, loss_against, "Of against."),
    SRV_ALWAYS("num_tokens", SRV_INT, srv_explain_comparison, predicted_text,
               "How many tokens of the text are predicted: all that are read but the first."),
    SRV_ALWAYS("num_tokens_against", SRV_INT, srv_explain_comparison, predicted_against,
               "And of against."),
    {0},
};

static void put_loss(attn_json_text *j, const void *place) {
    const srv_explain_comparison *o = place;
    if (o->predicted_text && o->predicted_against)
        srv_answer_object(j, loss_rows, o);
}

static const srv_field token_rows[] = {
    SRV_ALWAYS("token", SRV_STRING, compared_token, token, "The token that is predicted."),
    SRV_ALWAYS("id", SRV_INT, compared_token, id, "Its id."),
    NUMBER("text", compared_token, text, "Its logit behind the text."),
    NUMBER("against", compared_token, against, "Its logit behind against."),
    NUMBER("log_probability_text", compared_token, log_text,
           "The logarithm of its probability behind the text."),
    NUMBER("log_probability_against", compared_token, log_against, "And behind against."),
    {0},
};

static const srv_field place_rows[] = {
    SRV_ALWAYS("position", SRV_INT, compared_place, position,
               "The position among the tokens of the text."),
    SRV_ALWAYS("token", SRV_STRING, compared_place, token, "The token there."),
    SRV_ALWAYS("position_against", SRV_INT, compared_place, position_against,
               "The position among the tokens of against: the same one, or by default the last."),
    SRV_ALWAYS("token_against", SRV_STRING, compared_place, token_against, "The token there."),
    SRV_ALWAYS("logits", SRV_OBJECTS, compared_place, logits,
               "The tokens whose probabilities differ most, the one that differs most first.",
               .fields = token_rows, .size = sizeof(compared_token)),
    {0},
};

static const srv_field head_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, compared_head, kind, "The kind of the site.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("layer", SRV_INT, compared_head, layer, "Its layer, from 0."),
    SRV_ALWAYS("head", SRV_INT, compared_head, head, "The head, from 0."),
    NUMBER("total_variation", compared_head, total_variation,
           "Mean over rows of half the sum of |a - b|: 0 if all weights are equal, at most 1."),
    NUMBER("largest", compared_head, largest,
           "The difference of largest magnitude: a weight of the text minus that of against."),
    SRV_ALWAYS("query", SRV_INT, compared_head, query, "The query of that weight."),
    SRV_ALWAYS("key", SRV_INT, compared_head, key, "Its key."),
    {0},
};

const srv_field srv_explain_comparison_rows[] = {
    SRV_WRITTEN("tokens", "ModelTokens", put_tokens,
                "What the model reads of against, as tokens is what it reads of the text.",
                .always = true),
    SRV_WRITTEN("loss", "*", put_loss,
                "The mean cross entropy of the next tokens. An encoder, which does not predict the "
                "next token, has none.",
                .fields = loss_rows),
    SRV_ALWAYS("positions", SRV_OBJECTS, srv_explain_comparison, positions,
               "One for each position.", .fields = place_rows, .size = sizeof(compared_place)),
    SRV_ALWAYS("heads", SRV_OBJECTS, srv_explain_comparison, heads,
               "The heads of all sites whose queries and keys are as many in both.",
               .fields = head_rows, .size = sizeof(compared_head)),
    {0},
};

void srv_explain_put_comparison(attn_json_text *j, const void *explain) {
    const srv_explain *c = explain;
    if (c->comparison)
        srv_answer_object(j, srv_explain_comparison_rows, c->comparison);
}

/* --- text --- */

static void print_place(attn_text *t, const srv_explain *c, const compared_place *place) {
    const compared_token *tokens = place->logits.items;
    attn_text_add(t, "after %zu %s, against %zu %s: logit, probability\n", place->position,
                  srv_explain_shown(c, place->token), place->position_against,
                  srv_explain_shown(c, place->token_against));
    for (size_t k = 0; k < place->logits.count; k++)
        attn_text_add(t, "  %8.3f, %8.3f  %.4f, %.4f  %s\n", tokens[k].text, tokens[k].against,
                      exp(tokens[k].log_text), exp(tokens[k].log_against),
                      srv_explain_shown(c, tokens[k].token));
}

/* Returns the head that follows `last` in the order of falling differences; the first head if
 * `last` is NULL. NULL: there is no further head. */
static const compared_head *next_head(const srv_objects *heads, const compared_head *last) {
    const compared_head *all = heads->items, *best = NULL;
    for (const compared_head *h = all; h < all + heads->count; h++) {
        const bool behind = !last || h->total_variation < last->total_variation ||
                            (h->total_variation == last->total_variation && h > last);
        if (behind && (!best || h->total_variation > best->total_variation))
            best = h;
    }
    return best;
}

/* Returns the token of the text at a query or key position of a site of this kind. */
static const char *word_of(const srv_explain *c, int kind, size_t position, bool keys) {
    const char *token = (decodes(kind, keys) ? c->read : c->sources.items[0]).tokens[position];
    return srv_explain_shown(c, token);
}

void srv_explain_print_comparison(attn_text *t, const srv_explain *c) {
    const srv_explain_comparison *o = c->comparison;
    const compared_head *h = NULL;
    if (!o)
        return;
    const compared_place *places = o->positions.items;
    if (o->predicted_text && o->predicted_against)
        attn_text_add(t, "loss %.4f (%zu tokens), against %.4f (%zu)\n", o->loss_text,
                      o->predicted_text, o->loss_against, o->predicted_against);
    for (size_t i = 0; i < o->positions.count; i++)
        print_place(t, c, &places[i]);
    if (o->heads.count)
        attn_text_add(t, "heads that differ most: total variation, largest difference\n");
    for (int n = 0; n < HEADS_PRINTED && (h = next_head(&o->heads, h)); n++)
        attn_text_add(t, "  %s layer %zu head %zu: %.4f, %+.4f from %zu %s to %zu %s\n",
                      srv_model_site_kinds[h->kind], h->layer, h->head, h->total_variation,
                      h->largest, h->query, word_of(c, h->kind, h->query, false), h->key,
                      word_of(c, h->kind, h->key, true));
}
