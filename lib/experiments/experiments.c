/* The table of experiments, checks of their settings, and the code that all runs share. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "experiments/lab.h"

static const attn_experiment_row *const rows[] = {
    &attn_experiment_copy,        &attn_experiment_attentions,    &attn_experiment_bottleneck,
    &attn_experiment_permutation, &attn_experiment_extrapolation, &attn_experiment_sparse,
    &attn_experiment_cost,        &attn_experiment_parameters,    &attn_experiment_heads,
    &attn_experiment_scale,
};

const attn_experiment *attn_experiment_at(size_t index) {
    return index < sizeof rows / sizeof *rows ? &rows[index]->about : NULL;
}

const attn_experiment *attn_experiment_find(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i]->about.name, name))
            return &rows[i]->about;
    return NULL;
}

static const attn_experiment_row *row_of(const attn_experiment *experiment) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (&rows[i]->about == experiment)
            return rows[i];
    return NULL;
}

void attn_experiment_values(const attn_experiment *experiment, bool full, double *values) {
    for (size_t i = 0; i < experiment->setting_count; i++)
        values[i] = full ? experiment->settings[i].full : experiment->settings[i].standard;
}

static attn_status check_rule(const attn_experiment *about, const double *values,
                              const attn_setting_rule *rule, attn_error *err) {
    const double value = attn_setting_value(about, values, rule->name),
                 bound =
                     rule->other ? attn_setting_value(about, values, rule->other) : rule->number;
    const bool multiple = rule->relation == ATTN_IS_MULTIPLE;
    if (multiple ? fmod(value, bound) == 0 : value <= bound)
        return ATTN_OK;
    return attn_fail(err, ATTN_EVALUE, rule->name, "must be %s %s%s%.0f%s, found %.0f",
                     multiple ? "a multiple of" : "at most", rule->other ? rule->other : "",
                     rule->other ? " (" : "", bound, rule->other ? ")" : "", value);
}

attn_status attn_experiment_check(const attn_experiment *experiment, const double *values,
                                  attn_error *err) {
    for (size_t i = 0; i < experiment->setting_count; i++) {
        const attn_setting *s = &experiment->settings[i];
        if (!(values[i] >= s->least && values[i] <= s->most) ||
            (s->whole && values[i] != floor(values[i])))
            return attn_fail(err, ATTN_EVALUE, s->name,
                             "must be %s number from %.15g to %.15g, found %.15g",
                             s->whole ? "a whole" : "a", s->least, s->most, values[i]);
    }
    for (const attn_setting_rule *r = row_of(experiment)->rules; r && r->name; r++)
        ATTN_TRY(check_rule(experiment, values, r, err));
    return ATTN_OK;
}

size_t attn_experiment_bytes(const attn_experiment *experiment, const double *values) {
    return row_of(experiment)->bytes(experiment, values);
}

static attn_status run_with_memory(attn_lab *lab) {
    const size_t bytes = attn_experiment_bytes(lab->about, lab->values);
    lab->work = attn_arena_new(bytes);
    lab->scratch = attn_arena_new(bytes);
    if (lab->work && lab->scratch)
        row_of(lab->about)->run(lab);
    else
        attn_lab_no_memory(lab);
    if (!lab->status && lab->hooks->progress)
        lab->hooks->progress(lab->hooks->ctx, 1, NULL);
    attn_arena_free(lab->scratch);
    attn_arena_free(lab->work);
    return lab->status;
}

attn_status attn_experiment_run(const attn_experiment *experiment, const double *values,
                                const attn_experiment_hooks *hooks, attn_arena *arena,
                                attn_findings *out, attn_error *err) {
    static const attn_experiment_hooks no_hooks;
    attn_findings findings = {.experiment = experiment};
    double *kept = attn_arena_zeroed(arena, experiment->setting_count, sizeof *kept);
    ATTN_TAKEN(kept, "the settings of an experiment", err);
    if (values)
        memcpy(kept, values, experiment->setting_count * sizeof *kept);
    else
        attn_experiment_values(experiment, false, kept);
    ATTN_TRY(attn_experiment_check(experiment, kept, err));
    if (experiment->wants_model && !(hooks && hooks->model))
        return attn_fail(err, ATTN_EARG, "model", "this experiment looks into a trained model");
    findings.values = kept;
    attn_lab lab = {.about = experiment,
                    .values = kept,
                    .hooks = hooks ? hooks : &no_hooks,
                    .arena = arena,
                    .out = &findings,
                    .to = 1,
                    .err = err};
    attn_status status = run_with_memory(&lab);
    if (!status)
        *out = findings;
    return status;
}

attn_status attn_picture_draw(const attn_picture *picture, attn_text *svg, attn_error *err) {
    return picture->heat.count ? attn_figure_heatmaps(svg, &picture->heat, &picture->options, err)
                               : attn_figure_lines(svg, &picture->curves, &picture->options, err);
}
