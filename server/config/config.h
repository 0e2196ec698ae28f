/* The settings. The table srv_settings has a row for each setting: key, type, default, range and
 * meaning. Everything else follows from it: the JSON file, the environment (ATTND_<KEY>), the
 * command line (--<key>), --help, --print-config, the limits in GET /version, and the list of
 * settings in config/README.md.
 *
 * A srv_config owns its strings. It is read-only while the service runs, so any thread may read it.
 */
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

/* The values of all settings. settings.c has the full meaning and the range of each. */
typedef struct srv_config {
    char *listen;                     /* such as "127.0.0.1:8080", "[::1]:8080" or "unix:/path" */
    char *ops_listen;                 /* address of the operations port; "": there is none */
    char *socket_mode, *socket_group; /* of unix sockets; "": as the process makes them */
    int socket_bits, socket_gid;      /* the same, as srv_config_resolve has read them; -1: none */
    int64_t workers;                  /* threads of the worker pool */
    int64_t requests_running;         /* most requests that run at a time */
    int64_t long_ms;            /* a request that computes for longer than this is a long one */
    double long_share;          /* share of requests_running that long requests may have, 0 … 1 */
    int64_t queue_length;       /* most requests that wait for a request thread */
    int64_t queue_target_ms;    /* if the longest wait exceeds this, the newest are served first */
    int64_t request_timeout_ms; /* time from the end of the body to the answer */
    int64_t max_body_bytes;     /* largest request body */
    int64_t max_request_bytes;  /* limit of one request's arena, without its body */
    int64_t memory_bytes;       /* limit of all bodies and arenas together */
    double max_cells;           /* limit of one request: batch * heads * queries * keys */
    double max_operations;      /* limit of one request: floating-point operations */
    int64_t runs_bytes;         /* limit of all stored runs together */
    int64_t runs_ttl_ms;        /* a stored run is removed this long after its last use */
    char *runs_dir;             /* directory of stored runs; "": in memory */
    int64_t max_capture_bytes;  /* largest file that is imported into runs_dir */
    int64_t max_capture_sites;  /* most attention sites of a stored run */
    int64_t max_capture_text_bytes; /* largest JSON text that describes a stored run */
    char *captures_dir;             /* directory of files that may be imported by name; "": none */
    int64_t models_count;           /* most models that are made over HTTP */
    int64_t models_bytes;           /* limit of all models made over HTTP together */
    char *models_dir;               /* directory of model files; "": none */
    int64_t jobs_count, jobs_running; /* most jobs kept; most jobs running at a time */
    int64_t jobs_bytes;               /* limit of the memory of all running jobs together */
    int64_t jobs_steps, jobs_time_ms; /* most steps and time of one job */
    int64_t jobs_nice;                /* nice value of the threads that run jobs */
    char *jobs_dir;                   /* directory of jobs; "": in memory */
    int64_t async_ms;                 /* see settings.c */
    int64_t async_idle_ms;
    int64_t heartbeat_ms;          /* an idle event stream sends a comment after this time */
    int64_t max_json_depth;        /* deepest nesting of a JSON body */
    int64_t max_envelope_bytes;    /* largest JSON of a body, without its tensors */
    int64_t max_inflate_ratio;     /* most decoded bytes for each byte of a compressed body */
    int64_t in_place_bytes;        /* largest body of a request that the HTTP thread may run */
    int64_t in_place_memory_bytes; /* largest arena of a request on the HTTP thread */
    srv_texts cors_origins;        /* origins whose pages may call the service; none: CORS is off */
    srv_texts hosts;           /* host names by which clients may address the service; "*": any */
    char *keys_file;           /* path of the file with the API keys; "": no keys are needed */
    char *tls_cert, *tls_key;  /* paths of PEM files; "": plain HTTP */
    int64_t key_requests;      /* most requests of one API key at a time; 0: any number may wait */
    char *isa;                 /* kernel table: "auto", "ref", "avx2", "avx512" or "amx" */
    int log;                   /* SRV_LOG_JSON or SRV_LOG_OFF */
    int log_level;             /* a srv_log_level (log.h) */
    int64_t header_timeout_ms; /* time from the first byte of a header to its end */
    int64_t idle_timeout_s;    /* a connection without traffic is closed after this time */
    int64_t min_rate_bytes;    /* bytes per second; a slower upload or download is ended */
    int64_t connections, connections_per_address; /* most open connections; of one address */
    srv_texts trusted_proxies; /* proxies whose X-Forwarded-For is trusted (client.h) */
    int64_t connection_bytes;  /* buffer of a connection for the header and parts of the body */
    int64_t drain_delay_ms;    /* after SIGTERM: time in which requests are still accepted */
    int64_t drain_ms;          /* then: time in which accepted requests may finish */
    bool half_close_is_gone;   /* a client that closes its sending side counts as gone */

    bool ops_given; /* the user has set ops_listen; false: it has its default value */
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
    size_t offset;              /* offset of the member in srv_config, in bytes */
    const char *standard;       /* the default value, as text */
    double min, max;            /* range of a number, both included */
    const char *const *choices; /* the texts of an SRV_SET_CHOICE, ended by NULL */
    bool limit;                 /* true: GET /version shows the setting among the limits */
    const char *doc;            /* one or more sentences for --help and config/README.md */
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
bool srv_config_init(srv_config *c);
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

/* Some settings use 0 for "choose a value that fits this machine": replaces these zeros by such
 * values. Then checks that the settings fit each other. false: *err states which do not. */
bool srv_config_resolve(srv_config *c, srv_config_error *err);

const srv_setting *srv_setting_find(const char *key);
/* Returns the key that is most similar to an unknown key; NULL: none is similar. */
const char *srv_setting_nearest(const char *key);
/* Returns the value of a setting that is a number or a boolean (0 or 1); 0 for other kinds. */
double srv_setting_number(const srv_config *c, const srv_setting *row);

void srv_config_print(const srv_config *c, FILE *out); /* JSON in the form of config/attnd.json */
void srv_config_print_reference(FILE *out);            /* the table of config/README.md */
void srv_config_print_options(FILE *out);              /* the options for --help */

#endif
