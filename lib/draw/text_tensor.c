/* Prints tensors as NumPy does (numpy.array_str).
 *
 * There are two passes over the elements to be shown. The first pass finds the style: positional or
 * scientific notation, digits and widths. The second pass writes the elements. If a tensor has more
 * than THRESHOLD elements, only EDGE elements at each end of a long axis are shown, unless
 * ATTN_PRINT_FULL is set. A number has the smallest number of digits that read back as the same
 * value of its type, but at most PRECISION digits after the point. The locale has no effect,
 * because strtod and strtof only read texts without a decimal point here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/print.h"
#include "base/element.h"
#include "draw/draw.h"

enum { PRECISION = 8, THRESHOLD = 1000, EDGE = 3, LINE_WIDTH = 75 };

/* The decimal digits of a magnitude |v| = 0.d1 d2 d3 … x 10^point. There are 1 … 17 digits, without
 * trailing zeros. Zero has the digit "0" and point 1. */
typedef struct digits {
    char text[24];
    int count, point;
} digits;

/* The notation that all elements of a tensor have in common. */
typedef struct style {
    attn_dtype dtype;
    bool summarised;
    bool suppress; /* small numbers do not select scientific notation */
    int width;     /* for integers: number of characters of the longest integer */
    /* The other members are for floating-point tensors. */
    bool scientific, finite_seen, nan_seen, inf_seen, neginf_seen;
    double largest, smallest; /* largest and smallest magnitude of the non-zero finite elements */
    int left;                 /* number of characters before the point */
    int right;                /* number of characters after the point */
    int precision;            /* number of digits after the point in scientific notation */
    int exponent;             /* number of digits of the exponent */
} style;

static bool is_float(attn_dtype d) {
    return d == ATTN_F32 || d == ATTN_F16 || d == ATTN_BF16 || d == ATTN_F64;
}

static const char *element(const attn_tensor *t, ptrdiff_t at) {
    return (const char *)t->data + at * (ptrdiff_t)attn_dtype_size(t->dtype);
}

static double real_at(const attn_tensor *t, ptrdiff_t at) {
    return attn_number_at(element(t, at), t->dtype);
}

static int64_t integer_at(const attn_tensor *t, ptrdiff_t at) {
    int64_t wide;
    int32_t narrow;
    const char *p = element(t, at);
    if (t->dtype == ATTN_U8)
        return *(const uint8_t *)p;
    if (t->dtype == ATTN_I32) {
        memcpy(&narrow, p, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, p, sizeof wide);
    return wide;
}

/* Tells whether the decimal `text`, rounded to the type `dtype`, is v. */
static bool reads_back(const char *text, double v, attn_dtype dtype) {
    if (dtype == ATTN_F64)
        return strtod(text, NULL) == v;
    float f = strtof(text, NULL);
    if (dtype == ATTN_F32)
        return f == (float)v;
    if (dtype == ATTN_BF16) { /* to bfloat16: round the upper half of a float to nearest even */
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        memcpy(&f, &bits, sizeof f);
        return f == (float)v;
    }
    uint16_t got, want;
    float exact = (float)v;
    attn_narrow_f16(&got, &f, 1);
    attn_narrow_f16(&want, &exact, 1);
    return got == want;
}

/* Rounds v > 0 to `count` significant digits, correctly, and removes trailing zeros. */
static void round_digits(double v, int count, digits *d) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", count - 1, v);
    char *mantissa_end = strchr(text, 'e');
    d->count = 0;
    for (char *p = text; p < mantissa_end; p++)
        if (*p >= '0' && *p <= '9')
            d->text[d->count++] = *p;
    d->point = (int)strtol(mantissa_end + 1, NULL, 10) + 1;
    while (d->count > 1 && d->text[d->count - 1] == '0')
        d->count--;
}

/* Adds 1 to the last of `count` digits. */
static void step_up(digits *d, int count) {
    while (d->count < count)
        d->text[d->count++] = '0';
    while (d->count && d->text[d->count - 1] == '9')
        d->count--;
    if (d->count)
        d->text[d->count - 1]++;
    else {
        d->text[d->count++] = '1';
        d->point++;
    }
}

/* Finds `count` digits that read back as v; returns false if there are none. Rounding v to `count`
 * digits finds them, with one exception. If v is a power of two, its upper neighbour is twice as
 * far away as its lower neighbour. Then the rounded decimal may be so low that it does not read
 * back as v, while the next higher decimal does. */
static bool digits_fit(double v, attn_dtype dtype, int count, digits *d) {
    char text[48];
    int exponent;
    round_digits(v, count, d);
    snprintf(text, sizeof text, "%.*se%d", d->count, d->text, d->point - d->count);
    if (reads_back(text, v, dtype))
        return true;
    if (frexp(v, &exponent) != 0.5)
        return false;
    step_up(d, count);
    snprintf(text, sizeof text, "%.*se%d", d->count, d->text, d->point - d->count);
    return reads_back(text, v, dtype);
}

/* Finds the smallest number of digits that read back as the finite magnitude v. */
static void shortest_digits(double v, attn_dtype dtype, digits *d) {
    if (v == 0) {
        *d = (digits){.text = "0", .count = 1, .point = 1};
        return;
    }
    int low = 1, high = dtype == ATTN_F64 ? 17 : dtype == ATTN_F32 ? 9 : dtype == ATTN_F16 ? 5 : 4;
    while (low < high) {
        int middle = (low + high) / 2;
        if (digits_fit(v, dtype, middle, d))
            high = middle;
        else
            low = middle + 1;
    }
    digits_fit(v, dtype, high, d);
}

/* Finds the digits of v for positional notation: those of shortest_digits, but at most PRECISION
 * digits after the point. */
static void positional_digits(double v, attn_dtype dtype, digits *d) {
    shortest_digits(v, dtype, d);
    if (d->count - d->point <= PRECISION)
        return;
    const int kept = d->point + PRECISION; /* digits down to the last decimal */
    if (kept > 0)
        round_digits(v, kept, d);
    else if (kept == 0 && d->text[0] >= '5')
        *d = (digits){.text = "1", .count = 1, .point = 1 - PRECISION};
    else
        *d = (digits){.text = "0", .count = 1, .point = 1};
}

/* Finds the digits of v for scientific notation: those of shortest_digits, but at most PRECISION
 * digits after the first. */
static void scientific_digits(double v, attn_dtype dtype, digits *d) {
    shortest_digits(v, dtype, d);
    if (d->count > PRECISION + 1)
        round_digits(v, PRECISION + 1, d);
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static int exponent_size(const digits *d) {
    int e = abs(d->point - 1);
    return d->text[0] == '0' ? 2 : e >= 100 ? 3 : 2;
}

/* --- pass 1: the style --- */

/* Called for each element to be shown, in order. `at` is its offset in elements. */
typedef void (*visitor)(const attn_tensor *t, ptrdiff_t at, style *s);

static void each_shown(const attn_tensor *t, int axis, ptrdiff_t at, style *s, visitor visit) {
    if (axis == t->rank) {
        visit(t, at, s);
        return;
    }
    size_t n = t->dims[axis];
    for (size_t i = 0; i < n; i++) {
        if (s->summarised && n > 2 * EDGE && i == EDGE)
            i = n - EDGE;
        each_shown(t, axis + 1, at + (ptrdiff_t)i * t->strides[axis], s, visit);
    }
}

static void visit_integer(const attn_tensor *t, ptrdiff_t at, style *s) {
    s->width = larger(s->width, snprintf(NULL, 0, "%lld", (long long)integer_at(t, at)));
}

static void visit_range(const attn_tensor *t, ptrdiff_t at, style *s) {
    double v = real_at(t, at);
    if (isnan(v))
        s->nan_seen = true;
    else if (isinf(v)) {
        s->inf_seen = true;
        s->neginf_seen |= v < 0;
    } else {
        s->finite_seen = true;
        if (v != 0) {
            s->largest = fmax(s->largest, fabs(v));
            s->smallest = fmin(s->smallest, fabs(v));
        }
    }
}

static void visit_digits(const attn_tensor *t, ptrdiff_t at, style *s) {
    double v = real_at(t, at);
    digits d;
    if (!isfinite(v))
        return;
    int sign = signbit(v) != 0;
    if (s->scientific) {
        scientific_digits(fabs(v), t->dtype, &d);
        s->left = larger(s->left, 1 + sign);
        s->precision = larger(s->precision, d.count - 1);
        s->exponent = larger(s->exponent, exponent_size(&d));
    } else {
        positional_digits(fabs(v), t->dtype, &d);
        s->left = larger(s->left, larger(d.point, 1) + sign);
        s->right = larger(s->right, d.count - d.point);
    }
}

/* Decides between positional and scientific notation by NumPy's rules. NumPy compares in the type
 * of the elements, so the thresholds are rounded to that type. */
static bool wants_scientific(const style *s) {
    double small = s->suppress ? 0 : 0.0001, ratio = s->largest / s->smallest;
    double large = s->dtype == ATTN_F64 ? 1e8 : s->dtype == ATTN_F16 ? 1e3 : 1e6;
    if (s->suppress) {
        ratio = 0;
    } else if (s->dtype == ATTN_F16) {
        float tenth = 0.0001f, quotient = (float)ratio;
        uint16_t bits[2];
        attn_narrow_f16(&bits[0], &tenth, 1);
        attn_narrow_f16(&bits[1], &quotient, 1);
        small = attn_number_at(&bits[0], ATTN_F16);
        ratio = attn_number_at(&bits[1], ATTN_F16);
    } else if (s->dtype != ATTN_F64) {
        small = 0.0001f;
        ratio = (float)s->largest / (float)s->smallest;
    }
    return s->largest >= large || s->smallest < small || ratio > 1000;
}

static style style_of(const attn_tensor *t, size_t count, unsigned print) {
    style s = {.dtype = t->dtype,
               .summarised = count > THRESHOLD && !(print & ATTN_PRINT_FULL),
               .suppress = print & ATTN_PRINT_SUPPRESS,
               .smallest = INFINITY};
    if (!is_float(t->dtype)) {
        if (t->dtype != ATTN_BOOL)
            each_shown(t, 0, 0, &s, visit_integer);
        return s;
    }
    each_shown(t, 0, 0, &s, visit_range);
    s.scientific = s.largest > 0 && wants_scientific(&s);
    each_shown(t, 0, 0, &s, visit_digits);
    if (s.scientific)
        /* The number of characters after the point, the exponent included. Only the width of nan
         * and inf depends on it. */
        s.right = s.exponent + 2 + s.precision;
    if (s.nan_seen)
        s.left = larger(s.left, 3 - (s.right + 1));
    if (s.nan_seen || s.inf_seen)
        s.left = larger(s.left, 3 + s.neginf_seen - (s.right + 1));
    return s;
}

/* --- pass 2: writing. A word is the text of one element, padded to the common width. --- */

/* Size of the buffer of a word in bytes. The longest word, that of an int64, has 20 characters. */
enum { WORD = 64 };

static size_t write_nonfinite(char *word, double v, const style *s) {
    const char *name = isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
    return (size_t)snprintf(word, WORD, "%*s", s->left + s->right + 1, name);
}

static size_t write_scientific(char *word, double v, const style *s) {
    digits d;
    scientific_digits(fabs(v), s->dtype, &d);
    /* A number with fewer digits than the others shows further digits of its value instead of
     * zeros. */
    if (v != 0 && d.count != s->precision + 1)
        round_digits(fabs(v), s->precision + 1, &d);
    while (d.count < s->precision + 1)
        d.text[d.count++] = '0';
    char number[64];
    snprintf(number, sizeof number, "%s%c.%.*se%c%0*d", signbit(v) ? "-" : "", d.text[0],
             d.count - 1, d.text + 1, d.point < 1 ? '-' : '+', s->exponent, abs(d.point - 1));
    int width = s->left + 1 + s->precision + 2 + s->exponent;
    return (size_t)snprintf(word, WORD, "%*s", width, number);
}

static size_t write_positional(char *word, double v, const style *s) {
    digits d;
    positional_digits(fabs(v), s->dtype, &d);
    char whole[32];
    size_t n = 0;
    if (signbit(v))
        whole[n++] = '-';
    if (d.point <= 0)
        whole[n++] = '0';
    for (int i = 0; i < d.point; i++)
        whole[n++] = i < d.count ? d.text[i] : '0';
    size_t at = (size_t)snprintf(word, WORD, "%*.*s.", s->left, (int)n, whole);
    int fraction = d.count - d.point;
    for (int i = 0; i < larger(s->right, 0); i++) {
        int digit = d.point + i;
        word[at++] = i >= fraction ? ' ' : digit < 0 ? '0' : d.text[digit];
    }
    word[at] = '\0';
    return at;
}

static size_t write_word(char *word, const attn_tensor *t, ptrdiff_t at, const style *s) {
    if (t->dtype == ATTN_BOOL)
        return (size_t)snprintf(word, WORD, "%s", *element(t, at) ? " True" : "False");
    if (!is_float(t->dtype))
        return (size_t)snprintf(word, WORD, "%*lld", s->width, (long long)integer_at(t, at));
    double v = real_at(t, at);
    if (!isfinite(v))
        return write_nonfinite(word, v, s);
    return s->scientific ? write_scientific(word, v, s) : write_positional(word, v, s);
}

/* --- lines --- */

typedef struct line {
    size_t indent; /* columns of the hanging indent */
    size_t width;  /* last column in which a word may end */
    size_t used;   /* columns used in the current line */
    size_t spaces; /* blanks at the end of the line that are in `used` but not written yet */
} line;

/* Appends a word to the line. If the word does not fit, begins a new line first, unless the line
 * has no word yet. Blanks at the end of a wrapped line are not written. */
static void put_word(attn_text *out, line *l, const char *word, size_t n) {
    if (l->used + n > l->width && l->used > l->indent) {
        attn_text_bytes(out, "\n", 1);
        l->used = l->indent;
        l->spaces = l->indent;
    }
    attn_text_repeat(out, ' ', l->spaces);
    l->used += n;
    l->spaces = 0;
    while (n && word[n - 1] == ' ')
        n--, l->spaces++;
    attn_text_bytes(out, word, n);
}

static void print_row(attn_text *out, const attn_tensor *t, ptrdiff_t at, const style *s) {
    size_t n = t->dims[t->rank - 1], depth = (size_t)t->rank;
    line l = {.indent = depth, .width = LINE_WIDTH - depth, .used = depth};
    char word[WORD];
    for (size_t i = 0; i < n; i++) {
        if (i) {
            l.used++;
            l.spaces++;
        }
        if (s->summarised && n > 2 * EDGE && i == EDGE) {
            put_word(out, &l, "...", 3);
            l.used++;
            l.spaces++;
            i = n - EDGE;
        }
        size_t size = write_word(word, t, at + (ptrdiff_t)i * t->strides[t->rank - 1], s);
        put_word(out, &l, word, size);
    }
    attn_text_repeat(out, ' ', l.spaces);
}

static void print_axis(attn_text *out, const attn_tensor *t, int axis, ptrdiff_t at,
                       const style *s) {
    attn_text_bytes(out, "[", 1);
    size_t n = t->dims[axis], blank_lines = (size_t)(t->rank - axis - 1);
    if (axis == t->rank - 1)
        print_row(out, t, at, s);
    for (size_t i = 0; axis < t->rank - 1 && i < n && !out->failed; i++) {
        if (i) {
            attn_text_repeat(out, '\n', blank_lines);
            attn_text_repeat(out, ' ', (size_t)axis + 1);
        }
        if (s->summarised && n > 2 * EDGE && i == EDGE) {
            attn_text_bytes(out, "...", 3);
            attn_text_repeat(out, '\n', blank_lines);
            attn_text_repeat(out, ' ', (size_t)axis + 1);
            i = n - EDGE;
        }
        print_axis(out, t, axis + 1, at + (ptrdiff_t)i * t->strides[axis], s);
    }
    attn_text_bytes(out, "]", 1);
}

void attn_text_tensor(attn_text *t, const attn_tensor *tensor, unsigned print) {
    size_t count = 0;
    if (tensor->rank < 1)
        return;
    if (!attn_tensor_count(tensor, &count) || count == 0) {
        attn_text_bytes(t, "[]", 2);
        return;
    }
    style s = style_of(tensor, count, print);
    print_axis(t, tensor, 0, 0, &s);
}
