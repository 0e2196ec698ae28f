/* Writes a run of format 2 (lib/runs/FORMAT.md) site by site. attn_run_image_new wants the tensors of
 * all sites at once; here each site's tensors go out before the next site begins, so a program that
 * goes through a model layer by layer may free them. Memory is that of the largest site's temporary
 * copies, and some kilobytes a site for the header.
 *
 *     attn_run_writer_new(&sink, &plan, arena, &w, &err);
 *     for (each layer)
 *         attn_run_writer_site(w, &site, false, pool, NULL, &err);
 *     attn_run_writer_end(w, NULL, 0, &size, &err);
 *
 * The tensors are written one behind the other, and at the end the header in front of them. Until
 * then the file begins with nothing, so nobody takes it for a run. attn_run_open reads it as it reads
 * an image. */
#ifndef ATTN_RUN_WRITER_H
#define ATTN_RUN_WRITER_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Where the bytes go. */
typedef struct attn_run_sink {
    /* Writes n bytes, at least 1, from byte `at` of the file on. Anything but 0 means that it failed.
     * Each byte of the file is written once; no bytes are left out. */
    int (*write)(void *ctx, size_t at, const void *data, size_t n);
    void *ctx;
} attn_run_sink;

/* What must be known before the first site. */
typedef struct attn_run_plan {
    size_t sites;               /* the most that will be written, at least 1 */
    const attn_run_text *texts; /* [text_count], which must outlive the writer; or NULL */
    size_t text_count;
    const char *model; /* a name for people; or NULL */
    /* Bytes that are kept for the header; 0: 64 KiB, and the texts, and ATTN_RUN_WRITER_SITE bytes a
     * site. A site with long lists (lengths, offsets or texts of many sequences) or very large
     * tensors (8 bytes for each MiB) needs more than that. */
    size_t room;
} attn_run_plan;
#define ATTN_RUN_WRITER_SITE 8192

typedef struct attn_run_writer attn_run_writer;

/* Makes a writer in the arena. While a function below runs, it takes temporary memory from an arena
 * of its own, at most what `arena` may still hand out. Nothing is written yet. Errors: ATTN_EARG (no
 * site), ATTN_ELIMIT (the room is above 100 MB), ATTN_ENOMEM. */
attn_status attn_run_writer_new(const attn_run_sink *sink, const attn_run_plan *plan,
                                attn_arena *arena, attn_run_writer **out, attn_error *err);
/* Writes the tensors of a site. If `stays` is true, the memory of its inputs stays unchanged until
 * the end, so later sites that name the same memory share its tensors in the file: a mask, for
 * instance. Otherwise it may be freed or overwritten after the call. Names, lists and statistics may
 * always. After an error the run cannot be finished. Errors: those of attn_run_image_new, and
 *
 *   ATTN_ELIMIT     there are more sites than planned
 *   ATTN_ECANCELED  also: the sink failed; err->where is "sink" */
attn_status attn_run_writer_site(attn_run_writer *w, const attn_run_site_source *site, bool stays,
                                 attn_pool *pool, const attn_control *control, attn_error *err);
/* Writes the header, with `count` texts of the caller as in attn_run_source, and stores the size of
 * the whole file. Errors: those of attn_run_image_new, and
 *
 *   ATTN_EARG       there is no site
 *   ATTN_ELIMIT     the header needs more than its room
 *   ATTN_ECANCELED  the sink failed */
attn_status attn_run_writer_end(attn_run_writer *w, const attn_metadata *metadata, size_t count,
                                size_t *size, attn_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
