/* Diagnoses: finds what is unusual about heads and states it in words, with the numbers behind it.
 *
 * Near-uniform attention has three usual causes, which the lengths of queries and keys distinguish:
 *
 *   scores  queries or keys are too short, so that scores hardly differ (learning rate, scale)
 *   keys    keys are nearly equal (embeddings)
 *   task    queries and keys are long and different enough, but the task needs no choice of keys */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/diagnose.h"
#include "attention/operands.h"
#include "base/try.h"

enum {
    FINDINGS = 16, /* number of diagnoses for which the first array has space */
    NAMED = 6,     /* more heads than this are stated as a number and not by name */
};

typedef struct findings {
    attn_arena *arena;
    attn_diagnosis *items;
    size_t count, room;
    bool failed; /* memory ran out */
} findings;

void attn_analysis_say(attn_sentence *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof s->text - s->used;
    int n = vsnprintf(s->text + s->used, room, format, args);
    va_end(args);
    s->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* Returns a copy of `bytes` bytes in the arena. If memory runs out, returns NULL and sets
 * f->failed. */
static void *copy_of(findings *f, const void *from, size_t bytes) {
    void *copy = attn_arena_text(f->arena, from ? from : "", bytes);
    f->failed = f->failed || !copy;
    return copy;
}

/* Doubles the memory for diagnoses. */
static void make_room(findings *f) {
    const size_t room = f->room ? 2 * f->room : FINDINGS;
    attn_diagnosis *more = attn_arena_zeroed(f->arena, room, sizeof *more);
    if (more && f->count)
        memcpy(more, f->items, f->count * sizeof *more);
    f->failed = f->failed || !more;
    f->items = more;
    f->room = room;
}

static void add_diagnosis(findings *f, const char *code, const attn_sentence *text,
                          const attn_number *numbers, size_t number_count, const size_t *heads,
                          size_t head_count) {
    if (!f->failed && f->count == f->room)
        make_room(f);
    const attn_number *n = copy_of(f, numbers, number_count * sizeof *n);
    const size_t *h = copy_of(f, heads, head_count * sizeof *h);
    const char *said = copy_of(f, text->text, text->used);
    if (f->failed)
        return;
    f->items[f->count++] = (attn_diagnosis){.code = code,
                                            .text = said,
                                            .numbers = n,
                                            .number_count = number_count,
                                            .heads = h,
                                            .head_count = head_count};
}

static void say_head(attn_sentence *s, const attn_diagnose_input *in, size_t index) {
    const attn_measures *m = in->measures;
    const attn_head_measures *h = &m->items[index];
    size_t batches = m->batches / (in->layers ? in->layers : 1);
    if (in->layered)
        attn_analysis_say(s, "layer %zu ", h->batch / batches);
    if (batches > 1)
        attn_analysis_say(s, "batch entry %zu ", h->batch % batches);
    attn_analysis_say(s, "head %zu", h->head);
}

/* Appends the names of heads: "Head 3 and head 5", or "9 of 12 heads" if they are many. */
static void say_heads(attn_sentence *s, const attn_diagnose_input *in, const size_t *heads,
                      size_t count) {
    if (count > NAMED) {
        attn_analysis_say(s, "%zu of %zu heads", count, in->measures->count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        attn_analysis_say(s, "%s", i == 0 ? "" : i + 1 < count ? ", " : " and ");
        say_head(s, in, heads[i]);
    }
    if (s->used && s->text[0] >= 'a')
        s->text[0] = (char)(s->text[0] - 'a' + 'A');
}

enum { ROWS_ASKED = 64 }; /* largest number of rows whose visible keys find_seen reads */

/* --- near-uniform heads: lengths of queries and keys, causes --- */

/* Measures of the queries and keys of one head, to explain a small spread of its scores. */
typedef struct vectors {
    double query, key; /* root mean square of the vectors' lengths */
    double alike;      /* |k - mean k| / |k| over the visible keys */
    /* standard deviation of scores for vectors of these lengths with random directions: scale |q|
     * |k - mean k| / sqrt(E) */
    double expected;
    double scale; /* factor of the scores */
    /* false: nothing was measured (no operation, no dot products, or weights that mix heads) */
    bool known;
} vectors;

/* Working memory to read the queries and keys of head h of batch entry b. */
typedef struct reader {
    const attn_attention *a;
    size_t b, h;
    size_t width; /* width of a query and of a key */
    void *scratch;
    double *row;   /* [width] the query or key that was read last */
    double *mean;  /* [width] the mean key */
    uint8_t *seen; /* [S] 1: at least one of the rows of find_seen sees the key */
    uint8_t *keep; /* [S] 1: one row sees the key */
} reader;

static void read_row(const reader *r, const void *from) {
    attn_widen_f64(r->row, from, attn_element_dtype(r->a->kernels->elem), 1, r->width);
}

static void read_key(const reader *r, size_t j) {
    size_t ld;
    read_row(r, attn_key_rows(r->a, r->b, attn_kv_head(r->a, r->h), j, 1, r->a->kernels->elem,
                              r->scratch, &ld));
}

static double squared_length(const double *x, size_t n) {
    double sum = 0;
    for (size_t e = 0; e < n; e++)
        sum += x[e] * x[e];
    return sum;
}

/* Sets r->seen for the keys that at least one of up to ROWS_ASKED rows sees. Other keys are
 * ignored, because they may contain any numbers. */
static void find_seen(const reader *r) {
    const attn_attention_dims *d = &r->a->dims;
    size_t step = d->L / ROWS_ASKED + 1;
    for (size_t i = 0; i < d->L; i += step) {
        size_t row = d->L - 1 - i;
        attn_mask_keep(r->a->mask, r->b, r->h, row, 0, d->S, r->keep);
        for (size_t j = 0; j < d->S; j++)
            r->seen[j] |= r->keep[j];
    }
}

static void measure_queries(const reader *r, vectors *v) {
    const size_t L = r->a->dims.L;
    double sum = 0;
    size_t ld;
    for (size_t i = 0; i < L; i++) {
        read_row(r, attn_query_rows(r->a, r->b, r->h, i, 1, r->a->kernels->elem, r->scratch, &ld));
        sum += squared_length(r->row, r->width);
    }
    v->query = L ? sqrt(sum / (double)L) : 0;
}

static void measure_keys(const reader *r, vectors *v) {
    const size_t S = r->a->dims.S, E = r->width;
    double length = 0, apart = 0;
    size_t count = 0;
    for (size_t j = 0; j < S; j++) {
        if (!r->seen[j])
            continue;
        read_key(r, j);
        length += squared_length(r->row, E);
        for (size_t e = 0; e < E; e++)
            r->mean[e] += r->row[e];
        count++;
    }
    for (size_t e = 0; count && e < E; e++)
        r->mean[e] /= (double)count;
    for (size_t j = 0; j < S; j++) {
        if (!r->seen[j])
            continue;
        read_key(r, j);
        for (size_t e = 0; e < E; e++)
            r->row[e] -= r->mean[e];
        apart += squared_length(r->row, E);
    }
    if (!count)
        return;
    length = sqrt(length / (double)count);
    apart = sqrt(apart / (double)count);
    v->key = length;
    v->alike = length > 0 ? apart / length : 0;
    v->expected = fabs(v->scale) * v->query * apart / sqrt((double)E);
}

/* Returns the mean of the factors of the scores over the rows of a head. */
static double mean_scale(const attn_attention *a, size_t batch, size_t head) {
    double sum = 0;
    for (size_t i = 0; a->scales.values && i < a->dims.L; i++)
        sum += attn_row_scale(a, batch, head, i) / (double)a->dims.L;
    return a->scales.values ? sum : a->scale;
}

static attn_status measure_vectors(const attn_attention *a, size_t batch, size_t head,
                                   attn_arena *arena, vectors *out, attn_error *err) {
    vectors v = {.scale = mean_scale(a, batch, head),
                 .known = !a->score_v && a->dims.score_width > 0 && !a->dims.factors};
    if (!v.known) {
        *out = v;
        return ATTN_OK;
    }
    const size_t E = a->dims.score_width, S = a->dims.S;
    reader r = {.a = a,
                .b = batch,
                .h = head,
                .width = E,
                .scratch = attn_arena_zeroed(arena, E, sizeof(double)),
                .row = attn_arena_zeroed(arena, E, sizeof(double)),
                .mean = attn_arena_zeroed(arena, E, sizeof(double)),
                .seen = attn_arena_zeroed(arena, S, 1),
                .keep = attn_arena_zeroed(arena, S, 1)};
    ATTN_TAKEN(r.scratch && r.row && r.mean && r.seen && r.keep, "a head's queries and keys", err);
    find_seen(&r);
    measure_queries(&r, &v);
    measure_keys(&r, &v);
    *out = v;
    return ATTN_OK;
}

/* --- causes --- */

typedef enum cause { SCORES, KEYS, TASK, OPEN, CAUSES } cause;

static const struct {
    const char *code, *text;
} causes[CAUSES] = {
    [SCORES] =
        {"near_uniform_scores",
         ": near-uniform because the scores have no spread. Queries and keys of this length, "
         "times this scale, could not choose if they wanted to. Usual causes: a learning "
         "rate that is too low, an initialisation or a scale that is too small"},
    [KEYS] = {"near_uniform_keys",
              ": near-uniform because the keys are alike: they differ by a small part of their "
              "length, so that every query scores all of them the same. Usual cause: embeddings "
              "that do not tell tokens apart, or a key projection that lost the difference"},
    [TASK] = {"near_uniform_task",
              ": near-uniform although queries and keys are long enough and different enough to "
              "choose: no query points to any key. Usual cause: the task does not ask for "
              "attention here; compare with a baseline without it"},
    [OPEN] = {"near_uniform",
              ": near-uniform. Usual causes: a learning rate that is too low (scores without "
              "spread), embeddings that do not tell keys apart, or a task that needs no attention. "
              "Weights alone cannot tell which: analyse queries and keys in /v1/attention; a model "
              "answers them with \"return\": \"inputs\""},
};

static cause cause_of(const vectors *v) {
    if (!v->known)
        return OPEN;
    if (v->alike < ATTN_ALIKE_KEYS)
        return KEYS;
    return v->expected < ATTN_SMALL_SPREAD ? SCORES : TASK;
}

/* Means over the near-uniform heads with the same cause. */
typedef struct evidence {
    double entropy, spread, query, key, alike, expected, scale;
    size_t count;
} evidence;

static void add_evidence(evidence *e, const attn_head_measures *m, const vectors *v) {
    const double before = (double)e->count, now = before + 1;
    const double add[] = {m->values[ATTN_NORMALIZED_ENTROPY],
                          m->values[ATTN_MEASURE_SCORE_SPREAD],
                          v->query,
                          v->key,
                          v->alike,
                          v->expected,
                          v->scale};
    double *const to[] = {&e->entropy, &e->spread,   &e->query, &e->key,
                          &e->alike,   &e->expected, &e->scale};
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++)
        *to[i] = (*to[i] * before + add[i]) / now;
    e->count++;
}

static void tell_cause(const attn_diagnose_input *in, cause c, const evidence *e,
                       const size_t *heads, findings *f) {
    const attn_number numbers[] = {{"normalized_entropy", e->entropy},
                                   {"score_spread", e->spread},
                                   {"query_length", e->query},
                                   {"key_length", e->key},
                                   {"key_difference", e->alike},
                                   {"expected_spread", e->expected},
                                   {"scale", e->scale}};
    attn_sentence s = {.used = 0};
    say_heads(&s, in, heads, e->count);
    attn_analysis_say(&s, "%s (entropy %.1f %% of the most that the mask allows", causes[c].text,
                      100 * e->entropy);
    if (c != OPEN)
        attn_analysis_say(&s,
                          "; scores spread by %.3g, random directions would give %.3g; keys differ "
                          "by %.1f %% of their length",
                          e->spread, e->expected, 100 * e->alike);
    attn_analysis_say(&s, ").");
    size_t known = c == OPEN ? (isnan(e->spread) ? 1 : 2) : sizeof numbers / sizeof numbers[0];
    add_diagnosis(f, causes[c].code, &s, numbers, known, heads, e->count);
}

/* Finds near-uniform heads and adds a diagnosis for each cause. `heads` has space for the indices
 * of all heads. */
static attn_status find_uniform(const attn_diagnose_input *in, size_t *heads, findings *f,
                                attn_error *err) {
    const attn_measures *m = in->measures;
    uint8_t *why = attn_arena_zeroed(f->arena, m->count, 1);
    evidence found[CAUSES] = {{0}};
    ATTN_TAKEN(why, "diagnoses", err);
    for (size_t i = 0; i < m->count; i++) {
        const attn_head_measures *h = &m->items[i];
        vectors v = {.known = false};
        why[i] = CAUSES;
        if (!(h->values[ATTN_NORMALIZED_ENTROPY] > ATTN_UNIFORM_ENTROPY))
            continue;
        if (in->run)
            ATTN_TRY(measure_vectors(in->run, h->batch, h->head, f->arena, &v, err));
        why[i] = (uint8_t)cause_of(&v);
        add_evidence(&found[why[i]], h, &v);
    }
    for (cause c = SCORES; c < CAUSES; c++) {
        size_t n = 0;
        for (size_t i = 0; i < m->count; i++)
            if (why[i] == c)
                heads[n++] = i;
        if (n > 0)
            tell_cause(in, c, &found[c], heads, f);
    }
    return ATTN_OK;
}

/* --- nearly uniform heads, saturated softmax, sinks, leaks: one head at a time --- */

typedef bool (*head_test)(const attn_head_measures *h);

static size_t choose_heads(const attn_diagnose_input *in, head_test test, size_t *heads) {
    size_t n = 0;
    for (size_t i = 0; i < in->measures->count; i++)
        if (test(&in->measures->items[i]))
            heads[n++] = i;
    return n;
}

static double mean_of(const attn_diagnose_input *in, const size_t *heads, size_t n,
                      attn_measure measure) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += in->measures->items[heads[i]].values[measure];
    return n ? sum / (double)n : NAN;
}

static bool is_nearly_uniform(const attn_head_measures *h) {
    const double entropy = h->values[ATTN_NORMALIZED_ENTROPY];
    return entropy > ATTN_NEARLY_UNIFORM_ENTROPY && !(entropy > ATTN_UNIFORM_ENTROPY);
}

static void find_nearly_uniform(const attn_diagnose_input *in, size_t *heads, findings *f) {
    const size_t n = choose_heads(in, is_nearly_uniform, heads);
    if (n == 0)
        return;
    const attn_number numbers[] = {
        {"normalized_entropy", mean_of(in, heads, n, ATTN_NORMALIZED_ENTROPY)},
        {"effective_tokens", mean_of(in, heads, n, ATTN_EFFECTIVE_TOKENS)},
        {"confidence", mean_of(in, heads, n, ATTN_CONFIDENCE)}};
    attn_sentence s = {.used = 0};
    say_heads(&s, in, heads, n);
    attn_analysis_say(
        &s,
        ": nearly uniform (entropy %.1f %% of the most that the mask allows; nearly uniform is "
        "%.0f %% to %.0f %%, uniform is above): a row spreads its weight over %.3g tokens and "
        "prefers some of them a little, the most %.0f %%. Such heads average what they see, which "
        "is common in encoders; compare the output without them before they count as idle.",
        100 * numbers[0].value, 100 * ATTN_NEARLY_UNIFORM_ENTROPY, 100 * ATTN_UNIFORM_ENTROPY,
        numbers[1].value, 100 * numbers[2].value);
    add_diagnosis(f, "broad_heads", &s, numbers, 3, heads, n);
}

static bool is_saturated(const attn_head_measures *h) {
    return h->values[ATTN_SATURATED_ROWS] > ATTN_SATURATED_SHARE;
}

static void find_saturated(const attn_diagnose_input *in, size_t *heads, findings *f) {
    size_t n = choose_heads(in, is_saturated, heads);
    if (n == 0)
        return;
    const attn_number numbers[] = {
        {"saturated_rows", mean_of(in, heads, n, ATTN_SATURATED_ROWS)},
        {"confidence", mean_of(in, heads, n, ATTN_CONFIDENCE)},
        {"score_spread", mean_of(in, heads, n, ATTN_MEASURE_SCORE_SPREAD)},
        {"score_max", mean_of(in, heads, n, ATTN_MEASURE_SCORE_MAX)}};
    bool scores = !isnan(numbers[2].value);
    attn_sentence s = {.used = 0};
    say_heads(&s, in, heads, n);
    attn_analysis_say(&s,
                      ": the softmax is saturated: in %.0f %% of the rows one key holds 99 %% or "
                      "more, a hard choice through which next to no gradient flows. ",
                      100 * numbers[0].value);
    if (scores && numbers[2].value >= ATTN_STEEP_SPREAD)
        attn_analysis_say(
            &s,
            "The scores spread by %.3g: dot products of width E spread by sqrt(E), so "
            "check that they are divided by it.",
            numbers[2].value);
    else
        attn_analysis_say(&s, "If it should still learn, check the scale: dot products of width E "
                              "spread by sqrt(E) unless they are divided by it.");
    add_diagnosis(f, "saturated_softmax", &s, numbers, scores ? 4 : 2, heads, n);
}

/* Tells whether the first key is a sink: its weight is above ATTN_SINK_EPSILON and at least
 * ATTN_LIFT times the weight under uniform attention. */
static bool is_sink(const attn_head_measures *h) {
    return h->values[ATTN_SINK_KEY] == 0 && h->values[ATTN_SINK] > ATTN_SINK_EPSILON &&
           h->values[ATTN_SINK] >= ATTN_LIFT * h->uniform[ATTN_SINK];
}

static void find_sinks(const attn_diagnose_input *in, size_t *heads, findings *f) {
    size_t n = choose_heads(in, is_sink, heads);
    if (n == 0)
        return;
    const attn_number numbers[] = {{"sink", mean_of(in, heads, n, ATTN_SINK)},
                                   {"first_token", mean_of(in, heads, n, ATTN_FIRST_TOKEN)},
                                   {"sink_rate", (double)n / (double)in->measures->count}};
    attn_sentence s = {.used = 0};
    say_heads(&s, in, heads, n);
    attn_analysis_say(
        &s,
        ": an attention sink: the first token receives %.0f %% of the weight of the "
        "rows that see it (more than %.0f %%, and twice what the mask alone would "
        "give it). Such heads rest there when they have nothing to do; hide the first "
        "key and renormalise to see what else they look at.",
        100 * numbers[0].value, 100 * ATTN_SINK_EPSILON);
    add_diagnosis(f, "sink_heads", &s, numbers, 3, heads, n);
}

static bool is_leaking(const attn_head_measures *h) {
    return h->hidden_mass > ATTN_LEAK;
}

static void find_leaks(const attn_diagnose_input *in, size_t *heads, findings *f) {
    size_t n = choose_heads(in, is_leaking, heads);
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, in->measures->items[heads[i]].hidden_mass);
    if (n == 0)
        return;
    const attn_number numbers[] = {{"hidden_mass", most}};
    attn_sentence s = {.used = 0};
    say_heads(&s, in, heads, n);
    attn_analysis_say(
        &s,
        ": the weights do not keep to the mask that was sent with them: up to %.3g of "
        "a row lies on hidden keys (which the measures leave out). Was the mask "
        "applied before the softmax, and in this meaning?",
        most);
    add_diagnosis(f, "mask_leak", &s, numbers, 1, heads, n);
}

/* --- similar heads --- */

static size_t alike_pairs(const attn_head_distances *d, uint8_t *involved, double *largest) {
    size_t pairs = 0;
    for (size_t g = 0; g < d->rows; g++)
        for (size_t h = g + 1; h < d->cols; h++) {
            double c = d->centered[g * d->cols + h];
            if (!(c > ATTN_COLLAPSED))
                continue;
            pairs++;
            involved[g] = involved[h] = 1;
            *largest = fmax(*largest, c);
        }
    return pairs;
}

static void say_collapse(attn_sentence *s, const attn_diagnose_input *in,
                         const attn_head_distances *d, size_t pairs) {
    size_t batches = in->measures->batches / (in->layers ? in->layers : 1);
    if (in->layered)
        attn_analysis_say(s, "Layer %zu: ", d->batch / batches);
    if (batches > 1)
        attn_analysis_say(s, "batch entry %zu: ", d->batch % batches);
    attn_analysis_say(s,
                      "the %zu heads have collapsed: without the mask's own share their patterns "
                      "have a mean cosine of %.3f (with it %.3f; above %.1f in %zu of %zu pairs), "
                      "so that they do the work of one. Less dropout on the weights, a larger "
                      "width per head, or a loss that rewards diversity help.",
                      d->rows, d->mean_centered, d->mean_cosine, ATTN_COLLAPSED, pairs,
                      d->rows * (d->rows - 1) / 2);
}

static void say_similar(attn_sentence *s, const attn_diagnose_input *in, const size_t *heads,
                        size_t n, size_t pairs, double largest) {
    say_heads(s, in, heads, n);
    attn_analysis_say(
        s,
        ": %zu pair%s of heads look%s at the same: cosine of the patterns without the "
        "mask's own share above %.1f, up to %.3f. The layer as a whole is diverse.",
        pairs, attn_plural(pairs), pairs == 1 ? "s" : "", ATTN_COLLAPSED, largest);
}

static void find_alike(const attn_diagnose_input *in, const attn_head_distances *d, size_t *heads,
                       findings *f) {
    uint8_t *involved = attn_arena_zeroed(f->arena, d->rows, 1);
    double largest = 0;
    size_t n = 0;
    if (!involved) {
        f->failed = true;
        return;
    }
    size_t pairs = alike_pairs(d, involved, &largest);
    bool collapsed = d->mean_centered > ATTN_COLLAPSED;
    if (pairs == 0)
        return;
    for (size_t h = 0; h < d->rows; h++)
        if (collapsed || involved[h])
            heads[n++] = d->batch * in->measures->heads + h;
    const attn_number numbers[] = {{"mean_centered_cosine", d->mean_centered},
                                   {"mean_cosine", d->mean_cosine},
                                   {"mean_js", d->mean_js},
                                   {"pairs", (double)pairs},
                                   {"largest", largest}};
    attn_sentence s = {.used = 0};
    if (collapsed)
        say_collapse(&s, in, d, pairs);
    else
        say_similar(&s, in, heads, n, pairs, largest);
    add_diagnosis(f, collapsed ? "head_collapse" : "similar_heads", &s, numbers, 5, heads, n);
}

/* --- size of the weights of a layer --- */

static void find_memory(const attn_diagnose_input *in, findings *f) {
    const attn_measures *m = in->measures;
    size_t layers = in->layers ? in->layers : 1, entries = m->batches / layers;
    double heads = (double)entries * (double)m->heads;
    double bytes = heads * (double)in->L * (double)in->S * (double)sizeof(float);
    if (bytes < ATTN_LARGE_MATRIX)
        return;
    const attn_number numbers[] = {{"bytes_a_layer", bytes}, {"layers", (double)layers}};
    attn_sentence s = {.used = 0};
    attn_analysis_say(&s,
                      "The full matrix of weights takes %.0f MiB a layer in float32 (%.0f heads x "
                      "%zu x %zu x 4 bytes), four times that for twice the length. Nothing here "
                      "needs it: rows, tiles and measures are computed from queries and keys.",
                      bytes / 1048576, heads, in->L, in->S);
    add_diagnosis(f, "memory", &s, numbers, 2, NULL, 0);
}

attn_status attn_diagnose(const attn_diagnose_input *in, attn_arena *arena, attn_diagnoses *out,
                          attn_error *err) {
    findings f = {.arena = arena};
    size_t *heads = attn_arena_zeroed(arena, in->measures->count, sizeof *heads);
    ATTN_TAKEN(heads, "diagnoses", err);
    ATTN_TRY(find_uniform(in, heads, &f, err));
    find_nearly_uniform(in, heads, &f);
    find_saturated(in, heads, &f);
    find_sinks(in, heads, &f);
    for (size_t b = 0; in->distances && b < in->measures->batches; b++)
        find_alike(in, &in->distances[b], heads, &f);
    find_leaks(in, heads, &f);
    find_memory(in, &f);
    ATTN_TAKEN(!f.failed, "diagnoses", err);
    *out = (attn_diagnoses){f.items, f.count};
    return ATTN_OK;
}
