/* Computes the cost of a request POST /v1/attention (the bill) from the shapes of its inputs, and
 * answers dry runs. Admission, explain and dry_run use the same bill. A dry run checks everything
 * except the values of query, key and value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "api/common/dry.h"
#include "request/shared.h"

/* --- the bill --- */

/* Upper bounds of the bytes of JSON for each byte of a tensor. A float32 (4 bytes) takes up to 16
 * characters with its comma, a float64 (8 bytes) up to 26, and a number that is rounded to
 * `decimals` up to 33. */
#define TEXT_OF_TENSORS 4.0
#define TEXT_OF_ROUNDED 8.25
/* Bytes of JSON for the brackets and commas of one row in each of four tensors, also if the row has
 * no numbers. */
#define TEXT_OF_ROWS 32.0

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

attn_stage srv_attention_stage(const srv_attention_call *call) {
    int stage = 0;
    while (!(call->body.score_stages >> stage & 1))
        stage++;
    return (attn_stage)stage;
}

static void add_scores(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const unsigned stages = call->body.score_stages;
    for (int stage = 0; stage < SRV_STAGES; stage++)
        if ((stages >> stage & 1) && (l->want & ATTN_WANT_SCORES)) {
            add_result(l, "scores", ATTN_WANT_SCORES, &call->scores[stage], d->result,
                       d->weights_rank, d->weights);
            if (stages & SRV_FLAGS_LIST)
                l->rows[l->count - 1].part = srv_stage_names[stage];
        }
}

static void drop_dim(size_t *dims, int rank, int from_end) {
    for (int a = rank - from_end; a < rank - 1; a++)
        dims[a] = dims[a + 1];
}

void srv_drop_axis(attn_tensor *t, int from_end) {
    if (t->rank <= from_end)
        return;
    drop_dim(t->dims, t->rank, from_end);
    *t = attn_tensor_dense(t->data, t->dtype, t->rank - 1, t->dims);
}

static int add_dims(size_t *dims, int rank, int count) {
    memmove(dims + count, dims, (size_t)rank * sizeof *dims);
    for (int a = 0; a < count; a++)
        dims[a] = 1;
    return rank + count;
}

void srv_add_axes(attn_tensor *t, int count) {
    if (t->rank)
        *t = attn_tensor_dense(t->data, t->dtype, add_dims(t->dims, t->rank, count), t->dims);
}

/* Returns the shape of the weights in the answer, which may have no head axis, as the number of its
 * axes. */
static int weights_shape(const srv_attention_call *call, size_t dims[ATTN_MAX_RANK]) {
    const attn_attention_dims *d = &call->dims;
    memcpy(dims, d->weights, sizeof d->weights);
    if (!call->body.average_attn_weights || !d->has_heads)
        return d->weights_rank;
    dims[d->batch_rank] = d->L;
    dims[d->batch_rank + 1] = d->S;
    return d->weights_rank - 1;
}

/* Adds the operands, and their products with the weights. */
static void add_operands(list *l, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    const int last = d->weights_rank - 1, drop = call->one_query;
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, d->weights, sizeof dims);
    dims[last] = d->E;
    if (drop)
        drop_dim(dims, last + 1, 2);
    add_result(l, "query", SRV_WANT_INPUTS, &call->query, d->result, last + 1 - drop, dims);
    memcpy(dims, d->weights, sizeof dims);
    if (d->has_heads)
        dims[d->batch_rank] = d->Hkv;
    dims[last - 1] = d->S;
    dims[last] = d->Ek;
    add_result(l, "key", SRV_WANT_INPUTS, &call->key, d->result, last + 1, dims);
    dims[last] = d->Ev;
    if (!call->valueless)
        add_result(l, "value", SRV_WANT_INPUTS, &call->value, d->result, last + 1, dims);
    if (last + 1 == ATTN_MAX_RANK)
        return;
    memcpy(dims, d->weights, sizeof dims);
    dims[last + 1] = d->Ev;
    if (drop)
        drop_dim(dims, last + 2, 3);
    add_result(l, "weighted_values", SRV_WANT_WEIGHTED_VALUES, &call->weighted_values, d->result,
               last + 2 - drop, dims);
}

size_t srv_attention_results(const srv_attention_call *call, unsigned want,
                             srv_result rows[SRV_RESULTS]) {
    const attn_attention_dims *d = &call->dims;
    const attn_results *r = &call->results;
    const attn_tensor *w_o = &call->body.projections.w_o;
    attn_dtype output = w_o->rank && w_o->dtype == ATTN_F64 ? ATTN_F64 : d->result;
    list l = {.rows = rows, .want = want};
    size_t dims[ATTN_MAX_RANK];
    memcpy(dims, d->output, sizeof dims);
    if (w_o->rank)
        dims[d->output_rank - 1] = w_o->dims[0];
    add_result(&l, "output", ATTN_WANT_OUTPUT, &r->output, output, d->output_rank, dims);
    const int weights_rank = weights_shape(call, dims);
    add_result(&l, "weights", ATTN_WANT_WEIGHTS, &r->weights, d->result, weights_rank, dims);
    add_result(&l, "weights_dropped", ATTN_WANT_WEIGHTS_DROPPED, &r->weights_dropped, d->result,
               weights_rank, dims);
    add_result(&l, "logsumexp", ATTN_WANT_LOGSUMEXP, &r->logsumexp, d->result, d->rows_rank,
               d->rows);
    add_result(&l, "row_sums", SRV_WANT_ROW_SUMS, &call->row_sums, d->result, d->rows_rank,
               d->rows);
    add_scores(&l, call);
    for (size_t i = 0; call->one_query && i < l.count; i++)
        drop_dim(rows[i].dims, rows[i].rank--,
                 rows[i].want & (ATTN_WANT_LOGSUMEXP | SRV_WANT_ROW_SUMS) ? 1 : 2);
    for (size_t i = 0; i < l.count; i++)
        rows[i].rank = add_dims(rows[i].dims, rows[i].rank, call->extra_axes);
    if (want & ATTN_WANT_PRESENT)
        add_present(&l, call);
    add_operands(&l, call);
    return l.count;
}

const char *srv_result_path(const srv_attention_call *call, const srv_result *row) {
    char path[64];
    if (!row->part)
        return row->name;
    const int n = snprintf(path, sizeof path, "%s/%s", row->name, row->part);
    return attn_arena_text(call->req->arena, path, (size_t)n);
}

/* Returns the number of rows of queries plus that of keys, over all batch entries and heads. An
 * axis of 0 counts as 1, because its brackets are written. */
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

static bool add_norms(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost norms;
    attn_error err = {0};
    if (attn_value_norms_cost(&call->dims, srv_attention_w_o(call), slots, &norms, &err))
        return fail(call, &err);
    bill->operations += norms.operations;
    bill->plain += norms.operations;
    if (attn_size_add(bill->work_bytes, norms.work_bytes, &bill->work_bytes) &&
        attn_size_add(bill->work_bytes, norms.result_bytes, &bill->work_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/heatmap", "its size is beyond what can be counted");
    return false;
}

static bool add_heatmap(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    const attn_attention_dims *d = &call->dims;
    attn_cost heat;
    attn_error err = {0};
    if (attn_heatmap_cost(&call->heat, d->B, d->Hq, d->L, d->S, slots, &heat, &err)) {
        srv_heat_problem(call->req, &err);
        return false;
    }
    if (call->body.heatmap.of == SRV_OF_VALUE_NORM && !add_norms(call, slots, bill))
        return false;
    bool fits = true;
    for (size_t s = 0; s < (call->stage_count ? call->stage_count : 1); s++) {
        bill->text += SRV_HEAT_TEXT * (double)heat.result_bytes;
        bill->operations += heat.operations;
        bill->plain += SRV_HEAT_WEIGHT * heat.operations;
        fits = fits && attn_size_add(bill->work_bytes, heat.work_bytes, &bill->work_bytes) &&
               attn_size_add(bill->result_bytes, heat.result_bytes, &bill->result_bytes);
    }
    if (fits)
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/heatmap", "its size is beyond what can be counted");
    return false;
}

static bool add_store(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost run;
    attn_error err = {0};
    if (attn_run_cost(&call->dims, slots, &run, &err))
        return fail(call, &err);
    bill->operations += run.operations;
    bill->stored = run.operations;
    if (attn_size_add(bill->work_bytes, run.work_bytes, &bill->work_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/store", "its size is beyond what can be counted");
    return false;
}

static bool add_analysis(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost cost;
    double text;
    if (!srv_analysis_cost(&call->analysis, slots, &cost, &text))
        return false;
    bill->text += text;
    bill->operations += cost.operations;
    bill->plain += SRV_ANALYSIS_WEIGHT * cost.operations;
    if (attn_size_add(bill->work_bytes, cost.work_bytes, &bill->work_bytes) &&
        attn_size_add(bill->result_bytes, cost.result_bytes, &bill->result_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/analysis", "its size is beyond what can be counted");
    return false;
}

static bool add_gradients(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost back;
    attn_error err = {0};
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
    if (attn_projections_cost(&call->body.in, &call->body.projections, &around, &err))
        return fail(call, &err);
    bill->operations += around.operations;
    if (attn_size_add(bill->work_bytes, around.work_bytes, &bill->work_bytes))
        return true;
    srv_problem(call->req, SRV_TOO_LARGE, "/projections",
                "their size is beyond what can be counted");
    return false;
}

/* Returns the operations of a score cell that do not depend on the width: SRV_CELL_OPERATIONS each
 * for the exponential, for a position bias, and for the random number of dropout. */
static double cell_operations(const srv_attention_call *call) {
    const attn_inputs *in = call->shaped;
    return SRV_CELL_OPERATIONS *
           (1 + (in->position.kind != ATTN_POSITION_NONE) + (in->dropout_p > 0));
}

/* Returns the number of tanh that a score cell needs. */
static double cell_tanh(const srv_attention_call *call) {
    const bool additive = call->body.in.score.v.rank > 0;
    return (call->body.in.softcap > 0) + (additive ? (double)call->dims.score_width : 0);
}

/* Returns the number of operations in double that `verify` needs to compute rows again. */
static double verify_operations(const srv_attention_call *call) {
    const attn_attention_dims *d = &call->dims;
    return 2 * (double)call->body.verify * (double)d->S * (double)(d->score_width + d->Ev);
}

/* Adds the cost of `runs` further runs for the scores of more stages to *cost. */
static bool add_stages(const srv_attention_call *call, size_t runs, size_t slots, attn_cost *cost,
                       attn_error *err) {
    attn_cost one;
    if (attn_attention_cost(&call->dims, ATTN_WANT_SCORES, slots, &one, err))
        return false;
    for (size_t i = 0; i < runs; i++) {
        cost->operations += one.operations;
        if (!attn_size_add(cost->work_bytes, one.work_bytes, &cost->work_bytes) ||
            !attn_size_add(cost->result_bytes, one.result_bytes, &cost->result_bytes)) {
            attn_fail(err, ATTN_ELIMIT, "score_stage", "more bytes than can be counted");
            return false;
        }
    }
    return true;
}

bool srv_attention_count(const srv_attention_call *call, unsigned want, size_t slots,
                         srv_attention_bill *out) {
    const attn_attention_dims *d = &call->dims;
    unsigned computed = (want & SRV_WANT_LIBRARY) | (srv_attention_computes(call) & ~call->want);
    srv_result rows[SRV_RESULTS];
    attn_cost cost;
    attn_error err = {0};
    double tensors = 0, of_run = 0, means = 0;
    if (attn_attention_cost(d, computed, slots, &cost, &err))
        return fail(call, &err);
    size_t n = srv_attention_results(call, want, rows);
    size_t stages = 0;
    for (size_t i = 0; i < n; i++) {
        tensors += rows[i].bytes;
        of_run += rows[i].want & SRV_WANT_LIBRARY ? rows[i].bytes : 0;
        stages += rows[i].want == ATTN_WANT_SCORES;
        if (call->body.average_attn_weights && d->has_heads &&
            (rows[i].want & (ATTN_WANT_WEIGHTS | ATTN_WANT_WEIGHTS_DROPPED)))
            means += rows[i].bytes + 2 * sizeof(double) * (double)d->S;
    }
    if (stages > 1 && !add_stages(call, stages - 1, slots, &cost, &err))
        return fail(call, &err);
    srv_attention_bill bill = {.cells = cost.cells, .operations = cost.operations};
    if (want & SRV_WANT_WEIGHTED_VALUES)
        bill.operations += cost.cells * (double)d->Ev;
    bill.result_bytes = (size_t)tensors;
    /* The other results of the library count as scratch: statistics of the rows, padding for
     * alignment, results that only `verify` needs, and weights of which the mean is answered. */
    double rest = (double)cost.result_bytes - of_run + means;
    if (!attn_size_add(cost.work_bytes, rest > 0 ? (size_t)rest : 0, &bill.work_bytes)) {
        srv_problem(call->req, SRV_TOO_LARGE, NULL, "its size is beyond what can be counted");
        return false;
    }
    bill.text = (call->body.decimals < 0 ? TEXT_OF_TENSORS : TEXT_OF_ROUNDED) * tensors +
                TEXT_OF_ROWS * count_rows(d);
    if ((call->body.projections.num_heads && !add_projections(call, &bill)) ||
        (call->heatmap && !add_heatmap(call, slots, &bill)) ||
        (call->backward && !add_gradients(call, slots, &bill)) ||
        (call->body.store && !add_store(call, slots, &bill)) ||
        (call->analyses && !add_analysis(call, slots, &bill)))
        return false;
    bill.tanh = cell_tanh(call) * cost.cells;
    bill.placed = bill.operations + cell_operations(call) * cost.cells +
                  SRV_TANH_OPERATIONS * bill.tanh + SRV_DOUBLE_OPERATIONS * verify_operations(call);
    *out = bill;
    return true;
}

bool srv_attention_skips(const srv_attention_call *call, const attn_mask *mask, double *computed) {
    const attn_mask_spec *spec = &call->shaped->mask;
    for (size_t i = 0; i < spec->count; i++)
        if (spec->layers[i].kind == ATTN_LAYER_PATTERN ||
            spec->layers[i].kind == ATTN_LAYER_WINDOW) {
            *computed = attn_attention_visited(&call->dims, mask).cells;
            return true;
        }
    return false;
}

double srv_attention_operations(const srv_attention_call *call, const srv_attention_bill *bill,
                                double computed) {
    const double skipped = bill->cells - computed;
    return bill->operations - skipped * attn_attention_cell_operations(&call->dims);
}

/* Returns how many cells of the bill the pass computes after those that it skips by the positions
 * of queries and keys. If they cannot be counted, it returns all cells. */
static double computed_cells(const srv_attention_call *call, const srv_attention_bill *bill) {
    attn_mask_spec positions = call->shaped->mask;
    attn_mask *mask;
    positions.count = 0;
    for (size_t i = 0; i < call->shaped->mask.count; i++) {
        const attn_layer_kind kind = positions.layers[i].kind;
        if (kind == ATTN_LAYER_CAUSAL || kind == ATTN_LAYER_WINDOW || kind == ATTN_LAYER_PATTERN ||
            kind == ATTN_LAYER_LENGTHS)
            positions.layers[positions.count++] = positions.layers[i];
    }
    if (!positions.count ||
        attn_attention_mask_new(&positions, &call->dims, call->req->arena, &mask, NULL) != ATTN_OK)
        return bill->cells;
    return attn_attention_visited(&call->dims, mask).cells;
}

double srv_attention_needed(const srv_attention_call *call, const srv_attention_bill *bill) {
    return srv_attention_operations(call, bill, computed_cells(call, bill));
}

bool srv_attention_within(const srv_attention_call *call, const srv_attention_bill *bill) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    double most = req->app->config->max_cells, cells = bill->cells, operations = bill->operations;
    if ((cells > most || operations > req->app->config->max_operations) && !call->heatmap &&
        !call->analyses) { /* these two read all cells */
        cells = computed_cells(call, bill);
        operations = srv_attention_operations(call, bill, cells);
    }
    if (cells > most) {
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_cells",
                          "B * Hq * L * S = %zu * %zu * %zu * %zu = %.4g score cells, of which "
                          "%.4g are computed; at most %.4g are allowed",
                          d->B, d->Hq, d->L, d->S, bill->cells, cells, most);
        return false;
    }
    if (operations > req->app->config->max_operations) {
        most = req->app->config->max_operations;
        srv_problem_limit(req, SRV_TOO_LARGE, NULL, most, "max_operations",
                          "%.4g score cells need %.4g floating-point operations in all; at most "
                          "%.4g are allowed",
                          cells, operations, most);
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

/* --- dry_run --- */

#define PIECE_OPERATIONS 1e8 /* operations of one task of the worker pool */

/* Checks score, position and sinks by making an operation without queries and keys. */
static bool check_parameters(const srv_attention_call *call) {
    attn_inputs empty = *call->shaped;
    attn_tensor *const sides[] = {&empty.query, &empty.key, &empty.value};
    attn_attention *op;
    attn_error err = {0};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        if (sides[i]->rank)
            sides[i]->dims[sides[i]->rank - (empty.layout == ATTN_BLHE ? 3 : 2)] = 0;
    empty.past_key.rank = empty.past_value.rank = 0;
    empty.mask.count = 0;
    return !attn_attention_new(&empty, call->req->arena, &op, &err) || fail(call, &err);
}

static bool compile_mask(const srv_attention_call *call, attn_mask **mask) {
    attn_error err = {0};
    return !attn_attention_mask_new(&call->shaped->mask, &call->dims, call->req->arena, mask,
                                    &err) ||
           fail(call, &err);
}

static bool has_values(const attn_mask_spec *spec) {
    for (size_t i = 0; i < spec->count; i++)
        if (spec->layers[i].values.rank && spec->layers[i].kind != ATTN_LAYER_LENGTHS)
            return true;
    return false;
}

/* Returns the operations for elements that the pass packs or writes: queries, keys, values and
 * outputs. Both halves of a pass under a strided pattern pack them. */
static double row_operations(const attn_attention_dims *d) {
    const double queries = (double)d->B * (double)d->Hq * (double)d->L;
    const double keys = (double)d->B * (double)d->Hkv * (double)d->S;
    return (d->stride ? 2 : 1) * SRV_ROW_OPERATIONS * (queries + keys) *
           (double)(d->score_width + d->Ev);
}

/* Returns the work of a run that visits so many cells, to predict its time. Each matrix that is
 * filled in a second pass (scores, weights after dropout, heatmaps, analyses, gradients) counts as
 * half of the first pass. Analyses and heatmaps count all cells. */
static srv_load load_of(const srv_attention_call *call, const srv_attention_bill *bill,
                        const attn_visits *visits) {
    const attn_attention_dims *d = &call->dims;
    const unsigned want = srv_attention_computes(call);
    const double heads = (double)d->B * (double)d->Hq;
    const int again = ((want & ATTN_WANT_SCORES) != 0) + ((want & ATTN_WANT_WEIGHTS_DROPPED) != 0) +
                      call->heatmap + call->analyses + call->backward;
    const double passes = 1 + 0.5 * again;
    const double share = bill->cells > 0 ? passes * visits->cells / bill->cells : 0;
    const double cells =
        passes * (srv_attention_operations(call, bill, visits->cells) +
                  cell_operations(call) * visits->cells + SRV_EDIT_OPERATIONS * visits->edited);
    const bool wide = d->result == ATTN_F64;
    return (srv_load){
        .operations = wide ? 0 : cells + row_operations(d),
        .tanh = share * bill->tanh,
        .plain = bill->plain + (wide ? cells : 0),
        .alone = (has_values(&call->body.in.mask) ? SRV_MASK_WEIGHT * visits->cells : 0) +
                 SRV_VERIFY_WEIGHT * verify_operations(call),
        .text = bill->text / 2,
        .memory = (double)bill->result_bytes + (double)bill->work_bytes,
        .pieces = heads * fmax(1, ceil(bill->operations / fmax(1, heads) / PIECE_OPERATIONS))};
}

static bool shapes(const srv_attention_call *call, srv_dry *dry) {
    const attn_attention_dims *d = &call->dims;
    const unsigned always =
        ATTN_WANT_WEIGHTS | ATTN_WANT_LOGSUMEXP | (call->valueless ? 0 : ATTN_WANT_OUTPUT);
    size_t maps[3];
    attn_error err = {0};
    srv_result rows[SRV_RESULTS];
    size_t n = srv_attention_results(call, always | call->want, rows);
    for (size_t i = 0; i < n; i++) {
        const char *name = srv_result_path(call, &rows[i]);
        if (!name) {
            srv_problem_memory(call->req, NULL, "no memory is left for the shapes");
            return false;
        }
        srv_dry_shape(dry, name, rows[i].rank, rows[i].dims);
    }
    if (call->backward && !srv_gradients_shapes(call, dry))
        return false;
    if (!call->heatmap)
        return true;
    if (attn_heatmap_shape(&call->heat, d->B, d->Hq, d->L, d->S, &maps[0], maps + 1, &err)) {
        srv_heat_problem(call->req, &err);
        return false;
    }
    srv_dry_shape(dry, "heatmap", 3, maps);
    return true;
}

static bool bills(const srv_attention_call *call, srv_attention_bill *bill, srv_dry *dry) {
    size_t slots = attn_pool_slots(call->req->app->pool);
    const unsigned weights = ATTN_WANT_WEIGHTS;
    srv_attention_bill with, without;
    if (!srv_attention_count(call, call->want, slots, bill) ||
        !srv_attention_count(call, call->want | weights, slots, &with) ||
        !srv_attention_count(call, call->want & ~weights, slots, &without))
        return false;
    dry->cells = bill->cells;
    dry->operations = bill->operations;
    dry->result = (double)bill->result_bytes;
    dry->work = (double)bill->work_bytes;
    dry->with_weights = (double)with.result_bytes;
    dry->without_weights = (double)without.result_bytes;
    dry->fits = srv_attention_within(call, bill);
    return true;
}

/* Sets the cost of a recurrent layer of the same width D for comparison: L steps, each of D x D
 * multiply-adds for each batch entry. */
static void compare(const srv_attention_call *call, srv_dry *dry) {
    const attn_attention_dims *d = &call->dims;
    const attn_tensor *q = &call->body.in.query;
    const double D = call->body.projections.num_heads ? (double)q->dims[q->rank - 1]
                                                      : (double)d->Hq * (double)d->E;
    dry->rnn_steps = (double)d->L;
    dry->rnn_operations = (double)d->B * (double)d->L * D * D;
    dry->rnn_products = dry->cells * (double)d->E;
}

srv_outcome srv_attention_dry(srv_attention_call *call) {
    srv_request *req = call->req;
    const attn_attention_dims *d = &call->dims;
    srv_attention_bill bill;
    srv_dry dry = {.learns = true, .parameters = call->parameters};
    attn_mask *mask;
    if (req->in_place && !srv_predictor_ready(req->app->predictor))
        return SRV_DEFER;
    if (!bills(call, &bill, &dry) || !check_parameters(call) || !compile_mask(call, &mask) ||
        !shapes(call, &dry))
        return SRV_DONE;
    dry.mask = attn_mask_words(mask, req->arena);
    compare(call, &dry);
    const attn_visits visits = attn_attention_visited(d, mask);
    if (srv_attention_skips(call, mask, &dry.computed)) {
        dry.operations = srv_attention_operations(call, &bill, visits.cells);
        dry.has_computed = true;
    }
    dry.load = load_of(call, &bill, &visits);
    return srv_dry_reply(req, &dry);
}
