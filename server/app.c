/* The service's way up and its way down, each one function. */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/predict.h"
#include "api/route.h"
#include "budget.h"
#include "host.h"
#include "http/daemon.h"

static int complain(int code, const char *what, const char *which, const char *why) {
    fprintf(stderr, "attnd: %s%s%s: %s\n", what, *which ? " " : "", which, why);
    return code;
}

static int no_resources(void) {
    return complain(SRV_EXIT_RESOURCES, "cannot start", "", "not enough memory or threads");
}

static int open_address(const char *setting, const char *text, srv_address *address) {
    if (srv_address_parse(text, address))
        return 0;
    fprintf(stderr,
            "attnd: \"%s\" must be ADDRESS:PORT, [IPv6]:PORT or unix:/path, found \"%.200s\"\n",
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
    return failed
               ? complain(SRV_EXIT_LISTEN, "cannot listen on", config->ops_listen, strerror(failed))
               : 0;
}

static int open_daemons(srv_app *app) {
    srv_address address;
    int code = open_address("listen", app->config->listen, &address);
    if (code)
        return code;
    size_t length = strlen(app->config->listen);
    bool any_port = length > 2 && !strcmp(app->config->listen + length - 2, ":0");
    int failed = srv_daemon_open(&app->data, app, app->router, &address, false);
    if (failed)
        return complain(SRV_EXIT_LISTEN, "cannot listen on", app->config->listen, strerror(failed));
    return open_ops(app, any_port);
}

int srv_app_open(srv_app *app, const srv_config *config) {
    attn_error err;
    app->config = config;
    srv_host_raise_files();
    if (attn_isa_choose(strcmp(config->isa, "auto") ? config->isa : NULL, &err))
        return complain(SRV_EXIT_ISA, "cannot use the kernels", config->isa, err.text);
    srv_budget_start((size_t)config->memory_bytes);
    app->log = srv_log_new(config->log == SRV_LOG_JSON);
    app->router = calloc(1, sizeof *app->router);
    if (!app->log || !app->router || !srv_router_init(app->router, srv_routes))
        return no_resources();
    app->meters = srv_meters_new(app->router->labels, app->router->label_count);
    app->pool = attn_pool_new((size_t)config->workers);
    app->queue = srv_queue_new((size_t)config->requests_running, (size_t)config->queue_length);
    app->predictor = srv_predictor_new();
    if (!app->meters || !app->pool || !app->queue || !app->predictor)
        return no_resources();
    return open_daemons(app);
}

/* Clients that were about to send on an open connection get their 503 within this time. */
#define QUIET_MS 200

/* ready = 503 -> no new connections -> requests under way finish, new ones on open connections get
 * 503 -> what is over time is cancelled -> the request threads end, so nothing is suspended any
 * more
 * -> the last replies go out -> the daemons stop. */
void srv_app_close(srv_app *app) {
    atomic_store(&app->draining, 1);
    if (app->data) {
        srv_daemon_quiesce(app->data);
        srv_daemon_settle(app->data, QUIET_MS, app->config->drain_ms);
        srv_daemon_cancel(app->data);
    }
    srv_queue_close(app->queue);
    if (app->data)
        srv_daemon_settle(app->data, 0, 2000);
    srv_daemon_close(app->data);
    srv_daemon_close(app->ops);
    srv_queue_free(app->queue);
    srv_predictor_free(app->predictor);
    attn_pool_free(app->pool);
    srv_meters_free(app->meters);
    if (app->router)
        srv_router_close(app->router);
    free(app->router);
    srv_log_free(app->log);
}
