/* The operation that a request describes: query, key and value with masks, positions, projections
 * and the other fields of POST /v1/attention up to `precision`. Any route that needs an operation
 * has SRV_OPERATION_ROWS in its field table and a srv_operation in its decoded struct. */
#ifndef SRV_OPERATION_API_H
#define SRV_OPERATION_API_H

#include <float.h>

#include "api/common/form_input.h"
#include "api/common/mask_input.h"
#include "api/common/warnings.h"

typedef struct srv_operation {
    /* The inputs of the library. The decoder writes most fields directly into them, and
     * srv_operation_settle computes in.scale, in.mask and in.one_query from the members below. */
    attn_inputs in;
    attn_projections projections; /* num_heads is 0 if the request has no projections */
    srv_given_bits fill_given, score_given, normalizer_given, mix_given, subtract_given;
    srv_given_bits projections_given;
    srv_objects position; /* array of srv_position_item */
    attn_tensor attn_bias, grad_output;
    /* In a ragged batch, query, key and value are lists of tensors of different length, or packed
     * tensors with the lengths of the entries or with cumulative sums of the lengths. Only POST
     * /v1/attention accepts them (attention_ragged.c). */
    srv_entries query_entries, key_entries, value_entries;
    srv_entries grad_output_entries, grad_logsumexp_entries;                /* likewise */
    srv_entries bias_entries, query_position_entries, key_position_entries; /* likewise */
    srv_entries past_key_entries, past_value_entries;                       /* likewise */
    bool is_entry; /* the operation of entry number `entry` of a ragged batch */
    size_t entry;
    attn_tensor query_lengths, cu_seqlens;
    attn_tensor block_table; /* rank 0: key and value are not pools of blocks */
    attn_block_layout block_layout;
    srv_mask_input mask;
    bool is_causal, mask_positions;
    srv_union query_offset, scale;

    /* The following members are set by srv_operation_settle. */
    /* The inputs of the attention operation. This is &in or, if the request has projections or a
     * block_table, the projected or gathered inputs. Before srv_operation_open, projected and
     * gathered inputs have no data. */
    attn_inputs *shaped;
    attn_attention_dims dims;  /* dims of `shaped` */
    size_t parameters;         /* number of elements of all parameters */
    size_t gathered;           /* bytes of keys and values that block_table gathers */
    bool valueless;            /* the request has keys without values, so there is no output */
    bool seeded;               /* the projections are drawn from a seed before they are used */
    bool bias_axis, mask_axis; /* the query, and also attn_bias or attn_mask, came without axis L */
    /* The indices of the items of `position` that became in.position and in.score_position. */
    size_t position_item, score_item;
    int extra_axes; /* number of axes of length 1 that a mask adds in front of the results */
} srv_operation;

void srv_operation_init(srv_operation *o); /* sets the defaults in a zeroed operation */
/* Returns whether the request has keys but no values. Such a request can have no output. */
bool srv_operation_lacks_value(const srv_scope *scope);
/* Checks that the fields that were sent fit together. false: a problem is set. */
bool srv_operation_check(const srv_operation *o, const srv_scope *scope);
/* Completes the inputs and sets the shapes. Computes no element. `scope` is the scope of the
 * decoded struct. false: a problem is set. */
bool srv_operation_settle(srv_operation *o, const srv_scope *scope);
/* Return whether the request has a ragged batch, whose entries are operations of their own, and
 * whether the tensors of this batch are packed: the rows of all entries one after the other. */
bool srv_operation_is_ragged(const srv_operation *o);
bool srv_operation_is_packed(const srv_operation *o);
/* If err->where has a name of the library, replaces it with the name of the field in the
 * request. */
void srv_operation_where(const srv_operation *o, attn_error *err);
/* Draws the projections if they have a seed, projects the inputs, creates the operation of the
 * library in *out, and adds warnings about its mask and position. Returns the status of the first
 * step that fails, with *err set. */
attn_status srv_operation_open(srv_operation *o, srv_request *req, srv_warnings *warnings,
                               attn_attention **out, attn_error *err);

/* Returns the block_table and its lengths, for the library. Without a block_table, the rank is
 * 0. */
attn_pages srv_operation_pages(const srv_operation *o);

extern const char srv_ragged_rows[]; /* srv_field.ragged of query, key and value */

/* The members of the rows of query, key and value that let these fields accept lists. The items of
 * a list are stored in `list`. */
#define SRV_OPERAND(T, at, list)                                                                   \
    .accepts = SRV_T_REAL | SRV_T_LATE | SRV_T_ENTRIES, .entries = offsetof(T, at.list),           \
    .ragged = srv_ragged_rows

/* The row of a field whose name is that of its member of attn_inputs. */
#define SRV_INPUT_ROW(T, at, member, type, text, ...)                                              \
    SRV_NAMED_ROW(T, #member, at.in.member, type, text, __VA_ARGS__)

/* Rows for the field table of struct T, whose member `at` is a srv_operation. The row of
 * allow_nonfinite has its own macro, so that a route can place it after other rows. */
#define SRV_OPERATION_ROWS(T, at)                                                                  \
    SRV_INPUT_ROW(T, at, query, SRV_TENSOR,                                                        \
                  "[L, E], [B, L, E], [B, H, L, E] or with more batch axes in front. A list of "   \
                  "batch entries with lengths of their own is a ragged batch.",                    \
                  .required = true, SRV_OPERAND(T, at, query_entries)),                            \
        SRV_INPUT_ROW(T, at, key, SRV_TENSOR,                                                      \
                      "[.., Hkv, S, E], with the rank of query. Without key and value the "        \
                      "request is self-attention.",                                                \
                      SRV_OPERAND(T, at, key_entries)),                                            \
        SRV_INPUT_ROW(T, at, value, SRV_TENSOR,                                                    \
                      "[.., Hkv, S, Ev], with the rank of query. With key and without value "      \
                      "there is no output: the answer holds the weights.",                         \
                      SRV_OPERAND(T, at, value_entries)),                                          \
        SRV_NAMED_ROW(T, "query_lengths", at.query_lengths, SRV_TENSOR,                            \
                      "[B]: query, key and value are packed, [sum of L, H, E] or [sum of L, D], "  \
                      "and batch entry b has so many rows of query. key_lengths is then the same " \
                      "for key and value; its default is query_lengths.",                          \
                      .accepts = SRV_T_INT),                                                       \
        SRV_NAMED_ROW(T, "cu_seqlens", at.cu_seqlens, SRV_TENSOR,                                  \
                      "[B + 1] or [2, B + 1], for packed tensors in place of query_lengths and "   \
                      "key_lengths: sums of lengths, of queries and keys alike or of queries and " \
                      "then of keys. Batch entry b has the rows from cu_seqlens[b] to "            \
                      "cu_seqlens[b + 1] - 1.",                                                    \
                      .accepts = SRV_T_INT),                                                       \
        SRV_MASK_ROWS(T, at.mask, SRV_BY_ENTRY_LISTS),                                             \
        SRV_NAMED_ROW(T, "attn_bias", at.attn_bias, SRV_TENSOR,                                    \
                      "A bias that is added to the scores and broadcast to the shape of the "      \
                      "weights; null and -Infinity stand for -infinity.",                          \
                      .accepts = SRV_T_REAL | SRV_T_NEGINF | SRV_BY_ENTRY_LISTS,                   \
                      .entries = offsetof(T, at.bias_entries)),                                    \
        SRV_FILL_ROW(                                                                              \
            T, at.in.mask, at.fill_given,                                                          \
            "A finite number in place of -infinity in hidden cells, for parity with code that "    \
            "does so. No cell then counts as hidden. A number alone, such as -1e9, is added to "   \
            "the scores. It must fit float32, except for float64 inputs."),                        \
        SRV_NAMED_ROW(T, "is_causal", at.is_causal, SRV_BOOL,                                      \
                      "Query i sees the keys up to i + query_offset."),                            \
        SRV_OFFSET_ROW(T, at.query_offset),                                                        \
        SRV_INPUT_ROW(                                                                             \
            T, at, score, SRV_OBJECT,                                                              \
            "The score function of a query and a key: a name, or an object with its parameters, "  \
            "which all heads share. With key and another score than scaled_dot query may be [B, "  \
            "E], one for each sequence of keys, as the state of a decoder is; output [B, Ev], "    \
            "weights [B, S] and gradients then lack the axis L, too.",                             \
            .accepts = SRV_O_NAME, .fields = srv_score_fields,                                     \
            .given = offsetof(T, at.score_given)),                                                 \
        SRV_NAMED_ROW(T, "position", at.position, SRV_OBJECTS,                                     \
                      "The position encoding: a name, or an object with its parameters, or a "     \
                      "list of two: one that changes queries and keys (rotary, sinusoidal, "       \
                      "learned) and one that changes scores (alibi, t5, relative, shaw, "          \
                      "disentangled). Query i "                                                    \
                      "has position i + query_offset, and key j has position j. Warnings name "    \
                      "what is probably not meant: unequal numbers of queries and keys without "   \
                      "an offset (position_start), an offset other than the length of the cache "  \
                      "(position_offset), padding on the left with sinusoidal or learned "         \
                      "(position_padding), siblings in the mask of a draft tree (position_tree).", \
                      .accepts = SRV_O_NAME | SRV_O_SINGLE, .fields = srv_position_fields,         \
                      .size = sizeof(srv_position_item), .max = 2),                                \
        SRV_INPUT_ROW(T, at, query_positions, SRV_TENSOR,                                          \
                      "[L] or [B, L]: the position of each query for `position`, in any order; "   \
                      "null = not encoded. The default is i + query_offset. Masks count rows, or " \
                      "with mask_positions compare these positions.",                              \
                      .accepts = SRV_T_INT | SRV_T_NONE | SRV_BY_ENTRY_LISTS,                      \
                      .entries = offsetof(T, at.query_position_entries)),                          \
        SRV_INPUT_ROW(T, at, key_positions, SRV_TENSOR,                                            \
                      "[S] or [B, S]: the position of each key, cached ones first; null = not "    \
                      "encoded. The default is j.",                                                \
                      .accepts = SRV_T_INT | SRV_T_NONE | SRV_BY_ENTRY_LISTS,                      \
                      .entries = offsetof(T, at.key_position_entries)),                            \
        SRV_NAMED_ROW(T, "mask_positions", at.mask_positions, SRV_BOOL,                            \
                      "true: is_causal, window, pattern and prefix_lengths compare "               \
                      "query_positions and key_positions instead of counting rows. A key at null " \
                      "(a sink) is seen by every query, and a query at null (a register) sees "    \
                      "every key. document_ids, parents and key_lengths count rows."),             \
        SRV_NAMED_ROW(T, "projections", at.projections, SRV_OBJECT,                                \
                      "Multi-head attention: query, key and value [.., L, D] are projected by "    \
                      "linear maps and split into heads, whose outputs are concatenated. The "     \
                      "weights are [B, H, L, S]; masks and heatmaps refer to these heads.",        \
                      .fields = srv_projections_fields,                                            \
                      .given = offsetof(T, at.projections_given)),                                 \
        SRV_INPUT_ROW(T, at, normalizer, SRV_OBJECT,                                               \
                      "What makes weights of the scores: a name, or an object with its "           \
                      "parameters. The weights of sigmoid, relu and relu_squared do not sum to 1 " \
                      "and take no sinks. Only softmax has a logsumexp; it is null with others.",  \
                      .accepts = SRV_O_NAME, .fields = srv_normalizer_fields,                      \
                      .given = offsetof(T, at.normalizer_given)),                                  \
        SRV_INPUT_ROW(T, at, mix, SRV_OBJECT,                                                      \
                      "Talking heads (Shazeer et al. 2020): logits mixes the scores of all heads " \
                      "before the softmax, and weights their weights after it. logits: only with " \
                      "the scores scaled_dot and dot, and not with the positions shaw and "        \
                      "disentangled; a score takes the time of Hkv scores. weights: an output "    \
                      "takes the time of as many outputs as there are value heads.",               \
                      .fields = srv_mix_fields, .given = offsetof(T, at.mix_given)),               \
        SRV_INPUT_ROW(T, at, subtract, SRV_OBJECT,                                                 \
                      "Differential attention (Ye et al. 2024): the weights of each output head "  \
                      "are those of the first head of a pair less lambda times those of the "      \
                      "second. Output, weights and maps have Hq/2 heads; their number is a "       \
                      "multiple of that of value heads, which may be wider than keys. In layout "  \
                      "BLD there are num_kv_heads/2 value heads. Not with mix.weights.",           \
                      .fields = srv_subtract_fields, .given = offsetof(T, at.subtract_given)),     \
        SRV_INPUT_ROW(                                                                             \
            T, at, sinks, SRV_TENSOR,                                                              \
            "[Hq], or a shape that is broadcast to that of the logsumexp, as [1, L] or [Hq, L]. "  \
            "One more logit for each row; it takes part in the softmax and has no value.",         \
            .accepts = SRV_T_REAL),                                                                \
        SRV_INPUT_ROW(T, at, dropout_p, SRV_REAL,                                                  \
                      "Weights are dropped with this probability before they multiply the "        \
                      "values, and the others are divided by 1 - p. A value above 0 needs seed. "  \
                      "`weights` holds the weights before dropout.",                               \
                      .max = 1, .below = true),                                                    \
        SRV_NAMED_ROW(T, "seed", at.in.dropout_seed, SRV_INT,                                      \
                      "Seed that selects the weights that dropout_p drops and the rows that "      \
                      "verify checks."),                                                           \
        SRV_NAMED_ROW(T, "scale", at.scale, SRV_UNION,                                             \
                      "A factor of the score; default 1/sqrt(E) for scaled_dot, 1 for the other "  \
                      "scores; true = the default, false = 1. A tensor has a factor for each row " \
                      "of scores: [Hq], or a shape that is broadcast to that of the logsumexp, "   \
                      "as [1, L] or [Hq, L].",                                                     \
                      .accepts = SRV_U_TRUE | SRV_U_FALSE | SRV_U_NUMBER | SRV_U_TENSOR),          \
        SRV_INPUT_ROW(T, at, softcap, SRV_REAL,                                                    \
                      "Scores become c * tanh(score / c) after scaling; 0 = off.",                 \
                      .max = DBL_MAX),                                                             \
        SRV_INPUT_ROW(T, at, past_key, SRV_TENSOR,                                                 \
                      "Cached keys [.., Hkv, P, E], in every layout. They precede key, and S "     \
                      "counts them in masks and weights. rotary does not rotate them. Caches of "  \
                      "batch entries that differ in P make a ragged batch.",                       \
                      SRV_OPERAND(T, at, past_key_entries)),                                       \
        SRV_INPUT_ROW(T, at, past_value, SRV_TENSOR,                                               \
                      "Cached values [.., Hkv, P, Ev], in every layout. They precede value.",      \
                      SRV_OPERAND(T, at, past_value_entries)),                                     \
        SRV_NAMED_ROW(T, "block_table", at.block_table, SRV_TENSOR,                                \
                      "[B, max_blocks]: the blocks with the keys of each batch entry, in their "   \
                      "order, in a page cache. key and value are its pools [num_blocks, "          \
                      "block_size, Hkv, E], and key_lengths says how many keys each entry has; "   \
                      "numbers behind the last key, such as -1, are not read. S is the largest "   \
                      "length. For layouts BHLE and BLHE. The gradients of key and value are "     \
                      "those of the pools, sums over all entries that read a block.",              \
                      .accepts = SRV_T_INT),                                                       \
        SRV_NAMED_ROW(T, "block_layout", at.block_layout, SRV_ENUM,                                \
                      "The order of axes in a block, with the words of FlashInfer: NHD (default, " \
                      "[num_blocks, block_size, Hkv, E]) or HND ([num_blocks, Hkv, block_size, "   \
                      "E]).",                                                                      \
                      .choices = attn_block_words),                                                \
        SRV_NAMED_ROW(T, "grad_output", at.grad_output, SRV_TENSOR,                                \
                      "The gradient of a loss with respect to the output, with the shape of the "  \
                      "output. The answer then holds the gradients with respect to every "         \
                      "floating-point input, attn_mask included if its numbers are added to the "  \
                      "scores (0 where they hide the key). In self-attention all of it is in "     \
                      "that of query. The pass needs O(L + S) memory.",                            \
                      SRV_OPERAND(T, at, grad_output_entries)),                                    \
        SRV_INPUT_ROW(T, at, grad_logsumexp, SRV_TENSOR,                                           \
                      "The gradient of a loss with respect to the logsumexp, as a z-loss has it, " \
                      "with the shape of the logsumexp, beside grad_output or alone. It adds "     \
                      "grad_logsumexp times the weight to the gradient of each biased score.",     \
                      .accepts = SRV_T_REAL | SRV_T_ENTRIES,                                       \
                      .entries = offsetof(T, at.grad_logsumexp_entries),                           \
                      .ragged = srv_ragged_rows),                                                  \
        SRV_INPUT_ROW(T, at, layout, SRV_ENUM,                                                     \
                      "Order of the axes of query, key, value and output: BHLE (default), BLHE, "  \
                      "or BLD (heads side by side in the last axis, with num_heads).",             \
                      .choices = attn_layout_words),                                               \
        SRV_INPUT_ROW(T, at, num_heads, SRV_INT, "Number of query heads, for layout BLD.",         \
                      .min = 1, .max = ATTN_INPUT_HEADS),                                          \
        SRV_INPUT_ROW(T, at, num_kv_heads, SRV_INT,                                                \
                      "Number of key and value heads, for layout BLD; default num_heads.",         \
                      .min = 1, .max = ATTN_INPUT_HEADS),                                          \
        SRV_NAMED_ROW(T, "enable_gqa", at.in.forbid_gqa, SRV_BOOL,                                 \
                      "true (default): unequal head counts select grouped-query attention; false " \
                      "makes unequal head counts an error.",                                       \
                      .accepts = SRV_B_NOT),                                                       \
        SRV_INPUT_ROW(T, at, precision, SRV_ENUM,                                                  \
                      "The precision of products: fp32 (default), fast (errors up to 2e-5 of the " \
                      "value range, used where it is faster), or bf16 (queries, keys, values and " \
                      "the weights that multiply the values are rounded to bfloat16; sums are in " \
                      "float32). Not with float64 tensors or grad_output.",                        \
                      .choices = attn_precision_words)

#define SRV_NONFINITE_ROW(T, at)                                                                   \
    SRV_INPUT_ROW(                                                                                 \
        T, at, allow_nonfinite, SRV_BOOL,                                                          \
        "Accept NaN and infinity instead of answering 422. The answer holds null in their place.", \
        .accepts = SRV_B_BEYOND)

#endif
