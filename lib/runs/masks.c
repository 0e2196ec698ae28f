/* Reads and writes the masks of a site as JSON. A capture has the members is_causal, window,
 * pattern, attn_mask, attn_bias, key_lengths, document_ids, prefix_lengths, parents, top_k_indices,
 * any_of, all_of and not. Files that attnd writes have mask_fill and
 * `masks`, the list of all mask layers of the operation (attn_mask_layer). */
#include <attn/text.h>
#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/resolved.h"
#include "mask/bit_rows.h"
#include "mask/rule.h"
#include "runs/inputs.h"

#define FARTHEST ((int64_t)ATTN_INPUT_FARTHEST)

/* --- reading --- */

static void add_layer(attn_run_reader *r, const char *member, const attn_mask_layer *layer) {
    attn_mask_spec *spec = &r->site->in.mask;
    if (spec->count == ATTN_MASK_LAYERS)
        attn_run_refuse(r, ATTN_ELIMIT, member, "at most %d masks can be combined",
                        ATTN_MASK_LAYERS);
    if (!r->status)
        spec->layers[spec->count++] = *layer;
}

static void read_pattern(attn_run_reader *r, attn_json *object, const char *where,
                         attn_pattern *out) {
    const int kind = object->kind == ATTN_JSON_OBJECT
                         ? attn_run_word(attn_json_member(object, "kind"), attn_pattern_words)
                         : -1;
    if (kind < 0) {
        attn_run_refuse(r, ATTN_EARG, where,
                        "expected an object whose kind is local, strided, block, global, "
                        "block_causal or full");
        return;
    }
    *out = (attn_pattern){.kind = (attn_pattern_kind)kind};
    for (const attn_input *row = attn_pattern_rows; row->name; row++) {
        char place[96];
        if (!(row->kinds >> kind & 1))
            continue;
        snprintf(place, sizeof place, "%s/%s", where, row->name);
        attn_run_read_row(r, object, where, row, out);
        if (!attn_json_member(object, row->name))
            attn_run_refuse(r, ATTN_EARG, place, "expected an integer of %g or more", row->least);
    }
    attn_run_refuse_unknown(r, object, where);
}

static void read_window(attn_run_reader *r, const attn_json *list, const char *where,
                        int64_t out[2]) {
    const int64_t *bounds = attn_run_read_integers(r, list, where, 2, -1, FARTHEST);
    if (bounds)
        memcpy(out, bounds, 2 * sizeof *out);
}

/* Reads the window or the pattern of a layer of this kind, or a list with one for each head. */
static void read_formula(attn_run_reader *r, attn_json *value, const char *where,
                         attn_mask_layer *layer) {
    const bool window = layer->kind == ATTN_LAYER_WINDOW, list = value->kind == ATTN_JSON_LIST;
    const bool by_head =
        window ? list && value->first && value->first->kind == ATTN_JSON_LIST : list;
    size_t h = 0;
    if (!by_head && window)
        read_window(r, value, where, layer->window);
    else if (!by_head)
        read_pattern(r, value, where, &layer->pattern);
    attn_head_keys *heads = by_head ? attn_run_take(r, value->count, sizeof *heads) : NULL;
    for (attn_json *v = heads ? value->first : NULL; v && !r->status; v = v->next, h++) {
        char place[96];
        snprintf(place, sizeof place, "%.70s/%zu", where, h);
        if (window)
            read_window(r, v, place, heads[h].window);
        else
            read_pattern(r, v, place, &heads[h].pattern);
    }
    layer->by_head = heads;
    layer->head_count = h;
}

/* Checks that the tensor broadcasts to the weights. Weights without an axis of heads have more
 * rules, which attn_mask_new checks. */
static void check_broadcast(attn_run_reader *r, const char *member, const attn_tensor *t) {
    const attn_attention_dims *d = &r->site->shape;
    char found[128], expected[128];
    bool fits = t->rank <= d->weights_rank || !d->has_heads;
    const bool padding = t->rank == 2 && d->has_heads && t->dims[0] == d->B && t->dims[1] == d->S;
    for (int i = 1; fits && d->has_heads && i <= t->rank; i++)
        fits = t->dims[t->rank - i] == 1 || t->dims[t->rank - i] == d->scores[d->weights_rank - i];
    if (!fits)
        attn_run_refuse(r, ATTN_ESHAPE, member,
                        "expected a shape that broadcasts to %s, found %s%s",
                        attn_shape_text(d->scores, d->weights_rank, expected, sizeof expected),
                        attn_shape_text(t->dims, t->rank, found, sizeof found),
                        padding ? "; write a padding mask [B, S] as [B, 1, 1, S], in NumPy "
                                  "mask[:, None, None]"
                                : "");
}

/* Refuses a bias whose elements are no floats, and a mask of integers without a stated meaning,
 * since 1 may mean visible or hidden. Requests have the same rule. */
static void check_type(attn_run_reader *r, const char *member, attn_layer_kind kind,
                       attn_semantics said, attn_dtype dtype) {
    const bool bias = kind == ATTN_LAYER_BIAS;
    const bool real =
        dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16 || dtype == ATTN_F64;
    if (bias && !real)
        attn_run_refuse(r, ATTN_EDTYPE, member, "expected floats, found %s",
                        attn_dtype_name(dtype));
    else if (!real && dtype != ATTN_BOOL && !said)
        attn_run_refuse(r, ATTN_EDTYPE, member,
                        "expected booleans or floats, found %s. If 1 means attend, as in the "
                        "masks of tokenizers, say \"mask_semantics\": \"keep\"; if 1 means "
                        "hidden, \"hide\"",
                        attn_dtype_name(dtype));
}

/* Adds the tensor with this name as a layer of this kind. `said` is the meaning of its numbers that
 * the site states, or ATTN_SEM_UNSTATED. */
static void add_named(attn_run_reader *r, const char *member, const char *name,
                      attn_layer_kind kind, attn_semantics said) {
    const attn_tensor *t = attn_run_named_tensor(r, member, name);
    if (!t)
        return;
    const bool boolean = t->dtype == ATTN_BOOL;
    const attn_mask_layer layer = {.kind = kind,
                                   .where = member,
                                   .values = *t,
                                   .semantics = kind == ATTN_LAYER_BIAS ? ATTN_SEM_ADDITIVE
                                                : !boolean ? said ? said : ATTN_SEM_ADDITIVE
                                                : said == ATTN_SEM_HIDE ? ATTN_SEM_HIDE
                                                                        : ATTN_SEM_KEEP};
    check_type(r, member, kind, said, t->dtype);
    attn_run_check_aligned(r, member, name, t);
    check_broadcast(r, member, t);
    add_layer(r, member, &layer);
}

/* Adds the mask {"encoding": "bits", "values": NAME}: a tensor of uint8 with the bits of booleans. */
static void add_encoded(attn_run_reader *r, attn_json *object, const char *member,
                        attn_semantics said) {
    const attn_json *encoding = attn_json_member(object, "encoding");
    const attn_json *name = attn_json_member(object, "values");
    const size_t S = r->site->shape.S;
    const attn_tensor *t = NULL;
    if (!encoding || encoding->kind != ATTN_JSON_STRING || strcmp(encoding->text, "bits") != 0)
        attn_run_refuse(r, ATTN_EARG, member, "expected the encoding \"bits\"");
    if (!name || name->kind != ATTN_JSON_STRING)
        attn_run_refuse(r, ATTN_EARG, member, "expected the name of a tensor as values");
    attn_run_refuse_unknown(r, object, member);
    if (r->status || !(t = attn_run_named_tensor(r, member, name->text)))
        return;
    attn_tensor keys = *t;
    if (t->dtype != ATTN_U8 || t->rank < 2 || t->dims[t->rank - 1] != (S + 7) / 8)
        attn_run_refuse(r, t->dtype == ATTN_U8 ? ATTN_ESHAPE : ATTN_EDTYPE, member,
                        "the bits of %zu keys are rows of %zu bytes, as tensors of uint8 with two "
                        "axes or more, found %s of rank %d with rows of %zu",
                        S, (S + 7) / 8, attn_dtype_name(t->dtype), t->rank,
                        t->rank ? t->dims[t->rank - 1] : 0);
    if (r->status)
        return;
    keys.dims[keys.rank - 1] = S;
    check_broadcast(r, member, &keys);
    add_layer(
        r, member,
        &(attn_mask_layer){.kind = ATTN_LAYER_BITS,
                           .where = member,
                           .values = *t,
                           .semantics = said == ATTN_SEM_HIDE ? ATTN_SEM_HIDE : ATTN_SEM_KEEP});
}

/* Reads one tensor of attn_mask or attn_bias: its name or, for attn_mask, an object. */
static void read_one(attn_run_reader *r, attn_json *value, const char *member, attn_layer_kind kind,
                     attn_semantics said) {
    if (value->kind == ATTN_JSON_STRING)
        add_named(r, member, value->text, kind, said);
    else if (value->kind == ATTN_JSON_OBJECT && kind == ATTN_LAYER_VALUES)
        add_encoded(r, value, member, said);
    else
        attn_run_refuse(r, ATTN_EARG, member, "expected names of tensors");
}

/* Reads attn_mask or attn_bias: one tensor or a list of them. If the member is missing, reads the tensor "sites.N.MEMBER", if the file has one. */
static void read_named(attn_run_reader *r, attn_json *object, const char *member,
                       attn_layer_kind kind, attn_semantics said) {
    attn_json *value = attn_json_member(object, member);
    char usual[64];
    snprintf(usual, sizeof usual, "sites.%zu.%s", r->index, member);
    if (!value) {
        if (attn_run_find_tensor(r->run, usual))
            add_named(r, member, usual, kind, said);
        return;
    }
    if (value->kind == ATTN_JSON_STRING || value->kind == ATTN_JSON_OBJECT) {
        read_one(r, value, member, kind, said);
        return;
    }
    if (!attn_run_expect(r, value, ATTN_JSON_LIST, member,
                         "the name of a tensor or a list of names"))
        return;
    for (attn_json *v = value->first; v && !r->status; v = v->next)
        read_one(r, v, member, kind, said);
}

/* Reads mask_semantics, the meaning of the numbers of attn_mask. */
static attn_semantics read_meaning(attn_run_reader *r, attn_json *object) {
    const attn_json *value = attn_json_member(object, "mask_semantics");
    const int word = attn_run_word(value, attn_semantics_words);
    r->site->stated = value != NULL;
    if (value && word <= ATTN_SEM_UNSTATED)
        attn_run_refuse(r, ATTN_EARG, "mask_semantics",
                        "expected keep, hide, additive, finite_min or nonzero");
    return value && !r->status ? (attn_semantics)word : ATTN_SEM_UNSTATED;
}

/* Rows leave out trailing members that are zero, which GCC would warn about without this line. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const attn_input layer_rows[] = {
    {"", "kind", ATTN_INPUT_WORD, offsetof(attn_mask_layer, kind), 0, 0, 0, attn_layer_words, 0},
    {"", "name", ATTN_INPUT_TEXT, offsetof(attn_mask_layer, where), 0, 0, 0, NULL, 0},
    {"", "semantics", ATTN_INPUT_WORD, offsetof(attn_mask_layer, semantics), 0, 0, 0,
     attn_semantics_words, 0},
    {.name = NULL},
};
static const attn_input values_row = {.name = "values",
                                      .offset = offsetof(attn_mask_layer, values)};
/* The number of parts: layers behind this one, each followed by its own parts. */
static const attn_input parts_row = {.name = "parts",
                                     .type = ATTN_INPUT_SIZE,
                                     .offset = offsetof(attn_mask_layer, parts),
                                     .least = 1,
                                     .most = ATTN_MASK_LAYERS,
                                     .narrow = sizeof(size_t) == 4};

/* Returns a member that the object must have. NULL: r->status is an error. */
static attn_json *need_member(attn_run_reader *r, attn_json *object, const char *where,
                              const char *name) {
    attn_json *member = attn_json_member(object, name);
    if (!member)
        attn_run_refuse(r, ATTN_EARG, where, "expected %s", name);
    return r->status ? NULL : member;
}

static void read_layer(attn_run_reader *r, attn_json *object, const char *where);

/* Adds a layer whose parts are the objects of a list, and the parts. */
static void read_parts(attn_run_reader *r, const attn_json *list, const char *where,
                       attn_mask_layer layer) {
    size_t index = 0;
    if (!attn_run_expect(r, list, ATTN_JSON_LIST, where, "a list of masks"))
        return;
    for (const attn_json *v = list->first; v; v = v->next)
        layer.parts++;
    add_layer(r, where, &layer);
    for (attn_json *v = list->first; v && !r->status; v = v->next) {
        char place[96];
        snprintf(place, sizeof place, "%.70s/%zu", where, index++);
        read_layer(r, v, place);
    }
}

/* Reads a layer of the list `masks`, or a part of any_of, all_of or not. */
static void read_layer(attn_run_reader *r, attn_json *object, const char *where) {
    attn_mask_layer layer = {.kind = ATTN_LAYER_CAUSAL};
    attn_json *member, *parts;
    if (!attn_run_expect(r, object, ATTN_JSON_OBJECT, where, "an object") ||
        !need_member(r, object, where, "kind"))
        return;
    for (const attn_input *row = layer_rows; row->name; row++)
        attn_run_read_row(r, object, where, row, &layer);
    if (r->status)
        return;
    layer.where = layer.where ? layer.where : attn_layer_words[layer.kind];
    if (attn_layer_has_values(layer.kind) != (attn_json_member(object, "values") != NULL))
        attn_run_refuse(r, ATTN_EARG, where, "expected %s tensor as values",
                        attn_layer_has_values(layer.kind) ? "a" : "no");
    if (attn_layer_has_values(layer.kind))
        attn_run_read_row(r, object, where, &values_row, &layer);
    if (layer.kind == ATTN_LAYER_WINDOW && (member = need_member(r, object, where, "window")))
        read_formula(r, member, where, &layer);
    if (layer.kind == ATTN_LAYER_PATTERN && (member = need_member(r, object, where, "pattern")))
        read_formula(r, member, where, &layer);
    if (layer.kind == ATTN_LAYER_TOKENS && (member = need_member(r, object, where, "pad_id")) &&
        !attn_json_integer(member, INT64_MIN, INT64_MAX, &layer.pad_id))
        attn_run_refuse(r, ATTN_EARG, where, "expected pad_id, an integer");
    parts = attn_layer_has_parts(layer.kind) ? attn_json_member(object, "masks") : NULL;
    if (attn_layer_has_parts(layer.kind) && !parts && need_member(r, object, where, "parts"))
        attn_run_read_row(r, object, where, &parts_row, &layer);
    attn_run_refuse_unknown(r, object, where);
    if (parts)
        read_parts(r, parts, where, layer);
    else
        add_layer(r, where, &layer);
}

/* Reads the members that name a tensor of numbers of keys. */
static void read_tables(attn_run_reader *r, attn_json *object) {
    static const struct {
        const char *member;
        attn_layer_kind kind;
    } all[] = {{"document_ids", ATTN_LAYER_DOCUMENTS},
               {"prefix_lengths", ATTN_LAYER_PREFIX},
               {"parents", ATTN_LAYER_TREE},
               {"top_k_indices", ATTN_LAYER_TOP_K}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const attn_json *name = attn_json_member(object, all[i].member);
        attn_mask_layer layer = {.kind = all[i].kind, .where = all[i].member};
        const attn_tensor *t = NULL;
        if (name && attn_run_expect(r, name, ATTN_JSON_STRING, layer.where, "the name of a tensor"))
            t = attn_run_named_tensor(r, layer.where, name->text);
        if (!t)
            continue;
        attn_run_check_aligned(r, layer.where, name->text, t);
        layer.values = *t;
        add_layer(r, layer.where, &layer);
    }
}

/* Reads the mask members of a capture. key_lengths must have been read into the info of the
 * site. */
static void read_plain(attn_run_reader *r, attn_json *object) {
    const attn_json *causal = attn_json_member(object, "is_causal");
    attn_json *window = attn_json_member(object, "window");
    attn_json *pattern = attn_json_member(object, "pattern");
    static const attn_layer_kind rules[] = {ATTN_LAYER_ANY_OF, ATTN_LAYER_ALL_OF, ATTN_LAYER_NOT};
    const int64_t *lengths = r->site->info.key_lengths;
    attn_mask_layer layer = {.kind = ATTN_LAYER_CAUSAL, .where = "is_causal"};
    if (causal && attn_run_expect(r, causal, ATTN_JSON_BOOL, "is_causal", "true or false") &&
        causal->truth)
        add_layer(r, "is_causal", &layer);
    if (window) {
        layer = (attn_mask_layer){.kind = ATTN_LAYER_WINDOW, .where = "window"};
        read_formula(r, window, "window", &layer);
        add_layer(r, "window", &layer);
    }
    if (pattern) {
        layer = (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .where = "pattern"};
        read_formula(r, pattern, "pattern", &layer);
        add_layer(r, "pattern", &layer);
    }
    const attn_semantics said = read_meaning(r, object);
    read_named(r, object, "attn_mask", ATTN_LAYER_VALUES, said);
    read_named(r, object, "attn_bias", ATTN_LAYER_BIAS, said);
    read_tables(r, object);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *member = attn_layer_words[rules[i]];
        const attn_json *parts = attn_json_member(object, member);
        if (parts)
            read_parts(r, parts, member, (attn_mask_layer){.kind = rules[i], .where = member});
    }
    if (lengths) {
        layer = (attn_mask_layer){.kind = ATTN_LAYER_LENGTHS, .where = "key_lengths"};
        layer.values =
            attn_tensor_dense((void *)(uintptr_t)lengths, ATTN_I64, 1, &r->site->shape.B);
        add_layer(r, "key_lengths", &layer);
    }
}

static const attn_input fill_rows[] = {
    {"mask_fill", "value", ATTN_INPUT_REAL, offsetof(attn_mask_spec, fill_value), 0, -DBL_MAX,
     DBL_MAX, NULL, 0},
    {"mask_fill", "mode", ATTN_INPUT_WORD, offsetof(attn_mask_spec, fill), 0, 0, 0, attn_fill_words,
     0},
    {.name = NULL},
};

static void read_fill(attn_run_reader *r, attn_json *object) {
    if (!attn_run_expect(r, object, ATTN_JSON_OBJECT, "mask_fill", "an object"))
        return;
    for (const attn_input *row = fill_rows; row->name; row++)
        if (need_member(r, object, "mask_fill", row->name))
            attn_run_read_row(r, object, "mask_fill", row, &r->site->in.mask);
    attn_run_refuse_unknown(r, object, "mask_fill");
}

void attn_run_read_mask_positions(attn_run_reader *r, attn_json *object) {
    const attn_json *asked = attn_json_member(object, "mask_positions");
    attn_inputs *in = &r->site->in;
    if (!asked || !attn_run_expect(r, asked, ATTN_JSON_BOOL, "mask_positions", "true or false") ||
        !asked->truth)
        return;
    in->mask.query_positions = in->query_positions;
    in->mask.key_positions = in->key_positions;
    if (!attn_mask_spec_placed(&in->mask))
        attn_run_refuse(r, ATTN_EARG, "mask_positions",
                        "the file has neither query_positions nor key_positions of this site");
}

/* Reads query_offset. Its default is the start of the queries minus the start of the keys. */
static void read_offset(attn_run_reader *r, attn_json *object) {
    attn_mask_spec *spec = &r->site->in.mask;
    const attn_json *offset = attn_json_member(object, "query_offset");
    const bool list = offset && offset->kind == ATTN_JSON_LIST;
    const int64_t starts = (int64_t)r->site->info.query_start - (int64_t)r->site->info.key_start;
    const size_t count = list ? r->site->shape.B : 1;
    if (offset && offset->kind == ATTN_JSON_STRING && strcmp(offset->text, "end") == 0) {
        spec->offset = ATTN_OFFSET_END;
        return;
    }
    if (!offset && starts == 0)
        return;
    int64_t *offsets =
        list ? attn_run_read_integers(r, offset, "query_offset", count, -FARTHEST, FARTHEST)
             : attn_run_take(r, 1, sizeof *offsets);
    if (!offsets)
        return;
    if (!offset)
        *offsets = starts;
    else if (!list && !attn_json_integer(offset, -FARTHEST, FARTHEST, offsets))
        attn_run_refuse(r, ATTN_EARG, "query_offset",
                        "expected an integer, \"end\", or a list of %zu integer%s",
                        r->site->shape.B, attn_plural(r->site->shape.B));
    spec->offset = ATTN_OFFSET_GIVEN;
    spec->offsets = offsets;
    spec->offset_count = count;
}

/* Refuses rules whose numbers are wrong, such as parents that run in a circle. The masks of a run
 * are compiled only when a request needs them. The rules are compiled here, so that a wrong file is
 * refused at once. */
static void check_rules(attn_run_reader *r) {
    const attn_mask_spec *all = &r->site->in.mask;
    attn_mask_spec rules = *all;
    attn_arena *arena = r->run->arena;
    const attn_arena_mark mark = attn_arena_here(arena);
    attn_mask *mask;
    attn_error err = {0};
    rules.count = 0;
    for (size_t i = 0, next; i < all->count; i = next) {
        next = attn_mask_spec_next(all, i);
        const bool rule = attn_layer_is_rule(&all->layers[i], attn_mask_spec_placed(all));
        for (size_t k = i; rule && k < next; k++)
            rules.layers[rules.count++] = all->layers[k];
    }
    if (!rules.count || r->status)
        return;
    if (attn_attention_mask_new(&rules, &r->site->shape, arena, &mask, &err))
        attn_run_refuse_error(r, &err);
    attn_arena_rewind(arena, &mark);
}

/* Refuses a capture with bits behind the last key that are 1. Files that attnd writes have no such
 * bits. */
static void check_bits(attn_run_reader *r) {
    const attn_mask_spec *all = &r->site->in.mask;
    attn_error err = {0};
    for (size_t i = 0; i < all->count && r->site->captured && !r->status; i++)
        if (all->layers[i].kind == ATTN_LAYER_BITS &&
            attn_bits_check(&all->layers[i].values, r->site->shape.S, all->layers[i].where, &err))
            attn_run_refuse_error(r, &err);
}

void attn_run_read_masks(attn_run_reader *r, attn_json *object) {
    attn_json *all = attn_json_member(object, "masks");
    attn_json *fill = attn_json_member(object, "mask_fill");
    size_t index = 0;
    read_offset(r, object);
    r->site->captured = !all;
    if (fill)
        read_fill(r, fill);
    if (!all)
        read_plain(r, object);
    else if (attn_run_expect(r, all, ATTN_JSON_LIST, "masks", "a list"))
        for (attn_json *layer = all->first; layer && !r->status; layer = layer->next) {
            char where[32];
            snprintf(where, sizeof where, "masks/%zu", index++);
            read_layer(r, layer, where);
        }
    check_rules(r);
    check_bits(r);
}

/* --- writing --- */

/* Writes the window or pattern of a layer, or the list of the windows or patterns of its heads. */
static void write_formula(attn_json_text *t, const attn_mask_layer *layer) {
    const bool window = layer->kind == ATTN_LAYER_WINDOW;
    const attn_head_keys one = {{layer->window[0], layer->window[1]}, layer->pattern};
    const attn_head_keys *all = layer->by_head ? layer->by_head : &one;
    attn_json_key(t, attn_layer_words[layer->kind]);
    if (layer->by_head)
        attn_json_array(t);
    for (size_t h = 0; h < (layer->by_head ? layer->head_count : 1); h++) {
        const attn_pattern *p = &all[h].pattern;
        if (window) {
            attn_json_array(t);
            attn_json_int(t, all[h].window[0]);
            attn_json_int(t, all[h].window[1]);
            attn_json_array_end(t);
            continue;
        }
        attn_json_object(t);
        attn_run_write_text(t, "kind", attn_pattern_words[p->kind]);
        for (const attn_input *row = attn_pattern_rows; row->name; row++)
            if (row->kinds >> p->kind & 1)
                attn_run_write_value(t, row, p);
        attn_json_object_end(t);
    }
    if (layer->by_head)
        attn_json_array_end(t);
}

static void write_layer(const attn_run_naming *to, const attn_mask_layer *given, size_t index) {
    attn_json_text *t = to->text;
    attn_mask_layer layer = *given;
    char member[32];
    snprintf(member, sizeof member, "masks.%zu", index);
    const char *name = to->mask(to->ctx, member, &layer);
    attn_json_object(t);
    attn_run_write_text(t, "kind", attn_layer_words[layer.kind]);
    attn_run_write_text(t, "name", layer.where);
    if (layer.semantics)
        attn_run_write_text(t, "semantics", attn_semantics_words[layer.semantics]);
    if (layer.kind == ATTN_LAYER_WINDOW || layer.kind == ATTN_LAYER_PATTERN)
        write_formula(t, &layer);
    if (layer.kind == ATTN_LAYER_TOKENS)
        attn_json_key_int(t, "pad_id", layer.pad_id);
    if (layer.parts)
        attn_json_key_int(t, "parts", (int64_t)layer.parts);
    if (layer.values.rank)
        attn_run_write_text(t, "values", name);
    attn_json_object_end(t);
}

static void write_offset(attn_json_text *t, const attn_mask_spec *spec) {
    if (spec->offset == ATTN_OFFSET_END)
        attn_run_write_text(t, "query_offset", "end");
    else if (spec->offset == ATTN_OFFSET_GIVEN && spec->offset_count == 1)
        attn_json_key_int(t, "query_offset", spec->offsets[0]);
    else if (spec->offset == ATTN_OFFSET_GIVEN)
        attn_run_write_integers(t, "query_offset", spec->offsets, spec->offset_count);
}

void attn_run_write_masks(const attn_run_naming *to, const attn_mask_spec *spec) {
    attn_json_text *t = to->text;
    write_offset(t, spec);
    if (attn_mask_spec_placed(spec))
        attn_json_key_bool(t, "mask_positions", true);
    if (spec->fill != ATTN_FILL_HIDE) {
        attn_json_key_object(t, "mask_fill");
        for (const attn_input *row = fill_rows; row->name; row++)
            attn_run_write_value(t, row, spec);
        attn_json_object_end(t);
    }
    if (!spec->count)
        return;
    attn_json_key_array(t, "masks");
    for (size_t i = 0; i < spec->count; i++)
        write_layer(to, &spec->layers[i], i);
    attn_json_array_end(t);
}
