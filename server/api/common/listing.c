#include "api/common/listing.h"
#include "api/common/scope.h"

#include <stddef.h>

enum { LIMIT_MOST = 1000 };

const srv_field srv_listing_query[] = {
    SRV_INT_ROW(srv_listing, limit, 1, LIMIT_MOST, "Most objects of a page.", .standard = "100"),
    SRV_FIELD_ROW(srv_listing, after, SRV_STRING,
                  "The id of the last object of the page before, which `next` of its answer is."),
    {0},
};

bool srv_listing_read(srv_request *req, srv_listing *out) {
    *out = (srv_listing){0};
    return srv_read_query(req, srv_listing_query, out);
}

attn_json_text srv_listing_begin(srv_request *req, const char *name) {
    attn_json_text j = srv_json_object(req);
    attn_json_key_array(&j, name);
    return j;
}

void srv_listing_end(attn_json_text *j, const char *next) {
    attn_json_array_end(j);
    if (next)
        attn_json_key_string(j, "next", next);
    if (srv_json_object_end(j))
        srv_reply_header(srv_json_request(j), "Cache-Control", "no-store");
}
