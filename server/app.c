/* Starts the service in srv_app_open and stops it in srv_app_close. */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "api/common/dry.h"
#include "api/common/route.h"
#include "api/service/service_api.h"
#include "http/daemon.h"
#include "http/health.h"
#include "http/library.h"
#include "http/repeats.h"
#include "http/tls.h"
#include "jobs/jobs.h"
#include "load/admission.h"
#include "load/budget.h"
#include "load/queue.h"
#include "store/model_registry.h"
#include "store/run_maps.h"
#include "store/runs.h"
#include "system/host.h"

/* The allocator keeps freed blocks for reuse. Blocks in use and kept blocks together may exceed
 * memory_bytes by this many bytes. */
enum { KEPT_BEYOND = 64 << 20 };

/* Prints "attnd: <what> <which>: <why>" to standard error and returns the exit code. */
static int complain(int code, const char *what, const char *which, const char *why) {
    fprintf(stderr, "attnd: %s%s%s: %s\n", what, *which ? " " : "", which, why);
    return code;
}

static int no_resources(void) {
    return complain(SRV_EXIT_RESOURCES, "cannot start", "", "not enough memory or threads");
}

#define ASK_MS 500 /* time to wait for an answer of the program that already has the port */

/* Prints why the service cannot listen on an address, and how to choose another one. If another
 * attnd already listens on the address, says that. Returns the exit code. */
static int cannot_listen(const srv_config *config, const char *setting, const char *text,
                         const srv_address *address, int failed) {
    char there[64] = "";
    const bool ops = !strcmp(setting, "ops_listen");
    const char *option = ops ? "--ops-listen ADDRESS:PORT ('': no such port)"
                         : srv_address_path(address) ? "--listen unix:/PATH"
                                                     : "--port N (0: any free port)";
    if (failed == ENOMEM)
        return no_resources();
    if (failed == EADDRINUSE)
        srv_health_who(address, !ops && *config->tls_cert, ASK_MS, there, sizeof there);
    fprintf(stderr,
            "attnd: cannot listen on %s: %s%s%s%s; to use another address, change the setting "
            "\"%s\" or say %s\n",
            text, strerror(failed), *there ? " (" : "", there, *there ? " listens there)" : "",
            setting, option);
    return SRV_EXIT_LISTEN;
}

static int open_address(const char *setting, const char *text, srv_address *address) {
    errno = 0;
    if (srv_address_parse(text, address))
        return 0;
    if (errno == ENOMEM)
        return no_resources();
    const bool bare = *text && !strchr(text, ':') && !strchr(text, '/');
    fprintf(stderr,
            "attnd: \"%s\" must be ADDRESS:PORT, [IPv6]:PORT, *:PORT or unix:/path, found "
            "\"%.200s\"%s%.60s%s\n",
            setting, text, bare ? "; with a port it is \"" : "", bare ? text : "",
            bare ? ":8080\"" : "");
    return SRV_EXIT_USAGE;
}

/* Opens the operations port. If the user has not chosen it (ops_listen has its default value) and
 * it is in use, opens a free port instead, so that a second daemon on the machine can start. Opens
 * a free port also if `any_port` is true, which means that the user has set the service's own port
 * to 0. */
static int open_ops(srv_app *app, bool any_port) {
    const srv_config *config = app->config;
    srv_address address;
    if (!*config->ops_listen)
        return 0;
    int code = open_address("ops_listen", config->ops_listen, &address);
    if (code)
        return code;
    if (!config->ops_given && any_port)
        srv_address_set_port(&address, 0);
    int failed = srv_daemon_open(&app->ops, app, app->router, &address, true);
    if (failed == EADDRINUSE && !config->ops_given) {
        srv_address_set_port(&address, 0);
        failed = srv_daemon_open(&app->ops, app, app->router, &address, true);
        if (!failed)
            srv_log_event(app->log, SRV_LOG_WARN, "operations port %s is taken, using %s",
                          config->ops_listen, srv_daemon_url(app->ops));
    }
    return failed ? cannot_listen(config, "ops_listen", config->ops_listen, &address, failed) : 0;
}

/* Opens both ports. The threads that the daemons start inherit the short time slices that this
 * thread asks for (srv_host_be_prompt). */
static int open_daemons(srv_app *app) {
    srv_address address;
    srv_host_be_prompt();
    int code = open_address("listen", app->config->listen, &address);
    if (code)
        return code;
    size_t length = strlen(app->config->listen);
    bool any_port = length > 2 && !strcmp(app->config->listen + length - 2, ":0");
    int failed = srv_daemon_open(&app->data, app, app->router, &address, false);
    if (failed)
        return cannot_listen(app->config, "listen", app->config->listen, &address, failed);
    return open_ops(app, any_port);
}

/* Prints the error text to standard error and returns the exit code. */
static int refused(const srv_config_error *err) {
    fprintf(stderr, "attnd: %s\n", err->text);
    return err->memory ? SRV_EXIT_RESOURCES : SRV_EXIT_USAGE;
}

/* Records the present states of the files that srv_app_look watches. Called before the files are
 * read, so that a change while they are read is noticed later. */
static void see(srv_app *app) {
    const srv_config *config = app->config;
    app->seen[SRV_APP_KEYS] = srv_file_look(config->keys_file);
    app->seen[SRV_APP_CERT] = srv_file_look(config->tls_cert);
    app->seen[SRV_APP_KEY] = srv_file_look(config->tls_key);
}

static int open_keys(srv_app *app, srv_config_error *err) {
    if (!*app->config->keys_file)
        return 0;
    app->keys = srv_keys_new();
    if (!app->keys)
        return no_resources();
    return srv_keys_load(app->keys, app->config->keys_file, err) ? 0 : refused(err);
}

static bool load_tls(srv_app *app, srv_config_error *err) {
    if (!srv_tls_load(app->tls, app->config->tls_cert, app->config->tls_key, err))
        return false;
    atomic_store(&app->certificate_until, srv_tls_until(app->tls));
    return true;
}

static int open_tls(srv_app *app, srv_config_error *err) {
    if (!*app->config->tls_cert)
        return 0;
    app->tls = srv_tls_new();
    if (!app->tls)
        return no_resources();
    return load_tls(app, err) ? 0 : refused(err);
}

static int open_files(srv_app *app) {
    srv_config_error err;
    see(app);
    int code = open_keys(app, &err);
    return code ? code : open_tls(app, &err);
}

/* Checks that no field table of a route has more than SRV_FIELDS_MOST rows, because srv_given_bits
 * has one bit for each row. More rows are a programming error. */
static void check_tables(void) {
    for (const srv_route *route = srv_routes; route->method; route++)
        if (route->fields && !srv_fields_fit(route->fields)) {
            fprintf(stderr, "attnd: a field table of %s has more than %d rows\n", route->path,
                    SRV_FIELDS_MOST);
            abort();
        }
}

static int open_stores(srv_app *app) {
    const int code = srv_runs_open(&app->runs, app->config);
    if (code)
        return code;
    app->maps = srv_maps_new((size_t)app->config->memory_bytes / 8);
    if (!app->maps) {
        fprintf(stderr, "attnd: cannot start: not enough memory\n");
        return SRV_EXIT_RESOURCES;
    }
    return srv_models_open(&app->models, app->config, app->log);
}

static int open_lessons(srv_app *app) {
    const char *path = app->config->lessons_dir;
    const int failed = srv_lessons_open(path, app->log);
    return failed ? complain(SRV_EXIT_USAGE, "cannot use lessons_dir", path, strerror(failed)) : 0;
}

/* Returns whether memory_bytes is more than the machine has. If so, the kernel kills the process
 * under load before the budget refuses a request. */
static bool is_beyond_machine(const srv_config *config) {
    const uint64_t most = srv_host_memory("");
    return most && (uint64_t)config->memory_bytes > most;
}

#define BEYOND_MACHINE                                                                             \
    "memory_bytes is %lld, but this machine or container has %llu: under load the process is "     \
    "killed instead of requests refused"

static int check_addresses(const srv_config *config) {
    srv_address address;
    const int code = open_address("listen", config->listen, &address);
    return code || !*config->ops_listen ? code
                                        : open_address("ops_listen", config->ops_listen, &address);
}

int srv_app_check(const srv_config *config) {
    srv_app app = {.config = config};
    int code = check_addresses(config);
    if (is_beyond_machine(config))
        fprintf(stderr, "attnd: " BEYOND_MACHINE "\n", (long long)config->memory_bytes,
                (unsigned long long)srv_host_memory(""));
    if (!code)
        code = open_stores(&app);
    if (!code)
        code = open_lessons(&app);
    if (!code)
        code = open_files(&app);
    srv_keys_free(app.keys);
    srv_tls_free(app.tls);
    srv_models_free(app.models);
    srv_maps_free(app.maps);
    srv_runs_free(app.runs);
    return code;
}

/* File descriptors that are needed in addition to those of connections: listening sockets, files
 * that are mapped or written, and the log. */
#define OTHER_FILES 64

/* Logs a warning if `files`, the limit of open files, is too small for the setting connections.
 * Without free file descriptors the service accepts no connection, not even one of a health check.
 */
static void tell_files(const srv_app *app, uint64_t files) {
    if (files >= (uint64_t)app->config->connections + OTHER_FILES)
        return;
    srv_log_event(
        app->log, SRV_LOG_WARN,
        "connections is %lld, but only %llu files may be open (ulimit -n), %d of them others",
        (long long)app->config->connections, (unsigned long long)files, OTHER_FILES);
}

static void tell_memory(const srv_app *app) {
    if (is_beyond_machine(app->config))
        srv_log_event(app->log, SRV_LOG_WARN, BEYOND_MACHINE, (long long)app->config->memory_bytes,
                      (unsigned long long)srv_host_memory(""));
}

/* Logs a message if the attention kernels or OpenBLAS are not those that an operator would expect:
 * AMX is emulated or unavailable, or OpenBLAS has threads. */
static void tell_kernels(srv_log *log) {
    const char *tiles = attn_isa_tiles();
    if (tiles && strcmp(tiles, "emulated") == 0)
        srv_log_event(log, SRV_LOG_INFO, "amx: emulated, slowly, as it was asked for");
    else if (!tiles && strstr(attn_isa_reason(), "amx"))
        srv_log_event(log, SRV_LOG_INFO, "%s", attn_isa_reason());
    if (!attn_blas_is_serial())
        srv_log_event(
            log, SRV_LOG_WARN,
            "OpenBLAS is a build with threads, which may hang where there is little "
            "memory: install the serial one (Debian: libopenblas0-serial) and build again, "
            "or choose it by update-alternatives");
}

static void name_problems(srv_app *app) {
    _Static_assert((int)SRV_CODE_COUNT < (int)SRV_METER_PROBLEMS, "the last place is NULL");
    for (size_t i = 0; i < SRV_CODE_COUNT; i++)
        app->problem_names[i] = srv_code_name((srv_code)i);
}

/* Returns the number of running requests (requests_running) that may be long ones. It is the share
 * long_share of them, but at least 1, and fewer than all if requests_running is 2 or more. */
static size_t long_threads(const srv_config *config) {
    const size_t all = (size_t)config->requests_running,
                 most = (size_t)((double)all * config->long_share);
    return most < 1 ? 1 : most < all || all == 1 ? most : all - 1;
}

#define HOUSEKEEPING_NS 250000000  /* time between two calls of keep_house */
#define UNUSED_NS       2000000000 /* a freed block goes back to the system after this time */

/* Does the housekeeping, on its own thread. Removes expired runs and unused maps, keeps the event
 * streams of jobs alive, and returns freed blocks that were not reused to the operating system. */
static int64_t keep_house(void *of) {
    srv_app *app = of;
    srv_runs_tick(app->runs);
    srv_maps_tick(app->maps);
    srv_jobs_tick(app->jobs);
    attn_block_trim(UNUSED_NS);
    return HOUSEKEEPING_NS;
}

int srv_app_open(srv_app *app, const srv_config *config) {
    attn_error err;
    app->config = config;
    app->reloaded = (int64_t)time(NULL);
    const uint64_t files = srv_host_raise_files();
    if (getrandom(app->trace_key, sizeof app->trace_key, 0) != sizeof app->trace_key)
        app->trace_key[0] = (uint64_t)attn_now_ns(); /* ids of traces need not be secret */
    const char *isa = srv_isa_choices[config->isa];
    if (attn_isa_choose(config->isa ? isa : NULL, &err))
        return complain(SRV_EXIT_ISA, "cannot use the kernels", isa, err.text);
    const char *version, *unfit = srv_library_unfit(&version);
    if (unfit)
        return complain(SRV_EXIT_LIBRARY, "cannot use libmicrohttpd", version, unfit);
    srv_budget_start((size_t)config->memory_bytes);
    attn_block_limit((size_t)config->memory_bytes + KEPT_BEYOND);
    app->log = srv_log_new(config->log == SRV_LOG_JSON, (srv_log_level)config->log_level);
    app->router = calloc(1, sizeof *app->router);
    if (!app->log || !app->router || !srv_router_init(app->router, srv_routes))
        return no_resources();
    tell_kernels(app->log);
    tell_files(app, files);
    tell_memory(app);
    name_problems(app);
    app->meters = srv_meters_new(app->router->labels, app->router->label_count, app->problem_names);
    app->pool = attn_pool_new((size_t)config->workers);
    app->queue = srv_queue_new(&(srv_queue_plan){
        .threads = (size_t)config->requests_running,
        .long_threads = long_threads(config),
        .long_ns = config->long_ms * 1000000,
        .length = (size_t)config->queue_length,
        .target_ns = config->queue_target_ms * 1000000,
    });
    app->predictor = srv_predictor_new();
    app->admission = srv_admission_new(config);
    app->repeats = srv_repeats_new();
    if (!app->admission || !app->meters || !app->pool || !app->queue || !app->predictor ||
        !app->repeats)
        return no_resources();
    int code = open_stores(app);
    if (!code)
        code = open_lessons(app);
    if (!code)
        code = open_files(app);
    if (!code)
        code = srv_jobs_open(&app->jobs, app);
    check_tables(); /* after srv_jobs_open, which fills the field table of jobs */
    if (!code)
        code = open_daemons(app);
    if (code)
        return code;
    return srv_ticker_start(&app->housekeeping, keep_house, app, HOUSEKEEPING_NS) ? 0
                                                                                  : no_resources();
}

/* Records whether a part could be read again. */
static void note_part(srv_app *app, srv_app_part part, bool read) {
    if (read)
        atomic_fetch_and(&app->stale, ~(1U << part));
    else
        atomic_fetch_or(&app->stale, 1U << part);
    if (!atomic_load(&app->stale))
        atomic_store(&app->reloaded, (int64_t)time(NULL));
}

static void reload_keys(srv_app *app) {
    srv_config_error err;
    const bool read = srv_keys_load(app->keys, app->config->keys_file, &err);
    note_part(app, SRV_PART_KEYS, read);
    if (read)
        srv_log_event(app->log, SRV_LOG_INFO, "%zu API keys read", srv_keys_count(app->keys));
    else
        srv_log_event(app->log, SRV_LOG_ERROR, "API keys unchanged: %s", err.text);
}

static void reload_tls(srv_app *app) {
    srv_config_error err;
    const bool read = load_tls(app, &err);
    note_part(app, SRV_PART_TLS, read);
    if (!read) {
        srv_log_event(app->log, SRV_LOG_ERROR, "certificate unchanged: %s", err.text);
        return;
    }
    char until[16];
    const time_t end = (time_t)srv_tls_until(app->tls);
    struct tm day;
    strftime(until, sizeof until, "%Y-%m-%d", gmtime_r(&end, &day));
    srv_log_event(app->log, SRV_LOG_INFO, "certificate read, valid until %s", until);
}

static void reload_models(srv_app *app) {
    bool whole;
    const int failed = srv_models_scan(app->models, &whole);
    note_part(app, SRV_PART_MODELS, whole);
    if (failed)
        srv_log_event(app->log, SRV_LOG_ERROR, "models unchanged: cannot read %.200s: %s",
                      app->config->models_dir, strerror(failed));
}

void srv_app_reload(srv_app *app) {
    see(app);
    if (app->keys)
        reload_keys(app);
    if (app->tls)
        reload_tls(app);
    reload_models(app);
    if (atomic_load(&app->stale))
        srv_log_event(app->log, SRV_LOG_ERROR, "reload failed: not all files could be used");
    else
        srv_log_named(app->log, "reloaded", (srv_log_field[]){{NULL}});
}

void srv_app_look(srv_app *app) {
    srv_file_state before[SRV_APP_FILES];
    memcpy(before, app->seen, sizeof before);
    see(app);
    if (app->keys && !srv_file_same(&before[SRV_APP_KEYS], &app->seen[SRV_APP_KEYS]))
        reload_keys(app);
    if (app->tls && (!srv_file_same(&before[SRV_APP_CERT], &app->seen[SRV_APP_CERT]) ||
                     !srv_file_same(&before[SRV_APP_KEY], &app->seen[SRV_APP_KEY])))
        reload_tls(app);
}

void srv_app_started(srv_app *app) {
    app->started = true;
    srv_log_named(app->log, "start",
                  (srv_log_field[]){
                      {"version", .text = attn_version()},
                      {"listen", .text = srv_daemon_url(app->data)},
                      {"ops_listen", .text = app->ops ? srv_daemon_url(app->ops) : ""},
                      {"kernels", .text = attn_isa_name(attn_isa_current())},
                      {"workers", .number = (uint64_t)app->config->workers},
                      {"memory_bytes", .number = (uint64_t)app->config->memory_bytes},
                      {NULL},
                  });
}

/* After the port is closed to new connections, the service waits for this time. Requests that
 * arrive on open connections during it are answered with 503. */
#define QUIET_MS 200

static void pause_ms(int64_t ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* The shutdown, in this order:
 *   1. /readyz answers 503, and requests are still served for drain_delay_ms, so that proxies stop
 *      sending requests to this daemon.
 *   2. The port is closed to new connections, and new requests on open connections get 503. Jobs
 *      stop and end their event streams.
 *   3. Accepted requests finish; those that take longer than drain_ms are cancelled.
 *   4. The request threads end. Then no connection is suspended any more, and the last replies are
 *      sent.
 *   5. The housekeeping ends before the daemons, because it wakes streams of connections. */
void srv_app_close(srv_app *app) {
    atomic_store(&app->draining, SRV_LEAVING);
    if (app->started) {
        const int64_t requests = srv_meter_read(app->meters, SRV_IN_FLIGHT);
        srv_log_named(app->log, "drain",
                      (srv_log_field[]){{"requests", .number = (uint64_t)requests}, {NULL}});
        pause_ms(app->config->drain_delay_ms);
    }
    if (app->data) {
        srv_daemon_quiesce(app->data);
        atomic_store(&app->draining, SRV_REFUSING);
        srv_jobs_stop(app->jobs);
        srv_daemon_settle(app->data, QUIET_MS, app->config->drain_ms);
        srv_daemon_cancel(app->data);
    }
    srv_queue_close(app->queue);
    if (app->data)
        srv_daemon_settle(app->data, 0, 2000);
    srv_ticker_stop(&app->housekeeping);
    srv_daemon_close(app->data);
    srv_daemon_close(app->ops);
    if (app->started)
        srv_log_named(app->log, "stop", (srv_log_field[]){{NULL}});
    srv_jobs_free(app->jobs);
    srv_queue_free(app->queue);
    srv_keys_free(app->keys);
    srv_admission_free(app->admission);
    srv_tls_free(app->tls);
    srv_maps_free(app->maps);
    srv_runs_free(app->runs);
    srv_models_free(app->models);
    srv_repeats_free(app->repeats);
    srv_predictor_free(app->predictor);
    attn_pool_free(app->pool);
    srv_meters_free(app->meters);
    if (app->router)
        srv_router_close(app->router);
    free(app->router);
    srv_log_free(app->log);
}
