/* Jobs that do the work of one request. The handler of the route runs again, with a request that
 * this file makes. It keeps its answer with a stored run (the kind look), or it stores a run (the
 * kind store). In this file both kinds are called looks. Looks have a thread of their own, so that
 * none waits for a training. Like requests, and unlike other jobs, they take memory when they need
 * it and compute on the pool of workers. Other work in the pool has priority. Looks are not written
 * to jobs_dir, so after a restart a client has to send its request again. */
#include "jobs/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "http/negotiate.h"
#include "load/admission.h"
#include "load/queue.h"
#include "request/shared.h"

enum {
    LOOKS_MOST = 64, /* largest number of unfinished looks, and of ended looks that are kept */
    ENDED_S = 600,   /* time for which an ended look is kept */
    TYPE_TEXT = 64,  /* buffer size of a media type */
};

struct srv_job_look {
    srv_outcome (*run)(srv_request *); /* the handler */
    char *path, *query, *type, *param; /* of the request; `text` holds these and the next two */
    char *key;                         /* key of the order (srv_job_order); NULL: none */
    char *token;                       /* read token of the run that a look is about; "": none */
    srv_kept_body body;                /* body of the request of a store */
    unsigned accept;                   /* the media type of the answer */
    size_t route;                      /* the `route` of the request */
    double bytes;                      /* bytes of memory that the handler will take */
    bool unwanted;                     /* cancelled because no client asked for it any more */
    int64_t asked_ns;                  /* when a client last asked for it */
    int64_t turn;                      /* when it began to run (attn_now_ns); -1: it has not */
    char text[];
};

/* --- functions for the store of jobs; the caller has the lock --- */

void srv_look_drop_body(srv_job_entry *e) {
    if (e->look)
        srv_admission_forget(e->jobs->app->admission, &e->look->body);
}

void srv_look_free(srv_job_entry *e) {
    srv_look_drop_body(e);
    free(e->look);
}

void srv_look_ask(srv_job_entry *e) {
    if (e->look)
        e->look->asked_ns = attn_now_ns();
}

bool srv_look_opens(const srv_job_entry *e, const srv_request *req) {
    return srv_request_opens(req, e->look ? e->look->token : NULL);
}

static bool stores_run(const srv_job_entry *e) {
    return e->body.kind == SRV_JOB_STORE;
}

void srv_look_put_request(attn_json_text *j, const srv_job_entry *e) {
    char type[TYPE_TEXT];
    const struct {
        const char *name, *value;
    } members[] = {
        {"run", stores_run(e) ? NULL : e->look->param},
        {"path", e->look->path},
        {"query", e->look->query},
        {"content_type", stores_run(e) ? e->look->type : NULL},
        {"accept", stores_run(e) ? NULL : srv_accept_names(e->look->accept, type, sizeof type)}};
    attn_json_object(j);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!members[i].value)
            continue;
        attn_json_key_string(j, members[i].name, members[i].value);
    }
    attn_json_object_end(j);
}

void srv_look_result(const srv_job_entry *e, char text[SRV_LOOK_RESULT]) {
    const bool done = e->look && e->facts.state == SRV_JOB_DONE;
    if (done && stores_run(e))
        snprintf(text, SRV_LOOK_RESULT, "/v1/runs/%s", e->run_id);
    else
        snprintf(text, SRV_LOOK_RESULT, "%s%s%s", done ? e->look->path : "",
                 done && *e->look->query ? "?" : "", done ? e->look->query : "");
}

static bool is_ended(const srv_job_entry *e) {
    return e->look && e->facts.state > SRV_JOB_RUNNING;
}

static void say_unwanted(srv_job_entry *e) {
    srv_job_set_error(e, "async_idle_ms", "nobody asked for the job any more");
}

/* Cancels a look if no client has asked for it, or followed its events, for longer than
 * async_idle_ms. */
static void drop_unwanted(srv_job_entry *e, int64_t now_ns) {
    if (e->readers)
        e->look->asked_ns = now_ns;
    if (now_ns - e->look->asked_ns <= e->jobs->config->async_idle_ms * 1000000)
        return;
    e->look->unwanted = true;
    if (e->facts.state == SRV_JOB_QUEUED)
        say_unwanted(e);
    srv_job_cancel(e);
}

void srv_looks_tick(srv_jobs *jobs, int64_t now_ns) {
    const int64_t oldest_ms = srv_job_now_ms() - ENDED_S * 1000;
    size_t ended = 0;
    for (const srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held))
        ended += is_ended(e);
    for (srv_job_entry *e = srv_held_first(&jobs->list), *next; e; e = next) {
        next = srv_held_next(&e->held);
        if (e->look && !is_ended(e))
            drop_unwanted(e, now_ns);
        if (!is_ended(e) || (ended <= LOOKS_MOST && e->facts.ended_ms >= oldest_ms))
            continue;
        srv_job_list_out(jobs, e);
        if (!e->held.holds)
            srv_job_free(e);
        ended--;
    }
}

/* --- the run --- */

static void tell_progress(void *ctx, double done) {
    srv_job_entry *e = ctx;
    pthread_mutex_lock(&e->jobs->lock);
    if (done > e->facts.progress) { /* threads may report out of order */
        srv_job_set_progress(e, done);
        srv_job_tell_share(e);
    }
    pthread_mutex_unlock(&e->jobs->lock);
}

/* If the reply names a run, sets the run of the job to it and returns true. */
static bool take_run(srv_job_entry *e, const srv_reply *reply) {
    for (size_t i = 0; i < reply->header_count && reply->status == 200; i++) {
        if (strcmp(reply->headers[i].name, "X-Run-Id") != 0)
            continue;
        pthread_mutex_lock(&e->jobs->lock);
        srv_job_set_run(e, reply->headers[i].value);
        pthread_mutex_unlock(&e->jobs->lock);
        return true;
    }
    return false;
}

/* Runs the handler. Returns the status of the job, which follows from the reply. Sets *again to
 * true if memory was short and the look must wait and run again. A store whose run was already
 * computed does not run again. */
static attn_status answer_request(srv_job_entry *e, srv_request *req, bool *again,
                                  attn_error *err) {
    srv_app *app = e->jobs->app;
    attn_pool_enter(app->pool);
    e->look->run(req);
    attn_pool_leave(app->pool);
    const int status = req->reply.status;
    srv_admission_learn(app->admission, req, srv_queue_busy_ns());
    *again = req->reply.problem == 1 + (unsigned)SRV_MEMORY_BUDGET &&
             !(stores_run(e) && req->compute_ns);
    if (take_run(e, &req->reply)) /* the run exists, even if the job was to stop */
        return ATTN_OK;
    if (atomic_load(&e->stop) != JOB_GO_ON)
        return ATTN_ECANCELED;
    if (status == 504)
        return ATTN_EDEADLINE;
    if (status == 200)
        return ATTN_OK;
    return attn_fail(err, ATTN_EARG, req->reply.setting ? req->reply.setting : "", "%s",
                     req->reply.detail ? req->reply.detail : "memory ran out");
}

static attn_status run_handler(srv_job_entry *e, bool *again, attn_error *err) {
    const srv_app *app = e->jobs->app;
    const struct srv_job_look *look = e->look;
    attn_progress progress = {.tell = tell_progress, .ctx = e, .to = 1};
    srv_request req = {
        .app = e->jobs->app,
        .arena = attn_arena_new((size_t)app->config->max_request_bytes),
        .method = stores_run(e) ? "POST" : "GET",
        .path = look->path,
        .params = {look->param},
        .id = e->id,
        .query = look->query,
        .content_type = look->type,
        .body = look->body.block ? look->body.body : "",
        .body_size = look->body.size,
        .owner = *e->owner ? e->owner : NULL,
        .accept = look->accept,
        .wait_s = -1,
        .control = {.deadline_ns = attn_now_ns() + app->config->jobs_time_ms * 1000000,
                    .cancel = &e->cancel,
                    .progress = &progress},
        .is_job = true,
        .route = look->route,
        .start_ns = attn_now_ns(),
    };
    *again = !req.arena;
    const attn_status status = req.arena ? answer_request(e, &req, again, err) : ATTN_ENOMEM;
    attn_arena_free(req.arena);
    return status;
}

/* Sets the state of a look whose handler has returned `status`. The caller has the lock. */
static void settle_look(srv_job_entry *e, attn_status status, bool again, const attn_error *err) {
    if (again && status != ATTN_ECANCELED) {
        e->facts.state = SRV_JOB_QUEUED;
        return;
    }
    if (e->look->unwanted && status == ATTN_ECANCELED)
        say_unwanted(e);
    srv_job_settle(e, status, err);
}

/* Returns the latest time at which a look of the owner began to run (attn_now_ns), among the looks
 * in the list of jobs. -1: none of these has begun. */
static int64_t last_turn(const srv_jobs *jobs, const char *owner) {
    int64_t last = -1;
    for (const srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held))
        if (e->look && e->look->turn > last && strcmp(e->owner, owner) == 0)
            last = e->look->turn;
    return last;
}

/* Returns the queued look to run next. It is the oldest look of the owner whose latest look began
 * to run longest ago, so that no owner keeps the others waiting. Skips looks whose memory is not
 * free now, because they may be waiting for memory that later looks hold for their bodies. Sets
 * *waits to whether a look was skipped. NULL: there is no look to run. The caller has the lock. */
static srv_job_entry *next_look(srv_jobs *jobs, bool *waits) {
    srv_job_entry *first = NULL;
    int64_t longest = INT64_MAX;
    *waits = false;
    srv_budget_leave(srv_admission_spare(jobs->app->admission));
    for (srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held)) {
        if (!e->look || e->facts.state != SRV_JOB_QUEUED)
            continue;
        const bool fits = e->look->bytes <= (double)srv_budget_free();
        *waits |= !fits;
        if (!fits)
            continue;
        const int64_t turn = last_turn(jobs, e->owner);
        if (turn >= longest)
            continue;
        longest = turn;
        first = e;
    }
    return first;
}

static void run_look(srv_jobs *jobs, srv_job_entry *e) {
    bool again;
    attn_error err = {0};
    e->held.holds++;
    e->look->turn = attn_now_ns();
    srv_job_set_state(e, SRV_JOB_RUNNING);
    pthread_mutex_unlock(&jobs->lock);
    const attn_status status = run_handler(e, &again, &err);
    pthread_mutex_lock(&jobs->lock);
    settle_look(e, status, again, &err);
    srv_job_wake(e);
    pthread_cond_broadcast(&jobs->changed);
    if (e->facts.state == SRV_JOB_QUEUED)
        srv_jobs_wait_a_little(jobs);
    if (srv_held_let_go(&e->held))
        srv_job_free(e);
}

void *srv_look_thread(void *argument) {
    srv_jobs *jobs = argument;
    attn_pool_be_patient(attn_now_ns());
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->stopping) {
        bool waits;
        srv_job_entry *e = next_look(jobs, &waits);
        if (e)
            run_look(jobs, e);
        else if (waits)
            srv_jobs_wait_a_little(jobs);
        else
            pthread_cond_wait(&jobs->changed, &jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* --- orders --- */

static char *put_text(char **to, const char *text) {
    char *at = *to;
    const size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    *to += size;
    return at;
}

static struct srv_job_look *look_of(const srv_request *req, const srv_job_order *order) {
    const char *param = req->params[0] ? req->params[0] : "", *key = order->key ? order->key : "",
               *token = order->token ? order->token : "";
    const size_t bytes = strlen(req->path) + strlen(order->query) + strlen(req->content_type) +
                         strlen(param) + strlen(key) + strlen(token) + 6;
    struct srv_job_look *look = calloc(1, sizeof *look + bytes);
    if (!look || (order->stores && !srv_admission_keep(req->app->admission, req->body,
                                                       req->body_size, &look->body))) {
        free(look);
        return NULL;
    }
    char *to = look->text;
    look->run = order->run;
    look->path = put_text(&to, req->path);
    look->query = put_text(&to, order->query);
    look->type = put_text(&to, req->content_type);
    look->param = put_text(&to, param);
    look->key = order->key ? put_text(&to, key) : NULL;
    look->token = put_text(&to, token);
    look->accept = req->accept;
    look->route = req->route;
    look->bytes = order->bytes + (double)attn_arena_used(req->arena);
    look->asked_ns = attn_now_ns();
    look->turn = -1;
    return look;
}

/* Returns the waiting or running look of the owner with this key. NULL: there is none, or `key` is
 * NULL. Sets *count to the number of looks that wait or run, and *own to how many of these belong
 * to the owner. The caller has the lock. */
static srv_job_entry *find_look(const srv_jobs *jobs, const char *owner, const char *key,
                                size_t *count, size_t *own) {
    srv_job_entry *found = NULL;
    *count = *own = 0;
    for (srv_job_entry *e = srv_held_first(&jobs->list); e; e = srv_held_next(&e->held)) {
        if (!e->look || is_ended(e))
            continue;
        ++*count;
        if (strcmp(e->owner, owner) != 0)
            continue;
        ++*own;
        if (key && e->look->key && strcmp(e->look->key, key) == 0 &&
            atomic_load(&e->stop) == JOB_GO_ON)
            found = e;
    }
    return found;
}

/* Checks that the look `fresh` may be added. `count` looks wait or run, and `own` of these belong
 * to its owner. At most LOOKS_MOST looks may wait or run. With API keys, an owner must also have
 * fewer looks than there are places left, so that places remain for other owners. false: a problem
 * is set. */
static bool has_place(srv_request *req, const srv_job_entry *fresh, size_t count, size_t own) {
    if (count < LOOKS_MOST && (!*fresh->owner || own < LOOKS_MOST - count))
        return true;
    if (count < LOOKS_MOST)
        return srv_problem(
            req, SRV_QUEUE_FULL, NULL,
            "%zu jobs for requests of this API key run or wait already, and a key may have "
            "as many as there are places left: %zu of %d; try again a little later",
            own, LOOKS_MOST - count, LOOKS_MOST);
    return srv_problem(req, SRV_QUEUE_FULL, NULL,
                       "%d jobs for requests run or wait already; try again a little later",
                       LOOKS_MOST);
}

/* Finds the look that the owner of `fresh` has ordered with the same key, or else adds `fresh` to
 * the list. Holds it and returns it. NULL: a problem is set. The caller has the lock. */
static srv_job_entry *find_or_add(srv_request *req, srv_jobs *jobs, srv_job_entry *fresh) {
    size_t count, own;
    srv_job_entry *e = find_look(jobs, fresh->owner, fresh->look->key, &count, &own);
    if (!e && jobs->stopping) {
        srv_problem(req, SRV_DRAINING, NULL, "the server is shutting down");
        return NULL;
    }
    if (!e && !has_place(req, fresh, count, own))
        return NULL;
    if (!e) {
        e = fresh;
        srv_job_list_in(jobs, e);
        srv_job_tell_state(e);
        pthread_cond_broadcast(&jobs->changed);
    }
    e->held.holds++;
    srv_look_ask(e);
    return e;
}

srv_job_entry *srv_jobs_order(srv_request *req, const srv_job_order *order) {
    srv_jobs *jobs = req->app->jobs;
    srv_job_body body;
    srv_job_defaults(&body);
    body.kind = order->stores ? SRV_JOB_STORE : SRV_JOB_LOOK;
    struct srv_job_look *look = look_of(req, order);
    srv_job_entry *fresh = look ? srv_job_new(req, &body) : NULL;
    if (!fresh) {
        if (look)
            srv_admission_forget(req->app->admission, &look->body);
        free(look);
        srv_problem_limit(req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(), "memory_bytes",
                          "no memory for the job, which would keep the body, is free now; try "
                          "again a little later");
        return NULL;
    }
    fresh->look = look;
    pthread_mutex_lock(&jobs->lock);
    srv_job_entry *e = find_or_add(req, jobs, fresh);
    pthread_mutex_unlock(&jobs->lock);
    if (e != fresh)
        srv_job_free(fresh);
    return e;
}
