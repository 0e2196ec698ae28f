/* Inputs as named tensors and texts: one table each, read in both directions. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs/run_private.h"

#define AT(member) offsetof(attn_inputs, member)

const attn_run_tensor_name attn_run_tensor_names[] = {
    {"query", AT(query)},
    {"key", AT(key)},
    {"value", AT(value)},
    {"past_key", AT(past_key)},
    {"past_value", AT(past_value)},
    {"sinks", AT(sinks)},
    {"score.w_q", AT(score.w_q)},
    {"score.w_k", AT(score.w_k)},
    {"score.b", AT(score.b)},
    {"score.v", AT(score.v)},
    {"score.w", AT(score.w)},
    {"position.slopes", AT(position.slopes)},
    {"position.table", AT(position.table)},
    {"position.key_table", AT(position.key_table)},
    {"position.value_table", AT(position.value_table)},
    {NULL, 0},
};

const attn_run_number_name attn_run_number_names[] = {
    {"run.layout", ATTN_RUN_ENUM, AT(layout), ATTN_BLD},
    {"run.num_heads", ATTN_RUN_SIZE, AT(num_heads), 0},
    {"run.num_kv_heads", ATTN_RUN_SIZE, AT(num_kv_heads), 0},
    {"run.scale", ATTN_RUN_REAL, AT(scale), 0},
    {"run.softcap", ATTN_RUN_REAL, AT(softcap), 0},
    {"run.score", ATTN_RUN_ENUM, AT(score.kind), ATTN_SCORE_COUNT - 1},
    {"run.position", ATTN_RUN_ENUM, AT(position.kind), ATTN_POSITION_ROTARY},
    {"run.max_distance", ATTN_RUN_I64, AT(position.max_distance), 0},
    {"run.unidirectional", ATTN_RUN_BOOL, AT(position.unidirectional), 0},
    {"run.rotary", ATTN_RUN_ENUM, AT(position.rotary), ATTN_ROTARY_HALVES},
    {"run.base", ATTN_RUN_REAL, AT(position.base), 0},
    {"run.dims", ATTN_RUN_I64, AT(position.dims), 0},
    {"run.dropout_p", ATTN_RUN_REAL, AT(dropout_p), 0},
    {"run.dropout_seed", ATTN_RUN_I64, AT(dropout_seed), 0},
    {"run.fill", ATTN_RUN_ENUM, AT(mask.fill), ATTN_FILL_REPLACE},
    {"run.fill_value", ATTN_RUN_REAL, AT(mask.fill_value), 0},
    {"run.offset", ATTN_RUN_ENUM, AT(mask.offset), ATTN_OFFSET_END},
    {"run.allow_nonfinite", ATTN_RUN_BOOL, AT(allow_nonfinite), 0},
    {"run.precision", ATTN_RUN_ENUM, AT(precision), ATTN_PRECISION_COUNT - 1},
    {NULL, ATTN_RUN_REAL, 0, 0},
};

_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(size_t) == sizeof(int64_t),
               "the table writes them so");

void attn_run_number_write(const attn_run_number_name *name, const attn_inputs *in, char *to) {
    const void *at = (const char *)in + name->offset;
    const size_t room = ATTN_RUN_KEY + 8;
    double real;
    int64_t integer = 0;
    switch (name->kind) {
    case ATTN_RUN_REAL:
        memcpy(&real, at, sizeof real);
        snprintf(to, room, "%.17g", real);
        return;
    case ATTN_RUN_SIZE:
    case ATTN_RUN_I64:
        memcpy(&integer, at, sizeof integer);
        break;
    case ATTN_RUN_ENUM:
        integer = *(const int *)at;
        break;
    case ATTN_RUN_BOOL:
        integer = *(const bool *)at;
        break;
    }
    snprintf(to, room, "%" PRId64, integer);
}

bool attn_run_number_read(const attn_run_number_name *name, const char *text, attn_inputs *in) {
    void *at = (char *)in + name->offset;
    char *end;
    if (!*text)
        return false;
    if (name->kind == ATTN_RUN_REAL) {
        const double real = strtod(text, &end);
        memcpy(at, &real, sizeof real);
        return !*end;
    }
    const int64_t integer = strtoll(text, &end, 10);
    if (*end)
        return false;
    switch (name->kind) {
    case ATTN_RUN_ENUM:
        *(int *)at = (int)integer;
        return integer >= 0 && integer <= name->most;
    case ATTN_RUN_BOOL:
        *(bool *)at = integer != 0;
        return true;
    case ATTN_RUN_SIZE:
        memcpy(at, &integer, sizeof integer);
        return integer >= 0;
    default:
        memcpy(at, &integer, sizeof integer);
        return true;
    }
}

#define LAYER_OUT                                                                                  \
    "%d %d %" PRId64 " %" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64    \
    " %" PRId64 " %.95s"
#define LAYER_IN                                                                                   \
    "%d %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64    \
    " %" SCNd64 " %n"

void attn_run_layer_write(const attn_mask_layer *layer, char *to) {
    const attn_pattern *p = &layer->pattern;
    snprintf(to, ATTN_RUN_LINE, LAYER_OUT, (int)layer->kind, (int)layer->semantics,
             layer->window[0], layer->window[1], layer->pad_id, (int)p->kind, p->radius, p->stride,
             p->size, p->keys, p->local, layer->where ? layer->where : "");
}

bool attn_run_layer_read(const char *line, attn_mask_layer *layer) {
    int kind, semantics, pattern, used = 0;
    attn_mask_layer l = {.kind = ATTN_LAYER_CAUSAL};
    attn_pattern *p = &l.pattern;
    if (sscanf(line, LAYER_IN, &kind, &semantics, &l.window[0], &l.window[1], &l.pad_id, &pattern,
               &p->radius, &p->stride, &p->size, &p->keys, &p->local, &used) != 11 ||
        kind < 0 || kind > ATTN_LAYER_BITS || semantics < 0 || semantics > ATTN_SEM_ADDITIVE ||
        pattern < 0 || pattern > ATTN_PATTERN_GLOBAL)
        return false;
    l.kind = (attn_layer_kind)kind;
    l.semantics = (attn_semantics)semantics;
    p->kind = (attn_pattern_kind)pattern;
    l.where = line + used;
    *layer = l;
    return true;
}
