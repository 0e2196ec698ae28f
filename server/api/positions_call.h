/* One POST /v1/positions on its way: decoded body -> tables -> answer. */
#ifndef SRV_POSITIONS_CALL_H
#define SRV_POSITIONS_CALL_H

#include "api/form_input.h"
#include "api/heatmap_object.h"
#include "api/route_fields.h"

typedef enum srv_encoding_kind {
    SRV_POSITIONS_SINUSOIDAL,
    SRV_POSITIONS_LEARNED,
    SRV_POSITIONS_ALIBI,
    SRV_POSITIONS_T5,
    SRV_POSITIONS_RELATIVE,
    SRV_POSITIONS_SHAW,
    SRV_POSITIONS_ROTARY,
} srv_encoding_kind;

typedef struct srv_positions_body {
    uint64_t given;
    int kind; /* srv_encoding_kind */
    int64_t length, width, heads, keys, query_offset;
    int layout; /* attn_encoding_layout */
    srv_ints dims;
    int64_t seed, max_distance;
    double std, base;
    attn_tensor slopes, table, key_table;
    bool bidirectional, dry_run;
    int64_t decimals, timeout_ms;
    srv_figure_input figure;
} srv_positions_body;

/* A curve: column `dim` of a table over positions, or what a head (or column) holds by distance. */
typedef struct srv_curve {
    size_t dim;
    attn_tensor values; /* one axis */
} srv_curve;

#define SRV_TABLES 2

typedef struct srv_positions_call {
    srv_request *req;
    srv_positions_body body;
    attn_position position;
    size_t heads, keys;       /* resolved */
    int64_t first, distances; /* by distance: the least one and how many; 0: by position */
    size_t parameters;
    const char *names[SRV_TABLES];  /* NULL: no such table */
    attn_tensor tables[SRV_TABLES]; /* float64; without data before they are made */
    double values;                  /* of tables and curves */
    srv_curve *curves;
    size_t curve_count, curve_columns; /* columns that curves can show */
} srv_positions_call;

/* Body -> shapes of the tables. false: a problem is set. */
bool srv_positions_prepare(srv_positions_call *call);
/* Shapes -> tables and curves. false: a problem is set. */
bool srv_positions_make(srv_positions_call *call);

#endif
