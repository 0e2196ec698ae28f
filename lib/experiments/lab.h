/* What the experiments share: a run under way, its settings and progress, and how findings are put
 * together. A failure is kept in the lab: calls after it do nothing, and the run ends with it. */
#ifndef ATTN_EXPERIMENTS_LAB_H
#define ATTN_EXPERIMENTS_LAB_H

#include "attn/experiments.h"

typedef struct attn_lab {
    const attn_experiment *about;
    const double *values;
    const attn_experiment_hooks *hooks;
    attn_arena *arena;   /* of the findings */
    attn_arena *work;    /* of what the whole run needs */
    attn_arena *scratch; /* of one of its steps, see attn_lab_scratch */
    attn_findings *out;
    double from, to; /* of the whole run, the part that is under way */
    attn_status status;
    attn_error *err;
} attn_lab;

/* One experiment of the table in experiments.c. */
typedef struct attn_experiment_row {
    attn_experiment about;
    void (*run)(attn_lab *lab);
    /* Bytes of work and findings for checked values. */
    size_t (*bytes)(const attn_experiment *about, const double *values);
    /* What a single range cannot say; or NULL. */
    attn_status (*check)(const attn_experiment *about, const double *values, attn_error *err);
} attn_experiment_row;

extern const attn_experiment_row attn_experiment_copy, attn_experiment_attentions,
    attn_experiment_bottleneck, attn_experiment_permutation, attn_experiment_sparse,
    attn_experiment_cost, attn_experiment_parameters, attn_experiment_scale, attn_experiment_heads,
    attn_experiment_extrapolation;

/* A setting's value; the name is one of the experiment's. */
double attn_setting_value(const attn_experiment *about, const double *values, const char *name);
double attn_lab_number(const attn_lab *lab, const char *name);
size_t attn_lab_size(const attn_lab *lab, const char *name);
uint64_t attn_lab_seed(const attn_lab *lab); /* the setting "seed" */

/* The next part of the run goes from `from` to `to`, 0 … 1, and is told. */
void attn_lab_part(attn_lab *lab, double from, double to, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* So much of the part is done. Looks at the control. false: stop, the lab has failed. */
bool attn_lab_done(attn_lab *lab, double share);
/* Keep a failure; true when there is none. */
bool attn_lab_ok(attn_lab *lab, attn_status status);
/* Seconds of processor time of this thread, or by the clock on the wall where a pool helps. */
double attn_lab_clock(const attn_lab *lab);
/* Memory of the run's work, of its findings, and a text of the findings. NULL: the lab has failed.
 */
void *attn_lab_take(attn_lab *lab, size_t count, size_t size);
void *attn_lab_keep(attn_lab *lab, size_t count, size_t size);
const char *attn_lab_say(attn_lab *lab, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *attn_lab_no_memory(attn_lab *lab); /* the lab has failed for want of memory; NULL */
/* A new step begins: what lab->scratch handed out is gone, and it may hand out what is left. */
void attn_lab_scratch(attn_lab *lab);
/* Normal numbers of a stream: attn_rng_normal(attn_rng_bits(seed, stream), i), in the work's
 * memory. */
float *attn_lab_normal(attn_lab *lab, uint64_t stream, size_t n);

/* A table with room for `rows`, whose columns outlive the findings; NULL: the lab has failed. */
attn_table *attn_lab_table(attn_lab *lab, const char *title, const attn_column *columns,
                           size_t column_count, size_t rows);
/* One more row: a const char * for each column of texts, a double for each other. */
void attn_lab_row(attn_table *table, ...);

/* A picture of curves, and its curves. x and y [n] are in the lab's memory of findings. */
attn_picture *attn_lab_curves(attn_lab *lab, const char *name, const char *title,
                              const char *x_label, const char *y_label, size_t panels,
                              const char *const *titles, size_t most);
void attn_lab_curve(attn_lab *lab, attn_picture *picture, size_t panel, const char *name,
                    const double *x, const double *y, size_t n);
/* A picture of `panels` heatmaps of rows x cols; the cells [rows, cols] of one are copied, hidden
 * runs are not known. Labels (NULL: numbers) and titles outlive the findings. */
attn_picture *attn_lab_heatmaps(attn_lab *lab, const char *name, const char *title, size_t panels,
                                size_t rows, size_t cols);
void attn_lab_heatmap(attn_lab *lab, attn_picture *picture, size_t panel, const char *title,
                      const float *cells, size_t stride);
/* Cells of a panel that a pattern hides: those that seen [rows, cols] is 0 for. */
void attn_lab_hide(attn_lab *lab, attn_picture *picture, size_t panel, const uint8_t *seen);

#endif
