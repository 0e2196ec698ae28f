/* The schemas of the answers of the routes of jobs. The rows of a job's description and events are
 * in server/jobs. The findings of experiments are written by lib/experiments, but their schemas are
 * in this file. */
#include "api/common/listing.h"
#include "api/jobs/jobs_api.h"

static const srv_field listing_rows[] = {SRV_LISTING_ROWS("jobs", "Job", "The jobs.")};

static const char *const events[] = {"state", "progress", "checkpoint", "log", "done", NULL};
static const srv_field event_rows[] = {
    SRV_WRITTEN("id", "string", NULL, "The number of the event.", .always = true),
    SRV_WRITTEN("event", "string", NULL, "The kind of the event.", .choices = events,
                .always = true),
    SRV_WRITTEN("data", "<JobStateEvent|JobProgressEvent|JobCheckpointEvent|JobLogEvent>", NULL,
                "The event as JSON.", .always = true),
    {0},
};

/* A member of the findings. Every answer has it. */
#define FOUND(name, type, text, ...)                                                               \
    SRV_WRITTEN(name, type, NULL, text, .always = true, __VA_ARGS__)

static const srv_field column_rows[] = {
    FOUND("name", "string", "The name of the column."),
    FOUND("unit", "string", "The unit of its numbers."),
    FOUND("measured", "boolean", "Whether they differ from run to run."),
    {0},
};
static const srv_field table_rows[] = {
    FOUND("title", "string", "The title of the table."),
    FOUND("columns", "[*]", "Its columns.", .fields = column_rows),
    FOUND("rows", "[[string|number?]]", "Its rows, with a cell for each column."),
    {0},
};
static const srv_field curve_rows[] = {
    FOUND("panel", "integer", "The number of the panel that it is in."),
    FOUND("name", "string?", "The name of the curve."),
    FOUND("x", "[number]", "The x coordinates."),
    FOUND("y", "[number?]", "The values."),
    {0},
};

/* The members of every picture. `word` lists the values of the member `kind`, and `panels` is the
 * type of the member `panels`. */
#define PICTURE(word, panels)                                                                      \
    FOUND("name", "string", "The name of the picture."),                                           \
        FOUND("measured", "boolean", "Whether its numbers differ from run to run."),               \
        FOUND("kind", "string", "The kind of the picture.", .choices = word),                      \
        FOUND("title", "string", "Its title."),                                                    \
        FOUND("x_label", "string?", "What its x axis is."),                                        \
        FOUND("y_label", "string?", "What its y axis is."),                                        \
        FOUND("panels", panels, "The titles of its panels.")

static const char *const curves_word[] = {"curves", NULL}, *const heat_word[] = {"heatmaps", NULL};
static const srv_field curves_rows[] = {
    PICTURE(curves_word, "[string]?"),
    FOUND("curves", "[*]", "The curves.", .fields = curve_rows),
    {0},
};
static const srv_field heatmaps_rows[] = {
    PICTURE(heat_word, "[string]"),
    FOUND("rows", "[string]?", "The names of the rows."),
    FOUND("columns", "[string]?", "The names of the columns."),
    FOUND("cells", "[[[number?]]]", "The cells of each panel, row by row."),
    {0},
};
static const srv_field findings_rows[] = {
    FOUND("experiment", "string", "The name of the experiment."),
    FOUND("title", "string", "Its title."),
    FOUND("settings", "{number}", "The settings that it ran with."),
    FOUND("tables", "[* 1+]", "The tables of its numbers.", .fields = table_rows),
    FOUND("pictures", "[FoundCurves|FoundHeatmaps]", "The data of its pictures."),
    FOUND("closing", "string", "A summary."),
    {0},
};

const srv_field srv_jobs_answers[] = {
    SRV_GROUP("Jobs", listing_rows, NULL),
    SRV_GROUP("JobEvents", event_rows,
              "One event of the stream. data is JSON: of state and done JobStateEvent, of progress "
              "JobProgressEvent, of checkpoint JobCheckpointEvent, of log JobLogEvent.",
              .accepts = SRV_O_OPEN),
    SRV_GROUP("Findings", findings_rows,
              "Result of an experiment: tables, data of pictures, and a summary. Measured columns "
              "(times, speeds) differ from run to run."),
    SRV_GROUP("FoundCurves", curves_rows, "The data of a picture of curves."),
    SRV_GROUP("FoundHeatmaps", heatmaps_rows, "The data of a picture of heatmaps."),
    {0},
};
