/* The members of an attn_model_config as keys of a model file's metadata. */
#ifndef SRV_MODEL_KEYS_H
#define SRV_MODEL_KEYS_H

#include "attn/attn.h"

typedef struct srv_model_key {
    const char *name;
    size_t offset; /* of the member */
    enum {
        SRV_KEY_ARCHITECTURE,
        SRV_KEY_ATTENTION,
        SRV_KEY_POSITIONS,
        SRV_KEY_SIZE,
        SRV_KEY_DOUBLE,
        SRV_KEY_BOOL
    } kind;
    bool optional; /* files of earlier versions lack it: the default */
} srv_model_key;

extern const srv_model_key srv_model_keys[]; /* name NULL ends it */
enum { SRV_MODEL_KEY_COUNT = 17 };

/* The names of the library's enumerations, by their values, NULL behind the last. */
extern const char *const srv_model_architectures[],
    *const srv_model_attentions[], *const srv_model_positions[], *const srv_model_norms[];

/* false: the text is no value of the member. */
bool srv_model_key_set(const srv_model_key *key, attn_model_config *config, const char *text);
/* The member as text, into buf; returns buf. */
char *srv_model_key_text(const srv_model_key *key, const attn_model_config *config, char *buf,
                         size_t size);

#endif
