/* Every layer beside PyTorch (tests/tools/torch_layers wrote the numbers): outputs, and gradients
 * of inputs and parameters; then its gradients beside differences of its own outputs along random
 * directions, <J u, dy> = <u, J^T dy>, with dropout and without; then gradients add up, and the
 * same pass gives the same bytes. ATTN_TORCH_LAYERS names another file to compare with. */
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

#include "layers/layers.h"

enum { LIMIT = 1 << 26, INPUTS = 3 };

static attn_safetensors torch_says;
static unsigned char *torch_bytes;

typedef struct net net;

/* What a case is. Numbers mean what its declare says. */
typedef struct layer_case {
    const char *name;
    void (*declare)(net *n);
    void (*forward)(net *n);
    void (*backward)(net *n);
    int a, b, c;
} layer_case;

struct net {
    const layer_case *what;
    attn_arena *arena;
    attn_pass pass;
    attn_parameters *set;
    size_t inputs, sizes[INPUTS], size; /* floats of inputs and of y */
    size_t dims[INPUTS][3];
    float *in[INPUTS], *din[INPUTS], *y, *dy;
    const int32_t *ids;
    size_t id_count;
    const int64_t *lengths;
    double dropout;
    attn_linear linear;
    attn_embedding embedding;
    attn_norm norm;
    attn_lstm lstm;
    attn_attend attend;
    attn_lstm_saved lstm_saved;
    attn_attend_saved attend_saved;
    float *scratch;
};

static const attn_tensor *recorded(const char *name, const char *what) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", name, what);
    for (size_t i = 0; i < torch_says.count; i++)
        if (!strcmp(torch_says.tensors[i].name, full))
            return &torch_says.tensors[i].tensor;
    return NULL;
}

static size_t count_of(const attn_tensor *t) {
    size_t n = 0;
    assert_true(attn_tensor_count(t, &n));
    return n;
}

static float *room(net *n, size_t count) {
    float *p = attn_arena_zeroed(n->arena, count, sizeof *p);
    assert_non_null(p);
    return p;
}

/* --- the layers as networks --- */

static void linear_declare(net *n) {
    attn_linear_declare(&n->linear, n->set, "m", (size_t)n->what->a, (size_t)n->what->b,
                        n->what->c);
}
static void linear_forward(net *n) {
    attn_linear_forward(n->y, n->in[0], n->dims[0][0], &n->linear);
}
static void linear_backward(net *n) {
    attn_linear_backward(n->din[0], n->dy, n->in[0], n->dims[0][0], &n->linear);
}

static void embedding_declare(net *n) {
    attn_embedding_declare(&n->embedding, n->set, "m", (size_t)n->what->a, (size_t)n->what->b, 2.0f,
                           0, n->what->c);
}
static void embedding_forward(net *n) {
    attn_embedding_forward(n->y, n->ids, n->id_count, &n->embedding);
}
static void embedding_backward(net *n) {
    attn_embedding_backward(n->dy, n->ids, n->id_count, &n->embedding);
}

static void norm_declare(net *n) {
    n->norm = (attn_norm){.width = (size_t)n->what->a,
                          .epsilon = n->what->b ? 1e-6f : 1e-5f,
                          .rms = n->what->b == 1,
                          .unbiased = n->what->b == 2};
    attn_norm_declare(&n->norm, n->set, "m");
    n->scratch = room(n, 2 * n->dims[0][0]);
}
static void norm_forward(net *n) {
    attn_norm_forward(n->y, n->scratch, n->in[0], n->dims[0][0], &n->norm);
}
static void norm_backward(net *n) {
    attn_norm_backward(n->din[0], n->dy, n->in[0], n->scratch, n->dims[0][0], &n->norm);
}

static void nothing_declare(net *n) {
    n->scratch = room(n, n->sizes[0]);
}
static void activation_forward(net *n) {
    attn_activation_forward(n->y, n->in[0], n->size, (attn_activation)n->what->a);
}
static void activation_backward(net *n) {
    attn_activation_backward(n->din[0], n->dy, n->in[0], n->size, (attn_activation)n->what->a);
}

static void loss_forward(net *n) {
    const size_t rows = n->dims[0][0], V = n->dims[0][1];
    size_t counted, right;
    n->y[0] = (float)attn_cross_entropy(n->scratch, n->in[0], n->ids, rows, V, 0,
                                        n->what->a / 100.0, &counted, &right);
}
static void loss_backward(net *n) {
    for (size_t i = 0; i < n->sizes[0]; i++)
        n->din[0][i] += n->dy[0] * n->scratch[i];
}

/* a: H, b: layers, c: bidirectional. y, then the last h and c. */
static void lstm_declare(net *n) {
    attn_lstm_declare(&n->lstm, n->set, "m", n->dims[0][2], (size_t)n->what->a, (size_t)n->what->b,
                      n->what->c, n->dropout);
}
static attn_lstm_state lstm_last(const net *n, float *y) {
    const attn_lstm *l = &n->lstm;
    const size_t B = n->dims[0][0], cells = l->layers * (l->bidirectional ? 2 : 1);
    float *h = y + n->dims[0][0] * n->dims[0][1] * l->hidden * (l->bidirectional ? 2 : 1);
    return (attn_lstm_state){h, h + cells * B * l->hidden};
}
static void lstm_forward(net *n) {
    const attn_lstm_state last = lstm_last(n, n->y), initial = {n->in[1], n->in[2]};
    attn_error err = {0};
    if (attn_lstm_forward(n->y, &last, n->in[0], n->inputs > 1 ? &initial : NULL, n->lengths, NULL,
                          n->dims[0][0], n->dims[0][1], &n->lstm, &n->lstm_saved, &n->pass, &err))
        fail_msg("%s", err.text);
}
static void lstm_backward(net *n) {
    const attn_lstm_state dlast = lstm_last(n, n->dy), dinitial = {n->din[1], n->din[2]};
    assert_int_equal(attn_lstm_backward(n->din[0], n->inputs > 1 ? &dinitial : NULL, n->dy, &dlast,
                                        &n->lstm, &n->lstm_saved, &n->pass, NULL),
                     ATTN_OK);
}

/* a: kind, b: heads, c: score width. */
static void attend_declare(net *n) {
    n->attend.kind = (attn_score_kind)n->what->a;
    n->attend.width = n->dims[0][2];
    n->attend.heads = (size_t)n->what->b;
    n->attend.score_width = (size_t)n->what->c;
    n->attend.dropout = n->dropout;
    attn_attend_declare(&n->attend, n->set, "m");
}
static void packed_declare(net *n) {
    n->attend.packed = n->attend.causal = true;
    attend_declare(n);
}
static void local_declare(net *n) {
    n->attend.has_pattern = true;
    n->attend.pattern = (attn_pattern){.kind = ATTN_PATTERN_LOCAL, .radius = 1};
    attend_declare(n);
}
static void position_declare(net *n) {
    n->attend.position = (attn_position_kind)n->what->c;
    n->attend.max_distance = 3;
    attend_declare(n);
}
static void grouped_declare(net *n) {
    n->attend.kv_heads = 2;
    n->attend.position = ATTN_POSITION_ROTARY;
    n->attend.rotary = (attn_position){.rotary = ATTN_ROTARY_HALVES, .base = n->what->c};
    n->attend.unbiased = n->attend.output_unbiased = n->attend.packed = n->what->c > 0;
    attend_declare(n);
}
static void attend_forward(net *n) {
    const int self = n->inputs == 1;
    const attn_attend_sight sight = {.lengths = n->lengths};
    attn_error err = {0};
    if (attn_attend_forward(n->y, n->in[0], self ? n->in[0] : n->in[1], n->dims[0][0],
                            n->dims[0][1], n->dims[!self][1], &sight, false, &n->attend,
                            &n->attend_saved, &n->pass, &err))
        fail_msg("%s: %s", err.where, err.text);
}
static void attend_backward(net *n) {
    attn_error err = {0};
    if (attn_attend_backward(n->din[0], n->inputs == 1 ? n->din[0] : n->din[1], n->dy, &n->attend,
                             &n->attend_saved, &n->pass, &err))
        fail_msg("%s: %s", err.where, err.text);
}

#define ROW(name, way, ...)                                                                        \
    { #name, way##_declare, way##_forward, way##_backward, __VA_ARGS__ }
#define ACTIVATION(name, kind)                                                                     \
    { #name, nothing_declare, activation_forward, activation_backward, kind, 0, 0 }
#define ATTENDING(name, declare, ...)                                                              \
    { #name, declare, attend_forward, attend_backward, __VA_ARGS__ }

static const layer_case cases[] = {
    ROW(linear, linear, 7, 5, 1),
    ROW(linear_plain, linear, 3, 9, 0),
    ROW(embedding, embedding, 6, 4, 1),
    ROW(norm, norm, 37, 0, 0),
    ROW(norm_rms, norm, 37, 1, 0),
    ROW(norm_unbiased, norm, 37, 2, 0),
    ACTIVATION(relu, ATTN_RELU),
    ACTIVATION(gelu, ATTN_GELU),
    ACTIVATION(gelu_tanh, ATTN_GELU_TANH),
    ACTIVATION(silu, ATTN_SILU),
    ACTIVATION(tanh, ATTN_TANH),
    ACTIVATION(sigmoid, ATTN_SIGMOID),
    ROW(lstm, lstm, 6, 1, 0),
    ROW(lstm_stacked, lstm, 5, 2, 1),
    ROW(lstm_lengths, lstm, 5, 2, 1),
    ROW(lstm_state, lstm, 5, 2, 0),
    ROW(lstm_wide, lstm, 20, 1, 1),
    ROW(heads, attend, ATTN_SCORE_scaled_dot, 3, 0),
    ATTENDING(heads_local, local_declare, ATTN_SCORE_scaled_dot, 3, 0),
    ATTENDING(packed, packed_declare, ATTN_SCORE_scaled_dot, 3, 0),
    ATTENDING(relative, position_declare, ATTN_SCORE_scaled_dot, 2, ATTN_POSITION_RELATIVE),
    ATTENDING(shaw, position_declare, ATTN_SCORE_scaled_dot, 2, ATTN_POSITION_SHAW),
    ATTENDING(alibi, position_declare, ATTN_SCORE_scaled_dot, 2, ATTN_POSITION_ALIBI),
    ATTENDING(grouped, grouped_declare, ATTN_SCORE_scaled_dot, 4, 0),
    ATTENDING(grouped_packed, grouped_declare, ATTN_SCORE_scaled_dot, 4, 500),
    ROW(dot, attend, ATTN_SCORE_dot, 1, 0),
    ROW(additive, attend, ATTN_SCORE_additive, 1, 7),
    ROW(general, attend, ATTN_SCORE_general, 1, 0),
    ROW(concat, attend, ATTN_SCORE_concat, 1, 7),
    {"cross_entropy", nothing_declare, loss_forward, loss_backward, 0, 0, 0},
    {"smoothed", nothing_declare, loss_forward, loss_backward, 10, 0, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

/* --- building one --- */

static void copy_input(net *n, const attn_tensor *t) {
    const size_t i = n->inputs++;
    n->sizes[i] = count_of(t);
    for (int a = 0; a < t->rank; a++)
        n->dims[i][a] = t->dims[a];
    n->in[i] = room(n, n->sizes[i]);
    n->din[i] = room(n, n->sizes[i]);
    memcpy(n->in[i], t->data, n->sizes[i] * sizeof(float));
}

static void load_parameters(net *n) {
    const char *names[32];
    attn_tensor tensors[32];
    const size_t count = attn_parameters_length(n->set);
    attn_error err = {0};
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++) {
        char what[256];
        names[i] = attn_parameters_at(n->set, i)->name;
        snprintf(what, sizeof what, "p/%s", names[i]);
        const attn_tensor *t = recorded(n->what->name, what);
        if (!t)
            fail_msg("%s has no %s", n->what->name, what);
        tensors[i] = *t;
    }
    if (attn_parameters_load(n->set, count, names, tensors, NULL, &err))
        fail_msg("%s: %s", err.where, err.text);
}

static void net_open(net *n, const layer_case *what, double dropout) {
    char name[16];
    *n = (net){.what = what, .arena = attn_arena_new(LIMIT), .set = attn_parameters_new()};
    assert_non_null(n->arena);
    assert_non_null(n->set);
    n->dropout = dropout;
    n->pass = (attn_pass){.arena = n->arena, .training = true, .seed = 5};
    for (int i = 0; i < INPUTS; i++) {
        snprintf(name, sizeof name, "in%d", i);
        if (recorded(what->name, name))
            copy_input(n, recorded(what->name, name));
    }
    const attn_tensor *ids = recorded(what->name, "ids"), *y = recorded(what->name, "y");
    const attn_tensor *lengths = recorded(what->name, "lengths");
    assert_non_null(y);
    n->size = count_of(y);
    n->y = room(n, n->size);
    n->dy = room(n, n->size);
    if (recorded(what->name, "dy"))
        memcpy(n->dy, recorded(what->name, "dy")->data, n->size * sizeof(float));
    else
        n->dy[0] = 1;
    n->ids = ids ? ids->data : NULL;
    n->id_count = ids ? count_of(ids) : 0;
    n->lengths = lengths ? lengths->data : NULL;
    what->declare(n);
    assert_int_equal(attn_parameters_seal(n->set, true, NULL), ATTN_OK);
    load_parameters(n);
}

static void net_close(net *n) {
    attn_parameters_free(n->set);
    attn_arena_free(n->arena);
}

static void run_forward(net *n) {
    n->pass.drawn = 0;
    n->what->forward(n);
}

/* --- what is checked --- */

static void close_to(const net *n, const char *what, const float *got) {
    const attn_tensor *t = recorded(n->what->name, what);
    if (!t)
        fail_msg("%s has no %s", n->what->name, what);
    const float *want = t->data;
    float most = 1;
    for (size_t i = 0; i < count_of(t); i++)
        most = fmaxf(most, fabsf(want[i]));
    for (size_t i = 0; i < count_of(t); i++)
        if (!(fabsf(got[i] - want[i]) <= 5e-6f * most))
            fail_msg("%s/%s[%zu]: %.8g, PyTorch says %.8g", n->what->name, what, i, (double)got[i],
                     (double)want[i]);
}

static void gradients_close(const net *n) {
    char what[256];
    for (size_t i = 0; i < n->inputs; i++) {
        snprintf(what, sizeof what, "din%zu", i);
        close_to(n, what, n->din[i]);
    }
    for (size_t i = 0; i < attn_parameters_length(n->set); i++) {
        snprintf(what, sizeof what, "dp/%s", attn_parameters_at(n->set, i)->name);
        close_to(n, what, attn_parameters_gradient(n->set, i).data);
    }
}

static void test_torch(void **state) {
    for (size_t c = 0; c < CASES; c++) {
        net n;
        net_open(&n, &cases[c], 0);
        run_forward(&n);
        close_to(&n, "y", n.y);
        n.what->backward(&n);
        gradients_close(&n);
        net_close(&n);
    }
    (void)state;
}

static double loss_of(net *n) {
    double loss = 0;
    run_forward(n);
    for (size_t i = 0; i < n->size; i++)
        loss += (double)n->y[i] * n->dy[i];
    return loss;
}

static double moved(net *n, float *x, const float *origin, const float *u, size_t size, double h) {
    for (size_t i = 0; i < size; i++)
        x[i] = (float)(origin[i] + h * u[i]);
    return loss_of(n);
}

/* The derivative along u of length 1, by a stencil of fourth order, is the gradient's part in u. */
static void along(net *n, const char *name, float *x, const float *gradient, size_t size) {
    float *u = room(n, size), *origin = room(n, size);
    double length = 0, norm = 0, said = 0;
    const double h = strcmp(n->what->name, "relu") ? 0.03 : 0.001;
    attn_rng_fill_normal(u, size, 77, 0);
    for (size_t i = 0; i < size; i++)
        length += (double)u[i] * u[i];
    for (size_t i = 0; i < size; i++) {
        u[i] = (float)(u[i] / sqrt(length));
        said += (double)u[i] * gradient[i];
        norm += (double)gradient[i] * gradient[i];
    }
    memcpy(origin, x, size * sizeof *x);
    const double near = moved(n, x, origin, u, size, h) - moved(n, x, origin, u, size, -h);
    const double far = moved(n, x, origin, u, size, 2 * h) - moved(n, x, origin, u, size, -2 * h);
    const double found = (8 * near - far) / (12 * h);
    memcpy(x, origin, size * sizeof *x);
    if (!(fabs(found - said) <= 2e-3 * (sqrt(norm) + 0.1)))
        fail_msg("%s, dropout %g, %s: differences %.6g, gradient %.6g (norm %.3g)", n->what->name,
                 n->dropout, name, found, said, sqrt(norm));
}

static void differences(const layer_case *what, double dropout) {
    net n;
    char name[16];
    net_open(&n, what, dropout);
    run_forward(&n);
    n.what->backward(&n);
    for (size_t i = 0; i < n.inputs; i++) {
        snprintf(name, sizeof name, "in%zu", i);
        along(&n, name, n.in[i], n.din[i], n.sizes[i]);
    }
    for (size_t i = 0; i < attn_parameters_length(n.set); i++) {
        const attn_parameter *p = attn_parameters_at(n.set, i);
        if (n.what->declare == embedding_declare) /* the padding row has no gradient, but is read */
            continue;
        along(&n, p->name, attn_parameters_value(n.set, i).data,
              attn_parameters_gradient(n.set, i).data, p->count);
    }
    net_close(&n);
}

static void test_differences(void **state) {
    for (size_t c = 0; c < CASES; c++)
        differences(&cases[c], 0);
    (void)state;
}

static void test_differences_dropout(void **state) {
    for (size_t c = 0; c < CASES; c++)
        if (cases[c].forward == lstm_forward || cases[c].forward == attend_forward)
            differences(&cases[c], 0.3);
    (void)state;
}

/* Twice forward and back: gradients double, outputs are the same bytes. */
static void test_adding(void **state) {
    for (size_t c = 0; c < CASES; c++) {
        net n;
        net_open(&n, &cases[c], 0);
        run_forward(&n);
        n.what->backward(&n);
        const size_t size = attn_parameters_size(n.set);
        float *once = room(&n, size + 1), *y = room(&n, n.size), *all;
        memcpy(y, n.y, n.size * sizeof *y);
        if (size)
            memcpy(once, attn_parameters_gradients(n.set), size * sizeof *once);
        run_forward(&n);
        assert_memory_equal(y, n.y, n.size * sizeof *y);
        n.what->backward(&n);
        all = attn_parameters_gradients(n.set);
        for (size_t i = 0; i < size; i++)
            if (!(fabsf(all[i] - 2 * once[i]) <= 1e-5f * (1 + fabsf(once[i]))))
                fail_msg("%s: gradient %zu is %g, then %g", n.what->name, i, (double)once[i],
                         (double)all[i]);
        net_close(&n);
    }
    (void)state;
}

static int read_recorded(void **state) {
    const char *path = getenv("ATTN_TORCH_LAYERS");
    FILE *f = fopen(path ? path : "tests/unit/layers_torch.safetensors", "rb");
    attn_arena *arena = attn_arena_new(LIMIT);
    if (!f || !arena)
        return -1;
    const size_t most = 1 << 22;
    torch_bytes = attn_alloc(most);
    assert_non_null(torch_bytes);
    const size_t size = fread(torch_bytes, 1, most, f);
    fclose(f);
    *state = arena;
    attn_error err = {0};
    if (attn_safetensors_read(torch_bytes, size, arena, &torch_says, &err)) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        return -1;
    }
    return 0;
}

static int forget_recorded(void **state) {
    attn_arena_free(*state);
    attn_free(torch_bytes);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_differences_dropout),
        cmocka_unit_test(test_adding),
    };
    return cmocka_run_group_tests(tests, read_recorded, forget_recorded);
}
