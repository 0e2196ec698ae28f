/* Makes images of format 2 (FORMAT.md) in memory, and tells what they cost. */
#include "base/try.h"
#include "io/safetensors_layout.h"
#include "runs/builder.h"
#include "runs/pooling.h"

static attn_status make_image(attn_safetensors *file, attn_arena *arena, attn_run_image *out,
                              attn_error *err) {
    const void *header;
    size_t size, n = 0;
    ATTN_TRY(attn_safetensors_sealed_header(file, ATTN_RUN_SEAL, arena, &header, &size, err));
    attn_run_piece *pieces = attn_arena_zeroed(arena, file->count + 1, sizeof *pieces);
    if (!pieces)
        return attn_no_memory(err, "the stored run");
    pieces[n++] = (attn_run_piece){header, size};
    for (size_t i = 0; i < file->count; i++) {
        const attn_tensor *t = &file->tensors[i].tensor;
        size_t bytes;
        if (!attn_io_tensor_bytes(t, &bytes) || !attn_size_add(size, bytes, &size))
            return attn_fail(err, ATTN_ELIMIT, file->tensors[i].name, "it cannot be counted");
        if (bytes)
            pieces[n++] = (attn_run_piece){t->data, bytes};
    }
    *out = (attn_run_image){pieces, n, size};
    return ATTN_OK;
}

attn_status attn_run_image_new(const attn_run_source *source, attn_pool *pool,
                               const attn_control *control, attn_arena *arena, attn_run_image *out,
                               attn_error *err) {
    attn_run_builder b = {.texts = source->texts,
                          .text_count = source->text_count,
                          .pool = pool,
                          .control = control,
                          .arena = arena,
                          .work = arena,
                          .err = err};
    attn_safetensors file;
    ATTN_TRY(attn_run_check_metadata(source->metadata, source->metadata_count, err));
    attn_run_builder_begin(&b, source->model);
    for (size_t i = 0; i < source->site_count && !b.status; i++)
        attn_run_builder_site(&b, &source->sites[i]);
    attn_run_builder_end(&b, source->metadata, source->metadata_count, &file);
    return b.status ? b.status : make_image(&file, arena, out, err);
}

attn_status attn_run_cost(const attn_attention_dims *d, size_t slots, attn_cost *out,
                          attn_error *err) {
    const attn_run_pyramid p = attn_run_pyramid_of(d->L, d->S);
    const double heads = (double)d->B * (double)d->Hq, rows = heads * (double)d->L;
    const double elem = d->result == ATTN_F64 ? 8 : 4;
    double image = rows * (17 + elem * (double)d->E) + 65536 +
                   elem * (double)d->B * (double)d->Hkv * (double)d->S * (double)(d->Ek + d->Ev);
    size_t work = 0;
    attn_cost cost = {.cells = 0};
    if (p.overview != SIZE_MAX) {
        double planes;
        cost.cells = rows * (double)d->S;
        cost.operations = cost.cells * 2 * (double)d->score_width;
        if (!attn_run_overview_bytes(&(attn_run_sides){.dims = {d}}, &p, slots, &planes, &work))
            return attn_fail(err, ATTN_ELIMIT, "store", "more bytes than can be counted");
        image += heads * planes;
        work += (size_t)(heads * planes);
    }
    cost.work_bytes = work;
    cost.result_bytes = (size_t)image;
    *out = cost;
    return ATTN_OK;
}
