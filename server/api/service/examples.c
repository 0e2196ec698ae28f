/* GET /v1/examples and GET /v1/examples/{id} answer the worked examples of config/examples/, which
 * are embedded in the program. The answer for an example is its file. The list has some fields of
 * each file. config/examples/README.md describes the format of the files. */
#include "api/service/examples.h"

#include <string.h>

#include "api/common/text_reply.h"
#include "api/service/service_api.h"
#include "wire/decode.h"

const srv_file *srv_example_next(const srv_file *previous) {
    return srv_shelf_next(srv_shelf_of(SRV_EXAMPLES), previous);
}

bool srv_example_case(const srv_file *file, const char *path, srv_span *title, srv_span *request) {
    const char *p = srv_span_skip_space(srv_span_of(file, "cases").data + 1);
    while (*p == '{') {
        srv_span asked = srv_span_member(p, "path");
        *title = srv_span_member(p, "title");
        *request = srv_span_member(p, "request");
        if (asked.size == strlen(path) + 2 && memcmp(asked.data + 1, path, asked.size - 2) == 0 &&
            srv_span_is_null(srv_span_member(p, "status")) && !srv_span_is_null(*request))
            return true;
        p = srv_span_next(p);
    }
    return false;
}

static void put_href(attn_json_text *j, const void *file) {
    attn_json_string(j, srv_shelf_path(srv_shelf_of(SRV_EXAMPLES), file, j->arena));
}

#define PART(name, type, text, ...) SRV_WRITTEN(name, type, NULL, text, .always = true, __VA_ARGS__)
#define MAYBE(name, type, text)     SRV_WRITTEN(name, type, NULL, text)
/* The members that an example and its entry in the list share. */
#define HEAD                                                                                       \
    PART("id", "string", "The id under /v1/examples."), PART("title", "string", "The title."),     \
        PART("what", "string", "What the example shows."),                                         \
        PART("tags", "[string]", "The topics that it belongs to."),                                \
        MAYBE("names", "{integer+}",                                                               \
              "Names in papers and libraries, each with the number of the case that computes it.")

/* An entry of the list. */
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

void srv_examples_put(attn_json_text *j, const void *unused) {
    (void)unused;
    srv_shelf_put(j, srv_shelf_of(SRV_EXAMPLES), entry_rows);
}

void srv_examples_text(attn_text *t, const char *indent, int width) {
    srv_shelf_text(t, srv_shelf_of(SRV_EXAMPLES), indent, width);
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

srv_outcome srv_examples_one(srv_request *req) {
    return srv_shelf_one(req, srv_shelf_of(SRV_EXAMPLES));
}

const char *srv_example_host(const srv_request *req) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:";
    const char *host = req->host;
    return host && *host && !host[strspn(host, safe)] ? host : "localhost:8080";
}
