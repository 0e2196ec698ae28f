/* The object `heatmap` of a request: its field table, the options made from it, and the reply with
 * heatmaps in each media type. */
#include "api/common/heatmap_object.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "load/admission.h"
#include "wire/csv.h"

/* The library's default of max_cells keeps the JSON of an answer below 1 MB: 65,536 cells for all
 * heatmaps together (lib/analysis/heatmap.c). With pool "both", each heatmap has two planes of
 * cells, max and mean. The default for this case is computed here. */
#define BOTH_CELLS 32768 /* cells of one plane, of all heatmaps together */
#define BOTH_FRAME 64    /* cells by which each further heatmap lowers the default */
#define BOTH_MAPS  512   /* for more heatmaps than this the library's default applies */

static const char *const head_words[] = {"all", "mean", NULL};

const srv_field srv_heat_fields[] = {
    SRV_FIELD_ROW(srv_heat_input, heads, SRV_UNION,
                  "\"all\" (default), \"mean\" (one heatmap, the mean over the heads) or a list of "
                  "head numbers. More than 512 heads over all batch entries need max_cells.",
                  .accepts = SRV_U_STRING | SRV_U_INTS, .choices = head_words,
                  .standard = "\"all\""),
    SRV_FIELD_ROW(srv_heat_input, batch, SRV_INTS, "Batch entries; default all."),
    SRV_FIELD_ROW(srv_heat_input, rows, SRV_RANGES,
                  "The queries from … to - 1: \"from:to\" or [from, to]; default all.",
                  .example = "\"0:256\""),
    SRV_FIELD_ROW(srv_heat_input, cols, SRV_RANGES,
                  "The keys from … to - 1: \"from:to\" or [from, to]; default all.",
                  .example = "\"0:256\""),
    SRV_INT_ROW(srv_heat_input, max_cells, 1, 16777216,
                "Largest number of cells of all heatmaps together. Above it a cell pools several "
                "weights. The default keeps the answer under 1 MB: 40,960 as JSON, 65,536 in the "
                "other encodings, half of that with pool \"both\"."),
    SRV_ENUM_ROW(srv_heat_input, pool, srv_pools,
                 "The value of a cell that covers several weights: their max (default; for signed "
                 "values the value of largest magnitude), their mean, or both.",
                 .standard = "\"max\""),
    SRV_ENUM_ROW(srv_heat_input, encoding, srv_encodings,
                 "Cells as nested JSON numbers (default), or as base64 of row-major u8, f16 or f32 "
                 "(little-endian).",
                 .standard = "\"json\""),
    SRV_ENUM_ROW(
        srv_heat_input, transform, srv_transforms,
        "The transform that quantises u8 cells over `range` and colours values in pictures: linear "
        "(default), sqrt, or log (ln(1 + 255 t) / ln 256).",
        .standard = "\"linear\""),
    SRV_INT_ROW(srv_heat_input, top_k, 1, 1048576, "Also list the k largest weights of each row."),
    SRV_REAL_ROW(srv_heat_input, top_p, 0, 1,
                 "Also list, for each row, the fewest keys whose weights sum to at least p."),
    SRV_ENUM_ROW(
        srv_heat_input, of, srv_heat_subjects,
        "What the cells are: weights (default), or value_norm: the norm of weight times value, the "
        "vector that a key contributes to a row (Kobayashi et al. 2020), with w_o of projections "
        "after it. Rows of norms do not sum to 1: row_entropy is that of the row divided by its "
        "sum, and top_p is refused. A stored run keeps its values, but no w_o.",
        .standard = "\"weights\""),
    {0},
};

/* Returns the default of max_cells; 0: the library chooses. */
static size_t default_cells(const srv_heat_input *in, size_t batches, size_t heads) {
    size_t maps;
    if (in->pool != ATTN_POOL_BOTH || in->encoding != SRV_CELLS_JSON ||
        !attn_size_mul(batches, heads, &maps) || maps > BOTH_MAPS)
        return 0;
    return BOTH_CELLS - BOTH_FRAME * (maps > 0 ? maps - 1 : 0);
}

static bool lists(const srv_scope *scope, const srv_heat_input *in) {
    if (in->heads.is == SRV_U_INTS && in->heads.ints.count == 0)
        return srv_refuse(scope, SRV_VALUE, "heads",
                          "expected at least one head, found an empty list");
    if (srv_given(scope, "batch") && in->batch.count == 0)
        return srv_refuse(scope, SRV_VALUE, "batch",
                          "expected at least one batch entry, found an empty list");
    if (in->of && !in->values)
        return srv_refuse(scope, SRV_VALUE, "of",
                          "\"value_norm\" needs the values that the weights multiply: POST "
                          "/v1/attention with value, or the heatmap of a stored run that has them");
    if (in->of && srv_given(scope, "top_p"))
        return srv_refuse(scope, SRV_VALUE, "top_p",
                          "norms of a row do not sum to 1: with \"value_norm\" send top_k");
    if (srv_given(scope, "transform") && in->transform != ATTN_LINEAR &&
        in->encoding != SRV_CELLS_U8 && !srv_draws(scope->req))
        return srv_refuse(
            scope, SRV_VALUE, "transform",
            "transform shapes u8 cells and pictures only: add \"encoding\": \"u8\", accept "
            "an image or leave it out");
    return true;
}

bool srv_heat_options(srv_request *req, const srv_heat_input *in, const attn_attention_dims *dims,
                      attn_heatmap_options *out) {
    size_t batches = dims->B, heads = dims->Hq;
    const srv_scope scope = {req, srv_heat_fields, &in->given, "/heatmap"};
    attn_heatmap_options o = attn_heatmap_defaults();
    if (!lists(&scope, in) ||
        !srv_range(&scope, "rows", &in->rows, dims->L, &o.row_from, &o.row_to) ||
        !srv_range(&scope, "cols", &in->cols, dims->S, &o.col_from, &o.col_to))
        return false;
    if (in->heads.is == SRV_U_INTS) {
        o.heads = ATTN_HEADS_LIST;
        o.head_list = in->heads.ints.values;
        o.head_count = heads = in->heads.ints.count;
    } else if (in->heads.is == SRV_U_STRING) {
        o.heads = in->heads.choice == 1 ? ATTN_HEADS_MEAN : ATTN_HEADS_ALL;
        heads = in->heads.choice == 1 ? 1 : heads;
    }
    if (in->batch.count > 0) {
        o.batch_list = in->batch.values;
        o.batch_count = batches = in->batch.count;
    }
    o.max_cells = in->max_cells > 0 ? (size_t)in->max_cells : default_cells(in, batches, heads);
    o.pool = (attn_pooling)in->pool;
    o.top_k = (size_t)in->top_k;
    o.top_p = in->top_p;
    *out = o;
    return true;
}

bool srv_heat_problem(srv_request *req, const attn_error *err) {
    static const srv_renamed places[] = {
        {"heads", "heatmap/heads"},         {"batch", "heatmap/batch"},
        {"rows", "heatmap/rows"},           {"cols", "heatmap/cols"},
        {"top_k", "heatmap/top_k"},         {"top_p", "heatmap/top_p"},
        {"max_cells", "heatmap/max_cells"}, {NULL, NULL}};
    return srv_problem_error_at(req, err, places);
}

bool srv_heat_cost(srv_request *req, const attn_heatmap_options *options,
                   const attn_attention_dims *d, size_t slots, bool dry_run, attn_cost *out,
                   bool *exceeds) {
    attn_error err = {0};
    if (!attn_heatmap_cost(options, d->B, d->Hq, d->L, d->S, slots, out, &err))
        return true;
    srv_heat_problem(req, &err);
    return dry_run && err.limit > 0 && (*exceeds = true);
}

/* --- text --- */

void srv_heat_text(attn_text *t, const attn_heatmaps *maps, const srv_labels *labels,
                   const srv_strings *titles) {
    for (size_t i = 0; i < maps->count; i++) {
        const attn_heatmap *map = &maps->items[i];
        const srv_names *names = srv_labels_of(labels, map->batch);
        char head[32];
        snprintf(head, sizeof head, "%zu", map->head);
        const char *title = srv_heat_title(titles, map);
        attn_text_add(t, "heatmap, ");
        if (maps->layer_batches > 0)
            attn_text_add(t, "layer %zu, ", map->batch / maps->layer_batches);
        attn_text_add(t, "batch %zu, head %s:%s%s\n",
                      maps->layer_batches > 0 ? map->batch % maps->layer_batches : map->batch,
                      map->head == SIZE_MAX ? "mean" : head, title ? " " : "", title ? title : "");
        attn_text_heatmap(t, map, names->query.values, names->query.count, names->key.values,
                          names->key.count, 0);
        attn_text_add(t, "\n");
    }
}

/* --- pictures, CSV and npy; the choice among all media types --- */

#define LAYER_HEADS 16 /* largest number of heads of a layer whose panels share a row */

static void no_memory(srv_request *req) {
    srv_problem_memory(req, NULL, "the picture needs more memory than a request may use");
}

/* Whether the heatmaps of an answer differ in layer, in batch entry or in head. */
typedef struct differences {
    bool layers, batches, heads;
} differences;

/* Returns the title of panel i: the caller's title of the head, or what distinguishes the panel
 * from the others ("batch 1", "layer 0, head 3"). */
static const char *title_of(srv_request *req, const srv_heat_answer *a, size_t i,
                            const differences *differ) {
    const attn_heatmap *map = &a->maps->items[i];
    const size_t apart = a->maps->layer_batches ? a->maps->layer_batches : SIZE_MAX;
    const char *title = srv_heat_title(a->titles, map);
    const bool head = differ->heads || title || !(differ->layers || differ->batches || a->stages);
    attn_text t = {.arena = req->arena};
    if (a->stages)
        attn_text_add(&t, "%s%s", a->stages[i % a->stage_count],
                      differ->layers || differ->batches || head ? ", " : "");
    if (differ->layers)
        attn_text_add(&t, "layer %zu%s", map->batch / apart, differ->batches || head ? ", " : "");
    if (differ->batches)
        attn_text_add(&t, "batch %zu%s", map->batch % apart, head ? ", " : "");
    if (title)
        attn_text_add(&t, "%s", title);
    else if (head && map->head == SIZE_MAX)
        attn_text_add(&t, "mean of the heads");
    else if (head)
        attn_text_add(&t, "head %zu", map->head);
    return t.failed ? NULL : t.data;
}

static differences compare(const attn_heatmaps *maps) {
    const attn_heatmap *first = maps->items;
    const size_t apart = maps->layer_batches ? maps->layer_batches : SIZE_MAX;
    differences d = {false, false, false};
    for (size_t i = 1; i < maps->count; i++) {
        const attn_heatmap *map = &maps->items[i];
        d.layers = d.layers || map->batch / apart != first->batch / apart;
        d.batches = d.batches || map->batch % apart != first->batch % apart;
        d.heads = d.heads || map->head != first->head;
    }
    return d;
}

/* Returns a title for each panel. The titles are those of the request if it has any, else title_of
 * makes them. NULL: out of memory. */
static const char **titles_of(srv_request *req, const srv_heat_answer *a) {
    if (a->figure->titles.count > 0)
        return a->figure->titles.values;
    const char **titles = attn_arena_zeroed(req->arena, a->maps->count + 1, sizeof *titles);
    const differences differ = compare(a->maps);
    for (size_t i = 0; titles && i < a->maps->count; i++)
        titles[i] = title_of(req, a, i, &differ);
    return titles;
}

/* Returns the number of columns of the figure. If there are several layers with at most LAYER_HEADS
 * heads, this is the number of heads, so that each layer is a row. 0: the figure chooses. */
static size_t columns_of(const attn_heatmaps *maps) {
    size_t n = 1;
    while (n < maps->count && maps->items[n].batch == maps->items[0].batch)
        n++;
    return compare(maps).layers && n > 1 && n <= LAYER_HEADS ? n : 0;
}

/* Returns the labels of each panel. NULL: out of memory. */
static const attn_figure_names *names_of(srv_request *req, const srv_heat_answer *a) {
    attn_figure_names *names = attn_arena_zeroed(req->arena, a->maps->count + 1, sizeof *names);
    for (size_t i = 0; names && i < a->maps->count; i++) {
        const srv_names *own = srv_labels_of(a->labels, a->maps->items[i].batch);
        names[i] = (attn_figure_names){own->query.values, own->key.values, own->query.count,
                                       own->key.count};
    }
    return names;
}

/* Returns whether the heatmaps are from several batch entries that have labels of their own. */
static bool labels_differ(const srv_heat_answer *a) {
    return srv_labels_differ(a->labels) && compare(a->maps).batches;
}

static void reply_figure(srv_request *req, const srv_heat_answer *a) {
    const bool own = labels_differ(a), named = a->maps->count > 1 ||
                                               (a->titles && a->titles->count > 0) ||
                                               a->figure->titles.count > 0;
    if (a->maps->count > SRV_PANELS) {
        srv_problem(req, SRV_VALUE, "/heatmap/heads",
                    "%zu heatmaps; a picture has at most %d panels: choose heads or batch entries",
                    a->maps->count, SRV_PANELS);
        return;
    }
    if (!srv_figure_titles(req, a->figure, a->maps->count))
        return;
    const srv_names *l = srv_labels_of(a->labels, a->maps->count ? a->maps->items[0].batch : 0);
    attn_figure_heat data = {.maps = a->maps->items,
                             .count = a->maps->count,
                             .titles = named ? titles_of(req, a) : NULL,
                             .row_labels = l->query.values,
                             .row_count = l->query.count,
                             .col_labels = l->key.values,
                             .col_count = l->key.count,
                             .own = own ? names_of(req, a) : NULL};
    srv_figure_input figure = *a->figure;
    srv_figure_axes(&figure, "key", "query");
    if (!figure.value_label)
        figure.value_label = a->in->of ? "norm of weight × value" : "weight";
    attn_figure_options options = srv_figure_options(&figure, a->in->transform);
    attn_text svg = {.arena = req->arena};
    attn_error err = {0};
    options.marks = a->marks;
    options.note = a->note;
    options.own_scales = a->stages != NULL;
    if (!options.columns)
        options.columns = a->stages ? a->stage_count : columns_of(a->maps);
    if ((named && !data.titles) || (own && !data.own))
        no_memory(req);
    else if (attn_figure_heatmaps(&svg, &data, &options, &err))
        srv_figure_problem(req, &err);
    else
        srv_figure_reply(req, a->figure, &svg);
}

/* Replies with the cells as one float32 tensor, [R, C] or [maps, R, C]. Hidden cells are 0. */
static void reply_npy(srv_request *req, const srv_heat_answer *a) {
    static const size_t none[2] = {0, 0};
    const size_t *grid = a->maps->count > 0 ? a->maps->items->shape : none;
    const size_t n = grid[0] * grid[1], shape[3] = {a->maps->count, grid[0], grid[1]};
    float *cells = attn_arena_zeroed(req->arena, a->maps->count * n, sizeof *cells);
    if (!cells) {
        no_memory(req);
        return;
    }
    for (size_t i = 0; i < a->maps->count; i++) {
        const attn_heatmap *map = &a->maps->items[i];
        memcpy(cells + i * n, map->max ? map->max : map->mean, n * sizeof *cells);
    }
    const int lead = a->maps->count == 1;
    const attn_tensor t = attn_tensor_dense(cells, ATTN_F32, 3 - lead, shape + lead);
    attn_json_text j = srv_json_object(req);
    srv_json_key_tensor(&j, "heatmap", &t);
    srv_json_object_end(&j);
}

/* Writes the label of the first query or key that a cell covers, or its index if it has no
 * label. */
static void put_name(srv_csv *t, const srv_strings *names, const attn_heatmap *map, int axis,
                     size_t cell) {
    const size_t at = map->origin[axis] + cell * map->step[axis];
    if (at < names->count)
        srv_csv_text(t, false, names->values[at]);
    else
        srv_csv_index(t, false, at);
}

static void put_csv_cells(srv_csv *t, const srv_heat_answer *a, const attn_heatmap *map) {
    const srv_names *names = srv_labels_of(a->labels, map->batch);
    const float *cells = map->max ? map->max : map->mean;
    const size_t apart = a->maps->layer_batches;
    size_t run = 0;
    for (size_t r = 0; r < map->shape[0] && !t->text.failed; r++) {
        if (apart)
            srv_csv_index(t, true, map->batch / apart);
        srv_csv_index(t, !apart, apart ? map->batch % apart : map->batch);
        if (map->head == SIZE_MAX)
            srv_csv_text(t, false, "mean");
        else if (srv_heat_title(a->titles, map))
            srv_csv_text(t, false, srv_heat_title(a->titles, map));
        else
            srv_csv_index(t, false, map->head);
        put_name(t, &names->query, map, 0, r);
        for (size_t c = 0; c < map->shape[1]; c++) {
            const bool hidden = attn_heatmap_is_hidden(map, r, c, &run);
            srv_csv_number(t, false, hidden ? NAN : cells[r * map->shape[1] + c], true,
                           a->decimals);
        }
        srv_csv_line(t);
    }
}

/* Writes one line for each row of cells: layer (if there are layers), batch, head, query, then one
 * column for each column of cells. Hidden cells are empty. Columns are named after their keys, or
 * by index if the batch entries have labels of their own. */
static void reply_csv(srv_request *req, const srv_heat_answer *a) {
    static const srv_names none;
    const attn_heatmap *first = a->maps->items;
    const srv_names *names = &none;
    srv_csv t = srv_csv_begin(req);
    if (a->maps->layer_batches)
        srv_csv_text(&t, true, "layer");
    srv_csv_text(&t, a->maps->layer_batches == 0, "batch");
    srv_csv_text(&t, false, "head");
    srv_csv_text(&t, false, "query");
    if (a->maps->count > 0 && !labels_differ(a))
        names = srv_labels_of(a->labels, first->batch);
    for (size_t c = 0; a->maps->count > 0 && c < first->shape[1]; c++)
        put_name(&t, &names->key, first, 1, c);
    srv_csv_line(&t);
    for (size_t i = 0; i < a->maps->count; i++)
        put_csv_cells(&t, a, &a->maps->items[i]);
    srv_csv_end(&t);
}

void srv_heat_draw(srv_request *req, const srv_heat_answer *answer) {
    if (req->accept & SRV_ACCEPT_CSV)
        reply_csv(req, answer);
    else
        reply_figure(req, answer);
}

static void reply_text(srv_request *req, const srv_heat_answer *a) {
    const srv_figure_input *f = a->figure;
    attn_text t = srv_text_begin(req);
    if (f->title)
        attn_text_add(&t, "%s\n\n", f->title);
    srv_heat_text(&t, a->maps, a->labels, a->titles);
    /* Text is never transposed, so its columns are the rows of a transposed picture. */
    const char *rows = f->transpose ? f->x_label : f->y_label;
    const char *cols = f->transpose ? f->y_label : f->x_label;
    if (rows || cols)
        attn_text_add(&t, "rows: %s, columns: %s\n", rows ? rows : "queries", cols ? cols : "keys");
    if (a->warnings)
        srv_warnings_text(&t, a->warnings);
    srv_text_end(req, &t);
}

void srv_heat_reply(srv_request *req, const srv_heat_answer *answer) {
    if (srv_draws(req))
        srv_heat_draw(req, answer);
    else if (req->accept & SRV_ACCEPT_NPY)
        reply_npy(req, answer);
    else if (srv_reads_text(req))
        reply_text(req, answer);
    else
        srv_heat_json(req, answer);
}

void srv_heat_without_entropy(const attn_heatmaps *maps) {
    for (size_t i = 0; i < maps->count; i++)
        for (size_t r = 0; r < maps->items[i].shape[0]; r++)
            maps->items[i].row_entropy[r] = NAN;
}
