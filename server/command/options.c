/* Functions that all commands share: they read options, print errors and progress bars, and set a
 * flag when a signal arrives. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"

static atomic_int asked; /* 1: a signal was received, and the command must stop */

static void note_signal(int number) {
    (void)number;
    atomic_store(&asked, 1);
}

atomic_int *srv_command_watch_stop(void) {
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &asked;
}

enum {
    MOST_OPTIONS = 128, /* largest number of options of a command */
    BAR = 24,           /* characters of the progress bar */
};

void srv_bar_draw(srv_bar *bar, double done) {
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < BAR; i++)
        fputs(i < (int)(BAR * done) ? "█" : "·", stderr);
    fputs("] ", stderr);
    bar->drawn = true;
}

void srv_bar_clear(srv_bar *bar) {
    if (bar->drawn)
        fputs("\r\033[K", stderr);
    bar->drawn = false;
}

typedef struct option {
    const srv_field *field; /* NULL: end of a list of options */
    void *to;               /* the member that the option sets */
} option;

const char *srv_option_dashed(const char *name, char text[SRV_OPTION_NAME]) {
    snprintf(text, SRV_OPTION_NAME, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return text;
}

static void print_default(const option *o) {
    if (o->field->kind == SRV_INT)
        printf(" (%llu)", (unsigned long long)*(const uint64_t *)o->to);
    else if (o->field->kind == SRV_ENUM)
        printf(" (%s)", o->field->choices[*(const int *)o->to]);
    else if (o->field->kind == SRV_STRING && *(const char *const *)o->to)
        printf(" (%s)", *(const char *const *)o->to);
    else if (o->field->kind == SRV_REAL && !isnan(*(const double *)o->to))
        printf(" (%g)", *(const double *)o->to); /* for NaN, the doc says the default */
}

static void print_help(const option *o, const char *about, const char *command) {
    printf("%s\n\nusage: attnd %s [options]\n\n", about, command);
    for (; o->field; o++) {
        char name[SRV_OPTION_NAME];
        printf("  --%-18s %s", srv_option_dashed(o->field->name, name), o->field->doc);
        for (size_t i = 0; o->field->choices && o->field->choices[i]; i++)
            printf("%s%s", i ? ", " : " ", o->field->choices[i]);
        print_default(o);
        putchar('\n');
    }
}

/* Reads a number that is written in digits only. Returns false for any other text. */
static bool read_whole(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool has_range(const srv_field *f) {
    return f->min != 0 || f->max != 0;
}

static bool is_in_range(const srv_field *f, double value) {
    return !has_range(f) || (value >= f->min && value <= f->max);
}

static bool set_choice(const option *o, const char *value) {
    for (int i = 0; o->field->choices[i]; i++)
        if (!strcmp(o->field->choices[i], value)) {
            *(int *)o->to = i;
            return true;
        }
    return false;
}

/* Sets the member of the option. false: the value is invalid. */
static bool set_option(const option *o, const char *value) {
    uint64_t whole;
    char *end;
    if (o->field->kind == SRV_ENUM)
        return set_choice(o, value);
    if (o->field->kind == SRV_STRING) {
        *(const char **)o->to = value;
        return true;
    }
    if (o->field->kind == SRV_INT) {
        if (!read_whole(value, &whole) || !is_in_range(o->field, (double)whole))
            return false;
        *(uint64_t *)o->to = whole;
        return true;
    }
    const double number = strtod(value, &end);
    *(double *)o->to = number;
    return end != value && !*end && isfinite(number) && is_in_range(o->field, number);
}

/* Returns the option with the name `given` of n characters; NULL: there is none. */
static const option *find_option(const option *o, const char *given, size_t n) {
    for (; o->field; o++) {
        char name[SRV_OPTION_NAME];
        if (strlen(srv_option_dashed(o->field->name, name)) == n && !strncmp(name, given, n))
            return o;
    }
    return NULL;
}

static void say_wanted(const srv_field *f, const char *command, const char *found) {
    char name[SRV_OPTION_NAME];
    const bool real = f->kind == SRV_REAL;
    fprintf(stderr, "attnd %s: --%s needs ", command, srv_option_dashed(f->name, name));
    if (f->kind == SRV_STRING)
        fputs("a value", stderr);
    else if (f->kind == SRV_ENUM)
        for (size_t i = 0; f->choices[i]; i++)
            fprintf(stderr, "%s%s", i ? ", " : "one of ", f->choices[i]);
    else if (has_range(f))
        fprintf(stderr, "a %snumber from %.16g to %.16g", real ? "" : "whole ", f->min, f->max);
    else
        fputs(real ? "a number" : "a whole number from 0", stderr);
    fprintf(stderr, ", found %.80s\n", found ? found : "nothing");
}

static void say_unknown(const option *options, const char *command, const char *flag, size_t n) {
    fprintf(stderr, "attnd %s: unknown option %.80s", command, flag);
    if (n == strlen("--heads") && !strncmp(flag, "--heads", n) &&
        find_option(options, "num-heads", 9))
        fputs("; here it is called --num-heads, because num_heads counts heads", stderr);
    fprintf(stderr, " (see attnd %s --help)\n", command);
}

static int read_line(const option *options, const char *about, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        size_t n = strcspn(flag, "=");
        if (!strcmp(flag, "--help") || !strcmp(flag, "-h")) {
            print_help(options, about, argv[0]);
            return 1;
        }
        const option *o = strncmp(flag, "--", 2) ? NULL : find_option(options, flag + 2, n - 2);
        if (!o || (o->field->kind == SRV_BOOL && flag[n])) {
            say_unknown(options, argv[0], flag, n);
            return 3;
        }
        if (o->field->kind == SRV_BOOL) {
            *(bool *)o->to = true;
            continue;
        }
        const char *value = flag[n] ? flag + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value || !set_option(o, value)) {
            say_wanted(o->field, argv[0], value);
            return 3;
        }
    }
    return 0;
}

int srv_options_read(const srv_options *tables, size_t count, const char *about, int argc,
                     char **argv) {
    option options[MOST_OPTIONS + 1] = {0};
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        for (const srv_field *f = tables[i].fields; f->name && f->offset < tables[i].size; f++)
            if (n < MOST_OPTIONS)
                options[n++] = (option){f, (char *)tables[i].base + f->offset};
    return read_line(options, about, argc, argv);
}

int srv_command_fail(const char *command, const attn_error *err) {
    fprintf(stderr, "attnd %s: %s%s%s\n", command, err->where, *err->where ? ": " : "", err->text);
    return 1;
}
