/* Reads and writes the masks of a site as JSON. A capture has the members is_causal, window,
 * pattern, attn_mask, attn_bias and key_lengths. Files that attnd writes have `masks`, a list with
 * every layer as the library knows it, and mask_fill. */
#include "runs/inputs.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"causal",  "window",  "values", "bias", "padding",
                                    "lengths", "pattern", "tokens", "bits", NULL};
static const char *const semantics[] = {"unstated",   "keep",    "hide", "additive",
                                        "finite_min", "nonzero", NULL};
static const char *const patterns[] = {"local", "strided", "block", "global", NULL};
static const char *const fills[] = {"hide", "add", "replace", NULL};

_Static_assert(sizeof kinds / sizeof *kinds == ATTN_LAYER_BITS + 2 &&
                   sizeof semantics / sizeof *semantics == ATTN_SEM_NONZERO + 2 &&
                   sizeof patterns / sizeof *patterns == ATTN_PATTERN_GLOBAL + 2,
               "each has its name");

#define FARTHEST 1099511627776 /* largest distance of the library, 2^40 */

/* The numbers of a pattern, the smallest value of each, and the kinds that have it. */
static const struct {
    const char *name;
    size_t offset;
    int64_t least;
    unsigned kinds;
} pattern_numbers[] = {
    {"radius", offsetof(attn_pattern, radius), 0, 1u << ATTN_PATTERN_LOCAL},
    {"stride", offsetof(attn_pattern, stride), 1, 1u << ATTN_PATTERN_STRIDED},
    {"size", offsetof(attn_pattern, size), 1, 1u << ATTN_PATTERN_BLOCK},
    {"num_keys", offsetof(attn_pattern, num_keys), 0, 1u << ATTN_PATTERN_GLOBAL},
    {"local", offsetof(attn_pattern, local), 0,
     1u << ATTN_PATTERN_STRIDED | 1u << ATTN_PATTERN_GLOBAL},
};
enum { PATTERN_NUMBERS = sizeof pattern_numbers / sizeof *pattern_numbers };

/* --- reading --- */

static attn_status add_layer(const attn_run_reader *r, const char *member,
                             const attn_mask_layer *layer) {
    attn_mask_spec *spec = &r->site->in.mask;
    if (spec->count == ATTN_MASK_LAYERS)
        return attn_run_refuse(r, ATTN_ELIMIT, member, "at most %d masks can be combined",
                               ATTN_MASK_LAYERS);
    spec->layers[spec->count++] = *layer;
    return ATTN_OK;
}

/* Finds the word; -1: the value is not one of them. */
static int find_word(const attn_json *value, const char *const *words) {
    for (int i = 0; value && value->kind == ATTN_JSON_STRING && words[i]; i++)
        if (strcmp(words[i], value->text) == 0)
            return i;
    return -1;
}

static attn_status read_pattern(const attn_run_reader *r, attn_json *object, const char *where,
                                attn_pattern *out) {
    const bool is = object->kind == ATTN_JSON_OBJECT;
    const int kind = is ? find_word(attn_json_member(object, "kind"), patterns) : -1;
    char place[96];
    if (kind < 0)
        return attn_run_refuse(r, ATTN_EARG, where,
                               "expected an object whose kind is local, strided, block or global");
    *out = (attn_pattern){.kind = (attn_pattern_kind)kind};
    for (size_t i = 0; i < PATTERN_NUMBERS; i++) {
        if (!(pattern_numbers[i].kinds >> kind & 1))
            continue;
        const attn_json *value = attn_json_member(object, pattern_numbers[i].name);
        snprintf(place, sizeof place, "%s/%s", where, pattern_numbers[i].name);
        if (!value ||
            !attn_json_integer(value, pattern_numbers[i].least, FARTHEST,
                               (int64_t *)(void *)((char *)out + pattern_numbers[i].offset)))
            return attn_run_refuse(r, ATTN_EARG, place, "expected an integer of %lld or more",
                                   (long long)pattern_numbers[i].least);
    }
    return attn_run_refuse_unknown(r, object, where);
}

static attn_status read_window(const attn_run_reader *r, const attn_json *list, const char *where,
                               int64_t out[2]) {
    int64_t *bounds;
    attn_status status = attn_run_read_integers(r, list, where, 2, -1, FARTHEST, &bounds);
    if (!status)
        memcpy(out, bounds, 2 * sizeof *out);
    return status;
}

/* Checks that the tensor broadcasts to the weights. Weights without an axis of heads have more
 * rules, which attn_mask_new checks. */
static attn_status check_broadcast(const attn_run_reader *r, const char *member,
                                   const attn_tensor *t) {
    const attn_attention_dims *d = &r->site->shape;
    char found[128], expected[128];
    bool fits = t->rank <= d->weights_rank || !d->has_heads;
    const bool padding = t->rank == 2 && d->has_heads && t->dims[0] == d->B && t->dims[1] == d->S;
    for (int i = 1; fits && d->has_heads && i <= t->rank; i++)
        fits = t->dims[t->rank - i] == 1 || t->dims[t->rank - i] == d->weights[d->weights_rank - i];
    return fits ? ATTN_OK
                : attn_run_refuse(
                      r, ATTN_ESHAPE, member, "expected a shape that broadcasts to %s, found %s%s",
                      attn_shape_text(d->weights, d->weights_rank, expected, sizeof expected),
                      attn_shape_text(t->dims, t->rank, found, sizeof found),
                      padding ? "; write a padding mask [B, S] as [B, 1, 1, S], in NumPy "
                                "mask[:, None, None]"
                              : "");
}

static bool is_real(attn_dtype dtype) {
    return dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16 || dtype == ATTN_F64;
}

/* Checks the type of a mask. Integers have no meaning that is usual, as in requests. */
static attn_status check_type(const attn_run_reader *r, const char *member, attn_layer_kind kind,
                              attn_semantics said, attn_dtype dtype) {
    const bool bias = kind == ATTN_LAYER_BIAS;
    if (is_real(dtype) || (!bias && (dtype == ATTN_BOOL || said)))
        return ATTN_OK;
    if (bias)
        return attn_run_refuse(r, ATTN_EDTYPE, member, "expected floats, found %s",
                               attn_dtype_name(dtype));
    return attn_run_refuse(r, ATTN_EDTYPE, member,
                           "expected booleans or floats, found %s. If 1 means attend, as in the "
                           "masks of tokenizers, say \"mask_semantics\": \"keep\"; if 1 means "
                           "hidden, \"hide\"",
                           attn_dtype_name(dtype));
}

/* Adds the tensor with this name as a layer of this kind. `said` is the meaning of its numbers. */
static attn_status add_named(const attn_run_reader *r, const char *member, const char *name,
                             attn_layer_kind kind, attn_semantics said) {
    const attn_tensor *t = attn_run_find_tensor(r->run, name);
    attn_mask_layer layer = {.kind = kind,
                             .where = kind == ATTN_LAYER_BIAS ? "attn_bias" : "attn_mask"};
    if (!t)
        return attn_run_no_tensor(r, member, name);
    attn_status status = check_type(r, member, kind, said, t->dtype);
    if (status)
        return status;
    if (!attn_tensor_is_aligned(t))
        return attn_run_refuse(r, ATTN_EARG, member, "its data is not aligned to its elements");
    layer.semantics = kind == ATTN_LAYER_BIAS ? ATTN_SEM_ADDITIVE
                      : t->dtype != ATTN_BOOL ? said ? said : ATTN_SEM_ADDITIVE
                      : said == ATTN_SEM_HIDE ? ATTN_SEM_HIDE
                                              : ATTN_SEM_KEEP;
    layer.values = *t;
    status = check_broadcast(r, member, t);
    return status ? status : add_layer(r, member, &layer);
}

/* Reads attn_mask or attn_bias: the name of a tensor or a list of names; without the member, the
 * tensor that has the usual name. */
static attn_status read_named(const attn_run_reader *r, attn_json *object, const char *member,
                              attn_layer_kind kind, attn_semantics said) {
    const attn_json *value = attn_json_member(object, member);
    char name[64];
    attn_status status = ATTN_OK;
    if (!value) {
        snprintf(name, sizeof name, "sites.%zu.%s", r->index, member);
        return attn_run_find_tensor(r->run, name) ? add_named(r, member, name, kind, said)
                                                  : ATTN_OK;
    }
    if (value->kind == ATTN_JSON_STRING)
        return add_named(r, member, value->text, kind, said);
    for (const attn_json *v = value->first; v && !status; v = v->next)
        status = v->kind == ATTN_JSON_STRING
                     ? add_named(r, member, v->text, kind, said)
                     : attn_run_refuse(r, ATTN_EARG, member, "expected names of tensors");
    return value->kind == ATTN_JSON_LIST
               ? status
               : attn_run_refuse(r, ATTN_EARG, member,
                                 "expected the name of a tensor or a list of names, found %s",
                                 attn_json_kind_name(value));
}

static attn_status add_lengths(const attn_run_reader *r, const int64_t *lengths) {
    const size_t B = r->site->shape.B;
    const attn_mask_layer layer = {
        .kind = ATTN_LAYER_LENGTHS,
        .where = "key_lengths",
        .values = attn_tensor_dense((void *)(uintptr_t)lengths, ATTN_I64, 1, &B)};
    return add_layer(r, "key_lengths", &layer);
}

/* Reads mask_semantics, what the numbers of attn_mask mean. */
static attn_status read_meaning(const attn_run_reader *r, attn_json *object, attn_semantics *out) {
    const attn_json *value = attn_json_member(object, "mask_semantics");
    const int word = find_word(value, semantics);
    if (value && word <= ATTN_SEM_UNSTATED)
        return attn_run_refuse(r, ATTN_EARG, "mask_semantics",
                               "expected keep, hide, additive, finite_min or nonzero");
    *out = value ? (attn_semantics)word : ATTN_SEM_UNSTATED;
    r->site->stated = value != NULL;
    return ATTN_OK;
}

/* Reads the members of a capture. The lengths are members of the site already. */
static attn_status read_plain(const attn_run_reader *r, attn_json *object) {
    const attn_json *causal = attn_json_member(object, "is_causal");
    const attn_json *window = attn_json_member(object, "window");
    attn_json *pattern = attn_json_member(object, "pattern");
    attn_mask_layer layer = {.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    attn_semantics said = ATTN_SEM_UNSTATED;
    attn_status status = ATTN_OK;
    if (causal && causal->kind != ATTN_JSON_BOOL)
        return attn_run_refuse(r, ATTN_EARG, "is_causal", "expected true or false, found %s",
                               attn_json_kind_name(causal));
    if (causal && causal->truth)
        status = add_layer(r, "is_causal", &layer);
    if (!status && window) {
        layer = (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window"};
        status = read_window(r, window, "window", layer.window);
        status = status ? status : add_layer(r, "window", &layer);
    }
    if (!status && pattern) {
        layer = (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .where = "pattern"};
        status = read_pattern(r, pattern, "pattern", &layer.pattern);
        status = status ? status : add_layer(r, "pattern", &layer);
    }
    if (!status)
        status = read_meaning(r, object, &said);
    if (!status)
        status = read_named(r, object, "attn_mask", ATTN_LAYER_VALUES, said);
    if (!status)
        status = read_named(r, object, "attn_bias", ATTN_LAYER_BIAS, said);
    if (!status && r->site->info.key_lengths)
        status = add_lengths(r, r->site->info.key_lengths);
    return status;
}

/* Reads a layer of `masks`. */
static attn_status read_layer(const attn_run_reader *r, attn_json *object, size_t index) {
    attn_mask_layer layer = {.kind = ATTN_LAYER_CAUSAL};
    char where[32], place[64];
    snprintf(where, sizeof where, "masks/%zu", index);
    if (object->kind != ATTN_JSON_OBJECT)
        return attn_run_refuse(r, ATTN_EARG, where, "expected an object, found %s",
                               attn_json_kind_name(object));
    const int kind = find_word(attn_json_member(object, "kind"), kinds);
    const attn_json *meaning = attn_json_member(object, "semantics");
    const int semantic = meaning ? find_word(meaning, semantics) : 0;
    const attn_json *name = attn_json_member(object, "name");
    const attn_json *values = attn_json_member(object, "values");
    if (kind < 0 || semantic < 0)
        return attn_run_refuse(r, ATTN_EARG, where, "it has an unknown kind or semantics");
    layer.kind = (attn_layer_kind)kind;
    layer.semantics = (attn_semantics)semantic;
    layer.where = name && name->kind == ATTN_JSON_STRING ? name->text : kinds[kind];
    const bool wants =
        kind != ATTN_LAYER_CAUSAL && kind != ATTN_LAYER_WINDOW && kind != ATTN_LAYER_PATTERN;
    if (wants != (values != NULL))
        return attn_run_refuse(r, ATTN_EARG, where, "expected %s tensor as values",
                               wants ? "a" : "no");
    snprintf(place, sizeof place, "%s/values", where);
    attn_status status =
        wants ? attn_run_read_tensor(r, object, where, "values", &layer.values) : ATTN_OK;
    if (!status && kind == ATTN_LAYER_WINDOW) {
        const attn_json *window = attn_json_member(object, "window");
        status = window ? read_window(r, window, where, layer.window)
                        : attn_run_refuse(r, ATTN_EARG, where, "expected window");
    }
    if (!status && kind == ATTN_LAYER_PATTERN) {
        attn_json *pattern = attn_json_member(object, "pattern");
        status = pattern ? read_pattern(r, pattern, where, &layer.pattern)
                         : attn_run_refuse(r, ATTN_EARG, where, "expected pattern");
    }
    if (!status && kind == ATTN_LAYER_TOKENS) {
        const attn_json *pad = attn_json_member(object, "pad_id");
        if (!pad || !attn_json_integer(pad, INT64_MIN, INT64_MAX, &layer.pad_id))
            status = attn_run_refuse(r, ATTN_EARG, where, "expected pad_id, an integer");
    }
    if (!status)
        status = attn_run_refuse_unknown(r, object, where);
    return status ? status : add_layer(r, where, &layer);
}

static attn_status read_fill(const attn_run_reader *r, attn_json *object) {
    attn_mask_spec *spec = &r->site->in.mask;
    const bool is = object->kind == ATTN_JSON_OBJECT;
    const attn_json *value = is ? attn_json_member(object, "value") : NULL;
    const int mode = is ? find_word(attn_json_member(object, "mode"), fills) : -1;
    if (mode < 0 || !value || value->kind != ATTN_JSON_NUMBER)
        return attn_run_refuse(r, ATTN_EARG, "mask_fill",
                               "expected an object with value, a number, and mode, add or replace");
    spec->fill = (attn_fill)mode;
    spec->fill_value = value->number;
    return attn_run_refuse_unknown(r, object, "mask_fill");
}

/* Reads query_offset, or takes it from the starts of queries and keys. */
static attn_status read_offset(const attn_run_reader *r, attn_json *object) {
    attn_mask_spec *spec = &r->site->in.mask;
    const attn_json *offset = attn_json_member(object, "query_offset");
    const int64_t starts = (int64_t)r->site->info.query_start - (int64_t)r->site->info.key_start;
    const size_t count = offset && offset->kind == ATTN_JSON_LIST ? r->site->shape.B : 1;
    int64_t *offsets;
    if (offset && offset->kind == ATTN_JSON_STRING && strcmp(offset->text, "end") == 0) {
        spec->offset = ATTN_OFFSET_END;
        return ATTN_OK;
    }
    if (!offset && starts == 0)
        return ATTN_OK;
    if (offset && offset->kind == ATTN_JSON_LIST) {
        attn_status status =
            attn_run_read_integers(r, offset, "query_offset", count, -FARTHEST, FARTHEST, &offsets);
        if (status)
            return status;
    } else {
        offsets = attn_arena_zeroed(r->run->arena, 1, sizeof *offsets);
        if (!offsets)
            return attn_run_refuse(r, ATTN_ENOMEM, "query_offset", "no memory left for it");
        *offsets = starts;
        if (offset && !attn_json_integer(offset, -FARTHEST, FARTHEST, offsets))
            return attn_run_refuse(r, ATTN_EARG, "query_offset",
                                   "expected an integer, \"end\", or a list of %zu integers",
                                   r->site->shape.B);
    }
    spec->offset = ATTN_OFFSET_GIVEN;
    spec->offsets = offsets;
    spec->offset_count = count;
    return ATTN_OK;
}

attn_status attn_run_read_masks(const attn_run_reader *r, attn_json *object) {
    attn_json *all = attn_json_member(object, "masks");
    attn_json *fill = attn_json_member(object, "mask_fill");
    attn_status status = read_offset(r, object);
    r->site->captured = !all;
    if (!status && fill)
        status = read_fill(r, fill);
    if (status || !all)
        return status ? status : read_plain(r, object);
    if (all->kind != ATTN_JSON_LIST)
        return attn_run_refuse(r, ATTN_EARG, "masks", "expected a list, found %s",
                               attn_json_kind_name(all));
    size_t index = 0;
    for (attn_json *layer = all->first; layer && !status; layer = layer->next)
        status = read_layer(r, layer, index++);
    return status;
}

/* --- writing --- */

static void write_pattern(attn_json_text *t, const attn_pattern *p) {
    attn_json_object(t);
    attn_json_key(t, "kind");
    attn_json_string(t, patterns[p->kind]);
    for (size_t i = 0; i < PATTERN_NUMBERS; i++) {
        int64_t value;
        if (!(pattern_numbers[i].kinds >> p->kind & 1))
            continue;
        memcpy(&value, (const char *)p + pattern_numbers[i].offset, sizeof value);
        attn_json_key(t, pattern_numbers[i].name);
        attn_json_int(t, value);
    }
    attn_json_object_end(t);
}

static void write_layer(const attn_run_naming *to, const attn_mask_layer *given, size_t index) {
    attn_json_text *t = to->text;
    char member[32];
    snprintf(member, sizeof member, "masks.%zu", index);
    attn_mask_layer layer = *given;
    const char *name = to->mask(to->ctx, member, &layer);
    attn_json_object(t);
    attn_json_key(t, "kind");
    attn_json_string(t, kinds[layer.kind]);
    if (layer.where) {
        attn_json_key(t, "name");
        attn_json_string(t, layer.where);
    }
    if (layer.semantics) {
        attn_json_key(t, "semantics");
        attn_json_string(t, semantics[layer.semantics]);
    }
    if (layer.kind == ATTN_LAYER_WINDOW) {
        attn_json_key(t, "window");
        attn_json_array(t);
        attn_json_int(t, layer.window[0]);
        attn_json_int(t, layer.window[1]);
        attn_json_array_end(t);
    }
    if (layer.kind == ATTN_LAYER_PATTERN) {
        attn_json_key(t, "pattern");
        write_pattern(t, &layer.pattern);
    }
    if (layer.kind == ATTN_LAYER_TOKENS) {
        attn_json_key(t, "pad_id");
        attn_json_int(t, layer.pad_id);
    }
    if (layer.values.rank) {
        attn_json_key(t, "values");
        attn_json_string(t, name);
    }
    attn_json_object_end(t);
}

static void write_offset(attn_json_text *t, const attn_mask_spec *spec) {
    if (spec->offset == ATTN_OFFSET_DEFAULT)
        return;
    attn_json_key(t, "query_offset");
    if (spec->offset == ATTN_OFFSET_END) {
        attn_json_string(t, "end");
        return;
    }
    if (spec->offset_count == 1) {
        attn_json_int(t, spec->offsets[0]);
        return;
    }
    attn_json_array(t);
    for (size_t i = 0; i < spec->offset_count; i++)
        attn_json_int(t, spec->offsets[i]);
    attn_json_array_end(t);
}

void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec) {
    attn_json_text *t = to->text;
    write_offset(t, spec);
    if (spec->fill != ATTN_FILL_HIDE) {
        attn_json_key(t, "mask_fill");
        attn_json_object(t);
        attn_json_key(t, "value");
        attn_json_real(t, spec->fill_value);
        attn_json_key(t, "mode");
        attn_json_string(t, fills[spec->fill]);
        attn_json_object_end(t);
    }
    if (!spec->count)
        return;
    attn_json_key(t, "masks");
    attn_json_array(t);
    for (size_t i = 0; i < spec->count; i++)
        write_layer(to, &spec->layers[i], i);
    attn_json_array_end(t);
}
