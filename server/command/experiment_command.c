/* `attnd experiment` runs an experiment of the library. It prints the findings as text and writes
 * them as files: JSON, and an SVG and a PNG for each picture. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "command/command.h"
#include "jobs/jobs.h"

enum { PATH = 4096 };          /* buffer size of a path */
static const double scale = 2; /* pixels of a PNG for each unit of length of the SVG */

/* Folder and names of the files that are written. */
typedef struct place {
    const char *folder, *name; /* the files are folder/name.json, folder/name-PICTURE.svg, … */
    FILE *say;                 /* the path of each file is printed here; NULL: nowhere */
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

typedef struct command_options {
    const attn_experiment *experiment;
    double values[ATTN_EXPERIMENT_SETTINGS];
    const char *out;
    size_t threads;
    bool full, quiet;
    const char *model; /* must be last: experiments without a model lack this option */
} command_options;

#define OPTION(...) SRV_NAMED_ROW(command_options, __VA_ARGS__)
static const srv_field common_options[] = {
    OPTION("full", full, SRV_BOOL, "use the profile that takes longer"),
    OPTION("out", out, SRV_STRING, "folder for NAME.json, NAME.svg and NAME.png"),
    OPTION("threads", threads, SRV_INT, "number of threads"),
    OPTION("quiet", quiet, SRV_BOOL, "show no progress"),
    OPTION("model", model, SRV_STRING, "model file of `attnd train` to examine"),
    {0},
};

/* The state of the progress display on stderr. */
typedef struct show {
    srv_bar bar;
    int percent;    /* the percentage that the bar shows */
    char line[128]; /* the last line of text from the experiment */
} show;

/* The experiment's progress hook. On a terminal it updates the bar; otherwise it prints each line
 * of text from the experiment. */
static void progress(void *ctx, double done, const char *line) {
    show *s = ctx;
    const int percent = (int)(100 * done);
    if (line)
        snprintf(s->line, sizeof s->line, "%s", line);
    if (s->bar.wanted && (line || percent != s->percent)) {
        s->percent = percent;
        srv_bar_draw(&s->bar, percent / 100.0);
        fprintf(stderr, "%d %%  %s", percent, s->line);
        fflush(stderr);
    } else if (!s->bar.wanted && line) {
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

/* Reads the options. Returns what srv_options_read returns. --full is looked for first, because it
 * decides the default values of the other options. */
static int read_options(command_options *w, int argc, char **argv) {
    const attn_experiment *e = w->experiment;
    srv_field settings[ATTN_EXPERIMENT_SETTINGS + 1] = {0};
    const srv_options tables[] = {
        {settings, w->values, sizeof w->values},
        {common_options, w, e->wants_model ? sizeof *w : offsetof(command_options, model)},
    };
    for (int i = 1; i < argc; i++)
        w->full = w->full || !strcmp(argv[i], "--full");
    attn_experiment_values(e, w->full, w->values);
    for (size_t i = 0; i < e->setting_count; i++)
        settings[i] = (srv_field){.name = e->settings[i].name,
                                  .kind = SRV_REAL,
                                  .offset = i * sizeof *w->values,
                                  .doc = e->settings[i].doc};
    int code = srv_options_read(tables, 2, e->shows, argc, argv);
    if (code)
        return code;
    attn_error err;
    if (attn_experiment_check(e, w->values, &err)) {
        char name[SRV_OPTION_NAME];
        fprintf(stderr, "attnd experiment %s: --%s %s\n", e->name,
                srv_option_dashed(err.where, name), err.text);
        return 3;
    }
    return 0;
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
    show shown = {.bar.wanted = isatty(STDERR_FILENO)};
    attn_experiment_hooks hooks = {
        .progress = w->quiet ? NULL : progress, .ctx = &shown, .control = &control, .pool = pool};
    attn_model_file file = {0};
    attn_findings findings;
    attn_error err;
    attn_status status = srv_experiment_model(w->experiment, w->model, &file, &hooks, &err);
    if (!status)
        status = attn_experiment_run(w->experiment, w->values, &hooks, arena, &findings, &err);
    srv_bar_clear(&shown.bar);
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
