/* Checks that field tables cannot express, such as fields that need or exclude each other, and the
 * labels of queries and keys. A scope is one decoded object (the body, or one item of a list in it)
 * together with its place in the body. */
#ifndef SRV_SCOPE_H
#define SRV_SCOPE_H

#include <stddef.h>

#include "wire/decode.h"
#include "wire/json_out.h"

typedef struct srv_scope {
    srv_request *req;
    const srv_field *fields;
    const void *body; /* begins with uint64_t given */
    const char *at;   /* JSON pointer of the object: "" or "/masks/1" */
} srv_scope;

/* Tells whether the body has the field. */
bool srv_given(const srv_scope *scope, const char *name);
/* The arena text "<at without its slash>/<name>", as attn_error.where is written. */
const char *srv_where(const srv_scope *scope, const char *name);
/* Sets a problem at the field and returns false, so that a failing check is one statement. */
bool srv_refuse(const srv_scope *scope, srv_code code, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Checks that `name` was not given without `other`; `why` ends the sentence. false: a problem is
 * set. */
bool srv_needs(const srv_scope *scope, const char *name, const char *other, const char *why);
/* Checks that not both were given. false: a problem is set. */
bool srv_excludes(const srv_scope *scope, const char *name, const char *other, const char *why);
/* Checks that the list holds exactly two integers, from `low` upwards. false: a problem is set. */
bool srv_pair(const srv_scope *scope, const char *name, const srv_ints *list, int64_t low);
/* Reads from and to of a part of 0 … size; both stay as they are when nothing is given. Bodies
 * write [from, to], query strings from:to. false: a problem is set. */
bool srv_range(const srv_scope *scope, const char *name, const srv_ints *list, size_t size,
               size_t *from, size_t *to);
/* Is `word` one of the words of `list`, which stand between spaces? NULL is the empty list. */
bool srv_is_listed(const char *list, const char *word);
/* Applies timeout_ms of a body: the deadline moves nearer, never away; 0 = not given. */
void srv_apply_timeout(srv_request *req, int64_t timeout_ms);
/* Names of the queries and keys, which are the rows and columns of the weights. */
typedef struct srv_labels {
    uint64_t given;
    srv_strings query, key;
} srv_labels;

extern const srv_field srv_label_fields[];
#define SRV_LABELS_ROW(T, text)                                                                    \
    {                                                                                              \
        .name = "labels", .kind = SRV_OBJECT, .offset = offsetof(T, labels),                       \
        .fields = srv_label_fields, .doc = text                                                    \
    }

/* Checks that there are as many labels as queries (L) and keys (S). `scope` is the body. */
bool srv_labels_check(const srv_scope *scope, const srv_labels *labels, size_t L, size_t S);
/* Writes {"query": [..], "key": [..]}, without a list that was not given. */
void srv_labels_write(srv_json *j, const srv_labels *labels);

#endif
