/* The state of a request POST /v1/positions: the decoded body, the tables and curves that are
 * computed from it, and other data of the answer. */
#ifndef SRV_POSITIONS_CALL_H
#define SRV_POSITIONS_CALL_H

#include "api/common/compute.h"
#include "api/common/form_input.h"
#include "api/common/heatmap_object.h"

typedef enum srv_encoding_kind {
    SRV_POSITIONS_SINUSOIDAL,
    SRV_POSITIONS_LEARNED,
    SRV_POSITIONS_ALIBI,
    SRV_POSITIONS_T5,
    SRV_POSITIONS_RELATIVE,
    SRV_POSITIONS_SHAW,
    SRV_POSITIONS_DISENTANGLED,
    SRV_POSITIONS_ROTARY,
} srv_encoding_kind;

typedef struct srv_positions_body {
    srv_given_bits given;
    int kind; /* a srv_encoding_kind */
    int64_t length, width, num_heads, num_keys, query_offset, head;
    int layout; /* an attn_encoding_layout */
    srv_ints dims;
    int64_t seed;
    double std;
    attn_tensor positions, query_positions, key_positions;
    srv_objects axes;       /* array of srv_axis, read into position.axes */
    attn_position position; /* kind and dims are set by srv_positions_prepare */
    bool dry_run;
    int64_t decimals, timeout_ms;
    bool full;
    srv_figure_input figure;
} srv_positions_body;

/* A curve. A curve over positions is column `dim` of the first table (for rotary, the cosines). A
 * curve over distances is head `dim` of a bias, or column `dim` of vectors by distance. */
typedef struct srv_curve {
    size_t dim;
    attn_tensor values; /* one axis: positions or distances */
} srv_curve;

#define SRV_TABLES 2

typedef struct srv_positions_call {
    SRV_CALL;
    srv_positions_body body;
    size_t heads, keys;            /* num_heads and num_keys of the body, or their defaults */
    const int64_t *rows, *columns; /* the given positions of rows and of keys; NULL: 0, 1, 2, … */
    bool by_distance;  /* curves are over distances of keys from queries; false: over positions */
    int64_t first;     /* first point of each curve: the smallest distance, or position 0 */
    size_t points;     /* number of points of each curve */
    size_t parameters; /* number of values that are learned or given */
    const char *names[SRV_TABLES];  /* NULL: this table does not exist */
    attn_tensor tables[SRV_TABLES]; /* float64; without data until they are computed */
    double values;                  /* number of values of all tables and curves */
    srv_curve *curves;
    size_t curve_count;   /* number of curves that the answer shows */
    size_t curve_columns; /* number of curves that `dims` can choose from */
} srv_positions_call;

/* srv_positions_vectors returns whether the table holds vectors by distance, [queries, keys, E].
 * srv_positions_vector_table returns the request's tensor of these vectors. */
bool srv_positions_vectors(const srv_positions_call *call);
const attn_tensor *srv_positions_vector_table(const srv_positions_call *call);
/* Returns whether the request gives the positions of the rows. */
bool srv_positions_given(const srv_positions_call *call);
/* Reads the given positions, and sets `length` and `keys` to their number. false: a problem is
 * set. */
bool srv_positions_read(srv_positions_call *call);
/* Reads the body of a srv_positions_call into the shapes of the tables, and counts the cost. false:
 * a problem is set. */
bool srv_positions_prepare(void *data);
/* Computes the tables and curves of a srv_positions_call. false: a problem is set. */
bool srv_positions_make(void *data);

#endif
