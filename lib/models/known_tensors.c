/* Binds the parameters of a model to the tensors of files (known_tensors.h). */
#include "models/known_tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"

enum { NAME = 2 * ATTN_PARAMETER_NAME };

/* The origin of a parameter: rows of a tensor, from `first` on. */
typedef struct source {
    const attn_parameter *p;
    const family_tensor *row;
    known_tensor *from;
    size_t first; /* the first row (TURNED: column) of the tensor that belongs to the parameter */
    size_t all;   /* number of rows of all parameters in the tensor */
} source;

typedef struct binding {
    attn_model *model;
    const known_config *config;
    const known_tensors *tensors;
    const attn_family *family;
    source *sources;         /* [length] */
    attn_weight_view *views; /* [length] */
    size_t length;
} binding;

known_tensor *attn_known_tensor(const known_tensors *tensors, const char *name) {
    for (size_t i = 0; i < tensors->count; i++)
        if (!strcmp(tensors->items[i].name, name))
            return &tensors->items[i];
    return NULL;
}

/* Returns the tensor of this name, or of this name without the prefix of the family. */
static known_tensor *find(const known_tensors *t, const attn_family *family, const char *name) {
    known_tensor *found = attn_known_tensor(t, name);
    const size_t lead = family->prefix ? strlen(family->prefix) : 0;
    return found || t->gguf || !lead || strncmp(name, family->prefix, lead)
               ? found
               : attn_known_tensor(t, name + lead);
}

static const char *head_of(const known_tensors *t, const attn_family *family) {
    return t->gguf ? "output" : family->head;
}

bool attn_known_has_head(const known_tensors *t, const attn_family *family) {
    char name[NAME];
    snprintf(name, sizeof name, "%s.weight", head_of(t, family));
    return find(t, family, name);
}

/* --- names --- */

/* Matches a name of n bytes with a pattern. `*` in the pattern stands for any text, and *star
 * becomes this text. */
static bool matches(const char *pattern, const char *name, size_t n, const char **star,
                    size_t *star_size) {
    const size_t lead = strcspn(pattern, "*"), size = strlen(pattern);
    const size_t tail = pattern[lead] ? size - lead - 1 : 0;
    *star = name + lead;
    *star_size = n >= lead + tail ? n - lead - tail : 0;
    if (n < lead + tail || strncmp(name, pattern, lead) || (!pattern[lead] && n != lead))
        return false;
    return !strncmp(name + n - tail, pattern + size - tail, tail);
}

/* Writes the name of the tensor that a row of the table gives to a parameter. Returns false if the
 * row belongs to another parameter. */
static bool name_of(const family_tensor *row, const char *ours, char name[NAME]) {
    const char *dot = strrchr(ours, '.'), *star, *theirs = row->theirs;
    const size_t stem = row->how & WHOLE || !dot ? strlen(ours) : (size_t)(dot - ours);
    size_t size;
    if (!row->ours || !matches(row->ours, ours, stem, &star, &size))
        return false;
    const size_t lead = strcspn(theirs, "*");
    snprintf(name, NAME, "%.*s%.*s%s%s", (int)lead, theirs, theirs[lead] ? (int)size : 0, star,
             theirs[lead] ? theirs + lead + 1 : "", ours + stem);
    return true;
}

/* Returns the row after `row` in the tables for this kind of file. */
static const family_tensor *next_row(const binding *b, const family_tensor *row, size_t *table) {
    const family_tensor *const *tables =
        b->tensors->gguf ? b->family->gguf.tensors : b->family->folder.tensors;
    row = row ? row + 1 : tables[ *table = 0];
    while (row && !row->theirs)
        row = tables[++*table];
    return row;
}
#define EACH_ROW(b, row)                                                                           \
    size_t table_ = 0;                                                                             \
    for (const family_tensor *row = NULL; (row = next_row(b, row, &table_));)

/* Finds the tensor of a parameter. `wanted` becomes the name in the first row for the parameter,
 * for errors. */
static bool find_source(const binding *b, source *s, char wanted[NAME]) {
    char name[NAME];
    *wanted = '\0';
    EACH_ROW(b, row) {
        if (!name_of(row, s->p->name, name))
            continue;
        if (!*wanted)
            memcpy(wanted, name, NAME);
        s->row = row;
        if ((s->from = find(b->tensors, b->family, name)))
            return true;
    }
    return false;
}

/* --- parts --- */

static size_t rows_of(const attn_parameter *p) {
    return p->dims[0];
}

/* Finds where the rows of a parameter begin in its tensor, among the rows of all parameters in
 * it. */
static void place_part(const binding *b, source *s) {
    s->first = s->all = 0;
    for (size_t i = 0; i < b->length; i++) {
        const source *other = &b->sources[i];
        const bool shares = other->from == s->from && other->row && (other->row->how & PARTS);
        if (other != s && !(shares && s->row->how & PARTS))
            continue;
        if ((other->row->how & PARTS) < (s->row->how & PARTS))
            s->first += rows_of(other->p);
        s->all += rows_of(other->p);
    }
}

static attn_status wrong_shape(const source *s, const size_t want[2], attn_error *err) {
    char expected[96], found[96];
    attn_shape_text(want, s->p->rank, expected, sizeof expected);
    attn_shape_text(s->from->dims, s->from->rank, found, sizeof found);
    return attn_fail(err, ATTN_ESHAPE, s->from->name, "expected shape %s, found %s", expected,
                     found);
}

static bool is_turned(const source *s) {
    return s->row->how & TURNED && s->p->rank == 2;
}

static attn_status check_shape(const source *s, attn_error *err) {
    const bool turned = is_turned(s);
    const size_t columns = s->p->rank == 2 ? s->p->dims[1] : 1;
    const size_t want[2] = {turned ? columns : s->all, turned ? s->all : columns};
    const known_tensor *t = s->from;
    const bool row = s->p->rank == 1 && t->rank == 2 && t->dims[0] == 1 && t->dims[1] == s->all;
    const bool same =
        t->rank == s->p->rank && t->dims[0] == want[0] && (t->rank < 2 || t->dims[1] == want[1]);
    if (!row && !same)
        return wrong_shape(s, want, err);
    if (turned && t->format->split)
        return attn_fail(err, ATTN_EDTYPE, t->name, "expected numbers, found blocks");
    if (t->dims[t->rank - 1] % t->format->values)
        return attn_fail(err, ATTN_ESHAPE, t->name, "rows of %zu values are no whole blocks of %s",
                         t->dims[t->rank - 1], t->format->name);
    return ATTN_OK;
}

/* Returns the view of a parameter. A vector becomes a matrix with one column. */
static attn_weight_view view_of(const binding *b, const source *s) {
    const attn_model_config *c = &b->model->config;
    const size_t E = c->head_width ? c->head_width : c->width / c->num_heads;
    const size_t columns = s->p->rank == 2 ? s->p->dims[1] : 1;
    const bool turned = is_turned(s), by_head = s->row->how & BY_HEAD;
    attn_weight_view v = {.format = s->from->format,
                          .transposed = turned,
                          .stride = turned ? s->all : 0,
                          .paired = s->row->how & PAIRED};
    const size_t part = s->first / rows_of(s->p), parts = s->all / rows_of(s->p);
    const size_t first = by_head ? part * E : s->first;
    if (v.paired || by_head) {
        v.group = E;
        v.group_stride = by_head ? parts * E : E;
    }
    v.data = (const char *)s->from->data +
             first * (turned ? v.format->bytes : attn_weight_row_bytes(v.format, columns));
    return v;
}

/* --- values --- */

static attn_status check_finite(const source *s, const float *values, size_t n, attn_error *err) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return attn_fail(err, ATTN_ENONFINITE, s->from->name, "element %zu is not finite", i);
    return ATTN_OK;
}

/* Copies the values of a parameter that is not a view of its tensor. */
static attn_status copy_values(const binding *b, const source *s, attn_error *err) {
    const size_t columns = s->p->rank == 2 ? s->p->dims[1] : 1;
    const attn_weight from = {.view = view_of(b, s)};
    float *to = attn_parameters_values(b->model->set) + s->p->offset;
    if (s->p->rank == 1 && !from.view.group)
        attn_blocks_widen(to, from.view.format, from.view.data, s->p->count);
    else
        for (size_t r = 0; r < rows_of(s->p); r++)
            attn_weight_row(to + r * columns, &from, r, columns);
    for (size_t i = 0; s->row->how & ONE_PLUS && i < s->p->count; i++)
        to[i] += 1;
    return check_finite(s, to, s->p->count, err);
}

/* Sets the factors of longrope from lists of the configuration, or from the tensors of a GGUF file.
 * A GGUF file with a single list of factors uses it for all lengths. */
static attn_status fill_factors(const binding *b, const attn_parameter *p, attn_error *err) {
    const bool far = strstr(p->name, "long_factor");
    float *to = attn_parameters_values(b->model->set) + p->offset;
    const attn_json *list = far ? b->config->long_factor : b->config->short_factor;
    known_tensor *t = attn_known_tensor(b->tensors, far ? "rope_factors_long.weight"
                                                        : "rope_factors_short.weight");
    t = t ? t : attn_known_tensor(b->tensors, "rope_freqs.weight");
    const size_t n = list && list->kind == ATTN_JSON_LIST ? list->count : t ? t->dims[0] : 0;
    if (n != p->count || (t && (!t->format || t->rank != 1 || t->format->split)))
        return attn_fail(err, ATTN_EARG, p->name, "expected a list of %zu factors, found %zu",
                         p->count, n);
    if (t) {
        attn_blocks_widen(to, t->format, t->data, n);
        t->used = true;
        return ATTN_OK;
    }
    for (const attn_json *v = list->first; v; v = v->next) {
        if (v->kind != ATTN_JSON_NUMBER || !(v->number > 0))
            return attn_fail(err, ATTN_EARG, p->name, "expected numbers above 0");
        *to++ = (float)v->number;
    }
    return ATTN_OK;
}

static bool is_factor(const attn_parameter *p) {
    return !strncmp(p->name, "rotary.", 7);
}

/* --- all parameters --- */

static attn_status find_all(binding *b, attn_error *err) {
    char name[NAME];
    for (size_t i = 0; i < b->length; i++) {
        source *s = &b->sources[i];
        s->p = attn_parameters_at(b->model->set, i);
        if (is_factor(s->p))
            continue;
        if (!find_source(b, s, name))
            return attn_fail(err, ATTN_EARG, *name ? name : s->p->name, "this tensor is missing");
        if (!s->from->format)
            return attn_fail(err, ATTN_EDTYPE, s->from->name, "expected F32, F16 or BF16");
        s->from->used = true;
    }
    for (size_t i = 0; i < b->length; i++) {
        source *s = &b->sources[i];
        if (!s->from)
            continue;
        place_part(b, s);
        ATTN_TRY(check_shape(s, err));
        if (s->p->rank == 2 && !(s->row->how & COPIED))
            b->views[i] = view_of(b, s);
    }
    return ATTN_OK;
}

/* Returns whether the family does not use a tensor. A tied model may repeat the matrix of its
 * head. */
static bool left_out(const binding *b, const known_tensor *t) {
    const char *star;
    size_t size;
    char head[NAME];
    const size_t lead = b->tensors->gguf || !b->family->prefix ? 0 : strlen(b->family->prefix);
    snprintf(head, sizeof head, "%s.weight", head_of(b->tensors, b->family));
    if (b->model->config.tied && !strcmp(head, t->name))
        return true;
    EACH_ROW(b, row) {
        if (row->ours)
            continue;
        if (matches(row->theirs, t->name, strlen(t->name), &star, &size) ||
            (lead && !strncmp(row->theirs, b->family->prefix, lead) &&
             matches(row->theirs + lead, t->name, strlen(t->name), &star, &size)))
            return true;
    }
    return false;
}

static attn_status check_used(const binding *b, attn_error *err) {
    for (size_t i = 0; i < b->tensors->count; i++) {
        const known_tensor *t = &b->tensors->items[i];
        if (!t->used && !left_out(b, t))
            return attn_fail(err, ATTN_EARG, t->name, "a model of the family %s has no such tensor",
                             b->family->name);
    }
    return ATTN_OK;
}

attn_status attn_known_bind(attn_model *model, const known_config *config,
                            const known_tensors *tensors, const attn_family *family,
                            attn_arena *arena, attn_error *err) {
    binding b = {.model = model,
                 .config = config,
                 .tensors = tensors,
                 .family = family,
                 .length = attn_parameters_length(model->set)};
    b.sources = attn_arena_zeroed(arena, b.length + 1, sizeof *b.sources);
    b.views = attn_arena_zeroed(arena, b.length + 1, sizeof *b.views);
    ATTN_TAKEN(b.sources && b.views, "the tensors of a model", err);
    ATTN_TRY(find_all(&b, err));
    ATTN_TRY(attn_parameters_seal_views(model->set, b.views, err));
    for (size_t i = 0; i < b.length; i++) {
        const source *s = &b.sources[i];
        if (!s->from)
            ATTN_TRY(fill_factors(&b, s->p, err));
        else if (!b.views[i].format)
            ATTN_TRY(copy_values(&b, s, err));
    }
    ATTN_TRY(check_used(&b, err));
    return attn_models_complete(model, err);
}
