/* The legend of an analysis: formula, range and paper of each number that the answer holds. */
#include "api/analyses/analyses_call.h"
#include "wire/answer.h"

static void put_paper(attn_json_text *j, const void *place) {
    const attn_measure_info *about = place;
    if (*about->paper)
        attn_json_string(j, about->paper);
}

const srv_field srv_legend_rows[] = {
    SRV_ALWAYS("formula", SRV_STRING, attn_measure_info, formula, "How the measure is computed."),
    SRV_ALWAYS("range", SRV_STRING, attn_measure_info, range, "Its smallest and largest value."),
    SRV_WRITTEN("paper", "string", put_paper, "Where it comes from."),
    {0},
};

void srv_analysis_legend(attn_json_text *j, const attn_measure_info *about) {
    attn_json_key(j, about->name);
    srv_answer_object(j, srv_legend_rows, about);
}

/* Returns whether at least one head has queries and keys of different sequences. */
static bool any_across(const srv_analysis *an) {
    for (size_t i = 0; i < an->measures.count; i++)
        if (an->measures.items[i].across)
            return true;
    return false;
}

void srv_analysis_put_legend(attn_json_text *j, const void *place) {
    const srv_analysis *an = place;
    static const attn_measure_info others[] = {
        {"num_rows", "rows that see a key and have weight; means are over these rows", "0 to L",
         ""},
        {"uniform",
         "the same measure if every row spreads its weight evenly over its visible keys, which "
         "shows the effect of the mask alone",
         "", ""},
        {"classes",
         "mass: mean of the sum of p_ij over keys j of the class; lift: mass / its value "
         "under uniform attention",
         "mass 0 to 1", "Clark et al. 2019, arXiv:1906.04341"},
        {"top_keys", "mass: sum over rows of p_ij; mean: over the rows that see the key",
         "mean 0 to 1", "Zhang et al. 2023, arXiv:2306.14048"},
        {"blocks", "[a][b]: mean over rows of segment a of the mass on keys of segment b", "0 to 1",
         "Kovaleva et al. 2019, arXiv:1908.08593"},
        {"js", "mean over rows of H((q + r)/2) - (H(q) + H(r))/2 of two heads' rows", "0 to ln 2",
         "Clark et al. 2019, arXiv:1906.04341"},
        {"cosine", "cosine of two heads' matrices as vectors", "-1 to 1",
         "Li et al. 2018, arXiv:1810.10183"},
        {"centered_cosine",
         "the same after the uniform attention of the mask is subtracted from both", "-1 to 1", ""},
        {"alignment",
         "a pattern of cross-attention. Either the mass within max(1, S / 8) keys of the line from "
         "the first query and key to the last is at least 0.6 and 1.5 times its uniform value. Or "
         "the keys of the largest weights never step back, except that two neighbouring rows may "
         "exchange two near keys (once in four rows), they go from the first quarter of the keys "
         "to "
         "the last on 0.8 of the keys, and the mean largest weight is at least 0.8 (0.85 with "
         "exchanges); rows of special tokens do not count",
         "", ""},
    };
    const bool uses[] = {true,
                         true,
                         srv_analysis_has(an, SRV_AN_CLASSES),
                         srv_analysis_has(an, SRV_AN_RECEIVED),
                         srv_analysis_has(an, SRV_AN_BLOCKS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PAIRS),
                         srv_analysis_has(an, SRV_AN_PATTERNS) && any_across(an)};
    attn_json_object(j);
    for (attn_measure m = 0; m < ATTN_MEASURES; m++)
        if (srv_analysis_shows(an, m))
            srv_analysis_legend(j, attn_measure_about(m));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (uses[i])
            srv_analysis_legend(j, &others[i]);
    attn_json_object_end(j);
}
