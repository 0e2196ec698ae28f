/* Heatmaps in requests and answers, for every route that has them: converts the object `heatmap` of
 * a request to options of the library, and writes heatmaps as JSON, text, CSV, npy, SVG or PNG. */
#ifndef SRV_HEATMAP_OBJECT_H
#define SRV_HEATMAP_OBJECT_H

#include "api/common/figure_input.h"
#include "api/common/scope.h"
#include "api/common/text_reply.h"
#include "api/common/warnings.h"

/* The numbers from which the cells of a heatmap are computed. */
typedef enum srv_heat_of { SRV_OF_WEIGHTS, SRV_OF_VALUE_NORM } srv_heat_of;

typedef enum srv_encoding {
    SRV_CELLS_JSON,
    SRV_CELLS_U8,
    SRV_CELLS_F16,
    SRV_CELLS_F32
} srv_encoding;

/* The decoded object `heatmap`. A struct of zeros has the default values. */
typedef struct srv_heat_input {
    srv_given_bits given;
    srv_union heads; /* "all", "mean" or a list */
    srv_ints batch;
    srv_ranges rows, cols;
    int of;            /* a srv_heat_of */
    bool values;       /* set by the route: the request has values (V), so any `of` is allowed */
    int64_t max_cells; /* 0: the default */
    int pool;          /* an attn_pooling */
    int encoding;      /* a srv_encoding */
    int transform;     /* an attn_transform */
    int64_t top_k;
    double top_p;
} srv_heat_input;

extern const char *const srv_pools[];      /* indexed by attn_pooling: "max", "mean", "both" */
extern const char *const srv_transforms[]; /* indexed by attn_transform: "linear", "sqrt", "log" */
extern const char *const srv_encodings[];  /* indexed by srv_encoding: "json", "u8", … */
extern const char *const srv_heat_subjects[]; /* indexed by srv_heat_of: "weights", "value_norm" */
extern const srv_field srv_heat_fields[];
#define SRV_HEATMAP_ROW(T, text)                                                                   \
    SRV_FIELD_ROW(T, heatmap, SRV_OBJECT, text, .fields = srv_heat_fields)

/* Checks the object against the shapes in `dims` and sets *out to options of the library, which
 * point into the object. false: a problem is set. */
bool srv_heat_options(srv_request *req, const srv_heat_input *in, const attn_attention_dims *dims,
                      attn_heatmap_options *out);
/* Sets the problem for an error of the library about the options. The path of the error
 * (err->where) is relative to /heatmap. Returns false. */
bool srv_heat_problem(srv_request *req, const attn_error *err);
/* Sets *out to the cost of heatmaps of weights with the dims `d`. Beyond a limit of the library,
 * sets the problem and returns false, or in a dry run sets *exceeds and returns true. */
bool srv_heat_cost(srv_request *req, const attn_heatmap_options *options,
                   const attn_attention_dims *d, size_t slots, bool dry_run, attn_cost *out,
                   bool *exceeds);

/* Upper bound of the bytes of JSON for each byte of a heatmap in memory. */
#define SRV_HEAT_TEXT 4.0
/* Writes an object with heatmaps (the schema Heatmap): as a value, or as the member `name`. */
void srv_heat_put(attn_json_text *j, const attn_heatmaps *maps, const srv_heat_input *in,
                  const srv_labels *labels);
void srv_heat_write(attn_json_text *j, const char *name, const attn_heatmaps *maps,
                    const srv_heat_input *in, const srv_labels *labels);
/* Writes a list of two sizes at `pair`, such as the origin of a heatmap. */
void srv_heat_pair(attn_json_text *j, const void *pair);
/* The origin of a heatmap. srv_heat_place_rows are the rows for its members in answers. */
typedef struct srv_heat_place {
    int64_t layer;      /* -1: there are no layers */
    size_t batch, head; /* head SIZE_MAX: the mean over heads */
} srv_heat_place;
extern const srv_field srv_heat_place_rows[];
srv_heat_place srv_heat_place_of(const attn_heatmap *map, size_t layer_batches);
extern const srv_field srv_heat_answers[]; /* the schemas of heatmaps */
/* Prints heatmaps for a terminal. */
void srv_heat_text(attn_text *t, const attn_heatmaps *maps, const srv_labels *labels,
                   const srv_strings *titles);

/* The contents of an answer with heatmaps. */
typedef struct srv_heat_answer {
    const attn_heatmaps *maps;
    const srv_heat_input *in;
    const srv_labels *labels;  /* labels of the whole matrix */
    const srv_strings *titles; /* one title for each head; NULL: none */
    /* [stage_count] names; NULL: none. Each head has a heatmap for each stage, such as scores. A
     * picture shows the heatmaps of a head side by side, each with a colour scale of its own. */
    const char *const *stages;
    size_t stage_count;
    const srv_figure_input *figure; /* from the request, or set by srv_figure_init */
    const srv_warnings *warnings;   /* NULL: none */
    int decimals;                   /* decimals of cells; -1: the shortest text that round-trips */
    bool marks;                     /* the cells are a mask: 1 is visible, 0 is hidden */
    const char *note;               /* sentences below a picture; NULL: none */
} srv_heat_answer;

/* Sets the reply of a route that answers heatmaps alone, in any media type of the route. The JSON
 * has "heads", "labels", "pool", "warnings" and further members. */
void srv_heat_reply(srv_request *req, const srv_heat_answer *answer);
/* Sets the reply to a picture or a CSV of the heatmaps. srv_draws must have returned true. */
void srv_heat_draw(srv_request *req, const srv_heat_answer *answer);

/* Sets the reply that srv_heat_reply sets for JSON. */
void srv_heat_json(srv_request *req, const srv_heat_answer *answer);
/* Returns the title that the caller gave to the head of a heatmap. NULL: there is none. */
const char *srv_heat_title(const srv_strings *titles, const attn_heatmap *map);

/* Sets the entropies of all rows to NaN, because these rows of cells are not distributions. */
void srv_heat_without_entropy(const attn_heatmaps *maps);

#endif
