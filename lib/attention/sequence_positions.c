/* Positions that a caller gives, for encodings: checks, distances, and words. */
#include "attention/sequence_positions.h"

#include <attn/input_rows.h>
#include <attn/text.h>
#include <inttypes.h>
#include <math.h>

#include "attention/resolved.h"
#include "base/try.h"

attn_status attn_sequence_positions_read_by(const attn_inputs *in, bool encoding, attn_error *err) {
    if (encoding || attn_mask_spec_placed(&in->mask) ||
        (!in->query_positions.rank && !in->key_positions.rank))
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, in->query_positions.rank ? "query_positions" : "key_positions",
                     "nothing reads these positions: send position, too, or mask_positions");
}

attn_status attn_sequence_positions_check(const attn_inputs *in, const attn_attention_dims *d,
                                          attn_error *err) {
    const attn_tensor *q = &in->query_positions, *k = &in->key_positions;
    if (q->rank)
        ATTN_TRY(attn_row_positions_check(q, "query_positions", "queries", d->L, d->B, err));
    return k->rank ? attn_row_positions_check(k, "key_positions", "keys", d->S, d->B, err)
                   : ATTN_OK;
}

size_t attn_sequence_positions_count(const attn_inputs *in) {
    size_t queries, keys, n;
    return attn_tensor_count(&in->query_positions, &queries) &&
                   attn_tensor_count(&in->key_positions, &keys) && attn_size_add(queries, keys, &n)
               ? n
               : SIZE_MAX;
}

bool attn_positions_given(const attn_attention *a) {
    return a->query_positions.given || a->key_positions.given;
}

bool attn_positions_same(const attn_sequence_positions *p, size_t B) {
    for (size_t b = 1; !p->given && p->offsets && b < B; b++)
        if (p->offsets[b] != p->offsets[0])
            return false;
    return p->entry == 0;
}

void attn_distances(const attn_attention *a, size_t b, size_t i, size_t j0, size_t n, int64_t *to) {
    const int64_t p = attn_position_at(&a->query_positions, b, i);
    for (size_t j = 0; j < n; j++)
        to[j] = attn_distance(p, attn_position_at(&a->key_positions, b, j0 + j));
}

bool attn_rotary_row(const attn_attention *a, bool query, size_t b, size_t i,
                     double at[ATTN_ROTARY_AXES]) {
    const attn_rotary_rule *rule = &a->rule.rotary;
    const attn_rotary_places *p = query ? &rule->queries : &rule->keys;
    for (size_t x = 0; x < rule->axes; x++)
        at[x] = p->at[x * p->axis + b * p->entry + i];
    if (rule->axes)
        return true;
    const int64_t own = attn_position_at(query ? &a->query_positions : &a->key_positions, b, i);
    at[0] = (double)own;
    return own != ATTN_NO_POSITION;
}

/* --- in words --- */

static void print_given(attn_text *t, const attn_sequence_positions *p, size_t n) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    size_t none = 0;
    for (size_t i = 0; i < n; i++) {
        none += p->given[i] == ATTN_NO_POSITION;
        if (p->given[i] != ATTN_NO_POSITION) {
            least = p->given[i] < least ? p->given[i] : least;
            most = p->given[i] > most ? p->given[i] : most;
        }
    }
    if (none < n)
        attn_text_add(t, "%" PRId64 " to %" PRId64, least, most);
    if (none)
        attn_text_add(t, "%s%zu without a position", none < n ? ", " : "", none);
}

static void print_queries(attn_text *t, const attn_attention *a) {
    const attn_sequence_positions *p = &a->query_positions;
    if (!attn_positions_same(p, a->dims.B))
        attn_text_add(t, "i + the offset of the batch entry");
    else if (a->dims.B && p->offsets[0])
        attn_text_add(t, "i %c %" PRId64, p->offsets[0] < 0 ? '-' : '+',
                      p->offsets[0] < 0 ? -p->offsets[0] : p->offsets[0]);
    else
        attn_text_add(t, "i");
}

/* Appends the settings that differ from rotary positions of the paper. */
static void print_rotary(attn_text *t, const attn_attention *a) {
    const attn_position *p = &a->in.position;
    const attn_rotary_rule *r = &a->rule.rotary;
    if (r->first)
        attn_text_add(t, " of coordinates from %zu on", r->first);
    if (p->frequencies.rank)
        attn_text_add(t, " with %zu frequencies", r->pairs);
    if (p->scaling.kind)
        attn_text_add(t, " with %s scaling", attn_scaling_words[p->scaling.kind]);
    if (r->factor != 1)
        attn_text_add(t, ", cosines and sines times %.6g", r->factor);
}

/* Appends the smallest and the largest position on axis x, and how many rows have none. */
static void print_places(attn_text *t, const attn_rotary_places *p, size_t x, size_t rows) {
    double least = INFINITY, most = -INFINITY;
    size_t none = 0;
    for (size_t i = 0; i < rows; i++) {
        const double at = p->at[x * p->axis + i];
        none += isinf(at) ? 1 : 0;
        least = isinf(at) ? least : fmin(least, at);
        most = fmax(most, at);
    }
    if (none < rows)
        attn_text_add(t, "%.6g to %.6g", least, most);
    if (none)
        attn_text_add(t, "%s%zu without a position", none < rows ? ", " : "", none);
}

/* Appends how many pairs turn by each axis, and the positions on it. */
static void print_axes(attn_text *t, const attn_attention *a) {
    const attn_rotary_rule *r = &a->rule.rotary;
    for (size_t x = 0; x < r->axes; x++) {
        size_t pairs = 0;
        for (size_t n = 0; n < r->pairs; n++)
            pairs += r->axis[n] == x;
        attn_text_add(t, "%s%zu pair%s by axis %zu (queries at ", x ? ", " : ": ", pairs,
                      attn_plural(pairs), x);
        print_places(t, &r->queries, x, r->queries.axis);
        attn_text_add(t, "; keys at ");
        print_places(t, &r->keys, x, r->keys.axis);
        attn_text_add(t, ")");
    }
}

const char *attn_attention_position(const attn_attention *a, attn_arena *arena) {
    const attn_sequence_positions *q = &a->query_positions, *k = &a->key_positions;
    attn_text t = {.arena = arena};
    const attn_position_kind first = a->in.position.kind, second = a->in.score_position.kind;
    if (!first && !second)
        return NULL;
    attn_text_add(&t, "%s", first ? attn_position_words[first] : "");
    if (first == ATTN_POSITION_ROTARY) {
        print_rotary(&t, a);
        print_axes(&t, a);
    }
    if (second)
        attn_text_add(&t, "%s%s", first ? " and " : "", attn_position_words[second]);
    if (!attn_position_reads(&a->in))
        return t.failed ? NULL : t.data;
    attn_text_add(&t, ": queries at ");
    if (q->given)
        print_given(&t, q, (q->entry ? a->dims.B : 1) * a->dims.L);
    else
        print_queries(&t, a);
    attn_text_add(&t, ", keys at ");
    if (k->given)
        print_given(&t, k, (k->entry ? a->dims.B : 1) * a->dims.S);
    else
        attn_text_add(&t, "j");
    return t.failed ? NULL : t.data;
}
