/* Reads the normalisers and splitters of a tokenizer.json. */
#include <string.h>

#include "base/try.h"
#include "tokens/character.h"
#include "tokens/json_reader.h"

/* The list to which a component is added. */
typedef struct list {
    const char *member; /* "normalizer" or "pre_tokenizer" */
    attn_step *steps;
    size_t count;
} list;

static void add(list *l, attn_step step) {
    l->steps[l->count++] = step;
}

static attn_status refuse(const attn_json_reader *r, const list *l, const char *what) {
    return attn_fail(r->err, ATTN_EVALUE, l->member, "%.200s is not supported", what);
}

/* Reads a text that must not be empty, into the memory of the pipeline. */
static attn_status read_literal(const attn_json_reader *r, attn_json *x, const list *l,
                                const char *key, const char **text, size_t *size) {
    attn_string found = {NULL, 0};
    ATTN_TRY(attn_member_text(r, x, l->member, key, true, &found));
    if (!found.size)
        return attn_fail(r->err, ATTN_EVALUE, l->member, "%s: expected a text that is not empty",
                         key);
    *text = attn_pipeline_text(r, found);
    *size = found.size;
    ATTN_TAKEN(*text, "a tokenizer", r->err);
    return ATTN_OK;
}

/* The regular expressions that have a scanner. */
static const struct {
    const char *pattern;
    attn_scanner *scan;
    unsigned classes;
    size_t most_digits;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     attn_scan_gpt2, 0, 0},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     attn_scan_llama3, 0, 3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     attn_scan_llama3, 0, 1},
    {"\\p{N}", attn_scan_class, ATTN_IS_NUMBER, 0},
    {" {2,}", attn_scan_blanks, 0, 0}};

/* Reads {"String": text} or {"Regex": a known pattern}. */
static attn_status read_pattern(const attn_json_reader *r, attn_json *x, const list *l,
                                attn_step *step) {
    attn_json *pattern = attn_json_member(x, "pattern");
    attn_string regex = {NULL, 0};
    if (!pattern || pattern->kind != ATTN_JSON_OBJECT)
        return attn_fail(r->err, ATTN_EVALUE, l->member, "pattern: expected an object");
    ATTN_TRY(attn_member_text(r, pattern, l->member, "Regex", false, &regex));
    if (!regex.text) {
        step->scan = attn_scan_literal;
        ATTN_TRY(read_literal(r, pattern, l, "String", &step->find, &step->find_size));
        return attn_members_known(r, pattern, l->member);
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (!strcmp(regex.text, patterns[i].pattern)) {
            step->scan = patterns[i].scan;
            step->classes = patterns[i].classes;
            step->most_digits = patterns[i].most_digits;
            return attn_members_known(r, pattern, l->member);
        }
    return attn_fail(r->err, ATTN_EVALUE, l->member,
                     "the pattern %.300s is none of those that are supported", regex.text);
}

/* --- normalisers --- */

static attn_status read_bert(const attn_json_reader *r, attn_json *x, list *l) {
    bool clean = true, chinese = true, lower = true;
    ATTN_TRY(attn_member_bool(r, x, l->member, "clean_text", true, &clean));
    ATTN_TRY(attn_member_bool(r, x, l->member, "handle_chinese_chars", true, &chinese));
    ATTN_TRY(attn_member_bool(r, x, l->member, "lowercase", true, &lower));
    bool strip = lower;
    ATTN_TRY(attn_member_bool(r, x, l->member, "strip_accents", false, &strip));
    if (clean)
        add(l, (attn_step){.apply = attn_step_clean});
    if (chinese)
        add(l, (attn_step){.apply = attn_step_apart});
    if (strip) {
        add(l, (attn_step){.apply = attn_step_form});
        add(l, (attn_step){.apply = attn_step_without, .classes = ATTN_IS_ACCENT});
    }
    if (lower)
        add(l, (attn_step){.apply = attn_step_lower});
    return ATTN_OK;
}

static attn_status read_charsmap(const attn_json_reader *r, attn_json *x, list *l) {
    attn_arena *arena = r->t->pipeline->arena;
    attn_charsmap *map = attn_arena_zeroed(arena, 1, sizeof *map);
    attn_string base64 = {"", 0};
    ATTN_TAKEN(map, "a tokenizer", r->err);
    ATTN_TRY(attn_member_text(r, x, l->member, "precompiled_charsmap", false, &base64));
    if (!base64.size)
        return ATTN_OK;
    add(l, (attn_step){.apply = attn_step_charsmap, .charsmap = map});
    return attn_error_within(attn_charsmap_read(base64.text, base64.size, arena, map, r->err),
                             l->member, r->err);
}

static attn_status read_replace(const attn_json_reader *r, attn_json *x, list *l) {
    attn_step step = {.apply = attn_step_replace};
    attn_string with = {NULL, 0};
    ATTN_TRY(read_pattern(r, x, l, &step));
    ATTN_TRY(attn_member_text(r, x, l->member, "content", true, &with));
    step.with = attn_pipeline_text(r, with);
    step.with_size = with.size;
    ATTN_TAKEN(step.with, "a tokenizer", r->err);
    add(l, step);
    return ATTN_OK;
}

static attn_status read_normaliser(const attn_json_reader *r, attn_json *x, const char *type,
                                   void *to) {
    static const struct {
        const char *type;
        attn_step step;
    } plain[] = {{"NFD", {.apply = attn_step_form}},
                 {"NFC", {.apply = attn_step_form, .compose = true}},
                 {"NFKD", {.apply = attn_step_form, .compatible = true}},
                 {"NFKC", {.apply = attn_step_form, .compatible = true, .compose = true}},
                 {"Lowercase", {.apply = attn_step_lower}},
                 {"StripAccents", {.apply = attn_step_without, .classes = ATTN_IS_COMBINING}},
                 {"Nmt", {.apply = attn_step_nmt}}};
    list *l = to;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(type, plain[i].type)) {
            add(l, plain[i].step);
            return ATTN_OK;
        }
    if (!strcmp(type, "BertNormalizer"))
        return read_bert(r, x, l);
    if (!strcmp(type, "Precompiled"))
        return read_charsmap(r, x, l);
    if (!strcmp(type, "Replace"))
        return read_replace(r, x, l);
    attn_step step = {.apply = attn_step_strip};
    if (!strcmp(type, "Strip")) {
        ATTN_TRY(attn_member_bool(r, x, l->member, "strip_left", true, &step.left));
        ATTN_TRY(attn_member_bool(r, x, l->member, "strip_right", true, &step.right));
    } else if (!strcmp(type, "Prepend")) {
        step.apply = attn_step_prepend;
        ATTN_TRY(read_literal(r, x, l, "prepend", &step.with, &step.with_size));
    } else {
        return refuse(r, l, type);
    }
    add(l, step);
    return ATTN_OK;
}

/* --- splitters --- */

static attn_status read_behaviour(const attn_json_reader *r, attn_json *x, const list *l,
                                  bool needed, attn_behaviour *out) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    attn_string name = {NULL, 0};
    ATTN_TRY(attn_member_text(r, x, l->member, "behavior", needed, &name));
    for (size_t i = 0; name.text && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name.text, names[i])) {
            *out = (attn_behaviour)i;
            return ATTN_OK;
        }
    return name.text ? refuse(r, l, name.text) : ATTN_OK;
}

static attn_status read_byte_level(const attn_json_reader *r, attn_json *x, list *l) {
    bool prefix = true, trim = true, regex = true;
    ATTN_TRY(attn_member_bool(r, x, l->member, "add_prefix_space", true, &prefix));
    /* trim_offsets has no effect in a splitter. */
    ATTN_TRY(attn_member_bool(r, x, l->member, "trim_offsets", true, &trim));
    ATTN_TRY(attn_member_bool(r, x, l->member, "use_regex", false, &regex));
    if (r->t->kind != ATTN_TOKENS_BYTE_PAIRS)
        return refuse(r, l, "ByteLevel with a model that is not BPE");
    if (prefix)
        add(l, (attn_step){.apply = attn_step_prefix, .with = " ", .with_size = 1});
    if (regex)
        add(l, (attn_step){.apply = attn_step_split,
                           .scan = attn_scan_gpt2,
                           .behaviour = ATTN_SPLIT_ISOLATED});
    r->t->pipeline->pairs.of_bytes = true;
    return ATTN_OK;
}

static attn_status read_metaspace(const attn_json_reader *r, attn_json *x, list *l) {
    attn_step step = {
        .apply = attn_step_replace, .scan = attn_scan_literal, .find = " ", .find_size = 1};
    attn_string scheme = {"always", 6}, same = {NULL, 0};
    bool split = true, prefix = true;
    ATTN_TRY(read_literal(r, x, l, "replacement", &step.with, &step.with_size));
    ATTN_TRY(
        attn_member_text(r, x, l->member, "str_rep", false, &same)); /* the reference ignores it */
    ATTN_TRY(attn_member_text(r, x, l->member, "prepend_scheme", false, &scheme));
    ATTN_TRY(attn_member_bool(r, x, l->member, "split", false, &split));
    ATTN_TRY(attn_member_bool(r, x, l->member, "add_prefix_space", false, &prefix));
    const bool first = !strcmp(scheme.text, "first"), never = !strcmp(scheme.text, "never");
    if (!first && !never && strcmp(scheme.text, "always"))
        return refuse(r, l, scheme.text);
    if (!prefix && !never)
        return refuse(r, l, "add_prefix_space false with another prepend_scheme than never");
    add(l, step);
    if (!never)
        add(l, (attn_step){.apply = attn_step_prefix,
                           .with = step.with,
                           .with_size = step.with_size,
                           .first_only = first});
    if (split)
        add(l, (attn_step){.apply = attn_step_split,
                           .scan = attn_scan_literal,
                           .find = step.with,
                           .find_size = step.with_size,
                           .behaviour = ATTN_SPLIT_MERGED_WITH_NEXT});
    return ATTN_OK;
}

static void add_classes(list *l, unsigned classes, attn_behaviour behaviour) {
    add(l, (attn_step){.apply = attn_step_split,
                       .scan = attn_scan_class,
                       .classes = classes,
                       .behaviour = behaviour});
}

static attn_status read_splitter(const attn_json_reader *r, attn_json *x, const char *type,
                                 void *to) {
    list *l = to;
    attn_step step = {.apply = attn_step_split, .behaviour = ATTN_SPLIT_ISOLATED};
    bool single = false;
    if (r->t->pipeline->pairs.of_bytes)
        return refuse(r, l, "a pre-tokenizer behind ByteLevel");
    if (!strcmp(type, "ByteLevel"))
        return read_byte_level(r, x, l);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(r, x, l);
    if (!strcmp(type, "BertPreTokenizer")) {
        add_classes(l, ATTN_IS_WHITE, ATTN_SPLIT_REMOVED);
        add_classes(l, ATTN_IS_PUNCTUATION, ATTN_SPLIT_ISOLATED);
        return ATTN_OK;
    }
    if (!strcmp(type, "WhitespaceSplit")) {
        add_classes(l, ATTN_IS_WHITE, ATTN_SPLIT_REMOVED);
        return ATTN_OK;
    }
    if (!strcmp(type, "Whitespace")) {
        step.scan = attn_scan_words;
        step.behaviour = ATTN_SPLIT_REMOVED;
        step.invert = true;
    } else if (!strcmp(type, "Digits")) {
        step.scan = attn_scan_class;
        step.classes = ATTN_IS_NUMERIC;
        ATTN_TRY(attn_member_bool(r, x, l->member, "individual_digits", true, &single));
        step.behaviour = single ? ATTN_SPLIT_ISOLATED : ATTN_SPLIT_CONTIGUOUS;
    } else if (!strcmp(type, "Punctuation")) {
        step.scan = attn_scan_class;
        step.classes = ATTN_IS_PUNCTUATION;
        ATTN_TRY(read_behaviour(r, x, l, false, &step.behaviour));
    } else if (!strcmp(type, "Split")) {
        ATTN_TRY(read_pattern(r, x, l, &step));
        ATTN_TRY(read_behaviour(r, x, l, true, &step.behaviour));
        ATTN_TRY(attn_member_bool(r, x, l->member, "invert", true, &step.invert));
    } else {
        return refuse(r, l, type);
    }
    add(l, step);
    return ATTN_OK;
}

/* Reads a list of components, each of which adds at most five steps. */
static attn_status read_list(const attn_json_reader *r, attn_json *root, list *l, const char *of,
                             attn_read_component *read) {
    const size_t most = 5 * attn_sequence_length(attn_json_member(root, l->member));
    l->steps = attn_arena_zeroed(r->t->pipeline->arena, most, sizeof *l->steps);
    ATTN_TAKEN(l->steps, "a tokenizer", r->err);
    return attn_read_sequence(r, root, l->member, of, read, l);
}

attn_status attn_read_steps(const attn_json_reader *r, attn_json *root) {
    attn_pipeline *p = r->t->pipeline;
    list normalisers = {.member = "normalizer"}, splitters = {.member = "pre_tokenizer"};
    ATTN_TRY(read_list(r, root, &normalisers, "normalizers", read_normaliser));
    ATTN_TRY(read_list(r, root, &splitters, "pretokenizers", read_splitter));
    p->normalisers = normalisers.steps;
    p->normaliser_count = normalisers.count;
    p->splitters = splitters.steps;
    p->splitter_count = splitters.count;
    return ATTN_OK;
}
