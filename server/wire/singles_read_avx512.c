/* Lists of float32 from text with AVX-512: 64 bytes are classified at once, the places of eight
 * numbers become eight digit strings in the lanes of vectors, and those eight floats.
 *
 * What bit masks cannot decide (an exponent, a number without a point, something that is no number)
 * ends the run before it. The value is found as singles_read.c finds it, here with 10^-n, whose
 * error adds one unit of the last place; digits that were left out weigh at most 1 / w of it. Where
 * that could matter, srv_read_f32 reads the number once more. */
#include <immintrin.h>
#include <string.h>

#include "wire/number.h"
#include "wire/singles_avx512.h"

enum {
    LANES = 8,
    BLOCK = 64,
    IN_BLOCK = 16, /* numbers of one block at most: "0.5," */
    FOUND = 64,    /* numbers at a time */
    DIGITS = 15    /* of a number, with its point in 16 bytes */
};

/* Numbers that were found but not converted. They are converted together when many are there, so
 * that neither loop is interrupted by the other. */
typedef struct places {
    uint64_t point[FOUND + IN_BLOCK], stop[FOUND + IN_BLOCK]; /* addresses of '.' and of the end */
    uint64_t before[FOUND + IN_BLOCK];                        /* digits before the point */
    uint64_t minus;                                           /* bit i: number i is negative */
    size_t count;
    bool plain;                   /* all of before[] are 1, and are not there */
    uint8_t doubt[FOUND / LANES]; /* bit i of group g: number 8 g + i must be read once more */
} places;

/* Bytes to compare with. GCC would make each anew in every turn of the loop, were they not hidden
 * from it. */
typedef struct marks {
    __m512i comma, bracket, minus, point, blank, zero, ten;
} marks;

static inline __m512i hidden(char c) {
    __m512i bytes = _mm512_set1_epi8(c);
    __asm__("" : "+v"(bytes));
    return bytes;
}

/* The same goes for results, of which it would make each comparison wait for the one before. */
static inline uint64_t equal(__m512i bytes, __m512i mark) {
    uint64_t mask = _mm512_cmpeq_epi8_mask(bytes, mark);
    __asm__("" : "+r"(mask));
    return mask;
}

/* The address of each of the n set bits; IN_BLOCK may be written. */
static inline void put_places(uint64_t *to, const char *p, uint64_t bits, size_t n) {
    for (size_t i = 0; i < 6; i++, bits &= bits - 1) /* of usual length no more begin in a block */
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
    for (size_t i = 6; i < n; i++, bits &= bits - 1)
        to[i] = (uint64_t)(uintptr_t)p + (uint64_t)_tzcnt_u64(bits);
}

/* Other numbers than d.d are among the n of the block: how many digits stand before each point.
 * false: one has no point or several, or a zero at its beginning and more before the point. */
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

/* Find the numbers that begin at p and end within the block. Returns the byte behind the last, or
 * NULL when there is none, some byte is none of theirs, or more than `room` would be there. */
static inline const char *find_block(const marks *m, const char *p, places *found, size_t room,
                                     bool *closed) {
    const __m512i bytes = _mm512_loadu_si512(p);
    uint64_t digit =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
    const uint64_t blank = equal(bytes, m->blank), minus = equal(bytes, m->minus);
    const uint64_t points = equal(bytes, m->point), bracket = _blsi_u64(equal(bytes, m->bracket));
    uint64_t stop = (equal(bytes, m->comma) & (bracket - 1)) | bracket, bad = 0;
    uint64_t begin, first, point;
    do {
        stop &= _blsi_u64(bad) - 1; /* what comes before the first bad byte may do */
        if (!stop)
            return NULL;
        uint64_t in = UINT64_MAX >> _lzcnt_u64(stop), start = (stop << 1 | 1) & in;
        point = points & in;
        begin = start + (start & blank); /* the sum of one bit with itself is the next */
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
    found->minus |= _pext_u64(minus, begin) << found->count;
    found->count += n;
    *closed = (bracket & stop) != 0;
    return p + 64 - _lzcnt_u64(stop);
}

/* The KEPT bytes before four places each; `odd`: numbers 1, 3, 5, 7, else 0, 2, 4, 6. */
static inline __m512i load_four(const uint64_t *stop, int odd) {
    const __m128i *a = (const void *)(uintptr_t)stop[odd];
    const __m128i *b = (const void *)(uintptr_t)stop[2 + odd];
    const __m128i *c = (const void *)(uintptr_t)stop[4 + odd];
    const __m128i *d = (const void *)(uintptr_t)stop[6 + odd];
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128(a - 1));
    all = _mm512_inserti32x4(all, _mm_loadu_si128(b - 1), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128(c - 1), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128(d - 1), 3);
}

/* Is byte k of lane i among the last n[2 i + odd] of its lane? */
static inline __mmask64 last_bytes(__m512i n, int odd) {
    const __m512i from_behind =
        _mm512_broadcast_i32x4(_mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const __m512i even = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m512i pick = odd ? _mm512_add_epi32(even, _mm512_set1_epi32(2)) : even;
    __m512i spread = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(pick, n), _mm512_setzero_si512());
    return _mm512_cmplt_epu8_mask(from_behind, spread);
}

/* Digits as groups of four, in 32 bits each: the bytes with the point taken out, `all` of them. */
static inline __m512i four_digits(__m512i bytes, __mmask64 behind, __mmask64 all) {
    const __m512i here =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i one_before = _mm512_sub_epi8(here, _mm512_set1_epi8(1));
    bytes = _mm512_shuffle_epi8(bytes, _mm512_mask_mov_epi8(one_before, behind, here));
    bytes = _mm512_maskz_sub_epi8(all, bytes, _mm512_set1_epi8('0'));
    __m512i pairs = _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(10 | 1 << 8));
    return _mm512_madd_epi16(pairs, _mm512_set1_epi32(100 | 1 << 16));
}

#define ALL(x) _mm512_set1_epi64((int64_t)(x))

/* Both halves of four numbers' digits: w of all eight, in their order. */
static inline __m512i join(__m512i even, __m512i odd) {
    __m512i eights =
        _mm512_madd_epi16(_mm512_packus_epi32(even, odd), _mm512_set1_epi32(10000 | 1 << 16));
    return _mm512_add_epi64(_mm512_mul_epu32(eights, ALL(100000000)),
                            _mm512_srli_epi64(eights, 32));
}

/* (-1)^minus w / 10^n, n = 0 … 15, as floats. The lanes that are too near to the middle between two
 * are returned: nearer than `margin` units of the double's last place. */
static inline __mmask8 scale(__m512i w, __m512i n, __mmask8 minus, __m512i margin, float *out) {
    static const double powers[16] = {1e-0, 1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                      1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15};
    __m512d power = _mm512_permutex2var_pd(_mm512_loadu_pd(powers), n, _mm512_loadu_pd(powers + 8));
    __m512d wide = _mm512_mul_pd(_mm512_cvtepi64_pd(w), power);
    wide = _mm512_mask_xor_pd(wide, minus, wide, _mm512_set1_pd(-0.0));
    _mm256_storeu_ps(out, _mm512_cvtpd_ps(wide));
    __m512i rest = _mm512_and_si512(_mm512_castpd_si512(wide), ALL(0x1FFFFFFF));
    rest = _mm512_add_epi64(rest, _mm512_sub_epi64(margin, ALL(0x10000000)));
    return _mm512_cmplt_epu64_mask(rest, _mm512_slli_epi64(margin, 1));
}

/* Eight numbers of the form d.d…d from place `at` on. false: some have too many digits. */
static inline bool convert_plain(places *found, size_t at, float *out) {
    const uint64_t *stops = found->stop + at;
    __m512i behind =
        _mm512_sub_epi64(_mm512_loadu_si512(stops), _mm512_loadu_si512(found->point + at));
    behind = _mm512_sub_epi64(behind, ALL(1));
    if (_mm512_cmpgt_epi64_mask(behind, ALL(DIGITS - 1)))
        return false;
    /* one more than the digits behind the point; a lane's lowest bit is never 1, so none moves over
     */
    __mmask64 even = last_bytes(behind, 0), odd = last_bytes(behind, 1);
    __m512i w = join(four_digits(load_four(stops, 0), even, even | even >> 1),
                     four_digits(load_four(stops, 1), odd, odd | odd >> 1));
    found->doubt[at / LANES] = scale(w, behind, (__mmask8)(found->minus >> at), ALL(1 << 11), out);
    return true;
}

/* Any eight numbers. Digits that are left out, with at least 2^33 kept, are less than 2^20 units of
 * the double's last place. false: one of them has too many digits before the point, or one has two
 * points and another none. */
static __attribute__((noinline)) bool convert(places *found, size_t at, float *out) {
    _Alignas(64) uint64_t stops[LANES];
    const __m512i point = _mm512_loadu_si512(found->point + at);
    __m512i before = found->plain ? ALL(1) : _mm512_loadu_si512(found->before + at);
    __m512i behind = _mm512_sub_epi64(_mm512_loadu_si512(found->stop + at), point);
    behind = _mm512_sub_epi64(behind, ALL(1));
    __mmask8 good = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(before, ALL(1)), ALL(DIGITS - 1));
    good &= _mm512_cmplt_epu64_mask(_mm512_sub_epi64(behind, ALL(1)), ALL(BLOCK));
    if (good != 0xFF)
        return false;
    __m512i room = _mm512_sub_epi64(ALL(DIGITS), before);
    __mmask8 cut = _mm512_cmpgt_epi64_mask(behind, room);
    behind = _mm512_mask_mov_epi64(behind, cut, room);
    _mm512_store_si512(stops, _mm512_add_epi64(_mm512_add_epi64(point, behind), ALL(1)));
    __m512i all = _mm512_add_epi64(before, behind);
    __m512i w = join(four_digits(load_four(stops, 0), last_bytes(behind, 0), last_bytes(all, 0)),
                     four_digits(load_four(stops, 1), last_bytes(behind, 1), last_bytes(all, 1)));
    __m512i margin = _mm512_mask_mov_epi64(ALL(1 << 11), cut, ALL(1 << 20));
    found->doubt[at / LANES] = scale(w, behind, (__mmask8)(found->minus >> at), margin, out) |
                               _mm512_mask_cmplt_epu64_mask(cut, w, ALL(INT64_C(1) << 33));
    return true;
}

static inline const char *begin_of(const places *found, size_t i) {
    uint64_t before = found->plain ? 1 : found->before[i];
    return (const char *)(uintptr_t)(found->point[i] - before) - (found->minus >> i & 1);
}

static inline bool convert_group(places *found, size_t at, float *out) {
    return (found->plain && convert_plain(found, at, out)) || convert(found, at, out);
}

/* Fewer than eight at the end: the lanes behind them repeat the last. */
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

/* Whole groups, and the rest when nothing comes after it. Returns how many numbers are good. */
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
            srv_read_f32(begin_of(found, i), end, &out[i]);
        }
    return done;
}

/* What is not in a whole group yet, fewer than eight numbers, becomes the beginning. */
static inline void keep_rest(places *found, size_t done) {
    _mm512_storeu_si512(found->point, _mm512_loadu_si512(found->point + done));
    _mm512_storeu_si512(found->stop, _mm512_loadu_si512(found->stop + done));
    if (!found->plain)
        _mm512_storeu_si512(found->before, _mm512_loadu_si512(found->before + done));
    found->minus = done < FOUND ? found->minus >> done : 0;
    found->count -= done;
}

size_t srv_read_singles_avx512(const char *p, const char *end, float *out, size_t room,
                               const char **next, bool *closed) {
    const marks m = {.comma = hidden(','),
                     .bracket = hidden(']'),
                     .minus = hidden('-'),
                     .point = hidden('.'),
                     .blank = hidden(' '),
                     .zero = hidden('0'),
                     .ten = hidden(10)};
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
            *next = begin_of(&found, good); /* back to the number that has another form */
            *closed = false;
            return done;
        }
        keep_rest(&found, good);
    }
    *next = *closed ? p - 1 : p;
    return done;
}
