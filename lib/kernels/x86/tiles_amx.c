/* Tile products by the instruction TDPBF16PS of AMX. C is computed in blocks of 2 x 2 tiles. With
 * three parts, a step has 24 products, and in the order of tiles.h it needs only 14 loads. So the
 * multiplier (16 cycles a product) does not wait for loads (8 cycles from the L1 cache, about 36
 * from the L2 cache):
 *
 *             B: tmm6  tmm7           all 8 registers: 4 of C, 2 of A, 2 of B
 *   A: tmm4      tmm0  tmm1
 *      tmm5      tmm2  tmm3
 *
 * C stays in registers over all steps and products of parts. Two columns of tiles of B come from
 * the L2 cache and are multiplied by all rows before the next two.
 *
 * Each kernel configures the tile registers at its start and releases them at its end. This takes
 * about 100 ns, and a kernel takes several thousand. In return no thread keeps tile registers that
 * every context switch would have to save.
 *
 * The kernels run only on machines on which attn_tiles_agree has found the product equal to the
 * plain one (processor_x86.c). */
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/x86/tiles_amx.h"

#define NAME(x) x##_amx
#define BASE    (&attn_kernels_avx512)
#define PRODUCT product
#define BEGIN   attn_amx_begin()
#define END     attn_amx_end()

static void product(const attn_tiles *t);

#include "kernels/x86/tiles_body.h"

INLINE void nothing(void *state) {
    (void)state;
}

INLINE void blocks(const int parts, const attn_tiles *t) {
    for (size_t j = 0; j < t->col_tiles; j += 2)
        for (size_t i = 0; i < t->row_tiles; i += 2)
            attn_amx_blocks(parts, t, i, j, nothing, NULL);
}

static __attribute__((noinline)) void product(const attn_tiles *t) {
    MEMORY_IS_READ;
    if (t->parts == 3)
        blocks(3, t);
    else if (t->parts == 2)
        blocks(2, t);
    else
        blocks(1, t);
    MEMORY_IS_READ;
}

void attn_tiles_amx(const attn_tiles *t) {
    attn_amx_begin();
    product(t);
    attn_amx_end();
}

/* Linux permits the use of the tile registers, 8 KiB for each thread, on request: arch_prctl(
 * ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). The permission holds for the process and all threads
 * that it starts later. */
bool attn_tiles_amx_permitted(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
