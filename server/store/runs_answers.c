/* Keeps answers about runs, either in memory with the entry of the run, or in the file <id>.kept
 * beside the file of the run. <id>.kept is read anew for each request, because other daemons may
 * have written it. */
#include "store/answers.h"
#include "store/runs_table.h"

/* Copies an answer into the request's arena. false: memory ran out. */
static bool copy_answer(srv_request *req, srv_run_answer *a) {
    a->type = attn_arena_text(req->arena, a->type, a->type_size);
    a->body = a->type ? attn_arena_text(req->arena, a->body, a->size) : NULL;
    return a->body != NULL;
}

bool srv_run_recall(srv_request *req, const srv_run *run, const char *key, srv_run_answer *out) {
    srv_runs *s = req->app->runs;
    const srv_runs_entry *e = run->entry;
    if (run->open)
        return false;
    if (s->has_dir) {
        size_t size;
        void *image = srv_runs_dir_answers(&s->dir, run->id, run->print, &size);
        const bool found = srv_answers_find(image, size, key, out) && copy_answer(req, out);
        attn_free(image);
        return found;
    }
    pthread_mutex_lock(&s->lock);
    const bool found =
        srv_answers_find(e->answers, e->answers_size, key, out) && copy_answer(req, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Keeps the answer in the file beside the run. The thread leaves the worker pool meanwhile, so that
 * another request can compute while the disk is slow. */
static bool remember_in_dir(srv_request *req, const srv_run *run, const char *key,
                            const srv_run_answer *answer) {
    attn_pool *pool = srv_request_pool(req);
    srv_runs_dir *dir = &req->app->runs->dir;
    size_t old_size, size;
    attn_pool_leave(pool);
    void *old = srv_runs_dir_answers(dir, run->id, run->print, &old_size);
    void *image = srv_answers_add(old, old_size, run->print, key, answer, &size);
    const bool kept = image && !srv_runs_dir_put_answers(dir, run->id, image, size);
    attn_pool_enter(pool);
    attn_free(old);
    attn_free(image);
    return kept;
}

static bool remember_in_memory(srv_runs *s, srv_runs_entry *e, const char *key,
                               const srv_run_answer *answer) {
    size_t size;
    pthread_mutex_lock(&s->lock);
    void *image = srv_answers_add(e->answers, e->answers_size, e->run.print, key, answer, &size);
    const bool kept = image && srv_runs_swap_answers(s, e, &image, size);
    pthread_mutex_unlock(&s->lock);
    attn_free(image);
    return kept;
}

bool srv_run_remember(srv_request *req, const srv_run *run, const char *key,
                      const srv_run_answer *answer) {
    srv_runs *s = req->app->runs;
    if (run->open)
        return false;
    return s->has_dir ? remember_in_dir(req, run, key, answer)
                      : remember_in_memory(s, run->entry, key, answer);
}
