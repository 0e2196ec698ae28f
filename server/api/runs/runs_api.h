/* The routes of stored runs, under /v1/runs/{id}. A handler reads the request and sets the whole
 * reply in req->reply. On the HTTP thread it may return SRV_DEFER instead; it is then called again
 * on a request thread. */
#ifndef SRV_RUNS_API_H
#define SRV_RUNS_API_H

#include "api/common/warnings.h"
#include "request/request.h"
#include "store/runs.h"
#include "wire/decode.h"

srv_outcome srv_runs_create(srv_request *req);           /* POST /v1/runs */
bool srv_runs_intake(srv_request *req, uint64_t length); /* reads the body of POST /v1/runs */
srv_outcome srv_runs_all(srv_request *req);              /* GET /v1/runs */
srv_outcome srv_runs_describe(srv_request *req);         /* GET /v1/runs/{id} */
srv_outcome srv_runs_delete(srv_request *req);           /* DELETE /v1/runs/{id} */
srv_outcome srv_runs_weights(srv_request *req);          /* GET …/weights */
srv_outcome srv_runs_rows(srv_request *req);             /* GET …/rows */
srv_outcome srv_runs_top(srv_request *req);              /* GET …/top-k */
srv_outcome srv_runs_tiles(srv_request *req);            /* GET …/tiles */
srv_outcome srv_runs_cells(srv_request *req);            /* GET …/cells */
srv_outcome srv_runs_what_if(srv_request *req);          /* POST …/what-if */
srv_outcome srv_runs_heatmaps(srv_request *req);         /* GET …/heatmaps */
srv_outcome srv_runs_rollout(srv_request *req);          /* GET …/rollout */
srv_outcome srv_runs_flow(srv_request *req);             /* GET …/flow */
srv_outcome srv_runs_atlas(srv_request *req);            /* GET …/atlas */

/* The fields of the routes' bodies and query strings. */
extern const srv_field srv_runs_fields[], srv_run_weights_query[], srv_run_rows_query[],
    srv_run_top_query[], srv_run_tiles_query[], srv_run_cells_query[], srv_run_what_if_fields[],
    srv_run_heatmaps_query[], srv_run_rollout_query[], srv_run_atlas_query[];

/* The schemas of the routes' answers. */
extern const srv_field srv_run_answers[], srv_run_atlas_answers[], srv_run_rollout_answers[],
    srv_run_weights_answers[], srv_run_cell_rows[], srv_run_top_answers[],
    srv_run_what_if_answers[];

/* Writes the description of a run, which is the answer of GET /v1/runs/{id}. */
void srv_run_write(attn_json_text *j, const srv_run *run);
/* Writes the description of a run, with the member `warnings` if there are warnings. */
void srv_run_write_warned(attn_json_text *j, const srv_run *run, const srv_warnings *warnings);
/* Writes the member `run` for a run that the request has stored, or nothing if `run` is NULL. */
void srv_run_member(attn_json_text *j, const srv_run *run);
/* Prints the id and the size of a run that the request has stored, or nothing if `run` is NULL. */
void srv_run_print(attn_text *t, const srv_run *run);

#endif
