/* Lists of float32 on x86-64: the choice of the vector loops for AVX2 and AVX-512, and a reader for
 * any x86-64. Lists make up most bytes of JSON requests, so the reader converts a number with few
 * SSE2 instructions and one division.
 *
 * - The reader first searches the next 32 bytes for the ',' or ']' that ends the number. So the
 *   processor can start on the next number before this one is converted.
 * - Up to 3 digits before the point and up to 16 after it form an integer w < 10^18. With n digits
 *   after the point the number is w / 10^n. The error of this quotient in double precision is at
 *   most 2 units in the last place.
 * - If the double is at least 2^11 such units away from the midpoint of two floats, it rounds to
 *   the same float as the exact number.
 * - More digits after the point are omitted if w >= 2^43, since they then change the double by less
 *   than 2^10 units in the last place.
 * - attn_read_f32 reads all other numbers.
 *
 * With AVX2 or AVX-512 the reader first tries to read many numbers at a time
 * (number_lists_read_body.h). */
#include <emmintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "number/digits.h"
#include "number/number.h"
#include "number/number_lists.h"

/* Returns the vector loops to use: ATTN_ISA_AVX512, ATTN_ISA_AVX2, or ATTN_ISA_REF for none. The
 * choice follows attn_isa_current. Both loops need BMI2 and LZCNT, too, and the AVX-512 loop needs
 * CD. LZCNT came with the same processors as BMI2. Not every compiler has a name for LZCNT here, so
 * the test for BMI2 stands for both. */
static attn_isa wide_isa(void) {
    const attn_isa isa = attn_kernels_current()->isa; /* emulated AMX may run on AVX2 */
    if (!__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return ATTN_ISA_REF;
    return isa == ATTN_ISA_AVX512 && !__builtin_cpu_supports("avx512cd") ? ATTN_ISA_AVX2 : isa;
}

size_t attn_singles_lanes(void) {
    attn_isa isa = wide_isa();
    return isa == ATTN_ISA_REF ? 0 : isa == ATTN_ISA_AVX512 ? 8 : 4;
}

char *attn_write_singles_wide(char *p, const float *values, size_t n, size_t width) {
    return wide_isa() == ATTN_ISA_AVX512 ? attn_write_singles_avx512(p, values, n, width)
                                         : attn_write_singles_avx2(p, values, n, width);
}

enum {
    AHEAD = 32, /* bytes in which read_near searches for the end of a number */
    /* largest number of digits after the point that are converted; 16 bytes are loaded at once */
    KEPT = 16,
    /* if the vector loop reads fewer numbers, its search costs more time than it saves */
    FEW = 16,
    ALONE = 1024 /* bytes that are then read number by number before the vector loop runs again */
};

static const double powers[] = {1e0, 1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};

/* The 16 bytes at keep_last + n are a mask of the last n of 16 bytes. */
static const uint8_t keep_last[32] = {0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
                                      0,   0,   0,   0,   0,   255, 255, 255, 255, 255, 255,
                                      255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

static inline __m128i load(const void *p) {
    return _mm_loadu_si128((const __m128i *)p);
}

static inline uint32_t mask32(__m128i low, __m128i high) {
    return (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high) << 16;
}

/* Sets each byte that is a digit to 255. Adding 80 maps '0' … '9' to the ten smallest signed bytes,
 * -128 … -119. */
static inline __m128i is_digit(__m128i bytes) {
    return _mm_cmplt_epi8(_mm_add_epi8(bytes, _mm_set1_epi8(80)), _mm_set1_epi8(-118));
}

static inline __m128i ends_number(__m128i bytes) {
    return _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(',')),
                        _mm_cmpeq_epi8(bytes, _mm_set1_epi8(']')));
}

/* Returns 16 - n zeros followed by the n <= 16 bytes before `last`, each minus '0'. */
static inline __m128i bytes_before(const char *last, size_t n) {
    return _mm_and_si128(_mm_sub_epi8(load(last - KEPT), _mm_set1_epi8('0')), load(keep_last + n));
}

/* Converts sixteen bytes 0 … 9 to an integer. It joins neighbouring digits to numbers of two
 * digits, then of four, then of eight. */
static inline int64_t integer_of(__m128i bytes) {
    __m128i weight = _mm_set1_epi16(2561);
    __asm__("" : "+x"(weight)); /* keeps GCC from using shifts and additions */
    /* An element is first + 256 * second. Times 10 * 256 + 1, its upper byte is 10 * first +
     * second. */
    __m128i pairs = _mm_srli_epi16(_mm_mullo_epi16(bytes, weight), 8);
    __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 | 1 << 16));
    __m128i eights = _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(10000 | 1 << 16));
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(eights);
    return (int64_t)((uint32_t)both * UINT64_C(100000000) + (both >> 32));
}

/* Converts the n <= 3 digits before the point. */
static inline int64_t whole_part(const char *p, size_t n) {
    int64_t w = p[0] - '0';
    for (size_t i = 1; i < n; i++)
        w = w * 10 + (p[i] - '0');
    return w;
}

/* Computes w / 10^n as a float, negative if `sign` is 1. Returns false if the double is nearer than
 * 2^11 units in its last place to the midpoint of two floats. */
static inline bool divide(int64_t w, size_t n, uint32_t sign, float *out) {
    double wide = (double)w / powers[n];
    float value = (float)wide;
    uint64_t bits;
    uint32_t single;
    memcpy(&bits, &wide, sizeof bits);
    memcpy(&single, &value, sizeof single);
    single |= sign << 31;
    memcpy(out, &single, sizeof single);
    return ((uint32_t)bits & 0x1FFFFFFF) - (0x10000000u - 2048) >= 4096;
}

/* Reads the number at p if it has the most frequent form: one digit before the point, and ',' or
 * ']' within 16 bytes. Returns the position after it, or NULL for other forms. */
static inline const char *read_short(const char *p, float *out) {
    uint32_t stop = (uint32_t)_mm_movemask_epi8(ends_number(load(p)));
    if (!stop)
        return NULL;
    const char *last = p + __builtin_ctz(stop);
    uint32_t sign = *p == '-', first = (uint8_t)p[sign] - (uint32_t)'0';
    ptrdiff_t n = last - p - 2 - (ptrdiff_t)sign;
    if (p[sign + 1] != '.' || n < 1 || first > 9)
        return NULL;
    __m128i bytes = bytes_before(last, (size_t)n), nine = _mm_set1_epi8(9);
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, nine), nine)) != 0xFFFF)
        return NULL;
    return divide(integer_of(bytes) + (int64_t)(first * attn_tens[n]), (size_t)n, sign, out) ? last
                                                                                             : NULL;
}

/* Reads the number at p if it has 1 to 3 digits before the point, no exponent, and ',' or ']'
 * within AHEAD bytes. Returns the position after it, or NULL for other forms. */
static inline const char *read_near(const char *p, float *out) {
    __m128i low = load(p), high = load(p + 16);
    uint32_t stop = mask32(ends_number(low), ends_number(high));
    uint32_t digit = mask32(is_digit(low), is_digit(high));
    if (!stop)
        return NULL;
    size_t size = (size_t)__builtin_ctz(stop);
    uint32_t sign = *p == '-';
    const char *first = p + sign;
    size_t whole = 1;
    if (first[1] != '.') {
        whole += first[2] == '.' ? 1 : 2;
        if (first[whole] != '.' || *first == '0')
            return NULL;
    }
    uint32_t others = sign | 1u << (sign + whole);
    size_t n = size - sign - whole - 1; /* wraps to a large value if there is no point */
    if ((digit ^ ~others) & ((1u << size) - 1) || n - 1 >= AHEAD)
        return NULL;
    size_t most = KEPT - (whole == 3); /* keeps w below 2^63 */
    size_t kept = n < most ? n : most;
    int64_t w = integer_of(bytes_before(first + whole + 1 + kept, kept));
    w += whole_part(first, whole) * (int64_t)attn_tens[kept];
    if ((n > kept && w < (int64_t)1 << 43) || !divide(w, kept, sign, out))
        return NULL;
    return p + size;
}

/* Reads the number at p in any form. Returns the position after it, or NULL if there is no number
 * or it is infinite. If `fast`, KEPT bytes before p and AHEAD bytes from p on are readable, which
 * read_short and read_near need. */
static inline const char *read_one(const char *p, const char *end, bool fast, float *out) {
    const char *next = fast ? read_short(p, out) : NULL;
    if (!next && fast)
        next = read_near(p, out);
    if (!next)
        next = attn_read_f32(p, end, out);
    return next && isfinite(*out) ? next : NULL;
}

const char *attn_read_singles(const char *p, const char *start, const char *end, float *out,
                              size_t room, size_t *count, bool *comma) {
    const char *from = end - start >= KEPT + AHEAD ? start + KEPT : end, *to = end - AHEAD;
    attn_isa isa = wide_isa();
    const char *block = from; /* the vector loop is tried from this position on */
    size_t i = 0;
    bool closed = false;
    *comma = true;
    while (i < room) {
        if (isa != ATTN_ISA_REF && p >= block && room - i >= FEW) {
            size_t n = isa == ATTN_ISA_AVX512
                           ? attn_read_singles_avx512(p, end, out + i, room - i, &p, &closed)
                           : attn_read_singles_avx2(p, end, out + i, room - i, &p, &closed);
            i += n;
            if (n < FEW)
                block = end - p > ALONE ? p + ALONE : end;
            if (closed || i == room)
                break;
            p += *p == ' ';
        }
        const char *next = read_one(p, end, p >= from && p <= to, &out[i]);
        if (!next)
            break;
        p = next;
        i++;
        closed = *p != ',';
        if (closed)
            break;
        p++;
        if (*p == ' ')
            p++;
    }
    *comma = !closed;
    *count = i;
    return p;
}
