/* Makes the image of an operation that has run. The image is a safetensors container with
 *
 * - the input tensors: dense ones are not copied, others are copied
 * - boolean masks, packed to one bit a cell
 * - row statistics, labels and the overview
 * - numbers and mask layers as metadata texts
 *
 * The tables at the beginning name tensors and numbers. run_open.c reads images by the same
 * tables. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/resolved.h"
#include "runs/run_private.h"

/* --- names of tensors and numbers --- */

#define AT(member) offsetof(attn_inputs, member)

const attn_run_tensor_name attn_run_tensor_names[] = {
    {"query", AT(query)},
    {"key", AT(key)},
    {"value", AT(value)},
    {"past_key", AT(past_key)},
    {"past_value", AT(past_value)},
    {"sinks", AT(sinks)},
    {"score.w_q", AT(score.w_q)},
    {"score.w_k", AT(score.w_k)},
    {"score.b", AT(score.b)},
    {"score.v", AT(score.v)},
    {"score.w", AT(score.w)},
    {"position.slopes", AT(position.slopes)},
    {"position.table", AT(position.table)},
    {"position.key_table", AT(position.key_table)},
    {"position.value_table", AT(position.value_table)},
    {NULL, 0},
};

const attn_run_number_name attn_run_number_names[] = {
    {"run.layout", ATTN_RUN_ENUM, AT(layout), ATTN_BLD, false},
    {"run.num_heads", ATTN_RUN_SIZE, AT(num_heads), 0, false},
    {"run.num_kv_heads", ATTN_RUN_SIZE, AT(num_kv_heads), 0, false},
    {"run.scale", ATTN_RUN_REAL, AT(scale), 0, false},
    {"run.softcap", ATTN_RUN_REAL, AT(softcap), 0, false},
    {"run.score", ATTN_RUN_ENUM, AT(score.kind), ATTN_SCORE_COUNT - 1, false},
    {"run.position", ATTN_RUN_ENUM, AT(position.kind), ATTN_POSITION_LEARNED, false},
    {"run.max_distance", ATTN_RUN_I64, AT(position.max_distance), 0, false},
    {"run.unidirectional", ATTN_RUN_BOOL, AT(position.unidirectional), 0, false},
    {"run.rotary", ATTN_RUN_ENUM, AT(position.rotary), ATTN_ROTARY_HALVES, false},
    {"run.base", ATTN_RUN_REAL, AT(position.base), 0, false},
    {"run.dims", ATTN_RUN_I64, AT(position.dims), 0, false},
    {"run.position_dropout_p", ATTN_RUN_REAL, AT(position.dropout_p), 0, true},
    {"run.position_dropout_seed", ATTN_RUN_I64, AT(position.dropout_seed), 0, true},
    {"run.dropout_p", ATTN_RUN_REAL, AT(dropout_p), 0, false},
    {"run.dropout_seed", ATTN_RUN_I64, AT(dropout_seed), 0, false},
    {"run.fill", ATTN_RUN_ENUM, AT(mask.fill), ATTN_FILL_REPLACE, false},
    {"run.fill_value", ATTN_RUN_REAL, AT(mask.fill_value), 0, false},
    {"run.offset", ATTN_RUN_ENUM, AT(mask.offset), ATTN_OFFSET_END, false},
    {"run.allow_nonfinite", ATTN_RUN_BOOL, AT(allow_nonfinite), 0, false},
    {"run.precision", ATTN_RUN_ENUM, AT(precision), ATTN_PRECISION_COUNT - 1, false},
    {NULL, ATTN_RUN_REAL, 0, 0, false},
};

_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(size_t) == sizeof(int64_t),
               "the table writes them so");

/* Writes a number of attn_inputs as text to `to`, which has ATTN_RUN_KEY + 8 bytes. */
static void write_number(const attn_run_number_name *name, const attn_inputs *in, char *to) {
    const void *at = (const char *)in + name->offset;
    const size_t room = ATTN_RUN_KEY + 8;
    double real;
    int64_t integer = 0;
    switch (name->kind) {
    case ATTN_RUN_REAL:
        memcpy(&real, at, sizeof real);
        snprintf(to, room, "%.17g", real);
        return;
    case ATTN_RUN_SIZE:
    case ATTN_RUN_I64:
        memcpy(&integer, at, sizeof integer);
        break;
    case ATTN_RUN_ENUM:
        integer = *(const int *)at;
        break;
    case ATTN_RUN_BOOL:
        integer = *(const bool *)at;
        break;
    }
    snprintf(to, room, "%" PRId64, integer);
}

bool attn_run_number_read(const attn_run_number_name *name, const char *text, attn_inputs *in) {
    void *at = (char *)in + name->offset;
    char *end;
    if (!*text)
        return false;
    if (name->kind == ATTN_RUN_REAL) {
        const double real = strtod(text, &end);
        memcpy(at, &real, sizeof real);
        return !*end;
    }
    const int64_t integer = strtoll(text, &end, 10);
    if (*end)
        return false;
    switch (name->kind) {
    case ATTN_RUN_ENUM:
        *(int *)at = (int)integer;
        return integer >= 0 && integer <= name->most;
    case ATTN_RUN_BOOL:
        *(bool *)at = integer != 0;
        return true;
    case ATTN_RUN_SIZE:
        memcpy(at, &integer, sizeof integer);
        return integer >= 0;
    default:
        memcpy(at, &integer, sizeof integer);
        return true;
    }
}

#define LAYER_OUT                                                                                  \
    "%d %d %" PRId64 " %" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64    \
    " %" PRId64 " %.95s"
#define LAYER_IN                                                                                   \
    "%d %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64    \
    " %" SCNd64 " %n"

/* Writes a mask layer, except for its tensor, as a line of at most ATTN_RUN_LINE bytes. */
static void write_layer(const attn_mask_layer *layer, char *to) {
    const attn_pattern *p = &layer->pattern;
    snprintf(to, ATTN_RUN_LINE, LAYER_OUT, (int)layer->kind, (int)layer->semantics,
             layer->window[0], layer->window[1], layer->pad_id, (int)p->kind, p->radius, p->stride,
             p->size, p->keys, p->local, layer->where ? layer->where : "");
}

bool attn_run_layer_read(const char *line, attn_mask_layer *layer) {
    int kind, semantics, pattern, used = 0;
    attn_mask_layer l = {.kind = ATTN_LAYER_CAUSAL};
    attn_pattern *p = &l.pattern;
    if (sscanf(line, LAYER_IN, &kind, &semantics, &l.window[0], &l.window[1], &l.pad_id, &pattern,
               &p->radius, &p->stride, &p->size, &p->keys, &p->local, &used) != 11 ||
        kind < 0 || kind > ATTN_LAYER_BITS || semantics < 0 || semantics > ATTN_SEM_NONZERO ||
        pattern < 0 || pattern > ATTN_PATTERN_GLOBAL)
        return false;
    l.kind = (attn_layer_kind)kind;
    l.semantics = (attn_semantics)semantics;
    p->kind = (attn_pattern_kind)pattern;
    l.where = line + used;
    *layer = l;
    return true;
}

/* --- the image --- */

enum { MOST_TENSORS = 64, MOST_TEXTS = 64 };

typedef struct builder {
    const attn_run_source *source;
    const attn_attention *a;
    attn_arena *arena;
    attn_error *err;
    attn_safetensors file;
} builder;

static attn_status no_memory(builder *b) {
    return attn_fail(b->err, ATTN_ENOMEM, "", "no memory left for the stored run");
}

static attn_status add_text(builder *b, const char *key, const char *text) {
    attn_metadata *m = &b->file.metadata[b->file.metadata_count];
    if (b->file.metadata_count == MOST_TEXTS)
        return attn_fail(b->err, ATTN_ELIMIT, "", "at most %d texts go with a run", MOST_TEXTS);
    m->key = attn_arena_text(b->arena, key, strlen(key));
    m->text = attn_arena_text(b->arena, text, strlen(text));
    b->file.metadata_count++;
    return m->key && m->text ? ATTN_OK : no_memory(b);
}

/* Copies the elements of axis `axis` and of all later axes to *to, row-major, and advances *to
 * behind them. */
static void copy_axis(char **to, const attn_tensor *t, int axis, const char *from) {
    const size_t each = attn_dtype_size(t->dtype);
    for (size_t i = 0; i < t->dims[axis]; i++, from += t->strides[axis] * (ptrdiff_t)each) {
        if (axis + 1 < t->rank) {
            copy_axis(to, t, axis + 1, from);
            continue;
        }
        memcpy(*to, from, each);
        *to += each;
    }
}

static attn_status add_tensor(builder *b, const char *name, const attn_tensor *t) {
    attn_named_tensor *n = &b->file.tensors[b->file.count];
    size_t count, bytes;
    *n = (attn_named_tensor){attn_arena_text(b->arena, name, strlen(name)), *t};
    b->file.count++;
    if (!n->name)
        return no_memory(b);
    if (attn_tensor_is_dense(t))
        return ATTN_OK;
    char *data = NULL;
    if (attn_tensor_count(t, &count) && attn_size_mul(count, attn_dtype_size(t->dtype), &bytes))
        data = attn_arena_take(b->arena, bytes);
    if (!data)
        return no_memory(b);
    n->tensor = attn_tensor_dense(data, t->dtype, t->rank, t->dims);
    copy_axis(&data, t, 0, t->data);
    return ATTN_OK;
}

/* --- masks --- */

static bool is_boolean(const attn_mask_layer *layer) {
    return layer->kind == ATTN_LAYER_VALUES &&
           (layer->values.dtype == ATTN_BOOL || layer->semantics == ATTN_SEM_KEEP ||
            layer->semantics == ATTN_SEM_HIDE || layer->semantics == ATTN_SEM_NONZERO);
}

/* Converts a row of a boolean mask to visibility: to bits if `bits` is true, else to bytes of 0 and
 * 1. 1 means visible. */
static void pack_row(const attn_mask_layer *layer, const char *from, uint8_t *to, bool bits) {
    const attn_tensor *t = &layer->values;
    const size_t n = t->dims[t->rank - 1];
    const ptrdiff_t step = t->strides[t->rank - 1] * (ptrdiff_t)attn_dtype_size(t->dtype);
    if (bits)
        memset(to, 0, (n + 7) / 8);
    for (size_t j = 0; j < n; j++, from += step) {
        double x;
        attn_widen_f64(&x, from, t->dtype, 1, 1);
        const bool visible = (x != 0) != (layer->semantics == ATTN_SEM_HIDE);
        if (!bits)
            to[j] = visible;
        else if (visible)
            to[j / 8] |= (uint8_t)(1u << j % 8);
    }
}

static void pack_axis(const attn_mask_layer *layer, int axis, const char *from, uint8_t **to,
                      size_t row_bytes, bool bits) {
    const attn_tensor *t = &layer->values;
    if (axis == t->rank - 1) {
        pack_row(layer, from, *to, bits);
        *to += row_bytes;
        return;
    }
    const ptrdiff_t step = t->strides[axis] * (ptrdiff_t)attn_dtype_size(t->dtype);
    for (size_t i = 0; i < t->dims[axis]; i++, from += step)
        pack_axis(layer, axis + 1, from, to, row_bytes, bits);
}

/* Replaces the tensor of a boolean mask by visibility. If the last axis has one element for each
 * key, a cell becomes one bit. Else (the last axis broadcasts) the tensor becomes booleans. */
static attn_status pack_mask(builder *b, attn_mask_layer *layer) {
    const attn_tensor *t = &layer->values;
    const size_t n = t->dims[t->rank - 1];
    const bool bits = t->rank >= 2 && n == b->a->dims.S;
    const size_t row_bytes = bits ? (n + 7) / 8 : n;
    size_t rows = 1, bytes, dims[ATTN_MAX_RANK];
    for (int a = 0; a < t->rank - 1; a++)
        if (!attn_size_mul(rows, t->dims[a], &rows))
            return no_memory(b);
    uint8_t *data =
                attn_size_mul(rows, row_bytes, &bytes) ? attn_arena_take(b->arena, bytes) : NULL,
            *to = data;
    if (!data)
        return no_memory(b);
    pack_axis(layer, 0, t->data, &to, row_bytes, bits);
    memcpy(dims, t->dims, sizeof dims);
    dims[t->rank - 1] = row_bytes;
    layer->values = attn_tensor_dense(data, bits ? ATTN_U8 : ATTN_BOOL, t->rank, dims);
    layer->kind = bits ? ATTN_LAYER_BITS : ATTN_LAYER_VALUES;
    layer->semantics = ATTN_SEM_KEEP;
    return ATTN_OK;
}

static attn_status add_mask(builder *b, size_t i) {
    attn_mask_layer layer = b->a->in.mask.layers[i];
    char name[ATTN_RUN_KEY], line[ATTN_RUN_LINE];
    attn_status status = ATTN_OK;
    if (is_boolean(&layer))
        status = pack_mask(b, &layer);
    else if (layer.kind == ATTN_LAYER_VALUES && layer.semantics == ATTN_SEM_UNSTATED)
        layer.semantics = ATTN_SEM_ADDITIVE;
    snprintf(name, sizeof name, ATTN_RUN_MASK_TENSOR, i);
    if (status == ATTN_OK && layer.values.rank)
        status = add_tensor(b, name, &layer.values);
    snprintf(name, sizeof name, ATTN_RUN_MASK, i);
    write_layer(&layer, line);
    return status ? status : add_text(b, name, line);
}

static attn_status add_masks(builder *b) {
    const attn_mask_spec *spec = &b->a->in.mask;
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < spec->count && status == ATTN_OK; i++)
        status = add_mask(b, i);
    if (status == ATTN_OK && spec->offset == ATTN_OFFSET_GIVEN) {
        const size_t dims[1] = {spec->offset_count};
        const attn_tensor t = attn_tensor_dense((void *)spec->offsets, ATTN_I64, 1, dims);
        status = add_tensor(b, ATTN_RUN_OFFSETS, &t);
    }
    return status ? status : add_text(b, ATTN_RUN_WORDS, attn_mask_words(b->a->mask, b->arena));
}

/* --- the rest --- */

/* Adds a metadata text of the caller. Its key must not begin with "run.", and the caller must not
 * give a key twice. */
static attn_status add_metadata(builder *b, size_t at) {
    const attn_metadata *m = &b->source->metadata[at];
    bool taken = strncmp(m->key, "run.", 4) == 0;
    for (size_t i = 0; i < at; i++)
        taken = taken || strcmp(m->key, b->source->metadata[i].key) == 0;
    if (taken || at >= ATTN_RUN_METADATA)
        return attn_fail(
            b->err, ATTN_EARG, "metadata",
            "expected at most %d different keys that do not begin with \"run.\", found "
            "\"%.64s\"",
            ATTN_RUN_METADATA, m->key);
    return add_text(b, m->key, m->text);
}

static attn_status add_inputs(builder *b) {
    const attn_inputs *in = &b->a->in;
    attn_status status = add_text(b, ATTN_RUN_VERSION, "1");
    if (status == ATTN_OK)
        status = add_text(b, ATTN_RUN_KERNEL, b->a->kernels->name);
    if (status == ATTN_OK)
        status = add_text(b, ATTN_RUN_SCORE, attn_score_name(in->score.kind));
    for (const attn_run_number_name *n = attn_run_number_names; n->key && status == ATTN_OK; n++) {
        char text[ATTN_RUN_KEY + 8];
        write_number(n, in, text);
        status = add_text(b, n->key, text);
    }
    for (const attn_run_tensor_name *n = attn_run_tensor_names; n->name && status == ATTN_OK; n++) {
        const attn_tensor *t = (const void *)((const char *)in + n->offset);
        if (t->rank)
            status = add_tensor(b, n->name, t);
    }
    for (size_t i = 0; i < b->source->metadata_count && status == ATTN_OK; i++)
        status = add_metadata(b, i);
    return status;
}

static attn_status add_stats(builder *b) {
    const attn_attention_dims *d = &b->a->dims;
    const attn_stats *stats = b->source->stats;
    const size_t dims[3] = {d->B, d->Hq, d->L};
    const attn_tensor max = attn_tensor_dense(stats->max, ATTN_F64, 3, dims);
    const attn_tensor sum = attn_tensor_dense(stats->sum, ATTN_F64, 3, dims);
    const attn_tensor kind = attn_tensor_dense(stats->kind, ATTN_U8, 3, dims);
    attn_status status = add_tensor(b, "stats.max", &max);
    if (status == ATTN_OK)
        status = add_tensor(b, "stats.sum", &sum);
    return status ? status : add_tensor(b, "stats.kind", &kind);
}

/* Adds the labels as one tensor of bytes: `each` of them for each entry that has labels of its own.
 * A NUL ends each label. */
static attn_status add_labels(builder *b, const char *name, const char *const *labels,
                              size_t each) {
    const size_t entries = b->source->label_entries;
    size_t bytes = 0, n = entries > 1 ? entries * each : each;
    if (!labels)
        return ATTN_OK;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(labels[i]) + 1;
    char *to = attn_arena_take(b->arena, bytes);
    if (!to)
        return no_memory(b);
    const attn_tensor t = attn_tensor_dense(to, ATTN_U8, 1, &bytes);
    for (size_t i = 0; i < n; i++) {
        const size_t size = strlen(labels[i]) + 1;
        memcpy(to, labels[i], size);
        to += size;
    }
    return add_tensor(b, name, &t);
}

static attn_status add_overview(builder *b, attn_pool *pool, const attn_control *control) {
    static const char *const names[ATTN_RUN_PLANES][2] = {
        {"overview.max", "overview.mean"}, {"overview.top.max", "overview.top.mean"}};
    const attn_attention_dims *d = &b->a->dims;
    const attn_run_pyramid pyramid = attn_run_pyramid_of(d->L, d->S);
    float *max[ATTN_RUN_PLANES], *mean[ATTN_RUN_PLANES];
    if (pyramid.overview == SIZE_MAX)
        return ATTN_OK;
    attn_status status = attn_run_overview_make(b->a, b->source->stats, &pyramid, pool, control,
                                                b->arena, max, mean, b->err);
    for (size_t p = 0; p < ATTN_RUN_PLANES && status == ATTN_OK; p++) {
        const size_t dims[4] = {d->B, d->Hq, attn_run_cells_along(d->L, pyramid.overview + p),
                                attn_run_cells_along(d->S, pyramid.overview + p)};
        const attn_tensor upper = attn_tensor_dense(max[p], ATTN_F32, 4, dims);
        const attn_tensor middle = attn_tensor_dense(mean[p], ATTN_F32, 4, dims);
        status = add_tensor(b, names[p][0], &upper);
        if (status == ATTN_OK)
            status = add_tensor(b, names[p][1], &middle);
    }
    return status;
}

static attn_status finish(builder *b, attn_run_image *out) {
    const void *header;
    size_t size, n = 0;
    attn_status status = attn_safetensors_header(&b->file, b->arena, &header, &size, b->err);
    if (status != ATTN_OK)
        return status;
    attn_run_piece *pieces = attn_arena_zeroed(b->arena, b->file.count + 1, sizeof *pieces);
    if (!pieces)
        return no_memory(b);
    pieces[n++] = (attn_run_piece){header, size};
    for (size_t i = 0; i < b->file.count; i++) {
        const attn_tensor *t = &b->file.tensors[i].tensor;
        size_t count = 0, bytes = 0;
        if (!attn_tensor_count(t, &count) ||
            !attn_size_mul(count, attn_dtype_size(t->dtype), &bytes) ||
            !attn_size_add(size, bytes, &size))
            return attn_fail(b->err, ATTN_ELIMIT, b->file.tensors[i].name, "it cannot be counted");
        if (bytes)
            pieces[n++] = (attn_run_piece){t->data, bytes};
    }
    *out = (attn_run_image){pieces, n, size};
    return ATTN_OK;
}

attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err) {
    builder b = {source, source->op, arena, err, {0}};
    if (source->label_entries > 1 && source->label_entries != source->op->dims.B)
        return attn_fail(err, ATTN_ESHAPE, "labels",
                         "expected labels of %zu batch entries, found those of %zu",
                         source->op->dims.B, source->label_entries);
    b.file.tensors = attn_arena_zeroed(arena, MOST_TENSORS, sizeof *b.file.tensors);
    b.file.metadata = attn_arena_zeroed(arena, MOST_TEXTS, sizeof *b.file.metadata);
    if (!b.file.tensors || !b.file.metadata)
        return no_memory(&b);
    attn_status status = add_inputs(&b);
    if (status == ATTN_OK)
        status = add_masks(&b);
    if (status == ATTN_OK)
        status = add_stats(&b);
    if (status == ATTN_OK)
        status = add_labels(&b, "labels.query", source->query_labels, source->op->dims.L);
    if (status == ATTN_OK)
        status = add_labels(&b, "labels.key", source->key_labels, source->op->dims.S);
    if (status == ATTN_OK)
        status = add_overview(&b, pool, control);
    return status ? status : finish(&b, out);
}

attn_status attn_run_cost(const attn_attention_dims *d, size_t slots, attn_cost *out,
                          attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(d->L, d->S);
    const double heads = (double)d->B * (double)d->Hq, rows = heads * (double)d->L;
    const double elem = d->result == ATTN_F64 ? 8 : 4;
    double image = rows * (17 + elem * (double)d->E) + 65536 +
                   elem * (double)d->B * (double)d->Hkv * (double)d->S * (double)(d->Ek + d->Ev);
    size_t bytes = 0, work = 0;
    attn_cost cost = {.cells = 0};
    if (p.overview != SIZE_MAX) {
        const size_t cols = attn_run_cells_along(d->S, p.overview);
        const double cells = (double)attn_run_cells_along(d->L, p.overview) * (double)cols;
        /* max and mean; the level above has a quarter of the cells, and 1.3 also covers its edge
         * cells */
        const double planes = heads * cells * 2 * 1.3 * sizeof(float);
        image += planes;
        cost.cells = rows * (double)d->S;
        cost.operations = cost.cells * 2 * (double)d->score_width;
        if (!attn_run_buffer_bytes(d, p.overview, cols, &bytes) ||
            !attn_size_mul(slots, bytes, &work))
            return attn_fail(err, ATTN_ELIMIT, "store", "more bytes than can be counted");
        work += (size_t)planes;
    }
    cost.work_bytes = work;
    cost.result_bytes = (size_t)image;
    *out = cost;
    return ATTN_OK;
}
