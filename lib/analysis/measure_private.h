/* Declarations shared by measure.c and measure_rows.c: the plan made from shapes, the sums over a
 * block of rows, and one row. */
#ifndef ATTN_ANALYSIS_MEASURE_PRIVATE_H
#define ATTN_ANALYSIS_MEASURE_PRIVATE_H

#include "attn/analysis.h"

enum {
    ATTN_OFFSETS = 64, /* positional_offset is in -64 … 64 */
    ATTN_DIAGONALS = 2 * ATTN_OFFSETS + 1,
};

/* Links between keys with equal tokens, for duplicate_token and induction; SIZE_MAX: no such
 * key. */
typedef struct attn_equals {
    size_t *before; /* [S] the last key before key j with the same token */
    size_t *last;   /* [L] the last key j < t_i with the token of query i */
} attn_equals;

/* Links between keys of the same kind, for same_kind. The keys of each kind form a ring. SIZE_MAX:
 * no such key. */
typedef struct attn_kin {
    size_t *next;  /* [S] the next key of the kind, the first again after the last */
    size_t *entry; /* [L] any key of the query's kind */
} attn_kin;

typedef struct attn_measure_plan {
    const attn_measure_options *options;
    size_t B, H, L, S;
    size_t block;  /* rows in a piece of work */
    size_t pieces; /* pieces of work in a head */
    size_t wave;   /* pieces whose sums are in memory at a time */
    size_t lane_bytes, part_bytes, work_bytes, result_bytes;
} attn_measure_plan;

/* A mean as its sum and count. */
typedef struct attn_mean {
    double sum;
    uint64_t count;
} attn_mean;

/* Sums over the rows of a block, merged in the order of the blocks. */
typedef struct attn_measure_sums {
    uint64_t rows;
    double mass, weighted, looked; /* sums of p, p |t - j|, p (t - j) */
    attn_mean entropy, normalized, perplexity, participation, confidence, saturated;
    attn_mean local, first, sink_logit, duplicate, induction, kin, own_block, spread;
    double score_max;
    attn_mean diagonal[ATTN_DIAGONALS];
    uint64_t peak[ATTN_DIAGONALS]; /* rows whose largest weight lies at this offset */
    double class_mass[ATTN_CLASSES_MOST];
    double blocks[ATTN_SEGMENTS_MOST * ATTN_SEGMENTS_MOST];
    uint64_t segment_rows[ATTN_SEGMENTS_MOST];
    double *received;  /* [S] */
    uint64_t *seen_by; /* [S] rows that see the key */
} attn_measure_sums;

/* Sums of a block: of its weights, and of uniform attention over the keys that each row sees. */
typedef struct attn_measure_part {
    attn_measure_sums weights, uniform;
    uint64_t blind;
    double hidden; /* weight on hidden keys */
} attn_measure_part;

/* One row. p[j] is 0 if key j is hidden. */
typedef struct attn_measure_line {
    const double *p;
    const uint8_t *visible;
    size_t index, seen; /* i, n_i */
    size_t from, to;    /* all visible keys lie in [from, to) */
    int64_t at;         /* t_i */
    double mass, entropy;
    bool peaks; /* false for uniform attention, which has no largest weight */
} attn_measure_line;

typedef struct attn_measure_work {
    const attn_measure_plan *plan;
    const attn_weight_source *source;
    const attn_equals *equals; /* [token_batches] or NULL */
    const attn_kin *kin;       /* or NULL */
    struct attn_measure_lane *lanes;
    attn_measure_part *parts; /* [wave + 1]; the last one is the sum of a whole head */
    size_t first;             /* index of the first piece of the wave */
} attn_measure_work;

typedef struct attn_measure_lane {
    float *weights, *logits; /* [block, S] */
    double *p, *uniform;     /* [S] */
    uint8_t *visible;        /* [S] */
} attn_measure_lane;

/* Returns the head whose uniform attention equals that of (batch, head): an earlier head that sees
 * the same keys, or the head itself. */
size_t attn_analysis_uniform_of(const attn_measure_work *w, size_t batch, size_t head);

attn_status attn_analysis_measure_piece(void *ctx, size_t index, size_t lane, attn_error *err);

/* Links the equal tokens of one batch entry. `offset` is t_i - i. false: out of memory. */
bool attn_analysis_equals(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                          int64_t offset, attn_arena *arena, attn_equals *out);
bool attn_analysis_kin(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                       attn_arena *arena, attn_kin *out);

#endif
