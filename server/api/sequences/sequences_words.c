/* What is derived from the tokens of sequences: the array of their segments, the words that they are
 * part of, and their texts for people. */
#include <string.h>

#include "api/sequences/sequences_api.h"

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, NULL, "no memory is left for the words of a text");
}

bool srv_models_segments(srv_request *req, const srv_sequences *s, const int32_t **out) {
    int32_t *all = NULL;
    *out = NULL;
    for (size_t b = 0; b < s->count; b++) {
        if (!s->items[b].segments)
            continue;
        if (!all && !(all = attn_arena_zeroed(req->arena, s->count * s->longest, sizeof *all)))
            return no_memory(req);
        memcpy(all + b * s->longest, s->items[b].segments, s->items[b].length * sizeof *all);
    }
    *out = all;
    return true;
}

/* Returns the text of tokens [from, to) of a sequence: a part of its text or, without a text, the
 * joined tokens. */
static const char *text_of(srv_request *req, const srv_sequence *s, size_t from, size_t to) {
    attn_text joined = {.arena = req->arena};
    const size_t begin = s->text ? s->spans[2 * from] : 0, end = s->text ? s->spans[2 * to - 1] : 0;
    if (begin < end)
        return attn_arena_text(req->arena, s->text + begin, end - begin);
    for (size_t i = from; i < to; i++)
        attn_text_add(&joined, "%s", s->tokens[i]);
    return joined.failed ? NULL : joined.data;
}

bool srv_models_words(srv_request *req, const srv_sequence *s, srv_sequence *out) {
    *out = (srv_sequence){.unknown = -1};
    out->tokens = attn_arena_zeroed(req->arena, s->length + 1, sizeof *out->tokens);
    out->spans = attn_arena_zeroed(req->arena, s->length + 1, 2 * sizeof *out->spans);
    if (!out->tokens || !out->spans)
        return no_memory(req);
    for (size_t from = 0, to; from < s->length; from = to) {
        to = from + 1;
        while (to < s->length && s->words[from] >= 0 && s->words[to] == s->words[from] &&
               (!s->segments || s->segments[to] == s->segments[from]))
            to++;
        out->spans[2 * out->length] = from;
        out->spans[2 * out->length + 1] = to;
        if (!(out->tokens[out->length++] = text_of(req, s, from, to)))
            return no_memory(req);
    }
    return true;
}

const char **srv_models_shown(srv_request *req, const srv_model *model, int which,
                              const srv_sequence *s) {
    const attn_tokenizer *t = srv_models_tokenizer(model, which);
    if (!s->ids || !t)
        return s->tokens;
    const char **shown = attn_arena_array(req->arena, s->length + 1, sizeof *shown);
    for (size_t i = 0; shown && i < s->length; i++)
        if (!(shown[i] = attn_tokenizer_shown(t, s->tokens[i], req->arena)))
            shown = NULL;
    if (!shown)
        no_memory(req);
    return shown;
}
