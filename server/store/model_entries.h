/* The list of models in memory, with which model_registry.c and model_dir.c work. `lock` guards the
 * list, the counts and the holds. `files` guards models_dir. It is held during a scan, and while a
 * file is written or deleted together with its entry in the list, so that no scan sees only one of
 * the two changes. A thread that takes both locks takes `files` first. */
#ifndef SRV_MODEL_ENTRIES_H
#define SRV_MODEL_ENTRIES_H

#include <pthread.h>

#include "config/config.h"
#include "store/held.h"
#include "store/model_disk.h"
#include "store/model_registry.h"
#include "store/weights.h"
#include "system/embedded.h"
#include "system/host.h"

/* The data that passes of a known model need (model_known.h). */
typedef struct srv_loaded srv_loaded;
struct srv_loaded {
    srv_loaded *next; /* next element in a list for srv_loaded_free */
    srv_weights files;
    attn_known_model known;
    attn_tokenizer *tokenizer;
    size_t bytes; /* number of bytes that count in srv_models.known_bytes */
};
typedef struct srv_entry srv_entry;
struct srv_entry {
    srv_model model;
    srv_held held;            /* place in the list of srv_models */
    const srv_file *embedded; /* the embedded file to parse on first use; NULL: already parsed */
    srv_file_state file;      /* the state of the file in models_dir when it was read or written */
    bool seen;                /* the current scan of models_dir has found the file */
    /* Members of a known model. `reading` is held while its files are opened. `lock` guards the
     * other members. */
    pthread_mutex_t reading;
    bool described;     /* model.known has its description */
    srv_loaded *loaded; /* data for passes; NULL: not in memory */
    int64_t used_ns;    /* when a request for a pass last held the entry */
};

enum { SRV_REFUSED_TEXT = 320 }; /* buffer size of the reason why a file is refused */

/* The reason why a file is not served. */
typedef struct srv_refusal {
    int failed; /* errno value, if the contents are not the cause; 0: wrong contents */
    char text[SRV_REFUSED_TEXT];
} srv_refusal;

/* A file of models_dir that is not served. It is read again after it has changed. If it was refused
 * for another reason than its contents, it is also read again at the next request. */
typedef struct srv_refused {
    struct srv_refused *next;
    srv_file_state file;
    bool seen;
    char id[SRV_MODEL_ID + 1];
    srv_refusal why;
} srv_refused;

/* A model that srv_models_await has marked as unreadable for now. */
typedef struct srv_awaited {
    struct srv_awaited *next;
    char id[SRV_MODEL_ID + 1];
    int failed; /* errno value */
} srv_awaited;

struct srv_models {
    pthread_mutex_t lock, files;
    const srv_config *config;
    srv_log *log;        /* NULL: standard error */
    srv_held_list list;  /* sorted by id */
    size_t count, bytes; /* models of origin "made", including those being made */
    size_t known_bytes;  /* bytes of known models in memory */

    srv_refused *refused; /* changed with both locks, read with either */
    srv_awaited *awaited; /* `lock` guards this member and those below */
    srv_file_state dir;   /* the state of models_dir before the last scan */
    /* true if the last scan is reliable. false: some files were so young that they may change
     * unnoticed, or could not be read for another reason than their contents. */
    bool settled;
    int64_t scanned_ns, looked_ns; /* last scan; last check of the files of known models */
    int failed; /* errno value of the last scan that could not read models_dir; 0: none */
};

/* Makes an entry with a copy of *model. NULL: out of memory. */
srv_entry *srv_entry_new(const srv_model *model);
void srv_entry_free(srv_entry *e);
/* Frees a list of data for passes. */
void srv_loaded_free(srv_loaded *list);
srv_entry *srv_entry_find(const srv_models *m, const char *id);
void srv_entry_list(srv_models *m, srv_entry *e);
/* Removes the entry from the list, and a model of origin "made" from the counts. Its last holder
 * frees it; without holders it is freed at once. The caller has the lock. */
void srv_entry_drop(srv_models *m, srv_entry *e);
/* Adds the embedded models, except those whose id is already in the list or belongs to a refused
 * file. The caller has the lock, or no other thread knows the list yet. false: memory ran out. */
bool srv_entries_embedded(srv_models *m);
/* Returns the refused file of this model. NULL: there is none. The caller has one of the locks. */
srv_refused *srv_refused_find(const srv_models *m, const char *id);
/* Derives the model's id from a file name by removing `suffix`. false: the name lacks this suffix,
 * begins with ".", is too long, or has a character that is not safe in a URL path. */
bool srv_entry_id(const char *name, const char *suffix, char id[SRV_MODEL_ID + 1]);
/* The suffix of model files that this program writes. */
#define SRV_MODEL_SUFFIX ".safetensors"
/* Moves the model and the vocabularies of the file into *to, and sets the facts from the metadata.
 * Frees the rest of the file. *to owns what was moved, even after an error. */
attn_status srv_entry_take(srv_model *to, attn_model_file *file, attn_error *err);

/* --- model_dir.c --- */

/* Scans models_dir if it has changed since the last scan. */
void srv_models_refresh(srv_models *m);
/* Returns whether srv_models_refresh would scan. */
bool srv_models_is_stale(srv_models *m);
/* Writes a new model of origin "made" to models_dir, if there is one and it can be written, and
 * sets model.durable and `file`. The caller has `files`. Returns 0 or an errno value. */
int srv_models_write(srv_models *m, srv_entry *e);
/* Deletes the file of a durable model, and makes the deletion durable. The caller has `files`.
 * Returns 0, or an errno value, which is also logged. */
int srv_models_unlink(srv_models *m, const char *id);
/* Removes files that were left incomplete by processes that have ended. */
void srv_models_sweep(srv_models *m);
/* Refuses an entry whose file cannot be used: notes and logs the reason. Does nothing if the entry
 * is no longer in the list. A file is never refused because memory ran out. */
void srv_models_refuse(srv_models *m, srv_entry *e, const attn_error *why);
/* Frees the list of refused files. The caller has `files`. */
void srv_models_forgive(srv_models *m);
/* Returns whether the file of this model is refused, and copies the reason. */
bool srv_models_why(srv_models *m, const char *id, srv_refusal *out);

#endif
