/* Reads a tensor of booleans that is written as runs of true, in the form in which POST /v1/masks
 * answers large masks:
 *
 *   [{"batch": b, "head": h, "runs": [[row, from, to], ..]}, ..]
 *
 * Elements from … to - 1 of the row are true. The shape is [L, S], [B, L, S] or [.., H, L, S];
 * "batch" counts all entries of the axes in front of the heads. null, or no such member, stands for
 * every batch entry or head. Runs are ascending, so that each element is written once. */
#include <stdio.h>
#include <string.h>

#include "number/number.h"
#include "wire/tensor_read.h"

typedef struct grid {
    uint8_t *data;
    size_t B, H, L, S;
    size_t left; /* heads that no object of the outer list has covered yet */
} grid;

/* An object of the outer list: it covers the heads [h0, h1) of the batch entries [b0, b1). `runs`
 * is the place in the text where its list of runs begins. */
typedef struct part {
    size_t b0, b1, h0, h1;
    const char *runs;
} part;

static bool refuse(attn_scan *s, const char *expected) {
    srv_scan_unexpected(s, SRV_VALUE, expected);
    return false;
}

bool srv_tensor_skip_runs(attn_scan *s) {
    const char *start = s->p;
    size_t open = 0;
    if (*s->p != '[')
        return refuse(s, "a list of runs");
    do {
        if (s->p >= s->end)
            return attn_scan_fail(s, ATTN_EARG, start, "this list is not closed");
        if (*s->p == '"') {
            s->p = attn_skip_string(s->p, s->end);
            continue;
        }
        open += *s->p == '[' || *s->p == '{';
        open -= *s->p == ']' || *s->p == '}';
        s->p++;
    } while (open > 0);
    return true;
}

static bool read_index(attn_scan *s, size_t least, size_t most, size_t *out) {
    char expected[64];
    int64_t v;
    const char *p = attn_read_i64(s->p, s->end, &v);
    if (p && v >= 0 && (uint64_t)v >= least && (uint64_t)v <= most) {
        *out = (size_t)v;
        s->p = p;
        return true;
    }
    snprintf(expected, sizeof expected, "an index from %zu to %zu", least, most);
    return refuse(s, expected);
}

/* Reads the index of a batch entry or head, of which there are `count`, and sets [*from, *to) to
 * this index alone. null stands for all of them and leaves *from and *to unchanged. false: a
 * problem is set. */
static bool read_place(attn_scan *s, size_t count, size_t *from, size_t *to) {
    if (attn_scan_word(s, "null"))
        return true;
    if (!count)
        return refuse(s, "null, since the shape has none of them");
    if (!read_index(s, 0, count - 1, from))
        return false;
    *to = *from + 1;
    return true;
}

static bool read_part_member(attn_scan *s, const grid *g, const attn_name *name, part *p) {
    if (attn_name_is(name, "batch"))
        return read_place(s, g->B, &p->b0, &p->b1);
    if (attn_name_is(name, "head"))
        return read_place(s, g->H, &p->h0, &p->h1);
    if (attn_name_is(name, "runs")) {
        p->runs = s->p;
        return srv_tensor_skip_runs(s);
    }
    return srv_scan_refuse(s, SRV_UNKNOWN_FIELD,
                           "\"%s\" is no field of runs: they have batch, head and runs",
                           name->text);
}

/* Reads a run [row, from, to) and sets its elements to true. The run before it ended in row *row
 * before key *at, and this run must not begin earlier. Sets *row and *at to the end of this run.
 * false: a problem is set. */
static bool read_run(attn_scan *s, const grid *g, const part *p, size_t *row, size_t *at) {
    size_t next, from, to;
    if (!g->L || *s->p != '[')
        return refuse(s, g->L ? "a run [row, from, to]" : "no run, since the shape has no rows");
    s->p++;
    attn_scan_space(s);
    if (!read_index(s, *row, g->L - 1, &next) || !attn_scan_mark(s, ',', "','") ||
        !read_index(s, next == *row ? *at : 0, g->S, &from) || !attn_scan_mark(s, ',', "','") ||
        !read_index(s, from, g->S, &to) || !attn_scan_mark(s, ']', "']' behind row, from and to"))
        return false;
    *row = next;
    *at = to;
    for (size_t b = p->b0; b < p->b1; b++)
        for (size_t h = p->h0; h < p->h1; h++)
            memset(g->data + ((b * g->H + h) * g->L + next) * g->S + from, 1, to - from);
    return true;
}

static bool read_runs(attn_scan *s, const grid *g, const part *p) {
    const char *after = s->p;
    const size_t mark = attn_path_key(&s->path, "runs", 4);
    size_t row = 0, at = 0, i = 0;
    bool more;
    s->p = p->runs;
    if (!srv_scan_open(s, ']', &more))
        return false;
    while (more) {
        const size_t back = attn_path_index(&s->path, i++);
        if (!read_run(s, g, p, &row, &at))
            return false;
        attn_path_back(&s->path, back);
        if (!attn_scan_more(s, ']', &more))
            return false;
    }
    attn_path_back(&s->path, mark);
    s->p = after;
    return true;
}

static bool read_part(attn_scan *s, grid *g) {
    part p = {.b1 = g->B, .h1 = g->H};
    bool more;
    if (*s->p != '{')
        return refuse(s,
                      "an object such as {\"batch\": null, \"head\": null, \"runs\": [[0, 0, 1]]}");
    if (!srv_scan_open(s, '}', &more))
        return false;
    while (more) {
        attn_name name;
        if (*s->p != '"')
            return attn_scan_expected(s, "a field name in double quotes");
        if (!attn_scan_name(s, &name))
            return false;
        const size_t mark = attn_path_key(&s->path, name.text, name.size);
        if (!attn_scan_mark(s, ':', "':'") || !read_part_member(s, g, &name, &p))
            return false;
        attn_path_back(&s->path, mark);
        if (!attn_scan_more(s, '}', &more))
            return false;
    }
    const size_t heads = (p.b1 - p.b0) * (p.h1 - p.h0);
    if (!p.runs || heads > g->left)
        return srv_scan_refuse(
            s, SRV_VALUE,
            p.runs ? "expected each batch entry and head once, found more of them than the "
                     "shape has"
                   : "expected the member runs, a list of [row, from, to]");
    g->left -= heads;
    return read_runs(s, g, &p);
}

bool srv_tensor_runs(attn_scan *s, const char *list, attn_tensor *t) {
    const char *after = s->p;
    const size_t mark = attn_path_key(&s->path, "runs", 4);
    grid g = {.data = t->data, .B = 1, .H = 1};
    size_t i = 0;
    bool more;
    if (t->rank < 2)
        return srv_scan_refuse(s, SRV_SHAPE, "expected 2 axes or more for runs, found 1");
    g.L = t->dims[t->rank - 2];
    g.S = t->dims[t->rank - 1];
    g.H = t->rank > 3 ? t->dims[t->rank - 3] : 1;
    for (int a = 0; a < t->rank - (t->rank > 3 ? 3 : 2); a++)
        g.B *= t->dims[a]; /* tensor_object.c has checked the product */
    g.left = g.B * g.H;
    memset(g.data, 0, g.left * g.L * g.S);
    s->p = list;
    if (!srv_scan_open(s, ']', &more))
        return false;
    while (more) {
        const size_t back = attn_path_index(&s->path, i++);
        if (!read_part(s, &g))
            return false;
        attn_path_back(&s->path, back);
        if (!attn_scan_more(s, ']', &more))
            return false;
    }
    attn_path_back(&s->path, mark);
    s->p = after;
    return true;
}
