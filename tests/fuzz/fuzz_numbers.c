/* Any bytes as a number and as a list of numbers: what the grammar of RFC 8259 calls a number is
 * read as strtof, strtod and strtoll read it, bit for bit, to its last byte; anything else is none;
 * and no byte beyond the end is looked at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_request.h"
#include "number/number.h"

enum { ROOM = 64, PADDING = 64 };

static size_t digits(const char *p) {
    return strspn(p, "0123456789");
}

/* Bytes of the number at p, 0: none. The text ends with a NUL. */
static size_t grammar(const char *text) {
    const char *p = text + (*text == '-');
    size_t whole = digits(p);
    if (whole == 0 || (*p == '0' && whole > 1))
        return 0;
    p += whole;
    if (*p == '.') {
        if (digits(p + 1) == 0)
            return 0;
        p += 1 + digits(p + 1);
    }
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        q += *q == '+' || *q == '-';
        if (digits(q) == 0)
            return 0;
        p = q + digits(q);
    }
    return (size_t)(p - text);
}

/* As the C library reads the `size` bytes at text, and nothing behind them ("0x1"). */
static bool is_read(const char *text, size_t size, const float *single, const double *wide) {
    char *copy = strndup(text, size);
    if (!copy)
        abort();
    float f = strtof(copy, NULL);
    double d = strtod(copy, NULL);
    free(copy);
    return (!single || memcmp(&f, single, sizeof f) == 0) &&
           (!wide || memcmp(&d, wide, sizeof d) == 0);
}

static void check_one(const char *text, const char *end) {
    float single = 0;
    double wide = 0;
    int64_t whole = 0;
    size_t size = grammar(text);
    const char *after = size ? text + size : NULL;
    if (attn_read_f32(text, end, &single) != after || attn_read_f64(text, end, &wide) != after)
        abort();
    if (size && !is_read(text, size, &single, &wide))
        abort();
    const char *integer = attn_read_i64(text, end, &whole);
    if (integer && integer != after)
        abort();
    /* up to 2^53 a double tells integers apart */
    if (size && fabs(wide) < 9e15 && size < 20 && strcspn(text, "eE.") >= size &&
        (!integer || whole != strtoll(text, NULL, 10)))
        abort();
    if (integer && fabs(wide) < 9e15 && (double)whole != wide)
        abort();
}

/* The list reader stops where it says it does, and every number before is that of strtof. */
static void check_list(const char *text, const char *end) {
    float values[ROOM];
    size_t count = 0;
    bool comma = false;
    const char *p = text, *stop = attn_read_singles(text, text, end, values, ROOM, &count, &comma);
    if (count > ROOM || stop < text || stop > end)
        abort();
    for (size_t i = 0; i < count; i++) {
        p += strspn(p, " "); /* how many blanks it passes over is the reader's affair */
        size_t size = grammar(p);
        if (size == 0 || !is_read(p, size, &values[i], NULL))
            abort();
        p += size;
        if (i + 1 < count || comma) {
            if (*p++ != ',')
                abort();
        }
    }
    if (stop < p || (size_t)(stop - p) > (comma ? strspn(p, " ") : 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    static const char *const tables[] = {"ref", "avx2", "avx512"}; /* each has its list reader */
    attn_isa_choose(tables[size % 3], NULL);
    check_one(text, text + size);
    check_list(text, text + size);
    free(text);
    return 0;
}
