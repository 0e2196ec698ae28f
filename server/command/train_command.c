/* `attnd train`: a corpus, its vocabularies, a model, the loop, the scores. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "command/train_run.h"

enum { STOPPED = 130 };

static atomic_int stop_asked;

static void ask_to_stop(int number) {
    (void)number;
    atomic_store(&stop_asked, 1);
}

/* The first SIGINT or SIGTERM ends training in good order, a second one ends
 * the process. */
static void watch_signals(void) {
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static attn_status count_words(srv_train_run *run, attn_error *err) {
    attn_pair *pair = attn_arena_zeroed(run->arena, 1, sizeof *pair);
    run->file.source = attn_vocabulary_new();
    run->file.target = attn_vocabulary_new();
    if (!pair || !run->file.source || !run->file.target)
        return attn_fail(err, ATTN_ENOMEM, "vocabulary", "no memory");
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < run->wishes->pairs && !status; i++) {
        status = attn_corpus_pair(run->corpus, ATTN_TRAIN, i, pair, err);
        for (size_t k = 0; !status && k < pair->source_count; k++)
            status = attn_vocabulary_add(run->file.source, pair->source[k], strlen(pair->source[k]),
                                         err);
        for (size_t k = 0; !status && k < pair->target_count; k++)
            status = attn_vocabulary_add(run->file.target, pair->target[k], strlen(pair->target[k]),
                                         err);
    }
    if (!status)
        status = attn_vocabulary_settle(run->file.source, run->wishes->minimum, 0, err);
    if (!status)
        status = attn_vocabulary_settle(run->file.target, run->wishes->minimum, 0, err);
    return status;
}

/* The sizes are then those of the file. */
static attn_status start_from_file(srv_train_run *run, attn_error *err) {
    attn_status status = srv_model_open(run->wishes->init, true, &run->file, err);
    return status ? status : attn_training_start(run->file.model, run->arena, &run->state, err);
}

static attn_status start_anew(srv_train_run *run, attn_error *err) {
    attn_status status = count_words(run, err);
    if (status)
        return status;
    attn_model_config config = run->wishes->config;
    config.source_vocabulary = attn_vocabulary_size(run->file.source);
    config.target_vocabulary = attn_vocabulary_size(run->file.target);
    status = attn_model_new(&config, run->wishes->training.seed, true, &run->file.model, err);
    return status ? status : attn_training_start(run->file.model, run->arena, &run->state, err);
}

static attn_status prepare(srv_train_run *run, attn_error *err) {
    const srv_train_wishes *w = run->wishes;
    attn_status status = attn_corpus_new(&w->corpus, run->arena, &run->corpus, err);
    if (status)
        return status;
    bool old = w->resume && !access(run->checkpoint, F_OK);
    status = old        ? srv_train_resume(run, err)
             : *w->init ? start_from_file(run, err)
                        : start_anew(run, err);
    if (!status)
        status = attn_dataset_new(run->corpus, ATTN_TRAIN, 0, w->pairs, run->file.source,
                                  run->file.target, run->arena, &run->train, err);
    if (!status)
        status = attn_dataset_new(run->corpus, ATTN_VALIDATION, 0, w->validation, run->file.source,
                                  run->file.target, run->arena, &run->validation, err);
    if (!status && !w->quiet)
        fprintf(stderr, "%zu parameters, %zu source and %zu target words, %s step %llu\n",
                attn_parameters_count(attn_model_parameters(run->file.model), ""),
                attn_vocabulary_size(run->file.source), attn_vocabulary_size(run->file.target),
                old ? "going on after" : "from", (unsigned long long)run->state.step);
    return status;
}

static int print_scores(srv_train_run *run, attn_pool *pool, const attn_control *control) {
    attn_model_scores scores = {0};
    attn_error err;
    if (!run->wishes->scored)
        return 0;
    attn_status status =
        attn_model_score(run->file.model, run->corpus, ATTN_HELD_OUT, 0, run->wishes->scored,
                         run->file.source, run->file.target, 1, pool, control, &scores, &err);
    if (status)
        return srv_command_fail("train", &err);
    srv_scores_print(stdout, "held-out", &scores);
    if (run->log) {
        fputs("{\"held_out\":", run->log);
        srv_scores_json(run->log, &scores);
        fputs("}\n", run->log);
    }
    return 0;
}

/* Train, keep the best, score it. A stopped run keeps its checkpoint beside its
 * best model. */
static int train(srv_train_run *run, attn_pool *pool) {
    const attn_training_hooks hooks = {srv_train_show, srv_train_keep, run};
    const attn_control control = {0, &stop_asked};
    attn_error err;
    watch_signals();
    attn_status status =
        attn_train(run->file.model, &run->train, &run->validation, &run->wishes->training,
                   &run->state, &hooks, pool, &control, &err);
    srv_train_clear(run);
    if (status && status != ATTN_ECANCELED)
        return srv_command_fail("train", &err);
    if (srv_train_keep_best(run, &err))
        return srv_command_fail("train", &err);
    if (status) {
        fprintf(stderr, "stopped after step %llu; %s is the best so far, --resume goes on\n",
                (unsigned long long)run->state.step, run->wishes->out);
        return STOPPED;
    }
    attn_training_take_best(run->file.model, &run->state);
    unlink(run->checkpoint);
    return print_scores(run, pool, &control);
}

static int work(srv_train_run *run) {
    attn_error err;
    attn_pool *pool = NULL;
    int code = 1;
    run->arena = attn_arena_new((size_t)1 << 36);
    if (run->wishes->threads > 1)
        pool = attn_pool_new(run->wishes->threads);
    if (!run->arena || (run->wishes->threads > 1 && !pool))
        fputs("attnd train: not enough memory or threads\n", stderr);
    else if (run->wishes->log && !(run->log = fopen(run->wishes->log, "a")))
        perror(run->wishes->log);
    else if (prepare(run, &err))
        code = srv_command_fail("train", &err) + (err.code == ATTN_EVALUE);
    else
        code = train(run, pool);
    if (run->log)
        fclose(run->log);
    srv_model_close(&run->file);
    attn_arena_free(run->arena);
    attn_pool_free(pool);
    return code;
}

int srv_command_train(int argc, char **argv) {
    srv_train_wishes wishes = srv_train_defaults();
    srv_option table[TRAIN_OPTIONS];
    srv_train_table(&wishes, table);
    int code = srv_options_read(table, "Train a sequence-to-sequence model on a built-in corpus.",
                                argc, argv);
    if (code)
        return code - 1;
    if (!srv_train_names(&wishes))
        return 2;
    srv_train_run run = {.wishes = &wishes, .bar = isatty(STDERR_FILENO)};
    if (snprintf(run.checkpoint, sizeof run.checkpoint, "%s.checkpoint", wishes.out) >=
        (int)sizeof run.checkpoint) {
        fputs("attnd train: --out is too long\n", stderr);
        return 2;
    }
    srv_train_say(table, run.said);
    return work(&run);
}
