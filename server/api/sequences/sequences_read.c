/* Reads the sequences that requests to a model send as texts, tokens or ids. */
#include "api/sequences/sequences_api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/answer.h"

enum { MOST_WARNINGS = 16 }; /* largest number of warnings about words not in the vocabulary */

const char *const srv_offset_units[] = {"bytes", "codepoints", "utf16", NULL};

static bool no_memory(srv_request *req) {
    return srv_problem_memory(req, NULL, "the tokens need more memory than a request may use");
}

const attn_tokenizer *srv_models_tokenizer(const srv_model *model, int which) {
    return which == SRV_SOURCE ? model->source : model->target;
}

bool srv_models_reads(const srv_model *model, int which) {
    const attn_model_config *c = attn_model_configuration(model->model);
    return which == SRV_SOURCE ? attn_model_has_encoder(c) : attn_model_has_decoder(c);
}

size_t srv_models_heads(const srv_model *model) {
    size_t count;
    const attn_site *sites = attn_model_sites(model->model, &count);
    return count ? sites[count - 1].heads : 0;
}

bool srv_models_attends(const srv_model *model) {
    return srv_models_heads(model) > 0;
}

int srv_models_text_side(const srv_model *model) {
    return srv_models_reads(model, SRV_SOURCE) ? SRV_SOURCE : SRV_TARGET;
}

/* Writes the path of sequence b in the request to `text` and returns `text`: the field's `name`,
 * with the index b if there are several sequences. */
static const char *place(char text[96], const char *name, size_t b, size_t count) {
    if (count > 1)
        snprintf(text, 96, "%s/%zu", name, b);
    else
        snprintf(text, 96, "%s", name);
    return text;
}

static bool take(const srv_reading *r, size_t length, bool spans, srv_sequence *out) {
    attn_arena *arena = r->req->arena;
    const attn_tokenizer *t = srv_models_tokenizer(r->model, r->which);
    *out = (srv_sequence){.length = length,
                          .unknown = attn_tokenizer_special(t, ATTN_SPECIAL_UNKNOWN)};
    out->ids = attn_arena_zeroed(arena, length, sizeof *out->ids);
    out->tokens = attn_arena_zeroed(arena, length, sizeof *out->tokens);
    out->spans = spans ? attn_arena_zeroed(arena, length + 1, 2 * sizeof *out->spans) : NULL;
    return (out->ids && out->tokens && (!spans || out->spans)) || no_memory(r->req);
}

static bool refuse_length(const srv_reading *r, const char *name, size_t length) {
    return srv_refuse(r->scope, SRV_VALUE, name,
                      "the model reads at most %zu token%s here (max_length), found %zu", r->most,
                      attn_plural(r->most), length);
}

static bool check_length(const srv_reading *r, const char *name, size_t length) {
    if (!length)
        return srv_refuse(r->scope, SRV_VALUE, name, "expected at least one token, found none");
    if (length <= r->most + r->adds_end) /* settle_target removes an end token later */
        return true;
    return refuse_length(r, name, length);
}

static bool warn_of_unknown(const srv_reading *r, const char *name, const srv_sequence *s) {
    for (size_t i = 0; i < s->length; i++) {
        if (s->ids[i] != s->unknown || r->warnings->count >= MOST_WARNINGS)
            continue;
        const char *where = srv_where(r->scope, name);
        if (!where || !srv_warnings_add(r->warnings, r->req->arena, "unknown_word", where,
                                        "\"%.60s\" is not in the model's vocabulary: read as <unk>",
                                        s->tokens[i]))
            return no_memory(r->req);
    }
    return true;
}

/* Finds the ids of tokens. */
static bool look_up(const srv_reading *r, const char *name, srv_sequence *s) {
    const attn_tokenizer *t = srv_models_tokenizer(r->model, r->which);
    for (size_t i = 0; i < s->length; i++) {
        s->ids[i] = attn_tokenizer_id(t, s->tokens[i], strlen(s->tokens[i]));
        if (s->ids[i] < 0) {
            char at[128];
            snprintf(at, sizeof at, "%s/%zu", name, i);
            return srv_refuse(
                r->scope, SRV_VALUE, at,
                "\"%.60s\" is no token of the model, which has none for unknown words",
                s->tokens[i]);
        }
    }
    return warn_of_unknown(r, name, s);
}

/* Returns the number of units in the bytes [from, to) of a text in UTF-8. */
static size_t count_units(const char *text, size_t from, size_t to, srv_offset_unit unit) {
    size_t count = 0;
    for (size_t i = from; i < to; i++) {
        const unsigned char c = (unsigned char)text[i];
        count += (c & 0xC0) != 0x80; /* counts the first byte of each character */
        count += unit == SRV_UTF16 && c >= 0xF0;
    }
    return count;
}

/* Converts s->spans to s->offsets in the unit of the request. Each offset is counted from the
 * offset before it, because the spans seldom decrease. false: a problem is set. */
static bool convert_offsets(const srv_reading *r, const char *text, srv_sequence *s) {
    size_t byte = 0, units = 0;
    s->offsets = s->spans;
    if (r->unit == SRV_BYTES)
        return true;
    s->offsets = attn_arena_zeroed(r->req->arena, s->length + 1, 2 * sizeof *s->offsets);
    for (size_t i = 0; s->offsets && i < 2 * (s->length + 1); i++) {
        if (s->spans[i] < byte) /* tokens of one character share its range */
            byte = units = 0;
        units += count_units(text, byte, s->spans[i], r->unit);
        byte = s->spans[i];
        s->offsets[i] = units;
    }
    return s->offsets || no_memory(r->req);
}

/* Sets words, segments and spans of the tokens. A token that the tokenizer adds around the text
 * gets an empty range behind the token before it. Only a single text has offsets. false: a problem
 * is set. */
static bool take_places(const srv_reading *r, const attn_token *tokens, const char *second,
                        srv_sequence *out) {
    size_t before = 0;
    out->words = attn_arena_zeroed(r->req->arena, out->length, sizeof *out->words);
    out->segments =
        second ? attn_arena_zeroed(r->req->arena, out->length, sizeof *out->segments) : NULL;
    if (!out->words || (second && !out->segments))
        return no_memory(r->req);
    for (size_t i = 0; i < out->length; i++) {
        const bool stands_alone = tokens[i].word < 0;
        out->words[i] = tokens[i].word;
        if (second)
            out->segments[i] = tokens[i].segment;
        out->spans[2 * i] = stands_alone ? before : tokens[i].begin;
        out->spans[2 * i + 1] = before = stands_alone ? before : tokens[i].end;
    }
    return true;
}

/* Reads a text and, if it is not NULL, the text `second` that forms a pair with it. */
static bool read_text(const srv_reading *r, const char *text, const char *second, const char *name,
                      srv_sequence *out) {
    const bool known = r->model->known;
    const attn_string first = {text, strlen(text)}, other = {second, second ? strlen(second) : 0};
    attn_token *tokens;
    size_t count;
    attn_error err = {0};
    if (attn_tokenizer_encode_pair(srv_models_tokenizer(r->model, r->which), first,
                                   second ? &other : NULL, known, r->req->arena, &tokens, &count,
                                   &err)) {
        return srv_problem_error_at(r->req, &err,
                                    (const srv_renamed[]){{err.where, name}, {NULL, NULL}});
    }
    if (!check_length(r, name, count) || !take(r, count, true, out))
        return false;
    for (size_t i = 0; i < count; i++) {
        out->tokens[i] = tokens[i].text;
        out->ids[i] = tokens[i].id;
        out->spans[2 * i] = tokens[i].begin;
        out->spans[2 * i + 1] = tokens[i].end;
    }
    out->spans[2 * count] = out->spans[2 * count + 1] = first.size;
    out->text = text;
    if (known && !take_places(r, tokens, second, out))
        return false;
    if (second) {
        out->spans = NULL;
        out->text = NULL;
        return warn_of_unknown(r, name, out);
    }
    return convert_offsets(r, text, out) && warn_of_unknown(r, name, out);
}

static bool read_tokens(const srv_reading *r, const srv_strings *list, const char *name,
                        srv_sequence *out) {
    if (!check_length(r, name, list->count) || !take(r, list->count, false, out))
        return false;
    memcpy(out->tokens, list->values, list->count * sizeof *list->values);
    return look_up(r, name, out);
}

static int64_t id_at(const attn_tensor *ids, size_t i) {
    return ids->dtype == ATTN_I64   ? ((const int64_t *)ids->data)[i]
           : ids->dtype == ATTN_I32 ? ((const int32_t *)ids->data)[i]
                                    : ((const uint8_t *)ids->data)[i];
}

bool srv_models_name(srv_request *req, const srv_model *model, int which, const int32_t *ids,
                     size_t length, srv_sequence *out) {
    const srv_reading r = {.req = req, .model = model, .which = which};
    const attn_tokenizer *t = srv_models_tokenizer(model, which);
    if (!take(&r, length, false, out))
        return false;
    for (size_t i = 0; i < length; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)ids[i]);
        out->ids[i] = ids[i];
        out->tokens[i] = attn_tokenizer_token(t, ids[i]);
        if (!out->tokens[i] &&
            !(out->tokens[i] = attn_arena_text(req->arena, number, strlen(number))))
            return no_memory(req);
    }
    return true;
}

static bool read_ids(const srv_reading *r, const attn_tensor *t, size_t b, const char *name,
                     srv_sequence *out) {
    const size_t width = t->dims[t->rank - 1];
    const size_t size = attn_tokenizer_size(srv_models_tokenizer(r->model, r->which));
    const int64_t pad = attn_model_configuration(r->model->model)->pad;
    size_t length = width;
    while (length && id_at(t, b * width + length - 1) == pad)
        length--;
    int32_t *ids = attn_arena_zeroed(r->req->arena, length + 1, sizeof *ids);
    if (!ids)
        return no_memory(r->req);
    if (!check_length(r, name, length))
        return false;
    for (size_t i = 0; i < length; i++) {
        const int64_t id = id_at(t, b * width + i);
        char at[128];
        snprintf(at, sizeof at, "%s/%zu", name, i);
        if (id < 0 || (uint64_t)id >= size)
            return srv_refuse(r->scope, SRV_VALUE, at,
                              "the model knows the ids 0 to %zu, found %" PRId64, size - 1, id);
        ids[i] = (int32_t)id;
    }
    return srv_models_name(r->req, r->model, r->which, ids, length, out);
}

/* Refuses second texts if their number differs from the number of texts, or if the model cannot
 * read pairs. */
static bool check_pairs(const srv_reading *r, int field, size_t count) {
    if (!r->pairs)
        return true;
    if (!r->model->known || !srv_models_reads(r->model, SRV_SOURCE))
        return srv_refuse(r->scope, SRV_VALUE, "text_pair",
                          "the model \"%s\" reads single texts: only encoders whose files say how "
                          "two texts stand together read pairs",
                          r->model->id);
    if (field)
        return srv_refuse(r->scope, SRV_VALUE, "text_pair", "a second text needs text beside it");
    return r->pairs->count == count ||
           srv_refuse(r->scope, SRV_SHAPE, "text_pair",
                      "expected %zu text%s, one for each of %s, "
                      "found %zu",
                      count, attn_plural(count), r->names[0], r->pairs->count);
}

/* Returns the index in r->names of the field that was sent: 0 text, 1 tokens, 2 ids. Returns 3 if
 * no field was sent. Returns 4 if a problem is set, because several fields were sent or the model
 * has no words. */
static int which_field(const srv_reading *r) {
    int found = 3;
    for (int i = 0; i < 3; i++) {
        if (!srv_given(r->scope, r->names[i]))
            continue;
        if (found < 3) {
            srv_excludes(r->scope, r->names[i], r->names[found], "both are the same sequences");
            return 4;
        }
        found = i;
    }
    if (found < 2 && !attn_tokenizer_has_texts(srv_models_tokenizer(r->model, r->which))) {
        srv_refuse(r->scope, SRV_VALUE, r->names[found],
                   "the model \"%s\" has no words on this side: send %s", r->model->id,
                   r->names[2]);
        return 4;
    }
    return found;
}

static bool read_one(const srv_reading *r, const srv_side *side, int field, size_t b,
                     const char *at, srv_sequence *out) {
    switch (field) {
    case 0:
        return read_text(r, side->texts.values[b], r->pairs ? r->pairs->values[b] : NULL, at, out);
    case 1:
        return read_tokens(r, &side->tokens.lists[b], at, out);
    default:
        return read_ids(r, &side->ids, b, at, out);
    }
}

/* If the model adds an end token itself, removes the end token of a target. The target may then be
 * empty. If the model adds a begin token itself, warns of a begin token in the target. false: a
 * problem is set. */
static bool settle_target(const srv_reading *r, const char *name, srv_sequence *s) {
    const attn_model_config *c = attn_model_configuration(r->model->model);
    if (r->adds_end && s->length && s->ids[s->length - 1] == c->end) {
        s->length--;
        for (size_t i = 0; s->offsets && i < 2; i++) {
            s->offsets[2 * s->length + i] = s->offsets[2 * s->length + 2 + i];
            s->spans[2 * s->length + i] = s->spans[2 * s->length + 2 + i];
        }
    }
    if (s->length > r->most)
        return refuse_length(r, name, s->length);
    for (size_t i = 0; r->adds_begin && i < s->length; i++)
        if (s->ids[i] == c->begin) {
            const char *where = srv_where(r->scope, name);
            if (where && srv_warnings_add(r->warnings, r->req->arena, "begin_given", where,
                                          "token %zu is the begin token <bos>, and the model puts "
                                          "one before the target itself: leave it out, or send "
                                          "\"target_begin\": false",
                                          i))
                return true;
            return no_memory(r->req);
        }
    return true;
}

bool srv_models_read(const srv_reading *r, const srv_side *side, srv_sequences *out) {
    const int field = which_field(r);
    *out = (srv_sequences){0};
    if (field > 2)
        return field == 3;
    if (field == 2 && side->ids.rank != 1 && side->ids.rank != 2)
        return srv_refuse(r->scope, SRV_SHAPE, r->names[2], "expected [S] or [B, S], found %s",
                          attn_rank_text(&side->ids));
    const size_t count = field == 0            ? side->texts.count
                         : field == 1          ? side->tokens.count
                         : side->ids.rank == 2 ? side->ids.dims[0]
                                               : 1;
    if (!count)
        return srv_refuse(r->scope, SRV_VALUE, r->names[field], "expected at least one sequence");
    if (!check_pairs(r, field, count))
        return false;
    out->count = count;
    out->items = attn_arena_zeroed(r->req->arena, count, sizeof *out->items);
    if (!out->items)
        return no_memory(r->req);
    for (size_t b = 0; b < count; b++) {
        char at[96];
        const bool listed = field == 2 && side->ids.rank == 2;
        place(at, r->names[field], b, listed ? 2 : count);
        if (!read_one(r, side, field, b, at, &out->items[b]) ||
            (r->which == SRV_TARGET && !settle_target(r, at, &out->items[b])))
            return false;
        if (out->items[b].length > out->longest)
            out->longest = out->items[b].length;
    }
    return true;
}

int32_t *srv_models_pad(srv_request *req, const srv_sequences *s, size_t width, int32_t before,
                        int64_t **lengths) {
    const size_t first = before >= 0;
    int32_t *ids = attn_arena_zeroed(req->arena, s->count * width, sizeof *ids);
    *lengths = attn_arena_zeroed(req->arena, s->count, sizeof **lengths);
    if (!ids || !*lengths) {
        no_memory(req);
        return NULL;
    }
    for (size_t b = 0; b < s->count; b++) {
        if (first)
            ids[b * width] = before;
        const size_t length = s->items[b].length, room = width - first;
        memcpy(ids + b * width + first, s->items[b].ids,
               (length < room ? length : room) * sizeof *ids);
        (*lengths)[b] = (int64_t)length;
    }
    return ids;
}

/* Writes a list of the positions of unknown words or, if `hidden`, of hidden tokens. Writes nothing
 * if the list would be empty. */
static void put_positions(attn_json_text *j, const srv_sequence *s, bool hidden) {
    bool begun = false;
    for (size_t i = 0; i < s->length; i++) {
        if (hidden ? !s->keep || s->keep[i] : s->ids[i] != s->unknown)
            continue;
        if (!begun)
            attn_json_array(j);
        begun = true;
        attn_json_size(j, i);
    }
    if (begun)
        attn_json_array_end(j);
}

static void put_unknown(attn_json_text *j, const void *place) {
    put_positions(j, place, false);
}

static void put_hidden(attn_json_text *j, const void *place) {
    put_positions(j, place, true);
}

static void put_tokens(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    attn_json_strings(j, s->tokens, s->length);
}

static void put_ids(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    attn_json_array(j);
    for (size_t i = 0; i < s->length; i++)
        attn_json_int(j, s->ids[i]);
    attn_json_array_end(j);
}

static void put_pairs(attn_json_text *j, const size_t *pairs, size_t count) {
    attn_json_array(j);
    for (size_t i = 0; i < count; i++) {
        attn_json_array(j);
        attn_json_size(j, pairs[2 * i]);
        attn_json_size(j, pairs[2 * i + 1]);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

static void put_offsets(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    if (s->offsets)
        put_pairs(j, s->offsets, s->length);
}

static void put_segments(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    if (!s->segments)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < s->length; i++)
        attn_json_int(j, s->segments[i]);
    attn_json_array_end(j);
}

static void put_words(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    if (s->merged)
        attn_json_strings(j, s->merged->tokens, s->merged->length);
}

static void put_word_tokens(attn_json_text *j, const void *place) {
    const srv_sequence *s = place;
    if (s->merged)
        put_pairs(j, s->merged->spans, s->merged->length);
}

static const srv_field token_rows[] = {
    SRV_WRITTEN("tokens", "[string]", put_tokens, "The tokens.", .always = true),
    SRV_WRITTEN("ids", "[integer+]", put_ids, "Their ids.", .always = true),
    SRV_WRITTEN("offsets", "[[integer+ 2]]", put_offsets,
                "[begin, end) of each token in the text, in the unit of offset_unit, if text was "
                "sent."),
    SRV_WRITTEN("segments", "[integer+]", put_segments,
                "With text_pair: the text of each token, 0 or 1, as the model's files say."),
    SRV_WRITTEN("words", "[string]", put_words,
                "With words: the words, which rows and columns of weights stand for."),
    SRV_WRITTEN("word_tokens", "[[integer+ 2]]", put_word_tokens,
                "The tokens [from, to) of each word."),
    SRV_WRITTEN("unknown", "[integer+ 1+]", put_unknown,
                "Positions of words that the vocabulary lacks, which are read as <unk>; absent if "
                "there are none."),
    SRV_WRITTEN("hidden_tokens", "[integer+ 1+]", put_hidden,
                "Positions that hide or token_mask hides; absent if there are none."),
    {0},
};

const srv_field srv_sequence_answers[] = {SRV_GROUP("ModelTokens", token_rows, NULL), {0}};

void srv_models_put(attn_json_text *j, const srv_sequence *s) {
    srv_answer_object(j, token_rows, s);
}
