/* Options of commands: read into variables by a table, and printed from it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"

static void print_default(const srv_option *o) {
    switch (o->kind) {
    case SRV_OPTION_FLAG:
        break;
    case SRV_OPTION_SIZE:
        printf(" (%zu)", *(const size_t *)o->to);
        break;
    case SRV_OPTION_NUMBER:
        printf(" (%g)", *(const double *)o->to);
        break;
    case SRV_OPTION_SEED:
        printf(" (%llu)", (unsigned long long)*(const uint64_t *)o->to);
        break;
    case SRV_OPTION_TEXT:
        if (*(const char *const *)o->to)
            printf(" (%s)", *(const char *const *)o->to);
    }
}

static void print_help(const srv_option *table, const char *about, const char *command) {
    printf("%s\n\nusage: attnd %s [options]\n\n", about, command);
    for (; table->name; table++) {
        printf("  --%-18s %s", table->name, table->doc);
        print_default(table);
        putchar('\n');
    }
}

static bool read_whole(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    return *text >= '0' && *text <= '9' && !*end && !errno && n <= most;
}

static bool set(const srv_option *o, const char *value) {
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
        break;
    case SRV_OPTION_TEXT:
        *(const char **)o->to = value;
    }
    return true;
}

static const srv_option *find(const srv_option *table, const char *name, size_t n) {
    for (; table->name; table++)
        if (strlen(table->name) == n && !strncmp(table->name, name, n))
            return table;
    return NULL;
}

static const char *wanted(srv_option_kind kind) {
    return kind == SRV_OPTION_NUMBER ? "a number"
           : kind == SRV_OPTION_TEXT ? "a value"
                                     : "a whole number from 0";
}

int srv_options_read(const srv_option *table, const char *about, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        size_t n = strcspn(flag, "=");
        if (!strcmp(flag, "--help") || !strcmp(flag, "-h")) {
            print_help(table, about, argv[0]);
            return 1;
        }
        const srv_option *o = strncmp(flag, "--", 2) ? NULL : find(table, flag + 2, n - 2);
        if (!o || (o->kind == SRV_OPTION_FLAG && flag[n])) {
            fprintf(stderr, "attnd %s: unknown option %.80s (see attnd %s --help)\n", argv[0], flag,
                    argv[0]);
            return 3;
        }
        if (o->kind == SRV_OPTION_FLAG) {
            *(bool *)o->to = true;
            continue;
        }
        const char *value = flag[n] ? flag + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value || !set(o, value)) {
            fprintf(stderr, "attnd %s: --%s needs %s, found %.80s\n", argv[0], o->name,
                    wanted(o->kind), value ? value : "nothing");
            return 3;
        }
    }
    return 0;
}
