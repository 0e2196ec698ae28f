/* Prepares a training run, and writes and reads its checkpoints. A checkpoint is a model file
 * (attn/model_file.h) with additional tensors, the optimizer's moments and the best parameters so
 * far, and additional metadata, the counters of the training state. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"
#include "jobs/train_run.h"
#include "system/files.h"

enum {
    COUNTERS = 6,     /* counters of the training state in a checkpoint */
    CORPUS_KEYS = 7,  /* options of the corpus in a model file */
    NUMBER_TEXT = 40, /* buffer size of a number's text */
};

/* The options of the corpus in the form of metadata of a model file. `numbers` has the texts of
 * their values. */
typedef struct corpus_texts {
    char numbers[CORPUS_KEYS][NUMBER_TEXT];
    attn_metadata rows[CORPUS_KEYS + 1];
} corpus_texts;

/* Describes the corpus as metadata of the model file, so that the model can later be scored on
 * held-out data of the same corpus (srv_model_corpus). */
static void describe_corpus(const srv_train_run *run, corpus_texts *out) {
    const attn_corpus_options *o = &run->options.corpus;
    static const char *const keys[CORPUS_KEYS] = {
        "corpus.task",    "corpus.large", "corpus.seed",   "corpus.shortest",
        "corpus.longest", "corpus.skew",  "corpus.symbols"};
    snprintf(out->numbers[0], NUMBER_TEXT, "%s", attn_task_names[o->task]);
    snprintf(out->numbers[1], NUMBER_TEXT, "%s", o->large ? "true" : "false");
    snprintf(out->numbers[2], NUMBER_TEXT, "%" PRIu64, o->seed);
    snprintf(out->numbers[3], NUMBER_TEXT, "%zu", o->shortest);
    snprintf(out->numbers[4], NUMBER_TEXT, "%zu", o->longest);
    snprintf(out->numbers[5], NUMBER_TEXT, "%.17g", o->skew);
    snprintf(out->numbers[6], NUMBER_TEXT, "%zu", o->symbols);
    for (size_t i = 0; i < CORPUS_KEYS; i++)
        out->rows[i] = (attn_metadata){keys[i], out->numbers[i]};
    out->rows[CORPUS_KEYS] = (attn_metadata){"training.options", run->said};
}

static attn_model_contents contents_of(const srv_train_run *run) {
    return (attn_model_contents){
        .model = run->file.model, .source = run->file.source, .target = run->file.target};
}

attn_status srv_train_write_best(srv_train_run *run, attn_error *err) {
    if (!*run->out)
        return ATTN_OK;
    corpus_texts corpus;
    describe_corpus(run, &corpus);
    attn_model_contents contents = contents_of(run);
    contents.values = run->state.best_loss < (double)INFINITY ? run->state.best : NULL;
    contents.metadata = corpus.rows;
    contents.metadata_count = CORPUS_KEYS + 1;
    return srv_model_write(run->out, &contents, NULL, err);
}

static const char *const counters[COUNTERS] = {"training.step",      "training.settled",
                                               "training.epoch",     "training.batch",
                                               "training.best_step", "training.waited"};

attn_status srv_train_write_checkpoint(srv_train_run *run, const attn_training_state *s,
                                       attn_error *err) {
    if (!*run->checkpoint)
        return ATTN_OK;
    const uint64_t values[COUNTERS] = {s->step,  s->settled,   s->epoch,
                                       s->batch, s->best_step, s->waited};
    char texts[COUNTERS + 1][NUMBER_TEXT];
    attn_metadata rows[COUNTERS + 2];
    for (size_t i = 0; i < COUNTERS; i++) {
        snprintf(texts[i], NUMBER_TEXT, "%" PRIu64, values[i]);
        rows[i] = (attn_metadata){counters[i], texts[i]};
    }
    snprintf(texts[COUNTERS], NUMBER_TEXT, "%a", s->best_loss);
    rows[COUNTERS] = (attn_metadata){"training.best_loss", texts[COUNTERS]};
    rows[COUNTERS + 1] = (attn_metadata){"training.options", run->said};
    const attn_named_tensor tensors[] = {
        {"training.first", attn_tensor_dense(s->first, ATTN_F32, 1, &s->size)},
        {"training.second", attn_tensor_dense(s->second, ATTN_F32, 1, &s->size)},
        {"training.best", attn_tensor_dense(s->best, ATTN_F32, 1, &s->size)},
    };
    attn_model_contents contents = contents_of(run);
    contents.tensors = tensors;
    contents.tensor_count = sizeof tensors / sizeof *tensors;
    contents.metadata = rows;
    contents.metadata_count = COUNTERS + 2;
    const attn_status status = srv_model_write(run->checkpoint, &contents, NULL, err);
    return status || s->best_step != s->step ? status : srv_train_write_best(run, err);
}

static attn_status read_counter(const srv_train_run *run, const char *key, uint64_t *out,
                                attn_error *err) {
    const char *text = attn_model_file_text(&run->file, key);
    if (!text || *text < '0' || *text > '9')
        return attn_fail(err, ATTN_EARG, key, "the checkpoint has no such number");
    *out = strtoull(text, NULL, 10);
    return ATTN_OK;
}

static attn_status read_block(const srv_train_run *run, const char *name, float *out, size_t size,
                              attn_error *err) {
    const attn_tensor *t = attn_model_file_tensor(&run->file, name);
    if (!t || t->dtype != ATTN_F32 || t->rank != 1 || t->dims[0] != size)
        return attn_fail(err, ATTN_EARG, name, "the checkpoint must hold %zu float32 numbers of it",
                         size);
    memcpy(out, t->data, size * sizeof *out);
    return ATTN_OK;
}

static attn_status check_options(const srv_train_run *run, attn_error *err) {
    const char *said = attn_model_file_text(&run->file, "training.options");
    if (said && !strcmp(said, run->said))
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, run->checkpoint,
                     "was made with other options: %.400s; without --resume it is replaced",
                     said ? said : "none");
}

/* Loads model and training state from the checkpoint. */
static attn_status resume_run(srv_train_run *run, attn_error *err) {
    attn_training_state *s = &run->state;
    uint64_t waited = 0, *places[COUNTERS] = {&s->step,  &s->settled,   &s->epoch,
                                              &s->batch, &s->best_step, &waited};
    ATTN_TRY(srv_model_open(run->checkpoint, true, &run->file, &run->failed, err));
    ATTN_TRY(check_options(run, err));
    ATTN_TRY(attn_training_start(run->file.model, run->arena, s, err));
    for (size_t i = 0; i < COUNTERS; i++)
        ATTN_TRY(read_counter(run, counters[i], places[i], err));
    ATTN_TRY(read_block(run, "training.first", s->first, s->size, err));
    ATTN_TRY(read_block(run, "training.second", s->second, s->size, err));
    ATTN_TRY(read_block(run, "training.best", s->best, s->size, err));
    const char *best = attn_model_file_text(&run->file, "training.best_loss");
    s->best_loss = best ? strtod(best, NULL) : (double)INFINITY;
    if (srv_model_recheck(&run->file, err))
        return attn_fail(err, ATTN_EARG, run->checkpoint, "was changed while it was read");
    attn_model_file_forget(&run->file); /* all needed data was copied from it */
    s->waited = waited;
    return ATTN_OK;
}

/* Returns the kind of data that the model of the options is trained on. */
static attn_dataset_kind kind_of(const srv_train_run *run) {
    return attn_dataset_kind_of(&run->options.model);
}

/* Returns whether the vocabulary `v` consists of sub-words. A vocabulary of classes never does. */
static bool has_subwords(const srv_train_run *run, const attn_tokenizer *v) {
    return run->options.subwords && !(v == run->file.target && kind_of(run) == ATTN_DATA_CLASSES);
}

/* Adds one side of the pair to the vocabulary `to`: counts its words, or its text if the vocabulary
 * consists of sub-words. */
static attn_status add_side(const srv_train_run *run, const attn_pair *pair, bool target,
                            attn_tokenizer *to, attn_arena *scratch, attn_error *err) {
    if (!has_subwords(run, to))
        return attn_pair_count(pair, target, to, err);
    const char *text = attn_pair_text(pair, target, attn_tokenizer_language(to), scratch);
    return text ? attn_tokenizer_count_text(to, text, strlen(text), err)
                : attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory for a text");
}

static attn_status count_pairs(srv_train_run *run, const attn_control *control, attn_pair *pair,
                               attn_arena *scratch, attn_error *err) {
    for (size_t i = 0; i < run->options.num_pairs; i++) {
        attn_arena_reset(scratch);
        ATTN_TRY(attn_control_check(control, err));
        ATTN_TRY(attn_corpus_pair(run->corpus, ATTN_TRAIN, (uint64_t)i, pair, err));
        ATTN_TRY(run->file.source ? add_side(run, pair, false, run->file.source, scratch, err)
                                  : add_side(run, pair, false, run->file.target, scratch, err));
        if (run->file.source)
            ATTN_TRY(add_side(run, pair, true, run->file.target, scratch, err));
    }
    return ATTN_OK;
}

static attn_status settle_vocabulary(const srv_train_run *run, attn_tokenizer *v, attn_error *err) {
    return has_subwords(run, v)
               ? attn_tokenizer_settle_subwords(v, (size_t)run->options.subwords, err)
               : attn_tokenizer_settle(v, (size_t)run->options.minimum, 0, err);
}

/* Makes the vocabularies from the words of all training pairs. A decoder alone has one vocabulary,
 * which is made from the source sentences. */
static attn_status count_words(srv_train_run *run, const attn_control *control, attn_error *err) {
    attn_model_file *file = &run->file;
    attn_pair *pair = attn_arena_zeroed(run->arena, 1, sizeof *pair);
    attn_arena *scratch = attn_arena_new(16 << 20);
    const bool reads = kind_of(run) != ATTN_DATA_SENTENCES;
    attn_language languages[2];
    attn_task_languages(run->options.corpus.task, languages);
    file->source = reads ? attn_tokenizer_new(languages[0]) : NULL;
    file->target = attn_tokenizer_new(languages[reads]);
    attn_status status = pair && scratch && (!reads || file->source) && file->target
                             ? count_pairs(run, control, pair, scratch, err)
                             : attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory");
    attn_arena_free(scratch);
    if (!status && reads)
        status = settle_vocabulary(run, file->source, err);
    return status ? status : settle_vocabulary(run, file->target, err);
}

/* Starts with the model of the file run->init. The sizes of this model replace those of the
 * options. */
static attn_status start_from_file(srv_train_run *run, attn_error *err) {
    ATTN_TRY(srv_model_open(run->init, true, &run->file, NULL, err));
    if (!attn_tokenizer_has_texts(run->file.target) ||
        (run->file.source && !attn_tokenizer_has_texts(run->file.source)))
        return attn_fail(err, ATTN_EARG, run->init, "has no words, which training needs");
    return attn_training_start(run->file.model, run->arena, &run->state, err);
}

/* Starts with a new model with random values. */
static attn_status start_anew(srv_train_run *run, const attn_control *control, attn_error *err) {
    ATTN_TRY(count_words(run, control, err));
    attn_model_config config = run->options.model;
    config.source_vocabulary = run->file.source ? attn_tokenizer_size(run->file.source) : 0;
    config.target_vocabulary = attn_tokenizer_size(run->file.target);
    ATTN_TRY(attn_model_new(&config, run->options.loop.seed, true, &run->file.model, err));
    return attn_training_start(run->file.model, run->arena, &run->state, err);
}

static attn_status read_pairs(srv_train_run *run, attn_split split, size_t count, attn_dataset *out,
                              attn_error *err) {
    const attn_model_config *config = attn_model_configuration(run->file.model);
    return attn_dataset_new(run->corpus, split, 0, count, attn_dataset_kind_of(config),
                            run->file.source, run->file.target, run->arena, out, err);
}

/* Sets *found to whether there is a checkpoint from which the run can continue. */
static attn_status find_checkpoint(srv_train_run *run, bool resume, bool *found, attn_error *err) {
    *found = false;
    if (!resume || !*run->checkpoint)
        return ATTN_OK;
    *found = !access(run->checkpoint, F_OK);
    if (*found || srv_file_judge(errno) != SRV_FILE_TROUBLE)
        return ATTN_OK;
    run->failed = errno;
    return attn_fail(err, ATTN_EARG, run->checkpoint, "cannot be read: %s", strerror(run->failed));
}

attn_status srv_train_prepare(srv_train_run *run, bool resume, const attn_control *control,
                              bool *resumed, attn_error *err) {
    size_t used;
    srv_train_say(&run->options, run->said);
    used = strlen(run->said);
    snprintf(run->said + used, sizeof run->said - used, " init=%s", run->init);
    run->arena = attn_arena_new(SIZE_MAX >> 1);
    ATTN_TAKEN(run->arena, "a training run", err);
    ATTN_TRY(attn_corpus_new(&run->options.corpus, run->arena, &run->corpus, err));
    ATTN_TRY(find_checkpoint(run, resume, resumed, err));
    ATTN_TRY(*resumed     ? resume_run(run, err)
             : *run->init ? start_from_file(run, err)
                          : start_anew(run, control, err));
    ATTN_TRY(read_pairs(run, ATTN_TRAIN, run->options.num_pairs, &run->train, err));
    return read_pairs(run, ATTN_VALIDATION, run->options.num_validation_pairs, &run->validation,
                      err);
}

void srv_train_close(srv_train_run *run) {
    attn_model_file_close(&run->file);
    attn_arena_free(run->arena);
    run->arena = NULL;
}
