/* GET /problems and /problems/{code}: the codes of problems, as JSON and as documents for browsers.
 * `type` of a problem is the address of its code. */
#include <string.h>

#include "api/service/page.h"
#include "api/service/service_api.h"
#include "config/nearest.h"
#include "request/problem_codes.h"
#include "wire/json_out.h"

static void write_code(attn_json_text *j, srv_code code) {
    const srv_problem_row *row = srv_problem_row_of(code);
    const char *example = srv_problem_example(j->arena, code);
    attn_json_object(j);
    attn_json_key_string(j, "code", row->name);
    attn_json_key_string(j, "title", row->title);
    attn_json_key_int(j, "status", row->status);
    attn_json_key_string(j, "meaning", row->meaning);
    attn_json_key_string(j, "remedy", row->remedy);
    attn_json_key(j, "example");
    if (example)
        attn_json_raw(j, example, strlen(example));
    j->failed |= !example;
    attn_json_object_end(j);
}

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
    attn_json_text j = srv_json_object(req);
    attn_json_key_array(&j, "problems");
    for (srv_code code = 0; code < SRV_CODE_COUNT; code++)
        write_code(&j, code);
    attn_json_array_end(&j);
    srv_json_object_end(&j);
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
    attn_json_text j;
    while (code < SRV_CODE_COUNT && strcmp(srv_code_name(code), name) != 0)
        code++;
    if (code == SRV_CODE_COUNT) {
        refuse_code(req, name);
    } else if (req->accept == SRV_ACCEPT_HTML) {
        code_document(req, code);
    } else {
        srv_json_begin(&j, req);
        write_code(&j, code);
        srv_json_end(&j);
    }
    return SRV_DONE;
}
