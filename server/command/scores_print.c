/* Scores of a model as a line of text and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "command/train_command.h"

static double best_head(const attn_model_scores *s, size_t *which) {
    double best = attn_alignment_error(&s->heads[0]);
    *which = 0;
    for (size_t h = 1; h < s->head_count; h++)
        if (attn_alignment_error(&s->heads[h]) < best)
            best = attn_alignment_error(&s->heads[h]), *which = h;
    return best;
}

static double share(size_t part, size_t all) {
    return all ? 100 * (double)part / (double)all : 0;
}

void srv_scores_print(FILE *to, const char *name, const attn_model_scores *s) {
    size_t head;
    fprintf(to, "%s: BLEU %.2f, exact %.1f %% of %zu", name, attn_bleu_score(&s->bleu, false),
            share(s->bleu.exact, s->bleu.sentences), s->bleu.sentences);
    if (s->head_count) {
        double best = best_head(s, &head);
        fprintf(to, ", alignment error %.1f %% (head %zu), %.1f %% (mean of heads)", 100 * best,
                head, 100 * attn_alignment_error(&s->mean));
    }
    fputc('\n', to);
}

void srv_scores_json(FILE *to, const attn_model_scores *s) {
    fprintf(to, "{\"bleu\":%.4f,\"exact\":%zu,\"sentences\":%zu,\"alignment_error\":{\"heads\":[",
            attn_bleu_score(&s->bleu, false), s->bleu.exact, s->bleu.sentences);
    for (size_t h = 0; h < s->head_count; h++)
        fprintf(to, "%s%.4f", h ? "," : "", attn_alignment_error(&s->heads[h]));
    fputs("],\"mean\":", to);
    if (s->head_count)
        fprintf(to, "%.4f}}", attn_alignment_error(&s->mean));
    else
        fputs("null}}", to);
}

static attn_status score_lengths(const srv_model_file *file, const attn_corpus_options *options,
                                 size_t count, size_t beams, attn_pool *pool,
                                 attn_model_scores *scores, attn_error *err) {
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_corpus *corpus;
    attn_status status = arena ? attn_corpus_new(options, arena, &corpus, err)
                               : attn_fail(err, ATTN_ENOMEM, "scores", "no memory");
    if (!status)
        status = attn_model_score(file->model, corpus, ATTN_HELD_OUT, 0, count, file->source,
                                  file->target, beams, pool, NULL, scores, err);
    attn_arena_free(arena);
    return status;
}

int srv_scores_by_length(const srv_model_file *file, attn_corpus_options options, size_t count,
                         size_t beams, attn_pool *pool, FILE *json) {
    const size_t longest = options.longest;
    const char *between = "";
    for (size_t middle = 10; middle <= 60 && middle <= longest; middle += 10) {
        attn_model_scores scores = {0};
        attn_error err;
        char name[32];
        options.shortest = middle - 2, options.longest = middle + 2 < 60 ? middle + 2 : 60;
        if (score_lengths(file, &options, count, beams, pool, &scores, &err))
            return srv_command_fail("score", &err);
        snprintf(name, sizeof name, "%zu to %zu words", options.shortest, options.longest);
        if (json) {
            fprintf(json, "%s\"%zu\":", between, middle);
            srv_scores_json(json, &scores);
            between = ",";
        } else {
            srv_scores_print(stdout, name, &scores);
        }
    }
    return 0;
}
