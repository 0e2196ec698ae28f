/* Runs that grow with a generation, beside the causal pass over what was generated. */
#include "runs/private.h"
#include "unit/models_case.h"

enum { MOST = 9, GROWN = 1 << 22, SITES_MOST = 6 };

/* A generation whose steps are added to a growing run, and the runs that looks have seen. */
typedef struct growing {
    const model_case *c;
    const attn_run_text *texts; /* [2 sequences] */
    size_t sequences;
    attn_arena *arena;
    attn_run_growth *growth;
    attn_run *seen[MOST];
    attn_arena *arenas[MOST]; /* of the runs that were seen */
    size_t steps, stop_at;
} growing;

static const attn_run_kind kinds[] = {ATTN_RUN_ENCODER, ATTN_RUN_DECODER, ATTN_RUN_CROSS};

static const size_t numbers[2 * B] = {0, 1, 2, 3, 4, 5};

static void begin(growing *w, const attn_generated_step *step) {
    static const attn_metadata metadata = {"owner", "me"};
    attn_run_site_source sites[SITES_MOST];
    attn_error err = {0};
    for (size_t i = 0; i < step->site_count; i++) {
        const attn_site *from = &step->sites[i];
        const bool encodes = from->kind == ATTN_SITE_ENCODER;
        const size_t n = w->sequences;
        sites[i] = (attn_run_site_source){
            .op = from->operation,
            .info = {.kind = kinds[from->kind],
                     .layer = from->layer,
                     .query_start = !encodes,
                     .query_texts = numbers + (encodes ? 0 : n),
                     .query_text_count = n,
                     .key_texts = numbers + (from->kind == ATTN_SITE_DECODER ? n : 0),
                     .key_text_count = n}};
    }
    const attn_run_source first = {.sites = sites,
                                   .site_count = step->site_count,
                                   .texts = w->texts,
                                   .text_count = 2 * w->sequences,
                                   .model = "m",
                                   .metadata = &metadata,
                                   .metadata_count = 1};
    w->arena = attn_arena_new(GROWN);
    if (attn_run_growth_new(&first, w->sequences, MOST, w->arena, &w->growth, &err))
        fail_msg("%s: %s: %s", name_of(w->c), err.where, err.text);
    assert_int_equal(attn_run_growth_rows(w->growth), 0);
    attn_run *none;
    size_t rows;
    assert_int_equal(attn_run_growth_look(w->growth, w->arena, &none, &rows, &err), ATTN_EARG);
}

static int grow(void *ctx, const attn_generated_step *step) {
    growing *w = ctx;
    const attn_attention *ops[SITES_MOST];
    attn_run_token tokens[B];
    attn_error err = {0};
    size_t rows;
    if (w->c->attention == ATTN_MODEL_NONE) {
        assert_int_equal(step->site_count, 0);
        return 0;
    }
    if (step->index == 0)
        begin(w, step);
    for (size_t i = 0; i < step->site_count; i++)
        ops[i] = step->sites[i].operation;
    for (size_t b = 0; b < w->sequences; b++)
        tokens[b] = (attn_run_token){"t", step->ids[b], step->ids[b] == 2};
    attn_arena *arena = w->arenas[w->steps] = attn_arena_new(GROWN);
    if (attn_run_growth_add(w->growth, ops, tokens, &err) ||
        attn_run_growth_look(w->growth, arena, &w->seen[w->steps], &rows, &err))
        fail_msg("%s: %s: %s", name_of(w->c), err.where, err.text);
    w->steps++;
    assert_int_equal(rows, w->steps);
    assert_int_equal(attn_run_growth_rows(w->growth), w->steps);
    return w->steps == w->stop_at;
}

static const attn_run_site *opened(const attn_run *run, size_t index) {
    const attn_run_site *site;
    attn_error err = {0};
    if (attn_run_site_open(run, index, &site, &err))
        fail_msg("site %zu: %s: %s", index, err.where, err.text);
    return site;
}

/* The first rows of a site of the run are those of the pass, bit for bit; on ref, whose sums depend
 * on the number of rows, within its accuracy. */
static void same_cells(const model_case *c, const attn_run *run, const attn_site *of, size_t index,
                       size_t batch, size_t rows, bool closed) {
    const attn_run_site *site = opened(run, index);
    const attn_attention *mine = attn_run_attention(site);
    const attn_attention_dims *d = attn_run_dims(site), *whole;
    attn_arena *arena = attn_arena_new(GROWN);
    float got[16 * 16], want[16 * 16];
    attn_error err = {0};
    const bool loose = strcmp(attn_attention_kernel(mine), "ref") == 0;
    whole = attn_attention_dims_of(of->operation);
    rows = of->kind == ATTN_SITE_ENCODER ? d->L : rows;
    assert_true(rows <= d->L && rows <= whole->L && d->L <= 16 && d->S <= 16);
    /* rows of sequences that have ended are no part of the pass, and neither are their keys */
    const size_t cols = d->S < whole->S ? d->S : whole->S;
    attn_cells_scratch *a = attn_cells_scratch_new(mine, arena);
    attn_cells_scratch *b = attn_cells_scratch_new(of->operation, arena);
    for (size_t h = 0; h < d->Hq; h++) {
        attn_range r = {.batch = batch, .head = h, .rows = rows, .cols = cols};
        if (attn_attention_cells(mine, &site->stats, &r, ATTN_STAGE_PROBS, got, cols, a, &err))
            fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
        r.batch = 0;
        if (attn_attention_cells(of->operation, of->stats, &r, ATTN_STAGE_PROBS, want, cols, b,
                                 &err))
            fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
        for (size_t i = 0; loose && i < rows * cols; i++)
            assert_float_equal(got[i], want[i], 1e-6);
        if (!loose && memcmp(got, want, rows * cols * sizeof *got))
            fail_msg("%s, site %zu, batch %zu, head %zu, %s: other bits", name_of(c), index, batch,
                     h, closed ? "closed" : "open");
    }
    attn_arena_free(arena);
}

/* Runs the causal pass over what was generated for a source, which has `rows` steps. */
static void pass(const attn_model *model, size_t b, const attn_generated *g, size_t rows,
                 attn_arena *arena, attn_model_outputs *out) {
    const attn_batch all = batch_of();
    int32_t *read = attn_arena_zeroed(arena, rows, sizeof *read);
    const attn_batch batch = {.B = 1,
                              .S = S,
                              .T = rows,
                              .source = all.source + b * S,
                              .source_lengths = all.source_lengths + b,
                              .target = read};
    read[0] = 1;
    memcpy(read + 1, g->ids, (rows - 1) * sizeof *read);
    const attn_forward_options options = {.keep = ATTN_KEEP_OPERATIONS};
    assert_int_equal(attn_model_forward(model, &batch, &options, arena, NULL, NULL, out, NULL),
                     ATTN_OK);
}

static void check_labels(const attn_run *run, size_t sequences, size_t rows, size_t b) {
    size_t count;
    const attn_run_text *texts = attn_run_texts(run, &count);
    const attn_run_site *last = opened(run, attn_run_site_count(run) - 1);
    assert_int_equal(count, 2 * sequences);
    assert_int_equal(texts[sequences + b].count, rows + 1);
    assert_int_equal(texts[sequences + b].ids[0], 1);
    assert_string_equal(attn_run_query_labels(last, b)[0], "t");
    assert_string_equal(attn_run_key_labels(last, b)[0], "s");
    assert_string_equal(attn_run_model(run), "m");
}

/* Makes the closed run. */
static attn_run *close_run(const growing *w, const int64_t *lengths, attn_arena *arena) {
    const attn_metadata metadata = {"owner", "you"};
    attn_run_image image;
    attn_run *run;
    attn_error err = {0};
    if (attn_run_growth_image(w->growth, lengths, &metadata, 1, NULL, NULL, arena, &image, &err))
        fail_msg("%s: %s: %s", name_of(w->c), err.where, err.text);
    char *bytes = attn_arena_take(arena, image.size), *to = bytes;
    for (size_t i = 0; i < image.count; to += image.pieces[i++].size)
        memcpy(to, image.pieces[i].data, image.pieces[i].size);
    if (attn_run_open(bytes, image.size, NULL, arena, &run, &err))
        fail_msg("%s: %s: %s", name_of(w->c), err.where, err.text);
    assert_string_equal(attn_run_metadata(run, "owner"), "you");
    return run;
}

static void leave(growing *w) {
    for (size_t t = 0; t < w->steps; t++)
        attn_arena_free(w->arenas[t]);
    attn_arena_free(w->arena);
}

static void check(const model_case *c, size_t first, size_t sequences) {
    static const char *const words[S] = {"s", "s", "s", "s", "s", "s"}, *const start[] = {"b"};
    static const int64_t one = 1;
    static const uint8_t special = 1;
    const attn_batch all = batch_of();
    attn_run_text texts[2 * B];
    for (size_t i = 0; i < sequences; i++) {
        texts[i] = (attn_run_text){.count = S, .tokens = words};
        texts[sequences + i] =
            (attn_run_text){.count = 1, .tokens = start, .ids = &one, .special = &special};
    }
    growing w = {.c = c, .texts = texts, .sequences = sequences};
    attn_generate_options options = {.beams = 1, .most = MOST, .step = grow, .step_ctx = &w};
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model = open_model(c, 0);
    attn_generated out[B];
    attn_model_outputs made[B];
    int64_t lengths[B];
    attn_error err = {0};
    if (attn_model_generate(model, all.source + first * S, all.source_lengths + first, sequences, S,
                            &options, arena, NULL, NULL, out, &err))
        fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
    for (size_t b = 0; w.growth && b < sequences; b++) {
        lengths[b] = (int64_t)(out[b].length + out[b].ended);
        pass(model, first + b, &out[b], (size_t)lengths[b], arena, &made[b]);
        for (size_t i = 0; i < made[b].site_count; i++)
            for (size_t t = 0; t < (size_t)lengths[b]; t++)
                same_cells(c, w.seen[t], &made[b].sites[i], i, b, t + 1, false);
        for (size_t t = 0; t < w.steps; t++)
            check_labels(w.seen[t], sequences, t + 1, b);
    }
    attn_model_free(model); /* the growing run has copies */
    memset(texts, 0, sizeof texts);
    attn_run *run = w.growth ? close_run(&w, lengths, arena) : NULL;
    model = open_model(c, 0);
    for (size_t b = 0; run && b < sequences; b++) {
        pass(model, first + b, &out[b], (size_t)lengths[b], arena, &made[b]);
        for (size_t i = 0; i < made[b].site_count; i++)
            same_cells(c, run, &made[b].sites[i], i, b, (size_t)lengths[b], true);
        check_labels(run, sequences, (size_t)lengths[b], b);
    }
    attn_model_free(model);
    if (w.growth)
        leave(&w);
    attn_arena_free(arena);
}

static void test_one_sequence(void **state) {
    for (size_t i = 0; i < CASES; i++)
        for (size_t b = 0; b < B; b++)
            check(&cases[i], b, 1);
    (void)state;
}

static void test_batches(void **state) {
    for (size_t i = 0; i < CASES; i++)
        check(&cases[i], 0, B);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_sequence),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
