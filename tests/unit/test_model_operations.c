/* The operations that passes keep, beside the weights of the passes. */
#include "unit/models_case.h"

enum { ROWS = 16 };

/* Every cell that an operation gives is a weight of the pass. */
static void same_cells(const model_case *c, const attn_site *site, attn_arena *arena) {
    const attn_attention_dims *d = attn_attention_dims_of(site->operation);
    attn_cells_scratch *scratch = attn_cells_scratch_new(site->operation, arena);
    float cells[ROWS * ROWS];
    attn_error err = {0};
    assert_non_null(scratch);
    assert_true(d->L <= ROWS && d->S <= ROWS && d->Hq == site->heads);
    for (size_t i = 0; i < d->B * d->Hq; i++) {
        const attn_range all = {.batch = i / d->Hq, .head = i % d->Hq, .rows = d->L, .cols = d->S};
        if (attn_attention_cells(site->operation, site->stats, &all, ATTN_STAGE_PROBS, cells, d->S,
                                 scratch, &err))
            fail_msg("%s: %s: %s", name_of(c), err.where, err.text);
        assert_memory_equal(cells, (const float *)site->weights.data + i * d->L * d->S,
                            d->L * d->S * sizeof *cells);
    }
}

static void test_pass(void **state) {
    static const uint8_t keep[B * S] = {1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < CASES; i++)
        for (int hides = 0; hides <= 1; hides++) {
            attn_batch batch = batch_of();
            attn_arena *arena = attn_arena_new(LIMIT);
            attn_model *model = open_model(&cases[i], 0);
            const attn_forward_options options = {.keep = ATTN_KEEP_WEIGHTS | ATTN_KEEP_OPERATIONS,
                                                  .dropout_p = hides ? 0.3 : 0,
                                                  .seed = 4};
            attn_model_outputs out;
            attn_error err = {0};
            batch.source_keep = hides ? keep : NULL;
            if (attn_model_forward(model, &batch, &options, arena, NULL, NULL, &out, &err))
                fail_msg("%s: %s: %s", name_of(&cases[i]), err.where, err.text);
            for (size_t s = 0; s < out.site_count; s++)
                same_cells(&cases[i], &out.sites[s], arena);
            attn_model_free(model);
            attn_arena_free(arena);
        }
    (void)state;
}

/* A pass that keeps operations alone lists its sites, without weights; a model has none. */
static void test_alone(void **state) {
    const attn_batch batch = batch_of();
    attn_arena *arena = attn_arena_new(LIMIT);
    attn_model *model = open_model(&cases[0], 0);
    const attn_forward_options options = {.keep = ATTN_KEEP_OPERATIONS};
    attn_model_outputs out;
    size_t count;
    const attn_site *sites = attn_model_sites(model, &count);
    assert_int_equal(attn_model_forward(model, &batch, &options, arena, NULL, NULL, &out, NULL),
                     ATTN_OK);
    assert_int_equal(out.site_count, count);
    for (size_t s = 0; s < out.site_count; s++) {
        assert_null(sites[s].operation);
        assert_non_null(out.sites[s].operation);
        assert_int_equal(out.sites[s].weights.rank, 0);
    }
    attn_model_free(model);
    attn_arena_free(arena);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pass),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
