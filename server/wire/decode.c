/* Decodes a JSON body into a C struct by its field table, in one pass over the text. The kind of a
 * member's row selects the function that reads the member.
 *
 * The first fault is reported. Faults in the JSON come first, in the order of the text; then those
 * of binary tensors beside the JSON; then missing members, in the order of the table.
 *
 * Fields can take much more memory than their text. Therefore the setting max_envelope_bytes bounds
 * the bytes, values, lists and objects outside of tensors. */
#include "wire/decode.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "request/shared.h"
#include "wire/container.h"
#include "wire/decode_value.h"
#include "wire/tensor_read.h"

/* --- bounds --- */

void srv_decode_begin(srv_decoder *d, srv_request *req) {
    const srv_config *config = req->app ? req->app->config : NULL;
    *d = (srv_decoder){.own = {.req = req}, .most = 1 << 20};
    d->s = srv_scan_new(&d->own);
    d->s.max_depth = config ? (size_t)config->max_json_depth : 32;
    if (config)
        d->most = (size_t)config->max_envelope_bytes;
    d->bytes = d->most;
    d->values = d->most / 5;
    d->containers = d->most / 64;
}

bool srv_fields_fit(const srv_field *fields) {
    size_t rows = 0;
    for (; fields[rows].name; rows++)
        if (fields[rows].fields && fields[rows].fields != fields &&
            !srv_fields_fit(fields[rows].fields))
            return false;
    return rows <= SRV_FIELDS_MOST;
}

static bool spend(srv_decoder *d, size_t *left, size_t n) {
    if (n <= *left) {
        *left -= n;
        return true;
    }
    return srv_problem_limit(
        d->own.req, SRV_TOO_LARGE, d->s.path.text, (double)d->most, "max_envelope_bytes",
        "Beside its tensors a body may hold %zu bytes, %zu values and %zu lists and "
        "objects; this one holds more",
        d->most, d->most / 5, d->most / 64);
}

/* Enters the list or object at the cursor: moves the cursor behind its opening bracket. If the list
 * or object is empty, moves the cursor behind its bracket `close` and sets *more to false. */
static bool enter(srv_decoder *d, char close, bool *more) {
    return srv_scan_open(&d->s, close, more) && spend(d, &d->containers, 1) &&
           spend(d, &d->bytes, 2);
}

/* Reads the value of a member or an element by `read`, and counts it against the bounds. The bytes
 * of numbers, strings and words are counted here; lists and objects count their brackets and
 * elements themselves, and tensors are not counted. */
static bool read_counted(srv_decoder *d, const srv_field *f, srv_read_fn *read, void *out) {
    const char *from = d->s.p;
    const bool scalar = *from != '[' && *from != '{';
    return spend(d, &d->values, 1) && read(d, f, out) &&
           (!scalar || spend(d, &d->bytes, (size_t)(d->s.p - from)));
}

/* --- lists --- */

/* A list that is being read. When its block is full, the elements are copied to a block of twice
 * the size. */
typedef struct list {
    char *items;
    size_t count, room; /* number of elements; allocated elements */
    size_t size;        /* bytes of an element */
} list;

static bool grow(srv_decoder *d, list *l) {
    const size_t room = l->room ? 2 * l->room : 1 + 256 / l->size;
    char *items = attn_arena_zeroed(d->s.arena, room, l->size);
    if (!items)
        return srv_refuse_memory(d);
    if (l->count)
        memcpy(items, l->items, l->count * l->size);
    l->items = items;
    l->room = room;
    return true;
}

/* Refuses the list that begins at `start`, because it has more than `most` elements. `mark` is the
 * size of the JSON pointer of the list, without the index of an element. */
static bool refuse_length(srv_decoder *d, const char *start, size_t mark, size_t most) {
    char expected[64];
    snprintf(expected, sizeof expected, "a list of at most %zu", most);
    attn_path_back(&d->s.path, mark);
    d->s.p = start;
    return srv_refuse_value(d, SRV_VALUE, expected);
}

/* Reads each element of the list at the cursor by `read` into l. `most` is the largest number of
 * elements; 0: any number. */
static bool read_list(srv_decoder *d, const srv_field *f, srv_read_fn *read, size_t most, list *l) {
    attn_scan *s = &d->s;
    const char *start = s->p;
    bool more;
    if ((!l->room && !grow(d, l)) || !enter(d, ']', &more))
        return false;
    while (more) {
        const size_t mark = attn_path_index(&s->path, l->count);
        if (most && l->count == most && attn_scan_is_value(s))
            return refuse_length(d, start, mark, most);
        if ((l->count == l->room && !grow(d, l)) ||
            !read_counted(d, f, read, l->items + l->count * l->size))
            return false;
        l->count++;
        attn_path_back(&s->path, mark);
        if (!attn_scan_more(s, ']', &more) || !spend(d, &d->bytes, more))
            return false;
    }
    return true;
}

static size_t most_of(const srv_field *f) {
    return f->kind != SRV_UNION && f->max > 0 ? (size_t)f->max : 0;
}

static bool read_ints(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = sizeof(int64_t)};
    if (*d->s.p != '[')
        return srv_refuse_value(d, SRV_TYPE, "a list of integers");
    if (!read_list(d, f, srv_read_any_int, most_of(f), &l))
        return false;
    *(srv_ints *)out = (srv_ints){(int64_t *)(void *)l.items, l.count};
    return true;
}

/* Reads [from, to], an index, or a string. */
static bool read_ranges(srv_decoder *d, const srv_field *f, void *out) {
    srv_ranges *r = out;
    list l = {.size = sizeof(int64_t)};
    int64_t index = 0;
    srv_bounds *range = attn_arena_small(d->s.arena, sizeof *range);
    attn_text text = {.arena = d->s.arena};
    if (!range)
        return srv_refuse_memory(d);
    if (*d->s.p == '"')
        return srv_read_ranges_text(d, f, out);
    if (attn_scan_is_number(&d->s)) {
        if (!srv_read_any_int(d, f, &index))
            return false;
        *range = (srv_bounds){index, index < INT64_MAX ? index + 1 : index};
        attn_text_add(&text, "%lld", (long long)index);
    } else if (*d->s.p != '[') {
        return srv_refuse_value(d, SRV_TYPE, "[from, to], an index or \"from:to\"");
    } else if (!read_list(d, f, srv_read_any_int, 2, &l)) {
        return false;
    } else {
        const int64_t *ends = (const int64_t *)(const void *)l.items;
        *range = l.count == 2 ? (srv_bounds){ends[0], ends[1]} : (srv_bounds){0};
        attn_text_add(&text, "[");
        for (size_t i = 0; i < l.count; i++)
            attn_text_add(&text, "%s%lld", i ? ", " : "", (long long)ends[i]);
        attn_text_add(&text, "]");
    }
    *r = (srv_ranges){range, 1, text.failed ? "" : text.data};
    return true;
}

static bool read_strings(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = sizeof(char *)};
    if (*d->s.p != '[')
        return srv_refuse_value(d, SRV_TYPE, "a list of strings");
    if (!read_list(d, f, srv_read_string, most_of(f), &l))
        return false;
    *(srv_strings *)out = (srv_strings){(const char **)(void *)l.items, l.count};
    return true;
}

static bool read_texts(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = sizeof(char *)};
    if (*d->s.p == '[')
        return read_strings(d, f, out);
    if (*d->s.p != '"')
        return srv_refuse_value(d, SRV_TYPE, "a string or a list of strings");
    if (!grow(d, &l) || !srv_read_string(d, f, l.items))
        return false;
    *(srv_strings *)out = (srv_strings){(const char **)(void *)l.items, 1};
    return true;
}

/* Returns the first character of the list at the cursor that is not white space. */
static char first_inside(const srv_decoder *d) {
    const char *p = d->s.p + 1;
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return *p;
}

/* Reads a list of lists into l, each inner list by `read`. A list without inner lists is read as a
 * list of one list. */
static bool read_lists(srv_decoder *d, const srv_field *f, srv_read_fn *read, const char *expected,
                       list *l) {
    if (*d->s.p != '[')
        return srv_refuse_value(d, SRV_TYPE, expected);
    if (first_inside(d) == '[')
        return read_list(d, f, read, 0, l);
    if (!grow(d, l) || !read(d, f, l->items))
        return false;
    l->count = 1;
    return true;
}

static bool read_words(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = sizeof(srv_strings)};
    if (!read_lists(d, f, read_strings, "a list of strings, or a list of such lists", &l))
        return false;
    *(srv_words *)out = (srv_words){(srv_strings *)(void *)l.items, l.count};
    return true;
}

static bool read_int_lists(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = sizeof(srv_ints)};
    if (!read_lists(d, f, read_ints, "a list of integers, or a list of such lists", &l))
        return false;
    *(srv_int_lists *)out = (srv_int_lists){(srv_ints *)(void *)l.items, l.count};
    return true;
}

/* Reads one of the names in f->choices. Name i sets bit i of the unsigned at `out`. */
static bool read_flag(srv_decoder *d, const srv_field *f, void *out) {
    int choice;
    if (!srv_read_choice(d, f, &choice))
        return false;
    *(unsigned *)out |= 1u << choice;
    return true;
}

static bool read_flags(srv_decoder *d, const srv_field *f, void *out) {
    unsigned flags = 0;
    list l = {.items = (char *)&flags, .room = SIZE_MAX};
    const bool many = *d->s.p == '[';
    if (many ? !read_list(d, f, read_flag, 0, &l) : !read_flag(d, f, &flags))
        return false;
    *(unsigned *)out = flags | (many && (f->accepts & SRV_F_LIST) ? SRV_FLAGS_LIST : 0);
    return true;
}

/* --- unions --- */

static bool refuse_union(srv_decoder *d, const srv_field *f) {
    char expected[400];
    const char *parts[5];
    size_t at = 0, count = 0, room = sizeof expected, names = 0;
    if (f->accepts & (SRV_U_NUMBER | SRV_U_INT))
        parts[count++] = f->accepts & SRV_U_NUMBER ? "a number" : "an integer";
    if (f->accepts & SRV_U_TRUE)
        parts[count++] = "true";
    if (f->accepts & SRV_U_FALSE)
        parts[count++] = "false";
    if (f->accepts & SRV_U_INTS)
        parts[count++] = "a list of integers";
    if (f->accepts & SRV_U_TENSOR)
        parts[count++] = "a tensor";
    if (f->accepts & SRV_U_STRING)
        names = srv_count_choices(f->choices);
    for (size_t i = 0; i < count + names && at < room; i++) {
        const bool last = i > 0 && i + 1 == count + names, comma = i > 1;
        const char *between = i == 0 ? "" : !last ? ", " : comma ? ", or " : " or ";
        const char *quote = i < count ? "" : "\"";
        at += (size_t)snprintf(expected + at, room - at, "%s%s%s%s", between, quote,
                               i < count ? parts[i] : f->choices[i - count], quote);
    }
    const bool other_name = *d->s.p == '"' && (f->accepts & SRV_U_STRING);
    return srv_refuse_value(d, other_name ? SRV_VALUE : SRV_TYPE, expected);
}

static bool read_union_number(srv_decoder *d, const srv_field *f, srv_union *u) {
    srv_number n;
    if (!srv_read_number(d, &n))
        return false;
    if ((f->accepts & SRV_U_INT) && n.integral)
        *u = (srv_union){.is = SRV_U_INT, .integer = n.i, .number = (double)n.i};
    else if (f->accepts & SRV_U_NUMBER)
        *u = (srv_union){.is = SRV_U_NUMBER, .number = n.x};
    else
        return refuse_union(d, f);
    if (!srv_in_range(d, f, n.x, "a number"))
        return false;
    d->s.p = n.end;
    return true;
}

static bool read_union(srv_decoder *d, const srv_field *f, void *out) {
    srv_union *u = out, read = {0};
    bool ok = true;
    if (*d->s.p == '[' && (f->accepts & SRV_U_INTS)) {
        read.is = SRV_U_INTS;
        ok = read_ints(d, f, &read.ints);
    } else if ((*d->s.p == '[' || *d->s.p == '{') && (f->accepts & SRV_U_TENSOR)) {
        read.is = SRV_U_TENSOR;
        ok = srv_read_tensor(d, f, &read.tensor);
    } else if (*d->s.p == '"' && (f->accepts & SRV_U_STRING)) {
        read.is = SRV_U_STRING;
        ok = srv_read_choice(d, f, &read.choice);
    } else if (attn_scan_is_number(&d->s) && (f->accepts & (SRV_U_NUMBER | SRV_U_INT))) {
        ok = read_union_number(d, f, &read);
    } else if ((f->accepts & SRV_U_FALSE) && attn_scan_word(&d->s, "false")) {
        read.is = SRV_U_FALSE;
    } else if ((f->accepts & SRV_U_TRUE) && attn_scan_word(&d->s, "true")) {
        read.is = SRV_U_TRUE;
    } else {
        ok = refuse_union(d, f);
    }
    if (ok)
        *u = read;
    return ok;
}

/* --- objects --- */

static bool read_object(srv_decoder *d, const srv_field *fields, void *out, srv_given_bits *given);
static srv_read_fn *reader_of(const srv_field *f);

/* Reads a list of strings as the value of each field of the object. */
static bool read_strings_object(srv_decoder *d, const srv_field *f, void *out) {
    srv_strings strings;
    if (!read_strings(d, f, &strings))
        return false;
    for (const srv_field *g = f->fields; g->name; g++) {
        srv_given_add(srv_given_of(f, out), (size_t)(g - f->fields));
        *(srv_strings *)(void *)((char *)out + g->offset) = strings;
    }
    return true;
}

/* Returns whether the value at the cursor, a string or a number, replaces the object of row f by
 * the value of its first field. */
static bool is_brief(const srv_decoder *d, const srv_field *f) {
    const char c = *d->s.p;
    return ((f->accepts & SRV_O_NAME) && c == '"') ||
           ((f->accepts & SRV_O_NUMBER) && (c == '-' || (c >= '0' && c <= '9')));
}

static bool read_nested(srv_decoder *d, const srv_field *f, void *out) {
    const srv_field *first = f->fields;
    if ((f->accepts & SRV_O_STRINGS) && *d->s.p == '[')
        return read_strings_object(d, f, out);
    const bool brief = is_brief(d, f);
    srv_given_bits *given = srv_given_of(f, out);
    if (!brief && *d->s.p != '{')
        return srv_refuse_object(d, f);
    if (f->init)
        f->init(out);
    *given = (srv_given_bits){{brief}};
    return brief ? reader_of(first)(d, first, (char *)out + first->offset)
                 : read_object(d, f->fields, out, given);
}

static bool read_objects(srv_decoder *d, const srv_field *f, void *out) {
    list l = {.size = f->size};
    const bool many = *d->s.p == '[';
    const bool strings = many && (f->accepts & SRV_O_STRINGS) && first_inside(d) == '"';
    const bool single = (f->accepts & SRV_O_SINGLE) && (!many || strings);
    if (!many && !single)
        return srv_refuse_object_list(d, f);
    if (single) {
        if (!grow(d, &l) || !read_nested(d, f, l.items))
            return false;
        l.count = 1;
    } else if (!read_list(d, f, read_nested, most_of(f), &l)) {
        return false;
    }
    *(srv_objects *)out = (srv_objects){l.items, l.count, single};
    return true;
}

static srv_read_fn *reader_of(const srv_field *f) {
    static srv_read_fn *const readers[] = {
        [SRV_BOOL] = srv_read_bool,     [SRV_INT] = srv_read_int,     [SRV_REAL] = srv_read_real,
        [SRV_STRING] = srv_read_string, [SRV_ENUM] = srv_read_choice, [SRV_FLAGS] = read_flags,
        [SRV_TENSOR] = srv_read_tensor, [SRV_INTS] = read_ints,       [SRV_STRINGS] = read_strings,
        [SRV_TEXTS] = read_texts,       [SRV_WORDS] = read_words,     [SRV_OBJECT] = read_nested,
        [SRV_OBJECTS] = read_objects,   [SRV_UNION] = read_union,     [SRV_RAW] = srv_read_raw,
        [SRV_LISTS] = read_int_lists,   [SRV_RANGES] = read_ranges,
    };
    return readers[f->kind];
}

/* Reads a member, "name": value. The cursor stands at the quote before the name. Sets the bit of
 * the member's row in *seen, to detect a member that occurs twice. Unless the value is null, also
 * sets the bit in *given. */
static bool read_member(srv_decoder *d, const srv_field *fields, void *out, srv_given_bits *given,
                        srv_given_bits *seen) {
    attn_scan *s = &d->s;
    attn_name name;
    const char *from = s->p;
    if (!attn_scan_name(s, &name) || !spend(d, &d->bytes, (size_t)(s->p - from) + 2))
        return false;
    const size_t mark = attn_path_key(&s->path, name.text, name.size);
    const srv_field *f = srv_find_field(fields, name.text, name.size);
    if (!f && fields == d->open) {
        if (!d->other(d, &name, from))
            return false;
        attn_path_back(&s->path, mark);
        return true;
    }
    if (!f) {
        srv_unknown_field(d->own.req, s->path.text, name.text, fields);
        return false;
    }
    const size_t row = (size_t)(f - fields);
    if (srv_given_has(seen, row))
        return attn_scan_fail(s, ATTN_EARG, from, "the field \"%s\" is there twice", name.text);
    srv_given_add(seen, row);
    if (!attn_scan_mark(s, ':', "':'"))
        return false;
    if (!attn_scan_word(s, "null")) {
        if (!read_counted(d, f, reader_of(f), (char *)out + f->offset))
            return false;
        srv_given_add(given, row);
    }
    attn_path_back(&s->path, mark);
    return true;
}

static bool read_object(srv_decoder *d, const srv_field *fields, void *out, srv_given_bits *given) {
    srv_given_bits seen = {0};
    bool more;
    if (!enter(d, '}', &more))
        return false;
    while (more) {
        if (*d->s.p != '"')
            return attn_scan_expected(&d->s, "a field name in double quotes");
        if (!read_member(d, fields, out, given, &seen) || !attn_scan_more(&d->s, '}', &more))
            return false;
    }
    return true;
}

/* --- the body --- */

bool srv_decode_document(srv_decoder *d, const srv_field *fields, void *out) {
    attn_scan *s = &d->s;
    char found[ATTN_FOUND_ROOM];
    const char *nul = memchr(s->p, 0, (size_t)(s->end - s->p));
    if (nul)
        return attn_scan_fail(s, ATTN_EARG, nul,
                              "a NUL byte is not JSON; a body in another format needs its "
                              "Content-Type, such as application/vnd.safetensors");
    if (strncmp(s->p, "\xEF\xBB\xBF", 3) == 0)
        return attn_scan_fail(s, ATTN_EARG, s->p, "a byte order mark is not JSON: leave it out");
    attn_scan_space(s);
    if (attn_scan_is_value(s) && *s->p != '{') {
        return srv_problem(d->own.req, SRV_TYPE, "",
                           "expected an object with the fields of the request, found %s",
                           attn_scan_found(s, found));
    }
    if (*s->p != '{')
        return attn_scan_expected(s, "an object");
    *(srv_given_bits *)out = (srv_given_bits){0};
    if (!read_object(d, fields, out, out))
        return false;
    return attn_scan_end(s);
}

/* Sets the problem that a required field is missing. The pointer leads to the object that lacks the
 * field or, in a query string, to the parameter. */
static bool refuse_missing(srv_decoder *d, const srv_field *f) {
    const bool query = srv_is_queried(d->own.req);
    if (query)
        attn_path_key(&d->s.path, f->name, strlen(f->name));
    return srv_scan_refuse(&d->s, SRV_VALUE, "the %s \"%s\" is required: %s",
                           query ? "query parameter" : "field", f->name, f->doc ? f->doc : "");
}

static bool check_required(srv_decoder *d, const srv_field *fields, void *body,
                           const srv_given_bits *given) {
    attn_path *path = &d->s.path;
    for (const srv_field *f = fields; f->name; f++) {
        char *member = (char *)body + f->offset;
        const bool there = srv_given_has(given, (size_t)(f - fields));
        if (f->required && !there)
            return refuse_missing(d, f);
        if (!there || (f->kind != SRV_OBJECT && f->kind != SRV_OBJECTS))
            continue;
        const size_t mark = attn_path_key(path, f->name, strlen(f->name));
        const srv_objects *l = (const void *)member;
        if (f->kind == SRV_OBJECT && !check_required(d, f->fields, member, srv_given_of(f, member)))
            return false;
        for (size_t i = 0; f->kind == SRV_OBJECTS && i < l->count; i++) {
            const size_t mark_element = l->single ? path->size : attn_path_index(path, i);
            char *element = (char *)l->items + i * f->size;
            if (!check_required(d, f->fields, element, srv_given_of(f, element)))
                return false;
            attn_path_back(path, mark_element);
        }
        attn_path_back(path, mark);
    }
    return true;
}

bool srv_decode_required(srv_decoder *d, const srv_field *fields, void *out) {
    return check_required(d, fields, out, out);
}

bool srv_decode_standards(srv_request *req, const srv_field *fields, void *out) {
    for (const srv_field *f = fields; f->name; f++) {
        void *member = (char *)out + f->offset;
        srv_decoder d;
        if (f->kind == SRV_OBJECT && !srv_decode_standards(req, f->fields, member))
            return false;
        if (!f->standard)
            continue;
        srv_decode_begin(&d, req);
        d.s.start = d.s.p = f->standard;
        d.s.end = f->standard + strlen(f->standard);
        if (!reader_of(f)(&d, f, member))
            return false;
    }
    return true;
}

static bool is_empty(const srv_request *req) {
    size_t i = 0;
    while (i < req->body_size && strchr(" \n\r\t", req->body[i]) && req->body[i])
        i++;
    return i == req->body_size;
}

/* Sets the problem that the body is empty. Its text shows a body with the required fields. */
static bool refuse_empty(srv_request *req, const srv_field *fields) {
    char needed[256] = "";
    size_t at = 0;
    for (const srv_field *f = fields; f->name && at < sizeof needed; f++)
        if (f->required)
            at += (size_t)snprintf(needed + at, sizeof needed - at, "%s\"%s\": ..", at ? ", " : "",
                                   f->name);
    return srv_problem(
        req, SRV_MALFORMED, "",
        "The body is empty: expected a JSON object {%s}; /v1/examples has whole requests",
        at ? needed : "..");
}

static bool has_type(const srv_request *req, const char *type) {
    return req->content_type && strcmp(req->content_type, type) == 0;
}

/* If a number beyond its float type was read as an infinity, checks that a field of the body
 * (SRV_B_BEYOND) allows this. false: a problem is set. */
static bool allows_beyond(srv_request *req, const srv_beyond *beyond, const srv_field *fields,
                          const void *out) {
    for (const srv_field *f = fields; f->name; f++)
        if (f->kind == SRV_BOOL && (f->accepts & SRV_B_BEYOND) &&
            *(const bool *)((const char *)out + f->offset))
            return true;
    return srv_problem(req, SRV_NONFINITE, beyond->pointer, "%s", beyond->text);
}

/* Finds the JSON of the request and its binary tensors, in whichever format the body is. */
static bool find_body(srv_request *req, const srv_field *fields, srv_decoded_body *out) {
    *out = (srv_decoded_body){.text = req->body, .size = req->body_size};
    if (req->decoded_body) {
        *out = *req->decoded_body;
        return true;
    }
    if (has_type(req, SRV_NPY))
        return srv_npy_body(req, fields, out);
    if (has_type(req, SRV_SAFETENSORS))
        return req->body ? srv_safetensors_body(req, out) : refuse_empty(req, fields);
    if (has_type(req, SRV_NPZ))
        return srv_npz_body(req, out);
    return (req->body && !is_empty(req)) || refuse_empty(req, fields);
}

bool srv_decode(srv_request *req, const srv_field *fields, void *out) {
    srv_decoded_body body;
    srv_decoder d;
    if (!find_body(req, fields, &body))
        return false;
    req->undrawn = NULL;
    srv_decode_begin(&d, req);
    d.s.start = d.s.p = body.text;
    d.s.end = body.text + body.size;
    if (!srv_decode_document(&d, fields, out) ||
        (body.count && !srv_insert_tensors(req, &body, fields, out)) ||
        !srv_decode_required(&d, fields, out))
        return false;
    const srv_beyond *beyond = body.beyond.pointer ? &body.beyond : &d.own.beyond;
    return !beyond->pointer || allows_beyond(req, beyond, fields, out);
}
