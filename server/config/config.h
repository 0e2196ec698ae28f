/* The settings: their values, and how the sources set them. settings.h has the table.
 *
 * A srv_config owns its strings. It is read-only while the service runs, so any thread may read it.
 */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/settings.h"

typedef struct srv_texts {
    char **items;
    size_t count;
} srv_texts;

/* The values of all settings, one member for each row of the table. */
typedef struct srv_config {
#define SRV_TEXT(name, ...)   char *name;
#define SRV_LIST(name, ...)   srv_texts name;
#define SRV_CHOICE(name, ...) int name;
#define SRV_BOOL(name, ...)   bool name;
#define SRV_INT(name, ...)    int64_t name;
#define SRV_REAL(name, ...)   double name;
    SRV_SETTINGS(SRV_TEXT, SRV_LIST, SRV_CHOICE, SRV_BOOL, SRV_INT, SRV_INT, SRV_REAL)
#undef SRV_TEXT
#undef SRV_LIST
#undef SRV_CHOICE
#undef SRV_BOOL
#undef SRV_INT
#undef SRV_REAL

    int socket_bits, socket_gid; /* socket_mode and socket_group as numbers; -1: none */
    bool ops_given;              /* the user has set ops_listen; false: it has its default value */
} srv_config;

/* The words of the choices `isa`, `log` and `log_level`, ended by NULL. */
extern const char *const srv_isa_choices[];
extern const char *const srv_log_choices[];
extern const char *const srv_level_choices[]; /* in the order of srv_log_level (log.h) */
enum { SRV_LOG_JSON, SRV_LOG_OFF };

typedef enum srv_setting_kind {
    SRV_SET_STRING,
    SRV_SET_INT,
    SRV_SET_BYTES, /* the text may be "256MiB" or "256M" */
    SRV_SET_REAL,
    SRV_SET_BOOL,
    SRV_SET_CHOICE,
    SRV_SET_LIST, /* separated by commas in text */
} srv_setting_kind;

typedef struct srv_setting {
    const char *key;
    srv_setting_kind kind;
    size_t offset;                     /* offset of the member in srv_config, in bytes */
    const char *standard;              /* the default value, as text */
    double min, max;                   /* range of a number, both included */
    const char *const *choices;        /* the words of an SRV_SET_CHOICE, ended by NULL */
    bool (*accepts)(const char *text); /* tests an entry of an SRV_SET_LIST */
    const char *form;                  /* form of an entry in error texts */
    const char *doc;                   /* one or more sentences for --help and config/README.md */
} srv_setting;

extern const srv_setting srv_settings[]; /* ended by a row whose key is NULL */

/* The error text of a refused setting: one line without a newline. */
typedef struct srv_config_error {
    char text[512];
    bool memory; /* true: the setting is valid, but memory ran out */
} srv_config_error;

/* Writes an error text, sets err->memory to false, and returns false. */
bool srv_config_refuse(srv_config_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes "not enough memory to <what>", sets err->memory to true, and returns false. */
bool srv_config_short(srv_config_error *err, const char *what);

/* Fills the settings with the defaults of the table. false: out of memory. */
bool srv_config_init(srv_config *c, srv_config_error *err);
void srv_config_close(srv_config *c);

/* srv_config_set sets one setting from a text. srv_config_json and srv_config_file set all settings
 * that a JSON object names. Earlier values are replaced. Error texts name the source, `origin`: a
 * file name, "ATTND_X" or "--x". false: *err states what was expected, what was found and where. */
bool srv_config_set(srv_config *c, const char *key, const char *text, const char *origin,
                    srv_config_error *err);
bool srv_config_json(srv_config *c, const char *text, size_t size, const char *origin,
                     srv_config_error *err);
bool srv_config_file(srv_config *c, const char *path, srv_config_error *err);
/* Sets the settings that environment variables ATTND_<KEY> name. An unknown key is an error, except
 * of the variables that Kubernetes sets for a service called attnd. */
bool srv_config_environment(srv_config *c, char **environment, srv_config_error *err);

/* Replaces settings with the value 0 that means "choose a value for this machine". Then checks that
 * the settings fit each other. false: *err names settings that do not. */
bool srv_config_resolve(srv_config *c, srv_config_error *err);

const srv_setting *srv_setting_find(const char *key);
/* Returns the key that is most similar to an unknown key; NULL: none is similar. */
const char *srv_setting_nearest(const char *key);
/* Returns whether GET /version shows the setting among the limits: it is a number or a boolean. */
bool srv_setting_is_limit(const srv_setting *row);
/* Returns the value of a setting that is a number or a boolean (0 or 1); 0 for other kinds. */
double srv_setting_number(const srv_config *c, const srv_setting *row);

void srv_config_print(const srv_config *c, FILE *out); /* JSON in the form of config/attnd.json */
void srv_config_print_reference(FILE *out);            /* the table of config/README.md */
void srv_config_print_options(FILE *out);              /* the options for --help */

#endif
