/* Opens the files of a model: maps them, reads the descriptions of their tensors, and joins
 * shards. */
#include "store/weights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "system/files.h"

enum { PATH = 512 };                    /* size of the path of a file; err->where may cut it off */
enum { CONFIG, TOKENIZER, GENERATION }; /* indices of srv_weights.texts */
#define ARENA_MOST  ((size_t)4 << 30)
#define CONFIG_MOST ((size_t)16 << 20)
#define JSON_MOST   ((size_t)256 << 20) /* bytes of tokenizer.json, or of an index */

static bool ends_in(const char *name, const char *ending) {
    const size_t n = strlen(name), end = strlen(ending);
    return n > end && strcmp(name + n - end, ending) == 0;
}

bool srv_is_pickle(const char *name) {
    static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_in(name, endings[i]))
            return true;
    return false;
}

attn_status srv_refuse_pickle(const char *where, attn_error *err) {
    return attn_fail(err, ATTN_EUNSUPPORTED, where,
                     "a pickle is never read, since loading it runs the code in it; convert the "
                     "folder in Python, where you trust it: from transformers import AutoModel; "
                     "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER) writes "
                     "model.safetensors");
}

/* Makes err->where the path of the file, and puts the place that a reader has set (a tensor, a key,
 * or nothing) in front of the text. */
static attn_status in_file(attn_status status, const char *path, attn_error *err) {
    if (status && err) {
        const attn_error said = *err;
        attn_fail(err, status, path, "%s%s%.380s", said.where, *said.where ? ": " : "", said.text);
    }
    return status;
}

/* A model that is being opened: its folder, and the name of the folder for errors. */
typedef struct opening {
    int dir;
    const char *folder; /* "" for the directory itself */
    srv_weights *w;
    attn_error *err;
} opening;

static const char *path_of(const opening *o, const char *name, char path[PATH]) {
    snprintf(path, PATH, "%s%s%s", o->folder, *o->folder ? "/" : "", name);
    return path;
}

/* Maps a file. srv_weights_close will close it. */
static attn_status map_file(const opening *o, const char *name, const srv_mapped **out) {
    char path[PATH];
    srv_weights *w = o->w;
    srv_mapped **files = realloc(w->files, (w->file_count + 1) * sizeof *files);
    if (!files)
        return attn_no_memory(o->err, "a file of a model");
    w->files = files;
    const int failed = srv_mapped_open(o->dir, name, true, &files[w->file_count]);
    if (failed)
        return attn_fail(o->err, ATTN_EARG, path_of(o, name, path), "%s",
                         failed == ENODATA ? "the file is empty" : strerror(failed));
    *out = files[w->file_count++];
    return ATTN_OK;
}

static attn_status read_json(const opening *o, const char *name, size_t most, attn_string *text,
                             attn_json **out) {
    const srv_mapped *file;
    char path[PATH];
    ATTN_TRY(map_file(o, name, &file));
    *text = (attn_string){srv_mapped_data(file), srv_mapped_size(file)};
    path_of(o, name, path);
    if (srv_mapped_size(file) > most)
        return attn_fail(o->err, ATTN_ELIMIT, path, "it has more than %zu bytes", most);
    ATTN_TRY(in_file(
        attn_json_read(srv_mapped_data(file), srv_mapped_size(file), o->w->arena, out, o->err),
        path, o->err));
    return (*out)->kind == ATTN_JSON_OBJECT
               ? ATTN_OK
               : attn_fail(o->err, ATTN_EARG, path, "expected an object, found %s",
                           attn_json_kind_name(*out));
}

static attn_status read_safetensors(const opening *o, const char *name, attn_safetensors *out) {
    const srv_mapped *file;
    char path[PATH];
    ATTN_TRY(map_file(o, name, &file));
    return in_file(attn_safetensors_read_usable(srv_mapped_data(file), srv_mapped_size(file),
                                                o->w->arena, out, o->err),
                   path_of(o, name, path), o->err);
}

static attn_status read_gguf(const opening *o, const char *name) {
    const srv_mapped *file;
    char path[PATH];
    ATTN_TRY(map_file(o, name, &file));
    o->w->is_gguf = true;
    return in_file(attn_gguf_read(srv_mapped_data(file), srv_mapped_size(file), o->w->arena,
                                  &o->w->gguf, o->err),
                   path_of(o, name, path), o->err);
}

/* --- folders --- */

static const char one_file[] = "model.safetensors", index_file[] = "model.safetensors.index.json",
                  config_file[] = "config.json", tokenizer_file[] = "tokenizer.json",
                  generation_file[] = "generation_config.json";

static attn_status read_shards(const opening *o) {
    const srv_mapped *file;
    attn_shard_index index;
    char path[PATH];
    ATTN_TRY(map_file(o, index_file, &file));
    path_of(o, index_file, path);
    if (srv_mapped_size(file) > JSON_MOST)
        return attn_fail(o->err, ATTN_ELIMIT, path, "it has more than %zu bytes", JSON_MOST);
    ATTN_TRY(in_file(attn_shard_index_read(srv_mapped_data(file), srv_mapped_size(file),
                                           o->w->arena, &index, o->err),
                     path, o->err));
    attn_safetensors *parts = attn_arena_zeroed(o->w->arena, index.file_count + 1, sizeof *parts);
    ATTN_TAKEN(parts, "the files of a model", o->err);
    for (size_t f = 0; f < index.file_count; f++)
        ATTN_TRY(read_safetensors(o, index.files[f], &parts[f]));
    return in_file(attn_shards_join(&index, parts, o->w->arena, &o->w->tensors, o->err), path,
                   o->err);
}

/* Returns the error for a folder without tensors. If the folder has a pickle, the text says how to
 * convert it. */
static attn_status refuse_folder(const opening *o) {
    char path[PATH];
    const int fd = dup(o->dir);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list && fd >= 0)
        close(fd);
    for (const struct dirent *e; list && (e = readdir(list));)
        if (srv_is_pickle(e->d_name)) {
            path_of(o, e->d_name, path);
            closedir(list);
            return srv_refuse_pickle(path, o->err);
        }
    if (list)
        closedir(list);
    return attn_fail(o->err, ATTN_EARG, o->folder, "expected %s or %s in the folder", one_file,
                     index_file);
}

static attn_status read_folder(const opening *o) {
    srv_weights *w = o->w;
    const bool whole = !srv_file_lacks(o->dir, one_file);
    if (!whole && srv_file_lacks(o->dir, index_file))
        return refuse_folder(o);
    if (srv_file_lacks(o->dir, config_file))
        return attn_fail(o->err, ATTN_EARG, o->folder, "expected %s in the folder", config_file);
    attn_json *generation;
    ATTN_TRY(read_json(o, config_file, CONFIG_MOST, &w->texts[CONFIG], &w->config));
    ATTN_TRY(whole ? read_safetensors(o, one_file, &w->tensors) : read_shards(o));
    if (!srv_file_lacks(o->dir, generation_file))
        ATTN_TRY(read_json(o, generation_file, CONFIG_MOST, &w->texts[GENERATION], &generation));
    return srv_file_lacks(o->dir, tokenizer_file)
               ? ATTN_OK
               : read_json(o, tokenizer_file, JSON_MOST, &w->texts[TOKENIZER], &w->tokenizer);
}

static attn_status open_named(int dir, const char *name, srv_weights *w, attn_error *err) {
    const bool gguf = ends_in(name, ".gguf"), single = gguf || ends_in(name, ".safetensors");
    if (srv_is_pickle(name))
        return srv_refuse_pickle(name, err);
    w->dir = openat(dir, single ? "." : name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->dir < 0)
        return attn_fail(err, ATTN_EARG, name, "%s",
                         errno == ENOTDIR ? "no model has such a name" : strerror(errno));
    const opening o = {w->dir, single ? "" : name, w, err};
    return gguf     ? read_gguf(&o, name)
           : single ? read_safetensors(&o, name, &w->tensors)
                    : read_folder(&o);
}

attn_status srv_weights_open(int dir, const char *name, srv_weights *out, attn_error *err) {
    srv_weights w = {.dir = -1, .arena = attn_arena_new(ARENA_MOST)};
    ATTN_TAKEN(w.arena, "a model", err);
    const attn_status status = open_named(dir, name, &w, err);
    if (status)
        srv_weights_close(&w);
    else
        *out = w;
    return status;
}

void srv_weights_close(srv_weights *w) {
    for (size_t i = 0; i < w->file_count; i++)
        srv_mapped_close(w->files[i]);
    free(w->files);
    attn_arena_free(w->arena);
    if (w->dir >= 0)
        close(w->dir);
    *w = (srv_weights){.dir = -1};
}

attn_known_files srv_weights_files(const srv_weights *w) {
    return (attn_known_files){.gguf = w->is_gguf ? &w->gguf : NULL,
                              .config = w->texts[CONFIG],
                              .generation = w->texts[GENERATION],
                              .tokenizer = w->texts[TOKENIZER],
                              .tensors = &w->tensors};
}

size_t srv_weights_bytes(const srv_weights *w) {
    size_t bytes = 0;
    for (size_t i = 0; i < w->file_count; i++)
        bytes += srv_mapped_size(w->files[i]);
    return bytes;
}

bool srv_weights_changed(const srv_weights *w) {
    for (size_t i = 0; i < w->file_count; i++) {
        srv_mapped_times seen;
        const srv_mapped_state state = srv_mapped_check(w->files[i], &seen);
        if (state == SRV_MAPPED_WRITTEN || state == SRV_MAPPED_HURT)
            return true;
    }
    return false;
}
