/* Reads and writes members of the JSON text of a run (FORMAT.md). A row of attn/input_rows.h
 * describes one member: its name, type, bounds, and place in a struct. The JSON text has the name
 * of a tensor, which the reader finds in the file, and which the writer chooses. */
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
    attn_run_site *site; /* NULL while no site is read */
    size_t index;        /* index of the site or text */
    char at[32];         /* place of the object that is read: "sites/3", "texts/0", "" */
    attn_error *err;
    attn_status status; /* the first error; after an error the functions below do nothing */
} attn_run_reader;

/* Sets r->status and r->err to an error at a member, such as "sites/3/scale". Does nothing if there
 * was an error before. */
void attn_run_refuse(attn_run_reader *r, attn_status status, const char *member, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* Does the same with the error of another function. inner->where must be the name of a member. */
void attn_run_refuse_error(attn_run_reader *r, const attn_error *inner);
/* Refuses the first member of the object that has not been read. `where` is the name of the object
 * in the site or text, or "" if the object is the site or text. */
void attn_run_refuse_unknown(attn_run_reader *r, const attn_json *object, const char *where);
/* Refuses a value of another kind: "expected WHAT, found a number". Returns true if the value has
 * this kind and there was no error before. */
bool attn_run_expect(attn_run_reader *r, const attn_json *value, attn_json_kind kind,
                     const char *member, const char *what);
/* Returns zeroed memory for count + 1 elements of `size` bytes. The memory lives as long as the
 * run. NULL: r->status is an error. */
void *attn_run_take(attn_run_reader *r, size_t count, size_t size);

/* Returns the index of the value in the list of words; -1 if the value is NULL or not in the
 * list. */
int attn_run_word(const attn_json *value, const char *const *words);
/* Reads the member that `row` describes into the struct `to`, if the object has this member. For a
 * tensor without such a member, takes the tensor "sites.N.MEMBER", if the file has one. `where` is
 * the name of the object in the site; "": the object is the site. */
void attn_run_read_row(attn_run_reader *r, attn_json *object, const char *where,
                       const attn_input *row, void *to);
/* Calls attn_run_read_row for all rows of the table whose object is `where`. */
void attn_run_read_rows(attn_run_reader *r, attn_json *object, const char *where,
                        const attn_input *rows, void *to);
/* Returns the tensor of the file with this name. NULL: r->status is an error at `place`, which is
 * the member that names the tensor. */
const attn_tensor *attn_run_named_tensor(attn_run_reader *r, const char *place, const char *name);
/* Refuses a tensor whose data is not aligned to its elements. */
void attn_run_check_aligned(attn_run_reader *r, const char *place, const char *name,
                            const attn_tensor *t);
/* Reads a list of `count` integers, each from `least` to `most`. NULL: r->status is an error. */
int64_t *attn_run_read_integers(attn_run_reader *r, const attn_json *list, const char *member,
                                size_t count, int64_t least, int64_t most);

/* --- writing --- */

/* A writer of one site: the JSON text, and callbacks that name the tensors of the site. */
typedef struct attn_run_naming {
    attn_json_text *text;
    /* Adds a tensor to the file, unless the file has it already, and returns its name in the file.
     * `member` is the tensor's name in the site. On an error, returns "" and stores the error in
     * ctx. */
    const char *(*tensor)(void *ctx, const char *member, const attn_tensor *tensor);
    /* Does the same for the tensor of a mask layer; returns "" if the layer has no tensor. May pack
     * a boolean mask to bits first. Sets the layer's kind and semantics to those of the tensor in
     * the file. */
    const char *(*mask)(void *ctx, const char *member, attn_mask_layer *layer);
    void *ctx;
} attn_run_naming;

/* Writes the members of all rows whose object is `where`. Writes a tensor if `from` has it, and any
 * other value if it differs from that in `usual`. */
void attn_run_write_rows(const attn_run_naming *to, const char *where, const attn_input *rows,
                         const void *from, const void *usual);
/* Writes the member that `row` describes. The member must not be a tensor. */
void attn_run_write_value(attn_json_text *t, const attn_input *row, const void *from);
/* Write the member `key`. Write nothing if the value is NULL. */
void attn_run_write_text(attn_json_text *t, const char *key, const char *text);
void attn_run_write_integers(attn_json_text *t, const char *key, const int64_t *values, size_t n);
void attn_run_write_texts(attn_json_text *t, const char *key, const char *const *texts, size_t n);

#endif
