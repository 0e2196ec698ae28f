/* Reads the parts of a tokenizer.json that come after the division into tokens: the template around
 * a text (the post-processor), and the decoders. */
#include <string.h>

#include "base/try.h"
#include "tokens/character.h"
#include "tokens/json_reader.h"

static const char PROCESSOR[] = "post_processor", DECODER[] = "decoder";

/* --- templates --- */

/* Reads a token of a template: an id of the vocabulary. */
static attn_status read_id(const attn_json_reader *r, const attn_json *x, int32_t *out) {
    int64_t id;
    if (!x || !attn_json_integer(x, 0, (int64_t)r->t->length - 1, &id))
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR,
                         "expected the id of a token, an integer from 0 to %zu", r->t->length - 1);
    *out = (int32_t)id;
    return ATTN_OK;
}

/* Reads ["token", id]. */
static attn_status read_named(const attn_json_reader *r, attn_json *object, const char *key,
                              int32_t *out) {
    const attn_json *pair = attn_json_member(object, key);
    if (!pair || pair->kind != ATTN_JSON_LIST || pair->count != 2)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "%s: expected a token and its id", key);
    return read_id(r, pair->first->next, out);
}

static attn_status set_template(const attn_json_reader *r, attn_template *to,
                                const attn_template_item *items, size_t count) {
    attn_arena *arena = r->t->pipeline->arena;
    attn_template_item *copy = attn_arena_array(arena, count + 1, sizeof *copy);
    ATTN_TAKEN(copy, "a tokenizer", r->err);
    if (to->items)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "two templates are not supported");
    memcpy(copy, items, count * sizeof *copy);
    *to = (attn_template){copy, count};
    return ATTN_OK;
}

/* Makes the template of BERT, [CLS] A [SEP] and [CLS] A [SEP] B [SEP], or that of RoBERTa, which
 * has two [SEP] between the texts and only segment 0. */
static attn_status read_bert(const attn_json_reader *r, attn_json *x, bool roberta) {
    attn_pipeline *p = r->t->pipeline;
    int32_t sep = 0, cls = 0;
    ATTN_TRY(read_named(r, x, "sep", &sep));
    ATTN_TRY(read_named(r, x, "cls", &cls));
    const int32_t second = roberta ? 0 : 1;
    const attn_template_item items[] = {
        {ATTN_PART_TOKEN, cls, 0}, {ATTN_PART_FIRST, 0, 0},       {ATTN_PART_TOKEN, sep, 0},
        {ATTN_PART_TOKEN, sep, 0}, {ATTN_PART_SECOND, 0, second}, {ATTN_PART_TOKEN, sep, second}};
    attn_template_item pair[6];
    size_t count = 0;
    for (size_t i = 0; i < 6; i++)
        if (roberta || i != 3)
            pair[count++] = items[i];
    ATTN_TRY(set_template(r, &p->one, items, 3));
    return set_template(r, &p->two, pair, count);
}

static attn_status read_trim(const attn_json_reader *r, attn_json *x, bool regex) {
    attn_pipeline *p = r->t->pipeline;
    bool trim = true, prefix = true, unused = true;
    ATTN_TRY(attn_member_bool(r, x, PROCESSOR, "trim_offsets", true, &trim));
    ATTN_TRY(attn_member_bool(r, x, PROCESSOR, "add_prefix_space", true, &prefix));
    if (regex)
        ATTN_TRY(attn_member_bool(r, x, PROCESSOR, "use_regex", false, &unused));
    if (!trim)
        return ATTN_OK;
    if (p->one.items || p->trim)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR,
                         "trim_offsets behind a template or behind another one is not supported");
    p->trim = true;
    p->keeps_prefix = prefix;
    return ATTN_OK;
}

/* Returns how many tokens a piece of a template stands for, and stores their ids. -1: the piece is
 * not a special token. */
static int64_t special_ids(attn_json *specials, const char *name, const attn_json **ids) {
    attn_json *x =
        specials && specials->kind == ATTN_JSON_OBJECT ? attn_json_member(specials, name) : NULL;
    const attn_json *list = x && x->kind == ATTN_JSON_OBJECT ? attn_json_member(x, "ids") : NULL;
    *ids = list ? list->first : NULL;
    return list && list->kind == ATTN_JSON_LIST ? (int64_t)list->count : -1;
}

/* Reads {"SpecialToken": {"id": name, "type_id": n}} or {"Sequence": {"id": "A", "type_id": n}} and
 * appends it to `items`, which has room. */
static attn_status read_piece(const attn_json_reader *r, attn_json *x, attn_json *specials,
                              attn_template_item *items, size_t *count) {
    attn_json *token = x->kind == ATTN_JSON_OBJECT ? attn_json_member(x, "SpecialToken") : NULL;
    attn_json *text = x->kind == ATTN_JSON_OBJECT ? attn_json_member(x, "Sequence") : NULL;
    attn_json *piece = token ? token : text;
    attn_string name = {NULL, 0};
    int64_t segment = 0;
    const attn_json *ids = NULL;
    if (!piece || piece->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR,
                         "expected a SpecialToken or a Sequence in a template");
    ATTN_TRY(attn_member_text(r, piece, PROCESSOR, "id", true, &name));
    ATTN_TRY(attn_member_count(r, piece, PROCESSOR, "type_id", true, INT32_MAX, &segment));
    if (text) {
        const bool second = !strcmp(name.text, "B");
        if (!second && strcmp(name.text, "A"))
            return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "expected the sequence A or B");
        items[(*count)++] =
            (attn_template_item){second ? ATTN_PART_SECOND : ATTN_PART_FIRST, 0, (int32_t)segment};
        return ATTN_OK;
    }
    if (special_ids(specials, name.text, &ids) < 0)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "special_tokens lacks %.60s", name.text);
    for (; ids; ids = ids->next) {
        attn_template_item item = {ATTN_PART_TOKEN, 0, (int32_t)segment};
        ATTN_TRY(read_id(r, ids, &item.id));
        items[(*count)++] = item;
    }
    return ATTN_OK;
}

/* Returns an upper bound of the number of items in a list of pieces. */
static size_t most_items(const attn_json *pieces, attn_json *specials) {
    size_t most = 1;
    for (const attn_json *x = specials ? specials->first : NULL; x; x = x->next)
        most += attn_sequence_length(x);
    size_t product;
    return attn_size_mul(most, pieces->count, &product) ? product : SIZE_MAX;
}

static attn_status read_pieces(const attn_json_reader *r, attn_json *x, const char *key, bool pair,
                               attn_template *to) {
    attn_json *list = attn_json_member(x, key), *specials = attn_json_member(x, "special_tokens");
    size_t count = 0, texts[2] = {0};
    if (!list || list->kind != ATTN_JSON_LIST)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "%s: expected a list", key);
    attn_template_item *items =
        attn_arena_array(r->arena, most_items(list, specials), sizeof *items);
    ATTN_TAKEN(items, "a tokenizer", r->err);
    for (attn_json *piece = list->first; piece; piece = piece->next)
        ATTN_TRY(read_piece(r, piece, specials, items, &count));
    for (size_t i = 0; i < count; i++)
        if (items[i].part != ATTN_PART_TOKEN)
            texts[items[i].part - ATTN_PART_FIRST]++;
    if (texts[0] != 1 || texts[1] != pair)
        return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "%s: expected each text once", key);
    return set_template(r, to, items, count);
}

static attn_status read_processor(const attn_json_reader *r, attn_json *x, const char *type,
                                  void *to) {
    attn_pipeline *p = r->t->pipeline;
    (void)to;
    if (!strcmp(type, "ByteLevel"))
        return read_trim(r, x, true);
    if (!strcmp(type, "BertProcessing"))
        return read_bert(r, x, false);
    if (!strcmp(type, "RobertaProcessing")) {
        ATTN_TRY(read_trim(r, x, false));
        return read_bert(r, x, true);
    }
    if (!strcmp(type, "TemplateProcessing")) {
        ATTN_TRY(read_pieces(r, x, "single", false, &p->one));
        return read_pieces(r, x, "pair", true, &p->two);
    }
    return attn_fail(r->err, ATTN_EVALUE, PROCESSOR, "%.200s is not supported", type);
}

attn_status attn_read_template(const attn_json_reader *r, attn_json *root) {
    attn_pipeline *p = r->t->pipeline;
    ATTN_TRY(attn_read_sequence(r, root, PROCESSOR, "processors", read_processor, NULL));
    const attn_template *one = &p->one;
    if (one->count && one->items[0].part == ATTN_PART_TOKEN)
        r->t->specials[ATTN_SPECIAL_BEGIN] = one->items[0].id;
    if (one->count && one->items[one->count - 1].part == ATTN_PART_TOKEN)
        r->t->specials[ATTN_SPECIAL_END] = one->items[one->count - 1].id;
    return ATTN_OK;
}

/* --- decoders --- */

static attn_status read_string(const attn_json_reader *r, attn_json *x, const char *key,
                               attn_string *out) {
    attn_string found = {NULL, 0};
    ATTN_TRY(attn_member_text(r, x, DECODER, key, true, &found));
    *out = (attn_string){attn_pipeline_text(r, found), found.size};
    ATTN_TAKEN(out->text, "a tokenizer", r->err);
    return ATTN_OK;
}

static attn_status read_metaspace(const attn_json_reader *r, attn_json *x, attn_decoder *d) {
    attn_string scheme = {"always", 6}, same;
    bool unused = true, prefix = true;
    ATTN_TRY(read_string(r, x, "replacement", &d->find));
    ATTN_TRY(attn_member_text(r, x, DECODER, "str_rep", false, &same));
    ATTN_TRY(attn_member_text(r, x, DECODER, "prepend_scheme", false, &scheme));
    ATTN_TRY(attn_member_bool(r, x, DECODER, "split", false, &unused));
    ATTN_TRY(attn_member_bool(r, x, DECODER, "add_prefix_space", false, &prefix));
    d->apply = attn_decode_metaspace;
    d->drop_first = prefix && strcmp(scheme.text, "never");
    return ATTN_OK;
}

static attn_status read_replace(const attn_json_reader *r, attn_json *x, attn_decoder *d) {
    attn_json *pattern = attn_json_member(x, "pattern");
    if (!pattern || pattern->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, DECODER, "pattern: expected an object");
    d->apply = attn_decode_replace;
    ATTN_TRY(read_string(r, pattern, "String", &d->find));
    ATTN_TRY(attn_members_known(r, pattern, DECODER));
    return read_string(r, x, "content", &d->with);
}

static attn_status read_strip(const attn_json_reader *r, attn_json *x, attn_decoder *d) {
    int64_t start = 0, stop = 0;
    d->apply = attn_decode_strip;
    ATTN_TRY(read_string(r, x, "content", &d->find));
    ATTN_TRY(attn_member_count(r, x, DECODER, "start", true, INT32_MAX, &start));
    ATTN_TRY(attn_member_count(r, x, DECODER, "stop", true, INT32_MAX, &stop));
    d->start = (size_t)start;
    d->stop = (size_t)stop;
    return ATTN_OK;
}

static attn_status read_byte_level(const attn_json_reader *r, attn_json *x, attn_decoder *d) {
    bool unused = true;
    d->apply = attn_decode_bytes;
    ATTN_TRY(attn_member_bool(r, x, DECODER, "add_prefix_space", false, &unused));
    ATTN_TRY(attn_member_bool(r, x, DECODER, "trim_offsets", false, &unused));
    return attn_member_bool(r, x, DECODER, "use_regex", false, &unused);
}

static attn_status read_wordpiece(const attn_json_reader *r, attn_json *x, attn_decoder *d) {
    d->apply = attn_decode_wordpiece;
    ATTN_TRY(attn_member_bool(r, x, DECODER, "cleanup", true, &d->cleanup));
    return read_string(r, x, "prefix", &d->find);
}

static attn_status read_decoder(const attn_json_reader *r, attn_json *x, const char *type,
                                void *to) {
    attn_pipeline *p = to;
    attn_decoder *d = &p->decoders[p->decoder_count++];
    attn_status status = ATTN_OK;
    if (!strcmp(type, "ByteLevel"))
        status = read_byte_level(r, x, d);
    else if (!strcmp(type, "WordPiece"))
        status = read_wordpiece(r, x, d);
    else if (!strcmp(type, "Metaspace"))
        status = read_metaspace(r, x, d);
    else if (!strcmp(type, "Replace"))
        status = read_replace(r, x, d);
    else if (!strcmp(type, "Strip"))
        status = read_strip(r, x, d);
    else if (!strcmp(type, "ByteFallback"))
        d->apply = attn_decode_fallback;
    else if (!strcmp(type, "Fuse"))
        d->apply = attn_decode_fuse;
    else if (!strcmp(type, "BPEDecoder")) {
        d->apply = attn_decode_suffix;
        status = read_string(r, x, "suffix", &d->find);
    } else {
        return attn_fail(r->err, ATTN_EVALUE, DECODER, "%.200s is not supported", type);
    }
    const bool finds = d->apply == attn_decode_metaspace || d->apply == attn_decode_replace ||
                       d->apply == attn_decode_suffix || d->apply == attn_decode_strip;
    if (!status && finds && !d->find.size)
        return attn_fail(r->err, ATTN_EVALUE, DECODER, "%s: expected a text that is not empty",
                         type);
    return status;
}

attn_status attn_read_decoders(const attn_json_reader *r, attn_json *root) {
    attn_pipeline *p = r->t->pipeline;
    attn_json *decoder = attn_json_member(root, DECODER);
    p->decoders = attn_arena_zeroed(p->arena, attn_sequence_length(decoder), sizeof *p->decoders);
    ATTN_TAKEN(p->decoders, "a tokenizer", r->err);
    p->joins_with_blanks = !decoder;
    return attn_read_sequence(r, root, DECODER, "decoders", read_decoder, p);
}
