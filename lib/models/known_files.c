/* Maps the files of models that people know, for attn_known_open. */
#include <attn/known_model.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"

/* MOST_NAMES: limit in bytes of the names and lists of one model. SHARDS: largest number of
 * shards. */
#define MOST_NAMES ((size_t)1 << 30)
enum { SHARDS = 512, PATH = 4096 };

typedef struct mapping {
    void *data;
    size_t size;
} mapping;

/* The files of a model. */
typedef struct files {
    mapping maps[SHARDS];
    size_t count;
    attn_arena *arena; /* names and lists while the model is opened */
} files;

static void free_files(files *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        munmap(f->maps[i].data, f->maps[i].size);
    attn_arena_free(f->arena);
    attn_free(f);
}

static attn_status fail_file(const char *path, const char *what, attn_error *err) {
    return attn_fail(err, errno == ENOMEM ? ATTN_ENOMEM : ATTN_EARG, path, "cannot be %s: %s", what,
                     strerror(errno));
}

/* Maps a file. */
static attn_status map_file(files *f, const char *path, mapping *out, attn_error *err) {
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->count == SHARDS) {
        close(fd);
        return attn_fail(err, ATTN_ELIMIT, path, "a model has at most %d files", SHARDS);
    }
    if (fd < 0 || fstat(fd, &info)) {
        const attn_status status = fail_file(path, "read", err);
        close(fd);
        return status;
    }
    if (!S_ISREG(info.st_mode) || info.st_size < 1) {
        close(fd);
        return attn_fail(err, ATTN_EARG, path, "is empty, or no file");
    }
    *out = (mapping){.size = (size_t)info.st_size};
    out->data = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
    const attn_status status = out->data == MAP_FAILED ? fail_file(path, "mapped", err) : ATTN_OK;
    close(fd);
    if (!status)
        f->maps[f->count++] = *out;
    return status;
}

/* Reads the header of a file. */
static attn_status read_header(files *f, const char *path, attn_safetensors *out, attn_error *err) {
    mapping bytes;
    attn_error inner;
    ATTN_TRY(map_file(f, path, &bytes, err));
    const attn_status status =
        attn_safetensors_read_usable(bytes.data, bytes.size, f->arena, out, &inner);
    return status ? attn_fail(err, status, path, "%s: %s", inner.where, inner.text) : ATTN_OK;
}

/* Reads the shards that an index names. */
static attn_status read_shards(files *f, const char *folder, const char *index_path,
                               attn_safetensors *out, attn_error *err) {
    attn_shard_index index;
    attn_error inner;
    mapping text;
    char path[PATH];
    ATTN_TRY(map_file(f, index_path, &text, err));
    attn_status status = attn_shard_index_read(text.data, text.size, f->arena, &index, &inner);
    if (status)
        return attn_fail(err, status, index_path, "%s: %s", inner.where, inner.text);
    attn_safetensors *parts = attn_arena_zeroed(f->arena, index.file_count + 1, sizeof *parts);
    ATTN_TAKEN(parts, "the shards of a model", err);
    for (size_t i = 0; i < index.file_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, index.files[i]);
        ATTN_TRY(read_header(f, path, &parts[i], err));
    }
    status = attn_shards_join(&index, parts, f->arena, out, &inner);
    return status ? attn_fail(err, status, index_path, "%s: %s", inner.where, inner.text) : ATTN_OK;
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static attn_status map_text(files *f, const char *path, attn_string *out, attn_error *err) {
    mapping text;
    ATTN_TRY(map_file(f, path, &text, err));
    *out = (attn_string){text.data, text.size};
    return ATTN_OK;
}

/* Reads the headers of the tensors of a folder. */
static attn_status read_tensors(files *f, const char *folder, attn_safetensors *out,
                                attn_error *err) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (exists(path))
        return read_shards(f, folder, path, out, err);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const bool has = exists(path);
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    if (!has && exists(path))
        return attn_fail(err, ATTN_EUNSUPPORTED, path,
                         "pickles are not read, since they can run programs: convert it with "
                         "save_pretrained of transformers, which writes model.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return read_header(f, path, out, err);
}

static attn_status open_folder(files *f, const char *folder, attn_known_model *out,
                               attn_error *err) {
    attn_known_files parts = {0};
    attn_safetensors tensors;
    char path[PATH];
    if (strlen(folder) > PATH - 64)
        return attn_fail(err, ATTN_EARG, "path", "is longer than %d bytes", PATH - 64);
    snprintf(path, sizeof path, "%s/config.json", folder);
    ATTN_TRY(map_text(f, path, &parts.config, err));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (exists(path))
        ATTN_TRY(map_text(f, path, &parts.generation, err));
    ATTN_TRY(read_tensors(f, folder, &tensors, err));
    parts.tensors = &tensors;
    return attn_known_read(&parts, out, err);
}

static attn_status open_gguf(files *f, const char *path, attn_known_model *out, attn_error *err) {
    mapping bytes;
    attn_gguf read;
    attn_error inner;
    ATTN_TRY(map_file(f, path, &bytes, err));
    const attn_status status = attn_gguf_read(bytes.data, bytes.size, f->arena, &read, &inner);
    if (status)
        return attn_fail(err, status, path, "%s: %s", inner.where, inner.text);
    return attn_known_read(&(attn_known_files){.gguf = &read}, out, err);
}

static attn_status open_files(files *f, const char *path, attn_known_model *out, attn_error *err) {
    const size_t size = strlen(path);
    const bool gguf = size > 5 && !strcmp(path + size - 5, ".gguf");
    attn_known_model made;
    ATTN_TRY((gguf ? open_gguf : open_folder)(f, path, &made, err));
    made.files = f;
    for (size_t i = 0; i < f->count; i++)
        made.bytes += f->maps[i].size;
    *out = made;
    return ATTN_OK;
}

attn_status attn_known_open(const char *path, attn_known_model *out, attn_error *err) {
    files *f = attn_alloc(sizeof *f);
    ATTN_TAKEN(f, "a model", err);
    *f = (files){.arena = attn_arena_new(MOST_NAMES)};
    const attn_status status = f->arena ? open_files(f, path, out, err)
                                        : attn_fail(err, ATTN_ENOMEM, "", "no memory for a model");
    if (status) {
        free_files(f);
        return status;
    }
    attn_arena_free(f->arena);
    f->arena = NULL;
    return ATTN_OK;
}

void attn_known_close(attn_known_model *known) {
    attn_model_free(known->model);
    free_files(known->files);
    *known = (attn_known_model){0};
}
