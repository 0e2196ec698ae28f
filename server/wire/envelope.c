/* One pass over the body: grammar, unknown and repeated fields, tensors cut out (envelope.h).
 *
 * What is left goes to jansson, which takes 40 to 80 bytes of heap for a byte of hostile text; so
 * the bytes, values and containers of the envelope are bounded. */
#include "wire/envelope.h"

#include <math.h>
#include <string.h>

#include "number/number.h"
#include "wire/leaf.h"
#include "wire/tensor_in.h"

typedef struct walk {
    srv_scan s;
    size_t bytes, values, containers; /* at most */
    char *body;                       /* of the outermost object, or NULL */
    srv_envelope *e;
} walk;

static bool too_complex(walk *w) {
    srv_problem_limit(w->s.req, SRV_TOO_LARGE, w->s.path.text, (double)w->bytes,
                      "max_envelope_bytes",
                      "Beside its tensors a body may hold %zu bytes, %zu values and %zu lists and "
                      "objects; this one holds more",
                      w->bytes, w->values, w->containers);
    return false;
}

/* Append to the envelope. */
static bool put(walk *w, const char *text, size_t n) {
    srv_envelope *e = w->e;
    if (n > w->bytes - e->size)
        return too_complex(w);
    if (n > e->room - e->size) {
        size_t room = e->room + n < 512 ? 1024 : 2 * (e->room + n);
        char *grown = attn_arena_take(w->s.req->arena, room);
        if (!grown)
            return srv_scan_memory(&w->s);
        if (e->size)
            memcpy(grown, e->text, e->size);
        e->text = grown;
        e->room = room;
    }
    memcpy(e->text + e->size, text, n);
    e->size += n;
    return true;
}

static bool put_since(walk *w, const char *from) {
    return put(w, from, (size_t)(w->s.p - from));
}

static bool count_value(walk *w, bool container) {
    w->e->values++;
    w->e->containers += container;
    if (w->e->values > w->values || w->e->containers > w->containers)
        return too_complex(w);
    return true;
}

static bool enter(walk *w) {
    if (w->s.depth < w->s.max_depth) {
        w->s.depth++;
        w->s.p++;
        return true;
    }
    srv_problem_limit(w->s.req, SRV_MALFORMED, w->s.path.text, (double)w->s.max_depth,
                      "max_json_depth", "lists and objects are more than %zu deep", w->s.max_depth);
    return false;
}

static const srv_field *find_field(const srv_field *fields, const srv_name *name) {
    for (; fields && fields->name; fields++)
        if (fields->name[0] == name->text[0] && srv_name_is(name, fields->name))
            return fields;
    return NULL;
}

int64_t srv_envelope_add(srv_envelope *e, attn_arena *arena, const char *pointer,
                         const attn_tensor *t) {
    if (e->cut_count == e->cut_room) {
        size_t room = e->cut_room ? 2 * e->cut_room : 8; /* bounded by the values */
        srv_cut *grown = attn_arena_take(arena, room * sizeof *grown);
        if (!grown)
            return -1;
        if (e->cut_count)
            memcpy(grown, e->cuts, e->cut_count * sizeof *grown);
        e->cuts = grown;
        e->cut_room = room;
    }
    const char *place = attn_arena_text(arena, pointer, strlen(pointer));
    if (!place)
        return -1;
    e->cuts[e->cut_count] = (srv_cut){place, *t};
    return (int64_t)e->cut_count++;
}

static bool cut_tensor(walk *w, unsigned accepts) {
    srv_scan *s = &w->s;
    char text[ATTN_NUMBER_TEXT];
    attn_tensor t;
    if (!count_value(w, false) || !srv_tensor_read(s, accepts, &t))
        return false;
    int64_t index = srv_envelope_add(w->e, s->req->arena, s->path.text, &t);
    if (index < 0)
        return srv_scan_memory(s);
    char *last = attn_write_i64(text, index);
    return put(w, text, (size_t)(last - text));
}

static bool read_value(walk *w, const srv_field *field);

/* The value of a field of the outermost object into the decoded body. *done: it is there. */
static bool read_leaf(walk *w, const srv_field *field, uint64_t bit, bool *done) {
    srv_scan *s = &w->s;
    const bool tensor = field->kind == SRV_TENSOR && *s->p != 'n';
    char *member = w->body + field->offset;
    *done = tensor;
    if (tensor && !srv_tensor_read(s, field->accepts, (attn_tensor *)(void *)member))
        return false;
    const char *after = tensor ? NULL : srv_leaf_read(s->p, s->end, field, member);
    if (after) {
        *done = true;
        s->p = after;
    }
    w->e->given |= *done ? bit : 0;
    return true;
}

/* The name and the value of a member into the document. */
static bool put_member(walk *w, const char *name, size_t size, const srv_field *field) {
    const srv_envelope *e = w->e;
    const bool first = e->text[e->size - 1] == '{';
    const bool tensor = field && field->kind == SRV_TENSOR && *w->s.p != 'n';
    return (first || put(w, ",", 1)) && put(w, name, size) && put(w, ":", 1) &&
           (tensor ? cut_tensor(w, field->accepts) : read_value(w, field));
}

/* "name" : value, at the opening quote. `seen`: rows of the table that were there. */
static bool read_member(walk *w, const srv_field *fields, uint64_t *seen) {
    srv_scan *s = &w->s;
    srv_name name;
    const char *from = s->p;
    bool done = false;
    if (!srv_scan_name(s, &name))
        return false;
    const size_t size = (size_t)(s->p - from), mark = srv_path_key(&s->path, name.text, name.size);
    const srv_field *field = find_field(fields, &name);
    if (fields && !field) {
        srv_unknown_field(s->req, s->path.text, name.text, fields);
        return false;
    }
    uint64_t bit = field ? (uint64_t)1 << (field - fields) : 0;
    if (*seen & bit)
        return srv_scan_malformed(s, from, "the field \"%s\" is there twice", name.text);
    *seen |= bit;
    srv_scan_space(s);
    if (*s->p != ':')
        return srv_scan_expected(s, "':'");
    s->p++;
    srv_scan_space(s);
    if (w->body && field && s->depth == 1 && !read_leaf(w, field, bit, &done))
        return false;
    if (!done && !put_member(w, from, size, field))
        return false;
    srv_path_back(&s->path, mark);
    return true;
}

static bool read_object(walk *w, const srv_field *fields) {
    srv_scan *s = &w->s;
    uint64_t seen = 0;
    bool empty = true;
    if (!enter(w) || !put(w, "{", 1))
        return false;
    for (;; s->p++) {
        srv_scan_space(s);
        if (empty && *s->p == '}')
            break;
        if (*s->p != '"')
            return srv_scan_expected(s, "a field name in double quotes");
        if (!read_member(w, fields, &seen))
            return false;
        empty = false;
        srv_scan_space(s);
        if (*s->p == '}')
            break;
        if (*s->p != ',')
            return srv_scan_expected(s, "',' or '}'");
    }
    s->p++;
    s->depth--;
    return put(w, "}", 1);
}

static bool read_array(walk *w, const srv_field *field) {
    srv_scan *s = &w->s;
    if (!enter(w) || !put(w, "[", 1))
        return false;
    for (size_t n = 0;; n++, s->p++) {
        srv_scan_space(s);
        if (n == 0 && *s->p == ']')
            break;
        size_t mark = srv_path_index(&s->path, n);
        if ((n > 0 && !put(w, ",", 1)) || !read_value(w, field))
            return false;
        srv_path_back(&s->path, mark);
        srv_scan_space(s);
        if (*s->p == ']')
            break;
        if (*s->p != ',')
            return srv_scan_expected(s, "',' or ']'");
    }
    s->p++;
    s->depth--;
    return put(w, "]", 1);
}

/* jansson takes integers of 64 bits and doubles. */
static bool read_number(walk *w) {
    srv_scan *s = &w->s;
    char found[SRV_FOUND_ROOM];
    const char *from = s->p;
    double value;
    int64_t integer;
    const char *after = attn_read_f64(from, s->end, &value);
    if (!after)
        return srv_scan_expected(s, "a number as JSON writes it");
    bool whole = true;
    for (const char *p = from; p < after; p++)
        whole = whole && *p != '.' && *p != 'e' && *p != 'E';
    if (!isfinite(value) || (whole && !attn_read_i64(from, s->end, &integer))) {
        srv_problem(s->req, SRV_VALUE, s->path.text, "expected a number within %s, found %s",
                    whole ? "64 bits" : "float64", srv_scan_found(s, from, found));
        return false;
    }
    s->p = after;
    return put_since(w, from);
}

/* A value that is no tensor; `field`: its row, whose nested table applies to objects in it. */
static bool read_value(walk *w, const srv_field *field) {
    srv_scan *s = &w->s;
    const char *from = s->p, *text, *last;
    bool escaped;
    bool nested = field && (field->kind == SRV_OBJECT || field->kind == SRV_OBJECTS);
    if (!count_value(w, *from == '{' || *from == '['))
        return false;
    if (*from == '{')
        return read_object(w, nested ? field->fields : NULL);
    if (*from == '[')
        return read_array(w, field);
    if (*from == '"')
        return srv_scan_string(s, &text, &last, &escaped) && put_since(w, from);
    if ((*from >= '0' && *from <= '9') || (*from == '-' && from[1] >= '0' && from[1] <= '9'))
        return read_number(w);
    if (srv_scan_word(s, "true") || srv_scan_word(s, "false") || srv_scan_word(s, "null"))
        return put_since(w, from);
    return srv_scan_expected(s, "a value");
}

static bool read_document(walk *w, const srv_field *fields) {
    srv_scan *s = &w->s;
    const char *nul = memchr(s->p, 0, (size_t)(s->end - s->p));
    if (nul)
        return srv_scan_malformed(s, nul, "a NUL byte is not JSON");
    if (strncmp(s->p, "\xEF\xBB\xBF", 3) == 0)
        return srv_scan_malformed(s, s->p, "a byte order mark is not JSON: leave it out");
    srv_scan_space(s);
    if (srv_scan_is_value(s->p) && *s->p != '{') {
        char found[SRV_FOUND_ROOM];
        srv_problem(s->req, SRV_TYPE, "",
                    "expected an object with the fields of the request, found %s",
                    srv_scan_found(s, s->p, found));
        return false;
    }
    if (*s->p != '{')
        return srv_scan_expected(s, "an object");
    if (!read_object(w, fields))
        return false;
    srv_scan_space(s);
    return s->p == s->end || srv_scan_expected(s, "the end of the body");
}

bool srv_envelope_read(srv_request *req, const char *text, size_t size, const srv_field *fields,
                       const srv_bounds *bounds, void *body, srv_envelope *out) {
    walk w = {.e = out,
              .body = body,
              .bytes = bounds->bytes,
              .values = bounds->bytes / 5,
              .containers = bounds->bytes / 64};
    *out = (srv_envelope){0};
    w.s.req = req;
    w.s.start = w.s.p = text;
    w.s.end = text + size;
    w.s.max_depth = bounds->depth;
    if (!read_document(&w, fields))
        return false;
    out->beyond = w.s.beyond;
    return true;
}

const attn_tensor *srv_envelope_tensor(const srv_envelope *e, int64_t index, const char *pointer) {
    bool known = index >= 0 && (uint64_t)index < e->cut_count &&
                 strcmp(e->cuts[index].pointer, pointer) == 0;
    return known ? &e->cuts[index].tensor : NULL;
}
