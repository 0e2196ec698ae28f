/* `attnd score`: how good a trained model is on held-out sentences of its corpus. */
#include <string.h>

#include "command/train_command.h"

typedef struct wishes {
    const char *model, *format;
    size_t count, beams, threads;
    bool by_length;
} wishes;

static int score_all(const wishes *w, const srv_model_file *file,
                     const attn_corpus_options *options, attn_arena *arena, attn_pool *pool) {
    attn_model_scores scores = {0};
    attn_corpus *corpus;
    attn_error err;
    if (attn_corpus_new(options, arena, &corpus, &err) ||
        attn_model_score(file->model, corpus, ATTN_HELD_OUT, 0, w->count, file->source,
                         file->target, w->beams, pool, NULL, &scores, &err))
        return srv_command_fail("score", &err);
    if (*w->format != 'j') {
        srv_scores_print(stdout, "held-out", &scores);
        return w->by_length ? srv_scores_by_length(file, *options, w->count, w->beams, pool, NULL)
                            : 0;
    }
    int code = 0;
    fputs("{\"held_out\":", stdout);
    srv_scores_json(stdout, &scores);
    if (w->by_length) {
        fputs(",\"by_length\":{", stdout);
        code = srv_scores_by_length(file, *options, w->count, w->beams, pool, stdout);
        putchar('}');
    }
    puts("}");
    return code;
}

static int score(const wishes *w, const srv_model_file *file) {
    attn_corpus_options options;
    if (!srv_model_corpus(file, &options)) {
        fprintf(stderr, "attnd score: %s does not say which corpus it was trained on\n", w->model);
        return 1;
    }
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_pool *pool = w->threads > 1 ? attn_pool_new(w->threads) : NULL;
    int code = arena ? score_all(w, file, &options, arena, pool) : 1;
    attn_pool_free(pool);
    attn_arena_free(arena);
    return code;
}

int srv_command_score(int argc, char **argv) {
    wishes w = {"model.safetensors", "text", 500, 1, 1, false};
    const srv_option table[] = {
        {"model", SRV_OPTION_TEXT, &w.model, "model file of `attnd train`"},
        {"count", SRV_OPTION_SIZE, &w.count, "number of held-out pairs"},
        {"beams", SRV_OPTION_SIZE, &w.beams, "hypotheses of the beam search; 1 is greedy"},
        {"by-length", SRV_OPTION_FLAG, &w.by_length, "also score sentences of 10, 20, … words"},
        {"format", SRV_OPTION_TEXT, &w.format, "text or json"},
        {"threads", SRV_OPTION_SIZE, &w.threads, "number of threads"},
        {0},
    };
    int code =
        srv_options_read(table, "Scores a trained model on held-out sentence pairs.", argc, argv);
    if (code)
        return code - 1;
    srv_model_file file;
    attn_error err;
    if (srv_model_open(w.model, false, &file, &err))
        return srv_command_fail("score", &err);
    code = score(&w, &file);
    srv_model_close(&file);
    return code;
}
