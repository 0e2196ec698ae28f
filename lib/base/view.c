/* Offsets of flattened batch entries. */
#include "base/view.h"

const ptrdiff_t *attn_view_batches(attn_arena *arena, const size_t *batch, int rank,
                                   const ptrdiff_t *strides) {
    static const ptrdiff_t one_entry[] = {0};
    size_t B = 1, bytes;
    for (int a = 0; a < rank; a++)
        if (!attn_size_mul(B, batch[a], &B))
            return NULL;
    if (B == 1)
        return one_entry;
    if (!attn_size_mul(B, sizeof(ptrdiff_t), &bytes))
        return NULL;
    ptrdiff_t *offsets = attn_arena_take(arena, bytes);
    for (size_t b = 0; offsets && b < B; b++) {
        size_t rest = b;
        offsets[b] = 0;
        for (int a = rank - 1; a >= 0; a--) {
            offsets[b] += (ptrdiff_t)(rest % batch[a]) * strides[a];
            rest /= batch[a];
        }
    }
    return offsets;
}
