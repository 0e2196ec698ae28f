#include "request/problem_codes.h"

/* `bare`, the constant body, has the member `error` of the Open Inference Protocol on every route,
 * because it does not depend on the request. */
#define ROW(code, name_, title_, meaning_, remedy_, ...)                                           \
    {                                                                                              \
        .status = code, .name = name_, .title = title_, .meaning = meaning_, .remedy = remedy_,    \
        .bare = "{\"type\":\"/problems/" name_ "\",\"title\":\"" title_ "\",\"status\":" #code     \
                ",\"detail\":\"" title_ "\",\"code\":\"" name_ "\",\"error\":\"" title_ "\"}\n",   \
        __VA_ARGS__                                                                                \
    }

static const srv_problem_row rows[SRV_CODE_COUNT] = {
    [SRV_MALFORMED] =
        ROW(400, "malformed_json", "The body is not valid JSON",
            "The body is empty or not JSON, or the file in it is not of its type.",
            "Check the place that the detail names. A body in another format needs its "
            "Content-Type.",
            .detail = "Line 1, column 22: expected ',' or ']', found the end of the body",
            .pointer = "/query/2"),
    [SRV_BAD_REQUEST] =
        ROW(400, "bad_request", "The request is malformed",
            "The framing, a header or the query string cannot be read.",
            "Correct the part that the detail names.",
            .detail = "the query parameter \"limit\" is there twice", .pointer = "/limit"),
    [SRV_UNAUTHORIZED] =
        ROW(401, "unauthorized", "Credentials are needed",
            "The API key or the read token is missing or unknown; WWW-Authenticate says which.",
            "Send an API key of the keys_file as \"Authorization: Bearer KEY\".",
            .detail = "an API key is needed, as \"Authorization: Bearer KEY\"; found none"),
    [SRV_FORBIDDEN] =
        ROW(403, "forbidden", "Not allowed",
            "The API key lacks the right, the object belongs to the service or to another key, or "
            "a page of a foreign origin asks.",
            "Use a key with the right that the detail names, or let the setting that it names "
            "allow the origin.",
            .detail = "the model \"en-fr\" came with the service: only those made by POST "
                      "/v1/models can be deleted"),
    [SRV_NOT_FOUND] = ROW(404, "not_found", "Not found",
                          "There is no such path or object; the detail names the nearest path.",
                          "Correct the path or the id. GET / lists the paths.",
                          .detail = "there is no model \"en-de\"; GET /v1/models lists those that "
                                    "there are"),
    [SRV_METHOD] = ROW(405, "method_not_allowed", "Method not allowed",
                       "The path does not answer this method; Allow lists those that it answers.",
                       "Send one of these methods. A POST needs a body.",
                       .detail = "DELETE is not answered here; allowed: GET, HEAD, POST, OPTIONS"),
    [SRV_NOT_ACCEPTABLE] =
        ROW(406, "not_acceptable", "No acceptable media type",
            "The path answers with none of the media types or content codings that the request "
            "accepts.",
            "Accept a type that the detail lists, or leave Accept out.",
            .detail = "this path answers with application/json or text/plain"),
    [SRV_TIMEOUT] = ROW(408, "request_timeout", "The request took too long to arrive",
                        "The client sends too slowly (header_timeout_ms, min_rate_bytes), or it "
                        "left.",
                        "Send the request again, over a faster connection if need be.",
                        .detail = "the request did not arrive in time"),
    [SRV_KEY_BUSY] = ROW(409, "request_in_progress", "The first request still runs",
                         "A request with the same Idempotency-Key is not answered yet.",
                         "Ask again after Retry-After.",
                         .detail = "the first request with this Idempotency-Key is not answered "
                                   "yet: ask again"),
    [SRV_GONE] = ROW(410, "gone", "No longer kept",
                     "The run expired, was deleted, or made room for others.", "Store it again.",
                     .detail = "the run 0123456789abcdef0123456789abcdef was deleted; store it "
                               "again"),
    [SRV_RUN_CHANGED] =
        ROW(410, "run_changed", "The file of the run has changed",
            "The file of the run is another one than when the run was stored or adopted.",
            "Adopt the file again with POST /v1/runs.",
            .detail = "the file of run 0123456789abcdef0123456789abcdef holds another run than "
                      "before"),
    [SRV_PRECONDITION] = ROW(412, "precondition_failed", "The precondition does not hold",
                             "If-Match names another state of the object.",
                             "Read the object again, and send the ETag that it has now.",
                             .detail = "this is \"5f3c\", which If-Match does not name"),
    [SRV_TOO_LARGE] =
        ROW(413, "too_large", "Larger than a limit allows",
            "The request exceeds a limit of the service; limit has its value and, if one raises "
            "it, the setting.",
            "Ask for less, or raise the setting.",
            .detail = "B * Hq * L * S = 1 * 1 * 2000000 * 2000000 = 4e+12 score cells, of which "
                      "4e+12 are computed; at most 4e+10 are allowed",
            .setting = "max_cells", .limit = 4e10),
    [SRV_TARGET_LONG] = ROW(414, "target_too_long", "The request target is too long",
                            "The request line is longer than the buffer of a connection.",
                            "Shorten the query string: name ranges instead of single indices.",
                            .detail = "the request line is longer than the connection's buffer",
                            .setting = "connection_bytes", .limit = 65536),
    [SRV_MEDIA_TYPE] = ROW(415, "unsupported_media_type", "Media type not supported",
                           "The route does not read the Content-Type or the Content-Encoding.",
                           "Send JSON, or a type that Accept-Post or Accept-Encoding of the "
                           "answer lists.",
                           .detail = "the content codings understood are gzip, deflate and "
                                     "identity"),
    [SRV_EXPECTATION] =
        ROW(417, "expectation_failed", "Expectation not supported",
            "The header Expect asks for something else than 100-continue.", "Leave Expect out.",
            .detail = "the only expectation understood is 100-continue"),
    [SRV_MISDIRECTED] =
        ROW(421, "misdirected_request", "Not a host of this service",
            "There are no API keys, and hosts does not name the Host of the request.",
            "Add the name to the setting hosts, or send the request to an address.",
            .detail = "without API keys the service answers to loopback names, to IP addresses "
                      "and to the names of the setting \"hosts\", found \"example.org\": add it "
                      "to \"hosts\", or send the request to an address"),
    [SRV_KEY_REUSED] =
        ROW(422, "key_reused", "The Idempotency-Key of another request",
            "Another request had this Idempotency-Key.", "Make a new key for each request.",
            .detail = "this Idempotency-Key came with another request before: use "
                      "a new key"),
    [SRV_UNKNOWN_FIELD] =
        ROW(422, "unknown_field", "Unknown field",
            "The route has no such field or query parameter; the detail names the nearest one.",
            "Correct the name. GET /openapi.json lists the fields of each route.",
            .detail = "\"is_casual\" is not a field here; did you mean \"is_causal\"?",
            .pointer = "/is_casual"),
    [SRV_TYPE] = ROW(422, "wrong_type", "A value of the wrong type",
                     "A value has another JSON type than its field takes.",
                     "Send the type that the detail expects.",
                     .detail = "expected an integer, found \"x\"", .pointer = "/decimals"),
    [SRV_VALUE] =
        ROW(422, "invalid_value", "A value outside its range",
            "A value is outside its range or its list of names, fields exclude each other, or a "
            "required field is missing.",
            "Send what the detail expects at the pointer.",
            .detail = "expected an integer from 0 to 17, found 99", .pointer = "/decimals"),
    [SRV_SHAPE] =
        ROW(422, "shape_mismatch", "Shapes do not fit",
            "A tensor or a list has another shape than the rest of the request needs.",
            "Send the shape that the detail expects. \"dry_run\": true answers all "
            "shapes of a request that fits.",
            .detail = "the width of a head is 2, expected 1 (as query has)", .pointer = "/key"),
    [SRV_DTYPE] = ROW(422, "unsupported_dtype", "Element type not accepted here",
                      "The field does not take tensors of this element type.",
                      "Convert the tensor to a type that the detail lists.",
                      .detail = "expected int32, int64, uint8, found \"float32\"",
                      .pointer = "/token_ids/dtype"),
    [SRV_MASK_SEMANTICS] =
        ROW(422, "mask_semantics", "The meaning of a mask is not declared",
            "A mask of zeros and ones may mean two opposite things, and the request does not say "
            "which.",
            "Send mask_semantics, or booleans, of which true means attend.",
            .detail = "all numbers of the mask are 0 or 1, which has two readings: \"keep\" (1 = "
                      "attend, as in Hugging Face) and \"hide\" (1 = hidden, as in TensorFlow's "
                      "tutorial). Say mask_semantics \"keep\", \"hide\", \"additive\" (added to "
                      "the scores) or \"nonzero\" (all but 0 = attend, as in numpy.where), or "
                      "send booleans (true = attend)",
            .pointer = "/attn_mask"),
    [SRV_NONFINITE] =
        ROW(422, "nonfinite_value", "NaN, infinity or beyond the number format",
            "A number that is not hidden is NaN, infinite or too large for its type, in the "
            "request or in the result.",
            "Correct the number at the pointer; float64 tensors hold larger ones, and "
            "allow_nonfinite answers null.",
            .detail = "expected a number within float32, found the number 1e39",
            .pointer = "/query/0/0"),
    [SRV_QUOTA] = ROW(429, "quota_exceeded", "Quota used up",
                      "The API key has as many requests under way as it may have.",
                      "Wait for one of them, at least for Retry-After.",
                      .detail = "8 requests of this API key are under way, as many as it may have "
                                "at a time",
                      .setting = "key_requests", .limit = 8),
    [SRV_HEADER_LONG] = ROW(431, "header_too_long", "The header is too long",
                            "The header is longer than the buffer of a connection.",
                            "Send fewer or shorter header fields, such as cookies.",
                            .detail = "the header does not fit into the connection's buffer",
                            .setting = "connection_bytes", .limit = 65536),
    [SRV_INTERNAL] = ROW(500, "internal_error", "Internal error", "The program made an error.",
                         "Report it with the id of the request and its line in the log.",
                         .detail = "the request was not answered"),
    [SRV_DAMAGED] =
        ROW(500, "damaged", "A file of the service has wrong contents",
            "A file of runs_dir, models_dir or jobs_dir is not as it was written, or a newer "
            "program wrote it.",
            "Restore the file from a copy, or delete the object and make it again.",
            .detail = "the file with owner and checksums of run 0123456789abcdef0123456789abcdef "
                      "is damaged"),
    [SRV_UNSUPPORTED] = ROW(501, "not_supported", "Not supported by this server",
                            "This build or this service cannot do it: a transfer coding or a "
                            "picture, for example.",
                            "Do without it, or install what the detail names.",
                            .detail = "the only transfer coding understood is \"chunked\""),
    [SRV_QUEUE_FULL] =
        ROW(503, "queue_full", "The queue is full",
            "Too many requests wait (queue_length), or this one would not have been done in time "
            "(queue_target_ms); limit names which.",
            "Try again after Retry-After.",
            .detail = "all places in the queue are taken; try again a little later",
            .setting = "queue_length", .limit = 256),
    [SRV_MEMORY_BUDGET] = ROW(503, "memory_budget", "The memory budget is in use",
                              "All requests together use the memory that the service may have.",
                              "Try again after Retry-After.",
                              .detail = "the memory of all requests is in use; try again a little "
                                        "later",
                              .setting = "memory_bytes", .limit = 4294967296),
    [SRV_DRAINING] = ROW(503, "draining", "The server is shutting down",
                         "The service ends and takes no new requests.",
                         "Try again after Retry-After, or ask another replica.",
                         .detail = "the server is shutting down"),
    [SRV_STORAGE] =
        ROW(503, "storage_failed", "A file of the service cannot be used",
            "A file of runs_dir, captures_dir, models_dir or jobs_dir cannot be opened, read or "
            "written for now; the detail has the system's reason.",
            "Try again after Retry-After; who runs the service looks at the reason.",
            .detail = "the file of the run cannot be opened: Too many open files"),
    [SRV_DEADLINE] =
        ROW(504, "deadline_exceeded", "The deadline passed",
            "The work took longer than request_timeout_ms, or than timeout_ms of the request.",
            "Ask for less or allow more time. A job computes looks at stored runs, and store, with "
            "Prefer: respond-async.",
            .detail = "the deadline passed before the work was done; the limit is 30000 ms, the "
                      "setting request_timeout_ms of the service",
            .setting = "request_timeout_ms", .limit = 30000),
    [SRV_VERSION] =
        ROW(505, "version_not_supported", "Not this version of HTTP",
            "The request line names another version of HTTP.",
            "Send HTTP/1.1; a proxy can translate.", .detail = "expected HTTP/1.1 or HTTP/1.0"),
    [SRV_STORAGE_FULL] = ROW(507, "storage_full", "No space for files is left",
                             "The disk has no space for what is to be stored.",
                             "Delete runs or models, or give the service more space.",
                             .detail = "the run cannot be written: No space left on device"),
};

const srv_problem_row *srv_problem_row_of(srv_code code) {
    return &rows[(unsigned)code < SRV_CODE_COUNT ? code : SRV_INTERNAL];
}

const char *srv_code_name(srv_code code) {
    return srv_problem_row_of(code)->name;
}
