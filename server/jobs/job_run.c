/* The stored run of a training job: a pass of its best model over the first pair of the validation
 * set. */
#include <string.h>

#include "base/try.h"
#include "jobs/job.h"
#include "jobs/train_run.h"
#include "request/shared.h"
#include "store/run_plan.h"

enum { STORE_BYTES = 1 << 20 }; /* arena limit of the request that stores the run */

static attn_status no_memory(attn_error *err) {
    return attn_fail(err, ATTN_ENOMEM, "store", "no memory left for the run of the best model");
}

/* Makes a text from the `n` ids in `from`. If `first` is not negative, this id comes in front.
 * false: memory ran out, or an id has no token. */
static bool make_run_text(const attn_model_config *config, const attn_tokenizer *words,
                          int32_t first, const int32_t *from, size_t n, attn_arena *arena,
                          attn_run_text *out) {
    const size_t begins = first >= 0;
    const char **tokens;
    int64_t *ids;
    if (!srv_run_plan_text(n + begins, arena, out, &tokens, &ids))
        return false;
    for (size_t i = 0; i < n + begins; i++) {
        ids[i] = i < begins ? first : from[i - begins];
        tokens[i] = attn_tokenizer_token(words, (int32_t)ids[i]);
        if (!tokens[i])
            return false;
    }
    srv_run_plan_mark(config, out);
    return true;
}

/* Describes the run of the attention sites out->sites. A pass over a batch with one pair has filled
 * these sites. */
static attn_status describe_run(const attn_model *model, const srv_train_run *run, const char *name,
                                const attn_batch *batch, const attn_model_outputs *out,
                                attn_arena *arena, attn_run_source *source, attn_error *err) {
    const attn_model_config *config = attn_model_configuration(model);
    srv_run_plan plan;
    if (!srv_run_plan_new(&plan, name, config, 1, arena) ||
        (attn_model_has_encoder(config) &&
         !make_run_text(config, run->file.source, -1, batch->source, batch->S, arena,
                        &plan.texts[plan.source[0]])) ||
        (attn_model_has_decoder(config) &&
         !make_run_text(config, run->file.target, config->begin, batch->expected, batch->T, arena,
                        &plan.texts[plan.target[0]])))
        return no_memory(err);
    plan.source_lengths[0] = (int64_t)batch->S;
    plan.rows[0] = plan.read[0] = (int64_t)batch->T;
    plan.start = 1; /* row 0 is named after the first token behind the begin token */
    return srv_run_plan_source(&plan, out->sites, out->site_count, arena, source) ? ATTN_OK
                                                                                  : no_memory(err);
}

/* Computes the run of the model over the first validation pair and makes its image in the arena. */
static attn_status make_image(const srv_job_entry *e, const attn_model *model,
                              const srv_train_run *run, const char *name, attn_arena *arena,
                              attn_run_image *image, attn_error *err) {
    static const size_t pair = 0;
    const attn_forward_options options = {.keep = ATTN_KEEP_OPERATIONS};
    attn_metadata metadata[2];
    attn_batch batch;
    attn_model_outputs out;
    attn_run_source source;
    ATTN_TRY(attn_dataset_batch(&run->validation, &pair, 1, arena, &batch, err));
    ATTN_TRY(attn_model_forward(model, &batch, &options, arena, NULL, NULL, &out, err));
    ATTN_TRY(describe_run(model, run, name, &batch, &out, arena, &source, err));
    if (!srv_run_metadata_of(*e->owner ? e->owner : NULL, arena, metadata, &source.metadata_count))
        return no_memory(err);
    source.metadata = metadata;
    return attn_run_image_new(&source, NULL, NULL, arena, image, err);
}

/* If `id` is not NULL, sets the run of the job to the run with this id. If `id` is NULL, reports
 * that there is no run: `text` becomes the error of the job and is logged, and an event has
 * `code`. */
static void settle_run(srv_job_entry *e, const char *id, const char *code, const char *text) {
    char line[128];
    if (!id)
        srv_log_event(e->jobs->log, SRV_LOG_WARN, "the run of %s is not stored: %.250s", e->id,
                      text);
    pthread_mutex_lock(&e->jobs->lock);
    if (id) {
        srv_job_set_run(e, id);
    } else {
        srv_job_set_error(e, "its run is not stored", text);
        snprintf(line, sizeof line, "the run is not stored: %s", code);
        srv_job_tell_line(e, line);
    }
    pthread_mutex_unlock(&e->jobs->lock);
}

/* Stores the image. srv_run_store reads the owner from a request and sets its problem there.
 * Therefore this function makes a request. */
static void store_image(srv_job_entry *e, const attn_run_image *image) {
    attn_arena *arena = attn_arena_new(STORE_BYTES);
    srv_request req = {.app = e->jobs->app,
                       .arena = arena,
                       .id = e->id,
                       .owner = *e->owner ? e->owner : NULL,
                       .is_job = true,
                       .in_place = true};
    const srv_run *run = arena ? srv_run_store(&req, image) : NULL;
    const bool told = !run && req.reply.problem && req.reply.detail;
    settle_run(e, run ? run->id : NULL,
               srv_code_name(told ? (srv_code)(req.reply.problem - 1) : SRV_MEMORY_BUDGET),
               told ? req.reply.detail : "memory ran out");
    srv_run_release(&req, run);
    attn_arena_free(arena);
}

void srv_job_store(srv_job_entry *e, const attn_model *model, const srv_train_run *run,
                   const char *name, srv_reserve *reserve) {
    attn_arena *arena = attn_arena_new(e->bytes);
    attn_run_image image;
    attn_error err = {0};
    const attn_status status =
        arena ? make_image(e, model, run, name, arena, &image, &err) : no_memory(&err);
    if (status) {
        settle_run(e, NULL, "it cannot be computed", err.text);
    } else {
        /* Other threads will free the memory that the store allocates. Therefore it must not count
         * in the reserve. */
        srv_budget_enter(NULL);
        store_image(e, &image);
        srv_budget_enter(reserve);
    }
    attn_arena_free(arena);
}
