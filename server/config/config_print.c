/* Prints the settings in three forms: as JSON, as the table at the end of config/README.md, or as
 * options of --help. */
#include <inttypes.h>
#include <string.h>

#include "config/config.h"

double srv_setting_number(const srv_config *c, const srv_setting *row) {
    const char *place = (const char *)c + row->offset;
    switch (row->kind) {
    case SRV_SET_REAL:
        return *(const double *)place;
    case SRV_SET_INT:
    case SRV_SET_BYTES:
        return (double)*(const int64_t *)place;
    case SRV_SET_BOOL:
        return *(const bool *)place;
    default:
        return 0;
    }
}

bool srv_setting_is_limit(const srv_setting *row) {
    return row->max > 0;
}

static void print_string(const char *text, FILE *out) {
    putc('"', out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            putc(byte, out);
    }
    putc('"', out);
}

static void print_list(const srv_texts *list, FILE *out) {
    putc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ", " : "", out);
        print_string(list->items[i], out);
    }
    putc(']', out);
}

static void print_value(const srv_config *c, const srv_setting *row, FILE *out) {
    const char *place = (const char *)c + row->offset;
    switch (row->kind) {
    case SRV_SET_STRING:
        print_string(*(char *const *)place, out);
        break;
    case SRV_SET_CHOICE:
        print_string(row->choices[*(const int *)place], out);
        break;
    case SRV_SET_BOOL:
        fputs(*(const bool *)place ? "true" : "false", out);
        break;
    case SRV_SET_LIST:
        print_list((const srv_texts *)place, out);
        break;
    default:
        fprintf(out, "%.15g", srv_setting_number(c, row));
    }
}

void srv_config_print(const srv_config *c, FILE *out) {
    fputs("{\n", out);
    for (const srv_setting *row = srv_settings; row->key; row++) {
        fprintf(out, "  \"%s\": ", row->key);
        print_value(c, row, out);
        fputs(row[1].key ? ",\n" : "\n", out);
    }
    fputs("}\n", out);
}

static void print_name(const char *key, char from, char to, bool upper, FILE *out) {
    for (; *key; key++) {
        char letter = *key == from ? to : *key;
        putc(upper && letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter, out);
    }
}

static void print_range(const srv_setting *row, FILE *out) {
    if (row->choices)
        for (int i = 0; row->choices[i]; i++)
            fprintf(out, "%s`%s`", i ? ", " : "", row->choices[i]);
    else if (row->kind == SRV_SET_BOOL)
        fputs("`true`, `false`", out);
    else if (row->kind == SRV_SET_LIST)
        fputs("list of text", out);
    else if (row->kind == SRV_SET_STRING)
        fputs("text", out);
    else
        fprintf(out, "%.16g … %.16g%s", row->min, row->max,
                row->kind == SRV_SET_BYTES ? " bytes" : "");
}

void srv_config_print_reference(FILE *out) {
    fputs("| key | default | range | meaning |\n|---|---|---|---|\n", out);
    for (const srv_setting *row = srv_settings; row->key; row++) {
        fprintf(out, "| `%s` | %s%s%s | ", row->key, *row->standard ? "`" : "",
                *row->standard ? row->standard : "none", *row->standard ? "`" : "");
        print_range(row, out);
        fprintf(out, " | %s |\n", row->doc);
    }
}

void srv_config_print_options(FILE *out) {
    for (const srv_setting *row = srv_settings; row->key; row++) {
        fputs("  --", out);
        print_name(row->key, '_', '-', false, out);
        fprintf(out, " VALUE\n        %s", row->doc);
        fprintf(out, " (default %s; ATTND_", *row->standard ? row->standard : "none");
        print_name(row->key, 0, 0, true, out);
        fputs(")\n", out);
    }
}
