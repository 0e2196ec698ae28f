/* The field table of POST /v1/attention. */
#include <float.h>
#include <stddef.h>

#include "api/attention_call.h"

#define AT(member) offsetof(srv_attention_body, member)

static const char *const fill_modes[] = {"add", "replace", NULL};
static const char *const layouts[] = {"BHLE", "BLHE", "BLD", NULL};
static const char *const precisions[] = {"fp32", "fast", "bf16", NULL};
static const char *const items[] = {"output",          "weights", "logsumexp", "scores", "present",
                                    "weights_dropped", "heatmap", "gradients", NULL};
static const char *const stages[] = {"raw", "scaled", "softcapped", "biased", "probs", NULL};

static const srv_field fill_fields[] = {
    {.name = "value",
     .kind = SRV_REAL,
     .offset = offsetof(srv_fill_input, value),
     .required = true,
     .doc = "The finite number, such as -1e9."},
    {.name = "mode",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_fill_input, mode),
     .choices = fill_modes,
     .required = true,
     .doc = "add: one float32 addition to the score; replace: instead of the score."},
    {0},
};

const srv_field srv_attention_fields[] = {
    {.name = "query",
     .kind = SRV_TENSOR,
     .offset = AT(query),
     .accepts = SRV_T_REAL,
     .required = true,
     .doc = "[L, E], [B, L, E], [B, H, L, E] or with more batch axes in front."},
    {.name = "key",
     .kind = SRV_TENSOR,
     .offset = AT(key),
     .accepts = SRV_T_REAL,
     .doc = "[.., Hkv, S, E], of the query's rank. Key and value left out: self-attention."},
    {.name = "value",
     .kind = SRV_TENSOR,
     .offset = AT(value),
     .accepts = SRV_T_REAL,
     .doc = "[.., Hkv, S, Ev], of the query's rank."},
    SRV_MASK_ROWS(srv_attention_body, mask),
    {.name = "attn_bias",
     .kind = SRV_TENSOR,
     .offset = AT(attn_bias),
     .accepts = SRV_T_REAL | SRV_T_NEGINF,
     .doc = "Added to the scores, whatever its values; broadcast to the shape of the weights, null "
            "standing for -infinity."},
    {.name = "mask_fill",
     .kind = SRV_OBJECT,
     .offset = AT(mask_fill),
     .fields = fill_fields,
     .doc = "A finite number for hidden cells instead of -infinity, for parity with code that does "
            "so. No cell then counts as hidden."},
    {.name = "is_causal",
     .kind = SRV_BOOL,
     .offset = AT(is_causal),
     .doc = "Query i sees the keys up to i + query_offset."},
    SRV_OFFSET_ROW(srv_attention_body, query_offset),
    {.name = "score",
     .kind = SRV_OBJECT,
     .offset = AT(score),
     .accepts = SRV_O_NAME,
     .fields = srv_score_fields,
     .doc = "How a query and a key become a score: a name, or an object with the parameters of the "
            "form, which all heads share."},
    {.name = "position",
     .kind = SRV_OBJECT,
     .offset = AT(position),
     .accepts = SRV_O_NAME,
     .fields = srv_position_fields,
     .init = srv_position_init,
     .doc =
         "How positions enter: query i sits at i + query_offset, key j at j. A name, or an object "
         "with the parameters of the kind."},
    {.name = "projections",
     .kind = SRV_OBJECT,
     .offset = AT(projections),
     .fields = srv_projections_fields,
     .doc = "Multi-head attention: query, key and value [.., L, D] go through linear maps, are "
            "split into heads and put together again. The weights come back for each head."},
    {.name = "sinks",
     .kind = SRV_TENSOR,
     .offset = AT(sinks),
     .accepts = SRV_T_REAL,
     .doc = "[Hq]: a logit a head that takes part in the softmax and gives no value."},
    {.name = "dropout_p",
     .kind = SRV_REAL,
     .offset = AT(dropout_p),
     .min = 0,
     .max = 1,
     .doc = "Weights are dropped with this probability before they meet the values, the others "
            "divided by 1 - p. Above 0 it needs seed. `weights` are those before dropout."},
    {.name = "seed",
     .kind = SRV_INT,
     .offset = AT(seed),
     .doc = "Which weights dropout_p drops, and which rows verify looks at."},
    {.name = "scale",
     .kind = SRV_UNION,
     .offset = AT(scale),
     .accepts = SRV_U_FALSE | SRV_U_NUMBER,
     .doc = "Multiplies the score; default 1/sqrt(E) for scaled_dot, 1 for the other scores; "
            "false = 1."},
    {.name = "softcap",
     .kind = SRV_REAL,
     .offset = AT(softcap),
     .min = 0,
     .max = DBL_MAX,
     .doc = "Scores become c * tanh(score / c) after scaling; 0 = off."},
    {.name = "past_key",
     .kind = SRV_TENSOR,
     .offset = AT(past_key),
     .accepts = SRV_T_REAL,
     .doc = "Cached keys [.., Hkv, P, E], in every layout, put in front of key."},
    {.name = "past_value",
     .kind = SRV_TENSOR,
     .offset = AT(past_value),
     .accepts = SRV_T_REAL,
     .doc = "Cached values [.., Hkv, P, Ev], in every layout, put in front of value."},
    {.name = "grad_output",
     .kind = SRV_TENSOR,
     .offset = AT(grad_output),
     .accepts = SRV_T_REAL,
     .doc = "The gradient of a loss in the output, of the output's shape: the answer's gradients "
            "are those in every floating-point input."},
    {.name = "layout",
     .kind = SRV_ENUM,
     .offset = AT(layout),
     .choices = layouts,
     .doc =
         "Order of the axes of query, key, value and output: BHLE (default), BLHE, or BLD (heads "
         "side by side in the last axis, with num_heads)."},
    {.name = "num_heads",
     .kind = SRV_INT,
     .offset = AT(num_heads),
     .min = 1,
     .max = 1048576,
     .doc = "Query heads of layout BLD."},
    {.name = "num_kv_heads",
     .kind = SRV_INT,
     .offset = AT(num_kv_heads),
     .min = 1,
     .max = 1048576,
     .doc = "Key and value heads of layout BLD; default num_heads."},
    {.name = "enable_gqa",
     .kind = SRV_BOOL,
     .offset = AT(enable_gqa),
     .doc = "Head counts decide on grouped-query attention; false makes unequal ones an error."},
    {.name = "precision",
     .kind = SRV_ENUM,
     .offset = AT(precision),
     .choices = precisions,
     .doc =
         "How exactly products are computed: fp32 (default), fast (errors up to 2e-5 of the value "
         "range, where that is quicker), or bf16 (queries, keys, values and the weights that meet "
         "the values rounded to bfloat16, sums in float32). Not with float64 tensors or "
         "grad_output."},
    {.name = "labels",
     .kind = SRV_OBJECT,
     .offset = AT(labels),
     .fields = srv_label_fields,
     .doc = "Names of queries and keys, for heatmaps and analyses."},
    {.name = "return",
     .kind = SRV_FLAGS,
     .offset = AT(items),
     .choices = items,
     .doc = "What to answer. Default: output, and weights while they hold at most 65,536 values."},
    {.name = "score_stage",
     .kind = SRV_ENUM,
     .offset = AT(score_stage),
     .choices = stages,
     .doc =
         "Which scores to answer: raw (q . k), scaled, softcapped, biased (default: what softmax "
         "sees, null where hidden) or probs."},
    {.name = "decimals",
     .kind = SRV_INT,
     .offset = AT(decimals),
     .min = 0,
     .max = 17,
     .doc =
         "Round the numbers of the answer to so many decimals; default: shortest text that reads "
         "back to the same number."},
    {.name = "allow_nonfinite",
     .kind = SRV_BOOL,
     .offset = AT(allow_nonfinite),
     .accepts = SRV_B_BEYOND,
     .doc = "Let NaN and infinity through instead of answering 422; null stands for each of them."},
    {.name = "explain",
     .kind = SRV_BOOL,
     .offset = AT(explain),
     .doc = "Add diagnostics: the mask in words, the kept share, offsets, sizes, kernel, cost."},
    {.name = "verify",
     .kind = SRV_INT,
     .offset = AT(verify),
     .min = 1,
     .max = 1000,
     .doc = "Compute so many random rows again in float64 and answer the largest differences as "
            "verification."},
    {.name = "store",
     .kind = SRV_BOOL,
     .offset = AT(store),
     .doc = "Keep what shaped the scores, to look at any part of the exact weights later: the "
            "answer's run names it for /v1/runs/{id}."},
    {.name = "dry_run",
     .kind = SRV_BOOL,
     .offset = AT(dry_run),
     .doc = "Compute nothing: answer the shapes, the mask in words, and what a run would cost."},
    {.name = "timeout_ms",
     .kind = SRV_INT,
     .offset = AT(timeout_ms),
     .min = 1,
     .max = 86400000,
     .doc = "Give up after this time, if that is sooner than the service would."},
    {.name = "analysis",
     .kind = SRV_FLAGS,
     .offset = AT(analysis),
     .choices = srv_analysis_items_run,
     .doc = "Measures and diagnoses of the weights, as POST /v1/analyses gives them; all = every "
            "one."},
    {.name = "heatmap",
     .kind = SRV_OBJECT,
     .offset = AT(heatmap),
     .fields = srv_heat_fields,
     .init = srv_heat_init,
     .doc = "What the heatmap holds; giving it asks for one."},
    {.name = "figure",
     .kind = SRV_OBJECT,
     .offset = AT(figure),
     .fields = srv_figure_fields,
     .init = srv_figure_init,
     .doc = "What a picture of the heatmap says and looks like; accepting one asks for it."},
    {0},
};

void srv_attention_init(srv_attention_body *body) {
    body->enable_gqa = true;
    body->layout = ATTN_BHLE;
    body->score_stage = ATTN_STAGE_BIASED;
    body->decimals = -1;
    srv_mask_input_init(&body->mask);
    srv_position_init(&body->position);
    srv_heat_init(&body->heatmap);
    srv_figure_init(&body->figure);
}
