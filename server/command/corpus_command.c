/* `attnd corpus` prints sentence pairs of the built-in corpora with their word alignments, for
 * reading or for training other programs. */
#include <stdio.h>
#include <string.h>

#include "command/command.h"

typedef struct command_options {
    attn_corpus_options corpus;
    int split;  /* an attn_split */
    int format; /* an index of format_names */
    size_t count, from;
    bool baselines;
} command_options;

#define OPTION(...) SRV_NAMED_ROW(command_options, __VA_ARGS__)

enum { JSON = 1 };
static const char *const format_names[] = {"tsv", "json", NULL};
static const srv_field option_fields[] = {
    OPTION("task", corpus.task, SRV_ENUM, "one of", .choices = attn_task_names),
    OPTION("split", split, SRV_ENUM, "one of", .choices = attn_split_names),
    OPTION("count", count, SRV_INT, "number of pairs"),
    OPTION("from", from, SRV_INT, "index of the first pair"),
    OPTION("format", format, SRV_ENUM,
           "one line a pair, tsv with the columns source, target and links; one of",
           .choices = format_names),
    OPTION("large", corpus.large, SRV_BOOL, "use all words of the lexicon"),
    OPTION("seed", corpus.seed, SRV_INT, "seed of the corpus"),
    OPTION("shortest", corpus.shortest, SRV_INT, "fewest source words"),
    OPTION("longest", corpus.longest, SRV_INT, "most source words"),
    OPTION("skew", corpus.skew, SRV_REAL, "a value above 1 gives more short sentences"),
    OPTION("num_symbols", corpus.symbols, SRV_INT, "number of symbols of copy, reverse and sort"),
    OPTION("baselines", baselines, SRV_BOOL,
           "print the BLEU of a word-by-word dictionary and of copying instead"),
    {0},
};

static void print_words(const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", words[i]);
}

/* Prints a line of three columns: source words, target words, links. A link is a pair of word
 * numbers, in the notation of alignment files: "3-4" for a sure link, "3?4" for a possible link. */
static void print_tsv(const attn_pair *p) {
    print_words(p->source, p->source_count);
    putchar('\t');
    print_words(p->target, p->target_count);
    putchar('\t');
    for (size_t i = 0; i < p->link_count; i++)
        printf("%s%d%c%d", i ? " " : "", p->links[i].source, p->links[i].sure ? '-' : '?',
               p->links[i].target);
    putchar('\n');
}

static void put_links(attn_json_text *j, const attn_pair *p, bool sure) {
    attn_json_key_array(j, sure ? "sure" : "possible");
    for (size_t i = 0; i < p->link_count; i++) {
        if (p->links[i].sure != sure)
            continue;
        attn_json_array(j);
        attn_json_int(j, p->links[i].source);
        attn_json_int(j, p->links[i].target);
        attn_json_array_end(j);
    }
    attn_json_array_end(j);
}

/* Prints the pair as JSON. false: out of memory. */
static bool print_json(const attn_pair *p, attn_arena *scratch) {
    attn_json_text j = {.arena = scratch, .decimals = -1};
    attn_arena_reset(scratch);
    attn_json_object(&j);
    attn_json_key_strings(&j, "source", p->source, p->source_count);
    attn_json_key_strings(&j, "target", p->target, p->target_count);
    put_links(&j, p, true);
    put_links(&j, p, false);
    attn_json_object_end(&j);
    if (!j.failed)
        printf("%.*s\n", (int)j.size, j.data);
    return !j.failed;
}

static int print_pairs(const command_options *w, const attn_corpus *corpus) {
    static attn_pair pair; /* static, because 15 KB are too large for the stack */
    attn_error err;
    attn_arena *scratch = attn_arena_new((size_t)1 << 20);
    int code = scratch ? 0 : 1;
    for (size_t i = 0; i < w->count && !code; i++) {
        if (attn_corpus_pair(corpus, (attn_split)w->split, w->from + i, &pair, &err))
            code = srv_command_fail("corpus", &err);
        else if (w->format == JSON)
            code = !print_json(&pair, scratch);
        else
            print_tsv(&pair);
    }
    attn_arena_free(scratch);
    return code || ferror(stdout);
}

static int print_baselines(const attn_corpus *corpus, attn_arena *arena) {
    enum { PAIRS = 20000, SENTENCES = 1000 };
    attn_baselines b;
    attn_error err;
    if (attn_corpus_baselines(corpus, PAIRS, SENTENCES, arena, &b, &err))
        return srv_command_fail("corpus", &err);
    printf("BLEU on %d held-out sentences: dictionary word by word %.2f, copying %.2f\n", SENTENCES,
           b.dictionary, b.copy);
    return 0;
}

static int run(const command_options *w, attn_arena *arena) {
    attn_corpus *corpus;
    attn_error err;
    if (attn_corpus_new(&w->corpus, arena, &corpus, &err))
        return srv_command_fail("corpus", &err) + (err.code == ATTN_EVALUE);
    return w->baselines ? print_baselines(corpus, arena) : print_pairs(w, corpus);
}

int srv_command_corpus(int argc, char **argv) {
    command_options w = {.corpus = attn_corpus_defaults(), .count = 10};
    int code = srv_options_read(
        &(srv_options){option_fields, &w, sizeof w}, 1,
        "Prints sentence pairs of the built-in corpora with their gold alignments.", argc, argv);
    if (code)
        return code - 1;
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    code = arena ? run(&w, arena) : 1;
    attn_arena_free(arena);
    return code;
}
