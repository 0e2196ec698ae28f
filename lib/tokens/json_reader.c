/* Reads members and lists of components of a tokenizer.json. */
#include "tokens/json_reader.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"

/* --- members --- */

attn_status attn_member_wrong(const attn_json_reader *r, const char *where, const char *key,
                              const char *expected, const attn_json *found) {
    char path[96];
    snprintf(path, sizeof path, "%s%s%s", where, *where ? "/" : "", key);
    return attn_fail(r->err, ATTN_EVALUE, path, "expected %s, found %s", expected,
                     found ? attn_json_kind_name(found) : "nothing");
}

attn_status attn_member_text(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, attn_string *out) {
    const attn_json *m = attn_json_member(object, key);
    if (m ? m->kind != ATTN_JSON_STRING : needed)
        return attn_member_wrong(r, where, key, "a string", m);
    if (m)
        *out = (attn_string){m->text, strlen(m->text)};
    return ATTN_OK;
}

attn_status attn_member_bool(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, bool *out) {
    const attn_json *m = attn_json_member(object, key);
    if (m ? m->kind != ATTN_JSON_BOOL : needed)
        return attn_member_wrong(r, where, key, "true or false", m);
    if (m)
        *out = m->truth;
    return ATTN_OK;
}

attn_status attn_member_count(const attn_json_reader *r, attn_json *object, const char *where,
                              const char *key, bool needed, int64_t most, int64_t *out) {
    const attn_json *m = attn_json_member(object, key);
    char expected[60];
    snprintf(expected, sizeof expected, "an integer from 0 to %lld", (long long)most);
    if (m ? !attn_json_integer(m, 0, most, out) : needed)
        return attn_member_wrong(r, where, key, expected, m);
    return ATTN_OK;
}

attn_status attn_members_known(const attn_json_reader *r, const attn_json *object,
                               const char *where) {
    const attn_json *unknown = attn_json_unknown(object);
    return unknown ? attn_fail(r->err, ATTN_EVALUE, where, "the member %.60s is not supported",
                               unknown->key)
                   : ATTN_OK;
}

const char *attn_pipeline_text(const attn_json_reader *r, attn_string text) {
    return attn_arena_text(r->t->pipeline->arena, text.text, text.size);
}

int32_t attn_reader_id(const attn_json_reader *r, attn_string token) {
    return attn_tokenizer_find(r->t, token.text, token.size);
}

/* --- sequences --- */

static attn_status read_component(const attn_json_reader *r, attn_json *x, const char *member,
                                  const char *of, attn_read_component *read, void *to) {
    attn_string type = {NULL, 0};
    if (x->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, member, "expected an object, found %s",
                         attn_json_kind_name(x));
    ATTN_TRY(attn_member_text(r, x, member, "type", true, &type));
    if (strcmp(type.text, "Sequence")) {
        ATTN_TRY(read(r, x, type.text, to));
        return attn_members_known(r, x, member);
    }
    const attn_json *list = attn_json_member(x, of);
    if (!list || list->kind != ATTN_JSON_LIST)
        return attn_member_wrong(r, member, of, "a list", list);
    /* Recursion is safe, since the depth of the tree is limited. */
    for (attn_json *child = list->first; child; child = child->next)
        ATTN_TRY(read_component(r, child, member, of, read, to));
    return attn_members_known(r, x, member);
}

attn_status attn_read_sequence(const attn_json_reader *r, attn_json *root, const char *member,
                               const char *of, attn_read_component *read, void *to) {
    attn_json *x = attn_json_member(root, member);
    return x ? read_component(r, x, member, of, read, to) : ATTN_OK;
}

size_t attn_sequence_length(const attn_json *component) {
    size_t count = 1;
    for (const attn_json *x = component ? component->first : NULL; x; x = x->next)
        count += attn_sequence_length(x);
    return count;
}
