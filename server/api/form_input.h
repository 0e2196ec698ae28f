/* The forms of attention in a request (score, position, pattern, projections): their field tables,
 * and the conversion of decoded objects to structs of the library. */
#ifndef SRV_FORM_INPUT_H
#define SRV_FORM_INPUT_H

#include "api/scope.h"

typedef struct srv_score_input {
    uint64_t given;
    int kind; /* an attn_score_kind */
    attn_tensor w_q, w_k, b, v, w;
} srv_score_input;

typedef struct srv_position_input {
    uint64_t given;
    int kind; /* index into the field's choices: attn_position_kind - 1 */
    attn_tensor slopes, table, key_table, value_table;
    int64_t max_distance, dims;
    bool bidirectional;
    int layout; /* attn_rotary - 1; -1: not given */
    double base;
} srv_position_input;

typedef struct srv_pattern_input {
    uint64_t given;
    int kind; /* an attn_pattern_kind */
    int64_t radius, stride, size, keys, local;
} srv_pattern_input;

typedef struct srv_projections_input {
    uint64_t given;
    attn_tensor w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o;
    int64_t num_heads, num_kv_heads;
    bool add_positions;
} srv_projections_input;

extern const srv_field srv_score_fields[], srv_position_fields[], srv_pattern_fields[],
    srv_projections_fields[];
extern const char *const srv_position_names[]; /* "none", "alibi", … by attn_position_kind */
extern const char *const srv_stage_names[];    /* "raw", … "probs" by attn_stage */
extern const char *const srv_pair_layouts[];   /* "interleaved", "halves" */

void srv_position_init(void *input); /* sets a srv_position_input to its defaults */

/* The functions read an object of the request into a struct of the library. `scope` is the object
 * around it. Parameters must be finite unless `any` is true. Each function adds the number of
 * elements of its tensors to *parameters. false: a problem is set. */
bool srv_score_read(const srv_scope *scope, const srv_score_input *in, bool any, attn_score *out,
                    size_t *parameters);
bool srv_position_read(const srv_scope *scope, const srv_position_input *in, bool any,
                       attn_position *out, size_t *parameters);
bool srv_projections_read(const srv_scope *scope, const srv_projections_input *in, bool any,
                          attn_projections *out, size_t *parameters);
bool srv_pattern_read(const srv_scope *scope, const srv_pattern_input *in, attn_pattern *out);
/* Reads one tensor that is a field of `scope`, under the same rules. */
bool srv_parameter_read(const srv_scope *scope, const char *name, const attn_tensor *in, bool any,
                        attn_tensor *out, size_t *parameters);

#endif
