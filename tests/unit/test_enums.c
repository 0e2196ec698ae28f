/* Numbers that an enum does not have, and bits that a set does not have, are refused. */
#include <string.h>

#include "corpus/corpus.h"
#include "layers/layers.h"
#include "normal_tensor.h"

enum { LIMIT = 1 << 22, NONE = 77 };

/* An enum's member of no meaning: one behind the last, or far away. */
static const int beyond[] = {1, NONE, -1000};
enum { BEYOND = sizeof beyond / sizeof *beyond };

static void refused(attn_status status, const char *where, const attn_error *err) {
    assert_int_equal(status, ATTN_EARG);
    assert_string_equal(err->where, where);
}

typedef struct kit {
    attn_arena *arena;
    attn_inputs in;
    attn_attention *a;
    attn_tensor grad;
} kit;

static kit open_kit(void) {
    kit k = {.arena = attn_arena_new(LIMIT)};
    attn_error err;
    k.in = attn_attention_defaults();
    k.in.query = NORMAL_TENSOR(k.arena, 1, 3, 4);
    k.grad = NORMAL_TENSOR(k.arena, 2, 3, 4);
    assert_int_equal(attn_attention_new(&k.in, k.arena, &k.a, &err), ATTN_OK);
    return k;
}

static void test_what_a_run_is_asked_for(void **state) {
    kit k = open_kit();
    attn_results out;
    attn_gradients g;
    attn_cost cost;
    attn_error err;
    double cell[9];
    const attn_range all = {0, 0, 0, 3, 0, 3};
    attn_cells_scratch *scratch = attn_cells_scratch_new(k.a, k.arena);
    (void)state;
    for (int bit = 0; bit < 32; bit++) {
        const unsigned want = ATTN_WANT_OUTPUT | 1u << bit;
        const bool known = bit < 6 || bit == 16;
        attn_status found[] = {
            attn_attention_run(k.a, want, ATTN_STAGE_RAW, NULL, NULL, k.arena, &out, &err),
            attn_attention_run_backward(k.a, want, ATTN_STAGE_RAW, &k.grad, NULL, NULL, k.arena,
                                        &out, &g, &err),
            attn_attention_cost(attn_attention_dims_of(k.a), want, 1, &cost, &err)};
        for (int i = 0; i < 3; i++)
            assert_int_equal(found[i], known ? ATTN_OK : ATTN_EARG);
        if (!known)
            assert_string_equal(err.where, "want");
    }
    for (int i = 0; i < BEYOND; i++) {
        const attn_stage stage = (attn_stage)(ATTN_STAGE_PROBS + beyond[i]);
        const unsigned scores = ATTN_WANT_OUTPUT | ATTN_WANT_SCORES;
        refused(attn_attention_run(k.a, scores, stage, NULL, NULL, k.arena, &out, &err), "stage",
                &err);
        refused(attn_attention_run_backward(k.a, scores, stage, &k.grad, NULL, NULL, k.arena, &out,
                                            &g, &err),
                "stage", &err);
        refused(attn_attention_cells(k.a, NULL, &all, stage, cell, 3, scratch, &err), "stage",
                &err);
        /* without scores it does not matter */
        assert_int_equal(
            attn_attention_run(k.a, ATTN_WANT_OUTPUT, stage, NULL, NULL, k.arena, &out, &err),
            ATTN_OK);
    }
    attn_arena_free(k.arena);
}

static void test_inputs(void **state) {
    kit k = open_kit();
    attn_error err;
    double table[16];
    attn_weight_source source = {.batches = 1, .heads = 1, .rows = 3, .cols = 3}, of;
    const attn_tensor four = NORMAL_TENSOR(k.arena, 3, 1, 1, 3, 4);
    uint8_t keep[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    (void)state;
    for (int i = 0; i < BEYOND; i++) {
        attn_inputs in = k.in;
        in.position.kind = ATTN_POSITION_ROTARY;
        in.position.rotary = (attn_rotary)(ATTN_ROTARY_HALVES + beyond[i]);
        refused(attn_attention_new(&in, k.arena, &k.a, &err), "position/layout", &err);
        in = k.in;
        in.mask.offset = (attn_offset)(ATTN_OFFSET_END + beyond[i]);
        refused(attn_attention_new(&in, k.arena, &k.a, &err), "query_offset", &err);
        in = k.in;
        in.mask.count = 1;
        in.mask.layers[0] =
            (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                              .where = "attn_mask",
                              .values = attn_tensor_dense(keep, ATTN_BOOL, 2, DIMS(3, 3)),
                              .semantics = (attn_semantics)(ATTN_SEM_NONZERO + beyond[i])};
        refused(attn_attention_new(&in, k.arena, &k.a, &err), "attn_mask", &err);
        refused(attn_sinusoidal(table, NULL, 2, 4,
                                (attn_encoding_layout)(ATTN_ENCODING_HALVES + beyond[i]), NULL,
                                &err),
                "layout", &err);
        refused(attn_gradient_source(&source, &four, &four,
                                     (attn_gradient_kind)(ATTN_GRADIENT_POSITIVE + beyond[i]), 1,
                                     k.arena, &of, &err),
                "kind", &err);
    }
    attn_arena_free(k.arena);
}

static void test_pictures(void **state) {
    attn_arena *arena = attn_arena_new(LIMIT);
    float cells[4] = {0, 1, 0.5f, 0.25f};
    const double y[] = {1, 2};
    const attn_heatmap map = {.shape = {2, 2}, .step = {1, 1}, .range = {0, 1}, .max = cells};
    const attn_figure_heat heat = {.maps = &map, .count = 1};
    const attn_figure_curve curve = {.y = y, .n = 2};
    const attn_figure_curves curves = {.items = &curve, .count = 1, .panels = 1};
    attn_error err;
    (void)state;
    for (int i = 0; i < 4 * BEYOND; i++) {
        static const char *const where[] = {"colormap", "transform", "theme", "aspect"};
        attn_figure_options o = attn_figure_defaults();
        attn_text svg = {.arena = arena};
        const int more = beyond[i / 4];
        if (i % 4 == 0)
            o.colormap = (attn_colormap)(ATTN_COLORMAP_CIVIDIS + more);
        else if (i % 4 == 1)
            o.transform = (attn_transform)(ATTN_LOG + more);
        else if (i % 4 == 2)
            o.theme = (attn_theme)(ATTN_THEME_DARK + more);
        else
            o.aspect = (attn_aspect)(ATTN_ASPECT_STRETCHED + more);
        refused(attn_figure_heatmaps(&svg, &heat, &o, &err), where[i % 4], &err);
        refused(attn_figure_lines(&svg, &curves, &o, &err), where[i % 4], &err);
    }
    for (int i = 0; i < 2 * BEYOND; i++) {
        attn_heatmap_options o = attn_heatmap_defaults();
        size_t maps, shape[2];
        if (i % 2)
            o.heads = (attn_heads)(ATTN_HEADS_MEAN + beyond[i / 2]);
        else
            o.pool = (attn_pooling)(ATTN_POOL_BOTH + beyond[i / 2]);
        refused(attn_heatmap_shape(&o, 1, 1, 2, 2, &maps, shape, &err), i % 2 ? "heads" : "pool",
                &err);
    }
    attn_arena_free(arena);
}

static void test_texts_and_layers(void **state) {
    attn_arena *arena = attn_arena_new(64 << 20);
    const attn_corpus_options options = attn_corpus_defaults();
    attn_corpus *corpus;
    static attn_pair pair; /* large for a stack */
    attn_error err;
    attn_pass pass = {.arena = arena};
    attn_attend_saved saved;
    float x[4] = {1, 2, 3, 4}, y[4];
    (void)state;
    assert_int_equal(attn_corpus_new(&options, arena, &corpus, &err), ATTN_OK);
    for (int i = 0; i < BEYOND; i++) {
        const int more = beyond[i];
        assert_int_equal(
            attn_corpus_pair(corpus, (attn_split)(ATTN_HELD_OUT + more), 0, &pair, &err),
            ATTN_EVALUE);
        assert_string_equal(err.where, "split");
        assert_null(attn_tokenizer_new((attn_language)(ATTN_FRENCH + more)));
        attn_attend layer = {
            .kind = (attn_score_kind)(ATTN_SCORE_concat + more), .width = 2, .heads = 1};
        refused(attn_attend_forward(y, x, x, 1, 2, 2, NULL, false, &layer, &saved, &pass, &err),
                "kind", &err);
        layer.kind = ATTN_SCORE_dot;
        layer.position = (attn_position_kind)(ATTN_POSITION_ROTARY + more);
        refused(attn_attend_forward(y, x, x, 1, 2, 2, NULL, false, &layer, &saved, &pass, &err),
                "kind", &err);
        attn_parameters *set = attn_parameters_new();
        attn_weight weight;
        attn_parameters_add(set, "w", 1, DIMS(2),
                            (attn_init){.kind = (attn_init_kind)(ATTN_INIT_NORMAL + more)},
                            &weight);
        refused(attn_parameters_seal(set, false, &err), "w", &err);
        attn_parameters_free(set);
    }
    attn_arena_free(arena);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < BEYOND; i++) {
        assert_string_equal(attn_isa_name((attn_isa)(ATTN_ISA_AMX + beyond[i])), "unknown");
        assert_string_equal(attn_precision_name((attn_precision)(ATTN_PRECISION_BF16 + beyond[i])),
                            "unknown");
        assert_int_equal(attn_dtype_size((attn_dtype)(ATTN_BITS + beyond[i])), 0);
        assert_null(attn_measure_about((attn_measure)(ATTN_MEASURES - 1 + beyond[i])));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_run_is_asked_for),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_texts_and_layers),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
