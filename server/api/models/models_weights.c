/* Computes the weights of sites after the pass, from its operations, and merges weights of tokens
 * to weights of words. */
#include <string.h>

#include "api/models/models_sites.h"
#include "base/try.h"
#include "request/shared.h"

/* --- weights of operations --- */

/* Returns whether the answer or an analysis reads the weights of site i. */
static bool needs(const srv_sites_pass *c, size_t i) {
    const bool shows = srv_sites_has_weights(c) || (c->body.returns & SRV_SITES_HEATMAP) ||
                       srv_draws(c->pass.req) ||
                       (srv_reads_text(c->pass.req) && srv_sites_prints_heatmaps(c));
    return c->body.analysis || (shows && srv_sites_wants(c, i));
}

static double cells_of(const srv_sites_pass *c, const attn_site *site) {
    const double L = (double)(site->kind == ATTN_SITE_ENCODER ? c->source.longest : c->T),
                 S = (double)(site->kind == ATTN_SITE_DECODER ? c->T : c->source.longest);
    return (double)c->B * (double)site->heads * L * S;
}

/* Upper bound, in bytes, of the scratch memory for cells of a site on each thread. */
#define SCRATCH (1 << 20)

void srv_sites_weigh_cost(const srv_sites_pass *c, attn_model_cost *cost) {
    const attn_model_config *m = attn_model_configuration(c->pass.model->model);
    for (size_t i = 0; c->pass.model->known && i < c->site_count; i++) {
        const double cells = cells_of(c, &c->sites[i]);
        const size_t width = m->head_width ? m->head_width : m->width / c->sites[i].heads;
        if (!needs(c, i))
            continue;
        cost->cells += cells;
        cost->operations += 2 * (double)width * cells;
        cost->bytes += (c->body.words ? 8.0 : 4.0) * cells +
                       SCRATCH * (double)attn_pool_slots(c->pass.req->app->pool);
    }
}

typedef struct cells {
    attn_weight_source source;
    float *out;
} cells;

enum { ROWS = 32 }; /* number of rows that a task of the worker pool computes */

static attn_status compute_rows(void *ctx, size_t index, size_t lane, attn_error *err) {
    const cells *a = ctx;
    const attn_weight_source *s = &a->source;
    const size_t pieces = (s->rows + ROWS - 1) / ROWS, matrix = index / pieces,
                 row = index % pieces * ROWS;
    const attn_range range = {.batch = matrix / s->heads,
                              .head = matrix % s->heads,
                              .row = row,
                              .rows = s->rows - row < ROWS ? s->rows - row : ROWS,
                              .cols = s->cols};
    return s->fetch(s->ctx, lane, &range, a->out + (matrix * s->rows + row) * s->cols, NULL, err);
}

static attn_status weigh(const srv_sites_pass *c, attn_site *site, attn_error *err) {
    srv_request *req = c->pass.req;
    attn_pool *pool = srv_request_pool(req);
    cells a;
    ATTN_TRY(attn_attention_source(site->operation, site->stats, ATTN_STAGE_PROBS,
                                   attn_pool_slots(pool), req->arena, &a.source, err));
    const size_t matrices = a.source.batches * a.source.heads;
    const size_t d[4] = {c->B, site->heads, a.source.rows, a.source.cols};
    ATTN_TAKEN(a.out = attn_arena_array(req->arena, matrices * d[2], d[3] * sizeof(float)),
               "the weights of a site", err);
    site->weights = attn_tensor_dense(a.out, ATTN_F32, 4, d);
    return attn_pool_run(pool, matrices * ((d[2] + ROWS - 1) / ROWS), compute_rows, &a,
                         &req->control, err);
}

bool srv_sites_weigh(srv_sites_pass *c) {
    attn_error err = {0};
    attn_status status = ATTN_OK;
    for (size_t i = 0; !status && c->pass.model->known && i < c->out.site_count; i++)
        if (needs(c, i))
            status = weigh(c, &c->out.sites[i], &err);
    return !status || srv_problem_error(c->pass.req, &err);
}

/* --- words --- */

static const srv_sequences *tokens_of(const srv_sites_pass *c) {
    return srv_models_reads(c->pass.model, SRV_SOURCE) ? &c->source : &c->target;
}

bool srv_sites_words_check(const srv_sites_pass *c, const srv_scope *scope) {
    const bool both =
        srv_models_reads(c->pass.model, SRV_SOURCE) && srv_models_reads(c->pass.model, SRV_TARGET);
    if (!c->body.words)
        return true;
    if (!c->pass.model->known || both)
        return srv_refuse(scope, SRV_VALUE, "words",
                          "the model \"%s\" is none of an encoder or a decoder alone whose files "
                          "another program wrote: its answers have tokens",
                          c->pass.model->id);
    return tokens_of(c)->items[0].words ||
           srv_refuse(scope, SRV_VALUE, "words",
                      "words are those of a text: send text instead of tokens or ids");
}

/* Merges a matrix [of, of] of weights between tokens into a matrix [to, to] of weights between
 * words. */
static void merge_matrix(const float *from, size_t of, float *into, size_t to,
                         const srv_sequence *words) {
    for (size_t r = 0; r < words->length; r++) {
        const size_t first = words->spans[2 * r], end = words->spans[2 * r + 1];
        for (size_t k = 0; k < words->length; k++) {
            double sum = 0;
            for (size_t i = first; i < end; i++)
                for (size_t j = words->spans[2 * k]; j < words->spans[2 * k + 1]; j++)
                    sum += (double)from[i * of + j];
            into[r * to + k] = (float)(sum / (double)(end - first));
        }
    }
}

static bool merge_site(srv_sites_pass *c, attn_site *site, const srv_sequences *words) {
    const size_t *d = site->weights.dims, to = words->longest;
    float *all = attn_arena_zeroed(c->pass.req->arena, d[0] * d[1] * to * to, sizeof *all);
    if (!all)
        return srv_problem_memory(c->pass.req, NULL, "no memory is left for weights of words");
    for (size_t m = 0; m < d[0] * d[1]; m++)
        merge_matrix((const float *)site->weights.data + m * d[2] * d[3], d[3], all + m * to * to,
                     to, &words->items[m / d[1]]);
    site->weights = attn_tensor_dense(all, ATTN_F32, 4, (size_t[4]){d[0], d[1], to, to});
    return true;
}

bool srv_sites_merge(srv_sites_pass *c) {
    const srv_sequences *tokens = tokens_of(c);
    srv_sequences words = {.count = tokens->count};
    if (!c->body.words)
        return true;
    words.items = attn_arena_zeroed(c->pass.req->arena, words.count, sizeof *words.items);
    if (!words.items)
        return srv_problem_memory(c->pass.req, NULL, "no memory is left for the words of texts");
    for (size_t b = 0; b < words.count; b++) {
        if (!srv_models_words(c->pass.req, &tokens->items[b], &words.items[b]))
            return false;
        tokens->items[b].merged = &words.items[b];
        if (words.items[b].length > words.longest)
            words.longest = words.items[b].length;
    }
    for (size_t i = 0; i < c->out.site_count; i++)
        if (c->out.sites[i].weights.rank && !merge_site(c, &c->out.sites[i], &words))
            return false;
    c->word_source = c->word_target = words;
    c->merged = true;
    return true;
}
