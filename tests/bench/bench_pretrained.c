/* One model that people know, for tests/bench/pretrained.py. It reads lines from its input and
 * answers each with a number:
 *
 *   prefill N   milliseconds of a pass over N tokens that keeps every layer for lazy looks, with
 *               logits of the last token
 *   decode N M  milliseconds a token of M tokens that are generated after N
 *   memory      most kilobytes that were resident
 *
 * Milliseconds are processor time of the thread, which other programs do not lengthen. */
#include <attn/attn.h>
#include <attn/known_model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 8192, LEAST_ID = 1000, IDS = 20000 };

typedef struct bench {
    attn_known_model known;
    attn_arena *arena;
    int32_t ids[LONGEST];
    double begun, ended; /* of the tokens that are generated */
    size_t generated;
} bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(attn_status status, const attn_error *err) {
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", err->where, err->text);
    exit(1);
}

/* Kilobytes. Not getrusage's, in which the parent's count before exec. */
static double most_resident(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long most = 0;
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %ld", &most) != 1)
        continue;
    if (status)
        fclose(status);
    return (double)most;
}

/* Keeps one block for the next pass, and not beside it the blocks of the one before. */
static void reset(attn_arena *arena) {
    attn_arena_reset(arena);
    attn_block_trim(0);
}

static double prefill(bench *b, size_t n) {
    const attn_model_config *config = attn_model_configuration(b->known.model);
    const bool encodes = config->architecture == ATTN_MODEL_ENCODER;
    const int64_t length = (int64_t)n;
    const attn_batch batch = {.B = 1,
                              .S = encodes ? n : 0,
                              .T = encodes ? 0 : n,
                              .source = b->ids,
                              .source_lengths = &length,
                              .target = b->ids};
    const attn_forward_options options = {
        .keep = ATTN_KEEP_OPERATIONS, .last_logits = 1, .no_logits = encodes};
    attn_model_outputs out;
    attn_error err;
    reset(b->arena);
    const double start = now();
    check(attn_model_forward(b->known.model, &batch, &options, b->arena, NULL, NULL, &out, &err),
          &err);
    return now() - start;
}

static int each_token(void *ctx, const attn_generated_token *token) {
    bench *b = ctx;
    b->ended = now();
    if (b->generated++ == 0)
        b->begun = b->ended;
    (void)token;
    return 0;
}

static double decode(bench *b, size_t n, size_t more) {
    attn_generate_options options = attn_generate_defaults();
    const int64_t length = (int64_t)n;
    attn_generated out;
    attn_error err;
    options.most = more + 1;
    options.token = each_token;
    options.ctx = b;
    b->generated = 0;
    reset(b->arena);
    check(attn_model_generate(b->known.model, b->ids, &length, 1, n, &options, b->arena, NULL, NULL,
                              &out, &err),
          &err);
    return (b->ended - b->begun) / (double)(b->generated - 1);
}

static double answer(bench *b, const char *line) {
    size_t n, more;
    if (sscanf(line, "prefill %zu", &n) == 1 && n && n <= LONGEST)
        return prefill(b, n);
    if (sscanf(line, "decode %zu %zu", &n, &more) == 2 && n && more && n + more < LONGEST)
        return decode(b, n, more);
    if (!strncmp(line, "memory", 6))
        return most_resident();
    fprintf(stderr, "unknown line: %s", line);
    exit(2);
}

int main(int argc, char **argv) {
    static bench b;
    char line[256];
    attn_error err;
    if (argc != 2) {
        fprintf(stderr, "usage: bench_pretrained MODEL\n");
        return 2;
    }
    check(attn_known_open(argv[1], &b.known, &err), &err);
    if (!(b.arena = attn_arena_new((size_t)8 << 30)))
        return 1;
    for (size_t i = 0; i < LONGEST; i++)
        b.ids[i] = (int32_t)(LEAST_ID + i * 7919 % IDS);
    while (fgets(line, sizeof line, stdin)) {
        printf("%.4f\n", answer(&b, line));
        fflush(stdout);
    }
    attn_arena_free(b.arena);
    attn_known_close(&b.known);
    return 0;
}
