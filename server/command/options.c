/* What all commands share: the reading of options, the printing of errors, and the flag that a
 * signal sets. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"

static atomic_int asked; /* 1: a signal has asked the command to stop */

static void ask(int number) {
    (void)number;
    atomic_store(&asked, 1);
}

atomic_int *srv_command_watch_stop(void) {
    struct sigaction action = {.sa_handler = ask, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &asked;
}

enum {
    MOST_ROWS = 128, /* most options of a command */
};

/* Kinds of options beyond srv_option_kind, for fields: WHOLE sets an int64_t, CHOICE sets an int to
 * the index of the value in `choices`. */
enum { WHOLE = SRV_OPTION_TEXT + 1, CHOICE };

/* An option. It was made from a srv_option or from a row of a field table. */
typedef struct row {
    const char *name, *doc;
    int kind; /* a srv_option_kind, WHOLE or CHOICE */
    void *to;
    double least, most;         /* range of a number; both 0: no limits */
    const char *const *choices; /* the values of a CHOICE, ended by NULL */
} row;

const char *srv_option_dashed(const char *name, char text[SRV_OPTION_NAME]) {
    snprintf(text, SRV_OPTION_NAME, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return text;
}

static void print_default(const row *o) {
    switch (o->kind) {
    case SRV_OPTION_FLAG:
        break;
    case SRV_OPTION_SIZE:
        printf(" (%zu)", *(const size_t *)o->to);
        break;
    case SRV_OPTION_NUMBER:
        if (!isnan(*(const double *)o->to)) /* NaN: the text of the option says the default */
            printf(" (%g)", *(const double *)o->to);
        break;
    case SRV_OPTION_SEED:
        printf(" (%llu)", (unsigned long long)*(const uint64_t *)o->to);
        break;
    case SRV_OPTION_TEXT:
        if (*(const char *const *)o->to)
            printf(" (%s)", *(const char *const *)o->to);
        break;
    case WHOLE:
        printf(" (%lld)", (long long)*(const int64_t *)o->to);
        break;
    case CHOICE:
        printf(" (%s)", o->choices[*(const int *)o->to]);
    }
}

static void print_help(const row *table, const char *about, const char *command) {
    printf("%s\n\nusage: attnd %s [options]\n\n", about, command);
    for (; table->name; table++) {
        char name[SRV_OPTION_NAME];
        printf("  --%-18s %s", srv_option_dashed(table->name, name), table->doc);
        for (size_t i = 0; table->choices && table->choices[i]; i++)
            printf("%s%s", i ? ", " : " ", table->choices[i]);
        print_default(table);
        putchar('\n');
    }
}

/* Reads a whole text as a number from 0 to `most`. */
static bool read_whole(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    return *text >= '0' && *text <= '9' && !*end && !errno && n <= most;
}

static bool in_range(const row *o, double value) {
    return (o->least == 0 && o->most == 0) || (value >= o->least && value <= o->most);
}

/* Sets the variable of the option. false: the value is invalid. */
static bool set(const row *o, const char *value) {
    uint64_t whole;
    char *end;
    double number;
    switch (o->kind) {
    case SRV_OPTION_FLAG:
        break;
    case SRV_OPTION_SIZE:
        if (!read_whole(value, SIZE_MAX, &whole))
            return false;
        *(size_t *)o->to = whole;
        break;
    case SRV_OPTION_SEED:
        return read_whole(value, UINT64_MAX, o->to);
    case SRV_OPTION_NUMBER:
        number = strtod(value, &end);
        if (end == value || *end || !isfinite(number))
            return false;
        *(double *)o->to = number;
        return in_range(o, number);
    case SRV_OPTION_TEXT:
        *(const char **)o->to = value;
        break;
    case WHOLE:
        if (!read_whole(value, INT64_MAX, &whole))
            return false;
        *(int64_t *)o->to = (int64_t)whole;
        return in_range(o, (double)whole);
    case CHOICE:
        for (int i = 0; o->choices[i]; i++)
            if (!strcmp(o->choices[i], value)) {
                *(int *)o->to = i;
                return true;
            }
        return false;
    }
    return true;
}

/* Returns the row with the name `given` of n characters; NULL: there is none. */
static const row *find(const row *table, const char *given, size_t n) {
    for (; table->name; table++) {
        char name[SRV_OPTION_NAME];
        if (strlen(srv_option_dashed(table->name, name)) == n && !strncmp(name, given, n))
            return table;
    }
    return NULL;
}

static void say_wanted(const row *o, const char *command, const char *found) {
    char name[SRV_OPTION_NAME];
    fprintf(stderr, "attnd %s: --%s needs ", command, srv_option_dashed(o->name, name));
    if (o->kind == SRV_OPTION_TEXT)
        fputs("a value", stderr);
    else if (o->kind == CHOICE)
        for (size_t i = 0; o->choices[i]; i++)
            fprintf(stderr, "%s%s", i ? ", " : "one of ", o->choices[i]);
    else if (o->least != 0 || o->most != 0)
        fprintf(stderr, "a %snumber from %.16g to %.16g",
                o->kind == SRV_OPTION_NUMBER ? "" : "whole ", o->least, o->most);
    else
        fputs(o->kind == SRV_OPTION_NUMBER ? "a number" : "a whole number from 0", stderr);
    fprintf(stderr, ", found %.80s\n", found ? found : "nothing");
}

/* Returns the kind of option for a row of a field table. */
static int kind_of(const srv_field *f) {
    return f->kind == SRV_BOOL   ? (int)SRV_OPTION_FLAG
           : f->kind == SRV_INT  ? WHOLE
           : f->kind == SRV_REAL ? (int)SRV_OPTION_NUMBER
           : f->kind == SRV_ENUM ? CHOICE
                                 : (int)SRV_OPTION_TEXT;
}

static void say_unknown(const row *table, const char *command, const char *flag, size_t n) {
    fprintf(stderr, "attnd %s: unknown option %.80s", command, flag);
    if (n == strlen("--heads") && !strncmp(flag, "--heads", n) && find(table, "num-heads", 9))
        fputs("; here it is called --num-heads, because num_heads counts heads", stderr);
    fprintf(stderr, " (see attnd %s --help)\n", command);
}

static int read_rows(const row *table, const char *about, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        size_t n = strcspn(flag, "=");
        if (!strcmp(flag, "--help") || !strcmp(flag, "-h")) {
            print_help(table, about, argv[0]);
            return 1;
        }
        const row *o = strncmp(flag, "--", 2) ? NULL : find(table, flag + 2, n - 2);
        if (!o || (o->kind == SRV_OPTION_FLAG && flag[n])) {
            say_unknown(table, argv[0], flag, n);
            return 3;
        }
        if (o->kind == SRV_OPTION_FLAG) {
            *(bool *)o->to = true;
            continue;
        }
        const char *value = flag[n] ? flag + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value || !set(o, value)) {
            say_wanted(o, argv[0], value);
            return 3;
        }
    }
    return 0;
}

int srv_options_read_fields(const srv_field *fields, void *base, size_t size,
                            const srv_option *table, const char *about, int argc, char **argv) {
    row rows[MOST_ROWS + 1] = {0};
    size_t n = 0;
    for (const srv_field *f = fields; f && f->name && f->offset < size && n < MOST_ROWS; f++)
        rows[n++] = (row){f->name, f->doc, kind_of(f), (char *)base + f->offset,
                          f->min,  f->max, f->choices};
    for (const srv_option *o = table; o->name && n < MOST_ROWS; o++)
        rows[n++] = (row){o->name, o->doc, (int)o->kind, o->to, 0, 0, NULL};
    return read_rows(rows, about, argc, argv);
}

int srv_options_read(const srv_option *table, const char *about, int argc, char **argv) {
    return srv_options_read_fields(NULL, NULL, 0, table, about, argc, argv);
}

int srv_command_fail(const char *command, const attn_error *err) {
    fprintf(stderr, "attnd %s: %s%s%s\n", command, err->where, *err->where ? ": " : "", err->text);
    return 1;
}
