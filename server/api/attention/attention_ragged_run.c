/* The computation of a ragged batch (attention_ragged.c): its cost, the run of all entries, and its
 * dry run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/attention/attention_call.h"
#include "request/shared.h"

bool srv_ragged_settle(srv_attention_call *call) {
    srv_attention_bill all = {0};
    srv_cost cost = {0};
    for (size_t b = 0; b < call->entry_count; b++) {
        srv_attention_call *entry = &call->entries[b];
        if (!srv_attention_settle(entry))
            return false;
        const srv_attention_bill *bill = &entry->bill;
        all.cells += bill->cells;
        all.operations += bill->operations;
        all.stored += bill->stored;
        all.result += bill->result;
        all.work += bill->work;
        all.text += bill->text;
        if (call->backward && srv_packs(call))
            all.work += (double)srv_gradients_bytes(entry);
        cost.cells += entry->call.cost.cells;
        cost.operations += entry->call.cost.operations;
        cost.weighted += entry->call.cost.weighted;
        cost.exceeds |= bill->exceeds;
    }
    all.work += (double)attn_attention_each_bytes(call->entry_count) + srv_packed_bytes(call);
    all.exceeds = cost.exceeds;
    cost.result = all.result;
    cost.work = all.work;
    cost.text = all.text;
    call->bill = all;
    call->call.cost = cost;
    return true;
}

/* Returns the index of the first row of an entry in the packed tensor. */
static size_t first_row(const attn_tensor *packed, const attn_tensor *entry) {
    const ptrdiff_t row = packed->strides[0] * (ptrdiff_t)attn_dtype_size(packed->dtype);
    return row ? (size_t)(((const char *)entry->data - (const char *)packed->data) / row) : 0;
}

/* If err->where names an element of the field `name`, makes it name the element in the request. For
 * entry 2, "query/0/3" becomes "query/2/3" or, if the field is packed, "query/" and the index of
 * the packed row. `packed` is NULL if the field is not packed. */
static bool name_in_field(attn_error *err, const char *name, size_t b, const attn_tensor *packed,
                          const attn_tensor *entry) {
    const size_t n = strlen(name);
    char rest[sizeof err->where], *end = rest;
    size_t at = b;
    if (strncmp(err->where, name, n) || strncmp(err->where + n, "/0", 2))
        return false;
    snprintf(rest, sizeof rest, "%s", err->where + n + 2);
    if (packed && rest[0] == '/')
        at = first_row(packed, entry) + (size_t)strtoull(rest + 1, &end, 10);
    snprintf(err->where, sizeof err->where, "%s/%zu%.64s", name, at, end);
    return true;
}

/* What name_item reads: the error of entry b, whose `where` it makes name the element in the
 * request. */
typedef struct naming {
    attn_error *err;
    size_t b;
} naming;

/* Returns false if the error was that of this field. */
static bool name_item(void *data, const srv_by_entry *field) {
    const naming *n = data;
    return !name_in_field(n->err, field->at, n->b, field->packed ? field->whole : NULL,
                          field->item);
}

static void name_element(srv_attention_call *call, size_t b, attn_error *err) {
    srv_operation *o = &call->body.operation, *entry = &call->entries[b].body.operation;
    const bool packs = srv_operation_is_packed(o), blocks = o->block_table.rank > 0;
    naming n = {err, b};
    for (size_t i = 0; i < SRV_OPERANDS; i++)
        if (name_in_field(err, srv_operand_names[i], b,
                          packs && !(blocks && srv_operand_is_of_keys(i)) ? srv_operand_at(o, i)
                                                                          : NULL,
                          srv_operand_at(entry, i)))
            return;
    srv_by_entry_each(o, entry, name_item, &n);
}

/* Sets the problem for an error of entry b. Returns false. */
static bool refuse_entry(srv_attention_call *call, size_t b, attn_error *err) {
    name_element(call, b, err);
    return srv_problem_error(call->req, err);
}

/* Runs the operations of all entries with their backward passes, one after the other. */
static bool run_backward(srv_attention_call *call) {
    attn_error err = {0};
    for (size_t b = 0; b < call->entry_count; b++)
        if (srv_gradients_with_run(&call->entries[b], &err))
            return refuse_entry(call, b, &err);
    return true;
}

/* Runs the operations of all entries. If the library reports an error, its path begins with the
 * number of the entry. */
static bool run_entries(srv_attention_call *call) {
    srv_request *req = call->req;
    const size_t count = call->entry_count;
    attn_attention **ops = attn_arena_zeroed(req->arena, count, sizeof *ops);
    attn_results *results = attn_arena_zeroed(req->arena, count, sizeof *results);
    attn_error err = {0};
    char *rest;
    if (!ops || !results)
        return srv_problem_memory(req, NULL, "no memory is left for the entries");
    for (size_t b = 0; b < count; b++)
        ops[b] = call->entries[b].op;
    if (attn_attention_run_each(ops, count, srv_attention_computes(call->entries),
                                srv_attention_stage(call->entries), srv_request_pool(req),
                                &req->control, req->arena, results, &err)) {
        const size_t b = (size_t)strtoull(err.where, &rest, 10);
        if (rest == err.where || b >= count)
            return srv_problem_error(req, &err);
        memmove(err.where, rest + (*rest == '/'), strlen(rest + (*rest == '/')) + 1);
        return refuse_entry(call, b, &err);
    }
    for (size_t b = 0; b < count; b++)
        call->entries[b].results = results[b];
    return true;
}

/* Collects the heatmaps of all entries in one list. In this list `batch` is the index of the
 * entry. */
static bool collect_maps(srv_attention_call *call) {
    attn_heatmaps all = {0};
    for (size_t b = 0; b < call->entry_count; b++)
        all.count += call->entries[b].maps.count;
    all.items = attn_arena_zeroed(call->req->arena, all.count + 1, sizeof *all.items);
    if (!all.items)
        return srv_problem_memory(call->req, "/heatmap", "no memory is left for heatmaps");
    for (size_t b = 0, n = 0; b < call->entry_count; b++)
        for (size_t i = 0; i < call->entries[b].maps.count; i++, n++) {
            all.items[n] = call->entries[b].maps.items[i];
            all.items[n].batch = b;
        }
    call->maps = all;
    return true;
}

static bool end_entry(srv_attention_call *call, size_t b) {
    srv_attention_call *entry = &call->entries[b];
    const attn_attention_dims *d = &entry->body.operation.dims;
    attn_verification *all = &call->verification;
    attn_error err = {0};
    if (srv_attention_end(entry, &err))
        return refuse_entry(call, b, &err);
    const double cells = (double)d->Hq * (double)d->L * (double)d->S;
    if ((call->body.explain &&
         !srv_mask_kept(call->req, attn_attention_mask(entry->op), cells, &entry->kept)) ||
        !srv_attention_draw(entry))
        return false;
    if (entry->analyses && srv_attention_analyse(entry, &err))
        return refuse_entry(call, b, &err);
    if (srv_attention_shape(entry, &err))
        return refuse_entry(call, b, &err);
    all->rows += entry->verification.rows;
    all->output_error = fmax(all->output_error, entry->verification.output_error);
    all->logsumexp_error = fmax(all->logsumexp_error, entry->verification.logsumexp_error);
    return true;
}

/* Adds those warnings of an entry that no earlier entry has. */
static bool add_warnings(srv_attention_call *call, const srv_warnings *found) {
    for (size_t i = 0; i < found->count; i++) {
        const srv_warning *w = &found->items[i];
        bool known = false;
        for (size_t n = 0; n < call->warnings.count && !known; n++)
            known = !strcmp(call->warnings.items[n].code, w->code) &&
                    !strcmp(call->warnings.items[n].pointer, w->pointer);
        const char *where = w->pointer + (w->pointer[0] == '/');
        if (!known &&
            !srv_warnings_add(&call->warnings, call->req->arena, w->code, where, "%s", w->detail))
            return srv_problem_memory(call->req, NULL, "no memory is left for warnings");
    }
    return true;
}

bool srv_ragged_compute(srv_attention_call *call) {
    const bool projects = call->body.operation.projections.num_heads > 0;
    attn_error err = {0};
    for (size_t b = 0; b < call->entry_count; b++) {
        srv_warnings found = {0};
        if (srv_attention_begin(&call->entries[b], &found, &err))
            return refuse_entry(call, b, &err);
        if (!add_warnings(call, &found))
            return false;
    }
    if (!(call->backward && !projects ? run_backward : run_entries)(call))
        return false;
    for (size_t b = 0; b < call->entry_count; b++)
        if (!end_entry(call, b))
            return false;
    if (call->body.labels.count && srv_attention_warn_padding(call, &err))
        return srv_problem_error(call->req, &err);
    if (call->backward)
        srv_gradients_add_entries(call);
    return !call->heatmap || collect_maps(call);
}

/* --- dry_run --- */

/* Adds the shapes of an entry, named as in "output/2", without the batch axis. An input that all
 * entries share has one gradient, which has no batch axis. */
static bool add_shapes(const srv_attention_call *call, size_t b, const srv_dry *entry,
                       srv_dry *dry) {
    for (size_t i = 0; i < entry->shape_count; i++) {
        const srv_shape *shape = &entry->shapes[i];
        const bool shared = srv_gradients_is_shared(call, shape->name);
        const bool map = shared || !strcmp(shape->name, "heatmap"); /* it has no batch axis */
        attn_text name = {.arena = call->req->arena};
        if (shared && b == 0)
            srv_dry_shape(dry, shape->name, shape->rank, shape->dims);
        if (shared)
            continue;
        attn_text_add(&name, "%s/%zu", shape->name, b);
        if (name.failed)
            return srv_problem_memory(call->req, NULL, "no memory is left for the shapes");
        srv_dry_shape(dry, name.data, shape->rank - !map, shape->dims + !map);
    }
    return true;
}

bool srv_ragged_dry(const srv_attention_call *call, srv_dry *dry) {
    dry->shapes = attn_arena_zeroed(call->req->arena, call->entry_count * SRV_DRY_SHAPES,
                                    sizeof *dry->shapes);
    if (!dry->shapes)
        return srv_problem_memory(call->req, NULL, "no memory is left for the shapes");
    dry->operations = dry->computed = 0;
    dry->load = (srv_load){0};
    for (size_t b = 0; b < call->entry_count; b++) {
        srv_dry entry = {0};
        if (!srv_attention_dry(&call->entries[b], &entry) || !add_shapes(call, b, &entry, dry))
            return false;
        dry->mask = entry.mask; /* only its kinds are answered, which all entries share */
        dry->learns = true;
        dry->parameters = entry.parameters;
        dry->operations += entry.operations;
        dry->has_computed |= entry.has_computed;
        dry->computed += entry.has_computed ? entry.computed : entry.cells;
        dry->with_weights += entry.with_weights;
        dry->without_weights += entry.without_weights;
        dry->load.operations += entry.load.operations;
        dry->load.tanh += entry.load.tanh;
        dry->load.plain += entry.load.plain;
        dry->load.alone += entry.load.alone;
        dry->load.text += entry.load.text;
        dry->load.memory += entry.load.memory;
        dry->load.pieces += entry.load.pieces;
    }
    return true;
}
