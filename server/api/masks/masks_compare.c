/* Compares the mask of POST /v1/masks with the masks of `against`, cell by cell. Only the
 * visibility of cells is compared, not the numbers that masks add to scores. */
#include <inttypes.h>
#include <string.h>

#include "api/masks/masks_call.h"
#include "wire/answer.h"

bool srv_masks_same_batches(const srv_masks_call *call) {
    return attn_mask_same_batches(call->mask) &&
           (!call->against || attn_mask_same_batches(call->against));
}

bool srv_masks_same_heads(const srv_masks_call *call) {
    return attn_mask_same_heads(call->mask) &&
           (!call->against || attn_mask_same_heads(call->against));
}

void srv_masks_keep_against(const attn_mask *against, const attn_range *row, const uint8_t *keep,
                            uint8_t *other, double *difference) {
    attn_mask_keep(against, row->batch, row->head, row->row, row->col, row->cols, other);
    for (size_t j = 0; j < row->cols; j++)
        difference[j] = (double)keep[j] - (double)other[j];
}

/* Counts the cells of one row that differ, and adds them to *out. `keep` is scratch memory for 2 S
 * bytes. */
static void compare_row(const srv_masks_call *call, size_t b, size_t h, size_t i, uint8_t *keep,
                        srv_masks_difference *out) {
    const size_t S = call->shape.S;
    uint8_t *other = keep + S;
    attn_mask_keep(call->mask, b, h, i, 0, S, keep);
    attn_mask_keep(call->against, b, h, i, 0, S, other);
    for (size_t j = 0; j < S; j++) {
        if (keep[j] == other[j])
            continue;
        if (!out->num_only_masks && !out->num_only_against)
            memcpy(out->first, (const size_t[]){b, h, i, j}, sizeof out->first);
        *(keep[j] ? &out->num_only_masks : &out->num_only_against) += 1;
    }
}

bool srv_masks_compare(srv_masks_call *call) {
    const attn_mask_shape *s = &call->shape;
    srv_request *req = call->req;
    srv_masks_difference *out = &call->difference;
    const bool some = call->cells > 0;
    const size_t B = srv_masks_same_batches(call) && some ? 1 : call->B;
    const size_t H = srv_masks_same_heads(call) && some ? 1 : s->H;
    uint8_t *keep = attn_arena_zeroed(req->arena, s->S + 1, 2);
    attn_error err = {0};
    if (!keep)
        return srv_problem_memory(req, NULL, "no memory is left to compare the masks");
    for (size_t b = 0; some && b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < s->L; i++) {
                if (attn_control_check(&req->control, &err))
                    return srv_problem_error(req, &err);
                compare_row(call, b, h, i, keep, out);
            }
    const int64_t copies = some ? (int64_t)(call->B / B * (s->H / H)) : 0;
    out->num_only_masks *= copies;
    out->num_only_against *= copies;
    out->num_different = out->num_only_masks + out->num_only_against;
    return srv_mask_kept(req, call->against, call->cells, &out->kept);
}

/* --- the answer --- */

static void put_words(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    attn_json_string(j, attn_mask_words(call->against, call->req->arena));
}

static void put_first(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    if (!call->difference.num_different)
        return;
    attn_json_array(j);
    for (int axis = 0; axis < 4; axis++)
        attn_json_size(j, call->difference.first[axis]);
    attn_json_array_end(j);
}

static const srv_field against_rows[] = {
    SRV_ALWAYS("kept", SRV_REAL, srv_masks_call, difference.kept,
               "Share of the cells that against leaves visible.", .max = 1),
    SRV_WRITTEN("words", "string", put_words, "The masks of against in words.", .always = true),
    SRV_ALWAYS("num_different", SRV_INT, srv_masks_call, difference.num_different,
               "Cells that only one of the two shows."),
    SRV_ALWAYS("num_only_masks", SRV_INT, srv_masks_call, difference.num_only_masks,
               "Cells that masks shows and against hides."),
    SRV_ALWAYS("num_only_against", SRV_INT, srv_masks_call, difference.num_only_against,
               "Cells that masks hides and against shows."),
    SRV_WRITTEN("first", "[integer+ 4]", put_first,
                "The first of these cells: batch entry, head, query and key."),
    {0},
};

static void put_against(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    if (call->against)
        srv_answer_object(j, against_rows, call);
}

const srv_field srv_masks_against_rows[] = {
    SRV_WRITTEN("against", "*", put_against, "With against: what differs, without added numbers.",
                .fields = against_rows),
    {0},
};

void srv_masks_against_text(attn_text *t, const srv_masks_call *call) {
    const srv_masks_difference *d = &call->difference;
    if (!call->against)
        return;
    attn_text_add(t, "against: %s\n", attn_mask_words(call->against, call->req->arena));
    attn_text_add(t, "kept by against: %.4g %% of %.6g cells\n", 100 * d->kept, call->cells);
    attn_text_add(
        t, "different: %" PRId64 " cell%s, %" PRId64 " only in masks, %" PRId64 " only in against",
        d->num_different, d->num_different == 1 ? "" : "s", d->num_only_masks, d->num_only_against);
    if (d->num_different)
        attn_text_add(t, "; first at batch %zu, head %zu, query %zu, key %zu", d->first[0],
                      d->first[1], d->first[2], d->first[3]);
    attn_text_add(t, "\n");
}
