#include "api/common/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"

/* --- warnings of the library in words, with advice that names the fields of a request --- */

typedef struct sentence {
    attn_text text;
    const attn_warnings *all; /* with the sizes B, H, L and S */
    const attn_warning *w;
} sentence;

static void say_shape(sentence *s) {
    const attn_tensor *t = &s->w->layer->values;
    char shape[128];
    attn_text_add(&s->text, "%s", attn_shape_text(t->dims, t->rank, shape, sizeof shape));
}

static void mask_or_padding(sentence *s) {
    say_shape(s);
    attn_text_add(&s->text,
                  " is read as [L, S], the same for every batch entry. B and L are both %zu: if "
                  "[B, S] was meant, send it as key_padding_mask or as %s",
                  s->all->B, s->all->has_heads ? "[B, 1, 1, S]" : "[B, 1, S]");
}

static void mask_or_batches(sentence *s) {
    say_shape(s);
    attn_text_add(&s->text,
                  " is read as [H, L, S], the same for every batch entry. B and H are both %zu: "
                  "if [B, L, S] was meant, send it as [B, 1, L, S]",
                  s->all->B);
}

static void mask_inverted(sentence *s) {
    const attn_mask_layer *layer = s->w->layer;
    const bool kept = layer->semantics == ATTN_SEM_HIDE; /* a causal mask keeps the marked keys */
    attn_text_add(&s->text, "query i sees only keys behind it: torch.%s, so %s",
                  kept ? "tril marks what a causal mask keeps"
                       : "triu(…, diagonal=1) marks what a causal mask hides",
                  kept ? "say mask_semantics \"keep\""
                  : layer->values.dtype == ATTN_BOOL || layer->values.dtype == ATTN_BITS
                      ? "invert it (here true = attend)"
                  : layer->semantics == ATTN_SEM_NONZERO
                      ? "say mask_semantics \"hide\" if it holds 0 and 1, and \"additive\" if "
                        "its numbers are added to the scores"
                      : "say mask_semantics \"hide\"");
}

static void mask_transposed(sentence *s) {
    attn_text_add(&s->text, "query i sees the keys from i on. That is the transpose of a causal "
                            "mask; with a causal mask query i sees keys 0 to i");
}

static void mask_at_start(sentence *s) {
    const size_t L = s->all->L, S = s->all->S;
    attn_text_add(&s->text,
                  "a causal mask of %zu quer%s and %zu key%s that starts at the upper left: ", L,
                  attn_plural_y(L), S, attn_plural(S));
    if (S > L)
        attn_text_add(&s->text,
                      "no query sees keys from %zu on. When the queries are the last tokens, use "
                      "is_causal with query_offset \"end\"",
                      L);
    else
        attn_text_add(&s->text, "queries from %zu on see every key", S - 1);
}

static void causal_at_start(sentence *s) {
    const size_t L = s->all->L;
    attn_text_add(&s->text,
                  "%zu quer%s, %zu keys, and query 0 stands at key 0: no query sees keys from %zu "
                  "on. When the queries are the last tokens, say query_offset \"end\"; "
                  "query_offset 0 confirms the start",
                  L, attn_plural_y(L), s->all->S, L);
}

static void mask_of_queries(sentence *s) {
    attn_text_add(&s->text, "the last axis of ");
    say_shape(s);
    attn_text_add(&s->text, " is 1: the mask hides whole queries, and no key. A padding mask "
                            "differs over keys: [.., 1, S] or key_padding_mask");
}

static void padding_of_queries(sentence *s) {
    const attn_warning *w = s->w;
    attn_text_add(&s->text,
                  "batch entry %zu: %zu key%s hidden from every query, and %zu quer%s nothing. "
                  "Hiding the keys is enough for padding; here the outputs of padding queries "
                  "become zeros. Was [.., 1, S] or key_padding_mask meant?",
                  w->batch, w->keys, w->keys == 1 ? " is" : "s are", w->queries,
                  w->queries == 1 ? "y sees" : "ies see");
}

static void padding_seen(sentence *s) {
    const attn_warning *w = s->w;
    attn_text_add(&s->text,
                  "batch entry %zu: key %zu is hidden from %zu of %zu queries but visible to "
                  "query %zu. If it is padding it still receives mass: padding does not differ "
                  "over queries",
                  w->batch, w->key, w->queries, s->all->L, w->query);
}

static void padding_gap(sentence *s) {
    attn_text_add(&s->text, "batch entry %zu: key %zu is padding but stands between real keys%s",
                  s->w->batch, s->w->key,
                  s->w->layer->kind == ATTN_LAYER_TOKENS ? "; does pad_id also mean something else?"
                                                         : "");
}

static void fill_leaks(sentence *s) {
    attn_text_add(&s->text,
                  "a fill of %g is not far below the scores: masked keys, padding too, still "
                  "receive mass. -1e9 is what other codes use",
                  s->w->value);
}

static void fill_unused(sentence *s) {
    attn_text_add(
        &s->text,
        "mask_fill has no effect: it replaces hidden scores, and nothing is hidden, since "
        "the numbers of %s are added. If they are conditions, where all but 0 means "
        "attend, say mask_semantics \"nonzero\"; if 1 means attend or hidden, say \"keep\" or "
        "\"hide\"",
        s->w->layer->where);
}

static void low_numbers(sentence *s) {
    const bool values = s->w->layer->kind == ATTN_LAYER_VALUES;
    attn_text_add(&s->text,
                  "numbers such as %g are added to the scores. Their keys get no weight in a row "
                  "that has far higher numbers, but a row of such numbers alone spreads its weight "
                  "over them, and heatmaps and measures count them as visible. To hide them %s",
                  s->w->value,
                  values ? "say mask_semantics \"finite_min\", or send null for -infinity"
                         : "send null for -infinity");
}

static void only_bits(sentence *s) {
    attn_text_add(&s->text,
                  "all numbers are 0 or 1 and are added to the scores, so no key is hidden. If 1 "
                  "means attend, say mask_semantics \"keep\" or send booleans; \"additive\" "
                  "confirms the sum");
}

static void hidden_rows(sentence *s) {
    const attn_warning *w = s->w;
    const bool one = w->queries == 1;
    attn_text_add(&s->text, "%zu row%s of %zu see%s no key: ", w->queries, one ? "" : "s",
                  w->rows_read, one ? "s" : "");
    for (size_t i = 0; i < w->row_count; i++) {
        attn_text_add(&s->text, "%s", i ? ", " : "");
        if (!w->all_batches)
            attn_text_add(&s->text, "batch %zu ", w->rows[i].batch);
        if (!w->all_heads)
            attn_text_add(&s->text, "head %zu ", w->rows[i].head);
        attn_text_add(&s->text, "query %zu", w->rows[i].query);
    }
    attn_text_add(&s->text, "%s%s%s. %s output and weights are zeros unless mask_fill is set%s",
                  w->queries > w->row_count ? ", …" : "",
                  w->all_batches && s->all->B > 1 ? ", in every batch entry" : "",
                  w->all_heads && s->all->H > 1 ? ", in every head" : "", one ? "Its" : "Their",
                  w->partial ? " (the rows behind these were not looked at)" : "");
}

static void sums_hide(sentence *s) {
    attn_text_add(&s->text,
                  "numbers of several masks are added to one score, and a sum such as %g is below "
                  "the range of float32: it hides its key as -infinity does. Send null for "
                  "-infinity in one of the masks to say so",
                  s->w->value);
}

static void position_start(sentence *s) {
    attn_text_add(
        &s->text,
        "%zu quer%s and %zu key%s: query 0 is encoded at position 0, as key 0 is. When the "
        "queries are the last tokens, say query_offset \"end\"; query_offset 0 confirms "
        "the start",
        s->all->L, attn_plural_y(s->all->L), s->all->S, attn_plural(s->all->S));
}

static void position_offset(sentence *s) {
    const attn_warning *w = s->w;
    attn_text_add(&s->text,
                  "batch entry %zu: query_offset %.0f moves the queries alone, and their own keys "
                  "are encoded from position %zu on, behind %zu cached key%s. If the cache lacks "
                  "its first tokens, send key_positions",
                  w->batch, w->value, w->keys, w->keys, attn_plural(w->keys));
}

static void position_padding(sentence *s) {
    attn_text_add(&s->text,
                  "batch entry %zu: padding on the left has positions, so its first real key is "
                  "encoded at position %zu and not 0. Pad on the right, or send query_positions "
                  "and key_positions",
                  s->w->batch, s->w->key);
}

static void position_tree(sentence *s) {
    attn_text_add(
        &s->text,
        "query %zu does not see key %zu, the token before it, as in a tree of drafts, and "
        "yet they are encoded at two successive positions. If both have one position, "
        "send query_positions and key_positions",
        s->w->query, s->w->key);
}

/* How each warning of the library is written in an answer. */
static const struct {
    const char *code;         /* the code in the answer */
    const char *where;        /* path of the field; NULL: the path `where` of the mask layer */
    void (*say)(sentence *s); /* writes the detail */
} words[ATTN_WARNING_COUNT] = {
    [ATTN_WARN_MASK_OR_PADDING] = {"mask_rank", NULL, mask_or_padding},
    [ATTN_WARN_MASK_OR_BATCHES] = {"mask_rank", NULL, mask_or_batches},
    [ATTN_WARN_MASK_INVERTED] = {"mask_not_causal", NULL, mask_inverted},
    [ATTN_WARN_MASK_TRANSPOSED] = {"mask_not_causal", NULL, mask_transposed},
    [ATTN_WARN_MASK_AT_START] = {"causal_not_square", NULL, mask_at_start},
    [ATTN_WARN_CAUSAL_AT_START] = {"causal_not_square", NULL, causal_at_start},
    [ATTN_WARN_MASK_OF_QUERIES] = {"padding_by_query", NULL, mask_of_queries},
    [ATTN_WARN_PADDING_OF_QUERIES] = {"padding_by_query", NULL, padding_of_queries},
    [ATTN_WARN_PADDING_SEEN] = {"padding_by_query", NULL, padding_seen},
    [ATTN_WARN_PADDING_GAP] = {"padding_gap", NULL, padding_gap},
    [ATTN_WARN_FILL_LEAKS] = {"fill_leaks", "mask_fill", fill_leaks},
    [ATTN_WARN_FILL_UNUSED] = {"fill_unused", "mask_fill", fill_unused},
    [ATTN_WARN_LOW_NUMBERS] = {"low_numbers", NULL, low_numbers},
    [ATTN_WARN_ONLY_BITS] = {"only_bits", NULL, only_bits},
    [ATTN_WARN_SUMS_HIDE] = {"mask_sums", "", sums_hide},
    [ATTN_WARN_POSITION_START] = {"position_start", "position", position_start},
    [ATTN_WARN_POSITION_OFFSET] = {"position_offset", "position", position_offset},
    [ATTN_WARN_POSITION_PADDING] = {"position_padding", "position", position_padding},
    [ATTN_WARN_POSITION_TREE] = {"position_tree", "position", position_tree},
    [ATTN_WARN_HIDDEN_ROWS] = {"hidden_rows", "", hidden_rows},
};

/* --- the list --- */

/* Adds a warning about the field at the path `where` ("labels/key"). false: memory ran out. */
static bool append(srv_warnings *to, attn_arena *arena, const char *code, const char *where,
                   const char *detail) {
    srv_warning *items = attn_arena_small(arena, (to->count + 1) * sizeof *items);
    attn_text pointer = {.arena = arena};
    attn_text_add(&pointer, "%s%s", where[0] ? "/" : "", where);
    if (!items || pointer.failed)
        return false;
    if (to->count > 0)
        memcpy(items, to->items, to->count * sizeof *items);
    items[to->count++] = (srv_warning){code, pointer.data, detail};
    to->items = items;
    return true;
}

bool srv_warnings_add(srv_warnings *to, attn_arena *arena, const char *code, const char *where,
                      const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = attn_arena_text(arena, text, strlen(text));
    return copy && append(to, arena, code, where, copy);
}

attn_status srv_warnings_word(srv_warnings *to, attn_arena *arena, const attn_warnings *found,
                              attn_error *err) {
    for (size_t i = 0; i < found->count; i++) {
        sentence s = {.text = {.arena = arena}, .all = found, .w = &found->items[i]};
        const char *where = words[s.w->code].where;
        words[s.w->code].say(&s);
        ATTN_TAKEN(!s.text.failed && append(to, arena, words[s.w->code].code,
                                            where ? where : s.w->layer->where, s.text.data),
                   "warnings", err);
    }
    return ATTN_OK;
}

attn_status srv_warnings_of_mask(srv_warnings *to, attn_arena *arena, const attn_mask *mask,
                                 attn_error *err) {
    attn_warnings found;
    ATTN_TRY(attn_mask_lint(mask, arena, &found, err));
    return found.count ? srv_warnings_word(to, arena, &found, err) : ATTN_OK;
}

attn_status srv_warnings_of_position(srv_warnings *to, attn_arena *arena, const attn_mask *mask,
                                     attn_position_kind position, attn_error *err) {
    const bool absolute = position == ATTN_POSITION_SINUSOIDAL || position == ATTN_POSITION_LEARNED;
    attn_warnings found;
    if (position == ATTN_POSITION_NONE)
        return ATTN_OK;
    ATTN_TRY(attn_mask_lint_position(mask, absolute, arena, &found, err));
    return srv_warnings_word(to, arena, &found, err);
}

/* --- the answer --- */

static const srv_field warning_rows[] = {
    SRV_ALWAYS("code", SRV_STRING, srv_warning, code, "The kind of the warning."),
    SRV_ALWAYS("pointer", SRV_STRING, srv_warning, pointer, "JSON pointer to the field, or empty."),
    SRV_ALWAYS("detail", SRV_STRING, srv_warning, detail, "What is odd, and what to do."),
    {0},
};

/* A tensor that an answer leaves out. */
typedef struct omitted {
    double values;
    const char *how;
} omitted;

static const srv_field omitted_rows[] = {
    SRV_ALWAYS("num_values", SRV_REAL, omitted, values, "How many numbers it has."),
    SRV_ALWAYS("how", SRV_STRING, omitted, how, "How to get it."),
    {0},
};

const srv_field srv_warning_answers[] = {
    SRV_GROUP("Warning", warning_rows, "The request is valid but probably not intended."),
    SRV_GROUP("OmittedTensor", omitted_rows,
              "A tensor that the answer leaves out because of its size."),
    {0},
};

void srv_warnings_put(attn_json_text *j, const void *warnings) {
    const srv_warnings *list = warnings;
    if (list->count == 0)
        return;
    attn_json_array(j);
    for (size_t i = 0; i < list->count; i++)
        srv_answer_object(j, warning_rows, &list->items[i]);
    attn_json_array_end(j);
}

void srv_warnings_write(attn_json_text *j, const srv_warnings *warnings) {
    if (warnings->count == 0)
        return;
    attn_json_key(j, "warnings");
    srv_warnings_put(j, warnings);
}

void srv_warnings_text(attn_text *t, const srv_warnings *warnings) {
    for (size_t i = 0; i < warnings->count; i++) {
        const srv_warning *w = &warnings->items[i];
        attn_text_add(t, "warning (%s%s%s): %s\n", w->code, w->pointer[0] ? ", " : "", w->pointer,
                      w->detail);
    }
}

void srv_omitted_write(attn_json_text *j, const char *name, double values, const char *how) {
    attn_json_key(j, name);
    srv_answer_object(j, omitted_rows, &(omitted){values, how});
}
