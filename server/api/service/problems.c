/* GET /problems and /problems/{code}: the codes of problems, as JSON and as documents for browsers.
 * The member `type` of a problem is the path /problems/{code} of its code. */
#include <string.h>

#include "api/service/page.h"
#include "api/service/service_api.h"
#include "config/nearest.h"
#include "request/problem_codes.h"
#include "wire/json_out.h"

static void put_status(attn_json_text *j, const void *status) {
    attn_json_int(j, *(const int *)status);
}

/* Writes the example of a problem code. `place` is the row of the code. */
static void put_example(attn_json_text *j, const void *place) {
    const srv_problem_row *row = place;
    const char *example =
        srv_problem_example(j->arena, (srv_code)(row - srv_problem_row_of((srv_code)0)));
    if (example)
        attn_json_raw(j, example, strlen(example));
    j->failed |= !example;
}

#define STATUS "integer+400"

static const srv_field code_rows[] = {
    SRV_ALWAYS("code", SRV_STRING, srv_problem_row, name, "The code.", .type = "ProblemCode"),
    SRV_ALWAYS("title", SRV_STRING, srv_problem_row, title, "What it says in short."),
    SRV_WRITTEN_AT("status", STATUS, put_status, srv_problem_row, status, "The HTTP status.",
                   .max = 599, .always = true),
    SRV_ALWAYS("meaning", SRV_STRING, srv_problem_row, meaning, "When the problem occurs."),
    SRV_ALWAYS("remedy", SRV_STRING, srv_problem_row, remedy, "What to do about it."),
    SRV_WRITTEN("example", "Problem", put_example, "A problem with this code.", .always = true),
    {0},
};

static void put_codes(attn_json_text *j, const void *unused) {
    (void)unused;
    attn_json_array(j);
    for (srv_code code = 0; code < SRV_CODE_COUNT; code++)
        srv_answer_object(j, code_rows, srv_problem_row_of(code));
    attn_json_array_end(j);
}

static const srv_field list_rows[] = {
    SRV_WRITTEN("problems", "[ProblemKind]", put_codes, "The codes.", .always = true), {0}};

/* The members of problems, for the schema only: request/problem.c writes problems. */
static const srv_field limit_rows[] = {
    SRV_WRITTEN("value", "number", NULL, "The limit.", .always = true),
    SRV_WRITTEN("setting", "string", NULL, "The setting that changes it; a constant has none."),
    {0},
};
static const srv_field problem_rows[] = {
    SRV_WRITTEN("type", "string:uri-reference", NULL, "The path of a page about the code.",
                .always = true),
    SRV_WRITTEN("title", "string", NULL, "What the code says in short.", .always = true),
    SRV_WRITTEN("status", STATUS, NULL, "The HTTP status.", .max = 599, .always = true),
    SRV_WRITTEN("detail", "string", NULL, "What is wrong with this request.", .always = true),
    SRV_WRITTEN("instance", "string", NULL, "urn:request: and the id of the request."),
    SRV_WRITTEN("code", "ProblemCode", NULL, "The code.", .always = true),
    SRV_WRITTEN("pointer", "string:json-pointer", NULL,
                "JSON pointer (RFC 6901) into the body; of a query string, / and the name of the "
                "parameter."),
    SRV_WRITTEN("limit", "*", NULL, "The exceeded limit and, if one raises it, the setting.",
                .fields = limit_rows, .accepts = SRV_O_OPEN),
    SRV_WRITTEN("error", "string", NULL, "Below /v2: the same as detail."),
    {0},
};

const srv_field srv_problem_answers[] = {
    SRV_GROUP("Problem", problem_rows, "An error (RFC 9457).", .accepts = SRV_O_OPEN),
    SRV_GROUP("ProblemKind", code_rows, "A code of problems."),
    SRV_GROUP("ProblemKinds", list_rows, "All codes of problems."),
    {0},
};

/* --- for browsers --- */

static void add_escaped(attn_text *t, const char *text) {
    while (*text) {
        const size_t plain = strcspn(text, "<>&\"");
        attn_text_add(t, "%.*s", (int)plain, text);
        text += plain;
        if (*text)
            attn_text_add(t, "&#%d;", *text++);
    }
}

static void add_element(attn_text *t, const char *name, const char *text) {
    attn_text_add(t, "<%s>", name);
    add_escaped(t, text);
    attn_text_add(t, "</%s>\n", name);
}

static void end_document(srv_request *req, const char *root, const attn_text *t) {
    if (t->failed)
        srv_problem_memory(req, NULL, "no memory is left for the document");
    else
        srv_page_document(req, "problems.html", root, t->data);
}

static void list_document(srv_request *req) {
    attn_text t = {.arena = req->arena};
    attn_text_add(&t, "<h1>Problems</h1>\n<p>Every error has one of these codes.</p>\n<table>\n"
                      "<thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead>\n");
    for (srv_code code = 0; code < SRV_CODE_COUNT; code++) {
        const srv_problem_row *row = srv_problem_row_of(code);
        attn_text_add(&t,
                      "<tr><td><a href=\"problems/%s\"><code>%s</code></a></td><td>%d</td>"
                      "<td>",
                      row->name, row->name, row->status);
        add_escaped(&t, row->meaning);
        attn_text_add(&t, "</td></tr>\n");
    }
    attn_text_add(&t, "</table>\n");
    end_document(req, "./", &t);
}

static void code_document(srv_request *req, srv_code code) {
    const srv_problem_row *row = srv_problem_row_of(code);
    const char *example = srv_problem_example(req->arena, code);
    attn_text t = {.arena = req->arena, .failed = !example};
    add_element(&t, "h1", row->title);
    attn_text_add(&t, "<p><code>%s</code>, HTTP status %d</p>\n", row->name, row->status);
    add_element(&t, "h2", "Meaning");
    add_element(&t, "p", row->meaning);
    add_element(&t, "h2", "What to do");
    add_element(&t, "p", row->remedy);
    add_element(&t, "h2", "Example");
    add_element(&t, "pre", example ? example : "");
    attn_text_add(&t, "<p><a href=\"../problems\">All problems</a></p>\n");
    end_document(req, "../", &t);
}

/* --- the routes --- */

srv_outcome srv_problems_list(srv_request *req) {
    if (req->accept == SRV_ACCEPT_HTML) {
        list_document(req);
        return SRV_DONE;
    }
    srv_answer_reply(req, list_rows, req);
    return SRV_DONE;
}

static void refuse_code(srv_request *req, const char *name) {
    const char *names[SRV_CODE_COUNT];
    for (srv_code code = 0; code < SRV_CODE_COUNT; code++)
        names[code] = srv_code_name(code);
    const char *near = srv_nearest(name, names, SRV_CODE_COUNT);
    srv_problem(req, SRV_NOT_FOUND, NULL,
                "there is no problem \"%.64s\"%s%s%s GET /problems lists those that there are",
                name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : ";");
}

srv_outcome srv_problems_one(srv_request *req) {
    const char *name = req->params[0];
    srv_code code = 0;
    while (code < SRV_CODE_COUNT && strcmp(srv_code_name(code), name) != 0)
        code++;
    if (code == SRV_CODE_COUNT) {
        refuse_code(req, name);
    } else if (req->accept == SRV_ACCEPT_HTML) {
        code_document(req, code);
    } else {
        srv_answer_reply(req, code_rows, srv_problem_row_of(code));
    }
    return SRV_DONE;
}
