/* Progress of training: a bar on a terminal, a line an evaluation otherwise and in the log. */
#include <math.h>
#include <string.h>

#include "command/train_command.h"

enum { BAR = 24 };

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

static void draw(srv_train_command *command, const attn_training_progress *now) {
    size_t full = now->steps ? (size_t)(BAR * now->step / now->steps) : BAR;
    fputs("\r\033[K[", stderr);
    for (size_t i = 0; i < BAR; i++)
        fputs(i < full ? "█" : "·", stderr);
    fputs("] ", stderr);
    print_numbers(stderr, now);
    fflush(stderr);
    command->drawn = true;
}

void srv_train_clear(srv_train_command *command) {
    if (command->drawn)
        fputs("\r\033[K", stderr);
    command->drawn = false;
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

void srv_train_show(void *ctx, const attn_training_progress *now) {
    srv_train_command *command = ctx;
    if (now->evaluated && command->log)
        log_line(command->log, now);
    if (command->quiet)
        return;
    if (now->evaluated) {
        srv_train_clear(command);
        print_numbers(stderr, now);
        fputc('\n', stderr);
    }
    if (command->bar)
        draw(command, now);
}
