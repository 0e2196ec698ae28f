/* The table of runs in memory, which the files runs*.c share. Without runs_dir the table is the
 * whole store. With runs_dir it holds the runs whose files this process has mapped, and the
 * directory decides which runs exist.
 *
 * The table is a list with the most recently used run at the front (held.h). */
#ifndef SRV_RUNS_TABLE_H
#define SRV_RUNS_TABLE_H

#include <attn/checksum.h>
#include <pthread.h>

#include "request/shared.h"
#include "store/held.h"
#include "store/runs.h"
#include "store/runs_dir.h"
#include "store/runs_upload.h"

typedef struct srv_runs_entry srv_runs_entry;

/* A run to which a generation of this process still adds steps. */
struct srv_open_run {
    char id[SRV_RUN_ID + 1];
    srv_open_run *next;   /* in the list of the store */
    _Atomic size_t users; /* number of users: the generation, and each entry */
    attn_arena *arena;    /* holds `growth` */
    attn_run_growth *growth;
    size_t bytes;           /* bytes of the arena, with room for all rows */
    srv_runs_entry *latest; /* entry with the most steps, held by the list of open runs; or NULL */
};

struct srv_runs_entry {
    srv_run run;
    /* Place in the table. held.bytes is run.bytes plus answers_size. For an adopted run, it does
     * not include the image. */
    srv_held held;
    bool doomed; /* srv_runs_make_room has chosen the entry to be removed */
    srv_owner owner;
    const void *image; /* a safetensors file in memory or mapped, image_size bytes */
    size_t image_size;
    srv_mapped *mapped; /* the mapped file of the image; NULL: `image` is from attn_alloc */
    attn_arena *arena;  /* holds run.run and `sums` */
    void *answers;      /* kept answers of a run in memory (answers.h), from attn_alloc; or NULL */
    size_t answers_size;
    int64_t moved_ns;   /* when run.ends_ns was last changed */
    srv_open_run *open; /* the open run whose first steps are in this entry; NULL: a closed run */

    /* A client has sent the file or named it in captures_dir, so the metadata in the file cannot be
     * trusted. Therefore the owner is in `side`. */
    bool imported;
    srv_runs_side side;        /* facts about an imported run from outside of its file */
    attn_checksums sums;       /* checksums of the file; size 0: it has none */
    const void *summed;        /* the first byte that `sums` covers */
    _Atomic uint64_t *checked; /* bit i % 64 of word i / 64: block i was checked and is right */
};

struct srv_runs {
    pthread_mutex_t lock; /* protects the members from `table` on, except next_sweep_ns */
    const srv_config *config;
    bool has_dir;
    srv_runs_dir dir;
    srv_uploads *uploads;     /* NULL: there is no runs_dir */
    srv_held_list table;      /* from the most to the least recently used run */
    srv_shares shares;        /* bytes in the table of each owner */
    srv_open_run *growing;    /* the open runs, to which generations still add steps */
    char (*gone)[SRV_RUN_ID]; /* ring buffer with the ids of removed runs */
    size_t gone_count;        /* number of ids that were ever put into `gone` */
    _Atomic int64_t next_sweep_ns;
    srv_runs_state state;
};

/* The number of removed runs whose ids the store remembers. Requests for these runs are answered
 * with 410 instead of 404. */
enum { SRV_RUNS_REMEMBERED = 8192 };

/* --- runs_table.c: the caller has the lock, except for srv_runs_entry_new and _free --- */

/* Makes an entry with an arena. NULL: out of memory. */
srv_runs_entry *srv_runs_entry_new(const srv_config *config);
/* Frees an entry that is not in the table. NULL is fine. */
void srv_runs_entry_free(srv_runs_entry *e);
/* Returns the entry with this id; NULL: it is not in the table. */
srv_runs_entry *srv_runs_find(srv_runs *s, const char *id);
/* Removes the entry from the table. Frees it if nothing holds it; otherwise the last holder frees
 * it. */
void srv_runs_drop(srv_runs *s, srv_runs_entry *e);
void srv_runs_remember_gone(srv_runs *s, const char *id);
/* Returns whether a removed run had this id. Only SRV_RUNS_REMEMBERED ids are known. */
bool srv_runs_was_known(const srv_runs *s, const char *id);
/* Removes runs other than `spared` (NULL: any may go) from the table until `over` bytes are free,
 * because `owner` wants to store `bytes` more. srv_shares_choose chooses the runs. With runs_dir,
 * removes the least recently used runs instead, and their files stay. false: no run was removed,
 * because `owner` would have the most bytes and has no other run to remove. */
bool srv_runs_make_room(srv_runs *s, srv_owner owner, size_t bytes, size_t over,
                        const srv_runs_entry *spared);
/* Adds an entry as the most recently used one. Removes others while it does not fit into
 * runs_bytes. false: srv_runs_make_room found no room, and the entry is not added. With runs_dir
 * this never happens. */
bool srv_runs_list(srv_runs *s, srv_runs_entry *e);
/* Replaces the kept answers of a run in memory by *image, which is from attn_alloc, and sets *image
 * to the old ones, which the caller frees. To make room, removes other runs as srv_runs_make_room
 * does. false: the run is no longer kept, or there is no room for the answers; nothing has
 * changed. */
bool srv_runs_swap_answers(srv_runs *s, srv_runs_entry *e, void **image, size_t size);
/* Removes entries from the table. Without runs_dir, these are the entries that have expired at
 * `now` (attn_now_ns). With runs_dir, these are the entries whose files are no longer in the
 * directory. */
void srv_runs_drop_expired(srv_runs *s, int64_t now);

/* --- runs_table.c, without the lock --- */

/* Ends the use of an open run by its generation or by an entry. NULL is fine. */
void srv_runs_leave_growing(srv_open_run *run);
/* Writes a new random id. false: the system has no random numbers. */
bool srv_runs_new_id(char id[SRV_RUN_ID + 1]);
/* Sets the problem that a run cannot be written to runs_dir, or that runs_bytes has no room for
 * it. */
void srv_runs_refuse(srv_request *req, const char *pointer, int failed);
/* Sets the problem that `bytes` are more than runs_bytes, and returns NULL. */
const srv_run *srv_runs_too_large(srv_request *req, const char *pointer, size_t bytes);
/* Returns whether the text has the form of an id. */
bool srv_runs_is_id(const char *id);

/* --- runs_growing.c --- */

/* Returns the link of the list that points to the open run with this id, or the last link, which is
 * NULL. The caller has the lock. */
srv_open_run **srv_runs_find_growing(srv_runs *s, const char *id);
/* Sets *out to the open run with this id and its steps so far, and holds it. false: there is no
 * such open run. true and *out NULL: a problem is set. */
bool srv_runs_hold_growing(srv_request *req, const char *id, const srv_run **out);
/* Removes a run from the list of open runs. If `gone` is true, also remembers its id as that of a
 * removed run. Sets *was_open to whether the run was in the list. The caller has the lock. Returns
 * an entry that the caller frees after it has released the lock; may be NULL. */
srv_runs_entry *srv_runs_end_growing(srv_runs *s, const char *id, bool gone, bool *was_open);

/* --- runs.c --- */

/* Stores the image under this id as srv_run_store does. */
const srv_run *srv_runs_store_as(srv_request *req, const char *id, const attn_run_image *image);
/* Opens the run in e->image and sets run, owner and size of the entry. Sets no problem. */
attn_status srv_runs_open_image(const srv_config *config, srv_runs_entry *e, attn_error *err);
/* Copies the image of a valid run into memory for its owner. If memory is short, removes other runs
 * (srv_runs_make_room). */
attn_status srv_runs_copy_image(srv_runs *s, srv_runs_entry *e, srv_owner owner,
                                const attn_run_image *image, attn_error *err);
/* Holds a new entry, puts it into the table and counts it as stored. NULL: there is no room; the
 * entry is freed, and a problem is set. */
const srv_run *srv_runs_admit(srv_request *req, const char *pointer, srv_runs_entry *e);
/* Opens the file of a run that another process stored, or that this process has closed, and holds
 * it. NULL: a problem is set. */
const srv_run *srv_runs_hold_file(srv_request *req, const char *id);
/* --- runs_rights.c --- */

/* Returns the name of the API key that owns the run; NULL: the run has no owner. */
const char *srv_runs_owner(const srv_runs_entry *e);
/* Makes a random read token in the arena. NULL: out of memory, or no random numbers. */
const char *srv_runs_new_token(attn_arena *arena);
/* Makes the owner of the run the owner of the request. Therefore jobs that the request orders
 * belong to the owner of the run. */
void srv_runs_act_for_owner(srv_request *req, const srv_run *run);

/* --- runs_checksums.c --- */

/* Notes that e->sums are the checksums of the bytes from `summed` on, and that no byte is checked
 * yet. false: out of memory. */
bool srv_runs_sum_from(srv_runs_entry *e, const void *summed);
/* Reads the checksums of an imported run from e->side, its side file. Errors: ATTN_EVALUE (the text
 * has no checksums, or not as many as the mapped file has blocks), ATTN_ENOMEM. */
attn_status srv_runs_take_sums(srv_runs_entry *e, attn_error *err);
/* Returns the size in bytes of the header of the run's file, including the 8 bytes of its length;
 * at most the size of the file. */
size_t srv_runs_header_size(const srv_runs_entry *e);
/* Checks the header of the run's file. false: a problem is set. */
bool srv_runs_check_header(srv_request *req, const srv_runs_entry *e);
/* Checks that the file of an adopted run is still the adopted file. Other runs need no check.
 * false: a problem is set. */
bool srv_runs_is_same(srv_request *req, const srv_runs_entry *e);
/* Looks at the mapped file. If it has changed, checks again the blocks that were checked before.
 * SRV_MAPPED_SAME or SRV_MAPPED_OTHER: the bytes that were checked are still right. */
srv_mapped_state srv_runs_look_at(const srv_runs_entry *e);
/* Sets the problem that the file of an adopted run is no longer the adopted file. */
void srv_runs_adopt_again(srv_request *req, const char *id, const char *how);

#endif
