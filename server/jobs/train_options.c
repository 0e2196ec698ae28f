/* Writes the options of a training run as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/jobs.h"

static void value_text(const srv_field *f, const void *place, char *text, size_t room) {
    if (f->kind == SRV_BOOL)
        snprintf(text, room, "%s", *(const bool *)place ? "true" : "false");
    else if (f->kind == SRV_INT)
        snprintf(text, room, "%" PRId64, srv_int_at(f, place));
    else if (f->kind == SRV_REAL)
        snprintf(text, room, "%.17g", *(const double *)place);
    else
        snprintf(text, room, "%s", f->choices[*(const int *)place]);
}

bool srv_train_leaves_out(const srv_train_options *w, const srv_field *f) {
    const size_t first = offsetof(srv_job_body, train.model);
    for (const attn_model_setting *s = attn_model_settings; s->name; s++)
        if (s->of == ATTN_OF_CHANGED && f->offset == first + s->offset)
            return !attn_model_has_setting(&w->model, s);
    return false;
}

void srv_train_say(const srv_train_options *w, char said[SRV_TRAIN_TEXT]) {
    size_t at = 0;
    for (const srv_field *f = srv_job_fields; strcmp(f->name, "checkpoint_every"); f++) {
        char value[40];
        if (srv_train_leaves_out(w, f))
            continue;
        value_text(f, (const char *)w + f->offset, value, sizeof value);
        if (at < SRV_TRAIN_TEXT)
            at += (size_t)snprintf(said + at, SRV_TRAIN_TEXT - at, "%s%s=%s", at ? " " : "",
                                   f->name, value);
    }
}
