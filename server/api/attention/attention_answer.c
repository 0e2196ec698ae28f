/* Writes the answer of POST /v1/attention. JSON has the requested tensors in a fixed order, then
 * the other requested parts. Text has each tensor as NumPy prints it, then heatmaps as Unicode
 * blocks, then messages. Nothing in the body depends on time, load or the client, so equal requests
 * get equal bodies. */
#include <math.h>
#include <stdio.h>

#include "api/attention/attention_api.h"
#include "api/attention/attention_call.h"
#include "api/runs/runs_api.h"
#include "wire/answer.h"

/* --- what is left out --- */

/* The tensors that an answer leaves out if they are large, and how the client gets each. Only a
 * request with a backward pass has the second tensor. */
static const struct {
    const char *name, *how;
} omitted[] = {{"weights", "name \"weights\" in return, or ask for a heatmap"},
               {"gradients.scores", "name \"gradients.scores\" in return"}};

static size_t count_omitted(const srv_attention_call *call) {
    return call->weights_omitted ? 1 + (size_t)call->backward : 0;
}

/* Returns the number of values of each omitted tensor. All omitted tensors have the shape of the
 * weights. */
static double weight_count(const srv_attention_call *call) {
    return call->bill.cells;
}

static void put_omitted(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    attn_json_object(j);
    for (size_t i = 0; i < count_omitted(call); i++)
        srv_omitted_write(j, omitted[i].name, weight_count(call), omitted[i].how);
    attn_json_object_end(j);
}

static void print_omitted(attn_text *t, const srv_attention_call *call) {
    for (size_t i = 0; i < count_omitted(call); i++)
        attn_text_add(t, "omitted: %s (%.0f values); %s\n", omitted[i].name, weight_count(call),
                      omitted[i].how);
}

/* --- diagnostics --- */

typedef struct diagnostics {
    const attn_mask *compiled;
    const attn_attention_dims *dims;
    const char *mask, *position, *score, *dtype, *kernel, *precision;
    const char *normalizer; /* in words; NULL: softmax */
    const char *pages;      /* the blocks of a page cache in words; NULL: none */
    const char *mix;        /* in words; NULL: heads are not mixed */
    const char *tiles;      /* how the kernels compute tile products; NULL: they use none */
    size_t parameters;
    double kept, scale, softcap;
    double cells;
    double computed; /* cells that the pass computes; NaN if it skips none */
    double operations, work, result;
} diagnostics;

/* Returns in words how the normaliser turns the scores s of a row into weights. NULL: softmax. */
static const char *normalizer_words(const attn_inputs *in, attn_arena *arena) {
    static const char *const formulas[] = {
        [ATTN_NORMALIZER_sigmoid] = "1 / (1 + e^-(s + bias)), rows need not sum to 1",
        [ATTN_NORMALIZER_relu] = "max(0, s) / divisor, rows need not sum to 1",
        [ATTN_NORMALIZER_relu_squared] = "max(0, s)^2 / divisor, rows need not sum to 1",
        [ATTN_NORMALIZER_sparsemax] = "max(0, s - t) with the t for which the row sums to 1",
        [ATTN_NORMALIZER_entmax] = "max(0, (alpha - 1)(s - t))^(1 / (alpha - 1)) with the t for "
                                   "which the row sums to 1",
    };
    const attn_normalizer *z = &in->normalizer;
    attn_text t = {.arena = arena};
    if (z->kind == ATTN_NORMALIZER_softmax)
        return NULL;
    attn_text_add(&t, "%s: %s", attn_normalizer_words[z->kind], formulas[z->kind]);
    if (z->kind == ATTN_NORMALIZER_sigmoid && !z->bias.rank)
        attn_text_add(&t, "; bias 0");
    if (z->kind == ATTN_NORMALIZER_relu || z->kind == ATTN_NORMALIZER_relu_squared) {
        if (z->divisor != 0)
            attn_text_add(&t, "; divisor %.6g", z->divisor);
        else
            attn_text_add(&t, "; divisor: the number of keys that the query sees");
    }
    if (z->kind == ATTN_NORMALIZER_entmax)
        attn_text_add(&t, "; alpha %.6g", z->alpha != 0 ? z->alpha : 1.5);
    return t.failed ? attn_normalizer_words[z->kind] : t.data;
}

/* Collects the diagnostics. Costs are computed for one thread, so that the answer is the same on
 * every machine. false: a problem is set. */
static bool diagnose(const srv_attention_call *call, diagnostics *out) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_inputs *in = &call->body.operation.in;
    srv_attention_bill bill;
    if (!srv_attention_count(call, call->want, 1, &bill))
        return false;
    *out = (diagnostics){.compiled = attn_attention_mask(call->op),
                         .dims = d,
                         .score = attn_score_name(in->score.kind),
                         .dtype = attn_dtype_name(d->result),
                         .kernel = attn_attention_kernel(call->op),
                         .precision = attn_precision_name(d->precision),
                         .tiles = d->isa == ATTN_ISA_AMX ? attn_isa_tiles() : NULL,
                         .parameters = call->body.operation.parameters,
                         .kept = call->kept,
                         .scale = attn_attention_scale(call->op),
                         .softcap = in->softcap,
                         .cells = bill.cells,
                         .computed = (double)NAN,
                         .operations = bill.operations,
                         .work = bill.work,
                         .result = bill.result};
    out->mask = attn_mask_words(out->compiled, call->req->arena);
    out->normalizer = normalizer_words(in, call->req->arena);
    const attn_pages pages = srv_operation_pages(&call->body.operation);
    out->pages = pages.table.rank ? attn_pages_words(in, &pages, call->req->arena) : NULL;
    out->mix = attn_mix_words(d);
    out->position = attn_attention_position(call->op, call->req->arena);
    if (srv_attention_skips(call, out->compiled, &out->computed))
        out->operations = srv_attention_operations(call, &bill, out->computed);
    return true;
}

/* Writes the query offset of each batch entry, or one number if all offsets are equal. */
static void put_offsets(attn_json_text *j, const void *object) {
    const attn_mask *mask = ((const diagnostics *)object)->compiled;
    size_t B = attn_mask_batches(mask), n = 1;
    for (size_t b = 1; b < B && n == 1; b++)
        if (attn_mask_offset(mask, b) != attn_mask_offset(mask, 0))
            n = B;
    attn_json_array(j);
    for (size_t b = 0; b < n && b < B; b++)
        attn_json_int(j, attn_mask_offset(mask, b));
    attn_json_array_end(j);
}

#define DIM(name, member) SRV_IF_KNOWN(name, SRV_INT, attn_attention_dims, member, NULL)
static const srv_field dim_rows[] = {DIM("B", B), DIM("Hq", Hq), DIM("Hkv", Hkv),
                                     DIM("L", L), DIM("S", S),   DIM("P", past),
                                     DIM("E", E), DIM("Ev", Ev), {0}};

#define ALWAYS(name, kind, member, ...) SRV_ALWAYS(name, kind, diagnostics, member, __VA_ARGS__)
static const char *const dtypes[] = {"float32", "float64", NULL};
static const char *const tile_words[] = {"native", "emulated", NULL};
static const char *const precisions[] = {"fp32", "fast", "bf16", NULL};
static const srv_field byte_rows[] = {
    SRV_IF_KNOWN("work", SRV_REAL, diagnostics, work, NULL, .type = "integer+"),
    SRV_IF_KNOWN("result", SRV_REAL, diagnostics, result, NULL, .type = "integer+"),
    {0},
};
static const srv_field diagnostics_rows[] = {
    ALWAYS("mask", SRV_STRING, mask, "The mask in words."),
    ALWAYS("kept", SRV_REAL, kept, "Share of the cells that are visible.", .type = "number+",
           .max = 1),
    SRV_WRITTEN("offsets", "[integer]", put_offsets, "query_offset of each batch entry.",
                .always = true),
    SRV_IF_KNOWN("position", SRV_STRING, diagnostics, position,
                 "The position encoding in words, with the positions of queries and keys."),
    SRV_IF_KNOWN("pages", SRV_STRING, diagnostics, pages,
                 "With block_table: the blocks that hold the keys, in words."),
    ALWAYS("dims", SRV_OBJECT, dims, "The sizes by the letters of the shapes.", .fields = dim_rows,
           .accepts = SRV_O_POINTER),
    ALWAYS("score", SRV_STRING, score, "The score form."),
    SRV_IF_KNOWN("normalizer", SRV_STRING, diagnostics, normalizer,
                 "What makes weights of the scores, in words; absent: softmax."),
    SRV_IF_KNOWN(
        "mix", SRV_STRING, diagnostics, mix,
        "How the scores or weights of the heads are mixed, in words; absent: they are not."),
    ALWAYS("num_parameters", SRV_INT, parameters, "Numbers that are learned, in the request."),
    ALWAYS("scale", SRV_REAL, scale, "The factor of the scores."),
    ALWAYS("softcap", SRV_REAL, softcap, "The bound of the scores; 0: none."),
    ALWAYS("dtype", SRV_STRING, dtype, "The type of the answer.", .choices = dtypes),
    ALWAYS("kernel", SRV_STRING, kernel, "The kernel table that computed the answer."),
    SRV_IF_KNOWN("amx", SRV_STRING, diagnostics, tiles,
                 "Whether tile products are instructions of the processor or emulated.",
                 .choices = tile_words),
    ALWAYS("precision", SRV_STRING, precision, "The precision of products.", .choices = precisions),
    ALWAYS("num_cells", SRV_REAL, cells, "All cells of the weights."),
    SRV_IF_KNOWN(
        "num_computed_cells", SRV_REAL, diagnostics, computed,
        "With pattern, window, any_of and masks by a table: the cells that the pass computes."),
    ALWAYS("num_operations", SRV_REAL, operations,
           "Floating-point operations; a multiply-add counts as two."),
    SRV_GROUP("bytes", byte_rows,
              "The scratch memory of the pass, and the size of the answer's tensors.",
              .always = true),
    {0},
};

static void put_diagnostics(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    diagnostics found;
    if (call->entries) {
        attn_json_array(j);
        for (size_t i = 0; i < call->entry_count; i++)
            put_diagnostics(j, &call->entries[i]);
        attn_json_array_end(j);
    } else if (diagnose(call, &found))
        srv_answer_object(j, diagnostics_rows, &found);
    else
        j->failed = true;
}

static void print_diagnostics(attn_text *t, const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    diagnostics found;
    if (!diagnose(call, &found)) {
        t->failed = true;
        return;
    }
    attn_text_add(t, "mask: %s\n", found.mask);
    attn_text_add(t, "kept: %.4g %% of %.6g cells\n", 100 * found.kept, found.cells);
    if (!isnan(found.computed))
        attn_text_add(t, "computed: %.4g %% of the cells\n",
                      found.cells > 0 ? 100 * found.computed / found.cells : 0);
    if (found.position)
        attn_text_add(t, "position: %s\n", found.position);
    if (found.pages)
        attn_text_add(t, "pages: %s\n", found.pages);
    attn_text_add(t, "score: %s, %zu parameter%s\n", found.score, found.parameters,
                  attn_plural(found.parameters));
    if (found.normalizer)
        attn_text_add(t, "normalizer: %s\n", found.normalizer);
    if (found.mix)
        attn_text_add(t, "mix: %s\n", found.mix);
    attn_text_add(t, "dims: B %zu, Hq %zu, Hkv %zu, L %zu, S %zu, past %zu, E %zu, Ev %zu\n", d->B,
                  d->Hq, d->Hkv, d->L, d->S, d->past, d->E, d->Ev);
    attn_text_add(t, "kernel: %s%s%s%s, precision %s\n", found.kernel, found.tiles ? " (" : "",
                  found.tiles ? found.tiles : "", found.tiles ? ")" : "", found.precision);
    attn_text_add(t, "cost: %.6g operations, %.0f bytes of results, %.0f bytes of scratch\n",
                  found.operations, found.result, found.work);
}

/* --- JSON --- */

/* Writes the requested tensors. Checks the deadline after each tensor, because large tensors take
 * long. false: the deadline has passed or the client has left. */
static bool write_tensors(attn_json_text *j, const srv_attention_call *call) {
    srv_result rows[SRV_RESULTS];
    attn_error err = {0};
    size_t n = srv_attention_results(call->entries ? call->entries : call, call->want, rows);
    for (size_t i = 0; i < n; i++) {
        const bool follows = i > 0 && rows[i - 1].part, goes_on = i + 1 < n && rows[i + 1].part;
        if (!rows[i].part || !follows)
            attn_json_key(j, rows[i].name);
        if (rows[i].part) {
            if (!follows)
                attn_json_object(j);
            attn_json_key(j, rows[i].part);
        }
        if (call->entries)
            srv_entries_result(j, call, i);
        else
            srv_json_tensor(j, rows[i].tensor);
        if (rows[i].part && !goes_on)
            attn_json_object_end(j);
        if (attn_control_check(&call->req->control, &err))
            return srv_problem_error(call->req, &err);
    }
    /* An .npy file holds one tensor, and /v2 answers only the requested outputs: neither has room
     * for the lengths. */
    if (call->entries && j->aside && !(call->req->accept & SRV_ACCEPT_NPY) && !call->req->parts)
        srv_packed_lengths(j, call);
    return true;
}

static void put_heatmap(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    srv_heat_put(j, &call->maps, &call->body.heatmap, &call->body.labels);
}

static void put_analysis(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    if (call->entries) {
        attn_json_array(j);
        for (size_t i = 0; i < call->entry_count; i++)
            put_analysis(j, &call->entries[i]);
        attn_json_array_end(j);
        return;
    }
    attn_json_object(j);
    srv_analysis_members(j, &call->analysis);
    attn_json_object_end(j);
}

static void put_run(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    srv_run_write(j, call->run);
}

static const srv_field verification_rows[] = {
    SRV_ALWAYS("num_rows", SRV_INT, attn_verification, rows, "Rows that were computed again."),
    SRV_ALWAYS("output_error", SRV_REAL, attn_verification, output_error,
               "Relative to the largest magnitude of value."),
    SRV_ALWAYS("logsumexp_error", SRV_REAL, attn_verification, logsumexp_error, "Absolute."),
    {0},
};

static void put_verification(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer;
    if (call->body.verify)
        srv_answer_object(j, verification_rows, &call->verification);
}

/* The row of a tensor, for the schema only: write_tensors writes the tensors. */
#define TENSOR(name, text) SRV_WRITTEN(name, "Numbers", NULL, text)
static const srv_field omitted_rows[] = {
    SRV_WRITTEN("weights", "OmittedTensor", NULL, NULL, .always = true),
    SRV_WRITTEN("gradients.scores", "OmittedTensor", NULL, NULL),
    {0},
};
static const srv_field attention_rows[] = {
    TENSOR("output", "[.., H, L, Ev] in the layout of the request."),
    TENSOR("weights", "[.., H, L, S]: the softmax of the scores, or what normalizer makes of them, "
                      "before dropout."),
    TENSOR("weights_dropped", "The weights after dropout, which multiply the values."),
    TENSOR("logsumexp", "[.., H, L]: the logarithm of the sum of the exponentials of the scores of "
                        "a row."),
    SRV_WRITTEN("scores", "Numbers|{Numbers}", NULL,
                "With a list of stages as score_stage: an object with a tensor for each stage."),
    TENSOR("present_key", "past_key and the keys behind it."),
    TENSOR("present_value", "past_value and the values behind it."),
    TENSOR("query", "[.., H, L, E], as the scores are made of it: random numbers as drawn, after "
                    "projections, encodings and rotation. Without H where the weights have none."),
    TENSOR("key", "[.., Hkv, S, E], as query, with the cache in front."),
    TENSOR("value", "[.., Hkv, S, Ev], as query, with the cache in front."),
    TENSOR("weighted_values", "[.., H, L, S, Ev]: weight times value, whose sum over the keys is "
                              "the output of the head."),
    TENSOR("row_sums",
           "[.., H, L]: the sums of the weights: 1, less with sinks, 0 for a row that sees no "
           "key. With the normalizer sigmoid, relu or relu_squared a sum may be any."),
    SRV_WRITTEN("gradients", "{Numbers|{Numbers}}", srv_gradients_put,
                "By input name, each with the shape of its input; those of score, position and "
                "projections in objects of these names. Of two kinds of position, that which "
                "changes scores is score_position. scores is the gradient with respect to the "
                "biased scores.",
                .when = offsetof(srv_attention_call, backward)),
    SRV_WRITTEN("heatmap", "Heatmap", put_heatmap, "With heatmap: the weights, pooled.",
                .when = offsetof(srv_attention_call, heatmap)),
    SRV_WRITTEN("analysis", "Analysis|[Analysis]", put_analysis,
                "With analysis: measures and diagnoses; a list of them for a ragged batch.",
                .when = offsetof(srv_attention_call, analyses)),
    SRV_WRITTEN("run", "Run", put_run, "The stored run, with store.",
                .when = offsetof(srv_attention_call, body.store)),
    SRV_WRITTEN("omitted", "*", put_omitted,
                "What the default of return left out because of its size, and how to get it.",
                .fields = omitted_rows, .when = offsetof(srv_attention_call, weights_omitted)),
    SRV_WRITTEN("verification", "Verification", put_verification,
                "With verify: the largest differences."),
    SRV_WARNINGS_MEMBER(srv_attention_call, warnings),
    SRV_WRITTEN("diagnostics", "Diagnostics|[Diagnostics]", put_diagnostics,
                "With explain: mask, offsets, sizes, kernel and cost; a list of them for a ragged "
                "batch.",
                .when = offsetof(srv_attention_call, body.explain)),
    SRV_WRITTEN("dry_run", "DryRun", NULL, "With dry_run: shapes and cost."),
    {0},
};

const srv_field srv_attention_answers[] = {
    SRV_GROUP("Attention", attention_rows,
              "The tensors that return names, and the other requested members. With dry_run the "
              "answer has only the member dry_run."),
    SRV_GROUP("Diagnostics", diagnostics_rows, NULL),
    SRV_GROUP("Verification", verification_rows,
              "Largest differences of rows that were computed again in float64: of the output, "
              "relative to the largest magnitude of value, and of logsumexp."),
    {0},
};

void srv_attention_json(srv_attention_call *call, attn_json_text *j) {
    if (!j->aside)
        attn_json_reserve(j, (size_t)call->bill.text);
    if (write_tensors(j, call))
        srv_answer_members(j, attention_rows, call);
}

/* --- text --- */

/* Prints a tensor of the answer. Of a ragged batch, prints the tensor of entry k, under a name such
 * as "output/2". */
static void print_result(attn_text *t, const srv_attention_call *call, const srv_result *row,
                         size_t k) {
    const char *path = srv_result_path(call, row);
    const attn_tensor item = call->entries ? srv_attention_item(row->tensor) : *row->tensor;
    attn_text name = {.arena = call->req->arena};
    attn_text_add(&name, "%s", path ? path : row->name);
    if (call->entries)
        attn_text_add(&name, "/%zu", k);
    srv_text_tensor(t, name.failed ? row->name : name.data, &item,
                    (srv_print){(int)call->body.decimals, call->body.full});
}

void srv_attention_text(void *data, attn_text *t) {
    srv_attention_call *call = data;
    const attn_verification *v = &call->verification;
    srv_result rows[SRV_RESULTS];
    const size_t count = call->entries ? call->entry_count : 1;
    for (size_t k = 0; k < count; k++) {
        const srv_attention_call *one = call->entries ? &call->entries[k] : call;
        const size_t n = srv_attention_results(one, call->want, rows);
        for (size_t i = 0; i < n; i++)
            print_result(t, call, &rows[i], k);
    }
    if (call->backward)
        srv_gradients_text(t, call);
    if (call->heatmap)
        srv_heat_text(t, &call->maps, &call->body.labels, NULL);
    for (size_t k = 0; call->analyses && k < count; k++)
        srv_analysis_text(t, call->entries ? &call->entries[k].analysis : &call->analysis);
    print_omitted(t, call);
    srv_run_print(t, call->run);
    if (call->body.verify)
        attn_text_add(t,
                      "verified: %zu row%s in float64, largest difference of output %.3g of the "
                      "largest value, of logsumexp %.3g\n",
                      v->rows, attn_plural(v->rows), v->output_error, v->logsumexp_error);
    srv_warnings_text(t, &call->warnings);
    for (size_t k = 0; call->body.explain && k < count; k++)
        print_diagnostics(t, call->entries ? &call->entries[k] : call);
}
