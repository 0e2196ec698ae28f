/* The answer of POST /v1/models/{id}/explain: the effect of interventions, the logit lens, and
 * direct contributions. */
#include <math.h>
#include <string.h>

#include "api/explanations/explanations_api.h"
#include "api/explanations/explanations_call.h"

/* Upper bound in bytes of a token of the answer, in memory and as text. */
enum { TOKEN = 320 };

/* --- what is answered --- */

typedef struct changed_token {
    const char *token;
    int64_t id;
    double before, after, log_before, log_after;
} changed_token;

typedef struct changed_place {
    size_t position;
    const char *token;
    srv_objects logits; /* array of changed_token */
} changed_place;

typedef struct lens_token {
    const char *token;
    int64_t id;
    double log_probability;
} lens_token;

typedef struct lens_layer {
    size_t num_layers;
    srv_objects tokens; /* array of lens_token */
} lens_layer;

typedef struct lens_place {
    size_t position;
    const char *token;
    srv_objects layers; /* array of lens_layer */
} lens_place;

typedef struct numbers {
    const double *values;
    size_t count;
} numbers;

typedef struct site_part {
    int kind;
    size_t layer;
    numbers heads;
} site_part;

typedef struct contribution {
    size_t position;
    const char *token, *of;
    int64_t id;
    double logit, embedding, bias, patched;
    srv_objects sites; /* array of site_part */
    numbers feed_forward;
} contribution;

static size_t vocabulary(const srv_explain *c) {
    return attn_model_configuration(c->pass.model->model)->target_vocabulary;
}

/* Finds the most probable tokens without interventions, and their logits with and without them. */
static bool change_at(srv_explain *c, const attn_place *place, changed_place *out) {
    const size_t k = (size_t)c->body.top_k, V = vocabulary(c);
    const float *rows[2] = {srv_explain_logits(c, 0, place->position),
                            srv_explain_logits(c, 1, place->position)};
    float *scratch = srv_explain_take(c, V, sizeof *scratch);
    double *logs = srv_explain_take(c, k, 2 * sizeof *logs), all;
    int32_t *ids = srv_explain_take(c, k, sizeof *ids);
    changed_token *tokens = srv_explain_take(c, k, sizeof *tokens);
    const char *const *words;
    attn_alternatives top = {.ids = ids, .log_probabilities = logs};
    if (!scratch || !logs || !ids || !tokens)
        return false;
    attn_top_tokens(rows[0], V, k, scratch, &top, NULL);
    attn_alternatives none = {.ids = ids, .log_probabilities = logs};
    attn_top_tokens(rows[1], V, 0, scratch, &none, &all);
    if (!srv_explain_name(c, ids, top.count, &words))
        return false;
    for (size_t i = 0; i < top.count; i++)
        tokens[i] = (changed_token){words[i],
                                    ids[i],
                                    (double)rows[0][ids[i]],
                                    (double)rows[1][ids[i]],
                                    logs[i],
                                    (double)rows[1][ids[i]] - all};
    *out = (changed_place){
        place->position, c->read.tokens[place->position], {tokens, top.count, false}};
    return true;
}

static bool find_changes(srv_explain *c) {
    changed_place *places = srv_explain_take(c, c->place_count, sizeof *places);
    if (!places)
        return false;
    for (size_t i = 0; i < c->place_count; i++)
        if (!change_at(c, &c->places[i], &places[i]))
            return false;
    c->changes = (srv_objects){places, c->place_count, false};
    c->num_predicted = srv_models_reads(c->pass.model, SRV_TARGET) ? c->read.length - 1 : 0;
    return srv_explain_loss(c, 0, &c->read, &c->loss_before) &&
           srv_explain_loss(c, 1, &c->read, &c->loss_after);
}

static bool lens_at(srv_explain *c, const attn_lens *lens, size_t place, lens_place *out) {
    lens_layer *layers = srv_explain_take(c, lens->layers, sizeof *layers);
    for (size_t l = 0; layers && l < lens->layers; l++) {
        const attn_alternatives *top = &lens->top[place * lens->layers + l];
        lens_token *tokens = srv_explain_take(c, top->count, sizeof *tokens);
        const char *const *words;
        if (!tokens || !srv_explain_name(c, top->ids, top->count, &words))
            return false;
        for (size_t i = 0; i < top->count; i++)
            tokens[i] = (lens_token){words[i], top->ids[i], top->log_probabilities[i]};
        layers[l] = (lens_layer){l, {tokens, top->count, false}};
    }
    const size_t position = c->places[place].position;
    *out = (lens_place){position, c->read.tokens[position], {layers, lens->layers, false}};
    return layers;
}

static bool find_lens(srv_explain *c) {
    attn_lens lens;
    attn_error err = {0};
    lens_place *places = srv_explain_take(c, c->place_count, sizeof *places);
    if (!places)
        return false;
    if (attn_model_lens(c->out.activations, (size_t)c->body.top_k, NULL, c->pass.req->arena,
                        &c->pass.req->control, &lens, &err))
        return srv_problem_error(c->pass.req, &err);
    for (size_t i = 0; i < c->place_count; i++)
        if (!lens_at(c, &lens, i, &places[i]))
            return false;
    c->lenses = (srv_objects){places, c->place_count, false};
    return true;
}

/* Lists the logits whose contributions were requested. NULL: a problem is set. */
static attn_wanted_logit *list_logits(srv_explain *c, size_t *count) {
    const srv_ints *list = &c->body.logit_ids;
    const size_t each = list->count ? list->count : 1, V = vocabulary(c);
    attn_wanted_logit *wanted = srv_explain_take(c, c->place_count * each, sizeof *wanted);
    *count = c->place_count * each;
    for (size_t i = 0; wanted && i < *count; i++) {
        const attn_place *place = &c->places[i / each];
        const float *row = srv_explain_logits(c, place->sequence, place->position);
        size_t best = 0;
        for (size_t v = 1; v < V; v++)
            best = row[v] > row[best] ? v : best;
        wanted[i] = (attn_wanted_logit){i / each, list->count ? (int32_t)list->values[i % each]
                                                              : (int32_t)best};
    }
    return wanted;
}

static bool contribution_of(srv_explain *c, const attn_wanted_logit *wanted,
                            const attn_contributions *found, contribution *out) {
    size_t count, n = 0;
    const attn_site *sites = attn_model_sites(c->pass.model->model, &count);
    site_part *parts = srv_explain_take(c, count, sizeof *parts);
    const size_t position = c->places[wanted->place].position;
    const char *const *words;
    if (!parts || !srv_explain_name(c, &wanted->id, 1, &words))
        return false;
    for (size_t i = 0; i < count; i++)
        if (found->heads[i])
            parts[n++] =
                (site_part){(int)sites[i].kind, sites[i].layer, {found->heads[i], sites[i].heads}};
    *out = (contribution){.position = position,
                          .token = c->read.tokens[position],
                          .of = words[0],
                          .id = wanted->id,
                          .logit = found->logit,
                          .embedding = found->embedding,
                          .bias = found->bias,
                          .patched = found->patched,
                          .sites = {parts, n, false},
                          .feed_forward = {found->feed_forward, found->layers}};
    return true;
}

static bool find_contributions(srv_explain *c) {
    size_t count;
    attn_error err = {0};
    const attn_wanted_logit *wanted = list_logits(c, &count);
    attn_contributions *found = srv_explain_take(c, count, sizeof *found);
    contribution *out = srv_explain_take(c, count, sizeof *out);
    if (!wanted || !found || !out)
        return false;
    if (attn_model_contributions(c->out.activations, wanted, count, c->pass.req->arena,
                                 &c->pass.req->control, found, &err))
        return srv_problem_error(c->pass.req, &err);
    for (size_t i = 0; i < count; i++)
        if (!contribution_of(c, &wanted[i], &found[i], &out[i]))
            return false;
    c->contributions = (srv_objects){out, count, false};
    return true;
}

bool srv_explain_results(srv_explain *c) {
    const unsigned wanted = c->body.returns;
    return (!(wanted & SRV_EXPLAIN_CHANGE) || find_changes(c)) &&
           (!(wanted & SRV_EXPLAIN_LENS) || find_lens(c)) &&
           (!(wanted & SRV_EXPLAIN_CONTRIBUTIONS) || find_contributions(c)) &&
           (!c->compares || srv_explain_compare(c));
}

double srv_explain_bytes(const srv_explain *c) {
    size_t count, heads = 0;
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    const attn_site *sites = attn_model_sites(c->pass.model->model, &count);
    const unsigned wanted = c->body.returns;
    const double n = (double)c->place_count, k = (double)c->body.top_k;
    const double layers =
        1 + (double)(m->num_layers > m->num_decoder_layers ? m->num_layers : m->num_decoder_layers);
    const double logits = n * (double)(c->body.logit_ids.count ? c->body.logit_ids.count : 1);
    for (size_t i = 0; i < count; i++)
        heads += 8 + sites[i].heads;
    double bytes = (double)c->read.length * 2 * TOKEN + 4096;
    if (c->compares)
        bytes += srv_explain_against_bytes(c);
    if (wanted & SRV_EXPLAIN_CHANGE)
        bytes += n * (TOKEN + 2 * k * TOKEN + 4 * (double)m->target_vocabulary) +
                 16 * (double)c->read.length + 8 * (double)m->target_vocabulary;
    if (wanted & SRV_EXPLAIN_LENS)
        bytes += n * layers * (k + 1) * TOKEN;
    if (wanted & SRV_EXPLAIN_CONTRIBUTIONS)
        bytes += logits * (2 * TOKEN + SRV_MODEL_TEXT * 2 * ((double)heads + layers));
    return bytes;
}

/* --- JSON --- */

static void put_number(attn_json_text *j, const void *place) {
    attn_json_float(j, (float)*(const double *)place);
}

static void put_numbers(attn_json_text *j, const void *place) {
    const numbers *n = place;
    attn_json_array(j);
    for (size_t i = 0; i < n->count; i++)
        put_number(j, &n->values[i]);
    attn_json_array_end(j);
}

#define NUMBER(name, T, member, text)                                                              \
    SRV_WRITTEN_AT(name, "number", put_number, T, member, text, .always = true)
#define POSITION_ROWS(T)                                                                           \
    SRV_ALWAYS("position", SRV_INT, T, position, "The position among the tokens of tokens."),      \
        SRV_ALWAYS("token", SRV_STRING, T, token, "The token there.")

static const srv_field changed_token_rows[] = {
    SRV_ALWAYS("token", SRV_STRING, changed_token, token, "The token that is predicted."),
    SRV_ALWAYS("id", SRV_INT, changed_token, id, "Its id."),
    NUMBER("before", changed_token, before, "Its logit without interventions."),
    NUMBER("after", changed_token, after, "Its logit with them."),
    NUMBER("log_probability_before", changed_token, log_before,
           "The logarithm of its probability without interventions."),
    NUMBER("log_probability_after", changed_token, log_after, "And with them."),
    {0},
};

static const srv_field changed_place_rows[] = {
    POSITION_ROWS(changed_place),
    SRV_ALWAYS("logits", SRV_OBJECTS, changed_place, logits,
               "The most probable tokens without interventions, the most probable one first.",
               .fields = changed_token_rows, .size = sizeof(changed_token)),
    {0},
};

static const srv_field loss_rows[] = {
    NUMBER("before", srv_explain, loss_before, "Without interventions, in nats."),
    NUMBER("after", srv_explain, loss_after, "With them."),
    SRV_ALWAYS("num_tokens", SRV_INT, srv_explain, num_predicted,
               "How many tokens are predicted: all that are read but the first."),
    {0},
};

static void put_loss(attn_json_text *j, const void *place) {
    const srv_explain *c = place;
    if (c->num_predicted)
        srv_answer_object(j, loss_rows, c);
}

static const srv_field change_rows[] = {
    SRV_WRITTEN("loss", "*", put_loss,
                "The mean cross entropy of the next tokens of the text. An encoder, which does not "
                "predict the next token, has none.",
                .fields = loss_rows),
    SRV_ALWAYS("positions", SRV_OBJECTS, srv_explain, changes, "One for each position.",
               .fields = changed_place_rows, .size = sizeof(changed_place)),
    {0},
};

static void put_change(attn_json_text *j, const void *place) {
    const srv_explain *c = place;
    if (c->body.returns & SRV_EXPLAIN_CHANGE)
        srv_answer_object(j, change_rows, c);
}

static const srv_field lens_token_rows[] = {
    SRV_ALWAYS("token", SRV_STRING, lens_token, token, "The token."),
    SRV_ALWAYS("id", SRV_INT, lens_token, id, "Its id."),
    NUMBER("log_probability", lens_token, log_probability, "The logarithm of its probability."),
    {0},
};

static const srv_field lens_layer_rows[] = {
    SRV_ALWAYS("num_layers", SRV_INT, lens_layer, num_layers,
               "How many layers the residual stream has passed: 0 is the input of the first one."),
    SRV_ALWAYS("tokens", SRV_OBJECTS, lens_layer, tokens, "The most probable tokens.",
               .fields = lens_token_rows, .size = sizeof(lens_token)),
    {0},
};

static const srv_field lens_place_rows[] = {
    POSITION_ROWS(lens_place),
    SRV_ALWAYS("layers", SRV_OBJECTS, lens_place, layers,
               "The last norm and the head of the model, applied to the stream after each layer.",
               .fields = lens_layer_rows, .size = sizeof(lens_layer)),
    {0},
};

static const srv_field site_part_rows[] = {
    SRV_ALWAYS("kind", SRV_ENUM, site_part, kind, "The kind of the site.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("layer", SRV_INT, site_part, layer, "Its layer, from 0."),
    SRV_WRITTEN_AT("heads", "[number]", put_numbers, site_part, heads, "One for each head.",
                   .always = true),
    {0},
};

static const srv_field contribution_rows[] = {
    POSITION_ROWS(contribution),
    SRV_ALWAYS("of", SRV_STRING, contribution, of, "The token whose logit it is."),
    SRV_ALWAYS("id", SRV_INT, contribution, id, "Its id."),
    NUMBER("logit", contribution, logit, "The logit, before a softcap: the sum of the rest."),
    NUMBER("embedding", contribution, embedding,
           "Of the input of the first layer: tokens, positions, segments."),
    SRV_ALWAYS(
        "sites", SRV_OBJECTS, contribution, sites,
        "Of each head of the stack: (W_o z) . g, where z is its output and g the gradient of "
        "the logit with respect to the residual stream, with frozen deviations of norms.",
        .fields = site_part_rows, .size = sizeof(site_part)),
    SRV_WRITTEN_AT("feed_forward", "[number]", put_numbers, contribution, feed_forward,
                   "Of the feed-forward of each layer.", .always = true),
    NUMBER("bias", contribution, bias, "Of the biases of norms, W_o and the head."),
    NUMBER("patched", contribution, patched,
           "Of the residual stream that a patch put there; what came before it contributes 0."),
    {0},
};

static void put_tokens(attn_json_text *j, const void *place) {
    srv_models_put(j, &((const srv_explain *)place)->read);
}

static const srv_field explain_rows[] = {
    SRV_WRITTEN("tokens", "ModelTokens", put_tokens,
                "What the model reads: the text or, behind an encoder, the target, with the begin "
                "token. Positions count these.",
                .always = true),
    SRV_WRITTEN("change", "*", put_change, "What the interventions change.", .fields = change_rows),
    SRV_WRITTEN("lens", "[*]", NULL, "One for each position.", .fields = lens_place_rows),
    SRV_WRITTEN("contributions", "[*]", NULL,
                "One for each position and logit: a sum that is the logit.",
                .fields = contribution_rows),
    SRV_WRITTEN("against", "*", srv_explain_put_comparison,
                "With against: how the text, with its interventions if it has some, differs from "
                "against.",
                .fields = srv_explain_comparison_rows),
    SRV_WARNINGS_MEMBER(srv_explain, warnings),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_models_explain_answers[] = {
    SRV_GROUP("ModelExplanation", explain_rows, NULL),
    {0},
};

static void put_list(attn_json_text *j, const char *key, const srv_objects *list, size_t size,
                     const srv_field *rows) {
    if (!list->count)
        return;
    attn_json_key_array(j, key);
    for (size_t i = 0; i < list->count; i++)
        srv_answer_object(j, rows, (const char *)list->items + i * size);
    attn_json_array_end(j);
}

void srv_explain_json(void *data, attn_json_text *j) {
    const srv_explain *c = data;
    srv_answer_member(j, &explain_rows[0], c);
    srv_answer_member(j, &explain_rows[1], c);
    put_list(j, "lens", &c->lenses, sizeof(lens_place), lens_place_rows);
    put_list(j, "contributions", &c->contributions, sizeof(contribution), contribution_rows);
    srv_answer_member(j, &explain_rows[4], c);
    srv_warnings_write(j, &c->warnings);
}

/* --- text --- */

static void print_changes(attn_text *t, const srv_explain *c) {
    const changed_place *places = c->changes.items;
    if (c->num_predicted)
        attn_text_add(t, "loss %.4f -> %.4f (%zu tokens)\n", c->loss_before, c->loss_after,
                      c->num_predicted);
    for (size_t i = 0; i < c->changes.count; i++) {
        const changed_token *tokens = places[i].logits.items;
        attn_text_add(t, "after %zu %s: logit, probability\n", places[i].position,
                      srv_explain_shown(c, places[i].token));
        for (size_t k = 0; k < places[i].logits.count; k++)
            attn_text_add(t, "  %8.3f -> %8.3f  %.4f -> %.4f  %s\n", tokens[k].before,
                          tokens[k].after, exp(tokens[k].log_before), exp(tokens[k].log_after),
                          srv_explain_shown(c, tokens[k].token));
    }
}

static void print_lens(attn_text *t, const srv_explain *c, const lens_place *place) {
    const lens_layer *layers = place->layers.items;
    attn_text_add(t, "lens at %zu %s\n", place->position, srv_explain_shown(c, place->token));
    for (size_t l = 0; l < place->layers.count; l++) {
        const lens_token *tokens = layers[l].tokens.items;
        attn_text_add(t, "  %3zu ", l);
        for (size_t k = 0; k < layers[l].tokens.count; k++)
            attn_text_add(t, " %s %.3f", srv_explain_shown(c, tokens[k].token),
                          exp(tokens[k].log_probability));
        attn_text_add(t, "\n");
    }
}

static void print_contribution(attn_text *t, const srv_explain *c, const contribution *of) {
    const site_part *sites = of->sites.items;
    attn_text_add(t, "logit of %s at %zu %s: %.4f = embedding %.4f, bias %.4f",
                  srv_explain_shown(c, of->of), of->position, srv_explain_shown(c, of->token),
                  of->logit, of->embedding, of->bias);
    if (of->patched != 0)
        attn_text_add(t, ", patched %.4f", of->patched);
    for (size_t i = 0; i < of->sites.count; i++) {
        attn_text_add(t, "\n  %s layer %zu heads", srv_model_site_kinds[sites[i].kind],
                      sites[i].layer);
        for (size_t h = 0; h < sites[i].heads.count; h++)
            attn_text_add(t, " %.4f", sites[i].heads.values[h]);
    }
    attn_text_add(t, "\n  feed-forward");
    for (size_t i = 0; i < of->feed_forward.count; i++)
        attn_text_add(t, " %.4f", of->feed_forward.values[i]);
    attn_text_add(t, "\n");
}

void srv_explain_text(void *data, attn_text *t) {
    const srv_explain *c = data;
    const lens_place *lenses = c->lenses.items;
    const contribution *contributions = c->contributions.items;
    print_changes(t, c);
    for (size_t i = 0; i < c->lenses.count; i++)
        print_lens(t, c, &lenses[i]);
    for (size_t i = 0; i < c->contributions.count; i++)
        print_contribution(t, c, &contributions[i]);
    srv_explain_print_comparison(t, c);
    srv_warnings_text(t, &c->warnings);
}
