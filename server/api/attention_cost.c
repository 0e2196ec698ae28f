/* What a run will cost, from shapes alone: admission, explain and dry_run read the same bill. */
#include <math.h>
#include <string.h>

#include "api/attention_call.h"
#include "request/shared.h"

/* Most bytes of JSON that a result byte becomes: a float32 takes up to 15 and a comma, a float64 26
 * with it, either of them 33 when it is rounded; cells of a heatmap no more, and its runs and edges
 * less than their 24 bytes. The writer takes that room at once (attention_answer.c). */
#define TEXT_OF_TENSORS 4.0
#define TEXT_OF_ROUNDED 8.25
#define TEXT_OF_HEATMAP 4.0
/* Brackets and commas of a row of each of four tensors, which empty rows have too. */
#define TEXT_OF_ROWS 32.0
/* What tanh costs beside a multiply-add, and a row in double beside one of the table. */
#define TANH_OPERATIONS   10.0
#define DOUBLE_OPERATIONS 16.0
/* What a score cell costs whatever its width: the exponential, and each of a table of positions and
 * the random number of a dropped weight. */
#define CELL_OPERATIONS 10.0

typedef struct list {
    srv_result *rows;
    size_t count;
    unsigned want;
} list;

static void add_result(list *l, const char *name, unsigned want, const attn_tensor *tensor,
                       attn_dtype dtype, int rank, const size_t *dims) {
    if (!(want & l->want))
        return;
    srv_result *row = &l->rows[l->count++];
    *row = (srv_result){.name = name, .tensor = tensor, .want = want, .rank = rank, .values = 1};
    memcpy(row->dims, dims, sizeof row->dims);
    for (int i = 0; i < rank; i++)
        row->values *= (double)dims[i];
    row->bytes = row->values * (double)attn_dtype_size(dtype);
}

static void add_present(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const attn_tensor *past = &call->shaped->past_key;
    const attn_results *r = &call->results;
    bool heads = past->rank ? past->rank == d->batch_rank + 3 : d->has_heads;
    size_t dims[ATTN_MAX_RANK];
    int rank = d->batch_rank;
    memcpy(dims, d->batch, sizeof dims);
    if (heads)
        dims[rank++] = d->Hkv;
    dims[rank++] = d->S;
    dims[rank] = d->Ek;
    add_result(l, "present_key", ATTN_WANT_PRESENT, &r->present_key, d->result, rank + 1, dims);
    dims[rank] = d->Ev;
    add_result(l, "present_value", ATTN_WANT_PRESENT, &r->present_value, d->result, rank + 1, dims);
}

size_t srv_attention_results(const srv_attention_call *call, unsigned want,
                             srv_result rows[SRV_RESULTS]) {
    const attn_attention_dims *d = &call->dims;
    const attn_results *r = &call->results;
    const attn_tensor *w_o = &call->projections.w_o;
    attn_dtype output = w_o->rank && w_o->dtype == ATTN_F64 ? ATTN_F64 : d->result;
    list l = {.rows = rows, .want = want};
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, d->output, sizeof dims);
    if (w_o->rank)
        dims[d->output_rank - 1] = w_o->dims[0];
    add_result(&l, "output", ATTN_WANT_OUTPUT, &r->output, output, d->output_rank, dims);
    add_result(&l, "weights", ATTN_WANT_WEIGHTS, &r->weights, d->result, d->weights_rank,
               d->weights);
    add_result(&l, "weights_dropped", ATTN_WANT_WEIGHTS_DROPPED, &r->weights_dropped, d->result,
               d->weights_rank, d->weights);
    add_result(&l, "logsumexp", ATTN_WANT_LOGSUMEXP, &r->logsumexp, d->result, d->rows_rank,
               d->rows);
    add_result(&l, "scores", ATTN_WANT_SCORES, &r->scores, d->result, d->weights_rank, d->weights);
    if (want & ATTN_WANT_PRESENT)
        add_present(&l, call);
    return l.count;
}

/* Rows of queries and of keys; an axis of 0 counts as 1, as its brackets are written. */
static double count_rows(const attn_attention_dims *d) {
    double entries = 1;
    for (int i = 0; i < d->batch_rank; i++)
        entries *= fmax((double)d->batch[i], 1);
    return entries * (fmax((double)d->Hq, 1) * fmax((double)d->L, 1) +
                      fmax((double)d->Hkv, 1) * fmax((double)d->S, 1));
}

static bool fail(const srv_attention_call *call, const attn_error *err) {
    srv_problem_error(call->req, err);
    return false;
}

static bool add_heatmap(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    const attn_attention_dims *d = &call->dims;
    attn_cost heat;
    attn_error err = {0};
    if (!call->heatmap)
        return true;
    if (attn_heatmap_cost(&call->heat, d->B, d->Hq, d->L, d->S, slots, &heat, &err)) {
        srv_heat_problem(call->req, &err);
        return false;
    }
    bill->text += TEXT_OF_HEATMAP * (double)heat.result_bytes;
    bill->operations += heat.operations;
    if (attn_size_add(bill->work_bytes, heat.work_bytes, &bill->work_bytes) &&
        attn_size_add(bill->result_bytes, heat.result_bytes, &bill->result_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/heatmap", "its size is beyond what can be counted");
    return false;
}

static bool add_store(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost run;
    attn_error err = {0};
    if (!call->body.store)
        return true;
    if (attn_run_cost(&call->dims, slots, &run, &err))
        return fail(call, &err);
    bill->operations += run.operations;
    if (attn_size_add(bill->work_bytes, run.work_bytes, &bill->work_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/store", "its size is beyond what can be counted");
    return false;
}

static bool add_analysis(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost cost;
    double text;
    if (!call->analyses)
        return true;
    if (!srv_analysis_cost(&call->analysis, slots, &cost, &text))
        return false;
    bill->text += text;
    bill->operations += cost.operations;
    if (attn_size_add(bill->work_bytes, cost.work_bytes, &bill->work_bytes) &&
        attn_size_add(bill->result_bytes, cost.result_bytes, &bill->result_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/analysis", "its size is beyond what can be counted");
    return false;
}

static bool add_gradients(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost back;
    attn_error err = {0};
    if (!call->backward)
        return true;
    if (!srv_gradients_cost(call, slots, &back, &err))
        return fail(call, &err);
    const size_t tensors = srv_gradients_bytes(call);
    const size_t rest = back.result_bytes > tensors ? back.result_bytes - tensors : 0;
    bill->operations += back.operations;
    bill->text += TEXT_OF_ROUNDED * (double)back.result_bytes;
    if (attn_size_add(bill->work_bytes, back.work_bytes, &bill->work_bytes) &&
        attn_size_add(bill->work_bytes, rest, &bill->work_bytes) &&
        attn_size_add(bill->result_bytes, tensors, &bill->result_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/grad_output", "its size is beyond what can be counted");
    return false;
}

static bool add_projections(const srv_attention_call *call, srv_attention_bill *bill) {
    attn_cost around;
    attn_error err = {0};
    if (!call->projections.num_heads)
        return true;
    if (attn_projections_cost(&call->in, &call->projections, &around, &err))
        return fail(call, &err);
    bill->operations += around.operations;
    if (attn_size_add(bill->work_bytes, around.work_bytes, &bill->work_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/projections",
                "their size is beyond what can be counted");
    return false;
}

static double cell_operations(const srv_attention_call *call) {
    const attn_inputs *in = call->shaped;
    return CELL_OPERATIONS * (1 + (in->position.kind != ATTN_POSITION_NONE) + (in->dropout_p > 0)) +
           TANH_OPERATIONS * (in->softcap > 0);
}

bool srv_attention_count(const srv_attention_call *call, unsigned want, size_t slots,
                         srv_attention_bill *out) {
    const attn_attention_dims *d = &call->dims;
    unsigned computed = want | (srv_attention_computes(call) & ~call->want);
    srv_result rows[SRV_RESULTS];
    attn_cost cost;
    attn_error err = {0};
    double tensors = 0;
    if (attn_attention_cost(d, computed, slots, &cost, &err))
        return fail(call, &err);
    size_t n = srv_attention_results(call, want, rows);
    for (size_t i = 0; i < n; i++)
        tensors += rows[i].bytes;
    srv_attention_bill bill = {.cells = cost.cells, .operations = cost.operations};
    bill.result_bytes = (size_t)tensors;
    /* Statistics of the rows, alignment, and results that only verification needs are scratch. */
    double rest = (double)cost.result_bytes - tensors;
    if (!attn_size_add(cost.work_bytes, rest > 0 ? (size_t)rest : 0, &bill.work_bytes)) {
        srv_problem(call->req, SRV_TOO_LARGE, NULL, "its size is beyond what can be counted");
        return false;
    }
    bill.text = (call->body.decimals < 0 ? TEXT_OF_TENSORS : TEXT_OF_ROUNDED) * tensors +
                TEXT_OF_ROWS * count_rows(d);
    if (!add_projections(call, &bill) || !add_heatmap(call, slots, &bill) ||
        !add_gradients(call, slots, &bill) || !add_store(call, slots, &bill) ||
        !add_analysis(call, slots, &bill))
        return false;
    bill.placed = bill.operations + DOUBLE_OPERATIONS * 2 * (double)call->body.verify *
                                        (double)d->S * (double)(d->score_width + d->Ev);
    bill.placed += cell_operations(call) * cost.cells;
    if (call->in.score.v.rank)
        bill.placed += TANH_OPERATIONS * cost.cells * (double)d->score_width;
    *out = bill;
    return true;
}

bool srv_attention_within(const srv_attention_call *call, const srv_attention_bill *bill) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    double most = req->app->config->max_cells;
    if (bill->cells > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                          "B * Hq * L * S = %zu * %zu * %zu * %zu = %.4g score cells; at most %.4g "
                          "are allowed",
                          d->B, d->Hq, d->L, d->S, bill->cells, most);
        return false;
    }
    if (bill->operations > req->app->config->max_operations) {
        most = req->app->config->max_operations;
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_operations",
                          "%.4g score cells and what belongs to them need %.4g floating-point "
                          "operations; at most %.4g are allowed",
                          bill->cells, bill->operations, most);
        return false;
    }
    double limit = (double)attn_arena_limit(req->arena);
    double need = (double)attn_arena_used(req->arena) + (double)bill->work_bytes +
                  (double)bill->result_bytes + bill->text;
    if (need <= limit)
        return true;
    srv_problem_limit(req, SRV_TOO_LARGE, NULL, limit, "max_request_bytes",
                      "inputs, results (%zu bytes), scratch (%zu bytes) and the answer's text "
                      "(up to %.0f bytes) need %.0f bytes; a request may use %.0f: ask for less "
                      "in return, or for a heatmap instead of weights",
                      bill->result_bytes, bill->work_bytes, bill->text, need, limit);
    return false;
}
