/* Copies tensors into a parameter set. A map of names says which tensor fills which parameter.
 * Tensors and parameters count as matrices [rows, columns]: the rows are the first axis, the
 * columns all other axes together. A transposed tensor is [columns, rows]. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "layers/layers.h"

static const attn_parameter_name same_names[] = {{.theirs = "*", .ours = "*"}, {0}};

/* Rows of a tensor that are copied to rows of a parameter. */
typedef struct copied {
    const attn_parameter *p;
    const attn_tensor *from;
    size_t to_row, from_row; /* index of the first row in the parameter, and in the tensor */
    size_t rows, columns;    /* number of rows and columns that are copied */
    /* distance between columns, and between rows, in the tensor, in elements */
    size_t stride, step;
} copied;

/* Translates the name of a tensor by a row of the map, and writes the parameter's name to `ours`.
 * Returns false if the row is not for this name. */
static bool translate_name(const attn_parameter_name *row, const char *name,
                           char ours[ATTN_PARAMETER_NAME]) {
    const size_t lead = strcspn(row->theirs, "*"), size = strlen(name);
    const bool open = row->theirs[lead] == '*';
    const char *end = open ? row->theirs + lead + 1 : "";
    const size_t tail = strlen(end);
    if (strncmp(name, row->theirs, lead) != 0 || size < lead + tail || (!open && size > lead) ||
        strcmp(name + size - tail, end) != 0)
        return false;
    const char *to = row->ours ? row->ours : "";
    const size_t before = strcspn(to, "*");
    snprintf(ours, ATTN_PARAMETER_NAME, "%.*s%.*s%s", (int)before, to,
             to[before] ? (int)(size - lead - tail) : 0, name + lead,
             to[before] ? to + before + 1 : "");
    return true;
}

static size_t index_of(const attn_parameters *set, const char *name) {
    size_t i = 0;
    while (i < attn_parameters_length(set) && strcmp(attn_parameters_at(set, i)->name, name) != 0)
        i++;
    return i;
}

static attn_status wrong_shape(const attn_parameter *p, const attn_tensor *t,
                               const attn_parameter_name *row, attn_error *err) {
    char want[128], got[128];
    const size_t turned[] = {p->dims[1], p->dims[0]};
    attn_shape_text(row->transposed ? turned : p->dims, p->rank, want, sizeof want);
    attn_shape_text(t->dims, t->rank, got, sizeof got);
    if (row->parts > 1)
        return attn_fail(err, ATTN_ESHAPE, p->name, "expected a part of %s, or %zu parts, found %s",
                         want, row->parts, got);
    return attn_fail(err, ATTN_ESHAPE, p->name, "expected shape %s, found %s", want, got);
}

/* Sets *out to the rows to copy. If the tensor has at most as many rows as the parameter, all rows
 * of the tensor are copied to part row->part of the parameter. If it has more, part row->part of
 * the tensor is copied to the whole parameter. */
static attn_status relate_rows(const attn_parameter *p, const attn_tensor *t,
                               const attn_parameter_name *row, copied *out, attn_error *err) {
    const size_t own = p->dims[0], columns = p->count / own, parts = row->parts ? row->parts : 1;
    const int rows_axis = row->transposed ? 1 : 0;
    bool fits = t->rank == p->rank && attn_tensor_is_dense(t) && (!row->transposed || t->rank == 2);
    for (int a = 0; fits && a < t->rank; a++)
        fits = a == rows_axis || t->dims[a] == p->dims[row->transposed ? 1 - a : a];
    const size_t theirs = fits ? t->dims[rows_axis] : 0;
    if (!fits || row->part >= parts || (theirs * parts != own && theirs != own * parts))
        return wrong_shape(p, t, row, err);
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, p->name, "expected floating-point values, found %s",
                         attn_dtype_name(t->dtype));
    const bool joins = theirs <= own;
    *out = (copied){.p = p,
                    .from = t,
                    .to_row = joins ? row->part * theirs : 0,
                    .from_row = joins ? 0 : row->part * own,
                    .rows = joins ? theirs : own,
                    .columns = columns,
                    .stride = row->transposed ? theirs : 1,
                    .step = row->transposed ? 1 : columns};
    return ATTN_OK;
}

static void read_row(const copied *c, size_t row, float *to) {
    const char *data = c->from->data;
    const size_t at = (c->from_row + row) * c->step;
    attn_widen_f32(to, data + at * attn_dtype_size(c->from->dtype), c->from->dtype,
                   (ptrdiff_t)c->stride, c->columns);
}

static attn_status check_finite(const copied *c, float *row_values, attn_error *err) {
    for (size_t r = 0; r < c->rows; r++) {
        read_row(c, r, row_values);
        for (size_t i = 0; i < c->columns; i++)
            if (!isfinite(row_values[i]))
                return attn_fail(err, ATTN_ENONFINITE, c->p->name,
                                 "element %zu is not a finite float32",
                                 (c->to_row + r) * c->columns + i);
    }
    return ATTN_OK;
}

/* The state of attn_parameters_load, which first checks all tensors and then copies them. */
typedef struct load {
    attn_parameters *set;
    const attn_parameter_name *map;
    size_t *filled;    /* elements of each parameter that tensors have filled */
    float *row_values; /* scratch for the check; NULL: the check is done, and values are copied */
} load;

/* Checks or copies a tensor, for each row of the map that is for its name. */
static attn_status load_tensor(const load *l, const char *name, const attn_tensor *t,
                               attn_error *err) {
    bool known = false;
    for (const attn_parameter_name *row = l->map; row->theirs; row++) {
        char ours[ATTN_PARAMETER_NAME];
        copied c = {0};
        if (!translate_name(row, name, ours))
            continue;
        if (!row->ours)
            return ATTN_OK;
        const size_t at = index_of(l->set, ours);
        if (at == attn_parameters_length(l->set))
            continue;
        known = true;
        ATTN_TRY(relate_rows(attn_parameters_at(l->set, at), t, row, &c, err));
        if (l->row_values)
            ATTN_TRY(check_finite(&c, l->row_values, err));
        l->filled[at] += c.rows * c.columns;
        float *to = attn_parameters_values(l->set) + c.p->offset + c.to_row * c.columns;
        for (size_t r = 0; !l->row_values && r < c.rows; r++)
            read_row(&c, r, to + r * c.columns);
    }
    return known ? ATTN_OK : attn_fail(err, ATTN_EARG, name, "the model has no such parameter");
}

static attn_status check_filled(const load *l, attn_error *err) {
    for (size_t i = 0; i < attn_parameters_length(l->set); i++) {
        const attn_parameter *p = attn_parameters_at(l->set, i);
        if (l->filled[i] != p->count)
            return attn_fail(err, ATTN_EARG, p->name,
                             l->filled[i] > p->count ? "this parameter is given twice"
                             : l->filled[i]          ? "a part of this parameter is missing"
                                                     : "this parameter is missing");
    }
    return ATTN_OK;
}

/* Returns the largest number of columns that a parameter has, at least 1. */
static size_t most_columns(const attn_parameters *set) {
    size_t most = 1;
    for (size_t i = 0; i < attn_parameters_length(set); i++) {
        const attn_parameter *p = attn_parameters_at(set, i);
        if (p->count / p->dims[0] > most)
            most = p->count / p->dims[0];
    }
    return most;
}

attn_status attn_parameters_load(attn_parameters *set, size_t count, const char *const *names,
                                 const attn_tensor *tensors, const attn_parameter_name *map,
                                 attn_error *err) {
    const size_t length = attn_parameters_length(set);
    load l = {.set = set,
              .map = map ? map : same_names,
              .filled = attn_alloc((length + 1) * sizeof *l.filled),
              .row_values = attn_alloc(most_columns(set) * sizeof *l.row_values)};
    attn_status status = l.filled && l.row_values
                             ? ATTN_OK
                             : attn_fail(err, ATTN_ENOMEM, "", "no memory to load parameters");
    if (!status)
        memset(l.filled, 0, length * sizeof *l.filled);
    for (size_t i = 0; !status && i < count; i++)
        status = load_tensor(&l, names[i], &tensors[i], err);
    if (!status)
        status = check_filled(&l, err);
    attn_free(l.row_values);
    l.row_values = NULL;
    for (size_t i = 0; !status && i < count; i++)
        status = load_tensor(&l, names[i], &tensors[i], err);
    attn_free(l.filled);
    return status;
}
