/* A growing run allocates the rows of all steps at its beginning, so rows never move. A step writes
 * its rows behind those of earlier steps and then raises the number of rows. A reader first reads
 * the number of rows, and then reads no rows beyond it. */
#include <attn/run_growth.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "attention/resolved.h"
#include "base/try.h"
#include "runs/copy.h"
#include "runs/private.h"

typedef struct growing_site {
    /* The operation of the first step, with copies of its operands. query, key and value are
     * [B, most, D] if they grow. */
    attn_inputs in;
    attn_run_site_info info;
    bool grows, keys_grow;
} growing_site;

struct attn_run_growth {
    growing_site *sites; /* [site_count] */
    size_t site_count;
    attn_run_text *texts; /* [text_count]; their counts do not include the tokens that steps add */
    size_t text_count;
    size_t growing; /* the last `growing` texts get a token in each step */
    const char *model;
    attn_metadata *metadata;
    size_t metadata_count;
    attn_arena *arena;
    size_t most;         /* largest number of steps */
    _Atomic size_t rows; /* number of complete steps, which readers may see */
};

static attn_status refuse_site(size_t site, const char *what, attn_error *err) {
    char where[32];
    snprintf(where, sizeof where, "sites/%zu", site);
    return attn_fail(err, ATTN_EARG, where, "%s", what);
}

attn_status attn_run_growth_bytes(const attn_attention_dims *d, size_t *out, attn_error *err) {
    size_t queries, keys, row, value_row, sum;
    if (!attn_size_add(d->L, 1, &queries) || !attn_size_add(d->S, 1, &keys) ||
        !attn_size_mul(d->Hkv, d->Ek, &row) || !attn_size_mul(d->Hv, d->Ev, &value_row) ||
        !attn_size_add(row, value_row, &row) || !attn_size_mul(keys, row, &keys) ||
        !attn_size_mul(queries, d->E, &queries) || !attn_size_mul(queries, d->Hq, &queries) ||
        !attn_size_add(queries, keys, &sum) || !attn_size_mul(sum, d->B, &sum) ||
        !attn_size_mul(sum, sizeof(float), &sum) || !attn_size_add(sum, 65536, &sum))
        return attn_fail(err, ATTN_ELIMIT, "", "more bytes than can be counted");
    *out = sum;
    return ATTN_OK;
}

/* --- making --- */

static bool is_plain(const attn_inputs *in) {
    const attn_tensor *all[3] = {&in->query, &in->key, &in->value};
    bool ok = in->layout == ATTN_BLD && !in->past_key.rank;
    for (int i = 0; i < 3; i++)
        ok = ok && all[i]->dtype == ATTN_F32 && all[i]->rank == 3 &&
             (all[i]->dims[2] < 2 || all[i]->strides[2] == 1);
    return ok;
}

/* Replaces the tensor by a copy or, if it `grows`, by a tensor of `most` rows of zeros. */
static void make_operand(attn_run_copier *c, bool grows, size_t most, attn_tensor *t) {
    const size_t dims[3] = {t->dims[0], most, t->dims[2]};
    size_t n;
    if (!grows) {
        attn_run_copy_tensor(c, t);
        return;
    }
    float *data = attn_size_mul(dims[0], dims[1], &n) && attn_size_mul(n, dims[2], &n)
                      ? attn_arena_zeroed(c->arena, n, sizeof *data)
                      : NULL;
    *t = attn_tensor_dense(data, ATTN_F32, 3, dims);
    c->failed = c->failed || !data;
}

static attn_status make_site(const attn_run_growth *g, const attn_run_site_source *from,
                             growing_site *to, attn_error *err) {
    const attn_attention_dims *d = attn_attention_dims_of(from->op);
    char name[32];
    *to = (growing_site){
        .in = from->op->in, .info = from->info, .keys_grow = from->info.kind == ATTN_RUN_DECODER};
    to->grows = to->keys_grow || from->info.kind == ATTN_RUN_CROSS;
    snprintf(name, sizeof name, "sites.%zu", (size_t)(to - g->sites));
    if (!to->info.name)
        to->info.name = name;
    if (!is_plain(&to->in))
        return refuse_site((size_t)(to - g->sites),
                           "expected an operation of layout BLD with float32 tensors", err);
    attn_inputs *in = &to->in;
    attn_run_copier c = {.arena = g->arena};
    attn_run_copy_info(&c, &to->info, d->B);
    attn_run_copy_operands(&c, in);
    make_operand(&c, to->grows, g->most, &in->query);
    make_operand(&c, to->keys_grow, g->most, &in->key);
    make_operand(&c, to->keys_grow, g->most, &in->value);
    return c.failed ? attn_no_memory(err, "a growing run") : ATTN_OK;
}

/* Copies texts and metadata. Returns false if memory runs out. */
static bool copy_texts(attn_run_growth *g, const attn_run_source *first) {
    attn_run_copier c = {.arena = g->arena};
    g->model = attn_run_copy_string(&c, first->model);
    g->texts = attn_run_copy_list(&c, first->texts, g->text_count, sizeof *g->texts);
    g->metadata = attn_run_copy_list(&c, first->metadata, g->metadata_count, sizeof *g->metadata);
    for (size_t i = 0; i < g->text_count && !c.failed; i++)
        attn_run_copy_text(&c, i + g->growing < g->text_count ? 0 : g->most, &g->texts[i]);
    for (size_t i = 0; i < g->metadata_count && !c.failed; i++) {
        g->metadata[i].key = attn_run_copy_string(&c, g->metadata[i].key);
        g->metadata[i].text = attn_run_copy_string(&c, g->metadata[i].text);
    }
    return !c.failed;
}

attn_status attn_run_growth_new(const attn_run_source *first, size_t growing, size_t most,
                                attn_arena *arena, attn_run_growth **out, attn_error *err) {
    attn_run_growth *g = attn_arena_zeroed(arena, 1, sizeof *g);
    ATTN_TAKEN(g, "a growing run", err);
    *g = (attn_run_growth){.site_count = first->site_count,
                           .text_count = first->text_count,
                           .growing = growing,
                           .metadata_count = first->metadata_count,
                           .arena = arena,
                           .most = most};
    g->sites = attn_arena_zeroed(arena, g->site_count + 1, sizeof *g->sites);
    if (growing > first->text_count)
        return attn_fail(err, ATTN_EARG, "texts", "expected at least %zu that grow, found %zu",
                         growing, first->text_count);
    ATTN_TAKEN(g->sites && copy_texts(g, first), "a growing run", err);
    for (size_t i = 0; i < g->site_count; i++)
        ATTN_TRY(make_site(g, &first->sites[i], &g->sites[i], err));
    *out = g;
    return ATTN_OK;
}

/* --- steps --- */

static bool fits(const growing_site *s, const attn_attention *op, size_t rows) {
    const attn_inputs *in = &op->in, *own = &s->in;
    return is_plain(in) && in->query.dims[0] == own->query.dims[0] && in->query.dims[1] == 1 &&
           in->query.dims[2] == own->query.dims[2] && in->key.dims[2] == own->key.dims[2] &&
           in->value.dims[2] == own->value.dims[2] && (!s->keys_grow || op->dims.S == rows + 1);
}

/* Copies row `from` of each batch entry of `src` to row `at` of the same entry of `dst`. */
static void copy_row(const attn_tensor *dst, size_t at, const attn_tensor *src, size_t from) {
    const size_t D = dst->dims[2];
    for (size_t b = 0; b < dst->dims[0]; b++)
        memcpy((float *)dst->data + (b * dst->dims[1] + at) * D,
               (const float *)src->data + (ptrdiff_t)b * src->strides[0] +
                   (ptrdiff_t)from * src->strides[1],
               D * sizeof(float));
}

/* Adds the tokens of a step behind those that readers can see. Returns false if memory runs out. */
static bool add_tokens(const attn_run_growth *g, const attn_run_token *tokens, size_t rows) {
    attn_run_copier c = {.arena = g->arena};
    for (size_t i = 0; i < g->growing; i++) {
        const attn_run_text *text = &g->texts[g->text_count - g->growing + i];
        const size_t at = text->count + rows;
        ((const char **)(uintptr_t)text->tokens)[at] = attn_run_copy_string(&c, tokens[i].text);
        if (text->ids)
            ((int64_t *)(uintptr_t)text->ids)[at] = tokens[i].id;
        if (text->special)
            ((uint8_t *)(uintptr_t)text->special)[at] = tokens[i].special;
    }
    return !c.failed;
}

attn_status attn_run_growth_add(attn_run_growth *g, const attn_attention *const *ops,
                                const attn_run_token *tokens, attn_error *err) {
    const size_t rows = atomic_load(&g->rows);
    if (rows == g->most)
        return attn_fail(err, ATTN_EARG, "", "expected at most %zu steps, found one more", g->most);
    for (size_t i = 0; i < g->site_count; i++)
        if (g->sites[i].grows && !fits(&g->sites[i], ops[i], rows))
            return refuse_site(i, "the operation has not the shape of this step", err);
    ATTN_TAKEN(add_tokens(g, tokens, rows), "a growing run", err);
    for (size_t i = 0; i < g->site_count; i++) {
        const growing_site *s = &g->sites[i];
        if (s->grows)
            copy_row(&s->in.query, rows, &ops[i]->in.query, 0);
        if (s->keys_grow) {
            copy_row(&s->in.key, rows, &ops[i]->in.key, rows);
            copy_row(&s->in.value, rows, &ops[i]->in.value, rows);
        }
    }
    atomic_store(&g->rows, rows + 1);
    return ATTN_OK;
}

size_t attn_run_growth_rows(const attn_run_growth *g) {
    return atomic_load(&g->rows);
}

/* --- looking --- */

/* Returns the inputs of the site's operation over the first `rows` steps. */
static attn_inputs inputs_of(const growing_site *s, size_t rows) {
    attn_inputs in = s->in;
    if (s->grows)
        in.query.dims[1] = rows;
    if (s->keys_grow)
        in.key.dims[1] = in.value.dims[1] = rows;
    return in;
}

/* Returns the texts with the tokens of the first `rows` steps. If `lengths` is not NULL, growing
 * text i has the tokens of the first lengths[i] steps instead. NULL: out of memory. */
static attn_run_text *texts_of(const attn_run_growth *g, size_t rows, const int64_t *lengths,
                               attn_arena *arena) {
    attn_run_text *texts = attn_arena_zeroed(arena, g->text_count + 1, sizeof *texts);
    for (size_t i = 0; texts && i < g->text_count; i++) {
        const size_t first = g->text_count - g->growing;
        texts[i] = g->texts[i];
        if (i >= first)
            texts[i].count += lengths ? (size_t)lengths[i - first] : rows;
    }
    return texts;
}

/* Makes the sites of a run over the first `rows` steps. */
static attn_status make_sites(const attn_run_growth *g, size_t rows, attn_run *run,
                              attn_error *err) {
    run->sites = attn_arena_zeroed(run->arena, g->site_count + 1, sizeof *run->sites);
    run->site_count = g->site_count;
    ATTN_TAKEN(run->sites, "a growing run", err);
    for (size_t i = 0; i < g->site_count; i++) {
        attn_run_site *site = &run->sites[i];
        site->run = run;
        site->info = g->sites[i].info;
        site->in = inputs_of(&g->sites[i], rows);
        ATTN_TRY(attn_attention_shape(&site->in, &site->shape, err));
    }
    return ATTN_OK;
}

attn_status attn_run_growth_look(const attn_run_growth *g, attn_arena *arena, attn_run **out,
                                 size_t *rows, attn_error *err) {
    const size_t n = atomic_load(&g->rows);
    attn_run *run = attn_arena_zeroed(arena, 1, sizeof *run);
    pthread_mutex_t *lock = attn_arena_zeroed(arena, 1, sizeof *lock);
    if (!n)
        return attn_fail(err, ATTN_EARG, "", "the run has no step yet");
    ATTN_TAKEN(run && lock, "a growing run", err);
    pthread_mutex_init(lock, NULL);
    *run = (attn_run){
        .model = g->model,
        .file = {.metadata = g->metadata, .metadata_count = g->metadata_count},
        .arena = arena,
        .lock = lock,
        .texts = texts_of(g, n, NULL, arena),
        .text_count = g->text_count,
    };
    ATTN_TAKEN(run->texts, "a growing run", err);
    ATTN_TRY(make_sites(g, n, run, err));
    *rows = n;
    *out = run;
    return ATTN_OK;
}

/* --- the image of all steps --- */

/* Returns `lengths` if at least one of them is below `rows`, else NULL. */
static const int64_t *ragged(const int64_t *lengths, size_t B, size_t rows) {
    for (size_t b = 0; lengths && b < B; b++)
        if ((size_t)lengths[b] < rows)
            return lengths;
    return NULL;
}

/* Runs the operation over all steps of a site, for its statistics. Sets *out. */
static attn_status run_site(const growing_site *s, size_t rows, const int64_t *lengths,
                            attn_pool *pool, const attn_control *control, attn_arena *arena,
                            attn_run_site_source *out, attn_error *err) {
    attn_inputs in = inputs_of(s, rows);
    attn_attention *op;
    attn_results *results = attn_arena_zeroed(arena, 1, sizeof *results);
    ATTN_TAKEN(results, "a growing run", err);
    in.pool = pool;
    in.control = control;
    ATTN_TRY(attn_attention_new(&in, arena, &op, err));
    ATTN_TRY(attn_attention_run(op, ATTN_WANT_LOGSUMEXP, ATTN_STAGE_PROBS, pool, control, arena,
                                results, err));
    *out = (attn_run_site_source){.op = op, .stats = &results->stats, .info = s->info};
    const int64_t *shorter = ragged(lengths, op->dims.B, rows);
    if (s->grows)
        out->info.query_lengths = shorter;
    if (s->keys_grow)
        out->info.key_lengths = shorter;
    return ATTN_OK;
}

attn_status attn_run_growth_image(const attn_run_growth *g, const int64_t *lengths,
                                  const attn_metadata *metadata, size_t metadata_count,
                                  attn_pool *pool, const attn_control *control, attn_arena *arena,
                                  attn_run_image *out, attn_error *err) {
    const size_t rows = atomic_load(&g->rows);
    attn_run_site_source *sites = attn_arena_zeroed(arena, g->site_count + 1, sizeof *sites);
    const attn_run_source source = {.sites = sites,
                                    .site_count = g->site_count,
                                    .texts = texts_of(g, rows, lengths, arena),
                                    .text_count = g->text_count,
                                    .model = g->model,
                                    .metadata = metadata,
                                    .metadata_count = metadata_count};
    if (!rows)
        return attn_fail(err, ATTN_EARG, "", "the run has no step yet");
    ATTN_TAKEN(sites && source.texts, "a growing run", err);
    for (size_t i = 0; i < g->site_count; i++)
        ATTN_TRY(run_site(&g->sites[i], rows, lengths, pool, control, arena, &sites[i], err));
    return attn_run_image_new(&source, pool, control, arena, out, err);
}
