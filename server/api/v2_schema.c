/* Schemas of what /v2 answers, for openapi.json. */
#include "api/schema.h"

#include <string.h>

#define STRING  "{\"type\":\"string\"}"
#define OBJECT  "{\"type\":\"object\"}"
#define LIST(x) "{\"type\":\"array\",\"items\":" x "}"
#define TENSOR                                                                                     \
    "{\"type\":\"object\",\"required\":[\"name\",\"datatype\",\"shape\"],\"properties\":{"         \
    "\"name\":" STRING ",\"datatype\":" STRING                                                     \
    ",\"shape\":" LIST("{\"type\":\"integer\"}") ",\"parameters\":" OBJECT                         \
                                                 ",\"data\":{\"type\":\"array\"}}}"

static const struct {
    const char *name, *text;
} schemas[] = {
    {"V2Server", "{\"type\":\"object\",\"required\":[\"name\",\"version\",\"extensions\"],"
                 "\"properties\":{\"name\":" STRING ",\"version\":" STRING
                 ",\"extensions\":" LIST(STRING) "}}"},
    {"V2Model", "{\"type\":\"object\",\"required\":[\"name\",\"platform\",\"inputs\",\"outputs\"],"
                "\"properties\":{\"name\":" STRING
                ",\"versions\":" LIST(STRING) ",\"platform\":" STRING ",\"inputs\":" LIST(
                    TENSOR) ",\"outputs\":" LIST(TENSOR) "}}"},
    {"V2Inference",
     "{\"description\":\"With binary outputs: application/octet-stream, this JSON and then their "
     "bytes.\",\"type\":\"object\",\"required\":[\"model_name\",\"outputs\"],\"properties\":{"
     "\"model_name\":" STRING ",\"model_version\":" STRING ",\"id\":" STRING
     ",\"parameters\":" OBJECT ",\"outputs\":" LIST(TENSOR) "}}"},
    {"V2Object", OBJECT},
    {"V2List", LIST(OBJECT)},
};

void srv_v2_schemas(srv_json *j) {
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        srv_json_key(j, schemas[i].name);
        srv_json_raw(j, schemas[i].text, strlen(schemas[i].text));
    }
}
