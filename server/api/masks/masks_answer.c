/* Writes the answer of POST /v1/masks. A small mask is written cell by cell, a large mask as runs:
 * ranges of visible keys [row, from, to]. If all batch entries or all heads are equal, only one of
 * them is written. A picture of a mask is a heatmap of its cells, so a large mask is pooled. */
#include <math.h>
#include <string.h>

#include "api/common/dry.h"
#include "api/common/heatmap_object.h"
#include "api/masks/masks_api.h"
#include "api/masks/masks_call.h"
#include "load/admission.h"
#include "request/shared.h"

const char *const srv_masks_forms[] = {"keep",     "keep_numbers", "hide_numbers",
                                       "additive", "difference",   NULL};
_Static_assert(sizeof(srv_masks_form) == sizeof(int), "SRV_ENUM stores an int");

double srv_masks_batches(const srv_masks_call *call) {
    double n = 1;
    for (int i = 0; i < call->shape.batch_rank; i++)
        n *= (double)call->shape.batch[i];
    return n;
}

/* Memory in bytes of each written cell: its boolean, its float32, and twice the text of both,
 * because the buffer of the text grows by doubling. */
#define CELL_BYTES 56.0
/* Upper bounds of text, in bytes. */
#define PART_TEXT  64.0    /* the part of one batch entry and head, without its runs */
#define RUN_TEXT   5.0     /* brackets and commas of one run */
#define LABEL_TEXT 6.0     /* an escaped character of a label */
#define LATER_TEXT 16384.0 /* everything that is written after the runs */

/* --- cells --- */

static bool binary(const srv_masks_call *call) {
    return call->req->accept & (SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY);
}

bool srv_masks_cells(const srv_masks_call *call) {
    return call->bound <= SRV_MASK_CELLS || binary(call);
}

/* Returns the number that represents a cell in the form. `keep`: the cell is visible. `add` is the
 * number of the cell for the forms ADDITIVE and DIFFERENCE. */
static float value_of(srv_masks_form form, bool keep, double add) {
    switch (form) {
    case SRV_MASKS_KEEP:
    case SRV_MASKS_KEEP_NUMBERS:
        return keep;
    case SRV_MASKS_HIDE_NUMBERS:
        return !keep;
    case SRV_MASKS_ADDITIVE:
    case SRV_MASKS_DIFFERENCE:
        break;
    }
    return (float)add;
}

/* Writes to `keep` which cells of a row are visible. For the forms ADDITIVE and DIFFERENCE, also
 * writes their numbers to `add`. For DIFFERENCE, the visible cells of `against` follow in
 * `keep`. */
static void read_row(const attn_mask *mask, const attn_mask *against, srv_masks_form form,
                     const attn_range *row, uint8_t *keep, double *add) {
    if (form == SRV_MASKS_ADDITIVE)
        attn_mask_numbers(mask, row->batch, row->head, row->row, row->col, row->cols, keep, add);
    else
        attn_mask_keep(mask, row->batch, row->head, row->row, row->col, row->cols, keep);
    if (form == SRV_MASKS_DIFFERENCE)
        srv_masks_keep_against(against, row, keep, keep + row->cols, add);
}

/* Computes the rows [L, S] of batch entry b and head h, and writes them to `to`: bytes for KEEP,
 * else float32. `keep` and `add` are scratch memory for 2 S bytes and S numbers. */
static attn_status make_rows(const srv_masks_call *call, srv_masks_form form, size_t b, size_t h,
                             uint8_t *keep, double *add, void *to, attn_error *err) {
    const size_t L = call->shape.L, S = call->shape.S;
    for (size_t i = 0; i < L; i++) {
        if (attn_control_check(&call->req->control, err))
            return err->code;
        const attn_range row = {.batch = b, .head = h, .row = i, .rows = 1, .cols = S};
        read_row(call->mask, call->against, form, &row, keep, add);
        if (form == SRV_MASKS_KEEP) {
            memcpy((uint8_t *)to + i * S, keep, S);
            continue;
        }
        for (size_t j = 0; j < S; j++)
            ((float *)to)[i * S + j] = value_of(form, keep[j], add[j]);
    }
    return ATTN_OK;
}

/* Computes all cells of the mask, [B, H, L, S], as a tensor with the shape of the weights. false: a
 * problem is set. */
static bool make_cells(const srv_masks_call *call, srv_masks_form form, attn_tensor *out) {
    const attn_mask_shape *s = &call->shape;
    const attn_dtype dtype = form == SRV_MASKS_KEEP ? ATTN_BOOL : ATTN_F32;
    const size_t part = s->L * s->S, each = attn_dtype_size(dtype);
    attn_arena *arena = call->req->arena;
    char *to = attn_arena_zeroed(arena, call->cells > 0 ? (size_t)call->cells : 1, each);
    double *add = attn_arena_zeroed(arena, s->S + 1, sizeof *add);
    uint8_t *keep = attn_arena_zeroed(arena, s->S + 1, 2);
    attn_error err = {0};
    attn_status status = to && add && keep
                             ? ATTN_OK
                             : attn_fail(&err, ATTN_ENOMEM, "", "no memory left for the mask");
    for (size_t b = 0; !status && call->cells > 0 && b < call->B; b++)
        for (size_t h = 0; !status && h < s->H; h++)
            status =
                make_rows(call, form, b, h, keep, add, to + (b * s->H + h) * part * each, &err);
    if (status)
        srv_problem_error(call->req, &err);
    *out = attn_tensor_dense(to, dtype, call->rank, call->dims);
    return !status;
}

/* Returns whether a visible cell of an additive tensor adds a number other than 0. */
static bool adds_any(const srv_masks_call *call, const attn_tensor *additive) {
    const float *add = additive->data;
    for (size_t i = 0; i < (size_t)call->cells; i++)
        if (isfinite(add[i]) && add[i] != 0)
            return true;
    return false;
}

/* Writes the cells in the requested form. If this form is KEEP and the mask adds numbers to scores,
 * also writes these numbers, except to an npy file, which holds only one tensor. false: a problem
 * is set. */
static bool write_cells(attn_json_text *j, const srv_masks_call *call) {
    const srv_masks_form form = call->body.as;
    const bool adds = form == SRV_MASKS_KEEP && !(call->req->accept & SRV_ACCEPT_NPY) &&
                      attn_mask_adds(call->mask);
    const double each =
        (form == SRV_MASKS_KEEP ? 1.0 : sizeof(float)) + (adds ? sizeof(float) : 0.0);
    const double rows = (sizeof(double) + 2) * (double)(call->shape.S + 1);
    attn_tensor cells;
    if (binary(call) && !srv_admission_work(call->req, 0, each * call->cells + (1 + adds) * rows))
        return false;
    if (!make_cells(call, form, &cells))
        return false;
    srv_json_key_tensor(j, srv_masks_forms[form], &cells);
    if (!adds)
        return true;
    if (!make_cells(call, SRV_MASKS_ADDITIVE, &cells))
        return false;
    if (adds_any(call, &cells))
        srv_json_key_tensor(j, srv_masks_forms[SRV_MASKS_ADDITIVE], &cells);
    return true;
}

/* --- runs --- */

/* Finds an interval of keys outside of which every key of the row is hidden. Sets *lo to the first
 * key of the interval, and returns its length n. keep[k], k < n, becomes 1 if key *lo + k is
 * visible, else 0. `keep` has S elements. */
static size_t load_row(const srv_masks_call *call, size_t b, size_t h, size_t i, uint8_t *keep,
                       size_t *lo) {
    size_t hi;
    attn_mask_interval(call->mask, b, i, lo, &hi);
    attn_mask_keep(call->mask, b, h, i, *lo, hi - *lo, keep);
    return hi - *lo;
}

/* Counts the runs of visible keys in all rows of the first B batch entries and H heads. */
static attn_status count_runs(const srv_masks_call *call, size_t B, size_t H, uint8_t *keep,
                              double *runs, attn_error *err) {
    const attn_mask_shape *s = &call->shape;
    size_t lo;
    *runs = 0;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < s->L; i++) {
                if (attn_control_check(&call->req->control, err))
                    return err->code;
                size_t n = load_row(call, b, h, i, keep, &lo), found = n > 0 && keep[0];
                for (size_t k = 1; k < n; k++)
                    found += keep[k] > keep[k - 1];
                *runs += (double)found;
            }
    return ATTN_OK;
}

static double digits(size_t n) {
    double count = 1;
    for (; n > 9; n /= 10)
        count++;
    return count;
}

static double names_text(const srv_strings *list) {
    double text = 0;
    for (size_t i = 0; i < list->count; i++)
        text += LABEL_TEXT * (double)strlen(list->values[i]) + RUN_TEXT;
    return text;
}

static double label_text(const srv_labels *labels) {
    double text = 0;
    for (size_t b = 0; b < labels->count; b++) {
        const srv_names *names = srv_labels_of(labels, b);
        text += names_text(&names->query) + names_text(&names->key);
    }
    return text;
}

/* Counts the runs of visible keys, and reserves memory for the JSON of the runs and of the members
 * after them. false: a problem is set. */
static bool admit_runs(attn_json_text *j, const srv_masks_call *call, size_t B, size_t H,
                       uint8_t *keep) {
    const attn_mask_shape *s = &call->shape;
    attn_error err = {0};
    double runs;
    if (count_runs(call, B, H, keep, &runs, &err))
        return srv_problem_error(call->req, &err);
    double text = PART_TEXT * (double)B * (double)H +
                  (RUN_TEXT + digits(s->L) + 2 * digits(s->S)) * runs +
                  label_text(&call->body.labels) + LATER_TEXT;
    if (!srv_admission_work(call->req, 0, text))
        return false;
    attn_json_reserve(j, (size_t)text);
    return true;
}

static void write_row(attn_json_text *j, const srv_masks_call *call, size_t b, size_t h, size_t i,
                      uint8_t *keep) {
    size_t lo, n = load_row(call, b, h, i, keep, &lo);
    const uint8_t *end = keep + n;
    for (const uint8_t *from = keep; from < end;) {
        from = memchr(from, 1, (size_t)(end - from));
        if (!from)
            return;
        const uint8_t *to = memchr(from, 0, (size_t)(end - from));
        if (!to)
            to = end;
        attn_json_array(j);
        attn_json_size(j, i);
        attn_json_size(j, lo + (size_t)(from - keep));
        attn_json_size(j, lo + (size_t)(to - keep));
        attn_json_array_end(j);
        from = to;
    }
}

static void write_index(attn_json_text *j, const char *name, size_t index, bool shared) {
    attn_json_key(j, name);
    if (shared)
        attn_json_null(j);
    else
        attn_json_size(j, index);
}

/* Writes the runs of visible keys of all distinct [L, S] parts. false: a problem is set. */
static bool write_runs(attn_json_text *j, const srv_masks_call *call) {
    const attn_mask_shape *s = &call->shape;
    bool same_batches = attn_mask_same_batches(call->mask);
    bool same_heads = attn_mask_same_heads(call->mask);
    size_t B = same_batches ? 1 : call->B, H = same_heads ? 1 : s->H;
    uint8_t *keep = attn_arena_take(call->req->arena, s->S);
    attn_error err = {0};
    if (!keep) {
        j->failed = true;
        return true;
    }
    if (!admit_runs(j, call, B, H, keep))
        return false;
    attn_json_key_object(j, "keep");
    attn_json_key_array(j, "runs");
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            attn_json_object(j);
            write_index(j, "batch", b, same_batches);
            write_index(j, "head", h, same_heads);
            attn_json_key_array(j, "runs");
            for (size_t i = 0; i < s->L && !j->failed; i++) {
                if (attn_control_check(&call->req->control, &err))
                    return srv_problem_error(call->req, &err);
                write_row(j, call, b, h, i, keep);
            }
            attn_json_array_end(j);
            attn_json_object_end(j);
        }
    attn_json_array_end(j);
    attn_json_object_end(j);
    return true;
}

/* Writes the tensor of cells that an answer of runs leaves out: the requested form or, if this is
 * KEEP, the numbers that the mask adds to scores. */
static void put_omitted(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    const bool asked = call->body.as != SRV_MASKS_KEEP;
    if (srv_masks_cells(call) || (!asked && !attn_mask_adds(call->mask)))
        return;
    attn_json_object(j);
    srv_omitted_write(j, srv_masks_forms[asked ? call->body.as : SRV_MASKS_ADDITIVE], call->cells,
                      "accept application/vnd.safetensors, which has all cells, or ask for a part "
                      "of at most 65,536 cells by a smaller shape");
    attn_json_object_end(j);
}

/* Returns the bytes of the compiled layers of a mask. */
static double layer_bytes(const srv_masks_call *call, const attn_mask_spec *spec) {
    const size_t B = (size_t)srv_masks_batches(call);
    double values = sizeof(int64_t) * (double)attn_mask_position_numbers(spec, B, call->shape.S);
    size_t n;
    for (size_t i = 0; i < spec->count; i++)
        if (attn_tensor_count(&spec->layers[i].values, &n))
            values += (double)n * (double)attn_layer_value_bytes(&spec->layers[i]);
    return values + SRV_MASK_ENTRY * srv_masks_batches(call);
}

double srv_masks_memory(const srv_masks_call *call) {
    const bool compares = call->body.against.count;
    double cells = call->bound <= SRV_MASK_CELLS ? CELL_BYTES * call->cells : 0;
    double values = layer_bytes(call, &call->body.spec);
    if (compares)
        values += layer_bytes(call, &call->against_spec) + 2 * (double)(call->shape.S + 1);
    /* make_cells needs one row in double, and the linter needs a hash for each row. */
    double rows = sizeof(double) * ((double)call->shape.L + (double)call->shape.S);
    return values + rows + (double)call->shape.S + cells;
}

static void put_shape(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    attn_json_array(j);
    for (int i = 0; i < call->rank; i++)
        attn_json_size(j, call->dims[i]);
    attn_json_array_end(j);
}

static void put_words(attn_json_text *j, const void *data) {
    const srv_masks_call *call = data;
    attn_json_string(j, attn_mask_words(call->mask, call->req->arena));
}

/* The rows of the cells and runs, for the schema only. srv_masks_json writes these members between
 * the members of shape_rows and rest_rows. */
static const srv_field part_rows[] = {
    SRV_WRITTEN("batch", "integer?", NULL, "The batch entry; null: each.", .always = true),
    SRV_WRITTEN("head", "integer?", NULL, "The head; null: each.", .always = true),
    SRV_WRITTEN("runs", "[[integer+ 3]]", NULL, "The runs [row, from, to).", .always = true),
    {0},
};
static const srv_field runs_rows[] = {
    SRV_WRITTEN("runs", "[*]", NULL, "The runs of each part of the mask.", .fields = part_rows,
                .always = true),
    {0},
};
static const srv_field cell_rows[] = {
    SRV_WRITTEN("keep", "Flags|*", NULL,
                "true = visible; of more than 65,536 cells as runs [row, from, to) of visible "
                "keys, null standing for every batch entry or head.",
                .fields = runs_rows),
    SRV_WRITTEN("keep_numbers", "Numbers", NULL, "1 = visible, 0 = hidden."),
    SRV_WRITTEN("hide_numbers", "Numbers", NULL, "1 = hidden, 0 = visible."),
    SRV_WRITTEN("additive", "Numbers", NULL,
                "The numbers that are added to the scores, null where hidden; with mask_fill that "
                "number. Beside keep it is present only if a finite number other than 0 is added."),
    SRV_WRITTEN("difference", "Numbers", NULL,
                "1 = only masks shows the cell, -1 = only against does, 0 = the same."),
    {0},
};

static const srv_field shape_rows[] = {
    SRV_WRITTEN("shape", "[integer+]", put_shape, "The shape of the weights."),
    {0},
};
static const srv_field rest_rows[] = {
    SRV_IF_KNOWN("kept", SRV_REAL, srv_masks_call, kept, "Share of the cells that are visible.",
                 .max = 1),
    SRV_WRITTEN("words", "string", put_words, "The mask in words."),
    SRV_LABELS_MEMBER(srv_masks_call, body.labels),
    SRV_WRITTEN("omitted", "{OmittedTensor 1+}", put_omitted,
                "By the name of the tensor that an answer of runs leaves out."),
    SRV_GROUP("", srv_masks_against_rows, NULL),
    SRV_WARNINGS_MEMBER(srv_masks_call, warnings),
    {0},
};
static const srv_field answer_rows[] = {
    SRV_GROUP("", shape_rows, NULL),
    SRV_GROUP("", cell_rows, NULL),
    SRV_GROUP("", rest_rows, NULL),
    SRV_DRY_RUN_MEMBER,
    {0},
};

const srv_field srv_masks_answers[] = {
    SRV_GROUP("Mask", answer_rows,
              "Without dry_run: shape, kept, words and the mask in the form that `as` names, keep "
              "by default."),
    {0},
};

void srv_masks_json(void *data, attn_json_text *j) {
    srv_masks_call *call = data;
    const bool alone = call->req->accept & SRV_ACCEPT_NPY; /* an npy file holds only the cells */
    if (!alone)
        srv_answer_members(j, shape_rows, call);
    if ((srv_masks_cells(call) ? write_cells(j, call) : write_runs(j, call)) && !alone)
        srv_answer_members(j, rest_rows, call);
}

static void print_pictures(attn_text *t, const srv_masks_call *call, const uint8_t *keep) {
    const attn_mask_shape *s = &call->shape;
    bool same_batches = attn_mask_same_batches(call->mask);
    bool same_heads = attn_mask_same_heads(call->mask);
    size_t B = same_batches && call->B > 0 ? 1 : call->B, H = same_heads && s->H > 0 ? 1 : s->H;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            if (B > 1)
                attn_text_add(t, "batch %zu%s", b, H > 1 ? ", " : ":\n");
            if (H > 1)
                attn_text_add(t, "head %zu:\n", h);
            attn_text_mask(t, keep + (b * s->H + h) * s->L * s->S, s->L, s->S);
            attn_text_add(t, "\n");
        }
}

static void say_left_out(attn_text *t, const srv_masks_call *call) {
    attn_text_add(t, "the picture is left out: ");
    for (int i = 0; i < call->rank; i++)
        attn_text_add(t, "%s%zu", i ? " x " : "", call->dims[i]);
    attn_text_add(t, " cells; at most %d are drawn\n", SRV_MASK_CELLS);
}

void srv_masks_text(void *data, attn_text *t) {
    srv_masks_call *call = data;
    char shape[128];
    attn_tensor cells;
    if (!srv_masks_cells(call))
        say_left_out(t, call);
    else if (!make_cells(call, call->body.as, &cells))
        return;
    else if (call->body.as == SRV_MASKS_KEEP)
        print_pictures(t, call, cells.data);
    else
        srv_text_tensor(t, srv_masks_forms[call->body.as], &cells,
                        (srv_print){-1, call->body.full});
    attn_text_add(t, "shape: %s\n", attn_shape_text(call->dims, call->rank, shape, sizeof shape));
    attn_text_add(t, "mask: %s\n", attn_mask_words(call->mask, call->req->arena));
    attn_text_add(t, "kept: %.4g %% of %.6g cells\n", 100 * call->kept, call->cells);
    srv_masks_against_text(t, call);
    srv_warnings_text(t, &call->warnings);
}

/* --- pictures --- */

/* A source of weights that reads the compiled mask in one of the forms. Cells that the mask hides
 * are drawn as hidden, unless the form has a number for them. */
typedef struct mask_source {
    const attn_mask *mask, *against;
    srv_masks_form form;
    uint8_t *keep; /* [threads of the pool, 2 S]: a row of cells for each thread */
    double *add;   /* [threads of the pool, S]: numbers of ADDITIVE and DIFFERENCE */
    size_t S;      /* number of keys */
} mask_source;

static attn_status fetch(void *ctx, size_t lane, const attn_range *rows, float *weights,
                         float *logits, attn_error *err) {
    const mask_source *source = ctx;
    uint8_t *keep = source->keep + 2 * lane * source->S;
    double *add = source->add + lane * source->S;
    const srv_masks_form form = source->form;
    (void)err;
    for (size_t r = 0; r < rows->rows; r++) {
        attn_range row = *rows;
        row.row += r;
        read_row(source->mask, source->against, form, &row, keep, add);
        for (size_t c = 0; c < rows->cols; c++) {
            const float value = value_of(form, keep[c], add[c]);
            const bool both = form == SRV_MASKS_DIFFERENCE && !keep[c] && !keep[rows->cols + c];
            const bool hidden = form == SRV_MASKS_KEEP ? !keep[c] : both || value == -INFINITY;
            weights[r * rows->cols + c] = hidden ? 0 : value;
            logits[r * rows->cols + c] = hidden ? -INFINITY : 0;
        }
    }
    return ATTN_OK;
}

/* Pools the mask into heatmaps. false: a problem is set. */
static bool pool(srv_masks_call *call, attn_heatmaps *maps) {
    static const int64_t first[] = {0};
    srv_request *req = call->req;
    attn_pool *workers = srv_request_pool(req);
    const bool compares = call->body.as == SRV_MASKS_DIFFERENCE;
    mask_source m = {
        .mask = call->mask, .against = call->against, .form = call->body.as, .S = call->shape.S};
    const attn_weight_source source = {.batches = call->B,
                                       .heads = call->shape.H,
                                       .rows = call->shape.L,
                                       .cols = call->shape.S,
                                       .has_logits = true,
                                       .fetch = fetch,
                                       .ctx = &m};
    attn_heatmap_options options = attn_heatmap_defaults();
    options.signed_values = compares || call->body.as == SRV_MASKS_ADDITIVE;
    const size_t slots = attn_pool_slots(workers);
    attn_cost cost;
    attn_error err = {0};
    if ((compares ? srv_masks_same_batches(call) : attn_mask_same_batches(call->mask)) &&
        !srv_labels_differ(&call->body.labels)) {
        options.batch_list = first;
        options.batch_count = 1;
    }
    if (compares ? srv_masks_same_heads(call) : attn_mask_same_heads(call->mask)) {
        options.heads = ATTN_HEADS_LIST;
        options.head_list = first;
        options.head_count = 1;
    }
    attn_status status = attn_heatmap_cost(&options, call->B, call->shape.H, call->shape.L,
                                           call->shape.S, slots, &cost, &err);
    if (!status && !srv_admission_work(req, 0,
                                       (double)cost.work_bytes + (double)cost.result_bytes +
                                           (double)slots * (double)m.S * (2 + sizeof(double))))
        return false;
    if (!status) {
        m.keep = attn_arena_zeroed(req->arena, slots, m.S ? 2 * m.S : 1);
        m.add = attn_arena_zeroed(req->arena, slots, (m.S ? m.S : 1) * sizeof *m.add);
        if (!m.keep || !m.add)
            status = attn_fail(&err, ATTN_ENOMEM, "", "no memory left to draw the mask");
    }
    if (!status)
        status =
            attn_heatmap_build(&source, &options, workers, &req->control, req->arena, maps, &err);
    return !status || srv_problem_error(req, &err);
}

/* Returns the text of the warning that large negative numbers are added to scores; NULL: there is
 * no such warning. A picture has this text below it, because it draws the keys with these numbers
 * as visible. */
static const char *note_of(const srv_masks_call *call) {
    for (size_t i = 0; i < call->warnings.count; i++)
        if (strcmp(call->warnings.items[i].code, "low_numbers") == 0)
            return call->warnings.items[i].detail;
    return NULL;
}

void srv_masks_picture(void *data) {
    srv_masks_call *call = data;
    static const char *const meanings[] = {
        [SRV_MASKS_KEEP] = NULL, /* the picture has a legend of visible and hidden cells */
        [SRV_MASKS_KEEP_NUMBERS] = "1 = attend",
        [SRV_MASKS_HIDE_NUMBERS] = "1 = hidden",
        [SRV_MASKS_ADDITIVE] = "added to the score",
        [SRV_MASKS_DIFFERENCE] = "1 = only masks, -1 = only against",
    };
    const srv_heat_input heat = {0};
    attn_heatmaps maps;
    srv_figure_input figure = call->body.figure;
    if (!figure.value_label)
        figure.value_label = meanings[call->body.as];
    const srv_heat_answer all = {.maps = &maps,
                                 .in = &heat,
                                 .labels = &call->body.labels,
                                 .figure = &figure,
                                 .decimals = -1,
                                 .marks = call->body.as == SRV_MASKS_KEEP,
                                 .note = note_of(call)};
    if (call->cells == 0)
        srv_problem(call->req, SRV_SHAPE, "/shape", "a mask without cells cannot be drawn");
    else if (pool(call, &maps))
        srv_heat_draw(call->req, &all);
}
