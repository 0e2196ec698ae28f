/* What the readers of the parts of a tokenizer.json share: members of an object with errors that
 * name them, and the check that no member is left unread. */
#ifndef ATTN_TOKENS_JSON_READER_H
#define ATTN_TOKENS_JSON_READER_H

#include "tokens/pipeline.h"
#include "json/json_tree.h"

typedef struct attn_json_reader {
    attn_tokenizer *t;
    attn_arena *arena; /* of the tree */
    attn_error *err;
} attn_json_reader;

/* The errors of all of these are ATTN_EVALUE at `where`, the name of a member at the root or below
 * it: "pre_tokenizer/pattern". */

/* Read a member of an object. A member that is missing or null keeps the value of *out, unless it is
 * `needed`. */
attn_status attn_member_text(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, attn_string *out);
attn_status attn_member_bool(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, bool *out);
attn_status attn_member_count(const attn_json_reader *r, attn_json *object, const char *where,
                              const char *key, bool needed, int64_t most, int64_t *out);
/* Fails: at `key` of `where`, "expected EXPECTED, found a list"; `found` NULL: nothing. */
attn_status attn_member_wrong(const attn_json_reader *r, const char *where, const char *key,
                              const char *expected, const attn_json *found);
/* Fails if an object has a member that no reader has asked for. */
attn_status attn_members_known(const attn_json_reader *r, const attn_json *object,
                               const char *where);
/* Copies a text into the memory of the pipeline. NULL: no memory. */
const char *attn_pipeline_text(const attn_json_reader *r, attn_string text);
/* Returns an id if the vocabulary has the token, else -1. */
int32_t attn_reader_id(const attn_json_reader *r, attn_string token);

/* Calls `read` for each object of a list that may be nested: a component, or {"type": "Sequence",
 * <of>: [components]}; null is none. */
typedef attn_status attn_read_component(const attn_json_reader *r, attn_json *component,
                                        const char *type, void *to);
attn_status attn_read_sequence(const attn_json_reader *r, attn_json *root, const char *member,
                               const char *of, attn_read_component *read, void *to);
/* Returns how many components a component has at most, itself included. */
size_t attn_sequence_length(const attn_json *component);

/* Read the members of the root: "model" (json_model.c), "normalizer" and "pre_tokenizer"
 * (json_steps.c), "post_processor" and "decoder" (json_parts.c), "added_tokens". */
attn_status attn_read_model(const attn_json_reader *r, attn_json *model);
attn_status attn_read_steps(const attn_json_reader *r, attn_json *root);
attn_status attn_read_template(const attn_json_reader *r, attn_json *root);
attn_status attn_read_decoders(const attn_json_reader *r, attn_json *root);

#endif
