/* Model configurations as texts and back, by one table. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_keys.h"

const char *const srv_model_architectures[] = {"seq2seq", "transformer", NULL};
const char *const srv_model_attentions[] = {"multihead", "dot",     "additive", "general", "concat",
                                            "local",     "strided", "none",     NULL};
const char *const srv_model_positions[] = {"sinusoidal", "learned", "relative", "shaw",
                                           "alibi",      "none",    NULL};
const char *const srv_model_norms[] = {"before", "after", NULL};

#define MEMBER(name, kind)                                                                         \
    { #name, offsetof(attn_model_config, name), kind, false }
#define LATER(name, kind)                                                                          \
    { #name, offsetof(attn_model_config, name), kind, true }

const srv_model_key srv_model_keys[] = {
    MEMBER(architecture, SRV_KEY_ARCHITECTURE),
    MEMBER(attention, SRV_KEY_ATTENTION),
    MEMBER(positions, SRV_KEY_POSITIONS),
    MEMBER(source_vocabulary, SRV_KEY_SIZE),
    MEMBER(target_vocabulary, SRV_KEY_SIZE),
    MEMBER(width, SRV_KEY_SIZE),
    MEMBER(heads, SRV_KEY_SIZE),
    MEMBER(layers, SRV_KEY_SIZE),
    MEMBER(max_length, SRV_KEY_SIZE),
    MEMBER(radius, SRV_KEY_SIZE),
    MEMBER(stride, SRV_KEY_SIZE),
    MEMBER(reach, SRV_KEY_SIZE),
    MEMBER(dropout, SRV_KEY_DOUBLE),
    MEMBER(read_padding, SRV_KEY_BOOL),
    LATER(feed_forward, SRV_KEY_SIZE),
    LATER(norm_after, SRV_KEY_BOOL),
    {0},
};
_Static_assert(sizeof srv_model_keys / sizeof *srv_model_keys == SRV_MODEL_KEY_COUNT, "keys");

bool srv_model_key_set(const srv_model_key *key, attn_model_config *config, const char *text) {
    void *member = (char *)config + key->offset;
    char *end;
    unsigned long long whole;
    switch (key->kind) {
    case SRV_KEY_ARCHITECTURE:
        return attn_model_architecture_parse(text, member);
    case SRV_KEY_ATTENTION:
        return attn_model_attention_parse(text, member);
    case SRV_KEY_POSITIONS:
        return attn_model_positions_parse(text, member);
    case SRV_KEY_SIZE:
        whole = strtoull(text, &end, 10);
        *(size_t *)member = whole;
        return *text >= '0' && *text <= '9' && !*end;
    case SRV_KEY_DOUBLE:
        *(double *)member = strtod(text, &end);
        return end != text && !*end;
    case SRV_KEY_BOOL:
        *(bool *)member = !strcmp(text, "true");
        return *(bool *)member || !strcmp(text, "false");
    }
    return false;
}

char *srv_model_key_text(const srv_model_key *key, const attn_model_config *config, char *buf,
                         size_t size) {
    const void *member = (const char *)config + key->offset;
    switch (key->kind) {
    case SRV_KEY_ARCHITECTURE:
        snprintf(buf, size, "%s", attn_model_architecture_name(config->architecture));
        break;
    case SRV_KEY_ATTENTION:
        snprintf(buf, size, "%s", attn_model_attention_name(config->attention));
        break;
    case SRV_KEY_POSITIONS:
        snprintf(buf, size, "%s", attn_model_positions_name(config->positions));
        break;
    case SRV_KEY_SIZE:
        snprintf(buf, size, "%zu", *(const size_t *)member);
        break;
    case SRV_KEY_DOUBLE:
        snprintf(buf, size, "%.17g", *(const double *)member);
        break;
    case SRV_KEY_BOOL:
        snprintf(buf, size, "%s", *(const bool *)member ? "true" : "false");
        break;
    }
    return buf;
}
