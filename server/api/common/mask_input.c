/* Converts decoded mask fields to mask layers of the library. The layers point to the decoded
 * tensors and do not copy them. */
#include "api/common/mask_input.h"

#include <stdio.h>
#include <string.h>

const char *const srv_padding_semantics[] = {"keep", "hide", NULL};
const char *const srv_offset_words[] = {"end", NULL};

_Static_assert(sizeof(attn_semantics) == sizeof(int) && sizeof(attn_fill) == sizeof(int),
               "SRV_ENUM stores an int");

const srv_field srv_fill_fields[] = {
    SRV_NAMED_ROW(attn_mask_spec, "value", fill_value, SRV_REAL, "A finite number, such as -1e9.",
                  .required = true),
    SRV_NAMED_ROW(attn_mask_spec, "mode", fill, SRV_ENUM,
                  "add (default): the value is added to the score in float32; replace: the value "
                  "replaces the score.",
                  .choices = attn_fill_words + ATTN_FILL_ADD, .first = ATTN_FILL_ADD),
    {0},
};

void srv_fill_init(void *mask_spec) {
    ((attn_mask_spec *)mask_spec)->fill = ATTN_FILL_ADD;
}

/* Refuses a field that is sent without the other field that it needs. */
static bool check_company(const srv_scope *scope) {
    if (srv_given(scope, "key_padding_mask") && !srv_given(scope, "key_padding_semantics"))
        return srv_refuse(
            scope, SRV_MASK_SEMANTICS, "key_padding_mask",
            "key_padding_mask needs key_padding_semantics, for booleans too: \"keep\" "
            "when 1 or true marks a real key, \"hide\" when it marks padding (as in "
            "PyTorch's key_padding_mask)");
    return srv_needs(scope, "mask_semantics", "attn_mask", "it says how attn_mask is read") &&
           srv_needs(scope, "key_padding_semantics", "key_padding_mask",
                     "it says how key_padding_mask is read") &&
           srv_needs(scope, "token_ids", "pad_id", "pad_id says which of the ids is padding") &&
           srv_needs(scope, "pad_id", "token_ids", "it says which of token_ids is padding");
}

bool srv_mask_add(const srv_scope *scope, attn_mask_spec *spec, const char *name,
                  attn_mask_layer layer) {
    if (spec->count == ATTN_MASK_LAYERS)
        return srv_refuse(scope, SRV_VALUE, name,
                          "at most %d masks can be combined; the parts of any_of, all_of and not "
                          "count, too",
                          ATTN_MASK_LAYERS);
    layer.where = srv_where(scope, name);
    spec->layers[spec->count++] = layer;
    return true;
}

/* --- masks in lists --- */

static const char *const kinds[] = {"causal",    "padding", "window", "pattern", "values",
                                    "documents", "prefix",  "tree",   "top_k",   "any_of",
                                    "all_of",    "not",     NULL};
/* For each kind: the names of its fields, with a space before and after each name, the field that
 * it needs, and the form in which this field is written. */
static const struct {
    const char *fields, *needs, *as;
} items[] = {
    {NULL, NULL, ""},
    {" key_padding_mask key_padding_semantics key_lengths token_ids pad_id ", NULL, ""},
    {" window ", "window", ": [left, right]"},
    {" pattern ", "pattern", ", such as {\"kind\": \"local\", \"radius\": 2}"},
    {" attn_mask mask_semantics ", "attn_mask", ""},
    {" document_ids ", "document_ids", ", such as [0, 0, 1]"},
    {" prefix_lengths ", "prefix_lengths", ", such as [2]"},
    {" parents ", "parents", ", such as [-1, 0, 0]"},
    {" top_k_indices ", "top_k_indices", ", such as [[0, 2], [1, -1]]"},
    {" any_of ", "any_of", ", a list of masks"},
    {" all_of ", "all_of", ", a list of masks"},
    {" not ", "not", ", a mask"},
};

const srv_field srv_mask_item_fields[] = {
    SRV_KIND_ROW(
        srv_mask_item, kinds,
        "causal; padding (key_padding_mask with key_padding_semantics, key_lengths, or token_ids "
        "with pad_id); window (window); pattern (pattern); values (attn_mask); documents "
        "(document_ids); prefix (prefix_lengths); tree (parents); top_k (top_k_indices); any_of, "
        "all_of and not (masks under the same name)."),
    SRV_MASK_ROWS(srv_mask_item, mask, SRV_BY_ENTRY_LISTS),
    {0},
};

/* Refuses fields that belong to other kinds of masks, and a mask without the field that defines its
 * kind. */
static bool check_kind(const srv_scope *scope, int kind) {
    static const char *const ways[] = {"key_padding_mask", "key_lengths", "token_ids"};
    size_t count = 0;
    for (size_t i = 1; srv_mask_item_fields[i].name; i++) {
        const char *name = srv_mask_item_fields[i].name;
        if (srv_given(scope, name) && !srv_is_listed(items[kind].fields, name))
            return srv_refuse(
                scope, SRV_VALUE, name,
                "%s does not belong to a mask of kind \"%s\"; give it a mask of its own", name,
                kinds[kind]);
    }
    if (items[kind].needs && !srv_given(scope, items[kind].needs))
        return srv_refuse(scope, SRV_VALUE, "kind", "kind \"%s\" needs %s%s", kinds[kind],
                          items[kind].needs, items[kind].as);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        count += srv_given(scope, ways[i]);
    return kind != SRV_ITEM_PADDING || count == 1 ||
           srv_refuse(scope, SRV_VALUE, "kind",
                      "kind \"padding\" needs exactly one of key_padding_mask, key_lengths and "
                      "token_ids, found %zu",
                      count);
}

void srv_mask_item_scope(const srv_scope *scope, const char *name, const srv_objects *list,
                         size_t i, srv_scope *item, char at[256]) {
    const srv_mask_item *all = list->items;
    if (list->single)
        snprintf(at, 256, "%s/%s", scope->at, name);
    else
        snprintf(at, 256, "%s/%s/%zu", scope->at, name, i);
    *item = (srv_scope){scope->req, srv_mask_item_fields, &all[i].given, at};
}

bool srv_mask_items(const srv_scope *scope, const char *name, const srv_objects *list,
                    attn_mask_spec *spec) {
    const srv_mask_item *all = list->items;
    for (size_t i = 0; i < list->count; i++) {
        char at[256];
        srv_scope item;
        srv_mask_item_scope(scope, name, list, i, &item, at);
        if (!check_kind(&item, all[i].kind) ||
            (all[i].kind == SRV_ITEM_CAUSAL &&
             !srv_mask_add(&item, spec, "kind", (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL})) ||
            !srv_mask_layers(&item, &all[i].mask, spec))
            return false;
    }
    return true;
}

/* --- fields of masks --- */

/* Allocates `count` windows or patterns for the heads, for the field `name`. NULL: a problem is
 * set. */
static attn_head_keys *take_heads(const srv_scope *scope, const char *name, size_t count) {
    attn_head_keys *heads =
        count ? attn_arena_zeroed(scope->req->arena, count, sizeof *heads) : NULL;
    if (!count)
        srv_refuse(scope, SRV_VALUE, name, "%s must not be an empty list", name);
    else if (!heads)
        srv_problem_memory(scope->req, NULL, "no memory is left for the masks");
    return heads;
}

static bool read_windows(const srv_scope *scope, const srv_int_lists *in, attn_mask_layer *layer) {
    char place[32] = "window";
    attn_head_keys *heads = take_heads(scope, "window", in->count);
    for (size_t h = 0; heads && h < in->count; h++) {
        if (in->count > 1)
            snprintf(place, sizeof place, "window/%zu", h);
        if (!srv_pair(scope, place, &in->lists[h], -1))
            return false;
        memcpy(heads[h].window, in->lists[h].values, sizeof heads[h].window);
    }
    layer->by_head = heads;
    layer->head_count = in->count;
    return heads != NULL;
}

static bool read_patterns(const srv_scope *scope, const srv_objects *in, attn_mask_layer *layer) {
    char place[32] = "pattern";
    const srv_pattern_item *all = in->items;
    attn_head_keys *heads = take_heads(scope, "pattern", in->count);
    for (size_t h = 0; heads && h < in->count; h++) {
        if (!in->single)
            snprintf(place, sizeof place, "pattern/%zu", h);
        if (!srv_pattern_check(scope, place, &all[h].pattern, &all[h].given))
            return false;
        heads[h].pattern = all[h].pattern;
    }
    layer->by_head = heads;
    layer->head_count = in->count;
    return heads != NULL;
}

/* Reads the windows or patterns of a layer. A single one for all heads becomes a member of the
 * layer. */
static bool read_formula(const srv_scope *scope, const srv_mask_input *in, attn_mask_layer *layer) {
    if (layer->kind == ATTN_LAYER_WINDOW ? !read_windows(scope, &in->window, layer)
                                         : !read_patterns(scope, &in->pattern, layer))
        return false;
    if (layer->head_count == 1) {
        memcpy(layer->window, layer->by_head->window, sizeof layer->window);
        layer->pattern = layer->by_head->pattern;
        layer->by_head = NULL;
        layer->head_count = 0;
    }
    return true;
}

bool srv_mask_layers(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    const srv_mask_entries *lists = &in->entries;
    if (!check_company(scope))
        return false;
    const struct {
        const char *name;
        attn_mask_layer layer;
        const srv_entries *list;
        const srv_objects *parts;
    } all[] = {
        {"window", {.kind = ATTN_LAYER_WINDOW}, NULL, NULL},
        {"pattern", {.kind = ATTN_LAYER_PATTERN}, NULL, NULL},
        {"attn_mask",
         {.kind = ATTN_LAYER_VALUES, .values = in->attn_mask, .semantics = in->mask_semantics},
         &lists->attn_mask,
         NULL},
        {"key_padding_mask",
         {.kind = ATTN_LAYER_PADDING,
          .values = in->key_padding_mask,
          .semantics = in->key_padding_semantics},
         &lists->key_padding_mask,
         NULL},
        {"key_lengths", {.kind = ATTN_LAYER_LENGTHS, .values = in->key_lengths}, NULL, NULL},
        {"token_ids",
         {.kind = ATTN_LAYER_TOKENS, .values = in->token_ids, .pad_id = in->pad_id},
         &lists->token_ids,
         NULL},
        {"document_ids",
         {.kind = ATTN_LAYER_DOCUMENTS, .values = in->document_ids},
         &lists->document_ids,
         NULL},
        {"prefix_lengths", {.kind = ATTN_LAYER_PREFIX, .values = in->prefix_lengths}, NULL, NULL},
        {"parents", {.kind = ATTN_LAYER_TREE, .values = in->parents}, &lists->parents, NULL},
        {"top_k_indices",
         {.kind = ATTN_LAYER_TOP_K, .values = in->top_k_indices},
         &lists->top_k_indices,
         NULL},
        {"any_of", {.kind = ATTN_LAYER_ANY_OF, .parts = in->any_of.count}, NULL, &in->any_of},
        {"all_of", {.kind = ATTN_LAYER_ALL_OF, .parts = in->all_of.count}, NULL, &in->all_of},
        {"not", {.kind = ATTN_LAYER_NOT, .parts = in->not_of.count}, NULL, &in->not_of},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        attn_mask_layer layer = all[i].layer;
        if (!srv_given(scope, all[i].name))
            continue;
        if (all[i].list && all[i].list->count)
            return srv_refuse_list(scope, all[i].name, all[i].list);
        if (layer.values.dtype == ATTN_BITS && !layer.values.data)
            return srv_refuse(scope, SRV_VALUE, all[i].name, SRV_BITS_MISSING);
        const bool formula = layer.kind == ATTN_LAYER_WINDOW || layer.kind == ATTN_LAYER_PATTERN;
        if (formula && !read_formula(scope, in, &layer))
            return false;
        if (!srv_mask_add(scope, spec, all[i].name, layer) ||
            (all[i].parts && !srv_mask_items(scope, all[i].name, all[i].parts, spec)))
            return false;
    }
    return true;
}

void srv_mask_offset(const srv_union *offset, attn_mask_spec *spec) {
    switch (offset->is) {
    case SRV_U_INT:
        spec->offset = ATTN_OFFSET_GIVEN;
        spec->offsets = &offset->integer;
        spec->offset_count = 1;
        break;
    case SRV_U_INTS:
        spec->offset = ATTN_OFFSET_GIVEN;
        spec->offsets = offset->ints.values;
        spec->offset_count = offset->ints.count;
        break;
    case SRV_U_STRING:
        spec->offset = ATTN_OFFSET_END;
    }
}

bool srv_mask_kept(srv_request *req, const attn_mask *mask, double cells, double *kept) {
    attn_error err = {0};
    uint64_t visible = 0;
    if (attn_mask_visible(mask, &req->control, &visible, &err))
        return srv_problem_error(req, &err);
    *kept = cells > 0 ? (double)visible / cells : 1;
    return true;
}
