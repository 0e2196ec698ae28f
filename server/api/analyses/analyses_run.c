/* Runs an analysis in these steps:
 *
 *   1. The labels of keys classify the tokens: punctuation, special tokens, equal words.
 *   2. All measures are computed while the weights are read once.
 *   3. Pairs of heads are compared.
 *   4. Patterns and diagnoses are derived from the measures. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/analyses/analyses_call.h"
#include "base/try.h"
#include "request/shared.h"

/* --- what labels say about tokens --- */

/* Returns the label without the characters that tokenizers put in front of a word piece: "##"
 * (BERT), U+0120 (GPT-2 and RoBERTa) or U+2581 (SentencePiece). */
static const char *without_prefix(const char *label) {
    static const char *const marks[] = {"##", "\xc4\xa0", "\xe2\x96\x81"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t n = strlen(marks[i]);
        if (strncmp(label, marks[i], n) == 0 && label[n])
            return label + n;
    }
    return label;
}

/* Returns the length in bytes of the punctuation character at the beginning of the text; 0: the
 * text begins with another character. */
static size_t punctuation_length(const char *text) {
    static const char *const wide[] = {
        "\xe2\x80\x94", "\xe2\x80\x93", "\xe2\x80\x98", "\xe2\x80\x99", "\xe2\x80\x9c",
        "\xe2\x80\x9d", "\xe2\x80\xa6", "\xe3\x80\x81", "\xe3\x80\x82", "\xef\xbc\x8c",
        "\xef\xbc\x81", "\xef\xbc\x9f", "\xef\xbc\x9a", "\xc2\xab",     "\xc2\xbb",
        "\xc2\xbf",     "\xc2\xa1"};
    if (ispunct((unsigned char)*text))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strncmp(text, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

static bool is_punctuation(const char *label) {
    const char *at = without_prefix(label);
    size_t n = punctuation_length(at);
    while (n > 0 && at[n]) {
        size_t more = punctuation_length(at + n);
        if (more == 0)
            return false;
        n += more;
    }
    return n > 0;
}

/* Returns whether the label is a word in brackets, such as <s>, </s>, <pad>, <|endoftext|>, [CLS]
 * or [SEP]. */
static bool is_special(const char *label) {
    size_t n = strlen(label);
    bool letters = false;
    if (n < 3 ||
        !((label[0] == '<' && label[n - 1] == '>') || (label[0] == '[' && label[n - 1] == ']')))
        return false;
    for (size_t i = 1; i + 1 < n; i++) {
        letters = letters || isalnum((unsigned char)label[i]);
        if (!isalnum((unsigned char)label[i]) && !strchr("|/_-", label[i]))
            return false;
    }
    return letters;
}

/* The classes of keys that are found from the labels. They follow the classes of the caller. */
static const struct label_class {
    const char *name;
    bool (*holds)(const char *label); /* NULL: special tokens */
} label_classes[] = {{"punctuation", is_punctuation}, {"special tokens", NULL}};
enum { LABEL_CLASSES = sizeof label_classes / sizeof label_classes[0] };

/* Returns whether label i is a special token: special[i] or, if `special` is NULL, by its
 * spelling. */
static bool is_marked(const srv_strings *labels, const uint8_t *special, size_t i) {
    return special ? special[i] : is_special(labels->values[i]);
}

static bool belongs_to_class(const struct label_class *class, const srv_names *names, size_t key) {
    const bool special = is_marked(&names->key, names->key_special, key);
    return class->holds ? !special && class->holds(names->key.values[key]) : special;
}

/* Returns the number of batch entries with labels of their own; 1 if all entries have the same. */
static size_t entries_of(const srv_analysis *an) {
    return an->labels->count ? an->labels->count : 1;
}

/* Returns whether a label of any entry belongs to the class. */
static bool class_occurs(const srv_analysis *an, const struct label_class *class) {
    for (size_t b = 0; b < entries_of(an); b++) {
        const srv_names *names = srv_labels_of(an->labels, b);
        for (size_t j = 0; j < names->key.count; j++)
            if (belongs_to_class(class, names, j))
                return true;
    }
    return false;
}

/* Sets *out to the keys of a batch entry that belong to the class. false: out of memory. */
static bool fill_class(const srv_analysis *an, size_t entry, const struct label_class *class,
                       attn_key_class *out) {
    const srv_names *names = srv_labels_of(an->labels, entry);
    size_t *keys = attn_arena_zeroed(an->req->arena, names->key.count, sizeof *keys), n = 0;
    for (size_t j = 0; keys && j < names->key.count; j++)
        if (belongs_to_class(class, names, j))
            keys[n++] = j;
    *out = (attn_key_class){class->name, keys, n};
    return keys != NULL;
}

static bool add_classes(srv_analysis *an) {
    attn_measure_options *o = &an->options;
    const struct label_class *added[LABEL_CLASSES];
    const size_t given = o->class_count, entries = entries_of(an);
    size_t more = 0;
    for (size_t c = 0; c < LABEL_CLASSES; c++)
        if (given + more < ATTN_CLASSES_MOST && class_occurs(an, &label_classes[c]))
            added[more++] = &label_classes[c];
    const size_t all = given + more;
    attn_key_class *classes = attn_arena_zeroed(an->req->arena, entries * all + 1, sizeof *classes);
    if (!classes)
        return false;
    for (size_t b = 0; b < entries; b++) {
        if (given)
            memcpy(classes + b * all, o->classes, given * sizeof *classes);
        for (size_t c = 0; c < more; c++)
            if (!fill_class(an, b, added[c], &classes[b * all + given + c]))
                return false;
    }
    o->classes = classes;
    o->class_count = all;
    o->class_batches = entries;
    return true;
}

/* --- numbering of words --- */

typedef struct word {
    const char *text;
    int64_t *to; /* where the number of the word is written */
} word;

static int by_text(const void *x, const void *y) {
    return strcmp(((const word *)x)->text, ((const word *)y)->text);
}

static int by_folded(const void *x, const void *y) {
    return strcasecmp(((const word *)x)->text, ((const word *)y)->text);
}

/* Numbers the words from `first` upwards. Equal words get the same number. */
static void number_words(word *words, size_t n, int (*order)(const void *, const void *),
                         int64_t first) {
    if (n > 1)
        qsort(words, n, sizeof *words, order);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && order(&words[i - 1], &words[i]) != 0)
            first++;
        *words[i].to = first;
    }
}

/* Copies the numbers of keys to queries in batch entry `entry`: query i gets the number of key
 * i + offset, where `offset` is the query offset of the mask, or -1 if this key does not exist. */
static void copy_to_queries(const srv_analysis *an, size_t entry, const int64_t *keys,
                            int64_t *queries) {
    const int64_t offset = attn_mask_repeated_offset(an->mask, entry);
    for (size_t i = 0; i < an->L; i++) {
        int64_t at = (int64_t)i + offset;
        queries[i] = at >= 0 && (uint64_t)at < an->S ? keys[at] : -1;
    }
}

/* Gives the tokens of a batch entry the numbers of their words. `words` is scratch with an element
 * for each label of the entry. */
static void number_tokens(const srv_analysis *an, size_t entry, word *words, int64_t *keys,
                          int64_t *queries) {
    const srv_names *names = srv_labels_of(an->labels, entry);
    size_t n = 0;
    for (size_t j = 0; j < names->key.count; j++)
        words[n++] = (word){names->key.values[j], &keys[j]};
    for (size_t i = 0; i < names->query.count; i++)
        words[n++] = (word){names->query.values[i], &queries[i]};
    number_words(words, n, by_text, 0);
    if (names->query.count == 0)
        copy_to_queries(an, entry, keys, queries);
}

/* Sets *keys [entries, S] and *queries [entries, L] to the numbers of tokens. `each` numbers the
 * tokens of one batch entry, with scratch for `room` words. false: out of memory. */
static bool number_entries(const srv_analysis *an, size_t room,
                           void (*each)(const srv_analysis *an, size_t entry, word *words,
                                        int64_t *keys, int64_t *queries),
                           const int64_t **keys, const int64_t **queries) {
    attn_arena *arena = an->req->arena;
    const size_t entries = entries_of(an);
    int64_t *of_keys = attn_arena_zeroed(arena, entries * an->S, sizeof *of_keys);
    int64_t *of_queries = attn_arena_zeroed(arena, entries * an->L, sizeof *of_queries);
    word *words = attn_arena_zeroed(arena, room, sizeof *words);
    if (!of_keys || !of_queries || !words)
        return false;
    for (size_t b = 0; b < entries; b++)
        each(an, b, words, of_keys + b * an->S, of_queries + b * an->L);
    *keys = of_keys;
    *queries = of_queries;
    return true;
}

static bool tokens_of_labels(srv_analysis *an) {
    attn_measure_options *o = &an->options;
    o->token_batches = entries_of(an);
    return number_entries(an, an->S + an->L, number_tokens, &o->key_tokens, &o->query_tokens);
}

/* Gives the tokens of a batch entry the numbers of their kinds. */
static void number_kinds(const srv_analysis *an, size_t entry, word *words, int64_t *keys,
                         int64_t *queries) {
    const srv_strings *labels = &srv_labels_of(an->labels, entry)->key;
    const attn_measure_options *o = &an->options;
    const size_t set = attn_repeated_entry(entry, o->class_batches);
    const attn_key_class *classes = o->class_count ? o->classes + set * o->class_count : NULL;
    size_t n = 0;
    for (size_t j = 0; j < an->S; j++)
        keys[j] = -1;
    for (size_t c = o->class_count; c-- > 0;)
        for (size_t k = 0; k < classes[c].count; k++)
            keys[classes[c].keys[k]] = (int64_t)c;
    for (size_t j = 0; j < labels->count; j++)
        if (keys[j] < 0)
            words[n++] = (word){without_prefix(labels->values[j]), &keys[j]};
    number_words(words, n, by_folded, (int64_t)o->class_count);
    copy_to_queries(an, entry, keys, queries);
}

/* Gives each token the number of its kind. All tokens of a class are of one kind; punctuation and
 * special tokens are classes, too. Tokens in no class are of one kind if their words are equal.
 * false: out of memory. */
static bool kinds_of(srv_analysis *an) {
    attn_measure_options *o = &an->options;
    o->kind_batches = entries_of(an);
    return number_entries(an, an->S, number_kinds, &o->key_kinds, &o->query_kinds);
}

/* Marks the queries whose labels are special tokens. false: out of memory. */
static bool mark_queries(srv_analysis *an) {
    const size_t entries = entries_of(an);
    uint8_t *special = attn_arena_zeroed(an->req->arena, entries, an->L);
    for (size_t b = 0; special && b < entries; b++) {
        const srv_names *names = srv_labels_of(an->labels, b);
        for (size_t i = 0; i < names->query.count && i < an->L; i++)
            special[b * an->L + i] = is_marked(&names->query, names->query_special, i);
    }
    an->options.query_special = special;
    an->options.special_batches = entries;
    return special != NULL;
}

/* Sets the options that follow from the labels. The classes "punctuation" and "special tokens"
 * follow the classes of the caller. Equal words get equal numbers, and so do tokens of one kind.
 * Queries whose labels are special tokens are marked. options.mask must be set before. false: out
 * of memory. */
static bool read_labels(srv_analysis *an) {
    bool named = srv_labels_of(an->labels, 0)->key.count == an->S && an->S > 0;
    if (named && !add_classes(an))
        return false;
    if (named && !an->options.query_tokens && !tokens_of_labels(an))
        return false;
    if (srv_labels_given(an->labels) && !mark_queries(an))
        return false;
    return !(named || an->options.class_count) || kinds_of(an);
}

/* --- the analysis --- */

/* Upper bounds of the answer's text in bytes. */
#define TEXT_OF_HEAD   4096.0  /* for each head: its measures and its pattern */
#define TEXT_OF_CLASS  160.0   /* for each class in a head */
#define TEXT_OF_NUMBER 16.0    /* for each other number */
#define TEXT_OF_REST   16384.0 /* for the legend and the diagnoses */

static bool wants_pairs(const srv_analysis *an) {
    return (an->items & (SRV_AN_PAIRS | SRV_AN_DIAGNOSES)) != 0 && an->H > 1;
}

static bool wants_norms(const srv_analysis *an) {
    return (an->items & SRV_AN_VALUE_NORM) != 0 && an->valued;
}

static double text_of(const srv_analysis *an) {
    const attn_measure_options *o = &an->options;
    double heads = (double)an->B * (double)an->H;
    double numbers = (double)o->segment_count * (double)o->segment_count + 5 * (double)o->top_keys;
    double text = heads * (TEXT_OF_HEAD + TEXT_OF_CLASS * (double)(o->class_count + 2) +
                           TEXT_OF_NUMBER * numbers);
    if (an->items & SRV_AN_PAIRS)
        text += 3 * TEXT_OF_NUMBER * heads * (double)an->H;
    return text + TEXT_OF_REST + 64 * heads;
}

/* Adds the memory of the labels to *bytes: the marks of queries, the numbers of words and kinds,
 * the scratch to sort words, and the keys of the classes. The first batch entry counts only the
 * marks. Each further entry that has labels of its own counts everything. false: a size
 * overflows. */
static bool count_labels(const srv_analysis *an, size_t *bytes) {
    const size_t more = entries_of(an) - 1;
    size_t tokens, each, all, marks;
    return attn_size_mul(an->L, more + 1, &marks) && attn_size_add(*bytes, marks, bytes) &&
           attn_size_add(*bytes, ATTN_ALIGN, bytes) && attn_size_add(an->L, an->S, &tokens) &&
           attn_size_mul(tokens, 12 * sizeof(size_t), &each) && attn_size_mul(each, more, &all) &&
           attn_size_add(*bytes, all, bytes);
}

bool srv_analysis_cost(const srv_analysis *an, size_t slots, attn_cost *out, double *text) {
    attn_error err = {0};
    attn_cost all, pairs = {0}, norms = {0};
    attn_measure_options o = an->options;
    o.class_count += 2; /* labels may add two classes, punctuation and special tokens */
    if (attn_measure_cost(&o, an->B, an->H, an->L, an->S, slots, &all, &err) ||
        (wants_pairs(an) &&
         attn_head_distances_cost(an->B, an->H, 0, an->L, an->S, slots, &pairs, &err)) ||
        (wants_norms(an) && attn_value_norms_cost(an->valued, an->w_o, slots, &norms, &err)))
        return srv_problem_error(an->req, &err);
    if (!attn_size_add(all.work_bytes, pairs.work_bytes, &all.work_bytes) ||
        !attn_size_add(all.work_bytes, norms.work_bytes, &all.work_bytes) ||
        !attn_size_add(all.work_bytes, norms.result_bytes, &all.work_bytes) ||
        !attn_size_add(all.result_bytes, pairs.result_bytes, &all.result_bytes) ||
        !count_labels(an, &all.work_bytes))
        return srv_problem(an->req, SRV_TOO_LARGE, NULL, "its size is beyond what can be counted");
    all.operations += pairs.operations + norms.operations;
    *out = all;
    *text = text_of(an);
    return true;
}

static attn_status name_patterns(srv_analysis *an, attn_error *err) {
    attn_arena *arena = an->req->arena;
    an->patterns = attn_arena_zeroed(arena, an->measures.count, sizeof *an->patterns);
    ATTN_TAKEN(an->patterns, "the names of patterns", err);
    for (size_t i = 0; i < an->measures.count; i++)
        ATTN_TRY(
            attn_name_pattern(&an->measures.items[i], &an->options, arena, &an->patterns[i], err));
    return ATTN_OK;
}

/* Appends the warnings of the request to the diagnoses. */
static bool repeat_warnings(const srv_warnings *from, attn_arena *arena, attn_diagnoses *to) {
    attn_diagnosis *items = attn_arena_zeroed(arena, to->count + from->count, sizeof *items);
    if (!items)
        return false;
    if (to->count)
        memcpy(items, to->items, to->count * sizeof *items);
    for (size_t i = 0; i < from->count; i++) {
        attn_text t = {.arena = arena};
        attn_text_add(&t, "%s.", from->items[i].detail);
        if (t.failed)
            return false;
        items[to->count++] = (attn_diagnosis){.code = from->items[i].code, .text = t.data};
    }
    to->items = items;
    return true;
}

static attn_status add_diagnoses(srv_analysis *an, attn_error *err) {
    const attn_diagnose_input in = {.measures = &an->measures,
                                    .distances = an->pairs,
                                    .run = an->run,
                                    .layers = an->layers,
                                    .layered = an->layered,
                                    .L = an->L,
                                    .S = an->S};
    attn_arena *arena = an->req->arena;
    ATTN_TRY(attn_diagnose(&in, arena, &an->diagnoses, err));
    return !an->warnings || repeat_warnings(an->warnings, arena, &an->diagnoses)
               ? ATTN_OK
               : attn_no_memory(err, "diagnoses");
}

/* The time to compare a pair of heads, as a multiple of the time to measure a head. */
#define PAIR_TIME 0.45

/* If pairs are wanted, divides the progress into a part for the measures of heads and a part for
 * the pairs of heads. Begins the second part if `pairs` is true, else the first. */
static void divide_progress(const srv_analysis *an, bool pairs) {
    const double heads = (double)an->H, all = heads * (heads - 1) / 2;
    const double share = heads / (heads + PAIR_TIME * all);
    if (wants_pairs(an))
        srv_progress_part(an->req, pairs ? share : 0, pairs ? 1 : share);
}

attn_status srv_analysis_run(srv_analysis *an, attn_pool *pool, attn_error *err) {
    srv_request *req = an->req;
    an->options.mask = an->mask;
    ATTN_TAKEN(read_labels(an), "the words of labels", err);
    if (wants_norms(an) && !an->value_norms)
        ATTN_TRY(attn_value_norms(an->run, an->w_o, pool, &req->control, req->arena,
                                  &an->value_norms, err));
    if (wants_norms(an))
        an->options.value_norms = an->value_norms;
    divide_progress(an, false);
    ATTN_TRY(attn_measure_heads(&an->source, &an->options, pool, &req->control, req->arena,
                                &an->measures, err));
    if (srv_analysis_has(an, SRV_AN_PATTERNS))
        ATTN_TRY(name_patterns(an, err));
    divide_progress(an, true);
    if (wants_pairs(an))
        ATTN_TRY(attn_head_distances_measure(&an->source, an->mask, NULL, NULL, pool, &req->control,
                                             req->arena, &an->pairs, err));
    return srv_analysis_has(an, SRV_AN_DIAGNOSES) ? add_diagnoses(an, err) : ATTN_OK;
}
