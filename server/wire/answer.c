/* Writes structs as JSON objects by tables of rows. */
#include "wire/answer.h"

#include <math.h>

#include "wire/json_out.h"

/* Returns the address of the row's value. It is in `object`, or a member of `object` points to it.
 * NULL: this member is NULL, so there is no value. */
static const void *place_of(const srv_field *f, const void *object) {
    const void *place = (const char *)object + f->offset;
    const bool points = (f->kind == SRV_OBJECT || f->kind == SRV_PUT) && f->accepts & SRV_O_POINTER;
    return points ? *(const void *const *)place : place;
}

/* Returns whether the value of the row is known. An object is known if any of its members is. */
static bool is_known(const srv_field *f, const void *object) {
    const void *place = place_of(f, object);
    switch (f->kind) {
    case SRV_INT:
        return srv_int_at(f, place) >= 0;
    case SRV_ENUM:
        return *(const int *)place >= f->first;
    case SRV_REAL:
        return isfinite(*(const double *)place);
    case SRV_STRING:
        return *(const char *const *)place != NULL;
    case SRV_CHARS:
        return *(const char *)place != 0;
    case SRV_STRINGS:
        return ((const srv_strings *)place)->count > 0;
    case SRV_INTS:
        return ((const srv_ints *)place)->count > 0;
    case SRV_TENSOR:
        return ((const attn_tensor *)place)->rank > 0;
    case SRV_OBJECTS:
        return ((const srv_objects *)place)->count > 0;
    case SRV_OBJECT:
        break;
    default:
        return true;
    }
    for (const srv_field *in = f->fields; in->name; in++)
        if (is_known(in, place))
            return true;
    return false;
}

static bool is_present(const srv_field *f, const void *object) {
    if (f->always || !place_of(f, object))
        return place_of(f, object) != NULL;
    return f->when ? *((const bool *)object + f->when) : is_known(f, object);
}

static void put_objects(attn_json_text *j, const srv_field *f, const srv_objects *list) {
    attn_json_array(j);
    for (size_t i = 0; i < list->count; i++)
        srv_answer_object(j, f->fields, (const char *)list->items + i * f->size);
    attn_json_array_end(j);
}

static void put_ints(attn_json_text *j, const srv_ints *list) {
    attn_json_array(j);
    for (size_t i = 0; i < list->count; i++)
        attn_json_int(j, list->values[i]);
    attn_json_array_end(j);
}

static void put_value(attn_json_text *j, const srv_field *f, const void *place) {
    const srv_strings *strings = place;
    switch (f->kind) {
    case SRV_BOOL:
        attn_json_bool(j, *(const bool *)place);
        break;
    case SRV_INT:
        attn_json_int(j, srv_int_at(f, place));
        break;
    case SRV_REAL:
        attn_json_real(j, *(const double *)place);
        break;
    case SRV_ENUM:
        attn_json_string(j, f->choices[*(const int *)place - f->first]);
        break;
    case SRV_STRING:
        attn_json_string(j, *(const char *const *)place);
        break;
    case SRV_CHARS:
        attn_json_string(j, place);
        break;
    case SRV_STRINGS:
        attn_json_strings(j, strings->values, strings->count);
        break;
    case SRV_INTS:
        put_ints(j, place);
        break;
    case SRV_TENSOR:
        srv_json_tensor(j, place);
        break;
    case SRV_OBJECT:
        srv_answer_object(j, f->fields, place);
        break;
    case SRV_OBJECTS:
        put_objects(j, f, place);
        break;
    case SRV_PUT:
        f->put(j, place);
        break;
    default: /* other kinds occur only in bodies */
        break;
    }
}

void srv_answer_member(attn_json_text *j, const srv_field *f, const void *object) {
    const bool elsewhere = f->kind == SRV_PUT && !f->put;
    if (elsewhere || !is_present(f, object))
        return;
    if (!*f->name) {
        srv_answer_members(j, f->fields, place_of(f, object));
        return;
    }
    attn_json_key(j, f->name);
    put_value(j, f, place_of(f, object));
    if (attn_json_after_key(j))
        attn_json_drop_key(j);
}

void srv_answer_members(attn_json_text *j, const srv_field *rows, const void *object) {
    for (const srv_field *f = rows; f->name; f++)
        srv_answer_member(j, f, object);
}

void srv_answer_object(attn_json_text *j, const srv_field *rows, const void *object) {
    attn_json_object(j);
    srv_answer_members(j, rows, object);
    attn_json_object_end(j);
}

bool srv_answer_reply(srv_request *req, const srv_field *rows, const void *object) {
    attn_json_text j = srv_json_object(req);
    srv_answer_members(&j, rows, object);
    return srv_json_object_end(&j);
}
