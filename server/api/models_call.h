/* What the routes of /v1/models/{id} share: texts, tokens or ids -> padded batches, what a pass
 * costs, heatmaps of where a model looked. */
#ifndef SRV_MODELS_CALL_H
#define SRV_MODELS_CALL_H

#include <stddef.h>

#include "api/dry.h"
#include "api/heatmap_object.h"
#include "api/route_fields.h"
#include "api/scope.h"
#include "request/stream.h"
#include "store/model_registry.h"

/* One side of a request, as it was sent. */
typedef struct srv_side {
    srv_strings texts;
    srv_words tokens;
    attn_tensor ids;
} srv_side;

/* Rows for a side's three fields; `lead` is "" or "target_". */
#define SRV_SIDE_ROWS(T, member, lead, ids_name, what)                                             \
    {.name = lead "text",                                                                          \
     .kind = SRV_TEXTS,                                                                            \
     .offset = offsetof(T, member.texts),                                                          \
     .doc = what " as text, one or a list: split into words in lower case."},                      \
        {.name = lead "tokens",                                                                    \
         .kind = SRV_WORDS,                                                                        \
         .offset = offsetof(T, member.tokens),                                                     \
         .doc = what " as words of the vocabulary, a list or a list of lists."},                   \
    {                                                                                              \
        .name = ids_name, .kind = SRV_TENSOR, .offset = offsetof(T, member.ids),                   \
        .accepts = SRV_T_INT,                                                                      \
        .doc = what " as ids, [S] or [B, S]; the padding id (0) at the end is cut off."            \
    }
#define SRV_MODEL_COMMON_ROWS(T)                                                                   \
    SRV_HEATMAP_ROW(T, "What the heatmaps hold, one set a sequence; giving it asks for them."),    \
        SRV_FIGURE_ROW(T, "What a picture says around the heatmaps and looks like."),              \
        SRV_DECIMALS_ROW(T, "; default: their shortest text."),                                    \
        SRV_DRY_RUN_ROW(T, "Compute nothing: answer the shapes and what a run would cost."),       \
        SRV_TIMEOUT_ROW(T)

typedef struct srv_sequence {
    int32_t *ids;
    size_t length;
    const char **tokens; /* as they were sent, or as the vocabulary calls the ids */
    size_t *offsets;     /* [length + 1, 2]: bytes of the text, nothing of it behind the last; NULL:
                            there was none */
} srv_sequence;

typedef struct srv_sequences {
    srv_sequence *items;
    size_t count, longest;
} srv_sequences;

/* Which of the model's two sides. */
enum { SRV_SOURCE, SRV_TARGET };

typedef struct srv_reading {
    srv_request *req;
    const srv_model *model;
    const srv_scope *scope;
    int which;               /* SRV_SOURCE, SRV_TARGET */
    const char *names[3];    /* of the fields: text, tokens, ids */
    size_t most;             /* tokens of a sequence */
    attn_warnings *warnings; /* words that the vocabulary lacks */
} srv_reading;

/* A side's sequences; out->count 0: none was given. false: a problem is set. */
bool srv_models_read(const srv_reading *r, const srv_side *side, srv_sequences *out);
/* A sequence of ids with the names of the model's words; false: a problem is set. */
bool srv_models_name(srv_request *req, const srv_model *model, int which, const int32_t *ids,
                     size_t length, srv_sequence *out);
/* [count, width] ids with `before` in front unless negative, padded; NULL: a problem is set. */
int32_t *srv_models_pad(srv_request *req, const srv_sequences *s, size_t width, int32_t before,
                        int64_t **lengths);
/* {"tokens", "ids", "offsets"} */
void srv_models_put(srv_json *j, const srv_sequence *s);

/* Within the limits of the service? false: a problem is set unless `quiet`. */
bool srv_models_fits(srv_request *req, const attn_model_cost *cost, double result, bool quiet);
srv_outcome srv_models_dry(srv_request *req, srv_dry *dry, const attn_model_cost *cost,
                           double result);

/* A request on its way through a model; the struct of a route begins with it. */
typedef struct srv_pass {
    srv_request *req;
    const srv_model *model; /* held */
    bool dry_run;           /* asked for, says decode */
    bool streams;           /* the same: not for the HTTP thread */
} srv_pass;

/* What a pass takes on this service's pool. */
attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent);

/* What a route does in turn. false: a problem is set. */
typedef struct srv_pass_steps {
    bool (*decode)(srv_pass *pass); /* read and check what was sent */
    attn_model_cost (*cost)(const srv_pass *pass);
    double (*result)(const srv_pass *pass); /* bytes of the answer */
    srv_outcome (*predict)(const srv_pass *pass,
                           const attn_model_cost *cost); /* a dry run's answer */
    bool (*compute)(srv_pass *pass);
    void (*answer)(const srv_pass *pass);
} srv_pass_steps;

/* Hold the model of the path and take the steps: within the limits, on a worker unless it is
 * little. */
srv_outcome srv_models_run(srv_pass *pass, const srv_pass_steps *steps);
/* Bytes of JSON that a float can become, itself among them. */
#define SRV_MODEL_TEXT 20.0

bool srv_models_attends(const srv_model *model);
/* A picture, if that is asked for, is of a model with attention and one sequence. false: a problem
 * is set. */
bool srv_models_may_draw(const srv_pass *pass, size_t sequences);
/* "encoder", "decoder", "cross" by attn_site_kind; NULL ends. */
extern const char *const srv_model_site_kinds[];
/* Heads of its attention across. */
size_t srv_models_cross_heads(const srv_model *model);

/* The heatmaps of one sequence: weights [heads, >= rows, stride] of its queries and keys, whose
 * names become labels. */
typedef struct srv_model_weights {
    const float *weights;
    size_t heads, head_stride, stride, rows, cols, batch;
    const char **row_names, **col_names;
} srv_model_weights;

typedef struct srv_model_heatmaps {
    attn_heatmaps maps;
    srv_labels labels;
} srv_model_heatmaps;

/* false: a problem is set. */
bool srv_models_heatmaps(srv_request *req, const srv_model_weights *weights,
                         const srv_heat_input *in, srv_model_heatmaps *out);
/* They are the answer, as a picture. */
void srv_models_draw(srv_request *req, const srv_model_heatmaps *maps, const srv_heat_input *in,
                     const srv_figure_input *figure, int64_t decimals);

#endif
