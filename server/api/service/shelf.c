#include "api/service/shelf.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/nearest.h"
#include "wire/decode.h"

static srv_shelf shelves[] = {
    [SRV_EXAMPLES] = {.folder = "examples/", .route = "/v1/examples/", .kind = "example"},
    [SRV_LESSONS] = {.folder = "lessons/", .route = "/v1/lessons/", .kind = "lesson"},
};

/* Returns the address behind the JSON string that starts at p. */
static const char *skip_string(const char *p) {
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* The JSON is not checked, because the files are well-formed. */
const char *srv_span_behind(const char *p) {
    int depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        depth += *p == '{' || *p == '[';
        depth -= *p == '}' || *p == ']';
        p++;
    } while (*p && (depth > 0 || !strchr(",}] \n\r\t", *p)));
    return p;
}

const char *srv_span_skip_space(const char *p) {
    return p + strspn(p, " \n\r\t");
}

const char *srv_span_next(const char *p) {
    p = srv_span_skip_space(srv_span_behind(p));
    return *p == ',' ? srv_span_skip_space(p + 1) : p;
}

srv_span srv_span_member(const char *p, const char *name) {
    size_t length = strlen(name);
    p = srv_span_skip_space(p + 1);
    while (*p == '"') {
        const char *key = p + 1, *end = skip_string(p) - 1;
        p = srv_span_skip_space(strchr(end, ':') + 1);
        if ((size_t)(end - key) == length && memcmp(key, name, length) == 0)
            return (srv_span){p, (size_t)(srv_span_behind(p) - p)};
        p = srv_span_next(p);
    }
    return (srv_span){"null", 4};
}

srv_span srv_span_of(const srv_file *file, const char *name) {
    return srv_span_member(srv_span_skip_space(file->data), name);
}

bool srv_span_is_null(srv_span span) {
    return span.size == 4 && memcmp(span.data, "null", 4) == 0;
}

/* Returns the value of the member `order`. If the file does not have this member, returns a large
 * number, so that the file comes last. */
static long order_of(const srv_file *file) {
    srv_span span = srv_span_of(file, "order");
    long value = 0;
    for (size_t i = 0; i < span.size; i++) {
        if (span.data[i] < '0' || span.data[i] > '9')
            return 1000000;
        value = value * 10 + (span.data[i] - '0');
    }
    return value;
}

/* Puts a file in its place. false: the shelf is full. */
static bool put(srv_shelf *shelf, const srv_file *file) {
    const srv_file **list = shelf->in_order;
    size_t at = 0;
    while (list[at])
        at++;
    if (at == SRV_SHELF_MOST)
        return false;
    for (; at && order_of(list[at - 1]) > order_of(file); at--)
        list[at] = list[at - 1];
    list[at] = file;
    return true;
}

static void fill(srv_shelf *shelf) {
    for (const srv_file *file = srv_embedded; file->name; file++)
        if (strncmp(file->name, shelf->folder, strlen(shelf->folder)) == 0)
            put(shelf, file);
}

/* The shelves are filled once, because the lists are written on the HTTP thread. */
static void fill_all(void) {
    for (size_t i = 0; i < sizeof shelves / sizeof *shelves; i++)
        fill(&shelves[i]);
}

const srv_shelf *srv_shelf_of(srv_shelf_name name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_all);
    return &shelves[name];
}

/* Removes the file of this name from a shelf, if it is there. */
static void take_out(srv_shelf *shelf, const char *name) {
    const srv_file **list = shelf->in_order;
    while (*list && strcmp((*list)->name, name) != 0)
        list++;
    for (; *list; list++)
        *list = list[1];
}

bool srv_shelf_add(srv_shelf_name name, const char *id, const char *data, size_t size) {
    srv_shelf_of(name);
    srv_shelf *shelf = &shelves[name];
    const size_t room = strlen(shelf->folder) + strlen(id) + sizeof ".json";
    srv_file *file = calloc(1, sizeof *file + room);
    if (!file)
        return false;
    char *path = (char *)(file + 1);
    snprintf(path, room, "%s%s.json", shelf->folder, id);
    *file = (srv_file){.name = path, .data = data, .size = size};
    take_out(shelf, path);
    if (put(shelf, file))
        return true;
    free(file);
    return false;
}

const srv_file *srv_shelf_next(const srv_shelf *shelf, const srv_file *previous) {
    const srv_file *const *next = shelf->in_order;
    while (previous && *next++ != previous)
        ;
    return *next;
}

/* Returns the id of a file: its name without folder and ".json". */
static srv_span id_of(const srv_shelf *shelf, const srv_file *file) {
    const char *id = file->name + strlen(shelf->folder);
    return (srv_span){id, strlen(id) - strlen(".json")};
}

const char *srv_shelf_path(const srv_shelf *shelf, const srv_file *file, attn_arena *arena) {
    attn_text t = {.arena = arena};
    const srv_span id = id_of(shelf, file);
    attn_text_add(&t, "%s%.*s", shelf->route, (int)id.size, id.data);
    return t.failed ? "" : t.data;
}

static void write_entry(attn_json_text *j, const srv_file *file, const srv_field *rows) {
    attn_json_object(j);
    for (const srv_field *f = rows; f->name; f++) {
        const srv_span span = srv_span_of(file, f->name);
        srv_answer_member(j, f, file);
        if (f->put || (!f->always && srv_span_is_null(span)))
            continue;
        attn_json_key(j, f->name);
        attn_json_raw(j, span.data, span.size);
    }
    attn_json_object_end(j);
}

void srv_shelf_put(attn_json_text *j, const srv_shelf *shelf, const srv_field *rows) {
    attn_json_array(j);
    for (const srv_file *f = srv_shelf_next(shelf, NULL); f; f = srv_shelf_next(shelf, f))
        write_entry(j, f, rows);
    attn_json_array_end(j);
}

void srv_shelf_text(attn_text *t, const srv_shelf *shelf, const char *indent, int width) {
    for (const srv_file *f = srv_shelf_next(shelf, NULL); f; f = srv_shelf_next(shelf, f)) {
        srv_span title = srv_span_of(f, "title");
        attn_text_add(t, "%s%-*s %.*s\n", indent, width, srv_shelf_path(shelf, f, t->arena),
                      (int)title.size - 2, title.data + 1);
    }
}

/* Returns the id that is most similar to `id`; NULL: none is similar, or memory ran out. */
static const char *nearest_id(srv_request *req, const srv_shelf *shelf, const char *id) {
    const char **ids = attn_arena_zeroed(req->arena, SRV_SHELF_MOST, sizeof *ids);
    size_t n = 0;
    const srv_file *f = NULL;
    while (ids && (f = srv_shelf_next(shelf, f))) {
        const srv_span name = id_of(shelf, f);
        ids[n] = attn_arena_text(req->arena, name.data, name.size);
        n += ids[n] != NULL;
    }
    return srv_nearest(id, ids, n);
}

srv_outcome srv_shelf_one(srv_request *req, const srv_shelf *shelf) {
    const char *id = req->params[0];
    for (const srv_file *f = srv_shelf_next(shelf, NULL); f; f = srv_shelf_next(shelf, f)) {
        const srv_span name = id_of(shelf, f);
        if (strlen(id) == name.size && memcmp(name.data, id, name.size) == 0) {
            srv_reply_set(req, 200, "application/json", f->data, f->size);
            return SRV_DONE;
        }
    }
    const char *near = nearest_id(req, shelf, id);
    srv_problem(req, SRV_NOT_FOUND, NULL, "there is no %s \"%.80s\"%s%s%s; GET %.*s lists them",
                shelf->kind, id, near ? ": did you mean \"" : "", near ? near : "",
                near ? "\"?" : "", (int)strlen(shelf->route) - 1, shelf->route);
    return SRV_DONE;
}
