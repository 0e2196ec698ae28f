/* The small parts of an infer request: keys, strings, numbers, the parameters of one tensor. */
#include "wire/infer_reader.h"
#include "config/nearest.h"

#include <string.h>

#include "number/number.h"

bool srv_infer_refuse(srv_infer_reader *r, srv_code code, const char *text) {
    srv_problem(r->s.req, code, r->s.path.text, "%s", text);
    return false;
}

bool srv_infer_need(srv_infer_reader *r, char mark, const char *what) {
    srv_scan_space(&r->s);
    if (*r->s.p != mark)
        return srv_scan_expected(&r->s, what);
    r->s.p++;
    srv_scan_space(&r->s);
    return true;
}

bool srv_infer_next(srv_infer_reader *r, char close, bool *more) {
    srv_scan_space(&r->s);
    *more = *r->s.p == ',';
    if (!*more && *r->s.p != close)
        return srv_scan_expected(&r->s, close == '}' ? "',' or '}'" : "',' or ']'");
    r->s.p++;
    srv_scan_space(&r->s);
    return true;
}

/* "key": taken, and the key put on the path. */
static bool read_key(srv_infer_reader *r, const char *const *keys, unsigned *seen,
                     srv_infer_member *m) {
    if (*r->s.p != '"')
        return srv_scan_expected(&r->s, "a field name in double quotes");
    m->text = r->s.p;
    if (!srv_scan_name(&r->s, &m->name))
        return false;
    m->text_size = (size_t)(r->s.p - m->text);
    srv_path_key(&r->s.path, m->name.text, m->name.size);
    for (m->key = 0; keys[m->key] && !srv_name_is(&m->name, keys[m->key]);)
        m->key++;
    if (keys[m->key] && *seen & 1u << m->key)
        return srv_scan_malformed(&r->s, m->text, "the field \"%s\" is there twice", m->name.text);
    *seen |= 1u << m->key;
    return srv_infer_need(r, ':', "':'");
}

bool srv_infer_object(srv_infer_reader *r, const char *const *keys, const char *what,
                      srv_infer_take *take, void *to) {
    const size_t mark = r->s.path.size;
    unsigned seen = 0;
    if (*r->s.p != '{') {
        if (!srv_scan_is_value(r->s.p))
            return srv_scan_expected(&r->s, what);
        srv_problem(r->s.req, SRV_TYPE, r->s.path.text, "expected %s", what);
        return false;
    }
    r->s.p++;
    srv_scan_space(&r->s);
    bool more = *r->s.p != '}';
    if (!more)
        r->s.p++;
    while (more) {
        srv_infer_member m;
        if (!read_key(r, keys, &seen, &m) || !take(r, &m, to))
            return false;
        srv_path_back(&r->s.path, mark);
        if (!srv_infer_next(r, '}', &more))
            return false;
    }
    return true;
}

bool srv_infer_unknown(srv_infer_reader *r, const srv_name *name, const char *const *keys) {
    size_t count = 0;
    while (keys[count])
        count++;
    const char *near = srv_nearest(name->text, keys, count);
    srv_problem(r->s.req, SRV_UNKNOWN_FIELD, r->s.path.text, "\"%s\" is no field here%s%s%s",
                name->text, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return false;
}

bool srv_infer_text(srv_infer_reader *r, const char **out) {
    const char *from, *to;
    bool escaped;
    if (*r->s.p != '"')
        return srv_scan_is_value(r->s.p) ? srv_infer_refuse(r, SRV_TYPE, "expected a string")
                                         : srv_scan_expected(&r->s, "a string");
    if (!srv_scan_string(&r->s, &from, &to, &escaped))
        return false;
    char *text = attn_arena_small(r->s.req->arena, (size_t)(to - from) + 1);
    if (!text)
        return srv_scan_memory(&r->s);
    text[srv_unescape(text, from, to)] = 0;
    *out = text;
    return true;
}

bool srv_infer_bool(srv_infer_reader *r, bool *out) {
    *out = srv_scan_word(&r->s, "true");
    return *out || srv_scan_word(&r->s, "false") ||
           srv_infer_refuse(r, SRV_TYPE, "expected true or false");
}

bool srv_infer_integer(srv_infer_reader *r, int64_t low, int64_t *out) {
    const char *p = attn_read_i64(r->s.p, r->s.end, out);
    if (!p || *out < low)
        return srv_infer_refuse(r, SRV_TYPE,
                                low ? "expected an integer of 1 or more"
                                    : "expected an integer of 0 or more");
    r->s.p = p;
    return true;
}

bool srv_infer_skip_value(srv_infer_reader *r) {
    srv_scan *s = &r->s;
    const char *from, *to;
    bool escaped;
    size_t depth = 0;
    do {
        if (*s->p == '"') {
            if (!srv_scan_string(s, &from, &to, &escaped))
                return false;
            if (depth == 0)
                return true;
            continue;
        }
        if (s->p >= s->end)
            return srv_scan_expected(s, "a value");
        bool closes = *s->p == ']' || *s->p == '}';
        if (depth == 0 && (closes || *s->p == ','))
            return true;
        depth += *s->p == '[' || *s->p == '{';
        depth -= closes;
        s->p++;
        if (closes && depth == 0)
            return true;
    } while (depth > 0 || !strchr(",}] \n\r\t", *s->p));
    return true;
}
