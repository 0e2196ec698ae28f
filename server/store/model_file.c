/* Reads models from safetensors files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model_file.h"
#include "store/model_keys.h"
#include "system/files.h"

static const size_t MOST_HEADER = (size_t)1 << 30; /* names, lists and texts of a file */

const char *srv_model_text(const srv_model_file *file, const char *key) {
    for (size_t i = 0; i < file->contents.metadata_count; i++)
        if (!strcmp(file->contents.metadata[i].key, key))
            return file->contents.metadata[i].text;
    return NULL;
}

const attn_tensor *srv_model_tensor(const srv_model_file *file, const char *name) {
    for (size_t i = 0; i < file->contents.count; i++)
        if (!strcmp(file->contents.tensors[i].name, name))
            return &file->contents.tensors[i].tensor;
    return NULL;
}

static attn_status read_config(const srv_model_file *file, attn_model_config *config,
                               attn_error *err) {
    *config = attn_model_defaults();
    for (const srv_model_key *key = srv_model_keys; key->name; key++) {
        const char *text = srv_model_text(file, key->name);
        if (!text && key->optional)
            continue;
        if (!text)
            return attn_fail(err, ATTN_EARG, key->name,
                             "the metadata of a model must have this key");
        if (!srv_model_key_set(key, config, text))
            return attn_fail(err, ATTN_EVALUE, key->name, "\"%.60s\" is no value for it", text);
    }
    return ATTN_OK;
}

static attn_status read_vocabulary(const srv_model_file *file, const char *key, size_t size,
                                   attn_vocabulary **out, attn_error *err) {
    const char *text = srv_model_text(file, key);
    if (!text)
        return attn_fail(err, ATTN_EARG, key, "the metadata of a model must have this key");
    attn_status status = attn_vocabulary_read(text, strlen(text), out, err);
    if (!status && attn_vocabulary_size(*out) != size)
        status = attn_fail(err, ATTN_EVALUE, key, "has %zu words, the model %zu",
                           attn_vocabulary_size(*out), size);
    return status;
}

/* The parameters, and no tensors that are neither the model's nor of training. */
static attn_status load(srv_model_file *file, attn_error *err) {
    size_t count = 0;
    const char **names = attn_arena_zeroed(file->arena, file->contents.count + 1, sizeof *names);
    attn_tensor *tensors =
        attn_arena_zeroed(file->arena, file->contents.count + 1, sizeof *tensors);
    if (!names || !tensors)
        return attn_fail(err, ATTN_ENOMEM, "model", "no memory for its tensors' names");
    for (size_t i = 0; i < file->contents.count; i++)
        if (strncmp(file->contents.tensors[i].name, "training.", 9)) {
            names[count] = file->contents.tensors[i].name;
            tensors[count++] = file->contents.tensors[i].tensor;
        }
    return attn_parameters_load(attn_model_parameters(file->model), count, names, tensors, NULL,
                                err);
}

/* Before memory is taken for what the metadata says: does the file hold as many numbers? */
static attn_status check_size(const srv_model_file *file, const attn_model_config *config,
                              attn_error *err) {
    size_t bytes, held = 0;
    const attn_status status = attn_model_bytes(config, false, &bytes, err);
    if (status)
        return status;
    for (size_t i = 0; i < file->contents.count; i++) {
        size_t count;
        if (attn_tensor_count(&file->contents.tensors[i].tensor, &count))
            held += count;
    }
    const size_t table = config->max_length * config->width;
    if (2 * held + table >= bytes / sizeof(float)) /* values are padded in memory */
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "", "holds %zu numbers, far fewer than its metadata says",
                     held);
}

static attn_status read_into(srv_model_file *file, const void *bytes, size_t size, bool gradients,
                             attn_error *err) {
    attn_model_config config;
    attn_status status = attn_safetensors_read(bytes, size, file->arena, &file->contents, err);
    if (!status)
        status = read_config(file, &config, err);
    if (!status)
        status =
            read_vocabulary(file, "source_words", config.source_vocabulary, &file->source, err);
    if (!status)
        status =
            read_vocabulary(file, "target_words", config.target_vocabulary, &file->target, err);
    if (!status)
        status = check_size(file, &config, err);
    if (!status)
        status = attn_model_new(&config, 0, gradients, &file->model, err);
    return status ? status : load(file, err);
}

attn_status srv_model_read(const void *bytes, size_t size, bool gradients, srv_model_file *out,
                           attn_error *err) {
    srv_model_file file = {.arena = attn_arena_new(MOST_HEADER)};
    attn_status status = file.arena ? read_into(&file, bytes, size, gradients, err)
                                    : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (status)
        srv_model_close(&file);
    else
        *out = file;
    return status;
}

/* A file of another size than it has is not read into memory: pages come when they are looked at.
 */
static int map_file(const char *path, srv_mapped **out) {
    struct stat about;
    const int fd = srv_file_open(AT_FDCWD, path, true, &about);
    if (fd < 0)
        return -fd;
    const int failed = about.st_size ? srv_mapped_open(fd, (size_t)about.st_size, out) : ENODATA;
    close(fd);
    return failed;
}

static attn_status read_mapped(srv_model_file *file, bool gradients, attn_error *err) {
    const srv_mapped *m = file->mapped;
    const attn_status status =
        read_into(file, srv_mapped_data(m), srv_mapped_size(m), gradients, err);
    return srv_mapped_is_hurt(m) ? attn_fail(err, ATTN_EARG, "", "was cut short while it was read")
                                 : status;
}

/* What went wrong with a file is at its path. */
static attn_status at_path(const char *path, attn_error *err) {
    const attn_error inner = *err;
    return attn_fail(err, inner.code, path, "%s%s%s", inner.where, *inner.where ? ": " : "",
                     inner.text);
}

attn_status srv_model_open(const char *path, bool gradients, srv_model_file *out, attn_error *err) {
    srv_model_file file = {.arena = attn_arena_new(MOST_HEADER)};
    const int failed = file.arena ? map_file(path, &file.mapped) : ENOMEM;
    attn_status status = ATTN_OK;
    if (failed)
        status = attn_fail(err, failed == ENOMEM ? ATTN_ENOMEM : ATTN_EARG, path,
                           "cannot be read: %s", strerror(failed));
    else if (read_mapped(&file, gradients, err))
        status = at_path(path, err);
    if (status)
        srv_model_close(&file);
    else
        *out = file;
    return status;
}

void srv_model_forget(srv_model_file *file) {
    attn_arena_free(file->arena);
    srv_mapped_close(file->mapped);
    file->arena = NULL;
    file->mapped = NULL;
    file->contents = (attn_safetensors){0};
}

void srv_model_close(srv_model_file *file) {
    attn_model_free(file->model);
    attn_vocabulary_free(file->source);
    attn_vocabulary_free(file->target);
    srv_model_forget(file);
    *file = (srv_model_file){0};
}

bool srv_model_corpus(const srv_model_file *file, attn_corpus_options *out) {
    const char *task = srv_model_text(file, "corpus.task"),
               *large = srv_model_text(file, "corpus.large"),
               *numbers[5] = {
                   srv_model_text(file, "corpus.seed"), srv_model_text(file, "corpus.shortest"),
                   srv_model_text(file, "corpus.longest"), srv_model_text(file, "corpus.skew"),
                   srv_model_text(file, "corpus.symbols")};
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
