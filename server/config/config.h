/* The settings. One table (key, type, default, range, meaning) describes the JSON file, the
 * environment (ATTND_<KEY>), the command line (--<key>), --help, --print-config, the limits of GET
 * /version and the table of config/README.md. A srv_config owns its strings and is read-only while
 * the service runs. */
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
    char *listen;               /* "127.0.0.1:8080", "[::1]:8080", "unix:/path" */
    char *ops_listen;           /* as listen; "" = no operations port */
    int64_t workers;            /* slots of the worker pool */
    int64_t requests_running;   /* request threads */
    int64_t long_ms;            /* beyond it a request is long */
    double long_share;          /* share of requests_running for long requests */
    int64_t queue_length;       /* requests that may wait for a request thread */
    int64_t queue_target_ms;    /* beyond such a wait the newest are served first */
    int64_t request_timeout_ms; /* from the end of the body to the answer */
    int64_t max_body_bytes;
    int64_t max_request_bytes;        /* arena of one request, its body not counted */
    int64_t memory_bytes;             /* all bodies and arenas together */
    double max_cells;                 /* B * Hq * L * S of one request */
    double max_operations;            /* floating-point operations of one request */
    int64_t runs_bytes;               /* all stored runs together */
    int64_t runs_ttl_s;               /* how long a stored run is kept */
    char *runs_dir;                   /* directory of stored runs; "" = in memory */
    int64_t models_count;             /* most models made over HTTP */
    int64_t models_bytes;             /* size of these models together */
    char *models_dir;                 /* directory of model files; "" = none */
    int64_t jobs_count, jobs_running; /* jobs that are kept; that run at a time */
    int64_t jobs_bytes;               /* memory of running jobs together */
    int64_t jobs_steps, jobs_time_s;  /* most steps and seconds of one job */
    int64_t jobs_nice;
    char *jobs_dir;       /* directory of jobs; "" = in memory */
    int64_t heartbeat_ms; /* between comments of an event stream */
    int64_t max_json_depth;
    int64_t max_envelope_bytes;
    int64_t max_inflate_ratio;
    int64_t in_place_bytes; /* bodies up to this may run on the HTTP thread */
    int64_t in_place_memory_bytes;
    srv_texts cors_origins;
    srv_texts hosts;          /* names that requests may be addressed to; "*": any */
    char *keys_file;          /* "" = no keys */
    char *tls_cert, *tls_key; /* "" = plain HTTP */
    int64_t key_requests;     /* requests of one key at a time; 0: any number may wait */
    char *isa;                /* "auto", "ref", "avx2", "avx512" */
    int log;                  /* SRV_LOG_* */
    int log_level;            /* srv_log_level (log.h) */
    int64_t header_timeout_ms;
    int64_t idle_timeout_s;
    int64_t min_rate_bytes; /* slowest upload or download that is served, bytes a second */
    int64_t connections, connections_per_address;
    srv_texts trusted_proxies; /* whose X-Forwarded-For is believed (client.h) */
    int64_t connection_bytes; /* buffer of one connection: request headers, one slice of the body */
    int64_t drain_delay_ms;
    int64_t drain_ms;
    bool half_close_is_gone;

    bool ops_given; /* ops_listen was set and is not the default */
} srv_config;

enum { SRV_LOG_JSON, SRV_LOG_OFF };

typedef enum srv_setting_kind {
    SRV_SET_STRING,
    SRV_SET_INT,
    SRV_SET_BYTES, /* text may say "256MiB" or "256M" */
    SRV_SET_REAL,
    SRV_SET_BOOL,
    SRV_SET_CHOICE,
    SRV_SET_LIST, /* comma-separated in text */
} srv_setting_kind;

typedef struct srv_setting {
    const char *key;
    srv_setting_kind kind;
    size_t offset;
    const char *standard; /* the default, as text */
    double min, max;      /* numbers */
    const char *const *choices;
    bool limit; /* shown among the limits of GET /version */
    const char *doc;
} srv_setting;

extern const srv_setting srv_settings[]; /* ended by a row with key NULL */

/* The error text of a setting that was refused: one line, without a newline. */
typedef struct srv_config_error {
    char text[512];
    bool memory; /* the setting is fine, but there was no memory for it */
} srv_config_error;

/* Writes the error, with `memory` false, and returns false. */
bool srv_config_refuse(srv_config_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes that there was no memory for `what` ("read the settings") and returns false. */
bool srv_config_short(srv_config_error *err, const char *what);

/* Fills the settings with the defaults of the table. false: out of memory. */
bool srv_config_init(srv_config *c);
void srv_config_close(srv_config *c);

/* A later layer replaces the settings that it names. Errors call the source `origin`: a file name,
 * "ATTND_X" or "--x". false: *err states what was expected, what was found and where. */
bool srv_config_set(srv_config *c, const char *key, const char *text, const char *origin,
                    srv_config_error *err);
bool srv_config_json(srv_config *c, const char *text, size_t size, const char *origin,
                     srv_config_error *err);
bool srv_config_file(srv_config *c, const char *path, srv_config_error *err);
/* Refuses an ATTND_ name that is no setting, except those that Kubernetes sets. */
bool srv_config_environment(srv_config *c, char **environment, srv_config_error *err);

/* Replaces 0, where it means automatic, by a number that fits this machine, and checks settings
 * against each other. */
bool srv_config_resolve(srv_config *c, srv_config_error *err);

const srv_setting *srv_setting_find(const char *key);
const char *srv_setting_nearest(const char *key); /* a key that a wrong key may mean; NULL: none */
double srv_setting_number(const srv_config *c, const srv_setting *row); /* numbers and booleans */

void srv_config_print(const srv_config *c, FILE *out); /* JSON, the form of config/attnd.json */
void srv_config_print_reference(FILE *out);            /* Markdown, the table of config/README.md */
void srv_config_print_options(FILE *out);              /* for --help */

#endif
