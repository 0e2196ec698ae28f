/* The routes of the service itself: index, page, OpenAPI, problems, health, and the Open Inference
 * Protocol under /v2. A handler reads the request and sets the whole reply in req->reply. On the
 * HTTP thread it may return SRV_DEFER instead; it is then called again on a request thread. */
#ifndef SRV_SERVICE_API_H
#define SRV_SERVICE_API_H

#include "observe/log.h"
#include "wire/answer.h"

srv_outcome srv_examples_list(srv_request *req);  /* GET /v1/examples */
srv_outcome srv_examples_one(srv_request *req);   /* GET /v1/examples/{id} */
srv_outcome srv_lessons_list(srv_request *req);   /* GET /v1/lessons */
srv_outcome srv_lessons_one(srv_request *req);    /* GET /v1/lessons/{id} */
srv_outcome srv_page(srv_request *req);           /* GET / */
srv_outcome srv_page_reference(srv_request *req); /* GET /docs */
srv_outcome srv_page_file(srv_request *req);      /* GET /web/{file} */
srv_outcome srv_index(srv_request *req);          /* GET / for clients that do not ask for HTML */
srv_outcome srv_openapi(srv_request *req);        /* GET /openapi.json */
srv_outcome srv_problems_list(srv_request *req);  /* GET /problems */
srv_outcome srv_problems_one(srv_request *req);   /* GET /problems/{code} */
srv_outcome srv_healthz(srv_request *req);        /* GET /healthz */
srv_outcome srv_readyz(srv_request *req);         /* GET /readyz */
bool srv_is_ready(srv_request *req); /* whether /readyz answers 200; false: a problem is set */
srv_outcome srv_version(srv_request *req);        /* GET /version */
srv_outcome srv_metrics(srv_request *req);        /* GET /metrics */
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

/* Adds the lessons of the directory `path` ("": none) to the embedded ones. A file that is not a
 * lesson is left out with a warning. Must be called before the service answers requests. Returns 0,
 * or the errno value if the directory cannot be read. */
int srv_lessons_open(const char *path, srv_log *log);

/* The schemas of the routes' answers: a table for each file that writes answers. */
extern const srv_field srv_service_answers[], srv_health_answers[], srv_example_answers[],
    srv_lesson_answers[], srv_problem_answers[], srv_v2_answers[];

#endif
