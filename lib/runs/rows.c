/* Makes the inputs of a small operation that computes only some rows of one head of a run. Tensors
 * are reduced to that head and, for queries, to these rows. Masks and positions are reduced so that
 * every remaining cell keeps its mask and its distance. */
#include <stdio.h>
#include <string.h>

#include "attention/encodings.h"
#include "attention/resolved.h"
#include "base/try.h"
#include "runs/private.h"

typedef struct cutter {
    const attn_attention *a;
    const attn_range *rows;
    attn_arena *arena;
    attn_inputs in;
} cutter;

/* Returns rows [row, row + rows) of head h and batch entry b as a tensor [1, 1, rows, width]. */
static attn_tensor cut_view(const attn_view *v, size_t b, size_t h, size_t row, size_t rows,
                            size_t width) {
    const size_t dims[4] = {1, 1, rows, width};
    attn_tensor t = attn_tensor_dense((void *)attn_view_at(v, b, h, row, 0), v->dtype, 4, dims);
    t.strides[2] = v->row;
    t.strides[3] = v->col;
    return t;
}

/* Reduces positions that the caller gave, if any, to n rows from `row` on of the batch entry. */
static void cut_positions(const cutter *c, const attn_sequence_positions *p, size_t row, size_t n,
                          attn_tensor *out) {
    if (p->given)
        *out = attn_tensor_dense((void *)(p->given + c->rows->batch * p->entry + row), ATTN_I64, 1,
                                 &n);
}

/* Replaces query and key by the rows whose products are the mixed scores. These rows are wider than
 * those of a head, but the scale stays that of a head. */
static void cut_mixed(cutter *c) {
    const attn_attention *a = c->a;
    const attn_attention_dims *d = &a->dims;
    const attn_range *rows = c->rows;
    c->in.query =
        cut_view(&a->score_query, rows->batch, rows->head, rows->row, rows->rows, d->score_width);
    c->in.key = cut_view(&a->score_key, rows->batch, 0, d->past, d->S - d->past, d->score_width);
    c->in.mix = (attn_mix){.logits.rank = 0};
    c->in.scale = a->scale;
}

static bool cut_masks(cutter *c) {
    attn_mask_spec *spec = &c->in.mask;
    for (size_t i = 0; i < spec->count; i++)
        spec->layers[i] = attn_mask_layer_rows(c->a->mask, i, c->rows->batch, c->rows->head,
                                               c->rows->row, c->rows->rows);
    cut_positions(c, &c->a->mask->queries, c->rows->row, c->rows->rows, &spec->query_positions);
    cut_positions(c, &c->a->mask->keys, 0, c->a->dims.S, &spec->key_positions);
    int64_t *offset = attn_arena_small(c->arena, sizeof *offset);
    if (!offset)
        return false;
    *offset = attn_mask_offset(c->a->mask, c->rows->batch) + (int64_t)c->rows->row;
    spec->offset = ATTN_OFFSET_GIVEN;
    spec->offsets = offset;
    spec->offset_count = 1;
    return true;
}

static bool one_number(const cutter *c, double value, attn_tensor *out) {
    const size_t one = 1;
    double *number = attn_arena_small(c->arena, sizeof *number);
    if (!number)
        return false;
    *number = value;
    *out = attn_tensor_dense(number, ATTN_F64, 1, &one);
    return true;
}

/* Reduces positions on axes, [axes, entries, rows], to `rows` rows from `row` on of the batch entry. */
static attn_tensor cut_places(const cutter *c, const attn_rotary_places *p, size_t row,
                              size_t rows) {
    const size_t dims[2] = {c->a->rule.rotary.axes, rows};
    attn_tensor t =
        attn_tensor_dense((void *)(p->at + c->rows->batch * p->entry + row), ATTN_F64, 2, dims);
    t.strides[0] = (ptrdiff_t)p->axis;
    return t;
}

static void cut_axes(cutter *c) {
    const attn_rotary_rule *rule = &c->a->rule.rotary;
    attn_rotary_axes *axes = &c->in.position.axes;
    if (!rule->axes || !c->in.position.kind)
        return;
    axes->query_positions = cut_places(c, &rule->queries, c->rows->row, c->rows->rows);
    axes->key_positions = cut_places(c, &rule->keys, 0, c->a->dims.S);
}

/* Reduces numbers by row to the given rows. */
static void cut_numbers(const cutter *c, const attn_row_numbers *numbers, attn_tensor *out) {
    const attn_range *at = c->rows;
    const size_t dims[2] = {1, numbers->row ? at->rows : 1};
    if (!numbers->values)
        return;
    *out = attn_tensor_dense(
        (void *)(numbers->values + attn_row_number(numbers, at->batch, at->head, at->row)),
        ATTN_F64, 2, dims);
    out->strides[1] = numbers->row;
}

/* Reduces an axis of heads of a tensor to head h. */
static void cut_heads(attn_tensor *t, int axis, size_t h) {
    t->data = (char *)t->data + (ptrdiff_t)(t->dims[axis] == 1 ? 0 : h) * t->strides[axis] *
                                    (ptrdiff_t)attn_dtype_size(t->dtype);
    t->dims[axis] = 1;
}

/* Reduces parameters with a head axis (position tables, slopes, the normaliser's bias) to the given
 * head. */
static bool cut_parameters(cutter *c) {
    const size_t h = c->rows->head;
    const bool second = c->in.score_position.kind;
    attn_position *p = second ? &c->in.score_position : &c->in.position;
    const int axis = p->kind == ATTN_POSITION_T5 ? 1 : 0;
    /* encodings are already part of the queries and keys */
    if (attn_position_encodes(c->in.position.kind) ||
        (c->in.position.kind == ATTN_POSITION_ROTARY && c->a->dims.mixed))
        c->in.position = (attn_position){.kind = ATTN_POSITION_NONE};
    cut_axes(c);
    if (!attn_position_reads(&c->in)) {
        c->in.query_positions = c->in.key_positions = (attn_tensor){.rank = 0};
    } else {
        cut_positions(c, &c->a->query_positions, c->rows->row, c->rows->rows,
                      &c->in.query_positions);
        cut_positions(c, &c->a->key_positions, 0, c->a->dims.S, &c->in.key_positions);
    }
    if (p->kind == ATTN_POSITION_T5 || p->kind == ATTN_POSITION_RELATIVE)
        cut_heads(&p->table, axis, h);
    attn_tensor *const vectors[] = {&p->key_table, &p->value_table, &p->query_table};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (vectors[i]->rank == 3)
            cut_heads(vectors[i], 0, h);
    cut_numbers(c, &c->a->sinks, &c->in.sinks);
    cut_numbers(c, &c->a->scales, &c->in.scales);
    return (p->kind != ATTN_POSITION_ALIBI || one_number(c, c->a->rule.slopes[h], &p->slopes)) &&
           (!c->a->normalizer_bias ||
            one_number(c, c->a->normalizer_bias[h], &c->in.normalizer.bias));
}

static attn_status hide_keys(cutter *c, const int64_t *hide, size_t count, attn_error *err) {
    const size_t S = c->a->dims.S;
    attn_mask_spec *spec = &c->in.mask;
    if (!hide)
        return ATTN_OK;
    if (attn_mask_fills(c->a->mask))
        return attn_fail(err, ATTN_EARG, "hide",
                         "the run has a mask_fill, under which no key is ever hidden");
    if (spec->count == ATTN_MASK_LAYERS)
        return attn_fail_limit(err, "hide", ATTN_MASK_LAYERS, "at most %d masks can be combined",
                               ATTN_MASK_LAYERS);
    uint8_t *keys = attn_arena_zeroed(c->arena, S, 1);
    ATTN_TAKEN(keys, "the hidden keys", err);
    for (size_t i = 0; i < count; i++) {
        if (hide[i] < 0 || (uint64_t)hide[i] >= S) {
            char where[32];
            snprintf(where, sizeof where, "hide/%zu", i);
            return attn_fail(err, ATTN_EARG, where, "expected keys from 0 to %zu, found %lld",
                             S ? S - 1 : 0, (long long)hide[i]);
        }
        keys[hide[i]] = 1;
    }
    spec->layers[spec->count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                          .where = "hide",
                          .values = attn_tensor_dense(keys, ATTN_BOOL, 1, &S),
                          .semantics = ATTN_SEM_HIDE};
    return ATTN_OK;
}

attn_status attn_run_rows_inputs(const attn_run_site *site, const attn_range *rows,
                                 const int64_t *hide, size_t hide_count, attn_arena *arena,
                                 attn_inputs *out, attn_error *err) {
    const attn_attention *a = site->op;
    const attn_attention_dims *d = site->dims;
    const size_t b = rows->batch;
    cutter c = {a, rows, arena, a->in};
    if (b >= d->B || rows->head >= d->Hq || rows->row > d->L || rows->rows > d->L - rows->row)
        return attn_fail(err, ATTN_EARG, "rows",
                         "batch %zu, head %zu, rows %zu + %zu reach outside of %zu x %zu x %zu", b,
                         rows->head, rows->row, rows->rows, d->B, d->Hq, d->L);
    const size_t hkv = attn_kv_head(a, rows->head);
    c.in.layout = ATTN_BHLE;
    c.in.num_heads = c.in.num_kv_heads = 0;
    c.in.forbid_gqa = false;
    c.in.dropout_p = 0;
    c.in.kernel = a->kernels->name; /* a small operation could use another table by default */
    c.in.query = cut_view(&a->query, b, rows->head, rows->row, rows->rows, d->E);
    c.in.key = cut_view(&a->key, b, hkv, 0, d->S - d->past, d->Ek);
    if (d->mixed)
        cut_mixed(&c);
    c.in.value = d->factors
                     ? cut_view(&a->pass_value, b, hkv, d->past, d->S - d->past, d->value_width)
                     : cut_view(&a->value, b, hkv, 0, d->S - d->past, d->Ev);
    c.in.mix.weights = c.in.subtract.lambda = (attn_tensor){.rank = 0};
    c.in.subtract.pairs = ATTN_PAIRS_UNSTATED;
    if (d->past) {
        c.in.past_key = d->mixed ? cut_view(&a->score_key, b, hkv, 0, d->past, d->score_width)
                                 : cut_view(&a->past_key, b, hkv, 0, d->past, d->Ek);
        c.in.past_value = d->factors ? cut_view(&a->pass_value, b, hkv, 0, d->past, d->value_width)
                                     : cut_view(&a->past_value, b, hkv, 0, d->past, d->Ev);
    }
    ATTN_TAKEN(cut_masks(&c) && cut_parameters(&c), "the rows", err);
    ATTN_TRY(hide_keys(&c, hide, hide_count, err));
    *out = c.in;
    return ATTN_OK;
}
