/* The handlers of srv_routes[]. A handler reads the request and sets the whole reply in req->reply.
 * On the HTTP thread it may return SRV_DEFER instead; it is then called again on a request thread.
 */
#ifndef SRV_HANDLERS_H
#define SRV_HANDLERS_H

#include "request/request.h"

#define SRV_WEIGHTS_UNASKED 65536 /* most weights in an answer whose request does not name them */

srv_outcome srv_attention(srv_request *req);      /* POST /v1/attention */
srv_outcome srv_masks(srv_request *req);          /* POST /v1/masks */
srv_outcome srv_positions(srv_request *req);      /* POST /v1/positions */
srv_outcome srv_heatmaps(srv_request *req);       /* POST /v1/heatmaps */
srv_outcome srv_analyses(srv_request *req);       /* POST /v1/analyses */
srv_outcome srv_curves(srv_request *req);         /* POST /v1/curves */
srv_outcome srv_examples_list(srv_request *req);  /* GET /v1/examples */
srv_outcome srv_examples_one(srv_request *req);   /* GET /v1/examples/{id} */
srv_outcome srv_page(srv_request *req);           /* GET / */
srv_outcome srv_page_reference(srv_request *req); /* GET /docs */
srv_outcome srv_page_file(srv_request *req);      /* GET /web/{file} */
srv_outcome srv_index(srv_request *req);          /* GET / for clients that do not ask for HTML */
srv_outcome srv_openapi(srv_request *req);        /* GET /openapi.json */
srv_outcome srv_problems_list(srv_request *req);  /* GET /problems */
srv_outcome srv_problems_one(srv_request *req);   /* GET /problems/{code} */
srv_outcome srv_healthz(srv_request *req);        /* GET /healthz */
srv_outcome srv_readyz(srv_request *req);         /* GET /readyz */
bool srv_is_ready(srv_request *req);              /* as /readyz says; false: a problem is set */
srv_outcome srv_version(srv_request *req);        /* GET /version */
srv_outcome srv_metrics(srv_request *req);        /* GET /metrics */

/* Stored runs, under /v1/runs/{id}. */
srv_outcome srv_runs_create(srv_request *req);           /* POST /v1/runs */
bool srv_runs_intake(srv_request *req, uint64_t length); /* the intake of POST /v1/runs */
srv_outcome srv_runs_all(srv_request *req);              /* GET /v1/runs */
srv_outcome srv_runs_describe(srv_request *req);         /* GET */
srv_outcome srv_runs_delete(srv_request *req);           /* DELETE */
srv_outcome srv_runs_weights(srv_request *req);          /* GET …/weights */
srv_outcome srv_runs_rows(srv_request *req);             /* GET …/rows */
srv_outcome srv_runs_top(srv_request *req);              /* GET …/top-k */
srv_outcome srv_runs_tiles(srv_request *req);            /* GET …/tiles */
srv_outcome srv_runs_cells(srv_request *req);            /* GET …/cells */
srv_outcome srv_runs_what_if(srv_request *req);          /* POST …/what-if */
srv_outcome srv_runs_analyses(srv_request *req);         /* GET …/analyses */
srv_outcome srv_runs_heatmaps(srv_request *req);         /* GET …/heatmaps */
srv_outcome srv_runs_rollout(srv_request *req);          /* GET …/rollout */
srv_outcome srv_runs_flow(srv_request *req);             /* GET …/flow */
srv_outcome srv_runs_atlas(srv_request *req);            /* GET …/atlas */
srv_outcome srv_runs_heads(srv_request *req);            /* GET …/heads */

/* Models, under /v1/models. */
srv_outcome srv_models_list(srv_request *req);       /* GET */
srv_outcome srv_models_create(srv_request *req);     /* POST */
srv_outcome srv_models_describe(srv_request *req);   /* GET …/{id} */
srv_outcome srv_models_remove(srv_request *req);     /* DELETE …/{id} */
srv_outcome srv_models_vocabulary(srv_request *req); /* GET …/{id}/vocabulary */
srv_outcome srv_models_attention(srv_request *req);  /* POST …/{id}/attention */
srv_outcome srv_models_generate(srv_request *req);   /* POST …/{id}/generate */

/* Jobs, under /v1/jobs. */
srv_outcome srv_jobs_list(srv_request *req);     /* GET */
srv_outcome srv_jobs_create(srv_request *req);   /* POST */
srv_outcome srv_jobs_describe(srv_request *req); /* GET …/{id} */
srv_outcome srv_jobs_remove(srv_request *req);   /* DELETE …/{id} */
srv_outcome srv_jobs_cancel(srv_request *req);   /* POST …/{id}/cancel */
srv_outcome srv_jobs_events(srv_request *req);   /* GET …/{id}/events */
srv_outcome srv_jobs_result(srv_request *req);   /* GET …/{id}/result */
srv_outcome srv_jobs_picture(srv_request *req);  /* GET …/{id}/pictures/{name} */

/* The Open Inference Protocol, under /v2. */
srv_outcome srv_v2_server(srv_request *req);      /* GET /v2 */
srv_outcome srv_v2_live(srv_request *req);        /* GET /v2/health/live */
srv_outcome srv_v2_ready(srv_request *req);       /* GET /v2/health/ready */
srv_outcome srv_v2_models(srv_request *req);      /* GET /v2/models */
srv_outcome srv_v2_stats(srv_request *req);       /* GET /v2/models/stats, …/{model}/stats */
srv_outcome srv_v2_model(srv_request *req);       /* GET /v2/models/{model} */
srv_outcome srv_v2_model_ready(srv_request *req); /* GET …/ready */
srv_outcome srv_v2_config(srv_request *req);      /* GET …/config */
srv_outcome srv_v2_infer(srv_request *req);       /* POST …/infer */
srv_outcome srv_v2_index(srv_request *req);       /* POST /v2/repository/index */

#endif
