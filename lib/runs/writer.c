/* Writes runs site by site (attn/run_writer.h). The builder collects names and text of all sites,
 * but tensors only of one: when they are written, the table keeps their shapes, from which the
 * header is made at the end. */
#include <attn/run_writer.h>

#include <string.h>

#include "base/try.h"
#include "io/safetensors_layout.h"
#include "runs/builder.h"

enum { ROOM_FIRST = 64 << 10 }; /* of the header, without texts and sites */

struct attn_run_writer {
    attn_run_sink sink;
    attn_run_builder b;
    attn_io_list sums;    /* of uint32_t: those of `table` */
    attn_checksums table; /* of all bytes behind the header */
    size_t most;          /* sites */
    size_t room;          /* bytes of the header */
};

/* --- the room of the header --- */

/* Returns the bytes of a JSON text as a string within the header: JSON has no control characters,
 * so only quotes and backslashes become longer. */
static size_t quoted_size(const char *text, size_t n) {
    size_t size = n;
    for (size_t i = 0; i < n; i++)
        size += text[i] == '"' || text[i] == '\\';
    return size;
}

/* Computes the room, given the text up to the list of sites. */
static attn_status choose_room(const attn_run_plan *plan, const attn_json_text *text, size_t *out,
                               attn_error *err) {
    size_t room = plan->room, sites = 0;
    bool fits = true;
    if (!room) {
        room = ROOM_FIRST + quoted_size(text->data, text->size);
        fits = attn_size_mul(plan->sites, ATTN_RUN_WRITER_SITE, &sites) &&
               attn_size_add(room, sites, &room);
    }
    if (!fits || room > ATTN_IO_HEADER_MOST)
        return attn_fail(err, ATTN_ELIMIT, "room",
                         "%zu sites and %zu texts need a header above %d bytes; `room` sets a "
                         "smaller one",
                         plan->sites, plan->text_count, ATTN_IO_HEADER_MOST);
    *out = attn_align_up(room);
    return ATTN_OK;
}

attn_status attn_run_writer_new(const attn_run_sink *sink, const attn_run_plan *plan,
                                attn_arena *arena, attn_run_writer **out, attn_error *err) {
    if (!plan->sites)
        return attn_fail(err, ATTN_EARG, "sites", "expected at least one site");
    attn_run_writer *w = attn_arena_zeroed(arena, 1, sizeof *w);
    if (!w)
        return attn_no_memory(err, "the stored run");
    w->sink = *sink;
    w->most = plan->sites;
    w->sums.each = sizeof *w->table.sums;
    w->b = (attn_run_builder){.texts = plan->texts,
                              .text_count = plan->text_count,
                              .arena = arena,
                              .err = err,
                              .padded = true};
    attn_run_builder_begin(&w->b, plan->model);
    ATTN_TRY(w->b.status);
    ATTN_TRY(choose_room(plan, &w->b.text, &w->room, err));
    *out = w;
    return ATTN_OK;
}

/* --- sites --- */

/* Begins a call: sets up the builder, with an arena of its own for what is temporary. */
static attn_status begin_call(attn_run_writer *w, attn_error *err) {
    const size_t used = attn_arena_used(w->b.arena), limit = attn_arena_limit(w->b.arena);
    if (w->b.status)
        return attn_fail(err, w->b.status, "",
                         "nothing more can be written: the run has ended, or an error came before");
    w->b.err = err;
    w->b.work = attn_arena_new(limit > used ? limit - used : 0);
    return w->b.work ? ATTN_OK : attn_no_memory(err, "the stored run");
}

static attn_status end_call(attn_run_writer *w, attn_status status) {
    attn_arena_free(w->b.work);
    w->b.work = NULL;
    w->b.err = NULL;
    w->b.pool = NULL;
    w->b.control = NULL;
    w->b.status = status;
    return status;
}

static attn_status write_bytes(attn_run_writer *w, size_t at, const void *data, size_t n) {
    const int failed = w->sink.write(w->sink.ctx, at, data, n);
    return failed ? attn_fail(w->b.err, ATTN_ECANCELED, "sink",
                              "writing %zu bytes from byte %zu on failed (%d)", n, at, failed)
                  : ATTN_OK;
}

/* Writes n bytes behind those that were written. */
static attn_status append_bytes(attn_run_writer *w, const char *name, const void *data, size_t n) {
    attn_checksums *t = &w->table;
    const size_t at = t->added;
    size_t end;
    if (!attn_size_add(w->room, at, &end) || !attn_size_add(end, n, &end) || end > SIZE_MAX / 2)
        return attn_fail(w->b.err, ATTN_ELIMIT, name, "it cannot be counted");
    while (w->sums.count < attn_checksums_count(at + n))
        if (!attn_io_append(&w->sums, w->b.arena))
            return attn_no_memory(w->b.err, "the stored run");
    t->sums = w->sums.items;
    t->size = at + n;
    attn_checksums_add(t, data, n);
    return write_bytes(w, w->room + at, data, n);
}

/* Writes the tensors of the builder from number `first` on, and forgets their data. */
static attn_status write_tensors(attn_run_writer *w, size_t first) {
    for (size_t i = first; i < w->b.tensors.count; i++) {
        attn_named_tensor *n = (attn_named_tensor *)w->b.tensors.items + i;
        size_t bytes;
        if (!attn_io_tensor_bytes(&n->tensor, &bytes))
            return attn_fail(w->b.err, ATTN_ELIMIT, n->name, "it cannot be counted");
        if (bytes)
            ATTN_TRY(append_bytes(w, n->name, n->tensor.data, bytes));
        n->tensor.data = NULL;
    }
    return ATTN_OK;
}

attn_status attn_run_writer_site(attn_run_writer *w, const attn_run_site_source *site, bool stays,
                                 attn_pool *pool, const attn_control *control, attn_error *err) {
    const attn_run_builder_mark mark = attn_run_builder_here(&w->b);
    const size_t first = w->b.tensors.count;
    ATTN_TRY(begin_call(w, err));
    if (w->b.site == w->most)
        return end_call(w, attn_fail(err, ATTN_ELIMIT, "sites",
                                     "expected at most %zu sites, as planned", w->most));
    w->b.pool = pool;
    w->b.control = control;
    attn_run_builder_site(&w->b, site);
    const attn_status status = w->b.status ? w->b.status : write_tensors(w, first);
    if (!stays)
        attn_run_builder_forget(&w->b, &mark);
    return end_call(w, status);
}

/* --- the end --- */

static attn_status write_header(attn_run_writer *w, attn_safetensors *file) {
    const void *header;
    ATTN_TRY(attn_io_sealed_header(file, ATTN_RUN_SEAL, &w->table, w->room, w->b.work, &header,
                                   w->b.err));
    return write_bytes(w, 0, header, w->room);
}

attn_status attn_run_writer_end(attn_run_writer *w, const attn_metadata *metadata, size_t count,
                                size_t *size, attn_error *err) {
    attn_safetensors file;
    ATTN_TRY(attn_run_check_metadata(metadata, count, err));
    if (!w->b.status && !w->b.site)
        return attn_fail(err, ATTN_EARG, "sites", "expected at least one site");
    ATTN_TRY(begin_call(w, err));
    attn_run_builder_end(&w->b, metadata, count, &file);
    const attn_status status = w->b.status ? w->b.status : write_header(w, &file);
    if (!status)
        *size = w->room + w->table.size;
    end_call(w, status ? status : ATTN_EARG); /* the end is the end */
    return status;
}
