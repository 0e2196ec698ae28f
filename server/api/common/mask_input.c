/* Converts decoded mask fields to mask layers of the library. The layers point to the decoded
 * tensors and do not copy them. */
#include "api/common/mask_input.h"

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

/* Refuses a field that is sent without another field that gives it its meaning. */
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

static void add_layer_of(const srv_scope *scope, attn_mask_spec *spec, const char *name,
                         attn_mask_layer layer) {
    if (!srv_given(scope, name))
        return;
    layer.where = srv_where(scope, name);
    spec->layers[spec->count++] = layer;
}

bool srv_mask_layers(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    const bool window = srv_given(scope, "window");
    if (!check_company(scope) || (window && !srv_pair(scope, "window", &in->window, -1)) ||
        (srv_given(scope, "pattern") &&
         !srv_pattern_check(scope, &in->pattern, &in->pattern_given)))
        return false;
    if (window)
        add_layer_of(scope, spec, "window",
                     (attn_mask_layer){.kind = ATTN_LAYER_WINDOW,
                                       .window = {in->window.values[0], in->window.values[1]}});
    add_layer_of(scope, spec, "pattern",
                 (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .pattern = in->pattern});
    add_layer_of(scope, spec, "attn_mask",
                 (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                   .values = in->attn_mask,
                                   .semantics = in->mask_semantics});
    add_layer_of(scope, spec, "key_padding_mask",
                 (attn_mask_layer){.kind = ATTN_LAYER_PADDING,
                                   .values = in->key_padding_mask,
                                   .semantics = in->key_padding_semantics});
    add_layer_of(scope, spec, "key_lengths",
                 (attn_mask_layer){.kind = ATTN_LAYER_LENGTHS, .values = in->key_lengths});
    add_layer_of(scope, spec, "token_ids",
                 (attn_mask_layer){
                     .kind = ATTN_LAYER_TOKENS, .values = in->token_ids, .pad_id = in->pad_id});
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
