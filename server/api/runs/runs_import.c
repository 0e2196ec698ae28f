/* POST /v1/runs imports a run: a file in the safetensors format. The body is the file, or
 * {"file": …} with the name of a file in captures_dir. */
#include <string.h>

#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "base/try.h"
#include "http/negotiate.h"
#include "request/shared.h"

typedef struct import_body {
    srv_given_bits given;
    const char *file;
    bool copy;
} import_body;

const srv_field srv_runs_fields[] = {
    SRV_FIELD_ROW(import_body, file, SRV_STRING,
                  "Path of a file below the service's captures_dir, relative and without ., .. and "
                  "empty components. Symbolic links are not followed.",
                  .required = true, .example = "\"bert/sentence.safetensors\""),
    SRV_BOOL_ROW(
        import_body, copy,
        "true: copies the file into runs_dir, if it has at most max_capture_bytes. false: uses it "
        "where it lies, which is refused unless it belongs to the service's user and nobody else "
        "may write it or its directory. Default: false where that is possible."),
    {0},
};

bool srv_runs_intake(srv_request *req, uint64_t length) {
    return srv_type_is_json(req->content_type) || srv_run_receive(req, length);
}

enum { WARNINGS_MOST = 16 }; /* largest number of warnings about a run */

/* Adds the warnings about the masks of a site. *last is the data of the mask that the last warning
 * is about. A mask that successive sites share gets one warning. */
static attn_status warn_of_site(srv_warnings *to, attn_arena *arena, const attn_run_site *site,
                                const void **last, attn_error *err) {
    attn_warnings found;
    ATTN_TRY(attn_run_lint(site, arena, &found, err));
    for (size_t i = 0; i < found.count && to->count < WARNINGS_MOST; i++) {
        const attn_mask_layer *layer = found.items[i].layer;
        const attn_warnings one = {.items = &found.items[i], .count = 1};
        attn_text pointer = {.arena = arena};
        if (layer->values.data == *last)
            continue;
        *last = layer->values.data;
        attn_text_add(&pointer, "/sites/%zu/%s", attn_run_site_index(site), layer->where);
        ATTN_TRY(pointer.failed ? attn_no_memory(err, "warnings")
                                : srv_warnings_word(to, arena, &one, err));
        to->items[to->count - 1].pointer = pointer.data;
    }
    return ATTN_OK;
}

/* Collects the warnings about the masks of all sites. Skips sites that cannot be opened. The
 * description of the run states their problem. false: a problem is set. */
static bool warn_of_masks(srv_request *req, const attn_run *run, srv_warnings *to) {
    const void *last = NULL;
    attn_error err = {0};
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < attn_run_site_count(run) && !status; i++) {
        const attn_run_site *site;
        if (!attn_run_site_open(run, i, &site, &err))
            status = warn_of_site(to, req->arena, site, &last, &err);
    }
    return !status || srv_problem_error(req, &err);
}

static void describe_imported(srv_request *req, const srv_run *run) {
    srv_warnings warnings = {0};
    attn_json_text j;
    attn_text location = {.arena = req->arena};
    attn_text_add(&location, "/v1/runs/%s", run->id);
    if (!warn_of_masks(req, run->run, &warnings))
        return;
    srv_json_begin(&j, req);
    srv_run_write_warned(&j, run, &warnings);
    if (!srv_json_end(&j))
        return;
    req->reply.status = 201;
    srv_reply_header(req, "Cache-Control", "no-store");
    srv_reply_header(req, "Location", location.failed ? "/v1/runs" : location.data);
}

/* Returns whether a body that was sent as JSON, or without a type, looks like a safetensors file.
 * Such a file begins with the length of its header, 8 bytes in little-endian order, of which the
 * last is 0. The header follows and begins with "{". */
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

/* Imports a run and describes it. Discards a run that cannot be described, for example because
 * there is no memory for the answer. Its client would not learn the id. */
srv_outcome srv_runs_create(srv_request *req) {
    const srv_run *run =
        srv_type_is_json(req->content_type) ? import_named(req) : srv_run_import(req);
    if (!run)
        return SRV_DONE;
    describe_imported(req, run);
    if (!srv_run_is_whole(req, run) || req->reply.status != 201)
        srv_run_discard(req, run);
    srv_run_release(req, run);
    return SRV_DONE;
}
