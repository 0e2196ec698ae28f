/* Functions that find blocks and layers in the stacks of a model, without a pass. */
#include "models/model_private.h"

const model_stack *attn_models_last(const attn_model *m) {
    return m->decoder.count ? &m->decoder : &m->encoder;
}

size_t attn_models_last_block(const model_stack *stack, const model_operation *operation) {
    for (size_t i = stack->count; i-- > 0;)
        if (stack->blocks[i].operation == operation)
            return i;
    return stack->count;
}

size_t attn_models_layer_of(const model_stack *stack, size_t i) {
    size_t layer = 0;
    for (size_t k = 0; k < i; k++)
        layer += stack->blocks[k].operation == stack->blocks[i].operation;
    return layer;
}
