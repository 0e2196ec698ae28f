/* The lab: state of a running experiment. The lab has settings, progress, memory and the findings
 * (results) so far, and stores the first failure. After a failure all its functions do nothing, and
 * attn_experiment_run returns the status of the failure. */
#ifndef ATTN_EXPERIMENTS_LAB_H
#define ATTN_EXPERIMENTS_LAB_H

#include "attn/attention.h"
#include "experiments/experiments.h"

typedef struct attn_lab {
    const attn_experiment *about;
    const double *values;
    const attn_experiment_hooks *hooks;
    attn_arena *arena;   /* memory of the findings; belongs to the caller of the run */
    attn_arena *work;    /* memory of the run, freed at its end */
    attn_arena *scratch; /* memory of one step of the run, see attn_lab_scratch */
    attn_findings *out;  /* the findings so far */
    /* progress of the run (0 … 1) at the beginning and the end of its current part
     * (attn_lab_part) */
    double from, to;
    attn_status status; /* status of the first failure, or ATTN_OK */
    attn_error *err;
} attn_lab;

/* A rule for the value of the setting `name`: it must be a multiple of a bound, or at most the
 * bound. The bound is the value of the setting `other`, or `number` if `other` is NULL. */
typedef struct attn_setting_rule {
    const char *name; /* NULL: the end of a list of rules */
    enum { ATTN_IS_MULTIPLE, ATTN_IS_AT_MOST } relation;
    const char *other;
    double number;
} attn_setting_rule;

/* One experiment of the table in experiments.c. */
typedef struct attn_experiment_row {
    attn_experiment about;
    void (*run)(attn_lab *lab);
    /* Computes attn_experiment_bytes for values that have been checked. */
    size_t (*bytes)(const attn_experiment *about, const double *values);
    const attn_setting_rule *rules; /* NULL: none */
} attn_experiment_row;

extern const attn_experiment_row attn_experiment_copy, attn_experiment_attentions,
    attn_experiment_bottleneck, attn_experiment_permutation, attn_experiment_sparse,
    attn_experiment_cost, attn_experiment_parameters, attn_experiment_scale, attn_experiment_heads,
    attn_experiment_extrapolation;

/* Return the value of the setting `name`, which the experiment must have. attn_setting_value reads
 * the given values, the other two read lab->values. attn_lab_size returns an integer. */
double attn_setting_value(const attn_experiment *about, const double *values, const char *name);
double attn_lab_number(const attn_lab *lab, const char *name);
size_t attn_lab_size(const attn_lab *lab, const char *name);
uint64_t attn_lab_seed(const attn_lab *lab); /* value of the setting "seed" */

/* Begins the next part of the run and reports the formatted message. During the part the progress
 * rises from `from` to `to` (0 … 1). */
void attn_lab_part(attn_lab *lab, double from, double to, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports that `share` (0 … 1) of the current part is done, and checks for cancellation and
 * deadline. Returns false if the lab has failed. */
bool attn_lab_done(attn_lab *lab, double share);
/* Stores `status` if it is the first failure. Returns true as long as there is no failure. */
bool attn_lab_ok(attn_lab *lab, attn_status status);
/* Returns a clock in seconds: the processor time of this thread, or wall-clock time if a pool of
 * several threads computes. */
double attn_lab_clock(const attn_lab *lab);
/* attn_lab_take and attn_lab_keep return zeroed memory for `count` items of `size` bytes:
 * attn_lab_take in lab->work, attn_lab_keep in lab->arena, among the findings. attn_lab_say returns
 * a formatted text in lab->arena. NULL: the lab has failed. */
void *attn_lab_take(attn_lab *lab, size_t count, size_t size);
void *attn_lab_keep(attn_lab *lab, size_t count, size_t size);
const char *attn_lab_say(attn_lab *lab, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the closing sentence of the findings. */
void attn_lab_close(attn_lab *lab, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *attn_lab_no_memory(attn_lab *lab); /* stores ATTN_ENOMEM as the failure; returns NULL */
/* Begins a step: empties lab->scratch and limits it to the bytes that lab->work does not use. */
void attn_lab_scratch(attn_lab *lab);
/* Runs a forward pass in lab->scratch. Returns the operation; NULL: the lab has failed. */
attn_attention *attn_lab_attend(attn_lab *lab, const attn_inputs *in, unsigned want,
                                attn_stage stage, attn_results *out);
/* Returns n standard normal numbers in lab->work. Number i is
 * attn_rng_normal(attn_rng_bits(seed, stream), i). */
float *attn_lab_normal(attn_lab *lab, uint64_t stream, size_t n);

/* Adds a table with space for `rows` rows. The columns must outlive the findings. NULL: the lab has
 * failed. */
attn_table *attn_lab_table(attn_lab *lab, const char *title, const attn_column *columns,
                           size_t column_count, size_t rows);
#define ATTN_LAB_TABLE(lab, title, columns, rows)                                                  \
    attn_lab_table((lab), (title), (columns), sizeof(columns) / sizeof *(columns), (rows))
/* Appends a row to a table; does nothing if the table is NULL. The arguments are the entries of the
 * row: a const char * in a column of texts, else a double. */
void attn_lab_row(attn_table *table, ...);

/* attn_lab_curves adds a picture with space for `most` curves. attn_lab_curve adds a curve to the
 * picture and copies its coordinates x and y [n]. */
attn_picture *attn_lab_curves(attn_lab *lab, const char *name, const char *title,
                              const char *x_label, const char *y_label, size_t panels,
                              const char *const *titles, size_t most);
void attn_lab_curve(attn_lab *lab, attn_picture *picture, size_t panel, const char *name,
                    const double *x, const double *y, size_t n);
/* attn_lab_heatmaps adds a picture of `panels` heatmaps [rows, cols] of weights, without numbers in
 * the cells. attn_lab_heatmap sets the title of one panel and copies `cells` [rows, cols] into the
 * panel; the rows of `cells` are `stride` floats apart. Titles and labels must live as long as the
 * findings. */
attn_picture *attn_lab_heatmaps(attn_lab *lab, const char *name, const char *title, size_t panels,
                                size_t rows, size_t cols);
void attn_lab_heatmap(attn_lab *lab, attn_picture *picture, size_t panel, const char *title,
                      const float *cells, size_t stride);
/* Sets the labels [rows] and [cols] of a picture of heatmaps. */
void attn_lab_labels(attn_lab *lab, attn_picture *picture, const char *const *rows,
                     const char *const *cols);
/* Marks the cells of a panel as hidden where seen [rows, cols] is 0. */
void attn_lab_hide(attn_lab *lab, attn_picture *picture, size_t panel, const uint8_t *seen);

#endif
