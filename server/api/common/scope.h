/* The checks that a table of fields cannot express, such as that two fields exclude each other, and
 * the labels of queries and keys. Each check takes a scope, which says which fields of one decoded
 * object (the body, or an object inside it) were given, and where this object is in the body. */
#ifndef SRV_SCOPE_H
#define SRV_SCOPE_H

#include <stddef.h>

#include "wire/answer.h"
#include "wire/json_out.h"

typedef struct srv_scope {
    srv_request *req;
    const srv_field *fields;
    const srv_given_bits *given; /* bit i: the object had the field of row i */
    const char *at;              /* JSON pointer to the object: "" or "/masks/1" */
} srv_scope;

/* Returns whether the object has the field. */
bool srv_given(const srv_scope *scope, const char *name);
/* Returns whether any given field is stored in the bytes offset … offset + size - 1 of the decoded
 * struct. */
bool srv_given_inside(const srv_scope *scope, size_t offset, size_t size);
/* Returns the path of the field in the form of attn_error.where, such as "masks/1/window":
 * scope->at without its first slash, and the name. The text is in the request's arena. */
const char *srv_where(const srv_scope *scope, const char *name);
/* Sets a problem whose JSON pointer names the field. Returns false, so that a check can end with
 * `return srv_refuse(…)`. */
bool srv_refuse(const srv_scope *scope, srv_code code, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Checks that `other` is given if `name` is given. `why` completes the problem's text. false: a
 * problem is set. */
bool srv_needs(const srv_scope *scope, const char *name, const char *other, const char *why);
/* Checks that `name` and `other` are not both given. `why` completes the problem's text. false: a
 * problem is set. */
bool srv_excludes(const srv_scope *scope, const char *name, const char *other, const char *why);
/* Refuses a list of a ragged batch where the entries are not ragged. */
bool srv_refuse_list(const srv_scope *scope, const char *name, const srv_entries *list);
/* Checks that the list holds exactly two integers, both at least `low`. false: a problem is set. */
bool srv_pair(const srv_scope *scope, const char *name, const srv_ints *list, int64_t low);
/* Reads the field `name`, one range within 0 … size, into [*from, *to). If the field was not given,
 * both stay as they are. false: a problem is set. */
bool srv_range(const srv_scope *scope, const char *name, const srv_ranges *ranges, size_t size,
               size_t *from, size_t *to);
/* Checks that all ranges are within 0 … size and none is empty. false: a problem is set. */
bool srv_ranges_check(const srv_scope *scope, const char *name, const srv_ranges *ranges,
                      size_t size);
/* Returns whether `word` is one of the words of `list`, a text with a space before and after each
 * word. NULL is an empty list. */
bool srv_is_listed(const char *list, const char *word);
/* Decodes the query string of the request into *out. Bounds and problems are those of bodies.
 * Absent parameters get the defaults of their rows. Lists are written as 1,2,3 and ranges as 0:256
 * or 5,9,100:104. The fields of a nested object are parameters like the others, without the
 * object's name. false: a problem is set. */
bool srv_read_query(srv_request *req, const srv_field *fields, void *out);
/* Decodes the body of the request by its field table into the struct `body`, and applies the time
 * limit of the body. `timeout_ms` points to the member of the struct that has the limit. The limit
 * can only bring the deadline forward. false: a problem is set. */
bool srv_read_body(srv_request *req, const srv_field *fields, void *body,
                   const int64_t *timeout_ms);

/* --- labels --- */

/* The names of queries and keys, which are the rows and columns of the weights. */
typedef struct srv_names {
    srv_given_bits given;
    srv_strings query, key; /* the same list twice if one list names queries and keys alike */
    /* 1 for each query or key that is a special token, else 0. NULL: the spelling of a name says
     * whether it is a special token. */
    const uint8_t *query_special, *key_special;
} srv_names;
/* Labels are a list of srv_names, one for each batch entry, or a single one for all entries. */
typedef srv_objects srv_labels;

extern const srv_field srv_label_fields[];
/* `text` is the beginning of the field's description. */
#define SRV_LABELS_ROW(T, text)                                                                    \
    SRV_FIELD_ROW(T, labels, SRV_OBJECTS,                                                          \
                  text                                                                             \
                  ": {\"query\": [..], \"key\": [..]}, or one list of strings that names queries " \
                  "and keys alike. A list of these gives each batch entry its own names.",         \
                  .accepts = SRV_O_SINGLE | SRV_O_STRINGS, .size = sizeof(srv_names),              \
                  .fields = srv_label_fields)

/* Returns whether there are labels. */
bool srv_labels_given(const srv_labels *labels);
/* Returns whether batch entries have labels of their own. */
bool srv_labels_differ(const srv_labels *labels);
/* Returns the names of a batch entry. `entry` may also be the number among the entries of all
 * layers: layer * entries of a layer + entry in the layer. Returns empty lists if there are no
 * labels. */
const srv_names *srv_labels_of(const srv_labels *labels, size_t entry);
/* Returns the path of a list of names: "labels/key", or "labels/1/key" for the labels of entry 1.
 * `name` is "query" or "key". */
const char *srv_labels_where(attn_arena *arena, const srv_labels *labels, size_t entry,
                             const char *name);
/* Checks that the labels, if given, have one name for each of the L queries and S keys, in each of
 * the B batch entries. false: a problem is set. */
bool srv_labels_check(srv_request *req, const srv_labels *labels, size_t B, size_t L, size_t S);
/* Writes the srv_labels at `place`: {"query": [..], "key": [..]}, without the lists that were not
 * given, or a list of such objects if entries have labels of their own. Without labels it writes
 * nothing. SRV_WRITTEN rows use this function. */
void srv_labels_put(attn_json_text *j, const void *place);
/* The row `labels` of an answer: struct T has the srv_labels in `member`. */
#define SRV_LABELS_MEMBER(T, member, ...)                                                          \
    SRV_WRITTEN_AT("labels", "Labels", srv_labels_put, T, member,                                  \
                   "The names of queries and keys.", __VA_ARGS__)
extern const srv_field srv_label_answers[]; /* the schemas Labels and Names */

#endif
