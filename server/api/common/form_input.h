/* The forms of attention in a request: score, position, normalizer, pattern and projections. This
 * header has their field tables, which decode into structs of the library, and the checks of the
 * decoded objects. */
#ifndef SRV_FORM_INPUT_H
#define SRV_FORM_INPUT_H

#include <attn/input_rows.h>

#include "api/common/axes_input.h"
#include "api/common/scope.h"

extern const srv_field srv_score_fields[], srv_position_fields[], srv_pattern_fields[],
    srv_normalizer_fields[], srv_mix_fields[], srv_subtract_fields[], srv_projections_fields[],
    srv_scaling_fields[];
#define SRV_SCALING_ROW(T, member)                                                                 \
    SRV_NAMED_ROW(T, "scaling", member, SRV_OBJECT,                                                \
                  "rotary: frequencies for texts longer than those of the training, instead of "   \
                  "base^(-2t/dims). They and the angles are float32, as in transformers.",         \
                  .fields = srv_scaling_fields)
/* The fields of projections that are inputs and parameters of a model of /v2: all but `seed`. Under
 * /v2, `seed` is the seed of dropout. */
#define SRV_PROJECTIONS_V2 (srv_projections_fields + 1)

/* A positional encoding of a request. */
typedef struct srv_position_item {
    srv_given_bits given;
    attn_position position;
    srv_objects axes; /* array of srv_axis, which srv_position_check reads into position.axes */
} srv_position_item;

/* Each function checks one decoded object: it refuses fields that do not belong to the object's
 * kind. Bit i of *given says whether field i of the object was given; `scope` is that of the outer
 * object. Parameters must be finite unless `any` is true. The number of elements of all parameters
 * is added to *parameters. false: a problem is set. */
bool srv_score_check(const srv_scope *scope, const attn_score *score, const srv_given_bits *given,
                     bool any, size_t *parameters);
/* `at` is the JSON pointer of the item. */
bool srv_position_check(const srv_scope *scope, const char *at, srv_position_item *item, bool any,
                        size_t *parameters);
/* The parameters of a scaling are constants. They are not counted as parameters. */
bool srv_scaling_check(const srv_scope *scope, const attn_rotary_scaling *scaling, bool any);
bool srv_normalizer_check(const srv_scope *scope, const attn_normalizer *normalizer,
                          const srv_given_bits *given, bool any, size_t *parameters);
bool srv_mix_check(const srv_scope *scope, const attn_mix *mix, const srv_given_bits *given,
                   bool any, size_t *parameters);
bool srv_subtract_check(const srv_scope *scope, const attn_subtract *subtract,
                        const srv_given_bits *given, bool any, size_t *parameters);
bool srv_projections_check(const srv_scope *scope, const attn_projections *projections,
                           const srv_given_bits *given, bool any, size_t *parameters);
/* `name` is the path of the pattern in the object of `scope`. */
bool srv_pattern_check(const srv_scope *scope, const char *name, const attn_pattern *pattern,
                       const srv_given_bits *given);
/* Checks that the tensor, the field `name` of `scope`, is finite unless `any` is true, and adds its
 * number of elements to *parameters. false: a problem is set. */
bool srv_parameter_check(const srv_scope *scope, const char *name, const attn_tensor *t, bool any,
                         size_t *parameters);

#endif
