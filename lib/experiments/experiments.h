/* Experiments on attention. Each has settings, runs for seconds or minutes, and ends with findings:
 * tables, pictures and a sentence that is computed from the numbers.
 *
 * Equal settings on the same kernel table and processor give the same numbers, except in columns
 * and pictures that are marked as measured (times, speeds). */
#ifndef ATTN_EXPERIMENTS_H
#define ATTN_EXPERIMENTS_H

#include "attn/figure.h"
#include "attn/models.h"
#include "attn/tokens.h"
#include "corpus/corpus.h"
#include "json/json_write.h"

/* A numeric setting of an experiment. */
typedef struct attn_setting {
    const char *name;
    double standard;    /* default value */
    double full;        /* value of the "full" profile, which takes longer */
    double least, most; /* smallest and largest allowed value */
    bool whole;         /* only integers are allowed */
    const char *doc;    /* meaning of the setting, for people */
} attn_setting;

enum { ATTN_EXPERIMENT_SETTINGS = 16 }; /* largest number of settings of an experiment */

typedef struct attn_experiment {
    const char *name;  /* a word of small letters, such as "copy" */
    const char *title; /* title of pages and pictures */
    const char *shows; /* what the experiment demonstrates, in one or two sentences */
    const attn_setting *settings;
    size_t setting_count;
    bool wants_model; /* attn_experiment_hooks must hold a trained model */
} attn_experiment;

/* Return an experiment by its index (0 …) or by its name; NULL if there is none. Experiments are
 * static. */
const attn_experiment *attn_experiment_at(size_t index);
const attn_experiment *attn_experiment_find(const char *name);
/* Returns the index of the setting of this name, or setting_count if there is none. */
size_t attn_experiment_setting(const attn_experiment *experiment, const char *name);
/* Stores the values [setting_count] of the default (full = false) or the full profile. */
void attn_experiment_values(const attn_experiment *experiment, bool full, double *values);
/* Checks that values [setting_count] are in their ranges and fit together. Error: ATTN_EVALUE;
 * err->where names the setting. */
attn_status attn_experiment_check(const attn_experiment *experiment, const double *values,
                                  attn_error *err);
/* Returns an upper bound for the memory of a run and its findings together, in bytes. The values
 * must have been checked (attn_experiment_check). */
size_t attn_experiment_bytes(const attn_experiment *experiment, const double *values);

/* ---- findings ---- */

/* A column of a table. */
typedef struct attn_column {
    const char *name, *unit; /* unit: "" if there is none */
    int decimals;            /* number of decimals in printed tables; -1: a column of texts */
    bool measured;           /* the numbers depend on a clock, so they differ between runs */
} attn_column;

/* One entry of a table. */
typedef struct attn_entry {
    const char *text; /* the entry of a column of texts; NULL in other columns */
    double number;    /* the entry of any other column; NaN: no value */
} attn_entry;

typedef struct attn_table {
    const char *title;
    const attn_column *columns;
    size_t column_count, row_count;
    attn_entry *entries; /* [row_count, column_count] */
} attn_table;

/* The data of one figure: heatmaps if heat.count > 0, else curves. */
typedef struct attn_picture {
    const char *name; /* unique among the pictures of the findings; serves as a file name */
    bool measured;    /* the picture shows times, so it differs between runs */
    attn_figure_options options;
    attn_figure_curves curves;
    attn_figure_heat heat;
} attn_picture;

/* The results of a run. All their memory is in the arena that attn_experiment_run got. */
typedef struct attn_findings {
    const attn_experiment *experiment;
    const double *values; /* [setting_count] the settings of the run */
    attn_table *tables;
    size_t table_count;
    attn_picture *pictures;
    size_t picture_count;
    const char *closing; /* the sentence that states the result */
} attn_findings;

typedef struct attn_experiment_hooks {
    /* Called often, on the thread that runs the experiment. `done` rises from 0 to 1. `line` is a
     * message, or NULL. The hook may be NULL. */
    void (*progress)(void *ctx, double done, const char *line);
    void *ctx;
    const attn_control *control; /* cancellation and deadline; NULL: none */
    attn_pool *pool;             /* NULL: only the calling thread computes */
    /* A trained English-French model, for experiments with wants_model; else NULL. */
    const attn_model *model;
    const attn_tokenizer *source, *target; /* vocabularies of the model */
    attn_corpus_options corpus;            /* corpus on which the model was trained */
} attn_experiment_hooks;

/* Runs an experiment. `values` are [setting_count], or NULL for the defaults; hooks may be NULL.
 * The findings are in the arena, for which a limit of attn_experiment_bytes suffices. Any thread
 * may call this function. Errors:
 *
 *   ATTN_EVALUE                     as attn_experiment_check
 *   ATTN_EARG at "model"            the experiment needs a model, and the hooks have none
 *   ATTN_ENOMEM                     the memory does not suffice
 *   ATTN_ECANCELED, ATTN_EDEADLINE  the control stopped the run */
attn_status attn_experiment_run(const attn_experiment *experiment, const double *values,
                                const attn_experiment_hooks *hooks, attn_arena *arena,
                                attn_findings *out, attn_error *err);

/* Draws a picture as SVG into an empty text. attn_figure_png can make a PNG of the SVG. Error:
 * ATTN_ENOMEM. */
attn_status attn_picture_draw(const attn_picture *picture, attn_text *svg, attn_error *err);
/* Append findings to a text: tables and the closing sentence for a terminal, or all findings as one
 * JSON object. Numbers that are not finite are "-" in tables and null in JSON. If memory runs out,
 * to->failed is set. */
void attn_findings_print(const attn_findings *findings, attn_text *to);
void attn_findings_json(const attn_findings *findings, attn_json_text *to);

#endif
