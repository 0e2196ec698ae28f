/* Translates words of configurations to the words of settings (model_config.h). */
#include <string.h>

#include "models/families/family.h"

/* Words of configurations (`theirs`) and of settings (`ours`), for settings with a table of
 * words. */
static const struct {
    const char *const *words;
    const char *theirs, *ours;
} synonyms[] = {
    {attn_model_activations, "gelu_new", "gelu_tanh"},
    {attn_model_activations, "gelu_pytorch_tanh", "gelu_tanh"},
    {attn_model_activations, "gelu_fast", "gelu_tanh"},
    {attn_model_activations, "swish", "silu"},
    {attn_model_choices, "true", "yes"},
    {attn_model_choices, "false", "no"},
    {attn_model_parallels, "true", "two_norms"},
    {attn_model_parallels, "false", "no"},
};

static const attn_model_setting *setting_of(const char *name) {
    const attn_model_setting *s = attn_model_settings;
    while (s->name && strcmp(s->name, name))
        s++;
    return s;
}

attn_status attn_family_set(known_config *k, const char *key, const char *setting, const char *text,
                            attn_error *err) {
    const attn_model_setting *s = setting_of(setting);
    const char *ours = text;
    for (size_t i = 0; text && s->words && i < sizeof synonyms / sizeof *synonyms; i++)
        if (s->words == synonyms[i].words && !strcmp(text, synonyms[i].theirs))
            ours = synonyms[i].ours;
    return text && s->name && attn_models_set(s, &k->config, ours)
               ? ATTN_OK
               : attn_fail(err, ATTN_EUNSUPPORTED, key, "\"%.60s\" of %s is not implemented",
                           text ? text : "a list", key);
}
