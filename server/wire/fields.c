/* Looks up the rows of field tables, and says what an unknown field may have been meant to be. */
#include <string.h>

#include "config/nearest.h"
#include "wire/aliases.h"

bool srv_fields_fit(const srv_field *fields) {
    size_t rows = 0;
    for (; fields[rows].name; rows++)
        if (fields[rows].fields && !srv_fields_fit(fields[rows].fields))
            return false;
    return rows <= SRV_FIELDS_MOST;
}

const srv_field *srv_find_field(const srv_field *fields, const char *name, size_t n) {
    for (; fields->name; fields++)
        if (fields->name[0] == name[0] && strlen(fields->name) == n &&
            memcmp(fields->name, name, n) == 0)
            return fields;
    return NULL;
}

/* Returns the row of an object that has a field of this name. NULL: there is none. */
static const srv_field *owner_of(const srv_field *fields, const char *name) {
    for (; fields->name; fields++)
        if (fields->kind == SRV_OBJECT && fields->fields &&
            srv_find_field(fields->fields, name, strlen(name)))
            return fields;
    return NULL;
}

void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields) {
    const char *names[SRV_FIELDS_MOST];
    char text[SRV_ALIAS_ROOM];
    size_t count = 0;
    for (; fields[count].name && count < SRV_FIELDS_MOST; count++)
        names[count] = fields[count].name;
    const char *alias = srv_alias_of_field(name, fields, text, sizeof text);
    const srv_field *owner = alias ? NULL : owner_of(fields, name);
    const char *near = alias || owner ? NULL : srv_nearest(name, names, count);
    if (alias)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer, "\"%.100s\" is not a field here; %s", name,
                    alias);
    else if (owner)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; it is one of \"%s\"", name, owner->name);
    else if (near)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; did you mean \"%s\"?", name, near);
    else
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; /openapi.json lists them", name);
}
