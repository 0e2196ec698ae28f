/* Members of the JSON text of a run (FORMAT.md), read and written by the rows of attn/input_rows.h.
 * Tensors are named; the names are looked up in the file, or chosen by the writer. */
#ifndef ATTN_RUN_MEMBERS_H
#define ATTN_RUN_MEMBERS_H

#include <attn/input_rows.h>

#include "runs/private.h"
#include "json/json_tree.h"
#include "json/json_write.h"

/* --- reading --- */

/* A reader of the run, or of one of its texts or sites. */
typedef struct attn_run_reader {
    attn_run *run;
    attn_run_site *site; /* NULL: it reads no site */
    size_t index;        /* number of the site or text */
    char at[32];         /* where its members stand: "sites/3", "texts/0", "" */
    attn_error *err;
    attn_status status; /* of the first error; the functions below then do nothing */
} attn_run_reader;

/* Fails at a member: "sites/3/scale". */
void attn_run_refuse(attn_run_reader *r, attn_status status, const char *member, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* Fails like a function of the library, whose place is a member. */
void attn_run_refuse_error(attn_run_reader *r, const attn_error *inner);
/* Refuses the first member of the object that has not been read. `where` is the name of the object
 * among the members, or "". */
void attn_run_refuse_unknown(attn_run_reader *r, const attn_json *object, const char *where);
/* Refuses a value of another kind: "expected WHAT, found a number". Returns whether it has the
 * kind. */
bool attn_run_expect(attn_run_reader *r, const attn_json *value, attn_json_kind kind,
                     const char *member, const char *what);
/* Takes zeroed memory that lives as long as the run, with room for one element more. NULL: it
 * failed. */
void *attn_run_take(attn_run_reader *r, size_t count, size_t size);

/* Returns the index of the value in the list of words; -1: it is none of them. */
int attn_run_word(const attn_json *value, const char *const *words);
/* Reads the member of a row into the struct, if the object has it. A tensor without a member is that
 * of the name sites.N.MEMBER, if there is one. `where` is the name of the object, or "". */
void attn_run_read_row(attn_run_reader *r, attn_json *object, const char *where,
                       const attn_input *row, void *to);
/* Does so with all rows of the table whose object is `where`. */
void attn_run_read_rows(attn_run_reader *r, attn_json *object, const char *where,
                        const attn_input *rows, void *to);
/* Returns the tensor with this name, which the member at `place` gives. NULL: it failed. */
const attn_tensor *attn_run_named_tensor(attn_run_reader *r, const char *place, const char *name);
/* Refuses a tensor whose data is not aligned to its elements. */
void attn_run_check_aligned(attn_run_reader *r, const char *place, const char *name,
                            const attn_tensor *t);
/* Reads a list of `count` integers from least to most. NULL: it failed. */
int64_t *attn_run_read_integers(attn_run_reader *r, const attn_json *list, const char *member,
                                size_t count, int64_t least, int64_t most);

/* --- writing --- */

/* A writer of one site. */
typedef struct attn_run_naming {
    attn_json_text *text;
    /* Adds a tensor to the file, which may have it already, and returns its name there. `member` is
     * what it is called in the site. Fails into ctx. */
    const char *(*tensor)(void *ctx, const char *member, const attn_tensor *tensor);
    /* The same for the tensor of a mask, if the layer has one; a boolean mask may be packed to bits
     * first. Sets kind and semantics to those in the file. */
    const char *(*mask)(void *ctx, const char *member, attn_mask_layer *layer);
    void *ctx;
} attn_run_naming;

/* Writes the members of all rows whose object is `where`, if they differ from those of `usual`. */
void attn_run_write_rows(const attn_run_naming *to, const char *where, const attn_input *rows,
                         const void *from, const void *usual);
/* Writes the value of a row, which is no tensor. */
void attn_run_write_value(attn_json_text *t, const attn_input *row, const void *from);
/* Write a member. NULL: there is none. */
void attn_run_write_text(attn_json_text *t, const char *key, const char *text);
void attn_run_write_integers(attn_json_text *t, const char *key, const int64_t *values, size_t n);
void attn_run_write_texts(attn_json_text *t, const char *key, const char *const *texts, size_t n);

#endif
