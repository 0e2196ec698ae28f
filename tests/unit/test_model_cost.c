/* The cost of a pass bounds its memory, closely: forward passes, steps of training and searches with
 * random configurations and sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <attn/attn.h>

enum { RUNS = 60, WORDS = 40, MOST = 40, ROUNDING = 1 << 16 };

static const size_t LIMIT = (size_t)1 << 32;
static uint64_t drawn;

/* Returns a number from 0 to n - 1. */
static size_t below(size_t n) {
    return attn_rng_bits(17, drawn++) % n;
}

static bool coin(void) {
    return below(2);
}

static attn_model_config draw_stacks(attn_model_config c) {
    c.norm = below(2);
    c.activation = below(ATTN_MODEL_ACTIVATIONS);
    c.gated = coin();
    c.norm_kind = below(ATTN_MODEL_NORMS);
    c.bias = coin();
    c.embedding_norm = coin();
    c.num_kv_heads =
        coin() && c.positions != ATTN_MODEL_SHAW && c.num_heads % 2 == 0 ? c.num_heads / 2 : 0;
    c.feed_forward = coin() ? 3 * c.width : 0;
    if (c.architecture != ATTN_MODEL_DECODER)
        c.num_segments = coin() ? 3 : 0;
    if (c.architecture == ATTN_MODEL_ENCODER && coin())
        c.head = ATTN_MODEL_POOLED;
    c.tied = c.head == ATTN_MODEL_TOKENS && coin();
    return c;
}

static attn_model_config draw_config(void) {
    static const size_t widths[] = {16, 32, 64, 128}, heads[] = {1, 2, 4, 8};
    attn_model_config c = attn_model_defaults();
    c.architecture = (attn_model_architecture)below(ATTN_MODEL_ARCHITECTURES);
    do
        c.attention = (attn_model_attention)below(ATTN_MODEL_ATTENTIONS);
    while (c.architecture != ATTN_MODEL_SEQ2SEQ &&
           (c.attention == ATTN_MODEL_NONE ||
            (c.architecture != ATTN_MODEL_TRANSFORMER && c.attention >= ATTN_MODEL_DOT &&
             c.attention <= ATTN_MODEL_CONCAT)));
    do
        c.positions = (attn_model_positions)below(ATTN_MODEL_POSITIONS);
    while (c.architecture == ATTN_MODEL_SEQ2SEQ && c.positions >= ATTN_MODEL_ROTARY);
    c.width = widths[below(4)];
    c.num_heads = heads[below(4)];
    c.num_layers = 1 + below(3);
    c.source_vocabulary = c.target_vocabulary = WORDS + 400 * below(3);
    return c.architecture == ATTN_MODEL_SEQ2SEQ ? c : draw_stacks(c);
}

static int32_t *draw_ids(attn_arena *arena, size_t n, size_t from, size_t words) {
    int32_t *ids = attn_arena_zeroed(arena, n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(from + below(words));
    return ids;
}

static attn_batch draw_batch(const attn_model_config *c, bool hides, attn_arena *arena) {
    attn_batch b = {.B = 1 + below(24), .S = 1 + below(MOST), .T = 1 + below(MOST)};
    const bool reads = attn_model_has_encoder(c), writes = attn_model_has_decoder(c);
    int64_t *lengths = attn_arena_zeroed(arena, b.B, sizeof *lengths);
    uint8_t *keep = attn_arena_zeroed(arena, b.B, b.S);
    b.S = reads ? b.S : 0;
    b.T = writes ? b.T : 0;
    for (size_t i = 0; i < b.B; i++)
        lengths[i] = reads ? 1 + (int64_t)below(b.S) : 0;
    memset(keep, 1, b.B * b.S);
    b.source = reads ? draw_ids(arena, b.B * b.S, 4, WORDS - 4) : NULL;
    b.source_lengths = lengths;
    b.source_keep = hides && reads ? keep : NULL;
    b.target = writes ? draw_ids(arena, b.B * b.T, 4, WORDS - 4) : NULL;
    b.expected = draw_ids(arena, b.B * (writes ? b.T : b.S), 4, WORDS - 4);
    if (reads && writes) {
        float *alignment = attn_arena_zeroed(arena, b.B * b.T * b.S, sizeof *alignment);
        for (size_t i = 0; i < b.B * b.T; i++)
            alignment[i * b.S] = 1;
        b.alignment = alignment;
    }
    return b;
}

/* Checks that the bytes of a cost are at least those that a pass has taken, and about `most` times
 * as many at most. */
static void check(const char *what, const attn_model_config *c, const attn_batch *b,
                  const attn_model_cost *cost, size_t used, double most) {
    if (cost->bytes < (double)used || cost->bytes > most * (double)used + ROUNDING)
        fail_msg(
            "%s: counted %.0f, used %zu: %s, %s, %s, width %zu, %zu heads, %zu layers, B %zu, S "
            "%zu, T %zu",
            what, cost->bytes, used, attn_model_architectures[c->architecture],
            attn_model_attentions[c->attention], attn_model_position_names[c->positions], c->width,
            c->num_heads, c->num_layers, b->B, b->S, b->T);
}

static attn_model_pass pass_of(const attn_batch *b, const attn_model_config *c) {
    return (attn_model_pass){.B = attn_model_has_encoder(c) ? b->B : 0,
                             .S = b->S,
                             .rows = attn_model_has_decoder(c) ? b->B : 0,
                             .T = b->T,
                             .hides = b->source_keep,
                             .beams = 1};
}

/* Returns whether a forward pass works in so much memory. */
static bool passes(attn_model *model, const attn_batch *b, const attn_forward_options *options,
                   size_t limit) {
    attn_arena *arena = attn_arena_new(limit);
    attn_model_outputs out;
    attn_error err = {0};
    const attn_status status = attn_model_forward(model, b, options, arena, NULL, NULL, &out, &err);
    if (status && status != ATTN_ENOMEM)
        fail_msg("%s: %s", err.where, err.text);
    attn_arena_free(arena);
    return !status;
}

static void run_forward(attn_model *model, const attn_batch *b) {
    const attn_model_config *c = attn_model_configuration(model);
    const unsigned keep = (unsigned)below(8);
    const double p = coin() ? 0.2 : 0;
    const bool looks =
        p == 0 && coin() && c->architecture != ATTN_MODEL_SEQ2SEQ && c->head != ATTN_MODEL_POOLED;
    const attn_place places[3] = {{0, 0}, {b->B - 1, 0}, {0, 0}};
    attn_model_pass pass = pass_of(b, c);
    const attn_forward_options options = {
        .keep = keep, .dropout_p = p, .places = places, .place_count = looks ? 3 : 0};
    pass.keeps_weights = keep & ATTN_KEEP_WEIGHTS;
    pass.keeps_states = keep & ATTN_KEEP_STATES;
    pass.keeps_inputs = keep & ATTN_KEEP_INPUTS;
    pass.drops = p > 0;
    pass.places = options.place_count;
    const attn_model_cost cost = attn_model_pass_cost(model, &pass, 1);
    size_t low = 0, high = (size_t)cost.bytes;
    while (!passes(model, b, &options, high))
        high *= 2; /* the check then fails */
    for (int i = 0; i < 8; i++) {
        const size_t middle = low + (high - low) / 2;
        *(passes(model, b, &options, middle) ? &high : &low) = middle;
    }
    check("forward", c, b, &cost, high, 1.6);
}

static void run_step(attn_model *model, const attn_batch *b) {
    const attn_model_config *c = attn_model_configuration(model);
    const bool guides = b->alignment && below(3) == 0 &&
                        !(c->attention == ATTN_MODEL_LOCAL && c->positions == ATTN_MODEL_SHAW);
    attn_model_pass pass = pass_of(b, c);
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_cross_entropy_loss loss;
    attn_error err;
    pass.trains = true;
    pass.guides = guides;
    const attn_model_cost cost = attn_model_pass_cost(model, &pass, 1);
    const attn_step_options options = {.guidance = guides ? 0.5 : 0, .diversity = guides ? 0.5 : 0};
    if (attn_model_step(model, b, &options, arena, NULL, NULL, &loss, &err))
        fail_msg("%s: %s", err.where, err.text);
    check(guides ? "guided" : "step", c, b, &cost, attn_arena_used(arena), 1.6);
    attn_arena_free(arena);
}

/* Returns whether a search works in so much memory. */
static bool searches(attn_model *model, const attn_batch *b, const attn_generate_options *options,
                     size_t limit, size_t *longest) {
    attn_arena *arena = attn_arena_new(limit);
    attn_generated out[64];
    attn_error err = {0};
    const attn_status status = attn_model_generate(model, b->source, b->source_lengths, b->B, b->S,
                                                   options, arena, NULL, NULL, out, &err);
    if (status && status != ATTN_ENOMEM)
        fail_msg("%s: %s", err.where, err.text);
    for (size_t i = 0; !status && i < b->B; i++)
        *longest = out[i].length > *longest ? out[i].length : *longest;
    attn_arena_free(arena);
    return !status;
}

/* Returns prompts of a decoder alone. They have one length, which may be more than it reads
 * together, or one of them is empty. */
static attn_batch prompts_of(const attn_batch *b, attn_arena *arena) {
    attn_batch to = *b;
    int64_t *lengths = attn_arena_zeroed(arena, b->B, sizeof *lengths);
    to.S = coin() ? 1 + below(8 * MOST) : 0;
    for (size_t i = 0; i < b->B; i++)
        lengths[i] = (int64_t)to.S;
    if (coin() && b->B > 1)
        lengths[0] = 0;
    to.source = draw_ids(arena, b->B * to.S, 4, WORDS - 4);
    to.source_lengths = lengths;
    return to;
}

/* Returns the bound of run_search for `check`. The cost of prompts is for any of their lengths: it
 * counts tokens that are read together, and the results of the steps that read them one by one. */
static double most_of(const attn_batch *b, const attn_generate_options *options, bool reads) {
    if (reads || !b->S)
        return 1.6;
    const bool keeps = options->want_weights || options->alternatives;
    return keeps || !b->source_lengths[0] ? (double)INFINITY : 1.6;
}

static void run_search(attn_model *model, const attn_batch *batch, attn_arena *arena) {
    const attn_model_config *c = attn_model_configuration(model);
    const bool reads = attn_model_has_encoder(c);
    const attn_batch made = reads ? *batch : prompts_of(batch, arena), *b = &made;
    attn_generate_options options = attn_generate_defaults();
    attn_model_pass pass = pass_of(b, c);
    size_t longest = 0;
    if (!attn_model_has_decoder(c))
        return;
    options.samples = coin();
    options.beams = options.samples ? 1 : 1 + below(4);
    options.most = 1 + below(MOST);
    options.want_weights = coin();
    options.alternatives = coin() ? 3 : 0;
    options.source_keep = b->source_keep;
    pass.T = options.most + (reads ? 0 : b->S);
    pass.searches = true;
    pass.samples = options.samples;
    pass.keeps_weights = options.want_weights;
    pass.alternatives = options.alternatives;
    pass.beams = options.beams;
    pass.rows *= options.beams;
    const attn_model_cost cost = attn_model_pass_cost(model, &pass, 1);
    const size_t most = (size_t)cost.bytes;
    size_t low = 0, high = most;
    assert_true(searches(model, b, &options, most, &longest));
    for (int i = 0; i < 8; i++) {
        const size_t middle = low + (high - low) / 2;
        if (searches(model, b, &options, middle, &longest))
            high = middle;
        else
            low = middle;
    }
    if (longest + 1 >= options.most)
        check("search", c, b, &cost, high, most_of(b, &options, reads));
}

static void test_bytes(void **state) {
    for (int i = 0; i < RUNS; i++) {
        const attn_model_config c = draw_config();
        attn_arena *arena = attn_arena_new(LIMIT);
        attn_model *model = NULL;
        attn_error err;
        const attn_batch b = draw_batch(&c, coin(), arena);
        if (attn_model_new(&c, 1, true, &model, &err))
            fail_msg("%s: %s", err.where, err.text);
        run_forward(model, &b);
        run_step(model, &b);
        run_search(model, &b, arena);
        attn_model_free(model);
        attn_arena_free(arena);
    }
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
