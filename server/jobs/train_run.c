/* The way to a training run's first step. */
#include "jobs/train_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static attn_status add_words(attn_vocabulary *to, const char *const *words, size_t n,
                             attn_error *err) {
    attn_status status = ATTN_OK;
    for (size_t i = 0; !status && i < n; i++)
        status = attn_vocabulary_add(to, words[i], strlen(words[i]), err);
    return status;
}

static attn_status count_words(srv_train_run *run, const attn_control *control, attn_error *err) {
    srv_model_file *file = &run->file;
    attn_pair *pair = attn_arena_zeroed(run->arena, 1, sizeof *pair);
    file->source = attn_vocabulary_new();
    file->target = attn_vocabulary_new();
    if (!pair || !file->source || !file->target)
        return attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory");
    attn_status status = ATTN_OK;
    for (int64_t i = 0; i < run->wishes.pairs && !status; i++) {
        status = attn_control_check(control, err);
        if (!status)
            status = attn_corpus_pair(run->corpus, ATTN_TRAIN, (uint64_t)i, pair, err);
        if (!status)
            status = add_words(file->source, pair->source, pair->source_count, err);
        if (!status)
            status = add_words(file->target, pair->target, pair->target_count, err);
    }
    const size_t minimum = (size_t)run->wishes.minimum;
    if (!status)
        status = attn_vocabulary_settle(file->source, minimum, 0, err);
    return status ? status : attn_vocabulary_settle(file->target, minimum, 0, err);
}

/* The sizes are then those of the file. */
static attn_status start_from_file(srv_train_run *run, attn_error *err) {
    attn_status status = srv_model_open(run->init, true, &run->file, err);
    return status ? status : attn_training_start(run->file.model, run->arena, &run->state, err);
}

static attn_status start_anew(srv_train_run *run, const attn_control *control, attn_error *err) {
    attn_status status = count_words(run, control, err);
    if (status)
        return status;
    attn_model_config config = srv_train_config(&run->wishes);
    config.source_vocabulary = attn_vocabulary_size(run->file.source);
    config.target_vocabulary = attn_vocabulary_size(run->file.target);
    status = attn_model_new(&config, run->options.seed, true, &run->file.model, err);
    return status ? status : attn_training_start(run->file.model, run->arena, &run->state, err);
}

static attn_status read_pairs(srv_train_run *run, attn_split split, int64_t count,
                              attn_dataset *out, attn_error *err) {
    return attn_dataset_new(run->corpus, split, 0, (size_t)count, run->file.source,
                            run->file.target, run->arena, out, err);
}

attn_status srv_train_prepare(srv_train_run *run, bool resume, const attn_control *control,
                              bool *resumed, attn_error *err) {
    const attn_corpus_options corpus = srv_train_corpus(&run->wishes);
    size_t used;
    srv_train_say(&run->wishes, run->said);
    used = strlen(run->said);
    snprintf(run->said + used, sizeof run->said - used, " init=%s", run->init);
    run->options = srv_train_options(&run->wishes);
    run->arena = attn_arena_new((size_t)1 << 36);
    if (!run->arena)
        return attn_fail(err, ATTN_ENOMEM, "training", "no memory");
    attn_status status = attn_corpus_new(&corpus, run->arena, &run->corpus, err);
    if (status)
        return status;
    *resumed = resume && *run->checkpoint && !access(run->checkpoint, F_OK);
    status = *resumed     ? srv_train_resume(run, err)
             : *run->init ? start_from_file(run, err)
                          : start_anew(run, control, err);
    if (!status)
        status = read_pairs(run, ATTN_TRAIN, run->wishes.pairs, &run->train, err);
    if (!status)
        status = read_pairs(run, ATTN_VALIDATION, run->wishes.validation, &run->validation, err);
    return status;
}

void srv_train_close(srv_train_run *run) {
    srv_model_close(&run->file);
    attn_arena_free(run->arena);
    run->arena = NULL;
}
