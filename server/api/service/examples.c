/* GET /v1/examples and GET /v1/examples/{id} answer the worked examples of config/examples/, which
 * are embedded in the program. The answer for an example is its file. The list has some fields of
 * each file. config/examples/README.md describes the format of the files. */
#include "api/service/examples.h"
#include "config/nearest.h"

#include <pthread.h>
#include <string.h>

#include "api/common/text_reply.h"
#include "api/service/service_api.h"
#include "wire/decode.h"

#define FOLDER "examples/"
enum { MOST = 255 }; /* largest number of examples */

/* Returns the address behind the JSON string that starts at p. */
static const char *skip_string(const char *p) {
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* Returns the address behind the JSON value that starts at p. Nothing is checked, because the
 * embedded files are well-formed. */
static const char *skip_value(const char *p) {
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

static const char *skip_space(const char *p) {
    return p + strspn(p, " \n\r\t");
}

/* Returns the value of the member `name` of the JSON object at p; "null": there is no such
 * member. */
static srv_span field_of(const char *p, const char *name) {
    size_t length = strlen(name);
    p = skip_space(p + 1);
    while (*p == '"') {
        const char *key = p + 1, *end = skip_string(p) - 1;
        p = skip_space(strchr(end, ':') + 1);
        const char *after = skip_value(p);
        if ((size_t)(end - key) == length && memcmp(key, name, length) == 0)
            return (srv_span){p, (size_t)(after - p)};
        p = skip_space(after);
        if (*p == ',')
            p = skip_space(p + 1);
    }
    return (srv_span){"null", 4};
}

srv_span srv_example_field(const srv_file *file, const char *name) {
    return field_of(skip_space(file->data), name);
}

static bool is_null(srv_span span) {
    return span.size == 4 && memcmp(span.data, "null", 4) == 0;
}

bool srv_example_case(const srv_file *file, const char *path, srv_span *title, srv_span *request) {
    const char *p = skip_space(srv_example_field(file, "cases").data + 1);
    while (*p == '{') {
        srv_span asked = field_of(p, "path");
        *title = field_of(p, "title");
        *request = field_of(p, "request");
        if (asked.size == strlen(path) + 2 && memcmp(asked.data + 1, path, asked.size - 2) == 0 &&
            is_null(field_of(p, "status")) && !is_null(*request))
            return true;
        p = skip_space(skip_value(p));
        if (*p == ',')
            p = skip_space(p + 1);
    }
    return false;
}

static bool is_example(const srv_file *file) {
    return strncmp(file->name, FOLDER, strlen(FOLDER)) == 0;
}

/* Returns the value of the member `order` of an example. If the file does not have this member,
 * returns a large number, so that the example comes last. */
static long order_of(const srv_file *file) {
    srv_span span = srv_example_field(file, "order");
    long value = 0;
    for (size_t i = 0; i < span.size; i++) {
        if (span.data[i] < '0' || span.data[i] > '9')
            return 1000000;
        value = value * 10 + (span.data[i] - '0');
    }
    return value;
}

/* The examples in the order of the list. Examples of equal order are sorted by name. The array is
 * sorted once, because the list is written on the HTTP thread. */
static const srv_file *in_order[MOST + 1];

static void sort(void) {
    size_t count = 0;
    for (const srv_file *file = srv_embedded; file->name; file++) {
        if (!is_example(file) || count == MOST)
            continue;
        size_t at = count++;
        for (; at && order_of(in_order[at - 1]) > order_of(file); at--)
            in_order[at] = in_order[at - 1];
        in_order[at] = file;
    }
}

const srv_file *srv_example_next(const srv_file *previous) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, sort);
    const srv_file *const *next = in_order;
    while (previous && *next++ != previous)
        ;
    return *next;
}

/* Returns the path "/v1/examples/<id>", in the arena. */
static const char *href_of(const srv_file *file, attn_arena *arena) {
    attn_text t = {.arena = arena};
    const char *id = file->name + strlen(FOLDER);
    attn_text_add(&t, "/v1/examples/%.*s", (int)(strlen(id) - strlen(".json")), id);
    return t.failed ? "" : t.data;
}

static void put_href(attn_json_text *j, const void *file) {
    attn_json_string(j, href_of(file, j->arena));
}

#define PART(name, type, text, ...) SRV_WRITTEN(name, type, NULL, text, .always = true, __VA_ARGS__)
#define MAYBE(name, type, text)     SRV_WRITTEN(name, type, NULL, text)
/* The members of an example and of its entry in the list. */
#define HEAD                                                                                       \
    PART("id", "string", "The id under /v1/examples."), PART("title", "string", "The title."),     \
        PART("what", "string", "What the example shows."),                                         \
        PART("tags", "[string]", "The topics that it belongs to."),                                \
        MAYBE("names", "{integer+}",                                                               \
              "Names in papers and libraries, each with the number of the case that computes it.")

/* An entry of the list. Members whose row has no function are copied from the file. */
static const srv_field entry_rows[] = {
    HEAD, SRV_WRITTEN("href", "string", put_href, "The path of the example.", .always = true), {0}};

static const srv_field list_rows[] = {
    SRV_WRITTEN("examples", "[ExampleEntry]", srv_examples_put, "The examples.", .always = true),
    {0},
};

static const srv_field case_rows[] = {
    PART("title", "string", "What the case is."),
    PART("method", "string", "The method of its request."),
    PART("path", "string", "The path of its request."),
    MAYBE("accept", "string", "The Accept header."),
    MAYBE("status", "integer", "The status of the answer, if it is not 200."),
    MAYBE("request", "any", "The body."),
    MAYBE("response", "any", "The answer."),
    MAYBE("partial", "boolean", "The answer has further members, which response leaves out."),
    MAYBE("text", "any", "The answer to Accept: text/plain."),
    MAYBE("same_as", "integer", "The answer equals that of the case with this number, from 0."),
    MAYBE("shapes", "object", "Shapes of members of the answer."),
    MAYBE("relations", "[object]",
          "How members are related to each other or to those of earlier cases."),
    MAYBE("tolerance", "number", "How far numbers may differ."),
    {0},
};

static const srv_field data_rows[] = {
    PART("title", "string", "What the numbers are."),
    PART("method", "string", "The method of the request."),
    PART("path", "string", "The path of the request."),
    PART("request", "object", "The body of the request."),
    {0},
};

static const srv_field example_rows[] = {
    HEAD,
    PART("order", "integer", "The place of the example in the list."),
    PART("cases", "[ExampleCase 1+]", "The requests and their answers."),
    SRV_WRITTEN("data", "*", NULL, "Numbers from the literature, as the request that draws them.",
                .fields = data_rows),
    {0},
};

const srv_field srv_example_answers[] = {
    SRV_GROUP("ExampleEntry", entry_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("Examples", list_rows, NULL),
    SRV_GROUP("Example", example_rows, "Requests and their answers.", .accepts = SRV_O_OPEN),
    SRV_GROUP("ExampleCase", case_rows,
              "A request and its answer: response or text, or facts about the answer. Numbers "
              "agree within tolerance.",
              .accepts = SRV_O_OPEN),
    {0},
};

static void write_entry(attn_json_text *j, const srv_file *file) {
    attn_json_object(j);
    for (const srv_field *f = entry_rows; f->name; f++) {
        const srv_span span = srv_example_field(file, f->name);
        srv_answer_member(j, f, file);
        if (f->put || (!f->always && is_null(span)))
            continue;
        attn_json_key(j, f->name);
        attn_json_raw(j, span.data, span.size);
    }
    attn_json_object_end(j);
}

void srv_examples_put(attn_json_text *j, const void *unused) {
    (void)unused;
    attn_json_array(j);
    for (const srv_file *f = srv_example_next(NULL); f; f = srv_example_next(f))
        write_entry(j, f);
    attn_json_array_end(j);
}

void srv_examples_text(attn_text *t, const char *indent, int width) {
    for (const srv_file *f = srv_example_next(NULL); f; f = srv_example_next(f)) {
        srv_span title = srv_example_field(f, "title");
        attn_text_add(t, "%s%-*s %.*s\n", indent, width, href_of(f, t->arena), (int)title.size - 2,
                      title.data + 1);
    }
}

srv_outcome srv_examples_list(srv_request *req) {
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_examples_text(&t, "", 44);
        srv_text_end(req, &t);
        return SRV_DONE;
    }
    srv_answer_reply(req, list_rows, req);
    return SRV_DONE;
}

/* Returns the id that is most similar to `id`; NULL: none is similar, or memory ran out. */
static const char *nearest_id(srv_request *req, const char *id) {
    size_t count = 0;
    for (const srv_file *f = srv_embedded; f->name; f++)
        count += is_example(f);
    const char **ids = attn_arena_zeroed(req->arena, count + 1, sizeof *ids);
    size_t n = 0;
    for (const srv_file *f = srv_embedded; ids && f->name; f++)
        if (is_example(f)) {
            const char *name = f->name + strlen(FOLDER);
            ids[n] = attn_arena_text(req->arena, name, strlen(name) - strlen(".json"));
            n += ids[n] != NULL;
        }
    return srv_nearest(id, ids, n);
}

srv_outcome srv_examples_one(srv_request *req) {
    const char *id = req->params[0];
    size_t length = strlen(id);
    for (const srv_file *file = srv_embedded; file->name; file++) {
        if (!is_example(file))
            continue;
        const char *name = file->name + strlen(FOLDER);
        if (strncmp(name, id, length) == 0 && strcmp(name + length, ".json") == 0) {
            srv_reply_set(req, 200, "application/json", file->data, file->size);
            return SRV_DONE;
        }
    }
    const char *near = nearest_id(req, id);
    srv_problem(req, SRV_NOT_FOUND, NULL,
                "there is no example \"%.80s\"%s%s%s; GET /v1/examples lists them", id,
                near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return SRV_DONE;
}

const char *srv_example_host(const srv_request *req) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:";
    const char *host = req->host;
    return host && *host && !host[strspn(host, safe)] ? host : "localhost:8080";
}
