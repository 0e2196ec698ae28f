/* The service's way up and its way down, each one function. */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "admission.h"
#include "api/predict.h"
#include "api/route.h"
#include "budget.h"
#include "host.h"
#include "http/daemon.h"
#include "http/tls.h"
#include "learning/jobs.h"
#include "model_registry.h"
#include "runs.h"

/* Freed blocks that may be kept when requests fill the budget. */
enum { KEPT_BEYOND = 64 << 20 };

static int complain(int code, const char *what, const char *which, const char *why) {
    fprintf(stderr, "attnd: %s%s%s: %s\n", what, *which ? " " : "", which, why);
    return code;
}

static int no_resources(void) {
    return complain(SRV_EXIT_RESOURCES, "cannot start", "", "not enough memory or threads");
}

static int cannot_listen(const char *address, int failed) {
    return failed == ENOMEM
               ? no_resources()
               : complain(SRV_EXIT_LISTEN, "cannot listen on", address, strerror(failed));
}

static int open_address(const char *setting, const char *text, srv_address *address) {
    errno = 0;
    if (srv_address_parse(text, address))
        return 0;
    if (errno == ENOMEM)
        return no_resources();
    fprintf(
        stderr,
        "attnd: \"%s\" must be ADDRESS:PORT, [IPv6]:PORT, *:PORT or unix:/path, found \"%.200s\"\n",
        setting, text);
    return SRV_EXIT_USAGE;
}

/* The operations port is on by default, so it must never be why a second daemon cannot start. */
static int open_ops(srv_app *app, bool port_is_free_choice) {
    const srv_config *config = app->config;
    srv_address address;
    if (!*config->ops_listen)
        return 0;
    int code = open_address("ops_listen", config->ops_listen, &address);
    if (code)
        return code;
    if (!config->ops_given && port_is_free_choice)
        srv_address_set_port(&address, 0);
    int failed = srv_daemon_open(&app->ops, app, app->router, &address, true);
    if (failed == EADDRINUSE && !config->ops_given) {
        srv_address_set_port(&address, 0);
        failed = srv_daemon_open(&app->ops, app, app->router, &address, true);
        if (!failed)
            fprintf(stderr, "attnd: operations port %s is taken, using %s\n", config->ops_listen,
                    srv_daemon_url(app->ops));
    }
    return failed ? cannot_listen(config->ops_listen, failed) : 0;
}

/* The threads of the daemons inherit what this one asks for. */
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
        return cannot_listen(app->config->listen, failed);
    return open_ops(app, any_port);
}

/* A file that the settings name. */
static int refused(const srv_config_error *err) {
    fprintf(stderr, "attnd: %s\n", err->text);
    return err->memory ? SRV_EXIT_RESOURCES : SRV_EXIT_USAGE;
}

static int open_keys(srv_app *app, srv_config_error *err) {
    if (!*app->config->keys_file)
        return 0;
    app->keys = srv_keys_new();
    if (!app->keys)
        return no_resources();
    return srv_keys_load(app->keys, app->config->keys_file, err) ? 0 : refused(err);
}

static int open_tls(srv_app *app, srv_config_error *err) {
    if (!*app->config->tls_cert)
        return 0;
    app->tls = srv_tls_new();
    if (!app->tls)
        return no_resources();
    return srv_tls_load(app->tls, app->config->tls_cert, app->config->tls_key, err) ? 0
                                                                                    : refused(err);
}

static int open_files(srv_app *app) {
    srv_config_error err;
    int code = open_keys(app, &err);
    return code ? code : open_tls(app, &err);
}

static int open_stores(srv_app *app) {
    const int code = srv_runs_open(&app->runs, app->config);
    return code ? code : srv_models_open(&app->models, app->config);
}

int srv_app_check(const srv_config *config) {
    srv_app app = {.config = config};
    int code = open_stores(&app);
    if (!code)
        code = open_files(&app);
    srv_keys_free(app.keys);
    srv_tls_free(app.tls);
    srv_models_free(app.models);
    srv_runs_free(app.runs);
    return code;
}

/* Beside connections: listening sockets, files that are mapped or written, and the log. */
#define OTHER_FILES 64

/* Where files run out, nobody is answered any more, probes neither. */
static void tell_files(const srv_app *app, uint64_t files) {
    char event[160];
    if (files >= (uint64_t)app->config->connections + OTHER_FILES)
        return;
    snprintf(event, sizeof event,
             "connections is %lld, but only %llu files may be open (ulimit -n), %d of them others",
             (long long)app->config->connections, (unsigned long long)files, OTHER_FILES);
    srv_log_event(app->log, event);
}

/* What is not as the processor's name would have one expect. */
static void tell_kernels(srv_log *log) {
    const char *tiles = attn_isa_tiles();
    if (tiles && strcmp(tiles, "emulated") == 0)
        srv_log_event(log, "amx: emulated, slowly, as it was asked for");
    else if (!tiles && strstr(attn_isa_reason(), "amx"))
        srv_log_event(log, attn_isa_reason());
}

int srv_app_open(srv_app *app, const srv_config *config) {
    attn_error err;
    app->config = config;
    const uint64_t files = srv_host_raise_files();
    if (getrandom(app->trace_key, sizeof app->trace_key, 0) != sizeof app->trace_key)
        app->trace_key[0] = (uint64_t)attn_now_ns(); /* names, not secrets */
    if (attn_isa_choose(strcmp(config->isa, "auto") ? config->isa : NULL, &err))
        return complain(SRV_EXIT_ISA, "cannot use the kernels", config->isa, err.text);
    srv_budget_start((size_t)config->memory_bytes);
    attn_block_limit((size_t)config->memory_bytes + KEPT_BEYOND);
    app->log = srv_log_new(config->log == SRV_LOG_JSON);
    app->router = calloc(1, sizeof *app->router);
    if (!app->log || !app->router || !srv_router_init(app->router, srv_routes))
        return no_resources();
    tell_kernels(app->log);
    tell_files(app, files);
    app->meters = srv_meters_new(app->router->labels, app->router->label_count);
    app->pool = attn_pool_new((size_t)config->workers);
    app->queue = srv_queue_new((size_t)config->requests_running, (size_t)config->queue_length,
                               config->queue_target_ms * 1000000);
    app->predictor = srv_predictor_new();
    app->admission = srv_admission_new(config);
    if (!app->admission || !app->meters || !app->pool || !app->queue || !app->predictor)
        return no_resources();
    int code = open_stores(app);
    if (!code)
        code = open_files(app);
    if (!code)
        code = srv_jobs_open(&app->jobs, app);
    return code ? code : open_daemons(app);
}

static void reload_keys(srv_app *app) {
    srv_config_error err;
    char event[sizeof err.text + 32];
    if (srv_keys_load(app->keys, app->config->keys_file, &err))
        snprintf(event, sizeof event, "%zu API keys read", srv_keys_count(app->keys));
    else
        snprintf(event, sizeof event, "API keys unchanged: %s", err.text);
    srv_log_event(app->log, event);
}

static void reload_tls(srv_app *app) {
    srv_config_error err;
    char event[sizeof err.text + 32], until[16];
    if (srv_tls_load(app->tls, app->config->tls_cert, app->config->tls_key, &err)) {
        srv_tls_until(app->tls, until);
        snprintf(event, sizeof event, "certificate read, valid until %s", until);
    } else {
        snprintf(event, sizeof event, "certificate unchanged: %s", err.text);
    }
    srv_log_event(app->log, event);
}

void srv_app_reload(srv_app *app) {
    if (app->keys)
        reload_keys(app);
    if (app->tls)
        reload_tls(app);
}

/* Clients that were about to send on an open connection get their 503 within this time. */
#define QUIET_MS 200

static void pause_ms(int64_t ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* ready = 503, all is still served, until those who send us requests have seen it -> no new
 * connections, jobs stop and end their streams -> requests under way finish, new ones on open
 * connections get 503 -> what is over time is cancelled -> the request threads end, so nothing is
 * suspended any more -> the last replies go out -> the daemons stop. */
void srv_app_close(srv_app *app) {
    atomic_store(&app->draining, SRV_LEAVING);
    if (app->data) {
        pause_ms(app->config->drain_delay_ms);
        atomic_store(&app->draining, SRV_REFUSING);
        srv_jobs_stop(app->jobs);
        srv_daemon_quiesce(app->data);
        srv_daemon_settle(app->data, QUIET_MS, app->config->drain_ms);
        srv_daemon_cancel(app->data);
    }
    srv_queue_close(app->queue);
    if (app->data)
        srv_daemon_settle(app->data, 0, 2000);
    srv_daemon_close(app->data);
    srv_daemon_close(app->ops);
    srv_jobs_free(app->jobs);
    srv_queue_free(app->queue);
    srv_keys_free(app->keys);
    srv_admission_free(app->admission);
    srv_tls_free(app->tls);
    srv_runs_free(app->runs);
    srv_models_free(app->models);
    srv_predictor_free(app->predictor);
    attn_pool_free(app->pool);
    srv_meters_free(app->meters);
    if (app->router)
        srv_router_close(app->router);
    free(app->openapi);
    free(app->router);
    srv_log_free(app->log);
}
