/* Generation: greedy search, beam search and sampling. An encoder runs once over all sources. Without
 * one the sources are prompts: their common tokens are read many at once, and later steps take the
 * rest of longer prompts instead of choosing tokens. Each step extends rows = B * beams hypotheses
 * by one token, beside the caches of earlier steps. A step has an arena of its own; the caller's
 * keeps tokens, back pointers, and the attention weights and alternatives that are wanted. */
#include <math.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "kernels/pointwise.h"
#include "models/model_private.h"

/* The results of a step, which live as long as the search. */
typedef struct step_result {
    int32_t *token; /* [rows] the token that extends each row */
    size_t *parent; /* [rows] the row of the previous step that the token extends */
    /* [rows, heads, columns] weights. Their rows are in the order in which the step reads the
     * caches. NULL: not wanted */
    float *weights;
    double *taken; /* [rows] log probability of `token`; NULL: alternatives are not wanted */
    /* [rows] alternatives, in the same order of rows as `weights`; NULL: not wanted */
    attn_alternatives *choices;
} step_result;

/* The best finished hypothesis of a source so far. */
typedef struct ending {
    double score;
    size_t steps;  /* number of tokens of the hypothesis, prompt and end token included */
    size_t row;    /* ended: the row that the end token extends; else the row after `steps` steps */
    bool ended;    /* the hypothesis has an end token; false: it reached the limit of tokens */
    int32_t token; /* the end token; used only if `ended` */
    double own;    /* log probability of the end token */
} ending;

typedef struct search {
    model_walk walk; /* walk.pass.arena: during a step the step's arena, else the caller's arena */
    const attn_generate_options *options;
    attn_arena *arena;
    size_t B, S, beams, rows; /* B sources of at most S tokens; rows = B * beams */
    size_t most;              /* largest number of steps of any source */
    /* The decoder block whose weights are kept: the last block with cross-attention or, if there is
     * no encoder, the last block with self-attention. */
    size_t site;
    size_t heads;           /* number of heads of block `site`; 0: there is no such block */
    size_t columns;         /* number of keys in `weights`: S or, without an encoder, `most` */
    bool continues;         /* the model has no encoder: the sources are prompts */
    const int32_t *prompts; /* [B, S] the prompts; a bare prompt begins at its second token here */
    size_t *prompted;       /* [B] tokens in each row of `prompts`; 0 if the model has an encoder */
    size_t *limits;         /* [B] largest number of steps of each source, its prompt included */
    bool want_weights;
    model_cache *caches; /* [blocks of the decoder] */
    int64_t *lengths;    /* [rows] number of tokens of each row's source */
    uint8_t *keep;       /* [rows, S] 0: the source token is hidden; NULL: none is hidden */
    int32_t *tokens;     /* [rows] input of the next step */
    double *sums;        /* [rows] sum of log probabilities; -infinity: the row has no hypothesis */
    step_result *steps;  /* [most] */
    ending *endings;     /* [B] */
    size_t *ended;       /* [B] number of hypotheses that have ended */
} search;

/* A hypothesis extended by a token. */
typedef struct candidate {
    double sum;    /* sum of the log probabilities of the tokens, the new token included */
    size_t row;    /* row of the hypothesis that the token extends */
    int32_t token; /* the token, and its log probability */
    double own;
} candidate;

static void end_at(search *s, size_t b, double sum, ending end) {
    const double penalty = s->beams == 1 ? 0 : s->options->length_penalty;
    end.score = sum / pow((5.0 + (double)(end.steps - s->prompted[b])) / 6.0, penalty);
    if (end.score > s->endings[b].score)
        s->endings[b] = end;
}

/* Returns whether a token ends a sequence. */
static bool is_end(const search *s, int32_t token) {
    bool found = token == s->walk.model->config.end;
    for (size_t i = 0; i < s->options->stop_count; i++)
        found = found || token == s->options->stop[i];
    return found;
}

/* Inserts `one` into `best` [*count], which has the best candidates so far, at most `most`, sorted
 * by falling sum. Of candidates with equal sums, the one that was inserted first comes first. */
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

/* Inserts the candidates that extend a row by one token into `best` (see insert). `max` is the row's
 * largest logit z, and `rest` is log(sum exp(z - max)). */
static void insert_row(const search *s, size_t row, double max, double rest, candidate *best,
                       size_t *count, size_t most) {
    const attn_model_config *c = &s->walk.model->config;
    const float *z = s->walk.logits + row * c->target_vocabulary;
    const double base = s->sums[row] - max - rest;
    for (size_t v = 0; v < c->target_vocabulary; v++)
        if (attn_models_may_write(c, (int32_t)v) && z[v] > -INFINITY)
            insert(best, count, most, (candidate){base + z[v], row, (int32_t)v, z[v] - max - rest});
}

/* Stores the most probable tokens of a row as its alternatives at step t. `max` and `rest` are
 * those of insert_row. */
static void keep_choices(const search *s, size_t row, size_t t, double max, double rest) {
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
}

/* Replaces *best by a candidate that is drawn at random at step t for source b. Sampling has one
 * beam, so b is also the number of the row. */
static attn_status draw_candidate(const search *s, size_t b, size_t t, double max, double rest,
                                  candidate *best, attn_error *err) {
    const attn_model_config *c = &s->walk.model->config;
    const float *z = s->walk.logits + b * c->target_vocabulary;
    const double uniform = attn_rng_uniform(attn_rng_bits(s->options->seed, b), t - s->prompted[b]);
    ATTN_TRY(attn_models_draw(z, c, s->options, uniform, s->walk.pass.arena, &best->token, err));
    best->own = z[best->token] - max - rest;
    best->sum = s->sums[b] + best->own;
    return ATTN_OK;
}

/* Changes the logits of source b at step t by the penalties. Such a search has one beam, so that b is
 * the number of the row and each step has the next token of the sequence. */
static attn_status penalise(const search *s, size_t b, size_t t, float *logits, attn_error *err) {
    const attn_model_config *c = &s->walk.model->config;
    const int32_t *prompt = s->prompts + b * s->S;
    const size_t prompted = s->prompted[b];
    attn_arena *arena = s->walk.pass.arena;
    int32_t *ids = attn_arena_zeroed(arena, t + 1, sizeof *ids);
    ATTN_TAKEN(ids, "the tokens of a sequence", err);
    ids[0] = s->options->bare ? prompt[-1] : c->begin;
    memcpy(ids + 1, prompt, prompted * sizeof *ids);
    for (size_t i = prompted; i < t; i++)
        ids[i + 1] = s->steps[i].token[b];
    return attn_models_penalise(s->options, ids, prompted + 1, t + 1, c->target_vocabulary, logits,
                                arena, err);
}

/* Finds the best candidates of source b at step t: two for each beam, because candidates with an
 * end token do not continue. When sampling, draws one candidate instead. `scratch` [V] is
 * overwritten. */
static attn_status find_candidates(const search *s, size_t b, size_t t, float *scratch,
                                   candidate *best, size_t *count, attn_error *err) {
    const size_t V = s->walk.model->config.target_vocabulary;
    attn_status status = ATTN_OK;
    *count = 0;
    for (size_t row = b * s->beams; !status && row < (b + 1) * s->beams; row++) {
        float *z = s->walk.logits + row * V;
        float max;
        if (s->sums[row] == -INFINITY)
            continue;
        if (attn_models_penalises(s->options))
            ATTN_TRY(penalise(s, b, t, z, err));
        const float sum = attn_pointwise_current()->exponentials(scratch, z, V, &max);
        insert_row(s, row, max, log((double)sum), best, count, 2 * s->beams);
        if (s->options->alternatives)
            keep_choices(s, row, t, max, log((double)sum));
        if (s->options->samples && *count) {
            *count = 1;
            status = draw_candidate(s, b, t, max, log((double)sum), best, err);
        }
    }
    return status;
}

/* Extends the hypotheses of source b by token t of its prompt. */
static void follow_prompt(search *s, size_t b, size_t t) {
    for (size_t row = b * s->beams; row < (b + 1) * s->beams; row++) {
        s->steps[t].token[row] = s->prompts[b * s->S + t];
        s->steps[t].parent[row] = b * s->beams;
    }
}

/* Chooses which candidates of source b end at step t and which become its beams. */
static attn_status extend_beams(search *s, size_t b, size_t t, float *scratch, attn_error *err) {
    const attn_model_config *c = &s->walk.model->config;
    const size_t first = b * s->beams;
    candidate best[2 * ATTN_MODELS_BEAMS];
    size_t count;
    const double sum = s->sums[first];
    const attn_status status = find_candidates(s, b, t, scratch, best, &count, err);
    step_result *step = &s->steps[t];
    size_t alive = 0;
    if (status)
        return status;
    if (!count && sum != -INFINITY) /* penalties forbid all tokens */
        end_at(s, b, sum, (ending){.steps = t, .row = first});
    for (size_t k = 0; k < s->beams; k++) {
        s->sums[first + k] = -INFINITY;
        step->token[first + k] = c->end < 0 ? 0 : c->end;
        step->parent[first + k] = first;
    }
    for (size_t i = 0; i < count && alive < s->beams && s->ended[b] < s->beams; i++) {
        if (is_end(s, best[i].token)) {
            s->ended[b]++;
            end_at(s, b, best[i].sum,
                   (ending){.steps = t + 1,
                            .row = best[i].row,
                            .ended = true,
                            .token = best[i].token,
                            .own = best[i].own});
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
    return ATTN_OK;
}

static model_rows rows_of(const search *s) {
    return (model_rows){s->rows, s->beams, s->most};
}

/* Reorders the caches so that each row continues its parent's hypothesis, and makes the tokens of
 * the step the input of the next step. */
static void reorder_caches(search *s, const step_result *step, size_t t) {
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
    attn_generated_token token = {.id = ends ? s->endings[0].token : step->token[0],
                                  .ends = ends,
                                  .log_probability = after - before,
                                  .weights = step->weights,
                                  .heads = s->heads,
                                  .columns = s->continues ? t + 1 : s->columns,
                                  .stride = s->columns};
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

/* Allocates the alternatives of a step, if they are wanted. */
static attn_status take_choices(const search *s, step_result *step, attn_error *err) {
    const size_t n = s->options->alternatives, all = s->rows * n;
    if (!n)
        return ATTN_OK;
    int32_t *ids = attn_arena_zeroed(s->arena, all, sizeof *ids);
    double *numbers = attn_arena_zeroed(s->arena, all, sizeof *numbers);
    step->taken = attn_arena_zeroed(s->arena, s->rows, sizeof *step->taken);
    step->choices = attn_arena_zeroed(s->arena, s->rows, sizeof *step->choices);
    ATTN_TAKEN(ids && numbers && step->taken && step->choices, "the alternatives of a step", err);
    for (size_t r = 0; r < s->rows; r++)
        step->choices[r] =
            (attn_alternatives){.ids = ids + r * n, .log_probabilities = numbers + r * n};
    return ATTN_OK;
}

/* Allocates the results of a step. */
static attn_status new_step(search *s, step_result *step, attn_error *err) {
    const size_t cells = s->heads * s->columns;
    step->token = attn_arena_zeroed(s->arena, s->rows, sizeof *step->token);
    step->parent = attn_arena_zeroed(s->arena, s->rows, sizeof *step->parent);
    if (s->want_weights)
        step->weights = attn_arena_zeroed(s->arena, s->rows * cells, sizeof(float));
    ATTN_TAKEN(step->token && step->parent && (!s->want_weights || step->weights),
               "a step of the search", err);
    return take_choices(s, step, err);
}

/* Copies the attention weights of the step to step->weights. The weights have `seen` columns; the
 * other columns of step->weights stay 0. */
static void keep_weights(const search *s, const step_result *step, size_t seen) {
    const float *from = s->walk.decoder.traces[s->site].attend.results.weights.data;
    for (size_t i = 0; step->weights && i < s->rows * s->heads; i++)
        memcpy(step->weights + i * s->columns, from + i * seen, seen * sizeof *from);
}

/* Extends the hypotheses of all sources at step t: by the next token of the prompt, or by chosen
 * tokens if the prompt has no more tokens. */
static attn_status extend_all(search *s, size_t t, attn_error *err) {
    float *scratch =
        attn_layers_take(&s->walk.pass, 1, s->walk.model->config.target_vocabulary, err);
    attn_status status = scratch ? ATTN_OK : ATTN_ENOMEM;
    for (size_t b = 0; !status && b < s->B; b++)
        if (t < s->prompted[b])
            follow_prompt(s, b, t);
        else
            status = extend_beams(s, b, t, scratch, err);
    return status;
}

/* Ends all hypotheses of the sources that may take no more than `steps` steps. */
static void end_longest(search *s, size_t steps) {
    for (size_t r = 0; r < s->rows; r++)
        if (steps == s->limits[r / s->beams] && s->sums[r] != -INFINITY) {
            end_at(s, r / s->beams, s->sums[r], (ending){.steps = steps, .row = r});
            s->sums[r] = -INFINITY;
        }
}

/* Computes step t of all rows. Scratch memory comes from the step's arena, s->walk.pass.arena. */
static attn_status run_step(search *s, size_t t, attn_error *err) {
    step_result *step = &s->steps[t];
    const double before = s->sums[0];
    ATTN_TRY(new_step(s, step, err));
    ATTN_TRY(attn_models_decode_step(&s->walk, s->tokens, s->rows, 1, t, s->caches, s->lengths,
                                     s->keep, s->want_weights, err));
    ATTN_TRY(attn_models_head(&s->walk, err));
    keep_weights(s, step, s->continues ? t + 1 : s->columns);
    ATTN_TRY(extend_all(s, t, err));
    reorder_caches(s, step, t);
    if (s->options->step && s->beams == 1)
        ATTN_TRY(tell_step(s, t, err));
    if (s->rows == 1 && t >= s->prompted[0] && (s->ended[0] || s->sums[0] != -INFINITY))
        ATTN_TRY(tell(s, t, before, err));
    end_longest(s, t + 1);
    return ATTN_OK;
}

static bool is_going(const search *s) {
    for (size_t r = 0; r < s->rows; r++)
        if (s->sums[r] != -INFINITY)
            return true;
    return false;
}

/* Returns the length of the shortest prompt, or 0 if options->step is called for prompts, too. */
static size_t shortest_prompt(const search *s) {
    size_t shortest = s->options->step ? 0 : s->most;
    for (size_t b = 0; b < s->B; b++)
        shortest = s->prompted[b] < shortest ? s->prompted[b] : shortest;
    return shortest;
}

/* Reads up to ATTN_MODELS_TOGETHER tokens of all rows, from number t on. The begin token is number
 * 0, and prompts follow it. The token after those read is the input of the next step. */
static attn_status read_prompts(search *s, size_t t, attn_error *err) {
    const size_t left = shortest_prompt(s) - t,
                 n = left < ATTN_MODELS_TOGETHER ? left : ATTN_MODELS_TOGETHER;
    int32_t *ids = attn_arena_zeroed(s->walk.pass.arena, s->rows * n, sizeof *ids);
    ATTN_TAKEN(ids, "the tokens of a prompt", err);
    for (size_t r = 0; r < s->rows; r++) {
        const int32_t *prompt = s->prompts + r / s->beams * s->S + t;
        ids[r * n] = s->tokens[r];
        memcpy(ids + r * n + 1, prompt, (n - 1) * sizeof *ids);
        s->tokens[r] = prompt[n - 1];
    }
    return attn_models_decode_step(&s->walk, ids, s->rows, n, t, s->caches, s->lengths, s->keep,
                                   false, err);
}

/* Runs a function with an arena of its own for scratch memory. */
static attn_status run_apart(search *s, attn_status (*run)(search *s, size_t t, attn_error *err),
                             size_t t, attn_error *err) {
    attn_pass *pass = &s->walk.pass;
    ATTN_TRY(attn_control_check(pass->control, err));
    pass->arena = attn_arena_new(attn_arena_limit(s->arena) - attn_arena_used(s->arena));
    const attn_status status =
        pass->arena ? run(s, t, err)
                    : attn_fail(err, ATTN_ENOMEM, "", "no memory for a step's arena");
    attn_arena_free(pass->arena);
    pass->arena = s->arena;
    return status;
}

static attn_status search_all(search *s, attn_error *err) {
    const size_t first = shortest_prompt(s);
    for (size_t t = 0; t < first; t += ATTN_MODELS_TOGETHER)
        ATTN_TRY(run_apart(s, read_prompts, t, err));
    end_longest(s, first);
    for (size_t t = first; t < s->most && is_going(s); t++)
        ATTN_TRY(run_apart(s, run_step, t, err));
    return ATTN_OK;
}

/* Makes the caches of the decoder's blocks, and finds the block whose weights are kept. */
static attn_status start(search *s, attn_error *err) {
    const model_stack *stack = &s->walk.model->decoder;
    const model_rows rows = rows_of(s);
    s->caches = attn_arena_zeroed(s->arena, stack->count, sizeof *s->caches);
    ATTN_TAKEN(s->caches, "the caches of a search", err);
    for (size_t i = 0; i < stack->count; i++) {
        const model_block *block = &stack->blocks[i];
        if (block->operation == (s->continues ? &attn_models_causal : &attn_models_cross)) {
            s->site = i;
            s->heads = block->attend.heads;
        }
        if (block->operation->start)
            ATTN_TRY(block->operation->start(&s->walk, block, &rows, &s->caches[i], err));
    }
    s->columns = s->continues ? s->most : s->S;
    s->want_weights = s->heads && (s->options->want_weights || s->options->token);
    return ATTN_OK;
}

/* Makes s->keep [rows, S], which repeats source_keep of each source for each of its beams. */
static attn_status spread_keep(search *s, attn_error *err) {
    if (!s->options->source_keep)
        return ATTN_OK;
    ATTN_TAKEN((s->keep = attn_arena_zeroed(s->arena, s->rows, s->S)), "the rows of a search", err);
    for (size_t r = 0; r < s->rows; r++)
        memcpy(s->keep + r * s->S, s->options->source_keep + r / s->beams * s->S, s->S);
    return ATTN_OK;
}

/* Sets how many tokens each prompt has, and how many steps each source may take. */
static void set_limits(search *s, const int64_t *lengths) {
    const size_t longest = s->walk.model->config.max_length, read = s->options->bare;
    const size_t most = s->options->most ? s->options->most : 2 * s->S + 10;
    for (size_t b = 0; b < s->B; b++) {
        s->prompted[b] = s->continues ? (size_t)lengths[b] - read : 0;
        s->limits[b] = most < longest - s->prompted[b] ? most + s->prompted[b] : longest;
        s->most = s->limits[b] > s->most ? s->limits[b] : s->most;
    }
}

static attn_status prepare(search *s, const int64_t *lengths, attn_error *err) {
    s->prompted = attn_arena_zeroed(s->arena, s->B, sizeof *s->prompted);
    s->limits = attn_arena_zeroed(s->arena, s->B, sizeof *s->limits);
    if (s->prompted && s->limits)
        set_limits(s, lengths);
    s->lengths = attn_arena_zeroed(s->arena, s->rows, sizeof *s->lengths);
    s->tokens = attn_arena_zeroed(s->arena, s->rows, sizeof *s->tokens);
    s->sums = attn_arena_zeroed(s->arena, s->rows, sizeof *s->sums);
    s->steps = attn_arena_zeroed(s->arena, s->most + 1, sizeof *s->steps);
    s->endings = attn_arena_zeroed(s->arena, s->B, sizeof *s->endings);
    s->ended = attn_arena_zeroed(s->arena, s->B, sizeof *s->ended);
    ATTN_TAKEN(s->prompted && s->limits && s->lengths && s->tokens && s->sums && s->steps &&
                   s->endings && s->ended,
               "the rows of a search", err);
    for (size_t r = 0; r < s->rows; r++) {
        s->lengths[r] = lengths[r / s->beams];
        s->tokens[r] =
            s->options->bare ? s->prompts[r / s->beams * s->S - 1] : s->walk.model->config.begin;
        s->sums[r] = r % s->beams ? -INFINITY : 0;
    }
    for (size_t b = 0; b < s->B; b++)
        s->endings[b] = (ending){.score = -INFINITY, .steps = s->prompted[b]};
    const attn_status status = spread_keep(s, err);
    return status ? status : start(s, err);
}

/* Allocates a generated sequence of `steps` new tokens, the end token included. */
static attn_status take_sequence(const search *s, size_t steps, attn_generated *out,
                                 attn_error *err) {
    out->ids = attn_arena_zeroed(s->arena, steps + 1, sizeof *out->ids);
    if (s->want_weights)
        out->weights =
            attn_arena_zeroed(s->arena, steps * s->heads * out->columns + 1, sizeof(float));
    if (s->options->alternatives) {
        out->alternatives = attn_arena_zeroed(s->arena, steps + 1, sizeof *out->alternatives);
        out->log_probabilities =
            attn_arena_zeroed(s->arena, steps + 1, sizeof *out->log_probabilities);
    }
    ATTN_TAKEN(out->ids && (!s->want_weights || out->weights) &&
                   (!s->options->alternatives || (out->alternatives && out->log_probabilities)),
               "a generated sequence", err);
    return ATTN_OK;
}

/* Collects the best sequence of source b: follows the back pointers from its last token to its
 * first token after the prompt. */
static attn_status read_back(const search *s, size_t b, attn_generated *out, attn_error *err) {
    const ending *e = &s->endings[b];
    const size_t first = s->prompted[b], steps = e->steps - first;
    size_t row = e->row;
    *out = (attn_generated){.length = steps - e->ended,
                            .ended = e->ended,
                            .end = e->token,
                            .score = e->score,
                            .heads = s->heads,
                            .columns = s->continues ? e->steps : s->S};
    const attn_status status = take_sequence(s, steps, out, err);
    for (size_t t = steps; !status && t-- > 0;) {
        const step_result *step = &s->steps[first + t];
        const bool ends = e->ended && t == out->length;
        const size_t of = ends ? row : step->parent[row];
        if (!ends)
            out->ids[t] = step->token[row];
        for (size_t h = 0; out->weights && h < s->heads; h++)
            memcpy(out->weights + (h * steps + t) * out->columns,
                   step->weights + (of * s->heads + h) * s->columns, out->columns * sizeof(float));
        if (out->alternatives) {
            out->alternatives[t] = step->choices[of];
            out->log_probabilities[t] = ends ? e->own : step->taken[row];
        }
        row = of;
    }
    return status;
}

/* Checks the sources, and runs the encoder if there is one. */
static attn_status read_sources(search *s, const attn_batch *batch, attn_error *err) {
    const attn_model *m = s->walk.model;
    ATTN_TRY(m->encoder.count ? attn_models_check_source(m, batch, err)
                              : attn_models_check_prompts(m, batch, s->options->bare, err));
    if (!attn_size_mul(s->B, s->beams, &s->rows))
        return attn_fail(err, ATTN_ELIMIT, "beams", "too many sequences");
    return m->encoder.count ? attn_models_encode(&s->walk, batch, false, err) : ATTN_OK;
}

attn_status attn_model_generate(const attn_model *model, const int32_t *source,
                                const int64_t *source_lengths, size_t B, size_t S,
                                const attn_generate_options *options, attn_arena *arena,
                                attn_pool *pool, const attn_control *control, attn_generated *out,
                                attn_error *err) {
    search s = {.options = options,
                .arena = arena,
                .B = B,
                .S = S,
                .beams = options->beams,
                .continues = !model->encoder.count,
                .prompts = source + options->bare,
                .walk = {.model = model,
                         .pass = {.arena = arena, .pool = pool, .control = control},
                         .interventions = options->interventions,
                         .intervention_count = options->intervention_count}};
    const attn_batch batch = {.B = B,
                              .S = S,
                              .source = source,
                              .source_lengths = source_lengths,
                              .source_keep = options->source_keep};
    s.walk.pass.lean = attn_models_may_be_lean(model);
    ATTN_TRY(attn_models_check_generate(model, options, err));
    ATTN_TRY(read_sources(&s, &batch, err));
    ATTN_TRY(prepare(&s, source_lengths, err));
    ATTN_TRY(search_all(&s, err));
    for (size_t b = 0; b < B; b++)
        ATTN_TRY(read_back(&s, b, &out[b], err));
    return ATTN_OK;
}

void attn_models_search_cost(const attn_model *m, const attn_model_pass *p, attn_layer_cost *cost) {
    const double rows = (double)p->rows, B = rows / (double)p->beams, T = (double)p->T + 1;
    const double n = (double)p->alternatives;
    const double heads = m->site_count ? (double)m->sites[m->site_count - 1].heads : 0;
    const double cells = p->keeps_weights ? heads * (double)(m->encoder.count ? p->S : p->T) : 0;
    attn_layer_cost step = {0}; /* memory of new_step and take_choices */
    attn_cost_bytes(&step, rows * sizeof(int32_t));
    attn_cost_bytes(&step, rows * sizeof(size_t));
    attn_cost_floats(&step, rows * cells);
    attn_cost_bytes(&step, rows * n * sizeof(int32_t));
    attn_cost_bytes(&step, rows * n * sizeof(double));
    attn_cost_bytes(&step, n > 0 ? rows * sizeof(double) : 0);
    attn_cost_bytes(&step, n > 0 ? rows * sizeof(attn_alternatives) : 0);
    cost->bytes += T * step.bytes;
    /* memory of prepare */
    attn_cost_bytes(cost, T * sizeof(step_result));
    attn_cost_bytes(cost, rows * (sizeof(int64_t) + sizeof(int32_t) + sizeof(double)));
    attn_cost_bytes(cost, p->hides ? rows * (double)p->S : 0);
    attn_cost_bytes(cost, B * (3 * sizeof(size_t) + sizeof(ending)));
    /* memory of read_back */
    attn_cost_bytes(cost, B * T * (sizeof(int32_t) + sizeof(float) * cells));
    attn_cost_bytes(cost, n > 0 ? B * T * (sizeof(double) + sizeof(attn_alternatives)) : 0);
    cost->bytes += ATTN_ALIGN * (8 + 4 * B);
}
