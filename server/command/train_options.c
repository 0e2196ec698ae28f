/* The options of `attnd train`. */
#include <string.h>

#include "command/train_run.h"

srv_train_wishes srv_train_defaults(void) {
    srv_train_wishes w = {.corpus = attn_corpus_defaults(),
                          .config = attn_model_defaults(),
                          .training = attn_training_defaults(),
                          .task = "en-fr",
                          .architecture = "seq2seq",
                          .attention = "multihead",
                          .positions = "sinusoidal",
                          .schedule = "inverse-root",
                          .pairs = 20000,
                          .validation = 500,
                          .scored = 500,
                          .minimum = 1,
                          .threads = 1,
                          .init = "",
                          .out = "model.safetensors"};
    w.corpus.longest = 20;
    return w;
}

/* What decides the result comes first, up to the row named "out". */
void srv_train_table(srv_train_wishes *w, srv_option table[TRAIN_OPTIONS]) {
    const srv_option rows[] = {
        {"task", SRV_OPTION_TEXT, &w->task, "en-fr, copy, reverse or sort"},
        {"large", SRV_OPTION_FLAG, &w->corpus.large, "en-fr: all words of the lexicon"},
        {"shortest", SRV_OPTION_SIZE, &w->corpus.shortest, "source words at least"},
        {"longest", SRV_OPTION_SIZE, &w->corpus.longest, "source words at most"},
        {"skew", SRV_OPTION_NUMBER, &w->corpus.skew, "above 1: more short sentences"},
        {"symbols", SRV_OPTION_SIZE, &w->corpus.symbols, "numbers of copy, reverse and sort"},
        {"pairs", SRV_OPTION_SIZE, &w->pairs, "sentence pairs to train on"},
        {"validation", SRV_OPTION_SIZE, &w->validation, "sentence pairs of validation"},
        {"minimum", SRV_OPTION_SIZE, &w->minimum, "rarer words are unknown"},
        {"architecture", SRV_OPTION_TEXT, &w->architecture, "seq2seq"},
        {"attention", SRV_OPTION_TEXT, &w->attention,
         "multihead, dot, additive, general, concat, local, strided or none"},
        {"positions", SRV_OPTION_TEXT, &w->positions,
         "sinusoidal, learned, relative, shaw, alibi or none"},
        {"width", SRV_OPTION_SIZE, &w->config.width, "width of the model"},
        {"heads", SRV_OPTION_SIZE, &w->config.heads, "heads of attention"},
        {"layers", SRV_OPTION_SIZE, &w->config.layers, "layers of encoder and decoder"},
        {"dropout", SRV_OPTION_NUMBER, &w->config.dropout, "share that is dropped in training"},
        {"seed", SRV_OPTION_SEED, &w->training.seed, "of initial values, batches and dropout"},
        {"steps", SRV_OPTION_SEED, &w->training.steps, "batches to train on"},
        {"batch-tokens", SRV_OPTION_SIZE, &w->training.batch_tokens, "words of a batch"},
        {"rate", SRV_OPTION_NUMBER, &w->training.rate, "learning rate"},
        {"schedule", SRV_OPTION_TEXT, &w->schedule, "constant, inverse-root or cosine"},
        {"warmup", SRV_OPTION_SEED, &w->training.warmup, "steps in which the rate rises"},
        {"decay", SRV_OPTION_NUMBER, &w->training.adam.decay, "of the weights (AdamW)"},
        {"clip", SRV_OPTION_NUMBER, &w->training.clip, "norm of the gradients at most; 0: any"},
        {"smoothing", SRV_OPTION_NUMBER, &w->training.smoothing, "of labels"},
        {"evaluate-every", SRV_OPTION_SEED, &w->training.evaluate_every, "steps"},
        {"patience", SRV_OPTION_SIZE, &w->training.patience,
         "evaluations without a better loss before stopping; 0: never"},
        {"init", SRV_OPTION_TEXT, &w->init, "begin with the values and vocabularies of this model"},
        {"out", SRV_OPTION_TEXT, &w->out, "file of the model; its checkpoint stands beside it"},
        {"checkpoint-every", SRV_OPTION_SEED, &w->training.checkpoint_every,
         "steps; 0: with each evaluation"},
        {"scored", SRV_OPTION_SIZE, &w->scored, "held-out pairs to score at the end"},
        {"threads", SRV_OPTION_SIZE, &w->threads, "of the pool"},
        {"log", SRV_OPTION_TEXT, &w->log, "append a JSON line an evaluation to this file"},
        {"resume", SRV_OPTION_FLAG, &w->resume, "go on from the checkpoint, if there is one"},
        {"quiet", SRV_OPTION_FLAG, &w->quiet, "no progress"},
        {0},
    };
    _Static_assert(sizeof rows / sizeof *rows <= TRAIN_OPTIONS, "room");
    memcpy(table, rows, sizeof rows);
}

static bool complain(const char *option, const char *value) {
    fprintf(stderr, "attnd train: --%s does not know \"%.60s\" (see attnd train --help)\n", option,
            value);
    return false;
}

bool srv_train_names(srv_train_wishes *w) {
    if (!attn_task_parse(w->task, &w->corpus.task))
        return complain("task", w->task);
    if (!attn_model_architecture_parse(w->architecture, &w->config.architecture))
        return complain("architecture", w->architecture);
    if (!attn_model_attention_parse(w->attention, &w->config.attention))
        return complain("attention", w->attention);
    if (!attn_model_positions_parse(w->positions, &w->config.positions))
        return complain("positions", w->positions);
    if (!attn_schedule_parse(w->schedule, &w->training.schedule))
        return complain("schedule", w->schedule);
    return true;
}

void srv_train_say(const srv_option *table, char said[TRAIN_TEXT]) {
    size_t at = 0;
    for (; strcmp(table->name, "out") && at < TRAIN_TEXT; table++) {
        char value[64] = "";
        switch (table->kind) {
        case SRV_OPTION_FLAG:
            snprintf(value, sizeof value, "%s", *(const bool *)table->to ? "true" : "false");
            break;
        case SRV_OPTION_SIZE:
            snprintf(value, sizeof value, "%zu", *(const size_t *)table->to);
            break;
        case SRV_OPTION_NUMBER:
            snprintf(value, sizeof value, "%g", *(const double *)table->to);
            break;
        case SRV_OPTION_SEED:
            snprintf(value, sizeof value, "%llu", (unsigned long long)*(const uint64_t *)table->to);
            break;
        case SRV_OPTION_TEXT:
            snprintf(value, sizeof value, "%s", *(const char *const *)table->to);
        }
        at += (size_t)snprintf(said + at, TRAIN_TEXT - at, "%s%s=%s", at ? " " : "", table->name,
                               value);
    }
}
