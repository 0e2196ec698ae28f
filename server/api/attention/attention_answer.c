/* Writes the answer of POST /v1/attention. As JSON it has the requested tensors in a fixed order,
 * then the other requested parts. As text it has each tensor as NumPy prints it, then heatmaps as
 * Unicode blocks, then messages. Nothing in the body depends on time, load or the client, so equal
 * requests get equal bodies. */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "api/runs/runs_api.h"

/* --- what is left out --- */

/* The tensors that an answer leaves out together, and how to get each; the last one only with
 * gradients. */
static const struct {
    const char *name, *how;
} omitted[] = {{"weights", "name \"weights\" in return, or ask for a heatmap"},
               {"gradients.scores", "name \"gradients.scores\" in return"}};

static size_t count_omitted(const srv_attention_call *call) {
    return call->backward ? 2 : 1;
}

/* Returns the values of each of these tensors, which have the shape of the weights. */
static double weight_count(const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    return (double)d->B * (double)d->Hq * (double)d->L * (double)d->S;
}

static void write_omitted(attn_json_text *j, const srv_attention_call *call) {
    attn_json_key_object(j, "omitted");
    for (size_t i = 0; i < count_omitted(call); i++)
        srv_omitted_write(j, omitted[i].name, weight_count(call), omitted[i].how);
    attn_json_object_end(j);
}

static void print_omitted(attn_text *t, const srv_attention_call *call) {
    for (size_t i = 0; i < count_omitted(call); i++)
        attn_text_add(t, "omitted: %s (%.0f values); %s\n", omitted[i].name, weight_count(call),
                      omitted[i].how);
}

/* --- JSON --- */

/* Writes the query offset of each batch entry; if all are equal, only one. */
static void write_offsets(attn_json_text *j, const attn_mask *mask) {
    size_t B = attn_mask_batches(mask), n = 1;
    for (size_t b = 1; b < B && n == 1; b++)
        if (attn_mask_offset(mask, b) != attn_mask_offset(mask, 0))
            n = B;
    attn_json_key_array(j, "offsets");
    for (size_t b = 0; b < n && b < B; b++)
        attn_json_int(j, attn_mask_offset(mask, b));
    attn_json_array_end(j);
}

static void write_dims(attn_json_text *j, const attn_attention_dims *d) {
    const struct {
        const char *name;
        size_t value;
    } rows[] = {{"B", d->B}, {"Hq", d->Hq},  {"Hkv", d->Hkv}, {"L", d->L},
                {"S", d->S}, {"P", d->past}, {"E", d->E},     {"Ev", d->Ev}};
    attn_json_key_object(j, "dims");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        attn_json_key_size(j, rows[i].name, rows[i].value);
    attn_json_object_end(j);
}

/* Writes the diagnostics. Costs are computed for one thread, so that the answer is the same on
 * every machine. */
static void write_diagnostics(attn_json_text *j, const srv_attention_call *call) {
    const attn_mask *mask = attn_attention_mask(call->op);
    srv_attention_bill bill;
    double computed;
    if (!srv_attention_count(call, call->want, 1, &bill)) {
        j->failed = true;
        return;
    }
    const bool skips = srv_attention_skips(call, mask, &computed);
    attn_json_key_object(j, "diagnostics");
    attn_json_key_string(j, "mask", attn_mask_words(mask, call->req->arena));
    attn_json_key_real(j, "kept", call->kept);
    write_offsets(j, mask);
    write_dims(j, &call->body.operation.dims);
    attn_json_key_string(j, "score", attn_score_name(call->body.operation.in.score.kind));
    attn_json_key_size(j, "num_parameters", call->body.operation.parameters);
    attn_json_key_real(j, "scale", attn_attention_scale(call->op));
    attn_json_key_real(j, "softcap", call->body.operation.in.softcap);
    attn_json_key_string(j, "dtype", attn_dtype_name(call->body.operation.dims.result));
    attn_json_key_string(j, "kernel", attn_attention_kernel(call->op));
    if (call->body.operation.dims.isa == ATTN_ISA_AMX)
        attn_json_key_string(j, "amx", attn_isa_tiles());
    attn_json_key_string(j, "precision", attn_precision_name(call->body.operation.dims.precision));
    attn_json_key_real(j, "num_cells", bill.cells);
    if (skips)
        attn_json_key_real(j, "num_computed_cells", computed);
    attn_json_key_real(j, "num_operations",
                       skips ? srv_attention_operations(call, &bill, computed) : bill.operations);
    attn_json_key_object(j, "bytes");
    attn_json_key_real(j, "work", bill.work);
    attn_json_key_real(j, "result", bill.result);
    attn_json_object_end(j);
    attn_json_object_end(j);
}

static void write_verification(attn_json_text *j, const attn_verification *v) {
    attn_json_key_object(j, "verification");
    attn_json_key_size(j, "num_rows", v->rows);
    attn_json_key_real(j, "output_error", v->output_error);
    attn_json_key_real(j, "logsumexp_error", v->logsumexp_error);
    attn_json_object_end(j);
}

/* Writes the requested tensors. Large tensors take a while, so the deadline is checked after each.
 * false: the deadline has passed or the client has left. */
static bool write_tensors(attn_json_text *j, const srv_attention_call *call) {
    srv_result rows[SRV_RESULTS];
    attn_error err = {0};
    size_t n = srv_attention_results(call, call->want, rows);
    for (size_t i = 0; i < n; i++) {
        const bool follows = i > 0 && rows[i - 1].part, goes_on = i + 1 < n && rows[i + 1].part;
        if (!rows[i].part || !follows)
            attn_json_key(j, rows[i].name);
        if (rows[i].part) {
            if (!follows)
                attn_json_object(j);
            attn_json_key(j, rows[i].part);
        }
        srv_json_tensor(j, rows[i].tensor);
        if (rows[i].part && !goes_on)
            attn_json_object_end(j);
        if (attn_control_check(&call->req->control, &err))
            return srv_problem_error(call->req, &err);
    }
    return true;
}

void srv_attention_json(srv_attention_call *call, attn_json_text *j) {
    if (!j->aside)
        attn_json_reserve(j, (size_t)call->bill.text);
    if (!write_tensors(j, call))
        return;
    if (call->backward)
        srv_gradients_write(j, call);
    if (call->heatmap)
        srv_heat_write(j, "heatmap", &call->maps, &call->body.heatmap, &call->body.labels);
    if (call->analyses) {
        attn_json_key_object(j, "analysis");
        srv_analysis_members(j, &call->analysis);
        attn_json_object_end(j);
    }
    if (call->run)
        srv_run_member(j, call->run);
    if (call->weights_omitted)
        write_omitted(j, call);
    if (call->body.verify)
        write_verification(j, &call->verification);
    if (call->warnings.count > 0)
        srv_warnings_write(j, &call->warnings);
    if (call->body.explain)
        write_diagnostics(j, call);
}

/* --- text --- */

static void print_diagnostics(attn_text *t, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_mask *mask = attn_attention_mask(call->op);
    srv_attention_bill bill;
    double computed;
    if (!srv_attention_count(call, call->want, 1, &bill)) {
        t->failed = true;
        return;
    }
    const bool skips = srv_attention_skips(call, mask, &computed);
    attn_text_add(t, "mask: %s\n", attn_mask_words(mask, call->req->arena));
    attn_text_add(t, "kept: %.4g %% of %.6g cells\n", 100 * call->kept, bill.cells);
    if (skips)
        attn_text_add(t, "computed: %.4g %% of the cells\n",
                      bill.cells > 0 ? 100 * computed / bill.cells : 0);
    attn_text_add(t, "score: %s, %zu parameters\n",
                  attn_score_name(call->body.operation.in.score.kind),
                  call->body.operation.parameters);
    attn_text_add(t, "dims: B %zu, Hq %zu, Hkv %zu, L %zu, S %zu, past %zu, E %zu, Ev %zu\n", d->B,
                  d->Hq, d->Hkv, d->L, d->S, d->past, d->E, d->Ev);
    attn_text_add(t, "kernel: %s%s, precision %s\n", attn_attention_kernel(call->op),
                  d->isa != ATTN_ISA_AMX                    ? ""
                  : strcmp(attn_isa_tiles(), "native") == 0 ? " (native)"
                                                            : " (emulated)",
                  attn_precision_name(d->precision));
    attn_text_add(t, "cost: %.6g operations, %.0f bytes of results, %.0f bytes of scratch\n",
                  skips ? srv_attention_operations(call, &bill, computed) : bill.operations,
                  bill.result, bill.work);
}

void srv_attention_text(void *data, attn_text *t) {
    srv_attention_call *call = data;
    const attn_verification *v = &call->verification;
    srv_result rows[SRV_RESULTS];
    size_t n = srv_attention_results(call, call->want, rows);
    for (size_t i = 0; i < n; i++) {
        const char *path = srv_result_path(call, &rows[i]);
        srv_text_tensor(t, path ? path : rows[i].name, rows[i].tensor,
                        (srv_print){(int)call->body.decimals, call->body.full});
    }
    if (call->backward)
        srv_gradients_text(t, call);
    if (call->heatmap)
        srv_heat_text(t, &call->maps, &call->body.labels, NULL);
    if (call->analyses)
        srv_analysis_text(t, &call->analysis);
    if (call->weights_omitted)
        print_omitted(t, call);
    srv_run_print(t, call->run);
    if (call->body.verify)
        attn_text_add(t,
                      "verified: %zu rows in float64, largest difference of output %.3g of the "
                      "largest value, of logsumexp %.3g\n",
                      v->rows, v->output_error, v->logsumexp_error);
    srv_warnings_text(t, &call->warnings);
    if (call->body.explain)
        print_diagnostics(t, call);
}
