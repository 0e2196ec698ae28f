/* The state of a request POST /v1/attention: the decoded body, the operation, its results, and
 * other data of the answer. */
#ifndef SRV_ATTENTION_CALL_H
#define SRV_ATTENTION_CALL_H

#include "api/analyses/analyses_api.h"
#include "api/common/compute.h"
#include "api/common/heatmap_object.h"
#include "api/operation/operation_api.h"
#include "store/runs.h"

/* Items of `return`: the bits ATTN_WANT_* of the library, then bits of the server. */
enum {
    SRV_WANT_HEATMAP = 64,
    SRV_WANT_GRADIENTS = 128,       /* gradients of the inputs */
    SRV_WANT_SCORE_GRADIENTS = 256, /* gradient of the biased scores */
    SRV_WANT_INPUTS = 512,
    SRV_WANT_WEIGHTED_VALUES = 1024,
    SRV_WANT_ROW_SUMS = 2048,
    SRV_WANT_LIBRARY = 63, /* all bits of the library: results of attn_attention_run */
    SRV_WANT_TENSORS =
        SRV_WANT_LIBRARY | SRV_WANT_INPUTS | SRV_WANT_WEIGHTED_VALUES | SRV_WANT_ROW_SUMS
};

/* The decoded body. */
typedef struct srv_attention_body {
    srv_given_bits given;
    srv_operation operation;
    bool explain, dry_run, store, full, average_attn_weights;
    srv_labels labels;
    unsigned items;        /* bits of `return` */
    unsigned score_stages; /* bits 1 << attn_stage, and SRV_FLAGS_LIST if a list was sent */
    int64_t decimals, timeout_ms, verify;
    srv_heat_input heatmap;
    srv_figure_input figure;
    unsigned analysis; /* bits SRV_AN_* */
    srv_strings axes;  /* names of the axes of the stored weights */
} srv_attention_body;

void srv_attention_init(srv_attention_body *body); /* sets the defaults in a zeroed body */

/* A tensor that the answer can have. It is described before it is computed. */
typedef struct srv_result {
    const char *name;
    const attn_tensor *tensor; /* in the srv_attention_call; has data only after the run */
    const char *part; /* the tensor's stage if `name` is an object with stages; else NULL */
    unsigned want;    /* the tensor's bit of SRV_WANT_TENSORS */
    int rank;
    size_t dims[ATTN_MAX_RANK];
    double values; /* number of values */
    double bytes;  /* size of the values in bytes */
} srv_result;

#define SRV_STAGES  5 /* number of values of attn_stage */
#define SRV_RESULTS (11 + SRV_STAGES)

typedef struct srv_gradients {
    attn_gradients inputs;
    attn_projections projections; /* gradients of the tensors of the projections */
} srv_gradients;

/* The cost of a request. The bytes of the answer's tensors and heatmaps are exact. The other
 * numbers are the bounds that the library's cost functions give. */
typedef struct srv_attention_bill {
    double cells, operations;
    double placed; /* operations weighted by their time; decides where the request runs (dry.h) */
    double tanh;   /* number of tanh that `placed` includes */
    double stored; /* operations of the stored run, which `operations` includes */
    double plain;  /* work of heatmaps and analyses, as srv_load.plain counts it (dry.h) */
    double result; /* bytes of the answer's tensors */
    double work;   /* bytes of scratch memory */
    double text;   /* upper bound of the bytes of the answer's text */
    bool exceeds;  /* as srv_cost.exceeds */
} srv_attention_bill;

typedef struct srv_attention_call {
    SRV_CALL;
    srv_attention_body body;
    /* The calls of the entries of a ragged batch. The operation of each has a batch of 1. NULL: the
     * batch is not ragged. */
    struct srv_attention_call *entries;
    size_t entry_count;
    unsigned want;           /* tensors in the answer: bits of SRV_WANT_TENSORS */
    bool heatmap;            /* the answer has heatmaps */
    bool weights_omitted;    /* `return` was not sent, and the weights are too large to answer */
    bool backward;           /* a backward pass is needed */
    unsigned gradient_items; /* the gradients in the answer: bits SRV_WANT_*GRADIENTS */
    attn_tensor scores[SRV_STAGES]; /* the scores of each wanted stage */
    attn_tensor query, key, value;  /* the operands, for SRV_WANT_INPUTS */
    attn_tensor weighted_values, row_sums;
    srv_gradients *gradients; /* NULL before the computation */
    attn_heatmap_options heat;
    const double *value_norms; /* norms of values for the heatmap or the analysis, or NULL */
    attn_attention *op;
    attn_results results;
    attn_heatmaps maps;
    const char *stages[SRV_STAGES]; /* names of the stages that a picture shows side by side */
    size_t stage_count;             /* 0: a picture shows only the weights */
    double kept;                    /* share of cells that are visible, 0 … 1, for explain */
    bool analyses;                  /* true: the answer holds an analysis */
    srv_analysis analysis;
    srv_warnings warnings;
    attn_verification verification;
    const srv_run *run; /* the stored run, held until the answer; NULL: not stored */
    srv_attention_bill bill;
} srv_attention_call;

/* Checks the body, completes its inputs, and finds dims and the wanted results. false: a problem is
 * set. */
bool srv_attention_prepare(srv_attention_call *call);
/* srv_attention_prepare for a ragged batch, whose entries have operations of their own
 * (attention_ragged.c). srv_ragged_compute (attention_ragged_run.c) computes the entries. */
bool srv_ragged_prepare(srv_attention_call *call);
bool srv_ragged_compute(srv_attention_call *call);
bool srv_ragged_dry(const srv_attention_call *call, srv_dry *dry);
/* The tensors of a ragged batch in which each entry has rows, in the order of their fields. */
enum {
    SRV_OPERAND_QUERY,
    SRV_OPERAND_KEY,
    SRV_OPERAND_VALUE,
    SRV_OPERAND_GRAD_OUTPUT,
    SRV_OPERAND_GRAD_LOGSUMEXP,
    SRV_OPERANDS
};
extern const char *const srv_operand_names[SRV_OPERANDS];
/* Returns the tensor `which` (SRV_OPERAND_*) of an operation. */
attn_tensor *srv_operand_at(srv_operation *o, size_t which);
bool srv_operand_is_of_keys(size_t which); /* key or value */

/* Another field that has an item for each entry of a ragged batch (attention_by_entry.c): of the
 * request, of a mask that it combines with others, or of an axis of its rotary positions. */
enum { SRV_BY_ENTRY_PATH = 96 };
typedef struct srv_by_entry_row srv_by_entry_row;
typedef struct srv_by_entry {
    const srv_by_entry_row *row;
    char at[SRV_BY_ENTRY_PATH]; /* path in the request, such as "any_of/0/document_ids" */
    bool nested;                /* it is not a field of the request itself */
    const attn_tensor *whole;   /* items of one shape, for all entries */
    const srv_entries *list;    /* items that differ in shape; its count is 0 if there is `whole` */
    bool packed; /* `whole` has one axis, with the numbers of all entries one after the other */
    attn_tensor *item; /* the tensor of the entry, with a batch axis of length 1 */
} srv_by_entry;
/* Returns whether a field with this name has items by entry. */
bool srv_by_entry_takes(const char *name);
/* Calls `visit` with the fields by entry of the request `from`, beside those of its entry `to`, until
 * it returns false. Returns whether it did not. */
typedef bool srv_by_entry_visit(void *data, const srv_by_entry *field);
bool srv_by_entry_each(const srv_operation *from, srv_operation *to, srv_by_entry_visit *visit,
                       void *data);
/* Returns the number of keys of entry b that are no rows of `key`: those of its cache, or those that
 * its blocks hold. 0 if the request does not say it; srv_by_entry_place refuses such a request. */
size_t srv_by_entry_kept(const srv_operation *o, size_t b);
/* Gives the operation of entry b its items. Its operands must be set. `first` holds the index of
 * the entry's first query row and first key row, `all` the number of query rows and key rows of all
 * entries. false: an item does not fit, and a problem is set. */
bool srv_by_entry_place(const srv_attention_call *call, size_t b, const size_t first[2],
                        const size_t all[2], size_t count, srv_operation *entry);

/* Returns whether the answer has packed tensors of a ragged batch (attention_packed.c), as binary
 * answers have. */
bool srv_packs(const srv_attention_call *call);
/* If each output must be one tensor, as under /v2, refuses tensors that cannot be packed. false: a
 * problem is set. */
bool srv_packed_check(const srv_attention_call *call);
/* Returns the bytes of the packed copies, without gradients; 0 if the answer has none. */
double srv_packed_bytes(const srv_attention_call *call);
/* A function that returns tensor number `row` of entry b, without the batch axis. */
typedef attn_tensor srv_entry_tensor(const srv_attention_call *call, size_t b, size_t row);
/* Writes the value of tensor number `row` of all entries, after its key. JSON gets a list with a
 * tensor for each entry. Binary answers get one packed tensor if the entries differ only in the
 * length of axis `axis`, or a tensor for each entry if `axis` is -1. */
void srv_entries_put(attn_json_text *j, const srv_attention_call *call, srv_entry_tensor *item,
                     size_t row, int axis);
/* Does what srv_entries_put does, for a tensor that srv_attention_results lists. */
void srv_entries_result(attn_json_text *j, const srv_attention_call *call, size_t row);
/* Returns the axis of rows of an operand or output with `rank` axes that belongs to one entry. */
int srv_entry_rows(const srv_attention_call *call, int rank);
/* Writes the lengths of the entries of the packed tensors. */
void srv_packed_lengths(attn_json_text *j, const srv_attention_call *call);
/* Sums the bills and costs of the entries. false: a problem is set. */
bool srv_ragged_settle(srv_attention_call *call);

/* The computation in parts (attention_parts.c). srv_attention_begin opens the operation and
 * computes the scores of further stages. srv_attention_end makes the tensors of the answer from the
 * results of the run. A ragged batch calls each part for every entry, and runs all entries at once
 * between the parts. */
attn_status srv_attention_begin(srv_attention_call *call, srv_warnings *warnings, attn_error *err);
attn_status srv_attention_end(srv_attention_call *call, attn_error *err);
/* Adds warnings about weights on keys whose labels mark them as padding; the call has labels. Of a
 * ragged batch they name the entry. */
attn_status srv_attention_warn_padding(srv_attention_call *call, attn_error *err);
/* Computes the analysis of the weights. Must be called before srv_attention_shape changes the shape
 * of the weights. */
attn_status srv_attention_analyse(srv_attention_call *call, attn_error *err);
/* Opens a source that reads rows of the computed weights or of scores, for heatmaps and
 * analyses. */
attn_status srv_attention_rows(srv_attention_call *call, attn_stage stage,
                               attn_weight_source *source, attn_error *err);
/* Gives the computed tensors the shapes that srv_attention_results describes. */
attn_status srv_attention_shape(srv_attention_call *call, attn_error *err);
/* Makes the heatmaps. false: a problem is set. */
bool srv_attention_draw(srv_attention_call *call);

/* Leaves the weights and the gradient of the scores out of the answer. */
void srv_attention_omit(srv_attention_call *call);
/* Reduces a prepared call to storing its run: removes everything that only the answer needs. */
void srv_attention_keep_run(srv_attention_call *call);
/* Returns the ATTN_WANT_* bits that the library must compute for the answer and its
 * verification. */
unsigned srv_attention_computes(const srv_attention_call *call);
/* Returns whether the norms of values are needed. */
bool srv_attention_norms(const srv_attention_call *call);
/* Returns the projection w_o of the request, with which the norms of values are computed. NULL:
 * none. */
const attn_tensor *srv_attention_w_o(const srv_attention_call *call);
/* Returns the first wanted stage of the scores. The run that computes the output also computes the
 * scores of this stage. */
attn_stage srv_attention_stage(const srv_attention_call *call);
/* Lists names, shapes and sizes of the tensors in `want` (bits of SRV_WANT_TENSORS), in the order
 * of the answer. Returns their number. */
size_t srv_attention_results(const srv_attention_call *call, unsigned want,
                             srv_result rows[SRV_RESULTS]);
/* Removes the axis of queries, of length 1, from a dense tensor whose rank is not 0. This axis is
 * the last one if `from_end` is 1, and the last but one if `from_end` is 2. */
void srv_drop_axis(attn_tensor *t, int from_end);
/* Returns a view of a dense tensor without its first axis, whose length is 1. */
attn_tensor srv_attention_item(const attn_tensor *t);
/* Puts `count` axes of length 1 in front of the axes of a dense tensor whose rank is not 0. */
void srv_add_axes(attn_tensor *t, int count);
/* Returns the path of a tensor in the answer: "weights", or "scores/raw". NULL: out of memory. */
const char *srv_result_path(const srv_attention_call *call, const srv_result *row);
/* Sets *out to the cost of an answer with the tensors `want`, computed on `slots` threads. Reads
 * only the shapes of the inputs. false: a problem is set. */
bool srv_attention_count(const srv_attention_call *call, unsigned want, size_t slots,
                         srv_attention_bill *out);
/* Returns whether the pass skips cells, because the mask has a pattern or a window. If so,
 * *computed is the number of cells that the pass computes. */
bool srv_attention_skips(const srv_attention_call *call, const attn_mask *mask, double *computed);
/* Returns the operations of the bill without those of cells that the pass skips because of the
 * positions of queries and keys. If these cells cannot be counted, returns all operations. */
double srv_attention_needed(const srv_attention_call *call, const srv_attention_bill *bill);
/* Returns the operations of the bill if the pass computes only `computed` of its cells. */
double srv_attention_operations(const srv_attention_call *call, const srv_attention_bill *bill,
                                double computed);
/* Computes the bill of the request, and sets the cost by which the request is admitted. false: a
 * problem is set. */
bool srv_attention_settle(srv_attention_call *call);
/* Completes the texts of the limits with the numbers of the request. `data` is the
 * srv_attention_call of the request. */
void srv_attention_explain(void *data, srv_limits *limits);
/* Completes a dry run. `data` is the srv_attention_call of the request. false: a problem is set. */
bool srv_attention_dry(void *data, srv_dry *dry);
/* Computes the cost of the gradients on `slots` threads. false: the cost cannot be computed, and
 * *err is set. */
bool srv_gradients_cost(const srv_attention_call *call, size_t slots, attn_cost *out,
                        attn_error *err);
/* Returns the size of all gradients in bytes. */
size_t srv_gradients_bytes(const srv_attention_call *call);
/* Adds the shapes of the gradients to the dry run. false: a problem is set. */
bool srv_gradients_shapes(const srv_attention_call *call, srv_dry *dry);
/* Gives each gradient the shape that its input had in the request. */
void srv_gradients_reshape(srv_attention_call *call);
/* Computes the gradients after a run with projections. `heads` is the output before W_o. */
attn_status srv_gradients_run(srv_attention_call *call, const attn_tensor *heads, attn_error *err);
/* Computes the run and its gradients together, for requests without projections. */
attn_status srv_gradients_with_run(srv_attention_call *call, attn_error *err);
/* Returns whether all entries of a ragged batch share the input of the gradient at this path, such
 * as "gradients/sinks". The gradient of a shared input is the sum over the entries. */
bool srv_gradients_is_shared(const srv_attention_call *call, const char *path);
/* Sums the gradients of shared inputs, in double and in the order of the entries. The gradients of
 * the first entry hold the sums. */
void srv_gradients_add_entries(srv_attention_call *call);
/* Writes the gradients as a JSON object. `answer` is the srv_attention_call of the request. */
void srv_gradients_put(attn_json_text *j, const void *answer);
/* Writes the gradients as text. */
void srv_gradients_text(attn_text *t, const srv_attention_call *call);
/* Writes the members of the answer as JSON. */
void srv_attention_json(srv_attention_call *call, attn_json_text *j);
/* Writes the answer as text. `data` is a srv_attention_call. */
void srv_attention_text(void *data, attn_text *t);

#endif
