/* The object `figure` of a request: its field table, the options that are made from it, and the
 * reply with a figure. */
#include "api/common/figure_input.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "load/admission.h"
#include "request/shared.h"

const char *const srv_colormaps[] = {"auto", "Blues", "RdBu", "Greys", "viridis", "cividis", NULL};
static const char *const themes[] = {"light", "dark", NULL};
static const char *const aspects[] = {"equal", "auto", NULL};

const srv_field srv_figure_fields[] = {
    SRV_FIELD_ROW(srv_figure_input, title, SRV_STRING,
                  "The title above the figure, of up to three lines: \"\\n\" begins a new line."),
    SRV_FIELD_ROW(
        srv_figure_input, titles, SRV_STRINGS,
        "One title for each panel, in the order in which the panels are drawn; \"\" = none.",
        .max = SRV_PANELS),
    SRV_FIELD_ROW(srv_figure_input, x_label, SRV_STRING,
                  "The text below the picture, under its columns as they are drawn (with transpose "
                  "these are the rows of the matrix); \"\" = none."),
    SRV_FIELD_ROW(
        srv_figure_input, y_label, SRV_STRING,
        "The text on the left of the picture, beside its rows as they are drawn; \"\" = none."),
    SRV_FIELD_ROW(srv_figure_input, value_label, SRV_STRING,
                  "Label of the colour bar; \"\" = none."),
    SRV_FIELD_ROW(srv_figure_input, annotate, SRV_STRING,
                  "Values in cells: \"auto\" (default, where they fit), \"none\", or a format: a "
                  "dot, a digit 0 to 6 and one of f, e, g, %, such as \".2f\". With a format the "
                  "cells of heatmaps of up to 64 x 64 cells are enlarged.",
                  .standard = "\"auto\""),
    SRV_ENUM_ROW(srv_figure_input, colormap, srv_colormaps,
                 "auto (default) is Blues, or RdBu (centred on zero) if a value is negative.",
                 .standard = "\"auto\""),
    SRV_FIELD_ROW(srv_figure_input, vmin, SRV_REAL,
                  "The value at the low end of the colours. The default is 0, or the smallest "
                  "value if it is negative; for RdBu it is minus the largest magnitude."),
    SRV_FIELD_ROW(srv_figure_input, vmax, SRV_REAL,
                  "The value at the high end of the colours. The default is the largest value; for "
                  "RdBu it is the largest magnitude."),
    SRV_BOOL_ROW(srv_figure_input, colorbar, "Draw the colour bar; default true.",
                 .standard = "true"),
    SRV_INT_ROW(
        srv_figure_input, tick_rotation, 0, 90,
        "Rotation of the column labels in degrees; the default is 0, 45 or 90, whichever fits."),
    SRV_INT_ROW(srv_figure_input, columns, 1, 64,
                "Number of panels side by side; the default is as many as fit."),
    SRV_INT_ROW(srv_figure_input, per_panel, 1, 64, "Curves in one panel; default all."),
    SRV_BOOL_ROW(srv_figure_input, transpose,
                 "Draw rows as columns and columns as rows, with the names of their cells."),
    SRV_INT_ROW(srv_figure_input, width, 1, ATTN_FIGURE_MOST,
                "Width of the picture in units of SVG, labels included. The default fits the "
                "content. With a width or height, cells do not grow for the sake of their values."),
    SRV_INT_ROW(srv_figure_input, height, 1, ATTN_FIGURE_MOST,
                "Height of the picture in units of SVG, labels included. The default fits the "
                "content."),
    SRV_ENUM_ROW(srv_figure_input, aspect, aspects,
                 "Cells of heatmaps: \"equal\" (squares) or \"auto\" (stretched to width and "
                 "height, or without these to the largest panel). By default they are squares, but "
                 "wider or higher if they are few and no size is given.",
                 .first = ATTN_ASPECT_EQUAL),
    SRV_ENUM_ROW(srv_figure_input, theme, themes, "light (default) or dark.",
                 .standard = "\"light\""),
    SRV_INT_ROW(srv_figure_input, scale, 1, 4,
                "image/png: pixels per unit of length, 1, 2 (default) or 4.", .standard = "2"),
    {0},
};

void srv_figure_init(void *input) {
    *(srv_figure_input *)input = SRV_FIGURE_DEFAULTS;
}

bool srv_figure_check(srv_request *req, const srv_figure_input *in) {
    const srv_scope scope = {req, srv_figure_fields, &in->given, "/figure"};
    const char *a = in->annotate;
    if (a && strcmp(a, "auto") != 0 && strcmp(a, "none") != 0 && !attn_figure_format_ok(a))
        return srv_refuse(&scope, SRV_VALUE, "annotate",
                          "expected \"auto\", \"none\" or a format such as \".2f\", \".1%%\" or "
                          "\".3g\", found \"%.40s\"",
                          a);
    if (in->scale == 3)
        return srv_refuse(&scope, SRV_VALUE, "scale", "expected 1, 2 or 4, found 3");
    if (in->vmin >= in->vmax)
        return srv_refuse(&scope, SRV_VALUE, "vmin", "expected vmin below vmax, found %g and %g",
                          in->vmin, in->vmax);
    return true;
}

static const char *text(const char *given) {
    return given && *given ? given : NULL;
}

void srv_figure_axes(srv_figure_input *in, const char *cols, const char *rows) {
    if (!in->x_label)
        in->x_label = in->transpose ? rows : cols;
    if (!in->y_label)
        in->y_label = in->transpose ? cols : rows;
}

bool srv_figure_titles(srv_request *req, const srv_figure_input *in, size_t panels) {
    const srv_scope scope = {req, srv_figure_fields, &in->given, "/figure"};
    if (!srv_given(&scope, "titles") || in->titles.count == panels)
        return true;
    return srv_refuse(&scope, SRV_SHAPE, "titles", "expected %zu title%s (one a panel), found %zu",
                      panels, attn_plural(panels), in->titles.count);
}

attn_figure_options srv_figure_options(const srv_figure_input *in, int transform) {
    attn_figure_options o = attn_figure_defaults();
    o.title = text(in->title);
    o.x_label = text(in->x_label);
    o.y_label = text(in->y_label);
    o.value_label = text(in->value_label);
    if (in->annotate && strcmp(in->annotate, "auto") != 0)
        o.annotate = strcmp(in->annotate, "none") == 0 ? "" : in->annotate;
    o.colormap = (attn_colormap)in->colormap;
    o.transform = (attn_transform)transform;
    o.vmin = in->vmin;
    o.vmax = in->vmax;
    o.colorbar = in->colorbar;
    o.tick_rotation = (int)in->tick_rotation;
    o.columns = (size_t)in->columns;
    o.transpose = in->transpose;
    o.width = (double)in->width;
    o.height = (double)in->height;
    o.aspect = (attn_aspect)in->aspect;
    o.theme = (attn_theme)in->theme;
    return o;
}

bool srv_figure_problem(srv_request *req, const attn_error *err) {
    return srv_problem_error_at(req, err, (const srv_renamed[]){{"", "figure"}, {NULL, NULL}});
}

#define NO_FONTS "no font is installed, so every letter of this picture is a box"

/* Warns that a picture has no letters, in a header of the reply and once in the log. */
static void warn_of_fonts(srv_request *req) {
    if (attn_figure_has_fonts())
        return;
    srv_reply_header(req, "X-Warning", NO_FONTS);
    if (!atomic_exchange(&req->app->fonts_missed, true))
        srv_log_event(req->app->log, SRV_LOG_WARN,
                      "pictures: " NO_FONTS "; fontconfig finds none (Debian: fonts-dejavu-core, "
                      "fonts-wqy-microhei, fonts-noto-color-emoji)");
}

void srv_figure_reply(srv_request *req, const srv_figure_input *figure, attn_text *svg) {
    const double scale = (double)figure->scale;
    const void *png;
    size_t size;
    attn_error err = {0};
    if (!(req->accept & SRV_ACCEPT_PNG)) {
        srv_reply_set(req, 200, "image/svg+xml", svg->data, svg->size);
        return;
    }
    if (attn_figure_png_cost(svg, scale, &size, &err)) {
        srv_figure_problem(req, &err);
        return;
    }
    if (!srv_admission_work(req, 0, (double)size))
        return;
    /* The deadline is checked first: librsvg cannot be interrupted and may take some seconds. */
    if (attn_control_check(&req->control, &err))
        srv_problem_error(req, &err);
    else if (attn_figure_png(svg, scale, req->arena, &png, &size, &err))
        srv_figure_problem(req, &err);
    else {
        srv_reply_set(req, 200, "image/png", png, size);
        warn_of_fonts(req);
    }
}
