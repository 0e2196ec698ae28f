#include <string.h>

#include "config/client.h"
#include "config/config.h"
#include "config/nearest.h"
#include "config/origin.h"

const char *const srv_isa_choices[] = {"auto", "ref", "avx2", "avx512", "amx", NULL};
const char *const srv_log_choices[] = {"json", "off", NULL};
const char *const srv_level_choices[] = {"info", "warn", "error", NULL};

#define ROW(of, name, text, about, ...)                                                            \
    {.key = #name,                                                                                 \
     .kind = SRV_SET_##of,                                                                         \
     .offset = offsetof(srv_config, name),                                                         \
     .standard = (text),                                                                           \
     .doc = (about),                                                                               \
     __VA_ARGS__},
#define RANGE(of, name, text, least, most, about)                                                  \
    ROW(of, name, text, about, .min = (least), .max = (most))
#define TEXT(name, text, about) ROW(STRING, name, text, about)
#define LIST(name, test, entries, about)                                                           \
    ROW(LIST, name, "", about, .accepts = (test), .form = (entries))
#define CHOICE(name, text, words, about) ROW(CHOICE, name, text, about, .choices = (words))
#define BOOL(name, text, about)          RANGE(BOOL, name, text, 0, 1, about)
#define INT(...)                         RANGE(INT, __VA_ARGS__)
#define BYTES(...)                       RANGE(BYTES, __VA_ARGS__)
#define REAL(...)                        RANGE(REAL, __VA_ARGS__)

const srv_setting srv_settings[] = {
    SRV_SETTINGS(TEXT, LIST, CHOICE, BOOL, INT, BYTES, REAL){.key = NULL},
};

const srv_setting *srv_setting_find(const char *key) {
    for (const srv_setting *row = srv_settings; row->key; row++)
        if (!strcmp(row->key, key))
            return row;
    return NULL;
}

const char *srv_setting_nearest(const char *key) {
    const char *names[sizeof srv_settings / sizeof *srv_settings];
    size_t count = 0;
    for (const srv_setting *row = srv_settings; row->key; row++)
        names[count++] = row->key;
    return srv_nearest(key, names, count);
}
