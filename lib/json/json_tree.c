/* Reads JSON (RFC 8259) by recursive descent. An object with more than FEW members finds them by a
 * hash table with open addressing. */
#include "json/json_tree.h"

#include <math.h>
#include <string.h>

#include "number/hash.h"
#include "number/number.h"
#include "json/json_scan.h"

enum {
    DEPTH = 16, /* largest depth of nested lists and objects */
    FEW = 8     /* largest number of members that are compared one by one */
};

/* --- members of objects --- */

/* Returns the slot of the member with this key, or the empty slot where it belongs. The hash
 * includes the address of the object, so that no sender can choose keys that all have one slot. */
static attn_json **find_slot(const attn_json *object, const char *key) {
    size_t at = attn_hash(ATTN_HASH_START ^ (uintptr_t)object, key, strlen(key));
    attn_json **slot;
    while (*(slot = &object->slots[at & (object->slot_count - 1)]) && strcmp((*slot)->key, key))
        at++;
    return slot;
}

static attn_json *find_member(const attn_json *object, const char *key) {
    attn_json *m = object->slots ? *find_slot(object, key) : object->first;
    while (!object->slots && m && strcmp(m->key, key) != 0)
        m = m->next;
    return m;
}

/* Adds `last`, the newest member of the object's list, to the hash table. If the table is too
 * small, a larger one with all members replaces it. Returns false if memory runs out. */
static bool add_to_table(attn_json *object, attn_json *last, attn_arena *arena) {
    if (object->count <= FEW)
        return true;
    if (2 * object->count <= object->slot_count) {
        *find_slot(object, last->key) = last;
        return true;
    }
    object->slot_count = object->slot_count ? 2 * object->slot_count : 4 * FEW;
    object->slots = attn_arena_zeroed(arena, object->slot_count, sizeof *object->slots);
    for (attn_json *m = object->first; object->slots && m; m = m->next)
        *find_slot(object, m->key) = m;
    return object->slots;
}

attn_json *attn_json_member(attn_json *object, const char *key) {
    attn_json *m = find_member(object, key);
    if (!m)
        return NULL;
    m->known = true;
    return m->kind == ATTN_JSON_NULL ? NULL : m;
}

const attn_json *attn_json_unknown(const attn_json *object) {
    for (const attn_json *m = object->first; m; m = m->next)
        if (!m->known && strncmp(m->key, "x-", 2) != 0)
            return m;
    return NULL;
}

const char *attn_json_kind_name(const attn_json *value) {
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "a list",        "an object"};
    return names[value->kind];
}

bool attn_json_integer(const attn_json *value, int64_t least, int64_t most, int64_t *out) {
    const double x = value->number;
    if (value->kind != ATTN_JSON_NUMBER || x != floor(x) || fabs(x) > 9007199254740992.0 ||
        x < (double)least || x > (double)most)
        return false;
    *out = (int64_t)x;
    return true;
}

/* --- reading --- */

static bool read_value(attn_scan *s, attn_json *out);

static bool read_key(attn_scan *s, const attn_json *object, const char **key) {
    const char *start = s->p;
    if (!attn_scan_text(s, key))
        return false;
    if (find_member(object, *key))
        return attn_scan_fail(s, ATTN_EARG, start, "expected each member once");
    return attn_scan_mark(s, ':', "':'");
}

static bool read_children(attn_scan *s, attn_json *out) {
    const bool object = out->kind == ATTN_JSON_OBJECT;
    const char close = object ? '}' : ']';
    attn_json **at = &out->first;
    bool more;
    if (!attn_scan_open(s, close, &more))
        return false;
    while (more) {
        attn_json *child = attn_arena_small(s->arena, sizeof *child);
        if (!child)
            return attn_scan_memory(s);
        *child = (attn_json){.kind = ATTN_JSON_NULL};
        if ((object && !read_key(s, out, &child->key)) || !read_value(s, child))
            return false;
        *at = child;
        at = &child->next;
        out->count++;
        if (object && !add_to_table(out, child, s->arena))
            return attn_scan_memory(s);
        if (!attn_scan_more(s, close, &more))
            return false;
    }
    return true;
}

static bool read_value(attn_scan *s, attn_json *out) {
    const char c = attn_scan_peek(s);
    if (c == '"') {
        out->kind = ATTN_JSON_STRING;
        return attn_scan_text(s, &out->text);
    }
    if (c == '[' || c == '{') {
        out->kind = c == '[' ? ATTN_JSON_LIST : ATTN_JSON_OBJECT;
        return read_children(s, out);
    }
    if (attn_scan_word(s, "null"))
        return true;
    out->truth = attn_scan_word(s, "true");
    if (out->truth || attn_scan_word(s, "false")) {
        out->kind = ATTN_JSON_BOOL;
        return true;
    }
    out->kind = ATTN_JSON_NUMBER;
    const char *end = attn_read_f64(s->p, s->end, &out->number);
    if (!end || !isfinite(out->number))
        return attn_scan_expected(s, "a value");
    s->p = end;
    return true;
}

attn_status attn_json_read(const char *text, size_t n, attn_arena *arena, attn_json **out,
                           attn_error *err) {
    attn_scan s = {.start = text,
                   .p = text,
                   .end = text + n,
                   .arena = arena,
                   .of = "the text",
                   .err = err,
                   .max_depth = DEPTH};
    attn_json *root = attn_arena_small(arena, sizeof *root);
    *out = root;
    if (!root) {
        attn_scan_memory(&s);
        return s.status;
    }
    *root = (attn_json){.kind = ATTN_JSON_NULL};
    attn_scan_space(&s);
    return read_value(&s, root) && attn_scan_end(&s) ? ATTN_OK : s.status;
}
