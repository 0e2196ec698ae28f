/* Reads rules: the keys that a row sees, and bounds of the keys that any or all rows of a block
 * see. The bounds of NOT follow from the bounds of its part. */
#include "mask/rule.h"

#include <string.h>

#include "mask/formula.h"

/* --- the keys of one row --- */

enum { AT_ONCE = 256 }; /* keys whose bytes are combined at a time */

/* Keys j0 … j0 + n - 1 of a row, n <= AT_ONCE. */
typedef struct cells {
    attn_rule_block row;
    size_t j0, n;
} cells;

static void write_keep(const attn_rule *r, const cells *c, uint8_t *keep);

/* Returns the entry of the rule's table for a query at this position; NULL: no key is at this
 * position. */
static const attn_rule_key *key_at(const attn_mask *m, const attn_rule *r, size_t b,
                                   int64_t position) {
    if (position < 0 || (uint64_t)position >= m->shape.S)
        return NULL;
    return r->keys + (r->one_entry ? 0 : b * m->shape.S) + position;
}

static void write_keys(const attn_rule *r, const cells *c, uint8_t *keep) {
    const attn_rule_block *row = &c->row;
    const attn_rule_key *own = key_at(row->m, r, row->b, row->first);
    const attn_rule_key *key = r->keys + (r->one_entry ? 0 : row->b * row->m->shape.S) + c->j0;
    const bool tree = r->layer->kind == ATTN_LAYER_TREE;
    if (!own)
        memset(keep, 0, c->n);
    for (size_t k = 0; own && k < c->n; k++)
        keep[k] = tree ? key[k].enter <= own->enter && own->enter < key[k].leave
                       : key[k].enter == own->enter;
}

/* Returns how many of the sorted indices are below `key`. */
static size_t count_below(const int64_t *sorted, size_t n, int64_t key) {
    size_t lo = 0;
    while (n) {
        const size_t half = n / 2;
        if (sorted[lo + half] < key) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

static void write_listed(const attn_rule *r, const cells *c, uint8_t *keep) {
    const int64_t *sorted = attn_view_at(&r->view, c->row.b, c->row.h, c->row.i, 0);
    const int64_t j0 = (int64_t)c->j0, end = j0 + (int64_t)c->n;
    memset(keep, 0, c->n);
    for (size_t k = count_below(sorted, r->width, j0); k < r->width && sorted[k] < end; k++)
        keep[sorted[k] - j0] = 1;
}

static void write_parts(const attn_rule *r, const cells *c, uint8_t *keep) {
    const bool any = r->layer->kind == ATTN_LAYER_ANY_OF;
    uint8_t next[AT_ONCE];
    const attn_rule *part = r + 1;
    for (size_t p = 0; p < r->layer->parts; p++, part += part->nodes) {
        write_keep(part, c, p ? next : keep);
        for (size_t k = 0; p && k < c->n; k++)
            keep[k] = any ? keep[k] | next[k] : keep[k] & next[k];
    }
}

/* Sets keep[j - j0] to 1 if the rule shows key j to the row, else to 0. */
static void write_keep(const attn_rule *r, const cells *c, uint8_t *keep) {
    switch (r->layer->kind) {
    case ATTN_LAYER_CAUSAL:
    case ATTN_LAYER_WINDOW:
    case ATTN_LAYER_PATTERN:
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_LENGTHS:
        attn_formula_keep(r, &c->row, c->j0, c->n, keep);
        return;
    case ATTN_LAYER_DOCUMENTS:
    case ATTN_LAYER_TREE:
        write_keys(r, c, keep);
        return;
    case ATTN_LAYER_TOP_K:
        write_listed(r, c, keep);
        return;
    case ATTN_LAYER_ANY_OF:
    case ATTN_LAYER_ALL_OF:
        write_parts(r, c, keep);
        return;
    case ATTN_LAYER_NOT:
        write_keep(r + 1, c, keep);
        for (size_t k = 0; k < c->n; k++)
            keep[k] ^= 1;
        return;
    case ATTN_LAYER_VALUES:
    case ATTN_LAYER_PADDING:
    case ATTN_LAYER_TOKENS:
    case ATTN_LAYER_BITS:
    case ATTN_LAYER_BIAS: /* this kind adds numbers, so it is never a part of a rule */
        memset(keep, 1, c->n);
        attn_mask_part_and(&r->part, c->row.b, c->row.h, c->row.i, c->j0, c->n, keep);
        return;
    }
}

void attn_rules_and(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *keep) {
    uint8_t shown[AT_ONCE];
    cells c = {.row = attn_rule_block_at(m, b, h, i, 1)};
    for (size_t l = 0; l < m->rule_count; l++)
        for (size_t j = 0; j < n; j += AT_ONCE) {
            c.j0 = j0 + j;
            c.n = n - j < AT_ONCE ? n - j : AT_ONCE;
            write_keep(&m->rules[m->rule_at[l]], &c, shown);
            for (size_t k = 0; k < c.n; k++)
                keep[j + k] &= shown[k];
        }
}

bool attn_rule_hides(const attn_mask *m, const attn_rule *r, size_t b, size_t h, size_t i,
                     size_t j) {
    uint8_t keep;
    const cells c = {attn_rule_block_at(m, b, h, i, 1), j, 1};
    write_keep(r, &c, &keep);
    return !keep;
}

/* --- bounds for a block of rows --- */

static const attn_interval nothing = {0, 0};

static attn_interval common_of(const attn_rule *r, const attn_rule_block *at, attn_interval keys);

static attn_interval hull_of_keys(const attn_rule *r, const attn_rule_block *at) {
    attn_interval seen = nothing;
    for (int64_t p = attn_key_larger(at->first, 0); p <= at->last; p++) {
        const attn_rule_key *key = key_at(at->m, r, at->b, p);
        if (!key)
            break;
        seen = attn_hull(seen, (attn_interval){(int64_t)key->from, (int64_t)key->to});
    }
    return seen;
}

/* Returns the hull of the indices within `keys` in the lists of all rows. */
static attn_interval hull_of_lists(const attn_rule *r, const attn_rule_block *at,
                                   attn_interval keys) {
    const size_t rows = r->view.row ? at->rows : 1;
    attn_interval seen = nothing;
    for (size_t i = 0; i < rows; i++) {
        const int64_t *sorted = attn_view_at(&r->view, at->b, at->h, at->i + i, 0);
        const size_t from = count_below(sorted, r->width, keys.from);
        const size_t to = count_below(sorted, r->width, keys.to);
        if (from < to)
            seen = attn_hull(seen, (attn_interval){sorted[from], sorted[to - 1] + 1});
    }
    return seen;
}

/* Returns `keys` without the part of it that `without` covers at one of its ends. */
static attn_interval cut_end(attn_interval keys, attn_interval without) {
    if (without.from >= without.to)
        return keys;
    if (without.from <= keys.from)
        keys.from = attn_key_larger(keys.from, without.to);
    if (without.to >= keys.to)
        keys.to = attn_key_smaller(keys.to, without.from);
    return keys;
}

/* Returns an interval with all keys of `keys` that a row of the block sees. */
static attn_interval hull_of(const attn_rule *r, const attn_rule_block *at, attn_interval keys) {
    const attn_mask_layer *layer = r->layer;
    const attn_rule *part = r + 1;
    attn_interval seen = nothing;
    if (keys.from >= keys.to)
        return nothing;
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
    case ATTN_LAYER_WINDOW:
    case ATTN_LAYER_PATTERN:
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_LENGTHS:
        return attn_formula_hull(r, at, keys);
    case ATTN_LAYER_DOCUMENTS:
    case ATTN_LAYER_TREE:
        return attn_intersection(keys, hull_of_keys(r, at));
    case ATTN_LAYER_TOP_K:
        return hull_of_lists(r, at, keys);
    case ATTN_LAYER_ANY_OF:
        for (size_t p = 0; p < layer->parts; p++, part += part->nodes)
            seen = attn_hull(seen, hull_of(part, at, keys));
        return seen;
    case ATTN_LAYER_ALL_OF:
        for (size_t p = 0; p < layer->parts; p++, part += part->nodes)
            keys = hull_of(part, at, keys);
        return keys;
    case ATTN_LAYER_NOT:
        return cut_end(keys, common_of(part, at, keys));
    case ATTN_LAYER_VALUES:
    case ATTN_LAYER_BIAS:
    case ATTN_LAYER_PADDING:
    case ATTN_LAYER_TOKENS:
    case ATTN_LAYER_BITS:
        return keys;
    }
    return keys;
}

/* Returns the keys of the document that all rows are in. Returns no keys if the rows are in several
 * documents, or if a key of another document lies between its keys. */
static attn_interval common_document(const attn_rule *r, const attn_rule_block *at) {
    const attn_rule_key *first = key_at(at->m, r, at->b, at->first);
    if (!first || first->leave != first->to || at->last >= (int64_t)first->to)
        return nothing;
    return (attn_interval){(int64_t)first->from, (int64_t)first->to};
}

static attn_interval longer(attn_interval a, attn_interval b) {
    return attn_interval_length(a) < attn_interval_length(b) ? b : a;
}

/* Returns keys of `keys` that all rows of the block see. */
static attn_interval common_of(const attn_rule *r, const attn_rule_block *at, attn_interval keys) {
    const attn_mask_layer *layer = r->layer;
    const attn_rule *part = r + 1;
    attn_interval seen = nothing;
    if (keys.from >= keys.to)
        return nothing;
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
    case ATTN_LAYER_WINDOW:
    case ATTN_LAYER_PATTERN:
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_LENGTHS:
        return attn_formula_common(r, at, keys);
    case ATTN_LAYER_DOCUMENTS:
        return attn_intersection(keys, common_document(r, at));
    case ATTN_LAYER_ANY_OF:
        for (size_t p = 0; p < layer->parts; p++, part += part->nodes)
            seen = longer(seen, common_of(part, at, keys));
        return seen;
    case ATTN_LAYER_ALL_OF:
        for (size_t p = 0; p < layer->parts; p++, part += part->nodes)
            keys = common_of(part, at, keys);
        return keys;
    case ATTN_LAYER_NOT:
        seen = hull_of(part, at, keys);
        return seen.from >= seen.to ? keys
                                    : longer((attn_interval){keys.from, seen.from},
                                             (attn_interval){seen.to, keys.to});
    case ATTN_LAYER_TREE:
    case ATTN_LAYER_TOP_K:
    case ATTN_LAYER_VALUES:
    case ATTN_LAYER_BIAS:
    case ATTN_LAYER_PADDING:
    case ATTN_LAYER_TOKENS:
    case ATTN_LAYER_BITS:
        return nothing;
    }
    return nothing;
}

void attn_rules_narrow(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows,
                       attn_interval *keys) {
    const attn_rule_block at = attn_rule_block_at(m, b, h, i, rows);
    for (size_t l = 0; l < m->rule_count; l++)
        *keys = hull_of(&m->rules[m->rule_at[l]], &at, *keys);
}

void attn_rules_common(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows,
                       attn_interval *keys) {
    const attn_rule_block at = attn_rule_block_at(m, b, h, i, rows);
    for (size_t l = 0; l < m->rule_count; l++)
        *keys = common_of(&m->rules[m->rule_at[l]], &at, *keys);
}
