/* Lists of objects in pages: GET /v1/runs, /v1/models and /v1/jobs. A page has at most `limit`
 * objects and begins behind the object `after`. If more objects follow, the answer has the member
 * `next`, which is the value of `after` for the next page. */
#ifndef SRV_LISTING_H
#define SRV_LISTING_H

#include "wire/answer.h"
#include "wire/json_out.h"

typedef struct srv_listing {
    srv_given_bits given;
    int64_t limit;
    const char *after; /* NULL: from the first object on */
} srv_listing;

extern const srv_field srv_listing_query[];

/* Reads the query string. false: a problem is set. */
bool srv_listing_read(srv_request *req, srv_listing *out);
/* Begins the answer, and in it the list that is its member `name`. */
attn_json_text srv_listing_begin(srv_request *req, const char *name);
/* Ends the list and the answer. `next`: the id of the last object of the page if more follow, else
 * NULL. */
void srv_listing_end(attn_json_text *j, const char *next);
/* The rows of an answer with a page: the member `name`, a list of objects of the schema `type`, and
 * the member `next`. */
#define SRV_LISTING_ROWS(name, type, text)                                                         \
    SRV_WRITTEN(name, "[" type "]", NULL, text, .always = true),                                   \
        SRV_WRITTEN("next", "string", NULL,                                                        \
                    "The value of `after` for the next page; absent on the last one."),            \
    {                                                                                              \
        0                                                                                          \
    }

#endif
