/* The web page, and the files that the page loads. When the daemon is built, these files are made
 * from server/web/ and embedded, each in three forms (uncompressed, gzip, Brotli). A build without
 * Node has none of these files. A browser then gets a page that says how to build them. */
#include <string.h>

#include "api/service/page.h"
#include "api/service/service_api.h"
#include "system/embedded.h"

/* The page loads nothing from other hosts. Its HTML contains no inline scripts and styles. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "   \
    "connect-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; "                  \
    "form-action 'none'; frame-ancestors 'none'"

#define NAME_MOST 128 /* longest name that is searched, in bytes; all files have shorter names */

static const char no_page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>attnd</title>"
    "<h1>This build has no page</h1>"
    "<p>The service works, but it was built without Node. Install <code>nodejs</code> and "
    "<code>npm</code> (<code>make deps</code> does on Debian), run <code>make</code> again, and "
    "start it again.</p>"
    "<p><a href=\"openapi.json\">openapi.json</a> describes all routes.</p></html>";

static const struct {
    const char *ending, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".jpeg", "image/jpeg"},
    {".ts", "text/plain; charset=utf-8"},
};

/* Returns the embedded file web/<name><coding>; NULL: there is none. */
static const srv_file *find(const char *name, const char *coding) {
    static const char folder[] = "web/";
    const size_t n = sizeof folder - 1, length = strlen(name);
    for (const srv_file *file = srv_embedded; file->name; file++)
        if (!strncmp(file->name, folder, n) && !strncmp(file->name + n, name, length) &&
            !strcmp(file->name + n + length, coding))
            return file;
    return NULL;
}

static const char *type_of(const char *name) {
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const size_t n = strlen(types[i].ending);
        if (length > n && !strcmp(name + length - n, types[i].ending))
            return types[i].type;
    }
    return NULL;
}

static srv_piece piece_of(const srv_file *file) {
    return file ? (srv_piece){file->data, file->size} : (srv_piece){0};
}

/* Answers the file of this name. false: there is no such file. */
static bool answer(srv_request *req, const char *name, const char *caching) {
    const srv_file *file = find(name, "");
    const char *type = type_of(name);
    if (!file || !type)
        return false;
    srv_reply_set(req, 200, type, file->data, file->size);
    req->reply.gzip = piece_of(find(name, ".gz"));
    req->reply.brotli = piece_of(find(name, ".br"));
    srv_reply_header(req, "Cache-Control", caching);
    srv_reply_header(req, "Content-Security-Policy", POLICY);
    return true;
}

static srv_outcome answer_document(srv_request *req, const char *name) {
    if (!answer(req, name, "no-cache")) {
        srv_reply_set(req, 200, "text/html; charset=utf-8", no_page, sizeof no_page - 1);
        srv_reply_header(req, "Cache-Control", "no-store");
    }
    return SRV_DONE;
}

void srv_page_document(srv_request *req, const char *name, const char *root, const char *content) {
    static const char no_file[] = "<!doctype html><meta charset=\"utf-8\">%content%";
    static const char at_root[] = "%root%", at_content[] = "%content%";
    const srv_file *file = find(name, "");
    attn_text t = {.arena = req->arena};
    for (const char *p = file ? file->data : no_file; *p;) {
        if (!strncmp(p, at_root, sizeof at_root - 1)) {
            attn_text_add(&t, "%s", root);
            p += sizeof at_root - 1;
        } else if (!strncmp(p, at_content, sizeof at_content - 1)) {
            attn_text_add(&t, "%s", content);
            p += sizeof at_content - 1;
        } else {
            const size_t n = 1 + strcspn(p + 1, "%");
            attn_text_add(&t, "%.*s", (int)n, p);
            p += n;
        }
    }
    if (t.failed) {
        srv_problem_memory(req, NULL, "no memory is left for the document");
        return;
    }
    srv_reply_set(req, 200, "text/html; charset=utf-8", t.data, t.size);
    srv_reply_header(req, "Cache-Control", "no-cache");
    srv_reply_header(req, "Content-Security-Policy", POLICY);
}

srv_outcome srv_page(srv_request *req) {
    return req->accept == SRV_ACCEPT_HTML ? answer_document(req, "index.html") : srv_index(req);
}

srv_outcome srv_page_reference(srv_request *req) {
    return answer_document(req, "docs.html");
}

/* Returns whether the name of a file contains a hash of the content, such as "main-4GJZK2AB.js".
 * Caches may keep such files forever. */
static bool is_hashed(const char *name) {
    const char *dash = strrchr(name, '-');
    return dash && strspn(dash + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == 8 && dash[9] == '.';
}

srv_outcome srv_page_file(srv_request *req) {
    const char *name = req->params[0];
    const char *caching =
        is_hashed(name) ? "public, max-age=31536000, immutable" : "public, no-cache";
    if (strlen(name) > NAME_MOST || !answer(req, name, caching))
        srv_problem(req, SRV_NOT_FOUND, NULL, "the page has no such file; GET / is the page");
    return SRV_DONE;
}
