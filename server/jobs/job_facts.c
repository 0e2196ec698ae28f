/* The facts of jobs: their field table, and jobs as JSON. */
#include <math.h>

#include "jobs/job.h"

const char *const srv_job_states[] = {"queued", "running", "done", "failed", "cancelled", NULL};

#define WHOLE(T, member, text, ...) SRV_IF_KNOWN(#member, SRV_INT, T, member, text, __VA_ARGS__)
#define REAL(T, member, text, ...)  SRV_IF_KNOWN(#member, SRV_REAL, T, member, text, __VA_ARGS__)
#define SHARE                       .max = 1 /* a number from 0 to 1 */

static const srv_field validation_fields[] = {
    REAL(srv_job_validation, loss, "Mean loss of a word of the validation set."),
    REAL(srv_job_validation, right, "Share of the words that are predicted correctly.", SHARE),
    REAL(srv_job_validation, head_similarity,
         "Mean cosine of the weights of two heads of the last cross attention."),
    {0}};
static const srv_field best_fields[] = {
    WHOLE(srv_job_best, step, "The step with the smallest validation loss."),
    REAL(srv_job_best, loss, "That loss."),
    {0}};
static const srv_field error_fields[] = {
    WHOLE(srv_job_alignment, head, "The head with the smallest alignment error."),
    REAL(srv_job_alignment, best, "The alignment error of this head."),
    REAL(srv_job_alignment, mean, "The alignment error of the mean of all heads."),
    {0}};
static const srv_field score_fields[] = {
    WHOLE(srv_job_scores, num_sentences, "Held-out sentences that were scored."),
    REAL(srv_job_scores, bleu, "BLEU of the translations, from 0 to 100."),
    REAL(srv_job_scores, exact, "Share of the sentences that were translated exactly."),
    SRV_IF_KNOWN("alignment_error", SRV_OBJECT, srv_job_scores, alignment_error,
                 "How far the cross attention is from the known alignments.",
                 .fields = error_fields),
    WHOLE(srv_job_scores, num_words, "Of an encoder or a decoder alone: predicted words."),
    REAL(srv_job_scores, right, "Of an encoder or a decoder alone: the share of right words."),
    REAL(srv_job_scores, loss, "Of an encoder or a decoder alone: the mean loss of a word."),
    {0}};

const srv_field srv_job_facts_fields[] = {
    SRV_ALWAYS("state", SRV_ENUM, srv_job_facts, state, "The state of the job.",
               .choices = srv_job_states),
    SRV_ALWAYS("created_ms", SRV_INT, srv_job_facts, created_ms, "When the job was created."),
    WHOLE(srv_job_facts, started_ms, "When the job began to run."),
    WHOLE(srv_job_facts, ended_ms, "When the job ended."),
    SRV_ALWAYS("progress", SRV_REAL, srv_job_facts, progress, "The share of the work that is done.",
               SHARE),
    WHOLE(srv_job_facts, step, "The last step of training."),
    WHOLE(srv_job_facts, num_steps, "Steps of the whole training."),
    WHOLE(srv_job_facts, epoch, "The pass over the training set, from 0."),
    REAL(srv_job_facts, loss, "The loss of the last step."),
    REAL(srv_job_facts, rate, "The learning rate of the last step."),
    REAL(srv_job_facts, words_per_second, "Words that training reads in a second."),
    WHOLE(srv_job_facts, elapsed_ms, "How long the job has run, in milliseconds."),
    WHOLE(srv_job_facts, remaining_ms, "How long it will still run, in milliseconds."),
    SRV_IF_KNOWN(
        "validation", SRV_OBJECT, srv_job_facts, validation,
        "The loss, the share of words that are predicted right, and head_similarity, at the last "
        "evaluation.",
        .fields = validation_fields),
    SRV_IF_KNOWN("best", SRV_OBJECT, srv_job_facts, best,
                 "The step with the lowest loss of validation.", .fields = best_fields),
    SRV_IF_KNOWN("scores", SRV_OBJECT, srv_job_facts, scores,
                 "On held-out pairs: BLEU, share of exact sentences, alignment error of the best "
                 "head and of the mean of heads; of an encoder or a decoder alone the number of "
                 "predicted words, the share of right ones, and the mean loss.",
                 .fields = score_fields),
    SRV_IF_KNOWN("owner", SRV_STRING, srv_job_facts, owner, "The API key that it belongs to."),
    SRV_IF_KNOWN("error", SRV_STRING, srv_job_facts, error, "Why it failed, or what it lacks."),
    SRV_IF_KNOWN("model", SRV_STRING, srv_job_facts, model,
                 "The id of its model under /v1/models."),
    SRV_IF_KNOWN("run", SRV_STRING, srv_job_facts, run,
                 "The id under /v1/runs of the run that store keeps."),
    SRV_IF_KNOWN("pictures", SRV_STRINGS, srv_job_facts, pictures,
                 "The names of its pictures, for /v1/jobs/{id}/pictures/{name}."),
    WHOLE(srv_job_facts, reserved_bytes, "The memory that is reserved for it, part of jobs_bytes."),
    WHOLE(srv_job_facts, peak_bytes, "The most memory that the job has used."),
    {0},
};

srv_job_facts srv_job_no_facts(void) {
    const double no = (double)NAN;
    return (srv_job_facts){
        .created_ms = -1,
        .started_ms = -1,
        .ended_ms = -1,
        .step = -1,
        .num_steps = -1,
        .epoch = -1,
        .loss = no,
        .rate = no,
        .words_per_second = no,
        .elapsed_ms = -1,
        .remaining_ms = -1,
        .progress = 0,
        .validation = {{{0}}, no, no, no},
        .best = {{{0}}, -1, no},
        .scores = {{{0}}, -1, no, no, {{{0}}, -1, no, no}, -1, no, no},
        .reserved_bytes = -1,
        .peak_bytes = -1,
    };
}

void srv_job_write_request(attn_json_text *j, const srv_job_body *body) {
    attn_json_object(j);
    for (const srv_field *f = srv_job_fields; f->name; f++)
        if (srv_job_has_field((srv_job_kind)body->kind, f) &&
            !srv_train_leaves_out(&body->train, f))
            srv_answer_member(j, f, body);
    attn_json_object_end(j);
}
