/* Models of files that other programs wrote (store/weights.h). A scan of models_dir only finds their
 * names. Their files are opened when a request first asks for the model, and tell what it is. What a
 * pass needs stays in memory until the setting models_bytes has no room for another model; then those
 * that nobody holds leave, the least recently used one first. */
#ifndef SRV_MODEL_KNOWN_H
#define SRV_MODEL_KNOWN_H

#include "store/model_entries.h"

/* Returns whether a name in models_dir, which is open as `dir`, is that of such a model, and sets its
 * id and the state of its files. */
bool srv_known_is(int dir, const char *name, char id[SRV_MODEL_ID + 1], srv_file_state *state);
/* Makes an entry that only has its name. NULL: out of memory. */
srv_entry *srv_known_new(const char *id, const char *name, const srv_file_state *state);
/* Returns the id of the token that stands for a masked word, "[MASK]" or "<mask>"; -1: none does. */
int32_t srv_known_mask(const attn_tokenizer *t);

/* What is to be in memory: what the model is, or what a pass needs, too. */
typedef enum srv_known_part { SRV_KNOWN_FACTS, SRV_KNOWN_ALL } srv_known_part;
/* Returns whether the part is in memory. The caller has the lock. */
bool srv_known_has(const srv_entry *e, srv_known_part part);
/* Reads the part of an entry that the caller holds, unless it is in memory. The caller has no lock.
 * Errors as srv_weights_open and attn_known_read; ATTN_ELIMIT at "models_bytes": there is no room,
 * and err->text says why. */
attn_status srv_known_read(srv_models *m, srv_entry *e, srv_known_part part, attn_error *err);
/* Returns whether a model that has been described would fit in models_bytes alone. */
bool srv_known_may_fit(const srv_models *m, const srv_entry *e);
/* Returns whether another program has written to the files of a model that is in memory. */
bool srv_known_changed(const srv_entry *e);
/* Takes models out of memory that nobody holds until models_bytes has room for `bytes` more. Returns
 * a list for srv_loaded_free, which the caller calls without the lock. *fits: there is room. The
 * caller has the lock. */
srv_loaded *srv_known_make_room(srv_models *m, size_t bytes, bool *fits);
#endif
