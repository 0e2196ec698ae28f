/* The state of a run that all experiments share: settings, progress, memory and findings. The lab
 * stores the first failure. Later calls do nothing, and the run returns this failure. */
#ifndef ATTN_EXPERIMENTS_LAB_H
#define ATTN_EXPERIMENTS_LAB_H

#include "attn/experiments.h"

typedef struct attn_lab {
    const attn_experiment *about;
    const double *values;
    const attn_experiment_hooks *hooks;
    attn_arena *arena;   /* of the findings */
    attn_arena *work;    /* data of the whole run */
    attn_arena *scratch; /* data of one step, see attn_lab_scratch */
    attn_findings *out;
    double from, to; /* range of the current part in the progress of the run */
    attn_status status;
    attn_error *err;
} attn_lab;

/* One experiment of the table in experiments.c. */
typedef struct attn_experiment_row {
    attn_experiment about;
    void (*run)(attn_lab *lab);
    /* Returns the bytes of work and findings for checked values. */
    size_t (*bytes)(const attn_experiment *about, const double *values);
    /* Checks combinations of settings; or NULL. */
    attn_status (*check)(const attn_experiment *about, const double *values, attn_error *err);
} attn_experiment_row;

extern const attn_experiment_row attn_experiment_copy, attn_experiment_attentions,
    attn_experiment_bottleneck, attn_experiment_permutation, attn_experiment_sparse,
    attn_experiment_cost, attn_experiment_parameters, attn_experiment_scale, attn_experiment_heads,
    attn_experiment_extrapolation;

/* Returns the value of a setting. The experiment must have a setting of this name. */
double attn_setting_value(const attn_experiment *about, const double *values, const char *name);
double attn_lab_number(const attn_lab *lab, const char *name);
size_t attn_lab_size(const attn_lab *lab, const char *name);
uint64_t attn_lab_seed(const attn_lab *lab); /* the setting "seed" */

/* Begins the next part of the run, from `from` to `to` in 0 … 1, and reports a message. */
void attn_lab_part(attn_lab *lab, double from, double to, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports the done share of the part and checks the control. false: the lab has failed. */
bool attn_lab_done(attn_lab *lab, double share);
/* Stores a failure. Returns true if the lab has none. */
bool attn_lab_ok(attn_lab *lab, attn_status status);
/* Returns seconds of processor time of this thread, or with a pool seconds of wall-clock time. */
double attn_lab_clock(const attn_lab *lab);
/* Return memory for work, memory for findings, and a text in the findings. NULL: the lab has
 * failed. */
void *attn_lab_take(attn_lab *lab, size_t count, size_t size);
void *attn_lab_keep(attn_lab *lab, size_t count, size_t size);
const char *attn_lab_say(attn_lab *lab, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *attn_lab_no_memory(attn_lab *lab); /* stores ATTN_ENOMEM; returns NULL */
/* Begins a new step: frees everything in lab->scratch and lets it use the remaining memory. */
void attn_lab_scratch(attn_lab *lab);
/* Returns n normal numbers of a stream, attn_rng_normal(attn_rng_bits(seed, stream), i), in the
 * memory for work. */
float *attn_lab_normal(attn_lab *lab, uint64_t stream, size_t n);

/* Makes a table of up to `rows` rows. The columns must outlive the findings. NULL: the lab has
 * failed. */
attn_table *attn_lab_table(attn_lab *lab, const char *title, const attn_column *columns,
                           size_t column_count, size_t rows);
/* Appends a row. The arguments are a const char * for each column of texts and a double for each
 * other column. */
void attn_lab_row(attn_table *table, ...);

/* Make a picture of curves, and add a curve. x and y [n] are in the memory for findings. */
attn_picture *attn_lab_curves(attn_lab *lab, const char *name, const char *title,
                              const char *x_label, const char *y_label, size_t panels,
                              const char *const *titles, size_t most);
void attn_lab_curve(attn_lab *lab, attn_picture *picture, size_t panel, const char *name,
                    const double *x, const double *y, size_t n);
/* Make a picture of `panels` heatmaps of rows x cols, and copy the cells [rows, cols] of one panel,
 * without hidden runs. Labels (NULL: numbers) and titles must outlive the findings. */
attn_picture *attn_lab_heatmaps(attn_lab *lab, const char *name, const char *title, size_t panels,
                                size_t rows, size_t cols);
void attn_lab_heatmap(attn_lab *lab, attn_picture *picture, size_t panel, const char *title,
                      const float *cells, size_t stride);
/* Marks the cells of a panel as hidden where seen [rows, cols] is 0. */
void attn_lab_hide(attn_lab *lab, attn_picture *picture, size_t panel, const uint8_t *seen);

#endif
