/* `attnd train` trains a model from the command line and shows its progress. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "jobs/jobs.h"
#include "jobs/train_run.h"

typedef struct train_command {
    srv_train_run run;
    size_t threads;
    const char *log_path;
    bool resume, quiet;
    FILE *log;
    srv_bar bar;
} train_command;

#define OPTION(...) SRV_NAMED_ROW(train_command, __VA_ARGS__)
/* The options that training jobs do not have as fields. */
static const srv_field option_fields[] = {
    OPTION("init", run.init, SRV_STRING, "start with the values and vocabularies of this model"),
    OPTION("out", run.out, SRV_STRING, "file of the model; its checkpoint is beside it"),
    OPTION("threads", threads, SRV_INT, "number of threads"),
    OPTION("log", log_path, SRV_STRING, "append one JSON line for each evaluation to this file"),
    OPTION("resume", resume, SRV_BOOL, "continue from the checkpoint, if there is one"),
    OPTION("quiet", quiet, SRV_BOOL, "show no progress"),
    {0},
};

static void print_time(FILE *to, double seconds) {
    long s = (long)seconds;
    if (s >= 3600)
        fprintf(to, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        fprintf(to, "%ld:%02ld", s / 60, s % 60);
}

static void print_numbers(FILE *to, const attn_training_progress *now) {
    fprintf(to, "%llu/%llu  loss %.3f", (unsigned long long)now->step,
            (unsigned long long)now->steps, now->loss);
    if (!isnan(now->validation_loss))
        fprintf(to, "  validation %.3f (%.1f %% right)", now->validation_loss,
                100 * now->validation_right);
    if (!isnan(now->similarity))
        fprintf(to, "  heads alike %.2f", now->similarity);
    fprintf(to, "  %.0f words/s  ", now->words_per_second);
    print_time(to, now->seconds_left);
    fputs(" left", to);
}

static void draw(train_command *command, const attn_training_progress *now) {
    srv_bar_draw(&command->bar, now->steps ? (double)now->step / (double)now->steps : 1);
    print_numbers(stderr, now);
    fflush(stderr);
}

static void log_line(FILE *to, const attn_training_progress *now) {
    fprintf(to,
            "{\"step\":%llu,\"epoch\":%llu,\"loss\":%.6g,\"validation_loss\":%.6g,"
            "\"validation_right\":%.6g,\"rate\":%.6g,\"gradient_norm\":%.6g,"
            "\"words_per_second\":%.0f,\"seconds\":%.1f",
            (unsigned long long)now->step, (unsigned long long)now->epoch, now->loss,
            now->validation_loss, now->validation_right, now->rate, now->norm,
            now->words_per_second, now->seconds);
    if (!isnan(now->similarity))
        fprintf(to, ",\"head_similarity\":%.4g", now->similarity);
    fputs("}\n", to);
    fflush(to);
}

static void show_progress(void *ctx, const attn_training_progress *now) {
    train_command *command = ctx;
    if (now->evaluated && command->log)
        log_line(command->log, now);
    if (command->quiet)
        return;
    if (now->evaluated) {
        srv_bar_clear(&command->bar);
        print_numbers(stderr, now);
        fputc('\n', stderr);
    }
    if (command->bar.wanted)
        draw(command, now);
}

static attn_status prepare(train_command *command, attn_error *err) {
    srv_train_run *run = &command->run;
    bool old;
    const attn_status status = srv_train_prepare(run, command->resume, NULL, &old, err);
    if (!status && !command->quiet)
        fprintf(stderr, "%zu parameters, %zu source and %zu target words, %s step %llu\n",
                attn_parameters_count(attn_model_parameters(run->file.model), ""),
                run->file.source ? attn_tokenizer_size(run->file.source) : 0,
                attn_tokenizer_size(run->file.target), old ? "continuing after" : "from",
                (unsigned long long)run->state.step);
    return status;
}

static attn_status keep_checkpoint(void *command, const attn_training_state *state,
                                   attn_error *err) {
    return srv_train_write_checkpoint(&((train_command *)command)->run, state, err);
}

static int print_scores(train_command *command, attn_pool *pool, const attn_control *control) {
    const srv_train_run *run = &command->run;
    attn_model_scores scores = {0};
    attn_error err;
    if (!run->options.num_scored_pairs)
        return 0;
    attn_status status = attn_model_score(run->file.model, run->corpus, ATTN_HELD_OUT, 0,
                                          run->options.num_scored_pairs, run->file.source,
                                          run->file.target, 1, pool, control, &scores, &err);
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

/* Trains, writes the best model, scores it and deletes the checkpoint. If a signal stops the
 * training, writes the best model so far and keeps the checkpoint. Returns an exit code. */
static int run_training(train_command *command, attn_pool *pool) {
    const attn_training_hooks hooks = {show_progress, keep_checkpoint, command};
    const attn_control control = {.cancel = srv_command_watch_stop()};
    srv_train_run *run = &command->run;
    attn_error err;
    attn_status status = attn_train(run->file.model, &run->train, &run->validation,
                                    &run->options.loop, &run->state, &hooks, pool, &control, &err);
    srv_bar_clear(&command->bar);
    if (status && status != ATTN_ECANCELED)
        return srv_command_fail("train", &err);
    if (srv_train_write_best(run, &err))
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

static int run_command(train_command *command) {
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
        code = run_training(command, pool);
    if (command->log)
        fclose(command->log);
    srv_train_close(&command->run);
    attn_pool_free(pool);
    return code;
}

int srv_command_train(int argc, char **argv) {
    train_command command = {.run = {.init = "", .out = "model.safetensors"},
                             .threads = 1,
                             .bar.wanted = isatty(STDERR_FILENO)};
    char checkpoint[SRV_TRAIN_TEXT];
    const srv_options tables[] = {
        {srv_job_fields, &command.run.options, sizeof command.run.options},
        {option_fields, &command, sizeof command},
    };
    srv_train_defaults(&command.run.options);
    int code = srv_options_read(tables, 2, "Trains a model on a built-in corpus.", argc, argv);
    if (code)
        return code - 1;
    if (snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", command.run.out) >=
        (int)sizeof checkpoint) {
        fputs("attnd train: --out is too long\n", stderr);
        return 2;
    }
    command.run.checkpoint = checkpoint;
    return run_command(&command);
}
