/* Reads lists of float32 from text, LANES numbers at a time.
 *
 * A first loop searches blocks of 64 bytes for the positions of numbers. A second loop loads the
 * digits of LANES numbers into the lanes of vectors and converts them to floats. Reading stops
 * before a number with an exponent or without a point, and before any other text. The value is
 * computed as in number_lists.c, but with the factor 10^-n instead of a division. The error of this
 * factor adds one unit in the last place. Digits that are omitted add a relative error of at most
 * 1/w. If these errors could change the float, attn_read_f32 reads the number again.
 *
 * The operations on vectors are those of lanes_*.h. The file that includes this one defines
 * NAME(x), x with a suffix for the instruction set. */
#include <string.h>

#include "number/number.h"
#include "number/number_lists.h"

enum {
    BLOCK = 64,    /* bytes that are searched at a time */
    IN_BLOCK = 16, /* largest number of numbers in a block: the shortest one, "0.5,", has 4 bytes */
    FOUND = 64,    /* largest number of numbers that are found before they are converted */
    /* largest number of digits of a number that are converted; 16 bytes with the point */
    DIGITS = 15
};

/* Numbers that were found but not yet converted. */
typedef struct places {
    uint64_t point[FOUND + IN_BLOCK];  /* address of the '.' of each number */
    uint64_t stop[FOUND + IN_BLOCK];   /* address of the ',' or ']' that ends it */
    uint64_t before[FOUND + IN_BLOCK]; /* number of digits before the point, if not `plain` */
    uint64_t minus;                    /* bit i: number i is negative */
    size_t count;
    bool plain;                   /* all numbers have one digit before the point */
    uint8_t doubt[FOUND / LANES]; /* bit i of doubt[g]: number LANES * g + i must be read again */
} places;

typedef struct marks {
    mark comma, bracket, minus, point, blank, zero;
} marks;

/* Writes the address p + i for each of the n <= IN_BLOCK set bits i. If n < 6, it writes 6
 * elements, of which the last have no meaning. A fixed count needs no branch, and a block usually
 * has at most six numbers. */
static inline void put_places(uint64_t *to, const char *p, uint64_t bits, size_t n) {
    for (size_t i = 0; i < 6; i++, bits &= bits - 1)
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
    for (size_t i = 6; i < n; i++, bits &= bits - 1)
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
}

/* Stores the number of digits before the point for the n numbers of a block in which not all have
 * one such digit. `first`, `point` and `stop` have bits at the first digits, points and ends of the
 * numbers, and `longer` at each '0' that a digit follows. Returns false if a number has no point or
 * several, or begins with 0 and a further digit. */
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

/* Adds to `found` the numbers that begin at p or later and end within the 64 bytes from p on, up to
 * the first byte that belongs to no number. *closed tells whether a ']' ends the last of them.
 * Returns the position after the ',' or ']' of the last, or NULL if it adds none. It also adds none
 * if `found` would have more than `room` numbers. */
static inline const char *find_block(const marks *m, const char *p, places *found, size_t room,
                                     bool *closed) {
    const block bytes = load_block(p);
    const uint64_t digit = find_digit(bytes);
    const uint64_t blank = find_mark(bytes, m->blank), minus = find_mark(bytes, m->minus);
    const uint64_t points = find_mark(bytes, m->point),
                   bracket = _blsi_u64(find_mark(bytes, m->bracket));
    uint64_t stop = (find_mark(bytes, m->comma) & (bracket - 1)) | bracket, bad = 0;
    uint64_t begin, first, point;
    do {
        stop &= _blsi_u64(bad) - 1; /* keeps only ends before the first bad byte */
        if (!stop)
            return NULL;
        uint64_t in = UINT64_MAX >> _lzcnt_u64(stop), start = (stop << 1 | 1) & in;
        point = points & in;
        begin = start + (start & blank); /* moves a bit at a blank to the next byte */
        first = begin + (begin & minus);
        bad = in & ~(digit | point | stop | (minus & begin) | (blank & start));
        bad |= (first | point << 1) & ~digit;
    } while (__builtin_expect(bad != 0, 0));
    size_t n = (size_t)_mm_popcnt_u64(stop);
    if (found->count + n > room)
        return NULL;
    if ((first << 1 != point || !found->plain) &&
        !count_before(found, n, first, point, stop, find_mark(bytes, m->zero) & digit >> 1))
        return NULL;
    put_places(found->point + found->count, p, point, n);
    put_places(found->stop + found->count, p, stop, n);
    found->minus |= gather_bits(minus, begin, n) << found->count;
    found->count += n;
    *closed = (bracket & stop) != 0;
    return p + 64 - _lzcnt_u64(stop);
}

/* --- converting --- */

/* Converts LANES numbers to integers. `stop` is the address after the last digit of each,
 * `behind` the number of digits after its point, and `all` the number of all digits; 16 bytes hold
 * the digits and the point. */
static inline lanes integers_of(const uint64_t stop[LANES], lanes behind, lanes all) {
    uint64_t from[LANES];
    store_lanes(from, load_lanes(stop) - ALL(16));
    lanes even =
        join_fours(digits_of(load_texts(from, 0), last_bytes(behind, 0), last_bytes(all, 0)));
    lanes odd =
        join_fours(digits_of(load_texts(from, 1), last_bytes(behind, 1), last_bytes(all, 1)));
    lanes eights = join_eights(even, odd);
    return times(eights, ALL(100000000)) + (eights >> 32);
}

/* Computes w / 10^n for n = 0 … 15 and w < 2^52 as floats, negative in lane i if bit i of `minus`
 * is set. Returns the lanes whose double is nearer than `margin` units in its last place to the
 * midpoint of two floats. */
static inline where scale(lanes w, lanes n, uint64_t minus, lanes margin, float *out) {
    static const double powers[16] = {1e-0, 1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                      1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15};
    const lanes exponent = ALL(0x4330000000000000); /* exponent of 2^52, whose last place is 1 */
    const lanes sign = shift_up(ALL(minus), ALL(63) - (lanes){ORDER}) & ALL(INT64_MIN);
    lanes bits = (lanes)(((reals)(w | exponent) - (reals)exponent) * negative_power(powers, n));
    store_floats(out, (reals)(bits ^ sign));
    lanes rest = (bits & ALL(0x1FFFFFFF)) + (margin - ALL(0x10000000));
    return without(more(margin + margin, rest), is_negative(rest));
}

/* Converts the LANES numbers of `found` from number `at` on into `out`. All of them must have one
 * digit before the point. Returns false if one has DIGITS or more digits after it. */
static inline bool convert_plain(places *found, size_t at, float *out) {
    const uint64_t *stops = found->stop + at;
    lanes behind = load_lanes(stops) - load_lanes(found->point + at) - ALL(1);
    if (any(more(behind, ALL(DIGITS - 1))))
        return false;
    lanes w = integers_of(stops, behind, behind + ALL(1));
    found->doubt[at / LANES] =
        (uint8_t)bits_of(scale(w, behind, found->minus >> at, ALL(1 << 11), out));
    return true;
}

/* Returns the lanes in which n is below 1 or above `most`. */
static inline where outside(lanes n, int64_t most) {
    return either(more(ALL(1), n), more(n, ALL(most)));
}

/* Converts LANES numbers as convert_plain does, but with any number of digits. It omits digits
 * after the first DIGITS. If these first digits are an integer of at least 2^33, the omitted ones
 * weigh less than 2^20 units in the last place of the double; else the number must be read again.
 * Returns false if a number has DIGITS or more digits before the point, or if one has two points
 * and another none. */
static __attribute__((noinline)) bool convert(places *found, size_t at, float *out) {
    uint64_t stops[LANES];
    const lanes point = load_lanes(found->point + at);
    lanes before = found->plain ? ALL(1) : load_lanes(found->before + at);
    lanes behind = load_lanes(found->stop + at) - point - ALL(1);
    if (any(either(outside(before, DIGITS - 1), outside(behind, BLOCK))))
        return false;
    lanes room = ALL(DIGITS) - before;
    where cut = more(behind, room);
    behind = choose(cut, room, behind);
    store_lanes(stops, point + behind + ALL(1));
    lanes w = integers_of(stops, behind, before + behind);
    where doubt =
        scale(w, behind, found->minus >> at, choose(cut, ALL(1 << 20), ALL(1 << 11)), out);
    where few = both(cut, more(ALL(INT64_C(1) << 33), w));
    found->doubt[at / LANES] = (uint8_t)bits_of(either(doubt, few));
    return true;
}

static inline const char *begin_of(const places *found, size_t i) {
    uint64_t before = found->plain ? 1 : found->before[i];
    return (const char *)(uintptr_t)(found->point[i] - before) - (found->minus >> i & 1);
}

static inline bool convert_group(places *found, size_t at, float *out) {
    return (found->plain && convert_plain(found, at, out)) || convert(found, at, out);
}

/* Converts the last numbers of a list, fewer than LANES. The unused lanes repeat the last one. */
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

/* Converts the found numbers in groups of LANES, and if `last`, also those after the last whole
 * group. It reads doubtful numbers again. Returns how many numbers it converted. It stops before a
 * group in which a number has too many digits. */
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

/* Removes the first `done` numbers. Fewer than LANES numbers are left. */
static inline void keep_rest(places *found, size_t done) {
    memmove(found->point, found->point + done, LANES * sizeof found->point[0]);
    memmove(found->stop, found->stop + done, LANES * sizeof found->stop[0]);
    if (!found->plain)
        memmove(found->before, found->before + done, LANES * sizeof found->before[0]);
    found->minus = done < FOUND ? found->minus >> done : 0;
    found->count -= done;
}

size_t NAME(attn_read_singles)(const char *p, const char *end, float *out, size_t room,
                               const char **next, bool *closed) {
    const marks m = {.comma = mark_of(','),
                     .bracket = mark_of(']'),
                     .minus = mark_of('-'),
                     .point = mark_of('.'),
                     .blank = mark_of(' '),
                     .zero = mark_of('0')};
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
            *next = begin_of(&found, good); /* the first number that was not converted */
            *closed = false;
            return done;
        }
        keep_rest(&found, good);
    }
    *next = *closed ? p - 1 : p;
    return done;
}
