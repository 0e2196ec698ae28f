/* Diagnoses: what is odd about the heads, in plain words, with the numbers behind each finding. */
#include "analysis/diagnose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FINDINGS = 16, NAMED = 6 };

void attn_analysis_say(attn_sentence *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof s->text - s->used;
    int n = vsnprintf(s->text + s->used, room, format, args);
    va_end(args);
    s->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

bool attn_analysis_find(attn_findings *f, const char *code, const attn_sentence *text,
                        const attn_number *numbers, size_t number_count, const size_t *heads,
                        size_t head_count) {
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : FINDINGS;
        attn_diagnosis *more = attn_arena_zeroed(f->arena, room, sizeof *more);
        if (!more)
            return false;
        if (f->count)
            memcpy(more, f->items, f->count * sizeof *more);
        f->items = more;
        f->room = room;
    }
    attn_number *n = attn_arena_zeroed(f->arena, number_count, sizeof *n);
    size_t *h = attn_arena_zeroed(f->arena, head_count, sizeof *h);
    const char *said = attn_arena_text(f->arena, text->text, text->used);
    if (!n || !h || !said)
        return false;
    if (number_count)
        memcpy(n, numbers, number_count * sizeof *n);
    if (head_count)
        memcpy(h, heads, head_count * sizeof *h);
    f->items[f->count++] = (attn_diagnosis){.code = code,
                                            .text = said,
                                            .numbers = n,
                                            .number_count = number_count,
                                            .heads = h,
                                            .head_count = head_count};
    return true;
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

void attn_analysis_say_heads(attn_sentence *s, const attn_diagnose_input *in, const size_t *heads,
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

/* --- saturated softmax, sinks, leaks: one head at a time --- */

typedef bool (*head_test)(const attn_head_measures *h);

static size_t choose(const attn_diagnose_input *in, head_test test, size_t *heads) {
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

static bool is_saturated(const attn_head_measures *h) {
    return h->values[ATTN_SATURATED_ROWS] > ATTN_SATURATED_SHARE;
}

static bool find_saturated(const attn_diagnose_input *in, size_t *heads, attn_findings *f) {
    size_t n = choose(in, is_saturated, heads);
    if (n == 0)
        return true;
    const attn_number numbers[] = {{"saturated_rows", mean_of(in, heads, n, ATTN_SATURATED_ROWS)},
                                   {"confidence", mean_of(in, heads, n, ATTN_CONFIDENCE)},
                                   {"score_spread", mean_of(in, heads, n, ATTN_SCORE_SPREAD)},
                                   {"score_max", mean_of(in, heads, n, ATTN_SCORE_MAX)}};
    bool scores = !isnan(numbers[2].value);
    attn_sentence s = {.used = 0};
    attn_analysis_say_heads(&s, in, heads, n);
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
    return attn_analysis_find(f, "saturated_softmax", &s, numbers, scores ? 4 : 2, heads, n);
}

/* A sink takes more than the mask gives to the first key anyway. */
static bool is_sink(const attn_head_measures *h) {
    return h->values[ATTN_SINK_KEY] == 0 && h->values[ATTN_SINK] > ATTN_SINK_EPSILON &&
           h->values[ATTN_SINK] >= ATTN_LIFT * h->uniform[ATTN_SINK];
}

static bool find_sinks(const attn_diagnose_input *in, size_t *heads, attn_findings *f) {
    size_t n = choose(in, is_sink, heads);
    if (n == 0)
        return true;
    const attn_number numbers[] = {{"sink", mean_of(in, heads, n, ATTN_SINK)},
                                   {"first_token", mean_of(in, heads, n, ATTN_FIRST_TOKEN)},
                                   {"sink_rate", (double)n / (double)in->measures->count}};
    attn_sentence s = {.used = 0};
    attn_analysis_say_heads(&s, in, heads, n);
    attn_analysis_say(
        &s,
        ": an attention sink: the first token receives %.0f %% of the weight of the "
        "rows that see it (more than %.0f %%, and twice what the mask alone would "
        "give it). Such heads rest there when they have nothing to do; hide the first "
        "key and renormalise to see what else they look at.",
        100 * numbers[0].value, 100 * ATTN_SINK_EPSILON);
    return attn_analysis_find(f, "sink_heads", &s, numbers, 3, heads, n);
}

static bool is_leaking(const attn_head_measures *h) {
    return h->hidden_mass > ATTN_LEAK;
}

static bool find_leaks(const attn_diagnose_input *in, size_t *heads, attn_findings *f) {
    size_t n = choose(in, is_leaking, heads);
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, in->measures->items[heads[i]].hidden_mass);
    if (n == 0)
        return true;
    const attn_number numbers[] = {{"hidden_mass", most}};
    attn_sentence s = {.used = 0};
    attn_analysis_say_heads(&s, in, heads, n);
    attn_analysis_say(
        &s,
        ": the weights do not keep to the mask that was sent with them: up to %.3g of "
        "a row lies on hidden keys (which the measures leave out). Was the mask "
        "applied before the softmax, and in this meaning?",
        most);
    return attn_analysis_find(f, "mask_leak", &s, numbers, 1, heads, n);
}

/* --- heads that are alike --- */

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
    attn_analysis_say_heads(s, in, heads, n);
    attn_analysis_say(
        s,
        ": %zu pair%s of heads look%s at the same: cosine of the patterns without the "
        "mask's own share above %.1f, up to %.3f. The layer as a whole is diverse.",
        pairs, pairs == 1 ? "" : "s", pairs == 1 ? "s" : "", ATTN_COLLAPSED, largest);
}

static bool find_alike(const attn_diagnose_input *in, const attn_head_distances *d, size_t *heads,
                       attn_findings *f) {
    uint8_t *involved = attn_arena_zeroed(f->arena, d->rows, 1);
    double largest = 0;
    size_t n = 0;
    if (!involved)
        return false;
    size_t pairs = alike_pairs(d, involved, &largest);
    bool collapsed = d->mean_centered > ATTN_COLLAPSED;
    if (pairs == 0)
        return true;
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
    return attn_analysis_find(f, collapsed ? "head_collapse" : "similar_heads", &s, numbers, 5,
                              heads, n);
}

/* --- of the whole --- */

static bool find_memory(const attn_diagnose_input *in, attn_findings *f) {
    const attn_measures *m = in->measures;
    size_t layers = in->layers ? in->layers : 1, entries = m->batches / layers;
    double heads = (double)entries * (double)m->heads;
    double bytes = heads * (double)in->L * (double)in->S * (double)sizeof(float);
    if (bytes < ATTN_LARGE_MATRIX)
        return true;
    const attn_number numbers[] = {{"bytes_a_layer", bytes}, {"layers", (double)layers}};
    attn_sentence s = {.used = 0};
    attn_analysis_say(&s,
                      "The full matrix of weights takes %.0f MiB a layer in float32 (%.0f heads x "
                      "%zu x %zu x 4 bytes), four times that for twice the length. Nothing here "
                      "needs it: rows, tiles and measures are computed from queries and keys.",
                      bytes / 1048576, heads, in->L, in->S);
    return attn_analysis_find(f, "memory", &s, numbers, 2, NULL, 0);
}

static bool find_mask(const attn_diagnose_input *in, attn_findings *f) {
    bool ok = true;
    for (size_t i = 0; ok && in->mask_warnings && i < in->mask_warnings->count; i++) {
        attn_sentence s = {.used = 0};
        attn_analysis_say(&s, "%s.", in->mask_warnings->items[i].text);
        ok = attn_analysis_find(f, in->mask_warnings->items[i].code, &s, NULL, 0, NULL, 0);
    }
    return ok;
}

attn_status attn_diagnose(const attn_diagnose_input *in, attn_arena *arena, attn_diagnoses *out,
                          attn_error *err) {
    attn_findings f = {.arena = arena};
    size_t *heads = attn_arena_zeroed(arena, in->measures->count, sizeof *heads);
    bool ok = heads != NULL;
    if (ok) {
        attn_status status = attn_analysis_uniform_heads(in, heads, &f, err);
        if (status)
            return status;
    }
    ok = ok && find_saturated(in, heads, &f) && find_sinks(in, heads, &f);
    for (size_t b = 0; ok && in->distances && b < in->measures->batches; b++)
        ok = find_alike(in, &in->distances[b], heads, &f);
    ok = ok && find_leaks(in, heads, &f) && find_mask(in, &f) && find_memory(in, &f);
    if (!ok)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for diagnoses");
    *out = (attn_diagnoses){f.items, f.count};
    return ATTN_OK;
}
