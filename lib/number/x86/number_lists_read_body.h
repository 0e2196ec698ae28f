/* Reads lists of float32 from text, for any vector width. It classifies 64 bytes at a time, loads
 * the digits of LANES numbers into the lanes of vectors, and converts them to floats. The .c file
 * of an instruction set defines LANES, the types mark (a byte in all lanes) and block (64 bytes),
 * and hidden, load, equal, digits_of and gather. It then includes this file and defines
 * convert_plain and convert.
 *
 * An exponent, a number without a point or other text ends the run before it. The value is computed
 * as in number_lists.c, but with a factor 10^-n, whose error adds one unit in the last place. The
 * relative error by omitted digits is at most 1 / w. If these errors could change the float,
 * attn_read_f32 reads the number again. */

enum {
    BLOCK = 64,
    IN_BLOCK = 16, /* numbers in a block at most: "0.5," */
    FOUND = 64,    /* numbers that are converted together */
    DIGITS = 15    /* digits of a number; with the point 16 bytes */
};

/* Numbers that were found but not yet converted. Many are converted together, so that search and
 * conversion are separate loops. */
typedef struct places {
    uint64_t point[FOUND + IN_BLOCK], stop[FOUND + IN_BLOCK]; /* addresses of '.' and of the end */
    uint64_t before[FOUND + IN_BLOCK];                        /* digits before the point */
    uint64_t minus;                                           /* bit i: number i is negative */
    size_t count;
    bool plain;                   /* all of before[] would be 1, and are not stored */
    uint8_t doubt[FOUND / LANES]; /* bit i of group g: number LANES g + i must be read again */
} places;

typedef struct marks {
    mark comma, bracket, minus, point, blank, zero;
} marks;

/* Converts LANES numbers of the form d.d…d from place `at` on into `out`. false: a number has too
 * many digits. */
static inline bool convert_plain(places *found, size_t at, float *out);
/* Converts LANES numbers with any digits before the point. If the integer of the other digits is at
 * least 2^33, omitted digits weigh less than 2^20 units in the double's last place. false: a number
 * has too many digits before the point, or one has two points and another none. */
static bool convert(places *found, size_t at, float *out);

/* Writes the address of each of the n set bits. It may write up to IN_BLOCK elements. */
static inline void put_places(uint64_t *to, const char *p, uint64_t bits, size_t n) {
    for (size_t i = 0; i < 6; i++, bits &= bits - 1) /* usually six begin in a block */
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
    for (size_t i = 6; i < n; i++, bits &= bits - 1)
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
}

/* Counts the digits before each point, for blocks with other numbers than d.d. false: a number has
 * no point or several points, or begins with 0 and a further digit. */
static __attribute__((noinline)) bool count_before(places *found, size_t n, uint64_t first,
                                                   uint64_t point, uint64_t stop, uint64_t longer) {
    if (first & longer || n != (size_t)_mm_popcnt_u64(point))
        return false;
    for (size_t i = 0; found->plain && i < found->count; i++)
        found->before[i] = 1;
    found->plain = false;
    for (size_t i = 0; i < n; i++) {
        uint64_t from = _tzcnt_u64(first), at = _tzcnt_u64(point);
        if (at <= from || at >= _tzcnt_u64(stop))
            return false;
        found->before[found->count + i] = at - from;
        first &= first - 1;
        point &= point - 1;
        stop &= stop - 1;
    }
    return true;
}

/* Finds the numbers from p on that end within the block. Returns the byte after the last, or NULL
 * if there is none, a byte belongs to no number, or there would be more than `room`. */
static inline const char *find_block(const marks *m, const char *p, places *found, size_t room,
                                     bool *closed) {
    const block bytes = load(p);
    const uint64_t digit = digits_of(bytes);
    const uint64_t blank = equal(bytes, m->blank), minus = equal(bytes, m->minus);
    const uint64_t points = equal(bytes, m->point), bracket = _blsi_u64(equal(bytes, m->bracket));
    uint64_t stop = (equal(bytes, m->comma) & (bracket - 1)) | bracket, bad = 0;
    uint64_t begin, first, point;
    do {
        stop &= _blsi_u64(bad) - 1; /* keeps only ends before the first bad byte */
        if (!stop)
            return NULL;
        uint64_t in = UINT64_MAX >> _lzcnt_u64(stop), start = (stop << 1 | 1) & in;
        point = points & in;
        begin = start + (start & blank); /* adding a bit to itself shifts it by one */
        first = begin + (begin & minus);
        bad = in & ~(digit | point | stop | (minus & begin) | (blank & start));
        bad |= (first | point << 1) & ~digit;
    } while (__builtin_expect(bad != 0, 0));
    size_t n = (size_t)_mm_popcnt_u64(stop);
    if (found->count + n > room)
        return NULL;
    if ((first << 1 != point || !found->plain) &&
        !count_before(found, n, first, point, stop, equal(bytes, m->zero) & digit >> 1))
        return NULL;
    put_places(found->point + found->count, p, point, n);
    put_places(found->stop + found->count, p, stop, n);
    found->minus |= gather(minus, begin, n) << found->count;
    found->count += n;
    *closed = (bracket & stop) != 0;
    return p + 64 - _lzcnt_u64(stop);
}

static inline const char *begin_of(const places *found, size_t i) {
    uint64_t before = found->plain ? 1 : found->before[i];
    return (const char *)(uintptr_t)(found->point[i] - before) - (found->minus >> i & 1);
}

static inline bool convert_group(places *found, size_t at, float *out) {
    return (found->plain && convert_plain(found, at, out)) || convert(found, at, out);
}

/* Converts fewer than LANES numbers at the end. The other lanes repeat the last number. */
static inline bool convert_rest(places *found, size_t at, float *out) {
    float some[LANES];
    size_t n = found->count;
    for (size_t i = n; i < at + LANES; i++) {
        found->point[i] = found->point[n - 1];
        found->stop[i] = found->stop[n - 1];
        found->before[i] = found->plain ? 1 : found->before[n - 1];
    }
    if (!convert_group(found, at, some))
        return false;
    memcpy(out, some, (n - at) * sizeof some[0]);
    found->doubt[at / LANES] &= (uint8_t)((1u << (n - at)) - 1);
    return true;
}

/* Converts whole groups, and if `last` also the rest. Returns the number of valid numbers. */
static inline size_t convert_all(places *found, bool last, float *out, const char *end) {
    size_t n = found->count, full = n - n % LANES, done = 0;
    unsigned doubts = 0;
    for (; done < full && convert_group(found, done, out + done); done += LANES)
        doubts |= found->doubt[done / LANES];
    if (last && done == full && full < n && convert_rest(found, full, out + full)) {
        doubts |= found->doubt[full / LANES];
        done = n;
    }
    for (size_t g = 0; doubts && g < done; g += LANES)
        for (unsigned doubt = found->doubt[g / LANES]; doubt; doubt &= doubt - 1) {
            size_t i = g + (size_t)_tzcnt_u32(doubt);
            attn_read_f32(begin_of(found, i), end, &out[i]);
        }
    return done;
}

/* Moves the numbers after the last whole group, fewer than LANES, to the beginning. */
static inline void keep_rest(places *found, size_t done) {
    memmove(found->point, found->point + done, LANES * sizeof found->point[0]);
    memmove(found->stop, found->stop + done, LANES * sizeof found->stop[0]);
    if (!found->plain)
        memmove(found->before, found->before + done, LANES * sizeof found->before[0]);
    found->minus = done < FOUND ? found->minus >> done : 0;
    found->count -= done;
}

static inline size_t read_list(const char *p, const char *end, float *out, size_t room,
                               const char **next, bool *closed) {
    const marks m = {.comma = hidden(','),
                     .bracket = hidden(']'),
                     .minus = hidden('-'),
                     .point = hidden('.'),
                     .blank = hidden(' '),
                     .zero = hidden('0')};
    places found;
    size_t done = 0;
    bool more = true;
    found.count = 0;
    found.minus = 0;
    found.plain = true;
    *closed = false;
    while (more && !*closed) {
        size_t most = room - done < FOUND ? room - done : FOUND;
        while (more && !*closed && found.count + IN_BLOCK <= FOUND) {
            const char *after = end - p >= BLOCK ? find_block(&m, p, &found, most, closed) : NULL;
            more = after != NULL;
            p = more ? after : p;
        }
        bool last = !more || *closed;
        size_t good = convert_all(&found, last, out + done, end);
        done += good;
        if (good < (last ? found.count : found.count - found.count % LANES)) {
            *next = begin_of(&found, good); /* returns to the number of another form */
            *closed = false;
            return done;
        }
        keep_rest(&found, good);
    }
    *next = *closed ? p - 1 : p;
    return done;
}
