/* The answer of POST /v1/attention for a terminal: each tensor as NumPy prints it, heatmaps in
 * Unicode blocks, then what there is to say. */
#include <math.h>

#include "attention_call.h"

/* `decimals` for text: a rounded copy, which then prints its own shortest digits. */
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

static void print_tensor(attn_text *t, const char *name, const attn_tensor *tensor, int decimals) {
    if (tensor->rank == 0)
        return;
    attn_tensor shown = *tensor;
    if (decimals >= 0 && attn_tensor_is_dense(&shown) &&
        !round_tensor(&shown, t->arena, decimals)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "%s:\n", name);
    attn_text_tensor(t, &shown);
    attn_text_add(t, "\n");
}

static void print_diagnostics(attn_text *t, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const attn_mask *mask = attn_attention_mask(call->op);
    srv_attention_bill bill;
    if (!srv_attention_count(call, call->want, 1, &bill)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "mask: %s\n", attn_mask_words(mask, call->req->arena));
    attn_text_add(t, "kept: %.4g %% of %.6g cells\n", 100 * srv_mask_kept(mask, bill.cells),
                  bill.cells);
    attn_text_add(t, "score: %s, %zu parameters\n", attn_score_name(call->in.score.kind),
                  call->parameters);
    attn_text_add(t, "dims: B %zu, Hq %zu, Hkv %zu, L %zu, S %zu, past %zu, E %zu, Ev %zu\n", d->B,
                  d->Hq, d->Hkv, d->L, d->S, d->past, d->E, d->Ev);
    attn_text_add(t, "kernel: %s\n", attn_attention_kernel(call->op));
    attn_text_add(t, "cost: %.6g operations, %zu bytes of results, %zu bytes of scratch\n",
                  bill.operations, bill.result_bytes, bill.work_bytes);
}

void srv_attention_text(srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const attn_verification *v = &call->verification;
    srv_result rows[SRV_RESULTS];
    attn_text t = srv_plain_begin(call->req);
    srv_attention_results(call, rows);
    for (size_t i = 0; i < SRV_RESULTS; i++)
        if (rows[i].want & call->want)
            print_tensor(&t, rows[i].name, srv_attention_tensor(call, i), (int)call->body.decimals);
    if (call->heatmap)
        srv_heat_text(&t, &call->maps, &call->body.labels);
    if (call->weights_omitted)
        attn_text_add(&t,
                      "omitted: weights (%.0f values); name \"weights\" in return to get them\n",
                      (double)d->B * (double)d->Hq * (double)d->L * (double)d->S);
    if (call->body.verify)
        attn_text_add(&t,
                      "verified: %zu rows in float64, largest difference of output %.3g of the "
                      "largest value, of logsumexp %.3g\n",
                      v->rows, v->output_error, v->logsumexp_error);
    srv_warnings_text(&t, &call->warnings);
    if (call->body.explain)
        print_diagnostics(&t, call);
    srv_plain_end(call->req, &t);
}
