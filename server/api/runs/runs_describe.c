/* Descriptions of stored runs: GET /v1/runs, GET and DELETE /v1/runs/{id}. */
#include <time.h>

#include "api/common/form_input.h"
#include "api/common/listing.h"
#include "api/runs/runs_api.h"
#include "api/stored/stored_api.h"
#include "request/shared.h"
#include "system/clock.h"
#include "wire/answer.h"

/* The answer has the ranges of all heads of a run if the run has at most this many heads. */
enum { RANGES_MOST = 4096 };

/* --- texts --- */

static void put_tokens(attn_json_text *j, const void *place) {
    const attn_run_text *text = place;
    attn_json_strings(j, text->tokens, text->count);
}

static void put_pair(attn_json_text *j, const size_t pair[2]) {
    attn_json_array(j);
    attn_json_size(j, pair[0]);
    attn_json_size(j, pair[1]);
    attn_json_array_end(j);
}

/* Writes a list of n integers, or nothing if `values` is NULL. */
static void put_list(attn_json_text *j, const int64_t *values, size_t n) {
    if (!values)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < n; i++)
        attn_json_int(j, values[i]);
    attn_json_array_end(j);
}

static void put_ids(attn_json_text *j, const void *place) {
    const attn_run_text *text = place;
    put_list(j, text->ids, text->count);
}

static void put_offsets(attn_json_text *j, const void *place) {
    const attn_run_text *text = place;
    if (!text->offsets || !text->count)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < text->count; i++)
        put_pair(j, text->offsets[i]);
    attn_json_array_end(j);
}

static void put_special(attn_json_text *j, const void *place) {
    const attn_run_text *text = place;
    if (!text->special)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < text->count; i++)
        if (text->special[i])
            attn_json_size(j, i);
    attn_json_array_end(j);
}

static const srv_field text_rows[] = {
    SRV_WRITTEN("tokens", "[string]", put_tokens, "The labels of the tokens.", .always = true),
    SRV_WRITTEN("ids", "[integer]", put_ids, "The id of each token."),
    SRV_IF_KNOWN("text", SRV_STRING, attn_run_text, text, "The text itself."),
    SRV_WRITTEN("offsets", "[[integer+]]", put_offsets,
                "[from, to) of each token in the bytes of text."),
    SRV_WRITTEN("special", "[integer+]", put_special,
                "The tokens that are special, such as [CLS], by number."),
    {0},
};

/* --- sites --- */

/* A site of a run in an answer. */
typedef struct site_facts {
    const srv_run *held;
    size_t index;
    const attn_run_site_info *info;
    const attn_attention_dims *dims;
    const char *problem;       /* why the site cannot be opened; NULL: it is open */
    const attn_run_site *site; /* NULL: the site cannot be opened */
    bool is_open;
    bool ranges; /* the run has few enough heads to answer their ranges (RANGES_MOST) */
    const char *dtype, *score, *position, *normalizer, *mix, *mask, *pages, *kernel, *precision;
    double scale, softcap, dropout_p;
    bool exact;
    size_t tile; /* number of cells along a side of a tile */
} site_facts;

static void put_query_lengths(attn_json_text *j, const void *place) {
    const site_facts *f = place;
    put_list(j, f->info->query_lengths, f->dims->B);
}
static void put_key_lengths(attn_json_text *j, const void *place) {
    const site_facts *f = place;
    put_list(j, f->info->key_lengths, f->dims->B);
}

/* Writes the index of the text that the queries or keys are from, or a list with an index for each
 * batch entry. */
static void put_text_number(attn_json_text *j, const size_t *numbers, size_t count) {
    if (count == 1)
        attn_json_size(j, *numbers);
    else
        put_list(j, (const int64_t *)numbers, count);
}
static void put_query_text(attn_json_text *j, const void *place) {
    const attn_run_site_info *info = ((const site_facts *)place)->info;
    put_text_number(j, info->query_texts, info->query_text_count);
}
static void put_key_text(attn_json_text *j, const void *place) {
    const attn_run_site_info *info = ((const site_facts *)place)->info;
    put_text_number(j, info->key_texts, info->key_text_count);
}

static void put_axes(attn_json_text *j, const void *place) {
    const attn_run_site_info *info = ((const site_facts *)place)->info;
    attn_json_strings(j, info->axes, info->axis_count);
}

static void put_weights_shape(attn_json_text *j, const void *place) {
    const attn_attention_dims *d = place;
    put_list(j, (const int64_t *)d->weights, (size_t)d->weights_rank);
}

static void put_levels(attn_json_text *j, const void *place) {
    const attn_run_site *site = ((const site_facts *)place)->site;
    attn_json_array(j);
    for (size_t level = 0; level < attn_run_levels(site); level++) {
        size_t shape[2];
        attn_run_level_shape(site, level, shape);
        put_pair(j, shape);
    }
    attn_json_array_end(j);
}

static void put_overview_level(attn_json_text *j, const void *place) {
    const size_t overview = attn_run_overview_level(((const site_facts *)place)->site);
    if (overview == SIZE_MAX)
        attn_json_null(j);
    else
        attn_json_size(j, overview);
}

/* Writes the range of the topmost tile of each head. Writes null if the run has too many heads, or
 * if the ranges are not known without computing weights. Writes nothing if the site is not open. */
static void put_ranges(attn_json_text *j, const void *place) {
    const site_facts *f = place;
    const int decimals = j->decimals;
    const float *ranges = NULL;
    size_t bytes;
    if (!f->is_open)
        return;
    const void *tops = attn_run_tops(f->site, &bytes);
    if (tops && f->ranges && srv_run_is_right(f->held, tops, bytes))
        ranges = attn_run_ranges(f->site);
    if (!ranges) {
        attn_json_null(j);
        return;
    }
    j->decimals = -1; /* the field `decimals` of a request applies to its results, not to ranges */
    attn_json_array(j);
    for (size_t h = 0; h < f->dims->B * f->dims->Ho; h++)
        srv_json_floats(j, ranges + 2 * h, 2);
    attn_json_array_end(j);
    j->decimals = decimals;
}

static const srv_field info_rows[] = {
    SRV_ALWAYS("name", SRV_STRING, attn_run_site_info, name,
               "Its name, which is unique in the run."),
    SRV_ALWAYS("kind", SRV_ENUM, attn_run_site_info, kind,
               "self, or the place in an encoder-decoder model.", .choices = srv_run_kinds),
    SRV_IF_KNOWN("stack", SRV_STRING, attn_run_site_info, stack,
                 "The stack of layers that it is in, if the model has several of its kind."),
    SRV_ALWAYS("layer", SRV_INT, attn_run_site_info, layer,
               "The layer among the sites of its kind and stack."),
    SRV_ALWAYS("call", SRV_INT, attn_run_site_info, call,
               "Which call of the layer it is, if it is called several times."),
    SRV_IF_KNOWN("query_start", SRV_INT, attn_run_site_info, query_start,
                 "Token query_start + i of the text is query i."),
    SRV_IF_KNOWN("key_start", SRV_INT, attn_run_site_info, key_start,
                 "Token key_start + j of the text is key j."),
    {0},
};

static const srv_field shape_rows[] = {
    SRV_IF_KNOWN("num_batches", SRV_INT, attn_attention_dims, B,
                 "Batch entries, those of all layers of an axis of layers."),
    SRV_IF_KNOWN("num_heads", SRV_INT, attn_attention_dims, Ho,
                 "Heads of the weights: those of the query, unless weights are mixed."),
    SRV_IF_KNOWN("num_kv_heads", SRV_INT, attn_attention_dims, Hkv, "Key and value heads."),
    SRV_IF_KNOWN("num_queries", SRV_INT, attn_attention_dims, L, "Rows of the weights."),
    SRV_IF_KNOWN("num_keys", SRV_INT, attn_attention_dims, S,
                 "Columns of the weights, the cache included."),
    SRV_IF_KNOWN("num_past_keys", SRV_INT, attn_attention_dims, past, "Keys of the cache."),
    SRV_IF_KNOWN("width", SRV_INT, attn_attention_dims, E, "Width of queries and keys."),
    SRV_IF_KNOWN("value_width", SRV_INT, attn_attention_dims, Ev, "Width of values."),
    SRV_WRITTEN("weights_shape", "[integer+]", put_weights_shape, "The shape of the weights."),
    {0},
};

static const srv_field tiles_rows[] = {
    SRV_ALWAYS("size", SRV_INT, site_facts, tile, NULL),
    SRV_WRITTEN("levels", "[[integer+]]", put_levels, NULL, .always = true),
    SRV_WRITTEN("overview_level", "integer?", put_overview_level, NULL, .always = true),
    {0},
};

/* The row of a number that is absent if the site is not open. */
#define NUMBER(member, text)                                                                       \
    SRV_IF_KNOWN(#member, SRV_REAL, site_facts, member, text, .type = "number?",                   \
                 .when = offsetof(site_facts, is_open))

static const srv_field site_rows[] = {
    SRV_ALWAYS("site", SRV_INT, site_facts, index, "Its number, from 0."),
    SRV_ALWAYS("", SRV_OBJECT, site_facts, info, NULL, .fields = info_rows,
               .accepts = SRV_O_POINTER),
    SRV_WRITTEN("query_lengths", "[integer+]", put_query_lengths,
                "For each batch entry: the queries from there on are padding."),
    SRV_WRITTEN("key_lengths", "[integer+]", put_key_lengths,
                "For each batch entry: the keys from there on are padding."),
    SRV_WRITTEN("query_text", "integer|[integer?]", put_query_text,
                "The number of its text, or one for each batch entry."),
    SRV_WRITTEN("key_text", "integer|[integer?]", put_key_text,
                "The number of its text, or one for each batch entry."),
    SRV_WRITTEN("axes", "[string]", put_axes,
                "The names of the axes of the weights in front of the last two.",
                .choices = (const char *const[]){"layer", "batch", "head", NULL}),
    SRV_ALWAYS("", SRV_OBJECT, site_facts, dims, NULL, .fields = shape_rows,
               .accepts = SRV_O_POINTER),
    SRV_IF_KNOWN("problem", SRV_STRING, site_facts, problem, "Why the site cannot be opened."),
    SRV_IF_KNOWN("dtype", SRV_STRING, site_facts, dtype, "The type of its numbers."),
    SRV_IF_KNOWN("score", SRV_STRING, site_facts, score, "The score form."),
    SRV_IF_KNOWN("position", SRV_STRING, site_facts, position, "The position encoding."),
    SRV_IF_KNOWN("normalizer", SRV_STRING, site_facts, normalizer,
                 "What makes weights of the scores; absent: softmax."),
    SRV_IF_KNOWN(
        "mix", SRV_STRING, site_facts, mix,
        "How the scores or weights of the heads are mixed, in words; absent: they are not."),
    NUMBER(scale, "The factor of the scores."),
    NUMBER(softcap, "The bound of the scores; 0: none."),
    NUMBER(dropout_p, "The probability of dropout of the weights."),
    SRV_IF_KNOWN("mask", SRV_STRING, site_facts, mask, "The mask in words."),
    SRV_IF_KNOWN("pages", SRV_STRING, site_facts, pages,
                 "With `block_table`: the blocks that hold the keys, in words."),
    SRV_IF_KNOWN("kernel", SRV_STRING, site_facts, kernel, "The kernel table that made the run."),
    SRV_IF_KNOWN("precision", SRV_STRING, site_facts, precision, "The precision of products.",
                 .choices = (const char *const[]){"fp32", "fast", "bf16", NULL}),
    SRV_IF_KNOWN("exact", SRV_BOOL, site_facts, exact,
                 "Whether this processor has that table, so that weights are exact to the bit.",
                 .when = offsetof(site_facts, is_open)),
    SRV_GROUP("tiles", tiles_rows,
              "The side of a tile, rows and columns of cells of each level, and the level that is "
              "kept as the overview.",
              .when = offsetof(site_facts, is_open)),
    SRV_WRITTEN("ranges", "[[number 2]]?", put_ranges,
                "The range [low, high] of each head, those of batch entry 0 first: the smallest "
                "and the largest cell of the max plane of its topmost tile, as range_of=head of "
                "tiles takes it, so high is the largest weight. null: the site has no overview, "
                "the overview is damaged, or the run has more than 4,096 heads."),
    {0},
};

/* Returns the reason for which a site cannot be opened. */
static const char *problem_of(const attn_error *err, attn_arena *arena) {
    attn_text why = {.arena = arena};
    attn_text_add(&why, "%s%s%s", err->where, *err->where ? ": " : "", err->text);
    return why.failed ? err->text : why.data;
}

/* Returns the kind of the site's position, or both kinds if it has two. */
static const char *position_of(const attn_inputs *in, attn_arena *arena) {
    attn_text both = {.arena = arena};
    const char *first = attn_position_words[in->position.kind];
    if (!in->score_position.kind)
        return first;
    attn_text_add(&both, "%s and %s", first, attn_position_words[in->score_position.kind]);
    return both.failed ? first : both.data;
}

static void tell_operation(site_facts *f, attn_arena *arena) {
    const attn_run_site *site = f->site;
    const attn_attention *op = attn_run_attention(site);
    const attn_inputs *in = attn_run_inputs(site);
    f->is_open = true;
    f->dtype = attn_dtype_name(f->dims->result);
    f->score = attn_score_name(in->score.kind);
    f->position = position_of(in, arena);
    f->normalizer = in->normalizer.kind ? attn_normalizer_words[in->normalizer.kind] : NULL;
    f->mix = attn_mix_words(f->dims);
    f->scale = attn_attention_scale(op);
    f->softcap = in->softcap;
    f->dropout_p = in->dropout_p;
    f->mask = attn_run_words(site);
    f->pages = attn_run_blocks_words(site);
    f->kernel = attn_attention_kernel(op);
    f->precision = attn_precision_name(f->dims->precision);
    f->exact = attn_run_is_exact(site);
    f->tile = ATTN_RUN_TILE;
}

/* Writes a site. If the site cannot be opened, the member `problem` says why. Other sites of the
 * run stay usable. */
static void put_site(attn_json_text *j, const srv_run *held, size_t index, bool ranges) {
    site_facts f = {.held = held,
                    .index = index,
                    .info = attn_run_site_info_of(held->run, index),
                    .dims = attn_run_site_shape(held->run, index),
                    .ranges = ranges};
    attn_error err = {0};
    if (attn_run_site_open(held->run, index, &f.site, &err))
        f.problem = problem_of(&err, j->arena);
    else
        tell_operation(&f, j->arena);
    srv_answer_object(j, site_rows, &f);
}

/* --- runs --- */

/* Returns whether the run has at most RANGES_MOST heads. */
static bool has_few_heads(const attn_run *run) {
    double heads = 0;
    for (size_t i = 0; i < attn_run_site_count(run); i++) {
        const attn_attention_dims *d = attn_run_site_shape(run, i);
        heads += (double)d->B * (double)d->Hq;
    }
    return heads <= RANGES_MOST;
}

/* Returns the time at which the run expires, in milliseconds of Unix time. */
static int64_t expiry_of(int64_t ends_ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t wall_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return (wall_ns + ends_ns - attn_now_ns()) / 1000000;
}

/* A run in an answer. */
typedef struct run_facts {
    const srv_run *held;
    const char *id, *read_token, *model;
    int state;
    int64_t rows; /* steps of the generation that made the run; negative: no generation */
    size_t bytes;
    int64_t expires_ms, format;
} run_facts;

static void put_texts(attn_json_text *j, const void *place) {
    size_t count;
    const attn_run_text *texts = attn_run_texts(((const run_facts *)place)->held->run, &count);
    attn_json_array(j);
    for (size_t i = 0; i < count; i++)
        srv_answer_object(j, text_rows, &texts[i]);
    attn_json_array_end(j);
}

static void put_sites(attn_json_text *j, const void *place) {
    const srv_run *held = ((const run_facts *)place)->held;
    const bool ranges = has_few_heads(held->run);
    attn_json_array(j);
    for (size_t i = 0; i < attn_run_site_count(held->run); i++)
        put_site(j, held, i, ranges);
    attn_json_array_end(j);
}

static const char *const states[] = {"open", "closed", NULL};

static const srv_field run_rows[] = {
    SRV_ALWAYS("id", SRV_STRING, run_facts, id, "The id under /v1/runs."),
    SRV_ALWAYS("state", SRV_ENUM, run_facts, state,
               "open: a generation adds rows; the run is that of its steps so far.",
               .choices = states),
    SRV_IF_KNOWN("num_rows", SRV_INT, run_facts, rows,
                 "Steps of the generation; absent if none made the run.", .type = "integer+1"),
    SRV_ALWAYS("bytes", SRV_INT, run_facts, bytes, "Its size, which counts in runs_bytes."),
    SRV_ALWAYS("expires_ms", SRV_INT, run_facts, expires_ms, "Milliseconds of Unix time.",
               .type = "integer"),
    SRV_IF_KNOWN(
        "read_token", SRV_STRING, run_facts, read_token,
        "Takes the place of an API key, as ?token=, in GETs of this run. Only clients with "
        "a key are told."),
    SRV_ALWAYS("format", SRV_INT, run_facts, format, "The version of the format of its file.",
               .type = "{\"description\":\"The version of the format of its file.\",\"type\":"
                       "\"integer\",\"enum\":[1,2]}"),
    SRV_IF_KNOWN("model", SRV_STRING, run_facts, model, "The model whose pass it is."),
    SRV_WRITTEN("texts", "[RunText]", put_texts, "The texts of its sites.", .always = true),
    SRV_WRITTEN("sites", "[RunSite]", put_sites, "Its attention operations.", .always = true),
    SRV_WRITTEN("warnings", "[Warning]", NULL,
                "Of POST /v1/runs alone: numbers of masks that may mean something else."),
    {0},
};

static void put_expiry(attn_json_text *j, const void *place) {
    attn_json_int(j, expiry_of(((const srv_run_listed *)place)->ends_ns));
}

static const srv_field listed_rows[] = {
    SRV_ALWAYS("id", SRV_CHARS, srv_run_listed, id, "The id under /v1/runs."),
    SRV_ALWAYS("bytes", SRV_INT, srv_run_listed, bytes, "Its size."),
    SRV_WRITTEN("expires_ms", "integer", put_expiry, "Milliseconds of Unix time.", .always = true),
    {0},
};

static const srv_field list_rows[] = {
    SRV_LISTING_ROWS("runs", "RunSummary", "Id, size and time of expiry of each run.")};

const srv_field srv_run_answers[] = {
    SRV_GROUP("Run", run_rows, NULL),
    SRV_GROUP("RunText", text_rows,
              "Tokens that sites refer to by the number of the text. offsets are the bytes [from, "
              "to) of each token in text; special lists tokens such as [CLS] by number."),
    SRV_GROUP("RunSite", site_rows,
              "An attention operation of the run. A site that cannot be opened has problem instead "
              "of its shapes."),
    SRV_GROUP("Runs", list_rows, NULL),
    SRV_GROUP("RunSummary", listed_rows, "What the list tells of a run."),
    {0},
};

void srv_run_write(attn_json_text *j, const srv_run *run) {
    srv_run_write_warned(j, run, &(srv_warnings){0});
}

void srv_run_write_warned(attn_json_text *j, const srv_run *run, const srv_warnings *warnings) {
    const bool has_key = srv_json_request(j)->owner && !srv_json_request(j)->read_token;
    const run_facts facts = {.held = run,
                             .id = run->id,
                             .read_token = has_key ? run->read_token : NULL,
                             .model = attn_run_model(run->run),
                             .state = run->open ? 0 : 1,
                             .rows = run->rows ? (int64_t)run->rows : -1,
                             .bytes = run->bytes,
                             .expires_ms = expiry_of(run->ends_ns),
                             .format = ATTN_RUN_FORMAT};
    attn_json_object(j);
    srv_answer_members(j, run_rows, &facts);
    srv_warnings_write(j, warnings);
    attn_json_object_end(j);
}

void srv_run_member(attn_json_text *j, const srv_run *run) {
    if (!run)
        return;
    attn_json_key(j, "run");
    srv_run_write(j, run);
}

void srv_run_print(attn_text *t, const srv_run *run) {
    if (run)
        attn_text_add(t, "run: %s (%zu bytes)\n", run->id, run->bytes);
}

static void answer_description(srv_request *req, const srv_run *run) {
    attn_json_text j;
    srv_json_begin(&j, req);
    srv_run_write(&j, run);
    srv_json_end(&j);
}

srv_outcome srv_runs_describe(srv_request *req) {
    const srv_run *run = srv_run_hold(req, req->params[0]);
    if (run) {
        answer_description(req, run);
        if (srv_run_is_whole(req, run))
            srv_run_keep(req, run);
    }
    srv_run_release(req, run);
    return SRV_DONE;
}

srv_outcome srv_runs_delete(srv_request *req) {
    if (srv_run_delete(req, req->params[0]))
        srv_reply_set(req, 204, NULL, "", 0);
    return SRV_DONE;
}

srv_outcome srv_runs_all(srv_request *req) {
    srv_listing listing;
    if (!srv_listing_read(req, &listing))
        return SRV_DONE;
    const size_t limit = (size_t)listing.limit;
    srv_run_listed *page = attn_arena_zeroed(req->arena, limit + 1, sizeof *page);
    if (!page) {
        srv_problem_memory(req, NULL, "no memory is left for the list");
        return SRV_DONE;
    }
    const size_t found = srv_runs_list_page(req, listing.after, page, limit + 1);
    attn_json_text j = srv_listing_begin(req, "runs");
    for (size_t i = 0; i < found && i < limit; i++)
        srv_answer_object(&j, listed_rows, &page[i]);
    srv_listing_end(&j, found > limit ? page[limit - 1].id : NULL);
    return SRV_DONE;
}
