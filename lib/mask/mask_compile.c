/* Compiles a mask specification to the struct of mask_private.h. It checks the shapes and values of
 * all layers, and turns each layer into bounds of an interval of keys, visibility bytes, bits,
 * numbers to add, a pattern, or a rule. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "mask/bit_rows.h"
#include "mask/formula.h"
#include "mask/layer_view.h"
#include "mask/survey.h"

typedef struct compiler {
    attn_mask *m;
    attn_arena *arena;
    attn_error *err;
} compiler;

/* --- visibility bytes --- */

/* Sets to[k] to 1 if element k of `from` equals `mark`, else to 0. Integers are not converted to
 * double, which would round large ones. */
static void compare(uint8_t *to, const void *from, attn_dtype dtype, ptrdiff_t stride, size_t n,
                    int64_t mark) {
    double x[ATTN_SURVEY_STEP];
    if (dtype != ATTN_I64)
        attn_widen_f64(x, from, dtype, stride, n);
    for (size_t k = 0; k < n; k++)
        to[k] = dtype == ATTN_I64 ? ((const int64_t *)from)[(ptrdiff_t)k * stride] == mark
                                  : x[k] == (double)mark;
}

/* Makes a dense tensor of visibility bytes from the layer's tensor. A byte is 1 (visible) where the
 * value equals `mark`. With hide_equal, a byte is 1 where the value differs from `mark`. */
static attn_status bytes_of(compiler *c, const attn_mask_layer *layer, int64_t mark,
                            bool hide_equal, attn_tensor *out) {
    const attn_tensor *t = &layer->values;
    size_t count;
    if (!attn_tensor_count(t, &count))
        return attn_fail(c->err, ATTN_ELIMIT, layer->where, "too many elements");
    uint8_t *to = attn_arena_take(c->arena, count);
    ATTN_TAKEN(to, "the mask", c->err);
    const size_t rows = attn_survey_rows(t), width = t->dims[t->rank - 1];
    const ptrdiff_t stride = t->strides[t->rank - 1];
    for (size_t r = 0; r < rows; r++) {
        const char *row = attn_dense_row(t, r);
        for (size_t j = 0; j < width; j += ATTN_SURVEY_STEP) {
            size_t n = width - j < ATTN_SURVEY_STEP ? width - j : ATTN_SURVEY_STEP;
            compare(to + r * width + j,
                    row + (ptrdiff_t)j * stride * (ptrdiff_t)attn_dtype_size(t->dtype), t->dtype,
                    stride, n, mark);
            for (size_t k = 0; k < n; k++)
                to[r * width + j + k] ^= hide_equal;
        }
    }
    *out = attn_tensor_dense(to, ATTN_BOOL, t->rank, t->dims);
    return ATTN_OK;
}

/* Adds a layer of visibility bytes (see bytes_of for `mark` and `hide_equal`). Booleans of which
 * true means visible are used without a copy. */
static attn_status add_keep(compiler *c, const attn_mask_layer *layer, int64_t mark,
                            bool hide_equal, attn_layer_view view_of) {
    attn_mask_layer bytes = *layer;
    const bool ready = layer->values.dtype == ATTN_BOOL && mark == 1 && !hide_equal;
    attn_mask_part *part = &c->m->keep[c->m->keep_count];
    attn_view checked;
    ATTN_TRY(view_of(c->m, layer, c->arena, &checked, c->err));
    if (!ready)
        ATTN_TRY(bytes_of(c, layer, mark, hide_equal, &bytes.values));
    ATTN_TRY(view_of(c->m, &bytes, c->arena, &part->view, c->err));
    part->layer = layer;
    part->bits = part->flipped = false;
    part->lowest = 0;
    c->m->keep_count++;
    return ATTN_OK;
}

/* Refuses KEEP and HIDE masks that hold values other than 0 and 1. */
static attn_status check_bits(compiler *c, const attn_mask_layer *layer, const attn_survey *s) {
    char path[96];
    if (s->only_bits)
        return ATTN_OK;
    attn_survey_path(layer, s->other_row, s->other_col, path);
    return attn_fail(c->err, ATTN_EVALUE, path,
                     "a mask with the meaning \"%s\" holds only 0 and 1, found %g. If the numbers "
                     "are added to the scores, say \"additive\". If they are conditions, as in "
                     "numpy.where(mask, scores, -1e9), where every number but 0 means attend, say "
                     "\"nonzero\"",
                     layer->semantics == ATTN_SEM_HIDE ? "hide" : "keep", s->other);
}

/* --- the kinds of layers --- */

/* Adds an additive layer. `values` holds the numbers to add: it is the layer's tensor or a copy of
 * this tensor. *s describes the numbers. */
static attn_status add_bias(compiler *c, const attn_mask_layer *layer, const attn_tensor *values,
                            const attn_survey *s) {
    char path[96];
    attn_mask_layer added = *layer;
    added.values = *values;
    if (s->bad) {
        attn_survey_path(layer, s->bad_row, s->bad_col, path);
        return attn_fail(c->err, ATTN_ENONFINITE, path,
                         "an additive mask holds finite numbers and null for -infinity, found %s",
                         isnan(s->worst) ? "NaN" : "infinity");
    }
    attn_mask_part *part = &c->m->bias[c->m->bias_count];
    ATTN_TRY(attn_weights_view(c->m, &added, c->arena, &part->view, c->err));
    part->layer = layer;
    part->bits = part->flipped = false;
    part->lowest = s->lowest;
    part->only_bits = s->only_bits && s->ones;
    c->m->bias_count++;
    return ATTN_OK;
}

/* Replaces the n numbers of a row that are at most ATTN_FINITE_MIN by -infinity. */
static void hide_low(void *row, bool wide, size_t n) {
    for (size_t j = 0; j < n; j++)
        if (wide && ((double *)row)[j] <= ATTN_FINITE_MIN)
            ((double *)row)[j] = -(double)INFINITY;
        else if (!wide && ((float *)row)[j] <= (float)ATTN_FINITE_MIN)
            ((float *)row)[j] = -INFINITY;
}

/* Adds an additive layer in which a number that is ATTN_FINITE_MIN or below hides its key. Such
 * numbers become -infinity in a copy of the tensor. */
static attn_status add_finite_min(compiler *c, const attn_mask_layer *layer, attn_survey s) {
    const attn_tensor *t = &layer->values;
    const bool wide = t->dtype == ATTN_F64;
    const size_t width = t->dims[t->rank - 1];
    const ptrdiff_t stride = t->strides[t->rank - 1];
    attn_tensor copy;
    ATTN_TRY(attn_dense_zeros(t, wide ? ATTN_F64 : ATTN_F32, c->arena, &copy, c->err));
    for (size_t r = 0, rows = attn_survey_rows(t); r < rows; r++) {
        void *to = (char *)copy.data + r * width * attn_dtype_size(copy.dtype);
        attn_elements_widen(to, attn_dtype_size(copy.dtype), attn_dense_row(t, r), t->dtype, stride,
                            width);
        hide_low(to, wide, width);
    }
    s.lowest = 0; /* the low numbers are -infinity now */
    return add_bias(c, layer, &copy, &s);
}

/* Adds a layer whose numbers are conditions: every number other than 0 means visible. */
static attn_status add_nonzero(compiler *c, const attn_mask_layer *layer, const attn_survey *s) {
    char path[96];
    if (!s->bad)
        return add_keep(c, layer, 0, true, attn_weights_view);
    attn_survey_path(layer, s->bad_row, s->bad_col, path);
    return attn_fail(c->err, ATTN_ENONFINITE, path,
                     "a mask with the meaning \"nonzero\" holds finite numbers and null for "
                     "-infinity, found %s",
                     isnan(s->worst) ? "NaN" : "infinity");
}

bool attn_layer_is_added(const attn_mask_layer *layer) {
    const bool values =
        layer->kind == ATTN_LAYER_VALUES &&
        (layer->semantics == ATTN_SEM_UNSTATED || layer->semantics == ATTN_SEM_ADDITIVE ||
         layer->semantics == ATTN_SEM_FINITE_MIN);
    return layer->kind == ATTN_LAYER_BIAS || (values && layer->values.dtype <= ATTN_F64);
}

static attn_status add_values(compiler *c, const attn_mask_layer *layer) {
    if ((unsigned)layer->semantics > ATTN_SEM_NONZERO)
        return attn_fail(c->err, ATTN_EARG, layer->where, "a mask has no meaning of the number %d",
                         (int)layer->semantics);
    if (layer->values.dtype == ATTN_BOOL || layer->values.dtype == ATTN_BITS) {
        if (layer->semantics == ATTN_SEM_ADDITIVE || layer->semantics == ATTN_SEM_FINITE_MIN)
            return attn_fail(c->err, ATTN_EDTYPE, layer->where,
                             "an additive mask holds numbers, found booleans");
        if (layer->values.dtype == ATTN_BITS)
            return attn_bits_add(c->m, layer, c->arena, c->err);
        return add_keep(c, layer, 1, layer->semantics == ATTN_SEM_HIDE, attn_weights_view);
    }
    attn_survey s = attn_survey_of(&layer->values);
    switch (layer->semantics) {
    case ATTN_SEM_KEEP:
    case ATTN_SEM_HIDE:
        ATTN_TRY(check_bits(c, layer, &s));
        return add_keep(c, layer, 1, layer->semantics == ATTN_SEM_HIDE, attn_weights_view);
    case ATTN_SEM_UNSTATED:
        if (layer->values.rank == 1 && layer->values.dims[0] == 0)
            return attn_fail(c->err, ATTN_ESHAPE, layer->where,
                             "expected a mask that broadcasts to the shape of the weights, found "
                             "%s",
                             attn_rank_text(&layer->values));
        if (s.only_bits)
            return attn_fail(
                c->err, ATTN_ESEMANTICS, layer->where,
                "all numbers of the mask are 0 or 1, which has two readings: \"keep\" (1 = attend, "
                "as in Hugging Face) and \"hide\" (1 = hidden, as in TensorFlow's tutorial). Say "
                "mask_semantics \"keep\", \"hide\", \"additive\" (added to the scores) or "
                "\"nonzero\" (all but 0 = attend, as in numpy.where), or send booleans (true = "
                "attend)");
        return add_bias(c, layer, &layer->values, &s);
    case ATTN_SEM_FINITE_MIN:
        return add_finite_min(c, layer, s);
    case ATTN_SEM_NONZERO:
        return add_nonzero(c, layer, &s);
    case ATTN_SEM_ADDITIVE:
        break;
    }
    return add_bias(c, layer, &layer->values, &s);
}

static attn_status add_padding(compiler *c, const attn_mask_layer *layer) {
    if (layer->semantics != ATTN_SEM_KEEP && layer->semantics != ATTN_SEM_HIDE)
        return attn_fail(
            c->err, ATTN_ESEMANTICS, layer->where,
            "a key padding mask needs its meaning: key_padding_semantics \"keep\" "
            "(1 or true = a real key) or \"hide\" (1 or true = padding, as PyTorch's)");
    if (layer->values.dtype != ATTN_BOOL) {
        attn_survey s = attn_survey_of(&layer->values);
        ATTN_TRY(check_bits(c, layer, &s));
    }
    return add_keep(c, layer, 1, layer->semantics == ATTN_SEM_HIDE, attn_padding_view);
}

/* Reads the lengths [B] of a layer, or the one length that all batch entries share. */
static attn_status read_lengths(compiler *c, const attn_mask_layer *layer, int64_t **out) {
    attn_mask *m = c->m;
    const attn_tensor *t = &layer->values;
    size_t count;
    if (!attn_tensor_count(t, &count) || (count != m->B && count != 1))
        return attn_fail(c->err, ATTN_ESHAPE, layer->where,
                         "expected one length a batch entry (%zu), found %zu", m->B,
                         t->rank ? t->dims[0] : 0);
    int64_t *lengths = attn_arena_zeroed(c->arena, m->B, sizeof *lengths);
    const bool positions = m->placed && layer->kind == ATTN_LAYER_PREFIX;
    const double most = positions ? (double)ATTN_MASK_FARTHEST : (double)m->shape.S;
    ATTN_TAKEN(lengths, "the mask", c->err);
    for (size_t b = 0; b < m->B; b++) {
        size_t at = count == 1 ? 0 : b, width = t->dims[t->rank - 1];
        const char *row = attn_dense_row(t, at / width);
        const double x = attn_number_at(row + (ptrdiff_t)(at % width) * t->strides[t->rank - 1] *
                                                  (ptrdiff_t)attn_dtype_size(t->dtype),
                                        t->dtype);
        if (!(x >= 0 && x <= most) || x != floor(x)) {
            char path[96];
            attn_survey_path(layer, at / width, at % width, path);
            return attn_fail(c->err, ATTN_EVALUE, path,
                             "a length lies between 0 and %s%.0f; found %g",
                             positions ? "" : "the number of keys, ", most, x);
        }
        lengths[b] = (int64_t)x;
        m->same_batches &= lengths[b] == lengths[0];
    }
    *out = lengths;
    return ATTN_OK;
}

static attn_status add_lengths(compiler *c, const attn_mask_layer *layer) {
    attn_mask *m = c->m;
    int64_t *lengths;
    ATTN_TRY(read_lengths(c, layer, &lengths));
    for (size_t b = 0; m->lengths && b < m->B; b++) {
        lengths[b] = m->lengths[b] < lengths[b] ? m->lengths[b] : lengths[b];
        m->same_batches &= lengths[b] == lengths[0];
    }
    m->lengths = lengths;
    return ATTN_OK;
}

static attn_status add_window(compiler *c, const attn_mask_layer *layer) {
    ATTN_TRY(attn_formula_check(c->m, layer, c->err));
    if (layer->window[0] >= 0 && layer->window[0] < c->m->left)
        c->m->left = layer->window[0];
    if (layer->window[1] >= 0 && layer->window[1] < c->m->right)
        c->m->right = layer->window[1];
    return ATTN_OK;
}

static attn_status add_pattern(compiler *c, const attn_mask_layer *layer) {
    const attn_pattern *pattern = &layer->pattern;
    attn_mask *m = c->m;
    ATTN_TRY(attn_formula_check(c->m, layer, c->err));
    if (pattern->kind == ATTN_PATTERN_FULL)
        return ATTN_OK;
    if (pattern->kind == ATTN_PATTERN_LOCAL) {
        m->left = pattern->radius < m->left ? pattern->radius : m->left;
        m->right = pattern->radius < m->right ? pattern->radius : m->right;
    } else if (pattern->kind == ATTN_PATTERN_BLOCK || pattern->kind == ATTN_PATTERN_BLOCK_CAUSAL) {
        m->patterns[m->layer_count - ++m->block_count] = pattern;
    } else {
        m->patterns[m->pattern_count++] = pattern;
    }
    return ATTN_OK;
}

bool attn_layer_has_parts(attn_layer_kind kind) {
    return kind == ATTN_LAYER_ANY_OF || kind == ATTN_LAYER_ALL_OF || kind == ATTN_LAYER_NOT;
}

bool attn_layer_has_values(attn_layer_kind kind) {
    return kind != ATTN_LAYER_CAUSAL && kind != ATTN_LAYER_WINDOW && kind != ATTN_LAYER_PATTERN &&
           !attn_layer_has_parts(kind);
}

size_t attn_mask_spec_next(const attn_mask_spec *spec, size_t i) {
    for (size_t open = 1; open && i < spec->count; open--, i++)
        if (attn_layer_has_parts(spec->layers[i].kind))
            open += spec->layers[i].parts < spec->count ? spec->layers[i].parts : spec->count;
    return i;
}

size_t attn_layer_value_bytes(const attn_mask_layer *layer) {
    switch (layer->kind) {
    case ATTN_LAYER_DOCUMENTS:
    /* an attn_rule_key for each key, and three numbers while the table is made */
    case ATTN_LAYER_TREE:
        return sizeof(attn_rule_key) + 3 * sizeof(size_t);
    case ATTN_LAYER_TOP_K:
        return sizeof(int64_t);
    default:
        if (layer->values.dtype == ATTN_BITS)
            return 0; /* the bits are not copied */
        return layer->semantics == ATTN_SEM_FINITE_MIN ? sizeof(double) : 1;
    }
}

static attn_status check_tensor(compiler *c, const attn_mask_layer *layer) {
    const int rank = layer->values.rank;
    if (attn_layer_has_values(layer->kind) && (rank < 1 || rank > ATTN_MAX_RANK))
        return attn_fail(c->err, ATTN_ESHAPE, layer->where,
                         "expected a tensor of rank 1 to %d, found %s", ATTN_MAX_RANK,
                         attn_rank_text(&layer->values));
    return ATTN_OK;
}

static attn_status add_layer(compiler *c, const attn_mask_layer *layer) {
    ATTN_TRY(check_tensor(c, layer));
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
        if (c->m->right > 0)
            c->m->right = 0;
        return ATTN_OK;
    case ATTN_LAYER_WINDOW:
        return add_window(c, layer);
    case ATTN_LAYER_VALUES:
        return add_values(c, layer);
    case ATTN_LAYER_BIAS: {
        attn_survey s = {.bad = false};
        if (layer->values.dtype == ATTN_BOOL)
            return attn_fail(c->err, ATTN_EDTYPE, layer->where,
                             "a bias holds numbers that are added, found booleans");
        s = attn_survey_of(&layer->values);
        return add_bias(c, layer, &layer->values, &s);
    }
    case ATTN_LAYER_PADDING:
        return add_padding(c, layer);
    case ATTN_LAYER_LENGTHS:
        return add_lengths(c, layer);
    case ATTN_LAYER_PATTERN:
        return add_pattern(c, layer);
    case ATTN_LAYER_BITS:
        return attn_bits_add(c->m, layer, c->arena, c->err);
    case ATTN_LAYER_TOKENS:
        return add_keep(c, layer, layer->pad_id, true, attn_padding_view);
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_DOCUMENTS:
    case ATTN_LAYER_TREE:
    case ATTN_LAYER_TOP_K:
    case ATTN_LAYER_ANY_OF:
    case ATTN_LAYER_ALL_OF:
    case ATTN_LAYER_NOT:
        break; /* add_rule compiles these layers */
    }
    return attn_fail(c->err, ATTN_EARG, layer->where, "unknown kind of mask");
}

/* --- rules --- */

bool attn_layer_is_rule(const attn_mask_layer *layer, bool placed) {
    const attn_layer_kind kind = layer->kind;
    const bool formula = attn_is_formula(kind) && kind != ATTN_LAYER_LENGTHS;
    const bool by_head =
        layer->by_head && (kind == ATTN_LAYER_WINDOW || kind == ATTN_LAYER_PATTERN);
    return (kind >= ATTN_LAYER_PREFIX && kind <= ATTN_LAYER_NOT) || by_head || (placed && formula);
}

/* Compiles a layer of visibility bytes or bits as a part of a rule. */
static attn_status add_keep_rule(compiler *c, const attn_mask_layer *layer, attn_rule *rule) {
    attn_mask *m = c->m;
    const size_t added = m->bias_count;
    ATTN_TRY(add_layer(c, layer));
    if (m->bias_count > added)
        return attn_fail(c->err, ATTN_EARG, layer->where,
                         "numbers that are added to the scores cannot be a part of any_of, all_of "
                         "or not, whose parts show and hide keys: send booleans, or say "
                         "mask_semantics \"keep\", \"hide\" or \"nonzero\"");
    rule->part = m->keep[--m->keep_count];
    return ATTN_OK;
}

static attn_status add_rule(compiler *c, size_t at);

/* Compiles the parts of layer `at`, which follow it. */
static attn_status add_parts(compiler *c, size_t at, attn_rule *rule) {
    const attn_mask_layer *layer = rule->layer;
    if (!layer->parts || (layer->kind == ATTN_LAYER_NOT && layer->parts > 1))
        return attn_fail(c->err, ATTN_EARG, layer->where, "expected %s, found %zu",
                         layer->kind == ATTN_LAYER_NOT ? "one mask" : "one mask or more",
                         layer->parts);
    for (size_t p = 0; p < layer->parts; p++) {
        const size_t next = at + rule->nodes;
        if (next >= c->m->layer_count)
            return attn_fail(c->err, ATTN_EARG, layer->where, "expected %zu masks, found %zu",
                             layer->parts, p);
        ATTN_TRY(add_rule(c, next));
        rule->nodes += c->m->rules[next].nodes;
    }
    return ATTN_OK;
}

/* Compiles layer `at` and its parts to rules. */
static attn_status add_rule(compiler *c, size_t at) {
    attn_mask *m = c->m;
    const attn_mask_layer *layer = &m->layers[at];
    attn_rule *rule = &m->rules[at];
    *rule = (attn_rule){.layer = layer, .nodes = 1};
    ATTN_TRY(check_tensor(c, layer));
    switch (layer->kind) {
    case ATTN_LAYER_CAUSAL:
        return ATTN_OK;
    case ATTN_LAYER_WINDOW:
    case ATTN_LAYER_PATTERN:
        return attn_formula_check(c->m, layer, c->err);
    case ATTN_LAYER_PREFIX:
    case ATTN_LAYER_LENGTHS: {
        int64_t *lengths;
        ATTN_TRY(read_lengths(c, layer, &lengths));
        rule->lengths = lengths;
        return ATTN_OK;
    }
    case ATTN_LAYER_DOCUMENTS:
        return attn_rule_documents(m, rule, c->arena, c->err);
    case ATTN_LAYER_TREE:
        return attn_rule_tree(m, rule, c->arena, c->err);
    case ATTN_LAYER_TOP_K:
        return attn_rule_top_k(m, rule, c->arena, c->err);
    case ATTN_LAYER_ANY_OF:
    case ATTN_LAYER_ALL_OF:
    case ATTN_LAYER_NOT:
        return add_parts(c, at, rule);
    default:
        return add_keep_rule(c, layer, rule);
    }
}

/* Compiles all layers. The parts of a rule are compiled with it. */
static attn_status add_layers(compiler *c) {
    attn_mask *m = c->m;
    for (size_t l = 0; l < m->layer_count; l++)
        if (!m->layers[l].where)
            m->layers[l].where = "mask";
    for (size_t l = 0; l < m->layer_count;) {
        if (!attn_layer_is_rule(&m->layers[l], m->placed)) {
            ATTN_TRY(add_layer(c, &m->layers[l++]));
            continue;
        }
        ATTN_TRY(add_rule(c, l));
        m->rule_at[m->rule_count++] = l;
        l += m->rules[l].nodes;
    }
    return ATTN_OK;
}

/* Sets sums_hide of a mask with several additive layers. Tables of float add in float32, where a
 * sum below the range becomes -infinity. */
static void find_sums(attn_mask *m) {
    double lowest = 0;
    bool wide = false;
    for (size_t l = 0; l < m->bias_count; l++) {
        lowest += fmin(m->bias[l].lowest, 0);
        wide |= m->bias[l].view.dtype == ATTN_F64;
    }
    m->sums_hide = !wide && lowest < -FLT_MAX;
}

/* --- offsets --- */

static attn_status set_offsets(compiler *c, const attn_mask_spec *spec) {
    attn_mask *m = c->m;
    if (spec->offset == ATTN_OFFSET_GIVEN && spec->offset_count != 1 && spec->offset_count != m->B)
        return attn_fail(c->err, ATTN_ESHAPE, "query_offset",
                         "expected one offset or one a batch entry (%zu), found %zu", m->B,
                         spec->offset_count);
    int64_t *offset = attn_arena_zeroed(c->arena, m->B, sizeof *offset);
    ATTN_TAKEN(offset, "the mask", c->err);
    for (size_t b = 0; b < m->B; b++) {
        int64_t end = m->lengths ? m->lengths[b] : (int64_t)m->shape.S;
        offset[b] = spec->offset == ATTN_OFFSET_END ? end - (int64_t)m->shape.L
                    : spec->offset == ATTN_OFFSET_GIVEN
                        ? spec->offsets[spec->offset_count > 1 ? b : 0]
                        : (int64_t)m->shape.past;
        if (offset[b] > ATTN_MASK_FARTHEST || offset[b] < -ATTN_MASK_FARTHEST)
            return attn_fail(c->err, ATTN_EARG, "query_offset",
                             "%" PRId64 " is beyond any sequence", offset[b]);
    }
    const bool positions = m->pattern_count || m->block_count || m->rule_count ||
                           m->left != INT64_MAX || m->right != INT64_MAX;
    for (size_t b = 1; positions && b < m->B; b++)
        m->same_batches &= offset[b] == offset[0];
    m->offset = offset;
    return ATTN_OK;
}

/* Copies the layers of the specification, and allocates the arrays for their compiled forms. */
static bool take_lists(attn_mask *m, const attn_mask_spec *spec, attn_arena *arena) {
    const size_t n = spec->count;
    char *at = n ? attn_arena_take(arena, n * ATTN_MASK_LAYER_BYTES) : NULL;
    if (!at)
        return n == 0;
    m->layer_count = n;
    m->layers = memcpy(at, spec->layers, n * sizeof *m->layers);
    m->keep = (attn_mask_part *)(void *)(m->layers + n);
    m->bias = m->keep + n;
    m->patterns = (const attn_pattern **)(void *)(m->bias + n);
    bool rules = false;
    for (size_t l = 0; l < n; l++)
        rules |= attn_layer_is_rule(&m->layers[l], m->placed);
    if (!rules)
        return true;
    m->rules = attn_arena_zeroed(arena, n, sizeof *m->rules);
    m->rule_at = attn_arena_zeroed(arena, n, sizeof *m->rule_at);
    return m->rules && m->rule_at;
}

attn_status attn_mask_new(const attn_mask_spec *spec, const attn_mask_shape *shape,
                          attn_arena *arena, attn_mask **out, attn_error *err) {
    compiler c = {attn_arena_take(arena, sizeof *c.m), arena, err};
    ATTN_TAKEN(c.m, "the mask", err);
    if (spec->count > ATTN_MASK_LAYERS)
        return attn_fail_limit(err, "", ATTN_MASK_LAYERS, "at most %d masks can be combined",
                               ATTN_MASK_LAYERS);
    if ((unsigned)spec->fill > ATTN_FILL_REPLACE)
        return attn_fail(err, ATTN_EARG, "mask_fill/mode", "there is no fill of the number %d",
                         (int)spec->fill);
    if ((unsigned)spec->offset > ATTN_OFFSET_END)
        return attn_fail(err, ATTN_EARG, "query_offset", "there is no offset of the number %d",
                         (int)spec->offset);
    if (spec->fill != ATTN_FILL_HIDE && !isfinite(spec->fill_value))
        return attn_fail(err, ATTN_EARG, "mask_fill/value", "the fill is a finite number");
    *c.m = (attn_mask){.stated_offset = spec->offset,
                       .fill = spec->fill,
                       .fill_value = spec->fill_value,
                       .shape = *shape,
                       .B = 1,
                       .left = INT64_MAX,
                       .right = INT64_MAX,
                       .placed = attn_mask_spec_placed(spec),
                       .same_heads = true,
                       .same_batches = true};
    ATTN_TAKEN(take_lists(c.m, spec, arena), "the mask", err);
    for (int a = 0; a < shape->batch_rank; a++)
        if (!attn_size_mul(c.m->B, shape->batch[a], &c.m->B))
            return attn_fail(err, ATTN_ELIMIT, "", "too many batch entries");
    ATTN_TRY(add_layers(&c));
    if (c.m->bias_count > 1)
        find_sums(c.m);
    ATTN_TRY(set_offsets(&c, spec));
    if (c.m->placed)
        ATTN_TRY(attn_formula_positions(c.m, spec, arena, err));
    *out = c.m;
    return ATTN_OK;
}
