/* Makes the tables of rules from the numbers of their layers: documents, trees and lists of keys. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "mask/layer_view.h"
#include "mask/rule.h"
#include "mask/survey.h"

/* Reads element j of row `row` of the layer's tensor, an integer from `least` to `most`. */
static attn_status read_integer(const attn_rule *r, size_t row, size_t j, int64_t least,
                                int64_t most, const char *what, int64_t *out, attn_error *err) {
    const attn_tensor *t = &r->layer->values;
    const char *at = (const char *)attn_dense_row(t, row) +
                     (ptrdiff_t)j * t->strides[t->rank - 1] * (ptrdiff_t)attn_dtype_size(t->dtype);
    char path[96];
    double x = 0;
    /* int64 is read as it is, since a double would round large numbers */
    if (t->dtype == ATTN_I64) {
        *out = *(const int64_t *)(const void *)at;
    } else {
        x = attn_number_at(at, t->dtype);
        *out = fabs(x) < 0x1p53 ? (int64_t)x : INT64_MAX;
    }
    if (*out >= least && *out <= most && (t->dtype == ATTN_I64 || x == (double)*out))
        return ATTN_OK;
    attn_survey_path(r->layer, row, j, path);
    if (t->dtype == ATTN_I64)
        return attn_fail(err, ATTN_EVALUE, path, "%s, found %" PRId64, what, *out);
    return attn_fail(err, ATTN_EVALUE, path, "%s, found %g", what, x);
}

/* Sets r->view to the view of a tensor [S] or [B, S], and takes memory for the table of its
 * keys. */
static attn_status begin_keys(attn_mask *m, attn_rule *r, attn_rule_key **keys, attn_arena *arena,
                              attn_error *err) {
    const attn_tensor *t = &r->layer->values;
    ATTN_TRY(attn_padding_view(m, r->layer, arena, &r->view, err));
    if (t->dims[t->rank - 1] != m->shape.S)
        return attn_fail(err, ATTN_ESHAPE, r->layer->where,
                         "expected a number for each of the %zu keys, found %zu", m->shape.S,
                         t->dims[t->rank - 1]);
    r->one_entry = true;
    for (size_t b = 1; b < m->B; b++)
        r->one_entry &= r->view.batch[b] == r->view.batch[0];
    size_t count;
    if (!attn_size_mul(r->one_entry ? 1 : m->B, m->shape.S, &count))
        return attn_fail(err, ATTN_ELIMIT, r->layer->where, "too many elements");
    *keys = attn_arena_array(arena, count ? count : 1, sizeof **keys);
    ATTN_TAKEN(*keys, "the mask", err);
    r->keys = *keys;
    return ATTN_OK;
}

/* Returns the index of the row of the layer's tensor [.., S] that has the numbers of batch entry b.
 * The tensor is dense except for broadcast axes. */
static size_t row_of(const attn_rule *r, size_t b) {
    const attn_tensor *t = &r->layer->values;
    return t->rank < 2 ? 0 : (size_t)r->view.batch[b] / t->dims[t->rank - 1];
}

/* --- documents --- */

typedef struct numbered {
    int64_t document;
    size_t key;
} numbered;

static int in_order(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    if (a->document != b->document)
        return a->document < b->document ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Writes the extent of each key's document. `all` has the S keys of an entry. */
static void find_documents(numbered *all, size_t S, attn_rule_key *keys) {
    qsort(all, S, sizeof *all, in_order);
    for (size_t from = 0, to; from < S; from = to) {
        for (to = from + 1; to < S && all[to].document == all[from].document;)
            to++;
        const size_t first = all[from].key, last = all[to - 1].key;
        for (size_t k = from; k < to; k++)
            keys[all[k].key] = (attn_rule_key){first, last + 1, first, first + (to - from)};
    }
}

attn_status attn_rule_documents(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err) {
    const size_t S = m->shape.S;
    attn_rule_key *keys;
    ATTN_TRY(begin_keys(m, r, &keys, arena, err));
    const attn_arena_mark mark = attn_arena_here(arena);
    numbered *all = attn_arena_array(arena, S ? S : 1, sizeof *all);
    ATTN_TAKEN(all, "the mask", err);
    for (size_t b = 0; b < (r->one_entry && m->B ? 1 : m->B); b++) {
        for (size_t j = 0; j < S; j++) {
            all[j].key = j;
            ATTN_TRY(read_integer(r, row_of(r, b), j, INT64_MIN, INT64_MAX,
                                  "the number of a document is an integer", &all[j].document, err));
        }
        if (S)
            find_documents(all, S, keys + b * S);
    }
    attn_arena_rewind(arena, &mark);
    return ATTN_OK;
}

/* --- trees --- */

/* Scratch for the S keys of a tree. */
typedef struct tree {
    int64_t *parent; /* -1: a root */
    size_t *order;   /* the keys, parents before children */
    /* while keys are ordered, the state of each key; then the number of its next child */
    size_t *next;
} tree;

/* Orders the keys so that parents come first. Returns S, or a key whose ancestors run in a circle.
 * The function walks from each key up to an ancestor that already has its place, and then places
 * the keys of the walk. */
static size_t order_tree(const tree *t, size_t S) {
    enum { UNSEEN, ON_WALK, PLACED };
    size_t placed = 0;
    for (size_t j = 0; j < S; j++)
        t->next[j] = UNSEEN;
    for (size_t j = 0; j < S; j++) {
        size_t depth = 0, key = j;
        while (t->next[key] == UNSEEN) {
            t->next[key] = ON_WALK;
            t->order[placed + depth++] = key; /* the walk lists children first */
            if (t->parent[key] < 0)
                break;
            key = (size_t)t->parent[key];
            if (t->next[key] == ON_WALK)
                return key;
        }
        for (size_t k = 0; k < depth / 2; k++) { /* reverses the walk */
            const size_t other = t->order[placed + k];
            t->order[placed + k] = t->order[placed + depth - 1 - k];
            t->order[placed + depth - 1 - k] = other;
        }
        for (size_t k = 0; k < depth; k++)
            t->next[t->order[placed + k]] = PLACED;
        placed += depth;
    }
    return S;
}

/* Writes, for each key, the range of its ancestors and its numbers of the walk through the tree. */
static void number_tree(const tree *t, size_t S, attn_rule_key *keys) {
    size_t roots = 0;
    /* At first `leave` counts the keys of the branch. */
    for (size_t j = 0; j < S; j++)
        keys[j] = (attn_rule_key){j, j + 1, 0, 1};
    for (size_t k = S; k-- > 0;)
        if (t->parent[t->order[k]] >= 0)
            keys[t->parent[t->order[k]]].leave += keys[t->order[k]].leave;
    for (size_t k = 0; k < S; k++) {
        const size_t j = t->order[k];
        const int64_t parent = t->parent[j];
        const size_t size = keys[j].leave;
        size_t *enter = parent < 0 ? &roots : &t->next[parent];
        keys[j].enter = *enter;
        keys[j].leave = *enter + size;
        t->next[j] = *enter + 1;
        *enter += size;
        if (parent >= 0) {
            const attn_rule_key *up = &keys[parent];
            keys[j].from = up->from < j ? up->from : j;
            keys[j].to = up->to > j + 1 ? up->to : j + 1;
        }
    }
}

attn_status attn_rule_tree(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err) {
    const size_t S = m->shape.S, room = S ? S : 1;
    attn_rule_key *keys;
    ATTN_TRY(begin_keys(m, r, &keys, arena, err));
    const attn_arena_mark mark = attn_arena_here(arena);
    const tree t = {attn_arena_array(arena, room, sizeof *t.parent),
                    attn_arena_array(arena, room, sizeof *t.order),
                    attn_arena_array(arena, room, sizeof *t.next)};
    ATTN_TAKEN(t.parent && t.order && t.next, "the mask", err);
    for (size_t b = 0; b < (r->one_entry && m->B ? 1 : m->B); b++) {
        for (size_t j = 0; j < S; j++)
            ATTN_TRY(read_integer(r, row_of(r, b), j, -1, (int64_t)S - 1,
                                  "a parent is the index of a key, or -1 for a root", &t.parent[j],
                                  err));
        const size_t circle = order_tree(&t, S);
        if (circle < S) {
            char path[96];
            attn_survey_path(r->layer, row_of(r, b), circle, path);
            return attn_fail(err, ATTN_EVALUE, path,
                             "the parents of key %zu lead back to it; a tree has no circle",
                             circle);
        }
        number_tree(&t, S, keys + b * S);
    }
    attn_arena_rewind(arena, &mark);
    return ATTN_OK;
}

/* --- lists of keys --- */

static int by_number(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

attn_status attn_rule_top_k(attn_mask *m, attn_rule *r, attn_arena *arena, attn_error *err) {
    const attn_tensor *t = &r->layer->values;
    const size_t S = m->shape.S, width = t->dims[t->rank - 1];
    size_t count;
    if (!attn_tensor_count(t, &count))
        return attn_fail(err, ATTN_ELIMIT, r->layer->where, "too many elements");
    int64_t *sorted = attn_arena_array(arena, count ? count : 1, sizeof *sorted);
    ATTN_TAKEN(sorted, "the mask", err);
    for (size_t row = 0; row < attn_survey_rows(t); row++) {
        for (size_t k = 0; k < width; k++)
            ATTN_TRY(read_integer(r, row, k, -1, (int64_t)S - 1,
                                  "an element is the index of a key, or -1 for none",
                                  &sorted[row * width + k], err));
        qsort(sorted + row * width, width, sizeof *sorted, by_number);
    }
    attn_mask_layer lists = *r->layer;
    lists.values = attn_tensor_dense(sorted, ATTN_I64, t->rank, t->dims);
    m->shape.S = width; /* the last axis counts no keys, and is no axis of the weights */
    const attn_status status = attn_weights_view(m, &lists, arena, &r->view, err);
    m->shape.S = S;
    r->width = width;
    return status;
}
