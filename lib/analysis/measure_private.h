/* Declarations that measure.c and measure_rows.c share: sizes that follow from options and shapes,
 * the sums over a block of rows, and what is known of the row that is measured. t_i is the key
 * position of query i (attn/analysis.h). */
#ifndef ATTN_ANALYSIS_MEASURE_PRIVATE_H
#define ATTN_ANALYSIS_MEASURE_PRIVATE_H

#include "attn/analysis.h"
#include "kernels/row_scan.h"

enum {
    ATTN_OFFSETS = 64, /* positional_offset is from -64 to 64 */
    ATTN_DIAGONALS = 2 * ATTN_OFFSETS + 1,
};

/* Lists of keys, linked by `next`: one list for each token, or one for each kind. SIZE_MAX: no key.
 *   - A list of equal tokens (for duplicate_token and induction) goes from later to earlier keys.
 *     next[j] is the last key before j with the same token, and entry[i] the last key before t_i
 *     with the token of query i.
 *   - A list of a kind (for same_kind) is a ring. next[j] is the next key of the same kind, or the
 *     first one after the last, and entry[i] is any key of the kind of query i. */
typedef struct attn_links {
    size_t *next;  /* [S] */
    size_t *entry; /* [L] */
} attn_links;

/* A token and the key that has it. */
typedef struct attn_token_place {
    int64_t token;
    size_t key;
} attn_token_place;

/* Sizes that follow from options and shapes. */
typedef struct attn_measure_plan {
    const attn_measure_options *options;
    size_t B, H, L, S;
    size_t block;  /* rows in a piece of work */
    size_t pieces; /* pieces of work for each head */
    size_t wave;   /* pieces whose sums are in memory together */
    size_t work_bytes, result_bytes;
} attn_measure_plan;

/* The rows and keys of a batch entry that are no padding. */
typedef struct attn_measure_entry {
    size_t row, row_end; /* rows outside of [row, row_end) are padding */
    size_t key, key_end; /* keys outside of [key, key_end) are padding */
    size_t keys;         /* number of keys that are no padding */
    bool across;         /* queries and keys are two sequences, as in attn_measure_options */
} attn_measure_entry;

/* A mean while it is summed. */
typedef struct attn_mean {
    double sum;
    uint64_t count;
} attn_mean;

/* Sums over the rows of a block. Blocks are merged in order. */
typedef struct attn_measure_sums {
    uint64_t rows;   /* number of rows that have weight */
    double mass;     /* sum of the weights p_ij */
    double weighted; /* sum of p_ij |t_i - j| */
    double looked;   /* sum of p_ij (t_i - j) */
    /* the measures that are means over rows; the other elements are empty */
    attn_mean means[ATTN_MEASURES];
    attn_mean aligned;                  /* weight near the line (attn_head_measures.aligned) */
    double score_max;                   /* largest score before softmax */
    attn_mean diagonal[ATTN_DIAGONALS]; /* [offset + 64] weight at this offset */
    uint64_t peak[ATTN_DIAGONALS]; /* [offset + 64] rows whose largest weight is at this offset */
    double class_mass[ATTN_CLASSES_MOST]; /* sum of the weights on the keys of each class */
    /* [segment_count, segment_count] sum of the weights, by segments of query and key */
    double blocks[ATTN_SEGMENTS_MOST * ATTN_SEGMENTS_MOST];
    uint64_t segment_rows[ATTN_SEGMENTS_MOST]; /* rows in each segment */
    double *received;                          /* [S] sum of the weights on each key */
    uint64_t *seen_by;                         /* [S] rows that see the key */
} attn_measure_sums;

/* The sums of a block: for its weights, and for uniform attention over the keys that each row
 * sees. */
typedef struct attn_measure_part {
    attn_measure_sums weights, uniform;
    /* [rows] the key of each row's largest weight; SIZE_MAX: the row has no weight */
    size_t *peaks;
    uint64_t blind; /* rows without a weight */
    double hidden;  /* sum of the weights on hidden keys */
} attn_measure_part;

/* One row. */
typedef struct attn_measure_line {
    const double *p;        /* [S] the weights, 0 for hidden keys */
    const uint8_t *visible; /* [S] 1 for keys that the row sees */
    const uint8_t *padding; /* [S] 1 for keys that are padding; NULL: none is */
    size_t first;           /* the first key that is no padding */
    size_t index;           /* index i of the query */
    size_t seen;            /* number n_i of visible keys */
    size_t from, to;        /* all visible keys are in [from, to) */
    int64_t at;             /* key position t_i of the query */
    double entropy;         /* H_i in nats */
    /* scan of p and j - t_i; its mass is the sum s_i of the row's weights */
    attn_weight_scan scan;
    attn_logit_scan scores; /* scan of the row's logits, if the source has logits */
    const double *norms;    /* [S] norms of the head's values; NULL: not known */
    bool peaks;             /* the row has a largest weight; false for uniform attention */
} attn_measure_line;

/* Returns the number of rows that kind_batches or class_batches stands for: 0 counts as 1. */
static inline size_t attn_measure_batches(size_t batches) {
    return batches ? batches : 1;
}

/* Data that all pieces of a call share. */
typedef struct attn_measure_work {
    const attn_measure_plan *plan;
    const attn_weight_source *source;
    const attn_control *control;
    attn_links *equals;          /* [token_batches]; NULL: no tokens */
    attn_links *kin;             /* [kind_batches]; NULL: no kinds */
    attn_token_place *sorted;    /* [S] working memory while keys are linked */
    attn_measure_entry *entries; /* [B] */
    struct attn_measure_lane *lanes;
    /* [wave + 1]: piece i adds to part i modulo wave; the last part has the sums of a whole head */
    attn_measure_part *parts;
    double *received; /* [S] working memory of finish_received */
    attn_measures out;
} attn_measure_work;

/* Scratch memory of one thread. */
typedef struct attn_measure_lane {
    float *weights, *logits; /* [block, S] */
    double *p, *uniform;     /* [S] each: a row of weights, and of uniform attention */
    uint8_t *visible;        /* [S] which keys the row sees */
} attn_measure_lane;

/* Returns the number of a head, counted in all batch entries, that has the same uniform attention
 * as (batch, head): an earlier head that sees the same keys, or this head itself. */
size_t attn_analysis_uniform_of(const attn_measure_work *w, size_t batch, size_t head);

/* Computes piece `index` of an attn_sweep; `work` is an attn_measure_work. */
attn_status attn_analysis_measure_piece(void *work, size_t index, size_t lane, attn_error *err);

/* Links keys with equal tokens of one batch entry. `offset` is t_i - i; `sorted` [S] is working
 * memory. */
void attn_analysis_link_equals(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                               int64_t offset, attn_token_place *sorted, attn_links *out);
/* Links keys of equal kind to rings (attn_links). A query of a negative kind has no entry. */
void attn_analysis_link_kin(const int64_t *queries, size_t L, const int64_t *keys, size_t S,
                            attn_token_place *sorted, attn_links *out);

#endif
