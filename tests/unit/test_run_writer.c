/* Runs that are written site by site: the file is what attn_run_image_new makes of all sites at once,
 * memory does not grow with it, and whatever the sink refuses ends in an error. */
#include <stdatomic.h>

#include "run_case.h"
#include "trials.h"

/* --- a file in memory --- */

enum { FILE_MOST = 1 << 26 };

typedef struct file {
    char *bytes;              /* NULL: they are only counted */
    size_t room, size, count; /* of the header, of all, of writes */
    size_t fails;             /* the write that fails, from 1; 0: none */
} file;

/* Data comes in order from the end of the header on, then the header. */
static int put(void *ctx, size_t at, const void *data, size_t n) {
    file *f = ctx;
    assert_true(n > 0);
    if (++f->count == f->fails)
        return 28;
    if (at) {
        f->room = f->size ? f->room : at;
        assert_true(!f->size || at == f->size);
        f->size = at + n;
    } else {
        assert_int_equal(n, f->room);
    }
    if (f->bytes) {
        assert_true(at + n <= FILE_MOST);
        memcpy(f->bytes + at, data, n);
    }
    return 0;
}

static file file_new(void) {
    return (file){.bytes = attn_alloc(FILE_MOST)};
}

/* Writes all sites; bit i of `stays` tells whether those of site i stay. */
static attn_status write_run(file *f, const attn_run_source *source, unsigned stays, size_t room,
                             attn_arena *arena, attn_error *err) {
    const attn_run_sink sink = {put, f};
    const attn_run_plan plan = {.sites = source->site_count,
                                .texts = source->texts,
                                .text_count = source->text_count,
                                .model = source->model,
                                .room = room};
    attn_run_writer *w;
    size_t size = 0;
    f->size = f->count = f->room = 0;
    attn_status status = attn_run_writer_new(&sink, &plan, arena, &w, err);
    for (size_t i = 0; i < source->site_count && !status; i++)
        status = attn_run_writer_site(w, &source->sites[i], stays >> i & 1, NULL, NULL, err);
    if (!status)
        status = attn_run_writer_end(w, source->metadata, source->metadata_count, &size, err);
    if (!status)
        assert_int_equal(size, f->size);
    return status;
}

static attn_run *open_file(const file *f, attn_arena *arena) {
    attn_run *run;
    attn_error err;
    fail_on(attn_run_open(f->bytes, f->size, NULL, arena, &run, &err), &err);
    return run;
}

/* --- two runs are one --- */

static void same_lists(const void *a, size_t count_a, const void *b, size_t count_b) {
    assert_int_equal(count_a, count_b);
    assert_int_equal(!a, !b);
    if (a)
        assert_memory_equal(a, b, count_a * 8);
}

static void same_infos(const attn_run *a, const attn_run *b, size_t i) {
    const attn_run_site_info *x = attn_run_site_info_of(a, i), *y = attn_run_site_info_of(b, i);
    const size_t B = attn_run_site_shape(a, i)->B;
    assert_string_equal(x->name, y->name);
    assert_true(x->kind == y->kind && x->layer == y->layer && x->call == y->call);
    assert_true(x->query_start == y->query_start && x->key_start == y->key_start);
    same_lists(x->query_texts, x->query_text_count, y->query_texts, y->query_text_count);
    same_lists(x->key_texts, x->key_text_count, y->key_texts, y->key_text_count);
    same_lists(x->query_lengths, B, y->query_lengths, B);
    same_lists(x->key_lengths, B, y->key_lengths, B);
    assert_int_equal(x->axis_count, y->axis_count);
    for (size_t k = 0; k < x->axis_count; k++)
        assert_string_equal(x->axes[k], y->axes[k]);
}

static void same_labels(const char *const *a, const char *const *b, size_t n) {
    assert_int_equal(!a, !b);
    for (size_t i = 0; a && i < n; i++)
        assert_string_equal(a[i], b[i]);
}

static void *cells_of(const attn_run_site *site, size_t n, attn_arena *arena) {
    const attn_attention *op = attn_run_attention(site);
    const attn_attention_dims *d = attn_run_dims(site);
    const attn_range all = {n / d->Hq, n % d->Hq, 0, d->L, 0, d->S};
    void *cells = attn_arena_zeroed(arena, d->L * d->S + 1, sizeof(double));
    attn_error err;
    fail_on(attn_attention_cells(op, attn_run_stats(site), &all, ATTN_STAGE_PROBS, cells, d->S,
                                 attn_cells_scratch_new(op, arena), &err),
            &err);
    return cells;
}

static void same_sites(const attn_run *a, const attn_run *b, size_t i, attn_arena *arena) {
    const attn_run_site *x, *y;
    attn_error err;
    fail_on(attn_run_site_open(a, i, &x, &err), &err);
    fail_on(attn_run_site_open(b, i, &y, &err), &err);
    const attn_attention_dims *d = attn_run_dims(x);
    assert_string_equal(attn_run_words(x), attn_run_words(y));
    assert_int_equal(attn_run_overview_level(x), attn_run_overview_level(y));
    for (size_t n = 0; n < d->B * d->Hq; n++) {
        const attn_arena_mark mark = attn_arena_here(arena);
        assert_memory_equal(cells_of(x, n, arena), cells_of(y, n, arena),
                            d->L * d->S * sizeof(double));
        attn_arena_rewind(arena, &mark);
    }
    assert_int_equal(attn_run_label_entries(x), attn_run_label_entries(y));
    for (size_t k = 0; k < attn_run_label_entries(x); k++) {
        same_labels(attn_run_query_labels(x, k), attn_run_query_labels(y, k), d->L);
        same_labels(attn_run_key_labels(x, k), attn_run_key_labels(y, k), d->S);
    }
}

static bool is_pad(const attn_named_tensor *t) {
    return strncmp(t->name, "pad.", 4) == 0;
}

/* All tensors are aligned, and the seal is that of the bytes. Returns how many are no padding. */
static size_t check_file(const file *f, attn_arena *arena) {
    attn_safetensors all;
    attn_seal seal;
    attn_error err;
    size_t count = 0;
    fail_on(attn_safetensors_read(f->bytes, f->size, arena, &all, &err), &err);
    fail_on(attn_safetensors_seal(f->bytes, f->size, &all, 2, arena, &seal, &err), &err);
    assert_int_equal(seal.version, 2);
    assert_int_equal(seal.checksums.size, f->size - f->room);
    fail_on(attn_checksums_check(&seal.checksums, seal.bytes, 0, seal.checksums.size, &err), &err);
    for (size_t i = 0; i < all.count; i++) {
        if (is_pad(&all.tensors[i]))
            continue;
        assert_int_equal(((const char *)all.tensors[i].tensor.data - f->bytes) % ATTN_ALIGN, 0);
        count++;
    }
    return count;
}

/* The file has the image's tensors with the same names and bytes. */
static void same_tensors(const void *image, size_t size, const file *f, attn_arena *arena) {
    attn_safetensors a, b;
    attn_error err;
    fail_on(attn_safetensors_read(image, size, arena, &a, &err), &err);
    fail_on(attn_safetensors_read(f->bytes, f->size, arena, &b, &err), &err);
    assert_int_equal(a.count, check_file(f, arena));
    for (size_t i = 0; i < a.count; i++) {
        const attn_tensor *x = &a.tensors[i].tensor, *y = NULL;
        size_t n;
        for (size_t k = 0; k < b.count; k++)
            if (strcmp(a.tensors[i].name, b.tensors[k].name) == 0)
                y = &b.tensors[k].tensor;
        assert_non_null(y);
        assert_true(x->dtype == y->dtype && x->rank == y->rank);
        assert_memory_equal(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
        assert_true(attn_tensor_count(x, &n));
        if (n)
            assert_memory_equal(x->data, y->data, n * attn_dtype_size(x->dtype));
    }
}

/* Writes the source with every site staying and with none, and compares both with its image. */
static void check_source(trial *t, const attn_run_source *source) {
    attn_error err = {ATTN_OK, "", ""};
    file f = file_new();
    fail_on(attn_run_image_new(source, NULL, NULL, t->arena, &t->pieces, &err), &err);
    join(t);
    fail_on(attn_run_open(t->image, t->pieces.size, NULL, t->arena, &t->whole, &err), &err);
    for (int stays = 0; stays < 2; stays++) {
        fail_on(write_run(&f, source, stays ? ~0u : 0, 0, t->arena, &err), &err);
        attn_run *run = open_file(&f, t->arena);
        check_file(&f, t->arena);
        if (stays) {
            same_tensors(t->image, t->pieces.size, &f, t->arena);
            assert_string_equal(attn_run_metadata(run, "run"), attn_run_metadata(t->whole, "run"));
        }
        assert_string_equal(attn_run_metadata(run, "note"), "of the caller");
        assert_string_equal(attn_run_model(run), source->model);
        assert_int_equal(attn_run_site_count(run), source->site_count);
        for (size_t i = 0; i < source->site_count; i++) {
            same_infos(t->whole, run, i);
            same_sites(t->whole, run, i, t->arena);
        }
    }
    attn_free(f.bytes);
}

/* --- the same as an image --- */

/* A copy of the tensor with a gap behind each row. */
static attn_tensor with_gaps(trial *t, const attn_tensor *from) {
    const size_t each = attn_dtype_size(from->dtype), row = from->dims[from->rank - 1];
    attn_tensor to = *from;
    size_t count;
    assert_true(attn_tensor_count(from, &count));
    char *data = attn_arena_zeroed(t->arena, (count / row) * (row + 3) + 1, each);
    for (size_t r = 0; r < count / row; r++)
        memcpy(data + r * (row + 3) * each, (char *)from->data + r * row * each, row * each);
    to.data = data;
    ptrdiff_t stride = (ptrdiff_t)row + 3;
    for (int k = from->rank - 2; k >= 0; k--) {
        to.strides[k] = stride;
        stride *= (ptrdiff_t)from->dims[k];
    }
    return to;
}

/* Sites of one random operation: with statistics, without, with strided inputs. */
static void check_trial(trial *t) {
    const size_t tokens = (t->L > t->S ? t->L : t->S) + 1, texts[2] = {0, 1};
    const char **labels = attn_arena_zeroed(t->arena, tokens, sizeof *labels);
    const int64_t lengths[2] = {(int64_t)t->L, 0};
    const attn_metadata note = {"note", "of the caller"};
    attn_inputs strided = t->in;
    attn_attention *op;
    attn_error err;
    store(t, NULL, NULL);
    for (size_t i = 0; i < tokens; i++)
        labels[i] = i % 3 ? "a\"b\\" : "\n";
    strided.query = with_gaps(t, &t->in.query);
    strided.value = with_gaps(t, &t->in.value);
    fail_on(attn_attention_new(&strided, t->arena, &op, &err), &err);
    const attn_run_text all[2] = {{.count = tokens, .tokens = labels},
                                  {.count = tokens - 1, .tokens = labels, .text = "\x1f"}};
    const attn_run_site_source sites[] = {
        {t->a, &t->out.stats, {.name = "first", .query_texts = texts, .query_text_count = 1}},
        {t->a,
         NULL,
         {.kind = ATTN_RUN_CROSS,
          .layer = 7,
          .call = 1,
          .query_start = 1,
          .query_lengths = lengths,
          .query_texts = texts,
          .query_text_count = 1,
          .key_texts = texts,
          .key_text_count = t->B}},
        {op, NULL, {.kind = ATTN_RUN_DECODER}},
        {op, &t->out.stats, {.layer = 2}}};
    const attn_run_source source = {sites, 4, all, 2, "a model", &note, 1};
    check_source(t, &source);
}

static void test_random(void **state) {
    (void)state;
    const uint64_t count = trials(TRIALS);
    for (uint64_t seed = 1; seed <= count; seed++) {
        trial t = begin(seed);
        check_trial(&t);
        attn_arena_free(t.arena);
    }
}

/* Long enough for an overview, of odd sizes. */
static void test_overview(void **state) {
    (void)state;
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 7};
    t.B = t.Hq = t.Hkv = 1, t.L = 1101, t.S = 37, t.E = 3, t.Ev = 1;
    t.in = attn_attention_defaults();
    t.in.query = NORMAL(&t, t.B, t.Hq, t.L, t.E);
    t.in.key = NORMAL(&t, t.B, t.Hkv, t.S, t.E);
    t.in.value = NORMAL(&t, t.B, t.Hkv, t.S, t.Ev);
    check_trial(&t);
    attn_arena_free(t.arena);
}

/* --- sites whose memory stays or is reused --- */

enum { B = 1, H = 2, L = 24, E = 12 };

/* An operation [B, H, L, E] with a boolean mask and a bias [L, L]. */
static attn_inputs masked(trial *t, const attn_tensor *mask, const attn_tensor *bias) {
    attn_inputs in = attn_attention_defaults();
    in.query = NORMAL(t, B, H, L, E);
    in.key = NORMAL(t, B, H, L, E);
    in.value = NORMAL(t, B, H, L, E);
    in.mask.layers[in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_VALUES, .where = "attn_mask", .values = *mask};
    in.mask.layers[in.mask.count++] =
        (attn_mask_layer){.kind = ATTN_LAYER_BIAS, .where = "attn_bias", .values = *bias};
    return in;
}

/* Six sites with two masks of the same shape and one bias in turns. If a site does not stay, no later
 * site shares its tensors; the memory of packed masks is reused either way. */
static void test_sharing(void **state) {
    static const struct {
        unsigned stays;
        size_t masks;
    } cases[] = {{0x3F, 2}, {0, 6}, {0x1, 4}, {0x2, 4}, {0x3, 2}};
    (void)state;
    trial t = {.arena = attn_arena_new(LIMIT), .seed = 3};
    const attn_tensor masks[2] = {BOOLS(&t, L, L), BOOLS(&t, L, L)}, bias = NORMAL(&t, L, L);
    attn_run_site_source sites[6] = {{0}};
    attn_error err;
    file f = file_new();
    for (size_t i = 0; i < 6; i++) {
        const attn_inputs in = masked(&t, &masks[i % 2], &bias);
        attn_attention *op;
        fail_on(attn_attention_new(&in, t.arena, &op, &err), &err);
        sites[i].op = op;
        sites[i].info.layer = i;
    }
    const attn_metadata note = {"note", "of the caller"};
    const attn_run_source source = {
        .sites = sites, .site_count = 6, .model = "", .metadata = &note, .metadata_count = 1};
    check_source(&t, &source);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_safetensors all;
        size_t packed = 0;
        fail_on(write_run(&f, &source, cases[i].stays, 0, t.arena, &err), &err);
        fail_on(attn_safetensors_read(f.bytes, f.size, t.arena, &all, &err), &err);
        for (size_t k = 0; k < all.count; k++)
            packed += !is_pad(&all.tensors[k]) && all.tensors[k].tensor.dtype == ATTN_U8;
        assert_int_equal(packed, cases[i].masks);
        attn_run *run = open_file(&f, t.arena);
        for (size_t k = 0; k < 6; k++)
            same_sites(t.whole, run, k, t.arena);
    }
    attn_free(f.bytes);
    attn_arena_free(t.arena);
}

/* --- memory --- */

static atomic_size_t live, peak;

static void *take(size_t size) {
    char *p = aligned_alloc(ATTN_ALIGN, attn_align_up(size) + ATTN_ALIGN);
    assert_non_null(p);
    memcpy(p, &size, sizeof size);
    live += size;
    peak = live > peak ? (size_t)live : (size_t)peak;
    return p + ATTN_ALIGN;
}

static void give(void *block) {
    char *p = (char *)block - ATTN_ALIGN;
    size_t size;
    if (!block)
        return;
    memcpy(&size, p, sizeof size);
    live -= size;
    free(p);
}

/* Writes `count` sites of n queries and keys with strided queries and a mask, one after the other in
 * the same memory. Stores what the writer took for good and at most. */
static void write_many(size_t count, size_t n, size_t used[2], size_t *bytes) {
    attn_arena *arena = attn_arena_new(LIMIT);
    file f = {0};
    const attn_run_sink sink = {put, &f};
    const attn_run_plan plan = {.sites = count};
    attn_run_writer *w;
    attn_error err;
    used[1] = 0;
    fail_on(attn_run_writer_new(&sink, &plan, arena, &w, &err), &err);
    for (size_t i = 0; i < count; i++) {
        trial t = {.arena = attn_arena_new(LIMIT), .seed = i};
        attn_run_site_source site = {0};
        attn_attention *op;
        t.in = attn_attention_defaults();
        t.in.query = NORMAL(&t, 1, 2, n, 16);
        t.in.query = with_gaps(&t, &t.in.query);
        t.in.key = NORMAL(&t, 1, 2, n, 16);
        t.in.value = NORMAL(&t, 1, 2, n, 16);
        add_layer(&t, (attn_mask_layer){.kind = ATTN_LAYER_VALUES,
                                        .where = "attn_mask",
                                        .values = BOOLS(&t, n, n)});
        fail_on(attn_attention_new(&t.in, t.arena, &op, &err), &err);
        site.op = op;
        const size_t before = live;
        peak = before;
        fail_on(attn_run_writer_site(w, &site, false, NULL, NULL, &err), &err);
        used[1] = peak - before > used[1] ? peak - before : used[1];
        attn_arena_free(t.arena);
    }
    used[0] = attn_arena_used(arena);
    fail_on(attn_run_writer_end(w, NULL, 0, bytes, &err), &err);
    attn_arena_free(arena);
}

static void test_memory(void **state) {
    enum { SITES = 200 };
    size_t few[2], many[2], small, large;
    (void)state;
    attn_set_allocator(take, give);
    write_many(SITES, 10, few, &small);
    write_many(SITES, 400, many, &large);
    attn_set_allocator(NULL, NULL);
    assert_int_equal(live, 0);
    assert_true(large > small + (20u << 20));
    assert_true(many[0] <= few[0] + 4096 && many[0] < SITES * ATTN_RUN_WRITER_SITE);
    assert_true(many[1] < 2u << 20);
}

/* --- errors --- */

/* A source of two sites. */
typedef struct pair {
    trial t;
    attn_run_site_source sites[2];
    attn_run_source source;
} pair;

static void pair_new(pair *p) {
    *p = (pair){.t = {.arena = attn_arena_new(LIMIT), .seed = 4}};
    const attn_tensor mask = BOOLS(&p->t, L, L), bias = NORMAL(&p->t, L, L);
    attn_error err;
    for (int i = 0; i < 2; i++) {
        const attn_inputs in = masked(&p->t, &mask, &bias);
        attn_attention *op;
        fail_on(attn_attention_new(&in, p->t.arena, &op, &err), &err);
        p->sites[i].op = op;
        p->sites[i].info.layer = (size_t)i;
    }
    p->source = (attn_run_source){.sites = p->sites, .site_count = 2};
}

static void test_sink_fails(void **state) {
    pair p;
    attn_error err;
    (void)state;
    attn_set_allocator(take, give);
    pair_new(&p);
    file f = file_new();
    fail_on(write_run(&f, &p.source, 0, 0, p.t.arena, &err), &err);
    const size_t count = f.count, before = live;
    assert_true(count > 10);
    for (f.fails = 1; f.fails <= count; f.fails++) {
        attn_arena *arena = attn_arena_new(LIMIT);
        assert_int_equal(write_run(&f, &p.source, 0, 0, arena, &err), ATTN_ECANCELED);
        assert_string_equal(err.where, "sink");
        assert_non_null(strstr(err.text, "(28)"));
        assert_int_equal(f.count, f.fails);
        attn_arena_free(arena);
        assert_int_equal(live, before);
    }
    attn_free(f.bytes);
    attn_arena_free(p.t.arena);
    assert_int_equal(live, 0);
    attn_set_allocator(NULL, NULL);
}

/* After an error, and after the end, nothing more is written. */
static void test_order_of_calls(void **state) {
    const attn_metadata ours = {"run", "x"};
    pair p;
    attn_error err;
    attn_run_writer *w;
    size_t size;
    (void)state;
    pair_new(&p);
    file f = file_new();
    const attn_run_sink sink = {put, &f};
    attn_run_plan plan = {.sites = 1};
    fail_on(attn_run_writer_new(&sink, &plan, p.t.arena, &w, &err), &err);
    assert_int_equal(attn_run_writer_end(w, NULL, 0, &size, &err), ATTN_EARG);
    assert_string_equal(err.where, "sites");
    fail_on(attn_run_writer_site(w, &p.sites[0], true, NULL, NULL, &err), &err);
    assert_int_equal(attn_run_writer_end(w, &ours, 1, &size, &err), ATTN_EARG);
    fail_on(attn_run_writer_end(w, NULL, 0, &size, &err), &err);
    const size_t count = f.count;
    assert_int_equal(attn_run_site_count(open_file(&f, p.t.arena)), 1);
    assert_int_equal(attn_run_writer_end(w, NULL, 0, &size, &err), ATTN_EARG);
    assert_int_equal(attn_run_writer_site(w, &p.sites[0], true, NULL, NULL, &err), ATTN_EARG);
    assert_int_equal(f.count, count);

    f = (file){.bytes = f.bytes};
    fail_on(attn_run_writer_new(&sink, &plan, p.t.arena, &w, &err), &err);
    fail_on(attn_run_writer_site(w, &p.sites[0], false, NULL, NULL, &err), &err);
    assert_int_equal(attn_run_writer_site(w, &p.sites[1], false, NULL, NULL, &err), ATTN_ELIMIT);
    assert_int_equal(attn_run_writer_end(w, NULL, 0, &size, &err), ATTN_ELIMIT);

    plan.sites = 0;
    assert_int_equal(attn_run_writer_new(&sink, &plan, p.t.arena, &w, &err), ATTN_EARG);
    plan.sites = SIZE_MAX / 4;
    assert_int_equal(attn_run_writer_new(&sink, &plan, p.t.arena, &w, &err), ATTN_ELIMIT);
    attn_free(f.bytes);
    attn_arena_free(p.t.arena);
}

static void test_room(void **state) {
    char name[8000];
    pair p;
    attn_error err;
    (void)state;
    pair_new(&p);
    file f = file_new();
    fail_on(write_run(&f, &p.source, 0, 8000, p.t.arena, &err), &err);
    assert_int_equal(f.room, 8000);
    fail_on(write_run(&f, &p.source, 0, 7999, p.t.arena, &err), &err);
    assert_int_equal(f.room, 8000);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    p.sites[1].info.name = name;
    assert_int_equal(write_run(&f, &p.source, 0, 8000, p.t.arena, &err), ATTN_ELIMIT);
    assert_non_null(strstr(err.text, "8000 are kept for it"));
    fail_on(write_run(&f, &p.source, 0, 0, p.t.arena, &err), &err);
    assert_string_equal(attn_run_site_info_of(open_file(&f, p.t.arena), 1)->name, name);
    assert_int_equal(write_run(&f, &p.source, 0, 100000001, p.t.arena, &err), ATTN_ELIMIT);
    attn_free(f.bytes);
    attn_arena_free(p.t.arena);
}

/* Leaves a file for others to read (tests/http/test_run_written.py), if they ask for one. */
static void test_file(void **state) {
    const char *path = getenv("ATTN_TEST_FILE");
    pair p;
    attn_error err;
    (void)state;
    pair_new(&p);
    file f = file_new();
    fail_on(write_run(&f, &p.source, 1, 0, p.t.arena, &err), &err);
    FILE *to = path ? fopen(path, "wb") : NULL;
    assert_int_equal(!to, !path);
    if (to) {
        assert_int_equal(fwrite(f.bytes, 1, f.size, to), f.size);
        assert_int_equal(fclose(to), 0);
    }
    attn_free(f.bytes);
    attn_arena_free(p.t.arena);
}

/* A text that a site names is too short: the error is that of an image. */
static void test_short_text(void **state) {
    const char *token = "a";
    const attn_run_text text = {.count = 1, .tokens = &token};
    const size_t number = 0;
    pair p;
    attn_error err;
    (void)state;
    pair_new(&p);
    file f = file_new();
    p.source.texts = &text;
    p.source.text_count = 1;
    p.sites[1].info.key_texts = &number;
    p.sites[1].info.key_text_count = 1;
    assert_int_equal(write_run(&f, &p.source, 0, 0, p.t.arena, &err), ATTN_ESHAPE);
    assert_string_equal(err.where, "sites/1/key_text");
    attn_free(f.bytes);
    attn_arena_free(p.t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),     cmocka_unit_test(test_overview),
        cmocka_unit_test(test_sharing),    cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sink_fails), cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_room),       cmocka_unit_test(test_file),
        cmocka_unit_test(test_short_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
