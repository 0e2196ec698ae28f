/* `attnd experiment` runs an experiment of the library. It prints the findings as text and writes
 * them as files: JSON, and an SVG and a PNG for each picture. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "command/command.h"
#include "store/model_disk.h"
#include "system/embedded.h"

enum { PATH = 4096 };          /* buffer size of a path */
static const double scale = 2; /* pixels of a PNG for each unit of length of the SVG */

/* Where the files go. */
typedef struct place {
    const char *folder, *name; /* the files are folder/name.json, folder/name-PICTURE.svg, … */
    FILE *say;                 /* print the path of each file here; NULL: nowhere */
    attn_error *err;
} place;

/* Writes folder/name.ending, or folder/name-picture.ending if `picture` is not NULL. */
static attn_status write_file(const place *p, const char *picture, const char *ending,
                              const void *data, size_t size) {
    char path[PATH];
    if (snprintf(path, sizeof path, "%s/%s%s%s.%s", p->folder, p->name, picture ? "-" : "",
                 picture ? picture : "", ending) >= PATH)
        return attn_fail(p->err, ATTN_EARG, "out", "the path is too long");
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    ok = f && !fclose(f) && ok;
    if (!ok)
        return attn_fail(p->err, ATTN_EARG, "out", "%.200s cannot be written: %s", path,
                         strerror(errno));
    if (p->say)
        fprintf(p->say, "wrote %s\n", path);
    return ATTN_OK;
}

/* Writes a picture as SVG and, if this build can draw PNG, as PNG. The file of the first picture
 * has no picture name. */
static attn_status write_picture(const place *p, const attn_picture *picture, bool first,
                                 attn_arena *arena) {
    attn_text svg = {.arena = arena};
    const char *name = first ? NULL : picture->name;
    const void *png;
    size_t bytes;
    ATTN_TRY(attn_picture_draw(picture, &svg, p->err));
    ATTN_TRY(write_file(p, name, "svg", svg.data, svg.size));
    attn_status status = attn_figure_png(&svg, scale, arena, &png, &bytes, p->err);
    if (status == ATTN_EUNSUPPORTED)
        return ATTN_OK;
    if (!status && first && !attn_figure_has_fonts())
        fputs("attnd experiment: no font is installed, so every letter of a PNG is a box\n",
              stderr);
    return status ? status : write_file(p, name, "png", png, bytes);
}

static attn_status write_json(const place *p, const attn_findings *findings, attn_arena *arena) {
    attn_json_text json = {.arena = arena, .decimals = -1};
    attn_findings_json(findings, &json);
    if (json.failed)
        return attn_fail(p->err, ATTN_ENOMEM, "out", "not enough memory for the JSON");
    return write_file(p, NULL, "json", json.data, json.size);
}

static attn_status write_findings(const char *folder, const attn_findings *findings, FILE *say,
                                  attn_error *err) {
    const place p = {folder, findings->experiment->name, say, err};
    if (mkdir(folder, 0777) && errno != EEXIST)
        return attn_fail(err, ATTN_EARG, "out", "%.200s cannot be made: %s", folder,
                         strerror(errno));
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    if (!arena)
        return attn_fail(err, ATTN_ENOMEM, "out", "no memory");
    attn_status status = write_json(&p, findings, arena);
    for (size_t i = 0; !status && i < findings->picture_count; i++) {
        attn_arena_reset(arena);
        status = write_picture(&p, &findings->pictures[i], i == 0, arena);
    }
    attn_arena_free(arena);
    return status;
}

enum { OPTIONS = ATTN_EXPERIMENT_SETTINGS + 8 }; /* room in a table of options, end row included */
enum { BAR = 24 };                               /* characters of the progress bar */

typedef struct command_options {
    const attn_experiment *experiment;
    double values[ATTN_EXPERIMENT_SETTINGS];
    const char *out, *model;
    size_t threads;
    bool full, quiet;
} command_options;

/* The state of the progress display on stderr. */
typedef struct show {
    bool bar;       /* stderr is a terminal: draw a progress bar */
    bool drawn;     /* the bar is on the terminal's last line */
    int percent;    /* the percentage that the bar shows */
    char line[128]; /* the last line of text from the experiment */
} show;

static void clear(show *s) {
    if (s->drawn)
        fputs("\r\033[K", stderr);
    s->drawn = false;
}

static void draw(show *s) {
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < BAR; i++)
        fputs(i < BAR * s->percent / 100 ? "█" : "·", stderr);
    fprintf(stderr, "] %d %%  %s", s->percent, s->line);
    fflush(stderr);
    s->drawn = true;
}

/* The experiment's progress hook. On a terminal it updates the bar; otherwise it prints each line
 * of text from the experiment. */
static void progress(void *ctx, double done, const char *line) {
    show *s = ctx;
    const int percent = (int)(100 * done);
    if (line)
        snprintf(s->line, sizeof s->line, "%s", line);
    if (s->bar && (line || percent != s->percent)) {
        s->percent = percent;
        draw(s);
    } else if (!s->bar && line) {
        fprintf(stderr, "%3d %%  %s\n", percent, line);
    }
}

static int print_list(void) {
    puts("Runs an experiment on attention and writes tables, a conclusion, pictures and a JSON "
         "file.\n\n"
         "usage: attnd experiment NAME [options]        (attnd experiment NAME --help)\n");
    for (size_t i = 0; attn_experiment_at(i); i++) {
        const attn_experiment *e = attn_experiment_at(i);
        printf("  %-14s %s\n", e->name, e->shows);
    }
    return 0;
}

static int unknown(const char *name) {
    fprintf(stderr, "attnd experiment: there is no \"%.60s\"; there are", name);
    for (size_t i = 0; attn_experiment_at(i); i++)
        fprintf(stderr, "%s %s", i ? "," : "", attn_experiment_at(i)->name);
    fputc('\n', stderr);
    return 2;
}

/* Fills the table of options: the settings of the experiment, then the options that all experiments
 * have. */
static void fill_table(command_options *w, srv_option table[OPTIONS]) {
    const attn_experiment *e = w->experiment;
    const srv_option common[] = {
        {"full", SRV_OPTION_FLAG, &w->full, "use the profile that takes longer"},
        {"out", SRV_OPTION_TEXT, &w->out, "folder for NAME.json, NAME.svg and NAME.png"},
        {"threads", SRV_OPTION_SIZE, &w->threads, "number of threads"},
        {"quiet", SRV_OPTION_FLAG, &w->quiet, "show no progress"},
        {"model", SRV_OPTION_TEXT, &w->model, "model file of `attnd train` to examine"},
        {0}};
    size_t n = 0;
    for (; n < e->setting_count; n++)
        table[n] =
            (srv_option){e->settings[n].name, SRV_OPTION_NUMBER, &w->values[n], e->settings[n].doc};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (!common[i].name || strcmp(common[i].name, "model") || e->wants_model)
            table[n++] = common[i];
}

/* Reads the options. Returns as srv_options_read does. --full is looked for first, because it
 * decides the default values of the other options. */
static int read_options(command_options *w, int argc, char **argv) {
    srv_option table[OPTIONS];
    for (int i = 1; i < argc; i++)
        w->full = w->full || !strcmp(argv[i], "--full");
    attn_experiment_values(w->experiment, w->full, w->values);
    fill_table(w, table);
    int code = srv_options_read(table, w->experiment->shows, argc, argv);
    if (code)
        return code;
    attn_error err;
    if (attn_experiment_check(w->experiment, w->values, &err)) {
        char name[SRV_OPTION_NAME];
        fprintf(stderr, "attnd experiment %s: --%s %s\n", w->experiment->name,
                srv_option_dashed(err.where, name), err.text);
        return 3;
    }
    return 0;
}

/* Opens the model to examine: the file of --model, or the embedded one. */
static attn_status open_model(const command_options *w, attn_model_file *file,
                              attn_experiment_hooks *hooks, attn_error *err) {
    const srv_file *f = srv_embedded;
    while (!*w->model && f->name && strcmp(f->name, "models/en-fr.safetensors"))
        f++;
    ATTN_TRY(*w->model ? srv_model_open(w->model, false, file, NULL, err)
             : f->name ? attn_model_read(f->data, f->size, false, file, err)
                       : attn_fail(err, ATTN_EARG, "model", "none is built in"));
    hooks->model = file->model, hooks->source = file->source, hooks->target = file->target;
    if (!srv_model_corpus(file, &hooks->corpus) ||
        (hooks->corpus.task != ATTN_EN_FR && hooks->corpus.task != ATTN_EN_FR_TEXT))
        return attn_fail(err, ATTN_EARG, "model",
                         "must be trained on the task en-fr or en-fr-text");
    return ATTN_OK;
}

static int report(const command_options *w, const attn_findings *findings) {
    attn_error err;
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    attn_text text = {.arena = arena};
    if (arena)
        attn_findings_print(findings, &text);
    if (!arena || text.failed) {
        fputs("attnd experiment: not enough memory\n", stderr);
        attn_arena_free(arena);
        return 1;
    }
    fwrite(text.data, 1, text.size, stdout);
    attn_arena_free(arena);
    return write_findings(w->out, findings, w->quiet ? NULL : stderr, &err)
               ? srv_command_fail(w->experiment->name, &err)
               : 0;
}

static int run(const command_options *w, attn_arena *arena, attn_pool *pool) {
    const attn_control control = {.cancel = srv_command_watch_stop()};
    show shown = {.bar = isatty(STDERR_FILENO)};
    attn_experiment_hooks hooks = {
        .progress = w->quiet ? NULL : progress, .ctx = &shown, .control = &control, .pool = pool};
    attn_model_file file = {0};
    attn_findings findings;
    attn_error err;
    attn_status status = w->experiment->wants_model ? open_model(w, &file, &hooks, &err) : ATTN_OK;
    if (!status)
        status = attn_experiment_run(w->experiment, w->values, &hooks, arena, &findings, &err);
    clear(&shown);
    int code = status == ATTN_ECANCELED ? SRV_COMMAND_STOPPED
               : status                 ? srv_command_fail(w->experiment->name, &err)
                                        : report(w, &findings);
    attn_model_file_close(&file);
    return code;
}

int srv_command_experiment(int argc, char **argv) {
    command_options w = {.out = ".", .model = "", .threads = 1};
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return print_list();
    w.experiment = attn_experiment_find(argv[1]);
    if (!w.experiment)
        return unknown(argv[1]);
    char name[64];
    snprintf(name, sizeof name, "experiment %s", argv[1]);
    argv[1] = name;
    int code = read_options(&w, argc - 1, argv + 1);
    if (code)
        return code - 1;
    attn_arena *arena = attn_arena_new(attn_experiment_bytes(w.experiment, w.values));
    attn_pool *pool = w.threads > 1 ? attn_pool_new(w.threads) : NULL;
    if (!arena || (w.threads > 1 && !pool)) {
        fputs("attnd experiment: not enough memory or threads\n", stderr);
        code = 1;
    } else {
        code = run(&w, arena, pool);
    }
    attn_pool_free(pool);
    attn_arena_free(arena);
    return code;
}
