/* The parameters of an infer request: its own, and those that become fields of a form. */
#include <string.h>

#include "number/number.h"
#include "wire/infer_reader.h"

static bool put(srv_infer_reader *r, srv_infer_fields *f, const char *text, size_t n) {
    if (n > f->room - f->size) {
        size_t room = 2 * (f->room + n) + 256;
        char *grown = attn_arena_take(r->s.req->arena, room);
        if (!grown)
            return srv_scan_memory(&r->s);
        if (f->size)
            memcpy(grown, f->text, f->size);
        f->text = grown;
        f->room = room;
    }
    memcpy(f->text + f->size, text, n);
    f->size += n;
    return true;
}

/* Which object of the request a parameter belongs to. */
static srv_infer_fields *fields_of(srv_infer_reader *r, const srv_name *name) {
    for (const srv_field *f = r->own; f && f->name; f++)
        if (f->kind != SRV_TENSOR && srv_name_is(name, f->name))
            return &r->out->own;
    return &r->out->fields;
}

static bool check_value(srv_infer_reader *r);

static bool check_key(srv_infer_reader *r) {
    const char *from, *to;
    bool escaped;
    if (*r->s.p != '"')
        return srv_scan_expected(&r->s, "a field name in double quotes");
    return srv_scan_string(&r->s, &from, &to, &escaped) && srv_infer_need(r, ':', "':'");
}

/* A list or an object, at its bracket. */
static bool check_members(srv_infer_reader *r) {
    srv_scan *s = &r->s;
    const char close = *s->p == '{' ? '}' : ']';
    if (s->depth++ == s->max_depth) {
        srv_problem_limit(s->req, SRV_VALUE, s->path.text, (double)s->max_depth, "max_json_depth",
                          "lists and objects are more than %zu deep", s->max_depth);
        return false;
    }
    s->p++;
    srv_scan_space(s);
    bool more = *s->p != close;
    if (!more)
        s->p++;
    while (more)
        if ((close == '}' && !check_key(r)) || !check_value(r) || !srv_infer_next(r, close, &more))
            return false;
    s->depth--;
    return true;
}

static bool check_value(srv_infer_reader *r) {
    srv_scan *s = &r->s;
    const char *from, *to;
    bool escaped;
    double number;
    if (*s->p == '{' || *s->p == '[')
        return check_members(r);
    if (*s->p == '"')
        return srv_scan_string(s, &from, &to, &escaped);
    const char *after = attn_read_f64(s->p, s->end, &number);
    if (after)
        s->p = after;
    return after || srv_scan_word(s, "true") || srv_scan_word(s, "false") ||
           srv_scan_word(s, "null") || srv_scan_expected(s, "a value");
}

/* Is the text of a parameter one JSON value and nothing else? It becomes a part of another text, so
 * that what goes on behind the value would be fields of their own. */
static bool is_json(const srv_infer_reader *r, const char *text) {
    srv_infer_reader inner = *r;
    inner.s.of = "this text";
    inner.s.start = inner.s.p = text;
    inner.s.end = text + strlen(text);
    inner.s.depth = 1; /* the object that it becomes a part of */
    if (!check_value(&inner))
        return false;
    srv_scan_space(&inner.s);
    return inner.s.p == inner.s.end || srv_scan_expected(&inner.s, "the end of this text");
}

/* A parameter is a string, number or boolean; fields that are lists or objects come as strings of
 * JSON, "[2,0]". */
static bool read_field(srv_infer_reader *r, srv_infer_fields *to, const srv_infer_member *m) {
    const char *from = r->s.p, *text;
    double number;
    if (!put(r, to, ",", 1) || !put(r, to, m->text, m->text_size) || !put(r, to, ":", 1))
        return false;
    if (*from == '"') {
        if (!srv_infer_text(r, &text))
            return false;
        if (*text == '[' || *text == '{')
            return is_json(r, text) && put(r, to, text, strlen(text));
        return put(r, to, from, (size_t)(r->s.p - from));
    }
    const char *after = attn_read_f64(from, r->s.end, &number);
    if (after)
        r->s.p = after;
    else if (!srv_scan_word(&r->s, "true") && !srv_scan_word(&r->s, "false"))
        return srv_scan_is_value(from)
                   ? srv_infer_refuse(r, SRV_TYPE, "expected a string, a number or a boolean")
                   : srv_scan_expected(&r->s, "a string, a number or a boolean");
    return put(r, to, from, (size_t)(r->s.p - from));
}

static const char *const parameters[] = {"timeout", "priority", "binary_data_output", NULL};

static bool take_parameter(srv_infer_reader *r, const srv_infer_member *m, void *to) {
    int64_t ignored;
    (void)to;
    if (strncmp(m->name.text, "triton_", 7) == 0)
        return srv_infer_refuse(r, SRV_VALUE, "names that begin with \"triton_\" are reserved");
    if (srv_name_is(&m->name, "return"))
        return srv_infer_refuse(r, SRV_VALUE, "\"outputs\" says what to return");
    if (srv_name_is(&m->name, "dry_run"))
        return srv_infer_refuse(r, SRV_VALUE, "a dry run has no outputs: ask /v1/attention");
    switch (m->key) {
    case 0:
        return srv_infer_integer(r, 1, &r->out->timeout_us);
    case 1:
        return srv_infer_integer(r, 0, &ignored);
    case 2:
        return srv_infer_bool(r, &r->out->binary);
    default:
        return read_field(r, fields_of(r, &m->name), m);
    }
}

bool srv_infer_parameters(srv_infer_reader *r) {
    return srv_infer_object(r, parameters, "an object", take_parameter, NULL);
}
