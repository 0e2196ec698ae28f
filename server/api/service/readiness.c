/* Liveness and readiness. These handlers run on the HTTP thread and answer under any load. */
#include <string.h>

#include "api/service/service_api.h"
#include "jobs/jobs.h"
#include "request/shared.h"
#include "store/model_registry.h"
#include "store/runs.h"

static const srv_field health_rows[] = {
    SRV_WRITTEN("status", "string", NULL, "ok, ready, or why not.", .always = true),
    {0},
};

const srv_field srv_health_answers[] = {
    SRV_GROUP("Health", health_rows, NULL, .accepts = SRV_O_OPEN), {0}};

static srv_outcome say(srv_request *req, const char *json, const char *text) {
    bool plain = req->accept == SRV_ACCEPT_TEXT;
    const char *body = plain ? text : json;
    srv_reply_set(req, 200, plain ? "text/plain; charset=utf-8" : "application/json", body,
                  strlen(body));
    srv_reply_header(req, "Cache-Control", "no-store");
    return SRV_DONE;
}

srv_outcome srv_healthz(srv_request *req) {
    return say(req, "{\"status\":\"ok\"}\n", "ok\n");
}

/* Returns the name of a setting whose directory was removed while the service uses it. NULL: no
 * directory was removed. */
static const char *lost_directory(const srv_app *app) {
    const char *lost = srv_runs_lost(app->runs);
    return lost                           ? lost
           : srv_jobs_lost(app->jobs)     ? "jobs_dir"
           : srv_models_lost(app->models) ? "models_dir"
                                          : NULL;
}

bool srv_is_ready(srv_request *req) {
    if (atomic_load_explicit(&req->app->draining, memory_order_relaxed))
        return srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
    const char *lost = lost_directory(req->app);
    return !lost ||
           srv_problem(
               req, SRV_STORAGE, NULL,
               "the directory of the setting \"%s\" was removed: make it again, and start the "
               "service anew",
               lost);
}

srv_outcome srv_readyz(srv_request *req) {
    return srv_is_ready(req) ? say(req, "{\"status\":\"ready\"}\n", "ready\n") : SRV_DONE;
}
