/* Reads a tokenizer.json, the file of PyPI `tokenizers`. A part that this library does not know is
 * refused by name, so that no text gets ids other than those of the training. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "tokens/json_reader.h"

/* --- added tokens --- */

static attn_status read_added(const attn_json_reader *r, attn_json *x, attn_added *out, bool *raw) {
    static const char where[] = "added_tokens";
    attn_string content = {NULL, 0};
    bool normalized = false;
    int64_t id = 0;
    if (x->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, where, "expected a list of objects, found %s",
                         attn_json_kind_name(x));
    ATTN_TRY(attn_member_text(r, x, where, "content", true, &content));
    ATTN_TRY(attn_member_count(r, x, where, "id", true, INT32_MAX, &id));
    ATTN_TRY(attn_member_bool(r, x, where, "single_word", true, &out->single_word));
    ATTN_TRY(attn_member_bool(r, x, where, "lstrip", true, &out->left));
    ATTN_TRY(attn_member_bool(r, x, where, "rstrip", true, &out->right));
    ATTN_TRY(attn_member_bool(r, x, where, "normalized", true, &normalized));
    ATTN_TRY(attn_member_bool(r, x, where, "special", true, &out->special));
    ATTN_TRY(attn_members_known(r, x, where));
    int32_t place = attn_reader_id(r, content);
    if (place < 0) {
        place = (int32_t)r->t->length;
        ATTN_TRY(attn_error_within(attn_pipeline_token(r->t, content.text, content.size, r->err),
                                   where, r->err));
    }
    if (place != id)
        return attn_fail(r->err, ATTN_EVALUE, where, "%.60s has the id %lld, expected %d",
                         content.text, (long long)id, (int)place);
    out->id = place;
    *raw = !normalized;
    return ATTN_OK;
}

static int by_id(const void *a, const void *b) {
    const int32_t x = ((const attn_added *)a)->id, y = ((const attn_added *)b)->id;
    return (x > y) - (x < y);
}

/* Reads the added tokens and finishes the pipeline. */
static attn_status read_added_tokens(const attn_json_reader *r, attn_json *root) {
    attn_pipeline *p = r->t->pipeline;
    const attn_json *list = attn_json_member(root, "added_tokens");
    if (list && list->kind != ATTN_JSON_LIST)
        return attn_member_wrong(r, "", "added_tokens", "a list", list);
    const size_t count = list ? list->count : 0;
    p->added = attn_arena_zeroed(p->arena, count + 1, sizeof *p->added);
    bool *raw = attn_arena_zeroed(r->arena, count + 1, sizeof *raw);
    ATTN_TAKEN(p->added && raw, "the added tokens of a tokenizer", r->err);
    for (attn_json *x = count ? list->first : NULL; x; x = x->next) {
        attn_added *last = &p->added[p->added_count];
        ATTN_TRY(read_added(r, x, last, &raw[p->added_count]));
        if (p->added_count && by_id(last - 1, last) >= 0)
            return attn_fail(r->err, ATTN_EVALUE, "added_tokens",
                             "expected rising ids, found %d behind %d", (int)last->id,
                             (int)last[-1].id);
        p->added_count++;
    }
    return attn_pipeline_finish(r->t, raw, r->err);
}

/* --- the file --- */

static attn_tokenizer_kind kind_of(const attn_json_reader *r, attn_json *model,
                                   attn_status *status) {
    static const struct {
        const char *type;
        attn_tokenizer_kind kind;
    } types[] = {{"BPE", ATTN_TOKENS_BYTE_PAIRS},
                 {"WordPiece", ATTN_TOKENS_WORDPIECE},
                 {"Unigram", ATTN_TOKENS_UNIGRAM}};
    attn_string type = {NULL, 0};
    *status = attn_member_text(r, model, "model", "type", true, &type);
    for (size_t i = 0; !*status && i < sizeof types / sizeof *types; i++)
        if (!strcmp(type.text, types[i].type))
            return types[i].kind;
    if (!*status)
        *status = attn_fail(r->err, ATTN_EVALUE, "model/type",
                            "expected BPE, WordPiece or Unigram, found %.60s", type.text);
    return ATTN_TOKENS_NUMBERS;
}

static attn_status read_root(attn_json_reader *r, attn_json *root) {
    attn_status status = ATTN_OK;
    if (root->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, "", "expected an object, found %s",
                         attn_json_kind_name(root));
    attn_json *model = attn_json_member(root, "model");
    if (!model || model->kind != ATTN_JSON_OBJECT)
        return attn_member_wrong(r, "", "model", "an object", model);
    const attn_tokenizer_kind kind = kind_of(r, model, &status);
    if (status)
        return status;
    r->t = attn_pipeline_new(kind);
    ATTN_TAKEN(r->t, "a tokenizer", r->err);
    for (const char *const *ignored =
             (const char *const[]){"version", "truncation", "padding", NULL};
         *ignored; ignored++)
        attn_json_member(root, *ignored);
    ATTN_TRY(attn_read_steps(r, root));
    ATTN_TRY(attn_read_model(r, model));
    ATTN_TRY(read_added_tokens(r, root));
    ATTN_TRY(attn_read_template(r, root));
    ATTN_TRY(attn_read_decoders(r, root));
    return attn_members_known(r, root, "");
}

attn_status attn_tokenizer_read_json(const char *text, size_t size, attn_tokenizer **out,
                                     attn_error *err) {
    attn_json_reader r = {.arena = attn_arena_new(SIZE_MAX / 2), .err = err};
    attn_json *root;
    ATTN_TAKEN(r.arena, "a tokenizer", err);
    attn_status status = attn_json_read(text, size, r.arena, &root, err);
    if (!status)
        status = read_root(&r, root);
    attn_arena_free(r.arena);
    if (status)
        attn_tokenizer_free(r.t);
    else
        *out = r.t;
    return status;
}
