/* The answer of POST /v1/models/{id}/heads: the scores of heads, the relations that heads find, and
 * a picture of one score. */
#include "api/heads/heads_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/heads/heads_api.h"
#include "wire/answer.h"

/* --- JSON --- */

#define SCORE_NAME(name, text, ...) text,
const char *const srv_head_scores[] = {ATTN_HEAD_SCORE_LIST(SCORE_NAME) NULL};
#undef SCORE_NAME

static void put_number(attn_json_text *j, const void *place) {
    const double *number = place;
    if (isfinite(*number))
        attn_json_float(j, (float)*number);
}

static const srv_field mean_rows[] = {
    SRV_WRITTEN_AT("mean", "number", put_number, attn_head_mean, mean,
                   "The mean over the sequences.", .always = true),
    SRV_WRITTEN_AT("spread", "number", put_number, attn_head_mean, spread,
                   "The standard deviation over the sequences, of which at least two have the "
                   "score."),
    {0},
};

static void put_mean(attn_json_text *j, const void *place) {
    const attn_head_mean *m = place;
    if (isfinite(m->mean))
        srv_answer_object(j, mean_rows, m);
}

#define SCORE_ROW(name, word, text, source)                                                        \
    SRV_WRITTEN_AT(word, "HeadScore", put_mean, attn_scored_head, scores[ATTN_HEAD_##name],        \
                   text " " source "."),
static const srv_field score_rows[] = {ATTN_HEAD_SCORE_LIST(SCORE_ROW){0}};
#undef SCORE_ROW

static const srv_field head_rows[] = {
    SRV_ALWAYS("site", SRV_ENUM, srv_head_answer, site, "The kind of attention.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("layer", SRV_INT, srv_head_answer, layer, "The layer, numbered from 0."),
    SRV_ALWAYS("head", SRV_INT, srv_head_answer, head, "The head, numbered from 0."),
    SRV_IF_KNOWN("probes", SRV_OBJECT, srv_head_answer, probes,
                 "The scores of probes; one that has no value is absent.", .fields = score_rows,
                 .accepts = SRV_O_POINTER),
    SRV_IF_KNOWN("texts", SRV_OBJECT, srv_head_answer, texts, "The scores of the texts.",
                 .fields = score_rows, .accepts = SRV_O_POINTER),
    {0},
};

static const srv_field related_rows[] = {
    SRV_ALWAYS("site", SRV_ENUM, srv_related_answer, site, "The kind of attention.",
               .choices = srv_model_site_kinds),
    SRV_ALWAYS("layer", SRV_INT, srv_related_answer, layer, "The layer, numbered from 0."),
    SRV_ALWAYS("head", SRV_INT, srv_related_answer, head, "The head, numbered from 0."),
    SRV_ALWAYS("does", SRV_STRING, srv_related_answer, does, "What it connects."),
    SRV_ALWAYS("hits", SRV_INT, srv_related_answer, hits,
               "In how many sentences the largest weight of the word from lies on the word to. "
               "Weights of the tokens of a word are averaged over rows and added over columns; the "
               "columns of the first token and of special tokens are left out. Clark et al. 2019."),
    SRV_ALWAYS("of", SRV_INT, srv_related_answer, of, "The number of sentences."),
    SRV_WRITTEN_AT("weight", "number", put_number, srv_related_answer, weight,
                   "The mean weight of the word from on the word to.", .always = true),
    SRV_ALWAYS("text", SRV_STRING, srv_related_answer, text, "All of this as a sentence."),
    {0},
};

static void put_lists(attn_json_text *j, const attn_head_batch *batch, const attn_head_side *side) {
    attn_json_array(j);
    for (size_t b = 0; b < batch->count; b++) {
        attn_json_array(j);
        for (size_t i = 0; i < (size_t)side->lengths[b]; i++)
            attn_json_int(j, side->ids[b * side->longest + i]);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

static void put_source(attn_json_text *j, const void *place) {
    const attn_head_batch *batch = place;
    if (batch->count && batch->source.longest)
        put_lists(j, batch, &batch->source);
}

static void put_target(attn_json_text *j, const void *place) {
    const attn_head_batch *batch = place;
    if (batch->count && batch->target.longest)
        put_lists(j, batch, &batch->target);
}

static const srv_field batch_rows[] = {
    SRV_WRITTEN("source", "[[integer+]]", put_source, "What the encoder reads, if there is one."),
    SRV_WRITTEN("target", "[[integer+]]", put_target, "What the decoder reads, if there is one."),
    {0},
};

static void put_ids(attn_json_text *j, const void *place) {
    const srv_heads_pass *c = place;
    static const char *const names[] = {"repeated", "separated"};
    const attn_head_batch *batches[] = {&c->repeated, &c->separated};
    if (!(c->body.returns & SRV_HEADS_IDS))
        return;
    attn_json_object(j);
    for (int i = 0; i < 2; i++)
        if (batches[i]->count) {
            attn_json_key(j, names[i]);
            srv_answer_object(j, batch_rows, batches[i]);
        }
    attn_json_object_end(j);
}

static const srv_field ids_rows[] = {
    SRV_WRITTEN("repeated", "*", NULL, "length random tokens, then the same tokens again.",
                .fields = batch_rows),
    SRV_WRITTEN("separated", "*", NULL,
                "Random tokens of which every eighth is a separator, if the model has separators.",
                .fields = batch_rows),
    {0},
};

static const srv_field probe_rows[] = {
    SRV_ALWAYS("count", SRV_INT, srv_heads_pass, body.probes, "Number of probes of each kind."),
    SRV_ALWAYS("length", SRV_INT, srv_heads_pass, body.length,
               "Number of random tokens, before they are repeated."),
    SRV_ALWAYS("seed", SRV_INT, srv_heads_pass, body.seed, "The seed."),
    SRV_WRITTEN("ids", "*", put_ids, "The probes, if return names ids.", .fields = ids_rows),
    {0},
};

static void put_probes(attn_json_text *j, const void *place) {
    const srv_heads_pass *c = place;
    if (c->body.returns & (SRV_HEADS_PROBES | SRV_HEADS_IDS))
        srv_answer_object(j, probe_rows, c);
}

static void put_heads(attn_json_text *j, const void *place) {
    const srv_heads_pass *c = place;
    if (!c->by_probes && !c->by_texts)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < c->head_count; i++)
        srv_answer_object(j, head_rows, &c->heads[i]);
    attn_json_array_end(j);
}

static void put_related(attn_json_text *j, const void *place) {
    const srv_heads_pass *c = place;
    if (!(c->body.returns & SRV_HEADS_RELATIONS))
        return;
    attn_json_array(j);
    for (size_t i = 0; i < c->related_count; i++)
        srv_answer_object(j, related_rows, &c->related[i]);
    attn_json_array_end(j);
}

static const srv_field heads_rows[] = {
    SRV_WRITTEN("probes", "*", put_probes, "The probes that were drawn.", .fields = probe_rows),
    SRV_WRITTEN("heads", "[HeadScores]", put_heads,
                "The heads by falling score, that of the field score."),
    SRV_WRITTEN("connects", "[HeadConnects]", put_related,
                "What heads connect: of each template the best heads, by falling share of hits, "
                "then by falling weight."),
    {0},
};

const srv_field srv_heads_answers[] = {
    SRV_GROUP("ModelHeads", heads_rows, NULL),
    SRV_GROUP("HeadScores", head_rows, "The scores of a head."),
    SRV_GROUP("HeadScore", mean_rows, NULL),
    SRV_GROUP("HeadConnects", related_rows, "A head and the pairs of words that it connects."),
    {0},
};

void srv_heads_json(void *call, attn_json_text *j) {
    srv_answer_members(j, heads_rows, call);
}

/* --- text --- */

enum { BEST = 5 }; /* number of heads that are printed for each score */

/* Returns the head with the largest mean of the score among the heads that are not printed yet, and
 * marks it as printed. NULL: there is none. */
static const attn_scored_head *find_next(const srv_heads_pass *c, unsigned score, bool of_texts,
                                         bool *printed) {
    const attn_scored_head *best = NULL;
    size_t at = 0;
    for (size_t i = 0; i < c->head_count; i++) {
        const attn_scored_head *h = of_texts ? c->heads[i].texts : c->heads[i].probes;
        if (!h || printed[i] || isnan(h->scores[score].mean))
            continue;
        if (!best || h->scores[score].mean > best->scores[score].mean) {
            best = h;
            at = i;
        }
    }
    if (best)
        printed[at] = true;
    return best;
}

/* Prints the best heads of a score as "layer.head mean ± spread". Prints nothing if no mean is
 * above 0, for example because causal heads never attend to the next token. */
static void print_score(attn_text *t, const srv_heads_pass *c, unsigned score, bool of_texts,
                        bool *printed) {
    const bool names_site = c->subject.source && c->subject.target;
    const int decimals = c->body.decimals < 0 ? 3 : (int)c->body.decimals;
    memset(printed, 0, c->head_count * sizeof *printed);
    for (int i = 0; i < BEST; i++) {
        const attn_scored_head *h = find_next(c, score, of_texts, printed);
        if (!h && i)
            break;
        if (!h || (!i && !(h->scores[score].mean > 0)))
            return;
        if (!i)
            attn_text_add(t, "%-18s", srv_head_scores[score]);
        attn_text_add(t, "  %s%s%zu.%zu %.*f", names_site ? srv_model_site_kinds[h->kind] : "",
                      names_site ? " " : "", h->layer, h->head, decimals, h->scores[score].mean);
        if (!isnan(h->scores[score].spread))
            attn_text_add(t, " \xc2\xb1 %.*f", decimals, h->scores[score].spread);
    }
    attn_text_add(t, "\n");
}

static void print_scores(attn_text *t, const srv_heads_pass *c, bool of_texts) {
    bool *printed = attn_arena_zeroed(c->pass.req->arena, c->head_count + 1, sizeof *printed);
    for (unsigned score = 0; printed && score < ATTN_HEAD_SCORES; score++)
        if (c->wanted & 1u << score)
            print_score(t, c, score, of_texts, printed);
    t->failed = t->failed || !printed;
}

void srv_heads_text(void *call, attn_text *t) {
    const srv_heads_pass *c = call;
    if (c->by_probes) {
        attn_text_add(t,
                      "%lld probes of 2 x %lld random tokens, seed %lld: the best heads as "
                      "layer.head\n",
                      (long long)c->body.probes, (long long)c->body.length,
                      (long long)c->body.seed);
        print_scores(t, c, false);
    }
    if (c->by_texts) {
        attn_text_add(t, "%zu text%s: the best heads as layer.head\n", c->texts.count,
                      attn_plural(c->texts.count));
        print_scores(t, c, true);
    }
    for (size_t i = 0; i < c->related_count; i++)
        attn_text_add(t, "%s\n", c->related[i].text);
    if ((c->body.returns & SRV_HEADS_RELATIONS) && !c->related_count)
        attn_text_add(t, "no head connects the words of a template\n");
}

/* --- picture --- */

/* Returns the names 0, 1, …, count - 1; NULL: memory ran out. */
static const char **number(attn_arena *arena, size_t count) {
    const char **names = attn_arena_array(arena, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        char *text = attn_arena_small(arena, 24);
        if (!text)
            return NULL;
        snprintf(text, 24, "%zu", i);
        names[i] = text;
    }
    return names;
}

/* Draws the score `score` of all heads of the first kind of site. Rows are layers and columns are
 * heads. */
void srv_heads_picture(void *call) {
    srv_heads_pass *c = call;
    srv_request *req = c->pass.req;
    const srv_heat_input in = {0};
    srv_figure_input figure = c->body.figure;
    srv_model_weights shown = {.heads = 1, .rows = 0, .cols = 0};
    srv_model_heatmaps maps;
    int kind = ATTN_SITE_CROSS;
    for (size_t i = 0; i < c->head_count; i++)
        kind = c->heads[i].site < kind ? c->heads[i].site : kind;
    for (size_t i = 0; i < c->head_count; i++) {
        const srv_head_answer *h = &c->heads[i];
        shown.rows = h->site == kind && h->layer >= shown.rows ? h->layer + 1 : shown.rows;
        shown.cols = h->site == kind && h->head >= shown.cols ? h->head + 1 : shown.cols;
    }
    float *cells = attn_arena_zeroed(req->arena, shown.rows * shown.cols + 1, sizeof *cells);
    shown.row_names = number(req->arena, shown.rows);
    shown.col_names = number(req->arena, shown.cols);
    if (!cells || !shown.row_names || !shown.col_names) {
        srv_problem_memory(req, NULL, "no memory is left for the picture");
        return;
    }
    for (size_t i = 0; i < c->head_count; i++) {
        const srv_head_answer *h = &c->heads[i];
        if (h->site == kind)
            cells[h->layer * shown.cols + h->head] =
                (float)srv_head_first(h)->scores[c->body.score].mean;
    }
    shown.weights = cells;
    shown.stride = shown.cols;
    shown.head_stride = shown.rows * shown.cols;
    srv_figure_axes(&figure, "head", "layer");
    if (!figure.value_label)
        figure.value_label = srv_head_scores[c->body.score];
    if (srv_models_heatmaps(req, &shown, &in, &maps))
        srv_models_draw(req, &maps, &in, &figure, c->body.decimals);
}
