/* Makes and frees exchanges, runs handlers, and passes exchanges between threads. Hand-off 1
 * (`enqueue`) goes from the HTTP thread to the request threads, and hand-off 2 (`hand_back`) goes
 * back. */
#include "http/exchange.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "http/coding.h"
#include "http/negotiate.h"
#include "http/repeats.h"
#include "load/budget.h"
#include "wire/infer.h"
#include "wire/scan.h"

/* Largest reply in bytes that the HTTP thread compresses. Compression takes about 1 ms for each 100
 * KiB, and other connections wait for the HTTP thread. */
#define IN_PLACE_CODING ((size_t)65536)

/* Longest JSON in bytes that is searched for a timeout before the request is queued. */
#define PEEK_MOST ((size_t)65536)

/* If the handler took no longer than this, the reply may wait for other replies (send_soon). */
#define BRIEF_NS 200000

/* Processor time that a client is charged (load/waiting.h), in nanoseconds. */
enum {
    NS_OF_BODY_BYTE = 1, /* for each byte of a queued request's body, until the time is measured */
    NS_IN_PLACE = 5000,  /* for each request on the HTTP thread, besides the handler's time */
};

static void work_on(srv_task *task);
static void go_out(srv_request *req);

srv_exchange *srv_exchange_new(srv_daemon *daemon, srv_link *link, const char *uri) {
    const size_t length = strlen(uri), bytes = sizeof(srv_exchange) + 2 * length + 4;
    srv_exchange *x = attn_block_take(bytes);
    if (!x)
        return NULL;
    memset(x, 0, bytes);
    const char *query = strchr(uri, '?');
    if (query)
        memcpy(x->text, query + 1, strlen(query + 1));
    x->params = x->text + length + 1;
    srv_head_begin(&x->head, uri);
    x->daemon = daemon;
    x->link = link;
    atomic_init(&x->refs, 1);
    x->task.work = work_on;
    memcpy(x->client, link->client, sizeof x->client);
    x->task.client = link->client_id;
    x->req.app = daemon->app;
    x->req.query = x->text;
    x->req.start_ns = attn_now_ns();
    x->req.control.cancel = &x->req.cancel;
    x->req.go_out = go_out;
    x->req.retry_after = srv_admission_retry_text;
    return x;
}

void srv_exchange_drop(srv_exchange *x) {
    if (atomic_fetch_sub(&x->refs, 1) > 1)
        return;
    attn_arena_free(x->req.arena);
    attn_arena_free(x->lent);
    if (x->response)
        srv_reply_forget(x);
    srv_body_drop(x);
    attn_block_give(x);
}

bool srv_exchange_arena(srv_exchange *x, size_t limit) {
    if (x->req.arena && attn_arena_used(x->req.arena) == 0) {
        attn_arena_set_limit(x->req.arena, limit);
        return true;
    }
    attn_arena_free(x->req.arena);
    x->req.arena = attn_arena_new(limit);
    return x->req.arena ||
           srv_problem(&x->req, SRV_MEMORY_BUDGET, NULL, "no memory for the request is left");
}

void srv_exchange_spare(srv_exchange *x) {
    attn_arena *arena = x->req.arena;
    srv_daemon *d = x->daemon;
    x->req.arena = NULL;
    if (!arena)
        return;
    if (d->spare || attn_arena_used(arena) > (size_t)d->app->config->in_place_memory_bytes) {
        attn_arena_free(arena);
        return;
    }
    attn_arena_reset(arena);
    d->spare = arena;
}

/* Gives x the spare arena of the daemon. */
static void take_spare(srv_exchange *x) {
    srv_daemon *d = x->daemon;
    attn_arena_free(x->req.arena);
    x->req.arena = d->spare;
    d->spare = NULL;
}

/* If the handler has set no reply, which is an error of the program, sets a problem with status
 * 500. If the arena of the request was used up only because all requests together have used up the
 * memory budget, sets a problem that tells the client to retry. `refusals` is the value of
 * srv_budget_refusals before the handler ran. */
static void end_reply(srv_exchange *x, srv_outcome outcome, size_t refusals) {
    if (outcome == SRV_DEFER || x->req.reply.status == 0)
        srv_problem(&x->req, SRV_INTERNAL, NULL, "the request was not answered");
    else if (x->req.reply.problem && srv_problem_is_memory(&x->req) &&
             srv_budget_refusals() != refusals)
        srv_problem_limit(&x->req, SRV_MEMORY_BUDGET, NULL, (double)srv_budget_total(),
                          "memory_bytes",
                          "the memory of all requests is in use; try again a little later");
}

/* Runs the handler, unless the request repeats an earlier one. */
static srv_outcome run_handler(srv_exchange *x) {
    size_t place;
    if (!x->head.idempotency_key || !srv_is_post(&x->req))
        return x->match.route->run(&x->req);
    if (!srv_repeats_begin(x, &place))
        return SRV_DONE;
    const srv_outcome outcome = x->match.route->run(&x->req);
    const bool answered = outcome == SRV_DONE && !x->went_out && !x->req.later;
    srv_repeats_end(x, place, answered);
    return outcome;
}

/* Runs the handler on the HTTP thread, in an arena of at most `memory` bytes. Returns false if the
 * request must be answered on a request thread instead. */
static bool answer_in_place(srv_exchange *x, size_t memory) {
    if (x->daemon->spare)
        take_spare(x);
    if (!srv_exchange_arena(x, memory))
        return true;
    size_t refusals = srv_budget_refusals();
    x->req.in_place = true;
    srv_outcome outcome = run_handler(x);
    x->req.in_place = false;
    srv_queue_charge(x->req.app->queue, x->task.client,
                     NS_IN_PLACE + x->req.decode_ns + x->req.compute_ns + x->req.encode_ns);
    /* A request that does not fit into this small arena runs again on a request thread, where it
     * gets a large one. */
    if (outcome == SRV_DONE && x->req.reply.problem && x->match.route->place == SRV_SMALL &&
        srv_problem_is_memory(&x->req))
        outcome = SRV_DEFER;
    if (outcome == SRV_DEFER) {
        x->req.reply = (srv_reply){0};
        return false;
    }
    end_reply(x, outcome, refusals);
    return true;
}

/* Hand-off 2: resumes the connection, so that the HTTP thread sends the reply. Afterwards x may be
 * freed at any time. */
static void hand_back(srv_exchange *x) {
    struct MHD_Connection *connection = x->connection;
    if (!x->went_out)
        srv_body_drop(x);
    pthread_mutex_lock(&x->daemon->lock);
    x->link->suspended = NULL;
    x->phase = SRV_BACK;
    pthread_mutex_unlock(&x->daemon->lock);
    MHD_resume_connection(connection);
}

/* Hand-off 2 for a reply that is a stream (srv_request.go_out): the HTTP thread sends the stream
 * while the handler continues to run. The handler keeps the arena and the body. */
static void go_out(srv_request *req) {
    srv_exchange *x = (srv_exchange *)((char *)req - offsetof(srv_exchange, req));
    x->went_out = true;
    x->lent = req->arena;
    req->arena = NULL;
    atomic_fetch_add(&x->refs, 1);
    hand_back(x);
}

void srv_exchange_give_up(srv_exchange *x, srv_code code) {
    static const char *const why[] = {
        [SRV_DEADLINE] = "the time for the request ran out while it waited in the queue",
        [SRV_TIMEOUT] = "the client closed the connection",
        [SRV_DRAINING] = "the server is shutting down",
    };
    x->req.queued_ns = attn_now_ns() - x->enqueued_ns;
    srv_body_order_next(&x->daemon->order, x->req.app);
    srv_exchange_arena(x, (size_t)x->req.app->config->in_place_memory_bytes);
    const double target = (double)x->req.app->config->queue_target_ms;
    if (code == SRV_QUEUE_FULL)
        srv_problem_limit(
            &x->req, code, NULL, target, "queue_target_ms",
            "requests wait for more than queue_target_ms (%.0f ms), and this one would "
            "not have been done in time; try again a little later",
            target);
    else
        srv_problem(&x->req, code, NULL, "%s", why[code]);
    if (code == SRV_DEADLINE || code == SRV_QUEUE_FULL)
        srv_meter_add(x->req.app->meters, SRV_EXPIRED_IN_QUEUE, 1);
    hand_back(x);
}

/* Puts a long request back into the queue, where it waits until another long task may run. Its
 * handler then starts from the beginning. */
static void requeue(srv_exchange *x) {
    x->req.later = false;
    x->req.reply = (srv_reply){0};
    x->task.deadline_ns = x->req.control.deadline_ns;
    srv_queue_put_back(x->req.app->queue, &x->task);
}

/* Decodes a compressed body and runs the handler, on a request thread. Returns false if there is no
 * reply to hand back: either the reply is a stream that is already being sent (x->went_out), or the
 * request must go back into the queue (req.later). */
static bool answer_on_thread(srv_exchange *x) {
    srv_app *app = x->req.app;
    size_t refusals = srv_budget_refusals();
    attn_pool_enter(app->pool);
    srv_outcome outcome = SRV_DONE;
    if (!x->head.encoding || srv_coding_decode(x))
        outcome = run_handler(x);
    attn_pool_leave(app->pool);
    if (x->went_out || x->req.later)
        return false;
    srv_admission_learn(app->admission, &x->req, srv_queue_busy_ns());
    end_reply(x, outcome, refusals);
    if (atomic_load(&x->req.cancel) && !atomic_load(&x->gone) && x->req.reply.status >= 400)
        srv_problem(&x->req, SRV_DRAINING, NULL, "the server is shutting down");
    return true;
}

/* Implements srv_task.work: runs the request on a request thread. */
static void work_on(srv_task *task) {
    srv_exchange *x = (srv_exchange *)task;
    srv_app *app = x->req.app;
    int64_t now = attn_now_ns();
    bool back = true;
    if (atomic_load(&x->req.cancel)) {
        srv_exchange_give_up(x, atomic_load(&x->gone) ? SRV_TIMEOUT : SRV_DRAINING);
        return;
    }
    if (now > task->deadline_ns) {
        srv_exchange_give_up(x, SRV_DEADLINE);
        return;
    }
    srv_body_order_next(&x->daemon->order, app);
    x->req.queued_ns = now - x->enqueued_ns;
    srv_budget_leave(srv_admission_spare(app->admission));
    if (srv_exchange_arena(x, (size_t)app->config->max_request_bytes))
        back = answer_on_thread(x);
    if (back && x->head.accept_encoding)
        srv_coding_encode(x, SIZE_MAX);
    srv_budget_leave(0);
    if (back)
        hand_back(x);
    else if (x->went_out)
        srv_exchange_drop(x);
    else
        requeue(x);
}

/* Sets the problem that the queue is full. */
static void refuse_full(srv_exchange *x) {
    if (srv_exchange_arena(x, (size_t)x->req.app->config->in_place_memory_bytes))
        srv_problem_limit(&x->req, SRV_QUEUE_FULL, NULL, (double)x->req.app->config->queue_length,
                          "queue_length",
                          "all places in the queue are taken; try again a little later");
}

/* Returns the timeout that the body asks for, in nanoseconds; 0: none was found. Only uncompressed
 * JSON of at most PEEK_MOST bytes is searched; the timeout of other bodies is known when they are
 * decoded. */
static int64_t asked_ns(const srv_exchange *x) {
    const srv_request *req = &x->req;
    size_t size = req->body_size;
    const bool infer = x->match.route->open_inference;
    if (x->head.encoding || (!infer && (req->infer_header || !srv_type_is_json(req->content_type))))
        return 0;
    if (infer && req->infer_header &&
        (!srv_infer_lead(req->infer_header, &size) || size > req->body_size))
        return 0;
    if (size > PEEK_MOST)
        return 0;
    return infer ? srv_scan_infer_timeout(req->body, size) * 1000
                 : srv_scan_timeout(req->body, size) * 1000000;
}

/* Sets the deadline of the request from the timeout in its body. This is done before the request is
 * queued, because the timeout includes the time in the queue. */
static void set_own_deadline(srv_exchange *x) {
    const int64_t by = x->req.start_ns + asked_ns(x);
    if (by > x->req.start_ns)
        srv_request_finish_by(&x->req, by);
}

/* Refuses x, which was taken out of the full queue to make room for a request of another client. */
static void refuse_displaced(srv_exchange *x) {
    x->req.queued_ns = attn_now_ns() - x->enqueued_ns;
    refuse_full(x);
    hand_back(x);
}

/* Hand-off 1: suspends the connection and puts x into the queue, in this order, because the request
 * may have been answered before srv_queue_push returns. */
static enum MHD_Result enqueue(srv_exchange *x) {
    srv_queue *queue = x->req.app->queue;
    srv_task *out;
    if (!x->task.promised && !srv_queue_has_room(queue, x->task.client)) {
        refuse_full(x);
        return srv_exchange_send(x);
    }
    set_own_deadline(x);
    x->task.paid_ns = (int64_t)(x->req.body_size * NS_OF_BODY_BYTE);
    x->task.deadline_ns = x->req.control.deadline_ns;
    x->enqueued_ns = attn_now_ns();
    pthread_mutex_lock(&x->daemon->lock);
    x->phase = SRV_AWAY;
    x->link->suspended = x;
    pthread_mutex_unlock(&x->daemon->lock);
    MHD_suspend_connection(x->connection);
    if (!srv_queue_push(queue, &x->task, &out)) {
        refuse_full(x);
        hand_back(x);
    }
    if (out)
        refuse_displaced((srv_exchange *)out);
    return MHD_YES;
}

/* Sends the reply of a request that was answered on the HTTP thread, now or a little later.
 *
 * The HTTP thread works in rounds: it first handles all connections that are ready. A reply that
 * was made quickly is sent in the next round, together with the replies to other connections of the
 * present round. A client with many connections is then woken once for many replies, and waking it
 * is a large part of the cost of a small request. If there is only one connection, or the reply
 * took long, it is sent at once.
 *
 * MHD_YES without a queued response makes libmicrohttpd call on_request again in the next round. */
static enum MHD_Result send_soon(srv_exchange *x) {
    const srv_request *req = &x->req;
    if (!x->daemon->links->next || req->decode_ns + req->compute_ns + req->encode_ns > BRIEF_NS)
        return srv_exchange_send(x);
    srv_reply_ahead(x);
    x->phase = SRV_BACK;
    return MHD_YES;
}

enum MHD_Result srv_exchange_answer(srv_exchange *x) {
    const srv_config *config = x->req.app->config;
    const srv_route *route = x->match.route;
    if (!srv_body_end(x))
        return MHD_NO;
    x->req.if_none_match = x->head.if_none_match;
    x->req.control.deadline_ns = attn_now_ns() + config->request_timeout_ms * 1000000;
    bool done = false;
    if (route->place == SRV_HERE)
        done = answer_in_place(x, (size_t)config->max_request_bytes);
    else if (route->place == SRV_SMALL && !x->head.encoding &&
             x->req.body_size <= (size_t)config->in_place_bytes)
        done = answer_in_place(x, (size_t)config->in_place_memory_bytes);
    if (done && x->head.accept_encoding)
        srv_coding_encode(x, IN_PLACE_CODING);
    enum MHD_Result queued = done ? send_soon(x) : enqueue(x);
    srv_body_pass_on(x);
    return queued;
}
