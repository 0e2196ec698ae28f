/* Describes each measure in words, for legends. */
#include "attn/analysis.h"

#define CLARK     "Clark et al. 2019, arXiv:1906.04341"
#define VOITA     "Voita et al. 2019, arXiv:1905.09418"
#define VIG       "Vig and Belinkov 2019, arXiv:1906.04284"
#define KOBAYASHI "Kobayashi et al. 2020, arXiv:2004.10102"
#define KOVALEVA  "Kovaleva et al. 2019, arXiv:1908.08593"

static const attn_measure_info about[ATTN_MEASURES] = {
    [ATTN_ENTROPY] = {"entropy",
                      "mean over rows of H_i = -sum_j q_ij ln q_ij, q_ij = p_ij / sum_j p_ij",
                      "0 to ln S nats", "Ghader and Monz 2017, arXiv:1710.03348; " CLARK},
    [ATTN_NORMALIZED_ENTROPY] = {"normalized_entropy",
                                 "mean of H_i / ln n_i over rows that see n_i > 1 keys", "0 to 1",
                                 "Ghader and Monz 2017, arXiv:1710.03348"},
    [ATTN_EFFECTIVE_TOKENS] = {"effective_tokens", "mean of exp(H_i)", "1 to S tokens", ""},
    [ATTN_PARTICIPATION] = {"participation", "mean of 1 / sum_j q_ij^2", "1 to S tokens", ""},
    [ATTN_CONFIDENCE] = {"confidence", "mean of max_j p_ij", "0 to 1", VOITA},
    [ATTN_SATURATED_ROWS] = {"saturated_rows",
                             "share of the rows with n_i > 1 whose max_j q_ij >= 0.99", "0 to 1",
                             ""},
    [ATTN_DISTANCE] = {"distance", "sum_ij p_ij |t_i - j| / sum_ij p_ij, t_i = i + query_offset",
                       "0 and more tokens", VIG},
    [ATTN_SIGNED_DISTANCE] = {"signed_distance",
                              "sum_ij p_ij (t_i - j) / sum_ij p_ij; above 0 looks back", "tokens",
                              VIG},
    [ATTN_RELATIVE_DISTANCE] = {"relative_distance",
                                "distance / its value under uniform attention with the same mask",
                                "0 and more", ""},
    [ATTN_PREVIOUS_TOKEN] =
        {"previous_token",
         "mean of p_i,t_i-1 over rows where that key exists; with current_token "
         "and next_token it need not add to 1, as their rows differ",
         "0 to 1", CLARK},
    [ATTN_CURRENT_TOKEN] = {"current_token", "mean of p_i,t_i over rows where that key exists",
                            "0 to 1", CLARK},
    [ATTN_NEXT_TOKEN] = {"next_token", "mean of p_i,t_i+1 over rows where that key exists",
                         "0 to 1", CLARK},
    [ATTN_POSITIONAL_OFFSET] = {"positional_offset",
                                "k where j - t_i of the row's largest weight lies most often",
                                "-64 to 64 tokens", VOITA},
    [ATTN_POSITIONAL_SHARE] = {"positional_share",
                               "share of the rows whose largest weight lies at that offset; a "
                               "positional head has >= 0.9",
                               "0 to 1", VOITA},
    [ATTN_POSITIONAL_MASS] = {"positional_mass",
                              "mean of p_i,t_i+k over rows where that key exists", "0 to 1",
                              "Raganato and Tiedemann 2018"},
    [ATTN_LOCAL_MASS] = {"local_mass", "mean of the sum of p_ij over |t_i - j| <= radius", "0 to 1",
                         KOVALEVA},
    [ATTN_FIRST_TOKEN] = {"first_token", "mean of p_i0 over rows with t_i > 0", "0 to 1",
                          "Xiao et al. 2023, arXiv:2309.17453"},
    [ATTN_SINK] = {"sink",
                   "largest alpha_k = mean of p_ik over the rows that see key k, of the keys that "
                   "half of the rows see; a sink has > 0.3",
                   "0 to 1", "Gu et al. 2024, arXiv:2410.10781"},
    [ATTN_SINK_KEY] = {"sink_key", "that k", "0 to S - 1", "Gu et al. 2024, arXiv:2410.10781"},
    [ATTN_SINK_LOGIT_MASS] = {"sink_logit_mass",
                              "mean of max(0, 1 - sum_j p_ij): held by a sink logit", "0 to 1", ""},
    [ATTN_TOP_SHARE] = {"top_share",
                        "share of all mass that the ceil(S/5) most attended keys receive", "0 to 1",
                        "Zhang et al. 2023, arXiv:2306.14048"},
    [ATTN_GINI] = {"gini", "Gini coefficient of the mass received by the keys that any row sees",
                   "0 to 1", ""},
    [ATTN_DUPLICATE_TOKEN] = {"duplicate_token",
                              "mean of the sum of p_ij over j < t_i with token_j = token_i, over "
                              "rows that have such a key",
                              "0 to 1", "TransformerLens, head detector"},
    [ATTN_INDUCTION] = {"induction",
                        "mean of the sum of p_ij over j <= t_i with token_(j-1) = token_i, over "
                        "rows that have such a key",
                        "0 to 1", "Olsson et al. 2022, arXiv:2209.11895"},
    [ATTN_SAME_KIND] = {"same_kind",
                        "mean of the sum of p_ij over j != t_i of the row's own kind (a class, or "
                        "the same word), over rows that have such a key",
                        "0 to 1", ""},
    [ATTN_BLOCK_MASS] = {"block_mass", "mean of the sum of p_ij over keys of the row's own segment",
                         "0 to 1", KOVALEVA},
    [ATTN_MEASURE_SCORE_SPREAD] =
        {"score_spread",
         "mean over rows with n_i > 1 of the standard deviation of the scores "
         "before softmax, over the keys that are seen",
         "0 and more", ""},
    [ATTN_MEASURE_SCORE_MAX] = {"score_max", "largest score before softmax", "any number",
                                "Zhai et al. 2023, arXiv:2303.06296"},
    [ATTN_VALUE_NORM] = {"value_norm",
                         "mean of sum_j c_ij, c_ij = ||p_ij v_j||, or ||p_ij v_j W_o^h|| with "
                         "projections",
                         "0 and more", KOBAYASHI},
    [ATTN_VALUE_ENTROPY] = {"value_entropy",
                            "mean of -sum_j r_ij ln r_ij, r_ij = c_ij / sum_j c_ij",
                            "0 to ln S nats", KOBAYASHI},
    [ATTN_VALUE_FIRST_TOKEN] = {"value_first_token",
                                "mean of r_i0 over rows with t_i > 0: far below first_token, the "
                                "first token is a sink with a short value",
                                "0 to 1", KOBAYASHI},
};

const attn_measure_info *attn_measure_about(attn_measure measure) {
    return (unsigned)measure < ATTN_MEASURES ? &about[measure] : NULL;
}

const char *attn_analysis_caveat(void) {
    return "Weights say where a head looked, not why the model answered as it did: they are not an "
           "explanation by themselves (Jain and Wallace 2019, arXiv:1902.10186; Wiegreffe and "
           "Pinter 2019, arXiv:1908.04626).";
}
