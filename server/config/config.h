/* The settings. One table (key, type, default, range, meaning) describes the JSON file, the
 * environment (ATTND_<KEY>), the command line (--<key>), --help, --print-config, the limits in GET
 * /version and the settings list in config/README.md. A srv_config owns its strings. It is
 * read-only while the service runs. */
#ifndef SRV_CONFIG_H
#define SRV_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct srv_texts {
    char **items;
    size_t count;
} srv_texts;

typedef struct srv_config {
    char *listen;               /* such as "127.0.0.1:8080", "[::1]:8080" or "unix:/path" */
    char *ops_listen;           /* as `listen`; "": no operations port */
    int64_t workers;            /* threads of the worker pool */
    int64_t requests_running;   /* threads that run requests */
    int64_t long_ms;            /* a request that computes for more is long */
    double long_share;          /* share of requests_running that long requests may have */
    int64_t queue_length;       /* most requests that wait for a request thread */
    int64_t queue_target_ms;    /* longest wait before the newest requests are served first */
    int64_t request_timeout_ms; /* time from the end of the body to the answer */
    int64_t max_body_bytes;
    int64_t max_request_bytes;        /* arena of one request, without its body */
    int64_t memory_bytes;             /* all bodies and arenas together */
    double max_cells;                 /* product B * Hq * L * S of one request */
    double max_operations;            /* floating-point operations of one request */
    int64_t runs_bytes;               /* bytes of all stored runs together */
    int64_t runs_ttl_s;               /* time for which a stored run is kept */
    char *runs_dir;                   /* directory of stored runs; "": in memory */
    int64_t models_count;             /* most models that are made over HTTP */
    int64_t models_bytes;             /* size of all models made over HTTP */
    char *models_dir;                 /* directory of model files; "": none */
    int64_t jobs_count, jobs_running; /* most jobs kept; most jobs running at a time */
    int64_t jobs_bytes;               /* memory of all running jobs together */
    int64_t jobs_steps, jobs_time_s;  /* most steps and seconds of one job */
    int64_t jobs_nice;
    char *jobs_dir;       /* directory of jobs; "": in memory */
    int64_t heartbeat_ms; /* time between comments in an event stream */
    int64_t max_json_depth;
    int64_t max_envelope_bytes;
    int64_t max_inflate_ratio;
    int64_t in_place_bytes; /* most bytes of a body that the HTTP thread may handle itself */
    int64_t in_place_memory_bytes;
    srv_texts cors_origins;
    srv_texts hosts;          /* host names that requests may name; "*": any */
    char *keys_file;          /* "": no API keys */
    char *tls_cert, *tls_key; /* "": plain HTTP */
    int64_t key_requests;     /* requests of one API key at a time; 0: any number may wait */
    char *isa;                /* "auto", "ref", "avx2", "avx512" or "amx" */
    int log;                  /* one of SRV_LOG_* */
    int log_level;            /* a srv_log_level (log.h) */
    int64_t header_timeout_ms;
    int64_t idle_timeout_s;
    int64_t min_rate_bytes; /* a slower upload or download is ended, bytes a second */
    int64_t connections, connections_per_address;
    srv_texts trusted_proxies; /* proxies whose X-Forwarded-For is trusted (client.h) */
    int64_t connection_bytes;  /* buffer of a connection: request headers, and a part of the body */
    int64_t drain_delay_ms;
    int64_t drain_ms;
    bool half_close_is_gone;

    bool ops_given; /* true: ops_listen was set to another value than the default */
} srv_config;

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
    size_t offset;
    const char *standard; /* the default value, as text */
    double min, max;      /* range of a number */
    const char *const *choices;
    bool limit; /* true: GET /version shows it among the limits */
    const char *doc;
} srv_setting;

extern const srv_setting srv_settings[]; /* ended by a row whose key is NULL */

/* The error text of a refused setting: one line without a newline. */
typedef struct srv_config_error {
    char text[512];
    bool memory; /* true: the setting is valid, but memory ran out */
} srv_config_error;

/* Writes an error text that is not about memory, and returns false. */
bool srv_config_refuse(srv_config_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes that memory for `what` ("read the settings") ran out, and returns false. */
bool srv_config_short(srv_config_error *err, const char *what);

/* Fills the settings with the defaults of the table. false: out of memory. */
bool srv_config_init(srv_config *c);
void srv_config_close(srv_config *c);

/* The functions set one setting, or all that a JSON text or file names. They replace earlier
 * values. Error texts call the source `origin`: a file name, "ATTND_X" or "--x". false: *err states
 * what was expected, what was found and where. */
bool srv_config_set(srv_config *c, const char *key, const char *text, const char *origin,
                    srv_config_error *err);
bool srv_config_json(srv_config *c, const char *text, size_t size, const char *origin,
                     srv_config_error *err);
bool srv_config_file(srv_config *c, const char *path, srv_config_error *err);
/* Sets the settings that ATTND_ variables name. Refuses an unknown name unless Kubernetes sets
 * it. */
bool srv_config_environment(srv_config *c, char **environment, srv_config_error *err);

/* Replaces 0 by a number that fits this machine in settings where 0 means automatic, and checks the
 * settings against each other. */
bool srv_config_resolve(srv_config *c, srv_config_error *err);

const srv_setting *srv_setting_find(const char *key);
const char *srv_setting_nearest(const char *key); /* similar to a wrong key; NULL: none is */
double srv_setting_number(const srv_config *c, const srv_setting *row); /* numbers and booleans */

void srv_config_print(const srv_config *c, FILE *out); /* JSON in the form of config/attnd.json */
void srv_config_print_reference(FILE *out);            /* the table of config/README.md */
void srv_config_print_options(FILE *out);              /* the options for --help */

#endif
