/* An infer request: its JSON in one pass, and where the binary data behind it belongs. */
#include <string.h>

#include "number/number.h"
#include "wire/infer_reader.h"

bool srv_infer_lead(const char *text, size_t *out) {
    size_t value = 0, digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] || digits > 18)
        return false;
    for (; *text; text++)
        value = value * 10 + (size_t)(*text - '0');
    *out = value;
    return true;
}

static bool read_inputs(srv_infer_reader *r) {
    srv_infer *o = r->out;
    size_t room = 0;
    bool more = true;
    if (!srv_infer_need(r, '[', "a list of inputs"))
        return false;
    if (*r->s.p == ']')
        return srv_infer_refuse(r, SRV_VALUE, "expected at least one input");
    for (; more; o->input_count++) {
        if (o->input_count == room) {
            room = room ? 2 * room : 8;
            attn_named_tensor *grown = attn_arena_zeroed(r->s.req->arena, room, sizeof *grown);
            if (!grown)
                return srv_scan_memory(&r->s);
            if (o->input_count)
                memcpy(grown, o->inputs, o->input_count * sizeof *grown);
            o->inputs = grown;
        }
        size_t mark = srv_path_index(&r->s.path, o->input_count);
        if (o->input_count == SRV_INFER_INPUTS)
            return srv_infer_refuse(r, SRV_VALUE, "there are no more than 64 inputs");
        if (!srv_infer_input(r, &o->inputs[o->input_count], &o->types[o->input_count]))
            return false;
        for (size_t i = 0; i < o->input_count; i++)
            if (strcmp(o->inputs[i].name, o->inputs[o->input_count].name) == 0)
                return srv_infer_refuse(r, SRV_VALUE, "an input of this name is there already");
        srv_path_back(&r->s.path, mark);
        if (!srv_infer_next(r, ']', &more))
            return false;
    }
    return true;
}

static const char *const output_parameters[] = {"binary_data", NULL};

static bool take_output_parameter(srv_infer_reader *r, const srv_infer_member *m, void *out) {
    bool on = false;
    if (!output_parameters[m->key])
        return srv_infer_unknown(r, &m->name, output_parameters);
    if (!srv_infer_bool(r, &on))
        return false;
    ((srv_infer_output *)out)->binary = on;
    return true;
}

static const char *const output_members[] = {"name", "parameters", NULL};

static bool take_output(srv_infer_reader *r, const srv_infer_member *m, void *out) {
    return m->key == 0 ? srv_infer_text(r, &((srv_infer_output *)out)->name)
           : m->key == 1
               ? srv_infer_object(r, output_parameters, "an object", take_output_parameter, out)
               : srv_infer_unknown(r, &m->name, output_members);
}

static bool read_output(srv_infer_reader *r, srv_infer_output *out) {
    *out = (srv_infer_output){.binary = -1};
    if (!srv_infer_object(r, output_members, "an output, an object", take_output, out))
        return false;
    return out->name || srv_infer_refuse(r, SRV_VALUE, "an output needs a name");
}

static bool read_outputs(srv_infer_reader *r) {
    srv_infer *o = r->out;
    bool more = true;
    if (!srv_infer_need(r, '[', "a list of outputs"))
        return false;
    if (*r->s.p == ']') {
        r->s.p++;
        return true;
    }
    for (; more; o->output_count++) {
        size_t mark = srv_path_index(&r->s.path, o->output_count);
        if (o->output_count == SRV_INFER_OUTPUTS)
            return srv_infer_refuse(r, SRV_VALUE, "there are no more than 16 outputs");
        if (!read_output(r, &o->outputs[o->output_count]))
            return false;
        for (size_t i = 0; i < o->output_count; i++)
            if (strcmp(o->outputs[i].name, o->outputs[o->output_count].name) == 0)
                return srv_infer_refuse(r, SRV_VALUE, "this output is asked for twice");
        srv_path_back(&r->s.path, mark);
        if (!srv_infer_next(r, ']', &more))
            return false;
    }
    return true;
}

static const char *const members[] = {"id", "parameters", "inputs", "outputs", NULL};

static bool take_member(srv_infer_reader *r, const srv_infer_member *m, void *to) {
    (void)to;
    switch (m->key) {
    case 0:
        return srv_infer_text(r, &r->out->id);
    case 1:
        return srv_infer_parameters(r);
    case 2:
        return read_inputs(r);
    case 3:
        return read_outputs(r);
    default:
        return srv_infer_unknown(r, &m->name, members);
    }
}

static bool read_document(srv_infer_reader *r) {
    srv_scan_space(&r->s);
    if (*r->s.p != '{')
        return srv_scan_expected(&r->s, "an object with inputs");
    if (!srv_infer_object(r, members, "", take_member, NULL))
        return false;
    if (!r->out->inputs)
        return srv_infer_refuse(r, SRV_VALUE, "the field \"inputs\" is required");
    srv_scan_space(&r->s);
    return r->s.p == r->s.end || srv_scan_expected(&r->s, "the end of the JSON");
}

/* Where the JSON ends and the binary data begins. The JSON is copied, so that a NUL follows it. */
static bool split(srv_infer_reader *r) {
    srv_request *req = r->s.req;
    size_t size = req->body_size;
    r->s.start = req->body;
    if (req->infer_header && (!srv_infer_lead(req->infer_header, &size) || size > req->body_size)) {
        srv_problem(req, SRV_BAD_REQUEST, NULL,
                    "Inference-Header-Content-Length must be a number of bytes within the body of "
                    "%zu, found \"%.40s\"",
                    req->body_size, req->infer_header);
        return false;
    }
    if (req->infer_header && size == 0) {
        srv_problem(
            req, SRV_BAD_REQUEST, NULL,
            "a body without JSON (Inference-Header-Content-Length: 0) does not say what its "
            "tensors are");
        return false;
    }
    if (size < req->body_size && !(r->s.start = attn_arena_text(req->arena, req->body, size)))
        return srv_scan_memory(&r->s);
    r->s.p = r->s.start;
    r->s.end = r->s.start + size;
    r->blob = req->body + size;
    r->blob_end = req->body + req->body_size;
    const char *nul = memchr(r->s.p, 0, size);
    return !nul || srv_scan_malformed(&r->s, nul, "a NUL byte is not JSON");
}

bool srv_infer_read(srv_request *req, size_t max_depth, const srv_field *own, srv_infer *out) {
    srv_infer_reader r = {.s = {.req = req, .max_depth = max_depth}, .out = out, .own = own};
    *out = (srv_infer){.fields = {""}, .own = {""}};
    if (!split(&r) || !read_document(&r))
        return false;
    if (r.blob != r.blob_end) {
        srv_problem(req, SRV_MALFORMED, NULL, "%zu bytes behind the last binary tensor",
                    (size_t)(r.blob_end - r.blob));
        return false;
    }
    return true;
}
