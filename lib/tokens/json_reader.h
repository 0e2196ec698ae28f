/* Functions that the readers of the parts of a tokenizer.json share. They read members of an
 * object, with errors that name the member, and check that no member is left unread. */
#ifndef ATTN_TOKENS_JSON_READER_H
#define ATTN_TOKENS_JSON_READER_H

#include "tokens/pipeline.h"
#include "json/json_tree.h"

typedef struct attn_json_reader {
    attn_tokenizer *t;
    attn_arena *arena; /* arena of the JSON tree */
    attn_error *err;
} attn_json_reader;

/* The error of these functions is ATTN_EVALUE at `where`, which is the name of a member at the root
 * or the path of one below it, such as "pre_tokenizer/pattern". */

/* These functions read a member of an object. If the member is missing or null, *out keeps its
 * value, or it is an error if the member is `needed`. */
attn_status attn_member_text(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, attn_string *out);
attn_status attn_member_bool(const attn_json_reader *r, attn_json *object, const char *where,
                             const char *key, bool needed, bool *out);
attn_status attn_member_count(const attn_json_reader *r, attn_json *object, const char *where,
                              const char *key, bool needed, int64_t most, int64_t *out);
/* Returns an error at `key` of `where`: "expected EXPECTED, found a list". `found` NULL: "found
 * nothing". */
attn_status attn_member_wrong(const attn_json_reader *r, const char *where, const char *key,
                              const char *expected, const attn_json *found);
/* Returns an error if an object has a member that no reader has read. */
attn_status attn_members_known(const attn_json_reader *r, const attn_json *object,
                               const char *where);
/* Copies a text into the memory of the pipeline. NULL: out of memory. */
const char *attn_pipeline_text(const attn_json_reader *r, attn_string text);
/* Returns the id of a token; -1: the vocabulary lacks it. */
int32_t attn_reader_id(const attn_json_reader *r, attn_string token);

/* Calls `read` for each component of a list that may be nested. A list is a component, or {"type":
 * "Sequence", <of>: [components]}; null is an empty list. */
typedef attn_status attn_read_component(const attn_json_reader *r, attn_json *component,
                                        const char *type, void *to);
attn_status attn_read_sequence(const attn_json_reader *r, attn_json *root, const char *member,
                               const char *of, attn_read_component *read, void *to);
/* Returns an upper bound of the number of components in a component, itself included. */
size_t attn_sequence_length(const attn_json *component);

/* These functions read the members of the root: "model" (json_model.c), "normalizer" and
 * "pre_tokenizer" (json_steps.c), "post_processor" and "decoder" (json_parts.c), "added_tokens". */
attn_status attn_read_model(const attn_json_reader *r, attn_json *model);
attn_status attn_read_steps(const attn_json_reader *r, attn_json *root);
attn_status attn_read_template(const attn_json_reader *r, attn_json *root);
attn_status attn_read_decoders(const attn_json_reader *r, attn_json *root);

#endif
