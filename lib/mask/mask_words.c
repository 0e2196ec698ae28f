/* Describes a mask in words: one sentence for each layer, in the order of the specification. The
 * parts of a layer stand in its sentence, in parentheses. */
#include <attn/text.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "mask/formula.h"

enum {
    LISTED = 8, /* numbers are listed for at most this many batch entries, followed by "…" */
    COUNTED = 1 << 20, /* hidden cells are counted only in layers of at most this many elements */
};

/* Sentences in a buffer of fixed size. Text that does not fit is dropped. */
typedef struct mask_text {
    char text[4096];
    size_t used;
} mask_text;

static void say_words(mask_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say_words(mask_text *t, const char *format, ...) {
    size_t room = sizeof t->text - t->used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->text + t->used, room, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* Writes the place + shift, such as "i", "i + 2" or "p - 3". */
static void say_place(mask_text *t, char place, int64_t shift) {
    if (shift)
        say_words(t, "%c %c %" PRId64, place, shift < 0 ? '-' : '+', shift < 0 ? -shift : shift);
    else
        say_words(t, "%c", place);
}

static bool one_offset(const attn_mask *m) {
    for (size_t b = 1; b < m->B; b++)
        if (m->offset[b] != m->offset[0])
            return false;
    return true;
}

/* Does the same as say_interval for positions that the caller gives. */
static void say_positions(mask_text *t, int64_t left, int64_t right) {
    say_words(t, "a query at position p sees the keys at positions ");
    if (left >= 0) {
        say_words(t, right < 0 ? "from " : "");
        say_place(t, 'p', -left);
    }
    say_words(t, left < 0 ? "up to " : right < 0 ? " on" : " to ");
    if (right >= 0)
        say_place(t, 'p', right);
}

/* Writes which keys query i sees: from `left` keys before its position to `right` keys after it.
 * -1: there is no limit on this side. */
static void say_interval(mask_text *t, const attn_mask *m, int64_t left, int64_t right) {
    const bool one = m->B && one_offset(m);
    const int64_t offset = one ? m->offset[0] : 0;
    if (m->placed) {
        say_positions(t, left, right);
        return;
    }
    say_words(t, one || !m->B ? "query i sees keys "
                              : "query i, placed at key i plus the offset of its batch entry, "
                                "sees with i so placed keys ");
    if (left < 0)
        say_words(t, "0");
    else
        say_place(t, 'i', offset - left);
    say_words(t, " to ");
    if (right < 0)
        say_words(t, "the last");
    else
        say_place(t, 'i', offset + right);
    if (one || !m->B)
        return;
    say_words(t, " (offsets");
    for (size_t b = 0; b < m->B && b < LISTED; b++)
        say_words(t, "%s %" PRId64, b ? "," : "", m->offset[b]);
    say_words(t, m->B > LISTED ? ", …)" : ")");
}

static void say_window(mask_text *t, const attn_mask *m, const int64_t window[2]) {
    if (window[0] < 0 && window[1] < 0)
        say_words(t, "open on both sides, hides nothing");
    else
        say_interval(t, m, window[0], window[1]);
}

/* Writes how many cells the tensor of a layer hides. An element that is broadcast to several cells
 * counts once. */
static void say_hidden_cells(mask_text *t, const attn_mask *m, const attn_mask_part *part) {
    const attn_mask_shape *s = &m->shape;
    size_t count, hidden = 0;
    if (!attn_tensor_count(&part->layer->values, &count) || !count || count > COUNTED)
        return;
    if (part->bits)
        count = count / part->layer->values.dims[part->layer->values.rank - 1] * s->S;
    size_t L = part->view.row ? s->L : 1, S = part->view.col ? s->S : 1;
    size_t H = part->view.head ? s->H : 1, B = count / (H * L * S);
    ptrdiff_t before = -1;
    for (size_t b = 0, seen = 0; b < m->B && seen < B; b++) {
        if (part->view.batch[b] == before)
            continue;
        before = part->view.batch[b];
        seen++;
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < L; i++)
                for (size_t j = 0; j < S; j++)
                    hidden += attn_mask_part_hides(part, -INFINITY, b, h, i, j);
    }
    if (hidden)
        say_words(t, ", hides %zu of its %zu cells", hidden, count);
    else if (part->view.dtype == ATTN_BOOL || part->layer->values.dtype == ATTN_BITS)
        say_words(t, ", hides nothing");
}

static void say_values(mask_text *t, const attn_mask *m, const attn_mask_layer *layer,
                       const attn_mask_part *part) {
    char shape[128];
    const bool packed = layer->values.dtype == ATTN_BITS;
    const bool numbers = layer->values.dtype != ATTN_BOOL && !packed;
    const char *meaning = "added to the scores";
    if (layer->kind == ATTN_LAYER_VALUES && part && (part->view.dtype == ATTN_BOOL || packed))
        meaning = layer->semantics == ATTN_SEM_HIDE ? (numbers ? "1 = hidden" : "true = hidden")
                  : !numbers                        ? "true = attend"
                  : layer->semantics == ATTN_SEM_NONZERO ? "all but 0 = attend"
                                                         : "1 = attend";
    say_words(t, "%s: %s %s, %s", layer->where, numbers ? "numbers" : "booleans",
              attn_shape_text(layer->values.dims, layer->values.rank, shape, sizeof shape),
              meaning);
    if (part)
        say_hidden_cells(t, m, part);
}

/* Writes how many keys a padding layer hides in each batch entry, such as "hides 2, 1 of 6 keys by
 * batch entry". */
static void say_hidden_keys(mask_text *t, const attn_mask *m, const attn_mask_part *part) {
    bool same = true;
    for (size_t b = 1; b < m->B; b++)
        same &= part->view.batch[b] == part->view.batch[0];
    say_words(t, "hides");
    size_t entries = same && m->B ? 1 : m->B;
    for (size_t b = 0; b < entries && b < LISTED; b++) {
        size_t hidden = 0;
        for (size_t j = 0; j < m->shape.S; j++)
            hidden += attn_mask_part_hides(part, -INFINITY, b, 0, 0, j);
        say_words(t, "%s %zu", b ? "," : "", hidden);
    }
    say_words(t, "%s of %zu key%s%s", entries > LISTED ? ", …" : "", m->shape.S,
              attn_plural(m->shape.S), entries > 1 ? " by batch entry" : "");
}

/* Writes the lengths of the batch entries, such as "the first 3, 5". */
static void say_first(mask_text *t, const attn_mask *m, const int64_t *lengths) {
    say_words(t, "the first");
    for (size_t b = 0; b < m->B && b < LISTED; b++)
        say_words(t, "%s %" PRId64, b ? "," : "", lengths[b]);
    say_words(t, "%s", m->B > LISTED ? ", …" : "");
}

static void say_lengths(mask_text *t, const attn_mask *m, const attn_mask_layer *layer,
                        const int64_t *lengths) {
    say_words(t, "%s: of %zu key%s ", layer->where, m->shape.S, attn_plural(m->shape.S));
    say_first(t, m, lengths);
    say_words(t, " %s real%s", m->B == 1 && lengths[0] == 1 ? "is" : "are",
              m->B > 1 ? ", by batch entry" : "");
}

static void say_prefix(mask_text *t, const attn_mask *m, const attn_rule *rule) {
    say_words(t, "%s: every query sees ", rule->layer->where);
    say_first(t, m, rule->lengths);
    say_words(t, " %s%s%s", m->placed ? "position" : "key",
              m->B == 1 && rule->lengths[0] == 1 ? "" : "s", m->B > 1 ? ", by batch entry" : "");
}

static void say_pattern(mask_text *t, const attn_pattern *p) {
    const bool one = p->num_keys == 1;
    switch (p->kind) {
    case ATTN_PATTERN_LOCAL:
        say_words(t, "local: a query sees keys within a distance of %" PRId64, p->radius);
        break;
    case ATTN_PATTERN_STRIDED:
        say_words(t,
                  "strided: a query sees keys at multiples of %" PRId64
                  " from itself, and keys within a distance of %" PRId64,
                  p->stride, p->local);
        break;
    case ATTN_PATTERN_BLOCK:
        say_words(t, "block: a query sees the keys of its own block of %" PRId64 " position%s",
                  p->size, attn_plural((size_t)p->size));
        break;
    case ATTN_PATTERN_BLOCK_CAUSAL:
        say_words(t,
                  "block_causal: a query sees the keys of its own block of %" PRId64
                  " position%s and of the blocks before it",
                  p->size, attn_plural((size_t)p->size));
        break;
    case ATTN_PATTERN_GLOBAL:
        say_words(t,
                  "global: the first %" PRId64 " position%s see%s and %s seen by all, others see "
                  "keys within a distance of %" PRId64,
                  p->num_keys, one ? "" : "s", one ? "s" : "", one ? "is" : "are", p->local);
        break;
    case ATTN_PATTERN_FULL:
        say_words(t, "full: a query sees every key");
        break;
    }
}

/* --- windows and patterns by head --- */

static bool same_keys(const attn_mask_layer *layer, size_t g, size_t h) {
    const attn_head_keys *a = &layer->by_head[g], *b = &layer->by_head[h];
    const attn_pattern *p = &a->pattern, *q = &b->pattern;
    if (layer->kind == ATTN_LAYER_WINDOW)
        return a->window[0] == b->window[0] && a->window[1] == b->window[1];
    return p->kind == q->kind && p->radius == q->radius && p->stride == q->stride &&
           p->size == q->size && p->num_keys == q->num_keys && p->local == q->local;
}

/* Writes which heads see the same keys as head `first`, the first of them, and which keys these
 * are. */
static void say_heads(mask_text *t, const attn_mask *m, const attn_mask_layer *layer,
                      size_t first) {
    size_t same = 0;
    for (size_t h = first; h < layer->head_count; h++) {
        if (!same_keys(layer, first, h))
            continue;
        if (++same <= LISTED)
            say_words(t, same == 1 ? "head %zu" : ", %zu", h);
    }
    say_words(t, "%s: ", same > LISTED ? ", …" : "");
    if (layer->kind == ATTN_LAYER_WINDOW)
        say_window(t, m, layer->by_head[first].window);
    else
        say_pattern(t, &layer->by_head[first].pattern);
}

/* Writes the windows or patterns of the heads, at most LISTED different ones. */
static void say_by_head(mask_text *t, const attn_mask *m, const attn_mask_layer *layer) {
    size_t firsts[LISTED], groups = 0;
    say_words(t, "by head (");
    for (size_t h = 0; h < layer->head_count; h++) {
        bool known = false;
        for (size_t g = 0; g < groups && !known; g++)
            known = same_keys(layer, firsts[g], h);
        if (known)
            continue;
        say_words(t, groups ? "; " : "");
        if (groups == LISTED) {
            say_words(t, "…");
            break;
        }
        firsts[groups++] = h;
        say_heads(t, m, layer, h);
    }
    say_words(t, ")");
}

static void say_layer(mask_text *t, const attn_mask *m, size_t i);

/* Writes the parts of a layer, such as "any of (causal: …; attn_mask: …)". */
static void say_parts(mask_text *t, const attn_mask *m, size_t i) {
    const attn_mask_layer *layer = &m->layers[i];
    size_t part = i + 1;
    say_words(t, "%s (",
              layer->kind == ATTN_LAYER_ANY_OF   ? "any of"
              : layer->kind == ATTN_LAYER_ALL_OF ? "all of"
                                                 : "not");
    for (size_t p = 0; p < layer->parts; p++, part += attn_mask_nodes(m, part)) {
        say_words(t, "%s", p ? "; " : "");
        say_layer(t, m, part);
    }
    say_words(t, ")");
}

static void say_layer(mask_text *t, const attn_mask *m, size_t i) {
    const attn_mask_layer *layer = &m->layers[i];
    const attn_rule *rule = m->rules ? &m->rules[i] : NULL;
    const attn_mask_part *part = attn_mask_part_of(m, i);
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
        say_words(t, "causal: ");
        say_interval(t, m, -1, 0);
        break;
    case ATTN_LAYER_WINDOW:
        say_words(t, layer->by_head ? "window " : "window: ");
        if (layer->by_head)
            say_by_head(t, m, layer);
        else
            say_window(t, m, layer->window);
        break;
    case ATTN_LAYER_VALUES:
    case ATTN_LAYER_BIAS:
        say_values(t, m, layer, part);
        break;
    case ATTN_LAYER_BITS:
        say_words(t, "%s: bits, 1 = %s", layer->where,
                  layer->semantics == ATTN_SEM_HIDE ? "hidden" : "attend");
        say_hidden_cells(t, m, part);
        break;
    case ATTN_LAYER_PATTERN:
        say_words(t, layer->by_head ? "pattern " : "");
        if (layer->by_head)
            say_by_head(t, m, layer);
        else
            say_pattern(t, &layer->pattern);
        break;
    case ATTN_LAYER_PADDING:
        say_words(t, "%s: ", layer->where);
        say_hidden_keys(t, m, part);
        break;
    case ATTN_LAYER_LENGTHS:
        say_lengths(t, m, layer, rule && rule->layer ? rule->lengths : m->lengths);
        break;
    case ATTN_LAYER_PREFIX:
        say_prefix(t, m, rule);
        break;
    case ATTN_LAYER_DOCUMENTS:
        say_words(t, "%s: a query sees the keys of the document at its position", layer->where);
        break;
    case ATTN_LAYER_TREE:
        say_words(t, "%s: a query sees the key at its position and the ancestors of this key",
                  layer->where);
        break;
    case ATTN_LAYER_TOP_K:
        say_words(t, "%s: a query sees the keys of its list of %zu", layer->where, rule->width);
        break;
    case ATTN_LAYER_ANY_OF:
    case ATTN_LAYER_ALL_OF:
    case ATTN_LAYER_NOT:
        say_parts(t, m, i);
        break;
    case ATTN_LAYER_TOKENS:
        say_words(t, "%s: keys with the id %" PRId64 " are padding, ", layer->where, layer->pad_id);
        say_hidden_keys(t, m, part);
        break;
    }
}

/* Writes whose positions are compared, and what rows without a position see. */
static void say_placed(mask_text *t, const attn_mask *m) {
    const size_t runs = (m->keys.entry ? m->B : 1) * m->runs;
    const size_t queries = m->queries.given ? (m->queries.entry ? m->B : 1) * m->shape.L : 0;
    bool key = false, query = false;
    for (size_t n = 0; n < runs && !key; n++)
        key = m->key_runs[n].free;
    for (size_t i = 0; i < queries && !query; i++)
        query = m->queries.given[i] == ATTN_NO_POSITION;
    say_words(t, "; positions are those of %s",
              !m->keys.given      ? "query_positions, keys stand at their index"
              : !m->queries.given ? "key_positions, queries stand at their index"
                                  : "query_positions and key_positions");
    if (key)
        say_words(t, ", every query sees a key without a position");
    if (query)
        say_words(t, ", a query without a position sees every key");
}

const char *attn_mask_words(const attn_mask *m, attn_arena *arena) {
    mask_text t = {.used = 0};
    if (!m->layer_count)
        say_words(&t, "none: every query sees every key");
    for (size_t i = 0; i < m->layer_count; i += attn_mask_nodes(m, i)) {
        say_words(&t, "%s", i ? "; " : "");
        say_layer(&t, m, i);
    }
    if (m->placed)
        say_placed(&t, m);
    if (attn_mask_fills(m))
        say_words(&t, "; %s %g instead of hiding them",
                  m->fill == ATTN_FILL_ADD ? "masked scores are lowered by adding"
                                           : "masked scores are replaced by",
                  m->fill_value);
    const char *text = attn_arena_text(arena, t.text, t.used);
    return text ? text : "";
}
