/* Warnings of an answer: those of the library in the words of the API, and those of the server.
 * They are written as JSON or as text. An answer also names the large tensors that it leaves
 * out. */
#ifndef SRV_WARNINGS_H
#define SRV_WARNINGS_H

#include "wire/answer.h"
#include "wire/json_out.h"

typedef struct srv_warning {
    const char *code;    /* such as "mask_rank"; does not change between versions of the service */
    const char *pointer; /* JSON pointer to the field, or "" */
    const char *detail;
} srv_warning;

typedef struct srv_warnings {
    srv_warning *items;
    size_t count;
} srv_warnings;

/* Adds a warning. `where` is the path of the field without a slash in front, or "". `code` must
 * outlive the request. false: memory ran out. */
bool srv_warnings_add(srv_warnings *to, attn_arena *arena, const char *code, const char *where,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Adds the warnings of the library in the words of the API. Fails only with ATTN_ENOMEM. */
attn_status srv_warnings_word(srv_warnings *to, attn_arena *arena, const attn_warnings *found,
                              attn_error *err);
/* Checks a mask with attn_mask_lint and adds its warnings. */
attn_status srv_warnings_of_mask(srv_warnings *to, attn_arena *arena, const attn_mask *mask,
                                 attn_error *err);
/* Checks with attn_mask_lint_position whether a mask suits a positional encoding, and adds its
 * warnings. */
attn_status srv_warnings_of_position(srv_warnings *to, attn_arena *arena, const attn_mask *mask,
                                     attn_position_kind position, attn_error *err);

/* srv_warnings_write writes the member `warnings`. srv_warnings_put writes the value of this
 * member, for the row below. srv_warnings_text writes a line of text for each warning. Without
 * warnings these functions write nothing. */
void srv_warnings_write(attn_json_text *j, const srv_warnings *warnings);
void srv_warnings_put(attn_json_text *j, const void *warnings);
/* The row `warnings` of an answer: struct T has the srv_warnings in `member`. */
#define SRV_WARNINGS_MEMBER(T, member, ...)                                                        \
    SRV_WRITTEN_AT("warnings", "[Warning]", srv_warnings_put, T, member,                           \
                   "What is valid but probably not intended.", __VA_ARGS__)
void srv_warnings_text(attn_text *t, const srv_warnings *warnings);

/* Writes a member of the object `omitted`. The member has the name of a tensor that was left out
 * because it is large, and states its number of values. `how` tells the client how to get the
 * tensor. */
void srv_omitted_write(attn_json_text *j, const char *name, double values, const char *how);

extern const srv_field srv_warning_answers[]; /* the schemas Warning and OmittedTensor */

#endif
