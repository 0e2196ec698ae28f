/* Turns decoded mask fields into mask layers of the library. The layers point into the decoded
 * tensors. */
#include "api/mask_input.h"

#include <stdio.h>

const char *const srv_mask_semantics[] = {"keep", "hide", "additive", NULL};
const char *const srv_padding_semantics[] = {"keep", "hide", NULL};
const char *const srv_offset_words[] = {"end", NULL};

static const attn_semantics meanings[] = {ATTN_SEM_KEEP, ATTN_SEM_HIDE, ATTN_SEM_ADDITIVE};

void srv_mask_input_init(srv_mask_input *in) {
    *in = (srv_mask_input){.mask_semantics = -1, .key_padding_semantics = -1};
}

bool srv_mask_add(const srv_scope *scope, attn_mask_spec *spec, const attn_mask_layer *layer) {
    if (spec->count == ATTN_MASK_LAYERS) {
        char pointer[128];
        snprintf(pointer, sizeof pointer, "/%s", layer->where);
        srv_problem(scope->req, SRV_VALUE, pointer, "at most %d masks can be combined",
                    ATTN_MASK_LAYERS);
        return false;
    }
    spec->layers[spec->count++] = *layer;
    return true;
}

static attn_semantics meaning(int choice) {
    return choice < 0 ? ATTN_SEM_UNSTATED : meanings[choice];
}

/* Refuses a field that means nothing, or is ambiguous, without a certain other field. */
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

static bool add_tensor(const srv_scope *scope, attn_mask_spec *spec, attn_layer_kind kind,
                       const char *name, const attn_tensor *values, attn_semantics semantics) {
    if (!srv_given(scope, name))
        return true;
    attn_mask_layer layer = {
        .kind = kind, .where = srv_where(scope, name), .values = *values, .semantics = semantics};
    return srv_mask_add(scope, spec, &layer);
}

static bool add_tokens(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    if (!srv_given(scope, "token_ids"))
        return true;
    attn_mask_layer layer = {.kind = ATTN_LAYER_TOKENS,
                             .where = srv_where(scope, "token_ids"),
                             .values = in->token_ids,
                             .pad_id = in->pad_id};
    return srv_mask_add(scope, spec, &layer);
}

static bool add_window(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    if (!srv_given(scope, "window"))
        return true;
    if (!srv_pair(scope, "window", &in->window, -1))
        return false;
    attn_mask_layer layer = {.kind = ATTN_LAYER_WINDOW,
                             .where = srv_where(scope, "window"),
                             .window = {in->window.values[0], in->window.values[1]}};
    return srv_mask_add(scope, spec, &layer);
}

static bool add_pattern(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    if (!srv_given(scope, "pattern"))
        return true;
    attn_mask_layer layer = {.kind = ATTN_LAYER_PATTERN, .where = srv_where(scope, "pattern")};
    return srv_pattern_read(scope, &in->pattern, &layer.pattern) &&
           srv_mask_add(scope, spec, &layer);
}

bool srv_mask_layers(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec) {
    return check_company(scope) && add_window(scope, in, spec) && add_pattern(scope, in, spec) &&
           add_tensor(scope, spec, ATTN_LAYER_VALUES, "attn_mask", &in->attn_mask,
                      meaning(in->mask_semantics)) &&
           add_tensor(scope, spec, ATTN_LAYER_PADDING, "key_padding_mask", &in->key_padding_mask,
                      meaning(in->key_padding_semantics)) &&
           add_tensor(scope, spec, ATTN_LAYER_LENGTHS, "key_lengths", &in->key_lengths,
                      ATTN_SEM_UNSTATED) &&
           add_tokens(scope, in, spec);
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
        break;
    default:
        spec->offset = ATTN_OFFSET_DEFAULT;
    }
}

bool srv_mask_kept(srv_request *req, const attn_mask *mask, double cells, double *kept) {
    attn_error err = {0};
    uint64_t visible = 0;
    if (attn_mask_visible(mask, &req->control, &visible, &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    *kept = cells > 0 ? (double)visible / cells : 1;
    return true;
}
