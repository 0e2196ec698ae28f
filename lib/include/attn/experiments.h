/* Experiments on attention. Each has settings, runs for seconds or minutes, and ends with tables,
 * pictures and a sentence that it computes from the numbers.
 *
 * Equal settings on the same kernel table and processor give the same numbers, except in columns
 * that are marked as measured (times, speeds). */
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

/* A numeric setting of an experiment. */
typedef struct attn_setting {
    const char *name;
    double standard, full; /* the default, and the value of the longer "full" profile */
    double least, most;    /* inclusive */
    bool whole;            /* a whole number */
    const char *doc;
} attn_setting;

enum { ATTN_EXPERIMENT_SETTINGS = 16 }; /* at most */

typedef struct attn_experiment {
    const char *name;  /* "copy": a word of small letters */
    const char *title; /* of pages and pictures */
    const char *shows; /* what it demonstrates, in one or two sentences */
    const attn_setting *settings;
    size_t setting_count;
    bool wants_model; /* needs a trained model (attn_experiment_hooks.model) */
} attn_experiment;

/* Return a static experiment by its index in the table or by its name; NULL if there is none. */
const attn_experiment *attn_experiment_at(size_t index);
const attn_experiment *attn_experiment_find(const char *name);
/* Returns the index of a setting, or setting_count if no setting has this name. */
size_t attn_experiment_setting(const attn_experiment *experiment, const char *name);
/* Fills values [setting_count] with the default or the full profile. */
void attn_experiment_values(const attn_experiment *experiment, bool full, double *values);
/* Checks the ranges of the values and their combinations. Errors: ATTN_EVALUE; err->where names the
 * setting. */
attn_status attn_experiment_check(const attn_experiment *experiment, const double *values,
                                  attn_error *err);
/* Returns an upper bound of the bytes of a run and its findings, for checked values. */
size_t attn_experiment_bytes(const attn_experiment *experiment, const double *values);

/* ---- findings ---- */

typedef struct attn_column {
    const char *name, *unit; /* unit "" where there is none */
    int decimals;            /* in print; -1: a column of texts */
    bool measured;           /* by a clock: the numbers differ between runs */
} attn_column;

typedef struct attn_entry {
    const char *text; /* in a column of texts, else NULL */
    double number;    /* NaN: no value */
} attn_entry;

typedef struct attn_table {
    const char *title;
    const attn_column *columns;
    size_t column_count, row_count;
    attn_entry *entries; /* [row_count, column_count] */
} attn_table;

/* Data of one figure: curves if heat.count is 0, else heatmaps. */
typedef struct attn_picture {
    const char *name; /* "weights": unique in the findings, for file names */
    bool measured;    /* shows times: the numbers differ between runs */
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
    const char *closing; /* conclusion from the numbers */
} attn_findings;

typedef struct attn_experiment_hooks {
    /* Reports progress, often, on the calling thread. `done` goes from 0 to 1 and never decreases.
     * `line` is a message or NULL. The hook may be NULL. */
    void (*progress)(void *ctx, double done, const char *line);
    void *ctx;
    const attn_control *control; /* NULL: never stopped */
    attn_pool *pool;             /* NULL: only the calling thread */
    /* A trained model of English to French, for experiments that look into one. */
    const attn_model *model;
    const attn_vocabulary *source, *target;
    attn_corpus_options corpus; /* training corpus of the model */
} attn_experiment_hooks;

/* Runs an experiment. `values` NULL means the defaults. The findings are in the arena, which may be
 * limited to attn_experiment_bytes. Errors: those of attn_experiment_check; ATTN_EARG at "model"
 * (the experiment needs a model, and the hooks have none); ATTN_ENOMEM, ATTN_ECANCELED,
 * ATTN_EDEADLINE. Any thread may call it. */
attn_status attn_experiment_run(const attn_experiment *experiment, const double *values,
                                const attn_experiment_hooks *hooks, attn_arena *arena,
                                attn_findings *out, attn_error *err);

/* Draws the picture as SVG into an empty text, from which attn_figure_png makes a PNG. Errors:
 * ATTN_ENOMEM. */
attn_status attn_picture_draw(const attn_picture *picture, attn_text *svg, attn_error *err);
/* Write tables and the closing sentence for a terminal, and all findings as one JSON object.
 * Numbers that are not finite become "-" and null. attn_text.failed tells whether memory ran out.
 */
void attn_findings_print(const attn_findings *findings, attn_text *to);
void attn_findings_json(const attn_findings *findings, attn_text *to);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
