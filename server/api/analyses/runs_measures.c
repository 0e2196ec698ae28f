/* GET /v1/runs/{id}/heads: the pattern and the main measures of many heads of a run.
 *
 * Heads are measured in groups. After a group, only a finding for each head is kept, so the memory
 * does not grow with the weights. If all batch entries of a site have equal masks, a group is the
 * selected heads of one entry. If not, all heads of the site are one group, because the analysis of
 * a single entry would use the mask of the site's first entry. */
#include <math.h>
#include <string.h>

#include "api/analyses/analyses_api.h"
#include "api/analyses/analyses_call.h"
#include "api/common/route_fields.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "request/shared.h"
#include "wire/answer.h"

#define ITEMS                                                                                      \
    (SRV_AN_ENTROPY | SRV_AN_CONFIDENCE | SRV_AN_DISTANCE | SRV_AN_POSITIONAL | SRV_AN_SINK |      \
     SRV_AN_RECEIVED | SRV_AN_DUPLICATE | SRV_AN_INDUCTION | SRV_AN_PATTERNS)

/* The measures in the answer. Measures from ATTN_DUPLICATE_TOKEN on need labels. */
static const attn_measure main_measures[] = {
    ATTN_ENTROPY,       ATTN_NORMALIZED_ENTROPY, ATTN_CONFIDENCE,
    ATTN_DISTANCE,      ATTN_RELATIVE_DISTANCE,  ATTN_PREVIOUS_TOKEN,
    ATTN_CURRENT_TOKEN, ATTN_NEXT_TOKEN,         ATTN_FIRST_TOKEN,
    ATTN_SINK,          ATTN_SINK_KEY,           ATTN_TOP_SHARE,
    ATTN_GINI,          ATTN_DUPLICATE_TOKEN,    ATTN_INDUCTION};
enum { MAIN = sizeof main_measures / sizeof main_measures[0], UNLABELLED = MAIN - 2 };

#define TEXT_OF_HEAD 2048.0  /* upper bound of the bytes of a head in the answer */
#define TEXT_OF_REST 16384.0 /* upper bound of the bytes of the legend */

typedef struct heads_query {
    srv_given_bits given;
    srv_heads_query heads;
    int64_t decimals;
} heads_query;

const srv_field srv_run_heads_query[] = {
    SRV_RUN_MANY_HEADS_ROWS(heads_query),
    SRV_DECIMALS_ROW(heads_query, "."),
    {0},
};

/* The numbers of a head that are kept until the answer. */
typedef struct finding {
    size_t rows;         /* rows that are measured: those that see a key */
    size_t count;        /* number of measures: MAIN or UNLABELLED */
    double values[MAIN]; /* [count] the measures */
    const char *shape;   /* attn_pattern_name.shape, a constant text */
    char name[64], text[768];
} finding;

typedef struct heads_call {
    SRV_LOOK;
    heads_query q;
    srv_run_heads heads;
    finding *found; /* [heads.count] */
} heads_call;

/* --- groups --- */

/* A group: heads of a site that are measured together. */
typedef struct group {
    const srv_run_head *items; /* [count] the heads of the group that the answer has */
    size_t count;
    bool whole; /* all heads of the site are measured; false: only `items`, of one batch entry */
    attn_weight_source site; /* the weights of all heads of the site */
} group;

static group next_group(const srv_run_heads *all, size_t first) {
    const srv_run_head *items = all->items + first;
    const attn_run_site *site = items->site;
    const attn_mask *mask = attn_attention_mask(attn_run_attention(site));
    group g = {.items = items};
    g.whole = mask && attn_run_dims(site)->B > 1 && !attn_mask_same_batches(mask);
    while (first + g.count < all->count && items[g.count].site == site &&
           (g.whole || items[g.count].entry == items->entry))
        g.count++;
    return g;
}

static attn_status fetch_heads(void *ctx, size_t lane, const attn_range *rows, float *weights,
                               float *logits, attn_error *err) {
    const group *g = ctx;
    attn_range at = *rows;
    at.batch = g->items->entry;
    at.head = g->items[rows->head].head;
    return g->site.fetch(g->site.ctx, lane, &at, weights, logits, err);
}

/* Returns the analysis of a group. Its member `source` is not set. `labels` are the labels of the
 * site. Sets *own to the labels of the group. */
static srv_analysis analysis_of(const heads_call *c, const group *g, const srv_labels *labels,
                                srv_labels *own) {
    if (!g->whole && labels->count > 1)
        *own = (srv_labels){(void *)(uintptr_t)srv_labels_of(labels, g->items->entry), 1, true};
    else
        *own = *labels;
    srv_analysis an = srv_analysis_of_site(c->req, g->items->site, ITEMS, own);
    if (!g->whole)
        an.B = 1, an.H = g->count;
    an.options.top_keys = 0;
    return an;
}

/* --- cost --- */

/* Adds the cells and operations of a group to *cells and *operations. Raises *bytes to the bytes
 * that the group needs, if these are more. false: a problem is set. */
static bool count_group(const heads_call *c, const group *g, double *cells, double *operations,
                        double *bytes) {
    const attn_arena_mark mark = attn_arena_here(c->req->arena);
    const size_t slots = attn_pool_slots(srv_request_pool(c->req));
    srv_run_view view = *c->run;
    srv_labels labels, own;
    attn_cost cost;
    double text;
    view.site = g->items->site;
    if (!srv_run_labels(c->req, view.site, &labels))
        return false;
    srv_analysis an = analysis_of(c, g, &labels, &own);
    if (!srv_analysis_cost(&an, slots, &cost, &text))
        return false;
    const double most = (double)cost.work_bytes + (double)cost.result_bytes + text +
                        (double)(labels.count + 1) * (double)sizeof(srv_names) +
                        srv_run_cells_work(c->req, &view);
    *cells += cost.cells;
    *operations += cost.operations;
    *bytes = fmax(*bytes, most);
    attn_arena_rewind(c->req->arena, &mark);
    return true;
}

static bool count_groups(heads_call *c) {
    const double n = (double)c->heads.count;
    double cells = 0, operations = 0, bytes = 0;
    for (size_t i = 0; i < c->heads.count;) {
        const group g = next_group(&c->heads, i);
        if (!count_group(c, &g, &cells, &operations, &bytes))
            return false;
        i += g.count;
    }
    srv_look_needs(&c->look, cells, operations,
                   bytes + n * (TEXT_OF_HEAD + sizeof(finding)) + TEXT_OF_REST +
                       srv_run_heads_bytes(&c->heads));
    return true;
}

/* --- measuring --- */

static void copy_text(char *to, size_t room, const char *from) {
    const size_t n = strlen(from);
    memcpy(to, from, n < room ? n : room - 1);
}

/* Keeps the findings of a group, whose first head is c->heads.items[first]. */
static void keep_findings(const heads_call *c, const group *g, size_t first,
                          const srv_analysis *an) {
    for (size_t i = 0; i < g->count; i++) {
        const size_t at = g->whole ? g->items[i].entry * an->H + g->items[i].head : i;
        const attn_head_measures *h = &an->measures.items[at];
        finding *f = &c->found[first + i];
        f->rows = h->rows;
        f->count = an->options.query_tokens ? (size_t)MAIN : (size_t)UNLABELLED;
        for (size_t m = 0; m < f->count; m++)
            f->values[m] = h->values[main_measures[m]];
        f->shape = an->patterns[at].shape;
        copy_text(f->name, sizeof f->name, an->patterns[at].name);
        copy_text(f->text, sizeof f->text, an->patterns[at].text);
    }
}

static attn_status measure_group(const heads_call *c, group *g, size_t first, attn_error *err) {
    srv_request *req = c->req;
    const attn_run_site *site = g->items->site;
    attn_pool *pool = srv_request_pool(req);
    srv_labels labels, own;
    ATTN_TAKEN(srv_run_labels(req, site, &labels), "the labels of the run", err);
    srv_analysis an = analysis_of(c, g, &labels, &own);
    ATTN_TRY(attn_run_source_of(site, attn_pool_slots(pool), req->arena, &g->site, err));
    an.source = g->site;
    if (!g->whole) {
        an.source.batches = 1;
        an.source.heads = g->count;
        an.source.fetch = fetch_heads;
        an.source.ctx = g;
        an.source.padding = g->site.padding ? g->site.padding + g->items->entry : NULL;
    }
    ATTN_TRY(srv_analysis_run(&an, pool, err));
    keep_findings(c, g, first, &an);
    return ATTN_OK;
}

/* Checks the bytes of all heads of the sites that are measured as a whole. false: a problem is
 * set. */
static bool touch_sites(const heads_call *c) {
    for (size_t i = 0; i < c->heads.count;) {
        const group g = next_group(&c->heads, i);
        srv_run_view view = *c->run;
        view.site = g.items->site;
        if (g.whole && !srv_run_touch(c->req, &view, SIZE_MAX, SIZE_MAX))
            return false;
        i += g.count;
    }
    return true;
}

static bool measure_groups(void *data) {
    heads_call *c = data;
    srv_request *req = c->req;
    attn_error err = {0};
    attn_status status = ATTN_OK;
    c->found = attn_arena_zeroed(req->arena, c->heads.count + 1, sizeof *c->found);
    if (!c->found)
        status = attn_no_memory(&err, "the measures of heads");
    for (size_t i = 0; i < c->heads.count && !status;) {
        const attn_arena_mark mark = attn_arena_here(req->arena);
        group g = next_group(&c->heads, i);
        srv_progress_part(req, (double)i / (double)c->heads.count,
                          (double)(i + g.count) / (double)c->heads.count);
        status = measure_group(c, &g, i, &err);
        attn_arena_rewind(req->arena, &mark);
        i += g.count;
    }
    return !status || srv_problem_error(req, &err);
}

/* --- the answer --- */

/* A head in the answer. */
typedef struct head_facts {
    const srv_run_head *head;
    const finding *found;
    size_t rows;
    attn_pattern_name pattern;
} head_facts;

static void put_measures(attn_json_text *j, const void *place) {
    const finding *f = ((const head_facts *)place)->found;
    attn_json_object(j);
    for (size_t m = 0; m < f->count; m++)
        srv_analysis_number(j, attn_measure_about(main_measures[m])->name, f->values[m]);
    attn_json_object_end(j);
}

static const srv_field head_rows[] = {
    SRV_ALWAYS("", SRV_OBJECT, head_facts, head, NULL, .fields = srv_run_head_rows,
               .accepts = SRV_O_POINTER),
    SRV_ALWAYS("num_rows", SRV_INT, head_facts, rows, NULL),
    SRV_ALWAYS("pattern", SRV_OBJECT, head_facts, pattern, NULL, .fields = srv_pattern_rows),
    SRV_WRITTEN("measures", "{number?}", put_measures, NULL, .always = true),
    {0},
};

static void put_heads(attn_json_text *j, const void *place) {
    const heads_call *c = place;
    attn_json_array(j);
    for (size_t i = 0; i < c->heads.count && !j->failed; i++) {
        const finding *f = &c->found[i];
        const head_facts facts = {&c->heads.items[i], f, f->rows, {f->name, f->shape, f->text}};
        srv_answer_object(j, head_rows, &facts);
    }
    attn_json_array_end(j);
}

static void put_legend(attn_json_text *j, const void *place) {
    const heads_call *c = place;
    size_t most = 0;
    for (size_t i = 0; i < c->heads.count; i++)
        most = c->found[i].count > most ? c->found[i].count : most;
    attn_json_object(j);
    for (size_t m = 0; m < most; m++)
        srv_analysis_legend(j, attn_measure_about(main_measures[m]));
    attn_json_object_end(j);
}

static const srv_field answer_rows[] = {
    SRV_WRITTEN("heads", "[*]", put_heads, "A head with its pattern and measures.", .always = true,
                .fields = head_rows),
    SRV_WRITTEN("legend", "AnalysisLegend", put_legend, "Formula, range and paper of each measure.",
                .always = true),
    SRV_WRITTEN("caveat", "string", srv_analysis_put_caveat, "What weights do not say.",
                .always = true),
    {0},
};

const srv_field srv_run_heads_answers[] = {
    SRV_GROUP("RunHeads", answer_rows,
              "Heads in the order of sites, layers, batch entries and heads. pattern and measures "
              "are those of /analyses; null: the measure is not defined for this head. "
              "duplicate_token and induction are there if the site has labels."),
    {0},
};

static void print_heads(void *data, attn_text *t) {
    const heads_call *c = data;
    for (size_t i = 0; i < c->heads.count; i++) {
        const srv_run_head *h = &c->heads.items[i];
        const finding *f = &c->found[i];
        attn_text_add(t, "site %zu, layer %zu, batch %zu, head %zu: %s (%s): %s\n", h->index,
                      h->layer, h->batch, h->head, f->name, f->shape, f->text);
    }
    attn_text_add(t, "\n%s\n", attn_analysis_caveat());
}

static void answer_heads(void *data, attn_json_text *j) {
    srv_answer_members(j, answer_rows, data);
}

static bool prepare_heads(void *data) {
    heads_call *c = data;
    return srv_run_find_heads(&c->scope, c->run, &c->q.heads, &c->heads) && touch_sites(c) &&
           count_groups(c);
}

srv_outcome srv_runs_heads(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(heads_call, srv_run_heads_query),
        .unit_ns = 0.125,
        .prepare = prepare_heads,
        .compute = measure_groups,
        .json = answer_heads,
        .text = print_heads,
    };
    heads_call c = {.look.call.req = req, .q = {.decimals = -1}};
    return srv_look_run(&c, &steps, srv_runs_heads);
}
