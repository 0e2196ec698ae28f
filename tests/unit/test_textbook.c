/* The textbook's attention of lib/attention/README.md: it is the text that stands there, and
 * computes what the library computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/normal_tensor.h"
#include "unit/trials.h"

/* textbook: begin */
#include <math.h>

enum { ROWS = 48, KEYS = 128 }; /* of a tile */

static float tile[ROWS][KEYS], max[ROWS], sum[ROWS], factor[ROWS];

/* score: tile [rows, n] = scale q [rows, E] k [n, E]^T. (kernels: score) */
static void score(const float *q, const float *k, size_t rows, size_t n, size_t E, float scale) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            tile[r][j] = 0;
            for (size_t e = 0; e < E; e++)
                tile[r][j] += q[r * E + e] * k[j * E + e];
            tile[r][j] *= scale;
        }
}

/* edit: a causal mask. Query i sees keys up to i. (mask/mask_read.c, kernels: edit) */
static void edit(size_t i0, size_t j0, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            if (j0 + j > i0 + r)
                tile[r][j] = -INFINITY;
}

/* softmax so far: the tile becomes numerators of the running maximum. (kernels: softmax) */
static void softmax(size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++) {
        float before = max[r];
        for (size_t j = 0; j < n; j++)
            max[r] = fmaxf(max[r], tile[r][j]);
        factor[r] = before == -INFINITY ? 0 : expf(before - max[r]);
        sum[r] *= factor[r];
        for (size_t j = 0; j < n; j++) {
            tile[r][j] = max[r] == -INFINITY ? 0 : expf(tile[r][j] - max[r]);
            sum[r] += tile[r][j];
        }
    }
}

/* accumulate: acc [rows, Ev] = factor acc + tile v [n, Ev]. (kernels: accumulate) */
static void accumulate(float *acc, const float *v, size_t rows, size_t n, size_t Ev) {
    for (size_t r = 0; r < rows; r++)
        for (size_t e = 0; e < Ev; e++) {
            acc[r * Ev + e] *= factor[r];
            for (size_t j = 0; j < n; j++)
                acc[r * Ev + e] += tile[r][j] * v[j * Ev + e];
        }
}

/* One block of queries of one head against all keys: out [rows, Ev], lse [rows].
 * (tile_pass.c: attn_block_stream; forward_rows.c: attn_forward_begin and _end) */
static void attend(const float *q, const float *k, const float *v, size_t i0, size_t rows, size_t S,
                   size_t E, size_t Ev, float scale, float *out, float *lse) {
    for (size_t r = 0; r < rows; r++)
        max[r] = -INFINITY, sum[r] = 0;
    for (size_t e = 0; e < rows * Ev; e++)
        out[e] = 0;
    for (size_t j0 = 0; j0 < S; j0 += KEYS) {
        size_t n = S - j0 < KEYS ? S - j0 : KEYS;
        score(q, k + j0 * E, rows, n, E, scale);
        edit(i0, j0, rows, n);
        softmax(rows, n);
        accumulate(out, v + j0 * Ev, rows, n, Ev);
    }
    for (size_t r = 0; r < rows; r++) {
        lse[r] = max[r] + logf(sum[r]);
        for (size_t e = 0; e < Ev; e++)
            out[r * Ev + e] /= sum[r];
    }
}
/* textbook: end */

enum { TRIALS = 30, LIMIT = 1 << 26 };

static void compare(uint64_t seed) {
    attn_arena *arena = attn_arena_new(LIMIT);
    assert_non_null(arena);
    const size_t H = 1 + attn_rng_bits(seed, 0) % 3, L = 1 + attn_rng_bits(seed, 1) % 200;
    const size_t S = 1 + attn_rng_bits(seed, 2) % 400, E = 1 + attn_rng_bits(seed, 3) % 70;
    const size_t Ev = 1 + attn_rng_bits(seed, 4) % 70;
    attn_inputs in = attn_attention_defaults();
    in.query = NORMAL_TENSOR(arena, 3 * seed, 1, H, L, E);
    in.key = NORMAL_TENSOR(arena, 3 * seed + 1, 1, H, S, E);
    in.value = NORMAL_TENSOR(arena, 3 * seed + 2, 1, H, S, Ev);
    in.mask.count = 1;
    in.mask.layers[0] = (attn_mask_layer){.kind = ATTN_LAYER_CAUSAL, .where = "causal"};
    attn_attention *a;
    attn_results found;
    attn_error err;
    float *out = attn_arena_zeroed(arena, ROWS * Ev, sizeof *out), lse[ROWS];
    if (attn_attention_new(&in, arena, &a, &err) ||
        attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_LOGSUMEXP, ATTN_STAGE_RAW, NULL, NULL,
                           arena, &found, &err))
        fail_msg("trial %llu: %s: %s", (unsigned long long)seed, err.where, err.text);
    const float *q = in.query.data, *k = in.key.data, *v = in.value.data;
    const float *output = found.output.data, *logsumexp = found.logsumexp.data;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < L; i += ROWS) {
            const size_t rows = L - i < ROWS ? L - i : ROWS, row = h * L + i;
            attend(q + row * E, k + h * S * E, v + h * S * Ev, i, rows, S, E, Ev,
                   (float)attn_attention_scale(a), out, lse);
            for (size_t e = 0; e < rows * Ev; e++)
                assert_true(fabsf(out[e] - output[row * Ev + e]) < 1e-4f);
            for (size_t r = 0; r < rows; r++)
                assert_true(fabsf(lse[r] - logsumexp[row + r]) < 1e-4f);
        }
    attn_arena_free(arena);
}

static void test_same_as_the_library(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++)
        compare(seed);
}

/* What stands in a file between two lines; the caller frees it. */
static char *between(const char *path, const char *begin, const char *end) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 17);
    assert_true(file && text);
    assert_true(fread(text, 1, (1 << 17) - 1, file) > 0);
    fclose(file);
    char *from = strstr(text, begin), *to = from ? strstr(from + strlen(begin), end) : NULL;
    if (!to)
        fail_msg("%s has no text between \"%s\" and \"%s\"", path, begin, end);
    *to = 0;
    memmove(text, from + strlen(begin), (size_t)(to - from) - strlen(begin) + 1);
    return text;
}

/* From the project's folder, where tests run. */
static void test_stands_in_the_readme(void **state) {
    (void)state;
    char *here =
        between("tests/unit/test_textbook.c", "/* textbook: begin */\n", "/* textbook: end */");
    char *there = between("lib/attention/README.md", "```c\n", "```");
    assert_string_equal(here, there);
    free(here);
    free(there);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_the_library),
                                       cmocka_unit_test(test_stands_in_the_readme)};
    return cmocka_run_group_tests_name("textbook", tests, NULL, NULL);
}
