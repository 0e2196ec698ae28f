#include "store/model_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "system/mapped.h"

#define MOST_HEADER ((size_t)1 << 30) /* limit of the arena for the header of a file, in bytes */

static void release_mapped(void *mapped) {
    srv_mapped_close(mapped);
}

static bool was_written(srv_mapped *m) {
    srv_mapped_times seen;
    const srv_mapped_state state = srv_mapped_check(m, &seen);
    return state == SRV_MAPPED_WRITTEN || state == SRV_MAPPED_HURT;
}

static attn_status was_changed(attn_error *err) {
    return attn_fail(err, ATTN_EARG, "", "was changed while it was read");
}

/* If the checksums are right after the last read, the data that was read is right: the file was not
 * changed meanwhile, or the change was undone. */
attn_status srv_model_recheck(attn_model_file *file, attn_error *err) {
    srv_mapped *m = file->owner;
    attn_error why;
    return was_written(m) ||
                   attn_model_file_check(file, srv_mapped_data(m), srv_mapped_size(m), &why)
               ? was_changed(err)
               : ATTN_OK;
}

static attn_status read_mapped(srv_mapped *m, bool gradients, attn_model_file *out, int *failed,
                               attn_error *err) {
    attn_status status =
        attn_model_read(srv_mapped_data(m), srv_mapped_size(m), gradients, out, err);
    *failed = status == ATTN_ENOMEM ? ENOMEM : 0;
    if (!status) {
        out->owner = m;
        out->release = release_mapped;
        status = srv_model_recheck(out, err);
        *failed = status ? EAGAIN : 0;
        if (status)
            attn_model_file_close(out);
    } else {
        if (was_written(m)) {
            *failed = EAGAIN;
            status = was_changed(err);
        }
        srv_mapped_close(m);
    }
    return status;
}

/* Moves the place of the error to the front of its text, and sets err->where to the path of the
 * file. ATTN_EVALUE, a wrong value in the file, becomes ATTN_EARG, because for the caller the file
 * is a wrong argument. */
static attn_status at_path(const char *path, attn_error *err) {
    const attn_error inner = *err;
    return attn_fail(err, inner.code == ATTN_EVALUE ? ATTN_EARG : inner.code, path, "%s%s%s",
                     inner.where, *inner.where ? ": " : "", inner.text);
}

/* Maps the file: its pages are loaded on first access, so a large file that is not a model costs
 * little memory. */
attn_status srv_model_open(const char *path, bool gradients, attn_model_file *out, int *failed,
                           attn_error *err) {
    srv_mapped *mapped;
    int why = srv_mapped_open(AT_FDCWD, path, true, &mapped);
    attn_status status = ATTN_OK;
    if (why) {
        status = attn_fail(err, why == ENOMEM ? ATTN_ENOMEM : ATTN_EARG, path, "cannot be read: %s",
                           strerror(why));
        why = srv_file_judge(why) == SRV_FILE_TROUBLE ? why : 0;
    } else if (read_mapped(mapped, gradients, out, &why, err)) {
        status = at_path(path, err);
    }
    if (failed)
        *failed = why;
    return status;
}

bool srv_model_corpus(const attn_model_file *file, attn_corpus_options *out) {
    const char *task = attn_model_file_text(file, "corpus.task"),
               *large = attn_model_file_text(file, "corpus.large"),
               *numbers[5] = {attn_model_file_text(file, "corpus.seed"),
                              attn_model_file_text(file, "corpus.shortest"),
                              attn_model_file_text(file, "corpus.longest"),
                              attn_model_file_text(file, "corpus.skew"),
                              attn_model_file_text(file, "corpus.symbols")};
    *out = attn_corpus_defaults();
    for (size_t i = 0; i < 5; i++)
        if (!numbers[i])
            return false;
    out->large = large && !strcmp(large, "true");
    out->seed = strtoull(numbers[0], NULL, 10);
    out->shortest = strtoull(numbers[1], NULL, 10);
    out->longest = strtoull(numbers[2], NULL, 10);
    out->skew = strtod(numbers[3], NULL);
    out->symbols = strtoull(numbers[4], NULL, 10);
    return task && attn_task_parse(task, &out->task);
}

static int put_pieces(const char *path, const attn_model_piece *pieces, size_t count) {
    srv_new_file file;
    const int failed = srv_new_file_open(&file, AT_FDCWD, path);
    if (failed)
        return failed;
    for (size_t i = 0; i < count; i++)
        srv_new_file_write(&file, pieces[i].data, pieces[i].size);
    return srv_new_file_close(&file);
}

attn_status srv_model_write(const char *path, const attn_model_contents *contents, int *failed,
                            attn_error *err) {
    attn_arena *arena = attn_arena_new(MOST_HEADER);
    attn_model_piece *pieces;
    size_t count;
    int refused = 0;
    attn_status status = arena ? attn_model_pieces(contents, arena, &pieces, &count, err)
                               : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status && (refused = put_pieces(path, pieces, count)))
        status = attn_fail(err, ATTN_EARG, path, "cannot be written: %s", strerror(refused));
    if (failed)
        *failed = refused;
    attn_arena_free(arena);
    return status;
}
