/* Experiments on attention: each has settings, runs for seconds or minutes, and ends with tables,
 * pictures and a sentence that is computed from the numbers.
 *
 * With equal settings, on the same kernel table and processor, a run finds the same numbers, but
 * for the columns that say they are measured (times, speeds). */
#ifndef ATTN_EXPERIMENTS_H
#define ATTN_EXPERIMENTS_H

#include "corpus.h"
#include "figure.h"
#include "models.h"
#include "vocabulary.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A number that an experiment can be told. */
typedef struct attn_setting {
    const char *name;
    double standard, full; /* the default, and that of the profile which takes longer */
    double least, most;    /* inclusive */
    bool whole;            /* a whole number */
    const char *doc;
} attn_setting;

enum { ATTN_EXPERIMENT_SETTINGS = 16 }; /* at most */

typedef struct attn_experiment {
    const char *name;  /* "copy": a word of small letters */
    const char *title; /* of pages and pictures */
    const char *shows; /* what is to be seen, in one or two sentences */
    const attn_setting *settings;
    size_t setting_count;
    bool wants_model; /* looks into a trained model (attn_experiment_hooks.model) */
} attn_experiment;

/* Static, in the order of the table; NULL beyond the last, or for a name that is none's. */
const attn_experiment *attn_experiment_at(size_t index);
const attn_experiment *attn_experiment_find(const char *name);
/* The index of a setting; setting_count if there is none of that name. */
size_t attn_experiment_setting(const attn_experiment *experiment, const char *name);
/* values [setting_count]: of the default or of the full profile. */
void attn_experiment_values(const attn_experiment *experiment, bool full, double *values);
/* Are they in their ranges, and do they fit together? ATTN_EVALUE, err->where: the setting. */
attn_status attn_experiment_check(const attn_experiment *experiment, const double *values,
                                  attn_error *err);
/* Bytes that a run takes at most, its findings among them, for checked values. */
size_t attn_experiment_bytes(const attn_experiment *experiment, const double *values);

/* ---- what was found ---- */

typedef struct attn_column {
    const char *name, *unit; /* unit "" where there is none */
    int decimals;            /* of its numbers in print; -1: a column of texts */
    bool measured;           /* by a clock: another run finds other numbers */
} attn_column;

typedef struct attn_entry {
    const char *text; /* of a column of texts, else NULL */
    double number;    /* NaN: there is none */
} attn_entry;

typedef struct attn_table {
    const char *title;
    const attn_column *columns;
    size_t column_count, row_count;
    attn_entry *entries; /* [row_count, column_count] */
} attn_table;

/* Curves (heat.count 0) or heatmaps, ready to be drawn. */
typedef struct attn_picture {
    const char *name; /* "weights": a word for file names, unique in its findings */
    bool measured;    /* shows what a clock measured: another run finds other numbers */
    attn_figure_options options;
    attn_figure_curves curves;
    attn_figure_heat heat;
} attn_picture;

typedef struct attn_findings {
    const attn_experiment *experiment;
    const double *values;
    attn_table *tables;
    size_t table_count;
    attn_picture *pictures;
    size_t picture_count;
    const char *closing; /* what the numbers say */
} attn_findings;

typedef struct attn_experiment_hooks {
    /* `done` in 0 … 1 never falls; line: something to tell, or NULL. Called often, from the calling
     * thread; or NULL. */
    void (*progress)(void *ctx, double done, const char *line);
    void *ctx;
    const attn_control *control; /* NULL: never stopped */
    attn_pool *pool;             /* NULL: the calling thread alone */
    /* A trained model of English to French, for experiments that look into one. */
    const attn_model *model;
    const attn_vocabulary *source, *target;
    attn_corpus_options corpus; /* what it was trained on */
} attn_experiment_hooks;

/* Run. values as attn_experiment_check wants them, NULL: the defaults. The findings are in the
 * arena, which may be limited to attn_experiment_bytes. Errors: those of check; ATTN_EARG at
 * "model" when one is wanted and there is none; ATTN_ENOMEM, ATTN_ECANCELED, ATTN_EDEADLINE. Any
 * thread. */
attn_status attn_experiment_run(const attn_experiment *experiment, const double *values,
                                const attn_experiment_hooks *hooks, attn_arena *arena,
                                attn_findings *out, attn_error *err);

/* The picture as SVG into an empty text. ATTN_ENOMEM. attn_figure_png makes a PNG of it. */
attn_status attn_picture_draw(const attn_picture *picture, attn_text *svg, attn_error *err);
/* Tables and the closing sentence for a terminal, and everything as one JSON object. Numbers that
 * are not finite are "-" and null. A text that runs out of memory says so (attn_text.failed). */
void attn_findings_print(const attn_findings *findings, attn_text *to);
void attn_findings_json(const attn_findings *findings, attn_text *to);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
