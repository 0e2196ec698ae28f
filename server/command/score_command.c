/* `attnd score` scores a trained model on held-out sentences of its corpus: BLEU, the share of
 * exact translations and alignment errors. For a model with only an encoder or a decoder, it
 * computes the share of words that are predicted correctly, and the perplexity. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "store/model_disk.h"

/* Returns the smallest alignment error of all attention heads, and sets *which to the head that has
 * it. */
static double best_head(const attn_model_scores *s, size_t *which) {
    double best = attn_alignment_error(&s->heads[0]);
    *which = 0;
    for (size_t h = 1; h < s->head_count; h++)
        if (attn_alignment_error(&s->heads[h]) < best)
            best = attn_alignment_error(&s->heads[h]), *which = h;
    return best;
}

/* Returns part / all in percent. */
static double share(size_t part, size_t all) {
    return all ? 100 * (double)part / (double)all : 0;
}

void srv_scores_print(FILE *to, const char *name, const attn_model_scores *s) {
    size_t head;
    if (s->words > 0) {
        fprintf(to, "%s: %.1f %% of %.0f words right, perplexity %.3f\n", name,
                100 * s->right / s->words, s->words, exp(s->loss / s->words));
        return;
    }
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
    if (s->words > 0) {
        fprintf(to, "{\"num_words\":%.0f,\"right\":%.4f,\"loss\":%.4f}", s->words,
                s->right / s->words, s->loss / s->words);
        return;
    }
    fprintf(
        to,
        "{\"bleu\":%.4f,\"num_exact\":%zu,\"num_sentences\":%zu,\"alignment_error\":{\"heads\":[",
        attn_bleu_score(&s->bleu, false), s->bleu.exact, s->bleu.sentences);
    for (size_t h = 0; h < s->head_count; h++)
        fprintf(to, "%s%.4f", h ? "," : "", attn_alignment_error(&s->heads[h]));
    fputs("],\"mean\":", to);
    if (s->head_count)
        fprintf(to, "%.4f}}", attn_alignment_error(&s->mean));
    else
        fputs("null}}", to);
}

/* Scores the model on held-out pairs of a corpus. */
static attn_status score_corpus(const attn_model_file *file, const attn_corpus_options *options,
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

/* Scores sentences of about 10, 20, … 60 words, as long as the corpus has such lengths. Prints a
 * line for each length or, if `json` is not NULL, members of a JSON object. Returns an exit code.
 */
static int print_by_length(const attn_model_file *file, attn_corpus_options options, size_t count,
                           size_t beams, attn_pool *pool, FILE *json) {
    const size_t longest = options.longest;
    const char *between = "";
    for (size_t middle = 10; middle <= 60 && middle <= longest; middle += 10) {
        attn_model_scores scores = {0};
        attn_error err;
        char name[32];
        options.shortest = middle - 2, options.longest = middle + 2 < 60 ? middle + 2 : 60;
        if (score_corpus(file, &options, count, beams, pool, &scores, &err))
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

typedef struct command_options {
    const char *model;
    int format; /* an index of format_names */
    size_t count, beams, threads;
    bool by_length;
} command_options;

enum { JSON = 1 };
static const char *const format_names[] = {"text", "json", NULL};
#define OPTION(...) SRV_NAMED_ROW(command_options, __VA_ARGS__)
static const srv_field option_fields[] = {
    OPTION("model", model, SRV_STRING, "model file of `attnd train`"),
    OPTION("count", count, SRV_INT, "number of held-out pairs"),
    OPTION("beams", beams, SRV_INT, "hypotheses of the beam search; 1 is greedy"),
    OPTION("by_length", by_length, SRV_BOOL, "also score sentences of 10, 20, … words"),
    OPTION("format", format, SRV_ENUM, "one of", .choices = format_names),
    OPTION("threads", threads, SRV_INT, "number of threads"),
    {0},
};

static int score_all(const command_options *w, const attn_model_file *file,
                     const attn_corpus_options *options, attn_pool *pool) {
    attn_model_scores scores = {0};
    attn_error err;
    if (score_corpus(file, options, w->count, w->beams, pool, &scores, &err))
        return srv_command_fail("score", &err);
    if (w->format != JSON) {
        srv_scores_print(stdout, "held-out", &scores);
        return w->by_length ? print_by_length(file, *options, w->count, w->beams, pool, NULL) : 0;
    }
    int code = 0;
    fputs("{\"held_out\":", stdout);
    srv_scores_json(stdout, &scores);
    if (w->by_length) {
        fputs(",\"by_length\":{", stdout);
        code = print_by_length(file, *options, w->count, w->beams, pool, stdout);
        putchar('}');
    }
    puts("}");
    return code;
}

static int score(const command_options *w, const attn_model_file *file) {
    attn_corpus_options options;
    if (!srv_model_corpus(file, &options)) {
        fprintf(stderr, "attnd score: %s does not say which corpus it was trained on\n", w->model);
        return 1;
    }
    attn_pool *pool = w->threads > 1 ? attn_pool_new(w->threads) : NULL;
    const int code = score_all(w, file, &options, pool);
    attn_pool_free(pool);
    return code;
}

int srv_command_score(int argc, char **argv) {
    command_options w = {.model = "model.safetensors", .count = 500, .beams = 1, .threads = 1};
    int code = srv_options_read(&(srv_options){option_fields, &w, sizeof w}, 1,
                                "Scores a trained model on held-out sentence pairs.", argc, argv);
    if (code)
        return code - 1;
    attn_model_file file;
    attn_error err;
    if (srv_model_open(w.model, false, &file, NULL, &err))
        return srv_command_fail("score", &err);
    code = score(&w, &file);
    attn_model_file_close(&file);
    return code;
}
