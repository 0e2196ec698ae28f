/* Reads and writes model files. The table config_keys converts between attn_model_config and the
 * metadata, in both directions. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_file.h"
#include "system/files.h"

/* --- the configuration as keys of the metadata --- */

typedef struct config_key {
    const char *name;
    size_t offset; /* offset of the member in attn_model_config, in bytes */
    enum { KEY_ARCHITECTURE, KEY_ATTENTION, KEY_POSITIONS, KEY_SIZE, KEY_DOUBLE, KEY_BOOL } kind;
    bool optional; /* files that lack the key get the default: older ones, or those of another
                    * attention */
    /* If optional and not ATTN_MODEL_MULTIHEAD: only files of this attention have the key. */
    attn_model_attention only;
    const char *old; /* the key's name in files of older versions; NULL: the same */
} config_key;

#define NAME(name, text) text,
const char *const srv_model_architectures[] = {ATTN_MODEL_ARCHITECTURE_LIST(NAME) NULL};
const char *const srv_model_attentions[] = {ATTN_MODEL_ATTENTION_LIST(NAME) NULL};
const char *const srv_model_positions[] = {ATTN_MODEL_POSITIONS_LIST(NAME) NULL};
#undef NAME
const char *const srv_model_norms[] = {"before", "after", NULL};

#define MEMBER(name, kind)                                                                         \
    { #name, offsetof(attn_model_config, name), kind, false, ATTN_MODEL_MULTIHEAD, NULL }
#define OPTIONAL(name, kind)                                                                       \
    { #name, offsetof(attn_model_config, name), kind, true, ATTN_MODEL_MULTIHEAD, NULL }
#define ONLY_OF(attention, name, kind)                                                             \
    { #name, offsetof(attn_model_config, name), kind, true, attention, NULL }

static const config_key config_keys[] = {
    MEMBER(architecture, KEY_ARCHITECTURE),
    MEMBER(attention, KEY_ATTENTION),
    MEMBER(positions, KEY_POSITIONS),
    MEMBER(source_vocabulary, KEY_SIZE),
    MEMBER(target_vocabulary, KEY_SIZE),
    MEMBER(width, KEY_SIZE),
    {"num_heads", offsetof(attn_model_config, num_heads), KEY_SIZE, false, ATTN_MODEL_MULTIHEAD,
     "heads"},
    {"num_layers", offsetof(attn_model_config, num_layers), KEY_SIZE, false, ATTN_MODEL_MULTIHEAD,
     "layers"},
    MEMBER(max_length, KEY_SIZE),
    MEMBER(radius, KEY_SIZE),
    MEMBER(stride, KEY_SIZE),
    MEMBER(reach, KEY_SIZE),
    {"dropout", offsetof(attn_model_config, dropout_p), KEY_DOUBLE, false, ATTN_MODEL_MULTIHEAD,
     NULL},
    MEMBER(read_padding, KEY_BOOL),
    {"attention_dropout", offsetof(attn_model_config, attention_dropout_p), KEY_DOUBLE, true,
     ATTN_MODEL_MULTIHEAD, NULL},
    OPTIONAL(feed_forward, KEY_SIZE),
    OPTIONAL(norm_after, KEY_BOOL),
    ONLY_OF(ATTN_MODEL_BLOCK, block_size, KEY_SIZE),
    {"num_global_keys", offsetof(attn_model_config, num_global_keys), KEY_SIZE, true,
     ATTN_MODEL_GLOBAL, "global_keys"},
    {0},
};
enum { KEY_COUNT = sizeof config_keys / sizeof *config_keys };

/* Parses the metadata text of a key and sets the key's member of the configuration. false: the text
 * is not a valid value. */
static bool set_key(const config_key *key, attn_model_config *config, const char *text) {
    void *member = (char *)config + key->offset;
    char *end;
    unsigned long long whole;
    switch (key->kind) {
    case KEY_ARCHITECTURE:
        return attn_model_architecture_parse(text, member);
    case KEY_ATTENTION:
        return attn_model_attention_parse(text, member);
    case KEY_POSITIONS:
        return attn_model_positions_parse(text, member);
    case KEY_SIZE:
        whole = strtoull(text, &end, 10);
        *(size_t *)member = whole;
        return *text >= '0' && *text <= '9' && !*end;
    case KEY_DOUBLE:
        *(double *)member = strtod(text, &end);
        return end != text && !*end;
    case KEY_BOOL:
        *(bool *)member = !strcmp(text, "true");
        return *(bool *)member || !strcmp(text, "false");
    }
    return false;
}

/* Formats the key's member of the configuration as text into buf and returns buf. */
static char *key_text(const config_key *key, const attn_model_config *config, char *buf,
                      size_t size) {
    const void *member = (const char *)config + key->offset;
    switch (key->kind) {
    case KEY_ARCHITECTURE:
        snprintf(buf, size, "%s", attn_model_architecture_name(config->architecture));
        break;
    case KEY_ATTENTION:
        snprintf(buf, size, "%s", attn_model_attention_name(config->attention));
        break;
    case KEY_POSITIONS:
        snprintf(buf, size, "%s", attn_model_positions_name(config->positions));
        break;
    case KEY_SIZE:
        snprintf(buf, size, "%zu", *(const size_t *)member);
        break;
    case KEY_DOUBLE:
        snprintf(buf, size, "%.17g", *(const double *)member);
        break;
    case KEY_BOOL:
        snprintf(buf, size, "%s", *(const bool *)member ? "true" : "false");
        break;
    }
    return buf;
}

/* Limit in bytes of the arena for the names, lists and metadata texts of one file. */
static const size_t MOST_HEADER = (size_t)1 << 30;

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

/* --- reading --- */

/* Checks that this program knows all keys by which a file says how to compute its model. */
static attn_status check_keys(const srv_model_file *file, attn_error *err) {
    static const char *const others[] = {
        "format",        "source_words",    "target_words",    "source_merges",
        "target_merges", "source_language", "target_language", NULL};
    for (size_t i = 0; i < file->contents.metadata_count; i++) {
        const char *name = file->contents.metadata[i].key;
        const config_key *key = config_keys;
        size_t other = 0;
        while (key->name && strcmp(key->name, name) && (!key->old || strcmp(key->old, name)))
            key++;
        while (others[other] && strcmp(others[other], name))
            other++;
        if (!key->name && !others[other] && !strchr(name, '.'))
            return attn_fail(err, ATTN_EUNSUPPORTED, "",
                             "a newer program wrote this: the metadata has \"%.60s\", which this "
                             "program does not know",
                             name);
    }
    return ATTN_OK;
}

/* Checks the seal, if the file has one, and by it all bytes of the file. */
static attn_status check_seal(srv_model_file *file, const void *bytes, size_t size,
                              attn_error *err) {
    attn_seal seal;
    attn_status status = attn_safetensors_seal(bytes, size, &file->contents, SRV_MODEL_VERSION,
                                               file->arena, &seal, err);
    if (status)
        return status;
    file->version = seal.version ? seal.version : 1;
    if (!seal.version)
        return ATTN_OK;
    status = attn_checksums_check(&seal.checksums, seal.bytes, 0, seal.checksums.size, err);
    return status ? status : check_keys(file, err);
}

static attn_status read_config(const srv_model_file *file, attn_model_config *config,
                               attn_error *err) {
    *config = attn_model_defaults();
    for (const config_key *key = config_keys; key->name; key++) {
        const char *text = srv_model_text(file, key->name);
        if (!text && key->old)
            text = srv_model_text(file, key->old);
        if (!text && key->optional)
            continue;
        if (!text)
            return attn_fail(err, ATTN_EARG, key->name,
                             "the metadata of a model must have this key");
        if (!set_key(key, config, text))
            return attn_fail(err, ATTN_EVALUE, key->name,
                             "\"%.60s\" is no value for it that this program knows", text);
    }
    return ATTN_OK;
}

/* Reads the words of a side. A file without the key is that of a model without words. */
static attn_status read_vocabulary(const srv_model_file *file, const char *key, size_t size,
                                   attn_vocabulary **out, attn_error *err) {
    const char *text = srv_model_text(file, key);
    if (!text)
        return ATTN_OK;
    attn_status status = attn_vocabulary_read(text, strlen(text), out, err);
    if (!status && attn_vocabulary_size(*out) != size)
        status = attn_fail(err, ATTN_EVALUE, key, "has %zu words, the model %zu",
                           attn_vocabulary_size(*out), size);
    return status;
}

/* Copies the file's tensors into the model's parameters. Fails if a parameter is missing or if the
 * file has another tensor; tensors named "training.…" are skipped. */
static attn_status load_parameters(srv_model_file *file, attn_error *err) {
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

/* Checks that the file holds about as many numbers as its configuration needs, so that a small file
 * with a false configuration cannot make the service allocate a large model. */
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
    /* `bytes` also counts padding and, for sinusoidal positions, a table. Files hold neither, so
     * half of the numbers are enough here, without a table. */
    if (2 * held + table >= bytes / sizeof(float))
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "", "holds %zu numbers, far fewer than its metadata says",
                     held);
}

/* Reads the merges of a vocabulary of sub-words; files of models with whole words have none. */
static attn_status read_merges(const srv_model_file *file, const char *key, attn_vocabulary *to,
                               attn_error *err) {
    const char *text = srv_model_text(file, key);
    if (text && !to)
        return attn_fail(err, ATTN_EVALUE, key, "a model without words has no merges");
    const attn_status status =
        text ? attn_vocabulary_read_merges(to, text, strlen(text), err) : ATTN_OK;
    if (status)
        snprintf(err->where, sizeof err->where, "%s", key);
    return status;
}

static attn_status read_into(srv_model_file *file, const void *bytes, size_t size, bool gradients,
                             attn_error *err) {
    attn_model_config config;
    attn_status status = attn_safetensors_read(bytes, size, file->arena, &file->contents, err);
    if (!status)
        status = check_seal(file, bytes, size, err);
    if (!status)
        status = read_config(file, &config, err);
    if (!status)
        status =
            read_vocabulary(file, "source_words", config.source_vocabulary, &file->source, err);
    if (!status)
        status =
            read_vocabulary(file, "target_words", config.target_vocabulary, &file->target, err);
    if (!status)
        status = read_merges(file, "source_merges", file->source, err);
    if (!status)
        status = read_merges(file, "target_merges", file->target, err);
    if (!status)
        status = check_size(file, &config, err);
    if (!status)
        status = attn_model_new(&config, 0, gradients, &file->model, err);
    return status ? status : load_parameters(file, err);
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

static bool was_written(srv_mapped *m) {
    srv_mapped_times seen;
    const srv_mapped_state state = srv_mapped_check(m, &seen);
    return state == SRV_MAPPED_WRITTEN || state == SRV_MAPPED_HURT;
}

/* Checksums that are right after the last read tell that the file was not changed meanwhile, or was
 * changed back. */
attn_status srv_model_recheck(srv_model_file *file, attn_error *err) {
    srv_mapped *m = file->mapped;
    attn_error why;
    if (was_written(m) || check_seal(file, srv_mapped_data(m), srv_mapped_size(m), &why))
        return attn_fail(err, ATTN_EARG, "", "was changed while it was read");
    return ATTN_OK;
}

static attn_status read_mapped(srv_model_file *file, bool gradients, int *failed, attn_error *err) {
    srv_mapped *m = file->mapped;
    const attn_status status =
        read_into(file, srv_mapped_data(m), srv_mapped_size(m), gradients, err);
    *failed = status == ATTN_ENOMEM ? ENOMEM : 0;
    if (status && !was_written(m))
        return status;
    const attn_status changed = srv_model_recheck(file, err);
    *failed = changed ? EAGAIN : *failed;
    return changed ? changed : status;
}

/* Moves the error's place to the front of its text and sets err->where to the path of the file. A
 * wrong value in the file makes the file a wrong argument. */
static attn_status at_path(const char *path, attn_error *err) {
    const attn_error inner = *err;
    return attn_fail(err, inner.code == ATTN_EVALUE ? ATTN_EARG : inner.code, path, "%s%s%s",
                     inner.where, *inner.where ? ": " : "", inner.text);
}

/* Maps the file: its pages are loaded on first access, so a large file that is not a model costs
 * little memory. */
attn_status srv_model_open(const char *path, bool gradients, srv_model_file *out, int *failed,
                           attn_error *err) {
    srv_model_file file = {.arena = attn_arena_new(MOST_HEADER)};
    int why = file.arena ? srv_mapped_open(AT_FDCWD, path, true, &file.mapped) : ENOMEM;
    attn_status status = ATTN_OK;
    if (why) {
        status = attn_fail(err, why == ENOMEM ? ATTN_ENOMEM : ATTN_EARG, path, "cannot be read: %s",
                           strerror(why));
        why = srv_file_judge(why) == SRV_FILE_TROUBLE ? why : 0;
    } else if (read_mapped(&file, gradients, &why, err)) {
        status = at_path(path, err);
    }
    if (failed)
        *failed = why;
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

/* --- the training corpus --- */

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

/* --- writing --- */

enum { KEY_TEXT = 48 }; /* buffer size of one formatted value, in bytes */

static void add(attn_safetensors *out, const char *key, const char *text) {
    out->metadata[out->metadata_count++] = (attn_metadata){key, text};
}

static attn_status add_merges(attn_safetensors *out, const char *key, const attn_vocabulary *v,
                              attn_arena *arena, attn_error *err) {
    const char *text;
    if (!v || !attn_vocabulary_has_subwords(v))
        return ATTN_OK;
    const attn_status status = attn_vocabulary_write_merges(v, arena, &text, err);
    if (!status)
        add(out, key, text);
    return status;
}

static attn_status list_metadata(attn_model *model, const attn_vocabulary *source,
                                 const attn_vocabulary *target, const srv_model_extras *extras,
                                 attn_arena *arena, attn_safetensors *out, attn_error *err) {
    const char *words[2];
    size_t most = KEY_COUNT + 5 + (extras ? extras->metadata_count : 0);
    out->metadata = attn_arena_zeroed(arena, most, sizeof *out->metadata);
    char(*texts)[KEY_TEXT] = attn_arena_zeroed(arena, KEY_COUNT, sizeof *texts);
    if (!out->metadata || !texts)
        return attn_fail(err, ATTN_ENOMEM, "model", "no memory for its metadata");
    attn_status status = ATTN_OK;
    if (source)
        status = attn_vocabulary_write(source, arena, &words[0], err);
    if (!status && target)
        status = attn_vocabulary_write(target, arena, &words[1], err);
    if (status)
        return status;
    add(out, "format", "pt"); /* Hugging Face's loaders refuse files without this key */
    const attn_model_config *config = attn_model_configuration(model);
    for (const config_key *key = config_keys; key->name; key++)
        if (key->only == ATTN_MODEL_MULTIHEAD || key->only == config->attention)
            add(out, key->name, key_text(key, config, texts[key - config_keys], KEY_TEXT));
    if (source)
        add(out, "source_words", words[0]);
    if (target)
        add(out, "target_words", words[1]);
    status = add_merges(out, "source_merges", source, arena, err);
    if (!status)
        status = add_merges(out, "target_merges", target, arena, err);
    if (status)
        return status;
    for (size_t i = 0; extras && i < extras->metadata_count; i++)
        add(out, extras->metadata[i].key, extras->metadata[i].text);
    return ATTN_OK;
}

static attn_status list_tensors(attn_model *model, float *values, const srv_model_extras *extras,
                                attn_arena *arena, attn_safetensors *out, attn_error *err) {
    const attn_parameters *set = attn_model_parameters(model);
    size_t own = attn_parameters_length(set), more = extras ? extras->tensor_count : 0;
    out->tensors = attn_arena_zeroed(arena, own + more, sizeof *out->tensors);
    if (!out->tensors)
        return attn_fail(err, ATTN_ENOMEM, "model", "no memory for its tensors' names");
    for (size_t i = 0; i < own; i++) {
        const attn_parameter *p = attn_parameters_at(set, i);
        out->tensors[i] = (attn_named_tensor){p->name, attn_parameters_value(set, i)};
        if (values)
            out->tensors[i].tensor.data = values + p->offset;
    }
    for (size_t i = 0; i < more; i++)
        out->tensors[own + i] = extras->tensors[i];
    out->count = own + more;
    return ATTN_OK;
}

static void write_contents(srv_new_file *file, const attn_safetensors *what) {
    for (size_t i = 0; i < what->count; i++) {
        size_t count = 0;
        const attn_tensor *t = &what->tensors[i].tensor;
        if (attn_tensor_count(t, &count))
            srv_new_file_write(file, t->data, count * attn_dtype_size(t->dtype));
    }
}

static attn_status put(const char *path, const attn_safetensors *what, const void *header,
                       size_t size, int *failed, attn_error *err) {
    srv_new_file file;
    *failed = srv_new_file_open(&file, AT_FDCWD, path);
    if (!*failed) {
        srv_new_file_write(&file, header, size);
        write_contents(&file, what);
        *failed = srv_new_file_close(&file);
    }
    return *failed ? attn_fail(err, ATTN_EARG, path, "cannot be written: %s", strerror(*failed))
                   : ATTN_OK;
}

attn_status srv_model_write(const char *path, attn_model *model, float *values,
                            const attn_vocabulary *source, const attn_vocabulary *target,
                            const srv_model_extras *extras, int *failed, attn_error *err) {
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_safetensors what = {0};
    const void *header;
    size_t size;
    int refused;
    if (failed)
        *failed = 0;
    attn_status status = arena ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status)
        status = list_metadata(model, source, target, extras, arena, &what, err);
    if (!status)
        status = list_tensors(model, values, extras, arena, &what, err);
    if (!status)
        status =
            attn_safetensors_sealed_header(&what, SRV_MODEL_VERSION, arena, &header, &size, err);
    if (!status)
        status = put(path, &what, header, size, failed ? failed : &refused, err);
    attn_arena_free(arena);
    return status;
}
