/* The long form of the number tests, run by hand: what unit tests sample, this does over all.
 *
 *   sweep_numbers all            every float32 through the list writer, equal to attn_write_f32's
 *                                text, and back through the list reader, bit for bit
 *   sweep_numbers strtof MILLIONS SEED   random texts through attn_read_singles, _f32 and _f64
 *                                beside strtof and strtod
 *
 * Exit code 1 at the first difference. */
#include <attn/attn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number/number.h"

enum { RUN = 4096, TEXT = 128 };

static void fail(const char *what, const char *text, double got) {
    fprintf(stderr, "%s: %.200s gave %a\n", what, text, got);
    exit(1);
}

/* RUN floats from `first` on as a list and back. */
static void round_trip(uint32_t first) {
    static char text[64 + RUN * (ATTN_NUMBER_TEXT + 1) + 64];
    static float values[RUN], back[RUN];
    char one[ATTN_NUMBER_TEXT + 1];
    char *start = text + 64;
    memset(text, ' ', 64);
    for (uint32_t i = 0; i < RUN; i++) {
        uint32_t bits = first + i;
        memcpy(&values[i], &bits, sizeof bits);
    }
    char *end = attn_write_singles(start, values, RUN);
    if (!isfinite(values[0])) { /* runs are either all finite or none */
        for (const char *p = start; p < end; p += 5)
            if (memcmp(p, "null,", 5) != 0)
                fail("writing", p, (double)values[0]);
        return;
    }
    const char *p = start;
    for (int i = 0; i < RUN; i++) {
        char *after = attn_write_f32(one, values[i]);
        size_t n = (size_t)(after - one);
        if (memcmp(p, one, n) != 0 || p[n] != ',')
            fail("writing", p, (double)values[i]);
        p += n + 1;
    }
    end[-1] = ']';
    memset(end, 0, 64);
    size_t count = 0;
    bool comma;
    const char *stopped = attn_read_singles(start, text, end + 32, back, RUN, &count, &comma);
    if (count != RUN || stopped != end - 1 || memcmp(values, back, sizeof back) != 0)
        fail("reading back", start, (double)values[0]);
}

static uint64_t random_bits(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A text of one of several kinds, NUL-terminated. */
static void make_text(char text[TEXT], uint64_t *state) {
    uint64_t r = random_bits(state), s = random_bits(state);
    uint32_t bits = (uint32_t)r & 0x7F7FFFFF, next = bits + 1;
    float f, g;
    memcpy(&f, &bits, sizeof f);
    memcpy(&g, &next, sizeof g);
    const char *sign = r >> 63 ? "-" : "";
    switch (s % 7) {
    case 0:
        snprintf(text, TEXT, "%s%.*e", sign, (int)(s >> 32) % 32, (double)f);
        break;
    case 1:
        snprintf(text, TEXT, "%s%.*f", sign, (int)(s >> 32) % 25, (double)(r >> 40) * 1e-7);
        break;
    case 2: /* near 1, around the middle of two floats */
        snprintf(text, TEXT, "%s%.*f", sign, 6 + (int)(s >> 32) % 25,
                 (1 + ((double)(r >> 41 << 1) + 1) * 0x1p-24) * ldexp(1, (int)(s >> 40) % 9 - 4));
        break;
    case 3: /* the middle of any two neighbours */
        snprintf(text, TEXT, "%s%.*e", sign, 15 + (int)(s >> 32) % 15, ((double)f + (double)g) / 2);
        break;
    case 4:
        snprintf(text, TEXT, "%s%llu.%llu", sign, (unsigned long long)(s >> 32) % 1000,
                 (unsigned long long)r >> (s >> 42) % 60);
        break;
    case 5:
        snprintf(text, TEXT, "%s%llu%llue%d", sign, (unsigned long long)r | 1,
                 (unsigned long long)s, (int)(s >> 32) % 120 - 80);
        break;
    default: /* subnormals */
        bits &= 0x7FFFFF;
        memcpy(&f, &bits, sizeof f);
        snprintf(text, TEXT, "%s%.*e", sign, (int)(s >> 32) % 30, (double)f);
    }
}

static void beside_strtof(uint64_t *state) {
    char text[64 + TEXT + 64], *start = text + 64;
    float list = 0, single = 0;
    double twice = 0;
    size_t count = 0;
    bool comma;
    memset(text, ' ', sizeof text);
    make_text(start, state);
    size_t n = strlen(start);
    float right = strtof(start, NULL);
    double right_twice = strtod(start, NULL);
    attn_read_f32(start, start + n, &single);
    attn_read_f64(start, start + n, &twice);
    start[n] = ']';
    attn_read_singles(start, text, start + n + 40, &list, 1, &count, &comma);
    start[n] = 0;
    if (memcmp(&right, &single, sizeof right) != 0)
        fail("f32", start, (double)single);
    if (memcmp(&right_twice, &twice, sizeof twice) != 0)
        fail("f64", start, twice);
    if (isfinite(right) ? count != 1 || memcmp(&right, &list, sizeof right) != 0 : count != 0)
        fail("list", start, (double)list);
}

int main(int argc, char **argv) {
    int64_t start = attn_now_ns();
    if (argc == 2 && strcmp(argv[1], "all") == 0) {
        for (uint64_t first = 0; first <= UINT32_MAX; first += RUN)
            round_trip((uint32_t)first);
        printf("4294967296 float32 values");
    } else if (argc == 4 && strcmp(argv[1], "strtof") == 0) {
        uint64_t state = strtoull(argv[3], NULL, 10) | 1;
        long long texts = atoll(argv[2]) * 1000000;
        for (long long i = 0; i < texts; i++)
            beside_strtof(&state);
        printf("%lld texts", texts);
    } else {
        fprintf(stderr, "usage: sweep_numbers all | strtof MILLIONS SEED\n");
        return 2;
    }
    printf(" in %.0f s, no difference\n", (double)(attn_now_ns() - start) * 1e-9);
    return 0;
}
