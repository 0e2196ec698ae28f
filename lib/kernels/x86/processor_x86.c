/* processor.h for x86-64: detects the instruction sets and makes the kernel tables for them. */
#include <cpuid.h>
#include <pthread.h>

#include "kernels/blocks.h"
#include "kernels/pointwise.h"
#include "kernels/processor.h"
#include "kernels/x86/tiles.h"
#include "kernels/x86/vectors.h"

static bool has_avx512bf16(void) {
    return attn_has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* Returns whether the processor has AMX-TILE and AMX-BF16 (leaf 7 of CPUID). */
static bool has_tiles(void) {
    enum { BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & BF16 && d & TILE;
}

static attn_tiles_state tiles_state;

static void look_for_tiles(void) {
    __builtin_cpu_init();
    if (has_avx512bf16() && has_tiles() && attn_tiles_amx_permitted())
        tiles_state = attn_tiles_agree(attn_tiles_amx) ? ATTN_TILES_NATIVE : ATTN_TILES_DIFFER;
}

attn_tiles_state attn_processor_tiles(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_for_tiles);
    return tiles_state;
}

bool attn_isa_available(attn_isa isa) {
    __builtin_cpu_init();
    switch (isa) {
    case ATTN_ISA_REF:
        return true;
    case ATTN_ISA_AVX2:
        return attn_has_avx2();
    case ATTN_ISA_AVX512:
        return attn_has_avx512();
    case ATTN_ISA_AMX:
        return attn_processor_tiles() == ATTN_TILES_NATIVE;
    case ATTN_ISA_COUNT:
        break;
    }
    return false;
}

/* --- tables --- */

const attn_pointwise *attn_pointwise_of(attn_isa isa) {
    switch (isa) {
    case ATTN_ISA_REF:
        return &attn_pointwise_ref;
    case ATTN_ISA_AVX2:
        return &attn_pointwise_avx2;
    case ATTN_ISA_AMX:
        return attn_pointwise_of(attn_kernels_vector()->isa);
    default:
        return &attn_pointwise_avx512;
    }
}

const attn_block_kernels *attn_block_kernels_of(attn_isa isa) {
    switch (isa) {
    case ATTN_ISA_REF:
        return NULL;
    case ATTN_ISA_AVX2:
        return &attn_block_kernels_avx2;
    case ATTN_ISA_AMX:
        return attn_block_kernels_of(attn_kernels_vector()->isa);
    default:
        return &attn_block_kernels_avx512;
    }
}

attn_blocks_by_integers *attn_blocks_integers_of(attn_isa isa, const attn_block_format *format,
                                                 size_t rows) {
    if (isa != ATTN_ISA_AMX || attn_processor_tiles() != ATTN_TILES_NATIVE || !format->split ||
        format->group != ATTN_BLOCK_TILED)
        return NULL;
    if (rows > ATTN_BLOCK_ROWS)
        return attn_blocks_product_amx;
    const bool vnni = __builtin_cpu_supports("avx512vnni") && attn_blocks_vnni_has(format);
    return vnni ? attn_blocks_product_vnni : NULL;
}

/* The kernel tables that are made from the tables of plain products. */
static struct {
    attn_kernels fast[ATTN_ISA_AMX], bf16[ATTN_ISA_AMX]; /* by instruction set */
    attn_kernels pairs;                                  /* for bf16 with vdpbf16ps */
    attn_kernels amx[ATTN_PRECISION_COUNT];              /* by precision */
} made;

static attn_kernels renamed_copy(const attn_kernels *base, attn_isa isa, const char *name) {
    attn_kernels k = *base;
    k.isa = isa;
    k.name = name;
    return k;
}

static void make_tables_avx2(void) {
    made.fast[ATTN_ISA_AVX2] = made.bf16[ATTN_ISA_AVX2] = attn_kernels_avx2;
    attn_kernels_coarse_avx2(&made.fast[ATTN_ISA_AVX2]);
    attn_kernels_round_avx2(&made.bf16[ATTN_ISA_AVX2]);
}

static void make_tables_avx512(void) {
    made.fast[ATTN_ISA_AVX512] = made.bf16[ATTN_ISA_AVX512] = attn_kernels_avx512;
    attn_kernels_coarse_avx512(&made.fast[ATTN_ISA_AVX512]);
    attn_kernels_round_avx512(&made.bf16[ATTN_ISA_AVX512]);
    if (has_avx512bf16()) {
        made.pairs = renamed_copy(&attn_kernels_avx512, ATTN_ISA_AVX512, "avx512_bf16");
        attn_kernels_tiles_avx512bf16(&made.pairs, ATTN_PRECISION_BF16);
    }
}

static void make_table_amx(attn_precision precision) {
    const attn_kernels *base = attn_kernels_vector();
    attn_kernels *k = &made.amx[precision];
    const bool native = attn_processor_tiles() == ATTN_TILES_NATIVE;
    if (precision == ATTN_PRECISION_FAST)
        base = &made.fast[base->isa];
    *k = renamed_copy(base, ATTN_ISA_AMX, "amx");
    (native ? attn_kernels_tiles_amx : attn_kernels_tiles_plain)(k, precision);
    if (native)
        attn_kernels_pass_amx(k);
}

/* Makes the tables. A function that fills the table of an instruction set may use these
 * instructions itself, so it is called only if the processor has them. */
static void make_tables(void) {
    __builtin_cpu_init();
    made.fast[ATTN_ISA_REF] = made.bf16[ATTN_ISA_REF] = attn_kernels_ref;
    attn_kernels_round_ref(&made.fast[ATTN_ISA_REF], ATTN_PRECISION_FAST);
    attn_kernels_round_ref(&made.bf16[ATTN_ISA_REF], ATTN_PRECISION_BF16);
    if (attn_has_avx2())
        make_tables_avx2();
    if (attn_has_avx512())
        make_tables_avx512();
    for (int p = 0; attn_kernels_vector() && p < ATTN_PRECISION_COUNT; p++)
        make_table_amx((attn_precision)p);
}

static const attn_kernels *plain_table(attn_isa isa) {
    switch (isa) {
    case ATTN_ISA_AVX2:
        return &attn_kernels_avx2;
    case ATTN_ISA_AVX512:
        return &attn_kernels_avx512;
    default:
        return &attn_kernels_ref;
    }
}

/* Returns the table of an instruction set that the processor has. For the precision `fast`, only
 * the AMX table uses bfloat16 products. With the other instruction sets, three products of bfloat16
 * pairs are slower than one product of floats. So their tables for `fast` have plain products, with
 * faster exponentials and sums. */
static const attn_kernels *table_of(attn_isa isa, attn_precision precision, bool tanh_score) {
    if (isa == ATTN_ISA_AMX && !tanh_score)
        return &made.amx[precision];
    if (isa == ATTN_ISA_AMX)
        isa = attn_kernels_vector()->isa;
    if (precision == ATTN_PRECISION_FP32)
        return plain_table(isa);
    if (precision == ATTN_PRECISION_FAST)
        return &made.fast[isa];
    const bool pairs = isa == ATTN_ISA_AVX512 && has_avx512bf16() && !tanh_score;
    return pairs ? &made.pairs : &made.bf16[isa];
}

void attn_processor_tables(attn_kernel_tables tables) {
    make_tables();
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++) {
        const bool emulated = isa == ATTN_ISA_AMX && attn_kernels_vector();
        for (int p = 0; (emulated || attn_isa_available((attn_isa)isa)) && p < ATTN_PRECISION_COUNT;
             p++)
            for (int tanh_score = 0; tanh_score < 2; tanh_score++)
                tables[isa][p][tanh_score] = table_of((attn_isa)isa, (attn_precision)p, tanh_score);
    }
}
