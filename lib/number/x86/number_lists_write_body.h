/* Writes lists of float32 as text, for any vector width. The .c file of an instruction set defines
 * these names and then includes this file:
 *   LANES          numbers in a vector
 *   load_singles   loads LANES floats
 *   decide         finds the digits of LANES floats; the type decimals holds them
 *   make_texts     makes a text of at most 16 bytes for each; the type texts holds them
 *   store_texts    stores the texts and their lengths */

static char *write_one(char *p, float value) {
    if (!isfinite(value))
        return (char *)memcpy(p, "null", 4) + 4;
    return attn_write_f32(p, value);
}

/* Writes LANES texts, each with a comma. If bit k of `others` is set, write_one writes value k. */
static inline char *put_texts(char *p, const texts *t, unsigned others, const float *values) {
    _Alignas(64) char text[LANES][16]; /* the texts of values 0, 2, 4, … and then of 1, 3, 5, … */
    _Alignas(64) uint64_t size[LANES];
    store_texts(t, text, size);
    for (unsigned k = 0; k < LANES; k++) {
        if (__builtin_expect(others >> k & 1, 0)) {
            p = write_one(p, values[k]);
        } else {
            memcpy(p, text[k / 2 + k % 2 * (LANES / 2)], 16);
            p += size[k];
        }
        *p++ = ',';
    }
    return p;
}

/* Writes n floats, a multiple of LANES, in groups of LANES. The steps of one group depend on each
 * other. So the loop finds the digits of the next group before it writes this one, and the
 * processor can work at both. */
static inline char *write_list(char *p, const float *values, size_t n, size_t width) {
    decimals next = decide(load_singles(values));
    size_t left = width; /* numbers left in this row; with width = 0 it wraps and never gets to 0 */
    for (size_t i = 0; i < n; i += LANES) {
        decimals d = next;
        next = decide(load_singles(i + LANES < n ? values + i + LANES : values + i));
        texts t;
        const unsigned others = make_texts(&d, &t);
        p = put_texts(p, &t, others, values + i);
        left -= LANES;
        if (left == 0) {
            p = attn_write_row_end(p);
            left = width;
        }
    }
    return p;
}
