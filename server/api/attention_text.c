/* The answer of POST /v1/attention for a terminal: each tensor as NumPy prints it, heatmaps in
 * Unicode blocks, then what there is to say. */
#include <string.h>

#include "api/attention_call.h"

static void print_diagnostics(attn_text *t, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const attn_mask *mask = attn_attention_mask(call->op);
    srv_attention_bill bill;
    if (!srv_attention_count(call, call->want, 1, &bill)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "mask: %s\n", attn_mask_words(mask, call->req->arena));
    attn_text_add(t, "kept: %.4g %% of %.6g cells\n", 100 * call->kept, bill.cells);
    attn_text_add(t, "score: %s, %zu parameters\n", attn_score_name(call->in.score.kind),
                  call->parameters);
    attn_text_add(t, "dims: B %zu, Hq %zu, Hkv %zu, L %zu, S %zu, past %zu, E %zu, Ev %zu\n", d->B,
                  d->Hq, d->Hkv, d->L, d->S, d->past, d->E, d->Ev);
    attn_text_add(t, "kernel: %s%s, precision %s\n", attn_attention_kernel(call->op),
                  d->isa != ATTN_ISA_AMX                    ? ""
                  : strcmp(attn_isa_tiles(), "native") == 0 ? " (native)"
                                                            : " (emulated)",
                  attn_precision_name(d->precision));
    attn_text_add(t, "cost: %.6g operations, %zu bytes of results, %zu bytes of scratch\n",
                  bill.operations, bill.result_bytes, bill.work_bytes);
}

void srv_attention_text(srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const attn_verification *v = &call->verification;
    srv_result rows[SRV_RESULTS];
    attn_text t = srv_plain_begin(call->req);
    size_t n = srv_attention_results(call, call->want, rows);
    for (size_t i = 0; i < n; i++)
        srv_plain_tensor(&t, rows[i].name, rows[i].tensor, (int)call->body.decimals);
    if (call->backward)
        srv_gradients_text(&t, call);
    if (call->heatmap)
        srv_heat_text(&t, &call->maps, &call->body.labels, NULL);
    if (call->analyses)
        srv_analysis_text(&t, &call->analysis);
    if (call->weights_omitted)
        attn_text_add(&t,
                      "omitted: weights (%.0f values); name \"weights\" in return to get them\n",
                      (double)d->B * (double)d->Hq * (double)d->L * (double)d->S);
    if (call->run)
        attn_text_add(&t, "run: %s (%zu bytes)\n", call->run->id, call->run->bytes);
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
