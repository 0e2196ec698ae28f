/* Inference by the Open Inference Protocol under /v2. An infer request is rewritten as a decoded
 * body of POST /v1/attention. The handler of POST /v1/attention computes the answer. It stores the
 * tensors of the answer as parts (wire/container.h). The parts become the outputs of the
 * inference. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/attention/attention_api.h"
#include "api/common/form_input.h"
#include "api/service/service_api.h"
#include "api/service/v2_model.h"
#include "request/shared.h"
#include "system/clock.h"
#include "wire/infer.h"
#include "wire/json_out.h"
#include "wire/scan.h"

static const srv_v2_output *find_output(const char *name) {
    for (const srv_v2_output *o = srv_v2_outputs; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

/* Chooses the outputs to answer: the outputs that the request names or, if it names none, the
 * outputs of the metadata. false: a problem is set. */
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
        return srv_problem(
            req, SRV_VALUE, pointer,
            "expected output, weights, logsumexp, weights_dropped, scores, present_key or "
            "present_value, found \"%.80s\"",
            in->outputs[i].name);
    }
    for (const srv_v2_output *o = srv_v2_outputs; in->output_count == 0 && o->name; o++)
        if (o->rank)
            names[(*count)++] = o->name;
    return true;
}

/* Writes the items of `return` for the outputs with these names: "output","weights",… */
static void add_items(attn_text *text, const char *const *names, size_t count) {
    bool present = false;
    for (size_t i = 0; i < count; i++) {
        const char *item = find_output(names[i])->item;
        const bool both = strcmp(item, "present") == 0; /* for present_key, present_value */
        if (!both || !present)
            attn_text_add(text, "%s\"%s\"", i ? "," : "", item);
        present = present || both;
    }
}

static bool no_memory(srv_request *req) {
    return srv_problem_limit(req, SRV_TOO_LARGE, NULL, (double)attn_arena_limit(req->arena),
                             "max_request_bytes", "no memory for the parameters is left");
}

/* A body of /v1/attention, and the /v2 model for which it was made. */
typedef struct model_form {
    srv_decoded_body form;
    const srv_infer_model *model;
    const char *const *types; /* data types of the tensors in `form` */
} model_form;

/* Compares `pointer` with the JSON pointer of the tensor `name`, such as "/score/w" for "score.w".
 * If `behind` is false, returns whether `pointer` names the tensor or a value inside the tensor. If
 * `behind` is true, returns whether `pointer` names the tensor or a value that has the tensor
 * inside. */
static bool is_at(const char *pointer, const char *name, bool behind) {
    attn_path path = {.size = 0};
    for (size_t n; n = strcspn(name, "."), attn_path_key(&path, name, n), name[n]; name += n + 1)
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

/* The function `place` of the decoded body. It finds the input or parameter of the infer request
 * that the value at `pointer` in the body of /v1/attention was made from. For a value inside a
 * parameter, it finds the whole parameter, because the client sent the parameter as one text. */
static void find_origin(const srv_decoded_body *of, const char *pointer, srv_origin *out) {
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
    const srv_field *row = srv_find_field(fields, step, n);
    if (!row && n > 0 && find_tensor(form, pointer, true, out))
        return;
    if (row && strcmp(row->name, "return") == 0)
        snprintf(out->pointer, sizeof out->pointer, "/outputs");
    else
        snprintf(out->pointer, sizeof out->pointer, "/parameters%s%.*s", n ? "/" : "", (int)n,
                 step);
}

/* Makes the decoded body of /v1/attention. Its JSON is {"return":[outputs], parameters,
 * "object":{own parameters}}, and lacks the last member if the model has no object. */
static bool make_form(srv_request *req, const srv_infer_model *model, const srv_infer *in,
                      const char *const *names, size_t count, model_form *out) {
    attn_text text = {.arena = req->arena};
    attn_text_add(&text, "{\"return\":[");
    add_items(&text, names, count);
    attn_text_add(&text, "]");
    if (in->fields.size)
        attn_text_bytes(&text, in->fields.data, in->fields.size);
    if (model->object) {
        attn_text_add(&text, ",\"%s\":{", model->object);
        if (in->own.size) /* skips the comma with which in->own begins */
            attn_text_bytes(&text, in->own.data + 1, in->own.size - 1);
        attn_text_add(&text, "}");
    }
    attn_text_add(&text, "}");
    if (text.failed)
        return no_memory(req);
    *out = (model_form){{.text = text.data,
                         .size = text.size,
                         .tensors = in->inputs,
                         .count = in->input_count,
                         .beyond = in->beyond,
                         .place = find_origin},
                        model,
                        in->types};
    return true;
}

static bool check_inputs(srv_request *req, const srv_infer *in) {
    char pointer[32];
    for (size_t i = 0; i < in->input_count; i++) {
        if (srv_v2_takes_input(in->inputs[i].name))
            continue;
        snprintf(pointer, sizeof pointer, "/inputs/%zu", i);
        return srv_problem(req, SRV_BAD_REQUEST, pointer,
                           "\"%s\" is no input here: POST /v1/attention answers gradients",
                           in->inputs[i].name);
    }
    return true;
}

/* Renames inputs that are fields of the model's own object: "w_q" becomes "projections.w_q". */
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

static void apply_timeout(srv_request *req, int64_t timeout_us) {
    int64_t most = (INT64_MAX - req->start_ns) / 1000;
    if (timeout_us > 0)
        srv_request_finish_by(req, req->start_ns + (timeout_us < most ? timeout_us : most) * 1000);
}

static srv_outcome answer_inference(srv_request *req, const srv_infer_model *model) {
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
    apply_timeout(req, in.timeout_us);
    int64_t read = attn_now_ns() - start;
    parts.binary = srv_infer_is_binary(&in, names, count);
    req->decoded_body = &form.form;
    req->parts = &parts;
    srv_outcome outcome = srv_attention(req);
    req->decoded_body = NULL;
    req->parts = NULL;
    req->decode_ns += read;
    if (outcome == SRV_DEFER || req->reply.status != 200)
        return outcome;
    start = attn_now_ns();
    srv_infer_reply(req, &in, model->name, SRV_V2_VERSION, names, count, &parts);
    req->encode_ns += attn_now_ns() - start;
    return SRV_DONE;
}

static void count_inference(const srv_request *req, size_t model) {
    srv_meters *m = req->app->meters;
    int64_t total = attn_now_ns() - req->start_ns;
    bool good = req->reply.status == 200;
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD : SRV_INFER_BAD), 1);
    srv_meter_add(m, srv_infer_meter(model, good ? SRV_INFER_GOOD_NS : SRV_INFER_BAD_NS), total);
    if (!good)
        return;
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_QUEUE_NS), req->queued_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_DECODE_NS), req->decode_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_COMPUTE_NS), req->compute_ns);
    srv_meter_add(m, srv_infer_meter(model, SRV_INFER_ENCODE_NS), req->encode_ns);
    srv_meter_set(m, srv_infer_meter(model, SRV_INFER_LAST_MS),
                  srv_clock_ns(CLOCK_REALTIME) / 1000000);
}

srv_outcome srv_v2_infer(srv_request *req) {
    const srv_infer_model *model = srv_v2_find_model(req);
    if (!model)
        return SRV_DONE;
    srv_outcome outcome = answer_inference(req, model);
    /* If the arena of the HTTP thread is too small for a request, the request runs again on a
     * request thread and is counted there. */
    if (outcome == SRV_DONE && !(req->in_place && srv_problem_is_memory(req)))
        count_inference(req, srv_v2_model_index(model));
    return outcome;
}
