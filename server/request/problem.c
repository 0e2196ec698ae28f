/* Problems: the body that reports them, application/problem+json (RFC 9457). problem_codes.c has
 * the table of their codes.
 *
 *   {"type":"/problems/unknown_field","title":"Unknown field","status":422,"detail":"…",
 *    "instance":"urn:request:<X-Request-Id>","code":"unknown_field","pointer":"/qery",
 *    "limit":{"value":268435456,"setting":"max_body_bytes"}}
 *
 *   type       a relative URI that names the code
 *   instance   the request's id, or its path before it has an id
 *   pointer    JSON pointer to the faulty value (RFC 6901), if known
 *   limit      the limit that was hit, if any. Its member "setting" names the setting that raises
 *              the limit, if there is such a setting
 *   error      below /v2 only: the same text as detail, as the Open Inference Protocol has it
 *
 * The body is made on the stack and copied into the arena. If the arena is used up, the body is a
 * constant text of the same form, so that this problem can be reported too. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "number/print_small.h"
#include "request/decoded_body.h"
#include "request/problem_codes.h"
#include "request/shared.h"
#include "json/json_write.h"

#define TYPE "application/problem+json"

enum { TEXT_MOST = 1024, POINTER_MOST = 512, INSTANCE_MOST = 160 }; /* bounds in bytes */

typedef struct problem_limit {
    double value;
    const char *setting; /* NULL: no setting raises the limit */
} problem_limit;

/* The contents of a problem's body. NULL: the body lacks this member. */
typedef struct said {
    const srv_problem_row *row;
    int status;
    const char *detail;
    const char *id; /* id of the request; NULL or "": `path` is the instance */
    const char *path;
    const char *pointer;
    const problem_limit *limit;
    bool infers; /* the protocol is Open Inference, so the body has the member `error` */
} said;

/* Room for the longest body: texts of these lengths in which every byte is escaped. */
typedef char
    body_text[256 + ATTN_ESCAPE_MOST * (2 * TEXT_MOST + POINTER_MOST + INSTANCE_MOST + 256)];

/* Writes the member `key`, a string: the prefix and then at most `most` bytes of the text. */
static void put_member(attn_json_text *j, const char *key, const char *prefix, const char *text,
                       size_t most) {
    attn_json_key(j, key);
    attn_json_string_of(j, prefix, text, strnlen(text, most));
}

static attn_json_text write_body(body_text text, const said *s) {
    attn_json_text j = {.data = text, .room = sizeof(body_text)};
    attn_json_object(&j);
    put_member(&j, "type", "/problems/", s->row->name, TEXT_MOST);
    put_member(&j, "title", "", s->row->title, TEXT_MOST);
    attn_json_key_int(&j, "status", s->status);
    put_member(&j, "detail", "", s->detail, TEXT_MOST);
    if (s->id && *s->id)
        put_member(&j, "instance", "urn:request:", s->id, INSTANCE_MOST);
    else if (s->path)
        put_member(&j, "instance", "", s->path, INSTANCE_MOST);
    put_member(&j, "code", "", s->row->name, TEXT_MOST);
    if (s->pointer)
        put_member(&j, "pointer", "", s->pointer, POINTER_MOST);
    if (s->limit) {
        attn_json_key_object(&j, "limit");
        attn_json_key_real(&j, "value", s->limit->value);
        if (s->limit->setting)
            put_member(&j, "setting", "", s->limit->setting, 64);
        attn_json_object_end(&j);
    }
    if (s->infers)
        put_member(&j, "error", "", s->detail, TEXT_MOST);
    attn_json_object_end(&j);
    attn_json_put(&j, "\n", 1);
    return j;
}

const char *srv_problem_example(attn_arena *arena, srv_code code) {
    const srv_problem_row *row = srv_problem_row_of(code);
    const problem_limit limit = {row->limit, row->setting};
    body_text text;
    const attn_json_text j = write_body(text, &(said){.row = row,
                                                      .status = row->status,
                                                      .detail = row->detail,
                                                      .id = "7164e53bd15c3f28",
                                                      .pointer = row->pointer,
                                                      .limit = row->setting ? &limit : NULL});
    return attn_arena_text(arena, j.data, j.size - 1);
}

/* Turns a pointer into the decoded JSON into a pointer to the query parameter, if the fields of the
 * request come from its query string (wire/query.c). In a query string a field of a nested object
 * is a parameter of its own, so "/axes/columns" becomes "/columns"; and a list is one text, so
 * "/heads/0" becomes "/heads". Returns `pointer` itself or a text in `text`. */
static const char *place_in_query(const srv_request *req, const char *pointer,
                                  char text[POINTER_MOST]) {
    const char *inner = pointer && *pointer ? strchr(pointer + 1, '/') : NULL;
    if (!inner || !req->query || !*req->query || !srv_is_queried(req))
        return pointer;
    if (!(inner[1] >= '0' && inner[1] <= '9')) {
        pointer = inner;
        inner = strchr(pointer + 1, '/');
    }
    if (!inner || inner[1 + strspn(inner + 1, "0123456789")])
        return pointer; /* a parameter, or a place in a file, such as "/sites/0/key" */
    snprintf(text, POINTER_MOST, "%.*s", (int)(inner - pointer), pointer);
    return text;
}

/* If the client has set the deadline that has passed, returns the JSON pointer to its timeout.
 * Otherwise sets *limit to the setting request_timeout_ms and returns NULL. */
static const char *place_of_deadline(const srv_request *req, problem_limit *limit) {
    if (req->own_deadline)
        return req->only_400 ? "/parameters/timeout" : "/timeout_ms";
    if (req->app && req->app->config)
        *limit =
            (problem_limit){(double)req->app->config->request_timeout_ms, "request_timeout_ms"};
    return NULL;
}

/* Appends to the detail of a passed deadline the limit that was exceeded and the place where it is
 * set. */
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

/* Returns whether the path belongs to the Open Inference Protocol. The path need not exist. */
static bool infers(const srv_request *req) {
    return req->path && !strncmp(req->path, "/v2", 3) && (!req->path[3] || req->path[3] == '/');
}

/* Makes the body of the problem and sets it as the reply. */
static void reply_problem(srv_request *req, srv_code code, const char *pointer,
                          const problem_limit *limit, const char *format, va_list args) {
    const srv_problem_row *row = srv_problem_row_of(code);
    int status = req->only_400 && row->status == 422 ? 400 : row->status;
    char detail[TEXT_MOST];
    srv_origin place = {.name = NULL};
    size_t lead = 0;
    problem_limit of_time = {0, NULL};
    char parameter[POINTER_MOST];
    pointer = place_in_query(req, pointer, parameter);
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
    body_text made;
    const attn_json_text j = write_body(
        made, &(said){row, status, detail, req->id, req->path, pointer, limit, infers(req)});
    const char *text = req->arena ? attn_arena_text(req->arena, j.data, j.size) : NULL;
    srv_reply_set(req, status, TYPE, text ? text : row->bare, text ? j.size : strlen(row->bare));
    req->reply.problem = 1 + (unsigned)(row - srv_problem_row_of((srv_code)0));
    req->reply.setting = limit ? limit->setting : NULL;
    req->reply.limit = limit ? limit->value : 0;
    req->reply.detail = req->is_job ? attn_arena_text(req->arena, detail, strlen(detail)) : NULL;
    if (row->status == 503 || row->status == 429 || code == SRV_KEY_BUSY)
        srv_reply_header(req, "Retry-After", req->retry_after ? req->retry_after(req) : "1");
}

bool srv_problem(srv_request *req, srv_code code, const char *pointer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_problem(req, code, pointer, NULL, format, args);
    va_end(args);
    return false;
}

bool srv_problem_file(srv_request *req, const char *pointer, const char *what, int failed) {
    const bool full = failed == ENOSPC || failed == EDQUOT || failed == EFBIG;
    return srv_problem(req,
                       full               ? SRV_STORAGE_FULL
                       : failed == ENOMEM ? SRV_MEMORY_BUDGET
                                          : SRV_STORAGE,
                       pointer, "%s: %s", what, strerror(failed));
}

bool srv_problem_limit(srv_request *req, srv_code code, const char *pointer, double limit,
                       const char *setting, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_problem(req, code, pointer, &(problem_limit){limit, setting}, format, args);
    va_end(args);
    return false;
}

static const char arena_setting[] = "max_request_bytes";

bool srv_problem_memory(srv_request *req, const char *pointer, const char *text) {
    const double most = req->arena ? (double)attn_arena_limit(req->arena) : 0;
    return srv_problem_limit(req, SRV_TOO_LARGE, pointer, most, arena_setting, "%s", text);
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

/* Returns the part of the place `where` that follows the path `from`: "0/key" for "labels/0/key"
 * and "labels". NULL: the place does not begin with this path. */
static const char *behind_steps(const char *where, const char *from) {
    const size_t n = strlen(from);
    if (strncmp(where, from, n) != 0 || (n && where[n] && where[n] != '/'))
        return NULL;
    return where + n + (where[n] == '/');
}

bool srv_problem_error_at(srv_request *req, const attn_error *err, const srv_renamed *places) {
    char pointer[POINTER_MOST];
    const char *rest = NULL;
    while (places->from && !(rest = behind_steps(err->where, places->from)))
        places++;
    const char *to = rest ? places->to : "";
    rest = rest ? rest : err->where;
    snprintf(pointer, sizeof pointer, "%s%s%s%s", *to ? "/" : "", to, *rest ? "/" : "", rest);
    const char *at = err->where[0] ? pointer : NULL;
    if (err->code == ATTN_ELIMIT && err->limit > 0)
        return srv_problem_limit(req, SRV_TOO_LARGE, at, err->limit, NULL, "%s", err->text);
    return err->code == ATTN_ENOMEM ? srv_problem_memory(req, at, err->text)
                                    : srv_problem(req, code_of(err->code), at, "%s", err->text);
}

bool srv_problem_error(srv_request *req, const attn_error *err) {
    return srv_problem_error_at(req, err, &(srv_renamed){NULL, NULL});
}

/* --- any reply --- */

void srv_reply_header(srv_request *req, const char *name, const char *value) {
    srv_reply *reply = &req->reply;
    for (size_t i = 0; i < reply->header_count; i++)
        if (!strcasecmp(reply->headers[i].name, name)) {
            reply->headers[i].value = value;
            return;
        }
    if (reply->header_count < SRV_REPLY_HEADERS)
        reply->headers[reply->header_count++] = (srv_header){name, value};
    else
        srv_problem(req, SRV_INTERNAL, NULL, "the answer has no room for the header %s", name);
}

void srv_reply_set(srv_request *req, int status, const char *type, const char *body, size_t size) {
    req->reply = (srv_reply){.status = status, .type = type, .body = body, .size = size};
}
