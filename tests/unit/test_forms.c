/* The further forms on the chosen table, each against its definition in double: learned scores,
 * positions, sinks, dropout, patterns. Cells stay equal bit for bit for all of them. */
#include "unit/forms_case.h"

/* An element of row `row` of a table of vectors, which may have a head axis. */
static double at_head(const attn_tensor *x, size_t h, size_t row, size_t e) {
    const size_t rows = x->dims[x->rank - 2], width = x->dims[x->rank - 1];
    return (double)((const float *)x->data)[((x->rank == 3 ? h * rows : 0) + row) * width + e];
}

/* output = weights_dropped times value (+ what a relative value table adds). */
static void check_output(const trial *t, const attn_tensor *value_table, double tolerance) {
    for (size_t n = 0; n < t->B * t->Hq * t->L; n++) {
        const size_t b = n / t->L / t->Hq, h = n / t->L % t->Hq, i = n % t->L;
        const float *w = row_of(&t->out.weights_dropped, b, h, i);
        for (size_t e = 0; e < t->Ev; e++) {
            double sum = 0;
            for (size_t j = 0; j < t->S; j++) {
                double v = (double)row_of(&t->in.value, b, h / (t->Hq / t->Hkv), j)[e];
                if (value_table) {
                    int64_t m = (int64_t)(value_table->dims[0] / 2), d = distance(t, b, i, j);
                    if (value_table->rank == 3)
                        m = (int64_t)(value_table->dims[1] / 2);
                    v += at_head(value_table, h, (size_t)((d < -m ? -m : d > m ? m : d) + m), e);
                }
                sum += (double)w[j] * v;
            }
            assert_true(fabs((double)row_of(&t->out.output, b, h, i)[e] - sum) <= tolerance);
        }
    }
}

/* --- scores --- */

static double tanh_score(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_score *f = &t->in.score;
    const float *q = row_of(&t->in.query, b, h, i);
    const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
    double score = 0;
    for (size_t c = 0; c < f->v.dims[0]; c++) {
        double x = f->b.rank ? at(&f->b, c, 0) : 0;
        for (size_t e = 0; e < t->Eq; e++)
            x += (double)q[e] * (f->w.rank ? at(&f->w, c, t->Ek + e) : at(&f->w_q, c, e));
        for (size_t e = 0; e < t->Ek; e++)
            x += (double)k[e] * (f->w.rank ? at(&f->w, c, e) : at(&f->w_k, c, e));
        score += at(&f->v, c, 0) * tanh(x);
    }
    return score;
}

static double general_score(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const float *q = row_of(&t->in.query, b, h, i);
    const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
    double score = 0;
    for (size_t r = 0; r < t->Ek; r++)
        for (size_t c = 0; c < t->Eq; c++)
            score += (double)k[r] * at(&t->in.score.w, r, c) * (double)q[c];
    return score;
}

static void test_scores(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        const size_t Eq = 1 + pick(seed, 30, 40), Ek = 1 + pick(seed, 31, 40),
                     A = 1 + pick(seed, 32, 70);
        trial t = begin(seed, Eq, Ek);
        t.in.score = (attn_score){.kind = ATTN_SCORE_additive,
                                  .w_q = NORMAL(&t, A, Eq),
                                  .w_k = NORMAL(&t, A, Ek),
                                  .v = NORMAL(&t, A)};
        if (seed % 2)
            t.in.score.b = NORMAL(&t, A);
        run(&t);
        check(&t, tanh_score, nothing, 1, 1e-5);
        check_output(&t, NULL, 1e-5);
        t.in.score = (attn_score){
            .kind = ATTN_SCORE_concat, .w = NORMAL(&t, A, Ek + Eq), .v = NORMAL(&t, A)};
        run(&t);
        check(&t, tanh_score, nothing, 1, 1e-5);
        t.in.score = (attn_score){.kind = ATTN_SCORE_general, .w = NORMAL(&t, Ek, Eq)};
        t.in.scale = 0.05;
        run(&t);
        check(&t, general_score, nothing, 0.05, 1e-4);
        attn_arena_free(t.arena);
        t = begin(seed, Eq, Eq);
        t.in.score.kind = ATTN_SCORE_dot;
        t.in.sinks = NORMAL(&t, t.Hq);
        run(&t);
        check(&t, dot, nothing, 1, 1e-5);
        attn_arena_free(t.arena);
    }
}

static void test_score_errors(void **state) {
    trial t = begin(3, 4, 5);
    (void)state;
    assert_int_equal(refused(&t, "key"), ATTN_ESHAPE);
    t.in.score.kind = ATTN_SCORE_general;
    assert_int_equal(refused(&t, "score/w"), ATTN_EARG);
    t.in.score.w = NORMAL(&t, 4, 5);
    assert_int_equal(refused(&t, "score/w"), ATTN_ESHAPE);
    t.in.score =
        (attn_score){.kind = ATTN_SCORE_additive, .w_q = NORMAL(&t, 7, 4), .w_k = NORMAL(&t, 6, 5)};
    assert_int_equal(refused(&t, "score/w_k"), ATTN_ESHAPE);
    t.in.score.w_k = NORMAL(&t, 7, 5);
    assert_int_equal(refused(&t, "score/v"), ATTN_EARG);
    assert_string_equal(attn_score_name(ATTN_SCORE_concat), "concat");
    assert_null(attn_score_name(ATTN_SCORE_COUNT));
    attn_arena_free(t.arena);
}

/* --- positions --- */

static double relative(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_tensor *table = &t->in.position.table;
    int64_t m = (int64_t)(table->dims[1] / 2), d = distance(t, b, i, j);
    return at(table, h, (size_t)((d < -m ? -m : d > m ? m : d) + m));
}

static double t5(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_position *p = &t->in.position;
    return at(&p->table,
              attn_t5_bucket(distance(t, b, i, j), p->table.dims[0], 40, p->unidirectional), h);
}

static double shaw(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_tensor *table = &t->in.position.key_table;
    int64_t m = (int64_t)(table->dims[0] / 2), d = distance(t, b, i, j);
    double sum = dot(t, b, h, i, j);
    for (size_t e = 0; e < t->Eq; e++)
        sum += (double)row_of(&t->in.query, b, h, i)[e] * at(table,
                                                             (size_t)((d < -m  ? -m
                                                                       : d > m ? m
                                                                               : d) +
                                                                      m),
                                                             e);
    return sum;
}

/* Rows by i - j, without buckets. */
static double disentangled(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_position *p = &t->in.position;
    const attn_tensor *any = p->key_table.rank ? &p->key_table : &p->query_table;
    const int64_t m = (int64_t)(any->dims[any->rank - 2] / 2), u = -distance(t, b, i, j);
    const size_t row = (size_t)((u < -m ? -m : u >= m ? m - 1 : u) + m);
    double sum = dot(t, b, h, i, j);
    for (size_t e = 0; p->key_table.rank && e < t->Eq; e++)
        sum += (double)row_of(&t->in.query, b, h, i)[e] * at_head(&p->key_table, h, row, e);
    for (size_t e = 0; p->query_table.rank && e < t->Eq; e++)
        sum += (double)row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j)[e] *
               at_head(&p->query_table, h, row, e);
    return sum;
}

/* Turned pairs: their product depends on the distance alone, Re(q conj(k) e^(i d theta)). */
static double rotary(const trial *t, size_t b, size_t h, size_t i, size_t j) {
    const attn_position *p = &t->in.position;
    const float *q = row_of(&t->in.query, b, h, i);
    const float *k = row_of(&t->in.key, b, h / (t->Hq / t->Hkv), j);
    const size_t start = (size_t)p->start, dims = p->dims ? (size_t)p->dims : t->Eq - start;
    const double factor = p->factor != 0 ? p->factor : 1;
    double sum = 0;
    for (size_t n = 0; n < dims / 2; n++) {
        const size_t x = start + (p->rotary == ATTN_ROTARY_INTERLEAVED ? 2 * n : n);
        const size_t y = p->rotary == ATTN_ROTARY_INTERLEAVED ? x + 1 : x + dims / 2;
        const double frequency = p->frequencies.rank ? (double)((float *)p->frequencies.data)[n]
                                                     : pow(10000, -2.0 * (double)n / (double)dims);
        const double theta = (double)distance(t, b, i, j) * frequency;
        const double c = (double)q[x] * (double)k[x] + (double)q[y] * (double)k[y];
        const double s = (double)q[y] * (double)k[x] - (double)q[x] * (double)k[y];
        sum += factor * factor * (c * cos(theta) + s * sin(theta));
    }
    for (size_t e = 0; e < t->Eq; e++)
        if (e < start || e >= start + dims)
            sum += (double)q[e] * (double)k[e];
    return sum;
}

/* Gives queries positions by batch entry, and keys positions that all entries share: in any order,
 * some repeated. */
static void give_positions(trial *t, uint64_t seed) {
    const size_t queries[2] = {t->B, t->L};
    int64_t *q = attn_arena_zeroed(t->arena, t->B * t->L, sizeof *q);
    int64_t *k = attn_arena_zeroed(t->arena, t->S, sizeof *k);
    for (size_t n = 0; n < t->B * t->L; n++)
        q[n] = (int64_t)pick(seed, 1000 + n, 50) - 10;
    for (size_t n = 0; n < t->S; n++)
        k[n] = (int64_t)pick(seed, 5000 + n, 50) - 10;
    t->in.query_positions = attn_tensor_dense(q, ATTN_I64, 2, queries);
    t->in.key_positions = attn_tensor_dense(k, ATTN_I64, 1, &t->S);
}

/* Makes frequencies small, so that float32 angles are close to the exact ones. */
static void scale_down(const attn_tensor *frequencies) {
    for (size_t n = 0; n < frequencies->dims[0]; n++)
        ((float *)frequencies->data)[n] *= 0.05f;
}

static void test_positions(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++) {
        const size_t E = 2 + 2 * pick(seed, 30, 20), m = pick(seed, 31, 12);
        const double scale = 1 / sqrt((double)E);
        trial t = begin(seed, E, E);
        if (pick(seed, 34, 2))
            give_positions(&t, seed);
        t.in.position.kind = ATTN_POSITION_ALIBI;
        run(&t);
        check(&t, dot, alibi, scale, 1e-5);
        t.in.position =
            (attn_position){.kind = ATTN_POSITION_RELATIVE, .table = NORMAL(&t, t.Hq, 2 * m + 1)};
        run(&t);
        check(&t, dot, relative, scale, 1e-5);
        t.in.position = (attn_position){.kind = ATTN_POSITION_T5,
                                        .table = NORMAL(&t, 16, t.Hq),
                                        .max_distance = 40,
                                        .unidirectional = seed % 2};
        run(&t);
        check(&t, dot, t5, scale, 1e-5);
        t.in.position = (attn_position){.kind = ATTN_POSITION_SHAW,
                                        .key_table = NORMAL(&t, 2 * m + 1, E),
                                        .value_table = NORMAL(&t, 2 * m + 1, t.Ev)};
        run(&t);
        check(&t, shaw, nothing, scale, 1e-5);
        check_output(&t, &t.in.position.value_table, 1e-5);
        t.in.position.value_table = NORMAL(&t, t.Hq, 2 * m + 1, t.Ev);
        run(&t);
        check_output(&t, &t.in.position.value_table, 1e-5);
        t.in.position = (attn_position){.kind = ATTN_POSITION_DISENTANGLED,
                                        .key_table = NORMAL(&t, t.Hq, 2 * m + 2, E)};
        run(&t);
        check(&t, disentangled, nothing, scale / sqrt(2), 1e-5);
        t.in.position.query_table = NORMAL(&t, 2 * m + 2, E);
        run(&t);
        check(&t, disentangled, nothing, scale / sqrt(3), 1e-5);
        t.in.position =
            (attn_position){.kind = ATTN_POSITION_ROTARY,
                            .rotary = seed % 2 ? ATTN_ROTARY_HALVES : ATTN_ROTARY_INTERLEAVED,
                            .dims = pick(seed, 33, 2) ? 2 : 0};
        run(&t);
        check(&t, rotary, nothing, scale, 2e-5);
        t.in.position.dims = 0;
        t.in.position.start = (int64_t)(2 * pick(seed, 35, E / 2 + 1)); /* of no pairs, too */
        t.in.position.factor = 1.25;
        run(&t);
        check(&t, rotary, nothing, scale, 2e-5);
        t.in.position.frequencies = NORMAL(&t, (E - (size_t)t.in.position.start) / 2);
        scale_down(&t.in.position.frequencies);
        run(&t);
        check(&t, rotary, nothing, scale, 5e-5);
        attn_arena_free(t.arena);
    }
}

static void test_known_positions(void **state) {
    double slopes[12];
    (void)state;
    attn_alibi_slopes(8, slopes);
    assert_true(slopes[0] == 0.5 && slopes[7] == 1.0 / 256);
    attn_alibi_slopes(12, slopes);
    assert_true(slopes[0] == 0.5 && slopes[7] == 1.0 / 256);
    assert_true(slopes[8] == exp2(-0.5) && slopes[11] == exp2(-3.5));
    assert_int_equal(attn_t5_bucket(0, 32, 128, false), 0);
    assert_int_equal(attn_t5_bucket(-7, 32, 128, false), 7);
    assert_int_equal(attn_t5_bucket(7, 32, 128, false), 23);
    assert_int_equal(attn_t5_bucket(-8, 32, 128, false), 8);
    assert_int_equal(attn_t5_bucket(-127, 32, 128, false), 15);
    assert_int_equal(attn_t5_bucket(1 << 20, 32, 128, false), 31);
    assert_int_equal(attn_t5_bucket(5, 32, 128, true), 0);
    assert_int_equal(attn_t5_bucket(-15, 32, 128, true), 15);
}

/* Rows of tables as transformers' make_log_bucket_position gives them: a table whose rows hold their
 * numbers gives these as scores. */
static void test_known_buckets(void **state) {
    static const struct {
        size_t m;
        int64_t most, u, row;
    } known[] = {{256, 512, -127, 129}, {256, 512, 128, 384}, {256, 512, 129, 385},
                 {256, 512, -131, 125}, {256, 512, 200, 425}, {256, 512, 300, 463},
                 {256, 512, 510, 511},  {256, 512, -511, 1},  {256, 512, -512, 0},
                 {256, 512, 600, 511},  {8, 33, 8, 13},       {8, 33, 9, 14},
                 {8, 33, 32, 15},       {8, 33, -33, 0},      {4, 8, 4, 7},
                 {4, 8, -3, 1},         {4, 8, -7, 1},        {4, 8, -8, 0}};
    (void)state;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        const int64_t places[2] = {known[n].u, 0};
        double one = 1, zero = 0, rows[512];
        const size_t dims[2] = {1, 1}, table[2] = {2 * known[n].m, 1}, length = 1;
        attn_arena *arena = attn_arena_new(1 << 24);
        attn_inputs in = attn_attention_defaults();
        attn_results out;
        attn_attention *op;
        attn_error err = {0};
        for (size_t r = 0; r < table[0]; r++)
            rows[r] = (double)r;
        in.query = attn_tensor_dense(&one, ATTN_F64, 2, dims);
        in.key = in.value = attn_tensor_dense(&zero, ATTN_F64, 2, dims);
        in.scale = 1;
        in.position = (attn_position){.kind = ATTN_POSITION_DISENTANGLED,
                                      .key_table = attn_tensor_dense(rows, ATTN_F64, 2, table),
                                      .max_distance = known[n].most};
        in.query_positions = attn_tensor_dense((void *)(uintptr_t)&places[0], ATTN_I64, 1, &length);
        in.key_positions = attn_tensor_dense((void *)(uintptr_t)&places[1], ATTN_I64, 1, &length);
        assert_int_equal(attn_attention_new(&in, arena, &op, &err), ATTN_OK);
        assert_int_equal(
            attn_attention_run(op, ATTN_WANT_SCORES, ATTN_STAGE_RAW, NULL, NULL, arena, &out, &err),
            ATTN_OK);
        assert_true(*(double *)out.scores.data == (double)known[n].row);
        attn_arena_free(arena);
    }
}

static void test_position_errors(void **state) {
    trial t = begin(4, 5, 5);
    (void)state;
    t.in.position.kind = ATTN_POSITION_ROTARY;
    assert_int_equal(refused(&t, "position/layout"), ATTN_EARG);
    t.in.position.rotary = ATTN_ROTARY_HALVES;
    assert_int_equal(refused(&t, "position/dims"), ATTN_EARG);
    t.in.position = (attn_position){.kind = ATTN_POSITION_RELATIVE, .table = NORMAL(&t, t.Hq, 4)};
    assert_int_equal(refused(&t, "position/table"), ATTN_ESHAPE);
    t.in.position = (attn_position){.kind = ATTN_POSITION_SHAW};
    assert_int_equal(refused(&t, "position/key_table"), ATTN_EARG);
    t.in.position = (attn_position){.kind = ATTN_POSITION_T5, .table = NORMAL(&t, 3, t.Hq)};
    assert_int_equal(refused(&t, "position/table"), ATTN_EARG);
    t.in.position =
        (attn_position){.kind = ATTN_POSITION_T5, .table = NORMAL(&t, 8, t.Hq), .max_distance = 2};
    assert_int_equal(refused(&t, "position/max_distance"), ATTN_EARG);
    t.in.position = (attn_position){.kind = ATTN_POSITION_ALIBI, .slopes = NORMAL(&t, t.Hq)};
    ((float *)t.in.position.slopes.data)[0] = NAN;
    assert_int_equal(refused(&t, "position/slopes/0"), ATTN_ENONFINITE);
    t.in.position = (attn_position){.kind = ATTN_POSITION_RELATIVE, .table = NORMAL(&t, t.Hq, 3)};
    ((float *)t.in.position.table.data)[2] = INFINITY;
    assert_int_equal(refused(&t, "position/table/0/2"), ATTN_ENONFINITE);
    attn_arena_free(t.arena);
}

/* A row without a position is as if the encoding were not there: its scores are the products alone,
 * and its number in a table may be anything. */
static void test_no_position(void **state) {
    trial t = begin(9, 6, 6);
    (void)state;
    give_positions(&t, 9);
    int64_t *queries = t.in.query_positions.data;
    for (size_t i = 0; i < t.L; i++)
        queries[i] = ATTN_NO_POSITION;
    const attn_position kinds[] = {
        {.kind = ATTN_POSITION_ALIBI},
        {.kind = ATTN_POSITION_T5, .table = NORMAL(&t, 16, t.Hq)},
        {.kind = ATTN_POSITION_RELATIVE, .table = NORMAL(&t, t.Hq, 5)},
        {.kind = ATTN_POSITION_SHAW, .key_table = NORMAL(&t, 5, 6)},
    };
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        t.in.position = kinds[n];
        run(&t);
        for (size_t j = 0; j < t.S; j++)
            assert_float_equal(row_of(&t.out.scores, 0, 0, 0)[j], dot(&t, 0, 0, 0, j), 1e-5);
    }
    attn_arena_free(t.arena);
}

static void test_given_position_errors(void **state) {
    trial t = begin(4, 6, 6);
    (void)state;
    give_positions(&t, 4);
    assert_int_equal(refused(&t, "query_positions"), ATTN_EARG);
    t.in.position.kind = ATTN_POSITION_ALIBI;
    t.in.key_positions.dims[0]--;
    assert_int_equal(refused(&t, "key_positions"), ATTN_ESHAPE);
    t.in.key_positions.dims[0]++;
    t.in.key_positions.dtype = ATTN_F64;
    assert_int_equal(refused(&t, "key_positions"), ATTN_EDTYPE);
    t.in.key_positions.dtype = ATTN_I64;
    ((int64_t *)t.in.query_positions.data)[0] = -(INT64_C(1) << 40) - 1;
    assert_int_equal(refused(&t, "query_positions/0/0"), ATTN_EVALUE);
    attn_arena_free(t.arena);
}

/* Cached keys have been turned: growing a cache step by step equals one run over all. */
static void test_rotary_cache(void **state) {
    (void)state;
    trial t = begin(12, 8, 8);
    t.in.mask.count = 0;
    t.in.mask.offset = ATTN_OFFSET_DEFAULT;
    t.in.position = (attn_position){.kind = ATTN_POSITION_ROTARY, .rotary = ATTN_ROTARY_HALVES};
    const size_t half = t.S / 2;
    attn_inputs first = t.in, second = t.in;
    attn_error err;
    attn_attention *a;
    attn_results grown, rest;
    first.key.dims[2] = first.value.dims[2] = half;
    assert_int_equal(attn_attention_new(&first, t.arena, &a, &err), ATTN_OK);
    assert_int_equal(
        attn_attention_run(a, ATTN_WANT_PRESENT, ATTN_STAGE_RAW, NULL, NULL, t.arena, &grown, &err),
        ATTN_OK);
    second.past_key = grown.present_key, second.past_value = grown.present_value;
    second.key.data = (float *)t.in.key.data + half * t.Ek;
    second.value.data = (float *)t.in.value.data + half * t.Ev;
    second.key.dims[2] = second.value.dims[2] = t.S - half;
    second.mask.offset = ATTN_OFFSET_GIVEN;
    second.mask.offsets = (const int64_t[]){0};
    second.mask.offset_count = 1;
    assert_int_equal(attn_attention_new(&second, t.arena, &a, &err), ATTN_OK);
    assert_int_equal(attn_attention_run(a, ATTN_WANT_OUTPUT | ATTN_WANT_PRESENT, ATTN_STAGE_RAW,
                                        NULL, NULL, t.arena, &rest, &err),
                     ATTN_OK);
    run(&t);
    for (size_t c = 0; c < t.B * t.Hq * t.L * t.Ev;
         c++) /* `ref` turns in double, the cache is float */
        assert_true(fabs((double)((float *)rest.output.data)[c] -
                         (double)((float *)t.out.output.data)[c]) < 1e-6);
    attn_arena_free(t.arena);
}

/* --- dropout, patterns, verification --- */

static void test_dropout(void **state) {
    (void)state;
    trial t = begin(21, 16, 16);
    size_t dropped = 0, cells = t.B * t.Hq * t.L * t.S;
    t.in.dropout_p = 0.25;
    t.in.dropout_seed = 99;
    run(&t);
    const float *w = t.out.weights.data, *d = t.out.weights_dropped.data;
    for (size_t c = 0; c < cells; c++) {
        bool gone = attn_rng_uniform(99, c) < 0.25;
        dropped += gone;
        assert_true(d[c] == (gone ? 0 : w[c] * (float)(1 / 0.75)));
    }
    assert_true(fabs((double)dropped / (double)cells - 0.25) < 0.05);
    check_output(&t, NULL, 1e-5);
    check(&t, dot, nothing, 0.25, 1e-5);
    attn_arena_free(t.arena);
}

/* A pattern skips tiles; as a mask of booleans nothing is skipped. Both give the same bytes. */
static void test_patterns(void **state) {
    const attn_pattern patterns[] = {
        {.kind = ATTN_PATTERN_LOCAL, .radius = 5},
        {.kind = ATTN_PATTERN_STRIDED, .stride = 150, .local = 2},
        {.kind = ATTN_PATTERN_BLOCK, .size = 33},
        {.kind = ATTN_PATTERN_GLOBAL, .num_keys = 3, .local = 4},
    };
    (void)state;
    for (uint64_t seed = 0; seed < trials(TRIALS); seed++)
        for (size_t n = 0; n < 4; n++) {
            trial t = begin(seed, 8, 8), masked = t;
            const attn_pattern *p = &patterns[n];
            t.in.mask.layers[t.in.mask.count++] =
                (attn_mask_layer){.kind = ATTN_LAYER_PATTERN, .where = "pattern", .pattern = *p};
            run(&t);
            uint8_t *keep = attn_arena_zeroed(t.arena, t.L * t.S, 1);
            for (size_t i = 0; i < t.L; i++)
                for (size_t j = 0; j < t.S; j++) {
                    int64_t pos = (int64_t)j - distance(&t, 0, i, j), d = (int64_t)j - pos;
                    d = d < 0 ? -d : d;
                    keep[i * t.S + j] = n == 0   ? d <= 5
                                        : n == 1 ? d % 150 == 0 || d <= 2
                                        : n == 2 ? floor((double)pos / 33) == floor((double)j / 33)
                                                 : j < 3 || (pos >= 0 && pos < 3) || d <= 4;
                }
            masked.in.mask.layers[masked.in.mask.count++] =
                (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                  .where = "attn_mask",
                                  .values = attn_tensor_dense(keep, ATTN_BOOL, 2, DIMS(t.L, t.S))};
            run(&masked);
            assert_memory_equal(t.out.weights.data, masked.out.weights.data,
                                t.B * t.Hq * t.L * t.S * sizeof(float));
            assert_memory_equal(t.out.output.data, masked.out.output.data,
                                t.B * t.Hq * t.L * t.Ev * sizeof(float));
            assert_int_equal(visible(t.a), visible(masked.a));
            check_cells(&t);
            attn_arena_free(t.arena);
        }
}

static void test_verify(void **state) {
    (void)state;
    trial t = begin(31, 16, 16);
    attn_verification v;
    attn_error err;
    run(&t);
    assert_int_equal(attn_attention_verify(t.a, &t.out, 20, 1, NULL, t.arena, &v, &err), ATTN_OK);
    assert_true(v.rows == 20 && v.output_error < 1e-6 && v.logsumexp_error < 1e-5);
    for (size_t c = 0; c < t.B * t.Hq * t.L * t.Ev; c++)
        ((float *)t.out.output.data)[c] += 0.5f;
    assert_int_equal(attn_attention_verify(t.a, &t.out, 20, 1, NULL, t.arena, &v, &err), ATTN_OK);
    assert_true(v.output_error > 0.05);
    attn_arena_free(t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),        cmocka_unit_test(test_score_errors),
        cmocka_unit_test(test_positions),     cmocka_unit_test(test_known_positions),
        cmocka_unit_test(test_known_buckets), cmocka_unit_test(test_position_errors),
        cmocka_unit_test(test_rotary_cache),  cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_verify),
        cmocka_unit_test(test_no_position),   cmocka_unit_test(test_given_position_errors),
    };
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
