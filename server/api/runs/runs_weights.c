/* Exact values of a stored run:
 *
 *   GET /v1/runs/{id}/weights   a part of the matrix of weights
 *   GET /v1/runs/{id}/rows      whole rows, with logsumexp and hidden keys */
#include <math.h>
#include <string.h>

#include "api/common/form_input.h"
#include "api/common/route_fields.h"
#include "api/common/text_reply.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "number/number.h"
#include "request/shared.h"
#include "wire/answer.h"

/* --- weights and rows --- */

typedef struct part_query {
    srv_given_bits given;
    srv_run_spot spot;
    srv_union heads;
    srv_ranges rows, cols;
    int stage;
    bool hidden;
    int64_t decimals;
    bool full;
} part_query;

const srv_field srv_run_weights_query[] = {
    SRV_RUN_SPOT_ROWS(part_query),
    SRV_RUN_HEADS_OR_MEAN_ROW(part_query),
    SRV_RUN_ROWS_ROW(part_query),
    SRV_RUN_COLS_ROW(part_query),
    SRV_ENUM_ROW(part_query, stage, attn_stage_words,
                 "probs (default): the weights; else scores: raw (q . k), scaled, softcapped or "
                 "biased (the input of the normalizer, null where hidden), whose heads are query "
                 "heads if weights are mixed.",
                 .standard = "\"probs\""),
    SRV_BOOL_ROW(part_query, hidden,
                 "Also list the hidden cells of the part, as [row, from, to] of keys."),
    SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),
    {0},
};

const srv_field srv_run_rows_query[] = {
    SRV_RUN_SPOT_ROWS(part_query), SRV_RUN_HEADS_OR_MEAN_ROW(part_query),
    SRV_RUN_ROWS_ROW(part_query),  SRV_DECIMALS_ROW(part_query, "."),
    SRV_FULL_ROW(part_query),      {0},
};

typedef struct part_call {
    SRV_LOOK;
    part_query q;
    srv_run_part part;
    attn_tensor cells;
} part_call;

/* Returns the number of weights that have to be computed. */
static double cells_of(const srv_run_part *part) {
    return (double)part->head_count * (double)part->rows * (double)part->cols;
}

/* Returns the number of heads in the answer. The mean counts as one head. */
static size_t heads_of(const srv_run_part *part) {
    return part->mean ? 1 : part->head_count;
}

/* Refuses more than SRV_WEIGHTS_UNASKED weights unless the request names a range, so that such a
 * request does not get gigabytes. */
static bool is_asked_for(const srv_scope *scope, const srv_run_part *part) {
    const double cells = (double)heads_of(part) * (double)part->rows * (double)part->cols;
    return cells <= SRV_WEIGHTS_UNASKED || srv_given(scope, "rows") ||
           (scope->fields == srv_run_weights_query && srv_given(scope, "cols")) ||
           srv_refuse(scope, SRV_VALUE, "rows",
                      "all rows are %.0f weights: say which are wanted, rows=from:to, or all with "
                      "rows=0:%zu (at most %d weights are sent unasked)",
                      cells, part->rows, SRV_WEIGHTS_UNASKED);
}

/* Refuses the mean over heads of scores, because scores of hidden cells are -infinity. */
static bool is_of_weights(const srv_scope *scope, const part_query *q, const srv_run_part *part) {
    return !part->mean || q->stage == ATTN_STAGE_PROBS ||
           srv_refuse(
               scope, SRV_VALUE, "heads",
               "\"mean\" is the mean of weights: leave stage out, or choose heads by number");
}

static void count_part(part_call *c) {
    const srv_run_part *part = &c->part;
    const bool binary = c->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
    const double rows = (double)heads_of(part) * (double)part->rows;
    const double bytes =
        rows * (double)part->cols * (double)attn_dtype_size(attn_run_dims(c->run->site)->result);
    const double work =
        part->mean ? srv_run_mean_work(c->req, c->run, part) : srv_run_cells_work(c->req, c->run);
    srv_look_needs(&c->look, cells_of(part), cells_of(part),
                   bytes * (binary ? 1 : 1 + SRV_RUN_TEXT) + SRV_RUN_ROW_WORK * rows + work);
}

/* Reads the request, which selects a part of the matrix. false: a problem is set. */
static bool prepare_part(void *data) {
    part_call *c = data;
    part_query *q = &c->q;
    q->spot.of_scores = q->stage != ATTN_STAGE_PROBS;
    if (!srv_run_spot_check(&c->scope, c->run, &q->spot) ||
        !srv_run_select(&c->scope, c->run, &q->spot, &q->heads, &q->rows,
                        c->scope.fields == srv_run_weights_query ? &q->cols : NULL, &c->part) ||
        !is_of_weights(&c->scope, q, &c->part) || !is_asked_for(&c->scope, &c->part))
        return false;
    count_part(c);
    return true;
}

/* Computes the cells of the part into a tensor in the arena. false: a problem is set. */
static bool compute_part(void *data) {
    part_call *c = data;
    const srv_run_part *part = &c->part;
    const attn_dtype dtype = attn_run_dims(c->run->site)->result;
    size_t dims[3];
    const int rank = srv_run_part_dims(part, part->cols, dims);
    attn_error err = {0};
    void *to = attn_arena_take(c->req->arena,
                               heads_of(part) * part->rows * part->cols * attn_dtype_size(dtype));
    attn_status status =
        !to          ? attn_no_memory(&err, "the weights")
        : part->mean ? srv_run_mean(c->req, c->run, part, to, &err)
                     : srv_run_cells(c->req, c->run, part, (attn_stage)c->q.stage, to, &err);
    if (status)
        srv_problem_error(c->req, &err);
    c->cells = attn_tensor_dense(to, dtype, rank, dims);
    return !status;
}

/* --- hidden cells --- */

/* Writes the hidden keys of a row as lists [row, from, to]. Returns the number of visible keys.
 * keep[i], i < n, says whether key `col` + i is visible. */
static int64_t write_hidden(attn_json_text *j, size_t row, const uint8_t *keep, size_t col,
                            size_t n) {
    int64_t visible = 0;
    for (size_t from = 0, to; from < n; from = to) {
        to = from + 1;
        while (to < n && keep[to] == keep[from])
            to++;
        if (keep[from]) {
            visible += (int64_t)(to - from);
            continue;
        }
        attn_json_array(j);
        attn_json_size(j, row);
        attn_json_size(j, col + from);
        attn_json_size(j, col + to);
        attn_json_array_end(j);
    }
    return visible;
}

/* The cells of a site that the answer describes as visible or hidden. */
typedef struct hidden_cells {
    const attn_attention *op;
    const srv_run_part *part;
    bool of_scores; /* heads are query heads, which may have different masks */
    uint8_t *keep;  /* [2, part->cols]; the second half is scratch */
} hidden_cells;

static void find_keys(const hidden_cells *h, size_t head, size_t row, uint8_t *keep) {
    const srv_run_part *part = h->part;
    const attn_range at = {part->batch, head, row, 1, part->col, part->cols};
    if (h->of_scores)
        attn_mask_keep(attn_attention_mask(h->op), at.batch, head, row, at.col, at.cols, keep);
    else
        attn_run_keep(h->op, &at, keep);
}

/* Sets h->keep[i] to whether `row` sees key part->col + i in head `head` or, if part->mean is true,
 * in at least one head. If attn_mask_fills returns true, all keys count as visible. */
static void find_visible(const hidden_cells *h, size_t head, size_t row) {
    const srv_run_part *part = h->part;
    const attn_mask *mask = attn_attention_mask(h->op);
    uint8_t *other = h->keep + part->cols;
    if (attn_mask_fills(mask)) {
        memset(h->keep, 1, part->cols);
        return;
    }
    find_keys(h, head, row, h->keep);
    for (size_t n = 1; part->mean && !attn_mask_same_heads(mask) && n < part->head_count; n++) {
        find_keys(h, n, row, other);
        for (size_t i = 0; i < part->cols; i++)
            h->keep[i] |= other[i];
    }
}

/* Writes the hidden cells of one head. If `visible` is not NULL, sets it to the number of visible
 * keys of each row. */
static void write_hidden_head(attn_json_text *j, const hidden_cells *h, size_t head,
                              int64_t *visible) {
    const srv_run_part *part = h->part;
    attn_json_array(j);
    for (size_t i = 0; i < part->range_count; i++)
        for (int64_t row = part->ranges[i].from; row < part->ranges[i].to; row++) {
            find_visible(h, head, (size_t)row);
            const int64_t seen = write_hidden(j, (size_t)row, h->keep, part->col, part->cols);
            if (visible)
                *visible++ = seen;
        }
    attn_json_array_end(j);
}

/* Writes the member `hidden`: a list of [row, from, to] or, if the request has `heads`, such a list
 * for each head. `visible` is NULL or [heads, rows]. */
static void put_hidden(attn_json_text *j, const srv_run_view *run, const srv_run_part *part,
                       bool of_scores, int64_t *visible) {
    const hidden_cells h = {attn_run_attention(run->site), part, of_scores,
                            attn_arena_take(j->arena, 2 * part->cols)};
    if (!h.keep) {
        j->failed = true;
        return;
    }
    attn_json_key(j, "hidden");
    if (part->many)
        attn_json_array(j);
    for (size_t n = 0; n < heads_of(part); n++)
        write_hidden_head(j, &h, (size_t)part->heads[n], visible ? visible + n * part->rows : NULL);
    if (part->many)
        attn_json_array_end(j);
}

/* --- the answers --- */

static const srv_field weights_rows[] = {
    SRV_WRITTEN("weights", "Numbers", NULL, "[rows, cols]."),
    SRV_WRITTEN("scores", "Numbers", NULL, "[rows, cols], of the stage that was asked for."),
    SRV_WRITTEN("hidden", "HiddenCells", NULL, "With hidden: the cells that the mask hides."),
    {0},
};

static const srv_field rows_rows[] = {
    SRV_WRITTEN("weights", "Numbers", NULL, "[rows, S].", .always = true),
    SRV_WRITTEN("hidden", "HiddenCells", NULL, "The keys that each row does not see.",
                .always = true),
    SRV_WRITTEN("logsumexp", "Numbers", NULL,
                "The logarithm of the sum of the exponentials of the scores of each row; null if "
                "the normalizer is not softmax."),
    SRV_WRITTEN("num_visible_keys", "[integer+|[integer+]]", NULL, "The keys that each row sees.",
                .always = true),
    {0},
};

static const char *name_of(const part_call *c) {
    return c->q.stage == ATTN_STAGE_PROBS ? "weights" : "scores";
}

static void print_weights(void *data, attn_text *t) {
    const part_call *c = data;
    srv_text_tensor(t, name_of(c), &c->cells, (srv_print){(int)c->q.decimals, c->q.full});
}

static void answer_weights(void *data, attn_json_text *j) {
    const part_call *c = data;
    srv_json_key_tensor(j, name_of(c), &c->cells);
    if (c->q.hidden)
        put_hidden(j, c->run, &c->part, c->q.spot.of_scores, NULL);
}

#define PART_CALL(req)                                                                             \
    {                                                                                              \
        .look.call.req = req, .q = {.stage = ATTN_STAGE_PROBS, .decimals = -1 }                    \
    }

srv_outcome srv_runs_weights(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(part_call, srv_run_weights_query),
        .prepare = prepare_part,
        .compute = compute_part,
        .json = answer_weights,
        .text = print_weights,
    };
    part_call c = PART_CALL(req);
    return srv_look_run(&c, &steps, NULL);
}

/* Stores the logsumexp of each row of the part, [heads, rows]. */
static void read_logsumexp(const srv_run_view *run, const srv_run_part *part, double *to) {
    for (size_t h = 0; h < part->head_count; h++)
        for (size_t i = 0; i < part->range_count; i++)
            for (int64_t row = part->ranges[i].from; row < part->ranges[i].to; row++)
                *to++ =
                    attn_run_logsumexp(run->site, part->batch, (size_t)part->heads[h], (size_t)row);
}

static void answer_rows(void *data, attn_json_text *j) {
    const part_call *c = data;
    srv_request *req = c->req;
    const srv_run_part *part = &c->part;
    const attn_tensor *cells = &c->cells;
    const size_t n = heads_of(part) * part->rows;
    double *logsumexp = attn_arena_zeroed(req->arena, n, sizeof *logsumexp);
    int64_t *visible = attn_arena_zeroed(req->arena, n, sizeof *visible);
    j->failed |= !logsumexp || !visible;
    srv_json_key_tensor(j, "weights", cells);
    if (!j->failed) {
        const attn_tensor lse =
            attn_tensor_dense(logsumexp, ATTN_F64, cells->rank - 1, cells->dims);
        const attn_tensor seen = attn_tensor_dense(visible, ATTN_I64, cells->rank - 1, cells->dims);
        put_hidden(j, c->run, part, false, visible);
        if (!part->mean) { /* logsumexp exists only for single heads */
            read_logsumexp(c->run, part, logsumexp);
            srv_json_key_tensor(j, "logsumexp", &lse);
        }
        srv_json_key_tensor(j, "num_visible_keys", &seen);
    }
}

srv_outcome srv_runs_rows(srv_request *req) {
    static const srv_steps steps = {
        SRV_LOOK_STEPS(part_call, srv_run_rows_query),
        .prepare = prepare_part,
        .compute = compute_part,
        .json = answer_rows,
    };
    part_call c = PART_CALL(req);
    return srv_look_run(&c, &steps, NULL);
}

const srv_field srv_run_weights_answers[] = {
    SRV_GROUP("RunWeights", weights_rows,
              "With heads the tensor has an axis of heads in front, and hidden is a list for each "
              "head."),
    SRV_WRITTEN("HiddenCells", "[[integer+|[integer+]]]", NULL,
                "[row, from, to] of keys that a row does not see; with heads such a list for each "
                "head."),
    SRV_GROUP("RunRows", rows_rows,
              "With heads each member has an axis of heads in front. With heads=mean there is none "
              "and no logsumexp, and a key is hidden if no head sees it."),
    SRV_GROUP("RunCell", srv_run_cell_rows,
              "The steps of the computation in order, from the two vectors to the weight; fields "
              "selects some."),
    {0},
};
