/* The mask fields that POST /v1/attention, POST /v1/analyses and each mask of POST /v1/masks
 * share: their rows for field tables, and the conversion of decoded fields to mask layers of the
 * library. */
#ifndef SRV_MASK_INPUT_H
#define SRV_MASK_INPUT_H

#include <stddef.h>

#include "api/common/form_input.h"

/* The lists of tensors in a ragged batch, one tensor for each entry. They are used where the
 * tensors differ in shape. */
typedef struct srv_mask_entries {
    srv_entries attn_mask, key_padding_mask, token_ids, document_ids, parents, top_k_indices;
} srv_mask_entries;

typedef struct srv_mask_input {
    attn_tensor document_ids, prefix_lengths, parents, top_k_indices;
    srv_objects any_of, all_of, not_of; /* arrays of srv_mask_item */
    attn_tensor attn_mask, key_padding_mask;
    attn_semantics mask_semantics, key_padding_semantics;
    attn_tensor key_lengths, token_ids;
    int64_t pad_id;
    srv_int_lists window; /* one, or one for each head */
    srv_objects pattern;  /* array of srv_pattern_item: one, or one for each head */
    srv_mask_entries entries;
} srv_mask_input;

typedef struct srv_pattern_item {
    attn_pattern pattern;
    srv_given_bits given;
} srv_pattern_item;

/* A mask in a list of masks: the object {"kind": …} with the fields of this kind. */
typedef struct srv_mask_item {
    srv_given_bits given;
    int kind; /* SRV_ITEM_* */
    srv_mask_input mask;
} srv_mask_item;

enum { SRV_ITEM_CAUSAL, SRV_ITEM_PADDING, SRV_ITEM_WINDOW, SRV_ITEM_PATTERN, SRV_ITEM_VALUES };
extern const srv_field srv_mask_item_fields[];

#define SRV_BY_ENTRY_LISTS (SRV_T_ENTRIES | SRV_T_ENTRY_ROWS)

extern const char *const srv_padding_semantics[]; /* "keep", "hide" */
extern const char *const srv_offset_words[];      /* "end" */

/* Rows for the field table of struct T, whose member `at` is a srv_mask_input. `lists` is
 * SRV_BY_ENTRY_LISTS on a route that takes ragged batches, else 0. */
#define SRV_MASK_ROWS(T, at, lists)                                                                \
    SRV_NAMED_ROW(                                                                                 \
        T, "attn_mask", at.attn_mask, SRV_TENSOR,                                                  \
        "The keys that each query sees: booleans (true = attend) or numbers, broadcast to the "    \
        "shape of the weights. Numbers that are all 0 or 1 need mask_semantics; other numbers "    \
        "are added to the scores. null and -Infinity stand for -infinity. An axis of one head "    \
        "may be there or not: [B, L, S] stands for [B, 1, L, S]. A query [L, E] with a mask [1, "  \
        "L, S] has results with that axis in front, too. Booleans may be packed, eight in a "      \
        "byte: see encoding.",                                                                     \
        .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF | SRV_T_BITS | (lists),                  \
        .entries = offsetof(T, at.entries.attn_mask)),                                             \
        SRV_NAMED_ROW(T, "mask_semantics", at.mask_semantics, SRV_ENUM,                            \
                      "The meaning of attn_mask: keep (1 or true = attend), hide (1 or true = "    \
                      "hidden), additive (added to the scores), finite_min (additive, and "        \
                      "numbers of at most -10,000, such as the smallest float16, hide their "      \
                      "keys) or nonzero (all but 0 = attend).",                                    \
                      .choices = attn_semantics_words + ATTN_SEM_KEEP, .first = ATTN_SEM_KEEP),    \
        SRV_NAMED_ROW(T, "key_padding_mask", at.key_padding_mask, SRV_TENSOR,                      \
                      "[B, S] or [S]: marks the padding keys, with the meaning that "              \
                      "key_padding_semantics gives.",                                              \
                      .accepts = SRV_T_REAL | SRV_T_BOOL | (lists),                                \
                      .entries = offsetof(T, at.entries.key_padding_mask)),                        \
        SRV_NAMED_ROW(T, "key_padding_semantics", at.key_padding_semantics, SRV_ENUM,              \
                      "The meaning of key_padding_mask, also of booleans: keep (1 or true = a "    \
                      "real key) or hide (1 or true = padding).",                                  \
                      .choices = srv_padding_semantics, .first = ATTN_SEM_KEEP),                   \
        SRV_NAMED_ROW(                                                                             \
            T, "key_lengths", at.key_lengths, SRV_TENSOR,                                          \
            "[B]: the number of real keys of each batch entry; the keys after them are hidden.",   \
            .accepts = SRV_T_INT),                                                                 \
        SRV_NAMED_ROW(T, "token_ids", at.token_ids, SRV_TENSOR,                                    \
                      "[B, S] or [S]: the keys' token ids; a key whose id is pad_id is hidden.",   \
                      .accepts = SRV_T_INT | (lists),                                              \
                      .entries = offsetof(T, at.entries.token_ids),                                \
                      .ragged = "pad the sequences to one length with pad_id"),                    \
        SRV_NAMED_ROW(T, "pad_id", at.pad_id, SRV_INT,                                             \
                      "The id of the padding token in token_ids."),                                \
        SRV_NAMED_ROW(T, "window", at.window, SRV_LISTS,                                           \
                      "[left, right]: the number of other keys that a query sees on either side "  \
                      "of its own position; -1 = no limit. A list [H, 2] has one for each head: "  \
                      "[-1, 0] is a causal head, [-1, -1] one that sees all.",                     \
                      .max = 2),                                                                   \
        SRV_NAMED_ROW(T, "pattern", at.pattern, SRV_OBJECTS,                                       \
                      "The keys that a query sees, by their positions; a list has a pattern for "  \
                      "each head. The pass skips hidden cells instead of masking them; "           \
                      "num_computed_cells of explain and dry_run says how many it computes. With " \
                      "strided it skips only without a bias by distance, dropout, a mask tensor, " \
                      "positions of its own and another pattern.",                                 \
                      .accepts = SRV_O_SINGLE, .fields = srv_pattern_fields,                       \
                      .size = sizeof(srv_pattern_item),                                            \
                      .given = offsetof(T, at.pattern) + offsetof(srv_pattern_item, given)),       \
        SRV_NAMED_ROW(T, "document_ids", at.document_ids, SRV_TENSOR,                              \
                      "[B, S] or [S]: the document of each key; a query sees the keys of the "     \
                      "document of the key at its own position, i + query_offset.",                \
                      .accepts = SRV_T_INT | (lists),                                              \
                      .entries = offsetof(T, at.entries.document_ids)),                            \
        SRV_NAMED_ROW(T, "prefix_lengths", at.prefix_lengths, SRV_TENSOR,                          \
                      "[B], or [1] for all: every query sees the first keys, so many of each "     \
                      "batch entry. In any_of beside causal: the mask of a prefix LM.",            \
                      .accepts = SRV_T_INT),                                                       \
        SRV_NAMED_ROW(T, "parents", at.parents, SRV_TENSOR,                                        \
                      "[B, S] or [S]: the parent of each key in a tree, -1 for a root; a query "   \
                      "sees the key at its own position, i + query_offset, and its ancestors.",    \
                      .accepts = SRV_T_INT | (lists), .entries = offsetof(T, at.entries.parents)), \
        SRV_NAMED_ROW(T, "top_k_indices", at.top_k_indices, SRV_TENSOR,                            \
                      "[B, H, L, k] or a shape whose axes but the last broadcast to these: the "   \
                      "only keys that a query sees; -1 is none.",                                  \
                      .accepts = SRV_T_INT | (lists),                                              \
                      .entries = offsetof(T, at.entries.top_k_indices)),                           \
        SRV_PARTS_ROW(T, at, any_of,                                                               \
                      "A key is visible if any of these masks shows it. The masks are those of "   \
                      "POST /v1/masks, without numbers that are added to scores; the parts of "    \
                      "any_of, all_of and not may be nested, 16 masks in all."),                   \
        SRV_PARTS_ROW(T, at, all_of,                                                               \
                      "A key is visible if all of these masks show it, as it is for the fields "   \
                      "side by side; for use in any_of and not."),                                 \
        SRV_ITEMS_ROW(T, "not", at.not_of,                                                         \
                      "A key is visible if this mask hides it: one object, or a list of one.",     \
                      .accepts = SRV_O_SINGLE)

/* The row of a list of masks in the field table of struct T. The masks have tables with such rows,
 * too. */
#define SRV_ITEMS_ROW(T, name, member, text, ...)                                                  \
    SRV_NAMED_ROW(T, name, member, SRV_OBJECTS, text, .fields = srv_mask_item_fields,              \
                  .schema = "MaskItem", .size = sizeof(srv_mask_item),                             \
                  .max = ATTN_MASK_LAYERS - 1, __VA_ARGS__)

/* The row of a list of masks that another mask combines. */
#define SRV_PARTS_ROW(T, at, list, text) SRV_ITEMS_ROW(T, #list, at.list, text)

/* The rows of the positions that masks compare, for the field table of struct T. Its member `spec`
 * is an attn_mask_spec. */
#define SRV_PLACES_ROWS(T, spec)                                                                   \
    SRV_NAMED_ROW(T, "query_positions", spec.query_positions, SRV_TENSOR,                          \
                  "[L] or [B, L]: the position of each query for causal, window, pattern and "     \
                  "prefix_lengths, in any order; null = none, and the query sees every key. The "  \
                  "default is i + query_offset.",                                                  \
                  .accepts = SRV_T_INT | SRV_T_NONE),                                              \
        SRV_NAMED_ROW(T, "key_positions", spec.key_positions, SRV_TENSOR,                          \
                      "[S] or [B, S]: the position of each key; null = none, and every query "     \
                      "sees the key. The default is j.",                                           \
                      .accepts = SRV_T_INT | SRV_T_NONE)

#define SRV_OFFSET_ROW(T, member)                                                                  \
    SRV_NAMED_ROW(T, "query_offset", member, SRV_UNION,                                            \
                  "Query i has key position i + query_offset in is_causal, window, pattern, "      \
                  "document_ids, parents and position. An integer, one for each batch entry, or "  \
                  "\"end\" (the last query is at the last key, with key_lengths at the last real " \
                  "key). The default is 0, or the length of the cache with past_key.",             \
                  .accepts = SRV_U_INT | SRV_U_INTS | SRV_U_STRING, .choices = srv_offset_words)

extern const srv_field srv_fill_fields[];
void srv_fill_init(void *mask_spec);
/* The row of mask_fill for the field table of struct T. Its member `spec` is an attn_mask_spec, and
 * its member `present` is a uint64_t. */
#define SRV_FILL_ROW(T, spec, present, text)                                                       \
    SRV_NAMED_ROW(T, "mask_fill", spec, SRV_OBJECT, text, .accepts = SRV_O_NUMBER,                 \
                  .fields = srv_fill_fields, .init = srv_fill_init, .given = offsetof(T, present))

/* Adds a layer to *spec. The layer has the name of the field in the scope. false: *spec is full,
 * and a problem is set. */
bool srv_mask_add(const srv_scope *scope, attn_mask_spec *spec, const char *name,
                  attn_mask_layer layer);
/* Checks the mask fields against each other and adds the layers that they describe to *spec. false:
 * a problem is set. */
bool srv_mask_layers(const srv_scope *scope, const srv_mask_input *in, attn_mask_spec *spec);
/* Adds the masks of a list, the field `name` of the scope, to *spec. false: a problem is set. */
bool srv_mask_items(const srv_scope *scope, const char *name, const srv_objects *list,
                    attn_mask_spec *spec);
/* Sets *item to the scope of element i of the list. Writes the path of the element to `at`. */
void srv_mask_item_scope(const srv_scope *scope, const char *name, const srv_objects *list,
                         size_t i, srv_scope *item, char at[256]);
/* Reads query_offset, if it was given, into the spec. `offset` must outlive the spec. */
void srv_mask_offset(const srv_union *offset, attn_mask_spec *spec);
/* Sets *kept to the share of cells that the mask leaves visible, 0 … 1. `cells` is the number of
 * cells; if it is 0, the share is 1. false: the deadline has passed, and a problem is set. */
bool srv_mask_kept(srv_request *req, const attn_mask *mask, double cells, double *kept);

#endif
