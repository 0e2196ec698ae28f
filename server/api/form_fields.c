/* The tables of score, position, pattern and projections. */
#include <float.h>
#include <stddef.h>

#include "api/form_input.h"

#define NAME(name) #name,
static const char *const score_kinds[] = {ATTN_SCORE_FORMS(NAME) NULL};
static const char *const position_kinds[] = {"alibi", "t5", "relative", "shaw", "rotary", NULL};
static const char *const pattern_kinds[] = {"local", "strided", "block", "global", NULL};
const char *const srv_pair_layouts[] = {"interleaved", "halves", NULL};

#define NUMBERS(type, field, text)                                                                 \
    {                                                                                              \
        .name = #field, .kind = SRV_TENSOR, .offset = offsetof(type, field),                       \
        .accepts = SRV_T_REAL, .doc = text                                                         \
    }
#define COUNT(type, field, least, most, text)                                                      \
    {                                                                                              \
        .name = #field, .kind = SRV_INT, .offset = offsetof(type, field), .min = least,            \
        .max = most, .doc = text                                                                   \
    }
#define KIND(type, names, text)                                                                    \
    {                                                                                              \
        .name = "kind", .kind = SRV_ENUM, .offset = offsetof(type, kind), .choices = names,        \
        .required = true, .doc = text                                                              \
    }

#define FARTHEST 1099511627776.0 /* 2^40, as the library */
#define HEADS    1048576

const srv_field srv_score_fields[] = {
    KIND(srv_score_input, score_kinds,
         "scaled_dot (q . k / sqrt(E), the default), dot (q . k), additive (v . tanh(W_q q + W_k k "
         "+ b)), general (k . (W q)) or concat (v . tanh(W [k ; q]))."),
    NUMBERS(srv_score_input, w_q, "additive: W_q [A, Eq]."),
    NUMBERS(srv_score_input, w_k, "additive: W_k [A, Ek]."),
    NUMBERS(srv_score_input, b, "additive: b [A], optional."),
    NUMBERS(srv_score_input, v, "additive and concat: v [A]."),
    NUMBERS(srv_score_input, w, "general: W [Ek, Eq]; concat: W [A, Ek + Eq]."),
    {0},
};

const srv_field srv_position_fields[] = {
    KIND(
        srv_position_input, position_kinds,
        "alibi, t5 and relative add a bias by distance; shaw adds a learned vector to the key (and "
        "value) of each distance; rotary turns query and key."),
    NUMBERS(srv_position_input, slopes, "alibi: one slope a head [H]; default those of the paper."),
    NUMBERS(srv_position_input, table,
            "t5: [buckets, H]; relative: [H, 2m + 1], for distances -m to m, clipped beyond."),
    COUNT(srv_position_input, max_distance, 1, 1048576,
          "t5: distances from here on share the last bucket; default 128."),
    {.name = "bidirectional",
     .kind = SRV_BOOL,
     .offset = offsetof(srv_position_input, bidirectional),
     .doc = "t5: half of the buckets are for keys behind the query (default true); false: buckets "
            "for the past only."},
    NUMBERS(srv_position_input, key_table, "shaw: [2m + 1, E], added to the key by distance."),
    NUMBERS(srv_position_input, value_table,
            "shaw: [2m + 1, Ev], added to the value by distance; optional."),
    {.name = "layout",
     .kind = SRV_ENUM,
     .offset = offsetof(srv_position_input, layout),
     .choices = srv_pair_layouts,
     .doc = "rotary, required: which coordinates form a pair, interleaved (0 and 1, 2 and 3, ..) "
            "or halves (0 and dims/2, ..)."},
    {.name = "base",
     .kind = SRV_REAL,
     .offset = offsetof(srv_position_input, base),
     .min = 1,
     .max = DBL_MAX,
     .doc = "rotary: pair t turns by position * base^(-2t/dims); default 10000."},
    COUNT(srv_position_input, dims, 2, FARTHEST,
          "rotary: how many leading coordinates turn, an even number; default all."),
    {0},
};

const srv_field srv_pattern_fields[] = {
    KIND(srv_pattern_input, pattern_kinds,
         "local (keys within radius), strided (every stride-th key, and those within local), block "
         "(keys of the query's block of size) or global (the first keys see and are seen by all, "
         "and those within local)."),
    COUNT(srv_pattern_input, radius, 0, FARTHEST, "local: how many keys on either side."),
    COUNT(srv_pattern_input, stride, 1, FARTHEST, "strided: the distance between keys."),
    COUNT(srv_pattern_input, size, 1, FARTHEST, "block: how many positions form a block."),
    COUNT(srv_pattern_input, keys, 0, FARTHEST, "global: how many first positions are global."),
    COUNT(srv_pattern_input, local, 0, FARTHEST,
          "strided and global: how many keys on either side."),
    {0},
};

const srv_field srv_projections_fields[] = {
    NUMBERS(srv_projections_input, w_q,
            "[Hq * E, D] as torch.nn.Linear.weight; left out: the query as it is."),
    NUMBERS(srv_projections_input, b_q, "[Hq * E], a bias that goes with w_q."),
    NUMBERS(srv_projections_input, w_k, "[Hkv * E, D]; left out: the key as it is."),
    NUMBERS(srv_projections_input, b_k, "[Hkv * E], a bias that goes with w_k."),
    NUMBERS(srv_projections_input, w_v, "[Hkv * Ev, D]; left out: the value as it is."),
    NUMBERS(srv_projections_input, b_v, "[Hkv * Ev], a bias that goes with w_v."),
    NUMBERS(srv_projections_input, w_o,
            "[Do, Hq * Ev], after the heads; left out: the heads side by side."),
    NUMBERS(srv_projections_input, b_o, "[Do], a bias that goes with w_o."),
    {.name = "num_heads",
     .kind = SRV_INT,
     .offset = offsetof(srv_projections_input, num_heads),
     .min = 1,
     .max = HEADS,
     .required = true,
     .doc = "Query heads that the projected width is split into."},
    COUNT(srv_projections_input, num_kv_heads, 1, HEADS, "Key and value heads; default num_heads."),
    {.name = "add_positions",
     .kind = SRV_BOOL,
     .offset = offsetof(srv_projections_input, add_positions),
     .doc = "Add sinusoidal positions (interleaved) to query, key and value first."},
    {0},
};

void srv_position_init(void *input) {
    *(srv_position_input *)input = (srv_position_input){.bidirectional = true, .layout = -1};
}
