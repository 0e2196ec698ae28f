/* Rows of field tables for the settings of models (attn/model_config.h). */
#ifndef SRV_MODEL_FIELDS_H
#define SRV_MODEL_FIELDS_H

#include <attn/model_config.h>

#include "wire/decode.h"

#define SRV_MODEL_WORD SRV_ENUM
#define SRV_MODEL_SIZE SRV_INT
#define SRV_MODEL_REAL SRV_REAL
#define SRV_MODEL_FLAG SRV_BOOL
/* The row of a setting in the field table of struct T, whose member `config` is the
 * configuration. */
#define SRV_MODEL_ROW(T, config, member, what, words, least, most, sentence)                       \
    SRV_NAMED_ROW(T, #member, config.member, SRV_MODEL_##what, sentence, .choices = words,         \
                  .min = least, .max = most),

#endif
