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

#include "api/analyses_call.h"
#include "request/shared.h"

/* --- what labels say about tokens --- */

/* Returns the label without the characters that tokenizers put in front of a word piece: "##"
 * (BERT), U+0120 (GPT-2 and RoBERTa) or U+2581 (SentencePiece). */
static const char *bare(const char *label) {
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
static size_t mark(const char *text) {
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
    const char *at = bare(label);
    size_t n = mark(at);
    while (n > 0 && at[n]) {
        size_t more = mark(at + n);
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

static bool add_class(srv_analysis *an, attn_key_class *classes, const char *name,
                      bool (*holds)(const char *)) {
    const srv_strings *labels = &an->labels->key;
    size_t *keys = attn_arena_zeroed(an->req->arena, labels->count, sizeof *keys), n = 0;
    if (!keys)
        return false;
    for (size_t j = 0; j < labels->count; j++)
        if (holds(labels->values[j]) && (holds == is_special || !is_special(labels->values[j])))
            keys[n++] = j;
    if (n > 0 && an->options.class_count < ATTN_CLASSES_MOST)
        classes[an->options.class_count++] = (attn_key_class){name, keys, n};
    return true;
}

static bool add_classes(srv_analysis *an) {
    attn_key_class *classes =
        attn_arena_zeroed(an->req->arena, an->options.class_count + 2, sizeof *classes);
    if (!classes)
        return false;
    if (an->options.class_count)
        memcpy(classes, an->options.classes, an->options.class_count * sizeof *classes);
    an->options.classes = classes;
    return add_class(an, classes, "punctuation", is_punctuation) &&
           add_class(an, classes, "special tokens", is_special);
}

/* --- numbering of words --- */

typedef struct word {
    const char *text;
    int64_t *to;
} word;

static int by_text(const void *x, const void *y) {
    return strcmp(((const word *)x)->text, ((const word *)y)->text);
}

static int by_folded(const void *x, const void *y) {
    return strcasecmp(((const word *)x)->text, ((const word *)y)->text);
}

/* Numbers the words from `first` upwards. Equal words get the same number. */
static void number(word *words, size_t n, int (*order)(const void *, const void *), int64_t first) {
    if (n > 1)
        qsort(words, n, sizeof *words, order);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && order(&words[i - 1], &words[i]) != 0)
            first++;
        *words[i].to = first;
    }
}

/* Copies the numbers of keys to queries: query i gets the number of key i + offset, where `offset`
 * is that of the mask. If there is no such key, the query gets `none`. */
static void copy_to_queries(const srv_analysis *an, const int64_t *keys, int64_t *queries,
                            int64_t none) {
    int64_t offset = an->mask && attn_mask_batches(an->mask) ? attn_mask_offset(an->mask, 0) : 0;
    for (size_t i = 0; i < an->L; i++) {
        int64_t at = (int64_t)i + offset;
        queries[i] = at >= 0 && (uint64_t)at < an->S ? keys[at] : none;
    }
}

static bool tokens_of_labels(srv_analysis *an) {
    const srv_labels *l = an->labels;
    attn_arena *arena = an->req->arena;
    int64_t *keys = attn_arena_zeroed(arena, an->S, sizeof *keys);
    int64_t *queries = attn_arena_zeroed(arena, an->L, sizeof *queries);
    word *words = attn_arena_zeroed(arena, l->key.count + l->query.count, sizeof *words);
    size_t n = 0;
    if (!keys || !queries || !words)
        return false;
    for (size_t j = 0; j < l->key.count; j++)
        words[n++] = (word){l->key.values[j], &keys[j]};
    for (size_t i = 0; i < l->query.count; i++)
        words[n++] = (word){l->query.values[i], &queries[i]};
    number(words, n, by_text, 0);
    if (l->query.count == 0)
        copy_to_queries(an, keys, queries, -1);
    an->options.query_tokens = queries;
    an->options.key_tokens = keys;
    an->options.token_batches = 1;
    return true;
}

/* Gives each token the number of its kind. All tokens of a class are of one kind. Of the other
 * tokens, those with equal words are of one kind. Punctuation and special tokens are classes too.
 */
static bool kinds_of(srv_analysis *an) {
    const srv_strings *labels = &an->labels->key;
    const attn_measure_options *o = &an->options;
    attn_arena *arena = an->req->arena;
    int64_t *keys = attn_arena_zeroed(arena, an->S, sizeof *keys);
    int64_t *queries = attn_arena_zeroed(arena, an->L, sizeof *queries);
    word *words = attn_arena_zeroed(arena, labels->count, sizeof *words);
    size_t n = 0;
    if (!keys || !queries || !words)
        return false;
    for (size_t j = 0; j < an->S; j++)
        keys[j] = -1;
    for (size_t c = o->class_count; c-- > 0;)
        for (size_t k = 0; k < o->classes[c].count; k++)
            keys[o->classes[c].keys[k]] = (int64_t)c;
    for (size_t j = 0; j < labels->count; j++)
        if (keys[j] < 0)
            words[n++] = (word){bare(labels->values[j]), &keys[j]};
    number(words, n, by_folded, (int64_t)o->class_count);
    copy_to_queries(an, keys, queries, -1);
    an->options.query_kinds = queries;
    an->options.key_kinds = keys;
    return true;
}

/* Adds to the options what the labels say: the classes punctuation and special tokens (behind the
 * classes of the caller), the number of each token's word, and the number of its kind. options.mask
 * must be set before. false: out of memory. */
static bool read_labels(srv_analysis *an) {
    bool named = an->labels->key.count == an->S && an->S > 0;
    if (named && !add_classes(an))
        return false;
    if (named && !an->options.query_tokens && !tokens_of_labels(an))
        return false;
    return !(named || an->options.class_count) || kinds_of(an);
}

/* --- the analysis --- */

/* Upper bounds of the answer's text in bytes. */
#define TEXT_OF_HEAD   4096.0  /* for each head: its measures and its pattern */
#define TEXT_OF_CLASS  160.0   /* for each class in a head */
#define TEXT_OF_NUMBER 16.0    /* for each other number */
#define TEXT_OF_REST   16384.0 /* for the legend and the diagnoses */

const char *const srv_analysis_items[] = {
    "entropy",   "confidence", "distance",  "positional", "local",    "sink",    "received",
    "duplicate", "induction",  "structure", "blocks",     "scores",   "classes", "patterns",
    "pairs",     "diagnoses",  "all",       "rollout",    "gradient", NULL};
const char *const srv_analysis_items_run[] = {
    "entropy",  "confidence", "distance",  "positional", "local",  "sink",
    "received", "duplicate",  "induction", "structure",  "blocks", "scores",
    "classes",  "patterns",   "pairs",     "diagnoses",  "all",    NULL};

static bool wants_pairs(const srv_analysis *an) {
    return (an->items & (SRV_AN_PAIRS | SRV_AN_DIAGNOSES)) != 0 && an->H > 1;
}

static bool fail(const srv_analysis *an, const attn_error *err) {
    srv_problem_error(an->req, err);
    return false;
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

bool srv_analysis_cost(const srv_analysis *an, size_t slots, attn_cost *out, double *text) {
    attn_error err = {0};
    attn_cost all, pairs = {0};
    attn_measure_options o = an->options;
    o.class_count += 2; /* labels may add two classes, punctuation and special tokens */
    if (attn_measure_cost(&o, an->B, an->H, an->L, an->S, slots, &all, &err) ||
        (wants_pairs(an) &&
         attn_head_distances_cost(an->B, an->H, 0, an->L, an->S, slots, &pairs, &err)))
        return fail(an, &err);
    if (!attn_size_add(all.work_bytes, pairs.work_bytes, &all.work_bytes) ||
        !attn_size_add(all.result_bytes, pairs.result_bytes, &all.result_bytes)) {
        srv_problem(an->req, SRV_TOO_LARGE, NULL, "its size is beyond what can be counted");
        return false;
    }
    all.operations += pairs.operations;
    *out = all;
    *text = text_of(an);
    return true;
}

static attn_status name_patterns(srv_analysis *an, attn_error *err) {
    attn_arena *arena = an->req->arena;
    an->patterns = attn_arena_zeroed(arena, an->measures.count, sizeof *an->patterns);
    if (!an->patterns)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the names of patterns");
    attn_status status = ATTN_OK;
    for (size_t i = 0; !status && i < an->measures.count; i++)
        status =
            attn_name_pattern(&an->measures.items[i], &an->options, arena, &an->patterns[i], err);
    return status;
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
        attn_text_add(&t, "%s.", from->items[i].text);
        if (t.failed)
            return false;
        items[to->count++] = (attn_diagnosis){.code = from->items[i].code, .text = t.data};
    }
    to->items = items;
    return true;
}

static attn_status diagnose(srv_analysis *an, attn_error *err) {
    const attn_diagnose_input in = {.measures = &an->measures,
                                    .distances = an->pairs,
                                    .run = an->run,
                                    .layers = an->layers,
                                    .layered = an->layered,
                                    .L = an->L,
                                    .S = an->S};
    attn_arena *arena = an->req->arena;
    attn_status status = attn_diagnose(&in, arena, &an->diagnoses, err);
    if (!status && an->warnings && !repeat_warnings(an->warnings, arena, &an->diagnoses))
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for diagnoses");
    return status;
}

attn_status srv_analysis_run(srv_analysis *an, attn_pool *pool, attn_error *err) {
    srv_request *req = an->req;
    an->options.mask = an->mask;
    if (!read_labels(an))
        return attn_fail(err, ATTN_ENOMEM, "labels", "no memory left for the words of labels");
    attn_status status = attn_measure_heads(&an->source, &an->options, pool, &req->control,
                                            req->arena, &an->measures, err);
    if (!status && (an->items & SRV_AN_PATTERNS))
        status = name_patterns(an, err);
    if (!status && wants_pairs(an))
        status = attn_head_distances_measure(&an->source, an->mask, NULL, NULL, pool, &req->control,
                                             req->arena, &an->pairs, err);
    if (!status && (an->items & SRV_AN_DIAGNOSES))
        status = diagnose(an, err);
    return status;
}
