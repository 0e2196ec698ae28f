/* Which instruction set: what the processor has, what was asked for. The mutable globals of the
 * library: the chosen one, set once at start, and tables made from others, once. */
#include <cpuid.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tiles.h"

static const char *const names[ATTN_ISA_COUNT] = {"ref", "avx2", "avx512", "amx"};

static _Atomic int chosen = -1;
static _Atomic int forced;
static _Atomic(const char *) chosen_why = "not chosen yet";

/* --- what the processor has --- */

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void) {
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* AMX-TILE and AMX-BF16, leaf 7 of CPUID. */
static bool has_tiles(void) {
    enum { BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & BF16 && d & TILE;
}

enum { TILES_NONE = 0, TILES_DIFFER, TILES_NATIVE };
static int tiles_state;

static void look_for_tiles(void) {
    __builtin_cpu_init();
    if (has_avx512bf16() && has_tiles() && attn_tiles_amx_permitted())
        tiles_state = attn_tiles_agree(attn_tiles_amx) ? TILES_NATIVE : TILES_DIFFER;
}

static int native_tiles(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_for_tiles);
    return tiles_state;
}

const attn_kernels *attn_kernels_vector(void) {
    return has_avx512() ? &attn_kernels_avx512 : has_avx2() ? &attn_kernels_avx2 : NULL;
}

bool attn_isa_available(attn_isa isa) {
    __builtin_cpu_init();
    switch (isa) {
    case ATTN_ISA_REF:
        return true;
    case ATTN_ISA_AVX2:
        return has_avx2();
    case ATTN_ISA_AVX512:
        return has_avx512();
    case ATTN_ISA_AMX:
        return native_tiles() == TILES_NATIVE;
    case ATTN_ISA_COUNT:
        break;
    }
    return false;
}

/* --- tables --- */

const attn_kernels *attn_kernels_of(attn_isa isa) {
    switch (isa) {
    case ATTN_ISA_AVX2:
        return &attn_kernels_avx2;
    case ATTN_ISA_AVX512:
        return &attn_kernels_avx512;
    case ATTN_ISA_AMX:
        return attn_kernels_vector();
    default:
        return &attn_kernels_ref;
    }
}

/* Tables made from plain ones when the first is asked for. */
static struct {
    attn_kernels fast_ref, bf16_ref, bf16_avx2, bf16_avx512, pairs_avx512;
    attn_kernels amx[ATTN_PRECISION_COUNT];
} made;

static attn_kernels copy(const attn_kernels *base, attn_isa isa, const char *name) {
    attn_kernels k = *base;
    k.isa = isa;
    k.name = name;
    return k;
}

/* What makes a table is compiled for the table's instruction set: only where the processor has it.
 */
static void make_tables(void) {
    __builtin_cpu_init();
    made.fast_ref = made.bf16_ref = attn_kernels_ref;
    attn_kernels_round_ref(&made.fast_ref, ATTN_PRECISION_FAST);
    attn_kernels_round_ref(&made.bf16_ref, ATTN_PRECISION_BF16);
    if (has_avx2()) {
        made.bf16_avx2 = attn_kernels_avx2;
        attn_kernels_round_avx2(&made.bf16_avx2);
    }
    if (has_avx512()) {
        made.bf16_avx512 = attn_kernels_avx512;
        attn_kernels_round_avx512(&made.bf16_avx512);
    }
    if (has_avx512bf16()) {
        made.pairs_avx512 = copy(&attn_kernels_avx512, ATTN_ISA_AVX512, "avx512_bf16");
        attn_kernels_tiles_avx512bf16(&made.pairs_avx512, ATTN_PRECISION_BF16);
    }
    for (int p = 0; attn_kernels_vector() && p < ATTN_PRECISION_COUNT; p++) {
        made.amx[p] = copy(attn_kernels_vector(), ATTN_ISA_AMX, names[ATTN_ISA_AMX]);
        if (native_tiles() == TILES_NATIVE)
            attn_kernels_tiles_amx(&made.amx[p], (attn_precision)p);
        else
            attn_kernels_tiles_plain(&made.amx[p], (attn_precision)p);
    }
}

/* For `fast`, three products of pairs take longer than one of floats, but on AMX. */
const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
    if (isa == ATTN_ISA_AMX && !tanh_score)
        return &made.amx[precision];
    if (isa == ATTN_ISA_AMX)
        isa = attn_kernels_vector()->isa;
    if (isa == ATTN_ISA_REF && precision == ATTN_PRECISION_FAST)
        return &made.fast_ref;
    if (precision != ATTN_PRECISION_BF16)
        return attn_kernels_of(isa);
    if (isa == ATTN_ISA_AVX512)
        return has_avx512bf16() && !tanh_score ? &made.pairs_avx512 : &made.bf16_avx512;
    return isa == ATTN_ISA_AVX2 ? &made.bf16_avx2 : &made.bf16_ref;
}

bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out) {
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++)
        if ((attn_isa_available((attn_isa)isa) || isa == (int)attn_isa_current()) &&
            strcmp(attn_kernels_with((attn_isa)isa, precision, tanh_score)->name, name) == 0) {
            *out = (attn_isa)isa;
            return true;
        }
    return false;
}

/* --- the choice --- */

const char *attn_precision_name(attn_precision precision) {
    static const char *const precisions[ATTN_PRECISION_COUNT] = {"fp32", "fast", "bf16"};
    return precisions[precision];
}

const char *attn_isa_name(attn_isa isa) {
    return names[isa];
}

bool attn_isa_parse(const char *name, attn_isa *out) {
    for (int i = 0; i < ATTN_ISA_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (attn_isa)i;
            return true;
        }
    return false;
}

/* Tiles can be asked for where they must be emulated. */
static bool can_be_asked_for(attn_isa isa) {
    return attn_isa_available(isa) || (isa == ATTN_ISA_AMX && attn_kernels_vector());
}

attn_status attn_isa_choose(const char *name, attn_error *err) {
    const char *why = "requested";
    if (!name || !*name || strcmp(name, "auto") == 0) {
        name = getenv("ATTN_ISA");
        why = "ATTN_ISA";
    }
    attn_isa isa = ATTN_ISA_REF;
    const bool best = !name || !*name || strcmp(name, "auto") == 0;
    if (best) {
        for (int i = 0; i < ATTN_ISA_COUNT; i++)
            if (attn_isa_available((attn_isa)i))
                isa = (attn_isa)i;
        why = native_tiles() == TILES_DIFFER ? "best of this processor, but for amx, whose "
                                               "products differ from what they should be"
                                             : "best of this processor";
    } else if (!attn_isa_parse(name, &isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa",
                         "there is no instruction set \"%s\"; known are ref, avx2, avx512, amx",
                         name);
    } else if (!can_be_asked_for(isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa", "this processor lacks %s", name);
    }
    chosen = (int)isa;
    forced = !best;
    chosen_why = why;
    return ATTN_OK;
}

attn_isa attn_isa_current(void) {
    int isa = chosen;
    if (isa < 0) {
        if (attn_isa_choose(NULL, NULL) != ATTN_OK)
            attn_isa_choose("ref", NULL);
        isa = chosen;
    }
    return (attn_isa)isa;
}

const attn_kernels *attn_kernels_current(void) {
    return attn_kernels_of(attn_isa_current());
}

bool attn_isa_forced(void) {
    attn_isa_current();
    return forced;
}

const char *attn_isa_tiles(void) {
    if (attn_isa_current() != ATTN_ISA_AMX)
        return NULL;
    return native_tiles() == TILES_NATIVE ? "native" : "emulated";
}

const char *attn_isa_reason(void) {
    attn_isa_current();
    return chosen_why;
}
