/* Heatmaps in requests and in answers. The `heatmap` object of a request becomes the library's
 * options; heatmaps become a reply as JSON, text, CSV, npy, SVG or PNG, as the client's Accept
 * says. Every route that answers heatmaps uses these functions. */
#ifndef SRV_HEATMAP_OBJECT_H
#define SRV_HEATMAP_OBJECT_H

#include "api/figure_input.h"
#include "api/scope.h"
#include "api/text_reply.h"

typedef enum srv_encoding {
    SRV_CELLS_JSON,
    SRV_CELLS_U8,
    SRV_CELLS_F16,
    SRV_CELLS_F32
} srv_encoding;

/* Zeroes are the defaults. */
typedef struct srv_heat_input {
    uint64_t given;
    srv_union heads; /* "all", "mean" or a list */
    srv_ints batch, rows, cols;
    int64_t max_cells; /* 0 = the default */
    int pool;          /* attn_pooling */
    int encoding;      /* srv_encoding */
    int transform;     /* attn_transform */
    int64_t top_k;
    double top_p;
} srv_heat_input;

extern const char *const srv_transforms[]; /* by attn_transform: "linear", "sqrt", "log" */
extern const srv_field srv_heat_fields[];
#define SRV_HEATMAP_ROW(T, text)                                                                   \
    {                                                                                              \
        .name = "heatmap", .kind = SRV_OBJECT, .offset = offsetof(T, heatmap),                     \
        .fields = srv_heat_fields, .doc = text                                                     \
    }

/* Checks the object against the shapes and fills in the library's options, which point into it. */
bool srv_heat_options(srv_request *req, const srv_heat_input *in, const attn_attention_dims *dims,
                      attn_heatmap_options *out);
/* Sets the problem for a library error about the options; its place lies inside /heatmap. */
void srv_heat_problem(srv_request *req, const attn_error *err);

/* The most bytes of JSON that a byte of a heatmap becomes. */
#define SRV_HEAT_TEXT 4.0
/* Writes the answer's `heatmap`. */
void srv_heat_write(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                    const srv_labels *labels);
/* Writes its members into an object that is open. */
void srv_heat_members(srv_json *j, const attn_heatmaps *maps, const srv_heat_input *in,
                      const srv_labels *labels);
/* Prints heatmaps for a terminal. `titles` holds one title for each head, or is NULL. */
void srv_heat_text(attn_text *t, const attn_heatmaps *maps, const srv_labels *labels,
                   const srv_strings *titles);

/* The media types that hold a heatmap and nothing else. A route may produce them when its handler
 * ends in srv_heat_reply or srv_heat_draw. */
#define SRV_DRAWN (SRV_ACCEPT_SVG | SRV_ACCEPT_PNG | SRV_ACCEPT_CSV)

/* Does the client read one of SRV_DRAWN? It is then answered with the heatmap alone. A handler on
 * the HTTP thread returns SRV_DEFER in this case, because drawing is work for a worker. */
bool srv_draws(const srv_request *req);

/* What an answer that is a heatmap consists of. */
typedef struct srv_heat_answer {
    const attn_heatmaps *maps;
    const srv_heat_input *in;
    const srv_labels *labels;       /* of the whole matrix */
    const srv_strings *titles;      /* one for each head; or NULL */
    const srv_figure_input *figure; /* srv_figure_init at least */
    const attn_warnings *warnings;  /* or NULL */
    int decimals;                   /* -1 = shortest text */
    bool marks;                     /* a mask: 1 visible, 0 hidden */
} srv_heat_answer;

/* Sets the reply of a route that answers heatmaps alone, in any of its media types. The JSON is
 * {"heads": .., "labels": .., "pool": .., .., "warnings": ..}. */
void srv_heat_reply(srv_request *req, const srv_heat_answer *answer);
/* Sets the reply where srv_draws is true; the route answers JSON and text itself. */
void srv_heat_draw(srv_request *req, const srv_heat_answer *answer);

#endif
