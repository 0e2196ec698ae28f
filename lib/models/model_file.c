/* Reads and writes model files (attn/model_file.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <attn/model_file.h>

#include "base/try.h"
#include "io/seal.h"
#include "models/model_private.h"

/* Limit in bytes of the arena for the names, lists and metadata texts of one file. */
#define MOST_HEADER ((size_t)1 << 30)

enum { SETTING_TEXT = 512 }; /* buffer size of the value of a setting as text */

/* --- settings as text --- */

/* Reads ranges of layers, such as "0-3,5". */
static bool read_layers(const char *text, attn_model_layers *out) {
    *out = (attn_model_layers){{0}};
    for (char *end; *text; text = *end ? end + 1 : end) {
        const unsigned long first = strtoul(text, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        if (*text < '0' || *text > '9' || (*end && *end != ',') || last < first ||
            last >= 64 * ATTN_MODEL_LAYER_WORDS)
            return false;
        for (size_t l = first; l <= last; l++)
            out->bits[l / 64] |= (uint64_t)1 << l % 64;
    }
    return true;
}

/* Writes the ranges of layers. */
static void layers_text(const attn_model_layers *layers, char text[SETTING_TEXT]) {
    size_t used = 0;
    text[0] = 0;
    for (size_t l = 0, end; l < 64 * ATTN_MODEL_LAYER_WORDS; l = end + 1) {
        for (end = l; attn_model_layers_have(layers, end); end++)
            ;
        if (end > l && used < SETTING_TEXT)
            used +=
                (size_t)snprintf(text + used, SETTING_TEXT - used,
                                 end > l + 1 ? "%s%zu-%zu" : "%s%zu", used ? "," : "", l, end - 1);
    }
}

/* Sets a setting of the configuration to the value in `text`. Returns false if the text is no value
 * of this setting. */
bool attn_models_set(const attn_model_setting *s, attn_model_config *config, const char *text) {
    void *member = (char *)config + s->offset;
    char *end;
    unsigned long long whole;
    switch (s->kind) {
    case ATTN_SETTING_WORD:
        for (int i = 0; s->words[i]; i++)
            if (!strcmp(text, s->words[i])) {
                *(int *)member = i;
                return true;
            }
        return false;
    case ATTN_SETTING_SIZE:
        whole = strtoull(text, &end, 10);
        *(size_t *)member = whole;
        return *text >= '0' && *text <= '9' && !*end && whole <= SIZE_MAX;
    case ATTN_SETTING_REAL:
        *(double *)member = strtod(text, &end);
        return end != text && !*end;
    case ATTN_SETTING_FLAG:
        *(bool *)member = !strcmp(text, "true");
        return *(bool *)member || !strcmp(text, "false");
    case ATTN_SETTING_LAYERS:
        return read_layers(text, member);
    }
    return false;
}

static const char *setting_text(const attn_model_setting *s, const attn_model_config *config,
                                char text[SETTING_TEXT]) {
    const void *member = (const char *)config + s->offset;
    if (s->kind == ATTN_SETTING_WORD)
        return s->words[*(const int *)member];
    if (s->kind == ATTN_SETTING_FLAG)
        return *(const bool *)member ? "true" : "false";
    if (s->kind == ATTN_SETTING_LAYERS)
        layers_text(member, text);
    else if (s->kind == ATTN_SETTING_SIZE)
        snprintf(text, SETTING_TEXT, "%zu", *(const size_t *)member);
    else
        snprintf(text, SETTING_TEXT, "%.17g", *(const double *)member);
    return text;
}

const char *attn_model_file_text(const attn_model_file *file, const char *key) {
    for (size_t i = 0; i < file->contents.metadata_count; i++)
        if (!strcmp(file->contents.metadata[i].key, key))
            return file->contents.metadata[i].text;
    return NULL;
}

const attn_tensor *attn_model_file_tensor(const attn_model_file *file, const char *name) {
    for (size_t i = 0; i < file->contents.count; i++)
        if (!strcmp(file->contents.tensors[i].name, name))
            return &file->contents.tensors[i].tensor;
    return NULL;
}

/* --- reading --- */

/* Checks that this program knows all metadata keys that say how to compute the model. These are the
 * keys without a dot. Keys with a dot, such as "training.step", do not change the model. */
static attn_status check_keys(const attn_model_file *file, attn_error *err) {
    static const char *const others[] = {
        "format",        "source_words",    "target_words",    "source_merges",
        "target_merges", "source_language", "target_language", NULL};
    for (size_t i = 0; i < file->contents.metadata_count; i++) {
        const char *name = file->contents.metadata[i].key;
        const attn_model_setting *s = attn_model_settings;
        size_t other = 0;
        while (s->name && strcmp(s->name, name))
            s++;
        while (others[other] && strcmp(others[other], name))
            other++;
        if (!s->name && !others[other] && !strchr(name, '.'))
            return attn_fail(err, ATTN_EUNSUPPORTED, "",
                             "another version of this program wrote this: the metadata has "
                             "\"%.60s\", which this program does not know",
                             name);
    }
    return ATTN_OK;
}

/* Checks all bytes of a file against its seal (io/seal.h), and sets *sealed to whether the file has
 * a seal. A file without a seal passes. */
static attn_status check_seal(const attn_model_file *file, const void *bytes, size_t size,
                              bool *sealed, attn_error *err) {
    attn_seal seal;
    ATTN_TRY(attn_safetensors_seal(bytes, size, &file->contents, ATTN_MODEL_FILE_VERSION,
                                   file->arena, &seal, err));
    *sealed = seal.version != 0;
    return seal.version
               ? attn_checksums_check(&seal.checksums, seal.bytes, 0, seal.checksums.size, err)
               : ATTN_OK;
}

attn_status attn_model_file_check(const attn_model_file *file, const void *bytes, size_t size,
                                  attn_error *err) {
    bool sealed;
    return check_seal(file, bytes, size, &sealed, err);
}

static attn_status read_config(const attn_model_file *file, attn_model_config *config,
                               attn_error *err) {
    *config = attn_model_defaults();
    for (const attn_model_setting *s = attn_model_settings; s->name; s++) {
        const char *text = attn_model_file_text(file, s->name);
        if (!text && !attn_model_has_setting(config, s))
            continue;
        if (!text)
            return attn_fail(err, ATTN_EARG, s->name, "the metadata of a model must have this key");
        if (!attn_models_set(s, config, text))
            return attn_fail(err, ATTN_EVALUE, s->name,
                             "\"%.60s\" is no value for it that this program knows", text);
    }
    return ATTN_OK;
}

/* Copies tensors into the model's parameters. `map` translates the names of the tensors. */
static attn_status load_parameters(attn_model *model, const attn_safetensors *from,
                                   const attn_parameter_name *map, attn_arena *arena,
                                   attn_error *err) {
    const char **names = attn_arena_zeroed(arena, from->count + 1, sizeof *names);
    attn_tensor *tensors = attn_arena_zeroed(arena, from->count + 1, sizeof *tensors);
    ATTN_TAKEN(names && tensors, "the names of tensors of a model", err);
    for (size_t i = 0; i < from->count; i++) {
        names[i] = from->tensors[i].name;
        tensors[i] = from->tensors[i].tensor;
    }
    return attn_parameters_load(attn_model_parameters(model), from->count, names, tensors, map,
                                err);
}

/* Checks that the file holds at least about half of the numbers that a model of its configuration
 * needs. Without this check, a small file with a false configuration could make the service
 * allocate a large model. */
static attn_status check_size(const attn_model_file *file, const attn_model_config *config,
                              attn_error *err) {
    size_t bytes, held = 0;
    ATTN_TRY(attn_model_bytes(config, false, &bytes, err));
    for (size_t i = 0; i < file->contents.count; i++) {
        size_t count;
        if (attn_tensor_count(&file->contents.tensors[i].tensor, &count))
            held += count;
    }
    const size_t table = config->max_length * config->width;
    /* `bytes` includes padding and, for sinusoidal positions, a table. A file has neither. So half
     * of the numbers are enough, and the table is not required. */
    if (2 * held + table >= bytes / sizeof(float))
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "", "holds %zu numbers, far fewer than its metadata says",
                     held);
}

static attn_status read_contents(attn_model_file *file, const void *bytes, size_t size,
                                 attn_model_config *config, attn_error *err) {
    ATTN_TRY(attn_safetensors_read(bytes, size, file->arena, &file->contents, err));
    ATTN_TRY(check_seal(file, bytes, size, &file->sealed, err));
    if (file->sealed)
        ATTN_TRY(check_keys(file, err));
    return read_config(file, config, err);
}

/* The metadata keys of a tokenizer. */
typedef struct side_keys {
    const char *words, *merges, *language;
} side_keys;

static const side_keys source_keys = {"source_words", "source_merges", "source_language"},
                       target_keys = {"target_words", "target_merges", "target_language"};

/* Reads the language under a metadata key. English is the default. If this program does not know
 * the language, a sealed file is refused, and in any other file the language becomes English. */
static attn_status read_language(const attn_model_file *file, const char *key, attn_language *out,
                                 attn_error *err) {
    const char *name = attn_model_file_text(file, key);
    *out = ATTN_ENGLISH;
    if (name && !attn_language_parse(name, out) && file->sealed)
        return attn_fail(err, ATTN_EUNSUPPORTED, key,
                         "%s: \"%.60s\" is no language that this program knows", key, name);
    return ATTN_OK;
}

static attn_status read_merges(attn_tokenizer *to, const char *key, const char *merges,
                               attn_error *err) {
    if (!attn_tokenizer_has_texts(to))
        return attn_fail(err, ATTN_EVALUE, key, "a model without words has no merges");
    attn_error inner;
    const attn_status status = attn_tokenizer_read_merges(to, merges, strlen(merges), &inner);
    return status ? attn_fail(err, status, key, "%s", inner.text) : ATTN_OK;
}

/* Makes the tokenizer of source or target, which must have `size` ids. If the file has no words,
 * the ids of the tokenizer are numbers without texts. */
static attn_status read_side(const attn_model_file *file, const side_keys *keys, size_t size,
                             attn_tokenizer **out, attn_error *err) {
    const char *words = attn_model_file_text(file, keys->words),
               *merges = attn_model_file_text(file, keys->merges);
    attn_language language;
    ATTN_TRY(read_language(file, keys->language, &language, err));
    if (words)
        ATTN_TRY(attn_tokenizer_read(words, strlen(words), language, out, err));
    else if (!(*out = attn_tokenizer_numbers(size, language)))
        return attn_fail(err, ATTN_ENOMEM, "model", "no memory for its tokenizer");
    if (attn_tokenizer_size(*out) != size)
        return attn_fail(err, ATTN_EVALUE, keys->words, "has %zu words, the model %zu",
                         attn_tokenizer_size(*out), size);
    return merges ? read_merges(*out, keys->merges, merges, err) : ATTN_OK;
}

static const attn_parameter_name own_names[] = {
    {.theirs = "training.*"}, {.theirs = "*", .ours = "*"}, {0}};

attn_status attn_model_read(const void *bytes, size_t size, bool gradients, attn_model_file *out,
                            attn_error *err) {
    attn_model_file file = {.arena = attn_arena_new(MOST_HEADER)};
    attn_model_config config;
    attn_status status = file.arena ? read_contents(&file, bytes, size, &config, err)
                                    : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status && attn_model_has_encoder(&config))
        status = read_side(&file, &source_keys, config.source_vocabulary, &file.source, err);
    if (!status)
        status = read_side(&file, &target_keys, config.target_vocabulary, &file.target, err);
    if (!status)
        status = check_size(&file, &config, err);
    if (!status)
        status = attn_model_new(&config, 0, gradients, &file.model, err);
    if (!status)
        status = load_parameters(file.model, &file.contents, own_names, file.arena, err);
    if (status)
        attn_model_file_close(&file);
    else
        *out = file;
    return status;
}

static attn_status fail_file(const char *path, const char *what, attn_error *err) {
    return attn_fail(err, errno == ENOMEM ? ATTN_ENOMEM : ATTN_EARG, path, "cannot be %s: %s", what,
                     strerror(errno));
}

/* Reads a whole file. *bytes is allocated by attn_alloc. */
static attn_status read_bytes(const char *path, void **bytes, size_t *size, attn_error *err) {
    FILE *file = fopen(path, "rb");
    long end = -1;
    *bytes = NULL;
    if (file && !fseek(file, 0, SEEK_END) && (end = ftell(file)) >= 0)
        rewind(file);
    *size = end > 0 ? (size_t)end : 0;
    attn_status status = end < 0 ? fail_file(path, "read", err) : ATTN_OK;
    if (!status && !(*bytes = attn_alloc(*size + 1)))
        status = attn_fail(err, ATTN_ENOMEM, path, "no memory for %zu bytes", *size);
    if (!status && fread(*bytes, 1, *size, file) != *size)
        status = attn_fail(err, ATTN_EARG, path, "cannot be read, or was cut meanwhile");
    if (file)
        fclose(file);
    if (status)
        attn_free(*bytes);
    return status;
}

/* Reads the tensors of a file into the parameters of a model. */
static attn_status import_into(attn_model *model, const void *bytes, size_t size,
                               const attn_parameter_name *map, attn_error *err) {
    attn_arena *arena = attn_arena_new(MOST_HEADER);
    attn_safetensors contents;
    attn_status status = arena ? attn_safetensors_read_usable(bytes, size, arena, &contents, err)
                               : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status)
        status = load_parameters(model, &contents, map, arena, err);
    attn_arena_free(arena);
    return status;
}

attn_status attn_model_import(const char *path, const attn_model_config *config,
                              const attn_parameter_name *map, attn_model **out, attn_error *err) {
    attn_model *model = NULL;
    void *bytes;
    size_t size;
    ATTN_TRY(read_bytes(path, &bytes, &size, err));
    attn_status status = attn_model_new(config, 0, false, &model, err);
    if (!status)
        status = import_into(model, bytes, size, map, err);
    attn_free(bytes);
    if (status)
        attn_model_free(model);
    else
        *out = model;
    return status;
}

attn_status attn_model_open(const char *path, bool gradients, attn_model_file *out,
                            attn_error *err) {
    void *bytes;
    size_t size;
    ATTN_TRY(read_bytes(path, &bytes, &size, err));
    attn_status status = attn_model_read(bytes, size, gradients, out, err);
    if (status) {
        attn_free(bytes);
        return status;
    }
    out->owner = bytes;
    out->release = attn_free;
    return ATTN_OK;
}

void attn_model_file_forget(attn_model_file *file) {
    attn_arena_free(file->arena);
    if (file->owner)
        file->release(file->owner);
    file->arena = NULL;
    file->owner = NULL;
    file->contents = (attn_safetensors){0};
}

void attn_model_file_close(attn_model_file *file) {
    attn_model_free(file->model);
    attn_tokenizer_free(file->source);
    attn_tokenizer_free(file->target);
    attn_model_file_forget(file);
    *file = (attn_model_file){0};
}

/* --- writing --- */

static void add_metadata(attn_safetensors *out, const char *key, const char *text) {
    out->metadata[out->metadata_count++] = (attn_metadata){key, text};
}

static attn_status add_side(attn_safetensors *out, const side_keys *keys, const attn_tokenizer *t,
                            attn_arena *arena, attn_error *err) {
    const char *words = NULL, *merges = NULL;
    const attn_status status = attn_tokenizer_has_texts(t)
                                   ? attn_tokenizer_write(t, arena, &words, &merges, err)
                                   : ATTN_OK;
    if (words)
        add_metadata(out, keys->words, words);
    if (merges)
        add_metadata(out, keys->merges, merges);
    add_metadata(out, keys->language, attn_language_names[attn_tokenizer_language(t)]);
    return status;
}

static attn_status list_metadata(const attn_model_contents *what, attn_arena *arena,
                                 attn_safetensors *out, attn_error *err) {
    const attn_model_config *config = attn_model_configuration(what->model);
    size_t settings = 0;
    while (attn_model_settings[settings].name)
        settings++;
    out->metadata =
        attn_arena_zeroed(arena, settings + 7 + what->metadata_count, sizeof *out->metadata);
    char(*texts)[SETTING_TEXT] = attn_arena_zeroed(arena, settings, sizeof *texts);
    ATTN_TAKEN(out->metadata && texts, "the metadata of a model", err);
    add_metadata(out, "format", "pt"); /* Hugging Face's loaders refuse files without this key */
    for (size_t i = 0; i < settings; i++)
        if (attn_model_has_setting(config, &attn_model_settings[i]))
            add_metadata(out, attn_model_settings[i].name,
                         setting_text(&attn_model_settings[i], config, texts[i]));
    if (attn_model_has_encoder(config))
        ATTN_TRY(add_side(out, &source_keys, what->source, arena, err));
    ATTN_TRY(add_side(out, &target_keys, what->target, arena, err));
    for (size_t i = 0; i < what->metadata_count; i++)
        add_metadata(out, what->metadata[i].key, what->metadata[i].text);
    return ATTN_OK;
}

static attn_status list_tensors(const attn_model_contents *what, attn_arena *arena,
                                attn_safetensors *out, attn_error *err) {
    const attn_parameters *set = attn_model_parameters(what->model);
    const size_t own = attn_parameters_length(set), more = what->tensor_count;
    out->tensors = attn_arena_zeroed(arena, own + more, sizeof *out->tensors);
    ATTN_TAKEN(out->tensors, "the names of tensors of a model", err);
    for (size_t i = 0; i < own; i++) {
        const attn_parameter *p = attn_parameters_at(set, i);
        out->tensors[i] = (attn_named_tensor){p->name, attn_parameters_value(set, i)};
        if (what->values)
            out->tensors[i].tensor.data = what->values + p->offset;
    }
    for (size_t i = 0; i < more; i++)
        out->tensors[own + i] = what->tensors[i];
    out->count = own + more;
    return ATTN_OK;
}

attn_status attn_model_pieces(const attn_model_contents *what, attn_arena *arena,
                              attn_model_piece **pieces, size_t *count, attn_error *err) {
    attn_safetensors file = {0};
    ATTN_TRY(list_metadata(what, arena, &file, err));
    ATTN_TRY(list_tensors(what, arena, &file, err));
    *count = file.count + 1;
    attn_model_piece *to = *pieces = attn_arena_zeroed(arena, *count, sizeof **pieces);
    ATTN_TAKEN(to, "the pieces of a model", err);
    ATTN_TRY(attn_safetensors_sealed_header(&file, ATTN_MODEL_FILE_VERSION, arena, &to->data,
                                            &to->size, err));
    for (size_t i = 0; i < file.count; i++) {
        const attn_tensor *t = &file.tensors[i].tensor;
        size_t values = 0;
        if (attn_tensor_count(t, &values))
            to[i + 1] = (attn_model_piece){t->data, values * attn_dtype_size(t->dtype)};
    }
    return ATTN_OK;
}

attn_status attn_model_save(const char *path, const attn_model_contents *contents,
                            attn_error *err) {
    attn_arena *arena = attn_arena_new(MOST_HEADER);
    attn_model_piece *pieces;
    size_t count;
    attn_status status = arena ? attn_model_pieces(contents, arena, &pieces, &count, err)
                               : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status) {
        FILE *file = fopen(path, "wb");
        bool ok = file != NULL;
        for (size_t i = 0; ok && i < count; i++)
            ok = fwrite(pieces[i].data, 1, pieces[i].size, file) == pieces[i].size;
        if (file && fclose(file))
            ok = false;
        status = ok ? ATTN_OK : fail_file(path, "written", err);
    }
    attn_arena_free(arena);
    return status;
}
