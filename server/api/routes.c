/* The one table of routes: router, openapi.json and index read it. */
#include <string.h>

#include "handlers.h"
#include "route.h"
#include "route_fields.h"

#define BOTH    (SRV_ACCEPT_JSON | SRV_ACCEPT_TEXT)
#define TENSORS (BOTH | SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY)

/* The rows of a model, with and without a version. */
#define V2_MODEL(path)                                                                              \
    {"GET",           path,     SRV_HERE, srv_v2_model, NULL, "A model's inputs and outputs",       \
     SRV_ACCEPT_JSON, "V2Model"},                                                                   \
        {"GET", path "/ready",         SRV_HERE,        srv_v2_model_ready,                         \
         NULL,  "Is the model ready?", SRV_ACCEPT_JSON, "V2Object"},                                \
        {"GET",           path "/config", SRV_HERE, srv_v2_config, NULL, "A model's configuration", \
         SRV_ACCEPT_JSON, "V2Object"},                                                              \
        {"GET",           path "/stats", SRV_HERE,                                                  \
         srv_v2_stats,    NULL,          "What was counted of a model",                             \
         SRV_ACCEPT_JSON, "V2Object"},                                                              \
    {                                                                                               \
        "POST", path "/infer", SRV_SMALL, srv_v2_infer, NULL,                                       \
            "Run the model, JSON or binary tensors", SRV_ACCEPT_JSON, "V2Inference"                 \
    }

const srv_route srv_routes[] = {
    {"GET", "/", SRV_HERE, srv_index, NULL, "This index: routes and examples", BOTH, "Index"},
    {"POST", "/v1/attention", SRV_SMALL, srv_attention, srv_attention_fields,
     "Attention: output, exact weights, scores, heatmap", TENSORS, "Attention"},
    {"POST", "/v1/masks", SRV_SMALL, srv_masks, srv_masks_fields,
     "Masks: build, combine, explain and check them", TENSORS, "Mask"},
    {"POST", "/v1/positions", SRV_SMALL, srv_positions, srv_positions_fields,
     "Positions: encodings and biases as tables and curves", BOTH, "Positions"},
    {"POST", "/v1/heatmaps", SRV_SMALL, srv_heatmaps, srv_heatmaps_fields,
     "Heatmaps of weights that the caller has", BOTH, "Heatmaps"},
    {"GET", "/v1/examples", SRV_HERE, srv_examples_list, NULL, "Worked examples", BOTH, "Examples"},
    {"GET", "/v1/examples/{id}", SRV_HERE, srv_examples_one, NULL,
     "One example: requests and what they answer", SRV_ACCEPT_JSON, "Example"},
    {"GET", "/v2", SRV_HERE, srv_v2_server, NULL, "Open Inference Protocol: the server",
     SRV_ACCEPT_JSON, "V2Server"},
    {"GET", "/v2/", SRV_HERE, srv_v2_server, NULL, "The same", SRV_ACCEPT_JSON, "V2Server"},
    {"GET", "/v2/health/live", SRV_HERE, srv_v2_live, NULL, "Is the process alive?",
     SRV_ACCEPT_JSON, "V2Object"},
    {"GET", "/v2/health/ready", SRV_HERE, srv_v2_ready, NULL, "Does it take requests?",
     SRV_ACCEPT_JSON, "V2Object"},
    {"GET", "/v2/models", SRV_HERE, srv_v2_models, NULL, "The models of /v2", SRV_ACCEPT_JSON,
     "V2Object"},
    {"GET", "/v2/models/stats", SRV_HERE, srv_v2_stats, NULL, "What was counted of all models",
     SRV_ACCEPT_JSON, "V2Object"},
    V2_MODEL("/v2/models/{model}"),
    V2_MODEL("/v2/models/{model}/versions/{version}"),
    {"POST", "/v2/repository/index", SRV_HERE, srv_v2_index, NULL, "The models and their state",
     SRV_ACCEPT_JSON, "V2List"},
    {"GET", "/healthz", SRV_HERE, srv_healthz, NULL, "Is the process alive?", SRV_ACCEPT_JSON,
     "Health"},
    {"GET", "/readyz", SRV_HERE, srv_readyz, NULL, "Does it take requests?", SRV_ACCEPT_JSON,
     "Health"},
    {"GET", "/version", SRV_HERE, srv_version, NULL, "Version, kernels and limits", SRV_ACCEPT_JSON,
     "Version"},
    {"GET", "/metrics", SRV_HERE, srv_metrics, NULL, "Metrics for Prometheus", SRV_ACCEPT_TEXT,
     "Metrics"},
    {"GET", "/openapi.json", SRV_HERE, srv_openapi, NULL, "This interface as OpenAPI 3.1",
     SRV_ACCEPT_JSON, "OpenApi"},
    {0},
};

bool srv_route_is_listed(const srv_route *route) {
    size_t n = strlen(route->path);
    return n == 1 || route->path[n - 1] != '/';
}
