/* The bodies that routes take. */
#ifndef SRV_ROUTE_FIELDS_H
#define SRV_ROUTE_FIELDS_H

#include "wire/decode.h"

extern const srv_field srv_attention_fields[];
extern const srv_field srv_masks_fields[];
extern const srv_field srv_positions_fields[];
extern const srv_field srv_heatmaps_fields[];
extern const srv_field srv_analyses_fields[];
extern const srv_field srv_curves_fields[];
extern const srv_field srv_models_fields[], srv_models_attention_fields[],
    srv_models_generate_fields[];
extern const srv_field srv_run_weights_query[], srv_run_rows_query[], srv_run_top_query[],
    srv_run_tiles_query[], srv_run_cells_query[], srv_run_what_if_fields[], srv_run_heatmap_query[],
    srv_run_metrics_query[];

#endif
