/* `attnd models check DIR` describes each file of a models_dir: its kind, the data that was read
 * from it, and the parts that are refused, with the reason. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "store/weights.h"

enum {
    TYPES = 32
}; /* kinds of tensors that a line counts; there are 13 of GGUF, 8 of safetensors */

/* The number of tensors of each type. */
typedef struct type_counts {
    const char *name[TYPES];
    size_t count[TYPES], types, tensors;
    double values;
} type_counts;

static void count_tensor(type_counts *c, const char *type, int rank, const size_t *dims) {
    size_t t = 0;
    double values = 1;
    while (t < c->types && strcmp(c->name[t], type) != 0)
        t++;
    if (t == TYPES)
        return;
    c->types = t == c->types ? t + 1 : c->types;
    c->name[t] = type;
    c->count[t]++;
    c->tensors++;
    for (int i = 0; i < rank; i++)
        values *= (double)dims[i];
    c->values += values;
}

static void print_counts(const type_counts *c) {
    printf("  %zu tensors", c->tensors);
    for (size_t t = 0; t < c->types; t++)
        printf("%s%zu %s", t ? ", " : ": ", c->count[t], c->name[t]);
    printf("; %.0f parameters\n", c->values);
}

/* Prints the tensors of a file that are refused, although the file was read. Returns whether there
 * are any. */
static bool print_unusable(const attn_unusable_tensor *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        printf("  refused: %s: %s\n", list[i].name, list[i].reason);
    return count > 0;
}

static void print_text(const char *label, const attn_gguf *g, const char *key) {
    attn_gguf_text text;
    if (attn_gguf_text_of(attn_gguf_find(g, key), &text))
        printf("%s%.*s", label, (int)(text.size < 64 ? text.size : 64), text.at);
}

static bool describe_gguf(const char *name, const attn_gguf *g) {
    type_counts counts = {0};
    const attn_gguf_value *words = attn_gguf_find(g, "tokenizer.ggml.tokens");
    printf("%s: GGUF, version %u", name, g->version);
    print_text(", architecture ", g, "general.architecture");
    print_text(", \"", g, "general.name");
    printf("%s, %zu values of metadata\n", attn_gguf_find(g, "general.name") ? "\"" : "",
           g->value_count);
    for (size_t i = 0; i < g->count; i++)
        count_tensor(&counts, g->tensors[i].type, g->tensors[i].rank, g->tensors[i].dims);
    print_counts(&counts);
    print_text("  tokenizer ", g, "tokenizer.ggml.model");
    print_text(", pre ", g, "tokenizer.ggml.pre");
    printf("%s%zu tokens\n", attn_gguf_find(g, "tokenizer.ggml.model") ? ", " : "  no tokenizer, ",
           words ? words->count : 0);
    return print_unusable(g->unusable, g->unusable_count);
}

/* Returns the text of a member, or of a member of a member; "unknown" if there is none. */
static const char *text_at(attn_json *object, const char *outer, const char *key) {
    attn_json *at = object && outer ? attn_json_member(object, outer) : object;
    const attn_json *found = at && at->kind == ATTN_JSON_OBJECT ? attn_json_member(at, key) : NULL;
    return found && found->kind == ATTN_JSON_STRING ? found->text : "unknown";
}

static size_t vocabulary_of(attn_json *tokenizer) {
    attn_json *model = attn_json_member(tokenizer, "model");
    const attn_json *vocabulary =
        model && model->kind == ATTN_JSON_OBJECT ? attn_json_member(model, "vocab") : NULL;
    return vocabulary ? vocabulary->count : 0;
}

static bool describe_safetensors(const char *name, srv_weights *w) {
    type_counts counts = {0};
    const size_t shards = w->file_count - (w->config != NULL) - (w->tokenizer != NULL);
    printf("%s: safetensors", name);
    if (shards > 1)
        printf(", %zu files and their index", shards - 1);
    if (w->config)
        printf(", architecture %.64s", text_at(w->config, NULL, "model_type"));
    putchar('\n');
    for (size_t i = 0; i < w->tensors.count; i++) {
        const attn_tensor *t = &w->tensors.tensors[i].tensor;
        count_tensor(&counts, attn_dtype_name(t->dtype), t->rank, t->dims);
    }
    print_counts(&counts);
    if (w->tokenizer)
        printf("  tokenizer %.64s, %zu tokens\n", text_at(w->tokenizer, "model", "type"),
               vocabulary_of(w->tokenizer));
    else if (w->config)
        puts("  no tokenizer.json");
    return print_unusable(w->tensors.unusable, w->tensors.unusable_count);
}

/* Prints the family of a model that another program wrote, as the service reads it. Returns whether
 * the model is refused. */
static bool print_family(const srv_weights *w) {
    const attn_known_files files = srv_weights_files(w);
    attn_known_model known = {0};
    attn_tokenizer *tokenizer = NULL;
    attn_error err = {0};
    const bool refused =
        attn_known_read(&files, &known, &err) || attn_known_tokenizer(&files, &tokenizer, &err);
    if (refused)
        printf("  refused: %s%s%s\n", err.where, *err.where ? ": " : "", err.text);
    else
        printf("  family %s\n", known.family);
    attn_tokenizer_free(tokenizer);
    attn_model_free(known.model);
    return refused;
}

/* Describes the file or folder with this name. Returns whether a part of it is refused. */
static bool check_name(int dir, const char *name) {
    srv_weights w;
    attn_error err = {0};
    if (srv_weights_open(dir, name, &w, &err)) {
        printf("%s: refused: %s%s%s\n", name, strcmp(err.where, name) ? err.where : "",
               *err.where && strcmp(err.where, name) ? ": " : "", err.text);
        return true;
    }
    bool refused = w.is_gguf ? describe_gguf(name, &w.gguf) : describe_safetensors(name, &w);
    if (!refused && (w.is_gguf || w.config))
        refused = print_family(&w);
    srv_weights_close(&w);
    return refused;
}

static int is_shown(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static int check_dir(const char *path) {
    struct dirent **names;
    const int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int count = dir < 0 ? -1 : scandir(path, &names, is_shown, alphasort);
    bool refused = false;
    if (count < 0) {
        fprintf(stderr, "attnd models: %s: %s\n", path, strerror(errno));
        if (dir >= 0)
            close(dir);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        refused = check_name(dir, names[i]->d_name) || refused;
        free(names[i]);
    }
    free(names);
    close(dir);
    if (count == 0)
        printf("%s is empty; `make models` fetches models into build/models\n", path);
    return refused;
}

int srv_command_models(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return check_dir(argv[2]);
    const bool help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    fputs("Says of each file of a directory of models what it is, what was read of it, and what is "
          "refused and why.\n\nusage: attnd models check DIR\n\nThe exit code is 1 if anything is "
          "refused.\n",
          help ? stdout : stderr);
    return help ? 0 : 2;
}
