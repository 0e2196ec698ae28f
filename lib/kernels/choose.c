/* Which instruction set: what the processor has, what was asked for. The one mutable global of the
 * library: the chosen table, set once at start. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bf16.h"

static const attn_kernels *const tables[ATTN_ISA_COUNT] = {
    [ATTN_ISA_REF] = &attn_kernels_ref,
    [ATTN_ISA_AVX2] = &attn_kernels_avx2,
    [ATTN_ISA_AVX512] = &attn_kernels_avx512,
};

/* The other precisions, each made from a plain table the first time one is asked for; NULL: fp32 is
 * as fast. */
static attn_kernels made[ATTN_ISA_COUNT];
static attn_kernels made_fast_ref;
static const attn_kernels *precise[ATTN_ISA_COUNT][ATTN_PRECISION_COUNT];

static void make_precisions(void) {
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++) {
        made[isa] = *tables[isa];
        precise[isa][ATTN_PRECISION_FP32] = precise[isa][ATTN_PRECISION_FAST] = tables[isa];
        precise[isa][ATTN_PRECISION_BF16] = &made[isa];
    }
    made_fast_ref = attn_kernels_ref;
    attn_kernels_round_ref(&made_fast_ref, ATTN_PRECISION_FAST);
    precise[ATTN_ISA_REF][ATTN_PRECISION_FAST] = &made_fast_ref;
    attn_kernels_round_ref(&made[ATTN_ISA_REF], ATTN_PRECISION_BF16);
    attn_kernels_round_avx2(&made[ATTN_ISA_AVX2]);
    attn_kernels_round_avx512(&made[ATTN_ISA_AVX512]);
}

static _Atomic(const attn_kernels *) chosen;
static _Atomic(const char *) chosen_why = "not chosen yet";

const char *attn_precision_name(attn_precision precision) {
    static const char *const names[ATTN_PRECISION_COUNT] = {"fp32", "fast", "bf16"};
    return names[precision];
}

const char *attn_isa_name(attn_isa isa) {
    return tables[isa]->name;
}

bool attn_isa_available(attn_isa isa) {
    __builtin_cpu_init();
    switch (isa) {
    case ATTN_ISA_REF:
        return true;
    case ATTN_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case ATTN_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case ATTN_ISA_COUNT:
        break;
    }
    return false;
}

bool attn_isa_parse(const char *name, attn_isa *out) {
    for (int i = 0; i < ATTN_ISA_COUNT; i++)
        if (strcmp(name, tables[i]->name) == 0) {
            *out = (attn_isa)i;
            return true;
        }
    return false;
}

attn_status attn_isa_choose(const char *name, attn_error *err) {
    const char *why = "requested";
    if (!name || !*name || strcmp(name, "auto") == 0) {
        name = getenv("ATTN_ISA");
        why = "ATTN_ISA";
    }
    attn_isa isa = ATTN_ISA_REF;
    if (!name || !*name || strcmp(name, "auto") == 0) {
        why = "best of this processor";
        for (int i = 0; i < ATTN_ISA_COUNT; i++)
            if (attn_isa_available((attn_isa)i))
                isa = (attn_isa)i;
    } else if (!attn_isa_parse(name, &isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa",
                         "there is no instruction set \"%s\"; known are ref, avx2, avx512", name);
    } else if (!attn_isa_available(isa)) {
        return attn_fail(err, ATTN_EUNSUPPORTED, "isa", "this processor lacks %s", name);
    }
    chosen = tables[isa];
    chosen_why = why;
    return ATTN_OK;
}

const attn_kernels *attn_kernels_of(attn_isa isa) {
    return tables[isa];
}

const attn_kernels *attn_kernels_with(attn_isa isa, attn_precision precision, bool tanh_score) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)tanh_score;
    pthread_once(&once, make_precisions);
    return precise[isa][precision];
}

bool attn_kernels_find(const char *name, attn_precision precision, bool tanh_score, attn_isa *out) {
    for (int isa = 0; isa < ATTN_ISA_COUNT; isa++)
        if (attn_isa_available((attn_isa)isa) &&
            strcmp(attn_kernels_with((attn_isa)isa, precision, tanh_score)->name, name) == 0) {
            *out = (attn_isa)isa;
            return true;
        }
    return false;
}

const attn_kernels *attn_kernels_current(void) {
    const attn_kernels *k = chosen;
    if (!k) {
        if (attn_isa_choose(NULL, NULL) != ATTN_OK)
            attn_isa_choose("ref", NULL);
        k = chosen;
    }
    return k;
}

attn_isa attn_isa_current(void) {
    return attn_kernels_current()->isa;
}

const char *attn_isa_reason(void) {
    attn_kernels_current();
    return chosen_why;
}
