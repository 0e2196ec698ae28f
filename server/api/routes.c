/* The table of routes. The router, openapi.json and the index page read it. */
#include <string.h>

#include "api/analyses/analyses_api.h"
#include "api/attention/attention_api.h"
#include "api/common/listing.h"
#include "api/common/route.h"
#include "api/explanations/explanations_api.h"
#include "api/figures/figures_api.h"
#include "api/heads/heads_api.h"
#include "api/jobs/jobs_api.h"
#include "api/masks/masks_api.h"
#include "api/models/models_api.h"
#include "api/positions/positions_api.h"
#include "api/runs/runs_api.h"
#include "api/service/service_api.h"
#include "api/vocabulary/vocabulary_api.h"
#include "jobs/jobs.h"

#define BOTH    (SRV_ACCEPT_JSON | SRV_ACCEPT_TEXT)
#define TENSORS (BOTH | SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_NPY)

#define V2_GET(path, run, summary, answer, text)                                                   \
    {                                                                                              \
        "GET", path, SRV_KEYED, SRV_HERE, run, NULL, summary, SRV_ACCEPT_JSON, answer, true,       \
            .description = text                                                                    \
    }

/* The rows of the routes of a /v2 model. They are used twice, for paths with a version and for
 * paths without. */
#define V2_MODEL(path)                                                                             \
    V2_GET(path, srv_v2_model, "A model's inputs and outputs", "V2Model",                          \
           "Answers names, element types and shapes of the tensors."),                             \
        V2_GET(path "/ready", srv_v2_model_ready, "Readiness of a model", "V2ModelReady",          \
               "Answers true, since models are part of the program."),                             \
        V2_GET(path "/config", srv_v2_config, "A model's configuration", "V2Config",               \
               "Answers the configuration in the form that clients of Triton read."),              \
        V2_GET(path "/stats", srv_v2_stats, "Statistics of a model", "V2Statistics",               \
               "Answers counts and durations of the infer requests since the start."),             \
    {                                                                                              \
        "POST", path "/infer", SRV_KEYED, SRV_SMALL, srv_v2_infer, NULL,                           \
            "Run the model, JSON or binary tensors", SRV_ACCEPT_JSON, "V2Inference", true,         \
            .description = "Computes attention of the named tensors. The parameters are the "      \
                           "other fields of POST /v1/attention."                                   \
    }

#define RUN_GET(path, run, fields, summary, produces, answer, text)                                \
    {                                                                                              \
        "GET", "/v1/runs/{id}" path, SRV_KEYED, SRV_POOL, run, fields, summary, produces, answer,  \
            .takes_token = true, .description = text                                               \
    }

/* The rows leave out their last members if these are zero. Without this line, GCC would warn. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
const srv_route srv_routes[] = {
    {"GET", "/", SRV_KEYED, SRV_HERE, srv_page, NULL,
     "This index: routes and examples; for browsers the page", BOTH | SRV_ACCEPT_HTML, "Index",
     .description = "Programs get JSON or text: the routes, the worked examples and a first "
                    "request. A browser gets the page."},
    {"GET", "/docs", SRV_OPEN, SRV_HERE, srv_page_reference, NULL, "The reference for browsers"},
    {"GET", "/web/{file}", SRV_OPEN, SRV_HERE, srv_page_file, NULL, "A file of the page"},
    {"POST", "/v1/attention", SRV_KEYED, SRV_SMALL, srv_attention, srv_attention_fields,
     "Attention: output, exact weights, scores, heatmap", TENSORS | SRV_ACCEPT_DRAWN, "Attention",
     .description =
         "Computes softmax(Q K^T scale + bias) V with masks, positions and projections. The answer "
         "has the tensors that `return` names; `store` keeps the run under /v1/runs."},
    {"POST", "/v1/masks", SRV_KEYED, SRV_SMALL, srv_masks, srv_masks_fields,
     "Masks: build, combine, explain and check", TENSORS | SRV_ACCEPT_DRAWN, "Mask",
     .description =
         "Combines masks of several kinds and answers the visible cells, their share and the mask "
         "in words. It warns of rows without keys and of numbers that do not hide. More than "
         "65,536 cells are runs of visible keys in JSON, which attn_mask reads."},
    {"POST", "/v1/positions", SRV_KEYED, SRV_SMALL, srv_positions, srv_positions_fields,
     "Positions: encodings and biases as tables and curves", TENSORS | SRV_ACCEPT_DRAWN,
     "Positions",
     .description = "Answers the table of a position encoding or bias, and its curves over "
                    "positions or distances."},
    {"POST", "/v1/heatmaps", SRV_KEYED, SRV_SMALL, srv_heatmaps, srv_heatmaps_fields,
     "Heatmaps of weights from the request", BOTH | SRV_ACCEPT_NPY | SRV_ACCEPT_DRAWN, "Heatmaps",
     .description = "Draws or pools weights that the caller has, without computing attention."},
    {"POST", "/v1/analyses", SRV_KEYED, SRV_SMALL, srv_analyses, srv_analyses_fields,
     "Analyses: measures and descriptions of heads, comparison of two sets of weights",
     TENSORS | SRV_ACCEPT_DRAWN, "Analyses",
     .description = "Measures heads: entropy, distance, patterns, similarity of pairs, rollout. "
                    "The weights are sent or those of a stored run."},
    {"POST", "/v1/curves", SRV_KEYED, SRV_SMALL, srv_curves, srv_curves_fields,
     "Curves of numbers from the request", BOTH | SRV_ACCEPT_DRAWN, "Curves",
     .description =
         "Draws lines of numbers, such as losses, in panels. As JSON it answers their ranges."},
    {"POST", "/v1/runs", SRV_KEYED, SRV_POOL, srv_runs_create, srv_runs_fields,
     "Import a run: a file in the safetensors format, or the name of one", SRV_ACCEPT_JSON, "Run",
     .intake = srv_runs_intake,
     .description = "Keeps a run that another program has captured. The body is the file, or JSON "
                    "that names a file of the service's captures_dir."},
    {"GET", "/v1/runs", SRV_OWNER, SRV_POOL, srv_runs_all, srv_listing_query,
     "The stored runs of the API key", SRV_ACCEPT_JSON, "Runs",
     .description =
         "Lists the runs that this API key has stored, and to an admin key all of them."},
    RUN_GET("", srv_runs_describe, NULL, "A stored run: shapes, mask, labels, tile levels",
            SRV_ACCEPT_JSON, "Run",
            "Tells the sites of the run with their shapes and masks, the tokens and when the run "
            "expires."),
    {"DELETE", "/v1/runs/{id}", SRV_KEYED, SRV_POOL, srv_runs_delete, NULL, "Delete a stored run",
     SRV_ACCEPT_JSON, "Run",
     .description =
         "Frees the memory and the file of the run. A second DELETE is 404, and other requests for "
         "it are 410. A file that cannot be removed is 503, and the run is still there."},
    RUN_GET("/weights", srv_runs_weights, srv_run_weights_query,
            "Exact weights or scores of some queries and keys", TENSORS, "RunWeights",
            "Computes the part again from the stored queries and keys, so every number is exact. "
            "Without a range it answers all, up to 65,536 of them."),
    RUN_GET("/tiles", srv_runs_tiles, srv_run_tiles_query,
            "A tile of 256 x 256 cells: the max plane, then the mean plane; 204 if all cells are "
            "hidden",
            SRV_ACCEPT_OCTETS | SRV_ACCEPT_PNG, "Run",
            "Tiles of level 0 have a cell for each weight. Each level above pools 2 x 2 cells, so "
            "that maps of any size can be zoomed."),
    RUN_GET("/rows", srv_runs_rows, srv_run_rows_query,
            "Complete rows, with logsumexp and hidden keys",
            SRV_ACCEPT_JSON | SRV_ACCEPT_SAFETENSORS, "RunRows",
            "Answers the weights of all keys for some queries, at most 65,536."),
    RUN_GET("/top-k", srv_runs_top, srv_run_top_query, "The strongest edges of rows",
            SRV_ACCEPT_JSON | SRV_ACCEPT_SAFETENSORS, "RunEdges",
            "Answers the largest weights of each row, or of each key with axis=key, as columns of "
            "equal length."),
    RUN_GET("/cells", srv_runs_cells, srv_run_cells_query,
            "The computation of one weight, step by step", BOTH | SRV_ACCEPT_SAFETENSORS, "RunCell",
            "Lists each step from the two vectors to the weight: products, scale, biases, mask and "
            "softmax."),
    RUN_GET("/analyses", srv_runs_analyses, srv_run_analyses_query,
            "Measures and diagnoses of a stored run", BOTH, "Analysis",
            "Computes the measures of POST /v1/analyses for each head of a site."),
    RUN_GET("/heatmaps", srv_runs_heatmaps, srv_run_heatmaps_query, "Heatmaps of a stored run",
            BOTH | SRV_ACCEPT_NPY | SRV_ACCEPT_DRAWN, "Heatmaps",
            "Pools the weights of a site to at most max_cells cells, or draws them as a picture."),
    {"GET", "/v1/runs/{id}/atlas", SRV_KEYED, SRV_POOL, srv_runs_atlas, srv_run_atlas_query,
     "Thumbnails of all heads of a run", SRV_ACCEPT_JSON | SRV_ACCEPT_SAFETENSORS, "RunAtlas",
     .takes_token = true, .shrinks = true,
     .description = "Answers a small map of each head, to choose heads by sight."},
    RUN_GET("/heads", srv_runs_heads, srv_run_heads_query,
            "Patterns and main measures of all heads of a run", BOTH, "RunHeads",
            "Names the pattern of each head with the measures that tell it, to find heads of a "
            "kind. Its memory does not grow with the number of weights."),
    RUN_GET("/rollout", srv_runs_rollout, srv_run_rollout_query,
            "Attention rollout of some queries through the layers of a run", TENSORS, "RunRollout",
            "Multiplies the weights of the layers of self-attention with their residual "
            "connections (Abnar and Zuidema 2020). Only the rows of each layer that these queries "
            "reach are computed, in memory that grows with the tokens and not with their square."),
    RUN_GET("/flow", srv_runs_flow, srv_run_rollout_query,
            "Attention flow of some queries through the layers of a run", TENSORS, "RunFlow",
            "Computes the maximum flow from each of the queries to each token through all layers "
            "(Abnar and Zuidema 2020, section 3.2). More than 512 tokens are refused (413), and "
            "max_operations bounds rows x tokens x edges."),
    {"POST", "/v1/runs/{id}/what-if", SRV_KEYED, SRV_POOL, srv_runs_what_if, srv_run_what_if_fields,
     "Exact rows with some keys hidden", SRV_ACCEPT_JSON | SRV_ACCEPT_SAFETENSORS, "RunWhatIf",
     .description = "Hides keys and computes the softmax of the rows again, exactly; the output "
                    "changes with them. Dropout of the run is left out. Rows are computed in "
                    "blocks, so only what return names takes memory."},
    {"GET", "/v1/models", SRV_KEYED, SRV_SMALL, srv_models_list, srv_listing_query,
     "The models that are visible to the API key", SRV_ACCEPT_JSON, "Models",
     .description = "Lists models that are built in, those of models_dir, and those that were "
                    "created over HTTP."},
    {"POST", "/v1/models", SRV_ADMIN, SRV_POOL, srv_models_create, srv_models_fields,
     "Create a model from an architecture, sizes and a seed", SRV_ACCEPT_JSON, "Model",
     .description = "Makes a model with random initial values, to look at untrained attention or "
                    "to be trained by a job."},
    {"GET", "/v1/models/{id}", SRV_KEYED, SRV_SMALL, srv_models_describe, NULL,
     "A model: architecture, sizes, parameters by part", SRV_ACCEPT_JSON, "Model",
     .description = "Tells the architecture, the sizes, the attention sites and the number of "
                    "parameters of each part."},
    {"DELETE", "/v1/models/{id}", SRV_OWNER, SRV_POOL, srv_models_remove, NULL,
     "Delete a model that was created over HTTP", SRV_ACCEPT_JSON, "Model",
     .description = "Removes the model and its file. Models that are built in or that are files of "
                    "models_dir cannot be deleted. A file that cannot be removed is 503, and the "
                    "model is still there."},
    {"GET", "/v1/models/{id}/vocabulary", SRV_KEYED, SRV_SMALL, srv_models_vocabulary,
     srv_models_vocabulary_query, "The words of a model in the order of their ids", BOTH,
     "ModelVocabulary",
     .description = "Answers the words by their ids, and the ids of the special tokens. The target "
                    "words of an encoder alone are its classes."},
    {"POST", "/v1/models/{id}/attention", SRV_KEYED, SRV_SMALL, srv_models_attention,
     srv_models_attention_fields,
     "Attention of a model: weights or heatmaps of each site, logits, states",
     BOTH | SRV_ACCEPT_SAFETENSORS | SRV_ACCEPT_DRAWN, "ModelAttention",
     .description =
         "Runs the model on given sentences and answers the weights of each attention site."},
    {"POST", "/v1/models/{id}/heads", SRV_KEYED, SRV_POOL, srv_heads, srv_heads_fields,
     "What each head of a model does: scores, and words that it connects", BOTH | SRV_ACCEPT_DRAWN,
     "ModelHeads",
     .description =
         "Scores every head on probes, which are repeated random tokens (Olsson et al. 2022), and "
         "on texts, and counts in how many sentences its largest weight connects a word with the "
         "word that belongs to it, such as a pronoun and its noun."},
    {"POST", "/v1/models/{id}/generate", SRV_KEYED, SRV_SMALL, srv_models_generate,
     srv_models_generate_fields, "Generate by search or by sampling, with the attention",
     BOTH | SRV_ACCEPT_DRAWN | SRV_ACCEPT_EVENTS, "ModelGeneration",
     .description = "Translates or continues the source. With `stream`, or Accept: "
                    "text/event-stream, each step is an event."},
    {"POST", "/v1/models/{id}/explain", SRV_KEYED, SRV_SMALL, srv_models_explain,
     srv_models_explain_fields, "What heads and layers of a model do: interventions, logit lens",
     BOTH, "ModelExplanation",
     .description = "Runs the model on a text, with and without changes of its heads and of its "
                    "residual stream, and answers how loss and logits change, what each layer "
                    "would predict, and what each head adds to a logit."},
    {"GET", "/v1/jobs", SRV_KEYED, SRV_SMALL, srv_jobs_list, srv_listing_query,
     "The jobs that are visible to the API key", SRV_ACCEPT_JSON, "Jobs",
     .description = "Lists queued, running and ended jobs."},
    {"POST", "/v1/jobs", SRV_ADMIN, SRV_POOL, srv_jobs_create, srv_job_fields,
     "Train a model or run an experiment in the background", SRV_ACCEPT_JSON, "Job",
     .description = "Queues the job and answers at once. Its state is at /v1/jobs/{id}, its "
                    "progress at /v1/jobs/{id}/events."},
    {"GET", "/v1/jobs/{id}", SRV_KEYED, SRV_SMALL, srv_jobs_describe, NULL,
     "A job: state, progress, scores, its model", SRV_ACCEPT_JSON, "Job", .takes_token = true,
     .description =
         "Tells how far the job is, and where its model, run or result is once it is done."},
    {"DELETE", "/v1/jobs/{id}", SRV_OWNER, SRV_POOL, srv_jobs_remove, NULL,
     "Delete a job with its model", SRV_ACCEPT_JSON, "Job",
     .description = "A job that has not ended is cancelled first. Its run stays. A job whose files "
                    "cannot be removed is 503 and still there."},
    {"POST", "/v1/jobs/{id}/cancel", SRV_OWNER, SRV_POOL, srv_jobs_cancel, NULL,
     "Cancel a job, which keeps its best model", SRV_ACCEPT_JSON, "Job",
     .description = "A queued job ends at once, a running one soon: until then its state is "
                    "running. A job that has ended stays as it is."},
    {"GET", "/v1/jobs/{id}/events", SRV_KEYED, SRV_POOL, srv_jobs_events, NULL,
     "Server-sent events of a job: progress, log, end", SRV_ACCEPT_EVENTS, "JobEvents",
     .takes_token = true,
     .description = "Streams the events from the first one that is kept, or from the one after "
                    "Last-Event-ID, until the job ends."},
    {"GET", "/v1/jobs/{id}/result", SRV_KEYED, SRV_POOL, srv_jobs_result, NULL,
     "Result of an experiment: tables, data of pictures, a summary", BOTH, "Findings",
     .description = "Answers the tables of the experiment once the job is done."},
    {"GET", "/v1/jobs/{id}/pictures/{name}", SRV_KEYED, SRV_POOL, srv_jobs_picture, NULL,
     "A picture of an experiment", SRV_ACCEPT_PNG | SRV_ACCEPT_SVG, "Picture",
     .description = "Answers one of the pictures that the job names in `pictures`."},
    {"GET", "/v1/examples", SRV_KEYED, SRV_HERE, srv_examples_list, NULL, "Worked examples", BOTH,
     "Examples", .description = "Lists small requests with known answers, each with its topic."},
    {"GET", "/v1/examples/{id}", SRV_KEYED, SRV_HERE, srv_examples_one, NULL,
     "One example: requests and their answers", SRV_ACCEPT_JSON, "Example",
     .description = "Answers the requests of the example and what they return, which tests compare "
                    "with the service."},
    {"GET", "/v1/lessons", SRV_KEYED, SRV_HERE, srv_lessons_list, NULL, "Lessons", BOTH, "Lessons",
     .description = "Lists the lessons that the page gives, each with its purpose."},
    {"GET", "/v1/lessons/{id}", SRV_KEYED, SRV_HERE, srv_lessons_one, NULL,
     "One lesson: steps and questions", SRV_ACCEPT_JSON, "Lesson",
     .description = "Answers the steps of the lesson: what each says, the request whose run the "
                    "page shows, and a question with its answer."},
    {"GET", "/v2", SRV_KEYED, SRV_HERE, srv_v2_server, NULL, "Open Inference Protocol: the server",
     SRV_ACCEPT_JSON, "V2Server", true,
     .description =
         "Answers the name, the version and the extensions of the protocol that the server has."},
    {"GET", "/v2/", SRV_KEYED, SRV_HERE, srv_v2_server, NULL, "Open Inference Protocol: the server",
     SRV_ACCEPT_JSON, "V2Server", true, .description = "Answers the same as /v2."},
    {"GET", "/v2/health/live", SRV_OPEN, SRV_HERE, srv_v2_live, NULL, "Liveness of the process",
     SRV_ACCEPT_JSON, "V2Live", true,
     .description = "Answers 200 as long as the process answers at all."},
    {"GET", "/v2/health/ready", SRV_OPEN, SRV_HERE, srv_v2_ready, NULL, "Readiness for requests",
     SRV_ACCEPT_JSON, "V2Ready", true,
     .description = "Answers 503 from the moment at which the service begins to shut down."},
    {"GET", "/v2/models", SRV_KEYED, SRV_HERE, srv_v2_models, NULL, "The models of /v2",
     SRV_ACCEPT_JSON, "V2Models", true,
     .description = "Lists the names of the models that infer requests can name."},
    {"GET", "/v2/models/stats", SRV_KEYED, SRV_HERE, srv_v2_stats, NULL, "Statistics of all models",
     SRV_ACCEPT_JSON, "V2Statistics", true,
     .description = "Answers counts and durations of the infer requests of each model."},
    V2_MODEL("/v2/models/{model}"),
    V2_MODEL("/v2/models/{model}/versions/{version}"),
    {"POST", "/v2/repository/index", SRV_KEYED, SRV_HERE, srv_v2_index, NULL,
     "The models and their state", SRV_ACCEPT_JSON, "V2Index", true,
     .description = "Answers the models with their versions. All of them are always ready."},
    {"GET", "/problems", SRV_OPEN, SRV_HERE, srv_problems_list, NULL,
     "The codes of problems, with meaning, remedy and an example",
     SRV_ACCEPT_JSON | SRV_ACCEPT_HTML, "ProblemKinds",
     .description = "Lists every code that the member `code` of a problem may have."},
    {"GET", "/problems/{code}", SRV_OPEN, SRV_HERE, srv_problems_one, NULL,
     "A code of problems: its meaning, a remedy, an example", SRV_ACCEPT_JSON | SRV_ACCEPT_HTML,
     "ProblemKind",
     .description = "Is what the member `type` of a problem refers to. A browser gets a page."},
    {"GET", "/healthz", SRV_OPEN, SRV_HERE, srv_healthz, NULL, "Liveness of the process",
     SRV_ACCEPT_JSON, "Health",
     .description = "Answers 200 as long as the process answers at all. It needs no API key."},
    {"GET", "/readyz", SRV_OPEN, SRV_HERE, srv_readyz, NULL, "Readiness for requests",
     SRV_ACCEPT_JSON, "Health",
     .description = "Answers 503 from the moment at which the service begins to shut down, so that "
                    "balancers stop sending requests, and if a directory that it uses was "
                    "removed."},
    {"GET", "/version", SRV_KEYED, SRV_HERE, srv_version, NULL, "Version, kernels and limits",
     SRV_ACCEPT_JSON, "Version",
     .description = "Tells the version, the chosen kernel table, the limits and the features that "
                    "are switched on."},
    {"GET", "/metrics", SRV_KEYED, SRV_HERE, srv_metrics, NULL, "Metrics for Prometheus",
     SRV_ACCEPT_TEXT, "Metrics",
     .description = "Answers counters and gauges of the process in the text format of Prometheus."},
    {"GET", "/openapi.json", SRV_KEYED, SRV_POOL, srv_openapi, NULL,
     "This interface as OpenAPI 3.1", SRV_ACCEPT_JSON, "OpenApi",
     .description = "Is made from the tables that route and decode requests. Its server is the "
                    "address of the request."},
    {0},
};

bool srv_route_is_listed(const srv_route *route) {
    size_t n = strlen(route->path);
    return route->produces && (n == 1 || route->path[n - 1] != '/');
}

bool srv_route_creates(const srv_route *route) {
    const size_t n = strlen(route->path);
    const srv_route *item = srv_routes;
    if (strcmp(route->method, "POST") != 0)
        return false;
    while (item->method &&
           (strcmp(item->method, "DELETE") != 0 || strncmp(item->path, route->path, n) != 0 ||
            strcmp(item->path + n, "/{id}") != 0))
        item++;
    return item->method != NULL;
}

bool srv_route_goes_on(const srv_route *route) {
    return route->run == srv_jobs_create;
}

bool srv_route_looks(const srv_route *route) {
    return route->run == srv_runs_analyses || route->run == srv_runs_heatmaps ||
           route->run == srv_runs_atlas || route->run == srv_runs_heads ||
           route->run == srv_runs_rollout || route->run == srv_runs_flow;
}

bool srv_route_stores_later(const srv_route *route) {
    return route->run == srv_attention || route->run == srv_models_attention;
}
