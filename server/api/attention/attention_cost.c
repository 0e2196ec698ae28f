/* Computes the cost of a request POST /v1/attention (the bill) from the shapes of its inputs, and
 * answers dry runs. Admission, explain and dry_run use the same bill. A dry run checks everything
 * except the values of query, key and value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "request/shared.h"
#include "wire/container.h"

/* --- the bill --- */

/* Upper bounds of the bytes of JSON for each byte of a tensor. A float32 (4 bytes) takes up to 16
 * characters with its comma, a float64 (8 bytes) up to 26, and a number that is rounded to
 * `decimals` up to 33. */
#define TEXT_OF_TENSORS 4.0
#define TEXT_OF_ROUNDED 8.25
/* Bytes of JSON for the brackets and commas of one row in each of four tensors. A row without
 * numbers has these bytes, too. */
#define TEXT_OF_ROWS 32.0

/* The time of a computation, as the number of float32 operations of the kernels that take the same
 * time. */
#define TANH_OPERATIONS   10.0  /* time of a tanh */
#define DOUBLE_OPERATIONS 16.0  /* time of an operation in double */
#define EDIT_OPERATIONS   250.0 /* time of a cell in a tile in which a mask hides cells */
/* Time of an operation of `verify`, as the number of operations in double that take the same time.
 * The number is above 1 because the operands are packed again for each verified row. */
#define PACKED_ANEW 3.5

/* Returns whether tensors are answered as binary data, so that they take no text. */
static bool is_binary(const srv_attention_call *call) {
    const srv_request *req = call->req;
    return req->parts ? req->parts->binary
                      : (req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY)) != 0;
}

/* Returns the number of rows of queries and keys together, over all batch entries and heads. An
 * axis of 0 counts as 1, because its brackets are written. */
static double count_rows(const attn_attention_dims *d) {
    double entries = 1;
    for (int i = 0; i < d->batch_rank; i++)
        entries *= fmax((double)d->batch[i], 1);
    return entries * (fmax((double)d->Hq, 1) * fmax((double)d->L, 1) +
                      fmax((double)d->Hkv, 1) * fmax((double)d->S, 1));
}

static bool add_norms(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost norms;
    attn_error err = {0};
    if (attn_value_norms_cost(&call->body.operation.dims, srv_attention_w_o(call), slots, &norms,
                              &err))
        return srv_problem_error(call->req, &err);
    bill->operations += norms.operations;
    bill->plain += norms.operations;
    bill->work += (double)norms.work_bytes + (double)norms.result_bytes;
    return true;
}

static bool add_heatmap(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    const attn_attention_dims d = attn_attention_map_dims(&call->body.operation.dims);
    const double maps = call->stage_count ? (double)call->stage_count : 1;
    attn_cost heat;
    if (!srv_heat_cost(call->req, &call->heat, &d, slots, call->call.dry_run, &heat,
                       &bill->exceeds))
        return false;
    /* An npy file holds a copy of the cells. All other answers hold the cells as text. */
    bill->text +=
        maps * (call->req->accept & SRV_ACCEPT_NPY ? 1 : SRV_HEAT_TEXT) * (double)heat.result_bytes;
    bill->operations += maps * heat.operations;
    bill->plain += maps * heat.operations;
    bill->work += maps * (double)heat.work_bytes;
    bill->result += maps * (double)heat.result_bytes;
    return call->body.heatmap.of != SRV_OF_VALUE_NORM || add_norms(call, slots, bill);
}

static bool add_store(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost run;
    attn_error err = {0};
    if (attn_run_cost(&call->body.operation.dims, slots, &run, &err))
        return srv_problem_error(call->req, &err);
    bill->operations += run.operations;
    bill->stored = run.operations;
    bill->work += (double)run.work_bytes;
    return true;
}

static bool add_analysis(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost cost;
    double text;
    if (!srv_analysis_cost(&call->analysis, slots, &cost, &text))
        return false;
    bill->text += text;
    bill->operations += cost.operations;
    bill->plain += cost.operations;
    bill->work += (double)cost.work_bytes;
    bill->result += (double)cost.result_bytes;
    return true;
}

static bool add_gradients(const srv_attention_call *call, size_t slots, srv_attention_bill *bill) {
    attn_cost back;
    attn_error err = {0};
    if (!srv_gradients_cost(call, slots, &back, &err))
        return srv_problem_error(call->req, &err);
    const double tensors = (double)srv_gradients_bytes(call);
    bill->operations += back.operations;
    bill->text += is_binary(call) ? 0 : TEXT_OF_ROUNDED * (double)back.result_bytes;
    bill->work += (double)back.work_bytes + fmax(0, (double)back.result_bytes - tensors);
    bill->result += tensors;
    return true;
}

static bool add_projections(const srv_attention_call *call, srv_attention_bill *bill) {
    attn_cost around;
    attn_error err = {0};
    if (attn_projections_cost(&call->body.operation.in, &call->body.operation.projections, &around,
                              &err))
        return srv_problem_error(call->req, &err);
    bill->operations += around.operations;
    bill->work += (double)around.work_bytes;
    return true;
}

/* Weights of normalisers other than softmax are computed one by one in double, and normalisers with
 * a threshold need several steps. Therefore a cell takes about as long as this many
 * exponentials. */
#define NORMALIZER_CELLS 40

/* Returns the operations of a score cell that do not depend on the width of queries and values:
 * SRV_CELL_OPERATIONS each for the exponential, for a position bias, and for the random number of
 * dropout. */
static double cell_operations(const srv_attention_call *call) {
    const attn_inputs *in = call->body.operation.shaped;
    return SRV_CELL_OPERATIONS *
           (1 + (in->position.kind != 0) + (in->score_position.kind != 0) + (in->dropout_p > 0) +
            (in->normalizer.kind != ATTN_NORMALIZER_softmax ? NORMALIZER_CELLS : 0));
}

/* Returns the number of tanh that a score cell needs. */
static double cell_tanh(const srv_attention_call *call) {
    const bool additive = call->body.operation.in.score.v.rank > 0;
    return (call->body.operation.in.softcap > 0) +
           (additive ? (double)call->body.operation.dims.score_width : 0);
}

/* Returns the number of operations in double that `verify` needs to compute rows again. */
static double verify_operations(const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    return 2 * (double)call->body.verify * (double)d->S * (double)(d->score_width + d->value_width);
}

/* Adds the cost of the further runs for an answer with the scores of several stages. `scores` is
 * the number of stages. */
static bool add_stages(const srv_attention_call *call, size_t scores, size_t slots,
                       srv_attention_bill *bill, double *computed) {
    const double runs = (double)(scores - 1);
    attn_cost one;
    attn_error err = {0};
    if (attn_attention_cost(&call->body.operation.dims, ATTN_WANT_SCORES, slots, &one, &err))
        return srv_problem_error(call->req, &err);
    bill->operations += runs * one.operations;
    bill->work += runs * (double)one.work_bytes;
    *computed += runs * (double)one.result_bytes;
    return true;
}

bool srv_attention_count(const srv_attention_call *call, unsigned want, size_t slots,
                         srv_attention_bill *out) {
    const attn_attention_dims *d = &call->body.operation.dims;
    unsigned computed = (want & SRV_WANT_LIBRARY) | (srv_attention_computes(call) & ~call->want);
    srv_result rows[SRV_RESULTS];
    attn_cost cost;
    attn_error err = {0};
    double of_run = 0, means = 0;
    if (attn_attention_cost(d, computed, slots, &cost, &err))
        return srv_problem_error(call->req, &err);
    srv_attention_bill bill = {
        .cells = cost.cells, .operations = cost.operations, .work = (double)cost.work_bytes};
    double results = (double)cost.result_bytes; /* bytes of the library's results */
    size_t n = srv_attention_results(call, want, rows);
    size_t stages = 0;
    for (size_t i = 0; i < n; i++) {
        bill.result += rows[i].bytes;
        of_run += rows[i].want & SRV_WANT_LIBRARY ? rows[i].bytes : 0;
        stages += rows[i].want == ATTN_WANT_SCORES;
        if (call->body.average_attn_weights && d->has_heads &&
            (rows[i].want & (ATTN_WANT_WEIGHTS | ATTN_WANT_WEIGHTS_DROPPED)))
            means += rows[i].bytes + 2 * sizeof(double) * (double)d->S;
    }
    if (stages > 1 && !add_stages(call, stages, slots, &bill, &results))
        return false;
    bill.work += (double)call->body.operation.gathered;
    if (want & SRV_WANT_WEIGHTED_VALUES)
        bill.operations += cost.cells * (double)d->Ev;
    /* Results of the library that are not answered count as scratch: statistics of rows, padding
     * for alignment, results for `verify`, and the weights if only their mean is answered. */
    bill.work += fmax(0, results - of_run + means);
    if (!is_binary(call))
        bill.text = (call->body.decimals < 0 ? TEXT_OF_TENSORS : TEXT_OF_ROUNDED) * bill.result +
                    TEXT_OF_ROWS * count_rows(d);
    if ((call->body.operation.projections.num_heads && !add_projections(call, &bill)) ||
        (call->heatmap && !add_heatmap(call, slots, &bill)) ||
        (call->backward && !add_gradients(call, slots, &bill)) ||
        (call->body.store && !add_store(call, slots, &bill)) ||
        (call->analyses && !add_analysis(call, slots, &bill)))
        return false;
    if (is_binary(call)) /* the JSON beside the tensors has a copy in the header of the file */
        bill.text *= 2;
    bill.tanh = cell_tanh(call) * cost.cells;
    bill.placed = bill.operations + cell_operations(call) * cost.cells +
                  TANH_OPERATIONS * bill.tanh + DOUBLE_OPERATIONS * verify_operations(call);
    *out = bill;
    return true;
}

bool srv_attention_skips(const srv_attention_call *call, const attn_mask *mask, double *computed) {
    const attn_mask_spec *spec = &call->body.operation.shaped->mask;
    for (size_t i = 0; i < spec->count; i++)
        if (attn_mask_spec_placed(spec) || spec->layers[i].kind == ATTN_LAYER_PATTERN ||
            spec->layers[i].kind == ATTN_LAYER_WINDOW ||
            spec->layers[i].kind >= ATTN_LAYER_PREFIX) {
            *computed = attn_attention_visited(&call->body.operation.dims, mask).cells;
            return true;
        }
    return false;
}

double srv_attention_operations(const srv_attention_call *call, const srv_attention_bill *bill,
                                double computed) {
    const double skipped = bill->cells - computed;
    return bill->operations - skipped * attn_attention_cell_operations(&call->body.operation.dims);
}

/* Returns the cells of the bill without the cells that the pass skips because of the positions of
 * queries and keys. If the skipped cells cannot be counted, returns all cells. */
static double computed_cells(const srv_attention_call *call, const srv_attention_bill *bill) {
    const attn_mask_spec *all = &call->body.operation.shaped->mask;
    attn_mask_spec positions = *all;
    attn_mask *mask;
    positions.count = 0;
    for (size_t i = 0, next; i < all->count; i = next) {
        const attn_layer_kind kind = all->layers[i].kind;
        next = attn_mask_spec_next(all, i);
        if (kind == ATTN_LAYER_CAUSAL || kind == ATTN_LAYER_WINDOW || kind == ATTN_LAYER_PATTERN ||
            kind == ATTN_LAYER_LENGTHS || kind >= ATTN_LAYER_PREFIX)
            for (size_t k = i; k < next; k++)
                positions.layers[positions.count++] = all->layers[k];
    }
    if (!positions.count || attn_attention_mask_new(&positions, &call->body.operation.dims,
                                                    call->req->arena, &mask, NULL) != ATTN_OK)
        return bill->cells;
    return attn_attention_visited(&call->body.operation.dims, mask).cells;
}

double srv_attention_needed(const srv_attention_call *call, const srv_attention_bill *bill) {
    return srv_attention_operations(call, bill, computed_cells(call, bill));
}

/* Sets the cells and operations that are compared with the limits. All cells count if they are
 * within the limits, or if a heatmap or an analysis reads all cells. If not, only the cells that
 * the pass computes count. */
static void count_for_limits(const srv_attention_call *call, srv_cost *cost) {
    const srv_config *config = call->req->app->config;
    if ((cost->cells <= config->max_cells && cost->operations <= config->max_operations) ||
        call->heatmap || call->analyses)
        return;
    cost->cells = computed_cells(call, &call->bill);
    cost->operations = srv_attention_operations(call, &call->bill, cost->cells);
}

bool srv_attention_settle(srv_attention_call *call) {
    const srv_request *req = call->req;
    const attn_pool *pool = call->call.dry_run ? req->app->pool : srv_request_pool(req);
    srv_attention_bill *bill = &call->bill;
    if (!srv_attention_count(call, call->want, attn_pool_slots(pool), bill))
        return false;
    srv_cost cost = {.cells = bill->cells,
                     .operations = bill->operations,
                     .result = bill->result,
                     .work = bill->work,
                     .text = bill->text,
                     .exceeds = bill->exceeds};
    if (!call->call.dry_run)
        cost.weighted = req->in_place ? bill->placed : srv_attention_needed(call, bill);
    count_for_limits(call, &cost);
    call->call.cost = cost;
    return true;
}

void srv_attention_explain(void *data, srv_limits *limits) {
    const srv_attention_call *call = data;
    const attn_attention_dims *d = &call->body.operation.dims;
    const srv_attention_bill *bill = &call->bill;
    attn_text cells = {.arena = call->req->arena}, operations = cells, bytes = cells;
    if (call->entries)
        attn_text_add(&cells, "Hq * L * S over %zu entries = %.4g score cells, of which ",
                      call->entry_count, bill->cells);
    else
        attn_text_add(&cells,
                      "B * Hq * L * S = %zu * %zu * %zu * %zu = %.4g score cells, of which ", d->B,
                      d->Hq, d->L, d->S, bill->cells);
    attn_text_add(&operations, "%.4g score cells need ", call->call.cost.cells);
    attn_text_add(&bytes,
                  "inputs, results (%.0f bytes), scratch (%.0f bytes) and the answer's text (up to "
                  "%.0f bytes) need",
                  bill->result, bill->work, bill->text);
    if (cells.failed || operations.failed || bytes.failed)
        return;
    limits->cells.before = cells.data;
    limits->cells.what = "are computed";
    limits->operations.before = operations.data;
    limits->bytes.what = bytes.data;
}

/* --- dry_run --- */

#define PIECE_OPERATIONS 1e8 /* operations of one task of the worker pool */

/* Checks score and position by creating an operation without queries and keys. Tensors with a
 * number for each row have been checked before. */
static bool check_parameters(const srv_attention_call *call) {
    attn_inputs empty = *call->body.operation.shaped;
    attn_tensor *const sides[] = {&empty.query, &empty.key, &empty.value};
    attn_attention *op;
    attn_error err = {0};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        if (sides[i]->rank)
            sides[i]->dims[sides[i]->rank - (empty.layout == ATTN_BLHE ? 3 : 2)] = 0;
    empty.past_key.rank = empty.past_value.rank = 0;
    empty.grad_logsumexp.rank = empty.sinks.rank = empty.scales.rank = 0;
    empty.query_positions.rank = empty.key_positions.rank = 0;
    empty.mask.query_positions.rank = empty.mask.key_positions.rank = 0;
    for (size_t i = 0; empty.position.axes.pairs.rank && i < 2; i++) {
        attn_tensor *t =
            i ? &empty.position.axes.key_positions : &empty.position.axes.query_positions;
        t->dims[t->rank - 1] = 0;
    }
    empty.mask.count = 0;
    if (!attn_attention_new(&empty, call->req->arena, &op, &err))
        return true;
    srv_operation_where(&call->body.operation, &err);
    return srv_problem_error(call->req, &err);
}

static bool compile_mask(const srv_attention_call *call, attn_mask **mask) {
    attn_error err = {0};
    return !attn_attention_mask_new(&call->body.operation.shaped->mask, &call->body.operation.dims,
                                    call->req->arena, mask, &err) ||
           srv_problem_error(call->req, &err);
}

/* Returns whether a layer of the mask has a tensor with an element for each key or cell. Layers of
 * the kinds from ATTN_LAYER_PREFIX on do not count: they become ranges and lists, which are read in
 * the tiles whose cells they hide. */
static bool has_values(const attn_mask_spec *spec) {
    for (size_t i = 0; i < spec->count; i++)
        if (spec->layers[i].values.rank && spec->layers[i].kind != ATTN_LAYER_LENGTHS &&
            spec->layers[i].kind < ATTN_LAYER_PREFIX)
            return true;
    return false;
}

/* Returns the operations for elements that the pass packs or writes: queries, keys, values and
 * outputs. A pass with a strided pattern has two halves, and each half packs all elements. */
static double row_operations(const attn_attention_dims *d) {
    const double queries = (double)d->B * (double)d->Hq * (double)d->L;
    const double keys = (double)d->B * (double)d->Hkv * (double)d->S;
    return (d->stride ? 2 : 1) * SRV_ROW_OPERATIONS * (queries + keys) *
           (double)(d->score_width + d->value_width);
}

/* Returns the work of a run that visits the cells `visits`, to predict the time of the run. Each
 * result that needs a further pass (scores, weights after dropout, heatmaps, analyses, gradients)
 * counts as half of the first pass. Analyses and heatmaps also count all cells (bill->plain). */
static srv_load load_of(const srv_attention_call *call, const srv_attention_bill *bill,
                        const attn_visits *visits) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const unsigned want = srv_attention_computes(call);
    const double heads = (double)d->B * (double)d->Hq;
    const int again = ((want & ATTN_WANT_SCORES) != 0) + ((want & ATTN_WANT_WEIGHTS_DROPPED) != 0) +
                      call->heatmap + call->analyses + call->backward;
    const double passes = 1 + 0.5 * again;
    const double share = bill->cells > 0 ? passes * visits->cells / bill->cells : 0;
    const double cells =
        passes * (srv_attention_operations(call, bill, visits->cells) +
                  cell_operations(call) * visits->cells + EDIT_OPERATIONS * visits->edited);
    const bool wide = d->result == ATTN_F64;
    return (srv_load){
        .operations = wide ? 0 : cells + row_operations(d),
        .tanh = share * bill->tanh,
        .plain = bill->plain + (wide ? cells : 0),
        .alone = (has_values(&call->body.operation.in.mask) ? visits->cells : 0) +
                 PACKED_ANEW * verify_operations(call),
        .text = bill->text / 2,
        .memory = bill->result + bill->work,
        .pieces = heads * fmax(1, ceil(bill->operations / fmax(1, heads) / PIECE_OPERATIONS))};
}

static bool add_shapes(const srv_attention_call *call, srv_dry *dry) {
    const attn_attention_dims *d = &call->body.operation.dims;
    size_t maps[3];
    attn_error err = {0};
    srv_result rows[SRV_RESULTS];
    size_t n = srv_attention_results(call, call->want, rows);
    for (size_t i = 0; i < n; i++) {
        const char *name = srv_result_path(call, &rows[i]);
        if (!name)
            return srv_problem_memory(call->req, NULL, "no memory is left for the shapes");
        srv_dry_shape(dry, name, rows[i].rank, rows[i].dims);
    }
    if (call->backward && !srv_gradients_shapes(call, dry))
        return false;
    if (!call->heatmap)
        return true;
    if (attn_heatmap_shape(&call->heat, d->B, d->Ho, d->L, d->S, &maps[0], maps + 1, &err))
        return srv_heat_problem(call->req, &err);
    srv_dry_shape(dry, "heatmap", 3, maps);
    return true;
}

/* Sets the bytes of the answer's tensors with weights and without weights. false: a problem is
 * set. */
static bool count_weights(const srv_attention_call *call, srv_dry *dry) {
    const size_t slots = attn_pool_slots(call->req->app->pool);
    const unsigned weights = ATTN_WANT_WEIGHTS;
    srv_attention_bill with, without;
    if (!srv_attention_count(call, call->want | weights, slots, &with) ||
        !srv_attention_count(call, call->want & ~weights, slots, &without))
        return false;
    dry->with_weights = with.result;
    dry->without_weights = without.result;
    return true;
}

/* Sets the cost of a recurrent layer of the same width D, for comparison: L steps, each with D x D
 * multiply-adds for each batch entry. */
static void compare_with_rnn(const srv_attention_call *call, srv_dry *dry) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_tensor *q = &call->body.operation.in.query;
    const double D = call->body.operation.projections.num_heads ? (double)q->dims[q->rank - 1]
                                                                : (double)d->Hq * (double)d->E;
    dry->rnn_steps = (double)d->L;
    dry->rnn_operations = (double)d->B * (double)d->L * D * D;
    dry->rnn_products = dry->cells * (double)d->E;
}

bool srv_attention_dry(void *data, srv_dry *dry) {
    const srv_attention_call *call = data;
    attn_mask *mask;
    if (!count_weights(call, dry) || !check_parameters(call) || !compile_mask(call, &mask) ||
        !add_shapes(call, dry))
        return false;
    dry->learns = true;
    dry->parameters = call->body.operation.parameters;
    dry->mask = attn_mask_words(mask, call->req->arena);
    dry->cells = call->bill.cells;
    dry->operations = call->bill.operations;
    compare_with_rnn(call, dry);
    const attn_visits visits = attn_attention_visited(&call->body.operation.dims, mask);
    if (srv_attention_skips(call, mask, &dry->computed)) {
        dry->operations = srv_attention_operations(call, &call->bill, visits.cells);
        dry->has_computed = true;
    }
    dry->load = load_of(call, &call->bill, &visits);
    return true;
}
