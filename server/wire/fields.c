/* Looks up the rows of field tables. */
#include <string.h>

#include "wire/decode.h"

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
