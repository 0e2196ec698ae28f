/* The sources are read in this order: defaults, JSON file, environment, command line. A later one
 * replaces the values of an earlier one. All sources use number_set, string_set, choice_set and
 * list_set. Therefore they share checks and error texts. */
#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/document.h"
#include "system/host.h"

bool srv_config_refuse(srv_config_error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->memory = false;
    return false;
}

bool srv_config_short(srv_config_error *err, const char *what) {
    srv_config_refuse(err, "not enough memory to %s", what);
    err->memory = true;
    return false;
}

static bool out_of_memory(srv_config_error *err) {
    return srv_config_short(err, "read the settings");
}

static bool unknown_key(const char *key, const char *origin, srv_config_error *err) {
    const char *near = srv_setting_nearest(key);
    return near ? srv_config_refuse(err, "%s: unknown setting \"%.80s\", did you mean \"%s\"?",
                                    origin, key, near)
                : srv_config_refuse(err, "%s: unknown setting \"%.80s\"", origin, key);
}

static void list_close(srv_texts *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (srv_texts){0};
}

static bool list_add(srv_texts *list, const char *text, size_t size) {
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->count] = strndup(text, size);
    return items[list->count] && ++list->count;
}

/* Splits "a, b" into a list. An empty text gives an empty list. */
static bool list_parse(srv_texts *list, const char *text) {
    while (*text) {
        size_t size = strcspn(text, ",");
        size_t from = strspn(text, " ");
        size_t to = size;
        while (to > from && text[to - 1] == ' ')
            to--;
        if (to > from && !list_add(list, text + from, to - from))
            return false;
        text += size + (text[size] == ',');
    }
    return true;
}

#define UNITS "B, K or KiB (1024), M or MiB, G or GiB"

/* Reads a whole text as a number: "256", "4e10", or for byte counts "256MiB", "1G", "64 KiB". */
static bool number_parse(const char *text, srv_setting_kind kind, double *out) {
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"B", 1.0},
                 {"K", 1024.0},   {"M", 1048576.0},   {"G", 1073741824.0}};
    char *end;
    const char *digits = text + (*text == '-');
    errno = 0;
    if (!isdigit((unsigned char)*digits) || digits[1] == 'x' || digits[1] == 'X')
        return false; /* strtod would also accept "+", spaces, "inf" and hexadecimal */
    double value = strtod(text, &end);
    if (errno || !isfinite(value))
        return false;
    if (kind == SRV_SET_BYTES && *end) {
        while (*end == ' ')
            end++;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (!strcmp(end, units[i].unit)) {
                *out = value * units[i].factor;
                return true;
            }
    }
    *out = value;
    return *end == 0;
}

static bool number_set(srv_config *c, const srv_setting *row, double value, const char *origin,
                       srv_config_error *err) {
    if (value < row->min || value > row->max)
        return srv_config_refuse(err, "%s: \"%s\" must be between %.16g and %.16g, found %.16g",
                                 origin, row->key, row->min, row->max, value);
    if (row->kind != SRV_SET_REAL && value != floor(value))
        return srv_config_refuse(err, "%s: \"%s\" must be a whole number, found %.15g", origin,
                                 row->key, value);
    if (row->kind == SRV_SET_REAL)
        *(double *)((char *)c + row->offset) = value;
    else
        *(int64_t *)((char *)c + row->offset) = (int64_t)value;
    return true;
}

static bool string_set(srv_config *c, const srv_setting *row, const char *text,
                       srv_config_error *err) {
    char **place = (char **)((char *)c + row->offset);
    char *copy = strdup(text);
    if (!copy)
        return out_of_memory(err);
    free(*place);
    *place = copy;
    return true;
}

static bool choice_set(srv_config *c, const srv_setting *row, const char *text, const char *origin,
                       srv_config_error *err) {
    char known[128] = "";
    for (int i = 0; row->choices[i]; i++) {
        if (!strcmp(row->choices[i], text)) {
            *(int *)((char *)c + row->offset) = i;
            return true;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s\"%s\"", i ? ", " : "",
                 row->choices[i]);
    }
    return srv_config_refuse(err, "%s: \"%s\" must be one of %s, found \"%.80s\"", origin, row->key,
                             known, text);
}

/* Sets a list setting to `fresh`. Takes ownership of `fresh` even if an entry is refused. */
static bool list_set(srv_config *c, const srv_setting *row, srv_texts *fresh, const char *origin,
                     srv_config_error *err) {
    srv_texts *place = (srv_texts *)((char *)c + row->offset);
    for (size_t i = 0; i < fresh->count; i++)
        if (!row->accepts(fresh->items[i])) {
            srv_config_refuse(err, "%s: \"%s\" must be %s, found \"%.80s\"", origin, row->key,
                              row->form, fresh->items[i]);
            list_close(fresh);
            return false;
        }
    list_close(place);
    *place = *fresh;
    return true;
}

bool srv_config_set(srv_config *c, const char *key, const char *text, const char *origin,
                    srv_config_error *err) {
    const srv_setting *row = srv_setting_find(key);
    if (!row)
        return unknown_key(key, origin, err);
    if (row->offset == offsetof(srv_config, ops_listen))
        c->ops_given = true;
    double value;
    srv_texts list = {0};
    switch (row->kind) {
    case SRV_SET_STRING:
        return string_set(c, row, text, err);
    case SRV_SET_CHOICE:
        return choice_set(c, row, text, origin, err);
    case SRV_SET_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return srv_config_refuse(err, "%s: \"%s\" must be true or false, found \"%.80s\"",
                                     origin, key, text);
        *(bool *)((char *)c + row->offset) = *text == 't';
        return true;
    case SRV_SET_LIST:
        if (list_parse(&list, text))
            return list_set(c, row, &list, origin, err);
        list_close(&list);
        return out_of_memory(err);
    default:
        if (!number_parse(text, row->kind, &value))
            return srv_config_refuse(
                err, "%s: \"%s\" must be a number%s, found \"%.80s\"", origin, key,
                row->kind == SRV_SET_BYTES ? " of bytes, optionally with a unit (" UNITS ")" : "",
                text);
        return number_set(c, row, value, origin, err);
    }
}

static bool json_list(srv_config *c, const srv_setting *row, const json_t *value,
                      const char *origin, srv_config_error *err) {
    srv_texts list = {0};
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item)) {
            list_close(&list);
            return srv_config_refuse(err, "%s: \"%s\" must be a list of strings", origin, row->key);
        }
        if (!list_add(&list, json_string_value(item), json_string_length(item))) {
            list_close(&list);
            return out_of_memory(err);
        }
    }
    return list_set(c, row, &list, origin, err);
}

static bool json_member(srv_config *c, const char *key, const json_t *value, const char *origin,
                        srv_config_error *err) {
    const srv_setting *row = srv_setting_find(key);
    if (!row)
        return unknown_key(key, origin, err);
    bool number =
        row->kind == SRV_SET_INT || row->kind == SRV_SET_BYTES || row->kind == SRV_SET_REAL;
    if (json_is_number(value) && number)
        return number_set(c, row, json_number_value(value), origin, err);
    if (json_is_boolean(value) && row->kind == SRV_SET_BOOL)
        return srv_config_set(c, key, json_is_true(value) ? "true" : "false", origin, err);
    if (json_is_array(value) && row->kind == SRV_SET_LIST)
        return json_list(c, row, value, origin, err);
    if (json_is_string(value) && row->kind != SRV_SET_BOOL && row->kind != SRV_SET_LIST)
        return srv_config_set(c, key, json_string_value(value), origin, err);
    const char *expected = row->kind == SRV_SET_BOOL   ? "true or false"
                           : row->kind == SRV_SET_LIST ? "a list of strings"
                           : number                    ? "a number"
                                                       : "a string";
    return srv_config_refuse(err, "%s: \"%s\" must be %s", origin, key, expected);
}

bool srv_config_json(srv_config *c, const char *text, size_t size, const char *origin,
                     srv_config_error *err) {
    json_error_t where;
    size_t bytes = srv_document_bytes(size, size / 2 + 1, size / 2 + 1);
    void *block = bytes ? malloc(bytes) : NULL;
    srv_document document;
    if (!block)
        return out_of_memory(err);
    srv_document_begin(&document, block, bytes);
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    bool ok = root ? json_is_object(root) ||
                         srv_config_refuse(err, "%s: the file must hold one JSON object", origin)
                   : srv_config_refuse(err, "%s:%d:%d: not valid JSON: %.200s", origin, where.line,
                                       where.column, where.text);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        if (!ok)
            break;
        ok = json_member(c, key, value, origin, err);
    }
    json_decref(root);
    srv_document_end();
    free(block);
    return ok;
}

bool srv_config_file(srv_config *c, const char *path, srv_config_error *err) {
    char *text = NULL;
    size_t size = 0;
    int failed = srv_read_file(path, &text, &size);
    if (failed == ENOMEM)
        return out_of_memory(err);
    if (failed)
        return srv_config_refuse(err, "%s: cannot read the configuration: %s", path,
                                 strerror(failed));
    bool ok = srv_config_json(c, text, size, path, err);
    free(text);
    return ok;
}

/* Returns whether the variable comes from Kubernetes, which sets ATTND_PORT, ATTND_SERVICE_HOST,
 * ATTND_PORT_80_TCP and others if a service is called attnd. */
static bool is_from_kubernetes(const char *key) {
    return !strncmp(key, "service_", 8) || !strcmp(key, "port") || !strncmp(key, "port_", 5);
}

bool srv_config_environment(srv_config *c, char **environment, srv_config_error *err) {
    for (char **entry = environment; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "ATTND_", 6) || !equals)
            continue;
        char name[80], key[64];
        size_t size = (size_t)(equals - *entry) - 6;
        size = size < sizeof key ? size : sizeof key - 1; /* a key this long is unknown */
        for (size_t i = 0; i < size; i++)
            key[i] = (char)tolower((unsigned char)(*entry)[6 + i]);
        key[size] = 0;
        snprintf(name, sizeof name, "%.*s", (int)(size + 6), *entry);
        if (!is_from_kubernetes(key) && !srv_config_set(c, key, equals + 1, name, err))
            return false;
    }
    return true;
}

bool srv_config_init(srv_config *c, srv_config_error *err) {
    *c = (srv_config){0};
    for (const srv_setting *row = srv_settings; row->key; row++)
        if (!srv_config_set(c, row->key, row->standard, "default", err))
            return false;
    c->ops_given = false;
    return true;
}

void srv_config_close(srv_config *c) {
    for (const srv_setting *row = srv_settings; row->key; row++) {
        void *place = (char *)c + row->offset;
        if (row->kind == SRV_SET_STRING)
            free(*(char **)place);
        else if (row->kind == SRV_SET_LIST)
            list_close(place);
    }
    *c = (srv_config){0};
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The smallest memory_bytes. The service uses some kilobytes of it when it starts. The rest is
 * enough for a small request. */
enum { MEMORY_LEAST = 1 << 20 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Reads socket_mode and socket_group. */
static bool resolve_socket(srv_config *c, srv_config_error *err) {
    const char *mode = c->socket_mode, *group = c->socket_group;
    const size_t digits = strspn(mode, "01234567");
    const bool is_number = *group && !group[strspn(group, "0123456789")] && strlen(group) < 10;
    c->socket_bits = *mode ? (int)strtol(mode, NULL, 8) : -1;
    if (*mode && (mode[digits] || digits < 3 || digits > 4 || c->socket_bits > 0777))
        return srv_config_refuse(
            err, "\"socket_mode\" is \"%.40s\": expected three octal digits, such as 660", mode);
    const struct group *found = *group && !is_number ? getgrnam(group) : NULL;
    c->socket_gid = found ? (int)found->gr_gid : is_number ? atoi(group) : -1;
    return !*group || c->socket_gid >= 0 ||
           srv_config_refuse(err, "\"socket_group\": this machine has no group \"%.80s\"", group);
}

/* Checks that `bytes`, the value of the setting `part`, is at most `most`, the value of the setting
 * `whole`. false: *err has the reason. */
static bool is_within(const char *part, int64_t bytes, const char *whole, int64_t most,
                      srv_config_error *err) {
    return bytes <= most || srv_config_refuse(err, "\"%s\" (%lld) is larger than \"%s\" (%lld)",
                                              part, (long long)bytes, whole, (long long)most);
}

/* Sets each setting that is 0 to a part of memory_bytes or runs_bytes. Checks that no part is
 * larger than the whole. */
static bool resolve_memory(srv_config *c, srv_config_error *err) {
    const int64_t all = c->memory_bytes;
    if (!c->max_request_bytes)
        c->max_request_bytes = all / 2;
    if (!c->runs_bytes)
        c->runs_bytes = all / 4;
    if (!c->max_capture_bytes)
        c->max_capture_bytes = c->runs_bytes;
    if (!c->models_bytes)
        c->models_bytes = smaller(256 << 20, all / 8);
    if (!c->jobs_bytes)
        c->jobs_bytes = all / 4;
    return is_within("max_request_bytes", c->max_request_bytes, "memory_bytes", all, err) &&
           (*c->runs_dir || is_within("runs_bytes", c->runs_bytes, "memory_bytes", all, err)) &&
           is_within("max_capture_bytes", c->max_capture_bytes, "runs_bytes", c->runs_bytes, err) &&
           is_within("models_bytes", c->models_bytes, "memory_bytes", all, err) &&
           is_within("jobs_bytes", c->jobs_bytes, "memory_bytes", all, err);
}

bool srv_config_resolve(srv_config *c, srv_config_error *err) {
    if (!resolve_socket(c, err))
        return false;
    if (!*c->tls_cert != !*c->tls_key)
        return srv_config_refuse(err, "\"%s\" is set and \"%s\" is not: set both or neither",
                                 *c->tls_cert ? "tls_cert" : "tls_key",
                                 *c->tls_cert ? "tls_key" : "tls_cert");
    if (!c->workers)
        c->workers = (int64_t)srv_host_processors("");
    if (!c->requests_running)
        c->requests_running = larger(4, 2 * c->workers);
    if (!c->connections_per_address)
        c->connections_per_address = larger(1, c->connections / 2);
    if (!c->queue_target_ms)
        c->queue_target_ms = larger(1, c->request_timeout_ms / 2);
    if (!c->memory_bytes)
        c->memory_bytes = larger((int64_t)(srv_host_memory("") / 2), 64 << 20);
    if (c->memory_bytes < MEMORY_LEAST)
        return srv_config_refuse(err,
                                 "\"memory_bytes\" must be at least %d, or 0 for half of the "
                                 "machine's memory, found %lld",
                                 MEMORY_LEAST, (long long)c->memory_bytes);
    if (*c->captures_dir && !*c->runs_dir)
        return srv_config_refuse(err, "\"captures_dir\" is set and \"runs_dir\" is not");
    return resolve_memory(c, err);
}
