/* The one table of routes: router, openapi.json and index read it. */
#include "handlers.h"
#include "route.h"
#include "route_fields.h"

#define BOTH    (SRV_ACCEPT_JSON | SRV_ACCEPT_TEXT)
#define TENSORS (BOTH | SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY)

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
