/* Labels: checked against the shapes, handed through to heatmaps and pictures. */
#include "api/labels.h"

#include <stddef.h>

const srv_field srv_label_fields[] = {
    {.name = "query",
     .kind = SRV_STRINGS,
     .offset = offsetof(srv_labels, query),
     .doc = "One name a query: the rows of the weights."},
    {.name = "key",
     .kind = SRV_STRINGS,
     .offset = offsetof(srv_labels, key),
     .doc = "One name a key, cached ones included: the columns of the weights."},
    {0},
};

static bool check(const srv_scope *scope, const char *name, const char *what,
                  const srv_strings *list, size_t expected) {
    if (list->count == expected)
        return true;
    return srv_refuse(scope, SRV_SHAPE, name, "expected %zu name%s (one a %s), found %zu", expected,
                      expected == 1 ? "" : "s", what, list->count);
}

bool srv_labels_check(const srv_scope *scope, const srv_labels *labels, size_t L, size_t S) {
    if (!srv_given(scope, "labels"))
        return true;
    const srv_scope inside = {scope->req, srv_label_fields, labels, "/labels"};
    return (!srv_given(&inside, "query") || check(&inside, "query", "query", &labels->query, L)) &&
           (!srv_given(&inside, "key") || check(&inside, "key", "key", &labels->key, S));
}

static void write_list(srv_json *j, const char *name, const srv_strings *list) {
    if (!list->values)
        return;
    srv_json_key(j, name);
    srv_json_array(j);
    for (size_t i = 0; i < list->count; i++)
        srv_json_string(j, list->values[i]);
    srv_json_array_end(j);
}

void srv_labels_write(srv_json *j, const srv_labels *labels) {
    srv_json_object(j);
    write_list(j, "query", &labels->query);
    write_list(j, "key", &labels->key);
    srv_json_object_end(j);
}
