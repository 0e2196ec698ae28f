/* Greedy and beam search. The encoder runs once over all sources. Each step then extends rows = B *
 * beams hypotheses by one token, with the caches of the decoder's blocks. A step has an arena for
 * its scratch memory, which is freed after it. Of each step only the tokens, the back pointers and
 * rows of attention weights remain, in the caller's arena. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "models/model_private.h"

enum { BEAMS_MOST = 64 };

/* What remains of a step. */
typedef struct step_result {
    int32_t *token; /* [rows] the token that extends each row */
    size_t *parent; /* [rows] the row of the previous step that the token extends */
    /* [rows, heads, S] weights of the step's input rows (before reordering); NULL: not wanted */
    float *weights;
    /* NULL unless alternatives are wanted. `taken` [rows] are the log probabilities of `token`. The
     * others belong to input rows: `ends` [rows] are the log probabilities of the end token,
     * and `choices` [rows] the alternatives. */
    double *taken, *ends;
    attn_alternatives *choices;
} step_result;

/* The best finished hypothesis of a source so far. */
typedef struct ending {
    double score;
    /* steps: number of its tokens with the end token. row: if it ended, the row that the end token
     * extends; else its own row after the last step. */
    size_t steps, row;
    bool ended;
} ending;

typedef struct search {
    model_walk walk; /* walk.pass.arena is the caller's arena, but during a step the step's arena */
    const attn_generate_options *options;
    attn_arena *arena;
    /* heads: of the block `site`; most: largest number of tokens */
    size_t B, S, beams, rows, heads, most;
    size_t site; /* last decoder block with cross-attention, whose weights are kept */
    bool want_weights;
    model_cache *caches; /* [blocks of the decoder] */
    int64_t *lengths;    /* [rows] tokens of each row's source */
    uint8_t *keep;       /* [rows, S] which of them are visible; NULL: all */
    int32_t *tokens;     /* [rows] input of the next step */
    double *sums;        /* [rows] sum of log probabilities; -infinity: the row has no hypothesis */
    step_result *steps;  /* [most] */
    ending *endings;     /* [B] */
    size_t *ended;       /* [B] number of hypotheses that have ended */
} search;

/* A hypothesis extended by a token. */
typedef struct candidate {
    double sum;
    size_t row;
    int32_t token;
    double own; /* log probability of the token */
} candidate;

attn_generate_options attn_generate_defaults(void) {
    return (attn_generate_options){.beams = 1, .length_penalty = 0.6};
}

static void end_at(search *s, size_t b, double sum, size_t steps, size_t row, bool ended) {
    const double penalty = s->beams == 1 ? 0 : s->options->length_penalty;
    const double score = sum / pow((5.0 + (double)steps) / 6.0, penalty);
    if (score > s->endings[b].score)
        s->endings[b] = (ending){score, steps, row, ended};
}

/* Inserts `one` into the list of the `most` best candidates, sorted by falling sum. Of equal sums
 * the earlier candidate comes first. */
static void insert(candidate *best, size_t *count, size_t most, candidate one) {
    size_t at = *count;
    if (at == most && !(one.sum > best[at - 1].sum))
        return;
    if (at < most)
        ++*count;
    else
        at--;
    for (; at && one.sum > best[at - 1].sum; at--)
        best[at] = best[at - 1];
    best[at] = one;
}

/* Inserts the tokens of a row into the list of the `most` best candidates. `max` is the row's
 * largest logit z, and `rest` is log(sum exp(z - max)). */
static void insert_row(const search *s, size_t row, double max, double rest, candidate *best,
                       size_t *count, size_t most) {
    const attn_model_config *c = &s->walk.model->config;
    const float *z = s->walk.logits + row * c->target_vocabulary;
    const double base = s->sums[row] - max - rest;
    for (size_t v = 0; v < c->target_vocabulary; v++)
        if ((int32_t)v != c->pad && (int32_t)v != c->begin)
            insert(best, count, most, (candidate){base + z[v], row, (int32_t)v, z[v] - max - rest});
}

/* Keeps the alternatives of a row at step t. */
static void keep_choices(const search *s, size_t row, size_t t, double max, double rest) {
    const attn_model_config *c = &s->walk.model->config;
    const step_result *step = &s->steps[t];
    candidate best[ATTN_ALTERNATIVES_MOST];
    size_t count = 0;
    insert_row(s, row, max, rest, best, &count, s->options->alternatives);
    attn_alternatives *to = &step->choices[row];
    to->count = count;
    for (size_t i = 0; i < count; i++) {
        to->ids[i] = best[i].token;
        to->log_probabilities[i] = best[i].own;
    }
    step->ends[row] = s->walk.logits[row * c->target_vocabulary + (size_t)c->end] - max - rest;
}

/* Finds the best candidates of source b at step t and returns their number. There are two for each
 * beam, because up to half of them can be end tokens. `scratch` has one float for each word. */
static size_t find_candidates(const search *s, size_t b, size_t t, float *scratch,
                              candidate *best) {
    const size_t V = s->walk.model->config.target_vocabulary;
    size_t count = 0;
    for (size_t row = b * s->beams; row < (b + 1) * s->beams; row++) {
        const float *z = s->walk.logits + row * V;
        float max;
        if (s->sums[row] == -INFINITY)
            continue;
        const float sum = attn_pointwise_current()->exponentials(scratch, z, V, &max);
        insert_row(s, row, max, log((double)sum), best, &count, 2 * s->beams);
        if (s->options->alternatives)
            keep_choices(s, row, t, max, log((double)sum));
    }
    return count;
}

/* Chooses from the candidates of source b which hypotheses end at step t and which continue. */
static void choose(search *s, size_t b, size_t t, float *scratch) {
    const attn_model_config *c = &s->walk.model->config;
    const size_t first = b * s->beams;
    candidate best[2 * BEAMS_MOST];
    const size_t count = find_candidates(s, b, t, scratch, best);
    step_result *step = &s->steps[t];
    size_t alive = 0;
    for (size_t k = 0; k < s->beams; k++) {
        s->sums[first + k] = -INFINITY;
        step->token[first + k] = c->end;
        step->parent[first + k] = first;
    }
    for (size_t i = 0; i < count && alive < s->beams && s->ended[b] < s->beams; i++) {
        if (best[i].token == c->end) {
            s->ended[b]++;
            end_at(s, b, best[i].sum, t + 1, best[i].row, true);
            continue;
        }
        step->token[first + alive] = best[i].token;
        step->parent[first + alive] = best[i].row;
        if (step->taken)
            step->taken[first + alive] = best[i].own;
        s->sums[first + alive++] = best[i].sum;
    }
    for (size_t k = 0; k < alive && s->ended[b] >= s->beams; k++)
        s->sums[first + k] = -INFINITY;
}

static model_rows rows_of(const search *s) {
    return (model_rows){s->rows, s->beams, s->most};
}

/* Reorders the caches so that each row continues its parent's hypothesis. */
static void follow(search *s, const step_result *step, size_t t) {
    const model_stack *stack = &s->walk.model->decoder;
    const model_rows rows = rows_of(s);
    for (size_t i = 0; i < stack->count; i++)
        if (stack->blocks[i].operation->follow)
            stack->blocks[i].operation->follow(&s->walk, &stack->blocks[i], &rows, step->parent,
                                               t + 1, &s->caches[i]);
    memcpy(s->tokens, step->token, s->rows * sizeof *s->tokens);
}

static attn_status tell(const search *s, size_t t, double before, attn_error *err) {
    const step_result *step = &s->steps[t];
    const bool ends = s->ended[0] > 0;
    const double after = ends ? s->endings[0].score : s->sums[0];
    attn_generated_token token = {.id = ends ? s->walk.model->config.end : step->token[0],
                                  .log_probability = after - before,
                                  .weights = step->weights};
    if (step->choices)
        token.alternatives = step->choices[0];
    if (s->options->token && s->options->token(s->options->ctx, &token))
        return attn_fail(err, ATTN_ECANCELED, "", "stopped by the caller");
    return ATTN_OK;
}

static attn_status tell_step(const search *s, size_t t, attn_error *err) {
    const attn_site *sites = attn_models_sites_of(&s->walk, err);
    if (!sites)
        return ATTN_ENOMEM;
    const attn_generated_step step = {.index = t,
                                      .sites = sites,
                                      .site_count = s->walk.model->site_count,
                                      .ids = s->steps[t].token};
    return s->options->step(s->options->step_ctx, &step)
               ? attn_fail(err, ATTN_ECANCELED, "", "stopped by the caller")
               : ATTN_OK;
}

/* Takes the memory for the alternatives of a step. */
static attn_status take_choices(const search *s, step_result *step, attn_error *err) {
    const size_t n = s->options->alternatives, all = s->rows * n;
    if (!n)
        return ATTN_OK;
    int32_t *ids = attn_arena_zeroed(s->arena, all, sizeof *ids);
    double *numbers = attn_arena_zeroed(s->arena, all, sizeof *numbers);
    step->taken = attn_arena_zeroed(s->arena, s->rows, sizeof *step->taken);
    step->ends = attn_arena_zeroed(s->arena, s->rows, sizeof *step->ends);
    step->choices = attn_arena_zeroed(s->arena, s->rows, sizeof *step->choices);
    if (!ids || !numbers || !step->taken || !step->ends || !step->choices)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for the alternatives of a step");
    for (size_t r = 0; r < s->rows; r++)
        step->choices[r] =
            (attn_alternatives){.ids = ids + r * n, .log_probabilities = numbers + r * n};
    return ATTN_OK;
}

static attn_status take_step(search *s, step_result *step, attn_error *err) {
    const size_t cells = s->heads * s->S;
    step->token = attn_arena_zeroed(s->arena, s->rows, sizeof *step->token);
    step->parent = attn_arena_zeroed(s->arena, s->rows, sizeof *step->parent);
    if (s->want_weights)
        step->weights = attn_arena_zeroed(s->arena, s->rows * cells, sizeof(float));
    if (!step->token || !step->parent || (s->want_weights && !step->weights))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a step of the search");
    return take_choices(s, step, err);
}

/* Computes step t of all rows. Scratch memory comes from the step's arena. */
static attn_status advance(search *s, size_t t, attn_error *err) {
    step_result *step = &s->steps[t];
    const double before = s->sums[0];
    attn_status status = take_step(s, step, err);
    if (status || (status = attn_models_decode_step(&s->walk, s->tokens, s->rows, t, s->caches,
                                                    s->lengths, s->keep, s->want_weights, err)))
        return status;
    float *scratch =
        attn_layers_take(&s->walk.pass, 1, s->walk.model->config.target_vocabulary, err);
    if (!scratch)
        return ATTN_ENOMEM;
    if (step->weights)
        memcpy(step->weights, s->walk.decoder.traces[s->site].attend.results.weights.data,
               s->rows * s->heads * s->S * sizeof(float));
    for (size_t b = 0; b < s->B; b++)
        choose(s, b, t, scratch);
    follow(s, step, t);
    if (s->options->step && s->beams == 1 && (status = tell_step(s, t, err)))
        return status;
    return s->rows == 1 ? tell(s, t, before, err) : ATTN_OK;
}

static bool is_going(const search *s) {
    for (size_t r = 0; r < s->rows; r++)
        if (s->sums[r] != -INFINITY)
            return true;
    return false;
}

static attn_status search_all(search *s, attn_error *err) {
    attn_pass *pass = &s->walk.pass;
    attn_status status = ATTN_OK;
    size_t t = 0;
    for (; !status && t < s->most && is_going(s); t++) {
        if ((status = attn_control_check(pass->control, err)))
            break;
        pass->arena = attn_arena_new(attn_arena_limit(s->arena) - attn_arena_used(s->arena));
        status = pass->arena ? advance(s, t, err)
                             : attn_fail(err, ATTN_ENOMEM, "", "no memory for a step's arena");
        attn_arena_free(pass->arena);
    }
    pass->arena = s->arena;
    for (size_t r = 0; !status && r < s->rows; r++)
        if (s->sums[r] != -INFINITY)
            end_at(s, r / s->beams, s->sums[r], t, r, false);
    return status;
}

/* Makes the caches of the decoder's blocks, and finds the last block with cross-attention. */
static attn_status start(search *s, attn_error *err) {
    const model_stack *stack = &s->walk.model->decoder;
    const model_rows rows = rows_of(s);
    attn_status status = ATTN_OK;
    s->caches = attn_arena_zeroed(s->arena, stack->count, sizeof *s->caches);
    if (!s->caches)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a search's caches");
    for (size_t i = 0; !status && i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        if (block->operation == &attn_models_cross) {
            s->site = i;
            s->heads = block->attend.heads;
        }
        if (block->operation->start)
            status = block->operation->start(&s->walk, block, &rows, &s->caches[i], err);
    }
    s->want_weights = s->heads && (s->options->want_weights || s->options->token);
    return status;
}

/* Repeats the visibility of each source's tokens for its beams. */
static attn_status spread_keep(search *s, attn_error *err) {
    if (!s->options->source_keep)
        return ATTN_OK;
    if (!(s->keep = attn_arena_zeroed(s->arena, s->rows, s->S)))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a search of %zu rows", s->rows);
    for (size_t r = 0; r < s->rows; r++)
        memcpy(s->keep + r * s->S, s->options->source_keep + r / s->beams * s->S, s->S);
    return ATTN_OK;
}

static attn_status prepare(search *s, const int64_t *lengths, attn_error *err) {
    s->lengths = attn_arena_zeroed(s->arena, s->rows, sizeof *s->lengths);
    s->tokens = attn_arena_zeroed(s->arena, s->rows, sizeof *s->tokens);
    s->sums = attn_arena_zeroed(s->arena, s->rows, sizeof *s->sums);
    s->steps = attn_arena_zeroed(s->arena, s->most, sizeof *s->steps);
    s->endings = attn_arena_zeroed(s->arena, s->B, sizeof *s->endings);
    s->ended = attn_arena_zeroed(s->arena, s->B, sizeof *s->ended);
    if (!s->lengths || !s->tokens || !s->sums || !s->steps || !s->endings || !s->ended)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a search of %zu rows", s->rows);
    for (size_t r = 0; r < s->rows; r++) {
        s->lengths[r] = lengths[r / s->beams];
        s->tokens[r] = s->walk.model->config.begin;
        s->sums[r] = r % s->beams ? -INFINITY : 0;
    }
    for (size_t b = 0; b < s->B; b++)
        s->endings[b].score = -INFINITY;
    const attn_status status = spread_keep(s, err);
    return status ? status : start(s, err);
}

/* Collects the best sequence of source b. It follows the back pointers from the last token to the
 * first. */
static attn_status read_back(const search *s, size_t b, attn_generated *out, attn_error *err) {
    const ending *e = &s->endings[b];
    const size_t length = e->steps - e->ended, cells = s->heads * s->S;
    size_t row = e->row;
    *out =
        (attn_generated){.length = length, .ended = e->ended, .score = e->score, .heads = s->heads};
    out->ids = attn_arena_zeroed(s->arena, length + 1, sizeof *out->ids);
    if (s->want_weights)
        out->weights = attn_arena_zeroed(s->arena, e->steps * cells + 1, sizeof(float));
    if (s->options->alternatives) {
        out->alternatives = attn_arena_zeroed(s->arena, e->steps + 1, sizeof *out->alternatives);
        out->log_probabilities =
            attn_arena_zeroed(s->arena, e->steps + 1, sizeof *out->log_probabilities);
    }
    if (!out->ids || (s->want_weights && !out->weights) ||
        (s->options->alternatives && (!out->alternatives || !out->log_probabilities)))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a generated sequence");
    for (size_t t = e->steps; t-- > 0;) {
        const step_result *step = &s->steps[t];
        const bool is_end = e->ended && t == length;
        const size_t of = is_end ? row : step->parent[row];
        if (!is_end)
            out->ids[t] = step->token[row];
        for (size_t h = 0; out->weights && h < s->heads; h++)
            memcpy(out->weights + (h * e->steps + t) * s->S, step->weights + of * cells + h * s->S,
                   s->S * sizeof(float));
        if (out->alternatives) {
            out->alternatives[t] = step->choices[of];
            out->log_probabilities[t] = is_end ? step->ends[of] : step->taken[row];
        }
        row = of;
    }
    return ATTN_OK;
}

static attn_status check_options(const attn_generate_options *o, attn_error *err) {
    if (o->beams < 1 || o->beams > BEAMS_MOST)
        return attn_fail(err, ATTN_EARG, "beams", "expected 1 to %d, found %zu", BEAMS_MOST,
                         o->beams);
    if (o->alternatives > ATTN_ALTERNATIVES_MOST)
        return attn_fail(err, ATTN_EARG, "alternatives", "expected 0 to %d, found %zu",
                         ATTN_ALTERNATIVES_MOST, o->alternatives);
    if (!isfinite(o->length_penalty))
        return attn_fail(err, ATTN_EARG, "length_penalty", "expected a finite number");
    return ATTN_OK;
}

attn_status attn_model_generate(const attn_model *model, const int32_t *source,
                                const int64_t *source_lengths, size_t B, size_t S,
                                const attn_generate_options *options, attn_arena *arena,
                                attn_pool *pool, const attn_control *control, attn_generated *out,
                                attn_error *err) {
    const size_t most = options->most ? options->most : 2 * S + 10;
    search s = {.options = options, .arena = arena, .B = B, .S = S, .beams = options->beams};
    const attn_batch batch = {.B = B,
                              .S = S,
                              .source = source,
                              .source_lengths = source_lengths,
                              .source_keep = options->source_keep};
    attn_status status = check_options(options, err);
    if (status || (status = attn_models_check_source(model, &batch, err)))
        return status;
    if (!attn_size_mul(B, s.beams, &s.rows))
        return attn_fail(err, ATTN_ELIMIT, "beams", "too many sequences");
    s.most = most < model->config.max_length ? most : model->config.max_length;
    s.walk =
        (model_walk){.model = model, .pass = {.arena = arena, .pool = pool, .control = control}};
    if ((status = attn_models_encode(&s.walk, &batch, false, err)) ||
        (status = prepare(&s, source_lengths, err)) || (status = search_all(&s, err)))
        return status;
    for (size_t b = 0; !status && b < B; b++)
        status = read_back(&s, b, &out[b], err);
    return status;
}
