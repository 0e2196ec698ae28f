/* Reads a compiled mask: the interval, the visible keys and the added numbers of a row. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "mask/rule.h"

size_t attn_mask_batches(const attn_mask *m) {
    return m->B;
}
int64_t attn_mask_offset(const attn_mask *m, size_t b) {
    return m->offset[b];
}
int64_t attn_mask_repeated_offset(const attn_mask *m, size_t b) {
    return m && m->B ? m->offset[attn_repeated_entry(b, m->B)] : 0;
}
bool attn_mask_fills(const attn_mask *m) {
    return m->fill != ATTN_FILL_HIDE;
}
bool attn_mask_adds(const attn_mask *m) {
    return m->bias_count > 0;
}
bool attn_mask_same_heads(const attn_mask *m) {
    return m->same_heads;
}
bool attn_mask_same_batches(const attn_mask *m) {
    return m->same_batches;
}

bool attn_mask_hides_cells(const attn_mask *m) {
    return m->keep_count || m->bias_count || m->pattern_count || m->rule_count;
}

bool attn_mask_is_open(const attn_mask *m) {
    return !m->lengths && !m->block_count && m->left == INT64_MAX && m->right == INT64_MAX;
}

bool attn_mask_is_plain(const attn_mask *m) {
    return !attn_mask_hides_cells(m) && attn_mask_is_open(m);
}

static size_t clamp_key(int64_t j, size_t S) {
    return j < 0 ? 0 : (uint64_t)j > S ? S : (size_t)j;
}

/* Narrows the keys [*from, *to) by the patterns of kind BLOCK. */
static void narrow_by_blocks(const attn_mask *m, int64_t position, size_t *from, size_t *to) {
    int64_t lo = (int64_t)*from, hi = (int64_t)*to;
    for (size_t l = 1; l <= m->block_count; l++)
        attn_pattern_narrow(m->patterns[m->layer_count - l], position, position, &lo, &hi);
    *from = (size_t)lo;
    *to = (size_t)hi;
}

void attn_mask_interval(const attn_mask *m, size_t b, size_t i, size_t *lo, size_t *hi) {
    const size_t S = m->shape.S;
    const int64_t position = (int64_t)i + m->offset[b];
    size_t from = m->left == INT64_MAX ? 0 : clamp_key(position - m->left, S);
    size_t to = m->right == INT64_MAX ? S : clamp_key(position + m->right + 1, S);
    if (m->lengths && (uint64_t)m->lengths[b] < to)
        to = (size_t)m->lengths[b];
    if (m->block_count)
        narrow_by_blocks(m, position, &from, &to);
    *lo = from < to ? from : to;
    *hi = to;
}

/* Sums the additive layers (at least one) for cells j0 … j0 + n - 1 into `out`. An element of `out`
 * has elem bytes: 4 for float, 8 for double. With sums_hide a sum below the range of float32
 * becomes -infinity. */
static void sum_bias(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                     size_t elem, void *out) {
    enum { AT_ONCE = 64 };
    double next[AT_ONCE]; /* memory for AT_ONCE doubles or floats */
    for (size_t l = 0; l < m->bias_count; l++) {
        const attn_view *v = &m->bias[l].view;
        for (size_t j = 0; j < n; j += AT_ONCE) {
            const size_t width = n - j < AT_ONCE ? n - j : AT_ONCE;
            const void *from = attn_view_at(v, b, h, i, j0 + j);
            void *to = (char *)out + j * elem;
            attn_elements_widen(l ? next : to, elem, from, v->dtype, v->col, width);
            if (l)
                attn_elements_add(to, next, elem, width);
        }
    }
    for (size_t j = 0; m->sums_hide && elem == sizeof(double) && j < n; j++)
        if (((double *)out)[j] < -FLT_MAX)
            ((double *)out)[j] = -(double)INFINITY;
}

/* Returns the numbers that the additive layers (at least one) add to cells j0 … j0 + n - 1 of row
 * i. These are the numbers of the layer if there is only one, or sums in `scratch`. */
static const void *edit_bias(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                             size_t elem, void *scratch) {
    const attn_view *v = &m->bias[0].view;
    if (m->bias_count == 1 && v->col == 1 && v->dtype == attn_element_dtype(elem))
        return attn_view_at(v, b, h, i, j0);
    sum_bias(m, b, h, i, j0, n, elem, scratch);
    return scratch;
}

/* Zeroes the bytes of the keys that a pattern or a rule hides. */
static void and_formulas(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                         uint8_t *keep) {
    const int64_t position = (int64_t)i + m->offset[b];
    for (size_t l = 0; l < m->pattern_count; l++)
        attn_pattern_hide(m->patterns[l], position, (int64_t)j0, (int64_t)n, keep);
    if (m->rule_count)
        attn_rules_and(m, b, h, i, j0, n, keep);
}

attn_mask attn_mask_near(const attn_mask *m, int64_t most) {
    attn_mask near = *m;
    near.pattern_count = 0;
    near.left = most < m->left ? most : m->left;
    near.right = most < m->right ? most : m->right;
    return near;
}

/* Neither end of the interval moves back from one row to the next. So if both the first and the
 * last row see a key, all rows between them see it. The interval of a row that sees no key may lie
 * anywhere, so both ends of both rows are compared. */
void attn_mask_common(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows, size_t *from,
                      size_t *to) {
    const int64_t first = (int64_t)i + m->offset[b], last = first + (int64_t)rows - 1;
    size_t begin, end;
    *from = 0;
    *to = m->keep_count || m->bias_count ? 0 : m->shape.S;
    if (!*to || !rows)
        return;
    if (!attn_mask_is_open(m)) {
        attn_mask_interval(m, b, i, from, to);
        attn_mask_interval(m, b, i + rows - 1, &begin, &end);
        *from = begin > *from ? begin : *from;
        *to = end < *to ? end : *to;
    }
    attn_interval keys = {(int64_t)*from, (int64_t)*to};
    for (size_t l = 0; l < m->pattern_count; l++)
        attn_pattern_common(m->patterns[l], first, last, &keys.from, &keys.to);
    if (m->rule_count)
        attn_rules_common(m, b, h, i, rows, &keys);
    *from = keys.from < keys.to ? (size_t)keys.from : 0;
    *to = keys.from < keys.to ? (size_t)keys.to : 0;
}

bool attn_mask_narrows(const attn_mask *m) {
    return (m->pattern_count || m->rule_count) && !attn_mask_fills(m);
}

/* Narrows the keys [*from, *to) by all patterns and rules: to the range from the first to the last
 * key that any row i … i + rows - 1 sees. */
static void narrow_by_formulas(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows,
                               size_t *from, size_t *to) {
    const int64_t first = (int64_t)i + m->offset[b], last = first + (int64_t)rows - 1;
    attn_interval keys = {(int64_t)*from, (int64_t)*to};
    for (size_t l = 0; l < m->pattern_count; l++)
        attn_pattern_narrow(m->patterns[l], first, last, &keys.from, &keys.to);
    if (m->rule_count)
        attn_rules_narrow(m, b, h, i, rows, &keys);
    *from = keys.from < keys.to ? (size_t)keys.from : *to;
    *to = keys.from < keys.to ? (size_t)keys.to : *to;
}

void attn_mask_narrow(const attn_mask *m, size_t b, size_t h, size_t i, size_t rows, size_t *from,
                      size_t *to) {
    if (attn_mask_narrows(m) && rows)
        narrow_by_formulas(m, b, h, i, rows, from, to);
}

static const uint8_t *edit_keep(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0,
                                size_t n, uint8_t *scratch) {
    const bool formulas = m->pattern_count || m->rule_count;
    if (!m->keep_count && !formulas)
        return NULL;
    if (m->keep_count == 1 && m->keep[0].view.col == 1 && !m->keep[0].bits && !formulas)
        return attn_view_at(&m->keep[0].view, b, h, i, j0);
    memset(scratch, 1, n);
    for (size_t l = 0; l < m->keep_count; l++)
        attn_mask_part_and(&m->keep[l], b, h, i, j0, n, scratch);
    and_formulas(m, b, h, i, j0, n, scratch);
    return scratch;
}

_Static_assert((int)ATTN_FILL_HIDE == ATTN_EDIT_HIDE && (int)ATTN_FILL_ADD == ATTN_EDIT_ADD &&
                   (int)ATTN_FILL_REPLACE == ATTN_EDIT_REPLACE,
               "the kernels read these numbers");

/* Finds the first and the last of the keys [*lo, *hi) that the patterns and rules show to row i. If
 * row i is known to see all keys between them, narrows [*lo, *hi) to these keys and returns true:
 * no visibility bytes are needed. Else returns false and changes nothing. */
static bool narrow_to_run(const attn_mask *m, size_t b, size_t h, size_t i, size_t *lo,
                          size_t *hi) {
    size_t from = *lo, to = *hi;
    narrow_by_formulas(m, b, h, i, 1, &from, &to);
    for (size_t l = 0; l < m->pattern_count && from < to; l++)
        if (!attn_pattern_sees_between(m->patterns[l], (int64_t)i + m->offset[b], (int64_t)from,
                                       (int64_t)to))
            return false;
    attn_interval common = {(int64_t)from, (int64_t)to};
    if (m->rule_count && from < to)
        attn_rules_common(m, b, h, i, 1, &common);
    if (common.from > (int64_t)from || common.to < (int64_t)to)
        return false;
    *lo = from;
    *hi = to;
    return true;
}

size_t attn_mask_within(size_t key, size_t j0, size_t n) {
    return key <= j0 ? 0 : key - j0 < n ? key - j0 : n;
}

void attn_mask_edit(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    size_t elem, void *bias, uint8_t *keep, attn_edit *edit) {
    size_t lo, hi;
    attn_mask_interval(m, b, i, &lo, &hi);
    lo = j0 + attn_mask_within(lo, j0, n);
    hi = j0 + attn_mask_within(hi, j0, n);
    const bool formulas = m->pattern_count || m->rule_count;
    const bool one_run = !m->keep_count && (!formulas || narrow_to_run(m, b, h, i, &lo, &hi));
    edit->lo = lo - j0;
    edit->hi = hi - j0;
    edit->bias = m->bias_count ? edit_bias(m, b, h, i, j0, n, elem, bias) : NULL;
    edit->keep = one_run ? NULL : edit_keep(m, b, h, i, j0, n, keep);
    edit->fill = (int)m->fill;
    edit->fill_value = m->fill_value;
}

/* Sets keep[j - j0] to 1 if row i sees key j by its interval, all visibility layers, patterns and
 * rules; else to 0. Additive layers are ignored. */
static void keep_of_layers(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                           uint8_t *keep) {
    size_t lo, hi;
    attn_mask_interval(m, b, i, &lo, &hi);
    size_t from = attn_mask_within(lo, j0, n), to = attn_mask_within(hi, j0, n);
    memset(keep, 0, n);
    if (from < to)
        memset(keep + from, 1, to - from);
    for (size_t l = 0; l < m->keep_count; l++)
        attn_mask_part_and(&m->keep[l], b, h, i, j0, n, keep);
    and_formulas(m, b, h, i, j0, n, keep);
}

/* Returns a bit set of the n <= 64 keys from j on: bit k is set if a bias of -infinity hides key
 * j + k. With sums_hide, bit k is set if the sum of all biases of key j + k is -infinity. */
static uint64_t hidden_by_bias(const attn_mask *m, size_t b, size_t h, size_t i, size_t j,
                               size_t n) {
    uint64_t hidden = 0;
    double values[64]; /* not float, since a number below -FLT_MAX would become -infinity */
    if (m->sums_hide) {
        sum_bias(m, b, h, i, j, n, sizeof *values, values);
        for (size_t k = 0; k < n; k++)
            hidden |= (uint64_t)(values[k] == -INFINITY) << k;
        return hidden;
    }
    for (size_t l = 0; l < m->bias_count; l++) {
        const attn_view *v = &m->bias[l].view;
        attn_widen_f64(values, attn_view_at(v, b, h, i, j), v->dtype, v->col, n);
        for (size_t k = 0; k < n; k++)
            hidden |= (uint64_t)(values[k] == -INFINITY) << k;
    }
    return hidden;
}

void attn_mask_keep(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *keep) {
    keep_of_layers(m, b, h, i, j0, n, keep);
    for (size_t j = 0; m->bias_count && j < n; j += 64) {
        const size_t width = n - j < 64 ? n - j : 64;
        const uint64_t hidden = hidden_by_bias(m, b, h, i, j0 + j, width);
        for (size_t k = 0; hidden && k < width; k++)
            keep[j + k] &= !(hidden >> k & 1);
    }
}

/* With ATTN_FILL_ADD, a cell with a bias of -infinity keeps the score -infinity. With
 * ATTN_FILL_REPLACE, the fill replaces the score of a hidden cell. So a cell with a bias of
 * -infinity keeps this score only if no other layer hides the cell. */
void attn_mask_seen(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                    uint8_t *seen) {
    if (m->fill == ATTN_FILL_HIDE) {
        attn_mask_keep(m, b, h, i, j0, n, seen);
        return;
    }
    if (m->fill == ATTN_FILL_REPLACE && m->bias_count)
        keep_of_layers(m, b, h, i, j0, n, seen);
    else
        memset(seen, 1, n);
    for (size_t j = 0; m->bias_count && j < n; j += 64) {
        const size_t width = n - j < 64 ? n - j : 64;
        const uint64_t hidden = hidden_by_bias(m, b, h, i, j0 + j, width);
        for (size_t k = 0; k < width; k++)
            seen[j + k] = !(seen[j + k] && hidden >> k & 1);
    }
}

bool attn_mask_sees_any(const attn_mask *m, size_t b, size_t h, size_t i) {
    uint8_t seen[512];
    size_t lo = 0, hi = m->shape.S;
    if (m->fill == ATTN_FILL_HIDE)
        attn_mask_interval(m, b, i, &lo, &hi);
    for (size_t j = lo; j < hi; j += sizeof seen) {
        const size_t n = hi - j < sizeof seen ? hi - j : sizeof seen;
        attn_mask_seen(m, b, h, i, j, n, seen);
        if (memchr(seen, 1, n))
            return true;
    }
    return false;
}

void attn_mask_additive(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                        double *add) {
    memset(add, 0, n * sizeof *add);
    if (m->bias_count)
        sum_bias(m, b, h, i, j0, n, sizeof *add, add);
}

void attn_mask_numbers(const attn_mask *m, size_t b, size_t h, size_t i, size_t j0, size_t n,
                       uint8_t *keep, double *add) {
    attn_mask_additive(m, b, h, i, j0, n, add);
    keep_of_layers(m, b, h, i, j0, n, keep);
    for (size_t k = 0; k < n; k++) {
        if (keep[k])
            continue;
        add[k] = m->fill == ATTN_FILL_HIDE  ? -(double)INFINITY
                 : m->fill == ATTN_FILL_ADD ? add[k] + m->fill_value
                                            : m->fill_value;
    }
}

/* Adds the number of visible cells of head h in batch entry b to *count. */
static attn_status visible_of_head(const attn_mask *m, size_t b, size_t h,
                                   const attn_control *control, uint64_t *count, attn_error *err) {
    uint8_t keep[512];
    const bool cells = attn_mask_hides_cells(m);
    for (size_t i = 0; i < m->shape.L; i++) {
        size_t lo, hi;
        if (cells || i % 1024 == 0)
            ATTN_TRY(attn_control_check(control, err));
        attn_mask_interval(m, b, i, &lo, &hi);
        if (!cells) {
            *count += hi - lo;
            continue;
        }
        for (size_t j = lo; j < hi; j += sizeof keep) {
            size_t n = hi - j < sizeof keep ? hi - j : sizeof keep;
            attn_mask_keep(m, b, h, i, j, n, keep);
            for (size_t k = 0; k < n; k++)
                *count += keep[k];
        }
    }
    return ATTN_OK;
}

attn_status attn_mask_visible(const attn_mask *m, const attn_control *control, uint64_t *out,
                              attn_error *err) {
    const size_t heads = m->same_heads ? 1 : m->shape.H, batches = m->same_batches ? 1 : m->B;
    uint64_t count = 0;
    *out = 0;
    if (!m->B || !m->shape.H)
        return ATTN_OK;
    for (size_t n = 0; n < batches * heads; n++)
        ATTN_TRY(visible_of_head(m, n / heads, n % heads, control, &count, err));
    *out = count * (m->B / batches) * (m->shape.H / heads);
    return ATTN_OK;
}

/* --- single layers --- */

const attn_mask_part *attn_mask_part_of(const attn_mask *m, size_t i) {
    const attn_mask_layer *layer = &m->layers[i];
    for (size_t k = 0; k < m->keep_count; k++)
        if (m->keep[k].layer == layer)
            return &m->keep[k];
    for (size_t k = 0; k < m->bias_count; k++)
        if (m->bias[k].layer == layer)
            return &m->bias[k];
    return m->rules && m->rules[i].part.layer ? &m->rules[i].part : NULL;
}

/* Returns a view of the rows of one head and batch entry as a tensor [rows, width]. An axis that
 * broadcasts has length 1. */
static attn_tensor rows_of(const attn_view *v, size_t b, size_t h, size_t row, size_t rows,
                           size_t width) {
    const size_t dims[2] = {v->row ? rows : 1, width};
    attn_tensor t = attn_tensor_dense((void *)attn_view_at(v, b, h, row, 0), v->dtype, 2, dims);
    t.strides[0] = v->row;
    t.strides[1] = v->col;
    return t;
}

static attn_mask_layer part_rows(const attn_mask *m, const attn_mask_part *part, size_t b, size_t h,
                                 size_t row, size_t rows) {
    const attn_view *v = &part->view;
    const size_t keys = part->bits ? (m->shape.S + 7) / 8 : v->col ? m->shape.S : 1;
    attn_mask_layer out = *part->layer;
    out.kind = part->bits              ? ATTN_LAYER_BITS
               : v->dtype == ATTN_BOOL ? ATTN_LAYER_VALUES
                                       : ATTN_LAYER_BIAS;
    out.semantics = v->dtype == ATTN_BOOL ? ATTN_SEM_KEEP
                    : part->flipped       ? ATTN_SEM_HIDE
                                          : ATTN_SEM_UNSTATED;
    out.values = rows_of(v, b, h, row, rows, keys);
    if (part->bits)
        out.values.strides[1] = 1;
    return out;
}

attn_mask_layer attn_mask_layer_rows(const attn_mask *m, size_t i, size_t b, size_t h, size_t row,
                                     size_t rows) {
    const attn_mask_part *part = attn_mask_part_of(m, i);
    const attn_rule *rule = m->rules && m->rules[i].layer ? &m->rules[i] : NULL;
    const int64_t *lengths = rule ? rule->lengths : m->lengths;
    const size_t one = 1;
    attn_mask_layer out = m->layers[i];
    if (out.by_head) {
        const attn_head_keys *own = attn_keys_of_head(&out, h);
        memcpy(out.window, own->window, sizeof out.window);
        out.pattern = own->pattern;
        out.by_head = NULL;
        out.head_count = 0;
    }
    if (part)
        return part_rows(m, part, b, h, row, rows);
    if (out.kind == ATTN_LAYER_LENGTHS || out.kind == ATTN_LAYER_PREFIX)
        out.values = attn_tensor_dense((void *)(uintptr_t)(lengths + b), ATTN_I64, 1, &one);
    else if (rule && attn_layer_has_values(out.kind))
        out.values = rows_of(&rule->view, b, h, row, rows,
                             out.kind == ATTN_LAYER_TOP_K ? rule->width : m->shape.S);
    return out;
}
