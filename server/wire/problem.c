/* Problems: the table of their codes, and the body that reports them, application/problem+json (RFC
 * 9457).
 *
 *   {"type":"/problems/unknown_field","title":"Unknown field","status":422,"detail":"…",
 *    "instance":"urn:request:<X-Request-Id>","code":"unknown_field","pointer":"/qery",
 *    "limit":{"value":268435456,"setting":"max_body_bytes"},"error":"…"}
 *
 *   type       a relative URI that names the code
 *   instance   the request's id, or its path before it has an id
 *   pointer    JSON pointer to the faulty value (RFC 6901), if known
 *   limit      the limit that was hit and the setting that raises it, if any
 *   error      the same text as detail, for clients of the Open Inference Protocol
 *
 * The body is made on the stack and copied into the arena. If the arena is used up, the body is a
 * constant text of the same form, so that this problem can be reported too. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "number/number.h"
#include "number/print_small.h"
#include "request/request.h"
#include "request/shared.h"
#include "wire/container.h"

#define TYPE "application/problem+json"

typedef struct problem_row {
    int status;
    const char *name, *title;
    const char *bare; /* the constant body for a used-up arena */
} problem_row;

#define ROW(status, name, title)                                                                   \
    {                                                                                              \
        status, name, title,                                                                       \
            "{\"type\":\"/problems/" name "\",\"title\":\"" title "\",\"status\":" #status         \
            ",\"detail\":\"" title "\",\"code\":\"" name "\",\"error\":\"" title "\"}\n"           \
    }

static const problem_row problems[SRV_CODE_COUNT] = {
    [SRV_MALFORMED] = ROW(400, "malformed_json", "The body is not valid JSON"),
    [SRV_BAD_REQUEST] = ROW(400, "bad_request", "The request is malformed"),
    [SRV_UNAUTHORIZED] = ROW(401, "unauthorized", "Credentials are needed"),
    [SRV_FORBIDDEN] = ROW(403, "forbidden", "Not allowed"),
    [SRV_NOT_FOUND] = ROW(404, "not_found", "Not found"),
    [SRV_METHOD] = ROW(405, "method_not_allowed", "Method not allowed"),
    [SRV_NOT_ACCEPTABLE] = ROW(406, "not_acceptable", "No acceptable media type"),
    [SRV_TIMEOUT] = ROW(408, "request_timeout", "The request took too long to arrive"),
    [SRV_KEY_BUSY] = ROW(409, "request_in_progress", "The first request still runs"),
    [SRV_GONE] = ROW(410, "gone", "No longer kept"),
    [SRV_RUN_CHANGED] = ROW(410, "run_changed", "The file of the run has changed"),
    [SRV_PRECONDITION] = ROW(412, "precondition_failed", "The precondition does not hold"),
    [SRV_TOO_LARGE] = ROW(413, "too_large", "Larger than a limit allows"),
    [SRV_TARGET_LONG] = ROW(414, "target_too_long", "The request target is too long"),
    [SRV_MEDIA_TYPE] = ROW(415, "unsupported_media_type", "Media type not supported"),
    [SRV_EXPECTATION] = ROW(417, "expectation_failed", "Expectation not supported"),
    [SRV_MISDIRECTED] = ROW(421, "misdirected_request", "Not a host of this service"),
    [SRV_KEY_REUSED] = ROW(422, "key_reused", "The Idempotency-Key of another request"),
    [SRV_UNKNOWN_FIELD] = ROW(422, "unknown_field", "Unknown field"),
    [SRV_TYPE] = ROW(422, "wrong_type", "A value of the wrong type"),
    [SRV_VALUE] = ROW(422, "invalid_value", "A value outside its range"),
    [SRV_SHAPE] = ROW(422, "shape_mismatch", "Shapes do not fit"),
    [SRV_DTYPE] = ROW(422, "unsupported_dtype", "Element type not accepted here"),
    [SRV_MASK_SEMANTICS] = ROW(422, "mask_semantics", "The meaning of a mask is not declared"),
    [SRV_NONFINITE] = ROW(422, "nonfinite_value", "NaN, infinity or beyond the number format"),
    [SRV_QUOTA] = ROW(429, "quota_exceeded", "Quota used up"),
    [SRV_HEADER_LONG] = ROW(431, "header_too_long", "The header is too long"),
    [SRV_INTERNAL] = ROW(500, "internal_error", "Internal error"),
    [SRV_DAMAGED] = ROW(500, "damaged", "A file of the service has wrong contents"),
    [SRV_UNSUPPORTED] = ROW(501, "not_supported", "Not supported by this server"),
    [SRV_QUEUE_FULL] = ROW(503, "queue_full", "The queue is full"),
    [SRV_MEMORY_BUDGET] = ROW(503, "memory_budget", "The memory budget is in use"),
    [SRV_DRAINING] = ROW(503, "draining", "The server is shutting down"),
    [SRV_STORAGE] = ROW(503, "storage_failed", "A file of the service cannot be used"),
    [SRV_DEADLINE] = ROW(504, "deadline_exceeded", "The deadline passed"),
    [SRV_VERSION] = ROW(505, "version_not_supported", "Not this version of HTTP"),
    [SRV_STORAGE_FULL] = ROW(507, "storage_full", "No space for files is left"),
};

static const problem_row *row_of(srv_code code) {
    return &problems[(unsigned)code < SRV_CODE_COUNT ? code : SRV_INTERNAL];
}

int srv_code_status(srv_code code) {
    return row_of(code)->status;
}

const char *srv_code_name(srv_code code) {
    return row_of(code)->name;
}

enum { TEXT_MOST = 1024, POINTER_MOST = 512, INSTANCE_MOST = 160 }; /* bounds in bytes */

/* The body while it is made. */
typedef struct body {
    char *p; /* the end of what has been written to `text` */
    char text[256 + ATTN_ESCAPE_MOST * (2 * TEXT_MOST + POINTER_MOST + INSTANCE_MOST + 256)];
} body;

static void put(body *b, const char *text) {
    size_t n = strlen(text);
    memcpy(b->p, text, n);
    b->p += n;
}

/* Writes ,"key":"prefix text" with at most `most` bytes of the text; the first member gets the
 * opening brace instead of the comma. */
static void put_member(body *b, const char *key, const char *prefix, const char *text,
                       size_t most) {
    put(b, b->p == b->text ? "{\"" : ",\"");
    put(b, key);
    put(b, "\":\"");
    put(b, prefix);
    b->p = attn_escape(b->p, text, strnlen(text, most));
    put(b, "\"");
}

static void put_number(body *b, const char *key, double value) {
    put(b, key);
    b->p = attn_write_f64(b->p, value);
}

typedef struct problem_limit {
    double value;
    const char *setting;
} problem_limit;

/* Returns the pointer for a request with a query string, whose parameters are the fields of objects
 * without the objects' names (query.c): "/columns" for "/axes/columns". Other requests keep the
 * pointer. */
static const char *place_in_query(const srv_request *req, const char *pointer) {
    const char *inner = pointer && *pointer ? strchr(pointer + 1, '/') : NULL;
    const bool query = inner && req->query && *req->query && strcmp(req->method, "POST") != 0;
    return query && !(inner[1] >= '0' && inner[1] <= '9') ? inner : pointer;
}

/* Returns the JSON pointer to the timeout if the client had set the deadline that has passed.
 * Otherwise sets *limit to the setting request_timeout_ms and returns NULL. */
static const char *place_of_deadline(const srv_request *req, problem_limit *limit) {
    if (req->own_deadline)
        return req->only_400 ? "/parameters/timeout" : "/timeout_ms";
    if (req->app && req->app->config)
        *limit =
            (problem_limit){(double)req->app->config->request_timeout_ms, "request_timeout_ms"};
    return NULL;
}

/* Appends to the detail of a passed deadline which limit it was and where it is set. */
static void name_deadline(const srv_request *req, const problem_limit *limit, char *detail,
                          size_t room) {
    const size_t used = strlen(detail);
    if (limit)
        snprintf(detail + used, room - used,
                 "; the limit is %.17g ms, the setting %s of the service", limit->value,
                 limit->setting);
    else if (req->own_deadline)
        snprintf(detail + used, room - used, "; the limit is %.17g %s, %s of the request",
                 (double)(req->control.deadline_ns - req->start_ns) / (req->only_400 ? 1e3 : 1e6),
                 req->only_400 ? "us" : "ms",
                 req->only_400 ? "the parameter timeout" : "timeout_ms");
}

/* Makes the body of the problem and sets it as the reply. */
static void reply_problem(srv_request *req, srv_code code, const char *pointer,
                          const problem_limit *limit, const char *format, va_list args) {
    const problem_row *row = row_of(code);
    int status = req->only_400 && row->status == 422 ? 400 : row->status;
    char detail[TEXT_MOST];
    srv_origin place = {.name = NULL};
    size_t lead = 0;
    problem_limit of_time = {0, NULL};
    pointer = place_in_query(req, pointer);
    if (pointer && req->decoded_body && req->decoded_body->place) {
        req->decoded_body->place(req->decoded_body, pointer, &place);
        pointer = place.pointer;
    }
    if (code == SRV_DEADLINE && !pointer && !limit) {
        pointer = place_of_deadline(req, &of_time);
        limit = of_time.setting ? &of_time : NULL;
    }
    if (req->only_400 && pointer && *pointer) /* Open Inference clients show only this text */
        lead = (size_t)snprintf(detail, sizeof detail,
                                place.name ? "%.200s (%.80s): " : "%.200s: ", pointer, place.name);
    if (vsnprintf(detail + lead, sizeof detail - lead, format, args) < 0)
        memcpy(detail, "", 1);
    if (code == SRV_DEADLINE)
        name_deadline(req, of_time.setting ? &of_time : NULL, detail, sizeof detail);
    lead = strlen(detail);
    /* The text names the tensor's type in the library; the client knows the protocol's type. */
    if (place.type && code == SRV_DTYPE)
        snprintf(detail + lead, sizeof detail - lead, ", sent as %s", place.type);
    body b;
    b.p = b.text;
    put_member(&b, "type", "/problems/", row->name, TEXT_MOST);
    put_member(&b, "title", "", row->title, TEXT_MOST);
    put_number(&b, ",\"status\":", status);
    put_member(&b, "detail", "", detail, TEXT_MOST);
    if (req->id && *req->id)
        put_member(&b, "instance", "urn:request:", req->id, INSTANCE_MOST);
    else if (req->path)
        put_member(&b, "instance", "", req->path, INSTANCE_MOST);
    put_member(&b, "code", "", row->name, TEXT_MOST);
    if (pointer)
        put_member(&b, "pointer", "", pointer, POINTER_MOST);
    if (limit) {
        put_number(&b, ",\"limit\":{\"value\":", limit->value);
        put_member(&b, "setting", "", limit->setting, 64);
        put(&b, "}");
    }
    put_member(&b, "error", "", detail, TEXT_MOST);
    put(&b, "}\n");
    size_t size = (size_t)(b.p - b.text);
    const char *text = req->arena ? attn_arena_text(req->arena, b.text, size) : NULL;
    srv_reply_set(req, status, TYPE, text ? text : row->bare, text ? size : strlen(row->bare));
    req->reply.problem = 1 + (unsigned)(row - problems);
    req->reply.setting = limit ? limit->setting : NULL;
    req->reply.detail = req->is_job ? attn_arena_text(req->arena, detail, strlen(detail)) : NULL;
    if (row->status == 503 || row->status == 429 || code == SRV_KEY_BUSY)
        srv_reply_header(req, "Retry-After", req->retry_after ? req->retry_after(req) : "1");
}

void srv_problem(srv_request *req, srv_code code, const char *pointer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_problem(req, code, pointer, NULL, format, args);
    va_end(args);
}

void srv_problem_file(srv_request *req, const char *pointer, const char *what, int failed) {
    const bool full = failed == ENOSPC || failed == EDQUOT || failed == EFBIG;
    srv_problem(req,
                full               ? SRV_STORAGE_FULL
                : failed == ENOMEM ? SRV_MEMORY_BUDGET
                                   : SRV_STORAGE,
                pointer, "%s: %s", what, strerror(failed));
}

void srv_problem_limit(srv_request *req, srv_code code, const char *pointer, double limit,
                       const char *setting, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_problem(req, code, pointer, &(problem_limit){limit, setting}, format, args);
    va_end(args);
}

static const char arena_setting[] = "max_request_bytes";

void srv_problem_memory(srv_request *req, const char *pointer, const char *text) {
    const double most = req->arena ? (double)attn_arena_limit(req->arena) : 0;
    srv_problem_limit(req, SRV_TOO_LARGE, pointer, most, arena_setting, "%s", text);
}

bool srv_problem_is_memory(const srv_request *req) {
    return req->reply.status == 413 && req->reply.setting &&
           !strcmp(req->reply.setting, arena_setting);
}

/* Returns the code of the problem for a status of the library. Running out of memory is 413 and not
 * 503, because the request has used up its own arena, and a retry would not help. (If the budget
 * was used up, server/http changes the problem afterwards.) */
static srv_code code_of(attn_status status) {
    switch (status) {
    case ATTN_ENOMEM:
    case ATTN_ELIMIT:
        return SRV_TOO_LARGE;
    case ATTN_EARG:
        return SRV_VALUE;
    case ATTN_ESHAPE:
        return SRV_SHAPE;
    case ATTN_EDTYPE:
        return SRV_DTYPE;
    case ATTN_EVALUE:
        return SRV_VALUE;
    case ATTN_ENONFINITE:
        return SRV_NONFINITE;
    case ATTN_ESEMANTICS:
        return SRV_MASK_SEMANTICS;
    case ATTN_ECANCELED:
        return SRV_TIMEOUT;
    case ATTN_EDEADLINE:
        return SRV_DEADLINE;
    case ATTN_EUNSUPPORTED:
        return SRV_UNSUPPORTED;
    case ATTN_OK:
        break;
    }
    return SRV_INTERNAL;
}

void srv_problem_error(srv_request *req, const attn_error *err) {
    char pointer[sizeof err->where + 1];
    snprintf(pointer, sizeof pointer, "/%s", err->where);
    const char *at = err->where[0] ? pointer : NULL;
    if (err->code == ATTN_ENOMEM)
        srv_problem_memory(req, at, err->text);
    else
        srv_problem(req, code_of(err->code), at, "%s", err->text);
}
