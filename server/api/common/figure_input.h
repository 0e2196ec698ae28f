/* The object `figure` of a request: title, labels and style of a picture. It has no effect on
 * answers that are not pictures, so the same body can be sent for every media type. */
#ifndef SRV_FIGURE_INPUT_H
#define SRV_FIGURE_INPUT_H

#include <math.h>

#include <attn/figure.h>

#include "api/common/scope.h"

#define SRV_PANELS 256 /* largest number of panels of a picture */

typedef struct srv_figure_input {
    srv_given_bits given;
    const char *title, *x_label, *y_label, *value_label;
    srv_strings titles;
    const char *annotate;
    int colormap, theme, aspect; /* an attn_colormap, an attn_theme, an attn_aspect */
    double vmin, vmax;
    bool colorbar, transpose;
    int64_t tick_rotation, columns, per_panel, scale;
    int64_t width, height; /* pixels; 0: as much as the content needs */
} srv_figure_input;

extern const srv_field srv_figure_fields[];
extern const char *const srv_colormaps[]; /* indexed by attn_colormap */
#define SRV_FIGURE_DEFAULTS                                                                        \
    ((srv_figure_input){                                                                           \
        .vmin = NAN, .vmax = NAN, .colorbar = true, .tick_rotation = -1, .scale = 2})
void srv_figure_init(void *input); /* sets a srv_figure_input to the defaults */
#define SRV_FIGURE_ROW(T, text)                                                                    \
    SRV_FIELD_ROW(T, figure, SRV_OBJECT, text, .fields = srv_figure_fields, .init = srv_figure_init)

/* Labels the axes that the request has not labelled: the axis of columns with `cols`, and the axis
 * of rows with `rows`. */
void srv_figure_axes(srv_figure_input *in, const char *cols, const char *rows);
/* If titles were given, checks that their number is `panels`. false: a problem is set. */
bool srv_figure_titles(srv_request *req, const srv_figure_input *in, size_t panels);
/* Converts the object to options of the library, which point to the object's texts. `transform` is
 * an attn_transform. */
attn_figure_options srv_figure_options(const srv_figure_input *in, int transform);
/* Checks the fields of the object against each other. false: a problem is set. */
bool srv_figure_check(srv_request *req, const srv_figure_input *in);
/* Sets the problem for an error of the library about a figure. The path of the error (err->where)
 * is relative to /figure. Returns false. */
bool srv_figure_problem(srv_request *req, const attn_error *err);
/* Sets the reply to the figure `svg`: as PNG if the client accepts PNG, else as SVG. */
void srv_figure_reply(srv_request *req, const srv_figure_input *figure, attn_text *svg);

#endif
