/* Which instruction set: what the processor has, what was asked for. The one mutable global of the
 * library: the chosen table, set once at start. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static const attn_kernels *const tables[ATTN_ISA_COUNT] = {
    [ATTN_ISA_REF] = &attn_kernels_ref,
    [ATTN_ISA_AVX2] = &attn_kernels_avx2,
    [ATTN_ISA_AVX512] = &attn_kernels_avx512,
};

static _Atomic(const attn_kernels *) chosen;
static _Atomic(const char *) chosen_why = "not chosen yet";

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
