/* Writes lists of float32 as text, for any vector width, with the text of each number in 16 bytes.
 * The .c file of an instruction set defines LANES, the types decimals and texts (of LANES numbers),
 * and load_singles, decide, make_texts and store_texts, and then includes this file. */

static char *write_one(char *p, float value) {
    if (!isfinite(value))
        return (char *)memcpy(p, "null", 4) + 4;
    return attn_write_f32(p, value);
}

/* Writes LANES texts, each with a comma. write_one writes the lanes in `others`. */
static inline char *put_texts(char *p, const texts *t, unsigned others, const float *values) {
    _Alignas(64) char text[LANES][16]; /* numbers 0, 2, … and then 1, 3, … */
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

/* Writes a list. The steps of a group depend on each other, so the loop begins the next group
 * before it ends one. */
static inline char *write_list(char *p, const float *values, size_t n, size_t width) {
    decimals next = decide(load_singles(values));
    size_t left = width; /* numbers left in this row; width 0 never ends one */
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
