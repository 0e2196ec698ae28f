/* store of POST /v1/attention: the operation that has run becomes a stored run. */
#include "api/attention_call.h"
#include "request/shared.h"

bool srv_attention_store(srv_attention_call *call) {
    srv_request *req = call->req;
    const srv_labels *labels = &call->body.labels;
    const attn_metadata text = {SRV_RUN_OWNER, req->owner};
    const attn_run_source source = {
        .op = call->op,
        .stats = &call->results.stats,
        .query_labels = labels->query.values,
        .key_labels = labels->key.values,
        .metadata = &text,
        .metadata_count = req->owner != NULL,
    };
    attn_run_image image;
    attn_error err = {0};
    if (attn_run_image_new(&source, srv_request_pool(req), &req->control, req->arena, &image,
                           &err)) {
        srv_problem_error(req, &err);
        return false;
    }
    call->run = srv_run_store(req, &image);
    return call->run != NULL;
}

void srv_attention_settle(srv_attention_call *call) {
    srv_request *req = call->req;
    if (!call->run)
        return;
    const char *id = attn_arena_text(req->arena, call->run->id, SRV_RUN_ID);
    if (req->reply.status >= 400)
        srv_run_discard(req, call->run);
    else if (id) /* a picture has no other place for it */
        srv_reply_header(req, "X-Run-Id", id);
    srv_run_release(req, call->run);
}

void srv_run_write(srv_json *j, const srv_run *run) {
    srv_json_object(j);
    srv_json_key(j, "id");
    srv_json_string(j, run->id);
    srv_json_key(j, "bytes");
    srv_json_size(j, run->bytes);
    srv_json_object_end(j);
}
