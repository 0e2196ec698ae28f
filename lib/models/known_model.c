/* Opens models that people know (attn/known_model.h): maps their files, reads the configuration, and
 * binds the tensors. */
#include <attn/gguf.h>
#include <attn/known_model.h>
#include <attn/safetensors.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "models/known_tensors.h"

/* Most bytes of names, lists and trees of one model; of a text of JSON; and most shards. */
#define MOST_NAMES ((size_t)1 << 30)
#define MOST_JSON  ((size_t)64 << 20)
enum { SHARDS = 512, PATH = 4096 };

typedef struct mapping {
    void *data;
    size_t size;
} mapping;

/* The files of a model. */
typedef struct files {
    mapping maps[SHARDS];
    size_t count;
    attn_arena *arena; /* names, lists and trees while the model is opened */
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

/* Reads a JSON text of a folder. Errors name the file. */
static attn_status read_json(files *f, const char *path, attn_json **out, attn_error *err) {
    mapping text;
    attn_error inner;
    ATTN_TRY(map_file(f, path, &text, err));
    if (text.size > MOST_JSON)
        return attn_fail(err, ATTN_ELIMIT, path, "expected at most %zu bytes of JSON, found %zu",
                         MOST_JSON, text.size);
    const attn_status status = attn_json_read(text.data, text.size, f->arena, out, &inner);
    if (status)
        return attn_fail(err, status, path, "%s: %s", inner.where, inner.text);
    return (*out)->kind == ATTN_JSON_OBJECT
               ? ATTN_OK
               : attn_fail(err, ATTN_EARG, path, "expected an object, found %s",
                           attn_json_kind_name(*out));
}

/* --- safetensors --- */

static const attn_block_format *format_of(attn_dtype dtype) {
    return attn_block_format_named(dtype == ATTN_F32    ? "F32"
                                   : dtype == ATTN_F16  ? "F16"
                                   : dtype == ATTN_BF16 ? "BF16"
                                                        : "");
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

/* Lists the tensors. Those of types that no weight has, such as the ids of positions, have no
 * format. */
static attn_status list_tensors(const attn_safetensors *read, attn_arena *arena, known_tensors *t,
                                attn_error *err) {
    const size_t count = read->count + read->unusable_count;
    t->items = attn_arena_zeroed(arena, count + 1, sizeof *t->items);
    ATTN_TAKEN(t->items, "the tensors of a model", err);
    for (size_t i = 0; i < read->unusable_count; i++)
        t->items[t->count++].name = read->unusable[i].name;
    for (size_t i = 0; i < read->count; i++) {
        const attn_tensor *from = &read->tensors[i].tensor;
        known_tensor *to = &t->items[t->count++];
        *to = (known_tensor){.name = read->tensors[i].name,
                             .format = format_of(from->dtype),
                             .rank = from->rank,
                             .data = from->data};
        memcpy(to->dims, from->dims, sizeof to->dims);
    }
    return ATTN_OK;
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static attn_status read_folder(files *f, const char *folder, known_config *k, known_tensors *t,
                               attn_error *err) {
    char path[PATH];
    attn_json *config;
    attn_safetensors read;
    if (strlen(folder) > PATH - 64)
        return attn_fail(err, ATTN_EARG, "path", "is longer than %d bytes", PATH - 64);
    snprintf(path, sizeof path, "%s/config.json", folder);
    ATTN_TRY(read_json(f, path, &config, err));
    k->all = config;
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (exists(path)) {
        ATTN_TRY(read_shards(f, folder, path, &read, err));
        return list_tensors(&read, f->arena, t, err);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const bool has = exists(path);
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    if (!has && exists(path))
        return attn_fail(err, ATTN_EUNSUPPORTED, path,
                         "pickles are not read, since they can run programs: convert it with "
                         "save_pretrained of transformers, which writes model.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ATTN_TRY(read_header(f, path, &read, err));
    return list_tensors(&read, f->arena, t, err);
}

/* --- GGUF --- */

/* Adds a member to an object. */
static attn_status add_member(attn_json *object, attn_json member, attn_arena *arena,
                              attn_error *err) {
    attn_json *last = object->first, *made = attn_arena_zeroed(arena, 1, sizeof *made);
    ATTN_TAKEN(made, "the metadata of a model", err);
    *made = member;
    while (last && last->next)
        last = last->next;
    *(last ? &last->next : &object->first) = made;
    object->count++;
    return ATTN_OK;
}

/* Returns the name of a key of the architecture without the architecture, or the whole key if it is
 * one of the whole file that is read; NULL: it changes nothing. */
static const char *key_of(const char *key, const char *architecture) {
    static const char *const read[][2] = {{"general.architecture", "general.architecture"},
                                          {"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                          {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                          {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    const size_t lead = strlen(architecture);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!strcmp(key, read[i][0]))
            return read[i][1];
    return !strncmp(key, architecture, lead) && key[lead] == '.' ? key + lead + 1 : NULL;
}

static attn_status add_value(attn_json *object, const attn_gguf_value *v, const char *key,
                             attn_arena *arena, attn_error *err) {
    attn_json member = {.kind = ATTN_JSON_LIST, .key = key};
    attn_gguf_text text;
    double number;
    if (v->array)
        return add_member(object, member, arena, err);
    if (attn_gguf_text_of(v, &text)) {
        member.kind = ATTN_JSON_STRING;
        ATTN_TAKEN((member.text = attn_arena_text(arena, text.at, text.size)),
                   "the metadata of a model", err);
    } else if (attn_gguf_number(v, 0, &number)) {
        member.kind = v->type == ATTN_GGUF_BOOL ? ATTN_JSON_BOOL : ATTN_JSON_NUMBER;
        member.number = number;
        member.truth = number != 0;
    }
    return add_member(object, member, arena, err);
}

/* Makes an object of the metadata of the architecture. The number of words is that of the table of
 * embeddings, if no key says it. */
static attn_status read_metadata(const attn_gguf *file, attn_arena *arena, attn_json *out,
                                 attn_error *err) {
    attn_gguf_text name = {"", 0};
    bool words = false;
    attn_gguf_text_of(attn_gguf_find(file, "general.architecture"), &name);
    const char *architecture = attn_arena_text(arena, name.at, name.size);
    ATTN_TAKEN(architecture, "the metadata of a model", err);
    for (size_t i = 0; i < file->value_count; i++) {
        const char *key = key_of(file->values[i].key, architecture);
        if (!key)
            continue;
        words = words || !strcmp(key, "vocab_size");
        ATTN_TRY(add_value(out, &file->values[i], key, arena, err));
    }
    for (size_t i = 0; !words && i < file->count; i++)
        if (!strcmp(file->tensors[i].name, "token_embd.weight"))
            return add_member(out,
                              (attn_json){.kind = ATTN_JSON_NUMBER,
                                          .key = "vocab_size",
                                          .number = (double)file->tensors[i].dims[0]},
                              arena, err);
    return ATTN_OK;
}

static attn_status read_gguf(files *f, const char *path, known_config *k, known_tensors *t,
                             attn_error *err) {
    mapping bytes;
    attn_gguf read;
    attn_error inner;
    attn_json *keys = attn_arena_zeroed(f->arena, 1, sizeof *keys);
    ATTN_TAKEN(keys, "the metadata of a model", err);
    ATTN_TRY(map_file(f, path, &bytes, err));
    const attn_status status = attn_gguf_read(bytes.data, bytes.size, f->arena, &read, &inner);
    if (status)
        return attn_fail(err, status, path, "%s: %s", inner.where, inner.text);
    if (read.unusable_count)
        return attn_fail(err, ATTN_EUNSUPPORTED, read.unusable->name, "%s", read.unusable->reason);
    keys->kind = ATTN_JSON_OBJECT;
    ATTN_TRY(read_metadata(&read, f->arena, keys, err));
    k->all = keys;
    k->gguf = true;
    t->count = read.count;
    t->items = attn_arena_zeroed(f->arena, read.count + 1, sizeof *t->items);
    ATTN_TAKEN(t->items, "the tensors of a model", err);
    for (size_t i = 0; i < read.count; i++) {
        const attn_gguf_tensor *from = &read.tensors[i];
        t->items[i] = (known_tensor){
            .name = from->name, .format = from->format, .rank = from->rank, .data = from->data};
        memcpy(t->items[i].dims, from->dims, sizeof from->dims);
    }
    return ATTN_OK;
}

/* --- models --- */

static attn_status find_family(const known_config *k, const attn_family **out, attn_error *err) {
    const char *key = k->gguf ? "general.architecture" : "model_type";
    const attn_json *type = attn_json_member((attn_json *)(uintptr_t)k->all, key);
    if (!type || type->kind != ATTN_JSON_STRING)
        return attn_fail(err, ATTN_EARG, key, "expected the name of a family");
    *out = attn_family_of(type->text, k->gguf);
    return *out ? ATTN_OK
                : attn_fail(err, ATTN_EUNSUPPORTED, key, "the family \"%.60s\" is not implemented",
                            type->text);
}

/* Settings that depend on which tensors there are. */
static void look_at_tensors(known_config *k, const known_tensors *t, const attn_family *family) {
    attn_model_config *c = &k->config;
    const bool head = attn_known_has_head(t, family);
    if (t->gguf)
        c->tied = c->architecture != ATTN_MODEL_ENCODER && !head;
    c->headless = !head && !(c->tied && c->head == ATTN_MODEL_TOKENS);
    if (c->headless)
        c->tied = false;
}

static attn_status make(const known_config *k, const known_tensors *t, const attn_family *family,
                        attn_arena *arena, attn_model **out, attn_error *err) {
    attn_model *model;
    ATTN_TRY(attn_model_declare(&k->config, &model, err));
    const attn_status status = attn_known_bind(model, k, t, family, arena, err);
    if (status)
        attn_model_free(model);
    else
        *out = model;
    return status;
}

static attn_status open_files(files *f, const char *path, attn_known_model *out, attn_error *err) {
    known_config k = {0};
    known_tensors t = {0};
    const attn_family *family;
    attn_model *model;
    const size_t size = strlen(path);
    const bool gguf = size > 5 && !strcmp(path + size - 5, ".gguf");
    ATTN_TRY((gguf ? read_gguf : read_folder)(f, path, &k, &t, err));
    t.gguf = k.gguf;
    ATTN_TRY(find_family(&k, &family, err));
    ATTN_TRY(attn_family_configure(family, &k, err));
    look_at_tensors(&k, &t, family);
    ATTN_TRY(make(&k, &t, family, f->arena, &model, err));
    *out = (attn_known_model){.model = model, .family = family->name, .files = f};
    for (size_t i = 0; i < f->count; i++)
        out->bytes += f->maps[i].size;
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
