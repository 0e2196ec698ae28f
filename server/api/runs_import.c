/* POST /v1/runs imports a run: a file in the safetensors format as the body, or {"file": …}, the
 * name of one in captures_dir. */
#include <string.h>

#include "api/handlers.h"
#include "api/runs_call.h"
#include "http/negotiate.h"
#include "request/shared.h"

typedef struct import_body {
    uint64_t given;
    const char *file;
    bool copy;
} import_body;

const srv_field srv_runs_fields[] = {
    {.name = "file",
     .kind = SRV_STRING,
     .offset = offsetof(import_body, file),
     .required = true,
     .example = "\"bert/sentence.safetensors\"",
     .doc = "Path of a file below the service's captures_dir. Symbolic links are not followed."},
    SRV_BOOL_ROW(import_body, copy,
                 "true: copies the file. false: uses it where it lies, which is refused unless it "
                 "belongs to the service's user and nobody else may write it or its directory. "
                 "Default: false where that is possible."),
    {0},
};

bool srv_runs_intake(srv_request *req, uint64_t length) {
    return srv_type_is_json(req->content_type) || srv_run_receive(req, length);
}

static void describe(srv_request *req, const srv_run *run) {
    srv_json j;
    attn_text location = {.arena = req->arena};
    attn_text_add(&location, "/v1/runs/%s", run->id);
    srv_json_begin(&j, req);
    srv_run_write(&j, run);
    if (!srv_json_end(&j))
        return;
    req->reply.status = 201;
    srv_reply_header(req, "Cache-Control", "no-store");
    srv_reply_header(req, "Location", location.failed ? "/v1/runs" : location.data);
}

/* Returns whether a body that was sent as JSON, or without a type, begins as a safetensors file:
 * with 8 bytes, of which the last ones are 0, and an object. */
static bool looks_binary(const srv_request *req) {
    return req->body_size > 8 && !req->body[7] && req->body[8] == '{';
}

static const srv_run *import_named(srv_request *req) {
    import_body b = {.file = NULL};
    const srv_scope scope = {req, srv_runs_fields, &b.given, ""};
    if (looks_binary(req)) {
        srv_problem(req, SRV_MEDIA_TYPE, NULL,
                    "the body looks like a safetensors file; send it with \"Content-Type: "
                    "application/vnd.safetensors\"");
        srv_reply_header(req, "Accept-Post", SRV_INTAKE_TYPES);
        return NULL;
    }
    if (!srv_decode(req, srv_runs_fields, &b))
        return NULL;
    return srv_run_import_file(req, b.file,
                               !srv_given(&scope, "copy") ? SRV_IMPORT_AUTO
                               : b.copy                   ? SRV_IMPORT_COPY
                                                          : SRV_IMPORT_MAP);
}

/* A run that cannot be described, for example because the answer has no memory, is not kept: its id
 * would be unknown. */
srv_outcome srv_runs_create(srv_request *req) {
    const srv_run *run =
        srv_type_is_json(req->content_type) ? import_named(req) : srv_run_import(req);
    if (!run)
        return SRV_DONE;
    describe(req, run);
    if (!srv_run_is_whole(req, run) || req->reply.status != 201)
        srv_run_discard(req, run);
    srv_run_release(req, run);
    return SRV_DONE;
}
