/* Gradients of POST /v1/attention. The backward pass propagates grad_output and grad_logsumexp
 * through the output projection, the attention operation and the input projections. In the answer,
 * each gradient has the name of its input. */
#include <stdio.h>
#include <string.h>

#include "api/attention/attention_call.h"

/* Returns the number of elements of the biases that are added to the scores. If the gradient of the
 * scores is wanted, adds the number of scores. SIZE_MAX: the number overflows. */
static size_t count_bias_elements(const srv_attention_call *call) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const attn_tensor scores = attn_tensor_dense(NULL, d->result, d->weights_rank, d->scores);
    const attn_mask_spec *mask = &call->body.operation.in.mask;
    size_t n = 0, more = 0;
    if ((call->gradient_items & SRV_WANT_SCORE_GRADIENTS) && !attn_tensor_count(&scores, &n))
        return SIZE_MAX;
    for (size_t i = 0; i < mask->count; i++)
        if (attn_layer_is_added(&mask->layers[i]) &&
            (!attn_tensor_count(&mask->layers[i].values, &more) || !attn_size_add(n, more, &n)))
            return SIZE_MAX;
    return n;
}

/* Adds the gradients of block pools. They are allocated in addition to the gradients of the
 * gathered keys and values. */
static bool add_pools(const srv_operation *o, attn_cost *out, attn_error *err) {
    const attn_tensor *const pools[] = {&o->in.key, &o->in.value};
    for (size_t i = 0; o->block_table.rank && i < 2; i++) {
        size_t n = 0;
        if (!attn_tensor_count(pools[i], &n) ||
            !attn_size_mul(n, attn_dtype_size(o->dims.result), &n) ||
            !attn_size_add(out->result_bytes, n, &out->result_bytes)) {
            attn_fail(err, ATTN_ELIMIT, "block_table", "more bytes than can be counted");
            return false;
        }
    }
    return true;
}

bool srv_gradients_cost(const srv_attention_call *call, size_t slots, attn_cost *out,
                        attn_error *err) {
    const attn_attention_dims *d = &call->body.operation.dims;
    const unsigned want =
        call->body.operation.projections.num_heads ? 0 : srv_attention_computes(call);
    attn_cost around;
    if (attn_gradients_cost(d, want, count_bias_elements(call), slots, out, err) ||
        !add_pools(&call->body.operation, out, err))
        return false;
    if (!call->body.operation.projections.num_heads)
        return true;
    if (attn_projections_cost(&call->body.operation.in, &call->body.operation.projections, &around,
                              err))
        return false;
    out->operations += 2 * around.operations;
    if (attn_size_add(out->work_bytes, around.work_bytes, &out->work_bytes) &&
        attn_size_add(out->result_bytes, around.work_bytes, &out->result_bytes))
        return true;
    attn_fail(err, ATTN_ELIMIT, "grad_output", "more bytes than can be counted");
    return false;
}

static attn_status new_gradients(srv_attention_call *call, attn_error *err) {
    call->gradients = attn_arena_zeroed(call->req->arena, 1, sizeof *call->gradients);
    return call->gradients ? ATTN_OK
                           : attn_fail(err, ATTN_ENOMEM, "", "no memory left for the gradients");
}

attn_status srv_gradients_with_run(srv_attention_call *call, attn_error *err) {
    srv_request *req = call->req;
    const srv_operation *o = &call->body.operation;
    const attn_pages pages = srv_operation_pages(o);
    attn_status status = new_gradients(call, err);
    if (!status)
        status = attn_attention_run_backward(call->op, srv_attention_computes(call),
                                             srv_attention_stage(call), &o->grad_output,
                                             srv_request_pool(req), &req->control, req->arena,
                                             &call->results, &call->gradients->inputs, err);
    if (!status && pages.table.rank)
        status =
            attn_pages_backward(&o->in, &pages, &call->gradients->inputs, srv_request_pool(req),
                                &req->control, req->arena, &call->gradients->inputs, err);
    return status;
}

attn_status srv_gradients_run(srv_attention_call *call, const attn_tensor *heads, attn_error *err) {
    srv_request *req = call->req;
    const attn_projections *p = &call->body.operation.projections;
    attn_tensor grad;
    attn_results results = call->results;
    attn_gradients inner;
    attn_status status = new_gradients(call, err);
    srv_gradients *g = call->gradients;
    results.output = *heads;
    if (!status)
        status = attn_projections_output_backward(heads, p, &call->body.operation.grad_output,
                                                  req->arena, &grad, &g->projections, err);
    if (!status)
        status = attn_attention_backward(call->op, &results, &grad, srv_request_pool(req),
                                         &req->control, req->arena, &inner, err);
    if (!status)
        status = attn_projections_backward(&call->body.operation.in, p, &inner, req->arena,
                                           &g->inputs, &g->projections, err);
    return status;
}

/* --- the answer --- */

/* A gradient and its name. In the answer the gradient is a member of the object `gradients` or, if
 * `object` is not NULL, a member of the object with this name in `gradients`. */
typedef struct named {
    const char *object, *name;
    const attn_tensor *t;
} named;

enum { NAMED = 32 }; /* at most 20 gradients, and one for each parameter of a score form */

typedef struct list {
    named rows[NAMED];
    size_t count;
} list;

static void add_gradient(list *l, const char *object, const char *name, const attn_tensor *t) {
    if (t->rank && l->count < NAMED)
        l->rows[l->count++] = (named){object, name, t};
}

static void add_input(list *l, const attn_input *row, const attn_gradients *g) {
    if (row->type == ATTN_INPUT_TENSOR)
        add_gradient(l, *row->object ? row->object : NULL, row->name,
                     attn_tensor_at(g, row->gradient));
}

/* Lists the wanted gradients that exist, in the order of the answer. */
static list list_gradients(const srv_attention_call *call, const srv_gradients *all) {
    const attn_gradients *g = &all->inputs;
    const attn_mask_spec *mask = &call->body.operation.in.mask;
    const attn_input *row = attn_input_rows;
    list l = {.count = 0};
    if (call->gradient_items & SRV_WANT_SCORE_GRADIENTS)
        add_gradient(&l, NULL, "scores", &g->scores);
    if (!(call->gradient_items & SRV_WANT_GRADIENTS))
        return l;
    for (; !*row->object; row++)
        add_input(&l, row, g);
    for (size_t i = 0; i < mask->count; i++)
        if (attn_layer_is_added(&mask->layers[i]))
            add_gradient(&l, NULL, mask->layers[i].where, &g->bias[i]);
    for (; row->name; row++)
        add_input(&l, row, g);
    for (const srv_field *f = srv_projections_fields; f->name; f++)
        if (f->kind == SRV_TENSOR)
            add_gradient(&l, "projections", f->name, attn_tensor_at(&all->projections, f->offset));
    return l;
}

/* Gives the gradient of the scores the axes of the other results. If the request had one query
 * without an axis, removes the axis of queries from the gradients. */
static void reshape_gradients(const srv_attention_call *call, srv_gradients *g) {
    const attn_mask_spec *mask = &call->body.operation.in.mask;
    srv_add_axes(&g->inputs.scores, call->body.operation.extra_axes);
    if (!call->body.operation.in.one_query)
        return;
    srv_drop_axis(&g->inputs.query, 2);
    srv_drop_axis(&g->inputs.scores, 2);
    for (size_t i = 0; i < mask->count; i++)
        if (mask->layers[i].kind == ATTN_LAYER_BIAS ? call->body.operation.bias_axis
                                                    : call->body.operation.mask_axis)
            srv_drop_axis(&g->inputs.bias[i], 2);
}

void srv_gradients_reshape(srv_attention_call *call) {
    reshape_gradients(call, call->gradients);
}

/* Returns a srv_gradients whose tensors are the inputs. A gradient has the shape of its input, so
 * the shapes and sizes of gradients can be read there before the gradients are computed. */
static srv_gradients describe_gradients(const srv_attention_call *call) {
    const attn_inputs *in = &call->body.operation.in;
    const attn_attention_dims *d = &call->body.operation.dims;
    srv_gradients g = {.projections = call->body.operation.projections};
    g.inputs.scores = attn_tensor_dense(NULL, d->result, d->weights_rank, d->scores);
    for (const attn_input *row = attn_input_rows; row->name; row++)
        if (row->type == ATTN_INPUT_TENSOR)
            *attn_tensor_at(&g.inputs, row->gradient) = *attn_tensor_at(in, row->offset);
    for (size_t l = 0; l < in->mask.count; l++)
        g.inputs.bias[l] = in->mask.layers[l].values;
    reshape_gradients(call, &g);
    return g;
}

size_t srv_gradients_bytes(const srv_attention_call *call) {
    const srv_gradients like = describe_gradients(call);
    const list l = list_gradients(call, &like);
    size_t bytes = 0;
    for (size_t i = 0; i < l.count; i++) {
        size_t count = 0;
        attn_tensor_count(l.rows[i].t, &count); /* cannot overflow for a decoded tensor */
        bytes += count * attn_dtype_size(call->body.operation.dims.result);
    }
    return bytes;
}

static const char *path_of(const named *row, attn_arena *arena) {
    char name[64];
    const int n = snprintf(name, sizeof name, "gradients/%s%s%s", row->object ? row->object : "",
                           row->object ? "/" : "", row->name);
    return attn_arena_text(arena, name, (size_t)n);
}

bool srv_gradients_shapes(const srv_attention_call *call, srv_dry *dry) {
    const srv_gradients like = describe_gradients(call);
    const list l = list_gradients(call, &like);
    for (size_t i = 0; i < l.count; i++) {
        const char *name = path_of(&l.rows[i], call->req->arena);
        if (!name)
            return srv_problem_memory(call->req, NULL, "no memory is left for the shapes");
        srv_dry_shape(dry, name, l.rows[i].t->rank, l.rows[i].t->dims);
    }
    return true;
}

static bool same_object(const char *object, const char *other) {
    return other && strcmp(object, other) == 0;
}

/* --- ragged batches --- */

enum { TOGETHER = 256 }; /* number of elements that are summed at once */

/* Returns whether each entry has a gradient of its own. The gradients of all other inputs, and of
 * pools of blocks, are sums over the entries. */
static bool is_own(const srv_attention_call *call, const char *name) {
    static const char own[] = " query scores attn_bias attn_mask past_key past_value ";
    return srv_is_listed(own, name) ||
           (!call->body.operation.block_table.rank && srv_is_listed(" key value ", name));
}

static bool is_shared(const srv_attention_call *call, const named *row) {
    return row->object || !is_own(call, row->name);
}

bool srv_gradients_is_shared(const srv_attention_call *call, const char *path) {
    static const char own[] = "gradients/";
    const size_t n = sizeof own - 1;
    return !strncmp(path, own, n) && !is_own(call, path + n);
}

/* Returns the axis of the rows of an entry's gradient that has `rank` axes, or -1 if it has rows of
 * two kinds. */
static int rows_of(const srv_attention_call *call, const char *name, int rank) {
    if (srv_is_listed(" past_key past_value ", name)) /* [.., Hkv, P, E] in every layout */
        return rank - 2;
    return srv_is_listed(" query key value ", name) ? srv_entry_rows(call, rank) : -1;
}

/* Sums elements e … e + n - 1 of gradient `row` over all entries. The gradient of the first entry
 * receives the sums. */
static void add_elements(srv_attention_call *call, size_t row, size_t e, size_t n) {
    const list first = list_gradients(call->entries, call->entries->gradients);
    const attn_tensor *to = first.rows[row].t;
    const size_t size = attn_dtype_size(to->dtype);
    double sums[TOGETHER] = {0}, xs[TOGETHER];
    for (size_t b = 0; b < call->entry_count; b++) {
        const list l = list_gradients(&call->entries[b], call->entries[b].gradients);
        attn_widen_f64(xs, (const char *)l.rows[row].t->data + e * size, to->dtype, 1, n);
        for (size_t c = 0; c < n; c++)
            sums[c] += xs[c];
    }
    for (size_t c = 0; c < n; c++)
        if (to->dtype == ATTN_F64)
            ((double *)to->data)[e + c] = sums[c];
        else
            ((float *)to->data)[e + c] = (float)sums[c];
}

/* Gives an entry whose cache is empty the gradient of the cache, without elements, so that all
 * entries have the same list of gradients. */
static void complete_cache(attn_tensor *gradient, const attn_tensor *cache, attn_dtype dtype) {
    if (cache->rank && !gradient->rank)
        *gradient = attn_tensor_dense(NULL, dtype, cache->rank, cache->dims);
}

void srv_gradients_add_entries(srv_attention_call *call) {
    for (size_t b = 0; b < call->entry_count; b++) {
        const srv_operation *o = &call->entries[b].body.operation;
        attn_gradients *g = &call->entries[b].gradients->inputs;
        complete_cache(&g->past_key, &o->in.past_key, o->dims.result);
        complete_cache(&g->past_value, &o->in.past_value, o->dims.result);
    }
    const list sums = list_gradients(call->entries, call->entries->gradients);
    for (size_t i = 0; i < sums.count; i++) {
        size_t count = 0;
        if (!is_shared(call, &sums.rows[i]) || !attn_tensor_count(sums.rows[i].t, &count))
            continue;
        for (size_t e = 0; e < count; e += TOGETHER)
            add_elements(call, i, e, count - e < TOGETHER ? count - e : TOGETHER);
    }
}

static attn_tensor gradient_of(const srv_attention_call *call, size_t b, size_t row) {
    const list l = list_gradients(&call->entries[b], call->entries[b].gradients);
    return srv_attention_item(l.rows[row].t);
}

/* --- the answer as JSON and as text --- */

static void put_gradient(attn_json_text *j, const srv_attention_call *call, const named *rows,
                         size_t i) {
    attn_json_key(j, rows[i].name);
    if (!call->entries || is_shared(call, &rows[i]))
        srv_json_tensor(j, rows[i].t);
    else
        srv_entries_put(j, call, gradient_of, i,
                        rows_of(call->entries, rows[i].name, rows[i].t->rank - 1));
}

void srv_gradients_put(attn_json_text *j, const void *answer) {
    const srv_attention_call *call = answer, *first = call->entries ? call->entries : call;
    const list l = list_gradients(first, first->gradients);
    const named *rows = l.rows;
    attn_json_object(j);
    for (size_t i = 0; i < l.count; i++) {
        const char *object = rows[i].object;
        if (object && !same_object(object, rows[i - 1].object))
            attn_json_key_object(j, object);
        put_gradient(j, call, rows, i);
        if (object && (i + 1 == l.count || !same_object(object, rows[i + 1].object)))
            attn_json_object_end(j);
    }
    attn_json_object_end(j);
}

/* Prints the gradients. Of a ragged batch, prints the gradients of entry k, under names such as
 * "gradients/query/2". */
static void print_gradients(attn_text *t, const srv_attention_call *call,
                            const srv_attention_call *one, size_t k) {
    const list l = list_gradients(one, one->gradients);
    for (size_t i = 0; i < l.count; i++) {
        const char *path = path_of(&l.rows[i], call->req->arena);
        const bool own = call->entries && !is_shared(call, &l.rows[i]);
        const attn_tensor item = own ? srv_attention_item(l.rows[i].t) : *l.rows[i].t;
        attn_text name = {.arena = call->req->arena};
        if (call->entries && !own && k)
            continue;
        attn_text_add(&name, own ? "%s/%zu" : "%s", path ? path : l.rows[i].name, k);
        srv_text_tensor(t, name.failed ? l.rows[i].name : name.data, &item,
                        (srv_print){(int)call->body.decimals, call->body.full});
    }
}

void srv_gradients_text(attn_text *t, const srv_attention_call *call) {
    const size_t count = call->entries ? call->entry_count : 1;
    for (size_t k = 0; k < count; k++)
        print_gradients(t, call, call->entries ? &call->entries[k] : call, k);
}
