/* Schemas that no field table holds: tensors as bodies spell them, and what routes answer. They
 * stand in schemas.json, which is embedded; here they become members of components.schemas. */
#include <string.h>

#include "api/schema.h"
#include "system/embedded.h"

#define FILE_NAME "server/api/schemas.json"

static const char *file_text(void) {
    for (const srv_file *f = srv_embedded; f->name; f++)
        if (strcmp(f->name, FILE_NAME) == 0)
            return f->data;
    return "{}";
}

/* Without the white space that is for readers of the file. */
static char *compact(const char *text, attn_arena *arena) {
    char *to = attn_arena_text(arena, text, strlen(text)), *out = to;
    bool quoted = false;
    for (const char *c = text; to && *c; c++) {
        if (*c == '"' && (c == text || c[-1] != '\\'))
            quoted = !quoted;
        if (quoted || !strchr(" \n", *c))
            *out++ = *c;
    }
    if (to)
        *out = 0;
    return to;
}

/* The end of a value: the comma or bracket that follows it. */
static char *value_end(char *at) {
    bool quoted = false;
    for (int depth = 0; *at; at++) {
        if (*at == '"' && at[-1] != '\\')
            quoted = !quoted;
        if (quoted)
            continue;
        if (*at == '{' || *at == '[')
            depth++;
        else if (depth == 0 && (*at == ',' || *at == '}'))
            break;
        else if (*at == '}' || *at == ']')
            depth--;
    }
    return at;
}

void srv_schema_components(srv_json *j) {
    char *at = compact(file_text(), j->req->arena);
    if (!at) {
        j->failed = true;
        return;
    }
    while (at[1] == '"') { /* at the opening bracket, or a comma */
        char *name = at + 2, *quote = strchr(name, '"'), *end = value_end(quote + 2);
        *quote = 0;
        srv_json_key(j, name);
        srv_json_raw(j, quote + 2, (size_t)(end - (quote + 2)));
        at = end;
    }
}
