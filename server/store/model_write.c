/* Writes models as safetensors: into a file beside the wanted one, synced, renamed into place. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_file.h"
#include "store/model_keys.h"
#include "system/files.h"

enum { KEY_TEXT = 48 };

static void add(attn_safetensors *out, const char *key, const char *text) {
    out->metadata[out->metadata_count++] = (attn_metadata){key, text};
}

static attn_status list_metadata(attn_model *model, const attn_vocabulary *source,
                                 const attn_vocabulary *target, const srv_model_extras *extras,
                                 attn_arena *arena, attn_safetensors *out, attn_error *err) {
    const char *words[2];
    size_t most = SRV_MODEL_KEY_COUNT + 3 + (extras ? extras->metadata_count : 0);
    out->metadata = attn_arena_zeroed(arena, most, sizeof *out->metadata);
    char(*texts)[KEY_TEXT] = attn_arena_zeroed(arena, SRV_MODEL_KEY_COUNT, sizeof *texts);
    if (!out->metadata || !texts)
        return attn_fail(err, ATTN_ENOMEM, "model", "no memory for its metadata");
    attn_status status = attn_vocabulary_write(source, arena, &words[0], err);
    if (!status)
        status = attn_vocabulary_write(target, arena, &words[1], err);
    if (status)
        return status;
    add(out, "format", "pt"); /* what Hugging Face's readers want to see */
    for (const srv_model_key *key = srv_model_keys; key->name; key++)
        add(out, key->name,
            srv_model_key_text(key, attn_model_configuration(model), texts[key - srv_model_keys],
                               KEY_TEXT));
    add(out, "source_words", words[0]);
    add(out, "target_words", words[1]);
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
                       size_t size, attn_error *err) {
    srv_new_file file;
    int failed = srv_new_file_open(&file, AT_FDCWD, path);
    if (!failed) {
        srv_new_file_write(&file, header, size);
        write_contents(&file, what);
        failed = srv_new_file_close(&file);
    }
    return failed ? attn_fail(err, ATTN_EARG, path, "cannot be written: %s", strerror(failed))
                  : ATTN_OK;
}

attn_status srv_model_write(const char *path, attn_model *model, float *values,
                            const attn_vocabulary *source, const attn_vocabulary *target,
                            const srv_model_extras *extras, attn_error *err) {
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_safetensors what = {0};
    const void *header;
    size_t size;
    attn_status status = arena ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "model", "no memory");
    if (!status)
        status = list_metadata(model, source, target, extras, arena, &what, err);
    if (!status)
        status = list_tensors(model, values, extras, arena, &what, err);
    if (!status)
        status = attn_safetensors_header(&what, arena, &header, &size, err);
    if (!status)
        status = put(path, &what, header, size, err);
    attn_arena_free(arena);
    return status;
}
