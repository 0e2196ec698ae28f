/* Near-uniform attention and its three usual causes, told apart by the lengths of queries and keys:
 * scores that vectors of such lengths cannot spread (learning rate, scale), keys that are alike
 * (embeddings), vectors that could choose and do not (the task asks for nothing). */
#include <math.h>
#include <string.h>

#include "analysis/diagnose.h"
#include "attention/operands.h"

enum { ROWS_ASKED = 64 }; /* rows that are asked which keys are seen */

/* --- lengths of queries and keys --- */

typedef struct reader {
    const attn_attention *a;
    size_t b, h, width;
    void *scratch;
    double *row, *mean;
    uint8_t *seen, *keep;
} reader;

static void read_row(const reader *r, const void *from) {
    attn_dtype dtype = r->a->kernels->elem == sizeof(float) ? ATTN_F32 : ATTN_F64;
    attn_widen_f64(r->row, from, dtype, 1, r->width);
}

static void read_key(const reader *r, size_t j) {
    size_t ld;
    read_row(r, attn_key_rows(r->a, r->b, attn_kv_head(r->a, r->h), j, 1, r->a->kernels->elem,
                              r->scratch, &ld));
}

static double square(const double *x, size_t n) {
    double sum = 0;
    for (size_t e = 0; e < n; e++)
        sum += x[e] * x[e];
    return sum;
}

/* Keys that some of up to ROWS_ASKED rows see; what is hidden may hold anything. */
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

static void measure_queries(const reader *r, attn_vectors *v) {
    const size_t L = r->a->dims.L;
    double sum = 0;
    size_t ld;
    for (size_t i = 0; i < L; i++) {
        read_row(r, attn_query_rows(r->a, r->b, r->h, i, 1, r->a->kernels->elem, r->scratch, &ld));
        sum += square(r->row, r->width);
    }
    v->query = L ? sqrt(sum / (double)L) : 0;
}

static void measure_keys(const reader *r, attn_vectors *v) {
    const size_t S = r->a->dims.S, E = r->width;
    double length = 0, apart = 0;
    size_t count = 0;
    for (size_t j = 0; j < S; j++) {
        if (!r->seen[j])
            continue;
        read_key(r, j);
        length += square(r->row, E);
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
        apart += square(r->row, E);
    }
    if (!count)
        return;
    length = sqrt(length / (double)count);
    apart = sqrt(apart / (double)count);
    v->key = length;
    v->alike = length > 0 ? apart / length : 0;
    v->expected = fabs(v->scale) * v->query * apart / sqrt((double)E);
}

attn_status attn_vectors_measure(const attn_attention *a, size_t batch, size_t head,
                                 attn_arena *arena, attn_vectors *out, attn_error *err) {
    attn_vectors v = {.scale = a->scale, .known = !a->score_v && a->dims.score_width > 0};
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
    if (!r.scratch || !r.row || !r.mean || !r.seen || !r.keep)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for a head's queries and keys");
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
              "Weights alone cannot tell which: analyse queries and keys in /v1/attention"},
};

static cause cause_of(const attn_vectors *v) {
    if (!v->known)
        return OPEN;
    if (v->alike < ATTN_ALIKE_KEYS)
        return KEYS;
    return v->expected < ATTN_SMALL_SPREAD ? SCORES : TASK;
}

/* Means over the heads of one cause. */
typedef struct evidence {
    double entropy, spread, query, key, alike, expected, scale;
    size_t count;
} evidence;

static void gather(evidence *e, const attn_head_measures *m, const attn_vectors *v) {
    const double before = (double)e->count, now = before + 1;
    const double add[] = {m->values[ATTN_NORMALIZED_ENTROPY],
                          m->values[ATTN_SCORE_SPREAD],
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

static bool tell(const attn_diagnose_input *in, cause c, const evidence *e, const size_t *heads,
                 attn_findings *f) {
    const attn_number numbers[] = {{"normalized_entropy", e->entropy},
                                   {"score_spread", e->spread},
                                   {"query_length", e->query},
                                   {"key_length", e->key},
                                   {"key_difference", e->alike},
                                   {"expected_spread", e->expected},
                                   {"scale", e->scale}};
    attn_sentence s = {.used = 0};
    attn_analysis_say_heads(&s, in, heads, e->count);
    attn_analysis_say(&s, "%s (entropy %.1f %% of the most that the mask allows", causes[c].text,
                      100 * e->entropy);
    if (c != OPEN)
        attn_analysis_say(&s,
                          "; scores spread by %.3g, random directions would give %.3g; keys differ "
                          "by %.1f %% of their length",
                          e->spread, e->expected, 100 * e->alike);
    attn_analysis_say(&s, ").");
    size_t known = c == OPEN ? (isnan(e->spread) ? 1 : 2) : sizeof numbers / sizeof numbers[0];
    return attn_analysis_find(f, causes[c].code, &s, numbers, known, heads, e->count);
}

attn_status attn_analysis_uniform_heads(const attn_diagnose_input *in, size_t *heads,
                                        attn_findings *f, attn_error *err) {
    const attn_measures *m = in->measures;
    uint8_t *why = attn_arena_zeroed(f->arena, m->count, 1);
    evidence found[CAUSES] = {{0}};
    bool ok = why != NULL;
    for (size_t i = 0; ok && i < m->count; i++) {
        const attn_head_measures *h = &m->items[i];
        attn_vectors v = {.known = false};
        attn_status status = ATTN_OK;
        why[i] = CAUSES;
        if (!(h->values[ATTN_NORMALIZED_ENTROPY] > ATTN_UNIFORM_ENTROPY))
            continue;
        if (in->run)
            status = attn_vectors_measure(in->run, h->batch, h->head, f->arena, &v, err);
        if (status)
            return status;
        why[i] = (uint8_t)cause_of(&v);
        gather(&found[why[i]], h, &v);
    }
    for (cause c = SCORES; ok && c < CAUSES; c++) {
        size_t n = 0;
        for (size_t i = 0; i < m->count; i++)
            if (why[i] == c)
                heads[n++] = i;
        ok = n == 0 || tell(in, c, &found[c], heads, f);
    }
    return ok ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "", "no memory left for diagnoses");
}
