/* What the routes of /v1/models/{id} share: texts, tokens or ids become padded batches, a request
 * takes its steps, and weights become heatmaps. */
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
     .doc = what " as text, one or a list; it is split into words in lower case."},                \
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
    SRV_HEATMAP_ROW(                                                                               \
        T, "Content of the heatmaps, one set for each sequence. The field also requests them."),   \
        SRV_FIGURE_ROW(T, "Title, labels and style of the picture."),                              \
        SRV_DECIMALS_ROW(                                                                          \
            T, ". The default is the shortest text that reads back to the same number."),          \
        SRV_DRY_RUN_ROW(T, "Compute nothing: return the shapes and the cost of the request."),     \
        SRV_TIMEOUT_ROW(T)

typedef struct srv_sequence {
    int32_t *ids;
    size_t length;
    const char **tokens; /* as they were sent, or the vocabulary's words for the ids */
    size_t *offsets;     /* [length + 1, 2]: first and last byte of each token in the text, then an
                            empty range at its end; NULL: there was no text */
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
    size_t most;             /* the most tokens of a sequence */
    attn_warnings *warnings; /* words that the vocabulary lacks */
} srv_reading;

/* Reads the sequences of a side. out->count 0: none was given. false: a problem is set. */
bool srv_models_read(const srv_reading *r, const srv_side *side, srv_sequences *out);
/* Makes a sequence of ids with the model's words for them. false: a problem is set. */
bool srv_models_name(srv_request *req, const srv_model *model, int which, const int32_t *ids,
                     size_t length, srv_sequence *out);
/* The ids [count, width], padded, with `before` in front unless it is negative. NULL: a problem is
 * set. */
int32_t *srv_models_pad(srv_request *req, const srv_sequences *s, size_t width, int32_t before,
                        int64_t **lengths);
/* Writes {"tokens", "ids", "offsets"}. */
void srv_models_put(srv_json *j, const srv_sequence *s);

/* Checks the pass against the limits of the service. false: it exceeds one, and a problem is set
 * unless `quiet`. */
bool srv_models_fits(srv_request *req, const attn_model_cost *cost, double result, bool quiet);
srv_outcome srv_models_dry(srv_request *req, srv_dry *dry, const attn_model_cost *cost,
                           double result);

/* A request to a model. The struct of a route begins with it. */
typedef struct srv_pass {
    srv_request *req;
    const srv_model *model; /* held */
    bool dry_run;           /* set by decode */
    bool streams;           /* set by decode: the answer is a stream, which a worker writes */
} srv_pass;

/* The cost of a pass on the pool of this service. */
attn_model_cost srv_models_cost(const srv_pass *pass, const attn_model_pass *extent);

/* The steps of a route, in order. false: a problem is set. */
typedef struct srv_pass_steps {
    bool (*decode)(srv_pass *pass); /* read and check what was sent */
    attn_model_cost (*cost)(const srv_pass *pass);
    double (*result)(const srv_pass *pass); /* bytes of the answer */
    srv_outcome (*predict)(const srv_pass *pass,
                           const attn_model_cost *cost); /* answers a dry run */
    bool (*compute)(srv_pass *pass);
    void (*answer)(const srv_pass *pass);
} srv_pass_steps;

/* Holds the model of the path and takes the steps, within the limits, and on a worker unless the
 * work is small. */
srv_outcome srv_models_run(srv_pass *pass, const srv_pass_steps *steps);
/* Bytes that a float of an answer takes: itself and its JSON. */
#define SRV_MODEL_TEXT 20.0

bool srv_models_attends(const srv_model *model);
/* Checks that a picture, if one is asked for, is of a model with attention and of one sequence.
 * false: a problem is set. */
bool srv_models_may_draw(const srv_pass *pass, size_t sequences);
/* "encoder", "decoder", "cross": by attn_site_kind, ended by NULL. */
extern const char *const srv_model_site_kinds[];
/* The number of heads of its cross-attention. */
size_t srv_models_cross_heads(const srv_model *model);

/* The weights of one sequence, [heads, >= rows, stride]. The names of its queries and keys become
 * labels. */
typedef struct srv_model_weights {
    const float *weights;
    size_t heads, head_stride, stride, rows, cols, batch;
    const char **row_names, **col_names;
} srv_model_weights;

typedef struct srv_model_heatmaps {
    attn_heatmaps maps;
    srv_labels labels;
} srv_model_heatmaps;

/* Builds heatmaps of the weights. false: a problem is set. */
bool srv_models_heatmaps(srv_request *req, const srv_model_weights *weights,
                         const srv_heat_input *in, srv_model_heatmaps *out);
/* Answers with heatmaps as a picture. */
void srv_models_draw(srv_request *req, const srv_model_heatmaps *maps, const srv_heat_input *in,
                     const srv_figure_input *figure, int64_t decimals);

#endif
