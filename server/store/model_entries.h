/* The list of models in memory, with which model_registry.c and model_dir.c work. `lock` guards the
 * list, the counts and the holds. `files` guards models_dir: it is held during a scan, and while a
 * file is written or deleted and the list is changed with it, so that no scan sees only one of the
 * two changes. A thread that takes both locks takes `files` first. */
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

/* What a pass of a known model needs (model_known.h). */
typedef struct srv_loaded srv_loaded;
struct srv_loaded {
    srv_loaded *next; /* of a list for srv_loaded_free */
    srv_weights files;
    attn_known_model known;
    attn_tokenizer *tokenizer;
    size_t bytes; /* as they count in srv_models.known_bytes */
};
typedef struct srv_entry srv_entry;
struct srv_entry {
    srv_model model;
    srv_held held;            /* place in the list of srv_models */
    const srv_file *embedded; /* the embedded file to parse on first use; NULL: already parsed */
    srv_file_state file;      /* the state of the file in models_dir when it was read or written */
    bool seen;                /* the current scan of models_dir has found the file */
    /* Of a known model: `reading` is held while its files are opened. The other members are guarded
     * by `lock`. */
    pthread_mutex_t reading;
    bool described;     /* model.known tells what it is */
    srv_loaded *loaded; /* what a pass needs; NULL: not in memory */
    int64_t used_ns;    /* when a request for a pass held it last */
};

enum { SRV_REFUSED_TEXT = 320 }; /* buffer size of the reason why a file is not served */

/* Why a file is not served. */
typedef struct srv_refusal {
    int failed; /* errno value of trouble that says nothing about the file; 0: wrong contents */
    char text[SRV_REFUSED_TEXT];
} srv_refusal;

/* A file of models_dir that is not served. It is read again when it has changed, or when a request
 * comes after trouble. */
typedef struct srv_refused {
    struct srv_refused *next;
    srv_file_state file;
    bool seen;
    char id[SRV_MODEL_ID + 1];
    srv_refusal why;
} srv_refused;

/* A model of which srv_models_await has said that it cannot be read now. */
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
    size_t count, bytes; /* number and bytes of models of origin "made", also those in the making */
    size_t known_bytes;  /* bytes of known models in memory */

    srv_refused *refused; /* changed with both locks, read with either */
    srv_awaited *awaited; /* this and the members below are guarded by `lock` */
    srv_file_state dir;   /* the state of models_dir before the last scan */
    /* false: some files were so young at the last scan that they may change unnoticed, or there was
     * trouble with them */
    bool settled;
    int64_t scanned_ns, looked_ns; /* the last scan; the last look at files of known models */
    int failed; /* errno value of the last scan that could not read models_dir; 0: none */
};

/* Makes an entry with a copy of *model. NULL: out of memory. */
srv_entry *srv_entry_new(const srv_model *model);
void srv_entry_free(srv_entry *e);
/* Frees a list of what passes needed. */
void srv_loaded_free(srv_loaded *list);
srv_entry *srv_entry_find(const srv_models *m, const char *id);
void srv_entry_list(srv_models *m, srv_entry *e);
/* Removes the entry from the list, and a model of origin "made" from the counts. Its last holder
 * frees it; without holders it is freed at once. The caller has the lock. */
void srv_entry_drop(srv_models *m, srv_entry *e);
/* Adds the embedded models whose ids are neither in the list yet nor those of refused files. The
 * caller has the lock, or no other thread knows the list yet. false: memory ran out. */
bool srv_entries_embedded(srv_models *m);
/* Returns the refused file of this model. NULL: there is none. The caller has one of the locks. */
srv_refused *srv_refused_find(const srv_models *m, const char *id);
/* Derives the model's id from a file name by removing `suffix`. false: the name lacks this suffix,
 * begins with ".", is too long, or has a character that is not safe in a URL path. */
bool srv_entry_id(const char *name, const char *suffix, char id[SRV_MODEL_ID + 1]);
/* The suffix of model files that this program writes. */
#define SRV_MODEL_SUFFIX ".safetensors"
/* Moves the model and the vocabularies of the file into `to`, with what the metadata say, and frees
 * the rest of the file. An error leaves them in `to`, too. */
attn_status srv_entry_take(srv_model *to, attn_model_file *file, attn_error *err);

/* --- model_dir.c --- */

/* Scans models_dir if it has changed since the last scan. */
void srv_models_refresh(srv_models *m);
/* Returns whether srv_models_refresh would scan. */
bool srv_models_is_stale(srv_models *m);
/* Writes a new model of origin "made" to models_dir, if there is one and it can be written, and
 * sets model.durable and `file`. The caller has `files`. Returns 0 or an errno value. */
int srv_models_write(srv_models *m, srv_entry *e);
/* Deletes the file of a durable model durably. The caller has `files`. Returns 0, or an errno
 * value, which is also logged. */
int srv_models_unlink(srv_models *m, const char *id);
/* Removes files that processes which have ended left half-written. */
void srv_models_sweep(srv_models *m);
/* Refuses an entry whose file is not usable, unless the entry is no longer in the list: notes and
 * logs why. An error of memory is no refusal of the file. */
void srv_models_refuse(srv_models *m, srv_entry *e, const attn_error *why);
/* Frees the list of refused files. The caller has `files`. */
void srv_models_forgive(srv_models *m);
/* Returns whether the file of this model is refused, and copies the reason. */
bool srv_models_why(srv_models *m, const char *id, srv_refusal *out);

#endif
