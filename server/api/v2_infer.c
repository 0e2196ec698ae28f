/* POST /v2/models/{model}/infer: the protocol's request becomes a form of /v1/attention, whose
 * handler runs it and leaves the tensors as parts, which become outputs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/handlers.h"
#include "api/route_fields.h"
#include "api/v2_model.h"
#include "request/shared.h"
#include "wire/infer.h"
#include "wire/scan.h"

static const srv_v2_output *find_output(const char *name) {
    for (const srv_v2_output *o = srv_v2_outputs; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

/* The outputs to answer, by name: those asked for, or all of the metadata. */
static bool choose_outputs(srv_request *req, const srv_infer *in, const char **names,
                           size_t *count) {
    *count = 0;
    for (size_t i = 0; i < in->output_count; i++) {
        char pointer[48];
        if (find_output(in->outputs[i].name)) {
            names[(*count)++] = in->outputs[i].name;
            continue;
        }
        snprintf(pointer, sizeof pointer, "/outputs/%zu/name", i);
        srv_problem(req, SRV_VALUE, pointer,
                    "expected output, weights, logsumexp, weights_dropped, scores, present_key or "
                    "present_value, found \"%.80s\"",
                    in->outputs[i].name);
        return false;
    }
    for (const srv_v2_output *o = srv_v2_outputs; in->output_count == 0 && o->name; o++)
        if (o->rank)
            names[(*count)++] = o->name;
    return true;
}

/* "output","weights",… as `return` calls them */
static size_t list_items(const char *const *names, size_t count, char *items, size_t room) {
    size_t used = 0;
    bool present = false;
    for (size_t i = 0; i < count; i++) {
        const char *item = find_output(names[i])->item;
        if (strcmp(item, "present") == 0 && present)
            continue;
        present = present || strcmp(item, "present") == 0;
        used += (size_t)snprintf(items + used, room - used, "%s\"%s\"", used ? "," : "", item);
    }
    return used;
}

static bool no_memory(srv_request *req) {
    srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(req->arena),
                      "max_request_bytes", "no memory for the parameters is left");
    return false;
}

/* A form, and the model whose request it was made of. */
typedef struct model_form {
    srv_form form;
    const srv_infer_model *model;
    const char *const *types; /* of its tensors */
} model_form;

/* Does the tensor of this name, "score.w" at "/score/w", stand at `pointer` or around it; or
 * `behind` it? */
static bool is_at(const char *pointer, const char *name, bool behind) {
    srv_path path = {.size = 0};
    for (size_t n; n = strcspn(name, "."), srv_path_key(&path, name, n), name[n]; name += n + 1)
        ;
    size_t n = behind ? strlen(pointer) : path.size;
    const char *end = behind ? path.text : pointer;
    return strncmp(pointer, path.text, n) == 0 && strchr("/", end[n]);
}

static bool find_tensor(const model_form *form, const char *pointer, bool behind, srv_origin *out) {
    const attn_named_tensor *t = form->form.tensors;
    size_t i = 0, own = form->model->object ? strlen(form->model->object) : 0;
    while (i < form->form.count && !is_at(pointer, t[i].name, behind))
        i++;
    if (i == form->form.count)
        return false;
    snprintf(out->pointer, sizeof out->pointer, "/inputs/%zu", i);
    bool inside = own && strncmp(t[i].name, form->model->object, own) == 0 && t[i].name[own] == '.';
    out->name = t[i].name + (inside ? own + 1 : 0);
    out->type = form->types[i];
    return true;
}

static const srv_field *row_of(const srv_field *fields, const char *step, size_t n) {
    while (fields->name && (strlen(fields->name) != n || memcmp(fields->name, step, n) != 0))
        fields++;
    return fields->name ? fields : NULL;
}

/* From a place in the form to that of the input or parameter that came to stand there: parameters
 * are texts, and have no places inside. */
static void place(const srv_form *of, const char *pointer, srv_origin *out) {
    const model_form *form = (const model_form *)(const void *)of;
    const char *object = form->model->object, *step = pointer + 1;
    const srv_field *fields = srv_attention_fields;
    size_t n = *pointer ? strcspn(step, "/") : 0;
    *out = (srv_origin){.name = NULL};
    if (!*pointer || strncmp(pointer, "/inputs/", 8) == 0) {
        snprintf(out->pointer, sizeof out->pointer, "%s", pointer);
        return;
    }
    if (find_tensor(form, pointer, false, out))
        return;
    if (object && strlen(object) == n && memcmp(step, object, n) == 0) {
        fields = form->model->own;
        step += n + (step[n] == '/');
        n = strcspn(step, "/");
    }
    const srv_field *row = row_of(fields, step, n);
    if (!row && n > 0 && find_tensor(form, pointer, true, out))
        return;
    if (row && strcmp(row->name, "return") == 0)
        snprintf(out->pointer, sizeof out->pointer, "/outputs");
    else
        snprintf(out->pointer, sizeof out->pointer, "/parameters%s%.*s", n ? "/" : "", (int)n,
                 step);
}

/* {"return":[..],…the parameters,"projections":{…those of its own}} */
static bool make_form(srv_request *req, const srv_infer_model *model, const srv_infer *in,
                      const char *const *names, size_t count, model_form *out) {
    char items[256];
    list_items(names, count, items, sizeof items);
    char *text = attn_arena_take(req->arena, sizeof items + in->fields.size + in->own.size + 64);
    if (!text)
        return no_memory(req);
    char *p = text + sprintf(text, "{\"return\":[%s]", items);
    memcpy(p, in->fields.text, in->fields.size);
    p += in->fields.size;
    if (model->object) {
        p += sprintf(p, ",\"%s\":{", model->object);
        if (in->own.size) { /* without its first comma */
            memcpy(p, in->own.text + 1, in->own.size - 1);
            p += in->own.size - 1;
        }
        *p++ = '}';
    }
    memcpy(p, "}", 2);
    *out = (model_form){{.text = text,
                         .size = (size_t)(p + 1 - text),
                         .tensors = in->inputs,
                         .count = in->input_count,
                         .beyond = in->beyond,
                         .place = place},
                        model,
                        in->types};
    return true;
}

static bool check_inputs(srv_request *req, const srv_infer *in) {
    char pointer[32];
    for (size_t i = 0; i < in->input_count; i++) {
        if (srv_v2_takes(in->inputs[i].name))
            continue;
        snprintf(pointer, sizeof pointer, "/inputs/%zu", i);
        srv_problem(req, SRV_BAD_REQUEST, pointer,
                    "\"%s\" is no input here: POST /v1/attention answers gradients",
                    in->inputs[i].name);
        return false;
    }
    return true;
}

/* Inputs of the model's own are tensors of its object: "w_q" becomes "projections.w_q". */
static bool place_inputs(srv_request *req, const srv_infer_model *model, srv_infer *in) {
    for (size_t i = 0; i < in->input_count; i++)
        for (const srv_field *f = model->own; f && f->name; f++) {
            char name[64];
            if (f->kind != SRV_TENSOR || strcmp(f->name, in->inputs[i].name) != 0)
                continue;
            int n = snprintf(name, sizeof name, "%s.%s", model->object, f->name);
            in->inputs[i].name = attn_arena_text(req->arena, name, (size_t)n);
            if (!in->inputs[i].name)
                return no_memory(req);
            break;
        }
    return true;
}

static void hurry(srv_request *req, int64_t timeout_us) {
    int64_t most = (INT64_MAX - req->start_ns) / 1000;
    if (timeout_us > 0)
        srv_request_finish_by(req, req->start_ns + (timeout_us < most ? timeout_us : most) * 1000);
}

static srv_outcome infer(srv_request *req, const srv_infer_model *model) {
    const char *names[SRV_INFER_OUTPUTS];
    srv_infer in;
    model_form form;
    srv_parts parts = {0};
    size_t count;
    int64_t start = attn_now_ns();
    if (!srv_infer_read(req, (size_t)req->app->config->max_json_depth, model->own, &in) ||
        !choose_outputs(req, &in, names, &count) || !check_inputs(req, &in) ||
        !place_inputs(req, model, &in) || !make_form(req, model, &in, names, count, &form))
        return SRV_DONE;
    hurry(req, in.timeout_us);
    int64_t read = attn_now_ns() - start;
    req->form = &form.form;
    req->parts = &parts;
    srv_outcome outcome = srv_attention(req);
    req->form = NULL;
    req->parts = NULL;
    req->decode_ns += read;
    if (outcome == SRV_DEFER || req->reply.status != 200)
        return outcome;
    start = attn_now_ns();
    srv_infer_reply(req, &in, model->name, SRV_V2_VERSION, names, count, &parts);
    req->encode_ns += attn_now_ns() - start;
    return SRV_DONE;
}

static void record(const srv_request *req, size_t model) {
    srv_meters *m = req->app->meters;
    int64_t total = attn_now_ns() - req->start_ns;
    struct timespec now;
    bool good = req->reply.status == 200;
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD : SRV_INFER_BAD), 1);
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD_NS : SRV_INFER_BAD_NS), total);
    if (!good)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_QUEUE_NS), req->queued_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_DECODE_NS), req->decode_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_COMPUTE_NS), req->compute_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_ENCODE_NS), req->encode_ns);
    srv_meter_set(m, srv_infer_meter(model, SRV_INFER_LAST_MS),
                  now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

srv_outcome srv_v2_infer(srv_request *req) {
    const srv_infer_model *model = srv_v2_find(req);
    if (!model)
        return SRV_DONE;
    srv_outcome outcome = infer(req, model);
    /* too large for the HTTP thread is not the last word */
    if (outcome == SRV_DONE && !(req->in_place && srv_problem_is_memory(req)))
        record(req, srv_v2_index_of(model));
    return outcome;
}
