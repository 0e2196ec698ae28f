/* The field table of POST /v1/attention. */
#include <float.h>
#include <stddef.h>

#include "attention_call.h"

#define AT(member) offsetof(srv_attention_body, member)

static const char *const fill_modes[] = {"add", "replace", NULL};
static const char *const layouts[] = {"BHLE", "BLHE", "BLD", NULL};
static const char *const items[] = {"output",  "weights", "logsumexp", "scores",
                                    "present", "heatmap", NULL};
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
    {.name = "scale",
     .kind = SRV_UNION,
     .offset = AT(scale),
     .accepts = SRV_U_BOOL | SRV_U_NUMBER,
     .doc = "Multiplies q . k; default 1/sqrt(E); false = 1."},
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
    {.name = "labels",
     .kind = SRV_OBJECT,
     .offset = AT(labels),
     .fields = srv_label_fields,
     .doc = "Names of queries and keys, for heatmaps."},
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
     .doc = "Let NaN and infinity through instead of answering 422; null stands for each of them."},
    {.name = "explain",
     .kind = SRV_BOOL,
     .offset = AT(explain),
     .doc = "Add diagnostics: the mask in words, the kept share, offsets, sizes, kernel, cost."},
    {.name = "timeout_ms",
     .kind = SRV_INT,
     .offset = AT(timeout_ms),
     .min = 1,
     .max = 86400000,
     .doc = "Give up after this time, if that is sooner than the service would."},
    {.name = "heatmap",
     .kind = SRV_OBJECT,
     .offset = AT(heatmap),
     .fields = srv_heat_fields,
     .init = srv_heat_init,
     .doc = "What the heatmap holds; giving it asks for one."},
    {0},
};

void srv_attention_init(srv_attention_body *body) {
    *body = (srv_attention_body){
        .enable_gqa = true, .layout = ATTN_BHLE, .score_stage = ATTN_STAGE_BIASED, .decimals = -1};
    srv_mask_input_init(&body->mask);
    srv_heat_init(&body->heatmap);
}
