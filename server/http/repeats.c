#include "http/repeats.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/secret.h"
#include "http/exchange.h"

typedef struct entry {
    srv_digest key;     /* digest of the owner and the Idempotency-Key */
    srv_digest request; /* digest of the request that came with the key */
    int64_t until_ns;   /* when the entry is forgotten; 0: the entry is unused */
    uint64_t number;    /* entries that began earlier have smaller numbers */
    bool running;       /* the request is not answered yet */
    srv_reply *answer;  /* the kept reply, in one block with its texts; NULL: there is none yet */
    size_t bytes;       /* size of this block */
} entry;

struct srv_repeats {
    pthread_mutex_t lock;
    srv_digest salt;
    uint64_t next; /* number of the next entry */
    size_t bytes;  /* bytes of all kept answers together */
    entry entries[SRV_REPEAT_KEYS];
};

srv_repeats *srv_repeats_new(void) {
    srv_repeats *r = calloc(1, sizeof *r);
    if (r && srv_secret_salt(&r->salt)) {
        pthread_mutex_init(&r->lock, NULL);
        return r;
    }
    free(r);
    return NULL;
}

static void forget(srv_repeats *r, entry *e) {
    r->bytes -= e->bytes;
    free(e->answer);
    *e = (entry){0};
}

void srv_repeats_free(srv_repeats *r) {
    if (!r)
        return;
    for (size_t i = 0; i < SRV_REPEAT_KEYS; i++)
        forget(r, &r->entries[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* --- digests --- */

/* Adds a text and its NUL to the digest. */
static bool add(const srv_repeats *r, srv_digest *digest, const char *text, size_t size) {
    srv_digest both[2] = {*digest};
    return srv_secret_digest(&r->salt, text ? text : "", text ? size : 0, &both[1]) &&
           srv_secret_digest(&r->salt, (const char *)both, sizeof both, digest);
}

static bool add_text(const srv_repeats *r, srv_digest *digest, const char *text) {
    return add(r, digest, text, text ? strlen(text) : 0);
}

static bool digest_key(const srv_repeats *r, const srv_exchange *x, srv_digest *digest) {
    memset(digest, 0, sizeof *digest);
    return add_text(r, digest, x->req.owner) && add_text(r, digest, x->head.idempotency_key);
}

/* Computes the digest of the request: path, query, types and body. Of a body that went to an intake
 * only the length is known. false: the digest could not be computed. */
static bool digest_request(const srv_repeats *r, const srv_exchange *x, srv_digest *digest) {
    const srv_request *req = &x->req;
    const uint64_t taken = x->body.has_intake ? x->body.incoming.received : 0;
    memset(digest, 0, sizeof *digest);
    return add_text(r, digest, req->path) && add_text(r, digest, req->query) &&
           add_text(r, digest, req->content_type) &&
           add(r, digest, (const char *)&req->accept, sizeof req->accept) &&
           add(r, digest, (const char *)&taken, sizeof taken) &&
           add(r, digest, req->body, req->body_size);
}

/* --- the table, under its lock --- */

static entry *find(srv_repeats *r, const srv_digest *key) {
    for (size_t i = 0; i < SRV_REPEAT_KEYS; i++)
        if (r->entries[i].until_ns && !memcmp(&r->entries[i].key, key, sizeof *key))
            return &r->entries[i];
    return NULL;
}

static void forget_old(srv_repeats *r) {
    const int64_t now = attn_now_ns();
    for (size_t i = 0; i < SRV_REPEAT_KEYS; i++)
        if (!r->entries[i].running && r->entries[i].until_ns && r->entries[i].until_ns <= now)
            forget(r, &r->entries[i]);
}

/* Forgets the oldest entry that has an answer, and returns this entry, which is now unused. NULL:
 * no entry has an answer, because all requests are running. */
static entry *forget_oldest(srv_repeats *r) {
    entry *oldest = NULL;
    for (size_t i = 0; i < SRV_REPEAT_KEYS; i++) {
        entry *e = &r->entries[i];
        if (e->answer && (!oldest || e->number < oldest->number))
            oldest = e;
    }
    if (oldest)
        forget(r, oldest);
    return oldest;
}

static entry *free_place(srv_repeats *r) {
    for (size_t i = 0; i < SRV_REPEAT_KEYS; i++)
        if (!r->entries[i].until_ns)
            return &r->entries[i];
    return forget_oldest(r);
}

/* --- answers --- */

static bool made_something(const srv_reply *reply) {
    return reply->status == 201 || reply->status == 202 ||
           (reply->status == 200 && srv_reply_find(reply, "X-Run-Id"));
}

static size_t text_bytes(const char *text) {
    return text ? strlen(text) + 1 : 0;
}

/* Returns the size in bytes of a block for the reply and everything that the reply points to. */
static size_t reply_bytes(const srv_reply *reply) {
    size_t bytes = sizeof *reply + reply->size + text_bytes(reply->type);
    for (size_t i = 0; i < reply->header_count; i++)
        bytes += text_bytes(reply->headers[i].name) + text_bytes(reply->headers[i].value);
    return bytes;
}

static const char *append_bytes(char **to, const void *data, size_t size) {
    const char *from = memcpy(*to, data, size);
    *to += size;
    return from;
}

static const char *append_text(char **to, const char *text) {
    return text ? append_bytes(to, text, strlen(text) + 1) : NULL;
}

/* Copies the reply into a block of reply_bytes bytes. A body in pieces becomes one piece. */
static srv_reply *copy_reply(void *block, const srv_reply *reply) {
    srv_reply *copy = block;
    char *to = (char *)(copy + 1);
    *copy = (srv_reply){.status = reply->status, .size = reply->size};
    copy->type = append_text(&to, reply->type);
    for (size_t i = 0; i < reply->header_count; i++)
        copy->headers[copy->header_count++] = (srv_header){
            append_text(&to, reply->headers[i].name), append_text(&to, reply->headers[i].value)};
    copy->body = to;
    if (!reply->pieces)
        append_bytes(&to, reply->body, reply->size);
    for (size_t i = 0; reply->pieces && i < reply->piece_count; i++)
        append_bytes(&to, reply->pieces[i].data, reply->pieces[i].size);
    return copy;
}

/* Keeps the reply in the entry. A reply of more than SRV_REPEAT_ANSWER bytes that stored a run is
 * kept as "303 See Other" with the address of the run. Returns false if memory ran out. */
static bool keep_reply(srv_repeats *r, entry *e, const srv_reply *reply) {
    srv_reply other = {.status = 303, .body = ""};
    char address[64];
    if (reply->size > SRV_REPEAT_ANSWER) {
        const char *run = srv_reply_find(reply, "X-Run-Id");
        snprintf(address, sizeof address, "/v1/runs/%s", run ? run : "");
        other.headers[other.header_count++] = (srv_header){"Location", address};
        reply = &other;
    }
    const size_t bytes = reply_bytes(reply);
    void *block = malloc(bytes);
    if (!block)
        return false;
    e->answer = copy_reply(block, reply);
    e->bytes = bytes;
    e->running = false;
    e->until_ns = attn_now_ns() + SRV_REPEAT_HOURS * INT64_C(3600000000000);
    r->bytes += bytes;
    while (r->bytes > SRV_REPEAT_ANSWERS)
        forget_oldest(r);
    return true;
}

static void answer_again(srv_exchange *x, const entry *e) {
    void *block = attn_arena_take(x->req.arena, e->bytes);
    if (!block) {
        srv_problem_memory(&x->req, NULL, "the answer to the first request with this key");
        return;
    }
    x->req.reply = *copy_reply(block, e->answer);
    srv_reply_header(&x->req, "Idempotent-Replayed", "true");
}

/* Sets the reply to a request whose key is in the table: the kept answer, or a problem. */
static void answer_known(srv_exchange *x, const entry *e, const srv_digest *request) {
    if (memcmp(&e->request, request, sizeof *request))
        srv_problem(&x->req, SRV_KEY_REUSED, NULL,
                    "this Idempotency-Key came with another request before: use a new key");
    else if (e->running)
        srv_problem(&x->req, SRV_KEY_BUSY, NULL,
                    "the first request with this Idempotency-Key is not answered yet: ask again");
    else
        answer_again(x, e);
}

/* Puts the key of x into the table, at *place. Returns false if the reply is set instead. */
static bool enter_key(srv_repeats *r, srv_exchange *x, const srv_digest *key,
                      const srv_digest *request, size_t *place) {
    forget_old(r);
    entry *e = find(r, key);
    if (e) {
        answer_known(x, e, request);
        return false;
    }
    e = free_place(r);
    if (!e)
        return srv_problem(
            &x->req, SRV_QUEUE_FULL, NULL,
            "%d requests with an Idempotency-Key are under way, as many as are allowed",
            SRV_REPEAT_KEYS);
    *e = (entry){.key = *key,
                 .request = *request,
                 .until_ns = INT64_MAX,
                 .number = r->next++,
                 .running = true};
    *place = (size_t)(e - r->entries);
    return true;
}

bool srv_repeats_begin(srv_exchange *x, size_t *place) {
    srv_repeats *r = x->req.app->repeats;
    srv_digest key, request;
    if (!digest_key(r, x, &key) || !digest_request(r, x, &request))
        return srv_problem(&x->req, SRV_INTERNAL, NULL,
                           "the digest of the request cannot be computed");
    pthread_mutex_lock(&r->lock);
    const bool runs = enter_key(r, x, &key, &request, place);
    pthread_mutex_unlock(&r->lock);
    return runs;
}

void srv_repeats_end(const srv_exchange *x, size_t place, bool answered) {
    srv_repeats *r = x->req.app->repeats;
    entry *e = &r->entries[place];
    pthread_mutex_lock(&r->lock);
    if (!answered || !made_something(&x->req.reply) || !keep_reply(r, e, &x->req.reply))
        forget(r, e);
    pthread_mutex_unlock(&r->lock);
}
