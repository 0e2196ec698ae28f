/* Greedy and beam search. The sources are encoded at once; then rows = B * beams hypotheses go on
 * together, a token a step, from the LSTM's states and the keys and values of the encoder. A step's
 * scratch is an arena of its own; what stays of it are back pointers, and rows of attention. */
#include <math.h>
#include <string.h>

#include "kernels/pointwise.h"
#include "layers/dense_layer.h"
#include "models/model_private.h"

enum { BEAMS_MOST = 64 };

/* One step of all rows: the token that each took, the row that it went on from, where that looked.
 */
typedef struct taken {
    int32_t *token; /* [rows] */
    size_t *parent; /* [rows] */
    float *weights; /* [rows, heads, S], by parent; NULL: not wanted */
} taken;

/* The best hypothesis of a source so far. */
typedef struct ending {
    double score;
    size_t steps, row; /* tokens, the end included; ended: the row before the end, else its own */
    bool ended;
} ending;

typedef struct search {
    model_walk walk; /* its pass has the caller's arena while encoding, then each step's own */
    const attn_generate_options *options;
    attn_arena *arena;
    size_t B, S, beams, rows, heads, most;
    model_decoding from;
    attn_attend_saved ready;
    attn_lstm_state state, next; /* [layers, rows, D] */
    int32_t *tokens;             /* [rows]: what the next step reads */
    double *sums;                /* [rows] log probabilities; -infinity: no hypothesis */
    taken *steps;                /* [most] */
    ending *endings;             /* [B] */
    size_t *ended;               /* [B]: how many have */
} search;

/* A way to go on: from a row with a token. */
typedef struct candidate {
    double sum;
    size_t row;
    int32_t token;
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

/* Keep `one` among the best of a list sorted by falling sum; earlier ones win ties. */
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

/* The best ways on for source b, twice as many as beams, since half of them may end. */
static size_t ways_on(const search *s, size_t b, float *scratch, candidate *best) {
    const attn_model_config *c = &s->walk.model->config;
    const size_t V = c->target_vocabulary;
    size_t count = 0;
    for (size_t row = b * s->beams; row < (b + 1) * s->beams; row++) {
        const float *z = s->walk.logits + row * V;
        float max;
        if (s->sums[row] == -INFINITY)
            continue;
        const float sum = attn_pointwise_current()->exponentials(scratch, z, V, &max);
        const double base = s->sums[row] - max - log((double)sum);
        for (size_t v = 0; v < V; v++)
            if ((int32_t)v != c->pad && (int32_t)v != c->begin)
                insert(best, &count, 2 * s->beams, (candidate){base + z[v], row, (int32_t)v});
    }
    return count;
}

/* Which hypotheses of source b go on, and which end, at step t. */
static void choose(search *s, size_t b, size_t t, float *scratch) {
    const attn_model_config *c = &s->walk.model->config;
    const size_t first = b * s->beams;
    candidate best[2 * BEAMS_MOST];
    const size_t count = ways_on(s, b, scratch, best);
    taken *step = &s->steps[t];
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
        s->sums[first + alive++] = best[i].sum;
    }
    for (size_t k = 0; k < alive && s->ended[b] >= s->beams; k++)
        s->sums[first + k] = -INFINITY;
}

/* The states of the rows that were gone on from. */
static void follow(search *s, const taken *step) {
    const size_t D = s->walk.model->config.width, bytes = D * sizeof(float);
    for (size_t l = 0; l < s->walk.model->config.layers; l++)
        for (size_t r = 0; r < s->rows; r++) {
            const size_t to = (l * s->rows + r) * D, of = (l * s->rows + step->parent[r]) * D;
            memcpy(s->state.h + to, s->next.h + of, bytes);
            memcpy(s->state.c + to, s->next.c + of, bytes);
        }
    memcpy(s->tokens, step->token, s->rows * sizeof *s->tokens);
}

static attn_status tell(const search *s, size_t t, double before, attn_error *err) {
    const taken *step = &s->steps[t];
    const bool ends = s->ended[0] > 0;
    const double after = ends ? s->endings[0].score : s->sums[0];
    if (s->options->token &&
        s->options->token(s->options->ctx, ends ? s->walk.model->config.end : step->token[0],
                          after - before, step->weights))
        return attn_fail(err, ATTN_ECANCELED, "", "stopped by the caller");
    return ATTN_OK;
}

static attn_status take_step(search *s, taken *step, attn_error *err) {
    const size_t cells = s->heads * s->S;
    step->token = attn_arena_zeroed(s->arena, s->rows, sizeof *step->token);
    step->parent = attn_arena_zeroed(s->arena, s->rows, sizeof *step->parent);
    if (s->from.want_weights)
        step->weights = attn_arena_zeroed(s->arena, s->rows * cells, sizeof(float));
    if (!step->token || !step->parent || (s->from.want_weights && !step->weights))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a step of the search");
    return ATTN_OK;
}

/* Step t of all rows, with scratch in the pass's arena. */
static attn_status advance(search *s, size_t t, attn_error *err) {
    taken *step = &s->steps[t];
    const double before = s->sums[0];
    attn_status status = take_step(s, step, err);
    if (status || (status = attn_models_decode(&s->walk, s->tokens, s->rows, 1, t, &s->from, err)))
        return status;
    float *scratch =
        attn_layers_take(&s->walk.pass, 1, s->walk.model->config.target_vocabulary, err);
    if (!scratch)
        return ATTN_ENOMEM;
    if (step->weights)
        memcpy(step->weights, s->walk.decoder.attend.results.weights.data,
               s->rows * s->heads * s->S * sizeof(float));
    for (size_t b = 0; b < s->B; b++)
        choose(s, b, t, scratch);
    follow(s, step);
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

/* x [B, n] for each beam of each source. */
static const float *spread(search *s, const float *x, size_t n, attn_error *err) {
    if (s->beams == 1)
        return x;
    float *all = attn_layers_take(&s->walk.pass, s->rows, n, err);
    for (size_t r = 0; all && r < s->rows; r++)
        memcpy(all + r * n, x + r / s->beams * n, n * sizeof *x);
    return all;
}

/* What every step looks at: the memory, or its keys and values. */
static attn_status look_ahead(search *s, attn_error *err) {
    const attn_model *m = s->walk.model;
    const size_t n = s->S * m->config.width;
    const float *memory = s->walk.encoder.out;
    attn_status status =
        attn_attend_ready(memory, s->B, s->S, &m->cross_attention, &s->ready, &s->walk.pass, err);
    if (status)
        return status;
    const bool projected = s->ready.k != memory;
    s->from.memory = projected ? memory : spread(s, memory, n, err);
    s->ready.k = projected ? spread(s, s->ready.k, n, err) : s->from.memory;
    s->ready.v = projected ? spread(s, s->ready.v, n, err) : s->from.memory;
    s->from.ready = &s->ready;
    return s->from.memory && s->ready.k && s->ready.v ? ATTN_OK : ATTN_ENOMEM;
}

static attn_status start_states(search *s, attn_error *err) {
    const size_t layers = s->walk.model->config.layers, D = s->walk.model->config.width;
    const attn_lstm_state *handed = &s->walk.handed;
    attn_pass *pass = &s->walk.pass;
    s->state.h = attn_layers_zeroed(pass, layers * s->rows, D, err);
    s->state.c = attn_layers_zeroed(pass, layers * s->rows, D, err);
    s->next.h = attn_layers_take(pass, layers * s->rows, D, err);
    s->next.c = attn_layers_take(pass, layers * s->rows, D, err);
    if (!s->state.h || !s->state.c || !s->next.h || !s->next.c)
        return ATTN_ENOMEM;
    for (size_t i = 0; handed->h && i < layers * s->rows; i++) {
        const size_t of = (i / s->rows * s->B + i % s->rows / s->beams) * D;
        memcpy(s->state.h + i * D, handed->h + of, D * sizeof(float));
        memcpy(s->state.c + i * D, handed->c + of, D * sizeof(float));
    }
    s->from.initial = &s->state;
    s->from.last = &s->next;
    return ATTN_OK;
}

static attn_status prepare(search *s, const int64_t *lengths, attn_error *err) {
    int64_t *all = attn_arena_zeroed(s->arena, s->rows, sizeof *all);
    s->tokens = attn_arena_zeroed(s->arena, s->rows, sizeof *s->tokens);
    s->sums = attn_arena_zeroed(s->arena, s->rows, sizeof *s->sums);
    s->steps = attn_arena_zeroed(s->arena, s->most, sizeof *s->steps);
    s->endings = attn_arena_zeroed(s->arena, s->B, sizeof *s->endings);
    s->ended = attn_arena_zeroed(s->arena, s->B, sizeof *s->ended);
    if (!all || !s->tokens || !s->sums || !s->steps || !s->endings || !s->ended)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a search of %zu rows", s->rows);
    for (size_t r = 0; r < s->rows; r++) {
        all[r] = lengths[r / s->beams];
        s->tokens[r] = s->walk.model->config.begin;
        s->sums[r] = r % s->beams ? -INFINITY : 0;
    }
    for (size_t b = 0; b < s->B; b++)
        s->endings[b].score = -INFINITY;
    s->walk.lengths = all;
    const attn_status status = start_states(s, err);
    return status || !attn_models_attends(s->walk.model) ? status : look_ahead(s, err);
}

/* From the last token back to the first. */
static attn_status read_back(const search *s, size_t b, attn_generated *out, attn_error *err) {
    const ending *e = &s->endings[b];
    const size_t length = e->steps - e->ended, cells = s->heads * s->S;
    size_t row = e->row;
    *out =
        (attn_generated){.length = length, .ended = e->ended, .score = e->score, .heads = s->heads};
    out->ids = attn_arena_zeroed(s->arena, length + 1, sizeof *out->ids);
    if (s->from.want_weights)
        out->weights = attn_arena_zeroed(s->arena, e->steps * cells + 1, sizeof(float));
    if (!out->ids || (s->from.want_weights && !out->weights))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory for a generated sequence");
    for (size_t t = e->steps; t-- > 0;) {
        const taken *step = &s->steps[t];
        const bool is_end = e->ended && t == length;
        const size_t of = is_end ? row : step->parent[row];
        if (!is_end)
            out->ids[t] = step->token[row];
        for (size_t h = 0; out->weights && h < s->heads; h++)
            memcpy(out->weights + (h * e->steps + t) * s->S, step->weights + of * cells + h * s->S,
                   s->S * sizeof(float));
        row = of;
    }
    return ATTN_OK;
}

static attn_status check_options(const attn_generate_options *o, attn_error *err) {
    if (o->beams < 1 || o->beams > BEAMS_MOST)
        return attn_fail(err, ATTN_EARG, "beams", "expected 1 to %d, found %zu", BEAMS_MOST,
                         o->beams);
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
    const bool attends = attn_models_attends(model);
    search s = {.options = options, .arena = arena, .B = B, .S = S, .beams = options->beams};
    attn_status status = check_options(options, err);
    if (status || (status = attn_models_check_source(model, source, source_lengths, B, S, err)))
        return status;
    if (!attn_size_mul(B, s.beams, &s.rows))
        return attn_fail(err, ATTN_ELIMIT, "beams", "too many sequences");
    s.most = most < model->config.max_length ? most : model->config.max_length;
    s.heads = attends ? model->cross_attention.heads : 0;
    s.walk =
        (model_walk){.model = model, .pass = {.arena = arena, .pool = pool, .control = control}};
    s.from = (model_decoding){.S = S,
                              .want_weights = attends && (options->want_weights || options->token)};
    if ((status = attn_models_encode(&s.walk, source, source_lengths, B, S, false, err)) ||
        (status = prepare(&s, source_lengths, err)) || (status = search_all(&s, err)))
        return status;
    for (size_t b = 0; !status && b < B; b++)
        status = read_back(&s, b, &out[b], err);
    return status;
}
