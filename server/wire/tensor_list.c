/* Reads nested lists of numbers or booleans. Most of the time of a JSON request is spent here.
 *
 * Before the numbers are read, the commas up to the next string (a tensor has no strings) are
 * counted. Their number bounds the number of elements, so the buffer never has to grow. Counting
 * takes a small part of the time of reading. The unused rest of the buffer is given back to the
 * arena. For a short text its length is used as the bound instead. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "number/number.h"
#include "wire/tensor_read.h"

enum { SHORT = 16384 }; /* commas are counted only in texts of more bytes than this */

/* The state of reading lists into `data`. */
typedef struct reader {
    attn_scan *s;
    unsigned accepts;
    attn_dtype dtype;
    char *data;
    size_t count, room;          /* number of elements read; allocated elements */
    size_t index[ATTN_MAX_RANK]; /* index of the present element or list on each axis */
    size_t dims[ATTN_MAX_RANK];  /* the shape; SIZE_MAX: not known yet */
    int rank;                    /* number of axes; 0: not known yet */
    /* The items of the outermost list may become tensors of their own. If they may, a list whose
     * length or depth differs from the lists before it sets `differs` instead of a problem. */
    bool may_differ, differs;
    int least; /* axes of lists whose items may differ in length */
} reader;

/* --- elements in memory --- */

void *srv_tensor_take(attn_scan *s, attn_dtype dtype, size_t count) {
    size_t bytes;
    void *data = NULL;
    if (attn_size_mul(count, attn_dtype_size(dtype), &bytes))
        data = attn_arena_take(s->arena, bytes);
    if (!data)
        srv_scan_memory(s);
    return data;
}

bool srv_tensor_as_numbers(srv_request *req, unsigned accepts, attn_tensor *t) {
    size_t n;
    const bool whole = t->dtype == ATTN_I32 || t->dtype == ATTN_I64 || t->dtype == ATTN_U8;
    if (!whole || !(accepts & SRV_T_REAL) || (accepts & (SRV_T_INT | SRV_T_BOOL)))
        return true;
    float *data =
        attn_tensor_count(t, &n) ? attn_arena_zeroed(req->arena, n + 1, sizeof *data) : NULL;
    if (!data)
        return srv_problem_memory(req, NULL,
                                  "no memory is left for a tensor of integers as float32");
    attn_widen_f32(data, t->data, t->dtype, 1, n);
    *t = attn_tensor_dense(data, ATTN_F32, t->rank, t->dims);
    return true;
}

/* Rounds to the nearest bfloat16, ties to even. A bfloat16 is the upper half of a float32. For NaN
 * one bit of the fraction is set, so that the result is NaN and not infinity. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void srv_tensor_narrow(void *data, attn_dtype dtype, size_t first, const float *src, size_t n) {
    uint16_t *out = (uint16_t *)data + first;
    if (dtype == ATTN_F16) {
        attn_narrow_f16(out, src, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = to_bf16(src[i]);
}

void srv_tensor_store(void *data, attn_dtype dtype, size_t i, double value) {
    float single = (float)value;
    switch (dtype) {
    case ATTN_F32:
        ((float *)data)[i] = single;
        break;
    case ATTN_F64:
        ((double *)data)[i] = value;
        break;
    case ATTN_F16:
    case ATTN_BF16:
        srv_tensor_narrow(data, dtype, i, &single, 1);
        break;
    case ATTN_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case ATTN_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case ATTN_U8:
    case ATTN_BOOL:
    case ATTN_BITS: /* the bytes */
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

/* --- room for the elements --- */

/* Returns an upper bound of the number of elements of the lists at `from`. */
static size_t find_room(const char *from, const char *to) {
    if (to - from > SHORT)
        return srv_tensor_room(from, to);
    const char *quote = memchr(from, '"', (size_t)(to - from));
    return (size_t)((quote ? quote : to) - from) / 2 + 1; /* an element has a digit and a comma */
}

attn_dtype srv_tensor_dtype(const char *p, unsigned accepts) {
    while (*p && strchr("[], \n\r\t", *p)) /* lists without elements may come first */
        p++;
    bool boolean = *p == 't' || *p == 'f';
    if ((accepts & SRV_T_BOOL) && (boolean || !(accepts & (SRV_T_REAL | SRV_T_INT))))
        return ATTN_BOOL;
    return accepts & SRV_T_REAL ? ATTN_F32 : ATTN_I64;
}

static bool take_room(reader *l) {
    l->count = 0;
    l->data = srv_tensor_take(l->s, l->dtype, l->room);
    return l->data != NULL;
}

/* Appends the indices of an element or list to the JSON pointer, for a problem. Its indices on the
 * axes before `level` are those of l->index; `at` is its index on the axis `level`. */
static void push_place(reader *l, int level, size_t at) {
    l->index[level] = at;
    for (int i = 0; i <= level; i++)
        attn_path_index(&l->s->path, l->index[i]);
}

/* Returns whether the elements are integers, which are read exactly. */
static bool is_whole(const reader *l) {
    return l->dtype == ATTN_I32 || l->dtype == ATTN_I64 || l->dtype == ATTN_U8;
}

static const char *expected_element(const reader *l) {
    switch (l->dtype) {
    case ATTN_BOOL:
        return "true or false";
    case ATTN_I32:
    case ATTN_I64:
    case ATTN_U8:
        return l->accepts & SRV_T_NONE ? "an integer or null" : "an integer";
    default:
        return l->accepts & SRV_T_NEGINF ? "a number or null" : "a number";
    }
}

/* Refuses the number at the cursor, which is not a value of the tensor's element type. */
static bool refuse_number(reader *l) {
    attn_scan *s = l->s;
    char found[ATTN_FOUND_ROOM];
    attn_scan_found(s, found);
    if (l->dtype == ATTN_BOOL)
        return srv_scan_refuse(s, SRV_TYPE, "expected true or false, found %s", found);
    if (is_whole(l))
        return srv_scan_refuse(s, SRV_VALUE, "expected an integer within %s, found %s",
                               attn_dtype_name(l->dtype), found);
    return srv_scan_refuse(s, SRV_NONFINITE, "expected a number within %s, found %s",
                           attn_dtype_name(l->dtype), found);
}

/* Refuses the text at the cursor, which is not a valid element `at` of a list on the axis
 * `level`. */
static bool refuse_element(reader *l, int level, size_t at) {
    attn_scan *s = l->s;
    double number;
    l->differs = l->may_differ && level > 0 && l->count == 0 && *s->p == '[';
    if (l->differs)
        return false;
    push_place(l, level, at);
    if (!attn_scan_is_value(s))
        return attn_scan_expected(s, expected_element(l));
    bool is_number = *s->p == '-' || (*s->p >= '0' && *s->p <= '9');
    if (is_number && attn_read_f64(s->p, s->end, &number))
        return refuse_number(l);
    if (is_number)
        return attn_scan_expected(s, "a number as JSON writes it");
    if (*s->p == '[')
        return srv_scan_refuse(s, SRV_SHAPE,
                               "expected %s, found a list: the lists before it are %d deep",
                               expected_element(l), level + 1);
    if (*s->p == 'n')
        return srv_scan_refuse(
            s, SRV_TYPE,
            srv_scan_of(s)->req->only_400
                ? "expected %s, found null; " SRV_SCAN_INFER_INFINITY
                : "expected %s, found null (it stands for -infinity in additive masks and "
                  "biases only)",
            expected_element(l));
    return srv_scan_unexpected(s, SRV_TYPE, expected_element(l));
}

static bool read_integer(reader *l, size_t i) {
    int64_t v;
    if (l->accepts & SRV_T_NONE && l->dtype == ATTN_I64 && attn_scan_word(l->s, "null")) {
        ((int64_t *)(void *)l->data)[i] = INT64_MIN;
        return true;
    }
    const char *p = attn_read_i64(l->s->p, l->s->end, &v);
    if (!p || (l->dtype == ATTN_I32 && (v < INT32_MIN || v > INT32_MAX)) ||
        (l->dtype == ATTN_U8 && (v < 0 || v > UINT8_MAX)))
        return false;
    if (l->dtype == ATTN_I64)
        ((int64_t *)(void *)l->data)[i] = v;
    else
        srv_tensor_store(l->data, l->dtype, i, (double)v);
    l->s->p = p;
    return true;
}

static bool read_boolean(reader *l, size_t i) {
    bool on = attn_scan_word(l->s, "true");
    if (!on && !attn_scan_word(l->s, "false"))
        return false;
    l->data[i] = on;
    return true;
}

/* Reads -infinity: null, or -Infinity, which is not JSON but what Python's json module writes. */
static bool read_negative_infinity(reader *l, size_t i) {
    if (!(l->accepts & SRV_T_NEGINF) ||
        !(attn_scan_word(l->s, "null") || attn_scan_word(l->s, "-Infinity")))
        return false;
    srv_tensor_store(l->data, l->dtype, i, -(double)INFINITY);
    return true;
}

/* Reads an element of any type into data[i]. Returns false without a problem if it is not a valid
 * element. (Most float32 elements are read by read_singles instead.) */
static bool read_element(reader *l, size_t i) {
    float single;
    double value;
    const char *p;
    switch (l->dtype) {
    case ATTN_BOOL:
        return read_boolean(l, i);
    case ATTN_I32:
    case ATTN_I64:
    case ATTN_U8:
        return read_integer(l, i);
    case ATTN_F64:
        p = attn_read_f64(l->s->p, l->s->end, &value);
        break;
    default:
        p = attn_read_f32(l->s->p, l->s->end, &single);
        value = p ? (double)single : 0;
    }
    if (!p)
        return read_negative_infinity(l, i);
    if (!isfinite(value) ||
        (l->dtype == ATTN_F16 && fabs(value) >= 65520)) /* rounds to 2^16, beyond float16 */
        return false;
    srv_tensor_store(l->data, l->dtype, i, value);
    l->s->p = p;
    return true;
}

/* If the number at the cursor is beyond the range of the float type, reads it as an infinity and
 * returns true. The first such number is noted in srv_scan.beyond (scan.h). For anything else,
 * returns false without setting a problem. */
static bool take_beyond(reader *l, int level, size_t at) {
    attn_scan *s = l->s;
    char found[ATTN_FOUND_ROOM], text[160];
    double value;
    const char *next =
        is_whole(l) || l->dtype == ATTN_BOOL ? NULL : attn_read_f64(s->p, s->end, &value);
    if (!next)
        return false;
    srv_beyond *beyond = &srv_scan_of(s)->beyond;
    if (!beyond->pointer) {
        size_t mark = s->path.size;
        int n = snprintf(text, sizeof text, "expected a number within %s, found %s",
                         attn_dtype_name(l->dtype), attn_scan_found(s, found));
        push_place(l, level, at);
        beyond->pointer = attn_arena_text(s->arena, s->path.text, s->path.size);
        beyond->text = attn_arena_text(s->arena, text, (size_t)n);
        attn_path_back(&s->path, mark);
        if (!beyond->pointer || !beyond->text)
            return false;
    }
    srv_tensor_store(l->data, l->dtype, l->count, value < 0 ? -(double)INFINITY : (double)INFINITY);
    s->p = next;
    return true;
}

/* Reads as many float32 elements with their commas as attn_read_singles can. Sets *comma to whether
 * another element must follow: nothing was read, or a comma was read last. */
static void read_singles(reader *l, bool *comma) {
    attn_scan *s = l->s;
    size_t n;
    s->p = attn_read_singles(s->p, s->start, s->end, (float *)(void *)l->data + l->count,
                             l->room - l->count, &n, comma);
    l->count += n;
}

/* Reads the elements of an innermost list, on the axis `level`. The cursor stands behind the list's
 * '[' before the call and behind its ']' afterwards. Sets *n to the number of elements. */
static bool read_row(reader *l, int level, size_t *n) {
    attn_scan *s = l->s;
    size_t first = l->count;
    for (;;) {
        bool comma = true;
        attn_scan_space(s);
        if (l->dtype == ATTN_F32)
            read_singles(l, &comma);
        if (comma) {
            attn_scan_space(s);
            if (l->count == l->room ||
                (!read_element(l, l->count) && !take_beyond(l, level, l->count - first)))
                return refuse_element(l, level, l->count - first);
            l->count++;
        }
        attn_scan_space(s);
        if (*s->p == ']')
            break;
        if (*s->p != ',') {
            push_place(l, level, l->count - first);
            return attn_scan_expected(s, "',' or ']'");
        }
        s->p++;
    }
    s->p++;
    *n = l->count - first;
    return true;
}

/* Refuses a list on the axis `level` that has `found` elements, more or fewer than the lists before
 * it on this axis. */
static bool refuse_ragged(reader *l, int level, size_t found) {
    attn_scan *s = l->s;
    l->differs = l->may_differ && level > 0 && l->rank >= l->least;
    if (l->differs)
        return false;
    const char *ragged = srv_scan_of(s)->ragged;
    if (level > 0)
        push_place(l, level - 1, l->index[level - 1]);
    const char *what = level + 1 < l->rank ? "list" : l->dtype == ATTN_BOOL ? "boolean" : "number";
    return srv_scan_refuse(s, SRV_SHAPE, "%s has %zu %s%s, expected %zu as in those before it%s%s",
                           s->path.text, found, what, attn_plural(found), l->dims[level],
                           ragged ? ": " : "", ragged ? ragged : "");
}

/* Refuses lists with more axes than a tensor can have, or deeper than max_json_depth. */
static bool refuse_rank(attn_scan *s) {
    size_t depth = s->depth + ATTN_MAX_RANK;
    for (const char *p = s->p; *p == '[' && depth <= s->max_depth; p++)
        depth++;
    if (depth > s->max_depth)
        return srv_scan_depth(s);
    return srv_scan_refuse(s, SRV_SHAPE, "expected at most %d axes, found lists deeper",
                           ATTN_MAX_RANK);
}

static bool read_axis(reader *l, int level);

/* Reads a list of lists on the axis `level`. The cursor stands behind the list's '[' before the
 * call and behind its ']' afterwards. Sets *n to the number of inner lists. */
static bool read_lists(reader *l, int level, size_t *n) {
    attn_scan *s = l->s;
    for (*n = 0;; s->p++) {
        attn_scan_space(s);
        l->index[level] = *n;
        if (*s->p != '[') {
            push_place(l, level, *n);
            return attn_scan_is_value(s)
                       ? srv_scan_unexpected(s, SRV_SHAPE, "a list like those before it")
                       : attn_scan_expected(s, "a list");
        }
        if (!read_axis(l, level + 1))
            return false;
        ++*n;
        attn_scan_space(s);
        if (*s->p == ']')
            break;
        if (*s->p != ',') {
            push_place(l, level, *n);
            return attn_scan_expected(s, "',' or ']'");
        }
    }
    s->p++;
    return true;
}

/* Reads the list at the cursor, on the axis `level`, and checks that it is as long as the lists
 * before it on this axis. */
static bool read_axis(reader *l, int level) {
    attn_scan *s = l->s;
    size_t n = 0;
    if (level == ATTN_MAX_RANK || s->depth + (size_t)level >= s->max_depth)
        return refuse_rank(s);
    s->p++;
    attn_scan_space(s);
    if (l->rank == 0 && *s->p != '[')
        l->rank = level + 1;
    if (*s->p == ']')
        s->p++;
    else if (level + 1 == l->rank ? !read_row(l, level, &n) : !read_lists(l, level, &n))
        return false;
    if (l->dims[level] == SIZE_MAX)
        l->dims[level] = n;
    return n == l->dims[level] || refuse_ragged(l, level, n);
}

/* --- tensors --- */

/* Moves the cursor from the '[' of a list behind its ']', or to the end of the text. Nested lists of
 * numbers hold no strings. */
static const char *end_of_list(const attn_scan *s) {
    const char *p = s->p;
    for (size_t depth = 0; p < s->end; p++) {
        depth += *p == '[';
        if (*p == ']' && --depth == 0)
            return p + 1;
    }
    return p;
}

/* Appends a tensor to the list, which grows by doubling. */
static bool add_entry(attn_scan *s, srv_entries *entries, const attn_tensor *t) {
    const size_t n = entries->count;
    if ((n & (n - 1)) == 0) {
        attn_tensor *items = attn_arena_zeroed(s->arena, n ? 2 * n : 1, sizeof *items);
        if (!items)
            return srv_scan_memory(s);
        if (n)
            memcpy(items, entries->items, n * sizeof *items);
        entries->items = items;
    }
    entries->items[entries->count++] = *t;
    return true;
}

/* Reads the items of the list at the cursor as tensors of their own. */
static bool read_entries(attn_scan *s, unsigned accepts, attn_dtype dtype, srv_entries *entries) {
    const char *const end = s->end;
    bool ok = true;
    *entries = (srv_entries){0};
    s->depth++;
    do {
        attn_tensor t;
        const size_t mark = attn_path_index(&s->path, entries->count);
        s->p++;
        attn_scan_space(s);
        s->end = end_of_list(s); /* the room for elements is counted up to there */
        ok = *s->p == '[' ? srv_tensor_nested(s, accepts, dtype, &t, NULL)
                          : srv_scan_unexpected(s, SRV_SHAPE, "a list like those before it");
        s->end = end;
        if (ok)
            attn_path_back(&s->path, mark);
        ok = ok && add_entry(s, entries, &t);
        attn_scan_space(s);
    } while (ok && *s->p == ',');
    s->depth--;
    if (!ok || *s->p != ']')
        return ok && attn_scan_expected(s, "',' or ']'");
    s->p++;
    return true;
}

bool srv_tensor_nested(attn_scan *s, unsigned accepts, attn_dtype dtype, attn_tensor *out,
                       srv_entries *entries) {
    const char *const start = s->p;
    reader l = {.s = s,
                .accepts = accepts,
                .dtype = dtype,
                .may_differ = entries != NULL,
                .least = accepts & SRV_T_ENTRY_ROWS ? 2 : 3}; /* else an entry has 2 axes or 3 */
    if (dtype == ATTN_F32 && s->end - s->p >= SRV_TENSOR_LARGE && srv_tensor_in_pieces(s, out))
        return true;
    l.room = find_room(s->p, s->end);
    for (int i = 0; i < ATTN_MAX_RANK; i++)
        l.dims[i] = SIZE_MAX;
    if (!take_room(&l))
        return false;
    if (!read_axis(&l, 0)) {
        if (!l.differs)
            return false;
        attn_arena_shrink(s->arena, l.data, 0);
        s->p = start;
        *out = (attn_tensor){0};
        return read_entries(s, accepts, dtype, entries);
    }
    attn_arena_shrink(s->arena, l.data, l.count * attn_dtype_size(l.dtype));
    *out = attn_tensor_dense(l.data, l.dtype, l.rank, l.dims);
    return true;
}

bool srv_tensor_row(attn_scan *s, unsigned accepts, attn_dtype dtype, size_t count, void **data) {
    reader l = {.s = s, .accepts = accepts, .rank = 1, .dtype = dtype, .room = count};
    if (!take_room(&l) || (count > 0 && !read_row(&l, 0, &count)))
        return false;
    *data = l.data;
    return true;
}

bool srv_tensor_list(attn_scan *s, attn_dtype dtype, attn_tensor *out) {
    if (*s->p != '[')
        return attn_scan_expected(s, "a list of elements");
    return srv_tensor_nested(s, dtype == ATTN_BOOL ? SRV_T_BOOL : SRV_T_REAL, dtype, out, NULL);
}
