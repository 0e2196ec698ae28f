/* `attnd train`: a corpus, its vocabularies, a model, the loop, the scores. */
#include <string.h>
#include <unistd.h>

#include "command/train_command.h"

static attn_status prepare(srv_train_command *command, attn_error *err) {
    srv_train_run *run = &command->run;
    bool old;
    const attn_status status = srv_train_prepare(run, command->resume, NULL, &old, err);
    if (!status && !command->quiet)
        fprintf(stderr, "%zu parameters, %zu source and %zu target words, %s step %llu\n",
                attn_parameters_count(attn_model_parameters(run->file.model), ""),
                attn_vocabulary_size(run->file.source), attn_vocabulary_size(run->file.target),
                old ? "continuing after" : "from", (unsigned long long)run->state.step);
    return status;
}

static attn_status keep(void *command, const attn_training_state *state, attn_error *err) {
    return srv_train_keep(&((srv_train_command *)command)->run, state, err);
}

static int print_scores(srv_train_command *command, attn_pool *pool, const attn_control *control) {
    const srv_train_run *run = &command->run;
    attn_model_scores scores = {0};
    attn_error err;
    if (!run->wishes.scored)
        return 0;
    attn_status status =
        attn_model_score(run->file.model, run->corpus, ATTN_HELD_OUT, 0, (size_t)run->wishes.scored,
                         run->file.source, run->file.target, 1, pool, control, &scores, &err);
    if (status)
        return srv_command_fail("train", &err);
    srv_scores_print(stdout, "held-out", &scores);
    if (command->log) {
        fputs("{\"held_out\":", command->log);
        srv_scores_json(command->log, &scores);
        fputs("}\n", command->log);
    }
    return 0;
}

/* Train, keep the best, score it. A stopped run keeps its checkpoint beside its
 * best model. */
static int train(srv_train_command *command, attn_pool *pool) {
    const attn_training_hooks hooks = {srv_train_show, keep, command};
    const attn_control control = {0, srv_command_watch_stop()};
    srv_train_run *run = &command->run;
    attn_error err;
    attn_status status = attn_train(run->file.model, &run->train, &run->validation, &run->options,
                                    &run->state, &hooks, pool, &control, &err);
    srv_train_clear(command);
    if (status && status != ATTN_ECANCELED)
        return srv_command_fail("train", &err);
    if (srv_train_keep_best(run, &err))
        return srv_command_fail("train", &err);
    if (status) {
        fprintf(stderr,
                "stopped after step %llu; %s is the best model so far, and --resume continues\n",
                (unsigned long long)run->state.step, run->out);
        return SRV_COMMAND_STOPPED;
    }
    attn_training_take_best(run->file.model, &run->state);
    unlink(run->checkpoint);
    return print_scores(command, pool, &control);
}

static int work(srv_train_command *command) {
    attn_error err;
    attn_pool *pool = NULL;
    int code = 1;
    if (command->threads > 1)
        pool = attn_pool_new(command->threads);
    if (command->threads > 1 && !pool)
        fputs("attnd train: not enough memory or threads\n", stderr);
    else if (command->log_path && !(command->log = fopen(command->log_path, "a")))
        perror(command->log_path);
    else if (prepare(command, &err))
        code = srv_command_fail("train", &err) + (err.code == ATTN_EVALUE);
    else
        code = train(command, pool);
    if (command->log)
        fclose(command->log);
    srv_train_close(&command->run);
    attn_pool_free(pool);
    return code;
}

int srv_command_train(int argc, char **argv) {
    srv_train_command command = {.bar = isatty(STDERR_FILENO)};
    srv_option table[TRAIN_OPTIONS];
    char checkpoint[SRV_TRAIN_TEXT];
    srv_train_table(&command, table);
    int code = srv_options_read_fields(srv_train_fields, &command.run.wishes, table,
                                       "Trains a sequence-to-sequence model on a built-in corpus.",
                                       argc, argv);
    if (code)
        return code - 1;
    if (snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", command.run.out) >=
        (int)sizeof checkpoint) {
        fputs("attnd train: --out is too long\n", stderr);
        return 2;
    }
    command.run.checkpoint = checkpoint;
    return work(&command);
}
