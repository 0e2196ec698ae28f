/* Models of files that other programs wrote (store/weights.h). A scan of models_dir only finds
 * their names. Their files are opened when a request first asks for the model; they give its
 * description (facts) and the data for passes. The data stays in memory until the setting
 * models_bytes has no room for another model. Then the models that nobody holds leave memory, the
 * least recently used one first. */
#ifndef SRV_MODEL_KNOWN_H
#define SRV_MODEL_KNOWN_H

#include "store/model_entries.h"

/* Returns whether the name in models_dir, which is open as `dir`, belongs to such a model. If so,
 * sets its id and the state of its files. */
bool srv_known_is(int dir, const char *name, char id[SRV_MODEL_ID + 1], srv_file_state *state);
/* Makes an entry that has only the name of the model. NULL: out of memory. */
srv_entry *srv_known_new(const char *id, const char *name, const srv_file_state *state);
/* Returns the id of the mask token, "[MASK]" or "<mask>". -1: there is none. */
int32_t srv_known_mask(const attn_tokenizer *t);

/* The parts of a model that can be in memory: only its description, or also the data for passes. */
typedef enum srv_known_part { SRV_KNOWN_FACTS, SRV_KNOWN_ALL } srv_known_part;
/* Returns whether the part is in memory. The caller has the lock. */
bool srv_known_has(const srv_entry *e, srv_known_part part);
/* Reads the part of an entry, unless it is in memory. The caller holds the entry and has no lock.
 * Errors are those of srv_weights_open and attn_known_read, and ATTN_ELIMIT at "models_bytes":
 * there is no room, and err->text has the reason. */
attn_status srv_known_read(srv_models *m, srv_entry *e, srv_known_part part, attn_error *err);
/* Returns whether a model that has been described would fit in models_bytes alone. */
bool srv_known_may_fit(const srv_models *m, const srv_entry *e);
/* Returns whether another program has written to the files of a model that is in memory. */
bool srv_known_changed(const srv_entry *e);
/* Removes the data for passes of models that nobody holds, until models_bytes has room for `bytes`
 * more. Returns a list for srv_loaded_free, which the caller calls without the lock. Sets *fits to
 * whether there is room. The caller has the lock. */
srv_loaded *srv_known_make_room(srv_models *m, size_t bytes, bool *fits);
#endif
