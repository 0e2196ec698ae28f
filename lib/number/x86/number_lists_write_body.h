/* Lists of float32 to text, written once for any vector width: the text of each number in 16 bytes
 * of its own. An instruction set's .c file includes this behind its search for the digits (LANES;
 * decimals, texts: of LANES numbers; load_singles, decide, make_texts, store_texts). */

static char *write_one(char *p, float value) {
    if (!isfinite(value))
        return (char *)memcpy(p, "null", 4) + 4;
    return attn_write_f32(p, value);
}

/* LANES texts, each with its comma; `others`: lanes that have none. */
static inline char *put_texts(char *p, const texts *t, unsigned others, const float *values) {
    _Alignas(64) char text[LANES][16]; /* of numbers 0, 2, … and then of 1, 3, … */
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

/* Each step of one group waits for the one before, so the next group is begun meanwhile. */
static inline char *write_list(char *p, const float *values, size_t n, size_t width) {
    decimals next = decide(load_singles(values));
    size_t left = width; /* of this row; 0 comes round to none */
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
