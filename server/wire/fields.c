/* A JSON body into a C struct by a field table: the envelope's document is loaded by jansson and
 * walked beside the table; tensors come from the envelope's side table. */
#include "wire/fields.h"
#include "config/nearest.h"

#include <stdio.h>
#include <string.h>

#include "config/document.h"
#include "request/shared.h"
#include "wire/field_value.h"
#include "wire/graft.h"

/* Without a configuration (tests). */
static const srv_bounds standard = {.depth = 32, .bytes = 1 << 20};

bool srv_fields_fit(const srv_field *fields) {
    size_t rows = 0;
    for (; fields[rows].name; rows++)
        if (fields[rows].fields && !srv_fields_fit(fields[rows].fields))
            return false;
    return rows <= SRV_FIELDS_MOST;
}

static bool decode_value(srv_decoder *d, const srv_field *f, const json_t *v, void *out);
static bool decode_object(srv_decoder *d, const srv_field *fields, const json_t *object,
                          uint64_t given, void *out);

/* An object, with the first of its fields, so that nobody has to look them up. */
static const char *expected_object(const srv_field *f, char *text, size_t size) {
    enum { SHOWN = 4 };
    size_t n = (size_t)snprintf(text, size, "%s",
                                f->accepts & SRV_O_NAME ? "a name or an object" : "an object");
    const srv_field *field = f->fields;
    for (; field->name && field < f->fields + SHOWN && n < size; field++)
        n += (size_t)snprintf(text + n, size - n, "%s\"%s\"", field == f->fields ? " with " : ", ",
                              field->name);
    if (n < size && field->name)
        snprintf(text + n, size - n, ", …");
    return text;
}

static bool decode_nested(srv_decoder *d, const srv_field *f, const json_t *v, void *out) {
    char text[256];
    bool name = f->kind == SRV_OBJECT && (f->accepts & SRV_O_NAME) && json_is_string(v);
    if (!name && !json_is_object(v))
        return srv_field_refuse(d, SRV_TYPE, v, expected_object(f, text, sizeof text));
    if (f->init)
        f->init(out);
    if (!name)
        return decode_object(d, f->fields, v, 0, out);
    *(uint64_t *)out = 1;
    return decode_value(d, f->fields, v, (char *)out + f->fields->offset);
}

static bool decode_objects(srv_decoder *d, const srv_field *f, const json_t *v, srv_objects *out) {
    if (!json_is_array(v))
        return srv_field_refuse(d, SRV_TYPE, v, "a list of objects");
    size_t count = json_array_size(v);
    if (!srv_field_counts(d, f, v))
        return false;
    char *items = srv_field_take(d, count, f->size);
    if (!items)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t mark = srv_path_index(&d->path, i);
        if (!decode_nested(d, f, json_array_get(v, i), items + i * f->size))
            return false;
        srv_path_back(&d->path, mark);
    }
    *out = (srv_objects){items, count};
    return true;
}

static bool decode_value(srv_decoder *d, const srv_field *f, const json_t *v, void *out) {
    if (f->kind == SRV_OBJECT)
        return decode_nested(d, f, v, out);
    if (f->kind == SRV_OBJECTS)
        return decode_objects(d, f, v, out);
    return srv_field_value(d, f, v, out);
}

/* The member of each row, NULL where there is none: a few members are found in the rows sooner than
 * all rows in a hash table. The envelope has refused fields that are in no row. */
static void find_members(const srv_field *fields, const json_t *object,
                         const json_t *members[SRV_FIELDS_MOST]) {
    const char *name;
    json_t *v;
    for (size_t i = 0; i < SRV_FIELDS_MOST; i++)
        members[i] = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, name, v) {
        for (size_t i = 0; fields[i].name; i++)
            if (fields[i].name[0] == name[0] && strcmp(fields[i].name, name) == 0)
                members[i] = v;
    }
}

/* The rows of a table in their order; those of `given` are in *out already. */
static bool decode_object(srv_decoder *d, const srv_field *fields, const json_t *object,
                          uint64_t given, void *out) {
    const json_t *members[SRV_FIELDS_MOST];
    find_members(fields, object, members);
    for (const srv_field *f = fields; f->name; f++) {
        const json_t *v = members[f - fields];
        if (given >> (f - fields) & 1)
            continue;
        if (v && !json_is_null(v)) {
            size_t mark = srv_path_key(&d->path, f->name, strlen(f->name));
            if (!decode_value(d, f, v, (char *)out + f->offset))
                return false;
            srv_path_back(&d->path, mark);
            given |= (uint64_t)1 << (f - fields);
        } else if (f->required) {
            srv_problem(d->req, SRV_VALUE, d->path.text, "the field \"%s\" is required: %s",
                        f->name, f->doc ? f->doc : "");
            return false;
        }
    }
    *(uint64_t *)out = given;
    return true;
}

static bool is_empty(const srv_request *req) {
    size_t i = 0;
    while (i < req->body_size && strchr(" \n\r\t", req->body[i]) && req->body[i])
        i++;
    return i == req->body_size;
}

/* The fields that cannot be left out, as an outline of a body. */
static bool refuse_empty(srv_request *req, const srv_field *fields) {
    char needed[256] = "";
    size_t at = 0;
    for (const srv_field *f = fields; f->name && at < sizeof needed; f++)
        if (f->required)
            at += (size_t)snprintf(needed + at, sizeof needed - at, "%s\"%s\": ..", at ? ", " : "",
                                   f->name);
    srv_problem(req, SRV_MALFORMED, "",
                "The body is empty: expected a JSON object {%s}; /v1/examples has whole requests",
                at ? needed : "..");
    return false;
}

static bool is_safetensors(const srv_request *req) {
    return req->content_type && strcmp(req->content_type, SRV_SAFETENSORS) == 0;
}

/* A number was read as an infinity: does a field of the body let it through? */
static bool may_be_beyond(srv_request *req, const srv_beyond *beyond, const srv_field *fields,
                          const void *out) {
    for (const srv_field *f = fields; f->name; f++)
        if (f->kind == SRV_BOOL && (f->accepts & SRV_B_BEYOND) &&
            *(const bool *)((const char *)out + f->offset))
            return true;
    srv_problem(req, SRV_NONFINITE, beyond->pointer, "%s", beyond->text);
    return false;
}

/* What the envelope has left, by way of a tree. */
static bool read_envelope(srv_decoder *d, const srv_form *form, const srv_field *fields,
                          void *out) {
    const srv_envelope *e = &d->envelope;
    if (e->size == 2 && !form->count) /* "{}" */
        return decode_object(d, fields, NULL, e->given, out);
    size_t bytes = srv_document_bytes(e->size, e->values + form->count, e->containers);
    void *block = bytes ? attn_arena_take(d->req->arena, bytes) : NULL;
    srv_document document;
    json_error_t error;
    if (!block)
        return srv_field_no_memory(d);
    srv_document_begin(&document, block, bytes);
    json_t *root = json_loadb(e->text, e->size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        srv_problem(d->req, SRV_MALFORMED, "", "%s", error.text);
    bool ok = root && srv_graft(d->req, form, fields, &d->envelope, root) &&
              decode_object(d, fields, root, e->given, out);
    json_decref(root);
    srv_document_end();
    return ok;
}

/* What stands there would be thought to count. */
static bool refuse_query(srv_request *req) {
    srv_problem(req, SRV_BAD_REQUEST, NULL,
                "the fields of a POST stand in its body; its query string, \"%.64s\", is not read",
                req->query);
    return false;
}

bool srv_decode(srv_request *req, const srv_field *fields, void *out) {
    srv_form form = {.text = req->body, .size = req->body_size};
    if (!req->form && req->query && *req->query)
        return refuse_query(req);
    if (req->form)
        form = *req->form;
    else if (!req->body || (is_empty(req) && !is_safetensors(req)))
        return refuse_empty(req, fields);
    else if (is_safetensors(req) && !srv_form_read(req, &form))
        return false;
    srv_decoder d = {.req = req};
    srv_bounds bounds = standard;
    if (req->app && req->app->config)
        bounds = (srv_bounds){(size_t)req->app->config->max_json_depth,
                              (size_t)req->app->config->max_envelope_bytes};
    /* Tensors beside the text may belong to any place in the tree. */
    if (!srv_envelope_read(req, form.text, form.size, fields, &bounds, form.count ? NULL : out,
                           &d.envelope))
        return false;
    bool ok = read_envelope(&d, &form, fields, out);
    if (!form.beyond.pointer)
        form.beyond = d.envelope.beyond;
    return ok && (!form.beyond.pointer || may_be_beyond(req, &form.beyond, fields, out));
}

static const char *mistaken_for(const char *name, const srv_field *fields) {
    for (; fields->name; fields++)
        if (fields->mistaken && !strcasecmp(fields->mistaken, name))
            return fields->name;
    return NULL;
}

void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields) {
    const char *names[64] = {NULL};
    size_t count = 0;
    for (; fields[count].name && count < 64; count++)
        names[count] = fields[count].name;
    const char *near = srv_nearest(name, names, count);
    if (!near)
        near = mistaken_for(name, fields);
    if (near)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; did you mean \"%s\"?", name, near);
    else
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; /openapi.json lists them", name);
}
