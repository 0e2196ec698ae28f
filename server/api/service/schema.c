/* Writes the JSON schemas of bodies for openapi.json from their field tables. An optional field may
 * also be null, which counts as absent. */
#include "api/service/schema.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "api/common/mask_input.h"

/* Writes "type": "integer" or, if nullable, "type": ["integer", "null"]. */
static void put_type(attn_json_text *j, const char *type, bool nullable) {
    attn_json_key(j, "type");
    if (nullable)
        attn_json_array(j);
    attn_json_string(j, type);
    if (nullable) {
        attn_json_string(j, "null");
        attn_json_array_end(j);
    }
}

static void put_choices(attn_json_text *j, const char *const *choices, bool nullable) {
    put_type(j, "string", nullable);
    attn_json_key_array(j, "enum");
    for (size_t i = 0; choices[i]; i++)
        attn_json_string(j, choices[i]);
    if (nullable)
        attn_json_null(j);
    attn_json_array_end(j);
}

static void put_bounds(attn_json_text *j, const srv_field *f) {
    if (f->min == 0 && f->max == 0)
        return;
    attn_json_key_real(j, f->above ? "exclusiveMinimum" : "minimum", f->min);
    if (f->max < DBL_MAX)
        attn_json_key_real(j, f->below ? "exclusiveMaximum" : "maximum", f->max);
}

/* Writes "items": {"type": type} and, if `most` is a limit, "maxItems". */
static void put_items(attn_json_text *j, const char *type, double most) {
    attn_json_key_object(j, "items");
    put_type(j, type, false);
    attn_json_object_end(j);
    if (most > 0)
        attn_json_key_real(j, "maxItems", most);
}

static void put_null(attn_json_text *j, bool nullable) {
    if (!nullable)
        return;
    attn_json_object(j);
    put_type(j, "null", false);
    attn_json_object_end(j);
}

static void put_alternative(attn_json_text *j, const char *type) {
    attn_json_object(j);
    put_type(j, type, false);
    if (strcmp(type, "array") == 0)
        put_items(j, "integer", 0);
    attn_json_object_end(j);
}

static const char *tensor_schema(unsigned accepts) {
    if (accepts & SRV_T_INT)
        return accepts & SRV_T_NONE ? "#/components/schemas/PositionTensor"
                                    : "#/components/schemas/IntegerTensor";
    if (accepts & SRV_T_BOOL)
        return accepts & SRV_T_NEGINF ? "#/components/schemas/MaskTensor"
               : accepts & SRV_T_REAL ? "#/components/schemas/FlagTensor"
                                      : "#/components/schemas/BooleanTensor";
    return accepts & SRV_T_NEGINF ? "#/components/schemas/BiasTensor"
                                  : "#/components/schemas/Tensor";
}

static void put_tensor(attn_json_text *j, const srv_field *f, bool nullable) {
    const bool number = srv_tensor_types(f) & SRV_T_NUMBER;
    if (!nullable && !number) {
        attn_json_key_string(j, "$ref", tensor_schema(srv_tensor_types(f)));
        return;
    }
    attn_json_key_array(j, "anyOf");
    attn_json_object(j);
    attn_json_key_string(j, "$ref", tensor_schema(srv_tensor_types(f)));
    attn_json_object_end(j);
    if (number)
        put_alternative(j, "number");
    put_null(j, nullable);
    attn_json_array_end(j);
}

static void put_union(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "anyOf");
    if (f->accepts & SRV_U_NUMBER)
        put_alternative(j, "number");
    else if (f->accepts & SRV_U_INT)
        put_alternative(j, "integer");
    /* A schema of only `true` or only `false` has no type in generated clients, so this is
     * "boolean". */
    if (f->accepts & (SRV_U_TRUE | SRV_U_FALSE))
        put_alternative(j, "boolean");
    if (f->accepts & SRV_U_INTS)
        put_alternative(j, "array");
    if (f->accepts & SRV_U_TENSOR) {
        attn_json_object(j);
        put_tensor(j, f, false);
        attn_json_object_end(j);
    }
    if (f->accepts & SRV_U_STRING) {
        attn_json_object(j);
        put_choices(j, f->choices, false);
        attn_json_object_end(j);
    }
    put_null(j, nullable);
    attn_json_array_end(j);
}

static void put_flags(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "anyOf");
    attn_json_object(j);
    put_type(j, "array", false);
    attn_json_key_object(j, "items");
    put_choices(j, f->choices, false);
    attn_json_object_end(j);
    attn_json_object_end(j);
    attn_json_object(j);
    put_choices(j, f->choices, false);
    attn_json_object_end(j);
    put_null(j, nullable);
    attn_json_array_end(j);
}

/* The regular expression of one range of SRV_RANGES: an index, or from:to. */
#define ONE_RANGE "(0|[1-9][0-9]{0,14})(:(0|[1-9][0-9]{0,14}))?"

static const char *range_pattern(const srv_field *f) {
    return f->accepts & SRV_R_MANY ? "^" ONE_RANGE "(," ONE_RANGE ")*$" : "^" ONE_RANGE "$";
}

static void put_ranges(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "anyOf");
    attn_json_object(j);
    put_type(j, "array", false);
    put_items(j, "integer", 2);
    attn_json_object_end(j);
    attn_json_object(j);
    put_type(j, "string", false);
    attn_json_key_string(j, "pattern", range_pattern(f));
    attn_json_object_end(j);
    put_alternative(j, "integer");
    put_null(j, nullable);
    attn_json_array_end(j);
}

static void put_object(attn_json_text *j, const srv_field *fields, bool nullable);

/* Writes the schema of a field that is an object, or the value of the object's first field instead:
 * a name (SRV_O_NAME) or a number (SRV_O_NUMBER). */
static void put_brief(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "anyOf");
    attn_json_object(j);
    if (f->accepts & SRV_O_NAME)
        put_choices(j, f->fields->choices, false);
    else
        put_type(j, "number", false);
    attn_json_object_end(j);
    attn_json_object(j);
    put_object(j, f->fields, false);
    attn_json_object_end(j);
    put_null(j, nullable);
    attn_json_array_end(j);
}

/* Writes the schema of an element of a list of objects, or a reference to it. Client generators
 * cannot read a schema that refers to itself. Therefore a row inside the table that it refers to
 * gets only a description. */
static void put_element(attn_json_text *j, const srv_field *f) {
    char name[96];
    if (!f->schema) {
        put_object(j, f->fields, false);
    } else if (f >= f->fields && f < f->fields + SRV_FIELDS_MOST) {
        snprintf(name, sizeof name, "An object as %s describes.", f->schema);
        attn_json_key_string(j, "description", name);
        put_type(j, "object", false);
    } else {
        snprintf(name, sizeof name, "#/components/schemas/%s", f->schema);
        attn_json_key_string(j, "$ref", name);
    }
}

/* Writes the schema of a field that is an object or, if the row accepts it, a name or a list of
 * strings. */
static void put_either(attn_json_text *j, const srv_field *f) {
    static const char strings[] = "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}";
    if (f->accepts & SRV_O_NAME) {
        attn_json_object(j);
        put_choices(j, f->fields->choices, false);
        attn_json_object_end(j);
    }
    attn_json_object(j);
    put_element(j, f);
    attn_json_object_end(j);
    if (f->accepts & SRV_O_STRINGS)
        attn_json_raw(j, strings, sizeof strings - 1);
}

/* Writes the schema of a field that is a list of objects, or one object instead of the list. */
static void put_singles(attn_json_text *j, const srv_field *f, bool nullable) {
    attn_json_key_array(j, "anyOf");
    put_either(j, f);
    attn_json_object(j);
    put_type(j, "array", false);
    attn_json_key_object(j, "items");
    attn_json_key_array(j, "anyOf");
    put_either(j, f);
    attn_json_array_end(j);
    attn_json_object_end(j);
    attn_json_object_end(j);
    put_null(j, nullable);
    attn_json_array_end(j);
}

static void put_objects(attn_json_text *j, const srv_field *f, bool nullable) {
    if (f->accepts & SRV_O_SINGLE) {
        put_singles(j, f, nullable);
        return;
    }
    put_type(j, "array", nullable);
    attn_json_key_object(j, "items");
    put_element(j, f);
    attn_json_object_end(j);
    if (f->max > 0)
        attn_json_key_real(j, "maxItems", f->max);
}

/* Writes the schema of SRV_TEXTS (a string or a list of strings), or of SRV_WORDS and SRV_LISTS
 * (a list of strings or integers, or a list of such lists). */
static void put_texts(attn_json_text *j, const srv_field *f, bool nullable) {
    static const char words[] = "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{"
                                "\"type\":\"string\"}}}",
                      ints[] = "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{"
                               "\"type\":\"integer\"}}}",
                      text[] = "{\"type\":\"string\"}";
    attn_json_key_array(j, "anyOf");
    if (f->kind == SRV_TEXTS)
        attn_json_raw(j, text, sizeof text - 1);
    else if (f->kind == SRV_LISTS)
        attn_json_raw(j, ints, sizeof ints - 1);
    else
        attn_json_raw(j, words, sizeof words - 1);
    attn_json_object(j);
    put_type(j, "array", false);
    put_items(j, f->kind == SRV_LISTS ? "integer" : "string", f->max);
    attn_json_object_end(j);
    put_null(j, nullable);
    attn_json_array_end(j);
}

/* Writes the schema of a number. A real number whose row has choices may also be given as one of
 * these names. */
static void put_number(attn_json_text *j, const srv_field *f, bool nullable) {
    const char *type = f->kind == SRV_INT ? "integer" : "number";
    if (f->kind == SRV_INT || !f->choices) {
        put_type(j, type, nullable);
        put_bounds(j, f);
        return;
    }
    attn_json_key_array(j, "anyOf");
    attn_json_object(j);
    put_type(j, type, false);
    put_bounds(j, f);
    attn_json_object_end(j);
    attn_json_object(j);
    put_choices(j, f->choices, false);
    attn_json_object_end(j);
    put_null(j, nullable);
    attn_json_array_end(j);
}

static void put_field(attn_json_text *j, const srv_field *f) {
    bool nullable = !f->required;
    attn_json_key_string(j, "description", f->doc);
    if (f->example) {
        attn_json_key_array(j, "examples");
        attn_json_raw(j, f->example, strlen(f->example));
        attn_json_array_end(j);
    }
    switch (f->kind) {
    case SRV_BOOL:
        put_type(j, "boolean", nullable);
        break;
    case SRV_INT:
    case SRV_REAL:
        put_number(j, f, nullable);
        break;
    case SRV_STRING:
        put_type(j, "string", nullable);
        break;
    case SRV_ENUM:
        put_choices(j, f->choices, nullable);
        break;
    case SRV_FLAGS:
        put_flags(j, f, nullable);
        break;
    case SRV_TENSOR:
        put_tensor(j, f, nullable);
        break;
    case SRV_INTS:
    case SRV_STRINGS:
        put_type(j, "array", nullable);
        put_items(j, f->kind == SRV_INTS ? "integer" : "string", f->max);
        break;
    case SRV_RANGES:
        put_ranges(j, f, nullable);
        break;
    case SRV_TEXTS:
    case SRV_WORDS:
    case SRV_LISTS:
        put_texts(j, f, nullable);
        break;
    case SRV_OBJECT:
        if (f->accepts & (SRV_O_NAME | SRV_O_NUMBER))
            put_brief(j, f, nullable);
        else
            put_object(j, f->fields, nullable);
        break;
    case SRV_OBJECTS:
        put_objects(j, f, nullable);
        break;
    case SRV_UNION:
        put_union(j, f, nullable);
        break;
    case SRV_RAW:
    case SRV_CHARS: /* SRV_CHARS and SRV_PUT occur only in answers */
    case SRV_PUT:
        break;
    }
}

static void put_required(attn_json_text *j, const srv_field *fields) {
    size_t count = 0;
    for (const srv_field *f = fields; f->name; f++)
        count += f->required;
    if (count == 0)
        return;
    attn_json_key_array(j, "required");
    for (const srv_field *f = fields; f->name; f++)
        if (f->required)
            attn_json_string(j, f->name);
    attn_json_array_end(j);
}

static void put_object(attn_json_text *j, const srv_field *fields, bool nullable) {
    put_type(j, "object", nullable);
    attn_json_key_bool(j, "additionalProperties", false);
    put_required(j, fields);
    attn_json_key_object(j, "properties");
    for (const srv_field *f = fields; f->name; f++) {
        attn_json_key_object(j, f->name);
        put_field(j, f);
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
}

void srv_schema_body(attn_json_text *j, const srv_field *fields) {
    attn_json_object(j);
    put_object(j, fields, false);
    attn_json_object_end(j);
}

/* In a query string, lists and ranges are strings such as 1,2,3 and 0:256. */
void srv_schema_parameter(attn_json_text *j, const srv_field *f) {
    attn_json_object(j);
    switch (f->kind) {
    case SRV_BOOL:
        put_type(j, "boolean", false);
        break;
    case SRV_INT:
    case SRV_REAL:
        put_type(j, f->kind == SRV_INT ? "integer" : "number", false);
        put_bounds(j, f);
        break;
    case SRV_ENUM:
        put_choices(j, f->choices, false);
        break;
    case SRV_RANGES:
        put_type(j, "string", false);
        attn_json_key_string(j, "pattern", range_pattern(f));
        break;
    default:
        put_type(j, "string", false);
    }
    const char *standard = f->kind == SRV_BOOL && !f->standard ? "false" : f->standard;
    if (standard) {
        attn_json_key(j, "default");
        attn_json_raw(j, standard, strlen(standard));
    }
    attn_json_object_end(j);
}

static void put_codes(attn_json_text *j) {
    const char *names[SRV_CODE_COUNT + 1] = {NULL};
    for (size_t i = 0; i < SRV_CODE_COUNT; i++)
        names[i] = srv_code_name((srv_code)i);
    attn_json_key_object(j, "ProblemCode");
    attn_json_key_string(j, "description", "The kind of the error.");
    put_choices(j, names, false);
    attn_json_object_end(j);
}

void srv_schema_components(attn_json_text *j) {
    srv_schema_tensors(j);
    put_codes(j);
    attn_json_key(j, "MaskItem");
    srv_schema_body(j, srv_mask_item_fields);
}
