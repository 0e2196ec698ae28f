/* From names like "query", "score.w", "masks.0.attn_mask" to places in the tree of a request. */
#include "wire/graft.h"

#include <string.h>

#include "wire/scan.h"

/* A name on its way down the tree. */
typedef struct walk {
    srv_request *req;
    srv_path path;
    const char *name; /* what is left of it */
    const srv_field *fields;
    json_t *node;
} walk;

static bool no_memory(walk *w) {
    srv_problem_limit(w->req, SRV_TOO_LARGE, w->path.text, (double)attn_arena_limit(w->req->arena),
                      "max_request_bytes",
                      "The memory of one request does not suffice for its fields");
    return false;
}

/* The row that the next step names; NULL: the problem is set. */
static const srv_field *find_row(walk *w, size_t n) {
    for (const srv_field *f = w->fields; f && f->name; f++)
        if (strlen(f->name) == n && memcmp(f->name, w->name, n) == 0)
            return f;
    char name[128];
    size_t shown = n < sizeof name ? n : sizeof name - 1;
    memcpy(name, w->name, shown);
    name[shown] = 0;
    srv_unknown_field(w->req, w->path.text, name, w->fields);
    return NULL;
}

/* "3." of a list of objects: that object, or NULL. */
static json_t *take_index(walk *w, json_t *list) {
    size_t index = 0, n = strspn(w->name, "0123456789");
    srv_path_key(&w->path, w->name, n);
    if (n == 0 || n > 9 || w->name[n] != '.')
        return NULL;
    for (size_t i = 0; i < n; i++)
        index = index * 10 + (size_t)(w->name[i] - '0');
    w->name += n + 1;
    return json_array_get(list, index);
}

/* Into the object or list `f` of the present one; an object that is not there yet is made. */
static bool step(walk *w, const srv_field *f, size_t n) {
    json_t *next = json_object_get(w->node, f->name);
    w->name += n + 1;
    if (!next && f->kind == SRV_OBJECT) {
        next = json_object();
        if (json_object_set_new(w->node, f->name, next) != 0)
            return no_memory(w);
    }
    if (f->kind == SRV_OBJECTS && json_is_array(next))
        next = take_index(w, next);
    if (!f->fields || !json_is_object(next)) {
        srv_problem(w->req, SRV_VALUE, w->path.text,
                    "the request has no object here that a tensor could belong to");
        return false;
    }
    w->node = next;
    w->fields = f->fields;
    return true;
}

/* Element types as in an object with "dtype". */
static bool takes_dtype(walk *w, const srv_field *f, attn_dtype dtype) {
    bool whole = dtype == ATTN_I32 || dtype == ATTN_I64 || dtype == ATTN_U8;
    unsigned wanted = dtype == ATTN_BOOL ? SRV_T_BOOL : whole ? SRV_T_REAL | SRV_T_INT : SRV_T_REAL;
    if (f->accepts & wanted)
        return true;
    srv_problem(w->req, SRV_DTYPE, w->path.text, "expected %s, found %s",
                f->accepts & SRV_T_REAL  ? "numbers"
                : f->accepts & SRV_T_INT ? "int32, int64 or uint8"
                                         : "bool",
                attn_dtype_name(dtype));
    return false;
}

static bool place(walk *w, const srv_field *f, const attn_tensor *t, srv_envelope *envelope) {
    if (f->kind != SRV_TENSOR) {
        srv_problem(w->req, SRV_TYPE, w->path.text, "this field is no tensor");
        return false;
    }
    if (json_object_get(w->node, f->name)) {
        srv_problem(w->req, SRV_MALFORMED, w->path.text,
                    "the field is there twice, in the JSON and as a tensor");
        return false;
    }
    if (!takes_dtype(w, f, t->dtype))
        return false;
    int64_t index = srv_envelope_add(envelope, w->req->arena, w->path.text, t);
    return (index >= 0 && json_object_set_new(w->node, f->name, json_integer(index)) == 0) ||
           no_memory(w);
}

static bool graft_one(srv_request *req, const attn_named_tensor *t, const srv_field *fields,
                      srv_envelope *envelope, json_t *root) {
    walk w = {.req = req, .name = t->name, .fields = fields, .node = root};
    for (;;) {
        size_t n = strcspn(w.name, ".");
        srv_path_key(&w.path, w.name, n);
        const srv_field *f = find_row(&w, n);
        if (!f)
            return false;
        if (w.name[n] == 0)
            return place(&w, f, &t->tensor, envelope);
        if (!step(&w, f, n))
            return false;
    }
}

bool srv_graft(srv_request *req, const srv_form *form, const srv_field *fields,
               srv_envelope *envelope, json_t *root) {
    for (size_t i = 0; i < form->count; i++)
        if (!graft_one(req, &form->tensors[i], fields, envelope, root))
            return false;
    return true;
}
