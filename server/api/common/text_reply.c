/* Answers as text. Each text grows in the request's arena. */
#include "api/common/text_reply.h"

#include <math.h>

attn_text srv_text_begin(srv_request *req) {
    return (attn_text){.arena = req->arena};
}

void srv_text_end(srv_request *req, const attn_text *t) {
    if (t->failed)
        srv_problem_memory(req, NULL,
                           "the answer as text needs more memory than a request may use");
    else
        srv_reply_set(req, 200, "text/plain; charset=utf-8", t->data ? t->data : "", t->size);
}

/* Replaces the data of a float tensor by a copy whose elements are rounded to `decimals` decimals.
 * The caller then prints each element with as few digits as possible. false: memory ran out. */
static bool round_tensor(attn_tensor *t, attn_arena *arena, int decimals) {
    size_t count;
    if (!attn_tensor_count(t, &count) || (t->dtype != ATTN_F32 && t->dtype != ATTN_F64))
        return true;
    double unit = pow(10, decimals);
    size_t each = attn_dtype_size(t->dtype);
    void *copy = attn_arena_take(arena, count * each);
    if (!copy)
        return false;
    for (size_t i = 0; i < count; i++) {
        double v =
            t->dtype == ATTN_F32 ? ((const float *)t->data)[i] : ((const double *)t->data)[i];
        double rounded = isfinite(v * unit) ? nearbyint(v * unit) / unit : v;
        if (t->dtype == ATTN_F32)
            ((float *)copy)[i] = (float)rounded;
        else
            ((double *)copy)[i] = rounded;
    }
    t->data = copy;
    return true;
}

void srv_text_tensor(attn_text *t, const char *name, const attn_tensor *tensor, srv_print print) {
    if (tensor->rank == 0)
        return;
    attn_tensor shown = *tensor;
    const bool rounds = print.decimals >= 0;
    if (rounds && attn_tensor_is_dense(&shown) && !round_tensor(&shown, t->arena, print.decimals)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "%s (", name);
    for (int a = 0; a < tensor->rank; a++)
        attn_text_add(t, "%s%zu", a ? ", " : "", tensor->dims[a]);
    attn_text_add(t, "%s):\n", tensor->rank == 1 ? "," : "");
    attn_text_tensor(t, &shown,
                     (rounds ? 0 : ATTN_PRINT_SUPPRESS) | (print.full ? ATTN_PRINT_FULL : 0));
    attn_text_add(t, "\n");
}
